// The beginning of a stream is read for what it holds, whatever the provider calls it.

import { Memory } from '../../../src/observe/memory.ts'
import { describe, expect, test } from 'bun:test'
import { PassthroughChannel } from '../../../src/chat/streaming/translate.ts'
import { looksLikeStream, readHead } from '../../../src/chat/upstream/fetch.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { targetOf } from '../../protocols/openai-chat/dialects.ts'
import { completion, manners, someUsage, wholeStream } from '../../support/scripted-provider.ts'

/** A body that comes in these pieces, and what has been read of it. */
async function headOf(...pieces: readonly string[]) {
  const target = targetOf(defaultQuirks)
  const context = { id: 'req_1', model: 'p/m', created: 1, includeUsage: true, warnings: [], extra: {} }
  const stream = outbound.passthrough!.stream(context, { choices: 1, maxEventBytes: 1_000_000 }, target)
  const channel = new PassthroughChannel(stream, context, (of) => inbound.encoder(of))
  const left = [...pieces]
  const reader = {
    readMany: () => {
      const piece = left.shift()
      return piece === undefined ? { done: true } : { done: false, value: [Buffer.from(piece)] }
    },
    onRead: () => undefined,
    cancel: () => Promise.resolve(),
  }
  const { head, ended } = await readHead(reader, channel, (body) => outbound.whole(body, target), {
    scheduler: new Scheduler(),
    memory: new Memory(),
    limits: { answerBytes: 30_000 },
  })
  return { text: Buffer.concat(head).toString('utf8'), ended, left: left.length, progress: channel.progress }
}

describe('the head of a stream', () => {
  test('ends with its first content', async () => {
    const { text, left } = await headOf(manners.start, manners.words, manners.finish)
    expect(text).toContain('The river')
    expect(left).toBe(1)
  })

  test('without content is not read without end', async () => {
    const signs = Array.from({ length: 100 }, () => manners.start)
    expect(await headOf(...signs)).toMatchObject({ left: 0, ended: true })
    await expect(headOf(...signs, ...signs)).rejects.toThrow('no content in 30000 bytes')
  })

  test('is the whole answer of a provider that only called it a stream', async () => {
    const whole = completion('The river runs.', someUsage)
    const { text, ended, progress } = await headOf(whole.slice(0, 40), whole.slice(40))
    expect(text).toContain('"content":"The river runs."')
    expect({ ended, finished: progress.finished, usage: progress.usage }).toMatchObject({
      ended: true,
      finished: true,
      usage: { input: 12, output: 4 },
    })
  })

  test.each([
    ['{"error":{"message":"x","code":"rate_limit_exceeded"}}', 'rate-limited'],
    [
      '{"detail":[{"loc":["body","n"],"msg":"too long: this model\'s context length is only 5"}]}',
      'context-length',
    ],
    ['<html>Bad gateway</html>', 'cut'],
    ['', 'cut'],
    ['[1]', 'cut'],
  ] as const)('of %s is a fault: %s', async (body, kind) => {
    const { progress, text } = await headOf(body)
    expect(progress.fault?.kind).toBe(kind)
    expect(text).toBe('')
  })
})

test.each([
  [wholeStream, true],
  [`: ping\n\n${wholeStream}`, true],
  ['\nevent: message\ndata: {}\n\n', true],
  ['{"done":false}\n{"done":true}\n', true],
  ['{"done":true}\n', false],
  ['{\n  "choices": []\n}', false],
  [completion('data: x', someUsage), false],
  ['[]', false],
  ['', false],
])('%j looks like a stream: %p', (body, expected) => expect(looksLikeStream(body)).toBe(expected))
