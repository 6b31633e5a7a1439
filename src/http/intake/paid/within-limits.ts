// Runs a paid call within the limits of its caller.

import type { Caller } from '../../../accounts/caller.ts'
import type { Kind } from '../../../chat/in-flight.ts'
import { GatewayError } from '../../../errors.ts'
import { errorResponse, type Refuse } from '../error-response.ts'
import type { PaidParts } from '../../parts.ts'

/** Makes the response for a refusal, once it is in the log. */
export type RefuseLater = (...refused: Parameters<Refuse>) => Response | Promise<Response>

export interface Entering {
  readonly caller: Caller
  readonly requestId: string
  readonly kind: Kind
}

/** What a request is that no provider is asked for, as one that counts tokens. */
export function kindOfCaller({ mode }: Pick<Caller, 'mode'>): Kind {
  return mode === 'test' ? 'simulated' : 'real'
}

/** Runs the call and adds the limits to the headers of every answer, including refusals, which count too. */
export async function withinLimits(
  { limiter, publicUrl }: Pick<PaidParts, 'limiter' | 'publicUrl'>,
  { caller, requestId, kind }: Entering,
  run: () => Promise<Response>,
  refuse: RefuseLater = errorResponse,
): Promise<Response> {
  let response: Response
  try {
    const entered = limiter.enter(caller, requestId, kind)
    if (entered instanceof Promise) await entered
    response = await run()
  } catch (error) {
    limiter.leave(requestId)
    // Internal errors are passed on to be logged.
    if (!(error instanceof GatewayError) || error.code === 'internal_error') throw error
    response = await refuse(error, requestId, publicUrl())
  }
  const read = limiter.headers(caller)
  const limits = read instanceof Promise ? await read : read
  for (const name in limits) response.headers.set(name, limits[name]!)
  return response
}
