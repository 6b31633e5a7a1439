// The thread of token-counter.ts: loading the vocabulary takes a tenth of a second.

import { parentPort } from 'node:worker_threads'
import { countTexts } from './count-texts.ts'
import type { Counted, ToCount } from './token-counter.ts'

parentPort?.on('message', ({ job, texts }: ToCount) => {
  parentPort?.postMessage({ job, tokens: countTexts(texts) } satisfies Counted)
})
