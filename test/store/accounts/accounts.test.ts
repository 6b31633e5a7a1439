// Accounts, keys and the records beside the money.

import { afterEach, expect, test } from 'bun:test'
import { type AccountQuery, type ApiKey, mintKey } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { day, extensionOf, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { logRowOf } from '../calls/support.ts'

const opened: Store[] = []
const dirs: TempDir[] = []

function freshDir(): string {
  const dir = tempDir('weir-accounts-')
  dirs.push(dir)
  return dir.path
}

async function open(dataDir: string, clock = () => noon): Promise<Store> {
  const store = await openStore(dataDir, { clock })
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
    group: null,
    hash,
    lastFour,
    createdAt: noon,
    expiresAt: null,
    revokedAt: null,
    paused: null,
    spendLimit: usd('2.5'),
    limitWindow: 'day',
    allowedModels: ['sim/*'],
    requestsPerMinute: null,
    tokensPerMinute: null,
    networks: null,
    cacheTtl: null,
    sees: 'own',
    lineage: null,
    replacedBy: null,
    ...wanted,
  }
}

test('an account is found by its id and by its address in any case; an address has one account', async () => {
  const { accounts } = await open(freshDir())
  const anna = await accounts.createAccount('Anna@Example.com ')
  expect(await accounts.findAccount(anna.id)).toEqual(anna)
  expect(await accounts.findAccount('ANNA@example.com')).toEqual(anna)
  expect(() => accounts.createAccount('anna@example.com')).toThrow(
    expect.objectContaining({ code: 'invalid_request' }),
  )
  expect(await accounts.listAccounts()).toEqual([anna])
  expect(await accounts.findAccount("' OR 1=1--")).toBeUndefined()
})

test('what a newcomer gets is written with its account: credit of each month, a credit line, a group', async () => {
  const { accounts, groups, ledger } = await open(freshDir())
  const settings = {
    parent: null,
    budget: null,
    window: 'month',
    timezone: 'UTC',
    memberBudget: null,
  } as const
  await groups.insertGroup({
    ...settings,
    id: 'grp_all',
    name: 'all',
    allowedModels: null,
    tags: null,
    warnAt: [],
    createdAt: noon,
  })
  const allowances = { monthlyCredit: 10n, creditLine: 7n, group: 'grp_all' }
  const { id } = await accounts.createAccount('anna@example.com', { allowances })
  expect(await accounts.findAccount(id)).toMatchObject({ monthlyCredit: 10n })
  expect(await groups.membershipsOf(id)).toMatchObject([{ group: 'grp_all', role: 'member' }])
  expect(await ledger.balance(id)).toMatchObject({ creditLine: 7n, lots: [] })
  await accounts.setMonthlyCredit(id, 0n)
  expect(await accounts.findAccount(id)).toMatchObject({ monthlyCredit: 0n })
  // An account is opened all the same where the group is gone.
  const elsewhere = { ...allowances, group: 'grp_gone' }
  const berta = await accounts.createAccount('berta@example.com', { allowances: elsewhere })
  expect(await groups.membershipsOf(berta.id)).toEqual([])
  expect((await ledger.audit()).ok).toBe(true)
})

test('accounts are listed page by page in the order they were opened, however many there are', async () => {
  const { accounts, directory, identities } = await open(freshDir())
  const asked = { sort: 'opened', order: 'asc', now: noon } as const
  const ids: string[] = []
  for (let nth = 0; nth < 1_050; nth += 1)
    ids.push((await accounts.createAccount(`a${nth}@${nth % 350 === 0 ? 'rare' : 'example'}.org`)).id)
  await accounts.suspend(ids[1]!)
  await identities.deleteAccount(ids[2]!, noon)
  const there = ids.filter((_, nth) => nth !== 2)
  const seen: string[] = []
  let after: string | undefined
  do {
    const page = await directory.page({ ...asked, limit: 200, after })
    expect(page.accounts.length).toBe(page.next === null ? 49 : 200)
    seen.push(...page.accounts.map(({ id }) => id))
    after = page.next ?? undefined
  } while (after !== undefined)
  expect(seen).toEqual(there)
  const rare = await directory.page({ ...asked, limit: 2, q: 'rare.org' })
  expect(rare).toMatchObject({ accounts: [{ id: ids[0]! }, { id: ids[350]! }], next: ids[350]! })
  const rest = await directory.page({ ...asked, limit: 2, q: 'rare.org', after: rare.next! })
  expect(rest).toMatchObject({ accounts: [{ id: ids[700]! }], next: null })
  expect(await accounts.countAccounts()).toEqual({ accounts: 1_049, suspended: 1 })
  expect(directory.page({ ...asked, limit: 2, after: 'acct_nobody' })).rejects.toMatchObject({
    code: 'invalid_request',
  })
}, 20_000)

