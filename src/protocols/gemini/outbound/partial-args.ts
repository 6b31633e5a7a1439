// Collects arguments that arrive in pieces (streamFunctionCallArguments), each with a JSON path and a value.
// They are returned as a whole, because pieces of a tree are not pieces of its text.

import type { Json } from '../../../conversation/request.ts'
import type { PartialArg } from './schema.ts'

/** The most pieces per call, and the longest list a piece may create: a stream must not fill the memory. */
const maxPieces = 100_000
const maxListLength = 100_000

/** The JSON text of the arguments in these pieces. Pieces with an invalid path are left out. */
export function argumentsOf(pieces: readonly PartialArg[]): string {
  // Without prototypes: an argument may be called `__proto__`.
  const root = Object.create(null) as { [key: string]: Json }
  for (const piece of pieces.slice(0, maxPieces)) {
    const path = pathOf(piece.jsonPath ?? '')
    if (path !== undefined) put(root, path, piece)
  }
  return JSON.stringify(root)
}

type Container = { [key: string]: Json } | Json[]

function put(root: Container, path: readonly (string | number)[], piece: PartialArg): void {
  let container = root
  for (const [depth, key] of path.entries()) {
    if (Array.isArray(container) !== (typeof key === 'number')) return
    if (depth === path.length - 1) {
      write(container, key, valueOf(piece, read(container, key)))
      return
    }
    let inner = read(container, key)
    if (typeof inner !== 'object' || inner === null) {
      inner = typeof path[depth + 1] === 'number' ? [] : (Object.create(null) as { [key: string]: Json })
      write(container, key, inner)
    }
    container = inner
  }
}

function read(container: Container, key: string | number): Json | undefined {
  return Array.isArray(container) ? container[Number(key)] : container[key]
}

function write(container: Container, key: string | number, value: Json): void {
  if (!Array.isArray(container)) container[key] = value
  else if (Number(key) <= Math.min(container.length, maxListLength)) container[Number(key)] = value
}

function valueOf(piece: PartialArg, before: Json | undefined): Json {
  // Strings are split: each piece continues the one before at the same path.
  if (piece.stringValue !== undefined) return (typeof before === 'string' ? before : '') + piece.stringValue
  return piece.numberValue ?? piece.boolValue ?? null
}

/** The keys of a path such as `$.stops[0].city` or `$['a b']`; undefined if it is invalid. */
function pathOf(path: string): (string | number)[] | undefined {
  if (!path.startsWith('$')) return undefined
  const step = /\.([^.[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]/gy
  const keys: (string | number)[] = []
  step.lastIndex = 1
  while (step.lastIndex < path.length) {
    const match = step.exec(path)
    if (match === null) return undefined
    const [, dotted, index, single, double] = match
    if (index !== undefined) keys.push(Number(index))
    else keys.push((dotted ?? single ?? double ?? '').replace(/\\(.)/g, '$1'))
  }
  return keys.length === 0 ? undefined : keys
}
