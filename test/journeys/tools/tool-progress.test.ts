// What tools do reaches the client while they do it: each test holds a tool, or a provider's search, and lets it go only
// when the client has read that it runs.

import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { eventually, receiptOf, restingCredits, postAs } from '../../support/call-gateway.ts'
import { mcpServer, type TestMcpServer, text } from '../../support/mcp-server.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import {
  chunk,
  delta,
  done,
  event,
  lastChunk,
  plain,
  type Script,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
  streamHead,
  usageEvent,
} from '../../support/scripted-provider.ts'
import { serveWeir } from '../../support/serve-weir.ts'

interface Gate {
  readonly open: () => void
  readonly opened: Promise<void>
}

function gate(): Gate {
  const { promise, resolve } = Promise.withResolvers<void>()
  return { open: resolve, opened: promise }
}

/** Of the tools, by what they are asked; and of the provider's search. */
let gates: Record<string, Gate>
/** The provider refuses every request. */
let refuses: boolean
/** Resolves when the provider's connection is closed. */
let left: Promise<void>
let tools: TestMcpServer
let backend: ReturnType<typeof Bun.serve>
let provider: ScriptedProvider
let weir: ServedWeir
let openai: OpenAI
let anthropic: Anthropic

const searched = 'The river runs.'

/** Two tools are called at once in the first round; then the answer is there. */
const callsBoth: Script = async (wire) => {
  if (refuses) return void wire.write(plain(400, 'application/json', '{"error":{"message":"no"}}'))
  await wire.write(streamHead)
  const isFirst = (wire.body['messages'] as JsonObject[]).every(({ role }) => role !== 'tool')
  const named = (name: string) =>
    (wire.body['tools'] as { function: { name: string } }[]).find((each) =>
      each.function.name.endsWith(name),
    )!.function.name
  const call = (index: number, name: string, json: string) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name: named(name), arguments: json },
  })
  const calls = [call(0, 'web_search', '{"query":"slow"}'), call(1, 'level', '{"at":"quick"}')]
  const said: JsonObject = isFirst
    ? { role: 'assistant', tool_calls: calls }
    : { role: 'assistant', content: searched }
  await wire.write(
    chunk(delta(said) + delta({}, isFirst ? 'tool_calls' : 'stop') + usageEvent(someUsage) + done),
  )
  await wire.write(lastChunk)
}

const usage = { input_tokens: 12, output_tokens: 4, total_tokens: 16 }
const message = {
  id: 'msg_1',
  type: 'message',
  status: 'completed',
  role: 'assistant',
  content: [{ type: 'output_text', text: searched, annotations: [] }],
}

/** OpenAI searches by itself, in the events of its recordings. */
const openaiSearches: Script = async (wire) => {
  left = wire.closed
  const response = { id: 'resp_1', model: 'gpt-5.2', status: 'in_progress', output: [] }
  const item = { id: 'ws_1', type: 'web_search_call', status: 'in_progress' }
  const action = { type: 'search', query: 'rivers', sources: [{ type: 'url', url: 'https://a.example/' }] }
  const ended = { ...item, status: 'completed', action }
  await wire.write(streamHead)
  await wire.write(
    chunk(
      event({ type: 'response.created', response }) +
        event({ type: 'response.output_item.added', output_index: 0, item }) +
        event({ type: 'response.web_search_call.searching', output_index: 0, item_id: 'ws_1' }),
    ),
  )
  await gates['search']!.opened
  const completed = { ...response, status: 'completed', output: [ended, message], usage }
  await wire.write(
    chunk(
      event({ type: 'response.output_item.done', output_index: 0, item: ended }) +
        event({ type: 'response.completed', response: completed }),
    ),
  )
  await wire.write(lastChunk)
}

