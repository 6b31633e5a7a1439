// Reads reasoning under its various names, as ordered pieces with one index each.

import type { JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { isObject, nonEmpty } from '../../json.ts'

/** The keys of the pieces so far; the position of a key is the index of its piece. */
export type ReasoningKeys = readonly string[]

/** The reasoning in a delta or message. Plain text beside a structured form with text repeats it: ignored. */
export function reasoningOf(
  delta: JsonObject,
  keys: ReasoningKeys,
): readonly [ReasoningKeys, readonly ReasoningDetail[]] {
  // Most chunks have none.
  if (delta.reasoning_details == null && delta.reasoning_content == null && delta.reasoning == null)
    return [keys, []]
  const details: ReasoningDetail[] = []
  let known = keys
  const add = (key: string, detail: Omit<ReasoningDetail, 'index'>) => {
    let index = known.indexOf(key)
    if (index < 0) {
      index = known.length
      known = [...known, key]
    }
    details.push({ ...detail, index })
  }

  const structured = Array.isArray(delta.reasoning_details) ? delta.reasoning_details.filter(isObject) : []
  for (const raw of structured) {
    const detail = structuredDetail(raw)
    if (detail) add(keyOf(raw, known.length), detail)
  }
  const worded = details.some((detail) => detail.text !== undefined || detail.summary !== undefined)
  const plain = plainReasoning(delta)
  if (!worded && plain !== '') add('plain', plainDetail(plain))
  return [known, details]
}

/** Plain-text reasoning, under its index in this choice. */
export function plainReasoningDetail(
  text: string,
  keys: ReasoningKeys,
): readonly [ReasoningKeys, readonly ReasoningDetail[]] {
  return reasoningOf({ reasoning: text }, keys)
}

/** The text of a reasoning part: Mistral's `thinking`, Databricks' `reasoning`. */
export function reasoningPartText(part: JsonObject): string {
  const pieces = part.type === 'thinking' ? part.thinking : part.summary
  if (typeof pieces === 'string') return pieces
  if (!Array.isArray(pieces)) return ''
  return pieces
    .map((piece) => (isObject(piece) ? piece.text : piece))
    .filter((text) => typeof text === 'string')
    .join('')
}

/**
 * What belongs together: the same kind of piece under the provider's index. Providers number every piece of a
 * stream 0, a summary and its encrypted form alike; joined they would be neither. An encrypted piece is whole,
 * so only another part of the same id continues it.
 */
function keyOf(raw: JsonObject, fresh: number): string {
  if (raw.type !== 'reasoning.encrypted')
    return `${raw.type}/${typeof raw.index === 'number' ? raw.index : 0}`
  return typeof raw.id === 'string' ? `encrypted/${raw.id}` : `encrypted#${fresh}`
}

function structuredDetail(raw: JsonObject): Omit<ReasoningDetail, 'index'> | undefined {
  const common = {
    format: typeof raw.format === 'string' ? raw.format : null,
    ...(typeof raw.id === 'string' ? { id: raw.id } : {}),
  }
  switch (raw.type) {
    case 'reasoning.text': {
      const signature = nonEmpty(raw.signature)
      if (typeof raw.text !== 'string' && signature === undefined) return undefined
      return {
        type: 'reasoning.text',
        ...common,
        ...(typeof raw.text === 'string' ? { text: raw.text } : {}),
        ...(signature === undefined ? {} : { signature }),
      }
    }
    case 'reasoning.summary':
      return typeof raw.summary === 'string' ? { type: raw.type, ...common, summary: raw.summary } : undefined
    case 'reasoning.encrypted':
      return typeof raw.data === 'string' ? { type: raw.type, ...common, data: raw.data } : undefined
    default:
      return undefined
  }
}

function plainDetail(text: string): Omit<ReasoningDetail, 'index'> {
  return { type: 'reasoning.text', format: null, text }
}

/** Some servers send both names with the same text. */
function plainReasoning(delta: JsonObject): string {
  return nonEmpty(delta.reasoning_content) ?? nonEmpty(delta.reasoning) ?? ''
}
