// How people sign in, as it is kept: tickets, sessions, passkeys, identities, who was welcomed, what operators did.

import { Database } from 'bun:sqlite'
import { afterEach, describe, expect, test } from 'bun:test'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import {
  type Access,
  type AccessKind,
  accessKinds,
  type ChangeOfHands,
  endedBy,
  mintTicket,
} from '../../../src/accounts/identity/identity-store.ts'
import { issueKey, mintKey, mintSession, unlimited } from '../../../src/accounts/account.ts'
import { issueManagementKey } from '../../../src/accounts/key-leaks.ts'
import { dayMs, Welcomes } from '../../../src/credits/calendar.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { noon } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

/** Of a conversation of the chat. */
const unplaced = { folder: null, pinned: false, settings: null, share: null }

const opened: Store[] = []
const dirs: TempDir[] = []

function freshDir(): string {
  const dir = tempDir('weir-identities-')
  dirs.push(dir)
  return dir.path
}

async function open(dataDir = freshDir(), clock = () => noon): Promise<Store> {
  const store = await openStore(dataDir, { clock })
  opened.push(store)
  return store
}

afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
  for (const dir of dirs.splice(0)) dir.remove()
})

async function sessionFor(store: Store, account: string, expiresAt = noon + dayMs): Promise<string> {
  const { id, hash, lastFour } = mintSession()
  const times = { createdAt: noon, expiresAt, revokedAt: null, seenAt: noon, elevatedUntil: null }
  await store.accounts.insertSession({
    id,
    account,
    hash,
    lastFour,
    userAgent: 'a browser',
    idleMs: dayMs,
    ...times,
  })
  return id
}

function passkeyFor(account: string, id = 'credential') {
  const publicKey = new Uint8Array([1, 2, 3])
  const more = { name: 'laptop', backedUp: true, createdAt: noon, lastUsedAt: null }
  return { id, account, publicKey, counter: 4, transports: ['internal'], ...more }
}

describe('a ticket', () => {
  test('shows the account as whoever made it had left it, in another process', async () => {
    const dataDir = freshDir()
    const [here, there] = [await open(dataDir), await open(dataDir)]
    const { id } = await here.accounts.createAccount('anna@example.org')
    // Looked at just before, so that it is remembered.
    expect((await here.accounts.findAccount(id))?.role).toBe('user')
    await there.identities.setRole(id, 'operator', noon)
    const { ticket } = mintTicket('link', id, noon)
    await there.identities.insertTicket(ticket)
    expect(await here.identities.useTicket(ticket.id, ticket.hash, 'link', noon)).toEqual(ticket)
    expect((await here.accounts.findAccount(id))?.role).toBe('operator')
  })
})

describe('a session', () => {
  test('ends with a new password, in every process', async () => {
    const dataDir = freshDir()
    const [here, there] = [await open(dataDir), await open(dataDir)]
    const { id } = await here.accounts.createAccount('anna@example.org')
    const session = await sessionFor(here, id)
    await here.identities.setPassword(id, 'a hash', noon)
    expect((await here.accounts.findSession(session))?.revokedAt).toBe(noon)
    await Bun.sleep(260)
    expect((await there.accounts.findSession(session))?.revokedAt).toBe(noon)
  })
})

test('the role and the proof of an address are seen at once; the first proof counts', async () => {
  const { accounts, identities } = await open()
  const { id } = await accounts.createAccount('anna@example.org', { role: 'user', verifiedAt: null })
  expect(await accounts.findAccount(id)).toMatchObject({ role: 'user', verifiedAt: null })
  await identities.verifyEmail(id, noon)
  await identities.verifyEmail(id, noon + 1)
  expect(await identities.setRole(id, 'operator', noon)).toBe(true)
  expect(await identities.setRole(id, 'operator', noon)).toBe(false)
  expect(await accounts.findAccount(id)).toMatchObject({ role: 'operator', verifiedAt: noon })
})

test('an account is opened with its password, in one write', async () => {
  const { accounts, identities } = await open()
  const anna = await accounts.createAccount('anna@example.org', { verifiedAt: null, password: 'a hash' })
  expect(await identities.passwordOf(anna.id)).toBe('a hash')
  const berta = await accounts.createAccount('berta@example.org')
  expect(await identities.passwordOf(berta.id)).toBeNull()
})

