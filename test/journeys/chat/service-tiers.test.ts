// A service tier may be asked for, or set at the provider's account: a call is charged at the tier that its answer names,
// over every protocol that names one, whole and streamed, passed through and translated. Cohere and Ollama name none.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { message } from '../../support/aws-event-stream.ts'
import { expectPrinted, postAs, receiptOf } from '../../support/call-gateway.ts'
import {
  type Replay,
  type ReplayServer,
  type SeenRequest,
  startReplayServer,
} from '../../support/replay-server.ts'

const price = { input: '1', output: '2', service_tiers: { priority: '2', flex: '0.5' } }
/** For 100 tokens of input and ten of output. Nobody here knows what turbo costs: it is charged as the standard tier. */
const charges = { standard: '0.00012', priority: '0.00024', flex: '0.00006', turbo: '0.00012' }
type Tier = keyof typeof charges
const tiers = Object.keys(charges) as Tier[]

let provider: ReplayServer
let lab: Lab

const body = (content: BodyInit, type: string): Replay => ({
  status: 200,
  headers: { 'content-type': type },
  body: new Uint8Array(content as Uint8Array),
})
const json = (content: unknown) => body(Buffer.from(JSON.stringify(content)), 'application/json')
const sse = (frames: readonly Readonly<Record<string, unknown>>[], end = '') => {
  const text = frames.map(
    (data) =>
      `${typeof data['type'] === 'string' ? `event: ${data['type']}\n` : ''}data: ${JSON.stringify(data)}\n\n`,
  )
  return body(Buffer.from(text.join('') + end), 'text/event-stream')
}

interface Asked {
  readonly model: string
  readonly tier: Tier
  readonly stream: boolean
}

function chat({ model, tier, stream }: Asked): Replay {
  const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
  const named = { service_tier: tier === 'standard' ? 'default' : tier }
  const head = { id: 'c', model, created: 1 }
  if (!stream) {
    const choices = [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }]
    return json({ ...head, ...named, object: 'chat.completion', choices, usage })
  }
  const chunk = (choices: readonly object[], more: object) => ({
    ...head,
    object: 'chat.completion.chunk',
    choices,
    ...more,
  })
  return sse(
    [
      chunk([{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }], named),
      chunk([{ index: 0, delta: {}, finish_reason: 'stop' }], named),
      // Some name it with the usage, some only before it.
      chunk([], model.endsWith('-early') ? { usage, service_tier: null } : { usage, ...named }),
    ],
    'data: [DONE]\n\n',
  )
}

function responses({ model, tier, stream }: Asked): Replay {
  const content = [{ type: 'output_text', text: 'Hi', annotations: [] }]
  const item = { type: 'message', id: 'm', role: 'assistant', status: 'completed', content }
  const made = { id: 'resp_1', object: 'response', created_at: 1, model }
  const named = { service_tier: tier === 'standard' ? 'default' : tier }
  const usage = { input_tokens: 100, output_tokens: 10, total_tokens: 110 }
  const response = { ...made, ...named, status: 'completed', output: [item], usage }
  if (!stream) return json(response)
  // As recorded: what was asked for comes first, what was served with the usage.
  const begun = { ...made, service_tier: 'auto', status: 'in_progress', output: [] }
  return sse([
    { type: 'response.created', response: begun },
    { type: 'response.output_item.added', output_index: 0, item: { ...item, content: [] } },
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, item_id: 'm', delta: 'Hi' },
    { type: 'response.output_item.done', output_index: 0, item },
    { type: 'response.completed', response },
  ])
}

function claude({ model, tier, stream }: Asked): Replay {
  const usage = { input_tokens: 100, output_tokens: 10, service_tier: tier }
  const content = [{ type: 'text', text: 'Hi' }]
  const head = { id: 'msg_1', type: 'message', role: 'assistant', model }
  if (!stream) return json({ ...head, content, stop_reason: 'end_turn', usage })
  const counted = model.endsWith('-early') ? { output_tokens: 10, service_tier: null } : { output_tokens: 10 }
  return sse([
    { type: 'message_start', message: { ...head, content: [], usage: { ...usage, output_tokens: 1 } } },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: counted },
    { type: 'message_stop' },
  ])
}

