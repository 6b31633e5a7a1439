// Ended calls: their row in the request log, their line in the log, and what they come to.
//
// The request log has one row per call and refusal, for operators and the account itself. It is independent of the
// ledger, and may be trimmed at any time.

import type { Awaitable } from '../async/async.ts'
import { createRedactor, type Log, type Redactor } from './log.ts'

export interface RequestLogRow {
  readonly requestId: string
  /** Milliseconds since 1970: when the call ended. */
  readonly at: number
  readonly account: string
  readonly key: string | null
  /** As the client named it; empty without one. */
  readonly model: string
  readonly provider: string | null
  readonly stream: boolean
  readonly status: number
  /** Our error code, if the call failed. */
  readonly code: string | null
  readonly ending: string | null
  readonly promptTokens: number
  readonly completionTokens: number
  /** Picodollars. */
  readonly cost: bigint
  readonly attempts: number
  readonly firstByteMs: number | null
  readonly totalMs: number
  /** Details of the error besides its code, as a small JSON object; null without any. */
  readonly detail: string | null
  /** Prompt and answer as JSON, cut to a limit; null unless `log.prompts` is on. */
  readonly contents: string | null
  /** What the call is for, a JSON object of texts; null without tags. */
  readonly tags: string | null
  /** Of a refused call with the key of a group: that group, for the usage. Not kept with the row. */
  readonly group?: string | null
  /**
   * Who was asked and how that ended, where that is more than `attempts` answers of `provider`. Not kept with the row.
   */
  readonly tried?: readonly AttemptOutcome[] | undefined
}

/** `outcome` is `served`, `cached`, or the code of the error that an attempt ended with. */
export interface AttemptOutcome {
  readonly provider: string
  readonly outcome: string
}

/** A row, with fields for the log line only. */
export interface EndedCall extends RequestLogRow {
  /** The last four characters of the key; null for the app. */
  readonly lastFour: string | null
}

export interface RequestLog {
  /** Queues the row for the next batch; never throws, and drops rows rather than wait. */
  append(row: RequestLogRow): void
}

/** A row's position in the log, newest first. */
export interface RequestPlace {
  readonly at: number
  readonly seq: number
}

/** A part of an account's calls, as a key may see them: see `viewerOf` of accounts/account.ts. */
export interface SeenCalls {
  /** Only those of the keys of this line; undefined for all. */
  readonly line?: string | undefined
  /** Only those of test keys; undefined for both. */
  readonly mode?: 'test' | undefined
}

/**
 * `served`: it has no error. `refused`: nobody was asked, and the fault was not the gateway's. `failed`: any other that
 * has one.
 */
/** `unserved`: failed or refused. */
export type RequestOutcome = 'served' | 'failed' | 'refused' | 'unserved'

export interface RequestQuery extends SeenCalls {
  readonly id?: string
  readonly account?: string
  readonly key?: string
  /** The name that the client used, or a part of it between stars: `*mini*`. */
  readonly model?: string
  readonly code?: string
  readonly channel?: 'api' | 'app'
  /** Who was asked last. */
  readonly provider?: string
  readonly outcome?: RequestOutcome
  /** Only calls with this tag. */
  readonly tag?: { readonly name: string; readonly value: string }
  /** Milliseconds since 1970, a half-open interval. */
  readonly from?: number
  readonly until?: number
  /** Only rows behind this one. */
  readonly after?: RequestPlace
  readonly limit: number
}

export type LoggedRequest = RequestLogRow & RequestPlace

export interface RequestPage {
  /** Newest first. In a very long log it may be shorter than the limit, even empty, although more follow. */
  readonly rows: readonly LoggedRequest[]
  /** Where to continue; null at the end of the log. */
  readonly next: RequestPlace | null
}

export interface RequestReader {
  /** Ends with its signal. */
  page(query: RequestQuery, signal?: AbortSignal): Awaitable<RequestPage>
  /** By id; of any account if none is given. */
  find(requestId: string, account?: string): Awaitable<LoggedRequest | undefined>
}

