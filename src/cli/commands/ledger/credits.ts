// `weir credits grant|show`

import { lifeFault } from '../../../credits/calendar.ts'
import { formatUsd } from '../../../credits/money.ts'
import { pools } from '../../../credits/pool.ts'
import { balanceView, lotOf, renderBalance } from './balance.ts'
import { commandLineOperator } from '../../acts.ts'
import { type Context, type Invocation, print, usageFault } from '../../context.ts'
import { historyCsv, historyView, renderHistory } from './history.ts'
import { amountOfUsd, futureDate, oneOf } from '../../values.ts'
import { accountOf, unlessConflict, withStore } from '../../with-store.ts'

/**
 * Grants credit. The same --id never grants twice, so that a script may be run again; with another account, amount, pool
 * or end it fails, so that two invoices are not taken for one.
 */
export async function grantCredit(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const pool = oneOf('--pool', invocation.option('pool') ?? '', pools)
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const expires = invocation.option('expires')
  // Without a date the expiry depends on the pool: twelve months, the UTC day, or never.
  const expiresAt =
    expires === undefined
      ? null
      : expires === 'never'
        ? ('never' as const)
        : futureDate('--expires', expires, now)
  const fault = lifeFault(pool, expiresAt, now)
  if (fault !== undefined) throw usageFault(`--expires: ${fault}`)
  const id = invocation.option('id')
  if (id === '') throw usageFault('--id must not be empty')
  const done = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const source = `operator:${id ?? crypto.randomUUID()}`
    const operator = { id: commandLineOperator(), note: null }
    const grant = { source, account: account.id, pool, amount, expiresAt, from: 'grant', operator }
    const result = await unlessConflict('nothing granted', store.ledger.grant(grant))
    return { account, result, balance: await balanceView(store.ledger, account.id, now) }
  })
  const { account, result, balance } = done
  const json = {
    account: account.id,
    lot: result.lot,
    granted: result.granted,
    pool,
    usd: formatUsd(amount),
    expires_at: lotOf(balance, result.lot)?.expires_at ?? null,
    credits: balance,
  }
  const what = result.granted
    ? `granted ${formatUsd(amount)} USD (${pool}) to ${account.email}`
    : `nothing granted to ${account.email}: this id was used before`
  print(context, { json, text: `${what}\n${renderBalance(balance)}` })
}

/** The balance; with --history also every line of the account's journal, with --csv only those lines. */
export async function showCredit(context: Context, invocation: Invocation): Promise<void> {
  const csv = invocation.flag('csv')
  if (csv && context.json) throw usageFault('--csv and --json are two forms of the same: take one')
  const shown = await withStore(context, async (store) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    const history =
      invocation.flag('history') || csv ? historyView(await store.reports.history(account.id)) : undefined
    return { account, history, balance: await balanceView(store.ledger, account.id, context.io.clock()) }
  })
  const { account, history, balance } = shown
  const text = [
    `${account.email}: ${renderBalance(balance)}`,
    ...(history === undefined ? [] : [renderHistory(history)]),
  ].join('\n\n')
  print(context, {
    json: { account: account.id, ...balance, ...(history === undefined ? {} : { history }) },
    text: csv && history !== undefined ? historyCsv(history) : text,
  })
}
