// Embeddings through the real server: the official client gets its vectors in every format, and every call is held,
// charged once and told in a receipt, as a chat is.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import {
  accountWith,
  creditsOf,
  expectAudited,
  keyFor,
  post,
  receiptOf,
  restingCredits,
} from '../../support/call-gateway.ts'
import { type Replay, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

/** What the providers answer, by the model they are asked for: the next call's answer, the last again and again. */
const answers: Record<string, Replay[]> = {}
let provider: ReplayServer
let weir: ServedWeir
let client: OpenAI

const json = (body: unknown, status = 200): Replay => ({
  status,
  headers: { 'content-type': 'application/json' },
  body: new TextEncoder().encode(typeof body === 'string' ? body : JSON.stringify(body)),
})
const openai = (vectors: readonly (readonly number[])[], usage?: object) =>
  json({
    object: 'list',
    data: vectors.map((embedding, index) => ({ object: 'embedding', index, embedding })),
    ...(usage === undefined ? {} : { usage }),
  })
const overloaded = json({ error: { message: 'busy', type: 'server_error', code: null } }, 503)
const price = { input: '1', output: '0' }

beforeAll(async () => {
  provider = startReplayServer(({ path, json: body }) => {
    const model = /models\/([^:]+):/.exec(path)?.[1] ?? (body as { model: string }).model
    const left = answers[model] ?? []
    return (left.length > 1 ? left.shift() : left[0]) ?? json('{}', 500)
  })
  const of = (protocol: string) => ({ protocol, base_url: provider.url, api_key: 'key' })
  const embeds = { output_modalities: ['embeddings'], price, context_length: 8192 }
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      providers: {
        plain: of('openai-chat'),
        spare: of('openai-chat'),
        google: of('gemini'),
        co: of('cohere'),
        claude: of('anthropic-messages'),
      },
      models: [
        ...['plain/v', 'plain/uncounted', 'plain/short', 'google/g', 'co/c', 'claude/none'].map((id) => ({
          id,
          ...embeds,
        })),
        {
          id: 'plain/pair',
          ...embeds,
          offers: [
            { provider: 'plain', upstream: 'down', price },
            { provider: 'spare', upstream: 'up', price },
          ],
        },
      ],
    }),
  })
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

const embed = (body: object, options: Parameters<typeof post>[2] = {}) =>
  post(weir, body, { path: '/embeddings', ...options })

/** Of a whole answer: its vectors, and what it cost. */
function bodyOf(answer: { text: string }) {
  return JSON.parse(answer.text) as {
    data: { embedding: number[] | string; index: number }[]
    usage: { prompt_tokens: number; total_tokens: number; cost: number; cost_details: { total: string } }
    mode?: string
    warnings?: { param: string }[]
  }
}

describe('the official client', () => {
  test('asks for base64 of its own accord and gets the numbers that it gets as floats', async () => {
    const input = ['The river runs.', 'To the sea.']
    const decoded = await client.embeddings.create({ model: 'sim/embed', input })
    const floats = await client.embeddings.create({ model: 'sim/embed', input, encoding_format: 'float' })
    expect(decoded.data.map(({ embedding }) => [...embedding])).toEqual(
      floats.data.map(({ embedding }) => embedding),
    )
    expect(floats.data.map(({ index }) => index)).toEqual([0, 1])
    expect(floats.data[0]!.embedding).toHaveLength(256)
    expect(Math.hypot(...floats.data[0]!.embedding)).toBeCloseTo(1, 5)
    expect(floats.data[0]!.embedding).not.toEqual(floats.data[1]!.embedding)
    expect(floats.usage).toMatchObject({ prompt_tokens: 7, total_tokens: 7 })
    expect([floats.model, floats.object]).toEqual(['sim/embed', 'list'])
  })

  test('sends an array of numbers as one input, and arrays of them as many', async () => {
    const one = await client.embeddings.create({ model: 'sim/embed', input: [1, 2, 3], dimensions: 8 })
    expect(one.data).toHaveLength(1)
    expect(one.data[0]!.embedding).toHaveLength(8)
    expect(one.usage.prompt_tokens).toBe(3)
    const two = await client.embeddings.create({ model: 'sim/embed', input: [[1, 2, 3], [4]], dimensions: 8 })
    expect(two.data).toHaveLength(2)
    expect([...two.data[0]!.embedding]).toEqual([...one.data[0]!.embedding])
  })

  test('gets base64 as text where it asks for that', async () => {
    const answer = await embed({ model: 'sim/embed', input: 'x', encoding_format: 'base64', dimensions: 4 })
    const { embedding } = bodyOf(answer).data[0]!
    expect(Buffer.from(embedding as string, 'base64')).toHaveLength(16)
  })
})

