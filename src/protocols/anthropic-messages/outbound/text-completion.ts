// The older text completion protocol, which Claude 2 and Claude Instant still use at Amazon.

import type { JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

/**
 * The equivalent events for a whole completion or a part of a streamed one; undefined for anything else. Only Amazon's
 * streams count tokens, in the metrics of their last part.
 */
export function eventsOfCompletion(value: unknown): readonly JsonObject[] | undefined {
  if (!isObject(value) || typeof value['completion'] !== 'string') return undefined
  const { completion, stop_reason } = value
  const text = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: completion } }
  if (typeof stop_reason !== 'string') return [text]
  const metrics = value['amazon-bedrock-invocationMetrics']
  const usage = isObject(metrics)
    ? { input_tokens: metrics['inputTokenCount'] ?? null, output_tokens: metrics['outputTokenCount'] ?? null }
    : null
  return [text, { type: 'message_delta', delta: { stop_reason }, usage }, { type: 'message_stop' }]
}
