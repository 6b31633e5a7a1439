import { expect, test, describe } from 'bun:test'
import { heapSize } from 'bun:jsc'
import { candidatesFor } from '../../../src/chat/routing/candidates.ts'
import { completeJson, ErrorText, errorText } from '../../../src/chat/upstream/error-text.ts'
import { openStream } from '../../../src/chat/upstream/fetch.ts'
import { openStore } from '../../../src/store/open.ts'
import { delta } from '../../support/scripted-provider.ts'
import { tempDir } from '../../support/tmp.ts'
import { callOf, partsOf } from '../parts.ts'
import { providerOf } from '../support.ts'
import { boundedText, parsedAnswer, readWhole } from '../../../src/chat/upstream/upstream-request.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import type { BodyReader } from '../../../src/chat/streaming/relay.ts'
import { AttemptFailed } from '../../../src/chat/routing/fault-error.ts'

const readerOf = (body: ReadableStream<Uint8Array>) => body.getReader() as unknown as BodyReader

test('open streams do not keep the texts of their requests', async () => {
  using dir = tempDir()
  const store = await openStore(dir.path, { clock: Date.now })
  // One that keeps nothing of a request itself, as it is in the same heap.
  const upstream = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      await request.arrayBuffer()
      const started = delta({ role: 'assistant', content: 'All of them.' })
      const body = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from(started)) })
      return new Response(body, { headers: { 'content-type': 'text/event-stream' } })
    },
  })
  const parts = partsOf(store, [providerOf('a', { baseUrl: `http://127.0.0.1:${upstream.port}/v1` })])
  const content = 'Which rivers run to the sea? '.repeat(50_000)
  const rounds = Array.from({ length: 8 }, () => {
    const call = callOf({ model: 'a/m', stream: true, messages: [{ role: 'user', content }] })
    const { routing } = call.request.envelope
    const candidates = candidatesFor([parts.catalog.resolve('a/m')], parts.providers, routing, '', 1)
    return { call, candidates, warnings: [] }
  })
  const before = await alive()
  const opened = []
  for (const round of rounds)
    opened.push(
      await openStream(
        parts,
        { outputBound: () => undefined, warningsFor: () => [] },
        round.candidates[0]!,
        round,
      ),
    )
  // The collector takes whatever looks like an address on the stack for one: a text or two may outlive their requests.
  expect((await alive()) - before).toBeLessThan((opened.length / 2) * content.length)
  for (const stream of opened) stream.abort()
  await upstream.stop(true)
  await store.close()
})

/** Bytes of the heap after a collection. */
async function alive(): Promise<number> {
  await new Promise((resolve) => setImmediate(resolve))
  Bun.gc(true)
  return heapSize()
}

// What a provider's whole answer may be made of.

const parsed = async (text: string, most?: number) =>
  parsedAnswer(new Response(), text, new Scheduler(), most)
const numbers = (count: number) => `{"data":[${'0,'.repeat(count - 1)}0]}`

describe('a whole answer', () => {
  test('of two million values is read, of more it has failed', async () => {
    expect(await parsed(numbers(1_000_000))).toHaveProperty('data')
    await expect(parsed(numbers(2_100_000))).rejects.toThrow('holds more than 2000000 values')
  })

  test('of vectors may be longer: as many were asked for', async () => {
    expect(await parsed(numbers(2_100_000), Number.POSITIVE_INFINITY)).toHaveProperty('data')
  })

  test('that nests deep has failed, wherever it does', async () => {
    const deep = `{"x":${'['.repeat(5_000)}${']'.repeat(5_000)}}`
    await expect(parsed(deep)).rejects.toThrow('nests deeper than 128 levels')
    const quoted = JSON.stringify({ text: '['.repeat(5_000) })
    expect(await parsed(quoted)).toEqual({ text: '['.repeat(5_000) })
  })

  test('keeps long integers in arguments of calls, and reads numbers elsewhere, however long it is', async () => {
    const big = '1234567890123456789'
    for (const filler of ['', 'x'.repeat(20_000), 'x'.repeat(200_000)]) {
      const text = `{"filler":"${filler}","usage":${big},"calls":[{"input":{"id":${big}}},{"arguments":{"id":${big}}}]}`
      const answer = await parsed(text)
      expect(answer).toHaveProperty('usage', Number(big))
      expect(JSON.stringify(answer)).toBe(text.replace(big, String(Number(big))))
    }
  })

  test('that its protocol cannot read has failed, as a stream then is broken', () => {
    const reading = () =>
      readWhole(() => {
        throw new Error('an answer has more than 1024 tool calls')
      })
    expect(reading).toThrow(AttemptFailed)
    expect(reading).toThrow('more than 1024 tool calls')
  })

  test('is read to its bound and not beyond', async () => {
    const long = 'w'.repeat(200_000)
    expect(await boundedText(new Response(long), 200_000)).toBe(long)
    await expect(boundedText(new Response(long), 199_999)).rejects.toThrow('larger than 199999 bytes')
  })

  test('is read to its bound if it was compressed, however few bytes it had on the wire', async () => {
    const headers = { 'content-encoding': 'br', 'content-length': '657' }
    const unpacked = new Response('w'.repeat(200_000), { headers })
    await expect(boundedText(unpacked, 65_536)).rejects.toThrow('larger than 65536 bytes')
  })
})

