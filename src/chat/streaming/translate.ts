// Translation: a source decodes the provider's bytes, a sink encodes its events for the client.

import {
  type ContentEvent,
  EventProgress,
  pieceCharacters,
  type Progress,
} from '../../conversation/delivered.ts'
import type { ChatEvent } from '../../conversation/event.ts'
import type { JsonObject, ToolCall } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors/errors.ts'
import { atOnce, type DoneOrSteps, isSteps, type Steps } from '../../json/json.ts'
import { unreadable } from '../../protocols/faults.ts'
import { EventReader, type FrameDecoder } from '../../protocols/framing/decoder.ts'
import { encodeFrame, type Frame, LongFrame, SseDecoder } from '../../protocols/framing/sse.ts'
import type {
  AnswerContext,
  Bill,
  PassthroughStream,
  StreamEncoder,
  StreamParser,
  Texts,
} from '../../protocols/protocol.ts'
import { stopNote, type StoppedBy } from '../call.ts'

interface TranslateParts extends SourceParts {
  readonly encoder: StreamEncoder
  /** Our own fields for the last frames; read when those are encoded. */
  readonly extra: JsonObject
}

export class TranslateChannel implements StreamChannel {
  readonly #source: AnswerSource
  readonly #sink: AnswerSink

  constructor(parts: TranslateParts) {
    const sink = new AnswerSink(parts.encoder, parts.extra, () => this.#source.progress.usage)
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
function wholeChannel(encoder: StreamEncoder, { extra }: Pick<TranslateParts, 'extra'>): TranslateChannel {
  const unused = { push: () => [], end: () => [] }
  return new TranslateChannel({
    decoder: new SseDecoder(),
    parser: unused,
    encoder,
    extra,
    onSignature: () => undefined,
  })
}

// Decodes a provider's streamed bytes into events, and tracks the progress of the answer.

const none: readonly Frame[] = []

interface SourceParts {
  readonly decoder: FrameDecoder
  readonly parser: StreamParser
  readonly onSignature: (call: Pick<ToolCall, 'id' | 'name'>, signature: string) => void
  /** Takes every event but texts; undefined where nobody wants the reasoning. */
  readonly thoughts?: { event(event: ContentEvent): void } | undefined
}

/** Takes the content of an answer in order. */
interface ContentOutput {
  event(event: ContentEvent): void
  /** Several pieces of text; without it each comes as an event. */
  texts?(pieces: Texts): void
}

/** One provider's answer. Its content goes to `output` in order while bytes are pushed. */
export class AnswerSource {
  readonly #parts: SourceParts
  readonly #output: ContentOutput
  readonly #progress = new EventProgress()
  /** Set if the parser takes texts without decoding. */
  readonly #events: EventReader | undefined
  /** Decoded and not yet parsed from `#frame` on, if it does not. */
  #frames = none
  #frame = 0

  constructor(parts: SourceParts, output: ContentOutput) {
    this.#parts = parts
    this.#output = output
    if (parts.decoder instanceof SseDecoder && parts.parser.texts)
      this.#events = new EventReader(parts.decoder, (received, at) => this.#takeTexts(received, at))
  }

  get progress(): Progress {
    return this.#progress
  }

  /**
   * Takes bytes of the provider's body, cut anywhere: at once, or in the steps that are returned. Unreadable bytes
   * become a fault.
   */
  push(bytes: Uint8Array): Steps<void> | undefined {
    try {
      this.#frame = 0
      if (this.#events) this.#events.push(bytes)
      else this.#frames = this.#parts.decoder.push(bytes)
    } catch (error) {
      this.#breakOff(error)
    }
    const long = this.#advance()
    return long && this.#inSteps(long)
  }

  /** The provider's body has ended; afterwards `progress` is finished or holds a fault. */
  end(): void {
    try {
      for (const frame of this.#parts.decoder.end()) doneAtOnce(this.#step(frame))
      if (!this.#progress.ended) doneAtOnce(this.take(this.#parts.parser.end()))
    } catch (error) {
      this.#breakOff(error)
    }
  }

  /** Takes events of a whole answer or of one frame: at once, or in the steps that are returned. */
  take(events: readonly ChatEvent[]): Steps<void> | undefined {
    return this.#progress.take(events, this.#onContent)
  }

  /** Takes what has been pushed up to a frame that is too long to be taken at once, and returns the steps of that. */
  #advance(): Steps<void> | undefined {
    try {
      for (let frame = this.#next(); frame !== undefined; frame = this.#next()) {
        const steps = frame.data.length > pieceCharacters ? this.#longStep(frame) : this.#step(frame)
        if (steps) return steps
      }
      // Kept no longer than it takes: the next read may be minutes away.
      this.#frames = none
    } catch (error) {
      this.#breakOff(error)
    }
    return undefined
  }

  *#inSteps(first: Steps<void>): Steps<void> {
    try {
      for (let steps: Steps<void> | undefined = first; steps; steps = this.#advance()) yield* steps
    } catch (error) {
      this.#breakOff(error)
    }
  }

  #next(): Frame | undefined {
    return this.#events ? this.#events.next() : this.#frames[this.#frame++]
  }

  /** Takes events that need no decoding, and returns where they end. */
  #takeTexts(received: string, at: number): number | undefined {
    const pieces = this.#progress.ended ? undefined : this.#parts.parser.texts?.(received, at)
    if (pieces === undefined) return undefined
    this.#progress.takeText(pieces.choice, pieces.content, pieces.usage)
    if (this.#output.texts) this.#output.texts(pieces)
    else for (const event of textEvents(pieces)) this.#output.event(event)
    return pieces.end
  }

  *#longStep(frame: Frame): Steps<void> {
    yield
    const rest = this.#step(frame)
    if (rest) yield* rest
  }

  #step(frame: Frame): Steps<void> | undefined {
    return this.#progress.ended ? undefined : this.take(this.#parts.parser.push(frame))
  }

  readonly #onContent = (event: ContentEvent): void => {
    if (event.kind === 'tool-call-start' && event.thoughtSignature !== undefined)
      this.#parts.onSignature(event, event.thoughtSignature)
    if (event.kind !== 'text-delta') this.#parts.thoughts?.event(event)
    this.#output.event(event)
  }

  #breakOff(error: unknown): void {
    if (this.#progress.ended) return
    this.#progress.fault = unreadable(error)
  }
}

function doneAtOnce(steps: Steps<void> | undefined): void {
  if (steps) atOnce(steps)
}

/** The pieces as an event each. */
function textEvents({ choice, texts }: Texts): readonly ContentEvent[] {
  return texts.map((text) => ({ kind: 'text-delta', choice, text: JSON.parse(`"${text}"`) as string }))
}

// Encodes events as the bytes of one streamed answer in the client's protocol.

/** One per answer, however many sources its events come from. */
export class AnswerSink {
  readonly #encoder: StreamEncoder
  readonly #extra: JsonObject
  readonly #counted: () => Usage | undefined
  readonly #utf8 = new TextEncoder()
  /** Not yet handed on: bytes or frames still to be encoded; text follows them. */
  #queued: (Uint8Array | LongFrame)[] = []
  #text = ''
  #opened = false
  readonly #choices = new Set<number>()
  readonly #closed = new Set<number>()

