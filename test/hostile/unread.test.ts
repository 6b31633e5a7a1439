// Clients that never read cost memory within bounds, and are charged what their answers cost: a slice of
// `bun run hostile`, which has two thousand of them.

import { expect, test } from 'bun:test'
import { measureUnread, mostUnreadMb, unreadFindingsOf } from './unread.ts'

test('G9: five hundred clients that never read their 200 kB take little memory, and are charged exactly (item 24)', async () => {
  const report = await measureUnread(500)
  expect(unreadFindingsOf(report, mostUnreadMb)).toEqual([])
  expect(report.grownMb).toBeGreaterThan(5)
}, 180_000)
