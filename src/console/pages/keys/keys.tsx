// The account's keys: what each may spend now, and how it is made, changed, replaced and revoked.

import { type ReactNode, useState } from 'react'
import { useQueryClient } from '@tanstack/react-query'
import { call } from '../../api/call.ts'
import { useCredits, useKeys } from '../../api/queries.ts'
import type { Key, MadeKey } from '../../api/wire.ts'
import { decimal, sumOf } from '../../strings/exact.ts'
import { count, moment, usd, usdShort } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Button, Empty, Failure, PageHead, Time } from '../../ui/basics.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { numeric, rightAligned, Table } from '../../ui/table.tsx'
import { useAct } from '../../ui/use-act.ts'
import { QueryState } from '../../ui/query-state.tsx'
import { Misbehave } from './misbehave.tsx'
import { KeyForm } from './key-form.tsx'
import { RevealedKey } from './revealed-key.tsx'

type Open =
  | { readonly kind: 'create' }
  | { readonly kind: 'edit' | 'rotate' | 'revoke'; readonly key: Key }
  /** Holds the text of a key, until it is closed: nothing else does. */
  | { readonly kind: 'revealed'; readonly made: MadeKey }

export function Keys() {
  const keys = useKeys()
  const client = useQueryClient()
  const [open, setOpen] = useState<Open | null>(null)
  const [all, setAll] = useState(false)
  const close = () => {
    setOpen(null)
    void client.invalidateQueries({ queryKey: ['keys'] })
  }
  const rows = (keys.data ?? []).filter((key) => all || key.state === 'active' || isRecent(key.revoked_at))
  const hidden = (keys.data?.length ?? 0) - rows.length
  return (
    <>
      <PageHead
        title={t('Keys')}
        about={t('A key is shown once, when it is made. What it spends is purchased credit.')}
      >
        <Button look="primary" onClick={() => setOpen({ kind: 'create' })}>
          {t('Create a key')}
        </Button>
      </PageHead>
      <QueryState query={keys} />
      {keys.data && rows.length === 0 && (
        <Empty title={t('There is no key yet.')}>
          <p>
            {t(
              'A program calls the gateway with a key. Create one, and the first call is a copy and paste away.',
            )}
          </p>
        </Empty>
      )}
      {rows.length > 0 && <KeyTable rows={rows} onOpen={setOpen} />}
      {(hidden > 0 || all) && (
        <p className="mt-3">
          <Button small look="quiet" onClick={() => setAll(!all)}>
            {all
              ? t('Hide what is over')
              : t('Show {count} more that are revoked or expired', { count: hidden })}
          </Button>
        </p>
      )}
      {rows.some(({ mode, state }) => mode === 'test' && state === 'active') && <Misbehave />}
      {open?.kind === 'create' && (
        <KeyForm onClose={close} onMade={(made) => setOpen({ kind: 'revealed', made })} />
      )}
      {open?.kind === 'edit' && <KeyForm existing={open.key} onClose={close} onMade={close} />}
      {open?.kind === 'rotate' && (
        <Rotate keyRow={open.key} onClose={close} onMade={(made) => setOpen({ kind: 'revealed', made })} />
      )}
      {open?.kind === 'revoke' && <Revoke keyRow={open.key} onClose={close} />}
      {open?.kind === 'revealed' && <RevealedKey made={open.made} onClose={close} />}
    </>
  )
}

const recentMs = 86_400_000

function isRecent(at: string | null): boolean {
  return at !== null && Date.now() - Date.parse(at) < recentMs
}

function KeyTable({ rows, onOpen }: { rows: readonly Key[]; onOpen: (open: Open) => void }) {
  return (
    <Table
      label={t('Keys')}
      columns={[
        t('Key'),
        numeric(t('Can spend now')),
        t('Limit'),
        t('Last used'),
        t('State'),
        rightAligned(t('Acts')),
      ]}
    >
      {rows.map((key) => (
        <tr key={key.id} className={key.state === 'active' ? '' : 'text-muted'}>
          <td className="min-w-40">
            <span className="font-medium">{key.name}</span>{' '}
            {key.mode === 'test' && <Badge tone="warn">{t('test')}</Badge>}
            <span className="block font-mono text-[12px] text-muted">…{key.last4}</span>
          </td>
          <td className="num">
            <CanSpend keyRow={key} />
          </td>
          <td className="whitespace-nowrap">
            <KeyLimit keyRow={key} />
          </td>
          <td>
            <Time at={key.last_used_at} none={t('never')} />
          </td>
          <td className="whitespace-nowrap">
            <KeyState keyRow={key} />
          </td>
          <td>
            {key.state === 'active' && (
              <div className="flex justify-end gap-1">
                {actsOn(key).map((kind) => (
                  <Button
                    key={kind}
                    small
                    look="quiet"
                    aria-label={`${t(actNames[kind])} ${key.name}`}
                    onClick={() => onOpen({ kind, key })}
                  >
                    {t(actNames[kind])}
                  </Button>
                ))}
              </div>
            )}
          </td>
        </tr>
      ))}
    </Table>
  )
}

