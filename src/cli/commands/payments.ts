// `weir vouchers`: codes that can be redeemed once for credit.

import * as acts from '../../http/payments/admin.ts'
import { randomBytes } from 'node:crypto'
import { monthsAfter } from '../../credits/calendar.ts'
import { formatUsd } from '../../credits/money.ts'
import { type Period, type SubscriptionMessage, subscriptionMessage } from '../../payments/subscriptions.ts'
import type { Voucher } from '../../payments/vouchers.ts'
import { plansOf, productsOf, subscriptionsOf } from '../../serve/gateway/payments.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  isoTime,
  print,
  table,
  usageFault,
} from '../context.ts'
import { amountOfUsd, futureDate, momentOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { accountOf, actingOn, withAccount, withStore } from '../with-store.ts'

const mostAtOnce = 10_000
const mostListed = 10_000

/** Makes vouchers and prints their codes, which cannot be shown again. */
export async function createVouchers(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const count = Number(invocation.option('count') ?? '1')
  if (!Number.isInteger(count) || count < 1 || count > mostAtOnce)
    throw usageFault(`--count takes a whole number from 1 to ${mostAtOnce}`)
  const expires = invocation.option('expires')
  const expiresAt = expires === undefined ? null : futureDate('--expires', expires, now)
  const note = invocation.option('note') ?? ''
  const json = await withStore(context, (store) =>
    acts.createVouchers(actingOnVouchers(context, store), { amount, note, expiresAt }, count),
  )
  if (!context.json) context.io.err('The codes are shown once; only their hashes are kept.\n')
  print(context, { json, text: json.map(({ code }) => code).join('\n') })
}

export async function listVouchers(context: Context): Promise<void> {
  const now = context.io.clock()
  const vouchers = await withStore(context, (store) => store.vouchers.listVouchers(mostListed))
  const views = vouchers.map((voucher) => view(voucher, now))
  const rows = views.map((row) => [
    row.id,
    row.credit_usd,
    row.state,
    row.expires_at ?? 'never',
    row.account ?? '',
    row.note,
  ])
  const header = ['VOUCHER', 'USD', 'STATE', 'EXPIRES', 'ACCOUNT', 'NOTE']
  print(context, { json: views, text: rows.length === 0 ? 'no vouchers' : table(header, rows) })
}

export async function revokeVoucher(context: Context, { args }: Invocation): Promise<void> {
  const id = args[0] ?? ''
  const at = context.io.clock()
  await withStore(context, (store) => acts.revokeVoucher(actingOnVouchers(context, store), id))
  print(context, { json: { id, revoked_at: isoTime(at) }, text: `revoked ${id}` })
}

function actingOnVouchers(context: Context, store: Store) {
  return actingOn(context, store, { voucherStore: store.vouchers })
}

function view(voucher: Voucher, now: number) {
  return { ...acts.voucherView(voucher, now), lot: voucher.lot }
}

// `weir subscriptions`: grants and ends subscription periods by hand, like the seller's webhook.

export async function grantSubscription(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const product = invocation.option('product') ?? ''
  const sold = productsOf(context.config).get(product)
  if (!sold) throw usageFault(`--product ${product} is not among subscriptions.products`)
  const [from, to] = [invocation.option('from'), invocation.option('to')]
  const startsAt = from === undefined ? now : momentOf('--from', from)
  const endsAt = to === undefined ? monthsAfter(startsAt, sold.months) : momentOf('--to', to)
  const subscription = invocation.option('subscription') ?? `sub_${randomBytes(9).toString('hex')}`
  const source = invocation.option('source') ?? 'manual'
  const period = await withAccount(context, invocation, async (store, { id: account }) => {
    const dates = { from: new Date(startsAt).toISOString(), to: new Date(endsAt).toISOString() }
    const wanted = { subscription, source, account, product, period: dates, state: 'active' }
    const message = checkMessage(wanted)
    return acts.takeSubscription(actingOnSubscriptions(context, store), message)
  })
  if (!period) throw new CommandFailure('nothing was granted')
  print(context, { json: subscriptionView(period), text: describePeriod(period) })
}

export async function endSubscription(context: Context, invocation: Invocation): Promise<void> {
  const subscription = invocation.args[0] ?? ''
  const source = invocation.option('source') ?? 'manual'
  const state = invocation.flag('refund') ? 'refunded' : 'ended'
  const periods = await withStore(context, (store) =>
    acts.endSubscription(actingOnSubscriptions(context, store), { source, subscription, state }),
  )
  print(context, { json: periods.map(subscriptionView), text: periods.map(describePeriod).join('\n') })
}

export async function listSubscriptions(context: Context, invocation: Invocation): Promise<void> {
  const named = invocation.option('account')
  const periods = await withStore(context, async (store) => {
    const account = named === undefined ? null : (await accountOf(store, named)).id
    return store.subscriptions.listPeriods(account, mostListed)
  })
  const rows = periods.map((period) => {
    const { subscription, account, product, state, from, to, credit_usd: credit } = subscriptionView(period)
    return [subscription, account, product, state, credit, from, to]
  })
  const header = ['SUBSCRIPTION', 'ACCOUNT', 'PRODUCT', 'STATE', 'USD', 'FROM', 'TO']
  const text = rows.length === 0 ? 'no subscriptions' : table(header, rows)
  print(context, { json: periods.map(subscriptionView), text })
}

function checkMessage(wanted: object): SubscriptionMessage {
  const { success, data, error } = subscriptionMessage.safeParse(wanted)
  if (success) return data
  const [issue] = error.issues
  throw usageFault(`--${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'is wrong'}`)
}

function actingOnSubscriptions(context: Context, store: Store) {
  const parts = { config: context.config, store, clock: context.io.clock }
  const subscriptions = subscriptionsOf(parts)
  return actingOn(context, store, { subscriptions, plans: plansOf(parts, subscriptions) })
}

function subscriptionView(period: Period) {
  const taken = period.takenBack
  return { ...acts.periodView(period), taken_back_usd: taken === null ? null : formatUsd(taken) }
}

function describePeriod(period: Period): string {
  const { subscription, product, state, to, lot, credit_usd: credit } = subscriptionView(period)
  const granted = lot === null ? 'nothing granted, as it is over' : `${credit} USD`
  return `${subscription}: ${product} ${state} until ${to}, ${granted}`
}
