// Plans: what is sold, bought and cancelled by an account, and granted by an operator.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import { formatMinor, formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Period, PlanOnSale, PlanQuery, Plans } from '../../payments/subscriptions.ts'
import { processorsFor } from '../../payments/top-up-draft.ts'
import {
  type AdminRoute,
  adminRoute,
  type ConsoleRoute,
  iso,
  isoOrNull,
  type OperatorActing,
  ownRoute,
} from '../console/route.ts'
import { pageLimit, parseQuery, queryOf, whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { identifyInApp, type Route } from '../route.ts'
import type { OwnPlansView, PlanPeriodView, PlanView, TopUpView } from './answers.ts'
import { planBody } from './bodies.ts'
import { idempotencyKeyIn, returnTo, smallJson, viewOf } from './top-ups.ts'

export const planRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET plans',
    { summary: 'The plans that are sold, and those of the account' },
    async ({ parts, account }) => ({ data: await ownPlans(parts, account.id) }),
  ),
  ownRoute(
    'POST plans/:plan/payments',
    {
      summary: 'Open the payment of a period of a plan, and the page that it is paid on',
      status: 201,
      body: planBody,
      errors: ['not_found', 'payment_processor_error', 'idempotency_conflict', 'rate_limit_exceeded'],
    },
    ({ parts, account, body, params, request }) => buy(parts, request, account, params['plan'], body),
  ),
  ownRoute(
    'POST plans/cancel',
    { summary: 'Let the plans of the account end with what is paid, without a reminder' },
    async ({ parts, account }) => {
      await parts.plans.cancel(account.id)
      return { data: await ownPlans(parts, account.id) }
    },
  ),
]

async function buy(
  parts: HttpParts,
  request: Request,
  account: Account,
  id: string | undefined,
  { currency, processor }: z.output<typeof planBody>,
): Promise<TopUpView> {
  if (account.suspended) throw new GatewayError('account_suspended')
  const plan = parts.plans.plan(id ?? '')
  const idempotencyKey = idempotencyKeyIn(request.headers)
  const wanted = { account: account.id, plan, currency, processor, idempotencyKey }
  // A processor may take longer than the idle timeout.
  const open = () => parts.payments.openPlan(wanted, (topUp) => returnTo(parts, topUp))
  return viewOf(await whileOpen(parts, request, open))
}

// The same for signed-in accounts in the app.

export const listPlans: Route = {
  method: 'GET',
  path: '/app/v1/plans',
  identify: identifyInApp,
  handle: async (parts, { caller }) => {
    const { account } = await caller()
    return Response.json({ data: await ownPlans(parts, account.id) })
  },
  operation: async () => (await import('./documentation.ts')).listPlansOperation,
}

export const buyPlan: Route = {
  method: 'POST',
  path: '/app/v1/plans/:plan/payments',
  identify: identifyInApp,
  handle: async (parts, { request, params, caller }) => {
    const { account } = await caller()
    const body = parseQuery(planBody, await smallJson(parts, request))
    return Response.json(await buy(parts, request, account, params['plan'], body), { status: 201 })
  },
  operation: async () => (await import('./documentation.ts')).buyPlanOperation,
}

async function ownPlans(parts: HttpParts, account: string): Promise<OwnPlansView> {
  const { plans, now } = parts
  const at = now()
  return {
    plans: plans.sold.map((plan) => planView(parts, plan)),
    periods: (await plans.periodsOf(account)).map((period) => planPeriodView(plans, period, at)),
  }
}

function planView({ payments }: HttpParts, plan: PlanOnSale): PlanView {
  const { id, title, about, credit, months, models, prices } = plan
  return {
    id,
    title,
    about,
    credit_usd: formatUsd(credit),
    months,
    models: models === null ? null : [...models],
    prices: Array.from(prices, ([currency, price]) => {
      const taking = payments.currencies.find((terms) => terms.currency === currency)
      const processors = processorsFor(payments, taking ?? { processors: null })
      return {
        currency,
        amount: formatMinor(price, currency),
        processors: processors.map(({ id: by }) => by),
      }
    }),
  }
}

