// `weir plans`: what is sold, who has it, and periods by hand.

import { formatMinor, formatUsd } from '../../credits/money.ts'
import { grantPlan, pageSubscribers, planPeriodView } from '../../http/payments/plans.ts'
import type { Period, Plans } from '../../payments/subscriptions.ts'
import { plansOf, subscriptionsOf } from '../../serve/gateway/payments.ts'
import type { Store } from '../../store/store.ts'
import { type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { accountOf, actingOn, withAccount, withStore } from '../with-store.ts'

function openPlans({ config, io }: Context, store: Store): Plans {
  const parts = { config, store, clock: io.clock }
  return plansOf(parts, subscriptionsOf(parts))
}

/** Prints the plans of the configuration. */
export async function listPlans(context: Context): Promise<void> {
  const plans = await withStore(context, (store) => openPlans(context, store).sold)
  const views = plans.map(({ id, title, about, credit, months, models, prices }) => ({
    id,
    title,
    about,
    credit_usd: formatUsd(credit),
    months,
    models,
    prices: Array.from(prices, ([currency, price]) => ({ currency, amount: formatMinor(price, currency) })),
  }))
  const rows = views.map(({ id, title, credit_usd: credit, months, models, prices }) => [
    id,
    title,
    credit,
    String(months),
    prices.map(({ currency, amount }) => `${amount} ${currency}`).join(', '),
    models?.join(' ') ?? 'all',
  ])
  const header = ['PLAN', 'TITLE', 'USD', 'MONTHS', 'PRICE', 'MODELS']
  const none = 'no plans (payments.plans in the configuration)'
  print(context, { json: views, text: rows.length === 0 ? none : table(header, rows) })
}

const rowsAtOnce = 200

/** Prints who has a plan now, or has paid for one that is to come. */
export async function listSubscribers(context: Context, invocation: Invocation): Promise<void> {
  const named = invocation.option('account')
  const { views, accounts } = await withStore(context, async (store) => {
    const account = named === undefined ? undefined : (await accountOf(store, named)).id
    const parts = { subscriptionStore: store.subscriptions, now: context.io.clock }
    const asked = { account, plan: invocation.option('plan'), limit: rowsAtOnce }
    const periods: Period[] = []
    for (let after: Period | null | undefined; after !== null;) {
      const page = await pageSubscribers(parts, { ...asked, after })
      periods.push(...page.periods)
      after = page.next
    }
    const plans = openPlans(context, store)
    return {
      views: periods.map((period) => ({
        ...planPeriodView(plans, period, context.io.clock()),
        account: period.account,
      })),
      accounts: new Map(
        await Promise.all(
          periods.map(async ({ account: id }) => {
            const found = await store.accounts.findAccount(id)
            return [id, found?.email ?? id] as const
          }),
        ),
      ),
    }
  })
  const rows = views.map((view) => [
    accounts.get(view.account) ?? view.account,
    view.plan,
    view.state,
    view.credit_usd,
    view.from,
    view.to,
    view.subscription,
  ])
  const header = ['ACCOUNT', 'PLAN', 'STATE', 'USD', 'FROM', 'TO', 'SUBSCRIPTION']
  print(context, { json: views, text: rows.length === 0 ? 'no subscribers' : table(header, rows) })
}

/** Grants a period of a plan without a payment. */
export async function grantPlanByHand(context: Context, invocation: Invocation): Promise<void> {
  const plan = invocation.option('plan') ?? ''
  const id = invocation.option('id') ?? crypto.randomUUID()
  if (!/^[A-Za-z0-9._-]{1,64}$/.test(id))
    throw usageFault('--id takes letters, digits, dots, dashes and underscores')
  const view = await withAccount(context, invocation, async (store, { id: account }) => {
    const plans = openPlans(context, store)
    if (!plans.sold.some((sold) => sold.id === plan))
      throw usageFault(`--plan ${plan} is not among payments.plans`)
    const period = await grantPlan(actingOn(context, store, { plans }), account, plan, id)
    return { ...planPeriodView(plans, period, context.io.clock()), account }
  })
  const text = `${view.title} from ${view.from} to ${view.to}: ${view.credit_usd} USD (${view.subscription})`
  print(context, { json: view, text })
}
