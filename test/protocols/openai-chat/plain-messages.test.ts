// Messages of the usual shape are taken without asking the schema: it would take every one of them, and what it refuses
// is refused under the same name.

import { describe, expect, test } from 'bun:test'
import { GatewayError } from '../../../src/errors/errors.ts'
import { inbound } from '../../../src/protocols/openai-chat/inbound/inbound.ts'
import { chatMessage } from '../../../src/protocols/openai-chat/inbound/schema.ts'
import { outbounds } from '../../../src/protocols/registry.ts'
import { assistant, chat, targetsLike, user } from '../../support/conversation.ts'

const values = ['', 'x', null, 1, {}, [], true, undefined, 'y'.repeat(256), 'y'.repeat(257)]
const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }
const usual = [
  { role: 'user', content: 'Where?' },
  { role: 'assistant', content: null, tool_calls: [call] },
  { role: 'assistant', content: 'Let me see.', tool_calls: [call, { ...call, id: 'd', type: null }] },
  { role: 'tool', tool_call_id: 'c', content: 'Here.' },
]

/** The message with every field of it, and of its calls, replaced by other values or joined by one more. */
function* changed(message: Record<string, unknown>): Generator<Record<string, unknown>> {
  yield message
  for (const value of values) {
    for (const name of [...Object.keys(message), 'name', 'refusal', 'is_error', 'other'])
      yield { ...message, [name]: value }
    if (!('tool_calls' in message)) continue
    for (const name of [...Object.keys(call), 'extra_content', 'other'])
      yield { ...message, tool_calls: [call, { ...call, [name]: value }] }
    for (const name of ['name', 'arguments', 'other'])
      yield { ...message, tool_calls: [{ ...call, function: { ...call.function, [name]: value } }] }
  }
}

function fault(messages: unknown[]): string | undefined {
  try {
    inbound.parse({ model: 'lab/m', messages: JSON.parse(JSON.stringify(messages)) })
    return undefined
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return error.details.param ?? error.code
  }
}

describe('a message of a conversation', () => {
  test('is taken exactly when the schema takes it', () => {
    // Answered before, so that a result always has its call.
    const before = [{ role: 'assistant', content: '', tool_calls: [{ ...call }, { ...call, id: 'x' }] }]
    let refused = 0
    for (const message of usual.flatMap((each) => [...changed(each)])) {
      const isTaken = chatMessage.safeParse(JSON.parse(JSON.stringify(message))).success
      const param = fault([...before, message])
      // An unknown call is refused by another rule.
      if (isTaken && param === 'messages[1].tool_call_id') continue
      expect({ message, isTaken: param === undefined }).toEqual({ message, isTaken })
      if (isTaken) continue
      refused++
      expect(param).toStartWith('messages[1]')
    }
    expect(refused).toBeGreaterThan(50)
  })
})

describe('a long conversation', () => {
  const messages = Array.from({ length: 5_000 }, (_, at) =>
    at % 2 === 0 ? user(`${at}`) : assistant(`${at}`),
  )
  for (const id of ['anthropic-messages', 'bedrock-converse', 'gemini'] as const)
    test(`is lowered for ${id} with pauses, to the same request`, () => {
      const outbound = outbounds[id]
      const request = chat({ messages })
      const target = targetsLike({
        model: 'claude-sonnet-4-5',
        provider: id,
        quirks: outbound.defaultQuirks,
        maxOutputTokens: 1000,
      })()
      const steps = outbound.lowerSteps!(request, target)
      let pauses = 0
      let step = steps.next()
      while (!step.done) {
        pauses++
        step = steps.next()
      }
      expect(pauses).toBeGreaterThan(15)
      expect(step.value).toEqual(outbound.lower(request, target))
    })
})
