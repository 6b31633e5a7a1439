// Recorded provider exchanges as test data, and what must hold for the events of any of them.

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type ChatEvent, collect } from '../../src/conversation/event.ts'
import type { Json, JsonObject } from '../../src/conversation/request.ts'
import { completionTokens, promptTokens, tokenBuckets } from '../../src/conversation/usage.ts'
import type { StreamParser } from '../../src/protocols/protocol.ts'
import { type Frame, SseDecoder } from '../../src/protocols/framing/sse.ts'

/** Where the recordings are; NOTICE.md there says whose they are. */
export const recordingsDir = resolve(import.meta.dir, '../fixtures/providers')

/** `meta.json` of a case, as far as tests read it. */
export interface Meta {
  readonly id: string
  readonly provider: string
  readonly model: string | null
  readonly stream: boolean
  readonly http_status: number
  readonly url: string
  readonly features: readonly string[]
  readonly finish_reasons: readonly string[]
  readonly response_headers: Readonly<Record<string, string>>
  readonly byte_exact_response: boolean
  readonly notes?: readonly string[]
}

export interface Case {
  /** The name of the case's folder. */
  readonly id: string
  readonly provider: string
  readonly dir: string
  readonly meta: Meta
  readonly features: ReadonlySet<string>
  readonly status: number
  readonly headers: Headers
  /** The request body as it was sent; undefined where the recording has none. */
  readonly request: JsonObject | undefined
  /** Whether the answer is a stream (else `response` has it). */
  readonly streamed: boolean
  /** The parsed JSON body. Throws where the case has none. */
  response(): Json
  /** The text of the JSON body, for error bodies. */
  responseText(): string
  /** The raw bytes of the streamed body. Throws where the case has none. */
  stream(): Uint8Array
}

const streamFiles = [
  'stream.sse',
  'stream.ndjson',
  'stream.eventstream.bin',
  'stream.jsonarray.json',
] as const

/** Every recorded case of one provider folder, by name. */
export function cases(provider: string): Case[] {
  const folder = join(recordingsDir, provider)
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => load(provider, entry.name))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
}

function load(provider: string, id: string): Case {
  const dir = join(recordingsDir, provider, id)
  const json = (name: string): unknown => JSON.parse(readFileSync(join(dir, name), 'utf8'))
  const meta = json('meta.json') as Meta
  const streamFile = streamFiles.find((name) => existsSync(join(dir, name)))
  return {
    id,
    provider,
    dir,
    meta,
    features: new Set(meta.features),
    status: meta.http_status,
    headers: new Headers(meta.response_headers),
    request: existsSync(join(dir, 'request.json')) ? (json('request.json') as JsonObject) : undefined,
    streamed: streamFile !== undefined,
    response: () => json('response.json') as Json,
    responseText: () => readFileSync(join(dir, 'response.json'), 'utf8'),
    stream: () => {
      if (streamFile === undefined) throw new Error(`${provider}/${id} has no stream`)
      return new Uint8Array(readFileSync(join(dir, streamFile)))
    },
  }
}

/** The bytes cut at these offsets; nothing is lost. */
export function cutAt(bytes: Uint8Array, offsets: readonly number[]): Uint8Array[] {
  const edges = [0, ...offsets.toSorted((a, b) => a - b), bytes.length]
  return edges.slice(1).map((end, index) => bytes.subarray(edges[index]!, end))
}

/**
 * The bytes in pieces of random sizes, the same for the same seed. The seed also picks how fine the pieces are:
 * from single bytes to one piece for everything.
 */
export function randomCuts(bytes: Uint8Array, seed: number): Uint8Array[] {
  const random = randomOf(seed)
  const largest = Math.max(1, Math.floor(bytes.length ** random()))
  const pieces: Uint8Array[] = []
  for (let at = 0; at < bytes.length;) {
    const size = 1 + Math.floor(random() * largest)
    pieces.push(bytes.subarray(at, at + size))
    at += size
  }
  return pieces
}

