// What operators are told of: figures of a gateway become alarms, and alarms messages.

import { afterEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { alarmSettings } from '../../src/config/schema.ts'
import type { ActFilter, LoggedAct } from '../../src/accounts/identity/identity-store.ts'
import type { Episode, Owed, UpkeepNote } from '../../src/notify/alarms.ts'
import { Alarms, alarmSender, totalsOfAll } from '../../src/serve/gateway/alarms.ts'
import { usd } from '../../src/credits/money.ts'
import { noon } from '../credits/support.ts'
import { until } from '../chat/lab.ts'
import { post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'

const [minute, day] = [60_000, 86_400_000]
type Parts = ConstructorParameters<typeof Alarms>[0]

/** A gateway whose figures are what a test says. */
function lab(settings: object = {}) {
  const state = {
    now: noon,
    state: 'healthy',
    free: 50,
    webhooks: 0,
    spent: 0,
    ofDays: new Map<number, number>(),
    budget: 0n,
    costUsd: 0,
    refusals: new Map<string, number>(),
    exportError: null as string | null,
    isAway: false,
    isLocked: false,
    locksWhenTold: false,
    acts: [] as Partial<LoggedAct>[],
  }
  const kept = new Map<string, UpkeepNote>()
  const told: string[] = []
  const audits: number[] = []
  const parsed = alarmSettings.parse({ mail: ['ops@example.org'], every_ms: minute, ...settings })
  const start = () =>
    new Alarms({
      settings: () => parsed,
      store: {
        upkeep: {
          findNote: (name: string) => kept.get(name),
          keepNote(note: UpkeepNote) {
            if (state.isLocked && note.name === 'alarms') throw new Error('locked')
            kept.set(note.name, note)
          },
        },
        figures: () => ({ diskBytes: 100, diskFreeBytes: state.free, webhooksWaiting: state.webhooks }),
        spending: {
          ofInstallation: () => state.spent,
          ofAccount: () => state.spent,
          ofDays: () => state.ofDays,
        },
        groups: {
          pageGroups: () =>
            Promise.resolve({
              groups: [
                {
                  id: 'grp_a',
                  name: 'Science',
                  budget: usd(100),
                  warnAt: [0.5],
                  window: 'month',
                  timezone: 'Asia/Kolkata',
                },
              ],
              next: null,
            }),
        },
        acts: {
          page: (_: number, __: undefined, { what, from }: ActFilter) =>
            state.acts.filter((act) => act.what === what && act.at! >= from!),
        },
        ledger: { budgetSpend: () => [{ spent: state.budget, held: 0n }] },
      },
      providers: () => [{ id: 'lab', name: 'Lab' }].values(),
      healthOf: () => {
        if (state.isAway) throw new Error('away')
        return { state: state.state, lastError: { code: 'upstream_error', reason: 'busy' } }
      },
      audit: (of: number) => {
        audits.push(of)
        kept.set('audit of a day', {
          name: 'audit of a day',
          at: state.now,
          value: { ok: false, broken: 'invariant 4', detail: null },
        })
        return Promise.resolve({})
      },
      logExport: () => Promise.resolve({ waiting: 3, error: state.exportError }),
      totals: () => ({ costUsd: state.costUsd, refusals: state.refusals }),
      spenders: () => new Set(['acc_1']),
      send: ({ what, episode }: Owed) => {
        told.push(`${what} ${episode.text}`)
        if (state.locksWhenTold) state.isLocked = true
        return Promise.resolve()
      },
      log: { info: () => undefined, warn: () => undefined },
      now: () => state.now,
    } as unknown as Parts)
  let alarms = start()
  return {
    state,
    told,
    audits,
    restart: () => (alarms = start()),
    async look(minutes = 1) {
      for (let at = 0; at < minutes; at++) {
        await alarms.look()
        state.now += minute
      }
      return told.splice(0)
    },
  }
}

describe('a key that has leaked', () => {
  test('is told of once, whatever restarts, and its end is not', async () => {
    const lab1 = lab({ audit: false })
    const { state, look } = lab1
    const before = { key: 'k1', name: 'Laptop', paused_by: null }
    state.acts.push({
      at: state.now,
      what: 'key.freeze',
      subject: 'acct_a',
      before,
      after: { ...before, paused_by: 'networks' },
    })
    expect(await look()).toEqual([
      'began Key "Laptop" of acct_a was used from too many networks: it is frozen',
    ])
    state.acts.push({
      at: state.now,
      what: 'management_key.revoke',
      subject: 'acct_b',
      before: { key: 'k2', name: 'CI' },
      after: null,
    })
    lab1.restart()
    expect(await look()).toEqual([
      'began Management key "CI" of acct_b was reported by whoever has found it: it is revoked',
    ])
    expect(await look(2 * 24 * 60)).toEqual([])
  })
})

describe('a gateway in order', () => {
  test('tells nothing, for a day', async () => {
    const { look, audits } = lab({ audit: false, installation_month_usd: '100' })
    expect([await look(24 * 60), audits]).toEqual([[], []])
  })
})

describe('operators are told', () => {
  test('that a provider is down, and that it is back', async () => {
    const { look, state } = lab({ audit: false })
    state.state = 'unavailable'
    expect(await look(10)).toEqual(['began Lab (lab) does not answer'])
    state.isAway = true
    expect(await look(10)).toEqual([])
    state.isAway = false
    state.state = 'degraded'
    expect(await look(10)).toEqual(['ended Lab (lab) does not answer'])
  })

  test('once, although the database was locked just then', async () => {
    const { look, state, restart } = lab({ audit: false })
    Object.assign(state, { free: 9, locksWhenTold: true })
    expect(await look(1)).toEqual(['began The disk of the database is nearly full: 9 % are free'])
    Object.assign(state, { isLocked: false, locksWhenTold: false })
    await look(1)
    restart()
    expect(await look(5)).toEqual([])
  })

  test('of budgets of the installation, of accounts and of groups, each share once a month', async () => {
    const settings = { installation_month_usd: '100', account_month_usd: '100' }
    const { look, state, restart } = lab({ audit: false, ...settings })
    state.spent = 81
    state.budget = usd(50)
    expect(await look(3)).toEqual([
      'began The installation has spent 80 % of its budget: 81.00 of 100.00 USD',
      'began Account acc_1 has spent 80 % of its budget: 81.00 of 100.00 USD',
      'began Group Science (grp_a) has spent 50 % of its budget: 50.00 of 100.00 USD',
    ])
    state.spent = 100
    restart()
    expect(await look(60)).toEqual([
      'began The installation has spent 100 % of its budget: 100.00 of 100.00 USD',
      'began Account acc_1 has spent 100 % of its budget: 100.00 of 100.00 USD',
    ])
    // December begins: nothing is spent, and nobody is told of that.
    state.now += 10 * day
    Object.assign(state, { spent: 0, budget: 0n })
    expect(await look(60)).toEqual([])
    state.spent = 85
    expect(await look(1)).toHaveLength(2)
  })

  test('of an hour that costs far more than the same one in the weeks before', async () => {
    const { look, state, restart } = lab({ audit: false })
    for (let week = 0; week < 3; week++) {
      await look(1)
      state.costUsd += 20
      await look(2)
      state.now += 7 * day - 3 * minute
      restart()
    }
    await look(1)
    state.costUsd += 60
    expect(await look(1)).toEqual([])
    state.costUsd += 30
    expect(await look(5)).toEqual([
      'began 90.00 USD were spent this hour; usual at this time of the week are 20.00 USD',
    ])
    state.now += 60 * minute
    expect(await look(10)).toEqual([
      'ended 90.00 USD were spent this hour; usual at this time of the week are 20.00 USD',
    ])
  })

  test('of a day that does, at once where the days before are known', async () => {
    const { look, state } = lab({ audit: false })
    const today = noon - (noon % day)
    state.ofDays = new Map([1, 2, 3, 4].map((week) => [today - week * 7 * day, 10]))
    state.ofDays.set(today, 41)
    expect(await look(2)).toEqual([
      'began 41.00 USD were spent this day; usual at this time of the week are 10.00 USD',
    ])
  })

  test('that refusals rise; not of whoever only knocks', async () => {
    const { look, state } = lab({ audit: false })
    state.refusals = new Map([['budget_exceeded', 1]])
    await look(120)
    state.refusals = new Map([
      ['budget_exceeded', 150],
      ['not_found', 9_000],
    ])
    expect(await look(2)).toEqual([
      'began 149 requests were refused in a quarter of an hour, mostly with budget_exceeded; usual are 0',
    ])
  })

  test('that yesterday does not hold, by an audit that nobody else makes', async () => {
    const { look, audits } = lab()
    await look(3)
    expect(audits).toEqual([noon - (noon % day) - day])
    expect(await look(2)).toEqual([])
    expect(audits).toHaveLength(1)
  })

  test('of the disk, and of queues that stay long', async () => {
    const { look, state } = lab({ audit: false })
    Object.assign(state, { free: 9, webhooks: 1_001, exportError: 'the answer was 403' })
    expect(await look(1)).toEqual(['began The disk of the database is nearly full: 9 % are free'])
    expect(await look(20)).toEqual([
      'began 1001 messages to webhooks wait to be taken',
      'began The request log cannot be sent: the answer was 403',
    ])
  })
})

test('an audit that was not clean is told with what is broken', async () => {
  const { look } = lab()
  const told = [...(await look(1)), ...(await look(5))]
  expect(told).toEqual(['began The ledger does not hold: invariant 4 (weir ledger audit tells more)'])
})

const servers: ReturnType<typeof Bun.serve>[] = []
afterEach(() => {
  for (const server of servers.splice(0)) void server.stop(true)
})

interface Listed {
  readonly told: readonly string[]
}

function hook() {
  const taken: { type: string; alarm: string; verified: boolean }[] = []
  const state = { status: 200 }
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = await request.text()
      const [id, at] = [request.headers.get('webhook-id'), request.headers.get('webhook-timestamp')]
      const signed = createHmac('sha256', 'hook-secret').update(`${id}.${at}.${body}`).digest('base64')
      const { type, data } = JSON.parse(body) as { type: string; data: { alarm: string } }
      taken.push({
        type,
        alarm: data.alarm,
        verified: request.headers.get('webhook-signature') === `v1,${signed}`,
      })
      return new Response(null, { status: state.status })
    },
  })
  servers.push(server)
  return { url: server.url.href, taken, state }
}

