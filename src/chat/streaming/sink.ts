// Encodes events as the bytes of one streamed answer in the client's protocol.

import { pieceCharacters } from '../../conversation/pieces.ts'
import type { ContentEvent } from '../../conversation/progress.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import type { DoneOrSteps, Steps } from '../../json/steps.ts'
import { encodeFrame, type Frame, LongFrame } from '../../protocols/framing/sse.ts'
import type { Bill, StreamEncoder, Texts } from '../../protocols/protocol.ts'
import { type StoppedBy, stopNote } from '../outcome.ts'
import { textEvents } from './source.ts'

/** One per answer, however many sources its events come from. */
export class AnswerSink {
  readonly #encoder: StreamEncoder
  readonly #extra: JsonObject
  readonly #utf8 = new TextEncoder()
  /** Not yet handed on: bytes or frames still to be encoded; text follows them. */
  #queued: (Uint8Array | LongFrame)[] = []
  #text = ''
  #opened = false
  readonly #choices = new Set<number>()
  readonly #closed = new Set<number>()

  /** `extra`: our own fields for the last frames; read when those are encoded. */
  constructor(encoder: StreamEncoder, extra: JsonObject) {
    this.#encoder = encoder
    this.#extra = extra
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
    Object.assign(this.#extra, stopNote(stoppedBy))
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
    this.#write(this.#encoder.start())
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
