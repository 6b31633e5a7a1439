// Recorded providers behind the gateway, read by Anthropic's official client: what a provider once said arrives as a
// message, whatever protocol it was said in, and what a client says arrives at each in its own words.

import Anthropic from '@anthropic-ai/sdk'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import type { ChatResult } from '../../../src/conversation/event.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../../src/conversation/usage.ts'
import { parseUsd } from '../../../src/credits/money.ts'
import { expectAudited, receiptOf, restingCredits, failure } from '../../support/call-gateway.ts'
import { type Case, cases, framesOf } from '../../support/recordings.ts'
import {
  everyBytes,
  type Replay,
  replayOf,
  type ReplayServer,
  startReplayServer,
} from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { recordedAnswer, recordedConfig } from './recorded-gateway.ts'

const folders = [
  { folder: 'anthropic', provider: 'anthropic', protocol: 'anthropic-messages' },
  { folder: 'openai-chat', provider: 'recorded-openai', protocol: 'openai-chat' },
  { folder: 'openai-responses', provider: 'recorded-responses', protocol: 'openai-responses' },
  { folder: 'gemini', provider: 'gemini', protocol: 'gemini' },
  { folder: 'deepseek', provider: 'recorded-deepseek', protocol: 'openai-chat' },
] as const

let playing: Case
/** What is answered in its place. */
let instead: Replay | undefined
let replay: ReplayServer
/** The smallest PNG, and a server in the operator's own network that has it. */
const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
let pictures: ReturnType<typeof Bun.serve>
let weir: ServedWeir
let client: Anthropic

beforeAll(async () => {
  replay = startReplayServer(() => instead ?? replayOf(playing), everyBytes(211))
  pictures = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => new Response(Buffer.from(pixel, 'base64'), { headers: { 'content-type': 'image/png' } }),
  })
  weir = await serveWeir({
    config: recordedConfig(folders, replay.url, { egress: { allow_hosts: [`127.0.0.1:${pictures.port}`] } }),
  })
  client = new Anthropic({ apiKey: weir.key, authToken: null, baseURL: weir.origin, maxRetries: 0 })
}, 30_000)

afterEach(() => {
  instead = undefined
})

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
  await pictures?.stop(true)
})

const named = (folder: string, id: string) => cases(folder).find((one) => one.id.includes(id))!

const request = (model: string) => ({
  model,
  max_tokens: 4096,
  messages: [{ role: 'user' as const, content: 'As it was recorded.' }],
})

type Priced = Anthropic.Usage & { readonly cost: number; readonly cost_details: Record<string, string> }

/** Asks, streamed or whole as it was recorded; the message, or what the client threw. */
async function read(recorded: Case, model: string): Promise<Anthropic.Message | Error> {
  playing = recorded
  try {
    if (!recorded.streamed) return await client.messages.create(request(model))
    const stream = client.messages.stream(request(model))
    let last = {}
    stream.on('streamEvent', (event) => {
      if (event.type === 'message_delta') last = event.usage
    })
    const message = await stream.finalMessage()
    // The client's own account of a stream leaves out what it does not know, the cost.
    return { ...message, usage: { ...message.usage, ...last } }
  } catch (error) {
    return error as Error
  }
}

function textOf(message: Anthropic.Message): string {
  return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
}

describe.each(folders)('$folder', ({ folder, provider, protocol }) => {
  const answered = cases(folder)
    .filter(({ status }) => status === 200)
    .map((recorded) => [recorded.id, recorded] as const)

  test.each(answered)('answers %s', async (_, recorded) => {
    const expected = recordedAnswer(recorded, protocol)
    const message = await read(recorded, `${provider}/recorded`)
    if (expected.fault) {
      expect(message).toBeInstanceOf(Anthropic.APIError)
      return
    }
    if (message instanceof Error) throw message
    const [choice] = expected.choices
    expect(message.model as string).toBe(`${provider}/recorded`)
    expect(textOf(message)).toBe((choice?.text ?? '') + (choice?.refusal ?? ''))
    const calls = message.content.filter((block) => block.type === 'tool_use')
    expect(calls.map(({ name, input }) => [name, input])).toEqual(
      (choice?.toolCalls ?? []).map((call) => [call.name, JSON.parse(call.arguments)]),
    )
    if (choice?.finish === 'tool_calls') expect(message.stop_reason).toBe('tool_use')
    if (choice?.finish === 'length') expect(message.stop_reason).toBe('max_tokens')
    expectCounted(message.usage as Priced, expected)
  })
})

