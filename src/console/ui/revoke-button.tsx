import { useState } from 'react'
import { t } from '../strings/text.ts'
import { Button } from './basics.tsx'
import { ActForm } from './act-form.tsx'
import { Dialog } from './dialog.tsx'

/** Revokes a row of a table, once that is confirmed: nothing brings it back. Screen readers hear which row. */
export function RevokeButton({
  name,
  consequence,
  revoke,
}: {
  name: string
  consequence: string
  /** Rejects with what the gateway refuses it for, which is shown. */
  revoke: () => Promise<void>
}) {
  const [asking, setAsking] = useState(false)
  const close = () => setAsking(false)
  return (
    <>
      <Button small look="danger" aria-label={t('Revoke {name}', { name })} onClick={() => setAsking(true)}>
        {t('Revoke')}
      </Button>
      {asking && (
        <Dialog title={t('Revoke {name}', { name })} onClose={close}>
          <ActForm onSubmit={revoke} action={t('Revoke')} look="danger">
            <p>{consequence}</p>
          </ActForm>
        </Dialog>
      )}
    </>
  )
}
