// How routes describe themselves for the API documentation, and which errors they may answer with.

import { z } from 'zod'
import { type ErrorCode, errorTable, GatewayError, renderError, retryHeaders } from '../../errors/errors.ts'
import { messagesError } from '../../protocols/anthropic-messages/inbound/schema.ts'
import { inbound as messages } from '../../protocols/anthropic-messages/inbound/inbound.ts'
import { wireError } from '../../protocols/gemini/inbound/inbound.ts'
import { interactionError, wireError as interactionWireError } from '../../protocols/interactions/inbound.ts'
import { geminiError } from '../../protocols/gemini/inbound/schema.ts'
import { inbound as chat } from '../../protocols/openai-chat/inbound/inbound.ts'

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description: string
  readonly schema: object
  readonly example?: string
}

/** A body by media type. */
export type Content = Readonly<Record<string, object>>

export interface Operation {
  readonly id: string
  /** The path with `{name}` parameters; that of the route by default. */
  readonly path?: string
  readonly tag: Tag
  readonly summary: string
  readonly description: string
  /** `cookie`: the console's session. `either`: a key as bearer or `x-api-key`. `google`: also as `x-goog-api-key`. */
  readonly security: 'key' | 'either' | 'google' | 'session' | 'cookie' | 'management' | 'none'
  readonly parameters?: readonly Parameter[]
  readonly body?: Content
  /** The answers that are not errors, by status. */
  readonly answers: Readonly<Record<string, { readonly description: string; readonly content?: Content }>>
  readonly errors: readonly ErrorCode[]
  /** The contract's own shape by default. */
  readonly errorShape?: ErrorShape
  /** The wire schemas that bodies and answers refer to, by name. */
  readonly schemas?: Readonly<Record<string, z.ZodType | DescribedSchema>>
}

/** A schema with separate descriptions of its fields. */
export interface DescribedSchema {
  readonly schema: z.ZodType
  readonly fields: Readonly<Record<string, string>>
}

export const tags = {
  Chat: 'Calls to models, their price before and their receipt after.',
  Responses: 'Calls in the Responses protocol, and what is stored of them.',
  Models: 'The catalog: every model that is sold here, with its price.',
  Account: 'What a key may know of itself and its account.',
  App: 'The same contract for signed-in accounts, under `/app/v1`. All pools of credit pay, not purchased credit alone.',
  Payments:
    'Where payment processors send their messages. The signature over the raw body is checked before anything of it is read; an address whose secret is not set does not exist.',
  Console:
    'What the console’s pages call. Its bodies are closed, and what changes something must come from its own origin.',
  Admin:
    'What operators do, for programs: with a management key (`weir keys create --management`) as the bearer, which makes no calls, as API keys administer nothing. Bodies and parameters are closed; every change is recorded.',
  Service: 'The gateway itself.',
} as const

type Tag = keyof typeof tags

export function json(schema: string, example?: object): Content {
  return { 'application/json': { ...schemaOf(schema), ...(example === undefined ? {} : { example }) } }
}

export function schemaOf(name: string) {
  return { schema: { $ref: `#/components/schemas/${name}` } }
}

export function text(name: string, description: string, example?: string): Parameter {
  return { name, in: 'query', ...textValue(description, example) }
}

/** A part of the path. */
export function inPath(name: string, description: string, example?: string): Parameter {
  return { name, in: 'path', required: true, ...textValue(description, example) }
}

function textValue(description: string, example: string | undefined) {
  return { description, schema: { type: 'string' }, ...(example === undefined ? {} : { example }) }
}

/** Headers of every request that costs money. */
export const callHeaders: readonly Parameter[] = [
  {
    name: 'Idempotency-Key',
    in: 'header',
    description:
      'A request that is sent again with the same key and body is not served again: it gets the answer of the first, for nothing, with `idempotency-replayed: true`.',
    schema: { type: 'string', maxLength: 255 },
  },
  {
    name: 'x-weir-tags',
    in: 'header',
    description:
      'What the call is for, by which usage is divided: at most 16 pairs, names of at most 64 characters and values of at most 512, percent-encoded where they have a comma, a percent sign or anything beyond ASCII. `user` is who it is made for.',
    schema: { type: 'string' },
    example: 'team=search,feature=chat',
  },
]

// Kinds of fields that many answers have.

export const usd = z.string().describe('US dollars, an exact decimal string.')
export const time = z.string().describe('ISO 8601, UTC.')
export const count = z.int().min(0)
export const milliseconds = z.number().describe('Milliseconds.')

// What the schemas of answers are made of.

/** By method and path, as in the table of routes. */
export type Answers = Readonly<Record<string, z.ZodType>>

/** Data within a larger answer. */
export const data = <Item extends z.ZodType>(item: Item) => z.strictObject({ data: item })

/** A page of a list with the cursor of the next. */
export const pageOf = <Item extends z.ZodType>(item: Item) =>
  z.strictObject({ data: z.array(item), has_more: z.boolean(), next_cursor: z.string().nullable() })

/** What a schema describes, for who builds it and who reads it. */
export type Wire<Schema extends z.ZodType> = DeepReadonly<z.output<Schema>>

/** Such a page, of items whose type is known. */
export type Page<Item> = Omit<Wire<ReturnType<typeof pageOf<z.ZodType>>>, 'data'> & {
  readonly data: readonly Item[]
}

