// POST /v1/responses

import { type Caller, lineOf, viewerOf } from '../../accounts/account.ts'
import { mayReach } from '../../chat/admission.ts'
import { streamHeaders } from '../../chat/streaming/respond.ts'
import { checkAddresses } from '../../chat/upstream/lower.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError, renderError } from '../../errors/errors.ts'
import { bytesOf, type Frame, keepaliveComment, SseDecoder } from '../../protocols/framing/sse.ts'
import {
  type AnswerHooks,
  listedItems,
  queuedResponse,
  requestIdOf,
  responseOfItem,
  responsesCall,
  type ResponsesCall,
  withoutEncrypted,
} from '../../protocols/openai-responses/inbound/inbound.ts'
import { asCompaction, summaryRequest } from '../../protocols/openai-responses/inbound/items.ts'
import { addresses, checkedRequest, itemsReferredTo } from '../../protocols/openai-responses/inbound/read.ts'
import type { Inbound } from '../../protocols/protocol.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import {
  type BackgroundRecord,
  type BackgroundResponses,
  failedEvent,
  lookEveryMs,
  Running,
} from '../../responses/background.ts'
import { itemsOf, keepResponse, mostRead, outputOf, type ReadPermit, recall } from '../../responses/keep.ts'
import type { StoredResponse } from '../../responses/response-store.ts'
import { isFromAddress } from '../intake/caller.ts'
import { commandOf, idempotencyHeader, replayedHeader, requireAsker } from '../intake/paid/idempotency.ts'
import { answerCount, serveChat } from '../intake/paid/serve-paid.ts'
import { type Intake, type ReadBody, readCall, readPermit } from '../intake/read-body.ts'
import type { HttpParts, ServingParts } from '../parts.ts'
import { answerRoute, errorResponse, type Refuse, type Route, type RouteCall } from '../route.ts'
import {
  addToThread,
  pageOfItems,
  type Thread,
  threadOf,
  type ThreadParts,
  wantsEncrypted,
} from './conversations.ts'

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
  const { caller, ...sent } = await readCall(parts, asked)
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
  const { caller, json, bytes } = await readCall(parts, asked)
  const { call } = await callOf(parts, {
    caller,
    json,
    bytes,
    // Nothing is answered, so there is nothing to keep.
    hooks: { now: parts.now, keep: () => false, kept: () => undefined },
    permit: readPermit(parts, request, requestId, caller.account.id),
  })
  const { envelope, promptParts } = call.request
  const prompt = { model: envelope.model, parts: promptParts }
  const shape = (input_tokens: number) => ({ object: 'response.input_tokens', input_tokens })
  return answerCount(parts, asked, caller, prompt, shape)
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

// Responses that are made in the background: streams of which the gateway itself is the client. Their events are kept, so
// that whoever asked can look, follow them from any point, and cancel.

/** A response as its own route makes it, whose client is the gateway. */
export interface MadeInBackground {
  readonly running: Running
  /** To be called when the credit for it is held. */
  readonly onHeld: () => void
}

/**
 * Accepts a response and makes it behind its client's back. Resolves with the queued response, or with its events where
 * `stream` is asked for, once the credit for it is held; what is refused before that is refused as in the foreground.
 * `create` is the route of a response whose client is the gateway.
 */
