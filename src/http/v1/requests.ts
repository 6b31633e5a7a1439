// GET /v1/requests and GET /v1/requests/{id}: an account's calls, served or refused.

import { type Caller, viewerOf } from '../../accounts/account.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { RequestQuery, RequestReader } from '../../observe/request-log.ts'
import { asCaller } from '../intake/answer.ts'
import { requireKnown } from '../intake/query.ts'
import type { HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'
import { placeOf, requestList, requestWhole } from './account-views.ts'
import { mayRead } from './account.ts'

const defaultPage = 50
const largestPage = 200
/** No id, name or time is longer. */
const maxFilterCharacters = 200

const filters = ['key', 'model', 'code', 'from', 'until', 'cursor', 'limit']

type Requests = Pick<HttpParts, 'requests' | 'ledger' | 'accounts'>

export const listRequests: Route<Requests> = {
  method: 'GET',
  path: '/v1/requests',
  handle: asCaller(({ requests }, caller, { request }) => requestsOf(caller, requests, request)),
  operation: async () => (await import('./account-documentation.ts')).listRequests,
}

export const getRequest: Route<Requests> = {
  method: 'GET',
  path: '/v1/requests/:id',
  handle: asCaller((parts, caller, { params }) => oneRequest(parts, caller, params['id']!)),
  operation: async () => (await import('./account-documentation.ts')).getRequest,
}

/** The calls that the caller may see, newest first, filtered by the query. Throws `invalid_request`. */
async function requestsOf(caller: Caller, requests: RequestReader, request: Request) {
  const query = new URL(request.url).searchParams
  requireKnown(query, filters)
  const asked = { ...filterOf(query), ...viewerOf(caller), limit: limitOf(query) }
  return requestList(await requests.page(asked, request.signal))
}

/** Throws `not_found` for a call that is not in the log, or that the caller may not see. */
async function oneRequest({ requests, ledger, accounts }: Requests, caller: Caller, id: string) {
  const row = await requests.find(id, caller.account.id)
  if (row && (await mayRead(accounts, caller, row.key))) return { data: await requestWhole(row, ledger) }
  const message =
    'The request log holds no call with this id that this key may see. Receipts are kept for ever: GET /v1/generation?id=.'
  throw new GatewayError('not_found', { message })
}

function filterOf(query: URLSearchParams): Omit<RequestQuery, 'limit' | 'account'> {
  const [key, model, code] = [text(query, 'key'), text(query, 'model'), text(query, 'code')]
  const [from, until] = [timeOf(query, 'from'), timeOf(query, 'until')]
  const cursor = text(query, 'cursor')
  const after = cursor === undefined ? undefined : placeOf(cursor)
  if (cursor !== undefined && after === undefined) throw wrong('cursor', 'the next_cursor of the page before')
  return {
    ...(key === undefined ? {} : { key }),
    ...(model === undefined ? {} : { model }),
    ...(code === undefined ? {} : { code }),
    ...(from === undefined ? {} : { from }),
    ...(until === undefined ? {} : { until }),
    ...(after === undefined ? {} : { after }),
  }
}

function text(query: URLSearchParams, name: string): string | undefined {
  const value = query.get(name)
  if (value === null || value === '') return undefined
  if (value.length <= maxFilterCharacters) return value
  throw wrong(name, `at most ${maxFilterCharacters} characters`)
}

function timeOf(query: URLSearchParams, name: string): number | undefined {
  const value = text(query, name)
  if (value === undefined) return undefined
  const at = /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/.test(value) ? Date.parse(value) : Number.NaN
  if (Number.isNaN(at)) throw wrong(name, 'a time such as 2027-01-31 or 2027-01-31T08:00:00Z')
  return at
}

function limitOf(query: URLSearchParams): number {
  const value = text(query, 'limit')
  if (value === undefined) return defaultPage
  const limit = /^\d{1,4}$/.test(value) ? Number(value) : 0
  if (limit >= 1 && limit <= largestPage) return limit
  throw wrong('limit', `a whole number from 1 to ${largestPage}`)
}

function wrong(param: string, right: string): GatewayError {
  return new GatewayError('invalid_request', { message: `${param} must be ${right}.`, param })
}
