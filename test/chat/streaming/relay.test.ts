// What waits for a client is bounded, and a client that reads slowly is waited for as long as it reads.

import { Memory } from '../../../src/observe/memory.ts'
import { describe, expect, test } from 'bun:test'
import {
  Buffered,
  type OpenStream,
  type Read,
  relay,
  type RelayOptions,
  Watchdog,
} from '../../../src/chat/streaming/relay.ts'
import { type StreamChannel, TranslateChannel } from '../../../src/chat/streaming/translate.ts'
import { Delivered, type Progress } from '../../../src/conversation/delivered.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { noUsage, completionTokens, promptTokens, tokenBuckets } from '../../../src/conversation/usage.ts'
import { stillClock, envelope, price } from '../support.ts'
import { atOnce } from '../../../src/json/json.ts'
import { chargeOf } from '../../../src/chat/billing/charge.ts'
import { promptOf } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { frameDecoder } from '../../../src/protocols/framing/decoder.ts'
import { roughCount } from '../../../src/chat/counting/token-counter.ts'
import type { StreamEncoder } from '../../../src/protocols/protocol.ts'
import { type Frame, maxFrameCharacters } from '../../../src/protocols/framing/sse.ts'
import { recordedHosts, spokenBy } from '../../protocols/recorded-hosts.ts'
import { type Case, cases } from '../../support/recordings.ts'

const clientStallMs = 1_000
const chunk = new Uint8Array(10)
const keepalive = new Uint8Array([58])

/**
 * A provider that has all of its chunks at once, a relay that lets `bufferBytes` wait, and the clock of its deadlines.
 * `afterwards`: what reads get once the answer is finished. `said`: what the client gets for each of them.
 */
function running(
  chunks: number,
  bufferBytes: number,
  buffered = new Buffered(1e9),
  afterwards: (stop: AbortSignal) => Read | Promise<Read> = () => ({ done: true }),
  said: (bytes: Uint8Array) => Uint8Array[] = (bytes) => [bytes],
  keepaliveMs = 1e9,
) {
  let now = 0
  let read = 0
  const abort = new AbortController()
  const progress: Progress = {
    started: true,
    get finished() {
      return read === chunks
    },
    fault: undefined,
    usage: undefined,
    delivered: new Delivered(),
    finishReason: 'stop',
    upstreamId: undefined,
  }
  const channel: StreamChannel = {
    progress,
    *push(bytes) {
      yield
      return said(bytes)
    },
    end: () => [],
    *take() {
      yield
      return []
    },
    *finish() {
      yield
      return [new Uint8Array(1)]
    },
    *fail() {
      yield
      return [new Uint8Array(2)]
    },
  }
  const open: OpenStream = {
    channel,
    reader: {
      readMany: () =>
        read === chunks ? afterwards(abort.signal) : (read++, { done: false, value: [chunk] }),
      onRead: () => undefined,
      cancel: () => Promise.resolve(),
    },
    head: [],
    ended: false,
    read: () => undefined,
    pausing: () => undefined,
    abort: () => abort.abort(),
  }
  const endings: string[] = []
  const watchdog = new Watchdog(() => now)
  const never = new AbortController().signal
  const limits = {
    totalMs: 1e9,
    gapMs: 1e9,
    keepaliveMs,
    drainMs: 1e9,
    clientStallMs,
    bufferBytes,
    streamBytes: 1e9,
  }
  const bill = {
    cost: '0',
    lines: { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
  }
  const body = relay(open, {
    requestId: 'req_1',
    account: 'a',
    publicUrl: '',
    provider: 'p',
    keepalive,
    limits: limits as RelayOptions['limits'],
    watchdog,
    scheduler: new Scheduler(),
    memory: new Memory(),
    buffered,
    elapsedMs: 0,
    attempts: () => [],
    disconnect: never,
    stopping: never,
    redact: (text) => text,
    onDisconnect: 'cancel',
    settle: async ({ ending }, make) => {
      endings.push(ending)
      await make({ usage: noUsage, bill, stoppedBy: undefined })
    },
    keeper: undefined,
    kept: undefined,
    onProgress: () => undefined,
  })
  return {
    body,
    endings,
    chunksRead: () => read,
    aborted: () => abort.signal.aborted,
    /** Lets time pass, and whatever it sets off happen. */
    pass: async (ms: number) => {
      now += ms
      watchdog.look()
      // On a machine that has stopped this process for a while, the scheduler puts work off by an iteration or two.
      for (let iteration = 0; iteration < 10; iteration++)
        await new Promise((resolve) => setImmediate(resolve))
    },
  }
}

describe('a client that does not keep up', () => {
  test('has so much waiting for it and no more', async () => {
    const { chunksRead, pass, body } = running(100, 50)
    await pass(0)
    expect(chunksRead()).toBe(5)
    await body.cancel()
  })

  test('is given up when it takes nothing for too long, and the provider is let go', async () => {
    const { body, endings, aborted, pass } = running(100, 50)
    await pass(0)
    await pass(clientStallMs)
    await pass(0)
    expect(endings).toEqual(['client-gone'])
    expect(aborted()).toBe(true)
    await expect(body.getReader().read()).rejects.toThrow('too long')
  })

  test('gets all of it as long as it takes something now and then', async () => {
    const { body, endings, pass } = running(20, 50)
    await pass(0)
    const reader = body.getReader()
    let bytes = 0
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      bytes += value.length
      await pass(clientStallMs - 1)
    }
    expect(bytes).toBe(201)
    expect(endings).toEqual(['finished'])
  })

  test('has an equal share of what all may leave unread, where many do', async () => {
    const buffered = new Buffered(400)
    const stalled = Array.from({ length: 10 }, () => running(1_000, 1_000, buffered))
    for (const { pass } of stalled) await pass(0)
    // Beyond the bound each may have the one chunk that it was allowed while it had nothing.
    expect(buffered.bytes).toBeLessThanOrEqual(400 + 10 * 10)
    expect(stalled.map(({ chunksRead }) => chunksRead()).every((read) => read >= 1)).toBe(true)
    // A client that reads is not held up by those that do not.
    const { body, endings, pass } = running(50, 1_000, buffered)
    await pass(0)
    const reader = body.getReader()
    while (!(await reader.read()).done);
    expect(endings).toEqual(['finished'])
    expect(stalled.every((one) => one.endings.length === 0)).toBe(true)
  })
})

