// Calls in flight: counted for the limits, awaited at shutdown, shown to their account, and ended with their caller.

import { type Caller, type CallerLookups, keyFault, ownerEmail, sessionFault } from '../accounts/account.ts'
import { leftGroup } from '../accounts/group.ts'
import { ShortLivedMap } from '../async/async.ts'
import { errorTable, GatewayError } from '../errors/errors.ts'
import { Shares } from '../scheduler/scheduler.ts'
import type { Log } from '../observe/log.ts'

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
  readonly #clock: () => number

  readonly #left: (requestId: string) => void

  /** `clock` gives milliseconds since 1970; `left` is called once for each request that has left. */
  constructor(clock: () => number = Date.now, left: (requestId: string) => void = () => undefined) {
    this.#clock = clock
    this.#left = left
  }

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
      startedAt: this.#clock(),
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
    this.#left(requestId)
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
