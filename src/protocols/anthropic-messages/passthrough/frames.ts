// Passes Anthropic's answer through to a client of its protocol, with all frames and fields; the end waits for the
// charge.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { completionTokens, type Usage } from '../../../conversation/usage.ts'
import type { Frame } from '../../framing/sse.ts'
import { isObject, nonEmpty, parseJson } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { costFields } from '../inbound/answer-fields.ts'
import { readUsage, type WireUsage } from '../outbound/schema.ts'
import { keptCounters, mergeUsage } from '../outbound/usage.ts'

/** A whole message of the provider with the gateway's additions. */
export function forwardedMessage(message: JsonObject, bill: Bill, context: AnswerContext): JsonObject {
  const { model, warnings, extra } = context
  return {
    ...message,
    model,
    usage: { ...(isObject(message.usage) ? message.usage : {}), ...costFields(bill) },
    ...(warnings.length === 0 ? {} : { warnings: warnings.map((warning) => ({ ...warning })) }),
    ...extra,
  }
}

/** The frames of a streamed answer; those at the end are held back until the charge is known. */
export class MessageFrames {
  readonly #context: AnswerContext
  /** The event that ends the answer and carries its usage. */
  #last: JsonObject = {}
  /** All counters so far. */
  #usage: WireUsage | undefined
  /** Anything after the end is not part of the answer and not counted. */
  #ended = false
  /** The index of the block that is open. */
  #block: Json | undefined
  /** Whether one of the provider's own tools has begun, which produces no visible text. */
  begun = false

  constructor(context: AnswerContext) {
    this.#context = context
  }

  /** The client's frames for a frame of the provider. Unknown events are passed on unchanged. */
  pass(frame: Frame): readonly Frame[] {
    if (this.#ended) return []
    const event = parseJson(frame.data)
    // The type becomes the event's name: a line break in it would make two events.
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
          delta: joinCounts(this.#last.delta, event.delta),
          usage: { ...joinCounts(this.#last.usage, event.usage), ...this.#kept(event.usage) },
        }
        return []
      case 'message_stop':
      case 'error':
        this.#ended = true
        return []
    }
    // Several data lines are one text with line breaks, which would end the line it is written in.
    return [{ event: event.type, data: frame.data.replaceAll('\n', ' ') }]
  }

  /**
   * The end of the answer: the provider's own, with the cost. `cutAt`: the usage, if the gateway cut the answer off
   * before the provider reported it.
   */
  finish(bill: Bill, cutAt?: Usage): readonly Frame[] {
    const counted: JsonObject = cutAt === undefined ? {} : { output_tokens: completionTokens(cutAt) }
    const usage = { ...joinCounts(this.#last.usage, counted), ...costFields(bill) }
    const cut: JsonObject =
      cutAt === undefined ? {} : { delta: { stop_reason: 'max_tokens', stop_sequence: null } }
    return [
      ...(cutAt === undefined || this.#block === undefined
        ? []
        : [frameOf({ type: 'content_block_stop', index: this.#block })]),
      frameOf({ ...this.#last, ...cut, type: 'message_delta', usage, ...this.#context.extra }),
      frameOf({ type: 'message_stop' }),
    ]
  }

  /** What counters of the answer so far must not be replaced by smaller ones. */
  #kept(counted: Json | undefined): JsonObject {
    const usage = readUsage(counted)
    if (usage === undefined) return {}
    const kept = keptCounters(this.#usage, usage)
    this.#usage = mergeUsage(this.#usage, usage)
    return kept as JsonObject
  }

  #start(event: JsonObject): Frame {
    const message = isObject(event.message) ? event.message : {}
    this.#usage = readUsage(message.usage)
    return frameOf({ ...event, message: { ...message, model: this.#context.model, ...this.#context.extra } })
  }
}

/** Merges later fields into earlier ones. */
function joinCounts(before: Json | undefined, after: Json | undefined): JsonObject {
  return { ...(isObject(before) ? before : {}), ...(isObject(after) ? after : {}) }
}

function frameOf(event: JsonObject): Frame {
  return { event: String(event.type), data: JSON.stringify(event) }
}
