// The catalog: the model that is sold under an id, or the reason why none is.

import { larger, type Pico } from '../credits/money.ts'
import type { Price } from '../credits/price.ts'
import { GatewayError } from '../errors/errors.ts'
import { editDistance } from '../text/text.ts'
import { type ModelRoute, routeOf } from './route.ts'
import {
  buildPrice,
  type CatalogRow,
  type Efforts,
  effortsOf,
  freePrice,
  isFlash,
  longestId,
  type Model,
  type ModelOverride,
  type Offer,
  overridden,
  parametersOf,
  parseModelId,
  premiumOutputRate,
  priceOn,
  PriceRefused,
  type PriceSpec,
  quote,
  suggestion,
  type UnpricedModel,
} from './row.ts'

interface PremiumRule {
  /** A model whose output costs at least this many picodollars per token is premium. */
  readonly outputAtLeast: Pico
}

export const defaultPremiumRule: PremiumRule = { outputAtLeast: premiumOutputRate }

export interface CatalogInput {
  /** Later rows with the same id replace earlier ones. */
  readonly rows: readonly CatalogRow[]
  /** Models without a price in the sources; doctor lists them. */
  readonly unpriced?: readonly UnpricedModel[]
  /** Models, and routes: names in front of several models. */
  readonly overrides?: readonly ModelOverride[]
  /** Other names of models and routes. */
  readonly aliases?: Readonly<Record<string, string>>
  /** The makers of models: a name without a provider is that of the one maker that has it. Absent: it is nobody's. */
  readonly firstParty?: ReadonlySet<string>
  /** Which ids clients may ask for; all if absent. The members of a route are its own affair. */
  readonly offered?: (id: string) => boolean
  readonly premiumRule?: PremiumRule
  /** Only models of these providers are sold. */
  readonly providersKnown: ReadonlySet<string>
  /** The parameters that a provider's model, by its name there, does not honour. */
  readonly ignored?: (provider: string, upstream: string, reasoning: boolean) => ReadonlySet<string>
  /** The UTC day as an ISO date; called at every resolution, since a model may retire while the process runs. */
  readonly today: () => string
  /** The ISO date of the prices. */
  readonly date: string
}

export interface ModelFilter {
  /** Words that the id or the name must all contain, ignoring case. */
  readonly q?: string
  readonly provider?: string
  /** Only models of these providers. */
  readonly servedBy?: ReadonlySet<string> | undefined
  readonly access?: 'open' | 'premium'
  /** The highest prices of an input token and an output token, in picodollars. */
  readonly maxPrice?: Pico
  readonly supportedParameters?: readonly string[]
  /** Whether whoever asks may use it. */
  readonly permits?: (id: string) => boolean
}

export interface Catalog {
  readonly date: string
  /**
   * The model of an id. Throws GatewayError `invalid_model_id`, `model_retired` (with the successor) or
   * `model_not_found` (with the nearest ids, or the reason why a known model is not sold).
   */
  resolve(id: string): Model
  /** The model, retired or not; undefined for one that is not sold. */
  find(id: string): Model | undefined
  /** A member of a route: a model that is served today, offered by itself or not, or another route; else undefined. */
  member(id: string): Model | undefined
  /** The routes that lead to a model, by whatever way. */
  routesTo(id: string): readonly string[]
  /** The models that can be called today, by id; all of them are the same list until the catalog changes. */
  list(filter?: ModelFilter): readonly Model[]
  /** Builds the models of today one by one, so that the first list need not build them all at once. */
  prepare(): Iterable<void>
  /** How many models can be called today, of all or of these providers; builds none of them. */
  count(servedBy?: ReadonlySet<string>): number
  /** Known but not sold, with the reason. */
  readonly unpriced: readonly UnpricedModel[]
}

