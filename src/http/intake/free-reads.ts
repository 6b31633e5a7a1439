// Limits what one reads of what is large and costs nothing: lists of models, and the documentation.

import { networkOf } from '../../accounts/identity/network.ts'
import { plural } from '../../text/csv.ts'
import { GatewayError } from '../../errors/errors.ts'
import { type Authentication, authenticateEither } from './authenticate.ts'
import { Rates } from './paid/limits.ts'
import type { Site } from './site.ts'

/** What an answer counts at least: it has been looked for. */
const leastBytes = 16_384

export class FreeReads {
  readonly #perMinute: number
  readonly #rates: Rates

  /** `bytesPerMinute` of one reader; 0 for no limit. `clock` gives milliseconds. */
  constructor(bytesPerMinute: number, clock: () => number) {
    this.#perMinute = bytesPerMinute
    this.#rates = new Rates(clock)
  }

  /** Throws `rate_limit_exceeded` if the reader has had its share. To be asked before anything is made. */
  require(reader: string): void {
    if (this.#perMinute === 0) return
    const retryAfterMs = this.#rates.waitMs(reader, this.#perMinute, leastBytes)
    if (retryAfterMs === 0) return
    const message = `More than ${plural(this.#perMinute, 'byte')} of lists and pages were read in a minute.`
    throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
  }

  /** Counts what was made and sent for the reader; may overdraw its share. */
  count(reader: string, bytes: number): void {
    this.#rates.spend(reader, Math.max(leastBytes, bytes))
  }
}

/** An answer, and how many bytes were made and sent for it. */
export interface FreeAnswer {
  readonly response: Response
  readonly bytes: number
}

/** What `read` answers, counted for whoever asks. Rejects with `rate_limit_exceeded`, and as `read` does. */
export async function freely(
  parts: FreeReadParts,
  request: Request,
  read: () => FreeAnswer | Promise<FreeAnswer>,
  header: 'x-api-key' | 'x-goog-api-key' = 'x-api-key',
): Promise<Response> {
  const reader = await readerOf(parts, request, header)
  parts.freeReads.require(reader)
  let bytes = 0
  try {
    const answer = await read()
    bytes = answer.bytes
    return answer.response
  } finally {
    // What there is not has been looked for as well.
    parts.freeReads.count(reader, bytes)
  }
}

export interface FreeReadParts extends Authentication {
  readonly freeReads: FreeReads
  readonly site: Pick<Site, 'addressOf'>
}

/** Whose share a request is read from: the account's whose key it brings, else its network's. */
async function readerOf(
  parts: FreeReadParts,
  request: Request,
  header: 'x-api-key' | 'x-goog-api-key',
): Promise<string> {
  const { headers } = request
  try {
    if (headers.has('authorization') || headers.has(header))
      return `account ${(await authenticateEither(headers, parts, header)).account.id}`
  } catch (error) {
    // Nobody needs a key here: one that is not valid is as good as none.
    if (!(error instanceof GatewayError)) throw error
  }
  return networkOf(parts.site.addressOf(request))
}