/** Numbers in [0, 1), the same for the same seed. */
export function randomOf(seed: number): () => number {
  let state = (seed ^ 0x9e3779b9) >>> 0
  return () => {
    // A linear congruential step with its high bits mixed down: plain, and enough to choose cuts.
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const mixed = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) >>> 0
    return mixed / 2 ** 32
  }
}

/** The server-sent frames of a body that arrives in these pieces. */
export function framesOf(pieces: Iterable<Uint8Array>): Frame[] {
  const decoder = new SseDecoder()
  const frames: Frame[] = []
  for (const piece of pieces) frames.push(...decoder.push(piece))
  frames.push(...decoder.end())
  return frames
}

/** What a stream parser makes of these frames, the end of the stream included. */
export function parseFrames(parser: StreamParser, frames: Iterable<Frame>): ChatEvent[] {
  const events: ChatEvent[] = []
  for (const frame of frames) events.push(...parser.push(frame))
  events.push(...parser.end())
  return events
}

/**
 * Throws with the name of the rule that the events of one answer break. The rules hold for every protocol:
 * - exactly one terminal event, and it is the last
 * - a tool call starts once, with an id and a name, before its deltas; calls are numbered from 0 without gaps
 * - after a clean finish every choice has a finish reason, arguments parse as JSON objects, and
 *   the reason is `tool_calls` exactly when the choice made calls
 * - usage is whole, non-negative, and its prompt and completion totals are safe numbers
 */
export function assertWellFormed(events: readonly ChatEvent[]): void {
  const broken = (rule: string, event?: ChatEvent): never => {
    throw new Error(`${rule}${event === undefined ? '' : `: ${JSON.stringify(event)}`}`)
  }
  const terminals = events.filter((event) => event.kind === 'finish' || event.kind === 'error')
  if (terminals.length !== 1) broken(`exactly one terminal event, not ${terminals.length}`)
  if (events.at(-1) !== terminals[0]) broken('the terminal event is the last', events.at(-1))

  const started = new Map<number, number>()
  const finished = new Set<number>()
  for (const event of events) {
    if (event.kind === 'tool-call-start') {
      const known = started.get(event.choice) ?? 0
      if (event.call !== known) broken('calls are numbered from 0 without gaps, each started once', event)
      if (event.id === '' || event.name === '') broken('a call has an id and a name', event)
      started.set(event.choice, known + 1)
    }
    if (event.kind === 'tool-call-delta' && event.call >= (started.get(event.choice) ?? 0)) {
      broken('a call starts before its deltas', event)
    }
    if (event.kind === 'choice-finish') {
      if (finished.has(event.choice)) broken('a choice finishes once', event)
      finished.add(event.choice)
    }
    if (event.kind === 'usage') {
      for (const bucket of tokenBuckets) {
        if (!Number.isSafeInteger(event.usage[bucket]) || event.usage[bucket] < 0) {
          broken(`usage.${bucket} is a whole, non-negative number`, event)
        }
      }
      const total = promptTokens(event.usage) + completionTokens(event.usage)
      if (!Number.isSafeInteger(total)) broken('the total of the usage is a safe number', event)
    }
  }
  if (events.at(-1)?.kind === 'finish') assertFinished(events, broken)
}

function assertFinished(events: readonly ChatEvent[], broken: (rule: string) => never): void {
  for (const choice of collect(events).choices) {
    if (choice.finish === undefined) broken(`choice ${choice.index} has a finish reason`)
    const ids = new Set(choice.toolCalls.map((call) => call.id))
    if (ids.size !== choice.toolCalls.length) broken(`choice ${choice.index} has distinct call ids`)
    // A call cut off by the token limit or by a filter has arguments nobody can repair.
    const complete = choice.finish === 'tool_calls'
    if (
      complete !== choice.toolCalls.length > 0 &&
      choice.finish !== 'length' &&
      choice.finish !== 'content_filter'
    ) {
      broken(`choice ${choice.index} finishes with tool_calls exactly when it made calls`)
    }
    for (const call of complete ? choice.toolCalls : []) {
      const parsed: unknown = JSON.parse(call.arguments)
      if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
        broken(`the arguments of ${call.name} are a JSON object`)
      }
    }
  }
}
