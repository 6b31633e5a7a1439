// Reads a JSON body, bounded in size and depth before it is parsed.

import type { Caller } from '../../accounts/caller.ts'
import type { Awaitable } from '../../awaitable.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import type { Turns } from '../../chat/streaming/turns.ts'
import { decodeSteps } from '../../json/decode.ts'
import { isRaw, parseOpaque } from '../../json/exact.ts'
import { parseSteps } from '../../json/parse.ts'
import { stringEnd } from '../../json/shape.ts'
import { atOnce, isSteps, type Steps, stepCharacters } from '../../json/steps.ts'
import { isObject, opaqueInRequests } from '../../protocols/json.ts'
import { colonsIn, maxParts } from './body-shape.ts'
import { type ConnectionParts, whileOpen } from './connection.ts'
import { largeBytes, type LargeBodies } from './large-bodies.ts'

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

export interface CallBodyParts extends BodyParts, ConnectionParts {
  readonly largeBodies: LargeBodies
}

export interface ReadBody {
  readonly json: JsonObject
  readonly bytes: number
}

/**
 * As `readJson`, for a request that becomes a call: a large body waits for its turn before it is parsed, and others wait
 * until it leaves `largeBodies`. Nobody waits while a body arrives: until it is parsed, it is bytes.
 */
export async function readCall(
  parts: CallBodyParts,
  request: Request,
  requestId: string,
  { account }: Pick<Caller, 'account'>,
  maxCommas = conversationCommas,
): Promise<ReadBody> {
  const bytes = await bodyBytes(request, parts.body)
  if (bytes.length >= largeBytes) {
    const turn = parts.largeBodies.turn(requestId, account.id, bytes.length)
    if (turn) await whileOpen(parts, request, () => turn)
  }
  const json = parseBody(parts, bytes, maxCommas)
  return { json: json instanceof Promise ? await json : json, bytes: bytes.length }
}

/**
 * Reads and parses the body of a request whose headers passed `refuseByHeaders`. Throws `payload_too_large` and
 * `invalid_request` (broken off, invalid UTF-8, too deep, too many parts or messages, not JSON, not an object).
 * `maxCommas` is for bodies that contain long lists of numbers.
 */
export async function readJson(
  request: Request,
  parts: BodyParts,
  maxCommas = conversationCommas,
): Promise<ReadBody> {
  const bytes = await bodyBytes(request, parts.body)
  const json = parseBody(parts, bytes, maxCommas)
  return { json: json instanceof Promise ? await json : json, bytes: bytes.length }
}

function bodyBytes(request: Request, limits: BodyLimits): Promise<Uint8Array> {
  // A body with a length cannot exceed it; a chunked one is counted while it arrives.
  const arriving: Promise<Uint8Array> =
    request.headers.has('content-length') || request.body === null
      ? request.bytes()
      : countedBytes(request.body, limits)
  return arriving.catch(refuse)
}

function refuse(cause: unknown): never {
  throw cause instanceof GatewayError ? cause : brokenOff(cause)
}

/** The client disconnected, or its chunks are malformed: not an error of the gateway. */
export function brokenOff(cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', { message: 'The body broke off.', cause })
}

function parseBody({ body, turns }: BodyParts, bytes: Uint8Array, maxCommas: number): Awaitable<JsonObject> {
  return bytes.length <= stepCharacters
    ? turns.run(() => parseJson(decodeText(bytes), body.maxDepth, maxCommas))
    : turns.through(parsedBody(bytes, body, maxCommas))
}

/** The raw body, for checking signatures. Throws `payload_too_large` and `invalid_request` (broken off). */
export async function readRaw(request: Request, maxBytes: number): Promise<Uint8Array> {
  const limits = { maxBodyBytes: maxBytes }
  if (Number(request.headers.get('content-length') ?? 0) > maxBytes) throw tooLarge(limits)
  return request.body === null ? new Uint8Array() : countedBytes(request.body, limits).catch(refuse)
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

export function tooLarge(limits: Pick<BodyLimits, 'maxBodyBytes'>): GatewayError {
  return new GatewayError('payload_too_large', { metadata: { limit_bytes: limits.maxBodyBytes } })
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true })

