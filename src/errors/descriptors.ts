// Whether this process has file descriptors left: without one no provider can be reached, and none is to blame.

import { closeSync, openSync } from 'node:fs'
import { devNull } from 'node:os'
import { GatewayError } from './errors.ts'

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
