// How long a connection may be idle while its answer is made, and after it.

import { LRUCache } from 'lru-cache'
import { promisify } from 'node:util'
import { z } from 'zod'
import type { Caller } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import {
  faultOfTag,
  type Json,
  type JsonObject,
  mostTags,
  readTagsHeader,
  type Tags,
  tagsText,
  userTag,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  charactersAtOnce,
  decodeSteps,
  hasLongInteger,
  isRaw,
  parseOpaque,
  parseSteps,
  type Steps,
  stringEnd,
} from '../../json/json.ts'
import {
  type Prefixes,
  rememberSource,
  scan,
  type Scanned,
  scanSteps,
  type Shape,
  type ShapeFault,
  type ShapeLimits,
} from '../../json/scan.ts'
import { isObject, opaqueInRequests } from '../../protocols/lenient.ts'
import type { Warning } from '../../protocols/lowering.ts'
import { type Scheduler, Shares } from '../../scheduler/scheduler.ts'
import type { FreeAnswer } from './paid/limits.ts'

/** What requests are read with. */
export interface Intake {
  readonly body: BodyLimits
  /** Shares the event loop among all requests. */
  readonly scheduler: Pick<Scheduler, 'run' | 'runSteps'>
  readonly largeBodies: LargeBodies
  readonly prefixes: Prefixes
  /** Lifts the idle timeout of a request with a slow answer; the call's own deadlines apply instead. */
  readonly keepOpen: (request: Request) => void
  /**
   * Ends that. To be called before the end of the answer is sent: afterwards it has no effect, and the connection of a
   * client that has vanished would stay open for ever.
   */
  readonly closeWhenIdle: (request: Request) => void
}

type Connections = Pick<Intake, 'keepOpen' | 'closeWhenIdle'>
type Bodies = Pick<Intake, 'body' | 'scheduler'>

/** The texts of one account's requests to one address, among which beginnings are looked for. */
interface Sent {
  readonly prefixes: Prefixes
  readonly name: string
}

/** Runs work that may take longer than a connection may be idle. */
export async function whileOpen<T>(
  parts: Connections,
  request: Request,
  work: () => T | Promise<T>,
): Promise<T> {
  parts.keepOpen(request)
  try {
    return await work()
  } finally {
    parts.closeWhenIdle(request)
  }
}

/** The answer, after which the connection is closed when idle. */
export function closedWhenIdle(
  parts: Pick<Intake, 'closeWhenIdle'>,
  request: Request,
  answer: Response,
): Response {
  const { status, statusText, headers, body } = answer
  if (!body || !headers.get('content-type')?.startsWith('text/event-stream')) {
    parts.closeWhenIdle(request)
    return answer
  }
  const flush = () => parts.closeWhenIdle(request)
  return new Response(body.pipeThrough(new TransformStream({ flush })), { status, statusText, headers })
}

// Limits the large request bodies that are parsed and translated at once. A body of ten megabytes becomes a hundred
// thousand objects, and collecting the garbage of a heap that is full of them holds the loop for longer than any call
// should wait. Small bodies, which are nearly all, take no part in this.

/** Bodies of at least this many bytes wait for a permit. */
export const largeBytes = 262_144

/**
 * Permission for a request to read and parse so many bytes of what is stored, as for a body of that size: texts of the
 * requests that wait would be as much as the memory holds. A request that waits stays open.
 */
export function readPermit(
  parts: Omit<Intake, keyof Bodies>,
  request: Request,
  requestId: string,
  account: string,
): (bytes: number) => void | Promise<void> {
  return (bytes) => {
    if (bytes < largeBytes) return undefined
    const permit = parts.largeBodies.permit(requestId, account, bytes)
    return permit && whileOpen(parts, request, () => permit)
  }
}

interface Limits {
  /** Large bodies that are worked on at once, bytes. */
  readonly mostBytes: number
  /** A body that is worked on for longer makes nobody wait: it is not the parsing that takes so long, milliseconds. */
  readonly longestMs: number
}

/** Three bodies of the largest size that is taken by default. */
const defaultLimits: Limits = { mostBytes: 32 * 1024 ** 2, longestMs: 10_000 }

interface Waiting {
  readonly requestId: string
  readonly bytes: number
  readonly go: () => void
}

interface Working {
  readonly account: string
  readonly bytes: number
  /** When others stop waiting for it, by the clock of the bodies. */
  readonly until: number
}

