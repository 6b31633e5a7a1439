// The same request again: who asks for it gets the answer that is there, for nothing, in each protocol, whole and
// streamed. Never another account's, never a part of one, never one that is too old.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { AnswerCache } from '../../../src/chat/upstream/answer-cache.ts'
import { type Lab, startLab } from '../../chat/lab.ts'
import { stillClock } from '../../chat/support.ts'
import { accountWith, creditsOf, expectAudited, keyFor, receiptOf } from '../../support/call-gateway.ts'
import { type Replay, type ReplayServer, startReplayServer } from '../../support/replay-server.ts'

let provider: ReplayServer
let lab: Lab

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }
const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"river"}' } }
const picture = { type: 'image_url', image_url: { url: 'data:image/png;base64,aWs=' } }

/** Each answer says which it is; how it ends is in the name of the model. */
function answer(model: string, stream: boolean, count: number): Replay {
  if (model.endsWith('failing')) return json({ error: { message: 'no', code: 'server_error' } }, 500)
  const content = `Answer ${count}`
  const message = {
    role: 'assistant',
    content,
    ...(model.endsWith('rich') && { tool_calls: [call], images: [picture] }),
  }
  const finish_reason = model.endsWith('rich') ? 'tool_calls' : 'stop'
  if (!stream)
    return json({
      id: 'c',
      object: 'chat.completion',
      created: 1,
      model,
      choices: [{ index: 0, message, finish_reason }],
      usage,
    })
  const chunk = (choices: object[], more = {}) =>
    `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model, choices, ...more })}\n\n`
  const { role: _, ...rest } = message
  const delta = { ...rest, ...(model.endsWith('rich') && { tool_calls: [{ index: 0, ...call }] }) }
  const begin = chunk([{ index: 0, delta: { role: 'assistant', ...delta }, finish_reason: null }])
  const end = chunk([{ index: 0, delta: {}, finish_reason }]) + chunk([], { usage }) + 'data: [DONE]\n\n'
  return sse(model.endsWith('cut') ? begin : begin + end)
}

const body = (text: string, type: string, status = 200): Replay => ({
  status,
  headers: { 'content-type': type },
  body: new TextEncoder().encode(text),
})
const json = (value: object, status = 200) => body(JSON.stringify(value), 'application/json', status)
const sse = (text: string) => body(text, 'text/event-stream')

beforeAll(async () => {
  provider = startReplayServer(({ json: asked }) => {
    const { model, stream } = asked as { model: string; stream?: boolean }
    return answer(model, stream === true, provider.requests.length)
  })
  lab = await startLab({
    providers: { p: `${provider.url}/v1` },
    models: {
      'p/plain': {},
      'p/rich': {},
      'p/cut': {},
      'p/failing': {},
      'p/member': {},
      remembered: { route: { to: ['p/member'], defaults: { cache: { ttl: 60 } } } },
    },
    settings: { search: { backend: 'sim' } },
  })
})
afterAll(async () => {
  await expectAudited(lab.weir)
  await lab.weir.stop()
  await provider.stop()
})

const cache = { ttl: 3600 }
const hello = [{ role: 'user', content: 'Hello' }]

interface Told {
  readonly status: number
  readonly text: string
  readonly provider: string | null
  readonly id: string
}

async function ask(path: string, asked: object, key = lab.weir.key): Promise<Told> {
  const google = path.startsWith('/v1beta')
  const headers = {
    'content-type': 'application/json',
    ...(google ? { 'x-goog-api-key': key } : { authorization: `Bearer ${key}` }),
  }
  const base = google ? lab.weir.origin : lab.weir.baseUrl
  const response = await fetch(base + path, { method: 'POST', headers, body: JSON.stringify(asked) })
  return {
    status: response.status,
    text: await response.text(),
    provider: response.headers.get('x-weir-provider'),
    id: response.headers.get('x-request-id')!,
  }
}

