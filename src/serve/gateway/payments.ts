// Payments from configuration: processors, rate, and how they are called.

import { repeat } from '../../async/async.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import type { Config } from '../../config/config.ts'
import { type ExternalProcessorId, externalProcessorIds } from '../../payments/top-up.ts'
import type { AppleSettings } from '../../payments/apple.ts'
import type { Brand, PaymentServices } from '../../http/parts.ts'
import { HookLimit } from '../../http/intake/paid/limits.ts'
import { parseMinor, parseRate, usd } from '../../credits/money.ts'
import type { CurrencyTerms } from '../../payments/top-up-draft.ts'
import type { Store } from '../../store/store.ts'
import {
  type PlanOnSale,
  Plans,
  type Product,
  remindOfEnds,
  Subscriptions,
} from '../../payments/subscriptions.ts'
import { mailerOf } from './identity.ts'
import { Vouchers } from '../../payments/vouchers.ts'
import { Payments } from '../../payments/payments.ts'
import { type PaymentProcessor, type ProcessorFetch, SimulatedProcessor } from '../../payments/processor.ts'
import { logoUrl } from '../../config/schema.ts'
import { Razorpay } from '../../payments/processors/razorpay.ts'
import { StripeCheckout } from '../../payments/processors/stripe.ts'
import type { GatewayProcess } from './process.ts'

/** The rate shown by the simulator if none is configured. */
const exampleRate = { inr_per_usd: '89.015', as_of: '2026-11-20', source: 'an example' }
const oldRateMs = 30 * 86_400_000

/** `consolePage` is the address of the console. */
export function paymentParts(parts: GatewayProcess, consolePage: () => string): PaymentServices {
  const { config, store, clock } = parts
  const subscriptions = subscriptionsOf(parts)
  const plans = plansOf(parts, subscriptions)
  const { secret, secret_before: before } = config.subscriptions
  const { name = null, address = null, gstin = null } = config.payments.seller
  return {
    seller: { name, address, gstin },
    brand: brandIn(config),
    payments: paymentsOf(parts, plans),
    plans,
    remind: remindersOf(parts, plans, consolePage),
    paymentStore: store.payments,
    voucherStore: store.vouchers,
    subscriptionStore: store.subscriptions,
    vouchers: new Vouchers(store.vouchers, store.ledger, clock),
    subscriptions,
    hookLimit: new HookLimit(config.payments.refused_hooks_per_network, clock),
    subscriptionSecrets: secretsIn({ webhook_secret: secret, webhook_secret_before: before }),
    apple: appleIn(config),
  }
}

function brandIn({ brand }: Config): Brand {
  const {
    name = 'Weir',
    logo,
    colors,
    terms_url: terms = null,
    privacy_url: privacy = null,
    support = null,
  } = brand
  return {
    name,
    logo: logo === undefined ? null : logoUrl(logo),
    accent: colors.accent ?? null,
    accentDark: colors.accent_dark ?? null,
    termsUrl: terms,
    privacyUrl: privacy,
    support,
  }
}

function appleIn({ subscriptions }: Config): AppleSettings | undefined {
  const { bundle_id: bundleId, environment, root_sha256: rootFingerprint } = subscriptions.apple
  if (bundleId === undefined || rootFingerprint === undefined) return undefined
  return { bundleId, environment, rootFingerprint }
}

export function productsOf({ subscriptions }: Pick<Config, 'subscriptions'>): ReadonlyMap<string, Product> {
  const products = Object.entries(subscriptions.products)
  return new Map(products.map(([id, { credit_usd, months }]) => [id, { credit: usd(credit_usd), months }]))
}

export function subscriptionsOf({
  config,
  store,
  clock,
}: {
  readonly config: Pick<Config, 'subscriptions'>
  readonly store: Pick<Store, 'subscriptions' | 'ledger' | 'accounts'>
  readonly clock: () => number
}): Subscriptions {
  return new Subscriptions({
    store: store.subscriptions,
    ledger: store.ledger,
    accountOf: async (account) => {
      const found = await store.accounts.findAccount(account)
      // Only by id: an address may later belong to somebody else.
      return found?.id === account ? account : undefined
    },
    products: productsOf(config),
    graceMs: config.subscriptions.grace_days * 86_400_000,
    now: clock,
  })
}

export function plansOf(
  {
    config,
    store,
    clock,
    log,
  }: {
    readonly config: Pick<Config, 'payments'>
    readonly store: Pick<Store, 'subscriptions'>
    readonly clock: () => number
    /** Not of a command: it says itself what went wrong. */
    readonly log?: Pick<GatewayProcess['log'], 'error'>
  },
  subscriptions: Subscriptions,
): Plans {
  const plans = Object.entries(config.payments.plans).map(([id, set]): [string, PlanOnSale] => {
    const { title, about = null, months, models = null } = set
    const prices = Object.entries(set.prices).map(
      ([currency, price]) => [currency, parseMinor(price, currency)!] as const,
    )
    return [id, { id, title, about, credit: usd(set.credit_usd), months, models, prices: new Map(prices) }]
  })
  return new Plans({
    plans: new Map(plans),
    store: store.subscriptions,
    subscriptions,
    now: clock,
    alarm: log === undefined ? () => undefined : (message, facts) => log.error(message, facts),
  })
}

