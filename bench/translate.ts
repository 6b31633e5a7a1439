// What translating a stream costs beside mending one, in this process and without any network: throughput as a
// ratio of mending (client and provider both speak chat completions), memory of an open stream, and whether time grows with the input and no faster.
// `bun bench/translate.ts [--quick]`. All are measured in turns, so that whatever else the machine does strikes all.

import { atOnce } from '../src/json/json.ts'
import { heapStats } from 'bun:jsc'
import { parseArgs } from 'node:util'
import { frameDecoder } from '../src/protocols/framing/decoder.ts'
import { PassthroughChannel, type StreamChannel, TranslateChannel } from '../src/chat/streaming/translate.ts'
import { noUsage } from '../src/conversation/usage.ts'
import { inbound } from '../src/protocols/openai-chat/inbound/inbound.ts'
import type { AnswerContext, Bill, ProtocolId, Target } from '../src/protocols/protocol.ts'
import { outbounds } from '../src/protocols/registry.ts'
import { median } from './statistics.ts'
import { type Answer, streams } from './translate-streams.ts'

/** The figures to reach. */
const targets = {
  /** Of mending's throughput. */
  ratio: 0.2,
  /** How much longer four times the input may take. */
  growth: 6,
}

const { values: flags } = parseArgs({ options: { quick: { type: 'boolean', default: false } } })
const rounds = flags.quick ? 5 : 15
const streamsAtATime = flags.quick ? 20 : 60
const openStreams = flags.quick ? 200 : 1_000
const eventBytes = 64 * 1024 * 1024

type Way = ProtocolId | 'repair'
const ways: readonly Way[] = [
  'repair',
  'anthropic-messages',
  'gemini',
  'openai-responses',
  'cohere',
  'ollama',
  'bedrock-converse',
]

const bill: Bill = {
  cost: '0',
  lines: { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
}

const protocolOf = (way: Way): ProtocolId => (way === 'repair' ? 'openai-chat' : way)
const piecesOf = (way: Way, answer: Answer) => streams[protocolOf(way)](answer)

/** A fresh stream on its way to a client, as dispatch opens it. */
function channelOf(way: Way): StreamChannel {
  const outbound = outbounds[protocolOf(way)]
  const target: Target = {
    model: 'm',
    provider: 'bench',
    quirks: outbound.defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  const context: AnswerContext = {
    id: 'req_bench',
    model: 'bench/m',
    created: 1,
    includeUsage: true,
    warnings: [],
    extra: {},
  }
  if (way === 'repair') {
    const stream = outbound.passthrough!.stream(context, { choices: 1, maxEventBytes: eventBytes }, target)
    return new PassthroughChannel(stream, context, (of) => inbound.encoder(of))
  }
  return new TranslateChannel({
    decoder: frameDecoder(outbound.framing, eventBytes),
    parser: outbound.parser(target),
    encoder: inbound.encoder(context),
    extra: context.extra,
    onSignature: () => undefined,
  })
}

/** Sends a whole stream through and checks that it came out; gives the milliseconds it took. */
function run(way: Way, pieces: readonly Uint8Array[], least: number): number {
  const channel = channelOf(way)
  const began = performance.now()
  let bytes = 0
  for (const piece of pieces) for (const out of atOnce(channel.push(piece))) bytes += out.length
  for (const out of channel.end()) bytes += out.length
  const { finished, fault, usage } = channel.progress
  for (const out of atOnce(channel.finish(usage ?? noUsage, bill, undefined))) bytes += out.length
  const ms = performance.now() - began
  if (!finished || bytes < least)
    throw new Error(`${way}: ${bytes} bytes of at least ${least}, ${fault?.message ?? 'not finished'}`)
  return ms
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = heads.map((head, at) => Math.max(head.length, ...rows.map((row) => row[at]!.length)))
  return [heads, ...rows]
    .map((row) =>
      row.map((cell, at) => (at === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[at]!))).join('  '),
    )
    .join('\n')
}

const missed: string[] = []

// ---- throughput -------------------------------------------------------------------------------------------

const words = Array.from({ length: 400 }, (_, at) => ` word${at % 10}`)
const text = words.join('').length
/** As the network delivers it: each event by itself, and several in one read. */
const reads = { 'one event a read': 1, 'sixteen events a read': 16 } as const

for (const [name, size] of Object.entries(reads)) {
  const answer = { texts: words, calls: 0 }
  const pieces = new Map(ways.map((way) => [way, joined(piecesOf(way, answer), size)]))
  const times = new Map<Way, number[]>(ways.map((way) => [way, []]))
  for (let round = 0; round < rounds + 2; round++) {
    for (const way of ways) {
      let ms = 0
      for (let at = 0; at < streamsAtATime; at++) ms += run(way, pieces.get(way)!, text)
      // The first rounds are the compiler's.
      if (round >= 2) times.get(way)!.push(ms / streamsAtATime)
    }
  }
  const mended = times.get('repair')!
  const rows = ways.map((way) => {
    const mine = times.get(way)!
    const ratio = median(mine.map((ms, round) => mended[round]! / ms))
    if (ratio < targets.ratio) missed.push(`${way}, ${name}: ${ratio.toFixed(2)} of mended`)
    const perSecond = Math.round((words.length / median(mine)) * 1000)
    return [
      way,
      perSecond.toLocaleString('en'),
      ((median(mine) * 1000) / words.length).toFixed(2),
      ratio.toFixed(2),
    ]
  })
  console.log(`\n${table([name, 'deltas/s', 'µs each', 'of mended'], rows)}`)
}

function joined(pieces: readonly Uint8Array[], size: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(pieces.length / size) }, (_, at) =>
    Buffer.concat(pieces.slice(at * size, (at + 1) * size)),
  )
}

