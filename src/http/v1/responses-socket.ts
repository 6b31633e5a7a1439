// GET /v1/responses as a WebSocket (platform.openai.com/docs/guides/websocket-mode): each `response.create` is a request
// of the same pipeline as POST /v1/responses, and its frames are the events of that stream.

import type { RunningCaller } from '../../chat/call.ts'
import { shuttingDown } from '../../chat/routing/fault-error.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { asGatewayError, GatewayError, renderError } from '../../errors/errors.ts'
import { isObject } from '../../protocols/lenient.ts'
import { encodeFrame } from '../../protocols/framing/sse.ts'
import { queuedResponse } from '../../protocols/openai-responses/inbound/inbound.ts'
import { checkedRequest } from '../../protocols/openai-responses/inbound/read.ts'
import { invalidParam, unsupportedParam } from '../../protocols/request/fields.ts'
import { createResponse, framesOf, ownRequest, type ResponseForm } from './responses.ts'
import { closeCodes, type OpenSocket, type SocketPeer } from '../intake/sockets.ts'
import type { ServingParts } from '../parts.ts'
import { answerRoute, errorResponse, newRequestId, type Route, type RouteCall } from '../route.ts'

/** Responses that one socket may have under way: one a lane, as its clients expect. */
const mostLanes = 8

/**
 * Answers GET /v1/responses. Throws `websocket_disabled`, `method_not_allowed` for a request that asks for no socket, and
 * whatever the caller's authentication throws.
 */
export async function openResponseSocket(
  parts: ServingParts,
  { request, requestId, caller: identify }: RouteCall,
): Promise<Response> {
  const { sockets } = parts
  if (request.headers.get('upgrade')?.toLowerCase() !== 'websocket')
    throw new GatewayError('method_not_allowed', {
      message: '/v1/responses takes POST, not GET, unless a WebSocket is asked for.',
      metadata: { allow: ['POST'] },
    })
  if (!sockets.limits.enabled) throw new GatewayError('websocket_disabled')
  const caller = await identify()
  if (!parts.ready()) throw shuttingDown()
  const running = await parts.callers.enter(caller)
  try {
    const socket = new ResponseSocket(parts, { request, running })
    sockets.open(request, socket, caller.account.id)
  } catch (error) {
    running.leave()
    throw error
  }
  // The runtime has taken the connection: nothing of this is sent.
  return new Response(null, { headers: { 'x-request-id': requestId } })
}

interface Opened {
  readonly request: Request
  /** Says when the caller's access ends. */
  readonly running: RunningCaller
}

/**
 * What the last response of a lane was made of and came to, where it is not stored: its client continues it by its id all
 * the same, as long as the socket is open.
 */
interface LastResponse {
  readonly id: string
  /** The stored response that it continues, if any. */
  readonly previous: string | undefined
  readonly items: readonly JsonObject[]
  /** What they measure. */
  readonly bytes: number
}

/** Responses one after another; `stream_id` names it. */
interface Lane {
  last: LastResponse | undefined
  isBusy: boolean
}

/** One response under way. */
interface Turn {
  name: string | undefined
  lane: Lane | undefined
  /** What it is made of, to be kept with what it comes to; undefined where the store keeps it. */
  made: Omit<LastResponse, 'id'> | undefined
}

export class ResponseSocket implements OpenSocket {
  readonly #parts: ServingParts
  readonly #running: RunningCaller
  readonly #url: string
  /** Of the handshake: they are those of all requests of this socket. */
  readonly #headers: Headers
  readonly #address: string
  readonly #lanes = new Map<string, Lane>()
  readonly #left = new AbortController()
  #peer: SocketPeer | undefined
  #turns = 0
  #closing: readonly [code: number, reason: string] | undefined
  /** Resolves when the client has read what was sent. */
  #drained: PromiseWithResolvers<void> | undefined
  #lifetime: Timer | undefined

  constructor(parts: ServingParts, { request, running }: Opened) {
    this.#parts = parts
    this.#running = running
    this.#url = request.url
    this.#headers = new Headers(request.headers)
    this.#address = parts.site.addressOf(request)
    running.signal.addEventListener('abort', () =>
      this.#end(closeCodes.refused, 'the access of this key has ended'),
    )
  }

  onOpen(peer: SocketPeer): void {
    this.#peer = peer
    const { lifetimeMs } = this.#parts.sockets.limits
    this.#lifetime = setTimeout(
      () => this.closeSoon(closeCodes.normal, 'the time of this connection is over'),
      lifetimeMs,
    )
    if (this.#running.signal.aborted) this.#end(closeCodes.refused, 'the access of this key has ended')
  }

