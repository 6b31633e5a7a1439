// A provider's bytes become events, and events become the client's bytes: in one channel, or in parts that are joined
// otherwise.

import { describe, expect, test } from 'bun:test'
import { atOnce } from '../../../src/json/json.ts'
import {
  AnswerSink,
  AnswerSource,
  EventChannel,
  TranslateChannel,
} from '../../../src/chat/streaming/translate.ts'
import type { ContentEvent } from '../../../src/conversation/delivered.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { GatewayError, renderError } from '../../../src/errors/errors.ts'
import { frameDecoder } from '../../../src/protocols/framing/decoder.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import type { Bill } from '../../../src/protocols/protocol.ts'
import { targetOf } from '../../protocols/openai-chat/dialects.ts'
import { delta, done, event, manners, wholeStream } from '../../support/scripted-provider.ts'

const bill: Bill = {
  cost: '0.5',
  lines: { input: '0.5', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
}
const usage = { ...noUsage, input: 12, output: 4 }

const context = () => ({
  id: 'req_1',
  model: 'a/m',
  created: 1,
  includeUsage: true,
  warnings: [],
  extra: {},
})

function sourceParts() {
  const signatures: string[] = []
  return {
    signatures,
    decoder: frameDecoder('sse', 10_000),
    parser: outbound.parser(targetOf(defaultQuirks)),
    onSignature: ({ id, name }: { id: string; name: string }, signature: string) =>
      void signatures.push(`${id} ${name} ${signature}`),
  }
}

function channel() {
  const of = context()
  return new TranslateChannel({ ...sourceParts(), encoder: inbound.encoder(of), extra: of.extra })
}

const textOf = (pieces: readonly Uint8Array[]) => Buffer.concat(pieces).toString('utf8')
const finishes = (text: string) =>
  [...text.matchAll(/"finish_reason":"([a-z_]+)"/g)].map(([, reason]) => reason)

describe('a translated stream', () => {
  test('says the same however its bytes are cut', () => {
    const said = [1, 7, wholeStream.length].map((size) => {
      const one = channel()
      let text = ''
      for (let at = 0; at < wholeStream.length; at += size)
        text += textOf(atOnce(one.push(Buffer.from(wholeStream.slice(at, at + size)))))
      text += textOf(one.end())
      expect(one.progress).toMatchObject({ finished: true, usage: { input: 12, output: 4 } })
      return text + textOf(atOnce(one.finish(usage, bill, undefined)))
    })
    expect(said[0]).toContain('runs.')
    expect(new Set(said).size).toBe(1)
  })

  test('that breaks off is a fault, and nothing is invented', () => {
    const one = channel()
    const text = textOf(atOnce(one.push(Buffer.from(manners.start + manners.words)))) + textOf(one.end())
    expect(one.progress).toMatchObject({ started: true, finished: false, fault: { kind: 'cut' } })
    expect(finishes(text)).toEqual([])
    const error = renderError(new GatewayError('upstream_error'), 'req_1')
    expect(textOf(atOnce(one.fail(error)))).toContain('"upstream_error"')
  })

  test('that cannot be read is a fault, and what came before it is kept', () => {
    const one = channel()
    expect(textOf(atOnce(one.push(Buffer.from(manners.start + manners.words))))).toContain('The river')
    atOnce(one.push(Buffer.from(`data: ${'x'.repeat(20_000)}`)))
    expect(one.progress.fault).toMatchObject({ kind: 'too-large' })
    expect(one.progress.delivered.any).toBe(true)
  })

  test('that the gateway stops ends each open choice for its length, and says what stopped it', () => {
    const one = channel()
    atOnce(
      one.take([
        { kind: 'text-delta', choice: 0, text: 'a' },
        { kind: 'text-delta', choice: 1, text: 'b' },
        { kind: 'choice-finish', choice: 1, reason: 'stop', native: 'stop' },
      ]),
    )
    const text = textOf(atOnce(one.finish(usage, bill, 'max_cost')))
    expect(finishes(text)).toEqual(['length', 'stop'])
    expect(text).toContain('"stopped_by":"max_cost"')
  })
})

describe('a source', () => {
  test('gives the content in its order, and takes nothing after the end', () => {
    const events: ContentEvent[] = []
    const source = new AnswerSource(sourceParts(), { event: (one) => void events.push(one) })
    atOnce(source.push(Buffer.from(wholeStream + manners.words)))
    source.end()
    expect(events.flatMap((one) => (one.kind === 'text-delta' ? one.text : []))).toEqual([
      'The river ',
      'runs.',
    ])
    expect(events.at(-1)).toMatchObject({ kind: 'choice-finish', reason: 'stop' })
    expect(source.progress).toMatchObject({ upstreamId: 'chatcmpl-scripted', finishReason: 'stop' })
  })

  test('reports each thought signature of a tool call, for clients that drop it', () => {
    const parts = sourceParts()
    const call = {
      index: 0,
      id: 'call_a',
      type: 'function',
      function: { name: 'look', arguments: '{}' },
      extra_content: { google: { thought_signature: 'sig' } },
    }
    atOnce(
      new AnswerSource(parts, { event: () => undefined }).push(Buffer.from(delta({ tool_calls: [call] }))),
    )
    expect(parts.signatures).toEqual(['call_a look sig'])
  })

  test('in a channel of its own leaves the writing to whoever takes the events', () => {
    const sink = new AnswerSink(inbound.encoder(context()), {})
    const one = new EventChannel(sourceParts(), (content) => sink.event(content))
    expect([...atOnce(one.push(Buffer.from(wholeStream))), ...one.end(), ...atOnce(one.finish())]).toEqual([])
    expect(one.progress.finished).toBe(true)
    expect(textOf(atOnce(sink.takeWritten()))).toContain('The river')
    expect(atOnce(sink.takeWritten())).toEqual([])
  })
})

test('an error inside a stream ends it', () => {
  const one = channel()
  const error = event({ error: { message: 'no more', code: 'rate_limit_exceeded' } })
  atOnce(one.push(Buffer.from(manners.start + error + done)))
  expect(one.progress).toMatchObject({ finished: false, fault: { kind: 'rate-limited' } })
})
