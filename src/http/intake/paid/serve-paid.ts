// Serves a parsed request that costs money, whatever its protocol: once, and within the limits of its caller.

import { complete } from '../../../chat/complete.ts'
import { shuttingDown } from '../../../chat/routing/fault-error.ts'
import { refusedCall } from '../../../chat/ended-call.ts'
import type { IncomingCall, PaidCall } from '../../../chat/call.ts'
import { checkAddresses } from '../../../chat/upstream/media-urls.ts'
import type { Caller } from '../../../accounts/caller.ts'
import type { Awaitable } from '../../../awaitable.ts'
import type { AnswerKeeper } from '../../../chat/answer-keeper.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import type { Envelope, Inbound, InboundRequest, Warning } from '../../../protocols/protocol.ts'
import { errorResponse, type Refuse } from '../error-response.ts'
import { idempotencyKeyOf, type KeyedRequest, onceForKey, type Run } from './idempotency.ts'
import type { PaidParts } from '../../parts.ts'
import { creditFigures, isWantOfCredit } from './refusal-figures.ts'
import { type Limited, withinLimits } from './within-limits.ts'

/** The HTTP request and the call it makes; `bodyBytes` is the size of the body. */
export interface ReadChat extends KeyedRequest {
  readonly call: Pick<IncomingCall, 'inbound' | 'request' | 'bodyBytes' | 'arrivedAt'>
}

/**
 * Throws or rejects with GatewayError before the first byte; refusals by the limits have the shape that `refuse` gives.
 */
export function serveChat(parts: PaidParts, chat: ReadChat, refuse?: Refuse): Promise<Response> {
  return servePaid(
    parts,
    chat,
    (signal, keeper) => complete(parts.chat, incoming(chat, signal, keeper)),
    refuse,
  )
}

function incoming(
  { caller, requestId, call }: ReadChat,
  signal: AbortSignal,
  keeper: AnswerKeeper | undefined,
): IncomingCall {
  const { inbound, request, bodyBytes, arrivedAt } = call
  return { inbound, request, bodyBytes, arrivedAt, caller, requestId, signal, keeper }
}

type ParsingParts = Pick<PaidParts, 'reachableHosts' | 'turns'>

/**
 * Parses a client's body and normalises its addresses, which changes `json`. Throws or rejects with what the inbound
 * throws, `url_not_allowed`, and `unsupported_parameter` for a field that names a destination in a strict request.
 */
export function parsedBody(
  parts: ParsingParts,
  inbound: Inbound,
  json: JsonObject,
): Awaitable<InboundRequest> {
  return parts.turns.mayRun() ? parsedNow(parts, inbound, json) : parsedInTurn(parts, inbound, json)
}

function parsedInTurn(parts: ParsingParts, inbound: Inbound, json: JsonObject): Awaitable<InboundRequest> {
  return parts.turns.run(() => parsedNow(parts, inbound, json))
}

function parsedNow({ reachableHosts }: ParsingParts, inbound: Inbound, json: JsonObject): InboundRequest {
  const { addresses, warnings } = checkAddresses(json, inbound.addresses, reachableHosts)
  const request = inbound.parse(json)
  refuseDropped(request.envelope, warnings)
  if (addresses.length === 0 && warnings.length === 0) return request
  return { ...request, addresses, warnings: [...(request.warnings ?? []), ...warnings] }
}

/** Throws `unsupported_parameter` for the first dropped parameter of a strict request. */
export function refuseDropped({ strict }: Pick<Envelope, 'strict'>, [first]: readonly Warning[]): void {
  if (first === undefined || !strict) return
  throw new GatewayError('unsupported_parameter', { message: first.message, param: first.param })
}

interface PaidRequest extends KeyedRequest {
  readonly call: Pick<PaidCall, 'request' | 'arrivedAt'>
}

/**
 * Runs a paid request once per Idempotency-Key, unless draining. Logs refusals with caller and model. Throws or rejects
 * with what `serveChat` does.
 */
export function servePaid(
  parts: PaidParts,
  paid: PaidRequest,
  run: Run,
  refuse: Refuse = errorResponse,
): Promise<Response> {
  const serving = new PaidServing(parts, paid, run, refuse)
  if (!parts.ready()) throw serving.turnedAway()
  parts.keepOpen(paid.request)
  const key = idempotencyKeyOf(paid.request)
  return key === null ? withinLimits(parts, serving) : serving.onceFor(key)
}

class PaidServing implements Limited {
  readonly caller: Caller
  readonly requestId: string
  readonly #parts: PaidParts
  readonly #paid: PaidRequest
  readonly #run: Run
  readonly #refuse: Refuse
  #signal: AbortSignal
  #keeper: AnswerKeeper | undefined
  #noted: unknown

  constructor(parts: PaidParts, paid: PaidRequest, run: Run, refuse: Refuse) {
    this.caller = paid.caller
    this.requestId = paid.requestId
    this.#parts = parts
    this.#paid = paid
    this.#run = run
    this.#refuse = refuse
    this.#signal = paid.request.signal
  }

  run(): Promise<Response> {
    return this.#run(this.#signal, this.#keeper)
  }

  async onceFor(key: string): Promise<Response> {
    try {
      return await onceForKey(this.#parts, this.#paid, key, (signal, keeper) => {
        this.#signal = signal
        this.#keeper = keeper
        return withinLimits(this.#parts, this)
      })
    } catch (thrown) {
      this.noted(thrown)
      throw thrown
    }
  }

  /** The error for a request that comes while the gateway drains. */
  turnedAway(): GatewayError {
    const error = shuttingDown()
    this.noted(error)
    return error
  }

  async refused(error: GatewayError): Promise<Response> {
    this.noted(error, await figuresOf(this.#parts, this.#paid, error))
    return this.#refuse(error, this.requestId, this.#parts.publicUrl())
  }

  /** Logs a refusal, once. Calls are in the log already. */
  noted(thrown: unknown, figures: Readonly<Record<string, unknown>> = {}): void {
    if (!(thrown instanceof GatewayError) || this.#noted === thrown) return
    this.#noted = thrown
    const { caller, requestId, call } = this.#paid
    const { request, arrivedAt } = call
    const asked = { caller, requestId, arrivedAt, request, keeper: undefined }
    const { calls, now } = this.#parts
    calls.refused(refusedCall(asked, thrown, now(), figures), thrown)
  }
}

/** For a call that is refused for lack of credit: the figures for the log. */
async function figuresOf(
  { ledger, now }: PaidParts,
  { caller }: PaidRequest,
  { code }: GatewayError,
): Promise<Readonly<Record<string, unknown>>> {
  if (!isWantOfCredit(code)) return {}
  return creditFigures(ledger, caller, now()).catch(() => ({}))
}