describe('money', () => {
  test('is what the provider counted, on the answer, the receipt and the account', async () => {
    answers['v'] = [openai([[1, 0]], { prompt_tokens: 1_000, total_tokens: 1_000 })]
    const before = await creditsOf(weir)
    const answer = await embed({ model: 'plain/v', input: 'word '.repeat(1_000) })
    expect(answer.status).toBe(200)
    expect(bodyOf(answer).usage).toMatchObject({ cost: 0.001, cost_details: { total: '0.001' } })
    const receipt = (await receiptOf(weir, answer.requestId))!
    expect(receipt).toMatchObject({
      state: 'settled',
      ending: 'finished',
      total: '0.001',
      charged: '0.001',
      provider: 'plain',
      usage: { prompt_tokens: 1_000, completion_tokens: 0, estimated: false },
    })
    const after = await restingCredits(weir)
    expect(Number(before.available) - Number(after.available)).toBeCloseTo(0.001, 12)
  })

  test('is an estimate where the provider counts nothing, and the receipt says so', async () => {
    answers['uncounted'] = [openai([[1, 0]])]
    const texts = await embed({ model: 'plain/uncounted', input: 'The river runs to the sea.' })
    expect((await receiptOf(weir, texts.requestId))?.usage).toMatchObject({
      prompt_tokens: 7,
      estimated: true,
    })
    const tokens = await embed({ model: 'plain/uncounted', input: [10, 20, 30] })
    expect((await receiptOf(weir, tokens.requestId))?.usage).toMatchObject({
      prompt_tokens: 3,
      estimated: true,
    })
  })

  test('is not touched by a call that fails', async () => {
    const before = await creditsOf(weir)
    answers['v'] = [overloaded]
    const failed = await embed({ model: 'plain/v', input: 'x' })
    expect([failed.status, failed.error?.code]).toEqual([503, 'overloaded'])
    answers['short'] = [openai([[1, 0]], { prompt_tokens: 3, total_tokens: 3 })]
    const short = await embed({ model: 'plain/short', input: ['a', 'b'] })
    expect([short.status, short.error?.code]).toEqual([502, 'upstream_error'])
    expect(await restingCredits(weir)).toEqual(before)
  })

  test('must be there, the least of it for a thousand tokens counted as tokens', async () => {
    const { key } = await accountWith(weir, 'poor@example.com', { purchased: '0.002' })
    answers['v'] = [openai([[1, 0]], { prompt_tokens: 1_000, total_tokens: 1_000 })]
    const tokens = Array.from({ length: 1_000 }, () => 123_456)
    expect((await embed({ model: 'plain/v', input: tokens }, { key })).status).toBe(200)
    const refused = await embed({ model: 'plain/v', input: tokens }, { key })
    expect([refused.status, refused.error?.code]).toEqual([402, 'insufficient_credits'])
  })
})

test('fails over to the next offer, and the receipt names both tries', async () => {
  answers['down'] = [overloaded]
  answers['up'] = [openai([[1]], { prompt_tokens: 1, total_tokens: 1 })]
  const answer = await embed({ model: 'plain/pair', input: 'x' })
  expect([answer.status, answer.headers.get('x-weir-provider')]).toEqual([200, 'spare'])
  const receipt = await receiptOf(weir, answer.requestId)
  expect(receipt?.attempts.map(({ provider, outcome }) => [provider, outcome])).toEqual([
    ['plain', 'failed'],
    ['spare', 'served'],
  ])
})

