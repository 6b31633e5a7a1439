// The built-in simulated processor: the whole flow without a provider, an account or the internet. It takes no money:
// its top-ups are always in test mode and never reach the ledger.

import { randomBytes } from 'node:crypto'
import type { PaymentFact, RefundNews, TopUp } from '../top-up.ts'
import type { Minor } from '../../credits/money.ts'
import type { PaymentProcessor, ReturnTo } from '../processor.ts'

export class SimulatedProcessor implements PaymentProcessor {
  readonly id = 'sim'
  readonly test = true
  /** Nobody sends messages for it. */
  readonly verify = undefined

  /** Nothing is kept of a page but its top-up: any gateway may show it. */
  async open(_: TopUp, { origin }: ReturnTo): Promise<{ reference: string; url: string }> {
    // It cannot be guessed: whoever has the address opened the top-up.
    const reference = `page_${randomBytes(16).toString('hex')}`
    return { reference, url: `${origin}/hooks/sim/${reference}` }
  }

  /** What the visitor chooses is told at once: see `simulatedFact`. */
  async look(): Promise<PaymentFact> {
    return { kind: 'open' }
  }

  async refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined> {
    const { currency } = topUp
    return { kind: 'refund', refundId: id, paymentId: topUp.paymentId ?? '', amount, currency, of: 'one' }
  }
}

/** What the visitor of a top-up's page has chosen, as a processor would report it. Chosen twice, it is the same payment. */
export function simulatedFact(
  { reference, amount, currency }: Pick<TopUp, 'reference' | 'amount' | 'currency'>,
  choice: 'paid' | 'failed',
  now: number,
): PaymentFact {
  if (choice === 'failed') return { kind: 'failed' }
  const paymentId = `simpay_${(reference ?? '').slice('page_'.length)}`
  return { kind: 'paid', paymentId, amount, currency, paidAt: now, method: 'sim' }
}
