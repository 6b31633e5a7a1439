// Every row of the error table, produced through the real server: its status, its words, its headers.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mintKey } from '../../../src/accounts/account.ts'
import { type ErrorCode, errorTable } from '../../../src/errors/errors.ts'
import {
  accountWith,
  type Answer,
  type CallOptions,
  creditsOf,
  eventually,
  expectAudited,
  keyFor,
  post,
  restingCredits,
} from '../../support/call-gateway.ts'
import { consoleErrors } from '../../support/console-errors.ts'
import { refuses } from '../../support/failing-provider.ts'
import {
  event,
  plain,
  type ScriptedProvider,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'
import { expectRefusalHeaders, question, RefusalLab } from '../../support/refusal-lab.ts'

/** Codes that this table cannot bring about, and why. */
const unreachable: Partial<Record<ErrorCode, string>> = {
  ...consoleErrors,
  client_gone: 'nobody is there to see it: disconnects.test.ts',
  internal_error: 'a fault of our own; whoever finds one has found a bug',
  idempotency_answer_lost: 'needs a gateway that dies in the middle: idempotency.test.ts',
}

let forbidden: ScriptedProvider
const lab = new RefusalLab({
  ask: (...asked) => chat(...asked),
  path: '/chat/completions',
  keyHeader: (key) => ({ authorization: `Bearer ${key}` }),
  streamEnd: 'data: [DONE]\n\n',
  scripts: {
    choosy: refuses(500, 'never asked'),
    premium: refuses(500, 'never asked'),
    'rate-in-stream': async (wire) => {
      await wire.write(plain(200, 'text/event-stream', event({ error: { code: 'rate_limit_exceeded' } })))
      wire.end()
    },
  },
  providers: (url) => `
  inlining: { protocol: gemini, base_url: "${url}", api_key: x }
  gone: { protocol: openai-chat, base_url: "http://127.0.0.1:${closedPort()}/v1", api_key: x }
`,
  models: `
  - { id: inlining/eyes, price: { input: "1", output: "2" }, input_modalities: [text, image] }
  - { id: gone/model, price: { input: "1", output: "2" } }
`,
})

beforeAll(async () => {
  forbidden = await startScriptedProvider({})
  await lab.start()
}, 60_000)

afterAll(async () => {
  await lab.stop()
  await forbidden?.stop()
})

/** A port that nobody listens on. */
function closedPort(): number {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return port
}

function chat(model: string, more: object = {}, options: CallOptions = {}): Promise<Answer> {
  return post(lab.weir, { model, messages: question, max_tokens: 100, ...more }, options)
}
function responses(more: object): Promise<Answer> {
  return post(lab.weir, { model: 'sim/echo', input: 'Hello', ...more }, { path: '/responses' })
}
const get = async (path: string, key = lab.weir.key): Promise<Answer> => {
  const response = await fetch(`${lab.weir.baseUrl}${path}`, { headers: { authorization: `Bearer ${key}` } })
  const text = await response.text()
  const { error } = JSON.parse(text) as Pick<Answer, 'error'>
  const requestId = response.headers.get('x-request-id') ?? ''
  const { status, headers } = response
  return { status, headers, text, requestId, error, events: [], content: '', finishes: [], broken: false }
}

interface Row {
  readonly code: ErrorCode
  readonly when: string
  readonly ask: () => Promise<Answer>
  readonly param?: string
  /** Whose fault it is, where it is not the gateway that refuses. */
  readonly from?: 'provider'
  /** Whether asking again helps nobody, although it may after other errors of this code. */
  readonly lasting?: true
  /** What `Retry-After-Ms` must say. */
  readonly retryAfterMs?: number
  readonly metadata?: Readonly<Record<string, unknown>>
  /** A part of what the message must tell. */
  readonly tells?: string
}

const rows: readonly Row[] = [
  { code: 'invalid_request', when: 'the body is not JSON', ask: () => post(lab.weir, '{"model":') },
  {
    code: 'invalid_request',
    when: 'a field is missing',
    ask: () => post(lab.weir, { model: 'sim/echo' }),
    param: 'messages',
  },
  {
    code: 'invalid_request',
    when: 'a field deep inside is wrong',
    ask: () => chat('sim/echo', { messages: [{ role: 'user', content: 7 }] }),
    param: 'messages[0].content',
  },
  {
    code: 'invalid_request',
    when: 'two credentials differ',
    ask: () => chat('sim/echo', {}, { headers: { 'x-api-key': 'sk-other' } }),
  },
  {
    code: 'invalid_request',
    when: 'the provider names a wrong field',
    ask: () => chat('lab/strict'),
    from: 'provider',
    param: 'top_k',
    tells: 'top_k is too high',
  },
  {
    code: 'invalid_model_id',
    when: 'the id has no provider',
    ask: () => chat('echo'),
    param: 'model',
    tells: 'sim/echo',
  },
  {
    code: 'unsupported_parameter',
    when: 'the provider has no n',
    ask: () => chat('lab/choosy', { n: 2 }),
    param: 'n',
  },
  {
    code: 'context_length_exceeded',
    when: 'the provider says so',
    ask: () => chat('lab/too-long'),
    from: 'provider',
    tells: '8192',
  },
  {
    code: 'wrong_endpoint',
    when: 'the body is of the Responses API',
    ask: () => post(lab.weir, { model: 'sim/echo', input: 'hi' }),
    param: 'input',
    tells: '/v1/responses',
  },
  {
    code: 'url_not_allowed',
    when: 'an image is at a private address',
    ask: () =>
      chat('inlining/eyes', {
        messages: [
          {
            role: 'user',
            content: [{ type: 'image_url', image_url: { url: `http://127.0.0.1:${forbidden.port}/x.png` } }],
          },
        ],
      }),
    param: 'messages[0].content[0].image_url.url',
  },
  {
    code: 'content_filtered',
    when: 'the provider refuses the prompt',
    ask: () => chat('lab/filtered'),
    from: 'provider',
  },
  {
    code: 'missing_api_key',
    when: 'there is none',
    ask: () => chat('sim/echo', {}, { key: '' }),
  },
  {
    code: 'invalid_api_key',
    when: 'its checksum is wrong',
    ask: () =>
      chat('sim/echo', {}, { key: `${lab.weir.key.slice(0, -1)}${lab.weir.key.endsWith('0') ? '1' : '0'}` }),
  },
  {
    code: 'invalid_api_key',
    when: 'it is of our form but unknown',
    ask: () => chat('sim/echo', {}, { key: mintKey('live').text }),
  },
  {
    code: 'api_key_revoked',
    when: 'it was revoked',
    ask: () => chat('sim/echo', {}, { key: lab.keys.revoked }),
  },
  { code: 'api_key_expired', when: 'its time is over', ask: () => lab.withExpiredKey() },
  {
    code: 'purchased_credits_required',
    when: 'there is no credit at all',
    ask: () => chat('sim/echo', {}, { key: lab.keys.penniless }),
  },
  {
    code: 'purchased_credits_required',
    when: 'there is credit that API calls may not spend',
    ask: () => chat('sim/echo', {}, { key: lab.keys.gifted }),
  },
  {
    code: 'insufficient_credits',
    when: 'not one token can be paid',
    ask: () => chat('sim/echo', {}, { key: lab.keys.nearlyBroke }),
    metadata: { available: '0.000001', estimate: expect.any(String) },
  },
  {
    code: 'credits_reserved',
    when: 'a call in flight holds it all',
    ask: () => lab.whileReserved(),
    retryAfterMs: 2000,
  },
  {
    code: 'plan_required',
    when: 'the model is premium',
    ask: () => chat('lab/premium', {}, { key: lab.keys.gifted }),
  },
  {
    code: 'key_limit_exceeded',
    when: 'the limit of the key is reached',
    ask: () => chat('sim/echo', {}, { key: lab.keys.capped }),
    metadata: { resets_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT00:00:00/) },
  },
  {
    code: 'model_not_allowed',
    when: 'the model is not on the list of the key',
    ask: () => chat('lab/busy', {}, { key: lab.keys.narrow }),
  },
  {
    code: 'account_suspended',
    when: 'the account is suspended',
    ask: () => chat('sim/echo', {}, { key: lab.keys.suspended }),
  },
  {
    code: 'model_not_found',
    when: 'there is none',
    ask: () => chat('sim/ecko'),
    param: 'model',
    tells: 'sim/echo',
  },
  {
    code: 'model_retired',
    when: 'its provider stopped',
    ask: () => chat('lab/old'),
    param: 'model',
    tells: 'lab/busy',
    metadata: { successor: 'lab/busy' },
  },
  {
    code: 'previous_response_not_found',
    when: 'there is no such response',
    ask: () => responses({ previous_response_id: 'resp_0123456789abcdef0123456789abcdef' }),
    param: 'previous_response_id',
  },
  {
    code: 'unsupported_parameter',
    when: 'a response is to be made in the background',
    ask: () => responses({ background: true }),
    param: 'background',
  },
  {
    code: 'upstream_error',
    when: 'the provider of a response fails in HTML',
    ask: () => responses({ model: 'lab/broken-html' }),
    from: 'provider',
  },
  { code: 'not_found', when: 'there is no such response', ask: () => get('/responses/resp_nothing') },
  { code: 'not_found', when: 'there is no such route', ask: () => post(lab.weir, {}, { path: '/chat' }) },
  {
    code: 'method_not_allowed',
    when: 'a chat is asked for with GET',
    ask: () => get('/chat/completions'),
    metadata: { allow: ['POST'] },
  },
  { code: 'not_found', when: 'there is no such call', ask: () => get('/generation?id=req_nothing') },
  {
    code: 'payload_too_large',
    when: 'the body exceeds the limit',
    ask: () => chat('sim/echo', { user: 'x'.repeat(200_000) }),
    metadata: { limit_bytes: 200_000 },
  },
  {
    code: 'unsupported_media_type',
    when: 'the body is a form',
    ask: () => chat('sim/echo', {}, { headers: { 'content-type': 'multipart/form-data' } }),
  },
  {
    code: 'headers_too_large',
    when: 'they exceed the limit',
    ask: () => chat('sim/echo', {}, { headers: { 'x-much': 'x'.repeat(4000) } }),
    metadata: { limit_bytes: 2048 },
  },
  {
    code: 'upstream_rate_limited',
    when: 'the provider limits us for seconds',
    ask: () => chat('lab/limited'),
    from: 'provider',
    retryAfterMs: 7000,
  },
  {
    code: 'upstream_rate_limited',
    when: 'the provider limits us for milliseconds',
    ask: () => chat('lab/limited-ms'),
    from: 'provider',
    retryAfterMs: 1500,
  },
  {
    code: 'model_unavailable',
    when: 'the provider does not know the model',
    ask: () => chat('lab/retired'),
    from: 'provider',
  },
  {
    code: 'upstream_error',
    when: 'the provider fails in JSON',
    ask: () => chat('lab/broken'),
    from: 'provider',
  },
  {
    code: 'upstream_error',
    when: 'the provider fails in HTML',
    ask: () => chat('lab/broken-html'),
    from: 'provider',
  },
  {
    code: 'upstream_error',
    when: 'a proxy fails in plain text',
    ask: () => chat('lab/broken-text', { stream: true }),
    from: 'provider',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'the provider says 401',
    ask: () => chat('lab/no-key'),
    from: 'provider',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'the provider says 403',
    ask: () => chat('lab/forbidden', { stream: true }),
    from: 'provider',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'the provider says 402',
    ask: () => chat('lab/no-money'),
    from: 'provider',
  },
  {
    code: 'upstream_refused_credentials',
    when: 'our quota at the provider is used up',
    ask: () => chat('lab/quota'),
    from: 'provider',
  },
  {
    code: 'no_provider_available',
    when: 'the provider has no key here',
    ask: () => chat('openai/gpt-4o'),
    metadata: { providers: ['openai'] },
    lasting: true,
  },
  {
    code: 'invalid_request',
    when: 'the providers that it names do not serve the model',
    ask: () => chat('lab/busy', { provider: { only: ['openai'] } }),
    param: 'provider.only',
    tells: 'lab',
  },
  { code: 'overloaded', when: 'the provider says 503', ask: () => chat('lab/busy'), from: 'provider' },
  {
    code: 'upstream_timeout',
    when: 'the provider is silent',
    ask: () => chat('lab/silent'),
    from: 'provider',
  },
  {
    code: 'upstream_timeout',
    when: 'the provider is silent in a stream',
    ask: () => chat('lab/silent', { stream: true }),
    from: 'provider',
  },
  {
    code: 'idempotency_conflict',
    when: 'the same key comes with another body',
    ask: async () => {
      const once = { headers: { 'idempotency-key': 'errors-1' }, key: lab.keys.spender }
      expect((await chat('sim/echo', {}, once)).status).toBe(200)
      return chat('sim/echo', { user: 'another' }, once)
    },
  },
  {
    code: 'idempotency_in_progress',
    when: 'the first call still runs',
    ask: () => lab.whileTheFirstRuns(),
  },
  {
    code: 'rate_limit_exceeded',
    when: 'the account has as many calls in flight as it may',
    ask: oneTooMany,
    retryAfterMs: 1000,
  },
  { code: 'store_unavailable', when: 'the database cannot be written', ask: () => lab.whileStoreIsLocked() },
]

