// For a client and a provider that both speak chat completions: the request is translated like any other, the answer
// keeps unknown fields.

import { pieceCharacters, type Progress, textPieces } from '../../../conversation/delivered.ts'
import type { Fault } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors/errors.ts'
import { type DoneOrSteps, isSteps, parseSteps, type Steps } from '../../../json/json.ts'
import { fault, unreadable } from '../../faults.ts'
import { EventReader } from '../../framing/decoder.ts'
import { bytesOf, encodeFrame, type Frame, SseDecoder } from '../../framing/sse.ts'
import { isObject } from '../../lenient.ts'
import { faultInside } from '../../openai/usage.ts'
import type { AnswerContext, Bill, Passthrough, PassthroughStream, Target } from '../../protocol.ts'
import type { OpenAIChatQuirks } from '../outbound/quirks.ts'
import { FrameRepair, repairWhole } from './repair.ts'

export const passthrough: Passthrough<OpenAIChatQuirks> = {
  stream: (context, { choices, maxEventBytes }, target) =>
    new RepairStream(target, context, choices, maxEventBytes),
  whole: (answer, usage, bill, context, { quirks }) => repairWhole(answer, usage, bill, context, quirks),
}

// Passes a streamed answer through between a provider and a client of chat completions.

const utf8 = new TextEncoder()

/** Repairs each frame to the wire contract and keeps its unknown fields. */
class RepairStream implements PassthroughStream, Progress {
  readonly #decoder: SseDecoder
  readonly #reader: EventReader
  readonly #repair: FrameRepair
  readonly #context: AnswerContext
  readonly #choices: number
  #fault: Fault | undefined
  #over = false
  /** The client's events that are not encoded yet. */
  #events = ''

  constructor(
    { quirks, document }: Pick<Target<OpenAIChatQuirks>, 'quirks' | 'document'>,
    context: AnswerContext,
    choices: number,
    maxEventBytes: number,
  ) {
    this.#decoder = new SseDecoder(maxEventBytes)
    this.#reader = new EventReader(this.#decoder, (received, at) => this.#run(received, at))
    this.#repair = new FrameRepair(context, quirks, document ? 'document' : 'words')
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
    if (error !== undefined)
      return faultInside({ error }) ?? fault('broken', 'the provider reported an error without words')
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
    return this.#mendAll()
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
  #mendAll(): DoneOrSteps<readonly Uint8Array[]> {
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
    const rest = this.#mendAll()
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

// Splits a chunk with megabytes of text into several: each is repaired, measured and sent separately.

/** The text fields of a delta, which can be split. */
const textFields = ['content', 'reasoning_content', 'reasoning'] as const

/** Whether a frame may have to be taken apart. */
function isLarge({ data }: Frame): boolean {
  return data.length > pieceCharacters
}

/** Splits a frame into several with a part of its text each; one that is small, or large otherwise, stays. */
export function* framesOf(frame: Frame): Steps<readonly Frame[]> {
  if (!isLarge(frame)) return [frame]
  yield
  try {
    const chunk = yield* parseSteps(frame.data)
    const chunks = isObject(chunk) ? piecesOf(chunk) : undefined
    return chunks?.map((piece) => ({ event: frame.event, data: JSON.stringify(piece) })) ?? [frame]
  } catch {
    // Not JSON; the reader of the frame reports it.
    return [frame]
  }
}

/** The parts of a chunk with one choice and one long text. */
function piecesOf(chunk: JsonObject): JsonObject[] | undefined {
  const { choices } = chunk
  const choice = Array.isArray(choices) && choices.length === 1 ? choices[0] : undefined
  if (!isObject(choice) || !isObject(choice.delta)) return undefined
  const { delta } = choice
  const field = textFields.find((name) => isLong(delta[name]))
  if (field === undefined) return undefined
  const [first, ...others] = textPieces(String(delta[field]))
  const { usage, ...opening } = chunk
  const { finish_reason = null, ...begun } = choice
  const pieceOf = (more: JsonObject, ending: JsonObject = {}): JsonObject => ({
    ...envelopeOf(chunk),
    choices: [{ ...('index' in choice ? { index: choice.index! } : {}), delta: more, ...ending }],
  })
  return [
    { ...opening, choices: [{ ...begun, delta: { ...delta, [field]: first! } }] },
    ...others.map((text) => pieceOf({ [field]: text })),
    ...(finish_reason === null && usage == null
      ? []
      : [{ ...pieceOf({}, { finish_reason }), ...(usage == null ? {} : { usage }) }]),
  ]
}

function isLong(value: Json | undefined): boolean {
  return typeof value === 'string' && value.length > pieceCharacters
}

function envelopeOf({ id, object, created, model }: JsonObject): JsonObject {
  const fields = { id, object, created, model }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonObject
}
