// Reads a provider's JSON leniently: a known field of another type counts as absent, unknown fields are kept. An
// object without faults is returned itself, which is nearly every frame of a stream and many times cheaper than
// copying.

import type { JsonObject } from '../conversation/request.ts'
import { type OpaqueNames, parseExact, parseOpaque } from '../json/json.ts'
import { shapeFault } from '../json/scan.ts'

/** Returns the value as read; undefined if it is something else. */
type Read<T> = (value: unknown) => T | undefined

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

// Reads untrusted JSON.

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** More events of one stream than this that are no JSON mean that the provider is broken. */
const mostMalformed = 3

/** What an event says that a model's text does not: of a call, or of a signature that a client sends back. */
const unlosable =
  /"(?:tool_calls?|tool_use|function_?call|functionCall|arguments|partial_?json|input_json_delta|partialArgs|signature|signature_delta|thoughtSignature|encrypted_content)"/

/** What of an answer has come: whether a piece of it may be lost. */
export type Spoken = 'nothing' | 'words' | 'calls'

/** Counts the events of one stream that are no JSON and are left out, for the sake of the sound rest. */
export class Malformed {
  #count = 0
  readonly #answer: 'words' | 'document'

  /** `answer`: a document that lost a piece would be no document, or say something else. */
  constructor(answer: 'words' | 'document') {
    this.#answer = answer
  }

  /**
   * Whether such an event is left out: one of a few broken objects, between texts, in an answer that has begun and calls
   * no tool. A call that lost a piece would do something else.
   */
  leaveOut(data: string, spoken: Spoken): boolean {
    if (this.#answer === 'document' || spoken !== 'words') return false
    if (!data.trimStart().startsWith('{') || unlosable.test(data)) return false
    this.#count += 1
    return this.#count <= mostMalformed
  }
}

/** A non-empty string; undefined for anything else. */
export function nonEmpty(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A string; empty for anything else, which may have no text at all (`{"toString":null}`). */
export function stringIn(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

/** The objects of a list; none if it is not a list. */
export function objectsIn(value: unknown): JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** Whether an object has no fields. */
export function hasNoFields(fields: object): boolean {
  for (const _ in fields) return false
  return true
}

/** What a table holds for a word from outside, which may be `constructor`; undefined where it holds nothing. */
export function entryOf<T>(table: Readonly<Record<string, T>>, word: string): T | undefined {
  return Object.hasOwn(table, word) ? table[word] : undefined
}

/** Parses a text; undefined if it is not JSON, or its shape is not safe to parse. */
export function parseJson(text: string): unknown {
  return parsedBy(JSON.parse, text)
}

/** As `parseJson`, for arguments and results of tools: long integers are exact, and no numbers to `typeof`. */
export function parseToolJson(text: string): unknown {
  return parsedBy(parseExact, text)
}

/** As `parseJson`, for an answer or an event of a provider: long integers in arguments of calls are exact. */
export function parseAnswer(text: string): unknown {
  return parsedBy((json) => parseOpaque(json, opaqueInAnswers), text)
}

function parsedBy(parse: (text: string) => unknown, text: string): unknown {
  if (shapeFault(text) !== undefined) return undefined
  try {
    return parse(text)
  } catch {
    return undefined
  }
}

/** The arguments of calls where a protocol writes them as an object. */
export const opaqueInAnswers: OpaqueNames = {
  objects: new Set(['input', 'args', 'arguments']),
  integers: new Set(),
}

/**
 * The same in histories, and results (`response`); `arguments` of an MCP request are for the gateway to read. Schemas of
 * tools and answers by the names of all protocols and inference servers, and what those give to a chat template.
 */
export const opaqueInRequests: OpaqueNames = {
  objects: new Set([
    'input',
    'args',
    'response',
    'parameters',
    'parametersJsonSchema',
    'parameters_json_schema',
    'input_schema',
    'schema',
    'json_schema',
    'responseSchema',
    'response_schema',
    'responseJsonSchema',
    'response_json_schema',
    'guided_json',
    'structured_outputs',
    'structural_tag',
    'chat_template_kwargs',
  ]),
  integers: new Set(['seed']),
}

/** Whether a text is valid JSON: arguments cut by the token limit are not. */
export function isJson(text: string): boolean {
  return parseJson(text) !== undefined
}

/** The object without keys whose value is null or undefined: clients write null for "not set". */
export function present<T extends object>(fields: { [K in keyof T]: T[K] | null | undefined }): T {
  const kept: Partial<T> = {}
  for (const name in fields) if (fields[name] != null) kept[name] = fields[name]
  return kept as T
}

/** `own`, with what of `more` it lacks or has as null, deeply; members for which `isWanted` is false are left out. */
export function withMissing(
  own: JsonObject,
  more: JsonObject,
  isWanted: (name: string) => boolean = () => true,
): JsonObject {
  const all = { ...own }
  for (const [name, value] of Object.entries(more)) {
    const member = all[name]
    if (value === null || !isWanted(name)) continue
    if (isObject(member) && isObject(value)) all[name] = withMissing(member, value, isWanted)
    else all[name] ??= value
  }
  return all
}

// A long text that comes in small pieces.

/** So many pieces are joined: a string cut out of a larger one, as pieces of a stream are, keeps the larger one in memory. */
const joinedPieces = 64

export class CollectedText {
  readonly #joined: string[] = []
  #pieces: string[] = []
  #length = 0

  get length(): number {
    return this.#length
  }

  add(piece: string): void {
    this.#length += piece.length
    if (this.#pieces.push(piece) < joinedPieces) return
    this.#joined.push(this.#pieces.join(''))
    this.#pieces = []
  }

  toString(): string {
    return this.#joined.join('') + this.#pieces.join('')
  }
}
