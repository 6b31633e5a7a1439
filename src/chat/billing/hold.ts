// Reserves the credit for a call.

import { payerOf, windowEnd } from '../../accounts/account.ts'
import { Delivered } from '../../conversation/delivered.ts'
import type { Fault } from '../../conversation/event.ts'
import { addedUsage, noUsage, type Usage } from '../../conversation/usage.ts'
import { freeIn } from '../../credits/wallet.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import type {
  Attempt,
  Balance,
  CallLedger,
  CheckpointCommand,
  Ending,
  HoldAmounts,
  HoldCommand,
  HoldResult,
  LedgerStore,
} from '../../credits/ledger/ledger.ts'
import { formatUsd, larger, type Pico, smaller } from '../../credits/money.ts'
import type { Pool } from '../../credits/pool.ts'
import type { CostLine, Price } from '../../credits/price.ts'
import { asGatewayError, type ErrorCode, errorTable, GatewayError } from '../../errors/errors.ts'
import type { OnCallEnded } from '../../observe/call-log.ts'
import type { Log } from '../../observe/log.ts'
import { noWarnings, type Warning } from '../../protocols/lowering.ts'
import { plural } from '../../text/text.ts'
import {
  type Abandoned,
  type ChatLimits,
  type FinalFigures,
  type InFlight,
  leaseUntil,
  type Outcome,
  ownerHint,
  type PaidCall,
  type StoppedBy,
  unservedOutcome,
} from '../call.ts'
import {
  credibleUsage,
  exactCount,
  withoutSilence,
  type CountingParts,
  countingFor,
  measurePrompt,
  type SharedCounting,
} from '../counting/token-counter.ts'
import type { Candidate } from '../routing/candidates.ts'
import type { DispatchFailed } from '../routing/dispatch.ts'
import { routeNote } from '../routing/route.ts'
import { codeOf, publicReason } from '../routing/fault-error.ts'
import type { Scheduler } from '../../scheduler/scheduler.ts'
import {
  billOf,
  type Charge,
  chargeFor,
  endedCall,
  noCharge,
  warnOfUncounted,
  warnOfUnpaid,
  warnOfUnpriced,
  withOpenSearches,
} from './charge.ts'
import {
  amountsOf,
  budgetRefusal,
  groupCallOf,
  growsWithAnswer,
  keyLimitOf,
  type Need,
  needFor,
  outputBound,
  paysForAll,
  reservedMs,
  spendingRoom,
  withinLimits,
} from './need.ts'

/**
 * Reserves credit from the pools of `funding`; the ledger decides whether it is there. Rejects with
 * `insufficient_credits`, `credits_reserved`, `key_limit_exceeded`, `budget_exceeded` or `store_unavailable`. Resolves
 * when the hold is decided, so that a provider may be called; nothing may go to the client before `durable`.
 */
export async function openHold(
  parts: BillingParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  balance: Balance,
  funding: readonly Pool[],
): Promise<Hold> {
  const { caller, requestId, request } = call
  const { model, offer } = candidates[0]!
  const inPools = freeIn(balance, funding, parts.now())
  // Most keys have no limit, so there is nothing to wait for.
  const isLimited = caller.key?.spendLimit != null || caller.standing !== null
  const room = isLimited ? await spendingRoom(parts.ledger, caller, parts.now()) : undefined
  const free = smaller(inPools, room?.free ?? inPools)
  const need = withinLimits(await needFor(parts, call, candidates, free), room?.free)
  const now = parts.now()
  parts.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
  pass('hold-queued', requestId)
  const command: HoldCommand = {
    call: requestId,
    account: payerOf(caller),
    key: caller.key?.id ?? null,
    inGroup: groupCallOf(caller.standing, now),
    funding,
    ...amountsOf(need),
    keyLimit: keyLimitOf(caller.key, now),
    model: model.id,
    tags: call.tags,
    priceVersion: offer.price.version,
    owner: parts.owner,
    leaseUntil: leaseUntil(parts.limits, now),
  }
  // A stream is passed on as soon as it begins; a whole answer when it is settled, and its sync can be the hold's too.
  const haste = request.envelope.stream ? 'at-once' : 'soon'
  const { result, durable } = await parts.ledger.startHold(command, haste)
  if (result.kind === 'refused') throw refusedHold(result, need, call, now)
  pass('hold-decided', requestId)
  const { amount } = result
  parts.inFlight.enter(requestId, caller.account.id)
  parts.inFlight.onHold(requestId, {
    model: request.envelope.model,
    key: caller.key?.id ?? null,
    channel: caller.channel,
    hold: amount,
  })
  return new Hold(parts, call, need, durable, { amount, free: free - amount }, candidates[0]!)
}

