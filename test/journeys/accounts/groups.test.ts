// Groups with budgets, as an operator sets them up by the API and the command line, and as their keys call: through every
// door, with one process and with two.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { parseUsd } from '../../../src/credits/money.ts'
import { runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

type Json = Readonly<Record<string, unknown>>

interface Asked {
  readonly status: number
  readonly json: Json
  readonly requestId: string
}

const usd = (amount: unknown) => parseUsd(String(amount))!

describe('groups', () => {
  let weir: ServedWeir
  let operator: string
  const accounts: Record<string, string> = {}

  async function ask(key: string, method: string, path: string, body?: object): Promise<Asked> {
    const response = await fetch(`${weir.origin}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${key}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const json = (text.startsWith('{') ? JSON.parse(text) : {}) as Json
    return { status: response.status, json, requestId: response.headers.get('x-request-id') ?? '' }
  }

  const admin = (method: string, path: string, body?: object) =>
    ask(operator, method, `/admin/v1/${path}`, body)

  async function made(path: string, body: object): Promise<Json> {
    const { status, json } = await admin('POST', path, body)
    expect({ path, status, json }).toMatchObject({ status: 201 })
    return json
  }

  async function groupWith(settings: object): Promise<string> {
    return String((await made('groups', { name: 'a group', ...settings }))['id'])
  }

  async function join(group: string, who: string, more: object = {}): Promise<void> {
    await made(`groups/${group}/members`, { account: accounts[who]!, ...more })
  }

  async function keyIn(group: string, who: string): Promise<string> {
    return String((await made(`accounts/${accounts[who]}/keys`, { name: 'of the group', group }))['key'])
  }

  const chat = {
    model: 'sim/echo',
    max_tokens: 20,
    messages: [{ role: 'user', content: 'How deep is it here?' }],
  }
  const call = (key: string, more: object = {}) =>
    ask(key, 'POST', '/v1/chat/completions', { ...chat, ...more })
  const errorOf = ({ json }: Asked) => json['error'] as { code: string; message: string; metadata: Json }
  const group = async (id: string) => (await admin('GET', `groups/${id}`)).json['data'] as Json
  const memberOf = async (id: string, who: string) =>
    ((await admin('GET', `groups/${id}/members`)).json['data'] as Json[]).find(
      ({ account }) => account === accounts[who],
    )!
  const receipt = async (key: string, id: string) =>
    (await ask(key, 'GET', `/v1/generation?id=${id}`)).json['data'] as Json

  beforeAll(async () => {
    weir = await serveWeir({ config: 'local_servers: { discover: false }' })
    for (const name of ['anna', 'berta', 'carl']) {
      const { id } = await runJson(weir, 'accounts', 'create', '--email', `${name}@example.org`)
      accounts[name] = String(id)
      await runJson(
        weir,
        'credits',
        'grant',
        '--account',
        `${name}@example.org`,
        '--pool',
        'purchased',
        '--usd',
        '5',
      )
    }
    operator = String(
      (await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost'))['key'],
    )
  }, 60_000)
  afterAll(() => weir?.stop())

  test('a call is counted for its person and for every group on the way up; its receipt names them', async () => {
    const firm = await groupWith({
      name: 'firm',
      budget_usd: '10',
      budget_window: 'month',
      timezone: 'Asia/Kolkata',
    })
    const lab = await groupWith({ name: 'lab', parent: firm, member_budget_usd: '1' })
    await join(lab, 'anna', { role: 'admin', budget_usd: '2' })
    const key = await keyIn(lab, 'anna')
    const { status, requestId } = await call(key)
    expect(status).toBe(200)
    const paid = await receipt(key, requestId)
    expect(paid).toMatchObject({
      key: key.split('-')[3],
      person: accounts['anna'],
      group: lab,
      paid_by: accounts['anna'],
    })
    expect(usd(paid['charged'])).toBeGreaterThan(0n)
    const spent = paid['charged']
    expect(await group(lab)).toMatchObject({
      spent_usd: spent,
      reserved_usd: '0',
      above: [{ id: firm, name: 'firm' }],
    })
    expect(await group(firm)).toMatchObject({
      spent_usd: spent,
      resets_at: expect.stringMatching(/T18:30:00\.000Z$/),
      has_credit: false,
      credits: null,
    })
    expect(await memberOf(lab, 'anna')).toMatchObject({
      role: 'admin',
      budget_usd: '2',
      limit_usd: '2',
      spent_usd: spent,
    })
    expect((await ask(key, 'GET', '/v1/key')).json['data']).toMatchObject({
      group: {
        id: lab,
        name: 'lab',
        paid_by: accounts['anna'],
        budgets: [
          { group: lab, of: 'member', limit: '2', spent, window: 'month' },
          { group: firm, of: 'group', limit: '10', spent, reserved: '0' },
        ],
      },
    })
    const keys = (await admin('GET', `accounts/${accounts['anna']}/keys`)).json['data'] as Json[]
    expect(keys.find((each) => each['group'] === lab)).toMatchObject({ spent_usd: spent })
  })

  test('the statement of a month says who has spent what, and what came of the credit of the group', async () => {
    const month = new Date().toISOString().slice(0, 7)
    const statement = async (id: string) =>
      (await admin('GET', `groups/${id}/statements/${month}`)).json['data'] as Json
    const lab = await groupWith({ name: 'statement-lab' })
    await admin('POST', `groups/${lab}/grants`, { usd: '5', id: crypto.randomUUID() })
    const paid = new Map<string, bigint>()
    for (const [who, calls] of [
      ['anna', 2],
      ['berta', 1],
    ] as const) {
      await join(lab, who)
      const key = await keyIn(lab, who)
      for (let at = 0; at < calls; at++) {
        const { requestId } = await call(key)
        const charged = usd((await receipt(key, requestId))['charged'])
        paid.set(who, (paid.get(who) ?? 0n) + charged)
      }
    }
    const total = [...paid.values()].reduce((all, each) => all + each, 0n)
    const said = await statement(lab)
    const people = said['people'] as readonly Json[]
    expect(people.map(({ id, label, calls, charged_usd }) => [id, label, calls, usd(charged_usd)])).toEqual(
      expect.arrayContaining([
        [accounts['anna'], expect.stringContaining('@'), 2, paid.get('anna')],
        [accounts['berta'], expect.stringContaining('@'), 1, paid.get('berta')],
      ]),
    )
    for (const part of ['people', 'keys', 'models', 'days'])
      expect([
        part,
        (said[part] as readonly Json[]).reduce((all, each) => all + usd(each['charged_usd']), 0n),
      ]).toEqual([part, total])
    expect(said).toMatchObject({
      group: lab,
      name: 'statement-lab',
      month,
      complete: false,
      spent: { calls: 3 },
    })
    const credit = said['credit'] as Json
    expect(credit).toMatchObject({
      opening: { balance: '0' },
      totals: [{ kind: 'grant', balance: '5' }, { kind: 'settle' }],
    })
    expect(usd((credit['closing'] as Json)['balance'])).toBe(usd('5') - total)
    const file = await fetch(`${weir.origin}/admin/v1/groups/${lab}/statements/${month}/spending.csv`, {
      headers: { authorization: `Bearer ${operator}` },
    })
    expect((await file.text()).trimEnd().split('\n')).toHaveLength(3)
    const printed = await weir.command('groups', 'statement', lab, '--month', month)
    expect(printed.stdout).toContain('closing')
    // Its people pay in a group without credit of its own.
    const poor = await groupWith({})
    await join(poor, 'anna')
    await call(await keyIn(poor, 'anna'))
    expect(await statement(poor)).toMatchObject({ spent: { calls: 1 }, credit: null })
    expect((await admin('GET', `groups/${poor}/statements/2026`)).status).toBe(400)
    expect((await admin('GET', `groups/grp_none/statements/${month}`)).status).toBe(404)
  })

  test('calls at the same time, by two people in two groups and through every door, never pass the budget of the group above', async () => {
    const limit = '0.0003'
    const all = await groupWith({ budget_usd: limit, budget_window: 'day', timezone: 'America/New_York' })
    const keys: string[] = []
    for (const who of ['anna', 'berta']) {
      const own = await groupWith({ parent: all, budget_usd: '0.0002' })
      await join(own, who)
      keys.push(await keyIn(own, who))
    }
    const ofUser = [{ role: 'user', content: 'How deep is it here?' }]
    const doors: readonly (readonly [string, object])[] = [
      ['/v1/chat/completions', chat],
      ['/v1/chat/completions', { ...chat, stream: true }],
      ['/v1/responses', { model: 'sim/echo', max_output_tokens: 20, input: 'How deep is it here?' }],
      ['/v1/messages', { model: 'sim/echo', max_tokens: 20, messages: ofUser }],
      [
        '/v1beta/models/sim/echo:generateContent',
        { contents: [{ role: 'user', parts: [{ text: 'How deep?' }] }] },
      ],
      ['/v1/embeddings', { model: 'sim/embed', input: 'How deep is it here?' }],
    ]
    const asked = await Promise.all(
      Array.from({ length: 120 }, (_, at) => ask(keys[at % 2]!, 'POST', ...doors[at % doors.length]!)),
    )
    const served = asked.filter(({ status }) => status === 200)
    expect(served.length).toBeGreaterThan(5)
    const refused = asked.filter(({ status }) => status !== 200)
    // Every protocol has its own shape of an error; the statuses are the same.
    expect(refused.filter(({ status }) => status !== 402 && status !== 403)).toEqual([])
    const { spent_usd, reserved_usd } = await group(all)
    expect(reserved_usd).toBe('0')
    expect(usd(spent_usd)).toBeLessThanOrEqual(usd(limit))
    let charged = 0n
    for (const { requestId } of served) {
      const of = await Promise.all(keys.map((key) => receipt(key, requestId)))
      charged += usd(of.find((each) => each !== undefined)?.['charged'])
    }
    expect(charged).toBe(usd(spent_usd))
    expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
  })

  test('a refusal names the budget, what is spent and reserved of it, and when it begins anew', async () => {
    const firm = await groupWith({
      name: 'firm',
      budget_usd: '0.0005',
      budget_window: 'week',
      timezone: 'Europe/Berlin',
    })
    const lab = await groupWith({ name: 'lab', parent: firm, budget_usd: '1', member_budget_usd: '1' })
    await join(lab, 'anna')
    const key = await keyIn(lab, 'anna')
    let refused = await call(key)
    expect(refused.status).toBe(200)
    while (refused.status === 200) refused = await call(key)
    const { spent_usd } = await group(firm)
    expect(refused.status).toBe(403)
    expect(errorOf(refused)).toMatchObject({
      code: 'budget_exceeded',
      message: expect.stringMatching(
        /^The budget of the group firm for this week does not cover this call: 0\.\d+ of 0\.0005 USD is spent, 0 is reserved by calls in flight; it begins anew at \d{4}-\d\d-\d\dT2[23]:00:00\.000Z\.$/,
      ),
      metadata: {
        budget: {
          group: firm,
          name: 'firm',
          of: 'group',
          window: 'week',
          limit: '0.0005',
          spent: spent_usd,
          reserved: '0',
        },
      },
    })
    await admin('PATCH', `groups/${firm}`, { budget_usd: null })
    await admin('PATCH', `groups/${lab}/members/${accounts['anna']}`, { budget_usd: '0' })
    expect(errorOf(await call(key))).toMatchObject({
      code: 'budget_exceeded',
      metadata: { budget: { group: lab, of: 'member', limit: '0', window: 'month' } },
    })
    const estimate = await ask(key, 'POST', '/v1/estimate', chat)
    expect(estimate.json).toMatchObject({ refusal: 'budget_exceeded', affordable_output_tokens: 0 })
    await admin('PATCH', `groups/${lab}/members/${accounts['anna']}`, { budget_usd: null })
    expect((await call(key)).status).toBe(200)
    // What was spent while there was no limit is known to the one that is set now.
    expect(usd((await group(firm))['spent_usd'])).toBeGreaterThan(usd(spent_usd))
  })

  test('a group that was granted credit pays, and where that is spent nobody else does', async () => {
    const firm = await groupWith({ name: 'firm' })
    const lab = await groupWith({ name: 'lab', parent: firm })
    await join(lab, 'carl')
    const key = await keyIn(lab, 'carl')
    const free = async () =>
      (await runJson(weir, 'credits', 'show', '--account', 'carl@example.org'))['available']
    const before = await free()
    const grant = { usd: '0.0001', id: 'firm' }
    const granted = await admin('POST', `groups/${firm}/grants`, grant)
    expect(granted.json).toMatchObject({ granted: true, pool: 'purchased', usd: '0.0001' })
    expect((await admin('POST', `groups/${firm}/grants`, grant)).json).toMatchObject({ granted: false })
    const { status, requestId } = await call(key)
    expect(status).toBe(200)
    expect(await receipt(key, requestId)).toMatchObject({
      paid_by: firm,
      group: lab,
      person: accounts['carl'],
    })
    let last = await call(key)
    while (last.status === 200) last = await call(key)
    expect(errorOf(last)).toMatchObject({
      code: 'insufficient_credits',
      message: expect.stringContaining('The group firm pays'),
    })
    expect(await free()).toBe(before)
    expect(await group(firm)).toMatchObject({ has_credit: true, credits: { currency: 'USD' } })
    // The person still pays for what is called alone.
    const own = String((await made(`accounts/${accounts['carl']}/keys`, { name: 'own' }))['key'])
    expect((await call(own)).status).toBe(200)
    expect(await free()).not.toBe(before)
  })

  test('a key of a group works for its members alone, and for the models of every group on the way up', async () => {
    const firm = await groupWith({ models: ['sim/echo', 'sim/tools'] })
    const lab = await groupWith({ parent: firm, models: ['sim/*'] })
    const refused = await admin('POST', `accounts/${accounts['berta']}/keys`, { name: 'k', group: lab })
    expect({ status: refused.status, error: errorOf(refused) }).toMatchObject({
      status: 400,
      error: { code: 'invalid_request' },
    })
    await join(lab, 'anna')
    const posing = { name: 'k', group: `${lab} ${accounts['anna']}` }
    expect((await admin('POST', `accounts/${accounts['berta']}/keys`, posing)).status).toBe(400)
    await join(lab, 'berta')
    const key = await keyIn(lab, 'berta')
    expect((await call(key)).status).toBe(200)
    expect(errorOf(await call(key, { model: 'sim/slow' })).code).toBe('model_not_allowed')
    const { data } = (await ask(key, 'GET', '/v1/models?provider=sim')).json as { data: { id: string }[] }
    expect(data.map(({ id }) => id).toSorted()).toEqual(['sim/echo', 'sim/search:free', 'sim/tools'])
    await admin('DELETE', `groups/${lab}/members/${accounts['berta']}`)
    const left = await call(key)
    expect({ status: left.status, code: errorOf(left).code }).toEqual({
      status: 401,
      code: 'api_key_revoked',
    })
    await join(lab, 'berta')
    expect((await call(key)).status).toBe(200)
    expect((await admin('DELETE', `groups/${firm}`)).status).toBe(400)
    expect((await admin('DELETE', `groups/${lab}`)).json).toEqual({ id: lab, deleted: true })
    expect((await call(key)).status).toBe(401)
    expect((await admin('GET', `groups/${lab}`)).status).toBe(404)
  })

  test('a key whose budget is spent is not given the answer that another key has paid for', async () => {
    const lab = await groupWith({ budget_usd: '0' })
    await join(lab, 'berta')
    const ofGroup = await keyIn(lab, 'berta')
    const own = String((await made(`accounts/${accounts['berta']}/keys`, { name: 'own' }))['key'])
    const again = async (key: string) => {
      const headers = {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'idempotency-key': 'once',
      }
      const init = { method: 'POST', headers, body: JSON.stringify(chat) }
      return (await fetch(`${weir.origin}/v1/chat/completions`, init)).status
    }
    expect([await again(own), await again(own), await again(ofGroup)]).toEqual([200, 200, 403])
    await admin('PATCH', `groups/${lab}`, { budget_usd: '1' })
    expect(await again(ofGroup)).toBe(200)
  })

  test('a member who is moved while a call runs: it is charged once, to the group it was held in', async () => {
    const [old, next] = [await groupWith({ budget_usd: '1' }), await groupWith({ budget_usd: '1' })]
    await join(old, 'anna')
    const key = await keyIn(old, 'anna')
    const words = Array.from({ length: 400 }, (_, at) => `word${at}`).join(' ')
    const asked = fetch(`${weir.origin}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim/slow', stream: true, messages: [{ role: 'user', content: words }] }),
    })
    const response = await asked
    const reader = response.body!.getReader()
    await reader.read()
    expect(usd((await group(old))['reserved_usd'])).toBeGreaterThan(0n)
    await join(next, 'anna')
    await admin('DELETE', `groups/${old}/members/${accounts['anna']}`)
    for (let done = false; !done;) ({ done } = await reader.read())
    const state = async () => [await group(old), await group(next)] as const
    let [was, is] = await state()
    while (usd(was['reserved_usd']) > 0n) [was, is] = await state()
    expect(usd(was['spent_usd'])).toBeGreaterThan(0n)
    expect(is).toMatchObject({ spent_usd: '0', reserved_usd: '0' })
    expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
  })

  test('the command line does the same', async () => {
    const name = 'customer'
    const made = await runJson(
      weir,
      'groups',
      'create',
      '--name',
      name,
      '--budget-usd',
      '3',
      '--tags',
      'tier=gold',
      '--warn-at',
      '0.8,0.95',
    )
    expect(made).toMatchObject({
      name,
      budget_usd: '3',
      budget_window: 'month',
      tags: { tier: 'gold' },
      warn_at: [0.8, 0.95],
    })
    await runJson(weir, 'groups', 'create', '--name', 'team', '--parent', name)
    await runJson(weir, 'groups', 'add', name, '--account', 'berta@example.org', '--role', 'admin')
    await runJson(weir, 'groups', 'grant', name, '--usd', '2', '--id', 'cli')
    const { key } = await runJson(weir, 'keys', 'create', '--account', 'berta@example.org', '--group', name)
    expect((await call(String(key))).status).toBe(200)
    await runJson(weir, 'groups', 'set', name, '--budget-usd', 'none', '--timezone', 'Asia/Tokyo')
    expect(await runJson(weir, 'groups', 'show', name)).toMatchObject({
      budget_usd: null,
      timezone: 'Asia/Tokyo',
      has_credit: true,
      members: [{ email: 'berta@example.org', role: 'admin' }],
    })
    await runJson(weir, 'groups', 'remove', name, '--account', 'berta@example.org')
    expect((await call(String(key))).status).toBe(401)
    await runJson(weir, 'groups', 'set', 'team', '--parent', 'none')
    expect(await runJson(weir, 'groups', 'delete', name)).toMatchObject({ deleted: true })
    const acts = (await admin('GET', 'acts')).json['data'] as Json[]
    expect(acts.map(({ what }) => what)).toEqual(
      expect.arrayContaining([
        'group.create',
        'group.add_member',
        'group.change',
        'group.remove_member',
        'group.delete',
        'credits.grant',
      ]),
    )
  })
})
