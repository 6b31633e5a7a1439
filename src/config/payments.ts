// The settings of payments: the exchange rate, the processors, and subscriptions that are sold elsewhere.

import { z } from 'zod'
import { currencies, givenDecimals, parseMinor, parseUsd } from '../credits/money.ts'
import { baseUrl, grantedUsd, note, secret, section, whole, wholeBetween } from './fields.ts'

/** "89.015": what parseRate of credits/money.ts takes. */
const rate = z
  .string('must be written as a string, "89.015"')
  .regex(
    /^(?!0+(\.0+)?$)\d{1,6}(\.\d{1,6})?$/,
    'must be units for a dollar, such as "89.015", with at most six decimals',
  )

const leastInr = 100

const rupees = (fallback: string) =>
  z
    .string('must be written as a string, "100"')
    .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be rupees such as "500", with at most two decimals')
    .refine((text) => Number(text) >= leastInr, `must be at least "${leastInr}", as no top-up is smaller`)
    .default(fallback)

const inEnvironment = 'text, ${ENVIRONMENT_NAME} or file:/path'

const webhookSecrets = {
  webhook_secret: note(
    secret.optional(),
    `The secret of the webhook: ${inEnvironment}; without one its address does not exist`,
    { secret: true },
  ),
  webhook_secret_before: note(
    secret.optional(),
    'The secret before the last change, which is still valid for messages that were signed with it',
    { secret: true },
  ),
}

const processors = {
  razorpay: section({
    key_id: note(
      z
        .string()
        .regex(/^rzp_(live|test)_\S+$/, 'must begin with rzp_live_ or rzp_test_')
        .optional(),
      'The id of the API key at Razorpay; one of the test mode shows the flow and never touches the ledger',
    ),
    key_secret: note(secret.optional(), `Its secret: ${inEnvironment}`, { secret: true }),
    ...webhookSecrets,
    base_url: note(baseUrl.default('https://api.razorpay.com/v1'), "The address of Razorpay's API"),
  }),
  stripe: section({
    secret_key: note(
      secret
        .refine(
          (text) => !text.startsWith('pk_'),
          'is the publishable key: the secret one begins with sk_ or rk_',
        )
        .optional(),
      `The secret key of Stripe: ${inEnvironment}; one that is not of the live mode (sk_live_, rk_live_) shows the ` +
        'flow and never touches the ledger',
      { secret: true },
    ),
    ...webhookSecrets,
    base_url: note(
      baseUrl
        .refine((url) => /^\/(v1)?$/.test(new URL(url).pathname), 'must end in /v1')
        .default('https://api.stripe.com/v1'),
      "The address of Stripe's API",
    ),
  }),
}

type ProcessorName = keyof typeof processors

/** The parts of each processor's key: without all of them it is not set up. */
export const processorKeys: Readonly<Record<ProcessorName, readonly [string, ...string[]]>> = {
  razorpay: ['key_id', 'key_secret'],
  stripe: ['secret_key'],
}

const price = z
  .string('must be written as a string, "5"')
  .regex(/^\d{1,9}(\.\d{1,2})?$/, 'must be an amount such as "5" or "5.50", with at most two decimals')

const currency = z.strictObject({
  per_usd: rate,
  min: price,
  max: price,
  as_of: z.iso.date('must be a day such as 2026-11-20').optional(),
  source: z.string().min(1).max(100).default('set by the operator'),
  processors: z
    .array(z.enum(Object.keys(processors) as [ProcessorName, ...ProcessorName[]]))
    .min(1)
    .optional(),
})

/** By ISO 4217. What the amounts of each must be is checked where its code is known. */
const soldIn = z.record(z.string(), currency).check(({ value, issues }) => {
  const fault = (path: string[], message: string) =>
    issues.push({ code: 'custom', message, path, input: value })
  for (const [code, { min, max }] of Object.entries(value)) {
    if (code === 'INR') fault([code], 'is set by payments.fx, min_inr and max_inr')
    else if (!currencies.includes(code))
      fault([code], 'is no currency in ISO 4217, in capitals, that processors count in the same way')
    else {
      const [least, most] = [parseMinor(min, code), parseMinor(max, code)]
      const places = `has more than the ${givenDecimals(code)} decimals that ${code} is paid in`
      if (least === undefined) fault([code, 'min'], places)
      if (most === undefined) fault([code, 'max'], places)
      if (least === 0n) fault([code, 'min'], 'must be above "0"')
      if (least !== undefined && most !== undefined && most < least) fault([code, 'max'], 'is below min')
    }
  }
})

/** Names are short: they stand in addresses. */
const planName = /^[a-z0-9][a-z0-9-]{0,49}$/

const plan = z.strictObject({
  title: z.string().min(1).max(100),
  about: z.string().min(1).max(500).optional(),
  credit_usd: grantedUsd.refine((text) => (parseUsd(text) ?? 1n) > 0n, 'must be above "0"'),
  months: wholeBetween(1, 120).default(1),
  models: z.array(z.string().min(1).max(200)).min(1).max(1_000).optional(),
  prices: z.record(z.string(), price),
})

