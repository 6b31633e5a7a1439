// POST /v1/decisions

import { decide } from '../../chat/complete.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import { parseDecision } from '../../protocols/decisions/decisions.ts'
import { addresses as places } from '../../protocols/openai-responses/inbound/read.ts'
import { type PaidRun, refuseDropped, servePaid, withTags } from '../intake/paid/serve-paid.ts'
import { readCall, refuseByHeaders } from '../intake/read-body.ts'
import type { ServingParts } from '../parts.ts'
import type { RouteCall } from '../route.ts'

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function serveDecision(parts: ServingParts, call: RouteCall): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = call
  refuseByHeaders(request.headers, parts.body)
  const caller = await call.caller()
  const { json, bytes: bodyBytes } = await readCall(parts, request, requestId, caller)
  const checked = await parts.scheduler.run(() => checkAddresses(json, places, parts.addressRules))
  const asked = await parts.scheduler.run(() => parseDecision(json))
  const { envelope, body, promptParts } = asked
  const warnings = [...checked.warnings, ...asked.warnings]
  refuseDropped(envelope, warnings)
  await Promise.all(checked.addresses.map((address) => parts.chat.media.check(address)))
  const tagged = withTags({ envelope, body, promptParts, warnings }, { request, json, caller })
  const paid = { request, caller, json, requestId, call: { ...tagged, arrivedAt } }
  const run: PaidRun = (stopping, signal, keeper) =>
    decide(parts.chat, {
      caller,
      ...tagged,
      decision: body,
      bodyBytes,
      requestId,
      stopping,
      signal,
      keeper,
      arrivedAt,
    })
  return servePaid(parts, paid, run)
}
