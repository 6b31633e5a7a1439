// Reasoning that clients carry for us is a text that anybody can write: reading it takes no longer than it may.

import { describe, expect, test } from 'bun:test'
import { detailOfThinking } from '../../src/protocols/claude/content-blocks.ts'
import { detailsOf } from '../../src/protocols/openai-responses/inbound/items.ts'
import { seal } from '../../src/protocols/request/prompt-parts.ts'

const sealed = (json: string) => `weir.${Buffer.from(json).toString('base64url')}`
const many = 300_000
const listOf = (element: string, count = many) => `[${`${element},`.repeat(count - 1)}${element}]`

const read = (encrypted_content: string) =>
  detailsOf({ type: 'reasoning', summary: [{ text: 'Hm.' }], encrypted_content }, 0)
const shown = [{ type: 'reasoning.summary', format: null, index: 0, summary: 'Hm.' }]

describe('a reasoning item', () => {
  test('has the details that we sealed', () => {
    const details = [{ type: 'reasoning.text', format: null, index: 3, text: 'Hm.', signature: 's' }]
    expect(read(seal(details))).toEqual(details)
  })

  test.each([
    ['more details than any answer has', listOf('{"type":"x","format":null,"index":0}')],
    ['a fault in each of its details', listOf('{}', 100_000)],
    ['a fault in one of its details', '[{"type":"x","format":null,"index":0},{}]'],
    ['lists in lists', '['.repeat(many) + ']'.repeat(many)],
    ['no list', '{"length":1}'],
    ['no JSON', '[{'],
  ])('with %s has what it shows', (_, json) => {
    expect(read(sealed(json))).toEqual(shown)
  })
})

test('a thinking block whose signature holds more than any detail is taken as its maker’s', () => {
  const signature = sealed(`{"type":"reasoning.text","format":null,"more":${listOf('0')}}`)
  expect(detailOfThinking('Hm.', signature, 0)).toMatchObject({ format: 'anthropic-claude-v1', signature })
})
