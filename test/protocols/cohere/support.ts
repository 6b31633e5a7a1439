// A target for Cohere, everything at rest but what a test names.

import { type CohereQuirks, defaultQuirks } from '../../../src/protocols/cohere/cohere.ts'
import { targetsLike } from '../../support/conversation.ts'

export const target = targetsLike<CohereQuirks>({
  model: 'command-a-03-2025',
  provider: 'cohere',
  quirks: defaultQuirks,
  maxOutputTokens: 8000,
})
