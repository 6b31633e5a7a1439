// Bytes ⇄ server-sent event frames.

import { createParser } from 'eventsource-parser'
import type { JsonObject } from '../../conversation/request.ts'
import { type Steps, stringifySteps } from '../../json/json.ts'
import { shapeFault } from '../../json/scan.ts'

/** One event: its name, if any, and its data lines joined by newlines. */
export interface Frame {
  readonly event: string | undefined
  readonly data: string
}

/** An event for a client with so much data that it is encoded in steps. */
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

/** The default limit of an event, characters: an endless line must not fill the memory, but an image is one event. */
export const maxFrameCharacters = 8 * 1024 * 1024

/** An event above the limit, or made of more than may be parsed: another try would bring as much again. */
export class OversizedFrame extends Error {
  override readonly name = 'OversizedFrame'
}

/** Decodes the bytes of an SSE body, cut anywhere, to frames. Keeps what is unfinished until the next call. */
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
      onEvent: ({ event, data }) => this.#frames.push(boundFrame({ event, data })),
      onError: ({ type, field, value }) => {
        if (type === 'max-buffer-size-exceeded')
          throw new OversizedFrame(`an event has more than ${maxCharacters} characters`)
        // llama.cpp until the end of 2025 sends errors as a field of that name, which is not part of the format.
        if (type === 'unknown-field' && field === 'error' && value)
          this.#frames.push({ event: 'error', data: value })
      },
      maxBufferSize: maxCharacters,
    })
  }

  /** The frames completed by these bytes. Throws for an event above the limit, and for JSON unsafe to parse. */
  push(bytes: Uint8Array): Frame[] {
    return this.feed(this.decode(bytes))
  }

  /** Decodes bytes for `feed`; an incomplete character waits for its rest. */
  decode(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true })
  }

  /** Whether no event is in progress: a caller that recognises the next one may skip feeding it. */
  get between(): boolean {
    return this.#between
  }

  /** As `push`, of text that has been decoded. */
  feed(text: string): Frame[] {
    this.#parser.feed(text)
    this.#between = text.endsWith('\n\n') || text.endsWith('\n\r\n')
    this.#withoutEvent = this.#frames.length > 0 ? 0 : this.#withoutEvent + text.length
    if (this.#withoutEvent > this.#maxCharacters)
      throw new OversizedFrame(`there is no event in ${this.#maxCharacters} characters`)
    return this.#take()
  }

  /** The frames completed by the end of the body: a last event without its blank line still counts. */
  end(): Frame[] {
    this.#parser.feed(this.#decoder.decode())
    // Two newlines close any open line and event; at a clean end they are blank lines.
    this.#parser.feed('\n\n')
    return this.#take()
  }

  #take(): Frame[] {
    const frames = this.#frames
    this.#frames = []
    return frames
  }
}

/** The position after the blank line that ends an event, or the end of the text. */
export function endOfEvent(text: string, from: number): number {
  for (let at = text.indexOf('\n', from); at >= 0; at = text.indexOf('\n', at + 1)) {
    if (text.startsWith('\n', at + 1)) return at + 2
    if (text.startsWith('\r\n', at + 1)) return at + 3
  }
  return text.length
}

/** Returns the frame. Throws for JSON whose shape is not safe to parse. */
export function boundFrame(frame: Frame): Frame {
  const fault = shapeFault(frame.data)
  if (fault !== undefined) throw new OversizedFrame(`an event ${fault}`)
  return frame
}

/** A frame as text. Only `data:` unless the protocol names its events. */
export function encodeFrame(frame: Frame): string {
  const data = `data: ${frame.data}\n\n`
  return frame.event === undefined ? data : `event: ${frame.event}\n${data}`
}

const utf8 = new TextEncoder()

/** Frames as one byte array; empty without any. */
export function bytesOf(frames: readonly Frame[]): readonly Uint8Array[] {
  return frames.length === 0 ? [] : [utf8.encode(frames.map(encodeFrame).join(''))]
}

/** A comment, ignored by clients: sent while a stream is silent. */
export const keepaliveComment = utf8.encode(': keepalive\n\n')

/** The last event of OpenAI's streams. */
export const doneFrame: Frame = { event: undefined, data: '[DONE]' }
