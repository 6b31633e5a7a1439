// Several messages in one turn, each with its phase: OpenAI's models answer worse where they do not get them back so.

import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { toResponseInputItems } from 'openai/lib/responses/ResponseInputItems'
import type { ResponseOutputItem, ResponseStreamEvent } from 'openai/resources/responses/responses'
import type { JsonObject } from '../../../src/conversation/request.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { recordedConfig } from './recorded-gateway.ts'

const said = (id: string, text: string, phase: string): JsonObject => ({
  type: 'message',
  id,
  role: 'assistant',
  status: 'completed',
  phase,
  content: [{ type: 'output_text', text, annotations: [] }],
})

const output: readonly JsonObject[] = [
  { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'c2VjcmV0' },
  said('msg_1', 'I look at the gauge.', 'commentary'),
  { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'gauge' } },
  said('msg_2', 'Still looking.', 'commentary'),
  said('msg_3', 'It is high.', 'final_answer'),
]
const usage = { input_tokens: 5, output_tokens: 9, total_tokens: 14 }
const answer: JsonObject = {
  id: 'resp_1',
  object: 'response',
  model: 'recorded',
  status: 'completed',
  output: [...output],
  usage,
}

/** The answer as a stream. The phase of the last message is known only when that has ended. */
function streamed(): string {
  const events: JsonObject[] = [{ type: 'response.created', response: { id: 'resp_1', model: 'recorded' } }]
  for (const [output_index, item] of output.entries()) {
    const { content, phase } = item as { content?: { text: string }[]; phase?: string }
    const begun = { ...item, ...(content && { content: [] }), status: 'in_progress' }
    events.push({
      type: 'response.output_item.added',
      output_index,
      item: phase === 'final_answer' ? { ...begun, phase: null } : begun,
    })
    const about: JsonObject = { item_id: item.id!, output_index, content_index: 0 }
    for (const word of content?.[0]?.text.match(/\S+\s*/g) ?? [])
      events.push({ type: 'response.output_text.delta', ...about, delta: word })
    events.push({ type: 'response.output_item.done', output_index, item })
  }
  events.push({ type: 'response.completed', response: answer })
  return events.map((event) => `event: ${String(event.type)}\ndata: ${JSON.stringify(event)}\n\n`).join('')
}

const chatAnswer = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 0,
  model: 'recorded',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 2, total_tokens: 7 },
}

let provider: ReturnType<typeof Bun.serve>
let weir: ServedWeir
let client: OpenAI
/** The bodies that the provider was sent. */
let bodies: JsonObject[]

beforeAll(async () => {
  provider = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const body = (await request.json()) as JsonObject
      bodies.push(body)
      if (new URL(request.url).pathname !== '/responses') return Response.json(chatAnswer)
      return body.stream === true
        ? new Response(streamed(), { headers: { 'content-type': 'text/event-stream' } })
        : Response.json(answer)
    },
  })
  const config = recordedConfig(
    [
      { provider: 'same', protocol: 'openai-responses' },
      { provider: 'other', protocol: 'openai-chat' },
    ],
    `http://127.0.0.1:${provider.port}`,
  )
  weir = await serveWeir({ config })
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)
beforeEach(() => {
  bodies = []
})
afterAll(async () => {
  await weir?.stop()
  await provider?.stop(true)
})

const messages = [
  { phase: 'commentary', text: 'I look at the gauge.' },
  { phase: 'commentary', text: 'Still looking.' },
  { phase: 'final_answer', text: 'It is high.' },
]

function messagesIn(items: readonly ResponseOutputItem[]) {
  return items.flatMap((item) => {
    if (item.type !== 'message') return []
    const [part] = item.content
    return [{ phase: item.phase, text: part?.type === 'output_text' ? part.text : undefined }]
  })
}

/** The assistant's messages as the provider was sent them last. */
function sentMessages(): JsonObject[] {
  const items = (bodies.at(-1)!.input ?? bodies.at(-1)!.messages) as JsonObject[]
  return items.filter(({ role }) => role === 'assistant')
}

