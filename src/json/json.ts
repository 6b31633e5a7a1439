// JSON: large texts are read and written in steps, with pauses in which the caller can run other work; long integers
// stay exact; a shape that is not safe to parse is found before.

/** Work that pauses after no more than about a millisecond each time, and gives its result at the end. */
export type Steps<Result> = Generator<void, Result, void>

// ---- how much is too much --------------------------------------------------------------------------------

/** Characters that are handled between two pauses. */
export const stepCharacters = 65_536
/** How long the native parser or writer may take at once, milliseconds: a stream does not notice so short a pause. */
const atOnceMs = 2
/** Whatever the machine is: dense JSON takes ten times as long as prose. */
const mostAtOnce = 1_048_576

let measured: number | undefined

/** How many characters of usual JSON this machine parses or writes in about two milliseconds. Measured once. */
export function charactersAtOnce(): number {
  return (measured ??= measureAtOnce())
}

function measureAtOnce(): number {
  const item = {
    role: 'user',
    content: 'It runs "where" it always ran:\n- downhill, and so to the sea.',
    at: 7,
  }
  const sample = JSON.stringify(Array.from({ length: 400 }, () => item))
  let quickest = Number.POSITIVE_INFINITY
  for (let round = 0; round < 4; round++) {
    const begun = performance.now()
    JSON.stringify(JSON.parse(sample))
    quickest = Math.min(quickest, (performance.now() - begun) / 2)
  }
  const characters = Math.round((sample.length * atOnceMs) / Math.max(quickest, 0.001))
  return Math.min(mostAtOnce, Math.max(stepCharacters, characters))
}
/** How deep a value may nest that is written: deeper than any that has come in. */
const maxWrittenDepth = 512
/** Integers that a double may not hold exactly; longer than a step, the writer would not know them. */
const longInteger = /^-?\d{16,999}$/

const quote = 0x22
const backslash = 0x5c
const comma = 0x2c
const colon = 0x3a
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

// ---- steps -----------------------------------------------------------------------------------------------

/** Work that is done, or the steps of what is too much to do at once. */
export type DoneOrSteps<Result> = Result | Steps<Result>

export function isSteps<Result>(work: DoneOrSteps<Result>): work is Steps<Result> {
  return typeof work === 'object' && work !== null && 'next' in work
}

/** Does all of the work at once. */
export function atOnce<Result>(work: DoneOrSteps<Result>): Result {
  if (!isSteps(work)) return work
  const steps = work
  for (;;) {
    const { done, value } = steps.next()
    if (done) return value
  }
}

// Integers beyond 2^53, kept as they are written: JSON.parse makes 1234567890123456800 of 1234567890123456789.
// They become objects of JSON.rawJSON, which JSON.stringify writes back, and `typeof` does not call numbers. So they
// may only be where the gateway reads nothing.

/** Names of members that the gateway passes on without reading them. */
export interface OpaqueNames {
  /** Exact in everything inside of them. Other values of these names are read. */
  readonly objects: ReadonlySet<string>
  /** Exact themselves. */
  readonly integers: ReadonlySet<string>
}

export const noNames: OpaqueNames = { objects: new Set(), integers: new Set() }

/** As JSON.parse, but every long integer inside of an object or array is exact. */
export function parseExact(text: string): unknown {
  return hasLongInteger(text) ? plainIfRaw(parseRaw(text)) : JSON.parse(text)
}

/** As JSON.parse, but long integers are exact in members with one of these names, and numbers elsewhere. */
export function parseOpaque(text: string, names: OpaqueNames): unknown {
  return names !== noNames && hasLongInteger(text) ? plainOutside(parseRaw(text), names) : JSON.parse(text)
}

/** Whether a value is such an integer, and so no object to look into. */
export function isRaw(value: unknown): value is RawInteger {
  return json.isRawJSON(value)
}

/** The type checker's library does not know these two yet, nor the third argument of a reviver. */
const json = JSON as unknown as {
  rawJSON(text: string): RawInteger
  isRawJSON(value: unknown): boolean
}

// As an interface it would not count as JSON to the type checker.
export type RawInteger = { readonly rawJSON: string }

/** The number that is meant, rounded where it is beyond 2^53; undefined for what is no number. */
export function numberOf(value: unknown): number | undefined {
  if (isRaw(value)) return Number(value.rawJSON)
  return typeof value === 'number' ? value : undefined
}

