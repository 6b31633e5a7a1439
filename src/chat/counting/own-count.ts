// What the gateway counts itself because the provider did not.

import type { Model } from '../../catalog/row.ts'
import type { Delivered, DeliveredTokens } from '../../conversation/delivered.ts'
import {
  bucketsOf,
  completionTokens,
  noUsage,
  promptTokens,
  type Side,
  type Usage,
} from '../../conversation/usage.ts'
import { parseUsd } from '../../credits/money.ts'
import { ceilingOf, type Price } from '../../credits/price.ts'
import type { Provider } from '../../providers/provider.ts'
import type { PaidCall } from '../call.ts'
import {
  type Counter,
  type CountingParts,
  deliveredTokensIn,
  promptCount,
  promptGuess,
} from './token-counter.ts'

/** Token counts for the sides of a call that the provider did not count; nothing for the others. */
export interface OwnCount {
  readonly prompt: number
  /** The output: the provider's last count plus our count of what came after it. */
  readonly output: DeliveredTokens
}

const nothing: OwnCount = { prompt: 0, output: { output: 0, reasoning: 0 } }

/** The sides of a call that have to be counted here. */
type UncountedSides = Readonly<Record<'prompt' | 'output', boolean>>

const countedByProvider: UncountedSides = { prompt: false, output: false }

type Sized = Pick<PaidCall, 'request' | 'bodyBytes'>

/** What is known of an answer when it is charged. */
export interface Answered {
  /** The provider's count. */
  readonly usage: Usage | undefined
  /** The answer ended properly, so the provider's count is final. */
  readonly complete: boolean
  readonly delivered: Delivered
  /** The count had something that the provider cannot have meant, and `usage` is without it. */
  readonly doubted?: boolean
}

/**
 * Which sides we have to count: those that a final count leaves out. Without a final count: the output, and the prompt
 * unless it was counted early.
 */
export function uncountedSides({ usage, complete }: Pick<Answered, 'usage' | 'complete'>): UncountedSides {
  if (!complete || usage === undefined) return { prompt: promptTokens(usage ?? noUsage) === 0, output: true }
  const { uncounted } = usage
  if (uncounted === undefined) return countedByProvider
  return { prompt: uncounted.includes('prompt'), output: uncounted.includes('completion') }
}

/** Counts with the vocabulary, in the worker, for a charge; at once if there is nothing to count. Never rejects. */
export async function exactCount(parts: CountingParts, call: Sized, answered: Answered): Promise<OwnCount> {
  const sides = uncountedSides(answered)
  if (!sides.prompt && !sides.output) return nothing
  const [prompt, output] = await Promise.all([
    sides.prompt ? promptCount(parts, call.request.promptParts) : nothing.prompt,
    sides.output ? exactOutput(parts.counter, answered) : nothing.output,
  ])
  return { prompt, output }
}

/** Counts by the length of the prompt and the running estimate of the output, while the stream runs. */
export function roughCount(call: Sized, answered: Answered): OwnCount {
  const sides = uncountedSides(answered)
  return {
    prompt: sides.prompt ? promptGuess(call.request.promptParts, call.bodyBytes) : nothing.prompt,
    output: sides.output ? roughOutput(answered) : nothing.output,
  }
}

async function exactOutput(counter: Counter, answered: Answered): Promise<DeliveredTokens> {
  const since = sinceOf(answered)
  return whole(answered, await deliveredTokensIn(counter, answered.delivered.samples(since)))
}

/** The output of a running stream by the running estimate. */
export function roughOutput(answered: Pick<Answered, 'usage' | 'delivered'>): DeliveredTokens {
  return whole(answered, answered.delivered.running(sinceOf(answered)))
}

function sinceOf({ usage }: Pick<Answered, 'usage'>): 'start' | 'count' {
  return usage !== undefined && completionTokens(usage) > 0 ? 'count' : 'start'
}

function whole(answered: Pick<Answered, 'usage' | 'delivered'>, since: DeliveredTokens): DeliveredTokens {
  const { delivered } = answered
  const tokens = sinceOf(answered) === 'count' ? delivered.withCounted(since) : since
  const reasoning = Math.round(tokens.reasoning)
  // Output that cannot be read as text was served too.
  const least = delivered.any && reasoning === 0 ? 1 : 0
  return { output: Math.max(Math.round(tokens.output), least), reasoning }
}

// Whether a provider's count is plausible for what was asked and answered. A broken counter (bytes, nanoseconds, 10^30)
// must not empty an account, and one that says nothing must not give an answer away.

