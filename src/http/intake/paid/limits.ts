// Limits the requests of a key, an account and the whole gateway: concurrently, and per minute.

import { LRUCache } from 'lru-cache'
import { type ApiKey, type Caller, lineOf } from '../../../accounts/account.ts'
import {
  networkOf,
  type SharedBucket,
  type SharedPlaces,
  type SharedRates,
  WindowLimit,
} from '../../../accounts/identity/sign-in-limits.ts'
import { atMost, type Awaitable } from '../../../async/async.ts'
import type { InFlight, Kind } from '../../../chat/call.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { plural } from '../../../text/text.ts'
import { authenticateEither, type Authentication, type Site } from '../caller.ts'

/** From configuration; a rate of 0 means no limit. */
export interface RequestLimits {
  /** Of each kind: simulated calls take no places of real ones. */
  readonly inFlight: number
  /** 0: as many as are left free for others. */
  readonly inFlightPerAccount: number
  readonly keyRequestsPerMinute: number
  readonly keyTokensPerMinute: number
  readonly accountRequestsPerMinute: number
}

/**
 * A token bucket with one minute's worth. It may be overdrawn, because tokens are known only after the answer; then
 * the next request waits until the debt has refilled.
 */
interface Bucket {
  level: number
  at: number
  /** Its capacity; a key's limit may change. */
  perMinute: number
}

const minuteMs = 60_000
/** Levels are fractions: differences below this are ignored. */
const roundingMs = 0.001
/** Beyond this number full buckets are dropped: a full bucket carries no information. */
const manyBuckets = 10_000

/** Rates of one kind by name. Times are milliseconds of the given clock. */
class Rates {
  readonly #clock: () => number
  readonly #buckets = new Map<string, Bucket>()
  /** Of how many buckets the full ones are dropped next. */
  #most = manyBuckets
  /** What was spent of each bucket and no other gateway knows of; undefined where there are no others. */
  #untold: Map<string, number> | undefined

  constructor(clock: () => number) {
    this.#clock = clock
  }

  /** What is left for a name now; negative after an overdraft. */
  remaining(name: string, perMinute: number): number {
    return this.#bucketOf(name, perMinute).level
  }

  /** Takes an amount from an existing bucket. */
  spend(name: string, amount: number): void {
    const bucket = this.#buckets.get(name)
    if (!bucket) return
    this.#bucketOf(name, bucket.perMinute).level -= amount
    this.#untold?.set(name, (this.#untold.get(name) ?? 0) + amount)
  }

  /** What other gateways have to know and to tell of: every bucket that was used or is not full. To be asked again and again. */
  untold(): readonly SharedBucket[] {
    const untold = this.#untold
    this.#untold = new Map()
    if (untold === undefined) return []
    return [...this.#buckets].flatMap(([name, { perMinute }]) => {
      const spent = untold.get(name)
      const isFull = this.#bucketOf(name, perMinute).level >= perMinute
      return isFull && spent === undefined ? [] : [{ name, perMinute, spent: spent ?? 0 }]
    })
  }

  /** Others could not be told: they are the next time. */
  keepUntold(buckets: readonly SharedBucket[]): void {
    for (const { name, spent } of buckets) this.#untold?.set(name, (this.#untold.get(name) ?? 0) + spent)
  }

  /** What all gateways together have left of a bucket, but for what was spent here meanwhile. */
  setLevel(name: string, level: number): void {
    const bucket = this.#buckets.get(name)
    if (!bucket) return
    bucket.level = level - (this.#untold?.get(name) ?? 0)
    bucket.at = this.#clock()
  }

  /** How long until `amount` is available, milliseconds. Creates the bucket if necessary. */
  waitMs(name: string, perMinute: number, amount: number): number {
    const bucket = this.#bucketOf(name, perMinute)
    this.#buckets.set(name, bucket)
    this.#untold?.set(name, this.#untold.get(name) ?? 0)
    if (this.#buckets.size > this.#most) this.#forgetFull(name)
    const missing = Math.min(amount, perMinute) - bucket.level
    return missing <= 0 ? 0 : Math.ceil((missing * minuteMs) / perMinute - roundingMs)
  }

  #bucketOf(name: string, perMinute: number): Bucket {
    const now = this.#clock()
    const bucket = this.#buckets.get(name) ?? { level: perMinute, at: now, perMinute }
    const gained = (Math.max(0, now - bucket.at) * perMinute) / minuteMs
    bucket.level = Math.min(perMinute, bucket.level + gained)
    bucket.at = now
    bucket.perMinute = perMinute
    return bucket
  }

  #forgetFull(except: string): void {
    for (const [name, { perMinute }] of this.#buckets) {
      if (name !== except && this.#bucketOf(name, perMinute).level >= perMinute) this.#buckets.delete(name)
    }
    // Where few are full, not every request may look through all of them.
    this.#most = Math.max(manyBuckets, 2 * this.#buckets.size)
  }
}