test.each([
  ['google/g', { embeddings: [{ values: [0.6, 0.8] }], usageMetadata: { promptTokenCount: 4 } }],
  ['co/c', { id: 'e', embeddings: { float: [[0.6, 0.8]] }, meta: { billed_units: { input_tokens: 4 } } }],
] as const)('%s is asked in its own protocol', async (model, body) => {
  answers[model.slice(model.indexOf('/') + 1)] = [json(body)]
  const answer = await embed({ model, input: 'The river runs.', user: 'u' })
  expect(bodyOf(answer)).toMatchObject({
    data: [{ embedding: [0.6, 0.8] }],
    usage: { prompt_tokens: 4, cost: 4e-6 },
    warnings: [{ param: 'user' }],
  })
  const strict = await embed({ model, input: 'x', user: 'u', strict: true })
  expect(strict.error).toMatchObject({ code: 'unsupported_parameter', param: 'user' })
  const tokens = await embed({ model, input: [1, 2] })
  expect(tokens.error).toMatchObject({ code: 'unsupported_parameter', param: 'input' })
})

test('a client of Gemini’s has its task and dimensions at Google, and the provider’s count is charged', async () => {
  answers['g'] = [json({ embeddings: [{ values: [0.6, 0.8] }], usageMetadata: { promptTokenCount: 4 } })]
  const gemini = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: weir.origin } })
  const answer = await gemini.models.embedContent({
    model: 'google/g',
    contents: 'The river runs.',
    config: { taskType: 'CLUSTERING', outputDimensionality: 2 },
  })
  const { usageMetadata } = answer as { usageMetadata?: unknown }
  expect(answer.embeddings).toEqual([{ values: [0.6, 0.8] }])
  expect(usageMetadata).toMatchObject({ promptTokenCount: 4, cost: 4e-6 })
  const [asked] = (provider.requests.at(-1)!.json as { requests: unknown[] }).requests
  expect(asked).toEqual({
    model: 'models/g',
    taskType: 'CLUSTERING',
    outputDimensionality: 2,
    content: { parts: [{ text: 'The river runs.' }] },
  })
})

test('an Idempotency-Key is answered twice and charged once', async () => {
  const body = { model: 'sim/embed', input: 'once', dimensions: 4 }
  const headers = { 'idempotency-key': 'embed-once' }
  const first = await embed(body, { headers })
  const used = (await restingCredits(weir)).total_used
  const second = await embed(body, { headers })
  expect(second.headers.get('idempotency-replayed')).toBe('true')
  expect(second.text).toBe(first.text)
  expect((await restingCredits(weir)).total_used).toBe(used)
  const other = await embed({ ...body, input: 'another' }, { headers })
  expect([other.status, other.error?.code]).toEqual([409, 'idempotency_conflict'])
})

test('a test key is answered by the simulator, for nothing', async () => {
  const { key } = await keyFor(weir, 'owner@localhost', '--test')
  const provider = { only: ['openai'] }
  const answer = await embed({ model: 'openai/text-embedding-3-small', input: 'x', provider }, { key })
  expect(bodyOf(answer)).toMatchObject({ mode: 'test', usage: { cost: 0 } })
})

test.each([
  ['/chat/completions', { model: 'sim/embed', messages: [{ role: 'user', content: 'x' }] }],
  ['/embeddings', { model: 'sim/echo', input: 'x' }],
  ['/embeddings', { model: 'sim/echo', messages: [] }],
])('%s refuses what belongs elsewhere: %p', async (path, body) => {
  const answer = await post(weir, body, { path })
  expect([answer.status, answer.error?.code]).toEqual([400, 'wrong_endpoint'])
  expect(answer.error?.message).toMatch(/\/v1\//)
})

test.each([
  ['claude/none', 503, 'no_provider_available'],
  ['sim/none', 404, 'model_not_found'],
])('%s answers %p %s', async (model, status, code) => {
  const answer = await embed({ model, input: 'x' })
  expect([answer.status, answer.error?.code]).toEqual([status, code])
})

test('nobody calls without a key, and premium models and key limits hold as for chat', async () => {
  const without = await fetch(`${weir.baseUrl}/embeddings`, { method: 'POST', body: '{}' })
  expect(without.status).toBe(401)
  const { key } = await keyFor(weir, 'owner@localhost', '--models', 'sim/echo')
  expect((await embed({ model: 'sim/embed', input: 'x' }, { key })).error?.code).toBe('model_not_allowed')
})

test('nothing is held and the ledger proves itself after all of this', async () => {
  expect((await restingCredits(weir)).held).toBe('0')
  await expectAudited(weir)
})
