// Providers that fall silent, at every moment: the client gets the right status or an error inside its stream, the
// provider's connection is closed, and the call ends once, charged by what was delivered.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { codeIn, type Lab, startLab, until, wordsIn } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { type Fault, type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

const hangs: Record<string, Fault> = {
  headers: { kind: 'hang', at: 'before-headers' },
  thinks: { kind: 'hang', at: 'before-headers' },
  middle: { kind: 'hang', at: 'mid-stream' },
}

/** What a machine that has much else to do may add. */
const slackMs = 500

let mock: MockProvider
let paced: Provider
let halves: ReturnType<typeof startHalves>
let dripping: ReturnType<typeof startDripping>
let deaf: Awaited<ReturnType<typeof startDeafServer>>
let lab: Lab

beforeAll(async () => {
  mock = await startMockProvider({ fault: (_, body) => hangs[String(body['model'])] })
  paced = startPacedProvider(
    Array.from({ length: 200 }, () => 'word '),
    10,
  )
  halves = startHalves()
  dripping = startDripping()
  deaf = await startDeafServer()
  const timeouts = { first_byte_ms: 300, first_byte_reasoning_ms: 700, gap_ms: 400 }
  lab = await startLab({
    providers: {
      quiet: { base_url: mock.url, timeouts },
      long: { base_url: paced.url, timeouts: { total_ms: 500 } },
      halves: halves.url,
      drips: { base_url: dripping.url, timeouts: { total_ms: 500, gap_ms: 400 } },
      deaf: { base_url: deaf.url, timeouts: { connect_ms: 300 } },
    },
    models: {
      'quiet/headers': ['quiet/headers'],
      'quiet/thinks': { reasoning: true },
      'quiet/middle': ['quiet/middle'],
      'long/m': ['long/m'],
      'halves/m': ['halves/m'],
      'drips/m': ['drips/m'],
      'deaf/m': ['deaf/m'],
    },
    settings: { stream: { keepalive_ms: 100 } },
  })
  // What nobody has counted is counted with a vocabulary that is read for the first such answer: none of the deadlines'.
  await lab.ask('long/m', { stream: true })
})

afterAll(async () => {
  await lab?.weir.stop()
  await mock?.stop()
  paced?.stop()
  halves?.stop()
  dripping?.stop()
  deaf?.stop()
})

/** The end of the last call at the mock, once it has come to one. */
const lastEnding = () =>
  until(
    () => mock.bill.at(-1)!.ending,
    (ending) => ending !== 'open',
    1_000,
  )

async function expectCharge(charge: 'nothing' | 'something', act: () => Promise<void>): Promise<void> {
  const before = await lab.used()
  await act()
  await until(lab.held, (held) => held === '0')
  const charged = (await lab.used()) - before
  if (charge === 'nothing') expect(charged).toBe(0)
  else expect(charged).toBeGreaterThan(0)
}

describe('G13: before the first byte a silent provider', () => {
  test.each([
    // model, streamed, the deadline that ends it
    ['quiet/headers', true, 300],
    ['quiet/thinks', true, 700],
    // A whole answer comes when its last token is made: it gets the patience of a reasoning model.
    ['quiet/headers', false, 700],
    ['deaf/m', true, 300],
    ['deaf/m', false, 300],
  ])('of %s (streamed: %p) is given up after %p ms, free of charge', async (model, stream, due) => {
    await expectCharge('nothing', async () => {
      const answer = await lab.ask(model, { stream })
      // The client of a stream has had a sign of life by then, and so a status.
      expect([answer.status, codeIn(answer.text)]).toEqual([stream ? 200 : 504, 'upstream_timeout'])
      expect(answer.ms).toBeGreaterThanOrEqual(due * 0.9)
      expect(answer.ms).toBeLessThan(due * 1.1 + slackMs)
      if (model.startsWith('quiet')) expect(await lastEnding()).toBe('left')
    })
  })
})

describe('an answer that drips', () => {
  test.each([
    ['whole', { stream: false }],
    ['whole although a stream was asked for', { stream: true }],
  ])('ends when the time of the call is over: %s', async (_, more) => {
    await expectCharge('nothing', async () => {
      const answer = await lab.ask('drips/m', more)
      expect([answer.status, codeIn(answer.text)]).toEqual([more.stream ? 200 : 504, 'upstream_timeout'])
      expect(answer.ms).toBeGreaterThanOrEqual(450)
      expect(answer.ms).toBeLessThan(550 + slackMs)
    })
  })
})

