// One call as it came in.

import { type Caller, type CallerLookups, keyFault, ownerEmail, sessionFault } from '../accounts/account.ts'
import type { ModelRoute, RouteDefaults } from '../catalog/route.ts'
import type { Model } from '../catalog/row.ts'
import { type ContentEvent, Delivered, type Progress } from '../conversation/delivered.ts'
import type { Fault } from '../conversation/event.ts'
import type { JsonObject } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import type { Ending } from '../credits/ledger/ledger.ts'
import { errorTable, GatewayError } from '../errors/errors.ts'
import type { CallGuard } from '../guards/guards.ts'
import type { AnswerContext, Bill, EmbeddingRequest, Inbound, InboundRequest } from '../protocols/protocol.ts'
import type { Warning } from '../protocols/lowering.ts'
import { shownBody } from '../protocols/request/gateway-tools.ts'
import type { Candidate } from './routing/candidates.ts'
import type { CallCache } from './upstream/answer-cache.ts'
import { leftGroup } from '../accounts/group.ts'
import { ShortLivedMap } from '../async/async.ts'
import { Shares } from '../scheduler/scheduler.ts'
import type { Log } from '../observe/log.ts'

/** What every paid call has, whatever it asks of a model. */
export interface PaidCall {
  readonly caller: Caller
  readonly request: Pick<InboundRequest, 'envelope' | 'body' | 'promptParts' | 'warnings'>
  readonly bodyBytes: number
  /** Also the id of the call in the ledger and on its receipt. */
  readonly requestId: string
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /**
   * Aborts when a shutdown waits no longer, or the caller's access has ended: the call ends with the error of `stopError`,
   * and is settled for what was delivered.
   */
  readonly stopping: AbortSignal
  /** Keeps the answer in case the client asks again; undefined if it cannot. */
  readonly keeper: AnswerKeeper | undefined
  /** Of a call of a virtual model: the members that may serve it. */
  readonly route?: RouteChoice | undefined
  /** Copies the answer for the request log, if the operator enabled that. */
  readonly transcript?: Transcript
  /** Where its answer may be found, and is kept; undefined for a call that does not ask for that. */
  readonly cache?: CallCache | undefined
  /** The guards of its texts; undefined where the operator has set none up. */
  readonly guard?: CallGuard | undefined
  /** Its request as the guards have left it, where they changed it. */
  readonly changed?: object | undefined
  /** What it is for, as `tagsText` writes it; undefined without tags. */
  readonly tags?: string | undefined
  /** performance.now() on arrival. */
  readonly arrivedAt: number
}

/** The members of a route in the order in which a call tries them. */
export interface RouteChoice {
  /** The virtual model that was asked for. */
  readonly id: string
  readonly defaults: RouteDefaults
  /** What decided who is first: the route's rule, or the member that has served the session before. */
  readonly reason: ModelRoute['pick'] | 'session'
  /** At least one; models, not routes. */
  readonly members: readonly Model[]
  /** Members that are asked in no case, and why: `not_sold`, or the code of the refusal. */
  readonly refused: readonly { readonly model: string; readonly reason: string }[]
  /** What follows when a content filter has refused the prompt; undefined where the route does not say. */
  readonly afterFilter: ModelRoute['afterFilter']
  /** Whether a stream that breaks off is gone on with; undefined where the route does not say. */
  readonly continues: ModelRoute['continues']
  /** Where the member that serves is remembered; undefined for a request without a session. */
  readonly session: string | undefined
}

export interface IncomingCall extends PaidCall {
  readonly inbound: Inbound
  readonly request: InboundRequest
}

/** One request of a call to its candidates. A call has several if the gateway runs tools for the model. */
export interface Round {
  /** The call with the request of this round. */
  readonly call: IncomingCall
  readonly candidates: readonly Candidate[]
  /** Warnings for the client, independent of the provider. */
  readonly warnings: readonly Warning[]
  /**
   * Receives the events of the answer. If absent, the answer is encoded for the client, or passed through in the
   * client's own protocol; otherwise the receiver encodes it.
   */
  readonly emit?: (event: ContentEvent) => void
}

export interface EmbeddingCall extends PaidCall {
  readonly embedding: EmbeddingRequest
  /** Builds the client's body once the charge is known. */
  readonly body: (
    vectors: readonly (readonly number[])[],
    usage: Usage,
    bill: Bill,
    context: Pick<AnswerContext, 'model' | 'warnings' | 'extra'>,
  ) => JsonObject
}

export interface DecisionCall extends PaidCall {
  /** What a provider is sent beside its name of the model. */
  readonly decision: JsonObject
}

