// Two gateways on one PostgreSQL, with calls that go now to the one and now to the other: they are one service.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CatalogFile } from '../../../src/catalog/row.ts'
import { version } from '../../../src/version.ts'
import { eventually, getAs, keyFor, post, runJson } from '../../support/call-gateway.ts'
import { signedIn } from '../../support/console-client.ts'
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
timeouts: { leave_ms: 2000 }
alarms: { webhook: { url: "${webhook.url.href}" }, every_ms: 100, account_month_usd: '0.000001', audit: false }
`
    one = await serveWeir({ config })
    two = await serveWeir({ config })
    two = { ...two, key: one.key }
  }, 60_000)
  afterAll(async () => {
    await two?.stop()
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

  test('the live view, the metrics and weir status know of all gateways and their calls', async () => {
    const call = new AbortController()
    const hanging = fetch(`${two.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${one.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/hang', messages: [{ role: 'user', content: 'Hello.' }] }),
      signal: call.signal,
    }).catch(() => 'gone')
    const { cookie } = await signedIn(one, 'owner@localhost')
    const watch = new AbortController()
    const live = await fetch(`${one.origin}/console/api/live`, { headers: { cookie }, signal: watch.signal })
    let seen = ''
    for await (const text of live.body!.pipeThrough(new TextDecoderStream())) {
      seen += text
      if (seen.includes('sim/hang')) break
    }
    expect(seen).toContain('"phase":"waiting"')
    watch.abort()

    const { gateways } = await runJson<{ gateways: { name: string; version: string; leads: boolean }[] }>(
      two,
      'status',
    )
    expect(gateways).toMatchObject([
      { version, silent: false, leads: true },
      { version, silent: false, leads: false },
    ])
    const { key } = await keyFor(one, 'owner@localhost', '--management')
    const figuresAt = async (weir: ServedWeir) => {
      const text = await (await getAs(`${weir.origin}/metrics`, key)).text()
      const shared =
        /^weir_(open_calls|credit_held_usd|webhooks_waiting|gateways|gateway_leads|alarms_open)\b.*$/gm
      return {
        shared: text.match(shared)!,
        inFlight: /^weir_calls_in_flight (\d+)$/m.exec(text)![1],
        name: /^weir_build_info\{.*gateway="(.*?)"/m.exec(text)![1]!,
      }
    }
    const [first, second] = await Promise.all([one, two].map(figuresAt))
    expect([first!.inFlight, second!.inFlight]).toEqual(['0', '1'])
    expect(first!.shared).toEqual(second!.shared)
    expect(first!.shared).toContain('weir_open_calls 1')
    expect(first!.shared).toContain('weir_gateways{state="alive"} 2')
    expect([first!.name, second!.name]).toEqual(gateways.map(({ name }) => name))
    const overview = await getAs(`${one.origin}/admin/v1/overview`, key)
    expect(await overview.json()).toMatchObject({ calls_in_flight: 1 })
    call.abort()
    expect(await hanging).toBe('gone')
  })

  test('one that is told to stop says so while it still takes calls, and the other one leads', async () => {
    const stopped = one.stop()
    const ready = await until(
      () => fetch(`${one.origin}/readyz`),
      ({ status }) => status === 503,
    )
    expect(await ready.json()).toMatchObject({ status: 'not ready', store: 'writable', draining: true })
    expect((await ask(one)).status).toBe(200)
    const leaders = async () => {
      const { gateways } = await runJson<{ gateways: { leads: boolean }[] }>(two, 'status')
      return gateways.map(({ leads }) => leads)
    }
    await stopped
    expect(await eventually(leaders, (leads) => leads.includes(true))).toEqual([true])
    expect(await fetch(one.origin).catch(() => 'nobody')).toBe('nobody')
    expect((await ask(two)).status).toBe(200)
  })

  test('nobody was told twice of anything', () => {
    expect(alarms).toEqual(['alarm.began budget_reached'])
  })
})