function gemini({ model, tier, stream }: Asked): Replay {
  const content = { role: 'model', parts: [{ text: 'Hi' }] }
  const counters = { promptTokenCount: 100, candidatesTokenCount: 10, totalTokenCount: 110 }
  // Of Vertex, and of the Gemini API.
  const traffic = { trafficType: tier === 'standard' ? 'ON_DEMAND' : `ON_DEMAND_${tier.toUpperCase()}` }
  const named = model.endsWith('-early') ? traffic : { serviceTier: tier }
  const made = { modelVersion: model, responseId: 'r' }
  const whole = { candidates: [{ content, finishReason: 'STOP', index: 0 }], ...made }
  if (!stream) return json({ ...whole, usageMetadata: { ...counters, ...named } })
  const begun = { candidates: [{ content, index: 0 }], ...made, usageMetadata: named }
  const later = model.endsWith('-early') ? counters : { ...counters, ...named }
  return sse([begun, { ...whole, usageMetadata: later }])
}

function converse({ tier, stream }: Asked): Replay {
  const usage = { inputTokens: 100, outputTokens: 10, totalTokens: 110 }
  const metadata = { usage, serviceTier: { type: tier === 'standard' ? 'default' : tier } }
  const output = { message: { role: 'assistant', content: [{ text: 'Hi' }] } }
  if (!stream) return json({ output, stopReason: 'end_turn', ...metadata })
  const events: [string, object][] = [
    ['messageStart', { role: 'assistant' }],
    ['contentBlockDelta', { contentBlockIndex: 0, delta: { text: 'Hi' } }],
    ['contentBlockStop', { contentBlockIndex: 0 }],
    ['messageStop', { stopReason: 'end_turn' }],
    ['metadata', metadata],
  ]
  const frames = events.map(([type, data]) =>
    message({ ':message-type': 'event', ':event-type': type }, JSON.stringify(data)),
  )
  return body(Buffer.concat(frames), 'application/vnd.amazon.eventstream')
}

const protocols: Readonly<Record<string, readonly [name: string, answer: (asked: Asked) => Replay]>> = {
  chat: ['openai-chat', chat],
  answers: ['openai-responses', responses],
  claude: ['anthropic-messages', claude],
  google: ['gemini', gemini],
  amazon: ['bedrock-converse', converse],
}

/** Each model is named for its protocol and the tier that its answers name. */
function served({ path, json: asked }: SeenRequest): Replay {
  const { model = '', stream = false } = asked as { model?: string; stream?: boolean }
  const [, inPath] = /\/models?\/([^:/]+)/.exec(path) ?? []
  const name = decodeURIComponent(inPath ?? model)
  const [id = '', tier] = name.split('-')
  return protocols[id]![1]({
    model: name,
    tier: tier as Tier,
    stream: stream || /streamGenerate|converse-stream/.test(path),
  })
}

/** What these two name is read as one of the tiers that there are. */
const closed = ['google', 'amazon']
const names = Object.keys(protocols).flatMap((id) =>
  tiers
    .filter((tier) => tier !== 'turbo' || !closed.includes(id))
    .flatMap((tier) => [`${id}/${id}-${tier}`, `${id}/${id}-${tier}-early`]),
)

beforeAll(async () => {
  provider = startReplayServer(served)
  lab = await startLab({
    providers: Object.fromEntries(
      Object.entries(protocols).map(([id, [protocol]]) => [
        id,
        { protocol, base_url: id === 'amazon' ? provider.url : `${provider.url}/v1` },
      ]),
    ),
    models: Object.fromEntries(names.map((name) => [name, { price }])),
  })
})
afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

const inbounds: Readonly<Record<string, (model: string, stream: boolean) => readonly [string, object]>> = {
  'chat completions': (model, stream) => [
    '/v1/chat/completions',
    { model, stream, messages: [{ role: 'user', content: 'Hi' }] },
  ],
  responses: (model, stream) => ['/v1/responses', { model, stream, input: 'Hi' }],
  messages: (model, stream) => [
    '/v1/messages',
    { model, stream, max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] },
  ],
  'generate content': (model, stream) => [
    `/v1beta/models/${model}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`,
    { contents: [{ role: 'user', parts: [{ text: 'Hi' }] }] },
  ],
}

