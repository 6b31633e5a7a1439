// The conversations beside the open one: found by title or by what was said, opened, and deleted. Pinned ones come first,
// then folders, then the rest.

import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { type ReactNode, useDeferredValue, useEffect, useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { ConversationSearchView, ConversationView } from '../../http/console/answers.ts'
import { call, refresh, send, useConversations } from '../api/call.ts'
import { ago, count, t } from '../strings/text.ts'
import { ActForm, Button, Dialog, Failure } from '../ui/kit.tsx'
import { isTextList, useRemembered } from '../ui/remembered.ts'
import { ImportButton } from './exports.tsx'
import { stopAnswerIn } from './open-thread.ts'

interface ConversationsProps {
  readonly current: string | undefined
  readonly onNew: () => void
  /** One has been chosen, or a new one. */
  readonly onOpened: () => void
}

export function Conversations({ current, onNew, onOpened }: ConversationsProps) {
  const { data, error } = useConversations()
  const [, navigate] = useLocation()
  const [typed, setTyped] = useState('')
  const q = useDeferredValue(typed).trim()
  const [deleting, setDeleting] = useState<ConversationView | null>(null)
  const remove = async ({ id }: ConversationView) => {
    await call('DELETE', `conversations/${encodeURIComponent(id)}`)
    stopAnswerIn(id)
    if (id === current) navigate('/chat')
    await refresh('conversations')
    setDeleting(null)
  }
  const listOf = (some: readonly ConversationView[]) => (
    <ul className="grid grid-cols-[minmax(0,1fr)] gap-0.5">
      {some.map((conversation) => (
        <Entry
          key={conversation.id}
          conversation={conversation}
          isCurrent={conversation.id === current}
          onOpened={onOpened}
          onDelete={() => setDeleting(conversation)}
        />
      ))}
    </ul>
  )
  return (
    <>
      <Link
        href="/chat"
        onClick={() => {
          onNew()
          onOpened()
        }}
        className="mb-2 inline-flex h-9 shrink-0 items-center justify-center rounded-md border border-line-strong font-medium hover:bg-paper"
      >
        {t('New chat')}
      </Link>
      <input
        type="search"
        aria-label={t('Search conversations')}
        placeholder={t('Search')}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
        className="control mb-2 shrink-0"
      />
      {error && <Failure error={error} />}
      <nav aria-label={t('Conversations')} className="flex-1 overflow-y-auto">
        {q === '' ? (
          <Places all={data ?? []} listOf={listOf} />
        ) : (
          <>
            {listOf(data?.filter(({ title }) => title.toLowerCase().includes(q.toLowerCase())) ?? [])}
            {q.length > 1 && <TextMatches q={q} current={current} onOpened={onOpened} />}
          </>
        )}
      </nav>
      <div className="-ml-1 shrink-0 pt-2">
        <ImportButton />
      </div>
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

/** Conversations under their heading. */
interface Place {
  readonly name: string
  readonly kind: 'pinned' | 'folder' | 'rest'
  readonly conversations: readonly ConversationView[]
}

/** Pinned conversations, those of each folder by its name, and the rest; each once, in their order. */
export function placesOf(all: readonly ConversationView[]): readonly Place[] {
  const loose = all.filter(({ pinned }) => !pinned)
  const folders = Map.groupBy(
    loose.filter(({ folder }) => folder !== null),
    ({ folder }) => folder!,
  )
  const places: readonly Place[] = [
    { name: 'Pinned', kind: 'pinned', conversations: all.filter(({ pinned }) => pinned) },
    ...[...folders]
      .toSorted(([a], [b]) => a.localeCompare(b))
      .map(([name, conversations]) => ({ name, kind: 'folder' as const, conversations })),
    { name: '', kind: 'rest', conversations: loose.filter(({ folder }) => folder === null) },
  ]
  return places.filter(({ conversations }) => conversations.length > 0)
}

interface PlacesProps {
  readonly all: readonly ConversationView[]
  readonly listOf: (some: readonly ConversationView[]) => ReactNode
}

const none: readonly string[] = []

function Places({ all, listOf }: PlacesProps) {
  const [folded, setFolded] = useRemembered('weir.folded-folders', none, isTextList)
  return placesOf(all).map(({ name, kind, conversations }) => {
    if (kind === 'rest') return <div key="rest">{listOf(conversations)}</div>
    const heading = kind === 'pinned' ? t('Pinned') : name
    const id = kind === 'pinned' ? '' : name
    return (
      <details
        key={`${kind} ${name}`}
        open={!folded.includes(id)}
        onToggle={({ currentTarget: { open } }) => {
          if (open === folded.includes(id))
            setFolded(open ? folded.filter((other) => other !== id) : [...folded, id])
        }}
        className="mb-2"
      >
        <summary className="truncate px-2 py-1 text-[12px] font-medium text-muted" dir="auto">
          {heading}
        </summary>
        {listOf(conversations)}
      </details>
    )
  })
}

interface EntryProps {
  readonly conversation: ConversationView
  readonly isCurrent: boolean
  readonly onOpened: () => void
  readonly onDelete: () => void
}

function Entry({ conversation: { id, title, updated_at: at }, isCurrent, onOpened, onDelete }: EntryProps) {
  return (
    <li className="group flex items-center">
      <Link
        href={`/chat/${id}`}
        onClick={onOpened}
        aria-current={isCurrent ? 'page' : undefined}
        className={`min-w-0 flex-1 rounded-md px-2 py-1.5 ${
          isCurrent ? 'bg-accent-soft text-accent' : 'hover:bg-paper'
        }`}
      >
        <span dir="auto" className="block truncate">
          {title}
        </span>
        <span className="block text-[12px] text-muted">{ago(at)}</span>
      </Link>
      <Button
        small
        look="quiet"
        aria-label={t('Delete {title}', { title })}
        className="-ml-7 bg-panel opacity-0 group-hover:opacity-100 focus-visible:opacity-100 pointer-coarse:opacity-100"
        onClick={onDelete}
      >
        ✕
      </Button>
    </li>
  )
}

/** How long typing rests before what was said is searched. */
const restMs = 300

interface TextMatchesProps {
  readonly q: string
  readonly current: string | undefined
  readonly onOpened: () => void
}

/** Conversations in which it was said. */
function TextMatches({ q, current, onOpened }: TextMatchesProps) {
  const [asked, setAsked] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setAsked(q), restMs)
    return () => clearTimeout(timer)
  }, [q])
  const { data, error } = useQuery({
    queryKey: ['conversation-search', asked],
    queryFn: async ({ signal }) => {
      const words = new URLSearchParams({ q: asked })
      const answer = await send(`/console/api/conversation-search?${words}`, { signal })
      return (await answer.json()) as ConversationSearchView
    },
    enabled: asked !== '',
    placeholderData: keepPreviousData,
  })
  if (error) return <Failure error={error} />
  const isPartial = data !== undefined && data.searched < data.of
  return (
    <section className="mt-3" aria-label={t('In what was said')}>
      <h2 className="px-2 py-1 text-[12px] font-medium text-muted">{t('In what was said')}</h2>
      <ul className="grid grid-cols-[minmax(0,1fr)] gap-0.5">
        {data?.data.map(({ id, title, snippet }) => (
          <li key={id}>
            <Link
              href={`/chat/${id}`}
              onClick={onOpened}
              aria-current={id === current ? 'page' : undefined}
              className="block rounded-md px-2 py-1.5 hover:bg-paper"
            >
              <span dir="auto" className="block truncate">
                {title}
              </span>
              <span dir="auto" className="block text-[12px] wrap-anywhere text-muted">
                {snippet}
              </span>
            </Link>
          </li>
        ))}
      </ul>
      <p role="status" className="px-2 py-1 text-[12px] text-muted">
        {data === undefined || q !== asked
          ? t('Searching …')
          : isPartial
            ? t('The latest {searched} of {all} conversations were searched.', {
                searched: count(data.searched),
                all: count(data.of),
              })
            : data.data.length === 0
              ? t('Nobody said it.')
              : ''}
      </p>
    </section>
  )
}
