// Bytes ⇄ server-sent event frames.

import { createParser } from 'eventsource-parser'
import type { JsonObject } from '../../conversation/request.ts'
import { shapeFault } from '../../json/shape.ts'
import type { Steps } from '../../json/steps.ts'
import { stringifySteps } from '../../json/stringify.ts'

/** One event of a stream: its name, where it had one, and its data, joined by newlines. */
export interface Frame {
  readonly event: string | undefined
  readonly data: string
}

/** An event for a client whose data is so long that it is better written in steps. */
export class LongFrame implements Frame {
  readonly event: string
  readonly #json: JsonObject

  constructor(event: string, json: JsonObject) {
    this.event = event
    this.#json = json
  }

  get data(): string {
    return JSON.stringify(this.#json)
  }

  /** As `encodeFrame`, in bytes. */
  *encode(): Steps<Uint8Array[]> {
    const bytes = [utf8.encode(`event: ${this.event}\ndata: `)]
    for (const piece of yield* stringifySteps(this.#json)) {
      bytes.push(utf8.encode(piece))
      yield
    }
    bytes.push(utf8.encode('\n\n'))
    return bytes
  }
}

/**
 * One event may not be longer than this many characters unless configuration says otherwise: a line without end must
 * not fill the memory, yet an image comes in one event.
 */
export const maxFrameCharacters = 8 * 1024 * 1024

/** Turns the bytes of an SSE body, cut anywhere, into frames. Keeps what is unfinished until the next call. */
export class SseDecoder {
  readonly #decoder = new TextDecoder('utf-8')
  readonly #maxCharacters: number
  #frames: Frame[] = []
  /** Characters since the last event: the parser drops lines that are not fields, and would read them without end. */
  #withoutEvent = 0
  #between = false
  readonly #parser: ReturnType<typeof createParser>

  constructor(maxCharacters: number = maxFrameCharacters) {
    this.#maxCharacters = maxCharacters
    this.#parser = createParser({
      onEvent: ({ event, data }) => this.#frames.push(bounded({ event, data })),
      onError: ({ type, field, value }) => {
        // llama.cpp, up to the end of 2025, writes an error as a field of that name, which the format does not know.
        if (type === 'unknown-field' && field === 'error' && value)
          this.#frames.push({ event: 'error', data: value })
      },
      maxBufferSize: maxCharacters,
    })
  }

  /**
   * The frames completed by these bytes. Throws when one event, or what comes in its place, outgrows the most it may
   * measure, and for JSON that must not be parsed for its shape.
   */
  push(bytes: Uint8Array): Frame[] {
    return this.feed(this.decode(bytes))
  }

  /** Bytes as text for `feed`; a character that is cut waits for its rest. */
  decode(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true })
  }

  /** Whether nothing of an event is waiting for its end: who knows the next one by its looks need not feed it. */
  get between(): boolean {
    return this.#between
  }

  /** As `push`, of text that has been decoded. */
  feed(text: string): Frame[] {
    this.#parser.feed(text)
    this.#between = text.endsWith('\n\n')
    this.#withoutEvent = this.#frames.length > 0 ? 0 : this.#withoutEvent + text.length
    if (this.#withoutEvent > this.#maxCharacters)
      throw new Error(`there is no event in ${this.#maxCharacters} characters`)
    return this.#take()
  }

  /** The frames that the end of the body completes: a last event without its blank line still counts. */
  end(): Frame[] {
    this.#parser.feed(this.#decoder.decode())
    // Two newlines close whatever line and event the body left open; on a clean end they are blank lines.
    this.#parser.feed('\n\n')
    return this.#take()
  }

  #take(): Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }
}

/** The same frame. Throws for JSON that must not be parsed for its shape. */
export function bounded(frame: Frame): Frame {
  const fault = shapeFault(frame.data)
  if (fault !== undefined) throw new Error(`an event ${fault}`)
  return frame
}

/** One frame as text. Only `data:` unless the protocol names its events. */
export function encodeFrame(frame: Frame): string {
  const data = `data: ${frame.data}\n\n`
  return frame.event === undefined ? data : `event: ${frame.event}\n${data}`
}

const utf8 = new TextEncoder()

/** Frames as bytes, in one piece; nothing where there are none. */
export function bytesOf(frames: readonly Frame[]): readonly Uint8Array[] {
  return frames.length === 0 ? [] : [utf8.encode(frames.map(encodeFrame).join(''))]
}

/** A comment, which says nothing to anybody: written to a stream that has been silent for a while. */
export const keepaliveComment = utf8.encode(': keepalive\n\n')

/** The last event of OpenAI's streams. */
export const doneFrame: Frame = { event: undefined, data: '[DONE]' }