const asSent = messages.map(({ phase, text }) => ({
  role: 'assistant',
  phase,
  content: [{ type: 'output_text', text }],
}))

const asked = { model: 'same/recorded', input: 'How high is the river?' }

test('the messages of an answer stay apart, each with its id and phase', async () => {
  const response = await client.responses.create(asked)
  expect(messagesIn(response.output)).toEqual(messages as never)
  expect(new Set(response.output.map(({ id }) => id)).size).toBe(output.length)
  expect(response.output_text).toBe('I look at the gauge.Still looking.It is high.')
  const stored = await client.responses.retrieve(response.id)
  expect(messagesIn(stored.output)).toEqual(messages as never)
})

test('a stream says the phase as soon as it is known, and ends with the same messages', async () => {
  const events: ResponseStreamEvent[] = []
  for await (const event of await client.responses.create({ ...asked, stream: true })) events.push(event)
  const items = (type: 'response.output_item.added' | 'response.output_item.done') =>
    events.flatMap((event) => (event.type === type && event.item.type === 'message' ? [event.item] : []))
  const begun = items('response.output_item.added').map(({ phase }) => phase)
  expect(begun).toEqual(['commentary', 'commentary', undefined])
  expect(messagesIn(items('response.output_item.done'))).toEqual(messages as never)
  const last = events.at(-1)!
  expect(last.type === 'response.completed' && messagesIn(last.response.output)).toEqual(messages as never)
})

test('a conversation that is continued by its id goes back to the provider message by message', async () => {
  const { id } = await client.responses.create(asked)
  await client.responses.create({ ...asked, input: 'And now?', previous_response_id: id })
  expect(sentMessages()).toEqual(asSent)
})

test('a conversation that the client keeps goes back message by message', async () => {
  const response = await client.responses.create({
    ...asked,
    store: false,
    include: ['reasoning.encrypted_content'],
  })
  const input = [...toResponseInputItems(response.output), { role: 'user', content: 'And now?' } as const]
  await client.responses.create({ ...asked, input })
  expect(sentMessages()).toEqual(asSent)
  const [thought, first] = bodies.at(-1)!.input as JsonObject[]
  expect([thought!.encrypted_content, first!.phase]).toEqual(['c2VjcmV0', 'commentary'])
})

test('messages and calls of a turn keep their order', async () => {
  const call = (id: string) =>
    ({ type: 'function_call', call_id: id, name: 'level', arguments: '{}' }) as const
  const done = (id: string) => ({ type: 'function_call_output', call_id: id, output: '3 m' }) as const
  const turn = [
    call('call_1'),
    { role: 'assistant', content: 'One moment.' } as const,
    call('call_2'),
    { role: 'assistant', content: 'Soon.', phase: 'commentary' } as const,
    { role: 'assistant', content: 'Now.' } as const,
  ]
  const input = [{ role: 'user', content: 'How high?' } as const, ...turn, done('call_1'), done('call_2')]
  await client.responses.create({ ...asked, input })
  const sent = (bodies.at(-1)!.input as JsonObject[]).map(({ role, call_id, content, phase }) => {
    const [part] = Array.isArray(content) ? (content as JsonObject[]) : []
    return [call_id ?? role, part?.text, phase].filter((fact) => fact !== undefined).join(' ')
  })
  expect(sent).toEqual([
    'user',
    'call_1',
    'assistant One moment.',
    'call_2',
    'assistant Soon. commentary',
    'assistant Now.',
    'call_1',
    'call_2',
  ])
})

test('a provider without phases gets the texts of a turn as one message', async () => {
  const { id } = await client.responses.create(asked)
  const { output_text } = await client.responses.create({
    model: 'other/recorded',
    input: 'And now?',
    previous_response_id: id,
  })
  expect(output_text).toBe('Yes.')
  expect(JSON.stringify(bodies.at(-1))).not.toContain('phase')
  expect(sentMessages()).toHaveLength(1)
  expect(JSON.stringify(sentMessages())).toMatch(/I look at the gauge\..*Still looking\..*It is high\./)
})
