// Translates parts of a message to content blocks.

import type { ContentPart, JsonObject, MediaSource } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isBlank } from '../../lowering.ts'
import { cacheControl } from './schema.ts'

type Part<K extends ContentPart['kind']> = Extract<ContentPart, { kind: K }>

/**
 * The blocks of these parts, in order. Blank text is dropped because the API refuses it. `param` names the message in
 * errors. Throws GatewayError `unsupported_parameter` for media that Claude does not accept.
 */
export function blocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text, ...cacheControl(part.cache) }]
      case 'refusal':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text }]
      case 'image':
        return [imageBlock(part, param)]
      case 'file':
        return [fileBlock(part, param)]
      case 'audio':
      case 'video':
        throw new GatewayError('unsupported_parameter', {
          message: `This model's provider takes no ${part.kind}.`,
          param,
        })
      default:
        return part satisfies never
    }
  })
}

/** Text blocks for parts that must all be text (system messages). Throws for any other part. */
export function textBlocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  const other = parts.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (other !== undefined) {
    throw new GatewayError('unsupported_parameter', {
      message: `This model's provider takes only text here, not ${other.kind}.`,
      param,
    })
  }
  return blocksOf(parts, param)
}

const imageTypes: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

function imageBlock({ source, cache }: Part<'image' | 'file'>, param: string): JsonObject {
  const stated = mediaTypeOf(source)
  // Some clients send the file extension as the type.
  const mediaType = stated === 'image/jpg' ? 'image/jpeg' : stated
  if (mediaType !== undefined && !imageTypes.has(mediaType)) {
    throw new GatewayError('unsupported_parameter', {
      message: `This model's provider takes JPEG, PNG, GIF and WebP images, not ${mediaType}.`,
      param,
    })
  }
  const wire = sourceOf(source)
  return {
    type: 'image',
    source: mediaType === undefined ? wire : { ...wire, media_type: mediaType },
    ...cacheControl(cache),
  }
}

/** The media type in lower case and without parameters; undefined for an address. */
function mediaTypeOf(source: MediaSource): string | undefined {
  return source.kind === 'base64' ? source.mediaType.split(';')[0]!.trim().toLowerCase() : undefined
}

function fileBlock(part: Part<'file'>, param: string): JsonObject {
  const { source } = part
  const mediaType = mediaTypeOf(source)
  if (mediaType?.startsWith('image/')) return imageBlock(part, param)
  return {
    type: 'document',
    source: documentSource(source, mediaType, param),
    ...(part.filename === undefined ? {} : { title: part.filename }),
    ...(part.context === undefined ? {} : { context: part.context }),
    ...cacheControl(part.cache),
  }
}

function documentSource(source: MediaSource, mediaType: string | undefined, param: string): JsonObject {
  if (source.kind !== 'base64' || mediaType === 'application/pdf') return sourceOf(source)
  if (mediaType?.startsWith('text/') || mediaType === 'application/json') {
    // The document block only has plain text.
    return {
      type: 'text',
      media_type: 'text/plain',
      data: Buffer.from(source.data, 'base64').toString('utf8'),
    }
  }
  throw new GatewayError('unsupported_parameter', {
    message: `This model's provider takes PDF, text and image files, not ${source.mediaType}.`,
    param,
  })
}

function sourceOf(source: MediaSource): JsonObject {
  switch (source.kind) {
    case 'url':
      return { type: 'url', url: source.url }
    case 'base64':
      return { type: 'base64', media_type: source.mediaType, data: source.data }
    case 'provider-file':
      return { type: 'file', file_id: source.id }
    default:
      return source satisfies never
  }
}
