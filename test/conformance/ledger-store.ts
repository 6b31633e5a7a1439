// What every LedgerStore promises, whatever the database. A database joins by passing this suite.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { noUsage } from '../../src/conversation/usage.ts'
import { allowanceGrant, startOfDay, welcomeGrant } from '../../src/credits/calendar.ts'
import type {
  AuditReport,
  Budget,
  HoldCommand,
  LedgerStore,
  LedgerUpkeep,
} from '../../src/credits/ledger/ledger.ts'
import { usd } from '../../src/credits/money.ts'
import { day, extensionOf, grantOf, holdOf, minute, noon, servedBySim, settleOf } from '../credits/support.ts'

/** Not every database audits single days yet. */
type LedgerUnderTest = LedgerStore & LedgerUpkeep

/** One fresh database, and a way to open it a second time as another process would. */
export interface LedgerHarness {
  open(): Promise<LedgerUnderTest>
  dispose(): Promise<void>
}

/** Takes a name for the report and a factory; `clock` is to be asked for the time. */
export function ledgerStoreConformance(
  name: string,
  create: (clock: () => number) => Promise<LedgerHarness>,
): void {
  let now = noon
  let harness: LedgerHarness
  let ledger: LedgerUnderTest

  beforeEach(async () => {
    now = noon
    harness = await create(() => now)
    ledger = await harness.open()
  })
  afterEach(async () => {
    const reports: Pick<AuditReport, 'checks'>[] = [await ledger.audit()]
    for (const time of [noon, now]) reports.push(await ledger.auditDay(startOfDay(time)))
    await harness.dispose()
    expect(reports.flatMap(({ checks }) => checks.filter((check) => !check.ok))).toEqual([])
  })

  const free = async (account = 'anna') =>
    (await ledger.balance(account)).lots.reduce((sum, lot) => sum + lot.remaining - lot.pinned, 0n)

  describe(`${name}: holds and settles`, () => {
    test('a hold sets credit aside, the settle charges the cost and returns the rest', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      expect(await ledger.hold(holdOf('c', { want: usd(4) }))).toEqual({ kind: 'held', amount: usd(4) })
      expect(await free()).toBe(usd(6))
      expect(await ledger.settle(settleOf('c', usd('1.5')))).toEqual({
        kind: 'settled',
        charged: usd('1.5'),
        absorbed: 0n,
        overLimit: false,
      })
      expect(await free()).toBe(usd('8.5'))
      expect(await ledger.totals('anna')).toEqual({ purchased: usd(10), used: usd('1.5') })
    })

    test('a second settle, a release after it and a stranger are answered without effect', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      expect(await ledger.settle(settleOf('c', usd(1), { owner: 'zombie' }))).toEqual({
        kind: 'already-ended',
      })
      expect((await ledger.settle(settleOf('c', usd(1)))).kind).toBe('settled')
      expect(await ledger.settle(settleOf('c', usd(1)))).toEqual({ kind: 'already-ended' })
      const release = { call: 'c', owner: 'here', reason: 'late', attempts: [] }
      expect(await ledger.release(release)).toEqual({ kind: 'already-ended' })
      expect(await free()).toBe(usd(9))
    })

    test('commands that share a commit do not disturb each other, and a hold and its settle may share one', async () => {
      await ledger.grant(grantOf('g', usd(3)))
      const results = await Promise.all([
        ledger.hold(holdOf('a')),
        ledger.hold(holdOf('b', { least: usd(5), want: usd(5) })),
        ledger.settle(settleOf('a', usd(1))),
        ledger.grant(grantOf('zero', 0n)).catch((error: { code: string }) => error.code),
        ledger.hold(holdOf('c', { want: usd(9) })),
        ledger.grant(grantOf('g', usd(3))),
      ])
      expect(
        results.map((result) => (typeof result === 'object' && 'kind' in result ? result.kind : result)),
      ).toEqual([
        'held',
        'refused',
        'settled',
        'invalid_request',
        'held',
        expect.objectContaining({ granted: false }),
      ])
      expect(await free()).toBe(0n)
    })

    test('N calls at once on credit for exactly N holds: N admitted, never N + 1', async () => {
      await ledger.grant(grantOf('g', usd(50)))
      const results = await Promise.all(Array.from({ length: 200 }, (_, n) => ledger.hold(holdOf(`c${n}`))))
      expect(results.filter((result) => result.kind === 'held')).toHaveLength(50)
      expect(results.find((result) => result.kind === 'refused')).toMatchObject({
        reason: 'reserved',
        available: 0n,
        held: usd(50),
      })
    })

    test('two processes on one database cannot overspend together', async () => {
      await ledger.grant(grantOf('g', usd(40)))
      const other = await harness.open()
      const results = await Promise.all(
        Array.from({ length: 100 }, (_, n) => (n % 2 ? ledger : other).hold(holdOf(`c${n}`))),
      )
      expect(results.filter((result) => result.kind === 'held')).toHaveLength(40)
      expect(await other.balance('anna')).toEqual(await ledger.balance('anna'))
    })

    test('a call id is used once', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      await expect(ledger.hold(holdOf('c'))).rejects.toMatchObject({ code: 'idempotency_in_progress' })
      await ledger.settle(settleOf('c', 0n))
      await expect(ledger.hold(holdOf('c'))).rejects.toMatchObject({ code: 'idempotency_conflict' })
      expect(await free()).toBe(usd(10))
    })

    test('an id is known as used whatever ids come after it, and when another process has used it', async () => {
      const conflict = { code: 'idempotency_conflict' }
      await ledger.grant(grantOf('g', usd(10)))
      for (const call of ['b', 'd']) {
        await ledger.hold(holdOf(call))
        await ledger.settle(settleOf(call, 0n))
      }
      // An id that is older than others, and new all the same.
      expect(await ledger.hold(holdOf('c'))).toMatchObject({ kind: 'held' })
      for (const call of ['b', 'd']) await expect(ledger.hold(holdOf(call))).rejects.toMatchObject(conflict)
      const other = await harness.open()
      await other.hold(holdOf('f'))
      await other.settle(settleOf('f', 0n))
      expect(await ledger.hold(holdOf('e'))).toMatchObject({ kind: 'held' })
      await expect(ledger.hold(holdOf('f'))).rejects.toMatchObject(conflict)
      await expect(other.hold(holdOf('b'))).rejects.toMatchObject(conflict)
    })

    test('an extension takes what there is or nothing, and its credit comes back', async () => {
      await ledger.grant(grantOf('g', usd(5)))
      await ledger.hold(holdOf('c', { want: usd(2) }))
      expect(await ledger.extend(extensionOf('c', usd(2)))).toBe(usd(2))
      expect(await ledger.extend(extensionOf('c', usd(2)))).toBe(0n)
      expect(await ledger.extend(extensionOf('c', usd(1), { owner: 'zombie' }))).toBe(0n)
      expect(await free()).toBe(usd(1))
      expect(await ledger.extend(extensionOf('c', usd(2), { least: usd('0.5') }))).toBe(usd(1))
      expect(await free()).toBe(0n)
      await ledger.release({ call: 'c', owner: 'here', reason: 'unreachable', attempts: [] })
      expect(await free()).toBe(usd(5))
    })

    test('an app call draws on several pools in the order of the rule', async () => {
      await ledger.grant(grantOf('g', usd(5)))
      await ledger.grant(welcomeGrant('anna', usd('0.5')))
      await ledger.grant(allowanceGrant('anna', now))
      await ledger.hold(
        holdOf('c', { key: null, funding: ['daily', 'subscription', 'welcome', 'purchased'] }),
      )
      await ledger.settle(settleOf('c', usd('0.9')))
      expect((await ledger.call('anna', 'c'))?.drawn.map(({ pool, amount }) => [pool, amount])).toEqual([
        ['daily', usd('0.2')],
        ['welcome', usd('0.5')],
        ['purchased', usd('0.2')],
      ])
    })

    test("a key's limit counts what it has spent and what it holds", async () => {
      await ledger.grant(grantOf('g', usd(10)))
      const keyLimit = { limit: usd(3), windowStart: noon - (noon % day) }
      await ledger.hold(holdOf('a', { keyLimit }))
      await ledger.settle(settleOf('a', usd(1)))
      await ledger.hold(holdOf('b', { keyLimit }))
      expect(await ledger.keySpend('key1', keyLimit.windowStart)).toEqual({ spent: usd(1), held: usd(1) })
      expect(await ledger.hold(holdOf('c', { keyLimit, want: usd(5), least: usd('0.5') }))).toEqual({
        kind: 'held',
        amount: usd(1),
      })
      // Only calls in flight stand in the way of the one, what is spent in that of the other.
      const reasonOf = async (call: string, least: bigint) =>
        ledger.hold(holdOf(call, { keyLimit, want: least, least }))
      expect(await reasonOf('d', usd(2))).toMatchObject({ kind: 'refused', reason: 'key-reserved' })
      expect(await reasonOf('d', usd(2) + 1n)).toMatchObject({ kind: 'refused', reason: 'key-limit' })
      expect(await ledger.extend(extensionOf('b', usd(1)))).toBe(0n)
      now += day
      const today = keyLimit.windowStart + day
      expect(await ledger.keySpend('key1', today)).toEqual({ spent: 0n, held: usd(2) })
      expect(await ledger.keySpend('key1', 0)).toEqual({ spent: usd(1), held: usd(2) })
    })
  })

  describe(`${name}: receipts`, () => {
    test('by our id and by the provider’s, complete at once, with amounts to the last picodollar; not for others', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      const served = { ...servedBySim, upstreamId: 'chatcmpl-9' }
      const usage = { ...noUsage, input: 3, cacheRead: 2, toolCalls: { web_search: 1 }, reportedCost: '0.1' }
      await ledger.settle(settleOf('c', 123_456_789_012n, { served, usage }))
      const record = await ledger.call('anna', 'chatcmpl-9')
      expect(record).toEqual(await ledger.call('anna', 'c'))
      expect(record).toMatchObject({
        state: 'settled',
        cost: 123_456_789_012n,
        charged: 123_456_789_012n,
        usage,
        served,
      })
      expect(record?.lines).toEqual([
        { item: 'output', quantity: 1, rate: 123_456_789_012n, amount: 123_456_789_012n },
      ])
      expect(await ledger.call('berta', 'c')).toBeUndefined()
      expect(await ledger.call('berta', 'chatcmpl-9')).toBeUndefined()
    })

    test('an open and a voided call tell their state', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      expect(await ledger.call('anna', 'c')).toMatchObject({
        state: 'open',
        hold: usd(1),
        ending: null,
        drawn: [],
      })
      await ledger.release({ call: 'c', owner: 'here', reason: 'upstream_error', attempts: [] })
      expect(await ledger.call('anna', 'c')).toMatchObject({ state: 'voided', cost: 0n, endedAt: noon })
    })
  })

  describe(`${name}: credit`, () => {
    test('the same source grants once, also from another process', async () => {
      const other = await harness.open()
      const first = await ledger.grant(grantOf('pay_1', usd(10)))
      expect(await other.grant(grantOf('pay_1', usd(10)))).toEqual({ lot: first.lot, granted: false })
      for (const [amount, wanted] of [
        [usd(10), { account: 'berta' }],
        [usd(10), { pool: 'welcome' }],
        [usd(11), {}],
      ] as const) {
        await expect(other.grant(grantOf('pay_1', amount, wanted))).rejects.toMatchObject({
          code: 'idempotency_conflict',
        })
      }
      expect(await free()).toBe(usd(10))
    })

    test('what another process has booked is in the balance by the next turn of the event loop', async () => {
      const other = await harness.open()
      await ledger.grant(grantOf('a', usd(1)))
      expect((await ledger.balance('anna')).lots).toHaveLength(1)
      await other.grant(grantOf('b', usd(2)))
      expect((await ledger.balance('anna')).lots).toHaveLength(2)
    })

    test('credit is gone when its time is over; what a call had pinned may still be spent', async () => {
      await ledger.grant(allowanceGrant('anna', now))
      const hold = { key: null, funding: ['daily'] as const, want: usd('0.1'), least: usd('0.1') }
      await ledger.hold(holdOf('c', hold))
      now += day
      expect(await ledger.hold(holdOf('d', hold))).toMatchObject({ kind: 'refused', reason: 'insufficient' })
      expect(await ledger.expire(now)).toBe(1)
      expect(await ledger.expire(now)).toBe(0)
      expect((await ledger.balance('anna')).lots).toMatchObject([
        { remaining: usd('0.1'), pinned: usd('0.1') },
      ])
      expect(await ledger.settle(settleOf('c', usd('0.04')))).toMatchObject({ charged: usd('0.04') })
      expect((await ledger.balance('anna')).lots).toEqual([])
      expect(await ledger.expire(now)).toBe(1)
    })

    test('a clock that goes back grants no second allowance', async () => {
      const tomorrow = await ledger.grant(allowanceGrant('anna', now + day))
      expect(await ledger.grant(allowanceGrant('anna', now))).toEqual({ lot: tomorrow.lot, granted: false })
      expect(await free()).toBe(usd('0.2'))
    })

    test('a refund takes the unspent rest of its lot, the remainder is debt that the next top-up repays', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(10)))
      await ledger.hold(holdOf('c', { want: usd(4) }))
      await ledger.settle(settleOf('c', usd(4)))
      const refund = { id: 'refund_1', account: 'anna', lot, amount: usd(10) }
      expect(await ledger.refund(refund)).toEqual({ taken: usd(6), debt: usd(4), refunded: true })
      expect(await ledger.refund(refund)).toEqual({ taken: usd(6), debt: usd(4), refunded: false })
      expect(await ledger.balance('anna')).toEqual({
        account: 'anna',
        lots: [],
        creditLine: 0n,
        debt: usd(4),
      })
      await ledger.grant(grantOf('pay_2', usd(1)))
      expect(await ledger.balance('anna')).toMatchObject({ debt: usd(3), lots: [] })
      await ledger.grant(grantOf('pay_3', usd(7)))
      expect(await ledger.balance('anna')).toMatchObject({
        debt: 0n,
        lots: [{ granted: usd(7), remaining: usd(4) }],
      })
    })

    test('what a call gives back repays the debt of a refund before anything is spent of it', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(10)))
      await ledger.hold(holdOf('c', { want: usd('9.6') }))
      const refund = { id: 'refund_1', account: 'anna', lot, amount: usd(10) }
      expect(await ledger.refund(refund)).toMatchObject({ taken: usd('0.4'), debt: usd('9.6') })
      expect(await ledger.hold(holdOf('d', { want: 1n, least: 1n }))).toMatchObject({
        kind: 'refused',
        reason: 'insufficient',
        available: 0n,
      })
      await ledger.settle(settleOf('c', 40_000_000n))
      expect(await ledger.balance('anna')).toMatchObject({ debt: 40_000_000n, lots: [] })
      expect(await ledger.hold(holdOf('e', { want: 1n, least: 1n }))).toMatchObject({ kind: 'refused' })
      expect(await ledger.call('anna', 'c')).toMatchObject({
        charged: 40_000_000n,
        drawn: [{ lot, amount: 40_000_000n }],
      })
      expect((await ledger.audit()).checks.filter((check) => !check.ok)).toEqual([])
    })

    test('a debt is repaid by a released hold, by a recovered call and by the free credit of another payment', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(3)))
      for (const call of ['released', 'recovered']) await ledger.hold(holdOf(call, { want: usd(1) }))
      await ledger.hold(holdOf('spent', { want: usd(1) }))
      await ledger.settle(settleOf('spent', usd(1)))
      await ledger.refund({ id: 'r', account: 'anna', lot, amount: usd(3) })
      expect((await ledger.balance('anna')).debt).toBe(usd(3))
      await ledger.release({ call: 'released', owner: 'here', reason: 'unreachable', attempts: [] })
      expect((await ledger.balance('anna')).debt).toBe(usd(2))
      await ledger.recover(noon + minute)
      expect(await ledger.balance('anna')).toMatchObject({ debt: usd(1), lots: [] })
      await ledger.grant(grantOf('pay_2', usd(5)))
      const third = await ledger.grant(grantOf('pay_3', usd(2)))
      expect(await ledger.balance('anna')).toMatchObject({ debt: 0n })
      await ledger.hold(holdOf('other', { want: usd(4) }))
      await ledger.refund({ id: 's', account: 'anna', lot: third.lot, amount: usd(2) })
      await ledger.settle(settleOf('other', usd(4)))
      expect(await ledger.balance('anna')).toMatchObject({ debt: 0n, lots: [] })
      expect((await ledger.audit()).checks.filter((check) => !check.ok)).toEqual([])
    })

    test('refunds that share a commit take what there is once', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(10)))
      await ledger.hold(holdOf('c', { want: usd(4) }))
      await ledger.settle(settleOf('c', usd(4)))
      const refunds = ['a', 'b'].map((id) => ledger.refund({ id, account: 'anna', lot, amount: usd(5) }))
      expect(await Promise.all(refunds)).toEqual([
        { taken: usd(5), debt: 0n, refunded: true },
        { taken: usd(1), debt: usd(4), refunded: true },
      ])
      expect(await ledger.balance('anna')).toEqual({
        account: 'anna',
        lots: [],
        creditLine: 0n,
        debt: usd(4),
      })
    })

    test('a payment is taken back once, whatever the ids of its refunds', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(10)))
      const refund = (id: string, dollars: number) =>
        ledger.refund({ id, account: 'anna', lot, amount: usd(dollars) })
      expect(await refund('part', 7)).toMatchObject({ taken: usd(7), debt: 0n })
      const [rest, again] = await Promise.allSettled([refund('rest', 3), refund('again', 3)])
      expect(rest).toMatchObject({ status: 'fulfilled', value: { taken: usd(3), debt: 0n } })
      expect(again).toMatchObject({ status: 'rejected', reason: { code: 'invalid_request' } })
      expect(await ledger.balance('anna')).toEqual({ account: 'anna', lots: [], creditLine: 0n, debt: 0n })
      // What was refunded still answers for its id.
      expect(await refund('part', 7)).toMatchObject({ taken: usd(7), refunded: false })
    })

    test('an allowance or a welcome that is worth more today was granted all the same', async () => {
      for (const grant of [allowanceGrant('anna', now), welcomeGrant('anna')]) {
        const { lot } = await ledger.grant(grant)
        expect(await ledger.grant({ ...grant, amount: grant.amount + 1n })).toEqual({ lot, granted: false })
      }
    })

    test.each([
      // pool          the end of the first      of the second, a day later   is the second the same
      ['purchased', null, null, true],
      ['purchased', 'never', 'never', true],
      ['purchased', null, 'never', false],
      ['purchased', 'never', null, false],
      ['purchased', noon + 9 * day, noon + 9 * day, true],
      ['purchased', noon + 9 * day, noon + 8 * day, false],
      ['purchased', noon + 9 * day, null, false],
      ['welcome', null, 'never', true],
      ['welcome', null, noon + 9 * day, false],
      ['daily', null, null, true],
    ] as const)(
      'a grant of an operator to %s that ended at %p stands again with the end %p: %p',
      async (pool, first, second, same) => {
        const operator = { id: 'otto', note: null }
        const ending = (expiresAt: typeof first) => grantOf('invoice', usd(1), { pool, expiresAt, operator })
        const { lot } = await ledger.grant(ending(first))
        now += day
        const again = ledger.grant(ending(second))
        if (same) expect(await again).toEqual({ lot, granted: false })
        else
          await expect(again).rejects.toMatchObject({
            code: 'idempotency_conflict',
            details: { metadata: { lot } },
          })
      },
    )

    test('a payment stands for its source whatever its end is by now', async () => {
      const { lot } = await ledger.grant(grantOf('payment', usd(1), { expiresAt: now + 9 * day }))
      expect(await ledger.grant(grantOf('payment', usd(1)))).toEqual({ lot, granted: false })
    })

    test('the id of a refund or a correction stands for that one alone', async () => {
      const { lot } = await ledger.grant(grantOf('pay_1', usd(10)))
      const other = await ledger.grant(grantOf('pay_2', usd(10)))
      const refund = { id: 'r', account: 'anna', lot, amount: usd(2) }
      await ledger.refund(refund)
      const adjust = {
        id: 'a',
        account: 'anna',
        pool: 'purchased',
        amount: -usd(1),
        operator: 'otto',
      } as const
      await ledger.adjust(adjust)
      const before = await ledger.balance('anna')
      for (const again of [
        () => ledger.refund({ ...refund, amount: usd(3) }),
        () => ledger.refund({ ...refund, lot: other.lot }),
        () => ledger.refund({ ...refund, id: 'a' }),
        () => ledger.refund({ ...refund, account: 'berta' }),
        () => ledger.adjust({ ...adjust, amount: -usd(2) }),
        () => ledger.adjust({ ...adjust, amount: usd(1) }),
        () => ledger.adjust({ ...adjust, id: 'r' }),
        () => ledger.adjust({ ...adjust, account: 'berta' }),
      ])
        await expect(again()).rejects.toMatchObject({ code: 'idempotency_conflict' })
      expect(await ledger.balance('anna')).toEqual(before)
    })

    test('a correction happens once and never takes what calls have set aside', async () => {
      await ledger.grant(grantOf('g', usd(5)))
      await ledger.hold(holdOf('c', { want: usd(2) }))
      const adjust = {
        id: 'a1',
        account: 'anna',
        pool: 'purchased',
        amount: -usd(3),
        operator: 'otto',
      } as const
      expect(await ledger.adjust(adjust)).toEqual({ adjusted: true })
      expect(await ledger.adjust(adjust)).toEqual({ adjusted: false })
      await expect(ledger.adjust({ ...adjust, id: 'a2' })).rejects.toMatchObject({ code: 'invalid_request' })
      await ledger.adjust({ id: 'a3', account: 'anna', pool: 'welcome', amount: usd(1), operator: 'otto' })
      expect((await ledger.balance('anna')).lots.map((lot) => [lot.pool, lot.remaining]).toSorted()).toEqual([
        ['purchased', usd(2)],
        ['welcome', usd(1)],
      ])
    })
  })

  describe(`${name}: budgets`, () => {
    const windowStart = noon - (noon % day)
    const budgetOf = (scope: string, limit: bigint | null): Budget => ({
      scope,
      limit,
      windowStart,
      windowEnd: windowStart + day,
    })
    /** A call of somebody in a team, whose own credit pays. */
    const inTeam = (person: string, ...budgets: Budget[]): Partial<HoldCommand> => ({
      account: person,
      inGroup: { group: 'team', person, budgets },
    })
    const spendOf = (store: LedgerUnderTest, scope: string, start = windowStart) =>
      store.budgetSpend([{ scope, windowStart: start }])
    const whole = budgetOf('whole', usd(5))

    beforeEach(async () => {
      for (const account of ['anna', 'berta'])
        await ledger.grant(grantOf(`for ${account}`, usd(50), { account }))
    })

    test('are held with a call and charged with its cost, each in the window that it was held in', async () => {
      const own = budgetOf('team/anna', usd(3))
      await ledger.hold(holdOf('a', inTeam('anna', own, whole)))
      await ledger.extend(extensionOf('a', usd(1)))
      expect(await spendOf(ledger, 'team/anna')).toEqual([{ spent: 0n, held: usd(2) }])
      now += day
      await ledger.settle(settleOf('a', usd('1.5')))
      for (const scope of ['team/anna', 'whole'])
        expect(await spendOf(ledger, scope)).toEqual([{ spent: usd('1.5'), held: 0n }])
      expect(await spendOf(ledger, 'whole', windowStart + day)).toEqual([{ spent: 0n, held: 0n }])
      // One that limits nothing is counted all the same.
      await ledger.hold(holdOf('b', inTeam('anna', budgetOf('free', null))))
      await ledger.release({ call: 'b', owner: 'here', reason: 'unreachable', attempts: [] })
      await ledger.hold(holdOf('c', inTeam('anna', budgetOf('free', null))))
      await ledger.settle(settleOf('c', usd('0.25')))
      expect(await spendOf(ledger, 'free')).toEqual([{ spent: usd('0.25'), held: 0n }])
      expect(await ledger.call('anna', 'c')).toMatchObject({ inGroup: { group: 'team', person: 'anna' } })
    })

    test('refuse what they do not leave, by what is spent of them or by what is held alone', async () => {
      await ledger.hold(holdOf('a', { ...inTeam('anna', whole), want: usd(3) }))
      const refused = (call: string, want: bigint) =>
        ledger.hold(holdOf(call, { ...inTeam('berta', whole), want, least: want }))
      expect(await refused('b', usd(3))).toMatchObject({ reason: 'budget-reserved', held: usd(3) })
      await ledger.settle(settleOf('a', usd(3)))
      expect(await refused('b', usd(3))).toMatchObject({ reason: 'budget', spent: usd(3), budget: whole })
      expect(await refused('b', usd(2))).toMatchObject({ kind: 'held' })
      expect(await ledger.extend(extensionOf('b', 1n))).toBe(0n)
    })

    test('are not overspent by two processes, whoever pays the calls', async () => {
      const other = await harness.open()
      // Nothing but the budget ties the calls of the two together.
      const hold = (n: number) => {
        const [process, person] = n % 2 ? ([ledger, 'anna'] as const) : ([other, 'berta'] as const)
        return process.hold(holdOf(`c${n}`, inTeam(person, budgetOf('whole', usd(20)))))
      }
      const results = await Promise.all(Array.from({ length: 60 }, (_, n) => hold(n)))
      expect(results.filter(({ kind }) => kind === 'held')).toHaveLength(20)
      expect(await spendOf(other, 'whole')).toEqual([{ spent: 0n, held: usd(20) }])
      // What one process has ended, the other sees as free.
      const held = results.flatMap(({ kind }, n) => (kind === 'held' ? [`c${n}`] : []))
      await Promise.all(held.map((call) => other.settle(settleOf(call, usd('0.5')))))
      expect(
        await ledger.hold(
          holdOf('d', { ...inTeam('anna', budgetOf('whole', usd(20))), want: usd(10), least: usd(10) }),
        ),
      ).toMatchObject({ kind: 'held' })
    })

    test("of a key's limit two processes admit no more than it leaves", async () => {
      const other = await harness.open()
      const keyLimit = { limit: usd(10), windowStart }
      const hold = (n: number) => (n % 2 ? ledger : other).hold(holdOf(`c${n}`, { keyLimit }))
      const results = await Promise.all(Array.from({ length: 40 }, (_, n) => hold(n)))
      expect(results.filter(({ kind }) => kind === 'held')).toHaveLength(10)
      const [held] = results.flatMap(({ kind }, n) => (kind === 'held' ? [`c${n}`] : []))
      await other.settle(settleOf(held!, usd('0.25')))
      const more = holdOf('more', { keyLimit, want: usd('0.75'), least: usd('0.75') })
      expect(await ledger.hold({ ...more, call: 'too much', least: usd('0.75') + 1n })).toMatchObject({
        kind: 'refused',
      })
      expect(await ledger.hold(more)).toMatchObject({ kind: 'held' })
    })

    test("of the limit of a group's key no more is admitted, whoever pays for its calls, and where", async () => {
      const other = await harness.open()
      const keyLimit = { limit: usd(10), windowStart }
      const inGroup = { group: 'team', person: 'anna', budgets: [] }
      await other.grant(grantOf('for carla', usd(50), { account: 'carla' }))
      const hold = (store: LedgerUnderTest, account: string, n: number) =>
        store.hold(holdOf(`c${n}`, { account, keyLimit, inGroup }))
      // The group gets credit of its own, or moves to where there is some: one process still knows the key of before.
      expect(await hold(ledger, 'anna', 0)).toMatchObject({ kind: 'held' })
      for (let n = 1; n < 9; n++) expect(await hold(other, 'carla', n)).toMatchObject({ kind: 'held' })
      const results = [await hold(ledger, 'carla', 9), await hold(ledger, 'anna', 10)]
      expect(results).toMatchObject([{ kind: 'held' }, { kind: 'refused', reason: 'key-reserved' }])
      for (let n = 0; n < 10; n++) await other.settle(settleOf(`c${n}`, usd('0.5')))
      const more = Array.from({ length: 20 }, (_, n) =>
        hold(n % 2 ? ledger : other, n % 3 ? 'anna' : 'carla', 11 + n),
      )
      expect((await Promise.all(more)).filter(({ kind }) => kind === 'held')).toHaveLength(5)
    })

    test('a recovered call is charged to the budgets that it was held on', async () => {
      await ledger.hold(holdOf('c', inTeam('anna', whole)))
      const leaseUntil = noon + 2 * minute
      await ledger.checkpoint({ call: 'c', owner: 'here', usage: noUsage, cost: usd('0.3'), leaseUntil })
      const other = await harness.open()
      expect(await other.recover(leaseUntil)).toBe(1)
      expect(await spendOf(ledger, 'whole')).toEqual([{ spent: usd('0.3'), held: 0n }])
    })
  })

  describe(`${name}: recovery`, () => {
    test('a call without progress is voided when its lease ends, not before', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      expect(await ledger.recover(noon)).toBe(0)
      expect(await ledger.recover(noon + minute)).toBe(1)
      expect(await ledger.call('anna', 'c')).toMatchObject({ state: 'voided' })
      expect(await free()).toBe(usd(10))
    })

    test('an owner that shows a sign of life in the last moment keeps its call', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      const leaseUntil = noon + 9 * minute
      const alive = ledger.checkpoint({ call: 'c', owner: 'here', usage: noUsage, cost: 0n, leaseUntil })
      expect(await ledger.recover(noon + 2 * minute)).toBe(0)
      await alive
      expect(await ledger.settle(settleOf('c', usd(1)))).toMatchObject({ charged: usd(1) })
    })

    test('a call with progress is charged up to its checkpoint, and the zombie that wakes changes nothing', async () => {
      await ledger.grant(grantOf('g', usd(10)))
      await ledger.hold(holdOf('c'))
      const usage = { ...noUsage, input: 4, output: 2 }
      await ledger.checkpoint({
        call: 'c',
        owner: 'here',
        usage,
        cost: usd('0.3'),
        leaseUntil: noon + 2 * minute,
      })
      expect(await ledger.recover(noon + minute)).toBe(0)
      const other = await harness.open()
      expect(await other.recover(noon + 2 * minute)).toBe(1)
      expect(await ledger.settle(settleOf('c', usd(1)))).toEqual({ kind: 'already-ended' })
      await ledger.checkpoint({ call: 'c', owner: 'here', usage, cost: usd(1), leaseUntil: noon + day })
      expect(await ledger.call('anna', 'c')).toMatchObject({
        state: 'settled',
        ending: 'recovered',
        estimated: true,
        charged: usd('0.3'),
        usage,
      })
      expect(await free()).toBe(usd('9.7'))
    })
  })
}
