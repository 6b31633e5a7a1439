// What of a client's body makes the tokens of its prompt: its texts, its media, and which of them the model reads. How
// many tokens they make is not decided here.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject } from '../json.ts'

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

export interface PromptContent extends PromptMedia {
  /** Texts that come as the tokens they are, to be embedded. */
  readonly tokenIds: number
  /** Every other text, and the names of all members. */
  readonly texts: readonly string[]
}

export interface PromptReading {
  readonly texts: readonly string[]
  /** Messages or input items; none where the body holds texts only. */
  readonly messages: number
  /** The content of these messages alone; of the whole body where there are none. */
  readonly content: PromptContent
}

/** Where a protocol's body holds what the model reads. */
export interface PromptFields {
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

function addReadTexts(value: Json, key: string, texts: string[]): void {
  if (typeof value === 'string') {
    if (!unread.has(key)) texts.push(value)
  } else if (Array.isArray(value)) {
    for (const item of value) addReadTexts(item, key, texts)
  } else if (typeof value === 'object' && value !== null) {
    // The model is shown the input of a call as JSON, and the text of a document as it is.
    if (key === 'input') addJson(value, texts)
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
    for (const item of value) walk(item, key, found)
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
    // A picture that a model made stands there as bare base64.
    if (type === 'image_generation_call' && name === 'result') found.inlineLength += lengthOf(member)
    else if (name === 'data' && typeof member === 'string') addData(member, value, found)
    else walk(member, name, found)
  }
}

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

function lengthOf(value: Json | undefined): number {
  return typeof value === 'string' ? value.length : 0
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
