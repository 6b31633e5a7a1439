// The Idempotency-Key header through a running gateway: sent twice, served once, charged once.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseUsd } from '../../../src/credits/money.ts'
import {
  creditsOf,
  eventually,
  expectAudited,
  postAs,
  restingCredits,
  runJson,
} from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

// The limit of kept answers is small, so that an answer beyond it is quickly made.
const config = 'idempotency: { answer_bytes: 20000 }'
const dir = tempDir('weir-idempotent-')
let weir: RunningWeir
let key: string

beforeAll(async () => {
  weir = await startWeir({ config, dataDir: dir.join('data') })
  key = weir.key
}, 30_000)
afterAll(async () => {
  await weir?.stop()
  dir.remove()
})

interface Answer {
  readonly status: number
  readonly code: string | null
  readonly replayed: boolean
  readonly text: string
  readonly headers: Headers
}

function send(
  idempotencyKey: string | undefined,
  body: object,
  path = '/v1',
  secret = key,
  signal: AbortSignal | null = null,
): Promise<Response> {
  return postAs(`${weir.origin}${path}/chat/completions`, secret, body, {
    headers: idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey },
    signal,
  })
}

async function ask(...request: Parameters<typeof send>): Promise<Answer> {
  const response = await send(...request)
  const text = await response.text()
  return {
    status: response.status,
    code: response.ok ? null : (JSON.parse(text) as { error: { code: string } }).error.code,
    replayed: response.headers.get('idempotency-replayed') === 'true',
    text,
    headers: response.headers,
  }
}

const chat = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'Hello, river.' }],
  max_tokens: 50,
  ...more,
})

/** How much the account has been charged, and what is held of it. */
async function charges(): Promise<{ used: string; held: string }> {
  const { total_used: used, held } = await creditsOf(weir, key)
  return { used, held }
}

/** Asks again once the first request with this key has ended. */
async function askWhenEnded(...request: Parameters<typeof send>): Promise<Answer> {
  await restingCredits(weir, key)
  return eventually(
    () => ask(...request),
    ({ code }) => code !== 'idempotency_in_progress',
  )
}

describe('the same request again', () => {
  test.each([[false], [true]])('with stream: %p gets the same answer, free', async (stream) => {
    const id = `again-${stream}`
    const first = await ask(id, chat('sim/echo', { stream }))
    expect(first).toMatchObject({ status: 200, replayed: false })
    const { used } = await charges()
    const second = await ask(id, chat('sim/echo', { stream }))
    expect(second).toMatchObject({ status: 200, replayed: true, text: first.text })
    for (const name of ['content-type', 'x-request-id', 'x-weir-model', 'cache-control']) {
      expect(second.headers.get(name)).toBe(first.headers.get(name))
    }
    expect(await charges()).toEqual({ used, held: '0' })
    if (stream) expect(second.text).toEndWith('data: [DONE]\n\n')
  })

  test('from the app', async () => {
    const { token } = await runJson<{ token: string }>(
      weir,
      'accounts',
      'session',
      '--account',
      'owner@localhost',
    )
    const first = await ask('app', chat('sim/echo'), '/app/v1', token)
    const second = await ask('app', chat('sim/echo'), '/app/v1', token)
    expect([first, second]).toMatchObject([{ replayed: false }, { replayed: true, text: first.text }])
    expect(await ask('app', chat('sim/echo'))).toMatchObject({ status: 409, code: 'idempotency_conflict' })
  })

  test('without the header is another call', async () => {
    await ask(undefined, chat('sim/echo'))
    const { used } = await charges()
    expect(await ask(undefined, chat('sim/echo'))).toMatchObject({ status: 200, replayed: false })
    expect((await charges()).used).not.toBe(used)
  })
})

describe('many requests with one key at once', () => {
  test.each([[false], [true]])('with stream: %p are one call and one charge', async (stream) => {
    const alone = await chargeOf(() => ask(undefined, chat('sim/echo', { stream })))
    const one = () => ask(`many-${stream}`, chat('sim/echo', { stream }))
    let answers: Answer[] = []
    const many = async () => (answers = await Promise.all(Array.from({ length: 16 }, one)))
    expect(await chargeOf(many)).toBe(alone)
    expect(answers.filter(({ status, replayed }) => status === 200 && !replayed)).toHaveLength(1)
    for (const { status, code, replayed, headers } of answers.filter(({ status }) => status !== 200)) {
      expect({ status, code, replayed }).toEqual({
        status: 409,
        code: 'idempotency_in_progress',
        replayed: false,
      })
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(0)
      expect(headers.get('x-should-retry')).toBe('true')
    }
  })
})

test('another body under the same key is refused and costs nothing', async () => {
  await ask('body', chat('sim/echo'))
  const { used } = await charges()
  const other = await ask('body', chat('sim/echo', { max_tokens: 49 }))
  expect(other).toMatchObject({ status: 409, code: 'idempotency_conflict' })
  expect(other.headers.get('x-should-retry')).toBe('false')
  expect((await charges()).used).toBe(used)
})

