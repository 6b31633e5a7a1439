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

/** The writer in steps knows no raw integer that is longer than a step; nor does anybody use one. */
const longInteger = /^-?\d{16,999}$/

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
