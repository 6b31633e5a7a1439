// Ids for function calls that Gemini did not give one: stable for an answer, different between answers.

import { createHash } from 'node:crypto'
import type { JsonObject, ReasoningDetail } from '../../conversation/request.ts'
import { isObject, parseJson } from '../lenient.ts'

const prefix = 'weir_'

/** The id of the `call`th call of a choice. `answer`: the provider's id of the answer, or a random one. */
export function mintCallId(answer: string, choice: number, call: number): string {
  const digest = createHash('sha256').update(`${answer}\n${choice}\n${call}`).digest('hex')
  return prefix + digest.slice(0, 24)
}

/** Whether we generated the id, so that Gemini does not know it. */
export function isMinted(id: string): boolean {
  return /^weir_[0-9a-f]{24}$/.test(id)
}

/** Google's finish reasons of an answer that one of its filters has stopped. */
export const filterReasons = [
  'SAFETY',
  'RECITATION',
  'LANGUAGE',
  'BLOCKLIST',
  'PROHIBITED_CONTENT',
  'SPII',
  'MODEL_ARMOR',
  'JAILBREAK',
  'IMAGE_SAFETY',
  'IMAGE_PROHIBITED_CONTENT',
  'IMAGE_RECITATION',
] as const

/** Whether a provider's word for the end of an answer is one of these. */
export function isFilterReason(native: string): native is (typeof filterReasons)[number] {
  return (filterReasons as readonly string[]).includes(native)
}

// How thought signatures and the parts only Gemini understands travel through a conversation and back.
//
// A signature belongs to one part and must come back on that part. A function call keeps its own
// (`ToolCall.thoughtSignature`), and a thought keeps it in its `reasoning.text` detail. Every other carrier becomes
// a `reasoning.encrypted` detail whose `data` is opaque. The `id` of the detail says where the part stood:
//
//   gemini:text:<start>:<end>:<calls>      data is the signature of the text from start to end (UTF-16 code units
//                                          of the answer's whole text; equal for an empty text part)
//   gemini:image<n>:<start>:<end>:<calls>  data is the signature of the answer's image number n
//   gemini:thought:<start>:<end>:<calls>   on a `reasoning.text` detail, whose `signature` it is
//   gemini:part:<start>:<end>:<calls>      data is a whole part as JSON: code that Google ran and its result, calls
//                                          of Google's own tools and their results, each with its signature
//
// <calls> counts the function calls that came before the part.

export const signatureFormat = 'google-gemini-v1'

/** Google's documented placeholder for a lost signature, which its validator accepts. */
export const skippedSignature = 'skip_thought_signature_validator'

/** Parts that clients need not understand: they are returned to Google unchanged. */
export const opaqueParts = ['executableCode', 'codeExecutionResult', 'toolCall', 'toolResponse'] as const

interface Place {
  /** Where in the answer's text the part stood. */
  readonly start: number
  readonly end: number
  /** How many function calls came before it. */
  readonly calls: number
}

export type Carried =
  | (Place & { readonly kind: 'text'; readonly signature: string })
  | (Place & { readonly kind: 'image'; readonly image: number; readonly signature: string })
  | (Place & { readonly kind: 'part'; readonly part: JsonObject })

/** The id of a signed thought's detail. */
export function thoughtId(place: Place): string {
  return `gemini:thought:${place.start}:${place.end}:${place.calls}`
}

/** The detail that carries this part or signature. */
export function carry(index: number, carried: Carried): ReasoningDetail {
  const carrier = carried.kind === 'image' ? `image${carried.image}` : carried.kind
  return {
    type: 'reasoning.encrypted',
    format: signatureFormat,
    index,
    id: `gemini:${carrier}:${carried.start}:${carried.end}:${carried.calls}`,
    data: carried.kind === 'part' ? JSON.stringify(carried.part) : carried.signature,
  }
}

/** What a detail from a client carries; undefined for any other detail. */
export function carriedBy(detail: ReasoningDetail): Carried | undefined {
  const match = /^gemini:(thought|text|part|image(\d{1,6})):(\d{1,12}):(\d{1,12}):(\d{1,6})$/.exec(
    detail.id ?? '',
  )
  if (detail.type === 'reasoning.text') return carriedThought(detail, match)
  if (match === null || detail.type !== 'reasoning.encrypted' || !detail.data) return undefined
  const place = placeIn(match)
  if (match[2] !== undefined) {
    return { ...place, kind: 'image', image: Number(match[2]), signature: detail.data }
  }
  if (match[1] === 'text') return { ...place, kind: 'text', signature: detail.data }
  const part = opaquePart(detail.data)
  return part === undefined ? undefined : { ...place, kind: 'part', part }
}

/** A signed thought is returned whole. From elsewhere it may lack a position: then it goes first. */
function carriedThought(detail: ReasoningDetail, match: RegExpExecArray | null): Carried | undefined {
  if (!detail.signature) return undefined
  const place = match === null ? { start: 0, end: 0, calls: 0 } : placeIn(match)
  return {
    ...place,
    kind: 'part',
    part: { text: detail.text ?? '', thought: true, thoughtSignature: detail.signature },
  }
}

function placeIn(match: RegExpExecArray): Place {
  return { start: Number(match[3]), end: Number(match[4]), calls: Number(match[5]) }
}

/** Only kinds of parts that occur in answers: a client may not add others this way. */
function opaquePart(data: string): JsonObject | undefined {
  const part = parseJson(data)
  if (!isObject(part)) return undefined
  const kept = [...opaqueParts, 'thoughtSignature'].filter((key) => Object.hasOwn(part, key))
  if (!kept.some((key) => key !== 'thoughtSignature')) return undefined
  return Object.fromEntries(kept.map((key) => [key, part[key] ?? null]))
}

/** The signatures of calls, by call id, in details that name the call, as OpenRouter writes them; of two the first. */
export function signaturesOfCalls(details: readonly ReasoningDetail[]): ReadonlyMap<string, string> {
  const signatures = new Map<string, string>()
  for (const { format, type, id, data } of details) {
    if (format !== signatureFormat || type !== 'reasoning.encrypted') continue
    if (id != null && data !== undefined && !signatures.has(id)) signatures.set(id, data)
  }
  return signatures
}
