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
import type { StreamChannel } from '../../../src/chat/streaming/translate.ts'
import type { Progress } from '../../../src/conversation/progress.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { Delivered } from '../../../src/conversation/delivered.ts'
import { noUsage } from '../../../src/conversation/usage.ts'

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
  const sent = await body.getReader().readMany()
  expect(sent.value!.length).toBeGreaterThan(6)
  expect(sent.value).not.toContainEqual(keepalive)
})

test('a provider that sends on after its answer does not put off the end of it', async () => {
  const { endings, pass } = running(1, 1_000, new Buffered(1e9), moreEachTurn)
  await pass(0)
  expect(endings).toEqual([])
  for (let tick = 0; tick < 4; tick++) await pass(300)
  expect(endings).toEqual(['finished'])
})