/** Only a text with this is parsed with a reviver, which takes five times as long. Fractions do not count. */
export function hasLongInteger(text: string): boolean {
  return /[:[,\s-]\d{16}/.test(text)
}

function parseRaw(text: string): unknown {
  const reviver = (_: string, value: unknown, context?: { readonly source?: string }) => {
    if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
    const source = context?.source ?? ''
    return longInteger.test(source) ? json.rawJSON(source) : value
  }
  return JSON.parse(text, reviver)
}

/** Makes numbers of the raw integers outside of the opaque members. Modifies `value`. */
function plainOutside(value: unknown, names: OpaqueNames): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (isRaw(value)) return plainIfRaw(value)
  const members = value as Record<string, unknown>
  for (const name of Object.keys(members)) {
    const member = members[name]
    if (!Array.isArray(value) && isOpaque(name, member, names)) continue
    const plain = plainOutside(member, names)
    if (plain !== member) members[name] = plain
  }
  return value
}

function isOpaque(name: string, member: unknown, { objects, integers }: OpaqueNames): boolean {
  if (typeof member !== 'object' || member === null) return false
  return isRaw(member) ? integers.has(name) : !Array.isArray(member) && objects.has(name)
}

function plainIfRaw(value: unknown): unknown {
  return isRaw(value) ? Number(value.rawJSON) : value
}

// Bytes to text in steps.

/** Decodes UTF-8 without a byte order mark. Invalid bytes throw TypeError if `fatal`, otherwise they become U+FFFD. */
export function* decodeSteps(chunks: readonly Uint8Array[], { fatal = false } = {}): Steps<string> {
  const decoder = new TextDecoder('utf-8', { fatal })
  const pieces: string[] = []
  for (const bytes of chunks) {
    for (let at = 0; at < bytes.length; at += stepCharacters) {
      pieces.push(decoder.decode(bytes.subarray(at, at + stepCharacters), { stream: true }))
      yield
    }
  }
  pieces.push(decoder.decode())
  return pieces.join('')
}

/** Where the JSON string that begins at `start` ends: at the first unescaped quote; -1 without one. */
export function stringEnd(text: string, start: number): number {
  return plainStringEnd(text, start) ?? atOnce(stringEndSteps(text, start))
}

/** The same if the first quote ends it or there is none; undefined if that cannot be decided at once. */
function plainStringEnd(text: string, start: number): number | undefined {
  const at = text.indexOf('"', start)
  return at >= 0 && text.charCodeAt(at - 1) === backslash ? undefined : at
}

/** Whether an odd number of backslashes stands before `at`, none of them before `from`. */
export function isEscaped(text: string, at: number, from = 0): boolean {
  let before = at
  while (before > from && text.charCodeAt(before - 1) === backslash) before--
  return (at - before) % 2 === 1
}

/** As `stringEnd`, in steps: a string of megabytes may hold nothing but escaped quotes. */
function* stringEndSteps(text: string, start: number): Steps<number> {
  for (
    let at = text.indexOf('"', start), pause = at + stepCharacters;
    at !== -1;
    at = text.indexOf('"', at + 1)
  ) {
    if (!isEscaped(text, at)) return at
    if (at < pause) continue
    pause = at + stepCharacters
    yield
  }
  return -1
}

// JSON.parse in steps. The native parser does the work, on runs of members of about 64 kB; only the containers that are
// larger than that are walked through here.

/**
 * What JSON.parse makes of the text, and a SyntaxError where that throws one; in steps if it is longer than `most`
 * characters. The nesting of the text must be bounded
 * before (`shapeFault`): each level of a large container costs another look at its beginning. Long integers are exact
 * inside of the `opaque` objects, as in `parseOpaque`.
 */
