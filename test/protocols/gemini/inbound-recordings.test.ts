// Every recorded answer of every protocol, told to clients of Gemini's API, streamed and whole: our own reader of
// Gemini's answers finds the same text, calls, thoughts and end in it, and the history comes back as it was.

import { describe, expect, test } from 'bun:test'
import { type ChatEvent, type Choice, collect } from '../../../src/conversation/event.ts'
import type {
  AssistantMessage,
  Json,
  JsonObject,
  ReasoningDetail,
} from '../../../src/conversation/request.ts'
import { noUsage } from '../../../src/conversation/usage.ts'
import { inbound, withModel } from '../../../src/protocols/gemini/inbound/inbound.ts'
import { signatureFormat } from '../../../src/protocols/gemini/wire-words.ts'
import { generateContentResponse } from '../../../src/protocols/gemini/inbound/schema.ts'
import type { AnswerContext, Bill } from '../../../src/protocols/protocol.ts'
import { endedAnswers } from '../recorded-hosts.ts'

const context: AnswerContext = {
  id: 'req_1',
  model: 'any/model',
  created: 1,
  includeUsage: true,
  warnings: [],
  extra: {},
}
const none = { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' }
const bill: Bill = { cost: '0', lines: none }

const answers = endedAnswers()

function chunksFor(events: readonly ChatEvent[], answer: AnswerContext = context): JsonObject[] {
  const encoder = inbound.encoder(answer)
  const frames = [...encoder.start()]
  for (const event of events) {
    if (!['usage', 'finish', 'message-start'].includes(event.kind)) frames.push(...encoder.event(event))
  }
  frames.push(...encoder.finish(noUsage, bill))
  return frames.map(({ data }) => JSON.parse(data) as JsonObject)
}

/** None for a prompt that was blocked. */
function candidatesOf({ candidates }: JsonObject): JsonObject[] {
  return (candidates ?? []) as JsonObject[]
}

/** The parts of the first candidate, over all chunks. */
function partsOf(chunks: readonly JsonObject[]): JsonObject[] {
  return chunks.flatMap((chunk) => {
    const first = candidatesOf(chunk).find(({ index }) => index === 0)
    return (first?.['content'] as { parts: JsonObject[] } | undefined)?.parts ?? []
  })
}

function readable(parts: readonly JsonObject[]) {
  const texts = (thought: boolean) =>
    parts
      .filter((part) => (part['thought'] === true) === thought)
      .map((part) => part['text'] ?? '')
      .join('')
  const calls = parts.flatMap(({ functionCall }) =>
    functionCall === undefined ? [] : [functionCall as JsonObject],
  )
  const images = parts.filter(({ inlineData }) =>
    String((inlineData as JsonObject)?.['mimeType']).startsWith('image/'),
  )
  return { text: texts(false), thoughts: texts(true), calls, images: images.length }
}

function expected(choice: Choice) {
  return {
    text: `${choice.text ?? ''}${choice.refusal ?? ''}`,
    // Google's own opaque parts hold no thought to read.
    thoughts: choice.reasoning
      .filter(({ type }) => type !== 'reasoning.encrypted')
      .map(({ text, summary }) => text ?? summary ?? '')
      .join(''),
    calls: choice.toolCalls.map(({ id, name, arguments: json }) => ({ id, name, args: argumentsIn(json) })),
    images: choice.images.length,
  }
}

function argumentsIn(json: string): Json {
  try {
    const value = JSON.parse(json === '' ? '{}' : json) as Json
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  } catch {
    // Cut by the token limit: shown as the text it is.
  }
  return { invalid_arguments: json }
}

/** Opaque parts are JSON, whose members may change their order. */
function sortedJson(data: string | undefined): string | undefined {
  if (!data?.startsWith('{')) return data
  return JSON.stringify(Object.entries(JSON.parse(data) as JsonObject).toSorted())
}

/** Reasoning that only its maker can take back: as a whole, under its own name. */
function foreign(details: readonly ReasoningDetail[]) {
  return details
    .filter(({ format }) => format !== null && format !== signatureFormat)
    .map(({ type, format, id, text, summary, signature, data }) => ({
      type,
      format,
      id: id ?? undefined,
      text: (text ?? summary) || undefined,
      signature: signature || undefined,
      data,
    }))
}

describe('told to clients of Gemini', () => {
  test.each(answers)('%s', (_name, events) => {
    const choice = collect(events).choices.find(({ index }) => index === 0)!
    const chunks = chunksFor(events)
    for (const chunk of chunks) expect(generateContentResponse.safeParse(chunk).error).toBeUndefined()
    const whole = inbound.whole(collect(events), noUsage, bill, context)
    expect(generateContentResponse.safeParse(whole).error).toBeUndefined()

    expect(readable(partsOf(chunks))).toEqual(expected(choice))
    expect(readable(partsOf([whole]))).toEqual(expected(choice))
    const ends = chunks.flatMap((chunk) => candidatesOf(chunk).map((each) => each['finishReason']))
    const blocked = choice.blockedPrompt !== undefined
    expect(ends.filter((end) => end !== undefined).length).toBe(blocked ? 0 : collect(events).choices.length)
    expect(chunks.filter(({ promptFeedback }) => promptFeedback !== undefined).length).toBe(Number(blocked))
  })

  const conversations = answers.flatMap(([name, events]) => {
    const choice = collect(events).choices.find(({ index }) => index === 0)!
    // An answer with nothing in it is no turn of a conversation; cut arguments and sound cannot be sent back.
    const whole = choice.toolCalls.every(
      ({ arguments: json }) => !('invalid_arguments' in (argumentsIn(json) as JsonObject)),
    )
    const spoken = choice.audio !== null
    return whole && !spoken && partsOf(chunksFor(events)).length > 0 ? [[name, events, choice] as const] : []
  })

  test.each(conversations)('%s comes back with the next turn', (_name, events, choice) => {
    const parts = partsOf([inbound.whole(collect(events), noUsage, bill, context)])
    const results = choice.toolCalls.map(({ id, name }) => ({
      functionResponse: { id, name, response: { output: 'done' } },
    }))
    const contents = [
      { role: 'user', parts: [{ text: 'Go.' }] },
      { role: 'model', parts },
      { role: 'user', parts: results.length > 0 ? results : [{ text: 'And?' }] },
    ]
    const request = inbound.parse(withModel({ contents }, 'any/model', false)).toChatRequest()
    const said = request.messages[1] as AssistantMessage
    expect(said.role).toBe('assistant')
    expect(said.content.map((part) => ('text' in part ? part.text : '')).join('')).toBe(expected(choice).text)
    expect(
      said.toolCalls.map(({ id, name, arguments: json }) => ({ id, name, args: argumentsIn(json) })),
    ).toEqual(expected(choice).calls as never)
    expect(said.toolCalls.map(({ thoughtSignature }) => thoughtSignature)).toEqual(
      choice.toolCalls.map(({ thoughtSignature }) => thoughtSignature),
    )
    // Whoever made a piece of reasoning finds its signature again.
    const signatures = (details: readonly { signature?: string | null; data?: string }[]) =>
      details.flatMap(({ signature, data }) => signature || sortedJson(data) || []).toSorted()
    expect(signatures(said.reasoning)).toEqual(signatures(choice.reasoning))
    expect(foreign(said.reasoning)).toEqual(foreign(choice.reasoning))
  })

  // Google's clients keep each chunk as a content of its own.
  test.each(conversations)('%s comes back chunk by chunk', (_name, events, choice) => {
    const { reasoning, toolCalls } = returned(chunksFor(events))
    expect(toolCalls.map(({ id }) => id)).toEqual(choice.toolCalls.map(({ id }) => id))
    expect(foreign(reasoning)).toEqual(foreign(choice.reasoning))
  })

  // As Gemini CLI does.
  test.each(conversations.filter(([, , { toolCalls }]) => toolCalls.length > 0))(
    '%s comes back from a client that drops thoughts',
    (_name, events, choice) => {
      for (const chunks of [chunksFor(events), [inbound.whole(collect(events), noUsage, bill, context)]]) {
        const { reasoning, toolCalls } = returned(chunks, ({ thought }) => thought !== true)
        expect(foreign(reasoning)).toEqual(foreign(choice.reasoning))
        expect(toolCalls.map(({ thoughtSignature }) => thoughtSignature)).toEqual(
          choice.toolCalls.map(({ thoughtSignature }) => thoughtSignature),
        )
      }
    },
  )

  test.each(conversations)(
    '%s shows no thoughts of others unasked, and gets them back',
    (_name, events, choice) => {
      const sealing: AnswerContext = { ...context, sealsThoughts: true }
      const made = choice.reasoning.map(({ format, ...detail }) => ({
        ...detail,
        format: format ?? 'nobody',
      }))
      for (const chunks of [
        chunksFor(events, sealing),
        [inbound.whole(collect(events), noUsage, bill, sealing)],
      ]) {
        const { text, thoughts } = readable(partsOf(chunks))
        expect(text).toBe(expected(choice).text)
        if (foreign(made).length > 0) expect(thoughts).toBe('')
        const back = returned(chunks).reasoning.map(({ format, ...each }) => ({
          ...each,
          format: format ?? 'nobody',
        }))
        expect(foreign(back)).toEqual(foreign(made))
      }
    },
  )
})

/** The answer in the next request of a client that keeps these parts. */
function returned(
  chunks: readonly JsonObject[],
  keeps: (part: JsonObject) => boolean = () => true,
): AssistantMessage {
  const said = chunks.flatMap((chunk) =>
    (chunk['candidates'] as JsonObject[]).flatMap(({ index, content }) => {
      const { role, parts } = content as { role: string; parts: JsonObject[] }
      return index === 0 ? [{ role, parts: parts.filter(keeps) }] : []
    }),
  )
  const contents = [{ role: 'user', parts: [{ text: 'Go.' }] }, ...said]
  const { messages } = inbound.parse(withModel({ contents }, 'any/model', false)).toChatRequest()
  expect(messages).toHaveLength(2)
  return messages[1] as AssistantMessage
}

test('audio read from a cache is among the cached tokens', () => {
  const usage = { ...noUsage, input: 1, cacheRead: 2, cacheReadAudio: 4 }
  const [, events] = answers[0]!
  expect(inbound.whole(collect(events), usage, bill, context)).toMatchObject({
    usageMetadata: { promptTokenCount: 7, cachedContentTokenCount: 6, totalTokenCount: 7 },
  })
})
