// Any failure as the one error response of the wire contract.

import { asGatewayError, renderError, retryHeaders } from '../errors.ts'

/** The response for a thrown thing. What is not a GatewayError becomes `internal_error`; its cause is for the log. */
export function errorResponse(thrown: unknown, requestId: string): Response {
  const error = asGatewayError(thrown)
  return Response.json(renderError(error, requestId), {
    status: error.status,
    headers: { 'x-request-id': requestId, ...retryHeaders(error) },
  })
}

/** A new id for a request: ordered by time, so that rows of the same moment lie together. */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7().replaceAll('-', '')}`
}
