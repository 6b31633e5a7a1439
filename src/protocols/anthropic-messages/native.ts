// A client of Anthropic's protocol and Anthropic itself: the request goes on as it was written, and so does the answer.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { completionTokens, type Usage } from '../../conversation/usage.ts'
import { isObject, nonEmpty, parseJson } from '../json.ts'
import type { AnswerContext, Bill, LoweredRequest, Target, Warning } from '../protocol.ts'
import type { Frame } from '../framing/sse.ts'
import { betaHeader } from './outbound/betas.ts'
import { isCarried } from './inbound/carried-reasoning.ts'
import { costFields } from './inbound/answer-fields.ts'
import { kindOfField } from './outbound/own-fields.ts'
import { gatewayFields } from './inbound/schema.ts'
import type { AnthropicQuirks } from './outbound/schema.ts'
import { lostItsThinking, type Turn } from './outbound/turns.ts'

// ---- the request ------------------------------------------------------------------------------------------

/**
 * Whether the client's own body may go on: it names no address that the provider cannot read, holds nothing of a turn
 * that another provider made, and does not ask Claude to go on thinking in a turn that has lost its thoughts.
 */
export function isNative(body: JsonObject): boolean {
  if (!Array.isArray(body.messages)) return false
  // The API refuses it; translated, the request goes without thinking and with a warning.
  if (isObject(body.thinking) && body.thinking.type === 'enabled' && lostItsThinking(turnsIn(body.messages)))
    return false
  return body.messages.every(
    (message) =>
      !isObject(message) || !Array.isArray(message.content) || message.content.every(isNativeBlock),
  )
}

/** The turns as the API sees them: messages of one role that follow each other are one. */
function turnsIn(messages: readonly Json[]): Turn[] {
  const turns: Turn[] = []
  for (const message of messages.filter(isObject)) {
    const { role, content } = message
    const blocks = Array.isArray(content) ? content.filter(isObject) : [{ type: 'text' }]
    const last = turns.at(-1)
    if (last && last.role === role) last.content.push(...blocks)
    else turns.push({ role: role === 'assistant' ? 'assistant' : 'user', content: blocks })
  }
  return turns
}

/** Ids that Anthropic takes; it refuses some that other providers give. */
const wireId = /^[a-zA-Z0-9_-]+$/

function isNativeBlock(block: Json): boolean {
  if (!isObject(block)) return true
  const { source, content, signature } = block
  if (typeof signature === 'string' && isCarried(signature)) return false
  if (block.type === 'tool_use' && !wireId.test(nonEmpty(block.id) ?? '')) return false
  if (isObject(source)) {
    if (source.type === 'url' && !/^https:/i.test(nonEmpty(source.url) ?? '')) return false
    if (Array.isArray(source.content) && !source.content.every(isNativeBlock)) return false
  }
  return !Array.isArray(content) || content.every(isNativeBlock)
}

/**
 * The client's body for Anthropic, under the model's name there: without the gateway's own fields, and without those
 * that have another price or that nobody here knows, each of which is named.
 */
export function nativeRequest(
  { betas, ...sent }: JsonObject,
  { model, quirks }: Target<AnthropicQuirks>,
): LoweredRequest {
  const body: JsonObject = {}
  const warnings: Warning[] = []
  for (const [field, value] of Object.entries(sent)) {
    if (gatewayFields.includes(field)) continue
    const kind = kindOfField(field, value)
    if (kind === 'known') body[field] = value
    else if (value !== null) warnings.push({ param: field, message: unsent[kind] })
  }
  return {
    path: quirks.path,
    headers: { 'anthropic-version': quirks.version, ...betaHeader([...quirks.betas], betas) },
    body: { ...body, model },
    warnings,
  }
}

const unsent = {
  priced: 'The prices here are those without it; dropped.',
  unknown: 'It is not known to be free of charge; dropped.',
} as const

// ---- the answer -------------------------------------------------------------------------------------------

/** A whole message as the provider wrote it, with what the gateway adds. */
export function nativeWhole(message: JsonObject, bill: Bill, context: AnswerContext): JsonObject {
  const { model, warnings, extra } = context
  return {
    ...message,
    model,
    usage: { ...(isObject(message.usage) ? message.usage : {}), ...costFields(bill) },
    ...(warnings.length === 0 ? {} : { warnings: warnings.map((warning) => ({ ...warning })) }),
    ...extra,
  }
}

/** The frames of one streamed answer on their way, and which of them wait until the charge is known. */
export class NativeFrames {
  readonly #context: AnswerContext
  /** The event that ends the answer and tells its usage. */
  #last: JsonObject = {}
  /** What comes behind the end is no part of the answer: nobody counts it. */
  #ended = false
  /** The index of the block that is open. */
  #block: Json | undefined
  /** Whether a tool of the provider's own has begun, which no reader of words sees. */
  begun = false

  constructor(context: AnswerContext) {
    this.#context = context
  }

  /** What the client gets for a frame of the provider's. An event that nobody here knows goes on as it is. */
  pass(frame: Frame): readonly Frame[] {
    if (this.#ended) return []
    const event = parseJson(frame.data)
    // The type becomes the name of the event: one with a line end in it would be two.
    if (!isObject(event) || typeof event.type !== 'string' || !/^\w+$/.test(event.type)) return []
    switch (event.type) {
      case 'message_start':
        return [this.#start(event)]
      case 'content_block_stop':
        this.#block = undefined
        break
      case 'content_block_start':
        this.#block = event.index
        this.begun ||=
          isObject(event.content_block) && nonEmpty(event.content_block.type)?.endsWith('_tool_use') === true
        break
      case 'message_delta':
        this.#last = {
          ...this.#last,
          ...event,
          delta: joined(this.#last.delta, event.delta),
          usage: joined(this.#last.usage, event.usage),
        }
        return []
      case 'message_stop':
      case 'error':
        this.#ended = true
        return []
    }
    // Several lines of data are one text with line ends between its words, which would end the line it is written in.
    return [{ event: event.type, data: frame.data.replaceAll('\n', ' ') }]
  }

  /**
   * The end of the answer: what the provider said of it, and what it cost. `cutAt` is what it has consumed where the
   * gateway cut it off at a bound, so that the provider has said nothing.
   */
  finish(bill: Bill, cutAt?: Usage): readonly Frame[] {
    const counted: JsonObject = cutAt === undefined ? {} : { output_tokens: completionTokens(cutAt) }
    const usage = { ...joined(this.#last.usage, counted), ...costFields(bill) }
    const cut: JsonObject =
      cutAt === undefined ? {} : { delta: { stop_reason: 'max_tokens', stop_sequence: null } }
    return [
      ...(cutAt === undefined || this.#block === undefined
        ? []
        : [named({ type: 'content_block_stop', index: this.#block })]),
      named({ ...this.#last, ...cut, type: 'message_delta', usage, ...this.#context.extra }),
      named({ type: 'message_stop' }),
    ]
  }

  #start(event: JsonObject): Frame {
    const message = isObject(event.message) ? event.message : {}
    return named({ ...event, message: { ...message, model: this.#context.model, ...this.#context.extra } })
  }
}

/** What was said of a thing, and what is said of it later. */
function joined(before: Json | undefined, after: Json | undefined): JsonObject {
  return { ...(isObject(before) ? before : {}), ...(isObject(after) ? after : {}) }
}

function named(event: JsonObject): Frame {
  return { event: String(event.type), data: JSON.stringify(event) }
}
