// What a model thought goes back to it unchanged: answers collected, replayed, and compared with recorded follow-ups.

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { collect } from '../../../src/conversation/event.ts'
import type { JsonObject, ReasoningDetail } from '../../../src/conversation/request.ts'
import { inbound as chatInbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { outbound } from '../../../src/protocols/openai-responses/outbound/outbound.ts'
import { call, chat, result, textPart, user } from '../../support/conversation.ts'
import { cases } from '../../support/recordings.ts'
import type { ResponsesQuirks } from '../../../src/protocols/openai-responses/outbound/quirks.ts'
import { type Answer, hostsOf, recordedAnswers, responseIn, saidBy } from '../recorded-hosts.ts'
import { asMessage, assistant, choiceOf, itemsOfTurn, nextTurn, target } from './support.ts'

const all = recordedAnswers(hostsOf('openai-responses'))
  .filter(saidBy)
  .map((answer) => ({ quirks: answer.host.quirks as Partial<ResponsesQuirks>, answer }))

/** The items as they ended in the stream, or in the body: what a client of the protocol would send back. */
function finishedItems(answer: Answer): JsonObject[] {
  if (answer.frames === undefined) return responseIn(answer).output
  const items: JsonObject[] = []
  for (const { type, output_index, item } of answer.chunks) {
    if (type === 'response.output_item.done') items[output_index as number] = item as JsonObject
  }
  return items.filter((item) => item !== undefined)
}

/** Reasoning that means something to its provider: encrypted, or in its own words. */
function carries(item: JsonObject): boolean {
  const worded = Array.isArray(item.content) && item.content.length > 0
  return (
    (item.type === 'reasoning' || item.type === 'compaction') &&
    (typeof item.encrypted_content === 'string' || worded)
  )
}

/** What of an item must come back: its state at the provider and empty lists say nothing. */
function essence(item: JsonObject): JsonObject {
  const { status: _, content, ...rest } = item
  return Array.isArray(content) && content.length > 0 ? { ...rest, content } : rest
}

describe('reasoning', () => {
  const thinkers = all.filter(({ answer }) => finishedItems(answer).some(carries))

  test('is in the recordings encrypted, summarised, in plain words, and compacted', () => {
    expect(thinkers.length).toBeGreaterThan(30)
    const details = thinkers.flatMap(({ answer }) => choiceOf(answer.events).reasoning)
    const types = new Set(details.map((detail) => detail.type))
    expect([...types].toSorted()).toEqual(['reasoning.encrypted', 'reasoning.summary', 'reasoning.text'])
    expect(new Set(details.map((detail) => detail.format))).toEqual(
      new Set(['openai-responses-v1', 'azure-openai-responses-v1', 'xai-responses-v1', 'unknown']),
    )
  })

  test.each(thinkers.map((thinker) => [thinker.answer.name, thinker] as const))(
    'of %s goes back item by item, byte for byte',
    (_, { quirks, answer }) => {
      const { body, warnings } = outbound.lower(nextTurn(choiceOf(answer.events)), target(quirks))
      const sent = itemsOfTurn(body).filter((item) => item.type === 'reasoning' || item.type === 'compaction')
      expect(sent).toEqual(finishedItems(answer).filter(carries).map(essence))
      expect(warnings).toEqual([])
    },
  )

  test.each(thinkers.map((thinker) => [thinker.answer.name, thinker] as const))(
    'of %s stands where it stood among the items that go back',
    (_, { quirks, answer }) => {
      const { body } = outbound.lower(nextTurn(choiceOf(answer.events)), target(quirks))
      // The messages of a turn are joined; its calls and its reasoning keep their order.
      const orderOf = (items: readonly JsonObject[]) => {
        const order = items
          .filter((item) => item.type !== 'reasoning' || carries(item))
          .flatMap((item) => {
            if (item.role === 'assistant' || item.type === 'message') return ['message']
            if (item.type === 'function_call') return [`call ${item.call_id}`]
            return item.type === 'reasoning' || item.type === 'compaction' ? [String(item.type)] : []
          })
        return order.filter((kind, at) => kind !== 'message' || order.indexOf(kind) === at)
      }
      const original = finishedItems(answer)
      if (original.filter((item) => item.type === 'message').length > 1) return
      expect(orderOf(itemsOfTurn(body))).toEqual(orderOf(original))
    },
  )

  test.each(thinkers.map((thinker) => [thinker.answer.name, thinker] as const))(
    "of %s survives a client of chat completions that echoes the assistant's message",
    (_, { quirks, answer }) => {
      const choice = choiceOf(answer.events)
      const bill = {
        cost: '0',
        lines: { input: '0', cache_read: '0', cache_write: '0', output: '0', reasoning: '0', tools: '0' },
      }
      const context = {
        id: 'chatcmpl-1',
        model: 'lab/m',
        created: 0,
        includeUsage: true,
        warnings: [],
        extra: {},
      }
      const whole = chatInbound.whole(collect(answer.events), collect(answer.events).usage!, bill, context)
      const message = (whole.choices as JsonObject[])[0]!.message!
      const results = choice.toolCalls.map((made) => ({
        role: 'tool',
        tool_call_id: made.id,
        content: 'done',
      }))
      const messages = [
        { role: 'user', content: 'Hello' },
        message,
        ...results,
        { role: 'user', content: 'Go on.' },
      ]
      const echoed = chatInbound.parse({ model: 'lab/m', messages }).toChatRequest()
      expect(outbound.lower(echoed, target(quirks)).body.input).toEqual(
        outbound.lower(nextTurn(choice), target(quirks)).body.input!,
      )
    },
  )
})

/** Two recorded steps of one conversation: the answer to the first is in the request of the second. */
const steps: readonly (readonly [string, string, string])[] = [
  [
    'xai-responses',
    'stream-tool-reasoning-sig--grok-4.3--rub52ce85',
    'stream-tool-reasoning-sig-roundtrip--grok-4.3--rub091acb',
  ],
  [
    'xai-responses',
    'stream-tool-reasoning-sig-roundtrip--grok-4.3--rub091acb',
    'stream-tool-result-reasoning-sig-roundtrip--grok-4.3--rub7e1391',
  ],
  [
    'xai-responses',
    'json-tool-reasoning-sig--grok-4.3--rubf95234',
    'json-tool-result-reasoning-sig-roundtrip--grok-4.3--rub21ca2c',
  ],
  [
    'xai-responses',
    'json-tool-result-reasoning-sig-roundtrip--grok-4.3--rub21ca2c',
    'json-tool-reasoning-sig-roundtrip--grok-4.3--rubf4a777',
  ],
  [
    'xai-responses',
    'json-tool-reasoning-sig-roundtrip--grok-4.3--rubf4a777',
    'json-tool-result-reasoning-sig-roundtrip--grok-4.3--rub9e63ff',
  ],
  [
    'deepseek-responses',
    'stream-tool-reasoning--deepseek-v4-flash--paif504a2',
    'stream-tool-result--deepseek-v4-flash--pai223bef',
  ],
  [
    'bedrock-mantle-responses',
    'stream-tool-reasoning-sig--openai.gpt-5.6-luna--pai86f1b8',
    'stream-cache-write-reasoning-sig-roundtrip--openai.gpt-5.6-luna--pai33a7d6',
  ],
]

describe('a recorded follow-up', () => {
  test.each(steps)('of %s: the answer to %s goes back as in %s', (folder, first, second) => {
    const { quirks, answer } = all.find(({ answer }) => answer.name.includes(first))!
    const followUp = cases(folder).find((recorded) => recorded.id === second)!
    const { body } = outbound.lower(nextTurn(choiceOf(answer.events)), target(quirks))
    const sent = itemsOfTurn(body).map((item) => plainItem(item))
    const recorded = (followUp.request!.input as JsonObject[]).map((item) => plainItem(item))
    // Everything that was sent stands in the recorded request, in a row.
    const start = recorded.findIndex((item) => Bun.deepEquals(item, sent[0]))
    expect(start).toBeGreaterThanOrEqual(0)
    expect(recorded.slice(start, start + sent.length)).toEqual(sent)
  })

  /** Without what clients may leave out (ids) or add: nulls, and call ids that one of them makes longer. */
  function plainItem(item: JsonObject): JsonObject {
    const kept = Object.entries(item).filter(([name, value]) => name !== 'id' && value !== null)
    const plain = Object.fromEntries(kept) as JsonObject
    const callId = String(plain.call_id ?? '')
      .split('|')
      .at(-1)!
    return plain.call_id === undefined
      ? plain
      : { ...plain, call_id: callId.startsWith('resp_') ? 'call_1' : callId }
  }
})

describe('where reasoning stands', () => {
  const thought = (index: number): ReasoningDetail => ({
    type: 'reasoning.encrypted',
    format: 'openai-responses-v1',
    index,
    id: `rs_${index}`,
    data: `secret ${index}`,
  })
  const order = (reasoning: readonly ReasoningDetail[], text: string, calls: number) => {
    const toolCalls = Array.from({ length: calls }, (_, n) => call(`call_${n}`))
    const content = text === '' ? [] : [textPart(text)]
    const messages = [
      user('Hi'),
      assistant({ content, reasoning, toolCalls }),
      ...toolCalls.map(({ id }) => result(id, 'ok')),
    ]
    return itemsOfTurn(outbound.lower(chat({ messages }), target()).body).map(
      (item) => item.id ?? item.call_id ?? 'message',
    )
  }

  test.each([
    // the indices     text   calls  the items that go back
    [[0], '', 1, ['rs_0', 'call_0']],
    [[0], 'Hm', 1, ['rs_0', 'message', 'call_0']],
    [[0, 2], '', 2, ['rs_0', 'call_0', 'rs_2', 'call_1']],
    [[0, 2], 'Hm', 1, ['rs_0', 'message', 'rs_2', 'call_0']],
    [[1], 'Hm', 1, ['message', 'rs_1', 'call_0']],
    // A client that numbered anew: all reasoning comes first.
    [[0, 1], '', 2, ['rs_0', 'rs_1', 'call_0', 'call_1']],
    // Nothing it could have led to stands behind it: it goes before the last item.
    [[7], 'Hm', 0, ['rs_7', 'message']],
  ] as const)('indices %p, text %p, %p calls', (indices, text, calls, expected) => {
    expect(order(indices.map(thought), text, calls)).toEqual([...expected])
  })

  test('an answer of nothing but reasoning is left out with a warning: the provider refuses it alone', () => {
    const messages = [user('Hi'), assistant({ reasoning: [thought(0)] }), user('And?')]
    const { body, warnings } = outbound.lower(chat({ messages }), target())
    expect(itemsOfTurn(body)).toEqual([])
    expect(warnings.map(({ param }) => param)).toEqual(['messages[1].reasoning_details'])
  })

  test('whatever indices a client sends, no reasoning is lost, doubled, or last', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.integer({ min: -5, max: 40 }), { maxLength: 6 }),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        (indices, calls, spoken) => {
          const items = order(indices.map(thought), spoken ? 'Hm' : '', calls)
          const expected = [...indices.map((n) => `rs_${n}`), ...(spoken ? ['message'] : [])]
          expected.push(...Array.from({ length: calls }, (_, n) => `call_${n}`))
          expect([...items].toSorted()).toEqual(expected.toSorted())
          expect(String(items.at(-1))).not.toStartWith('rs_')
        },
      ),
      { numRuns: 200 },
    )
  })
})

