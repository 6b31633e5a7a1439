// Every recorded answer of every protocol, told to clients of the Responses protocol: streamed and whole, read by the
// official client, and understood when it comes back with the next turn.

import { describe, expect, test } from 'bun:test'
import { ResponseStream } from 'openai/lib/responses/ResponseStream'
import { type ChatEvent, type Choice, collect } from '../../../src/conversation/event.ts'
import type { AssistantMessage, JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { endedAnswers } from '../recorded-hosts.ts'
import { assertStream, callOf, eventsIn, framesFor, wholeFor } from './inbound-support.ts'

const answers = endedAnswers()

function firstChoice(events: readonly ChatEvent[]): Choice | undefined {
  return collect(events).choices.find(({ index }) => index === 0)
}

/** What the official client makes of a stream. */
async function read(frames: readonly Frame[]): Promise<{ text: unknown; response: JsonObject }> {
  const lines = frames.map(({ data }) => `${data}\n`).join('')
  const final = await ResponseStream.fromReadableStream(new Response(lines).body!).finalResponse()
  // What the client adds of its own: the texts joined, and read as JSON where it was told to.
  const own = ['output_text', 'output_parsed', 'parsed', 'parsed_arguments']
  const plain: unknown = JSON.parse(
    JSON.stringify(final, (key, value: unknown) => (own.includes(key) ? undefined : value)),
  )
  return { text: final.output_text, response: plain as JsonObject }
}

/** The output, its texts joined and in the order in which a whole answer tells it. */
function contentOf(response: JsonObject) {
  const output = response['output'] as JsonObject[]
  const ofType = (type: string) => output.filter((item) => item['type'] === type)
  const parts = ofType('message').flatMap((item) => item['content'] as JsonObject[])
  const joined = (field: string) => parts.map((part) => part[field] ?? '').join('')
  return {
    text: joined('text'),
    refusal: joined('refusal'),
    calls: ofType('function_call').map(({ call_id, name, arguments: json }) => ({ call_id, name, json })),
    images: ofType('image_generation_call').map(({ result }) => result),
    reasoning: ofType('reasoning').flatMap((item) => [
      ...(item['summary'] as JsonObject[]),
      ...((item['content'] as JsonObject[] | undefined) ?? []),
    ]),
    status: response['status'],
    usage: response['usage'],
  }
}

describe.each(answers)('%s', (_, events) => {
  const said = firstChoice(events)

  test('is a stream as it should be, which the official client reads to its end', async () => {
    const frames = framesFor(events)
    assertStream(frames)
    const { response } = eventsIn(frames).at(-1)!
    const final = await read(frames)
    expect(final.response).toEqual(response as JsonObject)
    expect(final.text).toBe(said?.text ?? '')
  })
})

const finished = answers.flatMap(([name, events]) => {
  const said = firstChoice(events)
  return said?.finish === undefined ? [] : [[name, events, said] as const]
})

describe.each(finished)('%s, which says why it ended,', (_, events, said) => {
  test('says the same as a whole', () => {
    const streamed = eventsIn(framesFor(events)).at(-1)!['response'] as JsonObject
    const whole = wholeFor(events)
    expect(contentOf(whole)).toEqual(contentOf(streamed))
    const { output: _streamed, ...about } = streamed
    const { output: _whole, ...aboutWhole } = whole
    expect(aboutWhole).toEqual(about)
  })

  test.each(['streamed', 'whole'] as const)('is understood when it comes back as it was %s', (how) => {
    const answer =
      how === 'whole' ? wholeFor(events) : (eventsIn(framesFor(events)).at(-1)!['response'] as JsonObject)
    const results = said.toolCalls.map(({ id }) => ({
      type: 'function_call_output',
      call_id: id,
      output: 'done',
    }))
    const input = [
      { role: 'user', content: 'Hello' },
      ...(answer['output'] as JsonObject[]),
      ...results,
      { role: 'user', content: 'Go on.' },
    ]
    const { messages, nativeItems = [] } = callOf({ input }).request.toChatRequest()
    const turns = messages.filter((message): message is AssistantMessage => message.role === 'assistant')
    expect(turns.length).toBeLessThanOrEqual(1)
    const text = (turns[0]?.content ?? []).map((part) => ('text' in part ? part.text : '')).join('')
    expect(text).toBe((said.text ?? '') + (said.refusal ?? ''))
    expect(turns[0]?.toolCalls ?? []).toEqual(said.toolCalls)
    const reasoning = (turns[0]?.reasoning ?? []).toSorted((a, b) => a.index - b.index)
    // A compacted conversation comes back as the item that it is, for the provider that made it.
    const isCompaction = ({ id }: ReasoningDetail) => id?.startsWith('cmp_') === true
    expect(reasoning).toEqual(said.reasoning.filter((detail) => !isCompaction(detail)))
    expect(nativeItems.map(({ item }) => item['encrypted_content'] as string)).toEqual(
      said.reasoning.filter(isCompaction).map(({ data = '' }) => data),
    )
  })
})
