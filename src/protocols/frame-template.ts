// Most frames of a stream differ from the one before in their text and a few counters. What stands around those is
// learnt from a frame that was parsed; the frames like it are read by comparing that and taking out the rest.

import { parseJson, stringEnd } from './json.ts'

/** The members of a frame that may change from one to the next, by name. All but the text may be missing. */
export interface Changing {
  readonly text: string
  /** Whole numbers to read. */
  readonly numbers: readonly string[]
  /** Strings and whole numbers that mean nothing to us: padding that hides a text's length, the number of a frame. */
  readonly ignored: readonly string[]
}

/** What a frame holds of these members. */
export interface Reading {
  readonly text: string
  /** In the order of their names; undefined where the frame has none. */
  readonly numbers: readonly (number | undefined)[]
}

/** A value that may change, with all that stands between the one before it and itself. */
interface Place {
  readonly before: string
  readonly kind: 'text' | 'number' | 'ignored'
  /** Which of the numbers it is. */
  readonly number: number
}

const quote = 34
const backslash = 92
const space = 32
const zero = 48
/** A longer frame is hardly the like of the next one, and to compare it would gain nothing. */
const longestFrame = 16_384
/** So long a number is always exact. */
const mostDigits = 15

/** After so many frames in a row that were learnt from for nothing, no more are: to learn costs more than to parse. */
const patience = 8

/**
 * A frame whose named members may change, while all else is as it was: every field, their order, every space. It never
 * changes itself, so a parser's state can hold it.
 */
export class FrameTemplate {
  /** Like no frame: what a stream begins with. */
  static readonly none = new FrameTemplate([], '', 0)

  readonly #places: readonly Place[]
  readonly #after: string
  /** How many before it, one after the other, no frame was like. */
  readonly #vain: number

  private constructor(places: readonly Place[], after: string, vain: number) {
    this.#places = places
    this.#after = after
    this.#vain = vain
  }

  /**
   * The template for the frame after this one, which is JSON, was read in full, and held this text. It is like no frame
   * where a member is named twice or the text is another: exchanging it could mean something else.
   */
  learn(data: string, changing: Changing, text: string): FrameTemplate {
    const nothing = this.forget()
    if (nothing.#vain >= patience || data.length > longestFrame) return nothing
    const values = valuesOf(data, changing)
    if (values === undefined) return nothing
    const places = values.map(({ start, kind, number }, at) => ({
      before: copyOf(data.slice(values[at - 1]?.end ?? 0, start)),
      kind,
      number,
    }))
    const after = copyOf(data.slice(values.at(-1)?.end ?? 0).trimEnd())
    const template = new FrameTemplate(places, after, nothing.#vain)
    return template.read(data)?.text === text ? template : nothing
  }

  /** The template for the frame after one that is not to be learnt from. */
  forget(): FrameTemplate {
    return this.#places.length === 0 ? this : new FrameTemplate([], '', this.#vain + 1)
  }

  /** The template for the frame after one that was like this. */
  served(): FrameTemplate {
    return this.#vain === 0 ? this : new FrameTemplate(this.#places, this.#after, 0)
  }

  /** What a frame like the one learnt from holds; undefined for any other frame, which is for the parser. */
  read(data: string): Reading | undefined {
    let text: string | undefined
    const numbers: (number | undefined)[] = []
    let at = 0
    for (const { before, kind, number } of this.#places) {
      if (!data.startsWith(before, at)) return undefined
      const start = at + before.length
      at = endOf(data, start, kind)
      if (at < 0) return undefined
      if (kind === 'text') text = textOf(data.slice(start, at))
      else if (kind === 'number') numbers[number] = Number(data.slice(start, at))
    }
    if (text === undefined || !data.startsWith(this.#after, at)) return undefined
    return whiteEnd(data, at + this.#after.length) === data.length ? { text, numbers } : undefined
  }
}

interface Value {
  readonly start: number
  readonly end: number
  readonly kind: Place['kind']
  readonly number: number
}

/** The values that may change, as they stand; undefined where one of their names stands twice. */
function valuesOf(data: string, { text, numbers, ignored }: Changing): readonly Value[] | undefined {
  const named = [
    { name: text, kind: 'text', number: -1 } as const,
    ...numbers.map((name, number) => ({ name, kind: 'number', number }) as const),
    ...ignored.map((name) => ({ name, kind: 'ignored', number: -1 }) as const),
  ]
  const values: Value[] = []
  for (const { name, kind, number } of named) {
    const start = valueOf(data, name)
    if (start === twice) return undefined
    const end = start === absent ? -1 : endOf(data, start, kind)
    // A value of another type is one that must not change.
    if (end >= 0) values.push({ start, end, kind, number })
  }
  return values.toSorted((a, b) => a.start - b.start)
}

/** A slice keeps all that it was cut from in memory, which may be a whole read of the network; a copy does not. */
function copyOf(slice: string): string {
  return JSON.parse(JSON.stringify(slice)) as string
}

const absent = -1
const twice = -2

/** Where the value of the one member of this name begins; `absent` or `twice`. */
function valueOf(data: string, name: string): number {
  const mark = `"${name}":`
  const at = data.indexOf(mark)
  if (at < 0) return absent
  // A quote behind a backslash is inside a longer name.
  if (data.indexOf(mark, at + 1) >= 0 || data[at - 1] === '\\') return twice
  return whiteEnd(data, at + mark.length)
}

/** Where a value of this kind ends that begins here; -1 where there is none. */
function endOf(data: string, start: number, kind: Place['kind']): number {
  const isString = data.charCodeAt(start) === quote
  switch (kind) {
    case 'text':
      return isString ? textEnd(data, start) : -1
    case 'number':
      return numberEnd(data, start)
    case 'ignored':
      return isString ? plainStringEnd(data, start) : numberEnd(data, start)
    default:
      return kind satisfies never
  }
}

function textEnd(data: string, start: number): number {
  const close = stringEnd(data, start + 1)
  return close < 0 ? -1 : close + 1
}

/**
 * What a JSON string says; undefined where it is none, for a character that must not be in it. Parsed although most
 * would read the same as they stand: a slice would keep the whole frame in memory for as long as the text is kept.
 */
function textOf(json: string): string | undefined {
  const text = parseJson(json)
  return typeof text === 'string' ? text : undefined
}

/** Where a JSON string ends that begins here and in which every character stands for itself; -1 where there is none. */
function plainStringEnd(data: string, start: number): number {
  for (let at = start + 1; at < data.length; at++) {
    const code = data.charCodeAt(at)
    if (code === quote) return at + 1
    if (code === backslash || code < space) return -1
  }
  return -1
}

/** Where a whole number ends that is written as JSON does; -1 where there is none, or one too long to be exact. */
function numberEnd(data: string, start: number): number {
  let at = start
  while (isDigit(data.charCodeAt(at))) at++
  const digits = at - start
  const padded = digits > 1 && data.charCodeAt(start) === zero
  return digits === 0 || digits > mostDigits || padded ? -1 : at
}

function isDigit(code: number): boolean {
  return code >= zero && code < zero + 10
}

/** The first place that is not white space as JSON knows it. */
function whiteEnd(data: string, start: number): number {
  let at = start
  while (at < data.length && ' \t\r\n'.includes(data[at]!)) at++
  return at
}