function decodeText(bytes: Uint8Array): string {
  try {
    return strictUtf8.decode(bytes)
  } catch (cause) {
    throw notUtf8(cause)
  }
}

function notUtf8(cause: unknown): GatewayError {
  return new GatewayError('invalid_request', { message: 'The body is not valid UTF-8.', cause })
}

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
  // A body of a million nested arrays would block JSON.parse, and so every other call, for half a second.
  const colons = atOnce(colonsIn(text, maxDepth, maxCommas))
  let parsed: unknown
  try {
    parsed = parseOpaque(text, opaqueInRequests)
  } catch (cause) {
    throw notJson(text, cause)
  }
  const body: ParsedBody = { text, colons, json: objectIn(parsed) }
  for (const check of checks) check(body)
  return body.json
}

/** The same for a long body: each part takes a while for ten megabytes, so other requests run in between. */
function* parsedBody(bytes: Uint8Array, { maxDepth }: BodyLimits, maxCommas: number): Steps<JsonObject> {
  let text: string
  try {
    text = yield* decodeSteps([bytes], { fatal: true })
  } catch (cause) {
    throw notUtf8(cause)
  }
  const counted = colonsIn(text, maxDepth, maxCommas)
  const colons = isSteps(counted) ? yield* counted : counted
  let parsed: unknown
  try {
    parsed = yield* parseSteps(text, opaqueInRequests)
  } catch (cause) {
    throw notJson(text, cause)
  }
  const body: ParsedBody = { text, colons, json: objectIn(parsed) }
  for (const check of checks) {
    check(body)
    yield
  }
  return body.json
}

function notJson(text: string, cause: unknown): GatewayError {
  const message = text.trim() === '' ? 'The body is empty.' : 'The body is not valid JSON.'
  return new GatewayError('invalid_request', { message, cause })
}

function objectIn(parsed: unknown): JsonObject {
  if (isObject(parsed)) return parsed
  throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
}

// ---- what shows only once it is parsed ----------------------------------------------------------------------

interface ParsedBody {
  readonly json: JsonObject
  readonly text: string
  /** Colons outside of its strings. */
  readonly colons: number
}

const checks: readonly ((body: ParsedBody) => void)[] = [
  refuseLongLists,
  refuseRepeatedKeys,
  refusePrototypes,
  refuseEscapedPrototypes,
]

/** Limit of messages or input items: no model's context holds more, and each is checked and translated. */
const maxMessages = 10_000
const messageLists = ['messages', 'input', 'contents']

function refuseLongLists({ json }: ParsedBody): void {
  for (const field of messageLists) {
    const list = json[field]
    if (!Array.isArray(list) || list.length <= maxMessages) continue
    if (field === 'contents' && turnsIn(list) <= maxMessages) continue
    // Embeddings take a list of texts or tokens, and limit it themselves.
    if (field === 'input' && typeof list[0] !== 'object') continue
    const message = `The list holds ${list.length} entries; ${maxMessages} are the most.`
    throw new GatewayError('invalid_request', { message, param: field })
  }
}

/** Clients of Gemini return each chunk of a streamed answer as a content: those in a row are one turn of the model. */
function turnsIn(contents: readonly Json[]): number {
  const isModels = (content: Json | undefined) => isObject(content) && content['role'] === 'model'
  return contents.filter((content, at) => !(isModels(content) && isModels(contents[at - 1]))).length
}

/** JSON.parse keeps the last of two members with one name; then there are fewer members than colons. */
function refuseRepeatedKeys({ json, text, colons }: ParsedBody): void {
  if (membersIn(json) < colons) throw repeatedKey(text)
}

function refusePrototypes({ json, text }: ParsedBody): void {
  if (text.includes('__proto__') || text.includes('"prototype"')) refusePollution(json)
}

function refuseEscapedPrototypes({ json, text }: ParsedBody): void {
  if (/\\u00[57]/i.test(text)) refusePollution(json)
}

function refusePollution(json: JsonObject): void {
  if (pollutes(json))
    throw new GatewayError('invalid_request', { message: 'The body names the prototype of an object.' })
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
    // It is a number in the text. Other objects are not asked: that would take a quarter longer.
    if (key === 'rawJSON' && isRaw(value)) return 0
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
