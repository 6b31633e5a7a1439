// A target for Ollama and its lines as frames.

import { NdjsonDecoder } from '../../../src/protocols/framing/decoder.ts'
import { defaultQuirks, type OllamaQuirks } from '../../../src/protocols/ollama/ollama.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { targetsLike } from '../../support/conversation.ts'

export const target = targetsLike<OllamaQuirks>({
  model: 'qwen3.6:latest',
  provider: 'ollama',
  quirks: defaultQuirks,
})

export function linesOf(pieces: Iterable<Uint8Array>): Frame[] {
  const decoder = new NdjsonDecoder()
  const frames: Frame[] = []
  for (const piece of pieces) frames.push(...decoder.push(piece))
  return [...frames, ...decoder.end()]
}
