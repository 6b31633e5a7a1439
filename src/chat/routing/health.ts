// Tracks the health of each offer and key: what is cooling down, what is broken, what may be tried again.
//
// A 429, an exhausted account or a refused key cools down until the provider's Retry-After: it is tried last, but
// still tried if nothing else is left. When the time is over one probe a second asks whether it is back, and one answer
// brings it back: otherwise all calls would meet at once what still refuses them. Ten calls in a row that fail (5xx, cut, timeout) open the breaker: the offer is
// skipped except for one probe a second, and a call without another offer is refused at once with 503 and Retry-After
// 1. The probe goes to the offer in its own rank, also while others answer: otherwise a preferred offer would never come
// back. Any answer closes the breaker, so a stale one costs at most that second. Several processes of one gateway share
// the probe of a second, and tell each other of the answer.
//
// The request may be at fault rather than the provider: a prompt that always times out must not close a model to
// everybody. So ten faults of one account open the breaker for that account only, and it counts at most four times
// towards the breaker of all: three accounts are needed to open that.

import type { Offer } from '../../catalog/row.ts'
import type { Awaitable } from '../../async/async.ts'
import type { Fault, FaultKind } from '../../conversation/event.ts'
import type { ErrorCode } from '../../errors/errors.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'
import { codeOf, publicReason } from './fault-error.ts'
import { type Candidate, keyNumber } from './candidates.ts'

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
  /** Of the recent answers; null if there are none. */
  readonly successRate: number | null
  /** Until a stream's first content, or until a whole answer, milliseconds. */
  readonly p50Ms: number | null
  readonly answers: number
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

const samples = 128

/** The recent answers of one provider. */
class Recent {
  readonly #ok = new Uint8Array(samples)
  readonly #ms = new Float64Array(samples)
  #count = 0

  add(ok: boolean, ms: number): void {
    const at = this.#count++ % samples
    this.#ok[at] = ok ? 1 : 0
    this.#ms[at] = ms
  }