/** The limits of a call, from configuration. */
export interface ChatLimits {
  readonly connectMs: number
  readonly firstByteMs: number
  readonly firstByteReasoningMs: number
  /** To the first content of a stream whose model does not think, where another candidate waits. */
  readonly firstTokenMs: number
  readonly gapMs: number
  /** The same of a model that may think. */
  readonly gapReasoningMs: number
  readonly toolMs: number
  readonly totalMs: number
  readonly clientStallMs: number
  readonly drainMs: number
  readonly keepaliveMs: number
  readonly bufferBytes: number
  readonly checkpointMs: number
  readonly checkpointTokens: number
  readonly holdOutputTokens: number
  readonly leaseMs: number
  readonly answerBytes: number
  readonly eventBytes: number
  /** Of all events of one streamed answer. */
  readonly streamBytes: number
  readonly attempts: number
  /** Gateway tool calls per request, unless the request sets its own limit. */
  readonly toolCalls: number
}

/** Until when a call belongs to its process. Longer than every deadline: recovery must not end a running call. */
export function leaseUntil({ totalMs, drainMs, leaseMs }: ChatLimits, now: number): number {
  return now + totalMs + drainMs + leaseMs
}

// How an answer ended, and its final figures.

/** How an answer ended, and what it delivered. */
export interface Outcome extends Omit<Progress, 'started' | 'finished'> {
  readonly ending: Ending
  readonly stoppedBy: StoppedBy | undefined
  /** Why a started answer could not be continued by any provider, or was ended by the gateway. */
  readonly error?: GatewayError
}

/** A provider that was asked, and whose answer nobody gets: it had not begun when nobody waited for it, or is unusable. */
export interface Abandoned {
  readonly candidate: Candidate
  /** How long it had been asked for, milliseconds. */
  readonly askedMs: number
  /** What it had counted so far. */
  readonly usage: Usage | undefined
  /** The answer that its model spoiled; absent where it had not begun. */
  readonly made?: (Pick<Progress, 'usage' | 'delivered'> & { readonly fault: Fault }) | undefined
}

/** The outcome of an answer that is complete. */
export function outcomeOf(
  facts: Pick<Progress, 'usage' | 'delivered' | 'finishReason' | 'upstreamId'>,
): Outcome {
  const { usage, delivered, finishReason, upstreamId } = facts
  return {
    usage,
    delivered,
    finishReason,
    upstreamId,
    ending: 'finished',
    fault: undefined,
    stoppedBy: undefined,
  }
}

/** What stopped an answer early: max_cost, the credit, max_tokens if the provider ignored it, too many tools. */
export type StoppedBy = 'max_cost' | 'credits' | 'max_tokens' | 'max_tool_calls'

/** The fields of an answer that say what stopped it; none if it ended by itself. */
export function stopNote(stoppedBy: StoppedBy | undefined): JsonObject {
  return stoppedBy === undefined ? noNote : { metadata: { stopped_by: stoppedBy } }
}

const noNote: JsonObject = {}

/** What the last frames of an answer contain. */
export interface FinalFigures {
  readonly usage: Usage
  readonly bill: Bill
  /** What limited the answer, if it did not end by itself. */
  readonly stoppedBy: StoppedBy | undefined
}

/** The outcome of a call that ends without an answer to its last round, or after that was booked. */
export function unservedOutcome(
  ending: 'client-gone' | 'stopped' | 'provider-cut',
  stoppedBy: StoppedBy | undefined,
  error?: GatewayError,
): Outcome {
  return {
    ending,
    stoppedBy,
    usage: undefined,
    delivered: new Delivered(),
    finishReason: stoppedBy === undefined ? undefined : 'length',
    upstreamId: undefined,
    fault: undefined,
    ...(error === undefined ? {} : { error }),
  }
}

// Copies prompts and answers for the request log, if the operator enabled that (`log.prompts`).

/** How much of a request and of its answer is stored: characters of JSON, bytes of an answer. */
const longestPart = 32_768

/** Copies the beginning of an answer while it goes to whatever else stores it. */
class Transcript implements AnswerKeeper {
  readonly #next: AnswerKeeper | undefined
  readonly #chunks: Uint8Array[] = []
  #size = 0

  constructor(next: AnswerKeeper | undefined) {
    this.#next = next
  }

  begin(headers: Readonly<Record<string, string>>): void {
    this.#next?.begin(headers)
  }

