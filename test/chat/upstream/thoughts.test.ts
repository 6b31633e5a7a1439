// Reasoning that a client has left out goes back to the account and the provider that it belongs to, and to no other.

import { describe, expect, test, afterAll, afterEach, beforeAll, beforeEach } from 'bun:test'
import type { IncomingCall } from '../../../src/chat/call.ts'
import { type Candidate, candidatesFor } from '../../../src/chat/routing/candidates.ts'
import {
  Thoughts,
  thoughtsOf,
  withThoughts,
  remembering,
  signatureKey,
  withSignatures,
} from '../../../src/chat/upstream/thoughts.ts'
import type { ContentEvent } from '../../../src/conversation/delivered.ts'
import type { JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import { callOf, partsOf } from '../parts.ts'
import { fetchWhole, openStream } from '../../../src/chat/upstream/fetch.ts'
import { prepare } from '../../../src/chat/upstream/upstream-request.ts'
import { openStore } from '../../../src/store/open.ts'
import { tempDir } from '../../support/tmp.ts'
import { providerOf } from '../support.ts'

const owner = { account: 'acct_1', line: 'line_1', provider: 'a' }
const calledTool = { id: 'call_1', name: 'look' }
const signed: ReasoningDetail = {
  type: 'reasoning.text',
  format: 'anthropic-claude-v1',
  index: 0,
  text: 'The river rises. '.repeat(100),
  signature: 'c2ln',
}

describe('what was thought before a call', () => {
  const thoughts = new Thoughts()
  thoughts.keep(owner, calledTool, [signed])

  test('is known by the call', () => {
    expect(thoughts.of(owner, calledTool)).toEqual([signed])
  })

  test.each([
    ['another account', { ...owner, account: 'acct_2' }, calledTool],
    ['another provider', { ...owner, provider: 'b' }, calledTool],
    ['another call', owner, { ...calledTool, id: 'call_2' }],
    ['a call of another function by that id', owner, { ...calledTool, name: 'listen' }],
  ])('is not known to %s', (_, of, call) => {
    expect(thoughts.of(of, call)).toBeUndefined()
  })

  test.each<[string, ReasoningDetail]>([
    ['text alone, which clients send back', { ...signed, signature: null }],
    ['text of an unknown format', { ...signed, format: null }],
    ["Gemini's, whose signatures belong to parts", { ...signed, format: 'google-gemini-v1' }],
    ['more than an answer has', { ...signed, text: 'x'.repeat(600 * 1024) }],
  ])('is not kept: %s', (_, detail) => {
    const none = new Thoughts()
    none.keep(owner, calledTool, [detail])
    expect(none.of(owner, calledTool)).toBeUndefined()
  })

  test('takes no more room than it has', () => {
    const many = new Thoughts()
    const long = { ...signed, text: 'x'.repeat(500 * 1024) }
    for (let at = 0; at < 100; at++) many.keep(owner, { id: `call_${at}`, name: 'look' }, [long])
    expect(many.of(owner, { id: 'call_0', name: 'look' })).toBeUndefined()
    expect(many.of(owner, { id: 'call_99', name: 'look' })).toEqual([long])
  })
})

describe('a streamed answer', () => {
  const candidate = { provider: { id: 'a' } } as Candidate
  const kept = (events: ContentEvent[]) => {
    const all: [object, object, readonly ReasoningDetail[]][] = []
    const call = callOf({ model: 'a/m', messages: [{ role: 'user', content: 'Look.' }] })
    const streamed = thoughtsOf({ thoughts: { keep: (...given) => all.push(given) } }, call, candidate)
    for (const event of events) streamed!.event(event)
    return all.map(([, call, details]) => [call, details])
  }
  const thought = (choice: number, detail: Partial<ReasoningDetail>): ContentEvent => ({
    kind: 'reasoning-delta',
    choice,
    detail: { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0, ...detail },
  })
  const start = (choice: number, call: number, id: string): ContentEvent => ({
    kind: 'tool-call-start',
    choice,
    call,
    id,
    name: 'look',
    thoughtSignature: undefined,
  })
  const end = (choice: number): ContentEvent => ({
    kind: 'choice-finish',
    choice,
    reason: 'tool_calls',
    native: 'tool_use',
  })

  test('has its pieces joined, under the first call of each choice', () => {
    const events = [
      thought(0, { text: 'The ' }),
      thought(1, { text: 'A ' }),
      thought(0, { text: 'river.' }),
      thought(0, { signature: 'c2ln' }),
      start(0, 0, 'call_1'),
      start(0, 1, 'call_2'),
      end(0),
      thought(1, { text: 'weir.' }),
      start(1, 0, 'call_3'),
      end(1),
    ]
    expect(kept(events)).toMatchObject([
      [{ id: 'call_1' }, [{ text: 'The river.', signature: 'c2ln' }]],
      [{ id: 'call_3' }, [{ text: 'A weir.' }]],
    ])
  })

  test('without a call, or without a thought, leaves nothing', () => {
    expect(kept([thought(0, { text: 'The river.' }), end(0)])).toEqual([])
    expect(kept([start(0, 0, 'call_1'), end(0)])).toEqual([])
  })
})

describe('the next request', () => {
  const thoughts = new Thoughts()
  const candidates = [{ provider: { id: 'a' } }] as Candidate[]
  const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }
  const asked = (assistant: JsonObject) => {
    const messages: JsonObject[] = [
      { role: 'user', content: 'Look.' },
      { role: 'assistant', content: null, tool_calls: [call], ...assistant },
      { role: 'tool', tool_call_id: 'call_1', content: 'seen' },
    ]
    return callOf({ model: 'a/m', messages })
  }
  thoughts.keep({ account: asked({}).caller.account.id, line: '', provider: 'a' }, calledTool, [signed])
  const reasoningOf = ({ request }: IncomingCall) =>
    request
      .toChatRequest()
      .messages.flatMap((message) => (message.role === 'assistant' ? message.reasoning : []))

  test.each<[string, JsonObject]>([
    ['has sent nothing of it', {}],
    ['has sent its text', { reasoning_content: 'The river rises.' }],
  ])('has it where the client %s, and it is held for', (_, assistant) => {
    const before = asked(assistant)
    const after = withThoughts(thoughts, before, candidates)
    expect(reasoningOf(after)).toEqual([signed])
    expect(after.bodyBytes - before.bodyBytes).toBeGreaterThan(signed.text!.length)
    expect(after.request.promptParts.reading().texts).toContain(signed.text!)
    expect(after.request.promptParts.content().texts).toContain(signed.text!)
  })

  test('is as the client sent it where that is signed', () => {
    const own = { ...signed, text: 'My own.', signature: 'b3du' }
    const before = asked({ reasoning_details: [own as unknown as JsonObject] })
    expect(withThoughts(thoughts, before, candidates)).toBe(before)
  })

  test('is as it was for another provider, and where nothing is known', () => {
    const before = asked({})
    expect(withThoughts(thoughts, before, [{ provider: { id: 'b' } }] as Candidate[])).toBe(before)
    expect(withThoughts(new Thoughts(), before, candidates)).toBe(before)
  })
})

