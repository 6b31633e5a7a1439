// What the ledger's process does for a worker, and what it does when one has gone.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { InFlight } from '../../../src/chat/in-flight.ts'
import { signatureKey } from '../../../src/chat/upstream/thoughts.ts'
import { usd } from '../../../src/credits/money.ts'
import { ledgerHandlers, type LedgerHandlers } from '../../../src/serve/workers/pool.ts'
import { type Remote, remoteOf } from '../../../src/serve/workers/remote-store.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { grantOf, holdOf, settleOf } from '../../credits/support.ts'
import { tempDir, type TempDir } from '../../support/tmp.ts'
import { joined } from './pair.ts'
import { noLimits, sharedOf } from './parts.ts'

let home: TempDir
const living = new Set<string>()
let store: Store
let inFlight: InFlight

interface Worker {
  readonly remote: Remote
  readonly ledger: LedgerHandlers
  readonly inFlight: InFlight
}

/** A worker of that name in holds, which is alive from now on. */
function workerOf(owner: string, limits = noLimits): Worker {
  living.add(owner)
  const own = new InFlight(Date.now, (id) => link.ours.notify('requestEnded', id))
  const holdDurable = (number: number) => remote.holdDurable(number)
  const ledger = ledgerHandlers(store, sharedOf(limits, inFlight), holdDurable)
  const link = joined(ledger.handlers, {})
  const remote = remoteOf(
    link.ours,
    own,
    () => limits,
    () => performance.now(),
  )
  return { remote, ledger, inFlight: own }
}

beforeEach(async () => {
  home = tempDir('weir-handlers-')
  living.clear()
  inFlight = new InFlight()
  store = await openStore(home.path, {
    clock: Date.now,
    serveAs: 'ledger',
    lives: (owner) => living.has(owner),
    isRunning: (call) => inFlight.has(call),
  })
  await store.ledger.grant(grantOf('g', usd(10)))
})
afterEach(async () => {
  await store.close()
  home.remove()
})

const leaseUntil = Date.now() + 600_000

describe('a worker that has died', () => {
  test('its calls are ended at once, those of the living and of the ledger are left alone', async () => {
    const [dying, other] = [workerOf('dying'), workerOf('other')]
    await dying.remote.store.ledger.startHold(holdOf('a', { owner: 'dying', leaseUntil }), 'at-once')
    await other.remote.store.ledger.startHold(holdOf('b', { owner: 'other', leaseUntil }), 'at-once')
    await store.ledger.hold(holdOf('c', { owner: 'ledger', leaseUntil }))
    expect(await store.ledger.recover(Date.now())).toBe(0)
    living.delete('dying')
    expect(await store.ledger.recover(Date.now())).toBe(1)
    expect(await store.ledger.call('anna', 'a')).toMatchObject({ state: 'voided' })
    const settled = await other.remote.store.ledger.settle(settleOf('b', usd(1), { owner: 'other' }))
    expect(settled).toMatchObject({ charged: usd(1) })
    // What it had sent last and nobody had read yet changes nothing.
    const late = await dying.remote.store.ledger.settle(settleOf('a', usd(1), { owner: 'dying' }))
    expect(late).toEqual({ kind: 'already-ended' })
  })

  test('its requests no longer count against the limits', async () => {
    const limits = { ...noLimits, inFlightPerAccount: 2 }
    const [dying, other] = [workerOf('dying', limits), workerOf('other', limits)]
    const caller = { account: { id: 'anna' }, key: null }
    await dying.remote.limiter.enter(caller, 'one', 'real')
    await dying.remote.limiter.enter(caller, 'two', 'real')
    await expect(other.remote.limiter.enter(caller, 'three', 'real')).rejects.toMatchObject({
      code: 'rate_limit_exceeded',
    })
    await dying.ledger.cleanUp()
    await other.remote.limiter.enter(caller, 'four', 'real')
    expect(inFlight.of('anna')).toBe(1)
  })

  test('its Idempotency-Keys are free again where nothing was charged, and stand where something was', async () => {
    const dying = workerOf('dying')
    const { idempotency, ledger } = dying.remote.store
    const claimOf = (key: string, call: string) => ({
      account: 'anna',
      key,
      call,
      bodyHash: new Uint8Array(32).fill(1),
      expiresAt: Date.now() + 60_000,
    })
    for (const [key, call] of [
      ['held', 'a'],
      ['charged', 'b'],
    ] as const) {
      expect(await idempotency.claim(claimOf(key, call))).toEqual({ kind: 'fresh' })
      await ledger.startHold(holdOf(call, { owner: 'dying', leaseUntil }), 'at-once')
    }
    await ledger.settle(settleOf('b', usd(1), { owner: 'dying' }))
    const other = workerOf('other').remote.store.idempotency
    expect(await other.claim(claimOf('held', 'c'))).toEqual({ kind: 'running' })
    living.delete('dying')
    await store.ledger.recover(Date.now())
    await dying.ledger.cleanUp()
    expect(await other.claim(claimOf('held', 'd'))).toEqual({ kind: 'fresh' })
    expect(await other.claim(claimOf('charged', 'e'))).toEqual({ kind: 'lost', call: 'b' })
    // A claim of its that is carried out only now is nobody's from the beginning.
    await idempotency.claim(claimOf('late', 'f'))
    expect(await other.claim(claimOf('late', 'g'))).toEqual({ kind: 'fresh' })
  })
})

