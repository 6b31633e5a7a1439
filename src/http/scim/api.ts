// SCIM 2.0 below `/scim/v2/` (RFC 7644): a directory such as Okta or Entra opens, changes and suspends accounts, and says who
// is in which group. Loaded with the first request.

import type { Account } from '../../accounts/account.ts'
import type { Group } from '../../accounts/group.ts'
import { GatewayError } from '../../errors/errors.ts'
import { operatorOf } from '../console/api.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { RouteCall } from '../route.ts'
import {
  bulkResponseSchema,
  errorOf,
  listSchema,
  mostBodyBytes,
  mostOperations,
  mostResources,
  names,
  resourceTypes,
  schemas,
  type ScimAnswer,
  type ScimRequest,
  serviceProviderConfig,
  versionOf,
} from './schemas.ts'
import {
  createScimGroup,
  deleteScimGroup,
  filterGroups,
  groupOf,
  groupResource,
  patchGroup,
  replaceScimGroup,
} from './groups.ts'
import { isObject, readOperations, type Resource, ScimFault, valueOf } from './patch.ts'
import {
  accountOf,
  createUser,
  deleteUser,
  filterUsers,
  patchUser,
  replaceUser,
  type ScimActing,
  scimBase,
  userResource,
} from './users.ts'

const contentType = 'application/scim+json'
const pageSize = 100

/** Answers a request below `/scim/v2/`. Throws GatewayError for who may not ask; other refusals are answers. */
export async function scimApi(
  parts: HttpParts,
  { request, askedBy }: Pick<RouteCall, 'request' | 'askedBy'>,
): Promise<Response> {
  const operator = await operatorOf(parts, request, 'scim')
  askedBy({ account: operator.id })
  const acting: ScimActing = { parts, operator, by: 'management_key' }
  try {
    const url = new URL(request.url)
    const given = await answer(acting, {
      method: request.method,
      path: url.pathname.slice('/scim/v2/'.length).split('/').map(decodeURIComponent),
      query: url.searchParams,
      ifMatch: request.headers.get('if-match'),
      ifNoneMatch: request.headers.get('if-none-match'),
      body: () => bodyOf(parts, request),
    })
    return responseOf(given)
  } catch (error) {
    if (error instanceof ScimFault) return responseOf(errorOf(error))
    throw error
  }
}

function responseOf({ status, body, headers }: ScimAnswer): Response {
  return new Response(body === undefined ? null : JSON.stringify(body), {
    status,
    headers: {
      ...(body === undefined ? {} : { 'content-type': contentType }),
      'cache-control': 'no-store',
      ...headers,
    },
  })
}

async function answer(acting: ScimActing, asked: ScimRequest): Promise<ScimAnswer> {
  const { method, path } = asked
  const [kind = '', id, ...more] = path
  if (kind === '.search' && id === undefined) return searchAll(acting, await searchIn(asked))
  if (kind === 'Bulk' && id === undefined) {
    requireMethod(asked, ['POST'])
    return bulk(await asked.body(), (operation) => answer(acting, operation))
  }
  if (more.length > 0) throw new ScimFault(404, 'There is nothing here.')
  const about = aboutService(scimBase(acting.parts), kind, id)
  if (about !== undefined) {
    if (method !== 'GET') throw new ScimFault(405, 'It is read only.')
    return { status: 200, body: about }
  }
  const serve = { users, groups }[kind.toLowerCase()]
  if (serve === undefined) throw new ScimFault(404, `There is no ${kind === '' ? 'resource here' : kind}.`)
  // A search by POST asks what the query of a GET does, without its being in an address.
  if (id === '.search') return serve(acting, await searchIn(asked), undefined)
  if (method !== 'PUT' && method !== 'PATCH') return serve(acting, asked, id)
  // Before the resource is taken: nobody waits for a slow client.
  const body = await asked.body()
  return serve(acting, { ...asked, body: () => Promise.resolve(body) }, id)
}

/** The GET that a search stands for. Throws ScimFault. */
async function searchIn(asked: ScimRequest): Promise<ScimRequest> {
  requireMethod(asked, ['POST'])
  const body = await asked.body()
  const query = new URLSearchParams()
  for (const name of ['filter', 'startIndex', 'count', 'attributes', 'excludedAttributes']) {
    const value = valueOf(body, name)
    if (value === undefined || value === null) continue
    query.set(name, Array.isArray(value) ? value.join(',') : String(value as string | number))
  }
  return { ...asked, method: 'GET', query, ifMatch: null, ifNoneMatch: null }
}

