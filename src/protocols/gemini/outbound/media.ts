// Images, audio, video and files for Gemini: inline bytes, or an address that Google can reach.

import type { ContentPart, JsonObject, MediaSource } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { entryOf } from '../../json.ts'
import type { GeminiQuirks } from './quirks.ts'

type Media = Extract<ContentPart, { kind: 'image' | 'audio' | 'file' | 'video' }>

/** Where the Files API stores uploads; `files/<id>` is short for an address below it. */
const filesApi = 'https://generativelanguage.googleapis.com/v1beta/'

/** Whether Google reads this address itself: Cloud Storage, Files API, YouTube; with `any` (Vertex) every http. */
export function readsUrl(url: string, reads: GeminiQuirks['readsUrls']): boolean {
  if (url.startsWith('gs://') || url.startsWith(`${filesApi}files/`)) return true
  if (/^https:\/\/(?:(?:www|m)\.)?(?:youtube\.com\/watch\?|youtu\.be\/)/.test(url)) return true
  return reads === 'any' && /^https?:\/\//.test(url)
}

/**
 * The part for a medium. `param` names the message in errors: an address that was not inlined and that Google does not
 * read is `unsupported_parameter`.
 */
export function mediaPart(media: Media, reads: GeminiQuirks['readsUrls'], param: string): JsonObject {
  if (media.kind === 'audio') return inline(audioType(media.format), media.data)
  return sourcePart(media.source, media.kind, reads, param)
}

function sourcePart(
  source: MediaSource,
  kind: 'image' | 'file' | 'video',
  reads: GeminiQuirks['readsUrls'],
  param: string,
): JsonObject {
  switch (source.kind) {
    case 'base64':
      return inline(source.mediaType, source.data)
    case 'provider-file':
      return fileData(source.id.startsWith('files/') ? filesApi + source.id : source.id, undefined)
    case 'url':
      if (readsUrl(source.url, reads)) return fileData(source.url, typeOfAddress(source.url, kind))
      throw new GatewayError('unsupported_parameter', {
        message: `The provider cannot read the ${kind} at this address; send it inline as base64.`,
        param,
      })
    default:
      return source satisfies never
  }
}

function inline(mediaType: string, data: string): JsonObject {
  // Some clients send the file extension as the type.
  return { inlineData: { mimeType: mediaType === 'image/jpg' ? 'image/jpeg' : mediaType, data } }
}

function fileData(fileUri: string, mimeType: string | undefined): JsonObject {
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri } }
}

const typesByEnding: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  gif: 'image/gif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  mp4: 'video/mp4',
  mov: 'video/mov',
  webm: 'video/webm',
  mpeg: 'video/mpeg',
  mp3: 'audio/mp3',
  wav: 'audio/wav',
}

/** The type by an address's extension. A video without one is on YouTube: Google expects `video/mp4`. */
function typeOfAddress(url: string, kind: 'image' | 'file' | 'video'): string | undefined {
  const ending = /\.([a-z0-9]{2,5})(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? ''
  return typesByEnding[ending] ?? (kind === 'video' ? 'video/mp4' : undefined)
}

const audioTypes: Readonly<Record<string, string>> = {
  m4a: 'audio/mp4',
  pcm16: 'audio/L16;rate=24000',
}

function audioType(format: string): string {
  return entryOf(audioTypes, format) ?? `audio/${format}`
}