test('accounts are sorted by what they have, spend and do, in pages without gaps, beside the calls', async () => {
  const dataDir = freshDir()
  let now = noon
  const store = await openStore(dataDir, { clock: () => now, serveAs: 'here' })
  try {
    const { accounts, directory, ledger } = store
    const names = ['dora', 'anna', 'carl', 'berta', 'emil']
    const ids = new Map<string, string>()
    for (const [n, name] of names.entries()) {
      now = noon + n * 1_000
      const { id } = await accounts.createAccount(`${name}@example.org`)
      ids.set(name, id)
      if (name !== 'emil') await ledger.grant(grantOf(`g:${name}`, usd(10 + (n % 2)), { account: id }))
      if (n > 2) continue
      await ledger.hold(holdOf(`c${n}`, { account: id, leaseUntil: now + day }))
      await ledger.settle(settleOf(`c${n}`, usd(n === 1 ? '0.5' : '0.25')))
    }
    await accounts.suspend(ids.get('carl')!)
    const list = async (query: Pick<AccountQuery, 'sort' | 'order'> & Partial<AccountQuery>, limit = 2) => {
      const found: string[] = []
      let after: string | undefined
      do {
        const page = await directory.page({ now, ...query, limit, after })
        found.push(...page.accounts.map(({ email }) => email.split('@')[0]!))
        after = page.next ?? undefined
      } while (after !== undefined)
      return found.join(' ')
    }
    expect(await list({ sort: 'opened', order: 'desc' })).toBe('emil berta carl anna dora')
    expect(await list({ sort: 'email', order: 'asc' })).toBe('anna berta carl dora emil')
    expect(await list({ sort: 'balance', order: 'desc' })).toBe('berta anna carl dora emil')
    expect(await list({ sort: 'spent', order: 'desc' })).toBe('anna carl dora emil berta')
    expect(await list({ sort: 'used', order: 'asc' }, 4)).toBe('berta emil dora anna carl')
    expect(await list({ sort: 'spent', order: 'asc', state: 'active', q: 'a@' })).toBe('berta dora anna')
    expect(await list({ sort: 'email', order: 'desc', state: 'suspended' })).toBe('carl')
    const { accounts: rows } = await directory.page({ now, sort: 'spent', order: 'desc', limit: 1 })
    expect(rows).toMatchObject([{ balance: usd('10.5'), spent: usd('0.5'), usedAt: noon - day / 2 }])
    // What was spent in another month is not of this one.
    now += 40 * day
    expect((await directory.page({ now, sort: 'spent', order: 'desc', limit: 1 })).accounts[0]!.spent).toBe(
      0n,
    )
    const wrong = directory.page({ now, sort: 'spent', order: 'desc', limit: 1, after: ids.get('anna')! })
    expect(await wrong.catch((error: unknown) => error)).toMatchObject({ code: 'invalid_request' })
  } finally {
    await store.close()
  }
})

test('a key comes back as it went in', async () => {
  const { accounts } = await open(freshDir())
  const { id } = await accounts.createAccount('anna@example.com')
  const keys = [
    keyFor(id),
    keyFor(id, { spendLimit: null, allowedModels: null, expiresAt: noon + 1, name: 'ü' }),
    keyFor(id, { requestsPerMinute: 60, tokensPerMinute: 1_000, networks: ['10.0.0.0/8'] }),
  ]
  for (const key of keys) expect(await accounts.insertKey(key)).toBe(true)
  // An id is taken once, whoever wants it.
  expect(await accounts.insertKey(keyFor(id, { id: keys[0]!.id, name: 'another' }))).toBe(false)
  for (const key of keys) expect(await accounts.findKey(key.id)).toEqual(key)
  expect(await accounts.listKeys(id)).toHaveLength(3)
  expect(await accounts.findKey('unknown')).toBeUndefined()
})

