// Translates Gemini turns to chat messages, and matches function results with their calls.

import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { unsupportedParam } from '../../request/invalid-param.ts'
import { mintCallId } from '../call-id.ts'
import { carry, opaqueParts, signatureFormat } from '../signatures.ts'
import type { ClientContent, ClientPart } from './schema.ts'
import { detailOfThought, isForeign, isGoogles, thoughtsOfCall } from './thoughts.ts'

/** A call in the history. */
interface OpenCall {
  readonly id: string
  readonly name: string
  /** Whether the id is ours, because the client sent none. */
  readonly isMinted: boolean
}

/** The calls without a result so far, oldest first, under their ids and their names. */
class OpenCalls {
  readonly #byId = new Map<string, OpenCall[]>()
  readonly #byName = new Map<string, OpenCall[]>()
  /** Those that came without an id, by name. */
  readonly #unnumbered = new Map<string, OpenCall[]>()
  readonly #taken = new Set<OpenCall>()

  add(call: OpenCall): void {
    const places = [
      call.isMinted ? ([this.#unnumbered, call.name] as const) : ([this.#byId, call.id] as const),
      [this.#byName, call.name] as const,
    ]
    for (const [calls, key] of places) {
      const same = calls.get(key)
      if (same) same.push(call)
      else calls.set(key, [call])
    }
  }

  /** The oldest with this id, or of this name if one of the two has no id. */
  take(id: string | null | undefined, name: string): OpenCall | undefined {
    const calls =
      (id == null ? this.#byName.get(name) : (this.#byId.get(id) ?? this.#unnumbered.get(name))) ?? []
    while (calls.length > 0 && this.#taken.has(calls[0]!)) calls.shift()
    const call = calls.shift()
    if (call) this.#taken.add(call)
    return call
  }
}

/** All turns as chat messages, each with its turn. Throws `invalid_request` naming what cannot be read. */
export function messagesOf(contents: readonly ClientContent[]): { message: JsonObject; param: string }[] {
  const open = new OpenCalls()
  return turnsOf(contents).flatMap((turn) => {
    const messages = turn.role === 'model' ? [modelMessage(turn, open)] : userMessages(turn, open)
    return messages.map((message) => ({ message, param: `contents[${turn.index}]` }))
  })
}

interface PlacedPart {
  readonly part: ClientPart
  /** Where it is in the client's body: `contents[2].parts[0]`. */
  readonly param: string
}

interface Turn {
  readonly role: ClientContent['role']
  /** Of its first content. */
  readonly index: number
  readonly parts: PlacedPart[]
}

/**
 * The contents as turns. Google's clients keep a streamed answer as one content for each of its chunks; these are one
 * turn of the model: its calls are answered together, and its thoughts belong to them.
 */
function turnsOf(contents: readonly ClientContent[]): Turn[] {
  const turns: Turn[] = []
  for (const [index, { role, parts }] of contents.entries()) {
    const placed = (parts ?? []).map((part, at) => ({ part, param: `contents[${index}].parts[${at}]` }))
    const last = turns.at(-1)
    if (role === 'model' && last?.role === 'model') last.parts.push(...placed)
    else turns.push({ role, index, parts: placed })
  }
  return turns
}

/** The texts of a system instruction. */
export function systemMessage(content: ClientContent): JsonObject | undefined {
  const text = (content.parts ?? []).map((part) => part.text ?? '').join('\n')
  return text === '' ? undefined : { role: 'system', content: text }
}

// ---- what the user said -----------------------------------------------------------------------------------

/** Results first, each as a message of its own, then the text beside them. */
function userMessages({ parts }: Turn, open: OpenCalls): JsonObject[] {
  const results: JsonObject[] = []
  const said: JsonObject[] = []
  for (const placed of parts) {
    if (placed.part.functionResponse != null) results.push(resultMessage(placed, open))
    else said.push(contentPart(placed))
  }
  return said.length === 0 ? results : [...results, { role: 'user', content: said }]
}

function resultMessage({ part, param }: PlacedPart, open: OpenCalls): JsonObject {
  const { id, name, response, parts } = part.functionResponse!
  const call = open.take(id, name)
  if (call === undefined) {
    throw new GatewayError('invalid_request', {
      message: `Invalid value for '${param}.functionResponse': no function call before it has that name.`,
      param: `${param}.functionResponse`,
    })
  }
  const media = (parts ?? []).map((each, at) =>
    contentPart({ part: each, param: `${param}.functionResponse.parts[${at}]` }),
  )
  const text = { type: 'text', text: resultText((response ?? {}) as JsonObject) }
  return {
    role: 'tool',
    tool_call_id: call.id,
    content: media.length === 0 ? text.text : [text, ...media],
    ...(isObjectOfOne(response, 'error') ? { is_error: true } : {}),
  }
}

/** Google's convention: `output` (`result` in its client libraries) is the function's result, `error` its failure. */
function resultText(response: JsonObject): string {
  for (const key of ['output', 'result', 'error']) {
    const value = response[key]
    if (typeof value === 'string' && isObjectOfOne(response, key)) return value
  }
  return JSON.stringify(response)
}

function isObjectOfOne(value: unknown, key: string): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).join() === key
}

function contentPart({ part, param }: PlacedPart): JsonObject {
  if (part.text != null) return { type: 'text', text: part.text }
  if (part.inlineData != null) return mediaPart(part.inlineData)
  if (part.fileData != null) return filePart(part.fileData)
  throw new GatewayError('invalid_request', {
    message: `Invalid value for '${param}': a part of this kind cannot be read here.`,
    param,
  })
}

function mediaPart({ mimeType, data }: { mimeType: string; data: string }): JsonObject {
  const url = `data:${mimeType};base64,${data}`
  if (mimeType.startsWith('image/')) return { type: 'image_url', image_url: { url } }
  if (mimeType.startsWith('video/')) return { type: 'video_url', video_url: { url } }
  if (!mimeType.startsWith('audio/')) return { type: 'file', file: { file_data: url } }
  const format = mimeType.slice('audio/'.length).split(';', 1)[0]!
  return { type: 'input_audio', input_audio: { data, format: format === 'mpeg' ? 'mp3' : format } }
}

/** A file by its address, or one uploaded to Google. */
function filePart({
  mimeType,
  fileUri,
}: {
  mimeType?: string | null | undefined
  fileUri: string
}): JsonObject {
  const type = mimeType ?? ''
  const isKept = !/^https?:/i.test(fileUri) || /\/v\d\w*\/files\/[^/]+$/.test(fileUri)
  if (isKept) return { type: 'file', file: { file_id: fileUri } }
  if (type.startsWith('image/')) return { type: 'image_url', image_url: { url: fileUri } }
  const isVideo =
    type.startsWith('video/') || /^https:\/\/((www|m)\.)?(youtube\.com|youtu\.be)\//.test(fileUri)
  if (isVideo) return { type: 'video_url', video_url: { url: fileUri } }
  return { type: 'file', file: { file_url: fileUri } }
}

// ---- what the model said ----------------------------------------------------------------------------------

function modelMessage({ index: turn, parts }: Turn, open: OpenCalls): JsonObject {
  let text = ''
  const calls: JsonObject[] = []
  const reasoning: ReasoningDetail[] = []
  /** Of other providers, on the calls that it led to. */
  const sealed: ReasoningDetail[] = []
  const images: JsonObject[] = []
  /** The last part, if it was a thought without a signature. */
  let unsigned: string | undefined
  for (const { part, param } of parts) {
    const signature = part.thoughtSignature ?? undefined
    const begun = unsigned
    unsigned = undefined
    const here = { start: text.length, end: text.length, calls: calls.length }
    if (part.functionCall != null) {
      const given = part.functionCall.id ?? undefined
      const id = given ?? mintCallId('history', turn, calls.length)
      open.add({ id, name: part.functionCall.name, isMinted: given === undefined })
      const thoughts = thoughtsOfCall(signature)
      if (thoughts !== undefined) sealed.push(...thoughts)
      calls.push({
        id,
        type: 'function',
        function: { name: part.functionCall.name, arguments: JSON.stringify(part.functionCall.args ?? {}) },
        ...(signature === undefined || thoughts !== undefined
          ? {}
          : { extra_content: { google: { thought_signature: signature } } }),
      })
    } else if (part.thought === true) {
      // What was streamed in pieces has its signature on the last. Google forbids to join a part that it has signed.
      const joined = begun !== undefined && !isGoogles(signature)
      const said = (joined ? begun : '') + (part.text ?? '')
      if (joined) reasoning.pop()
      reasoning.push(detailOfThought(said, signature, reasoning.length))
      if (signature === undefined) unsigned = said
    } else if (part.inlineData != null) {
      if (!part.inlineData.mimeType.startsWith('image/'))
        throw unsupportedParam(
          `${param}.inlineData`,
          'of an earlier answer only text and images are taken back.',
        )
      if (signature !== undefined)
        reasoning.push(carry(reasoning.length, { ...here, kind: 'image', image: images.length, signature }))
      images.push(mediaPart(part.inlineData))
    } else if (opaqueParts.some((kind) => part[kind] !== undefined)) {
      reasoning.push(carry(reasoning.length, { ...here, kind: 'part', part: part as JsonObject }))
    } else {
      text += part.text ?? ''
      if (signature !== undefined) {
        const place = { ...here, end: text.length }
        reasoning.push(carriedText(reasoning.length, place, signature))
      }
    }
  }
  const details = sealed.length === 0 ? reasoning : [...sealed, ...reasoning.filter(isSignedByGoogle)]
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(details.length === 0 ? {} : { reasoning_details: details as unknown as Json }),
    ...(images.length === 0 ? {} : { images }),
  }
}

/** Reasoning that is not in the signature of a call as well. */
function isSignedByGoogle(detail: ReasoningDetail): boolean {
  return !isForeign(detail) && (detail.signature ?? detail.data) !== undefined
}

/** A signature on plain text: Google's own, or another provider's reasoning without text. */
function carriedText(
  index: number,
  place: { start: number; end: number; calls: number },
  signature: string,
): ReasoningDetail {
  const detail = detailOfThought('', signature, index)
  const own = detail.format === signatureFormat && detail.type === 'reasoning.text'
  return own ? carry(index, { ...place, kind: 'text', signature }) : detail
}
