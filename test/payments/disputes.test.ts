// What a dispute or a refund has taken of a payment's credit, and what returns when the money stays after all.

import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { twelveMonthsAfter } from '../../src/credits/calendar.ts'
import { usd } from '../../src/credits/money.ts'
import { parseRate } from '../../src/payments/exchange.ts'
import type { DisputePhase, PaymentNews } from '../../src/payments/news.ts'
import { Payments } from '../../src/payments/payments.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { day, noon } from '../credits/support.ts'
import { tempDir, type TempDir } from '../support/tmp.ts'
import { openTopUp, rounding } from './top-up.ts'

const { credit } = openTopUp
const ends = twelveMonthsAfter(noon)
let home: TempDir
let store: Store
let now: number
let payments: Payments
let messages: number

beforeEach(async () => {
  home = tempDir('weir-disputes-')
  now = noon
  messages = 0
  store = await openStore(home.path, { clock: () => now, serveAs: 'test' })
  payments = new Payments({
    store: store.payments,
    ledger: store.ledger,
    processors: [
      {
        id: 'razorpay',
        test: false,
        verify: undefined,
        open: async ({ id }) => ({ reference: `plink_${id}`, url: 'https://pay.example' }),
        look: async () => ({ kind: 'open' }),
        refund: async () => undefined,
      },
    ],
    fx: { rate: parseRate('89.015')!, asOf: '2026-11-20', source: 'a test' },
    least: 10_000n,
    most: 5_000_000n,
    unpaidPerHour: 20,
    isUsable: () => true,
    now: () => now,
    alarm: () => undefined,
  })
  await store.payments.addTopUp(openTopUp, null, { most: 1, since: 0 })
  const { lot } = await store.ledger.grant({
    source: 'payment:razorpay:pay_1',
    account: 'anna',
    pool: 'purchased',
    amount: credit,
    rounding,
    expiresAt: ends,
    from: 'cash:razorpay',
  })
  const credited = { paymentId: 'pay_1', paidAt: noon, creditedAt: noon, lot, state: 'credited' } as const
  await store.payments.changeTopUp('topup_1', (topUp) => ({ ...topUp, ...credited }))
})
afterEach(async () => {
  const { checks } = await store.ledger.audit()
  expect(checks.filter(({ ok }) => !ok)).toEqual([])
  await store.close()
  home.remove()
})

async function tell(news: PaymentNews): Promise<unknown> {
  const event = { id: `evt_${++messages}`, type: news.kind, topUp: null, reference: null, news }
  return payments.take('razorpay', event, Buffer.from(event.id))
}

const of = { paymentId: 'pay_1', amount: 50_000n, currency: 'INR' } as const
const dispute = (phase: DisputePhase) => tell({ ...of, kind: 'dispute', disputeId: 'disp_1', phase })

async function standing() {
  const { lots, debt } = await store.ledger.balance('anna')
  return { lots: lots.map(({ remaining, expiresAt }) => [remaining, expiresAt]), debt }
}

describe('a dispute', () => {
  test('that is won returns the credit with the life that it had', async () => {
    now = noon + 30 * day
    await dispute('open')
    expect(await standing()).toEqual({ lots: [], debt: 0n })
    now = noon + 120 * day
    await dispute('won')
    expect(await standing()).toEqual({ lots: [[credit, ends]], debt: 0n })
  })

  test('withholds the credit of its own payment, not of the one that is consumed first', async () => {
    const soon = { source: 'earlier', account: 'anna', pool: 'purchased', from: 'grant' } as const
    await store.ledger.grant({ ...soon, amount: usd(3), expiresAt: noon + 40 * day })
    await dispute('open')
    expect(await standing()).toEqual({ lots: [[usd(3), noon + 40 * day]], debt: 0n })
  })

  test.each(['won', 'lost'] as const)('%s after the credit has ended leaves no debt', async (phase) => {
    await dispute('open')
    now = ends + day
    await dispute(phase)
    const back = phase === 'won' ? [[credit, now + day]] : []
    expect(await standing()).toEqual({ lots: back, debt: 0n })
  })
})
