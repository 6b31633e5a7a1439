// Clients leave, at every frame of a stream and before whole answers. Each departure ends the provider's work (or
// reads it to its end, where that was asked for), is charged once by its policy, and holds nothing.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import OpenAI from 'openai'
import { postAs } from '../../support/call-gateway.ts'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'

const words = ['The ', 'river ', 'runs ', 'to ', 'the ', 'sea.']
/** What a whole answer costs: 12 tokens of prompt, 6 of output. */
const whole = 24e-6

let provider: Provider
let lab: Lab
let client: OpenAI

beforeAll(async () => {
  provider = startPacedProvider(words)
  lab = await startLab({
    providers: { paced: provider.url, groq: { protocol: undefined, base_url: provider.url } },
    models: { 'paced/m': ['paced/m'], 'groq/m': ['groq/m'] },
  })
  client = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})

afterAll(async () => {
  await lab?.weir.stop()
  provider?.stop()
})

const messages = [{ role: 'user' as const, content: 'Where does it run?' }]
const rested = () => until(lab.held, (held) => held === '0')

/** Reads so many frames of a stream with the official client, then leaves it. */
async function leaveAfter(frames: number, model: string, more: object = {}): Promise<void> {
  const caller = new AbortController()
  const stream = await client.chat.completions.create(
    { model, messages, stream: true, ...more },
    { signal: caller.signal },
  )
  let seen = 0
  for await (const _ of stream) if (++seen === frames) caller.abort()
}

describe('a stream that is left', () => {
  test.each([1, 2, 3, 4, 5, 6])(
    'after %p frames ends at the provider within a second and is charged for what was delivered',
    async (frames) => {
      const before = await lab.used()
      const call = provider.calls.length
      await leaveAfter(frames, 'paced/m')
      await until(() => provider.calls[call]!.ending !== 'open', 1_000)
      await rested()
      const charged = (await lab.used()) - before
      // An estimate: the prompt is guessed, the words are counted as they pass.
      if (frames > 1) expect(charged).toBeGreaterThan(0)
      expect(charged).toBeLessThan(whole * 3)
      if (frames < 5) expect(provider.calls[call]!.ending).toBe('left')
    },
  )

  test.each([
    ['the request asks for it', 'paced/m', { on_disconnect: 'finish' }],
    ['the provider bills on regardless', 'groq/m', {}],
    ['the request asks for a cut, but the provider bills on', 'groq/m', { on_disconnect: 'cancel' }],
  ])('is read to its end, and charged exactly, when %s', async (_, model, more) => {
    const before = await lab.used()
    const call = provider.calls.length
    await leaveAfter(2, model, more)
    await rested()
    expect(provider.calls[call]!.ending).toBe('done')
    expect((await lab.used()) - before).toBeCloseTo(whole, 12)
  })

  test('before its first word is read to its end where the provider bills on', async () => {
    const slow = startPacedProvider(words, 5, 300)
    const drained = await startLab({
      providers: { groq: { protocol: undefined, base_url: slow.url } },
      models: { 'groq/m': ['groq/m'] },
    })
    try {
      const caller = new AbortController()
      const asked = drained.ask('groq/m', { stream: true }, caller.signal).catch(() => 'left')
      await until(() => slow.calls.length === 1)
      caller.abort()
      expect(await asked).toBe('left')
      await until(() => slow.calls[0]!.ending !== 'open')
      await until(drained.held, (held) => held === '0')
      expect(slow.calls[0]!.ending).toBe('done')
      expect(await drained.used()).toBeCloseTo(whole, 12)
    } finally {
      await drained.weir.stop()
      slow.stop()
    }
  })
})

describe('a whole answer whose client leaves', () => {
  const ask = async (more: Record<string, unknown>, model = 'paced/m') => {
    const call = provider.calls.length
    const caller = new AbortController()
    const asked = lab.ask(model, more, caller.signal).catch(() => 'left')
    await until(() => provider.calls.length > call)
    caller.abort()
    expect(await asked).toBe('left')
    await until(() => provider.calls[call]!.ending !== 'open', 1_000)
    await rested()
    return provider.calls[call]!.ending
  }

  test('is given up at the provider and costs its prompt', async () => {
    const before = await lab.used()
    expect(await ask({})).toBe('left')
    // Our count of it, and nothing of the output.
    expect((await lab.used()) - before).toBeWithin(5e-6, 20e-6)
  })

  test.each([
    ['the request asks for it', 'paced/m', { on_disconnect: 'finish' }],
    ['the request asks for a cut, but the provider bills on', 'groq/m', { on_disconnect: 'cancel' }],
  ])('is awaited and charged exactly when %s', async (_, model, more) => {
    const before = await lab.used()
    expect(await ask(more, model)).toBe('done')
    expect((await lab.used()) - before).toBeCloseTo(whole, 12)
  })
})

