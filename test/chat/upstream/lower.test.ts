// What a provider is sent for a client's request: its own body where that may pass, and otherwise a translation.

import { describe, expect, test } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import { LearnedRefusals, loweredFor, media, quirksFor } from '../../../src/chat/upstream/lower.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import type { ConfiguredProvider } from '../../../src/providers/provider.ts'
import { asks, type Client, type Route, routeTo } from '../routes.ts'
import { LargeBodies } from '../../../src/http/intake/read-body.ts'
import { candidateOf, modelOf, providerOf } from '../support.ts'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { prepare } from '../../../src/chat/upstream/upstream-request.ts'
import { signatureKey, type SignatureMemory } from '../../../src/chat/upstream/thoughts.ts'
import { openStore } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'

const fetching = media({ allowHosts: [], limits: { fileBytes: 1, requestBytes: 1, timeoutMs: 1 } })
const claude = routeTo('anthropic', 'claude-sonnet-4-5', false)
const openai = routeTo('openai', 'gpt-4o', false)

/** What the provider is sent for a client's request. */
async function sent(
  client: Client,
  { provider, upstream }: Route,
  { bound, answer }: { bound?: number; answer?: 'translated' } = {},
) {
  const { inbound, request } = asks(client, {})
  const outbound = outbounds[provider.protocol]
  const target = {
    model: upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: 4_096,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  const model = modelOf(`${provider.id}/${upstream}`)
  const candidate = { ...candidateOf(provider.id), provider, model, offer: model.offers[0]! }
  const call = { inbound, request, signal: new AbortController().signal } as IncomingCall
  const parts = {
    media: fetching,
    scheduler: new Scheduler(),
    largeBodies: new LargeBodies(),
    refusals: new LearnedRefusals(),
  }
  const lowered = await loweredFor(parts, call, candidate, outbound, target, bound, answer)
  return { ...lowered, body: JSON.parse(lowered.body) as JsonObject }
}

describe('a client of the protocol that the provider speaks', () => {
  test("has its own body sent where the provider's row lets it through", async () => {
    const { body, passthrough } = await sent('messages', claude, { bound: 64 })
    expect([body['model'], body['max_tokens'], passthrough]).toEqual(['claude-sonnet-4-5', 64, true])
  })

  test('is translated for where the gateway bounds the output more tightly than it does itself', async () => {
    const { body, passthrough } = await sent('messages', claude, { bound: 32 })
    expect([body['max_tokens'], passthrough]).toEqual([32, false])
  })

  test.each<[Client, Route]>([
    ['messages', claude],
    ['chat', openai],
  ])('is translated for where its answer is one of several rounds: %s', async (client, route) => {
    expect((await sent(client, route, { bound: 64, answer: 'translated' })).passthrough).toBe(false)
  })

  test('of chat completions has its answers passed, though its requests are translated', async () => {
    const { body, passthrough } = await sent('chat', openai, { bound: 10 })
    expect(passthrough).toBe(true)
    expect(body['max_tokens'] ?? body['max_completion_tokens']).toBe(10)
  })
})

test.each<[Client, Route]>([
  ['chat', claude],
  ['messages', openai],
  ['responses', claude],
])('a client of another protocol is translated for: %s', async (client, route) => {
  expect((await sent(client, route)).passthrough).toBe(false)
})

test('a request with an address is translated for a provider in a private network', async () => {
  const provider: ConfiguredProvider = { ...claude.provider, baseUrl: 'http://127.0.0.1:9/v1' }
  const { inbound, request } = asks('messages', {})
  const address = { url: 'https://93.184.216.34/a.png', param: 'messages[0]' }
  const outbound = outbounds[provider.protocol]
  const target = {
    model: 'm',
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: 4_096,
    reasoning: false,
    rememberedSignature: () => undefined,
  }
  const call = {
    inbound,
    request: { ...request, addresses: [address] },
    signal: new AbortController().signal,
  } as unknown as IncomingCall
  const parts = {
    media: fetching,
    scheduler: new Scheduler(),
    largeBodies: new LargeBodies(),
    refusals: new LearnedRefusals(),
  }
  const candidate = { ...candidateOf('anthropic'), provider }
  const lowered = await loweredFor(parts, call, candidate, outbound, target, 64)
  expect(lowered.passthrough).toBe(false)
})

// Signatures that a store across the network gives later are in the request all the same.

const toolCall = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }
const messages: JsonObject[] = [
  { role: 'user', content: 'Look.' },
  { role: 'assistant', content: null, tool_calls: [toolCall] },
  { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
]

/** The body of the request to Gemini, whose client has dropped the signature of its tool call. */
async function bodyWith(recall: SignatureMemory['recall']): Promise<string> {
  using dir = tempDir()
  const store = await openStore(dir.path, { clock: Date.now })
  const parts = partsOf(store, [providerOf('a', { protocol: 'gemini' })])
  const call = callOf({ model: 'a/m', messages })
  const candidates = candidatesFor(
    [parts.catalog.resolve('a/m')],
    parts.providers,
    call.request.envelope.routing,
    '',
    1,
  )
  const signatures = { remember: () => undefined, recall }
  const round = { call, candidates, warnings: [] }
  const { lowered } = await prepare(
    { ...parts, signatures },
    { outputBound: () => undefined, warningsFor: () => [] },
    candidates[0]!,
    round,
  )
  await store.close()
  return lowered.body
}

test('a signature is in the request, whether it is there at once or comes later', async () => {
  const own = signatureKey({ account: 'anna', line: '', provider: 'a' }, { id: 'call_1', name: 'look' })
  const atOnce = await bodyWith((key) => (key === own ? 'c2lnbmVk' : undefined))
  expect(JSON.parse(atOnce).contents[1].parts[0].thoughtSignature).toBe('c2lnbmVk')
  let asked = 0
  const later = await bodyWith(async () => {
    asked++
    return 'c2lnbmVk'
  })
  expect(later).toBe(atOnce)
  expect(asked).toBe(1)
})