/** Tells people by mail that their plan ends, where there is a mail server. */
function remindersOf(
  { config, live, store, log }: GatewayProcess,
  plans: Plans,
  consolePage: () => string,
): PaymentServices['remind'] {
  const mailer = mailerOf(live)
  const days = config.payments.plan_reminder_days
  return async (now) => {
    const sender = mailer()
    if (sender === undefined) return
    await remindOfEnds(
      {
        store: store.subscriptions,
        aheadMs: days * 86_400_000,
        addressOf: async (account) => {
          const found = await store.accounts.findAccount(account)
          return found?.suspended === false && found.verifiedAt !== null ? found.email : undefined
        },
        send: (mail) => sender.send(mail),
        titleOf: (id) => plans.sold.find((plan) => plan.id === id)?.title ?? id,
        page: () => `${consolePage()}/credits/plans`,
        onFailure: (error) => log.warn('a reminder of a plan could not be sent', { error }),
      },
      now,
    )
  }
}

/** The payments of a gateway. The built-in simulator is the last of its processors, and so the only one by default. */
function paymentsOf({ config, store, log, clock }: GatewayProcess, plans: Plans): Payments {
  const { fx, currencies } = config.payments
  const dated = [['payments.fx', fx], ...nameEach('payments.currencies', currencies)] as const
  for (const [name, { as_of }] of dated)
    if (as_of !== undefined && clock() - Date.parse(as_of) > oldRateMs)
      log.warn(`the exchange rate of ${name} is more than 30 days old`, { as_of })
  return new Payments({
    store: store.payments,
    ledger: store.ledger,
    plans,
    processors: processorsOf(config.payments, clock),
    currencies: currenciesOf(config.payments),
    unpaidPerHour: config.payments.unpaid_per_hour,
    now: clock,
    isUsable: async (account) => (await store.accounts.findAccount(account))?.suspended === false,
    alarm: (message, facts) => log.error(message, facts),
  })
}

function nameEach<T>(path: string, of: Readonly<Record<string, T>>): (readonly [string, T])[] {
  return Object.entries(of).map(([name, value]) => [`${path}.${name}`, value] as const)
}

/** Rupees come first, and alone at an example's rate where no currency has one; the simulator takes them all. */
function currenciesOf({
  fx,
  min_inr,
  max_inr,
  currencies,
}: Config['payments']): [CurrencyTerms, ...CurrencyTerms[]] {
  const others = Object.entries(currencies).map(([currency, set]): CurrencyTerms => ({
    currency,
    rate: parseRate(set.per_usd)!,
    asOf: set.as_of ?? 'unknown',
    source: set.source,
    least: parseMinor(set.min, currency)!,
    most: parseMinor(set.max, currency)!,
    processors: set.processors === undefined ? null : [...set.processors, 'sim'],
  }))
  const [first, ...rest] = others
  if (fx.inr_per_usd === undefined && first !== undefined) return [first, ...rest]
  const { inr_per_usd, as_of, source } =
    fx.inr_per_usd === undefined ? exampleRate : { as_of: 'unknown', ...fx, inr_per_usd: fx.inr_per_usd }
  const rupees = {
    currency: 'INR',
    rate: parseRate(inr_per_usd)!,
    asOf: as_of,
    source,
    least: parseMinor(min_inr, 'INR')!,
    most: parseMinor(max_inr, 'INR')!,
    processors: null,
  }
  return [rupees, ...others]
}

type ProcessorOf = (settings: Config['payments'], clock: () => number) => PaymentProcessor | undefined

/** Each from its settings; undefined where it is not set up. */
const processorOf: Readonly<Record<ExternalProcessorId, ProcessorOf>> = {
  razorpay({ razorpay }, clock) {
    const { key_id: keyId, key_secret: keySecret, base_url: baseUrl } = razorpay
    if (keyId === undefined || keySecret === undefined) return undefined
    return new Razorpay({ keyId, keySecret, webhookSecrets: secretsIn(razorpay), baseUrl }, call, clock)
  },
  stripe({ stripe }, clock) {
    const { secret_key: secretKey, base_url: baseUrl } = stripe
    if (secretKey === undefined) return undefined
    return new StripeCheckout({ secretKey, webhookSecrets: secretsIn(stripe), baseUrl }, call, clock)
  },
}

function processorsOf(settings: Config['payments'], clock: () => number): PaymentProcessor[] {
  const setUp = externalProcessorIds.flatMap((id) => processorOf[id](settings, clock) ?? [])
  return [...setUp, new SimulatedProcessor()]
}

/** The current secrets; the previous one counts only beside a current one. */
function secretsIn(settings: {
  readonly webhook_secret?: string | undefined
  readonly webhook_secret_before?: string | undefined
}): string[] {
  const { webhook_secret: secret, webhook_secret_before: before } = settings
  if (secret === undefined || secret === '') return []
  return before === undefined || before === '' ? [secret] : [secret, before]
}

/** The largest answer of a processor: what it says of one payment is a few kilobytes. */
const mostProcessorBytes = 1024 * 1024

/** Following a redirect would send the key to another host. */
const call: ProcessorFetch = (url, init) =>
  fetchBounded(url, { ...init, redirect: 'error' }, mostProcessorBytes)

export interface Sweepable {
  sweep(now: number): Promise<unknown>
}

/** The sweep of everything that a killed process may have left unfinished. */
export function sweepable({
  payments,
  plans,
  remind,
  vouchers,
}: Pick<PaymentServices, 'payments' | 'plans' | 'remind' | 'vouchers'>): Sweepable {
  return {
    sweep: async (now) => {
      // First: a processor that cannot be reached holds up no plan.
      await plans.sweep(now)
      await payments.sweep(now)
      await remind(now)
      await vouchers.sweep()
    },
  }
}

/** Sweeps separately: a processor that hangs must not hold up the ledger's own sweep. Rounds never overlap. */
export function sweepPayments(
  payments: Sweepable,
  everyMs: number,
  onFailure: (error: unknown) => void,
): { stop(): void } {
  return repeat(everyMs, () => payments.sweep(Date.now()), onFailure)
}
