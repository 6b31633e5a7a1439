// The simulated provider: what its models answer, and that every frame meets the wire contract.

import { describe, expect, test } from 'bun:test'
import { SseDecoder } from '../../src/protocols/framing/sse.ts'
import { simulate } from '../../src/providers/simulator/simulator.ts'

interface Call {
  index?: number
  id?: string
  type?: string
  function: { name?: string; arguments: string }
}
interface Choice {
  index: number
  message: { role: string; content: string | null; reasoning_content?: string; tool_calls?: Call[] }
  delta: { role?: string; content?: string; reasoning_content?: string; tool_calls?: Call[] }
  finish_reason: string | null
  logprobs: { content: { token: string }[] } | null
}
interface Body {
  id: string
  created: number
  model: string
  object: string
  choices: Choice[]
  usage: {
    prompt_tokens: number
    completion_tokens: number
    total_tokens: number
    prompt_tokens_details: { cached_tokens: number; cache_write_tokens: number; audio_tokens: number }
    completion_tokens_details: { reasoning_tokens: number }
  } | null
  error?: { message: string; type: string; param: string | null; code: string | null }
}

const user = (content: unknown) => [{ role: 'user', content }]

function post(body: unknown, init: { signal?: AbortSignal; headers?: Record<string, string> } = {}) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return simulate(new Request('http://sim/v1/chat/completions', { method: 'POST', body: text, ...init }))
}

async function whole(body: object): Promise<Body> {
  const response = await post(body)
  expect(response.headers.get('content-type')).toBe('application/json')
  return (await response.json()) as Body
}

async function stream(body: object): Promise<string[]> {
  const response = await post({ ...body, stream: true })
  expect(response.headers.get('content-type')).toStartWith('text/event-stream')
  const decoder = new SseDecoder()
  return [...decoder.push(new Uint8Array(await response.arrayBuffer())), ...decoder.end()].map(
    ({ data }) => data,
  )
}

async function chunks(body: object): Promise<Body[]> {
  const frames = await stream(body)
  expect(frames.at(-1)).toBe('[DONE]')
  return frames.slice(0, -1).map((data) => JSON.parse(data) as Body)
}

const joined = (all: Body[], index = 0) =>
  all.flatMap((chunk) => chunk.choices.filter((each) => each.index === index))

const weather = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { enum: ['celsius', 'fahrenheit'] } },
      required: ['city', 'unit'],
    },
  },
}
const clock = { type: 'function', function: { name: 'now' } }

