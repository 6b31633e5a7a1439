// Clients that say nothing, half of what they have to say, or one byte a second, hold no connection for long.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { connect } from 'node:net'
import { postAs } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

const idleMs = 2_000
/** The runtime looks at its connections every four seconds, and what has just moved gets another look. */
const goneWithinMs = 15_000

let weir: RunningWeir

beforeAll(async () => {
  weir = await startWeir({ config: `server: { idle_timeout_ms: ${idleMs} }` })
})

afterAll(() => weir.stop())

const head = (length: number) =>
  [
    'POST /v1/chat/completions HTTP/1.1',
    'host: 127.0.0.1',
    `authorization: Bearer ${weir.key}`,
    'content-type: application/json',
    `content-length: ${length}`,
  ].join('\r\n')

/** A connection that says this; resolves with the milliseconds after which the gateway has closed it. */
function closedAfter(said: string, drip?: string): Promise<number> {
  const begun = performance.now()
  const { promise, resolve } = Promise.withResolvers<number>()
  const socket = connect({ host: '127.0.0.1', port: weir.port })
  let timer: ReturnType<typeof setInterval> | undefined
  socket.on('error', () => undefined)
  socket.on('data', () => undefined)
  socket.on('connect', () => {
    if (said !== '') socket.write(said)
    if (drip !== undefined) timer = setInterval(() => socket.write(drip), 1_000)
  })
  socket.on('close', () => {
    clearInterval(timer)
    resolve(performance.now() - begun)
  })
  return promise
}

// All at the same time: each waits, and works little.
test.concurrent.each([
  ['say nothing', '', undefined],
  ['end in the midst of their headers', 'POST /v1/chat/completions HTTP/1.1\r\nhost: 127.', undefined],
  ['send a body of one byte a second', undefined, ' '],
] as const)(
  'G10: fifty connections that %s are closed, and others are served meanwhile',
  async (_, said, drip) => {
    const slow = Array.from({ length: 50 }, () => closedAfter(said ?? `${head(1_000)}\r\n\r\n`, drip))
    const served = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, {
      model: 'sim/echo',
      messages: [{ role: 'user', content: 'Hello' }],
    })
    expect(served.status).toBe(200)
    expect(Math.max(...(await Promise.all(slow)))).toBeLessThan(goneWithinMs)
  },
  40_000,
)
