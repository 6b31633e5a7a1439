// Every row of the error table, produced through the real server: its status, its words, its headers.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
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
  getAs,
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
  guardrail_denied: 'needs a hook: guardrails.test.ts',
  guardrail_failed: 'needs a hook: guardrails.test.ts',
  websocket_disabled: 'has a journey of its own: responses-socket.test.ts',
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
const withContent = (content: unknown) => ({ messages: [{ role: 'user', content }] })
const withImage = () =>
  withContent([{ type: 'image_url', image_url: { url: `http://127.0.0.1:${forbidden.port}/x.png` } }])
const pinned = { provider: { only: ['openai'] } }
function responses(more: object): Promise<Answer> {
  return post(lab.weir, { model: 'sim/echo', input: 'Hello', ...more }, { path: '/responses' })
}
const get = async (path: string, key = lab.weir.key): Promise<Answer> => {
  const response = await getAs(`${lab.weir.baseUrl}${path}`, key)
  const text = await response.text()
  const { error } = JSON.parse(text) as Pick<Answer, 'error'>
  const requestId = response.headers.get('x-request-id') ?? ''
  const { status, headers } = response
  return { status, headers, text, requestId, error, events: [], content: '', finishes: [], broken: false }
}

const row = lab.row.bind(lab)
const provider = { from: 'provider' } as const
const rows = [
  ...lab.shared(),
  row('invalid_request', 'the body is not JSON', () => post(lab.weir, '{"model":')),
  row('invalid_request', 'a field is missing', () => post(lab.weir, { model: 'sim/echo' }), {
    param: 'messages',
  }),
  row('invalid_request', 'a field deep inside is wrong', () => chat('sim/echo', withContent(7)), {
    param: 'messages[0].content',
  }),
  row('invalid_model_id', 'the id has no provider', 'echo', { param: 'model', tells: 'sim/echo' }),
  row('unsupported_parameter', 'the provider has no n', () => chat('lab/choosy', { n: 2 }), { param: 'n' }),
  row('wrong_endpoint', 'it is of responses', () => post(lab.weir, { model: 'sim/echo', input: 'hi' }), {
    param: 'input',
    tells: '/v1/responses',
  }),
  row('url_not_allowed', 'an image is at a private address', () => chat('inlining/eyes', withImage()), {
    param: 'messages[0].content[0].image_url.url',
  }),
  row('invalid_api_key', 'its checksum is wrong', () => {
    const { key } = lab.weir
    return chat('sim/echo', {}, { key: `${key.slice(0, -1)}${key.endsWith('0') ? '1' : '0'}` })
  }),
  row('purchased_credits_required', 'there is credit that API calls may not spend', () =>
    chat('sim/echo', {}, { key: lab.keys.gifted }),
  ),
  row('previous_response_not_found', 'there is none', () => responses({ previous_response_id: 'resp_01' }), {
    param: 'previous_response_id',
  }),
  row(
    'unsupported_parameter',
    'a response is made of a template',
    () => responses({ prompt: { id: 'pmpt_1' } }),
    { param: 'prompt' },
  ),
  row('upstream_error', 'of responses', () => responses({ model: 'lab/broken-html' }), provider),
  row('not_found', 'there is no such response', () => get('/responses/resp_nothing')),
  row('not_found', 'there is no such route', () => post(lab.weir, {}, { path: '/chat' })),
  row('not_found', 'there is no such call', () => get('/generation?id=req_nothing')),
  row('method_not_allowed', 'a chat is asked for with GET', () => get('/chat/completions'), {
    metadata: { allow: ['POST'] },
  }),
  row('upstream_rate_limited', 'for milliseconds', 'lab/limited-ms', { ...provider, retryAfterMs: 1500 }),
  row('upstream_error', 'a proxy fails in plain text', 'lab/broken-text', provider),
  row('upstream_refused_credentials', 'the provider says 402', 'lab/no-money', provider),
  row('upstream_refused_credentials', 'our quota at the provider is used up', 'lab/quota', provider),
  row('upstream_timeout', 'the provider is silent about a whole answer', 'lab/silent', provider),
  row('no_provider_available', 'the provider has no key here', 'openai/gpt-4o', {
    metadata: { providers: ['openai'] },
    lasting: true,
  }),
  row(
    'invalid_request',
    'the providers that it names do not serve the model',
    () => chat('lab/busy', pinned),
    { param: 'provider.only', tells: 'lab' },
  ),
  row('rate_limit_exceeded', 'the account has as many calls in flight as it may', oneTooMany, {
    retryAfterMs: 1000,
  }),
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
