// The official client's responses against a gateway fresh from its first run: asked, streamed, continued, kept and
// forgotten. The models are the simulator's.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { toResponseInputItems } from 'openai/lib/responses/ResponseInputItems'
import type { ResponseInput, ResponseStreamEvent, Tool } from 'openai/resources/responses/responses'
import { z } from 'zod'
import {
  accountWith,
  creditsOf,
  eventually,
  expectAudited,
  keyFor,
  restingCredits,
  getAs,
  postAs,
  failure,
} from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const dir = tempDir('weir-responses-')
const config = 'responses: { stored_bytes: 20000 }\nserver: { max_body_bytes: 60000 }'
let weir: ServedWeir
let client: OpenAI

const clientWith = (apiKey: string) => new OpenAI({ apiKey, baseURL: weir.baseUrl, maxRetries: 0 })

beforeAll(async () => {
  weir = await serveWeir({ config, dataDir: dir.join('data') })
  client = clientWith(weir.key)
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  dir.remove()
})

const functionTool = (name: string): Tool => ({
  type: 'function',
  name,
  description: `Tells the ${name}.`,
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: null,
})

const gone = { status: 400, code: 'previous_response_not_found', param: 'previous_response_id' }

describe('a response', () => {
  test('costs what it says, and its receipt is found by its id', async () => {
    const before = await restingCredits(weir)
    const response = await client.responses.create({
      model: 'sim/echo',
      input: 'The river runs.',
      instructions: 'Repeat.',
      metadata: { reach: 'upper' },
    })
    expect(response).toMatchObject({
      object: 'response',
      status: 'completed',
      output_text: 'The river runs.',
      model: 'sim/echo',
      instructions: 'Repeat.',
      metadata: { reach: 'upper' },
      store: true,
      error: null,
    })
    const usage = response.usage as OpenAI.Responses.ResponseUsage & {
      cost: number
      cost_details: { total: string }
    }
    expect(usage.total_tokens).toBe(usage.input_tokens + usage.output_tokens)
    const after = await creditsOf(weir)
    expect(Number(after.total_used) - Number(before.total_used)).toBeCloseTo(usage.cost, 12)
    const receipt = await getAs(`${weir.baseUrl}/generation?id=${response.id}`, weir.key)
    const { data } = (await receipt.json()) as { data: { total: string; ending: string } }
    expect(data).toMatchObject({ total: usage.cost_details.total, ending: 'finished' })
  })

  test('streams word by word, numbered from 0, and ends with the same response that is stored', async () => {
    const stream = await client.responses.create({ model: 'sim/echo', input: 'one two three', stream: true })
    const events: ResponseStreamEvent[] = await Array.fromAsync(stream)
    expect(events.map(({ type }) => type)).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()])
    const last = events.at(-1)! as Extract<ResponseStreamEvent, { type: 'response.completed' }>
    const { output_text, _request_id, ...stored } = await client.responses.retrieve(last.response.id)
    expect(output_text).toBe('one two three')
    expect(stored as object).toEqual(last.response)
  })

  test('is the same whether it is streamed or whole', async () => {
    const request = { model: 'sim/reason', input: 'Why is the sky blue?' }
    const whole = await client.responses.create(request)
    const streamed = await client.responses.stream(request).finalResponse()
    expect(streamed.output_text).toBe(whole.output_text)
    expect(streamed.usage).toEqual(whole.usage!)
    expect(streamed.output.map(({ type }) => type)).toEqual(['reasoning', 'message'])
    expect(whole.output.map(({ type }) => type)).toEqual(['reasoning', 'message'])
    expect(whole.usage?.output_tokens_details.reasoning_tokens).toBeGreaterThan(0)
  })

  test('is parsed by the schema it was asked for', async () => {
    const river = z.object({ name: z.string(), kilometres: z.number().int(), alpine: z.boolean() })
    const parsed = await client.responses.parse({
      model: 'sim/json',
      input: 'Describe a river.',
      text: { format: zodTextFormat(river, 'river') },
    })
    expect(river.safeParse(parsed.output_parsed).success).toBe(true)
  })

  test('is incomplete when its tokens end, and says why', async () => {
    const stream = client.responses.stream({
      model: 'sim/echo',
      input: 'one two three four five',
      max_output_tokens: 2,
    })
    const types: string[] = []
    stream.on('event', ({ type }) => types.push(type))
    const response = await stream.finalResponse()
    expect(response).toMatchObject({
      status: 'incomplete',
      incomplete_details: { reason: 'max_output_tokens' },
      completed_at: null,
      output: [{ type: 'message', status: 'incomplete' }],
    })
    expect(types.at(-1)).toBe('response.incomplete')
  })

  test('reads images and files that are sent with it, and nothing of a private address', async () => {
    const image = 'data:image/png;base64,iVBORw0KGgo='
    const ask = (image_url: string) =>
      client.responses.create({
        model: 'sim/echo',
        input: [
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'What is this?' },
              { type: 'input_image', image_url, detail: 'auto' },
              { type: 'input_file', filename: 'a.txt', file_data: 'data:text/plain;base64,aGVsbG8=' },
            ],
          },
        ],
      })
    expect((await ask(image)).status).toBe('completed')
    const refused = await failure(ask('http://127.0.0.1:9/secret.png'))
    expect(refused).toMatchObject({ code: 'url_not_allowed', param: 'input[0].content[1].image_url' })
  })

  test('tells what of the request is left out, or refuses it where it is strict', async () => {
    const request = { model: 'sim/echo', input: 'Hello', truncation: 'auto' } as const
    const { data, response } = await client.responses.create(request).withResponse()
    const { warnings } = data as unknown as { warnings: { param: string }[] }
    expect(warnings.map(({ param }) => param)).toEqual(['truncation'])
    expect(response.headers.get('x-weir-warnings')).toContain('truncation')
    const strict = await failure(client.responses.create({ ...request, strict: true } as typeof request))
    expect(strict).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'truncation' })
  })
})

