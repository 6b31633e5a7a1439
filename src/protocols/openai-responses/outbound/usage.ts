// The usage of a response in disjoint counters. Its fields are those of chat completions under other names.

import type { JsonObject } from '../../../conversation/request.ts'
import { count, type Usage } from '../../../conversation/usage.ts'
import { isObject } from '../../json.ts'
import { usageOf as chatUsageOf } from '../../openai/upstream-usage.ts'
import type { UsageQuirks } from '../../openai/quirks.ts'

/** Their names in this protocol and in chat completions. */
const names = {
  input_tokens: 'prompt_tokens',
  output_tokens: 'completion_tokens',
  input_tokens_details: 'prompt_tokens_details',
  output_tokens_details: 'completion_tokens_details',
} as const

/**
 * The usage of a response; undefined if it has none. `searches` is the number of web searches in its output: they are
 * billed by the call, and only xAI counts them itself.
 */
export function usageOf(response: JsonObject, searches: number, quirks: UsageQuirks): Usage | undefined {
  const raw = response.usage
  if (!isObject(raw)) return undefined
  const tier = response.service_tier
  const renamed: JsonObject = { ...raw, ...(typeof tier === 'string' ? { service_tier: tier } : {}) }
  for (const [ours, theirs] of Object.entries(names)) {
    if (renamed[ours] !== undefined) renamed[theirs] = renamed[ours]
  }
  const usage = chatUsageOf(renamed, quirks)
  if (!usage) return undefined
  const ran = isObject(raw.server_side_tool_usage_details) ? raw.server_side_tool_usage_details : {}
  const webSearch = ran.web_search_calls === undefined ? searches : count(ran.web_search_calls)
  return webSearch === 0 ? usage : { ...usage, toolCalls: { ...usage.toolCalls, web_search: webSearch } }
}
