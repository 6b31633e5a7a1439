// What of a client's body makes the tokens of its prompt: its texts, its media, and which of them the model reads. How
// many tokens they make is not decided here.

import { z } from 'zod'
import type {
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
} from '../../conversation/request.ts'
import { isSettled } from '../../json/scan.ts'
import { isObject, parseJson, stringIn } from '../lenient.ts'

/** The body of a client's request as a prompt, for measuring it before any provider has counted. Read anew each time. */
export interface PromptParts {
  /** What of the body is media: its texts can be measured by the length of the body, without being gathered. */
  media(): PromptMedia
  /** All of the body: for an upper bound, since nothing is missing. */
  content(): PromptContent
  /** What the model reads of it: for a count. */
  reading(): PromptReading
}

export interface PromptMedia {
  /** Characters of the body that inline media take. */
  readonly inlineLength: number
  /** Images, inline and by address. */
  readonly images: number
  /** Inline audio and files, with their decoded sizes in bytes. */
  readonly files: readonly { readonly kind: 'audio' | 'file'; readonly bytes: number }[]
  /** Files and videos by address or id: only their provider knows how large they are. */
  readonly unsized: number
}

interface PromptContent extends PromptMedia {
  /** Texts that come as the tokens they are, to be embedded. */
  readonly tokenIds: number
  /** Every other text, and the names of all members. */
  readonly texts: readonly string[]
}

interface PromptReading {
  readonly texts: readonly string[]
  /** Messages or input items; none where the body holds texts only. */
  readonly messages: number
  /** The content of these messages alone; of the whole body where there are none. */
  readonly content: PromptContent
}

/** Where a protocol's body holds what the model reads. */
interface PromptFields {
  /** The list of messages or input items; a plain text, or texts, may stand in its place. */
  readonly conversation: string
  readonly instructions?: string
  /** What is put before the model as JSON: tools and formats. */
  readonly declared: readonly string[]
}

export function promptParts(body: JsonObject, fields: PromptFields): PromptParts {
  return new BodyPrompt(body, fields)
}

class BodyPrompt implements PromptParts {
  readonly #body: JsonObject
  readonly #fields: PromptFields

  constructor(body: JsonObject, fields: PromptFields) {
    this.#body = body
    this.#fields = fields
  }

