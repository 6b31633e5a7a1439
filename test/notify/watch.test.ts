// What the watch reports of keys whose limit refused a call, although a round of it fails.

import { expect, test } from 'bun:test'
import type { ApiKey } from '../../src/accounts/api-key.ts'
import { usd } from '../../src/credits/money.ts'
import { AccountWatch } from '../../src/notify/watch.ts'
import { day, minute, noon } from '../credits/support.ts'

const key: ApiKey = {
  id: 'aaaaaaaaaaaa',
  account: 'anna',
  name: 'a key',
  mode: 'live',
  hash: '',
  lastFour: '0000',
  createdAt: 0,
  expiresAt: null,
  revokedAt: null,
  spendLimit: usd(10),
  limitWindow: 'day',
  allowedModels: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
  networks: null,
  sees: 'own',
  lineage: null,
  replacedBy: null,
}

/** A watch over one account, whose key has spent less than its limit. */
function watching() {
  const state = { now: noon, works: true, emitted: new Set<string>() }
  const watch = new AccountWatch({
    store: {
      accountsWanting: () => ['anna'],
      emit: ({ source }) => void state.emitted.add(source),
    },
    accounts: { listKeys: () => [key] },
    ledger: {
      totals: () => ({ purchased: 0n, used: 0n }),
      keySpend: () => ({ spent: usd(9), held: 0n }),
      balance: () => {
        if (!state.works) throw new Error('the database is away')
        return { account: 'anna', lots: [], debt: 0n, creditLine: 0n }
      },
    },
    thresholds: { lowBalance: 0n, expiringMs: 0 },
    now: () => state.now,
  })
  return { watch, state }
}

const refused = { key: key.id, code: 'key_limit_exceeded' }
const limitReached = (emitted: ReadonlySet<string>) =>
  [...emitted].filter((source) => source.startsWith('key.limit_reached')).length

test('a round that fails leaves the refusals to the next one', async () => {
  const { watch, state } = watching()
  watch.callEnded(refused)
  state.works = false
  await expect(watch.look()).rejects.toThrow('the database is away')
  state.works = true
  await watch.look()
  expect(limitReached(state.emitted)).toBe(1)
})

test('a refusal in the window before says nothing about this one', async () => {
  const { watch, state } = watching()
  watch.callEnded(refused)
  state.now += day - minute
  await watch.look()
  expect(limitReached(state.emitted)).toBe(0)
})
