// One request to one provider: its connection, its deadlines, and what ends it.

import { pass } from '../../credits/ledger/failpoint.ts'
import { GatewayError } from '../../errors.ts'
import type { PaidCall } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { AttemptFailed, shuttingDown, transportFault, withoutSecrets } from '../routing/fault-error.ts'
import type { ByteReader, Read } from '../streaming/relay.ts'
import { smallBytes, type Turns } from '../streaming/turns.ts'
import type { Deadline } from '../streaming/watchdog.ts'
import { boundedText, readerOf } from './answer-body.ts'
import type { Arrival, Arrivals } from './arrivals.ts'
import type { ProviderRequest } from './lower.ts'
import type { Prepared, UpstreamParts } from './prepare.ts'

/** How much of an error body is read: providers' errors are short, and a web page is not worth more. */
const errorBodyBytes = 65_536
/** How long reading it may take, milliseconds; the status is the main thing. */
const errorBodyMs = 5_000

type SentRequest = Pick<ProviderRequest, 'path' | 'headers' | 'body'>

/** How long a request may take, milliseconds. */
export interface Patience {
  /** From its start to the provider's first byte. */
  readonly firstMs: number
  /** From the call's arrival to the answer's end. */
  readonly totalMs: number
}

/** Aborted by its deadline, a client that disconnects, or a shutdown. */
export class UpstreamRequest {
  readonly #controller = new AbortController()
  readonly #clientGone: AbortSignal
  readonly #stopping: AbortSignal
  readonly #deadline: Deadline
  /** When the whole call must end, by performance.now(); extensions do not exceed it. */
  readonly #endsAt: number
  readonly #giveBack: () => void
  readonly #firstMs: number
  readonly #arrivals: Arrivals
  readonly #upstream: UpstreamParts['upstream']
  readonly #redact: UpstreamParts['redact']
  readonly #log: UpstreamParts['log']
  readonly #turns: Turns
  readonly #requestId: string
  readonly #abort = () => this.#controller.abort()
  #expired = false
  #read = false
  #arrival: Arrival | undefined

  /** Throws `overloaded` if the gateway has no connection left for it. */
  constructor(
    { watchdog, stopping, connections, arrivals, upstream, turns, redact, log }: UpstreamParts,
    call: Pick<PaidCall, 'signal' | 'requestId' | 'arrivedAt'>,
    { firstMs, totalMs }: Patience,
    policy: 'cancel' | 'drain' | 'free',
  ) {
    const giveBack = connections.take()
    if (!giveBack) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    this.#giveBack = giveBack
    this.#firstMs = firstMs
    this.#arrivals = arrivals
    this.#upstream = upstream
    this.#turns = turns
    this.#clientGone = call.signal
    this.#requestId = call.requestId
    this.#redact = redact
    this.#log = log
    this.#stopping = stopping
    this.#endsAt = call.arrivedAt + totalMs
    this.#deadline = watchdog.arm(this.#within(firstMs), () => {
      this.#expired = true
      this.#abort()
    })
    // An answer that will be drained is awaited even if its client has disconnected.
    if (policy !== 'drain') this.#clientGone.addEventListener('abort', this.#abort, { once: true })
    stopping.addEventListener('abort', this.#abort, { once: true })
    if (stopping.aborted || (this.#clientGone.aborted && policy !== 'drain')) this.#abort()
  }

  async send(candidate: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const { provider, key } = candidate
    // The simulator derives its id from the request unless a header names the call, and receipts are found by that id.
    const named: Record<string, string> =
      provider.transport === 'builtin' ? { 'x-client-request-id': this.#requestId } : {}
    const headers = { ...lowered.headers, ...named }
    this.#log.debug('a provider is asked', {
      request_id: this.#requestId,
      provider: provider.id,
      url: provider.baseUrl + lowered.path,
      bytes: lowered.body.length,
    })
    const turn = this.#arrivals.turn(`${provider.id}/${candidate.offer.upstream}`)
    if (turn instanceof Promise) {
      // The provider has not been asked yet: this is not its time.
      this.#deadline.clear()
      this.#arrival = await turn
      this.extend(this.#firstMs)
    } else this.#arrival = turn
    const response = await this.#turns.run(() => {
      const abort = this.#controller
      const sent = this.#upstream.send({ ...lowered, headers, provider, key, abort, connectMs })
      pass('request-sent', this.#requestId)
      return sent
    }, 'new')
    this.#arrival.comes(response)
    return response
  }

  /** Gives the provider `ms` more from now, within the limit of the whole call. */
  extend(ms: number): void {
    this.#deadline.extend(this.#within(ms))
  }

  #within(ms: number): number {
    return Math.min(ms, this.#endsAt - performance.now())
  }

  /** Interprets an exception of this request. */
  verdict(error: unknown): unknown {
    if (error instanceof AttemptFailed) return new AttemptFailed(withoutSecrets(error.fault, this.#redact))
    if (error instanceof GatewayError) return error
    if (this.#expired) return new AttemptFailed(transportFault('timeout', 'no answer in time'))
    if (this.#stopping.aborted) return shuttingDown()
    if (this.#clientGone.aborted && this.#controller.signal.aborted) {
      return new AttemptFailed(transportFault('cut', 'the client disconnected'))
    }
    return error
  }

  /** The answer has begun: from here on the relay watches it, and only calls `end`. */
  settle(): void {
    this.#deadline.clear()
    this.#clientGone.removeEventListener('abort', this.#abort)
    this.#stopping.removeEventListener('abort', this.#abort)
  }

  /** A reader of the answer's body that reports which part of it waits to be processed. */
  reader(response: Response): ByteReader {
    const reader = readerOf(response)
    const arrival = this.#arrival!
    const note = (read: Read): Read => {
      const bytes = (read.value ?? []).reduce((sum, { length }) => sum + length, 0)
      // A small read was all that had arrived.
      if (bytes <= smallBytes) arrival.end()
      else arrival.grows(bytes)
      return read
    }
    return {
      readMany: () => {
        const made = reader.readMany()
        if (!(made instanceof Promise)) return note(made)
        arrival.awaits()
        return made.then(note)
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
    if (!this.#read) this.#abort()
    this.#giveBack()
  }
}

/** Rejects with AttemptFailed for any status but 2xx. */
export async function refuseFailure(
  response: Response,
  { outbound, target }: Pick<Prepared, 'outbound' | 'target'>,
  request: UpstreamRequest,
): Promise<never> {
  request.extend(errorBodyMs)
  const text = await boundedText(response, errorBodyBytes).catch(() => '')
  // Following a redirect would send our key to another host; it means a misconfigured base URL.
  if (response.status < 400) throw new AttemptFailed(transportFault('broken', `status ${response.status}`))
  throw new AttemptFailed(outbound.fault(response.status, response.headers, text, target))
}
