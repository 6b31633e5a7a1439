// The statement of a month, as its account gets it in the console, as an operator does, and by the command line.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { usd } from '../../../src/credits/money.ts'
import { getAs, postAs, runJson } from '../../support/call-gateway.ts'
import { ConsoleClient, signedIn } from '../../support/console-client.ts'
import { expectDocumented } from '../../support/documented-answers.ts'
import { FakeRazorpay } from '../../support/fake-razorpay.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { answerOf, deliver, type Json, Payer, settingsFor } from './top-ups-lab.ts'

setDefaultTimeout(30_000)

interface Sum {
  readonly credit: string
  readonly owed: string
  readonly balance: string
}
interface Statement {
  readonly opening: Sum
  readonly closing: Sum
  readonly credit_line: string | null
  readonly complete: boolean
  readonly totals: readonly (Sum & { readonly kind: string; readonly entries: number })[]
  readonly days: readonly (Sum & { readonly day: string; readonly kind: string })[]
  readonly receipts: readonly Json[]
}

const month = new Date().toISOString().slice(0, 7)
let razorpay: FakeRazorpay
let weir: ServedWeir
let payer: Payer
let visitor: ConsoleClient
let stranger: ConsoleClient
let topUp: string
let management: string

/** A top-up, a refund of a part of it, calls beyond it against a credit line. */
beforeAll(async () => {
  razorpay = new FakeRazorpay()
  const models = `models:
  - { id: sim/fee, upstream: echo, price: { input: "0", output: "0", per_request: "1.75" } }
`
  weir = await serveWeir({ config: settingsFor(razorpay, models) })
  payer = await Payer.of(weir, 'payer')
  topUp = String((await payer.open('500'))['id'])
  const payment = razorpay.pay([...razorpay.links.values()][0]!.id)
  await deliver(weir, razorpay.paid(payment))
  await deliver(weir, razorpay.refunded(payment, 10_000))
  await runJson(weir, 'accounts', 'set', 'payer@example.org', '--credit-line', '10')
  const { key } = await runJson(weir, 'keys', 'create', '--account', 'payer@example.org')
  for (let calls = 0; calls < 3; calls++) {
    const response = await postAs(`${weir.origin}/v1/chat/completions`, String(key), {
      model: 'sim/fee',
      messages: [{ role: 'user', content: 'Hello' }],
    })
    expect(response.status).toBe(200)
    await response.text()
  }
  visitor = await signedIn(weir, 'payer@example.org')
  await runJson(weir, 'accounts', 'create', '--email', 'stranger@example.org')
  stranger = await signedIn(weir, 'stranger@example.org')
  const made = await runJson(weir, 'keys', 'create', '--management', '--account', 'owner@localhost')
  management = String(made['key'])
})
afterAll(async () => {
  await weir?.stop()
  await razorpay?.stop()
})

async function own(client = visitor, of = month): Promise<Statement> {
  return (await client.get(`credits/statements/${of}`)).json['data'] as unknown as Statement
}

async function admin(path: string): Promise<Response> {
  return getAs(`${weir.origin}/admin/v1/${path}`, management)
}

test('opening and every movement are closing, with what is owed against the line', async () => {
  const statement = await own()
  for (const movements of [statement.totals, statement.days])
    for (const part of ['credit', 'owed', 'balance'] as const)
      expect(
        movements.reduce((sum, movement) => sum + usd(movement[part]), usd(statement.opening[part])),
      ).toBe(usd(statement.closing[part]))
  // Three calls cost 5.25; of ₹500, ₹100 went back.
  const creditOf = (paise: bigint) => (paise * 10n ** 18n) / (89_015_000n * 100n)
  const bought = creditOf(50_000n) - creditOf(10_000n)
  expect(statement).toMatchObject({ complete: false, credit_line: '10', opening: { balance: '0' } })
  expect(usd(statement.closing.owed)).toBe(usd('5.25') - bought)
  expect(statement.totals.find(({ kind }) => kind === 'settle')).toMatchObject({
    balance: '-5.25',
    owed: '0',
  })
})

test('it names the receipt of every payment with the credit that it became', async () => {
  const { receipts } = await own()
  const receipt = (await visitor.get(`top-ups/${topUp}/receipt`)).json
  expect(receipts).toMatchObject([
    {
      receipt: receipt['receipt'],
      top_up: topUp,
      amount: '500',
      refunded: '100',
      credit_usd: receipt['credit_usd'],
      lot: receipt['lot'],
    },
  ])
})

test('its file has every entry of the month and no other', async () => {
  const read = async (of: string) => {
    const response = await fetch(`${weir.origin}/console/api/credits/statements/${of}/entries.csv`, {
      headers: { cookie: visitor.cookie },
    })
    expect(response.headers.get('content-disposition')).toContain(`credits-${of}.csv`)
    return (await response.text()).trimEnd().split('\r\n').slice(1)
  }
  const lines = await read(month)
  const { totals, closing } = await own()
  expect(lines).toHaveLength(totals.reduce((sum, { entries }) => sum + entries, 0))
  const amounts = lines.map((line) => usd(line.split(',')[3]!))
  expect(amounts.reduce((sum, amount) => sum + amount, 0n)).toBe(usd(closing.balance))
  expect(await read('2020-01')).toEqual([])
})

test('an operator and the command line have the same', async () => {
  const path = `accounts/${payer.account}/statements/${month}`
  const { status, json } = await answerOf(await admin(path))
  expectDocumented('admin', 'GET', path, json)
  expect({ status, data: json['data'] }).toMatchObject({ status: 200, data: await own() })
  const csv = await (await admin(`${path}/entries.csv`)).text()
  const { closing, totals } = await own()
  const printed = await runJson(weir, 'credits', 'statement', '--account', payer.account)
  expect(printed).toMatchObject({ closing: closing.balance, owed: closing.owed, credit_line: '10' })
  expect(csv.trimEnd().split('\r\n').slice(1)).toHaveLength((printed['entries'] as Json[]).length)
  const byKind = Object.fromEntries(totals.map(({ kind, balance }) => [kind, balance]))
  expect(printed['totals']).toEqual(byKind)
})

test('a month before the account is empty, and so is another account’s', async () => {
  expect(await own(visitor, '2020-01')).toMatchObject({
    complete: true,
    opening: { balance: '0' },
    closing: { balance: '0' },
    days: [],
    receipts: [],
  })
  expect((await own(stranger)).receipts).toEqual([])
  expect((await stranger.get(`admin/accounts/${payer.account}/statements/${month}`)).code).toBe(
    'operator_required',
  )
})

test.each(['2026-13', '2026', 'november', '2026-1'])('%p is no month', async (of) => {
  expect(await visitor.get(`credits/statements/${of}`)).toMatchObject({
    status: 400,
    json: { error: { param: 'month' } },
  })
  expect((await admin(`accounts/${payer.account}/statements/${of}`)).status).toBe(400)
  expect((await admin(`accounts/acct_none/statements/${month}`)).status).toBe(404)
})
