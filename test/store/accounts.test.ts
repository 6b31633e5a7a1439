// Accounts, keys and the records beside the money.

import { afterEach, expect, test } from 'bun:test'
import { mintKey, type ApiKey } from '../../src/accounts/api-key.ts'
import type { RequestLogRow } from '../../src/observe/request-log.ts'
import { usd } from '../../src/credits/money.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { grantOf, holdOf, noon, settleOf } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'

const opened: Store[] = []
const dirs: TempDir[] = []

function freshDir(): string {
  const dir = tempDir('weir-accounts-')
  dirs.push(dir)
  return dir.path
}

function open(dataDir: string, clock = () => noon): Store {
  const store = openStore(dataDir, { clock })
  opened.push(store)
  return store
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

function keyFor(account: string, wanted: Partial<ApiKey> = {}): ApiKey {
  const { id, mode, hash, lastFour } = mintKey('live')
  return {
    id,
    account,
    name: 'laptop',
    mode,
    hash,
    lastFour,
    createdAt: noon,
    expiresAt: null,
    revokedAt: null,
    spendLimit: usd('2.5'),
    limitWindow: 'day',
    allowedModels: ['sim/*'],
    requestsPerMinute: null,
    tokensPerMinute: null,
    networks: null,
    ...wanted,
  }
}

test('an account is found by its id and by its address in any case; an address has one account', () => {
  const { accounts } = open(freshDir())
  const anna = accounts.createAccount('Anna@Example.com ')
  expect(accounts.findAccount(anna.id)).toEqual(anna)
  expect(accounts.findAccount('ANNA@example.com')).toEqual(anna)
  expect(() => accounts.createAccount('anna@example.com')).toThrow(
    expect.objectContaining({ code: 'invalid_request' }),
  )
  expect(accounts.listAccounts()).toEqual([anna])
  expect(accounts.findAccount("' OR 1=1--")).toBeUndefined()
})

test('a key comes back as it went in', () => {
  const { accounts } = open(freshDir())
  const { id } = accounts.createAccount('anna@example.com')
  const keys = [
    keyFor(id),
    keyFor(id, { spendLimit: null, allowedModels: null, expiresAt: noon + 1, name: 'ü' }),
    keyFor(id, { requestsPerMinute: 60, tokensPerMinute: 1_000, networks: ['10.0.0.0/8'] }),
  ]
  for (const key of keys) accounts.insertKey(key)
  for (const key of keys) expect(accounts.findKey(key.id)).toEqual(key)
  expect(accounts.listKeys(id)).toHaveLength(3)
  expect(accounts.findKey('unknown')).toBeUndefined()
})

test('a key that replaces another goes on from what both have spent of their one limit', async () => {
  const dataDir = freshDir()
  const [here, there] = [open(dataDir), open(dataDir)]
  const { id: account } = here.accounts.createAccount('anna@example.com')
  await here.ledger.grant(grantOf('g', usd(10), { account }))
  const [first, second, third] = [keyFor(account), keyFor(account), keyFor(account)]
  here.accounts.insertKey(first)
  const keyLimit = { limit: usd('2.5'), windowStart: noon }
  const hold = (store: Store, key: ApiKey, call: string, dollars: string) =>
    store.ledger.hold(
      holdOf(call, { account, key: key.id, keyLimit, want: usd(dollars), least: usd(dollars) }),
    )
  await hold(here, first, 'spent', '1')
  await here.ledger.settle(settleOf('spent', usd(1)))
  here.accounts.insertSuccessor(second, first.id)
  expect(here.ledger.keySpend(second.id, noon)).toBe(usd(1))
  expect(await hold(here, second, 'much', '1.6')).toMatchObject({
    kind: 'refused',
    reason: 'key-limit',
    available: usd('1.5'),
  })
  // While both work, what one holds the other cannot.
  expect(await hold(here, first, 'old', '0.5')).toMatchObject({ kind: 'held' })
  here.accounts.insertSuccessor(third, second.id)
  expect(await hold(here, third, 'new', '1')).toMatchObject({ kind: 'held' })
  for (const key of [first, second, third]) {
    expect(there.ledger.keySpend(key.id, noon)).toBe(usd('2.5'))
    expect(await hold(there, key, `more-${key.id}`, '0.01')).toMatchObject({ reason: 'key-limit' })
  }
  expect(await there.ledger.extend('new', 'here', 1n)).toBe(false)
  expect(here.ledger.audit().checks.filter(({ ok }) => !ok)).toEqual([])
})

test('a revocation is effective at once here, and within a second in another process', async () => {
  const dataDir = freshDir()
  const [here, there] = [open(dataDir).accounts, open(dataDir).accounts]
  const { id } = here.createAccount('anna@example.com')
  const key = keyFor(id)
  here.insertKey(key)
  expect(there.findKey(key.id)?.revokedAt).toBeNull()
  expect(here.revokeKey(key.id, noon)).toBe(true)
  expect(here.findKey(key.id)?.revokedAt).toBe(noon)
  const deadline = performance.now() + 1000
  while (there.findKey(key.id)?.revokedAt === null && performance.now() < deadline) await Bun.sleep(20)
  expect(there.findKey(key.id)?.revokedAt).toBe(noon)
  expect(here.revokeKey(key.id, noon + 5)).toBe(true)
  expect(here.findKey(key.id)?.revokedAt).toBe(noon)
  expect(here.revokeKey('unknown', noon)).toBe(false)
  expect(here.expireKey(key.id, noon + 9)).toBe(true)
  expect(here.findKey(key.id)?.expiresAt).toBe(noon + 9)
})

const row: RequestLogRow = {
  requestId: 'r1',
  at: noon,
  account: 'anna',
  key: 'k',
  model: 'sim/echo',
  provider: 'sim',
  stream: true,
  status: 200,
  code: null,
  ending: 'finished',
  promptTokens: 3,
  completionTokens: 4,
  cost: 2n ** 60n,
  attempts: 1,
  firstByteMs: 12,
  totalMs: 30,
  detail: null,
  contents: null,
}

test('rows that are waiting when the store closes are written, and a row the database refuses harms no call', async () => {
  const dataDir = freshDir()
  const store = openStore(dataDir, { clock: () => noon })
  await store.ledger.grant(grantOf('g', usd(1)))
  store.requestLog.append({ ...row, cost: 'broken' as unknown as bigint })
  expect((await store.ledger.hold(holdOf('c'))).kind).toBe('held')
  expect(store.requestLog.dropped).toBe(1)
  store.requestLog.append(row)
  store.signatures.remember('call_1', 'sig')
  await store.close()
  const again = open(dataDir)
  expect(again.requests.page({ limit: 10 }).rows).toMatchObject([row])
  expect(again.signatures.recall('call_1')).toBe('sig')
})

test('a thought signature is known at once, for a day, and to the next process', async () => {
  const dataDir = freshDir()
  let now = noon
  const store = openStore(dataDir, { clock: () => now })
  store.signatures.remember('call_1', 'sig')
  expect(store.signatures.recall('call_1')).toBe('sig')
  expect(store.signatures.recall('call_2')).toBeUndefined()
  await store.close()
  now += 86_400_001
  const later = open(dataDir, () => now)
  expect(later.signatures.recall('call_1')).toBeUndefined()
  expect(await later.retention.sweep(now)).toBe(1)
})
