// Our usage as clients of chat completions read it: inclusive totals, their parts, and the cost.

import type { JsonObject } from '../../conversation/request.ts'
import { completionTokens, promptTokens, type Usage } from '../../conversation/usage.ts'
import type { Bill } from '../protocol.ts'

/**
 * The `usage` object of an answer. Cached and written tokens lie inside `prompt_tokens`, reasoning inside
 * `completion_tokens`; `cost` is a number for convenience, `cost_details` holds the exact decimal strings.
 */
export function wireUsage(usage: Usage, bill: Bill): JsonObject {
  const prompt = promptTokens(usage)
  const completion = completionTokens(usage)
  const { lines } = bill
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
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: promptDetails,
    completion_tokens_details: completionDetails,
    cost: Number(bill.cost),
    cost_details: {
      input: lines.input,
      cache_read: lines.cache_read,
      cache_write: lines.cache_write,
      output: lines.output,
      reasoning: lines.reasoning,
      tools: lines.tools,
      total: bill.cost,
    },
    server_tool_use: { web_search_requests: usage.toolCalls['web_search'] ?? 0 },
  }
}
