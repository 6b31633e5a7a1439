// Counts tokens for token-counter.ts, in a thread of its own: the vocabulary takes a tenth of a second to load.

import { parentPort } from 'node:worker_threads'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import type { Counted, ToCount } from './token-counter.ts'

parentPort?.on('message', ({ job, texts }: ToCount) => {
  const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0)
  parentPort?.postMessage({ job, tokens } satisfies Counted)
})
