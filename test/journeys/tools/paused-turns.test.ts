// Anthropic pauses a turn of many searches (`pause_turn`) and goes on when it is sent back. Weir does that for clients of
// protocols that know no such thing; those of the Messages API do it themselves.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import type { Json, JsonObject } from '../../../src/conversation/request.ts'
import { receiptOf } from '../../support/call-gateway.ts'
import { cases } from '../../support/recordings.ts'
import { type Replay, replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let replay: ReplayServer
let openai: OpenAI
let anthropic: Anthropic
/** What is answered to a turn that comes back. */
let rest: JsonObject

const pausedTurns = cases('anthropic').filter(({ id }) => id.includes('pause-turn'))

/** A message, whole or as its stream. */
function answerOf(message: JsonObject, streams: boolean): Replay {
  const body = streams ? eventsOf(message) : JSON.stringify(message)
  const type = streams ? 'text/event-stream' : 'application/json'
  return { status: 200, headers: { 'content-type': type }, body: new TextEncoder().encode(body) }
}

function eventsOf({ content, stop_reason, usage, ...message }: JsonObject): string {
  const blocks = (content as JsonObject[]).flatMap((content_block, index) => [
    { type: 'content_block_start', index, content_block },
    { type: 'content_block_stop', index },
  ])
  const events = [
    { type: 'message_start', message: { ...message, usage: { input_tokens: 1, output_tokens: 1 } } },
    ...blocks,
    { type: 'message_delta', delta: { stop_reason }, usage },
    { type: 'message_stop' },
  ]
  return events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join('')
}

/** The search of a paused turn that has no result yet. */
function openSearchOf(request: JsonObject): JsonObject | undefined {
  const last = (request['messages'] as { role: string; content: JsonObject[] }[]).at(-1)!
  const block = last.role === 'assistant' ? last.content.at(-1)! : undefined
  return block?.['type'] === 'server_tool_use' ? block : undefined
}

beforeAll(async () => {
  replay = startReplayServer(({ json }) => {
    const request = json as JsonObject
    const streams = request['stream'] === true
    if (replay.requests.length > 1) return answerOf(rest, streams)
    return replayOf(pausedTurns.find(({ streamed }) => streamed === streams)!)
  })
  weir = await serveWeir({
    config: JSON.stringify({
      providers: { anthropic: { base_url: replay.url, api_key: 'key-of-anthropic-0123456789' } },
      local_servers: { discover: false },
      limits: { tool_calls: 3 },
    }),
  })
  openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
  anthropic = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
})

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
})

const page = { type: 'web_search_result', url: 'https://a.example/', title: 'A', encrypted_content: 'x' }
const resultOf = (id: Json) => ({ type: 'web_search_tool_result', tool_use_id: id, content: [page] })
const message = { id: 'msg_2', type: 'message', role: 'assistant', model: 'claude-sonnet-4-5' }

beforeEach(() => {
  ;(replay.requests as unknown[]).length = 0
  rest = {
    ...message,
    get content() {
      const open = openSearchOf(replay.requests.at(-1)!.json as JsonObject)
      return [resultOf(open?.['id'] ?? 'none'), { type: 'text', text: 'It is clear.' }]
    },
    stop_reason: 'end_turn',
    usage: { input_tokens: 100, output_tokens: 10, server_tool_use: { web_search_requests: 1 } },
  }
})

const model = 'anthropic/claude-sonnet-4-5'
const question = 'What is the weather like?'
const searches = (max_uses: number) => [{ type: 'web_search', max_uses }] as never[]

/** The second request brings back what the first answer was, and the rest of its searches. */
function expectGoesOn(): void {
  const [, second] = replay.requests.map(({ json }) => json as JsonObject)
  const last = (second!['messages'] as { role: string; content: JsonObject[] }[]).at(-1)!
  expect(last.role).toBe('assistant')
  expect(last.content[0]).toMatchObject({ type: 'thinking', signature: expect.any(String) })
  expect(openSearchOf(second!)).toMatchObject({ name: 'web_search', input: { query: expect.any(String) } })
  const uses = last.content.filter(({ type }) => type === 'server_tool_use')
  const results = last.content.filter(({ type }) => type === 'web_search_tool_result')
  expect(uses.length).toBe(results.length + 1)
  expect(second!['tools']).toMatchObject([{ type: 'web_search_20250305', max_uses: 20 - results.length }])
}