async function oneTooMany(): Promise<Answer> {
  const { key } = await accountWith(lab.weir, 'busy@example.org', { purchased: '1' })
  // Models of the simulator have places of their own.
  return lab.whilePaused(2, key, () => chat('lab/pausing', {}, { key }))
}

describe('the error table', () => {
  test.each(rows.map((row) => [row.code, row.when, row] as const))('%s: %s', async (code, _, row) => {
    const answer = await row.ask()
    const { status, type } = errorTable[code]
    const retryable = errorTable[code].retryable && row.lasting !== true
    expect({ status: answer.status, code: answer.error?.code }).toEqual({ status, code })
    expect(answer.headers.get('content-type')).toStartWith('application/json')
    expect(answer.error).toEqual({
      message: expect.any(String),
      type,
      param: row.param ?? null,
      code,
      metadata: expect.objectContaining({
        source: row.from ?? 'gateway',
        ...(row.from === 'provider' ? { provider: 'lab' } : {}),
        request_id: answer.requestId,
        retryable,
        docs_url: `${lab.weir.origin}/docs/errors#${code}`,
        ...row.metadata,
      }),
    })
    if (row.tells !== undefined) expect(answer.error!.message).toContain(row.tells)
    expectRefusalHeaders(answer, { retryable, retryAfterMs: row.retryAfterMs })
    const wait = answer.headers.get('retry-after-ms')
    if (!retryable) expect(wait).toBeNull()
    const told = wait === null ? undefined : Math.ceil(Number(wait) / 1000)
    expect(answer.error!.metadata['retry_after']).toBe(told)
    expect(answer.text).not.toMatch(/\bat \/|\.ts:\d|SQLITE/)
  })

  test('is complete: every code is produced here, or says why it cannot be', () => {
    const produced = new Set<string>(rows.map(({ code }) => code))
    const missing = Object.keys(errorTable).filter((code) => !produced.has(code))
    expect(missing.toSorted()).toEqual(Object.keys(unreachable).toSorted())
  })

  test('of `GET /v1/errors` is the same table', async () => {
    const response = await fetch(`${lab.weir.baseUrl}/errors`)
    const { data } = (await response.json()) as { data: { code: ErrorCode; status: number }[] }
    expect(Object.fromEntries(data.map(({ code, status }) => [code, status]))).toEqual(
      Object.fromEntries(Object.entries(errorTable).map(([code, { status }]) => [code, status])),
    )
  })

  test('counts nothing: no error has cost anything, and no address it names was asked', async () => {
    expect(await restingCredits(lab.weir)).toMatchObject({ held: '0', total_used: '0', available: '100' })
    expect(forbidden.connections).toBe(0)
    await expectAudited(lab.weir)
  })
})

