// A conversation that is open: loads it, asks, stops, and saves where it stands. It outlives the page that shows it, so
// that an answer goes on while the user looks at another page of the console.

import { EventSourceParserStream } from 'eventsource-parser/stream'
import { useEffect, useState, useSyncExternalStore } from 'react'
import { useLocation } from 'wouter'
import type { Receipt } from '../../credits/ledger/receipt.ts'
import type {
  ChatSettings,
  ConversationView,
  ImportedTurnView,
  OpenConversationView,
  SessionView,
  SettledConversationView,
} from '../../http/console/answers.ts'
import { call, CallError, conversationsNow, newId, queryClient, send, useConversations } from '../api/call.ts'
import { t } from '../strings/text.ts'
import {
  after,
  type Answer,
  type ThreadItem,
  importedTurns,
  keptTurn,
  newAnswer,
  requestFor,
  type ResponseObject,
  type StreamEvent,
  type ChatTurn,
} from './thread.ts'

interface KeptConversation
  extends OpenConversationView, Pick<SettledConversationView, 'settings' | 'share' | 'may_share'> {
  readonly imported: readonly ImportedTurnView[]
  readonly turns: readonly { readonly response: ResponseObject; readonly input: readonly ThreadItem[] }[]
}

interface Asking {
  readonly model: string
  readonly reasons: boolean
  readonly searches: boolean
  readonly servers: readonly string[]
  /** Whether the title of a new conversation names the model: another one gets the same question. */
  readonly isCompared?: boolean
}

/** What is asked: a question, or that calls of tools go on or do not. */
export type AskedTurn = Pick<ChatTurn, 'text' | 'attachments' | 'approvals'>

interface ShownThread {
  /** A new conversation gets its id when its first answer begins. */
  readonly id: string | undefined
  readonly turns: readonly ChatTurn[]
  readonly title: string
  readonly folder: string | null
  readonly pinned: boolean
  /** What each of its questions is asked with. */
  readonly settings: ChatSettings | null
  /** The link by which others see it. */
  readonly share: SettledConversationView['share']
  readonly mayShare: boolean
  /** Nothing of it is stored: it is gone with the page. */
  readonly temporary: boolean
  readonly loading: boolean
  /** Another page, or one that was closed a moment ago, has asked something and is not answered yet. */
  readonly answeredElsewhere: boolean
  /** Its answers are not stored any more. */
  readonly forgotten: boolean
  readonly error: unknown
}

const longestTitle = 60
/** Of a long conversation, the receipts of the latest answers. */
const shownReceipts = 30
/** How soon it is asked whether an answer elsewhere has ended; each time later, up to the longest. */
const firstPauseMs = 300
const longestPauseMs = 3_000
/** How long a lost connection is tried again; afterwards whenever the list of conversations is loaded. */
const recoveryMs = 30_000

/** Those with an answer that is being written or saved. */
const busy = new Set<OpenThread>()

/** The conversation with this id, or the one that is being answered, or a new one. */
function threadFor(id: string | undefined): OpenThread {
  const account = accountNow()
  const answered = [...busy].findLast(
    (thread) => thread.account === account && (id === undefined || thread.shown.id === id),
  )
  return answered ?? new OpenThread(id)
}

/** In one tab another account may sign in. */
function accountNow(): string | undefined {
  return queryClient.getQueryData<SessionView>(['session'])?.account?.id
}

/** Stops the answer of a conversation that has been deleted. */
export function stopAnswerIn(id: string): void {
  for (const thread of busy) if (thread.shown.id === id) thread.stop()
}

export class OpenThread {
  readonly account = accountNow()
  #shown: ShownThread
  readonly #listeners = new Set<() => void>()
  /** As it was last loaded or answered here; undefined if it has to be loaded before a question. */
  #known: Pick<ConversationView, 'last_response' | 'updated_at'> | undefined
  #loading: Promise<KeptConversation> | undefined
  #running: AbortController | null = null
  /** Answers that a question was asked instead of. They are deleted once that has its own. */
  #replaced: readonly ChatTurn[] = []
  /** What the next question has to wait for. */
  #ready: Promise<void> = Promise.resolve()

