// The tool loop: rounds follow each other in one hold until the answer is there, whole and streamed alike.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { usd } from '../../../src/credits/money.ts'
import { failedResult } from '../../../src/tools/tool.ts'
import { answer, look, ran, toolLab, toolOf } from './tool-lab.ts'

const search = { type: 'web_search' }
const level = {
  type: 'function',
  function: { name: 'level', parameters: { type: 'object', properties: {} } },
}

test('a provider that sends on after a round does not put off the next', async () => {
  await using lab = await toolLab({
    turns: [
      { ...look, comments: true },
      { ...answer, comments: true },
    ],
  })
  const got = await lab.ask({ stream: true })
  expect([got.content, got.finishes]).toEqual(['The river runs.', ['stop']])
})

describe.each([
  ['whole', {}] as const,
  ['streamed', { stream: true, stream_options: { include_usage: true } }] as const,
])('a %s answer', (kind, how) => {
  test('is asked for again with what the tool has found, and is one answer', async () => {
    const asked: string[] = []
    const tool = toolOf(
      (json) => {
        asked.push(json)
        return Promise.resolve(ran('A river, at https://a.example/river.', { cost: 5_000n }))
      },
      { mostCost: 5_000n },
    )
    await using lab = await toolLab({ turns: [{ ...look, text: 'Let me look. ' }, answer], tools: [tool] })
    const got = await lab.ask(how)
    expect(got.response.status).toBe(200)
    expect(got.content).toBe('Let me look. The river runs.')
    expect([got.finishes, got.roles]).toEqual([['stop'], ['assistant']])
    expect(got.toolCalls).toEqual([])
    expect(asked).toEqual(['{"query":"rivers"}'])
    expect(lab.asked[1]!.slice(-2)).toMatchObject([
      { role: 'assistant', content: 'Let me look. ', tool_calls: [{ function: { name: 'web_search' } }] },
      { role: 'tool', tool_call_id: 'call_1_0', content: 'A river, at https://a.example/river.' },
    ])
    expect(lab.closed).toBe(1)
  })

  test('is charged once, for all rounds and each search', async () => {
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 5_000n })), { mostCost: 5_000n })
    await using lab = await toolLab({ turns: [look, look, answer], tools: [tool] })
    const { usage } = await lab.ask(how)
    const { lines, total, charged, usage: counted, state } = await lab.receipt()
    expect(lines.map(({ item, quantity, amount, round }) => [item, quantity, amount, round])).toEqual([
      ['input', 12, '0.000012', 1],
      ['output', 4, '0.000008', 1],
      ['call:web_search', 1, '0.000000005', 1],
      ['input', 12, '0.000012', 2],
      ['output', 4, '0.000008', 2],
      ['call:web_search', 1, '0.000000005', 2],
      ['input', 12, '0.000012', 3],
      ['output', 4, '0.000008', 3],
    ])
    expect([state, total, charged]).toEqual(['settled', '0.00006001', '0.00006001'])
    expect(counted).toMatchObject({ prompt_tokens: 36, completion_tokens: 12 })
    expect(usage).toMatchObject({
      prompt_tokens: 36,
      completion_tokens: 12,
      cost: 0.00006001,
      cost_details: { tools: '0.00000001', total: '0.00006001' },
      server_tool_use: { web_search_requests: 2 },
    })
    expect(lab.parts.ended).toHaveLength(1)
    expect(lab.parts.ended[0]).toMatchObject({ promptTokens: 36, attempts: 3, status: 200 })
    expect(await lab.pinned()).toBe(0n)
  })

  test('has the tools of one round run side by side', async () => {
    const both = Promise.withResolvers<void>()
    let running = 0
    const tool = toolOf(async () => {
      if (++running === 2) both.resolve()
      await both.promise
      return ran('Found.')
    })
    const call = look.calls[0]!
    await using lab = await toolLab({ turns: [{ calls: [call, call] }, answer], tools: [tool] })
    const { runs, content } = await lab.ask(how)
    expect(runs).toHaveLength(2)
    expect(content).toBe('The river runs.')
  })

  test('hands the client its own calls, and takes both results back', async () => {
    const turn = { text: 'One moment.', calls: [look.calls[0]!, { name: 'level' }] }
    await using lab = await toolLab({ turns: [turn, answer] })
    const tools = [search, level]
    const first = await lab.ask({ ...how, tools })
    expect(first.finishes).toEqual(['tool_calls'])
    expect(first.toolCalls[0]).toMatchObject({ id: 'call_1_1', function: { name: 'level' } })
    expect(first.runs).toMatchObject([{ type: 'web_search_call', status: 'completed', output: 'A river.' }])
    if (kind === 'streamed') expect(first.toolCalls[0]).toMatchObject({ index: 0 })
    const [call] = first.toolCalls
    const said = {
      role: 'assistant',
      content: first.content,
      tool_calls: [{ ...call, function: { name: 'level', arguments: '{}' } }],
      web_search_calls: first.runs,
    }
    const messages = [
      { role: 'user', content: 'Which river?' },
      said,
      { role: 'tool', tool_call_id: 'call_1_1', content: '3 metres' },
    ] as unknown as JsonObject[]
    const second = await lab.ask({ ...how, tools, messages })
    expect(second.content).toBe('The river runs.')
    const [, turnSent, ...results] = lab.asked[1]!
    expect(turnSent).toMatchObject({
      content: 'One moment.',
      tool_calls: [{ function: { name: 'web_search' } }, { id: 'call_1_1', function: { name: 'level' } }],
    })
    expect(results.map(({ role, content }) => [role, content])).toEqual([
      ['tool', 'A river.'],
      ['tool', '3 metres'],
    ])
  })

  test('numbers calls and reasoning on over all rounds', async () => {
    const turns = [
      { ...look, thought: 'First.' },
      { ...look, thought: 'Second.' },
      { thought: 'Third.', calls: [{ name: 'level' }] },
    ]
    await using lab = await toolLab({ turns })
    const { reasoning, toolCalls } = await lab.ask({ ...how, tools: [search, level] })
    expect(reasoning.map(({ index, text }) => [index, text])).toEqual([
      [0, 'First.'],
      [1, 'Second.'],
      [2, 'Third.'],
    ])
    expect(toolCalls[0]).toMatchObject({ function: { name: 'level' } })
    if (kind === 'streamed') expect(toolCalls[0]).toMatchObject({ index: 0 })
  })

  test('cites a source at its place in all of the text', async () => {
    const url = 'https://a.example/river'
    const tool = toolOf(() => Promise.resolve(ran('Found.', { sources: [{ url, title: 'A river' }] })))
    const turns = [{ ...look, text: 'Let me look 🌊. ' }, { text: `It runs ([river](${url})).` }]
    await using lab = await toolLab({ turns, tools: [tool] })
    const { content, annotations } = await lab.ask(how)
    const { start_index, end_index, ...cited } = (annotations[0] as { url_citation: Record<string, unknown> })
      .url_citation
    expect(cited).toEqual({ url, title: 'A river' })
    expect(content.slice(start_index as number, end_index as number)).toContain(url)
  })

  test.each([
    ['a model that takes none is told of them', ['text'], undefined],
    ['a model that takes them is shown them', ['text', 'image'], 'data:image/png;base64,aGVsbG8='],
  ] as const)('has images among a result: %s', async (_, inputModalities, url) => {
    const images = [{ mediaType: 'image/png', data: 'aGVsbG8=' }]
    const tool = toolOf(() => Promise.resolve(ran('A map.', { images })))
    await using lab = await toolLab({ turns: [look, answer], tools: [tool], model: { inputModalities } })
    const { content } = await lab.ask(how)
    expect(content).toBe('The river runs.')
    const sent = JSON.stringify(lab.asked[1])
    expect(sent.includes('An image of the result cannot be shown to this model.')).toBe(url === undefined)
    expect(sent.includes('image_url')).toBe(url !== undefined)
    if (url !== undefined) expect(sent).toContain(url)
  })

  test('goes on after a tool that fails, hangs, throws or says nothing, and pays nothing for it', async () => {
    const failing = {
      fails: () => Promise.resolve(ran('', { failure: { code: 'down', message: 'Down.' }, cost: 9n })),
      hangs: () => new Promise<never>(() => undefined),
      throws: () => Promise.reject(new Error('a mistake')),
    }
    const tools = Object.entries(failing).map(([name, run]) =>
      toolOf(run, { preferredName: name, mostCost: 9n }),
    )
    const calls = Object.keys(failing).map((name) => ({ name }))
    await using lab = await toolLab({ turns: [{ calls }, answer], tools, limits: { toolMs: 50 } })
    const { content, runs, usage } = await lab.ask(how)
    expect(content).toBe('The river runs.')
    expect(runs.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed'])
    const results = lab.asked[1]!.slice(-3).map((message) => String(message['content']))
    for (const text of results) expect(text).not.toBe('')
    expect(results[1]).toContain('not answered within 50 ms')
    expect(usage).toMatchObject({
      cost_details: { tools: '0' },
      server_tool_use: { web_search_requests: 0 },
    })
  })

  test('goes on after arguments that are no JSON, which nobody is sent as they are', async () => {
    const given: string[] = []
    const tool = toolOf((json) => {
      given.push(json)
      return Promise.resolve(failedResult('invalid_arguments', 'No JSON.'))
    })
    const wrong = { calls: [{ name: 'web_search', arguments: '{"query": rivers' }] }
    await using lab = await toolLab({ turns: [wrong, answer], tools: [tool] })
    expect((await lab.ask(how)).content).toBe('The river runs.')
    expect(given).toEqual(['{"query": rivers'])
    const json = JSON.stringify({ invalid_arguments: '{"query": rivers' })
    expect(lab.asked[1]!.at(-2)).toMatchObject({ tool_calls: [{ function: { arguments: json } }] })
  })

  test('ends by a result that says so when all calls are used up', async () => {
    await using lab = await toolLab({ turns: [look, look, look, answer] })
    const { content, runs, finishes, stoppedBy } = await lab.ask({ ...how, max_tool_calls: 2 })
    expect(runs.map(({ status }) => status)).toEqual(['completed', 'completed', 'failed'])
    expect(lab.asked[3]!.at(-1)!['content']).toContain('all 2 tool calls of this request are used up')
    expect([content, finishes, stoppedBy]).toEqual(['The river runs.', ['stop'], undefined])
    const { body } = lab.upstream.arrivals[3]!
    expect(body['tool_choice']).toBe('none')
  })

  test.each([
    ['tool_choice none', { tool_choice: 'none' }],
    ['max_tool_calls 0', { max_tool_calls: 0 }],
  ])('runs no tool with %s, whatever the model does', async (_, asked) => {
    let runs = 0
    const tool = toolOf(() => Promise.resolve(ran(`Found ${++runs}.`)))
    await using lab = await toolLab({ turns: [look, answer], tools: [tool] })
    const { content, runs: shown } = await lab.ask({ ...how, ...asked })
    expect([content, runs]).toEqual(['The river runs.', 0])
    expect(shown).toMatchObject([{ status: 'failed' }])
    expect(lab.upstream.arrivals.map(({ body }) => body['tool_choice'])).toEqual(['none', 'none'])
    expect(JSON.stringify(lab.asked[1])).toContain('allows no tool calls')
  })

  test('is stopped where the model calls tools for ever', async () => {
    await using lab = await toolLab({ turns: [{ ...look, text: 'Again. ' }] })
    const { finishes, stoppedBy, runs } = await lab.ask(how)
    expect([finishes, stoppedBy]).toEqual([['length'], 'max_tool_calls'])
    expect(runs.filter(({ status }) => status === 'completed')).toHaveLength(10)
    expect(lab.upstream.arrivals).toHaveLength(12)
    expect(await lab.receipt()).toMatchObject({ state: 'settled', ending: 'stopped', total: '0.00024' })
  })

  test('asks for no more calls than thirty', async () => {
    await using lab = await toolLab({ turns: [look] })
    const { runs, response } = await lab.ask({ ...how, max_tool_calls: 500 })
    expect(response.headers.get('x-weir-warnings')).toContain('max_tool_calls')
    expect(runs.filter(({ status }) => status === 'completed')).toHaveLength(30)
  })

  test('costs no more than max_cost, whatever its tools and rounds would', async () => {
    // A round is 20 microdollars here, and a search 30.
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 30_000_000n })), {
      mostCost: 30_000_000n,
    })
    await using lab = await toolLab({ turns: [look, { text: 'Without.' }], tools: [tool] })
    const { runs, content } = await lab.ask({ ...how, max_cost: '0.0045' })
    expect([runs[0]!['status'], content]).toEqual(['completed', 'Without.'])
    await using poor = await toolLab({ turns: [look, look, look, { text: 'Without.' }], tools: [tool] })
    const { stoppedBy, finishes } = await poor.ask({ ...how, max_cost: '0.0009' })
    expect([stoppedBy, finishes]).toEqual(['max_cost', ['length']])
    const { total, charged } = await poor.receipt()
    expect(Number(total)).toBeLessThanOrEqual(0.0009)
    expect(charged).toBe(total)
  })

  test('is stopped where the credit does not pay for another round', async () => {
    await using lab = await toolLab({ turns: [look], credit: 900_000_000n })
    const { stoppedBy, finishes } = await lab.ask({ ...how, max_tokens: 50 })
    expect([stoppedBy, finishes]).toEqual(['credits', ['length']])
    const { charged, total } = await lab.receipt()
    expect(charged).toBe(total)
    expect(await lab.pinned()).toBe(0n)
  })

  test('goes on where a round cost more than was held for it, and holds what the next one needs', async () => {
    const tool = toolOf(() => Promise.resolve(ran('A river.', { cost: 7n })), { mostCost: 7n })
    const dear = { ...look, usage: { prompt: 90_000, completion: 4 } }
    await using lab = await toolLab({ turns: [dear, answer], tools: [tool], credit: usd(0.5) })
    const { content, runs, stoppedBy } = await lab.ask({ ...how, max_tokens: 50 })
    expect([content, stoppedBy]).toEqual(['The river runs.', undefined])
    expect(runs).toMatchObject([{ status: 'completed' }])
    expect(lab.upstream.arrivals[1]!.body['max_tokens']).toBe(46)
    expect(await lab.pinned()).toBe(0n)
  })

  test('bounds the output of all rounds together', async () => {
    await using lab = await toolLab({ turns: [look, look, answer] })
    await lab.ask({ ...how, max_tokens: 100 })
    const bounds = lab.upstream.arrivals.map(
      ({ body }) => body['max_tokens'] ?? body['max_completion_tokens'],
    )
    expect(bounds).toEqual([100, 96, 92])
  })

  test('goes on with the provider that began it, and with another where that one fails', async () => {
    await using lab = await toolLab({
      turns: [look, { status: 500 }, { status: 500 }, answer],
      others: ['b'],
      limits: { attempts: 4 },
    })
    const { content } = await lab.ask(how)
    expect(content).toBe('The river runs.')
    const paths = lab.upstream.arrivals.map(({ path }) => path.split('/')[1])
    expect(paths.slice(0, 2)).toEqual(['a', 'a'])
    expect(paths).toContain('b')
  })

  test('lets the model choose after a choice that was forced', async () => {
    await using lab = await toolLab({ turns: [look, answer] })
    await lab.ask({ ...how, tool_choice: { type: 'web_search' } })
    const choices = lab.upstream.arrivals.map(({ body }) => body['tool_choice'])
    expect(choices).toEqual([{ type: 'function', function: { name: 'web_search' } }, expect.anything()])
    expect(choices[1]).not.toEqual(choices[0])
    await lab.ask({ ...how, tool_choice: 'required' })
    expect(lab.upstream.arrivals[2]!.body['tool_choice']).toBe('required')
  })

  test('forces a tool of the gateway in the first round alone', async () => {
    await using lab = await toolLab({ turns: [look, answer] })
    const { content } = await lab.ask({ ...how, tool_choice: { type: 'web_search' } })
    expect(content).toBe('The river runs.')
    const chosen = lab.upstream.arrivals.map(({ body }) => body['tool_choice'])
    const forced = { type: 'function', function: { name: 'web_search' } }
    expect(chosen[0]).toEqual(forced)
    expect(chosen[1]).not.toEqual(forced)
    expect(chosen[1]).not.toBe('required')
  })

  test("keeps a function of the client's apart from a tool of the same name", async () => {
    const own = { type: 'function', function: { name: 'web_search', parameters: { type: 'object' } } }
    let runs = 0
    const tool = toolOf(() => Promise.resolve(ran(`Found ${++runs}.`)))
    const calls = [{ name: 'web_search', arguments: '{"mine":true}' }]
    await using lab = await toolLab({ turns: [{ calls }], tools: [tool] })
    const { toolCalls, finishes } = await lab.ask({ ...how, tools: [search, own] })
    expect(toolCalls[0]).toMatchObject({ function: { name: 'web_search' } })
    expect([runs, finishes]).toEqual([0, ['tool_calls']])
    const offered = lab.upstream.arrivals[0]!.body['tools'] as { function: { name: string } }[]
    const names = offered.map((each) => each.function.name)
    expect([names.length, new Set(names).size, names.includes('web_search')]).toEqual([2, 2, true])
  })

  test("leaves the client's own function its name, and what chooses it", async () => {
    const own = { type: 'function', function: { name: 'web_search', parameters: { type: 'object' } } }
    let runs = 0
    const tool = toolOf(() => Promise.resolve(ran(`Run ${++runs}.`)))
    await using lab = await toolLab({ turns: [look], tools: [tool] })
    const tool_choice = { type: 'function', function: { name: 'web_search' } }
    const { toolCalls, finishes } = await lab.ask({ ...how, tools: [own, search], tool_choice })
    expect([toolCalls[0]!['function'], finishes, runs]).toMatchObject([
      { name: 'web_search' },
      ['tool_calls'],
      0,
    ])
    const offered = lab.upstream.arrivals[0]!.body['tools'] as { function: { name: string } }[]
    expect(offered.map((each) => each.function.name)).toEqual(['web_search', 'web_search_2'])
  })
})

test('several answers at once are refused', async () => {
  await using lab = await toolLab({ turns: [answer] })
  const error: unknown = await lab.ask({ n: 2 }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: 'unsupported_parameter', details: { param: 'n' } })
})
