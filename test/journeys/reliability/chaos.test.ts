// G11: sixteen faults, at every moment of an answer they can strike, of every protocol, streamed and whole. Whatever
// the provider does, the client sees the right status or an error inside its stream and then the protocol's end, the
// call ends once and is charged by the rules, the provider's connection is closed, and nothing stays held.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseUsd } from '../../../src/credits/money.ts'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import {
  type Answer,
  creditsOf,
  expectAudited,
  post,
  receiptOf,
  restingCredits,
} from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import {
  chunk,
  headOf,
  lastChunk,
  plain,
  type ScriptedProvider,
  startScriptedProvider,
  type Wire,
} from '../../support/scripted-provider.ts'
import { type Base, basesOf } from './chaos-recordings.ts'

type Moment = 'connect' | 'headers' | 'mid-stream' | 'before-usage'
type Mode = 'stream' | 'whole'

const everywhere: readonly Moment[] = ['connect', 'headers', 'mid-stream', 'before-usage']
const afterHead: readonly Moment[] = ['headers', 'mid-stream', 'before-usage']
const atConnect: readonly Moment[] = ['connect']
const atHeaders: readonly Moment[] = ['headers']

interface Fault {
  readonly name: string
  /** The moments it can strike at: a status comes before a body, a broken chunk needs one. */
  readonly moments: readonly Moment[]
  readonly strike: (wire: Wire, at: Strike) => unknown
  /** What it is to the client before the first byte, and inside a stream. */
  readonly status: number | readonly number[]
  readonly code: string | readonly string[]
  /** It leaves the connection open: the gateway is who closes it. */
  readonly leavesOpen?: true
  /** After the finish reason it says that something is wrong after all: either ending is right. */
  readonly contradicts?: true
}

interface Strike {
  readonly base: Base
  readonly moment: Moment
  readonly mode: Mode
  /** What would come next. */
  readonly next: Uint8Array
}

const broken = { status: 502, code: 'upstream_error' } as const
const body = (bytes: string | Uint8Array, { moment }: Strike) => (moment === 'connect' ? bytes : chunk(bytes))
const json = JSON.stringify({ error: { message: 'SECRET-DETAIL', type: 'error', code: null } })
const answers = (status: number, headers: Record<string, string> = {}) => ({
  moments: atConnect,
  strike: async (wire: Wire) => {
    // A connection that is kept and then closed would be the next case's misfortune.
    await wire.write(plain(status, 'application/json', json, { connection: 'close', ...headers }))
    wire.end()
  },
})