  get summary(): Pick<ProviderHealth, 'successRate' | 'p50Ms' | 'answers'> {
    const answers = Math.min(this.#count, samples)
    if (answers === 0) return { successRate: null, p50Ms: null, answers }
    const good = this.#ok.subarray(0, answers).reduce((sum, ok) => sum + ok, 0)
    const times = [...this.#ms.subarray(0, answers)].filter((_, at) => this.#ok[at] === 1)
    times.sort((a, b) => a - b)
    const p50Ms = times.length === 0 ? null : Math.round(times[Math.floor(times.length / 2)]!)
    return { successRate: good / answers, p50Ms, answers }
  }
}

/** What the newest answer counts in the mean latency of an offer. */
const newestShare = 0.1

/** Shares probes and recoveries among the processes of one gateway. Offers are named by `Health`. */
export interface SharedProbes {
  /** 0 if an offer may be probed now, which uses the permission up; otherwise the wait until then, milliseconds. */
  claim(offer: string): Awaitable<number>
  /** An offer with an open breaker has answered. */
  onRecovered(offer: string): void
}

/** Allows one probe of each offer in a second. `tell` is called with each offer that answers again. */
export class Probes implements SharedProbes {
  readonly #clock: () => number
  readonly #tell: (offer: string) => void
  readonly #nextAt = new Map<string, number>()

  /** `clock` gives milliseconds. */
  constructor(clock: () => number, tell: (offer: string) => void = () => undefined) {
    this.#clock = clock
    this.#tell = tell
  }

  claim(offer: string): number {
    const now = this.#clock()
    const nextAt = this.#nextAt.get(offer) ?? now
    if (nextAt > now) return nextAt - now
    this.#nextAt.set(offer, now + probeEveryMs)
    return 0
  }

  onRecovered(offer: string): void {
    this.#nextAt.delete(offer)
    this.#tell(offer)
  }
}

/** The health of all offers and keys in this process. Healthy ones have no entry. */
export class Health {
  readonly #clock: () => number
  readonly #probes: SharedProbes
  /** By provider and name there: a mean that forgets. */
  readonly #latencies = new Map<string, number>()
  /** Offers with a probe under way that went ahead of healthy ones. */
  readonly #probing = new Set<string>()
  readonly #troubles = new Map<string, Trouble>()
  readonly #recent = new Map<string, Recent>()
  readonly #lastErrors = new Map<string, LastError>()

  /** `clock` gives milliseconds. */
  constructor(clock: () => number, probes: SharedProbes = new Probes(clock)) {
    this.#clock = clock
    this.#probes = probes
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
  async probe(candidate: Candidate): Promise<boolean> {
    const ofOffer = offerName(candidate)
    const name = this.#troubles.has(ofOffer) ? ofOffer : keyName(candidate)
    const trouble = this.#troubles.get(name)
    if (trouble === undefined) return true
    const now = this.#clock()
    if (now < trouble.probeAt) return false
    // Before any wait, so that no other call of this process asks meanwhile.
    this.#troubles.set(name, { ...trouble, probeAt: now + probeEveryMs })
    const waitMs = await this.#probes.claim(name)
    if (waitMs === 0) return true
    const since = this.#troubles.get(name)
    if (since !== undefined) this.#troubles.set(name, { ...since, probeAt: this.#clock() + waitMs })
    // It has answered another process meanwhile.
    return since === undefined
  }

  /** Another process of this gateway has had an answer of an offer that was open. */
  onRecovered(offer: string): void {
    this.#troubles.delete(offer)
  }

  /** Records an answer. `ms` until its first content, or its whole answer. */
  onAnswer(candidate: Candidate, ms: number): void {
    this.#recentOf(candidate.provider).add(true, ms)
    this.#meanLatency(candidate.offer, ms)
    if (this.#troubles.size === 0) return
    this.#forget(offerName(candidate))
    this.#forget(keyName(candidate))
  }

  /**
   * Records that an offer had not begun to answer after `ms` where another waited. It may be well, and a call that has
   * nobody else is not refused because of it: it cools down and no breaker opens.
   */
  onSlow(candidate: Candidate, ms: number): void {
    if (candidate.provider.transport === 'builtin') return
    this.#recentOf(candidate.provider).add(false, ms)
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

  #forget(name: string): void {
    const trouble = this.#troubles.get(name)
    if (trouble === undefined) return
    this.#troubles.delete(name)
    // Only an open breaker keeps other processes away.
    if (trouble.probeAt > 0) this.#probes.onRecovered(name)
  }

  /** Records a failure of a call of `account`, before its answer or within it. */
  onFailed(candidate: Candidate, fault: Fault, ms: number, account: string): void {
    // Built-in providers fail because they were asked to, which says nothing about the next call.
    if (candidate.provider.transport === 'builtin') return
    const name = ofKey.has(fault.kind) ? keyName(candidate) : offerName(candidate)
    const now = this.#clock()
    const after = afterFault(this.#troubles.get(name), fault, now, account)
    this.#recentOf(candidate.provider).add(after === undefined, ms)
    if (after === undefined) return this.#forget(name)
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
    const coolUntil = Math.max(0, ...running.map((trouble) => trouble.coolUntil))
    const out = keysOut.size >= provider.keys.length
    return {
      state: running.length === 0 ? 'healthy' : out ? 'unavailable' : 'degraded',
      ...(this.#recent.get(provider.id) ?? new Recent()).summary,
      coolUntil: coolUntil > now ? coolUntil : null,
      troubles: running.map(({ coolUntil: _, ...trouble }) => trouble),
      lastError: this.#lastErrors.get(provider.id) ?? null,
    }
  }

  #recentOf({ id }: ConfiguredProvider): Recent {
    const known = this.#recent.get(id)
    if (known) return known
    const fresh = new Recent()
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