export function* parseSteps(
  text: string,
  opaque: OpaqueNames = noNames,
  most = charactersAtOnce(),
): Steps<unknown> {
  if (text.length <= most) return parseOpaque(text, opaque)
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
    if (this.#behindBlanks(this.#at) < this.#text.length) throw this.#syntaxError()
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
        if (this.#codeHere() !== quote) throw this.#syntaxError()
        key = yield* this.#string()
        this.#at = this.#behindBlanks(this.#at)
        if (this.#codeHere() !== colon) throw this.#syntaxError()
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
    if (count === 0 && (open.afterComma || run.kind === 'more')) throw this.#syntaxError()
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
    if (code !== closing(open.container)) throw this.#syntaxError()
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
      if (!isEscaped(this.#text, at, from)) return at
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

  #syntaxError(): SyntaxError {
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
  if (isEscaped(text, last, from)) return to
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

// JSON.stringify in steps. The native writer does the work, on runs of members of about 64 kB.

/**
 * The text that JSON.stringify would write of a JSON value: one piece, or several if it is longer than `most`
 * characters. A member that is undefined is left out, an item
 * null, as there. Throws RangeError for what nests without end.
 */
export function* stringifySteps(value: unknown, most = charactersAtOnce()): Steps<string[]> {
  if (!isLong(value, most)) return [JSON.stringify(value)]
  const pieces: string[] = []
  yield* write(value, pieces, 0)
  return pieces
}

/** The whole text of what is known to be long. To join the pieces of megabytes is one step more. */
export function* textSteps(value: unknown): Steps<string> {
  const pieces = yield* stringifySteps(value, 0)
  if (pieces.length === 1) return pieces[0]!
  yield
  return pieces.join('')
}

function* write(value: unknown, pieces: string[], level: number): Steps<void> {
  if (level > maxWrittenDepth) throw new RangeError('The value nests too deep to be written.')
  if (roomAfter(value, stepCharacters) >= 0) pieces.push(JSON.stringify(value))
  else if (typeof value === 'string') yield* writeString(value, pieces)
  else if (Array.isArray(value)) yield* writeItems(value, pieces, level)
  else yield* writeMembers(value as Readonly<Record<string, unknown>>, pieces, level)
}

function* writeItems(items: readonly unknown[], pieces: string[], level: number): Steps<void> {
  let separator = ''
  let from = 0
  let room = stepCharacters
  const flush = (to: number) => {
    if (from < to) {
      pieces.push(separator, inside(JSON.stringify(items.slice(from, to))))
      separator = ','
    }
    from = to
    room = stepCharacters
  }
  pieces.push('[')
  for (let at = 0; at < items.length; at++) {
    const left = roomAfter(items[at], room)
    if (left >= 0) {
      room = left
      continue
    }
    flush(at)
    yield
    room = roomAfter(items[at], stepCharacters)
    if (room >= 0) continue
    pieces.push(separator)
    separator = ','
    yield* write(items[at], pieces, level + 1)
    from = at + 1
    room = stepCharacters
  }
  flush(items.length)
  pieces.push(']')
}

function* writeMembers(
  object: Readonly<Record<string, unknown>>,
  pieces: string[],
  level: number,
): Steps<void> {
  let separator = ''
  let run: Record<string, unknown> = {}
  let room = stepCharacters
  const flush = () => {
    const text = inside(JSON.stringify(run))
    if (text !== '') {
      pieces.push(separator, text)
      separator = ','
    }
    run = {}
    room = stepCharacters
  }
  pieces.push('{')
  for (const key of Object.keys(object)) {
    const value = object[key]
    if (value === undefined) continue
    let left = roomAfter(value, room - key.length)
    if (left < 0) {
      flush()
      yield
      left = roomAfter(value, room - key.length)
    }
    if (left >= 0) {
      room = left
      define(run, key, value)
      continue
    }
    pieces.push(separator)
    separator = ','
    yield* write(key, pieces, level)
    pieces.push(':')
    yield* write(value, pieces, level + 1)
  }
  flush()
  pieces.push('}')
}

function* writeString(text: string, pieces: string[]): Steps<void> {
  pieces.push('"')
  for (let from = 0; from < text.length;) {
    let to = from + stepCharacters
    // The two halves of a character stay together: one alone would be written as an escape.
    if (isHighSurrogate(text.charCodeAt(to - 1))) to--
    pieces.push(inside(JSON.stringify(text.slice(from, to))))
    from = to
    yield
  }
  pieces.push('"')
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff
}

function inside(text: string): string {
  return text.slice(1, -1)
}

/** What is left of so many characters when a value has been written, about; less than nothing when it is too long. */
function roomAfter(value: unknown, room: number, level = 0): number {
  if (level > maxWrittenDepth) throw new RangeError('The value nests too deep to be written.')
  if (typeof value === 'string') return room - value.length - 2
  if (typeof value !== 'object' || value === null) return room - 8
  let left = room - 2
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length && left >= 0; at++) left = roomAfter(value[at], left - 1, level + 1)
    return left
  }
  for (const key in value) {
    if (left < 0) return left
    left = roomAfter((value as Readonly<Record<string, unknown>>)[key], left - key.length - 4, level + 1)
  }
  return left
}

/** Whether a JSON value, written, is so long that it is better written in steps. */
export function isLong(value: unknown, most = charactersAtOnce()): boolean {
  return roomAfter(value, most) < 0
}

/** The characters of all texts and keys in a JSON value: at most what `leastBytes` says, and at least a third of it. */
export function characters(value: unknown): number {
  if (typeof value === 'string') return value.length
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) for (const item of value) count += characters(item)
  else
    for (const key in value)
      count += key.length + characters((value as Readonly<Record<string, unknown>>)[key])
  return count
}

/**
 * The bytes that a JSON value measures when it is written, but for what escapes add and the punctuation; to tell takes
 * much less than to write it.
 */
export function leastBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return 0
  let bytes = 0
  if (Array.isArray(value)) for (const item of value) bytes += leastBytes(item)
  else
    for (const key in value)
      bytes += key.length + leastBytes((value as Readonly<Record<string, unknown>>)[key])
  return bytes
}