const moreEachTurn = (stop: AbortSignal) =>
  new Promise<Read>((resolve, reject) => {
    stop.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
    setImmediate(() => resolve({ done: false, value: [chunk] }))
  })

// Clients of Gemini get nothing of a call before all its arguments are there.
test('a client that gets nothing of what the provider sends is sent signs of life', async () => {
  const { body, pass } = running(1, 1e6, new Buffered(1e9), moreEachTurn, () => [], 100)
  await pass(0)
  for (let tick = 0; tick < 3; tick++) await pass(60)
  const reader = body.getReader()
  expect((await reader.read()).value).toEqual(keepalive)
  await reader.cancel()
})

test('a client that gets something is sent no other signs of life', async () => {
  const { body, pass } = running(1, 1e6, new Buffered(1e9), moreEachTurn, (bytes) => [bytes], 100)
  await pass(0)
  for (let tick = 0; tick < 6; tick++) await pass(60)
  const reader = body.getReader()
  const sent = await reader.readMany()
  expect(sent.value!.length).toBeGreaterThan(6)
  expect(sent.value).not.toContainEqual(keepalive)
  // The provider sends for as long as somebody reads, and would beside all tests that follow.
  await reader.cancel()
})

test('a provider that sends on after its answer does not put off the end of it', async () => {
  const { endings, pass } = running(1, 1_000, new Buffered(1e9), moreEachTurn)
  await pass(0)
  expect(endings).toEqual([])
  for (let tick = 0; tick < 4; tick++) await pass(300)
  expect(endings).toEqual(['finished'])
})

// Deadlines fire once, when they are due, on a clock that the test moves.

function setUp() {
  const clock = stillClock(0)
  const watchdog = new Watchdog(clock)
  const fired: string[] = []
  const arm = (name: string, ms: number) => watchdog.arm(ms, () => fired.push(name))
  const pass = (ms: number) => {
    clock.pass(ms)
    watchdog.look()
    return fired
  }
  return { watchdog, fired, arm, pass }
}

test('a deadline fires when it is due, once', () => {
  const { arm, pass } = setUp()
  arm('a', 100)
  expect(pass(99)).toEqual([])
  expect(pass(1)).toEqual(['a'])
  expect(pass(1_000)).toEqual(['a'])
})

test('one that is extended counts from then', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  pass(90)
  deadline.extend(100)
  expect(pass(90)).toEqual([])
  expect(pass(10)).toEqual(['a'])
})

test('one that is paused does not fire, and counts from when it is extended', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  deadline.pause()
  expect(pass(1_000)).toEqual([])
  deadline.extend(100)
  expect(pass(99)).toEqual([])
  expect(pass(1)).toEqual(['a'])
})

