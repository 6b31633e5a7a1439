// Payments: opens top-ups, and credits each exactly once, however its payment is reported and how often.

import type { Awaitable } from '../async/async.ts'
import { pass } from '../credits/ledger/failpoint.ts'
import type { LedgerCommands } from '../credits/ledger/ledger.ts'
import { GatewayError } from '../errors/errors.ts'
import {
  creditEnds,
  type EventOutcome,
  type EventRecord,
  judge,
  mayBePaid,
  nextQuestion,
  type PaymentEvent,
  type PaymentFact,
  type ProcessorId,
  type SoldPlan,
  type TopUp,
  type TopUpProblem,
} from './top-up.ts'
import { exchange, formatMinor, type Minor } from '../credits/money.ts'
import type { PaymentProcessor, ReturnTo } from './processor.ts'
import type { Period } from './subscriptions.ts'
import { type PaymentBooks, type PaymentRefund, Refunds, Reversals } from './reversals.ts'
import {
  type CurrencyTerms,
  draftPlan,
  draftTopUp,
  openForMs,
  type TopUpTerms,
  type WantedPlan,
  type WantedTopUp,
} from './top-up-draft.ts'

interface PaymentParts extends TopUpTerms, PaymentBooks {
  readonly ledger: PaymentBooks['ledger'] & Pick<LedgerCommands, 'grant'>
  /** Whether an account can use its credit: not when it was suspended or deleted. */
  readonly isUsable: (account: string) => Awaitable<boolean>
}

/** A processor is asked about one top-up at most this often, milliseconds. */
const askEveryMs = 10_000
/** A page waits at most this long for its processor, milliseconds; then it gets the stored state. */
const lookPatienceMs = 3_000
/** The sweep takes up messages that are unfinished for this long, milliseconds. */
const unfinishedAfterMs = 30_000
const perSweep = 200
const hourMs = 3_600_000
const atOnce = 8

export class Payments {
  readonly #parts: PaymentParts
  readonly #reversals: Reversals
  readonly #refunds: Refunds

  constructor(parts: PaymentParts) {
    this.#parts = parts
    this.#reversals = new Reversals(parts)
    this.#refunds = new Refunds(parts, this.#reversals, (id) => this.#processorOf(id))
  }

  get processors(): readonly PaymentProcessor[] {
    return this.#parts.processors
  }

  /** The currencies that can be paid in, the preferred one first: their rates, and the limits of an amount. */
  get currencies(): readonly [CurrencyTerms, ...CurrencyTerms[]] {
    return this.#parts.currencies
  }

  processor(id: string): PaymentProcessor | undefined {
    return this.#parts.processors.find((processor) => processor.id === id)
  }

