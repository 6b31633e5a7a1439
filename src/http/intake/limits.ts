// How many charged requests a key, an account and the whole gateway may make: at one time, and in a minute.

import type { Caller } from '../../accounts/caller.ts'
import type { InFlight } from '../../chat/in-flight.ts'
import { GatewayError } from '../../errors.ts'

/** From configuration; a rate of 0 is no limit. */
export interface RequestLimits {
  readonly inFlight: number
  readonly inFlightPerAccount: number
  readonly keyRequestsPerMinute: number
  readonly keyTokensPerMinute: number
  readonly accountRequestsPerMinute: number
}

/**
 * A bucket that fills evenly and holds a minute's worth. It may be overdrawn: tokens are known only after the answer,
 * and then the next request waits until the debt has filled up.
 */
interface Bucket {
  level: number
  at: number
}

const minuteMs = 60_000
/** Levels are fractions: what is due but for this much is due. */
const roundingMs = 0.001
/** When there are more buckets than this, the full ones are forgotten: a full bucket says nothing. */
const manyBuckets = 10_000

/** Rates of one kind, by whom they are counted for. Times are milliseconds of the clock it is given. */
export class RateLimit {
  readonly perMinute: number
  readonly #clock: () => number
  readonly #buckets = new Map<string, Bucket>()

  constructor(perMinute: number, clock: () => number) {
    this.perMinute = perMinute
    this.#clock = clock
  }

  /** What is left for somebody now; below zero after an overdraft. */
  remaining(name: string): number {
    return this.#filled(name).level
  }

  spend(name: string, amount: number): void {
    const bucket = this.#filled(name)
    bucket.level -= amount
    this.#buckets.set(name, bucket)
    if (this.#buckets.size > manyBuckets) this.#forgetFull()
  }

  /** How long until `amount` is there, milliseconds. */
  waitMs(name: string, amount: number): number {
    const missing = Math.min(amount, this.perMinute) - this.remaining(name)
    return missing <= 0 ? 0 : Math.ceil((missing * minuteMs) / this.perMinute - roundingMs)
  }

  #filled(name: string): Bucket {
    const now = this.#clock()
    const bucket = this.#buckets.get(name) ?? { level: this.perMinute, at: now }
    const gained = (Math.max(0, now - bucket.at) * this.perMinute) / minuteMs
    bucket.level = Math.min(this.perMinute, bucket.level + gained)
    bucket.at = now
    return bucket
  }

  #forgetFull(): void {
    for (const name of this.#buckets.keys()) {
      if (this.#filled(name).level >= this.perMinute) this.#buckets.delete(name)
    }
  }
}

/** A limit of a rate as it applies to one caller. */
interface Applied {
  readonly unit: 'requests' | 'tokens'
  readonly rate: RateLimit
  readonly name: string
  /** What must be there for a request to begin. */
  readonly needs: number
}

export class Limiter {
  readonly #limits: RequestLimits
  readonly #inFlight: InFlight
  readonly #keyRequests: RateLimit
  readonly #keyTokens: RateLimit
  readonly #accountRequests: RateLimit
  /** Whether there is any rate at all: by default there is none. */
  readonly #rated: boolean

  /** `clock` gives milliseconds. */
  constructor(limits: RequestLimits, inFlight: InFlight, clock: () => number) {
    this.#limits = limits
    this.#inFlight = inFlight
    this.#keyRequests = new RateLimit(limits.keyRequestsPerMinute, clock)
    this.#keyTokens = new RateLimit(limits.keyTokensPerMinute, clock)
    this.#accountRequests = new RateLimit(limits.accountRequestsPerMinute, clock)
    const rates = [this.#keyRequests, this.#keyTokens, this.#accountRequests]
    this.#rated = rates.some(({ perMinute }) => perMinute > 0)
  }

  /**
   * Lets a request in, until `leave` or the end of its call. Throws `overloaded` when the gateway is full, and
   * `rate_limit_exceeded` with the time to wait when the account or the key has had its share; neither counts.
   */
  enter(caller: Caller, requestId: string): void {
    const account = caller.account.id
    if (this.#inFlight.size >= this.#limits.inFlight)
      throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    if (this.#inFlight.of(account) >= this.#limits.inFlightPerAccount) {
      const message = `The account has ${this.#limits.inFlightPerAccount} requests in flight, the most it may have.`
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
    }
    const applied = this.#appliedTo(caller)
    for (const { unit, rate, name, needs } of applied) {
      const retryAfterMs = rate.waitMs(name, needs)
      if (retryAfterMs === 0) continue
      const message = `The limit of ${rate.perMinute} ${unit} a minute is reached.`
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
    }
    for (const { unit, rate, name } of applied) if (unit === 'requests') rate.spend(name, 1)
    this.#inFlight.enter(requestId, account)
  }

  /** The request has ended before its call began, or its call has ended. */
  leave(requestId: string): void {
    this.#inFlight.leave(requestId)
  }

  /** Counts the tokens of an answer, once they are known. */
  spentTokens(key: string | null, tokens: number): void {
    if (key !== null && this.#keyTokens.perMinute > 0) this.#keyTokens.spend(key, tokens)
  }

  /** `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`: of each unit the limit that is closest. */
  headers(caller: Caller): Record<string, string> {
    const headers: Record<string, string> = {}
    const applied = this.#appliedTo(caller)
    if (applied.length === 0) return headers
    for (const unit of ['requests', 'tokens'] as const) {
      const closest = applied
        .filter((limit) => limit.unit === unit)
        .toSorted((a, b) => a.rate.remaining(a.name) - b.rate.remaining(b.name))[0]
      if (!closest) continue
      const { rate, name } = closest
      headers[`x-ratelimit-limit-${unit}`] = String(rate.perMinute)
      headers[`x-ratelimit-remaining-${unit}`] = String(Math.max(0, Math.floor(rate.remaining(name))))
      headers[`x-ratelimit-reset-${unit}`] = `${rate.waitMs(name, rate.perMinute)}ms`
    }
    return headers
  }

  #appliedTo({ account, key }: Caller): readonly Applied[] {
    if (!this.#rated) return []
    const all: Applied[] = [
      { unit: 'requests', rate: this.#accountRequests, name: account.id, needs: 1 },
      ...(key === null
        ? []
        : ([
            { unit: 'requests', rate: this.#keyRequests, name: key.id, needs: 1 },
            { unit: 'tokens', rate: this.#keyTokens, name: key.id, needs: 1 },
          ] as const)),
    ]
    return all.filter(({ rate }) => rate.perMinute > 0)
  }
}
