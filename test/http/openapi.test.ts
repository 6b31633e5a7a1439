// The API documentation tells the truth: every route is in it and nothing else, it is a sound document, its examples
// fit its schemas, and so do the answers that the gateway really gives.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Validator } from '@cfworker/json-schema'
import type { z } from 'zod'
import { listedModelSchema, modelListSchema } from '../../src/catalog/wire.ts'
import { errorTable } from '../../src/errors/errors.ts'
import { adminOperations, consoleOperations, openApiDocument } from '../../src/http/docs/openapi.ts'
import { errorSchema } from '../../src/http/docs/operation.ts'
import { api, createRoutes } from '../../src/http/routes.ts'
import * as parts from '../../src/http/service/documentation.ts'
import { requestListSchema } from '../../src/http/v1/account-documentation.ts'
import { creditsSchema, keySchema, receiptSchema } from '../../src/http/v1/account-documentation.ts'
import { estimateSchema } from '../../src/http/v1/chat-documentation.ts'
import {
  chatRequests,
  completionFields,
  completionRequests,
  requestFields,
} from '../../src/http/v1/chat-examples.ts'
import { geminiRequests } from '../../src/http/v1/gemini-documentation.ts'
import { messageFields, messageRequests } from '../../src/http/v1/messages-documentation.ts'
import { responseFields, responseRequests } from '../../src/http/v1/responses-documentation.ts'
import {
  message,
  messageEvent,
  messagesError,
  tokenCount,
} from '../../src/protocols/anthropic-messages/inbound/schema.ts'
import { externalProcessorIds } from '../../src/payments/top-up.ts'
import type { HttpParts } from '../../src/http/parts.ts'
import type { ServedWeir } from '../support/run-weir.ts'
import { serveWeir } from '../support/serve-weir.ts'

interface MediaType {
  readonly schema: object
  readonly example?: unknown
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>
}

interface Response {
  readonly description: string
  readonly content?: Readonly<Record<string, MediaType>>
}

interface OperationObject {
  readonly operationId: string
  readonly tags: readonly string[]
  readonly summary: string
  readonly security: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly { name: string; in: string; required?: boolean; schema: object }[]
  readonly requestBody?: { readonly content: Readonly<Record<string, MediaType>> }
  readonly responses: Readonly<Record<string, Response>>
}

const document = await openApiDocument([...api, ...consoleOperations, ...adminOperations])
// What a reader of the document gets: plain JSON.
const plain = JSON.parse(JSON.stringify(document)) as typeof document

const described = Object.entries(plain.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    name: `${method.toUpperCase()} ${path}`,
    path,
    operation: operation as OperationObject,
  })),
)

