// Usage and finish reasons in the words of chat completions: as clients read them, and as providers count.

import { z } from 'zod'
import type { Fault, FaultKind, FinishReason } from '../../conversation/event.ts'
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
import { fault, kindOfStatus, refusalInWords, retryAfterMs, waitInWordsMs } from '../faults.ts'
import type { Frame } from '../framing/sse.ts'
import { anyObject, isObject, nonEmpty, parseJson, withMissing } from '../lenient.ts'
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
    ...lines,
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
  const raw = usageObject(chunk)
  if (raw === undefined) return undefined
  // The tier stands beside the counters on the wire, and among them here.
  const named = nonEmpty(raw.service_tier) === undefined ? (tierIn(chunk) ?? tier) : undefined
  return usageOf(named === undefined ? raw : { ...raw, service_tier: named }, quirks)
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
  const usage = anyObject(raw)
  if (!usage || !countsTokens(usage)) return undefined

  const promptParts = anyObject(usage.prompt_tokens_details) ?? noParts
  const completionParts = anyObject(usage.completion_tokens_details) ?? noParts
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
  const details = anyObject(usage.server_tool_use_details) ?? anyObject(usage.server_tool_use)
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
      const parts = anyObject(usage.cost)
      if (parts) return dollars(parts.total_cost)
      if (usage.is_byok !== true) return dollars(usage.cost)
      // With the operator's own key at the provider behind, `cost` is only the fee of the reseller, often zero.
      const behind = anyObject(usage.cost_details)?.upstream_inference_cost
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

// What a chat-completions provider's error means: every envelope in use, read into one fault.

/** A provider's error, whatever envelope it came in. */
interface Envelope {
  readonly message: string
  readonly code: string | undefined
  readonly type: string | undefined
  readonly param: string | undefined
  /** A status inside the body: streams have no other. */
  readonly status: number | undefined
  /** A wait inside the body, milliseconds. */
  readonly retryAfterMs: number | undefined
  /** All texts that may say what happened, for the rules that go by wording. */
  readonly wording: string
}

/** No provider says more than this in earnest; a page of HTML or an echoed prompt does. */
const longestWording = 4000

/**
 * The fault that an answer with an error status means.
 * Takes the HTTP status, its headers, and the body as text, which may be JSON of any shape, HTML, or empty.
 */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const envelope = envelopeOf(parseJson(body))
  if (!envelope) {
    const sentence = refusalInWords(status, body)
    if (sentence !== undefined) return fault('invalid-request', sentence, { status })
    return fault(kindOfBareStatus(status), wordsFor(status), {
      status,
      retryAfterMs: retryAfterMs(headers),
    })
  }
  const found = faultIn(envelope, status)
  return { ...found, retryAfterMs: retryAfterMs(headers) ?? found.retryAfterMs }
}

/** A 413 reaches the caller, so it says what is to be done. */
function wordsFor(status: number): string {
  return status === 413
    ? 'The request is too large for the provider.'
    : `HTTP ${status} without an error in JSON`
}

/** The fault in a body or chunk that came with status 200; undefined when it carries none. */
export function faultInside(body: unknown): Fault | undefined {
  return isObject(body) && carriesError(body) ? faultOfErrorEvent(body) : undefined
}

/** The error in a frame of a stream, unchanged; undefined if there is none. */
export function errorIn(frame: Frame, chunk: unknown): Json | undefined {
  if (!isObject(chunk)) return frame.event === 'error' ? frame.data : undefined
  if (frame.event !== 'error' && !carriesError(chunk)) return undefined
  return chunk.error ?? chunk
}

/** Answers and their chunks have `choices`; a body of FastAPI's has its error where they should be. */
export function carriesError(body: JsonObject): boolean {
  if (body.error !== undefined && body.error !== null && body.error !== false) return true
  return body.object === 'error' || (body.detail != null && body.choices === undefined)
}

/** The fault of an `event: error` frame, whose data may be the bare error. */
export function faultOfErrorEvent(body: unknown): Fault {
  const envelope = envelopeOf(body)
  return envelope
    ? faultIn(envelope, envelope.status)
    : fault('broken', 'The provider sent an error without words.')
}

