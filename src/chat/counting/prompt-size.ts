// How many tokens a prompt can have at the most, before any provider has counted it.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { tokensIn } from './exact-count.ts'

/** Upper figures for media, whose bytes say little about their tokens. */
const imageTokens = 6_000
const audioBytesPerToken = 100
const fileBytesPerToken = 4

/** Tokenizers differ: the densest in use makes about this many tokens of one of o200k_base. */
const tokenizerMargin = 1.6
/** Roles, separators and what a provider adds around messages and tools. */
const overheadTokens = 200
/** What a body holds: the bytes of inline media, the tokens they can make, and all its text. */
interface Content {
  mediaBytes: number
  mediaTokens: number
  /** Texts that come as the tokens they are, to be embedded. */
  tokenIds: number
  texts: string[]
}

/**
 * An upper bound of the prompt's tokens for a request body: a token is at least one byte of text, so the length of
 * the JSON bounds the text; inline media, whose base64 would count a thousandfold, is bounded apart.
 */
export function promptBound(body: JsonObject, bodyBytes: number): number {
  const content = contentOf(body)
  return Math.max(0, bodyBytes - content.mediaBytes) + content.mediaTokens
}

/** A guess of the prompt's tokens: four bytes of text to a token, as English averages. */
export function promptGuess(body: JsonObject, bodyBytes: number): number {
  const content = contentOf(body)
  return Math.ceil(Math.max(0, bodyBytes - content.mediaBytes) / 4) + Math.ceil(content.mediaTokens / 4)
}

/** A tighter upper bound, by counting tokens: for callers whose credit the quick bound would exceed. */
export async function tokenBound(body: JsonObject, bodyBytes: number): Promise<number> {
  const content = contentOf(body)
  const counted = Math.ceil((await tokensIn(content.texts.join('\n'))) * tokenizerMargin)
  const apart = content.mediaTokens + content.tokenIds
  return Math.min(counted + overheadTokens + apart, promptBound(body, bodyBytes))
}

/**
 * The prompt's tokens as near as they can be told without the provider: for an answer it has not counted. What the
 * model reads is counted, and the few tokens that chat formats put around each message.
 */
export async function promptCount(body: JsonObject): Promise<number> {
  const messages = Array.isArray(body.messages) ? body.messages : itemsOf(body.input)
  const read = [
    ...messages.flatMap((message) => readTexts(message)),
    ...readTexts(body.system ?? null),
    ...(messages.length === 0 ? readTexts(body.input ?? null) : []),
    ...readTexts(body.instructions ?? null),
    ...declared.flatMap((field) => jsonOf(body[field])),
  ]
  const framing = messages.length === 0 ? 0 : messages.length * tokensPerMessage + tokensPerPrompt
  const { mediaTokens, tokenIds } = contentOf(messages.length === 0 ? body : { messages })
  return (await tokensIn(read.join('\n'))) + framing + Math.ceil(mediaTokens / 4) + tokenIds
}

/** The input items of a response; texts to be embedded are none. */
function itemsOf(input: Json | undefined): Json[] {
  return Array.isArray(input) && typeof input[0] === 'object' && !Array.isArray(input[0]) ? input : []
}

/** What is put before the model as JSON. */
const declared = ['tools', 'functions', 'response_format', 'output_config', 'output_format', 'text'] as const
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
/** ChatML's own tokens, as OpenAI counts them: around each message, and before the answer. */
const tokensPerMessage = 3
const tokensPerPrompt = 3

function readTexts(value: Json, key = ''): string[] {
  if (typeof value === 'string') return unread.has(key) ? [] : [value]
  if (Array.isArray(value)) return value.flatMap((item) => readTexts(item, key))
  if (typeof value !== 'object' || value === null) return []
  // The model is shown the input of a call as JSON, and the text of a document as it is.
  if (key === 'input') return jsonOf(value)
  if (value.type === 'text' && typeof value.data === 'string') return [value.data]
  return Object.entries(value).flatMap(([name, member]) => readTexts(member, name))
}

function jsonOf(value: Json | undefined): string[] {
  return value === undefined || value === null ? [] : [JSON.stringify(value)]
}

function contentOf(body: JsonObject): Content {
  const content: Content = { mediaBytes: 0, mediaTokens: 0, tokenIds: 0, texts: [] }
  walk(body, '', content)
  return content
}

function walk(value: Json | undefined, key: string, content: Content): void {
  if (typeof value === 'string') return measure(value, key, content)
  if (Array.isArray(value)) {
    if (typeof value[0] === 'number') content.tokenIds += value.length
    for (const item of value) walk(item, key, content)
    return
  }
  if (typeof value !== 'object' || value === null) return
  const { type } = value
  if (typeof type === 'string' && imageTypes.has(type)) content.mediaTokens += imageTokens
  for (const name in value) {
    content.texts.push(name)
    const member = value[name]
    // A picture that a model made stands there as bare base64.
    if (type === 'image_generation_call' && name === 'result') content.mediaBytes += lengthOf(member)
    else if (name === 'data' && typeof member === 'string') measureData(member, value, content)
    else walk(member, name, content)
  }
}

/** What stands in `data`: Anthropic's sources say what it is, and so does a block of thoughts that nobody may read. */
function measureData(text: string, { type, media_type: mediaType }: JsonObject, content: Content): void {
  if (type === 'text' || type === 'redacted_thinking') content.texts.push(text)
  else if (type !== 'base64') measure(text, 'data', content)
  else addMedia(text, isImage(mediaType) ? 'image' : 'file', content)
}

function isImage(mediaType: Json | undefined): boolean {
  return typeof mediaType === 'string' && mediaType.startsWith('image/')
}

const imageTypes: ReadonlySet<string> = new Set([
  'image_url',
  'image',
  'input_image',
  'image_generation_call',
])

function lengthOf(value: Json | undefined): number {
  return typeof value === 'string' ? value.length : 0
}

function measure(text: string, key: string, content: Content): void {
  const inline = text.startsWith('data:')
  if (!inline && key !== 'data' && key !== 'file_data') {
    content.texts.push(text)
  } else if (text.startsWith('data:image/')) {
    addMedia(text, 'image', content)
  } else {
    addMedia(text, key === 'data' || text.startsWith('data:audio/') ? 'audio' : 'file', content)
  }
}

/** Base64, or a `data:` URL that ends in it. An image's tokens are counted where its part is. */
function addMedia(text: string, kind: 'image' | 'audio' | 'file', content: Content): void {
  content.mediaBytes += text.length
  if (kind === 'image') return
  const encoded = text.startsWith('data:') ? text.length - text.indexOf(',') - 1 : text.length
  const bytes = (encoded * 3) / 4
  content.mediaTokens += Math.ceil(bytes / (kind === 'audio' ? audioBytesPerToken : fileBytesPerToken))
}
