// A target for Cohere, everything at rest but what a test names.

import { type CohereQuirks, defaultQuirks } from '../../../src/protocols/cohere/schema.ts'
import type { Target } from '../../../src/protocols/protocol.ts'

export function target(changes: Partial<Target<CohereQuirks>> = {}): Target<CohereQuirks> {
  return {
    model: 'command-a-03-2025',
    provider: 'cohere',
    quirks: defaultQuirks,
    maxOutputTokens: 8000,
    reasoning: false,
    rememberedSignature: () => undefined,
    ...changes,
  }
}
