// Texts that stand beside each other, such as the blocks of a tool's result, do not run together where a provider takes
// one text; those of an answer, which may be cut in the middle of a word, go on where they were cut.

import { expect, test } from 'bun:test'
import type { ContentPart, Message } from '../../src/conversation/request.ts'
import { outbound as cohere } from '../../src/protocols/cohere/cohere.ts'
import { outbound as gemini } from '../../src/protocols/gemini/outbound/outbound.ts'
import { outbound as ollama } from '../../src/protocols/ollama/ollama.ts'
import { assistant, call, chat, textPart, user } from '../support/conversation.ts'
import { target as cohereTarget } from './cohere/support.ts'
import { targetOf as geminiTarget } from './gemini/support.ts'
import { target as ollamaTarget } from './ollama/support.ts'

const texts = (...list: string[]): ContentPart[] => list.map(textPart)

const messages: Message[] = [
  { role: 'system', content: texts('Be short.', '', 'Be kind.') },
  user('Look.'),
  assistant('', { content: texts('I lo', 'ok.'), toolCalls: [call('c', 'f')] }),
  { role: 'tool', toolCallId: 'c', content: texts('row 1', '', 'row 2'), isError: false },
]

const bodies: Record<string, () => unknown> = {
  Cohere: () => cohere.lower(chat({ messages }), cohereTarget()).body,
  Gemini: () => gemini.lower(chat({ messages }), geminiTarget('gemini-2.5-pro')).body,
  Ollama: () => ollama.lower(chat({ messages }), ollamaTarget()).body,
}

test.each(Object.entries(bodies))('%s', (_, body) => {
  const sent = JSON.stringify(body())
  expect(sent).toContain('"row 1\\nrow 2"')
  expect(sent).toContain('"I look."')
  expect(sent).toMatch(/"Be short\.\\nBe kind\."|"Be short\."\},\{"text":"Be kind\."/)
})