/** Indexes the rows; models are built on first use, so that starting stays fast. */
export function buildCatalog(input: CatalogInput): Catalog {
  const { providersKnown, today, premiumRule = defaultPremiumRule } = input
  const rows = new Map<string, CatalogRow>()
  for (const row of input.rows)
    if (providersKnown.has(providerOf(row.id)) || row.offers) rows.set(row.id, row)
  const routes = new Map<string, RouteEntry>()
  for (const override of input.overrides ?? []) {
    if (override.route !== undefined) routes.set(override.id, { ...override, route: routeOf(override.route) })
    else rows.set(override.id, overridden(rows.get(override.id), override, today()))
  }
  const unpriced = new Map<string, UnpricedModel>()
  for (const entry of input.unpriced ?? []) {
    if (providersKnown.has(providerOf(entry.id)) && !rows.has(entry.id)) unpriced.set(entry.id, entry)
  }
  /** The built models, with the written price of their day. */
  const models = new Map<string, { readonly model: Model; readonly price: PriceSpec | undefined }>()
  const refuse = (id: string, reason: string) => {
    unpriced.set(id, { id, reason })
    rows.delete(id)
  }
  for (const row of rows.values()) {
    const problem = whyUnsold(row, providersKnown)
    if (problem !== undefined) refuse(row.id, problem)
  }

  const findListed = (id: string): Model | undefined => {
    const row = rows.get(id)
    if (!row) return undefined
    const price = row.later_prices === undefined ? row.price : priceOn(row, today())
    const known = models.get(id)
    if (known !== undefined && known.price === price) return known.model
    try {
      const model = buildModel({ ...row, price }, premiumRule, input)
      models.set(id, { model, price })
      return model
    } catch (problem) {
      if (!(problem instanceof PriceRefused)) throw problem
      refuse(id, problem.message)
      return undefined
    }
  }
  /** The models behind a route, each once. Loops are refused where the configuration is read. */
  const modelsOf = ({ members }: ModelRoute, seen = new Set<string>()): readonly Model[] =>
    members.flatMap(({ id }) => {
      const name = aliases.get(id) ?? id
      if (seen.has(name)) return []
      seen.add(name)
      const inner = routes.get(name)
      return inner ? modelsOf(inner.route, seen) : (servedToday(name) ?? [])
    })
  /** Virtual models as they are on one day: what else they depend on is the same for as long as this catalog. */
  const virtual = new Map<string, { readonly model: Model | undefined; readonly day: string }>()
  const findRoute = (entry: RouteEntry): Model | undefined => {
    const day = today()
    const known = virtual.get(entry.id)
    if (known?.day === day) return known.model
    const members = modelsOf(entry.route)
    const model = members.length === 0 ? undefined : virtualModel(entry, members)
    virtual.set(entry.id, { model, day })
    return model
  }
  const servedToday = (id: string) => (isRetired(rows.get(id), today()) ? undefined : findListed(id))
  const aliases = new Map(Object.entries(input.aliases ?? {}))
  const { offered = () => true } = input
  let makers: ReadonlyMap<string, string | null> | undefined
  /** The id that a client's name stands for. */
  const idOf = (name: string): string => {
    const ownName = (id: string) => aliases.get(id) ?? (routes.has(id) ? id : undefined)
    if (rows.has(name)) return ownName(name) ?? name
    const slash = name.indexOf('/')
    // Protocols with models of one provider put it before names that have none, also before those of routes.
    const id = ownName(name) ?? (slash < 0 ? undefined : ownName(name.slice(slash + 1)))
    if (id !== undefined || slash >= 0 || input.firstParty === undefined) return id ?? name
    makers ??= namesOfMakers(rows.keys(), input.firstParty)
    return makers.get(name) ?? name
  }
  const find = (name: string): Model | undefined => {
    const id = idOf(name)
    if (!offered(id)) return undefined
    const entry = routes.get(id)
    return entry ? findRoute(entry) : findListed(id)
  }
  const current = (servedBy?: ReadonlySet<string>) => {
    const day = today()
    const listed = [...rows.values()]
      .filter((row) => !routes.has(row.id) && !isRetired(row, day))
      .filter((row) => servedBy === undefined || isServedBy(row, servedBy))
      .map((row) => row.id)
    const named = [...routes.values()].filter(
      ({ route }) =>
        servedBy === undefined ||
        modelsOf(route).some(({ offers }) => offers.some(({ provider }) => servedBy.has(provider))),
    )
    return [...listed, ...named.map(({ id }) => id)].filter(offered)
  }
  /** All models of a day, by id: strangers ask for lists as fast as they can. */
  let listed: { readonly day: string; readonly models: readonly Model[] } | undefined
  const allOf = (day: string) => {
    if (listed?.day !== day) {
      const models = current().flatMap((id) => find(id) ?? [])
      listed = { day, models: models.toSorted((a, b) => (a.id < b.id ? -1 : 1)) }
    }
    return listed.models
  }
  let ids: NearIds | undefined
  const nearestTo = (id: string) => {
    const day = today()
    ids ??= new NearIds([...rows.keys(), ...routes.keys(), ...aliases.keys()])
    return ids.nearest(id, (other) => !isRetired(rows.get(other), day) && find(other) !== undefined)
  }
  /** What to use instead of a retired model: its successor, or that one's if it has retired as well; undefined if none is left. */
  const successorOf = (row: CatalogRow): string | undefined => {
    const day = today()
    const seen = new Set([row.id])
    for (let id = row.successor; id !== undefined && !seen.has(id); id = rows.get(id)?.successor) {
      seen.add(id)
      if (!isRetired(rows.get(id), day)) return find(id)?.id
    }
    return undefined
  }

  const whyMissing = (id: string): string | undefined => {
    const entry = routes.get(id)
    if (entry) return `none of ${entry.route.members.map((member) => member.id).join(', ')} is sold`
    return !offered(id) && rows.has(id) ? 'this gateway does not offer it' : unpriced.get(id)?.reason
  }

  return {
    date: input.date,
    find,
    member(name) {
      const id = aliases.get(name) ?? name
      const entry = routes.get(id)
      return entry ? findRoute(entry) : servedToday(id)
    },
    routesTo: (id) =>
      [...routes.values()]
        .filter(({ route }) => modelsOf(route).some((model) => model.id === id))
        .map((entry) => entry.id),
    resolve(name) {
      const id = idOf(name)
      const model = find(name)
      if (!model) throw notFound(name, nearestTo, whyMissing(id))
      const row = routes.has(id) ? undefined : rows.get(id)
      if (row && isRetired(row, today())) throw retiredError(model, successorOf(row))
      return model
    },
    *prepare() {
      for (const id of current()) yield void find(id)
    },
    count: (servedBy) => current(servedBy).length,
    list(filter) {
      const all = allOf(today())
      return filter === undefined ? all : all.filter(matching(filter, rows))
    },
    get unpriced() {
      // Only building a model shows that its price cannot be charged exactly.
      for (const id of rows.keys()) findListed(id)
      return [...unpriced.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))
    },
  }
}

