// A modal dialog: the browser's own, which keeps the focus, closes on Escape and makes the page behind it inert.

import { type ReactNode, useEffect, useId, useRef } from 'react'
import { t } from '../strings/text.ts'
import { Button } from './basics.tsx'

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
