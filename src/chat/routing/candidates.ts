// Which offers may serve a call. Pure.

import type { Model, Offer } from '../../catalog/row.ts'
import { parseUsd, parseUsdPerMillion, type Pico } from '../../credits/money.ts'
import { heldPriceAt, type Price, ratesFor } from '../../credits/price.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Routing } from '../../protocols/protocol.ts'
import { anywhere } from '../../protocols/request/gateway-tools.ts'
import { type ConfiguredProvider, withDialect } from '../../providers/provider.ts'

/** One way to serve a call: a model's offer at a provider, with one of its keys. */
export interface Candidate {
  readonly model: Model
  readonly offer: Offer
  readonly provider: ConfiguredProvider
  readonly key: string | undefined
  /** The service tier that it is asked to serve at; only where its price for that is known. */
  readonly serviceTier?: string
  /** What it answers is known: nobody is asked. */
  readonly cached?: CachedAnswer
}

/** An answer of a provider that was whole. */
export interface CachedAnswer {
  /** The call that paid for it. */
  readonly call: string
  readonly contentType: string
  readonly bytes: Uint8Array
  /** Milliseconds since 1970. */
  readonly at: number
}

/** What is held for a call of this candidate: its price, at the dearest tier that it may serve at. */
export function heldPriceOf({ offer, serviceTier }: Pick<Candidate, 'offer' | 'serviceTier'>): Price {
  return serviceTier === undefined ? offer.price : (heldPriceAt(offer.price, serviceTier) ?? offer.price)
}

/** The rules of a request for its offers, with the tokens of its prompt where a limit of price depends on them. */
export interface SizedRouting extends Routing {
  readonly promptTokens?: number
  /** The service tier that is asked for, where it is not the standard one. */
  readonly serviceTier?: string | undefined
  /** Offers with less are asked first; in the catalog's order where this is absent. */
  readonly rank?: (offer: Offer) => number
}

/**
 * Every way to serve these models, in the order to try them: models as the client ranks them, offers as the catalog
 * (or the request's `provider.order`) ranks them. The keys of a provider are equal and rotate: the same `rotation`
 * always picks the same first key, so that a session stays with the key whose prompt cache knows it. Throws
 * `no_provider_available` if none is configured, `invalid_request` if the request's own rules exclude them all.
 */
export function candidatesFor(
  models: readonly Model[],
  providers: ReadonlyMap<string, ConfiguredProvider>,
  routing: SizedRouting,
  rotation: string,
  n: number,
): readonly Candidate[] {
  if (routing !== anywhere || n !== 1) {
    const usable = routedOffers(models, providers, routing, rotation, n)
    if (usable.length === 0) throw noneLeft(models, providers, routing)
    return usable
  }
  const [only] = models
  const usable =
    only !== undefined && models.length === 1
      ? anyOffers(only, providers, rotation)
      : models.flatMap((model) => anyOffers(model, providers, rotation))
  if (usable.length === 0) throw noneLeft(models, providers, routing)
  return usable
}

/** The candidates of a model for a call with nothing to say about its routing; none if no provider of it is set up. */
function anyOffers(
  model: Model,
  providers: ReadonlyMap<string, ConfiguredProvider>,
  rotation: string,
): readonly Candidate[] {
  const known = ofModel.get(model)
  if (known?.providers === providers) return known.candidates
  const candidates = routedOffers([model], providers, anywhere, rotation, 1)
  // Several keys of a provider rotate, and so do its deployments.
  if (candidates.every(({ provider }) => provider.keys.length === 1 && provider.deployment === undefined))
    ofModel.set(model, { providers, candidates })
  return candidates
}

/** The candidates of a model that are the same for every such call. */
const ofModel = new WeakMap<
  Model,
  { readonly providers: ReadonlyMap<string, ConfiguredProvider>; readonly candidates: readonly Candidate[] }
>()

