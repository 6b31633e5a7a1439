// JSON.parse in steps. The native parser does the work, on runs of members of about 64 kB; only the containers that are
// larger than that are walked through here.

import { noNames, type OpaqueNames, parseExact, parseOpaque } from './exact.ts'
import { type Steps, stepCharacters } from './steps.ts'

/**
 * What JSON.parse makes of the text, and a SyntaxError where that throws one. The nesting of the text must be bounded
 * before (`shapeFault`): each level of a large container costs another look at its beginning. Long integers are exact
 * inside of the `opaque` objects, as in `parseOpaque`.
 */
export function* parseSteps(text: string, opaque: OpaqueNames = noNames): Steps<unknown> {
  if (text.length <= stepCharacters) return parseOpaque(text, opaque)
  return yield* new Parser(text, opaque).run()
}

type Container = unknown[] | Record<string, unknown>

/** A container that is read in several runs. */
interface Open {
  readonly container: Container
  /** There was a comma, so another member must follow. */
  afterComma: boolean
  /** What the parent calls it; unused in arrays. */
  readonly key: string
  /** Whether it is, or is in, an opaque object. */
  readonly isOpaque: boolean
}

const quote = 0x22
const comma = 0x2c
const colon = 0x3a
const backslash = 0x5c
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

class Parser {
  readonly #text: string
  readonly #opaque: OpaqueNames
  readonly #open: Open[] = []
  #at = 0
  /** The next quote at or behind the position it was looked for from. */
  #nextQuote = -1
  #root: unknown

  constructor(text: string, opaque: OpaqueNames) {
    this.#text = text
    this.#opaque = opaque
  }

  *run(): Steps<unknown> {
    this.#at = this.#behindBlanks(0)
    yield* this.#value('')
    while (this.#open.length > 0) {
      yield
      yield* this.#members(this.#open.at(-1)!)
    }
    if (this.#behindBlanks(this.#at) < this.#text.length) throw this.#unexpected()
    return this.#root
  }

  /** The next members of a container: as many as fit into one run, or one that does not. */
  *#members(open: Open): Steps<void> {
    const { container } = open
    const isArray = Array.isArray(container)
    const run = runFrom(this.#text, this.#at)
    if (run.kind === 'large') {
      let key = ''
      this.#at = this.#behindBlanks(this.#at)
      // Nothing but blanks, and more of them than a run is long.
      if (!open.afterComma && this.#codeHere() === closing(container)) return this.#behindMember(open)
      if (!isArray) {
        if (this.#codeHere() !== quote) throw this.#unexpected()
        key = yield* this.#string()
        this.#at = this.#behindBlanks(this.#at)
        if (this.#codeHere() !== colon) throw this.#unexpected()
        this.#at = this.#behindBlanks(this.#at + 1)
      }
      open.afterComma = false
      yield* this.#value(key)
      return
    }
    const members = this.#text.slice(this.#at, run.end)
    const whole = isArray ? `[${members}]` : `{${members}}`
    const read = (open.isOpaque ? parseExact(whole) : parseOpaque(whole, this.#opaque)) as Container
    const count = addTo(container, read)
    if (count === 0 && (open.afterComma || run.kind === 'more')) throw this.#unexpected()
    this.#at = run.end
    this.#behindMember(open)
  }

  /** What follows a member: a comma, or the end of its container. */
  #behindMember(open: Open): void {
    this.#at = this.#behindBlanks(this.#at)
    const code = this.#codeHere()
    open.afterComma = code === comma
    this.#at++
    if (code === comma) return
    if (code !== closing(open.container)) throw this.#unexpected()
    this.#open.pop()
    this.#add(open.container, open.key)
  }

  /** A value that is too large for a run: its beginning, where it is a container. */
  *#value(key: string): Steps<void> {
    switch (this.#codeHere()) {
      case openBracket:
        return this.#begin([], key, false)
      case openBrace:
        return this.#begin({}, key, this.#opaque.objects.has(key))
      case quote:
        return this.#add(yield* this.#string(), key)
      default: {
        scalar.lastIndex = this.#at
        const [word] = scalar.exec(this.#text) ?? ['']
        this.#at += word.length
        this.#add(JSON.parse(word), key)
      }
    }
  }

  #begin(container: Container, key: string, isOpaque: boolean): void {
    const inside = this.#open.at(-1)?.isOpaque === true
    this.#open.push({ container, afterComma: false, key, isOpaque: isOpaque || inside })
    this.#at++
  }

  /** Gives a finished value to the container it is in. */
  #add(value: unknown, key: string): void {
    const parent = this.#open.at(-1)
    if (parent === undefined) {
      this.#root = value
      return
    }
    if (Array.isArray(parent.container)) parent.container.push(value)
    else define(parent.container, key, value)
    this.#behindMember(parent)
  }

  /** The string that begins here, piece by piece. */
  *#string(): Steps<string> {
    const text = this.#text
    const begin = this.#at + 1
    const pieces: string[] = []
    let plain = true
    for (let from = begin; ;) {
      const end = this.#closingQuote(from, from + stepCharacters)
      const to = end ?? behindEscape(text, from, from + stepCharacters)
      if (to >= text.length) throw new SyntaxError('Unterminated string')
      const piece = JSON.parse(`"${text.slice(from, to)}"`) as string
      // An escape is longer than the character it encodes.
      plain &&= piece.length === to - from
      pieces.push(piece)
      from = to
      yield
      if (end === undefined) continue
      this.#at = end + 1
      return plain ? text.slice(begin, end) : pieces.join('')
    }
  }

  /** The quote that ends a string, if it stands before `limit`. `from` is inside of the string and of no escape. */
  #closingQuote(from: number, limit: number): number | undefined {
    let at = this.#quoteFrom(from)
    while (at < limit) {
      let slashes = 0
      while (at - 1 - slashes >= from && this.#text.charCodeAt(at - 1 - slashes) === backslash) slashes++
      if (slashes % 2 === 0) return at
      at = this.#quoteFrom(at + 1)
    }
    return undefined
  }

  #quoteFrom(from: number): number {
    if (this.#nextQuote < from) {
      const at = this.#text.indexOf('"', from)
      this.#nextQuote = at < 0 ? Number.POSITIVE_INFINITY : at
    }
    return this.#nextQuote
  }

  #behindBlanks(from: number): number {
    blanks.lastIndex = from
    blanks.test(this.#text)
    return blanks.lastIndex
  }

  #codeHere(): number {
    return this.#text.charCodeAt(this.#at)
  }

