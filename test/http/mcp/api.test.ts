// The API as the tools of the gateway's MCP server call it.

import { expect, test } from 'bun:test'
import type { Caller } from '../../../src/accounts/account.ts'
import { Prefixes } from '../../../src/json/scan.ts'
import { Scheduler } from '../../../src/scheduler/scheduler.ts'
import { LargeBodies } from '../../../src/http/intake/read-body.ts'
import { ownApi } from '../../../src/http/mcp/mcp.ts'
import type { HttpParts } from '../../../src/http/parts.ts'
import { CallLog } from '../../../src/observe/call-log.ts'

const signal = new AbortController().signal
const caller = { account: { id: 'anna' }, key: null, standing: null } as unknown as Caller
const large = { messages: 'x'.repeat(300_000) }

function lab() {
  const largeBodies = new LargeBodies()
  const faults: unknown[] = []
  const quiet = () => undefined
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  const rows: (string | null)[] = []
  const calls = new CallLog({
    log,
    keep: quiet,
    keepRefused: quiet,
    keepTurnedAway: ({ account, code }) => rows.push(account, code),
    countRefusal: quiet,
    usd: String,
  })
  const parts = {
    calls,
    site: { addressOf: () => '' },
    now: Date.now,
    body: { maxBodyBytes: 1024 ** 2, maxHeaderBytes: 16_384, maxDepth: 8 },
    scheduler: new Scheduler(),
    largeBodies,
    prefixes: new Prefixes(),
    log: { error: (_: string, fields: { error: unknown }) => faults.push(fields.error) },
    publicUrl: () => 'http://127.0.0.1:8787',
  } as unknown as HttpParts
  return {
    api: ownApi(parts, new Request('http://127.0.0.1:8787/mcp'), caller, signal),
    largeBodies,
    faults,
    rows,
  }
}

test('a large body that is refused makes no other wait', async () => {
  const { api, largeBodies, faults, rows } = lab()
  const { status } = await api('/v1/chat/completions', large, signal)
  expect([status, largeBodies.bytes, faults]).toEqual([400, 0, []])
  // It can be found by its id.
  expect(rows).toEqual(['anna', 'invalid_request'])
})

test('a fault of the gateway is logged, and its client told nothing of it', async () => {
  const { api, faults } = lab()
  // There is no catalog here to list the models of.
  const answer = await api('/v1/models', undefined, signal)
  expect([answer.status, faults]).toEqual([500, [expect.any(TypeError)]])
  expect(await answer.text()).not.toContain('catalog')
})