describe('reasoning that cannot go back', () => {
  const detail = (changes: Partial<ReasoningDetail>): ReasoningDetail => ({
    type: 'reasoning.encrypted',
    format: 'openai-responses-v1',
    index: 0,
    id: 'rs_1',
    data: 'secret',
    ...changes,
  })
  test.each([
    [
      'made by Claude',
      detail({ type: 'reasoning.text', format: 'anthropic-claude-v1', text: 'Hm', signature: 's' }),
    ],
    ['encrypted by xAI', detail({ format: 'xai-responses-v1' })],
    ['encrypted by Azure', detail({ format: 'azure-openai-responses-v1' })],
    ['in words of unknown origin', detail({ type: 'reasoning.text', format: null, text: 'Hm' })],
    [
      'a summary without what it summarises',
      { type: 'reasoning.summary', format: 'openai-responses-v1', index: 0, id: 'rs_1', summary: 'Hm' },
    ],
  ] as const)('%s is left out with a warning', (_, foreign) => {
    const turn = assistant({ content: [textPart('Yes.')], reasoning: [foreign as ReasoningDetail] })
    const { body, warnings } = outbound.lower(chat({ messages: [user('Hi'), turn] }), target())
    expect(itemsOfTurn(body)).toEqual([
      { role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] },
    ])
    expect(warnings.map(({ param }) => param)).toEqual(['messages[1].reasoning_details'])
  })

  test('leaves the reasoning beside it whole', () => {
    const reasoning = [detail({ format: 'xai-responses-v1', id: 'x' }), detail({ index: 1 })]
    const turn = assistant({ content: [textPart('Yes.')], reasoning })
    const { body } = outbound.lower(chat({ messages: [user('Hi'), turn] }), target())
    expect(itemsOfTurn(body)[0]).toEqual({
      type: 'reasoning',
      id: 'rs_1',
      summary: [],
      encrypted_content: 'secret',
    })
  })
})

test('several items of reasoning under one id stay apart', () => {
  // xAI gave two items of one answer the same id (recorded with a web search between them).
  const { quirks, answer } = all.find(({ answer }) => answer.name.includes('rub87b1d7'))!
  const choice = choiceOf(answer.events)
  const sent = outbound.lower(chat({ messages: [user('Hi'), asMessage(choice)] }), target(quirks))
  const ids = itemsOfTurn(sent.body).flatMap((item) => (item.type === 'reasoning' ? [item.id] : []))
  expect(ids.length).toBe(4)
  expect(new Set(ids).size).toBe(3)
})