test('what all gateways have spent and refused is added up, each stretch of time once', async () => {
  let now = noon
  const asked: (readonly number[])[] = []
  const totals = (from: number, until: number) => {
    asked.push([from - noon, until - noon])
    return Promise.resolve({ costUsd: 1, refusals: new Map([['insufficient_credits', 2]]) })
  }
  const add = totalsOfAll({ totals }, () => now)
  expect(await add()).toEqual({ costUsd: 0, refusals: new Map() })
  now += minute
  await add()
  expect(await add()).toEqual({ costUsd: 1, refusals: new Map([['insufficient_credits', 2]]) })
  // It has not led meanwhile, and the clock is set back after it.
  now += day
  await add()
  now -= minute
  expect((await add()).costUsd).toBe(2)
  expect(asked).toEqual([
    [-5_000, 55_000],
    [day + minute - 605_000, day + minute - 5_000],
  ])
})

test('a webhook that refuses, and mail without a server, say so', async () => {
  const { url, taken, state } = hook()
  const settings = alarmSettings.parse({ webhook: { url, secret: 'hook-secret' } })
  const send = alarmSender({
    settings: () => settings,
    mailer: () => undefined,
    gateway: () => '',
    now: Date.now,
  })
  const episode: Episode = {
    id: 'alarm_1',
    alarm: 'test',
    subject: 'a',
    text: 'a',
    data: {},
    until: null,
    since: noon,
    endedAt: null,
    toldOf: [],
    toldOfEnd: [],
  }
  await send({ channel: 'webhook', episode, what: 'began' })
  expect(taken).toEqual([{ type: 'alarm.began', alarm: 'test', verified: true }])
  state.status = 500
  await expect(send({ channel: 'webhook', episode, what: 'began' })).rejects.toThrow('answered 500')
  await expect(send({ channel: 'mail:a@b', episode, what: 'began' })).rejects.toThrow(
    'there is no mail server',
  )
})