  /** `extra`: our own fields for the last frames; read when those are encoded. `counted`: what is known of the usage. */
  constructor(encoder: StreamEncoder, extra: JsonObject, counted: () => Usage | undefined = () => undefined) {
    this.#encoder = encoder
    this.#extra = extra
    this.#counted = counted
  }

  event(event: ContentEvent): void {
    this.#choices.add(event.choice)
    if (event.kind === 'choice-finish') this.#closed.add(event.choice)
    this.#open()
    this.#write(this.#encoder.event(event))
  }

  texts(pieces: Texts): void {
    const { choice } = pieces
    this.#choices.add(choice)
    this.#open()
    const written = this.#encoder.texts?.(pieces)
    if (written !== undefined) return this.#add(written)
    for (const event of textEvents(pieces)) this.#write(this.#encoder.event(event))
  }

  /** Ends the answer; open choices are closed with the finish reason `length`. */
  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): void {
    this.#open()
    const { metadata, ...note } = stopNote(stoppedBy)
    const known = this.#extra['metadata']
    if (metadata !== undefined)
      Object.assign(this.#extra, note, { metadata: { ...(known as object), ...(metadata as object) } })
    if (stoppedBy !== undefined) {
      for (const choice of this.#choices.size > 0 ? this.#choices : [0]) {
        if (this.#closed.has(choice)) continue
        const end = { kind: 'choice-finish', choice, reason: 'length', native: stoppedBy } as const
        this.#write(this.#encoder.event(end))
      }
    }
    this.#write(this.#encoder.finish(usage, bill))
  }

  fail(error: RenderedError): void {
    this.#open()
    this.#write(this.#encoder.fail(error))
  }

  /** The client disconnected. */
  cancel(usage: Usage, bill: Bill): void {
    this.#encoder.cancel?.(usage, bill)
  }

  /** The bytes of everything since the last call. */
  takeWritten(): DoneOrSteps<readonly Uint8Array[]> {
    this.#encode()
    const queued = this.#queued
    this.#queued = []
    return isEncoded(queued) ? queued : encodeQueued(queued)
  }

  #open(): void {
    if (this.#opened) return
    this.#opened = true
    this.#write(this.#encoder.start(this.#counted()))
  }

  #write(frames: readonly Frame[]): void {
    for (const frame of frames) {
      if (frame instanceof LongFrame) {
        this.#encode()
        this.#queued.push(frame)
      } else this.#text += encodeFrame(frame)
    }
    if (this.#text.length > pieceCharacters) this.#encode()
  }

  #add(text: string): void {
    this.#text += text
    if (this.#text.length > pieceCharacters) this.#encode()
  }

  #encode(): void {
    if (this.#text !== '') this.#queued.push(this.#utf8.encode(this.#text))
    this.#text = ''
  }
}

function isEncoded(queued: readonly (Uint8Array | LongFrame)[]): queued is readonly Uint8Array[] {
  return queued.every((each) => each instanceof Uint8Array)
}

function* encodeQueued(queued: readonly (Uint8Array | LongFrame)[]): Steps<readonly Uint8Array[]> {
  const bytes: Uint8Array[] = []
  for (const each of queued) {
    if (each instanceof Uint8Array) bytes.push(each)
    else for (const piece of yield* each.encode()) bytes.push(piece)
  }
  return bytes
}

// Turns a provider's streamed bytes into the client's, and tracks the progress of the answer.

/** One streamed answer. Frames are returned whole, so something else may be written between any two. */
export interface StreamChannel {
  readonly progress: Progress
  /** Takes bytes of the provider's body, cut anywhere. Returns the client's bytes. */
  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]>
  /** The provider's body has ended; afterwards `progress` is finished or holds a fault. */
  end(): readonly Uint8Array[]
  /** Takes the events of an answer that arrived whole although a stream was requested; the last one ends it. */
  take(events: readonly ChatEvent[]): DoneOrSteps<readonly Uint8Array[]>
  /** The last bytes, written once the charge is durable. `stoppedBy` if the gateway cut the answer short. */
  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): DoneOrSteps<readonly Uint8Array[]>
  /** The last bytes of an answer that failed after its first byte. */
  fail(error: RenderedError): DoneOrSteps<readonly Uint8Array[]>
  /** The client disconnected: has what was delivered stored, where answers are. Nothing is sent. */
  cancel?(usage: Usage, bill: Bill): void
}

// An answer in the client's own protocol, passed through.

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
