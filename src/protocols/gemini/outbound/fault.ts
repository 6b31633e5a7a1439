// Classifies Google's errors: the envelope of error statuses, and the same object inside streams.

import type { Fault, FaultKind } from '../../../conversation/event.ts'
import { fault, foreignFault, kindOfStatus } from '../../faults.ts'
import { entryOf, parseJson, type ValueRead } from '../../lenient.ts'
import { readError } from './schema.ts'

type GoogleError = ValueRead<typeof readError>

/** The fault of an error status. The body may be the envelope, the envelope in an array, HTML or empty. */
export function faultOf(status: number, headers: Headers, body: string): Fault {
  const error = errorIn(parseJson(body))
  if (error === undefined) {
    const retryAfterMs = waitIn(headers)
    // An HTML page comes from something in front of Google; an empty body means what its status says.
    if (body.trim() !== '') return foreignFault(status, body, retryAfterMs)
    return fault(kindOfStatus(status, ownStatuses), `HTTP ${status} with an empty body`, {
      status,
      retryAfterMs,
    })
  }
  return faultOfError(error, status, waitIn(headers))
}

/** The fault in a chunk with an `error`; undefined without one. */
export function faultIn(value: unknown): Fault | undefined {
  const error = errorIn(value)
  return error === undefined ? undefined : faultOfError(error, error.code, undefined)
}

export function cutOff(): Fault {
  return fault('cut', 'The stream ended before the answer did.')
}

function errorIn(value: unknown): GoogleError | undefined {
  const holder: unknown = Array.isArray(value) ? value[0] : value
  if (typeof holder !== 'object' || holder === null || !('error' in holder)) return undefined
  if (typeof holder.error === 'string') return { message: holder.error }
  return readError(holder.error)
}

function faultOfError(
  error: GoogleError,
  status: number | undefined,
  headerWaitMs: number | undefined,
): Fault {
  const details = error.details ?? []
  const reason = details.find((detail) => detail.reason !== undefined)?.reason
  const delay = details.map((detail) => milliseconds(detail.retryDelay)).find((wait) => wait !== undefined)
  return fault(
    kindOf(error, status, reason),
    error.message ?? error.status ?? 'The provider reported an error.',
    {
      status,
      providerCode: reason ?? error.status,
      param: details.flatMap((detail) => detail.fieldViolations ?? []).find((field) => field.field)?.field,
      // The delay is in the body; a header only comes from proxies.
      retryAfterMs: delay ?? headerWaitMs,
    },
  )
}

const contextOverflow =
  /token count.{0,40}exceeds|exceeds the maximum number of (?:input )?tokens|input context is too long|context (?:length|window)/i
/** Wrong, expired, leaked or unauthorised credentials: the operator's fault, not the caller's. */
const badCredentials =
  /api[ _]key (?:not valid|not found|expired|is invalid|was reported)|API_KEY|UNAUTHENTICATED|location is not supported/i
const outOfCredit = /credits? (?:are|is) depleted|spending cap|billing (?:is|account|to be) (?:not|dis)/i
/** A file that the key cannot read is reported as a permission error. */
const foreignFile = /access the file/i

function kindOf(error: GoogleError, status: number | undefined, reason: string | undefined): FaultKind {
  const message = error.message ?? ''
  if (badCredentials.test(`${reason ?? ''} ${error.status ?? ''} ${message}`)) return 'credentials'
  if (status === 403 && foreignFile.test(message)) return 'invalid-request'
  if (contextOverflow.test(message)) return 'context-length'
  if (outOfCredit.test(message)) return 'quota'
  if (status === 429 && hasDailyQuota(error)) return 'quota'
  return kindOfStatus(status ?? entryOf(statusOfName, error.status ?? '') ?? 500, ownStatuses)
}

/** A daily quota is not restored within the life of a request. */
function hasDailyQuota(error: GoogleError): boolean {
  return (error.details ?? []).some((detail) =>
    (detail.violations ?? []).some((violation) => violation.quotaId?.includes('PerDay')),
  )
}

const statusOfName: Readonly<Record<string, number>> = {
  INVALID_ARGUMENT: 400,
  FAILED_PRECONDITION: 400,
  OUT_OF_RANGE: 400,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  RESOURCE_EXHAUSTED: 429,
  CANCELLED: 499,
  INTERNAL: 500,
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
}

/** Google's number for CANCELLED. */
const ownStatuses: Readonly<Record<number, FaultKind>> = { 499: 'cut' }

/** Google's durations ("48s", "0.5s") in milliseconds. */
function milliseconds(duration: string | undefined): number | undefined {
  const seconds = /^(\d+(?:\.\d+)?)s$/.exec(duration ?? '')?.[1]
  return seconds === undefined ? undefined : Math.ceil(Number(seconds) * 1000)
}

function waitIn(headers: Headers): number | undefined {
  const value = headers.get('retry-after')
  return value !== null && /^\d+(?:\.\d+)?$/.test(value) ? Math.ceil(Number(value) * 1000) : undefined
}