/** The error for a hold that the ledger refused, with the amounts needed and available. */
function refusedHold(
  result: Extract<HoldResult, { kind: 'refused' }>,
  need: Need,
  call: PaidCall,
  now: number,
): GatewayError {
  const { available, held, reason } = result
  const { model } = call.request.envelope
  const metadata = {
    model,
    available: formatUsd(available),
    held: formatUsd(held),
    estimate: formatUsd(need.least),
  }
  switch (reason) {
    case 'insufficient':
      return new GatewayError('insufficient_credits', {
        ...ownerHint('insufficient_credits', call.caller),
        metadata,
      })
    case 'reserved':
      return new GatewayError('credits_reserved', { metadata, retryAfterMs: reservedMs })
    case 'key-reserved':
      return new GatewayError('credits_reserved', {
        message:
          'The limit of this key is not reached, but calls in flight have reserved what is left of it.',
        metadata,
        retryAfterMs: reservedMs,
      })
    case 'key-limit': {
      const end = call.caller.key ? windowEnd(call.caller.key.limitWindow, now) : null
      const resets_at = end === null ? null : new Date(end).toISOString()
      return new GatewayError('key_limit_exceeded', { metadata: { ...metadata, resets_at } })
    }
    case 'budget':
    case 'budget-reserved':
      return budgetRefusal(result, call.caller.standing, metadata)
    default:
      return reason satisfies never
  }
}

// The credit reserved for one call, and the one settle or release that ends it.

export interface BillingParts {
  readonly ledger: CallLedger
  /** Identifies this process in holds: one presumed dead cannot end a call that recovery has ended already. */
  readonly owner: string
  readonly limits: ChatLimits
  readonly inFlight: InFlight
  readonly scheduler: Scheduler
  readonly counter: SharedCounting['counter']
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
  readonly onCallEnded: OnCallEnded
}

/** An extension asks for enough for this many rounds. */
const roundsAhead = 4n
/**
 * An extension ahead of need is only taken if this many times its amount is free, so that other calls of the account
 * are not refused because of it.
 */
const plenty = 16n

/** Thoughts that cannot be seen are billed: a slow model writes so many tokens a second, once it has read the prompt. */
const thoughtsPerSecond = 20
const readingMs = 2_000

function thoughtsWithin(askedMs: number): number {
  return Math.floor((Math.max(0, askedMs - readingMs) / 1_000) * thoughtsPerSecond)
}

/** The credit of a call as it begins. */
interface Opened {
  /** Picodollars held. */
  readonly amount: Pico
  /** Picodollars beside it that no call held when it began. */
  readonly free: Pico
}

export class Hold {
  readonly #parts: BillingParts
  readonly #call: PaidCall
  /** The client's `max_cost`, over all rounds; picodollars. */
  readonly #maxCost: Pico | undefined
  /** Only a call of several rounds, or with tools, has any. */
  #earlier: EarlierRounds | undefined
  /** The call with the request of the current round, and what that round needs. */
  #round: PaidCall
  #need: Need
  /** Resolves when the hold survives a power cut: nothing is sent to the client before. */
  readonly durable: Promise<void>
  #amount: Pico
  #free: Pico
  /** What was held for the round when it began: what its provider is sent does not change with what is added later. */
  #granted: Pico
  /** The charge of the last round, if it has ended and is not booked yet: tools run before it is. */
  #last: Charge | undefined
  #candidate: Candidate
  #attempts: readonly Attempt[] = []
  #firstByteMs: number | null = null
  /** The provider that the call has left, and that works on the prompt of the current round. */
  #abandoned: Abandoned | undefined
  #ended = false
  /** Only a call of several rounds has any. */
  #checkpoints: Checkpoints | undefined

