// Top-ups for signed-in accounts, in the app and the console.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import { formatMinor, formatRate, formatUsd, givenDecimals, parseMinor } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { requireSigned, type ReturnTo, signedJson, simulatedFact } from '../../payments/processor.ts'
import { subscriptionMessage } from '../../payments/subscriptions.ts'
import { type CurrencyTerms, processorsFor } from '../../payments/top-up-draft.ts'
import {
  creditEnds,
  type ExternalProcessorId,
  externalProcessorIds,
  mayBePaid,
  type TopUp,
} from '../../payments/top-up.ts'
import { escapeHtml } from '../../text/text.ts'
import { type ConsoleRoute, iso, isoOrNull, ownRoute } from '../console/route.ts'
import {
  pageLimit,
  parseQuery,
  queryOf,
  readJson,
  readRaw,
  refuseByHeaders,
  whileOpen,
} from '../intake/read-body.ts'
import type { Brand, HttpParts } from '../parts.ts'
import { identifyInApp, type Route } from '../route.ts'
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
  ownRoute('GET top-up-terms', { summary: 'What a top-up costs, and who takes the money' }, ({ parts }) => ({
    data: terms(parts),
  })),
  ownRoute(
    'GET top-ups',
    { summary: 'The latest top-ups, the newest first' },
    async ({ parts, account, request }) => {
      const { cursor = null, limit } = queryOf(pageParameters, request)
      const topUps = await parts.paymentStore.listTopUps(account.id, limit, cursor)
      const next = topUps.length === limit ? topUps.at(-1)!.id : null
      return { data: topUps.map((topUp) => viewOf(topUp)), has_more: next !== null, next_cursor: next }
    },
  ),
  ownRoute(
    'POST top-ups',
    {
      summary: 'Open a top-up, and the page that it is paid on',
      status: 201,
      body: topUpBody,
      errors: ['payment_processor_error', 'idempotency_conflict', 'rate_limit_exceeded'],
    },
    ({ parts, account, body, request }) =>
      whileOpen(parts, request, () => openTopUp(parts, account, body, request.headers)),
  ),
  ownRoute(
    'GET top-ups/:id',
    { summary: 'A top-up as its processor has it', errors: ['not_found'] },
    async ({ parts, account, params, request }) =>
      viewOf(await whileOpen(parts, request, () => parts.payments.look(account.id, params['id'] ?? ''))),
  ),
  ownRoute(
    'GET top-ups/:id/receipt',
    { summary: 'The payment receipt of a top-up that was credited', errors: ['not_found'] },
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
    'POST vouchers/redeem',
    {
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

// Receives messages of processors: the signature is checked over the raw bytes first, and the answer is quick.

/** Answers 200 when the message is kept, known ones too; 404 without a secret; 503 so that it is sent again. */
function hookOf(id: ExternalProcessorId): Route {
  return {
    method: 'POST',
    path: `/hooks/${id}`,
    operation: async () => (await import('./documentation.ts')).processorHookOperation(id),
    handle: async ({ payments, hookLimit, site }, { request }) => {
      const verify = payments.processor(id)?.verify
      if (verify === undefined) throw notConfigured()
      const { event, raw } = await hookLimit.check(site.addressOf(request), 'short', async (most) => {
        const raw = await readRaw(request, most)
        return { event: await verify(raw, request.headers), raw }
      })
      const outcome = await payments.take(id, event, raw)
      return Response.json({ received: true, outcome })
    },
  }
}

export const subscriptionHook: Route = {
  method: 'POST',
  path: '/hooks/subscriptions',
  operation: async () => (await import('./documentation.ts')).hookOperations.subscriptions,
  handle: async ({ subscriptions, subscriptionSecrets, hookLimit, site, now }, { request }) => {
    if (subscriptionSecrets.length === 0) throw notConfigured()
    const raw = await hookLimit.check(site.addressOf(request), 'short', async (most) => {
      const body = await readRaw(request, most)
      requireSigned(body, request.headers, subscriptionSecrets, now())
      return body
    })
    const period = await subscriptions.take(parseQuery(subscriptionMessage, signedJson(raw)))
    return Response.json({ received: true, outcome: period === undefined ? 'ignored' : 'applied' })
  },
}

const applePayload = z.strictObject({ signedPayload: z.string() })

export const appleHook: Route = {
  method: 'POST',
  path: '/hooks/subscriptions/apple',
  operation: async () => (await import('./documentation.ts')).hookOperations.apple,
  handle: async ({ subscriptions, apple, hookLimit, site, now }, { request }) => {
    if (apple === undefined) throw notConfigured()
    const { readNotification } = await import('../../payments/apple.ts')
    const message = await hookLimit.check(site.addressOf(request), 'unread', async (most) => {
      const { signedPayload } = parseQuery(applePayload, signedJson(await readRaw(request, most)))
      return readNotification(signedPayload, apple, now())
    })
    const period = message === undefined ? undefined : await subscriptions.take(message)
    return Response.json({ received: true, outcome: period === undefined ? 'ignored' : 'applied' })
  },
}

/** Where browsers come back from the page of a processor, of those that sign that. */
function callbackOf(processorId: ExternalProcessorId): Route {
  return {
    method: 'GET',
    path: `/hooks/${processorId}/callback`,
    handle: async (parts, { request }) => {
      const processor = parts.payments.processor(processorId)
      if (processor?.returnTo === undefined) throw notConfigured()
      const { searchParams } = new URL(request.url)
      const address = parts.site.addressOf(request)
      const verify = async () => processor.returnTo?.(searchParams)
      const id = await parts.hookLimit.check(address, 'short', verify)
      if (id === undefined) throw notConfigured()
      // The browser only reports that something was paid; what and how much is asked of the processor.
      await parts.payments.settleTopUp(id).catch((error: unknown) => {
        if (error instanceof GatewayError && error.code === 'not_found') throw error
        parts.log.warn('a top-up could not be settled on its return; its page and the sweep try again', {
          error,
        })
      })
      return redirectTo(returnTo(parts, id).page)
    },
  }
}

function redirectTo(location: string): Response {
  return new Response(null, { status: 303, headers: { location } })
}

function notConfigured(): GatewayError {
  return new GatewayError('not_found', { message: 'Nothing is set up here.' })
}

export const processorHooks: readonly Route[] = externalProcessorIds.map(hookOf)
export const processorCallbacks: readonly Route[] = externalProcessorIds.map(callbackOf)

// The built-in simulator's payment page, in place of a processor's: two buttons and no money.

/** Throws `not_found` for a page that there is not, or that nothing can be chosen on any more. */
async function topUpAt({ payments, paymentStore, now }: HttpParts, reference: string): Promise<TopUp> {
  const isThere = payments.processor('sim') !== undefined
  const topUp = isThere ? await paymentStore.findByReference('sim', reference) : undefined
  if (!topUp || (topUp.paymentId === null && !mayBePaid(topUp, now())))
    throw new GatewayError('not_found', { message: 'There is no such page, or its time is over.' })
  return topUp
}

const show: Route = {
  method: 'GET',
  path: '/hooks/sim/:reference',
  handle: async (parts, { params }) => {
    const reference = params['reference'] ?? ''
    const topUp = await topUpAt(parts, reference)
    const text = formatMinor(topUp.amount, topUp.currency)
    // As ISO 4217 has the decimals, which is not always how a currency is usually written.
    const digits = text.includes('.') ? text.length - text.indexOf('.') - 1 : 0
    const amount = new Intl.NumberFormat('en-IN', {
      style: 'currency',
      currency: topUp.currency,
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    }).format(text as Intl.StringNumericLiteral)
    const style = styleOf(parts.brand)
    return new Response(html(reference, amount, parts.brand, style), {
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy': `default-src 'none'; style-src 'sha256-${hashOf(style)}'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
      },
    })
  },
}

function choice(kind: 'paid' | 'failed'): Route {
  return {
    method: 'POST',
    path: `/hooks/sim/:reference/${kind}`,
    handle: async (parts, { params }) => {
      const topUp = await topUpAt(parts, params['reference'] ?? '')
      await parts.payments.settleTopUp(topUp.id, { news: simulatedFact(topUp, kind, parts.now()) })
      return redirectTo(returnTo(parts, topUp.id).page)
    },
  }
}

/** As the console looks, in both themes; its own style sheet is a file with another name in each version. */
function styleOf({ accent, accentDark }: Brand): string {
  return `:root{color-scheme:light dark;--paper:light-dark(#f7f8f8,#0e1213);--panel:light-dark(#fff,#151a1c);
--ink:light-dark(#15201f,#e4eaea);--muted:light-dark(#52605f,#9fadad);--line:light-dark(#dfe4e4,#283134);
--accent:light-dark(${accent ?? '#0a6482'},${accentDark ?? '#67c5e2'});--accent-ink:light-dark(#fff,#06222c)}
body{margin:0;min-height:100dvh;display:grid;place-items:center;background:var(--paper);color:var(--ink);
font:14px/1.45 system-ui,sans-serif}
main{box-sizing:border-box;width:min(24rem,100vw - 2rem);padding:1.5rem;background:var(--panel);border:1px solid var(--line);border-radius:.5rem}
header{display:flex;align-items:center;gap:.6rem;font-weight:600;margin-bottom:1.25rem}img{height:26px}
h1{font-size:1.25rem;margin:0}strong{display:block;font-size:1.75rem;margin:.25rem 0 .75rem;font-variant-numeric:tabular-nums}
p{color:var(--muted);margin:0 0 1.25rem}form{margin:.5rem 0 0}
button{width:100%;height:2.5rem;font:inherit;font-weight:500;border-radius:.375rem;border:1px solid var(--muted);
background:var(--panel);color:var(--ink);cursor:pointer}
.pay{background:var(--accent);border-color:var(--accent);color:var(--accent-ink)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}`
}

function hashOf(style: string): string {
  return new Bun.CryptoHasher('sha256').update(style).digest('base64')
}

/** `reference` and `amount` are generated by us: they need no escaping. The page may lie below a path. */
function html(reference: string, amount: string, { name, logo }: Brand, style: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Simulated payment · ${escapeHtml(name)}</title>
<style>${style}</style>
<main>
<header>${logo === null ? '' : `<img src="${logo}" alt="">`}${escapeHtml(name)}</header>
<h1>Simulated payment of <strong>${amount}</strong></h1>
<p>This is the test mode: no money moves, and no credit is added.</p>
<form method="post" action="${reference}/paid"><button class="pay">Pay</button></form>
<form method="post" action="${reference}/failed"><button>Do not pay</button></form>
</main>
</html>
`
}

export const simulatedPage: readonly Route[] = [show, choice('paid'), choice('failed')]
