// G4 and G5: several processes on one file cannot overspend together, and no moment of it shows wrong sums.

import { expect, test } from 'bun:test'
import { usd } from '../../src/credits/money.ts'
import { budgets, conservation, nested, overspend, shares } from './contention.ts'

test('G4: 64 clients in 4 processes on credit for exactly 500 holds: of 20,000 tries 500 are admitted', async () => {
  expect(await overspend(500, 20_000)).toEqual({ admitted: 500, pinned: usd(500), ok: true })
}, 120_000)

test('G4: 64 clients in 4 processes on nested budgets get exactly what the tightest leaves them', async () => {
  const { people, used, ok } = await budgets(8_000)
  const [a = 0, b = 0, c = 0, d = 0] = people
  expect({ all: used.all, ok }).toEqual({ all: usd(nested.all), ok: true })
  expect(used).toMatchObject({ left: usd(a + b), right: usd(c + d) })
  expect(Math.max(a + b, c + d)).toBeLessThanOrEqual(nested.group)
  expect(Math.max(...people)).toBeLessThanOrEqual(nested.person)
}, 120_000)

test('G4: calls without a limit in 4 processes are told no more than is held, within the limit of their key', async () => {
  const { told, pinned, ok } = await shares(4_000)
  expect({ told, ok }).toEqual({ told: pinned, ok: true })
  expect(pinned).toBeWithin(Number(usd(390)), Number(usd(400)) + 1)
}, 120_000)

test('G5: while 4 processes work, every read of the sums conserves the total and nothing is negative', async () => {
  const { reads, wrong, commands, ok } = await conservation(4_000)
  expect({ wrong, ok }).toEqual({ wrong: [], ok: true })
  expect(reads).toBeGreaterThan(5)
  expect(commands).toBeGreaterThan(300)
}, 120_000)
