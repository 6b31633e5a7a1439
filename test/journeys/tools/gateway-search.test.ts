// Web search for any model, run by the gateway: what a developer sees of it with the official clients, offline.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import {
  type Candidate,
  FunctionCallingConfigMode,
  type GenerateContentResponse,
  GoogleGenAI,
} from '@google/genai'
import OpenAI from 'openai'
import { postAs, receiptOf, failure } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let openai: OpenAI
let anthropic: Anthropic
let gemini: GoogleGenAI

beforeAll(async () => {
  weir = await serveWeir({ config: 'search: { backend: sim, price_per_call: "0.005" }' })
  openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
  anthropic = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
  gemini = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: weir.origin } })
})

afterAll(() => weir?.stop())

const question = 'How high is Mount Everest?'
const page = 'https://atlas.example.org/mount-everest'

/** The receipt shows two rounds with a search between them, whose sum the answer has told. */
async function expectTwoRounds(id: string | null, cost: unknown) {
  const { lines, total, usage, attempts } = (await receiptOf(weir, id ?? ''))!
  expect(lines.map(({ item, round }) => [item, round])).toEqual([
    ['input', 1],
    ['output', 1],
    ['call:web_search', 1],
    ['input', 2],
    ['output', 2],
  ])
  const of = (item: string) =>
    lines.filter((line) => line.item === item).reduce((sum, line) => sum + line.quantity, 0)
  expect(usage).toMatchObject({ prompt_tokens: of('input'), completion_tokens: of('output') })
  expect(attempts).toHaveLength(2)
  expect(Number(total)).toBe(Number(cost))
}

const sliced = (text: string, { start_index, end_index }: { start_index: number; end_index: number }) =>
  text.slice(start_index, end_index)

describe('chat completions', () => {
  const asked = {
    model: 'sim/tools',
    messages: [{ role: 'user' as const, content: question }],
    tools: [{ type: 'web_search' }] as unknown as OpenAI.ChatCompletionTool[],
  }

  test('a whole answer cites its sources', async () => {
    const { data, response } = await openai.chat.completions.create(asked).withResponse()
    const [choice] = data.choices
    expect(choice).toMatchObject({ finish_reason: 'stop' })
    const { content, annotations, tool_calls } = choice!.message
    expect(tool_calls).toBeUndefined()
    const citation = annotations!.find(({ url_citation: { url } }) => url === page)!.url_citation
    expect(citation.title).toBe('Mount Everest')
    expect(sliced(content!, citation)).toContain(page)
    const { usage } = data as unknown as { usage: Record<string, unknown> }
    expect(usage).toMatchObject({ server_tool_use: { web_search_requests: 1 } })
    await expectTwoRounds(response.headers.get('x-request-id'), usage['cost'])
  })

  test('a streamed answer is one answer', async () => {
    const { data, response } = await openai.chat.completions
      .create({ ...asked, stream: true, stream_options: { include_usage: true } })
      .withResponse()
    let text = ''
    const finishes: unknown[] = []
    const roles: unknown[] = []
    const runs: unknown[] = []
    const annotations: { url_citation: { url: string; start_index: number; end_index: number } }[] = []
    let usage: Record<string, unknown> = {}
    for await (const chunk of data) {
      usage = (chunk.usage as unknown as Record<string, unknown> | null) ?? usage
      for (const { delta, finish_reason } of chunk.choices) {
        const fields = delta as Record<string, unknown>
        text += delta.content ?? ''
        if (delta.role) roles.push(delta.role)
        if (finish_reason) finishes.push(finish_reason)
        runs.push(...((fields['web_search_calls'] as unknown[] | undefined) ?? []))
        annotations.push(...((fields['annotations'] as typeof annotations | undefined) ?? []))
        expect(delta.tool_calls).toBeUndefined()
      }
    }
    expect([roles, finishes]).toEqual([['assistant'], ['stop']])
    expect(runs).toMatchObject([
      { type: 'web_search_call', status: 'completed', action: { query: question } },
    ])
    const citation = annotations.find(({ url_citation: { url } }) => url === page)!.url_citation
    expect(sliced(text, citation)).toContain(page)
    await expectTwoRounds(response.headers.get('x-request-id'), usage['cost'])
  })

  test.each([
    ['web_search_options', { web_search_options: {} }, 'sim/tools'],
    ['the suffix :online', {}, 'sim/tools:online'],
    ['a dated name', { tools: [{ type: 'web_search_preview_2025_03_11' }] }, 'sim/tools'],
  ])('%s asks for the same', async (_, more, model) => {
    const { messages } = asked
    const body = { model, messages, ...more } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming
    const { choices } = await openai.chat.completions.create(body)
    expect(choices[0]!.message.annotations!.map(({ url_citation: { url } }) => url)).toContain(page)
  })
})