/** And so does Anthropic. */
const claudeSearches: Script = async (wire) => {
  left = wire.closed
  const named = (type: string, fields: JsonObject) => event({ type, ...fields })
  const use = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }
  const page = { type: 'web_search_result', url: 'https://a.example/', title: 'A', encrypted_content: 'x' }
  const result = { type: 'web_search_tool_result', tool_use_id: 'srvtoolu_1', content: [page] }
  const counted = { input_tokens: 12, output_tokens: 4, server_tool_use: { web_search_requests: 1 } }
  await wire.write(streamHead)
  await wire.write(
    chunk(
      named('message_start', {
        message: { id: 'msg_1', model: 'claude', usage: { input_tokens: 12, output_tokens: 1 } },
      }) +
        named('content_block_start', { index: 0, content_block: use }) +
        named('content_block_delta', {
          index: 0,
          delta: { type: 'input_json_delta', partial_json: '{"query":"rivers"}' },
        }) +
        named('content_block_stop', { index: 0 }),
    ),
  )
  await gates['search']!.opened
  await wire.write(
    chunk(
      named('content_block_start', { index: 1, content_block: result }) +
        named('content_block_stop', { index: 1 }) +
        named('content_block_start', { index: 2, content_block: { type: 'text', text: searched } }) +
        named('content_block_stop', { index: 2 }) +
        named('message_delta', { delta: { stop_reason: 'end_turn' }, usage: counted }) +
        named('message_stop', {}),
    ),
  )
  await wire.write(lastChunk)
}

beforeAll(async () => {
  tools = mcpServer({
    tools: [{ name: 'level' }],
    call: async (_, { at }) => {
      await gates[String(at)]!.opened
      return text('Two metres.')
    },
  })
  backend = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    fetch: async (request) => {
      await gates[new URL(request.url).searchParams.get('q')!]!.opened
      return Response.json({ results: [{ url: 'https://a.example/', title: 'A', content: 'A river.' }] })
    },
  })
  provider = await startScriptedProvider({}, (_, path) =>
    path.endsWith('/responses') ? openaiSearches : path.endsWith('/messages') ? claudeSearches : callsBoth,
  )
  const base_url = provider.url
  weir = await serveWeir({
    config: JSON.stringify({
      providers: {
        lab: { protocol: 'openai-chat', base_url, api_key: 'key-of-lab-0123456789' },
        openai: { base_url, api_key: 'key-of-openai-0123456789' },
        anthropic: { base_url, api_key: 'key-of-anthropic-0123456789' },
      },
      models: [{ id: 'lab/m', price: { input: '1', output: '2' } }],
      local_servers: { discover: false },
      search: { backend: 'searxng', base_url: `http://127.0.0.1:${backend.port}`, open_pages: false },
      egress: { allow_hosts: [tools.host] },
      stream: { keepalive_ms: 200 },
    }),
  })
  openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
  anthropic = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })
})

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
  await backend?.stop(true)
  tools?.[Symbol.dispose]()
})

beforeEach(() => {
  refuses = false
  gates = { slow: gate(), quick: gate(), search: gate() }
})

const question = 'How high is the river?'
const level = () => ({
  type: 'mcp' as const,
  server_label: 'gauges',
  server_url: tools.url,
  require_approval: 'never' as const,
})
const search = { type: 'web_search' as const }

/** The types of events up to the first that `is` picks out, that one last. */
async function upTo<Event extends { type: string }>(
  events: AsyncIterator<Event>,
  is: (event: Event) => boolean,
): Promise<string[]> {
  const types: string[] = []
  for (;;) {
    const { value, done } = await events.next()
    if (done) return [...types, 'the end']
    types.push(value.type)
    if (is(value)) return types
  }
}

