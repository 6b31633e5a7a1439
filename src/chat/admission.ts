// Whether a caller may use a model now. The order of the refusals is part of the contract.

import { type Account, type Caller, mayUse } from '../accounts/account.ts'
import type { Model } from '../catalog/row.ts'
import { tokenBuckets } from '../conversation/usage.ts'
import { remainingIn } from '../credits/balance.ts'
import type { Balance } from '../credits/ledger/ledger.ts'
import { isFree, type Price, type Rates, testPriceVersion } from '../credits/price.ts'
import { type ErrorCode, GatewayError } from '../errors/errors.ts'
import { joinWarnings, noWarnings, type Warning } from '../protocols/lowering.ts'
import type { Routing } from '../protocols/protocol.ts'
import { anywhere } from '../protocols/request/gateway-tools.ts'
import type { PaidCall } from './call.ts'
import { countingFor, promptBound, promptCount, type SharedCounting } from './counting/token-counter.ts'
import { ownerHint } from './in-flight.ts'
import type { ChatParts } from './paid-call.ts'
import type { SizedRouting } from './routing/candidates.ts'

type Costs = 'nothing' | 'something'

/**
 * Whether calls of a model can cost anything. A provider that reports its own cost (`reports`) may charge for more
 * than tokens, such as a search, so a free price does not prove that its calls are free.
 */
export function costsOf(model: Model, reports: (provider: string) => boolean): Costs {
  return model.offers.every(({ provider, price }) => isFree(price) && !reports(provider))
    ? 'nothing'
    : 'something'
}

/** The first reason to refuse, or undefined. Order: design.md, "Refusals, in this order", and admission.test.ts. */
export function refusal(
  caller: Caller,
  model: Model,
  balance: Balance,
  now: number,
  costs: Costs = 'something',
): ErrorCode | undefined {
  if (caller.mode === 'live') {
    if (model.premium && !opensPremium(caller, balance, now)) return 'plan_required'
    const needsCredit = caller.channel === 'api' && costs === 'something'
    if (needsCredit && remainingIn(balance, 'purchased', now) <= 0n) return 'purchased_credits_required'
  }
  if (caller.account.suspended) return 'account_suspended'
  if (!mayUse(caller, model.id)) return 'model_not_allowed'
  return undefined
}

function opensPremium({ channel }: Caller, balance: Balance, now: number): boolean {
  if (remainingIn(balance, 'purchased', now) > 0n) return true
  return channel === 'app' && remainingIn(balance, 'subscription', now) > 0n
}

/** What a model is asked for. */
type Purpose = 'chat' | 'embeddings'

const endpoints: Readonly<Record<Purpose, string>> = {
  chat: 'POST /v1/chat/completions',
  embeddings: 'POST /v1/embeddings',
}

/** Models either embed or chat: the `wrong_endpoint` error if `model` does not do this, otherwise undefined. */
export function wrongEndpoint(model: Model, purpose: Purpose): 'wrong_endpoint' | undefined {
  return servedAt(model) === purpose ? undefined : 'wrong_endpoint'
}

function servedAt(model: Model): Purpose {
  return model.outputModalities.includes('embeddings') ? 'embeddings' : 'chat'
}

export function refusalError(
  code: ErrorCode,
  model: Model,
  purpose: Purpose,
  account?: Account,
): GatewayError {
  const metadata = { model: model.id }
  if (code === 'purchased_credits_required' && account)
    return new GatewayError(code, { ...ownerHint(code, account), metadata })
  if (code !== 'wrong_endpoint') return new GatewayError(code, { metadata })
  const message = `${model.id} is no ${purpose} model: it serves ${endpoints[servedAt(model)]}.`
  return new GatewayError(code, { message, param: 'model', metadata })
}

interface Admitted {
  readonly models: readonly Model[]
  readonly warnings: readonly Warning[]
  /** The account's credit at this moment. */
  readonly balance: Balance
}

type AdmissionParts = Pick<ChatParts, 'catalog' | 'ledger' | 'now' | 'providers'>
type AskedCall = Pick<PaidCall, 'caller' | 'request'>