  constructor(id: string | undefined) {
    const loading = id !== undefined
    const nothing = { turns: [], answeredElsewhere: false, forgotten: false, error: null }
    const placed = {
      folder: null,
      pinned: false,
      settings: null,
      share: null,
      mayShare: false,
      temporary: false,
    }
    this.#shown = { id, title: '', loading, ...placed, ...nothing }
    if (id !== undefined)
      this.#ready = this.#load(id).then(
        () => undefined,
        (error: unknown) => this.#show({ loading: false, error }),
      )
  }

  get shown(): ShownThread {
    return this.#shown
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  stop(): void {
    this.#running?.abort()
  }

  /** Loads what another page has continued. */
  catchUp(listed: OpenConversationView): void {
    if (busy.has(this)) return
    const known = this.#known
    const isNewer = known !== undefined && listed.updated_at > known.updated_at
    if (!known || listed.answering || (isNewer && listed.last_response !== known.last_response))
      this.#load(listed.id).catch(() => undefined)
  }

  /** Changes how it is listed. Throws CallError. */
  async arrange(changes: Pick<ConversationView, 'title' | 'folder' | 'pinned'>): Promise<void> {
    const { id } = this.#shown
    if (id === undefined) return
    await call<SettledConversationView>('PATCH', pathOf(id), changes)
    this.#show(changes)
    await queryClient.invalidateQueries({ queryKey: ['conversations'] })
  }

  /** Asks with these from now on. Throws CallError. */
  async askWith(settings: ChatSettings | null): Promise<void> {
    const { id } = this.#shown
    if (id !== undefined) await call<SettledConversationView>('PATCH', pathOf(id), { settings })
    this.#show({ settings })
  }

  /** Makes its link, which shows it as it is now, or revokes it. Throws CallError. */
  async changeShare(method: 'POST' | 'DELETE'): Promise<void> {
    const { id } = this.#shown
    if (id === undefined) return
    const body = method === 'POST' ? {} : undefined
    const { share } = await call<SettledConversationView>(method, `${pathOf(id)}/share`, body)
    this.#show({ share })
  }

  /** Before the first question. */
  setTemporary(temporary: boolean): void {
    if (this.#shown.id === undefined && this.#shown.turns.length === 0) this.#show({ temporary })
  }

  /** Asks after the first `keep` turns; later turns are dropped. */
  async send(keep: number, { text, attachments, approvals }: AskedTurn, asking: Asking): Promise<void> {
    if (this.#running) return
    const controller = new AbortController()
    this.#running = controller
    busy.add(this)
    const turn: ChatTurn = { key: newId(), text, attachments, approvals, answer: newAnswer(asking.model) }
    const replaced = this.#shown.turns[keep]?.answer.id ?? null
    this.#replaced = [...this.#replaced, ...this.#shown.turns.slice(keep)]
    this.#show({ turns: [...this.#shown.turns.slice(0, keep), turn], error: null })
    this.#ready = this.#answer(turn, replaced, asking, controller.signal)
      .catch((error: unknown) => this.#show({ error }))
      .then(() => {
        if (!this.#running) busy.delete(this)
      })
    await this.#ready
  }

  async #answer(turn: ChatTurn, replaced: string | null, asking: Asking, signal: AbortSignal): Promise<void> {
    const before = this.#shown.id
    let conversation: string | undefined
    try {
      await unlessAborted(this.#ready, signal)
      await unlessAborted(this.#continueFrom(replaced), signal)
      conversation = this.#shown.temporary
        ? undefined
        : (before ?? (await unlessAborted(this.#begin(turn, asking), signal)).id)
    } catch (thrown) {
      const end = { state: signal.aborted ? 'stopped' : 'failed', fault: faultOf(thrown, signal) } as const
      this.#change(turn.key, (answer) => ({ ...answer, ...end }))
      this.#running = null
      return
    }
    const { answer, requestId, lost } = await this.#relay(turn, conversation, asking, signal)
    this.#running = null
    const paid = requestId ?? answer.id
    const receipt = paid === null ? Promise.resolve() : this.#addReceipt(turn.key, paid)
    void receipt.then(() => queryClient.invalidateQueries({ queryKey: ['credits'] }))
    // What is not stored is nowhere else.
    if (conversation === undefined) return
    if (lost) return this.#recover(conversation, turn.key)
    if (answer.id === null) {
      // Refused: nothing was said in it.
      if (before === undefined) await call('DELETE', pathOf(conversation)).catch(() => undefined)
      return
    }
    // The gateway stores what was delivered together with its charge.
    if (!answer.stored) await receipt
    // What was saved is not lost if this cannot be looked up: the next question looks again.
    await this.#standAt(conversation, turn.key, answer.id).catch(() => undefined)
  }

  /** Loads what was said, or is being said, in other pages: the answer would be in its place. */
  async #continueFrom(replaced: string | null): Promise<void> {
    const { id } = this.#shown
    if (id === undefined) return
    const known = this.#known
    const listed = known && (await conversationsNow()).find((conversation) => conversation.id === id)
    if (listed && !listed.answering && listed.last_response === known?.last_response) {
      this.#known = listed
      return
    }
    await this.#load(id)
    const { turns } = this.#shown
    const cut = turns.findIndex(({ answer }) => answer.id !== null && answer.id === replaced)
    // A question that is edited replaces what followed it, also what was said since.
    if (cut === -1) return
    this.#replaced = [...this.#replaced, ...turns.slice(cut, -1)]
    this.#show({ turns: [...turns.slice(0, cut), turns.at(-1)!] })
  }

  /** A new conversation. It exists before its first question, so that the answer is in it even if this page is closed. */
  async #begin(first: ChatTurn, { model, isCompared = false }: Asking): Promise<ConversationView> {
    const { settings } = this.#shown
    const title = titleOf(first) + (isCompared ? ` (${model.slice(model.lastIndexOf('/') + 1)})` : '')
    const wanted = { title, model, ...(settings === null ? {} : { settings }) }
    const made = await call<SettledConversationView>('POST', 'conversations', wanted)
    this.#known = made
    this.#show({ title: made.title, mayShare: made.may_share })
    return made
  }

  /** `lost`: the gateway may have answered, or still be answering, but this page does not receive it. */
  async #relay(turn: ChatTurn, conversation: string | undefined, asking: Asking, signal: AbortSignal) {
    let answer = turn.answer
    let requestId: string | null = null
    let lost = false
    let frame = 0
    const show = () => {
      frame = 0
      this.#change(turn.key, () => answer)
    }
    try {
      const { settings } = this.#shown
      const question = { ...asking, ...requestFor(this.#shown.turns), conversation, settings }
      for await (const event of ask(question, signal, (given) => (requestId = given))) {
        const isFirst = answer.id === null
        answer = after(answer, event)
        if (isFirst && answer.id !== null && conversation !== undefined) this.#show({ id: conversation })
        if (isFirst) void queryClient.invalidateQueries({ queryKey: ['conversations'] })
        // A reader sees frames, not tokens.
        if (frame === 0) frame = requestAnimationFrame(show)
      }
      lost = answer.state === 'running'
      if (lost) answer = { ...answer, state: 'failed', fault: cutShort() }
    } catch (thrown) {
      // An answer that had ended is whole, however its connection ends.
      if (answer.state === 'running') {
        const isRefusal = thrown instanceof CallError && thrown.fault.status > 0
        lost = !signal.aborted && !isRefusal
        const state = signal.aborted ? 'stopped' : 'failed'
        answer = { ...answer, state, fault: faultOf(thrown, signal), requestId: requestIdOf(thrown) }
      }
    }
    cancelAnimationFrame(frame)
    show()
    return { answer, requestId, lost }
  }

  /** The gateway has noted a stored answer as the conversation's last, unless the conversation was deleted meanwhile. */
  async #standAt(id: string, key: string, response: string): Promise<void> {
    const known = this.#known
    this.#known = undefined
    const listed = (await conversationsNow()).find((conversation) => conversation.id === id)
    if (!listed) return
    const last = listed.last_response
    if (last === response) {
      this.#change(key, (answer) => ({ ...answer, stored: true }))
      this.#deleteReplaced()
    }
    if (last === response || last === known?.last_response) this.#known = listed
    else await this.#load(id)
  }

  /** Otherwise they would be stored, and not be deleted with their conversation. The latest first: it continues the rest. */
  #deleteReplaced(): void {
    const shown = new Set(this.#shown.turns.map(({ answer }) => answer.id))
    const gone = this.#replaced.map(({ answer }) => answer.id).filter((id) => id !== null && !shown.has(id))
    this.#replaced = []
    for (const id of new Set(gone.toReversed()))
      void send(`/app/v1/responses/${id}`, { method: 'DELETE' }).catch(() => undefined)
  }

  /** Gets from the gateway what the connection did not bring, as soon as it is there. */
  async #recover(id: string, key: string): Promise<void> {
    const before = this.#known?.last_response ?? null
    this.#known = undefined
    this.#show({ id })
    const until = Date.now() + recoveryMs
    for (let pause = firstPauseMs; Date.now() < until; pause = Math.min(pause * 2, longestPauseMs)) {
      try {
        const { last_response: last } = await this.#load(id)
        // If even the beginning of the answer was lost, only its conversation knows which it is.
        if (last !== before) this.#drop(({ answer, ...turn }) => turn.key === key && answer.id === null)
        return
      } catch (thrown) {
        if (thrown instanceof CallError && thrown.fault.status > 0 && thrown.fault.status < 500) throw thrown
        await new Promise((resolve) => setTimeout(resolve, pause))
      }
    }
  }

  #drop(which: (turn: ChatTurn) => boolean): void {
    this.#show({ turns: this.#shown.turns.filter((turn) => !which(turn)) })
  }

  #load(id: string): Promise<KeptConversation> {
    this.#loading ??= this.#loadNow(id).finally(() => (this.#loading = undefined))
    return this.#loading
  }

  /** Resolves when nothing is being answered in it elsewhere. */
  async #loadNow(id: string): Promise<KeptConversation> {
    for (let pause = firstPauseMs; ; pause = Math.min(pause * 1.5, longestPauseMs)) {
      const kept = await call<KeptConversation>('GET', pathOf(id))
      const waits = kept.answering && (this.#listeners.size > 0 || busy.has(this))
      this.#take(kept, waits)
      if (!waits) return kept
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
  }

  #take(kept: KeptConversation, answeredElsewhere: boolean): void {
    const turns = [
      ...importedTurns(kept.imported),
      ...kept.turns.map(({ response, input }) => keptTurn(response, input)),
    ]
    const stored = new Set(turns.map(({ answer }) => answer.id))
    // What was asked while it loaded, or got no answer, comes after it.
    const { turns: before } = this.#shown
    const answered = before.findLastIndex(({ answer }) => !/running|failed/.test(answer.state))
    const asked = before.slice(answered + 1).filter(({ answer }) => !stored.has(answer.id))
    this.#known = kept
    this.#show({
      turns: [...turns, ...asked],
      title: kept.title,
      folder: kept.folder,
      pinned: kept.pinned,
      settings: kept.settings,
      share: kept.share,
      mayShare: kept.may_share,
      loading: false,
      answeredElsewhere,
      forgotten: kept.turns.length === 0 && kept.last_response !== null,
      error: null,
    })
    if (answeredElsewhere) return
    // What each answer cost is in the books, not in the answers.
    for (const { key, answer } of turns.slice(-shownReceipts))
      if (answer.id !== null) void this.#addReceipt(key, answer.id)
  }

  async #addReceipt(key: string, paid: string): Promise<void> {
    const receipt = await settledReceipt(paid)
    if (receipt === undefined) return
    this.#change(key, (answer) => ({
      ...answer,
      cost: receipt.charged,
      paidBy: receipt.drawn.map(({ pool, amount }) => ({ pool, amount })),
      requestId: receipt.id,
    }))
  }

  #change(key: string, by: (answer: Answer) => Answer): void {
    const turns = this.#shown.turns.map((turn) =>
      turn.key === key ? { ...turn, answer: by(turn.answer) } : turn,
    )
    this.#show({ turns })
  }

  #show(changes: Partial<ShownThread>): void {
    this.#shown = { ...this.#shown, ...changes }
    for (const listener of this.#listeners) listener()
  }
}

