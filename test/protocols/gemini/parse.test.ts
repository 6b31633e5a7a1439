// Answers and faults that no recording shows: written from Google's documented shapes, not recorded.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { collect, type FaultKind } from '../../../src/conversation/event.ts'
import { outbound } from '../../../src/protocols/gemini/outbound/outbound.ts'
import { assertWellFormed, parseFrames } from '../../support/recordings.ts'
import { answersOf, hostsOf, recordedAnswers } from '../recorded-hosts.ts'
import { targetOf } from './support.ts'

const target = targetOf('gemini-3-flash-preview')
const streamed = (...chunks: unknown[]) => {
  const events = parseFrames(
    outbound.parser(target),
    chunks.map((chunk) => ({
      event: undefined,
      data: typeof chunk === 'string' ? chunk : JSON.stringify(chunk),
    })),
  )
  assertWellFormed(events)
  return collect(events)
}
const chunk = (parts: unknown[], finishReason?: string, index?: number) => ({
  responseId: 'r',
  candidates: [{ content: { role: 'model', parts }, finishReason, index }],
})

describe('finish', () => {
  test('a STOP on every chunk, as the first generations sent it, is one finish at the end', () => {
    const { choices } = streamed(
      chunk([{ text: 'a' }], 'STOP'),
      chunk([{ functionCall: { name: 'f' } }], 'STOP'),
    )
    expect(choices).toHaveLength(1)
    expect(choices[0]).toMatchObject({ text: 'a', finish: 'tool_calls', nativeFinish: 'STOP' })
    expect(choices[0]!.toolCalls[0]).toMatchObject({ name: 'f', arguments: '{}' })
  })

  test('several candidates are several choices, and all must end', () => {
    const both = [chunk([{ text: 'a' }], undefined, 0), chunk([{ text: 'b' }], 'STOP', 1)]
    expect(streamed(...both).fault?.kind).toBe('cut')
    const { choices } = streamed(...both, chunk([{ text: 'c' }], 'MAX_TOKENS', 0))
    expect(choices.map((choice) => [choice.index, choice.text, choice.finish])).toEqual([
      [0, 'ac', 'length'],
      [1, 'b', 'stop'],
    ])
  })

  test.each(['MALFORMED_FUNCTION_CALL', 'MISSING_THOUGHT_SIGNATURE', 'NO_IMAGE', 'TOO_MANY_TOOL_CALLS'])(
    '%s is a failure, and its own chunk adds nothing',
    (reason) => {
      const result = streamed({
        ...chunk([{ text: 'half' }], reason),
        usageMetadata: { promptTokenCount: 5, totalTokenCount: 5 },
      })
      expect(result.fault).toMatchObject({ kind: 'unusable-output', providerCode: reason })
      expect(result.choices).toEqual([])
      expect(result.usage).toMatchObject({ input: 5, output: 0 })
    },
  )

  test.each(['OTHER', 'SOMETHING_NEW', 'IMAGE_OTHER'])(
    '%s ends an answer that holds something, and not well',
    (reason) => {
      expect(streamed(chunk([{ text: 'words' }]), chunk([], reason)).choices).toMatchObject([
        { text: 'words', finish: 'other', nativeFinish: reason },
      ])
      expect(streamed(chunk([{ functionCall: { name: 'f' } }], reason)).choices[0]!.finish).toBe('tool_calls')
      expect(streamed(chunk([], reason)).fault).toMatchObject({ kind: 'broken', providerCode: reason })
    },
  )

  test('an answer that could be continued ran out of tokens', () => {
    expect(streamed(chunk([{ text: 'words' }], 'CONTINUATION')).choices[0]).toMatchObject({
      finish: 'length',
      nativeFinish: 'CONTINUATION',
    })
  })

  test('an unspecified reason is none', () => {
    const chunks = [chunk([{ text: 'a' }], 'FINISH_REASON_UNSPECIFIED')]
    expect(streamed(...chunks).fault?.kind).toBe('cut')
    expect(streamed(...chunks, chunk([], 'STOP')).choices[0]).toMatchObject({ text: 'a', finish: 'stop' })
  })

  test.each(['RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY'])(
    '%s finishes with content_filter',
    (reason) => {
      expect(streamed(chunk([], reason)).choices[0]!.finish).toBe('content_filter')
    },
  )
})