  media(): PromptMedia {
    return foundIn(this.#body, undefined)
  }

  content(): PromptContent {
    return contentOf(this.#body)
  }

  reading(): PromptReading {
    return readingOf(this.#body, this.#fields)
  }
}

/** Two bodies that are read as one prompt. */
export function joinedPrompt(a: PromptParts, b: PromptParts): PromptParts {
  return {
    media: () => joinedMedia(a.media(), b.media()),
    content: () => joinedContent(a.content(), b.content()),
    reading: () => {
      const [first, second] = [a.reading(), b.reading()]
      return {
        texts: [...first.texts, ...second.texts],
        messages: first.messages + second.messages,
        content: joinedContent(first.content, second.content),
      }
    },
  }
}

/** A prompt in which texts were replaced by others. */
export function replacedPrompt(prompt: PromptParts, replaced: ReadonlyMap<string, string>): PromptParts {
  const textsOf = <Content extends { readonly texts: readonly string[] }>(content: Content): Content => ({
    ...content,
    texts: content.texts.map((text) => replaced.get(text) ?? text),
  })
  return {
    media: () => prompt.media(),
    content: () => textsOf(prompt.content()),
    reading: () => {
      const reading = textsOf(prompt.reading())
      return { ...reading, content: textsOf(reading.content) }
    },
  }
}

function joinedMedia(a: PromptMedia, b: PromptMedia): PromptMedia {
  return {
    inlineLength: a.inlineLength + b.inlineLength,
    images: a.images + b.images,
    files: [...a.files, ...b.files],
    unsized: a.unsized + b.unsized,
  }
}

function joinedContent(a: PromptContent, b: PromptContent): PromptContent {
  return {
    ...joinedMedia(a, b),
    tokenIds: a.tokenIds + b.tokenIds,
    texts: [...a.texts, ...b.texts],
  }
}

function readingOf(body: JsonObject, { conversation, instructions, declared }: PromptFields): PromptReading {
  const given = body[conversation] ?? null
  const messages = messagesIn(given)
  const texts: string[] = []
  addReadTexts(given, '', texts)
  if (instructions !== undefined) addReadTexts(body[instructions] ?? null, '', texts)
  for (const field of declared) addJson(body[field], texts)
  return {
    texts,
    messages: messages.length,
    content: contentOf(messages.length === 0 ? body : { messages }),
  }
}

/** Messages and input items are objects; texts to be embedded are none. */
function messagesIn(conversation: Json): Json[] {
  if (!Array.isArray(conversation)) return []
  const [first] = conversation
  return typeof first === 'object' && !Array.isArray(first) ? conversation : []
}

// ---- what the model reads -----------------------------------------------------------------------------------

/** Members of a message that name its kind or its place and are not read by the model. */
const unread = new Set([
  'role',
  'type',
  'id',
  'tool_call_id',
  'tool_use_id',
  'media_type',
  'signature',
  'call_id',
  'status',
  'encrypted_content',
  'result',
  'url',
  'image_url',
  'file_url',
  'data',
  'file_data',
  'detail',
  'format',
  'ttl',
])

/** What a call is given, and tools that an item of the conversation declares. */
const shownAsJson = new Set(['input', 'arguments', 'tools'])

function addReadTexts(value: Json, key: string, texts: string[]): void {
  if (typeof value === 'string') {
    if (!unread.has(key)) texts.push(value)
  } else if (Array.isArray(value)) {
    for (const item of value) addReadTexts(item, key, texts)
  } else if (typeof value === 'object' && value !== null) {
    // The model is shown these as JSON, and the text of a document as it is.
    if (shownAsJson.has(key)) addJson(value, texts)
    else if (value.type === 'text' && typeof value.data === 'string') texts.push(value.data)
    else for (const name in value) addReadTexts(value[name]!, name, texts)
  }
}

function addJson(value: Json | undefined, texts: string[]): void {
  if (value !== undefined && value !== null) texts.push(JSON.stringify(value))
}

// ---- all there is -------------------------------------------------------------------------------------------

interface Found {
  inlineLength: number
  images: number
  readonly files: { readonly kind: 'audio' | 'file'; readonly bytes: number }[]
  unsized: number
  tokenIds: number
  /** undefined where they are not gathered. */
  readonly texts: string[] | undefined
}

function contentOf(body: JsonObject): PromptContent {
  const texts: string[] = []
  return { ...foundIn(body, texts), texts }
}

function foundIn(body: JsonObject, texts: string[] | undefined): Found {
  const found: Found = { inlineLength: 0, images: 0, files: [], unsized: 0, tokenIds: 0, texts }
  walk(body, '', found)
  return found
}

function walk(value: Json | undefined, key: string, found: Found): void {
  if (typeof value === 'string') return addText(value, key, found)
  if (Array.isArray(value)) {
    if (typeof value[0] === 'number') found.tokenIds += value.length
    for (const item of value)
      if (found.texts === undefined && isObject(item) && isSettled(item)) addFound(item, found)
      else walk(item, key, found)
    return
  }
  if (typeof value !== 'object' || value === null) return
  const { type } = value
  if (typeof type === 'string') {
    if (imageTypes.has(type)) found.images += 1
    else if (isUnsized(type, value)) found.unsized += 1
  }
  for (const name in value) {
    found.texts?.push(name)
    const member = value[name]
    if (unsizedTools.has(name)) found.unsized += 1
    // A picture that a model made stands there as bare base64.
    if (type === 'image_generation_call' && name === 'result') found.inlineLength += stringIn(member).length
    else if (name === 'data' && typeof member === 'string') addData(member, value, found)
    else walk(member, name, found)
  }
}

/** The media of items that were sent before and cannot have changed since. */
const known = new WeakMap<object, Omit<Found, 'texts'>>()

function addFound(item: JsonObject, found: Found): void {
  let own = known.get(item)
  if (own === undefined) {
    own = foundIn(item, undefined)
    known.set(item, own)
  }
  found.inlineLength += own.inlineLength
  found.images += own.images
  found.unsized += own.unsized
  found.tokenIds += own.tokenIds
  if (own.files.length > 0) found.files.push(...own.files)
}

/** Tools of Google's that put pages and results of code before the model: how much, nobody knows before. */
const unsizedTools: ReadonlySet<string> = new Set([
  'urlContext',
  'url_context',
  'codeExecution',
  'code_execution',
])

/** The types of parts and items that are an image. */
const imageTypes: ReadonlySet<string> = new Set([
  'image_url',
  'image',
  'input_image',
  'image_generation_call',
])

/** Whether a part is a file or a video that stands elsewhere, at an address or with the provider. */
function isUnsized(type: string, part: JsonObject): boolean {
  switch (type) {
    case 'video_url':
      return isObject(part.video_url) && isElsewhere(part.video_url.url)
    case 'file':
      return isObject(part.file) && isElsewhere(part.file.file_data)
    case 'input_file':
      return isElsewhere(part.file_data)
    case 'document':
      return isObject(part.source) && (part.source.type === 'url' || part.source.type === 'file')
    case 'container_upload':
      return true
    default:
      return false
  }
}

function isElsewhere(data: Json | undefined): boolean {
  return typeof data !== 'string' || /^https?:/i.test(data)
}

/** The content of `data`: Anthropic's sources name its type, and so does a block of encrypted reasoning. */
function addData(text: string, { type, media_type: mediaType }: JsonObject, found: Found): void {
  if (type === 'text' || type === 'redacted_thinking') found.texts?.push(text)
  else if (type !== 'base64') addText(text, 'data', found)
  else addMedia(text, isImage(mediaType) ? 'image' : 'file', found)
}

function isImage(mediaType: Json | undefined): boolean {
  return typeof mediaType === 'string' && mediaType.startsWith('image/')
}

function addText(text: string, key: string, found: Found): void {
  const inline = text.startsWith('data:')
  if (!inline && key !== 'data' && key !== 'file_data') {
    found.texts?.push(text)
  } else if (text.startsWith('data:image/')) {
    addMedia(text, 'image', found)
  } else {
    addMedia(text, key === 'data' || text.startsWith('data:audio/') ? 'audio' : 'file', found)
  }
}

/** Base64, or a `data:` URL that ends in it. An image is counted where its part is. */
function addMedia(text: string, kind: 'image' | 'audio' | 'file', found: Found): void {
  found.inlineLength += text.length
  if (kind === 'image') return
  const encoded = text.startsWith('data:') ? text.length - text.indexOf(',') - 1 : text.length
  found.files.push({ kind, bytes: (encoded * 3) / 4 })
}

// Reasoning of any provider as one string that clients keep and send back unread.

/** Marks strings that we made, to distinguish them from a provider's. */
const prefix = 'weir.'

const sealedDetail = z.object({
  type: z.string(),
  format: z.string().nullable(),
  index: z.int().min(0),
  id: z.string().nullish(),
  text: z.string().nullish(),
  summary: z.string().optional(),
  signature: z.string().nullish(),
  data: z.string().optional(),
})

/**
 * These details as one string, including their texts: clients leave parts of the reasoning out when they send it back,
 * and a signature is only valid for the exact text.
 */
export function seal(details: readonly ReasoningDetail[]): string {
  return prefix + Buffer.from(JSON.stringify(details)).toString('base64url')
}

/** Whether we made a string: no provider can read it. */
export function isSealed(content: string): boolean {
  return content.startsWith(prefix)
}

/**
 * The details in a string that we sealed; undefined for any other string. Anybody can write one: the first fault ends
 * the check, as the faults of millions would stop the process for seconds.
 */
export function unseal(content: string): ReasoningDetail[] | undefined {
  if (!isSealed(content)) return undefined
  const sealed = parseJson(Buffer.from(content.slice(prefix.length), 'base64url').toString('utf8'))
  if (!Array.isArray(sealed)) return undefined
  const details: ReasoningDetail[] = []
  for (const one of sealed) {
    const { data: detail } = sealedDetail.safeParse(one)
    if (detail === undefined) return undefined
    details.push(detail)
  }
  return details
}

// Where addresses may be in a client's body. Each inbound describes its own body; a test checks the description
// against the schema. An address in an undescribed place is not passed on.

/** What stands at a place. Lists are transparent: a place describes each of their elements. */
export type Place =
  /** Text for the model, numbers, schemas: nothing in here is fetched. */
  | 'words'
  /** An address that a provider fetches. */
  | 'address'
  /** Bytes in base64, in place of which some providers read an address. */
  | 'data'
  /** The id of something a provider keeps, which some providers write as an address. */
  | 'reference'
  | Parts

export interface Parts {
  readonly fields: { readonly [member: string]: Place }
  /** What a plain string is here, where an object or a list of them may stand as well. */
  readonly text: 'words' | 'address'
  /** Members without a description: searched for addresses, or never sent to any provider. */
  readonly others: 'searched' | 'never-sent'
}

/** An object, or a list of them, described by its members; as a plain string it is words unless `text` says otherwise. */
export function parts(fields: Parts['fields'], more: Partial<Omit<Parts, 'fields'>> = {}): Parts {
  return { fields, text: 'words', others: 'searched', ...more }
}

/** Members that hold words; their names stand in the texts, divided by blanks. */
export function wordsAt(...names: readonly string[]): { [member: string]: 'words' } {
  return Object.fromEntries(names.flatMap((text) => text.split(' ')).map((name) => [name, 'words'] as const))
}

/** One string that is, or may be, an address. */
export interface FoundAddress {
  readonly text: string
  /** The way to it from the body, as errors name it: `messages[0].content[1].image_url.url`. */
  readonly param: string
  replace(text: string): void
}

export interface AddressVisitor {
  onFound(address: FoundAddress): void
  /** The id of something that a provider keeps. */
  onKept(param: string): void
  /** A member without a description that names a destination of requests or holds an address; it has been taken out. */
  onDropped(param: string): void
}

/**
 * Visits every address of a body, and takes out the members without a description that hold an address or name a
 * destination (`api_base`, `base_url` and their like). Changes the body in place; the bounds on depth and parts of
 * `read-body` bound this walk.
 */
export function visitAddresses(body: JsonObject, place: Parts, visitor: AddressVisitor): void {
  visitObject(body, place, '', undefined, visitor)
}

/** The scheme that names no place: inline bytes. */
const placeless = /^data:/i

/** Text that some parser reads as an address: a scheme and slashes, `http:` without them, or two slashes alone. */
const addressLike = /^(?:url:)?(?:[a-z][a-z0-9+.-]*:)?[\\/]{2}|^(?:url:)?(?:https?|ftp|file):/i

/** Parsers of URLs skip these wherever, or at the front. */
// oxlint-disable-next-line no-control-regex -- these are the characters that URL parsers strip
const skipped = /[\t\n\r]|^[\0- ]+/g

/** Longer texts are not addresses: no server accepts them. */
const longestAddress = 8192

/** Names, without their dashes, of members that tell a client library, or a gateway, where to send requests. */
const destinationName =
  /^(x)?(api|base|proxy|server|custom|azure|vertex|openai|upstream|gateway|sagemaker|aws[a-z]*)?(base|baseurl|baseuri|apibase|apiurl|apihost|endpoint|endpointurl|host|hostname|hosturl|baseaddress|proxy|proxies|proxyurl|serverurl|webhook|webhooks|webhookurl|callback|callbacks|callbackurl|forwardto|targeturl|upstreamurl)$/

const dashes = /[_-]/g

/** Names that were looked at: nearly all requests have the same few. */
const lookedAt = new Map<string, boolean>()
const mostLookedAt = 1_000

function namesDestination(member: string): boolean {
  if (member.length > 64) return false
  const known = lookedAt.get(member)
  if (known !== undefined) return known
  const names = destinationName.test(member.toLowerCase().replaceAll(dashes, ''))
  if (lookedAt.size < mostLookedAt) lookedAt.set(member, names)
  return names
}

/** Where client libraries and gateways look for a destination; deeper down the same names belong to schemas and data. */
const destinationHolders: ReadonlySet<string> = new Set(['', 'extra_body', 'litellm_params'])

/** Visits an object at `path`, or `at` a place of the list there: its own way is only written out where it is needed. */
function visitObject(
  object: JsonObject,
  place: Parts | undefined,
  path: string,
  at: number | undefined,
  visitor: AddressVisitor,
): void {
  const maySteer = at === undefined && destinationHolders.has(path)
  for (const member in object) {
    const known = place && Object.hasOwn(place.fields, member) ? place.fields[member] : undefined
    if (known === 'words' || (known === undefined && place?.others === 'never-sent')) continue
    const value = object[member]!
    // Texts of messages: most of what a body holds.
    if (typeof value === 'string' && typeof known === 'object' && known.text === 'words') continue
    const own = at === undefined ? path : `${path}[${at}]`
    const param = own === '' ? member : `${own}.${member}`
    if (
      known === undefined &&
      ((maySteer && value !== null && namesDestination(member)) || isUnasked(value))
    ) {
      delete object[member]
      visitor.onDropped(param)
    } else visitMember(object, member, known, param, visitor)
  }
}

/** Whether an undescribed member contains an address: a text, or one in a list of them. */
function isUnasked(value: Json): boolean {
  if (typeof value === 'string') return isAddress(value, false)
  return Array.isArray(value) && value.some((each) => !isObject(each) && isUnasked(each))
}

function visitMember(
  holder: JsonObject | Json[],
  member: string | number,
  place: Place | undefined,
  param: string,
  visitor: AddressVisitor,
): void {
  const value = (holder as Record<string | number, Json>)[member]
  if (typeof value === 'string') {
    const expected = place === 'address' || (typeof place === 'object' && place.text === 'address')
    if (place !== 'reference' && place !== 'data' && !expected) return
    if (place === 'data' && isData(value)) return
    if (isAddress(value, expected || place === 'data'))
      visitor.onFound(addressIn(holder as Record<string | number, Json>, member, value, param))
    else if (place === 'reference') visitor.onKept(param)
  } else if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) {
      const each = value[at]!
      if (isObject(each)) visitObject(each, partsAt(place), param, at, visitor)
      else visitMember(value, at, place, `${param}[${at}]`, visitor)
    }
  } else if (isObject(value)) {
    visitObject(value, partsAt(place), param, undefined, visitor)
  }
}

function partsAt(place: Place | undefined): Parts | undefined {
  return typeof place === 'object' ? place : undefined
}

function addressIn(
  holder: Record<string | number, Json>,
  member: string | number,
  text: string,
  param: string,
): FoundAddress {
  const replace = (other: string) => {
    holder[member] = other
  }
  return { text, param, replace }
}

/** What base64 consists of, in both alphabets and on several lines. */
const base64 = /^[A-Za-z0-9+/_=\s-]+$/

/**
 * Whether a text is base64, which may begin with two slashes, as that of most MP3 files does, or with a word such as
 * `file`. Without a colon, a dot or a bracket it names a host only as a number, or this machine.
 */
function isData(text: string): boolean {
  if (text.includes(':')) return false
  if (text.length > longestAddress) return true
  if (!base64.test(text)) return false
  return !/^\s*\/\/+(0+|\d{8,}|0x[0-9a-f]{7,}|localhost)\s*(\/|$)/i.test(text)
}

function isAddress(text: string, expected: boolean): boolean {
  // Files may come as megabytes of base64 in the same place, which hold no colon.
  if (expected) {
    const begin = text.slice(0, 1_024).replaceAll(skipped, '')
    return !placeless.test(text) && (text.includes(':') || addressLike.test(begin))
  }
  if (text.length > longestAddress) return false
  const seen = text.replaceAll(skipped, '')
  return !placeless.test(seen) && addressLike.test(seen)
}

// Marks of what a provider is to keep in its cache of prompts: those of clients, and those set for clients that have none.

/** `cache_control` as Anthropic's API has it, and all others after it. */
export const cacheControl = z
  .looseObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).nullish() })
  .nullish()

