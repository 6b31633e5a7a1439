// What ended calls come to since the process has started, for Prometheus:
// prometheus.io/docs/instrumenting/exposition_formats.

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

/** Counts calls. Labels have few values: no account, no key, no request. */
export class CallMetrics {
  readonly #models = new Set<string>()
  readonly #calls = new Counter(
    'weir_calls_total',
    'Calls that have ended, by error code; empty for served ones.',
  )
  readonly #tokens = new Counter('weir_tokens_total', 'Tokens of calls, by kind: prompt and completion.')
  readonly #cost: Counter
  readonly #duration = new Histogram(
    'weir_call_duration_seconds',
    'How long calls with a provider have taken.',
  )
  readonly #firstByte = new Histogram(
    'weir_first_byte_seconds',
    'How long clients have waited for the first byte.',
  )

  /** `usd`: picodollars as decimal dollars. */
  constructor(usd: (pico: bigint) => string) {
    this.#cost = new Counter('weir_cost_usd_total', 'What calls have cost, US dollars.', usd)
  }

  /** `model` is empty for one that there is not. */
  count(row: RequestLogRow, model = row.model): void {
    const provider = row.provider ?? ''
    const of = { provider, model: this.#known(model) }
    this.#calls.add({ ...of, code: row.code ?? '' }, 1n)
    if (row.provider === null) return
    this.#tokens.add({ ...of, kind: 'prompt' }, BigInt(row.promptTokens))
    this.#tokens.add({ ...of, kind: 'completion' }, BigInt(row.completionTokens))
    this.#cost.add(of, row.cost)
    this.#duration.observe({ provider }, row.totalMs)
    if (row.firstByteMs !== null) this.#firstByte.observe({ provider }, row.firstByteMs)
  }

  /** All of it as text, with figures of this moment. */
  text(gauges: readonly Gauge[]): string {
    const families = [this.#calls, this.#tokens, this.#cost, this.#duration, this.#firstByte]
    const lines = families.flatMap((family) => family.lines())
    for (const { name, help, value, labels = {} } of gauges)
      lines.push(...headOf(name, help, 'gauge'), series(name, labels, String(value)))
    return `${lines.join('\n')}\n`
  }

  #known(model: string): string {
    if (this.#models.has(model)) return model
    if (this.#models.size >= mostModels) return 'other'
    this.#models.add(model)
    return model
  }
}

class Counter {
  readonly #name: string
  readonly #help: string
  readonly #show: (value: bigint) => string
  readonly #values = new Map<string, { readonly labels: Labels; value: bigint }>()

  constructor(name: string, help: string, show: (value: bigint) => string = String) {
    this.#name = name
    this.#help = help
    this.#show = show
  }

  add(labels: Labels, amount: bigint): void {
    entryOf(this.#values, labels, () => ({ labels, value: 0n })).value += amount
  }

  lines(): string[] {
    const values = [...this.#values.values()]
    return [
      ...headOf(this.#name, this.#help, 'counter'),
      ...values.map(({ labels, value }) => series(this.#name, labels, this.#show(value))),
    ]
  }
}

class Histogram {
  readonly #name: string
  readonly #help: string
  readonly #values = new Map<
    string,
    { readonly labels: Labels; readonly within: number[]; count: number; ms: number }
  >()

  constructor(name: string, help: string) {
    this.#name = name
    this.#help = help
  }

  observe(labels: Labels, ms: number): void {
    const seen = entryOf(this.#values, labels, () => ({
      labels,
      within: secondsBounds.map(() => 0),
      count: 0,
      ms: 0,
    }))
    seen.count++
    seen.ms += ms
    for (const [at, bound] of secondsBounds.entries()) if (ms <= bound * 1000) seen.within[at]!++
  }

  lines(): string[] {
    const lines = headOf(this.#name, this.#help, 'histogram')
    for (const { labels, within, count, ms } of this.#values.values()) {
      const bucket = (le: string, value: number | undefined) =>
        series(`${this.#name}_bucket`, { ...labels, le }, String(value))
      lines.push(
        ...secondsBounds.map((bound, at) => bucket(String(bound), within[at])),
        bucket('+Inf', count),
      )
      lines.push(series(`${this.#name}_sum`, labels, String(ms / 1000)))
      lines.push(series(`${this.#name}_count`, labels, String(count)))
    }
    return lines
  }
}

function entryOf<T>(entries: Map<string, T>, labels: Labels, make: () => T): T {
  const key = JSON.stringify(labels)
  const known = entries.get(key)
  if (known !== undefined) return known
  const made = make()
  entries.set(key, made)
  return made
}

function headOf(name: string, help: string, type: 'counter' | 'gauge' | 'histogram'): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
}

function series(name: string, labels: Labels, value: string): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`)
  return pairs.length === 0 ? `${name} ${value}` : `${name}{${pairs.join(',')}} ${value}`
}

function escaped(text: string): string {
  return text
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
}
