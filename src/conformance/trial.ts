// One gateway or provider under trial: requests as a client's library sends them, and what each case found.

import { createParser } from 'eventsource-parser'
import { fetchBounded } from '../transport/bounded-body.ts'

/** The protocols of clients that are tried. */
export type TriedProtocol = 'models' | 'chat' | 'responses' | 'messages' | 'gemini'

/** What a case is about. */
export type Subject = 'answers' | 'streams' | 'tools' | 'formats' | 'limits' | 'errors' | 'memory'

export interface TrialTarget {
  /** The base URL of the OpenAI protocols, without a slash at its end: `https://host/v1`. */
  readonly base: string
  readonly key: string
  /** A model that calls functions and keeps to a JSON schema, by its name there. */
  readonly model: string
  /** Milliseconds that one request may take. */
  readonly timeoutMs: number
}

export interface Case {
  /** Never changes, so that reports can be compared. */
  readonly id: string
  readonly protocol: TriedProtocol
  readonly subject: Subject
  /** What holds, in a sentence. */
  readonly about: string
  run(trial: Trial): Promise<void>
}

export interface CaseResult {
  readonly id: string
  readonly protocol: TriedProtocol
  readonly subject: Subject
  readonly about: string
  readonly verdict: 'passed' | 'failed' | 'left_out'
  /** What was found instead; why it was left out. */
  readonly faults: readonly string[]
  readonly ms: number
}

type Json = Record<string, unknown>

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; an empty object where it is none. */
  readonly json: Json
}

export interface StreamReply extends Reply {
  /** The events of a stream, in order: `data` is text, `json` what it says as JSON. */
  readonly events: readonly {
    readonly name: string | undefined
    readonly data: string
    readonly json: Json
  }[]
}

/** The most that is read of one answer, bytes. */
const mostBytes = 4_000_000

/** Thrown by a case whose protocol or feature is not there at all. */
export class LeftOut extends Error {}

/** Throws LeftOut for the answer of a server that does not have this path. */
export function refuseMissing({ status }: Reply, path: string): void {
  if (status === 404 || status === 405 || status === 501)
    throw new LeftOut(`${path} is not served: ${status}`)
}

/** One case being run: it asks, and takes note of everything that does not hold. */
export class Trial {
  readonly target: TrialTarget
  readonly faults: string[] = []

  constructor(target: TrialTarget) {
    this.target = target
  }

  get model(): string {
    return this.target.model
  }

  /** Notes that something does not hold. `what` says what should have. */
  holds(condition: boolean, what: string): void {
    if (!condition) this.faults.push(what)
  }

  /** Notes a value that is another than it should be. */
  is(found: unknown, wanted: unknown, what: string): void {
    this.holds(found === wanted, `${what} should be ${show(wanted)}, not ${show(found)}`)
  }

  /** Notes a value that is not of this type. */
  isA(found: unknown, type: 'string' | 'number' | 'object' | 'array', what: string): void {
    const is = type === 'array' ? Array.isArray(found) : found !== null && typeof found === type
    this.holds(
      is,
      `${what} should be ${type === 'array' || type === 'object' ? 'an' : 'a'} ${type}, not ${show(found)}`,
    )
  }

  /** Sends a request; `body` as JSON, or as it is where it is text. Rejects where nothing answers in time. */
  async ask(
    path: string,
    body?: unknown,
    more: { method?: string; key?: string; headers?: Record<string, string> } = {},
  ): Promise<Reply> {
    const key = more.key ?? this.target.key
    const response = await fetchBounded(
      this.#addressOf(path),
      {
        method: more.method ?? (body === undefined ? 'GET' : 'POST'),
        headers: { 'content-type': 'application/json', ...credentials(path, key), ...more.headers },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        redirect: 'manual',
        signal: AbortSignal.timeout(this.target.timeoutMs),
      },
      mostBytes,
    )
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, json: jsonIn(text) }
  }

  /** The same for a stream of server-sent events, whose type is noted if it is another. */
  async stream(path: string, body: unknown): Promise<StreamReply> {
    const reply = await this.ask(path, body)
    refuseMissing(reply, path)
    this.is(reply.status, 200, 'the status')
    const type = reply.headers.get('content-type') ?? ''
    this.holds(
      type.startsWith('text/event-stream'),
      `content-type should be text/event-stream, not ${show(type)}`,
    )
    return { ...reply, events: eventsIn(reply.text) }
  }

  /** The status of an answer that should be one of success. */
  isSuccess(reply: Reply): boolean {
    this.holds(
      reply.status === 200,
      `the status should be 200, not ${reply.status}: ${reply.text.slice(0, 200)}`,
    )
    return reply.status === 200
  }

  #addressOf(path: string): string {
    const { base } = this.target
    return path.startsWith('/v1beta/') ? base.replace(/\/v1$/, '') + path : base + path
  }
}

/** Each protocol's clients bring the key in a header of their own. */
function credentials(path: string, key: string): Record<string, string> {
  if (path.startsWith('/v1beta/')) return { 'x-goog-api-key': key }
  if (path.startsWith('/messages')) return { 'x-api-key': key, 'anthropic-version': '2023-06-01' }
  return { authorization: `Bearer ${key}` }
}

function jsonIn(text: string): Json {
  try {
    const value = JSON.parse(text) as unknown
    return typeof value === 'object' && value !== null ? (value as Json) : {}
  } catch {
    return {}
  }
}

