// Tries the offers in order. Fails over only before the first byte to the client.
//
// A model is asked twice before another model is: of its offers one after the other, or its only one again after a
// moment. A fault that another moment will not mend, such as a refused key or a wait of more than two seconds, is left
// at once. A content filter's refusal ends the call, unless the caller has said that another model may answer.

import type { Offer } from '../../catalog/row.ts'
import type { Fault } from '../../conversation/event.ts'
import type { Attempt } from '../../credits/ledger/ledger.ts'
import { asGatewayError, GatewayError } from '../../errors/errors.ts'
import { UnreachableError } from '../../providers/upstream.ts'
import type { Abandoned } from '../call.ts'
import type { Candidate } from './candidates.ts'
import {
  type AfterFilter,
  anotherModelMayHelp,
  anotherOfferMayHelp,
  AttemptAbandoned,
  AttemptFailed,
  AttemptTooSlow,
  clientGone,
  codeOf,
  DeploymentFull,
  errorOf,
  publicReason,
  transportFault,
} from './fault-error.ts'
import { breaks, type Health, probeEveryMs } from './health.ts'

export interface Dispatched<Answer> {
  readonly answer: Answer
  readonly candidate: Candidate
  readonly attempts: readonly Attempt[]
}

/** Every candidate failed: carries the error for the client and the attempts. */
export class DispatchFailed extends Error {
  readonly error: GatewayError
  readonly attempts: readonly Attempt[]
  /** Undefined unless a provider was being asked when the call was ended. */
  readonly abandoned: Abandoned | undefined

  constructor(error: GatewayError, attempts: readonly Attempt[], abandoned?: Abandoned) {
    super(error.message, { cause: error })
    this.name = 'DispatchFailed'
    this.error = error
    this.attempts = attempts
    this.abandoned = abandoned
  }
}

export interface Search {
  /** By preference; their health may change the order. */
  readonly candidates: readonly Candidate[]
  /** Attempts over all candidates. */
  readonly limit: number
  readonly health: Health
  /** The faults of one account do not close an offer to the others. */
  readonly account: string
  /** What follows when a content filter has refused the prompt. */
  readonly afterFilter: AfterFilter
  readonly budget: RetryBudget
  /** Aborts when the client disconnects: nothing more is tried then. */
  readonly disconnect: AbortSignal
  /** Called for every failed attempt, for the log. */
  onFailed(candidate: Candidate, attempt: Attempt, error: unknown): void
  /** Called once, when a candidate has answered. */
  onServed(candidate: Candidate, attempts: readonly Attempt[]): void
  /** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>
}

/** The longest wait for an offer that asks for one; beyond this the client gets the error instead. */
const longestWaitMs = 2_000
/** The wait before a second attempt if the provider names none; it doubles each time, with jitter of one half. */
const firstWaitMs = 100
/** The same of an offer that limits the rate and names no time. */
const limitedWaitMs = 500

/** Faults that may be over a moment later. A timeout is not among them: it has cost the client enough time. */
const passing: ReadonlySet<Fault['kind']> = new Set(['overloaded', 'broken', 'cut'])

/** Whether another candidate is there to be asked if this one does not begin to answer soon. */
export type Waiting = 'another' | 'none'

/**
 * Tries the candidates until one answers: healthy ones in order, then those in cool-down. An offer whose breaker is open
 * is probed in its own rank when that is due, ahead of healthy ones too. A model that was asked once is asked again
 * before another model is. If all fail and one may have recovered, that one is tried again after the wait it asked for.
 * Attempts at candidates in trouble, and repeated attempts, are paid from the retry budget. An offer that cannot take a
 * required parameter is skipped, and if all are skipped, that is the error. Any other fault of the request ends the
 * search, except that a prompt that is too long moves on to a model with a larger context, or else to the next one.
 * Rejects with DispatchFailed.
 */
export function dispatch<Answer>(
  search: Search,
  attempt: (candidate: Candidate, waiting: Waiting) => Promise<Answer>,
): Promise<Dispatched<Answer>> {
  search.budget.request()
  return new Tries(search, attempt).run()
}

interface Failure {
  readonly candidate: Candidate
  readonly fault: Fault
}

/** The tries of one call. Most calls have one, which succeeds: what the others need is made when they come. */
class Tries<Answer> {
  readonly #search: Search
  readonly #attempt: (candidate: Candidate, waiting: Waiting) => Promise<Answer>
  readonly #attempts: Attempt[] = []
  #failures: Failure[] | undefined
  #refusedModels: Set<string> | undefined
  /** Offers that cannot take a required parameter, and the error. They were not asked. */
  #leftOut: Map<Offer, GatewayError> | undefined
  /** The request is at fault, or the client has disconnected: no one else is asked. */
  #over = false
  /** Candidates that were asked again without what they had refused: once each. */
  readonly #sentAgain = new Set<Candidate>()
  /** The candidate that was probed ahead of healthy ones. */
  #probed: Candidate | undefined
  /** The largest context that the prompt was too long for, tokens. */
  #tooShort: number | undefined

