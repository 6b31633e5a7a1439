// `weir doctor --provider` says in words what keeps a provider from answering, and is charged to nobody.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import {
  completion,
  headOf,
  plain,
  type Script,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../support/scripted-provider.ts'
import { tempDir } from '../support/tmp.ts'
import { run } from './run.ts'

const key = 'sk-provider-0123456789'
const sends =
  (status: number, body: unknown, type = 'application/json', headers = {}): Script =>
  async (wire) => {
    await wire.write(plain(status, type, typeof body === 'string' ? body : JSON.stringify(body), headers))
    wire.end()
  }
const error = (message: string, code: string | null = null, type = 'invalid_request_error') => ({
  error: { message, type, param: null, code },
})

const scripts: Record<string, Script> = {
  good: sends(200, completion('Yes.', someUsage)),
  refused: sends(401, error(`Incorrect API key provided: ${key}.`, 'invalid_api_key')),
  quota: sends(429, error('You exceeded your current quota.', 'insufficient_quota', 'insufficient_quota')),
  limited: sends(429, error('Rate limit reached.', 'rate_limit_exceeded', 'requests')),
  unpaid: sends(402, error('Insufficient Balance')),
  unknown: sends(404, error('The model `unknown` does not exist.', 'model_not_found')),
  path: sends(404, '<html><h1>404 Not Found</h1></html>', 'text/html'),
  detail: sends(404, { detail: 'Not Found' }),
  page: sends(200, '<!doctype html><title>Welcome</title>', 'text/html'),
  empty: sends(200, ''),
  other: sends(200, { status: 'ok' }),
  redirect: sends(301, '', 'text/html', { location: 'https://elsewhere.example/v1' }),
  busy: sends(503, error('The server is overloaded.', null, 'server_error')),
  down: sends(500, '<html>oops</html>', 'text/html'),
  picky: sends(400, error('max_tokens is too small.')),
  silent: () => undefined,
  reset: (wire) => wire.reset(),
  hung: (wire) => void wire.write(headOf(200, { 'content-type': 'application/json' })),
}

let provider: ScriptedProvider
beforeAll(async () => void (provider = await startScriptedProvider(scripts)))
afterAll(() => provider?.stop())

/** Those whose answer is waited for in vain; all others have theirs at once, or when the machine gets to it. */
const never = new Set(['silent', 'hung'])

/** Runs the probe against the script of this name; the models of the configuration are that one. */
async function probe(model: string, settings: object = {}, ...flags: string[]) {
  using home = tempDir()
  const patienceMs = never.has(model) ? 300 : 10_000
  const config = {
    timeouts: { first_byte_ms: patienceMs, connect_ms: patienceMs },
    local_servers: { discover: false },
    providers: { lab: { protocol: 'openai-chat', base_url: provider.url, api_key: key, ...settings } },
    models: [
      { id: `lab/${model}`, price: { input: '1', output: '1' } },
      { id: 'lab/dearer', price: { input: '5', output: '5' } },
    ],
  }
  writeFileSync(home.join('weir.yaml'), JSON.stringify(config))
  const ran = await run({ cwd: home.path }, 'doctor', '--provider', 'lab', ...flags)
  const left = await Array.fromAsync(new Bun.Glob('**').scan({ cwd: home.path, onlyFiles: false }))
  expect(left).toEqual(['weir.yaml'])
  return ran
}

test('a provider that answers is well: one call of a few tokens to its cheapest chat model', async () => {
  const before = provider.arrivals.length
  const ran = await probe('good')
  expect([ran.code, ran.err]).toEqual([0, ''])
  expect(ran.out).toMatch(/^ok {4}provider lab {2}good answered in \d+ ms, for 0\.0000\d+ USD\n$/)
  const arrivals = provider.arrivals.slice(before)
  expect(arrivals.map(({ path }) => path)).toEqual(['/v1/chat/completions'])
  expect(arrivals[0]!.body).toMatchObject({ model: 'good', max_tokens: 16 })
  expect(arrivals[0]!.headers.get('authorization')).toBe(`Bearer ${key}`)
})

