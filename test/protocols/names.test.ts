// Names of tools and ids of calls within every provider's limits: the same on definitions, choice, calls and results,
// the same in every turn, different for different ones, and the client's own on the way back.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { collect } from '../../src/conversation/event.ts'
import type { ChatRequest, JsonObject } from '../../src/conversation/request.ts'
import type { ProtocolId } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { call, targetsLike, textPart } from '../support/conversation.ts'
import { parseFrames } from '../support/recordings.ts'
import { requestOf } from './gemini/support.ts'

interface Limits {
  readonly tool: RegExp
  readonly id: RegExp
  readonly quirks?: JsonObject
  /** A whole answer that calls these tools; the same text is a frame of its stream, where one frame may hold it all. */
  answer(names: readonly string[]): JsonObject
  readonly streamed?: 'whole' | 'in response.completed'
}

const openaiCall = (name: string, at: number) => ({
  index: at,
  id: `c${at}`,
  type: 'function',
  function: { name, arguments: '{}' },
})
const chatAnswer = (names: readonly string[]) => {
  const message = { role: 'assistant', content: null, tool_calls: names.map(openaiCall) }
  return { choices: [{ index: 0, message, delta: message, finish_reason: 'tool_calls' }] }
}

const limits: Readonly<Record<string, Limits & { readonly protocol: ProtocolId }>> = {
  'OpenAI chat': {
    protocol: 'openai-chat',
    tool: /^[\w-]{1,64}$/,
    id: /^[^]{1,40}$/,
    answer: chatAnswer,
    streamed: 'whole',
  },
  Mistral: {
    protocol: 'openai-chat',
    quirks: { toolCallIds: 'nine' },
    tool: /^[\w-]{1,64}$/,
    id: /^[a-zA-Z0-9]{9}$/,
    answer: chatAnswer,
    streamed: 'whole',
  },
  'OpenAI Responses': {
    protocol: 'openai-responses',
    tool: /^[\w-]{1,64}$/,
    id: /^[^]{1,64}$/,
    answer: (names) => ({
      status: 'completed',
      output: names.map((name, at) => ({ type: 'function_call', call_id: `c${at}`, name, arguments: '{}' })),
    }),
    streamed: 'in response.completed',
  },
  Anthropic: {
    protocol: 'anthropic-messages',
    tool: /^[\w-]{1,64}$/,
    id: /^[\w-]+$/,
    answer: (names) => ({
      type: 'message',
      role: 'assistant',
      stop_reason: 'tool_use',
      content: names.map((name, at) => ({ type: 'tool_use', id: `c${at}`, name, input: {} })),
      usage: { input_tokens: 1, output_tokens: 1 },
    }),
  },
  Gemini: {
    protocol: 'gemini',
    tool: /^[a-zA-Z_][\w.:-]{0,63}$/,
    id: /^/,
    answer: (names) => ({
      candidates: [
        {
          content: { parts: names.map((name) => ({ functionCall: { name, args: {} } })) },
          finishReason: 'STOP',
        },
      ],
    }),
    streamed: 'whole',
  },
  Bedrock: {
    protocol: 'bedrock-converse',
    tool: /^[\w-]{1,64}$/,
    id: /^[\w-]{1,64}$/,
    answer: (names) => ({
      output: {
        message: {
          content: names.map((name, at) => ({ toolUse: { toolUseId: `c${at}`, name, input: {} } })),
        },
      },
      stopReason: 'tool_use',
      usage: {},
    }),
  },
  Cohere: {
    protocol: 'cohere',
    tool: /^[a-zA-Z_]\w{0,63}$/,
    id: /^/,
    answer: (names) => ({
      id: 'm',
      message: { tool_calls: names.map(openaiCall) },
      finish_reason: 'TOOL_CALL',
    }),
  },
  Ollama: {
    protocol: 'ollama',
    tool: /^/,
    id: /^/,
    answer: (names) => ({
      message: { role: 'assistant', content: '', tool_calls: names.map(openaiCall) },
      done: true,
      done_reason: 'stop',
    }),
    streamed: 'whole',
  },
}

const tool = (name: string) => ({
  name,
  description: undefined,
  parameters: { type: 'object', properties: {} },
  strict: undefined,
  cache: undefined,
})

