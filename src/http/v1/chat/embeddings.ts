// POST /v1/embeddings

import { embed } from '../../../chat/embed.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { checkAddresses } from '../../../chat/upstream/media-urls.ts'
import { embeddingAddresses } from '../../../protocols/openai-chat/inbound/addresses.ts'
import { embeddingBody, parseEmbedding } from '../../../protocols/embeddings/inbound.ts'
import { readCall, refuseByHeaders } from '../../intake/read-body.ts'
import type { Refuse } from '../../intake/error-response.ts'
import { refuseDropped, servePaid, type PaidRun } from '../../intake/paid/serve-paid.ts'
import type { Call, Route } from '../../route.ts'
import type { PaidParts, ServingParts } from '../../parts.ts'

export const createEmbeddings: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/embeddings',
  handle: (parts, call) => serveEmbedding(parts, call, openai),
  operation: async () => (await import('./documentation.ts')).embeddings,
}

/** How clients ask for vectors and get them. */
export interface EmbeddingProtocol {
  /** The body as OpenAI's API has it. Throws GatewayError. */
  readonly asked: (body: JsonObject) => JsonObject
  readonly answer: typeof embeddingBody
  /** The shape of a refusal by the limits; OpenAI's if absent. */
  readonly refuse?: Refuse
}

const openai: EmbeddingProtocol = { asked: (body) => body, answer: embeddingBody }

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function serveEmbedding(
  parts: PaidParts,
  call: Call,
  protocol: EmbeddingProtocol,
): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = call
  refuseByHeaders(request.headers, parts.body)
  const caller = await call.caller()
  // Texts may come as the tokens they are.
  const { json: sent } = await readCall(parts, request, requestId, caller, Number.POSITIVE_INFINITY)
  const json = await parts.turns.run(() => protocol.asked(sent))
  const { addresses, warnings } = await parts.turns.run(() =>
    checkAddresses(json, embeddingAddresses, parts.addressRules),
  )
  const {
    envelope,
    body,
    bodyBytes,
    promptParts,
    request: embedding,
    format,
  } = await parts.turns.run(() => parseEmbedding(json))
  refuseDropped(envelope, warnings)
  // Nobody waits for the servers that a caller names.
  if (addresses.length > 0) parts.largeBodies.leave(requestId)
  await Promise.all(addresses.map((address) => parts.chat.media.check(address)))
  const asked = {
    request,
    caller,
    json,
    requestId,
    call: { request: { envelope, body, promptParts }, arrivedAt },
  }
  const run: PaidRun = (chat, signal, keeper) =>
    embed(chat, {
      caller,
      request: { envelope, body, promptParts, warnings },
      embedding,
      body: (vectors, usage, bill, context) => protocol.answer(vectors, format, usage, bill, context),
      bodyBytes,
      requestId,
      signal,
      keeper,
      arrivedAt,
    })
  return servePaid(parts, asked, run, protocol.refuse)
}
