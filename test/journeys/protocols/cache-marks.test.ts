// Marks for a provider's cache: those of clients reach Claude over every protocol that has them; for clients without any,
// a provider can be set to mark what agents send again and again (`mark_cache`).

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { postAs, receiptOf } from '../../support/call-gateway.ts'
import { type ReplayServer, startReplayServer } from '../../support/replay-server.ts'

let provider: ReplayServer
let lab: Lab

const usage = {
  input_tokens: 3,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 20,
  output_tokens: 1,
}
const answers: Readonly<Record<string, object>> = {
  '/v1/messages': {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-sonnet-4-5',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage,
  },
  '/v1/responses': {
    id: 'resp_1',
    object: 'response',
    created_at: 1,
    model: 'm',
    status: 'completed',
    output: [
      {
        type: 'message',
        id: 'm',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
      },
    ],
    usage: { input_tokens: 3, output_tokens: 1, total_tokens: 4 },
  },
  '/v1/chat/completions': {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 },
  },
}

beforeAll(async () => {
  provider = startReplayServer(({ path }) => ({
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: new TextEncoder().encode(JSON.stringify(answers[path] ?? {})),
  }))
  const base_url = `${provider.url}/v1`
  const at = (id: string) => [{ provider: id, upstream: 'claude-sonnet-4-5' }]
  lab = await startLab({
    providers: {
      marking: { protocol: 'anthropic-messages', base_url, mark_cache: true },
      plain: { protocol: 'anthropic-messages', base_url },
      router: { base_url, mark_cache: true, quirks: { cacheControl: true } },
      openai: { base_url, quirks: { cacheBreakpoints: true } },
      other: { base_url },
      answers: { protocol: 'openai-responses', base_url },
    },
    models: {
      'marking/claude': { offers: at('marking') },
      'plain/claude': { offers: at('plain') },
      'router/claude': { offers: at('router') },
      'openai/m': {},
      'other/m': {},
      'answers/m': {},
      'router/other': { offers: [{ provider: 'router', upstream: 'gpt-5' }] },
    },
  })
})
afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

/** Where the body that the provider was sent last has marks. */
function marksIn(value: Json, path = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((item, at) => marksIn(item, `${path}[${at}]`))
  if (typeof value !== 'object' || value === null) return []
  const own = 'cache_control' in value ? [path] : []
  return [...own, ...Object.entries(value).flatMap(([name, inside]) => marksIn(inside, `${path}.${name}`))]
}

async function marksSent(path: string, body: object): Promise<string[]> {
  const response = await postAs(lab.weir.origin + path, lab.weir.key, body)
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
  return marksIn(provider.requests.at(-1)!.json as Json)
}

const tool = (name: string, more: object = {}) => ({
  type: 'function',
  name,
  parameters: { type: 'object', properties: {} },
  ...more,
})
const said = (role: string, text: string, more: object = {}) => ({
  role,
  content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text, ...more }],
})
const call = (id: string) => [
  { type: 'function_call', call_id: id, name: 'a', arguments: '{}' },
  { type: 'function_call_output', call_id: id, output: 'Found.' },
]
const agent = (model: string) => ({
  model,
  instructions: 'You write code.',
  tools: [tool('a'), tool('b')],
  input: [said('user', 'Go.'), ...call('1'), ...call('2'), ...call('3')],
})
const mark = { cache_control: { type: 'ephemeral' } }

