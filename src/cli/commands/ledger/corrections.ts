// `weir credits refund|adjust|expire|debts`: corrections by an operator, each once for its id and each in the journal.

import { plural } from '../../../counted.ts'
import { formatUsd, largestLot, parseUsd, type Pico } from '../../../credits/money.ts'
import { pools } from '../../../credits/pool.ts'
import { balanceView, renderBalance } from './balance.ts'
import { commandLineOperator, recordAct } from '../../acts.ts'
import { type Context, type Invocation, print, table, usageFault } from '../../context.ts'
import { amountOfUsd, oneOf } from '../../values.ts'
import { accountOf, unlessConflict, withStore } from '../../with-store.ts'

/** Takes a payment back from its lot; what has been spent of it becomes debt. */
export async function refundCredit(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const id = idOf(invocation)
  const lot = invocation.option('lot') ?? ''
  const done = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const command = { id: `refund:${account.id}:${id}`, account: account.id, lot, amount }
    const result = await unlessConflict('nothing refunded', store.ledger.refund(command))
    const [taken, debt] = [formatUsd(result.taken), formatUsd(result.debt)]
    if (result.refunded)
      await recordAct(context, store, 'credits.refund', account.id, null, {
        id: command.id,
        lot,
        taken,
        debt,
      })
    return { account, result, balance: await balanceView(store.ledger, account.id, now) }
  })
  const { account, result, balance } = done
  const json = {
    account: account.id,
    lot,
    refunded: result.refunded,
    taken: formatUsd(result.taken),
    debt: formatUsd(result.debt),
    credits: balance,
  }
  const debt =
    result.debt > 0n
      ? `, ${formatUsd(result.debt)} USD had been spent or held and is owed: free credit repays it first`
      : ''
  const what = result.refunded
    ? `took ${formatUsd(result.taken)} USD back from ${lot}${debt}`
    : 'nothing refunded: this id was used before'
  print(context, { json, text: `${what}\n${account.email}: ${renderBalance(balance)}` })
}

/** Adds credit to a pool, or removes free credit with a negative amount. */
export async function adjustCredit(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const pool = oneOf('--pool', invocation.option('pool') ?? '', pools)
  const amount = signedAmountOfUsd(invocation.option('usd') ?? '')
  const id = idOf(invocation)
  const done = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const operator = commandLineOperator()
    const command = { id: `adjust:${account.id}:${id}`, account: account.id, pool, amount, operator }
    const { adjusted } = await unlessConflict('nothing adjusted', store.ledger.adjust(command))
    return { account, adjusted, balance: await balanceView(store.ledger, account.id, now) }
  })
  const { account, adjusted, balance } = done
  const json = { account: account.id, adjusted, pool, usd: formatUsd(amount), credits: balance }
  const what = adjusted
    ? `adjusted ${pool} by ${formatUsd(amount)} USD`
    : 'nothing adjusted: this id was used before'
  print(context, { json, text: `${what}\n${account.email}: ${renderBalance(balance)}` })
}

function idOf(invocation: Invocation): string {
  const id = invocation.option('id') ?? ''
  if (!/^[\x21-\x7e]{1,200}$/.test(id))
    throw usageFault('--id takes 1 to 200 visible characters without blanks')
  return id
}

function signedAmountOfUsd(text: string): Pico {
  const amount = parseUsd(text)
  if (amount === undefined || amount === 0n || amount > largestLot || amount < -largestLot) {
    throw usageFault(
      `--usd takes US dollars such as 10 or -0.50, not 0 and at most 1000000 either way, not ${JSON.stringify(text)}`,
    )
  }
  return amount
}

/** Books the expiry of every expired lot; a running server does this a few times a minute. */
export async function expireCredit(context: Context): Promise<void> {
  const accounts = await withStore(context, async ({ ledger }) => ledger.expire(context.io.clock()))
  print(context, { json: { accounts }, text: `credit of ${plural(accounts, 'account')} has expired` })
}

/** Accounts that owe something: refunds beyond their credit, until the next top-up. */
export async function listDebts(context: Context): Promise<void> {
  const debts = await withStore(context, async (store) =>
    Promise.all(
      (await store.reports.debts()).map(async ({ account, debt }) => ({
        account,
        email: (await store.accounts.findAccount(account))?.email ?? null,
        debt: formatUsd(debt),
      })),
    ),
  )
  const rows = debts.map(({ account, email, debt }) => [account, email ?? '', debt])
  print(context, {
    json: debts,
    text: rows.length === 0 ? 'no debts' : table(['ACCOUNT', 'EMAIL', 'DEBT USD'], rows),
  })
}
