// Content of a message as clients of chat completions write it, in the words of the conversation.

import type { CacheMark, ContentPart, MediaSource } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import type { WireCacheControl, WirePart } from './schema.ts'

/** The content of a message, string or parts. `param` names it in errors: `messages[0].content`. */
export function readContent(
  content: string | readonly WirePart[] | null | undefined,
  mark: WireCacheControl,
  param: string,
): ContentPart[] {
  if (content == null) return []
  const parts: ContentPart[] =
    typeof content === 'string'
      ? content === ''
        ? []
        : [{ kind: 'text', text: content, cache: undefined }]
      : content.map((part, i) => readPart(part, `${param}[${i}]`))
  return mark == null ? parts : markLast(parts, mark)
}

/** A mark on the message stands for one on its last part that can carry it. */
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

export function fileSource(
  file: Pick<Extract<WirePart, { type: 'file' }>['file'], 'file_data' | 'file_id' | 'file_url' | 'filename'>,
  param: string,
): MediaSource {
  if (file.file_data != null) {
    if (file.file_data.startsWith('data:')) return mediaSource(file.file_data, `${param}.file_data`)
    return { kind: 'base64', mediaType: mediaTypeOf(file.filename ?? ''), data: file.file_data }
  }
  if (file.file_id != null) return { kind: 'provider-file', id: file.file_id }
  // The schema lets no file through that has none of the three.
  return mediaSource(file.file_url ?? '', `${param}.file_url`)
}

/** File types that providers take, for bare base64 whose only hint is the file's name. */
const mediaTypes: Readonly<Record<string, string>> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  xml: 'application/xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  docx: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
}

function mediaTypeOf(filename: string): string {
  const extension = filename.slice(filename.lastIndexOf('.') + 1).toLowerCase()
  return Object.hasOwn(mediaTypes, extension) ? mediaTypes[extension]! : 'application/pdf'
}

/** A URL as it is, or the bytes of a `data:` URL. Megabytes may follow the comma: only the head is looked at. */
export function mediaSource(url: string, param: string): MediaSource {
  if (!/^data:/i.test(url)) return { kind: 'url', url }
  const comma = url.indexOf(',')
  if (comma === -1 || comma > 1024 || comma === url.length - 1) {
    throw new GatewayError('invalid_request', { message: `'${param}' is not a valid data: URL.`, param })
  }
  const [mediaType, ...attributes] = url.slice('data:'.length, comma).split(';')
  const type = mediaType === undefined || mediaType === '' ? 'text/plain' : mediaType.toLowerCase()
  const data = url.slice(comma + 1)
  if (attributes.some((attribute) => attribute.trim().toLowerCase() === 'base64')) {
    return { kind: 'base64', mediaType: type, data }
  }
  try {
    return { kind: 'base64', mediaType: type, data: Buffer.from(decodeURIComponent(data)).toString('base64') }
  } catch (cause) {
    throw new GatewayError('invalid_request', {
      message: `'${param}' is not a valid data: URL.`,
      param,
      cause,
    })
  }
}