/** All users and then all groups, or those that a filter names. */
async function searchAll(acting: ScimActing, { query }: ScimRequest): Promise<ScimAnswer> {
  const { parts } = acting
  const filter = query.get('filter')
  if (filter === null) return listAll(parts, query)
  // An attribute that one kind does not have finds none of that kind.
  const foundBy = async <Item>(find: (parts: HttpParts, filter: string) => Promise<Item[]>) => {
    try {
      return await find(parts, filter)
    } catch (error) {
      if (error instanceof ScimFault && error.scimType === 'invalidFilter') return error
      throw error
    }
  }
  const [accounts, found] = [await foundBy(filterUsers), await foundBy(filterGroups)]
  if (accounts instanceof ScimFault && found instanceof ScimFault) throw accounts
  const { startIndex, count } = bounds(query)
  const shown = [
    ...(accounts instanceof ScimFault
      ? []
      : accounts.map((account) => () => userShown(parts, account, query))),
    ...(found instanceof ScimFault ? [] : found.map((group) => () => groupShown(parts, group, query))),
  ]
  const resources = await Promise.all(
    shown.slice(startIndex - 1, startIndex - 1 + count).map((show) => show()),
  )
  return { status: 200, body: page(resources, { total: shown.length, startIndex }) }
}

/** What clients ask of the service itself; undefined for anything else. Throws ScimFault 404. */
function aboutService(base: string, kind: string, id: string | undefined): object | undefined {
  if (kind === 'ServiceProviderConfig') return serviceProviderConfig(base)
  if (kind !== 'ResourceTypes' && kind !== 'Schemas') return undefined
  const all: readonly (Resource & { readonly id: string })[] =
    kind === 'Schemas' ? schemas(base) : resourceTypes(base)
  if (id === undefined) return page(all, { total: all.length, startIndex: 1 })
  const one = all.find((each) => each.id === id)
  if (one === undefined) throw new ScimFault(404, `There is no ${id}.`)
  return one
}

function page(
  resources: readonly object[],
  { total, startIndex }: { readonly total: number; readonly startIndex: number },
) {
  return {
    schemas: [listSchema],
    totalResults: total,
    startIndex,
    itemsPerPage: resources.length,
    Resources: resources,
  }
}

async function listAll(parts: HttpParts, query: URLSearchParams): Promise<ScimAnswer> {
  const { startIndex, count } = bounds(query)
  const accounts = await pageOfAccounts(parts, query)
  const rest = new URLSearchParams(query)
  rest.set('startIndex', String(Math.max(1, startIndex - accounts.total)))
  rest.set('count', String(count - accounts.items.length))
  const found = await pageOfGroups(parts, rest)
  const resources = [
    ...(await Promise.all(accounts.items.map((account) => userShown(parts, account, query)))),
    ...(await Promise.all(found.items.map((group) => groupShown(parts, group, query)))),
  ]
  return { status: 200, body: page(resources, { total: accounts.total + found.total, startIndex }) }
}

/** The whole resource with its version; of a group that is shown without its members there is none. */
function withVersion(resource: Resource): Resource {
  const { meta, ...rest } = resource
  return { ...rest, meta: { ...(meta as object), version: versionOf(resource) } }
}

async function userShown(parts: HttpParts, account: Account, query: URLSearchParams): Promise<Resource> {
  return pick(withVersion(await userResource(parts, account)), query)
}

async function groupShown(parts: HttpParts, group: Group, query: URLSearchParams): Promise<Resource> {
  const isWhole = isAskedFor(query, 'members')
  const resource = await groupResource(parts, group, isWhole)
  return pick(isWhole ? withVersion(resource) : resource, query)
}

/** What is done with resources of one kind. */
interface Kind<Item extends { readonly id: string }> {
  readonly find: (id: string) => Promise<Item>
  readonly show: (item: Item) => Promise<Resource>
  /** With everything that its version depends on. */
  readonly whole: (item: Item) => Promise<Resource>
  readonly create: (resource: Resource) => Promise<Item>
  readonly replace: (item: Item, resource: Resource) => Promise<Item>
  readonly patch: (item: Item, operations: ReturnType<typeof readOperations>) => Promise<Item>
  readonly remove: (item: Item) => Promise<void>
  readonly filter: (filter: string) => Promise<Item[]>
  readonly list: (query: URLSearchParams) => Promise<Found<Item>>
}

