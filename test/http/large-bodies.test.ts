// Large request bodies are parsed a few at a time: each gets its turn, whatever becomes of those before it.

import { describe, expect, test } from 'bun:test'
import { Turns } from '../../src/chat/streaming/turns.ts'
import { largeBytes, LargeBodies } from '../../src/http/intake/large-bodies.ts'
import { readCall } from '../../src/http/intake/read-body.ts'
import { startLab } from '../chat/lab.ts'
import { startScriptedProvider } from '../support/scripted-provider.ts'

/** Requests that note when they begin. */
function setUp(mostBytes: number, longestMs = 60_000) {
  const bodies = new LargeBodies({ mostBytes, longestMs })
  const begun: string[] = []
  const ask = async (id: string, account: string, bytes: number) => {
    await bodies.turn(id, account, bytes)
    begun.push(id)
  }
  return { bodies, begun, ask, settle: () => new Promise((resolve) => setImmediate(resolve)) }
}

describe('large bodies', () => {
  test('that fit into the limit together wait for nothing, not even a promise', () => {
    const { bodies } = setUp(100)
    expect([bodies.turn('1', 'a', 60), bodies.turn('2', 'a', 40)]).toEqual([undefined, undefined])
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
    for (const [id, bytes] of Object.entries({ first: 60, large: 90, small: 10 })) void ask(id, 'a', bytes)
    await settle()
    expect(begun).toEqual(['first'])
    bodies.leave('first')
    await settle()
    expect(begun).toEqual(['first', 'large', 'small'])
  })

  test('larger than the limit go alone, and others after them', async () => {
    const { bodies, begun, ask, settle } = setUp(100)
    for (const [id, bytes] of Object.entries({ huge: 500, other: 20, vast: 300 })) void ask(id, 'a', bytes)
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
    void bodies.turn('1', 'a', 60)
    void bodies.turn('2', 'a', 30)
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

  test('that take too long make nobody wait any more', async () => {
    const { bodies } = setUp(100, 10)
    await bodies.turn('stuck', 'a', 100)
    await bodies.turn('next', 'b', 100)
    expect(bodies.bytes).toBe(100)
  })
})

describe('a request', () => {
  const body = { maxBodyBytes: 10_000_000, maxHeaderBytes: 16_384, maxDepth: 64 }
  const account = { account: { id: 'a' } } as Parameters<typeof readCall>[3]
  const partsWith = (largeBodies: LargeBodies, kept: Request[] = []) => ({
    body,
    turns: new Turns(),
    largeBodies,
    keepOpen: (request: Request) => void kept.push(request),
  })
  const post = (content: string | ReadableStream) =>
    new Request('http://gw/', { method: 'POST', body: content })
  const large = JSON.stringify({ text: 'x'.repeat(largeBytes) })

  test('with a small body takes no part in it', async () => {
    const bodies = new LargeBodies({ mostBytes: 1 })
    void bodies.turn('other', 'b', 1_000)
    const { json } = await readCall(partsWith(bodies), post('{"a":1}'), 'small', account)
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
    const reading = readCall(partsWith(bodies), post(slow), 'slow', account)
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(bodies.bytes).toBe(0)
    finish()
    expect((await reading).bytes).toBe(large.length)
    expect(bodies.bytes).toBe(large.length)
  })

  test('that waits is not closed for being idle', async () => {
    const bodies = new LargeBodies({ mostBytes: 1 })
    void bodies.turn('other', 'b', 1_000)
    const kept: Request[] = []
    const request = post(large)
    const reading = readCall(partsWith(bodies, kept), request, 'waits', account)
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect(kept).toEqual([request])
    bodies.leave('other')
    await reading
  })
})

test('however large calls end, the next is served, also while providers are silent', async () => {
  await using resources = new AsyncDisposableStack()
  const provider = await startScriptedProvider({
    silent: () => {},
    fails: (wire) => wire.reset(),
    answers: async (wire) => {
      await wire.write(`HTTP/1.1 200 OK\r\ncontent-length: ${answer.length}\r\n${json}\r\n\r\n${answer}`)
      wire.end()
    },
  })
  resources.defer(() => provider.stop())
  const models = Object.fromEntries(
    ['silent', 'fails', 'answers'].map((name) => [`lab/${name}`, [`lab/${name}`]]),
  )
  const { weir } = await startLab({ providers: { lab: provider.url }, models })
  resources.defer(async () => void (await weir.stop()))
  const left = new AbortController()
  const ask = async (path: string, body: string, signal?: AbortSignal) => {
    const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
    const options = { method: 'POST', headers, body, ...(signal && { signal }) }
    return (await fetch(`${weir.baseUrl}${path}`, options)).status
  }
  const content = 'weir '.repeat(1_900_000)
  const chat = (model: string) =>
    JSON.stringify({ model, max_tokens: 10, messages: [{ role: 'user', content }] })
  // Four of them are more than are worked on at once.
  const four = (path: string, body: string, signal?: AbortSignal) =>
    Promise.all(Array.from({ length: 4 }, () => ask(path, body, signal)))
  const waiting = four('/chat/completions', chat('lab/silent'), left.signal).catch(() => [])
  const begun = performance.now()
  expect(await four('/chat/completions', chat('lab/fails'))).toEqual([502, 502, 502, 502])
  expect(await four('/chat/completions', `${content}`)).toEqual([400, 400, 400, 400])
  expect(await four('/messages', chat('lab/unknown'))).toEqual([404, 404, 404, 404])
  expect(await four('/messages/count_tokens', chat('lab/answers'))).toEqual([200, 200, 200, 200])
  expect(await ask('/chat/completions', chat('lab/answers'))).toBe(200)
  // A body that did not give back what it took would make the next wait for ten seconds.
  expect(performance.now() - begun).toBeLessThan(9_000)
  left.abort()
  expect(await waiting).toEqual([])
}, 30_000)

const json = 'content-type: application/json'
const answer = JSON.stringify({
  id: 'c1',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: 'To the weir.' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 12, completion_tokens: 4, total_tokens: 16 },
})
