// An operator's own names in front of several models: every protocol serves them, the answer and the receipt say who did.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import { type Lab, startLab, wordsIn } from '../../chat/lab.ts'
import { getAs, keyFor, postAs } from '../../support/call-gateway.ts'
import { type Fault, type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

let first: MockProvider
let second: MockProvider
let lab: Lab
/** What goes wrong with the first provider now. */
let fault: Fault | undefined

beforeAll(async () => {
  first = await startMockProvider({ words: ['one'], fault: () => fault })
  second = await startMockProvider({ words: ['two'] })
  lab = await startLab({
    providers: { first: first.url, second: second.url },
    models: {
      'first/m': ['first/m'],
      'second/m': { price: { input: '3', output: '5' } },
      'first/other': ['first/other'],
      fast: { route: { to: ['first/m', 'second/m'] } },
      preset: {
        route: { to: ['second/m'], defaults: { temperature: 0.25, system: 'Be brief.', max_cost: '0.5' } },
      },
      hidden: { route: { to: ['first/other'] } },
    },
    settings: {
      aliases: { quick: 'fast' },
      catalog: { hide: ['first/other'] },
      rate_limits: { account_requests_per_minute: 100_000 },
    },
  })
}, 30_000)

afterAll(async () => {
  await lab?.weir.stop()
  await Promise.all([first, second].map((mock) => mock?.stop()))
})

const receipt = async (id: string) => (await lab.get(`/v1/generation?id=${id}`))['data'] as Receipt

const doors: readonly (readonly [string, string, (model: string) => object])[] = [
  [
    'chat completions',
    '/v1/chat/completions',
    (model) => ({ model, messages: [{ role: 'user', content: 'hi' }] }),
  ],
  ['Responses', '/v1/responses', (model) => ({ model, input: 'hi' })],
  [
    'Messages',
    '/v1/messages',
    (model) => ({ model, max_tokens: 50, messages: [{ role: 'user', content: 'hi' }] }),
  ],
  ['text completions', '/v1/completions', (model) => ({ model, prompt: 'hi' })],
]

describe.each(['fast', 'quick'])('the name %s', (model) => {
  test.each(doors)('is served by %s, whole and streamed', async (_, path, body) => {
    for (const stream of [false, true]) {
      const answer = await postAs(lab.weir.origin + path, lab.weir.key, { ...body(model), stream })
      const text = await answer.text()
      expect({ status: answer.status, text }).toMatchObject({
        status: 200,
        text: expect.stringContaining('one'),
      })
      expect(text).toContain('first/m')
      expect(answer.headers.get('x-weir-model')).toMatch(/^first\/m; route="fast"; reason=(order|session)$/)
    }
  })

  test('is served by the Gemini API, whole and streamed', async () => {
    for (const act of ['generateContent', 'streamGenerateContent?alt=sse']) {
      const url = `${lab.weir.origin}/v1beta/models/${model}:${act}`
      const answer = await postAs(url, lab.weir.key, {
        contents: [{ role: 'user', parts: [{ text: 'hi' }] }],
      })
      expect({ status: answer.status, text: await answer.text() }).toMatchObject({
        status: 200,
        text: expect.stringContaining('one'),
      })
    }
  })
})

test('a member that fails is passed over: the answer, the charge and the receipt are of the one that served', async () => {
  fault = { kind: 'status', status: 503 }
  try {
    const before = await lab.used()
    const answer = await lab.ask('fast', { session_id: 'falls', stream: true })
    expect(answer.headers.get('x-weir-model')).toMatch(
      /^second\/m; route="fast"; reason=order; passed_over="first\/m [a-z_]+"$/,
    )
    expect(wordsIn(answer.text)).toBe('two')
    expect(await receipt(answer.requestId)).toMatchObject({
      model: 'second/m',
      route: { id: 'fast', reason: 'order', passed_over: [{ model: 'first/m' }] },
    })
    // 12 tokens of prompt and one of output at the dearer member's price.
    expect((await lab.used()) - before).toBeCloseTo(41e-6, 12)
  } finally {
    fault = undefined
  }
  // Its cache is there now.
  const next = await lab.ask('fast', { session_id: 'falls' })
  expect(next.headers.get('x-weir-model')).toBe('second/m; route="fast"; reason=session')
})

test.each<[string, Record<string, unknown>]>([
  ['a route', { model: 'fast', session_id: 'counted' }],
  ['a list of the client', { model: 'first/m', models: ['second/m'] }],
])('usage and receipt name the member of %s that served', async (_, body) => {
  const calls = async () => {
    const answer = await getAs(`${lab.weir.baseUrl}/usage?by=model`, lab.weir.key)
    const { data } = (await answer.json()) as { data: { group: string; calls: number }[] }
    return Object.fromEntries(data.map(({ group, calls: times }) => [group, times]))
  }
  const before = await calls()
  fault = { kind: 'status', status: 503 }
  try {
    const { model, ...more } = body
    const { requestId } = await lab.ask(String(model), more)
    expect(await receipt(requestId)).toMatchObject({ model: 'second/m' })
    expect(await calls()).toEqual({ ...before, 'second/m': (before['second/m'] ?? 0) + 1 })
  } finally {
    fault = undefined
  }
})

test('a call without a route has none on its receipt', async () => {
  const { requestId } = await lab.ask('first/m')
  expect(await receipt(requestId)).toMatchObject({ model: 'first/m', route: null })
})

test('what a route sets goes to the provider unless the client says otherwise', async () => {
  await lab.ask('preset')
  expect(second.bill.at(-1)!.body).toMatchObject({
    temperature: 0.25,
    messages: [{ role: 'system', content: 'Be brief.' }, { role: 'user' }],
  })
  await lab.ask('preset', { temperature: 1 })
  expect(second.bill.at(-1)!.body).toMatchObject({ temperature: 1 })
  const dear = await lab.ask('preset', { max_cost: '0.000000001' })
  expect(dear.text).toContain('max_cost')
})

test('an estimate of a route is that of the member that would be asked', async () => {
  const body = { model: 'fast', messages: [{ role: 'user', content: 'hi' }] }
  const answer = await postAs(`${lab.weir.baseUrl}/estimate`, lab.weir.key, body)
  expect(await answer.json()).toMatchObject({ model: 'first/m' })
})

describe('who would be asked', () => {
  const explain = async (model: string, key = lab.weir.key) => {
    const answer = await getAs(`${lab.weir.baseUrl}/route?model=${model}`, key)
    return { status: answer.status, json: (await answer.json()) as Record<string, unknown> }
  }

  test('is said of a route, an alias and a model, without a call', async () => {
    const before = await lab.used()
    for (const model of ['fast', 'quick'])
      expect(await explain(model)).toMatchObject({
        status: 200,
        json: {
          model: 'fast',
          reason: 'order',
          candidates: [
            { model: 'first/m', provider: 'first', standing: 'healthy' },
            { model: 'second/m', provider: 'second', standing: 'healthy', prompt: '0.000003' },
          ],
          passed_over: [],
        },
      })
    expect((await explain('second/m')).json).toMatchObject({
      reason: null,
      candidates: [{ provider: 'second' }],
    })
    expect(await lab.used()).toBe(before)
  })

  test('depends on the key; what cannot be asked is refused as the call is', async () => {
    const { key } = await keyFor(lab.weir, 'owner@localhost', '--models', 'second/m')
    expect((await explain('fast', key)).json).toMatchObject({
      candidates: [{ model: 'second/m' }],
      passed_over: [{ model: 'first/m', reason: 'model_not_allowed' }],
    })
    expect((await explain('first/m', key)).json).toMatchObject({
      candidates: [],
      refusal: 'model_not_allowed',
    })
    expect((await explain('first/none')).status).toBe(404)
    expect((await explain('')).status).toBe(400)
  })

  test('is printed by weir route explain', async () => {
    const given = ['--url', lab.weir.baseUrl, '--key', lab.weir.key]
    expect(await lab.weir.command('route', 'explain', 'fast', ...given)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/fast is a route; first by order\nMODEL[^]*first\/m +first +healthy/),
    })
    expect(await lab.weir.command('route', 'explain', 'first/none', ...given)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('model_not_found'),
    })
  })
})

