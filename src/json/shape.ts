// What a JSON text is made of, before it is parsed.

import { atOnce, type Steps, stepCharacters } from './steps.ts'

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
  return text.length <= harmlessLength ? undefined : atOnce(shapeFaultSteps(text, mostElements))
}

/** As `shapeFault`, in steps. */
export function* shapeFaultSteps(text: string, mostElements = maxElements): Steps<string | undefined> {
  let depth = 0
  let elements = 0
  for (let at = 0, pause = stepCharacters; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = plainStringEnd(text, at + 1) ?? (yield* stringEndSteps(text, at + 1))
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
    if (at >= pause) {
      pause = at + stepCharacters
      yield
    }
  }
  return undefined
}

const backslash = 0x5c

/** Where the JSON string that begins at `start` ends: at the first unescaped quote; -1 without one. */
export function stringEnd(text: string, start: number): number {
  return plainStringEnd(text, start) ?? atOnce(stringEndSteps(text, start))
}

/** The same if the first quote ends it or there is none; undefined if that cannot be decided at once. */
export function plainStringEnd(text: string, start: number): number | undefined {
  const at = text.indexOf('"', start)
  return at >= 0 && text.charCodeAt(at - 1) === backslash ? undefined : at
}

/** As `stringEnd`, in steps: a string of megabytes may hold nothing but escaped quotes. */
export function* stringEndSteps(text: string, start: number): Steps<number> {
  for (
    let at = text.indexOf('"', start), pause = at + stepCharacters;
    at !== -1;
    at = text.indexOf('"', at + 1)
  ) {
    let slashes = 0
    while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
    if (slashes % 2 === 0) return at
    if (at < pause) continue
    pause = at + stepCharacters
    yield
  }
  return -1
}
