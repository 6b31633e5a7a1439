// Calls in flight: counted for the limits, awaited at shutdown, and shown to their account.

import { type Account, ownerEmail } from '../accounts/account.ts'
import { ShortLivedMap } from '../async/async.ts'
import { errorTable } from '../errors/errors.ts'
import { Shares } from '../limits/shares.ts'

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
}

/** Running calls by request id. Entering or leaving twice does no harm. */
export class InFlight {
  readonly #calls = new ShortLivedMap<string, Placed>()
  /** What waits for the end of a call, by its request id. */
  readonly #ends = new ShortLivedMap<string, () => void>()
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
    this.#ends.take(requestId)?.()
  }

  /** Calls `act` when the call has ended, before the end of its answer is sent; at once if it is not in flight. */
  whenLeft(requestId: string, act: () => void): void {
    if (this.#calls.has(requestId)) this.#ends.set(requestId, act)
    else act()
  }
}

/**
 * The owner of a fresh installation can add credit for free: with the owner's key the error names the command that
 * does. Empty for other accounts.
 */
export function ownerHint(
  code: 'purchased_credits_required' | 'insufficient_credits',
  { email }: Account,
): { readonly message?: string } {
  if (email !== ownerEmail) return {}
  const command = `weir credits grant --account ${ownerEmail} --pool purchased --usd 100`
  return { message: `${errorTable[code].means} To add credit: ${command}` }
}