  /**
   * Opens a top-up, and the page that it is paid on. Our row comes first, so that no payment can be without one. Rejects
   * with `invalid_request` (the amount, the processor), `idempotency_conflict`, `rate_limit_exceeded` when the account
   * leaves too many unpaid, and as `PaymentProcessor.open`: then the same request with its Idempotency-Key opens the page
   * of the same top-up.
   */
  async open(wanted: WantedTopUp, returnTo: (id: string) => ReturnTo): Promise<TopUp> {
    const topUp = draftTopUp(wanted, this.#parts, this.#parts.now())
    return this.#open(topUp, wanted, [], returnTo)
  }

  /** Opens the payment of a period of a plan, in the same way. */
  async openPlan(wanted: WantedPlan, returnTo: (id: string) => ReturnTo): Promise<TopUp> {
    const topUp = draftPlan(wanted, this.#parts, this.#parts.now())
    return this.#open(topUp, wanted, [wanted.plan.id], returnTo)
  }

  async #open(
    topUp: TopUp,
    { idempotencyKey: under, processor }: Pick<WantedTopUp, 'idempotencyKey' | 'processor'>,
    more: readonly string[],
    returnTo: (id: string) => ReturnTo,
  ): Promise<TopUp> {
    const { store } = this.#parts
    const asked = [String(topUp.amount), topUp.currency, processor ?? null, ...more]
    const hash = Bun.SHA256.hash(JSON.stringify(asked), 'hex')
    const limit = { most: this.#parts.unpaidPerHour, since: topUp.createdAt - hourMs }
    const row = await store.addTopUp(topUp, under === null ? null : { key: under, hash }, limit)
    if (row === 'conflict') throw new GatewayError('idempotency_conflict')
    if ('firstAt' in row)
      throw new GatewayError('rate_limit_exceeded', {
        message: `${limit.most} top-ups that nobody has paid were opened in the last hour. Pay one of them, or try later.`,
        retryAfterMs: row.firstAt - limit.since,
      })
    if (row.reference !== null || row.state !== 'open') return row
    // A repeated request goes to the same processor as the first.
    const { reference, url } = await this.#processorOf(row.processor).open(row, returnTo(row.id))
    await store.scheduleQuestion(row.id, nextQuestion(row.createdAt, row.createdAt))
    return store.changeTopUp(row.id, (current) =>
      current.reference === null ? { ...current, reference, url } : null,
    )
  }

  /**
   * A top-up of an account; asks the processor first if it is open and was not asked recently. An answer that takes more
   * than three seconds still counts, and is seen the next time.
   */
  async look(account: string, id: string): Promise<TopUp> {
    const { store } = this.#parts
    const topUp = await store.findTopUp(id)
    if (topUp?.account !== account)
      throw new GatewayError('not_found', { message: 'There is no such top-up.' })
    const asking = this.settleTopUp(id, { askEveryMs })
    try {
      const answer = await within(lookPatienceMs, asking)
      if (answer !== 'late') return answer
      asking.catch((error: unknown) => this.#onUnasked(topUp, error))
    } catch (error) {
      // The stored state is an answer too; the sweep asks again.
      if (!(error instanceof GatewayError) || error.code !== 'payment_processor_error') throw error
    }
    // A message may have arrived while the processor was asked.
    return (await store.findTopUp(id)) ?? topUp
  }

  /**
   * The one way to credit: hook, callback, page, sweep and operator all come here. `news` is what the processor has said
   * in a signed message; without it the processor itself is asked where there may be something to learn, unless it was
   * asked within `askEveryMs`. Resolves with the top-up as it is then. Killed at any point, it goes on from there the
   * next time: the credit is granted under the id of the payment. Rejects with `store_unavailable`, `overloaded`,
   * `not_found` and `payment_processor_error`.
   */
  async settleTopUp(
    id: string,
    { news, askEveryMs: every = 0 }: { readonly news?: PaymentFact; readonly askEveryMs?: number } = {},
  ): Promise<TopUp> {
    const { store } = this.#parts
    const found = await store.findTopUp(id)
    if (!found) throw new GatewayError('not_found', { message: 'There is no such top-up.' })
    const fact = news ?? (await this.#ask(found, every))
    const topUp = fact === undefined ? found : await this.#take(found, fact)
    if (topUp.paidAt === null || topUp.creditedAt !== null) return topUp
    pass('payment-proven', id)
    return this.#credit(topUp)
  }

  async #ask(topUp: TopUp, every: number): Promise<PaymentFact | undefined> {
    const { store, now } = this.#parts
    const processor = this.processor(topUp.processor)
    if (!mayBePaid(topUp, now()) || processor?.test !== topUp.test) return undefined
    if (!(await store.claimQuestion(topUp.id, now(), every))) return undefined
    return processor.look(topUp)
  }

  /** Applies a processor's report: the payment, its end without one, or a problem for an operator. */
  async #take(topUp: TopUp, fact: PaymentFact): Promise<TopUp> {
    const { store, now } = this.#parts
    if (fact.kind === 'paid') {
      const other = await store.findByPayment(topUp.processor, fact.paymentId)
      if (other && other.id !== topUp.id) return this.#problem(topUp, 'payment_used', fact)
    }
    let problem: TopUpProblem | undefined
    const after = await store.changeTopUp(topUp.id, (current) => {
      const judged = judge(current, fact, now())
      problem = judged.kind === 'problem' ? judged.problem : undefined
      return judged.kind === 'changed' ? judged.topUp : null
    })
    return problem === undefined ? after : this.#problem(after, problem, fact)
  }

  async #credit(topUp: TopUp): Promise<TopUp> {
    const { store, now, isUsable, alarm } = this.#parts
    const given = topUp.test ? { lot: null, period: null } : await this.#give(topUp)
    if (given === 'refused') return this.#problem(topUp, 'not_creditable', undefined)
    pass('payment-granted', topUp.id)
    // Its page stays open when the account goes. The money is booked all the same: an operator gives it back.
    if (!topUp.test && !(await isUsable(topUp.account)))
      alarm('a payment needs an operator', { problem: 'account_not_usable', top_up: topUp.id })
    const after = await store.changeTopUp(topUp.id, (current) =>
      current.creditedAt === null
        ? {
            ...current,
            state: 'credited',
            lot: given.lot,
            plan: withPeriod(current.plan, given.period),
            creditedAt: now(),
          }
        : null,
    )
    pass('payment-credited', topUp.id)
    // A refund may arrive before its payment.
    for (const event of await store.waitingFor(topUp.processor, topUp.paymentId!)) await this.#finish(event)
    return after
  }

  /** What was paid for, given once: credit under the id of the payment, or a period of a plan under that of the top-up. */
  async #give(
    topUp: TopUp,
  ): Promise<{ readonly lot: string | null; readonly period: Period | null } | 'refused'> {
    try {
      if (topUp.plan === null) return { lot: await this.#grant(topUp), period: null }
      return { lot: null, period: await this.#parts.plans.begin(topUp) }
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      if (error.code !== 'idempotency_conflict' && error.code !== 'invalid_request') throw error
      return 'refused'
    }
  }

  async #grant(topUp: TopUp): Promise<string> {
    const { account, processor, paymentId, credit } = topUp
    const { lot } = await this.#parts.ledger.grant({
      source: `payment:${processor}:${paymentId}`,
      account,
      pool: 'purchased',
      amount: credit,
      rounding: exchange(topUp).rounding,
      expiresAt: creditEnds(topUp),
      from: `cash:${processor}`,
    })
    return lot
  }

  /** Records the first problem of a top-up, and alerts on every one. */
  async #problem(topUp: TopUp, problem: TopUpProblem, fact: PaymentFact | undefined): Promise<TopUp> {
    const said = fact?.kind === 'paid' ? { ...fact, amount: String(fact.amount) } : {}
    this.#parts.alarm('a payment needs an operator', {
      problem,
      top_up: topUp.id,
      expected: `${formatMinor(topUp.amount, topUp.currency)} ${topUp.currency}`,
      ...said,
    })
    return this.#parts.store.changeTopUp(topUp.id, (current) =>
      current.problem === null || problem === 'not_creditable' ? { ...current, problem } : null,
    )
  }

  /**
   * Handles a verified message: it is stored first, then acted on. Finished ones have no effect when repeated.
   * Resolves with the outcome; rejects with `store_unavailable` or `overloaded`, so that it is sent again.
   */
  async take(processor: ProcessorId, event: PaymentEvent, raw: Uint8Array): Promise<EventOutcome> {
    const { news } = event
    const paymentId = 'paymentId' in news ? news.paymentId : null
    const received = {
      processor,
      type: event.type,
      at: this.#parts.now(),
      hash: Bun.SHA256.hash(raw, 'hex'),
      outcome: 'received',
      topUp: event.topUp,
      reference: event.reference,
      paymentId,
      news,
    } as const
    const known = await this.#parts.store.recordEvent({ ...received, id: event.id })
    if (known.hash === received.hash) return this.#finish(known)
    // The header with the id is not signed: another body under a known id is another message.
    const id = `${event.id}#${received.hash.slice(0, 16)}`
    return this.#finish(await this.#parts.store.recordEvent({ ...received, id }))
  }

  async #finish(event: EventRecord): Promise<EventOutcome> {
    if (event.outcome === 'applied' || event.outcome === 'ignored') return event.outcome
    pass('payment-noted', event.id)
    const { outcome, topUp } = await this.#act(event)
    if (outcome !== event.outcome || topUp !== event.topUp)
      await this.#parts.store.concludeEvent(event, outcome, topUp)
    if (outcome !== 'waiting' || (await this.#topUpOf(event))?.creditedAt == null) return outcome
    // Its payment was credited between the two steps: otherwise it would never be finished.
    return this.#finish({ ...event, outcome })
  }

  async #act(event: EventRecord): Promise<{ readonly outcome: EventOutcome; readonly topUp: string | null }> {
    const { news } = event
    if (news.kind === 'other' || news.kind === 'open') return { outcome: 'ignored', topUp: event.topUp }
    const topUp = await this.#topUpOf(event)
    // Test credentials say nothing about live payments, and the reverse.
    if (topUp && topUp.test !== this.processor(event.processor)?.test)
      return { outcome: 'refused', topUp: topUp.id }
    if (news.kind === 'refund' || news.kind === 'refund-failed' || news.kind === 'dispute') {
      if (!topUp || topUp.creditedAt === null) return { outcome: 'waiting', topUp: topUp?.id ?? null }
      // A second payment of the same top-up was never credited: giving it back takes nothing.
      if (!isOfItsPayment(news, topUp)) return { outcome: 'ignored', topUp: topUp.id }
      return { outcome: await this.#reversals.take(topUp, news), topUp: topUp.id }
    }
    if (!topUp) return { outcome: 'unmatched', topUp: null }
    if (news.kind === 'unproven') {
      // Not awaited: the message must be answered at once, and the sweep asks again.
      await this.#parts.store.scheduleQuestion(topUp.id, this.#parts.now())
      this.settleTopUp(topUp.id).catch((error: unknown) => this.#onUnasked(topUp, error))
      return { outcome: 'applied', topUp: topUp.id }
    }
    const after = await this.settleTopUp(topUp.id, { news })
    const taken = news.kind !== 'paid' || after.paymentId === news.paymentId
    return { outcome: taken && after.state !== 'paid' ? 'applied' : 'refused', topUp: topUp.id }
  }

  /** The top-up that a message is about, among those of its processor. */
  async #topUpOf(event: EventRecord): Promise<TopUp | undefined> {
    const { store } = this.#parts
    const { processor, topUp: id, reference, paymentId } = event
    const named = id === null ? undefined : await store.findTopUp(id)
    if (named?.processor === processor) return named
    const opened = reference === null ? undefined : await store.findByReference(processor, reference)
    return opened ?? (paymentId === null ? undefined : store.findByPayment(processor, paymentId))
  }

  /**
   * Asks about unreported top-ups, credits paid ones, and finishes what a killed process left. Returns the number
   * looked at. If a processor cannot be reached, it is asked again later.
   */
  async sweep(now: number): Promise<number> {
    const { store } = this.#parts
    const due = await store.dueTopUps(now, perSweep)
    // A few at a time: one that does not answer must not block the others.
    for (let at = 0; at < due.length; at += atOnce)
      await Promise.all(due.slice(at, at + atOnce).map((topUp) => this.#sweepOne(topUp, now)))
    const events = await store.unfinishedEvents(now - unfinishedAfterMs, perSweep)
    for (const event of events) await this.#finish(event)
    return due.length + events.length + (await this.#reversals.sweep(perSweep))
  }

  async #sweepOne(topUp: TopUp, now: number): Promise<void> {
    const { store } = this.#parts
    // First, so that one that fails does not block the others.
    await store.scheduleQuestion(topUp.id, nextQuestion(topUp.createdAt, now))
    try {
      const after = await this.settleTopUp(topUp.id)
      // It was never opened, or its processor still calls it open long after its end, so nobody can pay it any more.
      if (after.state === 'open' && now > after.expiresAt + openForMs)
        await store.changeTopUp(after.id, (row) =>
          row.state === 'open' ? { ...row, state: 'expired' } : null,
        )
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'payment_processor_error') throw error
      this.#onUnasked(topUp, error)
    }
  }

  #onUnasked({ id }: TopUp, error: unknown): void {
    this.#parts.alarm('a payment processor could not be asked; it is asked again', { top_up: id, error })
  }

  /** Asks the processor now, in any state: an operator's reconciliation. */
  async reconcile(id: string): Promise<TopUp> {
    const topUp = await this.settleTopUp(id)
    for (const event of await this.#parts.store.listEvents(id, perSweep)) await this.#finish(event)
    return (await this.#parts.store.findTopUp(id)) ?? topUp
  }

  /** Refunds a part of a payment: see Refunds. */
  refund(id: string, amount: Minor, refundId: string): Promise<PaymentRefund> {
    return this.#refunds.make(id, amount, refundId)
  }

  #processorOf(id: ProcessorId): PaymentProcessor {
    const processor = this.processor(id)
    if (processor) return processor
    throw new GatewayError('payment_processor_error', { message: `${id} is not configured any more.` })
  }
}

function withPeriod(plan: SoldPlan | null, period: Period | null): SoldPlan | null {
  if (plan === null || period === null) return plan
  const { startsAt, endsAt } = period
  return { ...plan, period: { startsAt, endsAt } }
}

/** A page that did not name its payment was credited under its own id. */
function isOfItsPayment(
  { paymentId }: { readonly paymentId: string },
  topUp: Pick<TopUp, 'paymentId' | 'reference'>,
): boolean {
  return paymentId === topUp.paymentId || topUp.paymentId === topUp.reference
}

async function within<T>(ms: number, answer: Promise<T>): Promise<T | 'late'> {
  const { promise, resolve } = Promise.withResolvers<'late'>()
  const timer = setTimeout(() => resolve('late'), ms)
  try {
    return await Promise.race([answer, promise])
  } finally {
    clearTimeout(timer)
  }
}
