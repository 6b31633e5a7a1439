// Reads why a provider refused a request. Its status decides what happens, so the reading never fails: an error that
// quotes a whole prompt is shortened, and of one that breaks off or never ends, what came is completed.

import { type Scheduler, stepsOf } from '../../scheduler/scheduler.ts'
import type { BodyReader } from '../streaming/relay.ts'

/** How much is kept: providers' errors are short, and a web page is not worth more. */
const keptBytes = 65_536
/** Of one string: no provider says more in earnest. Longer ones quote the request. */
const stringBytes = 8_192
/** How much is read in search of the end, which may hold the code. */
const readBytes = 16 * 1024 ** 2

/** The text of an error, as much as arrives. JSON stays JSON. */
export async function errorText(reader: BodyReader, scheduler: Scheduler): Promise<string> {
  const kept = new ErrorText()
  let read = 0
  try {
    for (;;) {
      const { done, value } = await reader.readMany()
      for (const bytes of value ?? [])
        for (const piece of stepsOf(bytes)) {
          read += piece.length
          await scheduler.run(() => kept.take(piece), 'started')
        }
      if (done) break
      if (kept.isFull || read > readBytes) {
        await reader.cancel()
        break
      }
    }
  } catch {
    // It broke off, or took too long.
  }
  return kept.end()
}

const [quote, backslash, letterU] = [0x22, 0x5c, 0x75]
const [braceOpen, braceClose, bracketOpen, bracketClose] = [0x7b, 0x7d, 0x5b, 0x5d]

/** Keeps the beginning of a text; of JSON everything but white space and the rest of long strings. */
export class ErrorText {
  readonly #bytes = new Uint8Array(keptBytes)
  #length = 0
  /** Undefined until the first byte that is not white space. */
  #isJson: boolean | undefined
  #inString = false
  /** Bytes kept of the current string. */
  #ofString = 0
  /** Bytes that still belong to an escape that has begun. */
  #escape = 0
  #drops = false
  #isFull = false

  /** Whether nothing more will be kept. */
  get isFull(): boolean {
    return this.#isFull
  }

  take(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length && !this.#isFull; at++) {
      const byte = bytes[at]!
      if (this.#isJson === undefined && byte > 0x20) this.#isJson = byte === braceOpen || byte === bracketOpen
      if (this.#isJson === false) this.#keep(byte)
      else if (this.#inString) this.#takeOfString(byte)
      else if (byte > 0x20) {
        this.#inString = byte === quote
        this.#ofString = 0
        this.#keep(byte)
      }
    }
  }

  #takeOfString(byte: number): void {
    const isEscaped = this.#escape > 0
    // An escape is kept whole or dropped whole.
    if (!isEscaped) this.#drops = this.#ofString >= stringBytes && byte !== quote
    if (!this.#drops) {
      this.#ofString += 1
      this.#keep(byte)
    }
    if (isEscaped) this.#escape += byte === letterU && this.#escape === 1 ? 3 : -1
    else if (byte === backslash) this.#escape = 1
    else if (byte === quote) this.#inString = false
  }

  #keep(byte: number): void {
    this.#bytes[this.#length++] = byte
    this.#isFull = this.#length === keptBytes
  }

  end(): string {
    const text = new TextDecoder().decode(this.#bytes.subarray(0, this.#length))
    return this.#isJson === true ? completeJson(text) : text
  }
}

/** JSON that breaks off, with what is missing at its end; unchanged if that cannot be known. */
export function completeJson(text: string): string {
  let closing = ''
  /** The last places where a member or an item had ended, and what closes the text there. */
  let before: { readonly end: number; readonly closing: string } | undefined
  let inString = false
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (inString) {
      if (code === backslash) at += 1
      else if (code === quote) inString = false
    } else if (code === quote) inString = true
    else if (code === braceOpen) closing = `}${closing}`
    else if (code === bracketOpen) closing = `]${closing}`
    else if (code === braceClose || code === bracketClose) closing = closing.slice(1)
    else if (code === 0x2c) before = { end: at, closing }
  }
  if (closing === '') return text
  const end = `${inString ? '"' : ''}${closing}`
  const candidates = [text + end, text.replace(/\\(?:u[0-9a-f]{0,3})?$/i, '') + end]
  if (before) candidates.push(text.slice(0, before.end) + before.closing)
  return candidates.find(isJson) ?? text
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
