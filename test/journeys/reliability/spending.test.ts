// G4: calls that set no limit to their answers, many at once, against a provider that always writes as much as it may.
// What it bills for them never exceeds the credit that pays for them, nor the limit of a key, whatever the door and the
// process.

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { postAs, runJson } from '../../support/call-gateway.ts'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { mcpServer, type TestMcpServer, text } from '../../support/mcp-server.ts'

setDefaultTimeout(60_000)

/** What its models write without a limit, tokens. */
const longest = 100_000
const promptTokens = 12
/** Calls begin one after another: each is decided on while those before it are at work. */
const staggerMs = 10
const calls = 58
/** US dollars per million tokens: cheap enough for the daily allowance to pay. */
const price = { input: '0.5', output: '2' }
const costOf = (tokens: number) => (promptTokens * 0.5 + tokens * 2) / 1_000_000

interface Asked {
  readonly model: string
  readonly stream?: boolean
  readonly n?: number
  readonly max_tokens?: number
  readonly max_completion_tokens?: number
  readonly tools?: readonly object[]
  readonly messages?: readonly { readonly role: string }[]
}

/** Output tokens of each answer that the provider bills, and the limits that it was sent. */
let billed: number[] = []
/** Answers that are being written; all of them are finished when no call is on its way any more. */
let writing = 0
let finishing = Promise.withResolvers<void>()
let limits: (number | undefined)[] = []
let provider: Bun.Server<undefined>
let server: TestMcpServer
let lab: Lab

const usageOf = (tokens: number) => ({
  prompt_tokens: promptTokens,
  completion_tokens: tokens,
  total_tokens: promptTokens + tokens,
})
const same = { id: 'chatcmpl-1', created: 1_767_225_600, model: 'm' }

async function answer(request: Request): Promise<Response> {
  const body = (await request.json()) as Asked
  if (request.url.endsWith('/embeddings')) {
    billed.push(0)
    const data = [{ object: 'embedding', index: 0, embedding: [1, 2] }]
    return Response.json({
      object: 'list',
      data,
      usage: { prompt_tokens: promptTokens, total_tokens: promptTokens },
    })
  }
  const calledTool = body.messages?.some(({ role }) => role === 'tool') === true
  if (body.tools !== undefined && !calledTool) {
    billed.push(20)
    const call = {
      id: 'call_1',
      type: 'function',
      function: { name: 'sky__weather', arguments: '{"city":"Pune"}' },
    }
    const message = { role: 'assistant', content: null, tool_calls: [call] }
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' }]
    return Response.json({ ...same, object: 'chat.completion', choices, usage: usageOf(20) })
  }
  const limit = body.max_tokens ?? body.max_completion_tokens
  limits.push(limit)
  const tokens = Math.min(limit ?? longest, longest) * (body.n ?? 1)
  if (body.stream === true) return new Response(written(body.model, tokens), { headers: eventStream })
  billed.push(tokens)
  writing += 1
  await finishing.promise
  const message = { role: 'assistant', content: 'word '.repeat(20) }
  const choices = Array.from({ length: body.n ?? 1 }, (_, index) => ({
    index,
    message,
    finish_reason: 'length',
  }))
  return Response.json({ ...same, object: 'chat.completion', choices, usage: usageOf(tokens) })
}

const eventStream = { 'content-type': 'text/event-stream' }
const wordsAtOnce = 100

/** The stream of an answer: `plain` shows each word and ends when nobody reads it; others think, and are billed whole. */
function written(model: string, tokens: number): ReadableStream<string> {
  const frame = (fields: object) =>
    `data: ${JSON.stringify({ ...same, object: 'chat.completion.chunk', ...fields })}\n\n`
  const delta = (content: object, finish: string | null) =>
    frame({ choices: [{ index: 0, delta: content, finish_reason: finish }] })
  const at = billed.push(0) - 1
  const bill = billed
  const reader = { gone: false }
  return new ReadableStream<string>({
    async start(controller) {
      controller.enqueue(delta({ role: 'assistant', content: 'word ' }, null))
      if (model !== 'plain') {
        bill[at] = tokens
        writing += 1
        await finishing.promise
      }
      while (!reader.gone && bill[at]! < tokens) {
        bill[at] = Math.min(tokens, bill[at]! + wordsAtOnce)
        controller.enqueue(delta({ content: 'word '.repeat(wordsAtOnce) }, null))
        await Bun.sleep(5)
      }
      if (reader.gone) return
      controller.enqueue(
        delta({}, 'length') + frame({ choices: [], usage: usageOf(tokens) }) + 'data: [DONE]\n\n',
      )
      controller.close()
    },
    cancel: () => {
      reader.gone = true
    },
  })
}