describe('refusals', () => {
  // Each row breaks the rule it names and every later one that it can: the first must speak.
  test.each([
    [401, 'invalid_api_key', 'a bad key', () => post(lab.weir, '{', { key: 'sk-nothing' })],
    [
      400,
      'invalid_request',
      'a malformed request',
      () => post(lab.weir, { model: 'lab/nowhere' }, { key: lab.keys.penniless }),
    ],
    [404, 'model_not_found', 'an unknown model', () => chat('lab/nowhere', {}, { key: lab.keys.penniless })],
    [403, 'plan_required', 'a premium model', () => chat('lab/premium', {}, { key: lab.keys.penniless })],
    [
      402,
      'purchased_credits_required',
      'no purchased credit',
      () => chat('lab/busy', {}, { key: lab.keys.penniless }),
    ],
    [403, 'model_not_allowed', 'a key that may not', () => chat('lab/premium', {}, { key: lab.keys.narrow })],
    [
      402,
      'insufficient_credits',
      'not enough credit',
      () => chat('lab/premium', {}, { key: lab.keys.nearlyBroke }),
    ],
  ] as const)('come in their order: %d %s for %s', async (status, code, _, ask) => {
    const answer = await ask()
    expect({ status: answer.status, code: answer.error?.code }).toEqual({ status, code })
  })

  test('touch no balance, in whatever pool it is (S36)', async () => {
    const names = ['gifted', 'nearlyBroke'] as const
    const before = await Promise.all(names.map((name) => creditsOf(lab.weir, lab.keys[name])))
    for (const name of names)
      for (const model of ['sim/echo', 'lab/premium', 'lab/nowhere']) {
        const { status } = await chat(model, {}, { key: lab.keys[name] })
        expect(status).toBeGreaterThanOrEqual(402)
      }
    expect(await Promise.all(names.map((name) => creditsOf(lab.weir, lab.keys[name])))).toEqual(before)
  })

  test('of a revoked key begin within a second, and a suspended account is served again once it is resumed', async () => {
    const { key, keyId } = await keyFor(lab.weir, 'rich@example.org')
    expect((await chat('sim/echo', {}, { key })).status).toBe(200)
    expect(await lab.weir.command('keys', 'revoke', keyId)).toMatchObject({ code: 0 })
    const refused = await eventually(
      () => chat('sim/echo', {}, { key }),
      ({ status }) => status === 401,
      1_000,
    )
    expect(refused.error?.code).toBe('api_key_revoked')

    expect(await lab.weir.command('accounts', 'resume', 'suspended@example.org')).toMatchObject({ code: 0 })
    const served = await eventually(
      () => chat('sim/echo', {}, { key: lab.keys.suspended }),
      ({ status }) => status === 200,
      1_000,
    )
    expect(served.status).toBe(200)
  })

  test('of a provider that cannot be reached are ours to tell, and say to try again', async () => {
    const answer = await chat('gone/model')
    expect([502, 503]).toContain(answer.status)
    expect(answer.headers.get('x-should-retry')).toBe('true')
    expect(answer.error?.metadata).toMatchObject({ source: 'provider', provider: 'gone' })
  })
})