// ---- memory -----------------------------------------------------------------------------------------------

const memory = ways.map((way) => {
  const pieces = piecesOf(way, { texts: words, calls: 2 })
  const half = pieces.slice(0, Math.floor(pieces.length / 2))
  const before = heapBytes()
  const open = Array.from({ length: openStreams }, () => {
    const channel = channelOf(way)
    for (const piece of half) channel.push(piece)
    return channel
  })
  const each = (heapBytes() - before) / open.length
  return [way, (each / 1024).toFixed(1)]
})
console.log(`\n${table([`an open stream, ${words.length / 2} deltas in`, 'kB'], memory)}`)

function heapBytes(): number {
  Bun.gc(true)
  return heapStats().heapSize
}

// ---- growth -----------------------------------------------------------------------------------------------

/** Four times the input: each gives the smaller and the larger answer, and how it is read. */
const growths: readonly { name: string; answer: (times: number) => Answer; bytesARead?: number }[] = [
  {
    name: '25,000 → 100,000 deltas',
    answer: (times) => ({ texts: Array(25_000 * times).fill(' w'), calls: 0 }),
  },
  { name: '2,500 → 10,000 calls', answer: (times) => ({ texts: ['x'], calls: 2_500 * times }) },
  { name: 'an event of 1 → 4 MB', answer: (times) => ({ texts: ['x'.repeat(1_000_000 * times)], calls: 0 }) },
  {
    name: 'the same in reads of 1 kB',
    answer: (times) => ({ texts: ['x'.repeat(1_000_000 * times)], calls: 0 }),
    bytesARead: 1_024,
  },
]

const growth = ways.map((way) => [
  way,
  ...growths.map(({ name, answer, bytesARead }) => {
    const time = (times: number) => {
      const pieces = piecesOf(way, answer(times))
      const read = bytesARead === undefined ? pieces : cut(Buffer.concat(pieces), bytesARead)
      const least = answer(times).texts.reduce((sum, one) => sum + one.length, 0)
      // The fastest of several: everything else a machine does only adds.
      return [Math.min(...Array.from({ length: 5 }, () => run(way, read, least))), read.length] as const
    }
    const [small] = time(1)
    const [large] = time(4)
    const factor = large / small
    // Below this the clock and the collector are what is measured.
    if (factor > targets.growth && large > 20) missed.push(`${way}, ${name}: ×${factor.toFixed(1)}`)
    return `${large.toFixed(0)} ms ×${factor.toFixed(1)}`
  }),
])
console.log(`\n${table(['four times the input', ...growths.map(({ name }) => name)], growth)}`)

function cut(bytes: Uint8Array, size: number): Uint8Array[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  )
}

console.log(
  missed.length === 0
    ? '\nEvery target is met.'
    : `\nMissed:\n${missed.map((what) => `  ${what}`).join('\n')}`,
)
process.exitCode = missed.length === 0 ? 0 : 1
