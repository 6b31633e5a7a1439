// How much is kept of answers for Idempotency-Keys.

import { expect, test } from 'bun:test'
import { KeptBytes } from '../../src/http/intake/paid/idempotency.ts'
import { post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'

test('an account keeps so much and no more, until the older half is over', () => {
  let now = 0
  const kept = new KeptBytes({ accountBytes: 100, keepMs: 1_000 }, () => now)
  expect(kept.take('anna', 60)).toBe(true)
  expect(kept.take('anna', 50)).toBe(false)
  expect(kept.take('bert', 100)).toBe(true)
  now = 600
  expect(kept.take('anna', 40)).toBe(true)
  expect(kept.take('anna', 1)).toBe(false)
  now = 1_100
  // The 60 are forgotten, the 40 are not.
  expect(kept.take('anna', 61)).toBe(false)
  expect(kept.take('anna', 60)).toBe(true)
  now = 3_000
  expect(kept.take('anna', 100)).toBe(true)
})

test('an answer that finds no room is charged once, and told to be lost', async () => {
  await using weir = await serveWeir({ config: 'idempotency: { account_bytes: 3000 }' })
  const body = { model: 'sim/echo', messages: [{ role: 'user', content: 'x'.repeat(2_000) }] }
  const ask = (key: string) => post(weir, body, { headers: { 'idempotency-key': key } })
  for (const key of ['first', 'second']) expect((await ask(key)).status).toBe(200)
  expect((await ask('first')).headers.get('idempotency-replayed')).toBe('true')
  expect((await ask('second')).error?.code).toBe('idempotency_answer_lost')
})
