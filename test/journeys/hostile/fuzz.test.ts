// A slice of fuzzing (G18), seeded and bounded in time: raw requests, bodies, and providers' bytes through the real
// server. Nothing may crash it, no caller's mistake may become a fault of ours, and its memory stays where it is.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { creditsOf, expectAudited, post, restingCredits } from '../../support/call-gateway.ts'
import { rawRequest, sendRaw } from '../../support/raw-http.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import {
  chunk,
  completion,
  delta,
  event,
  lastChunk,
  plain,
  type Script,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
  streamHead,
  usageEvent,
  wholeStream,
} from '../../support/scripted-provider.ts'

/** How long each kind may take, milliseconds; and how many at once. */
const sliceMs = Number(process.env['FUZZ_MS'] ?? 2_000)
const abreast = 8
/** FUZZ_SEED has another run, FUZZ_MS a longer one. */
const seed = Number(process.env['FUZZ_SEED'] ?? 20_261_121)

/** The same numbers from the same seed, from 0 to below 1. */
function randomFrom(start: number): () => number {
  let state = start >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

class Dice {
  readonly #random: () => number
  constructor(start: number) {
    this.#random = randomFrom(start)
  }
  below(limit: number): number {
    return Math.floor(this.#random() * limit)
  }
  one<T>(of: readonly T[]): T {
    return of[this.below(of.length)]!
  }
}

const splinters = [
  ...`" { } [ ] : , 1e999 -1 null __proto__ 💥 %00 chunked 0 ffffffff`.split(' '),
  '',
  '\0',
  '\r\n',
  '\n\n',
  '\\',
  '\uFEFF',
  '\u2028',
  '\ud800',
  'data: ',
  'data: [DONE]\n\n',
  ': x\n',
  'event: error\n',
  ' ',
  '\t',
  '*'.repeat(3_000),
]

/** The bytes with a few of them changed, lost, doubled, moved, or with something foreign between them. */
function mutated(dice: Dice, original: Uint8Array): Uint8Array {
  let bytes = Buffer.from(original)
  for (let times = 1 + dice.below(4); times > 0; times--) {
    const at = dice.below(bytes.length + 1)
    const end = Math.min(bytes.length, at + 1 + dice.below(30))
    const head = bytes.subarray(0, at)
    switch (dice.below(6)) {
      case 0:
        if (at < bytes.length) bytes[at] = dice.below(256)
        break
      case 1:
        bytes = Buffer.concat([head, bytes.subarray(end)])
        break
      case 2:
        bytes = Buffer.concat([head, bytes.subarray(at, end), bytes.subarray(at)])
        break
      case 3:
        bytes = Buffer.from(head)
        break
      default:
        bytes = Buffer.concat([head, Buffer.from(dice.one(splinters)), bytes.subarray(at)])
    }
  }
  return bytes
}

/** A value of any shape, now and then of an absurd one. */
function anyValue(dice: Dice, depth = 0): unknown {
  const numbers = [0, -1, 1.5, 1e308, 9_007_199_254_740_991]
  const plainValues = [null, true, false, ...numbers, '', 'x', 'user', 'sim/echo', '\0', 'y'.repeat(500)]
  const kind = dice.below(depth > 3 ? 1 : 4)
  if (kind < 2) return dice.one(plainValues)
  const size = dice.below(4)
  if (kind === 2) return Array.from({ length: size }, () => anyValue(dice, depth + 1))
  const names = 'role content type text name function id constructor toString length then url'.split(' ')
  return Object.fromEntries(Array.from({ length: size }, () => [dice.one(names), anyValue(dice, depth + 1)]))
}

const goodBodies: readonly object[] = [
  { model: 'sim/echo', messages: [{ role: 'user', content: 'hi' }], max_tokens: 5 },
  {
    model: 'sim/echo',
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: 'system', content: [{ type: 'text', text: 'be' }] },
      { role: 'user', content: 'hi' },
    ],
  },
  {
    model: 'sim/tools',
    messages: [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'c', content: 'y' },
    ],
    tools: [
      {
        type: 'function',
        function: { name: 'f', parameters: { type: 'object', properties: { a: { type: 'string' } } } },
      },
    ],
    tool_choice: 'auto',
  },
  {
    model: 'sim/json',
    messages: [{ role: 'user', content: 'x' }],
    response_format: {
      type: 'json_schema',
      json_schema: {
        name: 's',
        schema: { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] },
      },
    },
  },
  {
    model: 'sim/reason',
    messages: [
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] },
    ],
    reasoning: { effort: 'low' },
    max_cost: '0.01',
    models: ['sim/echo'],
    provider: { only: ['sim'] },
  },
]

