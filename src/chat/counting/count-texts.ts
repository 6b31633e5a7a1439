// Loads the vocabulary. Imported by the worker, and by the main thread only if no worker can be started.

import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

/** Text that looks like a control token (`<|endoftext|>`) counts as text; by default the tokenizer throws on it. */
const asText = { disallowedSpecial: new Set<string>() }

/** The number of o200k_base tokens of all texts together. */
export function countTexts(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + countTokens(text, asText), 0)
}
