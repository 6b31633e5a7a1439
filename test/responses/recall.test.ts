// What a request refers to is looked for without keeping others waiting.

import { expect, test, describe } from 'bun:test'
import { wholeAccount } from '../../src/accounts/account.ts'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { recall, ParsedResponses } from '../../src/responses/keep.ts'
import type { Conversation, WrittenResponse } from '../../src/responses/response-store.ts'

test('others have their turns while thousands of responses are looked for that a request names', async () => {
  const references = Array.from({ length: 5_000 }, (_, at) => ({ id: `rs_${at}_0`, response: `resp_${at}` }))
  let turnsOfOthers = 0
  let isLooking = true
  const others = () => {
    turnsOfOthers++
    if (isLooking) setImmediate(others)
  }
  setImmediate(others)
  const responses = {
    /** Takes as long as a look into the database. */
    find: async () => {
      const until = performance.now() + 0.02
      while (performance.now() < until);
      return undefined
    },
    conversation: () => Promise.reject(new Error('nothing is continued')),
  }
  const room = 1_000_000
  const permit = () => undefined
  const viewer = wholeAccount('anna')
  const mayUse = () => true
  const asked = { viewer, mayUse, previous: undefined, references, room, maxBodyBytes: room, permit }
  const { items } = await recall(responses, new Scheduler(), asked)
  isLooking = false
  expect(items.size).toBe(0)
  expect(turnsOfOthers).toBeGreaterThan(2)
})

// What is stored as text comes back as what was stored, whatever pieces it lies in.

const input = Array.from({ length: 3_000 }, (_, at) => ({
  type: 'message',
  id: `i${at}`,
  text: 'río 🌊'.repeat(9),
}))
const answer = { id: 'resp_a', output: [{ type: 'message', text: 'To the weir.' }] }

const written = (pieces: (text: string) => string[]): WrittenResponse => ({
  id: 'resp_a',
  model: 'a/m',
  previous: undefined,
  size: 1,
  input: pieces(JSON.stringify(input)),
  answer: pieces(JSON.stringify(answer)),
})

const anna = wholeAccount('anna')

const atOnce = () => undefined

const inOne = (text: string) => [text]
const inMany = (text: string) => text.match(/.{1,1000}/gsu)!

test.each([
  ['one piece', inOne],
  ['many pieces', inMany],
])('a response of %s is parsed, alone and in its conversation', async (_, pieces) => {
  const conversation: Conversation<WrittenResponse> = { kind: 'whole', responses: [written(pieces)] }
  const parsed = new ParsedResponses(
    { find: () => written(pieces), sizeOf: () => 1, conversation: () => conversation },
    new Scheduler(),
  )
  const expected = { id: 'resp_a', model: 'a/m', previous: undefined, size: 1, input, answer }
  expect(await parsed.find(anna, 'resp_a', atOnce)).toEqual(expected)
  expect(await parsed.conversation(anna, 'resp_a', 1_000_000, atOnce)).toEqual({
    kind: 'whole',
    responses: [expected],
  })
})

test('what is not there is not there', async () => {
  const parsed = new ParsedResponses(
    { find: () => undefined, sizeOf: () => undefined, conversation: (_, id) => ({ kind: 'missing', id }) },
    new Scheduler(),
  )
  expect(await parsed.find(anna, 'resp_a', atOnce)).toBeUndefined()
  expect(await parsed.conversation(anna, 'resp_a', 1, atOnce)).toEqual({ kind: 'missing', id: 'resp_a' })
})

describe('what is large', () => {
  const large = 1_000_000
  /** A store that notes what is read of it, and permission that is given when the test says so. */
  function waiting() {
    const read: string[] = []
    const { promise, resolve } = Promise.withResolvers<void>()
    const turns: number[] = []
    const parsed = new ParsedResponses(
      {
        find: () => (read.push('response'), written(inOne)),
        sizeOf: () => large,
        conversation: (_account, _id, maxBytes) =>
          maxBytes < large
            ? { kind: 'too-large', bytes: large }
            : (read.push('conversation'), { kind: 'whole', responses: [written(inOne)] }),
      },
      new Scheduler(),
    )
    const turn = (bytes: number) => {
      turns.push(bytes)
      return promise
    }
    return {
      parsed,
      read,
      turns,
      turn,
      permit: resolve,
      settle: () => new Promise((done) => setImmediate(done)),
    }
  }

  test('is not read before its turn, alone or in a conversation', async () => {
    const { parsed, read, turns, turn, permit, settle } = waiting()
    const found = parsed.find(anna, 'resp_a', turn)
    const conversation = parsed.conversation(anna, 'resp_a', 2 * large, turn)
    await settle()
    expect(turns).toEqual([large, large])
    expect(read).toEqual([])
    permit()
    expect((await found)?.input).toEqual(input)
    expect((await conversation).kind).toBe('whole')
    expect(read.toSorted()).toEqual(['conversation', 'response'])
  })

  test('waits for nothing where it is too large to be read at all', async () => {
    const { parsed, turns, turn } = waiting()
    const conversation = await parsed.conversation(anna, 'resp_a', large - 1, turn)
    expect(conversation).toEqual({ kind: 'too-large', bytes: large })
    expect(turns).toEqual([])
  })
})
