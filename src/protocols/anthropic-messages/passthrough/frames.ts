// Passes Anthropic's answer through to a client of its protocol, with all frames and fields; the end waits for the
// charge.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { completionTokens, type Usage } from '../../../conversation/usage.ts'
import type { Frame } from '../../framing/sse.ts'
import { isObject, nonEmpty, parseJson } from '../../json.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import { costFields } from '../inbound/answer-fields.ts'

/** A whole message as the provider wrote it, with what the gateway adds. */
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

/** The frames of one streamed answer on their way, and which of them wait until the charge is known. */
export class MessageFrames {
  readonly #context: AnswerContext
  /** The event that ends the answer and carries its usage. */
  #last: JsonObject = {}
  /** Anything after the end is not part of the answer and not counted. */
  #ended = false
  /** The index of the block that is open. */
  #block: Json | undefined
  /** Whether a tool of the provider's own has begun, which no reader of words sees. */
  begun = false

  constructor(context: AnswerContext) {
    this.#context = context
  }

  /** The client's frames for a frame of the provider. Unknown events are passed on unchanged. */
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
