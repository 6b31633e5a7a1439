// A conversation that is open: loads it, asks, stops, and saves where it stands. It outlives the page that shows it, so
// that an answer goes on while the user looks at another page of the console.

import { call, CallError, send } from '../../api/call.ts'
import { newId } from '../../api/new-id.ts'
import { queryClient } from '../../api/queries.ts'
import type { Conversation, SessionView } from '../../api/wire.ts'
import { t } from '../../strings/text.ts'
import { ask, noteConversation, settledReceipt } from './ask.ts'
import { after, type Answer, type Item, keptTurn, newAnswer, requestFor } from './thread.ts'
import type { ResponseObject, Turn } from './thread.ts'
import { forgetUnsaved, rememberUnsaved, unsavedIn } from './unsaved.ts'

interface KeptConversation extends Conversation {
  readonly turns: readonly { readonly response: ResponseObject; readonly input: readonly Item[] }[]
}

export interface Asking {
  readonly model: string
  readonly reasons: boolean
  readonly searches: boolean
  readonly servers: readonly string[]
}

/** What is asked: a question, or that calls of tools go on or do not. */
export type Asked = Pick<Turn, 'text' | 'attachments' | 'approvals'>

export interface ShownThread {
  /** A new conversation gets its id when its first answer begins. */
  readonly id: string | undefined
  readonly turns: readonly Turn[]
  readonly title: string
  readonly loading: boolean
  readonly error: unknown
}

const longestTitle = 60
/** Of a long conversation, the receipts of the latest answers. */
const shownReceipts = 30

/** Those with an answer that is being written or saved. */
const busy = new Set<OpenThread>()

/** The conversation with this id, or the one that is being answered, or a new one. */
export function threadFor(id: string | undefined): OpenThread {
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
  forgetUnsaved(id)
  for (const thread of busy) if (thread.shown.id === id) thread.stop()
}

export class OpenThread {
  readonly account = accountNow()
  #shown: ShownThread
  readonly #listeners = new Set<() => void>()
  /** As it was last loaded or saved here. */
  #known: Pick<Conversation, 'last_response' | 'updated_at'> | undefined
  #running: AbortController | null = null
  /** What the next question has to wait for. */
  #ready: Promise<void> = Promise.resolve()