describe('where the provider is set to mark', () => {
  const marked = ['.system[0]', '.messages[4].content[0]', '.messages[6].content[0]', '.tools[1]']

  test('an agent without marks has its tools, instructions and last turns marked', async () => {
    expect((await marksSent('/v1/responses', agent('marking/claude'))).toSorted()).toEqual(marked.toSorted())
  })

  test('chat completions and Gemini are marked alike', async () => {
    const messages = [
      { role: 'system', content: 'You write code.' },
      { role: 'user', content: 'Go.' },
    ]
    expect(await marksSent('/v1/chat/completions', { model: 'marking/claude', messages })).toEqual([
      '.system[0]',
      '.messages[0].content[0]',
    ])
    const contents = [{ role: 'user', parts: [{ text: 'Go.' }] }]
    expect(await marksSent('/v1beta/models/marking/claude:generateContent', { contents })).toEqual([
      '.messages[0].content[0]',
    ])
  })

  test('what the client has marked itself stays as it is', async () => {
    const own = { ...agent('marking/claude'), input: [said('user', 'Go.', mark), said('user', 'On.')] }
    expect(await marksSent('/v1/responses', own)).toEqual(['.messages[0].content[0]'])
  })

  test('clients of Messages mark by themselves', async () => {
    const messages = [{ role: 'user', content: 'Go.' }]
    expect(await marksSent('/v1/messages', { model: 'marking/claude', max_tokens: 10, messages })).toEqual([])
  })

  test('Claude behind another protocol is marked, and no other model of the provider', async () => {
    const messages = [{ role: 'user', content: 'Go.' }]
    expect(await marksSent('/v1/chat/completions', { model: 'router/claude', messages })).toEqual([
      '.messages[0].content[0]',
    ])
    expect(await marksSent('/v1/chat/completions', { model: 'router/other', messages })).toEqual([])
  })

  test('cached input is charged as such', async () => {
    const response = await postAs(`${lab.weir.baseUrl}/responses`, lab.weir.key, agent('marking/claude'))
    const receipt = await receiptOf(lab.weir, response.headers.get('x-request-id') ?? '')
    expect(receipt?.lines.map(({ item, quantity }) => [item, quantity])).toContainEqual(['cache_read', 20])
  })
})

describe('where it is not', () => {
  test('nothing is marked that the client has not marked', async () => {
    expect(await marksSent('/v1/responses', agent('plain/claude'))).toEqual([])
  })

  test.each<[string, object, string[]]>([
    ['of a part', { input: [said('user', 'Go.', mark)] }, ['.messages[0].content[0]']],
    ['of a message', { input: [{ ...said('user', 'Go.'), ...mark }] }, ['.messages[0].content[0]']],
    [
      'of a result',
      { input: [said('user', 'Go.'), call('1')[0], { ...call('1')[1], ...mark }] },
      ['.messages[2].content[0]'],
    ],
    ['of a tool', { input: 'Go.', tools: [tool('a', mark)] }, ['.tools[0]']],
  ])("a client's mark %s reaches Claude from Responses", async (_, body, marked) => {
    expect(await marksSent('/v1/responses', { model: 'plain/claude', ...body })).toEqual(marked)
  })

  test('a mark on a call of chat completions reaches whoever has a word for it', async () => {
    const called = {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: '1', type: 'function', function: { name: 'a', arguments: '{}' }, ...mark }],
    }
    const messages = [
      { role: 'user', content: 'Go.' },
      called,
      { role: 'tool', tool_call_id: '1', content: 'Found.' },
    ]
    const sentBy = (model: string) => marksSent('/v1/chat/completions', { model, messages })
    expect(await sentBy('plain/claude')).toEqual(['.messages[1].content[0]'])
    expect(await sentBy('router/other')).toEqual(['.messages[1].tool_calls[0]'])
    expect(await sentBy('other/m')).toEqual([])
  })

  test('a mark that Claude does not know is refused by name', async () => {
    const input = [said('user', 'Go.', { cache_control: { type: 'ephemeral', ttl: '1w' } })]
    const response = await postAs(`${lab.weir.baseUrl}/responses`, lab.weir.key, {
      model: 'plain/claude',
      input,
    })
    expect(response.status).toBe(400)
    expect(await response.text()).toContain('cache_control')
  })
})

describe("OpenAI's own marks", () => {
  const breakpoint = { prompt_cache_breakpoint: { mode: 'explicit' } }
  const bodies: Readonly<Record<string, (model: string) => object>> = {
    '/v1/chat/completions': (model) => ({
      model,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Go.', ...breakpoint }] }],
      prompt_cache_options: { mode: 'explicit', ttl: '30m' },
    }),
    '/v1/responses': (model) => ({
      model,
      input: [said('user', 'Go.', breakpoint)],
      prompt_cache_options: { mode: 'explicit', ttl: '30m' },
    }),
  }

  test.each(Object.keys(bodies))('of %s reach OpenAI, and Claude as its own', async (path) => {
    for (const model of ['openai/m', 'answers/m']) {
      await marksSent(path, bodies[path]!(model))
      expect(JSON.stringify(provider.requests.at(-1)!.json)).toContain(
        JSON.stringify(breakpoint).slice(1, -1),
      )
    }
    expect(await marksSent(path, bodies[path]!('plain/claude'))).toEqual(['.messages[0].content[0]'])
    expect(await marksSent(path, bodies[path]!('other/m'))).toEqual([])
    expect(JSON.stringify(provider.requests.at(-1)!.json)).not.toContain('breakpoint')
  })
})