export function planPeriodView(plans: Pick<Plans, 'sold'>, period: Period, now: number): PlanPeriodView {
  const { product, subscription, startsAt, endsAt, amount, models } = period
  return {
    plan: product,
    title: plans.sold.find(({ id }) => id === product)?.title ?? product,
    subscription,
    state: startsAt > now ? 'coming' : 'running',
    from: iso(startsAt),
    to: iso(endsAt),
    credit_usd: formatUsd(amount),
    models: models === null ? null : [...models],
    cancelled_at: isoOrNull(period.cancelledAt),
  }
}

const subscriberParameters = z.strictObject({
  plan: z.string().max(50).optional().describe('Only those of this plan.'),
  account: z.string().max(128).optional().describe('Only those of this account, by its id.'),
  cursor: z
    .string()
    .regex(/^\d{1,15}_.{1,400}$/, 'It takes the next_cursor of the page before.')
    .transform((text) => {
      const [at = ''] = text.split('_', 1)
      return { startsAt: Number(at), period: text.slice(at.length + 1) }
    })
    .optional(),
  limit: pageLimit,
})

const grantBody = z.strictObject({
  account: z.string().min(1).max(128).describe('Its id.'),
  id: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be letters, digits, dots, dashes and underscores')
    .describe('An id of yours: the same one again grants nothing more.'),
})

export const adminPlanRoutes: readonly AdminRoute[] = [
  adminRoute('GET plans', { id: 'listPlans', summary: 'List the plans that are sold' }, ({ parts }) => ({
    data: parts.plans.sold.map((plan) => planView(parts, plan)),
  })),
  adminRoute(
    'GET plans/subscribers',
    {
      id: 'listSubscribers',
      summary: 'List the periods of plans that run or are paid for, the last to begin first',
      query: subscriberParameters,
    },
    async ({ parts, request }) => {
      const { cursor, ...asked } = queryOf(subscriberParameters, request)
      const { periods, next } = await pageSubscribers(parts, { ...asked, after: cursor })
      const data = await Promise.all(
        periods.map(async (period) => ({
          ...planPeriodView(parts.plans, period, parts.now()),
          account: period.account,
          account_email: (await parts.accounts.findAccount(period.account))?.email ?? null,
        })),
      )
      return { data, has_more: next !== null, next_cursor: next && `${next.startsAt}_${next.period}` }
    },
  ),
  adminRoute(
    'POST plans/:plan/grants',
    {
      id: 'grantPlan',
      summary: 'Grant an account a period of a plan without a payment',
      description:
        'It is placed like one that was paid: after periods of as much credit or more, and else at once. The same `id` again grants nothing more.',
      status: 201,
      elevated: true,
      body: grantBody,
      errors: ['not_found', 'idempotency_conflict'],
    },
    async (asked) => {
      const { parts, params, body } = asked
      const found = await parts.accounts.findAccount(body.account)
      if (found?.id !== body.account)
        throw new GatewayError('not_found', { message: 'There is no such account.', param: 'account' })
      const period = await grantPlan(asked, body.account, params['plan'] ?? '', body.id)
      return { data: planPeriodView(parts.plans, period, parts.now()) }
    },
  ),
]

/** A page of the periods that run or are to come; `next` is where the next one begins, null behind the last. */
export async function pageSubscribers(
  { subscriptionStore, now }: Pick<HttpParts, 'subscriptionStore' | 'now'>,
  query: Omit<PlanQuery, 'now'>,
): Promise<{ readonly periods: readonly Period[]; readonly next: Period | null }> {
  const found = await subscriptionStore.pagePlans({ ...query, now: now(), limit: query.limit + 1 })
  const periods = found.slice(0, query.limit)
  return { periods, next: found.length > query.limit ? periods.at(-1)! : null }
}

/** Grants a period by hand, for routes and commands. Throws `not_found` and `idempotency_conflict`. */
export async function grantPlan(
  { parts, operator }: OperatorActing<Pick<HttpParts, 'plans'>>,
  account: string,
  plan: string,
  id: string,
): Promise<Period> {
  return parts.plans.grant(account, plan, id, operator.id)
}