test('what a deleted account had is remembered no more, and its address is free again', async () => {
  const store = await open()
  const { accounts, identities } = store
  const { id } = await accounts.createAccount('anna@example.org')
  const session = await sessionFor(store, id)
  const { id: key, hash, lastFour, mode } = mintKey('live')
  const limits = { spendLimit: null, limitWindow: 'total' as const, allowedModels: null, networks: null }
  const times = { createdAt: noon, expiresAt: null, revokedAt: null, paused: null }
  const rates = { requestsPerMinute: null, tokensPerMinute: null, cacheTtl: null }
  await accounts.insertKey({
    id: key,
    account: id,
    name: 'k',
    mode,
    group: null,
    hash,
    lastFour,
    ...times,
    ...limits,
    ...rates,
    sees: 'own',
    lineage: null,
    replacedBy: null,
  })
  // Looked at, so that they are remembered.
  await Promise.all([accounts.findSession(session), accounts.findKey(key), accounts.findAccount(id)])
  await identities.deleteAccount(id, noon + 1)
  expect((await accounts.findSession(session))?.revokedAt).toBe(noon + 1)
  expect((await accounts.findKey(key))?.revokedAt).toBe(noon + 1)
  expect(await accounts.resume(id)).toBe(false)
  expect(await accounts.findAccount(id)).toMatchObject({ suspended: true, email: `${id}@deleted.invalid` })
  expect(await accounts.listAccounts()).toEqual([])
  expect((await accounts.createAccount('anna@example.org')).id).not.toBe(id)
})

describe('the last operator', () => {
  const refusal = 'This is the last operator of this gateway.'

  test('stays when two operators remove each other at once, in two processes', async () => {
    const dataDir = freshDir()
    const { accounts, identities } = await open(dataDir)
    const ids: string[] = []
    for (const name of ['anna', 'eve'])
      ids.push((await accounts.createAccount(`${name}@example.org`, { role: 'operator' })).id)
    const children = ['demote', 'suspend'].map((how) => {
      const script = join(import.meta.dir, 'operator-child.ts')
      const child = Bun.spawn([process.execPath, script, dataDir, how], { stdin: 'pipe', stdout: 'pipe' })
      const answers = child.stdout.getReader()
      const answer = async () => new TextDecoder().decode((await answers.read()).value).trim()
      return { child, answer }
    })
    expect(await Promise.all(children.map(({ answer }) => answer()))).toEqual(['ready', 'ready'])
    for (let round = 0; round < 40; round++) {
      for (const [at, { child }] of children.entries()) {
        void child.stdin.write(`${ids[1 - at]}\n`)
        void child.stdin.flush()
      }
      const answers = await Promise.all(children.map(({ answer }) => answer()))
      expect(answers.toSorted()).toEqual([refusal, 'done'])
      for (const id of ids) {
        await identities.setRole(id, 'operator', noon)
        await accounts.resume(id)
      }
    }
    for (const { child } of children) void child.stdin.end()
    expect(await Promise.all(children.map(({ child }) => child.exited))).toEqual([0, 0])
  }, 30_000)
})

describe('the welcome credit', () => {
  const free = async (store: Store, account: string) =>
    (await store.ledger.balance(account)).lots.reduce((sum, lot) => sum + lot.remaining, 0n)

  test('reaches the first account of an address, once, whatever process asks', async () => {
    const dataDir = freshDir()
    const [here, there] = [await open(dataDir), await open(dataDir)]
    for (const store of [here, there]) {
      const welcomes = new Welcomes(store.identities, store.ledger, usd(10), () => noon)
      await Promise.all([1, 2, 3].map(() => welcomes.ensure('anna', 'address')))
      await welcomes.ensure('again', 'address')
    }
    expect(await free(here, 'anna')).toBe(usd('0.5'))
    expect(await free(here, 'again')).toBe(0n)
    expect((await here.ledger.audit()).ok).toBe(true)
  })
})