describe('the document', () => {
  test('has every route of the gateway, and no other', () => {
    // Routes are only listed, so nothing of the service is asked for.
    const registered = createRoutes({} as HttpParts)
      .routes.filter(({ path }) => path !== '/*')
      .map(({ method, path }) => `${method} ${path}`)
    const pages = [
      '/',
      '/client-metadata.json',
      '/console',
      '/console/*',
      '/docs',
      '/docs/*',
      ...externalProcessorIds.map((id) => `/hooks/${id}/callback`),
    ].map((path) => `GET ${path}`)
    const simulated = ['GET', 'POST', 'POST'].map(
      (method, at) => `${method} /hooks/sim/:reference${['', '/paid', '/failed'][at]}`,
    )
    const listed = api.map(({ method, path }) => `${method} ${path}`)
    // SCIM describes itself, at /scim/v2/Schemas.
    const tables = ['GET /console/api/*', 'ALL /console/api/*', 'ALL /admin/v1/*', 'ALL /scim/v2/*']
    expect(registered.toSorted()).toEqual([...listed, ...pages, ...simulated, ...tables].toSorted())
    expect(described).toHaveLength(api.length + consoleOperations.length + adminOperations.length)
  })

  test('says which version of OpenAPI it is written in, and names what it describes', () => {
    expect(plain.openapi).toMatch(/^3\.1\.\d+$/)
    expect(plain.info.title).not.toBe('')
    expect(plain.info.version).toMatch(/^\d+\.\d+\.\d+/)
  })

  test('has no reference that leads nowhere', () => {
    const lost = referencesIn(plain).filter((reference) => resolve(reference) === undefined)
    expect(referencesIn(plain).length).toBeGreaterThan(50)
    expect(lost).toEqual([])
  })

  test('names each operation once, under a tag and a scheme that it defines', () => {
    const ids = described.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    const tags = plain.tags.map(({ name }) => name)
    for (const { operation } of described) {
      expect(tags).toContain(operation.tags[0]!)
      expect(operation.summary).not.toBe('')
      for (const scheme of operation.security.flatMap((one) => Object.keys(one))) {
        expect(Object.keys(plain.components.securitySchemes)).toContain(scheme)
      }
    }
  })

  test.each(described.map(({ name, path, operation }) => [name, path, operation] as const))(
    '%s declares the parameters of its path, and describes every answer',
    (_name, path, { parameters = [], responses }) => {
      const inPath = parameters.filter((parameter) => parameter.in === 'path')
      expect(inPath.map(({ name }) => name)).toEqual(
        Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name!),
      )
      expect(inPath.every(({ required }) => required === true)).toBe(true)
      expect(Object.keys(responses).some((status) => /^(101|20[0-2]|302)$/.test(status))).toBe(true)
      for (const [status, response] of Object.entries(responses)) {
        expect(status).toMatch(/^[1-5]\d\d$/)
        expect(response.description).not.toBe('')
      }
    },
  )

  test.each([
    ['ChatCompletionRequest', requestFields],
    ['TextCompletionRequest', completionFields],
    ['MessagesRequest', messageFields],
    ['CountTokensRequest', messageFields],
  ])('tells what each field of a %s does', (name, fields) => {
    const { properties } = plain.components.schemas[name] as { properties: object }
    expect(Object.keys(fields).toSorted()).toEqual(Object.keys(properties).toSorted())
  })

  test('tells what each field of a response’s request does', () => {
    const { properties } = plain.components.schemas['ResponseRequest'] as { properties: object }
    expect(Object.keys(responseFields).toSorted()).toEqual(Object.keys(properties).toSorted())
  })

  test('describes each JSON answer of the console and of operators', () => {
    const bare = described
      .filter(({ path }) => /^\/(console|admin)\//.test(path))
      .filter(({ operation }) =>
        Object.entries(operation.responses).some(([status, { content }]) => {
          const schema = content?.['application/json']?.schema
          return status.startsWith('2') && schema !== undefined && Object.keys(schema).length === 1
        }),
      )
    expect(bare.map(({ name }) => name)).toEqual([])
  })

  test('has an example of every error that an operation may answer with', () => {
    const shown = new Set<string>()
    for (const { operation } of described) {
      for (const [status, { content }] of Object.entries(operation.responses)) {
        for (const [code, { value }] of Object.entries(content?.['application/json']?.examples ?? {})) {
          shown.add(code)
          // Google's shape has its own codes, and ours as the reason.
          const { details = [] } = (value as { error: { details?: { reason: string }[] } }).error
          const told = details[0]?.reason ?? (value as { error: { code: string } }).error.code
          expect(told).toBe(code)
          expect(String(errorTable[code as keyof typeof errorTable].status)).toBe(status)
        }
      }
    }
    expect([...shown].toSorted()).toEqual(Object.keys(errorTable).toSorted())
  })

  // The page that shows it takes some of its words into attributes of HTML.
  test('introduces itself without quotes and angle brackets', () => {
    expect(plain.info.description).not.toMatch(/["'<>]/)
  })
})

describe('the examples', () => {
  const bodies = described.flatMap(({ name, operation }) => [
    ...mediaTypes(`${name}: the request`, operation.requestBody),
    ...Object.entries(operation.responses).flatMap(([status, response]) =>
      mediaTypes(`${name}: ${status}`, response),
    ),
  ])
  const examples = bodies.flatMap(([name, type, media]) => [
    ...(media.example === undefined ? [] : [[name, type, media.schema, media.example] as const]),
    ...Object.values(media.examples ?? {}).map(({ value }) => [name, type, media.schema, value] as const),
  ])

  test('are there', () => {
    expect(examples.length).toBeGreaterThan(50)
  })

  test('fit their schemas, streams chunk by chunk', () => {
    const wrong = examples.flatMap(([name, type, schema, example]) =>
      (type === 'text/event-stream' ? partsOf(String(example)) : [example])
        .map((value) => validate(schema, value))
        .filter((errors) => errors.length > 0)
        .map((errors) => [name, errors]),
    )
    expect(wrong).toEqual([])
  })
})

describe('the gateway', () => {
  let weir: ServedWeir
  let completed = ''

  beforeAll(async () => {
    weir = await serveWeir()
    const response = await send('/v1/chat/completions', chatRequests['whole']!.value)
    completed = response.headers.get('x-request-id') ?? ''
    await response.arrayBuffer()
  }, 30_000)
  afterAll(() => weir?.stop())

  function send(path: string, body?: object) {
    return fetch(weir.origin + path, {
      headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
  }

  // Parsing drops what a schema does not know, so equality says that nothing is left untold.
  test.each([
    ['/v1/models', modelListSchema],
    ['/v1/models/sim/echo', listedModelSchema],
    ['/v1/key', keySchema],
    ['/v1/credits', creditsSchema],
    ['/v1/providers', parts.providersSchema],
    ['/v1/requests', requestListSchema],
    ['/v1/errors', parts.errorListSchema],
    ['/v1/nothing', errorSchema],
    ['/v1/messages', messagesError],
    ['/healthz', parts.aliveSchema],
    ['/readyz', parts.readinessSchema],
  ] as [string, z.ZodType][])('answers %s as documented', async (path, schema) => {
    const body: unknown = await (await send(path)).json()
    expect(schema.parse(body)).toEqual(body)
  })

  test('answers with receipts as documented', async () => {
    const body: unknown = await (await send(`/v1/generation?id=${completed}`)).json()
    expect(receiptSchema.parse(body)).toEqual(body as z.infer<typeof receiptSchema>)
    expect(body).toMatchObject({ data: { id: completed, state: 'settled' } })
  })

  test.each(Object.entries(chatRequests))('serves the example request %s', async (_name, { value }) => {
    const response = await send('/v1/chat/completions', value)
    expect(response.status).toBe(200)
    const text = await response.text()
    const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    const schema = { $ref: `#/components/schemas/${streamed ? 'ChatCompletionChunk' : 'ChatCompletion'}` }
    const parts = streamed ? chunksOf(text) : [JSON.parse(text)]
    expect(parts.flatMap((part) => validate(schema, part))).toEqual([])
  })

  test.each(Object.entries(completionRequests))(
    'serves the example %s of a prompt',
    async (_name, { value }) => {
      const response = await send('/v1/completions', value)
      expect(response.status).toBe(200)
      const text = await response.text()
      const parts = text.startsWith('data: ') ? chunksOf(text) : [JSON.parse(text)]
      const schema = { $ref: '#/components/schemas/TextCompletion' }
      expect(parts.flatMap((part) => validate(schema, part))).toEqual([])
    },
  )

  test.each(Object.entries(geminiRequests))('serves the example %s of contents', async (_name, { value }) => {
    const { origin } = new URL(weir.baseUrl)
    const response = await fetch(`${origin}/v1beta/models/sim/echo:generateContent`, {
      method: 'POST',
      headers: { 'x-goog-api-key': weir.key, 'content-type': 'application/json' },
      body: JSON.stringify(value),
    })
    const body: unknown = await response.json()
    expect(validate({ $ref: '#/components/schemas/GenerateContentResponse' }, body)).toEqual([])
  })

  test.each(Object.entries(messageRequests))('serves the example message %s', async (_name, { value }) => {
    const response = await send('/v1/messages', value)
    expect(response.status).toBe(200)
    const text = await response.text()
    const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    const schema = { $ref: `#/components/schemas/${streamed ? 'MessageEvent' : 'Message'}` }
    const parts = streamed ? eventsOf(text) : [JSON.parse(text)]
    expect(parts.flatMap((part) => validate(schema, part))).toEqual([])
    // Parsing drops what a schema does not know, so equality says that nothing is left untold.
    const known: z.ZodType = streamed ? messageEvent : message
    expect(parts.map((part) => known.parse(part))).toEqual(parts)
  })

  test.each(Object.entries(messageRequests))('counts the example message %s', async (_name, { value }) => {
    const body: unknown = await (await send('/v1/messages/count_tokens', value)).json()
    expect(tokenCount.parse(body)).toEqual(body as z.infer<typeof tokenCount>)
  })

  test.each(Object.entries(chatRequests))('estimates the example request %s', async (_name, { value }) => {
    const body: unknown = await (await send('/v1/estimate', value)).json()
    expect(estimateSchema.parse(body)).toEqual(body as z.infer<typeof estimateSchema>)
  })

  test.each(Object.entries(responseRequests))('serves the example response %s', async (_name, { value }) => {
    const response = await send('/v1/responses', value)
    expect(response.status).toBe(200)
    const text = await response.text()
    const streamed = response.headers.get('content-type')?.startsWith('text/event-stream') === true
    const schema = { $ref: `#/components/schemas/${streamed ? 'ResponseEvent' : 'Response'}` }
    const parts = streamed ? eventsOf(text) : [JSON.parse(text)]
    expect(parts.flatMap((part) => validate(schema, part))).toEqual([])
  })

  test.each(Object.entries(responseRequests))('counts the example response %s', async (_name, { value }) => {
    const body: unknown = await (await send('/v1/responses/input_tokens', value)).json()
    expect(validate({ $ref: '#/components/schemas/InputTokenCount' }, body)).toEqual([])
  })

  test('gives, lists and deletes what it has stored, as documented', async () => {
    const { id } = (await (await send('/v1/responses', responseRequests['whole']!.value)).json()) as {
      id: string
    }
    const got: unknown = await (await send(`/v1/responses/${id}`)).json()
    expect(validate({ $ref: '#/components/schemas/Response' }, got)).toEqual([])
    const items: unknown = await (await send(`/v1/responses/${id}/input_items`)).json()
    expect(validate({ $ref: '#/components/schemas/ResponseItemList' }, items)).toEqual([])
    const headers = { authorization: `Bearer ${weir.key}` }
    const gone = await fetch(`${weir.baseUrl}/responses/${id}`, { method: 'DELETE', headers })
    expect(validate({ $ref: '#/components/schemas/DeletedResponse' }, await gone.json())).toEqual([])
  })

  test.each(Object.entries({ ...chatRequests, response: responseRequests['whole']! }))(
    'estimates the example request %s',
    async (_name, { value }) => {
      const body: unknown = await (await send('/v1/estimate', value)).json()
      expect(estimateSchema.parse(body)).toEqual(body as z.infer<typeof estimateSchema>)
    },
  )
})

function mediaTypes(
  name: string,
  body: { readonly content?: Readonly<Record<string, MediaType>> } | undefined,
) {
  return Object.entries(body?.content ?? {}).map(([type, media]) => [name, type, media] as const)
}

/** The parts of a stream of any of the protocols. */
function partsOf(stream: string): unknown[] {
  return stream.startsWith('event: ') ? eventsOf(stream) : chunksOf(stream)
}

/** The events of a stream whose protocol names them: each as its type. */
function eventsOf(stream: string): { type: string }[] {
  const events = Array.from(stream.matchAll(/^event: ([\w.]+)\ndata: (.*)\n\n/gm), ([, name, data]) => {
    const event = JSON.parse(data!) as { type: string }
    expect(event.type).toBe(name!)
    return event
  })
  expect(['message_stop', 'response.completed']).toContain(events.at(-1)!.type)
  return events
}

function chunksOf(stream: string): unknown[] {
  const data = stream.split('\n').flatMap((line) => (line.startsWith('data: ') ? [line.slice(6)] : []))
  expect(data.pop()).toBe('[DONE]')
  return data.map((json) => JSON.parse(json) as unknown)
}

// By their JSON: a validator looks all references of the document up when it is made, and streams have many chunks.
const validators = new Map<string, Validator>()

/** What is wrong with a value, by a schema of the document. */
function validate(schema: object, value: unknown): string[] {
  const key = JSON.stringify(schema)
  const made = validators.get(key)
  const validator = made ?? new Validator({ ...schema, components: plain.components }, '2020-12', false)
  if (made === undefined) validators.set(key, validator)
  return validator
    .validate(value)
    .errors.map(({ instanceLocation, error }) => `${instanceLocation}: ${error}`)
}

function referencesIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    key === '$ref' && typeof inner === 'string' ? [inner] : referencesIn(inner),
  )
}

function resolve(reference: string): unknown {
  if (!reference.startsWith('#/')) return undefined
  let at: unknown = plain
  for (const part of reference.slice(2).split('/')) {
    at = typeof at === 'object' && at !== null ? Reflect.get(at, part) : undefined
  }
  return at
}