/** The counters are the recording's, and the parts of the cost are its total, to the picodollar. */
function expectCounted(usage: Priced, { usage: counted }: ChatResult): void {
  const { total, ...parts } = usage.cost_details
  const sum = Object.values(parts).reduce((amount, part) => amount + parseUsd(part)!, 0n)
  expect(sum).toBe(parseUsd(total!)!)
  expect(usage.cost).toBeCloseTo(Number(total), 12)
  if (counted === undefined) return
  expect(sum > 0n).toBe(promptTokens(counted) + completionTokens(counted) > 0)
  // Anthropic counts rounds of its own, as for a compaction, beside the last one.
  const rounds = (usage as { iterations?: readonly Counters[] | null }).iterations
  const all = rounds && rounds.length > 0 ? rounds : [usage]
  expect(all.reduce((tokens, round) => tokens + promptOf(round), 0)).toBe(promptTokens(counted))
  expect(all.reduce((tokens, round) => tokens + round.output_tokens, 0)).toBe(completionTokens(counted))
}

type Counters = Pick<
  Anthropic.Usage,
  'input_tokens' | 'output_tokens' | 'cache_read_input_tokens' | 'cache_creation_input_tokens'
>

function promptOf(usage: Counters): number {
  return usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0)
}

describe('cached tokens', () => {
  test('are told and charged by what became of them, and the receipt says so', async () => {
    const recorded = named('anthropic', 'ddteab829')
    const message = await read(recorded, 'anthropic/recorded')
    if (message instanceof Error) throw message
    const usage = message.usage as Priced
    const { usage: counted } = recordedAnswer(recorded, 'anthropic-messages')
    expect(usage.cache_creation_input_tokens).toBe(counted!.cacheWrite5m + counted!.cacheWrite1h)
    expect(usage.cache_creation_input_tokens).toBeGreaterThan(0)
    // The message keeps the id that Anthropic gave it, and the receipt is found by that, too.
    const receipt = (await receiptOf(weir, message.id))!
    const lines = Object.fromEntries(receipt.lines.map(({ item, quantity }) => [item, quantity]))
    expect(lines['cache_write_5m']).toBe(counted!.cacheWrite5m)
    const amounts = receipt.lines.map(({ quantity, rate, amount }) => {
      expect(BigInt(quantity) * parseUsd(rate)!).toBe(parseUsd(amount)!)
      return parseUsd(amount)!
    })
    expect(amounts.reduce((a, b) => a + b, 0n)).toBe(parseUsd(receipt.total)!)
    expect(usage.cost_details['total']).toBe(receipt.total)
  })
})

describe('thinking', () => {
  test('of Claude goes back byte for byte, with its signature, as the recorded client sent it', async () => {
    // Two steps of one recorded tool loop: the answer of the first is in the request of the second.
    const [first, second] = ['btjdd47d3', 'btjcf3b7c'].map((id) => named('anthropic', id))
    playing = first!
    const { messages, ...rest } = first!.request as unknown as Anthropic.MessageStreamParams
    const asked = { ...rest, model: 'anthropic/recorded' }
    const message = await client.messages.stream({ ...asked, messages }).finalMessage()
    expect(message.content.map(({ type }) => type)).toContain('thinking')

    playing = second!
    const next = second!.request!['messages'] as unknown as Anthropic.MessageParam[]
    await client.messages
      .stream({
        ...asked,
        messages: [...messages, { role: 'assistant', content: message.content }, next.at(-1)!],
      })
      .finalMessage()
    const sent = replay.requests.at(-1)!.json as { messages: JsonObject[] }
    const returned = sent.messages[messages.length]!
    expect(returned as unknown).toEqual({ role: 'assistant', content: message.content })
    const thoughtOf = ({ content }: JsonObject | Anthropic.MessageParam) =>
      (content as JsonObject[]).find(({ type }) => type === 'thinking')
    expect(JSON.stringify(thoughtOf(next[messages.length]!))).toContain('signature')
    expect(thoughtOf(returned)).toEqual(thoughtOf(next[messages.length]!))
  })

  test('of another model comes back to it as it was, and is not shown to Claude', async () => {
    const recorded = cases('deepseek').find(
      (one) => one.streamed && (recordedAnswer(one, 'openai-chat').choices[0]?.reasoning.length ?? 0) > 0,
    )!
    const message = await read(recorded, 'recorded-deepseek/recorded')
    if (message instanceof Error) throw message
    const thought = message.content.find((block) => block.type === 'thinking')!
    expect(thought.thinking).toBe(recordedAnswer(recorded, 'openai-chat').choices[0]!.reasoning[0]!.text!)

    playing = named('anthropic', 'elm48ae30')
    await client.messages.create({
      ...request('anthropic/recorded'),
      messages: [
        { role: 'user', content: 'Think.' },
        { role: 'assistant', content: [thought, { type: 'text', text: 'I did.' }] },
        { role: 'user', content: 'And now?' },
      ],
    })
    expect(JSON.stringify(replay.requests.at(-1)!.json)).not.toContain('weir.')
  })
})

