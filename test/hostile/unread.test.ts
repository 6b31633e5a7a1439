// Clients that never read cost memory within bounds, and are charged what their answers cost: a slice of
// `bun run hostile`, which has two thousand of them.

import { expect, test } from 'bun:test'
import { measureUnread, unreadFindingsOf } from './unread.ts'

/** For 500 of them 64 MB would be their share; what the calls themselves take, read or not, comes on top of it. */
const mostMb = 200

test('G9: five hundred clients that never read their 200 kB take little memory, and are charged exactly (item 24)', async () => {
  const report = await measureUnread(500)
  expect(unreadFindingsOf(report, mostMb)).toEqual([])
  expect(report.grownMb).toBeGreaterThan(5)
}, 180_000)
