// Watches the cost of a running stream: writes checkpoints, extends the hold, and stops the stream if it cannot.

import type { Awaitable } from '../../async/async.ts'
import type { Progress } from '../../conversation/delivered.ts'
import { completionTokens, promptTokens, type Usage } from '../../conversation/usage.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import { larger, type Pico, smaller } from '../../credits/money.ts'
import { costOf, highestRates, type Price, ratesFor } from '../../credits/price.ts'
import { leaseUntil, type PaidCall, type StoppedBy } from '../call.ts'
import { roughCount, roughOutput } from '../counting/token-counter.ts'
import { heldPriceOf } from '../routing/candidates.ts'
import { chargeFor } from './charge.ts'
import type { BillingParts, Hold } from './hold.ts'
import { type Need, outputWithin } from './need.ts'

/** An extension is requested when this share of the hold has been delivered. */
const extendAt = 0.75
/** Extensions for fewer output tokens than this are not worth requesting. */
const leastExtension = 16n

export class StreamWatch {
  readonly #parts: Pick<BillingParts, 'ledger' | 'owner' | 'limits' | 'log' | 'now' | 'inFlight'>
  readonly #call: PaidCall
  readonly #hold: Hold
  #extending: Promise<void> | undefined
  #exhausted = false
  /** Output tokens that the hold pays for, and the inputs of that computation. */
  #within:
    | { readonly held: Pico; readonly usage: Usage | undefined; readonly need: Need; readonly tokens: number }
    | undefined
  #counted: { readonly usage: Usage; readonly credible: Usage } | undefined
  #checkpointAt: number
  #checkpointTokens = 0

  constructor(
    parts: Pick<BillingParts, 'ledger' | 'owner' | 'limits' | 'log' | 'now' | 'inFlight'>,
    call: PaidCall,
    hold: Hold,
  ) {
    this.#parts = parts
    this.#call = call
    this.#hold = hold
    this.#checkpointAt = parts.now() + parts.limits.checkpointMs
  }

