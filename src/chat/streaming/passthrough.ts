// Client and provider speak the same protocol: frames are mended and keep their unknown fields, or go on as they are.

import type { ChatEvent, Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import { isNative, nativeRequest, nativeWhole } from '../../protocols/anthropic-messages/native.ts'
import type { AnthropicQuirks } from '../../protocols/anthropic-messages/outbound/schema.ts'
import { ChunkEncoder } from '../../protocols/openai-chat/inbound/encode.ts'
import type { OpenAIChatQuirks } from '../../protocols/openai-chat/outbound/quirks.ts'
import { repairWhole } from '../../protocols/openai-chat/passthrough/repair-whole.ts'
import { FrameRepair } from '../../protocols/openai-chat/passthrough/repair.ts'
import { faultInside } from '../../protocols/openai/fault.ts'
import type {
  AnswerContext,
  Bill,
  ClientProtocolId,
  InboundRequest,
  Target,
} from '../../protocols/protocol.ts'
import { bytesOf, encodeFrame, SseDecoder } from '../../protocols/framing/sse.ts'
import type { Provider } from '../../providers/provider.ts'
import { transportFault } from '../routing/fault-error.ts'
import type { Lowered } from '../upstream/lower.ts'
import { MessagesChannel } from './passthrough-messages.ts'
import { stopNote, type Progress, type StoppedBy, type StreamChannel } from './channel.ts'
import { type TranslateChannel, wholeChannel } from './translate.ts'

/** Whether a provider's answers are in the client's own protocol. */
export function passesThrough(client: ClientProtocolId, provider: Provider): boolean {
  return client === 'openai-chat' && provider.protocol === 'openai-chat'
}

/**
 * The client's own request for a provider that its protocol comes from; nothing where that has to be told otherwise, or
 * where the gateway bounds the output more tightly than the client does.
 */
export function nativeMessages(
  client: ClientProtocolId,
  provider: Provider,
  { body, envelope }: InboundRequest,
  target: Target,
  outputBound: number | undefined,
): Omit<Lowered, 'passthrough'> | undefined {
  const speak = client === 'anthropic-messages' && provider.protocol === client
  if (!speak || provider.passthrough !== 'native' || outputBound !== envelope.maxOutputTokens)
    return undefined
  if (!isNative(body) || provider.ignores?.some((field) => body[field] != null)) return undefined
  const native = nativeRequest(body, target as Target<AnthropicQuirks>)
  return { ...native, body: JSON.stringify(native.body) }
}

export function passthroughChannel(
  provider: Provider,
  target: Target,
  context: AnswerContext,
  choices: number,
  maxEventBytes: number,
): StreamChannel {
  if (provider.protocol === 'anthropic-messages') return new MessagesChannel(context, maxEventBytes)
  return new RepairChannel(target.quirks as OpenAIChatQuirks, context, choices, maxEventBytes)
}

/** A whole answer in the client's own protocol. */
export function passthroughWhole(
  provider: Provider,
  target: Target,
  context: AnswerContext,
  answer: JsonObject,
  usage: Usage,
  bill: Bill,
): JsonObject {
  if (provider.protocol === 'anthropic-messages') return nativeWhole(answer, bill, context)
  return repairWhole(answer, usage, bill, context, target.quirks as OpenAIChatQuirks)
}

const utf8 = new TextEncoder()

/** How the provider's error inside a stream reads. */
function faultIn(error: unknown): Fault {
  return faultInside({ error }) ?? transportFault('broken', 'the provider reported an error without words')
}

/** Each frame is mended to the wire contract and keeps its unknown fields. */
class RepairChannel implements StreamChannel {
  readonly #decoder: SseDecoder
  readonly #repair: FrameRepair
  readonly #context: AnswerContext
  readonly #choices: number
  #fault: Fault | undefined
  #over = false
  #whole: TranslateChannel | undefined

  constructor(quirks: OpenAIChatQuirks, context: AnswerContext, choices: number, maxEventBytes: number) {
    this.#decoder = new SseDecoder(maxEventBytes)
    this.#repair = new FrameRepair(context, quirks)
    this.#context = context
    this.#choices = choices
  }

  get progress(): Progress {
    if (this.#whole) return this.#whole.progress
    const repair = this.#repair
    const broken = this.#over && !repair.finished ? transportFault('cut', 'the stream broke off') : undefined
    return {
      started: repair.started,
      finished: repair.finished && (repair.done || this.#over),
      fault: this.#fault ?? (repair.error === undefined ? broken : faultIn(repair.error)),
      usage: repair.usage,
      delivered: repair.delivered,
      finishReason: repair.finishReason,
      upstreamId: repair.id,
    }
  }

  push(bytes: Uint8Array): readonly Uint8Array[] {
    try {
      const events = this.#mended(this.#decoder.decode(bytes))
      return events === '' ? [] : [utf8.encode(events)]
    } catch (error) {
      return this.#unreadable(error)
    }
  }

  end(): readonly Uint8Array[] {
    this.#over = true
    try {
      return bytesOf(this.#decoder.end().flatMap((frame) => this.#repair.push(frame)))
    } catch (error) {
      return this.#unreadable(error)
    }
  }

  take(events: readonly ChatEvent[]): readonly Uint8Array[] {
    this.#whole ??= wholeChannel(new ChunkEncoder(this.#context), this.#context)
    return this.#whole.take(events)
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): readonly Uint8Array[] {
    if (this.#whole) return this.#whole.finish(usage, bill, stoppedBy)
    if (stoppedBy !== undefined && !this.#repair.finished) {
      const choices = [...Array(this.#choices).keys()]
      const ending = { choices: choices.map((index) => ({ index, delta: {}, finish_reason: 'length' })) }
      this.#repair.push({ event: undefined, data: JSON.stringify({ ...ending, ...stopNote(stoppedBy) }) })
    } else Object.assign(this.#context.extra, stopNote(stoppedBy))
    return bytesOf(this.#repair.finish(usage, bill))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return this.#whole ? this.#whole.fail(error) : bytesOf(this.#repair.fail(error))
  }

  /** Events that differ from those before in their text alone go on without having been frames at all. */
  #mended(received: string): string {
    let events = ''
    for (let at = 0; at < received.length;) {
      const run = this.#decoder.between ? this.#repair.run(received, at) : undefined
      if (run) {
        events += run.text
        at = run.end
        continue
      }
      const end = endOfEvent(received, at)
      const next = end - at === received.length ? received : received.slice(at, end)
      for (const frame of this.#decoder.feed(next)) {
        for (const mended of this.#repair.push(frame)) events += encodeFrame(mended)
      }
      at = end
    }
    return events
  }

  #unreadable(error: unknown): readonly Uint8Array[] {
    this.#fault = transportFault('broken', `the stream could not be read: ${String(error)}`)
    return []
  }
}

/** The position behind the blank line that ends an event, or behind all there is. */
function endOfEvent(text: string, from: number): number {
  const at = text.indexOf('\n\n', from)
  return at < 0 ? text.length : at + 2
}
