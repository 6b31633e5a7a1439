// A signed-in account calls from the app: every pool it has may pay, in the order of the service's rules.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { json } from '../../cli/run.ts'
import { getAs, postAs } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir

// A fee per request that is more than the free credit of a new account, which has 0.20 daily and 0.50 welcome.
const config = `
models:
  - { id: sim/fee, upstream: echo, price: { input: "0", output: "0", per_request: "0.75" } }
  - id: sim/tiered
    upstream: echo
    price: { input: "0.5", output: "2.5", input_audio: "1", tiers: [{ above_prompt_tokens: 2000, input: "0.6", output: "1" }] }
    input_modalities: [text, audio]
  - { id: sim/steep, upstream: echo, price: { input: "3", output: "15" } }
`

beforeAll(async () => {
  weir = await serveWeir({ config })
}, 30_000)
afterAll(() => weir?.stop())

/** Runs a command beside the server, from this process on the server's data directory; it must succeed. */
async function cli(...args: string[]): Promise<Record<string, unknown>> {
  const machine = { cwd: weir.dataDir, now: Date.now() }
  return (await json(machine, ...args, '--data-dir', weir.dataDir)) as Record<string, unknown>
}

interface Member {
  readonly email: string
  readonly token: string
  readonly key: string
}

async function member(name: string, ...grants: [pool: string, usd: string][]): Promise<Member> {
  const email = `${name}@example.org`
  await cli('accounts', 'create', '--email', email)
  for (const [pool, usd] of grants) {
    const expires = pool === 'subscription' ? ['--expires', '2099-01-01'] : []
    await cli('credits', 'grant', '--account', email, '--pool', pool, '--usd', usd, ...expires)
  }
  const { token } = await cli('accounts', 'session', '--account', email)
  const { key } = await cli('keys', 'create', '--account', email)
  return { email, token: String(token), key: String(key) }
}

async function ask(path: '/app/v1' | '/v1', secret: string, model: string, more: object = {}) {
  const response = await postAs(`${weir.origin}${path}/chat/completions`, secret, {
    model,
    messages: [{ role: 'user', content: 'Hello' }],
    max_tokens: 20,
    ...more,
  })
  const text = await response.text()
  const code = response.ok ? null : (JSON.parse(text) as { error: { code: string } }).error.code
  return { status: response.status, code, text, id: response.headers.get('x-request-id') ?? '' }
}

async function get<T>(path: string, secret: string): Promise<T> {
  const response = await getAs(weir.origin + path, secret)
  expect(response.status).toBe(200)
  return ((await response.json()) as { data: T }).data
}

interface Credits {
  readonly available: string
  readonly pools: readonly { readonly type: string; readonly remaining: string }[]
}

const poolsOf = async (token: string) => {
  const { pools } = await get<Credits>('/app/v1/credits', token)
  return Object.fromEntries(pools.map(({ type, remaining }) => [type, remaining]))
}

const drawnBy = async (token: string, id: string) => {
  const { drawn } = await get<{ drawn: { pool: string; amount: string }[] }>(
    `/app/v1/generation?id=${id}`,
    token,
  )
  return drawn.map(({ pool, amount }) => `${pool} ${amount}`)
}

describe('the daily allowance', () => {
  const said = (content: unknown) => ({ messages: [{ role: 'user', content }] })
  const wav = { type: 'input_audio', input_audio: { data: 'A'.repeat(4_000), format: 'wav' } }

  test.each([
    ['a short prompt', said('Hello'), 'daily'],
    // Longer than the boundary in bytes, not in tokens.
    ['a long prompt below the boundary', said('river '.repeat(900)), 'daily'],
    ['a prompt above it, at the dearer rates', said('river '.repeat(3_000)), 'welcome'],
    ['sound that costs more than the limit', said([wav]), 'welcome'],
  ])('%s is paid by it or not: the rates of the call decide', async (name, body, pool) => {
    const email = name.replace(/\W+/g, '-')
    const { token } = await member(email)
    const { id, status } = await ask('/app/v1', token, 'sim/tiered', body)
    expect(status).toBe(200)
    expect((await drawnBy(token, id)).map((drawn) => drawn.split(' ')[0])).toEqual([pool])
    const estimated = await postAs(`${weir.origin}/app/v1/estimate`, token, {
      model: 'sim/tiered',
      max_tokens: 20,
      ...body,
    })
    expect(await estimated.json()).toMatchObject({ pool })
  })
})

