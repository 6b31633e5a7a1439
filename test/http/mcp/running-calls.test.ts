// Calls that a client of the gateway's MCP server can cancel.

import { expect, spyOn, test } from 'bun:test'
import { RunningCalls } from '../../../src/http/mcp/running-calls.ts'

const of = { account: 'anna', line: 'first', session: 's', gone: new AbortController().signal }
const call = { method: 'tools/call', id: 1 }
const cancel = { method: 'notifications/cancelled', params: { requestId: 1 } }

test('a call is cancelled by its session, and by no other', () => {
  const calls = new RunningCalls()
  const { signal } = calls.begin(call, of)
  calls.begin(cancel, { ...of, account: 'ben' })
  calls.begin(cancel, { ...of, line: 'other' })
  calls.begin(cancel, { ...of, session: 't' })
  expect(signal.aborted).toBe(false)
  calls.begin(cancel, of)
  expect(signal.aborted).toBe(true)
})

test('nothing is kept of a call that has ended, and an end does not concern the next call of that id', () => {
  const calls = new RunningCalls()
  const first = calls.begin(call, of)
  const second = calls.begin(call, of)
  first.end()
  calls.begin(cancel, of)
  expect([first.signal.aborted, second.signal.aborted]).toEqual([false, true])
  const third = calls.begin(call, of)
  third.end()
  calls.begin(cancel, of)
  expect(third.signal.aborted).toBe(false)
})

test('a call at another gateway is cancelled, and nobody looks while none runs', async () => {
  const seen = new Set<string>()
  const sightings = {
    see: (_: string, name: string) => Promise.resolve(seen.add(name).size),
    seenOf: (_: string, names: readonly string[]) => Promise.resolve(names.filter((name) => seen.has(name))),
  }
  const gateway = () => new RunningCalls({ sightings, now: Date.now, log: { warn: () => undefined } })
  const [here, there] = [gateway(), gateway()]
  const running = there.begin(call, of)
  const other = there.begin(call, { ...of, session: 't' })
  const aborted = new Promise((resolve) => running.signal.addEventListener('abort', resolve))
  here.begin(cancel, of)
  await aborted
  expect(other.signal.aborted).toBe(false)
  using stopped = spyOn(globalThis, 'clearInterval')
  running.end()
  expect(stopped).not.toHaveBeenCalled()
  other.end()
  expect(stopped).toHaveBeenCalledTimes(1)
})