describe('an answer', () => {
  test('repeats the prompt and counts it', async () => {
    const body = await whole({ model: 'echo', messages: user('The river runs.') })
    expect(body.choices).toEqual([
      {
        index: 0,
        message: { role: 'assistant', content: 'The river runs.', refusal: null, annotations: [] },
        logprobs: null,
        finish_reason: 'stop',
      },
    ] as never)
    // 15 bytes are 4 tokens, and the message costs 3.
    expect(body.usage).toMatchObject({ prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 })
  })

  test('is the same for the same request, and has ids of its own under another client request id', async () => {
    const request = { model: 'tools', messages: user('hi'), tools: [weather] }
    const text = async (headers?: Record<string, string>) =>
      await (await post(request, headers ? { headers } : {})).text()
    expect(await text()).toBe(await text())
    expect(await text({ 'x-client-request-id': 'other' })).not.toBe(await text())
  })

  test.each([
    ['a text part', [{ type: 'text', text: 'abcd' }], 4],
    ['an image', [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA', detail: 'low' } }], 88],
    ['audio', [{ type: 'input_audio', input_audio: { data: 'A'.repeat(256), format: 'wav' } }], 6],
    ['a letter of four bytes', '𝄞', 4],
  ])('counts %s', async (_, content, tokens) => {
    expect((await whole({ model: 'echo', messages: user(content) })).usage?.prompt_tokens).toBe(tokens)
  })

  test('is half from the cache when the prompt has a cache key', async () => {
    const request = { model: 'echo', messages: user('x'.repeat(400)) }
    expect((await whole(request)).usage?.prompt_tokens_details.cached_tokens).toBe(0)
    const cached = await whole({ ...request, prompt_cache_key: 'k' })
    expect(cached.usage?.prompt_tokens_details.cached_tokens).toBe(51)
  })

  test.each([
    [{ max_tokens: 2 }, 'one two', 'length'],
    [{ max_completion_tokens: 1, max_tokens: 9 }, 'one', 'length'],
    [{ max_tokens: 4 }, 'one two three four', 'stop'],
    [{ stop: ' three' }, 'one two', 'stop'],
    [{ stop: ['four', 'two'] }, 'one ', 'stop'],
  ])('with %p ends where it must', async (limits, text, finish) => {
    const body = await whole({ model: 'echo', messages: user('one two three four'), ...limits })
    expect(body.choices[0]?.message.content).toBe(text)
    expect(body.choices[0]?.finish_reason).toBe(finish)
  })

  test('comes n times, and all of them are counted', async () => {
    const body = await whole({ model: 'echo', messages: user('one two'), n: 3 })
    expect(body.choices.map((each) => each.index)).toEqual([0, 1, 2])
    expect(body.usage?.completion_tokens).toBe(6)
  })

  test('are together no longer than the longest answer', async () => {
    const asked = { model: 'long', messages: user('x'), max_tokens: 131_072, n: 128 }
    const { choices, usage } = await whole(asked)
    expect(usage?.completion_tokens).toBe(131_072)
    expect(new Set(choices.map(({ finish_reason }) => finish_reason))).toEqual(new Set(['length']))
  })

  test('with log probabilities is no longer than the longest answer', async () => {
    const asked = { model: 'echo', messages: user(' a'.repeat(131_073)), logprobs: true }
    const { choices, usage } = await whole(asked)
    expect(usage?.completion_tokens).toBe(131_072)
    expect(choices[0]?.finish_reason).toBe('length')
  })

  test('has the probability of each token when that is asked for', async () => {
    const body = await whole({ model: 'echo', messages: user('one two'), logprobs: true })
    expect(body.choices[0]?.logprobs?.content.map((each) => each.token)).toEqual(['one', ' two'])
  })
})

describe('models', () => {
  test('long answers with 2,000 tokens, or is cut at the limit', async () => {
    const open = await whole({ model: 'long', messages: user('go') })
    expect([open.usage?.completion_tokens, open.choices[0]?.finish_reason]).toEqual([2000, 'stop'])
    const cut = await whole({ model: 'long', messages: user('go'), max_tokens: 30 })
    expect([cut.usage?.completion_tokens, cut.choices[0]?.finish_reason]).toEqual([30, 'length'])
  })

  test('reason thinks as hard as it is told, inside the completion count', async () => {
    const tokens = async (effort: string) => {
      const { usage, choices } = await whole({
        model: 'reason',
        messages: user('Why?'),
        reasoning_effort: effort,
      })
      expect(choices[0]?.message.content).toBe('Why?')
      expect(usage?.completion_tokens).toBe(usage!.completion_tokens_details.reasoning_tokens + 1)
      return usage!.completion_tokens_details.reasoning_tokens
    }
    expect(await tokens('none')).toBe(0)
    expect(await tokens('high')).toBeGreaterThan(await tokens('low'))
  })

  test('json fills the schema of the answer', async () => {
    const schema = { type: 'object', properties: { ok: { type: 'boolean' } }, required: ['ok'] }
    const body = await whole({
      model: 'json',
      messages: user('go'),
      response_format: { type: 'json_schema', json_schema: { name: 'a', schema } },
    })
    expect(JSON.parse(body.choices[0]!.message.content!)).toEqual({ ok: true })
  })

  test.each([
    ['all of them at once', {}, ['get_weather', 'now']],
    ['one where they may not be parallel', { parallel_tool_calls: false }, ['get_weather']],
    ['the one that is named', { tool_choice: { type: 'function', function: { name: 'now' } } }, ['now']],
    ['none where that is the choice', { tool_choice: 'none' }, undefined],
    [
      'those that are allowed',
      {
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'now' } }] },
        },
      },
      ['now'],
    ],
  ])('tools calls %s', async (_, choice, names) => {
    const body = await whole({ model: 'tools', messages: user('go'), tools: [weather, clock], ...choice })
    const { message, finish_reason } = body.choices[0]!
    expect(message.tool_calls?.map((call) => call.function.name)).toEqual(names)
    expect(finish_reason).toBe(names ? 'tool_calls' : 'stop')
    expect(message.content).toBe(names ? null : 'go')
    for (const call of message.tool_calls ?? []) {
      const expected = call.function.name === 'now' ? {} : { city: 'sample city', unit: 'celsius' }
      expect(JSON.parse(call.function.arguments)).toEqual(expected)
    }
  })

  test('tools makes no call that its limit would cut', async () => {
    const calls = async (limit: number) => {
      const request = { model: 'tools', messages: user('go'), tools: [clock, weather], max_tokens: limit }
      const { message, finish_reason } = (await whole(request)).choices[0]!
      return [message.tool_calls?.length ?? 0, finish_reason]
    }
    expect(await calls(1)).toEqual([1, 'tool_calls'])
    expect(await calls(100)).toEqual([2, 'tool_calls'])
    const request = { model: 'tools', messages: user('go'), tools: [weather], max_tokens: 1 }
    expect((await whole(request)).choices[0]?.finish_reason).toBe('length')
  })

  test('tools sums up the results, by the names of the calls', async () => {
    const call = (id: string, name: string) => ({ id, type: 'function', function: { name, arguments: '{}' } })
    const body = await whole({
      model: 'tools',
      tools: [weather],
      messages: [
        ...user('go'),
        { role: 'assistant', content: null, tool_calls: [call('a', 'get_weather'), call('b', 'now')] },
        { role: 'tool', tool_call_id: 'b', content: 'noon' },
        { role: 'tool', tool_call_id: 'a', content: 'sunny' },
      ],
    })
    expect(body.choices[0]?.message.content).toBe('now answered: noon\nget_weather answered: sunny')
    expect(body.choices[0]?.finish_reason).toBe('stop')
  })

  test.each([
    ['repeats the prompt', {}, 'stop'],
    ['repeats the prompt although tools are offered', { tools: [clock] }, 'stop'],
    ['calls a tool when it must', { tools: [clock], tool_choice: 'required' }, 'tool_calls'],
  ])('any other model %s', async (_, fields, finish) => {
    const body = await whole({ model: 'claude-opus', messages: user('go'), ...fields })
    expect(body.model).toBe('claude-opus')
    expect(body.choices[0]?.finish_reason).toBe(finish)
  })

  test('any other model writes JSON when that is asked for', async () => {
    const body = await whole({
      model: 'gemini',
      messages: user('go'),
      response_format: { type: 'json_object' },
    })
    expect(JSON.parse(body.choices[0]!.message.content!)).toEqual({ answer: 'go' })
  })
})

