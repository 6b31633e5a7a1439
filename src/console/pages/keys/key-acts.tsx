// Dialogs that replace and revoke a key.

import { type ReactNode, useState } from 'react'
import { call } from '../../api/call.ts'
import type { Key, MadeKey } from '../../api/wire.ts'
import { moment } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Button, Failure, TimeIn } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { useAct } from '../../ui/use-act.ts'

const overlaps = [
  ['0', 'at once'],
  ['1h', '1 hour'],
  ['24h', '24 hours'],
  ['7d', '7 days'],
] as const

export function Rotate({
  keyRow,
  onClose,
  onMade,
}: {
  keyRow: Key
  onClose: () => void
  onMade: (made: MadeKey) => void
}) {
  const { error, busy, act } = useAct()
  const [overlap, setOverlap] = useState('24h')
  const rotate = () =>
    act(async () =>
      onMade(await call<MadeKey>('POST', `keys/${encodeURIComponent(keyRow.id)}/rotate`, { overlap })),
    )
  return (
    <Dialog title={t('Replace {name}', { name: keyRow.name })} onClose={onClose}>
      <div className="grid gap-4">
        <p>
          {t(
            'A new key with the same rights is made. The old one goes on working for a while, so that nothing stops.',
          )}
        </p>
        <fieldset>
          <legend className="mb-1 text-[13px] font-medium">{t('The old key ends after')}</legend>
          <div className="flex flex-wrap gap-x-4 gap-y-1">
            {overlaps.map(([value, name]) => (
              <label key={value} className="inline-flex items-center gap-1.5">
                <input
                  type="radio"
                  name="overlap"
                  checked={overlap === value}
                  onChange={() => setOverlap(value)}
                />
                {t(name)}
              </label>
            ))}
          </div>
        </fieldset>
        {error !== null && <Failure error={error} />}
        <Ends onClose={onClose}>
          <Button look="primary" busy={busy} onClick={() => void rotate()}>
            {t('Replace')}
          </Button>
        </Ends>
      </div>
    </Dialog>
  )
}

export function Revoke({ keyRow, onClose }: { keyRow: Key; onClose: () => void }) {
  const { error, busy, act } = useAct()
  const [revoked, setRevoked] = useState<Key | null>(null)
  const revoke = () =>
    act(async () => setRevoked(await call<Key>('DELETE', `keys/${encodeURIComponent(keyRow.id)}`)))
  return (
    <Dialog title={t('Revoke {name}', { name: keyRow.name })} onClose={onClose}>
      {revoked === null ? (
        <div className="grid gap-4">
          <p>
            {t('Calls with …{last4} are refused from then on, and nothing brings the key back.', {
              last4: keyRow.last4,
            })}
          </p>
          <p className="text-muted">
            {keyRow.last_used_at === null ? (
              t('It has never been used.')
            ) : (
              <TimeIn sentence={t('It was last used {time}.')} at={keyRow.last_used_at} />
            )}
          </p>
          {error !== null && <Failure error={error} />}
          <Ends onClose={onClose}>
            <Button look="danger" busy={busy} onClick={() => void revoke()}>
              {t('Revoke the key')}
            </Button>
          </Ends>
        </div>
      ) : (
        <div className="grid gap-4">
          <p role="status">
            {revoked.revoked_at !== null &&
              t('Revoked. It took effect at {time}.', { time: moment(revoked.revoked_at) })}{' '}
            {t('Calls that were running then are finished and charged.')}
          </p>
          <div className="flex justify-end">
            <Button look="primary" autoFocus onClick={onClose}>
              {t('Done')}
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  )
}

function Ends({ onClose, children }: { onClose: () => void; children: ReactNode }) {
  return (
    <div className="flex justify-end gap-2">
      <Button onClick={onClose}>{t('Cancel')}</Button>
      {children}
    </div>
  )
}
