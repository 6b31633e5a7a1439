// The clouds' credentials, as requests arrive: signatures that another implementation computes alike, and tokens.

import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { exportPKCS8, generateKeyPair, jwtVerify } from 'jose'
import { awsHeaders, GoogleTokens } from '../../src/providers/credentials/credentials.ts'
import { providerById } from '../../src/providers/registry.ts'
import { UnreachableError, Upstream } from '../../src/providers/upstream.ts'
import { loadConfig } from '../../src/config/config.ts'

const secret = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const id = 'AKIAIOSFODNN7EXAMPLE'

/** Signature version 4 as Amazon's document describes it, written for this test alone. */
function signed(url: URL, body: string, sent: Record<string, string>, region: string): string {
  const hash = (text: string) => createHash('sha256').update(text).digest('hex')
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()
  const names = /SignedHeaders=([^,]+)/.exec(sent.authorization!)![1]!
  const date = sent['x-amz-date']!
  const value = (name: string) => (name === 'host' ? url.host : sent[name]!)
  const canonical = [
    'POST',
    // Each segment of the path as it is sent is escaped once more.
    url.pathname.split('/').map(encodeURIComponent).join('/'),
    '',
    ...names.split(';').map((name) => `${name}:${value(name)}`),
    '',
    names,
    sent['x-amz-content-sha256'] ?? hash(body),
  ].join('\n')
  const scope = `${date.slice(0, 8)}/${region}/bedrock/aws4_request`
  const key = [region, 'bedrock', 'aws4_request'].reduce(hmac, hmac(`AWS4${secret}`, date.slice(0, 8)))
  return hmac(key, ['AWS4-HMAC-SHA256', date, scope, hash(canonical)].join('\n')).toString('hex')
}

describe("Amazon's keys", () => {
  test.each([
    ['https://bedrock-runtime.eu-west-1.amazonaws.com', 'eu-west-1', ''],
    ['https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com', 'us-gov-west-1', ''],
    ['https://vpce-1.bedrock-runtime.ap-south-1.vpce.amazonaws.com', 'ap-south-1', ':SESSION//token+=='],
    ['http://127.0.0.1:9000', 'us-east-1', ''],
  ])('sign requests to %s for %s', async (base, region, session) => {
    const url = `${base}/model/us.anthropic.claude-v1%3A0/converse`
    const body = '{"messages":[{"role":"user","content":[{"text":"ü"}]}]}'
    const headers = await awsHeaders(`${id}:${secret}${session}`, 'bedrock', url, body)
    expect(headers.authorization).toContain(
      `Credential=${id}/${headers['x-amz-date']!.slice(0, 8)}/${region}/bedrock/`,
    )
    expect(headers.authorization).toEndWith(`Signature=${signed(new URL(url), body, headers, region)}`)
    expect(headers['x-amz-security-token']).toBe(session === '' ? undefined : (session.slice(1) as string))
  })

  test('that are not made of parts are bearer keys', async () => {
    expect(await awsHeaders('ABSKQmVkcm9ja0FQSUtleQ==', 'bedrock', 'https://a.example', '')).toEqual({
      authorization: 'Bearer ABSKQmVkcm9ja0FQSUtleQ==',
    })
  })
})

const keys = await generateKeyPair('RS256', { extractable: true })
const pem = await exportPKCS8(keys.privateKey)
let asked: { assertion: string; grant: string }[] = []
let answer = (): Response => Response.json({ access_token: `token-${asked.length}`, expires_in: 3600 })
let seen: Headers[] = []
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: async (request) => {
    if (new URL(request.url).pathname !== '/token') {
      seen.push(request.headers)
      return Response.json({})
    }
    const form = new URLSearchParams(await request.text())
    asked.push({ assertion: form.get('assertion')!, grant: form.get('grant_type')! })
    return answer()
  },
})
afterAll(() => server.stop(true))
const base = `http://127.0.0.1:${server.port}`
const scope = 'https://www.googleapis.com/auth/cloud-platform'
const signal = new AbortController().signal
let accounts = 0
/** A key of its own for each test: tokens are kept by key. */
const account = () =>
  JSON.stringify({
    client_email: `a${accounts++}@p.example`,
    private_key: pem,
    private_key_id: 'k1',
    token_uri: `${base}/token`,
  })

