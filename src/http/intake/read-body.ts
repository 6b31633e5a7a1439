// Reads a JSON body, bounded in size and depth before it is parsed.

import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import type { Turns } from '../../chat/streaming/turns.ts'
import { decodeSteps } from '../../json/decode.ts'
import { parseSteps } from '../../json/parse.ts'
import { plainStringEnd, stringEnd, stringEndSteps } from '../../json/shape.ts'
import { atOnce, type Steps, stepCharacters } from '../../json/steps.ts'

export interface BodyLimits {
  readonly maxBodyBytes: number
  readonly maxHeaderBytes: number
  readonly maxDepth: number
}

export interface BodyParts {
  readonly body: BodyLimits
  /** Shares the event loop among all requests. */
  readonly turns: Pick<Turns, 'run' | 'through'>
}

export interface ReadBody {
  readonly json: JsonObject
  readonly bytes: number
}

/**
 * Reads and parses the body of a request whose headers passed `refuseByHeaders`. Throws `payload_too_large` and
 * `invalid_request` (broken off, invalid UTF-8, too deep, too many parts or messages, not JSON, not an object).
 * `maxCommas` is for bodies that contain long lists of numbers.
 */
export async function readJson(
  request: Request,
  { body: limits, turns }: BodyParts,
  maxCommas = conversationCommas,
): Promise<ReadBody> {
  let bytes: Uint8Array
  try {
    // A body with a length cannot exceed it; a chunked one is counted while it arrives.
    bytes =
      request.headers.has('content-length') || request.body === null
        ? await request.bytes()
        : await countedBytes(request.body, limits)
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    // The client disconnected, or its chunks are malformed: not an error of the gateway.
    throw new GatewayError('invalid_request', { message: 'The body broke off.', cause })
  }
  const read =
    bytes.length <= stepCharacters
      ? turns.run(() => atOnce(parsedBody(bytes, limits, maxCommas)))
      : turns.through(parsedBody(bytes, limits, maxCommas))
  return { json: read instanceof Promise ? await read : read, bytes: bytes.length }
}

/** Each of these takes a while for ten megabytes, so other requests run between them. */
function* parsedBody(bytes: Uint8Array, { maxDepth }: BodyLimits, maxCommas: number): Steps<JsonObject> {
  const text = yield* decodeUtf8(bytes)
  const colons = yield* checkedShape(text, maxDepth, maxCommas)
  const parsed = yield* parsedObject(text)
  refuseLongLists(parsed)
  yield
  return yield* checkedKeys(parsed, text, colons)
}

/** The raw body, for checking signatures. Throws `payload_too_large` and `invalid_request` (broken off). */
export async function readRaw(request: Request, maxBytes: number): Promise<Uint8Array> {
  const limits = { maxBodyBytes: maxBytes }
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(limits)
  try {
    return request.body === null ? new Uint8Array() : await countedBytes(request.body, limits)
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    throw new GatewayError('invalid_request', { message: 'The body broke off.', cause })
  }
}

async function countedBytes(
  body: ReadableStream<Uint8Array>,
  limits: Pick<BodyLimits, 'maxBodyBytes'>,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.length
    if (size > limits.maxBodyBytes) throw tooLarge(limits)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Refuses by headers alone; cheap enough to run before authentication. */
export function refuseByHeaders(headers: Headers, limits: BodyLimits): void {
  if (Number(headers.get('content-length') ?? 0) > limits.maxBodyBytes) throw tooLarge(limits)
  const encoding = headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity') {
    throw new GatewayError('unsupported_media_type', {
      message: `The body is compressed (${encoding.slice(0, 40)}).`,
    })
  }
  const type = headers.get('content-type')
  if (type !== null && !/^(application\/([\w.+-]+\+)?json|text\/plain)\s*(;|$)/i.test(type)) {
    throw new GatewayError('unsupported_media_type')
  }
}

function tooLarge(limits: Pick<BodyLimits, 'maxBodyBytes'>): GatewayError {
  return new GatewayError('payload_too_large', { metadata: { limit_bytes: limits.maxBodyBytes } })
}

