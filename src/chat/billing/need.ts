// How much must be held for a call, and how many tokens an amount pays for. Pure.

import type { HoldAmounts } from '../../credits/ledger/ledger.ts'
import { formatUsd, larger, parseUsd, smaller, type Pico } from '../../credits/money.ts'
import { affordableOutput, ceilingOf, highestRates, type Bound, type Price } from '../../credits/price.ts'
import { GatewayError } from '../../errors.ts'
import type { Envelope } from '../../protocols/protocol.ts'
import { leastOutputTokens } from '../../providers/provider.ts'
import type { Candidate } from '../routing/candidates.ts'

/** More than any model writes within the longest allowed call. */
const longestAnswerTokens = 1_000_000
/** The highest limit to send for a model of which no limit is known: servers refuse one that exceeds their context. */
const usualLongestTokens = 16_384

/** What a call wants to hold, the minimum to start it, and whether the output is bounded. */
export interface Need {
  /** For all that was asked for; for a typical answer if the client set no limit. */
  readonly want: Pico
  readonly least: Pico
  /**
   * For the longest answer that may be written. More than is wanted only if the client set no limit and the answer may
   * be one that cannot be stopped: how much of it is held decides the limit that its provider is sent.
   */
  readonly most: Pico
  /** Held beside what is wanted, if it is there: for what of the prompt nobody knows before its provider. */
  readonly reserve: Pico
  readonly bound: Bound
  /** Whether max_tokens or max_cost bounds the output; otherwise the hold is typical and grows with the stream. */
  readonly bounded: boolean
  /** The client's `max_cost`, picodollars. */
  readonly maxCost: Pico | undefined
}

/**
 * What a call needs that any of `candidates` may serve: the most expensive decides. Throws `invalid_request` if
 * `max_cost` is not an amount of money.
 */
export function needOf(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptTokens: number,
  holdOutputTokens: number,
): Need {
  let modelMost = 0
  let leastSent = 0
  for (const { model, provider } of candidates) {
    modelMost = Math.max(modelMost, model.maxOutputTokens ?? Number.MAX_SAFE_INTEGER)
    leastSent = Math.max(leastSent, leastOutputTokens(provider))
  }
  const asked = envelope.maxOutputTokens
  const perChoice = Math.max(Math.min(asked ?? holdOutputTokens, modelMost), leastSent)
  const { searches } = envelope
  const toolCalls: Bound['toolCalls'] = searches === undefined ? noCalls : { web_search: searches }
  const bound = { promptTokens, outputTokens: perChoice * envelope.n, toolCalls }
  const want = dearest(candidates, bound)
  const isBounded = asked !== undefined && asked <= modelMost
  const most = isBounded ? want : larger(want, longestCost(envelope, candidates, bound))
  // A prompt that only fills a cache needs credit for no token of output; a limit that is sent, for what it allows.
  const fewest = Math.min(perChoice, Math.max(1, leastSent))
  const least = dearest(candidates, {
    promptTokens,
    outputTokens: fewest * envelope.n,
    toolCalls,
  })
  const maxCost = envelope.maxCost === undefined ? undefined : parseUsd(envelope.maxCost)
  if (envelope.maxCost !== undefined && (maxCost === undefined || maxCost <= 0n)) {
    throw new GatewayError('invalid_request', {
      message: 'max_cost must be a positive amount of US dollars as a decimal string, such as "0.05".',
      param: 'max_cost',
    })
  }
  if (maxCost !== undefined && maxCost < least) {
    throw new GatewayError('invalid_request', {
      message: `max_cost does not cover the prompt${searchesInWords(searches)} and ${fewest > 1 ? `${fewest} tokens` : 'one token'} of output.`,
      param: 'max_cost',
      metadata: { least_usd: formatUsd(least) },
    })
  }
  return {
    want: maxCost === undefined ? want : smaller(want, maxCost),
    least,
    most: maxCost === undefined ? most : smaller(most, maxCost),
    reserve: 0n,
    bound,
    bounded: isBounded,
    maxCost,
  }
}

/** The most that an answer without a limit costs at those candidates that cannot be stopped. */
function longestCost(envelope: Envelope, candidates: readonly Candidate[], bound: Bound): Pico {
  let most = 0n
  for (const candidate of candidates) {
    if (canBeStopped(envelope, candidate)) continue
    const outputTokens = longestAnswer(candidate) * envelope.n
    most = larger(most, ceilingOf({ ...bound, outputTokens }, candidate.offer.price))
  }
  return most
}

/** No answer of the candidate is longer, tokens: what it writes without being sent a limit. */
function longestAnswer({ model: { maxOutputTokens, contextLength } }: Candidate): number {
  return maxOutputTokens ?? contextLength ?? longestAnswerTokens
}

/** A usual context, if the catalog does not know that of a model. */
const usualContext = 200_000
/**
 * What the results of a provider's search put before the model, in this round and again in each that follows: in recorded
 * answers of Anthropic 9,447 tokens for one search, and 401,468 for ten.
 */
const tokensOfSearch = 8_000

/**
 * The need of a prompt that grows, or has parts of unknown size, such as a document or an hour of video by its address:
 * what that may cost is set aside as far as it is there. Otherwise many such calls at once would spend the same credit,
 * which their small bounds leave free.
 */
export function withReserve(
  need: Need,
  { searches = 0 }: Envelope,
  candidates: readonly Candidate[],
  isUnsized: boolean,
): Need {
  if (!isUnsized && searches === 0) return need
  let reserve = 0n
  for (const { model, offer } of candidates) {
    const context = model.contextLength ?? usualContext
    let tokens = isUnsized ? Math.max(0, context - need.bound.promptTokens) : 0
    for (let search = 1; search <= searches; search++) tokens += Math.min(search * tokensOfSearch, context)
    reserve = larger(reserve, BigInt(tokens) * highestRates(offer.price, context).input)
  }
  return { ...need, reserve }
}