  onMessage(data: string | Uint8Array): void {
    if (this.#closing !== undefined) return
    if (typeof data !== 'string')
      return this.#refuse(invalidParam('type', 'frames are JSON texts.'), undefined)
    if (this.#turns >= mostLanes)
      return this.#refuse(
        new GatewayError('rate_limit_exceeded', {
          message: `${mostLanes} responses are under way on this socket.`,
        }),
        undefined,
      )
    this.#turns += 1
    void this.#answer(data).finally(() => {
      this.#turns -= 1
      if (this.#closing !== undefined) this.closeSoon(...this.#closing)
    })
  }

  onDrain(): void {
    this.#drained?.resolve()
    this.#drained = undefined
  }

  onClose(): void {
    clearTimeout(this.#lifetime)
    this.#left.abort()
    this.onDrain()
    this.#lanes.clear()
    this.#running.leave()
    this.#parts.sockets.onClosed(this)
  }

  /** Closes when no response is under way; no other is begun. */
  closeSoon(code: number, reason: string): void {
    this.#closing ??= [code, reason]
    if (this.#turns === 0) this.#end(code, reason)
  }

  #end(code: number, reason: string): void {
    this.#closing ??= [code, reason]
    this.#peer?.close(code, reason)
  }

  /** Never rejects. */
  async #answer(text: string): Promise<void> {
    const turn: Turn = { name: undefined, lane: undefined, made: undefined }
    const form: ResponseForm = {
      body: (json, bytes) => this.#requestOf(turn, json, bytes),
      inbound: (responses) => responses,
      refuse: errorResponse,
    }
    const request = ownRequest({
      url: this.#url,
      headers: this.#headers,
      address: this.#address,
      body: text,
      signal: this.#left.signal,
    })
    const route: Route<ServingParts> = {
      method: 'POST',
      path: '/v1/responses',
      handle: (parts, call) => createResponse(parts, call, form),
    }
    try {
      const response = await answerRoute(this.#parts, route, request, {})
      if (response.ok) await this.#pass(response, turn)
      else {
        const { error } = (await response.json()) as { error: object }
        if (turn.lane !== undefined) turn.lane.last = undefined
        await this.#send(
          { type: 'error', status: response.status, error: { ...error, headers: toldOf(response) } },
          turn,
        )
      }
    } catch (thrown) {
      // The relay has ended the call; nobody is told where the connection is gone.
      if (!this.#left.signal.aborted) this.#refuse(asGatewayError(thrown), turn.name)
    } finally {
      if (turn.lane !== undefined) turn.lane.isBusy = false
    }
  }

  /** The request of a frame, with what its lane remembers. Throws GatewayError. */
  #requestOf(turn: Turn, json: JsonObject, bytes: number): ReturnType<ResponseForm['body']> {
    const { type, generate, stream_id: name, background, ...body } = json
    if (type !== 'response.create')
      throw invalidParam('type', "a frame is of type 'response.create'; nothing else is served here.")
    if (name !== undefined && (typeof name !== 'string' || name === '' || name.length > 64))
      throw invalidParam('stream_id', 'it is a text of at most 64 characters.')
    if (background === true) throw unsupportedParam('background', 'a socket has a client that waits.')
    turn.name = name
    const lane = this.#laneOf(name ?? '')
    if (lane.isBusy)
      throw invalidParam(
        'stream_id',
        'a response of this lane is under way: wait for its end, or name another lane.',
      )
    lane.isBusy = true
    turn.lane = lane
    const { last } = lane
    const own = itemsOf(body['input'])
    const continues = last !== undefined && body['previous_response_id'] === last.id
    const previous = continues ? last.previous : textOf(body['previous_response_id'])
    const items = continues ? [...last.items, ...own] : own
    const measured = continues ? bytes + last.bytes : bytes
    if (measured > this.#parts.body.maxBodyBytes)
      throw new GatewayError('payload_too_large', {
        metadata: { limit_bytes: this.#parts.body.maxBodyBytes },
      })
    const isStored = body['store'] !== false && !continues
    if (!isStored || generate === false) turn.made = { previous, items, bytes: measured }
    const { previous_response_id: _, ...rest } = body
    const asked: JsonObject = {
      ...rest,
      ...(continues ? { input: [...items] } : {}),
      ...(previous === undefined ? {} : { previous_response_id: previous }),
      stream: true,
      ...(isStored ? {} : { include: withEncrypted(body['include']) }),
    }
    return generate === false ? this.#warmUp(asked) : { json: asked, bytes: measured }
  }

  #laneOf(name: string): Lane {
    const known = this.#lanes.get(name)
    if (known !== undefined) return known
    // A lane at rest that nobody has come back to is the one to forget.
    if (this.#lanes.size >= mostLanes) {
      const [idle] = [...this.#lanes].find(([, { isBusy }]) => !isBusy) ?? []
      if (idle !== undefined) this.#lanes.delete(idle)
    }
    const lane: Lane = { last: undefined, isBusy: false }
    this.#lanes.set(name, lane)
    return lane
  }

  /** `generate: false`: the request is checked and remembered, no model is asked, and nothing is charged. */
  #warmUp(asked: JsonObject): Response {
    const request = checkedRequest(asked)
    this.#parts.catalog.resolve(request.model)
    const response = queuedResponse(request, newRequestId(), Math.floor(this.#parts.now() / 1000))
    const zero = {
      input_tokens: 0,
      input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
      output_tokens: 0,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: 0,
    }
    const states = [
      { type: 'response.created', response: { ...response, status: 'in_progress' } },
      { type: 'response.completed', response: { ...response, status: 'completed', usage: zero } },
    ]
    const text = states
      .map(({ type, ...rest }, at) => ({ type, sequence_number: at, ...rest }))
      .map((event) => encodeFrame({ event: event.type, data: JSON.stringify(event) }))
      .join('')
    return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
  }

  /** Sends the events of a stream as frames, as fast as the client reads them. */
  async #pass(response: Response, turn: Turn): Promise<void> {
    const frames = framesOf(response, this.#left.signal, this.#parts.chat.limits.eventBytes)
    for await (const { event, data } of frames) {
      this.#note(turn, event, data)
      await this.#sendText(turn.name === undefined ? data : withName(data, turn.name))
    }
  }

  /** Remembers how a response ended, for the one that continues it. */
  #note({ lane, made }: Turn, event: string | undefined, data: string): void {
    if (lane === undefined) return
    if (event === 'error' || event === 'response.failed') lane.last = undefined
    if (event !== 'response.completed' && event !== 'response.incomplete') return
    if (made === undefined) {
      lane.last = undefined
      return
    }
    const { response } = JSON.parse(data) as { response: { id: string; output: JsonObject[] } }
    lane.last = {
      id: response.id,
      previous: made.previous,
      items: [...made.items, ...response.output],
      bytes: made.bytes + data.length,
    }
  }

  #refuse(error: GatewayError, name: string | undefined): void {
    const { error: rendered } = renderError(error, newRequestId(), this.#parts.publicUrl())
    void this.#send({ type: 'error', status: error.status, error: rendered }, { name })
  }

  #send(frame: object, { name }: Pick<Turn, 'name'>): Promise<void> {
    return this.#sendText(JSON.stringify(name === undefined ? frame : { ...frame, stream_id: name }))
  }

  /** Resolves when the next frame may be sent: what a client does not read must not fill the memory. */
  async #sendText(text: string): Promise<void> {
    if (this.#peer === undefined || this.#left.signal.aborted || this.#peer.send(text) !== -1) return
    this.#drained ??= Promise.withResolvers()
    await this.#drained.promise
  }
}

/** Headers of a refusal that its client may act on. */
function toldOf({ headers }: Response): Record<string, string> {
  const told: Record<string, string> = {}
  headers.forEach((value, name) => {
    if (name === 'x-request-id' || name === 'retry-after' || name.startsWith('x-ratelimit-'))
      told[name] = value
  })
  return told
}

function itemsOf(input: JsonObject[string] | undefined): readonly JsonObject[] {
  if (typeof input === 'string') return [{ type: 'message', role: 'user', content: input }]
  return Array.isArray(input) ? input.filter(isObject) : []
}

function textOf(value: JsonObject[string] | undefined): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** What is not stored is sent back to the provider as its client gets it: with the reasoning that only it can read. */
function withEncrypted(include: JsonObject[string] | undefined): JsonObject[string] {
  const encrypted = 'reasoning.encrypted_content'
  if (!Array.isArray(include)) return [encrypted]
  return include.includes(encrypted) ? include : [...include, encrypted]
}

/** An event is an object, which is never empty. */
function withName(data: string, name: string): string {
  return `{"stream_id":${JSON.stringify(name)},${data.slice(1)}`
}