/** A route as the configuration has it, complete. */
interface RouteEntry extends Pick<ModelOverride, 'id' | 'name' | 'description' | 'owned_by'> {
  readonly route: ModelRoute
}

/**
 * What a virtual model promises is what every member keeps: the shortest context, the parameters that all honour, the
 * dearest price.
 */
function virtualModel(
  { id, name, description, owned_by, route }: RouteEntry,
  members: readonly Model[],
): Model {
  const [first] = members as [Model]
  const dearest = members.toSorted((a, b) => Number(dearness(b) - dearness(a)))
  const inCommon = <T>(of: (model: Model) => readonly T[]) =>
    of(first).filter((one) => members.every((member) => of(member).includes(one)))
  const least = (of: (model: Model) => number | undefined) => {
    const known = members.flatMap((member) => of(member) ?? [])
    return known.length === 0 ? undefined : Math.min(...known)
  }
  return {
    id,
    name: name ?? id,
    description: description ?? `Stands for ${members.map((member) => member.id).join(', ')}.`,
    created: 0,
    ownedBy: owned_by ?? 'weir',
    contextLength: least(({ contextLength }) => contextLength),
    maxOutputTokens: least(({ maxOutputTokens }) => maxOutputTokens),
    inputModalities: inCommon(({ inputModalities }) => inputModalities),
    outputModalities: inCommon(({ outputModalities }) => outputModalities),
    supportedParameters: inCommon(({ supportedParameters }) => supportedParameters),
    reasoning: members.every(({ reasoning }) => reasoning),
    premium: members.every(({ premium }) => premium),
    flashClass: members.every(({ flashClass }) => flashClass),
    deprecation: undefined,
    priceSource: 'configuration',
    priceDate: first.priceDate,
    offers: dearest.flatMap(({ offers }) => offers),
    route,
  }
}