type DeepReadonly<Value> = Value extends object
  ? { readonly [Key in keyof Value]: DeepReadonly<Value[Key]> }
  : Value

// Error answers in the API documentation: a response per status, with an example per code.

/** Errors of any request, before a route handles it. */
export const ofAnyRequest = [
  'invalid_request',
  'headers_too_large',
  'method_not_allowed',
  'internal_error',
] as const satisfies readonly ErrorCode[]

/** Of a request that names its caller. */
export const ofCaller = [
  'missing_api_key',
  'invalid_api_key',
  'api_key_revoked',
  'api_key_paused',
  'api_key_expired',
  'network_not_allowed',
  'store_unavailable',
] as const satisfies readonly ErrorCode[]

/** Of a request with a JSON body. */
export const ofBody = ['payload_too_large', 'unsupported_media_type'] as const satisfies readonly ErrorCode[]

/** Of a request that names a model. */
export const ofModel = [
  'invalid_model_id',
  'model_not_found',
  'model_retired',
] as const satisfies readonly ErrorCode[]

/** Of a chat body, beyond what is wrong with its JSON. */
export const ofChatBody = [
  ...ofModel,
  'unsupported_parameter',
  'wrong_endpoint',
  'no_provider_available',
] as const satisfies readonly ErrorCode[]

/** Of a call that is admitted, paid for and sent to a provider. */
export const ofCall = [
  'context_length_exceeded',
  'content_filtered',
  'model_unavailable',
  'url_not_allowed',
  'insufficient_credits',
  'credits_reserved',
  'plan_required',
  'account_suspended',
  'rate_limit_exceeded',
  'upstream_rate_limited',
  'upstream_error',
  'unusable_answer',
  'upstream_refused_credentials',
  'guardrail_denied',
  'guardrail_failed',
  'overloaded',
  'upstream_timeout',
  'client_gone',
] as const satisfies readonly ErrorCode[]

export const ofKeyedCall = [
  'purchased_credits_required',
  'key_limit_exceeded',
  'budget_exceeded',
  'model_not_allowed',
] as const satisfies readonly ErrorCode[]

/** Of a request with an Idempotency-Key. */
export const ofRepeat = [
  'idempotency_conflict',
  'idempotency_in_progress',
  'idempotency_answer_lost',
] as const satisfies readonly ErrorCode[]

/** For paid chats of any protocol. */
export const ofPaidChat = [
  ...ofAnyRequest,
  ...ofCaller,
  ...ofBody,
  ...ofChatBody,
  ...ofKeyedCall,
  ...ofCall,
  ...ofRepeat,
] as const satisfies readonly ErrorCode[]

const requestId = 'req_01a1fcaa216272aa8d5548c4e8af6c09'

export const errorSchema = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable().describe('The field of the request that is at fault.'),
    code: z.string().describe('One of the codes of GET /v1/errors.'),
    metadata: z.looseObject({
      source: z.enum(['gateway', 'provider']),
      provider: z.string().optional(),
      request_id: z.string(),
      retryable: z.boolean(),
      retry_after: z.int().optional().describe('Seconds.'),
      docs_url: z.string(),
    }),
  }),
})

/** The shapes of errors, each with its schema's name. */
const shapes = {
  own: { schema: 'Error', render: chat.error },
  messages: { schema: 'MessagesError', render: messages.error },
  gemini: { schema: 'GeminiError', render: wireError },
  interactions: { schema: 'InteractionError', render: interactionWireError },
} as const

export type ErrorShape = keyof typeof shapes

/** The wire schemas of these shapes, by the names that answers refer to. */
export const errorSchemas = {
  Error: errorSchema,
  MessagesError: messagesError,
  GeminiError: geminiError,
  InteractionError: interactionError,
}

/** The `responses` of an operation with these error codes, by status. */
export function errorResponses(
  codes: readonly ErrorCode[],
  shape: ErrorShape = 'own',
): Record<string, object> {
  const statuses = [...new Set(codes.map((code) => errorTable[code].status))].toSorted((a, b) => a - b)
  return Object.fromEntries(
    statuses.map((status) => [
      String(status),
      errorResponse(
        [...new Set(codes)].filter((code) => errorTable[code].status === status),
        shape,
      ),
    ]),
  )
}

function errorResponse(codes: readonly ErrorCode[], shape: ErrorShape): object {
  const { schema, render } = shapes[shape]
  const description = codes
    .map((code) => `- [\`${code}\`](/docs/errors#${code}): ${errorTable[code].means}`)
    .join('\n')
  const headers = new Set(codes.flatMap((code) => Object.keys(retryHeaders(new GatewayError(code)))))
  return {
    description,
    headers: {
      'x-request-id': { $ref: '#/components/headers/RequestId' },
      'x-should-retry': { $ref: '#/components/headers/ShouldRetry' },
      ...(headers.has('retry-after') ? { 'retry-after': { $ref: '#/components/headers/RetryAfter' } } : {}),
    },
    content: {
      'application/json': {
        schema: { $ref: `#/components/schemas/${schema}` },
        examples: Object.fromEntries(
          codes.map((code) => [code, { value: render(renderError(new GatewayError(code), requestId)) }]),
        ),
      },
    },
  }
}
