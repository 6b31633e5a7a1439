// Bounds of a prompt's tokens: never below what a tokenizer counts, and not absurd for media.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import {
  measurePrompt,
  promptBound,
  promptCount,
  promptGuess,
  sampleOf,
  tokenBound,
  TokenCounter,
} from '../../../src/chat/counting/token-counter.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { promptOf as ofMessages } from '../../../src/protocols/anthropic-messages/inbound/inbound.ts'
import { promptOf as ofChat } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { promptOf as ofResponses } from '../../../src/protocols/openai-responses/inbound/inbound.ts'

const bytesOf = (body: JsonObject) => Buffer.byteLength(JSON.stringify(body))
const bodyWith = (content: JsonObject['content']): JsonObject => ({
  model: 'a/m',
  messages: [{ role: 'user', content: content! }],
})
const counting = { counter: new TokenCounter().of('a'), scheduler: new Scheduler() }
const media = 'A'.repeat(1_000_000)

describe('text', () => {
  test('is never bounded below what o200k_base counts, quickly or by counting', async () => {
    const texts = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 600 }),
      fc.string({ unit: 'grapheme', maxLength: 600 }),
      fc.lorem(),
    )
    await fc.assert(
      fc.asyncProperty(texts, async (text) => {
        const body = bodyWith(text)
        const real = countTokens(text)
        expect(promptBound(ofChat(body), bytesOf(body))).toBeGreaterThanOrEqual(real)
        expect(await tokenBound(counting, ofChat(body), bytesOf(body))).toBeGreaterThanOrEqual(real)
      }),
      { numRuns: 150 },
    )
  }, 60_000)

  test('more of it is never bounded lower', async () => {
    await fc.assert(
      fc.asyncProperty(fc.lorem(), fc.lorem(), async (one, two) => {
        const [short, long] = [bodyWith(one), bodyWith(one + two)]
        expect(promptBound(ofChat(long), bytesOf(long))).toBeGreaterThanOrEqual(
          promptBound(ofChat(short), bytesOf(short)),
        )
        expect(promptGuess(ofChat(long), bytesOf(long))).toBeGreaterThanOrEqual(
          promptGuess(ofChat(short), bytesOf(short)),
        )
      }),
      { numRuns: 50 },
    )
  })
})

describe('a sample of texts', () => {
  /** Slices of 512 characters, as many as make 65,536, of all texts with a line break between two. */
  function slicesOf(text: string): string[] {
    const stride = 512 * Math.max(1, Math.ceil(text.length / 65_536))
    return Array.from({ length: Math.ceil(text.length / stride) }, (_, at) =>
      text.slice(at * stride, at * stride + 512),
    )
  }

  test('is the same whether they come as one or as many', () => {
    const text = fc.nat(3_000).map((length) => 'The river runs to the weir. '.repeat(110).slice(0, length))
    fc.assert(
      fc.property(fc.array(text, { maxLength: 200, size: 'max' }), (texts) => {
        const all = texts.join('\n')
        expect(sampleOf(texts)).toEqual({ slices: slicesOf(all), length: all.length })
      }),
      { numRuns: 100, examples: [[[]], [['']], [['', '', '']], [['a'.repeat(512), 'b', '']]] },
    )
  })
})

describe('input items of a response', () => {
  const items: JsonObject[] = [
    { role: 'user', content: [{ type: 'input_text', text: 'How high is the river at Basel?' }] },
    { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'A'.repeat(10_000) },
    { type: 'function_call', call_id: 'call_1', name: 'level', arguments: '{"town":"Basel"}' },
    { type: 'function_call_output', call_id: 'call_1', output: '2 metres' },
  ]

  test('are counted as what the model reads of them: neither ids nor what is encrypted', async () => {
    const count = await promptCount(counting, ofResponses({ model: 'm', input: items }))
    const told = 'How high is the river at Basel? level {"town":"Basel"} 2 metres'
    expect(count).toBeWithin(await promptCount(counting, ofResponses({ input: told })), 60)
  })

  test('are counted with the instructions', async () => {
    const instructions = 'Repeat after me. '.repeat(100)
    const [without, together] = [
      await promptCount(counting, ofResponses({ input: items })),
      await promptCount(counting, ofResponses({ input: items, instructions })),
    ]
    expect(together - without).toBeWithin(350, 450)
  })

  test('may be pictures, which count as pictures', async () => {
    const body: JsonObject = {
      input: [
        { role: 'user', content: [{ type: 'input_image', image_url: `data:image/png;base64,${media}` }] },
        { type: 'image_generation_call', id: 'ig_1', result: media },
      ],
    }
    for (const bound of [
      promptBound(ofResponses(body), bytesOf(body)),
      await tokenBound(counting, ofResponses(body), bytesOf(body)),
    ])
      expect(bound).toBeWithin(2_000, 20_000)
    expect(await promptCount(counting, ofResponses(body))).toBeLessThan(5_000)
  })
})