/** The models that may serve the call. The first must be admitted (throws otherwise); other fallbacks are left out. */
export async function admit(
  parts: AdmissionParts,
  { caller, request }: AskedCall,
  purpose: Purpose,
): Promise<Admitted> {
  const balance = await parts.ledger.balance(caller.account.id)
  const { model: id, fallbacks } = request.envelope
  const first = modelFor(parts, caller, id)
  const refused = refusedBy(parts, caller, first, purpose, balance)
  if (refused !== undefined) throw refusalError(refused, first, purpose, caller.account)
  const models = [first]
  const warnings = request.warnings ?? noWarnings
  if (fallbacks.length === 0) return { models, warnings, balance }
  const leftOut: Warning[] = []
  for (const [at, fallback] of fallbacks.entries()) {
    const model = fallbackFor(parts, caller, fallback)
    const why = model === undefined ? 'model_retired' : refusedBy(parts, caller, model, purpose, balance)
    if (model !== undefined && why === undefined) models.push(model)
    else leftOut.push({ param: `models[${at}]`, message: `${fallback} is left out: ${why}` })
  }
  return { models, warnings: joinWarnings(warnings, leftOut), balance }
}

/** The model of a fallback; undefined if it has retired, which must not end the calls that could do without it. */
function fallbackFor(parts: AdmissionParts, caller: Caller, id: string): Model | undefined {
  try {
    return modelFor(parts, caller, id)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'model_retired') return undefined
    throw error
  }
}

function modelFor({ catalog }: AdmissionParts, { mode }: Caller, id: string): Model {
  const listed = catalog.resolve(id)
  return mode === 'test' ? testModel(listed) : listed
}

function refusedBy(
  { providers, now }: AdmissionParts,
  caller: Caller,
  model: Model,
  purpose: Purpose,
  balance: Balance,
): ErrorCode | undefined {
  const refused = wrongEndpoint(model, purpose) ?? refusal(caller, model, balance, now())
  // What a model costs is only of interest to an account without credit.
  if (refused !== 'purchased_credits_required') return refused
  return refusal(caller, model, balance, now(), costsAt(providers, model))
}

function costsAt(providers: AdmissionParts['providers'], model: Model): Costs {
  return costsOf(model, (id) => providers.get(id)?.costFrom === 'reported')
}

// Test keys: every model of the catalog, answered by the simulator for free.

const nothing = Object.fromEntries(tokenBuckets.map((bucket) => [bucket, 0n])) as Rates

const testPrice: Price = {
  version: testPriceVersion,
  rates: nothing,
  tiers: [],
  perCall: {},
  perRequest: 0n,
  perRequestBySearchContext: {},
  serviceTiers: {},
  unstated: [],
}

const ofModel = new WeakMap<Model, Model>()

/** The model for a test key: its own id and facts, and one free offer at the simulator; always the same object. */
export function testModel(model: Model): Model {
  let made = ofModel.get(model)
  if (made === undefined) {
    const upstream = model.offers.find((offer) => offer.provider === 'sim')?.upstream ?? model.id
    ofModel.set(model, (made = { ...model, offers: [{ provider: 'sim', upstream, price: testPrice }] }))
  }
  return made
}

/** The rules for the offers of a call. Those of a test key's request are about providers that are not asked. */
export function routingFor({ mode }: Pick<Caller, 'mode'>, routing: Routing): Routing {
  return mode === 'test' ? anywhere : routing
}

// The size of a prompt where a limit of price depends on it: some prices rise with the length of the prompt.

/** Counts the prompt, as exactly as possible without the provider, if it may be long enough for a tier of a price. */
export async function sizedRouting(
  parts: SharedCounting,
  { caller, request, bodyBytes }: Pick<PaidCall, 'caller' | 'request' | 'bodyBytes'>,
  models: readonly Model[],
  routing: Routing,
): Promise<SizedRouting> {
  const { input, output } = routing.maxPrice
  if (input === undefined && output === undefined) return routing
  const tiers = models.flatMap(({ offers }) => offers.flatMap(({ price }) => price.tiers))
  if (tiers.length === 0) return routing
  const most = promptBound(request.promptParts, bodyBytes)
  if (tiers.every(({ abovePromptTokens }) => most <= abovePromptTokens)) return routing
  const counting = countingFor(parts, caller.account.id)
  return { ...routing, promptTokens: await promptCount(counting, request.promptParts) }
}
