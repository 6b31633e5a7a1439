// Reasoning items of the protocol, and the reasoning details that clients send back with the next turn.

import type { Annotation } from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail, ReasoningFormat } from '../../../conversation/request.ts'
import { isObject } from '../../lenient.ts'

/** A part of a reasoning item as a detail, without its index in the answer. */
export type DetailPart = Omit<ReasoningDetail, 'index'>

export function summaryPart(format: ReasoningFormat, id: string | undefined, summary: string): DetailPart {
  return { type: 'reasoning.summary', format, ...idField(id), summary }
}

export function textPart(format: ReasoningFormat, id: string | undefined, text: string): DetailPart {
  return { type: 'reasoning.text', format, ...idField(id), text }
}

export function encryptedPart(format: ReasoningFormat, id: string | undefined, data: string): DetailPart {
  return { type: 'reasoning.encrypted', format, ...idField(id), data }
}

function idField(id: string | undefined): { id?: string } {
  return id === undefined ? {} : { id }
}

/** An item rebuilt from details. */
export interface CarriedItem {
  readonly item: JsonObject
  /** The number of items before it in its answer that are not reasoning, as far as is known. */
  readonly before: number
  /** A compaction may end a turn; reasoning without the item it led to is refused. */
  readonly mayEndTurn: boolean
}

/**
 * The items of a turn, rebuilt from its details, in order, and whether none had to be left out. Left out are details
 * of another provider, and summaries alone, which are refused without the reasoning that they summarise.
 *
 * The index of a detail also counts messages and calls before it in its answer, so gaps between the indices show where
 * those were. If a client numbers the details anew, all reasoning comes first.
 */
export function carriedItems(
  details: readonly ReasoningDetail[],
  format: ReasoningFormat,
): { readonly items: readonly CarriedItem[]; readonly complete: boolean } {
  const items: CarriedItem[] = []
  let complete = true
  let group: ReasoningDetail[] = []
  let before = 0
  const close = () => {
    const item = group.length === 0 ? undefined : itemOf(group)
    if (item) items.push({ item, before, mayEndTurn: item.type === 'compaction' })
    else if (group.length > 0) complete = false
    group = []
  }
  for (const [position, detail] of details.entries()) {
    if (detail.format !== format) {
      close()
      complete = false
      continue
    }
    // xAI gives several items of one answer the same id; the encrypted part is the last of each.
    const last = group.at(-1)
    if (last && (last.id !== detail.id || last.type === 'reasoning.encrypted')) close()
    if (group.length === 0) before = Math.max(0, detail.index - position)
    group.push(detail)
  }
  close()
  return { items, complete }
}

/** The id says that an item is a compaction: a detail has no field for the type of its item. */
const compactionId = /^cmp_/

function itemOf(group: readonly ReasoningDetail[]): JsonObject | undefined {
  const id = group[0]?.id
  const encrypted = group.find((detail) => detail.type === 'reasoning.encrypted')?.data
  const named: JsonObject = id == null ? {} : { id }
  if (id != null && compactionId.test(id)) {
    return encrypted === undefined
      ? undefined
      : { type: 'compaction', ...named, encrypted_content: encrypted }
  }
  const summary = group
    .filter((detail) => detail.type === 'reasoning.summary')
    .map((detail): JsonObject => ({ type: 'summary_text', text: detail.summary ?? '' }))
  const content = group
    .filter((detail) => detail.type === 'reasoning.text')
    .map((detail): JsonObject => ({ type: 'reasoning_text', text: detail.text ?? '' }))
  if (encrypted === undefined && content.length === 0) return undefined
  return {
    type: 'reasoning',
    ...named,
    summary,
    ...(content.length === 0 ? {} : { content }),
    ...(encrypted === undefined ? {} : { encrypted_content: encrypted }),
  }
}

// The parts of an item, as they are in events.

/** The complete text in a `done` event, as a field or in a part. */
export function wholeTextOf(event: JsonObject): Json | undefined {
  return isObject(event.part) ? event.part.text : event.text
}

/** The part of its item that an event is about, by the given field. */
export function partIndex(event: JsonObject, field: string): number {
  const at = event[field]
  return typeof at === 'number' ? at : 0
}

/** The key of a part: its kind, the position of its item and its index in the item. */
export function keyOf(kind: string, position: number, at: number): string {
  return `${kind}/${position}/${at}`
}

/** The objects of a list; empty if it is not a list. */
export function objects(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** xAI's sources have no offsets in the text. */
export function urlCitation(raw: JsonObject, partStart: number): Annotation | undefined {
  if (raw.type !== 'url_citation' || typeof raw.url !== 'string') return undefined
  const placed = typeof raw.start_index === 'number' && typeof raw.end_index === 'number'
  return {
    kind: 'url-citation',
    url: raw.url,
    title: typeof raw.title === 'string' ? raw.title : '',
    start: placed ? partStart + (raw.start_index as number) : 0,
    end: placed ? partStart + (raw.end_index as number) : 0,
  }
}