function* decodeUtf8(bytes: Uint8Array): Steps<string> {
  try {
    if (bytes.length <= stepCharacters) return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    return yield* decodeSteps([bytes], { fatal: true })
  } catch (cause) {
    throw new GatewayError('invalid_request', { message: 'The body is not valid UTF-8.', cause })
  }
}

/** Limit of messages or input items: no model's context holds more, and each is checked and translated. */
const maxMessages = 10_000
const messageLists = ['messages', 'input', 'contents']

function refuseLongLists(parsed: JsonObject): void {
  for (const field of messageLists) {
    const list = parsed[field]
    if (!Array.isArray(list) || list.length <= maxMessages) continue
    // Embeddings take a list of texts or tokens, and limit it themselves.
    if (field === 'input' && typeof list[0] !== 'object') continue
    const message = `The list holds ${list.length} entries; ${maxMessages} are the most.`
    throw new GatewayError('invalid_request', { message, param: field })
  }
}

/** Limit of objects, arrays and keys: checking more would block other calls. */
const maxParts = 100_000
/**
 * Commas that `maxParts` keys can need, plus as many for lists of texts and numbers. In a list that should hold
 * messages, each number would be reported as a fault: five million took fourteen seconds.
 */
const conversationCommas = 2 * maxParts

/**
 * Parses text that must be one JSON object, nested at most `maxDepth` deep, without duplicate keys: parsers disagree
 * on which of two counts. Throws `invalid_request`.
 */
export function parseJson(text: string, maxDepth: number, maxCommas = Number.POSITIVE_INFINITY): JsonObject {
  const colons = atOnce(checkedShape(text, maxDepth, maxCommas))
  return atOnce(checkedKeys(atOnce(parsedObject(text)), text, colons))
}

/** The number of colons outside of strings, in a text within the bounds. */
function* checkedShape(text: string, maxDepth: number, maxCommas: number): Steps<number> {
  // A body of a million nested arrays would block JSON.parse, and so every other call, for half a second.
  const shape = yield* shapeSteps(text, maxDepth, maxCommas)
  if ('fault' in shape) throw new GatewayError('invalid_request', { message: shape.fault })
  return shape.colons
}

function* parsedObject(text: string): Steps<JsonObject> {
  let parsed: unknown
  try {
    parsed = yield* parseSteps(text)
  } catch (cause) {
    throw new GatewayError('invalid_request', {
      message: text.trim() === '' ? 'The body is empty.' : 'The body is not valid JSON.',
      cause,
    })
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
  return parsed as JsonObject
}

function* checkedKeys(parsed: JsonObject, text: string, colons: number): Steps<JsonObject> {
  // JSON.parse keeps the last of two members with one name; then there are fewer members than colons.
  if (membersIn(parsed) < colons) throw repeatedKey(text)
  yield
  if ((yield* mayPollute(text)) && pollutes(parsed)) {
    throw new GatewayError('invalid_request', { message: 'The body names the prototype of an object.' })
  }
  return parsed
}

const quote = 0x22

/** What is wrong with the shape of a text, or the number of colons outside of its strings. */
type Shape = { readonly fault: string } | { readonly colons: number }

const tooManyParts = { fault: `The body has more than ${maxParts} objects, arrays and keys.` }
const anyBlanks = /[ \t\r\n]+/y

/**
 * Checks the shape of a JSON text before it is parsed: nesting deeper than `maxDepth`, too many parts, more than
 * `maxCommas`, or a number beyond the range of a double. Reads the text once, without recursion; whether it is valid
 * JSON is left to the parser.
 */
export function* shapeSteps(
  text: string,
  maxDepth: number,
  maxCommas = Number.POSITIVE_INFINITY,
): Steps<Shape> {
  let depth = 0
  let opened = 0
  let colons = 0
  let commas = 0
  let exponents = 0
  for (let at = 0, pause = stepCharacters; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = plainStringEnd(text, at + 1) ?? (yield* stringEndSteps(text, at + 1))
        if (at < 0) return { colons }
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++depth > maxDepth) return { fault: `The body is nested deeper than ${maxDepth} levels.` }
        if (++opened + colons > maxParts) return tooManyParts
        break
      case 0x5d: // ]
      case 0x7d: // }
        depth--
        break
      case 0x3a: // :
        if (opened + ++colons > maxParts) return tooManyParts
        break
      case 0x2c: // ,
        if (++commas > maxCommas) return { fault: `The body has more than ${maxCommas} values.` }
        break
      case 0x20:
      case 0x0a: {
        // Skipping ten million blanks one by one would take as long as the rest of the body.
        anyBlanks.lastIndex = at
        if (anyBlanks.test(text)) at = anyBlanks.lastIndex - 1
        break
      }
      case 0x45: // E
      case 0x65: // e
        if (isInfinite(text, at)) return { fault: 'The body holds a number that is too large.' }
        // A value has at most one `e`, and follows a comma, colon or bracket: more of them cannot be JSON.
        if (++exponents > commas + colons + opened + 1) return { colons }
        break
    }
    if (at >= pause) {
      pause = at + stepCharacters
      yield
    }
  }
  return { colons }
}