describe('responses', () => {
  const asked = { model: 'sim/tools', input: question, tools: [{ type: 'web_search' as const }] }

  test('a whole answer has the search among its items', async () => {
    const { data, response } = await openai.responses.create(asked).withResponse()
    expect(data).toMatchObject({ status: 'completed', store: true })
    expect(data.output.map(({ type }) => type)).toEqual(['web_search_call', 'message'])
    const [search, message] = data.output
    expect(search).toMatchObject({ status: 'completed', action: { type: 'search', query: question } })
    const [part] = (message as OpenAI.Responses.ResponseOutputMessage).content
    const { text, annotations } = part as OpenAI.Responses.ResponseOutputText
    const citation = annotations.find((each) => each.type === 'url_citation' && each.url === page)
    expect(sliced(text, citation as never)).toContain(page)
    await expectTwoRounds(
      response.headers.get('x-request-id'),
      (data.usage as never as { cost: number }).cost,
    )
    const kept = await openai.responses.retrieve(data.id)
    expect(kept.output).toEqual(data.output)
    const next = { ...asked, input: 'Thank you.', tools: [], previous_response_id: data.id }
    expect((await openai.responses.create(next)).output_text).toContain('Thank you.')
  })

  test('a streamed answer tells what the search does while it does it', async () => {
    const types: string[] = []
    const numbers: number[] = []
    let final: OpenAI.Responses.Response | undefined
    for await (const event of await openai.responses.create({ ...asked, stream: true })) {
      numbers.push(event.sequence_number)
      if (types.at(-1) !== event.type) types.push(event.type)
      if (event.type === 'response.completed') final = event.response
    }
    expect(types).toEqual([
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.web_search_call.in_progress',
      'response.web_search_call.searching',
      'response.web_search_call.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.annotation.added',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ])
    expect(numbers).toEqual(numbers.map((_, at) => at))
    expect(final!.output.map(({ type }) => type)).toEqual(['web_search_call', 'message'])
  })

  test.each([
    [true, ['search', 'open_page']],
    [false, ['search']],
  ])(
    'a page is opened where the client allows the web (external_web_access: %p)',
    async (external, actions) => {
      const { output } = await openai.responses.create({
        ...asked,
        input: 'What does https://atlas.example.org/paris say?',
        tools: [{ type: 'web_search', external_web_access: external } as never],
      })
      const done = output.flatMap((item) => (item.type === 'web_search_call' ? [item.action?.type] : []))
      expect(done.toSorted()).toEqual(actions.toSorted() as never)
    },
  )

  test('its items can be sent back by a client that keeps them itself', async () => {
    const { output } = await openai.responses.create({ ...asked, store: false })
    const input = [
      { role: 'user' as const, content: question },
      ...(output as OpenAI.Responses.ResponseInputItem[]),
      { role: 'user' as const, content: 'Thank you.' },
    ]
    const next = await openai.responses.create({ ...asked, input, store: false, tool_choice: 'none' })
    expect(next.output_text).toBe('Thank you.')
  })
})

describe('messages', () => {
  const asked = {
    model: 'sim/tools',
    max_tokens: 2_000,
    messages: [{ role: 'user' as const, content: question }],
    tools: [{ type: 'web_search_20250305' as const, name: 'web_search' as const }],
  }

  const expectAnswer = ({ content, stop_reason, usage }: Anthropic.Message) => {
    expect(stop_reason).toBe('end_turn')
    expect(content.map(({ type }) => type)).toEqual(['server_tool_use', 'web_search_tool_result', 'text'])
    const [call, result, said] = content
    expect(call).toMatchObject({ name: 'web_search', input: { query: question } })
    expect(result).toMatchObject({ tool_use_id: (call as { id: string }).id })
    const urls = (result as { content: { url: string }[] }).content.map(({ url }) => url)
    expect(urls).toContain(page)
    const { text, citations } = said as Anthropic.TextBlock
    const cited = citations!.find((each) => 'url' in each && each.url === page)!
    expect(text).toContain(cited.cited_text)
    expect(cited.cited_text).toContain(page)
    expect(usage.server_tool_use).toMatchObject({ web_search_requests: 1 })
  }

  test('a whole answer has the blocks of a server tool', async () => {
    const { data, response } = await anthropic.messages.create(asked).withResponse()
    expectAnswer(data)
    await expectTwoRounds(response.headers.get('request-id'), (data.usage as never as { cost: number }).cost)
  })

  test('a streamed answer has the same', async () => {
    expectAnswer(await anthropic.messages.stream(asked).finalMessage())
  })

  test('its blocks can be sent back', async () => {
    const { content } = await anthropic.messages.create(asked)
    const messages = [
      ...asked.messages,
      { role: 'assistant' as const, content },
      { role: 'user' as const, content: 'Thank you.' },
    ]
    const next = await anthropic.messages.create({ ...asked, messages, tool_choice: { type: 'none' } })
    expect(next.content).toMatchObject([{ type: 'text', text: 'Thank you.' }])
  })
})

