// Usage and finish reasons in the words of chat completions: as clients read them, and as providers count.

import { z } from 'zod'
import type { FaultKind, FinishReason } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import {
  completionTokens,
  count,
  counter,
  disjoint,
  noUsage,
  promptTokens,
  serviceTierOf,
  type Usage,
} from '../../conversation/usage.ts'
import { isObject, nonEmpty, withMissing } from '../lenient.ts'
import type { Bill } from '../protocol.ts'
import type { UsageQuirks } from './parameters.ts'

// For clients: inclusive totals, their parts, and the cost.

/**
 * The `usage` object of an answer. Cached and written tokens lie inside `prompt_tokens`, reasoning inside
 * `completion_tokens`; `cost` is a number for convenience, `cost_details` holds the exact decimal strings. `sent` is the
 * provider's own object, whose other members are kept.
 */
export function wireUsage(usage: Usage, bill: Bill, sent?: JsonObject): JsonObject {
  const prompt = promptTokens(usage)
  const completion = completionTokens(usage)
  const promptDetails: JsonObject = {
    cached_tokens: usage.cacheRead + usage.cacheReadAudio,
    cache_write_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
    audio_tokens: usage.inputAudio,
  }
  if (usage.inputImage > 0) promptDetails['image_tokens'] = usage.inputImage
  const completionDetails: JsonObject = {
    reasoning_tokens: usage.reasoning,
    audio_tokens: usage.outputAudio,
  }
  if (usage.outputImage > 0) completionDetails['image_tokens'] = usage.outputImage
  const counted: JsonObject = {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: promptDetails,
    completion_tokens_details: completionDetails,
    cost: Number(bill.cost),
    cost_details: costDetails(bill, 'prompt', 'completions'),
    server_tool_use: { web_search_requests: usage.toolCalls['web_search'] ?? 0 },
  }
  return sent === undefined ? counted : withOthers(counted, sent)
}

/** What providers say of their own bill: the client's is the gateway's. */
const ofMoney = /cost|price|byok/

/** Our counters with the members that only the provider's object has. */
export function withOthers(usage: JsonObject, sent: JsonObject): JsonObject {
  return withMissing(usage, sent, (name) => !ofMoney.test(name))
}

/**
 * The parts of the cost as exact decimal strings, and the numbers that OpenRouter's clients require under this name: what
 * was read and what was written, under the words of the protocol (openrouter.ai/docs/api/reference/overview).
 */
export function costDetails(
  { cost, lines }: Bill,
  read: 'prompt' | 'input',
  written: 'completions' | 'output',
): JsonObject {
  return {
    input: lines.input,
    cache_read: lines.cache_read,
    cache_write: lines.cache_write,
    output: lines.output,
    reasoning: lines.reasoning,
    tools: lines.tools,
    total: cost,
    // Only a key of the client's own has a bill of its own.
    upstream_inference_cost: null,
    [`upstream_inference_${read}_cost`]: sumOf(lines.input, lines.cache_read, lines.cache_write),
    [`upstream_inference_${written}_cost`]: sumOf(lines.output, lines.reasoning),
    server_tool_cost: Number(lines.tools),
  }
}

/** What `costDetails` makes, for the documentation. */
export function costDetailsSchema(read: 'prompt' | 'input', written: 'completions' | 'output'): z.ZodObject {
  const [exact, dollars] = [z.string(), z.number()]
  return z
    .object({
      input: exact,
      cache_read: exact,
      cache_write: exact,
      output: exact,
      reasoning: exact,
      tools: exact,
      total: exact,
      upstream_inference_cost: z.null(),
      [`upstream_inference_${read}_cost`]: dollars,
      [`upstream_inference_${written}_cost`]: dollars,
      server_tool_cost: dollars,
    })
    .describe('Decimal strings in US dollars that add up to `total`; as numbers for clients of OpenRouter.')
}

/** Amounts have at most twelve decimals: beyond them there is only what floating point adds. */
function sumOf(...amounts: readonly string[]): number {
  return Number(amounts.reduce((sum, amount) => sum + Number(amount), 0).toFixed(12))
}

// The counters of a chat-completions provider as disjoint buckets. What lies inside what is a quirk of its row.

/**
 * The usage that one body or chunk carries: `usage`, Groq's `x_groq.usage`, or Moonshot's on a choice.
 * Undefined where it carries none. Counters are cumulative in every dialect: the last one read holds.
 * `tier`: the service tier that the answer has named so far, where the chunk names none.
 */
export function usageIn(chunk: JsonObject, quirks: UsageQuirks, tier?: string): Usage | undefined {
  const raw = reportedUsage(chunk, tier)
  return raw && usageOf(raw, quirks)
}

/**
 * The usage object of a chunk, wherever its provider keeps it: on the chunk, in `x_groq`, on a choice. The service tier
 * stands beside it on the wire and inside it here.
 */
function reportedUsage(chunk: JsonObject, before: string | undefined): JsonObject | undefined {
  const raw = usageObject(chunk)
  const tier = tierIn(chunk) ?? before
  return raw && nonEmpty(raw.service_tier) === undefined && tier !== undefined
    ? { ...raw, service_tier: tier }
    : raw
}

