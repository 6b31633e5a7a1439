// The wire format of what whole answers and stream chunks share.

import type { Annotation, AudioDelta } from '../../conversation/event.ts'
import type { Json, JsonObject, MediaSource, ReasoningDetail } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isJson } from '../lenient.ts'

export function wireAnnotation(annotation: Annotation): JsonObject {
  const { url, title, start, end } = annotation
  return { type: 'url_citation', url_citation: { url, title, start_index: start, end_index: end } }
}

export function wireImage(image: { readonly mediaType: string; readonly data: string }): JsonObject {
  return { type: 'image_url', image_url: { url: `data:${image.mediaType};base64,${image.data}` } }
}

export function wireAudio(audio: AudioDelta): JsonObject {
  return {
    ...(audio.id === undefined ? {} : { id: audio.id }),
    ...(audio.data === undefined ? {} : { data: audio.data }),
    ...(audio.transcript === undefined ? {} : { transcript: audio.transcript }),
    ...(audio.expiresAt === undefined ? {} : { expires_at: audio.expiresAt }),
  }
}

/** Log probabilities; an empty list is null, as OpenAI writes it. */
export function wireLogprobs(logprobs: {
  readonly content: readonly Json[]
  readonly refusal: readonly Json[]
}): JsonObject {
  const list = (entries: readonly Json[]) => (entries.length === 0 ? null : [...entries])
  return { content: list(logprobs.content), refusal: list(logprobs.refusal) }
}

/** The part of a detail that a person can read: what `reasoning_content` is made of. */
export function readableReasoning(detail: ReasoningDetail): string {
  return detail.type === 'reasoning.summary' ? (detail.summary ?? '') : (detail.text ?? '')
}

export function wireDetail(detail: ReasoningDetail): JsonObject {
  return { ...detail } as JsonObject
}

/** Gemini's thought signature where Google's chat-completions endpoint has it; empty without one. */
export function wireSignature(signature: string | undefined): JsonObject {
  return signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } }
}

/** Whether there are calls, and whether the arguments of all are whole: what the finish reason depends on. */
export function callsState(calls: readonly string[]): 'none' | 'whole' | 'partial' {
  if (calls.length === 0) return 'none'
  return calls.every((json) => json === '' || isJson(json)) ? 'whole' : 'partial'
}

export function wireWarnings(
  warnings: readonly { readonly param: string; readonly message: string }[],
): JsonObject {
  return warnings.length === 0 ? {} : { warnings: warnings.map(({ param, message }) => ({ param, message })) }
}

// Images and files as clients of OpenAI's protocols send them: addresses, `data:` URLs, ids and bare base64.

/** What a client says of a file: its bytes, an id or an address, one of them at least. */
interface WireFile {
  readonly file_data?: string | null | undefined
  readonly file_id?: string | null | undefined
  readonly file_url?: string | null | undefined
  readonly filename?: string | null | undefined
}

export function fileSource(file: WireFile, param: string): MediaSource {
  if (file.file_data != null) {
    // Base64 has no colon.
    if (/^(data|https?):/i.test(file.file_data)) return mediaSource(file.file_data, `${param}.file_data`)
    return { kind: 'base64', mediaType: mediaTypeOf(file.filename ?? ''), data: file.file_data }
  }
  if (file.file_id != null) return { kind: 'provider-file', id: file.file_id }
  // The schema requires one of the three.
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
