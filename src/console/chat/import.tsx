// Conversations of other programs, taken over from their exports: read in the browser, stored one after the other.

import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, faultIn } from '../api/call.ts'
import { count, t } from '../strings/text.ts'
import { Button, Dialog, Failure, Note, useAct } from '../ui/kit.tsx'
import { readExport } from './exports.ts'

/** Of a file, and of one conversation, as the gateway takes it. */
const mostFileBytes = 200 * 1024 ** 2
const mostConversationBytes = 1_000_000
const mostTurns = 2_000
const mostText = 400_000

interface Outcome {
  readonly from: string
  readonly stored: number
  readonly all: number
  readonly empty: number
  /** With why they were left out. */
  readonly left: readonly { readonly title: string; readonly why: string }[]
}

export function ImportButton() {
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button small look="quiet" onClick={() => setOpen(true)}>
        {t('Import')}
      </Button>
      {open && (
        <Dialog title={t('Import conversations')} onClose={() => setOpen(false)}>
          <ImportForm />
        </Dialog>
      )}
    </>
  )
}

function ImportForm() {
  const client = useQueryClient()
  const { error, busy, act } = useAct()
  const [outcome, setOutcome] = useState<Outcome | null>(null)
  const take = (file: File | undefined) =>
    void act(async () => {
      setOutcome(null)
      if (!file) return
      if (file.size > mostFileBytes)
        throw new Error(t('The file is larger than 200 MB. Nothing was imported.'))
      const { from, conversations, empty } = readExport(await file.text())
      const left: Outcome['left'][number][] = []
      let stored = 0
      const show = () => setOutcome({ from, stored, all: conversations.length, empty, left: [...left] })
      // The latest comes first in an export: it is stored last, and stands first in the list.
      for (const conversation of conversations.toReversed()) {
        const { title, turns } = conversation
        const isLong =
          turns.length > mostTurns ||
          turns.some(({ question, answer }) => Math.max(question.length, answer.length) > mostText)
        if (isLong || new Blob([JSON.stringify(conversation)]).size > mostConversationBytes)
          left.push({ title, why: t('It is larger than 1 MB.') })
        else {
          try {
            await call('POST', 'imported-conversations', { ...conversation, folder: from })
            stored++
          } catch (thrown) {
            const { status, message } = faultIn(thrown)
            // A refusal is of this one; without an answer the next would get none either.
            if (status === 0 || status >= 500 || status === 401) {
              show()
              throw thrown
            }
            left.push({ title, why: message })
          }
        }
        show()
      }
      show()
      await client.invalidateQueries({ queryKey: ['conversations'] })
    })
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-3">
      <p className="text-muted">
        {t(
          'From ChatGPT or Claude (conversations.json of the export), Open WebUI (its export of chats) or this chat (JSON). Texts are taken over, files are not. They lie in a folder with the name of their origin.',
        )}
      </p>
      <input
        type="file"
        accept="application/json,.json"
        aria-label={t('File of the export')}
        className="file:mr-3 file:h-9 file:rounded-md file:border file:border-line-strong file:bg-panel file:px-3 file:font-medium"
        disabled={busy}
        onChange={({ target }) => {
          take(target.files?.[0])
          target.value = ''
        }}
      />
      {error !== null && <Failure error={error} />}
      {outcome && (
        <Note role="status" tone={busy ? 'plain' : 'good'}>
          {t('{from}: {stored} of {all} conversations are imported.', {
            from: outcome.from,
            stored: count(outcome.stored),
            all: count(outcome.all),
          })}{' '}
          {outcome.empty > 0 && t('{count} hold nothing that was said.', { count: count(outcome.empty) })}
        </Note>
      )}
      {outcome && outcome.left.length > 0 && (
        <ul aria-label={t('Left out')} className="max-h-48 overflow-y-auto text-[13px]" tabIndex={0}>
          {outcome.left.map(({ title, why }, index) => (
            <li key={index} dir="auto" className="break-words">
              {title}: <span className="text-muted">{why}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  )
}
