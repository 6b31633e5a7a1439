// Converts the result of an MCP tool to text and images for a model.

import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client'
import type { ToolImage } from '../../conversation/gateway-tools.ts'
import type { Json } from '../../conversation/request.ts'
import { hasLongInteger, parseExact } from '../../json/exact.ts'
import { plain } from './fault.ts'

/** Longer texts are cut, characters: the caller pays for everything the model reads, in every round. */
const mostCharacters = 100_000
/** More of them are left out. */
const mostImages = 10

export interface CallResult {
  /** Never empty. */
  readonly text: string
  readonly images: readonly ToolImage[]
  /** The tool reports its own failure; `text` gives the reason. */
  readonly isError: boolean
  /** The structured result, if the tool returned one. */
  readonly structured: Json | undefined
}

/** How images begin that models accept, as Latin-1. Other media are named in the text. */
const imageSignatures: readonly (readonly [mediaType: string, signature: RegExp])[] = [
  ['image/png', /^\x89PNG\r\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
]

/** Where a result has its structured content as exact text: the library reads integers beyond 2^53 as doubles. */
const exactText = 'weir/structured-content'

/** A message of a server on its way to the library, so that `callResult` can tell long integers exactly. */
export function withExactText(message: string): string {
  if (!message.includes('"structuredContent"') || !hasLongInteger(message)) return message
  const read = parseMessage(message)
  const { result } = read
  if (typeof result?.structuredContent !== 'object') return message
  const _meta = { ...result._meta, [exactText]: JSON.stringify(result.structuredContent) }
  return JSON.stringify({ ...read, result: { ...result, _meta } })
}

/** The library complains of what is no JSON. */
function parseMessage(message: string): { readonly result?: CallToolResult } {
  try {
    return { ...(parseExact(message) as object) }
  } catch {
    return {}
  }
}

export function callResult({ content, structuredContent, isError, _meta }: CallToolResult): CallResult {
  const images: ToolImage[] = []
  const texts = (content ?? []).map((block) => textOf(block, images)).filter((text) => text !== '')
  // Tools that return structured results should repeat them as text; not all do.
  if (texts.length === 0 && structuredContent !== undefined)
    texts.push(String(_meta?.[exactText] ?? JSON.stringify(structuredContent)))
  if (texts.length === 0) texts.push(images.length > 0 ? '(see image)' : '(the tool gave no output)')
  const structured = structuredContent as Json | undefined
  // Half a character would make the provider refuse the whole request.
  return { text: cut(texts.join('\n')).toWellFormed(), images, isError: isError === true, structured }
}

function textOf(block: ContentBlock, images: ToolImage[]): string {
  switch (block.type) {
    case 'text':
      return block.text
    case 'image':
      return imageOf(block.mimeType, block.data, images)
    case 'audio':
      return leftOut('audio', block.mimeType, block.data)
    case 'resource_link':
      return `${plain(block.title ?? block.name)}: ${plain(block.uri)}`
    case 'resource': {
      const { resource } = block
      if ('text' in resource) return `${plain(resource.uri)}:\n${resource.text}`
      const mediaType = resource.mimeType ?? 'application/octet-stream'
      return /^image\//i.test(mediaType)
        ? imageOf(mediaType, resource.blob, images)
        : leftOut('resource', mediaType, resource.blob)
    }
    default:
      return ''
  }
}

function imageOf(mediaType: string, data: string, images: ToolImage[]): string {
  const type = isBase64(data) ? imageTypeOf(data) : undefined
  if (type === undefined || images.length >= mostImages) return leftOut('image', mediaType, data)
  images.push({ mediaType: type, data })
  return ''
}

/** What an image is. Servers name wrong types, for which providers refuse the whole request; undefined for no image. */
function imageTypeOf(data: string): string | undefined {
  const start = Buffer.from(data.slice(0, 16), 'base64').toString('latin1')
  return imageSignatures.find(([, signature]) => signature.test(start))?.[0]
}

function isBase64(text: string): boolean {
  return text.length > 0 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text)
}

function leftOut(kind: string, mediaType: string, data: string): string {
  return `(${kind} of type ${plain(mediaType).slice(0, 80)}, ${Math.floor((data.length * 3) / 4)} bytes, left out)`
}

function cut(text: string): string {
  if (text.length <= mostCharacters) return text
  return `${text.slice(0, mostCharacters)}\n(cut after ${mostCharacters} of ${text.length} characters)`
}