/** Both rounds are on the receipt, and each search is charged once. */
async function expectCharged(response: Response): Promise<number> {
  const { lines, state } = (await receiptOf(weir, response.headers.get('x-request-id')!))!
  expect([state, new Set(lines.map(({ round }) => round))]).toEqual(['settled', new Set([1, 2])])
  return lines
    .filter(({ item }) => item === 'call:web_search')
    .reduce((sum, { quantity }) => sum + quantity, 0)
}

describe('a turn that pauses is gone on with', () => {
  test.each([false, true])('for chat completions (stream: %p)', async (stream) => {
    const { data, response } = await openai.chat.completions
      .create({
        model,
        messages: [{ role: 'user', content: question }],
        tools: searches(20),
        stream,
        ...(stream && { stream_options: { include_usage: true } }),
      })
      .withResponse()
    let text = ''
    let finish: string | null = null
    if (Symbol.asyncIterator in data) {
      for await (const { choices } of data) {
        text += choices[0]?.delta.content ?? ''
        finish = choices[0]?.finish_reason ?? finish
      }
    } else {
      text = data.choices[0]!.message.content!
      finish = data.choices[0]!.finish_reason
    }
    expect(text).toEndWith('It is clear.')
    expect(text.length).toBeGreaterThan('It is clear.'.length)
    expect(finish).toBe('stop')
    expectGoesOn()
    expect(await expectCharged(response)).toBe(11)
  })

  test.each([false, true])('for responses, with each search an item (stream: %p)', async (stream) => {
    const asked = { model, input: question, tools: searches(20) }
    const { output, status } = stream
      ? await openai.responses.stream(asked).finalResponse()
      : await openai.responses.create(asked)
    expect(status).toBe('completed')
    expectGoesOn()
    const found = output.flatMap((item) => (item.type === 'web_search_call' ? [item] : []))
    expect(found).toHaveLength(11)
    expect(found.map((item) => item.status)).toEqual(found.map(() => 'completed'))
    // Of a whole answer it is not known what was looked for before the pause.
    if (stream) expect(found.map(({ action }) => 'query' in action && action.query)).not.toContain('')
  })
})

describe('it ends there', () => {
  const asked = (max_uses: number, more: object = {}) =>
    openai.chat.completions.create({
      model,
      messages: [{ role: 'user', content: question }],
      tools: searches(max_uses),
      ...more,
    })

  test('where all searches of the request are used up', async () => {
    const { choices } = await asked(10)
    expect([String(choices[0]!.finish_reason), replay.requests.length]).toEqual(['other', 1])
  })

  test('where it pauses again and again: as often as tools may be called', async () => {
    const text = { type: 'text', text: 'Wait. ' }
    const usage = { input_tokens: 100, output_tokens: 10 }
    rest = { ...message, content: [text], stop_reason: 'pause_turn', usage }
    const { choices } = await asked(20)
    expect([String(choices[0]!.finish_reason), replay.requests.length]).toEqual(['other', 1 + 3])
  })

  test('where max_cost does not pay for another round', async () => {
    const body = await asked(20, { max_cost: '1.32' })
    expect(body).toMatchObject({
      metadata: { stopped_by: 'max_cost' },
      choices: [{ finish_reason: 'length' }],
    })
    expect(replay.requests).toHaveLength(1)
  })
})

test('a client of the Messages API is given the pause, as Anthropic documents it', async () => {
  const { stop_reason, content } = await anthropic.messages.create({
    model,
    max_tokens: 1_000,
    messages: [{ role: 'user', content: question }],
    tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 20 }],
  })
  expect([stop_reason, content.at(-1)!.type, replay.requests.length]).toEqual([
    'pause_turn',
    'server_tool_use',
    1,
  ])
})
