// Documents the console's API from its table of routes, so that none can be missing.

import { z } from 'zod'
import type { ErrorCode } from '../../errors/errors.ts'
import { adminAnswers } from '../admin/answers.ts'
import { consoleAnswers } from '../console/answers.ts'
import { adminRoutes, consoleRoutes } from '../console/api.ts'
import type { AdminRoute, ConsoleRoute } from '../console/route.ts'
import { ofAnyRequest, ofBody, ofCaller } from './openapi-errors.ts'
import type { DocumentedRoute } from './openapi.ts'
import type { Operation, Parameter } from './operation.ts'

/** The errors of every route, by who may call it. */
const ofAccess = {
  anyone: [],
  session: ['not_signed_in'],
  operator: ['not_signed_in', 'operator_required'],
} as const satisfies Record<ConsoleRoute['access'], readonly ErrorCode[]>

const who = {
  anyone: 'For everybody.',
  session: 'For whoever is signed in.',
  operator: 'For operators.',
} as const

export const consoleOperations: readonly DocumentedRoute[] = consoleRoutes.map((route) => ({
  method: route.method,
  path: `/console/api/${route.path}`,
  operation: () => Promise.resolve(consoleOperationOf(route)),
}))

function consoleOperationOf(route: ConsoleRoute): Operation {
  const { method, path, summary, access, body, elevated, status = 200 } = route
  const changes = method !== 'GET'
  const words = path.split(/[/:-]+/).filter(Boolean)
  const proof = elevated ? ' The proof of identity must be younger than ten minutes.' : ''
  return {
    id: `console_${method.toLowerCase()}_${words.join('_')}`,
    path: `/console/api/${path.replace(/:(\w+)/g, '{$1}')}`,
    tag: 'Console',
    summary,
    description: `${who[access]}${proof}`,
    security: access === 'anyone' ? 'none' : 'cookie',
    parameters: Array.from(path.matchAll(/:(\w+)/g), ([, name]) => inPath(name!)),
    ...(body === undefined ? {} : { body: { 'application/json': { schema: bodySchema(body) } } }),
    answers: { [status]: answerOf(path, answerSchema(method, path)) },
    errors: [
      ...ofAnyRequest,
      'rate_limit_exceeded',
      'store_unavailable',
      ...ofAccess[access],
      ...(changes ? (['origin_not_allowed'] as const) : []),
      ...(elevated ? (['elevation_required'] as const) : []),
      ...(body === undefined ? [] : ofBody),
      ...(route.errors ?? []),
      ...(path.includes(':') ? (['not_found'] as const) : []),
    ],
  }
}

function answerSchema(method: string, path: string): z.ZodType | undefined {
  return path.startsWith('admin/')
    ? adminAnswers[`${method} ${path.slice('admin/'.length)}`]
    : consoleAnswers[`${method} ${path}`]
}

/** The successful answer of a route: a file, events, a redirect, or JSON. */
function answerOf(path: string, schema: z.ZodType | undefined): Operation['answers'][string] {
  if (path.startsWith('oidc/') || path.endsWith('/callback'))
    return { description: 'The browser is sent on.' }
  if (path.endsWith('.csv'))
    return { description: 'Done.', content: { 'text/csv': { schema: { type: 'string' } } } }
  if (path === 'live')
    return { description: 'Events.', content: { 'text/event-stream': { schema: { type: 'string' } } } }
  const described = schema === undefined ? { type: 'object' } : jsonSchema(schema, 'output')
  return { description: 'Done.', content: { 'application/json': { schema: described } } }
}

function inPath(name: string): Parameter {
  return { name, in: 'path', required: true, description: 'Its id.', schema: { type: 'string' } }
}

function bodySchema(body: z.ZodType): object {
  return jsonSchema(body, 'input')
}

function jsonSchema(type: z.ZodType, io: 'input' | 'output'): object {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(type, { io })
  return schema
}

// Documents the admin API from its table of routes, so that none can be missing.

export const adminOperations: readonly DocumentedRoute[] = adminRoutes.map((route) => ({
  method: route.method,
  path: `/admin/v1/${route.path}`,
  operation: () => Promise.resolve(adminOperationOf(route)),
}))

function adminOperationOf(route: AdminRoute): Operation {
  const { method, path, id, summary, description = '', body, query, status = 200 } = route
  return {
    id: `admin_${id}`,
    path: `/admin/v1/${path.replace(/:(\w+)/g, '{$1}')}`,
    tag: 'Admin',
    summary,
    description,
    security: 'management',
    parameters: [
      ...Array.from(path.matchAll(/:(\w+)/g), ([, name]) => inPath(name!)),
      ...(query === undefined ? [] : parametersOf(query)),
    ],
    ...(body === undefined ? {} : { body: { 'application/json': { schema: bodySchema(body) } } }),
    answers: { [status]: answerOf(path, adminAnswers[`${method} ${path}`]) },
    errors: [
      ...ofAnyRequest,
      ...ofCaller,
      'account_suspended',
      'operator_required',
      ...(body === undefined ? [] : ofBody),
      ...(route.errors ?? []),
      ...(path.includes(':') ? (['not_found'] as const) : []),
    ],
  }
}

function parametersOf(query: z.ZodObject): Parameter[] {
  const { properties = {} } = z.toJSONSchema(query, { io: 'input', unrepresentable: 'any' })
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    description: typeof schema === 'object' ? (schema.description ?? '') : '',
    schema: typeof schema === 'object' ? schema : {},
  }))
}