/** What a token of prompt and one of output cost together, picodollars. */
function dearness({ offers }: Model): Pico {
  const { input, output } = highestBaseRates(offers[0]!.price)
  return input + output
}

/** The ids of the makers' models by their name alone; null where several makers have it. */
function namesOfMakers(
  ids: Iterable<string>,
  makers: ReadonlySet<string>,
): ReadonlyMap<string, string | null> {
  const named = new Map<string, string | null>()
  for (const id of ids) {
    const provider = providerOf(id)
    if (!makers.has(provider)) continue
    const name = id.slice(provider.length + 1)
    named.set(name, named.has(name) ? null : id)
  }
  return named
}

function isServedBy(row: CatalogRow, providers: ReadonlySet<string>): boolean {
  return row.offers
    ? row.offers.some(({ provider }) => providers.has(provider))
    : providers.has(providerOf(row.id))
}

function providerOf(id: string): string {
  return id.slice(0, Math.max(id.indexOf('/'), 0))
}

function whyUnsold(row: CatalogRow, providersKnown: ReadonlySet<string>): string | undefined {
  const provider = providerOf(row.id)
  const offers = row.offers ?? [{ provider, price: row.price }]
  const reachable = offers.filter((offer) => providersKnown.has(offer.provider))
  if (reachable.length === 0) return `no provider named ${offers.map((offer) => offer.provider).join(', ')}`
  return reachable.every((offer) => (offer.price ?? row.price) !== undefined) ? undefined : 'it has no price'
}

function isRetired(row: CatalogRow | undefined, day: string): boolean {
  return row?.retires_on !== undefined && day > row.retires_on
}

function notFound(
  id: string,
  nearestTo: (id: string) => readonly string[],
  reason: string | undefined,
): GatewayError {
  if (reason === undefined) parseModelId(id, nearestTo)
  const nearest = nearestTo(id)
  const what =
    reason === undefined ? `There is no model ${quote(id)}.` : `${quote(id)} is not sold: ${reason}.`
  return new GatewayError('model_not_found', {
    message: `${what}${suggestion(nearest)}`,
    param: 'model',
    metadata: { nearest, ...(reason === undefined ? {} : { reason }) },
  })
}

function retiredError(model: Model, successor: string | undefined): GatewayError {
  const retiresOn = model.deprecation?.retiresOn ?? ''
  const instead = successor === undefined ? '' : ` Use ${successor} instead.`
  return new GatewayError('model_retired', {
    message: `The provider of ${quote(model.id)} stopped serving it after ${retiresOn}.${instead}`,
    param: 'model',
    metadata: { retired_on: retiresOn, successor: successor ?? null },
  })
}

function buildModel(row: CatalogRow, rule: PremiumRule, { providersKnown, ignored }: CatalogInput): Model {
  const provider = providerOf(row.id)
  const name = row.id.slice(provider.length + 1)
  const written = row.offers ?? [{ provider, upstream: row.upstream ?? name, price: row.price }]
  const offers = written
    .filter((offer) => providersKnown.has(offer.provider))
    .map((offer): Offer => ({
      provider: offer.provider,
      upstream: offer.upstream,
      price: buildPrice(priceIn(offer.price ?? row.price)),
      efforts: statedEfforts(row) ?? effortsOf(offer.provider, offer.upstream),
    }))
  const reasoning = row.reasoning ?? offers.some(({ efforts }) => Object.keys(efforts ?? {}).length > 0)
  const inputModalities = row.input ?? ['text']
  const outputModalities = row.output ?? ['text']
  const output = offers[0]?.price.rates.output ?? 0n
  return {
    id: row.id,
    name: row.name ?? name,
    description: row.description ?? '',
    created: row.created ?? 0,
    ownedBy: row.owned_by ?? provider,
    contextLength: row.context_length,
    maxOutputTokens: row.max_output_tokens,
    inputModalities,
    outputModalities,
    supportedParameters: honouredParameters(row, offers, reasoning, ignored),
    reasoning,
    premium: row.premium ?? output >= rule.outputAtLeast,
    flashClass: outputModalities.includes('text') && offers.every(({ price }) => isFlash(price, 0)),
    deprecation:
      row.retires_on === undefined ? undefined : { retiresOn: row.retires_on, successor: row.successor },
    priceSource: row.source,
    priceDate: row.date,
    offers,
  }
}

