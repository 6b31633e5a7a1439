// Where processors send their messages: the raw bytes, the signature before anything is read of them, and a quick answer.

import { z } from 'zod'
import { GatewayError } from '../../errors.ts'
import { readNotification } from '../../payments/apple.ts'
import { requireSigned, signedJson } from '../../payments/standard-webhook.ts'
import { subscriptionMessage } from '../../payments/subscriptions.ts'
import { parsed } from '../intake/query.ts'
import { readRaw } from '../intake/read-body.ts'
import type { Route } from '../route.ts'
import { returnTo } from './top-ups.ts'

const mostBytes = 1024 * 1024

/** Answers 200 when the message is kept, known ones too; 404 without a secret; 503 so that it is sent again. */
function hookOf(id: 'razorpay' | 'stripe'): Route {
  return {
    method: 'POST',
    path: `/hooks/${id}`,
    operation: async () => (await import('./documentation.ts')).hookOperations[id],
    handle: async ({ payments }, { request }) => {
      const verify = payments.processor(id)?.verify
      if (verify === undefined) throw notConfigured()
      const raw = await readRaw(request, mostBytes)
      const outcome = await payments.take(id, await verify(raw, request.headers), raw)
      return Response.json({ received: true, outcome })
    },
  }
}

export const subscriptionHook: Route = {
  method: 'POST',
  path: '/hooks/subscriptions',
  operation: async () => (await import('./documentation.ts')).hookOperations.subscriptions,
  handle: async ({ subscriptions, subscriptionSecrets, now }, { request }) => {
    if (subscriptionSecrets.length === 0) throw notConfigured()
    const raw = await readRaw(request, mostBytes)
    requireSigned(raw, request.headers, subscriptionSecrets, now())
    const period = await subscriptions.take(parsed(subscriptionMessage, signedJson(raw)))
    return Response.json({ received: true, outcome: period === undefined ? 'ignored' : 'applied' })
  },
}

const applePayload = z.strictObject({ signedPayload: z.string().max(mostBytes) })

export const appleHook: Route = {
  method: 'POST',
  path: '/hooks/subscriptions/apple',
  operation: async () => (await import('./documentation.ts')).hookOperations.apple,
  handle: async ({ subscriptions, apple, now }, { request }) => {
    if (apple === undefined) throw notConfigured()
    const { signedPayload } = parsed(applePayload, signedJson(await readRaw(request, mostBytes)))
    const message = readNotification(signedPayload, apple, now())
    const period = message === undefined ? undefined : await subscriptions.take(message)
    return Response.json({ received: true, outcome: period === undefined ? 'ignored' : 'applied' })
  },
}

export const razorpayCallback: Route = {
  method: 'GET',
  path: '/hooks/razorpay/callback',
  handle: async (parts, { request }) => {
    const id = parts.payments.processor('razorpay')?.returned?.(new URL(request.url).searchParams)
    if (id === undefined) throw notConfigured()
    // The browser says that something was paid; what, and how much, only the processor knows.
    await parts.payments.settleTopUp(id).catch((error: unknown) => {
      if (error instanceof GatewayError && error.code === 'not_found') throw error
      parts.log.warn('a top-up could not be settled on its return; its page and the sweep try again', {
        error,
      })
    })
    return redirected(returnTo(parts, id).page)
  },
}

export function redirected(location: string): Response {
  return new Response(null, { status: 303, headers: { location } })
}

export function notConfigured(): GatewayError {
  return new GatewayError('not_found', { message: 'Nothing is set up here.' })
}

export const razorpayHook = hookOf('razorpay')
export const stripeHook = hookOf('stripe')
