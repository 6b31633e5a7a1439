// What Claude thought goes back to it unchanged: answers collected, replayed, and compared with recorded follow-ups.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { ChatRequest, JsonObject, Message } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { cases, framesOf, parseFrames } from '../../support/recordings.ts'
import { chat } from '../../support/conversation.ts'
import { target } from './support.ts'

const all = ['anthropic', 'vertex-anthropic'].flatMap(cases).filter((one) => one.status === 200)
const parser = () => outbound.parser(target())

const replies = all.map((one) => {
  const events = one.streamed
    ? parseFrames(parser(), framesOf([one.stream()]))
    : outbound.whole(one.response(), target())
  return [`${one.provider}/${one.id}`, one, collect(events).choices[0]!] as const
})

/** The next turn of a conversation: the answer as the assistant's message, its calls answered. */
function nextTurn(choice: (typeof replies)[number][2], extra: Partial<ChatRequest> = {}): ChatRequest {
  const results: Message[] = choice.toolCalls.map((call) => ({
    role: 'tool',
    toolCallId: call.id,
    content: [{ kind: 'text', text: 'done', cache: undefined }],
    isError: false,
  }))
  const user: Message = { role: 'user', content: [{ kind: 'text', text: 'Go on.', cache: undefined }] }
  return chat({
    messages: [
      user,
      {
        role: 'assistant',
        // A blank answer cannot be replayed (the API refuses blank text), but what was thought before it can.
        content: [{ kind: 'text', text: choice.text?.trim() ? choice.text : 'Yes.', cache: undefined }],
        reasoning: choice.reasoning,
        toolCalls: choice.toolCalls,
      },
      ...(results.length > 0 ? results : [user]),
    ],
    ...extra,
  })
}

const isThought = (block: JsonObject) => block.type === 'thinking' || block.type === 'redacted_thinking'

/** Thinking and calls of one recorded answer, as the provider would want them back. */
function blocksToReturn(one: (typeof replies)[number][1]): string[] {
  const blocks: JsonObject[] = []
  if (!one.streamed) blocks.push(...((one.response() as JsonObject).content as JsonObject[]))
  else {
    for (const frame of framesOf([one.stream()])) {
      const event = JSON.parse(frame.data)
      if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block }
      const block = blocks[event.index as number]
      if (event.delta?.type === 'thinking_delta') block!.thinking += event.delta.thinking
      if (event.delta?.type === 'signature_delta') block!.signature = event.delta.signature
    }
  }
  return blocks
    .filter(isThought)
    .map((block) =>
      block.type === 'thinking'
        ? JSON.stringify({ type: 'thinking', thinking: block.thinking, signature: block.signature })
        : JSON.stringify({ type: 'redacted_thinking', data: block.data }),
    )
}

describe('thinking', () => {
  const thinkers = replies.filter(([, , choice]) =>
    choice.reasoning.some((detail) => detail.type !== 'reasoning.summary'),
  )

  test('is in the recordings with text, without text, and redacted', () => {
    expect(thinkers.length).toBeGreaterThanOrEqual(10)
    const details = thinkers.flatMap(([, , choice]) => choice.reasoning)
    expect(details.some((detail) => detail.text === '' && detail.signature)).toBe(true)
    expect(details.some((detail) => detail.type === 'reasoning.encrypted')).toBe(true)
  })

  test.each(thinkers)('of %s goes back byte for byte, first in its turn', (_, one, choice) => {
    const { body, warnings } = outbound.lower(nextTurn(choice), target())
    const turn = (body.messages as JsonObject[])[1]!.content as JsonObject[]
    const thoughts = turn.filter(isThought)
    expect(thoughts.map((block) => JSON.stringify(block))).toEqual(blocksToReturn(one))
    expect(turn.slice(0, thoughts.length)).toEqual(thoughts)
    expect(warnings.filter((warning) => /reasoning/.test(warning.param))).toEqual([])
  })

  test('goes back into a real follow-up exactly as the client of the recording sent it', () => {
    // Two steps of one recorded tool loop: the answer of the first is in the request of the second.
    const [first, second] = ['btjdd47d3', 'btjcf3b7c'].map((id) =>
      replies.find(([name]) => name.includes(id))!,
    )
    const { body } = outbound.lower(nextTurn(first![2]), target())
    const sent = (body.messages as JsonObject[])[1]!
    const recorded = (second![1].request!.messages as JsonObject[])[3]!
    expect(sent).toEqual(recorded)
  })
})

describe('compaction', () => {
  const compacted = replies.filter(([name]) => name.includes('compaction'))

  test.each(compacted)('of %s goes back as a block, first in its turn', (_, __, choice) => {
    const context = { context_management: { edits: [{ type: 'compact_20260112' }] } }
    const { body } = outbound.lower(nextTurn(choice, { rest: context }), target())
    const turn = (body.messages as JsonObject[])[1]!.content as JsonObject[]
    expect(turn[0]).toEqual({ type: 'compaction', content: choice.reasoning[0]!.summary! })
    expect(body.context_management).toEqual(context.context_management)
  })

  test('is left out, with a warning, of a request that does not manage its context', () => {
    const { body, warnings } = outbound.lower(nextTurn(compacted[0]![2]), target())
    expect(JSON.stringify(body)).not.toContain('compaction')
    expect(warnings.map((warning) => warning.param)).toContain('messages[1].reasoning_details')
  })
})