describe('what is wrong is said in words', () => {
  test.each([
    ['refused', 'key_refused', /refuses the key \(HTTP 401\)/],
    ['quota', 'quota', /no credit or quota left/],
    ['unpaid', 'quota', /no credit or quota left/],
    ['limited', 'rate_limited', /limits its rate/],
    ['unknown', 'model_unknown', /knows no model unknown/],
    ['path', 'wrong_address', /HTTP 404.*providers\.lab\.base_url is wrong/],
    ['detail', 'model_unknown', /knows no model detail, or providers\.lab\.base_url is wrong/],
    ['page', 'wrong_address', /answers with a web page/],
    ['empty', 'wrong_address', /answers with nothing/],
    ['other', 'not_the_protocol', /not of the protocol openai-chat/],
    ['redirect', 'wrong_address', /redirects to https:\/\/elsewhere\.example\/v1/],
    ['busy', 'overloaded', /overloaded at the moment \(HTTP 503\)/],
    ['down', 'failing', /it fails \(HTTP 500\)/],
    ['picky', 'request_refused', /refuses the request to picky.*too small/],
    ['silent', 'timeout', /no answer from .* within 0\.3 s/],
    ['hung', 'timeout', /no answer from .* within 0\.3 s/],
    ['reset', 'unreachable', /connection/],
  ] as const)('%s: %s', async (model, problem, words) => {
    const ran = await probe(model, {}, '--json')
    expect(ran.code).toBe(1)
    const report = JSON.parse(ran.out) as { ok: boolean; findings: { detail: string }[] }
    expect(report).toMatchObject({
      ok: false,
      findings: [{ check: 'provider lab', state: 'bad', problem, model }],
    })
    expect(report.findings[0]!.detail).toMatch(words)
    expect(ran.out + ran.err).not.toContain(key)
  })

  test('nothing listens there', async () => {
    const ran = await probe('good', { base_url: 'http://127.0.0.1:1/v1' })
    expect(ran.code).toBe(1)
    expect(ran.out).toContain('nothing listens at http://127.0.0.1:1/v1')
    expect(ran.err).toContain('provider lab: nothing listens')
  })

  test('it is taken out of service', async () => {
    expect((await probe('good', { disabled: true })).out).toContain('taken out of service')
  })

  test('which of several keys is bad', async () => {
    const ran = await probe('good', { api_key: [key, 'sk-second-0123456789'] })
    expect(ran.code).toBe(0)
    expect(ran.out.split('\n').filter(Boolean)).toHaveLength(2)
    expect(ran.out).toContain('provider lab key 2')
  })

  test('another protocol than the one configured', async () => {
    const ran = await probe('good', { protocol: 'anthropic-messages' })
    expect([ran.code, ran.out.includes('not of the protocol anthropic-messages')]).toEqual([1, true])
  })
})

describe('without a call', () => {
  test.each([
    ['openai', 1, /no key: set OPENAI_API_KEY or providers\.openai\.api_key/],
    ['gpustack', 1, /no key/],
    ['opnai', 2, /no provider "opnai".*openai/],
  ] as const)('%s exits %p', async (id, code, words) => {
    using home = tempDir()
    const ran = await run({ cwd: home.path }, 'doctor', '--provider', id)
    expect(ran.code).toBe(code)
    expect(ran.out + ran.err).toMatch(words)
  })

  test('a provider without an address or without a model is told so', async () => {
    using home = tempDir()
    writeFileSync(
      home.join('weir.yaml'),
      JSON.stringify({
        local_servers: { timeout_ms: 100 },
        providers: {
          bare: { protocol: 'openai-chat', base_url: provider.url, api_key: key },
        },
      }),
    )
    const env = { AZURE_OPENAI_API_KEY: key }
    const azure = await run({ cwd: home.path, env }, 'doctor', '--provider', 'azure')
    expect([azure.code, azure.out.includes('set providers.azure.base_url')]).toEqual([1, true])
    const bare = await run({ cwd: home.path }, 'doctor', '--provider', 'bare')
    expect([bare.code, bare.out.includes('add one under models, such as bare/<name>')]).toEqual([1, true])
  })

  test('the simulator is always well', async () => {
    using home = tempDir()
    const ran = await run({ cwd: home.path }, 'doctor', '--provider', 'sim')
    expect([ran.code, ran.out]).toEqual([0, expect.stringMatching(/echo answered in \d+ ms/)])
  })
})
