// Watches a stream that is forwarded verbatim: finds usage, finish and errors without parsing every frame.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { isObject, parseJson, stringEnd } from '../json.ts'
import { maxFrameCharacters } from '../sse.ts'

/** What a passthrough has seen of its stream so far. */
export interface Meter {
  /** The provider's usage object as it stood on the wire, the last one if there were several. */
  readonly usage: JsonObject | undefined
  /** The provider's error, where it sent one inside the stream; nothing is forwarded after it. */
  readonly error: Json | undefined
  /** Whether content (text, reasoning, a refusal, a call) has been seen: from here no failover is possible. */
  readonly started: boolean
  /** Whether every choice has its finish reason: a stream that ends without this was cut. */
  readonly finished: boolean
  /** Whether the provider said `[DONE]`. */
  readonly done: boolean
  /** Deltas with content: with most providers one for each token. For the charge of a cut stream. */
  readonly deltas: number
  /** About how many characters (bytes, when verbatim) of content and arguments have passed. */
  readonly characters: number
}

/** The usage object of a chunk, wherever its provider keeps it: on the chunk, in `x_groq`, on a choice. */
export function reportedUsage(chunk: JsonObject): JsonObject | undefined {
  if (isObject(chunk['usage'])) return chunk['usage']
  const groq = chunk['x_groq']
  if (isObject(groq) && isObject(groq['usage'])) return groq['usage']
  if (!Array.isArray(chunk['choices'])) return undefined
  const counted = chunk['choices'].find((choice) => isObject(choice) && isObject(choice['usage']))
  return isObject(counted) && isObject(counted['usage']) ? counted['usage'] : undefined
}

/** What marks the frames that must be parsed, in the two ways JSON is spaced. */
const markers = {
  tight: {
    finish: '"finish_reason":"',
    usage: '"usage":{',
    error: '"error":',
    content: 'content":"',
    args: 'arguments":"',
  },
  spaced: {
    finish: '"finish_reason": "',
    usage: '"usage": {',
    error: '"error": ',
    content: 'content": "',
    args: 'arguments": "',
  },
} as const

const nothing = new Uint8Array(0)

/**
 * Forwards the bytes of a provider whose frames meet the wire contract. Withheld are `[DONE]`, the frame that
 * holds nothing but usage, and errors: whoever settles the call writes those. `model` replaces the provider's name
 * for itself. Bytes are held as latin1 text, one character each, so a cut inside UTF-8 needs no care.
 */
export class VerbatimFilter implements Meter {
  usage: JsonObject | undefined
  error: Json | undefined
  started = false
  done = false
  deltas = 0
  characters = 0
  /** The provider's id and time of the answer: frames added to the stream must carry the same. */
  id: string | undefined
  created: number | undefined

  readonly #model: string | undefined
  readonly #choices: number
  readonly #maxFrameBytes: number
  readonly #finishReasons = new Map<number, string>()
  /** The pieces of the last, incomplete frame, and their length. */
  #held: string[] = []
  #heldLength = 0
  #heldReturn = false
  #marks: (typeof markers)['tight' | 'spaced'] = markers.tight
  /** How the provider writes its model, and what stands there instead; learnt from the first frame that has one. */
  #rename: { readonly from: string; readonly to: string } | undefined
  #nameOffset = 0

  /**
   * `model`: the id to show, undefined to leave the provider's. `choices`: how many answers were asked for.
   * `maxFrameBytes`: a frame that grows longer is an error.
   */
  constructor(options: {
    readonly model: string | undefined
    readonly choices: number
    readonly maxFrameBytes?: number
  }) {
    this.#model = options.model
    this.#choices = options.choices
    this.#maxFrameBytes = options.maxFrameBytes ?? maxFrameCharacters
  }

  get finished(): boolean {
    return this.error === undefined && this.#finishReasons.size >= this.#choices
  }

  /** Finish reasons by choice, as the provider gave them. */
  get finishReasons(): ReadonlyMap<number, string> {
    return this.#finishReasons
  }