/** The parameters that at least one offer honours. A row's own list was checked by a person and is not changed. */
function honouredParameters(
  row: CatalogRow,
  offers: readonly Offer[],
  reasoning: boolean,
  ignored: CatalogInput['ignored'] = () => new Set(),
): readonly string[] {
  const listed = parametersOf(row.parameters)
  if (row.parameters !== undefined && typeof row.parameters !== 'string') return listed
  const sets = offers.map(({ provider, upstream, efforts }) => {
    const set = ignored(provider, upstream, reasoning)
    return efforts && Object.keys(efforts).length === 0
      ? new Set([...set, 'reasoning', 'reasoning_effort'])
      : set
  })
  return listed.filter((parameter) => !sets.every((set) => set.has(parameter)))
}

/** A model's efforts in the configuration: the names are the provider's own. */
function statedEfforts({ efforts }: CatalogRow): Efforts | undefined {
  return efforts && Object.fromEntries(efforts.map((word) => [word, word]))
}

function priceIn(spec: PriceSpec | undefined): PriceSpec {
  if (spec === undefined) throw new PriceRefused('it has no price')
  return spec
}

/** The highest rates of fresh input and of output for any prompt length. */
export function highestBaseRates(price: Price): { input: Pico; output: Pico } {
  const all = [price.rates, ...price.tiers.map((tier) => tier.rates)]
  return {
    input: all.map((rates) => rates.input).reduce(larger),
    output: all.map((rates) => larger(rates.output, rates.reasoning)).reduce(larger),
  }
}

/** Whether a model matches the filter, which is prepared once for all of them. */
function matching(filter: ModelFilter, rows: ReadonlyMap<string, CatalogRow>): (model: Model) => boolean {
  const { provider, servedBy, access, maxPrice, supportedParameters = [], permits } = filter
  const words = (filter.q ?? '')
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  return (model) => {
    if (permits?.(model.id) === false) return false
    if (servedBy !== undefined && !isModelServedBy(model, rows.get(model.id), servedBy)) return false
    if (provider !== undefined && !model.offers.some((offer) => offer.provider === provider)) return false
    if (access !== undefined && access !== (model.premium ? 'premium' : 'open')) return false
    if (!supportedParameters.every((name) => model.supportedParameters.includes(name))) return false
    if (words.length === 0 && maxPrice === undefined) return true
    const { text, highest } = factsOf(model)
    return words.every((word) => text.includes(word)) && (maxPrice === undefined || highest <= maxPrice)
  }
}

function isModelServedBy(model: Model, row: CatalogRow | undefined, servedBy: ReadonlySet<string>): boolean {
  if (row !== undefined && model.route === undefined) return isServedBy(row, servedBy)
  return model.offers.some(({ provider }) => servedBy.has(provider))
}

/** What filters compare: the words of a model, and the most that a token of it costs. */
interface Facts {
  readonly text: string
  readonly highest: Pico
}

const facts = new WeakMap<Model, Facts>()

function factsOf(model: Model): Facts {
  let known = facts.get(model)
  if (known === undefined) {
    const { input, output } = highestBaseRates(model.offers[0]!.price)
    known = { text: `${model.id} ${model.name}`.toLowerCase(), highest: larger(input, output) }
    facts.set(model, known)
  }
  return known
}

