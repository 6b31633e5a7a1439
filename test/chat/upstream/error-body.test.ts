// Why a provider refused a request, however much it writes about it: its status decides, and its code is found.

import { describe, expect, test } from 'bun:test'
import { completeJson, ErrorText, errorText } from '../../../src/chat/upstream/upstream-request.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'

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
  const text = await errorText(new Response(body, { status: 400 }), new Scheduler())
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
  const text = await errorText(new Response(body, { status: 400 }), new Scheduler())
  expect(text.length).toBeLessThanOrEqual(65_536)
  expect(sent).toBeLessThan(20_000_000)
})