describe('tools of the gateway', () => {
  test('responses: each begins and ends by itself, beside others that still run', async () => {
    const stream = await openai.responses.create({
      model: 'lab/m',
      input: question,
      tools: [search, level()],
      stream: true,
    })
    const events = stream[Symbol.asyncIterator]()
    const begun = await upTo(events, ({ type }) => type === 'response.mcp_call_arguments.done')
    expect(begun.slice(2)).toEqual([
      'response.output_item.added',
      'response.mcp_list_tools.in_progress',
      'response.mcp_list_tools.completed',
      'response.output_item.done',
      'response.output_item.added',
      'response.web_search_call.in_progress',
      'response.web_search_call.searching',
      'response.output_item.added',
      'response.mcp_call.in_progress',
      'response.mcp_call_arguments.delta',
      'response.mcp_call_arguments.done',
    ])
    gates['quick']!.open()
    const called = await upTo(events, ({ type }) => type === 'response.output_item.done')
    expect(called).toEqual(['response.mcp_call.completed', 'response.output_item.done'])
    gates['slow']!.open()
    const found = await upTo(events, ({ type }) => type === 'response.output_item.done')
    expect(found).toEqual(['response.web_search_call.completed', 'response.output_item.done'])
    expect((await upTo(events, () => false)).slice(-2)).toEqual(['response.completed', 'the end'])
  })

  /** A response that continues one whose call of the MCP tool its user was asked about. */
  async function approved(): Promise<AsyncIterator<OpenAI.Responses.ResponseStreamEvent>> {
    const asking = [search, { ...level(), require_approval: 'always' as const }]
    gates['slow']!.open()
    const first = openai.responses.stream({ model: 'lab/m', input: question, tools: asking })
    const { id, output } = await first.finalResponse()
    const request = output.find(({ type }) => type === 'mcp_approval_request')!
    const stream = await openai.responses.create({
      model: 'lab/m',
      previous_response_id: id,
      input: [{ type: 'mcp_approval_response', approval_request_id: request.id!, approve: true }],
      tools: asking,
      stream: true,
    })
    return stream[Symbol.asyncIterator]()
  }

  test('responses: a call that the user has approved is seen to run, before the model goes on', async () => {
    const events = await approved()
    const begun = await upTo(events, ({ type }) => type === 'response.mcp_call_arguments.done')
    expect(begun.slice(0, 2)).toEqual(['response.created', 'response.in_progress'])
    expect(begun).toContain('response.mcp_call.in_progress')
    gates['quick']!.open()
    const called = await upTo(events, ({ type }) => type === 'response.output_item.done')
    expect(called).toEqual(['response.mcp_call.completed', 'response.output_item.done'])
    const rest = await upTo(events, () => false)
    expect(rest).toContain('response.output_text.delta')
    expect(rest.slice(-2)).toEqual(['response.completed', 'the end'])
  })

  test('responses: where no provider answers after an approved call, the stream ends with the error', async () => {
    const events = await approved()
    await upTo(events, ({ type }) => type === 'response.mcp_call_arguments.done')
    refuses = true
    gates['quick']!.open()
    const types: string[] = []
    const failed = (async () => {
      for (;;) {
        const { value, done: isOver } = await events.next()
        if (isOver) return undefined
        types.push(value.type)
      }
    })().catch((error: unknown) => error)
    expect(await failed).toBeInstanceOf(OpenAI.APIError)
    expect(types).toContain('response.mcp_call.completed')
    expect((await restingCredits(weir)).held).toBe('0')
  })

  test('messages: a call is a block before its tool has ended, and its result one when it has', async () => {
    const stream = await anthropic.beta.messages.create({
      model: 'lab/m',
      max_tokens: 100,
      messages: [{ role: 'user', content: question }],
      tools: [
        { type: 'web_search_20250305', name: 'web_search' },
        { type: 'mcp_toolset', mcp_server_name: 'gauges' },
      ],
      mcp_servers: [{ type: 'url', url: tools.url, name: 'gauges' }],
      stream: true,
    })
    const blocks: string[] = []
    const events = stream[Symbol.asyncIterator]()
    const block = async (type: string) => {
      await upTo(events, (each) => {
        if (each.type === 'content_block_start') blocks.push(each.content_block.type)
        return blocks.at(-1) === type
      })
      return blocks
    }
    expect(await block('mcp_tool_use')).toEqual(['server_tool_use', 'mcp_tool_use'])
    gates['quick']!.open()
    expect((await block('mcp_tool_result')).slice(2)).toEqual(['mcp_tool_result'])
    gates['slow']!.open()
    expect((await block('web_search_tool_result')).slice(3)).toEqual(['web_search_tool_result'])
    expect((await block('text')).slice(4)).toEqual(['text'])
  })

  test('chat: the stream stays alive while a tool runs, and shows its result when it is there', async () => {
    const response = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, {
      model: 'lab/m',
      messages: [{ role: 'user', content: question }],
      tools: [search, level()],
      stream: true,
    })
    let read = ''
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    const until = async (words: string) => {
      while (!read.includes(words)) {
        const { value, done: isOver } = await reader.read()
        if (isOver) throw new Error(`never came: ${words}`)
        read += value
      }
    }
    await until(': keepalive')
    gates['quick']!.open()
    await until('"output":"Two metres."')
    expect(read).not.toContain('web_search_calls')
    gates['slow']!.open()
    await until('data: [DONE]')
    expect(read).toContain('web_search_calls')
  })
})