beforeAll(async () => {
  provider = Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 60, fetch: answer })
  server = mcpServer({
    tools: () => [{ name: 'weather', description: 'The weather', inputSchema: { type: 'object' } }],
    call: () => text('Rain'),
  })
  const base_url = `http://127.0.0.1:${provider.port}/v1`
  const chat = { max_output_tokens: longest, price }
  lab = await startLab({
    // Groq is one of those that bill on for a stream that nobody reads.
    providers: { lab: base_url, groq: { base_url } },
    models: {
      'lab/plain': { ...chat, upstream: 'plain' },
      'lab/thinks': { ...chat, upstream: 'thinks', reasoning: true },
      'groq/plain': { ...chat, upstream: 'drained' },
      'lab/vectors': { price: { input: '0.5', output: '0' }, output_modalities: ['embeddings'] },
    },
    settings: { egress: { allow_hosts: [server.host] } },
  })
})
afterAll(async () => {
  await lab?.weir.stop()
  server?.[Symbol.dispose]()
  await provider?.stop(true)
})

const command = (...args: string[]) => runJson<Record<string, string>>(lab.weir, ...args)

/** An account with so much purchased credit, a key of it, and a session of its app. */
async function member(usd: string, ...limits: string[]) {
  const email = `${crypto.randomUUID()}@example.org`
  await command('accounts', 'create', '--email', email)
  if (usd !== '0') await command('credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', usd)
  const { key } = await command('keys', 'create', '--account', email, ...limits)
  const { token } = await command('accounts', 'session', '--account', email)
  return { key: key!, token: token! }
}

type Send = (secret: string) => Promise<Response>

function post(path: string, body: object, more: Readonly<Record<string, string>> = {}): Send {
  return (secret) => postAs(lab.weir.origin + path, secret, body, { headers: { ...more }, keepalive: false })
}

const messages = [{ role: 'user', content: 'Write a very long story.' }]
const chat = (model: string, more: object = {}) => post('/v1/chat/completions', { model, messages, ...more })
const gemini = { contents: [{ role: 'user', parts: [{ text: 'Write a very long story.' }] }] }
/** Every way to have something written, by name. */
const doors = (): Readonly<Record<string, Send>> => ({
  chat: chat('lab/plain'),
  'chat, streamed': chat('lab/thinks', { stream: true }),
  completions: post('/v1/completions', { model: 'lab/plain', prompt: 'Once' }),
  responses: post('/v1/responses', { model: 'lab/thinks', input: 'Once' }),
  'responses, streamed': post('/v1/responses', { model: 'groq/plain', input: 'Once', stream: true }),
  // This protocol demands a limit.
  messages: post('/v1/messages', { model: 'lab/plain', max_tokens: 5_000, messages }),
  'messages, streamed': post('/v1/messages', {
    model: 'lab/thinks',
    max_tokens: 5_000,
    messages,
    stream: true,
  }),
  gemini: post('/v1beta/models/lab/plain:generateContent', gemini),
  embeddings: post('/v1/embeddings', { model: 'lab/vectors', input: 'Once' }),
  'two answers': chat('lab/plain', { n: 2, models: ['lab/thinks'] }),
  tools: chat('lab/plain', {
    tools: [{ type: 'mcp', server_label: 'sky', server_url: server.url, require_approval: 'never' }],
  }),
  mcp: post(
    '/mcp',
    {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'chat', arguments: { model: 'lab/plain', prompt: 'Once' } },
    },
    { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' },
  ),
})

interface Told {
  readonly status: number
  readonly text: string
  readonly warnings: string
}

/** Sends so many, each a moment after the one before, and waits for all answers. */
async function sendAll(secret: string, sends: readonly Send[], count = calls): Promise<Told[]> {
  billed = []
  limits = []
  writing = 0
  finishing = Promise.withResolvers()
  let answered = 0
  const told: Promise<Told>[] = []
  for (let at = 0; at < count; at++) {
    const sent = sends[at % sends.length]!(secret)
    const { promise: next, resolve } = Promise.withResolvers<void>()
    setTimeout(resolve, staggerMs)
    told.push(
      sent.then(async (response) => {
        const said = await response.text()
        answered += 1
        return {
          status: response.status,
          text: said,
          warnings: response.headers.get('x-weir-warnings') ?? '',
        }
      }),
    )
    await next
  }
  await until(
    () => writing + answered,
    (settled) => settled === count,
  )
  finishing.resolve()
  return Promise.all(told)
}

const bill = () => billed.reduce((sum, tokens) => sum + costOf(tokens), 0)
const served = (told: readonly Told[]) => told.filter(({ status }) => status === 200)