describe('a client that leaves before the first byte', () => {
  /** About 2,400 tokens, at one dollar a million. */
  const prompt = 'Where does the river run to? '.repeat(340)
  const owed = [2_000e-6, 3_000e-6] as const
  const asked: string[] = []
  let silent: Bun.Server<undefined>
  let quiet: Lab

  beforeAll(async () => {
    // Takes requests and does not answer, but refuses the first of those that say so, and counts the prompt of others.
    silent = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      async fetch(request) {
        const body = await request.text()
        asked.push(body)
        if (body.includes('be busy') && asked.filter((each) => each.includes('be busy')).length === 1)
          return Response.json({ error: {} }, { status: 503 })
        if (!body.includes('count it')) return new Promise<Response>(() => undefined)
        const message = { id: 'm', usage: { input_tokens: 2_345, output_tokens: 1 } }
        const start = `event: message_start\ndata: ${JSON.stringify({ type: 'message_start', message })}\n\n`
        const stream = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from(start)) })
        return new Response(stream, { headers: { 'content-type': 'text/event-stream' } })
      },
    })
    const url = `http://127.0.0.1:${silent.port}/v1`
    quiet = await startLab({
      providers: { quiet: url, claude: { protocol: 'anthropic-messages', base_url: url }, busy: url },
      models: {
        'quiet/m': {},
        'quiet/thinks': { reasoning: true },
        'quiet/v': { output_modalities: ['embeddings'] },
        'claude/m': {},
        'busy/m': {},
      },
    })
  })

  afterAll(async () => {
    await quiet?.weir.stop()
    await silent?.stop(true)
  })

  /** Leaves a call as soon as its provider has been asked `times`; gives what became of it. */
  async function left(path: string, body: object, times = 1) {
    const before = { used: await quiet.used(), asked: asked.length }
    const rows = async () => (await quiet.get('/v1/requests'))['data'] as Record<string, unknown>[]
    const [last] = await rows()
    const client = new AbortController()
    const asking = postAs(quiet.weir.origin + path, quiet.weir.key, body, { signal: client.signal }).catch(
      () => 'left' as const,
    )
    await until(() => asked.length - before.asked === times)
    client.abort()
    expect(await asking).toBe('left')
    const [row] = await until(rows, ([latest]) => latest !== undefined && latest['id'] !== last?.['id'])
    await until(quiet.held, (held) => held === '0')
    const { data } = await quiet.get(`/v1/generation?id=${String(row!['id'])}`)
    return { charged: (await quiet.used()) - before.used, row, receipt: data as Record<string, unknown> }
  }

  const messages = [{ role: 'user', content: prompt }]
  const chat = { model: 'quiet/m', messages }
  test.each<[string, string, object]>([
    ['a stream', '/v1/chat/completions', { ...chat, stream: true }],
    ['a whole answer', '/v1/chat/completions', chat],
    ['a message', '/v1/messages', { ...chat, max_tokens: 100 }],
    ['a response', '/v1/responses', { model: 'quiet/m', input: prompt, stream: true }],
    ['a completion', '/v1/completions', { model: 'quiet/m', prompt }],
    [
      "Gemini's protocol",
      '/v1beta/models/quiet/m:generateContent',
      { contents: [{ parts: [{ text: prompt }] }] },
    ],
    ['vectors', '/v1/embeddings', { model: 'quiet/v', input: prompt }],
    ['a model that thinks', '/v1/chat/completions', { ...chat, model: 'quiet/thinks', stream: true }],
    [
      'an answer with tools of the gateway',
      '/v1/chat/completions',
      { ...chat, tools: [{ type: 'web_search', engine: 'sim' }] },
    ],
  ])('of %s owes the prompt', async (_, path, body) => {
    const { charged, row, receipt } = await left(path, body)
    expect(charged).toBeWithin(...owed)
    expect(row).toMatchObject({ status: 499, code: 'client_gone', ending: 'client-gone', provider: 'quiet' })
    expect(receipt).toMatchObject({
      state: 'settled',
      ending: 'client-gone',
      absorbed: '0',
      usage: { estimated: true, completion_tokens: 0 },
    })
  })

  test('owes as much as the provider has counted, where it has', async () => {
    const content = `${prompt} count it`
    const body = { model: 'claude/m', messages: [{ role: 'user', content }], max_tokens: 100, stream: true }
    const { receipt } = await left('/v1/messages', body)
    expect(receipt).toMatchObject({ state: 'settled', usage: { estimated: true } })
    expect((receipt['usage'] as { prompt_tokens: number }).prompt_tokens).toBeWithin(2_000, 3_000)
  })

  test('owes it once, whatever has failed before', async () => {
    const content = `${prompt} be busy`
    const body = { model: 'busy/m', messages: [{ role: 'user', content }] }
    const { charged, receipt } = await left('/v1/chat/completions', body, 2)
    expect(charged).toBeWithin(...owed)
    const codes = (receipt['attempts'] as { code: string }[]).map(({ code }) => code)
    expect(codes).toEqual(['overloaded', 'client_gone'])
  })

  test('is counted against no provider', async () => {
    const health = (await quiet.get('/v1/providers'))['data'] as { id: string }[]
    expect(health.find(({ id }) => id === 'quiet')).toMatchObject({ state: 'healthy', answers: 0 })
    // One row each, and no error.
    const ids = ((await quiet.get('/v1/requests'))['data'] as { id: string }[]).map(({ id }) => id)
    expect(ids).toHaveLength(new Set(ids).size)
    const days = (await quiet.get('/v1/usage'))['data'] as { calls: number; errors: number }[]
    expect(days.map(({ calls, errors }) => [calls, errors])).toEqual([[ids.length, 0]])
    expect(quiet.weir.output()).not.toMatch(/upstream_error|an attempt failed(?!.*busy)/)
    expect(await quiet.weir.command('ledger', 'audit', '--json')).toMatchObject({ code: 0 })
  })
})

