// An answer in the client's own protocol, passed through.

import type { ChatEvent } from '../../conversation/event.ts'
import type { Progress } from '../../conversation/progress.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { DoneOrSteps } from '../../json/steps.ts'
import type { AnswerContext, Bill, PassthroughStream, StreamEncoder } from '../../protocols/protocol.ts'
import { type StoppedBy, stopNote } from '../outcome.ts'
import type { StreamChannel } from './channel.ts'
import { type TranslateChannel, wholeChannel } from './translate.ts'

export class PassthroughChannel implements StreamChannel {
  readonly #stream: PassthroughStream
  readonly #context: AnswerContext
  readonly #encoder: (context: AnswerContext) => StreamEncoder
  /** Encodes an answer that arrived whole although a stream was requested. */
  #whole: TranslateChannel | undefined

  constructor(
    stream: PassthroughStream,
    context: AnswerContext,
    encoder: (context: AnswerContext) => StreamEncoder,
  ) {
    this.#stream = stream
    this.#context = context
    this.#encoder = encoder
  }

  get progress(): Progress {
    return this.#whole?.progress ?? this.#stream.progress
  }

  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]> {
    return this.#stream.push(bytes)
  }

  end(): readonly Uint8Array[] {
    return this.#stream.end()
  }

  take(events: readonly ChatEvent[]): DoneOrSteps<readonly Uint8Array[]> {
    this.#whole ??= wholeChannel(this.#encoder(this.#context), this.#context)
    return this.#whole.take(events)
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]> {
    if (this.#whole) return this.#whole.finish(usage, bill, stoppedBy)
    return this.#stream.finish(usage, bill, stoppedBy === undefined ? undefined : stopNote(stoppedBy))
  }

  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]> {
    return this.#whole ? this.#whole.fail(error) : this.#stream.fail(error)
  }
}
