// Turns a provider's fault into the error that a client sees. A provider's 401 or 403 is never the caller's.

import type { Fault, FaultKind } from '../../conversation/event.ts'
import { type ErrorCode, errorTable, GatewayError } from '../../errors/errors.ts'
import { fault } from '../../protocols/faults.ts'
import type { Progress as ChatProgress } from '../../conversation/delivered.ts'
import type { Abandoned } from '../call.ts'

/** Thrown by an attempt whose provider failed before anything reached the client. */
export class AttemptFailed extends Error {
  readonly fault: Fault
  /** What the provider had made, where that is owed although the client gets none of it. */
  readonly made: Abandoned['made']
  /** Set if the same provider may serve the request once what it refused of it is left out. */
  readonly retry: 'without-refused' | undefined

  /** `made`: what the provider made until it failed. Owed where the model spoiled the answer and something was counted. */
  constructor(
    fault: Fault,
    made?: Pick<ChatProgress, 'usage' | 'delivered'>,
    retry?: AttemptFailed['retry'],
  ) {
    super(fault.message)
    this.name = 'AttemptFailed'
    this.fault = fault
    this.retry = retry
    const isOwed = fault.kind === 'unusable-output' && (made?.usage !== undefined || made?.delivered.any)
    this.made = isOwed && made ? { usage: made.usage, delivered: made.delivered, fault } : undefined
  }
}

/**
 * Thrown by an attempt whose provider has not begun to answer soon enough where another candidate waits: it may be slow
 * and well.
 */
export class AttemptTooSlow extends AttemptFailed {
  constructor() {
    super(
      transportFault('timeout', 'no content in time (timeouts.first_token_ms), and another candidate waits'),
    )
  }
}

/** Thrown by an attempt whose provider was not asked, because its deployment has no room for the call now. */
export class DeploymentFull extends AttemptFailed {
  /** `waitMs`: when there may be room again. */
  constructor(waitMs: number) {
    super(fault('rate-limited', 'the deployment is at its limit', { retryAfterMs: waitMs }))
  }
}

/** Thrown by an attempt that the caller's side has ended before its answer began: no fault of the provider. */
export class AttemptAbandoned extends Error {
  /** What the call ends with. */
  readonly error: GatewayError
  /** Undefined if the provider had not been reached. */
  readonly asked: Pick<Abandoned, 'askedMs' | 'usage'> | undefined

  constructor(error: GatewayError, asked: AttemptAbandoned['asked']) {
    super(error.message, { cause: error })
    this.name = 'AttemptAbandoned'
    this.error = error
    this.asked = asked
  }
}

/** The error of a call whose client disconnected before its answer began. */
export function clientGone(): GatewayError {
  return new GatewayError('client_gone', { message: 'The client disconnected before its answer began.' })
}

const codes: Readonly<Record<FaultKind, ErrorCode>> = {
  'invalid-request': 'invalid_request',
  'context-length': 'context_length_exceeded',
  'content-filter': 'content_filtered',
  'unusable-output': 'unusable_answer',
  'not-found': 'model_unavailable',
  credentials: 'upstream_refused_credentials',
  quota: 'upstream_refused_credentials',
  'rate-limited': 'upstream_rate_limited',
  overloaded: 'overloaded',
  broken: 'upstream_error',
  'too-large': 'upstream_error',
  cut: 'upstream_error',
  timeout: 'upstream_timeout',
}

/** The provider's text reaches the caller only for the caller's own mistakes; on 5xx and 429 it is masked. */
const showsMessage: ReadonlySet<FaultKind> = new Set([
  'invalid-request',
  'context-length',
  'content-filter',
  'unusable-output',
])

export function codeOf(fault: Fault): ErrorCode {
  // A body that is too large has a status of its own, which clients know how to handle.
  if (fault.kind === 'invalid-request' && fault.status === 413) return 'payload_too_large'
  return codes[fault.kind]
}

export function withoutSecrets(fault: Fault, redact: (text: string) => string): Fault {
  return {
    ...fault,
    message: redact(fault.message),
    param: fault.param === undefined ? undefined : redact(fault.param),
    providerCode: fault.providerCode === undefined ? undefined : redact(fault.providerCode),
  }
}

