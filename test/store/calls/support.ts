// Rows of the request log for tests of the store.

import type { RequestLogRow } from '../../../src/observe/call-log.ts'
import { noon } from '../../credits/support.ts'

/** A call that was served, streamed to its end, to Anna. */
export function logRowOf(requestId: string, more: Partial<RequestLogRow> = {}): RequestLogRow {
  return {
    requestId,
    at: noon,
    account: 'anna',
    key: 'k',
    model: 'sim/echo',
    provider: 'sim',
    stream: true,
    status: 200,
    code: null,
    ending: 'finished',
    promptTokens: 3,
    completionTokens: 4,
    cost: 2n ** 60n,
    attempts: 1,
    firstByteMs: 12,
    totalMs: 30,
    detail: null,
    contents: null,
    tags: null,
    ...more,
  }
}
