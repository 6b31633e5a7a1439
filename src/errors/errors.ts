// The error that a client sees: one class, one rendering. What each code means stands in the table.

import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { type ErrorRow, type ErrorType, rows } from './error-table.ts'

export type { ErrorType } from './error-table.ts'
export type ErrorCode = keyof typeof rows
export const errorTable: Readonly<Record<ErrorCode, ErrorRow>> = rows

export interface ErrorDetails {
  /** What is wrong this time; the row's `means` when absent. Never holds a secret or a provider's 5xx text. */
  readonly message?: string
  /** The field of the request that is at fault. */
  readonly param?: string
  readonly source?: 'gateway' | 'provider'
  readonly provider?: string
  readonly retryAfterMs?: number
  /** Only somebody's action will help this time: do not retry, whatever the table says. */
  readonly lasting?: true
  /** More facts for `metadata`: plain JSON values. */
  readonly metadata?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
  /** Whose credential was refused; for the request log, never shown. */
  readonly credential?: RefusedCredential
}

export interface RefusedCredential {
  /** Its account, if the secret was right. */
  readonly account?: string
  /** The id of its key, if the secret was right. */
  readonly key?: string
  /** The public id in a key whose secret was not. */
  readonly keyId?: string
}

/** An error a client can see. Throw codes, not sentences: the table holds the words. */
export class GatewayError extends Error {
  readonly code: ErrorCode
  readonly details: ErrorDetails

  constructor(code: ErrorCode, details: ErrorDetails = {}) {
    super(details.message ?? rows[code].means, { cause: details.cause })
    this.name = 'GatewayError'
    this.code = code
    this.details = details
  }

  get status(): number {
    return rows[this.code].status
  }
}

/** Any thrown thing as a GatewayError: what is not one already becomes `internal_error` with its cause kept. */
export function asGatewayError(thrown: unknown): GatewayError {
  return thrown instanceof GatewayError ? thrown : new GatewayError('internal_error', { cause: thrown })
}

export interface RenderedError {
  readonly error: {
    readonly message: string
    readonly type: ErrorType
    readonly param: string | null
    readonly code: ErrorCode
    readonly metadata: Readonly<Record<string, unknown>>
  }
}

/**
 * The one error shape of the wire contract: OpenAI's four keys, always all of them, and our `metadata`.
 * Takes the error, the id of the request it belongs to, and the address of the gateway as its clients know it: neither
 * the request's address nor its `Host` header would do for the link to the reference, since behind a proxy the one is
 * not what the client used, and the other says what anybody likes. Without an address the link is relative.
 */
export function renderError(error: GatewayError, requestId: string, publicUrl = ''): RenderedError {
  const row = errorTable[error.code]
  const { param, source, provider, metadata } = error.details
  const wait = waitMs(error)
  return {
    error: {
      message: error.message,
      type: row.type,
      param: param ?? null,
      code: error.code,
      metadata: {
        source: source ?? 'gateway',
        ...(provider === undefined ? {} : { provider }),
        request_id: requestId,
        retryable: mayPass(error),
        ...(wait === undefined ? {} : { retry_after: Math.ceil(wait / 1000) }),
        docs_url: docsUrl(error.code, publicUrl),
        ...metadata,
      },
    },
  }
}

/** The error's section of the reference. */
function docsUrl(code: string, publicUrl: string): string {
  return `${publicUrl}/docs/errors#${code}`
}

/** The headers that tell a client library whether and when to retry; they obey them in this order. */
export function retryHeaders(error: GatewayError): Record<string, string> {
  const headers: Record<string, string> = { 'x-should-retry': String(mayPass(error)) }
  const wait = waitMs(error)
  if (wait !== undefined) {
    headers['retry-after-ms'] = String(Math.ceil(wait))
    headers['retry-after'] = String(Math.ceil(wait / 1000))
  }
  return headers
}

/** Whether the same request may succeed later without anybody changing anything. */
function mayPass(error: GatewayError): boolean {
  return errorTable[error.code].retryable && error.details.lasting !== true
}

/** How long to wait before retrying; undefined if retrying would not help or the time is unknown. */
function waitMs(error: GatewayError): number | undefined {
  if (!mayPass(error)) return undefined
  return error.details.retryAfterMs ?? (error.status === 500 ? undefined : 1000)
}

/** The error reference as data: `GET /v1/errors` and the documentation page are both made from it. */
export function errorReference(publicUrl = '') {
  return Object.entries(errorTable).map(([code, row]) => ({
    code,
    status: row.status,
    type: row.type,
    retryable: row.retryable,
    means: row.means,
    remedy: row.remedy,
    docs_url: docsUrl(code, publicUrl),
  }))
}

// Whether this process has file descriptors left: without one no provider can be reached, and none is to blame.

const outOf: ReadonlySet<unknown> = new Set(['EMFILE', 'ENFILE'])

/**
 * Whether a connection failed because this process, or the machine, has no file descriptor left. The error alone does
 * not say so: a name that cannot be resolved for want of a descriptor is reported as unknown, and a connection as
 * refused. So it is tried.
 */
export function lacksDescriptors(error: unknown): boolean {
  return outOf.has(codeOf(error)) || !canOpen()
}

/** Our own shortage: `overloaded`, whatever could not be reached. */
export function noDescriptors(cause: unknown): GatewayError {
  return new GatewayError('overloaded', {
    message: 'The gateway has no file descriptors left for another connection.',
    retryAfterMs: 1_000,
    cause,
  })
}

function canOpen(): boolean {
  try {
    closeSync(openSync(devNull, 'r'))
    return true
  } catch (error) {
    return !outOf.has(codeOf(error))
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
