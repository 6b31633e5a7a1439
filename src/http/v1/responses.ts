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
import { addresses, checkedRequest, itemsReferredTo } from '../../protocols/openai-responses/inbound/read.ts'
import { conversationIdOf } from '../../protocols/openai-responses/inbound/schema.ts'
import type { Inbound } from '../../protocols/protocol.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import { keepResponse } from '../../responses/keep.ts'
import { itemsOf, mostRead, outputOf, recall, type ReadPermit } from '../../responses/recall.ts'
import type { BackgroundRecord } from '../../responses/background.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import { errorResponse, type Refuse, refusedLater, type RouteCall } from '../route.ts'
import { kindOfCaller, serveChat, withinLimits } from '../intake/paid/serve-paid.ts'
import { type Intake, type ReadBody, readCall, readPermit, refuseByHeaders } from '../intake/read-body.ts'
import type { HttpParts, ServingParts } from '../parts.ts'
import {
  backgroundOf,
  cancelInBackground,
  eventStream,
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
  /** What answers in the client's words. */
  readonly inbound: (responses: Inbound) => Inbound
  readonly refuse: Refuse
  /** Called when the credit for the response is held; absent where its client waits for it. */
  readonly held?: () => void
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
  if (json['background'] === true && form.held === undefined)
    return startInBackground(parts, asked, {
      caller,
      json,
      create: (held) => (own, call) => createResponse(own, call, { ...form, body: openai.body, held }),
    })
  const stored = await storedBy(parts, caller)
  const conversation = conversationOf(caller, request.headers)
  const thread = await threadOf(parts, caller, json)
  let queued: Promise<void> | undefined
  const hooks: AnswerHooks = {
    now: parts.now,
    keep: (answer) => {
      const input = listedItems(call.items, requestId)
      if (thread !== undefined) addToThread(parts, thread, input, answer)
      queued = keepResponse(
        { ...parts, stored },
        { account: caller.account.id, requestId, conversation, input, answer, inputBytes: bodyBytes },
      )
      return queued !== undefined
    },
    kept: () => queued,
    held: form.held,
  }
  const permit = readPermit(parts, request, requestId, caller.account.id)
  const own = await parts.scheduler.run(() => checkAddresses(json, addresses, parts.addressRules))
  parts.prefixes.keep(json)
  const { call, bodyBytes } = await callOf(parts, { caller, json, bytes, hooks, permit, thread })
  const { request: read } = call
  const inbound = form.inbound(call.inbound)
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
  /** The conversation that the response belongs to. */
  readonly thread?: Thread | undefined
}

/** The items of a conversation before a response. */
interface Thread {
  readonly id: string
  readonly items: readonly JsonObject[]
  readonly bytes: number
}

/**
 * A body as a call, with the conversation that it continues. `bodyBytes` measures both. Throws
 * `previous_response_not_found` where that is not all there, and `payload_too_large` where it and the body are more
 * than a body may be.
 */
export async function callOf(
  parts: Pick<ServingParts, 'parsedResponses' | 'body' | 'scheduler' | 'catalog'>,
  { caller, json, bytes, hooks, permit, thread }: AskedCall,
): Promise<{ call: ResponsesCall; bodyBytes: number }> {
  const request = await parts.scheduler.run(() => checkedRequest(json))
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
  return { call, bodyBytes: bytes + before + ownBytes }
}

/** The conversation that a request names. Throws `not_found`, `invalid_request`, and `payload_too_large` for one too long. */
async function threadOf(parts: ServingParts, caller: Caller, json: JsonObject): Promise<Thread | undefined> {
  const { conversation } = json
  if (conversation === undefined || conversation === null) return undefined
  const id = conversationIdOf(checkedRequest(json))!
  const { itemConversations: store } = parts
  if (store === undefined)
    throw invalidParam(
      'conversation',
      'conversations are kept where one process serves alone (server.workers: 1).',
    )
  if ((await store.find(viewerOf(caller), id)) === undefined)
    throw new GatewayError('not_found', {
      message: 'There is no conversation with that id that this caller may see.',
      param: 'conversation',
    })
  const bytes = await store.size(id)
  if (bytes > parts.body.maxBodyBytes)
    throw new GatewayError('payload_too_large', {
      message: 'The conversation is larger than a body may be.',
      metadata: { limit_bytes: parts.body.maxBodyBytes },
    })
  requireConversationRoom(await store.accountBytes(caller.account.id), parts.responseLimits.accountBytes)
  const items = await store.items(id)
  return { id, items: items.map(({ item }) => item), bytes }
}

