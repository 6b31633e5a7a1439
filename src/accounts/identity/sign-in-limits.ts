// Rate limits by name, in memory. Names are dropped when their window ends, and the least recently used when there are
// too many.

import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../errors/errors.ts'
import { atMost } from '../../async/async.ts'

const rememberedNames = 100_000

/** A number of events per window, which begins with the first. */
export class WindowLimit {
  readonly #most: number
  readonly #ms: number
  readonly #clock: () => number
  readonly #counts = new LRUCache<string, { count: number; readonly since: number }>(atMost(rememberedNames))

  /** `clock` gives milliseconds. */
  constructor(most: number, ms: number, clock: () => number) {
    this.#most = most
    this.#ms = ms
    this.#clock = clock
  }

  /** Counts an event, or returns how long to wait instead, milliseconds; 0 if it was counted. */
  take(name: string): number {
    const open = this.#open(name)
    if (!open) {
      this.#counts.set(name, { count: 1, since: this.#clock() })
      return 0
    }
    if (open.count >= this.#most) return open.since + this.#ms - this.#clock()
    open.count++
    return 0
  }

  /** How long until another event may be counted, milliseconds. */
  waitMs(name: string): number {
    const open = this.#open(name)
    return open && open.count >= this.#most ? open.since + this.#ms - this.#clock() : 0
  }

  /** Takes back a counted event. */
  giveBack(name: string): void {
    const open = this.#counts.get(name)
    if (open && open.count > 0) open.count--
  }

  #open(name: string) {
    const open = this.#counts.get(name)
    return open && isWithin(this.#clock() - open.since, this.#ms) ? open : undefined
  }
}

/** A clock that was set back makes a window begin later than now: that is over, or nobody could enter for so long. */
function isWithin(ageMs: number, windowMs: number): boolean {
  return ageMs >= 0 && ageMs < windowMs
}

const failureWindowMs = 15 * 60_000
const firstDelayMs = 15_000

/** Consecutive failures: the first few are free, then the wait doubles each time. */
export class Failures {
  readonly #free: number
  readonly #clock: () => number
  readonly #failures = new LRUCache<string, { readonly count: number; readonly last: number }>(
    atMost(rememberedNames),
  )

  constructor(free: number, clock: () => number) {
    this.#free = free
    this.#clock = clock
  }

  /** How long to wait before the next attempt, milliseconds. */
  waitMs(name: string): number {
    const open = this.#open(name)
    if (!open || open.count < this.#free) return 0
    const delay = Math.min(failureWindowMs, firstDelayMs * 2 ** (open.count - this.#free))
    return Math.max(0, open.last + delay - this.#clock())
  }

  add(name: string): void {
    this.#failures.set(name, { count: (this.#open(name)?.count ?? 0) + 1, last: this.#clock() })
  }

  /** Takes back an added failure. */
  undo(name: string): void {
    const open = this.#open(name)
    if (open) this.#failures.set(name, { count: open.count - 1, last: open.last })
  }

  forget(name: string): void {
    this.#failures.delete(name)
  }

  #open(name: string) {
    const open = this.#failures.get(name)
    return open && isWithin(this.#clock() - open.last, failureWindowMs) ? open : undefined
  }
}

export interface AttemptLimits {
  readonly signInFailures: number
  readonly signInFailuresPerNetwork: number
  readonly signUpsPerNetwork: number
  readonly signUps: number
  readonly mailsPerAddress: number
}

const minute = 60_000
/** In ten minutes. */
const challengesPerNetwork = 100
/** In an hour. */
const unknownAddressesPerAccount = 20

/** The limits of sign-in and sign-up. Each throws `rate_limit_exceeded` with the time to wait. */
export class SignInLimits {
  readonly #failures: Failures
  readonly #perNetwork: WindowLimit
  readonly #signUpsPerNetwork: WindowLimit
  readonly #signUps: WindowLimit
  readonly #mails: WindowLimit
  readonly #challenges: WindowLimit
  readonly #unknownAddresses: WindowLimit

  constructor(limits: AttemptLimits, clock: () => number) {
    this.#failures = new Failures(limits.signInFailures, clock)
    this.#perNetwork = new WindowLimit(limits.signInFailuresPerNetwork, failureWindowMs, clock)
    this.#signUpsPerNetwork = new WindowLimit(limits.signUpsPerNetwork, 60 * minute, clock)
    this.#signUps = new WindowLimit(limits.signUps, 10 * minute, clock)
    this.#challenges = new WindowLimit(challengesPerNetwork, 10 * minute, clock)
    this.#unknownAddresses = new WindowLimit(unknownAddressesPerAccount, 60 * minute, clock)
    this.#mails = new WindowLimit(limits.mailsPerAddress, 60 * minute, clock)
  }

  /**
   * Counts an attempt as a failure until it succeeds or turns out not to have been tried: otherwise a thousand
   * concurrent attempts could begin before the first one fails.
   */
  signIn(address: string, network: string): { succeed(): void; undo(): void } {
    const name = `${address} ${network}`
    refuseFor(this.#failures.waitMs(name), 'Too many wrong passwords for this address.')
    refuseFor(this.#perNetwork.take(network), 'Too many wrong passwords from this network.')
    this.#failures.add(name)
    return {
      succeed: () => {
        this.#failures.forget(name)
        this.#perNetwork.giveBack(network)
      },
      undo: () => {
        this.#failures.undo(name)
        this.#perNetwork.giveBack(network)
      },
    }
  }

  signUp(network: string): void {
    refuseFor(this.#signUpsPerNetwork.take(network), 'Too many accounts were opened from this network.')
    const wait = this.#signUps.take('')
    if (wait > 0) this.#signUpsPerNetwork.giveBack(network)
    refuseFor(wait, 'Too many accounts are being opened at this moment.')
  }

  /** Limits the challenges issued to visitors who have not signed in. */
  challenge(network: string): void {
    refuseFor(this.#challenges.take(network), 'Too many sign-ins were begun from this network.')
  }

  /** Limits the addresses without an account that somebody has tried to add to a group. */
  unknownAddress(account: string): void {
    refuseFor(this.#unknownAddresses.take(account), 'Too many addresses without an account were tried.')
  }

  /** Whether a mail to an address may be sent now. */
  mail(address: string): boolean {
    return this.#mails.take(address) === 0
  }
}

function refuseFor(retryAfterMs: number, message: string): void {
  if (retryAfterMs > 0) throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
}
