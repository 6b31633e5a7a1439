// How many tokens a prompt can have at the most, before any provider has counted it.

import type { Json, JsonObject } from '../conversation/request.ts'

/** Upper figures for media, whose bytes say little about their tokens. */
const imageTokens = 6_000
const audioBytesPerToken = 100
const fileBytesPerToken = 4

/** Tokenizers differ: the densest in use makes about this many tokens of one of o200k_base. */
const tokenizerMargin = 1.6
/** Roles, separators and what a provider adds around messages and tools. */
const overheadTokens = 200
/** Every tokenizer is quadratic on long unbroken runs; slices of this many characters keep it linear. */
const sliceCharacters = 512
/** Above this size counting would hold up the other calls; the quick figure serves instead. */
const countableCharacters = 400_000

/** What a body holds: the bytes of inline media, the tokens they can make, and all its text. */
interface Content {
  mediaBytes: number
  mediaTokens: number
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
  const text = content.texts.join('\n')
  if (text.length > countableCharacters) return promptBound(body, bodyBytes)
  const { countTokens } = await import('gpt-tokenizer/encoding/o200k_base')
  let tokens = 0
  for (let at = 0; at < text.length; at += sliceCharacters)
    tokens += countTokens(text.slice(at, at + sliceCharacters))
  return Math.ceil(tokens * tokenizerMargin) + overheadTokens + content.mediaTokens
}

function contentOf(body: JsonObject): Content {
  const content: Content = { mediaBytes: 0, mediaTokens: 0, texts: [] }
  walk(body, '', content)
  return content
}

function walk(value: Json | undefined, key: string, content: Content): void {
  if (typeof value === 'string') return measure(value, key, content)
  if (Array.isArray(value)) {
    for (const item of value) walk(item, key, content)
    return
  }
  if (typeof value !== 'object' || value === null) return
  const { type } = value
  if (type === 'image_url' || type === 'image' || type === 'input_image') content.mediaTokens += imageTokens
  for (const name in value) {
    content.texts.push(name)
    walk(value[name], name, content)
  }
}

function measure(text: string, key: string, content: Content): void {
  const inline = text.startsWith('data:')
  if (!inline && key !== 'data' && key !== 'file_data') {
    content.texts.push(text)
    return
  }
  content.mediaBytes += text.length
  if (text.startsWith('data:image/')) return
  const bytes = ((inline ? text.length - text.indexOf(',') - 1 : text.length) * 3) / 4
  const audio = key === 'data' || text.startsWith('data:audio/')
  content.mediaTokens += Math.ceil(bytes / (audio ? audioBytesPerToken : fileBytesPerToken))
}
