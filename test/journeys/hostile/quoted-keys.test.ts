// S29: a provider quotes the key it was sent, in every error it can make. Neither the client, nor the receipt, nor the
// log, nor the files of the gateway hold it.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually, expectAudited } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import {
  chunk,
  delta,
  event,
  plain,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  streamHead,
} from '../../support/scripted-provider.ts'

const key = ['lab', 'Zq9xWv7uTs5rQp3oNm1lKj8iHg6fEd4c'].join('-')
const header = 'second-secret-Yy8wVu6tSr4qPo2n'
const tail = key.slice(-4)
const quotes = [
  key,
  `lab-****${tail}`,
  `Bearer ${key}`,
  encodeURIComponent(key),
  btoa(`:${key}`),
  header,
  key.slice(0, 20),
].join(' and ')
const error = {
  message: `I was sent ${quotes}`,
  type: 'invalid_request_error',
  param: key,
  code: `code_${key}`,
}

const failing =
  (status: number): Script =>
  async (wire) => {
    await wire.write(plain(status, 'application/json', JSON.stringify({ error })))
    wire.end()
  }

const scripts: Readonly<Record<string, Script>> = {
  'bad-request': failing(400),
  'bad-key': failing(401),
  broken: failing(500),
  limited: failing(429),
  'inside-200': async (wire) => {
    await wire.write(plain(200, 'application/json', JSON.stringify({ error })))
    wire.end()
  },
  page: async (wire) => {
    await wire.write(plain(400, 'text/plain', `I was sent ${quotes}`))
    wire.end()
  },
  'mid-stream': async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(event(delta({ content: 'The river' }))))
    await wire.write(chunk(event({ error })))
    wire.end()
  },
}

let provider: ScriptedProvider
let weir: ServedWeir

beforeAll(async () => {
  provider = await startScriptedProvider(scripts)
  const config = {
    local_servers: { discover: false },
    log: { level: 'debug' },
    providers: {
      lab: { protocol: 'openai-chat', base_url: provider.url, api_key: key, headers: { 'x-extra': header } },
    },
    models: Object.keys(scripts).map((name) => ({
      id: `lab/${name}`,
      price: { input: '1', output: '2' },
      max_output_tokens: 100,
    })),
  }
  weir = await serveWeir({ config: JSON.stringify(config) })
}, 30_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

const parts = [key, key.slice(0, 14), key.slice(-10), `****${tail}`, btoa(`:${key}`), header]

function expectNothingOfIt(text: string): void {
  for (const part of parts) expect(text).not.toContain(part)
}

const calls = Object.keys(scripts).flatMap((model) =>
  (['/chat/completions', '/responses', '/messages'] as const).flatMap((path) =>
    [false, true].map((stream) => [model, path, stream] as const),
  ),
)

test.each(calls)('S29 %s on %s, stream %p', async (model, path, stream) => {
  const body = path === '/responses' ? { input: 'hi' } : { messages: [{ role: 'user', content: 'hi' }] }
  const headers = { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' }
  const response = await fetch(weir.baseUrl + path, {
    method: 'POST',
    headers,
    body: JSON.stringify({ model: `lab/${model}`, max_tokens: 10, stream, ...body }),
  })
  const text = await response.text()
  expect(text).toMatch(/error/)
  expectNothingOfIt(text)
  expectNothingOfIt(JSON.stringify([...response.headers]))
  const id = response.headers.get('x-request-id')!
  const receipt = await eventually(
    async () => fetch(`${weir.origin}/v1/generation?id=${id}`, { headers }),
    (found) => found.status === 200,
  )
  expectNothingOfIt(await receipt.text())
})

test('S29 nor do the log and the files, and the books balance', async () => {
  expectNothingOfIt(weir.output())
  await expectAudited(weir)
  for (const file of readdirSync(weir.dataDir, { recursive: true, withFileTypes: true })) {
    if (file.isFile()) expectNothingOfIt(readFileSync(join(file.parentPath, file.name), 'latin1'))
  }
})
