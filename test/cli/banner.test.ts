// The banner tells everything the contract names, and its curl line works as it is printed.

import { describe, expect, test } from 'bun:test'
import {
  baseUrlOf,
  consoleOrigin,
  listenAddress,
  renderBanner,
  type StartFacts,
  startFactsJson,
} from '../../src/serve/banner.ts'

const facts: StartFacts = {
  version: '1.2.3',
  commit: null,
  listen: '127.0.0.1:8787',
  baseUrl: 'http://127.0.0.1:8787/v1',
  console: 'http://localhost:8787/console',
  docs: 'http://127.0.0.1:8787/docs',
  dataDir: '/srv/weir-data',
  database: undefined,
  configFile: '/srv/weir.yaml',
  providers: [
    { id: 'openai', standing: 'key' },
    { id: 'groq', standing: 'no-key' },
    { id: 'ollama', standing: 'found', models: 4 },
    { id: 'vllm', standing: 'not-found' },
    { id: 'sim', standing: 'builtin' },
  ],
  available: 112,
  local: ['ollama/a', 'ollama/b', 'ollama/c', 'ollama/d'],
  catalog: { date: '2026-10-21', models: 1000 },
  tryModel: 'ollama/a',
  owner: undefined,
  ownerFile: undefined,
}
const owner = {
  account: 'acct_1',
  email: 'owner@localhost',
  key: 'sk-weir-live-abc-def',
  creditUsd: '100',
  signIn: 'http://localhost:8787/console/link#wt-weir-abc',
}

describe('the banner', () => {
  test('says first what works now and how to call it, and last what could be added', () => {
    expect(renderBanner(facts)).toBe(
      [
        'weir 1.2.3 is ready',
        '',
        '  base URL       http://127.0.0.1:8787/v1',
        '  key            yours; weir keys create --account owner@localhost makes another',
        '  models         112 can be called now: openai, ollama (4), sim',
        '  local          ollama/a, ollama/b, ollama/c and 1 more',
        '',
        `  curl http://127.0.0.1:8787/v1/chat/completions -H "Authorization: Bearer $WEIR_API_KEY" -H 'Content-Type: application/json' -d '{"model":"ollama/a","messages":[{"role":"user","content":"Hello, river."}]}'`,
        '',
        '  listening on   127.0.0.1:8787',
        '  console        http://localhost:8787/console',
        '  docs           http://127.0.0.1:8787/docs',
        '  data           /srv/weir-data',
        '  configuration  /srv/weir.yaml',
        '  catalog        1000 models, prices of 2026-10-21',
        '  not reachable  vllm',
        '  add more       keys of groq: weir doctor names them',
      ].join('\n'),
    )
  })

  test('says when there is no configuration file', () => {
    expect(renderBanner({ ...facts, configFile: undefined })).toContain('no weir.yaml')
  })

  test('has the link that signs in on the first run, and only then', () => {
    expect(renderBanner({ ...facts, owner })).toContain(
      '  console        http://localhost:8787/console\n  sign in        http://localhost:8787/console/link#wt-weir-abc\n',
    )
    expect(renderBanner(facts)).not.toContain('sign in')
  })

  test.each([
    ['127.0.0.1', 'http://localhost:80'],
    ['localhost', 'http://localhost:80'],
    ['0.0.0.0', 'http://localhost:80'],
    ['::', 'http://localhost:80'],
    ['::1', 'http://localhost:80'],
    ['192.168.1.5', 'http://192.168.1.5'],
  ])('says where a browser finds a console that listens on %p: %p', (host, origin) => {
    expect(consoleOrigin(host, 80)).toBe(origin)
  })

  test('brackets an IPv6 address that it listens on', () => {
    expect(listenAddress('::1', 8787)).toBe('[::1]:8787')
    expect(listenAddress('127.0.0.1', 8787)).toBe('127.0.0.1:8787')
  })

  test('names what could be added in one line, the best known first', () => {
    const ids = ['cohere', ...Array.from({ length: 40 }, (_, at) => `provider-${at}`), 'anthropic', 'openai']
    const providers = ids.map((id) => ({ id, standing: 'no-key' as const }))
    expect(
      renderBanner({ ...facts, providers })
        .split('\n')
        .at(-1),
    ).toBe('  add more       keys of openai, anthropic, cohere and 40 more: weir doctor names them')
    expect(renderBanner({ ...facts, providers: [] })).not.toContain('add more')
  })

  test('breaks a long list at its commas', () => {
    const providers = Array.from({ length: 40 }, (_, at) => ({
      id: `provider-${at}`,
      standing: 'key' as const,
    }))
    const lines = renderBanner({ ...facts, providers })
      .split('\n')
      .filter((line) => !line.includes('curl'))
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100)
    expect(lines.join('').match(/provider-\d+/g)).toHaveLength(40)
  })

  test('tells the key on the first run, and only then', () => {
    expect(renderBanner({ ...facts, owner })).toContain(`  key            ${owner.key}\n`)
    expect(renderBanner({ ...facts, owner })).toContain('shown this once')
    expect(renderBanner(facts)).not.toContain('First run')
    expect(startFactsJson({ ...facts, owner }).owner).toMatchObject({ key: owner.key, credit_usd: '100' })
    expect(startFactsJson(facts)).toMatchObject({ owner: null, available: 112, try: 'ollama/a' })
  })

  test.each([true, false])('prints a curl line that a shell can run: first run %p', async (isFirst) => {
    const seen: unknown[] = []
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        seen.push([new URL(request.url).pathname, request.headers.get('authorization'), await request.json()])
        return new Response('answered')
      },
    })
    const text = renderBanner({
      ...facts,
      baseUrl: `http://127.0.0.1:${server.port}/v1`,
      owner: isFirst ? owner : undefined,
    })
    const line = text.split('\n').find((row) => row.trimStart().startsWith('curl '))!
    const shell = Bun.spawn(['sh', '-c', line], {
      env: { ...process.env, WEIR_API_KEY: owner.key },
      stdout: 'pipe',
      stderr: 'ignore',
    })
    const answer = await new Response(shell.stdout).text()
    await server.stop(true)
    expect(answer).toBe('answered')
    expect(seen).toEqual([
      [
        '/v1/chat/completions',
        `Bearer ${owner.key}`,
        { model: 'ollama/a', messages: [{ role: 'user', content: 'Hello, river.' }] },
      ],
    ])
  })
})

test.each([
  ['127.0.0.1', 'http://127.0.0.1:1/v1'],
  ['0.0.0.0', 'http://127.0.0.1:1/v1'],
  ['::', 'http://[::1]:1/v1'],
  ['::1', 'http://[::1]:1/v1'],
  ['gateway.lan', 'http://gateway.lan:1/v1'],
])('clients reach host %s at %s', (host, url) => {
  expect(baseUrlOf(host, 1)).toBe(url)
})