/** Reads the log in the order in which it is written. */
export interface RequestFollower {
  /** Rows after `seq`, and up to `until`. */
  pageAfter(seq: number, limit: number, until?: number): Awaitable<readonly LoggedRequest[]>
  /** The last row's; 0 where there is none. A log that was emptied counts from 1 again. */
  lastSeq(): Awaitable<number>
}

// Usage by day, for charts and statements, from a rollup written together with the calls.

/** What a day may be divided by; `tag` is by the values of one tag. */
export type UsageGroup = 'day' | 'model' | 'key' | 'channel' | 'account' | 'provider' | 'tag'

export interface UsageQuery extends SeenCalls {
  /** All accounts by default. */
  readonly account?: string
  readonly key?: string
  readonly model?: string
  /** Only of the whole installation, and by day, model, channel or provider. */
  readonly provider?: string | undefined
  /** Rows for these groups alone, whatever they came to. */
  readonly only?: readonly string[] | undefined
  /** UTC midnights, milliseconds since 1970: the first day, and the day after the last. */
  readonly from: number
  readonly until: number
  readonly by: UsageGroup
  /** The tag whose values are the groups, where `by` is `tag`. */
  readonly tagName?: string | undefined
  /** Only calls with this tag. With `by: 'tag'` it is of the same name. */
  readonly tag?: { readonly name: string; readonly value: string } | undefined
  /** Whether a row is of a UTC day or of a calendar month; of a day, if left out. */
  readonly per?: 'day' | 'month' | undefined
}

export interface UsageFigures {
  /** All ended calls, including refusals. */
  readonly calls: number
  /** Of these: refused, without an answer, or broken off by the provider. */
  readonly errors: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** The cost at the provider's price, picodollars. */
  readonly cost: bigint
  /** What of the cost was paid. */
  readonly charged: bigint
  /** Calls that were answered, and how long they took together, milliseconds. */
  readonly timed: number
  readonly ms: number
}

/** How long an answered call took, whole milliseconds; null where none is known. */
export function averageMs({ timed, ms }: Pick<UsageFigures, 'timed' | 'ms'>): number | null {
  return timed === 0 ? null : Math.round(ms / timed)
}

export interface UsageOfDay extends UsageFigures {
  /** The midnight that begins the day, or the month. */
  readonly day: number
}

/** Sums of one day, or month, and one group. */
export interface UsageSum extends UsageOfDay {
  /**
   * A model, the id of a key or an account, a channel (`api`, `app`), a provider, or the value of a tag. Empty for totals of a day,
   * for the app when grouping by key, for refusals of unknown models, and for calls without the tag.
   */
  readonly group: string
  /** The name of the key, or the address of the account. */
  readonly label: string | null
}

export interface UsageReport {
  /** By day, then by group: of the groups that cost most. */
  readonly rows: readonly UsageSum[]
  /** Of all groups. */
  readonly totals: UsageFigures
  /** The groups that have no rows of their own, added up by day; null if there are none. */
  readonly rest: { readonly groups: number; readonly days: readonly UsageOfDay[] } | null
}

/** Columns of the CSV. */
export const usageColumns = [
  'day',
  'group',
  'label',
  'calls',
  'errors',
  'input_tokens',
  'output_tokens',
  'cost',
  'charged',
  'average_ms',
] as const

/**
 * Long reports are made beside the calls. They end with their signal, are refused with `rate_limit_exceeded` if there
 * are too many at once, and reject with `store_unavailable`.
 */
export interface UsageReader {
  /** With rows for `most` groups. */
  report(query: UsageQuery, most: number, signal?: AbortSignal): Promise<UsageReport>
  /** Every day and group as CSV, in pieces. */
  csv(query: UsageQuery, signal?: AbortSignal): AsyncIterable<string>
}

