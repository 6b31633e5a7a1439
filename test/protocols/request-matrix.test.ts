// What clients of chat completions ask, in all its forms, is a request that each documented API would take: nothing
// unheard of, nothing in a wrong place. A form that a provider has no word for is refused before it is sent.

import { describe, expect, test } from 'bun:test'
import type { z } from 'zod'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { inbound } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import type { Target } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { providerById } from '../../src/providers/registry.ts'
import { targetsLike } from '../support/conversation.ts'
import {
  anthropicRequest,
  converseRequest,
  geminiRequest,
  olderGeminiRequest,
} from './documented-requests.ts'

const say = (role: string, content: unknown, more: JsonObject = {}) =>
  ({ role, content, ...more }) as JsonObject
const user = (content: unknown = 'Hi') => say('user', content)
const call = (id: string, args = '{}', name = 'weather') => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
const calls = (...all: JsonObject[]) => say('assistant', null, { tool_calls: all })
const result = (tool_call_id: string, content: unknown = 'ok') => say('tool', content, { tool_call_id })
const tool = (parameters?: JsonObject, more: JsonObject = {}) => ({
  type: 'function',
  function: { name: 'weather', ...(parameters && { parameters }), ...more },
})
const city = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
const tools = [tool(city), { type: 'function', function: { name: 'time' } }]
const picture = (type: string) => ({
  type: 'image_url',
  image_url: { url: `data:image/${type};base64,aWs=` },
})
const words = (text: string) => ({ type: 'text', text })
const file = (type: string, filename: string) => ({
  type: 'file',
  file: { filename, file_data: `data:${type};base64,aWs=` },
})
const format = (schema: JsonObject, strict?: boolean) => ({
  type: 'json_schema',
  json_schema: { name: 'answer', schema, ...(strict === undefined ? {} : { strict }) },
})
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']
const hi = { messages: [user()] }
const asking = { messages: [user(), calls(call('c1')), result('c1')], tools }

