// The chat app: conversations on one side, the open one on the other.

import { useEffect, useId, useRef, useState } from 'react'
import { Link, useLocation, useParams, useSearchParams } from 'wouter'
import type { ModelView } from '../../http/console/answers.ts'
import { useModels } from '../api/call.ts'
import { t } from '../strings/text.ts'
import { Button, Failure, Loading, Note, RowButton, saveFile } from '../ui/kit.tsx'
import { isBoolean, isTextList, useRemembered } from '../ui/remembered.ts'
import { Composer } from './composer.tsx'
import { Conversations } from './conversation-list.tsx'
import { Arrange, AskWith, PoolMeter, useStuckToEnd } from './conversation-settings.tsx'
import { exportOf } from './exports.tsx'
import { comparedModels, ModelPicker, pickedOf, usePickedModel } from './model-picker.tsx'
import { type AskedTurn, type OpenThread, useOwnThread, useThread } from './open-thread.ts'
import { ShareButton } from './share.tsx'
import type { Answer, Approval, Attachment, ChatTurn } from './thread.ts'
import { TurnView } from './turn-view.tsx'

// Two models side by side: one question, two answers. Each is a conversation of its own, charged and stored like any other.

type Side = 'a' | 'b'
type SideThread = ReturnType<typeof useOwnThread>

const none: readonly string[] = []

export function Compare() {
  const [query] = useSearchParams()
  const [, navigate] = useLocation()
  const onBegun = (side: Side) => (id: string) => {
    // Of the address as it is now: both may begin in one frame.
    const next = new URLSearchParams(location.search)
    next.set(side, id)
    navigate(`/chat/compare?${next}`, { replace: true })
  }
  const a = useOwnThread(query.get('a') ?? undefined, onBegun('a'))
  const b = useOwnThread(query.get('b') ?? undefined, onBegun('b'))
  const { data: models, refetch } = useModels()
  const [ids, setIds] = useRemembered('weir.compared-models', none, isTextList)
  const picked = comparedModels(models ?? [], ids)
  const pick = (side: Side, id: string) =>
    setIds(side === 'a' ? [id, picked.b?.id ?? ''] : [picked.a?.id ?? '', id])
  const [searches, setSearches] = useState(false)
  const field = useRef<HTMLTextAreaElement>(null)
  const write = () => field.current?.focus({ preventScroll: true })
  useEffect(() => {
    if (!matchMedia('(pointer: coarse)').matches) write()
  }, [a.thread])
  const isRunning = ({ turns }: SideThread) => turns.at(-1)?.answer.state === 'running'
  const busy = isRunning(a) || isRunning(b)
  const ready = picked.a !== undefined && picked.b !== undefined
  const ask = (side: SideThread, model: ModelView, keep: number, asked: AskedTurn) => {
    const asking = { model: model.id, reasons: model.reasoning, searches, servers: none, isCompared: true }
    void side.thread.send(keep, asked, asking)
  }
  const send = async (text: string, attachments: AskedTurn['attachments']): Promise<boolean> => {
    // A question may be sent before the models are known.
    const known = models ?? (await refetch({ cancelRefetch: false })).data ?? []
    const both = comparedModels(known, ids)
    if (!both.a || !both.b) return false
    const asked = { text, attachments, approvals: [] }
    ask(a, both.a, a.turns.length, asked)
    ask(b, both.b, b.turns.length, asked)
    return true
  }
  return (
    <div className="flex h-[calc(100dvh-3.3rem)] flex-col lg:h-dvh">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1 border-b border-line px-3 py-2">
        <h1 className="min-w-0 flex-1 truncate font-medium">{t('Two models side by side')}</h1>
        <AskWith
          settings={a.settings}
          reasons={(picked.a?.reasoning ?? false) || (picked.b?.reasoning ?? false)}
          onSettings={async (settings) => {
            await Promise.all([a.thread.askWith(settings), b.thread.askWith(settings)])
          }}
        />
        <Link
          href="/chat"
          className="inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium text-accent hover:bg-accent-soft"
        >
          {t('One model')}
        </Link>
      </div>
      <div className="grid min-h-0 flex-1 grid-cols-1 overflow-y-auto md:grid-cols-2 md:overflow-hidden">
        {(['a', 'b'] as const).map((side) => (
          <Pane
            key={side}
            side={side === 'a' ? a : b}
            label={side === 'a' ? t('First model') : t('Second model')}
            models={models}
            picked={picked[side]}
            locked={busy || !ready}
            onPick={(id) => pick(side, id)}
            onPicked={write}
            onAgain={(index, asked) => {
              const model = picked[side]
              if (model) ask(side === 'a' ? a : b, model, index, asked)
            }}
          />
        ))}
      </div>
      <div className="border-t border-line">
        <div className="mx-auto max-w-3xl px-4 py-3">
          <Composer
            field={field}
            draft={null}
            busy={busy}
            ready={models === undefined || ready}
            searches={searches}
            onSearches={setSearches}
            servers={none}
            onServers={() => undefined}
            takesServers={false}
            onCancel={() => undefined}
            onStop={() => {
              a.thread.stop()
              b.thread.stop()
            }}
            onSend={send}
          />
          <PoolMeter />
        </div>
      </div>
    </div>
  )
}

