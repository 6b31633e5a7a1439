// Reads a provider's JSON leniently: a known field of another type counts as absent, unknown fields are kept. An
// object without faults is returned itself, which is nearly every frame of a stream and many times cheaper than
// copying.

import type { JsonObject } from '../conversation/request.ts'
import { isObject } from './json.ts'

/** Returns the value as read; undefined if it is something else. */
export type Read<T> = (value: unknown) => T | undefined

export type ValueRead<R> = R extends Read<infer T> ? T : never

type Fields = Readonly<Record<string, Read<unknown>>>
type ReadObject<F extends Fields> = { readonly [Name in keyof F]?: ValueRead<F[Name]> | undefined } & {
  readonly [name: string]: unknown
}

export const text: Read<string> = (value) => (typeof value === 'string' ? value : undefined)
export const flag: Read<boolean> = (value) => (typeof value === 'boolean' ? value : undefined)
/** JSON can contain numbers beyond a double's range. */
export const number: Read<number> = (value) =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined
/** A whole number from 0 on. */
export const position: Read<number> = (value) =>
  Number.isSafeInteger(value) && (value as number) >= 0 ? (value as number) : undefined
export const anyObject: Read<JsonObject> = (value) => (isObject(value) ? value : undefined)
export const anything: Read<unknown> = (value) => value

export function object<F extends Fields>(fields: F): Read<ReadObject<F>> {
  // A value has few of the many known fields, so its own names are looked up rather than all known ones.
  const readers = Object.assign(Object.create(null), fields) as Readonly<
    Record<string, Read<unknown> | undefined>
  >
  return (value) => {
    if (!isObject(value)) return undefined
    let mended: Record<string, unknown> | undefined
    for (const name in value) {
      const read = readers[name]
      if (read === undefined) continue
      const member = value[name]
      const known = read(member)
      if (known === member) continue
      mended ??= { ...value }
      if (known === undefined) delete mended[name]
      else mended[name] = known
    }
    return (mended ?? value) as ReadObject<F>
  }
}

/** A list whose items can all be read. */
export function list<T>(read: Read<T>): Read<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) return undefined
    const items: readonly unknown[] = value
    let mended: unknown[] | undefined
    for (let at = 0; at < items.length; at++) {
      const item = items[at]
      const known = read(item)
      if (known === undefined) return undefined
      if (known === item) continue
      mended ??= [...items]
      mended[at] = known
    }
    return (mended ?? items) as readonly T[]
  }
}