  /** A hold that the ledger has decided: see `openHold`. */
  constructor(
    parts: BillingParts,
    call: PaidCall,
    need: Need,
    durable: Promise<void>,
    { amount, free }: Opened,
    first: Candidate,
  ) {
    this.#need = need
    this.#maxCost = need.maxCost
    this.#parts = parts
    this.#call = call
    this.#round = call
    this.durable = durable
    this.#amount = amount
    this.#free = free
    this.#granted = amount
    this.#candidate = first
  }

  /** Picodollars held now. */
  get amount(): Pico {
    return this.#amount
  }

  /** Cost of the earlier rounds and tools, picodollars. */
  get spent(): Pico {
    return this.#earlier?.cost ?? 0n
  }

  /** Whether a round or a tool has cost something, booked or not. */
  get owes(): boolean {
    return this.spent + this.#unbookedCost > 0n
  }

  /** What is left of the hold for the current round, picodollars. */
  get left(): Pico {
    return larger(0n, this.#room)
  }

  /** The same; negative if earlier rounds cost more than was held for them. */
  get #room(): Pico {
    return this.#earlier === undefined ? this.#amount : this.#amount - this.#earlier.cost
  }

  /** What the current round needs; its `maxCost` is what the earlier rounds left of it. */
  get need(): Need {
    return this.#need
  }

  get round(): PaidCall {
    return this.#round
  }

  /** Who serves the call; at first the first candidate. */
  get candidate(): Candidate {
    return this.#candidate
  }

