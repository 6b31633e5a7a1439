// Who listens to the end of calls hears of each, whatever befalls the others.

import { expect, test } from 'bun:test'
import { AtEndOfTurn, callEnded } from '../../src/observe/call-log.ts'
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

test('calls that end in one turn are told of together, after what goes on in it; a failure at once', async () => {
  const heard: string[] = []
  const { callEnded: ended } = new AtEndOfTurn(({ requestId }, failure) => {
    heard.push(failure === undefined ? requestId : `${requestId} failed`)
  })
  ended({ requestId: 'req_1' } as EndedCall, undefined)
  ended({ requestId: 'req_2' } as EndedCall, new Error('no provider answered'))
  ended({ requestId: 'req_3' } as EndedCall, undefined)
  await Promise.resolve()
  heard.push('the answers are written')
  await new Promise((resolve) => setImmediate(resolve))
  expect(heard).toEqual(['req_2 failed', 'the answers are written', 'req_1', 'req_3'])
})

test('a stop is told of the calls that ended in its turn, and nobody twice', async () => {
  const heard: string[] = []
  const noted = new AtEndOfTurn(({ requestId }) => void heard.push(requestId))
  noted.callEnded({ requestId: 'req_1' } as EndedCall, undefined)
  noted.flush()
  expect(heard).toEqual(['req_1'])
  await new Promise((resolve) => setImmediate(resolve))
  expect(heard).toEqual(['req_1'])
})
