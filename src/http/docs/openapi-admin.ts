// Documents the admin API from its table of routes, so that none can be missing.

import { z } from 'zod'
import type { AdminRoute } from '../admin/route.ts'
import { adminRoutes } from '../admin/routes.ts'
import { adminAnswers } from './admin-answers.ts'
import { answerOf, bodySchema, inPath } from './openapi-console.ts'
import { ofAnyRequest, ofBody, ofCaller } from './openapi-errors.ts'
import type { DocumentedRoute } from './openapi.ts'
import type { Operation, Parameter } from './operation.ts'

export const adminOperations: readonly DocumentedRoute[] = adminRoutes.map((route) => ({
  method: route.method,
  path: `/admin/v1/${route.path}`,
  operation: () => Promise.resolve(operationOf(route)),
}))

function operationOf(route: AdminRoute): Operation {
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