describe("a service account's key", () => {
  let tokens: GoogleTokens
  beforeEach(() => {
    tokens = new GoogleTokens()
    asked = []
    seen = []
    answer = () => Response.json({ access_token: `token-${asked.length}`, expires_in: 3600 })
  })

  test('is exchanged once for a token, however many ask at a time, and the token is kept', async () => {
    const key = account()
    const given = await Promise.all([1, 2, 3].map(() => tokens.token(key, scope, signal)))
    expect([...given, await tokens.token(key, scope, signal)]).toEqual(Array(4).fill('token-1'))
    expect(asked).toHaveLength(1)
    const { payload, protectedHeader } = await jwtVerify(asked[0]!.assertion, keys.publicKey, {
      audience: `${base}/token`,
    })
    expect(payload).toMatchObject({ iss: JSON.parse(key).client_email, scope })
    expect(payload.exp! - payload.iat!).toBe(3600)
    expect(protectedHeader).toMatchObject({ alg: 'RS256', kid: 'k1' })
    expect(asked[0]!.grant).toBe('urn:ietf:params:oauth:grant-type:jwt-bearer')
  })

  test('is exchanged anew before its token expires', async () => {
    const key = account()
    answer = () => Response.json({ access_token: `token-${asked.length}`, expires_in: 0.0001 })
    await tokens.token(key, scope, signal)
    const before = Date.now()
    while (Date.now() - before < 2) await Promise.resolve()
    expect(await tokens.token(key, scope, signal)).toBe('token-2')
  })

  test.each([
    // passed since, by the time of day and in truth, in minutes
    ['is kept for most of its hour', 54, 54, 'token-1'],
    ['is renewed in time though the clock was set back', -120, 56, 'token-2'],
    ['is renewed after the machine has slept', 56, 1, 'token-2'],
  ])('%s', async (_, day, elapsed, token) => {
    const now = { day: 1_800_000_000_000, elapsed: 1_000 }
    const asleep = new GoogleTokens({ day: () => now.day, elapsed: () => now.elapsed })
    const key = account()
    await asleep.token(key, scope, signal)
    now.day += day * 60_000
    now.elapsed += elapsed * 60_000
    expect(await asleep.token(key, scope, signal)).toBe(token)
  })

  test('that the endpoint refuses is asked for again by the next call, and its error holds no secret', async () => {
    const key = account()
    answer = () => new Response('denied', { status: 401 })
    const failure: Error = await tokens.token(key, scope, signal).then(
      () => new Error('no failure'),
      (error) => error,
    )
    expect(failure.message).toBe('the token endpoint answered with status 401')
    answer = () => Response.json({ access_token: 'late', expires_in: 60 })
    expect(await tokens.token(key, scope, signal)).toBe('late')
  })

  test.each([['{}'], ['{"client_email":"a@b.example","private_key":"no"}'], ['{broken']])(
    '%s is no key',
    async (key) => {
      expect(tokens.token(key, scope, signal)).rejects.toThrow(/service account/)
    },
  )

  test('does not keep a caller that has left', async () => {
    const gone = AbortSignal.abort(new Error('left'))
    expect(tokens.token(account(), scope, gone)).rejects.toThrow('left')
  })
})

describe('a request', () => {
  const request = (row: string, key: string) => ({
    provider: {
      ...providerById(row)!,
      baseUrl: base,
      keys: [key],
      custom: false,
      timeouts: {},
      marksCache: false,
    },
    key,
    path: '/model/a%3A0/converse',
    headers: {},
    body: '{}',
    abort: new AbortController(),
    connectMs: 1_000,
  })

  test('to Bedrock carries a signature, to Vertex a token', async () => {
    answer = () => Response.json({ access_token: 'for-vertex' })
    await new Upstream().send(request('bedrock', `${id}:${secret}`))
    await new Upstream().send(request('bedrock', 'bedrock-key'))
    await new Upstream().send(request('vertex', account()))
    expect(seen.map((headers) => headers.get('authorization')?.split(' ').slice(0, 2).join(' '))).toEqual([
      expect.stringContaining('AWS4-HMAC-SHA256 Credential='),
      'Bearer bedrock-key',
      'Bearer for-vertex',
    ])
  })

  test('without a token to be had fails over as one whose key is bad', async () => {
    answer = () => new Response('', { status: 403 })
    const error = await new Upstream().send(request('vertexclaude', account())).then(
      () => undefined,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(UnreachableError)
    expect((error as UnreachableError).fault.kind).toBe('credentials')
  })
})

describe('the environment', () => {
  const config = (env: Record<string, string>, files: Record<string, string> = {}) => {
    const loaded = loadConfig({ flags: {}, env, cwd: '/', readFile: (path) => files[path] })
    if (loaded.kind === 'faulty') throw new Error(JSON.stringify(loaded.faults))
    return Object.fromEntries(
      Object.entries(loaded.config.providers).map(([name, { api_key }]) => [name, api_key]),
    )
  }

  test('gives Amazon a bearer key, or the parts of one that signs', () => {
    const parts = { AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret }
    expect(config(parts).bedrock).toEqual([`${id}:${secret}`])
    expect(config({ ...parts, AWS_SESSION_TOKEN: 't' }).bedrock).toEqual([`${id}:${secret}:t`])
    expect(config({ ...parts, AWS_BEARER_TOKEN_BEDROCK: 'b' }).bedrock).toEqual(['b'])
    expect(config({ AWS_ACCESS_KEY_ID: id }).bedrock).toBeUndefined()
  })

  test('gives Google the file that it names', () => {
    const text = JSON.stringify(JSON.parse(account()), null, 2)
    const env = { GOOGLE_APPLICATION_CREDENTIALS: '/keys/sa.json' }
    expect(config(env, { '/keys/sa.json': text }).vertex).toEqual([text])
  })

  test('gives Bedrock the address of a region, unless it has one or there is no key', () => {
    const address = (env: Record<string, string>) => {
      const loaded = loadConfig({ flags: {}, env, cwd: '/', readFile: () => undefined })
      return loaded.kind === 'loaded' ? loaded.config.providers.bedrock?.base_url : undefined
    }
    const key = { AWS_BEARER_TOKEN_BEDROCK: 'b' }
    expect(address({ ...key, AWS_REGION: 'eu-west-1' })).toBe(
      'https://bedrock-runtime.eu-west-1.amazonaws.com',
    )
    expect(address({ ...key, AWS_DEFAULT_REGION: 'us-west-2' })).toBe(
      'https://bedrock-runtime.us-west-2.amazonaws.com',
    )
    expect(address({ ...key, AWS_REGION: 'evil.example/x' })).toBeUndefined()
    expect(address({ AWS_REGION: 'eu-west-1' })).toBeUndefined()
    const own = { WEIR_PROVIDERS_BEDROCK_BASE_URL: 'http://127.0.0.1:9' }
    expect(address({ ...key, ...own, AWS_REGION: 'eu-west-1' })).toBe('http://127.0.0.1:9')
  })
})
