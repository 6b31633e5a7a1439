// Passes a streamed answer through between a provider and a client of chat completions.

import type { Fault } from '../../../conversation/event.ts'
import type { Progress } from '../../../conversation/progress.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import { type DoneOrSteps, isSteps, type Steps } from '../../../json/steps.ts'
import { fault, unreadable } from '../../faults.ts'
import { EventReader } from '../../framing/event-reader.ts'
import { bytesOf, encodeFrame, type Frame, SseDecoder } from '../../framing/sse.ts'
import { faultInside } from '../../openai/fault.ts'
import type { AnswerContext, Bill, PassthroughStream } from '../../protocol.ts'
import type { OpenAIChatQuirks } from '../outbound/quirks.ts'
import { framesOf, isLarge } from './large-chunk.ts'
import { FrameRepair } from './repair.ts'

const utf8 = new TextEncoder()

/** How the provider's error inside a stream reads. */
function faultIn(error: unknown): Fault {
  return faultInside({ error }) ?? fault('broken', 'the provider reported an error without words')
}

/** Repairs each frame to the wire contract and keeps its unknown fields. */
export class RepairStream implements PassthroughStream, Progress {
  readonly #decoder: SseDecoder
  readonly #reader: EventReader
  readonly #repair: FrameRepair
  readonly #context: AnswerContext
  readonly #choices: number
  #fault: Fault | undefined
  #over = false
  /** The client's events that are not encoded yet. */
  #events = ''

  constructor(quirks: OpenAIChatQuirks, context: AnswerContext, choices: number, maxEventBytes: number) {
    this.#decoder = new SseDecoder(maxEventBytes)
    this.#reader = new EventReader(this.#decoder, (received, at) => this.#run(received, at))
    this.#repair = new FrameRepair(context, quirks)
    this.#context = context
    this.#choices = choices
  }

  // ---- the progress, read after every chunk: so it is no object of its own ------------------------------------

  get progress(): Progress {
    return this
  }

  get started(): boolean {
    return this.#repair.started
  }

  get finished(): boolean {
    return (this.#over || this.#repair.done) && this.#complete
  }

  get fault(): Fault | undefined {
    if (this.#fault !== undefined) return this.#fault
    const { done, error } = this.#repair
    if (error !== undefined) return faultIn(error)
    return (this.#over || done) && !this.#complete ? fault('cut', 'the stream broke off') : undefined
  }

  /** Without `[DONE]` a choice that has not begun may still have come; with it, the provider makes fewer than asked. */
  get #complete(): boolean {
    const { finished, done, begun } = this.#repair
    return finished && (done || begun >= this.#choices)
  }

  get usage(): Usage | undefined {
    return this.#repair.usage
  }

  get delivered(): Progress['delivered'] {
    return this.#repair.delivered
  }

  get finishReason(): Progress['finishReason'] {
    return this.#repair.finishReason
  }

  get upstreamId(): string | undefined {
    return this.#repair.id
  }

  // ---- the stream -------------------------------------------------------------------------------------------

  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]> {
    this.#reader.push(bytes)
    return this.#mended()
  }

  end(): readonly Uint8Array[] {
    this.#over = true
    try {
      return bytesOf(this.#decoder.end().flatMap((frame) => this.#repair.push(frame)))
    } catch (error) {
      return this.#unreadable(error)
    }
  }

  finish(usage: Usage, bill: Bill, stopped: JsonObject | undefined): readonly Uint8Array[] {
    if (stopped !== undefined && !this.#repair.finished) {
      const choices = [...Array(this.#choices).keys()].filter((index) => !this.#repair.hasEnded(index))
      const ending = { choices: choices.map((index) => ({ index, delta: {}, finish_reason: 'length' })) }
      this.#repair.push({ event: undefined, data: JSON.stringify({ ...ending, ...stopped }) })
    } else Object.assign(this.#context.extra, stopped)
    return bytesOf(this.#repair.finish(usage, bill))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return bytesOf(this.#repair.fail(error))
  }

  /** Mends what has been received: at once, or in steps from a frame on that is large. */
  #mended(): DoneOrSteps<readonly Uint8Array[]> {
    try {
      for (let frame = this.#reader.next(); frame !== undefined; frame = this.#reader.next()) {
        if (isLarge(frame)) return this.#inSteps(frame)
        this.#mend(frame)
      }
    } catch (error) {
      return this.#unreadable(error)
    }
    const events = this.#events
    this.#events = ''
    return events === '' ? [] : [utf8.encode(events)]
  }

  *#inSteps(large: Frame): Steps<readonly Uint8Array[]> {
    try {
      for (const piece of yield* framesOf(large)) {
        this.#mend(piece)
        if (piece !== large) yield
      }
    } catch (error) {
      return this.#unreadable(error)
    }
    const rest = this.#mended()
    return isSteps(rest) ? yield* rest : rest
  }

  #mend(frame: Frame): void {
    for (const mended of this.#repair.push(frame)) this.#events += encodeFrame(mended)
  }

  /** Events that differ from those before in their text alone go on without having been frames at all. */
  #run(received: string, at: number): number | undefined {
    const run = this.#repair.run(received, at)
    if (run === undefined) return undefined
    this.#events += run.text
    return run.end
  }

  #unreadable(error: unknown): readonly Uint8Array[] {
    this.#events = ''
    this.#fault = unreadable(error)
    return []
  }
}