function faultIn(envelope: Envelope, status: number | undefined): Fault {
  return fault(kindOf(envelope, status), envelope.message, {
    param: envelope.param,
    providerCode: envelope.code ?? envelope.type,
    status,
    retryAfterMs: envelope.retryAfterMs,
  })
}

// ---- envelopes --------------------------------------------------------------------------------------------

function envelopeOf(body: unknown): Envelope | undefined {
  // Google's compatible endpoint wraps its error in an array.
  const outer = Array.isArray(body) ? body[0] : body
  if (typeof outer === 'string' && outer !== '') return envelope({ message: outer })
  if (!isObject(outer)) return undefined
  if (typeof outer.error === 'string') return envelope({ ...outer, message: outer.error })
  if (isObject(outer.error)) return nestedEnvelope(outer.error) ?? envelope(outer.error)
  if (Array.isArray(outer.error)) return envelopeOf(outer.error)
  if (Array.isArray(outer.errors)) return envelopeOf(outer.errors)
  return nestedEnvelope(outer)
}

/** An error whose words may be another error: Mistral puts FastAPI's list into `message`, as JSON or as its text. */
function nestedEnvelope(error: JsonObject): Envelope | undefined {
  const { message } = error
  const inner = typeof message === 'string' && message.startsWith('{') ? parseJson(message) : message
  const nested = isObject(inner) ? envelopeOf(inner) : undefined
  if (nested) return { ...nested, code: nested.code ?? codeIn(error), type: nested.type ?? text(error.type) }
  if (error.detail !== undefined) return validationEnvelope(error)
  return wordsOf(error) === '' && typeof message !== 'string' && codeIn(error) === undefined
    ? undefined
    : envelope(error)
}

/** FastAPI's envelope: `detail` is a sentence, or a list of what is wrong where (Mistral, vLLM). */
function validationEnvelope(body: JsonObject): Envelope | undefined {
  const { detail } = body
  if (typeof detail === 'string') return envelope({ ...body, message: detail })
  if (isObject(detail)) return envelopeOf(detail)
  if (!Array.isArray(detail)) return undefined
  if (typeof detail[0] === 'string') return envelope({ ...body, message: textsIn(detail).join('; ') })
  const found = detail.filter(isObject)
  const path = Array.isArray(found[0]?.loc)
    ? textsIn(found[0].loc.filter((step) => step !== 'body')).join('.')
    : undefined
  return envelope({ message: textsIn(found.map((item) => item.msg ?? '')).join('; '), param: path ?? null })
}

function envelope(error: JsonObject): Envelope {
  const metadata = isObject(error.metadata) ? error.metadata : {}
  const inner = isObject(error.innererror) ? error.innererror : {}
  const said = wordsOf(error)
  // OpenRouter keeps the words of the provider behind it apart and says only that there was an error.
  const behind = text(metadata.raw)
  const message = behind !== undefined && /^provider returned error$/i.test(said) ? behind : said
  const wording = `${said}\n${behind ?? ''}`.slice(0, longestWording)
  return {
    message: message || 'The provider gave no reason.',
    code: text(inner.code) ?? codeIn(error),
    type: text(error.type) ?? text(error.error_type) ?? text(error.status),
    param: text(error.param),
    status: statusCode(error.status_code) ?? statusCode(error.code) ?? statusCode(error.status),
    retryAfterMs: waitIn(metadata) ?? waitInWordsMs(wording),
    wording,
  }
}

function wordsOf(error: JsonObject): string {
  const { message, details, error_message, msg } = error
  return text(message) ?? text(details) ?? text(error_message) ?? text(msg) ?? ''
}

/** A code that is no more than the status says nothing. */
function codeIn(error: JsonObject): string | undefined {
  const code = text(error.code) ?? text(error.error_code)
  return code !== undefined && !/^\d{3}$/.test(code) ? code : undefined
}

/** OpenRouter repeats the headers of a limit inside its error, where they outlive a stream's own headers. */
function waitIn({ headers }: JsonObject): number | undefined {
  if (!isObject(headers)) return undefined
  const waits = Object.entries(headers)
    .map(([name, value]): [string, string] => [name, text(value) ?? ''])
    // What is no header would be thrown out with an exception.
    .filter(([name, value]) => /^[a-z0-9-]+$/i.test(name) && /^[\x20-\x7e]*$/.test(value))
  return retryAfterMs(new Headers(waits))
}

