// The credit that is set aside for one call, and the one settle or release that ends it.

import { freeIn } from '../../credits/balance.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type { Attempt, Balance, LedgerStore } from '../../credits/ledger/ledger.ts'
import { larger, smaller, type Pico } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { errorTable, GatewayError } from '../../errors.ts'
import type { OnCallEnded } from '../../observe/call-ended.ts'
import type { Log } from '../../observe/log.ts'
import type { Warning } from '../../protocols/protocol.ts'
import type { PaidCall } from '../call.ts'
import { exactCount } from '../counting/own-count.ts'
import type { Counter } from '../counting/exact-count.ts'
import { promptBound, tokenBound } from '../counting/prompt-size.ts'
import { endedCall, type CallEnding } from '../ended-call.ts'
import type { InFlight } from '../in-flight.ts'
import type { FinalFigures, Outcome, StoppedBy } from '../outcome.ts'
import type { ChatLimits } from '../limits.ts'
import type { Candidate } from '../routing/candidates.ts'
import { codeOf } from '../routing/fault-error.ts'
import type { Turns } from '../streaming/turns.ts'
import { billOf } from './bill.ts'
import { chargeFor, noCharge, type Charge, withOpenSearches } from './charge.ts'
import { credibleUsage } from '../counting/credible.ts'
import { Checkpoints } from './checkpoints.ts'
import { keyLimitOf, keyRoom } from './key-limit.ts'
import { leaseUntil } from './lease.ts'
import { needOf, outputBound, quickNeed, type Need } from './need.ts'
import { warnOfUncounted, warnOfUnpaid, warnOfUnpriced } from './operator-warnings.ts'
import { priceRecord } from './price-record.ts'
import { refusedHold } from './refused-hold.ts'
import { EarlierRounds, type ToolFee } from './rounds.ts'

export interface BillingParts {
  readonly ledger: LedgerStore
  /** Names this process in holds, so that a zombie cannot end a call that recovery has ended. */
  readonly owner: string
  readonly limits: ChatLimits
  /** Calls in flight, for limits and draining. */
  readonly inFlight: InFlight
  /** Shares the event loop among all calls. */
  readonly turns: Turns
  /** Counts tokens beside the calls. */
  readonly counter: Counter
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly onCallEnded: OnCallEnded
}

/** Rounds that an extension is asked for. */
const roundsAhead = 4n
/** How much more than that must be free, so that other calls of the account are not refused for it. */
const plenty = 16n

export class Hold {
  readonly #parts: BillingParts
  readonly #call: PaidCall
  /** What the call may cost by its caller's word, over all rounds; picodollars. */
  readonly #maxCost: Pico | undefined
  readonly #earlier = new EarlierRounds()
  /** The call with the question of the round that runs, and what that round needs. */
  #round: PaidCall
  #need: Need
  #amount: Pico
  #free: Pico
  #candidate: Candidate
  #attempts: readonly Attempt[] = []
  #firstByteMs: number | null = null
  #ended = false
  readonly #checkpoints: Checkpoints

