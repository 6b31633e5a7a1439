// Responses that are made in the background: streams of which the gateway itself is the client. Their events are kept, so
// that whoever asked can look, follow them from any point, and cancel.

import { type Caller, viewerOf } from '../../accounts/account.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { GatewayError, renderError } from '../../errors/errors.ts'
import { queuedResponse, requestIdOf } from '../../protocols/openai-responses/inbound/encode.ts'
import { checkedRequest } from '../../protocols/openai-responses/inbound/read.ts'
import { invalidParam } from '../../protocols/request/fields.ts'
import {
  type BackgroundRecord,
  type BackgroundResponses,
  failedEvent,
  Running,
} from '../../responses/background.ts'
import { framesOf, ownRequest } from '../intake/own-request.ts'
import type { ServingParts } from '../parts.ts'
import { answerRoute, type Route, type RouteCall } from '../route.ts'

type BackgroundParts = ServingParts & { readonly background: BackgroundResponses }

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
  }: { caller: Caller; json: JsonObject; create: (held: () => void) => Route<ServingParts>['handle'] },
): Promise<Response> {
  if (!hasBackground(parts))
    throw invalidParam('background', 'it is served where one process serves alone (server.workers: 1).')
  const { background } = parts
  const request = checkedRequest(json)
  const { requestId } = asked
  const wantsStream = json['stream'] === true
  const id = requestId.replace(/^req_/, 'resp_')
  const account = caller.account.id
  const response = queuedResponse(request, requestId, Math.floor(parts.now() / 1000))
  const text = JSON.stringify({ ...json, stream: true })
  const record: BackgroundRecord = {
    id,
    account,
    key: caller.key?.id ?? null,
    idempotency: asked.request.headers.get('idempotency-key'),
    bodyHash: Bun.hash(text).toString(16),
    status: 'running',
    expiresAt: parts.now() + background.limits.retentionMs,
    response,
  }
  const running = new Running(id, account, background)
  background.add(running)
  // What is begun twice with one Idempotency-Key must not run twice: the row comes first, and goes where it is refused.
  const known = await background.store.begin(record).catch(async (error: unknown) => {
    await running.onEnd()
    throw error
  })
  if (known !== undefined) {
    await running.onEnd()
    if (known.bodyHash !== record.bodyHash) throw new GatewayError('idempotency_conflict')
    return wantsStream
      ? eventStream(parts, known, -1)
      : Response.json(await shownInBackground(parts, known), { headers: { 'idempotency-replayed': 'true' } })
  }
  running.onKept()
  const held = Promise.withResolvers<undefined>()
  const own = ownRequest({
    url: asked.request.url,
    headers: asked.request.headers,
    address: parts.site.addressOf(asked.request),
    body: text,
    signal: running.signal,
  })
  const route: Route<ServingParts> = {
    method: 'POST',
    path: '/v1/responses',
    // It was identified when it asked, perhaps by a session.
    identify: () => caller,
    handle: create(() => held.resolve(undefined)),
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
    ? eventStream(parts, record, -1)
    : Response.json(response, { headers: { 'x-request-id': requestId } })
}

function hasBackground(parts: ServingParts): parts is BackgroundParts {
  return parts.background !== undefined
}

/** Reads the response to its end. Never rejects. */
async function follow(
  parts: ServingParts,
  running: Running,
  served: Promise<Response>,
  queued: JsonObject,
): Promise<void> {
  try {
    const response = await served
    if (response.ok) {
      for await (const { data } of framesOf(response, running.signal, parts.chat.limits.eventBytes))
        running.onEvent(data)
    } else {
      const { error } = (await response.json()) as { error: { code: string; message: string } }
      const failed = { ...queued, status: 'failed', error: { code: error.code, message: error.message } }
      running.onEvent(failedEvent(failed, running.events.length))
    }
  } catch (error) {
    if (!running.isCancelled) {
      parts.log.error('a response in the background broke off', { response: running.id, error })
      const { error: said } = renderError(new GatewayError('internal_error'), running.id, parts.publicUrl())
      const failed = { ...queued, status: 'failed', error: { code: said.code, message: said.message } }
      running.onEvent(failedEvent(failed, running.events.length))
    }
  } finally {
    await running.onEnd()
  }
}

/** What is known of a response that is not, or not yet, among the stored ones; undefined for one of the foreground. */
export async function backgroundOf(
  parts: ServingParts,
  caller: Caller,
  id: string,
): Promise<BackgroundRecord | undefined> {
  if (!hasBackground(parts) || requestIdOf(id) === undefined) return undefined
  return parts.background.store.find(viewerOf(caller), id)
}

/** The response as it stands, where it is not stored: it is under way, or came to nothing that could be. */
export async function shownInBackground(parts: ServingParts, record: BackgroundRecord): Promise<JsonObject> {
  if (!hasBackground(parts)) return record.response
  const running = parts.background.running(record.id)
  if (running?.isCancelled === true || record.status === 'cancelled')
    return { ...record.response, status: 'cancelled' }
  const events = running?.events ?? (await parts.background.store.events(record.id, -1))
  const last = events.findLast((event) => event.includes('"response":'))
  if (last === undefined) return record.response
  const { response } = JSON.parse(last) as { response: JsonObject }
  return { ...response, background: true }
}

/**
 * POST /v1/responses/{id}/cancel: ends a response in the background, which is charged for what it came to. Resolves when
 * it has ended; one that has ended before stays as it is. Throws `invalid_request` for one of the foreground.
 */
export async function cancelInBackground(
  parts: ServingParts,
  record: BackgroundRecord | undefined,
): Promise<void> {
  if (record === undefined || !hasBackground(parts))
    throw new GatewayError('invalid_request', {
      message: 'Only a response that is made in the background can be cancelled.',
    })
  const running = parts.background.running(record.id)
  running?.cancel()
  await running?.ended
}

/** The events behind a sequence number, as they were and as they come, until the last. */
export function eventStream(parts: ServingParts, record: BackgroundRecord, after: number): Response {
  const utf8 = new TextEncoder()
  let place = after + 1
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const running = hasBackground(parts) ? parts.background.running(record.id) : undefined
          if (running === undefined) {
            // It is over: what is left of it is in the store.
            const kept = hasBackground(parts) ? await parts.background.store.events(record.id, place - 1) : []
            for (const data of kept) controller.enqueue(utf8.encode(frameOf(data)))
            controller.close()
            return
          }
          const data = running.events[place]
          if (data !== undefined) {
            place += 1
            controller.enqueue(utf8.encode(frameOf(data)))
            return
          }
          if (running.isOver) await running.ended
          else if (!(await within(parts.chat.limits.keepaliveMs, running.next()))) {
            controller.enqueue(utf8.encode(': keepalive\n\n'))
            return
          }
        }
      },
    },
    { highWaterMark: 0 },
  )
  const headers = {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  }
  return new Response(body, { headers })
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
function frameOf(data: string): string {
  const type = /"type":"([a-z_.]+)"/.exec(data)?.[1]
  return `${type === undefined ? '' : `event: ${type}\n`}data: ${data}\n\n`
}
