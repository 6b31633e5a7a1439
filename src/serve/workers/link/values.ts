// Values in JSON between two processes of one gateway. Types that JSON lacks are strings that begin with `~`.

const mark = '~'
const markCode = mark.charCodeAt(0)

/**
 * A value for JSON: bigint, bytes and `undefined` are marked, strings that begin with the mark are escaped. Throws
 * TypeError for what cannot be restored: functions, class instances, numbers that are not finite.
 */
export function packValue(value: unknown): unknown {
  switch (typeof value) {
    case 'string':
      return value.charCodeAt(0) === markCode ? mark + value : value
    case 'bigint':
      return `${mark}n${value}`
    case 'undefined':
      return `${mark}u`
    case 'boolean':
      return value
    case 'number':
      if (!Number.isFinite(value)) throw new TypeError('a number that is not finite cannot be sent')
      return value
    case 'object':
      return value === null ? null : packedObject(value)
    default:
      throw new TypeError(`a ${typeof value} cannot be sent`)
  }
}

function packedObject(value: object): unknown {
  if (Array.isArray(value)) return value.map(packValue)
  if (value instanceof Uint8Array)
    return `${mark}b${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')}`
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null)
    throw new TypeError('an instance of a class cannot be sent')
  // Without a prototype, `__proto__` is an ordinary name.
  const copy: Record<string, unknown> = Object.create(null)
  for (const [name, each] of Object.entries(value)) copy[name] = packValue(each)
  return copy
}

/** The value that `packed` was given, from parsed JSON. Modifies `value`. */
export function unpackValue(value: unknown): unknown {
  if (typeof value === 'string') return value.charCodeAt(0) === markCode ? unmarkValue(value) : value
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = unpackValue(value[at])
    return value
  }
  const fields = value as Record<string, unknown>
  // JSON.parse makes own properties of all names, also of `__proto__`.
  for (const name of Object.keys(fields)) fields[name] = unpackValue(fields[name])
  return fields
}

function unmarkValue(text: string): unknown {
  switch (text[1]) {
    case mark:
      return text.slice(1)
    case 'n':
      return BigInt(text.slice(2))
    case 'b':
      return new Uint8Array(Buffer.from(text.slice(2), 'base64'))
    case 'u':
      return undefined
    default:
      throw new TypeError('a marked value of an unknown kind')
  }
}
