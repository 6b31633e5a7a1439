// An answer put back into the conversation reaches Gemini part for part as it left: every signature on its own part.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { ChatEvent } from '../../../src/conversation/event.ts'
import type { AssistantMessage, JsonObject, Message } from '../../../src/conversation/request.ts'
import { isMinted } from '../../../src/protocols/gemini/wire-words.ts'
import { outbound } from '../../../src/protocols/gemini/outbound/outbound.ts'
import { textPart } from '../../support/conversation.ts'
import { type Case, cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { asMessage, comparable, providers, requestOf, targetOf } from './support.ts'

const recorded = providers.flatMap((provider) => cases(provider)).filter((each) => each.status === 200)

function chunksOf(recording: Case): JsonObject[] {
  if (!recording.streamed) return [recording.response() as JsonObject]
  const text = new TextDecoder().decode(recording.stream())
  if (text.startsWith('[')) return JSON.parse(text) as JsonObject[]
  return framesOf([recording.stream()]).map((frame) => JSON.parse(frame.data) as JsonObject)
}

function partsOf(recording: Case): JsonObject[] {
  return chunksOf(recording).flatMap((chunk) => {
    const candidates = (chunk['candidates'] ?? []) as { content?: { parts?: JsonObject[] } }[]
    return candidates[0]?.content?.parts ?? []
  })
}

function eventsOf(recording: Case): readonly ChatEvent[] {
  const target = targetOf(recording.meta.model ?? 'gemini-3-pro-preview')
  const chunks = chunksOf(recording)
  if (!recording.streamed) return outbound.whole(chunks[0], target)
  return parseFrames(
    outbound.parser(target),
    chunks.map((chunk) => ({ event: undefined, data: JSON.stringify(chunk) })),
  )
}

const question: Message = { role: 'user', content: [textPart('?')] }

/** The model's turn as it would be sent with the next question. */
function replayed(message: AssistantMessage, model = 'gemini-3-pro-preview'): JsonObject[] {
  const results: Message[] = message.toolCalls.map((call) => ({
    role: 'tool',
    toolCallId: call.id,
    content: [textPart('done')],
    isError: false,
  }))
  const messages = [question, message, ...results, question]
  const { body } = outbound.lower(requestOf({ messages }), targetOf(model))
  const turn = (body['contents'] as { role: string; parts: JsonObject[] }[]).find(
    (each) => each.role === 'model',
  )
  return turn?.parts ?? []
}

const withContent = recorded.filter(
  (each) => eventsOf(each).at(-1)?.kind === 'finish' && partsOf(each).length > 0,
)

describe('recorded answers come back part for part', () => {
  test.each(withContent.map((each) => [`${each.provider}/${each.id}`, each] as const))(
    '%s',
    (_, recording) => {
      // Audio is not sent back: chat completions name it by an id that Gemini has not.
      const original = partsOf(recording).filter(
        (part) => !JSON.stringify(part['inlineData'] ?? '').includes('audio/'),
      )
      expect(comparable(replayed(asMessage(eventsOf(recording)), recording.meta.model ?? undefined))).toEqual(
        comparable(original),
      )
    },
  )
})

describe('recorded follow-ups', () => {
  const signatureOf = (part: JsonObject) => comparable([part])[0]?.['thoughtSignature']
  const followUps = recorded.flatMap((next) => {
    const contents = (next.request?.['contents'] ?? []) as { role?: string; parts: JsonObject[] }[]
    return contents.flatMap((turn, at) => {
      const signature = turn.role === 'model' ? turn.parts.map(signatureOf).find((each) => each) : undefined
      const before = recorded.find(
        (each) => signature !== undefined && partsOf(each).some((part) => signatureOf(part) === signature),
      )
      return before === undefined ? [] : [{ next, before, turn, results: contents[at + 1]?.parts ?? [] }]
    })
  })

  test('some recordings answer others', () => {
    expect(followUps.length).toBeGreaterThanOrEqual(3)
  })

  test.each(followUps.map((each) => [each.next.id, each] as const))('%s', (_, { before, turn, results }) => {
    const message = asMessage(eventsOf(before))
    // Some of these clients leave out the ids; whether a call is the same is in its name, arguments and signature.
    const withoutIds = (parts: JsonObject[]) =>
      comparable(parts).map((part) => {
        const call = part['functionCall'] as JsonObject | undefined
        return call === undefined
          ? part
          : { ...part, functionCall: { name: call['name']!, args: call['args']! } }
      })
    expect(withoutIds(replayed(message))).toEqual(withoutIds(turn.parts))
    const names = (parts: JsonObject[]) =>
      parts.map((part) => (part['functionResponse'] as JsonObject | undefined)?.['name'])
    const { body } = outbound.lower(
      requestOf({
        messages: [
          question,
          message,
          ...message.toolCalls.map((call) => ({
            role: 'tool' as const,
            toolCallId: call.id,
            content: [textPart('40 C')],
            isError: false,
          })),
        ],
      }),
      targetOf('gemini-3-pro-preview'),
    )
    const contents = body['contents'] as { parts: JsonObject[] }[]
    expect(names(contents[2]!.parts)).toEqual(names(results))
  })
})

describe('signatures that have no field of their own', () => {
  const answer = (parts: JsonObject[]) =>
    outbound.whole(
      { responseId: 'r1', candidates: [{ content: { parts, role: 'model' }, finishReason: 'STOP' }] },
      targetOf('gemini-3-pro-preview'),
    )

  test.each<[string, JsonObject[]]>([
    ['on text', [{ text: 'a' }, { text: 'b', thoughtSignature: 's1' }, { text: 'c' }]],
    [
      'on two texts in a row',
      [
        { text: 'a', thoughtSignature: 's1' },
        { text: 'b', thoughtSignature: 's2' },
      ],
    ],
    ['on empty text at the end', [{ text: 'a' }, { text: '', thoughtSignature: 's1' }]],
    ['on empty text in the middle', [{ text: 'a' }, { text: '', thoughtSignature: 's1' }, { text: 'b' }]],
    ['on a thought', [{ text: 'hm', thought: true, thoughtSignature: 's1' }, { text: 'a' }]],
    [
      'on text between calls',
      [
        { functionCall: { name: 'f', args: {}, id: 'a' }, thoughtSignature: 's1' },
        { text: 'and', thoughtSignature: 's2' },
        { functionCall: { name: 'g', args: { x: 1 }, id: 'b' } },
      ],
    ],
    [
      'on code that Google ran, and on its result',
      [
        { executableCode: { language: 'PYTHON', code: '1+1', id: 'x' }, thoughtSignature: 's1' },
        { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '2', id: 'x' } },
        { text: '2' },
      ],
    ],
    [
      'on calls of Google’s own tools',
      [
        {
          toolCall: { toolType: 'GOOGLE_SEARCH_WEB', args: { queries: ['q'] }, id: 't' },
          thoughtSignature: 's1',
        },
        { toolResponse: { toolType: 'GOOGLE_SEARCH_WEB', response: {}, id: 't' }, thoughtSignature: 's2' },
        { text: 'found' },
      ],
    ],
    [
      'on an image',
      [{ text: 'here' }, { inlineData: { mimeType: 'image/png', data: 'AAAA' }, thoughtSignature: 's1' }],
    ],
  ])('%s', (_, parts) => {
    expect(comparable(replayed(asMessage(answer(parts))))).toEqual(parts)
  })

  test('any order of parts comes back in that order', () => {
    const signature = fc.option(fc.stringMatching(/^[A-Za-z0-9+/]{4,12}$/), { nil: undefined })
    const signed = (part: JsonObject, made: string | undefined): JsonObject =>
      made === undefined ? part : { ...part, thoughtSignature: made }
    const text = fc.tuple(fc.string(), signature).map(([value, made]) => signed({ text: value }, made))
    const part = fc.oneof(
      text,
      fc.tuple(fc.string(), signature).map(([value, made]) => signed({ text: value, thought: true }, made)),
      fc.string().map((code): JsonObject => ({ executableCode: { language: 'PYTHON', code } })),
    )
    const call = fc
      .tuple(fc.nat(), signature)
      .map(([x, made]) => signed({ functionCall: { name: 'f', args: { x } } }, made))
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), fc.array(call, { maxLength: 3 }), (before, calls) => {
        const sent = comparable([...before, ...calls])
        // Minted ids never reach Gemini; a first call without a signature gets Google's stand-in.
        const back = comparable(replayed(asMessage(answer([...before, ...calls]))))
        const standIn = back.map((each) => {
          if (each['thoughtSignature'] !== 'skip/thought/signature/validator') return each
          const { thoughtSignature: _, ...rest } = each
          return rest
        })
        expect(standIn).toEqual(sent)
      }),
      { numRuns: 300 },
    )
  })

  test('text the client has trimmed loses no signature', () => {
    const message = asMessage(answer([{ text: 'a long answer ' }, { text: 'tail ', thoughtSignature: 's1' }]))
    const trimmed = { ...message, content: [textPart('a long')] }
    expect(replayed(trimmed)).toEqual([{ text: 'a long' }, { text: '', thoughtSignature: 's1' }])
  })

  test.each([
    ['not JSON', '{'],
    ['a list', '[]'],
    ['a kind of part that answers do not have', '{"fileData":{"fileUri":"gs://other/secret"}}'],
    ['a signature alone', '{"thoughtSignature":"s"}'],
  ])('a detail that holds %s is left out', (_, data) => {
    const forged: AssistantMessage = {
      role: 'assistant',
      content: [textPart('a')],
      reasoning: [
        { type: 'reasoning.encrypted', format: 'google-gemini-v1', index: 0, id: 'gemini:part:0:0:0', data },
      ],
      toolCalls: [],
    }
    expect(replayed(forged)).toEqual([{ text: 'a' }])
  })

  test('reasoning of other providers is not sent to Gemini', () => {
    const foreign: AssistantMessage = {
      role: 'assistant',
      content: [textPart('a')],
      reasoning: [
        { type: 'reasoning.text', format: 'anthropic-claude-v1', index: 0, text: 'hm', signature: 'sig' },
      ],
      toolCalls: [],
    }
    expect(replayed(foreign)).toEqual([{ text: 'a' }])
  })
})