test('what operators did is kept in order, and cannot be changed', async () => {
  const dataDir = freshDir()
  const store = await open(dataDir)
  for (const [at, what] of ['account.suspend', 'account.resume', 'credit.grant'].entries()) {
    const suspended = { suspended: at === 0 }
    await store.acts.record({
      at: noon + at,
      operator: 'cli:root',
      what,
      subject: 'anna',
      before: null,
      after: suspended,
    })
  }
  const [newest, second] = await store.acts.page(2)
  expect([newest, second]).toMatchObject([
    { what: 'credit.grant', at: noon + 2, operator: 'cli:root', subject: 'anna', before: null },
    { what: 'account.resume', after: { suspended: false } },
  ])
  expect(await store.acts.page(10, second!.seq)).toMatchObject([{ what: 'account.suspend', seq: 1 }])
  const database = new Database(join(dataDir, 'weir.db'))
  expect(() => database.run("UPDATE act SET operator = 'nobody'")).toThrow('insert only')
  expect(() => database.run('DELETE FROM act')).toThrow('insert only')
  database.close()
})

test('accounts from before there were roles are vouched for, and the owner is an operator', async () => {
  const dataDir = freshDir()
  mkdirSync(join(dataDir, 'old'))
  const fixture = join(import.meta.dir, '../../fixtures/schema/9.db.gz')
  const file = join(dataDir, 'old', 'weir.db')
  writeFileSync(file, gunzipSync(readFileSync(fixture)))
  const database = new Database(file)
  database.run("INSERT INTO account VALUES ('acct_owner', 'owner@localhost', 5, 0)")
  database.close()
  const { accounts } = await open(join(dataDir, 'old'))
  expect(await accounts.findAccount('owner@localhost')).toMatchObject({ role: 'operator', verifiedAt: 5 })
  expect(await accounts.findAccount('anna@example.org')).toMatchObject({ role: 'user', verifiedAt: noon })
})

