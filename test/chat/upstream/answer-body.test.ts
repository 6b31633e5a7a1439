// What a provider's whole answer may be made of.

import { describe, expect, test } from 'bun:test'
import { boundedText, parsedAnswer, readWhole } from '../../../src/chat/upstream/upstream-request.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { AttemptFailed } from '../../../src/chat/routing/fault-error.ts'

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