describe('a stream', () => {
  test('goes role, words, finish, usage, [DONE], with every key of the contract', async () => {
    const all = await chunks({
      model: 'echo',
      messages: user('one two'),
      stream_options: { include_usage: true },
    })
    expect(all.map((chunk) => chunk.choices[0]?.delta)).toEqual([
      { role: 'assistant', content: '' },
      { content: 'one' },
      { content: ' two' },
      {},
      undefined,
    ])
    expect(all.map((chunk) => chunk.choices[0]?.finish_reason)).toEqual([null, null, null, 'stop', undefined])
    expect(all.map((chunk) => chunk.usage?.total_tokens ?? null)).toEqual([null, null, null, null, 7])
    expect(all.every((chunk) => 'usage' in chunk)).toBe(true)
    expect(
      new Set(all.map(({ id, created, model, object }) => [id, created, model, object].join())).size,
    ).toBe(1)
    expect(all[0]?.object).toBe('chat.completion.chunk')
  })

  test('has no usage that was not asked for', async () => {
    const all = await chunks({ model: 'echo', messages: user('one') })
    expect(all.some((chunk) => 'usage' in chunk)).toBe(false)
    expect(all.every((chunk) => chunk.choices.length === 1)).toBe(true)
  })

  test('names a call once, then only its index and pieces of its arguments', async () => {
    const all = await chunks({ model: 'tools', messages: user('go'), tools: [weather, clock] })
    const calls = joined(all).flatMap((choice) => choice.delta.tool_calls ?? [])
    const first = calls.filter((call) => call.id !== undefined)
    expect(first.map((call) => [call.index, call.type, call.function.name, call.function.arguments])).toEqual(
      [
        [0, 'function', 'get_weather', ''],
        [1, 'function', 'now', ''],
      ],
    )
    const rest = calls.filter((call) => call.id === undefined)
    expect(rest.every((call) => Object.keys(call).toSorted().join() === 'function,index')).toBe(true)
    const argumentsOf = (index: number) =>
      rest.filter((call) => call.index === index).map((call) => call.function.arguments)
    expect(argumentsOf(0).length).toBeGreaterThan(2)
    expect(JSON.parse(argumentsOf(0).join(''))).toEqual({ city: 'sample city', unit: 'celsius' })
    expect(argumentsOf(1)).toEqual(['{}'])
    expect(joined(all).at(-1)?.finish_reason).toBe('tool_calls')
  })

  test.each([
    { model: 'echo', messages: user('A piece of text, streamed.\n\n  With white space. ') },
    { model: 'reason', messages: user('Why is that?') },
    { model: 'long', messages: user('go'), max_tokens: 500 },
    { model: 'echo', messages: user('𝄞'.repeat(40)), n: 2 },
    { model: 'tools', messages: user('go'), tools: [weather], max_tokens: 3 },
    { model: 'slow', messages: user('go'), sim: { delay_ms: 0, frames: 5 } },
  ])('says what the whole answer says: %#', async (request) => {
    const expected = await whole(request)
    const all = await chunks({ ...request, stream_options: { include_usage: true } })
    for (const choice of expected.choices) {
      const parts = joined(all, choice.index)
      expect(parts.map((each) => each.delta.content ?? '').join('')).toBe(choice.message.content ?? '')
      expect(parts.map((each) => each.delta.reasoning_content ?? '').join('')).toBe(
        choice.message.reasoning_content ?? '',
      )
      const calls = parts.flatMap((each) => each.delta.tool_calls ?? [])
      expect(calls.map((call) => call.function.arguments).join('')).toBe(
        (choice.message.tool_calls ?? []).map((call) => call.function.arguments).join(''),
      )
      expect(parts.at(-1)?.finish_reason).toBe(choice.finish_reason)
    }
    expect(all.at(-1)?.usage).toEqual(expected.usage)
  })
})

