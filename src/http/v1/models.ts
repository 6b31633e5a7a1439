// GET /v1/models and GET /v1/models/{provider}/{name}: the catalog, open to everybody.

import { LRUCache } from 'lru-cache'
import { type Caller, isLimited, mayUse } from '../../accounts/account.ts'
import type { ModelFilter } from '../../catalog/catalog.ts'
import type { Model } from '../../catalog/row.ts'
import {
  anthropicModel,
  anthropicModelList,
  etagMatches,
  etagOf,
  modelListText,
  type ModelPage,
  modelText,
} from '../../catalog/wire.ts'
import { type AnswerCount, figuresOf, type LastError } from '../../chat/routing/health.ts'
import { parseUsdPerMillion } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { type FreeAnswer, freely } from '../intake/paid/limits.ts'
import { compressible, decodePath } from '../intake/read-body.ts'
import type { HttpParts, RecentFigures, ServingParts } from '../parts.ts'
import { asCaller, errorResponse, type Refuse, refuseGemini, type Route } from '../route.ts'
import { listGeminiModels, showGeminiModel } from './google-routes.ts'
import { refuseMessages } from './messages.ts'

/** Longer search words are refused: no id is longer. */
const maxQueryCharacters = 200

/**
 * The list, filtered by `q`, `provider`, `access`, `max_price` (USD per million tokens), `supported_parameters`
 * (comma-separated) and `available` (only what can be called now). Throws `invalid_request` naming the filter that is
 * wrong. A key that is limited to models is shown these. Clients of Anthropic's protocol get pages in the shape of its Models API, Google's clients those of theirs.
 */
export const listModels: Route<ServingParts> = {
  method: 'GET',
  path: '/v1/models',
  handle: (models, call) =>
    isOfGoogle(call.request) ? listGeminiModels.handle(models, call) : list(models, call.request),
  errors: errorsForModels,
  operation: async () => (await import('./chat-documentation.ts')).models,
}

/** One model by its id, as it stands in the path. Throws what `catalog.resolve` throws. */
export const showModel: Route<ServingParts> = {
  method: 'GET',
  path: '/v1/models/*',
  handle: (models, call) =>
    isOfGoogle(call.request)
      ? showGeminiModel.handle(models, call)
      : show(models, call.request, call.params['*']!),
  errors: errorsForModels,
  operation: async () => (await import('./chat-documentation.ts')).model,
}

/** Google's clients are known by the header that carries their key. */
function isOfGoogle({ headers }: Request): boolean {
  return headers.has('x-goog-api-key')
}

/** Three kinds of clients ask for models at the same address, and each knows its own shape of errors. */
export function errorsForModels(request: Request): Refuse {
  return isOfGoogle(request) ? refuseGemini : speaksMessages(request) ? refuseMessages : errorResponse
}

function list(models: ServingParts, request: Request): Promise<Response> {
  return freely(models, request, async (caller) => {
    const { answer, made } = listAnswer(models, request, caller, models.lastHour())
    const { response, bytes } = await withEtag(request, answer)
    // What one key is shown is no other's.
    if (caller !== undefined && isLimited(caller))
      response.headers.set('cache-control', 'private, max-age=60')
    return { response, bytes: made ? Math.max(leastMade, answer.body.length) + bytes : bytes }
  })
}

/** The least that a newly made list counts: every model was looked at. */
const leastMade = 65_536

function show(models: ServingParts, request: Request, path: string): Promise<Response> {
  return freely(models, request, async () =>
    withEtag(request, answerOf(modelJson(models, request, path, models.lastHour()))),
  )
}

function modelJson(
  { catalog }: ServingParts,
  request: Request,
  path: string,
  figures: RecentFigures,
): string {
  const id = decodePath(path)
  if (!speaksMessages(request)) return modelText(catalog.resolve(id), (provider) => figures[provider])
  // A name without a provider is Anthropic's own, as in the requests of this protocol.
  const model = catalog.resolve(id.includes('/') ? id : `anthropic/${id}`)
  return JSON.stringify(anthropicModel(model))
}

interface ListAnswer {
  readonly body: string
  readonly etag: string
}

function answerOf(body: string): ListAnswer {
  return { body, etag: etagOf(body) }
}

/** How much of answers is kept for each catalog, characters; few filters are in use at a time. */
const keptCharacters = 8 * 1024 ** 2

/** Answers by request, for each catalog; its list of models stands for it. */
const kept = new WeakMap<readonly Model[], LRUCache<string, ListAnswer>>()

/** The list, as it was made before or made now. */
function listAnswer(
  { catalog, answering }: ServingParts,
  request: Request,
  caller: Caller | undefined,
  figures: RecentFigures,
): { readonly answer: ListAnswer; readonly made: boolean } {
  const query = new URL(request.url).searchParams
  const filter = filterOf(query, answering)
  const page = speaksMessages(request) ? pageOf(query) : undefined
  if (caller !== undefined && isLimited(caller)) {
    const found = catalog.list({ ...filter, permits: (id) => mayUse(caller, id) })
    return { answer: listOf(found, page, figures), made: true }
  }
  const name = JSON.stringify([query.toString(), page, [...(filter.servedBy ?? [])], !page && figures])
  const all = catalog.list()
  let answers = kept.get(all)
  if (answers === undefined) {
    answers = new LRUCache({ maxSize: keptCharacters, sizeCalculation: ({ body }) => body.length })
    kept.set(all, answers)
  }
  const before = answers.get(name)
  if (before !== undefined) return { answer: before, made: false }
  const found = Object.keys(filter).length === 0 ? all : catalog.list(filter)
  const answer = listOf(found, page, figures)
  answers.set(name, answer)
  return { answer, made: true }
}

