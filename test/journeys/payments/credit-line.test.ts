// On premises an account may owe: its calls are admitted against a line, and what comes in pays it first.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { getAs, postAs, runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { booked, type Json, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

const config = `local_servers: { discover: false }
models:
  - { id: sim/fee, upstream: echo, price: { input: "0", output: "0", per_request: "0.75" } }
  - { id: sim/dear, upstream: echo, premium: true, price: { input: "0", output: "0", per_request: "1" } }
`
let weir: ServedWeir
let names = 0

beforeAll(async () => {
  weir = await serveWeir({ config })
})
afterAll(() => weir?.stop())

async function member(...line: string[]) {
  const email = `debtor${++names}@example.org`
  const { id } = await runJson(weir, 'accounts', 'create', '--email', email)
  const { key } = await runJson(weir, 'keys', 'create', '--account', email)
  if (line.length > 0) await runJson(weir, 'accounts', 'set', email, '--credit-line', ...line)
  return { email, id: String(id), key: String(key) }
}

async function ask(key: string, model = 'sim/fee') {
  const response = await postAs(`${weir.origin}/v1/chat/completions`, key, {
    model,
    messages: [{ role: 'user', content: 'Hello' }],
    max_tokens: 20,
  })
  const json = (await response.json()) as { error?: { code: string } }
  return { status: response.status, code: json.error?.code, id: response.headers.get('x-request-id') ?? '' }
}

async function get(key: string, path: string): Promise<Json> {
  const response = await getAs(`${weir.origin}/v1/${path}`, key)
  return ((await response.json()) as { data: Json }).data
}

test('calls are admitted against the line, and no further', async () => {
  const { key } = await member('2')
  for (const owed of ['0.75', '1.5']) {
    const { status, id } = await ask(key)
    expect(status).toBe(200)
    expect(await get(key, 'credits')).toMatchObject({ debt: owed, credit_line: '2' })
    expect(await get(key, `generation?id=${id}`)).toMatchObject({ charged: '0.75', on_credit: '0.75' })
  }
  expect(await get(key, 'credits')).toMatchObject({
    available: '0.5',
    total_used: '1.5',
    total_purchased: '0',
  })
  expect(await ask(key)).toMatchObject({ status: 402, code: 'insufficient_credits' })
  await sound(weir)
})

test('an account without a line keeps the rules to the letter', async () => {
  const { key } = await member()
  expect(await ask(key)).toMatchObject({ status: 402, code: 'purchased_credits_required' })
  expect(await ask(key, 'sim/dear')).toMatchObject({ status: 403, code: 'plan_required' })
  expect(await get(key, 'credits')).toMatchObject({ debt: '0', credit_line: null, available: '0' })
})

test('what was bought is spent first, and the next credit pays what is owed first', async () => {
  const { email, key } = await member('unlimited')
  const grant = (usdAmount: string) =>
    runJson(weir, 'credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', usdAmount)
  await grant('1')
  const { id } = await ask(key, 'sim/dear')
  expect(await get(key, `generation?id=${id}`)).toMatchObject({ on_credit: '0' })
  expect((await ask(key, 'sim/dear')).status).toBe(200)
  expect((await ask(key)).status).toBe(200)
  expect(await get(key, 'credits')).toMatchObject({ debt: '1.75', credit_line: 'unlimited' })
  await grant('5')
  expect(await get(key, 'credits')).toMatchObject({ debt: '0', total_purchased: '6', total_used: '2.75' })
  const { pools } = (await get(key, 'credits')) as { pools: { type: string; remaining: string }[] }
  expect(pools.find(({ type }) => type === 'purchased')?.remaining).toBe('3.25')
  await sound(weir)
})

test('of many calls at once no more are admitted than the line holds', async () => {
  const { key, email } = await member('3')
  const answers = await Promise.all(Array.from({ length: 12 }, () => ask(key)))
  expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(4)
  const { debt } = (await get(key, 'credits')) as { debt: string }
  expect(usd(debt)).toBeLessThanOrEqual(usd(3))
  // What is owed stays when the line goes, and nothing more is lent.
  await runJson(weir, 'accounts', 'set', '--account', email, '--credit-line', 'none')
  expect((await ask(key)).status).toBe(402)
  expect(await get(key, 'credits')).toMatchObject({ debt, credit_line: null })
  await sound(weir)
})

test('a month adds up: opening and every entry are closing', async () => {
  const { email, key } = await member('10')
  await runJson(weir, 'credits', 'grant', '--account', email, '--pool', 'purchased', '--usd', '1')
  for (let calls = 0; calls < 3; calls++) await ask(key)
  const statement = await runJson(weir, 'credits', 'statement', '--account', email)
  const totals = Object.values(statement['totals'] as Record<string, string>).map(usd)
  const opening = usd(String(statement['opening']))
  // What was given for nothing when the account was opened is in it, too.
  expect(totals.reduce((sum, amount) => sum + amount, opening)).toBe(usd(String(statement['closing'])))
  expect(statement).toMatchObject({ opening: '0', totals: { settle: '-2.25' } })
  const csv = await weir.command('credits', 'statement', '--account', email, '--csv')
  expect(csv.stdout.trim().split('\r\n')).toHaveLength(1 + (statement['entries'] as object[]).length)
  const html = await weir.command('credits', 'statement', '--account', email, '--html')
  expect(html.stdout).toContain('<h1>Statement for ')
  const nothing = await runJson(weir, 'credits', 'statement', '--account', email, '--month', '2020-01')
  expect(nothing).toMatchObject({ opening: '0', closing: '0', entries: [] })
  for (const wrong of ['2026-13', 'november', '2026'])
    expect((await weir.command('credits', 'statement', '--account', email, '--month', wrong)).code).toBe(2)
})

test.each(['-5', 'much', '1000001', ''])('a line of %p is refused', async (line) => {
  const { email } = await member()
  expect((await weir.command('accounts', 'set', email, `--credit-line=${line}`)).code).toBe(2)
})

test('nothing is lent that nobody lends: the journal balances', async () => {
  const { key } = await member('5')
  const before = booked(weir, 'provider:sim')
  await ask(key)
  expect(booked(weir, 'provider:sim') - before).toBe(usd('0.75'))
})