  add(bytes: Uint8Array): void {
    this.#next?.add(bytes)
    if (this.#size < longestPart) this.#chunks.push(bytes.slice(0, longestPart - this.#size))
    this.#size += bytes.length
  }

  keep(): void {
    this.#next?.keep()
  }

  get answer(): string {
    return Buffer.concat(this.#chunks).toString('utf8')
  }
}

/** The call with a transcript, if enabled. */
export function transcribe<Call extends { readonly keeper: AnswerKeeper | undefined }>(
  { keepsContents }: { readonly keepsContents: boolean },
  call: Call,
): Call {
  if (!keepsContents) return call
  const transcript = new Transcript(call.keeper)
  return { ...call, keeper: transcript, transcript }
}

/** The stored text of a call as JSON; null if none. */
export function contentsOf(call: {
  readonly transcript?: Transcript
  readonly request: { readonly body: JsonObject }
  readonly changed?: object | undefined
}): string | null {
  const { transcript, request, changed } = call
  if (!transcript) return null
  return JSON.stringify({
    request: JSON.stringify(changed ?? shownBody(request.body)).slice(0, longestPart),
    answer: transcript.answer,
  })
}

/** Stores an answer while it is produced, so that it is on disk no later than the settle that charges it. */
export interface AnswerKeeper {
  begin(headers: Readonly<Record<string, string>>): void
  add(bytes: Uint8Array): void
  /** The answer is complete. Called right before its settle is queued. */
  keep(): void
}

/** What the plans of an account open to its chats, beside what credit opens. */
export interface OpenedByPlans {
  /** Patterns of models. */
  readonly models: readonly string[]
  /** Lots of subscription credit that open these models alone. */
  readonly lots: ReadonlySet<string>
}

// Calls in flight: counted for the limits, awaited at shutdown, shown to their account, and ended with their caller.

/** Where a call has its place: those that the simulator answers alone take none of the others. */
export type Kind = 'real' | 'simulated'

/** What may be shown of a running call: no contents. */
export interface LiveCall {
  readonly id: string
  readonly account: string
  /** `admitted` until its credit is held, then `waiting` until the provider's first byte. */
  phase: 'admitted' | 'waiting' | 'streaming'
  /** As the client named it; empty until known. */
  model: string
  key: string | null
  channel: 'api' | 'app'
  /** The conversation of the chat that it answers in. */
  conversation: string | null
  /** Milliseconds since 1970. */
  startedAt: number
  firstByteMs: number | null
  outputTokens: number | null
  /** Picodollars held for it. */
  hold: bigint
}

interface Placed extends LiveCall {
  readonly kind: Kind
  /** What waits for its end. */
  onEnd: (() => void) | undefined
}

/** Running calls by request id. Entering or leaving twice does no harm. */
export class InFlight {
  readonly #calls = new ShortLivedMap<string, Placed>()
  /** In order of arrival. */
  readonly #perAccount = new ShortLivedMap<string, LiveCall[]>()
  readonly #watchers = new Map<string, number>()
  /** How many each account has, of each kind. */
  readonly places: Readonly<Record<Kind, Shares>> = { real: new Shares(), simulated: new Shares() }

  get size(): number {
    return this.#calls.size
  }

  has(requestId: string): boolean {
    return this.#calls.has(requestId)
  }

  /** Calls of an account, of either kind. */
  of(account: string): number {
    return this.#perAccount.get(account)?.length ?? 0
  }

  /** The calls of an account in order of arrival. The objects are live. */
  callsOf(account: string): readonly Readonly<LiveCall>[] {
    return [...(this.#perAccount.get(account) ?? [])]
  }

  /**
   * Registers a watcher of an account's calls, at most `most` at a time. Returns the function that ends it, to be
   * called once; undefined if there are enough already.
   */
  watch(account: string, most: number): (() => void) | undefined {
    const watching = this.#watchers.get(account) ?? 0
    if (watching >= most) return undefined
    this.#watchers.set(account, watching + 1)
    return () => {
      const left = (this.#watchers.get(account) ?? 1) - 1
      if (left > 0) this.#watchers.set(account, left)
      else this.#watchers.delete(account)
    }
  }

  enter(requestId: string, account: string, kind: Kind = 'real'): void {
    if (this.#calls.has(requestId)) return
    const call: Placed = {
      kind,
      onEnd: undefined,
      id: requestId,
      account,
      startedAt: Date.now(),
      phase: 'admitted',
      model: '',
      key: null,
      channel: 'api',
      conversation: null,
      firstByteMs: null,
      outputTokens: null,
      hold: 0n,
    }
    this.#calls.set(requestId, call)
    this.places[kind].take(account)
    const others = this.#perAccount.get(account)
    if (others) others.push(call)
    else this.#perAccount.set(account, [call])
  }

  /** Its credit is held, picodollars, and a provider is asked. */
  onHold(requestId: string, known: Pick<LiveCall, 'model' | 'key' | 'channel' | 'hold'>): void {
    const call = this.#calls.get(requestId)
    if (!call) return
    call.phase = 'waiting'
    call.model = known.model
    call.key = known.key
    call.channel = known.channel
    call.hold = known.hold
  }

  answersIn(requestId: string, conversation: string): void {
    const call = this.#calls.get(requestId)
    if (call) call.conversation = conversation
  }

  /** Its answer has begun. */
  onFirstByte(requestId: string, firstByteMs: number): void {
    const call = this.#calls.get(requestId)
    if (!call) return
    call.phase = 'streaming'
    call.firstByteMs = firstByteMs
  }

  /** What its answer has come to: output tokens, and picodollars held for it. */
  onProgress(requestId: string, outputTokens: number, hold: bigint): void {
    const call = this.#calls.get(requestId)
    if (!call) return
    call.outputTokens = outputTokens
    call.hold = hold
  }

  leave(requestId: string): void {
    const call = this.#calls.take(requestId)
    if (!call) return
    this.places[call.kind].giveBack(call.account)
    const others = this.#perAccount.get(call.account)!
    others.splice(others.indexOf(call), 1)
    if (others.length === 0) this.#perAccount.take(call.account)
    call.onEnd?.()
  }

  /** Calls `act` when the call has ended, before the end of its answer is sent; at once if it is not in flight. */
  whenLeft(requestId: string, act: () => void): void {
    const call = this.#calls.get(requestId)
    if (call) call.onEnd = act
    else act()
  }
}

/**
 * The owner of a fresh installation can add credit for free: with the owner's key the error names the command that
 * does. Empty for other accounts.
 */
export function ownerHint(
  code: 'purchased_credits_required' | 'insufficient_credits',
  { account: { email }, standing }: Pick<Caller, 'account' | 'standing'>,
): { readonly message?: string } {
  const payer = standing?.levels.find(({ id }) => id === standing.payer)
  if (payer) return { message: `${errorTable[code].means} The group ${payer.name} pays for this key.` }
  if (email !== ownerEmail) return {}
  const command = `weir credits grant --account ${ownerEmail} --pool purchased --usd 100`
  return { message: `${errorTable[code].means} To add credit: ${command}` }
}

// The callers whose calls run: when a key, a session or an account ends, so do its calls.

interface CallersParts {
  readonly accounts: CallerLookups
  /** Milliseconds since 1970. */
  readonly now: () => number
  /** Aborts when a shutdown waits no longer. */
  readonly stopping: AbortSignal
  readonly log: Pick<Log, 'info' | 'warn'>
}

/** A call's hold on its caller. */
export interface RunningCaller {
  /** Aborts at a shutdown, or when the caller may call no longer: then its reason is the GatewayError for the client. */
  readonly signal: AbortSignal
  /** To be called once, when the call has ended. */
  leave(): void
}

/** The running calls with one key, or of one session. */
interface Group {
  readonly caller: Caller
  readonly controller: AbortController
  running: number
  /** What `#changes` was when it was looked up and found in order; and when it ends, milliseconds since 1970. */
  checkedAt: number | undefined
  endsAt: number
  /** For the end of the key or session that is known in advance. */
  timer: ReturnType<typeof setTimeout> | undefined
}

/** Of those without a running call, as many are kept: making one takes longer than a call should wait. */
const mostIdle = 1_000
/** Between two iterations of the event loop, so many are checked. */
const checkedAtOnce = 50
const retryMs = 1_000
/** The longest time of a timer. */
const longestMs = 2 ** 31 - 1

export class Callers {
  readonly #parts: CallersParts
  readonly #groups = new Map<string, Group>()
  /** How often keys, sessions and accounts may have changed. */
  #changes = 0
  #checking = false

  constructor(parts: CallersParts) {
    this.#parts = parts
    const { stopping } = parts
    stopping.addEventListener('abort', () => this.#stop(), { once: true })
  }

  /**
   * A call of the caller begins. Rejects like the authentication if its key or session has ended since, which may be
   * long ago: a body takes its time to arrive.
   */
  async enter(caller: Caller): Promise<RunningCaller> {
    // First it is among those that run, then it is checked: a change in between finds it.
    const group = this.#groupOf(caller)
    group.running += 1
    const leave = () => this.#leave(group)
    try {
      const fault = this.#isCurrent(group) ? undefined : await this.#faultOf(group)
      if (fault) throw fault
    } catch (error) {
      leave()
      throw error
    }
    return { signal: group.controller.signal, leave }
  }

  /** To be called when keys, sessions or accounts may have changed: ends the calls of those that have ended. */
  onChanged(): void {
    this.#changes += 1
    if (!this.#checking) void this.#checkAll()
  }

  /** Nothing has changed since it was found in order, and its end is watched or far away. */
  #isCurrent({ checkedAt, endsAt, timer }: Group): boolean {
    return checkedAt === this.#changes && (endsAt === Number.POSITIVE_INFINITY || timer !== undefined)
  }

  #groupOf(caller: Caller): Group {
    const name = nameOf(caller)
    const known = this.#groups.get(name)
    if (known) return known
    const group: Group = {
      caller,
      controller: new AbortController(),
      running: 0,
      checkedAt: undefined,
      endsAt: Number.POSITIVE_INFINITY,
      timer: undefined,
    }
    if (this.#parts.stopping.aborted) group.controller.abort()
    this.#groups.set(name, group)
    return group
  }

  #leave(group: Group): void {
    group.running -= 1
    if (group.running > 0) return
    clearTimeout(group.timer)
    group.timer = undefined
    if (this.#groups.size > mostIdle) this.#forget(group)
  }

  #forget(group: Group): void {
    const name = nameOf(group.caller)
    if (this.#groups.get(name) === group) this.#groups.delete(name)
  }

  async #checkAll(): Promise<void> {
    this.#checking = true
    try {
      for (let seen = -1; seen !== this.#changes;) {
        seen = this.#changes
        let checked = 0
        for (const group of this.#groups.values()) {
          if (group.running === 0) continue
          await this.#check(group)
          checked += 1
          if (checked % checkedAtOnce === 0) await new Promise((resolve) => setImmediate(resolve))
        }
      }
    } finally {
      this.#checking = false
    }
  }

  async #check(group: Group): Promise<void> {
    try {
      const fault = await this.#faultOf(group)
      if (fault && group.running > 0) this.#end(group, fault)
    } catch (error) {
      this.#parts.log.warn('the callers of running calls could not be looked up; it is tried again', {
        error,
      })
      setTimeout(() => this.onChanged(), retryMs).unref()
    }
  }

  #end(group: Group, fault: GatewayError): void {
    const { caller, running } = group
    // Should the account be resumed, its next call needs another signal.
    this.#forget(group)
    clearTimeout(group.timer)
    this.#parts.log.info('running calls are ended: their caller may call no longer', {
      account: caller.account.id,
      key: caller.key?.id ?? null,
      code: fault.code,
      calls: running,
    })
    group.controller.abort(fault)
  }

