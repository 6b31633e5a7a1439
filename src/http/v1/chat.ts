// POST /v1/chat/completions and POST /v1/completions

import { z } from 'zod'
import { type Caller, hasMonthly } from '../../accounts/account.ts'
import { embed } from '../../chat/complete.ts'
import { estimate, explainRoute } from '../../chat/estimate.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { embeddingBody, parseEmbedding } from '../../protocols/embeddings/openai.ts'
import { inbound as chat } from '../../protocols/openai-chat/inbound/inbound.ts'
import { embeddingAddresses } from '../../protocols/openai-chat/inbound/read.ts'
import { inbound as textCompletions } from '../../protocols/openai-completions/inbound.ts'
import type { InboundRequest } from '../../protocols/protocol.ts'
import type { Refuse, Route, RouteCall } from '../route.ts'
import {
  kindOfCaller,
  type PaidRun,
  refuseDropped,
  serveBody,
  servePaid,
  withTags,
} from '../intake/paid/serve-paid.ts'
import { queryOf, type ReadBody, readCall, readPermit } from '../intake/read-body.ts'
import type { ServingParts } from '../parts.ts'

export const createChatCompletion: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/chat/completions',
  handle: (parts, call) => serveBody(parts, call, chat),
  operation: async () => (await import('./chat-documentation.ts')).chat,
}

/** The older form of a chat. */
export const createCompletion: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/completions',
  handle: (parts, call) => serveBody(parts, call, textCompletions),
  operation: async () => (await import('./chat-documentation.ts')).completion,
}

// POST /v1/embeddings

export const createEmbeddings: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/embeddings',
  handle: (parts, call) => serveEmbedding(parts, call, openai),
  operation: async () => (await import('./chat-documentation.ts')).embeddings,
}

/** How clients ask for vectors and get them. */
interface EmbeddingProtocol {
  /** The body as OpenAI's API has it. Throws GatewayError. */
  readonly asked: (body: JsonObject) => JsonObject
  readonly answer: typeof embeddingBody
  /** The shape of a refusal by the limits; OpenAI's if absent. */
  readonly refuse?: Refuse
}

const openai: EmbeddingProtocol = { asked: (body) => body, answer: embeddingBody }

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function serveEmbedding(
  parts: ServingParts,
  call: RouteCall,
  protocol: EmbeddingProtocol,
): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = call
  // Texts may come as the tokens they are.
  const { caller, json: sent } = await readCall(parts, call, Number.POSITIVE_INFINITY)
  const json = await parts.scheduler.run(() => protocol.asked(sent))
  const { addresses, warnings } = await parts.scheduler.run(() =>
    checkAddresses(json, embeddingAddresses, parts.addressRules),
  )
  const {
    envelope,
    body,
    bodyBytes,
    promptParts,
    request: embedding,
    format,
  } = await parts.scheduler.run(() => parseEmbedding(json))
  refuseDropped(envelope, warnings)
  // Nobody waits for the servers that a caller names.
  if (addresses.length > 0) parts.largeBodies.leave(requestId)
  await Promise.all(addresses.map((address) => parts.chat.media.check(address)))
  const tagged = withTags({ envelope, body, promptParts, warnings }, { request, json: sent, caller })
  const asked = { request, caller, json, requestId, call: { ...tagged, arrivedAt } }
  const run: PaidRun = (stopping, signal, keeper) =>
    embed(parts.chat, {
      caller,
      ...tagged,
      embedding,
      body: (vectors, usage, bill, context) => protocol.answer(vectors, format, usage, bill, context),
      bodyBytes,
      requestId,
      stopping,
      signal,
      keeper,
      arrivedAt,
    })
  return servePaid(parts, asked, run, protocol.refuse)
}

// POST /v1/decisions

export const createDecision: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/decisions',
  handle: async (parts, call) => (await import('./decisions.ts')).serveDecision(parts, call),
  operation: async () => (await import('./decisions.ts')).createDecision,
}

// POST /v1/estimate: the body of a chat or of a response in, its price out; nothing is called,
// nothing charged.

export const estimateCall: Route<ServingParts> = {
  method: 'POST',
  path: '/v1/estimate',
  handle: answer,
  operation: async () => (await import('./chat-documentation.ts')).estimate,
}

async function answer(parts: ServingParts, call: RouteCall): Promise<Response> {
  const { requestId } = call
  const { caller, json, bytes } = await readCall(parts, call)
  // It costs nothing and takes as long to measure as a call: it counts as a request of its caller.
  await parts.limiter.enter(caller, requestId, kindOfCaller(caller))
  try {
    const asked = await read(parts, call, { caller, json, bytes })
    if (hasMonthly(caller)) await parts.monthlyCredit.ensure(caller.account)
    return Response.json(await estimate(parts.chat, { caller, ...asked }))
  } finally {
    parts.limiter.leave(requestId)
  }
}

/** Who would be asked for a chat with a model now, and why: nothing is called, nothing charged. */
export const explainModel: Route<ServingParts> = {
  method: 'GET',
  path: '/v1/route',
  handle: async (parts, call) => {
    const caller = await call.caller()
    const { model } = queryOf(routeParameters, call.request)
    await parts.limiter.enter(caller, call.requestId, kindOfCaller(caller))
    try {
      const request = chat.parse({ model, messages: [{ role: 'user', content: '' }] })
      if (hasMonthly(caller)) await parts.monthlyCredit.ensure(caller.account)
      return Response.json(await explainRoute(parts.chat, { caller, request }))
    } finally {
      parts.limiter.leave(call.requestId)
    }
  },
  operation: async () => (await import('./chat-documentation.ts')).route,
}

const routeParameters = z.strictObject({ model: z.string().min(1).max(200) })

/** The body by the protocol it is written in: only one of the two has an `input`, or something before it. */
async function read(
  parts: ServingParts,
  { request, requestId }: RouteCall,
  { caller, json, bytes }: ReadBody & { readonly caller: Caller },
): Promise<{ request: InboundRequest; bodyBytes: number }> {
  const ofResponses = ['input', 'previous_response_id', 'conversation'].some(
    (name) => json[name] !== undefined,
  )
  if (!ofResponses || json['messages'] !== undefined)
    return { request: await parts.scheduler.run(() => chat.parse(json)), bodyBytes: bytes }
  const { callOf } = await import('./responses.ts')
  // Nothing is answered, so there is nothing to keep.
  const { call, bodyBytes } = await callOf(parts, {
    caller,
    json,
    bytes,
    hooks: { now: parts.now, keep: () => false, kept: () => undefined },
    permit: readPermit(parts, request, requestId, caller.account.id),
  })
  return { request: call.request, bodyBytes }
}