/** How many members the objects of a parsed body have in total. */
function membersIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  let count = 0
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === 'object') count += membersIn(each)
    return count
  }
  for (const key in value) {
    count++
    const inner = (value as JsonObject)[key]
    if (typeof inner === 'object') count += membersIn(inner)
  }
  return count
}

/** How many keys are compared to name the duplicate; beyond that the error names none. */
const comparedKeys = 10_000

/** The error for a duplicate key, with the path to the second. */
function repeatedKey(text: string): GatewayError {
  const seen: Set<string>[] = []
  /** The position at each depth: after a key, or at an index of an array. */
  const way: (string | number)[] = []
  let written = ''
  for (let at = 0, keys = 0; at < text.length && keys < comparedKeys; at++) {
    const depth = way.length - 1
    const position = way[depth]
    switch (text[at]) {
      case '"': {
        const end = stringEnd(text, at + 1)
        written = text.slice(at, end + 1)
        at = end
        break
      }
      case '[':
        seen[way.push(0) - 1] = new Set()
        break
      case '{':
        seen[way.push('') - 1] = new Set()
        break
      case ']':
      case '}':
        way.pop()
        break
      case ',':
        if (typeof position === 'number') way[depth] = position + 1
        break
      case ':': {
        keys++
        // `"model"` and `"\\u006dodel"` are the same key.
        const key = String(JSON.parse(written))
        way[depth] = key
        if (seen[depth]!.has(key)) {
          const steps = way.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
          const param = steps.join('').slice(1, 257)
          return new GatewayError('invalid_request', {
            message: `The body has the key ${param} twice.`,
            param,
          })
        }
        seen[depth]!.add(key)
        break
      }
    }
  }
  return new GatewayError('invalid_request', { message: 'The body has a key twice in one object.' })
}

/** Whether the number whose exponent begins at `at` is too large for a double: JSON.parse would return Infinity. */
function isInfinite(text: string, at: number): boolean {
  const before = /[\d.]{1,40}$/.exec(text.slice(Math.max(0, at - 40), at))
  const after = /^[eE]\+?\d{1,40}/.exec(text.slice(at, at + 42))
  return before !== null && after !== null && !Number.isFinite(Number(before[0] + after[0]))
}

/** Whether a text may contain a key that `pollutes` looks for, literally or escaped. */
function* mayPollute(text: string): Steps<boolean> {
  if (text.includes('__proto__')) return true
  yield
  if (text.includes('"prototype"')) return true
  yield
  return /\\u00[57]/i.test(text)
}

/** Whether any object inside has a key `__proto__`, or a `constructor` with a `prototype`. */
function pollutes(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (Array.isArray(value)) return value.some(pollutes)
  if (Object.hasOwn(value, '__proto__')) return true
  return Object.entries(value).some(
    ([key, inner]) => (key === 'constructor' && hasPrototype(inner)) || pollutes(inner),
  )
}

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}