  /** What to forward of these bytes: whole frames only; an unfinished one waits for its end. */
  push(bytes: Uint8Array): Uint8Array {
    if (this.done || this.error !== undefined) return nothing
    const received = latin1(bytes)
    const frames = this.#wholeFrames(received)
    if (frames === '') return nothing
    if (this.#isPlain(frames)) {
      const renamed = this.#renamedAll(frames)
      if (renamed !== undefined) {
        this.#count(frames)
        return renamed === received ? bytes : Buffer.from(renamed, 'latin1')
      }
    }
    return Buffer.from(this.#carefully(frames), 'latin1')
  }

  /** What the end of the body completes: a last frame without its blank line. A fragment is not forwarded. */
  end(): Uint8Array {
    const rest = this.#held.join('')
    this.#held = []
    this.#heldLength = 0
    if (this.done || this.error !== undefined || rest.trim() === '') return nothing
    if (!isObject(parseJson(utf8(dataOf(rest)))) && dataOf(rest) !== '[DONE]') return nothing
    return Buffer.from(this.#frame(rest), 'latin1')
  }

  /** The frames that are complete now, each with its blank line; keeps the rest. Line ends become LF. */
  #wholeFrames(received: string): string {
    const text = this.#withoutReturns(received)
    const last = this.#held.at(-1)
    // The blank line may be cut in two: one newline held, one received.
    const split = last !== undefined && last.endsWith('\n') && text.startsWith('\n')
    const boundary = text.lastIndexOf('\n\n')
    const end = boundary !== -1 ? boundary + 2 : split ? 1 : -1
    if (end === -1) {
      this.#hold(text)
      return ''
    }
    const frames = last === undefined ? text.slice(0, end) : this.#held.join('') + text.slice(0, end)
    this.#held = []
    this.#heldLength = 0
    if (end < text.length) this.#hold(text.slice(end))
    return frames
  }

  #withoutReturns(received: string): string {
    const text = this.#heldReturn ? `\r${received}` : received
    this.#heldReturn = text.endsWith('\r')
    if (!text.includes('\r')) return text
    return (this.#heldReturn ? text.slice(0, -1) : text).replaceAll('\r\n', '\n')
  }

  #hold(text: string): void {
    if (text === '') return
    this.#heldLength += text.length
    if (this.#heldLength > this.#maxFrameBytes) {
      this.error = { message: 'The provider sent a frame without end.' }
      this.#held = []
      return
    }
    this.#held.push(text)
  }