test('a gateway tells of a budget by a webhook, in /metrics and in weir status', async () => {
  const { url, taken } = hook()
  const alarms = `{ webhook: { url: '${url}', secret: hook-secret }, every_ms: 100, installation_month_usd: '0.000001' }`
  await using weir = await serveWeir({ config: `alarms: ${alarms}` })
  await weir.command('alarms', 'test')
  expect(taken).toEqual([{ type: 'alarm.began', alarm: 'test', verified: true }])
  await post(weir, { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] })
  await until(() => taken.length === 2)
  expect(taken[1]).toEqual({ type: 'alarm.began', alarm: 'budget_reached', verified: true })
  const list = async () => JSON.parse((await weir.command('alarms', 'list', '--json')).stdout) as Listed[]
  const listed = await until(list, ([first]) => first?.told.length === 1)
  expect(listed).toMatchObject([{ alarm: 'budget_reached', details: { of: 'installation' } }])
  expect((await weir.command('status')).stdout).toContain('The installation has spent 100 % of its budget')
  const made = await weir.command('keys', 'create', '--account', 'owner@localhost', '--management')
  const authorization = `Bearer ${made.stdout.trim()}`
  const figures = await (await fetch(`${weir.origin}/metrics`, { headers: { authorization } })).text()
  expect(figures).toContain('weir_alarms_open{alarm="budget_reached"} 1\n')
})
