// Generates the OpenAPI 3.1 document from the routes' own descriptions and the error table.

import { z } from 'zod'
import { version } from '../../version.ts'
import type { Route } from '../route.ts'
import {
  type DescribedSchema,
  errorResponses,
  errorSchemas,
  inPath,
  ofAnyRequest,
  ofBody,
  ofCaller,
  type Operation,
  type Parameter,
  tags,
} from './operation.ts'
import type { ErrorCode } from '../../errors/errors.ts'
import { adminAnswers } from '../admin/answers.ts'
import { consoleAnswers } from '../console/answers.ts'
import { adminRoutes, consoleRoutes } from '../console/api.ts'
import type { AdminRoute, ConsoleRoute } from '../console/route.ts'

export type DocumentedRoute = Pick<Route, 'method' | 'path' | 'operation'>

export interface OpenApiDocument {
  readonly openapi: string
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly servers: readonly { readonly url: string; readonly description: string }[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>
    readonly headers: Readonly<Record<string, object>>
    readonly securitySchemes: Readonly<Record<string, object>>
  }
}

/** The document of these routes, without those that have no operation. Built anew on each call. */
export async function openApiDocument(routes: readonly DocumentedRoute[]): Promise<OpenApiDocument> {
  const described = await Promise.all(
    routes.map(async ({ method, path, operation }) => {
      if (operation === undefined) return []
      const documented = await operation()
      return [{ method: method.toLowerCase(), path: documented.path ?? path, operation: documented }]
    }),
  )
  const operations = described.flat()
  return {
    openapi: '3.1.1',
    info: { title: 'Weir API', version, description: introduction },
    servers: [{ url: '/', description: 'This gateway' }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths: pathsOf(operations),
    components: { schemas: schemas(operations), headers, securitySchemes },
  }
}

const introduction = `One API in front of every provider of language models, with prepaid credit, and every call charged exactly once.

Clients of the chat-completions protocol, and of the Responses protocol, work when their base URL and key change: the base URL is this address and \`/v1\`, the key goes into \`Authorization: Bearer\`. So do clients of Anthropic’s Messages protocol, for any model: their base URL is this address, and the key may also go into \`x-api-key\`.

Model ids are \`provider/model_name\`. \`sim/echo\` answers without any provider key or internet: it repeats what it is told, at a price, and \`sim/error-429\`, \`sim/cut\` and others misbehave on request.

Every answer under \`/v1\` has an \`x-request-id\`. It names the call in its receipt, in the log and in errors. Amounts of money are decimal strings in US dollars, except \`usage.cost\`, which is a number.

All errors have one shape (under \`/v1/messages\` Anthropic’s), and [one page](/docs/errors) tells what each code means.`

interface PlacedOperation {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** The wire schemas by the names that the operations use. */
function schemas(operations: readonly PlacedOperation[]): Record<string, object> {
  const wire = Object.assign(
    {},
    errorSchemas,
    ...operations.map(({ operation }) => operation.schemas),
  ) as Record<string, z.ZodType | DescribedSchema>
  return Object.fromEntries(
    Object.entries(wire).map(([name, schema]) => [
      name,
      schema instanceof z.ZodType ? schemaOf(schema) : describeSchema(schema),
    ]),
  )
}

function describeSchema({ schema, fields }: DescribedSchema): object {
  const made = schemaOf(schema) as { properties: Record<string, object> }
  for (const [name, description] of Object.entries(fields)) {
    const field = made.properties[name]
    if (field) made.properties[name] = { ...field, description }
  }
  return made
}

/** `input` for answers too: it leaves objects open, because fields may be added to answers. */
function schemaOf(schema: z.ZodType): object {
  return jsonSchema(schema, 'input')
}

function pathsOf(all: readonly PlacedOperation[]): OpenApiDocument['paths'] {
  const paths: Record<string, Record<string, object>> = {}
  for (const { method, path, operation } of all)
    paths[path] = { ...paths[path], [method]: operationObject(operation) }
  return paths
}

function operationObject(operation: Operation): object {
  const { id, tag, summary, description, security, parameters, body, errors } = operation
  const identified = { headers: { 'x-request-id': { $ref: '#/components/headers/RequestId' } } }
  const answered = Object.entries(operation.answers).map(([status, answer]) => [
    status,
    { ...answer, ...identified },
  ])
  return {
    operationId: id,
    tags: [tag],
    summary,
    description,
    security: securityOf(security),
    ...(parameters === undefined ? {} : { parameters }),
    ...(body === undefined ? {} : { requestBody: { required: true, content: body } }),
    responses: { ...errorResponses(errors, operation.errorShape), ...Object.fromEntries(answered) },
  }
}

/** Alternative schemes. */
function securityOf(security: Operation['security']): object[] {
  if (security === 'none') return []
  if (security === 'either') return [{ key: [] }, { apiKey: [] }]
  return security === 'google' ? [{ key: [] }, { googleKey: [] }] : [{ [security]: [] }]
}

const headers = {
  RequestId: {
    description: 'The id of the request: give it to GET /v1/generation, or to whoever runs this gateway.',
    schema: { type: 'string' },
  },
  ShouldRetry: {
    description: 'Whether the same request may succeed later. Client libraries obey it.',
    schema: { type: 'string', enum: ['true', 'false'] },
  },
  RetryAfter: {
    description: 'Seconds to wait before the next try; `retry-after-ms` says the same in milliseconds.',
    schema: { type: 'integer' },
  },
}

const securitySchemes = {
  key: {
    type: 'http',
    scheme: 'bearer',
    description:
      'An API key, `sk-weir-live-…` or `sk-weir-test-…`. `weir serve` prints one on its first run.',
  },
  apiKey: {
    type: 'apiKey',
    in: 'header',
    name: 'x-api-key',
    description: 'The same key, as Anthropic’s clients send it. Under `/v1/messages` only.',
  },
  googleKey: {
    type: 'apiKey',
    in: 'header',
    name: 'x-goog-api-key',
    description: 'The same key, as Google’s clients send it. Under `/v1beta` only.',
  },
  cookie: {
    type: 'apiKey',
    in: 'cookie',
    name: 'weir_session_8787',
    description:
      'The session of the console: `weir_session`, or `__Host-weir` where it is reached by https (`__Secure-weir` ' +
      'below a path), then `_` and the port of its address unless that is the usual one.',
  },
  management: {
    type: 'http',
    scheme: 'bearer',
    description: 'A management key, `mk-weir-…`, of an operator: `weir keys create --management`.',
  },
  session: {
    type: 'http',
    scheme: 'bearer',
    description: 'The token of a signed-in account’s session: `weir accounts session`.',
  },
}

// Documents the console's API from its table of routes, so that none can be missing.

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
  const { method, path, access, elevated } = route
  const words = path.split(/[/:-]+/).filter(Boolean)
  const proof = elevated ? ' The proof of identity must be younger than ten minutes.' : ''
  return operationOf('/console/api/', route, answerSchema(method, path), {
    id: `console_${method.toLowerCase()}_${words.join('_')}`,
    tag: 'Console',
    description: `${who[access]}${proof}`,
    security: access === 'anyone' ? 'none' : 'cookie',
    errors: [
      'rate_limit_exceeded',
      'store_unavailable',
      ...ofAccess[access],
      ...(method === 'GET' ? [] : (['origin_not_allowed'] as const)),
      ...(elevated ? (['elevation_required'] as const) : []),
    ],
  })
}

function answerSchema(method: string, path: string): z.ZodType | undefined {
  return path.startsWith('admin/')
    ? adminAnswers[`${method} ${path.slice('admin/'.length)}`]
    : consoleAnswers[`${method} ${path}`]
}

/** The operation of a route of either table: `own` is what it does not share with all of them. */
function operationOf(
  prefix: string,
  { path, summary, body, status = 200, errors = [] }: ConsoleRoute | AdminRoute,
  answer: z.ZodType | undefined,
  own: Omit<Operation, 'path' | 'summary' | 'body' | 'answers'>,
): Operation {
  const named = Array.from(path.matchAll(/:(\w+)/g), ([, name]) => inPath(name!, 'Its id.'))
  return {
    ...own,
    path: `${prefix}${path.replace(/:(\w+)/g, '{$1}')}`,
    summary,
    parameters: [...named, ...(own.parameters ?? [])],
    ...(body === undefined ? {} : { body: { 'application/json': { schema: jsonSchema(body, 'input') } } }),
    answers: { [status]: answerOf(path, answer) },
    errors: [
      ...ofAnyRequest,
      ...own.errors,
      ...(body === undefined ? [] : ofBody),
      ...errors,
      ...(named.length === 0 ? [] : (['not_found'] as const)),
    ],
  }
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
  const { method, path, id, description = '', query } = route
  return operationOf('/admin/v1/', route, adminAnswers[`${method} ${path}`], {
    id: `admin_${id}`,
    tag: 'Admin',
    description,
    security: 'management',
    parameters: query === undefined ? [] : parametersOf(query),
    errors: [...ofCaller, 'account_suspended', 'operator_required'],
  })
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