test.each([false, true])(
  'an Idempotency-Key repeats all of it, and nothing is run again (stream: %p)',
  async (stream) => {
    const headers = {
      authorization: `Bearer ${weir.key}`,
      'content-type': 'application/json',
      'idempotency-key': `search-${stream}`,
    }
    const body = JSON.stringify({
      model: 'sim/tools',
      input: question,
      stream,
      tools: [{ type: 'web_search' }],
    })
    const post = () => fetch(`${weir.baseUrl}/responses`, { method: 'POST', headers, body })
    const first = await post()
    const text = await first.text()
    const again = await post()
    expect([await again.text(), again.headers.get('idempotency-replayed')]).toEqual([text, 'true'])
    expect(text).toContain('web_search_call')
    expect(again.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'))
  },
)

test('a test key searches offline too, and pays nothing', async () => {
  const { stdout } = await weir.command('keys', 'create', '--account', 'owner@localhost', '--test', '--json')
  const { key } = JSON.parse(stdout) as { key: string }
  const client = new OpenAI({ apiKey: key, baseURL: weir.baseUrl, maxRetries: 0 })
  const { output, usage } = await client.responses.create({
    model: 'sim/tools',
    input: question,
    tools: [{ type: 'web_search' }],
  })
  expect(output.map(({ type }) => type)).toEqual(['web_search_call', 'message'])
  expect(usage).toMatchObject({ cost: 0, server_tool_use: { web_search_requests: 1 } })
})

describe('without a backend', () => {
  test('a live key is told which setting is missing, and what clients send unasked is left out', async () => {
    await using bare = await serveWeir()
    const client = new OpenAI({ apiKey: bare.key, baseURL: bare.baseUrl, maxRetries: 0 })
    const ask = (tool: object) =>
      client.responses.create({ model: 'sim/echo', input: 'Hello', tools: [tool as never] })
    const refused: unknown = await ask({ type: 'web_search' }).then(undefined, (error: unknown) => error)
    expect(refused).toMatchObject({ status: 400, code: 'unsupported_parameter', param: 'tools[0]' })
    expect(String(refused)).toContain('search.backend')
    const served = await ask({ type: 'web_search', external_web_access: false })
    expect(served).toMatchObject({ output_text: 'Hello', warnings: [{ param: 'tools[0]' }] })
  })
})

test('a domain that is none is named where the client wrote it', async () => {
  const client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
  const filters = { allowed_domains: ['a.example', 'no domain'] }
  const asked = client.responses.create({
    model: 'sim/tools',
    input: question,
    tools: [{ type: 'web_search', filters }],
  })
  expect(await failure(asked)).toMatchObject({ param: 'tools[0].filters.allowed_domains[1]' })
})

describe('Gemini’s protocol', () => {
  const asked = { model: 'sim/tools', contents: question, config: { tools: [{ googleSearch: {} }] } }

  function expectGrounded({ groundingMetadata }: Candidate, text: string) {
    const { webSearchQueries, groundingChunks, groundingSupports } = groundingMetadata!
    expect(webSearchQueries).toEqual([question])
    const at = groundingChunks!.findIndex(({ web }) => web?.uri === page)
    expect(groundingChunks![at]).toEqual({ web: { uri: page, title: 'Mount Everest' } })
    const cited = groundingSupports!.find(({ groundingChunkIndices }) => groundingChunkIndices![0] === at)
    const { startIndex, endIndex, text: named } = cited!.segment!
    expect(named).toContain(page)
    expect(Buffer.from(text).subarray(startIndex, endIndex).toString()).toBe(named!)
  }

  test('a whole answer is grounded in what it found', async () => {
    const answer = await gemini.models.generateContent(asked)
    expectGrounded(answer.candidates![0]!, answer.text!)
    expect(answer.candidates![0]!.finishReason).toBe('STOP' as never)
    const { cost } = answer.usageMetadata as unknown as { cost: number }
    await expectTwoRounds(answer.responseId!, cost)
  })

  test('a streamed answer has it at its end', async () => {
    let text = ''
    let last: GenerateContentResponse | undefined
    for await (const chunk of await gemini.models.generateContentStream(asked)) {
      text += chunk.text ?? ''
      expect(last?.candidates?.[0]?.groundingMetadata).toBeUndefined()
      last = chunk
    }
    expectGrounded(last!.candidates![0]!, text)
    await expectTwoRounds(last!.responseId!, (last!.usageMetadata as unknown as { cost: number }).cost)
  })

  test('the search may stay away from domains, and by its older name it has no such field', async () => {
    // The client sends this field to Vertex alone.
    const response = await fetch(`${weir.origin}/v1beta/models/sim/tools:generateContent`, {
      method: 'POST',
      headers: { 'x-goog-api-key': weir.key, 'content-type': 'application/json' },
      body: JSON.stringify({
        contents: [{ parts: [{ text: question }] }],
        tools: [{ google_search: { exclude_domains: ['atlas.example.org'] } }],
      }),
    })
    const { candidates } = (await response.json()) as GenerateContentResponse
    const found = candidates![0]!.groundingMetadata!.groundingChunks!.map(({ web }) => web!.uri)
    expect(found).not.toContain(page)
    const older = { tools: [{ googleSearchRetrieval: {} }] }
    const answer = await gemini.models.generateContent({ ...asked, config: older })
    expectGrounded(answer.candidates![0]!, answer.text!)
  })

  test('a mode is for functions alone', async () => {
    const functionDeclarations = [{ name: 'water_level', parametersJsonSchema: { type: 'object' } }]
    const tools = [{ functionDeclarations }, { googleSearch: {} }]
    const choice = (mode: FunctionCallingConfigMode) => ({
      tools,
      toolConfig: { functionCallingConfig: { mode } },
    })
    const none = await gemini.models.generateContent({
      ...asked,
      config: choice(FunctionCallingConfigMode.NONE),
    })
    expectGrounded(none.candidates![0]!, none.text!)
    const any = await gemini.models.generateContent({
      ...asked,
      config: choice(FunctionCallingConfigMode.ANY),
    })
    expect(any.functionCalls?.map(({ name }) => name)).toEqual(['water_level'])
  })
})

describe('the estimate of a call with tools', () => {
  interface Told {
    readonly low: string
    readonly expected: string
    readonly maximum: string
    readonly rounds?: { readonly expected: number; readonly maximum: number }
  }

  async function estimate(body: object): Promise<{ status: number; told: Told }> {
    const response = await postAs(`${weir.baseUrl}/estimate`, weir.key, {
      model: 'sim/tools',
      max_tokens: 200,
      ...body,
    })
    return { status: response.status, told: (await response.json()) as Told }
  }

  const messages = [{ role: 'user' as const, content: question }]
  const searching = { messages, tools: [{ type: 'web_search' }], max_tool_calls: 3 }

  test('is over all rounds that it may take, with the price of their searches', async () => {
    const { told: without } = await estimate({ messages })
    const { told } = await estimate(searching)
    expect(without.rounds).toBeUndefined()
    expect(told.rounds).toEqual({ expected: 2, maximum: 5 })
    expect(Number(told.low)).toBeLessThan(0.001)
    expect(Number(told.expected)).toBeGreaterThan(Number(without.expected) + 0.005)
    expect(Number(told.maximum)).toBeGreaterThan(Number(without.maximum) + 3 * 0.005)
    const { usage } = await openai.chat.completions.create({
      model: 'sim/tools',
      max_tokens: 200,
      ...searching,
    } as never)
    const { cost } = usage as unknown as { cost: number }
    expect(cost).toBeGreaterThan(Number(told.low))
    expect(cost).toBeLessThan(Number(told.maximum))
  })

  test.each([
    ['a response', { input: question, tools: [{ type: 'web_search' }] }, { expected: 2, maximum: 12 }],
    ['no call at all', { ...searching, max_tool_calls: 0 }, { expected: 1, maximum: 1 }],
    [
      'a server of tools, which is not asked',
      {
        messages,
        tools: [{ type: 'mcp', server_label: 'nobody', server_url: 'https://nobody.example/mcp' }],
      },
      { expected: 2, maximum: 12 },
    ],
  ])('knows the rounds of %s', async (_, body, rounds) => {
    expect((await estimate(body)).told.rounds).toEqual(rounds)
  })

  test('is capped by max_cost, and refused as the call would be', async () => {
    expect((await estimate({ ...searching, max_cost: '0.02' })).told.maximum).toBe('0.02')
    const other = await estimate({ messages, tools: [{ type: 'web_search', engine: 'brave' }] })
    expect(other).toMatchObject({ status: 400, told: { error: { code: 'unsupported_parameter' } } })
  })
})
