// The built-in simulated processor: the whole flow without a provider, an account or the internet. It takes no money:
// its top-ups are always in test mode and never reach the ledger.

import { randomBytes } from 'node:crypto'
import type { PaymentFact, RefundNews, TopUp } from '../top-up.ts'
import type { Minor } from '../../credits/currency.ts'
import type { PaymentProcessor, ReturnTo } from '../processor.ts'

interface SimulatedPage {
  readonly topUp: TopUp
  readonly returnTo: string
  fact: PaymentFact
}

/** Limit of remembered pages; the oldest is dropped, and its top-up expires. */
const mostPages = 1_000

export class SimulatedProcessor implements PaymentProcessor {
  readonly id = 'sim'
  readonly test = true
  /** Nobody sends messages for it. */
  readonly verify = undefined
  readonly #pages = new Map<string, SimulatedPage>()

  async open(topUp: TopUp, { origin, page }: ReturnTo): Promise<{ reference: string; url: string }> {
    const [oldest] = this.#pages.keys()
    if (this.#pages.size >= mostPages && oldest !== undefined) this.#pages.delete(oldest)
    // It cannot be guessed: whoever has the address opened the top-up.
    const reference = `page_${randomBytes(16).toString('hex')}`
    this.#pages.set(reference, { topUp, returnTo: page, fact: { kind: 'open' } })
    return { reference, url: `${origin}/hooks/sim/${reference}` }
  }

  async look({ reference }: TopUp): Promise<PaymentFact> {
    return this.#pages.get(reference ?? '')?.fact ?? { kind: 'open' }
  }

  async refund(topUp: TopUp, amount: Minor, id: string): Promise<RefundNews | undefined> {
    const { currency } = topUp
    return { kind: 'refund', refundId: id, paymentId: topUp.paymentId ?? '', amount, currency, of: 'one' }
  }

  /** The page as its visitor sees it; undefined if there is none. */
  page(reference: string): { readonly topUp: TopUp; readonly returnTo: string } | undefined {
    return this.#pages.get(reference)
  }

  /** The visitor's choice. The first payment stands. */
  choose(reference: string, choice: 'paid' | 'failed', now: number): void {
    const page = this.#pages.get(reference)
    if (!page || page.fact.kind === 'paid') return
    const { amount, currency } = page.topUp
    const paymentId = `simpay_${randomBytes(12).toString('hex')}`
    page.fact =
      choice === 'paid'
        ? { kind: 'paid', paymentId, amount, currency, paidAt: now, method: 'sim' }
        : { kind: 'failed' }
  }
}
