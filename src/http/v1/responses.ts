// POST /v1/responses

import { type Caller, viewerOf } from '../../accounts/account.ts'
import { mayReach } from '../../chat/admission.ts'
import { countTokens } from '../../chat/estimate.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  type AnswerHooks,
  requestIdOf,
  responseOfItem,
  withoutEncrypted,
} from '../../protocols/openai-responses/inbound/encode.ts'
import {
  listedItems,
  responsesCall,
  type ResponsesCall,
} from '../../protocols/openai-responses/inbound/inbound.ts'
import { asCompaction, summaryRequest } from '../../protocols/openai-responses/inbound/compaction.ts'
import { addresses, checkedRequest, itemsReferredTo } from '../../protocols/openai-responses/inbound/read.ts'
import type { Inbound } from '../../protocols/protocol.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import { keepResponse } from '../../responses/keep.ts'
import { itemsOf, mostRead, outputOf, recall, type ReadPermit } from '../../responses/recall.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import {
  addToThread,
  pageOfItems,
  type Thread,
  type ThreadParts,
  threadOf,
  wantsEncrypted,
} from './conversations.ts'
import { errorResponse, type Refuse, refusedLater, type RouteCall } from '../route.ts'
import { kindOfCaller, serveChat, withinLimits } from '../intake/paid/serve-paid.ts'
import { type Intake, type ReadBody, readCall, readPermit, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts, ServingParts } from '../parts.ts'
import {
  backgroundOf,
  cancelInBackground,
  eventStream,
  type InBackground,
  type MadeInBackground,
  shownInBackground,
  startInBackground,
} from './responses-background.ts'

/** How the clients of a protocol write responses that is not OpenAI's. */
export interface ResponseForm {
  /**
   * A request as one of the Responses protocol, and what it measures; or its answer, where nothing is to be asked. Throws
   * GatewayError.
   */
  readonly body: (json: JsonObject, bytes: number) => ReadBody | Response
  /** What answers in the client's words; `items` are all that the model is sent. */
  readonly inbound: (responses: Inbound, items: readonly JsonObject[]) => Inbound
  readonly refuse: Refuse
  /** Of a response that no client waits for. */
  readonly background?: MadeInBackground
}

const openai: ResponseForm = {
  body: (json, bytes) => ({ json, bytes }),
  inbound: (responses) => responses,
  refuse: errorResponse,
}

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function createResponse(
  parts: ServingParts,
  asked: RouteCall,
  form = openai,
): Promise<Response> {
  const arrivedAt = performance.now()
  const { request, requestId } = asked
  refuseByHeaders(request.headers, parts.body)
  const caller = await asked.caller()
  const sent = await readCall(parts, request, requestId, caller)
  const formed = form.body(sent.json, sent.bytes)
  if (formed instanceof Response) return formed
  const { json, bytes } = formed
  if (json['background'] === true && form.background === undefined)
    return startInBackground(parts, asked, {
      caller,
      json,
      create: (background) => (own, call) =>
        createResponse(own, call, { ...form, body: openai.body, background }),
    })
  const stored = await storedBy(parts, caller)
  const conversation = conversationOf(caller, request.headers)
  let queued: Promise<void> | undefined
  const hooks: AnswerHooks = {
    now: parts.now,
    keep: (answer) => {
      if (form.background?.running.isUnwanted === true) return false
      const input = listedItems(call.items, requestId)
      if (thread !== undefined) addToThread(parts, thread, input, answer)
      queued = keepResponse(
        { ...parts, stored },
        { account: caller.account.id, requestId, conversation, input, answer, inputBytes: bodyBytes },
      )
      form.background?.running.onKeeping(queued)
      return queued !== undefined
    },
    kept: () => queued,
    held: form.background?.onHeld,
  }
  const permit = readPermit(parts, request, requestId, caller.account.id)
  const own = await parts.scheduler.run(() => checkAddresses(json, addresses, parts.addressRules))
  parts.prefixes.keep(json)
  const { call, bodyBytes, thread } = await callOf(parts, { caller, json, bytes, hooks, permit })
  const { request: read } = call
  const inbound = form.inbound(call.inbound, read.body['input'] as JsonObject[])
  // What is recalled was checked when it was sent, perhaps by other rules than today's.
  const checked =
    bodyBytes > bytes
      ? await parts.scheduler.run(() => checkAddresses(read.body, addresses, parts.addressRules))
      : own
  const incoming = { inbound, request: { ...read, addresses: checked.addresses }, bodyBytes, arrivedAt }
  const paid = { request, caller, json, requestId, call: incoming, conversation }
  return serveChat(parts, paid, form.refuse)
}

