// One request to one provider: its connection, its deadlines, and what ends it.

import { pass } from '../../credits/ledger/failpoint.ts'
import { GatewayError } from '../../errors.ts'
import type { PaidCall } from '../call.ts'
import { type AbortListener, offAbort, onAbort } from '../streaming/on-abort.ts'
import type { Candidate } from '../routing/candidates.ts'
import {
  AttemptAbandoned,
  AttemptFailed,
  clientGone,
  stopError,
  transportFault,
  withoutSecrets,
} from '../routing/fault-error.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { ByteReader } from '../streaming/relay.ts'
import { smallBytes } from '../streaming/turns.ts'
import type { Deadline } from '../streaming/watchdog.ts'
import { readerOf } from './answer-body.ts'
import type { Arrival } from './arrivals.ts'
import type { Asking } from './connection-limit.ts'
import { errorText } from './error-body.ts'
import type { ProviderRequest } from './lower.ts'
import type { Prepared, UpstreamParts } from './prepare.ts'

/** How long reading an error may take, milliseconds; the status is the main thing. */
const errorBodyMs = 5_000

type SentRequest = Pick<ProviderRequest, 'path' | 'headers' | 'body'>

/** How long a request may take, milliseconds. */
export interface Patience {
  /** From its start to the provider's first byte. */
  readonly firstMs: number
  /** From the call's arrival to the answer's end. */
  readonly totalMs: number
}

/** Of a call, what its requests go by. */
type AskingCall = Pick<PaidCall, 'caller' | 'signal' | 'requestId' | 'arrivedAt'>

const once = { once: true }

/** Aborted by its deadline, a client that disconnects, a shutdown, or the end of its caller's access. */
export class UpstreamRequest implements AbortListener {
  /** Among those that the gateway ends. */
  place = -1
  readonly #controller = new AbortController()
  readonly #parts: UpstreamParts
  readonly #call: AskingCall
  readonly #asking: Asking
  readonly #patience: Patience
  readonly #deadline: Deadline
  #expired = false
  /** When the provider was reached, milliseconds of performance.now(). */
  #askedAt: number | undefined
  #read = false
  /** Whether a client that disconnects aborts the request; once it is settled, the relay decides. */
  #endsWithClient: boolean
  #ended = false
  #arrival: Arrival | undefined

  /** Throws `overloaded` or `rate_limit_exceeded` if the gateway has no connection left for it. */
  constructor(
    parts: UpstreamParts,
    call: AskingCall,
    { provider }: Pick<Candidate, 'provider'>,
    patience: Patience,
    policy: 'cancel' | 'drain' | 'free',
  ) {
    const { watchdog, stopping, connections } = parts
    this.#asking = { account: call.caller.account.id, transport: provider.transport }
    connections.take(this.#asking)
    this.#parts = parts
    this.#call = call
    this.#patience = patience
    this.#deadline = watchdog.arm(this.#within(patience.firstMs), () => {
      this.#expired = true
      this.onAbort()
    })
    // An answer that will be drained is awaited even if its client has disconnected.
    this.#endsWithClient = policy !== 'drain'
    const { signal } = call
    // Never removed: the signal is as short-lived as the client's request, and removing costs as much as adding.
    if (this.#endsWithClient) signal.addEventListener('abort', this, once)
    onAbort(stopping, this)
    if (stopping.aborted || (signal.aborted && this.#endsWithClient)) this.onAbort()
  }

  get turns(): UpstreamParts['turns'] {
    return this.#parts.turns
  }

  /** The client disconnected. */
  handleEvent(): void {
    if (this.#endsWithClient) this.onAbort()
  }

  /** The gateway ends the call, or nobody waits for it. */
  onAbort(): void {
    this.#controller.abort()
  }

  /** Asks the provider. `comes` is to be called with its answer. */
  send(candidate: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const { provider, offer } = candidate
    // From here on the request is a text.
    this.#parts.largeBodies.leave(this.#call.requestId)
    this.#parts.log.debug('a provider is asked', {
      request_id: this.#call.requestId,
      provider: provider.id,
      url: provider.baseUrl + lowered.path,
      bytes: lowered.body.length,
    })
    const arrival = this.#parts.arrivals.turn(
      `${provider.id}/${offer.upstream}`,
      this.#call.caller.account.id,
    )
    if (arrival instanceof Promise) return this.#sendAfter(arrival, candidate, lowered, connectMs)
    this.#arrival = arrival
    return this.#sendInTurn(candidate, lowered, connectMs)
  }

