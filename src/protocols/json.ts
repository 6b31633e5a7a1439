// Looking into JSON that somebody else wrote, of which nothing is certain.

import type { JsonObject } from '../conversation/request.ts'

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** A string that says something; undefined for anything else. */
export function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** The JSON in a text; undefined when it is none. */
export function parseJson(text: string): unknown {
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