function statusCode(value: unknown): number | undefined {
  const number = typeof value === 'string' ? Number(value) : value
  return typeof number === 'number' && number >= 400 && number <= 599 ? number : undefined
}

/** What can be read of a list: an object may have no text at all (`{"toString":null}`). */
function textsIn(values: readonly Json[]): string[] {
  return values.flatMap((value) => text(value) ?? [])
}

function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  return typeof value === 'string' && value !== '' ? value : undefined
}

// ---- meaning ----------------------------------------------------------------------------------------------

/** How providers and inference servers say that a conversation is too long for a model. */
const contextWords = new RegExp(
  [
    /max(imum)? (context|prompt|input|model|supported sequence|sequence) length/,
    /context (length|window) (is )?(only|exceeded|exceeds|limit)/,
    /exceed(s|ed)? (the |this |a |our )?(model'?s? )?(available |maximum )?context/,
    /(longer|greater) than the (model'?s )?(maximum )?(context|model) (length|window)/,
    /(prompt|input) (is )?too long/,
    /total (length of all messages is too long|message token length exceed)/,
    /exceed(s|ed)? model token limit|prompt exceeds max length|token count of \d+ exceeds the limit/,
    /range of input length|current length is \d+ while limit|input tokens exceed/,
    /`?inputs`? tokens \+ `?max_new_tokens`? must be|`?inputs`? must have less than \d+ tokens/,
    /input token count \+ max_tokens|when context the overflows/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'i',
)

/**
 * What an error is, by its code or its message, whatever its status: providers disagree about statuses
 * (a full context is 400, 413 or 429; an empty account 400, 402, 403 or 429). The first rule that holds decides.
 */
const rules: readonly { kind: FaultKind; codes: RegExp; words?: RegExp }[] = [
  {
    kind: 'context-length',
    codes:
      /^(context_length_exceeded|too_many_prompt_tokens|exceed_context_size_error|tokens_limit_reached|token_limit_exceeded|model_max_prompt_tokens_exceeded|3051|1261)$/i,
    words: contextWords,
  },
  {
    kind: 'content-filter',
    codes:
      /^(content_filter|content_policy_violation|ResponsibleAIPolicyViolation|data_inspection_failed|DataInspectionFailed|moderation_blocked|1301)$/i,
    words:
      /content exists risk|violat(es|ing) (our |the )?(usage|content) (guidelines|polic(y|ies))|(was|were|been) flagged|flagged (by|for|as) |content management policy|inappropriate content/i,
  },
  {
    kind: 'quota',
    codes:
      /^(insufficient_quota|billing_hard_limit_reached|billing_not_active|exceeded_current_quota_error|insufficient_balance|insufficient_credits|usage_limit_reached|Arrearage|1113)$/i,
    words:
      /exceeded your current quota|insufficient (balance|credits?|funds)|credit balance is too low|(used|exhausted) all available credits|billing hard limit|monthly spending limit|requires more credits/i,
  },
  {
    kind: 'credentials',
    codes: /^(invalid_api_key|invalid_authentication(_error)?|authentication_error|unauthorized)$/i,
    words: /(incorrect|invalid) api key/i,
  },
  {
    kind: 'not-found',
    codes:
      /^(model_not_found|DeploymentNotFound|unknown_model|model_not_available|invalid_model|ModelNotFound|model_not_exist|1211)$/i,
    words:
      /model [`'"]?[^\s]+ (does not exist|not found)|not a valid model id|no such model|model_not_found/i,
  },
  {
    kind: 'unusable-output',
    codes: /^(tool_use_failed|json_validate_failed|output_parse_failed|function_call_filter)$/i,
  },
  {
    kind: 'rate-limited',
    codes:
      /^(rate_limit_exceeded|rate_limit_error|RateLimitReached|rate_limit_reached_error|too_many_requests|1302|1303|3505)$/i,
    words: /rate limit (reached|exceeded)|too many requests/i,
  },
  {
    kind: 'overloaded',
    codes:
      /^(overloaded|overloaded_error|engine_overloaded_error|server_overloaded|capacity_exceeded|1305|3500)$/i,
    words: /(is|are|currently) (temporarily )?overloaded/i,
  },
]

/**
 * What a model cannot be given, said with a status of another meaning: llama.cpp answers 500 to an image for a model
 * without eyes ("image input is not supported - hint: …"), OpenRouter 404 ("No endpoints found that support image input").
 */
const unsupportedWords =
  /^(image|audio|video|file) input is not supported\b|^no endpoints found that (can handle|support) (the requested|image|audio|video|file|tool|input)/i

function kindOf(error: Envelope, status: number | undefined): FaultKind {
  if (unsupportedWords.test(error.message)) return 'invalid-request'
  const names = [error.code, error.type].filter((name) => name !== undefined)
  const ruled = rules.find((rule) => names.some((name) => rule.codes.test(name)))
  if (ruled) return ruled.kind
  // A 5xx may quote anything; its words do not make it the caller's fault.
  const worded =
    status === undefined || status < 500 ? rules.find((rule) => rule.words?.test(error.wording)) : undefined
  if (worded) return worded.kind
  if (status !== undefined) return kindOfStatus(status, ownStatuses)
  return names.some((name) =>
    /^(invalid_request_error|bad_?request(_?error)?|validation(_?error)?)$/i.test(name),
  )
    ? 'invalid-request'
    : 'broken'
}

/**
 * Statuses with a meaning of their own here: conflicts, dependencies and accounts that fail on the provider's side are
 * not the caller's, 498 and 499 are Groq's for a full tier and a cancelled request, 522 and 524 a proxy's for a provider
 * that did not answer in time.
 */
const ownStatuses: Readonly<Record<number, FaultKind>> = {
  409: 'broken',
  412: 'broken',
  424: 'broken',
  425: 'overloaded',
  498: 'overloaded',
  499: 'cut',
  522: 'timeout',
  524: 'timeout',
}

/** Without the provider's envelope only the status counts; a proxy's 4xx is not the caller's fault. */
function kindOfBareStatus(status: number): FaultKind {
  // A body that is too large is the caller's fault, whoever measured it; Cerebras and Mistral send no message.
  if (status === 413) return 'invalid-request'
  const kind = kindOfStatus(status, ownStatuses)
  return kind === 'invalid-request' ? 'broken' : kind
}

// Faults for errors of the Responses protocol. The envelope is OpenAI's; some codes occur only here.

/** Codes of failed responses, as OpenAI's description of the protocol lists them. */
const kinds: readonly (readonly [RegExp, FaultKind])[] = [
  [/^(image_content_policy_violation|cyber_policy|bio_policy)$/, 'content-filter'],
  [
    /^(invalid_prompt|invalid_image|invalid_image_(format|url|mode)|invalid_base64_image|image_(too_large|too_small|parse_error)|image_file_(too_large|not_found)|unsupported_image_media_type|empty_image_file|failed_to_download_image|invalid_encrypted_content)$/,
    'invalid-request',
  ],
  [/^(server_is_overloaded|slow_down)$/, 'overloaded'],
  [/^vector_store_timeout$/, 'timeout'],
]

/** `invalid_prompt` is mostly a refusal by policy; its message says so. */
const policyWords = /usage polic(y|ies)|flagged/i

/** The fault for an answer with an error status. `body` may be JSON of any shape, HTML, or empty. */
export function faultOfResponses(status: number, headers: Headers, body: string): Fault {
  return refineFault(faultOf(status, headers, body))
}

/** The fault of an `error` event, in either of its shapes, or of a failed response's `error`. */
export function faultOfError(error: unknown): Fault {
  return refineFault(faultOfErrorEvent(error))
}

/** The rules of chat completions come first; codes they do not know may be from this protocol. */
function refineFault(fault: Fault): Fault {
  if (fault.kind !== 'broken' && fault.kind !== 'invalid-request') return fault
  const code = fault.providerCode ?? ''
  if (code === 'invalid_prompt' && policyWords.test(fault.message))
    return { ...fault, kind: 'content-filter' }
  const kind = kinds.find(([codes]) => codes.test(code))?.[1]
  return kind === undefined ? fault : { ...fault, kind }
}
