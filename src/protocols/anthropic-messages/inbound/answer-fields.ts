// Fields of an answer for clients of the Messages API: usage, stop reason, errors.

import type { Annotation, FinishReason } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { completionTokens, type Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import { isObject, parseToolJson } from '../../json.ts'
import type { Bill } from '../../protocol.ts'

/** The `usage` object: cached tokens separate from the input, reasoning included in the output, and the cost. */
export function wireUsage(usage: Usage, bill: Bill): JsonObject {
  return { ...wireCounters(usage), ...costFields(bill) }
}

export function wireCounters(usage: Usage): JsonObject {
  return {
    input_tokens: usage.input + usage.inputAudio + usage.inputImage,
    cache_creation_input_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
    cache_read_input_tokens: usage.cacheRead + usage.cacheReadAudio,
    cache_creation: {
      ephemeral_5m_input_tokens: usage.cacheWrite5m,
      ephemeral_1h_input_tokens: usage.cacheWrite1h,
    },
    output_tokens: completionTokens(usage),
    output_tokens_details: { thinking_tokens: usage.reasoning },
    server_tool_use: {
      web_fetch_requests: usage.toolCalls['web_fetch'] ?? 0,
      web_search_requests: usage.toolCalls['web_search'] ?? 0,
    },
    // The protocol has names for only two service tiers.
    service_tier: usage.serviceTier === 'priority' ? 'priority' : 'standard',
    inference_geo: null,
    speed: null,
  }
}

/** What the gateway adds to the counters. */
export function costFields({ cost, lines }: Bill): JsonObject {
  return { cost: Number(cost), cost_details: { ...lines, total: cost } }
}

const stopReasons: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
}
/** Stop reasons that Anthropic distinguishes and we do not; kept if they are Anthropic's own. */
const finerReasons: Readonly<Record<string, FinishReason>> = {
  stop_sequence: 'stop',
  pause_turn: 'stop',
  model_context_window_exceeded: 'length',
}

export function stopReason(reason: FinishReason, native: string | undefined): string {
  return native !== undefined && finerReasons[native] === reason ? native : stopReasons[reason]
}

/** A web source as a citation of its text block. */
export function citation(annotation: Annotation, quoted: string): JsonObject {
  return {
    type: 'web_search_result_location',
    url: annotation.url,
    title: annotation.title,
    cited_text: quoted,
    encrypted_index: '',
  }
}

/** The request field for message threads, which are not supported. */
export const threadField = 'thread'

const typeOfCode: Readonly<Record<string, string>> = {
  overloaded: 'overloaded_error',
  store_unavailable: 'overloaded_error',
  no_provider_available: 'overloaded_error',
  upstream_timeout: 'timeout_error',
  payload_too_large: 'request_too_large',
}
const typeOfType: Readonly<Record<string, string>> = {
  conflict_error: 'invalid_request_error',
  server_error: 'api_error',
  provider_error: 'api_error',
}

/** An error in Anthropic's shape, with our code and metadata beside its type. */
export function wireError({ error }: RenderedError): JsonObject {
  const { code, type, message, param, metadata } = error
  const requestId = metadata['request_id']
  return {
    type: 'error',
    error: {
      type: typeOfCode[code] ?? typeOfType[type] ?? type,
      message: code === 'context_length_exceeded' ? tooLong(message) : message,
      code,
      // Where Anthropic's clients look for a machine-readable code.
      details: detailsOf(code, param),
      param,
      metadata: metadata as JsonObject,
    },
    request_id: typeof requestId === 'string' ? requestId : null,
  }
}

/**
 * That a prompt is too long, in words that Anthropic's clients look for: Claude Code shortens a conversation when it
 * reads the first, and asks for fewer tokens when it reads the second. Other providers say it in words of their own.
 */
function tooLong(message: string): string {
  return /prompt is too long|exceed context limit/i.test(message) ? message : `prompt is too long: ${message}`
}

/** Anthropic's client runs a tool loop on a thread, and continues without one if the error has this message. */
function detailsOf(code: string, param: string | null): JsonObject {
  return param === threadField
    ? { error_code: 'thread_unsupported_request', unsupported: [threadField] }
    : { error_code: code }
}

/** The arguments of a call as an object; if they are not one (cut by the token limit, or no JSON), as text. */
export function inputOf(text: string): JsonObject {
  const input = parseToolJson(text)
  return isObject(input) ? input : { invalid_arguments: text }
}
