// A provider's fault as the error a client sees. A provider's 401 or 403 is never the caller's.

import type { Fault, FaultKind } from '../conversation/event.ts'
import { GatewayError, errorTable, type ErrorCode } from '../errors.ts'
import { fault } from '../protocols/faults.ts'

const codes: Readonly<Record<FaultKind, ErrorCode>> = {
  'invalid-request': 'invalid_request',
  'context-length': 'context_length_exceeded',
  'content-filter': 'content_filtered',
  'not-found': 'model_not_found',
  credentials: 'upstream_refused_credentials',
  quota: 'upstream_refused_credentials',
  'rate-limited': 'upstream_rate_limited',
  overloaded: 'overloaded',
  broken: 'upstream_error',
  cut: 'upstream_error',
  timeout: 'upstream_timeout',
}

/** Provider text reaches the caller only for the caller's own mistakes; on 5xx and 429 it is masked. */
const tellsMessage: ReadonlySet<FaultKind> = new Set(['invalid-request', 'context-length', 'content-filter'])

export function codeOf(fault: Fault): ErrorCode {
  // Too many bytes are a mistake of the request that has a status of its own, which clients know how to meet.
  if (fault.kind === 'invalid-request' && fault.status === 413) return 'payload_too_large'
  return codes[fault.kind]
}

export function errorOf(fault: Fault, provider: string): GatewayError {
  const code = codeOf(fault)
  const told = tellsMessage.has(fault.kind) && fault.message !== ''
  return new GatewayError(code, {
    message: told ? fault.message : errorTable[code].means,
    source: 'provider',
    provider,
    ...(fault.param === undefined ? {} : { param: fault.param }),
    ...(fault.retryAfterMs === undefined ? {} : { retryAfterMs: fault.retryAfterMs }),
    ...(told && fault.providerCode !== undefined ? { metadata: { provider_code: fault.providerCode } } : {}),
  })
}

/** Whether another offer of the same model may do better. */
export function anotherOfferMayHelp(fault: Fault): boolean {
  return !tellsMessage.has(fault.kind)
}

/** Whether another model may do better: it may have a longer context or another content policy. */
export function anotherModelMayHelp(fault: Fault): boolean {
  return fault.kind !== 'invalid-request'
}

/** A fault of our own making: the transport's, not the provider's words. */
export function transportFault(kind: 'cut' | 'timeout' | 'broken', message: string): Fault {
  return fault(kind, message)
}

/** What calls are told that a shutdown cuts off or turns away. */
export function shuttingDown(): GatewayError {
  return new GatewayError('overloaded', { message: 'The gateway is shutting down.', retryAfterMs: 1_000 })
}