test('free credit is that of a person, however its address is written and however many accounts it opens', async () => {
  const { token } = await member('river')
  expect(await poolsOf(token)).toMatchObject({ daily: '0.2', welcome: '0.5' })
  for (const name of ['river+1', 'RIVER+weir+2']) {
    const again = await member(name)
    expect(await poolsOf(again.token)).toMatchObject({ daily: '0', welcome: '0' })
  }
  const of = async (address: string) => {
    await cli('accounts', 'create', '--email', address)
    return poolsOf(String((await cli('accounts', 'session', '--account', address))['token']))
  }
  expect(await of('r.i.v.e.r@gmail.com')).toMatchObject({ daily: '0.2', welcome: '0.5' })
  expect(await of('River+x@googlemail.com')).toMatchObject({ daily: '0', welcome: '0' })
})

describe('S36: pools', () => {
  test('an API key never spends what the app may, and its refusals leave every balance as it was', async () => {
    const anna = await member('anna', ['daily', '1'], ['subscription', '5'])
    const before = await poolsOf(anna.token)
    expect(await ask('/v1', anna.key, 'sim/echo')).toMatchObject({
      status: 402,
      code: 'purchased_credits_required',
    })
    expect(await ask('/v1', anna.key, 'sim/premium')).toMatchObject({ status: 403, code: 'plan_required' })
    expect(await poolsOf(anna.token)).toEqual(before)
    expect(before).toEqual({ purchased: '0', welcome: '0.5', daily: '1.2', subscription: '5' })
  })

  test.each([
    // what the account has besides its free credit, the model, the answer, the pool that pays first
    [[], 'sim/echo', 200, null, 'daily'],
    [[], 'sim/steep', 200, null, 'welcome'],
    [[], 'sim/premium', 403, 'plan_required', null],
    [[], 'sim/fee', 402, 'insufficient_credits', null],
    [[['subscription', '5']], 'sim/premium', 200, null, 'subscription'],
    [[['subscription', '5']], 'sim/steep', 200, null, 'subscription'],
    [[['subscription', '5']], 'sim/echo', 200, null, 'daily'],
    [[['purchased', '5']], 'sim/premium', 200, null, 'welcome'],
    [[], 'sim/nothing', 404, 'model_not_found', null],
  ] as [[string, string][], string, number, string | null, string | null][])(
    'in the app with %j more, %s answers %p %p, paid by %p',
    async (grants, model, status, code, pool) => {
      const { token } = await member(`m${crypto.randomUUID()}`, ...grants)
      const before = await poolsOf(token)
      const answer = await ask('/app/v1', token, model)
      expect(answer).toMatchObject({ status, code })
      if (pool === null) expect(await poolsOf(token)).toEqual(before)
      else expect((await drawnBy(token, answer.id))[0]).toStartWith(pool)
    },
  )

  test('one call draws on three pools, and its receipt names each lot', async () => {
    const { token } = await member('three', ['purchased', '10'])
    const { id, status } = await ask('/app/v1', token, 'sim/fee')
    expect(status).toBe(200)
    expect(await drawnBy(token, id)).toEqual(['daily 0.2', 'welcome 0.5', 'purchased 0.05'])
    expect(await poolsOf(token)).toEqual({ purchased: '9.95', welcome: '0', daily: '0', subscription: '0' })
  })

  test('with a fallback outside of flash class the allowance is left out', async () => {
    const { token } = await member('fallback')
    const { id } = await ask('/app/v1', token, 'sim/error-500', { models: ['sim/steep'] })
    expect(await drawnBy(token, id)).toEqual([expect.stringContaining('welcome')])
  })

  test('64 first calls of the day at once are granted one allowance', async () => {
    const { token } = await member('busy', ['purchased', '1'])
    const answers = await Promise.all(Array.from({ length: 64 }, () => ask('/app/v1', token, 'sim/echo')))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    const { pools } = await get<{ pools: { type: string; lots: unknown[] }[] }>('/app/v1/credits', token)
    expect(pools.find(({ type }) => type === 'daily')?.lots).toHaveLength(1)
  })

  test.each([
    ['sim/echo', 'daily', undefined],
    ['sim/steep', 'welcome', undefined],
    ['sim/fee', 'daily', 'insufficient_credits'],
    ['sim/premium', 'welcome', 'plan_required'],
  ])('an estimate of %s names the pool %p and the refusal %p', async (model, pool, refusal) => {
    const { token } = await member(`e${crypto.randomUUID()}`)
    const response = await postAs(`${weir.origin}/app/v1/estimate`, token, {
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 20,
    })
    const answer = (await response.json()) as { pool: string; refusal?: string }
    expect({ pool: answer.pool, refusal: answer.refusal }).toEqual({ pool, refusal })
  })

  test('a stream from the app is paid by the same rules', async () => {
    const { token } = await member('stream')
    const { text, id } = await ask('/app/v1', token, 'sim/echo', { stream: true })
    expect(text).toEndWith('data: [DONE]\n\n')
    expect(await drawnBy(token, id)).toEqual([expect.stringContaining('daily')])
  })
})

