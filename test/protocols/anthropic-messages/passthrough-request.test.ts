// What of a client's request goes to Anthropic as it is.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { betaHeader } from '../../../src/protocols/anthropic-messages/outbound/lower.ts'
import {
  forwardedRequest,
  mayForward,
  passthrough,
} from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { defaultQuirks } from '../../../src/protocols/anthropic-messages/outbound/quirks.ts'
import { targetsLike } from '../../support/conversation.ts'

describe('of a body', () => {
  const messages = [{ role: 'user', content: 'Hi.' }]
  const target = targetsLike({ model: 'claude', provider: 'anthropic', quirks: defaultQuirks })()

  test.each<[JsonObject, JsonObject]>([
    [{}, {}],
    [{ service_tier: 'auto' }, { service_tier: 'auto' }],
    [{ service_tier: 'standard_only' }, { service_tier: 'standard_only' }],
    [
      { speed: 'standard', mcp_servers: [] },
      { speed: 'standard', mcp_servers: [] },
    ],
    [{ context_management: { edits: [] } }, { context_management: { edits: [] } }],
    // Of a tier that nobody here knows the price is not known either.
    [{ service_tier: 'flash' }, {}],
    [{ speed: 'fast' }, {}],
    [{ inference_geo: 'us' }, {}],
    [{ mcp_servers: [{ type: 'url', url: 'https://mcp.example' }] }, {}],
    [{ fallbacks: [{ model: 'claude' }] }, {}],
    [{ container: 'c_1' }, {}],
    [{ a_field_of_tomorrow: true }, {}],
  ])('%p goes on as %p: what has another price is named', (asked, sent) => {
    const { body, warnings } = forwardedRequest({ messages, ...asked }, target)
    expect(body).toEqual({ messages, ...sent, model: 'claude' })
    const dropped = Object.keys(asked).filter((field) => !Object.hasOwn(sent, field))
    expect(warnings.map(({ param }) => param)).toEqual(dropped)
  })
})

test.each([
  ['as Anthropic wrote it', 'Eo8BCioIAhgB', true],
  ['of a page that another provider found', '', false],
])('a citation %s, with the index %j, goes back as it is: %p', (_, encrypted_index, may) => {
  const citation = {
    type: 'web_search_result_location',
    url: 'https://a.example',
    title: 'A',
    cited_text: 'a',
  }
  const content = [{ type: 'text', text: 'a', citations: [{ ...citation, encrypted_index }] }]
  expect(mayForward({ messages: [{ role: 'assistant', content }] })).toBe(may)
})

describe('a body that asks Claude to think with a budget', () => {
  const thinking = { type: 'enabled', budget_tokens: 2048 }
  const use = { type: 'tool_use', id: 'toolu_1', name: 'f', input: {} }
  const thought = { type: 'thinking', thinking: 'Hm.', signature: 'sig' }
  const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: '1' }] }
  const hi = { role: 'user', content: 'Hi.' }

  test.each<[string, JsonObject[], boolean]>([
    ['with its thoughts', [hi, { role: 'assistant', content: [thought, use] }, result], true],
    [
      'with thoughts that only it can read',
      [hi, { role: 'assistant', content: [{ type: 'redacted_thinking', data: 'x' }, use] }, result],
      true,
    ],
    [
      'in two messages of which the first has them',
      [hi, { role: 'assistant', content: [thought] }, { role: 'assistant', content: [use] }, result],
      true,
    ],
    ['without them', [hi, { role: 'assistant', content: [use] }, result], false],
    [
      'with a text in their place',
      [hi, { role: 'assistant', content: [{ type: 'text', text: 'I look.' }, use] }, result],
      false,
    ],
    ['to be continued without them', [hi, { role: 'assistant', content: 'The answer' }], false],
    ['after an answer that called nothing', [hi, { role: 'assistant', content: 'Yes.' }, hi], true],
  ])('goes on as it is when the turn of its tools came back %s: %p', (_, messages, may) => {
    expect(mayForward({ messages, thinking })).toBe(may)
    // Without a budget the API checks nothing.
    expect(mayForward({ messages, thinking: { type: 'adaptive' } })).toBe(true)
    expect(mayForward({ messages })).toBe(true)
  })
})

describe('beta features', () => {
  test('are asked for once each, the gateway’s own first', () => {
    expect(betaHeader(['own-1'], ['a-2025-08-07', 'own-1', 'a-2025-08-07'])).toEqual({
      'anthropic-beta': 'own-1,a-2025-08-07',
    })
  })

  test.each<[string, string]>([
    ['a line end', 'a\r\nx-api-key: b'],
    ['a letter that no header takes', '日本'],
    ['nothing', ''],
    ['more than a name', 'a'.repeat(1_000)],
  ])('with %s for a name are left out: the request could not be sent', (_, name) => {
    expect(betaHeader([], ['a', name])).toEqual({ 'anthropic-beta': 'a' })
    expect(betaHeader([], [name])).toEqual({})
  })

  test('do not outgrow a header', () => {
    const names = [...Array(5_000).keys()].map((at) => `feature-${at}`)
    expect(betaHeader([], names)['anthropic-beta']!.length).toBeLessThan(8_000)
  })
})

describe('a body with a search', () => {
  const messages = [{ role: 'user', content: 'Hi.' }]
  const target = targetsLike({ model: 'claude', provider: 'anthropic', quirks: defaultQuirks })()
  const sent = (tool: JsonObject, searches: number | undefined) =>
    passthrough.request!({ messages, tools: [{ name: 'f', input_schema: {} }, tool] }, target, [], searches)
      ?.body.tools
  const plain = { type: 'web_search_20250305', name: 'web_search' }

  test.each<[JsonObject, number, JsonObject]>([
    [plain, 5, { ...plain, max_uses: 5 }],
    [{ ...plain, max_uses: 2 }, 5, { ...plain, max_uses: 2 }],
    [{ ...plain, max_uses: 99 }, 5, { ...plain, max_uses: 5 }],
    // Later versions run code as well.
    [{ type: 'web_search_20260209', name: 'web_search' }, 5, { ...plain, max_uses: 5 }],
    [{ ...plain, engine: 'native', a_field_of_tomorrow: 1 }, 5, { ...plain, max_uses: 5 }],
    [
      { ...plain, allowed_domains: ['a.example'], user_location: { type: 'approximate', country: 'DE' } },
      1,
      {
        ...plain,
        allowed_domains: ['a.example'],
        user_location: { type: 'approximate', country: 'DE' },
        max_uses: 1,
      },
    ],
  ])('%p with %d searches goes on as %p', (tool, searches, expected) => {
    expect(sent(tool, searches)).toEqual([{ name: 'f', input_schema: {} }, expected])
  })

  test('does not go on where no search of Anthropic is paid for, or its search stands elsewhere', () => {
    expect(sent(plain, undefined)).toBeUndefined()
    // The model was asked for with the suffix `:online`.
    expect(passthrough.request!({ messages }, target, [], 5)).toBeUndefined()
    expect(passthrough.request!({ messages }, target, [], undefined)).toBeDefined()
  })
})
