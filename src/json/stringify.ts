// JSON.stringify in steps. The native writer does the work, on runs of members of about 64 kB.

import { define } from './parse.ts'
import { type Steps, stepCharacters } from './steps.ts'

/**
 * The text that JSON.stringify would write of a JSON value, in pieces. A member that is undefined is left out, an item
 * null, as there. Throws RangeError for what nests without end.
 */
export function* stringifySteps(value: unknown): Steps<string[]> {
  const pieces: string[] = []
  yield* write(value, pieces, 0)
  return pieces
}

/** The whole text. To join the pieces of megabytes is one step more. */
export function* textSteps(value: unknown): Steps<string> {
  const pieces = yield* stringifySteps(value)
  if (pieces.length === 1) return pieces[0]!
  yield
  return pieces.join('')
}

/** No JSON that has come in nests as deep: its shape is bounded before it is parsed. */
const mostLevels = 512

function* write(value: unknown, pieces: string[], level: number): Steps<void> {
  if (level > mostLevels) throw new RangeError('The value nests too deep to be written.')
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
  if (level > mostLevels) throw new RangeError('The value nests too deep to be written.')
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
export function isLong(value: unknown): boolean {
  return roomAfter(value, stepCharacters) < 0
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
