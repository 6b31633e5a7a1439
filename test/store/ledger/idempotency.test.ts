// Idempotency keys in the store: one key is one call, whoever asks, whenever the process dies.

import { afterEach, beforeAll, describe, expect, test } from 'bun:test'
import type { Claim, ClaimCommand, KeptAnswer } from '../../../src/credits/ledger/ledger.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { openOnPostgres } from '../../../src/store/postgres/open.ts'
import { PostgresTables } from '../../../src/store/postgres/tables.ts'
import { SqlIdempotency } from '../../../src/store/sql/idempotency.ts'
import { day, grantOf, holdOf, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { describeOnPostgres, freshDatabase } from '../../support/postgres.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'

const opened: Store[] = []
const dirs: TempDir[] = []
let now = noon

function freshDir(): string {
  const dir = tempDir('weir-idempotency-')
  dirs.push(dir)
  return dir.path
}

async function open(dataDir: string, serveAs?: string): Promise<Store> {
  const store = await openStore(dataDir, { clock: () => now, ...(serveAs === undefined ? {} : { serveAs }) })
  opened.push(store)
  await store.ledger.grant(grantOf('g', usd(10)))
  return store
}

afterEach(async () => {
  now = noon
  for (const store of opened.splice(0)) await store.close().catch(() => undefined)
  for (const dir of dirs.splice(0)) dir.remove()
})

const bodyA = new Uint8Array(32).fill(1)
const bodyB = new Uint8Array(32).fill(2)
const claimOf = (call: string, wanted: Partial<ClaimCommand> = {}): ClaimCommand => ({
  account: 'anna',
  key: 'k',
  bodyHash: bodyA,
  call,
  expiresAt: now + day,
  ...wanted,
})
const answer: KeptAnswer = {
  status: 200,
  headers: { 'content-type': 'application/json' },
  body: new TextEncoder().encode('{"answer":42}'),
}
const kindOf = async (claim: Promise<Claim>) => (await claim).kind

type Serving = Pick<Store, 'ledger' | 'idempotency'>

/** A claimed call that is served and charged. */
async function charged(
  { ledger, idempotency }: Serving,
  call: string,
  kept: KeptAnswer | null,
): Promise<void> {
  expect(await kindOf(idempotency.claim(claimOf(call)))).toBe('fresh')
  await ledger.hold(holdOf(call))
  const keeping = kept && idempotency.keep(claimOf(call), kept)
  await ledger.settle(settleOf(call, usd('0.1')))
  await keeping
  await idempotency.finish(claimOf(call))
}

describeOnBoth('an idempotency key', (openOne) => {
  const fresh = async () => {
    const store = await openOne(() => now)
    await store.ledger.grant(grantOf('g', usd(10)))
    return store
  }

  test('is claimed by one of many at once', async () => {
    const { idempotency } = await fresh()
    const calls = Array.from({ length: 64 }, (_, at) => idempotency.claim(claimOf(`c${at}`)))
    const kinds = (await Promise.all(calls)).map(({ kind }) => kind)
    expect(kinds.filter((kind) => kind === 'fresh')).toHaveLength(1)
    expect(kinds.filter((kind) => kind === 'running')).toHaveLength(63)
  })

  test('answers with what was kept, refuses another body, and is another key for another account', async () => {
    const store = await fresh()
    const { idempotency } = store
    await charged(store, 'c', answer)
    expect(await idempotency.claim(claimOf('d'))).toEqual({
      kind: 'answered',
      answer,
      of: { model: 'sim/echo', line: null },
    })
    expect(await kindOf(idempotency.claim(claimOf('d', { bodyHash: bodyB })))).toBe('conflict')
    expect(await kindOf(idempotency.claim(claimOf('d', { account: 'bert' })))).toBe('fresh')
  })

  test('is refused to another body while its call runs', async () => {
    const { idempotency } = await fresh()
    await idempotency.claim(claimOf('c'))
    expect(await kindOf(idempotency.claim(claimOf('d', { bodyHash: bodyB })))).toBe('conflict')
    expect(await kindOf(idempotency.claim(claimOf('d')))).toBe('running')
  })

  test.each([
    ['no call', async () => {}],
    [
      'a released call',
      async ({ ledger }: Serving) => {
        await ledger.hold(holdOf('c'))
        await ledger.release({ call: 'c', owner: 'here', reason: 'upstream_error', attempts: [] })
      },
    ],
  ] as [string, (store: Serving) => Promise<void>][])(
    'that was charged nothing is free again: %s',
    async (_, act) => {
      const store = await fresh()
      await store.idempotency.claim(claimOf('c'))
      await act(store)
      await store.idempotency.finish(claimOf('c'))
      expect(await kindOf(store.idempotency.claim(claimOf('d', { bodyHash: bodyB })))).toBe('fresh')
    },
  )

  test('whose call was charged without an answer is lost, never free', async () => {
    const store = await fresh()
    await charged(store, 'c', null)
    expect(await store.idempotency.claim(claimOf('d'))).toEqual({ kind: 'lost', call: 'c' })
    expect(await kindOf(store.idempotency.claim(claimOf('d', { bodyHash: bodyB })))).toBe('conflict')
  })

  test('whose answer was too large is lost, never free', async () => {
    const store = await fresh()
    await charged(store, 'c', { ...answer, body: null })
    expect(await store.idempotency.claim(claimOf('d'))).toEqual({ kind: 'lost', call: 'c' })
  })

  test('whose settle is still waiting for the disk is running, not free', async () => {
    const { ledger, idempotency } = await fresh()
    await idempotency.claim(claimOf('c'))
    await ledger.hold(holdOf('c'))
    await idempotency.finish(claimOf('c'))
    expect(await kindOf(idempotency.claim(claimOf('d')))).toBe('running')
    await ledger.settle(settleOf('c', usd('0.1')))
    expect(await kindOf(idempotency.claim(claimOf('d')))).toBe('lost')
  })

  test('is remembered for its time, then free, then swept', async () => {
    const store = await fresh()
    await charged(store, 'c', answer)
    now = noon + day - 1
    expect(await store.idempotency.sweep(now)).toBe(0)
    expect(await kindOf(store.idempotency.claim(claimOf('d')))).toBe('answered')
    now = noon + day
    expect(await store.idempotency.sweep(now)).toBe(1)
    expect(await kindOf(store.idempotency.claim(claimOf('d')))).toBe('fresh')
  })

  test('that expires while its call runs stays that call’s, and gets its answer', async () => {
    const store = await fresh()
    const claim = claimOf('c', { expiresAt: noon + 1_000 })
    await store.idempotency.claim(claim)
    await store.ledger.hold(holdOf('c'))
    now = noon + 2_000
    expect(await store.idempotency.sweep(now)).toBe(0)
    expect(await kindOf(store.idempotency.claim(claimOf('d')))).toBe('running')
    await store.ledger.settle(settleOf('c', usd('0.1')))
    await store.idempotency.finish(claim)
    expect(await store.idempotency.sweep(now)).toBe(1)
  })

  test('whose call another process has charged answers with what that has kept', async () => {
    const store = await fresh()
    const other = await store.beside()
    await charged(other, 'c', answer)
    expect(await store.idempotency.claim(claimOf('d'))).toMatchObject({ kind: 'answered' })
  })
})

describeOnPostgres('an idempotency key, for two processes that serve', () => {
  let url: string
  beforeAll(async () => {
    url = await freshDatabase('claims_of_two')
  })

  test('is claimed by one of them, however many requests each has at once', async () => {
    const both = await Promise.all(
      ['a', 'b'].map((owner) => openOnPostgres(url, { clock: () => now, owner })),
    )
    for (let round = 0; round < 12; round++) {
      const claims = both.flatMap(({ idempotency }, at) =>
        [0, 1, 2].map((n) => idempotency.claim(claimOf(`c${round}-${at}-${n}`, { key: `k${round}` }))),
      )
      const kinds = (await Promise.all(claims)).map(({ kind }) => kind)
      expect(kinds.toSorted()).toEqual(['fresh', ...Array<'running'>(5).fill('running')])
    }
    for (const store of both) await store.close()
  })

  test('is free once the process that claimed it has ended without a call', async () => {
    const [first, second] = await Promise.all(
      ['c', 'd'].map((owner) => openOnPostgres(url, { clock: () => now, owner })),
    )
    await first!.idempotency.claim(claimOf('left'))
    expect(await kindOf(second!.idempotency.claim(claimOf('next')))).toBe('running')
    await first!.close()
    expect(await kindOf(second!.idempotency.claim(claimOf('next')))).toBe('fresh')
    await second!.close()
  })

  test('is free where its owner has died without a call; no transaction waits for who knows that', async () => {
    const tables = new PostgresTables({ server: url, connections: 1 })
    await tables.open()
    const idempotencyOf = (owner: string, isDead: (owner: string) => Promise<boolean>) =>
      new SqlIdempotency(tables, { clock: () => now, owner, isDead })
    const first = idempotencyOf('first', () => Promise.resolve(false))
    expect(await kindOf(first.claim(claimOf('a', { key: 'alive' })))).toBe('fresh')
    expect(await kindOf(first.claim(claimOf('b', { key: 'dead' })))).toBe('fresh')
    const asked: string[] = []
    const second = idempotencyOf('second', async (owner) => {
      asked.push(owner)
      // Finds the only connection free.
      await tables.together(function* () {})
      return asked.length > 1
    })
    expect(await kindOf(second.claim(claimOf('c', { key: 'alive' })))).toBe('running')
    expect(await kindOf(second.claim(claimOf('d', { key: 'dead', bodyHash: bodyB })))).toBe('fresh')
    expect(asked).toEqual(['first', 'first'])
    await tables.close()
  })
})

describe('after the death of its process, a key', () => {
  /** The file of a server that was killed: it never closes, its lock is dropped, its successor recovers. */
  async function succeeded(act: (store: Store) => Promise<void>): Promise<Store> {
    const dataDir = freshDir()
    const first = await open(dataDir, 'first')
    await act(first)
    await first.close()
    const second = await open(dataDir, 'second')
    await second.ledger.recover(now)
    return second
  }

  const begun = async ({ ledger, idempotency }: Store) => {
    await idempotency.claim(claimOf('c'))
    await ledger.hold(holdOf('c', { owner: 'first' }))
  }
  const checkpointed = async (store: Store) => {
    await begun(store)
    const { usage } = settleOf('c', 1n)
    const leaseUntil = now + 60_000
    await store.ledger.checkpoint({ call: 'c', owner: 'first', usage, cost: usd('0.01'), leaseUntil })
  }

  test.each([
    ['is replayed when its answer was kept', 'answered', (store: Store) => charged(store, 'c', answer)],
    ['is free when there was no hold', 'fresh', (store: Store) => store.idempotency.claim(claimOf('c'))],
    ['is free when its call was voided', 'fresh', begun],
    ['is lost when its call was settled at a checkpoint', 'lost', checkpointed],
    [
      'is replayed when its process died right after the settle',
      'answered',
      async (store: Store) => {
        await begun(store)
        void store.idempotency.keep(claimOf('c'), answer)
        await store.ledger.settle(settleOf('c', usd('0.1'), { owner: 'first' }))
      },
    ],
    [
      'is free when its call was voided, although its answer had been made',
      'fresh',
      async (store: Store) => {
        await begun(store)
        await store.idempotency.keep(claimOf('c'), answer)
      },
    ],
    [
      'is lost when recovery charged its call, although its answer had been made',
      'lost',
      async (store: Store) => {
        await checkpointed(store)
        await store.idempotency.keep(claimOf('c'), answer)
      },
    ],
    [
      'is lost when its answer was not kept',
      'lost',
      async (store: Store) => {
        await begun(store)
        await store.ledger.settle(settleOf('c', usd('0.1'), { owner: 'first' }))
      },
    ],
  ] as [string, Claim['kind'], (store: Store) => Promise<void>][])('%s', async (_, kind, act) => {
    const { idempotency, ledger } = await succeeded(act)
    expect(await kindOf(idempotency.claim(claimOf('d')))).toBe(kind)
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
  })

  test('stays claimed while the server that runs it is alive, whoever asks beside it', async () => {
    const dataDir = freshDir()
    const first = await open(dataDir, 'first')
    await first.idempotency.claim(claimOf('c'))
    const command = await open(dataDir)
    expect(await kindOf(command.idempotency.claim(claimOf('d')))).toBe('running')
  })
})
