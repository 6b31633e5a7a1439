// Translation: a source decodes the provider's bytes, a sink encodes its events for the client.

import type { ChatEvent } from '../../conversation/event.ts'
import type { ContentEvent, Progress } from '../../conversation/progress.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import { atOnce, type DoneOrSteps, isSteps, type Steps } from '../../json/steps.ts'
import { SseDecoder } from '../../protocols/framing/sse.ts'
import type { Bill, StreamEncoder } from '../../protocols/protocol.ts'
import type { StoppedBy } from '../outcome.ts'
import type { StreamChannel } from './channel.ts'
import { AnswerSink } from './sink.ts'
import { AnswerSource, type SourceParts } from './source.ts'

export interface TranslateParts extends SourceParts {
  readonly encoder: StreamEncoder
  /** Our own fields for the last frames; read when those are encoded. */
  readonly extra: JsonObject
}

export class TranslateChannel implements StreamChannel {
  readonly #source: AnswerSource
  readonly #sink: AnswerSink

  constructor(parts: TranslateParts) {
    const sink = new AnswerSink(parts.encoder, parts.extra)
    this.#sink = sink
    this.#source = new AnswerSource(parts, sink)
  }

  get progress(): Progress {
    return this.#source.progress
  }

  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]> {
    const rest = this.#source.push(bytes)
    return rest ? this.#writtenAfter(rest) : this.#sink.takeWritten()
  }

  end(): readonly Uint8Array[] {
    this.#source.end()
    return atOnce(this.#sink.takeWritten())
  }

  take(events: readonly ChatEvent[]): DoneOrSteps<readonly Uint8Array[]> {
    const rest = this.#source.take(events)
    return rest ? this.#writtenAfter(rest) : this.#sink.takeWritten()
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]> {
    this.#sink.finish(usage, bill, stoppedBy)
    return this.#sink.takeWritten()
  }

  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]> {
    this.#sink.fail(error)
    return this.#sink.takeWritten()
  }

  cancel(usage: Usage, bill: Bill): void {
    this.#sink.cancel(usage, bill)
  }

  *#writtenAfter(rest: Steps<void>): Steps<readonly Uint8Array[]> {
    yield* rest
    const written = this.#sink.takeWritten()
    return isSteps(written) ? yield* written : written
  }
}

/** The source alone, for callers that encode the events themselves. */
export class EventChannel implements StreamChannel {
  readonly #source: AnswerSource

  constructor(parts: SourceParts, emit: (event: ContentEvent) => void) {
    this.#source = new AnswerSource(parts, { event: emit })
  }

  get progress(): Progress {
    return this.#source.progress
  }

  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]> {
    const rest = this.#source.push(bytes)
    return rest ? nothingAfter(rest) : []
  }

  end(): readonly Uint8Array[] {
    this.#source.end()
    return []
  }

  take(events: readonly ChatEvent[]): DoneOrSteps<readonly Uint8Array[]> {
    const rest = this.#source.take(events)
    return rest ? nothingAfter(rest) : []
  }

  finish(): readonly Uint8Array[] {
    return []
  }

  fail(): readonly Uint8Array[] {
    return []
  }
}

function* nothingAfter(rest: Steps<void>): Steps<readonly Uint8Array[]> {
  yield* rest
  return []
}

/** For a provider that sent plain JSON instead of a stream of the client's own protocol. */
export function wholeChannel(
  encoder: StreamEncoder,
  { extra }: Pick<TranslateParts, 'extra'>,
): TranslateChannel {
  const unused = { push: () => [], end: () => [] }
  return new TranslateChannel({
    decoder: new SseDecoder(),
    parser: unused,
    encoder,
    extra,
    onSignature: () => undefined,
  })
}