const chat = (model: string, more: object = {}, key?: string) =>
  ask('/chat/completions', { model, messages: hello, cache, ...more }, key)
const numberIn = ({ text }: Told) => /Answer (\d+)/.exec(text)?.[1]

const doors: readonly (readonly [string, (more: object) => readonly [path: string, body: object]])[] = [
  ['chat', (more) => ['/chat/completions', { model: 'p/plain', messages: hello, cache, ...more }]],
  ['responses', (more) => ['/responses', { model: 'p/plain', input: 'Hello', cache, ...more }]],
  [
    'messages',
    (more) => ['/messages', { model: 'p/plain', max_tokens: 50, messages: hello, cache, ...more }],
  ],
]

describe.each([false, true])('streamed: %p', (stream) => {
  test.each(doors)(
    '%s gets the answer that was paid for, under an id of its own, for nothing',
    async (name, door) => {
      const [path, asked] = door({ stream, user: `${name} ${stream}` })
      const first = await ask(path, asked)
      const { total_used } = await creditsOf(lab.weir)
      const second = await ask(path, asked)
      expect([first.provider, second.provider, second.status]).toEqual(['p', 'cache', 200])
      expect(numberIn(second)).toBe(numberIn(first)!)
      expect(second.id).not.toBe(first.id)
      expect((await creditsOf(lab.weir)).total_used).toBe(total_used)
      const [paid, given] = [await receiptOf(lab.weir, first.id), await receiptOf(lab.weir, second.id)]
      expect([Number(paid!.charged) > 0, given!.charged, given!.mode]).toEqual([true, '0', 'live'])
      expect(given!.attempts).toMatchObject([
        { provider: 'cache', reason: expect.stringContaining(first.id) },
      ])
      expect(given!.usage).toEqual(paid!.usage)
    },
  )

  test('calls of tools and pictures are given again as they were', async () => {
    const [first, second] = [await chat('p/rich', { stream }), await chat('p/rich', { stream })]
    expect(second.provider).toBe('cache')
    for (const part of ['call_1', 'river', 'aWs=']) expect(second.text).toContain(part)
    expect(numberIn(second)).toBe(numberIn(first)!)
  })
})

test('Gemini’s clients too', async () => {
  const asked = { contents: [{ role: 'user', parts: [{ text: 'Guten Tag' }] }], cache }
  const path = '/v1beta/models/p/plain:generateContent'
  expect([(await ask(path, asked)).provider, (await ask(path, asked)).provider]).toEqual(['p', 'cache'])
})

describe('asked anew is', () => {
  const providersOf = async (...calls: (() => Promise<Told>)[]) => {
    const found: (string | null)[] = []
    for (const one of calls) found.push((await one()).provider)
    return found
  }

  test('for another account, another request, and whoever does not ask for less', async () => {
    const { key } = await accountWith(lab.weir, 'other@example.org', { purchased: '5' })
    const one =
      (more: object = {}, of?: string) =>
      () =>
        chat('p/plain', { user: 'alone', ...more }, of)
    expect(
      await providersOf(
        one(),
        one({}, key),
        one({ temperature: 0.5 }),
        one({ cache: { ttl: 0 } }),
        one({ cache: null }),
        one(),
      ),
    ).toEqual(['p', 'p', 'p', 'p', 'p', 'cache'])
    const again = await keyFor(lab.weir, 'other@example.org')
    expect(await providersOf(one({}, again.key))).toEqual(['cache'])
  })

  test('what broke off, and what failed', async () => {
    const cut = () => chat('p/cut', { stream: true })
    expect(await providersOf(cut, cut)).toEqual(['p', 'p'])
    const before = provider.requests.length
    await chat('p/failing')
    const asked = provider.requests.length - before
    await chat('p/failing')
    expect(provider.requests.length - before).toBe(2 * asked)
  })

  test('what is out of bounds is refused', async () => {
    for (const wrong of [{ ttl: -1 }, { ttl: 1e9 }, { ttl: 1, pace: true }, 60])
      expect((await chat('p/plain', { cache: wrong })).status).toBe(400)
  })
})