// A protocol asks for thought signatures at once; a store across the network gives them later.

const called = (id: string) => ({ id, name: 'look' })
const keyOf = (id: string) => signatureKey(owner, called(id))
const kept: Readonly<Record<string, string>> = { [keyOf('one')]: 'sig 1', [keyOf('two')]: 'sig 2' }

async function lowered(recall: (key: string) => string | undefined | Promise<string | undefined>) {
  let runs = 0
  const signatures = await withSignatures({ recall }, owner, async (signatureOf) => {
    runs += 1
    return ['one', 'unknown', 'two'].map((id) => signatureOf(called(id)))
  })
  return { runs, signatures }
}

describe('signatures that a client has dropped', () => {
  test('are put in at once where the store has them at hand', async () => {
    expect(await lowered((key) => kept[key])).toEqual({ runs: 1, signatures: ['sig 1', undefined, 'sig 2'] })
  })

  test('are waited for where they come later, each asked for once', async () => {
    const asked: string[] = []
    const recall = async (key: string) => {
      asked.push(key)
      return kept[key]
    }
    expect(await lowered(recall)).toEqual({ runs: 2, signatures: ['sig 1', undefined, 'sig 2'] })
    expect(asked).toEqual(['one', 'unknown', 'two'].map(keyOf))
  })
})

describe('the key of a signature', () => {
  const call = called('call_0')

  test('is what it is remembered by', () => {
    const memory = new Map<string, string>()
    remembering({ remember: (key, signature) => void memory.set(key, signature) }, owner)(call, 'sig')
    expect([...memory]).toEqual([[signatureKey(owner, call), 'sig']])
  })

  test('is short, however long the id', () => {
    expect(signatureKey(owner, called('x'.repeat(10_000)))).toHaveLength(22)
  })

  test.each([
    ['another account', { ...owner, account: 'acct_2' }, call],
    ['another provider', { ...owner, provider: 'b' }, call],
    ['another call', owner, called('call_1')],
    ['a call of another function by that id', owner, { ...call, name: 'listen' }],
    ['an id with parts of the scope in it', { ...owner, provider: '' }, called('a","look","call_0')],
  ])('is another one for %s', (_, of, other) => {
    expect(signatureKey(of, other)).not.toBe(signatureKey(owner, call))
  })
})

// A thought signature goes back to the account and the provider that it belongs to, whatever ids their calls have.

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