/** Throws `payload_too_large`: what is made could not be kept. */
export function requireConversationRoom(bytes: number, most: number): void {
  if (bytes <= most) return
  throw new GatewayError('payload_too_large', {
    message:
      'The conversations of this account hold as much as they may (responses.account_bytes): delete some.',
    metadata: { limit_bytes: most },
  })
}

/** Queued in front of the charge, as the response itself is. What failed, or was left, is no part of a conversation. */
function addToThread(
  parts: ServingParts,
  { id }: Thread,
  input: readonly JsonObject[],
  answer: JsonObject,
): void {
  if (answer['status'] !== 'completed' && answer['status'] !== 'incomplete') return
  const items = [...input, ...(answer['output'] as JsonObject[])]
  parts.itemConversations
    ?.add(id, items, parts.now() + parts.responseLimits.retentionMs)
    .catch((error: unknown) =>
      parts.log.warn('a conversation was not gone on with', { conversation: id, error }),
    )
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
    thread: await threadOf(parts, caller, json),
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
  const record = await backgroundOf(parts, caller, asked.params['id']!)
  if (searchParams.get('stream') === 'true') {
    if (record !== undefined) return eventStream(parts, record, placeOf(searchParams.get('starting_after')))
    const message = "'stream' cannot be honoured: only a response in the background keeps its events."
    await storedOf(parts, caller, asked)
    throw new GatewayError('unsupported_parameter', { message, param: 'stream' })
  }
  return Response.json(await responseNow(parts, caller, asked, record))
}

/** The stored response; what is known of one in the background that is not. */
async function responseNow(
  parts: HttpParts,
  caller: Caller,
  asked: RouteCall,
  record: BackgroundRecord | undefined,
): Promise<JsonObject> {
  const { searchParams } = new URL(asked.request.url)
  const stored = await storedOf(parts, caller, asked).catch((error: unknown) => {
    if (record !== undefined && error instanceof GatewayError && error.code === 'not_found') return undefined
    throw error
  })
  if (stored === undefined) return shownInBackground(parts, record!)
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
  const record = await find()
  if (record === undefined) await storedOf(parts, caller, asked)
  await cancelInBackground(parts, record)
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
  const record = await backgroundOf(parts, caller, id)
  // What is still being made is ended first.
  if (record !== undefined) await cancelInBackground(parts, record)
  const gone = await parts.responses.delete(viewerOf(caller), id)
  if (record !== undefined) await parts.background!.store.delete(id)
  else if (!gone) throw noSuchResponse()
  return { id, object: 'response', deleted: true }
}

const defaultLimit = 20
const mostAtOnce = 100

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

/** The page of items that a request asks for, the last first unless it says otherwise. Throws `invalid_request`. */
export function pageOfItems(all: readonly JsonObject[], { url }: Request): JsonObject {
  const { searchParams } = new URL(url)
  const limit = limitOf(searchParams.get('limit'))
  const order = searchParams.get('order') ?? 'desc'
  if (order !== 'asc' && order !== 'desc') throw invalidParam('order', "it is 'asc' or 'desc'.")
  const ordered = order === 'asc' ? all : all.toReversed()
  const after = searchParams.get('after')
  const from = after === null ? 0 : ordered.findIndex((item) => item['id'] === after) + 1
  if (after !== null && from === 0) throw invalidParam('after', 'no item has that id.')
  const page = ordered.slice(from, from + limit)
  const encrypted = wantsEncrypted(searchParams)
  return {
    object: 'list',
    data: encrypted ? page : page.map(withoutEncrypted),
    first_id: page[0]?.['id'] ?? null,
    last_id: page.at(-1)?.['id'] ?? null,
    has_more: from + page.length < ordered.length,
  }
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

function limitOf(text: string | null): number {
  const limit = text === null ? defaultLimit : Number(text)
  if (!Number.isInteger(limit) || limit < 1 || limit > mostAtOnce)
    throw invalidParam('limit', `it is a whole number from 1 to ${mostAtOnce}.`)
  return limit
}

/** Lists travel in a query as `include=` or `include[]=`. */
function wantsEncrypted(query: URLSearchParams): boolean {
  return ['include', 'include[]'].some((name) => query.getAll(name).includes('reasoning.encrypted_content'))
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
