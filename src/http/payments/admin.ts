// Payments, vouchers and subscriptions for operators: lists, messages, and actions.

import { z } from 'zod'
import { formatMinor, formatUsd, givenDecimals, parseMinor } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  type EventRecord,
  processorIds,
  type Reversal,
  type TopUp,
  topUpStates,
} from '../../payments/top-up.ts'
import {
  type Period,
  planSource,
  type SubscriptionMessage,
  subscriptionMessage,
} from '../../payments/subscriptions.ts'
import { mintVoucher, type Voucher, voucherIdOf } from '../../payments/vouchers.ts'
import { type Acting, type AdminRoute, adminRoute, iso, isoOrNull, recordAct } from '../console/route.ts'
import { amountOf, futureTime, requestId, usdAmount } from '../console/bodies.ts'
import { idOf } from '../admin/insight.ts'
import { lastMoment, time } from '../console/requests.ts'
import { pageLimit, queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type {
  NewVoucherView,
  PaymentEventView,
  PeriodView,
  ReversalView,
  TopUpDetailView,
  TopUpOfOperatorView,
  VoucherView,
} from './answers.ts'
import { viewOf } from './top-ups.ts'

const listed = 200
const mostVouchers = 1_000

const pageParameters = z.strictObject({
  account: z.string().max(128).optional().describe('Only those of this account, by its id.'),
  cursor: z.string().max(128).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})
const topUpParameters = pageParameters.extend({
  account: z.string().max(256).optional().describe('Only those of this account, by its id or its address.'),
  state: z.enum(topUpStates).optional(),
  processor: z.enum(processorIds).optional(),
  problem: z.literal('yes').optional().describe('Only those that an operator has to look at.'),
  from: time.optional().describe('When it was opened.'),
  to: lastMoment.optional().describe('A time, or a UTC day, which is included.'),
})
const ofAccount = pageParameters.pick({ account: true })

const refundBody = z.strictObject({
  amount: z
    .string()
    .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be an amount such as "200", with at most two decimals'),
  /** The same id never refunds twice. */
  id: z.string().regex(/^[A-Za-z0-9._-]{1,64}$/, 'must be letters, digits, dots, dashes and underscores'),
})

const voucherBatch = z.strictObject({
  usd: usdAmount,
  count: z.int().min(1).max(mostVouchers).default(1),
  expires_at: z.iso.datetime({ offset: true }).optional(),
  note: z.string().max(500).default(''),
  id: requestId.describe(
    'An id of yours for the request: the same one again makes no second batch, and is refused.',
  ),
})

const endBody = z.strictObject({
  source: z.string().min(1).max(32),
  subscription: z.string().min(1).max(128),
  state: z.enum(['ended', 'refunded']),
})

const topUpRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET top-ups',
    { id: 'listTopUps', summary: 'List top-ups, the newest first', query: topUpParameters },
    async ({ parts, request }) => {
      const asked = queryOf(topUpParameters, request)
      const { account, cursor = null, limit, state, processor, from, to: until } = asked
      const problem = asked.problem === 'yes' ? (true as const) : undefined
      const filter = { state, processor, problem, from, until }
      const whose = (await idOf(parts, account)) ?? null
      const topUps = await parts.paymentStore.listTopUps(whose, limit + 1, cursor, filter)
      const shown = await Promise.all(topUps.slice(0, limit).map((topUp) => ofOperator(parts, topUp)))
      const more = topUps.length > limit
      return { data: shown, has_more: more, next_cursor: more ? shown.at(-1)!.id : null }
    },
  ),
  adminRoute(
    'GET top-ups/:id',
    {
      id: 'getTopUpWithEvents',
      summary: 'Get a top-up with every message about it, and what was taken back',
      errors: ['not_found'],
    },
    async ({ parts, params }) => ({ data: await whole(parts, params['id'] ?? '') }),
  ),
  adminRoute(
    'POST top-ups/:id/reconcile',
    {
      id: 'reconcileTopUp',
      summary: 'Ask its processor now, and credit what was paid',
      errors: ['not_found', 'payment_processor_error'],
    },
    async (asked) => {
      const { parts, params } = asked
      const id = params['id'] ?? ''
      const before = await whole(parts, id)
      const after = await parts.payments.reconcile(id)
      await recordAct(asked, 'top_up.reconcile', id, { state: before.state }, { state: after.state })
      return { data: await whole(parts, id) }
    },
  ),
  adminRoute(
    'POST top-ups/:id/refund',
    {
      id: 'refundTopUp',
      summary: 'Give a part of a payment back, and take its credit',
      description:
        'With the same `id` the same refund is meant: it is made once, and answered with the top-up as it is now.',
      elevated: true,
      body: refundBody,
      errors: ['not_found', 'payment_processor_error', 'idempotency_conflict'],
    },
    async (asked) => {
      const { parts, params, body } = asked
      const id = params['id'] ?? ''
      const before = await whole(parts, id)
      const amount = amountIn(body.amount, before.currency)
      const { topUp: after, repeated } = await parts.payments.refund(id, amount, `${id}-${body.id}`)
      const refunded = { refunded: formatMinor(after.refunded, after.currency) }
      if (!repeated)
        await recordAct(asked, 'top_up.refund', id, { refunded: before.refunded }, { ...refunded, ...body })
      return { data: await whole(parts, id) }
    },
  ),
  adminRoute(
    'GET payment-events',
    {
      id: 'listPaymentEvents',
      summary: 'List the latest messages of processors, those about nothing of ours among them',
    },
    async ({ parts }) => ({ data: (await parts.paymentStore.listEvents(null, listed)).map(eventView) }),
  ),
]

const voucherRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET vouchers',
    { id: 'listVouchers', summary: 'List the latest vouchers; their codes are kept nowhere' },
    async ({ parts }) => ({
      data: (await parts.voucherStore.listVouchers(mostVouchers)).map((voucher) =>
        voucherView(voucher, parts.now()),
      ),
    }),
  ),
  adminRoute(
    'POST vouchers',
    {
      id: 'createVouchers',
      summary: 'Make vouchers; their codes are in this answer and nowhere else',
      description:
        'With an `id` of yours the vouchers are made once: the same id again is 409 `idempotency_conflict`, which names the first of them.',
      status: 201,
      elevated: true,
      body: voucherBatch,
      errors: ['idempotency_conflict'],
    },
    async (asked) => {
      const { parts, body } = asked
      const amount = amountOf('usd', body.usd)
      const expiresAt =
        body.expires_at === undefined ? null : futureTime('expires_at', body.expires_at, parts.now())
      const { count, note, id } = body
      return { data: await createVouchers(asked, { amount, expiresAt, note }, count, id) }
    },
  ),
  adminRoute(
    'POST vouchers/:id/revoke',
    {
      id: 'revokeVoucher',
      summary: 'Make a voucher worthless; one that was redeemed stays credit',
      errors: ['not_found'],
    },
    async (asked) => {
      const id = asked.params['id'] ?? ''
      await revokeVoucher(asked, id)
      return { id, revoked: true }
    },
  ),
]

const subscriptionRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET subscriptions',
    {
      id: 'listSubscriptions',
      summary: 'List the latest periods of subscriptions, and what is sold',
      query: ofAccount,
    },
    async ({ parts, request }) => {
      const { account = null } = queryOf(ofAccount, request)
      return {
        data: (await parts.subscriptionStore.listPeriods(account, listed)).map(periodView),
        products: Array.from(parts.subscriptions.products, ([id, { credit, months }]) => ({
          id,
          credit_usd: formatUsd(credit),
          months,
        })),
      }
    },
  ),
  adminRoute(
    'POST subscriptions',
    {
      id: 'tellSubscription',
      summary: 'Tell of a period of a subscription, as the hook of its seller does',
      elevated: true,
      body: subscriptionMessage,
    },
    async (asked) => {
      const period = await takeSubscription(asked, asked.body)
      return { data: period === undefined ? null : periodView(period) }
    },
  ),
  adminRoute(
    'POST subscriptions/end',
    {
      id: 'endSubscription',
      summary: 'End a subscription, or take back what is left of it',
      elevated: true,
      body: endBody,
      errors: ['not_found'],
    },
    async (asked) => ({ data: (await endSubscription(asked, asked.body)).map(periodView) }),
  ),
]

export const paymentRoutes: readonly AdminRoute[] = [...topUpRoutes, ...voucherRoutes, ...subscriptionRoutes]

// What changes vouchers and subscriptions: for the routes, and for the commands.

type VoucherActing = Acting<Pick<HttpParts, 'voucherStore'>>

/** Makes vouchers with their codes, which are kept nowhere; for `request` once. Throws `idempotency_conflict`. */
export async function createVouchers(
  acting: VoucherActing,
  wanted: Pick<Voucher, 'amount' | 'note' | 'expiresAt'>,
  count: number,
  request?: string,
): Promise<readonly NewVoucherView[]> {
  const { voucherStore, now } = acting.parts
  const at = now()
  const made = Array.from({ length: count }, (_, nth) =>
    mintVoucher(wanted, at, request === undefined ? undefined : voucherIdOf(request, nth)),
  )
  const first = made[0]!.voucher
  if (!(await voucherStore.addVouchers(made.map(({ voucher }) => voucher)))) throw madeBefore(first.id)
  const { credit_usd: usd, expires_at, note } = voucherView(first, at)
  await recordAct(acting, 'voucher.create', first.id, null, { id: request, count, usd, expires_at, note })
  return made.map(({ voucher, code }) => ({ ...voucherView(voucher, at), code }))
}