test('lists have the route with its members, and nothing that is not offered', async () => {
  const { data } = (await lab.get('/v1/models')) as { data: { id: string; route?: object }[] }
  expect(data.find(({ id }) => id === 'fast')?.route).toEqual({
    pick: 'order',
    members: [
      { id: 'first/m', weight: 1 },
      { id: 'second/m', weight: 1 },
    ],
    pricing: {
      prompt: { from: '0.000001', to: '0.000003' },
      completion: { from: '0.000002', to: '0.000005' },
    },
  })
  expect(data.some(({ id }) => id === 'first/other')).toBe(false)
  expect((await lab.ask('first/other')).status).toBe(404)
  expect((await lab.ask('hidden')).headers.get('x-weir-model')).toStartWith('first/other;')
})

describe('a key', () => {
  const asks = async (models: string, model: string, headers = {}) => {
    const { key } = await keyFor(lab.weir, 'owner@localhost', '--models', models)
    const body = { model, messages: [{ role: 'user', content: models }] }
    return { key, body, answer: await postAs(`${lab.weir.baseUrl}/chat/completions`, key, body, { headers }) }
  }

  test('that names the route may use it whatever its members are, and nothing else', async () => {
    const { key, body, answer } = await asks('fast', 'fast', { 'idempotency-key': 'once' })
    expect(answer.headers.get('x-weir-model')).toStartWith('first/m;')
    expect((await asks('fast', 'first/m')).answer.status).toBe(403)
    // It could have made the call, so it is given the answer again.
    const again = await postAs(`${lab.weir.baseUrl}/chat/completions`, key, body, {
      headers: { 'idempotency-key': 'once' },
    })
    expect(again.headers.get('idempotency-replayed')).toBe('true')
  })

  test('that names a member may use the route as far as that one', async () => {
    const { answer } = await asks('second/m', 'fast')
    expect(answer.headers.get('x-weir-model')).toBe(
      'second/m; route="fast"; reason=order; passed_over="first/m model_not_allowed"',
    )
  })

  test('that names none of it may not', async () => {
    const { answer } = await asks('sim/echo', 'fast')
    expect(answer.status).toBe(403)
    expect(await answer.json()).toMatchObject({ error: { code: 'model_not_allowed' } })
  })
})
