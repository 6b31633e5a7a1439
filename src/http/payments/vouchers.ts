// Vouchers for signed-in accounts, in the app and the console.

import type { Account } from '../../accounts/account.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors.ts'
import { signedIn } from '../app/signed-in.ts'
import { type ConsoleRoute, ownRoute } from '../console/route.ts'
import { parseQuery } from '../intake/query.ts'
import type { HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'
import { smallJson } from './top-ups.ts'
import { voucherBody } from './wire.ts'

export const redeemVoucher: Route = {
  method: 'POST',
  path: '/app/v1/vouchers/redeem',
  identify: signedIn,
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
