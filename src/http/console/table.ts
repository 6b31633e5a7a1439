// Finds the route in a table, and reads the body that it takes.

import type { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { safeParsed } from '../../protocols/request/fields.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import { wrongTarget } from '../intake/wrong-target.ts'
import type { HttpParts } from '../parts.ts'
import { emptyBody } from './wire.ts'

/** These tables have no long bodies. */
const maxBodyBytes = 65_536

interface TableRoute {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Below the prefix; `:name` stands for one segment. */
  readonly path: string
  readonly body?: z.ZodType
}

/** The route for a request below `prefix`, and its path parameters. Throws like any unknown address. */
export function routeIn<Route extends TableRoute>(
  table: readonly Route[],
  prefix: string,
  request: Request,
  parts: Pick<HttpParts, 'publicUrl'>,
): { readonly route: Route; readonly params: Record<string, string> } {
  const path = new URL(request.url).pathname.slice(prefix.length)
  const method = request.method === 'HEAD' ? 'GET' : request.method
  for (const route of table) {
    const params = route.method === method ? paramsIn(route.path, path) : undefined
    if (params) return { route, params }
  }
  const names = table.map((route) => ({ method: route.method, path: prefix + route.path }))
  throw wrongTarget(request, names, parts.publicUrl())
}

function paramsIn(pattern: string, path: string): Record<string, string> | undefined {
  const wanted = pattern.split('/')
  const given = path.split('/')
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [at, segment] of wanted.entries()) {
    const there = given[at]!
    if (!segment.startsWith(':')) {
      if (segment !== there) return undefined
    } else if (there === '') return undefined
    else params[segment.slice(1)] = there
  }
  return params
}

/** The body, checked by the route's closed schema. Throws `invalid_request` with the field's name. */
export async function bodyOf(
  parts: Pick<HttpParts, 'body' | 'scheduler'>,
  request: Request,
  route: TableRoute,
): Promise<unknown> {
  const { headers, method } = request
  const { body: limits, scheduler } = parts
  if (method === 'GET' || method === 'HEAD') return undefined
  const isEmpty = Number(headers.get('content-length') ?? 0) === 0 && !headers.has('transfer-encoding')
  if (!route.body && isEmpty) return undefined
  const small = { ...limits, maxBodyBytes: Math.min(limits.maxBodyBytes, maxBodyBytes) }
  refuseByHeaders(headers, small)
  // Forms of other pages can send text/plain without a preflight, but not JSON.
  if (!/^application\/json\s*(;|$)/i.test(headers.get('content-type') ?? ''))
    throw new GatewayError('unsupported_media_type')
  const { json } = await readJson(request, { body: small, scheduler })
  const { success, data, error } = safeParsed(route.body ?? emptyBody, json)
  if (success) return data
  const [issue] = error.issues
  const keys = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : []
  const param = [...(issue?.path ?? []), ...keys].map(String).join('.').slice(0, 256)
  const message =
    keys.length > 0
      ? `There is no field ${param} here.`
      : `${param || 'The body'}: ${issue?.message ?? 'is invalid'}`
  throw new GatewayError('invalid_request', { message, ...(param === '' ? {} : { param }) })
}
