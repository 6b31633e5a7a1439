// Another title for the open conversation.

import { type FormEvent, useState } from 'react'
import { useAct } from '../session/signed-out.tsx'
import { t } from '../strings/text.ts'
import { Button, Failure } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { textOf, TextField } from '../ui/form.tsx'

const longestTitle = 200

export function Rename({ title, onRename }: { title: string; onRename: (title: string) => Promise<void> }) {
  const [open, setOpen] = useState(false)
  const { error, busy, act } = useAct()
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const name = textOf(new FormData(event.currentTarget), 'title')
    if (name === undefined) return
    void act(async () => {
      await onRename(name)
      setOpen(false)
    })
  }
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {t('Rename')}
      </Button>
      {open && (
        <Dialog title={t('Rename the conversation')} onClose={() => setOpen(false)}>
          <form onSubmit={submit} className="grid gap-3.5">
            <TextField
              label={t('Title')}
              name="title"
              defaultValue={title}
              maxLength={longestTitle}
              required
              autoFocus
            />
            {error !== null && <Failure error={error} />}
            <div>
              <Button type="submit" look="primary" busy={busy}>
                {t('Save')}
              </Button>
            </div>
          </form>
        </Dialog>
      )}
    </>
  )
}
