// Top-ups for signed-in accounts, in the app and the console.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import { formatMinor, formatRate, formatUsd, givenDecimals, parseMinor } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { creditEnds, type TopUp } from '../../payments/top-up.ts'
import { type CurrencyTerms, processorsFor } from '../../payments/top-up-draft.ts'
import type { ReturnTo } from '../../payments/processor.ts'
import { identifyInApp, type Route } from '../route.ts'
import { type ConsoleRoute, iso, isoOrNull, ownRoute } from '../console/route.ts'
import { pageLimit, parseQuery, queryOf } from '../intake/query.ts'
import { readJson, refuseByHeaders, whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { CurrencyTermsView, PaymentReceiptView, TopUpTermsView, TopUpView } from './answers.ts'
import { topUpBody, voucherBody } from './bodies.ts'

/** These routes have no long bodies. */
const maxBodyBytes = 65_536

export const createTopUp: Route = {
  method: 'POST',
  path: '/app/v1/top-ups',
  identify: identifyInApp,
  handle: async (parts, { request, caller }) => {
    const { account } = await caller()
    const body = parseQuery(topUpBody, await smallJson(parts, request))
    // A processor may take longer than the idle timeout.
    const topUp = await whileOpen(parts, request, () => openTopUp(parts, account, body, request.headers))
    return Response.json(topUp, { status: 201 })
  },
  operation: async () => (await import('./documentation.ts')).createTopUpOperation,
}

export const getTopUp: Route = {
  method: 'GET',
  path: '/app/v1/top-ups/:id',
  identify: identifyInApp,
  handle: async (parts, { request, params, caller }) => {
    const { account } = await caller()
    const look = () => parts.payments.look(account.id, params['id'] ?? '')
    return Response.json(viewOf(await whileOpen(parts, request, look)))
  },
  operation: async () => (await import('./documentation.ts')).getTopUpOperation,
}

/** The body of a request that has no long one. */
export async function smallJson(parts: HttpParts, request: Request): Promise<unknown> {
  const body = { ...parts.body, maxBodyBytes: Math.min(parts.body.maxBodyBytes, maxBodyBytes) }
  refuseByHeaders(request.headers, body)
  return (await readJson(request, { body, scheduler: parts.scheduler })).json
}

const pageParameters = z.strictObject({
  cursor: z.string().max(64).optional(),
  limit: pageLimit,
})

export const topUpRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'top-up-terms', summary: 'What a top-up costs, and who takes the money' },
    ({ parts }) => ({ data: terms(parts) }),
  ),
  ownRoute(
    { method: 'GET', path: 'top-ups', summary: 'The latest top-ups, the newest first' },
    async ({ parts, account, request }) => {
      const { cursor = null, limit } = queryOf(pageParameters, request)
      const topUps = await parts.paymentStore.listTopUps(account.id, limit, cursor)
      const next = topUps.length === limit ? topUps.at(-1)!.id : null
      return { data: topUps.map((topUp) => viewOf(topUp)), has_more: next !== null, next_cursor: next }
    },
  ),
  ownRoute(
    {
      method: 'POST',
      path: 'top-ups',
      summary: 'Open a top-up, and the page that it is paid on',
      status: 201,
      body: topUpBody,
      errors: ['payment_processor_error', 'idempotency_conflict', 'rate_limit_exceeded'],
    },
    ({ parts, account, body, request }) =>
      whileOpen(parts, request, () => openTopUp(parts, account, body, request.headers)),
  ),
  ownRoute(
    {
      method: 'GET',
      path: 'top-ups/:id',
      summary: 'A top-up as its processor has it',
      errors: ['not_found'],
    },
    async ({ parts, account, params, request }) =>
      viewOf(await whileOpen(parts, request, () => parts.payments.look(account.id, params['id'] ?? ''))),
  ),
  ownRoute(
    {
      method: 'GET',
      path: 'top-ups/:id/receipt',
      summary: 'The payment receipt of a top-up that was credited',
      errors: ['not_found'],
    },
    async ({ parts, account, params }): Promise<PaymentReceiptView> => {
      const topUp = await parts.paymentStore.findTopUp(params['id'] ?? '')
      if (topUp?.account !== account.id || topUp.receipt === null)
        throw new GatewayError('not_found', { message: 'There is no such receipt.' })
      return { ...viewOf(topUp), method: topUp.method, seller: parts.seller, payer: account.email }
    },
  ),
]

