// Tracks the health of each offer and key: what is cooling down, what is broken, what may be tried again.
//
// A 429, an exhausted account or a refused key cools down until the provider's Retry-After: it is tried last, but
// still tried if nothing else is left. When the time is over one probe a second asks whether it is back, and one answer
// brings it back: otherwise all calls would meet at once what still refuses them. Ten calls in a row that fail (5xx, cut, timeout) open the breaker: the offer is
// skipped except for one probe a second, and a call without another offer is refused at once with 503 and Retry-After
// 1. The probe goes to the offer in its own rank, also while others answer: otherwise a preferred offer would never come
// back. Any answer closes the breaker, so a stale one costs at most that second.
//
// The request may be at fault rather than the provider: a prompt that always times out must not close a model to
// everybody. So ten faults of one account open the breaker for that account only, and it counts at most four times
// towards the breaker of all: three accounts are needed to open that.

import type { Offer } from '../../catalog/row.ts'
import type { Fault, FaultKind } from '../../conversation/event.ts'
import type { ErrorCode } from '../../errors/errors.ts'
import type { ConfiguredProvider, DeploymentLimits } from '../../providers/provider.ts'
import { type Candidate, keyNumber } from './candidates.ts'
import { codeOf, DeploymentFull, publicReason } from './fault-error.ts'

/** The recorded failures of an offer or key. Times are milliseconds of the health clock. */
export interface Trouble {
  /** Faults in a row, by account. */
  readonly failures: ReadonlyMap<string, number>
  /** When the next probe may be sent, once the breaker is open. */
  readonly probeAt: number
  readonly coolUntil: number
}

export type Standing = 'healthy' | 'cooling' | 'open'

const none: Trouble = { failures: new Map(), probeAt: 0, coolUntil: 0 }

export const faultsToOpen = 10
/** How many faults of one account count towards the breaker of all. */
export const faultsOfOneAccount = 4
/** At most one probe in this time, and the first one this long after the breaker opened. */
export const probeEveryMs = 1_000
/** Cool-down by kind of fault if the provider names none. */
const coolMs: Readonly<Partial<Record<FaultKind, number>>> = {
  'rate-limited': 1_000,
  quota: 60_000,
  credentials: 60_000,
}
const longestCoolMs = 86_400_000
/** How long others are asked first after an offer was too slow where another waited. */
const slowCoolMs = 10_000

/** Faults that mean the provider does not work, as opposed to rejecting this request. */
const breaking: ReadonlySet<FaultKind> = new Set(['overloaded', 'broken', 'too-large', 'cut', 'timeout'])
/** Faults that affect the key for every model. */
const ofKey: ReadonlySet<FaultKind> = new Set(['quota', 'credentials'])

export function breaks({ kind }: Fault): boolean {
  return breaking.has(kind)
}

/** The trouble after one more fault of a call of `account`; undefined if the fault shows that the provider works. */
export function afterFault(
  before: Trouble | undefined,
  fault: Fault,
  now: number,
  account: string,
): Trouble | undefined {
  const { failures, probeAt, coolUntil } = before ?? none
  const cool = fault.retryAfterMs ?? coolMs[fault.kind]
  const cooled = cool === undefined ? coolUntil : Math.max(coolUntil, now + Math.min(cool, longestCoolMs))
  if (breaks(fault)) {
    // Nothing more is counted once it is open: the list stays short however long a provider is down.
    if (isOpen(failures, account)) return { failures, probeAt, coolUntil: cooled }
    const counted = new Map(failures).set(account, (failures.get(account) ?? 0) + 1)
    const opens = isOpen(counted, account)
    return { failures: counted, probeAt: opens ? now + probeEveryMs : probeAt, coolUntil: cooled }
  }
  return coolMs[fault.kind] === undefined ? undefined : { ...none, coolUntil: cooled }
}

/** The state for calls of an account. */
export function standingOf(trouble: Trouble | undefined, now: number, account: string): Standing {
  if (trouble === undefined) return 'healthy'
  if (isOpen(trouble.failures, account)) return 'open'
  return trouble.coolUntil > now ? 'cooling' : 'healthy'
}

function isOpen(failures: Trouble['failures'], account: string): boolean {
  if ((failures.get(account) ?? 0) >= faultsToOpen) return true
  let ofAll = 0
  for (const count of failures.values()) ofAll += Math.min(count, faultsOfOneAccount)
  return ofAll >= faultsToOpen
}

/** The breaker for calls of an account; `half-open` lets the next call through as a probe. */
export type Breaker = 'closed' | 'open' | 'half-open'