export class LargeBodies {
  readonly #limits: Limits
  readonly #now: () => number
  readonly #working = new Map<string, Working>()
  /** By account, the next one first: each has one body admitted after the other's, however many that has waiting. */
  readonly #waiting = new Map<string, Waiting[]>()
  readonly #bytes = new Shares()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `now`: milliseconds; never goes back. */
  constructor(limits: Partial<Limits> = {}, now: () => number = () => performance.now()) {
    this.#limits = { ...defaultLimits, ...limits }
    this.#now = now
  }

  /** Bytes of the bodies that are worked on now. */
  get bytes(): number {
    return this.#bytes.taken
  }

  /**
   * Permission to work on a body of so many bytes, or a promise of it: an account may have as much worked on as is left
   * for all others, and one body whatever its size. A request that has permission already gives that
   * back first, so that no two requests wait for each other. To be followed by `leave`.
   */
  permit(requestId: string, account: string, bytes: number): void | Promise<void> {
    this.leave(requestId)
    if (!this.#othersWait(account) && this.#mayBegin(account, bytes))
      return this.#begin(requestId, account, bytes)
    const { promise, resolve } = Promise.withResolvers<void>()
    const waiting = { requestId, bytes, go: resolve }
    const others = this.#waiting.get(account)
    if (others) others.push(waiting)
    else this.#waiting.set(account, [waiting])
    this.#look()
    return promise
  }

  /** The objects of the request's body are no longer needed, or the provider is being asked. May be called repeatedly. */
  leave(requestId: string): void {
    const working = this.#working.get(requestId)
    if (working === undefined) return
    this.#working.delete(requestId)
    this.#bytes.giveBack(working.account, working.bytes)
    this.#admit()
  }

  /** Whether somebody waits whom a body of this account would hold up: not those who only wait for their own bodies. */
  #othersWait(account: string): boolean {
    if (this.#waiting.has(account)) return true
    for (const [other, [next]] of this.#waiting)
      if (!this.#bytes.isShareUsed(this.#limits.mostBytes, other, next!.bytes)) return true
    return false
  }

  #mayBegin(account: string, bytes: number): boolean {
    return this.#hasRoomFor(bytes) && !this.#bytes.isShareUsed(this.#limits.mostBytes, account, bytes)
  }

  /** A body that is larger than all that may be worked on goes alone. */
  #hasRoomFor(bytes: number): boolean {
    return this.#bytes.taken === 0 || !this.#bytes.isFull(this.#limits.mostBytes, bytes)
  }

  #begin(requestId: string, account: string, bytes: number): void {
    this.#working.set(requestId, { account, bytes, until: this.#now() + this.#limits.longestMs })
    this.#bytes.take(account, bytes)
  }