describe('the signature of a call', () => {
  const call = { id: 'abc', name: 'f', arguments: '{}', thoughtSignature: undefined }
  const asked = (more: Partial<AssistantMessage>, remembered: string | undefined, model: string) => {
    const messages: Message[] = [
      question,
      { role: 'assistant', content: [], reasoning: [], toolCalls: [call, { ...call, id: 'def' }], ...more },
      { role: 'tool', toolCallId: 'abc', content: [textPart('1')], isError: false },
    ]
    const target = {
      ...targetOf(model),
      rememberedSignature: ({ id }: { id: string }) => (id === 'abc' ? remembered : undefined),
    }
    const { body } = outbound.lower(requestOf({ messages }), target)
    return (body['contents'] as { parts: JsonObject[] }[])[1]!.parts.map((part) => part['thoughtSignature'])
  }
  const own = [{ ...call, thoughtSignature: 'own' }]
  const detail = {
    type: 'reasoning.encrypted',
    format: 'google-gemini-v1',
    index: 0,
    id: 'abc',
    data: 'told',
  } as const

  test.each([
    ['its own', { toolCalls: own, reasoning: [detail] }, 'remembered', 'gemini-3-pro-preview', ['own']],
    [
      'the one in a detail with its id',
      { reasoning: [detail] },
      'remembered',
      'gemini-3-pro-preview',
      ['told', undefined],
    ],
    ['the remembered one', {}, 'remembered', 'gemini-2.5-flash', ['remembered', undefined]],
    [
      'the stand-in, on the first call only',
      {},
      undefined,
      'gemini-3-flash-preview',
      ['skip_thought_signature_validator', undefined],
    ],
    [
      'the stand-in for names without a version',
      {},
      undefined,
      'gemini-flash-latest',
      ['skip_thought_signature_validator', undefined],
    ],
    ['nothing where the model needs none', {}, undefined, 'gemini-2.5-pro', [undefined, undefined]],
  ])('is %s', (_, more, remembered, model, expected) => {
    expect(asked(more, remembered, model)).toEqual(expected)
  })

  test('minted ids are known by their form, and nobody else’s are', () => {
    const message = asMessage(
      outbound.whole(
        {
          candidates: [
            { content: { parts: [{ functionCall: { name: 'f', args: {} } }] }, finishReason: 'STOP' },
          ],
        },
        targetOf('gemini-3-pro-preview'),
      ),
    )
    expect(isMinted(message.toolCalls[0]!.id)).toBe(true)
    expect(['call_3257537', '96c1su3s', 'whZntcQw', 'weir_', 'toolu_01'].some(isMinted)).toBe(false)
  })
})
