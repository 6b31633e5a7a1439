// A target for Bedrock, and its binary streams as frames.

import { AwsEventStreamDecoder } from '../../../src/protocols/framing/decoder.ts'
import { type BedrockQuirks, defaultQuirks } from '../../../src/protocols/bedrock-converse/lower.ts'
import type { Frame } from '../../../src/protocols/framing/sse.ts'
import { targetsLike } from '../../support/conversation.ts'

export const target = targetsLike<BedrockQuirks>({
  model: 'us.anthropic.claude-sonnet-4-5-20250929-v1:0',
  provider: 'bedrock',
  quirks: defaultQuirks,
  maxOutputTokens: 64_000,
  reasoning: true,
})

/** Every frame there is before the body ends: one that ends inside a message keeps what was whole. */
export function framesOf(pieces: Iterable<Uint8Array>): Frame[] {
  const decoder = new AwsEventStreamDecoder()
  const frames: Frame[] = []
  for (const piece of pieces) frames.push(...decoder.push(piece))
  return frames
}
