// GET /metrics: what Prometheus reads of a gateway.

import { expect, test } from 'bun:test'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { postAs } from '../../support/call-gateway.ts'
import { startWeir } from '../../support/run-weir.ts'

/** The sample of a figure without labels. */
function figureOf(text: string, name: string): number {
  return Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1])
}

const counted = 'weir_calls_total{provider="sim",model="sim/echo",code=""}'

test('an operator reads of all calls together; a key that makes calls reads nothing', async () => {
  await using weir = await startWeir()
  const get = (key?: string) =>
    fetch(`${weir.origin}/metrics`, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } })
  for (let call = 0; call < 4; call++) {
    const answer = await postAs(
      `${weir.baseUrl}/chat/completions`,
      weir.key,
      { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] },
      { headers: { connection: 'close' } },
    )
    expect(answer.status).toBe(200)
  }
  const refused = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, { model: 'sim/none' })
  expect(refused.status).toBe(400)
  const backup = join(mkdtempSync(join(tmpdir(), 'weir-copy-')), 'copy.db')
  expect(await weir.command('backup', backup)).toMatchObject({ code: 0 })
  const management = await weir.command('keys', 'create', '--account', 'owner@localhost', '--management')
  const key = management.stdout.trim()
  const deadline = performance.now() + 5_000
  let text = ''
  const isThere = () =>
    text.includes(`${counted} 4`) &&
    text.includes('weir_refusals_total{') &&
    figureOf(text, 'weir_event_loop_delay_seconds_count') > 0
  while (!isThere() && performance.now() < deadline) {
    const answer = await get(key)
    expect(answer.status).toBe(200)
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    text = await answer.text()
  }
  expect(text).toContain(`${counted} 4`)
  expect(text).toContain('weir_attempts_total{provider="sim",outcome="served"} 4\n')
  expect(text).toContain('weir_refusals_total{code="invalid_request"} 1\n')
  expect(text).toContain('weir_provider_state{provider="sim"} 0\n')
  expect(text).toContain('weir_credit_held_usd 0\n')
  expect(figureOf(text, 'weir_event_loop_delay_seconds_count')).toBeGreaterThan(0)
  expect(figureOf(text, 'weir_commit_seconds_count')).toBeGreaterThan(0)
  expect(figureOf(text, 'weir_sync_seconds_count')).toBeGreaterThan(0)
  expect(figureOf(text, 'weir_database_bytes')).toBeGreaterThan(100_000)
  expect(Math.abs(figureOf(text, 'weir_backup_timestamp_seconds') - Date.now() / 1000)).toBeLessThan(60)
  expect(text).toContain('weir_ready 1\n')
  expect(text).toContain('weir_calls_in_flight 0\n')
  expect(text).not.toContain(weir.key)
  expect(await (await get(weir.key)).json()).toMatchObject({ error: { code: 'invalid_api_key' } })
  expect((await get()).status).toBe(401)
}, 30_000)
