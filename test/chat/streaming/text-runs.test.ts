// Events that differ only in their text are translated without parsing them: the client's bytes are the same.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { TranslateChannel } from '../../../src/chat/streaming/translate.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { atOnce } from '../../../src/json/json.ts'
import { inbound as messages } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { outbound as anthropic } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { outbound as cohere } from '../../../src/protocols/cohere/cohere.ts'
import { SseDecoder } from '../../../src/protocols/framing/sse.ts'
import { outbound as gemini } from '../../../src/protocols/gemini/outbound/outbound.ts'
import { inbound as chat } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound as openai } from '../../../src/protocols/openai-chat/outbound/lower.ts'
import { defaultQuirks } from '../../../src/protocols/openai-chat/outbound/quirks.ts'
import { CompletionEncoder } from '../../../src/protocols/openai-completions/inbound.ts'
import type { AnswerContext, Bill, StreamEncoder, StreamParser } from '../../../src/protocols/protocol.ts'
import { targetOf } from '../../protocols/openai-chat/dialects.ts'

const bill: Bill = {
  cost: '0.5',
  lines: { input: '0.5', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
}

/** What a stream may consist of. `json` may be written in an unusual way, as other encoders do. */
type Piece =
  | { readonly kind: 'text' | 'thinking'; readonly json: string; readonly choice: number }
  | { readonly kind: 'call' | 'comment' | 'usage' }

const chatFrame = (choice: number, fields: string, more = '') =>
  `data: {"id":"c1","model":"m","choices":[{"index":${choice},"delta":{${fields}},"finish_reason":null}]${more}}\n\n`

function chatStream(pieces: readonly Piece[]): string {
  const frames = pieces.map((piece) => {
    switch (piece.kind) {
      case 'text':
        return chatFrame(piece.choice, `"content":${piece.json}`)
      case 'thinking':
        return chatFrame(piece.choice, `"reasoning_content":${piece.json}`)
      case 'call':
        return chatFrame(0, '"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]')
      case 'usage':
        return chatFrame(0, '"content":"x"', ',"usage":{"prompt_tokens":1,"completion_tokens":2}')
      case 'comment':
        return ': still here\n\n'
    }
  })
  const end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
  return frames.join('') + end
}

/** Anthropic hides the length of a text behind spaces. */
const padding = (text: string) => ' '.repeat((text.length * 7) % 5)
const named = (type: string, fields: string) =>
  `event: ${type}\ndata: {"type":"${type}"${fields}${padding(fields)}}\n\n`

function anthropicStream(pieces: readonly Piece[]): string {
  const start = named('message_start', ',"message":{"id":"m1","model":"m","usage":{"input_tokens":3}}')
  const opened = (index: number, block: string) =>
    named('content_block_start', `,"index":${index},"content_block":${block}`)
  const closed = (index: number) => named('content_block_stop', `,"index":${index}`)
  const delta = (index: number, fields: string) =>
    named('content_block_delta', `,"index":${index},"delta":{${fields}}`)
  const blocks = pieces.map((piece, at) => {
    switch (piece.kind) {
      case 'text': {
        const one = delta(at, `"type":"text_delta","text":${piece.json}`)
        const other = delta(at, '"type":"text_delta","text":"another"')
        return opened(at, '{"type":"text","text":""}') + (one + other).repeat(2) + closed(at)
      }
      case 'thinking': {
        const one = delta(at, `"type":"thinking_delta","thinking":${piece.json}`)
        return opened(at, '{"type":"thinking","thinking":"","signature":""}') + one + closed(at)
      }
      case 'call':
        return opened(at, `{"type":"tool_use","id":"t${at}","name":"f","input":{}}`) + closed(at)
      case 'usage':
        return named('message_delta', ',"delta":{},"usage":{"output_tokens":2}')
      case 'comment':
        return named('ping', '')
    }
  })
  const end = named('message_delta', ',"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}')
  return start + blocks.join('') + end + named('message_stop', '')
}

/** Google counts with every chunk. Some chunks repeat the last count, correct it, or bring no count. */
function geminiStream(
  pieces: readonly Piece[],
  { spaces, lines }: { spaces: string; lines: string },
): string {
  let counted = 0
  const line = (json: string) =>
    `data: ${json.replaceAll(/"(text|index|\w+Count|parts|candidates|content)":/g, `"$1":${spaces}`)}${lines}${lines}`
  const chunk = (parts: string, choice: number, by: number, more = '') => {
    counted = Math.max(0, counted + by)
    const detail = counted % 7 === 6 ? ',"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":2}]' : ''
    const usage = `,"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":${counted},"totalTokenCount":${counted + 9}${detail}}`
    return line(
      `{"candidates":[{"content":{"parts":[${parts}],"role":"model"},"index":${choice}${more}}]${by === 4 ? '' : usage},"responseId":"r1"}`,
    )
  }
  const chunks = pieces.map((piece) => {
    switch (piece.kind) {
      case 'text': {
        const by = [1, 2, 1, 0, 1, -3, 4, 1][piece.json.length % 8]!
        const one = (more?: string) => chunk(`{"text":${piece.json}}`, piece.choice, by, more)
        return one() + one() + (by === 2 ? one(',"finishReason":"STOP"') : one())
      }
      case 'thinking':
        return chunk(`{"text":${piece.json},"thought":true}`, piece.choice, 1)
      case 'call':
        return chunk('{"functionCall":{"name":"f","args":{}}}', 0, 1)
      case 'usage': {
        const uri = '"groundingChunks":[{"web":{"uri":"https://a","title":"a"}}]'
        const support = '"groundingSupports":[{"segment":{"endIndex":1},"groundingChunkIndices":[0]}]'
        const sources = `,"groundingMetadata":{"webSearchQueries":["a"],${uri},${support}}`
        return chunk('{"text":"x"}', 0, 1, sources).repeat(2)
      }
      case 'comment':
        return `: still here${lines}${lines}`
    }
  })
  const end = (choice: number) => chunk('{"text":""}', choice, 1, ',"finishReason":"STOP"')
  return chunks.join('') + end(0) + end(1)
}

function cohereStream(pieces: readonly Piece[]): string {
  const event = (type: string, fields = '') => `event: ${type}\ndata: {"type":"${type}"${fields}}\n\n`
  const message = (json: string, index = 0) => `,"index":${index},"delta":{"message":{${json}}}`
  const events = pieces.map((piece, at) => {
    switch (piece.kind) {
      case 'text':
        return event('content-delta', message(`"content":{"text":${piece.json}}`, piece.choice))
      case 'thinking':
        return event('content-delta', message(`"content":{"thinking":${piece.json}}`))
      case 'call': {
        const call = `"tool_calls":{"id":"t${at}","function":{"name":"f","arguments":"{}"}}`
        return event('tool-call-start', message(call, at))
      }
      case 'usage':
        return event('content-start', message('"content":{"type":"text","text":""}'))
      case 'comment':
        return event('content-end')
    }
  })
  const usage = '"usage":{"tokens":{"input_tokens":9,"output_tokens":9}}'
  const end = event('message-end', `,"delta":{"finish_reason":"COMPLETE",${usage}}`)
  return event('message-start', ',"id":"c1"') + events.join('') + end
}

const geminiParser = () => gemini.parser({ ...targetOf(defaultQuirks), quirks: gemini.defaultQuirks })

const providers = {
  'chat completions': { stream: chatStream, parser: () => openai.parser(targetOf(defaultQuirks)) },
  'chat completions that may think in tags': {
    stream: chatStream,
    parser: () => openai.parser(targetOf({ ...defaultQuirks, thinkTags: true })),
  },
  'chat completions with sources': {
    stream: chatStream,
    parser: () => openai.parser(targetOf({ ...defaultQuirks, numberedCitations: true })),
  },
  anthropic: {
    stream: anthropicStream,
    parser: () => anthropic.parser({ ...targetOf(defaultQuirks), quirks: anthropic.defaultQuirks }),
  },
  gemini: {
    stream: (pieces: readonly Piece[]) => geminiStream(pieces, { spaces: '', lines: '\n' }),
    parser: geminiParser,
  },
  "gemini as Google's servers write it": {
    stream: (pieces: readonly Piece[]) => geminiStream(pieces, { spaces: ' ', lines: '\r\n' }),
    parser: geminiParser,
  },
  cohere: {
    stream: cohereStream,
    parser: () => cohere.parser({ ...targetOf(defaultQuirks), quirks: cohere.defaultQuirks }),
  },
}

type Encoder = (context: AnswerContext) => StreamEncoder

const toChat: Encoder = (context) => chat.encoder(context)
const toMessages: Encoder = (context) => messages.encoder(context)

function answer(parser: StreamParser, encoder: Encoder, stream: string, cuts: readonly number[]) {
  const context = { id: 'req_1', model: 'a/m', created: 1, includeUsage: true, warnings: [], extra: {} }
  const channel = new TranslateChannel({
    decoder: new SseDecoder(),
    parser,
    onSignature: () => undefined,
    encoder: encoder(context),
    extra: context.extra,
  })
  const bytes = Buffer.from(stream)
  const made: Uint8Array[] = []
  let at = 0
  for (const cut of [...cuts.map((each) => each % bytes.length).toSorted((a, b) => a - b), bytes.length]) {
    made.push(...atOnce(channel.push(bytes.subarray(at, cut))))
    at = cut
  }
  made.push(...channel.end())
  const { finished, started, fault, delivered, finishReason, usage } = channel.progress
  made.push(...atOnce(channel.finish(noUsage, bill, undefined)))
  return {
    text: Buffer.concat(made)
      .toString('utf8')
      .replaceAll(/(rs|msg)_[0-9a-f]{8,}/g, 'id'),
    progress: {
      finished,
      started,
      fault,
      finishReason,
      usage,
      tokens: delivered.tokens,
      samples: delivered.samples('start'),
      uncounted: delivered.samples('count'),
    },
  }
}

const written = fc.oneof(
  fc.constantFrom(
    '"word "',
    '" one"',
    '"\\n\\n"',
    '"\\u00e9\\/"',
    '"\\ud83d"',
    '"\\ude00"',
    '"a \\"b\\" \\\\"',
    '""',
    '"é 河"',
  ),
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text)),
)
const piece: fc.Arbitrary<Piece> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('text' as const),
      json: written,
      choice: fc.constantFrom(0, 0, 0, 1),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('thinking' as const), json: written, choice: fc.constant(0) }),
  },
  { weight: 2, arbitrary: fc.constantFrom<Piece>({ kind: 'call' }, { kind: 'comment' }, { kind: 'usage' }) },
)

