// Searches that providers run themselves, seen by clients: recorded answers behind the gateway, with their citations,
// their counts and their fees, whatever protocol the client speaks.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { parseUsd, usd } from '../../../src/credits/money.ts'
import { postAs, receiptOf } from '../../support/call-gateway.ts'
import { cases } from '../../support/recordings.ts'
import { replayOf, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let replay: ReplayServer
let openai: OpenAI
let anthropic: Anthropic
/** The recording that is answered. */
let playing: string

const recordings = {
  gpt: 'openai-responses/json-server-tool--gpt-5.2--rubd4aa26',
  grok: 'xai-responses/json-server-tool-reasoning-sig--grok-4.3--rub87b1d7',
  claude: 'anthropic/json-server-tool-reasoning-sig--claude-sonnet-5--elm5cd61d',
  haiku: 'anthropic/stream-server-tool-sig--claude-haiku-4-5-20251001--rub2d26d7',
  gemini: 'gemini/stream-citations--gemini-2.5-flash--btj0a015d',
  sonar: 'perplexity/json-citations--sonar--rubc54326',
} as const

beforeAll(async () => {
  replay = startReplayServer(() => {
    const [folder, id] = playing.split('/') as [string, string]
    return replayOf(cases(folder).find((one) => one.id === id)!)
  })
  const ids = ['openai', 'xai', 'anthropic', 'gemini', 'perplexity']
  const providers = Object.fromEntries(
    ids.map((id) => [id, { base_url: replay.url, api_key: `key-of-${id}-0123456789` }]),
  )
  weir = await serveWeir({ config: JSON.stringify({ providers, local_servers: { discover: false } }) })
  openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
  anthropic = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
})

afterAll(async () => {
  await weir?.stop()
  await replay?.stop()
})

beforeEach(() => {
  playing = ''
})

const question = 'What is the latest stable version of Ruby?'
const searches = { type: 'web_search' } as const
const asChat = [searches] as unknown as OpenAI.ChatCompletionTool[]

/** What the provider was asked last. */
function lastAsked(): JsonObject {
  return replay.requests.at(-1)!.json as JsonObject
}

/** The lines of a receipt that are no tokens. */
async function fees(response: Response): Promise<unknown[]> {
  const { lines } = (await receiptOf(weir, response.headers.get('x-request-id')!))!
  return lines
    .filter(({ item }) => item.startsWith('call:') || item === 'request')
    .map(({ item, quantity, amount }) => [item, quantity, amount])
}

/** What the error of a call says. */
function messageOf(call: PromiseLike<unknown>): PromiseLike<string> {
  return call.then(
    () => 'no error',
    (error: unknown) => String(error),
  )
}

interface Ours {
  readonly cost: number
  readonly cost_details: { readonly tools: string }
  readonly server_tool_use: { readonly web_search_requests: number }
}

describe('chat completions', () => {
  test.each([
    ['openai/gpt-5.2', recordings.gpt, { type: 'web_search', search_context_size: 'medium' }, 1, '0.01', 1],
    ['xai/grok-4.3', recordings.grok, { type: 'web_search' }, 2, '0.01', 1],
    [
      'anthropic/claude-sonnet-5',
      recordings.claude,
      { type: 'web_search_20250305', name: 'web_search', max_uses: 5 },
      1,
      '0.01',
      1,
    ],
  ] as const)('%s searches, cites and is paid for', async (model, recording, tool, count, fee, citations) => {
    playing = recording
    const messages = [{ role: 'user' as const, content: question }]
    const { data, response } = await openai.chat.completions
      .create({ model, messages, tools: asChat })
      .withResponse()
    expect(lastAsked()['tools']).toEqual([tool])
    const { content, annotations } = data.choices[0]!.message
    expect(annotations).toHaveLength(citations)
    for (const { url_citation: cited } of annotations!) {
      expect(cited.url).toStartWith('https://')
      expect(content!.slice(cited.start_index, cited.end_index)).not.toBe('')
    }
    const usage = data.usage as unknown as Ours
    expect(usage.server_tool_use.web_search_requests).toBe(count)
    expect(usage.cost_details.tools).toBe(fee)
    expect(await fees(response)).toEqual([['call:web_search', count, fee]])
  })

  test('a stream of Gemini has its sources, at its fee for a grounded prompt', async () => {
    playing = recordings.gemini
    const { data, response } = await openai.chat.completions
      .create({
        model: 'gemini/gemini-2.5-flash',
        messages: [{ role: 'user', content: question }],
        tools: asChat,
        stream: true,
        stream_options: { include_usage: true },
      })
      .withResponse()
    let text = ''
    let usage: Ours | undefined
    const cited: { url: string; start_index: number; end_index: number }[] = []
    for await (const chunk of data) {
      usage = (chunk.usage as unknown as Ours | null) ?? usage
      const delta = chunk.choices[0]?.delta as
        { content?: string; annotations?: { url_citation: (typeof cited)[0] }[] } | undefined
      text += delta?.content ?? ''
      cited.push(...(delta?.annotations ?? []).map(({ url_citation }) => url_citation))
    }
    expect(lastAsked()['tools']).toEqual([{ googleSearch: {} }])
    expect(cited).toHaveLength(1)
    expect(text.slice(cited[0]!.start_index, cited[0]!.end_index).length).toBeGreaterThan(10)
    expect(usage!.cost_details.tools).toBe('0.035')
    expect(await fees(response)).toEqual([['call:web_search', 1, '0.035']])
  })

  test('a client of Gemini has the grounding of its search back, at the same fee', async () => {
    playing = recordings.gemini
    const client = new GoogleGenAI({ apiKey: weir.key, httpOptions: { baseUrl: weir.origin } })
    const chunks = await client.models.generateContentStream({
      model: 'gemini-2.5-flash',
      contents: question,
      config: { tools: [{ googleSearch: {} }] },
    })
    let text = ''
    let last: Awaited<ReturnType<typeof client.models.generateContent>> | undefined
    for await (const chunk of chunks) {
      text += chunk.text ?? ''
      last = chunk
    }
    expect(lastAsked()['tools']).toEqual([{ googleSearch: {} }])
    const { webSearchQueries, groundingChunks, groundingSupports } = last!.candidates![0]!.groundingMetadata!
    expect(webSearchQueries!.length).toBeGreaterThan(0)
    const [{ segment, groundingChunkIndices }] = groundingSupports as [
      { segment: { startIndex: number; endIndex: number; text: string }; groundingChunkIndices: number[] },
    ]
    expect(Buffer.from(text).subarray(segment.startIndex, segment.endIndex).toString()).toBe(segment.text)
    expect(groundingChunks![groundingChunkIndices[0]!]!.web!.uri).toStartWith('https://')
    expect(last!.usageMetadata).toMatchObject({ costDetails: { tools: '0.035' } })
  })

  test('Perplexity searches with every request; its own figure is what is charged', async () => {
    playing = recordings.sonar
    const { data } = await openai.chat.completions
      .create({
        model: 'perplexity/sonar',
        messages: [{ role: 'user', content: question }],
        tools: [{ ...searches, filters: { allowed_domains: ['ruby-lang.org'] }, recency: 'month' }] as never,
      })
      .withResponse()
    expect(lastAsked()).toMatchObject({
      web_search_options: { search_context_size: 'medium' },
      search_domain_filter: ['ruby-lang.org'],
      search_recency_filter: 'month',
    })
    expect(data.choices[0]!.message.annotations!.length).toBeGreaterThan(0)
    expect((data.usage as unknown as Ours).cost).toBe(0.00502)
  })

  test('what Claude found goes back to it, encrypted, with the next turn', async () => {
    playing = recordings.haiku
    const model = 'anthropic/claude-haiku-4-5-20251001'
    const first = await openai.chat.completions.create({
      model,
      messages: [{ role: 'user', content: question }],
      tools: asChat,
      stream: true,
    })
    let content = ''
    const reasoning_details: unknown[] = []
    for await (const { choices } of first) {
      const delta = choices[0]?.delta as { content?: string; reasoning_details?: unknown[] } | undefined
      content += delta?.content ?? ''
      reasoning_details.push(...(delta?.reasoning_details ?? []))
    }
    playing = recordings.claude
    const turn = {
      role: 'assistant',
      content,
      reasoning_details,
    } as unknown as OpenAI.ChatCompletionMessageParam
    const messages: OpenAI.ChatCompletionMessageParam[] = [
      { role: 'user', content: question },
      turn,
      { role: 'user', content: 'And before?' },
    ]
    await openai.chat.completions.create({ model, messages, tools: asChat })
    const blocks = (lastAsked()['messages'] as { content: JsonObject[] }[])[1]!.content
    expect(blocks.map(({ type }) => type)).toEqual(['server_tool_use', 'web_search_tool_result', 'text'])
    expect(JSON.stringify(blocks[1])).toContain('encrypted_content')
  })

  test('a wish that the provider cannot honour, and no backend: the setting is named', async () => {
    const failed = openai.chat.completions.create({
      model: 'openai/gpt-5.2',
      messages: [{ role: 'user', content: question }],
      tools: [{ ...searches, filters: { blocked_domains: ['a.example'] } }] as never,
    })
    expect(await messageOf(failed)).toMatch(/search\.backend/)
  })

  test('engine native is refused with the reason where the provider has no search for it', async () => {
    const failed = openai.chat.completions.create({
      model: 'openai/gpt-5.2',
      messages: [{ role: 'user', content: question }],
      tools: [{ ...searches, engine: 'native', filters: { blocked_domains: ['a.example'] } }] as never,
    })
    expect(await messageOf(failed)).toMatch(/cannot be kept from blocked domains/)
  })
})

test('responses: the search is an item, the citation is flat, the fee is there; all of it comes back', async () => {
  playing = recordings.gpt
  const { data, response } = await openai.responses
    .create({ model: 'openai/gpt-5.2', input: question, tools: [searches] })
    .withResponse()
  expect(data.output.map(({ type }) => type)).toEqual(['web_search_call', 'message'])
  expect(data.output[0]).toMatchObject({ status: 'completed', action: { type: 'search' } })
  const message = data.output.find((item) => item.type === 'message')!
  const [part] = message.type === 'message' ? message.content : []
  const cited = part?.type === 'output_text' ? part.annotations : []
  expect(cited).toMatchObject([
    { type: 'url_citation', url: 'https://www.ruby-lang.org/en/downloads/?utm_source=openai' },
  ])
  expect(await fees(response)).toEqual([['call:web_search', 1, '0.01']])
  const input = [...data.output, { role: 'user', content: 'And before?' }] as OpenAI.Responses.ResponseInput
  await openai.responses.create({ model: 'openai/gpt-5.2', input, tools: [searches] })
  // What the provider found is in its text; a call of a function that nobody declared would be refused.
  expect((lastAsked()['input'] as JsonObject[]).map(({ type, role }) => type ?? role)).toEqual([
    'assistant',
    'user',
  ])
})

const google = 'https://www.google.com/search?q=weather+in+Paris,+FR'

describe.each([
  [
    'gemini',
    'gemini/gemini-2.5-flash',
    'current weather in Paris',
    google,
    [['call:web_search', 1, '0.035']],
  ],
  ['grok', 'xai/grok-4.3', '', undefined, [['call:web_search', 2, '0.01']]],
  // Its own figure is charged, in one line.
  ['sonar', 'perplexity/sonar', '', 'https://www.youtube.com/watch?v=tY46Kmm0LOo', []],
] as const)('the search of %s', (whose, model, query, url, billed) => {
  const isStream = recordings[whose].includes('/stream-')

  beforeEach(() => {
    playing = recordings[whose]
  })

  test('is an item of responses, whole and streamed, and counted once', async () => {
    const asked = { model, input: question, tools: [searches] }
    const stream = openai.responses.stream(asked)
    const outputs: OpenAI.Responses.ResponseOutputItem[][] = [(await stream.finalResponse()).output]
    if (!isStream) outputs.push((await openai.responses.create(asked)).output)
    for (const items of outputs) {
      const [found] = items.filter(({ type }) => type === 'web_search_call')
      expect(found).toMatchObject({ status: 'completed', action: { type: 'search' } })
      const action = (found as OpenAI.Responses.ResponseFunctionWebSearch)
        .action as OpenAI.Responses.ResponseFunctionWebSearch.Search
      if (query !== '') expect([action.query, action.queries]).toEqual([query, [query]])
      if (url !== undefined) expect(action.sources).toContainEqual({ type: 'url', url })
    }
    const { data, response } = await openai.responses.create({ ...asked, stream: true }).withResponse()
    for await (const _ of data);
    expect(await fees(response)).toEqual(billed as never)
  })

  test('is a block of a server tool of messages, with its result', async () => {
    const asked: Anthropic.MessageCreateParamsNonStreaming = {
      model,
      max_tokens: 100,
      messages: [{ role: 'user', content: question }],
      tools: [{ type: 'web_search_20250305', name: 'web_search' }],
    }
    const answers: Anthropic.Message[] = [await anthropic.messages.stream(asked).finalMessage()]
    if (!isStream) answers.push(await anthropic.messages.create(asked))
    for (const { content } of answers) {
      const use = content.find(({ type }) => type === 'server_tool_use') as Anthropic.ServerToolUseBlock
      const result = content.find(
        ({ type }) => type === 'web_search_tool_result',
      ) as Anthropic.WebSearchToolResultBlock
      expect([use.name, result.tool_use_id]).toEqual(['web_search', use.id])
      if (query !== '') expect(use.input).toEqual({ query })
      const found = result.content as Anthropic.WebSearchResultBlock[]
      if (url !== undefined) expect(found.map((page) => page.url)).toContain(url)
    }
  })
})

test('an estimate names the price of a search, and the most that all of them cost', async () => {
  const estimate = async (tools: unknown[]) => {
    const response = await postAs(`${weir.baseUrl}/estimate`, weir.key, {
      model: 'openai/gpt-5.2',
      messages: [{ role: 'user', content: question }],
      max_tokens: 100,
      tools,
    })
    const told = (await response.json()) as Record<'low' | 'expected' | 'maximum', string>
    return { expected: parseUsd(told.expected)!, maximum: parseUsd(told.maximum)! }
  }
  const [without, three] = [await estimate([]), await estimate([{ ...searches, max_uses: 3 }])]
  // The declaration is a part of the prompt.
  const more = three.expected - without.expected
  expect(more >= usd('0.01') && more < usd('0.0101')).toBe(true)
  expect(three.maximum - without.maximum).toBeGreaterThanOrEqual(usd('0.03'))
})

describe('messages', () => {
  const tools = [{ type: 'web_search_20250305', name: 'web_search' }] as Anthropic.ToolUnion[]
  const asked = { model: 'anthropic/claude-sonnet-5', max_tokens: 512, tools }

  test("Anthropic's own blocks reach its clients as they are, and go back as they came", async () => {
    playing = recordings.claude
    const user = { role: 'user', content: question } as const
    const { data, response } = await anthropic.messages.create({ ...asked, messages: [user] }).withResponse()
    expect(lastAsked()['tools']).toEqual([{ name: 'web_search', type: 'web_search_20250305', max_uses: 5 }])
    expect(data.content.map(({ type }) => type)).toEqual([
      'thinking',
      'server_tool_use',
      'web_search_tool_result',
      'text',
      'text',
      'text',
    ])
    expect(data.usage.server_tool_use).toMatchObject({ web_search_requests: 1 })
    expect(await fees(response)).toEqual([['call:web_search', 1, '0.01']])
    const next = [
      user,
      { role: 'assistant', content: data.content },
      { role: 'user', content: 'And before?' },
    ]
    await anthropic.messages.create({ ...asked, messages: next as Anthropic.MessageParam[] })
    const sent = (lastAsked()['messages'] as { content: unknown }[])[1]!.content
    expect(sent).toEqual(JSON.parse(JSON.stringify(data.content)))
  })

  test('a bound of the client is kept', async () => {
    playing = recordings.claude
    await anthropic.messages.create({
      ...asked,
      tools: [{ type: 'web_search_20250305', name: 'web_search', max_uses: 2 }],
      messages: [{ role: 'user', content: question }],
    })
    expect(lastAsked()['tools']).toMatchObject([{ max_uses: 2 }])
  })
})
