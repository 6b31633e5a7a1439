// A target for Claude, everything at rest but what a test names.

import {
  type AnthropicQuirks,
  defaultQuirks,
} from '../../../src/protocols/anthropic-messages/outbound/quirks.ts'
import { targetsLike } from '../../support/conversation.ts'

export const target = targetsLike<AnthropicQuirks>({
  model: 'claude-sonnet-4-5',
  provider: 'anthropic',
  quirks: defaultQuirks,
  maxOutputTokens: 64_000,
  reasoning: true,
})
