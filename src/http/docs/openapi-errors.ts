// Error answers in the API documentation: a response per status, with an example per code.

import { z } from 'zod'
import { type ErrorCode, errorTable, GatewayError, renderError, retryHeaders } from '../../errors/errors.ts'
import { messagesError } from '../../protocols/anthropic-messages/inbound/schema.ts'
import { inbound as messages } from '../../protocols/anthropic-messages/inbound/inbound.ts'
import { wireError } from '../../protocols/gemini/inbound/inbound.ts'
import { interactionError, wireError as interactionWireError } from '../../protocols/interactions/inbound.ts'
import { geminiError } from '../../protocols/gemini/inbound/schema.ts'
import { inbound as chat } from '../../protocols/openai-chat/inbound/inbound.ts'

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