function users(acting: ScimActing, asked: ScimRequest, id: string | undefined): Promise<ScimAnswer> {
  const { parts } = acting
  const kind: Kind<Account> = {
    find: (one) => accountOf(parts, one),
    show: (account) => userShown(parts, account, asked.query),
    whole: (account) => userResource(parts, account),
    create: (resource) => createUser(acting, resource),
    replace: (account, resource) => replaceUser(acting, account, resource),
    patch: (account, operations) => patchUser(acting, account, operations),
    remove: (account) => deleteUser(acting, account),
    filter: (filter) => filterUsers(parts, filter),
    list: (query) => pageOfAccounts(parts, query),
  }
  return id === undefined ? serveAll(kind, asked) : serveInTurn(parts, kind, asked, id)
}

function groups(acting: ScimActing, asked: ScimRequest, id: string | undefined): Promise<ScimAnswer> {
  const { parts } = acting
  const kind: Kind<Group> = {
    find: (one) => groupOf(parts, one),
    show: (group) => groupShown(parts, group, asked.query),
    whole: (group) => groupResource(parts, group, true),
    create: (resource) => createScimGroup(acting, resource),
    replace: (group, resource) => replaceScimGroup(acting, group, resource),
    patch: (group, operations) => patchGroup(acting, group, operations),
    remove: (group) => deleteScimGroup(acting, group),
    filter: (filter) => filterGroups(parts, filter),
    list: (query) => pageOfGroups(parts, query),
  }
  return id === undefined ? serveAll(kind, asked) : serveInTurn(parts, kind, asked, id)
}

async function serveAll<Item extends { readonly id: string }>(
  kind: Kind<Item>,
  asked: ScimRequest,
): Promise<ScimAnswer> {
  const { query } = asked
  if (requireMethod(asked, ['GET', 'POST']) === 'POST') {
    const item = await kind.create(await asked.body())
    return answerOf(await kind.show(item), 201)
  }
  const filter = query.get('filter')
  const found = filter === null ? await kind.list(query) : wholeOf(await kind.filter(filter), query)
  return { status: 200, body: page(await Promise.all(found.items.map(kind.show)), found) }
}

/** Changes are made one at a time: what a change was allowed for is still so when it is made. */
function serveInTurn<Item extends { readonly id: string }>(
  { provisioning }: HttpParts,
  kind: Kind<Item>,
  asked: ScimRequest,
  id: string,
): Promise<ScimAnswer> {
  const serve = () => serveOne(kind, asked, id)
  return asked.method === 'GET' ? serve() : provisioning.changeAlone(id, serve)
}

async function serveOne<Item extends { readonly id: string }>(
  kind: Kind<Item>,
  asked: ScimRequest,
  id: string,
): Promise<ScimAnswer> {
  const method = requireMethod(asked, ['GET', 'PUT', 'PATCH', 'DELETE'])
  const item = await kind.find(id)
  const version = async () => versionOf(await kind.whole(item))
  if (method === 'GET') {
    if (asked.ifNoneMatch !== null) {
      const etag = await version()
      if (names(asked.ifNoneMatch, etag)) return { status: 304, headers: { etag } }
    }
    return answerOf(await kind.show(item), 200)
  }
  if (asked.ifMatch !== null && !names(asked.ifMatch, await version()))
    throw new ScimFault(412, `${id} has been changed since: read it again.`)
  if (method === 'DELETE') {
    await kind.remove(item)
    return { status: 204 }
  }
  const body = await asked.body()
  const after =
    method === 'PUT' ? await kind.replace(item, body) : await kind.patch(item, readOperations(body))
  return answerOf(await kind.show(after), 200)
}

function answerOf(resource: Resource, status: number): ScimAnswer {
  const { meta } = resource
  const version = isObject(meta) ? meta['version'] : undefined
  const location = locationOf(resource)
  return {
    status,
    body: resource,
    headers: {
      ...(location === '' ? {} : status === 201 ? { location } : { 'content-location': location }),
      ...(typeof version === 'string' ? { etag: version } : {}),
    },
  }
}

function requireMethod({ method }: ScimRequest, methods: readonly string[]): string {
  if (methods.includes(method)) return method
  throw new ScimFault(405, `It takes ${methods.join(', ')}.`)
}