describe('media', () => {
  test.each<[string, JsonObject['content'], number, number]>([
    // part, tokens at least and at most
    [
      'an image inside the request',
      [{ type: 'image_url', image_url: { url: `data:image/png;base64,${media}` } }],
      1_000,
      10_000,
    ],
    [
      'an image by address',
      [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }],
      1_000,
      10_000,
    ],
    ['audio', [{ type: 'input_audio', input_audio: { data: media, format: 'wav' } }], 7_000, 10_000],
    [
      'a file',
      [{ type: 'file', file: { file_data: `data:application/pdf;base64,${media}`, filename: 'a.pdf' } }],
      180_000,
      200_000,
    ],
    [
      "an image in Anthropic's words",
      [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: media } }],
      1_000,
      10_000,
    ],
    [
      "a document in Anthropic's words",
      [{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: media } }],
      180_000,
      200_000,
    ],
  ])('%s', async (_, content, least, most) => {
    const body = bodyWith(content)
    for (const bound of [
      promptBound(ofMessages(body), bytesOf(body)),
      await tokenBound(counting, ofMessages(body), bytesOf(body)),
    ])
      expect(bound).toBeWithin(least, most)
    expect(promptGuess(ofMessages(body), bytesOf(body))).toBeLessThan(most)
  })
})

describe('the bound of a prompt', () => {
  const address = 'https://example.com/a'
  const inline = `data:application/pdf;base64,${media}`
  test.each<[string, JsonObject, boolean]>([
    ['an image by address', { type: 'image_url', image_url: { url: address } }, true],
    ['an image by id', { type: 'image', source: { type: 'file', file_id: 'file_1' } }, true],
    ['a file', { type: 'file', file: { file_data: inline } }, true],
    ['a file by id', { type: 'file', file: { file_id: 'file_1' } }, false],
    ['a file by address', { type: 'file', file: { file_data: address } }, false],
    ['an input file', { type: 'input_file', file_data: inline }, true],
    ['an input file by address', { type: 'input_file', file_url: address }, false],
    ['a video', { type: 'video_url', video_url: { url: `data:video/mp4;base64,${media}` } }, true],
    ['a video by address', { type: 'video_url', video_url: { url: 'https://youtu.be/x' } }, false],
    [
      'a document',
      { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: media } },
      true,
    ],
    ['a document of text', { type: 'document', source: { type: 'text', data: 'Hello' } }, true],
    ['a document by address', { type: 'document', source: { type: 'url', url: address } }, false],
    ['a document by id', { type: 'document', source: { type: 'file', file_id: 'file_1' } }, false],
  ])('with %s', (_, part, holds) => {
    const body = bodyWith([part])
    expect(measurePrompt(ofChat(body), bytesOf(body)).isUnsized).toBe(!holds)
  })
})

describe("a body of Anthropic's protocol", () => {
  const words = 'The river runs from the mountains to the sea, past towns and mills. '.repeat(30)
  const inWords = countTokens(words)

  test.each<[string, JsonObject]>([
    ['the system prompt', { system: words }],
    ['a system prompt in blocks', { system: [{ type: 'text', text: words }] }],
    [
      'a document of plain text',
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'document', source: { type: 'text', media_type: 'text/plain', data: words } }],
          },
        ],
      },
    ],
    [
      'the input of a call',
      {
        messages: [
          {
            role: 'assistant',
            content: [{ type: 'tool_use', id: 't', name: 'f', input: { text: words } }],
          },
        ],
      },
    ],
    [
      'what a tool answered',
      {
        messages: [
          {
            role: 'user',
            content: [{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text: words }] }],
          },
        ],
      },
    ],
  ])('has %s counted and bounded', async (_, more) => {
    const body = { ...bodyWith('x'), ...more }
    const bare = await promptCount(counting, ofMessages(bodyWith('x')))
    expect(await promptCount(counting, ofMessages(body))).toBeWithin(inWords, bare + inWords + 20)
    expect(await tokenBound(counting, ofMessages(body), bytesOf(body))).toBeGreaterThanOrEqual(inWords)
    expect(promptBound(ofMessages(body), bytesOf(body))).toBeGreaterThanOrEqual(inWords)
  })
})