async function openTopUp(
  parts: HttpParts,
  account: Account,
  { amount: text, currency, processor }: z.output<typeof topUpBody>,
  headers: Headers,
): Promise<TopUpView> {
  if (account.suspended) throw new GatewayError('account_suspended')
  const idempotencyKey = idempotencyKeyIn(headers)
  const amount = parseMinor(text, currency)
  if (amount === undefined) {
    const message = `amount: ${currency} is paid in amounts with at most ${givenDecimals(currency)} decimals.`
    throw new GatewayError('invalid_request', { message, param: 'amount' })
  }
  const wanted = { account: account.id, amount, currency, processor, idempotencyKey }
  const topUp = await parts.payments.open(wanted, (id) => returnTo(parts, id))
  return viewOf(topUp)
}

/** The Idempotency-Key of a request, null without one. Throws `invalid_request`. */
export function idempotencyKeyIn(headers: Headers): string | null {
  const key = headers.get('idempotency-key')
  if (key === null || /^[\x21-\x7e]{1,255}$/.test(key)) return key
  throw new GatewayError('invalid_request', {
    message: 'Idempotency-Key must be 1 to 255 visible ASCII characters.',
    param: 'Idempotency-Key',
  })
}

/** Where the payer's browser returns to. */
export function returnTo({ site }: HttpParts, topUp: string): ReturnTo {
  const origin = site.url()
  return { origin, page: `${origin}/console/credits/top-ups/${encodeURIComponent(topUp)}` }
}

function terms({ payments, now }: HttpParts): TopUpTermsView {
  return {
    currencies: payments.currencies.map((currency) => currencyView(payments, currency)),
    /** If it were paid now. */
    credit_expires_at: iso(creditEnds({ paidAt: null, createdAt: now(), plan: null })),
    processors: payments.processors.map(({ id, test }) => ({ id, test })),
  }
}

function currencyView(payments: HttpParts['payments'], terms: CurrencyTerms): CurrencyTermsView {
  const { currency } = terms
  return {
    currency,
    decimals: givenDecimals(currency),
    rate: formatRate(terms.rate),
    rate_as_of: terms.asOf,
    rate_source: terms.source,
    min: formatMinor(terms.least, currency),
    max: formatMinor(terms.most, currency),
    processors: processorsFor(payments, terms).map(({ id }) => id),
  }
}

/** A top-up as JSON. Amounts are decimal strings. */
export function viewOf(topUp: TopUp): TopUpView {
  const { receipt } = topUp
  return {
    id: topUp.id,
    state: topUp.state,
    processor: topUp.processor,
    test: topUp.test,
    amount: formatMinor(topUp.amount, topUp.currency),
    currency: topUp.currency,
    rate: formatRate(topUp.rate),
    rate_as_of: topUp.rateAsOf,
    rate_source: topUp.rateSource,
    credit_usd: formatUsd(topUp.credit),
    credit_expires_at: iso(creditEnds(topUp)),
    plan: planOf(topUp),
    url: topUp.url,
    lot: topUp.lot,
    payment_id: topUp.paymentId,
    refunded: formatMinor(topUp.refunded, topUp.currency),
    problem: topUp.problem,
    receipt: receipt === null ? null : `WR-${receipt.year}-${receipt.number}`,
    created_at: iso(topUp.createdAt),
    expires_at: iso(topUp.expiresAt),
    paid_at: isoOrNull(topUp.paidAt),
  }
}

function planOf({ plan }: TopUp): TopUpView['plan'] {
  if (plan === null) return null
  const { id, title, period } = plan
  const [from, to] = [period?.startsAt ?? null, period?.endsAt ?? null]
  return { id, title, from: isoOrNull(from), to: isoOrNull(to) }
}

// Vouchers for signed-in accounts, in the app and the console.

export const redeemVoucher: Route = {
  method: 'POST',
  path: '/app/v1/vouchers/redeem',
  identify: identifyInApp,
  handle: async (parts, { request, caller }) => {
    const { account } = await caller()
    const { code } = parseQuery(voucherBody, await smallJson(parts, request))
    return Response.json(await redeem(parts, account, code))
  },
  operation: async () => (await import('./documentation.ts')).redeemVoucherOperation,
}

export const voucherRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    {
      method: 'POST',
      path: 'vouchers/redeem',
      summary: 'Turn a voucher into purchased credit',
      body: voucherBody,
      errors: ['voucher_invalid', 'voucher_used'],
    },
    ({ parts, account, body }) => redeem(parts, account, body.code),
  ),
]

async function redeem({ vouchers }: HttpParts, account: Account, code: string) {
  if (account.suspended) throw new GatewayError('account_suspended')
  const { credit, lot } = await vouchers.redeem(account.id, code)
  return { credit_usd: formatUsd(credit), lot }
}
