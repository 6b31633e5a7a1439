import { Button, Code, Note } from './basics.tsx'
import { Dialog } from './dialog.tsx'

interface ShownOnceProps {
  readonly title: string
  readonly warning: string
  readonly secret: string
  /** What the secret is, for screen readers. */
  readonly label: string
  /** The button that closes the dialog. */
  readonly done: string
  readonly onClose: () => void
}

/** A secret, the only time that it is shown: Escape does not close the dialog. */
export function ShownOnce({ title, warning, secret, label, done, onClose }: ShownOnceProps) {
  return (
    <Dialog title={title} onClose={onClose} firm>
      <div className="grid gap-3">
        <Note tone="warn">{warning}</Note>
        <Code text={secret} label={label} />
        <div>
          <Button look="primary" onClick={onClose}>
            {done}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}