export function breakerOf(trouble: Trouble, now: number, account: string): Breaker {
  if (standingOf(trouble, now, account) !== 'open') return 'closed'
  return now < trouble.probeAt ? 'open' : 'half-open'
}

/** The provider's last fault. Its message is ours, because the provider's may quote another account's request. */
export interface LastError {
  readonly at: number
  readonly code: ErrorCode
  readonly status: number | null
  readonly reason: string
  readonly upstream: string
}

/** One provider as `GET /v1/providers` shows it. */
export interface ProviderHealth {
  readonly state: 'healthy' | 'degraded' | 'unavailable'
  /** What it has answered in the last hour and in the last day. */
  readonly hour: AnswerCount
  readonly day: AnswerCount
  /** Since when that is counted: from the start of the process. */
  readonly countedSince: number
  /** When the latest running cool-down ends; null if none runs. */
  readonly coolUntil: number | null
  readonly troubles: readonly {
    /** Counts from 1. */
    readonly key: number
    /** null if the key fails for every model. */
    readonly upstream: string | null
    readonly standing: Standing
    readonly breaker: Breaker
    /** Faults in a row. */
    readonly failures: number
  }[]
  readonly lastError: LastError | null
}

/** What a provider has made of calls in some time. */
export interface AnswerCount {
  /** Whole, begun, or refused because of the request. */
  readonly answered: number
  /** Refused by the provider itself: a limit of rate or quota, a key. */
  readonly refused: number
  /** Broken off, too late, or an error of the provider. */
  readonly failed: number
  /** Those that served something, by ranges of time: which range, how many, and their milliseconds together. */
  readonly times: readonly (readonly [range: number, answers: number, ms: number])[]
}

export const noAnswers: AnswerCount = { answered: 0, refused: 0, failed: 0, times: [] }

/** The figures of a count, as people read them; null where there is nothing to tell. */
export interface AnswerFigures {
  readonly answers: number
  readonly refusals: number
  readonly successRate: number | null
  /** The median until a stream's first content, or until a whole answer, milliseconds. */
  readonly p50Ms: number | null
}

export type AnswersByProvider = Readonly<Record<string, AnswerCount>>

export function figuresOf({ answered, refused, failed, times }: AnswerCount): AnswerFigures {
  const answers = answered + refused + failed
  const timed = times.reduce((sum, [, count]) => sum + count, 0)
  let left = Math.floor(timed / 2)
  const median = times.find(([, count]) => (left -= count) < 0)
  return {
    answers,
    refusals: refused,
    successRate: answers === 0 ? null : answered / answers,
    // The mean of the range that the median is in: a range is a quarter wide.
    p50Ms: median === undefined ? null : Math.round(median[2] / median[1]),
  }
}

type AnswerKind = 'answered' | 'refused' | 'failed'
const answerKinds = ['answered', 'refused', 'failed'] as const

/** Each range of time ends a quarter later than the one before: sixty-four reach beyond ten minutes. */
const ranges = 64
const rangeOf = (ms: number) =>
  Math.min(ranges - 1, Math.floor(Math.log(Math.max(0, ms) + 1) / Math.log(1.25)))

/** Counts what has happened in the last `steps` spans of `stepMs`, the running one included. Its size is fixed. */
class Recent {
  readonly #stepMs: number
  readonly #steps: number
  /** Which span each place holds, counted from 1970. */
  readonly #spans: Float64Array
  readonly #kinds: Uint32Array
  readonly #times: Uint32Array
  readonly #sums: Float64Array

  constructor(stepMs: number, steps: number) {
    this.#stepMs = stepMs
    this.#steps = steps
    this.#spans = new Float64Array(steps)
    this.#kinds = new Uint32Array(steps * answerKinds.length)
    this.#times = new Uint32Array(steps * ranges)
    this.#sums = new Float64Array(steps * ranges)
  }

