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
  createScimGroup,
  deleteScimGroup,
  filterGroups,
  groupOf,
  groupResource,
  patchGroup,
  replaceScimGroup,
} from './groups.ts'
import { isObject, readOperations, type Resource, ScimFault } from './patch.ts'
import {
  errorSchema,
  listSchema,
  mostResources,
  resourceTypes,
  schemas,
  serviceProviderConfig,
} from './schemas.ts'
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
/** Enough for the members of a large group. */
const mostBodyBytes = 4_194_304
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
    return await answer(acting, request)
  } catch (error) {
    if (error instanceof ScimFault) return faultResponse(error.status, error.message, error.scimType)
    throw error
  }
}

function faultResponse(status: number, detail: string, scimType: string | undefined): Response {
  const body = { schemas: [errorSchema], status: String(status), ...(scimType && { scimType }), detail }
  return json(body, status)
}

function json(body: object, status = 200, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': contentType, 'cache-control': 'no-store', ...headers },
  })
}

async function answer(acting: ScimActing, request: Request): Promise<Response> {
  const url = new URL(request.url)
  const [kind = '', id, ...more] = url.pathname.slice('/scim/v2/'.length).split('/').map(decodeURIComponent)
  if (more.length > 0) throw new ScimFault(404, 'There is nothing here.')
  const about = aboutService(scimBase(acting.parts), kind, id)
  if (about !== undefined) {
    if (request.method !== 'GET') throw new ScimFault(405, 'It is read only.')
    return json(about)
  }
  if (kind === 'Users') return users(acting, request, url.searchParams, id)
  if (kind === 'Groups') return groups(acting, request, url.searchParams, id)
  throw new ScimFault(404, `There is no ${kind === '' ? 'resource here' : kind}.`)
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

async function users(
  acting: ScimActing,
  request: Request,
  query: URLSearchParams,
  id: string | undefined,
): Promise<Response> {
  const { parts } = acting
  const show = async (account: Account) => pick(await userResource(parts, account), query)
  if (id === undefined) {
    if (request.method === 'POST') {
      const resource = await show(await createUser(acting, await bodyOf(parts, request)))
      return json(resource, 201, { location: locationOf(resource) })
    }
    requireMethod(request, ['GET'])
    const filter = query.get('filter')
    const found =
      filter === null ? await pageOfAccounts(parts, query) : wholeOf(await filterUsers(parts, filter), query)
    return json(page(await Promise.all(found.items.map(show)), found))
  }
  const account = await accountOf(parts, id)
  switch (requireMethod(request, ['GET', 'PUT', 'PATCH', 'DELETE'])) {
    case 'PUT':
      return json(await show(await replaceUser(acting, account, await bodyOf(parts, request))))
    case 'PATCH':
      return json(await show(await patchUser(acting, account, readOperations(await bodyOf(parts, request)))))
    case 'DELETE':
      await deleteUser(acting, account)
      return new Response(null, { status: 204 })
    default:
      return json(await show(account))
  }
}

async function groups(
  acting: ScimActing,
  request: Request,
  query: URLSearchParams,
  id: string | undefined,
): Promise<Response> {
  const { parts } = acting
  const show = async (group: Group) =>
    pick(await groupResource(parts, group, isAskedFor(query, 'members')), query)
  if (id === undefined) {
    if (request.method === 'POST') {
      const resource = await show(await createScimGroup(acting, await bodyOf(parts, request)))
      return json(resource, 201, { location: locationOf(resource) })
    }
    requireMethod(request, ['GET'])
    const filter = query.get('filter')
    const found =
      filter === null ? await pageOfGroups(parts, query) : wholeOf(await filterGroups(parts, filter), query)
    return json(page(await Promise.all(found.items.map(show)), found))
  }
  const group = await groupOf(parts, id)
  switch (requireMethod(request, ['GET', 'PUT', 'PATCH', 'DELETE'])) {
    case 'PUT':
      return json(await show(await replaceScimGroup(acting, group, await bodyOf(parts, request))))
    case 'PATCH':
      return json(await show(await patchGroup(acting, group, readOperations(await bodyOf(parts, request)))))
    case 'DELETE':
      await deleteScimGroup(acting, group)
      return new Response(null, { status: 204 })
    default:
      return json(await show(group))
  }
}

function requireMethod(request: Request, methods: readonly string[]): string {
  if (methods.includes(request.method)) return request.method
  throw new ScimFault(405, `It takes ${methods.join(', ')}.`)
}

function locationOf(resource: Resource): string {
  const { meta } = resource
  return isObject(meta) ? String(meta['location']) : ''
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
