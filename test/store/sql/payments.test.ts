// Payments as they are kept, the same on both databases: what is checked and then written stays true with many at once.

import { expect, test } from 'bun:test'
import { dayMs } from '../../../src/credits/calendar.ts'
import type { Period } from '../../../src/payments/subscriptions.ts'
import type { EventRecord, Reversal, TopUp } from '../../../src/payments/top-up.ts'
import type { Voucher } from '../../../src/payments/vouchers.ts'
import { noon } from '../../credits/support.ts'
import { openTopUp } from '../../payments/top-up.ts'
import { describeOnBoth } from '../../support/both-databases.ts'

const many = Array.from({ length: 16 }, (_, n) => n)
const noLimit = { most: 1_000, since: 0 }

const topUpOf = (n: number | string, more: Partial<TopUp> = {}): TopUp => ({
  ...openTopUp,
  id: `topup_${n}`,
  reference: null,
  url: null,
  ...more,
})

const pay = (topUp: TopUp): TopUp => ({
  ...topUp,
  state: 'paid',
  paymentId: `pay of ${topUp.id}`,
  method: 'upi',
  paidAt: noon + 1,
})

const credit = (topUp: TopUp): TopUp => ({
  ...topUp,
  state: 'credited',
  lot: `lot of ${topUp.id}`,
  creditedAt: noon + 2,
})

const reversalOf = (id: string, topUp: string, more: Partial<Reversal> = {}): Reversal => ({
  processor: 'razorpay',
  id,
  topUp,
  amount: 0n,
  credit: 0n,
  kind: 'refund',
  held: 0n,
  booked: false,
  at: noon,
  ...more,
})

const eventOf = (id: string, more: Partial<EventRecord> = {}): EventRecord => ({
  processor: 'razorpay',
  id,
  type: 'payment_link.paid',
  at: noon,
  hash: 'ab',
  outcome: 'received',
  topUp: null,
  reference: null,
  paymentId: 'pay of topup_1',
  news: {
    kind: 'refund',
    refundId: 'r',
    paymentId: 'pay of topup_1',
    amount: 2n ** 60n,
    currency: 'INR',
    of: 'one',
  },
  ...more,
})

const voucherOf = (n: number, more: Partial<Voucher> = {}): Voucher => ({
  id: `v${n}`,
  hash: `hash ${n}`,
  amount: 5n,
  note: '',
  createdAt: noon + n,
  expiresAt: noon + 1,
  revokedAt: null,
  account: null,
  redeemedAt: null,
  lot: null,
  ...more,
})

const periodOf = (period: string, more: Partial<Period> = {}): Period => ({
  period,
  source: 'play',
  subscription: 'sub',
  account: 'anna',
  product: 'monthly',
  startsAt: noon,
  endsAt: noon + 30 * dayMs,
  state: 'active',
  amount: 5n,
  lot: null,
  takenBack: null,
  models: null,
  cancelledAt: null,
  createdAt: noon,
  updatedAt: noon,
  ...more,
})

const ids = (rows: readonly { readonly id: string }[]) => rows.map(({ id }) => id)

