// A developer points Anthropic's official client at a gateway fresh from its first run, and it works as at Anthropic,
// with models that speak other protocols. The models are the simulator's.

import Anthropic, { type ClientOptions } from '@anthropic-ai/sdk'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseUsd } from '../../../src/credits/money.ts'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import {
  accountWith,
  creditsOf,
  expectAudited,
  receiptOf,
  restingCredits,
  failure,
} from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: Anthropic

beforeAll(async () => {
  weir = await serveWeir({ config: 'rate_limits: { account_requests_per_minute: 100000 }' })
  client = clientWith({ apiKey: weir.key })
}, 30_000)

afterAll(() => weir?.stop())

function clientWith(options: ClientOptions, maxRetries = 0, onRequest = () => {}): Anthropic {
  const counting = (url: string | URL | Request, init?: RequestInit) => {
    onRequest()
    return fetch(url, init)
  }
  const none = { apiKey: null, authToken: null }
  return new Anthropic({ ...none, ...options, baseURL: weir.origin, maxRetries, fetch: counting })
}

const ask = (model: string, content: string, max_tokens = 1024) => ({
  model,
  max_tokens,
  messages: [{ role: 'user' as const, content }],
})

const tool = (name: string) => ({
  name,
  description: `Tells the ${name}.`,
  input_schema: { type: 'object' as const, properties: { city: { type: 'string' } }, required: ['city'] },
})

interface Priced {
  readonly cost: number
  readonly cost_details: Readonly<Record<string, string>>
}

/** The receipt's lines are quantity × rate, their sum is the total, and that is what the answer and the ledger say. */
function expectAddsUp(receipt: Receipt | undefined, usage: Anthropic.Usage): void {
  const { cost, cost_details } = usage as Anthropic.Usage & Priced
  const amounts = receipt!.lines.map(({ quantity, rate, amount }) => {
    expect(BigInt(quantity) * parseUsd(rate)!).toBe(parseUsd(amount)!)
    return parseUsd(amount)!
  })
  const total = amounts.reduce((sum, amount) => sum + amount, 0n)
  expect(total).toBe(parseUsd(receipt!.total)!)
  expect(total).toBe(parseUsd(cost_details['total']!)!)
  expect(receipt!.charged).toBe(receipt!.total)
  expect(cost).toBeCloseTo(Number(receipt!.total), 12)
  expect(usage.input_tokens + usage.output_tokens).toBe(
    receipt!.usage!.prompt_tokens + receipt!.usage!.completion_tokens,
  )
}

describe('models', () => {
  test('are listed page by page, each as the client knows models', async () => {
    const listed: Anthropic.ModelInfo[] = []
    for await (const model of client.models.list({ limit: 300 })) listed.push(model)
    const { data } = (await (await fetch(`${weir.baseUrl}/models`)).json()) as { data: { id: string }[] }
    expect(listed.map(({ id }) => id)).toEqual(data.map(({ id }) => id))
    expect(listed.length).toBeGreaterThan(300)
    expect(listed.find(({ id }) => id === 'sim/echo')).toEqual({
      id: 'sim/echo',
      type: 'model',
      display_name: 'Echo',
      created_at: expect.stringMatching(/^20\d\d-\d\d-\d\dT00:00:00/),
      capabilities: null,
      lifecycle: 'active',
      deprecated_at: null,
      retires_at: null,
      line: null,
      max_input_tokens: 1_000_000,
      max_tokens: 65_536,
    })
  })

  test('come back from a page to the one before it', async () => {
    const first = await client.models.list({ limit: 5 })
    const second = await first.getNextPage()
    expect([first.data.length, second.data.length, second.has_more]).toEqual([5, 5, true])
    const back = await client.models.list({ limit: 3, before_id: second.first_id! })
    expect(back.data).toEqual(first.data.slice(2))
  })

  test('can be looked up, by the bare name where they are Anthropic’s', async () => {
    expect(await client.models.retrieve('sim/echo')).toMatchObject({ id: 'sim/echo', type: 'model' })
    expect(await client.models.retrieve('claude-haiku-4-5')).toMatchObject({
      id: 'anthropic/claude-haiku-4-5',
    })
    expect(await failure(client.models.retrieve('sim/none'))).toBeInstanceOf(Anthropic.NotFoundError)
    const refused = await fetch(`${weir.baseUrl}/models?limit=0`, {
      headers: { 'anthropic-version': '2023-06-01' },
    })
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { type: 'error', error: { param: 'limit' } },
    ])
  })

  test('have the other shape for every other client, also from a cache', async () => {
    const response = await fetch(`${weir.baseUrl}/models/sim/echo`)
    expect(await response.json()).toMatchObject({ object: 'model' })
    expect(response.headers.get('vary')).toContain('anthropic-version')
    // Google's clients get a list of their own at the same address.
    expect(response.headers.get('vary')).toContain('x-goog-api-key')
  })
})

