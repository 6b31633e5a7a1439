// What must be held for a call, and what a held amount pays for. Pure.

import { formatUsd, larger, parseUsd, smaller, type Pico } from '../../credits/money.ts'
import { affordableOutput, ceilingOf, type Bound, type Price } from '../../credits/price.ts'
import { GatewayError } from '../../errors.ts'
import type { Envelope } from '../../protocols/protocol.ts'
import type { Candidate } from '../routing/candidates.ts'

/** More than any model writes in one answer: none is this fast for as long as a call may last. */
const longestAnswerTokens = 1_000_000

/** What a call wants to hold, the least that lets it start, and how the output bound came about. */
export interface Need {
  readonly want: Pico
  readonly least: Pico
  readonly bound: Bound
  /** The client (or max_cost) bounds the output; otherwise the hold is typical and grows with the stream. */
  readonly bounded: boolean
  /** The most the call may cost by the client's own word, picodollars. */
  readonly maxCost: Pico | undefined
}

/**
 * The need of a call that may be served by any of `candidates`: the dearest of them decides.
 * Throws `invalid_request` for a `max_cost` that is not an amount of money.
 */
export function needOf(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptTokens: number,
  holdOutputTokens: number,
): Need {
  let modelMost = 0
  for (const { model } of candidates)
    modelMost = Math.max(modelMost, model.maxOutputTokens ?? Number.MAX_SAFE_INTEGER)
  const asked = envelope.maxOutputTokens
  const perChoice = Math.min(asked ?? holdOutputTokens, modelMost)
  const { searches } = envelope
  const toolCalls: Bound['toolCalls'] = searches === undefined ? {} : { web_search: searches }
  const bound = { promptTokens, outputTokens: perChoice * envelope.n, toolCalls }
  const want = dearest(candidates, bound)
  const least = dearest(candidates, { ...bound, outputTokens: envelope.n })
  const maxCost = envelope.maxCost === undefined ? undefined : parseUsd(envelope.maxCost)
  if (envelope.maxCost !== undefined && (maxCost === undefined || maxCost <= 0n)) {
    throw new GatewayError('invalid_request', {
      message: 'max_cost must be a positive amount of US dollars as a decimal string, such as "0.05".',
      param: 'max_cost',
    })
  }
  if (maxCost !== undefined && maxCost < least) {
    throw new GatewayError('invalid_request', {
      message: `max_cost does not cover the prompt${searchesInWords(searches)} and one token of output.`,
      param: 'max_cost',
      metadata: { least_usd: formatUsd(least) },
    })
  }
  return {
    want: maxCost === undefined ? want : smaller(want, maxCost),
    least,
    bound,
    bounded: asked !== undefined && asked <= modelMost,
    maxCost,
  }
}

function searchesInWords(searches: number | undefined): string {
  if (searches === undefined) return ''
  return searches === 1 ? ', one search' : `, ${searches} searches`
}

function dearest(candidates: readonly Candidate[], bound: Bound): Pico {
  let most = 0n
  for (const { offer } of candidates) most = larger(most, ceilingOf(bound, offer.price))
  return most
}

/** How many output tokens per answer a held amount pays for with one candidate; at least one. */
export function outputWithin(held: Pico, need: Need, price: Price, n: number): number {
  return Math.max(1, Math.floor(affordableOutput(held, need.bound, price) / n))
}

/** The need by the quick bound of the prompt; undefined when that is more than the caller has or wants to spend. */
export function quickNeed(
  envelope: Envelope,
  candidates: readonly Candidate[],
  promptBound: number,
  holdOutputTokens: number,
  free: Pico,
): Need | undefined {
  // max_cost is left out here: only the counted prompt may say that it is too low.
  const unbounded = envelope.maxCost === undefined ? envelope : { ...envelope, maxCost: undefined }
  const need = needOf(unbounded, candidates, promptBound, holdOutputTokens)
  if (need.want > free) return undefined
  if (envelope.maxCost === undefined) return need
  const maxCost = parseUsd(envelope.maxCost)
  return maxCost !== undefined && need.want < maxCost ? { ...need, maxCost } : undefined
}

/** What is held for a call, and what else of its caller's credit is free; picodollars. */
export interface Held {
  readonly amount: Pico
  readonly free: Pico
}

/** The most output tokens to ask of a candidate; undefined to leave it to the model. */
export function outputBound(
  need: Need,
  { amount, free }: Held,
  { n, maxOutputTokens, stream }: Envelope,
  { model, offer }: Candidate,
): number | undefined {
  const { maxOutputTokens: most, contextLength } = model
  // Servers refuse a bound that their context cannot hold: one that no answer can reach is not asked for.
  const longest = most ?? contextLength ?? longestAnswerTokens
  const within = (credit: Pico) => outputWithin(credit, need, offer.price, n)
  if (need.bounded) return Math.min(maxOutputTokens ?? longest, within(amount))
  const shortOfCredit = amount < need.want
  // A stream can be stopped when its credit ends; a whole answer cannot, and may be what all free credit pays for.
  if (stream && !shortOfCredit && need.maxCost === undefined) return undefined
  const credit = shortOfCredit ? amount : amount + free
  const bound = within(need.maxCost === undefined ? credit : smaller(credit, need.maxCost))
  if (bound < longest) return bound
  return maxOutputTokens === undefined ? undefined : most
}