export function errorOf(fault: Fault, provider: string): GatewayError {
  const code = codeOf(fault)
  const shown = showsMessage.has(fault.kind) && fault.message !== ''
  return new GatewayError(code, {
    message: shown ? fault.message : errorTable[code].means,
    source: 'provider',
    provider,
    ...(fault.param === undefined ? {} : { param: fault.param }),
    ...(fault.retryAfterMs === undefined ? {} : { retryAfterMs: fault.retryAfterMs }),
    ...(shown && fault.providerCode !== undefined ? { metadata: { provider_code: fault.providerCode } } : {}),
  })
}

/** Why an attempt failed, for the receipt: the provider's own text only if a client may read it. */
export function publicReason(fault: Fault): string {
  if (showsMessage.has(fault.kind) && fault.message !== '') return fault.message.slice(0, longestReason)
  const status = fault.status === undefined ? '' : ` (HTTP ${fault.status})`
  const code = transportCode(fault)
  return `${reasons[fault.kind]}${status}${code === undefined ? '' : ` (${code})`}`
}

/** The name of a failed system call, such as ECONNREFUSED. */
function transportCode({ kind, status, providerCode }: Fault): string | undefined {
  const named = kind === 'cut' && status === undefined && /^[A-Za-z_]{3,40}$/.test(providerCode ?? '')
  return named ? providerCode : undefined
}

const longestReason = 300

const reasons: Readonly<Record<FaultKind, string>> = {
  'invalid-request': 'the provider refused the request',
  'context-length': 'the request is longer than the context of the model',
  'content-filter': "the provider's content policy refused the prompt",
  'unusable-output': 'the model wrote an answer that the provider rejects',
  'not-found': 'the provider does not know the model, or does not offer it to this gateway',
  credentials: "the provider refused the gateway's key",
  quota: "the gateway's account at the provider has no quota left",
  'rate-limited': 'the provider limits the rate of the gateway',
  overloaded: 'the provider is overloaded',
  broken: 'the provider failed, or its answer could not be understood',
  'too-large': 'the answer is larger than the gateway reads',
  cut: 'the connection could not be made, or broke',
  timeout: 'the provider did not answer in time',
}

export function anotherOfferMayHelp(fault: Fault): boolean {
  return !showsMessage.has(fault.kind)
}

/**
 * What follows when a content filter has refused the prompt. Another model has another policy, so it is asked only where
 * the caller says so.
 */
export type AfterFilter = 'end' | 'fallback'

/** Whether another model may succeed: it may have a longer context, go on with what the client has begun for it. */
export function anotherModelMayHelp(fault: Fault, afterFilter: AfterFilter): boolean {
  if (fault.kind === 'content-filter') return afterFilter === 'fallback'
  return fault.kind !== 'invalid-request' || refusesPrefill(fault)
}

/** Whether the model does not go on with an answer that is begun for it: such a conversation must end with the user. */
export function refusesPrefill({ kind, message }: Fault): boolean {
  return kind === 'invalid-request' && prefillWords.test(message)
}

/** Anthropic's sentence, those of Mistral and DeepSeek, and what servers of templates say. */
const prefillWords =
  /\bpre-?fill|(?:conversation|messages?) must end with a user|(?:expected last role|last message\b[^.]*\b(?:must|should) be)/i

/** A fault detected by us rather than reported by the provider. */
export function transportFault(kind: 'cut' | 'timeout' | 'broken' | 'too-large', message: string): Fault {
  return fault(kind, message)
}

/** The error of calls that a shutdown cuts off or turns away. */
export function shuttingDown(): GatewayError {
  return new GatewayError('overloaded', { message: 'The gateway is shutting down.', retryAfterMs: 1_000 })
}

/** The error of a call that the gateway ends: the reason of its `stopping`, which is none for a shutdown. */
export function stopError({ reason }: AbortSignal): GatewayError {
  // Each call has an error of its own: one that has been logged is not logged again.
  return reason instanceof GatewayError
    ? new GatewayError(reason.code, { ...reason.details, message: reason.message })
    : shuttingDown()
}