const faults: readonly Fault[] = [
  { name: 'closes', moments: everywhere, strike: (wire) => wire.end(), ...broken },
  { name: 'resets', moments: everywhere, strike: (wire) => wire.reset(), ...broken },
  {
    name: 'falls silent',
    moments: everywhere,
    strike: () => undefined,
    status: 504,
    code: 'upstream_timeout',
    leavesOpen: true,
  },
  {
    name: 'sends bytes of no meaning',
    moments: everywhere,
    strike: async (wire, at) => {
      await wire.write(body(new Uint8Array(300).fill(0xff), at))
      await wire.write(body('\r\n\r\n', at))
      wire.end()
    },
    contradicts: true,
    ...broken,
  },
  {
    name: 'sends a line without end',
    moments: everywhere,
    strike: async (wire, at) => {
      const piece = body(at.mode === 'whole' ? ' '.repeat(65_536) : 'x'.repeat(65_536), at)
      while (await wire.write(piece));
    },
    // A header without end may outlast the patience with it.
    status: [502, 504],
    code: ['upstream_error', 'upstream_timeout'],
    leavesOpen: true,
    contradicts: true,
  },
  {
    name: 'stops within an event',
    moments: everywhere,
    strike: async (wire, at) => {
      const half = at.next.subarray(0, Math.ceil(at.next.length / 2))
      await wire.write(at.moment === 'connect' ? 'HTTP/1.1 20' : chunk(half))
      wire.end()
    },
    ...broken,
  },
  {
    name: 'ends its body too early',
    moments: afterHead,
    strike: async (wire) => {
      await wire.write(lastChunk)
      wire.end()
    },
    ...broken,
  },
  {
    name: 'breaks its framing',
    moments: afterHead,
    strike: async (wire) => {
      await wire.write('zz\r\n')
      wire.end()
    },
    ...broken,
  },
  {
    name: 'sends an error',
    moments: afterHead,
    strike: async (wire, { base, moment, mode }) => {
      if (mode === 'stream') return wire.write(chunk(base.error.event))
      await wire.write(chunk(moment === 'headers' ? JSON.stringify(base.error.whole) : json))
      await wire.write(lastChunk)
      return undefined
    },
    status: [502, 503],
    code: ['upstream_error', 'overloaded'],
    leavesOpen: true,
    contradicts: true,
  },
  {
    name: 'sends what is not JSON',
    moments: afterHead,
    strike: async (wire, { base, mode }) => {
      if (mode === 'stream' && base.stream.type === 'text/event-stream')
        // Of a few the rest may be sound.
        return wire.write(chunk('data: {"oops\n\n'.repeat(4)))
      await wire.write(chunk('{"oops\n'))
      await wire.write(lastChunk)
      return undefined
    },
    leavesOpen: true,
    contradicts: true,
    ...broken,
  },
  {
    name: 'sends a web page',
    moments: everywhere,
    strike: async (wire, at) => {
      const page = '<html><body>SECRET-DETAIL</body></html>\n'
      await wire.write(
        at.moment === 'connect' ? plain(200, 'text/html', page, { connection: 'close' }) : chunk(page),
      )
      wire.end()
    },
    contradicts: true,
    ...broken,
  },
  { name: 'fails (500)', status: 502, code: 'upstream_error', ...answers(500) },
  { name: 'is overloaded (503)', status: 503, code: 'overloaded', ...answers(503, { 'retry-after': '7' }) },
  {
    name: 'limits the rate (429)',
    status: 429,
    code: 'upstream_rate_limited',
    ...answers(429, { 'retry-after': '7' }),
  },
  { name: 'refuses our key (401)', status: 502, code: 'upstream_refused_credentials', ...answers(401) },
  {
    name: 'says that it compresses, and does not',
    moments: atHeaders,
    strike: async () => undefined,
    ...broken,
  },
]

/** Without it nobody would know that it is the faults which make the answers fail. */
const control: Fault = {
  name: 'answers well',
  moments: atConnect,
  strike: async (wire, { base, mode }) => {
    const { type, pieces } = base.stream
    if (mode === 'whole')
      await wire.write(plain(200, 'application/json', base.whole, { connection: 'close' }))
    else await wire.write(plain(200, type, Buffer.concat([...pieces]), { connection: 'close' }))
    wire.end()
  },
  status: 200,
  code: 'none',
}

interface Case extends Strike {
  readonly id: string
  readonly fault: Fault
  /** Resolves when the client has read all that the provider has sent. */
  readonly read: PromiseWithResolvers<void>
  /** The text of what is sent before the fault. */
  readonly text: string
  readonly finished: boolean
}

interface Seen {
  readonly answer: Answer
  readonly receipt: Receipt | undefined
  readonly arrivals: number
  readonly closed: boolean
}

const bases = basesOf()
let made = 0
const all: readonly Case[] = bases.flatMap((base) =>
  [...faults, control].flatMap((fault) =>
    fault.moments.flatMap((moment) =>
      (['stream', 'whole'] as const).map((mode) => caseOf(base, fault, moment, mode)),
    ),
  ),
)

function caseOf(base: Base, fault: Fault, moment: Moment, mode: Mode): Case {
  const { pieces, text, finishedBeforeUsage } = base.stream
  const sent = piecesBefore(base, moment)
  const whole = Buffer.from(base.whole)
  return {
    id: `c${made++}`,
    base,
    fault,
    moment,
    mode,
    read: Promise.withResolvers(),
    text: mode === 'stream' ? text(sent) : '',
    finished: mode === 'stream' && moment === 'before-usage' && finishedBeforeUsage,
    next: mode === 'stream' ? pieces[sent]! : whole.subarray(wholeBefore(base, moment)),
  }
}

function piecesBefore({ stream }: Base, moment: Moment): number {
  return moment === 'mid-stream' ? stream.mid : moment === 'before-usage' ? stream.beforeUsage : 0
}

/** How much of a whole answer has come: its middle, and all but its end. */
function wholeBefore({ whole }: Base, moment: Moment): number {
  return moment === 'mid-stream'
    ? Math.floor(whole.length / 2)
    : moment === 'before-usage'
      ? whole.length - 10
      : 0
}