describe('G13: within a stream', () => {
  test('silence ends it with an error that clients throw, after keep-alives between whole events', async () => {
    await expectCharge('something', async () => {
      const answer = await lab.ask('quiet/middle', { stream: true })
      expect(answer.status).toBe(200)
      expect(wordsIn(answer.text)).toBe('The river runs ')
      expect(answer.text).toContain('\n\n: keepalive\n\n')
      expect(codeIn(answer.text)).toBe('upstream_timeout')
      expect(answer.text).toContain('"finish_reason":"error"')
      expect(answer.text).toEndWith('data: [DONE]\n\n')
      expect(answer.ms).toBeGreaterThanOrEqual(360)
      expect(answer.ms).toBeLessThan(440 + slackMs)
      expect(await lastEnding()).toBe('left')
    })
  })

  test('the time of the whole call runs out although words keep coming', async () => {
    await expectCharge('something', async () => {
      const answer = await lab.ask('long/m', { stream: true })
      expect(codeIn(answer.text)).toBe('upstream_timeout')
      expect(wordsIn(answer.text)).toContain('word word word ')
      expect(answer.ms).toBeLessThan(550 + slackMs)
      await until(() => paced.calls.at(-1)!.ending === 'left', 1_000)
    })
  })

  test('a keep-alive never cuts an event in two', async () => {
    const answer = await lab.ask('halves/m', { stream: true })
    expect(answer.text).toContain(': keepalive')
    for (const line of answer.text.split('\n')) {
      if (line === '' || line === ': keepalive' || line === 'data: [DONE]') continue
      expect(() => JSON.parse(line.slice('data: '.length))).not.toThrow()
    }
    expect(wordsIn(answer.text)).toBe('one half and another')
  })
})

test('the ledger proves itself after all of this, and nobody had to be surprised', async () => {
  expect(lab.weir.output()).not.toMatch(/unhandled|uncaught|TypeError/i)
  expect(await lab.weir.command('ledger', 'audit', '--json')).toMatchObject({ code: 0 })
})

/** A provider that pauses in the middle of an event. */
function startHalves() {
  const server = createServer((_, response) => {
    const same = { id: 'chatcmpl-half', object: 'chat.completion.chunk', created: 1_767_225_600, model: 'm' }
    const event = (content: string, finish: string | null) =>
      `data: ${JSON.stringify({ ...same, choices: [{ index: 0, delta: { content }, finish_reason: finish }] })}\n\n`
    const [one, two] = [event('one half ', null), event('and another', 'stop')]
    response.setHeader('content-type', 'text/event-stream')
    response.write(one + two.slice(0, 90))
    setTimeout(() => response.end(`${two.slice(90)}data: [DONE]\n\n`), 350)
  })
  return listening(server)
}

/** A provider whose whole answer never ends: a byte of it comes every 20 ms. */
function startDripping() {
  const server = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.write('{"choices":[')
    const drip = setInterval(() => response.write(' '), 20)
    response.on('close', () => clearInterval(drip))
  })
  return listening(server)
}

function listening(server: ReturnType<typeof createServer>) {
  server.listen(0, '127.0.0.1')
  const { port } = server.address() as AddressInfo
  const stop = () => {
    server.close()
    server.closeAllConnections()
  }
  return { url: `http://127.0.0.1:${port}/v1`, stop }
}

/** A port that answers no connection: its process is stopped, and the queue of those who wait is full. */
async function startDeafServer() {
  const source = `Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } }).port`
  const child = Bun.spawn([process.execPath, '-e', `console.log(${source})`], {
    stdout: 'pipe',
    stderr: 'ignore',
  })
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value).trim())
  child.kill('SIGSTOP')
  let waiting = 0
  const socket = { data: () => undefined, open: () => void (waiting += 1), error: () => undefined }
  for (let full = false; !full;) {
    const before = waiting
    for (let at = 0; at < 100; at++)
      Bun.connect({ hostname: '127.0.0.1', port, socket }).catch(() => undefined)
    // A queue with room takes all of them at once.
    full = await until(
      () => waiting,
      (now) => now >= before + 100,
      200,
    ).then(
      () => false,
      () => true,
    )
  }
  return { url: `http://127.0.0.1:${port}/v1`, stop: () => child.kill('SIGKILL') }
}
