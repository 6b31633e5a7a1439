// How many refusals leave a row in the request log: none is lost without a trace, and no flood fills the disk.

import { describe, expect, test } from 'bun:test'
import {
  AtEndOfTurn,
  callEnded,
  CallLog,
  type EndedCall,
  refusalRowsPerMinute,
  type RequestLogRow,
  strangerRowsPerMinute,
  strangersRowsPerDay,
  strangersRowsPerMinute,
} from '../../src/observe/call-log.ts'

function callLog() {
  const rows: number[] = []
  const silent = () => undefined
  const calls = new CallLog({
    log: { debug: silent, info: silent, warn: silent, error: silent },
    keep: silent,
    keepRefused: silent,
    keepTurnedAway: (row) => rows.push(row.attempts),
    countRefusal: silent,
    usd: String,
  })
  /** Each row has how many before it left none. */
  const refuse = (account: string, network: string, at: number) =>
    calls.keepTurnedAway({ account, network, at }, (attempts) => ({ attempts }) as RequestLogRow)
  return { calls, rows, refuse }
}

const minute = 60_000
const day = 86_400_000

describe('refusals of strangers', () => {
  test('of one network leave a few rows a minute, and others are seen beside a flood', () => {
    const { rows, refuse } = callLog()
    for (let at = 0; at < 10_000; at++) refuse('', '203.0.113.0/24', at)
    expect(rows).toHaveLength(strangerRowsPerMinute)
    refuse('', '198.51.100.0/24', 20_000)
    expect(rows).toHaveLength(strangerRowsPerMinute + 1)
    expect(rows.at(-1)).toBe(10_000 - strangerRowsPerMinute)
    refuse('', '203.0.113.0/24', minute)
    expect(rows.at(-1)).toBe(0)
  })

  test('of very many networks leave a bounded number a minute and a day, and all are counted', () => {
    const { rows, refuse } = callLog()
    let sent = 0
    for (let at = 0; at < day; at += 100, sent++) refuse('', `network ${sent}`, at)
    const perMinute = 1_440 * strangersRowsPerMinute
    expect(rows.length).toBeLessThan(Math.min(perMinute, strangersRowsPerDay + 1_440))
    // One row in each minute to the end of the day.
    refuse('', 'another', day)
    expect(rows.length + rows.reduce((sum, unlisted) => sum + unlisted, 0)).toBe(sent + 1)
  })

  test('are looked up at most so often, however many come', () => {
    const { calls } = callLog()
    let lookedUp = 0
    for (let n = 0; n < 1_000; n++) if (calls.mayLookUp(n)) lookedUp++
    expect(lookedUp).toBeLessThanOrEqual(100)
  })

  test('take no rows of accounts that are known', () => {
    const { rows, refuse } = callLog()
    for (let n = 0; n < 100_000; n++) refuse('', `network ${n}`, 0)
    const before = rows.length
    for (let n = 0; n < 1_000; n++) refuse('acct_one', '203.0.113.0/24', 0)
    refuse('acct_two', '203.0.113.0/24', 0)
    expect(rows.length - before).toBe(refusalRowsPerMinute + 1)
  })
})

test('a path is kept without the key that somebody wrote into it', () => {
  const { calls } = callLog()
  const key = `sk-weir-live-${'a'.repeat(12)}-${'B'.repeat(39)}`
  expect(calls.withoutSecrets(`/v1/requests/${key}`)).not.toContain('BBBB')
  expect(calls.withoutSecrets('/v1/requests/req_1')).toBe('/v1/requests/req_1')
})

// Who listens to the end of calls hears of each, whatever befalls the others.

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