test('one that is cleared never fires, unless it is extended again', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 100)
  deadline.clear()
  expect(pass(1_000)).toEqual([])
  deadline.extend(50)
  expect(pass(50)).toEqual(['a'])
})

test('one may put itself off again when it fires, as the keep-alive does', () => {
  const { watchdog, pass, fired } = setUp()
  const silence = watchdog.arm(100, () => {
    fired.push('tick')
    silence.extend(100)
  })
  for (let at = 0; at < 5; at++) pass(100)
  expect(fired).toHaveLength(5)
  silence.clear()
})

test('many fire each in its time', () => {
  const { arm, pass } = setUp()
  arm('late', 300)
  arm('soon', 100)
  const cleared = arm('never', 150)
  cleared.clear()
  expect(pass(100)).toEqual(['soon'])
  expect(pass(200)).toEqual(['soon', 'late'])
})

test('one that is due in ten minutes fires in its time, and not before', () => {
  const { arm, pass, fired } = setUp()
  arm('far', 600_000)
  for (let at = 1; at < 600; at++) pass(1_000)
  expect(fired).toEqual([])
  expect(pass(1_000)).toEqual(['far'])
})

test('one that is put off and then drawn nearer fires when it is due', () => {
  const { arm, pass } = setUp()
  const deadline = arm('a', 1_000)
  deadline.extend(60_000)
  deadline.extend(200)
  expect(pass(199)).toEqual([])
  expect(pass(1)).toEqual(['a'])
})

test('one that was due already fires at the next look, also where the process stood still', () => {
  const { arm, pass } = setUp()
  pass(10_000)
  arm('past', -5_000)
  expect(pass(0)).toEqual(['past'])
  arm('slept over', 100)
  arm('not yet', 3_700_000)
  expect(pass(3_600_000)).toEqual(['past', 'slept over'])
})

// Recorded streams that break off: every count that came is charged as it came, and the rest is never below it.

const silent: StreamEncoder = { start: () => [], event: () => [], finish: () => [], fail: () => [] }

/** What is known after each frame of a recorded stream. */
function progressAfter(host: (typeof recordedHosts)[number], recorded: Case) {
  const { outbound, target } = spokenBy(host, recorded)
  const framing = frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, maxFrameCharacters)
  const frames = [...framing.push(recorded.stream()), ...framing.end()]
  const next: Frame[] = []
  const channel = new TranslateChannel({
    decoder: { push: () => next.splice(0), end: () => [] },
    parser: outbound.parser(target),
    encoder: silent,
    extra: {},
    onSignature: () => undefined,
  })
  return {
    frames,
    push: (frame: Frame): Progress => {
      next.push(frame)
      atOnce(channel.push(new Uint8Array()))
      return channel.progress
    },
  }
}

const cut = ({ usage, delivered }: Progress, recorded: Case) => {
  const body = recorded.request ?? { messages: [] }
  const call = {
    request: { envelope, body, promptParts: promptOf(body) },
    bodyBytes: JSON.stringify(body).length,
  }
  const answered = { usage, complete: false, delivered }
  return chargeOf(answered, roughCount(call, answered), price, 'rates').usage
}

for (const host of recordedHosts) {
  const streams = cases(host.folder).filter(
    ({ streamed, status, stream }) => streamed && status === 200 && stream()[0] !== '['.charCodeAt(0),
  )
  if (streams.length === 0) continue
  test(`of ${host.folder}, cut after any frame`, () => {
    for (const recorded of streams) {
      const { frames, push } = progressAfter(host, recorded)
      let counted = 0
      let tokens = 0
      for (const frame of frames) {
        const progress = push(frame)
        if (progress.fault !== undefined) break
        const charged = cut(progress, recorded)
        const { usage } = progress
        const grown = completionTokens(usage ?? noUsage) > counted
        // What was delivered once is not forgotten.
        if (!grown) expect(completionTokens(charged)).toBeGreaterThanOrEqual(tokens)
        tokens = completionTokens(charged)
        if (usage === undefined) continue
        if (promptTokens(usage) > 0) expect(promptTokens(charged)).toBe(promptTokens(usage))
        for (const bucket of tokenBuckets) expect(charged[bucket]).toBeGreaterThanOrEqual(usage[bucket])
        if (!grown) continue
        counted = completionTokens(usage)
        // A count covers what came with it; one that comes before any output is of its first tokens.
        if (progress.delivered.any) expect(completionTokens(charged)).toBe(counted)
      }
    }
  })
}