/** The service tier that a chunk names: it may stand on every chunk of a stream but the one that counts. */
export function tierIn(chunk: JsonObject): string | undefined {
  return nonEmpty(chunk.service_tier)
}

/** The object with the counters of a body or a chunk; undefined where it counts nothing. */
export function usageObject(chunk: JsonObject): JsonObject | undefined {
  // Called for every chunk of a stream, only one of which has it.
  if (countsTokens(chunk.usage)) return chunk.usage
  const { x_groq: groq, choices } = chunk
  if (isObject(groq) && countsTokens(groq.usage)) return groq.usage
  if (!Array.isArray(choices)) return undefined
  for (const choice of choices) if (isObject(choice) && countsTokens(choice.usage)) return choice.usage
  return undefined
}

function countsTokens(raw: unknown): raw is JsonObject {
  if (!isObject(raw)) return false
  return isCounter(raw.prompt_tokens) || isCounter(raw.completion_tokens) || isCounter(raw.total_tokens)
}

/**
 * A `usage` object as disjoint buckets. An explicit zero is zero; undefined when `raw` counts nothing at all
 * (null, not an object, or without a token counter).
 */
export function usageOf(raw: unknown, quirks: UsageQuirks): Usage | undefined {
  const usage = object(raw)
  if (!usage || !countsTokens(usage)) return undefined

  const promptParts = object(usage.prompt_tokens_details) ?? noParts
  const completionParts = object(usage.completion_tokens_details) ?? noParts
  const reasoning = count(completionParts.reasoning_tokens ?? usage.reasoning_tokens)
  const cacheRead = count(
    promptParts.cached_tokens ??
      usage.prompt_cache_hit_tokens ??
      usage.cached_tokens ??
      usage.num_cached_tokens ??
      usage.cache_read_input_tokens,
  )
  const cacheWrite5m = count(promptParts.cache_write_tokens ?? usage.cache_creation_input_tokens)
  const inputAudio = count(promptParts.audio_tokens)
  const parts = { reasoning, cached: cacheRead + cacheWrite5m, inputAudio }
  const { prompt, completion } = totals(usage, parts, quirks)
  const serviceTier = serviceTierOf(usage.service_tier)
  const searchContext = nonEmpty(usage.search_context_size)
  const counted = disjoint({
    prompt,
    completion,
    cacheRead,
    cacheWrite5m,
    inputAudio,
    inputImage: count(promptParts.image_tokens),
    reasoning,
    outputAudio: count(completionParts.audio_tokens),
    outputImage: count(completionParts.image_tokens),
    toolCalls: toolCalls(usage),
    reportedCost: reportedCost(usage, quirks),
  })
  if (serviceTier === undefined && searchContext === undefined) return counted
  return { ...counted, ...(serviceTier && { serviceTier }), ...(searchContext && { searchContext }) }
}

const noParts: JsonObject = {}

/** Parts that a provider may count inside its totals or beside them. */
interface LooseParts {
  readonly reasoning: number
  /** Prompt tokens read from a cache or written to one. */
  readonly cached: number
  readonly inputAudio: number
}

/** Both totals in the canonical sense: the prompt with its cached tokens, the completion with its reasoning. */
function totals(usage: JsonObject, parts: LooseParts, quirks: UsageQuirks) {
  const { reasoning } = parts
  const total = counter(usage.total_tokens)
  let prompt = counter(usage.prompt_tokens)
  let completion = counter(usage.completion_tokens)

  if (completion !== undefined && reasoning > 0 && liesBeside(completion, reasoning, prompt, total, quirks)) {
    completion += reasoning
  }
  // One counter alone and a total give the other: a bill must not lose a side that the provider left out.
  // A side that was counted as what is no count is not none, as one that is left out may be.
  if (prompt === undefined && !isCounter(usage.prompt_tokens)) prompt = restOf(total, completion)
  if (completion === undefined && !isCounter(usage.completion_tokens)) completion = restOf(total, prompt)
  if (total === undefined || prompt === undefined || completion === undefined) return { prompt, completion }
  const unnamed = total - prompt - completion
  if (unnamed <= 0) return { prompt, completion }
  return quirks.totalCorrects === 'prompt' || isOfPrompt(unnamed, parts)
    ? { prompt: total - completion, completion }
    : { prompt, completion: total - prompt }
}

/**
 * Whether what a total has beyond its parts is what the provider counts of the prompt beside it. All else is output, such
 * as thoughts that no counter names.
 */
function isOfPrompt(unnamed: number, { reasoning, cached, inputAudio }: LooseParts): boolean {
  return unnamed !== reasoning && (unnamed === cached || unnamed === inputAudio)
}

function restOf(total: number | undefined, other: number | undefined): number | undefined {
  return total === undefined || other === undefined || total < other ? undefined : total - other
}

