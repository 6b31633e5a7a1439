// Responses that are made in the background: streams of which the gateway itself is the client. Their events are kept, so
// that whoever asked can look, follow them from any point, and cancel.

import { type Caller, lineOf, viewerOf } from '../../accounts/account.ts'
import { streamHeaders } from '../../chat/streaming/respond.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError, renderError } from '../../errors/errors.ts'
import { bytesOf, type Frame, keepaliveComment } from '../../protocols/framing/sse.ts'
import { queuedResponse, requestIdOf } from '../../protocols/openai-responses/inbound/encode.ts'
import { checkedRequest } from '../../protocols/openai-responses/inbound/read.ts'
import {
  type BackgroundRecord,
  type BackgroundResponses,
  failedEvent,
  lookEveryMs,
  Running,
} from '../../responses/background.ts'
import { framesOf, ownRequest } from '../intake/own-request.ts'
import { commandOf, idempotencyHeader, replayedHeader, requireAsker } from '../intake/paid/idempotency.ts'
import type { ServingParts } from '../parts.ts'
import { answerRoute, type Route, type RouteCall } from '../route.ts'

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
