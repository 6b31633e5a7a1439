// Accounts, keys and the records beside the money.

import { afterEach, describe, expect, test } from 'bun:test'
import { type AccountQuery, type ApiKey, mintKey, type Session } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { grantMonthly } from '../../../src/credits/calendar.ts'
import { GatewayError } from '../../../src/errors/errors.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { SqlAccounts } from '../../../src/store/sql/account-store.ts'
import type { Changes, Work } from '../../../src/store/sql/work.ts'
import { openDatabase, SqliteTables } from '../../../src/store/sqlite/database/sqlite.ts'
import { day, extensionOf, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { logRowOf } from '../calls/support.ts'

const opened: Pick<Store, 'close'>[] = []
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

function sessionFor(account: string): Session {
  return {
    id: 'ses_1',
    account,
    hash: 'ab',
    lastFour: '1234',
    createdAt: noon,
    expiresAt: noon + day,
    revokedAt: null,
    userAgent: null,
    seenAt: noon,
    idleMs: null,
    elevatedUntil: null,
  }
}

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

/** Answers as late as the test wants, as a database across a network does. */
class LateTables extends SqliteTables {
  changed: Changes = 'nothing'
  #held: { answer(): void; fail(): void }[] | undefined

  /** From now on answers are held back. */
  hold(): void {
    this.#held = []
  }

  get held(): number {
    return this.#held?.length ?? 0
  }

  takeHeld(): readonly (() => void)[] {
    return this.#held!.splice(0).map(({ answer }) => answer)
  }

  answer(): void {
    for (const { answer } of this.#held!.splice(0)) answer()
  }

  fail(): void {
    for (const { fail } of this.#held!.splice(0)) fail()
  }

  override do<T>(work: () => Work<T>): T {
    return this.#late(super.do(work)) as T
  }

  override together<T>(work: () => Work<T>): T {
    return this.#late(super.together(work)) as T
  }

  override changedElsewhere(): Changes {
    return this.changed
  }

  #late<T>(value: T): Promise<T> {
    return new Promise((resolve, reject) => {
      const answer = () => resolve(value)
      const fail = () => reject(new GatewayError('store_unavailable'))
      if (this.#held) this.#held.push({ answer, fail })
      else answer()
    })
  }
}

async function openLate(): Promise<{ readonly accounts: SqlAccounts; readonly tables: LateTables }> {
  const tables = new LateTables(openDatabase(freshDir(), noon))
  opened.push({ close: async () => tables.database.close() })
  const accounts = new SqlAccounts(tables, () => noon, { onRotated() {}, onChanged() {} })
  return { accounts, tables }
}

async function caught(act: () => unknown): Promise<unknown> {
  try {
    return await act()
  } catch (error) {
    return error
  }
}

/** Opens five accounts that have, spend and do different things, and lists them by each. */
async function sortAccounts(
  { accounts, directory, ledger }: Pick<Store, 'accounts' | 'directory' | 'ledger'>,
  setNow: (now: number) => void,
): Promise<void> {
  const names = ['dora', 'anna', 'carl', 'berta', 'emil']
  const ids = new Map<string, string>()
  for (const [n, name] of names.entries()) {
    setNow(noon + n * 1_000)
    const { id } = await accounts.createAccount(`${name}@example.org`)
    ids.set(name, id)
    if (name !== 'emil') await ledger.grant(grantOf(`g:${name}`, usd(10 + (n % 2)), { account: id }))
    if (n > 2) continue
    await ledger.hold(holdOf(`c${n}`, { account: id, leaseUntil: noon + 2 * day }))
    await ledger.settle(settleOf(`c${n}`, usd(n === 1 ? '0.5' : '0.25')))
  }
  await accounts.suspend(ids.get('carl')!)
  const list = async (query: Pick<AccountQuery, 'sort' | 'order'> & Partial<AccountQuery>, limit = 2) => {
    const found: string[] = []
    let after: string | undefined
    do {
      const page = await directory.page({ now: noon, ...query, limit, after })
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
  const { accounts: rows } = await directory.page({ now: noon, sort: 'spent', order: 'desc', limit: 1 })
  expect(rows).toMatchObject([{ balance: usd('10.5'), spent: usd('0.5'), usedAt: noon - day / 2 }])
  // Emil has had nothing of this month yet; Dora has.
  await accounts.setMonthlyCredit(ids.get('emil')!, usd(40))
  await accounts.setMonthlyCredit(ids.get('dora')!, usd(50))
  await grantMonthly(ledger, { id: ids.get('dora')!, email: 'dora@example.org', monthlyCredit: usd(1) })
  const richest = await directory.page({ now: noon, sort: 'balance', order: 'desc', limit: 3 })
  expect(richest.accounts.map(({ email, balance }) => [email.split('@')[0], balance])).toEqual([
    ['emil', usd(40)],
    ['berta', usd(11)],
    ['dora', usd('10.75')],
  ])
  // What was spent in another month is not of this one.
  const later = noon + 40 * day
  expect(
    (await directory.page({ now: later, sort: 'spent', order: 'desc', limit: 1 })).accounts[0]!.spent,
  ).toBe(0n)
  const wrong = directory.page({ now: noon, sort: 'spent', order: 'desc', limit: 1, after: ids.get('anna')! })
  expect(await wrong.catch((error: unknown) => error)).toMatchObject({ code: 'invalid_request' })
}

describeOnBoth('accounts and keys', (open) => {
  test('an account is found by its id and by its address in any case; an address has one account', async () => {
    const { accounts } = await open(() => noon)
    const anna = await accounts.createAccount('Anna@Example.com ')
    expect(await accounts.findAccount(anna.id)).toEqual(anna)
    expect(await accounts.findAccount('ANNA@example.com')).toEqual(anna)
    expect(await caught(() => accounts.createAccount('anna@example.com'))).toMatchObject({
      code: 'invalid_request',
      details: { param: 'email' },
    })
    expect(await accounts.listAccounts()).toEqual([anna])
    expect(await accounts.findAccount("' OR 1=1--")).toBeUndefined()
  })

  test('what a newcomer gets is written with its account: credit of each month, a credit line, a group', async () => {
    const { accounts, groups, ledger } = await open(() => noon)
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

  test('accounts are sorted by what they have, spend and do, in pages without gaps', async () => {
    let now = noon
    await sortAccounts(await open(() => now), (at) => (now = at))
  })

  test('a key comes back as it went in', async () => {
    const { accounts } = await open(() => noon)
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
    const here = await open(() => noon)
    const there = await here.beside()
    const { id: account } = await here.accounts.createAccount('anna@example.com')
    await here.ledger.grant(grantOf('g', usd(10), { account }))
    const [first, second, third] = [keyFor(account), keyFor(account), keyFor(account)]
    await here.accounts.insertKey(first)
    const keyLimit = { limit: usd('2.5'), windowStart: noon }
    const hold = (store: Pick<Store, 'ledger'>, key: ApiKey, call: string, dollars: string) =>
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
    const store = await open(() => noon)
    const [here, there] = [store.accounts, (await store.beside()).accounts]
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

  test('what is new is waited for by nobody: only what was known before is told of as changed', async () => {
    const { accounts, whenAccountsChange } = await open(() => noon)
    const told: string[] = []
    let now = ''
    whenAccountsChange(() => void told.push(now))
    const does = async (name: string, act: () => unknown) => {
      now = name
      await act()
    }
    let account = ''
    const [key, next] = [keyFor(''), keyFor('')]
    await does(
      'account',
      async () => void ({ id: account } = await accounts.createAccount('anna@example.org')),
    )
    await does('key', () => accounts.insertKey({ ...key, account }))
    await does('session', () => accounts.insertSession(sessionFor(account)))
    expect(await accounts.findKey(key.id)).toMatchObject({ replacedBy: null })
    expect(told).toEqual([])
    await does('rotation', () => accounts.insertSuccessor({ ...next, account }, key.id))
    expect(await accounts.findKey(key.id)).toMatchObject({ replacedBy: next.id })
    await does('revocation', () => accounts.revokeKey(key.id, noon))
    await does('sign-out', () => accounts.revokeSession('ses_1', noon))
    await does('suspension', () => accounts.suspend(account))
    expect(told).toEqual(['rotation', 'revocation', 'sign-out', 'suspension'])
  })

  test('of twelve who open an account with one address one does', async () => {
    const { accounts } = await open(() => noon)
    const opened = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        caught(() => accounts.createAccount(n % 2 ? 'Anna@example.org' : 'anna@example.org')),
      ),
    )
    const refusals = opened.filter((each) => each instanceof GatewayError)
    expect(refusals).toHaveLength(11)
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'invalid_request' })
    expect(await accounts.countAccounts()).toEqual({ accounts: 1, suspended: 0 })
  })

  test('who changes one limit of a key undoes no change of another', async () => {
    const { accounts } = await open(() => noon)
    const { id: account } = await accounts.createAccount('anna@example.org')
    const key = keyFor(account, { spendLimit: usd(9), requestsPerMinute: null })
    await accounts.insertKey(key)
    // Both have read the key before.
    await Promise.all([
      accounts.changeKey(key.id, { spendLimit: usd(1) }),
      accounts.changeKey(key.id, { name: 'desk', requestsPerMinute: 60 }),
    ])
    const after = { ...key, name: 'desk', spendLimit: usd(1), requestsPerMinute: 60 }
    expect(await accounts.findKey(key.id)).toEqual(after)
    expect(await accounts.changeKey('unknown', { name: 'x' })).toBeUndefined()
  })

  test('who has looked before an operator paused or revoked a key neither resumes nor replaces it', async () => {
    const { accounts } = await open(() => noon)
    const { id: account } = await accounts.createAccount('anna@example.org')
    const [paused, revoked] = [keyFor(account), keyFor(account)]
    await accounts.insertKey(paused)
    await accounts.insertKey(revoked)
    expect(await accounts.pauseOwnKey(paused.id, { at: noon, by: 'owner' })).toBe(true)
    expect(await accounts.pauseOwnKey(paused.id, null)).toBe(true)
    const pause = { at: noon, by: 'operator' } as const
    await accounts.pauseKey(paused.id, pause)
    expect(await accounts.pauseOwnKey(paused.id, null)).toBe(false)
    expect(await accounts.pauseOwnKey(paused.id, { at: noon, by: 'leak' })).toBe(false)
    expect(await accounts.findKey(paused.id)).toMatchObject({ paused: pause })
    await accounts.revokeKey(revoked.id, noon)
    for (const { id } of [paused, revoked])
      expect(await accounts.insertSuccessor(keyFor(account), id)).toBe(false)
    await accounts.pauseKey(paused.id, { at: noon, by: 'leak' })
    expect(await accounts.insertSuccessor(keyFor(account), paused.id)).toBe(true)
  })

  test('an account whose address changes has the credit of a month once', async () => {
    const { accounts, identities, ledger } = await open(() => noon)
    const { id } = await accounts.createAccount('maria.before@example.org')
    const monthly = async (email: string) => {
      await grantMonthly(ledger, { id, email, monthlyCredit: usd(7) })
      return (await ledger.balance(id)).lots.map(({ remaining }) => remaining)
    }
    expect(await monthly('maria.before@example.org')).toEqual([usd(7)])
    await identities.changeAddress(id, 'maria.after@example.org')
    expect(await monthly('maria.after@example.org')).toEqual([usd(7)])
  })

  test('a NUL that an operator notes, or a client asks for, breaks neither the audit nor an answer', async () => {
    const { accounts, ledger, acts } = await open(() => noon)
    const { id: account } = await accounts.createAccount('anna@example.org')
    const odd = 'a \0 b \\u0000 c \\'
    await ledger.grant(grantOf('operator:g1', usd(1), { account, operator: { id: 'acct_op', note: odd } }))
    await acts.record({
      at: noon,
      operator: 'acct_op',
      what: 'plan.grant',
      subject: account,
      before: null,
      after: { note: odd },
    })
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
    expect(await ledger.call(account, 'req_\0')).toBeUndefined()
  })

  test('of twelve who replace one key one does', async () => {
    const { accounts } = await open(() => noon)
    const { id } = await accounts.createAccount('anna@example.org')
    let last = keyFor(id)
    await accounts.insertKey(last)
    for (let rotation = 1; rotation < 4; rotation++) {
      const wanted = Array.from({ length: 12 }, () => keyFor(id))
      const done = await Promise.all(wanted.map((key) => accounts.insertSuccessor(key, last.id)))
      const [successor, ...more] = wanted.filter((_, n) => done[n])
      expect(more).toEqual([])
      expect(await accounts.findKey(last.id)).toMatchObject({ replacedBy: successor!.id })
      last = successor!
    }
    expect(await accounts.listKeys(id)).toHaveLength(4)
  })

  test('a session comes back as it went in, until it is revoked', async () => {
    const { accounts } = await open(() => noon)
    const { id: account } = await accounts.createAccount('anna@example.org')
    const session = sessionFor(account)
    expect(await accounts.findSession('ses_1')).toBeUndefined()
    await accounts.insertSession(session)
    expect(await accounts.findSession('ses_1')).toEqual(session)
    expect(await accounts.revokeSession('ses_1', noon)).toBe(true)
    expect(await accounts.findSession('ses_1')).toMatchObject({ revokedAt: noon })
    expect(await accounts.listSessions(account)).toHaveLength(1)
  })

  test('keys are paged from the newest on, without those that have ended', async () => {
    const { accounts } = await open(() => noon)
    const { id: account } = await accounts.createAccount('anna@example.org')
    const made = Array.from({ length: 4 }, (_, n) =>
      keyFor(account, { createdAt: noon + n, name: `key ${n}` }),
    )
    for (const key of made) await accounts.insertKey(key)
    await accounts.revokeKey(made[2]!.id, noon)
    const query = { account, limit: 2, state: 'current', now: noon + 9, endedAfter: noon } as const
    const { keys, next, hidden } = await accounts.pageKeys(query)
    expect([keys.map(({ name }) => name), next, hidden]).toEqual([['key 3', 'key 1'], made[1]!.id, 1])
    expect(await accounts.pageKeys({ ...query, after: next! })).toMatchObject({ keys: [made[0]], next: null })
    expect(await accounts.countActiveKeys(account, noon + 9, 9)).toBe(3)
    expect(await accounts.keyUsedAt(made[0]!.id)).toBeNull()
  })
})

describe('what a database has not answered yet', () => {
  test('is asked once for all who want it, and asked again when it failed', async () => {
    const { accounts, tables } = await openLate()
    const key = keyFor((await accounts.createAccount('anna@example.org')).id)
    await accounts.insertKey(key)
    tables.hold()
    const asked = Array.from({ length: 3 }, () => accounts.findKey(key.id))
    expect(tables.held).toBe(1)
    tables.fail()
    for (const each of asked) expect(await caught(() => each)).toMatchObject({ code: 'store_unavailable' })
    const again = [accounts.findKey(key.id), accounts.findKey(key.id)]
    expect(tables.held).toBe(1)
    tables.answer()
    expect(await Promise.all(again)).toEqual([key, key])
    expect(accounts.findKey(key.id)).toEqual(key)
  })

  test('is not taken for current once it was changed', async () => {
    const { accounts, tables } = await openLate()
    const { id } = await accounts.createAccount('anna@example.org')
    const key = keyFor(id)
    await accounts.insertKey(key)
    tables.hold()
    const before = accounts.findKey(key.id)
    const revoked = accounts.revokeKey(key.id, noon)
    const [answerBefore, answerRevoked] = tables.takeHeld()
    answerRevoked!()
    await revoked
    const after = accounts.findKey(key.id)
    tables.answer()
    expect(await after).toMatchObject({ revokedAt: noon })
    // What was read before the revocation arrives last.
    answerBefore!()
    expect(await before).toMatchObject({ revokedAt: null })
    expect(await accounts.findKey(key.id)).toMatchObject({ revokedAt: noon })
  })

  test('is not taken for current once another process may have changed it', async () => {
    const { accounts, tables } = await openLate()
    const { id } = await accounts.createAccount('anna@example.org')
    await accounts.findAccount('nobody')
    tables.hold()
    const before = accounts.findAccount(id)
    const [answerBefore] = tables.takeHeld()
    tables.database.run('UPDATE account SET suspended = 1')
    tables.changed = 'everything'
    accounts.refresh()
    answerBefore!()
    expect(await before).toMatchObject({ suspended: false })
    const after = accounts.findAccount(id)
    tables.answer()
    expect(await after).toMatchObject({ suspended: true })
  })
})

test('a key that was looked up before there was one is found within a second of its making, though nobody tells of it', async () => {
  const { accounts: here, tables } = await openLate()
  const there = new SqlAccounts(tables, () => noon, { onRotated() {}, onChanged() {} })
  const key = keyFor((await there.createAccount('anna@example.org')).id)
  expect(await here.findKey(key.id)).toBeUndefined()
  await there.insertKey(key)
  const deadline = performance.now() + 1_000
  while ((await here.findKey(key.id)) === undefined && performance.now() < deadline) await Bun.sleep(5)
  expect(await here.findKey(key.id)).toEqual(key)
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

test('a server sorts its accounts beside the calls', async () => {
  let now = noon
  const store = await openStore(freshDir(), { clock: () => now, serveAs: 'here' })
  try {
    await sortAccounts(store, (at) => (now = at))
  } finally {
    await store.close()
  }
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
  expect(await again.signatures.recall('call_1')).toBe('sig')
})

test('a thought signature is known at once, for a day, and to the next process', async () => {
  const dataDir = freshDir()
  let now = noon
  const store = await openStore(dataDir, { clock: () => now })
  store.signatures.remember('call_1', 'sig')
  expect(await store.signatures.recall('call_1')).toBe('sig')
  expect(await store.signatures.recall('call_2')).toBeUndefined()
  await store.close()
  now += 86_400_001
  const later = await open(dataDir, () => now)
  expect(await later.signatures.recall('call_1')).toBeUndefined()
  expect(await later.retention.sweep(now)).toBe(1)
})
