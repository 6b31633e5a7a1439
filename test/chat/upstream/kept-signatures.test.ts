// A thought signature goes back to the account and the provider that it belongs to, whatever ids their calls have.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { fetchWhole, openStream } from '../../../src/chat/upstream/fetch.ts'
import { prepare } from '../../../src/chat/upstream/upstream-request.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { openStore } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'
import { providerOf } from '../support.ts'

const hold = { outputBound: () => undefined, warningsFor: () => [] }
const placeholder = 'skip_thought_signature_validator'

let upstream: ReturnType<typeof Bun.serve>
let dir: ReturnType<typeof tempDir>
let store: Awaited<ReturnType<typeof openStore>>
let parts: ReturnType<typeof partsOf>

beforeAll(() => {
  const call = { functionCall: { id: 'call_0', name: 'look', args: {} }, thoughtSignature: 'c2lnbmVk' }
  const answer = { candidates: [{ index: 0, content: { parts: [call] }, finishReason: 'STOP' }] }
  upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) =>
      url.includes('streamGenerateContent')
        ? new Response(`data: ${JSON.stringify(answer)}\n\n`, {
            headers: { 'content-type': 'text/event-stream' },
          })
        : Response.json(answer),
  })
})

afterAll(() => upstream.stop(true))

beforeEach(async () => {
  dir = tempDir()
  store = await openStore(dir.path, { clock: Date.now })
  const baseUrl = `http://127.0.0.1:${upstream.port}/v1`
  parts = partsOf(store, [
    providerOf('a', { protocol: 'gemini', baseUrl }),
    providerOf('b', { protocol: 'gemini', baseUrl }),
  ])
})

afterEach(async () => {
  await store.close()
  dir[Symbol.dispose]()
})

function roundOf(account: string, body: JsonObject & { model: string }) {
  const call = callOf(body)
  const caller = { ...call.caller, account: { ...call.caller.account, id: account } }
  const { routing } = call.request.envelope
  const candidates = candidatesFor([parts.catalog.resolve(body.model)], parts.providers, routing, '', 1)
  return { call: { ...call, caller } as IncomingCall, candidates, warnings: [] }
}

/** Has provider `a` answer anna with a signed call of `look`. */
async function signedAnswer(stream: boolean): Promise<void> {
  const round = roundOf('anna', { model: 'a/m', stream })
  if (stream) (await openStream(parts, hold, round.candidates[0]!, round)).abort()
  else await fetchWhole(parts, hold, round.candidates[0]!, round)
}

/** The signature of the call in the request that continues from it, for a client that has dropped it. */
async function signatureSent(account: string, model: string, name: string): Promise<string> {
  const round = roundOf(account, {
    model,
    messages: [
      { role: 'user', content: 'Look.' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_0', type: 'function', function: { name, arguments: '{}' } }],
      },
      { role: 'tool', tool_call_id: 'call_0', content: 'seen' },
    ],
  })
  const { lowered } = await prepare(parts, hold, round.candidates[0]!, round)
  return JSON.parse(lowered.body).contents[1].parts[0].thoughtSignature
}

describe.each([
  ['a streamed', true],
  ['a whole', false],
])('the signature of a call in %s answer', (_, stream) => {
  test.each([
    ['goes back to its provider for its account', 'anna', 'a/m', 'look', 'c2lnbmVk'],
    ['is not sent for another account with a call by that id', 'bob', 'a/m', 'look', placeholder],
    ['is not sent to another provider', 'anna', 'b/m', 'look', placeholder],
    ['is not put on a call of another function by that id', 'anna', 'a/m', 'listen', placeholder],
  ])('%s', async (_case, account, model, name, expected) => {
    await signedAnswer(stream)
    expect(await signatureSent(account, model, name)).toBe(expected)
  })
})
