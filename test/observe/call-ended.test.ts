// Who listens to the end of calls hears of each, whatever befalls the others.

import { expect, test } from 'bun:test'
import { callEnded } from '../../src/observe/call-ended.ts'
import type { EndedCall } from '../../src/observe/request-log.ts'

test('every listener hears of a call in turn, and one that throws changes nothing', () => {
  const heard: string[] = []
  const errors: unknown[] = []
  const log = { error: (message: string, fields?: object) => void errors.push([message, fields]) }
  const failure = new Error('no provider answered')
  const broken = new TypeError('a fault of ours')
  const listen = callEnded(
    [
      ({ requestId }, why) => void heard.push(`first ${requestId} ${String(why === failure)}`),
      () => {
        throw broken
      },
      ({ requestId }) => void heard.push(`third ${requestId}`),
    ],
    log,
  )
  listen({ requestId: 'req_1' } as EndedCall, failure)
  expect(heard).toEqual(['first req_1 true', 'third req_1'])
  expect(errors).toEqual([['a listener of ended calls failed', { request_id: 'req_1', error: broken }]])
})
