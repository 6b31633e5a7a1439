// The parts of an item as events name and hold them.

import type { Annotation } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

/** The complete text in the event that ends it, either alone or as a part. */
export function wholeTextOf(event: JsonObject): Json | undefined {
  return isObject(event.part) ? event.part.text : event.text
}

/** Which part of its item an event is about, by the field that says so. */
export function partIndex(event: JsonObject, field: string): number {
  const at = event[field]
  return typeof at === 'number' ? at : 0
}

/** The key of a part: its kind, the position of its item, and its place there. */
export function keyOf(kind: string, position: number, at: number): string {
  return `${kind}/${position}/${at}`
}

/** The objects of a list; none where there is no list. */
export function objects(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** xAI names its sources without a place in the text: they stand at no place. */
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