test('while it has a request in flight, no clock ends the call of it', async () => {
  const { limiter, store: remote } = workerOf('worker').remote
  await limiter.enter({ account: { id: 'anna' }, key: null }, 'a', 'real')
  await remote.ledger.startHold(holdOf('a', { owner: 'worker', leaseUntil }), 'at-once')
  expect(await store.ledger.recover(leaseUntil + 1)).toBe(0)
  expect(await remote.ledger.settle(settleOf('a', usd(1), { owner: 'worker' }))).toMatchObject({
    charged: usd(1),
  })
  limiter.leave('a')

  await remote.ledger.startHold(holdOf('b', { owner: 'worker', leaseUntil }), 'at-once')
  expect(await store.ledger.recover(leaseUntil + 1)).toBe(1)
})

describe('across the link', () => {
  test('an answer that is kept is durable with its settle, and is given back as it was', async () => {
    const { idempotency, ledger } = workerOf('worker').remote.store
    const claim = {
      account: 'anna',
      key: 'k',
      call: 'a',
      bodyHash: new Uint8Array(32).fill(2),
      expiresAt: Date.now() + 60_000,
    }
    await idempotency.claim(claim)
    await ledger.startHold(holdOf('a', { owner: 'worker', leaseUntil }), 'at-once')
    const body = new Uint8Array(Buffer.from('~n1 an answer \u{1F600}'))
    // Nobody waits between the two: they are sent in this order, and come in this order.
    const kept = idempotency.keep(claim, { status: 200, headers: { 'content-type': 'text/plain' }, body })
    const settled = ledger.settle(settleOf('a', usd(1), { owner: 'worker' }))
    await Promise.all([kept, settled])
    await idempotency.finish(claim)
    const answer = await workerOf('other').remote.store.idempotency.claim({ ...claim, call: 'b' })
    expect(answer).toEqual({
      kind: 'answered',
      answer: { status: 200, headers: { 'content-type': 'text/plain' }, body },
      of: { model: 'sim/echo', line: null },
    })
  })

  test('what an account has stored counts on while an answer is made', async () => {
    const { responses } = workerOf('worker').remote.store
    const before = await responses.storedBytes('anna')
    expect(before.bytes()).toBe(0)
    const response = { id: 'resp_1', account: 'anna', call: 'a', expiresAt: leaseUntil }
    const texts = { input: ['[]'], answer: ['{"id":', '"resp_1"}'] }
    await responses.keep({ ...response, conversation: undefined, previous: undefined, ...texts })
    expect(before.bytes()).toBe(17)
    expect((await responses.storedBytes('anna')).bytes()).toBe(17)
  })

  test('a request has left once for all that count it', async () => {
    const { remote, inFlight: own } = workerOf('worker')
    await remote.limiter.enter({ account: { id: 'anna' }, key: null }, 'one', 'real')
    expect([own.size, inFlight.size]).toEqual([1, 1])
    remote.limiter.leave('one')
    own.leave('one')
    await remote.store.ledger.balance('anna')
    expect([own.size, inFlight.size]).toEqual([0, 0])
  })
})

test('a thought signature that one worker remembers is known to another, by its key alone', async () => {
  const key = signatureKey({ account: 'acct_1', line: '', provider: 'a' }, { id: 'call_0', name: 'look' })
  workerOf('w1').remote.store.signatures.remember(key, 'sig')
  const { signatures } = workerOf('w2').remote.store
  expect(await signatures.recall(key)).toBe('sig')
  expect(await signatures.recall('call_0')).toBeUndefined()
})
