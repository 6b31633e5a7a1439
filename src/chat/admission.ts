// Whether a caller may use a model now. The order of the refusals is part of the contract.

import { allows, type Caller, mayUse, payerOf, throughRoute } from '../accounts/account.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { Model, Offer, VirtualModel } from '../catalog/row.ts'
import { fundingOf, type Pool, rulesOf } from '../credits/pool.ts'
import { remainingIn } from '../credits/wallet.ts'
import type { Balance } from '../credits/ledger/ledger.ts'
import { isFree, priceOfNothing, testPriceVersion } from '../credits/price.ts'
import { type ErrorCode, GatewayError } from '../errors/errors.ts'
import { joinWarnings, noWarnings, type Warning } from '../protocols/lowering.ts'
import type { Routing } from '../protocols/protocol.ts'
import { anywhere } from '../protocols/request/gateway-tools.ts'
import { type OpenedByPlans, ownerHint, type PaidCall, type RouteChoice } from './call.ts'
import { countingFor, promptBound, promptCount, type SharedCounting } from './counting/token-counter.ts'
import type { ChatParts } from './paid-call.ts'
import { chooseMembers, usualPrice } from './routing/route.ts'
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
  plans: OpenedByPlans = noPlans,
): ErrorCode | undefined {
  if (caller.mode === 'live') {
    if (model.premium && !isOpen(caller, model, balance, now, plans)) return 'plan_required'
    const needsCredit = caller.channel === 'api' && costs === 'something'
    if (needsCredit && remainingIn(balance, 'purchased', now) <= 0n) return 'purchased_credits_required'
  }
  if (caller.account.suspended) return 'account_suspended'
  if (!mayUse(caller, model.id)) return 'model_not_allowed'
  return undefined
}

/** Whether a premium model is open: by credit of a pool that opens them, in a chat also by a plan that names it. */
function isOpen(
  { channel }: Caller,
  model: Pick<Model, 'id'>,
  balance: Balance,
  now: number,
  plans: OpenedByPlans,
): boolean {
  if (channel === 'app' && plans.models.length > 0 && allows(plans.models, model.id)) return true
  const credit =
    plans.lots.size === 0
      ? balance
      : { ...balance, lots: balance.lots.filter(({ id }) => !plans.lots.has(id)) }
  const isLeft = (pool: Pool) => rulesOf(pool).opensPremium && remainingIn(credit, pool, now) > 0n
  return fundingOf(channel, true).some(isLeft)
}

const noPlans: OpenedByPlans = { models: [], lots: new Set() }

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
  caller?: Pick<Caller, 'account' | 'standing'>,
): GatewayError {
  const metadata = { model: model.id }
  if (code === 'purchased_credits_required' && caller)
    return new GatewayError(code, { ...ownerHint(code, caller), metadata })
  if (code !== 'wrong_endpoint') return new GatewayError(code, { metadata })
  const message = `${model.id} is no ${purpose} model: it serves ${endpoints[servedAt(model)]}.`
  return new GatewayError(code, { message, param: 'model', metadata })
}

interface Admitted {
  readonly models: readonly Model[]
  readonly warnings: readonly Warning[]
  /** The account's credit at this moment. */
  readonly balance: Balance
  /** How a virtual model was resolved; undefined where a model was asked for itself. */
  readonly route: RouteChoice | undefined
}

type AskedParts = Pick<
  ChatParts,
  'catalog' | 'ledger' | 'now' | 'providers' | 'health' | 'routeSessions' | 'openedByPlans'
>
type AdmissionParts = AskedParts & { readonly plans: OpenedByPlans }
type AskedCall = Pick<PaidCall, 'caller' | 'request'> & { readonly requestId?: string }

/** The models that may serve the call. The first must be admitted (throws otherwise); other fallbacks are left out. */
export async function admit(asked: AskedParts, call: AskedCall, purpose: Purpose): Promise<Admitted> {
  const { caller, request } = call
  const balance = await asked.ledger.balance(payerOf(caller))
  const parts = { ...asked, plans: await plansOf(asked, caller, balance) }
  const { model: id, fallbacks } = request.envelope
  const listed = parts.catalog.resolve(id)
  const route = isVirtual(listed) ? admitRoute(parts, call, listed, purpose, balance) : undefined
  const models = route ? [...route.members] : [admitModel(parts, call, listed, purpose, balance)]
  const warnings = request.warnings ?? noWarnings
  if (fallbacks.length === 0) return { models, warnings, balance, route }
  const leftOut: Warning[] = []
  for (const [at, fallback] of fallbacks.entries()) {
    const why = addFallback(parts, call, fallback, purpose, balance, models)
    if (why !== undefined)
      leftOut.push({ param: `models[${at}]`, message: `${fallback} is left out: ${why}` })
  }
  return { models, warnings: joinWarnings(warnings, leftOut), balance, route }
}

