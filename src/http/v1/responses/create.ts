// POST /v1/responses, what is kept of it, and the same for the app.

import type { Caller } from '../../../accounts/caller.ts'
import { checkAddresses } from '../../../chat/upstream/media-urls.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { invalidParam } from '../../../protocols/request/invalid-param.ts'
import { addresses } from '../../../protocols/openai-responses/inbound/addresses.ts'
import {
  listedItems,
  responsesCall,
  type ResponsesCall,
} from '../../../protocols/openai-responses/inbound/inbound.ts'
import { requestIdOf, responseOfItem } from '../../../protocols/openai-responses/inbound/answer.ts'
import type { AnswerHooks } from '../../../protocols/openai-responses/inbound/encode.ts'
import {
  checkedRequest,
  itemsReferredTo,
  type Recalled,
} from '../../../protocols/openai-responses/inbound/read.ts'
import type { ResponsesRequest } from '../../../protocols/openai-responses/inbound/schema.ts'
import type { StoredResponse } from '../../../responses/response-store.ts'
import { readJson, refuseByHeaders } from '../../intake/read-body.ts'
import { serveChat } from '../../intake/serve-paid.ts'
import type { Call } from '../../route.ts'
import type { Service } from '../../service.ts'

/** Serves one request. Rejects with GatewayError before the first byte. */
export async function createResponse(
  service: Service,
  { request, requestId, caller: identify }: Call,
): Promise<Response> {
  const arrivedAt = performance.now()
  refuseByHeaders(request.headers, service.body)
  const caller = await identify()
  const { json, bytes } = await readJson(request, service)
  const hooks: AnswerHooks = {
    now: service.now,
    keep: (response) => keep(service, caller, requestId, call.items, response),
  }
  const own = await service.turns.run(() => checkAddresses(json, addresses, service.reachableHosts))
  const { call, bodyBytes } = await callOf(service, caller, json, bytes, hooks)
  const { inbound, request: asked } = call
  // What is recalled was checked when it was sent, perhaps by other rules than today's.
  const checked = bodyBytes > bytes ? checkAddresses(asked.body, addresses, service.reachableHosts) : own
  return serveChat(service, {
    request,
    caller,
    json,
    requestId,
    call: { inbound, request: { ...asked, addresses: checked.addresses }, bodyBytes, arrivedAt },
  })
}

/**
 * A body as a call, with the conversation that it continues. `bodyBytes` measures both. Throws
 * `previous_response_not_found` where that is not all there, and `payload_too_large` where it and the body are more
 * than a body may be.
 */
export async function callOf(
  service: Pick<Service, 'responses' | 'body' | 'turns'>,
  caller: Caller,
  json: JsonObject,
  bytes: number,
  hooks: AnswerHooks,
): Promise<{ call: ResponsesCall; bodyBytes: number }> {
  const request = await service.turns.run(() => checkedRequest(json))
  const { recalled, recalledBytes } = await recall(
    service,
    caller,
    request,
    service.body.maxBodyBytes - bytes,
  )
  const call = await service.turns.run(() => responsesCall(request, recalled, hooks))
  return { call, bodyBytes: bytes + recalledBytes }
}

// ---- what a request refers to -----------------------------------------------------------------------------

async function recall(
  { responses, body }: Pick<Service, 'responses' | 'body'>,
  caller: Caller,
  request: ResponsesRequest,
  room: number,
): Promise<{ recalled: Recalled; recalledBytes: number }> {
  const account = caller.account.id
  const tooLarge = () =>
    new GatewayError('payload_too_large', {
      message: 'The request and the conversation it continues are larger than a body may be.',
      metadata: { limit_bytes: body.maxBodyBytes },
    })
  const history: JsonObject[] = []
  const { previous_response_id: previous } = request
  if (previous != null) {
    const conversation = await responses.conversation(account, previous, room)
    if (conversation.kind === 'missing') throw notContinued(previous, conversation.id)
    if (conversation.kind === 'too-large') throw tooLarge()
    const failed = conversation.responses.find(({ answer }) => answer['status'] === 'failed')
    if (failed)
      throw invalidParam('previous_response_id', `the response ${failed.id} failed and cannot be continued.`)
    for (const response of conversation.responses) history.push(...itemsOf(response))
  }
  const ids = itemsReferredTo(request)
  const items = await referredItems(responses, account, ids, searchedBodies * body.maxBodyBytes)
  if (items === undefined) throw tooLarge()
  const sizes = new Map([...items].map(([id, item]) => [id, sizeOf([item])]))
  // An item that is referred to twice is sent, and paid for, twice.
  const recalledBytes = ids.reduce((sum, id) => sum + (sizes.get(id) ?? 0), sizeOf(history))
  if (recalledBytes > Math.max(room, 0) && recalledBytes > 0) throw tooLarge()
  return { recalled: { history, items }, recalledBytes }
}

