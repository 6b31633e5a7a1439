// Loads the vocabulary: imported by the worker, and by the main thread only where there is no worker.

import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'

/** Text that reads like a control token (`<|endoftext|>`) is text here; by default the tokenizer throws at it. */
const asText = { disallowedSpecial: new Set<string>() }

/** The tokens of all texts together by o200k_base. */
export function countTexts(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + countTokens(text, asText), 0)
}