describe('a frame that is a broken object', () => {
  const broken = '{"responseId":"r","candidates":[{"content":{"parts":[{"te'
  const end = chunk([{ text: 'b' }], 'STOP')

  test('is left out where the rest is sound', () => {
    expect(streamed(chunk([{ text: 'a' }]), broken, end)).toMatchObject({
      fault: undefined,
      choices: [{ text: 'ab' }],
    })
  })

  test.each<[string, unknown[]]>([
    ['before the answer', [broken, end]],
    ['behind a call', [chunk([{ text: 'a' }, { functionCall: { name: 'f' } }]), broken, end]],
    ['behind a thought', [chunk([{ text: 'a' }]), chunk([{ text: 'hm', thought: true }]), broken, end]],
    [
      'that may be of a call',
      [chunk([{ text: 'a' }]), '{"candidates":[{"content":{"parts":[{"functionCall":{', end],
    ],
    ['often', [chunk([{ text: 'a' }]), broken, broken, broken, broken, end]],
  ])('breaks it off %s', (_, chunks) => {
    expect(streamed(...chunks).fault?.kind).toBe('broken')
  })

  test('breaks off an answer that is to be a document', () => {
    const frames = [chunk([{ text: '{' }]), broken, end].map((each) => ({
      event: undefined,
      data: typeof each === 'string' ? each : JSON.stringify(each),
    }))
    expect(collect(parseFrames(outbound.parser({ ...target, document: true }), frames)).fault?.kind).toBe(
      'broken',
    )
  })
})

describe('what is not an answer', () => {
  test.each<[string, unknown[], FaultKind]>([
    ['no frame at all', [], 'cut'],
    ['only counters', [{ usageMetadata: { promptTokenCount: 1 } }], 'cut'],
    ['a frame that is not JSON', ['<html>'], 'broken'],
    ['a frame that is a number', ['1'], 'broken'],
    [
      'an error after content',
      [chunk([{ text: 'a' }]), { error: { code: 503, message: 'm', status: 'UNAVAILABLE' } }],
      'overloaded',
    ],
    [
      'an error in an array',
      [[{ error: { code: 429, message: 'm', status: 'RESOURCE_EXHAUSTED' } }]],
      'rate-limited',
    ],
    ['an error without a code', [{ error: { status: 'DEADLINE_EXCEEDED' } }], 'timeout'],
    ['an error that is text', [{ error: 'gone' }], 'broken'],
  ])('%s is a fault', (_, chunks, kind) => {
    expect(streamed(...chunks).fault?.kind).toBe(kind)
  })

  test.each([[null], ['text'], [{}], [[]], [{ candidates: 'x' }], [{ candidates: [{}] }], [[{ error: {} }]]])(
    'a whole body of %j is one fault',
    (body) => {
      const events = outbound.whole(body, target)
      assertWellFormed(events)
      expect(events.at(-1)?.kind).toBe('error')
    },
  )

  test('nothing follows the end of a stream that failed', () => {
    const events = parseFrames(outbound.parser(target), [
      { event: undefined, data: '{"error":{"code":500,"message":"m"}}' },
      { event: undefined, data: JSON.stringify(chunk([{ text: 'late' }], 'STOP')) },
    ])
    expect(events.map((event) => event.kind)).toEqual(['error'])
  })

  test('an end mark that a gateway added changes nothing', () => {
    expect(streamed(chunk([{ text: 'a' }], 'STOP'), '[DONE]').fault).toBeUndefined()
  })
})

