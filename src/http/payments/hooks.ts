// Receives messages of processors: the signature is checked over the raw bytes first, and the answer is quick.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { formatMinor } from '../../credits/money.ts'
import {
  type ExternalProcessorId,
  externalProcessorIds,
  mayBePaid,
  type TopUp,
} from '../../payments/top-up.ts'
import { simulatedFact } from '../../payments/processors/simulated.ts'
import { requireSigned, signedJson } from '../../payments/processor.ts'
import { subscriptionMessage } from '../../payments/subscriptions.ts'
import { parseQuery } from '../intake/query.ts'
import { readRaw } from '../intake/read-body.ts'
import { escapeHtml } from '../../text/html.ts'
import type { Brand, HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'
import { returnTo } from './top-ups.ts'

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

export const razorpayCallback: Route = {
  method: 'GET',
  path: '/hooks/razorpay/callback',
  handle: async (parts, { request }) => {
    const razorpay = parts.payments.processor('razorpay')
    if (razorpay?.returnTo === undefined) throw notConfigured()
    const { searchParams } = new URL(request.url)
    const address = parts.site.addressOf(request)
    const id = await parts.hookLimit.check(address, 'short', async () => razorpay.returnTo?.(searchParams))
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

function redirectTo(location: string): Response {
  return new Response(null, { status: 303, headers: { location } })
}

function notConfigured(): GatewayError {
  return new GatewayError('not_found', { message: 'Nothing is set up here.' })
}

export const processorHooks: readonly Route[] = externalProcessorIds.map(hookOf)

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
