// Renames the open conversation.

import { useState } from 'react'
import { t } from '../strings/text.ts'
import { Button } from '../ui/basics.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { textOf, TextField } from '../ui/form.tsx'
import { ActForm } from '../ui/act-form.tsx'

const longestTitle = 200

export function Rename({ title, onRename }: { title: string; onRename: (title: string) => Promise<void> }) {
  const [open, setOpen] = useState(false)
  const rename = async (given: FormData) => {
    const name = textOf(given, 'title')
    if (name === undefined) return
    await onRename(name)
    setOpen(false)
  }
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {t('Rename')}
      </Button>
      {open && (
        <Dialog title={t('Rename the conversation')} onClose={() => setOpen(false)}>
          <ActForm onSubmit={rename} action={t('Save')}>
            <TextField
              label={t('Title')}
              name="title"
              defaultValue={title}
              maxLength={longestTitle}
              required
              autoFocus
            />
          </ActForm>
        </Dialog>
      )}
    </>
  )
}
