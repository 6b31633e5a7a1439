// POST /v1/messages and POST /v1/messages/count_tokens: Anthropic's protocol, for any model of the catalog.

import type { JsonObject } from '../../conversation/request.ts'
import { inbound, modelId, promptOf } from '../../protocols/anthropic-messages/inbound/inbound.ts'
import { checkedForCount } from '../../protocols/anthropic-messages/inbound/schema.ts'
import { authenticateEither } from '../intake/caller.ts'
import { type Identify, refusalIn, type Refuse, type Route, type RouteCall } from '../route.ts'
import { answerCount, serveBody } from '../intake/paid/serve-paid.ts'
import { readCall } from '../intake/read-body.ts'
import type { ServingParts } from '../parts.ts'

const inShape = refusalIn(inbound.error)

/** A refusal as Anthropic's clients read it. */
export const refuseMessages: Refuse = (...failed) => withRequestId(inShape(...failed))

/** Its clients send the key as `x-api-key`, or as a bearer. */
const byEitherKey: Identify = (parts, request) => authenticateEither(request.headers, parts)

export const createMessage: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/messages',
  handle: serve,
  identify: byEitherKey,
  errors: () => refuseMessages,
  operation: async () => (await import('./messages-documentation.ts')).messages,
}

/** Counts the tokens of a request that is not sent anywhere. Counts as a request of its caller, and costs nothing. */
export const countMessageTokens: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/messages/count_tokens',
  handle: count,
  identify: byEitherKey,
  errors: () => refuseMessages,
  operation: async () => (await import('./messages-documentation.ts')).countTokens,
}

async function serve(parts: ServingParts, call: RouteCall): Promise<Response> {
  const amend = (json: JsonObject) => withBetas(json, call.request.headers)
  return withRequestId(await serveBody(parts, call, inbound, amend, refuseMessages))
}

async function count(parts: ServingParts, call: RouteCall): Promise<Response> {
  const { caller, json } = await readCall(parts, call)
  const { model } = await parts.scheduler.run(() => checkedForCount(json))
  const prompt = { model: modelId(model), parts: promptOf(json) }
  const shape = (input_tokens: number) => ({ input_tokens })
  return withRequestId(await answerCount(parts, call, caller, prompt, shape, refuseMessages))
}

/** Clients of this protocol look for the id of a request under a name of their own. */
function withRequestId(response: Response): Response {
  const id = response.headers.get('x-request-id')
  if (id !== null) response.headers.set('request-id', id)
  return response
}

/** The beta features that the header asks for, among those of the body: a protocol sees bodies alone. */
function withBetas(json: JsonObject, headers: Headers): JsonObject {
  const asked = headers.get('anthropic-beta')
  if (asked === null) return json
  const betas = asked
    .split(',')
    .map((beta) => beta.trim())
    .filter((beta) => beta !== '')
  if (betas.length === 0) return json
  return { ...json, betas: [...(Array.isArray(json['betas']) ? json['betas'] : []), ...betas] }
}