test('a key that replaces another goes on from what both have spent of their one limit', async () => {
  const dataDir = freshDir()
  const [here, there] = [await open(dataDir), await open(dataDir)]
  const { id: account } = await here.accounts.createAccount('anna@example.com')
  await here.ledger.grant(grantOf('g', usd(10), { account }))
  const [first, second, third] = [keyFor(account), keyFor(account), keyFor(account)]
  await here.accounts.insertKey(first)
  const keyLimit = { limit: usd('2.5'), windowStart: noon }
  const hold = (store: Store, key: ApiKey, call: string, dollars: string) =>
    store.ledger.hold(
      holdOf(call, { account, key: key.id, keyLimit, want: usd(dollars), least: usd(dollars) }),
    )
  await hold(here, first, 'spent', '1')
  await here.ledger.settle(settleOf('spent', usd(1)))
  await here.accounts.insertSuccessor(second, first.id)
  expect(await here.ledger.keySpend(second.id, noon)).toEqual({ spent: usd(1), held: 0n })
  expect(await hold(here, second, 'much', '1.6')).toMatchObject({
    kind: 'refused',
    reason: 'key-limit',
    available: usd('1.5'),
  })
  // While both work, what one holds the other cannot.
  expect(await hold(here, first, 'old', '0.5')).toMatchObject({ kind: 'held' })
  await here.accounts.insertSuccessor(third, second.id)
  expect(await hold(here, third, 'new', '1')).toMatchObject({ kind: 'held' })
  for (const key of [first, second, third]) {
    expect(await there.ledger.keySpend(key.id, noon)).toEqual({ spent: usd(1), held: usd('1.5') })
    expect(await hold(there, key, `more-${key.id}`, '0.01')).toMatchObject({ reason: 'key-reserved' })
  }
  expect(await there.ledger.extend(extensionOf('new', 1n))).toBe(0n)
  expect((await here.ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
})

test('a revocation is effective at once here, and within a second in another process', async () => {
  const dataDir = freshDir()
  const [here, there] = [(await open(dataDir)).accounts, (await open(dataDir)).accounts]
  const { id } = await here.createAccount('anna@example.com')
  const key = keyFor(id)
  await here.insertKey(key)
  expect((await there.findKey(key.id))?.revokedAt).toBeNull()
  expect(await here.revokeKey(key.id, noon)).toBe(true)
  expect((await here.findKey(key.id))?.revokedAt).toBe(noon)
  const deadline = performance.now() + 1000
  while ((await there.findKey(key.id))?.revokedAt === null && performance.now() < deadline)
    await Bun.sleep(20)
  expect((await there.findKey(key.id))?.revokedAt).toBe(noon)
  expect(await here.revokeKey(key.id, noon + 5)).toBe(true)
  expect((await here.findKey(key.id))?.revokedAt).toBe(noon)
  expect(await here.revokeKey('unknown', noon)).toBe(false)
  expect(await here.expireKey(key.id, noon + 9)).toBe(true)
  expect((await here.findKey(key.id))?.expiresAt).toBe(noon + 9)
})

test('rows that are waiting when the store closes are written, and a row the database refuses harms no call', async () => {
  const dataDir = freshDir()
  const store = await openStore(dataDir, { clock: () => noon })
  await store.ledger.grant(grantOf('g', usd(1)))
  store.requestLog.append(logRowOf('r0', { cost: 'broken' as unknown as bigint }))
  for (let n = 1; n < 128; n++) store.requestLog.append(logRowOf(`r${n}`))
  expect((await store.ledger.hold(holdOf('c'))).kind).toBe('held')
  expect(store.requestLog.dropped).toBe(1)
  store.requestLog.append(logRowOf('r1'))
  store.signatures.remember('call_1', 'sig')
  await store.close()
  const again = await open(dataDir)
  const { rows } = await again.requests.page({ limit: 200 })
  expect(rows).toHaveLength(128)
  expect(rows[0]).toMatchObject(logRowOf('r1'))
  expect(again.signatures.recall('call_1')).toBe('sig')
})

test('a thought signature is known at once, for a day, and to the next process', async () => {
  const dataDir = freshDir()
  let now = noon
  const store = await openStore(dataDir, { clock: () => now })
  store.signatures.remember('call_1', 'sig')
  expect(store.signatures.recall('call_1')).toBe('sig')
  expect(store.signatures.recall('call_2')).toBeUndefined()
  await store.close()
  now += 86_400_001
  const later = await open(dataDir, () => now)
  expect(later.signatures.recall('call_1')).toBeUndefined()
  expect(await later.retention.sweep(now)).toBe(1)
})