function routedOffers(
  models: readonly Model[],
  providers: ReadonlyMap<string, ConfiguredProvider>,
  routing: SizedRouting,
  rotation: string,
  n: number,
): readonly Candidate[] {
  const candidates: Candidate[] = []
  for (const model of models) {
    for (const offer of rankOffers(model.offers, routing)) {
      const row = providers.get(offer.provider)
      if (!row || !isPermitted(offer, routing, row)) continue
      // Some models have other protocols that do not support `n`; chat protocols still return several answers.
      const speaking = (way: ConfiguredProvider) => (n === 1 ? withDialect(way, offer.upstream) : way)
      const tiered = tierOf(offer, routing)
      if (row.deployments === undefined) {
        const provider = speaking(row)
        for (const key of rotateKeys(provider.keys, rotation))
          candidates.push({ model, offer, provider, key, ...tiered })
      } else
        for (const { provider, key } of rotateDeployments(row.deployments, rotation))
          candidates.push({ model, offer, provider: speaking(provider), key, ...tiered })
    }
  }
  return routing.allowFallbacks ? candidates : withoutFallbacks(candidates)
}

function tierOf({ price }: Offer, { serviceTier }: SizedRouting): Pick<Candidate, 'serviceTier'> | undefined {
  const isPriced = serviceTier !== undefined && heldPriceAt(price, serviceTier) !== undefined
  return isPriced ? { serviceTier } : undefined
}

/** Another key of the same offer is not a fallback. */
function withoutFallbacks(candidates: readonly Candidate[]): readonly Candidate[] {
  return candidates.filter(({ offer }) => offer === candidates[0]?.offer)
}

/** Why no offer is left: the client can change the rules of its request, a missing key is for the operator to add. */
function noneLeft(
  models: readonly Model[],
  providers: ReadonlyMap<string, ConfiguredProvider>,
  routing: SizedRouting,
): GatewayError {
  const offers = models.flatMap((model) => model.offers)
  const ready = offers.filter(({ provider }) => providers.has(provider))
  const param = emptyingRule(ready.length > 0 ? ready : offers, providers, routing)
  const serving = namesOf(param !== undefined && ready.length > 0 ? ready : offers)
  const model = models.map(({ id }) => id).join(', ')
  if (param !== undefined) {
    return new GatewayError('invalid_request', {
      message: `'${param}' leaves no provider: ${model} is served by ${serving.join(', ')}.`,
      param,
      metadata: { providers: serving },
    })
  }
  return new GatewayError('no_provider_available', {
    message: `No provider of ${model} is set up here: the operator has given no key or address for ${serving.join(', ')}.`,
    lasting: true,
    metadata: { providers: serving },
  })
}

/** The field of the request that alone rules out all offers, or `provider` if several do together. */
function emptyingRule(
  offers: readonly Offer[],
  providers: ReadonlyMap<string, ConfiguredProvider>,
  routing: SizedRouting,
): string | undefined {
  const isLeftBy = (permits: typeof isPermitted) =>
    offers.some((offer) => permits(offer, routing, providers.get(offer.provider)))
  const rule = Object.entries(rules).find(([, permits]) => !isLeftBy(permits))
  if (rule) return `provider.${rule[0]}`
  return isLeftBy(isPermitted) ? undefined : 'provider'
}

function namesOf(offers: readonly Offer[]): readonly string[] {
  return [...new Set(offers.map(({ provider }) => provider))]
}

/** The keys ordered by a hash of rotation and position: evenly spread, and unaffected by the state of other keys. */
function rotateKeys<Key>(keys: readonly Key[], rotation: string): readonly Key[] {
  return keys.length < 2 ? keys : shuffleKeys(keys, rotation)
}

function shuffleKeys<Key>(keys: readonly Key[], rotation: string): readonly Key[] {
  const weight = keys.map((_, place) => Bun.hash.xxHash32(`${rotation} ${place}`))
  const places = [...keys.keys()].toSorted((a, b) => weight[b]! - weight[a]!)
  return places.map((place) => keys[place]!)
}