describe('misbehaviour', () => {
  test('cut breaks off: no finish and no [DONE] in a stream, half a body otherwise', async () => {
    const frames = await stream({ model: 'cut', messages: user('one two three four five') })
    expect(frames).toHaveLength(4)
    expect(frames.every((data) => JSON.parse(data).choices[0].finish_reason === null)).toBe(true)
    const text = await (await post({ model: 'cut', messages: user('one') })).text()
    expect(() => JSON.parse(text)).toThrow()
  })

  test.each([
    ['error-429', 429, '1', 'rate_limit_exceeded'],
    ['error-500', 500, null, null],
  ])('%s answers its status', async (model, status, retryAfter, code) => {
    const response = await post({ model, messages: user('hi'), stream: true })
    expect(response.status).toBe(status)
    expect(response.headers.get('retry-after')).toBe(retryAfter)
    expect(((await response.json()) as Body).error).toMatchObject({ code, param: null })
  })

  test.each([
    ['hang', {}],
    ['slow', { sim: { delay_ms: 60_000 } }],
  ])('%s gives up as soon as the caller does', async (model, fields) => {
    const caller = new AbortController()
    const answered = post({ model, messages: user('hi'), ...fields }, { signal: caller.signal })
    caller.abort(new Error('left'))
    await expect(answered).rejects.toThrow('left')
  })

  test('slow streams its first frame at once and ends when its reader leaves or its signal fires', async () => {
    const request = { model: 'slow', messages: user('hi'), stream: true, sim: { delay_ms: 60_000 } }
    const left = (await post(request)).body!.getReader()
    expect(new TextDecoder().decode((await left.read()).value)).toContain('"role":"assistant"')
    await left.cancel()

    const caller = new AbortController()
    const cut = (await post(request, { signal: caller.signal })).body!.getReader()
    await cut.read()
    caller.abort(new Error('gone'))
    await expect(cut.read()).rejects.toThrow('gone')
  })
})

describe('a bad request', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  test.each([
    ['{', null, 'invalid_json'],
    [[], null, 'invalid_value'],
    [{ model: 'echo' }, 'messages', 'missing_required_parameter'],
    [{ model: 'echo', messages: [] }, 'messages', 'invalid_value'],
    [{ model: 'echo', messages: [{ role: 'bard', content: '' }] }, 'messages[0].role', 'invalid_value'],
    [{ model: 'echo', messages: user([{ type: 'text' }]) }, 'messages[0].content', 'invalid_value'],
    [{ model: 'echo', messages: user('x'), max_tokens: 0 }, 'max_tokens', 'invalid_value'],
    [{ model: 'echo', messages: user('x'), n: 1.5 }, 'n', 'invalid_value'],
    [{ model: 'echo', messages: user('x'), temperature: 3 }, 'temperature', 'invalid_value'],
    [{ model: 'echo', messages: user('x'), tool_choice: 'required' }, 'tool_choice', 'invalid_value'],
    [
      {
        model: 'echo',
        messages: user('x'),
        tools: [clock],
        tool_choice: { type: 'function', function: { name: 'g' } },
      },
      'tool_choice',
      'invalid_value',
    ],
    [
      { model: 'echo', messages: [...user('x'), { role: 'tool', tool_call_id: 'a', content: '' }] },
      'messages[1].tool_call_id',
      'invalid_value',
    ],
    [
      { model: 'echo', messages: [{ role: 'assistant', content: null, tool_calls: [call] }, ...user('x')] },
      'messages[0].tool_calls',
      'invalid_value',
    ],
  ])('%j names its field', async (body, param, code) => {
    const response = await post(body)
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as Body
    expect(error).toMatchObject({ type: 'invalid_request_error', param, code })
    expect(error?.message.length).toBeGreaterThan(10)
  })

  test('unknown fields are tolerated, unknown endpoints are not', async () => {
    expect((await post({ model: 'echo', messages: user('x'), verbosity: 'low', whatever: 1 })).status).toBe(
      200,
    )
    expect(
      (await simulate(new Request('http://sim/v1/audio/speech', { method: 'POST', body: '{}' }))).status,
    ).toBe(404)
    expect((await simulate(new Request('http://sim/v1/chat/completions?a=b'))).status).toBe(405)
  })
})