test('the version of October 2026 is served as any other, whole and streamed', async () => {
  for (const stream of [false, true]) {
    const response = await fetch(`${weir.baseUrl}/messages`, {
      method: 'POST',
      headers: {
        'anthropic-version': '2026-10-21',
        'x-api-key': weir.key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({
        model: 'sim/echo',
        max_tokens: 20,
        stream,
        messages: [{ role: 'user', content: 'Hello, river.' }],
      }),
    })
    expect(response.status).toBe(200)
    expect(await response.text()).toContain('river')
  }
})

test('usage has every field that the official types require', async () => {
  // A field that the types gain makes this fail to compile.
  const required: Record<keyof Anthropic.Usage, true> = {
    cache_creation: true,
    cache_creation_input_tokens: true,
    cache_read_input_tokens: true,
    inference_geo: true,
    input_tokens: true,
    output_tokens: true,
    output_tokens_details: true,
    server_tool_use: true,
    service_tier: true,
    speed: true,
  }
  const { usage } = await client.messages.create(ask('sim/echo', 'Hi'))
  expect(Object.keys(usage)).toEqual(expect.arrayContaining(Object.keys(required)))
  expect(usage.server_tool_use).toEqual({ web_fetch_requests: 0, web_search_requests: 0 })
})

test('the beta name of a JSON schema is understood', async () => {
  const schema = {
    type: 'object',
    properties: { city: { type: 'string' } },
    required: ['city'],
    additionalProperties: false,
  }
  const { content } = await client.beta.messages.create({
    ...ask('sim/json', 'Where?'),
    output_format: { type: 'json_schema', schema },
  } as Anthropic.Beta.Messages.MessageCreateParamsNonStreaming)
  const [block] = content
  expect(JSON.parse(block?.type === 'text' ? block.text : '')).toEqual({ city: expect.any(String) })
})

describe('an answer', () => {
  test('comes with its cost, which is what the account is charged, and its receipt can be re-added', async () => {
    const before = await restingCredits(weir)
    const { data, response } = await client.messages
      .create(ask('sim/echo', 'The river runs to the sea.'))
      .withResponse()
    expect(data).toMatchObject({
      type: 'message',
      role: 'assistant',
      model: 'sim/echo',
      content: [{ type: 'text', text: 'The river runs to the sea.' }],
      stop_reason: 'end_turn',
      stop_sequence: null,
    })
    const id = response.headers.get('request-id')!
    expect(response.headers.get('x-request-id')).toBe(id)
    expect(response.headers.get('x-weir-provider')).toBe('sim')
    expect(response.headers.get('x-ratelimit-limit-requests')).toBe('100000')
    expectAddsUp(await receiptOf(weir, id), data.usage)
    const after = await creditsOf(weir)
    expect(Number(after.total_used) - Number(before.total_used)).toBeCloseTo(
      (data.usage as Anthropic.Usage & Priced).cost,
      12,
    )
  })

  test('is the same whether it is streamed or whole, thinking included', async () => {
    const request = {
      ...ask('sim/reason', 'Why is the sky blue?', 4096),
      thinking: { type: 'enabled' as const, budget_tokens: 2048 },
    }
    const whole = await client.messages.create(request)
    const stream = client.messages.stream(request)
    const events: string[] = []
    stream.on('streamEvent', ({ type }) => events.push(type))
    const streamed = await stream.finalMessage()
    expect<unknown>(streamed.content).toEqual(whole.content)
    expect(whole.content.map(({ type }) => type)).toEqual(['thinking', 'text'])
    expect(streamed.usage.output_tokens).toBe(whole.usage.output_tokens)
    expect(streamed.stop_reason).toBe('end_turn')
    expect([events.at(0), events.at(-1)]).toEqual(['message_start', 'message_stop'])
    expect(events.filter((type) => type === 'content_block_delta').length).toBeGreaterThan(5)
    expectAddsUp(await receiptOf(weir, streamed.id), whole.usage)
  })

  test('takes its own thinking back on the next turn', async () => {
    const first = await client.messages.create(ask('sim/reason', 'Why?'))
    const next = await client.messages.create({
      ...ask('sim/echo', ''),
      messages: [
        { role: 'user', content: 'Why?' },
        { role: 'assistant', content: first.content },
        { role: 'user', content: 'I see.' },
      ],
    })
    expect(next.content).toEqual([expect.objectContaining({ type: 'text', text: 'I see.' })])
  })

  test('calls tools in parallel, its deltas make the same input, and the loop comes to an end', async () => {
    const tools = [tool('weather'), tool('time')]
    const stream = client.messages.stream({ ...ask('sim/tools', 'Oslo?'), tools })
    const pieces: Record<number, string> = {}
    stream.on('streamEvent', (event) => {
      if (event.type !== 'content_block_delta' || event.delta.type !== 'input_json_delta') return
      pieces[event.index] = (pieces[event.index] ?? '') + event.delta.partial_json
    })
    const message = await stream.finalMessage()
    expect(message.stop_reason).toBe('tool_use')
    const calls = message.content.filter((block) => block.type === 'tool_use')
    expect(calls.map(({ name }) => name)).toEqual(['weather', 'time'])
    expect(Object.values(pieces).map((json) => JSON.parse(json) as unknown)).toEqual(
      calls.map(({ input }) => input),
    )
    const answered = await client.messages.create({
      ...ask('sim/tools', ''),
      tools,
      messages: [
        { role: 'user', content: 'Oslo?' },
        { role: 'assistant', content: message.content },
        {
          role: 'user',
          content: calls.map(({ id }, at) => ({
            type: 'tool_result' as const,
            tool_use_id: id,
            content: `result ${at}`,
          })),
        },
      ],
    })
    expect(answered.content).toEqual([
      expect.objectContaining({ text: 'weather answered: result 0\ntime answered: result 1' }),
    ])
  })

  test('ends where its max_tokens says', async () => {
    const message = await client.messages.create(ask('sim/long', 'On and on.', 12))
    expect(message.stop_reason).toBe('max_tokens')
    expect(message.usage.output_tokens).toBe(12)
  })

  test('that max_cost cuts short says so, streamed or whole', async () => {
    const body = { ...ask('sim/long', 'On and on.', 10_000), max_cost: '0.0001' }
    const whole = (await client.messages.create(body)) as Anthropic.Message & { metadata: object }
    expect(whole.stop_reason).toBe('max_tokens')
    expect(whole.metadata).toEqual({ stopped_by: 'max_cost' })
    const events = await Array.fromAsync(await client.messages.create({ ...body, stream: true }))
    expect(events.find(({ type }) => type === 'message_delta')).toMatchObject({
      metadata: { stopped_by: 'max_cost' },
      delta: { stop_reason: 'max_tokens' },
    })
    expect((whole.usage as Anthropic.Usage & Priced).cost).toBeLessThanOrEqual(0.0001)
  })

  test('that is left in the middle holds no credit and is charged once', async () => {
    const before = await restingCredits(weir)
    const caller = new AbortController()
    const stream = await client.messages.create(
      { ...ask('sim/slow', 'Take your time.'), stream: true },
      { signal: caller.signal },
    )
    let words = 0
    for await (const event of stream) {
      if (event.type === 'content_block_delta' && ++words === 2) caller.abort()
    }
    expect(words).toBeLessThan(20)
    const after = await restingCredits(weir)
    expect(after.held).toBe('0')
    const spent = Number(after.total_used) - Number(before.total_used)
    expect(spent).toBeGreaterThan(0)
    // A whole answer of sim/slow is twenty words at 2 USD per million tokens, besides its prompt.
    expect(spent).toBeLessThan(0.0001)
  })

  test('of any model is free and simulated with a test key', async () => {
    const { key } = await accountWith(weir, 'tester@example.com', {}, '--test')
    const message = await clientWith({ apiKey: key }).messages.create(
      ask('claude-sonnet-4-5', 'Are you there?'),
    )
    expect(message).toMatchObject({
      mode: 'test',
      model: 'anthropic/claude-sonnet-4-5',
      content: [{ text: 'Are you there?' }],
    })
    expect((await creditsOf(weir, key)).total_used).toBe('0')
  })
})

test("the client's own loop of tools goes on without the thread that it asks for first", async () => {
  const asked: string[] = []
  const runner = client.beta.messages.toolRunner({
    ...ask('sim/tools', 'How is the weather?'),
    max_iterations: 3,
    tools: [
      {
        ...tool('weather'),
        type: 'custom',
        parse: (input) => input as { city: string },
        run: ({ city }) => (asked.push(city), Promise.resolve('sunny')),
      },
    ],
  })
  const last = await runner
  expect(asked).toEqual(['sample city'])
  expect(last.content).toMatchObject([{ type: 'text', text: 'weather answered: sunny' }])
})

describe('the key', () => {
  const sent = async (headers: Readonly<Record<string, string>>) => {
    const response = await fetch(`${weir.baseUrl}/messages`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(ask('sim/echo', 'x')),
    })
    const { error } = (await response.json()) as { error?: { code: string } }
    return { status: response.status, code: error?.code }
  }

  test('of a client that knows a bearer only is taken', async () => {
    const { content } = await clientWith({ authToken: weir.key }).messages.create(ask('sim/echo', 'x'))
    expect(content).toHaveLength(1)
  })

  test.each<[string, () => Record<string, string>, number, string | undefined]>([
    ['both headers, alike', () => both(`Bearer ${weir.key}`, weir.key), 200, undefined],
    ['an empty bearer', () => both('Bearer ', weir.key), 200, undefined],
    ['an empty x-api-key', () => both(`Bearer ${weir.key}`, ''), 200, undefined],
    ['another bearer', () => both('Bearer sk-other', weir.key), 400, 'invalid_request'],
    ['another x-api-key', () => both(`Bearer ${weir.key}`, 'sk-other'), 400, 'invalid_request'],
    ['a password', () => both('Basic c2stb3RoZXI=', weir.key), 400, 'invalid_request'],
    ['nothing', () => ({}), 401, 'missing_api_key'],
  ])('with %s', async (_, headers, status, code) => {
    expect(await sent(headers())).toEqual({ status, code })
  })

  const both = (authorization: string, key: string) => ({ authorization, 'x-api-key': key })

  test('of other routes is a bearer only', async () => {
    const response = await fetch(`${weir.baseUrl}/key`, { headers: { 'x-api-key': weir.key } })
    expect(response.status).toBe(401)
  })
})