describe('functions', () => {
  const tools = [functionTool('weather'), functionTool('time')]

  test('are called in parallel, answered, and continued from by the id alone', async () => {
    const first = await client.responses.stream({ model: 'sim/tools', input: 'Oslo?', tools }).finalResponse()
    const calls = first.output.filter((item) => item.type === 'function_call')
    expect(calls.map(({ name }) => name)).toEqual(['weather', 'time'])
    const results: ResponseInput = calls.map(({ call_id, name }) => ({
      type: 'function_call_output',
      call_id,
      output: `${name}: fine`,
    }))
    const next = await client.responses.create({
      model: 'sim/tools',
      previous_response_id: first.id,
      input: results,
      tools,
    })
    expect(next.previous_response_id).toBe(first.id)
    expect(next.output_text).toContain('weather: fine')
    const listed = await Array.fromAsync(
      client.responses.inputItems.list(next.id, { order: 'asc', limit: 2 }),
    )
    expect(listed.map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call',
      'function_call_output',
      'function_call_output',
    ])
    const latest = await client.responses.inputItems.list(next.id, { limit: 1 })
    expect(latest.data).toMatchObject([{ type: 'function_call_output', output: 'time: fine' }])
    expect(latest.has_more).toBe(true)
  })

  test('cannot be answered that were never called', async () => {
    const input: ResponseInput = [{ type: 'function_call_output', call_id: 'call_9', output: '?' }]
    const error = await failure(client.responses.create({ model: 'sim/tools', input, tools }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_request', param: 'input[0].call_id' })
  })
})

describe('a conversation', () => {
  test('goes on from any of its responses, sees what was said, and needs no instructions twice', async () => {
    const first = await client.responses.create({
      model: 'sim/echo',
      input: 'one',
      instructions: 'Be brief, as a river in a dry summer is brief.',
    })
    const second = await client.responses.create({
      model: 'sim/echo',
      input: 'two',
      previous_response_id: first.id,
    })
    const alone = await client.responses.create({ model: 'sim/echo', input: 'two' })
    expect(second.usage!.input_tokens).toBeGreaterThan(alone.usage!.input_tokens)
    expect(second.instructions).toBeNull()
    // The instructions of the first were longer than all that was said.
    expect(second.usage!.input_tokens).toBeLessThan(first.usage!.input_tokens + alone.usage!.input_tokens)
    const items = await Array.fromAsync(client.responses.inputItems.list(second.id, { order: 'asc' }))
    expect(items.map((item) => ('role' in item ? item.role : item.type))).toEqual([
      'user',
      'assistant',
      'user',
    ])
  })

  test('takes a result that it has already, as some clients send each twice, once', async () => {
    const tools = [{ type: 'function', name: 'depth', parameters: null, strict: null }] as const
    const input = 'How deep is it?'
    const first = await client.responses.create({ model: 'sim/tools', input, tools: [...tools] })
    const call = first.output.find(({ type }) => type === 'function_call') as { call_id: string }
    const result = { type: 'function_call_output', call_id: call.call_id, output: '3 m' } as const
    const second = await client.responses.create({
      model: 'sim/tools',
      input: [result],
      previous_response_id: first.id,
      tools: [...tools],
    })
    const third = await client.responses.create({
      model: 'sim/echo',
      input: [result, { role: 'user', content: 'And the lake?' }],
      previous_response_id: second.id,
    })
    const items = await Array.fromAsync(client.responses.inputItems.list(third.id))
    expect(items.filter(({ type }) => type === 'function_call_output')).toHaveLength(1)
  })

  test('takes a question that is sent once more in front of its result as the one it was', async () => {
    const tools = [{ type: 'function', name: 'depth', parameters: null, strict: null }] as const
    const asked = [{ role: 'user', content: [{ type: 'input_text', text: 'How deep is it?' }] }] as const
    const model = 'sim/tools'
    const first = await client.responses.create({ model, input: asked as never, tools: [...tools] })
    const call = first.output.find(({ type }) => type === 'function_call') as { call_id: string }
    const result = { type: 'function_call_output', call_id: call.call_id, output: '3 m' } as const
    const second = await client.responses.create({
      model,
      input: [...asked, result] as never,
      previous_response_id: first.id,
      tools: [...tools],
    })
    // Asked again behind the result, the model would call once more.
    expect(second.output.map(({ type }) => type)).toEqual(['message'])
    const again = await client.responses.create({
      model: 'sim/echo',
      input: asked as never,
      previous_response_id: second.id,
    })
    expect(again.output_text).toBe('How deep is it?')
  })

  test('refers to stored items by their ids', async () => {
    const first = await client.responses.create({ model: 'sim/echo', input: 'one' })
    const reference = { type: 'item_reference', id: first.output[0]!.id! } as const
    const next = await client.responses.create({
      model: 'sim/echo',
      input: [{ role: 'user', content: 'one' }, reference, { role: 'user', content: 'two' }],
    })
    const items = await client.responses.inputItems.list(next.id)
    expect(items.data.map((item) => ('role' in item ? item.role : item.type))).toEqual([
      'user',
      'assistant',
      'user',
    ])
    const unknown = await failure(
      client.responses.create({
        model: 'sim/echo',
        input: [
          { type: 'item_reference', id: `${reference.id}9` },
          { role: 'user', content: 'two' },
        ],
      }),
    )
    expect(unknown).toMatchObject({ status: 400, code: 'invalid_request', param: 'input[0].id' })
  })

  test('lists an item as often as it was sent, and comes to an end', async () => {
    const first = await client.responses.create({ model: 'sim/echo', input: 'one' })
    const said = first.output[0] as ResponseInput[number]
    const { id } = await client.responses.create({
      model: 'sim/echo',
      previous_response_id: first.id,
      input: [said, said, { role: 'user', content: 'two' }],
    })
    const items: { id?: string | null }[] = []
    for await (const item of client.responses.inputItems.list(id, { limit: 1 })) {
      items.push(item)
      if (items.length > 5) break
    }
    expect(items).toHaveLength(5)
    expect(new Set(items.map((item) => item.id)).size).toBe(5)
    expect(items.at(-2)?.id).toBe(first.output[0]!.id)
  })

  test('measures an item as often as it is referred to', async () => {
    const first = await client.responses.create({ model: 'sim/echo', input: 'water '.repeat(1000) })
    const reference = { type: 'item_reference', id: first.output[0]!.id! } as const
    const request = { model: 'sim/echo', input: Array.from({ length: 50 }, () => reference) }
    const { total_used } = await restingCredits(weir)
    expect(await failure(client.responses.create(request))).toMatchObject({ code: 'payload_too_large' })
    expect((await restingCredits(weir)).total_used).toBe(total_used)
  })

  test('that has grown larger than a body may be is refused, and nothing is charged', async () => {
    let previous: string | null = null
    const words = 'water '.repeat(1200)
    for (let turn = 0; turn < 4; turn++) {
      const { id }: { id: string } = await client.responses.create({
        model: 'sim/echo',
        input: words,
        previous_response_id: previous,
      })
      previous = id
    }
    const { total_used } = await restingCredits(weir)
    const request = { model: 'sim/echo', input: words, previous_response_id: previous }
    expect(await failure(client.responses.create(request))).toMatchObject({ code: 'payload_too_large' })
    expect((await restingCredits(weir)).total_used).toBe(total_used)
  })

  test('is as large as its items: what each response repeats of its request does not count', async () => {
    let previous: string | null = null
    const tools = [{ ...functionTool('level'), description: 'It tells the level of a river. '.repeat(300) }]
    for (let turn = 0; turn < 9; turn++) {
      const { id }: { id: string } = await client.responses.create({
        model: 'sim/echo',
        input: `turn ${turn}`,
        tools,
        previous_response_id: previous,
      })
      previous = id
    }
    // Of nine times nine kilobytes.
    const { data } = await client.responses.inputItems.list(previous!, { limit: 100 })
    expect(data.length).toBe(17)
  })

  test('costs in the estimate what it costs in the call', async () => {
    const first = await client.responses.create({ model: 'sim/echo', input: 'water '.repeat(500) })
    const estimate = async (body: object) => {
      const response = await postAs(`${weir.baseUrl}/estimate`, weir.key, {
        model: 'sim/echo',
        input: 'and then?',
        max_output_tokens: 10,
        ...body,
      })
      return (await response.json()) as { expected: string; maximum: string; error?: { code: string } }
    }
    const next = await client.responses.create({
      model: 'sim/echo',
      input: 'and then?',
      previous_response_id: first.id,
      max_output_tokens: 10,
    })
    const { cost } = next.usage as unknown as { cost: number }
    const told = await estimate({ previous_response_id: first.id })
    expect(Number(told.maximum)).toBeGreaterThanOrEqual(cost)
    // What was said before is most of it.
    expect(Number(told.expected)).toBeGreaterThan(Number((await estimate({})).expected) * 10)
    expect(await estimate({ previous_response_id: 'resp_nothing' })).toMatchObject({
      error: { code: gone.code },
    })
  })
})

describe('what is stored', () => {
  test('survives a restart, is gone when it is deleted, and cannot be continued then', async () => {
    const kept = await client.responses.create({ model: 'sim/echo', input: 'kept' })
    const { key } = weir
    await weir.stop()
    weir = { ...(await serveWeir({ config, dataDir: dir.join('data') })), key }
    client = clientWith(key)
    expect((await client.responses.retrieve(kept.id)).output_text).toBe('kept')
    await client.responses.delete(kept.id)
    expect(await failure(client.responses.retrieve(kept.id))).toBeInstanceOf(OpenAI.NotFoundError)
    expect(await failure(client.responses.delete(kept.id))).toBeInstanceOf(OpenAI.NotFoundError)
    const next = { model: 'sim/echo', input: 'and?', previous_response_id: kept.id }
    expect(await failure(client.responses.create(next))).toMatchObject(gone)
  }, 30_000)

  test('is nothing where store is false, or where it is too large, and the response says so', async () => {
    const unkept = await client.responses.create({ model: 'sim/echo', input: 'gone', store: false })
    const large = await client.responses.create({ model: 'sim/echo', input: 'water '.repeat(4000) })
    for (const { id, store } of [unkept, large] as (typeof unkept & { store: boolean })[]) {
      expect(store).toBe(false)
      expect(await failure(client.responses.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError)
    }
  })

  test('is its account’s alone', async () => {
    await accountWith(weir, 'other@example.org', { purchased: '1' })
    const other = clientWith((await keyFor(weir, 'other@example.org')).key)
    const { id, output } = await client.responses.create({ model: 'sim/echo', input: 'mine' })
    expect(await failure(other.responses.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError)
    expect(await failure(other.responses.delete(id))).toBeInstanceOf(OpenAI.NotFoundError)
    expect(await failure(other.responses.inputItems.list(id))).toBeInstanceOf(OpenAI.NotFoundError)
    const next = { model: 'sim/echo', input: 'and?', previous_response_id: id }
    expect(await failure(other.responses.create(next))).toMatchObject(gone)
    const input: ResponseInput = [{ type: 'item_reference', id: output[0]!.id! }]
    expect(await failure(other.responses.create({ model: 'sim/echo', input }))).toMatchObject({ status: 400 })
    expect((await client.responses.retrieve(id)).output_text).toBe('mine')
  })
})

test('an account that has stored as much as it may is answered all the same, and told that nothing is kept', async () => {
  await using small = await serveWeir({ config: 'responses: { account_bytes: 3000 }' })
  const full = new OpenAI({ apiKey: small.key, baseURL: small.baseUrl, maxRetries: 0 })
  const ask = async () =>
    (await full.responses.create({ model: 'sim/echo', input: 'Where to?' })) as OpenAI.Responses.Response & {
      store: boolean
    }
  const first = await ask()
  expect(first.store).toBe(true)
  let last = first
  for (let asked = 1; last.store && asked < 10; asked++) last = await ask()
  expect(last).toMatchObject({ store: false, status: 'completed', output_text: 'Where to?' })
  expect(await failure(full.responses.retrieve(last.id))).toBeInstanceOf(OpenAI.NotFoundError)
  await full.responses.delete(first.id)
  expect((await ask()).store).toBe(true)
})

test('what is stored expires when its time is over', async () => {
  await using brief = await serveWeir({ config: 'responses: { retention_ms: 1500 }' })
  const { responses } = new OpenAI({ apiKey: brief.key, baseURL: brief.baseUrl, maxRetries: 0 })
  const { id } = await responses.create({ model: 'sim/echo', input: 'gone soon' })
  expect((await responses.retrieve(id)).output_text).toBe('gone soon')
  const error = await eventually(
    () => failure(responses.retrieve(id)),
    (thrown) => thrown !== undefined,
  )
  expect(error).toBeInstanceOf(OpenAI.NotFoundError)
  const next = { model: 'sim/echo', input: 'and?', previous_response_id: id }
  expect(await failure(responses.create(next))).toMatchObject(gone)
}, 20_000)

describe('reasoning', () => {
  test('is sent back by a client that keeps everything, and read again', async () => {
    const request = { model: 'sim/reason', store: false, include: ['reasoning.encrypted_content' as const] }
    const first = await client.responses.create({ ...request, input: 'Why is the sky blue?' })
    expect(first.output[0]).toHaveProperty('encrypted_content')
    const input: ResponseInput = [
      { role: 'user', content: 'Why is the sky blue?' },
      ...toResponseInputItems(first.output),
      { role: 'user', content: 'And the sea?' },
    ]
    expect((await client.responses.create({ ...request, input })).output_text).toContain('And the sea?')
  })

  test('is shown encrypted to those alone that ask for it', async () => {
    const include = ['reasoning.encrypted_content' as const]
    const { id, output } = await client.responses.create({ model: 'sim/reason', input: 'Why?' })
    expect(output[0]).not.toHaveProperty('encrypted_content')
    expect((await client.responses.retrieve(id)).output[0]).not.toHaveProperty('encrypted_content')
    const told = await client.responses.retrieve(id, { include })
    expect(told.output[0]).toHaveProperty('encrypted_content')
  })
})

describe('what goes wrong', () => {
  test.each([
    ['an unknown model', { model: 'sim/nothing' }, { status: 404, code: 'model_not_found', param: 'model' }],
    ['no input', { input: undefined }, { status: 400, code: 'invalid_request', param: 'input' }],
    [
      'reasoning that is no text',
      { input: [{ type: 'reasoning', summary: [], encrypted_content: 7 }] },
      { status: 400, code: 'invalid_request', param: 'input[0].encrypted_content' },
    ],
    [
      'a part of no kind',
      { input: [{ role: 'user', content: [{ type: 'input_smell' }] }] },
      { status: 400, code: 'invalid_request', param: 'input[0].content[0].type' },
    ],
    [
      'the background, and not stored',
      { background: true, store: false },
      { status: 400, code: 'invalid_request', param: 'background' },
    ],
    [
      'a conversation that there is not',
      { conversation: 'conv_1' },
      { status: 404, code: 'not_found', param: 'conversation' },
    ],
    ['a prompt template', { prompt: { id: 'pmpt_1' } }, { code: 'unsupported_parameter', param: 'prompt' }],
    ['no response before', { previous_response_id: 'resp_nothing' }, gone],
    [
      'a body of chat completions',
      { input: undefined, messages: [{ role: 'user', content: 'Hello' }] },
      { status: 400, code: 'wrong_endpoint', param: 'messages' },
    ],
    ['a provider that fails', { model: 'sim/error-500' }, { status: 502, code: 'upstream_error' }],
    ['a provider that limits us', { model: 'sim/error-429' }, { status: 429, code: 'upstream_rate_limited' }],
  ])('%s is refused in the one shape of errors, and not charged', async (_, body, expected) => {
    const { total_used } = await restingCredits(weir)
    const request = { model: 'sim/echo', input: 'Hello', ...body } as { model: string; input: string }
    for (const stream of [false, true]) {
      const error = await failure(client.responses.create({ ...request, stream }))
      expect(error).toBeInstanceOf(OpenAI.APIError)
      expect(error).toMatchObject(expected)
    }
    expect((await restingCredits(weir)).total_used).toBe(total_used)
  })

  test('a stream that breaks off ends with an error and response.failed, and can be read', async () => {
    const response = await postAs(`${weir.baseUrl}/responses`, weir.key, {
      model: 'sim/cut',
      input: 'one two three four five six',
      stream: true,
    })
    const text = await response.text()
    const names = Array.from(text.matchAll(/^event: (.*)$/gm), ([, name]) => name)
    expect(names.slice(-2)).toEqual(['error', 'response.failed'])
    expect(text).not.toContain('[DONE]')
    const events = Array.from(text.matchAll(/^data: (.*)$/gm), ([, data]) => JSON.parse(data!) as Failed)
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()])
    expect(events.at(-2)).toMatchObject({
      code: 'upstream_error',
      message: expect.any(String),
      param: null,
      error: { type: 'provider_error', code: 'upstream_error', param: null },
    })
    const failed = events.at(-1)!.response!
    expect(failed).toMatchObject({
      status: 'failed',
      error: { code: 'upstream_error', message: expect.any(String) },
      usage: null,
      store: true,
    })
    expect(await client.responses.retrieve(failed.id)).toMatchObject({
      id: failed.id,
      status: 'failed',
      error: { code: 'upstream_error' },
      output: [{ type: 'message', status: 'incomplete' }],
    })
    const next = client.responses.create({ model: 'sim/echo', input: 'on', previous_response_id: failed.id })
    expect(await failure(next)).toMatchObject({ status: 400, param: 'previous_response_id' })
    const stream = await client.responses.create({ model: 'sim/cut', input: 'one two three', stream: true })
    expect(await failure(Array.fromAsync(stream))).toBeInstanceOf(OpenAI.APIError)
  })

  test('a client that leaves and wants the rest all the same finds it by the id it was told first', async () => {
    const request = { model: 'sim/slow', input: 'Hello', stream: true as const, on_disconnect: 'finish' }
    const stream = await client.responses.create(request)
    let id = ''
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id
      if (event.type === 'response.output_text.delta') break
    }
    const found = await eventually(
      () => client.responses.retrieve(id).catch(() => undefined),
      (response) => response !== undefined,
    )
    expect(found?.status).toBe('completed')
    expect(found?.output_text.split(' ')).toHaveLength(20)
  }, 20_000)

  test('the same request again with its Idempotency-Key is the same response, charged once', async () => {
    const ask = () =>
      client.responses.create(
        { model: 'sim/echo', input: 'once' },
        { headers: { 'idempotency-key': 'responses-once' } },
      )
    const first = await ask()
    const { total_used } = await restingCredits(weir)
    expect((await ask()).id).toBe(first.id)
    expect((await restingCredits(weir)).total_used).toBe(total_used)
    await client.responses.delete(first.id)
    expect(await failure(ask())).toMatchObject({ code: 'idempotency_answer_lost' })
    expect((await restingCredits(weir)).total_used).toBe(total_used)
  })

  test('a stream that breaks off is not stored for a client that wants nothing stored', async () => {
    const stream = await client.responses.create({
      model: 'sim/cut',
      input: 'one two three four',
      stream: true,
      store: false,
    })
    let id = ''
    const reading = (async () => {
      for await (const event of stream) if (event.type === 'response.created') id = event.response.id
    })()
    expect(await failure(reading)).toBeInstanceOf(OpenAI.APIError)
    expect(await failure(client.responses.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError)
  })
})

interface Failed {
  readonly sequence_number: number
  readonly response?: { readonly id: string }
}

test('a signed-in account is served the same, and has the responses that a key for all sees', async () => {
  const made = await weir.command('accounts', 'session', '--account', 'owner@localhost', '--json')
  const { token } = JSON.parse(made.stdout) as { token: string }
  const app = new OpenAI({ apiKey: token, baseURL: `${weir.origin}/app/v1`, maxRetries: 0 })
  const { id } = await app.responses.create({ model: 'sim/echo', input: 'from the app' })
  const wide = clientWith((await keyFor(weir, 'owner@localhost', '--sees', 'all')).key)
  expect((await wide.responses.retrieve(id)).output_text).toBe('from the app')
  expect(await failure(client.responses.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError)
  expect((await app.responses.inputItems.list(id)).data).toHaveLength(1)
  await app.responses.delete(id)
  expect(await failure(wide.responses.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError)
})

test('every charge of these responses is in a ledger that proves itself', () => expectAudited(weir))
