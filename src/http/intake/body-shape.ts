// What a body is made of, before it is parsed: a text that would block the process, or mean something else to another
// parser, is refused.

import { GatewayError } from '../../errors.ts'
import { type DoneOrSteps, type Steps, stepCharacters } from '../../json/steps.ts'

/** Limit of objects, arrays and keys: checking more would block other calls. */
export const maxParts = 100_000

/**
 * Checks the shape of a JSON text before it is parsed, and gives the number of colons outside of its strings. Throws
 * `invalid_request` for nesting deeper than `maxDepth`, too many parts, more than `maxCommas`, or a number beyond the
 * range of a double. Reads the text once, without recursion; whether it is valid JSON is left to the parser.
 */
export function colonsIn(
  text: string,
  maxDepth: number,
  maxCommas = Number.POSITIVE_INFINITY,
): DoneOrSteps<number> {
  const scan = new Scan(text, maxDepth, maxCommas)
  return scan.upTo(stepCharacters) ?? rest(scan)
}

function* rest(scan: Scan): Steps<number> {
  for (let end = 2 * stepCharacters; ; end += stepCharacters) {
    yield
    const colons = scan.upTo(end)
    if (colons !== undefined) return colons
  }
}

const quote = 0x22
const backslash = 0x5c
const anyBlanks = /[ \t\r\n]+/y

class Scan {
  readonly #text: string
  readonly #maxDepth: number
  readonly #maxCommas: number
  #at = 0
  #isInString = false
  #depth = 0
  #opened = 0
  #colons = 0
  #commas = 0
  #exponents = 0

  constructor(text: string, maxDepth: number, maxCommas: number) {
    this.#text = text
    this.#maxDepth = maxDepth
    this.#maxCommas = maxCommas
  }

  /** Reads on to about the character `end`. Gives the number of colons once it is known. */
  upTo(end: number): number | undefined {
    const text = this.#text
    const last = Math.min(end, text.length)
    let at = this.#at
    while (at < last) {
      if (this.#isInString) {
        const close = text.indexOf('"', at)
        if (close < 0) return this.#colons
        this.#isInString = isEscaped(text, close)
        at = close + 1
        continue
      }
      switch (text.charCodeAt(at++)) {
        case quote:
          this.#isInString = true
          break
        case 0x5b: // [
        case 0x7b: // {
          if (++this.#depth > this.#maxDepth)
            throw shapeError(`The body is nested deeper than ${this.#maxDepth} levels.`)
          if (++this.#opened + this.#colons > maxParts) throw tooManyParts()
          break
        case 0x5d: // ]
        case 0x7d: // }
          this.#depth--
          break
        case 0x3a: // :
          if (this.#opened + ++this.#colons > maxParts) throw tooManyParts()
          break
        case 0x2c: // ,
          if (++this.#commas > this.#maxCommas)
            throw shapeError(`The body has more than ${this.#maxCommas} values.`)
          break
        case 0x20:
        case 0x0a:
          // Skipping ten million blanks one by one would take as long as the rest of the body.
          anyBlanks.lastIndex = at
          if (anyBlanks.test(text)) at = anyBlanks.lastIndex
          break
        case 0x45: // E
        case 0x65: // e
          if (isInfinite(text, at - 1)) throw shapeError('The body holds a number that is too large.')
          // A value has at most one `e`, and follows a comma, colon or bracket: more of them cannot be JSON.
          if (++this.#exponents > this.#commas + this.#colons + this.#opened + 1) return this.#colons
          break
      }
    }
    this.#at = at
    return at < text.length ? undefined : this.#colons
  }
}

/** Whether the quote at `at` belongs to the string that it stands in. */
function isEscaped(text: string, at: number): boolean {
  let slashes = 0
  while (text.charCodeAt(at - 1 - slashes) === backslash) slashes++
  return slashes % 2 === 1
}

/** Whether the number whose exponent begins at `at` is too large for a double: JSON.parse would return Infinity. */
function isInfinite(text: string, at: number): boolean {
  const before = /[\d.]{1,40}$/.exec(text.slice(Math.max(0, at - 40), at))
  const after = /^[eE]\+?\d{1,40}/.exec(text.slice(at, at + 42))
  return before !== null && after !== null && !Number.isFinite(Number(before[0] + after[0]))
}

function tooManyParts(): GatewayError {
  return shapeError(`The body has more than ${maxParts} objects, arrays and keys.`)
}

function shapeError(message: string): GatewayError {
  return new GatewayError('invalid_request', { message })
}
