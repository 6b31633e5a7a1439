// Receives messages of processors: the signature is checked over the raw bytes first, and the answer is quick.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { type ExternalProcessorId, externalProcessorIds, formatMinor } from '../../payments/top-up.ts'
import { SimulatedProcessor } from '../../payments/processors/simulated.ts'
import { requireSigned, signedJson } from '../../payments/processor.ts'
import { subscriptionMessage } from '../../payments/subscriptions.ts'
import { parseQuery } from '../intake/query.ts'
import { readRaw } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
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

function pageAt({ payments }: HttpParts, reference: string) {
  const simulator = payments.processor('sim')
  const page = simulator instanceof SimulatedProcessor ? simulator.page(reference) : undefined
  if (!page || !(simulator instanceof SimulatedProcessor))
    throw new GatewayError('not_found', { message: 'There is no such page, or its time is over.' })
  return { simulator, ...page }
}

const show: Route = {
  method: 'GET',
  path: '/hooks/sim/:reference',
  handle: (parts, { params }) => {
    const reference = params['reference'] ?? ''
    const { topUp } = pageAt(parts, reference)
    return new Response(html(reference, `${formatMinor(topUp.amount)} ${topUp.currency}`), {
      headers: {
        'content-type': 'text/html; charset=utf-8',
        'content-security-policy':
          "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
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
      const reference = params['reference'] ?? ''
      const { simulator, topUp, returnTo } = pageAt(parts, reference)
      simulator.choose(reference, kind, parts.now())
      await parts.payments.settleTopUp(topUp.id)
      return redirectTo(returnTo)
    },
  }
}

/** `reference`, amount and currency are generated by us: nothing needs escaping. The page may lie below a path. */
function html(reference: string, amount: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Simulated payment</title>
<h1>Simulated payment of ${amount}</h1>
<p>This is the test mode: no money moves, and no credit is added.</p>
<form method="post" action="${reference}/paid"><button>Pay</button></form>
<form method="post" action="${reference}/failed"><button>Do not pay</button></form>
</html>
`
}

export const simulatedPage: readonly Route[] = [show, choice('paid'), choice('failed')]