// Records an ended call: a line in the log and a row in the request log.

interface CallLogParts {
  readonly log: Log
  readonly keep: (row: RequestLogRow) => void
  /** The same for a call that was refused before it began. */
  readonly keepRefused: (row: RequestLogRow) => void
  /** The same for a request that never became a call: it counts for no usage. */
  readonly keepTurnedAway: (row: RequestLogRow) => void
  /** Called with the code of every refusal, whether it leaves a row or not. */
  readonly countRefusal: (code: string) => void
  /** Picodollars as a decimal string of US dollars. */
  readonly usd: (amount: bigint) => string
}

/** Refusals per account and minute that leave a row: a client in a loop must not fill the disk. */
export const refusalRowsPerMinute = 120
/** The same of a network, where the account is not known. */
export const strangerRowsPerMinute = 60
/** The same of all strangers together, and in a day; beyond that, one row a minute tells how many there were. */
export const strangersRowsPerMinute = 120
export const strangersRowsPerDay = 20_000
const lookUpsPerSecond = 100
const secondMs = 1_000
const minuteMs = 60_000
const dayMs = 86_400_000

/** Who was refused. */
interface Refusee {
  /** Empty if unknown. */
  readonly account: string
  readonly network: string
  /** Milliseconds since 1970. */
  readonly at: number
}

/** Fields of the log line. */
interface TurnedAwayFields extends Readonly<Record<string, unknown>> {
  readonly code: string
}

