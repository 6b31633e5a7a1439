// The story of one call: resolve → admit → hold → dispatch → relay → settle. Read me first.

import type { Model } from '../catalog/model.ts'
import type { Balance } from '../credits/ledger.ts'
import { asGatewayError } from '../errors.ts'
import type { Warning } from '../protocols/protocol.ts'
import { costsOf, type Purpose, refusal, refusalError, wrongEndpoint } from './admission.ts'
import { fetchWhole, openStream, type OpenedStream, type WholeAnswer } from './upstream/attempt.ts'
import { Booking } from './billing/booking.ts'
import { dispatch, DispatchFailed } from './routing/dispatch.ts'
import { fundingFor } from './billing/flash-class.ts'
import type { Gateway, IncomingCall, PaidCall } from './gateway.ts'
import { candidatesFor } from './routing/candidates.ts'
import { answerHeaders, jsonResponse, streamResponse } from './streaming/respond.ts'
import { searchFor } from './routing/search.ts'
import { testModel } from './test-mode.ts'
import { transcribed } from './transcript.ts'

/**
 * Serves one call from parsed body to settled outcome. Resolves with the client's response, whole or streaming;
 * rejects with GatewayError before the first byte. However it ends, its hold is settled or released exactly once.
 */
export async function complete(gateway: Gateway, incoming: IncomingCall): Promise<Response> {
  const call = transcribed(gateway, incoming)
  const { models, warnings, balance } = admitted(gateway, call)
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

/** What a call may go on with. */
interface Admitted {
  readonly models: readonly Model[]
  readonly warnings: Warning[]
  /** The account's credit at this moment. */
  readonly balance: Balance
}

/** The models that may serve the call. The first must be admitted; a fallback that may not serve is left out. */
export function admitted(
  gateway: Pick<Gateway, 'catalog' | 'ledger' | 'now' | 'providers'>,
  call: Pick<PaidCall, 'caller' | 'request'>,
  purpose: Purpose = 'chat',
): Admitted {
  const { caller } = call
  const { model: first, fallbacks } = call.request.envelope
  const balance = gateway.ledger.balance(caller.account.id)
  const warnings: Warning[] = [...(call.request.warnings ?? [])]
  const models: Model[] = []
  for (const [position, id] of [first, ...fallbacks].entries()) {
    const listed = gateway.catalog.resolve(id)
    const model = caller.mode === 'test' ? testModel(listed) : listed
    const costs = costsOf(model, (id) => gateway.providers.get(id)?.costFrom === 'reported')
    const refused = wrongEndpoint(model, purpose) ?? refusal(caller, model, balance, gateway.now(), costs)
    if (refused === undefined) models.push(model)
    else if (position === 0) throw refusalError(refused, model, purpose, caller.account)
    else warnings.push({ param: `models[${position - 1}]`, message: `${model.id} is left out: ${refused}` })
  }
  return { models, warnings, balance }
}