function pathOf(id: string): string {
  return `conversations/${encodeURIComponent(id)}`
}

/** What `work` resolves with. Rejects when the signal aborts. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  if (signal.aborted) aborted.reject(signal.reason)
  signal.addEventListener('abort', () => aborted.reject(signal.reason), { once: true })
  return Promise.race([work, aborted.promise])
}

/** The beginning of its question, or the names of its files. */
export function titleOf({ text, attachments }: Pick<ChatTurn, 'text' | 'attachments'>): string {
  const plain = text.replace(/[#*`>_|]+/g, '')
  const words = [plain, attachments.map(({ name }) => name).join(', ')]
    .map((said) => said.replace(/\s+/g, ' ').trim())
    .find((said) => said !== '')
  // By whole characters: half an emoji is none.
  const characters = [...(words ?? '')]
  return (characters.length > longestTitle ? `${characters.slice(0, longestTitle).join('')}…` : words) || '…'
}

/** Not a refusal of the gateway, so the error reference has no code of it. */
function cutShort(): NonNullable<Answer['fault']> {
  return { code: null, message: t('The connection to the gateway broke off before the answer was complete.') }
}

/** Of a call that was refused or failed before its answer began. */
function requestIdOf(thrown: unknown): string | null {
  const id = thrown instanceof CallError ? thrown.fault.metadata['request_id'] : undefined
  return typeof id === 'string' ? id : null
}

function faultOf(thrown: unknown, signal: AbortSignal): Answer['fault'] {
  if (signal.aborted) return null
  if (!(thrown instanceof CallError)) return cutShort()
  const { status, code, message } = thrown.fault
  return { code: status === 0 ? null : code, message }
}

// One request of the chat: the stream of a response, event by event, then its cost.

interface Question {
  /**
   * Which the gateway notes to stand at the answer, even if this page is gone by then. Without one nothing is stored.
   */
  readonly conversation: string | undefined
  readonly settings: ChatSettings | null
  readonly model: string
  readonly previous: string | null
  readonly input: readonly object[]
  /** Whether the model reasons: then a summary is requested. */
  readonly reasons: boolean
  /** Whether it may search the web. */
  readonly searches: boolean
  /** The registered MCP servers whose tools it may use, each call with the user's approval. */
  readonly servers: readonly string[]
}

/** How long an answer may take to begin, milliseconds. The gateway's own limits are shorter, and the user can stop it. */
const beginsWithinMs = 3_600_000

/** Resolves with the id of the request once the gateway has begun to answer. Rejects with CallError. */
async function* ask(
  { conversation, settings, model, previous, input, reasons, searches, servers }: Question,
  signal: AbortSignal,
  begun: (requestId: string | null) => void,
): AsyncGenerator<StreamEvent> {
  const tools = [
    ...(searches ? [{ type: 'web_search' }] : []),
    ...servers.map((name) => ({ type: 'mcp', server_label: name, require_approval: 'always' })),
  ]
  const { reasoning_effort: effort, ...parameters } = settings ?? {}
  const body = {
    model,
    input,
    stream: true,
    store: conversation !== undefined,
    ...parameters,
    ...(reasons ? { reasoning: { summary: 'auto', ...(effort === undefined ? {} : { effort }) } } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(previous === null ? {} : { previous_response_id: previous }),
  }
  const question = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(conversation === undefined ? {} : { 'x-weir-conversation': conversation }),
    },
    body: JSON.stringify(body),
    signal,
  }
  const response = await send('/app/v1/responses', question, beginsWithinMs)
  begun(response.headers.get('x-request-id'))
  const events = response
    .body!.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
  const reader = events.getReader()
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    yield JSON.parse(next.value.data) as StreamEvent
  }
}

