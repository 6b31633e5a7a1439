// POST /v1/embeddings

import { embed } from '../chat/embed.ts'
import { shuttingDown } from '../chat/fault-error.ts'
import { embeddingBody, parseEmbedding } from '../protocols/openai-chat/embeddings-inbound.ts'
import { authenticate } from './authenticate.ts'
import { idempotent } from './idempotency.ts'
import { readJson, refuseByHeaders } from './read-body.ts'
import type { Service } from './service.ts'
import { withinLimits } from './within-limits.ts'

/** Serves one request for embeddings. Rejects with GatewayError. */
export async function createEmbeddings(
  service: Service,
  request: Request,
  requestId: string,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const caller = authenticate(request.headers, service)
  // Texts may come as the tokens they are.
  const { json } = await readJson(request, service.body, Number.POSITIVE_INFINITY)
  const { envelope, body, bodyBytes, request: embedding, format } = parseEmbedding(json)
  if (!service.ready()) throw shuttingDown()
  service.keepOpen(request)
  return idempotent(service, { request, caller, json, requestId }, (signal, keeper) =>
    withinLimits(service, caller, requestId, () =>
      embed(service.gateway, {
        caller,
        request: { envelope, body },
        embedding,
        body: (vectors, usage, bill, context) => embeddingBody(vectors, format, usage, bill, context),
        bodyBytes,
        requestId,
        signal,
        keeper,
        arrivedAt,
      }),
    ),
  )
}
