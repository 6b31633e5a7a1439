// What the catalog has no rate for: refused where the request says so, on the receipt where only the answer does.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { expectPrinted, receiptOf } from '../../support/call-gateway.ts'
import {
  type Replay,
  type ReplayServer,
  type SeenRequest,
  startReplayServer,
} from '../../support/replay-server.ts'

const price = { input: '1', output: '2', service_tiers: { priority: '2', flex: '0.5' } }
let provider: ReplayServer
let lab: Lab

/** Served at the tier that the model is named for, whatever the protocol. */
function served({ path, json }: SeenRequest): Replay {
  const { model = '', stream } = json as { model?: string; stream?: boolean }
  const body = (content: unknown, type = 'application/json') => ({
    status: 200,
    headers: { 'content-type': type },
    body: new TextEncoder().encode(typeof content === 'string' ? content : JSON.stringify(content)),
  })
  const chatUsage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
  if (path.endsWith('/messages')) {
    const usage = { input_tokens: 100, output_tokens: 10, service_tier: model }
    const content = [{ type: 'text', text: 'Hi' }]
    return body({
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model,
      content,
      stop_reason: 'end_turn',
      usage,
    })
  }
  if (path.endsWith('/responses')) {
    const usage = { input_tokens: 100, output_tokens: 10, total_tokens: 110 }
    const content = [{ type: 'output_text', text: 'Hi', annotations: [] }]
    const output = [{ type: 'message', id: 'm', role: 'assistant', status: 'completed', content }]
    return body({
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      model,
      output,
      usage,
      service_tier: model,
    })
  }
  const head = { id: 'c', model, service_tier: model, created: 1 }
  if (stream !== true) {
    const message = { role: 'assistant', content: 'Hi' }
    const choices = [{ index: 0, message, finish_reason: 'stop' }]
    return body({ ...head, object: 'chat.completion', choices, usage: chatUsage })
  }
  const chunks = [
    { choices: [{ index: 0, delta: { role: 'assistant', content: 'Hi' }, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] },
    { choices: [], usage: chatUsage },
  ]
  const frames = chunks.map(
    (chunk) => `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...chunk })}\n\n`,
  )
  return body(`${frames.join('')}data: [DONE]\n\n`, 'text/event-stream')
}

const tiers = ['default', 'priority', 'flex', 'turbo']
const protocols = { chat: 'openai-chat', answers: 'openai-responses', claude: 'anthropic-messages' }

beforeAll(async () => {
  provider = startReplayServer(served)
  lab = await startLab({
    providers: Object.fromEntries(
      Object.entries(protocols).map(([id, protocol]) => [id, { protocol, base_url: `${provider.url}/v1` }]),
    ),
    models: Object.fromEntries([
      ...Object.keys(protocols).flatMap((id) => tiers.map((tier) => [`${id}/${tier}`, { price }] as const)),
      ['chat/heard', { price: { ...price, audio: '8' }, upstream: 'default' }],
      ['chat/speaker', { price, upstream: 'default', output_modalities: ['text', 'audio'] }],
    ]),
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

describe('an answer that names another service tier than was asked for', () => {
  const micros = { default: '0.00012', priority: '0.00024', flex: '0.00006', turbo: '0.00012' }
  const ways = Object.keys(protocols).flatMap((id) => [
    [id, false] as const,
    ...(id === 'chat' ? [[id, true] as const] : []),
  ])
  test.each(ways)('is charged as it says, over %s, streamed: %p', async (id, stream) => {
    for (const tier of tiers) {
      const answer = await lab.ask(`${id}/${tier}`, { stream })
      expect(answer.status).toBe(200)
      const receipt = await receiptOf(lab.weir, answer.requestId)
      expect([tier, receipt?.charged, receipt?.service_tier]).toEqual([
        tier,
        micros[tier as keyof typeof micros],
        tier === 'default' ? null : tier,
      ])
      // Nobody here knows what turbo costs: the charge is that of the standard tier, and says so.
      expect(receipt?.unpriced).toEqual(tier === 'turbo' ? ['service_tier:turbo'] : [])
    }
    await expectPrinted(lab.weir, 'service_tier:turbo')
  })
})

describe('sound', () => {
  const messages = [
    { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] },
  ]

  test('is refused by a model that has no rate for it: no provider is asked, nothing is charged', async () => {
    const [used, asked] = [await lab.used(), provider.requests.length]
    const answer = await lab.ask('chat/default', { messages })
    expect(answer.status).toBe(400)
    expect(JSON.parse(answer.text)).toMatchObject({
      error: { code: 'unsupported_parameter', param: 'messages[0].content[0]' },
    })
    expect([await lab.used(), await lab.held(), provider.requests.length]).toEqual([used, '0', asked])
  })

  test('is refused in an answer too, of a model that is said to speak', async () => {
    const answer = await lab.ask('chat/speaker', {
      modalities: ['text', 'audio'],
      audio: { voice: 'v', format: 'wav' },
    })
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([400, { error: { param: 'modalities' } }])
  })

  test('goes to a model that has one', async () => {
    expect((await lab.ask('chat/heard', { messages })).status).toBe(200)
  })
})