const settleWithinMs = 8_000
const askEveryMs = 250

/** The receipt of a call once it is settled, which a stopped call is at once; undefined if it is not settled. */
async function settledReceipt(id: string): Promise<Receipt | undefined> {
  const until = Date.now() + settleWithinMs
  while (Date.now() < until) {
    try {
      const response = await send(`/app/v1/generation?id=${encodeURIComponent(id)}`)
      const { data } = (await response.json()) as { data: Receipt }
      if (data.state !== 'open') return data
    } catch {
      // The call is not settled yet.
    }
    await new Promise((resolve) => setTimeout(resolve, askEveryMs))
  }
  return undefined
}

// The conversation that the page shows.

/** `id`: as the address says; undefined for a new conversation. */
export function useThread(id: string | undefined) {
  const [, navigate] = useLocation()
  return useThreadAt(
    id,
    () => threadFor(id),
    (begun) => navigate(`/chat/${begun}`, { replace: true }),
  )
}

/** One of several that are shown at once. `onBegun` gets the id of a new one, for the address. */
export function useOwnThread(id: string | undefined, onBegun: (id: string) => void) {
  return useThreadAt(id, () => (id === undefined ? new OpenThread(undefined) : threadFor(id)), onBegun)
}

function useThreadAt(id: string | undefined, first: () => OpenThread, onBegun: (id: string) => void) {
  const [opened, setOpened] = useState(() => ({ address: id, thread: first() }))
  const { address, thread } = opened
  const shown = useSyncExternalStore(thread.subscribe, () => thread.shown)
  const { data: conversations } = useConversations()

  if (id !== address) {
    const isOpen = id === thread.shown.id
    const other = () => (id === undefined ? new OpenThread(undefined) : threadFor(id))
    setOpened({ address: id, thread: isOpen ? thread : other() })
  }

  // A new conversation gets its address with its first answer; one that is still answered is shown on return.
  useEffect(() => {
    if (shown.id !== undefined && address === undefined) onBegun(shown.id)
  }, [address, shown.id])

  useEffect(() => {
    const listed = conversations?.find((conversation) => conversation.id === thread.shown.id)
    if (listed) thread.catchUp(listed)
  }, [conversations])

  /** Leaves a conversation that has no address yet; one that has is left by going to another address. */
  function startAnew() {
    if (id === undefined) setOpened({ address: id, thread: new OpenThread(undefined) })
  }

  return { ...shown, thread, startAnew }
}
