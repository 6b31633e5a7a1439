import { t } from '../strings/text.ts'
import { Button } from './basics.tsx'

/** Revokes a row of a table; screen readers hear which. */
export function RevokeButton({
  name,
  busy,
  onRevoke,
}: {
  name: string
  busy: boolean
  onRevoke: () => void
}) {
  return (
    <Button small look="danger" busy={busy} aria-label={t('Revoke {name}', { name })} onClick={onRevoke}>
      {t('Revoke')}
    </Button>
  )
}