interface PaneProps {
  readonly side: SideThread
  readonly label: string
  readonly models: readonly ModelView[] | undefined
  readonly picked: ModelView | undefined
  readonly locked: boolean
  readonly onPick: (id: string) => void
  readonly onPicked: () => void
  readonly onAgain: (index: number, asked: AskedTurn) => void
}

function Pane({ side, label, models, picked, locked, onPick, onPicked, onAgain }: PaneProps) {
  const { id, turns, loading, error } = side
  const end = useStuckToEnd(turns)
  return (
    <section
      aria-label={label}
      className="flex min-h-0 min-w-0 flex-col border-line max-md:border-b md:not-first:border-l"
    >
      <div className="flex items-center gap-2 border-b border-line px-3 py-1.5">
        <ModelPicker models={models} picked={picked} onPick={onPick} onPicked={onPicked} />
        <span className="flex-1" />
        {id !== undefined && turns.length > 0 && (
          <Link href={`/chat/${id}`} className="shrink-0 text-[13px] text-accent underline">
            {t('Go on with this one')}
          </Link>
        )}
      </div>
      <div
        ref={end.box}
        onScroll={end.onScroll}
        className="flex-1 px-4 py-4 md:overflow-y-auto"
        tabIndex={0}
        role="region"
        aria-label={t('Answers of {model}', { model: picked?.id ?? label })}
      >
        {loading && <Loading rows={2} />}
        {error !== null && <Failure error={error} />}
        {!loading && turns.length === 0 && error === null && (
          <p className="py-8 text-center text-muted">
            {t('One question, two answers. Each is charged, and shows what it cost.')}
          </p>
        )}
        {turns.map((turn, index) => (
          <TurnView
            key={turn.key}
            turn={turn}
            locked={locked}
            decided={[]}
            onAgain={() => onAgain(index, turn)}
          />
        ))}
      </div>
    </section>
  )
}

/** Here, since it is loaded with what shows answers. */
export { SharedPage } from './share.tsx'

export default function Chat() {
  const { id } = useParams<{ id?: string }>()
  return id === 'compare' ? <Compare /> : <Conversation id={id} />
}

