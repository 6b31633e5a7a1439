// Refunds, adjustments, expiry, debts and statements on the command line: each once, each in the journal.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type TempDir, tempDir } from '../support/tmp.ts'
import { json, type Machine, moment, run } from './run.ts'

let home: TempDir
let machine: Machine
/** Its clock goes on to December, and a ledger's time never goes back. */
let december: TempDir

beforeAll(() => {
  home = tempDir('weir-corrections-')
  december = tempDir('weir-corrections-december-')
  machine = { cwd: home.path }
})
afterAll(() => {
  home.remove()
  december.remove()
})

interface Granted {
  readonly lot: string
  readonly credits: { readonly available: string }
}

async function accountWith(name: string, usd: string, on = machine): Promise<{ email: string; lot: string }> {
  const email = `${name}@example.org`
  await json(on, 'accounts', 'create', '--email', email)
  const { lot } = (await grantOn(on, email, 'purchased', usd)) as Granted
  return { email, lot }
}

const grant = (email: string, pool: string, usd: string, ...more: string[]) =>
  grantOn(machine, email, pool, usd, ...more)
const grantOn = (on: Machine, email: string, pool: string, usd: string, ...more: string[]) =>
  json(on, 'credits', 'grant', '--account', email, '--pool', pool, '--usd', usd, ...more)
const refund = (email: string, lot: string, usd: string, id: string) =>
  json(machine, 'credits', 'refund', '--account', email, '--lot', lot, '--usd', usd, '--id', id)
const adjust = (email: string, pool: string, usd: string, id: string) =>
  json(machine, 'credits', 'adjust', '--account', email, '--pool', pool, '--usd', usd, '--id', id)

describe('refund', () => {
  test('takes the unspent rest of its lot, once for its id', async () => {
    const { email, lot } = await accountWith('refund', '10')
    const first = await refund(email, lot, '4', 'r1')
    expect(first).toMatchObject({ lot, refunded: true, taken: '4', debt: '0', credits: { available: '6' } })
    expect(await refund(email, lot, '4', 'r1')).toEqual({ ...Object(first), refunded: false })
    const otherAmount = ['--account', email, '--lot', lot, '--usd', '5', '--id', 'r1']
    expect(await run(machine, 'credits', 'refund', ...otherAmount)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(
        /^weir: nothing refunded: This id has refunded 4 USD for the account acct_[0-9a-f]+ before\.\n$/,
      ),
    })
    expect(await refund(email, lot, '1', 'r2')).toMatchObject({ refunded: true, credits: { available: '5' } })
  })

  test('what is missing becomes debt, is listed, and the next top-up repays it first', async () => {
    const { email, lot } = await accountWith('debtor', '10')
    await adjust(email, 'purchased', '-7', 'spent elsewhere'.replace(/ /g, '-'))
    expect(await refund(email, lot, '10', 'r1')).toMatchObject({ taken: '3', debt: '7' })
    expect(await json(machine, 'credits', 'debts')).toContainEqual({
      account: expect.any(String),
      email,
      debt: '7',
    })
    expect(await grant(email, 'purchased', '9')).toMatchObject({ credits: { available: '2', debt: '0' } })
    expect(await json(machine, 'credits', 'debts')).toEqual([])
  })

  test('refusals change nothing', async () => {
    const { email, lot } = await accountWith('refused', '10')
    const other = await accountWith('other', '10')
    const asked = (account: string, from: string, usd: string, id = 'x') =>
      run(machine, 'credits', 'refund', '--account', account, '--lot', from, '--usd', usd, '--id', id)
    expect(await asked(email, other.lot, '1')).toMatchObject({
      code: 1,
      err: expect.stringContaining('no such lot'),
    })
    expect(await asked(email, lot, '11')).toMatchObject({
      code: 1,
      err: expect.stringContaining('what was paid'),
    })
    expect(await asked(email, lot, '-1')).toMatchObject({ code: 2, out: '' })
    expect(await asked(email, lot, '1', 'two words')).toMatchObject({ code: 2, out: '' })
    expect(await asked('ghost@example.org', lot, '1')).toMatchObject({ code: 1 })
    expect(await json(machine, 'credits', 'show', '--account', email)).toMatchObject({ available: '10' })
  })
})

