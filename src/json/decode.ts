// Bytes to text in steps.

import { type Steps, stepCharacters } from './steps.ts'

/** Decodes UTF-8 without a byte order mark. Invalid bytes throw TypeError if `fatal`, otherwise they become U+FFFD. */
export function* decodeSteps(chunks: readonly Uint8Array[], { fatal = false } = {}): Steps<string> {
  const decoder = new TextDecoder('utf-8', { fatal })
  const pieces: string[] = []
  for (const bytes of chunks) {
    for (let at = 0; at < bytes.length; at += stepCharacters) {
      pieces.push(decoder.decode(bytes.subarray(at, at + stepCharacters), { stream: true }))
      yield
    }
  }
  pieces.push(decoder.decode())
  return pieces.join('')
}