function listOf(found: readonly Model[], page: ModelPage | undefined, figures: RecentFigures): ListAnswer {
  return answerOf(
    page
      ? JSON.stringify(anthropicModelList(found, page))
      : modelListText(found, (provider) => figures[provider]),
  )
}

/** Clients of Anthropic's protocol send its version with every request, or their key where it wants keys. */
function speaksMessages({ headers }: Request): boolean {
  return headers.has('anthropic-version') || headers.has('x-api-key')
}

/** The page of Anthropic's lists: 20 models unless `limit` says otherwise. Throws `invalid_request`. */
function pageOf(query: URLSearchParams): ModelPage {
  const limit = Number(text(query, 'limit') ?? 20)
  if (!Number.isInteger(limit) || limit < 1 || limit > 1000) {
    const message = 'limit must be a whole number from 1 to 1000.'
    throw new GatewayError('invalid_request', { message, param: 'limit' })
  }
  return { limit, afterId: text(query, 'after_id'), beforeId: text(query, 'before_id') }
}

function filterOf(query: URLSearchParams, answering: ServingParts['answering']): ModelFilter {
  const q = text(query, 'q')
  const provider = text(query, 'provider')
  const access = text(query, 'access')
  const price = text(query, 'max_price')
  const parameters = text(query, 'supported_parameters')
  if (access !== undefined && access !== 'open' && access !== 'premium') {
    throw new GatewayError('invalid_request', { message: 'access must be open or premium.', param: 'access' })
  }
  const available = text(query, 'available')
  if (available !== undefined && available !== 'true' && available !== 'false') {
    throw new GatewayError('invalid_request', {
      message: 'available must be true or false.',
      param: 'available',
    })
  }
  const maxPrice = price === undefined ? undefined : parseUsdPerMillion(price)
  if (price !== undefined && maxPrice === undefined) {
    const message = 'max_price must be a decimal amount of US dollars per million tokens.'
    throw new GatewayError('invalid_request', { message, param: 'max_price' })
  }
  return {
    ...(q === undefined ? {} : { q }),
    ...(provider === undefined ? {} : { provider }),
    ...(access === undefined ? {} : { access }),
    ...(available === 'true' ? { servedBy: answering() } : {}),
    ...(maxPrice === undefined ? {} : { maxPrice }),
    ...(parameters === undefined
      ? {}
      : { supportedParameters: parameters.split(',').map((name) => name.trim()) }),
  }
}

function text(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name)
  if (value === null || value === '') return undefined
  if (value.length <= maxQueryCharacters) return value
  throw new GatewayError('invalid_request', { message: `${name} is too long.`, param: name })
}

async function withEtag(request: Request, { body, etag }: ListAnswer): Promise<FreeAnswer> {
  const headers = { 'cache-control': 'public, max-age=60', 'content-type': 'application/json' }
  if (etagMatches(request.headers.get('if-none-match'), etag)) {
    const { 'cache-control': cache } = headers
    const response = new Response(null, { status: 304, headers: { etag, 'cache-control': cache, vary } })
    return { response, bytes: 0 }
  }
  const { response, bytes } = await compressible(request, body, etag, headers)
  response.headers.set('vary', vary)
  return { response, bytes }
}

/** What an answer depends on beside its address. */
const vary = 'accept-encoding, authorization, anthropic-version, x-api-key, x-goog-api-key'

// GET /v1/providers: the available providers and their health.

export const listProviders: Route = {
  method: 'GET',
  path: '/v1/providers',
  handle: asCaller(describeProviders),
  operation: async () => (await import('../service/documentation.ts')).providers,
}

/** Every configured provider with its health for this caller, as seen by this gateway. No addresses, no keys. */
export async function describeProviders(
  { chat, healthOf }: HttpParts,
  caller: Pick<Caller, 'account'>,
): Promise<object> {
  const described = [...chat.providers.values()].map(async (provider) => {
    const seen = await healthOf(provider, caller.account.id)
    return {
      id: provider.id,
      object: 'provider',
      name: provider.name,
      protocol: provider.protocol,
      state: seen.state,
      ...figuresObject(seen.hour),
      last_day: figuresObject(seen.day),
      counted_since: new Date(seen.countedSince).toISOString(),
      cool_down_until: seen.coolUntil === null ? null : new Date(seen.coolUntil).toISOString(),
      last_error: seen.lastError === null ? null : lastErrorObject(seen.lastError),
      troubles: seen.troubles.map(({ key, upstream, standing, breaker, failures }) => ({
        key,
        model: upstream,
        state: standing,
        breaker,
        failures,
      })),
    }
  })
  return { object: 'list', data: await Promise.all(described) }
}

function figuresObject(count: AnswerCount) {
  const { answers, refusals, successRate, p50Ms } = figuresOf(count)
  return { answers, success_rate: successRate, p50_latency_ms: p50Ms, refusals }
}

function lastErrorObject({ at, upstream, code, status, reason }: LastError) {
  return { at: new Date(at).toISOString(), model: upstream, code, status, reason }
}
