// Several requests of SCIM in one (RFC 7644, 3.7), carried out in their order. What comes later may name what an earlier one
// has made, as `bulkId:…`.

import { GatewayError } from '../../errors/errors.ts'
import { errorOf, type ScimAnswer, type ScimRequest } from './exchange.ts'
import { isObject, type Resource, ScimFault, valueOf } from './patch.ts'
import { bulkResponseSchema, mostOperations } from './schemas.ts'

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
