// The client's HTTP response: headers that every answer carries, and its body, whole or streaming.

import type { Fault } from '../../conversation/event.ts'
import type { Warning } from '../../protocols/protocol.ts'
import type { OpenedStream } from '../upstream/open-stream.ts'
import type { WholeAnswer } from '../upstream/fetch-whole.ts'
import type { Booking } from '../billing/booking.ts'
import type { Gateway } from '../gateway.ts'
import type { IncomingCall, PaidCall } from '../call.ts'
import { deadlinesOf } from '../upstream/deadlines.ts'
import { disconnectPolicy } from './disconnect.ts'
import { codeOf } from '../routing/fault-error.ts'
import type { Candidate } from '../routing/candidates.ts'
import { relay } from './relay.ts'
import { bounded, triedFields } from '../routing/search.ts'

export function answerHeaders(
  call: Pick<PaidCall, 'requestId'>,
  served: Candidate,
  warnings: readonly Warning[],
): Record<string, string> {
  const told = warnings.map(({ param, message }) => `${param}: ${message}`).join('; ')
  return {
    'x-request-id': call.requestId,
    'x-weir-provider': served.provider.id,
    'x-weir-model': served.model.id,
    ...(told === '' ? {} : { 'x-weir-warnings': headerText(told) }),
  }
}

/** Header values are visible ASCII: anything else a warning may quote becomes a question mark. */
function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 1_000)
}

/** A whole answer, shown when its charge is durable. */
export async function jsonResponse(
  { keeper }: Pick<PaidCall, 'keeper'>,
  booking: Booking,
  answer: Pick<WholeAnswer, 'outcome' | 'body'>,
  headers: Record<string, string>,
): Promise<Response> {
  const told = { 'content-type': 'application/json;charset=utf-8', ...headers }
  let text = ''
  await booking.settle(answer.outcome, (settlement) => {
    text = JSON.stringify(answer.body(settlement))
    keeper?.begin(told)
    keeper?.add(Buffer.from(text))
    keeper?.keep()
  })
  return new Response(text, { headers: told })
}

export function streamResponse(
  gateway: Gateway,
  call: IncomingCall,
  booking: Booking,
  answer: OpenedStream,
  headers: Record<string, string>,
): Response {
  const { provider } = booking.candidate
  const told = {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
    ...headers,
  }
  call.keeper?.begin(told)
  const body = relay(answer, {
    requestId: call.requestId,
    provider: provider.id,
    keepalive: call.inbound.keepalive,
    limits: deadlinesOf(gateway.limits, provider),
    watchdog: gateway.watchdog,
    turns: gateway.turns,
    buffered: gateway.buffered,
    elapsedMs: performance.now() - call.arrivedAt,
    gone: call.signal,
    stopping: gateway.stopping,
    redact: gateway.redact,
    onDisconnect: disconnectPolicy(call, provider.onDisconnect),
    settle: (outcome, make) => {
      if (outcome.fault) brokeOff(gateway, call, booking, outcome.fault)
      return booking.settle(outcome, make)
    },
    keeper: call.keeper,
    onProgress: (progress) => booking.watch(progress),
  })
  return new Response(body, { headers: told })
}

/** An answer that had begun has failed: it counts against the offer, and the log says why. */
function brokeOff(gateway: Gateway, call: PaidCall, { candidate }: Booking, fault: Fault): void {
  gateway.health.failed(candidate, fault, 0, call.caller.account.id)
  gateway.log.warn('an answer broke off', {
    request_id: call.requestId,
    ...triedFields(candidate),
    code: codeOf(fault),
    status: fault.status ?? null,
    reason: bounded(fault.message),
    ...(fault.providerCode === undefined ? {} : { provider_code: fault.providerCode.slice(0, 100) }),
    ms: Math.round(performance.now() - call.arrivedAt),
  })
}