describe('adjust', () => {
  test('adds and takes away, once for its id', async () => {
    const { email } = await accountWith('adjusted', '1')
    expect(await adjust(email, 'purchased', '2.5', 'up')).toMatchObject({ adjusted: true, usd: '2.5' })
    expect(await adjust(email, 'purchased', '2.5', 'up')).toMatchObject({ adjusted: false })
    expect(await adjust(email, 'purchased', '-3', 'down')).toMatchObject({
      adjusted: true,
      usd: '-3',
      credits: { available: '0.5' },
    })
  })

  test.each([['0'], ['ten'], ['-1000001'], ['0.0000000000001']])('by %p is a usage fault', async (usd) => {
    const args = ['--account', 'adjusted@example.org', '--pool', 'purchased', '--usd', usd, '--id', 'bad']
    expect(await run(machine, 'credits', 'adjust', ...args)).toMatchObject({ code: 2, out: '' })
  })

  test('takes no more than there is', async () => {
    const { email } = await accountWith('poor', '1')
    const args = ['--account', email, '--pool', 'purchased', '--usd', '-1.01', '--id', 'much']
    expect(await run(machine, 'credits', 'adjust', ...args)).toMatchObject({ code: 1, out: '' })
    expect(await json(machine, 'credits', 'show', '--account', email)).toMatchObject({ available: '1' })
  })
})

test('expire books what is over, once, and leaves the rest', async () => {
  const before = { cwd: december.path }
  const { email } = await accountWith('lapses', '1', before)
  await grantOn(before, email, 'subscription', '5', '--expires', '2026-12-01')
  const later = { ...before, now: Date.UTC(2026, 11, 2) }
  expect(await json(later, 'credits', 'expire')).toEqual({ accounts: 1 })
  expect(await json(later, 'credits', 'expire')).toEqual({ accounts: 0 })
  const shown = await json(later, 'credits', 'show', '--account', email, '--history')
  expect(shown).toMatchObject({
    available: '1',
    history: [
      { kind: 'grant', pool: 'welcome', usd: '0.5', balance: '0.5' },
      { kind: 'grant', pool: 'purchased', usd: '1', balance: '1.5' },
      { kind: 'grant', pool: 'subscription', usd: '5', balance: '6.5' },
      { kind: 'expire', pool: 'subscription', usd: '-5', balance: '1.5', at: '2026-12-02T00:00:00.000Z' },
    ],
  })
})

describe('the statement', () => {
  test('adds up to the balance, debts included', async () => {
    const { email, lot } = await accountWith('statement', '10')
    await adjust(email, 'purchased', '-8', 'used')
    await refund(email, lot, '10', 'back')
    await grant(email, 'purchased', '1')
    const shown = (await json(machine, 'credits', 'show', '--account', email, '--history')) as {
      debt: string
      history: { usd: string; balance: string; kind: string; lot: string | null }[]
    }
    expect(shown.debt).toBe('7')
    expect(shown.history.at(-1)?.balance).toBe('-6.5')
    expect(shown.history.map(({ kind, usd }) => `${kind} ${usd}`)).toEqual([
      'grant 0.5',
      'grant 10',
      'adjust -8',
      'refund -2',
      'refund -8',
      'grant 1',
      'repay -1',
      'repay 1',
    ])
  })

  test('is CSV on demand, quoted where it must be', async () => {
    const { email } = await accountWith('csv', '3')
    await grant(email, 'purchased', '1', '--id', 'say "hi", twice')
    const { code, out } = await run(machine, 'credits', 'show', '--account', email, '--csv')
    expect(code).toBe(0)
    const lines = out.trimEnd().split('\r\n')
    expect(lines[0]).toBe('at,transaction,kind,pool,usd,balance,lot,call,model,source')
    expect(lines).toHaveLength(4)
    expect(lines[3]).toMatch(/,"operator:say ""hi"", twice"$/)
    expect(await run(machine, 'credits', 'show', '--account', email, '--csv', '--json')).toMatchObject({
      code: 2,
    })
  })
})

test('the ledger that all this made is sound', async () => {
  expect(await json({ ...machine, now: moment }, 'ledger', 'audit')).toMatchObject({ ok: true })
  expect(await json({ cwd: december.path, now: moment }, 'ledger', 'audit')).toMatchObject({ ok: true })
})
