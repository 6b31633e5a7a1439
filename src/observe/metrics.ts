// What ended calls come to since the process has started, for Prometheus:
// prometheus.io/docs/instrumenting/exposition_formats. Not with a library: prom-client takes 18 MB of memory and 60 ms
// to load, a fifth of what an idle gateway takes and as long as its start.

import type { RequestLogRow } from './request-log.ts'

/** Each is a series of its own, and anybody can name models: beyond this many, calls count under `other`. */
const mostModels = 1_000
const secondsBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600]

type Labels = Readonly<Record<string, string>>

/** A figure of this moment. */
export interface Gauge {
  readonly name: string
  readonly help: string
  readonly value: number
  readonly labels?: Labels
}

/** Calls of one provider, model and error code. */
interface Tally {
  /** Empty for calls that no provider was asked for. */
  readonly provider: string
  readonly model: string
  /** Empty for served ones. */
  readonly code: string
  calls: number
  promptTokens: number
  completionTokens: number
  cost: bigint
}

/** Counts calls. Labels have few values: no account, no key, no request. */
export class CallMetrics {
  readonly #usd: (pico: bigint) => string
  readonly #models = new Set<string>()
  readonly #tallies = new Map<string, Tally>()
  readonly #durations = new Map<string, Histogram>()
  readonly #firstBytes = new Map<string, Histogram>()

  /** `usd`: picodollars as decimal dollars. */
  constructor(usd: (pico: bigint) => string) {
    this.#usd = usd
  }

  /** `model` is empty for one that there is not. */
  count(row: RequestLogRow, model = row.model): void {
    const provider = row.provider ?? ''
    const tally = this.#tallyOf(provider, this.#labelOf(model), row.code ?? '')
    tally.calls++
    if (provider === '') return
    tally.promptTokens += row.promptTokens
    tally.completionTokens += row.completionTokens
    tally.cost += row.cost
    histogramOf(this.#durations, provider).observe(row.totalMs)
    if (row.firstByteMs !== null) histogramOf(this.#firstBytes, provider).observe(row.firstByteMs)
  }

  /** All of it as text, with figures of this moment. */
  text(gauges: readonly Gauge[]): string {
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
      ...histogramLines(
        'weir_call_duration_seconds',
        'How long calls with a provider have taken.',
        this.#durations,
      ),
      ...histogramLines(
        'weir_first_byte_seconds',
        'How long clients have waited for the first byte.',
        this.#firstBytes,
      ),
      ...gauges.flatMap(({ name, help, value, labels = {} }) => [
        ...headOf(name, help, 'gauge'),
        series(name, labels, value),
      ]),
    ]
    return `${lines.join('\n')}\n`
  }

  #tallyOf(provider: string, model: string, code: string): Tally {
    const key = `${provider}\n${code}\n${model}`
    let tally = this.#tallies.get(key)
    if (!tally) {
      tally = { provider, model, code, calls: 0, promptTokens: 0, completionTokens: 0, cost: 0n }
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

/** How many values there were up to each bound. */
class Histogram {
  readonly #within = secondsBounds.map(() => 0)
  #count = 0
  #ms = 0

  observe(ms: number): void {
    this.#count++
    this.#ms += ms
    const at = secondsBounds.findIndex((bound) => ms <= bound * 1000)
    if (at !== -1) this.#within[at]!++
  }

  lines(name: string, labels: Labels): string[] {
    let within = 0
    const buckets = secondsBounds.map((bound, at) => {
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
  if (!histogram) all.set(provider, (histogram = new Histogram()))
  return histogram
}

function histogramLines(name: string, help: string, all: ReadonlyMap<string, Histogram>): string[] {
  return [
    ...headOf(name, help, 'histogram'),
    ...[...all].flatMap(([provider, histogram]) => histogram.lines(name, { provider })),
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