const closings = new Map<string, Promise<void>>()

async function play(one: Case, wire: Wire): Promise<void> {
  closings.set(one.id, wire.closed)
  const { base, moment, mode, fault } = one
  if (moment !== 'connect') {
    const compressed = fault.moments === atHeaders
    const head = headOf(200, {
      'content-type': mode === 'stream' ? base.stream.type : 'application/json',
      'transfer-encoding': 'chunked',
      connection: 'close',
      ...(compressed ? { 'content-encoding': 'gzip' } : {}),
    })
    await wire.write(head)
    const before =
      mode === 'stream'
        ? Buffer.concat(base.stream.pieces.slice(0, piecesBefore(base, moment)))
        : Buffer.from(base.whole).subarray(0, wholeBefore(base, moment))
    if (before.length > 0) await wire.write(chunk(before))
    if (compressed) {
      await wire.write(chunk(one.next))
      await wire.write(lastChunk)
      return wire.end()
    }
    // A reset takes with it what has not been read yet.
    if (one.text !== '') await one.read.promise
  }
  await fault.strike(wire, one)
}

const seen = new Map<string, Seen>()
let provider: ScriptedProvider
let weir: RunningWeir

beforeAll(async () => {
  const byId = new Map(all.map((one) => [one.id, one]))
  provider = await startScriptedProvider({}, (_body, path) => {
    const one = byId.get(path.split('/')[1] ?? '')
    return one && ((wire) => play(one, wire))
  })
  const origin = `http://127.0.0.1:${provider.port}`
  weir = await startWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      log: { level: 'error' },
      limits: {
        attempts: 1,
        sse_event_bytes: 262_144,
        upstream_body_bytes: 1_000_000,
        requests_in_flight_per_account: 1000,
      },
      timeouts: { connect_ms: 3000, first_byte_ms: 1500, first_byte_reasoning_ms: 1500, gap_ms: 1500 },
      providers: Object.fromEntries(
        all.map(({ id, base }) => [
          id,
          { protocol: base.protocol, base_url: `${origin}/${id}`, api_key: 'lab-provider-secret' },
        ]),
      ),
      models: all.map(({ id }) => ({
        id: `${id}/m`,
        price: { input: '1', output: '2' },
        max_output_tokens: 1000,
      })),
    }),
  })
  await eachOf(all, 64, async (one) => void seen.set(one.id, await observe(one)))
}, 60_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

/** Does it for each, at most so many at a time. */
async function eachOf<T>(
  items: readonly T[],
  atATime: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const rest = [...items]
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await act(item)
  }
  await Promise.all(Array.from({ length: atATime }, worker))
}

async function observe(one: Case): Promise<Seen> {
  const streamed = one.mode === 'stream' ? { stream: true, stream_options: { include_usage: true } } : {}
  const messages = [{ role: 'user', content: 'Where does the river run?' }]
  const onText = (text: string) => {
    if (contentIn(text).length >= one.text.length) one.read.resolve()
  }
  const answer = await post(
    weir,
    { model: `${one.id}/m`, messages, max_tokens: 500, ...streamed },
    { onText },
  )
  const receipt = await receiptOf(weir, answer.requestId)
  const closing = closings.get(one.id) ?? Promise.reject(new Error(`${one.id} was never asked`))
  const closed = await Promise.race([closing.then(() => true), Bun.sleep(3_000).then(() => false)])
  const arrivals = provider.arrivals.filter(({ path }) => path.startsWith(`/${one.id}/`)).length
  return { answer, receipt, arrivals, closed: closed || one.fault.leavesOpen !== true }
}

/** The text of the whole events of a stream that has not ended. */
function contentIn(text: string): string {
  const events = text.slice(0, text.lastIndexOf('\n\n') + 1).split('\n')
  return events
    .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6)) as Chunk] : []))
    .map(({ choices }) => choices?.[0]?.delta?.content ?? '')
    .join('')
}

interface Chunk {
  readonly choices?: readonly { readonly delta?: { readonly content?: string | null } }[]
}