/** A rate limit as it applies to one caller. */
interface Applied {
  readonly unit: 'requests' | 'tokens'
  readonly rates: Rates
  readonly perMinute: number
  readonly name: string
  /** What must be available for a request to begin. */
  readonly needs: number
}

/** Of a caller, what limits go by. */
export interface LimitedCaller {
  readonly account: { readonly id: string }
  readonly key: Pick<ApiKey, 'id' | 'lineage' | 'requestsPerMinute' | 'tokensPerMinute'> | null
}

/** Lets requests in. */
export class Limiter {
  readonly #now: () => RequestLimits
  readonly #inFlight: InFlight
  readonly #places: SharedPlaces | undefined
  readonly #keyRequests: Rates
  readonly #keyTokens: Rates
  readonly #accountRequests: Rates
  /** The rotation line of keys, by id. */
  readonly #lines = new LRUCache<string, string>(atMost(manyBuckets))

  /** `limits` gives those in force, `clock` milliseconds; `places` tells of the calls at other gateways, where there are any. */
  constructor(limits: () => RequestLimits, inFlight: InFlight, clock: () => number, places?: SharedPlaces) {
    this.#places = places
    this.#now = limits
    this.#inFlight = inFlight
    this.#keyRequests = new Rates(clock)
    this.#keyTokens = new Rates(clock)
    this.#accountRequests = new Rates(clock)
  }

