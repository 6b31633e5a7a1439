// What the next round is asked: everything that was said and thought, as its provider wants it back.

import { describe, expect, test } from 'bun:test'
import { RoundEvents, ToolConversation } from '../../../src/chat/tools/conversation.ts'
import type { ContentEvent } from '../../../src/conversation/delivered.ts'
import type { ChatRequest, JsonObject, Message, ToolMessage } from '../../../src/conversation/request.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import type { Outbound, ProtocolId, Target } from '../../../src/protocols/protocol.ts'
import { CallTools } from '../../../src/tools/tool.ts'
import { LearnedRefusals, loweredFor, media } from '../../../src/chat/upstream/lower.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { callOf } from '../parts.ts'
import { candidateOf } from '../support.ts'
import { LargeBodies } from '../../../src/http/intake/read-body.ts'
import { toolOf } from './tool-lab.ts'
import { processorMs } from '../../support/processor-time.ts'

const caller = {
  account: 'anna',
  mode: 'live',
  requestId: 'req_1',
  signal: new AbortController().signal,
  deadlineAt: 0,
} as const

/** The tools of a request with a search, beside the client's function `level`. */
async function toolsOf() {
  const source = () => ({
    open: () => Promise.resolve({ tools: [toolOf()], items: [] }),
    close: () => Promise.resolve(),
  })
  const { gatewayTools } = callOf({ model: 'a/m', tools: [{ type: 'web_search' }] }).request
  return CallTools.open({ 'web-search': source, mcp: source }, gatewayTools!, caller, ['level'])
}

/** The second request of a call, whose first round had these events, as the protocol lowers it. */
async function secondRound(protocol: ProtocolId, events: readonly ContentEvent[], more: JsonObject = {}) {
  const tools = await toolsOf()
  const call = callOf({ model: 'a/m', tools: [{ type: 'web_search' }], ...more })
  const conversation = new ToolConversation(call.request.toChatRequest(), tools, {})
  const round = new RoundEvents(tools, { text: 0, reasoning: 0, calls: 0, runs: 0 }, () => undefined)
  for (const event of events) round.take(event)
  const result: ToolMessage = {
    role: 'tool',
    toolCallId: round.gatewayCalls[0]!.id,
    content: [{ kind: 'text', text: 'A river.', cache: undefined }],
    isError: false,
  }
  conversation.add(round.message(), [result])
  const request: ChatRequest = conversation.round(call, 4_000).request.toChatRequest()
  const outbound = outbounds[protocol]
  return outbound.lower(request, targetOf(outbound)).body
}

function targetOf(outbound: Outbound): Target {
  return {
    model: 'm',
    provider: 'a',
    quirks: outbound.defaultQuirks,
    maxOutputTokens: 8_000,
    reasoning: true,
    rememberedSignature: () => undefined,
  }
}

const choice = 0
const called: readonly ContentEvent[] = [
  { kind: 'text-delta', choice, text: 'Let me look.' },
  {
    kind: 'tool-call-start',
    choice,
    call: 0,
    id: 'toolu_1',
    name: 'web_search',
    thoughtSignature: 'sig-call',
  },
  { kind: 'tool-call-delta', choice, call: 0, arguments: '{"query":"rivers"}' },
  { kind: 'choice-finish', choice, reason: 'tool_calls', native: 'tool_use' },
]

test('the messages of a round go back to their provider apart, with the phases it gave them', async () => {
  const commentary = { at: 0, phase: 'commentary' }
  const events: readonly ContentEvent[] = [
    { kind: 'text-delta', choice, text: 'Let me ', message: { at: 0 } },
    { kind: 'text-delta', choice, text: 'look.', message: { at: 0 } },
    { kind: 'text-delta', choice, text: '', message: commentary },
    { kind: 'text-delta', choice, text: 'Soon.', message: { at: 1 } },
    ...called.filter(({ kind }) => kind !== 'text-delta'),
  ]
  const { input } = await secondRound('openai-responses', events)
  const said = (input as JsonObject[]).filter(({ role }) => role === 'assistant')
  expect(said).toEqual([
    { role: 'assistant', phase: 'commentary', content: [{ type: 'output_text', text: 'Let me look.' }] },
    { role: 'assistant', content: [{ type: 'output_text', text: 'Soon.' }] },
  ])
})

