// Reads message content of chat completions.

import type { CacheMark, ContentPart } from '../../../conversation/request.ts'
import { fileSource, mediaSource } from '../../openai/media.ts'
import type { WireCacheControl, WirePart } from './schema.ts'

/** Reads content, a string or parts, of the message `at` this place. Throws GatewayError for an invalid `data:` URL. */
export function readContent(
  content: string | readonly WirePart[] | null | undefined,
  mark: WireCacheControl,
  at: number,
): ContentPart[] {
  if (content == null) return []
  const parts = typeof content === 'string' ? readText(content) : readParts(content, at)
  return mark == null ? parts : markLast(parts, mark)
}

function readText(text: string): ContentPart[] {
  return text === '' ? [] : [{ kind: 'text', text, cache: undefined }]
}

function readParts(parts: readonly WirePart[], at: number): ContentPart[] {
  return parts.map((part, i) => readPart(part, `messages[${at}].content[${i}]`))
}

/** A mark on the message applies to its last part that can carry one. */
function markLast(parts: ContentPart[], mark: NonNullable<WireCacheControl>): ContentPart[] {
  const last = parts.findLastIndex((part) => 'cache' in part)
  return parts.map((part, i) => (i === last && 'cache' in part ? { ...part, cache: readMark(mark) } : part))
}

export function readMark(mark: WireCacheControl): CacheMark | undefined {
  return mark == null ? undefined : { ttl: mark.ttl ?? '5m' }
}

function readPart(part: WirePart, param: string): ContentPart {
  switch (part.type) {
    case 'text':
      return { kind: 'text', text: part.text, cache: readMark(part.cache_control) }
    case 'refusal':
      return { kind: 'refusal', text: part.refusal }
    case 'image_url':
      return {
        kind: 'image',
        source: mediaSource(part.image_url.url, `${param}.image_url.url`),
        detail: part.image_url.detail ?? undefined,
        cache: readMark(part.cache_control),
      }
    case 'input_audio':
      return { kind: 'audio', format: part.input_audio.format, data: part.input_audio.data }
    case 'file':
      return {
        kind: 'file',
        source: fileSource(part.file, `${param}.file`),
        filename: part.file.filename ?? undefined,
        cache: readMark(part.cache_control),
      }
    case 'video_url':
      return { kind: 'video', source: mediaSource(part.video_url.url, `${param}.video_url.url`) }
    default:
      return part satisfies never
  }
}