  get #limits(): RequestLimits {
    return this.#now()
  }

  /**
   * Lets a request in, until `leave` or the end of its call. Throws or rejects with `overloaded` when the gateway is
   * full, and `rate_limit_exceeded` with the time to wait when the account or the key has had its share; neither counts.
   */
  enter(caller: LimitedCaller, requestId: string, kind: Kind): Awaitable<void> {
    // Without a limit of its own an account has its share of the places of each gateway, and nobody has to be asked.
    if (this.#places !== undefined && this.#limits.inFlightPerAccount > 0)
      return this.#enterAmongAll(this.#places, caller, requestId, kind)
    this.#enter(caller, requestId, kind, 0)
  }

  async #enterAmongAll(
    places: SharedPlaces,
    caller: LimitedCaller,
    requestId: string,
    kind: Kind,
  ): Promise<void> {
    const elsewhere = await places.callsElsewhere(caller.account.id)
    this.#enter(caller, requestId, kind, elsewhere[kind])
  }

  #enter(caller: LimitedCaller, requestId: string, kind: Kind, elsewhere: number): void {
    const account = caller.account.id
    this.#requirePlace(account, kind, elsewhere)
    const applied = this.#appliedTo(caller)
    for (const { unit, rates, perMinute, name, needs } of applied) {
      const retryAfterMs = rates.waitMs(name, perMinute, needs)
      if (retryAfterMs === 0) continue
      const message = `The limit of ${plural(perMinute, unit === 'requests' ? 'request' : 'token')} a minute is reached.`
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
    }
    for (const { unit, rates, name } of applied) if (unit === 'requests') rates.spend(name, 1)
    this.#inFlight.enter(requestId, account, kind)
  }

  #requirePlace(account: string, kind: Kind, elsewhere: number): void {
    const { inFlight: most, inFlightPerAccount: fixed } = this.#limits
    const places = this.#inFlight.places[kind]
    if (places.isFull(most)) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    const own = places.of(account) + elsewhere
    if (fixed > 0 ? own < fixed : !places.isShareUsed(most, account)) return
    const why = fixed > 0 ? 'the most it may have' : 'its share: as many places are left for all others'
    const message = `The account has ${plural(own, 'request')} in flight, ${why}.`
    throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
  }

  leave(requestId: string): void {
    this.#inFlight.leave(requestId)
  }

  /**
   * Tells other gateways what was taken of the rates, and learns what they have taken: between two exchanges each lets in
   * what it has left. Where it fails, this one counts alone until the next. Rejects as `exchange`.
   */
  async exchange(shared: SharedRates): Promise<void> {
    const kinds = [this.#keyRequests, this.#keyTokens, this.#accountRequests]
    const untold = kinds.map((rates) => rates.untold())
    const asked = untold.flatMap((buckets, kind) =>
      buckets.map((bucket) => ({ ...bucket, name: `${kind} ${bucket.name}` })),
    )
    if (asked.length === 0) return
    try {
      const levels = await shared.exchange(asked)
      for (const [name, level] of levels) kinds[Number(name[0])]!.setLevel(name.slice(2), level)
    } catch (error) {
      kinds.forEach((rates, kind) => rates.keepUntold(untold[kind]!))
      throw error
    }
  }

  /** Counts the tokens of an answer once they are known. */
  spentTokens(key: string | null, tokens: number): void {
    if (key !== null) this.#keyTokens.spend(this.#lines.get(key) ?? key, tokens)
  }

  headers(caller: LimitedCaller): Readonly<Record<string, string>> {
    const applied = this.#appliedTo(caller)
    if (applied.length === 0) return noHeaders
    const headers: Record<string, string> = {}
    for (const unit of ['requests', 'tokens'] as const) {
      const closest = applied
        .filter((limit) => limit.unit === unit)
        .toSorted((a, b) => remaining(a) - remaining(b))[0]
      if (!closest) continue
      const { rates, perMinute, name } = closest
      headers[`x-ratelimit-limit-${unit}`] = String(perMinute)
      headers[`x-ratelimit-remaining-${unit}`] = String(Math.max(0, Math.floor(remaining(closest))))
      headers[`x-ratelimit-reset-${unit}`] = `${rates.waitMs(name, perMinute, perMinute)}ms`
    }
    return headers
  }

  #appliedTo(caller: LimitedCaller): readonly Applied[] {
    const { account, key } = caller
    // Both keys of an overlapping rotation use one bucket; otherwise a rotation would double the limit.
    const line = key === null ? '' : lineOf(key)
    if (key !== null && line !== key.id) this.#lines.set(key.id, line)
    if (!isRateLimited(this.#limits, caller)) return unlimited
    const { accountRequestsPerMinute, keyRequestsPerMinute, keyTokensPerMinute } = this.#limits
    const applied: Applied[] = [
      {
        unit: 'requests',
        rates: this.#accountRequests,
        perMinute: accountRequestsPerMinute,
        name: account.id,
        needs: 1,
      },
    ]
    if (key !== null) {
      const requests = lower(keyRequestsPerMinute, key.requestsPerMinute)
      const tokens = lower(keyTokensPerMinute, key.tokensPerMinute)
      applied.push({ unit: 'requests', rates: this.#keyRequests, perMinute: requests, name: line, needs: 1 })
      applied.push({ unit: 'tokens', rates: this.#keyTokens, perMinute: tokens, name: line, needs: 1 })
    }
    return applied.filter(({ perMinute }) => perMinute > 0)
  }
}

const unlimited: readonly Applied[] = []
const noHeaders: Readonly<Record<string, string>> = {}

function remaining({ rates, name, perMinute }: Applied): number {
  return rates.remaining(name, perMinute)
}

/** Whether any rate limits what the caller may ask for in a minute. */
export function isRateLimited(limits: RequestLimits, { key }: LimitedCaller): boolean {
  if (limits.accountRequestsPerMinute > 0) return true
  return (
    key !== null &&
    (lower(limits.keyRequestsPerMinute, key.requestsPerMinute) > 0 ||
      lower(limits.keyTokensPerMinute, key.tokensPerMinute) > 0)
  )
}

/** The lower of the gateway's limit and the key's own: an owner cannot raise the operator's. */
function lower(general: number, own: number | null): number {
  if (own === null || own <= 0) return general
  return general > 0 ? Math.min(general, own) : own
}

// Limits how much one client reads of large answers that cost nothing: lists of models, and the documentation.

/** The least that an answer counts, even an empty one: looking for it is work too. */
const leastBytes = 16_384

export class FreeReads {
  readonly #perMinute: number
  readonly #rates: Rates

  /** `bytesPerMinute` of one reader; 0 for no limit. `clock` gives milliseconds. */
  constructor(bytesPerMinute: number, clock: () => number) {
    this.#perMinute = bytesPerMinute
    this.#rates = new Rates(clock)
  }

  /** Throws `rate_limit_exceeded` if the reader has had its share. To be called before the answer is made. */
  require(reader: string): void {
    if (this.#perMinute === 0) return
    const retryAfterMs = this.#rates.waitMs(reader, this.#perMinute, leastBytes)
    if (retryAfterMs === 0) return
    const message = `More than ${plural(this.#perMinute, 'byte')} of lists and pages were read in a minute.`
    throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
  }

  /** Counts what was made and sent for the reader; may overdraw its share. */
  count(reader: string, bytes: number): void {
    this.#rates.spend(reader, Math.max(leastBytes, bytes))
  }
}

/** An answer, and the bytes that were made and sent for it. */
export interface FreeAnswer {
  readonly response: Response
  readonly bytes: number
}

/** What `read` answers, counted for whoever asks; it is given the caller where a valid key came along. Rejects with `rate_limit_exceeded`, and as `read` does. */
export async function freely(
  parts: FreeReading,
  request: Request,
  read: (caller: Caller | undefined) => FreeAnswer | Promise<FreeAnswer>,
  header: 'x-api-key' | 'x-goog-api-key' = 'x-api-key',
): Promise<Response> {
  const caller = await readerOf(parts, request, header)
  const reader =
    caller === undefined ? networkOf(parts.site.addressOf(request)) : `account ${caller.account.id}`
  parts.freeReads.require(reader)
  let bytes = 0
  try {
    const answer = await read(caller)
    bytes = answer.bytes
    return answer.response
  } finally {
    // A failed look-up counts too.
    parts.freeReads.count(reader, bytes)
  }
}

/** What answers that cost nothing are counted with. */
export interface FreeReading extends Authentication {
  readonly freeReads: FreeReads
  readonly site: Pick<Site, 'addressOf'>
}

/** Whose key a request brings: it is read from the share of that account, else of the network. */
async function readerOf(
  parts: FreeReading,
  request: Request,
  header: 'x-api-key' | 'x-goog-api-key',
): Promise<Caller | undefined> {
  const { headers } = request
  try {
    if (headers.has('authorization') || headers.has(header))
      return await authenticateEither(headers, parts, header)
  } catch (error) {
    // Nobody needs a key here: one that is not valid is as good as none.
    if (!(error instanceof GatewayError)) throw error
  }
  return undefined
}

// Limits unsigned messages per network. Signed ones are never counted and always accepted, whoever else uses the same
// address: thousands of payments may be reported at once.

/** Messages of processors have a few kilobytes. */
const mostBytes = 256 * 1024
/** What is read of a message of a network that has sent too many: its signature costs next to nothing to compare. */
const fewBytes = 32 * 1024

export class HookLimit {
  readonly #refused: WindowLimit

  /** `most` refused messages in a minute from one network; `clock` gives milliseconds. */
  constructor(most: number, clock: () => number) {
    this.#refused = new WindowLimit(most, minuteMs, clock)
  }

  /**
   * Gives the message from `address` that `verified` reads and verifies; it receives the number of bytes it may read.
   * Counts each message that it rejects. Rejects as it does, or with `rate_limit_exceeded` once the network has sent too
   * many: from then on `beyond` says whether short messages are still read, or none, because verifying costs more.
   */
  async check<Message>(
    address: string,
    beyond: 'short' | 'unread',
    verified: (mostBytes: number) => Promise<Message>,
  ): Promise<Message> {
    const network = networkOf(address)
    const retryAfterMs = this.#refused.waitMs(network)
    const tooMany = (cause?: unknown) => {
      const message = 'Too many messages without a valid signature came from this network.'
      return new GatewayError('rate_limit_exceeded', { message, retryAfterMs, cause })
    }
    if (retryAfterMs > 0 && beyond === 'unread') throw tooMany()
    try {
      return await verified(retryAfterMs > 0 ? fewBytes : mostBytes)
    } catch (error) {
      this.#refused.take(network)
      throw retryAfterMs > 0 ? tooMany(error) : error
    }
  }
}