test('G18 no answer, however odd, makes the parser throw or break the rules of events', () => {
  const words =
    'candidates content parts text thought thoughtSignature functionCall name id args partialArgs jsonPath stringValue willContinue finishReason index inlineData mimeType data usageMetadata promptTokenCount totalTokenCount groundingMetadata groundingSupports segment startIndex endIndex groundingChunks web uri executableCode logprobsResult chosenCandidates promptFeedback blockReason responseId'
  const key = fc.constantFrom(...words.split(' '))
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 7, withCrossShrink: true },
      fc.oneof(
        fc.constantFrom('STOP', 'MAX_TOKENS', 'SAFETY', 'audio/wav', 'AAE='),
        fc.string(),
        fc.double(),
        fc.boolean(),
        fc.constant(null),
      ),
      fc.dictionary(key, tie('value'), { maxKeys: 5 }),
      fc.array(tie('value'), { maxLength: 3 }),
    ),
  }))
  const part = fc.dictionary(key, value, { maxKeys: 4 })
  const candidate = fc.record({
    content: fc.record({ parts: fc.array(part, { maxLength: 4 }) }),
    finishReason: fc.constantFrom('STOP', 'MAX_TOKENS', undefined),
    groundingMetadata: value,
    index: fc.constantFrom(0, 1, undefined),
  })
  const answer = fc.oneof(
    value,
    fc.record({ candidates: fc.array(candidate, { maxLength: 3 }), usageMetadata: value }),
  )
  fc.assert(
    fc.property(fc.array(answer, { maxLength: 4 }), (chunks) => {
      assertWellFormed(outbound.whole(chunks, target))
    }),
    { numRuns: 1000 },
  )
})

describe('arguments in pieces', () => {
  const piece = (call: object) => chunk([{ functionCall: call }])
  test('are gathered along their paths and given whole', () => {
    const { choices } = streamed(
      piece({ name: 'f', id: 'x', willContinue: true }),
      piece({
        partialArgs: [{ jsonPath: '$.city', stringValue: 'San', willContinue: true }],
        willContinue: true,
      }),
      piece({
        partialArgs: [
          { jsonPath: '$.city', stringValue: ' José' },
          { jsonPath: "$['a b'].n", numberValue: 0 },
          { jsonPath: '$.list[0].on', boolValue: false },
          { jsonPath: '$.list[1].on', nullValue: 'NULL_VALUE' },
          { jsonPath: '$.list[999999999].on', boolValue: true },
          { jsonPath: '$.__proto__.polluted', boolValue: true },
          { jsonPath: 'nonsense', boolValue: true },
        ],
        willContinue: true,
      }),
      piece({}),
      chunk([], 'STOP'),
    )
    expect(choices[0]!.toolCalls).toHaveLength(1)
    expect(choices[0]!.toolCalls[0]!.arguments).toBe(
      '{"city":"San José","a b":{"n":0},"list":[{"on":false},{"on":null}],"__proto__":{"polluted":true}}',
    )
    expect('polluted' in {}).toBe(false)
  })

  test('that never end make the answer a failure, or cut by its limit', () => {
    const open = piece({
      name: 'f',
      partialArgs: [{ jsonPath: '$.a', stringValue: 'x' }],
      willContinue: true,
    })
    expect(streamed(open, chunk([], 'STOP')).fault?.kind).toBe('broken')
    expect(streamed(open, chunk([], 'MAX_TOKENS')).choices[0]!.finish).toBe('length')
  })
})

