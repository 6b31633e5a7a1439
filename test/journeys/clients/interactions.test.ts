// Gemini's Interactions with Google's own client library: create, stream, continue, get, delete.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GoogleGenAI } from '@google/genai'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { until } from '../../chat/lab.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let google: GoogleGenAI
let root: string

beforeAll(async () => {
  weir = await serveWeir()
  root = weir.baseUrl.replace(/\/v1$/, '')
  google = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: root } })
})

afterAll(() => weir?.stop())

const post = (body: Json, headers: Record<string, string> = {}) =>
  fetch(`${root}/v1beta/interactions`, {
    method: 'POST',
    headers: { 'x-goog-api-key': weir.key, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })

const receipt = (id: string) => receiptOf(weir, id.replace('int_', 'req_'))

describe('an interaction', () => {
  test('is answered, charged once, continued, read again and deleted', async () => {
    const first = await google.interactions.create({ model: 'sim/echo', input: 'Hello, river.' })
    expect(first).toMatchObject({ status: 'completed', model: 'sim/echo' })
    expect(first.output_text).toContain('Hello, river.')
    expect(first.usage?.total_tokens).toBeGreaterThan(0)
    expect(await receipt(first.id)).toMatchObject({ state: 'settled', ending: 'finished' })

    const next = await google.interactions.create({
      model: 'sim/echo',
      input: [{ type: 'text', text: 'Where to?' }],
      previous_interaction_id: first.id,
    })
    expect(next.previous_interaction_id).toBe(first.id)
    expect(next.output_text).toContain('Where to?')
    expect(next.usage!.total_input_tokens!).toBeGreaterThan(first.usage!.total_input_tokens!)

    const read = await google.interactions.get(first.id)
    expect(read).toMatchObject({ id: first.id, steps: first.steps! })
    await google.interactions.delete(first.id)
    const gone: unknown = await google.interactions.get(first.id).catch((error: unknown) => error)
    expect(gone).toMatchObject({ status: 404 })
  })

  test('is streamed in steps, and again from what is stored', async () => {
    const stream = await google.interactions.create({
      model: 'sim/echo',
      input: 'Hello, river.',
      stream: true,
    })
    const live = await eventsOf(stream)
    const id = (live.events.at(-1) as { interaction: { id: string } }).interaction.id
    expect(live.text).toContain('Hello, river.')
    expect(live.types.slice(0, 3)).toEqual(['interaction.created', 'interaction.status_update', 'step.start'])
    expect(live.types.slice(-2)).toEqual(['step.stop', 'interaction.completed'])
    expect(live.events.at(-1)).toMatchObject({ interaction: { status: 'completed' } })
    expect(await receipt(id)).toMatchObject({ state: 'settled', ending: 'finished' })

    const stored = await eventsOf(await google.interactions.get(id, { stream: true }))
    expect(stored.text).toBe(live.text)
    expect(stored.types.at(-1)).toBe('interaction.completed')
  })

  test('whose function is called asks for its result, and goes on with it', async () => {
    const tools = [
      { type: 'function' as const, name: 'level', parameters: { type: 'object', properties: {} } },
    ]
    const asked = { model: 'sim/tools', input: 'How deep is it?', tools }
    const whole = await google.interactions.create(asked)
    const call = whole.steps!.find((step) => step.type === 'function_call')!
    expect([whole.status, call.name]).toEqual(['requires_action', 'level'])
    const streamed = await eventsOf(await google.interactions.create({ ...asked, stream: true }))
    expect(streamed.types).toContain('step.delta')
    expect(streamed.events.at(-1)).toMatchObject({ interaction: { status: 'requires_action' } })

    const end = await google.interactions.create({
      model: 'sim/tools',
      tools,
      previous_interaction_id: whole.id,
      input: [{ type: 'function_result', call_id: call.id, name: 'level', result: { metres: 4 } }],
    })
    expect(end.status).toBe('completed')
  })

  test('a conversation that the client keeps is sent as steps', async () => {
    const { output_text } = await google.interactions.create({
      model: 'sim/echo',
      store: false,
      input: [
        { type: 'user_input', content: [{ type: 'text', text: 'Hello.' }] },
        { type: 'model_output', content: [{ type: 'text', text: 'Hello!' }] },
        { type: 'user_input', content: [{ type: 'text', text: 'Where to?' }] },
      ],
    })
    expect(output_text).toContain('Where to?')
  })

  test('sent twice with one Idempotency-Key is charged once', async () => {
    const headers = { 'idempotency-key': 'river-1' }
    const first = await post({ model: 'sim/echo', input: 'once' }, headers)
    const second = await post({ model: 'sim/echo', input: 'once' }, headers)
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    expect(await second.json()).toEqual(await first.json())
  })
})

describe('what cannot be honoured is refused in the words of the protocol', () => {
  test.each<[string, JsonObject]>([
    ['tools[0]', { tools: [{ type: 'code_execution' }] }],
    ['agent', { agent: 'deep-research' }],
    ['background', { background: true }],
    ['cached_content', { cached_content: 'cachedContents/a' }],
    ['safety_settings', { safety_settings: [{ type: 'harassment', threshold: 'block_low_and_above' }] }],
    ['response_modalities', { response_modalities: ['audio'] }],
    ['input[0]', { input: [{ type: 'code_execution_call', id: 'a' }] }],
  ])('%s', async (param, more) => {
    const response = await post({ model: 'sim/echo', input: 'hi', ...more })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code: 'unsupported_parameter', param } })
  })

  test.each([
    [401, { 'x-goog-api-key': 'sk-weir-live-wrong' }, { model: 'sim/echo', input: 'hi' }],
    [404, {}, { model: 'sim/nothing', input: 'hi' }],
    [400, {}, { model: 'sim/echo' }],
    [400, {}, { model: 'sim/echo', input: 'hi', previous_interaction_id: 'int_nothing' }],
  ])('%p', async (status, headers, body) => {
    const response = await post(body, headers as Record<string, string>)
    const { error } = (await response.json()) as { error: { code: unknown; message: unknown } }
    expect([response.status, typeof error.code, typeof error.message]).toEqual([status, 'string', 'string'])
  })
})

test('a stream that its client cuts anywhere is settled once', async () => {
  for (const events of [0, 1, 3]) {
    const stop = new AbortController()
    const response = await fetch(`${root}/v1beta/interactions`, {
      method: 'POST',
      headers: { 'x-goog-api-key': weir.key, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/slow', input: 'Hello, river. '.repeat(20), stream: true }),
      signal: stop.signal,
    })
    const id = response.headers.get('x-request-id')!
    const reader = response.body!.getReader()
    for (let read = 0; read < events; read++) await reader.read()
    stop.abort()
    const isOver = (state: string | undefined) => state === 'settled' || state === 'voided'
    await until(async () => (await receiptOf(weir, id))?.state, isOver)
  }
})

/** All events of a stream, with the text that they add up to. */
async function eventsOf(stream: AsyncIterable<unknown>) {
  const events = (await Array.fromAsync(stream)) as JsonObject[]
  const text = events.map(({ delta }) => (delta as { text?: string } | undefined)?.text ?? '').join('')
  return { events, text, types: events.map(({ event_type }) => event_type) }
}