  /** Whether frames need no look inside: content has begun, and nothing in them ends, counts or fails. */
  #isPlain(frames: string): boolean {
    if (!this.started || this.finished) return false
    const marks = this.#marks
    return !(
      frames.includes(marks.finish) ||
      frames.includes(marks.usage) ||
      frames.includes(marks.error) ||
      frames.endsWith('[DONE]\n\n')
    )
  }

  /** All frames under our model's name; undefined when not every frame names the model as the first one did. */
  #renamedAll(frames: string): string | undefined {
    if (this.#model === undefined) return frames
    if (this.#rename === undefined) return undefined
    const { from, to } = this.#rename
    let out = ''
    for (let at = 0; at < frames.length;) {
      const end = frames.indexOf('\n\n', at) + 2
      // The name stands at the same place in nearly every frame: look there before searching.
      const usual = at + this.#nameOffset
      const found = frames.startsWith(from, usual) ? usual : frames.indexOf(from, at)
      if (found === -1 || found >= end) return undefined
      this.#nameOffset = found - at
      out += frames.slice(at, found) + to + frames.slice(found + from.length, end)
      at = end
    }
    return out
  }

  #count(frames: string): void {
    if (!this.#countStrings(frames, this.#marks.content)) this.#countStrings(frames, this.#marks.args)
  }

  /** Adds up the strings that follow `mark`; false where there are none. */
  #countStrings(frames: string, mark: string): boolean {
    let at = frames.indexOf(mark)
    if (at === -1) return false
    while (at !== -1) {
      const start = at + mark.length
      const quote = stringEnd(frames, start)
      const end = quote === -1 ? frames.length : quote
      if (end > start) {
        this.deltas += 1
        this.characters += end - start
      }
      at = frames.indexOf(mark, end)
    }
    return true
  }

  #carefully(frames: string): string {
    let out = ''
    for (const frame of frames.split('\n\n')) {
      if (this.done || this.error !== undefined) break
      if (frame !== '') out += this.#frame(frame)
    }
    return out
  }

  /** One frame, parsed: what to forward of it, its blank line included. */
  #frame(frame: string): string {
    const data = dataOf(frame)
    // Comments are the provider's keep-alive; ours is written by whoever writes to the client.
    if (data === '') return ''
    if (data === '[DONE]') {
      this.done = true
      return ''
    }
    const chunk = parseJson(utf8(data))
    if (!isObject(chunk)) {
      this.error = { message: 'The provider sent a frame that is not a JSON object.' }
      return ''
    }
    if (chunk['error'] != null) {
      this.error = chunk['error']
      return ''
    }
    this.#learn(chunk, data)
    const choices = Array.isArray(chunk['choices']) ? chunk['choices'] : []
    const usage = reportedUsage(chunk)
    if (usage) this.usage = usage
    if (usage && choices.length === 0) return ''
    for (const choice of choices) if (isObject(choice)) this.#observe(choice)
    return `data: ${this.#renamed(chunk, data)}\n\n`
  }

  #learn(chunk: JsonObject, data: string): void {
    if (this.id === undefined && typeof chunk['id'] === 'string' && chunk['id'] !== '') {
      this.id = chunk['id']
      if (typeof chunk['created'] === 'number') this.created = chunk['created']
    }
    this.#marks = /^\{\s*"[^"]*":\s/.test(data) ? markers.spaced : markers.tight
    if (this.#model === undefined || typeof chunk['model'] !== 'string' || chunk['model'] === '') return
    const space = this.#marks === markers.spaced ? ' ' : ''
    const pair = (model: string) => `"model":${space}${latin1(Buffer.from(JSON.stringify(model)))}`
    this.#rename = { from: pair(chunk['model']), to: pair(this.#model) }
  }

  #observe(choice: JsonObject): void {
    const delta = isObject(choice['delta']) ? choice['delta'] : {}
    const characters = contentLength(delta)
    if (characters > 0) {
      this.started = true
      this.deltas += 1
      this.characters += characters
    }
    const index = typeof choice['index'] === 'number' ? choice['index'] : 0
    const reason = choice['finish_reason']
    if (typeof reason === 'string' && reason !== '') this.#finishReasons.set(index, reason)
  }

  #renamed(chunk: JsonObject, data: string): string {
    if (this.#model === undefined) return data
    const { from, to } = this.#rename ?? { from: '', to: '' }
    const at = from === '' ? -1 : data.indexOf(from)
    if (at !== -1) return data.slice(0, at) + to + data.slice(at + from.length)
    return latin1(Buffer.from(JSON.stringify({ ...chunk, model: this.#model })))
  }
}

/** The data of a frame: its `data:` lines joined; empty for comments and names alone. */
function dataOf(frame: string): string {
  if (frame.startsWith('data: ') && !frame.includes('\n')) return frame.slice('data: '.length)
  return frame
    .split('\n')
    .filter((line) => line.startsWith('data:'))
    .map((line) => (line.startsWith('data: ') ? line.slice('data: '.length) : line.slice('data:'.length)))
    .join('\n')
}

/** Characters of a delta that the client was served; audio and other parts count as one, so that they count. */
function contentLength(delta: JsonObject): number {
  let length = 0
  for (const [field, value] of Object.entries(delta)) {
    if (field === 'role' || value === null || value === '') continue
    if (typeof value === 'string') length += value.length
    else if (field === 'tool_calls' && Array.isArray(value)) length += JSON.stringify(value).length
    else length += 1
  }
  return length
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function utf8(text: string): string {
  return Buffer.from(text, 'latin1').toString('utf8')
}
