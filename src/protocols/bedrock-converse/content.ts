// Translates parts of a message to content blocks. Media are bytes, never addresses.

import type { CacheMark, ContentPart, JsonObject } from '../../conversation/request.ts'
import { entryOf } from '../json.ts'
import { isBlank, refusePart } from '../lowering.ts'
import type { DocumentNames } from './names.ts'

const imageFormats: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

const documentFormats: Readonly<Record<string, string>> = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'text/html': 'html',
  'text/plain': 'txt',
  'application/json': 'txt',
  'text/markdown': 'md',
}

const videoFormats: Readonly<Record<string, string>> = {
  'video/mp4': 'mp4',
  'video/quicktime': 'mov',
  'video/x-matroska': 'mkv',
  'video/webm': 'webm',
  'video/x-flv': 'flv',
  'video/mpeg': 'mpeg',
  'video/x-ms-wmv': 'wmv',
  'video/3gpp': 'three_gp',
}

const takes = 'text, images, documents and video'

/**
 * The blocks of these parts, in order, each cache mark in a block after its own. Blank text is dropped because the API
 * refuses it. Throws GatewayError `unsupported_parameter` for media that Bedrock does not accept.
 */
export function blocksOf(parts: readonly ContentPart[], param: string, names: DocumentNames): JsonObject[] {
  const blocks = parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
        return isBlank(part.text) ? [] : [{ text: part.text }, ...cachePoint(part.cache)]
      case 'refusal':
        return isBlank(part.text) ? [] : [{ text: part.text }]
      case 'image':
      case 'file':
        return [mediaBlock(part, param, names), ...cachePoint(part.cache)]
      case 'video':
        return [mediaBlock(part, param, names)]
      default:
        return refusePart(part, param, takes)
    }
  })
  // A message with a document but without text is refused.
  const withoutText = blocks.some((block) => 'document' in block) && !blocks.some((block) => 'text' in block)
  return withoutText ? [{ text: 'See the document.' }, ...blocks] : blocks
}

export function cachePoint(mark: CacheMark | undefined): JsonObject[] {
  if (mark === undefined) return []
  return [{ cachePoint: { type: 'default', ...(mark.ttl === '1h' ? { ttl: '1h' } : {}) } }]
}

function mediaBlock(
  part: Extract<ContentPart, { kind: 'image' | 'file' | 'video' }>,
  param: string,
  names: DocumentNames,
): JsonObject {
  if (part.source.kind !== 'base64') return refusePart(part, param, takes)
  const { data: bytes } = part.source
  const mediaType = part.source.mediaType.split(';')[0]!.trim().toLowerCase()
  const image = entryOf(imageFormats, mediaType)
  if (image !== undefined) return { image: { format: image, source: { bytes } } }
  const video = entryOf(videoFormats, mediaType)
  if (video !== undefined) return { video: { format: video, source: { bytes } } }
  const document = entryOf(documentFormats, mediaType) ?? (mediaType.startsWith('text/') ? 'txt' : undefined)
  if (document === undefined || part.kind === 'image') {
    return refusePart(part, param, `${takes} of the usual types (not ${mediaType})`)
  }
  const name = names.next(part.kind === 'file' ? part.filename : undefined)
  return { document: { format: document, name, source: { bytes } } }
}