  /** Called after each read; a returned reason stops the stream now. Nothing more is read before a promise resolves. */
  look(progress: Progress): Awaitable<StoppedBy | undefined> {
    this.#checkpoint(progress)
    const { maxOutputTokens, n } = this.#hold.round.request.envelope
    const { need, amount, left } = this.#hold
    const usage = this.#credible(progress.usage)
    const { output, reasoning } = roughOutput({ delivered: progress.delivered, usage })
    const tokens = output + reasoning
    this.#parts.inFlight.onProgress(this.#call.requestId, tokens, amount)
    if (ignoresBound(tokens, maxOutputTokens, n)) return 'max_tokens'
    const within = this.#tokensWithin(usage)
    // Any other answer is covered by its hold; only a provider that ignores its limit needs more.
    const { grows } = this.#hold
    if (tokens < within * (grows ? extendAt : 1)) return undefined
    if (tokens >= within && (grows || !this.#keepsToBound(tokens))) return this.#cover(tokens, usage)
    const isFull = need.maxCost !== undefined && left >= need.maxCost
    if (!isFull && !this.#exhausted) void this.#extend()
    return undefined
  }

  /** Holds what was delivered before more is: returns what prevents that, or undefined. */
  async #cover(tokens: number, usage: Usage | undefined): Promise<StoppedBy | undefined> {
    for (;;) {
      const { need, left } = this.#hold
      if (tokens < this.#tokensWithin(usage)) return undefined
      if (need.maxCost !== undefined && left >= need.maxCost) return 'max_cost'
      if (this.#exhausted) return 'credits'
      await this.#extend()
      // The ledger does not answer: the stream goes on, and the next look tries again.
      if (left === this.#hold.left && !this.#exhausted) return undefined
    }
  }

  /** Whether the provider may end the answer at its limit yet: it counts with its own tokenizer. */
  #keepsToBound(tokens: number): boolean {
    const bound = this.#hold.outputBound(this.#hold.candidate)
    return bound !== undefined && !ignoresBound(tokens, bound, this.#hold.round.request.envelope.n)
  }

  /** Output tokens that the hold pays for, given the provider's count so far. */
  #tokensWithin(usage: Usage | undefined): number {
    const { need, left: held, candidate } = this.#hold
    const known = this.#within
    if (known && known.held === held && known.usage === usage && known.need === need) return known.tokens
    const tokens = tokensWithin(held, usage, need, heldPriceOf(candidate))
    this.#within = { held, usage, need, tokens }
    return tokens
  }

  /** The provider's count without implausible values. */
  #credible(usage: Usage | undefined): Usage | undefined {
    if (usage === undefined) return undefined
    // The same count is looked at after each read.
    if (this.#counted?.usage !== usage) this.#counted = { usage, credible: this.#hold.credible(usage) }
    return this.#counted.credible
  }

  #checkpoint({ delivered, usage }: Progress): void {
    const { limits, ledger, owner, log } = this.#parts
    const now = this.#parts.now()
    const { tokens } = delivered
    const due = now >= this.#checkpointAt || tokens - this.#checkpointTokens >= limits.checkpointTokens
    if (!due || tokens === this.#checkpointTokens) return
    this.#checkpointAt = now + limits.checkpointMs
    this.#checkpointTokens = tokens
    // The running estimate is good enough: it is only charged if the process dies. Exact counting is for settles.
    const answered = { usage: this.#credible(usage), complete: false, delivered }
    const own = roughCount(this.#hold.round, answered)
    const charge = this.#hold.sum(chargeFor(this.#hold.candidate, answered, own, this.#hold.left))
    const call = this.#call.requestId
    pass('checkpoint-queued', call)
    const checkpoint = { call, owner, usage: charge.usage, cost: charge.cost.total }
    ledger
      .checkpoint({ ...checkpoint, leaseUntil: leaseUntil(limits, now) })
      .then(() => pass('checkpoint-committed', call))
      .catch((cause: unknown) => log.warn('a checkpoint was not written', { cause }))
  }

  /** One extension at a time, however many ask for it. */
  #extend(): Promise<void> {
    return (this.#extending ??= this.#extendOnce().finally(() => {
      this.#extending = undefined
    }))
  }

  async #extendOnce(): Promise<void> {
    const { limits, log } = this.#parts
    const { need, candidate, left } = this.#hold
    const rate = highestRates(heldPriceOf(candidate), need.bound.promptTokens).output
    const wanted = BigInt(limits.holdOutputTokens) * rate
    const more = need.maxCost === undefined ? wanted : smaller(wanted, need.maxCost - left)
    try {
      // If less credit is left, that much is held, but no part that is too small to request.
      const least = smaller(more, rate * leastExtension)
      this.#exhausted = !(await this.#hold.extend({ least, want: more, most: more }))
    } catch (cause) {
      // The stream continues within its hold; the next look tries again.
      log.warn('a hold could not be extended', { request_id: this.#call.requestId, cause })
    }
  }
}

// How long a stream may get: the client's max_tokens, and what an amount of money pays for. Pure.

/**
 * A provider counts max_tokens with its own tokenizer, which may make far fewer tokens of a text than ours. It must
 * never be cut short of its own limit.
 */
const tokenizerMargin = 1.5
const tokenizerSlack = 32

/** Whether a provider ignores its output limit: `tokens` is what it delivered over all `choices`. */
function ignoresBound(tokens: number, maxTokens: number | undefined, choices: number): boolean {
  return maxTokens !== undefined && tokens > maxTokens * choices * tokenizerMargin + tokenizerSlack
}

/**
 * How many output tokens `amount` picodollars pay for in all. The bound of the prompt is used until it is counted; if
 * the count is larger, nothing may be left.
 */
function tokensWithin(amount: Pico, usage: Usage | undefined, need: Need, price: Price): number {
  if (usage === undefined || promptTokens(usage) === 0) return outputWithin(amount, need, price, 1)
  const rates = ratesFor(price, promptTokens(usage))
  const perToken = larger(rates.output, rates.reasoning)
  const left = amount - costOf({ ...usage, output: 0, reasoning: 0 }, price).total
  if (left < 0n) return 0
  if (perToken === 0n) return Number.MAX_SAFE_INTEGER
  // Audio and images are in the cost already, at their own rates.
  const apart = completionTokens(usage) - usage.output - usage.reasoning
  return Number(left / perToken) + apart
}
