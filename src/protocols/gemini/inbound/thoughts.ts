// Carries reasoning of any provider in Gemini's thought signatures, which clients return unread.

import type { JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import {
  carriedSignature,
  detailOfThinking,
  isCarried,
  thinkingText,
} from '../../claude/carried-reasoning.ts'
import { seal, unseal } from '../../request/sealed-reasoning.ts'
import { signatureFormat } from '../signatures.ts'

/** Whether a detail was not made by Google's models. */
export function isForeign({ format }: ReasoningDetail): boolean {
  return format !== signatureFormat
}

/** Google's own signature, or another provider's detail in one of ours; as base64, since clients decode the field. */
export function thoughtSignatureOf(detail: ReasoningDetail): string | undefined {
  if (detail.format === signatureFormat && detail.type === 'reasoning.text')
    return detail.signature ?? undefined
  const isPlain = detail.type === 'reasoning.text' && detail.format === null && !detail.signature
  return isPlain ? undefined : Buffer.from(carriedSignature(detail)).toString('base64')
}

/** A detail with its text as a part that shows nothing. */
export function sealedPart(detail: ReasoningDetail): JsonObject {
  const signature = carriedSignature(detail, thinkingText(detail))
  return { text: '', thoughtSignature: Buffer.from(signature).toString('base64') }
}

/**
 * Other providers' reasoning as the signature of the function call that it led to: there Google has its own. Clients
 * that drop thoughts from their history, as Gemini CLI does, send the signatures of calls back. The texts are in it.
 */
export function thoughtsOnCall(details: readonly ReasoningDetail[]): string {
  return Buffer.from(seal(details)).toString('base64')
}

/** What `thoughtsOnCall` put into the signature of a call; undefined for Google's own. */
export function thoughtsOfCall(signature: string | undefined): ReasoningDetail[] | undefined {
  return signature === undefined ? undefined : unseal(Buffer.from(signature, 'base64').toString('utf8'))
}

/** Whether a signature is Google's own. */
export function isGoogles(signature: string | undefined): boolean {
  return signature !== undefined && !isCarried(Buffer.from(signature, 'base64').toString('utf8'))
}

/** The detail of a thought in the client's history; `index` is its position in the turn's reasoning. */
export function detailOfThought(text: string, signature: string | undefined, index: number): ReasoningDetail {
  const carried = signature === undefined ? undefined : Buffer.from(signature, 'base64').toString('utf8')
  if (carried !== undefined && isCarried(carried)) return detailOfThinking(text, carried, index)
  return {
    type: 'reasoning.text',
    format: signatureFormat,
    index,
    text,
    ...(signature === undefined ? {} : { signature }),
  }
}
