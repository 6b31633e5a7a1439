// Why a call failed: its client, its receipt and the log say so, each as much as it may.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { receiptOf, type WireError } from '../../support/call-gateway.ts'
import { failures, leak, refuses } from '../../support/failing-provider.ts'
import { type ScriptedProvider, startScriptedProvider } from '../../support/scripted-provider.ts'

const providerKey = 'sk-operators-own-key-0123456789'
const long = 'x'.repeat(400)

let provider: ScriptedProvider
let lab: Lab

beforeAll(async () => {
  provider = await startScriptedProvider({
    ...failures,
    'tells-key': refuses(401, { message: `Incorrect key ${providerKey} ${leak} ${long} ${long}` }),
  })
  const scripted = Object.keys({ ...failures, 'tells-key': 0 })
  lab = await startLab({
    // A port that nothing listens on.
    providers: { lab: { base_url: provider.url, api_key: providerKey }, dead: 'http://127.0.0.1:9/v1' },
    models: {
      ...Object.fromEntries(scripted.map((name) => [`lab/${name}`, [`lab/${name}`]])),
      'dead/m': ['dead/m'],
      'both/broken': ['lab/broken', 'dead/m'],
    },
  })
})

afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

interface LogLine {
  readonly level: string
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** The lines of the log that a request id finds. */
function logged(requestId: string): LogLine[] {
  return lab.weir
    .output()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.includes(requestId))
    .map((line) => JSON.parse(line) as LogLine)
}

const failedAttempts = (requestId: string) =>
  logged(requestId).filter(({ message }) => message === 'an attempt failed')

async function failing(model: string) {
  const before = provider.arrivals.length
  const { status, headers, text, requestId } = await lab.ask(model)
  const { error } = JSON.parse(text) as { error: WireError }
  return { status, headers, text, requestId, error, asked: provider.arrivals.length - before }
}

describe('a provider that nobody can reach', () => {
  test('is named to the client with every attempt, its code and its time', async () => {
    const { status, error } = await failing('dead/m')
    expect([status, error.code]).toEqual([502, 'upstream_error'])
    const attempt = { provider: 'dead', code: 'upstream_error', status: null, ms: expect.any(Number) }
    expect(error.metadata).toMatchObject({ provider: 'dead', attempts: [attempt, attempt, attempt] })
  })

  test('is in the receipt with every attempt and why it failed', async () => {
    const { requestId } = await failing('dead/m')
    const receipt = await receiptOf(lab.weir, requestId)
    expect(receipt).toMatchObject({ state: 'voided', error: 'upstream_error', total: '0', charged: '0' })
    expect(receipt?.attempts).toHaveLength(3)
    for (const attempt of receipt?.attempts ?? [])
      expect(attempt).toMatchObject({ provider: 'dead', outcome: 'failed', code: 'upstream_error' })
    expect(receipt?.attempts[0]?.reason).toMatch(/^the connection could not be made, or broke \(\w+\)$/)
  })

  test('is found in the log by the request id: what was tried, where, and what the system said', async () => {
    const { requestId } = await failing('dead/m')
    const lines = await until(
      () => failedAttempts(requestId),
      (found) => found.length === 3,
    )
    expect(lines.map(({ level }) => level)).toEqual(['WARN', 'WARN', 'WARN'])
    expect(lines.map(({ fields }) => fields['attempt'])).toEqual([1, 2, 3])
    expect(lines[0]?.fields).toMatchObject({
      provider: 'dead',
      upstream_model: 'm',
      key_number: 1,
      base_url: 'http://127.0.0.1:9/v1',
      code: 'upstream_error',
      reason: 'the connection could not be made or broke',
      provider_code: expect.stringMatching(/refused/i),
    })
  })
})

test('attempts at several providers are told in their order', async () => {
  const { error, requestId } = await failing('both/broken')
  const providers = (error.metadata['attempts'] as { provider: string; status: number | null }[]).map(
    ({ provider: id, status }) => [id, status],
  )
  expect(providers.slice(0, 2)).toEqual([
    ['lab', 500],
    ['dead', null],
  ])
  const receipt = await receiptOf(lab.weir, requestId)
  expect(receipt?.attempts.map(({ provider: id, status }) => [id, status])).toEqual(providers)
})

