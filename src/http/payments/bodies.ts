// The request bodies of top-ups and vouchers, in the app and the console.

import { z } from 'zod'
import { processorIds } from '../../payments/top-up.ts'

export const topUpBody = z.strictObject({
  amount: z
    .string('must be a string such as "500"')
    .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be an amount such as "500", with at most two decimals')
    .describe('As a decimal string, with at most the decimals of the currency, and at most two'),
  currency: z
    .string()
    .regex(/^[A-Z]{3}$/, 'must be a currency such as "INR"')
    .describe('The currency of the amount, one of those that the gateway is set up for'),
  processor: z
    .enum(processorIds)
    .optional()
    .describe('Who takes the money; the first that is set up where it is left out'),
})

export const planBody = topUpBody.pick({ currency: true, processor: true })

export const voucherBody = z.strictObject({
  code: z.string().min(1).max(100).describe('The code as it was given out, such as WEIR-XXXX-XXXX-XXXX-XXXX'),
})
