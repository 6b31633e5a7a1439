// A developer points the official client at a gateway fresh from its first run, and it works as at the provider.
// The models are the simulator's.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodResponseFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import {
  accountWith,
  creditsOf,
  expectAudited,
  failure,
  receiptOf,
  restingCredits,
} from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: OpenAI

beforeAll(async () => {
  weir = await serveWeir()
  client = clientWith(weir.key)
}, 30_000)

afterAll(() => weir?.stop())

/** A client that never retries, unless told to; counts the requests it sends. */
function clientWith(apiKey: string, maxRetries = 0, onRequest = () => {}): OpenAI {
  const counting = (url: string | URL | Request, init?: RequestInit) => {
    onRequest()
    return fetch(url, init)
  }
  return new OpenAI({ apiKey, baseURL: weir.baseUrl, maxRetries, fetch: counting })
}

const say = (content: string) => [{ role: 'user' as const, content }]
const tool = (name: string) => ({
  type: 'function' as const,
  function: {
    name,
    description: `Tells the ${name}.`,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
})

describe('an answer', () => {
  test('comes with its cost, which is what the account is charged and what the receipt says', async () => {
    const before = await restingCredits(weir)
    const { data, response } = await client.chat.completions
      .create({ model: 'sim/echo', messages: say('The river runs to the sea.') })
      .withResponse()
    expect(data.choices[0]?.message).toMatchObject({
      role: 'assistant',
      content: 'The river runs to the sea.',
      refusal: null,
    })
    expect(data.model).toBe('sim/echo')
    const usage = data.usage as OpenAI.CompletionUsage & { cost: number; cost_details: { total: string } }
    expect(usage.total_tokens).toBe(usage.prompt_tokens + usage.completion_tokens)
    expect(usage.cost).toBeGreaterThan(0)
    expect(response.headers.get('x-weir-provider')).toBe('sim')

    const after = await creditsOf(weir)
    expect(Number(after.total_used) - Number(before.total_used)).toBeCloseTo(usage.cost, 12)
    const id = response.headers.get('x-request-id')!
    expect(await receiptOf(weir, id)).toMatchObject({ total: usage.cost_details.total })
  })

  test('streams word by word, and tells the cost at the end when usage is asked for', async () => {
    const stream = await client.chat.completions.create({
      model: 'sim/echo',
      messages: say('one two three'),
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = await Array.fromAsync(stream)
    expect(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '')).toEqual([
      '',
      'one',
      ' two',
      ' three',
      '',
      '',
    ])
    expect(new Set(chunks.map(({ id, model, created }) => `${id} ${model} ${created}`)).size).toBe(1)
    expect(chunks.at(-1)?.choices).toEqual([])
    expect(chunks.at(-1)?.usage).toMatchObject({ completion_tokens: 3, cost: expect.any(Number) })
  })

  test('is the same whether it is streamed or whole', async () => {
    const request = { model: 'sim/reason', messages: say('Why is the sky blue?') }
    const whole = await client.chat.completions.create(request)
    const streamed = await client.chat.completions
      .stream({ ...request, stream_options: { include_usage: true } })
      .finalChatCompletion()
    expect(streamed.choices[0]?.message.content).toBe(whole.choices[0]!.message.content)
    expect(streamed.usage).toEqual(whole.usage!)
    expect(whole.usage?.completion_tokens_details?.reasoning_tokens).toBeGreaterThan(0)
  })

  test('calls tools in parallel, and the loop comes to an end', async () => {
    const stream = client.chat.completions.stream({
      model: 'sim/tools',
      messages: say('Oslo?'),
      tools: [tool('weather'), tool('time')],
    })
    const { choices } = await stream.finalChatCompletion()
    expect(choices[0]?.finish_reason).toBe('tool_calls')
    const { message } = choices[0]!
    const calls = message.tool_calls ?? []
    expect(calls.map((call) => call.type === 'function' && call.function.name)).toEqual(['weather', 'time'])
    const answered = await client.chat.completions.create({
      model: 'sim/tools',
      tools: [tool('weather'), tool('time')],
      messages: [
        ...say('Oslo?'),
        message,
        ...calls.map(({ id }, at) => ({ role: 'tool' as const, tool_call_id: id, content: `result ${at}` })),
      ],
    })
    expect(answered.choices[0]?.message.content).toBe('weather answered: result 0\ntime answered: result 1')
  })

  test('is parsed into the type the program asked for', async () => {
    const Report = z.object({ city: z.string(), sky: z.enum(['clear', 'rain']), days: z.array(z.number()) })
    const { choices } = await client.chat.completions.parse({
      model: 'sim/json',
      messages: say('Oslo?'),
      response_format: zodResponseFormat(Report, 'report'),
    })
    expect(Report.safeParse(choices[0]?.message.parsed).success).toBe(true)
  })

  test('of any model is free and simulated with a test key', async () => {
    const { key } = await accountWith(weir, 'tester@example.com', {}, '--test')
    const models = await clientWith(key).models.list()
    const model = models.data.find(({ id }) => id.startsWith('openai/'))!.id
    const { choices } = await clientWith(key).chat.completions.create({
      model,
      messages: say('Are you there?'),
    })
    expect(choices[0]?.message.content).toBe('Are you there?')
    expect(Number((await creditsOf(weir, key)).total_used)).toBe(0)
  })

  test('is simulated with a test key whichever providers it is pinned to', async () => {
    const { key } = await accountWith(weir, 'pinned@example.com', {}, '--test')
    const pinned = { only: ['openai'], order: ['openai'], allow_fallbacks: false }
    const request = { model: 'openai/gpt-5-mini', messages: say('Are you there?'), provider: pinned }
    const { choices } = await clientWith(key).chat.completions.create(request)
    expect(choices[0]?.message.content).toBe('Are you there?')
    expect(await clientWith(key).post('/estimate', { body: request })).toMatchObject({ maximum: '0' })
  })
})

describe('an error', () => {
  test.each([
    [400, 'invalid_request', OpenAI.BadRequestError, { model: 'sim/echo', messages: [] }],
    [404, 'model_not_found', OpenAI.NotFoundError, { model: 'sim/ecko', messages: say('x') }],
    [429, 'upstream_rate_limited', OpenAI.RateLimitError, { model: 'sim/error-429', messages: say('x') }],
    [502, 'upstream_error', OpenAI.InternalServerError, { model: 'sim/error-500', messages: say('x') }],
    [502, 'upstream_error', OpenAI.InternalServerError, { model: 'sim/cut', messages: say('x') }],
  ])(
    '%p %s is thrown as the class the client has for it, and costs nothing',
    async (status, code, kind, request) => {
      const before = await restingCredits(weir)
      const error = await failure(client.chat.completions.create(request))
      expect(error).toBeInstanceOf(kind)
      expect(error).toMatchObject({ status, code })
      expect(await restingCredits(weir)).toEqual(before)
    },
  )

  test('401: a key that is none', async () => {
    const error = await failure(
      clientWith('sk-nonsense').chat.completions.create({ model: 'sim/echo', messages: say('x') }),
    )
    expect(error).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(JSON.stringify(error)).not.toContain('sk-nonsense')
  })

  test.each([
    ['again when it may help', 'sim/error-500', 2],
    ['never when it cannot', 'sim/no-such-model', 1],
  ])('is tried %s', async (_, model, attempts) => {
    let sent = 0
    const patient = clientWith(weir.key, 1, () => (sent += 1))
    await failure(patient.chat.completions.create({ model, messages: say('x') }))
    expect(sent).toBe(attempts)
  })
})

test('the ledger proves itself after all of this', async () => {
  await restingCredits(weir)
  await expectAudited(weir)
})

test('two calls alike have ids of their own, and each finds its receipt', async () => {
  const read = async () => {
    const body = { model: 'sim/echo', messages: say('The same words.'), stream: true as const }
    const { data, response } = await client.chat.completions.create(body).withResponse()
    let id = ''
    for await (const chunk of data) id = chunk.id
    return { id, requestId: response.headers.get('x-request-id') }
  }
  const calls = [await read(), await read()]
  expect(new Set(calls.map(({ id }) => id)).size).toBe(2)
  for (const { id, requestId } of calls) {
    expect(await receiptOf(weir, id)).toMatchObject({ id: requestId })
  }
})