/**
 * The keys of all deployments, ordered like those of a provider, but as often first as their weights say: the same
 * rotation stays with the same one, whatever becomes of the others.
 */
function rotateDeployments(
  deployments: readonly ConfiguredProvider[],
  rotation: string,
): readonly Pick<Candidate, 'provider' | 'key'>[] {
  return deployments
    .flatMap((provider) => {
      const { firstKey, weight } = provider.deployment!
      return provider.keys.map((key, at) => {
        const unit = (Bun.hash.xxHash32(`${rotation} ${firstKey + at}`) + 0.5) / 2 ** 32
        return { provider, key, rank: -Math.log(unit) / (weight / provider.keys.length) }
      })
    })
    .toSorted((a, b) => a.rank - b.rank)
}

/** The position of a candidate's key among all of its provider, from 0. */
export function keyNumber({ provider, key }: Pick<Candidate, 'provider' | 'key'>): number {
  return (provider.deployment?.firstKey ?? 0) + provider.keys.indexOf(key)
}

function rankOffers(offers: readonly Offer[], routing: SizedRouting): readonly Offer[] {
  const { order, rank } = routing
  const sorted = rank === undefined ? offers : byRank(offers, rank)
  return order.length === 0 ? sorted : byProvider(sorted, routing)
}

function byRank(offers: readonly Offer[], rank: (offer: Offer) => number): readonly Offer[] {
  return offers
    .map((offer) => ({ offer, of: rank(offer) }))
    .toSorted((a, b) => a.of - b.of)
    .map(({ offer }) => offer)
}

function byProvider(offers: readonly Offer[], routing: SizedRouting): readonly Offer[] {
  const rank = (offer: Offer) => {
    const place = routing.order.indexOf(offer.provider)
    return place < 0 ? routing.order.length : place
  }
  return offers.toSorted((a, b) => rank(a) - rank(b))
}

/** The rules that a request can set for offers, by field of `provider`. */
const rules: Readonly<
  Record<string, (offer: Offer, routing: SizedRouting, provider: ConfiguredProvider | undefined) => boolean>
> = {
  only: ({ provider }, { only }) => only.length === 0 || only.includes(provider),
  ignore: ({ provider }, { ignore }) => !ignore.includes(provider),
  max_price: (offer, routing) => {
    const { maxPrice, promptTokens = 0 } = routing
    const price = heldPriceOf({ offer, ...tierOf(offer, routing) })
    const rates = ratesFor(price, promptTokens)
    return (
      below(rates.input, maxPrice.input) &&
      below(rates.output, maxPrice.output) &&
      (maxPrice.request === undefined || price.perRequest <= (parseUsd(maxPrice.request) ?? 0n))
    )
  },
  zdr: (_, { dataPolicy }, provider) =>
    dataPolicy !== 'zero_retention' || provider?.dataPolicy === 'zero_retention',
  // Who keeps nothing does not train on it either.
  data_collection: (_, { dataPolicy }, provider) =>
    dataPolicy !== 'no_training' || provider?.dataPolicy !== undefined,
  // Without fallbacks only the named providers may serve.
  order: ({ provider }, { order, allowFallbacks }) =>
    allowFallbacks || order.length === 0 || order.includes(provider),
}

function isPermitted(offer: Offer, routing: SizedRouting, provider: ConfiguredProvider | undefined): boolean {
  for (const name in rules) if (!rules[name]!(offer, routing, provider)) return false
  return true
}

function below(rate: Pico, limit: string | undefined): boolean {
  if (limit === undefined) return true
  // Rates are whole picodollars per token, so six decimals are enough; a finer limit must not round to zero.
  const perToken = parseUsdPerMillion(limit.replace(/(\.\d{6})\d+$/, '$1'))
  return perToken === undefined || rate <= perToken
}