/** How many times what a body may be is read to find the items it refers to: answers hold more than their items. */
const searchedBodies = 4

/** The items of these ids that are stored; undefined where more than `room` bytes would have to be read for them. */
async function referredItems(
  responses: Service['responses'],
  account: string,
  ids: readonly string[],
  room: number,
): Promise<ReadonlyMap<string, JsonObject> | undefined> {
  const items = new Map<string, JsonObject>()
  const wanted = new Map<string, Set<string>>()
  for (const id of ids) {
    const response = responseOfItem(id)
    if (response === undefined) continue
    if (!wanted.has(response)) wanted.set(response, new Set())
    wanted.get(response)!.add(id)
  }
  let read = 0
  for (const [response, of] of wanted) {
    const stored = await responses.find(account, response)
    if (!stored) continue
    read += stored.size
    if (read > room) return undefined
    for (const item of itemsOf(stored)) {
      const id = String(item['id'])
      if (of.has(id)) items.set(id, item)
    }
  }
  return items
}

function notContinued(asked: string, missing: string): GatewayError {
  const message =
    asked === missing
      ? 'This account has no stored response with that id.'
      : `A response that it continues, ${missing}, is not stored any more.`
  return new GatewayError('previous_response_not_found', { message, param: 'previous_response_id' })
}

/** What a response was made from, and what it is made of. */
export function itemsOf(stored: StoredResponse): readonly JsonObject[] {
  return [...stored.input, ...outputOf(stored)]
}

export function outputOf({ answer }: StoredResponse): readonly JsonObject[] {
  return answer['output'] as JsonObject[]
}

function sizeOf(items: readonly JsonObject[]): number {
  return items.length === 0 ? 0 : Buffer.byteLength(JSON.stringify(items))
}

// ---- what is kept -----------------------------------------------------------------------------------------

/**
 * Has a response kept, if it is not too large and its account has room for it. Its charge is booked right after, so
 * neither is without the other.
 */
function keep(
  { responses, responseLimits, log, now }: Service,
  caller: Caller,
  requestId: string,
  items: ResponsesCall['items'],
  response: JsonObject,
): boolean {
  const input = JSON.stringify(listedItems(items, requestId))
  const answer = JSON.stringify(response)
  const size = Buffer.byteLength(input) + Buffer.byteLength(answer)
  if (size > responseLimits.storedBytes) return false
  if (!hasRoom(responses, caller.account.id, responseLimits.accountBytes - size)) return false
  const previous = response['previous_response_id']
  responses
    .keep({
      id: String(response['id']),
      account: caller.account.id,
      call: requestId,
      previous: typeof previous === 'string' ? previous : undefined,
      expiresAt: now() + responseLimits.retentionMs,
      input,
      answer,
    })
    .catch((error: unknown) => {
      log.warn('a response was not stored yet', { request_id: requestId, error })
    })
  return true
}

/** An answer goes out also while the store cannot be read: it is only not kept. */
function hasRoom(responses: Service['responses'], account: string, mostBytes: number): boolean {
  try {
    return responses.storedBytes(account) <= mostBytes
  } catch {
    return false
  }
}

/** The id that a path names; throws `not_found` for what can be none of ours. */
export async function storedOf(
  { responses }: Pick<Service, 'responses'>,
  caller: Caller,
  id: string,
): Promise<StoredResponse> {
  const stored = requestIdOf(id) === undefined ? undefined : await responses.find(caller.account.id, id)
  if (!stored) throw noSuchResponse()
  return stored
}

export function noSuchResponse(): GatewayError {
  return new GatewayError('not_found', { message: 'This account has no stored response with that id.' })
}