function locationOf(resource: Resource): string {
  const { meta } = resource
  return isObject(meta) ? String(meta['location'] ?? '') : ''
}

async function bodyOf(parts: HttpParts, request: Request): Promise<Resource> {
  const limits = { ...parts.body, maxBodyBytes: Math.min(parts.body.maxBodyBytes, mostBodyBytes) }
  refuseByHeaders(request.headers, limits)
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/(scim\+)?json\s*(;|$)/i.test(type))
    throw new GatewayError('unsupported_media_type', { message: `The body must be ${contentType}.` })
  const { json: body } = await readJson(request, { body: limits, scheduler: parts.scheduler })
  return body as Resource
}

// Lists, and what of a resource is show.

interface Found<Item> {
  readonly items: readonly Item[]
  readonly total: number
  readonly startIndex: number
}

function bounds(query: URLSearchParams): { readonly startIndex: number; readonly count: number } {
  const whole = (name: string, fallback: number) => {
    const text = query.get(name)
    if (text === null || text === '') return fallback
    if (/^-?\d{1,9}$/.test(text)) return Number(text)
    throw new ScimFault(400, `${name} must be a whole number.`, 'invalidValue')
  }
  return {
    startIndex: Math.max(1, whole('startIndex', 1)),
    count: Math.min(mostResources, Math.max(0, whole('count', pageSize))),
  }
}

function wholeOf<Item>(items: readonly Item[], query: URLSearchParams): Found<Item> {
  const { startIndex, count } = bounds(query)
  return { items: items.slice(startIndex - 1, startIndex - 1 + count), total: items.length, startIndex }
}

/** Goes through all of them in short steps: SCIM counts what there is, and begins anywhere. */
async function pageThrough<Item extends { readonly id: string }>(
  query: URLSearchParams,
  next: (
    after: string | undefined,
  ) => Promise<{ readonly items: readonly Item[]; readonly next: string | null }>,
): Promise<Found<Item>> {
  const { startIndex, count } = bounds(query)
  const items: Item[] = []
  let total = 0
  for (let after: string | undefined; ;) {
    const step = await next(after)
    for (const item of step.items) {
      total++
      if (total >= startIndex && items.length < count) items.push(item)
    }
    if (step.next === null) return { items, total, startIndex }
    after = step.next
    await Bun.sleep(0)
  }
}

async function pageOfAccounts(
  { accounts, provisioning }: HttpParts,
  query: URLSearchParams,
): Promise<Found<Account>> {
  const { startIndex, count } = bounds(query)
  const ids = await provisioning.accounts(startIndex - 1, count)
  const found = await Promise.all(ids.map((id) => accounts.findAccount(id)))
  const items = found.filter((account) => account !== undefined)
  return { items, total: (await accounts.countAccounts()).accounts, startIndex }
}

function pageOfGroups({ groups: store }: HttpParts, query: URLSearchParams): Promise<Found<Group>> {
  return pageThrough(query, async (after) => {
    const { groups: items, next } = await store.pageGroups({ limit: 1_000, after })
    return { items, next }
  })
}

function namesIn(query: URLSearchParams, name: string): string[] {
  const text = query.get(name) ?? ''
  return text.split(',').flatMap((each) => (each.trim() === '' ? [] : [each.trim().toLowerCase()]))
}

function isAskedFor(query: URLSearchParams, attribute: string): boolean {
  const wanted = namesIn(query, 'attributes')
  if (wanted.length > 0) return wanted.some((name) => name === attribute || name.startsWith(`${attribute}.`))
  return !namesIn(query, 'excludedAttributes').includes(attribute)
}

/** `attributes` and `excludedAttributes`, of the outermost level; the id and the schemas always stay. */
function pick(resource: Resource, query: URLSearchParams): Resource {
  return Object.fromEntries(
    Object.entries(resource).filter(
      ([name]) => name === 'id' || name === 'schemas' || isAskedFor(query, name.toLowerCase()),
    ),
  )
}

// Several requests of SCIM in one (RFC 7644, 3.7), carried out in their order. What comes later may name what an earlier one
// has made, as `bulkId:…`.

interface Operation {
  readonly method: string
  readonly path: string
  readonly bulkId: string | undefined
  readonly version: string | undefined
  readonly data: unknown
}