/**
 * The need with a reserve that its key and its caller can bear. `room`: what is left of the key's spending limit, if it
 * has one. The reserve takes no more than half of that: beside a limit that seems spent no other call of the key is
 * served.
 */
export function withinLimits(need: Need, room: Pico | undefined): Need {
  const { want, reserve, maxCost } = need
  if (reserve === 0n) return need
  const aside = room === undefined ? reserve : smaller(reserve, larger(0n, room - want) / 2n)
  return { ...need, reserve: maxCost === undefined ? aside : smaller(aside, maxCost - want) }
}

/** What is to be held for it, the reserve included. */
export function amountsOf({ least, want, most, reserve, maxCost }: Need): HoldAmounts {
  const highest = most + reserve
  return {
    least,
    want: want + reserve,
    most: maxCost === undefined ? highest : smaller(highest, maxCost),
  }
}

/** Whether this amount pays for the longest answer that was asked for, so that credit does not limit it. */
export function paysForAll(need: Need, amount: Pico): boolean {
  return payableOf(need, amount) >= need.most
}

/** What of a held amount pays for the prompt as far as it is known, and for output: the rest is the reserve. */
function payableOf({ want, reserve }: Need, amount: Pico): Pico {
  return reserve === 0n ? amount : larger(smaller(amount, want), amount - reserve)
}

const noCalls: Bound['toolCalls'] = {}

function searchesInWords(searches: number | undefined): string {
  if (searches === undefined) return ''
  return searches === 1 ? ', one search' : `, ${searches} searches`
}

function dearest(candidates: readonly Candidate[], bound: Bound): Pico {
  let most = 0n
  for (const { offer } of candidates) most = larger(most, ceilingOf(bound, offer.price))
  return most
}

/** How many output tokens per answer `held` picodollars pay for with one candidate; at least one. */
export function outputWithin(held: Pico, need: Need, price: Price, n: number): number {
  return Math.max(1, Math.floor(affordableOutput(held, need.bound, price) / n))
}

/** The need by the quick bound of the prompt; undefined if that exceeds what the caller has or wants to spend. */
export function quickNeed(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptBound: number,
  holdOutputTokens: number,
  free: Pico,
): Need | undefined {
  // max_cost is left out here: only the exact count may reject it as too low.
  const unbounded = envelope.maxCost === undefined ? envelope : { ...envelope, maxCost: undefined }
  const need = needOf(unbounded, candidates, promptBound, holdOutputTokens)
  if (need.want > free) return undefined
  if (envelope.maxCost === undefined) return need
  const maxCost = parseUsd(envelope.maxCost)
  return maxCost !== undefined && need.want < maxCost ? { ...need, maxCost } : undefined
}

/**
 * Whether an answer can be stopped when its credit ends. Others are limited to what is held for them: whole ones,
 * streams of providers that generate and bill on when they are disconnected, and those of models that reason, since
 * what they think is billed and mostly not shown before the end.
 */
export function canBeStopped({ stream }: Envelope, { provider, model }: Candidate): boolean {
  return stream && provider.onDisconnect !== 'drain' && !model.reasoning
}

/** Whether the hold of an answer grows while it is written; any other is held for as a whole before it begins. */
export function growsWithAnswer(
  { bounded, want }: Need,
  amount: Pico,
  envelope: Envelope,
  candidate: Candidate,
): boolean {
  return !bounded && amount >= want && canBeStopped(envelope, candidate)
}

/**
 * The output token limit to send to a candidate; undefined leaves it to the model. What may be written within it, or by
 * the model without it, is paid for by `amount`, the picodollars held: an answer that can be stopped is the only one
 * that may be sent a wider limit, or none, since it is stopped where its hold ends. Never below the lowest that the
 * provider takes, which the least of a hold pays for.
 */
export function outputBound(
  need: Need,
  amount: Pico,
  envelope: Envelope,
  candidate: Candidate,
): number | undefined {
  const bound = outputPaid(need, amount, envelope, candidate)
  return bound === undefined ? undefined : Math.max(bound, leastOutputTokens(candidate.provider))
}

function outputPaid(need: Need, amount: Pico, envelope: Envelope, candidate: Candidate): number | undefined {
  const { n, maxOutputTokens } = envelope
  const { model, offer } = candidate
  const longest = longestAnswer(candidate)
  const shortOfCredit = amount < need.want
  const payable = payableOf(need, amount)
  if (need.bounded) {
    // What is wanted pays for all that is asked for, at every candidate.
    if (maxOutputTokens !== undefined && need.maxCost === undefined && !shortOfCredit) return maxOutputTokens
    return Math.min(maxOutputTokens ?? longest, outputWithin(payable, need, offer.price, n))
  }
  const grows = growsWithAnswer(need, amount, envelope, candidate)
  if (grows && need.maxCost === undefined) return undefined
  const bound = outputWithin(grows ? need.maxCost! : payable, need, offer.price, n)
  // Servers refuse a limit that exceeds their context, so one that no answer can reach is not sent.
  if (bound >= longest) return maxOutputTokens === undefined ? undefined : model.maxOutputTokens
  if (model.maxOutputTokens !== undefined || need.maxCost !== undefined) return bound
  const { promptTokens, outputTokens } = need.bound
  const accepted = model.contextLength === undefined ? usualLongestTokens : model.contextLength - promptTokens
  return Math.min(bound, Math.max(accepted, Math.floor(outputTokens / n)))
}
