// The wire format of what whole answers and stream chunks share.

import type { Annotation, AudioDelta } from '../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../conversation/request.ts'
import { isJson } from '../json.ts'

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
