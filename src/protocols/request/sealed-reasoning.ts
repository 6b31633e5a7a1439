// Reasoning of any provider as one string that clients keep and send back unread.

import { z } from 'zod'
import type { ReasoningDetail } from '../../conversation/request.ts'
import { parseJson } from '../json.ts'

/** Marks strings that we made, to distinguish them from a provider's. */
const prefix = 'weir.'

const sealedDetail = z.object({
  type: z.string(),
  format: z.string().nullable(),
  index: z.int().min(0),
  id: z.string().nullish(),
  text: z.string().nullish(),
  summary: z.string().optional(),
  signature: z.string().nullish(),
  data: z.string().optional(),
})

/**
 * These details as one string, including their texts: clients leave parts of the reasoning out when they send it back,
 * and a signature is only valid for the exact text.
 */
export function seal(details: readonly ReasoningDetail[]): string {
  return prefix + Buffer.from(JSON.stringify(details)).toString('base64url')
}

/** Whether we made a string: no provider can read it. */
export function isSealed(content: string): boolean {
  return content.startsWith(prefix)
}

/**
 * The details in a string that we sealed; undefined for any other string. Anybody can write one: the first fault ends
 * the check, as the faults of millions would stop the process for seconds.
 */
export function unseal(content: string): ReasoningDetail[] | undefined {
  if (!isSealed(content)) return undefined
  const sealed = parseJson(Buffer.from(content.slice(prefix.length), 'base64url').toString('utf8'))
  if (!Array.isArray(sealed)) return undefined
  const details: ReasoningDetail[] = []
  for (const one of sealed) {
    const { data: detail } = sealedDetail.safeParse(one)
    if (detail === undefined) return undefined
    details.push(detail)
  }
  return details
}