test.each([
  ['sim/error-500', 502],
  ['sim/nothing', 404],
])('a call of %s that charged nothing frees its key', async (model, status) => {
  expect(await ask(`failed ${model}`.replace(' ', '-'), chat(model))).toMatchObject({
    status,
    replayed: false,
  })
  expect(await ask(`failed ${model}`.replace(' ', '-'), chat('sim/echo'))).toMatchObject({ status: 200 })
})

test('an answer that is too large to keep is charged once, and told to be lost', async () => {
  const long = chat('sim/long', { max_tokens: 20_000 })
  const first = await ask('large', long)
  expect(first).toMatchObject({ status: 200, replayed: false })
  const { used } = await charges()
  const second = await ask('large', long)
  expect(second).toMatchObject({ status: 409, code: 'idempotency_answer_lost' })
  const { error } = JSON.parse(second.text) as { error: { metadata: { generation: string } } }
  expect(error.metadata.generation).toBe(first.headers.get('x-request-id') ?? '')
  expect((await charges()).used).toBe(used)
})

test.each([[''], ['x'.repeat(256)], ['two words']])('the key %p is malformed', async (id) => {
  const answer = await ask(id, chat('sim/echo'))
  expect(answer).toMatchObject({ status: 400, code: 'invalid_request' })
  expect(answer.text).toContain('Idempotency-Key')
})

test('who leaves a stream comes back for all of it, and pays once', async () => {
  const slow = chat('sim/slow', { stream: true })
  const whole = await chargeOf(() => ask(undefined, slow))
  const reader = (await send('left', slow)).body!.getReader()
  await reader.read()
  await reader.cancel()
  let answer: Answer | undefined
  expect(await chargeOf(async () => (answer = await askWhenEnded('left', slow)))).toBe(whole)
  expect(answer).toMatchObject({ status: 200, replayed: true })
  expect(answer?.text).toEndWith('data: [DONE]\n\n')
})

test.each([[false], [true]])(
  'who leaves before the first byte, with stream: %p, comes back for all of it',
  async (stream) => {
    const slow = chat('sim/slow', { stream })
    const whole = await chargeOf(() => ask(undefined, slow))
    const leaving = new AbortController()
    const left = send(`early-${stream}`, slow, '/v1', key, leaving.signal).catch(() => undefined)
    // The hold is there, so the call has begun.
    await eventually(charges, ({ held: some }) => some !== '0')
    leaving.abort()
    await left
    let answer: Answer | undefined
    expect(await chargeOf(async () => (answer = await askWhenEnded(`early-${stream}`, slow)))).toBe(whole)
    expect(answer).toMatchObject({ status: 200, replayed: true })
    expect(answer?.text).toEndWith(stream ? 'data: [DONE]\n\n' : '}')
  },
)

test('who leaves and said cancel is charged for what was delivered, and not again', async () => {
  const slow = chat('sim/slow', { stream: true, on_disconnect: 'cancel' })
  const reader = (await send('cancelled', slow)).body!.getReader()
  await reader.read()
  await reader.cancel()
  expect(await askWhenEnded('cancelled', slow)).toMatchObject({ code: 'idempotency_answer_lost' })
})

test('after kill -9 kept answers are replayed, and a call that was cut is never charged twice', async () => {
  const first = await ask('kept', chat('sim/echo'))
  const reader = (await send('cut', chat('sim/slow', { stream: true }))).body!.getReader()
  await reader.read()
  await weir.kill()
  weir = await startWeir({ config, dataDir: weir.dataDir })
  expect(await ask('kept', chat('sim/echo'))).toMatchObject({ replayed: true, text: first.text })
  const before = await charges()
  expect(before.held).toBe('0')
  const again = await ask('cut', chat('sim/slow', { stream: true }))
  // Nothing had been made durable of it, so it was voided, and runs now; or it was charged, and does not run again.
  if (again.status === 200) expect(again.replayed).toBe(false)
  else expect(again.code).toBe('idempotency_answer_lost')
  await expectAudited(weir)
}, 30_000)

test.each([[false], [true]])(
  'an answer whose process dies between its charge and its last byte is there when it is asked for again, stream: %p',
  async (stream) => {
    const home = tempDir('weir-idempotent-')
    const dataDir = home.join('data')
    const env = { WEIR_TEST_FAILPOINT: 'settle-committed:1' }
    const mortal = await startWeir({ dataDir, env })
    const request = (server: RunningWeir) =>
      postAs(`${server.baseUrl}/chat/completions`, mortal.key, chat('sim/echo', { stream }), {
        headers: { 'idempotency-key': 'once' },
      })
    const cut = await request(mortal).then(
      (response) => response.text().catch(() => 'cut'),
      () => 'cut',
    )
    await mortal.exited
    await mortal.stop()
    expect(cut).not.toContain(stream ? '[DONE]' : 'usage')
    const heir = await startWeir({ dataDir })
    const again = await request(heir)
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(await again.text()).toContain(stream ? 'data: [DONE]' : '"usage"')
    await heir.stop()
    home.remove()
  },
  30_000,
)

/** What was charged while `work` ran, in picodollars, once no call holds anything. */
async function chargeOf(work: () => Promise<unknown>): Promise<bigint> {
  const before = await charges()
  await work()
  const { total_used: after, held } = await restingCredits(weir, key)
  expect(held).toBe('0')
  return parseUsd(after)! - parseUsd(before.used)!
}