const goodMessages: readonly object[] = [
  { model: 'sim/echo', max_tokens: 5, messages: [{ role: 'user', content: 'hi' }] },
  {
    model: 'sim/tools',
    max_tokens: 2000,
    stream: true,
    system: [{ type: 'text', text: 'be', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    thinking: { type: 'enabled', budget_tokens: 1024 },
    metadata: { user_id: 'x' },
    output_config: { effort: 'low', format: { type: 'json_schema', schema: { type: 'object' } } },
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AA==' } },
          { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' }, title: 't' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'weir.e30' },
          { type: 'tool_use', id: 'c', name: 'f', input: { a: 1 } },
        ],
      },
      {
        role: 'user',
        content: [{ type: 'tool_result', tool_use_id: 'c', content: [{ type: 'text', text: 'y' }] }],
      },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object', properties: {} } }],
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  },
]

/** One place in a good body holds something else, or is gone. */
function misshapen(dice: Dice, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || dice.below(5) === 0) return anyValue(dice)
  const keys = Object.keys(value)
  if (keys.length === 0) return anyValue(dice)
  const chosen = dice.one(keys)
  const copy = structuredClone(value) as Record<string, unknown>
  if (dice.below(6) === 0) delete copy[chosen]
  else copy[chosen] = misshapen(dice, copy[chosen])
  return copy
}

/** Streams and whole answers that the providers' bytes are mutated from. */
const goodStreams: readonly string[] = [
  wholeStream,
  delta({ role: 'assistant', content: '' }) +
    delta({
      tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'f', arguments: '' } }],
    }) +
    delta({ tool_calls: [{ index: 0, function: { arguments: '{"a":1}' } }] }) +
    delta({}, 'tool_calls') +
    usageEvent(someUsage) +
    'data: [DONE]\n\n',
  delta({ reasoning_content: 'hm ' }) +
    delta({ reasoning_content: 'so' }) +
    delta({ content: 'yes' }, 'stop') +
    usageEvent({ ...someUsage, completion_tokens_details: { reasoning_tokens: 3 } }),
  event({ error: { message: 'no', code: 429 } }) + wholeStream,
]

const said = (event: { type: string; [field: string]: unknown }) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
const goodEvents = [
  { type: 'message_start', message: { id: 'msg_1', model: 'm', content: [], usage: { input_tokens: 9 } } },
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'The river.' } },
  { type: 'content_block_stop', index: 0 },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } },
  { type: 'message_stop' },
]
  .map(said)
  .join('')

let provider: ScriptedProvider
let weir: RunningWeir

