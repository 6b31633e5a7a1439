import { expect, test } from 'bun:test'
import { LRUCache } from 'lru-cache'
import { SignInLimits } from '../../src/accounts/identity/sign-in-limits.ts'
import { atMost } from '../../src/async/async.ts'

test('a cache holds so many entries, and drops the least recently used', () => {
  const cache = new LRUCache<string, number>(atMost(2))
  cache.set('a', 1).set('b', 2)
  cache.get('a')
  cache.set('c', 3)
  expect([...cache.entries()].toSorted()).toEqual([
    ['a', 1],
    ['c', 3],
  ])
})

test('limits of sign-in take no memory before there is anything to remember', async () => {
  const limits = {
    signInFailures: 5,
    signInFailuresPerNetwork: 50,
    signUpsPerNetwork: 5,
    signUps: 50,
    mailsPerAddress: 3,
  }
  const before = taken()
  const unused = new SignInLimits(limits, Date.now)
  // Room for 100,000 names in each of its six caches would be 24 MB.
  expect(taken() - before).toBeLessThan(1_000_000)
  expect(await unused.mail('anna@example.org')).toBe(true)
})

/** Bytes of what is alive. */
function taken(): number {
  Bun.gc(true)
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