  /** Tells the client that the credit of its account, or of its key, limits this candidate's answer. */
  warningsFor(candidate: Candidate): readonly Warning[] {
    if (paysForAll(this.need, this.#granted)) return noWarnings
    const affordable = this.outputBound(candidate)
    if (affordable === undefined) return noWarnings
    const message = `The output is limited to ${plural(affordable, 'token')} by the credit available.`
    return [{ param: 'max_tokens', message }]
  }

  /** The output token limit to send to this candidate; undefined leaves it to the model. */
  outputBound(candidate: Candidate): number | undefined {
    return outputBound(this.need, this.#granted, this.#round.request.envelope, candidate)
  }

  /** Whether more is to be held while the answer is written. */
  get grows(): boolean {
    return growsWithAnswer(this.need, this.#granted, this.#round.request.envelope, this.#candidate)
  }

  /** All attempts so far, of all rounds. */
  get attempts(): readonly Attempt[] {
    return this.#attempts
  }

  servedBy(candidate: Candidate, attempts: readonly Attempt[]): void {
    this.#candidate = candidate
    this.recordAttempts(attempts)
    this.#firstByteMs ??= Math.round(performance.now() - this.#call.arrivedAt)
    this.#parts.inFlight.onFirstByte(this.#call.requestId, this.#firstByteMs)
    const { price } = candidate.offer
    this.#parts.ledger.recordPrice(price.version, candidate.model.id, priceRecord(price))
  }

  /** Notes that no provider has answered the current round. */
  unansweredError({ attempts, abandoned }: Pick<DispatchFailed, 'attempts' | 'abandoned'>): void {
    this.recordAttempts(attempts)
    if (abandoned === undefined) return
    this.#abandoned = abandoned
    this.#candidate = abandoned.candidate
    const { model, offer } = abandoned.candidate
    this.#parts.ledger.recordPrice(offer.price.version, model.id, priceRecord(offer.price))
  }

  /** Adds the failed attempts of a later round. */
  recordAttempts(attempts: readonly Attempt[]): void {
    this.#attempts = this.#attempts.length === 0 ? attempts : [...this.#attempts, ...attempts]
  }

  /** The answer of the candidate that has served last breaks off, and another one is to go on with it. */
  noteSeam(fault: Fault, characters: number): void {
    const last = this.#attempts.at(-1)
    if (last === undefined) return
    const seam = `its answer broke off after ${plural(characters, 'character')}: ${publicReason(fault)}`
    const broken = { ...last, code: codeOf(fault), status: fault.status ?? last.status, reason: seam }
    this.#attempts = [...this.#attempts.slice(0, -1), broken]
  }

  /** Holds more in addition; false if the account does not have the least of it. */
  async extend(amounts: HoldAmounts): Promise<boolean> {
    const { ledger, owner } = this.#parts
    const more = await ledger.extend({ call: this.#call.requestId, owner, ...amounts })
    this.#amount += more
    this.#free = larger(0n, this.#free - more)
    return more > 0n
  }

  /**
   * Ends a round that another one follows: its cost is charged with the rest, and by recovery if the process dies; that
   * is durable `soon`, or `at-once`, before this resolves. Returns what it is charged for.
   */
  async endRound(outcome: Outcome, when: 'soon' | 'at-once' = 'soon'): Promise<Usage> {
    const charge = await this.#charge(outcome)
    this.#earlier ??= new EarlierRounds()
    this.#earlier.addRound(charge)
    this.#checkpointSoon()
    if (when === 'at-once') await this.#checkpoints?.flush()
    return charge.usage
  }

  /** The last round has ended and tools follow it: what it cost is not theirs. It is charged with the settle. */
  async endLastRound(outcome: Outcome): Promise<void> {
    this.#last = await this.#charge(outcome)
  }

  /** Picodollars that the last round costs and that are not booked. */
  get #unbookedCost(): Pico {
    return this.#last?.cost.total ?? 0n
  }

  /**
   * Adds the cost of a tool that ran in a round. It is made durable at once, unless the round itself is
   * `charged-later`: a checkpoint without the round would record less than the one before.
   */
  ranTool(fee: ToolFee, round: number, when: 'durable' | 'charged-later'): void {
    this.#earlier ??= new EarlierRounds()
    this.#earlier.addTool(fee, round)
    if (when === 'durable') this.#checkpointSoon()
  }

  #checkpointSoon(): void {
    this.#checkpoints ??= new Checkpoints(this.#parts, this.#call.requestId, () => {
      const { usage, cost } = this.sum(noCharge)
      return { usage, cost: cost.total }
    })
    this.#checkpoints.soon()
  }

  /** Holds the cost of a tool, picodollars. Returns what prevents it, or undefined. */
  async coverTool(cost: Pico): Promise<StoppedBy | undefined> {
    return this.#cover({ least: cost, want: cost, most: cost })
  }

  /** Holds what the next round needs. Returns what prevents it, or undefined. */
  async beginRound(round: PaidCall, candidates: readonly Candidate[]): Promise<StoppedBy | undefined> {
    const { request } = round
    const envelope = { ...request.envelope, maxCost: undefined }
    const asked = { ...round, request: { ...request, envelope } }
    const need = await needFor(this.#parts, asked, candidates, this.left + this.#free)
    const maxCost = this.#maxCost === undefined ? undefined : this.#maxCost - this.spent
    const within = (amount: Pico) => (maxCost === undefined ? amount : smaller(amount, maxCost))
    const want = within(need.want)
    const reserve = within(need.want + need.reserve) - want
    const bounded = { ...need, want, reserve, most: within(need.most), maxCost }
    const obstacle = await this.#cover(amountsOf(bounded))
    if (obstacle !== undefined) return obstacle
    this.#round = round
    this.#need = bounded
    this.#granted = this.left
    return undefined
  }

  /** The charge of the whole call if its last round is charged `last`. */
  sum(last: Charge): Charge {
    return this.#earlier?.with(last) ?? last
  }

  /** Makes these amounts available within the hold, by the rule of a hold. */
  async #cover({ least, want, most }: HoldAmounts): Promise<StoppedBy | undefined> {
    if (this.#maxCost !== undefined && this.spent + this.#unbookedCost + least > this.#maxCost)
      return 'max_cost'
    const room = this.#room - this.#unbookedCost
    if (room >= most) return undefined
    // What is queued together shares one commit.
    void this.#checkpoints?.flush()
    // An answer that may be as long as its model writes takes a share for each round: several at once would be others'.
    if (want === most && (await this.#extendAhead(want, room))) return undefined
    const lacking = (amount: Pico) => larger(0n, amount - room)
    await this.extend({ least: lacking(least), want: lacking(want), most: lacking(most) })
    return this.#room - this.#unbookedCost < least ? 'credits' : undefined
  }

  /** Holds enough for several rounds at once if that is a small part of the credit: each extension is a commit. */
  async #extendAhead(amount: Pico, room: Pico): Promise<boolean> {
    const ahead = amount * roundsAhead - room
    if (this.#maxCost !== undefined || ahead * plenty > this.#free) return false
    return this.extend({ least: ahead, want: ahead, most: ahead })
  }

  /**
   * Ends a call that served nothing, unless it has already ended: the whole hold is returned. But a provider that was
   * being asked when the caller's side ended the call works on its prompt: that is owed.
   */
  async fail(failed: Pick<DispatchFailed, 'error' | 'attempts' | 'abandoned'>): Promise<void> {
    if (this.#ended) return
    const { error, attempts, abandoned } = failed
    if (abandoned === undefined) return this.release(error, attempts)
    this.unansweredError(failed)
    const ours = error.code === 'client_gone' ? 'client-gone' : 'stopped'
    const { made } = abandoned
    const outcome = unservedOutcome(made === undefined ? ours : 'provider-cut', undefined, error)
    // A spoiled answer is charged as a stream of it would be.
    await this.settle({ ...outcome, ...made }, () => undefined)
  }

  /**
   * Ends a call that served something, complete or not. Called once; resolves when the charge is durable. `make` gets
   * the figures right before the command is queued and builds the answer, which nobody may see before. If a whole
   * answer cannot be built it is not charged, and the error is passed on; a stream is charged for what was delivered.
   * Rejects with GatewayError; the call has ended then, too.
   */
  async settle(outcome: Outcome, make: (figures: FinalFigures) => void | Promise<void>): Promise<void> {
    // However the call ends: its last round was complete before the tools ran.
    const charge = this.sum(this.#last ?? (await this.#charge(outcome)))
    warnOfUnpriced(this.#parts.log, this.#call, this.#candidate, charge)
    const isStream = this.#call.request.envelope.stream
    let failure: GatewayError | undefined
    try {
      await make({
        usage: charge.usage,
        bill: billOf(charge.cost, this.#maxCost),
        stoppedBy: this.#boundBy(outcome),
      })
    } catch (error) {
      failure = asGatewayError(error)
    }
    if (failure !== undefined && !isStream) {
      await this.release(failure, this.#attempts)
      throw failure
    }
    try {
      if (outcome.ending !== 'finished' && charge === noCharge)
        await this.#release(outcome.fault ? codeOf(outcome.fault) : (outcome.error?.code ?? outcome.ending))
      else await this.#settle(charge, outcome)
    } catch (error) {
      failure ??= asGatewayError(error)
    }
    const { fault, ending, stoppedBy } = outcome
    // What a search has found may be another thing tomorrow.
    const isWhole = failure === undefined && ending === 'finished' && !fault && !stoppedBy
    if (isWhole && Object.keys(charge.usage.toolCalls).length === 0) this.#call.cache?.keep()
    const code = failure?.code ?? outcome.error?.code ?? (fault === undefined ? null : codeOf(fault))
    const status = code === null ? 200 : errorTable[code].status
    this.#announce(charge, outcome.ending, status, code, failure ?? outcome.error)
    if (failure === undefined) return
    this.#parts.log.error('the end of a call failed', { request_id: this.#call.requestId, error: failure })
    throw failure
  }

  /** Ends a call that served nothing: the whole hold is returned. */
  async release(error: GatewayError, attempts: readonly Attempt[]): Promise<void> {
    if (this.#ended) return
    if (attempts !== this.#attempts) this.recordAttempts(attempts)
    this.#announce(noCharge, null, error.status, error.code, error)
    await this.#release(error.code).catch((cause: unknown) => {
      // The sweeper will return the hold; the client still gets the original error.
      this.#parts.log.error('a hold could not be released', { request_id: this.#call.requestId, cause })
    })
  }

  /** Why an answer ended for its length: max_cost or credit, if it was not the client's max_tokens. */
  #boundBy(outcome: Outcome): FinalFigures['stoppedBy'] {
    if (outcome.stoppedBy !== undefined || outcome.finishReason !== 'length') return outcome.stoppedBy
    const asked = this.#round.request.envelope.maxOutputTokens ?? this.#candidate.model.maxOutputTokens
    const bound = this.outputBound(this.#candidate)
    if (bound === undefined || (asked !== undefined && asked <= bound)) return undefined
    return this.need.maxCost !== undefined && paysForAll(this.need, this.#granted) ? 'max_cost' : 'credits'
  }

  /** The provider's count of the current round without what it cannot have meant. */
  credible(usage: Usage): Usage {
    const { request, bodyBytes } = this.#round
    const { n, maxOutputTokens, searches } = request.envelope
    return credibleUsage(usage, this.#candidate, {
      promptTokens: this.#need.bound.promptTokens,
      isUnsized: () => measurePrompt(request.promptParts, bodyBytes).isUnsized,
      outputTokens: () => this.outputBound(this.#candidate) ?? maxOutputTokens,
      choices: n,
      searches,
    })
  }

  /** Computes the charge. Counts tokens that the provider did not count, which takes a moment. */
  async #charge({ ending, usage, delivered, stoppedBy, fault }: Outcome): Promise<Charge> {
    // An answer that its model spoiled has come to its end: the provider's count of it is the last.
    const isSpoilt = fault?.kind === 'unusable-output' && usage !== undefined
    const complete = ending === 'finished' || isSpoilt
    const free = ending === 'client-gone' && this.#candidate.provider.onDisconnect === 'free'
    const isOurs = ending === 'client-gone' || stoppedBy !== undefined
    const openSearches = isOurs ? delivered.openSearches : 0
    if (!complete && free) return noCharge
    if (!complete && !delivered.any && openSearches === 0) return this.#chargeAbandoned()
    const counted = withOpenSearches(usage, openSearches)
    const plausible = counted && this.credible(counted)
    const doubted = plausible !== counted
    const credible = complete ? plausible && withoutSilence(plausible, delivered) : plausible
    if (complete || doubted) warnOfUncounted(this.#parts.log, this.#call, this.#candidate, counted, credible)
    const answered = { usage: credible, complete, delivered, doubted }
    const own = await exactCount(this.#counting, this.#round, answered)
    return chargeFor(this.#candidate, answered, own, this.left, openSearches)
  }

  /** What is owed to a provider that was asked and has not begun to answer: the prompt, and thoughts by an estimate. */
  async #chargeAbandoned(): Promise<Charge> {
    const abandoned = this.#abandoned
    if (abandoned === undefined || this.#candidate.provider.onDisconnect === 'free') return noCharge
    const usage = abandoned.usage && this.credible(abandoned.usage)
    const answered = { usage, complete: false, delivered: new Delivered() }
    const reasoning = this.#candidate.model.reasoning ? thoughtsWithin(abandoned.askedMs) : 0
    const { prompt } = await exactCount(this.#counting, this.#round, answered)
    return chargeFor(this.#candidate, answered, { prompt, output: { output: 0, reasoning } }, this.left)
  }

  get #counting(): CountingParts {
    return countingFor(this.#parts, this.#call.caller.account.id)
  }

  /** Returns the whole hold, unless the call has already ended. */
  async #release(reason: string): Promise<void> {
    if (!this.#end()) return
    const { ledger, owner, inFlight } = this.#parts
    const call = this.#call.requestId
    try {
      await ledger.release({ call, owner, reason, attempts: this.#attempts })
      pass('release-committed', call)
    } finally {
      inFlight.leave(call)
    }
  }

  /** Charges the call, unless it has already ended. */
  async #settle({ cost, usage, estimated }: Charge, outcome: Outcome): Promise<void> {
    if (!this.#end()) return
    const { ledger, owner, log, inFlight } = this.#parts
    const { requestId: call, request, arrivedAt, route, guard } = this.#call
    const { provider, offer, model } = this.#candidate
    pass('settle-queued', call)
    try {
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
          model: model.id,
          upstreamModel: offer.upstream,
          upstreamId: outcome.upstreamId ?? null,
          priceVersion: offer.price.version,
          stream: request.envelope.stream,
          attempts: this.#attempts,
          firstByteMs: this.#firstByteMs,
          totalMs: Math.round(performance.now() - arrivedAt),
          finishReason: outcome.finishReason ?? null,
          unpriced: cost.unpriced,
          ...(route && { route: routeNote(route, model, this.#attempts) }),
          ...(guard && guard.decisions.length > 0 && { guards: guard.decisions }),
        },
      })
      pass('settle-committed', call)
      warnOfUnpaid(log, this.#call, this.#candidate, result)
    } finally {
      inFlight.leave(call)
    }
  }

  /** Ends the hold: false if it has already ended. Whoever ends it also takes the call out of those in flight. */
  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#checkpoints?.stop()
    return true
  }

  #announce(
    charge: Charge,
    ending: Ending | null,
    status: number,
    code: ErrorCode | null,
    error: GatewayError | undefined,
  ): void {
    const at = this.#parts.now()
    const attempts = this.#attempts
    const firstByteMs = this.#firstByteMs
    const ended = endedCall(this.#call, { at, charge, ending, status, code, error, attempts, firstByteMs })
    this.#parts.onCallEnded(ended, error)
  }
}

// The charge of a call with several rounds and tools: their sum, with a line for each round and tool. Pure.

interface ToolFee {
  /** The name on receipts, such as `web_search`. */
  readonly name: string
  readonly cost: Pico
  readonly searches: number
}

/** The cost of a call before its last round. */
export class EarlierRounds {
  #sum: Charge = noCharge
  /** Number of completed rounds; also the index of the current one. */
  #ended = 0

  /** Picodollars. */
  get cost(): Pico {
    return this.#sum.cost.total
  }

  addRound(charge: Charge): void {
    this.#ended += 1
    this.#sum = addCharges(this.#sum, inRound(charge, this.#ended))
  }

  addTool({ name, cost, searches }: ToolFee, round: number): void {
    const line: CostLine = { item: `call:${name}`, quantity: 1, rate: cost, amount: cost, round }
    const toolCalls: Record<string, number> = searches === 0 ? {} : { web_search: searches }
    const usage = { ...noUsage, toolCalls }
    this.#sum = addCharges(this.#sum, {
      usage,
      cost: { lines: [line], total: cost, unpriced: [] },
      estimated: false,
    })
  }

  /** The total charge, given that of the last round. The same object if there was only one round. */
  with(last: Charge): Charge {
    return this.#sum === noCharge ? last : addCharges(this.#sum, inRound(last, this.#ended + 1))
  }
}

function inRound(charge: Charge, round: number): Charge {
  const lines = charge.cost.lines.map((line) => ({ ...line, round }))
  return { ...charge, cost: { ...charge.cost, lines } }
}

function addCharges(a: Charge, b: Charge): Charge {
  return {
    usage: addedUsage(a.usage, b.usage),
    cost: {
      lines: [...a.cost.lines, ...b.cost.lines],
      total: a.cost.total + b.cost.total,
      unpriced: [...new Set([...a.cost.unpriced, ...b.cost.unpriced])],
    },
    estimated: a.estimated || b.estimated,
  }
}

// Records what a call with several rounds has cost so far, so that a crash between rounds loses nothing.

interface CheckpointParts {
  readonly ledger: Pick<LedgerStore, 'checkpoint'>
  readonly owner: string
  readonly limits: ChatLimits
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** How long the end of a round may wait for a commit, milliseconds, so that what follows soon shares it. */
const soonMs = 20

class Checkpoints {
  readonly #parts: CheckpointParts
  readonly #call: string
  readonly #progress: () => Pick<CheckpointCommand, 'usage' | 'cost'>
  #timer: Timer | undefined
  #written: Promise<void> = Promise.resolve()

  /** `progress` is called when a checkpoint is written. */
  constructor(
    parts: CheckpointParts,
    call: string,
    progress: () => Pick<CheckpointCommand, 'usage' | 'cost'>,
  ) {
    this.#parts = parts
    this.#call = call
    this.#progress = progress
  }

  /** Schedules a checkpoint within `soonMs`: a slow tool does not delay it. */
  soon(): void {
    this.#timer ??= setTimeout(() => this.#write(), soonMs)
  }

  /** Queues the waiting checkpoint now. Resolves when it is written, or could not be. */
  flush(): Promise<void> {
    if (this.#timer !== undefined) this.#write()
    return this.#written
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #write(): void {
    this.stop()
    const { ledger, owner, limits, log, now } = this.#parts
    const call = this.#call
    pass('checkpoint-queued', call)
    this.#written = ledger
      .checkpoint({ call, owner, ...this.#progress(), leaseUntil: leaseUntil(limits, now()) })
      .then(() => pass('checkpoint-committed', call))
      .catch((cause: unknown) => log.warn('a checkpoint was not written', { cause }))
  }
}

const written = new WeakMap<Price, string>()

/**
 * A price as canonical JSON, amounts in whole picodollars: the permanent record behind a price version. Cached per
 * price object, because every call needs it.
 */
function priceRecord(price: Price): string {
  const known = written.get(price)
  if (known !== undefined) return known
  const record = JSON.stringify(price, (_, value: unknown) =>
    typeof value === 'bigint' ? value.toString() : value,
  )
  written.set(price, record)
  return record
}
