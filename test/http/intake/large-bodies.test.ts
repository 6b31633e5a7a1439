// Large request bodies are parsed a few at a time: each gets its turn, whatever becomes of those before it.

import type { Caller } from '../../../src/accounts/account.ts'
import { Prefixes } from '../../../src/json/scan.ts'
import { afterAll, beforeAll, describe, expect, mock, type Mock, spyOn, test } from 'bun:test'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { LargeBodies, largeBytes, readCall } from '../../../src/http/intake/read-body.ts'
import { until } from '../../chat/lab.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { startScriptedProvider, type ScriptedProvider } from '../../support/scripted-provider.ts'
import { serveWeir } from '../../support/serve-weir.ts'

/** Requests that note when they begin. */
function setUp(mostBytes: number, longestMs = 60_000) {
  const bodies = new LargeBodies({ mostBytes, longestMs })
  const begun: string[] = []
  const ask = async (id: string, account: string, bytes: number) => {
    await bodies.permit(id, account, bytes)
    begun.push(id)
  }
  return { bodies, begun, ask, settle: () => new Promise((resolve) => setImmediate(resolve)) }
}

describe('large bodies', () => {
  test('that fit into the limit together wait for nothing, not even a promise', () => {
    const { bodies } = setUp(100)
    expect([bodies.permit('1', 'a', 60), bodies.permit('2', 'b', 40)]).toEqual([undefined, undefined])
    expect(bodies.bytes).toBe(100)
  })

  test('beyond the limit are admitted in order of arrival, account by account', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    for (const id of ['a1', 'a2', 'a3', 'a4']) void ask(id, 'a', 90)
    for (const id of ['b1', 'b2']) void ask(id, 'b', 90)
    for (const id of ['a1', 'a2', 'b1', 'a3', 'b2']) {
      await settle()
      expect(begun.at(-1)).toBe(id)
      bodies.leave(id)
    }
    await settle()
    expect(begun).toEqual(['a1', 'a2', 'b1', 'a3', 'b2', 'a4'])
  })

  test('smaller than the next in line do not overtake it', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    for (const [id, bytes] of Object.entries({ first: 60, large: 90, small: 10 })) void ask(id, id, bytes)
    await settle()
    expect(begun).toEqual(['first'])
    bodies.leave('first')
    await settle()
    expect(begun).toEqual(['first', 'large', 'small'])
  })

  test('larger than the limit go alone, and others after them', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    for (const [id, bytes] of Object.entries({ huge: 500, other: 20, vast: 300 })) void ask(id, id, bytes)
    await settle()
    expect(begun).toEqual(['huge'])
    bodies.leave('huge')
    await settle()
    expect(begun).toEqual(['huge', 'other'])
    bodies.leave('other')
    await settle()
    expect(begun).toEqual(['huge', 'other', 'vast'])
  })

  test('give back what they took once, however often they leave', () => {
    const { bodies } = setUp(100)
    void bodies.permit('1', 'a', 60)
    void bodies.permit('2', 'b', 30)
    for (let times = 0; times < 3; times++) bodies.leave('1')
    bodies.leave('never came')
    expect(bodies.bytes).toBe(30)
  })

  test('that ask again give back what they have first, so that two do not wait for each other', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    void ask('1', 'a', 50)
    void ask('2', 'b', 50)
    void ask('1', 'a', 90)
    void ask('2', 'b', 90)
    await settle()
    expect(begun).toEqual(['1', '2', '1'])
    bodies.leave('1')
    await settle()
    expect(begun).toEqual(['1', '2', '1', '2'])
  })

  test('of one account leave as much as they take for others, who overtake those that wait for their own', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    for (const id of ['a1', 'a2', 'a3']) void ask(id, 'a', 25)
    for (const id of ['b1', 'c1']) void ask(id, id, 20)
    await settle()
    expect(begun).toEqual(['a1', 'a2', 'b1', 'c1'])
    bodies.leave('a1')
    await settle()
    expect(begun).toHaveLength(4)
    bodies.leave('b1')
    bodies.leave('c1')
    await settle()
    expect(begun).toEqual(['a1', 'a2', 'b1', 'c1', 'a3'])
  })

  test('that take too long make nobody wait any more', async () => {
    const { bodies } = setUp(100, 10)
    await bodies.permit('stuck', 'a', 100)
    await bodies.permit('next', 'b', 100)
    expect(bodies.bytes).toBe(100)
  })
})

