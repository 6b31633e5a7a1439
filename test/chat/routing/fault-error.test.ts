// Every fault of a provider as the error its caller sees: never the caller's 401 or 403, never a provider's 5xx text.

import { expect, test } from 'bun:test'
import {
  anotherModelMayHelp,
  anotherOfferMayHelp,
  errorOf,
  shuttingDown,
} from '../../../src/chat/routing/fault-error.ts'
import type { FaultKind } from '../../../src/conversation/event.ts'
import { errorTable } from '../../../src/errors/errors.ts'
import { faultOf } from '../support.ts'

test.each<[FaultKind, number, string, boolean, boolean, boolean]>([
  // fault, status, code, tells the provider's words, another offer may help, another model may help
  ['invalid-request', 400, 'invalid_request', true, false, false],
  ['context-length', 400, 'context_length_exceeded', true, false, true],
  ['content-filter', 400, 'content_filtered', true, false, false],
  ['unusable-output', 502, 'unusable_answer', true, false, true],
  ['not-found', 404, 'model_unavailable', false, true, true],
  ['credentials', 502, 'upstream_refused_credentials', false, true, true],
  ['quota', 502, 'upstream_refused_credentials', false, true, true],
  ['rate-limited', 429, 'upstream_rate_limited', false, true, true],
  ['overloaded', 503, 'overloaded', false, true, true],
  ['broken', 502, 'upstream_error', false, true, true],
  ['cut', 502, 'upstream_error', false, true, true],
  ['timeout', 504, 'upstream_timeout', false, true, true],
])('%s is %p %s', (kind, status, code, tells, offer, model) => {
  const fault = faultOf(kind, {
    message: 'words of the provider',
    param: 'top_p',
    retryAfterMs: 7,
    providerCode: 'p',
  })
  const error = errorOf(fault, 'lab')
  expect([error.status, error.code]).toEqual([status, code as never])
  expect(error.message).toBe(tells ? 'words of the provider' : errorTable[error.code].means)
  expect(error.details).toMatchObject({
    source: 'provider',
    provider: 'lab',
    param: 'top_p',
    retryAfterMs: 7,
  })
  expect(JSON.stringify(error.details).includes('provider_code')).toBe(tells)
  expect([anotherOfferMayHelp(fault), anotherModelMayHelp(fault, 'end')]).toEqual([offer, model])
})

test('what a content filter refuses goes to another model where the caller says so', () => {
  expect(anotherModelMayHelp(faultOf('content-filter'), 'fallback')).toBe(true)
  expect(anotherModelMayHelp(faultOf('invalid-request'), 'fallback')).toBe(false)
})

test.each([
  [
    'This model does not support assistant message prefill. The conversation must end with a user message.',
    true,
  ],
  ['Prefilling assistant messages is not supported for this model.', true],
  ['Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant', true],
  ['The last message of deepseek-reasoner must be a user message', true],
  ['messages: at least one message is required', false],
  ['Invalid value for max_tokens: must end with a number', false],
])('a model may not go on with an answer: %s %p', (message, refuses) => {
  expect(anotherModelMayHelp(faultOf('invalid-request', { message }), 'end')).toBe(refuses)
})

test('a request that is too large for the provider has the status that says so', () => {
  const tooLarge = faultOf('invalid-request', { status: 413, message: 'Request exceeds the maximum size' })
  expect(errorOf(tooLarge, 'lab')).toMatchObject({
    status: 413,
    code: 'payload_too_large',
    message: 'Request exceeds the maximum size',
  })
  expect(anotherOfferMayHelp(tooLarge)).toBe(false)
})

test('a shutdown is told as one, to be tried again', () => {
  expect(shuttingDown()).toMatchObject({ code: 'overloaded', status: 503, details: { retryAfterMs: 1_000 } })
})