/** What is wrong with what was seen of a case; empty when all is as it must be. */
function wrongs(one: Case, { answer, receipt, arrivals, closed }: Seen): string[] {
  const wrong: string[] = []
  const must = (holds: boolean, what: string) => void (holds || wrong.push(what))
  must(arrivals === 1, `${arrivals} requests reached the provider`)
  must(closed, 'the connection to the provider stayed open')
  must(!answer.broken, 'the connection to the client broke')
  must(!/SECRET-DETAIL|lab-provider-secret/.test(answer.text), 'the provider’s words reached the client')
  must(
    receipt !== undefined && receipt.held === '0',
    `the receipt is ${receipt?.state}, holding ${receipt?.held}`,
  )

  if (one.fault === control) {
    must(answer.status === 200 && answer.error === undefined, `the status is ${answer.status}`)
    must(answer.content !== '' && answer.finishes.length === 1, `it finishes ${answer.finishes.length} times`)
    must(receipt?.ending === 'finished' && !receipt.usage?.estimated, `the ending is ${receipt?.ending}`)
    return wrong
  }
  const code = answer.error?.code ?? 'none'
  // An error says what it is; in place of the rest of a whole answer it is only broken JSON.
  const itself = one.fault.name === 'sends an error' && (one.mode === 'stream' || one.moment === 'headers')
  const codes = itself ? one.base.error.code : one.fault.code
  const begun = one.mode === 'stream' && one.text !== ''
  if (!begun) {
    must([one.fault.status].flat().includes(answer.status), `the status is ${answer.status}`)
    must([codes].flat().includes(code), `the code is ${code}`)
    must(answer.headers.get('content-type')?.startsWith('application/json') === true, 'the error is no JSON')
    must(receipt?.state === 'voided' && receipt.total === '0', `${receipt?.state}, ${receipt?.total}`)
    return wrong
  }
  must(answer.status === 200, `the status is ${answer.status}`)
  must(answer.content === one.text, `the text is ${JSON.stringify(answer.content.slice(0, 80))}`)
  must(answer.events.filter((data) => data === '[DONE]').length === 1, 'not one [DONE]')
  must(answer.events.at(-1) === '[DONE]', 'the stream does not end with [DONE]')
  must(answer.finishes.length === 1, `it finishes ${answer.finishes.length} times`)
  const failed = answer.finishes[0] === 'error'
  must(failed === (answer.error !== undefined), `it finishes with ${answer.finishes[0]} and ${code}`)
  if (!(one.finished && one.fault.contradicts))
    must(failed !== one.finished, `it finishes with ${answer.finishes[0]}`)
  if (failed) must([codes].flat().includes(code), `the code is ${code}`)
  must(receipt?.state === 'settled', `the receipt is ${receipt?.state}`)
  must(receipt?.usage?.estimated === true, 'the charge is not an estimate')
  // 500 tokens of output at 2 USD a million, and the prompt.
  const total = Number(receipt?.total)
  must(total > 0 && total < 0.0025, `it costs ${receipt?.total}`)
  must(receipt?.ending === (failed ? endingOf(one) : 'finished'), `the ending is ${receipt?.ending}`)
  return wrong
}

/** A provider that falls silent is stopped by us; every other one has cut the answer itself. */
function endingOf({ fault }: Case): string {
  return fault.code === 'upstream_timeout' ? 'stopped' : 'provider-cut'
}

describe.each(bases.map((base) => [base.protocol, base] as const))('a provider of %s that', (_, base) => {
  test.each([control, ...faults].map((fault) => [fault.name, fault] as const))('%s', (_name, fault) => {
    const struck = all.filter((one) => one.base === base && one.fault === fault)
    const found = struck.flatMap((one) =>
      wrongs(one, seen.get(one.id)!).map((wrong) => `${one.moment}, ${one.mode}: ${wrong}`),
    )
    expect(found).toEqual([])
  })
})

test('sixteen faults were struck, at every moment', () => {
  expect(faults).toHaveLength(16)
  expect(new Set(all.map(({ moment }) => moment))).toEqual(new Set(everywhere))
  expect(seen.size).toBe(all.length)
  for (const one of all.filter(({ moment, mode }) => moment === 'mid-stream' && mode === 'stream'))
    expect(one.text).not.toBe('')
})

test('nothing is held, what was charged is what the receipts say, and the ledger proves itself', async () => {
  expect((await restingCredits(weir)).held).toBe('0')
  const charged = [...seen.values()].reduce(
    (sum, { receipt }) => sum + (parseUsd(receipt?.charged ?? '0') ?? 0n),
    0n,
  )
  expect(parseUsd((await creditsOf(weir)).total_used)).toBe(charged)
  await expectAudited(weir)
})
