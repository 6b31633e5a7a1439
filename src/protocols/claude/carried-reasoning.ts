// Carries reasoning of any provider inside Anthropic's thinking blocks; what the protocol has no field for goes into
// the signature.

import { z } from 'zod'
import type { JsonObject, ReasoningDetail } from '../../conversation/request.ts'
import { parseJson } from '../json.ts'
import { compactionId, reasoningFormat } from './names.ts'

/**
 * Marks signatures that we generated. Clients return signatures unread, so another provider's detail comes back
 * complete and is never sent to Anthropic as its own.
 */
const prefix = 'weir.'

const carriedSchema = z.object({
  type: z.enum(['reasoning.text', 'reasoning.summary', 'reasoning.encrypted']),
  format: z.string().nullable(),
  id: z.string().optional(),
  signature: z.string().optional(),
  data: z.string().optional(),
  /** Of a client that was not shown the text. */
  text: z.string().optional(),
})

/** The readable part of a detail. */
export function thinkingText(detail: ReasoningDetail): string {
  return detail.text ?? detail.summary ?? ''
}

export function blockOfDetail(detail: ReasoningDetail): JsonObject {
  if (detail.format === reasoningFormat && detail.type === 'reasoning.encrypted') {
    return { type: 'redacted_thinking', data: detail.data ?? '' }
  }
  if (detail.type === 'reasoning.summary' && detail.id === compactionId) {
    return { type: 'compaction', content: detail.summary ?? '' }
  }
  return { type: 'thinking', thinking: thinkingText(detail), signature: signatureOf(detail) }
}

/** The signature to send: Anthropic's own, or ours containing another provider's detail. */
export function signatureOf(detail: ReasoningDetail): string {
  return detail.format === reasoningFormat ? (detail.signature ?? '') : carriedSignature(detail)
}

/** Our own signature, containing all of a detail except its readable text; `hidden` is text that it contains as well. */
export function carriedSignature(detail: ReasoningDetail, hidden?: string): string {
  const { type, format, id, signature, data } = detail
  const carried = {
    type,
    format,
    ...(id == null ? {} : { id }),
    ...(signature == null ? {} : { signature }),
    ...(data === undefined ? {} : { data }),
    ...(hidden === undefined ? {} : { text: hidden }),
  }
  return prefix + Buffer.from(JSON.stringify(carried)).toString('base64url')
}

/** Whether we generated the signature: Anthropic would refuse it. */
export function isCarried(signature: string): boolean {
  return signature.startsWith(prefix)
}

/** The detail of a client's `thinking` block; `index` is its position in the turn's reasoning. */
export function detailOfThinking(thinking: string, signature: string, index: number): ReasoningDetail {
  const carried = isCarried(signature) ? carriedIn(signature.slice(prefix.length)) : undefined
  if (carried === undefined) {
    return { type: 'reasoning.text', format: reasoningFormat, index, text: thinking, signature }
  }
  const { text: hidden, ...rest } = carried
  const said = hidden ?? thinking
  const readable = carried.type === 'reasoning.summary' ? { summary: said } : { text: said }
  return { ...rest, index, ...(carried.type === 'reasoning.encrypted' ? {} : readable) }
}

function carriedIn(encoded: string): z.infer<typeof carriedSchema> | undefined {
  return carriedSchema.safeParse(parseJson(Buffer.from(encoded, 'base64url').toString('utf8'))).data
}
