// That a tool's call has failed reaches every provider: in the field that its protocol has for it, or in words.

import { expect, test } from 'bun:test'
import type { Message } from '../../src/conversation/request.ts'
import { protocolIds } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { assistant, call, chat, targetsLike, textPart, user } from '../support/conversation.ts'

function sentBy(id: (typeof protocolIds)[number], texts: readonly string[]): string {
  const outbound = outbounds[id]
  const messages: Message[] = [
    user('Look.'),
    assistant('', { toolCalls: [call('c', 'f')] }),
    { role: 'tool', toolCallId: 'c', content: texts.map(textPart), isError: true },
  ]
  const target = targetsLike({ model: 'm', provider: 'p', quirks: outbound.defaultQuirks as object })()
  return JSON.stringify(outbound.lower(chat({ messages }), target).body)
}

const inField = /"is_error":true|"status":"error"|\{"error":"/

test.each(protocolIds)('%s is told, once', (id) => {
  expect(sentBy(id, ['no such row'])).toMatch(new RegExp(`${inField.source}|"Error: no such row"`))
  // A result that says so itself is not told twice, and one without words is told all the same.
  expect(sentBy(id, ['Error: no such row'])).not.toContain('Error: Error')
  expect(sentBy(id, ['The call failed: no such row.'])).not.toContain('Error: The call')
  expect(sentBy(id, [])).toMatch(new RegExp(`${inField.source}|"Error: the call failed\\."`))
})