describe('what a provider says of its own failure', () => {
  test('is in the log, without keys and not at any length, and reaches no client and no receipt', async () => {
    const { text, headers, requestId, error } = await failing('lab/tells-key')
    expect(error).toMatchObject({ code: 'upstream_refused_credentials', metadata: { provider: 'lab' } })
    const receipt = JSON.stringify(await receiptOf(lab.weir, requestId))
    for (const seen of [text, receipt, JSON.stringify([...headers])]) {
      expect(seen).not.toContain(leak)
      expect(seen).not.toContain(providerKey)
    }
    expect(receipt).toContain("the provider refused the gateway's key (HTTP 401)")
    const [line] = await until(
      () => failedAttempts(requestId),
      (found) => found.length === 1,
    )
    expect(line?.fields).toMatchObject({ status: 401, reason: expect.stringContaining(leak) })
    expect(String(line?.fields['reason']).length).toBeLessThan(520)
    expect(lab.weir.output()).not.toContain(providerKey)
  })
})

test('an answer that its model spoiled is told in the words of the provider, and asked for once', async () => {
  const { status, error, asked, headers } = await failing('lab/bad-call')
  expect([status, error.code, error.message]).toEqual([502, 'unusable_answer', 'Failed to call a function.'])
  expect(headers.get('x-should-retry')).toBe('true')
  expect(asked).toBe(1)
})

describe('a request at fault is told in the words of the provider, and tried once', () => {
  test.each([
    ['strict', 'top_k is too high'],
    ['no-eyes', 'image input is not supported - hint: use another model'],
    ['said-in-text', 'temperature must be at most 1'],
  ])('%s', async (name, sentence) => {
    const { status, error, asked, headers, requestId } = await failing(`lab/${name}`)
    expect([status, error.code, error.message]).toEqual([400, 'invalid_request', sentence])
    expect(headers.get('x-should-retry')).toBe('false')
    expect(error.metadata).toMatchObject({ provider: 'lab', attempts: [{ code: 'invalid_request' }] })
    expect(asked).toBe(1)
    expect((await receiptOf(lab.weir, requestId))?.attempts).toMatchObject([{ reason: sentence }])
  })
})

test('a model that its provider does not know is not one that the catalog does not know', async () => {
  const { status, error, asked } = await failing('lab/retired')
  expect([status, error.code, asked]).toEqual([404, 'model_unavailable', 1])
  expect(error.message).not.toContain('no price')
  expect(error.metadata).toMatchObject({ source: 'provider', provider: 'lab' })
})

describe('the log says of every call, in one line found by its request id', () => {
  const lineOf = (requestId: string) =>
    until(
      () => logged(requestId).filter(({ level }) => level === 'INFO'),
      (lines) => lines.length > 0,
    )

  test.each([false, true])('what it was and what it cost (streamed: %p)', async (stream) => {
    const { requestId } = await lab.ask('sim/echo', { stream })
    const lines = await lineOf(requestId)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatchObject({
      message: 'call',
      fields: {
        key: `…${lab.weir.key.slice(-4)}`,
        model: 'sim/echo',
        provider: 'sim',
        status: 200,
        code: null,
        attempts: 1,
        prompt_tokens: expect.any(Number),
        completion_tokens: expect.any(Number),
        cost_usd: expect.stringMatching(/^0\.0+[1-9]\d*$/),
        first_byte_ms: expect.any(Number),
        ms: expect.any(Number),
      },
    })
    expect(JSON.stringify(lines)).not.toContain('Where does it run?')
    expect(lab.weir.output()).not.toContain(lab.weir.key.slice(0, -4) + '"')
  })

  test('how it failed', async () => {
    const { requestId } = await failing('lab/broken')
    const lines = await lineOf(requestId)
    expect(lines).toHaveLength(1)
    expect(lines[0]?.fields).toMatchObject({
      status: 502,
      code: 'upstream_error',
      provider: 'lab',
      attempts: 3,
    })
  })

  test('why it was refused before it began', async () => {
    const { requestId } = await failing('sim/ecko')
    const lines = await lineOf(requestId)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatchObject({
      message: 'call',
      fields: { model: 'sim/ecko', status: 404, code: 'model_not_found', provider: null, attempts: 0 },
    })
  })

  test.each<[string, RequestInit, string, number]>([
    ['/v1/nothing', {}, 'not_found', 404],
    ['/v1/chat/completions', { method: 'POST', body: '{' }, 'missing_api_key', 401],
  ])('also of a request to %s that is no call', async (path, init, code, status) => {
    const response = await fetch(lab.weir.origin + path, init)
    await response.text()
    const lines = await lineOf(response.headers.get('x-request-id')!)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatchObject({ message: 'a request was refused', fields: { path, code, status } })
  })
})
