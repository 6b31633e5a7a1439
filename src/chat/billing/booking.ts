// The money side of one call: its hold, what it grows by, and the one settle or release that ends it.

import { completionTokens, promptTokens, type Usage } from '../../conversation/usage.ts'
import type { Progress } from '../../conversation/progress.ts'
import { freeIn } from '../../credits/balance.ts'
import { pass } from '../../credits/failpoint.ts'
import type { Attempt, Balance, Ending, SettleResult } from '../../credits/ledger.ts'
import { formatUsd, parseUsd, smaller, type Pico } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import { highestRates } from '../../credits/price.ts'
import { errorTable, GatewayError } from '../../errors.ts'
import type { Warning } from '../../protocols/protocol.ts'
import { atMost, billOf, chargeOf, noCharge, type Charge } from './charge.ts'
import { credibleUsage } from '../counting/credible.ts'
import { endedCall, type CallEnding } from '../ended-call.ts'
import { codeOf } from '../routing/fault-error.ts'
import type { Gateway } from '../gateway.ts'
import type { PaidCall } from '../call.ts'
import { needOf, outputWithin, type Candidate, type Need } from '../routing/candidates.ts'
import { priceRecord } from './price-record.ts'
import { keyLimitOf, keyRoom } from './key-limit.ts'
import { type Answered, exactCount, type OwnCount, roughCount, roughOutput } from '../counting/own-count.ts'
import { promptBound, tokenBound } from '../counting/prompt-size.ts'
import { refusedHold } from './refused-hold.ts'
import type { Outcome, FinalFigures, StoppedBy } from '../outcome.ts'
import { ignoresBound, tokensWithin } from './stream-bounds.ts'

/** An extension is asked for when this share of the hold has been delivered. */
const extendAt = 0.75
/** Output tokens below which a part of an extension is not worth asking for. */
const leastExtension = 16n
/** More than any model writes in one answer: none is this fast for as long as a call may last. */
const longestAnswerTokens = 1_000_000

export class Booking {
  readonly #gateway: Gateway
  readonly #call: PaidCall
  readonly #need: Need
  #held: Pico
  #free: Pico
  #candidate: Candidate
  #attempts: readonly Attempt[] = []
  #ended = false
  #extending = false
  #exhausted = false
  /** Output tokens that the hold pays for, and what that was computed from. */
  #within: { readonly held: Pico; readonly usage: Usage | undefined; readonly tokens: number } | undefined
  #firstByteMs: number | null = null
  #checkpointAt: number
  #checkpointTokens = 0

  private constructor(
    gateway: Gateway,
    call: PaidCall,
    need: Need,
    held: Pico,
    free: Pico,
    first: Candidate,
  ) {
    this.#gateway = gateway
    this.#call = call
    this.#need = need
    this.#held = held
    this.#free = free
    this.#candidate = first
    this.#checkpointAt = gateway.now() + gateway.limits.checkpointMs
  }

  /**
   * Sets credit in the account's `balance` aside, from the pools of `funding`; the ledger has the last word on whether it is there. Rejects with
   * `insufficient_credits`, `credits_reserved`, `key_limit_exceeded` or `store_unavailable`; resolves when the hold is
   * durable, so that bytes may go to a provider.
   */
  static async open(
    gateway: Gateway,
    call: PaidCall,
    candidates: readonly Candidate[],
    balance: Balance,
    funding: readonly Pool[],
  ): Promise<Booking> {
    const { caller } = call
    const { model, offer } = candidates[0]!
    const credit = freeIn(balance, funding, gateway.now())
    // Most keys have no limit, and then there is nothing to wait for.
    const room =
      caller.key?.spendLimit == null ? undefined : await keyRoom(gateway.ledger, caller.key, gateway.now())
    const free = smaller(credit, room ?? credit)
    const quick = await gateway.turns.run(() => quickNeed(gateway, call, candidates, free))
    const need = quick ?? (await countedNeed(gateway, call, candidates))
    const now = gateway.now()
    gateway.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
    pass('hold-queued', call.requestId)
    const result = await gateway.ledger.hold({
      call: call.requestId,
      account: caller.account.id,
      key: caller.key?.id ?? null,
      funding,
      want: need.want,
      least: need.least,
      keyLimit: keyLimitOf(caller.key, now),
      model: model.id,
      priceVersion: offer.price.version,
      owner: gateway.owner,
      // The lease outlives every deadline: recovery must never end a call that is still running here.
      leaseUntil: now + gateway.limits.totalMs + gateway.limits.drainMs + gateway.limits.leaseMs,
    })
    if (result.kind === 'refused') throw refusedHold(result, need, call, now)
    pass('hold-durable', call.requestId)
    gateway.inFlight.enter(call.requestId, caller.account.id)
    return new Booking(gateway, call, need, result.amount, free - result.amount, candidates[0]!)
  }