// Why a provider refused a request, however much it writes about it: its status decides, and its code is found.

const read = (body: string, piece = 1_000) => {
  const text = new ErrorText()
  const bytes = Buffer.from(body)
  for (let at = 0; at < bytes.length; at += piece) text.take(bytes.subarray(at, at + piece))
  return text.end()
}

const code = 'context_length_exceeded'
const quoted = 'All of the prompt, "again" \\ ü \n'.repeat(20_000)

describe('an error that quotes the request', () => {
  test.each<[string, object, (error: { [name: string]: unknown }) => unknown]>([
    ['in its message, before the code', { error: { message: quoted, code } }, (read) => read['error']],
    [
      'beside its error',
      { input: [quoted, quoted], error: { message: 'too long', code } },
      (read) => read['error'],
    ],
  ])('%s keeps its code', (_, body, errorOf) => {
    for (const piece of [1, 7, 16_384]) {
      const kept = read(JSON.stringify(body), piece)
      expect(kept.length).toBeLessThan(65_537)
      expect(errorOf(JSON.parse(kept) as { [name: string]: unknown })).toMatchObject({ code })
    }
  })

  test('is cut between escapes, whichever they are', () => {
    for (const letters of ['\\n', '\\"', '\\\\', '\\u00fc', 'ü', '"'.replace('"', '\\/')]) {
      for (let shift = 0; shift < 8; shift++) {
        const kept = read(`{"message":"${'x'.repeat(shift)}${letters.repeat(9_000)}","code":"c"}`)
        expect(JSON.parse(kept)).toMatchObject({ code: 'c' })
      }
    }
  })

  test('in thousands of parts keeps the first', () => {
    const detail = Array.from({ length: 5_000 }, (_, n) => ({
      loc: ['messages', n],
      msg: 'wrong',
      type: 'value',
    }))
    const kept = JSON.parse(read(JSON.stringify({ detail }))) as { detail: unknown[] }
    expect(kept.detail.length).toBeGreaterThan(1_000)
    expect(kept.detail[0]).toEqual(detail[0])
  })
})

test.each<[string, string]>([
  ['{"error":{"message":"too lo', '{"error":{"message":"too lo"}}'],
  ['{"error":{"message":"too long","type":', '{"error":{"message":"too long"}}'],
  ['{"error":{"message":"too long","typ', '{"error":{"message":"too long"}}'],
  ['{"error":{"message":"a\\', '{"error":{"message":"a"}}'],
  ['{"error":{"message":"a\\u00f', '{"error":{"message":"a"}}'],
  ['{"error":{"message":"a\\\\', '{"error":{"message":"a\\\\"}}'],
  ['[{"error":{"code":400', '[{"error":{"code":400}}]'],
  ['{"error":{"codes":[1,2', '{"error":{"codes":[1,2]}}'],
  ['{"error":{"ok":tru', '{"error":{"ok":tru'],
  ['{"whole":true}', '{"whole":true}'],
])('what came of %s is completed', (text, whole) => {
  expect(completeJson(text)).toBe(whole)
})

test('what came before a connection broke is read', async () => {
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      controller.enqueue(Buffer.from('{"error":{"message":"too long'))
      controller.error(new Error('reset'))
    },
  })
  const text = await errorText(readerOf(body), new Scheduler())
  expect(['', '{"error":{"message":"too long"}}']).toContain(text)
})

test.each(['x', ' '])('an error without end is given up (%p)', async (letter) => {
  let sent = 0
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      sent += 65_536
      controller.enqueue(Buffer.alloc(65_536, letter))
    },
  })
  const text = await errorText(readerOf(body), new Scheduler())
  expect(text.length).toBeLessThanOrEqual(65_536)
  expect(sent).toBeLessThan(20_000_000)
})