function eventsIn(text: string): StreamReply['events'] {
  const events: StreamReply['events'][number][] = []
  const parser = createParser({
    onEvent: ({ event, data }) => events.push({ name: event, data, json: jsonIn(data) }),
  })
  // Whoever ends without a blank line means the last event all the same.
  parser.feed(`${text}\n\n`)
  return events
}

function show(value: unknown): string {
  return (JSON.stringify(value) ?? 'missing').slice(0, 120)
}

/** Runs the cases side by side, a few at a time. `onResult` is told of each as it ends. */
export async function runCases(
  cases: readonly Case[],
  target: TrialTarget,
  onResult: (result: CaseResult) => void,
): Promise<readonly CaseResult[]> {
  const results: (CaseResult | undefined)[] = cases.map(() => undefined)
  let next = 0
  const work = async () => {
    for (let at = next++; at < cases.length; at = next++) {
      const result = await resultOf(cases[at]!, target)
      results[at] = result
      onResult(result)
    }
  }
  await Promise.all(Array.from({ length: 4 }, work))
  return results.filter((result) => result !== undefined)
}

async function resultOf({ run, ...about }: Case, target: TrialTarget): Promise<CaseResult> {
  const trial = new Trial(target)
  const began = performance.now()
  let verdict: CaseResult['verdict'] = 'passed'
  try {
    await run(trial)
    if (trial.faults.length > 0) verdict = 'failed'
  } catch (error) {
    verdict = error instanceof LeftOut ? 'left_out' : 'failed'
    trial.faults.push(error instanceof Error ? error.message : String(error))
  }
  return { ...about, verdict, faults: trial.faults, ms: Math.round(performance.now() - began) }
}

// What a trial has found, as text for a terminal and as a page that can be published.

export interface Report {
  readonly base_url: string
  readonly model: string
  /** ISO 8601. */
  readonly made_at: string
  /** The version of the program whose cases they are. */
  readonly weir: string
  readonly scores: Readonly<Record<string, Score>>
  readonly results: readonly CaseResult[]
}

/** Of a protocol, or of all together (`all`). */
export interface Score {
  readonly passed: number
  readonly failed: number
  readonly left_out: number
}

export function scoresOf(results: readonly CaseResult[]): Report['scores'] {
  const protocols = [...new Set(results.map(({ protocol }) => protocol))]
  const scored = protocols.map(
    (name) => [name, scoreOf(results.filter(({ protocol }) => protocol === name))] as const,
  )
  return { all: scoreOf(results), ...Object.fromEntries(scored) }
}

function scoreOf(results: readonly CaseResult[]): Score {
  const count = (wanted: CaseResult['verdict']) => results.filter(({ verdict }) => verdict === wanted).length
  return { passed: count('passed'), failed: count('failed'), left_out: count('left_out') }
}

const marks: Readonly<Record<CaseResult['verdict'], string>> = {
  passed: 'ok',
  failed: 'FAILED',
  left_out: 'left out',
}

/** The line of one case, and below it what did not hold. */
export function lineOf({ id, verdict, about, faults }: CaseResult): string {
  const line = `${marks[verdict].padEnd(8)}  ${id.padEnd(24)}  ${about}`
  return [line, ...faults.map((fault) => `          ${fault}`)].join('\n')
}

export function scoreLine(name: string, { passed, failed, left_out }: Score): string {
  const left = left_out === 0 ? '' : `, ${left_out} left out`
  return `${name}: ${passed} of ${passed + failed} hold${left}`
}

/** The report as one page without anything from elsewhere. */
export function reportPage(report: Report): string {
  const { base_url, model, made_at, weir, scores, results } = report
  const head = Object.entries(scores).map(
    ([name, { passed, failed, left_out }]) =>
      `<tr><th>${escapeText(name)}</th><td>${passed}</td><td>${failed}</td><td>${left_out}</td></tr>`,
  )
  const rows = results.map(
    ({ id, subject, verdict, about, faults, ms }) =>
      `<tr class="${verdict}"><td>${marks[verdict]}</td><td><code>${escapeText(id)}</code></td><td>${escapeText(subject)}</td>` +
      `<td>${escapeText(about)}${faults.map((fault) => `<p>${escapeText(fault)}</p>`).join('')}</td><td>${ms} ms</td></tr>`,
  )
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Conformance of ${escapeText(base_url)}</title>
<style>
:root { color-scheme: light dark; --bad: light-dark(#b3261e, #ffb4ab); --quiet: light-dark(#5a5a5a, #a8a8a8) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 2rem }
th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-bottom: 1px solid light-dark(#ddd, #444) }
td p { margin: .2rem 0 0; color: var(--quiet); overflow-wrap: anywhere }
.failed td:first-child { color: var(--bad); font-weight: 600 }
.left_out { color: var(--quiet) }
.wide { overflow-x: auto }
td:last-child { white-space: nowrap }
</style>
<h1>Conformance of ${escapeText(base_url)}</h1>
<p>Model <code>${escapeText(model)}</code>, ${escapeText(made_at)}, by the cases of weir ${escapeText(weir)}.</p>
<table><thead><tr><th>Protocol</th><th>Hold</th><th>Fail</th><th>Left out</th></tr></thead><tbody>${head.join('')}</tbody></table>
<div class="wide"><table><thead><tr><th>Verdict</th><th>Case</th><th>Subject</th><th>What holds</th><th>Time</th></tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>
</html>
`
}

function escapeText(text: string): string {
  return Bun.escapeHTML(text)
}
