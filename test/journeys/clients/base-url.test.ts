// A client whose address is slightly wrong is told the right one, and commands find the server of their data directory.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { rawRequest, sendRaw } from '../../support/raw-http.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

const quiet = JSON.stringify({ local_servers: { discover: false } })
let weir: RunningWeir

beforeAll(async () => {
  weir = await startWeir({ config: quiet })
})
afterAll(() => weir?.stop())

interface Failed {
  readonly error: {
    readonly code: string
    readonly message: string
    readonly metadata: { readonly url?: string; readonly docs_url: string }
  }
}

const post = (path: string) => fetch(weir.origin + path, { method: 'POST', body: '{}' })

describe('a wrong base URL', () => {
  // As it stands, since fetch() mends some of them by itself.
  test.each(['/chat/completions', '/v1/v1/chat/completions', '//v1/chat/completions'])(
    'that leads to %s is answered with the right one',
    async (path) => {
      const headers = [
        ['host', `127.0.0.1:${weir.port}`],
        ['content-length', '2'],
        ['connection', 'close'],
      ] as const
      const { status, body } = await sendRaw(weir.port, rawRequest(`POST ${path} HTTP/1.1`, headers, '{}'))
      const { error } = JSON.parse(body) as Failed
      expect([status, error.code]).toEqual([404, 'not_found'])
      expect(error.metadata.url).toBe(`${weir.baseUrl}/chat/completions`)
      expect(error.message).toContain(`the base URL of clients is ${weir.baseUrl}.`)
    },
  )

  test('that makes a GET of a call is answered with the methods there are', async () => {
    const response = await fetch(`${weir.baseUrl}/chat/completions`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
    expect(((await response.json()) as Failed).error.code).toBe('method_not_allowed')
  })
})

test('the link of an error opens its section of the reference', async () => {
  const { error } = (await (await post('/v1/chat/completions')).json()) as Failed
  expect(error.metadata.docs_url).toBe(`${weir.origin}/docs/errors#missing_api_key`)
  const page = await fetch(error.metadata.docs_url)
  expect(await page.text()).toContain('<section id="missing_api_key">')
})

test('behind a proxy, links begin with the address that the operator names', async () => {
  const named = await startWeir({
    config: quiet,
    env: { WEIR_SERVER_PUBLIC_URL: 'https://models.example.org/weir/' },
  })
  try {
    const { error } = (await (await fetch(`${named.origin}/models`, { method: 'PUT' })).json()) as Failed
    expect(error.metadata.docs_url).toBe('https://models.example.org/weir/docs/errors#not_found')
    const got = (await (await fetch(`${named.origin}/models`)).json()) as Failed
    expect(got.error.metadata.url).toBe('https://models.example.org/weir/v1/models')
  } finally {
    await named.stop()
  }
})

test('weir chat asks the server of its data directory, whatever port that took', async () => {
  const words = await weir.command('chat', 'sim/echo', 'hello', '--key', weir.key)
  expect(words).toMatchObject({ code: 0, stdout: expect.stringContaining('hello') })
  const other = await startWeir({ config: quiet })
  const dataDir = other.dataDir
  expect(existsSync(join(dataDir, 'serve.json'))).toBe(true)
  await other.stop()
  expect(existsSync(join(dataDir, 'serve.json'))).toBe(false)
})

test('a server that was killed is not asked for', async () => {
  const killed = await startWeir({ config: quiet })
  await killed.kill()
  expect(existsSync(join(killed.dataDir, 'serve.json'))).toBe(true)
  const words = await killed.command('chat', 'sim/echo', 'hello', '--key', weir.key, '--json')
  expect(words.code).toBe(1)
  expect(words.stderr).not.toContain(String(killed.port))
  await killed.stop()
})