/** The conversation of the console's chat that the answer is to be the last of: only the app has conversations. */
function conversationOf({ channel }: Caller, headers: Headers): string | undefined {
  return channel === 'app' ? (headers.get('x-weir-conversation') ?? undefined) : undefined
}

/** A call is answered also while the store cannot be read. */
async function storedBy({ responses }: Pick<ServingParts, 'responses'>, caller: Caller) {
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
  parts: Pick<ServingParts, 'parsedResponses' | 'body' | 'scheduler' | 'catalog'> & ThreadParts,
  { caller, json, bytes, hooks, permit }: AskedCall,
): Promise<{ call: ResponsesCall; bodyBytes: number; thread: Thread | undefined }> {
  const request = await parts.scheduler.run(() => checkedRequest(json))
  const thread = await threadOf(parts, caller, request)
  const before = thread?.bytes ?? 0
  const { bytes: ownBytes, ...own } = await recall(parts.parsedResponses, parts.scheduler, {
    viewer: viewerOf(caller),
    mayUse: (model) => mayReach(parts.catalog, caller, model),
    previous: request.previous_response_id ?? undefined,
    references: itemsReferredTo(request).map((id) => ({ id, response: responseOfItem(id) })),
    room: parts.body.maxBodyBytes - bytes - before,
    maxBodyBytes: parts.body.maxBodyBytes,
    permit: (recalledBytes) => permit(bytes + recalledBytes),
  })
  const recalled = thread === undefined ? own : { ...own, history: thread.items }
  const call = await parts.scheduler.run(() => responsesCall(request, recalled, hooks))
  return { call, bodyBytes: bytes + before + ownBytes, thread }
}

// POST /v1/responses/compact

/** Has a conversation summarised: a response like any other, held and charged as one. Rejects as one does. */
export function compactConversation(parts: ServingParts, asked: RouteCall): Promise<Response> {
  return createResponse(parts, asked, {
    body: (json, bytes) => ({ json: summaryRequest(json), bytes }),
    inbound: asCompaction,
    refuse: errorResponse,
  })
}

// POST /v1/responses/input_tokens

/**
 * Counts the tokens of a request, with the conversation that it continues, without sending it anywhere. Counts as a
 * request of its caller, and costs nothing. Rejects with GatewayError as the response itself would.
 */
