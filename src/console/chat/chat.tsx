// The chat app: conversations on one side, the open one on the other.

import { useQueryClient } from '@tanstack/react-query'
import { memo, useEffect, useId, useMemo, useRef, useState } from 'react'
import { Link, useLocation, useParams } from 'wouter'
import type { ConversationView } from '../../http/console/answers.ts'
import { call, useConversations, useCredits, useModels } from '../api/call.ts'
import { appOrder, poolBars, poolName, poolNames } from '../pages/words.tsx'
import { ago, count, t, usd, usdShort } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Copy,
  Dialog,
  Failure,
  Loading,
  Note,
  saveFile,
  TextField,
  textOf,
} from '../ui/kit.tsx'
import { Composer, ModelPicker, pickedOf, usePickedModel } from './composer.tsx'
import { Markdown } from './markdown.tsx'
import { type AskedTurn, type OpenThread, stopAnswerIn, useThread } from './open-thread.ts'
import type { Answer, Approval, ApprovalRequest, Attachment, ToolRun, ChatTurn } from './thread.ts'

export default function Chat() {
  const { id } = useParams<{ id?: string }>()
  const { thread, turns, title, loading, error, startAnew, ...shown } = useThread(id)
  const { data: models, refetch } = useModels()
  const [picked, pick] = usePickedModel(models)
  const [edited, setDraft] = useState<Draft | null>(null)
  // Another conversation has other turns in these places.
  const draft = edited?.thread === thread ? edited : null
  const list = useId()
  const hideList = () => document.getElementById(list)?.hidePopover()
  const busy = turns.at(-1)?.answer.state === 'running'
  const end = useStuckToEnd(turns)
  const [searches, setSearches] = useState(false)
  const [servers, setServers] = useState<readonly string[]>([])
  /** Resolves with whether it was asked: not without a model. */
  const ask = async (keep: number, asked: AskedTurn, more: readonly string[] = []): Promise<boolean> => {
    // A question may be sent before the models are known.
    const model = picked ?? pickedOf((await refetch({ cancelRefetch: false })).data ?? [])
    if (!model) return false
    setDraft(null)
    const all = [...new Set([...servers, ...more])]
    void thread.send(keep, asked, { model: model.id, reasons: model.reasoning, searches, servers: all })
    return true
  }
  /** Continues the answer with the servers that it called. */
  const decide = (index: number, turn: ChatTurn, approvals: readonly Approval[]) => {
    const asked = { text: '', attachments: [], approvals }
    void ask(index + 1, asked, serversFor(asked, turn))
  }
  return (
    <div className="flex h-[calc(100dvh-3.3rem)] lg:h-dvh">
      <div className="hidden w-60 shrink-0 flex-col border-r border-line p-3 xl:flex">
        <Conversations current={id} onNew={startAnew} onOpened={hideList} />
      </div>
      <div
        id={list}
        popover="auto"
        className="m-0 h-dvh w-72 flex-col border-r border-line bg-panel p-3 shadow-xl open:flex"
      >
        <Conversations current={id} onNew={startAnew} onOpened={hideList} />
      </div>
      <div className="flex min-w-0 flex-1 flex-col">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1 border-b border-line px-3 py-2">
          <button
            type="button"
            popoverTarget={list}
            className="inline-flex h-7 shrink-0 items-center rounded-md px-2 text-[13px] font-medium text-accent hover:bg-accent-soft xl:hidden"
          >
            {t('Conversations')}
          </button>
          <h1
            dir="auto"
            className="min-w-0 flex-1 truncate font-medium max-sm:order-last max-sm:basis-full max-sm:px-2"
          >
            {title || t('New chat')}
          </h1>
          {id !== undefined && title !== '' && (
            <Rename title={title} onRename={(name) => thread.rename(name)} />
          )}
          {turns.length > 0 && (
            <Button
              small
              look="quiet"
              onClick={() => saveFile('conversation.md', 'text/markdown', asMarkdown(title, turns))}
            >
              {t('Export')}
            </Button>
          )}
          <ModelPicker models={models} picked={picked} onPick={pick} />
        </div>
        <div
          ref={end.box}
          onScroll={end.onScroll}
          className="flex-1 overflow-y-auto"
          tabIndex={0}
          role="region"
          aria-label={t('Conversation')}
        >
          <div className="mx-auto max-w-3xl px-4 py-5">
            {loading && <Loading />}
            {error !== null && <Failure error={error} />}
            {shown.forgotten && (
              <Note role="status">
                {t('What was said here is not stored any more. Your next question begins anew.')}
              </Note>
            )}
            {!loading && turns.length === 0 && error === null && !shown.forgotten && <Greeting />}
            {turns.map((turn, index) => (
              <TurnView
                key={turn.key}
                turn={turn}
                locked={busy || picked === undefined}
                decided={turns[index + 1]?.approvals}
                onEdit={() =>
                  setDraft({ thread, keep: index, text: turn.text, attachments: turn.attachments })
                }
                onAgain={() => void ask(index, turn, serversFor(turn, turns[index - 1]))}
                onDecide={(approvals) => decide(index, turn, approvals)}
              />
            ))}
            {shown.answeredElsewhere && (
              <Note role="status">{t('An answer in this conversation is still being written.')}</Note>
            )}
          </div>
        </div>
        <p role="status" className="sr-only">
          {turns.length === 0 ? '' : t(states[turns.at(-1)!.answer.state])}
        </p>
        <div className="border-t border-line">
          <div className="mx-auto max-w-3xl px-4 py-3">
            <Composer
              key={draft === null ? 'new' : `edit ${draft.keep}`}
              draft={draft}
              busy={busy}
              ready={models === undefined || picked !== undefined}
              searches={searches}
              onSearches={setSearches}
              servers={servers}
              onServers={setServers}
              onCancel={() => setDraft(null)}
              onStop={() => thread.stop()}
              onSend={(text, attachments) =>
                ask(draft?.keep ?? turns.length, { text, attachments, approvals: [] })
              }
            />
            <PoolMeter />
          </div>
        </div>
      </div>
    </div>
  )
}