describe('a request', () => {
  const body = { maxBodyBytes: 10_000_000, maxHeaderBytes: 16_384, maxDepth: 64 }
  const caller = { account: { id: 'a' } } as Caller
  const asked = (request: Request, requestId: string) => ({ request, requestId, caller: () => caller })
  const partsWith = (largeBodies: LargeBodies, kept: Request[] = []) => ({
    body,
    scheduler: new Scheduler(),
    largeBodies,
    prefixes: new Prefixes(),
    keepOpen: (request: Request) => void kept.push(request),
    closeWhenIdle: () => undefined,
  })
  const post = (content: string | ReadableStream) =>
    new Request('http://gw/', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: content,
    })
  const large = JSON.stringify({ text: 'x'.repeat(largeBytes) })

  test('with a small body takes no part in it', async () => {
    const bodies = new LargeBodies({ mostBytes: 1 })
    void bodies.permit('other', 'b', 1_000)
    const { json } = await readCall(partsWith(bodies), asked(post('{"a":1}'), 'small'))
    expect(json).toEqual({ a: 1 })
    expect(bodies.bytes).toBe(1_000)
  })

  test('takes nothing while its body is still coming', async () => {
    const bodies = new LargeBodies()
    let finish = () => {}
    const slow = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(large.slice(0, -1)))
        finish = () => {
          controller.enqueue(new TextEncoder().encode('}'))
          controller.close()
        }
      },
    })
    const reading = readCall(partsWith(bodies), asked(post(slow), 'slow'))
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(bodies.bytes).toBe(0)
    finish()
    expect((await reading).bytes).toBe(large.length)
    expect(bodies.bytes).toBe(large.length)
  })

  test('that waits is not closed for being idle', async () => {
    const bodies = new LargeBodies({ mostBytes: 1 })
    void bodies.permit('other', 'b', 1_000)
    const kept: Request[] = []
    const request = post(large)
    const reading = readCall(partsWith(bodies, kept), asked(request, 'waits'))
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(kept).toEqual([request])
    bodies.leave('other')
    await reading
  })
})

describe('what a large body takes is given back', () => {
  const content = 'weir '.repeat(60_000)
  const chat = (model: string) =>
    JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content }] })
  let provider: ScriptedProvider
  let weir: ServedWeir
  let turns: Mock<LargeBodies['permit']>

  beforeAll(async () => {
    // The gateway's own are not to be had from outside.
    turns = spyOn(LargeBodies.prototype, 'permit')
    provider = await startScriptedProvider({
      silent: () => {},
      fails: (wire) => wire.reset(),
      answers: async (wire) => {
        await wire.write(`HTTP/1.1 200 OK\r\ncontent-length: ${answer.length}\r\n${json}\r\n\r\n${answer}`)
        wire.end()
      },
    })
    const models = ['silent', 'fails', 'answers'].map((name) => ({ id: `lab/${name}`, price: 'free' }))
    const lab = { protocol: 'openai-chat', base_url: provider.url, api_key: 'k' }
    const config = { local_servers: { discover: false }, limits: { attempts: 1 }, providers: { lab }, models }
    weir = await serveWeir({ config: JSON.stringify(config) })
  })

  afterAll(async () => {
    mock.restore()
    await weir.stop()
    await provider.stop()
  })

  /** Where the last request took its turn. */
  const bodiesNow = () => turns.mock.contexts.at(-1) as LargeBodies | undefined

  const ask = async (path: string, body: string) => {
    turns.mockClear()
    const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
    return (await fetch(`${weir.baseUrl}${path}`, { method: 'POST', headers, body })).status
  }

  test.each([
    ['answered', 200, '/chat/completions', chat('lab/answers')],
    ['answered in another protocol', 200, '/messages', chat('lab/answers')],
    ['whose provider fails', 502, '/chat/completions', chat('lab/fails')],
    ['of an unknown model', 404, '/chat/completions', chat('lab/unknown')],
    ['that is no JSON', 400, '/chat/completions', content],
    ['whose tokens are counted', 200, '/messages/count_tokens', chat('lab/answers')],
    [
      'whose input is counted',
      200,
      '/responses/input_tokens',
      JSON.stringify({ model: 'lab/answers', input: content }),
    ],
    ['that is estimated', 200, '/estimate', chat('lab/answers')],
    [
      'to be embedded by a model that cannot',
      400,
      '/embeddings',
      `{"model":"lab/answers","input":"${content}"}`,
    ],
    ['to the MCP server', 406, '/../mcp', JSON.stringify({ jsonrpc: '2.0', method: content })],
  ])('by a request %s', async (_, status, path, body) => {
    expect(await ask(path, body)).toBe(status)
    expect(bodiesNow()?.bytes).toBe(0)
  })

  test('by a small request that continues a large one', async () => {
    const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'lab/answers', store: true, input: content })
    const stored = await fetch(`${weir.baseUrl}/responses`, { method: 'POST', headers, body })
    const { id } = (await stored.json()) as { id: string }
    const next = JSON.stringify({ model: 'lab/answers', previous_response_id: id, input: 'And then?' })
    expect(await ask('/responses', next)).toBe(200)
    expect(bodiesNow()?.bytes).toBe(0)
  })

  test('while a provider has not answered yet', async () => {
    const left = new AbortController()
    const before = provider.arrivals.length
    turns.mockClear()
    const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
    const options = { method: 'POST', headers, body: chat('lab/silent'), signal: left.signal }
    const waiting = fetch(`${weir.baseUrl}/chat/completions`, options).catch(() => 'left')
    await until(
      () => provider.arrivals.length,
      (count) => count > before,
    )
    expect(bodiesNow()?.bytes).toBe(0)
    left.abort()
    expect(await waiting).toBe('left')
  })
})

const json = 'content-type: application/json'
const answer = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'To the weir.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 },
})