describe.each(Object.entries(providers))('an answer of %s', (_, { stream, parser }) => {
  test.each([
    ['chat completions', toChat],
    ['messages', toMessages],
    ['completions', (context) => new CompletionEncoder(context)],
  ] satisfies [string, Encoder][])(
    'reads the same in %s whether its texts were parsed or not',
    (_, encoder) => {
      fc.assert(
        fc.property(
          fc.array(piece, { minLength: 1, maxLength: 25 }),
          fc.array(fc.nat(20_000), { maxLength: 6 }),
          (pieces, cuts) => {
            const text = stream(pieces)
            const parsing = parser()
            const parsed = answer(
              { push: (frame) => parsing.push(frame), end: () => parsing.end() },
              encoder,
              text,
              cuts,
            )
            expect(answer(parser(), encoder, text, cuts)).toEqual(parsed)
          },
        ),
        { numRuns: 60 },
      )
    },
  )

  test('breaks off at texts that are not JSON, after what came before them', () => {
    // Some protocols leave a few of them out.
    const texts = ['"a"', '"b"', '"c"', '"c"', '"c"', '"c"']
    const bad = stream(texts.map((json) => ({ kind: 'text', json, choice: 0 })))
    for (const broken of ['"c\\q"', '"\t"']) {
      const text = bad.replaceAll('"c"', broken)
      const parsing = parser()
      const parsed = answer(
        { push: (frame) => parsing.push(frame), end: () => parsing.end() },
        toChat,
        text,
        [],
      )
      expect(parsed.progress.fault).toBeDefined()
      expect(answer(parser(), toChat, text, [])).toEqual(parsed)
    }
  })
})

