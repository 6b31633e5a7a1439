// Recorded good answers in pieces, one stream and one whole for each protocol: what the faults of chaos.test.ts cut.

import { frameDecoder } from '../../../src/protocols/framing/decoder.ts'
import { type ChatEvent, collect } from '../../../src/conversation/event.ts'
import type { Outbound, ProtocolId } from '../../../src/protocols/protocol.ts'
import { maxFrameCharacters } from '../../../src/protocols/framing/sse.ts'
import { recordedHosts, type RecordedHost, spokenBy } from '../../protocols/recorded-hosts.ts'
import { message } from '../../support/aws-event-stream.ts'
import { type Case, cases } from '../../support/recordings.ts'

export interface Base {
  readonly protocol: ProtocolId
  readonly stream: {
    readonly type: string
    /** One event each. */
    readonly pieces: readonly Uint8Array[]
    /** How many pieces come before the cut in the middle, and before the last word on usage. */
    readonly mid: number
    readonly beforeUsage: number
    /** The text that so many pieces hold. */
    readonly text: (pieces: number) => string
    /** The answer has given its finish reason before it counts. */
    readonly finishedBeforeUsage: boolean
  }
  readonly whole: string
  /** An error of the provider inside a stream and in place of a whole answer, and what clients see of it. */
  readonly error: Dialect['error']
}

interface Dialect {
  readonly folder: string
  readonly error: { readonly event: string | Uint8Array; readonly whole: object; readonly code: string }
}

const sse = (name: string, data: object) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`
const detail = 'SECRET-DETAIL'

const dialects: readonly Dialect[] = [
  {
    folder: 'openai-chat',
    error: {
      event: `data: ${JSON.stringify({ error: { message: detail, type: 'server_error', code: null } })}\n\n`,
      whole: { error: { message: detail, type: 'server_error', code: null } },
      code: 'upstream_error',
    },
  },
  {
    folder: 'openai-responses',
    error: {
      event: sse('error', { type: 'error', code: 'server_error', message: detail, sequence_number: 9 }),
      whole: { object: 'response', status: 'failed', error: { code: 'server_error', message: detail } },
      code: 'upstream_error',
    },
  },
  {
    folder: 'anthropic',
    error: {
      event: sse('error', { type: 'error', error: { type: 'overloaded_error', message: detail } }),
      whole: { type: 'error', error: { type: 'overloaded_error', message: detail } },
      code: 'overloaded',
    },
  },
  {
    folder: 'gemini',
    error: {
      event: `data: ${JSON.stringify({ error: { code: 503, status: 'UNAVAILABLE', message: detail } })}\n\n`,
      whole: { error: { code: 503, status: 'UNAVAILABLE', message: detail } },
      code: 'overloaded',
    },
  },
  {
    folder: 'cohere-v2',
    error: {
      event: sse('message-end', { type: 'message-end', delta: { finish_reason: 'ERROR', error: detail } }),
      whole: { finish_reason: 'ERROR', message: { role: 'assistant', content: [] } },
      code: 'upstream_error',
    },
  },
  {
    folder: 'ollama-native',
    error: {
      event: `${JSON.stringify({ error: detail })}\n`,
      whole: { error: detail },
      code: 'upstream_error',
    },
  },
  {
    folder: 'bedrock-converse',
    error: {
      event: message(
        { ':message-type': 'exception', ':exception-type': 'internalServerException' },
        JSON.stringify({ message: detail }),
      ),
      whole: { message: detail },
      code: 'upstream_error',
    },
  },
]

const types: Readonly<Record<Outbound['framing'], string>> = {
  sse: 'text/event-stream',
  ndjson: 'application/x-ndjson',
  'aws-event-stream': 'application/vnd.amazon.eventstream',
}

/** Every protocol that is built, each with its smallest recordings of a plain answer. */
export function basesOf(): readonly Base[] {
  return dialects.map(({ folder, error }) => {
    const host = recordedHosts.find((one) => one.folder === folder)!
    const plain = cases(folder).filter(({ status, features }) => status === 200 && isPlain(features))
    const streams = plain.filter(({ streamed }) => streamed).map((recorded) => streamOf(host, recorded))
    const stream = smallest(
      streams.flatMap((one) => one ?? []),
      ({ pieces }) => pieces.length,
    )
    const whole = smallest(
      plain.filter(({ streamed }) => !streamed).map((recorded) => recorded.responseText()),
      (text) => text.length,
    )
    return { protocol: host.protocol, stream, whole, error }
  })
}

function isPlain(features: ReadonlySet<string>): boolean {
  const odd = /^(tool|error|fin:|midstream|empty|refusal|n>1|citations|server_tool|compaction)/
  return features.has('text') && ![...features].some((feature) => odd.test(feature))
}

function smallest<T>(all: readonly T[], size: (one: T) => number): T {
  const [least] = all.toSorted((a, b) => size(a) - size(b))
  if (least === undefined) throw new Error('no recording is plain enough')
  return least
}

/** The recorded stream in pieces; undefined where it is too short to be cut in its middle, or counts nothing. */
function streamOf(host: RecordedHost, recorded: Case): Base['stream'] | undefined {
  const { outbound, target } = spokenBy(host, recorded)
  const bytes = recorded.stream()
  if (bytes[0] === '['.charCodeAt(0)) return undefined
  const pieces = split[outbound.framing](Buffer.from(bytes))
  const decoder = frameDecoder(outbound.framing, maxFrameCharacters)
  const parser = outbound.parser(target)
  /** What the end of the body would make of the stream after so many pieces. */
  const ends: ChatEvent[][] = []
  const events: ChatEvent[][] = pieces.map((piece) => {
    ends.push([...parser.end()])
    return decoder.push(piece).flatMap((frame) => parser.push(frame))
  })
  const has = (kind: ChatEvent['kind']) => (made: ChatEvent[]) => made.some((event) => event.kind === kind)
  const beforeUsage = events.findLastIndex(has('usage'))
  const mid = events.findIndex(has('text-delta')) + 1
  const more = events.slice(mid, beforeUsage).filter(has('text-delta')).length
  if (beforeUsage < 0 || mid === 0 || more === 0) return undefined
  return {
    type: types[outbound.framing],
    pieces,
    mid,
    beforeUsage,
    text: (count) => collect(events.slice(0, count).flat()).choices[0]?.text ?? '',
    finishedBeforeUsage: has('finish')(ends[beforeUsage]!),
  }
}

/** A body cut after each of its events. */
const split: Readonly<Record<Outbound['framing'], (body: Buffer) => Uint8Array[]>> = {
  sse: (body) => after(body, /\r?\n\r?\n/g),
  ndjson: (body) => after(body, /\n/g),
  'aws-event-stream': (body) => {
    const pieces: Uint8Array[] = []
    for (let at = 0; at < body.length; at += pieces.at(-1)!.length)
      pieces.push(body.subarray(at, at + body.readUInt32BE(at)))
    return pieces
  },
}

function after(body: Buffer, ending: RegExp): Uint8Array[] {
  // One character for each byte: offsets in the text are offsets in the body.
  const ends = Array.from(body.toString('latin1').matchAll(ending), (match) => match.index + match[0].length)
  return ends.map((end, at) => body.subarray(ends[at - 1] ?? 0, end))
}
