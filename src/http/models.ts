// GET /v1/models and GET /v1/models/{provider}/{name}: the catalog, open to everybody.

import type { Catalog, ModelFilter } from '../catalog/catalog.ts'
import { etagMatches, etagOf, modelList, modelObject } from '../catalog/wire.ts'
import { parseUsdPerMillion } from '../credits/money.ts'
import { GatewayError } from '../errors.ts'

/** Longer search words are refused: no id is longer. */
const maxQueryCharacters = 200

/**
 * The list, filtered by `q`, `provider`, `access`, `max_price` (USD per million tokens) and
 * `supported_parameters` (comma-separated). Throws `invalid_request` naming the filter that is wrong.
 */
export function listModels(catalog: Catalog, request: Request): Response {
  const filter = filterOf(new URL(request.url).searchParams)
  return tagged(request, JSON.stringify(modelList(catalog.list(filter))))
}

/** One model by its id, as it stands in the path. Throws what `catalog.resolve` throws. */
export function showModel(catalog: Catalog, request: Request, path: string): Response {
  return tagged(request, JSON.stringify(modelObject(catalog.resolve(decoded(path)))))
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch (cause) {
    throw new GatewayError('invalid_model_id', { message: 'The model id in the path is not valid.', cause })
  }
}

function filterOf(query: URLSearchParams): ModelFilter {
  const q = text(query, 'q')
  const provider = text(query, 'provider')
  const access = text(query, 'access')
  const price = text(query, 'max_price')
  const parameters = text(query, 'supported_parameters')
  if (access !== undefined && access !== 'open' && access !== 'premium') {
    throw new GatewayError('invalid_request', { message: 'access must be open or premium.', param: 'access' })
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

function tagged(request: Request, body: string): Response {
  const etag = etagOf(body)
  const headers = { etag, 'cache-control': 'public, max-age=60' }
  if (etagMatches(request.headers.get('if-none-match'), etag))
    return new Response(null, { status: 304, headers })
  return new Response(body, { headers: { ...headers, 'content-type': 'application/json' } })
}
