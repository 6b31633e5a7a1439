// The conversations beside the open one: found, opened, renamed and deleted.

import { useQueryClient } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { ConversationView } from '../../http/console/answers.ts'
import { call, useConversations } from '../api/call.ts'
import { ago, t } from '../strings/text.ts'
import { ActForm, Button, Dialog, Failure, TextField, textOf } from '../ui/kit.tsx'
import { stopAnswerIn } from './open-thread.ts'

interface ConversationsProps {
  readonly current: string | undefined
  readonly onNew: () => void
  /** One has been chosen, or a new one. */
  readonly onOpened: () => void
}

export function Conversations({ current, onNew, onOpened }: ConversationsProps) {
  const { data, error } = useConversations()
  const client = useQueryClient()
  const [, navigate] = useLocation()
  const [q, setQ] = useState('')
  const shown = useMemo(
    () => data?.filter(({ title }) => title.toLowerCase().includes(q.toLowerCase())) ?? [],
    [data, q],
  )
  const [deleting, setDeleting] = useState<ConversationView | null>(null)
  const remove = async ({ id }: ConversationView) => {
    await call('DELETE', `conversations/${encodeURIComponent(id)}`)
    stopAnswerIn(id)
    if (id === current) navigate('/chat')
    await client.invalidateQueries({ queryKey: ['conversations'] })
    setDeleting(null)
  }
  return (
    <>
      <Link
        href="/chat"
        onClick={() => {
          onNew()
          onOpened()
        }}
        className="mb-2 inline-flex h-9 items-center justify-center rounded-md border border-line-strong font-medium hover:bg-paper"
      >
        {t('New chat')}
      </Link>
      <input
        type="search"
        aria-label={t('Search conversations')}
        placeholder={t('Search')}
        value={q}
        onChange={(event) => setQ(event.target.value)}
        className="control mb-2"
      />
      {error && <Failure error={error} />}
      <nav aria-label={t('Conversations')} className="flex-1 overflow-y-auto">
        <ul className="grid grid-cols-[minmax(0,1fr)] gap-0.5">
          {shown.map((conversation) => (
            <li key={conversation.id} className="group flex items-center">
              <Link
                href={`/chat/${conversation.id}`}
                onClick={onOpened}
                aria-current={conversation.id === current ? 'page' : undefined}
                className={`min-w-0 flex-1 rounded-md px-2 py-1.5 ${
                  conversation.id === current ? 'bg-accent-soft text-accent' : 'hover:bg-paper'
                }`}
              >
                <span dir="auto" className="block truncate">
                  {conversation.title}
                </span>
                <span className="block text-[12px] text-muted">{ago(conversation.updated_at)}</span>
              </Link>
              <Button
                small
                look="quiet"
                aria-label={t('Delete {title}', { title: conversation.title })}
                className="-ml-7 bg-panel opacity-0 group-hover:opacity-100 focus-visible:opacity-100 pointer-coarse:opacity-100"
                onClick={() => setDeleting(conversation)}
              >
                ✕
              </Button>
            </li>
          ))}
        </ul>
      </nav>
      {deleting && (
        <Dialog title={t('Delete the conversation')} onClose={() => setDeleting(null)}>
          <ActForm onSubmit={() => remove(deleting)} action={t('Delete for good')} look="danger">
            <p className="break-words" dir="auto">
              {deleting.title}
            </p>
            <p className="text-muted">
              {t('Its questions and answers are deleted. What they cost stays in the list of requests.')}
            </p>
          </ActForm>
        </Dialog>
      )}
    </>
  )
}

// Renames the open conversation.

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
            />
          </ActForm>
        </Dialog>
      )}
    </>
  )
}