function asking(names: readonly string[], ids: readonly string[], offered = names): ChatRequest {
  return requestOf({
    tools: offered.map(tool),
    // Some providers are shown the chosen tool alone.
    toolChoice: names.length === 1 ? { kind: 'function', name: names[0]! } : undefined,
    messages: [
      { role: 'user', content: [textPart('?')] },
      {
        role: 'assistant',
        content: [],
        reasoning: [],
        toolCalls: ids.map((id, at) => call(id, names[at % names.length])),
      },
      ...ids.map((id) => ({
        role: 'tool' as const,
        toolCallId: id,
        content: [textPart(`result of ${id}`)],
        isError: false,
      })),
    ],
  })
}

/** Every text under one of these members, in order; none of a member that stands for something else in the protocol. */
function under(body: unknown, members: readonly string[], found: string[] = []): string[] {
  if (Array.isArray(body)) for (const each of body) under(each, members, found)
  else if (typeof body === 'object' && body !== null)
    for (const [member, value] of Object.entries(body)) {
      if (members.includes(member) && typeof value === 'string') found.push(value)
      else under(value, members, found)
    }
  return found
}

const idMembers = ['tool_call_id', 'call_id', 'tool_use_id', 'toolUseId']

const odd = fc.uniqueArray(
  fc.oneof(
    fc.constantFrom('a.b', 'a:b', 'a b', 'a_b', '3d', 'x'.repeat(85), `${'x'.repeat(85)}y`, 'ns/tool'),
    fc.string({ minLength: 1, maxLength: 100 }),
  ),
  { minLength: 1, maxLength: 5 },
)
const oddIds = fc.uniqueArray(
  fc.oneof(
    fc.constantFrom('call_0', 'functions.x:0', 'i'.repeat(60), 'i'.repeat(92), `${'i'.repeat(92)}j`),
    fc.string({ minLength: 1, maxLength: 100 }),
  ),
  { minLength: 1, maxLength: 4 },
)

describe.each(Object.entries(limits))('%s', (_, { protocol, tool: allowed, id: idAllowed, ...more }) => {
  const outbound = outbounds[protocol]
  const quirks = { ...(outbound.defaultQuirks as object), ...more.quirks }
  const target = targetsLike({ model: 'm', provider: 'p', quirks, maxOutputTokens: 1000, reasoning: false })()

  test('is sent only what it takes, the same in the next turn, and clients have their own back', () => {
    fc.assert(
      fc.property(odd, oddIds, (names, ids) => {
        const lowered = outbound.lower(asking(names, ids), target)
        const clientNames = lowered.toolNames ?? {}
        const wireOf = new Map(Object.entries(clientNames).map(([wire, name]) => [name, wire]))
        const wire = names.map((name) => wireOf.get(name) ?? name)
        expect(new Set(wire).size).toBe(names.length)
        for (const name of wire) expect(name).toMatch(allowed)
        const body = JSON.stringify([lowered.body['tools'], lowered.body['toolConfig']])
        for (const name of wire) expect(body).toContain(JSON.stringify(name))
        const written = under(lowered.body['messages'] ?? lowered.body['input'], idMembers)
        for (const id of written) expect(id).toMatch(idAllowed)
        if (written.length > 0) expect(new Set(written).size).toBe(ids.length)

        const next = outbound.lower(asking(names, ids, [...names, 'a.b.c', 'a_b_c', ...wire]), target)
        for (const [wireName, name] of Object.entries(clientNames))
          if (!names.includes(wireName)) expect(Object.values(next.toolNames ?? {})).toContain(name)

        const reading = { ...target, ...(lowered.toolNames && { toolNames: lowered.toolNames }) }
        const answer = more.answer(wire)
        const whole = collect(outbound.whole(answer, reading)).choices[0]!
        expect(whole.toolCalls.map(({ name }) => name)).toEqual(names)
        if (more.streamed === undefined) return
        const data = more.streamed === 'whole' ? answer : { type: 'response.completed', response: answer }
        const frames = [{ event: undefined, data: JSON.stringify(data) }]
        const streamed = collect(parseFrames(outbound.parser(reading), frames)).choices[0]!
        expect(streamed.toolCalls.map(({ name }) => name)).toEqual(names)
      }),
      { numRuns: 60 },
    )
  })

  test('a name and an id are written alike, whatever stands beside them', () => {
    const [name, id] = ['a tool: of mine', 'i'.repeat(92)]
    const wireOf = (offered: readonly string[]) => {
      const { body } = outbound.lower(asking([name], [id], offered), target)
      return [
        ...under(body['messages'] ?? body['input'] ?? body['contents'], ['name', ...idMembers]),
      ].toSorted()
    }
    expect(wireOf([name, 'a_tool__of_mine', 'a tool. of mine'])).toEqual(wireOf([name]))
  })
})
