// What a request refers to is looked for without keeping others waiting.

import { expect, test } from 'bun:test'
import { wholeAccount } from '../../src/accounts/account.ts'
import { Scheduler } from '../../src/scheduler/scheduler.ts'
import { recall } from '../../src/responses/recall.ts'

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