function liesBeside(
  completion: number,
  reasoning: number,
  prompt: number | undefined,
  total: number | undefined,
  quirks: UsageQuirks,
): boolean {
  switch (quirks.reasoningTokens) {
    case 'inside':
      // Thoughts cannot be inside of nothing, unless a total says that there is nothing beside it.
      return completion === 0 && total === undefined
    case 'beside':
      // A total that is the plain sum says that this model counts its reasoning inside after all; but a
      // completion smaller than its own reasoning cannot be.
      return reasoning > completion || total === undefined || total !== (prompt ?? 0) + completion
    case 'inside-unless-larger':
      return reasoning > completion
  }
}

/** Calls of tools that the provider ran and bills by the call. */
function toolCalls(usage: JsonObject): Usage['toolCalls'] {
  const details = object(usage.server_tool_use_details) ?? object(usage.server_tool_use)
  const searches = count(details?.web_search_requests)
  return searches > 0 ? { web_search: searches } : noUsage.toolCalls
}

/** A tick is a ten-billionth of a dollar. Checked against the list prices of xAI's recorded calls. */
const ticksPerUsd = 1e10

function reportedCost(usage: JsonObject, quirks: UsageQuirks): string | undefined {
  switch (quirks.reportedCost) {
    case 'none':
      return undefined
    case 'usage.cost_in_usd_ticks':
      return dollars(usage.cost_in_usd_ticks, ticksPerUsd)
    case 'usage.cost': {
      // Perplexity itemises its cost; OpenRouter and Vercel give one number.
      const parts = object(usage.cost)
      if (parts) return dollars(parts.total_cost)
      if (usage.is_byok !== true) return dollars(usage.cost)
      // With the operator's own key at the provider behind, `cost` is only the fee of the reseller, often zero.
      const behind = object(usage.cost_details)?.upstream_inference_cost
      return typeof usage.cost === 'number' && typeof behind === 'number'
        ? dollars(usage.cost + behind)
        : undefined
    }
  }
}

/** An amount as a decimal string without an exponent, to the picodollar; undefined when it is not an amount. */
function dollars(amount: Json | undefined, perUsd = 1): string | undefined {
  if (typeof amount !== 'number' || !Number.isFinite(amount) || amount < 0) return undefined
  const fixed = (amount / perUsd).toFixed(12)
  // toFixed falls back to an exponent from 1e21 on; no call costs that.
  return fixed.includes('e') ? undefined : fixed.replace(/\.?0+$/, '')
}

function isCounter(value: Json | undefined): boolean {
  return typeof value === 'number' && Number.isFinite(value)
}

function object(value: unknown): JsonObject | undefined {
  return isObject(value) ? value : undefined
}

// Why an answer ended, from the words providers use to those that clients know.

/** Every reason in use: the clients' own words, and what else means one of them. */
const reasons: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['length', 'length'],
  ['tool_calls', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['function_call', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['complete', 'stop'],
  ['completed', 'stop'],
  ['done', 'stop'],
  ['end', 'stop'],
  ['finished', 'stop'],
  ['stop_token', 'stop'],
  ['max_tokens', 'length'],
  ['max_length', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['model_context_window_exceeded', 'length'],
  ['sensitive', 'content_filter'],
  ['safety', 'content_filter'],
  ['refusal', 'content_filter'],
])

/** Reasons that are failures: the answer is not whole and must not look finished. */
const failures: ReadonlyMap<string, FaultKind> = new Map([
  ['error', 'broken'],
  // Google's compatible endpoint: the model wrote a call that cannot be read.
  ['function_call_filter', 'unusable-output'],
  ['abort', 'broken'],
  ['network_error', 'broken'],
  ['insufficient_system_resource', 'overloaded'],
])

/** Whether a provider has given its reason: before, it writes null, nothing, an empty string, or the word. */
export function isReason(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value !== 'null'
}

/** Google's compatible endpoint appends its own reason to OpenAI's: `content_filter: RECITATION`. */
export function wordOf(native: string): string {
  return native.toLowerCase().split(':', 1)[0]!.trim()
}

/** The kind of failure that a provider's finish reason means, if any. */
export function failureOf(native: string): FaultKind | undefined {
  // Most say it in one of the usual words.
  return reasons.has(native) ? undefined : failures.get(wordOf(native))
}

/**
 * The finish reason for the client. Calls that are whole make it `tool_calls` whatever the provider said, and without
 * calls it never is; an answer cut off in the middle of a call keeps the provider's reason. A word that is not known here
 * is `other`.
 */
export function finishReasonOf(native: string, calls: 'none' | 'whole' | 'partial'): FinishReason {
  const reason = reasons.get(native) ?? reasons.get(wordOf(native)) ?? 'other'
  if (calls === 'none') return reason === 'tool_calls' ? 'stop' : reason
  if (reason === 'content_filter') return reason
  return calls === 'partial' && (reason === 'length' || reason === 'other') ? reason : 'tool_calls'
}

/** A finish reason as chat completions have it, with the provider's own word where it says nothing of how it ended. */
export function wireFinish(
  native: string,
  calls: 'none' | 'whole' | 'partial',
): { finish_reason: FinishReason; native_finish_reason?: string } {
  const reason = finishReasonOf(native, calls)
  return reason === 'other'
    ? { finish_reason: reason, native_finish_reason: native }
    : { finish_reason: reason }
}