  constructor(search: Search, attempt: (candidate: Candidate, waiting: Waiting) => Promise<Answer>) {
    this.#search = search
    this.#attempt = attempt
  }

  /** Each candidate once, then those that may have got over it. */
  async run(): Promise<Dispatched<Answer>> {
    const { account, candidates, health } = this.#search
    if (!health.isQuiet) {
      const probed = dueForProbe(this.#search)
      const answer = probed && (await this.#probeAhead(probed))
      if (answer) return answer
    }
    let rest = health.isQuiet ? candidates : wellFirst(this.#search)
    for (let candidate = rest[0]; candidate !== undefined && !this.#isOver; candidate = rest[0]) {
      if (this.#isOfAnother(candidate)) {
        const answer = await this.#beforeAnother(rest)
        if (answer) return answer
        if (this.#isOver) break
        rest = this.#largerFirst(rest)
        candidate = rest[0]!
      }
      rest = rest.slice(1)
      if (this.#isRefused(candidate) || candidate === this.#probed) continue
      if (health.standing(candidate, account) !== 'healthy' && !(await this.#mayTry(candidate))) continue
      const answer = await this.#try(candidate, rest)
      if (answer) return answer
    }
    return (await this.#again()) ?? this.#fail()
  }

  #isRefused({ model, offer }: Candidate): boolean {
    return this.#refusedModels?.has(model.id) === true || this.#leftOut?.has(offer) === true
  }

  /** Whether the last attempt was at another model than this one's. */
  #isOfAnother({ model }: Candidate): boolean {
    const last = this.#failures?.at(-1)
    return last !== undefined && last.candidate.model.id !== model.id
  }

  /**
   * Asks a model that was asked once again before another one is: one answer late is better than one of another model,
   * and the prompt is in its cache. Not if that would be the last attempt of the call.
   */
  async #beforeAnother(rest: readonly Candidate[]): Promise<Dispatched<Answer> | undefined> {
    const { account, budget, disconnect, health, limit, pause } = this.#search
    const { candidate, fault } = this.#failures!.at(-1)!
    const isFirst = this.#failures!.every(
      (other, at, { length }) => at === length - 1 || other.candidate.model.id !== candidate.model.id,
    )
    const waitMs = isFirst ? waitBefore(candidate, fault, 0, limitedWaitMs) : undefined
    if (waitMs === undefined || this.#attempts.length + 1 >= limit || this.#isRefused(candidate))
      return undefined
    if (health.standing(candidate, account) === 'open' || !budget.take()) return undefined
    await pause(waitMs, disconnect)
    return this.#isOver ? undefined : this.#try(candidate, rest)
  }

  /** Those with a larger context than the prompt was too long for come first. */
  #largerFirst(rest: readonly Candidate[]): readonly Candidate[] {
    const least = this.#tooShort
    if (least === undefined) return rest
    const isLarger = ({ model }: Candidate) => (model.contextLength ?? 0) > least
    return [...rest.filter(isLarger), ...rest.filter((candidate) => !isLarger(candidate))]
  }

  /** The answer of a candidate with an open breaker that ranks before the healthy ones, if it has recovered. */
  async #probeAhead(candidate: Candidate): Promise<Dispatched<Answer> | undefined> {
    const { health } = this.#search
    const ended = health.beginProbe(candidate)
    try {
      if (!health.probe(candidate)) return undefined
      this.#probed = candidate
      return await this.#try(candidate, this.#search.candidates)
    } finally {
      ended()
    }
  }

  /** Undefined if the attempt failed and another may follow. `rest`: those that were not asked yet. */
  async #try(candidate: Candidate, rest: readonly Candidate[]): Promise<Dispatched<Answer> | undefined> {
    const startedAt = performance.now()
    let answer: Answer
    try {
      answer = await this.#attempt(candidate, this.#waiting(candidate, rest))
    } catch (error) {
      if (error instanceof AttemptFailed && error.retry !== undefined && !this.#sentAgain.has(candidate)) {
        this.#sentAgain.add(candidate)
        this.#noteFault(candidate, error, performance.now() - startedAt)
        return this.#try(candidate, rest)
      }
      this.#onFailed(candidate, error, startedAt)
      return undefined
    }
    return this.#onServed(candidate, answer, startedAt)
  }

  #waiting({ offer }: Candidate, rest: readonly Candidate[]): Waiting {
    const { account, health, limit } = this.#search
    if (rest.length === 0 || this.#attempts.length + 1 >= limit) return 'none'
    const mayAnswer = (other: Candidate) =>
      other.offer !== offer && !this.#isRefused(other) && health.standing(other, account) === 'healthy'
    return rest.some(mayAnswer) ? 'another' : 'none'
  }

  async #again(): Promise<Dispatched<Answer> | undefined> {
    const { account, budget, disconnect, health, limit, pause } = this.#search
    // A deployment without room is no attempt: rounds are bounded for themselves.
    for (let round = 0; round < limit && !this.#isOver; round++) {
      const next = this.#soonest(round)
      if (next === undefined || health.standing(next.candidate, account) === 'open' || !budget.take())
        return undefined
      await pause(next.waitMs, disconnect)
      if (this.#isOver) continue
      const answer = await this.#try(next.candidate, [])
      if (answer) return answer
    }
    return undefined
  }

  /** Throws the error that sums up all failures. */
  #fail(): never {
    const leftOut = this.#leftOut
    const [unable] = leftOut?.values() ?? []
    if (unable && this.#search.candidates.every(({ offer }) => leftOut?.has(offer)))
      throw new DispatchFailed(unable, this.#attempts)
    const error = worst(this.#failures ?? [], this.#search.disconnect.aborted)
    throw new DispatchFailed(withAttempts(error, this.#attempts), this.#attempts)
  }

  get #isOver(): boolean {
    // A probe ahead of healthy candidates leaves the call one attempt at least.
    const limit = this.#probed === undefined ? this.#search.limit : Math.max(this.#search.limit, 2)
    return this.#over || this.#search.disconnect.aborted || this.#attempts.length >= limit
  }

  /** Whether a candidate in trouble may be tried. */
  async #mayTry(candidate: Candidate): Promise<boolean> {
    const { account, health, budget } = this.#search
    if (this.#attempts.length > 0 && !budget.take()) return false
    return health.standing(candidate, account) === 'cooling' || health.probe(candidate)
  }

  /** The failed offer that can be retried soonest, judged by its last fault; undefined if none can. */
  #soonest(round: number): { candidate: Candidate; waitMs: number } | undefined {
    const last = new Map(this.#failures?.map(({ candidate, fault }) => [candidate, fault]))
    const waits = [...last].flatMap(([candidate, fault]) => {
      const waitMs = waitBefore(candidate, fault, round)
      return waitMs === undefined || this.#refusedModels?.has(candidate.model.id)
        ? []
        : [{ candidate, waitMs }]
    })
    return waits.toSorted((a, b) => a.waitMs - b.waitMs)[0]
  }

  #onServed(candidate: Candidate, answer: Answer, startedAt: number): Dispatched<Answer> {
    const ms = performance.now() - startedAt
    const by = (answer as { readonly servedBy?: Candidate }).servedBy ?? candidate
    if (by.cached === undefined) {
      this.#note(by, 'served', ms, null, null, null)
      this.#search.health.onAnswer(by, ms)
    } else this.#note(by, 'served', ms, null, null, `the answer of ${by.cached.call}, which paid for it`)
    this.#search.onServed(by, this.#attempts)
    return { answer, candidate: by, attempts: this.#attempts }
  }

  /** Records why an attempt failed. Throws DispatchFailed for a fault of our own, which another attempt would meet again. */
  #onFailed(candidate: Candidate, error: unknown, startedAt: number): void {
    const ms = performance.now() - startedAt
    if (error instanceof AttemptAbandoned) this.#abandon(candidate, error, ms)
    const { account, afterFilter, health, disconnect } = this.#search
    const refused = error instanceof GatewayError
    const fault = refused ? undefined : faultOf(error)
    if (refused && error.code === 'unsupported_parameter') {
      this.#leftOut = (this.#leftOut ?? new Map<Offer, GatewayError>()).set(candidate.offer, error)
      return
    }
    if (fault === undefined) {
      const known = asGatewayError(error)
      const note = this.#note(candidate, 'failed', ms, known.code, null, known.message)
      this.#search.onFailed(candidate, note, error)
      throw new DispatchFailed(known, this.#attempts)
    }
    if (error instanceof DeploymentFull) {
      // Nobody was asked: it is no attempt, and no trouble.
      ;(this.#failures ??= []).push({ candidate, fault })
      return
    }
    this.#noteFault(candidate, { fault, error }, ms)
    const failures = (this.#failures ??= [])
    // One call counts once against a candidate however often it tries; otherwise two calls would open the breaker.
    const counted =
      breaks(fault) && failures.some((before) => before.candidate === candidate && breaks(before.fault))
    failures.push({ candidate, fault })
    if (error instanceof AttemptTooSlow) health.onSlow(candidate, ms)
    // A client that disconnects breaks its own connection; the provider is not to blame.
    else if (!disconnect.aborted && !counted) health.onFailed(candidate, fault, account)
    if (error instanceof AttemptFailed && error.made !== undefined) {
      // The provider charges for what its model spoiled: another try would cost as much again, which is the client's to decide.
      const owed = { candidate, askedMs: ms, usage: error.made.usage, made: error.made }
      const known = errorOf(fault, candidate.provider.id)
      throw new DispatchFailed(withAttempts(known, this.#attempts), this.#attempts, owed)
    }
    if (!anotherModelMayHelp(fault, afterFilter)) this.#over = true
    if (!anotherOfferMayHelp(fault))
      this.#refusedModels = (this.#refusedModels ?? new Set()).add(candidate.model.id)
    if (fault.kind === 'context-length')
      this.#tooShort = Math.max(this.#tooShort ?? 0, candidate.model.contextLength ?? 0)
  }

  /** The call is over, and nobody is to blame. Throws DispatchFailed. */
  #abandon(candidate: Candidate, { error, asked }: AttemptAbandoned, ms: number): never {
    if (asked !== undefined) this.#note(candidate, 'failed', ms, error.code, null, error.message)
    throw new DispatchFailed(error, this.#attempts, asked && { candidate, ...asked })
  }

  /** Records an attempt that its provider failed; `error` is what the log gets. */
  #noteFault(candidate: Candidate, failed: { fault: Fault; error?: unknown }, ms: number): void {
    const { fault, error = failed } = failed
    const note = this.#note(candidate, 'failed', ms, codeOf(fault), fault.status ?? null, publicReason(fault))
    this.#search.onFailed(candidate, note, error)
  }

  /** Records how an attempt ended. */
  #note(
    { provider }: Candidate,
    outcome: Attempt['outcome'],
    ms: number,
    code: Attempt['code'],
    status: Attempt['status'],
    reason: Attempt['reason'],
  ): Attempt {
    const attempt: Attempt = {
      provider: provider.id,
      ms: Math.round(ms),
      outcome,
      code,
      status,
      reason,
      upstreamId: null,
    }
    this.#attempts.push(attempt)
    return attempt
  }
}

/** The error with the attempts, as far as the client may see them. */
export function withAttempts(error: GatewayError, attempts: readonly Attempt[]): GatewayError {
  if (attempts.length === 0) return error
  const tried = attempts.map(({ provider, code, status, ms }) => ({ provider, code, status, ms }))
  const metadata = { ...error.details.metadata, attempts: tried }
  return new GatewayError(error.code, { ...error.details, message: error.message, metadata })
}

/** The first candidate that is due for a probe, if it ranks before a healthy one. */
function dueForProbe({ account, candidates, health }: Search): Candidate | undefined {
  const firstWell = candidates.findIndex((candidate) => health.standing(candidate, account) === 'healthy')
  return candidates.slice(0, Math.max(firstWell, 0)).find((candidate) => health.isDue(candidate, account))
}

/** Healthy candidates by rank, then the others by rank. */
function wellFirst({ account, candidates, health }: Search): readonly Candidate[] {
  const isWell = (candidate: Candidate) => health.standing(candidate, account) === 'healthy'
  if (candidates.every(isWell)) return candidates
  const well = candidates.filter(isWell)
  return [...well, ...candidates.filter((candidate) => !well.includes(candidate))]
}

/**
 * How long to wait before retrying the same candidate, milliseconds; undefined if it should not be retried. `limitedMs`
 * is for one that limits the rate and names no time: it is not retried without that.
 */
function waitBefore(
  { provider }: Candidate,
  fault: Fault,
  round: number,
  limitedMs?: number,
): number | undefined {
  // A built-in provider fails because it was asked to, and would again.
  if (provider.transport === 'builtin') return undefined
  if (isRefusal(fault)) return undefined
  const asked = fault.retryAfterMs
  if (asked !== undefined && asked > longestWaitMs) return undefined
  if (asked !== undefined && (passing.has(fault.kind) || fault.kind === 'rate-limited')) return asked
  const waitMs = fault.kind === 'rate-limited' ? limitedMs : firstWaitMs * 2 ** round
  const isPassing = waitMs !== undefined && (passing.has(fault.kind) || fault.kind === 'rate-limited')
  return isPassing ? waitMs * (0.5 + Math.random()) : undefined
}

/** A 4xx would be the same again, except for statuses about the moment rather than the request. */
function isRefusal({ status }: Fault): boolean {
  return status !== undefined && status >= 400 && status < 500 && !momentary.has(status)
}

const momentary: ReadonlySet<number> = new Set([408, 409, 424, 425, 429, 498, 499])

export function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve()
  const { promise, resolve } = Promise.withResolvers<void>()
  const end = () => {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
    resolve()
  }
  const timer = setTimeout(end, ms)
  signal.addEventListener('abort', end, { once: true })
  return promise
}

function faultOf(error: unknown): Fault | undefined {
  if (error instanceof AttemptFailed || error instanceof UnreachableError) return error.fault
  // What fetch and body readers throw when a connection breaks; programming errors look different.
  if (error instanceof DOMException || (error instanceof Error && 'code' in error)) {
    return transportFault('cut', 'the connection broke')
  }
  return undefined
}

/** Sums up all failures: the first that the caller can fix, otherwise the last; the shortest wait of all. */
function worst(failures: readonly Failure[], isLeft: boolean): GatewayError {
  if (isLeft) return clientGone()
  const last = failures.at(-1)
  if (!last) return passedOver()
  const decisive = failures.find(({ fault }) => !anotherOfferMayHelp(fault)) ?? last
  const waits = failures.flatMap(({ fault }) => fault.retryAfterMs ?? [])
  const fault = waits.length > 0 ? { ...decisive.fault, retryAfterMs: Math.min(...waits) } : decisive.fault
  return errorOf(fault, decisive.candidate.provider.id)
}

/** Every offer's breaker is open: fails at once, with the time after which a probe may have closed one. */
function passedOver(): GatewayError {
  return new GatewayError('no_provider_available', {
    message: 'Every provider that serves this model has failed repeatedly a moment ago and is given a rest.',
    retryAfterMs: probeEveryMs,
  })
}

// Limits retries over all calls together, so that they do not make an outage worse.

/** Retries allowed per request in the window. */
const retryShare = 0.1
/** Retries always allowed in a window, so that a gateway with one caller can retry too. */
const leastRetries = 10
/** The length of the sliding window. */
const windowSeconds = 10

export class RetryBudget {
  readonly #clock: () => number
  readonly #requests = new Float64Array(windowSeconds)
  readonly #retries = new Float64Array(windowSeconds)
  #second = 0

  /** `clock` gives milliseconds. */
  constructor(clock: () => number) {
    this.#clock = clock
    this.#second = Math.floor(clock() / 1000)
  }

  request(): void {
    this.#requests[this.#slot()]! += 1
  }

  /** Takes one retry from the budget; false if it is used up. */
  take(): boolean {
    const slot = this.#slot()
    const allowed = Math.max(leastRetries, retryShare * sum(this.#requests))
    if (sum(this.#retries) + 1 > allowed) return false
    this.#retries[slot]! += 1
    return true
  }

  /** The slot of the current second; clears slots older than the window. */
  #slot(): number {
    const second = Math.floor(this.#clock() / 1000)
    const passed = Math.min(Math.max(0, second - this.#second), windowSeconds)
    for (let step = 1; step <= passed; step++) {
      const at = (this.#second + step) % windowSeconds
      this.#requests[at] = 0
      this.#retries[at] = 0
    }
    this.#second = Math.max(this.#second, second)
    return this.#second % windowSeconds
  }
}

function sum(counts: Float64Array): number {
  let total = 0
  for (const count of counts) total += count
  return total
}