function thought(format: string): ContentEvent[] {
  const detail = { type: 'reasoning.text', format, index: 0 }
  return [
    { kind: 'reasoning-delta', choice, detail: { ...detail, text: 'Which ' } },
    { kind: 'reasoning-delta', choice, detail: { ...detail, text: 'river?' } },
    { kind: 'reasoning-delta', choice, detail: { ...detail, signature: 'sig-1' } },
  ]
}

test('a prompt that is blocked is told in the first round only: later ones have parts of the answer', async () => {
  const tools = await toolsOf()
  const blocked = {
    kind: 'choice-finish',
    choice,
    reason: 'content_filter',
    native: 'OTHER',
    blockedPrompt: {},
  } as const
  const roundAfter = (runs: number) => {
    const round = new RoundEvents(tools, { text: 0, reasoning: 0, calls: 0, runs }, () => undefined)
    round.take(blocked)
    return round.blockedPrompt
  }
  expect(roundAfter(0)).toEqual({})
  expect(roundAfter(1)).toBeUndefined()
})

describe('the next round', () => {
  test('gives Claude its signed thoughts back, in front of what they led to', async () => {
    const { messages } = await secondRound(
      'anthropic-messages',
      [...thought('anthropic-claude-v1'), ...called],
      {
        reasoning: { max_tokens: 2_000 },
      },
    )
    expect((messages as JsonObject[]).slice(1)).toMatchObject([
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Which river?', signature: 'sig-1' },
          { type: 'text', text: 'Let me look.' },
          { type: 'tool_use', id: 'toolu_1', name: 'web_search', input: { query: 'rivers' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1' }] },
    ])
  })

  test('gives Gemini the signature of its call back', async () => {
    const { contents } = await secondRound('gemini', called)
    expect(JSON.stringify(contents)).toContain('sig-call')
    expect(JSON.stringify(contents)).toContain('A river.')
  })

  test('gives a model in Responses its call and the result', async () => {
    const { input } = await secondRound('openai-responses', called)
    expect((input as JsonObject[]).slice(-2)).toMatchObject([
      { type: 'function_call', name: 'web_search', arguments: '{"query":"rivers"}' },
      { type: 'function_call_output', output: 'A river.' },
    ])
  })

  test.each(['openai-chat', 'cohere', 'ollama', 'bedrock-converse'] as const)(
    'is lowered for %s with the call and the result',
    async (protocol) => {
      const text = JSON.stringify(await secondRound(protocol, called))
      expect(text).toContain('web_search')
      expect(text).toContain('A river.')
    },
  )
})

test('a call of the history has the name that its tool is offered under now, and arguments that are JSON', async () => {
  const tools = await toolsOf()
  const asked = callOf({ model: 'a/m', tools: [{ type: 'web_search' }] })
  const origin = { kind: 'web-search' } as const
  const before = { id: 'x', name: 'search_2', arguments: '{"query": x', thoughtSignature: undefined, origin }
  const request: ChatRequest = {
    ...asked.request.toChatRequest(),
    messages: [{ role: 'assistant', content: [], reasoning: [], toolCalls: [before] }],
  }
  const { messages } = new ToolConversation(request, tools, {})
    .round(asked, undefined)
    .request.toChatRequest()
  const json = JSON.stringify({ invalid_arguments: '{"query": x' })
  expect(messages[0]).toMatchObject({ toolCalls: [{ name: 'web_search', arguments: json }] })
})

test('the results of approved calls follow the turns that made them, however many they are', async () => {
  const tools = await toolsOf()
  const asked = callOf({ model: 'a/m', tools: [{ type: 'web_search' }] })
  const callsOf = (ids: readonly string[]): Message => ({
    role: 'assistant',
    content: [],
    reasoning: [],
    toolCalls: ids.map((id) => ({ id, name: 'look', arguments: '{}', thoughtSignature: undefined })),
  })
  const resultOf = (toolCallId: string): ToolMessage => ({
    role: 'tool',
    toolCallId,
    content: [],
    isError: false,
  })
  const many = Array.from({ length: 20_000 }, (_, at) => `m${at}`)
  const messages = [callsOf(['a', 'b']), resultOf('a'), callsOf(['b', 'c']), callsOf(many)]
  const conversation = new ToolConversation({ ...asked.request.toChatRequest(), messages }, tools, {})
  const before = processorMs()
  conversation.addResults(['c', 'b', ...many].map(resultOf))
  expect(processorMs() - before).toBeLessThan(500)
  const after = conversation.round(asked, undefined).request.toChatRequest().messages
  expect(after.slice(0, 5)).toEqual([...messages.slice(0, 3), resultOf('c'), resultOf('b')])
  expect(after.slice(5)).toEqual([messages[3]!, ...many.map(resultOf)])
})

test('the prompt of a later round is measured with all that was added to it', async () => {
  const tools = await toolsOf()
  const call = callOf({ model: 'a/m', tools: [{ type: 'web_search' }] })
  const conversation = new ToolConversation(call.request.toChatRequest(), tools, {})
  const first = conversation.round(call, undefined)
  const found = 'A long river. '.repeat(1_000)
  conversation.add({ role: 'assistant', content: [], reasoning: [], toolCalls: [] }, [
    {
      role: 'tool',
      toolCallId: 'x',
      content: [{ kind: 'text', text: found, cache: undefined }],
      isError: false,
    },
  ])
  const second = conversation.round(call, undefined)
  expect(second.bodyBytes - first.bodyBytes).toBeGreaterThan(found.length)
  expect(second.request.promptParts.reading().texts).toContain(found)
  expect(second.request.promptParts.reading().messages).toBe(first.request.promptParts.reading().messages + 2)
})

describe('a strict request is not refused for what the gateway has added to it', () => {
  const protocols = Object.keys(outbounds) as ProtocolId[]

  test.each(protocols)('by way of %s', async (protocol) => {
    const tools = await toolsOf()
    const call = callOf({ model: 'a/m', tools: [{ type: 'web_search' }], strict: true })
    const conversation = new ToolConversation(call.request.toChatRequest(), tools, {})
    const round = new RoundEvents(tools, { text: 0, reasoning: 0, calls: 0, runs: 0 }, () => undefined)
    const [text, start, , finish] = called
    // The thoughts of another provider, arguments that are no JSON, and after them no choice of tools any more.
    const broken = { kind: 'tool-call-delta', choice, call: 0, arguments: '{"query": ' } as const
    for (const event of [...thought('another-v1'), text!, start!, broken, finish!]) round.take(event)
    conversation.freedom = 'none'
    const failed = { kind: 'text', text: 'The call failed.', cache: undefined } as const
    conversation.add(round.message(), [
      { role: 'tool', toolCallId: 'toolu_1', content: [failed], isError: true },
    ])
    const outbound = outbounds[protocol]
    const candidate = candidateOf('a', { protocol })
    const target = targetOf(outbound)
    const limits = { fileBytes: 1, requestBytes: 1, timeoutMs: 1 }
    const parts = {
      media: media({ allowHosts: [], limits }),
      scheduler: new Scheduler(),
      largeBodies: new LargeBodies(),
      refusals: new LearnedRefusals(),
    }
    const asked = conversation.round(call, undefined)
    const { warnings } = await loweredFor(parts, asked, candidate, outbound, target, 100, 'translated')
    expect(warnings).toEqual([])
  })
})