describe('usage', () => {
  const counted = (...usages: object[]) =>
    streamed(...usages.map((usageMetadata) => ({ usageMetadata })), chunk([{ text: 'a' }], 'STOP')).usage

  test('a counter left out keeps its last value; an explicit zero replaces it', () => {
    const first = {
      promptTokenCount: 10,
      candidatesTokenCount: 4,
      thoughtsTokenCount: 3,
      cachedContentTokenCount: 8,
    }
    expect(counted(first, { promptTokenCount: 12 })).toMatchObject({
      input: 4,
      cacheRead: 8,
      output: 4,
      reasoning: 3,
    })
    expect(counted(first, { thoughtsTokenCount: 0, cachedContentTokenCount: 0 })).toMatchObject({
      input: 10,
      cacheRead: 0,
      reasoning: 0,
    })
  })

  test('nothing counted is no usage; everything zero is one', () => {
    expect(counted({ trafficType: 'ON_DEMAND' })).toBeUndefined()
    expect(counted({ promptTokenCount: 0 })).toMatchObject({ input: 0, output: 0 })
  })

  test('output that only the total knows of is counted', () => {
    expect(counted({ promptTokenCount: 10, totalTokenCount: 25, thoughtsTokenCount: 5 })).toMatchObject({
      output: 10,
      reasoning: 5,
    })
  })

  test('modalities have buckets of their own, cached ones stay cached, and no part exceeds its whole', () => {
    const usage = counted({
      promptTokenCount: 100,
      cachedContentTokenCount: 40,
      promptTokensDetails: [
        { modality: 'AUDIO', tokenCount: 50 },
        { modality: 'IMAGE', tokenCount: 20 },
        { modality: 'VIDEO', tokenCount: 10 },
      ],
      cacheTokensDetails: [{ modality: 'AUDIO', tokenCount: 30 }],
      candidatesTokenCount: 5,
      candidatesTokensDetails: [{ modality: 'IMAGE', tokenCount: 9 }],
    })
    expect(usage).toMatchObject({
      cacheRead: 10,
      cacheReadAudio: 30,
      inputAudio: 20,
      inputImage: 20,
      input: 20,
      outputImage: 5,
      output: 0,
    })
  })

  test('each search is counted from generation 3 on, a grounded prompt once before', () => {
    const answer = {
      candidates: [
        {
          content: { parts: [{ text: 'a' }] },
          finishReason: 'STOP',
          groundingMetadata: { webSearchQueries: ['p', 'q'] },
        },
      ],
      usageMetadata: { promptTokenCount: 1 },
    }
    const searches = (model: string) => collect(outbound.whole(answer, targetOf(model))).usage?.toolCalls
    expect(searches('gemini-3-pro-preview')).toEqual({ web_search: 2 })
    expect(searches('gemini-2.5-pro')).toEqual({ web_search: 1 })
  })
})

test('audio in padded pieces joins to one piece of base64', () => {
  const audio = (bytes: number[]) => ({
    inlineData: { mimeType: 'audio/L16;rate=24000', data: Buffer.from(bytes).toString('base64') },
  })
  const { choices } = streamed(
    chunk([audio([1, 2])]),
    chunk([audio([3, 4, 5, 6, 7])]),
    chunk([audio([8])], 'STOP'),
  )
  expect([...Buffer.from(choices[0]!.audio!.data!, 'base64')]).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
})

test('sources whose place is wrong are found by their text, or left out', () => {
  const support = (startIndex: number, endIndex: number, text: string) => ({
    segment: { startIndex, endIndex, text },
    groundingChunkIndices: [0, 7],
  })
  const answer = {
    candidates: [
      {
        content: { parts: [{ text: '𝒳é one ' }, { text: 'two' }] },
        finishReason: 'STOP',
        groundingMetadata: {
          groundingChunks: [{ web: { uri: 'https://a.example', title: 'A' } }],
          groundingSupports: [
            support(7, 10, 'one'),
            support(0, 3, 'two'),
            support(0, 3, 'none'),
            support(7, 10, 'one'),
          ],
        },
      },
    ],
  }
  const { text, annotations } = collect(outbound.whole(answer, target)).choices[0]!
  expect(annotations.map((each) => text!.slice(each.start, each.end))).toEqual(['one', 'two'])
})

