// Clients that never read cost memory within bounds, and are charged what their answers cost: a slice of
// `bun run hostile`, which has two thousand of them.

import { expect, test } from 'bun:test'
import { measureUnread, mostUnreadMb, unreadFindingsOf } from './unread.ts'

/**
 * Five hundred take less than 200 MB where a core is free. On cores that are all at work for others the runtime collects
 * late, and they took up to 363: the figure of two thousand is judged by `bun run hostile`, on a machine of its own.
 */
const mostMb = 2 * mostUnreadMb

test('G9: five hundred clients that never read their 200 kB take little memory, and are charged exactly (item 24)', async () => {
  const report = await measureUnread(500)
  expect(unreadFindingsOf(report, mostMb)).toEqual([])
  expect(report.grownMb).toBeGreaterThan(5)
}, 180_000)