  #admit(): void {
    for (const account of this.#waiting.keys()) {
      const bodies = this.#waiting.get(account)!
      const { requestId, bytes, go } = bodies[0]!
      if (this.#bytes.isShareUsed(this.#limits.mostBytes, account, bytes)) continue
      // It is next: smaller ones of others must not overtake it for ever.
      if (!this.#hasRoomFor(bytes)) return
      bodies.shift()
      // Goes behind the other accounts; this loop comes back to it.
      this.#waiting.delete(account)
      if (bodies.length > 0) this.#waiting.set(account, bodies)
      this.#begin(requestId, account, bytes)
      go()
    }
  }

  /** Looks after the body that has been worked on for longest while others wait. */
  #look(): void {
    const [oldest] = this.#working.values()
    if (this.#timer !== undefined || oldest === undefined) return
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined
        for (const [requestId, { until }] of this.#working) if (until <= this.#now()) this.leave(requestId)
        if (this.#waiting.size > 0) this.#look()
      },
      Math.max(1, oldest.until - this.#now()),
    ).unref()
  }
}

// What a body is made of, before it is parsed: a text that would block the process, or mean something else to another
// parser, is refused.

/** Limit of objects, arrays and keys: checking more would block other calls. */
const maxParts = 100_000

/**
 * The shape of a body. Throws `invalid_request` for nesting deeper than `maxDepth`, too many parts, more than `maxCommas`,
 * or a number beyond the range of a double.
 */
function shapeOf(scanned: Scanned): Shape {
  if (scanned.kind === 'shape') return scanned.shape
  const { kind, most } = scanned.fault
  const messages: Record<ShapeFault['kind'], string> = {
    depth: `The body is nested deeper than ${most} levels.`,
    parts: `The body has more than ${most} objects, arrays and keys.`,
    commas: `The body has more than ${most} values.`,
    values: `The body has more than ${most} values.`,
    infinite: 'The body holds a number that is too large.',
  }
  throw new GatewayError('invalid_request', { message: messages[kind] })
}

function limitsOf(maxDepth: number, maxCommas: number): ShapeLimits {
  return { depth: maxDepth, parts: maxParts, commas: maxCommas, finite: true }
}

// Reads a JSON body, bounded in size and depth before it is parsed.

export interface BodyLimits {
  readonly maxBodyBytes: number
  readonly maxHeaderBytes: number
  readonly maxDepth: number
}

export interface ReadBody {
  readonly json: JsonObject
  readonly bytes: number
}

interface CallRequest {
  readonly request: Request
  readonly requestId: string
  caller(): Caller | Promise<Caller>
}

/**
 * Reads a request that becomes a call: refuses it by its headers, identifies its caller, and then reads its body as
 * `readJson` does. A large body waits for a permit before it is parsed, and others wait until it leaves `largeBodies`.
 * Nobody waits while a body arrives: until it is parsed, it is bytes.
 */
export async function readCall(
  parts: Intake,
  asked: CallRequest,
  maxCommas = conversationCommas,
): Promise<ReadBody & { readonly caller: Caller }> {
  const { request, requestId } = asked
  refuseByHeaders(request.headers, parts.body)
  const caller = await asked.caller()
  const { account } = caller
  const bytes = await bodyBytes(request, parts.body)
  if (bytes.length >= largeBytes) {
    const permit = parts.largeBodies.permit(requestId, account.id, bytes.length)
    if (permit) await whileOpen(parts, request, () => permit)
  }
  const sent = { prefixes: parts.prefixes, name: `${account.id} ${pathOf(request.url)}` }
  return { caller, json: await parseBody(parts, bytes, maxCommas, sent), bytes: bytes.length }
}

/** What of an address says how a body is read, without looking at all of it. */
function pathOf(url: string): string {
  return url.slice(url.indexOf('/', url.indexOf('//') + 2), url.length)
}

/**
 * Reads and parses the body of a request whose headers passed `refuseByHeaders`. Throws `payload_too_large` and
 * `invalid_request` (broken off, invalid UTF-8, too deep, too many parts or messages, not JSON, not an object).
 * `maxCommas` is for bodies that contain long lists of numbers.
 */
export async function readJson(
  request: Request,
  parts: Bodies,
  maxCommas = conversationCommas,
): Promise<ReadBody> {
  const bytes = await bodyBytes(request, parts.body)
  return { json: await parseBody(parts, bytes, maxCommas), bytes: bytes.length }
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
function brokenOff(cause?: unknown): GatewayError {
  return new GatewayError('invalid_request', { message: 'The body broke off.', cause })
}

function parseBody(
  { body, scheduler }: Bodies,
  bytes: Uint8Array,
  maxCommas: number,
  sent?: Sent,
): Awaitable<JsonObject> {
  return bytes.length <= charactersAtOnce()
    ? scheduler.run(() => parseJson(decodeText(bytes), body.maxDepth, maxCommas, sent))
    : scheduler.runSteps(parsedBody(bytes, body, maxCommas))
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
  if (headers.has(tagsHeader)) refuseByTags(headers)
}

function tooLarge(limits: Pick<BodyLimits, 'maxBodyBytes'>): GatewayError {
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
export function parseJson(
  text: string,
  maxDepth: number,
  maxCommas = Number.POSITIVE_INFINITY,
  sent?: Sent,
): JsonObject {
  const known = sent && parseRest(text, limitsOf(maxDepth, maxCommas), sent)
  if (known !== undefined) return known
  // A body of a million nested arrays would block JSON.parse, and so every other call, for half a second.
  const shape = shapeOf(scan(text, limitsOf(maxDepth, maxCommas)))
  let parsed: unknown
  try {
    parsed = parseOpaque(text, opaqueInRequests)
  } catch (cause) {
    throw notJson(text, cause)
  }
  const json = checkBody(parsed, text, shape)
  sent?.prefixes.onParsed(sent.name, text, json, shape)
  return json
}

/** The body, if its beginning was sent before; undefined also for whatever must be refused, which the whole shows. */
function parseRest(text: string, limits: ShapeLimits, { prefixes, name }: Sent): JsonObject | undefined {
  const rest = prefixes.restOf(name, text)
  if (rest === undefined) return undefined
  const { parts = 0, commas = 0 } = limits
  const scanned = scan(rest.text, { ...limits, parts: parts - rest.parts, commas: commas - rest.commas })
  if (scanned.kind === 'fault') return undefined
  try {
    const json = parseOpaque(rest.text, opaqueInRequests)
    if (!isObject(json) || countMembers(json) < scanned.shape.colons) return undefined
    const shape = rest.join(json, scanned.shape)
    if (shape === undefined) return undefined
    refuseLongLists(json)
    // The known items have none, or they would not be known.
    if (!hasLongInteger(rest.text)) rememberSource(json, text, shape)
    prefixes.onParsed(name, text, json, shape)
    return json
  } catch {
    return undefined
  }
}

/** The same for a long body: each part takes a while for ten megabytes, so other requests run in between. */
function* parsedBody(bytes: Uint8Array, { maxDepth }: BodyLimits, maxCommas: number): Steps<JsonObject> {
  let text: string
  try {
    text = yield* decodeSteps([bytes], { fatal: true })
  } catch (cause) {
    throw notUtf8(cause)
  }
  const shape = shapeOf(yield* scanSteps(text, limitsOf(maxDepth, maxCommas)))
  let parsed: unknown
  try {
    parsed = yield* parseSteps(text, opaqueInRequests)
  } catch (cause) {
    throw notJson(text, cause)
  }
  yield
  return checkBody(parsed, text, shape)
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

function checkBody(parsed: unknown, text: string, shape: Shape): JsonObject {
  const json = objectIn(parsed)
  refuseLongLists(json)
  // JSON.parse keeps the last of two members with one name; then there are fewer members than colons.
  if (countMembers(json) < shape.colons) throw repeatedKey(text)
  // Of a long integer that is read as a number, less was understood than came.
  if (!hasLongInteger(text)) rememberSource(json, text, shape)
  return json
}

/** Limit of messages or input items: no model's context holds more, and each is checked and translated. */
const maxMessages = 10_000
const messageLists = ['messages', 'input', 'contents']

function refuseLongLists(json: JsonObject): void {
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

/**
 * How many members the objects of a parsed body have in total. Throws `invalid_request` for a key `__proto__`, or a
 * `constructor` with a `prototype`.
 */
function countMembers(value: object): number {
  let count = 0
  if (Array.isArray(value)) {
    for (const each of value) if (typeof each === 'object' && each !== null) count += countMembers(each)
    return count
  }
  for (const key in value) {
    // It is a number in the text. Other objects are not asked: that would take a quarter longer.
    if (key === 'rawJSON' && isRaw(value)) return 0
    count++
    const inner = (value as JsonObject)[key]
    if (key === '__proto__' || (key === 'constructor' && hasPrototype(inner))) throw pollution()
    if (typeof inner === 'object' && inner !== null) count += countMembers(inner)
  }
  return count
}

function pollution(): GatewayError {
  return new GatewayError('invalid_request', { message: 'The body names the prototype of an object.' })
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

function hasPrototype(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}

// Compresses answers that are the same for many readers, for clients that accept it.

async function zip(body: string): Promise<Uint8Array<ArrayBuffer>> {
  const { gzip } = await import('node:zlib')
  return new Uint8Array(await promisify(gzip)(body))
}

/** Compressed bodies by entity tag. A whole catalog takes 50 kB, and few filters are in use at a time. */
const zipped = new LRUCache<string, Promise<Uint8Array<ArrayBuffer>>>({ max: 32 })

/** Shorter bodies fit into one packet uncompressed. */
const leastBytes = 1_000

/** Whether the client accepts gzip, with a weight above zero. */
export function takesGzip(headers: Headers): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/i.test(headers.get('accept-encoding') ?? '')
}

/**
 * The body as an answer, and how many bytes it has, compressed if the client accepts it and it is worth it. `etag` identifies the body: each is
 * compressed once, off this thread.
 */
export async function compressible(
  request: Request,
  body: string,
  etag: string,
  headers: Readonly<Record<string, string>>,
): Promise<FreeAnswer> {
  const given = { ...headers, etag, vary: 'accept-encoding' }
  if (body.length < leastBytes || !takesGzip(request.headers))
    return { response: new Response(body, { headers: given }), bytes: body.length }
  const known = zipped.get(etag) ?? zip(body)
  zipped.set(etag, known)
  const sent = await known
  const response = new Response(sent, { headers: { ...given, 'content-encoding': 'gzip' } })
  return { response, bytes: sent.length }
}

// Parses query parameters with a schema. Unknown ones are refused, like unknown fields of a body.

/** The `limit` of a list: how many entries a page has. */
export const pageLimit = z
  .string()
  .regex(/^\d{1,3}$/, 'It takes a whole number from 1 to 200.')
  .transform(Number)
  .pipe(z.number().min(1).max(200))
  .default(50)

const repeated = 'It is there more than once.'
const unknownName = 'It is not known here.'

/** Throws `invalid_request` if a parameter is unknown, invalid or repeated. An empty one counts as absent. */
export function queryOf<Schema extends z.ZodType>(schema: Schema, request: Request): z.infer<Schema> {
  const given = Object.create(null) as Record<string, string>
  for (const [name, value] of new URL(request.url).searchParams) {
    if (name in given) throw wrong(name, repeated)
    if (value !== '') given[name] = value
  }
  return parseQuery(schema, given)
}

/** Throws `invalid_request` for a parameter that is none of `names`, or is there more than once. */
export function requireKnown(query: URLSearchParams, names: readonly string[]): void {
  for (const name of query.keys()) {
    if (!names.includes(name)) throw wrong(name, unknownName)
    if (query.getAll(name).length > 1) throw wrong(name, repeated)
  }
}

/** Parses a value with the schema. Throws `invalid_request` with the first fault and its field. */
export function parseQuery<Schema extends z.ZodType>(schema: Schema, value: unknown): z.infer<Schema> {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  const issue = read.error.issues[0]
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys[0] : undefined
  const path = [...(issue?.path ?? []), ...(unknown === undefined ? [] : [unknown])]
  throw wrong(path.join('.'), unknown === undefined ? (issue?.message ?? 'It is wrong.') : unknownName)
}

function wrong(param: string, why: string): GatewayError {
  const name = param.slice(0, 100)
  return new GatewayError('invalid_request', {
    message: name === '' ? why : `${name}: ${why}`,
    ...(name === '' ? {} : { param: name }),
  })
}

/** The unescaped model id of a path. Throws `invalid_model_id` for an invalid escape. */
export function decodePath(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    throw new GatewayError('invalid_model_id', { message: 'The model id in the path is not valid.', cause })
  }
}

// What a request says it is for: the header `x-weir-tags`, then who it is made for (`user`), then its `metadata`.

export const tagsHeader = 'x-weir-tags'

const tooMany = `a call has at most ${mostTags} tags`
const longestParam = 100

/** The tags of a call as text, and what of the body is none for want of room or because of how it is written. */
interface Tagged {
  readonly tags: string | undefined
  readonly warnings: readonly Warning[]
}

/** Throws `invalid_request` for a header that is out of bounds. */
function refuseByTags(headers: Headers): void {
  headerTags(headers)
}

/**
 * The tags of a request; undefined without any. Of one name the operator's word about the group of the key counts most,
 * that of the nearest group first. Then the header says more than `user`, and `user` more than `metadata`: who writes
 * the header, such as a proxy of the company, has seen the body. Throws `invalid_request` for a header that is out of
 * bounds.
 */
export function tagsOfRequest(
  headers: Headers,
  json: JsonObject,
  groups: readonly { readonly tags: Tags | null }[] = [],
): Tagged | undefined {
  const { user, safety_identifier, metadata, labels } = json
  const tags: Record<string, string> = {}
  const warnings: Warning[] = []
  let count = 0
  const add = (name: string, value: unknown, param: string) => {
    if (typeof value !== 'string' || value === '' || Object.hasOwn(tags, name)) return
    const fault = faultOfTag(name, value) ?? (count < mostTags ? undefined : tooMany)
    if (fault === undefined) {
      tags[name] = value
      count++
    } else if (warnings.length < mostTags)
      warnings.push({ param: param.slice(0, longestParam), message: `It is no tag of the call: ${fault}.` })
  }
  for (const { tags: ofGroup } of groups)
    for (const [name, value] of Object.entries(ofGroup ?? {}))
      if (faultOfTag(name, value) === undefined) add(name, value, name)
  for (const [name, value] of Object.entries(headerTags(headers))) add(name, value, tagsHeader)
  const pairs = objectOf(metadata)
  if (typeof user === 'string') add(userTag, user, 'user')
  else if (typeof safety_identifier === 'string') add(userTag, safety_identifier, 'safety_identifier')
  // Where Messages has its user, and some clients of other protocols too.
  add(userTag, pairs['user_id'], 'metadata.user_id')
  for (const [name, value] of Object.entries(pairs))
    if (name !== 'user_id') add(name, value, `metadata.${name}`)
  for (const [name, value] of Object.entries(objectOf(labels))) add(name, value, `labels.${name}`)
  if (count === 0 && warnings.length === 0) return undefined
  return { tags: count === 0 ? undefined : tagsText(tags), warnings }
}

function headerTags(headers: Headers): Tags {
  const written = headers.get(tagsHeader)
  if (written === null) return {}
  const read = readTagsHeader(written)
  if (typeof read !== 'string') return read
  throw new GatewayError('invalid_request', { message: `${tagsHeader}: ${read}.`, param: tagsHeader })
}

function objectOf(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {}
}