describe('between a client of Anthropic and Anthropic', () => {
  /** The recorded body with what only Anthropic reads: its blocks go on although nobody here has a word for them. */
  const native = {
    ...request('anthropic/recorded'),
    context_management: { edits: [] },
    messages: [
      {
        role: 'user',
        content: [
          {
            type: 'document',
            source: { type: 'text', media_type: 'text/plain', data: 'The river.' },
            citations: { enabled: true },
            context: 'From an atlas.',
          },
          { type: 'text', text: 'Cite it.' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: { query: 'river' } },
          { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [] },
          { type: 'text', text: 'Here.' },
        ],
      },
      { role: 'user', content: 'Again.' },
    ],
    tools: [
      { name: 'lookup', input_schema: { type: 'object' }, eager_input_streaming: true },
      { type: 'memory_20250818', name: 'memory' },
    ],
  }
  const send = async (body: object) => {
    const response = await fetch(`${weir.baseUrl}/messages`, {
      method: 'POST',
      headers: { 'x-api-key': weir.key, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { response, seen: replay.requests.at(-1)!.json as JsonObject }
  }
  const ours = {
    max_cost: '1',
    provider: { allow_fallbacks: false },
    session_id: 's',
    on_disconnect: 'cancel',
  }

  test('a request goes on with every field it has but those of the gateway', async () => {
    playing = named('anthropic', 'elm48ae30')
    const { response, seen } = await send({ ...native, ...ours })
    expect(response.status).toBe(200)
    expect(response.headers.get('x-weir-warnings')).toBeNull()
    expect(seen).toEqual({ ...native, model: 'recorded' } as unknown as JsonObject)
  })

  test('a field that nobody here knows stays behind, and all the others go on', async () => {
    playing = named('anthropic', 'elm48ae30')
    const { response, seen } = await send({ ...native, mystery: { of: 'tomorrow' }, container: 'c_1' })
    expect(response.headers.get('x-weir-warnings')).toContain('mystery')
    expect(response.headers.get('x-weir-warnings')).toContain('container')
    expect(seen).toEqual({ ...native, model: 'recorded' } as unknown as JsonObject)
    const strict = await send({ ...native, mystery: { of: 'tomorrow' }, strict: true })
    expect(strict.response.status).toBe(400)
  })

  test('a request whose output the gateway bounds goes on with that bound', async () => {
    playing = named('anthropic', 'elm48ae30')
    const { response, seen } = await send({ ...request('anthropic/recorded'), max_cost: '0.01' })
    expect(response.status).toBe(200)
    expect(seen['max_tokens']).toBeWithin(1, 1_000)
  })

  test('an image at an address that Anthropic does not read is fetched for it', async () => {
    playing = named('anthropic', 'elm48ae30')
    const url = `http://127.0.0.1:${pictures.port}/x.png`
    const image = { type: 'image', source: { type: 'url', url } }
    const { response, seen } = await send({
      ...request('anthropic/recorded'),
      messages: [{ role: 'user', content: [image] }],
    })
    expect(response.status).toBe(200)
    expect(JSON.stringify(seen)).toContain(pixel)
    expect(JSON.stringify(seen)).not.toContain('127.0.0.1')
  })

  test.each([
    ['would make the call dearer', { speed: 'fast' }, 'speed'],
    [
      'was made by another model',
      { thinking: 'weir.eyJ0eXBlIjoicmVhc29uaW5nLnRleHQiLCJmb3JtYXQiOm51bGx9' },
      undefined,
    ],
    ['another provider named', { id: 'call:1' }, undefined],
  ])('what %s does not go on', async (_, odd, warned) => {
    playing = named('anthropic', 'elm48ae30')
    const turn = [
      ...('thinking' in odd ? [{ type: 'thinking', thinking: 'Hm.', signature: odd.thinking }] : []),
      { type: 'tool_use', id: 'id' in odd ? odd.id : 'call_1', name: 'lookup', input: {} },
    ]
    const results = [{ type: 'tool_result', tool_use_id: 'id' in odd ? odd.id : 'call_1', content: 'x' }]
    const { response, seen } = await send({
      ...request('anthropic/recorded'),
      ...('speed' in odd ? odd : {}),
      messages: [
        { role: 'user', content: 'x' },
        { role: 'assistant', content: turn },
        { role: 'user', content: results },
      ],
    })
    expect(response.status).toBe(200)
    const sent = JSON.stringify(seen)
    for (const value of Object.values(odd)) expect(sent).not.toContain(JSON.stringify(value))
    if (warned !== undefined) expect(response.headers.get('x-weir-warnings')).toContain(warned)
  })

  test.each(
    cases('anthropic')
      .filter((one) => one.status === 200 && one.streamed)
      .map((one) => [one.id, one] as const),
  )(
    'the events of %s come as they were sent, but for the name of the model and the cost',
    async (_, recorded) => {
      playing = recorded
      const { response } = await send({ ...request('anthropic/recorded'), stream: true })
      const came = framesOf([await response.bytes()])
      const went = framesOf([recorded.stream()])
      expect(came.map(({ event }) => event)).toEqual(went.map(({ event }) => event))
      const plain = ({ data }: { data: string }) => {
        const event = JSON.parse(data) as JsonObject & { message?: JsonObject; usage?: JsonObject }
        if (event.message) delete event.message['model']
        const { cost: _cost, cost_details: _details, ...usage } = event.usage ?? {}
        return { ...event, usage }
      }
      expect(came.map(plain)).toEqual(went.map(plain))
    },
  )

  test.each(
    cases('anthropic')
      .filter((one) => one.status === 200 && !one.streamed)
      .map((one) => [one.id, one] as const),
  )('%s comes as it was sent, but for the name of the model and the cost', async (_, recorded) => {
    playing = recorded
    const { response } = await send(request('anthropic/recorded'))
    const came = (await response.json()) as JsonObject & { usage: JsonObject }
    const went = recorded.response() as JsonObject
    const { cost, cost_details: _details, ...usage } = came.usage
    expect(cost).toBeGreaterThan(0)
    expect<JsonObject>({ ...came, usage }).toEqual({ ...went, model: 'anthropic/recorded' })
  })
})

describe('a stream of Anthropic', () => {
  const stream = () => client.messages.stream(request('anthropic/recorded'))
  const overloaded =
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Busy"}}\n\n'
  const begun = () => {
    const events = new TextDecoder().decode(replayOf(named('anthropic', 'fan0bebbf')).body).split('\n\n')
    return (
      events
        .slice(
          0,
          events.findLastIndex((event) => event.includes('content_block_delta')),
        )
        .join('\n\n') + '\n\n'
    )
  }
  const sse = (body: string): Replay => ({
    status: 200,
    headers: { 'content-type': 'text/event-stream' },
    body: Buffer.from(body),
  })

  test('that fails before its first word is an error with a status, and costs nothing', async () => {
    instead = sse(overloaded)
    const before = await restingCredits(weir)
    expect(await failure(stream().finalMessage())).toMatchObject({ status: 503, errorCode: 'overloaded' })
    expect(await restingCredits(weir)).toEqual(before)
  })

  test.each([
    ['fails', 'overloaded', () => begun() + overloaded],
    ['breaks off', 'upstream_error', begun],
  ])(
    'that %s after it has begun is an error in the stream, and what came is charged',
    async (_, code, body) => {
      instead = sse(body())
      const before = await restingCredits(weir)
      const words: string[] = []
      const reading = stream().on('streamEvent', ({ type }) => words.push(type))
      expect(await failure(reading.finalMessage())).toMatchObject({ errorCode: code })
      expect(words).toContain('content_block_delta')
      expect(words).not.toContain('message_stop')
      const after = await restingCredits(weir)
      expect(Number(after.total_used)).toBeGreaterThan(Number(before.total_used))
    },
  )

  test('that comes as one document is streamed all the same', async () => {
    instead = replayOf(named('anthropic', 'elm48ae30'))
    const said = named('anthropic', 'elm48ae30').response() as unknown as Anthropic.Message
    expect(textOf(await stream().finalMessage())).toBe(textOf(said))
  })
})

/** Such a request as programs that write code send. */
const largeRequest = (model: string) => ({
  model,
  max_tokens: 16_000,
  system: [
    { type: 'text' as const, text: 'You write code.', cache_control: { type: 'ephemeral' as const } },
    { type: 'text' as const, text: 'x'.repeat(30_000), cache_control: { type: 'ephemeral' as const } },
  ],
  metadata: { user_id: JSON.stringify({ device_id: 'd'.repeat(64), session_id: crypto.randomUUID() }) },
  thinking: { type: 'enabled' as const, budget_tokens: 10_000 },
  context_management: { edits: [{ type: 'clear_thinking_20251015' as const, keep: 'all' as const }] },
  stop_sequences: ['END'],
  tool_choice: { type: 'auto' as const },
  tools: [
    ...Array.from({ length: 12 }, (_, at) => ({
      name: `tool_${at}`,
      description: 'Does something.',
      input_schema: { type: 'object' as const, properties: { path: { type: 'string' } }, required: ['path'] },
      ...(at === 11 ? { cache_control: { type: 'ephemeral' as const } } : {}),
    })),
    { type: 'tool_search_tool_regex_20251119' as const, name: 'tool_search_tool_regex' as const },
  ],
  messages: [
    {
      role: 'user' as const,
      content: [{ type: 'text' as const, text: 'Go.', cache_control: { type: 'ephemeral' as const } }],
    },
  ],
  betas: ['context-management-2025-06-27', 'interleaved-thinking-2025-05-14'],
})

describe('a large request', () => {
  const send = async (model: string, recorded: Case) => {
    playing = recorded
    const { data, response } = await client.beta.messages
      .create(largeRequest(model), { query: { beta: 'true' } })
      .withResponse()
    expect(response.url).toEndWith('/v1/messages?beta=true')
    const seen = replay.requests.at(-1)!
    return {
      data: data as typeof data & { warnings?: { param: string }[] },
      seen,
      json: seen.json as JsonObject,
    }
  }

  test('reaches Anthropic as it is, with its beta features', async () => {
    const { data, seen, json } = await send('anthropic/recorded', named('anthropic', 'elm48ae30'))
    const { betas, model: _, ...asked } = largeRequest('')
    expect(seen.headers.get('anthropic-beta')).toBe(betas.join(','))
    expect(seen.headers.get('anthropic-version')).toBe('2023-06-01')
    expect(seen.headers.get('x-api-key')).toBe('recorded-provider-key-1')
    expect(json).toEqual({
      ...asked,
      model: 'recorded',
      metadata: expect.anything(),
    } as unknown as JsonObject)
    expect(data.warnings).toBeUndefined()
  })

  test.each([
    ['recorded-openai', 'openai-chat'],
    ['recorded-responses', 'openai-responses'],
    ['gemini', 'gemini'],
  ])(
    'reaches %s without anything that it would refuse, and is told what was left out',
    async (provider, folder) => {
      const recorded = cases(folder).find(
        (one) => !one.streamed && one.status === 200 && one.id.startsWith('json-text'),
      )!
      const { data, seen, json } = await send(`${provider}/recorded`, recorded)
      expect(seen.headers.get('anthropic-beta')).toBeNull()
      expect(json).not.toContainAnyKeys([
        'betas',
        'context_management',
        'metadata',
        'output_config',
        'stop_sequences',
        'system',
        'thinking',
      ])
      expect(seen.body).not.toContain('cache_control')
      expect(seen.body).not.toContain('tool_search_tool')
      expect(seen.body.match(/"tool_\d+"/g)).toHaveLength(12)
      expect(data.warnings?.map(({ param }) => param)).toContain('context_management')
      expect(data.warnings?.map(({ param }) => param)).toContain('tools')
      expect(data.content.length).toBeGreaterThan(0)
    },
  )

  test('that must be honoured to the letter is refused where it cannot be', async () => {
    const body = { ...largeRequest('recorded-openai/recorded'), strict: true }
    const before = replay.requests.length
    const error = await failure(client.beta.messages.create(body))
    expect(error).toMatchObject({ status: 400, errorCode: 'unsupported_parameter' })
    expect(replay.requests).toHaveLength(before)
  })
})

test('every charge of these answers is in a ledger that proves itself', async () => {
  const { held, total_used } = await restingCredits(weir)
  expect(held).toBe('0')
  expect(parseUsd(total_used)! > 0n).toBe(true)
  await expectAudited(weir)
})