  constructor(id: string | undefined) {
    this.#shown = { id, turns: [], title: '', loading: id !== undefined, error: null }
    if (id !== undefined)
      this.#ready = this.#load(id).catch((error: unknown) => this.#show({ loading: false, error }))
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

  /** Another tab may have continued the conversation: a question here would replace what was said there. */
  catchUp(listed: Conversation): void {
    if (!this.#known || busy.has(this)) return
    const isNewer = listed.updated_at > this.#known.updated_at
    if (isNewer && listed.last_response !== this.#known.last_response)
      this.#load(listed.id).catch(() => undefined)
  }

  async rename(name: string): Promise<void> {
    const { id } = this.#shown
    if (id === undefined) return
    await noteConversation(id, { title: name })
    this.#show({ title: name })
    await queryClient.invalidateQueries({ queryKey: ['conversations'] })
  }

  /** Asks after the first `keep` turns; later turns are dropped. */
  async send(keep: number, { text, attachments, approvals }: Asked, asking: Asking): Promise<void> {
    if (this.#running) return
    const controller = new AbortController()
    this.#running = controller
    busy.add(this)
    const answer = newAnswer(asking.model)
    const turn: Turn = { key: newId(), text, attachments, approvals, answer }
    this.#show({ turns: [...this.#shown.turns.slice(0, keep), turn], error: null })
    await this.#ready
    if (!(await this.#hasEarlierTurns(turn))) return
    const saved = this.#answerAndSave(turn, asking, controller).catch((error: unknown) =>
      this.#show({ error }),
    )
    this.#ready = saved.then(() => {
      if (!this.#running) busy.delete(this)
    })
    await this.#ready
  }

  /** Whether what was said before is loaded: an answer without it would be saved in its place. Fails the turn if not. */
  async #hasEarlierTurns(turn: Turn): Promise<boolean> {
    const { id } = this.#shown
    if (id === undefined || this.#known) return true
    try {
      await this.#load(id)
      return true
    } catch (thrown) {
      this.#change(turn.key, (answer) => ({ ...answer, state: 'failed', fault: faultOf(thrown) }))
      this.#running = null
      busy.delete(this)
      return false
    }
  }

  async #answerAndSave(turn: Turn, asking: Asking, controller: AbortController): Promise<void> {
    const asked = this.#shown.turns
    const begun: { conversation?: Promise<string> } = {}
    const { answer, requestId } = await this.#answered(turn, asked, asking, controller.signal, (id) => {
      begun.conversation = this.#begin(asked[0]!, asking.model, id)
      // Awaited below; until then a refusal must not count as unhandled.
      begun.conversation.catch(() => undefined)
    })
    this.#running = null
    const paid = requestId ?? answer.id
    const receipt = paid === null ? Promise.resolve() : this.#addReceipt(turn.key, paid)
    void receipt.then(() => queryClient.invalidateQueries({ queryKey: ['credits'] }))
    if (answer.id === null || begun.conversation === undefined) return
    const id = await begun.conversation
    if (answer.stored && answer.state !== 'failed') await this.#note(id, answer.id, answer.model)
    // The gateway says itself that it failed.
    else if (answer.stored) forgetUnsaved(id)
    else {
      // The gateway stores what was delivered together with its charge.
      await receipt
      if (!(await this.#note(id, answer.id, answer.model))) return
      if (answer.state === 'stopped') this.#change(turn.key, (shown) => ({ ...shown, stored: true }))
      else await this.#load(id)
    }
  }

  async #answered(
    turn: Turn,
    asked: readonly Turn[],
    asking: Asking,
    signal: AbortSignal,
    begun: (response: string) => void,
  ) {
    let answer = turn.answer
    let requestId: string | null = null
    let frame = 0
    const show = () => {
      frame = 0
      this.#change(turn.key, () => answer)
    }
    try {
      const question = { ...asking, ...requestFor(asked) }
      for await (const event of ask(question, signal, (given) => (requestId = given))) {
        const { id } = answer
        answer = after(answer, event)
        if (id === null && answer.id !== null) begun(answer.id)
        // A reader sees frames, not tokens.
        if (frame === 0) frame = requestAnimationFrame(show)
      }
      if (answer.state === 'running') answer = { ...answer, state: 'failed', fault: cutShort() }
    } catch (thrown) {
      // An answer that had ended is whole, however its connection ends.
      if (answer.state === 'running')
        answer = signal.aborted
          ? { ...answer, state: 'stopped' }
          : { ...answer, state: 'failed', fault: faultOf(thrown), requestId: requestIdOf(thrown) }
    }
    cancelAnimationFrame(frame)
    show()
    return { answer, requestId }
  }

  /** Creates the conversation if it is new, and remembers that an answer in it is to be saved. Resolves with its id. */
  async #begin(first: Turn, model: string, response: string): Promise<string> {
    let { id } = this.#shown
    if (id === undefined) {
      const made = await call<Conversation>('POST', 'conversations', { title: titleOf(first), model })
      id = made.id
      this.#known = made
      this.#show({ id, title: made.title })
      void queryClient.invalidateQueries({ queryKey: ['conversations'] })
    }
    rememberUnsaved(id, { response, before: this.#known?.last_response ?? null })
    return id
  }

  /** Saves an answer as the conversation's last. Resolves with whether it was stored. Rejects if nobody answers. */
  async #note(id: string, response: string, model?: string): Promise<boolean> {
    try {
      this.#known = await noteConversation(id, {
        last_response: response,
        ...(model === undefined ? {} : { model }),
      })
    } catch (thrown) {
      if (!(thrown instanceof CallError) || thrown.fault.status === 0 || thrown.fault.status >= 500)
        throw thrown
      forgetUnsaved(id)
      // The conversation was deleted meanwhile: so is its late answer.
      if (thrown.fault.status === 404)
        await send(`/app/v1/responses/${response}`, { method: 'DELETE' }).catch(() => undefined)
      return false
    }
    forgetUnsaved(id)
    await queryClient.invalidateQueries({ queryKey: ['conversations'] })
    return true
  }

  async #load(id: string): Promise<void> {
    const path = `conversations/${encodeURIComponent(id)}`
    let kept = await call<KeptConversation>('GET', path)
    this.#known = kept
    const unsaved = unsavedIn(id)
    // An answer during which the page was closed. Its call is settled once the gateway has seen that.
    if (unsaved !== undefined && unsaved.before !== kept.last_response) forgetUnsaved(id)
    else if (unsaved !== undefined && (await settledReceipt(unsaved.response))) {
      if (await this.#note(id, unsaved.response)) kept = await call<KeptConversation>('GET', path)
    }
    this.#known = kept
    const turns = kept.turns.map(({ response, input }) => keptTurn(response, input))
    // What was asked while it loaded comes after it.
    const asked = this.#shown.turns.filter(({ answer }) => answer.state === 'running')
    this.#show({ turns: [...turns, ...asked], title: kept.title, loading: false })
    // What each answer cost is in the books, not in the answers.
    for (const turn of turns.slice(-shownReceipts)) void this.#addReceipt(turn.key, turn.answer.id!)
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

function titleOf({ text }: Turn): string {
  const words = text
    .replace(/[#*`>_|]+/g, '')
    .replace(/\s+/g, ' ')
    .trim()
  return (words.length > longestTitle ? `${words.slice(0, longestTitle)}…` : words) || '…'
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

function faultOf(thrown: unknown): NonNullable<Answer['fault']> {
  if (!(thrown instanceof CallError)) return cutShort()
  const { status, code, message } = thrown.fault
  return { code: status === 0 ? null : code, message }
}
