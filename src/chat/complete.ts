// The story of one call: resolve → admit → hold → dispatch → relay → settle. Read me first.

import { asGatewayError } from '../errors.ts'
import { admitted } from './admission.ts'
import { fetchWhole, type WholeAnswer } from './upstream/fetch-whole.ts'
import { openStream, type OpenedStream } from './upstream/open-stream.ts'
import { Booking } from './billing/booking.ts'
import { dispatch, DispatchFailed } from './routing/dispatch.ts'
import { fundingFor } from './billing/flash-class.ts'
import type { Gateway } from './gateway.ts'
import type { IncomingCall } from './call.ts'
import { candidatesFor } from './routing/candidates.ts'
import { answerHeaders, jsonResponse, streamResponse } from './streaming/respond.ts'
import { searchFor } from './routing/search.ts'
import { transcribed } from './transcript.ts'

/**
 * Serves one call from parsed body to settled outcome. Resolves with the client's response, whole or streaming;
 * rejects with GatewayError before the first byte. However it ends, its hold is settled or released exactly once.
 */
export async function complete(gateway: Gateway, incoming: IncomingCall): Promise<Response> {
  const call = transcribed(gateway, incoming)
  const { models, warnings, balance } = await admitted(gateway, call, 'chat')
  const { envelope } = call.request
  const candidates = candidatesFor(models, gateway.providers, envelope.routing, turnOf(call), envelope.n)
  const funding = await fundingFor(call, candidates)
  const booking = await Booking.open(gateway, call, candidates, balance, funding)
  warnings.push(...booking.warnings)
  try {
    const attempt = envelope.stream ? openStream : fetchWhole
    const served = await dispatch<OpenedStream | WholeAnswer>(
      searchFor(gateway, call, candidates),
      (candidate) => attempt(gateway, call, booking, candidate, warnings),
    )
    booking.servedBy(served.candidate, served.attempts)
    const headers = answerHeaders(call, served.candidate, served.answer.warnings)
    return served.answer.kind === 'stream'
      ? streamResponse(gateway, call, booking, served.answer, headers)
      : await jsonResponse(call, booking, served.answer, headers)
  } catch (error) {
    const failed = error instanceof DispatchFailed ? error : new DispatchFailed(asGatewayError(error), [])
    await booking.release(failed.error, failed.attempts)
    throw failed.error
  }
}

/** Calls of one session take the same key's turn; every other call a turn of its own. */
function turnOf({ caller, request, requestId }: IncomingCall): string {
  const { sessionId } = request.envelope
  return sessionId === undefined ? requestId : `${caller.account.id} ${sessionId}`
}
