// Test keys: every model of the catalog, answered by the simulator for free.

import type { Caller } from '../../accounts/caller.ts'
import type { Model } from '../../catalog/model.ts'
import { tokenBuckets } from '../../conversation/usage.ts'
import { testPriceVersion, type Price, type Rates } from '../../credits/price.ts'
import type { Routing } from '../../protocols/protocol.ts'
import { anywhere } from '../../protocols/request/gateway-fields.ts'

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
