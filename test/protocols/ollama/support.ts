// A target for Ollama, everything at rest but what a test names.

import { defaultQuirks, type OllamaQuirks } from '../../../src/protocols/ollama/ollama.ts'
import { targetsLike } from '../../support/conversation.ts'

export const target = targetsLike<OllamaQuirks>({
  model: 'qwen3.6:latest',
  provider: 'ollama',
  quirks: defaultQuirks,
})