  async #sendAfter(
    turn: Promise<Arrival>,
    candidate: Candidate,
    lowered: SentRequest,
    connectMs: number,
  ): Promise<Response> {
    // The provider has not been asked yet: this is not its time.
    this.#deadline.clear()
    this.#arrival = await turn
    this.extend(this.#patience.firstMs)
    return this.#sendInTurn(candidate, lowered, connectMs)
  }

  #sendInTurn(candidate: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const sent = this.#parts.turns.run(() => this.#sendNow(candidate, lowered, connectMs), 'new')
    // A promise of a promise is one.
    return sent as Promise<Response>
  }

  #sendNow({ provider, key }: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const { requestId } = this.#call
    // The simulator derives its id from the request unless a header names the call, and receipts are found by that id.
    const headers =
      provider.transport === 'builtin'
        ? { ...lowered.headers, 'x-client-request-id': requestId }
        : lowered.headers
    const { path, body } = lowered
    const abort = this.#controller
    const sentAt = abort.signal.aborted ? undefined : performance.now()
    const onReached = () => (this.#askedAt ??= sentAt)
    const sent = this.#parts.upstream.send({
      path,
      headers,
      body,
      provider,
      key,
      abort,
      connectMs,
      onReached,
    })
    pass('request-sent', requestId)
    return sent
  }

  /** The answer has come: all of it, or its beginning. */
  onResponse(response: Response): void {
    this.#arrival?.onResponse(response)
  }

  /** Resolves with the other answers that come in this turn of the loop; undefined while no other is awaited. */
  withOthers(): Promise<void> | undefined {
    return this.#parts.connections.taken > 1 ? this.#parts.turns.together() : undefined
  }

  /** Gives the provider `ms` more from now, within the limit of the whole call. */
  extend(ms: number): void {
    this.#deadline.extend(this.#within(ms))
  }

  /** The end of the whole call bounds every extension. */
  #within(ms: number): number {
    return Math.min(ms, this.#call.arrivedAt + this.#patience.totalMs - performance.now())
  }

  /** Interprets an exception of this request. `usage`: what the provider had counted by then. */
  verdict(error: unknown, usage?: Usage): unknown {
    const ended = this.#endedByCaller()
    // What broke because we have hung up is no answer of the provider.
    if (ended !== undefined && !isRefusal(error)) return this.#abandoned(ended, usage)
    if (error instanceof AttemptFailed)
      return new AttemptFailed(withoutSecrets(error.fault, this.#parts.redact))
    if (error instanceof GatewayError) return error
    if (this.#expired) return new AttemptFailed(transportFault('timeout', 'no answer in time'))
    if (this.#parts.stopping.aborted) return stopError(this.#parts.stopping)
    return error
  }

  /** What the call ends with if its caller's side has ended it, and this request because of that. */
  #endedByCaller(): GatewayError | undefined {
    if (this.#expired || !this.#controller.signal.aborted) return undefined
    const { stopping } = this.#parts
    // A shutdown is not the caller's doing, whatever it aborts.
    if (stopping.aborted) return stopping.reason instanceof GatewayError ? stopError(stopping) : undefined
    return this.#call.signal.aborted ? clientGone() : undefined
  }

  #abandoned(ended: GatewayError, usage: Usage | undefined): AttemptAbandoned {
    const askedAt = this.#askedAt
    const asked = askedAt === undefined ? undefined : { askedMs: performance.now() - askedAt, usage }
    return new AttemptAbandoned(ended, asked)
  }

  /** The answer has begun: from here on the relay watches it, and only calls `end`. */
  settle(): void {
    this.#deadline.clear()
    this.#endsWithClient = false
    offAbort(this.#parts.stopping, this)
  }

  /** A reader of the answer's body that reports which part of it waits to be processed. */
  reader(response: Response): ByteReader {
    const reader = readerOf(response)
    const arrival = this.#arrival!
    return {
      readMany: () => {
        const made = reader.readMany()
        if (made instanceof Promise) arrival.awaits()
        return made
      },
      onRead: ({ value }) => {
        let bytes = 0
        if (value !== undefined) for (const { length } of value) bytes += length
        // A small read was all that had arrived.
        if (bytes <= smallBytes) arrival.end()
        else arrival.grows(bytes)
      },
      cancel: () => reader.cancel(),
    }
  }

  pausing(): void {
    this.#arrival?.end()
  }

  read(): void {
    this.#read = true
  }

  /** Aborts the provider's work if it has not ended already: aborting a finished request would only throw. */
  end(): void {
    this.settle()
    this.pausing()
    if (!this.#read) this.onAbort()
    if (!this.#ended) this.#parts.connections.giveBack(this.#asking)
    this.#ended = true
  }
}

/** Whether it is what the provider, or the gateway, says to the request: it was not cut off. */
function isRefusal(error: unknown): boolean {
  if (error instanceof AttemptFailed) return error.fault.status !== undefined
  return error instanceof GatewayError
}

/** Rejects with AttemptFailed for any status but 2xx. */
export async function refuseFailure(
  response: Response,
  { outbound, target }: Pick<Prepared, 'outbound' | 'target'>,
  request: UpstreamRequest,
): Promise<never> {
  request.extend(errorBodyMs)
  const text = await errorText(response, request.turns)
  // Following a redirect would send our key to another host; it means a misconfigured base URL.
  if (response.status < 400) throw new AttemptFailed(transportFault('broken', `status ${response.status}`))
  throw new AttemptFailed(outbound.fault(response.status, response.headers, text, target))
}
