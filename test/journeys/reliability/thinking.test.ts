// A model that thinks says nothing for minutes: that is no failure, and its client is given signs of life meanwhile.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Receipt } from '../../../src/credits/ledger/receipt.ts'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { postAs } from '../../support/call-gateway.ts'

const encoder = new TextEncoder()
const event = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`
const end = `${event({}, 'stop')}data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices: [], usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 } })}\n\ndata: [DONE]\n\n`

/** What the provider sends, one after the other: text, or milliseconds of silence; its status after the first silence. */
interface Play {
  readonly script: readonly (string | number)[]
  readonly status?: number
}

/** The question is the script of its answer, so that many can be played at the same time. */
function playIn(body: { messages: { content: string | { text: string }[] }[] }): Play {
  const { content } = body.messages.at(-1)!
  return JSON.parse(typeof content === 'string' ? content : content[0]!.text) as Play
}

const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 0,
  async fetch(request) {
    const { script, status = 200 } = playIn((await request.json()) as Parameters<typeof playIn>[0])
    const [first] = script
    if (typeof first === 'number') await Bun.sleep(first)
    if (status !== 200) return Response.json({ error: { message: 'no' } }, { status })
    const parts = typeof first === 'number' ? script.slice(1) : script
    const body = new ReadableStream({
      async start(controller) {
        for (const part of parts)
          if (typeof part === 'number') await Bun.sleep(part)
          else controller.enqueue(encoder.encode(part))
        controller.close()
      },
    })
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
  },
})

/** Beyond these is too long for a model that does not think. */
const patienceMs = 1_500
const silenceMs = 3_000
const pingMs = 500
const keepaliveMs = 300

let lab: Lab

beforeAll(async () => {
  const model = { price: { input: '1', output: '2' }, max_output_tokens: 4096 }
  lab = await startLab({
    providers: { lab: `http://127.0.0.1:${provider.port}/v1` },
    models: { 'lab/plain': model, 'lab/thinks': { ...model, reasoning: true } },
    settings: {
      timeouts: { first_byte_ms: patienceMs, gap_ms: patienceMs },
      stream: { keepalive_ms: keepaliveMs },
    },
  })
}, 30_000)

afterAll(async () => {
  await lab?.weir.stop()
  await provider.stop(true)
})

interface Door {
  readonly name: string
  readonly path: string
  /** Its sign of life, up to the lines that only some have. */
  readonly sign: string
  readonly body: (model: string, content: string) => object
}

const doors: readonly Door[] = [
  {
    name: 'chat completions',
    path: '/v1/chat/completions',
    sign: ': ',
    body: (model, content) => ({ model, messages: [{ role: 'user', content }] }),
  },
  { name: 'Responses', path: '/v1/responses', sign: ': ', body: (model, input) => ({ model, input }) },
  {
    name: 'Messages',
    path: '/v1/messages',
    sign: 'event: ping\ndata: {"type": "ping"}\n\n',
    body: (model, content) => ({ model, max_tokens: 500, messages: [{ role: 'user', content }] }),
  },
]

async function play({ path, body: bodyOf }: Door, model: string, played: Play, more: object = {}) {
  const begun = performance.now()
  const body = { ...bodyOf(model, JSON.stringify(played)), stream: true, ...more }
  const answer = await postAs(lab.weir.origin + path, lab.weir.key, body)
  const headMs = performance.now() - begun
  const id = answer.headers.get('x-request-id') ?? ''
  return { status: answer.status, headMs, text: await answer.text(), id }
}

const receiptOf = async (id: string) => (await lab.get(`/v1/generation?id=${id}`))['data'] as Receipt
const answered = event({ content: 'done' })

test.concurrent.each(doors)(
  'a stream of $name whose model thinks has headers and signs of life, then the answer',
  async (door) => {
    const { status, text, headMs, id } = await play(door, 'lab/thinks', {
      script: [silenceMs, answered, end],
    })
    expect({ status, inTime: headMs < silenceMs }).toEqual({ status: 200, inTime: true })
    expect(text).toStartWith(door.sign)
    expect(text).toContain('done')
    expect(await receiptOf(id)).toMatchObject({ state: 'settled', ending: 'finished', total: '0.00002' })
  },
)

test.concurrent.each(doors)(
  'a stream of $name whose model thinks in the middle has signs of life there',
  async (door) => {
    const begin = event({ content: 'begun' })
    const { text } = await play(door, 'lab/thinks', { script: [begin, silenceMs, answered, end] })
    expect(text.slice(text.indexOf('begun'), text.indexOf('done'))).toContain(`\n\n${door.sign}`)
  },
)

test.concurrent.each(doors)(
  'a stream of $name that fails after that ends with an error, and is not charged',
  async (door) => {
    const { status, text, id } = await play(door, 'lab/thinks', { script: [silenceMs], status: 400 })
    expect({ status, text }).toMatchObject({ status: 200, text: expect.stringContaining(door.sign) })
    expect(text).toContain('error')
    expect(text).toContain(id)
    expect(await receiptOf(id)).toMatchObject({ state: 'voided', total: '0' })
  },
)

test.concurrent.each<[string, string, object, Play['script'], boolean]>([
  ['before the first byte of a plain model', 'lab/plain', {}, [silenceMs, answered, end], false],
  [
    'within the answer of a plain model',
    'lab/plain',
    {},
    [event({ content: 'a' }), silenceMs, answered, end],
    false,
  ],
  [
    'within the answer of one that thinks',
    'lab/thinks',
    {},
    [event({ content: 'a' }), silenceMs, answered, end],
    true,
  ],
  [
    'of a plain model that is asked to think',
    'lab/plain',
    { reasoning_effort: 'high' },
    [silenceMs, answered, end],
    true,
  ],
  [
    'of one that is asked not to',
    'lab/plain',
    { reasoning_effort: 'none' },
    [silenceMs, answered, end],
    false,
  ],
  [
    'in which the provider says that it is at work',
    'lab/plain',
    {},
    [...Array.from({ length: 5 }, () => [': at work\n\n', pingMs]).flat(), answered, end],
    true,
  ],
])('silence %s: served %p', async (_, model, more, script, isServed) => {
  const { text } = await play(doors[0]!, model, { script }, more)
  expect({ served: text.includes('done'), failed: text.includes('"error"') }).toEqual({
    served: isServed,
    failed: !isServed,
  })
})

test('a refusal that comes at once is a status', async () => {
  expect((await play(doors[0]!, 'lab/thinks', { script: [], status: 400 })).status).toBe(400)
})

test('a client that leaves before the answer has begun leaves nothing held', async () => {
  const abort = new AbortController()
  const content = JSON.stringify({ script: [silenceMs, answered, end] })
  const body = { stream: true, messages: [{ role: 'user', content }] }
  const response = await lab.open('lab/thinks', body, abort.signal)
  expect(response.status).toBe(200)
  abort.abort()
  await response.text().catch(() => undefined)
  expect(await until(lab.held, (held) => held === '0')).toBe('0')
})
