// The thread of page-reader.ts, which can be terminated in the middle of a page, and alone loads what reads HTML.

import { parentPort } from 'node:worker_threads'
import { extract, plainText } from './extract.ts'
import type { FromWorker, ToExtract } from './page-reader.ts'

parentPort?.on('message', ({ job, html, address, as }: ToExtract) => {
  const extracted = as === 'markdown' ? extract(html, address) : plainText(html)
  parentPort?.postMessage({ job, ...extracted } satisfies FromWorker)
})
parentPort?.postMessage({ started: true } satisfies FromWorker)