  #unexpected(): SyntaxError {
    return new SyntaxError(
      this.#at < this.#text.length ? `Unexpected character at ${this.#at}` : 'Unexpected end of JSON',
    )
  }
}

function closing(container: Container): number {
  return Array.isArray(container) ? closeBracket : closeBrace
}

const blanks = /[ \t\r\n]*/y
const scalar = /[^,\]} \t\r\n]*/y

interface Run {
  /** The container ends behind these members, or has more, or its next member alone is too large. */
  readonly kind: 'last' | 'more' | 'large'
  readonly end: number
}

const large: Run = { kind: 'large', end: -1 }

/** How many members from here on are few enough characters. Whether they are JSON is for the parser to say. */
function runFrom(text: string, start: number): Run {
  const limit = start + stepCharacters
  let depth = 0
  let lastComma = -1
  for (let at = start; at < limit; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = stringEndBefore(text, at + 1, limit)
        break
      case openBracket:
      case openBrace:
        depth++
        break
      case closeBracket:
      case closeBrace:
        if (--depth < 0) return { kind: 'last', end: at }
        break
      case comma:
        if (depth === 0) lastComma = at
        break
    }
  }
  return lastComma < 0 ? large : { kind: 'more', end: lastComma }
}

/** Where a string ends that begins before `start`; `limit` where it does not end before that. */
function stringEndBefore(text: string, start: number, limit: number): number {
  for (let at = start; at < limit; at++) {
    const code = text.charCodeAt(at)
    if (code === quote) return at
    if (code === backslash) at++
  }
  return limit
}

/** `to`, or the end of an escape that it would cut. `from` is inside of a string and of no escape. */
function behindEscape(text: string, from: number, to: number): number {
  const last = text.lastIndexOf('\\', to - 1)
  if (last < from || last < to - 5) return to
  let slashes = 1
  while (last - slashes >= from && text.charCodeAt(last - slashes) === backslash) slashes++
  if (slashes % 2 === 0) return to
  return Math.max(to, last + (text[last + 1] === 'u' ? 6 : 2))
}

/** Adds the members of one container to another of its kind. Gives how many they are. */
function addTo(container: Container, members: Container): number {
  if (Array.isArray(container)) {
    const items = members as unknown[]
    for (const item of items) container.push(item)
    return items.length
  }
  const fields = members as Record<string, unknown>
  const keys = Object.keys(fields)
  for (const key of keys) define(container, key, fields[key])
  return keys.length
}

/** As JSON.parse does it: a key `__proto__` is a key like any other. */
export function define(target: Record<string, unknown>, key: string, value: unknown): void {
  if (key !== '__proto__') target[key] = value
  else Object.defineProperty(target, key, { value, configurable: true, enumerable: true, writable: true })
}