const requests: Readonly<Record<string, JsonObject>> = {
  'plain text': hi,
  'instructions of both roles, everywhere': {
    messages: [say('system', 'a'), say('developer', [words('b'), words('')]), user(), say('system', 'c')],
  },
  'instructions alone': { messages: [say('system', 'a')] },
  'one role after another of its kind': {
    messages: [user(), user('b'), say('assistant', 'c'), say('assistant', 'd'), user()],
  },
  'empty words': { messages: [user(), say('assistant', ''), user([words(''), words('x')]), user('')] },
  nothing: { messages: [user('')] },
  'an assistant that begins': { messages: [say('assistant', 'Hello!'), user()] },
  'an assistant to go on with': { messages: [user(), say('assistant', 'The answer is ')] },
  'a refusal of before': { messages: [user(), say('assistant', null, { refusal: 'No.' }), user()] },
  'a name': { messages: [say('user', 'x', { name: 'Bo' })] },
  ...Object.fromEntries(
    ['png', 'jpeg', 'jpg', 'gif', 'webp', 'bmp'].map((type) => [
      `a picture (${type})`,
      { messages: [user([words(''), picture(type)])] },
    ]),
  ),
  'a document': { messages: [user([words('?'), file('application/pdf', 'a_b  c.pdf')])] },
  'two documents without words': {
    messages: [user([file('application/pdf', 'a.pdf'), file('text/plain', 'a.pdf')])],
  },
  speech: { messages: [user([{ type: 'input_audio', input_audio: { data: 'aWs=', format: 'wav' } }])] },
  'a tool that takes nothing': { ...hi, tools: [tool()] },
  'a tool of an empty schema': { ...hi, tools: [tool({})] },
  'a tool without members': { ...hi, tools: [tool({ type: 'object', properties: {} })] },
  'a tool with a blank description': { ...hi, tools: [tool(city, { description: ' ' })] },
  'a tool of alternatives': {
    ...hi,
    tools: [tool({ anyOf: [city, { type: 'object', properties: { at: { type: 'string' } } }] })],
  },
  'a tool of references': {
    ...hi,
    tools: [
      tool({
        type: 'object',
        $schema: 'https://json-schema.org/draft/2020-12/schema',
        $defs: {
          node: {
            type: 'object',
            properties: { next: { $ref: '#/$defs/node' }, kind: { enum: ['a', 1, null] } },
          },
        },
        properties: {
          node: { $ref: '#/$defs/node', description: 'd' },
          q: { type: ['string', 'null'], minLength: 1 },
        },
        additionalProperties: false,
      }),
    ],
  },
  'a strict tool': { ...hi, tools: [tool({ ...city, additionalProperties: false }, { strict: true })] },
  'a strict tool that is open': {
    ...hi,
    tools: [tool({ ...city, properties: { city: { type: 'string', pattern: 'x' } } }, { strict: true })],
  },
  ...Object.fromEntries(
    ['none', 'auto', 'required'].map((choice) => [
      `the choice ${choice}`,
      { ...hi, tools, tool_choice: choice },
    ]),
  ),
  'a named choice': { ...hi, tools, tool_choice: { type: 'function', function: { name: 'time' } } },
  ...Object.fromEntries(
    ['auto', 'required'].map((mode) => [
      `allowed tools (${mode})`,
      {
        ...hi,
        tools,
        tool_choice: {
          type: 'allowed_tools',
          allowed_tools: { mode, tools: [{ type: 'function', function: { name: 'time' } }] },
        },
      },
    ]),
  ),
  'one call at a time': { ...hi, tools, parallel_tool_calls: false },
  'no call, one at a time': { ...hi, tools, parallel_tool_calls: false, tool_choice: 'none' },
  'results in another order': {
    messages: [user(), calls(call('a'), call('b')), result('b'), result('a'), user()],
    tools,
  },
  'a result in parts, with a picture': {
    messages: [user(), calls(call('a')), result('a', [words('x'), words(''), picture('png')])],
    tools,
  },
  'an empty result': { messages: [user(), calls(call('a')), result('a', '')], tools },
  'a call without its result': {
    messages: [user(), calls(call('a'), call('b')), result('a'), user()],
    tools,
  },
  'calls that nobody answered': { messages: [user(), calls(call('a'))], tools },
  'ids of other providers': {
    messages: [
      user(),
      calls(call('functions.x:0'), call(`${'x'.repeat(90)}|fc_1`)),
      result('functions.x:0'),
      result(`${'x'.repeat(90)}|fc_1`),
    ],
    tools,
  },
  'an id for each turn': { messages: [...asking.messages, calls(call('c1')), result('c1')], tools },
  'arguments that were cut off': { messages: [user(), calls(call('a', '{"city": "Pa')), result('a')], tools },
  'arguments that are empty': { messages: [user(), calls(call('a', '')), result('a')], tools },
  'calls of tools that are gone': { messages: asking.messages },
  'functions of before': {
    messages: [
      user(),
      say('assistant', null, { function_call: { name: 'f', arguments: '{}' } }),
      say('function', 'ok', { name: 'f' }),
    ],
    functions: [{ name: 'f', parameters: city }],
  },
  'any JSON': { ...hi, response_format: { type: 'json_object' } },
  'a shape': { ...hi, response_format: format({ ...city, additionalProperties: false }, true) },
  'an open shape': {
    ...hi,
    response_format: format({ ...city, properties: { city: { type: 'string', minLength: 1 } } }),
  },
  'a shape of any keys': {
    ...hi,
    response_format: format({ type: 'object', additionalProperties: { type: 'number' } }),
  },
  'a shape without a schema': { ...hi, response_format: { type: 'json_schema', json_schema: { name: 'x' } } },
  'a shape and tools': { ...hi, tools, response_format: format(city) },
  'any JSON and tools': { ...hi, tools, response_format: { type: 'json_object' } },
  'any JSON and tools that may not be called': {
    ...hi,
    tools,
    tool_choice: 'none',
    response_format: { type: 'json_object' },
  },
  'a shape, thinking': { ...hi, reasoning_effort: 'high', response_format: format(city) },
  'one stop': { ...hi, stop: 'END' },
  'stops of white space': { ...hi, stop: ['\n', ' ', 'x'] },
  'an empty stop': { ...hi, stop: '' },
  'one token': { ...hi, max_tokens: 1 },
  'a bound of the new name': { ...hi, max_completion_tokens: 10 },
  'the hottest temperature': { ...hi, temperature: 2 },
  'temperature and top_p': { ...hi, temperature: 0.5, top_p: 0.9 },
  'every label': {
    ...hi,
    seed: 7,
    user: 'u',
    metadata: { a: 'b' },
    frequency_penalty: 0.5,
    presence_penalty: 0.5,
    logit_bias: { '1': 2 },
    store: true,
    service_tier: 'flex',
    verbosity: 'low',
    prompt_cache_key: 'k',
    safety_identifier: 's',
    n: 1,
    logprobs: false,
  },
  'two answers': { ...hi, n: 2 },
  'log probabilities': { ...hi, logprobs: true, top_logprobs: 2 },
  ...Object.fromEntries(
    efforts.map((effort) => [`the effort ${effort}`, { ...hi, reasoning_effort: effort, max_tokens: 4000 }]),
  ),
  'an effort without room': { ...hi, reasoning_effort: 'high', max_tokens: 10 },
  'an effort, and sampling': { ...hi, reasoning_effort: 'high', temperature: 0.3, top_p: 0.5 },
  'an effort, and a call that must be': { ...hi, reasoning_effort: 'high', tools, tool_choice: 'required' },
  'an effort, its reasoning dropped': { ...asking, reasoning_effort: 'high', max_tokens: 8000 },
  'a budget': { ...hi, reasoning: { max_tokens: 2000, exclude: true }, max_tokens: 8000 },
  'a budget alone': { ...hi, reasoning: { max_tokens: 100 } },
}