export async function countInputTokens(parts: ServingParts, asked: RouteCall): Promise<Response> {
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

// GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items, and the same for the app.

/** The stored responses, and what they are read with. */
export type StoredResponses = Pick<HttpParts, 'responses' | 'parsedResponses' | keyof Intake>

type Asked = Pick<RouteCall, 'request' | 'requestId' | 'params'>

/**
 * The response as its request was answered; in the background, as it stands, or its events behind `starting_after`. Throws
 * `not_found`, and `unsupported_parameter` where the events are asked for of one that was made in the foreground.
 */
export async function showResponse(parts: HttpParts, caller: Caller, asked: RouteCall): Promise<Response> {
  const { searchParams } = new URL(asked.request.url)
  const found = await backgroundOf(parts, caller, asked.params['id']!)
  if (searchParams.get('stream') === 'true') {
    if (found !== undefined)
      return eventStream(found, placeOf(searchParams.get('starting_after')), parts.chat.limits.keepaliveMs)
    const message = "'stream' cannot be honoured: only a response in the background keeps its events."
    await storedOf(parts, caller, asked)
    throw new GatewayError('unsupported_parameter', { message, param: 'stream' })
  }
  return Response.json(await responseNow(parts, caller, asked, found))
}

/** The stored response; what is known of one in the background that is not. */
async function responseNow(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
  found: InBackground | undefined,
): Promise<JsonObject> {
  const { searchParams } = new URL(asked.request.url)
  const stored = await storedOf(parts, caller, asked).catch((error: unknown) => {
    if (found !== undefined && error instanceof GatewayError && error.code === 'not_found') return undefined
    throw error
  })
  if (stored === undefined) return shownInBackground(found!)
  if (wantsEncrypted(searchParams)) return stored.answer
  return { ...stored.answer, output: outputOf(stored).map(withoutEncrypted) }
}

/** Cancels a response in the background, and gives it as it stands then. */
export async function cancelResponse(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
): Promise<JsonObject> {
  const find = () => backgroundOf(parts, caller, asked.params['id']!)
  const found = await find()
  if (found === undefined) await storedOf(parts, caller, asked)
  await cancelInBackground(found)
  return responseNow(parts, caller, asked, await find())
}

function placeOf(text: string | null): number {
  const place = text === null ? -1 : Number(text)
  if (!Number.isInteger(place) || place < -1)
    throw invalidParam('starting_after', 'it is the sequence number of an event.')
  return place
}

/** Resolves when the response is gone from the disk. Rejects with `not_found`. */
export async function deleteResponse(parts: HttpParts, caller: Caller, id: string): Promise<JsonObject> {
  const found = await backgroundOf(parts, caller, id)
  // What is still being made is ended first.
  await found?.background.running(id)?.drop()
  const gone = await parts.responses.delete(viewerOf(caller), id)
  if (found !== undefined) await found.background.store.delete(id)
  else if (!gone) throw noSuchResponse()
  return { id, object: 'response', deleted: true }
}

/**
 * The items that a response was made from, those of the conversation it continues before its own; a page of them.
 * Throws `not_found`, and `invalid_request` for a page that cannot be.
 */
export async function listInputItems(
  parts: StoredResponses,
  caller: Caller,
  asked: Asked,
): Promise<JsonObject> {
  return pageOfItems(await inputOf(parts, caller, asked), asked.request)
}

/** A conversation that has lost its beginning is listed from where it still exists. */
async function inputOf(parts: StoredResponses, caller: Caller, asked: Asked): Promise<JsonObject[]> {
  const { id: account } = caller.account
  const stored = await storedOf(parts, caller, asked)
  const permit = readPermit(parts, asked.request, asked.requestId, account)
  const before =
    stored.previous === undefined
      ? undefined
      : await parts.parsedResponses.conversation(
          viewerOf(caller),
          stored.previous,
          mostRead(parts.body.maxBodyBytes),
          (bytes) => permit(stored.size + bytes),
        )
  const earlier = before?.kind === 'whole' ? before.responses : []
  return withOwnIds([...earlier.flatMap(itemsOf), ...stored.input])
}

/** Pages are found by ids, and an item may stand there twice: what comes again is listed under an id of its own. */
function withOwnIds(items: readonly JsonObject[]): JsonObject[] {
  const counts = new Map<string, number>()
  return items.map((item) => {
    const sent = String(item['id'])
    let id = sent
    while (counts.has(id)) {
      const count = counts.get(sent)! + 1
      counts.set(sent, count)
      id = `${sent}_${count}`
    }
    counts.set(id, 1)
    return id === sent ? item : { ...item, id }
  })
}

/** The id that a path names; throws `not_found` for what can be none of ours. */
export async function storedOf(
  parts: StoredResponses,
  caller: Caller,
  { request, requestId, params }: Asked,
): Promise<StoredResponse> {
  const id = params['id']!
  const { id: account } = caller.account
  const permit = readPermit(parts, request, requestId, account)
  const stored =
    requestIdOf(id) === undefined ? undefined : await parts.parsedResponses.find(viewerOf(caller), id, permit)
  if (!stored) throw noSuchResponse()
  return stored
}

function noSuchResponse(): GatewayError {
  return new GatewayError('not_found', {
    message: 'There is no stored response with that id that this caller may see.',
  })
}