describe('a session', () => {
  test('is no API key, and an API key no session', async () => {
    const { token, key } = await member('kinds', ['purchased', '1'])
    expect(await ask('/v1', token, 'sim/echo')).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect(await ask('/app/v1', key, 'sim/echo')).toMatchObject({ status: 401, code: 'invalid_api_key' })
    const mistyped = token.slice(0, -1) + (token.endsWith('a') ? 'b' : 'a')
    expect(await ask('/app/v1', mistyped, 'sim/echo')).toMatchObject({ status: 401, code: 'invalid_api_key' })
  })

  test('sees the models, and spends every pool where a key spends one', async () => {
    const { token, key } = await member('looks', ['purchased', '1'])
    expect(await get<unknown[]>('/app/v1/models', token)).not.toEqual([])
    expect(await get<Credits>('/app/v1/credits', token)).toMatchObject({ available: '1.7' })
    expect(await get<Credits>('/v1/credits', key)).toMatchObject({ available: '1' })
  })

  test('ends when it is ended, and is listed without its secret', async () => {
    const { email, token } = await member('ends')
    const listed = await cli('accounts', 'sessions', '--account', email)
    const [{ id }] = listed as unknown as [{ id: string }]
    expect(JSON.stringify(listed)).not.toContain(token.slice(-20))
    const ended = await cli('accounts', 'end-session', id)
    expect(ended).toMatchObject({ id, state: 'revoked' })
    expect(await cli('accounts', 'end-session', id)).toEqual(ended)
    await refusedWith(() => ask('/app/v1', token, 'sim/echo'), 'api_key_revoked')
  })

  test('expires', async () => {
    const { email } = await member('expires')
    const { token } = await cli('accounts', 'session', '--account', email, '--ttl', '1s')
    await refusedWith(() => ask('/app/v1', String(token), 'sim/echo'), 'api_key_expired')
  })
})

test('a suspended account is refused here and there until it is resumed', async () => {
  const { email, token, key } = await member('suspended', ['purchased', '1'])
  expect(await cli('accounts', 'suspend', email)).toMatchObject({ suspended: true })
  await refusedWith(() => ask('/app/v1', token, 'sim/echo'), 'account_suspended')
  await refusedWith(() => ask('/v1', key, 'sim/echo'), 'account_suspended')
  expect(await cli('accounts', 'resume', email)).toMatchObject({ suspended: false })
  await refusedWith(() => ask('/v1', key, 'sim/echo'), null)
})

test('the ledger that all this made is sound', async () => {
  expect(await cli('ledger', 'audit')).toMatchObject({ ok: true })
})

/** Another process learns of a change within a second: asks until the answer is the one that is due. */
async function refusedWith(call: () => ReturnType<typeof ask>, code: string | null): Promise<void> {
  const deadline = performance.now() + 3_000
  let answer = await call()
  while (answer.code !== code && performance.now() < deadline) answer = await call()
  expect(answer.code).toBe(code)
}
