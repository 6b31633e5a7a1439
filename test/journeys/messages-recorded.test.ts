// Recorded providers behind the gateway, read by Anthropic's official client: what a provider once said arrives as a
// message, whatever protocol it was said in, and what a client says arrives at each in its own words.

import Anthropic from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { collect, type ChatResult } from '../../src/conversation/event.ts'
import type { JsonObject } from '../../src/conversation/request.ts'
import { completionTokens, promptTokens } from '../../src/conversation/usage.ts'
import { parseUsd } from '../../src/credits/money.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { expectAudited, receiptOf, restingCredits } from '../support/call-gateway.ts'
import { type Case, cases, framesOf, parseFrames } from '../support/recordings.ts'
import { everyBytes, replayOf, type ReplayServer, startReplayServer } from '../support/replay-server.ts'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'

const folders = [
  { folder: 'anthropic', provider: 'anthropic', protocol: 'anthropic-messages' },
  { folder: 'openai-chat', provider: 'recorded-openai', protocol: 'openai-chat' },
  { folder: 'openai-responses', provider: 'recorded-responses', protocol: 'openai-responses' },
  { folder: 'gemini', provider: 'gemini', protocol: 'gemini' },
  { folder: 'deepseek', provider: 'recorded-deepseek', protocol: 'openai-chat' },
] as const

let playing: Case
let replay: ReplayServer
let weir: RunningWeir
let client: Anthropic

beforeAll(async () => {
  replay = startReplayServer(() => replayOf(playing), everyBytes(211))
  const price = { input: '3', cache_read: '0.3', cache_write: '3.75', cache_write_1h: '6', output: '15' }
  weir = await startWeir({
    // JSON is YAML.
    config: JSON.stringify({
      local_servers: { discover: false },
      providers: Object.fromEntries(
        folders.map(({ provider, protocol }) => [
          provider,
          { protocol, base_url: replay.url, api_key: 'recorded-provider-key-1' },
        ]),
      ),
      models: folders.map(({ provider }) => ({ id: `${provider}/recorded`, upstream: 'recorded', price })),
    }),
  })
  client = new Anthropic({ apiKey: weir.key, authToken: null, baseURL: weir.origin, maxRetries: 0 })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
})

const named = (folder: string, id: string) => cases(folder).find((one) => one.id.includes(id))!

/** What the recording says, read by the protocol itself. */
function said(recorded: Case, protocol: (typeof folders)[number]['protocol']): ChatResult {
  const outbound = outbounds[protocol]!
  const target: Target = {
    model: 'recorded',
    provider: 'any',
    quirks: outbound.defaultQuirks,
    maxOutputTokens: undefined,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  if (!recorded.streamed) return collect(outbound.whole(recorded.response(), target))
  const body = recorded.stream()
  // Gemini asked without `alt=sse` streams one JSON array.
  const text = new TextDecoder().decode(body)
  if (text.trimStart().startsWith('[')) return collect(outbound.whole(JSON.parse(text), target))
  return collect(parseFrames(outbound.parser(target), framesOf([body])))
}

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
    if (recorded.streamed) return await client.messages.stream(request(model)).finalMessage()
    return await client.messages.create(request(model))
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
    const expected = said(recorded, protocol)
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
  const prompt =
    usage.input_tokens + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0)
  expect(prompt).toBe(promptTokens(counted))
  expect(usage.output_tokens).toBe(completionTokens(counted))
}

describe('cached tokens', () => {
  test('are told and charged by what became of them, and the receipt says so', async () => {
    const recorded = named('anthropic', 'ddteab829')
    playing = recorded
    const { data: stream, response } = await client.messages
      .create({ ...request('anthropic/recorded'), stream: true })
      .withResponse()
    let usage: Priced | undefined
    for await (const event of stream) if (event.type === 'message_delta') usage = event.usage as Priced
    const { usage: counted } = said(recorded, 'anthropic-messages')
    expect(usage!.cache_creation_input_tokens).toBe(counted!.cacheWrite5m + counted!.cacheWrite1h)
    expect(usage!.cache_creation_input_tokens).toBeGreaterThan(0)
    const receipt = (await receiptOf(weir, response.headers.get('request-id')!))!
    const lines = Object.fromEntries(receipt.lines.map(({ item, quantity }) => [item, quantity]))
    expect(lines['cache_write_5m']).toBe(counted!.cacheWrite5m)
    const amounts = receipt.lines.map(({ quantity, rate, amount }) => {
      expect(BigInt(quantity) * parseUsd(rate)!).toBe(parseUsd(amount)!)
      return parseUsd(amount)!
    })
    expect(amounts.reduce((a, b) => a + b, 0n)).toBe(parseUsd(receipt.total)!)
    expect(usage!.cost_details['total']).toBe(receipt.total)
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
    expect(sent.messages[messages.length] as unknown).toEqual(next[messages.length])
  })

  test('of another model comes back to it as it was, and is not shown to Claude', async () => {
    const recorded = cases('deepseek').find(
      (one) => one.streamed && (said(one, 'openai-chat').choices[0]?.reasoning.length ?? 0) > 0,
    )!
    const message = await read(recorded, 'recorded-deepseek/recorded')
    if (message instanceof Error) throw message
    const thought = message.content.find((block) => block.type === 'thinking')!
    expect(thought.thinking).toBe(said(recorded, 'openai-chat').choices[0]!.reasoning[0]!.text!)

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

/** Such a request as coding agents send. */
const agentRequest = (model: string) => ({
  model,
  max_tokens: 16_000,
  system: [
    { type: 'text' as const, text: 'You are an agent.', cache_control: { type: 'ephemeral' as const } },
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
    { type: 'bash_20250124' as const, name: 'bash' as const },
  ],
  messages: [
    {
      role: 'user' as const,
      content: [{ type: 'text' as const, text: 'Go.', cache_control: { type: 'ephemeral' as const } }],
    },
  ],
  betas: ['context-management-2025-06-27', 'interleaved-thinking-2025-05-14'],
})

describe("an agent's request", () => {
  const send = async (model: string, recorded: Case) => {
    playing = recorded
    const { data, response } = await client.beta.messages
      .create(agentRequest(model), { query: { beta: 'true' } })
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
    const { betas, model: _, ...asked } = agentRequest('')
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
      expect(seen.body).not.toContain('bash_20250124')
      expect(seen.body.match(/"tool_\d+"/g)).toHaveLength(12)
      expect(data.warnings?.map(({ param }) => param)).toContain('context_management')
      expect(data.warnings?.map(({ param }) => param)).toContain('tools')
      expect(data.content.length).toBeGreaterThan(0)
    },
  )

  test('that must be honoured to the letter is refused where it cannot be', async () => {
    const body = { ...agentRequest('recorded-openai/recorded'), strict: true }
    const before = replay.requests.length
    const error = await client.beta.messages.create(body).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
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
