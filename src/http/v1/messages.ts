// POST /v1/messages and POST /v1/messages/count_tokens: Anthropic's protocol, for any model of the catalog.

import { countTokens } from '../../chat/counting/count-tokens.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { inbound, modelId, promptOf } from '../../protocols/anthropic-messages/inbound/inbound.ts'
import { checkedForCount } from '../../protocols/anthropic-messages/inbound/schema.ts'
import { authenticateEither } from '../intake/authenticate.ts'
import { refusalIn, type Refuse } from '../intake/error-response.ts'
import { readJson, refuseByHeaders } from '../intake/read-body.ts'
import { parsedBody, serveChat } from '../intake/serve-paid.ts'
import type { Service } from '../service.ts'
import { withinLimits } from '../intake/within-limits.ts'

const inShape = refusalIn(inbound.error)

/** A refusal as Anthropic's clients read it. */
export const refuseMessages: Refuse = (thrown, requestId) => identified(inShape(thrown, requestId))

/** Serves one request for a message. Rejects with GatewayError before the first byte. */
export async function createMessage(
  service: Service,
  request: Request,
  requestId: string,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const caller = await authenticateEither(request.headers, service)
  const { json: sent, bytes } = await readJson(request, service)
  const json = withBetas(sent, request.headers)
  const call = {
    inbound,
    request: await service.turns.run(() => parsedBody(service, inbound, json, inbound.parse)),
    bodyBytes: bytes,
    arrivedAt,
  }
  return identified(await serveChat(service, { request, caller, json, requestId, call }, refuseMessages))
}

/** Counts the tokens of a request that is not sent anywhere. Counts as a request of its caller, and costs nothing. */
export async function countMessageTokens(
  service: Service,
  request: Request,
  requestId: string,
): Promise<Response> {
  refuseByHeaders(request.headers, service.body)
  const caller = await authenticateEither(request.headers, service)
  const { json } = await readJson(request, service)
  const { model } = checkedForCount(json)
  const count = async () => {
    const input_tokens = await countTokens(service.gateway, caller, modelId(model), promptOf(json))
    // No call holds the request's place among those in flight: it ends here.
    service.limiter.leave(requestId)
    return Response.json({ input_tokens }, { headers: { 'x-request-id': requestId } })
  }
  return identified(await withinLimits(service, caller, requestId, count, refuseMessages))
}

/** Clients of this protocol look for the id of a request under a name of their own. */
function identified(response: Response): Response {
  const id = response.headers.get('x-request-id')
  if (id !== null) response.headers.set('request-id', id)
  return response
}

/** The beta features that the header asks for, among those of the body: a protocol sees bodies alone. */
function withBetas(json: JsonObject, headers: Headers): JsonObject {
  const asked = headers.get('anthropic-beta')?.split(',') ?? []
  const betas = asked.map((beta) => beta.trim()).filter((beta) => beta !== '')
  if (betas.length === 0) return json
  return { ...json, betas: [...(Array.isArray(json['betas']) ? json['betas'] : []), ...betas] }
}
