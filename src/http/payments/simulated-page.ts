// The page of the built-in simulator, in the place of a processor's own: two buttons, and no money.

import { GatewayError } from '../../errors.ts'
import { formatMinor } from '../../payments/exchange.ts'
import { SimulatedProcessor } from '../../payments/processors/simulated.ts'
import type { Route } from '../route.ts'
import type { HttpParts } from '../parts.ts'
import { redirected } from './hooks.ts'

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
      return redirected(returnTo)
    },
  }
}

/** `reference` is one of ours, and so are the amount and the currency: nothing in here needs escaping. */
function html(reference: string, amount: string): string {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Simulated payment</title>
<h1>Simulated payment of ${amount}</h1>
<p>This is the test mode: no money moves, and no credit is added.</p>
<form method="post" action="/hooks/sim/${reference}/paid"><button>Pay</button></form>
<form method="post" action="/hooks/sim/${reference}/failed"><button>Do not pay</button></form>
</html>
`
}

export const simulatedPage: readonly Route[] = [show, choice('paid'), choice('failed')]