export async function startInBackground(
  parts: ServingParts,
  asked: RouteCall,
  {
    caller,
    json,
    create,
  }: { caller: Caller; json: JsonObject; create: (made: MadeInBackground) => Route<ServingParts>['handle'] },
): Promise<Response> {
  const { background } = parts
  const request = checkedRequest(json)
  const { requestId } = asked
  const wantsStream = json['stream'] === true
  const id = requestId.replace(/^req_/, 'resp_')
  const account = caller.account.id
  const key = asked.request.headers.get(idempotencyHeader)
  const claim =
    key === null
      ? undefined
      : await commandOf(parts, { request: asked.request, caller, json, requestId }, key)
  const response = queuedResponse(request, requestId, Math.floor(parts.now() / 1000))
  const record: BackgroundRecord = {
    id,
    account,
    key: caller.key?.id ?? null,
    idempotency: key,
    bodyHash: claim === undefined ? '' : Buffer.from(claim.bodyHash).toString('hex'),
    status: 'running',
    expiresAt: parts.now() + background.limits.retentionMs,
    response,
  }
  const running = new Running(id, account, background)
  // What is begun twice with one Idempotency-Key must not run twice: the row comes first, and goes where it is refused.
  const known = await background.store.begin(record)
  if (known !== undefined) return replay(parts, caller, { background, record: known }, record, wantsStream)
  try {
    await background.add(running)
  } catch (error) {
    await background.store.delete(id)
    throw error
  }
  const held = Promise.withResolvers<undefined>()
  const own = ownRequest({
    url: asked.request.url,
    headers: asked.request.headers,
    address: parts.site.addressOf(asked.request),
    body: JSON.stringify({ ...json, stream: true }),
    signal: running.signal,
  })
  const route: Route<ServingParts> = {
    method: 'POST',
    path: '/v1/responses',
    // It was identified when it asked, perhaps by a session.
    identify: () => caller,
    handle: create({ running, onHeld: () => held.resolve(undefined) }),
  }
  const served = answerRoute(parts, route, own, {}, requestId)
  const refused = await Promise.race([held.promise, served.then((early) => (early.ok ? undefined : early))])
  if (refused !== undefined) {
    await background.store.delete(id)
    await running.onEnd()
    return refused
  }
  void follow(parts, running, served, response)
  return wantsStream
    ? eventStream({ background, record }, -1, parts.chat.limits.keepaliveMs)
    : Response.json(response, { headers: { 'x-request-id': requestId } })
}

/** What the first request with this Idempotency-Key has begun, as it stands. Throws what `idempotent` would. */
async function replay(
  parts: ServingParts,
  caller: Caller,
  found: InBackground,
  asked: BackgroundRecord,
  wantsStream: boolean,
): Promise<Response> {
  const { background, record } = found
  if (record.bodyHash !== asked.bodyHash)
    throw new GatewayError('idempotency_conflict', {
      message: 'The Idempotency-Key was used before with another body.',
    })
  const isOwn = (await background.store.find(viewerOf(caller), record.id)) !== undefined
  const line = isOwn && caller.key !== null ? lineOf(caller.key) : null
  await requireAsker(parts, caller, { model: String(record.response['model']), line })
  const answer = wantsStream
    ? eventStream(found, -1, parts.chat.limits.keepaliveMs)
    : Response.json(await shownInBackground(found))
  answer.headers.set(replayedHeader, 'true')
  return answer
}

/** Reads the response to its end. Never rejects. */
async function follow(
  parts: ServingParts,
  running: Running,
  served: Promise<Response>,
  queued: JsonObject,
): Promise<void> {
  const fail = ({ code, message }: { readonly code: string; readonly message: string }) =>
    running.onEvent(
      failedEvent({ ...queued, status: 'failed', error: { code, message } }, running.events.length),
    )
  try {
    const response = await served
    if (response.ok) {
      for await (const { data } of framesOf(response, running.signal, parts.chat.limits.eventBytes))
        running.onEvent(data)
    } else fail(((await response.json()) as { error: { code: string; message: string } }).error)
  } catch (error) {
    if (!running.isCancelled) {
      parts.log.error('a response in the background broke off', { response: running.id, error })
      fail(renderError(new GatewayError('internal_error'), running.id, parts.publicUrl()).error)
    }
  } finally {
    await running.onEnd()
  }
}

/** A response of the background, and those of this process. */
export interface InBackground {
  readonly background: BackgroundResponses
  readonly record: BackgroundRecord
}

/** What is known of a response that is not, or not yet, among the stored ones; undefined for one of the foreground. */
export async function backgroundOf(
  { background }: Pick<ServingParts, 'background'>,
  caller: Caller,
  id: string,
): Promise<InBackground | undefined> {
  if (requestIdOf(id) === undefined) return undefined
  const record = await background.store.find(viewerOf(caller), id)
  return record && { background, record }
}

