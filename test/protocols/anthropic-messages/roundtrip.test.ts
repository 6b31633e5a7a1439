// What Claude thought goes back to it unchanged: answers collected, replayed, and compared with recorded follow-ups.

import { describe, expect, test } from 'bun:test'
import { collect } from '../../../src/conversation/event.ts'
import type { WebSearchDeclaration } from '../../../src/conversation/gateway-tools.ts'
import type { ChatRequest, JsonObject, Message } from '../../../src/conversation/request.ts'
import { outbound } from '../../../src/protocols/anthropic-messages/outbound/outbound.ts'
import { chat, webSearch } from '../../support/conversation.ts'
import { claudeMessage, hostsOf, recordedAnswers, saidBy } from '../recorded-hosts.ts'
import { target } from './support.ts'

const replies = recordedAnswers(hostsOf('anthropic-messages'))
  .filter((answer) => saidBy(answer)?.counted !== undefined)
  .map((answer) => [answer.name, answer, collect(answer.events).choices[0]!] as const)

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

/** The thinking of one recorded answer, as the provider would want it back. */
function blocksToReturn(answer: (typeof replies)[number][1]): string[] {
  return claudeMessage(answer)
    .content.filter(isThought)
    .map(({ type, thinking, signature, data }) =>
      JSON.stringify(type === 'thinking' ? { type, thinking, signature } : { type, data }),
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

  test.each(thinkers)('of %s goes back byte for byte, first in its turn', (_, answer, choice) => {
    const { body, warnings } = outbound.lower(nextTurn(choice), target())
    const turn = (body.messages as JsonObject[])[1]!.content as JsonObject[]
    const thoughts = turn.filter(isThought)
    expect(thoughts.map((block) => JSON.stringify(block))).toEqual(blocksToReturn(answer))
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
    const recorded = (second![1].recorded.request!['messages'] as JsonObject[])[3]!
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

describe('what a search of its own found', () => {
  const search: WebSearchDeclaration = { ...webSearch, engine: 'native' }

  test('goes back, encrypted, where the next turn may search as well', () => {
    for (const [name, answer, choice] of replies) {
      const { content } = claudeMessage(answer)
      const ids = new Set(
        content.flatMap(({ type, tool_use_id }) => (type === 'web_search_tool_result' ? [tool_use_id] : [])),
      )
      // A search that has not been answered cannot go back by itself.
      const found = content.flatMap(
        ({ type, id, name, input, tool_use_id, content: pages }): JsonObject[] => {
          if (type === 'server_tool_use' && ids.has(id))
            return [{ type, id: id!, name: name!, input: input! }]
          return type === 'web_search_tool_result'
            ? [{ type, tool_use_id: tool_use_id!, content: pages! }]
            : []
        },
      )
      const { messages } = outbound.lower(nextTurn(choice, { webSearch: search }), target()).body
      const back = (messages as { content: JsonObject[] }[])[1]!.content
      expect([name, back.filter(({ type }) => /^server_tool_use$|_tool_result$/.test(String(type)))]).toEqual(
        [name, found],
      )
      const without = outbound.lower(nextTurn(choice), target()).body
      expect(JSON.stringify(without['messages'])).not.toContain('web_search_tool_result')
    }
  })
})
