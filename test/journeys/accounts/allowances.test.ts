// What new accounts get: purchased credit of each month, which API keys spend, and a credit line; by the settings, and for
// one account by the API and the command line.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { expectPrinted, getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import { issueKey, unlimited } from '../../../src/accounts/account.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore } from '../../../src/store/open.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

type Json = Readonly<Record<string, unknown>>

describe('allowances of new accounts', () => {
  let weir: ServedWeir
  let operator: string

  beforeAll(async () => {
    // There is no such group: accounts are opened all the same, and the log says so.
    const config =
      'accounts: { monthly_credit_usd: "3", credit_line: "2", group: grp_0123456789abcdef01 }\nlocal_servers: { discover: false }'
    weir = await serveWeir({ config })
    const owner = ['--management', '--account', 'owner@localhost']
    operator = String((await runJson(weir, 'keys', 'create', ...owner))['key'])
  }, 60_000)
  afterAll(() => weir?.stop())

  const admin = async (path: string, body: object) => {
    const response = await postAs(`${weir.origin}/admin/v1/${path}`, operator, body)
    expect(response.status).toBeLessThan(300)
    return (await response.json()) as Json
  }
  const credits = async (key: string) =>
    ((await (await getAs(`${weir.origin}/v1/credits`, key)).json()) as { data: Json }).data
  const call = (key: string) =>
    postAs(`${weir.origin}/v1/chat/completions`, key, {
      model: 'sim/echo',
      messages: [{ role: 'user', content: 'Hello' }],
    })

  test('an account that an operator opens has its month and its credit line; a key spends both', async () => {
    const { id } = await admin('accounts', { email: 'anna@example.org' })
    const { key } = await admin(`accounts/${id}/keys`, { name: 'one' })
    expect((await call(String(key))).status).toBe(200)
    const shown = await credits(String(key))
    expect(shown).toMatchObject({ credit_line: '2', total_purchased: '3' })
    const [lot] = (shown['pools'] as { type: string; lots: Json[] }[]).find(
      ({ type }) => type === 'purchased',
    )!.lots
    expect(String(lot!['expires_at'])).toMatch(/^\d{4}-\d\d-01T00:00:00/)
    // Asked again and again, by whichever process.
    for (let n = 0; n < 6; n++) expect((await call(String(key))).status).toBe(200)
    expect(await credits(String(key))).toMatchObject({ total_purchased: '3' })
  })

  test('one account is given another amount, at once where it had none this month', async () => {
    const { id } = await admin('accounts', { email: 'berta@example.org' })
    expect(
      await runJson(
        weir,
        'accounts',
        'set',
        'owner@localhost',
        '--monthly-usd',
        '4',
        '--credit-line',
        'none',
      ),
    ).toMatchObject({ monthly_credit_usd: '4', credit_line: null })
    const owner = await signedIn(weir, 'owner@localhost')
    expect((await owner.get('credits')).json).toMatchObject({ data: { total_purchased: '104' } })
    const set = await admin(`accounts/${id}/monthly-credit`, { monthly_credit_usd: '9' })
    // This month has had its credit.
    expect(set).toMatchObject({ data: { monthly_credit_usd: '9', credits: { total_purchased: '3' } } })
    expect(await admin(`accounts/${id}/monthly-credit`, { monthly_credit_usd: null })).toMatchObject({
      data: { monthly_credit_usd: null },
    })
    const { data } = (await (await getAs(`${weir.origin}/admin/v1/acts?limit=2`, operator)).json()) as {
      data: Json[]
    }
    expect(data.map(({ what, before, after }) => [what, before, after])).toEqual([
      ['account.monthly_credit', { monthly_credit_usd: '9' }, { monthly_credit_usd: '0' }],
      ['account.monthly_credit', { monthly_credit_usd: '3' }, { monthly_credit_usd: '9' }],
    ])
    await expectPrinted(weir, 'new accounts become members of no group')
    expect((await runJson(weir, 'ledger', 'audit'))['ok']).toBe(true)
  })

  test('who opens an account by itself gets none of it', async () => {
    const client = new ConsoleClient(weir)
    const who = { email: 'carla@example.org', password: 'a long enough pass phrase' }
    expect((await client.post('sign-up', who)).status).toBe(202)
    expect((await client.post('sign-in', who)).status).toBe(200)
    expect((await client.get('credits')).json).toMatchObject({
      data: { total_purchased: '0', credit_line: null },
    })
  })

  test('who owes on a credit line deletes the account when that is paid', async () => {
    const email = 'dora@example.org'
    await runJson(weir, 'accounts', 'invite', '--email', email)
    await runJson(weir, 'accounts', 'set', email, '--monthly-usd', 'none', '--credit-line', '2')
    const { key } = await runJson(weir, 'keys', 'create', '--account', email)
    expect((await call(String(key))).status).toBe(200)
    const dora = await signedIn(weir, email)
    expect(await dora.send('DELETE', 'account', { confirm: email })).toMatchObject({
      status: 400,
      json: { error: { message: expect.stringMatching(/^This account owes 0\.\d+ USD/) } },
    })
    await runJson(weir, 'credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '1')
    expect(await dora.send('DELETE', 'account', { confirm: email })).toMatchObject({ status: 200 })
  })
})

test('before the first call of a month no door says less than that call may spend', async () => {
  using home = tempDir('weir-month-')
  const store = await openStore(home.join('data'), { clock: Date.now })
  // As the turn of the month leaves accounts: what they had has ended, and nobody has asked for more.
  const open = async (email: string) => {
    const { id } = await store.accounts.createAccount(email, { verifiedAt: Date.now() })
    await store.accounts.setMonthlyCredit(id, usd(3))
    const rights = { ...unlimited, account: id, name: 'one', mode: 'live', group: null } as const
    return {
      id,
      email,
      key: (await issueKey(store.accounts, { ...rights, sees: 'own', expiresAt: null }, Date.now())).text,
    }
  }
  type Who = Awaited<ReturnType<typeof open>>
  const names = [
    'estimate',
    'route',
    'credits',
    'key',
    'listed',
    'shown',
    'keys',
    'command',
    'commands',
    'call',
  ] as const
  const people = new Map<string, Who>()
  for (const name of names) people.set(name, await open(`${name}@example.org`))
  await store.close()
  await using weir = await serveWeir({ dataDir: home.join('data') })
  await weir.command('accounts', 'invite', '--email', 'op@example.org', '--role', 'operator')
  const management = String(
    (await runJson(weir, 'keys', 'create', '--management', '--account', 'op@example.org'))['key'],
  )
  const read = async (path: string, key: string) =>
    (await (await getAs(`${weir.origin}${path}`, key)).json()) as { data: Json & Json[] }
  const body = { model: 'sim/echo', messages: [{ role: 'user', content: 'Hello' }] }
  const post = async (path: string, { key }: Who) => {
    const response = await postAs(`${weir.origin}${path}`, key, body)
    return { status: response.status, ...((await response.json()) as Json) }
  }
  const doors: Readonly<Record<(typeof names)[number], (who: Who) => Promise<unknown>>> = {
    estimate: async (who) => ((await post('/v1/estimate', who)) as Json)['refusal'] ?? '3',
    route: async ({ key }) => ((await read('/v1/route?model=sim/echo', key)) as Json)['refusal'] ?? '3',
    credits: async ({ key }) => (await read('/v1/credits', key)).data['available'],
    key: async ({ email }) => {
      const { json } = await (await signedIn(weir, email)).get('keys')
      return ((json as Json)['data'] as Json[])[0]!['spendable_usd']
    },
    listed: async ({ email }) => {
      const { data } = await read(`/admin/v1/accounts?q=${email}&sort=balance`, management)
      return data[0]!['balance_usd']
    },
    shown: async ({ id }) =>
      ((await read(`/admin/v1/accounts/${id}`, management)).data['credits'] as Json)['total_purchased'],
    keys: async ({ id }) =>
      (await read(`/admin/v1/accounts/${id}/keys`, management)).data[0]!['spendable_usd'],
    command: async ({ email }) => (await runJson(weir, 'credits', 'show', '--account', email))['available'],
    commands: async ({ email }) =>
      ((await runJson(weir, 'accounts', 'show', email))['credits'] as Json)['available'],
    call: async (who) => ((await post('/v1/chat/completions', who)).status === 200 ? '3' : 'refused'),
  }
  const said: Record<string, unknown> = {}
  for (const name of names) said[name] = await doors[name](people.get(name)!)
  expect(said).toEqual(Object.fromEntries(names.map((name) => [name, '3'])))
})