/** Used if the catalog does not know the model's context length. */
const largestContext = 2_000_000
/** Used if nobody knows the limit of an answer: more than any model writes within the longest allowed call. */
const longestAnswer = 1_000_000
/** A provider that runs its own tools counts the context again in each round, and may make more calls than asked for. */
const roundsCounted = 10
/** Calls of one such tool where a model always uses it: the longest research makes a few hundred. */
const mostToolCalls = 1_000
/** For a provider's tokenizer, and for what it puts around a prompt: instructions of its own, a format, rules for tools. */
const promptMargin = 4
const promptAround = 20_000
/** The prompt of a round that a provider has made though nobody asked for tools, and how many of those are believed. */
const promptOfRound = 50_000
const mostUnaskedRounds = 10
/** For where a provider stops: the end of a word or call, or the least limit that it takes. */
const answerMargin = 1.5
const answerAround = 32
/** An answer without a limit may exceed what the catalog says of its model. */
const catalogMargin = 4
/** Thoughts and media of one answer, which some providers do not count against its limit. */
const besideAnswer = 32_768
/** Resellers choose a host for each call, which may be dearer than the catalog says. */
const costMargin = 2n
/** Picodollars per token that no model on the market costs: bounds a reported cost where the catalog has no price. */
const dearest = { input: 200_000_000n, output: 800_000_000n }

/** The offer that counts. */
export interface CountedOffer {
  readonly model: Pick<Model, 'contextLength' | 'maxOutputTokens' | 'reasoning' | 'outputModalities'>
  readonly offer: { readonly price: Price }
  readonly provider: Pick<Provider, 'costFrom'>
}

/** The request that it counts. */
export interface AskedRequest {
  /** An upper bound of the prompt. */
  readonly promptTokens: number
  /** Whether that bound does not hold: of some parts only the provider knows the size. */
  isUnsized(): boolean
  /** The limit of one answer as it was sent; undefined without one. */
  outputTokens(): number | undefined
  readonly choices: number
  /** The provider's own searches that were asked for; undefined where none were. */
  readonly searches: number | undefined
}

/** The most that a provider can have meant. */
interface Bounds {
  readonly prompt: number
  /** What counts against the limit of an answer, over all choices. */
  readonly answer: number
  /** What may be beside it. */
  readonly beside: number
  /** Calls of each tool. */
  readonly calls: number
}

/** The same of an answer whose thoughts are known. */
interface Most {
  readonly prompt: number
  readonly completion: number
  readonly calls: number
}

/**
 * The usage without what the provider cannot have meant: a side beyond what was asked becomes uncounted, calls of tools
 * beyond it become none, and a bill or a cost that no such usage comes to is dropped. Returns the same object if all of
 * it is plausible.
 */
export function credibleUsage(reported: Usage, offer: CountedOffer, asked: AskedRequest): Usage {
  const within = usageWithin(reported, boundsOf(offer, asked, false), offer)
  if (within === reported || !asked.isUnsized()) return within
  return usageWithin(reported, boundsOf(offer, asked, true), offer)
}

function boundsOf(
  { model, offer: { price } }: CountedOffer,
  asked: AskedRequest,
  isUnsized: boolean,
): Bounds {
  const { choices, searches } = asked
  const usesTools = searches !== undefined || alwaysSearches(price)
  const rounds = usesTools ? roundsCounted : 1
  const context = model.contextLength ?? largestContext
  return {
    prompt:
      usesTools || isUnsized
        ? context * roundsCounted * choices
        : asked.promptTokens * promptMargin + promptAround,
    answer: answerBound(model, asked) * choices * rounds,
    beside: besideAnswer * choices * rounds,
    calls: usesTools ? (searches === undefined ? mostToolCalls : searches * roundsCounted) * choices : 0,
  }
}

/** Models whose every request is priced search, asked for or not. */
function alwaysSearches({ perRequest }: Price): boolean {
  return perRequest > 0n
}

function answerBound(model: CountedOffer['model'], asked: AskedRequest): number {
  if (model.outputModalities.includes('embeddings')) return answerAround
  const limit = asked.outputTokens()
  if (limit !== undefined) return limit * answerMargin + answerAround
  return Math.min(
    (model.maxOutputTokens ?? model.contextLength ?? longestAnswer) * catalogMargin,
    longestAnswer,
  )
}

