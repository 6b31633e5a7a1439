// Vouchers: made on the command line, redeemed by an account, once.

import { afterAll, beforeAll, expect, setDefaultTimeout, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Database } from 'bun:sqlite'
import { postAs, runJson } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { Payer, sound } from './top-ups-lab.ts'

setDefaultTimeout(20_000)

let weir: ServedWeir
let names = 0
const payer = () => Payer.of(weir, `payer${++names}`)

beforeAll(async () => {
  weir = await serveWeir({ config: 'local_servers: { discover: false }' })
})
afterAll(() => weir?.stop())

interface Made {
  readonly id: string
  readonly code: string
  readonly expires_at: string | null
}

async function make(...args: string[]): Promise<Made[]> {
  return (await runJson(weir, 'vouchers', 'create', '--usd', '10', ...args)) as unknown as Made[]
}

const redeem = (anna: Payer, code: unknown) => anna.send('POST', '/app/v1/vouchers/redeem', { code })

test('a voucher becomes purchased credit of twelve months, once', async () => {
  const [anna, berta] = [await payer(), await payer()]
  const [made] = await make('--count', '1')
  expect(made).toEqual(expect.objectContaining({ id: expect.any(String), expires_at: null }))
  const { status, json } = await redeem(anna, made!.code.toLowerCase())
  expect([status, json]).toEqual([200, { credit_usd: '10', lot: expect.any(String) }])
  expect(await redeem(anna, made!.code)).toMatchObject({
    status: 409,
    code: 'voucher_used',
    json: { error: { metadata: { lot: json['lot'] } } },
  })
  expect(await redeem(berta, made!.code)).toMatchObject({ status: 409, code: 'voucher_used' })
  expect([await anna.purchased(), await berta.purchased()]).toEqual(['10', '0'])
  await sound(weir)
})

test('of many who redeem one voucher at once, one gets it', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, payer))
  const [made] = await make()
  const answers = await Promise.all(
    all.flatMap((anna) => [redeem(anna, made!.code), redeem(anna, made!.code)]),
  )
  const lots = new Set(answers.filter(({ status }) => status === 200).map(({ json }) => json['lot']))
  expect(lots.size).toBe(1)
  const credits = await Promise.all(all.map((anna) => anna.purchased()))
  expect(credits.toSorted().slice(0, 2)).toEqual(['0', '0'])
  expect(credits.filter((credit) => credit === '10')).toHaveLength(1)
})

test('one that was revoked, has expired or was never made is worth nothing', async () => {
  const anna = await payer()
  const [revoked] = await make()
  await runJson(weir, 'vouchers', 'revoke', revoked!.id)
  const [expired] = await make('--expires', '2099-01-01')
  using database = new Database(`${weir.dataDir}/weir.db`)
  database.prepare('UPDATE voucher SET expires_at = 1 WHERE id = ?').run(expired!.id)
  for (const code of [revoked!.code, expired!.code, 'WEIR-0000-0000-0000-0000', 'nonsense'])
    expect(await redeem(anna, code)).toMatchObject({ status: 400, code: 'voucher_invalid' })
  for (const code of [undefined, 5, ''])
    expect(await redeem(anna, code)).toMatchObject({ status: 400, code: 'invalid_request' })
  expect(await anna.purchased()).toBe('0')
  const listed = (await runJson(weir, 'vouchers', 'list')) as unknown as { id: string; state: string }[]
  expect(listed.find(({ id }) => id === revoked!.id)?.state).toBe('revoked')
  expect(listed.find(({ id }) => id === expired!.id)?.state).toBe('expired')
})

test('what was redeemed cannot be revoked, and the codes are kept nowhere', async () => {
  const anna = await payer()
  const made = await make('--count', '3')
  expect(new Set(made.map(({ code }) => code)).size).toBe(3)
  await redeem(anna, made[0]!.code)
  expect((await weir.command('vouchers', 'revoke', made[0]!.id)).code).toBe(1)
  const file =
    readFileSync(`${weir.dataDir}/weir.db`, 'latin1') + readFileSync(`${weir.dataDir}/weir.db-wal`, 'latin1')
  for (const { code } of made) {
    expect(file).not.toContain(code)
    expect(file).not.toContain(code.slice(5).replaceAll('-', ''))
    expect(weir.output()).not.toContain(code)
  }
})

test('an API key redeems nothing', async () => {
  const [made] = await make()
  const response = await postAs(`${weir.origin}/app/v1/vouchers/redeem`, weir.key, { code: made!.code })
  expect(response.status).toBe(401)
})

test('one that was claimed by a process that died is granted by the sweep, or when it is asked for again', async () => {
  const anna = await payer()
  const [made] = await make()
  using database = new Database(`${weir.dataDir}/weir.db`)
  database.prepare('UPDATE voucher SET account = ?, redeemed_at = 1 WHERE id = ?').run(anna.account, made!.id)
  expect(await redeem(anna, made!.code)).toMatchObject({ status: 200, json: { credit_usd: '10' } })
  expect(await anna.purchased()).toBe('10')
})
