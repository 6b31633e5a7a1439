// What is stored as text comes back as what was stored, whatever pieces it lies in.

import { expect, test } from 'bun:test'
import { Turns } from '../../src/chat/streaming/turns.ts'
import { ParsedResponses } from '../../src/responses/parsed-responses.ts'
import type { Conversation, WrittenResponse } from '../../src/responses/response-store.ts'

const input = Array.from({ length: 3_000 }, (_, at) => ({
  type: 'message',
  id: `i${at}`,
  text: 'río 🌊'.repeat(9),
}))
const answer = { id: 'resp_a', output: [{ type: 'message', text: 'To the weir.' }] }

const written = (pieces: (text: string) => string[]): WrittenResponse => ({
  id: 'resp_a',
  previous: undefined,
  size: 1,
  input: pieces(JSON.stringify(input)),
  answer: pieces(JSON.stringify(answer)),
})

const inOne = (text: string) => [text]
const inMany = (text: string) => text.match(/.{1,1000}/gsu)!

test.each([
  ['one piece', inOne],
  ['many pieces', inMany],
])('a response of %s is parsed, alone and in its conversation', async (_, pieces) => {
  const conversation: Conversation<WrittenResponse> = { kind: 'whole', responses: [written(pieces)] }
  const parsed = new ParsedResponses(
    { find: () => written(pieces), conversation: () => conversation },
    new Turns(),
  )
  const expected = { id: 'resp_a', previous: undefined, size: 1, input, answer }
  expect(await parsed.find('anna', 'resp_a')).toEqual(expected)
  expect(await parsed.conversation('anna', 'resp_a', 1_000_000)).toEqual({
    kind: 'whole',
    responses: [expected],
  })
})

test('what is not there is not there', async () => {
  const parsed = new ParsedResponses(
    { find: () => undefined, conversation: (_, id) => ({ kind: 'missing', id }) },
    new Turns(),
  )
  expect(await parsed.find('anna', 'resp_a')).toBeUndefined()
  expect(await parsed.conversation('anna', 'resp_a', 1)).toEqual({ kind: 'missing', id: 'resp_a' })
})
