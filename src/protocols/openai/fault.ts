// What a chat-completions provider's error means: every envelope in use, read into one fault.

import type { Fault, FaultKind } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { fault, kindOfStatus, refusalInWords, retryAfterMs, waitInWordsMs } from '../faults.ts'
import { isObject, parseJson } from '../lenient.ts'
import type { Frame } from '../framing/sse.ts'

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
  if (!isObject(body) || !carriesError(body)) return undefined
  const envelope = envelopeOf(body)
  return envelope
    ? faultIn(envelope, envelope.status)
    : fault('broken', 'The provider sent an error without words.')
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
  return {
    message: message || 'The provider gave no reason.',
    code: text(inner.code) ?? codeIn(error),
    type: text(error.type) ?? text(error.error_type) ?? text(error.status),
    param: text(error.param),
    status: statusCode(error.status_code) ?? statusCode(error.code) ?? statusCode(error.status),
    retryAfterMs: waitIn(metadata) ?? waitInWordsMs(`${said}\n${behind ?? ''}`.slice(0, longestWording)),
    wording: `${said}\n${behind ?? ''}`.slice(0, longestWording),
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