  /** `ms` undefined: it says nothing of how quick the provider is. */
  add(now: number, kind: AnswerKind, ms: number | undefined): void {
    const span = Math.floor(now / this.#stepMs)
    const at = span % this.#steps
    if (this.#spans[at] !== span) {
      this.#spans[at] = span
      this.#kinds.fill(0, at * answerKinds.length, (at + 1) * answerKinds.length)
      this.#times.fill(0, at * ranges, (at + 1) * ranges)
      this.#sums.fill(0, at * ranges, (at + 1) * ranges)
    }
    this.#kinds[at * answerKinds.length + answerKinds.indexOf(kind)]!++
    if (ms === undefined) return
    const range = at * ranges + rangeOf(ms)
    this.#times[range]!++
    this.#sums[range]! += ms
  }

  /** One answer of the running span was none; of an earlier one it stays. */
  takeBack(now: number): void {
    const span = Math.floor(now / this.#stepMs)
    const at = span % this.#steps
    const answered = at * answerKinds.length
    if (this.#spans[at] === span && this.#kinds[answered]! > 0) this.#kinds[answered]!--
  }

  count(now: number): AnswerCount {
    const span = Math.floor(now / this.#stepMs)
    const held = [...this.#spans.keys()].filter((at) => {
      const ago = span - this.#spans[at]!
      return ago >= 0 && ago < this.#steps
    })
    const sumOf = (kind: number) =>
      held.reduce((sum, at) => sum + this.#kinds[at * answerKinds.length + kind]!, 0)
    const times = Array.from({ length: ranges }, (_, range) => {
      const of = (counts: Uint32Array | Float64Array) =>
        held.reduce((sum, at) => sum + counts[at * ranges + range]!, 0)
      return [range, of(this.#times), of(this.#sums)] as const
    })
    return {
      answered: sumOf(0),
      refused: sumOf(1),
      failed: sumOf(2),
      times: times.filter(([, answers]) => answers > 0),
    }
  }
}

/** The last hour and the last day of one provider: some 30 kB, made with its first answer. */
class RecentAnswers {
  readonly #hour = new Recent(300_000, 12)
  readonly #day = new Recent(3_600_000, 24)

  add(now: number, kind: AnswerKind, ms?: number): void {
    this.#hour.add(now, kind, ms)
    this.#day.add(now, kind, ms)
  }

  takeBack(now: number): void {
    this.#hour.takeBack(now)
    this.#day.takeBack(now)
  }

  hour(now: number): AnswerCount {
    return this.#hour.count(now)
  }

  day(now: number): AnswerCount {
    return this.#day.count(now)
  }
}

/** What the newest answer counts in the mean latency of an offer. */
const newestShare = 0.1

/** The health of all offers and keys in this process. Healthy ones have no entry. */
export class Health {
  readonly #clock: () => number
  /** By provider and name there: a mean that forgets. */
  readonly #latencies = new Map<string, number>()
  /** Offers with a probe under way that went ahead of healthy ones. */
  readonly #probing = new Set<string>()
  readonly #troubles = new Map<string, Trouble>()
  readonly #recent = new Map<string, RecentAnswers>()
  readonly #lastErrors = new Map<string, LastError>()
  readonly #countedSince: number

  /** `clock` gives milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock
    this.#countedSince = clock()
  }

  /** Whether nothing at all is in trouble. */
  get isQuiet(): boolean {
    return this.#troubles.size === 0
  }

  /** How a candidate stands for the calls of an account: the worse of its offer and its key. */
  standing(candidate: Candidate, account: string): Standing {
    if (this.#troubles.size === 0) return 'healthy'
    const now = this.#clock()
    const ofOffer = this.#troubles.get(offerName(candidate))
    const offer = standingOf(ofOffer, now, account)
    if (offer !== 'healthy') return offer
    const ofKey = this.#troubles.get(keyName(candidate))
    const key = standingOf(ofKey, now, account)
    return key === 'healthy' && (hasCooled(ofOffer) || hasCooled(ofKey)) ? 'cooling' : key
  }

  /**
   * Whether a candidate whose breaker is open, or that has cooled down, is due for a probe that may go ahead of healthy
   * candidates. Only one such probe is under way at a time: an offer that hangs must not delay a call every second.
   */
  isDue(candidate: Candidate, account: string): boolean {
    const name = offerName(candidate)
    if (this.#probing.has(name)) return false
    const now = this.#clock()
    const offer = this.#troubles.get(name)
    if (offer !== undefined && standingOf(offer, now, account) === 'open')
      return breakerOf(offer, now, account) === 'half-open'
    const key = this.#troubles.get(keyName(candidate))
    const isOver = (trouble: Trouble | undefined) =>
      trouble === undefined || (trouble.coolUntil <= now && trouble.probeAt <= now)
    return (hasCooled(offer) || hasCooled(key)) && isOver(offer) && isOver(key)
  }

  /** Takes note of a probe ahead of healthy candidates; the result is to be called when it has ended. */
  beginProbe(candidate: Candidate): () => void {
    const name = offerName(candidate)
    this.#probing.add(name)
    return () => void this.#probing.delete(name)
  }

  /** Whether a candidate that is open, or has cooled down, may be probed now; this uses the permission up. */
  probe(candidate: Candidate): boolean {
    const ofOffer = offerName(candidate)
    const name = this.#troubles.has(ofOffer) ? ofOffer : keyName(candidate)
    const trouble = this.#troubles.get(name)
    if (trouble === undefined) return true
    const now = this.#clock()
    if (now < trouble.probeAt) return false
    this.#troubles.set(name, { ...trouble, probeAt: now + probeEveryMs })
    return true
  }

  /** Records an answer. `ms` until its first content, or its whole answer. */
  onAnswer(candidate: Candidate, ms: number): void {
    this.#recentOf(candidate.provider).add(this.#clock(), 'answered', ms)
    this.#meanLatency(candidate.offer, ms)
    if (this.#troubles.size === 0) return
    this.#troubles.delete(offerName(candidate))
    this.#troubles.delete(keyName(candidate))
  }

  /**
   * Records that an offer had not begun to answer after `ms` where another waited. It may be well, and a call that has
   * nobody else is not refused because of it: it cools down and no breaker opens.
   */
  onSlow(candidate: Candidate, ms: number): void {
    if (candidate.provider.transport === 'builtin') return
    this.#recentOf(candidate.provider).add(this.#clock(), 'failed')
    this.#meanLatency(candidate.offer, ms)
    const name = offerName(candidate)
    const before = this.#troubles.get(name) ?? none
    this.#troubles.set(name, {
      ...before,
      coolUntil: Math.max(before.coolUntil, this.#clock() + slowCoolMs),
    })
  }

  #meanLatency({ provider, upstream }: Offer, ms: number): void {
    const name = `${provider}\n${upstream}`
    const before = this.#latencies.get(name)
    this.#latencies.set(name, before === undefined ? ms : before + (ms - before) * newestShare)
  }

  /** Records that an answer to `account` has broken off, which `onAnswer` was called for: it was none. */
  onBroken(candidate: Candidate, fault: Fault, account: string): void {
    if (candidate.provider.transport !== 'builtin') this.#recentOf(candidate.provider).takeBack(this.#clock())
    this.onFailed(candidate, fault, account)
  }

  /** Records a failure of a call of `account` before its answer. */
  onFailed(candidate: Candidate, fault: Fault, account: string): void {
    // Built-in providers fail because they were asked to, which says nothing about the next call.
    if (candidate.provider.transport === 'builtin') return
    const name = ofKey.has(fault.kind) ? keyName(candidate) : offerName(candidate)
    const now = this.#clock()
    const after = afterFault(this.#troubles.get(name), fault, now, account)
    const kind = after === undefined ? 'answered' : coolMs[fault.kind] === undefined ? 'failed' : 'refused'
    this.#recentOf(candidate.provider).add(now, kind)
    if (after === undefined) {
      this.#troubles.delete(name)
      return
    }
    this.#troubles.set(name, after)
    this.#lastErrors.set(candidate.provider.id, {
      at: now,
      code: codeOf(fault),
      status: fault.status ?? null,
      reason: publicReason(fault),
      upstream: candidate.offer.upstream,
    })
  }

  /** How long an offer has taken of late until its first content, milliseconds; undefined if it was not asked yet. */
  latencyMs({ provider, upstream }: Offer): number | undefined {
    return this.#latencies.get(`${provider}\n${upstream}`)
  }

  report(provider: ConfiguredProvider, account: string): ProviderHealth {
    const now = this.#clock()
    const running = [...this.#troubles].flatMap(([name, trouble]) => {
      const [id, key, upstream] = name.split('\n')
      const standing = standingOf(trouble, now, account)
      const failures = trouble.failures.values().reduce((sum, count) => sum + count, 0)
      if (id !== provider.id || (standing === 'healthy' && failures === 0)) return []
      const breaker = breakerOf(trouble, now, account)
      const { coolUntil } = trouble
      return [{ key: Number(key) + 1, upstream: upstream ?? null, standing, breaker, failures, coolUntil }]
    })
    const keysOut = new Set(
      running
        .filter(({ upstream, standing }) => upstream === null && standing !== 'healthy')
        .map(({ key }) => key),
    )
    const recent = this.#recent.get(provider.id)
    const coolUntil = Math.max(0, ...running.map((trouble) => trouble.coolUntil))
    const out = keysOut.size >= provider.keys.length
    return {
      state: running.length === 0 ? 'healthy' : out ? 'unavailable' : 'degraded',
      hour: recent?.hour(now) ?? noAnswers,
      day: recent?.day(now) ?? noAnswers,
      countedSince: this.#countedSince,
      coolUntil: coolUntil > now ? coolUntil : null,
      troubles: running.map(({ coolUntil: _, ...trouble }) => trouble),
      lastError: this.#lastErrors.get(provider.id) ?? null,
    }
  }

  /** What every provider that was asked has answered in the last hour, by id. */
  lastHour(): AnswersByProvider {
    const now = this.#clock()
    return Object.fromEntries([...this.#recent].map(([id, recent]) => [id, recent.hour(now)]))
  }

  #recentOf({ id }: ConfiguredProvider): RecentAnswers {
    const known = this.#recent.get(id)
    if (known) return known
    const fresh = new RecentAnswers()
    this.#recent.set(id, fresh)
    return fresh
  }
}

/** Whether it has cooled down, or does: what answers has no trouble any more. */
function hasCooled(trouble: Trouble | undefined): boolean {
  return trouble !== undefined && trouble.coolUntil > 0
}

/** Uses the key's position, never the key itself. */
function keyName(candidate: Candidate): string {
  return `${candidate.provider.id}\n${keyNumber(candidate)}`
}

function offerName(candidate: Candidate): string {
  return `${keyName(candidate)}\n${candidate.offer.upstream}`
}

// What the deployments of providers are asked in a minute, and at once: their limits are kept ahead of their 429, so that
// a call goes to another one at once instead of being refused first.

/** A minute, whole: the second that is running counts as well. */
const windowSeconds = 61
/** When to look again for a place among those in flight, milliseconds: nobody knows when one ends. */
const placeMs = 1_000

/** The use of all deployments in this process, by provider and place: it outlives a change of the configuration. */
export class DeploymentUse {
  readonly #clock: () => number
  readonly #uses = new Map<string, Use>()

  /** `clock` gives milliseconds, and never goes back. */
  constructor(clock: () => number) {
    this.#clock = clock
  }

  /**
   * Counts a call of so many tokens at a deployment; the result is to be called when it has ended. Throws DeploymentFull,
   * with the time until there may be room, if that would be more than it may have. A call that is larger than the limit
   * of a minute is let through where nothing else has been in it.
   */
  take({ id, deployment }: ConfiguredProvider, tokens: number): () => void {
    const { limits, firstKey } = deployment!
    const name = `${id}\n${firstKey}`
    let use = this.#uses.get(name)
    if (use === undefined) this.#uses.set(name, (use = new Use()))
    const waitMs = use.waitMs(limits!, tokens, this.#clock())
    if (waitMs > 0) throw new DeploymentFull(waitMs)
    return use.begin(tokens, this.#clock())
  }
}

/** One deployment: a minute of seconds, and what is in flight. */
class Use {
  readonly #requests = new Float64Array(windowSeconds)
  readonly #tokens = new Float64Array(windowSeconds)
  #second = 0
  #inFlight = 0

  /** 0 if there is room; otherwise the time until there may be, milliseconds. */
  waitMs(
    { requestsPerMinute, tokensPerMinute, inFlight }: DeploymentLimits,
    tokens: number,
    now: number,
  ): number {
    this.#passTo(now)
    return Math.max(
      inFlight !== undefined && this.#inFlight >= inFlight ? placeMs : 0,
      requestsPerMinute === undefined ? 0 : this.#waitFor(this.#requests, 1, requestsPerMinute, now),
      tokensPerMinute === undefined ? 0 : this.#waitFor(this.#tokens, tokens, tokensPerMinute, now),
    )
  }

  begin(tokens: number, now: number): () => void {
    this.#passTo(now)
    const slot = this.#second % windowSeconds
    this.#requests[slot]! += 1
    this.#tokens[slot]! += tokens
    this.#inFlight += 1
    return () => {
      this.#inFlight -= 1
    }
  }

  /** How long until so much of the oldest seconds is out of the window that this fits in. */
  #waitFor(counts: Float64Array, more: number, limit: number, now: number): number {
    let counted = 0
    for (const count of counts) counted += count
    if (counted === 0 || counted + more <= limit) return 0
    for (let passed = 1; passed <= windowSeconds; passed++) {
      counted -= counts[(this.#second + passed) % windowSeconds]!
      if (counted <= 0 || counted + more <= limit) return (this.#second + passed) * 1_000 - now
    }
    return windowSeconds * 1_000
  }

  /** Clears the seconds that are out of the window. */
  #passTo(now: number): void {
    const second = Math.floor(now / 1_000)
    const passed = Math.min(Math.max(0, second - this.#second), windowSeconds)
    for (let step = 1; step <= passed; step++) {
      const slot = (this.#second + step) % windowSeconds
      this.#requests[slot] = 0
      this.#tokens[slot] = 0
    }
    this.#second = Math.max(this.#second, second)
  }
}