const targets: readonly (readonly [row: string, model: string, documented: z.ZodType])[] = [
  ['anthropic', 'claude-3-5-haiku-latest', anthropicRequest],
  ['anthropic', 'claude-sonnet-4-5', anthropicRequest],
  ['anthropic', 'claude-opus-4-6', anthropicRequest],
  ['anthropic', 'claude-sonnet-5', anthropicRequest],
  ['gemini', 'gemini-2.0-flash', olderGeminiRequest],
  ['gemini', 'gemini-2.5-pro', olderGeminiRequest],
  ['vertex', 'gemini-2.5-flash-lite', olderGeminiRequest],
  ['gemini', 'gemini-3-pro-preview', geminiRequest],
  ['bedrock', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0', converseRequest],
  ['bedrock', 'us.anthropic.claude-opus-4-6-v1', converseRequest],
  ['bedrock', 'us.amazon.nova-2-lite-v1:0', converseRequest],
  ['bedrock', 'meta.llama3-1-70b-instruct-v1:0', converseRequest],
]

/** What some provider has no word for: a refusal that says so is right, a request that is sent is right as well. */
const refusable: readonly string[] = [
  'nothing',
  'speech',
  'a picture (bmp)',
  'two answers',
  'log probabilities',
]

describe.each(targets)('%s %s takes', (row, model, documented) => {
  const provider = providerById(row)!
  const outbound = outbounds[provider.protocol]
  const quirks = { ...(outbound.defaultQuirks as object), ...provider.quirks }
  const target: Target = targetsLike({
    model,
    provider: row,
    quirks,
    maxOutputTokens: 16_384,
    reasoning: true,
  })()

  test.each(Object.keys(requests))('%s', (name) => {
    const request = inbound.parse({ model: 'x/y', ...structuredClone(requests[name]) }).toChatRequest()
    let body: JsonObject
    try {
      body = outbound.lower(request, target).body
    } catch (error) {
      expect(error).toBeInstanceOf(GatewayError)
      expect(refusable).toContain(name)
      return
    }
    expect(documented.safeParse(body).error?.issues ?? []).toEqual([])
  })
})
