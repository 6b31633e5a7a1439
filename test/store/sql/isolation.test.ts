// Why work on PostgreSQL is SERIALIZABLE: what is looked at and then written holds against whoever does the same at once. The
// control is the same work under READ COMMITTED, which PostgreSQL takes where nobody says otherwise: there it does not hold.

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { SQL } from 'bun'
import { type ApiKey, type KeyRights, unlimited } from '../../../src/accounts/account.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { noon } from '../../credits/support.ts'
import { CutProxy } from '../../support/cut-proxy.ts'
import { describeOnPostgres, emptyTables, freshDatabase } from '../../support/postgres.ts'

const tries = 8
/** After so many rounds without a fault the control counts as one that holds. */
const mostRounds = 100

const asked = 'BEGIN ISOLATION LEVEL SERIALIZABLE'
const instead = 'BEGIN'.padEnd(asked.length)

const rights: KeyRights = { ...unlimited, account: 'anna', name: '', mode: 'live', sees: 'own', group: null }

describeOnPostgres('what is looked at and then written', () => {
  let url: string
  let admin: SQL
  let proxy: CutProxy
  let stores: Awaited<ReturnType<typeof openOnPostgres>>[] = []
  beforeAll(async () => {
    url = await freshDatabase('isolation')
    admin = new SQL({ url, max: 1 })
    proxy = new CutProxy(Number(new URL(url).port))
  })
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close()
  })
  afterAll(async () => {
    proxy.stop()
    await admin.close()
  })

  async function openTwo(): Promise<void> {
    await emptyTables(admin)
    const through = new URL(url)
    through.port = String(proxy.port)
    stores = await Promise.all(
      ['one', 'two'].map((owner) => openOnPostgres(through.href, { clock: () => noon, owner })),
    )
    await admin.unsafe(
      `INSERT INTO account (id, email, created_at, suspended) VALUES ('anna', 'anna@example.org', 0, 0)`,
    )
  }

  /** How many of those that claim one Idempotency-Key at once are told that they are the first. */
  async function firstOf(round: number): Promise<number> {
    const claims = await Promise.all(
      Array.from({ length: tries }, (_, n) =>
        stores[n % stores.length]!.idempotency.claim({
          account: 'anna',
          key: `key ${round}`,
          bodyHash: new Uint8Array(32),
          call: `call ${round}.${n}`,
          expiresAt: noon + 1_000,
        }),
      ),
    )
    return claims.filter(({ kind }) => kind === 'fresh').length
  }

  /** How many of those that replace one key at once do. */
  async function successorsOf(round: number): Promise<number> {
    const key = (id: string): ApiKey => ({
      ...rights,
      id,
      hash: id,
      lastFour: '',
      createdAt: noon,
      revokedAt: null,
      paused: null,
      lineage: null,
      replacedBy: null,
    })
    const old = `old${round}`
    await stores[0]!.accounts.insertKey(key(old))
    const done = await Promise.all(
      Array.from({ length: tries }, (_, n) =>
        stores[n % stores.length]!.accounts.insertSuccessor(key(`new${round}.${n}`), old),
      ),
    )
    return done.filter(Boolean).length
  }

  test.each([
    ['an Idempotency-Key is claimed', firstOf],
    ['a key is replaced', successorsOf],
  ] as const)('%s by one of those that try, and by several under READ COMMITTED', async (_, race) => {
    proxy.rewrite = (bytes) => bytes
    await openTwo()
    for (let round = 0; round < 4; round++) expect(await race(round)).toBe(1)
    for (const store of stores.splice(0)) await store.close()

    proxy.rewrite = (bytes) => {
      const at = bytes.indexOf(asked)
      if (at !== -1) bytes.write(instead, at)
      return bytes
    }
    await openTwo()
    let most = 0
    for (let round = 0; round < mostRounds && most < 2; round++) most = await race(round).catch(() => 0)
    expect(most).toBeGreaterThan(1)
  })
})