describe.each(Object.keys(inbounds))('over %s', (inbound) => {
  test.each(Object.keys(protocols).flatMap((id) => [[id, false] as const, [id, true] as const]))(
    'an answer of %s costs what its tier costs, streamed: %p',
    async (id, stream) => {
      for (const model of names.filter((name) => name.startsWith(`${id}/`))) {
        const [path, content] = inbounds[inbound]!(model, stream)
        const response = await postAs(lab.weir.origin + path, lab.weir.key, content)
        const text = await response.text()
        expect([model, response.status, text]).toEqual([model, 200, text])
        const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id') ?? '')
        const tier = /-(standard|priority|flex|turbo)/.exec(model)![1] as Tier
        expect([model, receipt?.charged, receipt?.service_tier, receipt?.unpriced]).toEqual([
          model,
          charges[tier],
          tier === 'standard' ? null : tier,
          tier === 'turbo' ? ['service_tier:turbo'] : [],
        ])
      }
      if (!closed.includes(id)) await expectPrinted(lab.weir, 'service_tier:turbo')
    },
  )
})

/** How each protocol asks for a tier; Claude's has no word for those that cost more or less. */
const words: Readonly<Record<string, (tier: string) => object>> = {
  chat: (service_tier) => ({ service_tier }),
  answers: (service_tier) => ({ service_tier }),
  google: (serviceTier) => ({ serviceTier }),
  amazon: (type) => ({ serviceTier: { type } }),
}
const asks: Readonly<Record<string, (tier: string) => object>> = {
  'chat completions': (service_tier) => ({ service_tier }),
  responses: (service_tier) => ({ service_tier }),
  'generate content': (serviceTier) => ({ serviceTier }),
}

describe.each(Object.keys(asks))('a tier that is asked for over %s', (inbound) => {
  const send = async (model: string, more: object) => {
    const [path, content] = inbounds[inbound]!(model, false)
    const response = await postAs(lab.weir.origin + path, lab.weir.key, { ...content, ...more })
    const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id') ?? '')
    const sent = provider.requests.at(-1)!.json as Record<string, unknown>
    return { response, receipt, sent }
  }

  test.each(Object.keys(words))('reaches %s where its price is known, and costs what serves', async (id) => {
    for (const tier of ['priority', 'flex'])
      for (const served of [tier, 'standard'] as const) {
        const { receipt, sent } = await send(`${id}/${id}-${served}`, asks[inbound]!(tier))
        expect(sent).toMatchObject(words[id]!(tier))
        expect(receipt?.charged).toBe(charges[served as Tier])
      }
  })

  test.each(Object.keys(words))('is kept from %s where its price is not known', async (id) => {
    const asked = asks[inbound]!('turbo')
    const { response, receipt, sent } = await send(`${id}/${id}-standard`, asked)
    expect(Object.keys(sent)).not.toContain(Object.keys(words[id]!(''))[0])
    expect(receipt?.charged).toBe(charges.standard)
    const told = `${response.headers.get('x-weir-warnings')}${await response.text()}`
    expect(told).toMatch(/service_?tier/i)
    const before = provider.requests.length
    const strict = await send(`${id}/${id}-standard`, { ...asked, strict: true })
    expect(strict.response.status).toBe(400)
    expect(provider.requests.length).toBe(before)
  })
})

test('what is held and estimated is for the dearer of the tier and the standard one', async () => {
  const estimated = async (more: object) => {
    const content = {
      model: 'chat/chat-standard',
      max_tokens: 1_000,
      messages: [{ role: 'user', content: 'Hi' }],
    }
    const response = await postAs(`${lab.weir.baseUrl}/estimate`, lab.weir.key, { ...content, ...more })
    return Number(((await response.json()) as { maximum: string }).maximum)
  }
  // As long as the others: the prompt is measured with all that was sent.
  const standard = await estimated({ service_tier: 'standard' })
  expect(await estimated({ service_tier: 'priority' })).toBeCloseTo(2 * standard, 12)
  expect(await estimated({ service_tier: 'flex', user: 'ab' })).toBeGreaterThan(0.9 * standard)
  // A limit of price counts the tier that is asked for.
  const content = {
    model: 'chat/chat-standard',
    messages: [{ role: 'user', content: 'Hi' }],
    service_tier: 'priority',
  }
  const limited = (prompt: string) =>
    postAs(`${lab.weir.baseUrl}/chat/completions`, lab.weir.key, {
      ...content,
      provider: { max_price: { prompt, completion: '4' } },
    })
  expect((await limited('1.5')).status).toBe(400)
  expect((await limited('2')).status).toBe(200)
})

test('the catalog says what the tiers of a model cost', async () => {
  const response = await fetch(`${lab.weir.baseUrl}/models/chat/chat-standard`, {
    headers: { authorization: `Bearer ${lab.weir.key}` },
  })
  const { pricing } = (await response.json()) as { pricing: { service_tiers: unknown } }
  expect(pricing.service_tiers).toEqual(price.service_tiers)
})