/** Makes a voucher worthless. Throws `not_found` also for one that was redeemed. */
export async function revokeVoucher(acting: VoucherActing, id: string): Promise<void> {
  const { voucherStore, now } = acting.parts
  if (!(await voucherStore.revokeVoucher(id, now())))
    throw new GatewayError('not_found', { message: 'There is no such voucher that could be revoked.' })
  await recordAct(acting, 'voucher.revoke', id, null, null)
}

type SubscriptionActing = Acting<Pick<HttpParts, 'subscriptions' | 'plans'>>

/** Takes a period of a subscription as the hook of its seller does. undefined if nothing comes of it. */
export async function takeSubscription(
  acting: SubscriptionActing,
  message: SubscriptionMessage,
): Promise<Period | undefined> {
  const period = await acting.parts.subscriptions.take(message)
  await recordAct(acting, `subscription.${message.state}`, message.account, null, message)
  return period
}

/** Ends a subscription, or takes back what is left of it. Throws `not_found`. */
export async function endSubscription(
  acting: SubscriptionActing,
  ended: z.infer<typeof endBody>,
): Promise<readonly Period[]> {
  const { source, subscription, state } = ended
  const { subscriptions, plans } = acting.parts
  const periods = await subscriptions.end(source, subscription, state)
  const [first] = periods
  if (!first) throw new GatewayError('not_found', { message: 'There is no such subscription.' })
  await recordAct(acting, `subscription.${state}`, first.account, null, ended)
  if (source === planSource && state === 'refunded') await plans.advance(first.account)
  return periods
}

/** Throws `invalid_request` for more decimals than its currency is paid in. */
function amountIn(text: string, currency: string): bigint {
  const amount = parseMinor(text, currency)
  if (amount !== undefined) return amount
  const message = `amount: ${currency} has at most ${givenDecimals(currency)} decimals here.`
  throw new GatewayError('invalid_request', { message, param: 'amount' })
}

async function whole(parts: HttpParts, id: string): Promise<TopUpDetailView> {
  const { paymentStore } = parts
  const topUp = await paymentStore.findTopUp(id)
  if (!topUp) throw new GatewayError('not_found', { message: 'There is no such top-up.' })
  return {
    ...(await ofOperator(parts, topUp)),
    events: (await paymentStore.listEvents(id, listed)).map(eventView),
    reversals: (await paymentStore.reversalsOf(id)).map((row) => reversalView(row, topUp.currency)),
  }
}

async function ofOperator({ accounts }: HttpParts, topUp: TopUp): Promise<TopUpOfOperatorView> {
  return {
    ...viewOf(topUp),
    account: topUp.account,
    account_email: (await accounts.findAccount(topUp.account))?.email ?? null,
    reference: topUp.reference,
    checked_at: isoOrNull(topUp.checkedAt),
  }
}

function eventView({
  processor,
  id,
  type,
  at,
  outcome,
  topUp,
  paymentId,
  hash,
  news,
}: EventRecord): PaymentEventView {
  return {
    processor,
    id,
    type,
    at: iso(at),
    outcome,
    top_up: topUp,
    payment_id: paymentId,
    amount: 'amount' in news ? formatMinor(news.amount, news.currency) : null,
    currency: 'amount' in news ? news.currency : null,
    body_sha256: hash,
  }
}

const reversalKinds = {
  refund: 'refund',
  failed: 'refund_failed',
  open: 'dispute_open',
  won: 'dispute_won',
  lost: 'dispute_lost',
} as const

function reversalView(
  { id, kind, amount, credit, held, booked, at }: Reversal,
  currency: string,
): ReversalView {
  const amounts = {
    amount: formatMinor(amount, currency),
    credit_usd: formatUsd(credit),
    held_usd: formatUsd(held),
  }
  return {
    id,
    kind: reversalKinds[kind],
    ...amounts,
    booked,
    at: iso(at),
  }
}

export function voucherView(voucher: Voucher, now: number): VoucherView {
  const { account, revokedAt, expiresAt } = voucher
  const over = revokedAt !== null ? 'revoked' : expiresAt !== null && expiresAt <= now ? 'expired' : 'valid'
  return {
    id: voucher.id,
    credit_usd: formatUsd(voucher.amount),
    state: account !== null ? 'redeemed' : over,
    note: voucher.note,
    created_at: iso(voucher.createdAt),
    expires_at: isoOrNull(expiresAt),
    account,
    redeemed_at: isoOrNull(voucher.redeemedAt),
  }
}

function madeBefore(first: string): GatewayError {
  return new GatewayError('idempotency_conflict', {
    message: `This request has made vouchers before, ${first} first. Their codes were in that answer alone: if that was lost, revoke them and make others.`,
    param: 'id',
    metadata: { voucher: first },
  })
}

export function periodView(row: Period): PeriodView {
  return {
    subscription: row.subscription,
    source: row.source,
    account: row.account,
    product: row.product,
    state: row.state,
    from: iso(row.startsAt),
    to: iso(row.endsAt),
    credit_usd: formatUsd(row.amount),
    lot: row.lot,
    updated_at: iso(row.updatedAt),
  }
}