beforeAll(async () => {
  const dice = new Dice(seed + 3)
  const streamOf =
    (good: readonly string[]): Script =>
    async (wire) => {
      const bytes = mutated(dice, Buffer.from(dice.one(good)))
      await wire.write(streamHead)
      for (let at = 0; at < bytes.length;) {
        const size = 1 + dice.below(200)
        await wire.write(chunk(bytes.subarray(at, at + size)))
        at += size
      }
      if (dice.below(4) === 0) return wire.reset()
      await wire.write(lastChunk)
      wire.end()
    }
  const whole: Script = async (wire) => {
    await wire.write(
      plain(200, 'application/json', mutated(dice, Buffer.from(completion('The river.', someUsage)))),
    )
    wire.end()
  }
  provider = await startScriptedProvider({
    stream: streamOf(goodStreams),
    events: streamOf([goodEvents]),
    whole,
  })
  weir = await startWeir({
    config: `
local_servers: { discover: false }
limits: { attempts: 1 }
timeouts: { first_byte_ms: 2000, first_byte_reasoning_ms: 2000, gap_ms: 2000 }
providers:
  lab: { protocol: openai-chat, base_url: "${provider.url}", api_key: x }
  anthropic: { base_url: "${provider.url}", api_key: x }
models:
  - { id: anthropic/events, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
  - { id: lab/stream, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
  - { id: lab/whole, price: { input: "1", output: "2" }, max_output_tokens: 1000 }
`,
  })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

/** Does it again and again, several at once, until the time is over. Gives how often. */
async function forAWhile(attempt: (round: number) => Promise<void>): Promise<number> {
  const until = performance.now() + sliceMs
  let rounds = 0
  const lane = async () => {
    while (performance.now() < until) await attempt(rounds++)
  }
  await Promise.all(Array.from({ length: abreast }, lane))
  return rounds
}

const slice = { timeout: sliceMs + 20_000 }

describe(`fuzzing with the seed ${seed} (G18)`, () => {
  test('raw requests: each is answered or hung up on, none is a fault of ours', slice, async () => {
    const dice = new Dice(seed + 1)
    const text = JSON.stringify(goodBodies[0])
    const good = [
      rawRequest(
        'POST /v1/chat/completions HTTP/1.1',
        [
          ['Host', 'a'],
          ['Authorization', `Bearer ${weir.key}`],
          ['Content-Type', 'application/json'],
          ['Content-Length', String(text.length)],
        ],
        text,
      ),
      rawRequest(
        'POST /v1/chat/completions HTTP/1.1',
        [
          ['Host', 'a'],
          ['Authorization', `Bearer ${weir.key}`],
          ['Transfer-Encoding', 'chunked'],
        ],
        `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`,
      ),
      rawRequest('GET /v1/models/sim/echo?q=x HTTP/1.1', [
        ['Host', 'a'],
        ['If-None-Match', '"x"'],
      ]),
      rawRequest('GET /v1/generation?id=x HTTP/1.1', [
        ['Host', 'a'],
        ['Authorization', `Bearer ${weir.key}`],
      ]),
    ]
    const rounds = await forAWhile(async () => {
      const request = mutated(dice, Buffer.from(dice.one(good)))
      // A request that lost its end is not answered until the connection is given up: it is not waited for.
      const { status } = await sendRaw(weir.port, request, 50)
      if (status >= 500 && status !== 505)
        throw new Error(`${status} for ${JSON.stringify(Buffer.from(request).toString('latin1'))}`)
    })
    expect(rounds).toBeGreaterThan(100)
  })

  test.each([
    ['chat', goodBodies, ['/chat/completions']],
    ['messages', goodMessages, ['/messages/count_tokens', '/messages', '/messages', '/messages']],
  ] as const)(
    'bodies of %s: each is served or refused as its sender’s mistake',
    async (_, good, paths) => {
      const dice = new Dice(seed + 2)
      const rounds = await forAWhile(async (round) => {
        const shaped = JSON.stringify(misshapen(dice, dice.one<object>(good))) ?? ''
        const body = dice.below(3) === 0 ? mutated(dice, Buffer.from(shaped)) : shaped
        const answer = await post(weir, body, { path: paths[round % paths.length]! })
        const fault = answer.status >= 500 || answer.broken || answer.error?.code === 'internal_error'
        // A model that has no key here is the caller's to choose.
        if (fault && answer.error?.code !== 'no_provider_available')
          throw new Error(`${answer.status} ${answer.error?.code} for ${Buffer.from(body).toString()}`)
      })
      expect(rounds).toBeGreaterThan(100)
    },
    slice.timeout,
  )

  test(
    'providers’ bytes: each answer ends once, as an answer or as an error, and nothing stays held',
    slice,
    async () => {
      const before = await residentMegabytes()
      const rounds = await forAWhile(async (round) => {
        const stream = round % 3 !== 0
        const answer = await post(weir, {
          model: stream ? 'lab/stream' : 'lab/whole',
          stream,
          messages: [{ role: 'user', content: 'x' }],
          max_tokens: 50,
        })
        if (answer.broken || answer.status === 500 || answer.error?.code === 'internal_error')
          throw new Error(answer.text)
        if (answer.status !== 200 || !stream) return
        const dones = answer.events.filter((data) => data === '[DONE]').length
        if (dones !== 1 || answer.events.at(-1) !== '[DONE]')
          throw new Error(`ends ${dones} times: ${answer.text}`)
        if (answer.finishes.length !== 1)
          throw new Error(`finishes as ${answer.finishes.join()}: ${answer.text}`)
      })
      expect(rounds).toBeGreaterThan(100)
      expect(await restingCredits(weir)).toMatchObject({ held: '0', debt: '0' })
      expect((await residentMegabytes()) - before).toBeLessThan(150)
    },
  )

  test('Anthropic’s bytes: each answer ends once, as a message or as an error', slice, async () => {
    const rounds = await forAWhile(async () => {
      const body = { model: 'anthropic/events', stream: true, messages: [{ role: 'user', content: 'x' }] }
      const answer = await post(weir, { ...body, max_tokens: 50 }, { path: '/messages' })
      if (answer.broken || answer.status === 500 || answer.error?.code === 'internal_error')
        throw new Error(answer.text)
      if (answer.status !== 200) return
      const types = answer.events.map((data) => (JSON.parse(data) as { type: string }).type)
      const ends = types.filter((type) => type === 'message_stop' || type === 'error')
      if (ends.length !== 1 || types.at(-1) !== ends[0])
        throw new Error(`ends ${ends.length} times: ${answer.text}`)
    })
    expect(rounds).toBeGreaterThan(100)
    expect(await restingCredits(weir)).toMatchObject({ held: '0', debt: '0' })
  })

  test('leaves the gateway as it was', async () => {
    expect((await post(weir, goodBodies[0])).content).toBe('hi')
    expect((await creditsOf(weir)).held).toBe('0')
    expect(weir.output()).not.toContain('failed inside the gateway')
    await expectAudited(weir)
  })
})

async function residentMegabytes(): Promise<number> {
  const status = await Bun.file(`/proc/${weir.pid}/status`).text()
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