/** How many frames of an answer are parsed; the client gets `times` times the text. */
function parsedFrames(parser: StreamParser, stream: string, times: number): number {
  let pushed = 0
  const counting: StreamParser = {
    push: (frame) => ((pushed += 1), parser.push(frame)),
    end: () => parser.end(),
    texts: (received, at) => parser.texts?.(received, at),
  }
  const { text } = answer(counting, toMessages, stream, [])
  expect(text.match(/"text":"word \\n"/g)).toHaveLength(times)
  return pushed
}

test('texts in a row are not parsed', () => {
  const words = (count: number): Piece[] =>
    Array.from({ length: count }, () => ({ kind: 'text', json: '"word \\n"', choice: 0 }))
  // The first two texts, between which the stream begins, the finish and [DONE].
  expect(parsedFrames(openai.parser(targetOf(defaultQuirks)), chatStream(words(100)), 100)).toBe(4)
})

test("texts of Google's servers are not parsed although every chunk counts", () => {
  const chunk = (text: string, counted: number, more = '') =>
    `data: {"candidates": [{"content": {"parts": [{"text": "${text}"}],"role": "model"}${more},"index": 0}],` +
    `"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": ${counted},"totalTokenCount": ${counted + 9},` +
    '"promptTokensDetails": [{"modality": "TEXT","tokenCount": 9}]},"responseId": "r1"}\r\n\r\n'
  const chunks = Array.from({ length: 100 }, (_, at) => chunk('word \\n', at + 1))
  // The first two texts, and the finish.
  const stream = [...chunks, chunk('', 101, ',"finishReason": "STOP"')].join('')
  expect(parsedFrames(geminiParser(), stream, 100)).toBe(3)
})
