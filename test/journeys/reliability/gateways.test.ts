// Two gateways on one PostgreSQL, with calls that go now to the one and now to the other: they are one service.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { CatalogFile } from '../../../src/catalog/row.ts'
import { version } from '../../../src/version.ts'
import {
  type Answer,
  eventually,
  failure,
  getAs,
  keyFor,
  post,
  restingCredits,
  runJson,
} from '../../support/call-gateway.ts'
import { signedIn } from '../../support/console-client.ts'
import { authority, describeOnPostgres, emptyDatabase } from '../../support/postgres.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { until } from '../../chat/lab.ts'

describeOnPostgres('two gateways on one database', () => {
  let one: ServedWeir
  let two: ServedWeir
  /** As clients know them: each request goes to another one than the request before. */
  let both: ServedWeir
  let requests = 0
  const balancer = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 60,
    fetch(request) {
      const { pathname, search } = new URL(request.url)
      const { origin } = requests++ % 2 === 0 ? one : two
      return fetch(new Request(`${origin}${pathname}${search}`, request), {
        redirect: 'manual',
        decompress: false,
      })
    },
  })
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
    const url = (await emptyDatabase('two_gateways')).replace('127.0.0.1', 'localhost')
    const config = `
store: { url: "${url}", ca: ${authority} }
server: { public_url: 'http://localhost:${balancer.port}' }
timeouts: { leave_ms: 3000 }
alarms: { webhook: { url: "${webhook.url.href}" }, every_ms: 100, account_month_usd: '0.000001', audit: false }
`
    one = await serveWeir({ config })
    two = await serveWeir({ config })
    two = { ...two, key: one.key }
    const origin = `http://127.0.0.1:${balancer.port}`
    both = { ...one, origin, baseUrl: `${origin}/v1`, port: balancer.port! }
  }, 60_000)
  afterAll(async () => {
    await two?.stop()
    await webhook.stop(true)
    await balancer.stop(true)
  })

  const ask = (weir: ServedWeir, content = 'Hello.') =>
    post(weir, { model: 'sim/echo', messages: [{ role: 'user', content }] })

  test('an alarm is told once, by the one that leads, of calls at the other', async () => {
    expect((await ask(two)).status).toBe(200)
    await until(() => alarms.length > 0)
  })

  test('a catalog that is imported at one is in force at both without a restart, and so is the bundled one again', async () => {
    const pricesAt = (weir: ServedWeir) =>
      eventually(
        async () => (await fetch(`${weir.baseUrl}/models/openai/of-this-test`)).status,
        (status) => status === wanted,
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

  test('a conversation, a session, a repeated call and a running one are the same whichever is asked', async () => {
    const client = new OpenAI({ apiKey: one.key, baseURL: both.baseUrl, maxRetries: 0 })
    const model = 'sim/echo'
    const first = await client.responses.create({ model, input: 'One.' })
    const second = await client.responses.create({ model, input: 'Two.', previous_response_id: first.id })
    for (const { id } of [first, second, first, second])
      expect(await client.responses.retrieve(id)).toMatchObject({ id, status: 'completed' })
    await client.responses.delete(first.id)
    for (const _ of [one, two])
      expect(await failure(client.responses.retrieve(first.id))).toMatchObject({ status: 404 })

    const begun = await client.responses.create({ model: 'sim/hang', input: 'Wait.', background: true })
    for (const _ of [one, two])
      expect((await client.responses.retrieve(begun.id)).status).toBeOneOf(['queued', 'in_progress'])
    await client.responses.cancel(begun.id)
    const states = async () => [
      await client.responses.retrieve(begun.id),
      await client.responses.retrieve(begun.id),
    ]
    const cancelled = await eventually(states, (all) => all.every(({ status }) => status === 'cancelled'))
    expect(cancelled.map(({ status }) => status)).toEqual(['cancelled', 'cancelled'])

    const before = await restingCredits(both)
    const keyed = { headers: { 'idempotency-key': 'once' } }
    const body = { model, messages: [{ role: 'user', content: 'Only once.' }] }
    const answers: Answer[] = await Promise.all([post(both, body, keyed), post(both, body, keyed)])
    answers.push(await post(both, body, keyed), await post(both, body, keyed))
    // The second of two at one time is told to wait, or given the answer.
    expect(answers.map(({ status }) => status).filter((status) => ![200, 409].includes(status))).toEqual([])
    expect(answers.slice(2).map(({ content }) => content)).toEqual(['Only once.', 'Only once.'])
    const texts = new Set(answers.filter(({ status }) => status === 200).map(({ text }) => text))
    expect(texts.size).toBe(1)
    const { usage } = JSON.parse(answers.at(-1)!.text) as { usage: { cost: number } }
    const after = await restingCredits(both)
    expect(Number(after.total_used) - Number(before.total_used)).toBeCloseTo(usage.cost, 12)

    const browser = await signedIn(both, 'owner@localhost')
    for (const _ of [one, two, one])
      expect((await browser.session()).account).toMatchObject({ email: 'owner@localhost' })
    const topUp = await browser.post('top-ups', { amount: '500', currency: 'INR' })
    expect(topUp.status).toBe(201)
    const { pathname } = new URL(String(topUp.json['url']))
    for (const { origin } of [one, two]) expect((await fetch(`${origin}${pathname}`)).status).toBe(200)
    const paid = () => fetch(`${both.origin}${pathname}/paid`, { method: 'POST', redirect: 'manual' })
    expect([(await paid()).status, (await paid()).status]).toEqual([303, 303])
    expect((await browser.get(`top-ups/${String(topUp.json['id'])}`)).json).toMatchObject({
      state: 'credited',
    })
    expect((await browser.post('sign-out')).status).toBe(200)
    for (const _ of [one, two]) expect((await browser.session()).account).toBeNull()
  })

  test('of changes by a directory to one version of an account one is made, whichever gateway is asked, and of one name one group', async () => {
    const operator = ['--account', 'owner@localhost', '--scope', 'scim']
    const { key } = await runJson<{ key: string }>(one, 'keys', 'create', '--management', ...operator)
    const scim = (weir: ServedWeir, method: string, path: string, body: object, version?: string) =>
      fetch(`${weir.origin}/scim/v2/${path}`, {
        method,
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/scim+json',
          ...(version === undefined ? {} : { 'if-match': version }),
        },
        body: JSON.stringify(body),
      })
    const made = await scim(one, 'POST', 'Users', { userName: 'vera@example.org', active: true })
    const { id } = (await made.json()) as { id: string }
    let version = made.headers.get('etag')!
    // Whether somebody is active is in the memory of each gateway, a title in that of none.
    for (const members of [{ active: false }, { title: 'Miller' }, { active: true }, { title: 'Baker' }]) {
      const change = (weir: ServedWeir, more: object) =>
        scim(weir, 'PUT', `Users/${id}`, { userName: 'vera@example.org', ...members, ...more }, version)
      const answers = await Promise.all([change(one, {}), change(two, {}), change(one, { nickName: 'V' })])
      expect(answers.map(({ status }) => status).toSorted()).toEqual([200, 412, 412])
      version = answers.find(({ status }) => status === 200)!.headers.get('etag')!
    }
    const create = (weir: ServedWeir, path: string, body: object) => scim(weir, 'POST', path, body)
    const group = { displayName: 'River', externalId: 'ext-river' }
    const user = (address: string) => ({ userName: 'walter', emails: [{ value: address }] })
    for (const made of [
      [create(one, 'Groups', group), create(two, 'Groups', group), create(one, 'Groups', group)],
      [create(one, 'Users', user('w@example.org')), create(two, 'Users', user('walter@example.org'))],
    ]) {
      const statuses = (await Promise.all(made)).map(({ status }) => status).toSorted()
      expect(statuses).toEqual([201, ...made.slice(1).map(() => 409)])
    }
  })

  test('the live view, the metrics and weir status know of all gateways and their calls', async () => {
    const call = new AbortController()
    const hanging = fetch(`${two.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${one.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/hang', messages: [{ role: 'user', content: 'Hello.' }] }),
      signal: call.signal,
    }).catch(() => 'gone')
    const { cookie } = await signedIn(both, 'owner@localhost')
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
    const soldAs = async () => {
      const found = await runJson<{ gateways: { sells: string }[] }>(two, 'status')
      return [...new Set(found.gateways.map(({ sells }) => sells))]
    }
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
    expect(await eventually(soldAs, (marks) => !marks.includes(''), 20_000)).toHaveLength(1)
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