/** Counts what happens in each stretch of time, by name. */
class Counts {
  readonly #lengthMs: number
  readonly #counts = new Map<string, number>()
  #stretch = 0

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /** How often it has happened in this stretch, this time included. */
  next(name: string, at: number): number {
    const stretch = Math.floor(at / this.#lengthMs)
    if (stretch !== this.#stretch) this.#counts.clear()
    this.#stretch = stretch
    const count = (this.#counts.get(name) ?? 0) + 1
    // Names come from outside: beyond the bound all count as one.
    if (count === 1 && this.#counts.size >= mostNames) return name === others ? 1 : this.next(others, at)
    this.#counts.set(name, count)
    return count
  }
}

const mostNames = 10_000
const others = ''

export class CallLog {
  readonly #parts: CallLogParts
  readonly #noted = new WeakSet<object>()
  readonly #refusals = new Counts(minuteMs)
  readonly #strangers = new Counts(minuteMs)
  readonly #allStrangers = new Counts(minuteMs)
  readonly #ofDay = new Counts(dayMs)
  readonly #lookUps = new Counts(secondMs)
  /** Refusals of strangers without a row since the last row of one. */
  #unlisted = 0
  #redactor: Redactor | undefined

  constructor(parts: CallLogParts) {
    this.#parts = parts
  }

  /** A failure is logged once, by whoever knows most about it. */
  onEnded(call: EndedCall, failure: object | undefined): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    if (call.code !== null && call.provider === null && call.status < 500) this.#parts.countRefusal(call.code)
    this.#parts.keep(call)
  }

  onRefused(call: EndedCall, failure: object): void {
    if (!this.#isNew(failure)) return
    this.#line(call)
    if (call.code !== null) this.#parts.countRefusal(call.code)
    if (this.#mayKeep(call)) this.#parts.keepRefused(call)
  }

  /** Logs a request that was refused before it became a call; false if the failure has been noted already. */
  turnedAway(fields: TurnedAwayFields, failure: object): boolean {
    if (!this.#isNew(failure)) return false
    this.#parts.countRefusal(fields.code)
    this.#parts.log.info('a request was refused', fields)
    return true
  }

  /** A text from a request, such as its path, without what looks like a secret. */
  withoutSecrets(text: string): string {
    return (this.#redactor ??= createRedactor({ secrets: [], prompts: false })).text(text)
  }

  /** Whether it may be looked up who was refused; this uses one of the look-ups of this second up. */
  mayLookUp(at: number): boolean {
    return this.#lookUps.next(others, at) <= lookUpsPerSecond
  }

  /**
   * Keeps the row of such a request, unless its account, or callers without one, have used up their rows. `make` is given
   * how many refusals of callers without an account have left no row since the last one that did.
   */
  keepTurnedAway(who: Refusee, make: (unlisted: number) => RequestLogRow): void {
    if (who.account !== '') {
      if (this.#mayKeep(who)) this.#parts.keepTurnedAway(make(0))
      return
    }
    if (!this.#mayListStranger(who)) {
      this.#unlisted += 1
      return
    }
    this.#parts.keepTurnedAway(make(this.#unlisted))
    this.#unlisted = 0
  }

  #mayListStranger({ network, at }: Refusee): boolean {
    // One network alone must not use up what there is for all.
    if (this.#strangers.next(network, at) > strangerRowsPerMinute) return false
    const ofMinute = this.#allStrangers.next(others, at)
    if (ofMinute > strangersRowsPerMinute) return false
    return this.#ofDay.next(others, at) <= strangersRowsPerDay || ofMinute === 1
  }

  #isNew(failure: object | undefined): boolean {
    if (failure === undefined) return true
    if (this.#noted.has(failure)) return false
    this.#noted.add(failure)
    return true
  }

  #mayKeep({ account, at }: Pick<Refusee, 'account' | 'at'>): boolean {
    return this.#refusals.next(account, at) <= refusalRowsPerMinute
  }

  #line(call: EndedCall): void {
    this.#parts.log.info('call', {
      request_id: call.requestId,
      account: call.account,
      key: call.lastFour === null ? null : `…${call.lastFour}`,
      model: call.model,
      provider: call.provider,
      status: call.status,
      code: call.code,
      ending: call.ending,
      prompt_tokens: call.promptTokens,
      completion_tokens: call.completionTokens,
      cost_usd: this.#parts.usd(call.cost),
      first_byte_ms: call.firstByteMs,
      ms: call.totalMs,
      attempts: call.attempts,
      ...(call.tags === null ? {} : { tags: JSON.parse(call.tags) as unknown }),
    })
  }
}

// Listeners for ended calls: the log, the request log, the token limiter, metrics.

/** Called once for each ended call. `failure` is the error it ended with. Never throws. */
export type OnCallEnded = (call: EndedCall, failure: object | undefined) => void

/** Combines listeners, in order: an exception in one is logged and does not affect the others. */
export function callEnded(listeners: readonly OnCallEnded[], log: Pick<Log, 'error'>): OnCallEnded {
  return (call, failure) => {
    for (const listener of listeners) {
      try {
        listener(call, failure)
      } catch (error) {
        log.error('a listener of ended calls failed', { request_id: call.requestId, error })
      }
    }
  }
}

/**
 * Passes ended calls on when the event loop has run what else is due: clients have their answers first, and calls that
 * end together cost less one after another. A failure is passed on at once, so that it is logged before its error is
 * answered.
 */
export class AtEndOfTurn {
  readonly #onEnded: OnCallEnded
  #ended: EndedCall[] = []

  constructor(onEnded: OnCallEnded) {
    this.#onEnded = onEnded
  }

  readonly callEnded: OnCallEnded = (call, failure) => {
    if (failure !== undefined) return this.#onEnded(call, failure)
    this.#ended.push(call)
    if (this.#ended.length === 1) setImmediate(() => this.flush())
  }

  /** Passes on all that have ended so far. */
  flush(): void {
    const ended = this.#ended
    this.#ended = []
    for (const call of ended) this.#onEnded(call, undefined)
  }
}

// What has happened since the process has started, for Prometheus:
// prometheus.io/docs/instrumenting/exposition_formats. Not with a library: prom-client takes 18 MB of memory and 60 ms
// to load, a fifth of what an idle gateway takes and as long as its start.

/** Each is a series of its own, and anybody can name models: beyond this many, calls count under `other`. */
const mostModels = 1_000
/** Upper bounds of buckets, seconds: of calls, and of what should take milliseconds. */
const callBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]
const shortBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]

type Labels = Readonly<Record<string, string>>

/** Figures of one name. Those of `counter` only grow. */
export interface MetricFamily {
  readonly name: string
  readonly help: string
  readonly type: 'gauge' | 'counter'
  readonly samples: readonly { readonly labels?: Labels; readonly value: number | string }[]
}

/** How a store is doing: what can be told in a moment, however much it holds. */
export interface StoreFigures {
  /** Calls that hold credit, and how much, US dollars. */
  readonly openCalls: number
  readonly heldUsd: number
  /** Commands of the ledger that wait for a commit. */
  readonly commandsWaiting: number
  readonly commits: Histogram
  readonly syncs: Histogram
  /** Messages to webhooks that were neither delivered nor given up yet, up to 100,000. */
  readonly webhooksWaiting: number
  /** Rows that the request log has lost since the start. */
  readonly rowsDropped: number
  /** Of the file, and of its write-ahead log. */
  readonly databaseBytes: number
  readonly logBytes: number
  /** Of the disk that they are on. */
  readonly diskBytes: number
  readonly diskFreeBytes: number
}

/** Calls of one provider, model and error code. */
interface Tally {
  /** Empty for calls that no provider was asked for. */
  readonly provider: string
  readonly model: string
  /** Empty for served ones. */
  readonly code: string
  calls: number
  /** Answers that are not among the attempts that are counted one by one. */
  answers: number
  promptTokens: number
  completionTokens: number
  cost: bigint
}

/** Counts calls. Labels have few values: no account, no key, no request. */
export class CallMetrics {
  readonly #usd: (pico: bigint) => string
  readonly #models = new Set<string>()
  readonly #tallies = new Map<string, Tally>()
  /** Attempts of calls that had others than answers, by provider, then by outcome. */
  readonly #attempts = new Map<string, Map<string, number>>()
  readonly #refusals = new Map<string, number>()
  readonly #durations = new Map<string, Histogram>()
  readonly #firstBytes = new Map<string, Histogram>()
  readonly #loopDelays = new Histogram(shortBounds)

  /** `usd`: picodollars as decimal dollars. */
  constructor(usd: (pico: bigint) => string) {
    this.#usd = usd
  }

  /** `model` is empty if it does not exist. */
  count(row: RequestLogRow, model = row.model): void {
    const provider = row.provider ?? ''
    const tally = this.#tallyOf(provider, this.#labelOf(model), row.code ?? '')
    tally.calls++
    if (provider === '') return
    if (row.tried === undefined) tally.answers += row.attempts
    else this.#countAttempts(row.tried)
    tally.promptTokens += row.promptTokens
    tally.completionTokens += row.completionTokens
    tally.cost += row.cost
    histogramOf(this.#durations, provider).observe(row.totalMs)
    if (row.firstByteMs !== null) histogramOf(this.#firstBytes, provider).observe(row.firstByteMs)
  }

  /** What all calls have cost since the start, US dollars. */
  costUsd(): number {
    const pico = this.#tallies.values().reduce((sum, { cost }) => sum + cost, 0n)
    return Number(this.#usd(pico))
  }

  /** Refusals since the start, by code. */
  refusals(): ReadonlyMap<string, number> {
    return this.#refusals
  }

  countRefusal(code: string): void {
    this.#refusals.set(code, (this.#refusals.get(code) ?? 0) + 1)
  }

  /** How late a timer was, milliseconds. */
  countLoopDelay(ms: number): void {
    this.#loopDelays.observe(ms)
  }

  #countAttempts(tried: readonly AttemptOutcome[]): void {
    for (const { provider, outcome } of tried) {
      let outcomes = this.#attempts.get(provider)
      if (!outcomes) this.#attempts.set(provider, (outcomes = new Map()))
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
    }
  }

  /** All of it as text, with figures of this moment and what others have measured. */
  text(families: readonly MetricFamily[], measured: Pick<StoreFigures, 'commits' | 'syncs'>): string {
    const tallies = [...this.#tallies.values()]
    const served = tallies.filter(({ provider }) => provider !== '')
    const ofModels = [...Map.groupBy(served, ({ provider, model }) => `${provider}\n${model}`).values()]
    const lines = [
      ...headOf(
        'weir_calls_total',
        'Calls that have ended, by error code; empty for served ones.',
        'counter',
      ),
      ...tallies.map(({ provider, model, code, calls }) =>
        series('weir_calls_total', { provider, model, code }, calls),
      ),
      ...headOf('weir_tokens_total', 'Tokens of calls, by kind: prompt and completion.', 'counter'),
      ...ofModels.flatMap((of) => tokenSeries(of)),
      ...headOf('weir_cost_usd_total', 'What calls have cost, US dollars.', 'counter'),
      ...ofModels.map((of) => {
        const cost = of.reduce((sum, each) => sum + each.cost, 0n)
        return series('weir_cost_usd_total', labelsOf(of), this.#usd(cost))
      }),
      ...headOf(
        'weir_attempts_total',
        'Requests to providers, by outcome: served, cached (an answer given again), or the code of the error.',
        'counter',
      ),
      ...this.#attemptLines(served),
      ...headOf(
        'weir_refusals_total',
        'Requests that were refused before a provider was asked, by error code.',
        'counter',
      ),
      ...[...this.#refusals].map(([code, times]) => series('weir_refusals_total', { code }, times)),
      ...histogramLines('weir_call_duration_seconds', 'How long calls with a provider have taken.', [
        ...this.#durations,
      ]),
      ...histogramLines('weir_first_byte_seconds', 'How long clients have waited for the first byte.', [
        ...this.#firstBytes,
      ]),
      ...histogramLines(
        'weir_event_loop_delay_seconds',
        'How late timers were, looked at ten times a second.',
        [['', this.#loopDelays]],
      ),
      ...histogramLines('weir_commit_seconds', 'How long commits of the ledger have taken.', [
        ['', measured.commits],
      ]),
      ...histogramLines('weir_sync_seconds', 'How long the disk has taken to keep commits.', [
        ['', measured.syncs],
      ]),
    ]
    return `${lines.join('\n')}\n${familiesText(families)}`
  }

  #attemptLines(served: readonly Tally[]): string[] {
    const sums = new Map<string, Map<string, number>>()
    for (const [provider, outcomes] of this.#attempts) sums.set(provider, new Map(outcomes))
    for (const { provider, answers } of served) {
      if (answers === 0) continue
      let outcomes = sums.get(provider)
      if (!outcomes) sums.set(provider, (outcomes = new Map()))
      outcomes.set('served', (outcomes.get('served') ?? 0) + answers)
    }
    return [...sums].flatMap(([provider, outcomes]) =>
      [...outcomes].map(([outcome, times]) => series('weir_attempts_total', { provider, outcome }, times)),
    )
  }

  #tallyOf(provider: string, model: string, code: string): Tally {
    const key = `${provider}\n${code}\n${model}`
    let tally = this.#tallies.get(key)
    if (!tally) {
      tally = { provider, model, code, calls: 0, answers: 0, promptTokens: 0, completionTokens: 0, cost: 0n }
      this.#tallies.set(key, tally)
    }
    return tally
  }

  #labelOf(model: string): string {
    if (this.#models.has(model)) return model
    if (this.#models.size >= mostModels) return 'other'
    this.#models.add(model)
    return model
  }
}

/** Figures as text, each name with its head. */
export function familiesText(families: readonly MetricFamily[]): string {
  const lines = families.flatMap(({ name, help, type, samples }) => [
    ...headOf(name, help, type),
    ...samples.map(({ labels = {}, value }) => series(name, labels, value)),
  ])
  return lines.map((line) => `${line}\n`).join('')
}

/**
 * The texts of several processes as one: each series with the number of its process as a label, so that none is taken for
 * another's and their sum is that of all.
 */
export function joinFigures(all: readonly { readonly process: number; readonly text: string }[]): string {
  const joined = new Map<string, string[]>()
  for (const { process, text } of all.toSorted((a, b) => a.process - b.process)) {
    let lines: string[] = []
    for (const line of text.split('\n')) {
      if (line.startsWith('# HELP ')) {
        lines = joined.get(line) ?? []
        joined.set(line, lines)
      } else if (!line.startsWith('#') && line !== '') {
        const at = line.search(/[{ ]/)
        const others = line[at] === '{' ? `,${line.slice(at + 1)}` : `}${line.slice(at)}`
        lines.push(`${line.slice(0, at)}{process="${process}"${others}`)
      } else if (line !== '' && lines.length === 0) lines.push(line)
    }
  }
  return [...joined]
    .flatMap(([head, lines]) => [head, ...lines])
    .map((line) => `${line}\n`)
    .join('')
}

/** How many values there were up to each bound. */
export class Histogram {
  readonly #bounds: readonly number[]
  readonly #within: number[]
  #count = 0
  #ms = 0

  /** `bounds` in seconds, in order; by default those of what should take milliseconds. */
  constructor(bounds: readonly number[] = shortBounds) {
    this.#bounds = bounds
    this.#within = bounds.map(() => 0)
  }

  observe(ms: number): void {
    this.#count++
    this.#ms += ms
    const at = this.#bounds.findIndex((bound) => ms <= bound * 1000)
    if (at !== -1) this.#within[at]!++
  }

  lines(name: string, labels: Labels): string[] {
    let within = 0
    const buckets = this.#bounds.map((bound, at) => {
      within += this.#within[at]!
      return series(`${name}_bucket`, { ...labels, le: String(bound) }, within)
    })
    return [
      ...buckets,
      series(`${name}_bucket`, { ...labels, le: '+Inf' }, this.#count),
      series(`${name}_sum`, labels, this.#ms / 1000),
      series(`${name}_count`, labels, this.#count),
    ]
  }
}

function histogramOf(all: Map<string, Histogram>, provider: string): Histogram {
  let histogram = all.get(provider)
  if (!histogram) all.set(provider, (histogram = new Histogram(callBounds)))
  return histogram
}

/** Histograms by provider; one that is of none has no label. */
function histogramLines(
  name: string,
  help: string,
  all: readonly (readonly [provider: string, histogram: Histogram])[],
): string[] {
  return [
    ...headOf(name, help, 'histogram'),
    ...all.flatMap(([provider, histogram]) => histogram.lines(name, provider === '' ? {} : { provider })),
  ]
}

function labelsOf([tally]: readonly Tally[]): Labels {
  return { provider: tally!.provider, model: tally!.model }
}

function tokenSeries(of: readonly Tally[]): string[] {
  const prompt = of.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
  const completion = of.reduce((sum, { completionTokens }) => sum + completionTokens, 0)
  const labels = labelsOf(of)
  return [
    series('weir_tokens_total', { ...labels, kind: 'prompt' }, prompt),
    series('weir_tokens_total', { ...labels, kind: 'completion' }, completion),
  ]
}

function headOf(name: string, help: string, type: 'counter' | 'gauge' | 'histogram'): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
}

function series(name: string, labels: Labels, value: number | string): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeLabel(text)}"`)
  return pairs.length === 0 ? `${name} ${value}` : `${name}{${pairs.join(',')}} ${value}`
}

function escapeLabel(text: string): string {
  return text
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
}
