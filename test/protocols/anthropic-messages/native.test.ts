// What of a client's request goes to Anthropic as it is.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { betaHeader } from '../../../src/protocols/anthropic-messages/betas.ts'
import { isNative } from '../../../src/protocols/anthropic-messages/native.ts'

describe('a body is told anew', () => {
  const messages = [{ role: 'user', content: 'Hi.' }]
  test.each<[JsonObject, boolean]>([
    [{}, true],
    [{ service_tier: 'auto' }, true],
    [{ service_tier: 'standard_only' }, true],
    [{ service_tier: null, speed: 'standard', mcp_servers: [] }, true],
    // Of a tier that nobody here knows the price is not known either.
    [{ service_tier: 'flash' }, false],
    [{ speed: 'fast' }, false],
    [{ inference_geo: 'us' }, false],
    [{ mcp_servers: [{ type: 'url', url: 'https://mcp.example' }] }, false],
    [{ fallbacks: [{ model: 'claude' }] }, false],
  ])('where it asks for what has another price: %p may go on as it is: %p', (asked, may) => {
    expect(isNative({ messages, ...asked })).toBe(may)
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
