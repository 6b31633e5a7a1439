// A gateway without file descriptors: its own shortage, which no provider is blamed for.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect, type Socket } from 'node:net'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { expectAudited } from '../../support/call-gateway.ts'
import {
  plain,
  completion,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

/** How many descriptors the gateway may have: enough to start, and soon used up. */
const limit = 96

let provider: ScriptedProvider
let pictures: ReturnType<typeof Bun.serve>
let lab: Lab

beforeAll(async () => {
  const answer = plain(200, 'application/json', completion('The river runs.', someUsage), {
    connection: 'close',
  })
  provider = await startScriptedProvider({
    m: async (wire) => {
      await wire.write(answer)
      wire.end()
    },
  })
  pictures = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('a picture') })
  const hosts = ['127.0.0.1', 'localhost'].map((host) => `${host}:${pictures.port}`)
  // By its name and by its address: without descriptors the name cannot be resolved, and is reported as unknown.
  const named = provider.url.replace('127.0.0.1', 'localhost')
  const prefix = ['/bin/sh', '-c', `ulimit -n ${limit}; exec "$@"`, 'sh']
  lab = await startLab(
    {
      providers: { lab: provider.url, named, fetching: { protocol: 'ollama', base_url: provider.url } },
      models: { 'lab/m': ['lab/m'], 'named/m': ['named/m'], 'fetching/m': ['fetching/m'] },
      settings: { egress: { allow_hosts: hosts } },
    },
    { prefix },
  )
})

afterAll(async () => {
  await lab.weir.stop()
  await provider.stop()
  await pictures.stop(true)
})

/** Connections of clients that say nothing, until the gateway cannot take another. */
async function crowd(port: number): Promise<Socket[]> {
  return Promise.all(
    Array.from({ length: limit }, async () => {
      const socket = connect({ host: '127.0.0.1', port })
      socket.on('error', () => undefined)
      await new Promise((resolve) => socket.once('connect', resolve))
      return socket
    }),
  )
}

/** A client of its own connection: the one that has been taken before the others came. */
async function firstClient(port: number, key: string) {
  const socket = connect({ host: '127.0.0.1', port })
  let received = ''
  socket.setEncoding('utf8').on('data', (text: string) => (received += text))
  const send = async (path: string, body = '') => {
    received = ''
    const method = body === '' ? 'GET' : 'POST'
    const head = [
      `${method} ${path} HTTP/1.1`,
      'host: 127.0.0.1',
      `authorization: Bearer ${key}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
    ]
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
    const text = await until(() => received, isWhole)
    return { status: Number(/^HTTP\/1.1 (\d+)/.exec(text)![1]), text }
  }
  return { send, close: () => socket.destroy() }
}

function isWhole(text: string): boolean {
  const end = text.indexOf('\r\n\r\n')
  return end >= 0 && text.length - end - 4 >= Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0)
}

const ask = (model: string) => JSON.stringify({ model, messages: [{ role: 'user', content: 'Where?' }] })

/** A question about a picture that the gateway fetches: this provider takes bytes only. */
const askAbout = (host: string) => {
  const url = `http://${host}:${pictures.port}/picture.png`
  const content = [{ type: 'image_url', image_url: { url } }]
  return JSON.stringify({ model: 'fetching/m', messages: [{ role: 'user', content }] })
}

test('without descriptors calls are refused with 503, no breaker opens, and the next calls are served (item 25)', async () => {
  const client = await firstClient(lab.weir.port, lab.weir.key)
  expect((await client.send('/healthz')).status).toBe(200)
  const sockets = await crowd(lab.weir.port)
  // Connected is not yet taken: the gateway has them when it can take no more.
  await until(
    () => client.send('/v1/chat/completions', ask('named/m')),
    ({ status }) => status === 503,
  )
  // More than would open a breaker.
  for (let at = 0; at < 12; at++) {
    for (const model of ['lab/m', 'named/m']) {
      const refused = await client.send('/v1/chat/completions', ask(model))
      expect(refused.text).toContain('"code":"overloaded"')
      expect(refused.status).toBe(503)
      expect(refused.text).toMatch(/retry-after: 1/i)
    }
  }
  // Nor is the address at fault that a caller gives (item 25).
  for (const host of ['127.0.0.1', 'localhost']) {
    const refused = await client.send('/v1/chat/completions', askAbout(host))
    expect(refused.text).toContain('"code":"overloaded"')
    expect(refused.status).toBe(503)
  }
  for (const socket of sockets) socket.destroy()

  const served = await until(
    () => client.send('/v1/chat/completions', ask('lab/m')),
    ({ status }) => status === 200,
  )
  expect(served.text).toContain('The river runs.')
  const { data } = (await lab.get('/v1/providers')) as { data: { id: string; state: string }[] }
  expect(data.filter(({ id }) => id !== 'sim' && id !== 'fetching')).toEqual([
    expect.objectContaining({ id: 'lab', state: 'healthy', success_rate: 1 }),
    expect.objectContaining({ id: 'named', state: 'healthy', success_rate: 1 }),
  ])
  expect(await lab.held()).toBe('0')
  client.close()
  await expectAudited(lab.weir)
})