describe('what lets somebody into an account, or acts for it', () => {
  const identity = { issuer: 'https://id.example.org', subject: '17' }

  /** An account with one of each, and the same of another account. */
  async function furnished() {
    const dir = freshDir()
    const store = await open(dir)
    const { accounts, identities, managementKeys, webhooks, mcpServers, conversations } = store
    await accounts.createAccount('other@example.org', { role: 'operator' })
    for (const name of ['anna', 'berta']) {
      const { id } = await accounts.createAccount(`${name}@example.org`, { password: 'hash' })
      await identities.insertPasskey(passkeyFor(id, `credential of ${name}`))
      await identities.linkIdentity({ ...identity, subject: name }, id, noon)
      await sessionFor(store, id)
      for (const kind of ['link', 'invitation', 'reset'] as const)
        await identities.insertTicket(mintTicket(kind, id, noon).ticket)
      await issueKey(
        accounts,
        { account: id, mode: 'live', group: null, name: 'key', ...unlimited, sees: 'own' },
        noon,
      )
      const wanted = { account: id, name: 'key', expiresAt: null, networks: null, scope: 'admin' as const }
      await issueManagementKey(managementKeys, wanted, noon)
      const hook = { id: `wh_${name}`, account: id, url: 'https://hooks.example.org', createdAt: noon }
      await webhooks.addWebhook({ ...hook, events: ['key.created'], sealed: new Uint8Array([1]) })
      const server = { account: id, name: 'notes', url: 'https://mcp.example.org', sealed: null }
      await mcpServers.put({ ...server, createdAt: noon, changedAt: noon })
      const conversation = {
        id: `conv_${name}`,
        account: id,
        title: 'A river',
        model: 'sim/echo',
        ...unplaced,
      }
      await store.prompts.add({ id: `p_${name}`, account: id, name, text: 'Hello', changedAt: noon }, 10)
      const turns = [{ question: 'Q', answer: 'A', model: null }]
      await conversations.addImported(
        { ...conversation, lastResponse: null, createdAt: noon, updatedAt: noon },
        turns,
        10,
      )
    }
    const idOf = async (name: string) => (await accounts.findAccount(`${name}@example.org`))!.id
    return { store, dir, anna: await idOf('anna'), berta: await idOf('berta') }
  }

  const all: Access = {
    password: 1,
    passkeys: 1,
    identities: 1,
    sessions: 1,
    links: 3,
    keys: 1,
    management_keys: 1,
    webhooks: 1,
    mcp_servers: 1,
    conversations: 1,
  }
  const acts: readonly [ChangeOfHands, (store: Store, id: string) => unknown][] = [
    ['taken-over', ({ identities }, id) => identities.lockOut(id, noon + 1)],
    ['deleted', ({ identities }, id) => identities.deleteAccount(id, noon + 1)],
    ['promoted', ({ identities }, id) => identities.setRole(id, 'operator', noon + 1)],
    ['demoted', ({ identities }, id) => identities.demote(id, noon + 1)],
    ['password-set', ({ identities }, id) => identities.setPassword(id, 'another hash', noon + 1)],
  ]

  test.each(acts)(
    'when it is %s: what the list says ends, the rest works and is counted',
    async (change, act) => {
      const { store, anna, berta } = await furnished()
      const { identities } = store
      expect([await identities.accessOf(anna, noon), await identities.accessOf(berta, noon)]).toEqual([
        all,
        all,
      ])
      if (change === 'demoted') {
        await identities.setRole(anna, 'operator', noon)
        const wanted = {
          account: anna,
          name: 'key',
          expiresAt: null,
          networks: null,
          scope: 'admin' as const,
        }
        await issueManagementKey(store.managementKeys, wanted, noon)
      }
      const before = await identities.accessOf(anna, noon)
      await act(store, anna)
      const ended = new Set<AccessKind>(endedBy[change])
      const left = accessKinds.map((kind) => [kind, ended.has(kind) ? 0 : before[kind]])
      expect(await identities.accessOf(anna, noon + 2)).toEqual(Object.fromEntries(left) as Access)
      expect(await identities.accessOf(berta, noon)).toEqual(all)
      // With the conversations end the prompts.
      expect((await store.prompts.list(anna)).length).toBe(ended.has('conversations') ? 0 : 1)
      expect((await store.prompts.list(berta)).length).toBe(1)
      const importedOf = (account: string, name: string) =>
        store.conversations.importedTurns(account, `conv_${name}`)
      expect((await importedOf(anna, 'anna')).length).toBe(ended.has('conversations') ? 0 : 1)
      expect((await importedOf(berta, 'berta')).length).toBe(1)
    },
  )

  test('a key of the admin API does not come back with the role', async () => {
    const { store, anna } = await furnished()
    const [key] = await store.managementKeys.list(anna)
    await store.identities.setRole(anna, 'operator', noon + 1)
    expect((await store.managementKeys.find(key!.id))?.revokedAt).toBe(noon + 1)
  })

  test('is on the list: every other table with the id of an account is a record of what happened', async () => {
    const { dir } = await furnished()
    using database = new Database(join(dir, 'weir.db'), { readonly: true })
    const tables = database
      .query<{ name: string }, []>(
        `SELECT m.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c
         WHERE m.type = 'table' AND c.name = 'account' ORDER BY m.name`,
      )
      .all()
      .map(({ name }) => name)
    const listed: Readonly<Record<AccessKind, string>> = {
      password: 'account',
      passkeys: 'passkey',
      identities: 'identity',
      sessions: 'session',
      links: 'ticket',
      keys: 'api_key',
      management_keys: 'management_key',
      webhooks: 'webhook',
      mcp_servers: 'mcp_server',
      conversations: 'conversation',
    }
    const records = new Set([
      // The ledger, and what it is paid by.

      'journal',
      'wallet',
      'lot',
      'open_call',
      'call',
      'correction',
      'credit_line',
      'welcome',
      'allowance',
      'top_up',
      'voucher',
      'subscription',
      // Whose members pay, by the operators' word: a key of a group is one of the account, and ends with those.
      'group_member',
      // They end with the conversations.
      'saved_prompt',
      'imported_turns',
      // What was asked and answered: read with an id that only its caller knows, or as the log of the account.
      'request_log',
      'usage_day',
      'usage_month',
      'usage_tag',
      'request_tag',
      'idempotency',
      'response',
      'background',
      'item_conversation',
    ])
    const kinds = new Set(Object.values(listed))
    expect(tables.filter((name) => !kinds.has(name) && !records.has(name))).toEqual([])
  })
})