test('a route asks for it where its callers say nothing', async () => {
  const plain = { model: 'remembered', messages: hello }
  const one = () => ask('/chat/completions', plain)
  expect([(await one()).provider, (await one()).provider]).toEqual(['p', 'cache'])
  expect((await ask('/chat/completions', { ...plain, cache: { ttl: 0 } })).provider).toBe('p')
})

test('a key asks for it where its callers and their route say nothing', async () => {
  const { key, keyId } = await keyFor(lab.weir, 'owner@localhost', '--cache-ttl', '60')
  const plain = { model: 'p/plain', messages: hello, user: 'of a key' }
  const one = (more: object = {}, of = key) => ask('/chat/completions', { ...plain, ...more }, of)
  expect([(await one()).provider, (await one()).provider]).toEqual(['p', 'cache'])
  expect((await one({ cache: { ttl: 0 } })).provider).toBe('p')
  expect((await one({}, lab.weir.key)).provider).toBe('p')
  const tools = [{ type: 'web_search' }]
  expect((await one({ tools })).text).not.toContain("gateway's own tools")
  await lab.weir.command('keys', 'limit', keyId, '--cache-ttl', 'none')
  expect((await one()).provider).toBe('p')
})

test('an answer with tools of the gateway is not kept, and says so', async () => {
  const tools = [{ type: 'web_search' }]
  const { text } = await chat('p/plain', { tools, user: 'searching' })
  expect(text).toContain("gateway's own tools")
})

// ---- what is kept ---------------------------------------------------------------------------------------------

describe('kept answers', () => {
  const candidate = { provider: { id: 'p', baseUrl: 'u' }, offer: { upstream: 'm' } } as never
  const lowered = (text: string) => ({ path: '/', headers: {}, body: text })

  async function keep(answers: AnswerCache, text: string, bytes: number, account = 'a'): Promise<void> {
    const of = answers.forCall(account, 'req', 1000)!
    const sent = lowered(text)
    of.servedBy(candidate, sent)
    await of.record(new Response('x'.repeat(bytes)), sent).text()
    of.keep()
  }
  const isKept = (answers: AnswerCache, text: string, account = 'a') =>
    answers.forCall(account, 'req', 1000)!.servedBy(candidate, lowered(text)).cached !== undefined

  test('are as old as is asked for, and no older', async () => {
    const clock = stillClock(0)
    const answers = new AnswerCache(100_000, clock)
    await keep(answers, 'one', 10)
    clock.pass(1000)
    expect(isKept(answers, 'one')).toBe(true)
    clock.pass(1)
    expect(isKept(answers, 'one')).toBe(false)
  })

  test('take no more than they may: the one asked for longest ago goes', async () => {
    const answers = new AnswerCache(100_000, stillClock(0))
    for (let at = 0; at < 20; at++) {
      await keep(answers, `answer ${at}`, 10_000)
      isKept(answers, 'answer 0')
    }
    const kept = Array.from({ length: 20 }, (_, at) => isKept(answers, `answer ${at}`)).filter(Boolean)
    expect(kept.length).toBe(9)
    expect(isKept(answers, 'answer 0')).toBe(true)
    // One that is larger than its share leaves the others in peace.
    await keep(answers, 'large', 20_000)
    expect([isKept(answers, 'large'), isKept(answers, 'answer 19')]).toEqual([false, true])
    expect(new AnswerCache(0, stillClock(0)).forCall('a', 'req', 1000)).toBeUndefined()
  })

  test('are their account’s alone', async () => {
    const answers = new AnswerCache(100_000, stillClock(0))
    await keep(answers, 'mine', 10)
    expect([isKept(answers, 'mine'), isKept(answers, 'mine', 'b')]).toEqual([true, false])
  })
})