function Conversation({ id }: { id: string | undefined }) {
  const { thread, turns, title, loading, error, startAnew, ...shown } = useThread(id)
  const { data: models, refetch } = useModels()
  const picked = usePickedModel(models)
  const [edited, setDraft] = useState<Draft | null>(null)
  // Another conversation has other turns in these places.
  const draft = edited?.thread === thread ? edited : null
  const list = useId()
  const [listFolded, setListFolded] = useRemembered('weir.list-folded', false, isBoolean)
  const hideList = () => document.getElementById(list)?.hidePopover()
  const busy = turns.at(-1)?.answer.state === 'running'
  const end = useStuckToEnd(turns)
  const field = useRef<HTMLTextAreaElement>(null)
  const write = () => field.current?.focus({ preventScroll: true })
  useEffect(() => {
    // On a phone the keyboard would cover the conversation that was opened to be read.
    if (!matchMedia('(pointer: coarse)').matches) write()
  }, [thread])
  const [searches, setSearches] = useState(false)
  const [servers, setServers] = useState<readonly string[]>([])
  /** Resolves with whether it was asked: not without a model. */
  const ask = async (keep: number, asked: AskedTurn, more: readonly string[] = []): Promise<boolean> => {
    // A question may be sent before the models are known.
    const model = picked ?? pickedOf((await refetch({ cancelRefetch: false })).data ?? [])
    if (!model) return false
    setDraft(null)
    const all = shown.temporary ? [] : [...new Set([...servers, ...more])]
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
      <div
        className={`hidden w-60 shrink-0 flex-col border-r border-line p-3 ${listFolded ? '' : 'xl:flex'}`}
      >
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
          <button
            type="button"
            aria-expanded={!listFolded}
            aria-label={listFolded ? t('Unfold the conversations') : t('Fold the conversations')}
            title={listFolded ? t('Unfold the conversations') : t('Fold the conversations')}
            onClick={() => setListFolded(!listFolded)}
            className="hidden size-7 shrink-0 place-items-center rounded-md text-accent hover:bg-accent-soft xl:grid"
          >
            <span aria-hidden="true">{listFolded ? '»' : '«'}</span>
          </button>
          <h1
            dir="auto"
            className="min-w-0 flex-1 truncate font-medium max-sm:order-last max-sm:basis-full max-sm:px-2"
          >
            {shown.temporary ? t('Temporary chat') : title || t('New chat')}
          </h1>
          {id !== undefined && title !== '' && (
            <Arrange
              conversation={{ title, folder: shown.folder, pinned: shown.pinned }}
              onArrange={(arrangement) => thread.arrange(arrangement)}
            />
          )}
          {id !== undefined && shown.mayShare && turns.length > 0 && (
            <ShareButton share={shown.share} onChange={(method) => thread.changeShare(method)} />
          )}
          <AskWith
            settings={shown.settings}
            reasons={picked?.reasoning ?? false}
            onSettings={(settings) => thread.askWith(settings)}
          />
          {id === undefined && turns.length === 0 && (
            <Link
              href="/chat/compare"
              className="inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium text-accent hover:bg-accent-soft"
            >
              {t('Compare')}
            </Link>
          )}
          {id === undefined && turns.length === 0 && (
            <button
              type="button"
              aria-pressed={shown.temporary}
              onClick={() => thread.setTemporary(!shown.temporary)}
              className={`inline-flex h-7 items-center rounded-md px-2 text-[13px] font-medium ${
                shown.temporary ? 'bg-accent text-accent-ink' : 'text-accent hover:bg-accent-soft'
              }`}
            >
              {t('Temporary')}
            </button>
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
          {turns.length > 0 && (
            <RowButton
              label={t('Conversation as JSON')}
              onClick={() => saveFile('conversation.json', 'application/json', asJson(title, turns))}
            >
              JSON
            </RowButton>
          )}
          <ModelPicker models={models} picked={picked} onPicked={write} />
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
            {!loading && turns.length === 0 && error === null && !shown.forgotten && (
              <Greeting temporary={shown.temporary} />
            )}
            {turns.map((turn, index) => (
              <TurnView
                key={turn.key}
                turn={turn}
                locked={busy || picked === undefined}
                decided={turns[index + 1]?.approvals}
                {...(turn.imported !== true && {
                  onEdit: () =>
                    setDraft({ thread, keep: index, text: turn.text, attachments: turn.attachments }),
                })}
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
              field={field}
              draft={draft}
              busy={busy}
              ready={models === undefined || picked !== undefined}
              searches={searches}
              onSearches={setSearches}
              servers={servers}
              onServers={setServers}
              takesServers={!shown.temporary}
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

function Greeting({ temporary }: { temporary: boolean }) {
  if (temporary) {
    return (
      <div className="py-16 text-center">
        <p className="text-lg font-semibold">{t('Temporary chat')}</p>
        <p className="mx-auto mt-2 max-w-md text-muted">
          {t(
            'Nothing that is said here is stored: it is gone when you leave this page. What it costs stands in the list of requests.',
          )}
        </p>
      </div>
    )
  }
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

/** As it can be imported again. */
function asJson(title: string, turns: readonly ChatTurn[]): string {
  return exportOf(
    title || t('Temporary chat'),
    turns.map(({ text, answer }) => ({ question: text, answer: answer.text, model: answer.model || null })),
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
