// The events of an account's calls in flight.

import { expect, test } from 'bun:test'
import { liveEvents } from '../../src/http/console/requests.ts'

test('calls that cannot be looked up end the events, once, and the log says why', async () => {
  const unhandled: unknown[] = []
  const note = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', note)
  const lines: unknown[] = []
  let ends = 0
  const events = liveEvents({
    callsNow: () => Promise.reject(new Error('the worker has gone')),
    isOver: () => Promise.resolve(false),
    ended: () => ends++,
    signal: new AbortController().signal,
    log: { warn: (message, fields) => lines.push([message, fields]) },
  })
  expect(await new Response(events).text()).toBe('')
  process.off('unhandledRejection', note)
  expect(ends).toBe(1)
  expect(lines).toEqual([
    ['the calls in flight could not be looked up', { error: new Error('the worker has gone') }],
  ])
  expect(unhandled).toEqual([])
})