// Suggestions for mistyped ids.

/** How many ids get the costlier comparison, and the least similarity (0 to 1) for a suggestion. */
const shortlist = 16
const leastAlike = 0.4
/** The least similarity by pairs of letters for that comparison. */
const leastShared = 0.25
/** What a name with two neighbouring letters swapped counts for beside those with pairs in common. */
const swapScore = 0.8

interface Candidate {
  readonly id: string
  readonly score: number
}

/** Ids, indexed by the pairs of letters in their names, since clients often repeat requests for unknown ids. */
export class NearIds {
  readonly #ids: readonly string[]
  /** How many pairs each name has. */
  readonly #pairs: readonly number[]
  /** Which names contain a pair, by their places. */
  readonly #containing = new Map<string, number[]>()
  /** The places of each whole name, in lower case. */
  readonly #named = new Map<string, number[]>()

  constructor(ids: Iterable<string>) {
    this.#ids = [...ids]
    this.#pairs = this.#ids.map((id, at) => {
      const name = nameIn(id).toLowerCase()
      const pairs = pairsOf(name)
      for (const pair of pairs) addPlace(this.#containing, pair, at)
      addPlace(this.#named, name, at)
      return pairs.length
    })
  }

  /**
   * The ids most like `wanted`, best first, at most `limit`, of those that `isKnown`. Work is bounded: pairs of letters
   * are compared for every id, edit distance only for the best sixteen and for names in which two neighbouring letters
   * are swapped, which may have no pair in common; a wanted id is cut at 200 characters.
   */
  nearest(wanted: string, isKnown: (id: string) => boolean = () => true, limit = 3): string[] {
    const target = wanted.slice(0, longestId).toLowerCase()
    if (target.trim() === '') return []
    const wantedName = nameIn(target)
    const found = new Map(this.#sharing(pairsOf(wantedName), isKnown).map(({ id, score }) => [id, score]))
    for (const id of this.#idsOfSwaps(wantedName, isKnown))
      found.set(id, Math.max(found.get(id) ?? 0, swapScore))
    return [...found]
      .map(([id, score]) => ({
        id,
        score: (score + likeness(wantedName, nameIn(id).toLowerCase())) / 2 + bonus(target, id),
      }))
      .filter(({ score }) => score >= leastAlike)
      .toSorted(byScore)
      .slice(0, limit)
      .map(({ id }) => id)
  }

  /** The ids whose name is this one with two neighbouring letters swapped; at most sixteen. */
  #idsOfSwaps(wanted: string, isKnown: (id: string) => boolean): readonly string[] {
    const places = new Set<number>()
    for (let at = 1; at < wanted.length; at++) {
      const swapped = wanted.slice(0, at - 1) + wanted[at]! + wanted[at - 1]! + wanted.slice(at + 1)
      for (const place of this.#named.get(swapped) ?? []) places.add(place)
    }
    const known: string[] = []
    for (const place of places) {
      const id = this.#ids[place]!
      if (known.length < shortlist && isKnown(id)) known.push(id)
    }
    return known
  }

  /** The best by Dice's coefficient over pairs of letters: 1 for the same name, 0 for nothing in common. */
  #sharing(wanted: readonly string[], isKnown: (id: string) => boolean): readonly Candidate[] {
    const shared = new Uint16Array(this.#ids.length)
    for (const pair of wanted) for (const at of this.#containing.get(pair) ?? []) shared[at]!++
    const best: Candidate[] = []
    for (let at = 0; at < shared.length; at++) {
      if (shared[at] === 0) continue
      const score = (2 * shared[at]!) / (this.#pairs[at]! + wanted.length)
      const last = best.length === shortlist ? best[shortlist - 1]!.score : leastShared
      if (score <= leastShared || score < last) continue
      const candidate = { id: this.#ids[at]!, score }
      if (!isKnown(candidate.id)) continue
      let place = best.length
      while (place > 0 && byScore(candidate, best[place - 1]!) < 0) place--
      best.splice(place, 0, candidate)
      if (best.length > shortlist) best.pop()
    }
    return best
  }
}

function byScore(a: Candidate, b: Candidate): number {
  return b.score - a.score || (a.id < b.id ? -1 : 1)
}

function nameIn(id: string): string {
  return id.slice(id.indexOf('/') + 1)
}

/** The right name at the wrong provider is similar, the right name at the right provider, or nearly, more so. */
function bonus(target: string, id: string): number {
  const slash = target.indexOf('/')
  if (slash <= 0) return 0
  const alike = likeness(target.slice(0, slash), id.slice(0, id.indexOf('/')).toLowerCase())
  return alike < leastAlike ? 0 : alike * 0.2
}

/** The pairs of neighbouring letters of a text; repeated pairs are numbered, so that each counts once. */
function pairsOf(text: string): string[] {
  const seen = new Map<string, number>()
  const pairs: string[] = []
  for (let at = 0; at < text.length - 1; at++) {
    const pair = text.slice(at, at + 2)
    const before = seen.get(pair) ?? 0
    seen.set(pair, before + 1)
    pairs.push(before === 0 ? pair : `${pair}${before}`)
  }
  return pairs
}

/** 1 minus the edit distance as a share of the longer text; a swap of neighbours is one edit. */
function likeness(a: string, b: string): number {
  return 1 - editDistance(a, b) / Math.max(a.length, b.length, 1)
}

function addPlace(places: Map<string, number[]>, text: string, at: number): void {
  const known = places.get(text)
  if (known) known.push(at)
  else places.set(text, [at])
}

// Models that a server on this machine or in the next rack lists, in the shape of catalog rows.

export interface ListedModel {
  /** The name that the server knows it by. */
  readonly name: string
  /** Tokens of prompt and output together, where the server says. */
  readonly contextLength?: number | undefined
  /** Whether it turns texts into vectors, and does nothing else. */
  readonly embeds: boolean
}

/** Longer names would make ids that no request may name. */
const longestName = 150

/**
 * Their rows, free unless `price` says otherwise: their tokens are paid for with electricity. A name that is the path of
 * a file becomes an id without it; where two become the same, the second gets a number.
 */
export function localModels(
  provider: string,
  models: readonly ListedModel[],
  today: string,
  price: PriceSpec = freePrice,
): CatalogRow[] {
  const taken = new Set<string>()
  return models.flatMap(({ name, contextLength, embeds }): CatalogRow[] => {
    const clean = freeName(cleanName(name), taken)
    if (clean === '' || clean.length > longestName) return []
    taken.add(clean)
    return [
      {
        id: `${provider}/${clean}`,
        ...(clean === name ? {} : { upstream: name }),
        ...(contextLength === undefined ? {} : { context_length: contextLength }),
        ...(embeds ? { input: ['text'], output: ['embeddings'], parameters: 'embeddings' } : {}),
        price,
        source: 'local server',
        date: today,
      },
    ]
  })
}

function freeName(name: string, taken: ReadonlySet<string>): string {
  if (!taken.has(name)) return name
  let number = 2
  while (taken.has(`${name}-${number}`)) number++
  return `${name}-${number}`
}

/** `/models/Qwen3-8B-Q4_K_M.gguf` → `Qwen3-8B-Q4_K_M`; names that are no paths stay as they are. */
export function cleanName(name: string): string {
  const isPath = /^(?:[\\/~]|\.{1,2}[\\/]|[A-Za-z]:[\\/])/.test(name) || /\.gguf$/i.test(name)
  return (isPath ? fileName(name) : name).replace(/[\s\p{C}]+/gu, '-')
}

function fileName(path: string): string {
  // The cache of Hugging Face: models--Qwen--Qwen3-8B/snapshots/<commit>.
  const cached = /models--([^\\/]+?)--([^\\/]+)/.exec(path)
  if (cached && !/\.gguf$/i.test(path)) return `${cached[1]}/${cached[2]}`
  const last = path.split(/[\\/]/).findLast((part) => part !== '') ?? ''
  return last.replace(/\.gguf$/i, '').replace(/-\d{5}-of-\d{5}$/, '')
}