describe('error answers', () => {
  const google = (code: number, status: string, message: string, details: object[] = []) =>
    JSON.stringify({ error: { code, message, status, details } })

  test.each<[number, string, FaultKind]>([
    [400, google(400, 'INVALID_ARGUMENT', 'Unknown name "x"'), 'invalid-request'],
    [
      400,
      `[${google(400, 'INVALID_ARGUMENT', 'Function call is missing a thought_signature')}]`,
      'invalid-request',
    ],
    [400, google(400, 'INVALID_ARGUMENT', 'API key expired. Please renew the API key.'), 'credentials'],
    [
      400,
      google(400, 'FAILED_PRECONDITION', 'User location is not supported for the API use.'),
      'credentials',
    ],
    [
      400,
      google(
        400,
        'INVALID_ARGUMENT',
        'The input token count exceeds the maximum number of tokens allowed 1048576.',
      ),
      'context-length',
    ],
    [401, google(401, 'UNAUTHENTICATED', 'Request had invalid authentication credentials.'), 'credentials'],
    [403, google(403, 'PERMISSION_DENIED', 'Your API key was reported as leaked.'), 'credentials'],
    [
      403,
      google(
        403,
        'PERMISSION_DENIED',
        'You do not have permission to access the File abc or it may not exist.',
      ),
      'invalid-request',
    ],
    [402, '', 'quota'],
    [404, google(404, 'NOT_FOUND', 'models/x is not found'), 'not-found'],
    [
      429,
      google(429, 'RESOURCE_EXHAUSTED', 'Quota', [
        { violations: [{ quotaId: 'GenerateRequestsPerDayPerProject' }] },
      ]),
      'quota',
    ],
    [429, google(429, 'RESOURCE_EXHAUSTED', 'Your prepayment credits are depleted.'), 'quota'],
    [429, '', 'rate-limited'],
    [500, google(500, 'INTERNAL', 'An internal error has occurred.'), 'broken'],
    [404, '<html><body>Not found</body></html>', 'broken'],
    [502, '<html><body>Bad Gateway</body></html>', 'broken'],
    [503, google(503, 'UNAVAILABLE', 'The model is overloaded.'), 'overloaded'],
    [504, google(504, 'DEADLINE_EXCEEDED', 'Deadline expired'), 'timeout'],
  ])('%d %s is %s', (status, body, kind) => {
    const fault = outbound.fault(status, new Headers(), body, target)
    expect(fault).toMatchObject({ kind, status })
    expect(fault.message).not.toContain('<html>')
  })

  test('the wait is in the body, or in the header behind a proxy; the field is named', () => {
    const waiting = google(429, 'RESOURCE_EXHAUSTED', 'm', [{ retryDelay: '0.25s' }])
    const header = new Headers({ 'retry-after': '3' })
    expect(outbound.fault(429, header, waiting, target).retryAfterMs).toBe(250)
    expect(outbound.fault(429, header, '', target).retryAfterMs).toBe(3000)
    const field = google(400, 'INVALID_ARGUMENT', 'm', [{ fieldViolations: [{ field: 'contents[0]' }] }])
    expect(outbound.fault(400, header, field, target).param).toBe('contents[0]')
  })
})

test('sources are pages, documents and places', () => {
  const groundingMetadata = {
    groundingChunks: [
      { web: { uri: 'https://a.example', title: 'A' } },
      { retrievedContext: { uri: 'https://b.example/b.pdf', title: 'B', text: 'words' } },
      { maps: { uri: 'https://maps.example/c', title: 'C', placeId: 'places/c' } },
      { retrievedContext: { title: 'a document without an address' } },
    ],
    groundingSupports: [{ segment: { endIndex: 3, text: 'one' }, groundingChunkIndices: [0, 1, 2, 3] }],
  }
  const candidates = [{ content: { parts: [{ text: 'one' }] }, finishReason: 'STOP', groundingMetadata }]
  const { annotations } = collect(outbound.whole({ candidates }, target)).choices[0]!
  expect(annotations.map(({ title, start, end }) => [title, start, end])).toEqual([
    ['A', 0, 3],
    ['B', 0, 3],
    ['C', 0, 3],
  ])
})

test('what was drawn in thought is not in the answer', () => {
  const image = (data: string, more: object) => ({ inlineData: { mimeType: 'image/png', data }, ...more })
  const { images, reasoning } = streamed(
    chunk([image('AAAA', { thought: true })]),
    chunk([image('BBBB', { thoughtSignature: 'c2ln' })], 'STOP'),
  ).choices[0]!
  expect(images).toEqual([{ mediaType: 'image/png', data: 'BBBB' }])
  expect(reasoning).toMatchObject([{ id: 'gemini:image0:0:0:0', data: 'c2ln' }])
})

test('recorded calls without an id get one that is theirs alone, and the same each time the answer is read', () => {
  const answers = recordedAnswers(hostsOf('gemini'))
  const ids = answers.flatMap(({ events }) =>
    collect(events).choices.flatMap(({ toolCalls }) => toolCalls.map(({ id }) => id)),
  )
  expect(new Set(ids).size).toBe(ids.length)
  const { host, recorded, events } = answers.find(({ name }) => name.endsWith('rub0fb5fa'))!
  expect(collect(answersOf(host, recorded)[0]!)).toEqual(collect(events))
})