  /** What the client is told about the hold: that its output was bounded by its credit. */
  get warnings(): readonly Warning[] {
    if (this.#held >= this.#need.want) return []
    const affordable = this.outputBound(this.#candidate)
    if (affordable === undefined) return []
    return [
      {
        param: 'max_tokens',
        message: `The output is limited to ${affordable} tokens by the credit available.`,
      },
    ]
  }

  /** The most output tokens to ask of this candidate; undefined to leave it to the model. */
  outputBound(candidate: Candidate): number | undefined {
    const { n, maxOutputTokens, stream } = this.#call.request.envelope
    const { maxOutputTokens: most, contextLength } = candidate.model
    // Servers refuse a bound that their context cannot hold: one that no answer can reach is not asked for.
    const longest = most ?? contextLength ?? longestAnswerTokens
    const within = (credit: Pico) => outputWithin(credit, this.#need, candidate.offer.price, n)
    if (this.#need.bounded) return Math.min(maxOutputTokens ?? longest, within(this.#held))
    const { maxCost } = this.#need
    const shortOfCredit = this.#held < this.#need.want
    // A stream can be stopped when its credit ends; a whole answer cannot, and may be what all free credit pays for.
    if (stream && !shortOfCredit && maxCost === undefined) return undefined
    const credit = shortOfCredit ? this.#held : this.#held + this.#free
    const bound = within(maxCost === undefined ? credit : smaller(credit, maxCost))
    if (bound < longest) return bound
    return maxOutputTokens === undefined ? undefined : most
  }

  get candidate(): Candidate {
    return this.#candidate
  }

  servedBy(candidate: Candidate, attempts: readonly Attempt[]): void {
    this.#candidate = candidate
    this.#attempts = attempts
    this.#firstByteMs = Math.round(performance.now() - this.#call.arrivedAt)
    const { price } = candidate.offer
    this.#gateway.ledger.recordPrice(price.version, candidate.model.id, priceRecord(price))
  }

  /** Looks at a running stream: notes a checkpoint, grows the hold, says when it must stop. */
  watch(progress: Progress): StoppedBy | undefined {
    this.#checkpoint(progress)
    const { maxOutputTokens, n } = this.#call.request.envelope
    const usage = this.#credible(progress.usage)
    const { output, reasoning } = roughOutput({ ...progress, usage })
    const tokens = output + reasoning
    if (ignoresBound(tokens, maxOutputTokens, n)) return 'max_tokens'
    const within = this.#tokensWithin(usage)
    // The hold of a bounded answer covers it: only a provider that keeps to no bound needs more.
    if (tokens < within * (this.#need.bounded ? 1 : extendAt)) return undefined
    if (this.#need.maxCost !== undefined && this.#held >= this.#need.maxCost) {
      return tokens >= within ? 'max_cost' : undefined
    }
    if (this.#exhausted) return tokens >= within ? 'credits' : undefined
    void this.#extend()
    return undefined
  }

  /** Output tokens that the hold pays for, after what the provider has counted. */
  #tokensWithin(usage: Usage | undefined): number {
    const known = this.#within
    if (known && known.held === this.#held && known.usage === usage) return known.tokens
    const tokens = tokensWithin(this.#held, usage, this.#need, this.#candidate.offer.price)
    this.#within = { held: this.#held, usage, tokens }
    return tokens
  }

  /**
   * Ends the call that served something, whole or in part. Called once; resolves when the charge is durable. `make` is
   * given the figures right before their command is queued: it makes the answer, which nobody may see before. A whole
   * answer that cannot be made is not charged, and the error goes on; of a stream, what has been delivered is.
   */
  async settle(outcome: Outcome, make: (settlement: FinalFigures) => void): Promise<void> {
    const charge = await this.#charge(outcome)
    this.#warnOfUnpriced(charge)
    let made = false
    try {
      make({
        usage: charge.usage,
        bill: billOf(charge.cost, this.#need.maxCost),
        stoppedBy: this.#boundBy(outcome),
      })
      made = true
    } finally {
      if (!made && !this.#call.request.envelope.stream) {
        await this.release(new GatewayError('internal_error'), this.#attempts)
      } else if (outcome.ending !== 'finished' && charge === noCharge) {
        await this.#end('release', outcome.fault ? codeOf(outcome.fault) : outcome.ending)
      } else {
        await this.#end('settle', outcome.ending, charge, outcome)
      }
    }
    const code = outcome.fault === undefined ? null : codeOf(outcome.fault)
    const status = code === null ? 200 : errorTable[code].status
    this.#logEnd(charge, { ending: outcome.ending, status, code, error: undefined })
  }

  /** Ends a call that served nothing: its whole hold goes back. */
  async release(error: GatewayError, attempts: readonly Attempt[]): Promise<void> {
    if (this.#ended) return
    if (attempts.length > 0) this.#attempts = attempts
    this.#logEnd(noCharge, { ending: null, status: error.status, code: error.code, error })
    await this.#end('release', error.code).catch((cause: unknown) => {
      // The sweeper returns the hold; the client is owed the error it was about to get.
      this.#gateway.log.error('a hold could not be released', { request_id: this.#call.requestId, cause })
    })
  }

  /** What bounded an answer that ended for its length: the client's max_cost or its credit, not its max_tokens. */
  #boundBy(outcome: Outcome): StoppedBy | undefined {
    if (outcome.stoppedBy !== undefined || outcome.finishReason !== 'length') return outcome.stoppedBy
    const asked = this.#call.request.envelope.maxOutputTokens ?? this.#candidate.model.maxOutputTokens
    const bound = this.outputBound(this.#candidate)
    if (bound === undefined || (asked !== undefined && asked <= bound)) return undefined
    return this.#need.maxCost !== undefined && this.#held >= this.#need.want ? 'max_cost' : 'credits'
  }

  /** What the call is charged. Counts what its provider has not, which takes a moment. */
  async #charge({ ending, usage, delivered }: Outcome): Promise<Charge> {
    const complete = ending === 'finished'
    const free = ending === 'client-gone' && this.#candidate.provider.onDisconnect === 'free'
    if (!complete && (!delivered.any || free)) return noCharge
    const counted = complete ? this.#believed(usage) : this.#credible(usage)
    const answered = { usage: counted, complete, delivered }
    return this.#chargeOf(answered, await exactCount(this.#call, answered))
  }

  #chargeOf(answered: Answered, own: OwnCount): Charge {
    const { offer, provider } = this.#candidate
    const charge = chargeOf(answered, own, offer.price, provider.costFrom)
    return charge.estimated ? atMost(charge, this.#held) : charge
  }

  /** The operator learns of a bill that may be higher than the charge, and which rate to add. */
  #warnOfUnpriced({ cost: { unpriced } }: Charge): void {
    if (unpriced.length === 0) return
    const { model, provider } = this.#candidate
    this.#gateway.log.warn('charged at the standard rate: the catalog has no rate for what was served', {
      request_id: this.#call.requestId,
      provider: provider.id,
      model: model.id,
      unpriced: unpriced.join(', '),
    })
  }

  /** What the provider bills and the caller does not pay, or pays beyond the limit of its key. */
  #warnOfUnpaid(result: SettleResult): void {
    if (result.kind !== 'settled' || (result.absorbed === 0n && !result.overLimit)) return
    const { model, provider } = this.#candidate
    this.#gateway.log.warn('a provider billed more than was held for the call', {
      request_id: this.#call.requestId,
      provider: provider.id,
      model: model.id,
      absorbed_usd: formatUsd(result.absorbed),
      over_limit: result.overLimit,
    })
  }

  /** What the provider has counted, without what it cannot have counted right. */
  #credible(usage: Usage | undefined): Usage | undefined {
    return usage && credibleUsage(usage, this.#candidate.model, this.#call.request.envelope.n)
  }

  /** The same at the end of a whole answer, where a side that is missing is worth a word to the operator. */
  #believed(usage: Usage | undefined): Usage | undefined {
    const credible = this.#credible(usage)
    if (usage === undefined || credible?.uncounted === undefined) return credible
    const { model, provider } = this.#candidate
    this.#gateway.log.warn('a provider has not counted a call as it can have been: it is estimated', {
      request_id: this.#call.requestId,
      provider: provider.id,
      model: model.id,
      uncounted: credible.uncounted.join(', '),
      prompt_tokens: promptTokens(usage),
      completion_tokens: completionTokens(usage),
    })
    return credible
  }

  async #end(how: 'settle' | 'release', ending: string, charge?: Charge, outcome?: Outcome): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    const { ledger, owner, inFlight } = this.#gateway
    const call = this.#call.requestId
    try {
      if (how === 'release' || !charge || !outcome) {
        await ledger.release({ call, owner, reason: ending, attempts: this.#attempts })
        pass('release-committed', call)
        return
      }
      pass('settle-queued', call)
      const result = await ledger.settle({
        call,
        owner,
        cost: charge.cost.total,
        most: this.#need.maxCost ?? null,
        usage: charge.usage,
        lines: charge.cost.lines,
        estimated: charge.estimated,
        ending: ending as Ending,
        served: {
          provider: this.#candidate.provider.id,
          upstreamModel: this.#candidate.offer.upstream,
          upstreamId: outcome.upstreamId ?? null,
          priceVersion: this.#candidate.offer.price.version,
          stream: this.#call.request.envelope.stream,
          attempts: this.#attempts,
          firstByteMs: this.#firstByteMs,
          totalMs: Math.round(performance.now() - this.#call.arrivedAt),
          finishReason: outcome.finishReason ?? null,
          unpriced: charge.cost.unpriced,
        },
      })
      pass('settle-committed', call)
      this.#warnOfUnpaid(result)
    } finally {
      inFlight.leave(call)
    }
  }

  #checkpoint({ delivered, usage }: Progress): void {
    const { limits, ledger, owner } = this.#gateway
    const now = this.#gateway.now()
    const { tokens } = delivered
    const due = now >= this.#checkpointAt || tokens - this.#checkpointTokens >= limits.checkpointTokens
    if (!due || tokens === this.#checkpointTokens) return
    this.#checkpointAt = now + limits.checkpointMs
    this.#checkpointTokens = tokens
    // The running estimate will do: only a process that dies is charged by it, and the vocabulary is for settles.
    const answered = { usage: this.#credible(usage), complete: false, delivered }
    const charge = this.#chargeOf(answered, roughCount(this.#call, answered))
    const leaseUntil = now + limits.totalMs + limits.drainMs + limits.leaseMs
    pass('checkpoint-queued', this.#call.requestId)
    ledger
      .checkpoint({
        call: this.#call.requestId,
        owner,
        usage: charge.usage,
        cost: charge.cost.total,
        leaseUntil,
      })
      .then(() => pass('checkpoint-committed', this.#call.requestId))
      .catch((cause: unknown) => this.#gateway.log.warn('a checkpoint was not written', { cause }))
  }

  async #extend(): Promise<void> {
    if (this.#extending) return
    this.#extending = true
    const { limits, ledger, owner, log } = this.#gateway
    const rate = highestRates(this.#candidate.offer.price, this.#need.bound.promptTokens).output
    const wanted = BigInt(limits.holdOutputTokens) * rate
    const { maxCost } = this.#need
    const more = maxCost === undefined ? wanted : smaller(wanted, maxCost - this.#held)
    try {
      // What is left of the credit may be less: it is held in smaller parts, down to a part too small to ask for.
      const least = smaller(more, rate * leastExtension)
      for (let part = more; part > 0n && part >= least; part /= 4n) {
        if (!(await ledger.extend(this.#call.requestId, owner, part))) continue
        this.#held += part
        return
      }
      this.#exhausted = true
    } catch (cause) {
      // The stream goes on within what is held; the next look tries again.
      log.warn('a hold could not be extended', { request_id: this.#call.requestId, cause })
    } finally {
      this.#extending = false
    }
  }

  #logEnd(charge: Charge, ended: Pick<CallEnding, 'ending' | 'status' | 'code' | 'error'>): void {
    const facts = { at: this.#gateway.now(), attempts: this.#attempts, firstByteMs: this.#firstByteMs }
    this.#gateway.requestLog.append(endedCall(this.#call, { charge, ...facts, ...ended }), ended.error)
  }
}

/** The need by the quick bound of the prompt; undefined when that is more than the caller has or wants to spend. */
function quickNeed(
  gateway: Gateway,
  call: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Need | undefined {
  const { envelope, promptParts } = call.request
  const quick = promptBound(promptParts, call.bodyBytes)
  // max_cost is left out here: only the counted prompt may say that it is too low.
  const unbounded = envelope.maxCost === undefined ? envelope : { ...envelope, maxCost: undefined }
  const need = needOf(unbounded, candidates, quick, gateway.limits.holdOutputTokens)
  if (need.want > free) return undefined
  if (envelope.maxCost === undefined) return need
  const maxCost = parseUsd(envelope.maxCost)
  return maxCost !== undefined && need.want < maxCost ? { ...need, maxCost } : undefined
}

async function countedNeed(
  gateway: Gateway,
  { request, bodyBytes }: PaidCall,
  candidates: readonly Candidate[],
): Promise<Need> {
  const counted = await tokenBound(request.promptParts, bodyBytes)
  return needOf(request.envelope, candidates, counted, gateway.limits.holdOutputTokens)
}