/** Only looked up where purchased credit does not open every model anyway. */
async function plansOf(
  { openedByPlans, now }: AskedParts,
  { account, channel }: Caller,
  balance: Balance,
): Promise<OpenedByPlans> {
  if (channel !== 'app') return noPlans
  return remainingIn(balance, 'purchased', now()) > 0n ? noPlans : openedByPlans(account.id)
}

export function isVirtual(model: Model): model is VirtualModel {
  return model.route !== undefined
}

/** The model for this caller. Throws the error of the refusal. */
function admitModel(
  parts: AdmissionParts,
  { caller }: AskedCall,
  listed: Model,
  purpose: Purpose,
  balance: Balance,
): Model {
  const model = modelFor(caller, listed)
  const refused = refusedBy(parts, caller, model, purpose, balance)
  if (refused !== undefined) throw refusalError(refused, model, purpose, caller)
  return model
}

/**
 * The members of a route that may serve this caller, in order. Throws the refusal of the first one if none may. A key
 * may use a route that it names, whatever members that has, and of any other route the members that it names.
 */
function admitRoute(
  parts: AdmissionParts,
  call: AskedCall,
  virtual: VirtualModel,
  purpose: Purpose,
  balance: Balance,
): RouteChoice {
  const { caller } = call
  const choice = chooseMembers(parts, virtual, call)
  const asked = throughRoute(caller, virtual.id)
  const members: Model[] = []
  const refused = [...choice.refused]
  let first: GatewayError | undefined
  for (const listed of choice.members) {
    const model = modelFor(caller, listed)
    const why = refusedBy(parts, asked, model, purpose, balance)
    if (why === undefined) members.push(model)
    else {
      first ??= refusalError(why, model, purpose, caller)
      refused.push({ model: model.id, reason: why })
    }
  }
  if (members.length === 0 && first) throw first
  return { ...choice, members, refused }
}

/**
 * Adds a fallback, or the members of a virtual one; why not, if not. One that has retired must not end the calls that
 * could do without it.
 */
function addFallback(
  parts: AdmissionParts,
  call: AskedCall,
  id: string,
  purpose: Purpose,
  balance: Balance,
  models: Model[],
): string | undefined {
  let listed: Model
  try {
    listed = parts.catalog.resolve(id)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'model_retired') return error.code
    throw error
  }
  try {
    if (isVirtual(listed)) models.push(...admitRoute(parts, call, listed, purpose, balance).members)
    else models.push(admitModel(parts, call, listed, purpose, balance))
    return undefined
  } catch (error) {
    if (error instanceof GatewayError) return error.code
    throw error
  }
}

/** Whether the caller could have been answered by this model: its key may use it, or a route that leads to it. */
export function mayReach(catalog: Pick<Catalog, 'routesTo'>, caller: Caller, model: string): boolean {
  return mayUse(caller, model) || catalog.routesTo(model).some((route) => mayUse(caller, route))
}

function modelFor({ mode }: Caller, listed: Model): Model {
  return mode === 'test' ? testModel(listed) : listed
}

function refusedBy(
  { providers, now, plans }: AdmissionParts,
  caller: Caller,
  model: Model,
  purpose: Purpose,
  balance: Balance,
): ErrorCode | undefined {
  const refused = wrongEndpoint(model, purpose) ?? refusal(caller, model, balance, now(), 'something', plans)
  // What a model costs is only of interest to an account without credit.
  if (refused !== 'purchased_credits_required') return refused
  const costs = costsOf(model, (id) => providers.get(id)?.costFrom === 'reported')
  return refusal(caller, model, balance, now(), costs, plans)
}

// Test keys: every model of the catalog, answered by the simulator for free.

const testPrice = priceOfNothing(testPriceVersion)

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

/** With what the rules of a request need to know: the size of its prompt, and what its offers are sorted by. */
export async function sizedRouting(
  parts: SharedCounting & Pick<ChatParts, 'health'>,
  call: Pick<PaidCall, 'caller' | 'request' | 'bodyBytes'>,
  models: readonly Model[],
  routing: Routing,
): Promise<SizedRouting> {
  const sized = withTier(call, await withPromptSize(parts, call, models, routing))
  if (routing.sort === undefined) return sized
  const rank =
    routing.sort === 'price'
      ? ({ price }: Offer) => usualPrice(price)
      : // An offer that has not been asked yet is worth a try.
        (offer: Offer) => parts.health.latencyMs(offer) ?? 0
  return { ...sized, rank }
}

function withTier(
  { request, caller }: Pick<PaidCall, 'caller' | 'request'>,
  routing: SizedRouting,
): SizedRouting {
  const { serviceTier } = request.envelope
  return serviceTier === undefined || caller.mode === 'test' ? routing : { ...routing, serviceTier }
}

/** Counts the prompt, as exactly as possible without the provider, if it may be long enough for a tier of a price. */
async function withPromptSize(
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
