// The response object: the request's settings and the result.

import { requestOfApproval } from '../../../conversation/approval-id.ts'
import { shownTool } from '../../request/mcp-declarations.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { completionTokens, promptTokens, type Usage } from '../../../conversation/usage.ts'
import { wireWarnings } from '../../openai/message-fields.ts'
import { wireUsage as chatUsage } from '../../openai/usage.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { readMembers, type ResponsesRequest } from './schema.ts'

/** The state of a response. */
export interface Standing {
  readonly status: 'in_progress' | 'completed' | 'incomplete' | 'failed' | 'cancelled'
  readonly output: readonly JsonObject[]
  /** Whether it can be retrieved by its id. */
  readonly stored: boolean
  readonly usage: JsonObject | null
  /** The service tier it was served at; before that is known, the one that was asked for. */
  readonly tier: string | null
  readonly error: JsonObject | null
  /** Why it is incomplete; null if it is complete. */
  readonly incomplete: 'max_output_tokens' | 'content_filter' | null
  /** Seconds since 1970; null unless it is complete. */
  readonly completedAt: number | null
}

/** The id of a call's response; its items' ids are derived from it. */
export function responseId(requestId: string): string {
  return `resp_${bareId(requestId)}`
}

/** The call of a response; undefined for an id that is not ours. */
export function requestIdOf(response: string): string | undefined {
  return /^resp_[0-9a-f]{32}$/.test(response) ? response.replace('resp_', 'req_') : undefined
}

/** The id of an item of a call's response. */
export function outputItemId(kind: string, requestId: string, at: number): string {
  return `${kind}_${bareId(requestId)}_${at}`
}

export function inputItemId(kind: string, requestId: string, at: number): string {
  return `${kind}_${bareId(requestId)}_in${at}`
}

/** The response that an item belongs to; undefined for an item that is not ours. */
export function responseOfItem(item: string): string | undefined {
  const match = /^[a-z]+_([0-9a-f]{32})_(?:in)?\d+$/.exec(item)
  if (match) return `resp_${match[1]!}`
  const request = requestOfApproval(item)
  return request === undefined ? undefined : responseId(request)
}

function bareId(requestId: string): string {
  return requestId.replace(/^req_/, '')
}

/** All keys that OpenAI and Open Responses require, null if unset; never `output_text`, which client libraries add. */
export function responseOf(
  request: ResponsesRequest,
  context: AnswerContext,
  standing: Standing,
): JsonObject {
  const { metadata: notes, ...extra } = context.extra
  const { incomplete } = standing
  return {
    id: responseId(context.id),
    object: 'response',
    created_at: context.created,
    completed_at: standing.completedAt,
    status: standing.status,
    error: standing.error,
    incomplete_details: incomplete === null ? null : { reason: incomplete },
    instructions: request.instructions ?? null,
    model: context.model,
    tools: (request.tools ?? []).map(toldTool),
    tool_choice: (request.tool_choice ?? 'auto') as Json,
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    output: [...standing.output],
    usage: standing.usage,
    metadata: mergedMetadata(request.metadata ?? null, notes),
    temperature: request.temperature ?? null,
    top_p: request.top_p ?? null,
    presence_penalty: request.presence_penalty ?? null,
    frequency_penalty: request.frequency_penalty ?? null,
    top_logprobs: request.top_logprobs ?? null,
    reasoning: { effort: null, summary: null, ...inEffect(request, 'reasoning') },
    text: { format: { type: 'text' }, ...inEffect(request, 'text') },
    truncation: 'disabled',
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    previous_response_id: request.previous_response_id ?? null,
    store: standing.stored,
    background: false,
    service_tier: standing.tier,
    safety_identifier: request.safety_identifier ?? null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    ...wireWarnings(context.warnings),
    ...extra,
  }
}

/** The tier that the usage names. One that names none was served at the standard tier, whatever was asked for. */
export function tierOf(request: ResponsesRequest, usage: Usage): string | null {
  return usage.serviceTier ?? (request.service_tier == null ? null : 'default')
}

/** The members of a setting that are set and read: a response shows what was in effect. */
function inEffect(request: ResponsesRequest, field: keyof typeof readMembers): JsonObject {
  const set = Object.entries(request[field] ?? {}) as [string, Json | null | undefined][]
  return Object.fromEntries(
    set.filter(([member, value]) => value != null && readMembers[field].has(member)),
  ) as JsonObject
}

function toldTool(tool: { readonly type: string }): JsonObject {
  const fields = shownTool(tool as unknown as JsonObject)
  return tool.type === 'function' ? { description: null, parameters: null, strict: null, ...fields } : fields
}

/** The client's metadata, and the gateway's: why the answer was stopped. */
function mergedMetadata(asked: JsonObject | null, notes: Json | undefined): JsonObject | null {
  return notes === undefined ? asked : { ...asked, ...(notes as JsonObject) }
}

/** Cached and written tokens are inside `input_tokens`, reasoning inside `output_tokens`; with our cost fields. */
export function wireUsage(usage: Usage, bill: Bill): JsonObject {
  const input = promptTokens(usage)
  const output = completionTokens(usage)
  const { cost, cost_details, server_tool_use } = chatUsage(usage, bill)
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cacheRead + usage.cacheReadAudio,
      cache_write_tokens: usage.cacheWrite5m + usage.cacheWrite1h,
    },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: usage.reasoning },
    total_tokens: input + output,
    cost: cost!,
    cost_details: cost_details!,
    server_tool_use: server_tool_use!,
  }
}