describe("a provider's own search", () => {
  const models = ['openai/gpt-5.2', 'anthropic/claude-sonnet-5']

  test.each(models)('responses: %s is seen to search before it has found anything', async (model) => {
    const stream = await openai.responses.create({ model, input: question, tools: [search], stream: true })
    const events = stream[Symbol.asyncIterator]()
    const begun = await upTo(events, ({ type }) => type === 'response.web_search_call.searching')
    expect(begun.slice(-2)).toEqual([
      'response.web_search_call.in_progress',
      'response.web_search_call.searching',
    ])
    gates['search']!.open()
    const ended = await upTo(events, ({ type }) => type === 'response.output_item.done')
    expect(ended).toEqual(['response.web_search_call.completed', 'response.output_item.done'])
    let output: OpenAI.Responses.ResponseOutputItem[] = []
    await upTo(events, (each) => {
      if (each.type === 'response.completed') ({ output } = each.response)
      return false
    })
    const shown = output.filter(({ type }) => type === 'web_search_call')
    const source = { type: 'url', url: 'https://a.example/' }
    expect(shown).toMatchObject([
      { status: 'completed', action: { type: 'search', query: 'rivers', sources: [source] } },
    ])
  })

  test('messages: the search of OpenAI is a block of a server tool while it runs', async () => {
    const asked = {
      model: 'openai/gpt-5.2',
      max_tokens: 100,
      messages: [{ role: 'user' as const, content: question }],
      tools: [{ type: 'web_search_20250305' as const, name: 'web_search' as const }],
    }
    const stream = anthropic.messages.stream(asked)
    const begun = Promise.withResolvers<Anthropic.ContentBlock>()
    stream.on('streamEvent', (each) => {
      if (each.type === 'content_block_start' && each.content_block.type === 'server_tool_use')
        begun.resolve(each.content_block)
    })
    await begun.promise
    gates['search']!.open()
    const { content, usage: counted } = await stream.finalMessage()
    expect(content).toMatchObject([
      { type: 'server_tool_use', name: 'web_search', input: { query: 'rivers' } },
      { type: 'web_search_tool_result', content: [{ type: 'web_search_result', url: 'https://a.example/' }] },
      { type: 'text', text: searched },
    ])
    expect(counted.server_tool_use).toMatchObject({ web_search_requests: 1 })
    const next = [...asked.messages, { role: 'assistant', content }, { role: 'user', content: 'And now?' }]
    await anthropic.messages.stream({ ...asked, messages: next as Anthropic.MessageParam[] }).finalMessage()
    const sent = provider.arrivals.at(-1)!.body['input'] as JsonObject[]
    expect(sent.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
  })

  test.each(models)('a client that leaves while %s searches pays that search', async (model) => {
    const { data, response } = await openai.responses
      .create({ model, input: question, tools: [search], stream: true })
      .withResponse()
    await upTo(data[Symbol.asyncIterator](), ({ type }) => type === 'response.web_search_call.searching')
    data.controller.abort()
    await left
    const id = response.headers.get('x-request-id')!
    const receipt = await eventually(
      () => receiptOf(weir, id),
      (each) => each?.state === 'settled',
    )
    expect(receipt).toMatchObject({ ending: 'client-gone', usage: { estimated: true } })
    const searches = receipt!.lines.filter(({ item }) => item === 'call:web_search')
    expect(searches).toMatchObject([{ quantity: 1, amount: '0.01' }])
  })
})