describeOnBoth('payments', (open) => {
  test('a top-up is found by what it and its processor are called, and listed by what it is', async () => {
    const { payments } = await open(() => noon)
    for (const n of [1, 2, 3])
      await payments.addTopUp(topUpOf(n, { createdAt: noon + Math.floor(n / 2) }), null, noLimit)
    await payments.addTopUp(topUpOf(4, { account: 'berta', processor: 'stripe' }), null, noLimit)
    await payments.changeTopUp('topup_1', (row) => ({ ...row, reference: 'plink_1', url: 'https://pay' }))
    const paid = await payments.changeTopUp('topup_1', (row) => ({ ...pay(row), problem: 'paid_twice' }))
    expect(await payments.changeTopUp('topup_1', () => null)).toEqual(paid)
    expect(paid).toMatchObject({ state: 'paid', url: 'https://pay', rate: openTopUp.rate, receipt: null })
    expect(await payments.findTopUp('topup_1')).toEqual(paid)
    expect(await payments.findTopUp('topup_9')).toBeUndefined()
    expect(await payments.findByReference('razorpay', 'plink_1')).toEqual(paid)
    expect(await payments.findByReference('stripe', 'plink_1')).toBeUndefined()
    expect(await payments.findByPayment('razorpay', 'pay of topup_1')).toEqual(paid)
    const listed = async (...asked: Parameters<typeof payments.listTopUps>) =>
      ids(await payments.listTopUps(...asked))
    expect(await listed(null, 9, null)).toEqual(['topup_3', 'topup_2', 'topup_4', 'topup_1'])
    expect(await listed('anna', 2, null)).toEqual(['topup_3', 'topup_2'])
    expect(await listed('anna', 2, 'topup_2')).toEqual(['topup_1'])
    expect(await listed(null, 9, null, { problem: true })).toEqual(['topup_1'])
    expect(await listed(null, 9, null, { state: 'open', processor: 'stripe' })).toEqual(['topup_4'])
    expect(await listed(null, 9, null, { from: noon, until: noon + 1 })).toEqual(['topup_4', 'topup_1'])
    await expect(async () => await payments.changeTopUp('topup_9', pay)).toThrow('no top-up topup_9')
  })

  test('receipts are numbered without a gap through a year, however many are credited at once', async () => {
    const { payments, webhooks } = await open(() => noon)
    const hook = { id: 'w', account: 'anna', url: 'https://example.org', createdAt: noon }
    await webhooks.addWebhook({ ...hook, events: ['top_up.credited'], sealed: new Uint8Array([1]) })
    for (const n of many) await payments.addTopUp(topUpOf(n), null, noLimit)
    await payments.addTopUp(topUpOf('test', { test: true }), null, noLimit)
    await payments.addTopUp(topUpOf('next'), null, noLimit)
    for (const row of await payments.listTopUps(null, 99, null)) await payments.changeTopUp(row.id, pay)
    const credited = await Promise.all(
      // Twice each: a message and the page arrive together.
      [...many, ...many].map((n) =>
        payments.changeTopUp(`topup_${n}`, (row) => (row.creditedAt === null ? credit(row) : null)),
      ),
    )
    const numbers = new Set(credited.map(({ receipt }) => receipt?.number))
    expect([...numbers].toSorted((a, b) => a! - b!)).toEqual(many.map((n) => n + 1))
    for (const row of credited) expect(await payments.findTopUp(row.id)).toEqual(row)
    expect(await webhooks.listDeliveries('w', 99)).toHaveLength(many.length)
    const inTest = (row: TopUp) => ({ ...credit(row), lot: null })
    expect((await payments.changeTopUp('topup_test', inTest)).receipt).toBeNull()
    const later = noon + 365 * dayMs
    const next = await payments.changeTopUp('topup_next', (row) => ({ ...credit(row), creditedAt: later }))
    expect(next.receipt).toEqual({ year: new Date(later).getUTCFullYear(), number: 1 })
  })

  test('an account leaves no more than so many unpaid, and a request that is repeated opens one', async () => {
    const { payments } = await open(() => noon)
    const limit = { most: 3, since: noon - 1 }
    const opened = await Promise.all(
      many.map((n) => payments.addTopUp(topUpOf(n, { createdAt: noon + n }), null, limit)),
    )
    const kept = await payments.listTopUps('anna', 99, null)
    expect(kept).toHaveLength(3)
    expect(opened.filter((row) => row !== 'conflict' && 'id' in row)).toHaveLength(3)
    expect(await payments.addTopUp(topUpOf('x'), null, limit)).toEqual({ firstAt: kept.at(-1)!.createdAt })
    await payments.changeTopUp(kept[0]!.id, pay)
    const under = { key: 'k', hash: 'ab' }
    const repeated = await Promise.all(many.map((n) => payments.addTopUp(topUpOf(`k${n}`), under, limit)))
    expect(new Set(repeated.map((row) => row !== 'conflict' && 'id' in row && row.id)).size).toBe(1)
    expect(await payments.listTopUps('anna', 99, null)).toHaveLength(4)
    expect(await payments.addTopUp(topUpOf('y'), { key: 'k', hash: 'cd' }, limit)).toBe('conflict')
    expect(await payments.addTopUp(topUpOf('z', { account: 'berta' }), under, limit)).toMatchObject({
      id: 'topup_z',
    })
  })

  test('refunds that arrive at once take no more than the payment, and each its own part of it', async () => {
    const { payments } = await open(() => noon)
    await payments.addTopUp(topUpOf(1), null, noLimit)
    await payments.changeTopUp('topup_1', (row) => credit(pay(row)))
    const part = openTopUp.amount / 10n
    const taken = await Promise.all(
      many.map((n) =>
        payments.changeReversal(reversalOf(`r${n}`, 'topup_1'), (row, current, others) => {
          const before = others.reduce((sum, { amount }) => sum + amount, 0n)
          expect([current, before]).toEqual([undefined, row.refunded])
          if (row.refunded + part > row.amount) return null
          return {
            topUp: { ...row, refunded: row.refunded + part, state: 'refunded_part' },
            reversal: reversalOf(`r${n}`, 'topup_1', { amount: part, booked: n === 0 }),
          }
        }),
      ),
    )
    expect(taken.filter((row) => row !== undefined)).toHaveLength(10)
    expect(await payments.findTopUp('topup_1')).toMatchObject({ refunded: openTopUp.amount })
    const kept = await payments.reversalsOf('topup_1')
    expect(kept).toHaveLength(10)
    expect(await payments.reversalsOf('topup_2')).toEqual([])
    const unbooked = kept.find(({ booked }) => !booked)!
    const booked = await payments.changeReversal(unbooked, (topUp, row) => ({
      topUp,
      reversal: { ...row!, held: 5n, booked: true },
    }))
    expect(booked).toEqual({ ...unbooked, held: 5n, booked: true })
    expect(await payments.changeReversal(unbooked, () => null)).toEqual(booked)
    const left = ids(kept.filter(({ booked, id }) => !booked && id !== unbooked.id))
    expect(ids(await payments.unbookedReversals(99)).toSorted()).toEqual(left.toSorted())
    expect(await payments.unbookedReversals(2)).toHaveLength(2)
  })

  test('a refund is asked for once under its id, and for no more than is left', async () => {
    const { payments } = await open(() => noon)
    await payments.addTopUp(topUpOf(1), null, noLimit)
    await payments.changeTopUp('topup_1', (row) => ({ ...credit(pay(row)), refunded: 10n }))
    const refund = { topUp: 'topup_1', id: 'a', amount: openTopUp.amount - 10n, askedAt: noon, madeAt: null }
    const asked = await Promise.all(many.map((n) => payments.askRefund({ ...refund, askedAt: noon + n }, 0)))
    expect(new Set(asked.map((row) => JSON.stringify(row, (_, value) => String(value)))).size).toBe(1)
    expect(new Set(asked.map((row) => 'askedAt' in row && row.askedAt)).size).toBe(1)
    await payments.refundRefused(refund)
    expect(await payments.askRefund({ ...refund, id: 'b', amount: refund.amount + 1n }, 0)).toEqual({
      left: refund.amount,
    })
    expect(await payments.askRefund({ ...refund, askedAt: noon + 99 }, 0)).toMatchObject({
      askedAt: noon + 99,
    })
    await payments.refundMade(refund, noon + 5)
    await payments.refundRefused(refund)
    expect(await payments.askRefund(refund, 0)).toMatchObject({ askedAt: noon + 99, madeAt: noon + 5 })
  })

  test('refunds under different ids come to no more than the payment, before any of them is reported', async () => {
    const { payments } = await open(() => noon)
    await payments.addTopUp(topUpOf(1), null, noLimit)
    await payments.changeTopUp('topup_1', (row) => credit(pay(row)))
    const part = openTopUp.amount / 4n
    const of = (n: number) => ({ topUp: 'topup_1', id: `r${n}`, amount: part, askedAt: noon, madeAt: null })
    const asked = await Promise.all(many.map((n) => payments.askRefund(of(n), noon - 1)))
    const accepted = asked.flatMap((row) => ('id' in row ? [row] : []))
    expect(accepted).toHaveLength(4)
    expect(asked.filter((row) => 'left' in row)).toEqual(Array.from({ length: 12 }, () => ({ left: 0n })))
    const [made, refused, reported] = accepted
    // Made, and the processor reports it later; refused; made and reported.
    await payments.refundMade(made!, noon)
    await payments.refundRefused(refused!)
    await payments.refundMade(reported!, noon)
    await payments.changeReversal(reversalOf('rfnd', 'topup_1'), (row) => ({
      topUp: { ...row, refunded: part },
      reversal: reversalOf('rfnd', 'topup_1', { amount: part }),
    }))
    expect(await payments.askRefund({ ...of(20), amount: part + 1n }, noon - 1)).toEqual({ left: part })
    // What the processor has not answered for long is looked up there by an operator, who may ask anew.
    expect(await payments.askRefund({ ...of(20), amount: 2n * part }, noon)).toMatchObject({ id: 'r20' })
  })

  test('a message is kept once, whoever reports it, until what it says is done', async () => {
    const { payments } = await open(() => noon)
    const said = await Promise.all(many.map((n) => payments.recordEvent(eventOf('e1', { at: noon + n }))))
    expect(new Set(said.map(({ at }) => at)).size).toBe(1)
    expect(await payments.listEvents(null, 9)).toEqual([said[0]!])
    await payments.recordEvent(eventOf('e2', { at: noon + 50, outcome: 'waiting' }))
    await payments.recordEvent(eventOf('e3', { at: noon + 60, topUp: 'topup_1' }))
    expect(ids(await payments.unfinishedEvents(noon + 40, 9))).toEqual(['e1'])
    expect(ids(await payments.waitingFor('razorpay', 'pay of topup_1'))).toEqual(['e2'])
    expect(await payments.waitingFor('stripe', 'pay of topup_1')).toEqual([])
    await payments.addTopUp(topUpOf(1), null, noLimit)
    await payments.changeTopUp('topup_1', (row) => credit(pay(row)))
    expect(ids(await payments.unfinishedEvents(noon + 40, 9)).toSorted()).toEqual(['e1', 'e2'])
    await payments.concludeEvent(said[0]!, 'applied', 'topup_1')
    expect(ids(await payments.listEvents('topup_1', 9))).toEqual(['e3', 'e1'])
    expect(ids(await payments.listEvents(null, 2))).toEqual(['e3', 'e2'])
    expect(await payments.recordEvent(eventOf('e1'))).toMatchObject({ outcome: 'applied', topUp: 'topup_1' })
  })

  test('one asks the processor at a time, and the sweep sees what is due', async () => {
    const { payments } = await open(() => noon)
    for (const n of [1, 2, 3]) await payments.addTopUp(topUpOf(n, { createdAt: noon + n }), null, noLimit)
    const claims = await Promise.all(many.map(() => payments.claimQuestion('topup_1', noon, 10)))
    expect(claims.filter((claimed) => claimed)).toHaveLength(1)
    expect(await payments.claimQuestion('topup_1', noon + 9, 10)).toBe(false)
    expect(await payments.claimQuestion('topup_1', noon + 10, 10)).toBe(true)
    // The clock was put back.
    expect(await payments.claimQuestion('topup_1', noon, 10)).toBe(true)
    await payments.scheduleQuestion('topup_1', noon + 5)
    await payments.scheduleQuestion('topup_2', null)
    await payments.changeTopUp('topup_3', pay)
    expect(ids(await payments.dueTopUps(noon + 5, 9))).toEqual(['topup_1', 'topup_3'])
    expect(ids(await payments.dueTopUps(noon + 4, 9))).toEqual(['topup_3'])
    expect(await payments.dueTopUps(noon + 5, 1)).toHaveLength(1)
    await payments.changeTopUp('topup_3', (row) => ({ ...row, problem: 'not_creditable' }))
    expect(ids(await payments.dueTopUps(noon + 5, 9))).toEqual(['topup_1'])
  })

  test("a voucher is one account's, however many redeem it at once", async () => {
    const { vouchers } = await open(() => noon)
    const [first, second, ended] = [voucherOf(1), voucherOf(2), voucherOf(3, { expiresAt: noon })]
    const batches = await Promise.all(many.map(() => vouchers.addVouchers([first, second, ended])))
    expect(batches.filter((made) => made)).toHaveLength(1)
    // All or none of a batch.
    expect(await vouchers.addVouchers([voucherOf(4), first])).toBe(false)
    expect(ids(await vouchers.listVouchers(9))).toEqual(['v3', 'v2', 'v1'])
    expect(await vouchers.listVouchers(1)).toHaveLength(1)
    const claims = await Promise.all(many.map((n) => vouchers.claimVoucher(first.hash, `a${n}`, noon)))
    expect(claims.filter((claimed) => claimed)).toHaveLength(1)
    const claimed = { ...first, account: `a${claims.indexOf(true)}`, redeemedAt: noon }
    expect(await vouchers.findVoucher(first.hash)).toEqual(claimed)
    expect(await vouchers.revokeVoucher(first.id, noon)).toBe(false)
    expect(await vouchers.claimVoucher(ended.hash, 'anna', noon)).toBe(false)
    expect(await vouchers.ungrantedVouchers(9)).toEqual([claimed])
    await vouchers.voucherGranted(first.id, 'lot')
    expect(await vouchers.ungrantedVouchers(9)).toEqual([])
    const ends = await Promise.all(
      many.map((n) =>
        n % 2 === 0
          ? vouchers.claimVoucher(second.hash, 'anna', noon)
          : vouchers.revokeVoucher(second.id, noon + n),
      ),
    )
    const kept = await vouchers.findVoucher(second.hash)
    // Revoked as often as it is asked, or redeemed once.
    expect(ends.filter((done) => done)).toHaveLength(kept?.account === null ? many.length / 2 : 1)
    expect(kept?.account === null).not.toBe(kept?.revokedAt === null)
  })

  test('a period is changed by one message at a time, and listed with the latest first', async () => {
    const { subscriptions, ledger } = await open(() => noon)
    const period = periodOf('p1')
    const changed = await Promise.all(
      many.map(() =>
        subscriptions.changePeriod('p1', (current) =>
          current ? { ...current, takenBack: (current.takenBack ?? 0n) + 1n } : period,
        ),
      ),
    )
    const counts = changed.map((row) => Number(row?.takenBack ?? 0n)).toSorted((a, b) => a - b)
    expect(counts).toEqual(many)
    expect(await subscriptions.changePeriod('p1', () => null)).toMatchObject({ takenBack: 15n })
    expect(await subscriptions.changePeriod('p9', () => null)).toBeUndefined()
    const ended = { ...period, state: 'ended', lot: 'lot', updatedAt: noon + 9 } as const
    await subscriptions.changePeriod('p1', () => ended)
    expect(await subscriptions.findPeriod('p1')).toEqual({ ...ended, remindedAt: null } as Period)
    for (const [id, more] of [
      ['p2', { startsAt: noon + 1 }],
      ['p3', { account: 'berta' }],
    ] as const)
      await subscriptions.changePeriod(id, () => periodOf(id, more))
    const names = (rows: readonly { period: string }[]) => rows.map(({ period: name }) => name)
    expect(names(await subscriptions.periodsOf('play', 'sub'))).toEqual(['p2', 'p3', 'p1'])
    expect(await subscriptions.periodsOf('app', 'sub')).toEqual([])
    expect(names(await subscriptions.listPeriods(null, 2))).toEqual(['p2', 'p3'])
    expect(names(await subscriptions.listPeriods('anna', 9))).toEqual(['p2', 'p1'])
    expect(await subscriptions.lotOf('p1')).toBeUndefined()
    const credit = { account: 'anna', pool: 'subscription', amount: 5n, expiresAt: noon + 9 } as const
    const { lot } = await ledger.grant({ ...credit, source: 'p1', from: 'subscription' })
    expect(await subscriptions.lotOf('p1')).toBe(lot)
  })
})
