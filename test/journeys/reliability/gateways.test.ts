// Two gateways on one PostgreSQL, with calls that go now to the one and now to the other: they are one service.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CatalogFile } from '../../../src/catalog/row.ts'
import { eventually, post, runJson } from '../../support/call-gateway.ts'
import { authority, describeOnPostgres, emptyDatabase } from '../../support/postgres.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { until } from '../../chat/lab.ts'

describeOnPostgres('two gateways on one database', () => {
  let one: ServedWeir
  let two: ServedWeir
  /** What the webhook of alarms was told. */
  const alarms: string[] = []
  const webhook = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      const { type, data } = (await request.json()) as { type: string; data: { alarm: string } }
      alarms.push(`${type} ${data.alarm}`)
      return new Response(null, { status: 204 })
    },
  })
  beforeAll(async () => {
    const url = (await emptyDatabase('gateways')).replace('127.0.0.1', 'localhost')
    const config = `
store: { url: "${url}", ca: ${authority} }
alarms: { webhook: { url: "${webhook.url.href}" }, every_ms: 100, account_month_usd: '0.000001', audit: false }
`
    one = await serveWeir({ config })
    two = await serveWeir({ config })
    two = { ...two, key: one.key }
  }, 60_000)
  afterAll(async () => {
    await Promise.all([one?.stop(), two?.stop()])
    await webhook.stop(true)
  })

  const ask = (weir: ServedWeir, content = 'Hello.') =>
    post(weir, { model: 'sim/echo', messages: [{ role: 'user', content }] })

  test('an alarm is told once, by the one that leads, of calls at the other', async () => {
    expect((await ask(two)).status).toBe(200)
    await until(() => alarms.length > 0)
  })

  test('a catalog that is imported at one is in force at both within a second, and so is the bundled one again', async () => {
    const pricesAt = (weir: ServedWeir) =>
      eventually(
        async () => (await fetch(`${weir.baseUrl}/models/openai/of-this-test`)).status,
        (status) => status === wanted,
        1_000,
      )
    const { date, sources } = JSON.parse((await one.command('catalog', 'export', '-')).stdout) as CatalogFile
    const price = { input: '1', output: '2' }
    const models = [{ id: 'openai/of-this-test', price, source: 'test', date }]
    const file = join(one.dataDir, 'prices.json')
    writeFileSync(file, JSON.stringify({ date, sources, unpriced: [], models }))
    let wanted = 200
    const imported = await runJson<{ removed: readonly string[] }>(one, 'catalog', 'import', file)
    expect(imported.removed.length).toBeGreaterThan(100)
    expect(await Promise.all([one, two].map(pricesAt))).toEqual([200, 200])
    expect(existsSync(join(one.dataDir, 'catalog.json'))).toBe(false)
    expect(await runJson(two, 'catalog', 'diff', file)).toMatchObject({ added: [], removed: [], changed: [] })
    wanted = 404
    await runJson(two, 'catalog', 'import', '--bundled')
    expect(await Promise.all([one, two].map(pricesAt))).toEqual([404, 404])
  })

  test('nobody was told twice of anything', () => {
    expect(alarms).toEqual(['alarm.began budget_reached'])
  })
})