interface Done {
  readonly method: string
  readonly bulkId?: string
  readonly location?: string
  readonly version?: string
  readonly status: string
  readonly response?: object
}

/** Carries them out by `answer`; stops after as many failures as `failOnErrors` says. */
export async function bulk(
  resource: Resource,
  answer: (request: ScimRequest) => Promise<ScimAnswer>,
): Promise<ScimAnswer> {
  const operations = operationsIn(resource)
  const most = valueOf(resource, 'failOnErrors')
  const mostFailures = typeof most === 'number' && most > 0 ? most : Number.POSITIVE_INFINITY
  const made = new Map<string, string>()
  const done: Done[] = []
  let failures = 0
  for (const operation of operations) {
    if (failures >= mostFailures) break
    const { method, bulkId } = operation
    const named = { method, ...(bulkId === undefined ? {} : { bulkId }) }
    try {
      const { status, body, headers = {} } = await answer(requestOf(operation, made))
      const id = isObject(body) ? body['id'] : undefined
      if (bulkId !== undefined && typeof id === 'string') made.set(bulkId, id)
      const { location, etag: version } = headers
      done.push({
        ...named,
        ...(location === undefined ? {} : { location }),
        ...(version === undefined ? {} : { version }),
        status: String(status),
      })
    } catch (error) {
      if (!(error instanceof ScimFault) && !isRefusal(error)) throw error
      failures++
      const { status, body } = errorOf(error)
      done.push({ ...named, status: String(status), response: body! })
    }
    await Bun.sleep(0)
  }
  return { status: 200, body: { schemas: [bulkResponseSchema], Operations: done } }
}

/** A refusal of what was asked, and no fault of the gateway. */
function isRefusal(error: unknown): error is GatewayError {
  return error instanceof GatewayError && error.status < 500
}

function operationsIn(resource: Resource): Operation[] {
  const listed = valueOf(resource, 'Operations')
  if (!Array.isArray(listed)) throw new ScimFault(400, 'Operations is missing.', 'invalidValue')
  if (listed.length > mostOperations)
    throw new ScimFault(413, `A bulk request has at most ${mostOperations} operations.`, 'tooMany')
  return listed.map((each: unknown) => {
    const text = (name: string) => {
      const value = isObject(each) ? valueOf(each, name) : undefined
      return typeof value === 'string' ? value : undefined
    }
    const method = text('method')?.toUpperCase()
    const path = text('path')
    const bulkId = text('bulkId')
    if (method === undefined || !['POST', 'PUT', 'PATCH', 'DELETE'].includes(method) || path === undefined)
      throw new ScimFault(
        400,
        'An operation has a method of POST, PUT, PATCH and DELETE, and a path.',
        'invalidValue',
      )
    if (method === 'POST' && bulkId === undefined)
      throw new ScimFault(400, 'A POST of a bulk request has a bulkId.', 'invalidValue')
    return { method, path, bulkId, version: text('version'), data: valueOf(each as Resource, 'data') }
  })
}

/** With the ids of what was made before in place of their `bulkId:…`. */
function requestOf(
  { method, path, version, data }: Operation,
  made: ReadonlyMap<string, string>,
): ScimRequest {
  const idOf = (bulkId: string) => {
    const id = made.get(bulkId)
    if (id === undefined)
      throw new ScimFault(409, `bulkId:${bulkId} was not made by an operation before.`, 'invalidValue')
    return id
  }
  const withIds = (value: unknown): unknown => {
    if (typeof value === 'string')
      return value.startsWith('bulkId:') ? idOf(value.slice('bulkId:'.length)) : value
    if (Array.isArray(value)) return value.map(withIds)
    if (!isObject(value)) return value
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withIds(each)]))
  }
  const segments = path.split('/').filter((segment) => segment !== '')
  const isResource = /^(users|groups)$/i.test(segments[0] ?? '') && segments.length <= 2
  if (!isResource) throw new ScimFault(400, `There is nothing to change at ${path}.`, 'invalidPath')
  return {
    method,
    path: segments.map((segment) => String(withIds(segment))),
    query: new URLSearchParams(),
    ifMatch: version ?? null,
    ifNoneMatch: null,
    body: () => {
      const body = withIds(data)
      if (isObject(body)) return Promise.resolve(body)
      throw new ScimFault(400, `${method} needs data.`, 'invalidValue')
    },
  }
}