  private constructor(
    parts: BillingParts,
    call: PaidCall,
    need: Need,
    amount: Pico,
    free: Pico,
    first: Candidate,
  ) {
    this.#need = need
    this.#maxCost = need.maxCost
    this.#parts = parts
    this.#call = call
    this.#round = call
    this.#checkpoints = new Checkpoints(parts, call.requestId, () => {
      const { usage, cost } = this.sum(noCharge)
      return { usage, cost: cost.total }
    })
    this.#amount = amount
    this.#free = free
    this.#candidate = first
  }

  /**
   * Sets credit of the account's `balance` aside, from the pools of `funding`; the ledger has the last word on whether
   * it is there. Rejects with `insufficient_credits`, `credits_reserved`, `key_limit_exceeded` or `store_unavailable`;
   * resolves when the hold is durable, so that bytes may go to a provider.
   */
  static async open(
    parts: BillingParts,
    call: PaidCall,
    candidates: readonly Candidate[],
    balance: Balance,
    funding: readonly Pool[],
  ): Promise<Hold> {
    const { caller } = call
    const { model, offer } = candidates[0]!
    const credit = freeIn(balance, funding, parts.now())
    // Most keys have no limit, and then there is nothing to wait for.
    const room =
      caller.key?.spendLimit == null ? undefined : await keyRoom(parts.ledger, caller.key, parts.now())
    const free = smaller(credit, room ?? credit)
    const need = await needFor(parts, call, candidates, free)
    const now = parts.now()
    parts.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
    pass('hold-queued', call.requestId)
    const result = await parts.ledger.hold({
      call: call.requestId,
      account: caller.account.id,
      key: caller.key?.id ?? null,
      funding,
      want: need.want,
      least: need.least,
      keyLimit: keyLimitOf(caller.key, now),
      model: model.id,
      priceVersion: offer.price.version,
      owner: parts.owner,
      leaseUntil: leaseUntil(parts.limits, now),
    })
    if (result.kind === 'refused') throw refusedHold(result, need, call, now)
    pass('hold-durable', call.requestId)
    parts.inFlight.enter(call.requestId, caller.account.id)
    parts.inFlight.note(call.requestId, {
      phase: 'waiting',
      model: call.request.envelope.model,
      key: caller.key?.id ?? null,
      channel: caller.channel,
      hold: result.amount,
    })
    return new Hold(parts, call, need, result.amount, free - result.amount, candidates[0]!)
  }

  /** What is held now, picodollars. */
  get amount(): Pico {
    return this.#amount
  }

  /** What the rounds and tools before have come to. */
  get spent(): Pico {
    return this.#earlier.cost
  }

  /** What of it is left for the round that runs. */
  get left(): Pico {
    return larger(0n, this.#amount - this.#earlier.cost)
  }

  /** What the round that runs needs; its `maxCost` is what the rounds before have left of it. */
  get need(): Need {
    return this.#need
  }

  /** The call with the question of the round that runs. */
  get round(): PaidCall {
    return this.#round
  }

  /** Who serves the call; the first candidate until one does. */
  get candidate(): Candidate {
    return this.#candidate
  }

  /** For the client: that its credit bounds its answer. */
  get warnings(): readonly Warning[] {
    if (this.left >= this.need.want) return []
    const affordable = this.outputBound(this.#candidate)
    if (affordable === undefined) return []
    const message = `The output is limited to ${affordable} tokens by the credit available.`
    return [{ param: 'max_tokens', message }]
  }

  /** The most output tokens to ask of this candidate; undefined to leave it to the model. */
  outputBound(candidate: Candidate): number | undefined {
    const held = { amount: this.left, free: this.#free }
    return outputBound(this.need, held, this.#round.request.envelope, candidate)
  }

  /** Notes who serves the call. */
  servedBy(candidate: Candidate, attempts: readonly Attempt[]): void {
    this.#candidate = candidate
    this.tried(attempts)
    this.#firstByteMs ??= Math.round(performance.now() - this.#call.arrivedAt)
    const begun = { phase: 'streaming', firstByteMs: this.#firstByteMs } as const
    this.#parts.inFlight.note(this.#call.requestId, begun)
    const { price } = candidate.offer
    this.#parts.ledger.recordPrice(price.version, candidate.model.id, priceRecord(price))
  }

  /** Notes what has been tried in vain for a later round. */
  tried(attempts: readonly Attempt[]): void {
    this.#attempts = [...this.#attempts, ...attempts]
  }

  /** Holds so many picodollars more; false when the account has not that much. */
  async extend(more: Pico): Promise<boolean> {
    const { ledger, owner } = this.#parts
    if (!(await ledger.extend(this.#call.requestId, owner, more))) return false
    this.#amount += more
    this.#free = larger(0n, this.#free - more)
    return true
  }

  /**
   * A round has ended, and the gateway goes on: what it came to is charged with the rest, and recovery charges it from
   * now on.
   */
  async endRound(outcome: Outcome): Promise<void> {
    this.#earlier.addRound(await this.#charge(outcome))
    this.#checkpoints.soon()
  }

  /**
   * A tool has run for a round: its cost is charged with the rest. It is `durable` at once unless the round itself is
   * `charged-later`: a checkpoint without that would say less than the one before.
   */
  ranTool(fee: ToolFee, round: number, when: 'durable' | 'charged-later'): void {
    this.#earlier.addTool(fee, round)
    if (when === 'durable') this.#checkpoints.soon()
  }

  /** Holds what a tool may cost; what stands in the way where it cannot be held. */
  async coverTool(cost: Pico): Promise<StoppedBy | undefined> {
    return this.#cover(cost, cost)
  }

  /** Holds what the next round needs, whose question `round` holds; what stands in the way where it cannot be held. */
  async beginRound(round: PaidCall, candidates: readonly Candidate[]): Promise<StoppedBy | undefined> {
    const { request } = round
    const envelope = { ...request.envelope, maxCost: undefined }
    const asked = { ...round, request: { ...request, envelope } }
    const need = await needFor(this.#parts, asked, candidates, this.left + this.#free)
    const maxCost = this.#maxCost === undefined ? undefined : this.#maxCost - this.#earlier.cost
    const want = maxCost === undefined ? need.want : smaller(need.want, maxCost)
    const obstacle = await this.#cover(want, need.least)
    if (obstacle !== undefined) return obstacle
    this.#round = round
    this.#need = { ...need, want, maxCost }
    return undefined
  }

  /** What the call has come to, if its last round is charged so. */
  sum(last: Charge): Charge {
    return this.#earlier.with(last)
  }

  /** Has `want` left of the hold, or as much as there is and at least `least`. */
  async #cover(want: Pico, least: Pico): Promise<StoppedBy | undefined> {
    if (this.#maxCost !== undefined && this.#earlier.cost + least > this.#maxCost) return 'max_cost'
    if (this.left >= want) return undefined
    // What is queued together is one commit.
    this.#checkpoints.flush()
    if (await this.#extendAhead(want)) return undefined
    for (let part = want - this.left; part > 0n && this.left < want; part /= 4n) {
      const more = larger(part, least - this.left)
      if (await this.extend(more)) break
      if (more > part) break
    }
    return this.left < least ? 'credits' : undefined
  }

  /** Holds enough for several rounds at once, where that is little of the credit: each extension is a commit. */
  async #extendAhead(want: Pico): Promise<boolean> {
    const ahead = want * roundsAhead - this.left
    if (this.#maxCost !== undefined || ahead * plenty > this.#free) return false
    return this.extend(ahead)
  }

  /**
   * Ends the call that served something, whole or in part. Called once; resolves when the charge is durable. `make` is
   * given the figures right before their command is queued: it makes the answer, which nobody may see before. A whole
   * answer that cannot be made is not charged, and the error goes on; of a stream, what has been delivered is.
   */
  async settle(outcome: Outcome, make: (figures: FinalFigures) => void | Promise<void>): Promise<void> {
    const charge = this.sum(await this.#charge(outcome))
    warnOfUnpriced(this.#parts.log, this.#call, this.#candidate, charge)
    let made = false
    try {
      await make({
        usage: charge.usage,
        bill: billOf(charge.cost, this.#maxCost),
        stoppedBy: this.#boundBy(outcome),
      })
      made = true
    } finally {
      if (!made && !this.#call.request.envelope.stream) {
        await this.release(new GatewayError('internal_error'), this.#attempts)
      } else if (outcome.ending !== 'finished' && charge === noCharge) {
        await this.#end(() => this.#release(outcome.fault ? codeOf(outcome.fault) : outcome.ending))
      } else {
        await this.#end(() => this.#settle(charge, outcome))
      }
    }
    const code = outcome.error?.code ?? (outcome.fault === undefined ? null : codeOf(outcome.fault))
    const status = code === null ? 200 : errorTable[code].status
    this.#announce(charge, { ending: outcome.ending, status, code, error: undefined })
  }

  /** Ends a call that served nothing: its whole hold goes back. */
  async release(error: GatewayError, attempts: readonly Attempt[]): Promise<void> {
    if (this.#ended) return
    if (attempts !== this.#attempts) this.tried(attempts)
    this.#announce(noCharge, { ending: null, status: error.status, code: error.code, error })
    await this.#end(() => this.#release(error.code)).catch((cause: unknown) => {
      // The sweeper returns the hold; the client is owed the error it was about to get.
      this.#parts.log.error('a hold could not be released', { request_id: this.#call.requestId, cause })
    })
  }

  /** What bounded an answer that ended for its length: the client's max_cost or its credit, not its max_tokens. */
  #boundBy(outcome: Outcome): FinalFigures['stoppedBy'] {
    if (outcome.stoppedBy !== undefined || outcome.finishReason !== 'length') return outcome.stoppedBy
    const asked = this.#round.request.envelope.maxOutputTokens ?? this.#candidate.model.maxOutputTokens
    const bound = this.outputBound(this.#candidate)
    if (bound === undefined || (asked !== undefined && asked <= bound)) return undefined
    return this.need.maxCost !== undefined && this.left >= this.need.want ? 'max_cost' : 'credits'
  }

  /** What the call is charged. Counts what its provider has not, which takes a moment. */
  async #charge({ ending, usage, delivered }: Outcome): Promise<Charge> {
    const complete = ending === 'finished'
    const free = ending === 'client-gone' && this.#candidate.provider.onDisconnect === 'free'
    const openSearches = ending === 'client-gone' ? delivered.openSearches : 0
    if (!complete && ((!delivered.any && openSearches === 0) || free)) return noCharge
    const counted = withOpenSearches(usage, openSearches)
    const credible = counted && credibleUsage(counted, this.#candidate.model, this.#round.request.envelope.n)
    if (complete) warnOfUncounted(this.#parts.log, this.#call, this.#candidate, usage, credible)
    const answered = { usage: credible, complete, delivered }
    const own = await exactCount(this.#parts.counter, this.#round, answered)
    const charge = chargeFor(this.#candidate, answered, own, this.left)
    return openSearches === 0 ? charge : { ...charge, estimated: true }
  }

  async #end(command: () => Promise<void>): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    this.#checkpoints.stop()
    try {
      await command()
    } finally {
      this.#parts.inFlight.leave(this.#call.requestId)
    }
  }

  async #release(reason: string): Promise<void> {
    const { ledger, owner } = this.#parts
    const call = this.#call.requestId
    await ledger.release({ call, owner, reason, attempts: this.#attempts })
    pass('release-committed', call)
  }

  async #settle({ cost, usage, estimated }: Charge, outcome: Outcome): Promise<void> {
    const { ledger, owner, log } = this.#parts
    const { requestId: call, request, arrivedAt } = this.#call
    const { provider, offer } = this.#candidate
    pass('settle-queued', call)
    const result = await ledger.settle({
      call,
      owner,
      cost: cost.total,
      most: this.#maxCost ?? null,
      usage,
      lines: cost.lines,
      estimated,
      ending: outcome.ending,
      served: {
        provider: provider.id,
        upstreamModel: offer.upstream,
        upstreamId: outcome.upstreamId ?? null,
        priceVersion: offer.price.version,
        stream: request.envelope.stream,
        attempts: this.#attempts,
        firstByteMs: this.#firstByteMs,
        totalMs: Math.round(performance.now() - arrivedAt),
        finishReason: outcome.finishReason ?? null,
        unpriced: cost.unpriced,
      },
    })
    pass('settle-committed', call)
    warnOfUnpaid(log, this.#call, this.#candidate, result)
  }

  #announce(charge: Charge, ended: Pick<CallEnding, 'ending' | 'status' | 'code' | 'error'>): void {
    const facts = { at: this.#parts.now(), attempts: this.#attempts, firstByteMs: this.#firstByteMs }
    this.#parts.onCallEnded(endedCall(this.#call, { charge, ...facts, ...ended }), ended.error)
  }
}

/** The prompt is counted only where its quick bound is more than the caller has or wants to spend. */
async function needFor(
  { turns, limits, counter }: BillingParts,
  { request: { envelope, promptParts }, bodyBytes }: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Promise<Need> {
  const { holdOutputTokens } = limits
  const quick = await turns.run(() =>
    quickNeed(envelope, candidates, promptBound(promptParts, bodyBytes), holdOutputTokens, free),
  )
  return (
    quick ?? needOf(envelope, candidates, await tokenBound(counter, promptParts, bodyBytes), holdOutputTokens)
  )
}