const planTable = z.record(z.string(), plan).check(({ value, issues }) => {
  const fault = (path: string[], message: string) =>
    issues.push({ code: 'custom', message, path, input: value })
  for (const [name, { prices }] of Object.entries(value)) {
    if (!planName.test(name)) fault([name], 'must be a name of small letters, digits and dashes')
    if (Object.keys(prices).length === 0) fault([name, 'prices'], 'must have a price, such as INR: "499"')
    for (const [code, text] of Object.entries(prices)) {
      const at = [name, 'prices', code]
      const amount = parseMinor(text, code)
      if (!currencies.includes(code)) fault(at, 'is no currency in ISO 4217 that processors take')
      else if (amount === undefined)
        fault(at, `has more than the ${givenDecimals(code)} decimals that ${code} is paid in`)
      else if (amount === 0n) fault(at, 'must be above "0"')
    }
  }
})

export const paymentSettings = section({
  fx: section({
    inr_per_usd: note(rate.optional(), 'Rupees for a US dollar; a top-up keeps the rate it was opened at'),
    as_of: note(z.iso.date('must be a day such as 2026-11-20').optional(), 'The day of that rate'),
    source: note(z.string().min(1).max(100).default('set by the operator'), 'Where the rate comes from'),
  }),
  min_inr: note(rupees('100'), 'The smallest top-up, rupees'),
  max_inr: note(rupees('50000'), 'The largest top-up, rupees'),
  currencies: note(
    soldIn.default({}),
    'Other currencies that top-ups are paid in, by ISO 4217, as EUR: { per_usd: "0.92", min: "5", max: "500" }: units for a ' +
      'US dollar, the smallest and the largest top-up; as_of and source as in payments.fx, processors where not all take it',
  ),
  plans: note(
    planTable.default({}),
    'What is sold as a subscription, by name, as pro: { title: Pro, credit_usd: "10", prices: { INR: "499" } }: the ' +
      'subscription credit of a period, its price in each currency, months (1), about, and models, patterns of the models ' +
      'that it opens where these are not all',
  ),
  plan_reminder_days: whole(
    'How many days before the last paid period of a plan ends its holder gets a mail; 0 for none',
    3,
    0,
    60,
  ),
  unpaid_per_hour: whole(
    'Top-ups that an account may open in an hour and leave unpaid, before another is refused with 429',
    20,
    1,
    10_000,
  ),
  refused_hooks_per_network: whole(
    'Messages at /hooks without a valid signature from one network in a minute, before more are refused with 429; ' +
      'behind a proxy, server.trusted_proxies says where they come from',
    600,
    1,
    1_000_000,
  ),
  seller: section({
    name: note(z.string().min(1).max(200).optional(), 'Who takes the money, as payment receipts name it'),
    address: note(z.string().min(1).max(500).optional(), 'Its address on receipts; lines are kept'),
    gstin: note(
      z
        .string()
        .regex(/^[0-9A-Z]{15}$/, 'must be the 15 letters and digits of a GSTIN')
        .optional(),
      'Its GSTIN on receipts; they are payment receipts, no tax invoices',
    ),
  }),
  ...processors,
})

/** `whsec_` with nothing that base64 could read behind it is an empty secret, which signs for everybody. */
const hookSecret = secret.refine(
  (text) => !text.startsWith('whsec_') || Buffer.from(text.slice('whsec_'.length), 'base64').length > 0,
  'must have a key in base64 behind whsec_',
)

const product = z.strictObject({
  credit_usd: grantedUsd.refine((text) => (parseUsd(text) ?? 1n) > 0n, 'must be above "0"'),
  months: wholeBetween(1, 120),
})

export const subscriptionSettings = section({
  secret: note(
    hookSecret.optional(),
    'The secret of /hooks/subscriptions, as Standard Webhooks has them (whsec_…): ' +
      `${inEnvironment}; without one the address does not exist`,
    { secret: true },
  ),
  secret_before: note(hookSecret.optional(), 'The secret before the last change, which is still valid', {
    secret: true,
  }),
  products: note(
    z.record(z.string().regex(/^[A-Za-z0-9._-]{1,100}$/), product).default({}),
    'What is sold, by product id: the credit of a period and how long a period is, as { credit_usd: "5", months: 1 }',
  ),
  apple: section({
    bundle_id: note(
      z.string().min(1).max(200).optional(),
      'The bundle id of the app whose App Store Server Notifications (version 2) are taken at /hooks/subscriptions/apple',
    ),
    environment: note(
      z.enum(['Production', 'Sandbox']).default('Production'),
      'The environment whose purchases count; those of the other are tests',
    ),
    root_sha256: note(
      z
        .string()
        .regex(/^[0-9A-Fa-f]{2}(:?[0-9A-Fa-f]{2}){31}$/, 'must be a SHA-256 fingerprint, 64 hex digits')
        .transform((text) => text.replaceAll(':', '').toLowerCase())
        .optional(),
      'The SHA-256 fingerprint of the root certificate behind the signatures: that of Apple Root CA - G3, as ' +
        'apple.com/certificateauthority shows it',
    ),
  }),
  grace_days: whole('Days that a period in grace lasts on, without new credit', 16, 0, 60),
})
