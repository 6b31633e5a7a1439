// Bytes to text in steps.

import { type Steps, stepCharacters } from './steps.ts'

/**
 * The text that the bytes are in UTF-8, without a byte order mark. What is none throws TypeError where it is `fatal`,
 * and reads as U+FFFD otherwise.
 */
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
