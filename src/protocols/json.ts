// Looking into JSON that somebody else wrote, of which nothing is certain.

import type { JsonObject } from '../conversation/request.ts'

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A string that says something; undefined for anything else. */
export function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** How deep JSON may nest: deeper, it can be parsed, but no answer can be written of it again. */
const maxDepth = 128
/** More objects, arrays, members and items than this would hold up every other call while they are read. */
const maxElements = 200_000
/** What a text this short can hold, in characters, does no harm. */
const harmlessLength = 4_096

/**
 * Why the JSON in a text must not be parsed: it nests too deep, or is made of more than `mostElements`. Reads the text
 * once, without recursion; whether it is JSON at all is not checked.
 */
export function shapeFault(text: string, mostElements = maxElements): string | undefined {
  if (text.length <= harmlessLength) return undefined
  let depth = 0
  let elements = 0
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = stringEnd(text, at + 1)
        if (at < 0) return undefined
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > maxDepth) return `nests deeper than ${maxDepth} levels`
        elements++
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x2c: // ,
        if (++elements > mostElements) return `holds more than ${mostElements} values`
        break
    }
  }
  return undefined
}

/** The JSON in a text; undefined when it is none, and when it must not be parsed for its shape. */
export function parseJson(text: string): unknown {
  if (shapeFault(text) !== undefined) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a text is JSON of any kind: arguments that the token limit cut off are not. */
export function isJson(text: string): boolean {
  return parseJson(text) !== undefined
}

const backslash = 92

/** Where a JSON string that begins at `start` ends: at the first quote that is not escaped; -1 where there is none. */
export function stringEnd(text: string, start: number): number {
  for (let at = text.indexOf('"', start); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
  }
  return -1
}

/** The object without the keys whose value is null or undefined: clients write null for "not set". */
export function present<T extends object>(fields: { [K in keyof T]: T[K] | null | undefined }): T {
  const kept: Partial<T> = {}
  for (const name in fields) if (fields[name] != null) kept[name] = fields[name]
  return kept as T
}
