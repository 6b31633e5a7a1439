// The parts of an item, as they are in events.

import type { Annotation } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

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
