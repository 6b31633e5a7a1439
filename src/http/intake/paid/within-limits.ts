// Runs a paid call within the limits of its caller.

import type { Caller } from '../../../accounts/caller.ts'
import { GatewayError } from '../../../errors.ts'
import type { PaidParts } from '../../parts.ts'

/** A request that counts towards the limits of its caller. */
export interface Limited {
  readonly caller: Caller
  readonly requestId: string
  /** Throws or rejects with GatewayError. */
  run(): Promise<Response>
  /** The response for a refusal. */
  refused(error: GatewayError): Response | Promise<Response>
  /** Called with what is no refusal, before that is passed on. */
  noted?(thrown: unknown): void
}

/** Runs a request and adds the limits to the headers of every answer, including refusals, which count too. */
export async function withinLimits(parts: Pick<PaidParts, 'limiter'>, limited: Limited): Promise<Response> {
  const { limiter } = parts
  const { caller, requestId } = limited
  let response: Response
  try {
    const entered = limiter.enter(caller, requestId)
    if (entered instanceof Promise) await entered
    response = await limited.run()
  } catch (error) {
    limiter.leave(requestId)
    // Internal errors are passed on to be logged.
    if (!(error instanceof GatewayError) || error.code === 'internal_error') {
      limited.noted?.(error)
      throw error
    }
    response = await limited.refused(error)
  }
  const read = limiter.headers(caller)
  const limits = read instanceof Promise ? await read : read
  for (const name in limits) response.headers.set(name, limits[name]!)
  return response
}
