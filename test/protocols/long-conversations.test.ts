// A conversation of as many messages as are taken (ten thousand) is put into the words of every provider's protocol in
// time that grows with its length: squared, it held every other call up for ten seconds (issue 10, item 23).

import { describe, expect, test } from 'bun:test'
import { inbound as messages } from '../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { messagesOf } from '../../src/protocols/gemini/inbound/read.ts'
import { inbound } from '../../src/protocols/openai-chat/inbound/inbound.ts'
import { warningsFor } from '../../src/protocols/request/fields.ts'
import type { ProtocolId } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { processorMsOf } from '../support/processor-time.ts'

const protocols = Object.keys(outbounds) as ProtocolId[]
/** All take less than a tenth of it, milliseconds of this process's own time; what grew with the square took ten times as much. */
const mostMs = 1_000

const call = (id: string) => ({ id, type: 'function', function: { name: 'f', arguments: '{"a":1}' } })
const result = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'x' })
const asks = (calls: readonly object[]) => ({ role: 'assistant', content: null, tool_calls: calls })
const hello = { role: 'user', content: 'Hello' }
const times = <Item>(count: number, make: (at: number) => Item) =>
  Array.from({ length: count }, (_, at) => make(at))

const conversations: Readonly<Record<string, readonly object[]>> = {
  'calls that share one id': times(5_000, () => [asks([call('call_0')]), result('call_0')]).flat(),
  'calls that share an id that is not allowed': times(5_000, () => [
    asks([call('functions.f:0')]),
    result('functions.f:0'),
  ]).flat(),
  'nine thousand results of one turn': [
    hello,
    asks(times(9_000, (at) => call(`c${at}`))),
    ...times(9_000, (at) => result(`c${at}`)),
  ],
  'calls of one turn, each with its signature': [
    hello,
    {
      ...asks(times(20_000, (at) => call(`c${at}`))),
      reasoning_details: times(20_000, (at) => ({
        type: 'reasoning.encrypted',
        format: 'google-gemini-v1',
        id: `c${at}`,
        data: 'AAAA',
        index: at,
      })),
    },
  ],
  'many results of one call': [hello, asks([call('c')]), ...times(9_990, () => result('c'))],
  'one speaker': times(10_000, () => ({ role: 'user', content: 'The river runs to the weir. '.repeat(30) })),
  'one speaker, in parts': times(10_000, () => ({ role: 'user', content: [{ type: 'text', text: 'x' }] })),
}

describe.each(Object.entries(conversations))('%s', (_, messages) => {
  test.each(protocols)('for %s', (protocol) => {
    const request = inbound.parse({ model: 'lab/small', messages }).toChatRequest()
    const outbound = outbounds[protocol]
    const target = {
      model: 'claude-sonnet-4',
      provider: 'lab',
      quirks: { ...(outbound.defaultQuirks as object), alternatingRoles: true, toolCallIds: 'nine' },
      maxOutputTokens: 100,
      reasoning: false,
      rememberedSignature: () => undefined,
    }
    let body: unknown
    const ms = processorMsOf(() => ({ body } = outbound.lower(request, target)))
    expect(body).toBeObject()
    expect(ms).toBeLessThan(mostMs)
  })
})

test('warnings of every message are named in one reading of the conversation', () => {
  let readings = 0
  const fields = {
    messages: () => {
      readings += 1
      return times(5_000, (at) => `messages.${at}`)
    },
    names: {},
    dotted: true,
  }
  const warnings = times(5_000, (at) => ({ param: `messages[${at}].content[0]`, message: 'dropped' }))
  expect(warningsFor(warnings, fields).at(-1)?.param).toBe('messages.4999.content.0')
  expect(readings).toBe(1)
})

test('thousands of toolsets are matched with thousands of servers, which are too many', () => {
  const servers = times(38_000, (at) => ({
    type: 'url',
    name: `server_of_a_client_${at}`,
    url: 'https://x.y',
  }))
  const toolsets = times(9_000, () => ({ type: 'mcp_toolset', mcp_server_name: 'server_of_a_client_37999' }))
  const body = { model: 'claude', max_tokens: 1, messages: [hello], tools: toolsets, mcp_servers: servers }
  const refused = () => expect(() => messages.parse(body)).toThrow(/at most 16 MCP servers/)
  expect(processorMsOf(refused)).toBeLessThan(mostMs)
})

test('thousands of results of a Gemini client find their calls, the last one first', () => {
  const names = times(15_000, (at) => `function_of_a_client_${at}`)
  const messages = messagesOf([
    { role: 'model', parts: names.map((name) => ({ functionCall: { name } })) },
    { role: 'user', parts: names.toReversed().map((name) => ({ functionResponse: { name } })) },
  ]).map(({ message }) => message)
  const calls = messages[0]!['tool_calls'] as { id: string }[]
  expect(messages.slice(1).map((message) => message['tool_call_id'])).toEqual(
    calls.map(({ id }) => id).toReversed(),
  )
})
