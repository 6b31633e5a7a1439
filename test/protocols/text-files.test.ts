// A text file reaches every provider: as a file where its protocol has files of text, or as the words in it.

import { describe, expect, test } from 'bun:test'
import type { ContentPart } from '../../src/conversation/request.ts'
import { protocolIds } from '../../src/protocols/protocol.ts'
import { outbounds } from '../../src/protocols/registry.ts'
import { assistant, call, chat, targetsLike, user } from '../support/conversation.ts'

const words = 'Höhe: 8,849 m'
const file = (mediaType: string, bytes = Buffer.from(words)): ContentPart => ({
  kind: 'file',
  source: { kind: 'base64', mediaType, data: bytes.toString('base64') },
  filename: 'everest.txt',
  cache: undefined,
})

function bodyOf(id: (typeof protocolIds)[number], part: ContentPart, as: 'said' | 'result'): string {
  const outbound = outbounds[id]
  const target = targetsLike({ model: 'm', provider: 'p', quirks: outbound.defaultQuirks as object })()
  const messages =
    as === 'said'
      ? [{ role: 'user' as const, content: [part] }]
      : [
          user('Look.'),
          assistant('', { toolCalls: [call('c', 'f')] }),
          { role: 'tool' as const, toolCallId: 'c', content: [part], isError: false },
        ]
  return JSON.stringify(outbound.lower(chat({ messages }), target).body)
}

const types = [
  'text/plain',
  'text/csv; charset=utf-8',
  'TEXT/MARKDOWN',
  'text/x-python',
  'application/json',
  'application/ld+json',
  'application/xml',
  'application/yaml',
  'application/x-sh',
  'application/toml',
]

describe.each(protocolIds)('%s', (id) => {
  test.each(types)('takes a file of %s', (type) => {
    for (const as of ['said', 'result'] as const) {
      const body = bodyOf(id, file(type), as)
      expect(body.includes(words) || body.includes(Buffer.from(words).toString('base64'))).toBe(true)
    }
  })

  test('is not sent bytes as words', () => {
    const bytes = Buffer.from([0xff, 0xfe, 0x00, 0x81])
    let body = ''
    try {
      body = bodyOf(id, file('text/plain', bytes), 'said')
    } catch {
      return
    }
    expect(body).not.toContain('\uFFFD')
  })
})

test('servers of chat completions, Ollama and Cohere read the words themselves', () => {
  for (const id of ['openai-chat', 'ollama', 'cohere'] as const)
    for (const as of ['said', 'result'] as const)
      expect(bodyOf(id, file('application/json'), as)).toContain(words)
  expect(bodyOf('openai-chat', file('text/plain'), 'said')).toContain(`everest.txt:\\n\\n${words}`)
})