test('many leave at once, and nobody is left behind', async () => {
  const call = provider.calls.length
  await Promise.all(Array.from({ length: 60 }, (_, at) => leaveAfter(1 + (at % 5), 'paced/m')))
  await rested()
  await until(() => provider.calls.slice(call).filter(({ ending }) => ending === 'open').length === 0, 1_000)
  const health = (await lab.get('/v1/providers'))['data'] as { id: string; success_rate: number }[]
  expect(health.find(({ id }) => id === 'paced')).toMatchObject({ state: 'healthy', success_rate: 1 })
})

/** Each leaves an answer of 400 MB unread. */
const readers = 8

test('a client that stops reading a large answer is given up, and its answer does not fill the memory', async () => {
  const large = startPacedProvider(Array<string>(4_000).fill('x'.repeat(100_000)), 0)
  const stalling = await startLab({
    providers: { large: large.url },
    models: { 'large/m': ['large/m'] },
    settings: { timeouts: { client_stall_ms: 600 } },
  })
  try {
    await stalling.ask('sim/echo')
    const before = memoryOf(stalling.weir.pid)
    const sockets = await Promise.all(
      Array.from({ length: readers }, () => stalledReader(stalling.weir.port, stalling.weir.key, 'large/m')),
    )
    await until(() => large.calls.length === readers)
    await until(() => large.calls.filter(({ ending }) => ending === 'open').length === 0, 20_000)
    expect(large.calls.map(({ ending }) => ending)).toEqual(Array(readers).fill('left'))
    // A tenth of what was on its way to them: whoever kept it all would hold all of it.
    expect(memoryOf(stalling.weir.pid) - before).toBeLessThan((readers * 400e6) / 10)
    await until(stalling.held, (held) => held === '0')
    expect(await stalling.used()).toBeGreaterThan(0)
    for (const socket of sockets) socket.end()
  } finally {
    await stalling.weir.stop()
    large.stop()
  }
}, 40_000)

test('the gateway has nothing to say of all this but its own words, and its ledger proves itself', async () => {
  expect(lab.weir.output()).not.toMatch(/unhandled|uncaught|TypeError|AbortError/i)
  expect(await lab.weir.command('ledger', 'audit', '--json')).toMatchObject({ code: 0 })
})

function memoryOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+)/.exec(status)![1]) * 1024
}

/** Asks for a stream over a bare connection and never reads what comes. */
async function stalledReader(port: number, key: string, model: string) {
  const body = JSON.stringify({ model, messages, stream: true })
  const socket = await Bun.connect({
    hostname: '127.0.0.1',
    port,
    socket: { data: () => undefined, error: () => undefined },
  })
  socket.pause()
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}