  #stop(): void {
    for (const { controller } of this.#groups.values()) controller.abort()
  }

  /** Why its calls are refused now, or undefined. An account that was suspended before is refused by the admission. */
  async #faultOf(group: Group): Promise<GatewayError | undefined> {
    const { caller } = group
    const { accounts, now } = this.#parts
    const { key, session } = caller
    const changes = this.#changes
    let endsAt = Number.POSITIVE_INFINITY
    if (key !== null) {
      const row = await accounts.findKey(key.id)
      const fault = row === undefined ? new GatewayError('invalid_api_key') : keyFault(row, now())
      if (fault) return fault
      if (row!.group !== null && !(await accounts.findStanding(row!.group, row!.account)))
        return leftGroup(row!)
      endsAt = row!.expiresAt ?? endsAt
    }
    if (session !== null) {
      const row = await accounts.findSession(session)
      const fault = row === undefined ? new GatewayError('invalid_api_key') : sessionFault(row, now())
      if (fault) return fault
      endsAt = row!.expiresAt
    }
    if (!caller.account.suspended) {
      const account = await accounts.findAccount(caller.account.id)
      if (account?.suspended !== false) return new GatewayError('account_suspended')
    }
    group.checkedAt = changes
    group.endsAt = endsAt
    this.#wakeAtEnd(group)
    return undefined
  }

  /** Without a timer nobody would look when a key or session expires while its calls run. */
  #wakeAtEnd(group: Group): void {
    clearTimeout(group.timer)
    group.timer = undefined
    if (group.endsAt === Number.POSITIVE_INFINITY || group.running === 0) return
    const ms = Math.min(Math.max(1, group.endsAt - this.#parts.now()), longestMs)
    group.timer = setTimeout(() => void this.#check(group), ms)
    group.timer.unref()
  }
}

/** No id of a key is one of a session. */
function nameOf({ account, key, session, channel }: Caller): string {
  return `${channel} ${key?.id ?? session ?? account.id}`
}
