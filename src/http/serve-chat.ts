// A chat that has been read, whatever protocol it came in: served once, and within the limits of its caller.

import { complete } from '../chat/complete.ts'
import { shuttingDown } from '../chat/fault-error.ts'
import type { IncomingCall } from '../chat/gateway.ts'
import { refusePrivateMedia } from '../chat/media-urls.ts'
import type { Refuse } from './error-response.ts'
import { idempotent, type KeyedRequest } from './idempotency.ts'
import type { Service } from './service.ts'
import { withinLimits } from './within-limits.ts'

/** The HTTP request, and the call it makes; `bodyBytes` measures what the call's body was read from. */
export interface ReadChat extends KeyedRequest {
  readonly call: Pick<IncomingCall, 'inbound' | 'request' | 'bodyBytes' | 'arrivedAt'>
}

/** Rejects with GatewayError before the first byte; refusals within the limits have the shape that `refuse` gives. */
export function serveChat(service: Service, chat: ReadChat, refuse?: Refuse): Promise<Response> {
  const { request, caller, json, requestId, call } = chat
  refusePrivateMedia(json, service.reachableHosts)
  if (!service.ready()) throw shuttingDown()
  service.keepOpen(request)
  return idempotent(service, chat, (signal, keeper) =>
    withinLimits(
      service,
      caller,
      requestId,
      () => complete(service.gateway, { ...call, caller, requestId, signal, keeper }),
      refuse,
    ),
  )
}
