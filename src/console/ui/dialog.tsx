// A modal dialog: the browser's own, which keeps the focus, closes on Escape and makes the page behind it inert.

import { type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { t } from '../strings/text.ts'
import { Button, Code, Note } from './basics.tsx'
import { ActForm } from './form.tsx'

interface DialogProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ReactNode
  readonly wide?: boolean
  /** Not closed by Escape, for content that is shown only once. */
  readonly firm?: boolean
}

/** Shown as long as it is rendered. */
export function Dialog({ title, onClose, children, wide = false, firm = false }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  useEffect(() => {
    const element = dialog.current!
    element.showModal()
    return () => element.close()
  }, [])
  return (
    <dialog
      ref={dialog}
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        if (!firm) onClose()
      }}
      className={`card m-auto max-h-[92dvh] w-[calc(100vw-1.5rem)] overflow-y-auto p-5 text-start shadow-xl ${wide ? 'max-w-2xl' : 'max-w-md'}`}
    >
      <div className="mb-4 flex items-start gap-3">
        <h2 id={titleId} className="flex-1 text-base font-semibold">
          {title}
        </h2>
        {!firm && (
          <Button small look="quiet" aria-label={t('Close')} onClick={onClose}>
            ✕
          </Button>
        )}
      </div>
      {children}
    </dialog>
  )
}

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