export type WireCacheControl = z.infer<typeof cacheControl>

/** The mark of a `cache_control`; five minutes by default. */
export function readMark(
  mark: { readonly ttl?: '5m' | '1h' | null | undefined } | null | undefined,
): CacheMark | undefined {
  return mark == null ? undefined : { ttl: mark.ttl ?? '5m' }
}

/** OpenAI's mark: it has no lifetime of its own, which is the whole request's (`prompt_cache_options`). */
export const cacheBreakpoint = z.looseObject({ mode: z.string() }).nullish()

/** The mark of a part, in whosever words; one of each is Anthropic's with OpenAI's beside it. */
export function readPartMark(part: {
  readonly cache_control?: WireCacheControl
  readonly prompt_cache_breakpoint?: z.infer<typeof cacheBreakpoint>
}): CacheMark | undefined {
  const { cache_control: mark, prompt_cache_breakpoint: breakpoint } = part
  if (breakpoint == null) return readMark(mark)
  return { ttl: mark?.ttl ?? '5m', breakpoint: breakpoint as JsonObject }
}

/** The parts with the last one marked that can carry a mark. */
export function markLast(parts: readonly ContentPart[], mark: CacheMark): ContentPart[] {
  const last = parts.findLastIndex((part) => 'cache' in part)
  return parts.map((part, at) => (at === last && 'cache' in part ? { ...part, cache: mark } : part))
}

