// Passes a streamed answer through between a provider and a client of chat completions.

import type { Fault } from '../../../conversation/event.ts'
import type { Progress } from '../../../conversation/progress.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import type { DoneOrSteps, Steps } from '../../../json/steps.ts'
import { fault } from '../../faults.ts'
import { bytesOf, encodeFrame, endOfEvent, SseDecoder } from '../../framing/sse.ts'
import { faultInside } from '../../openai/fault.ts'
import type { AnswerContext, Bill, PassthroughStream } from '../../protocol.ts'
import type { OpenAIChatQuirks } from '../outbound/quirks.ts'
import { framesOf, isLarge } from './large-chunk.ts'
import { FrameRepair, type MendedRun } from './repair.ts'

const utf8 = new TextEncoder()

/** How the provider's error inside a stream reads. */
function faultIn(error: unknown): Fault {
  return faultInside({ error }) ?? fault('broken', 'the provider reported an error without words')
}

/** Repairs each frame to the wire contract and keeps its unknown fields. */
export class RepairStream implements PassthroughStream, Progress {
  readonly #decoder: SseDecoder
  readonly #repair: FrameRepair
  readonly #context: AnswerContext
  readonly #choices: number
  #fault: Fault | undefined
  #over = false

  constructor(quirks: OpenAIChatQuirks, context: AnswerContext, choices: number, maxEventBytes: number) {
    this.#decoder = new SseDecoder(maxEventBytes)
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
    return this.#repair.finished && (this.#repair.done || this.#over)
  }

  get fault(): Fault | undefined {
    if (this.#fault !== undefined) return this.#fault
    const { error, finished } = this.#repair
    if (error !== undefined) return faultIn(error)
    return this.#over && !finished ? fault('cut', 'the stream broke off') : undefined
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
    const received = this.#decoder.decode(bytes)
    const run = this.#decoder.between ? this.#repair.run(received, 0) : undefined
    return run?.end === received.length ? [utf8.encode(run.text)] : this.#inSteps(received, run)
  }

  /** What is left of a text behind a run of events that are repaired already. */
  *#inSteps(received: string, run: MendedRun | undefined): Steps<readonly Uint8Array[]> {
    try {
      const events = yield* this.#mended(received, run)
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

  finish(usage: Usage, bill: Bill, stopped: JsonObject | undefined): readonly Uint8Array[] {
    if (stopped !== undefined && !this.#repair.finished) {
      const choices = [...Array(this.#choices).keys()]
      const ending = { choices: choices.map((index) => ({ index, delta: {}, finish_reason: 'length' })) }
      this.#repair.push({ event: undefined, data: JSON.stringify({ ...ending, ...stopped }) })
    } else Object.assign(this.#context.extra, stopped)
    return bytesOf(this.#repair.finish(usage, bill))
  }

  fail(error: RenderedError): readonly Uint8Array[] {
    return bytesOf(this.#repair.fail(error))
  }

  /** Events that differ from those before in their text alone go on without having been frames at all. */
  *#mended(received: string, begun: MendedRun | undefined): Steps<string> {
    let events = begun?.text ?? ''
    for (let at = begun?.end ?? 0; at < received.length;) {
      const run = this.#decoder.between ? this.#repair.run(received, at) : undefined
      if (run) {
        events += run.text
        at = run.end
        continue
      }
      const end = endOfEvent(received, at)
      const next = end - at === received.length ? received : received.slice(at, end)
      for (const frame of this.#decoder.feed(next)) {
        if (!isLarge(frame)) {
          for (const mended of this.#repair.push(frame)) events += encodeFrame(mended)
          continue
        }
        for (const piece of yield* framesOf(frame)) {
          for (const mended of this.#repair.push(piece)) events += encodeFrame(mended)
          if (piece !== frame) yield
        }
      }
      at = end
    }
    return events
  }

  #unreadable(error: unknown): readonly Uint8Array[] {
    this.#fault = fault('broken', `the stream could not be read: ${String(error)}`)
    return []
  }
}
