// Integers beyond 2^53, kept as they are written: JSON.parse makes 1234567890123456800 of 1234567890123456789.
// They become objects of JSON.rawJSON, which JSON.stringify writes back, and `typeof` does not call numbers. So they
// may only be where the gateway reads nothing.

/** Names of members whose objects the gateway passes on without reading them. */
export type OpaqueNames = ReadonlySet<string>

export const noNames: OpaqueNames = new Set()

/** As JSON.parse, but every long integer inside of an object or array is exact. */
export function parseExact(text: string): unknown {
  return hasLongInteger(text) ? plainIfRaw(parseRaw(text)) : JSON.parse(text)
}

/** As JSON.parse, but long integers are exact inside of objects with one of these names, and numbers elsewhere. */
export function parseOpaque(text: string, names: OpaqueNames): unknown {
  return names.size > 0 && hasLongInteger(text) ? plainOutside(parseRaw(text), names) : JSON.parse(text)
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

interface RawInteger {
  readonly rawJSON: string
}

/** Only a text with this is parsed with a reviver, which takes five times as long. Fractions do not count. */
function hasLongInteger(text: string): boolean {
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

function isOpaque(name: string, member: unknown, names: OpaqueNames): boolean {
  return (
    names.has(name) &&
    typeof member === 'object' &&
    member !== null &&
    !Array.isArray(member) &&
    !isRaw(member)
  )
}

function plainIfRaw(value: unknown): unknown {
  return isRaw(value) ? Number(value.rawJSON) : value
}