/** Turns at the end of a conversation that are marked: the last one for the next call, the one before it to be found by this. */
const markedTurns = 2
const usual: CacheMark = { ttl: '5m' }

/**
 * The request with the tools, the instructions and the last two turns of the user marked: four marks, as many as Claude
 * takes. A request with a mark of its client's own is left as it is.
 */
export function withCacheMarks(request: ChatRequest): ChatRequest {
  const { tools, messages } = request
  if (request.rest['cache_control'] !== undefined || tools.some(isMarked)) return request
  if (messages.some(hasMark)) return request
  const marked = new Set<number>()
  const instructions = messages.findLastIndex(isInstruction)
  if (instructions >= 0) marked.add(instructions)
  let turns = 0
  // Results and words after one answer are one turn.
  for (let at = messages.length - 1; at >= 0 && turns < markedTurns; at--) {
    const isEnd = at === messages.length - 1 || messages[at + 1]!.role === 'assistant'
    const { role } = messages[at]!
    if (!isEnd || (role !== 'user' && role !== 'tool')) continue
    marked.add(at)
    turns += 1
  }
  return {
    ...request,
    tools: tools.map((tool, at) => (at === tools.length - 1 ? { ...tool, cache: usual } : tool)),
    messages: messages.map((message, at): Message => {
      if (!marked.has(at)) return message
      return { ...message, content: markLast(message.content, usual) }
    }),
  }
}

function hasMark(message: Message): boolean {
  if (message.content.some(isMarked)) return true
  return message.role === 'assistant' && message.toolCalls.some(({ cache }) => cache !== undefined)
}

function isMarked(marked: ContentPart | FunctionTool): boolean {
  return 'cache' in marked && marked.cache !== undefined
}

function isInstruction({ role }: Message): boolean {
  return role === 'system' || role === 'developer'
}
