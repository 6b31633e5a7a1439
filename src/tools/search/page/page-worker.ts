// The thread of page-reader.ts, which can be terminated in the middle of a page.

import { parentPort } from 'node:worker_threads'
import { extract } from './extract.ts'
import type { FromWorker, ToExtract } from './page-reader.ts'

parentPort?.on('message', ({ job, html, address }: ToExtract) => {
  parentPort?.postMessage({ job, ...extract(html, address) } satisfies FromWorker)
})
parentPort?.postMessage({ started: true } satisfies FromWorker)