/** What a screen reader says of the last answer; a failure is an alert of its own. */
const states: Readonly<Record<Answer['state'], string>> = {
  running: 'The answer is being written.',
  done: 'The answer is finished.',
  cut: 'The answer is finished.',
  stopped: 'The answer was stopped.',
  failed: '',
}

/** Approved calls can only run if their server is declared. */
function serversFor({ approvals }: AskedTurn, before: ChatTurn | undefined): readonly string[] {
  return approvals.length === 0 ? [] : (before?.answer.requests ?? []).map(({ server }) => server)
}

interface Draft {
  readonly thread: OpenThread
  readonly keep: number
  readonly text: string
  readonly attachments: readonly Attachment[]
}

function Greeting() {
  return (
    <div className="py-16 text-center">
      <p className="text-lg font-semibold">{t('Ask something.')}</p>
      <p className="mx-auto mt-2 max-w-md text-muted">
        {t(
          'A chat spends the daily credit first, then subscription, welcome and purchased credit. Each answer says what it cost.',
        )}
      </p>
    </div>
  )
}

/** Keeps the end of the conversation visible while an answer grows, unless the user has scrolled up. */
function useStuckToEnd(turns: readonly unknown[]) {
  const box = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  const count = useRef(0)
  useEffect(() => {
    if (turns.length !== count.current) stuck.current = true
    count.current = turns.length
    if (stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [turns])
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!
    stuck.current = scrollHeight - scrollTop - clientHeight < 60
  }
  return { box, onScroll }
}

interface ConversationsProps {
  readonly current: string | undefined
  readonly onNew: () => void
  /** One has been chosen, or a new one. */
  readonly onOpened: () => void
}

function Conversations({ current, onNew, onOpened }: ConversationsProps) {
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

/** A conversation as a document of markdown. */
function asMarkdown(title: string, turns: readonly ChatTurn[]): string {
  const parts = turns.map(({ text, attachments, approvals, answer }) =>
    [
      `## You`,
      ...attachments.map(({ name }) => `*attached: ${name}*`),
      ...approvals.map(({ approve }) => (approve ? '*approved the call*' : '*denied the call*')),
      text,
      `## ${answer.model}`,
      ...(answer.reasoning === ''
        ? []
        : [`<details><summary>Reasoning</summary>\n\n${answer.reasoning}\n\n</details>`]),
      answer.text,
      ...(answer.sources.length === 0
        ? []
        : [answer.sources.map(({ url, title }, at) => `${at + 1}. [${title}](${url})`).join('\n')]),
      ...(answer.cost === null ? [] : [`*${answer.cost} USD*`]),
    ].join('\n\n'),
  )
  return `# ${title}\n\n${parts.join('\n\n')}\n`
}

/** The pools in the order in which a chat spends them, with widths by their credit. */
function PoolMeter() {
  const { data: credits } = useCredits()
  if (!credits) return <p className="mt-2 h-4" />
  const pools = appOrder.flatMap((type) =>
    credits.pools.filter((pool) => pool.type === type && Number(pool.remaining) > 0),
  )
  if (pools.length === 0)
    return <p className="mt-2 text-[12px] text-warn">{t('There is no credit for a chat now.')}</p>
  // By the square root: otherwise twenty cents would be invisible beside a hundred dollars.
  const widths = pools.map(({ remaining }) => Math.sqrt(Number(remaining)))
  const sum = widths.reduce((total, width) => total + width, 0)
  return (
    <div className="mt-2">
      <div className="flex h-1.5 gap-px overflow-hidden rounded-full" aria-hidden="true">
        {pools.map(({ type }, index) => (
          <div key={type} className={poolBars[type]} style={{ width: `${(widths[index]! / sum) * 100}%` }} />
        ))}
      </div>
      <ul className="mt-1 flex flex-wrap gap-x-3 text-[12px] text-muted" aria-label={t('Credit for chats')}>
        {pools.map(({ type, remaining }) => (
          <li key={type} className="flex items-center gap-1.5" title={usd(remaining)}>
            <span className={`size-2 rounded-sm ${poolBars[type]}`} aria-hidden="true" />
            {t(poolNames[type])} <span className="tabular-nums">{usdShort(remaining)}</span>
          </li>
        ))}
      </ul>
    </div>
  )
}

// Renames the open conversation.

const longestTitle = 200

function Rename({ title, onRename }: { title: string; onRename: (title: string) => Promise<void> }) {
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

// One question and its answer: reasoning and tools folded, the text as it grows, and its cost.

interface TurnProps {
  readonly turn: ChatTurn
  /** While an answer is being written, no other question can be sent. */
  readonly locked: boolean
  /** The decisions about the answer's tool calls; undefined while it is the last turn. */
  readonly decided: readonly Approval[] | undefined
  readonly onEdit: () => void
  readonly onAgain: () => void
  readonly onDecide: (approvals: readonly Approval[]) => void
}

const TurnView = memo(
  function TurnView({ turn, locked, decided, onEdit, onAgain, onDecide }: TurnProps) {
    const { approvals, answer } = turn
    const asks = approvals.length === 0
    return (
      <article className="mb-8">
        {asks && <Question turn={turn} locked={locked} onEdit={onEdit} />}
        <h2 className="mb-1 font-mono text-[12px] text-muted">{answer.model}</h2>
        {answer.reasoning !== '' && <Reasoning answer={answer} />}
        {answer.tools.map((tool) => (
          <Tool key={tool.id} tool={tool} />
        ))}
        {answer.requests.length > 0 && answer.state !== 'running' && (
          <Approvals requests={answer.requests} decided={decided} locked={locked} onDecide={onDecide} />
        )}
        <Markdown text={answer.text} growing={answer.state === 'running'} />
        {answer.sources.length > 0 && <Sources of={answer.sources} />}
        {answer.state === 'running' && (
          <span className="mt-1 inline-block h-4 w-2 animate-pulse bg-accent" aria-hidden="true" />
        )}
        <End answer={answer} />
        {answer.state !== 'running' && (
          <div className="mt-2 -ml-2 flex flex-wrap items-center gap-1">
            {answer.text !== '' && <Copy text={answer.text} look="quiet" />}
            {(asks || answer.state !== 'done') && (
              <Button small look="quiet" disabled={locked} onClick={onAgain}>
                {t('Again')}
              </Button>
            )}
            <Cost answer={answer} />
          </div>
        )}
      </article>
    )
  },
  (before, now) => before.turn === now.turn && before.locked === now.locked && before.decided === now.decided,
)

function Question({ turn, locked, onEdit }: Pick<TurnProps, 'turn' | 'locked' | 'onEdit'>) {
  const { text, attachments } = turn
  return (
    <div className="mb-4 flex flex-col items-end">
      <h2 className="sr-only">{t('You')}</h2>
      {attachments.length > 0 && (
        <ul className="mb-1 flex flex-wrap justify-end gap-2">
          {attachments.map(({ name, type, data }, index) => (
            <li key={index} className="card overflow-hidden text-[12.5px]">
              {type.startsWith('image/') && data.startsWith('data:') ? (
                <img src={data} alt={name} className="max-h-40 max-w-60" />
              ) : (
                <span className="block px-2 py-1">{name}</span>
              )}
            </li>
          ))}
        </ul>
      )}
      {text !== '' && (
        <p
          dir="auto"
          className="max-w-[85%] rounded-lg bg-accent-soft px-3.5 py-2 break-words whitespace-pre-wrap"
        >
          {text}
        </p>
      )}
      <Button small look="quiet" disabled={locked} onClick={onEdit}>
        {t('Edit')}
      </Button>
    </div>
  )
}

function Reasoning({ answer }: { answer: Answer }) {
  return (
    <details className="mb-3 rounded-md border border-line px-3 py-1.5">
      <summary className="text-[13px] text-muted">
        {answer.text === '' && answer.state === 'running' ? t('Thinking …') : t('Reasoning')}
      </summary>
      <div className="mt-2 text-[13px] text-muted">
        <Markdown text={answer.reasoning} />
      </div>
    </details>
  )
}

const toolNames: Readonly<Record<string, string>> = {
  web_search_call: 'Web search',
  mcp_call: 'Tool',
  mcp_list_tools: 'Tools of a server',
  function_call: 'Function',
}

function Tool({ tool }: { tool: ToolRun }) {
  const tone = tool.state === 'failed' ? 'bad' : tool.state === 'running' ? 'accent' : 'plain'
  return (
    <details className="mb-3 rounded-md border border-line px-3 py-1.5">
      <summary className="text-[13px]">
        {t(toolNames[tool.kind] ?? tool.kind)} <span className="font-mono">{tool.label}</span>{' '}
        <Badge tone={tone}>{t(tool.state)}</Badge>
      </summary>
      {tool.detail !== '' && (
        <pre className="mt-2 overflow-x-auto font-mono text-[12px] whitespace-pre-wrap">{tool.detail}</pre>
      )}
    </details>
  )
}

function Sources({ of }: { of: Answer['sources'] }) {
  return (
    <section className="mt-3 text-[13px]" aria-label={t('Sources')}>
      <h3 className="text-muted">{t('Sources')}</h3>
      <ol className="list-decimal pl-5">
        {of.map(({ url, title }) => (
          <li key={url} className="break-words">
            <a className="text-accent underline" href={url} target="_blank" rel="noreferrer nofollow">
              {title}
            </a>{' '}
            <span className="text-muted">{new URL(url).hostname}</span>
          </li>
        ))}
      </ol>
    </section>
  )
}

function End({ answer }: { answer: Answer }) {
  if (answer.state === 'stopped') return <p className="mt-2 text-[13px] text-muted">{t('Stopped.')}</p>
  if (answer.state === 'cut') {
    return <p className="mt-2 text-[13px] text-warn">{t('The answer was cut: its limit was reached.')}</p>
  }
  if (answer.state !== 'failed' || answer.fault === null) return null
  const { code, message } = answer.fault
  return (
    <div role="alert" className="mt-2 rounded-md bg-bad-soft px-3 py-2">
      <p>{message}</p>
      <p className="mt-1 flex flex-wrap gap-3 text-[13px]">
        {code !== null && (
          <a
            className="font-mono text-bad underline"
            href={`/docs/errors#${code}`}
            target="_blank"
            rel="noreferrer"
          >
            {code}
          </a>
        )}
        {answer.requestId !== null && (
          <Link href={`/requests/${answer.requestId}`} className="underline">
            {t('Why?')}
          </Link>
        )}
      </p>
    </div>
  )
}

/** The cost of the answer, the pools that paid, and a link to the receipt. */
function Cost({ answer }: { answer: Answer }) {
  const { cost, paidBy, tokens, requestId } = answer
  if (cost === null) return null
  const pools = paidBy.map(({ pool, amount }) =>
    t('{pool}: {amount}', { pool: poolName(pool), amount: usd(amount) }),
  )
  return (
    <span className="ml-1 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted" data-testid="cost">
      {requestId === null ? (
        <span className="tabular-nums">{usdShort(cost)}</span>
      ) : (
        <Link href={`/requests/${requestId}`} className="tabular-nums underline" title={usd(cost)}>
          {usdShort(cost)}
        </Link>
      )}
      {pools.length > 0 && (
        <span title={pools.join(', ')}>{paidBy.map(({ pool }) => poolName(pool)).join(' + ')}</span>
      )}
      {tokens !== null && (
        <span className="tabular-nums">
          {count(tokens.input)} → {count(tokens.output)} {t('tokens')}
        </span>
      )}
    </span>
  )
}

// Tool calls that wait for approval: each is allowed once or denied, and the answer goes on when all are decided.

interface ApprovalsProps {
  readonly requests: readonly ApprovalRequest[]
  /** The decisions; undefined while the answer is the last turn. */
  readonly decided: readonly Approval[] | undefined
  readonly locked: boolean
  readonly onDecide: (approvals: readonly Approval[]) => void
}

function Approvals({ requests, decided, locked, onDecide }: ApprovalsProps) {
  const [chosen, setChosen] = useState<readonly Approval[]>([])
  const choose = (id: string, approve: boolean) => {
    const all = [...chosen.filter((other) => other.id !== id), { id, approve }]
    setChosen(all)
    if (all.length === requests.length) onDecide(all)
  }
  return (
    <div className="mb-3 grid gap-2">
      {requests.map((request) => (
        <Request
          key={request.id}
          request={request}
          decision={(decided ?? chosen).find(({ id }) => id === request.id)?.approve}
          open={decided === undefined}
          locked={locked}
          onChoose={(approve) => choose(request.id, approve)}
        />
      ))}
    </div>
  )
}

interface RequestProps {
  readonly request: ApprovalRequest
  readonly decision: boolean | undefined
  readonly open: boolean
  readonly locked: boolean
  readonly onChoose: (approve: boolean) => void
}

function Request({ request, decision, open, locked, onChoose }: RequestProps) {
  const { server, tool } = request
  return (
    <div
      role="group"
      className="rounded-md border border-line-strong px-3 py-2"
      aria-label={t('Permission for {tool}', { tool })}
    >
      <p className="text-[13px]">
        {t('The model wants to call a tool of {server}:', { server })}{' '}
        <span className="font-mono font-medium break-all">{visible(tool)}</span>
      </p>
      <pre
        tabIndex={0}
        role="group"
        aria-label={t('What it is called with')}
        className="mt-1 max-h-60 overflow-auto font-mono text-[12px] break-all whitespace-pre-wrap"
      >
        {visible(indentJson(request.arguments))}
      </pre>
      <div className="mt-2 flex flex-wrap items-center gap-2">
        {decision === undefined && open && (
          <>
            <Button small look="primary" disabled={locked} onClick={() => onChoose(true)}>
              {t('Allow once')}
            </Button>
            <Button small look="danger" disabled={locked} onClick={() => onChoose(false)}>
              {t('Deny')}
            </Button>
          </>
        )}
        {decision === undefined && !open && <Badge>{t('not answered')}</Badge>}
        {decision !== undefined && (
          <Badge tone={decision ? 'good' : 'warn'}>{decision ? t('allowed once') : t('denied')}</Badge>
        )}
      </div>
    </div>
  )
}

/** Characters that are not seen but move or hide others are written out, so that what is shown is what will be sent. */
function visible(text: string): string {
  return text.replace(
    /[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Formatted JSON, or the model's text if it is not JSON. */
function indentJson(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}