/** The response as it stands, where it is not stored: it is under way, or came to nothing that could be. */
export async function shownInBackground({ background, record }: InBackground): Promise<JsonObject> {
  const running = background.running(record.id)
  if (running?.isCancelled === true || record.status === 'cancelled')
    return { ...record.response, status: 'cancelled' }
  const events = running?.events ?? (await background.store.events(record.id, -1))
  const last = events.findLast((event) => event.includes('"response":'))
  if (last === undefined) return record.response
  return (JSON.parse(last) as { response: JsonObject }).response
}

/**
 * POST /v1/responses/{id}/cancel: ends a response in the background, which is charged for what it came to. Resolves when
 * it has ended, or when the process that makes it will; one that has ended before stays as it is. Throws `invalid_request` for one of the foreground.
 */
export async function cancelInBackground(found: InBackground | undefined): Promise<void> {
  if (found === undefined)
    throw new GatewayError('invalid_request', {
      message: 'Only a response that is made in the background can be cancelled.',
    })
  const { background, record } = found
  const running = background.running(record.id)
  if (running === undefined) return background.store.cancel(record.id)
  running.cancel()
  await running.ended
}

/** The events behind a sequence number, as they were and as they come, until the last; a comment in each `keepaliveMs`. */
export function eventStream(
  { background, record }: InBackground,
  after: number,
  keepaliveMs: number,
): Response {
  let place = after + 1
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const send = (events: readonly string[]) => {
          for (const bytes of bytesOf(events.map(frameOf))) controller.enqueue(bytes)
        }
        for (let waitedMs = 0; ;) {
          const running = background.running(record.id)
          if (running === undefined) {
            // It is over, or another process makes it: what there is of it is in the store.
            const status = await background.store.statusOf(record.id)
            const events = await background.store.events(record.id, place - 1)
            place += events.length
            send(events)
            if (status !== 'running') controller.close()
            if (status !== 'running' || events.length > 0) return
            if (waitedMs >= keepaliveMs) {
              controller.enqueue(keepaliveComment)
              return
            }
            await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
            waitedMs += lookEveryMs
            continue
          }
          const data = running.events[place]
          if (data !== undefined) {
            place += 1
            send([data])
            return
          }
          if (running.isOver) await running.ended
          else if (!(await within(keepaliveMs, running.next()))) {
            controller.enqueue(keepaliveComment)
            return
          }
        }
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: streamHeaders })
}

/** Whether it has come within `ms` milliseconds. */
async function within(ms: number, coming: Promise<void>): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<false>()
  const timer = setTimeout(() => resolve(false), ms)
  try {
    return await Promise.race([coming.then(() => true), promise])
  } finally {
    clearTimeout(timer)
  }
}

/** Every event says its type first. */
function frameOf(data: string): Frame {
  return { event: /"type":"([a-z_.]+)"/.exec(data)?.[1], data }
}

// Requests that the gateway makes of itself, for a client that is not at the other end of an HTTP request.

interface OwnRequest {
  readonly url: string
  /** Of the client's own request: what is about its connection, or about that request alone, is left out. */
  readonly headers: Headers
  /** Where the client is. */
  readonly address: string
  readonly body: string
  /** Aborts when the client does not want the answer any more. */
  readonly signal: AbortSignal
}

export function ownRequest({ url, headers, address, body, signal }: OwnRequest): Request {
  const kept: Record<string, string> = {}
  headers.forEach((value, name) => {
    if (!name.startsWith('sec-websocket-') && !notPassed.has(name)) kept[name] = value
  })
  const own = {
    ...kept,
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
  }
  const request = new Request(url, { method: 'POST', headers: own, body, signal })
  isFromAddress(request, address)
  return request
}

const notPassed: ReadonlySet<string> = new Set([
  'connection',
  'upgrade',
  'idempotency-key',
  'content-length',
  'transfer-encoding',
  'content-encoding',
  'expect',
])

/** The events of an answer, until its end or until the signal aborts: then its body is given back, as a client does. */
export async function* framesOf(
  { body }: Response,
  signal: AbortSignal,
  maxCharacters: number,
): AsyncGenerator<Frame> {
  if (body === null) return
  const decoder = new SseDecoder(maxCharacters)
  const reader = body.getReader()
  const leave = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener('abort', leave, { once: true })
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read()
      if (done) return
      yield* decoder.push(value)
    }
  } finally {
    signal.removeEventListener('abort', leave)
    leave()
  }
}
