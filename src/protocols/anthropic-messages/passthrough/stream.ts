// Passes a streamed answer of Anthropic through to a client of its protocol, while the parser reads its usage.

import { EventProgress, type Progress } from '../../../conversation/progress.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import { atOnce, type Steps } from '../../../json/steps.ts'
import { unreadable } from '../../faults.ts'
import { bytesOf, type Frame, SseDecoder } from '../../framing/sse.ts'
import type { AnswerContext, Bill, PassthroughStream } from '../../protocol.ts'
import { EventEncoder } from '../inbound/encode.ts'
import { streamParser } from '../outbound/stream.ts'
import { MessageFrames } from './frames.ts'

const ignore = () => undefined

export class MessagesStream implements PassthroughStream {
  readonly #context: AnswerContext
  readonly #decoder: SseDecoder
  readonly #frames: MessageFrames
  readonly #parser = streamParser()
  readonly #progress = new EventProgress()

  constructor(context: AnswerContext, maxEventBytes: number) {
    this.#context = context
    this.#decoder = new SseDecoder(maxEventBytes)
    this.#frames = new MessageFrames(context)
  }

  get progress(): Progress {
    if (this.#frames.begun) {
      this.#progress.started = true
      this.#progress.delivered.addOpaque()
    }
    return this.#progress
  }

  push(bytes: Uint8Array): Steps<readonly Uint8Array[]> {
    return this.#forwarded(() => this.#decoder.push(bytes))
  }

  end(): readonly Uint8Array[] {
    const last = atOnce(this.#forwarded(() => this.#decoder.end()))
    const rest = this.#progress.ended ? undefined : this.#progress.take(this.#parser.end(), ignore)
    if (rest) atOnce(rest)
    return last
  }

  finish(usage: Usage, bill: Bill, stopped: JsonObject | undefined): readonly Uint8Array[] {
    Object.assign(this.#context.extra, stopped)
    return bytesOf(this.#frames.finish(bill, stopped === undefined ? undefined : usage))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return bytesOf(new EventEncoder(this.#context).fail(error))
  }

  *#forwarded(decode: () => readonly Frame[]): Steps<readonly Uint8Array[]> {
    const passed: Frame[] = []
    try {
      const frames = decode()
      for (const frame of frames) passed.push(...this.#frames.pass(frame))
      for (const frame of frames) {
        if (this.#progress.ended) break
        const rest = this.#progress.take(this.#parser.push(frame), ignore)
        if (rest) yield* rest
      }
    } catch (error) {
      if (!this.#progress.ended) this.#progress.fault = unreadable(error)
    }
    return bytesOf(passed)
  }
}