function usageWithin(reported: Usage, bounds: Bounds, { model, offer, provider }: CountedOffer): Usage {
  const wrong: Side[] = []
  const { reasoning, outputAudio, outputImage } = reported
  const countedBeside = reasoning + outputAudio + outputImage
  const most: Most = {
    prompt: Math.ceil(bounds.prompt + unaskedRounds(reported) * promptOfRound),
    // What a model thinks need not be counted apart.
    completion: Math.ceil(
      bounds.answer + (model.reasoning ? bounds.beside : Math.min(bounds.beside, countedBeside)),
    ),
    calls: bounds.calls,
  }
  if (promptTokens(reported) > most.prompt) wrong.push('prompt')
  if (completionTokens(reported) > most.completion) wrong.push('completion')
  let usage = wrong.length === 0 ? reported : withoutSides(reported, wrong)
  if (anyAbove(usage.toolCalls, most.calls)) usage = { ...usage, toolCalls: noUsage.toolCalls }
  if (usage.billed !== undefined && !canBeBilled(usage.billed, most)) usage = withoutBill(usage)
  const isCharged = provider.costFrom === 'reported' && usage.reportedCost !== undefined
  if (isCharged && !canCost(usage.reportedCost, most, offer.price))
    usage = { ...usage, reportedCost: undefined }
  return usage
}

function unaskedRounds({ rounds = 0, toolCalls }: Usage): number {
  let made = rounds
  for (const name in toolCalls) made += toolCalls[name]!
  return Math.min(made, mostUnaskedRounds)
}

/**
 * The final usage of an answer without what cannot be none: a request has a prompt, and text has tokens. Such a side
 * becomes uncounted. Returns the same object if there is no such side.
 */
export function withoutSilence(usage: Usage, delivered: Delivered): Usage {
  const silent: Side[] = []
  if (promptTokens(usage) === 0) silent.push('prompt')
  if (isTooLittle(completionTokens(usage), delivered)) silent.push('completion')
  const billed = usage.billed && { ...noUsage, ...usage.billed }
  const isUnbilled = billed !== undefined && isTooLittle(completionTokens(billed), delivered)
  if (silent.every((side) => usage.uncounted?.includes(side)) && !isUnbilled) return usage
  const heard = isUnbilled ? withoutBill(usage) : usage
  if (silent.length === 0) return heard
  const saysNothing = silent.includes('completion') && parseUsd(usage.reportedCost ?? '') === 0n
  return { ...withoutSides(heard, silent), ...(saysNothing ? { reportedCost: undefined } : {}) }
}

/** A token has fewer characters than this, if there are words in it. */
const longestToken = 64
/** And fewer words than this: most tokenizers make at least one token of each. */
const wordsInToken = 8
/** So many are counted in a few milliseconds. A provider that counts more tokens than these make is believed. */
const mostWordsCounted = 100_000

/** Whether so few tokens cannot be what was delivered. Text without words, such as an image as text, may have few. */
function isTooLittle(tokens: number, delivered: Delivered): boolean {
  const { characters } = delivered
  if (tokens === 0) return characters > 0
  const most = tokens * wordsInToken
  if (tokens * longestToken >= characters || most >= mostWordsCounted) return false
  return delivered.wordsUpTo(most + 1) > most
}

function withoutSides(usage: Usage, sides: readonly Side[]): Usage {
  const none = Object.fromEntries(sides.flatMap((side) => bucketsOf[side]).map((bucket) => [bucket, 0]))
  return { ...usage, ...none, uncounted: [...new Set([...(usage.uncounted ?? []), ...sides])] }
}

function withoutBill({ billed: _, ...usage }: Usage): Usage {
  return usage
}

function anyAbove(counts: Readonly<Record<string, number>>, most: number): boolean {
  for (const name in counts) if (counts[name]! > most) return true
  return false
}

function canBeBilled(billed: NonNullable<Usage['billed']>, most: Most): boolean {
  const usage = { ...noUsage, ...billed }
  return promptTokens(usage) <= most.prompt && completionTokens(usage) <= most.completion
}

/** Whether usage within these bounds can cost that much, at this price or near it. */
function canCost(reportedUsd: string | undefined, most: Most, price: Price): boolean {
  const cost = parseUsd(reportedUsd ?? '')
  if (cost === undefined) return true
  const { prompt: promptTokens, completion: outputTokens, calls } = most
  const toolCalls = Object.fromEntries(Object.keys(price.perCall).map((name) => [name, calls]))
  const ceiling = ceilingOf({ promptTokens, outputTokens, toolCalls }, price)
  if (ceiling > 0n) return cost <= ceiling * costMargin
  return cost <= BigInt(promptTokens) * dearest.input + BigInt(outputTokens) * dearest.output
}
