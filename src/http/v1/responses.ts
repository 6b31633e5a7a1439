// POST /v1/responses

import { type Caller, mayUse, viewerOf } from '../../accounts/account.ts'
import { countTokens } from '../../chat/estimate.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { type AnswerHooks, responseOfItem } from '../../protocols/openai-responses/inbound/encode.ts'
import {
  listedItems,
  responsesCall,
  type ResponsesCall,
} from '../../protocols/openai-responses/inbound/inbound.ts'
import { addresses, checkedRequest, itemsReferredTo } from '../../protocols/openai-responses/inbound/read.ts'
import { keepResponse } from '../../responses/keep.ts'
import { recall, type ReadPermit } from '../../responses/recall.ts'
import { refusedLater } from '../intake/note-refusal.ts'
import { kindOfCaller, serveChat, withinLimits } from '../intake/paid/serve-paid.ts'
import { readCall, refuseByHeaders, readPermit } from '../intake/read-body.ts'
import type { PaidParts, ResponseParts } from '../parts.ts'
import type { Call } from '../route.ts'

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function createResponse(parts: PaidParts & ResponseParts, asked: Call): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = asked
  refuseByHeaders(request.headers, parts.body)
  const known = asked.caller()
  const caller = known instanceof Promise ? await known : known
  const { json, bytes } = await readCall(parts, request, requestId, caller)
  const stored = await storedBy(parts, caller)
  const conversation = conversationOf(caller, request.headers)
  let queued: Promise<void> | undefined
  const hooks: AnswerHooks = {
    now: parts.now,
    keep: (answer) => {
      const input = listedItems(call.items, requestId)
      queued = keepResponse(
        { ...parts, stored },
        { account: caller.account.id, requestId, conversation, input, answer, inputBytes: bodyBytes },
      )
      return queued !== undefined
    },
    kept: () => queued,
  }
  const permit = readPermit(parts, request, requestId, caller.account.id)
  const check = parts.scheduler.run(() => checkAddresses(json, addresses, parts.addressRules))
  const own = check instanceof Promise ? await check : check
  const { call, bodyBytes } = await callOf(parts, { caller, json, bytes, hooks, permit })
  const { inbound, request: read } = call
  // What is recalled was checked when it was sent, perhaps by other rules than today's.
  const checked =
    bodyBytes > bytes
      ? await parts.scheduler.run(() => checkAddresses(read.body, addresses, parts.addressRules))
      : own
  const incoming = { inbound, request: { ...read, addresses: checked.addresses }, bodyBytes, arrivedAt }
  return serveChat(parts, { request, caller, json, requestId, call: incoming, conversation })
}

/** The conversation of the console's chat that the answer is to be the last of: only the app has conversations. */
function conversationOf({ channel }: Caller, headers: Headers): string | undefined {
  return channel === 'app' ? (headers.get('x-weir-conversation') ?? undefined) : undefined
}

/** A call is answered also while the store cannot be read. */
async function storedBy({ responses }: Pick<ResponseParts, 'responses'>, caller: Caller) {
  try {
    return await responses.storedBytes(caller.account.id)
  } catch {
    return undefined
  }
}

interface AskedCall {
  readonly caller: Caller
  readonly json: JsonObject
  /** What the body measures. */
  readonly bytes: number
  readonly hooks: AnswerHooks
  /** Permission to read what the request continues, with its body. */
  readonly permit: ReadPermit
}

/**
 * A body as a call, with the conversation that it continues. `bodyBytes` measures both. Throws
 * `previous_response_not_found` where that is not all there, and `payload_too_large` where it and the body are more
 * than a body may be.
 */
export async function callOf(
  parts: Pick<PaidParts & ResponseParts, 'parsedResponses' | 'body' | 'scheduler'>,
  { caller, json, bytes, hooks, permit }: AskedCall,
): Promise<{ call: ResponsesCall; bodyBytes: number }> {
  const request = await parts.scheduler.run(() => checkedRequest(json))
  const { bytes: recalledBytes, ...recalled } = await recall(parts.parsedResponses, parts.scheduler, {
    viewer: viewerOf(caller),
    mayUse: (model) => mayUse(caller, model),
    previous: request.previous_response_id ?? undefined,
    references: itemsReferredTo(request).map((id) => ({ id, response: responseOfItem(id) })),
    room: parts.body.maxBodyBytes - bytes,
    maxBodyBytes: parts.body.maxBodyBytes,
    permit: (recalledBytes) => permit(bytes + recalledBytes),
  })
  const call = await parts.scheduler.run(() => responsesCall(request, recalled, hooks))
  return { call, bodyBytes: bytes + recalledBytes }
}

// POST /v1/responses/input_tokens

/**
 * Counts the tokens of a request, with the conversation that it continues, without sending it anywhere. Counts as a
 * request of its caller, and costs nothing. Rejects with GatewayError as the response itself would.
 */
export async function countInputTokens(parts: PaidParts & ResponseParts, asked: Call): Promise<Response> {
  const { request, requestId } = asked
  refuseByHeaders(request.headers, parts.body)
  const caller = await asked.caller()
  const { json, bytes } = await readCall(parts, request, requestId, caller)
  const { call } = await callOf(parts, {
    caller,
    json,
    bytes,
    // Nothing is answered, so there is nothing to keep.
    hooks: { now: parts.now, keep: () => false, kept: () => undefined },
    permit: readPermit(parts, request, requestId, caller.account.id),
  })
  const { envelope, promptParts } = call.request
  const countNow = async () => {
    const input_tokens = await countTokens(parts.chat, caller, envelope.model, promptParts)
    // No call holds the request's place among those in flight: it ends here.
    parts.limiter.leave(requestId)
    const headers = { 'x-request-id': requestId }
    return Response.json({ object: 'response.input_tokens', input_tokens }, { headers })
  }
  return withinLimits(
    parts,
    { caller, requestId, kind: kindOfCaller(caller) },
    countNow,
    refusedLater(parts, asked, caller),
  )
}