/** Only credit that others hold refuses a call, and it says that it will be free again. */
function expectReserved(told: readonly Told[]): void {
  const refused = told.filter(({ status }) => status !== 200)
  for (const { status, text: said } of refused)
    expect([status, said]).toEqual([402, expect.stringContaining('credits_reserved')])
}

async function usedBy(secret: string, path = '/v1/credits'): Promise<number> {
  const headers = { authorization: `Bearer ${secret}` }
  const credits = async () => {
    const { data } = (await (await fetch(lab.weir.origin + path, { headers })).json()) as {
      data: { held: string; total_used: string }
    }
    return data
  }
  return Number((await until(credits, ({ held }) => held === '0')).total_used)
}

async function expectAudited(): Promise<void> {
  const said = await lab.weir.command('ledger', 'audit', '--json')
  expect(said).toMatchObject({ code: 0 })
}

const kinds: readonly (readonly [string, () => readonly Send[]])[] = [
  ['whole answers', () => [chat('lab/plain')]],
  ['streams of a model that reasons', () => [chat('lab/thinks', { stream: true })]],
  ['streams of a provider that bills on', () => [chat('groq/plain', { stream: true })]],
]

describe('G4: calls without a limit', () => {
  test.each(kinds)('%s: 58 on one dollar are all served, and billed no more than it', async (_, sends) => {
    const { key } = await member('1')
    const told = await sendAll(key, sends())
    expect(bill()).toBeLessThanOrEqual(1)
    // None is refused, since half of the credit is left to those that come later; none is sent less than is typical.
    expect(served(told)).toHaveLength(calls)
    expect(Math.min(...limits.map((limit) => limit ?? longest))).toBeGreaterThanOrEqual(4_096)
    // The first that is decided on has all it can write; which of them that is, chance decides.
    expect(told.map(({ warnings }) => warnings)).toContain('')
    expect(told.at(-1)!.warnings).toMatch(/limited to [\d,]+ tokens by the credit available/)
    expect(await usedBy(key)).toBeCloseTo(bill(), 9)
    await expectAudited()
  })

  test('all doors mixed: no more is billed than the credit', async () => {
    const { key } = await member('1')
    const mixed = doors()
    const told = await sendAll(key, Object.values(mixed))
    expect(bill()).toBeWithin(0.3, 1.000_001)
    expectReserved(told)
    const failed = Object.keys(mixed).filter((_, at) => told[at]!.status !== 200)
    expect(failed).toEqual([])
    expect(told.at(Object.keys(mixed).indexOf('mcp'))!.text).not.toContain('isError')
    expect(served(told).length).toBeGreaterThan(45)
    expect(await usedBy(key)).toBeCloseTo(bill(), 9)
    await expectAudited()
  })

  test('a key is billed no more than its limit, whatever the account has', async () => {
    const { key } = await member('100', '--limit-usd', '0.3')
    const told = await sendAll(key, [chat('lab/plain'), chat('lab/thinks', { stream: true })])
    expect(bill()).toBeLessThanOrEqual(0.3)
    expectReserved(told)
    expect(served(told).length).toBeGreaterThanOrEqual(18)
    expect(await usedBy(key)).toBeCloseTo(bill(), 9)
  })

  test('calls of the app are billed no more than its pools', async () => {
    const { token } = await member('0')
    const app = (model: string, more: object = {}): Send =>
      post('/app/v1/chat/completions', { model, messages, ...more })
    const told = await sendAll(token, [app('lab/plain'), app('lab/thinks', { stream: true })])
    expect(bill()).toBeLessThanOrEqual(0.7)
    expectReserved(told)
    expect(served(told).length).toBeGreaterThanOrEqual(42)
    expect(await usedBy(token, '/app/v1/credits')).toBeCloseTo(bill(), 9)
    await expectAudited()
  })

  test('streams that can be stopped are stopped where the credit ends', async () => {
    const { key } = await member('0.2')
    const told = await sendAll(key, [chat('lab/plain', { stream: true })], 24)
    expectReserved(told)
    // What a read brings beyond the credit, and what its provider writes until it sees that nobody reads on, is not theirs.
    expect(await usedBy(key)).toBeLessThanOrEqual(0.2)
    expect(told.some(({ text: said }) => said.includes('"stopped_by":"credits"'))).toBe(true)
  })

  test('one call is not cut short where credit is plenty, and the account goes on beside it', async () => {
    const { key } = await member('20')
    const told = await sendAll(key, [chat('lab/plain')], 20)
    expect(served(told)).toHaveLength(20)
    expect(limits).toEqual(Array.from({ length: 20 }, () => undefined))
    expect(new Set(told.map(({ warnings }) => warnings))).toEqual(new Set(['']))
  })
})