describe('a request sent twice with one Idempotency-Key', () => {
  test.each(['whole', 'streamed'])('is charged once and answered twice, %s', async (how) => {
    const { key } = await accountWith(weir, `twice-${how}@example.com`, { purchased: '1' })
    const send = (content: string) =>
      fetch(`${weir.baseUrl}/messages`, {
        method: 'POST',
        headers: {
          'x-api-key': key,
          'content-type': 'application/json',
          'idempotency-key': `messages-${how}`,
        },
        body: JSON.stringify({ ...ask('sim/echo', content), stream: how === 'streamed' }),
      })
    const first = await send('Once.')
    const text = await first.text()
    const { total_used } = await restingCredits(weir, key)
    const again = await send('Once.')
    expect(await again.text()).toBe(text)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(again.headers.get('request-id')).toBe(first.headers.get('request-id'))
    expect((await restingCredits(weir, key)).total_used).toBe(total_used)
    const other = await send('Another.')
    expect(other.status).toBe(409)
    expect(await other.json()).toMatchObject({
      type: 'error',
      error: { type: 'invalid_request_error', code: 'idempotency_conflict' },
    })
  })
})

describe('counting tokens', () => {
  test('answers about what the call is then charged for, and costs nothing', async () => {
    const text = 'The river runs from the mountains to the sea. '.repeat(40)
    const before = await restingCredits(weir)
    const { input_tokens } = await client.messages.countTokens({
      model: 'sim/echo',
      messages: [{ role: 'user', content: text }],
    })
    expect(await restingCredits(weir)).toEqual(before)
    const { usage } = await client.messages.create(ask('sim/echo', text))
    expect(Math.abs(input_tokens - usage.input_tokens)).toBeLessThan(0.2 * usage.input_tokens)
  })

  test('counts the system prompt, the tools and what tools answered', async () => {
    const count = async (more: object) =>
      (
        await client.messages.countTokens({
          model: 'sim/echo',
          messages: [{ role: 'user', content: 'x' }],
          ...more,
        })
      ).input_tokens
    const bare = await count({})
    const words = 'one two three four five six seven eight nine ten'
    for (const more of [
      { system: words },
      { system: [{ type: 'text', text: words, cache_control: { type: 'ephemeral' } }] },
      { tools: [{ ...tool('weather'), description: words }] },
      {
        messages: [
          { role: 'user', content: 'x' },
          { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'f', input: { text: words } }] },
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: words }] }],
          },
        ],
      },
    ])
      expect(await count(more)).toBeGreaterThanOrEqual(bare + 10)
  })

  test.each([
    [400, { model: 'sim/echo' }],
    [400, { model: 'sim/embed', messages: [{ role: 'user', content: 'x' }] }],
    [400, { model: 'sim/echo', messages: [{ role: 'user', content: 'x' }], thread: { id: 't' } }],
    [404, { model: 'sim/ecko', messages: [{ role: 'user', content: 'x' }] }],
  ])('is refused with %d for %j', async (status, body) => {
    const error = await failure(client.messages.countTokens(body as Anthropic.MessageCountTokensParams))
    expect(error).toMatchObject({ status, error: { type: 'error' } })
  })
})

describe('a request is tried', () => {
  test.each([
    ['again when it may help', 'sim/error-500', 2],
    ['never when it cannot', 'sim/no-such-model', 1],
  ])('%s', async (_, model, attempts) => {
    let sent = 0
    const patient = clientWith({ apiKey: weir.key }, 1, () => (sent += 1))
    await failure(patient.messages.create(ask(model, 'x')))
    expect(sent).toBe(attempts)
  })
})

test('the ledger proves itself after all of this', async () => {
  await restingCredits(weir)
  await expectAudited(weir)
})
