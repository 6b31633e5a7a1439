// The first run gives the owner account, its credit and its key; no later run does.

import { expect, test } from 'bun:test'
import { firstRun } from '../../src/serve/first-run.ts'
import { usd } from '../../src/credits/money.ts'
import { openStore } from '../../src/store/open.ts'
import { tempDir } from '../support/tmp.ts'
import { moment } from './run.ts'

const settingsWith = (creditUsd: string) => ({
  creditUsd,
  welcomeCapUsd: '50',
  consoleUrl: 'http://localhost:8787/console',
})

function openedIn(path: string) {
  return openStore(path, { clock: () => moment })
}

/** By pool: what was granted in the same millisecond, and does not expire, has no order. */
async function lotsOf(store: Awaited<ReturnType<typeof openedIn>>, account: string) {
  return (await store.ledger.balance(account)).lots.toSorted((a, b) => a.pool.localeCompare(b.pool))
}

test('on an empty data directory: an owner, a budget of purchased credit, a key', async () => {
  using dir = tempDir()
  const store = await openedIn(dir.join('data'))
  const owner = await firstRun(store, settingsWith('100'), moment)
  expect(owner).toMatchObject({
    email: 'owner@localhost',
    creditUsd: '100',
    key: expect.stringMatching(/^sk-weir-live-/),
    signIn: expect.stringMatching(/^http:\/\/localhost:8787\/console\/link#wt-weir-/),
  })
  expect((await store.accounts.findAccount('owner@localhost'))?.role).toBe('operator')
  expect(await lotsOf(store, owner!.account)).toMatchObject([
    { pool: 'purchased', remaining: usd(100), expiresAt: null },
    { pool: 'welcome', remaining: usd('0.5') },
  ])
  expect(await firstRun(store, settingsWith('100'), moment)).toBeUndefined()
  await store.close()
})

test('a first run that died before its key continues, and grants once', async () => {
  using dir = tempDir()
  const store = await openedIn(dir.join('data'))
  const account = await store.accounts.createAccount('owner@localhost')
  const dying = {
    ...store,
    accounts: { ...store.accounts, listAccounts: () => [account], listKeys: () => [] },
  }
  await expect(
    firstRun(
      {
        ledger: store.ledger,
        accounts: Object.assign(dying.accounts, {
          insertKey: () => {
            throw new Error('died')
          },
        }),
        identities: store.identities,
      },
      settingsWith('5'),
      moment,
    ),
  ).rejects.toThrow('died')
  const owner = await firstRun(store, settingsWith('5'), moment)
  expect(owner?.key).toMatch(/^sk-weir-live-/)
  expect(await lotsOf(store, account.id)).toMatchObject([
    { pool: 'purchased', remaining: usd(5) },
    { pool: 'welcome', remaining: usd('0.5') },
  ])
  await store.close()
})

test('an installation that has accounts, or no budget', async () => {
  using dir = tempDir()
  const store = await openedIn(dir.join('a'))
  await store.accounts.createAccount('somebody@example.org')
  expect(await firstRun(store, settingsWith('100'), moment)).toBeUndefined()
  await store.close()
  const poor = await openedIn(dir.join('b'))
  const owner = await firstRun(poor, settingsWith('0'), moment)
  expect((await poor.ledger.balance(owner!.account)).lots).toMatchObject([{ pool: 'welcome' }])
  await poor.close()
})