/** A key that has been replaced has one successor: that one is replaced next. */
function actsOn({ replaced_by: replaced }: Key): readonly ('edit' | 'rotate' | 'revoke')[] {
  return replaced === null ? ['edit', 'rotate', 'revoke'] : ['edit', 'revoke']
}

const actNames = { edit: 'Change', rotate: 'Replace', revoke: 'Revoke' } as const

/** What the next call could spend, and which of the two bounds it is. */
function CanSpend({ keyRow }: { keyRow: Key }) {
  const { data: credits } = useCredits()
  if (keyRow.state !== 'active') return <span>–</span>
  const { spendable_usd: spendable } = keyRow
  // Test calls cost nothing.
  if (spendable === null) return <span title={t('Test calls are free.')}>{t('free')}</span>
  const left = leftOf(keyRow)
  return (
    <>
      <span className="font-medium" title={usd(spendable)}>
        {usdShort(spendable)}
      </span>
      <span className="block text-[12px] text-muted">
        {left !== null && `${t('limit {amount}', { amount: usdShort(left) })} · `}
        {credits && t('credit {amount}', { amount: usdShort(credits.spendable.api) })}
      </span>
    </>
  )
}

/** What the key's own limit leaves in the current window; null without one. */
function leftOf({ limit_usd: limit, spent_usd: spent }: Key): string | null {
  if (limit === null) return null
  const left = sumOf([limit, `-${spent}`])
  return left.units > 0n ? decimal(left) : '0'
}

const windowNames = { day: 'a day', week: 'a week', month: 'a month', total: 'in all' } as const

export function KeyLimit({ keyRow }: { keyRow: Key }) {
  const { limit_usd: limit, limit_window: window, spent_usd: spent, models, networks } = keyRow
  const { requests_per_minute: requests, tokens_per_minute: tokens } = keyRow
  const bounds: readonly (readonly [string, string?])[] = [
    ...(models === null ? [] : [[t('{count} models', { count: models.length }), models.join(', ')] as const]),
    ...(requests === null ? [] : [[t('{count} requests a minute', { count: count(requests) })] as const]),
    ...(tokens === null ? [] : [[t('{count} tokens a minute', { count: count(tokens) })] as const]),
    ...(networks === null
      ? []
      : [[t('{count} networks', { count: networks.length }), networks.join(', ')] as const]),
  ]
  return (
    <>
      {limit === null ? (
        <span className="text-muted">{t('none')}</span>
      ) : (
        <span className="tabular-nums" title={`${usd(spent)} / ${usd(limit)}`}>
          {usdShort(spent)} / {usdShort(limit)} {t(windowNames[window])}
        </span>
      )}
      {bounds.map(([text, whole]) => (
        <span key={text} className="block text-[12px] text-muted" title={whole}>
          {text}
        </span>
      ))}
    </>
  )
}

export function KeyState({ keyRow }: { keyRow: Key }) {
  const { state, revoked_at: revoked, expires_at: expires, replaced_by: replaced } = keyRow
  if (state === 'revoked') {
    return (
      <span title={revoked === null ? undefined : moment(revoked)}>
        <Badge tone="bad">{t('revoked')}</Badge> <Time at={revoked} />
      </span>
    )
  }
  if (state === 'expired') {
    return (
      <>
        <Badge>{t('expired')}</Badge> <Time at={expires} />
      </>
    )
  }
  // A replaced key works until its overlap ends.
  if (replaced !== null) {
    return (
      <>
        <Badge tone="warn">{t('replaced')}</Badge>
        {expires !== null && (
          <span className="block text-[12px] text-muted">
            {t('works until')} <Time at={expires} />
          </span>
        )}
      </>
    )
  }
  return (
    <>
      <Badge tone="good">{t('active')}</Badge>
      {expires !== null && (
        <span className="block text-[12px] text-muted">
          {t('until')} <Time at={expires} />
        </span>
      )}
    </>
  )
}

const overlaps = [
  ['0', 'at once'],
  ['1h', '1 hour'],
  ['24h', '24 hours'],
  ['7d', '7 days'],
] as const

function Rotate({
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

function Revoke({ keyRow, onClose }: { keyRow: Key; onClose: () => void }) {
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
              <>
                {t('Last used')} <Time at={keyRow.last_used_at} />.
              </>
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
            {t('Revoked. It took effect at')}{' '}
            <strong className="font-medium tabular-nums">
              {revoked.revoked_at === null ? '' : moment(revoked.revoked_at)}
            </strong>
            {'. '}
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
