// The banner tells everything the contract names, and its curl line works as it is printed.

import { describe, expect, test } from 'bun:test'
import { baseUrlOf, renderBanner, type StartFacts, startFactsJson } from '../../src/cli/banner.ts'

const facts: StartFacts = {
  version: '1.2.3',
  listen: '127.0.0.1:8787',
  baseUrl: 'http://127.0.0.1:8787/v1',
  console: undefined,
  docs: 'http://127.0.0.1:8787/docs',
  dataDir: '/srv/weir-data',
  configFile: '/srv/weir.yaml',
  providers: [
    { id: 'openai', standing: 'key' },
    { id: 'groq', standing: 'no-key' },
    { id: 'ollama', standing: 'found', models: 3 },
    { id: 'vllm', standing: 'not-found' },
    { id: 'sim', standing: 'builtin' },
  ],
  catalog: { date: '2026-10-21', models: 1000 },
  tryModel: 'sim/echo',
  owner: undefined,
}
const owner = { account: 'acct_1', email: 'owner@localhost', key: 'sk-weir-live-abc-def', creditUsd: '100' }

describe('the banner', () => {
  test('names every fact of the contract', () => {
    expect(renderBanner(facts)).toBe(
      [
        'weir 1.2.3',
        '  listening on   127.0.0.1:8787',
        '  base URL       http://127.0.0.1:8787/v1',
        '  docs           http://127.0.0.1:8787/docs',
        '  data           /srv/weir-data',
        '  configuration  /srv/weir.yaml',
        '  providers      with a key: openai',
        '                 without a key: groq',
        '                 ready without one: ollama (3 models), sim',
        '                 not reachable: vllm',
        '  catalog        1000 models, prices of 2026-10-21',
      ].join('\n'),
    )
  })

  test('names a console once there is one, and says when there is no configuration file', () => {
    const text = renderBanner({ ...facts, console: 'http://127.0.0.1:8787/', configFile: undefined })
    expect(text).toContain('  console        http://127.0.0.1:8787/\n')
    expect(text).toContain('  configuration  no weir.yaml')
  })

  test('breaks a long list at its commas', () => {
    const providers = Array.from({ length: 40 }, (_, at) => ({
      id: `provider-${at}`,
      standing: 'no-key' as const,
    }))
    const lines = renderBanner({ ...facts, providers }).split('\n')
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100)
    expect(lines.join('').match(/provider-\d+/g)).toHaveLength(40)
  })

  test('tells the key on the first run, and only then', () => {
    expect(renderBanner({ ...facts, owner })).toContain(`\n  ${owner.key}\n`)
    expect(renderBanner(facts)).not.toContain('curl')
    expect(startFactsJson({ ...facts, owner }).owner).toMatchObject({ key: owner.key, credit_usd: '100' })
    expect(startFactsJson(facts).owner).toBeNull()
  })

  test('prints a curl line that a shell can run', async () => {
    const seen: unknown[] = []
    const server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: async (request) => {
        seen.push([new URL(request.url).pathname, request.headers.get('authorization'), await request.json()])
        return new Response('answered')
      },
    })
    const text = renderBanner({ ...facts, baseUrl: `http://127.0.0.1:${server.port}/v1`, owner })
    const line = text.split('\n').find((row) => row.trimStart().startsWith('curl '))!
    const shell = Bun.spawn(['sh', '-c', line], { stdout: 'pipe', stderr: 'ignore' })
    const answer = await new Response(shell.stdout).text()
    await server.stop(true)
    expect(answer).toBe('answered')
    expect(seen).toEqual([
      [
        '/v1/chat/completions',
        `Bearer ${owner.key}`,
        { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello, river.' }] },
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
