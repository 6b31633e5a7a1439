// The request for one candidate, and what is needed to read its answer.

import type { Fault } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import { pass } from '../../credits/ledger/failpoint.ts'
import { GatewayError } from '../../errors/errors.ts'
import { decodeSteps, parseOpaque, parseSteps, charactersAtOnce } from '../../json/json.ts'
import { shapeFault, shapeFaultSteps } from '../../json/scan.ts'
import { Scheduler, Shares, smallBytes, unscheduledCharacters } from '../../scheduler/scheduler.ts'
import type { Log } from '../../observe/log.ts'
import type { Memory } from '../../observe/memory.ts'
import type { CallSpan, Traces } from '../../observe/traces.ts'
import { isObject, opaqueInAnswers, parseJson } from '../../protocols/lenient.ts'
import { joinWarnings, refuseDropped, type Warning } from '../../protocols/lowering.ts'
import type { AnswerContext, Outbound, ProtocolId, Target } from '../../protocols/protocol.ts'
import type { ConfiguredProvider } from '../../providers/provider.ts'
import { UnreachableError, type Upstream } from '../../providers/upstream.ts'
import { plural } from '../../text/text.ts'
import type { Hold } from '../billing/hold.ts'
import type { ChatLimits, IncomingCall, PaidCall, Round } from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import {
  AttemptAbandoned,
  AttemptFailed,
  AttemptTooSlow,
  clientGone,
  stopError,
  transportFault,
  withoutSecrets,
} from '../routing/fault-error.ts'
import {
  type BodyReader,
  type ByteReader,
  type Deadline as RelayDeadline,
  type Watchdog,
} from '../streaming/relay.ts'
import type { DeploymentUse } from '../routing/health.ts'
import type { Arrival, Arrivals } from './arrivals.ts'
import { errorText } from './error-text.ts'
import {
  type LearnedRefusals,
  loweredFor,
  type LoweringParts,
  type ProviderRequest,
  quirksFor,
  upstreamModel,
} from './lower.ts'
import { answerAgain } from './answer-cache.ts'
import { ownerOf, type SignatureMemory, type Thoughts, withSignatures } from './thoughts.ts'

/** What requests to providers take. */
export interface UpstreamParts extends LoweringParts {
  readonly outbounds: Readonly<Record<ProtocolId, Outbound>>
  readonly signatures: SignatureMemory
  readonly refusals: LearnedRefusals
  readonly thoughts: Pick<Thoughts, 'isEmpty' | 'keep' | 'of'>
  readonly limits: ChatLimits
  readonly watchdog: Watchdog
  readonly connections: ConnectionLimit
  readonly deployments: DeploymentUse
  /** The memory of this process. */
  readonly memory: Pick<Memory, 'makeRoom'>
  /** Answers that have arrived but are not processed yet. */
  readonly arrivals: Arrivals
  readonly upstream: Pick<Upstream, 'send'>
  /** Undefined where no collector is named. */
  readonly traces: Traces | undefined
  /** Removes this process's secrets from a provider's text, which may quote the key it was sent. */
  readonly redact: (text: string) => string
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

export interface Prepared {
  readonly outbound: Outbound
  readonly target: Target
  readonly lowered: ProviderRequest
  readonly warnings: readonly Warning[]
}

/** Lowers the call for a candidate. Rejects with `unsupported_parameter` if a strict call would lose something. */
export async function prepare(
  parts: UpstreamParts,
  hold: Pick<Hold, 'outputBound' | 'warningsFor'>,
  candidate: Candidate,
  { call, warnings: before, emit }: Round,
): Promise<Prepared> {
  const { provider, model, offer } = candidate
  const outbound = parts.outbounds[provider.protocol]
  const answer = emit === undefined ? 'passes' : 'translated'
  const bound = hold.outputBound(candidate)
  const known = joinWarnings(before, hold.warningsFor(candidate))
  const prepared = await withSignatures(
    parts.signatures,
    ownerOf(call, candidate),
    async (rememberedSignature) => {
      const target: Target = {
        model: offer.upstream,
        provider: provider.id,
        quirks: quirksFor(outbound, provider),
        maxOutputTokens: model.maxOutputTokens,
        reasoning: model.reasoning,
        efforts: offer.efforts,
        serviceTier: candidate.serviceTier,
        rememberedSignature,
        clientSpeaksIt: call.inbound.id === outbound.id,
        ...(asksForDocument(call.request.body) && { document: true }),
      }
      const lowered = await loweredFor(parts, call, candidate, outbound, target, bound, answer)
      const { toolNames } = lowered
      return { target: toolNames ? { ...target, toolNames } : target, lowered }
    },
  )
  const { warnings } = prepared.lowered
  refuseDropped(warnings, call.request.envelope.strict)
  // Warnings differ between candidates.
  return { outbound, ...prepared, warnings: joinWarnings(known, warnings) }
}

/** Whether a body of any protocol asks for an answer in JSON. */
function asksForDocument({
  response_format: ofChat,
  text,
  generationConfig,
  output_config: ofMessages,
  output_format: earlier,
}: JsonObject): boolean {
  const isDocument = (format: Json | undefined) => isObject(format) && format['type'] !== 'text'
  if (isDocument(ofChat) || isDocument(earlier)) return true
  if (isObject(text) && isDocument(text['format'])) return true
  if (isObject(ofMessages) && isDocument(ofMessages['format'])) return true
  return isObject(generationConfig) && (generationConfig['responseMimeType'] ?? 'text/plain') !== 'text/plain'
}

/** What is the same for all frames of the answer. */
export function contextOf(
  { now }: Pick<UpstreamParts, 'now'>,
  call: IncomingCall,
  { model }: Candidate,
  warnings: readonly Warning[],
): AnswerContext {
  const { includeUsage, sealsThoughts, customTools } = call.request.envelope
  return {
    id: call.requestId,
    model: model.id,
    created: Math.floor(now() / 1000),
    includeUsage,
    ...(sealsThoughts && { sealsThoughts }),
    ...(customTools && { customTools }),
    warnings,
    extra: call.caller.mode === 'test' ? { mode: 'test' } : {},
  }
}

// One request to one provider: its connection, its deadlines, and what ends it.

/** How long reading an error may take, milliseconds; the status is the main thing. */
const errorBodyMs = 5_000

type SentRequest = Pick<ProviderRequest, 'path' | 'headers' | 'body'>

/** How long a request may take, milliseconds. */
interface Patience {
  /** From its start to the provider's first byte. */
  readonly firstMs: number
  /** The same to its first content, whatever else it sends before; undefined where nobody else would be asked. */
  readonly contentMs?: number
  /** From the call's arrival to the answer's end. */
  readonly totalMs: number
}

/** Of a call, what its requests go by. */
type AskingCall = Pick<
  PaidCall,
  'caller' | 'signal' | 'cache' | 'stopping' | 'requestId' | 'arrivedAt' | 'bodyBytes' | 'request'
>

const once = { once: true }

/** Aborted by its deadline, a client that disconnects, a shutdown, or the end of its caller's access. */
export class UpstreamRequest {
  readonly #controller = new AbortController()
  readonly #parts: UpstreamParts
  readonly #call: AskingCall
  readonly #asking: Asking
  readonly #patience: Patience
  readonly #deadline: RelayDeadline
  #expired = false
  /** Set where another candidate waits for this one to be too slow. */
  #slow: RelayDeadline | undefined
  #isTooSlow = false
  /** When the provider was reached, milliseconds of performance.now(). */
  #askedAt: number | undefined
  #read = false
  /** Whether a client that disconnects aborts the request; once it is settled, the relay decides. */
  #endsWithClient: boolean
  #ended = false
  #arrival: Arrival | undefined
  #span: CallSpan | undefined
  /** Gives back the place at its deployment, if that counts them. */
  #deployment: (() => void) | undefined
  /** The gateway ends the call, or nobody waits for it. */
  readonly #abort = () => this.#controller.abort()

  /**
   * Throws `overloaded` or `rate_limit_exceeded` if the gateway has no connection left for it, and DeploymentFull if its
   * deployment is at a limit.
   */
  constructor(
    parts: UpstreamParts,
    call: AskingCall,
    { provider }: Pick<Candidate, 'provider'>,
    patience: Patience,
    policy: 'cancel' | 'drain' | 'free',
  ) {
    const { watchdog, connections, deployments } = parts
    this.#asking = { account: call.caller.account.id, transport: provider.transport }
    connections.take(this.#asking)
    if (provider.deployment?.limits !== undefined) {
      try {
        this.#deployment = deployments.take(provider, tokensOf(call))
      } catch (error) {
        connections.giveBack(this.#asking)
        throw error
      }
    }
    this.#parts = parts
    this.#call = call
    this.#patience = patience
    this.#deadline = watchdog.arm(this.#within(patience.firstMs), () => {
      this.#expired = true
      this.#abort()
    })
    // An answer that will be drained is awaited even if its client has disconnected.
    this.#endsWithClient = policy !== 'drain'
    const { signal, stopping } = call
    // Never removed: the signal is as short-lived as the client's request, and removing costs as much as adding.
    if (this.#endsWithClient) signal.addEventListener('abort', () => this.#onDisconnect(), once)
    stopping.addEventListener('abort', this.#abort, once)
    if (stopping.aborted || (signal.aborted && this.#endsWithClient)) this.#abort()
  }

  get scheduler(): UpstreamParts['scheduler'] {
    return this.#parts.scheduler
  }

  #onDisconnect(): void {
    if (this.#endsWithClient) this.#abort()
  }

  #isSettled = false

  /** Asks the provider. `onResponse` is to be called with its answer. */
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
    const arrival = this.#parts.arrivals.permit(
      `${provider.id}/${offer.upstream}`,
      this.#call.caller.account.id,
    )
    if (arrival instanceof Promise) return this.#sendAfter(arrival, candidate, lowered, connectMs)
    this.#arrival = arrival
    return this.#schedule(candidate, lowered, connectMs)
  }

  async #sendAfter(
    permit: Promise<Arrival>,
    candidate: Candidate,
    lowered: SentRequest,
    connectMs: number,
  ): Promise<Response> {
    // The provider has not been asked yet: this is not its time.
    this.#deadline.clear()
    this.#arrival = await permit
    this.extend(this.#patience.firstMs)
    return this.#schedule(candidate, lowered, connectMs)
  }

  #schedule(candidate: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const { contentMs } = this.#patience
    if (contentMs !== undefined)
      this.#slow = this.#parts.watchdog.arm(contentMs, () => {
        this.#isTooSlow = true
        this.#abort()
      })
    const sent = this.#parts.scheduler.run(() => this.#sendNow(candidate, lowered, connectMs), 'new')
    // A promise of a promise is one.
    return sent as Promise<Response>
  }

  #sendNow(
    { provider, offer, key, cached }: Candidate,
    lowered: SentRequest,
    connectMs: number,
  ): Promise<Response> {
    if (cached !== undefined) return Promise.resolve(answerAgain(cached))
    const { requestId } = this.#call
    // The simulator derives its id from the request unless a header names the call, and receipts are found by that id.
    const headers =
      provider.transport === 'builtin'
        ? { ...lowered.headers, 'x-client-request-id': requestId }
        : lowered.headers
    const { path, body } = lowered
    this.#span = this.#parts.traces?.spanOf(requestId, 'provider', offer.upstream, {
      'gen_ai.provider.name': provider.nameInTraces ?? provider.id,
      'gen_ai.request.model': offer.upstream,
      'weir.provider': provider.id,
      ...(provider.transport !== 'builtin' && serverOf(provider.baseUrl)),
    })
    const abort = this.#controller
    const sentAt = abort.signal.aborted ? undefined : performance.now()
    const onReached = () => (this.#askedAt ??= sentAt)
    const sent = this.#parts.upstream.send({
      path,
      headers: this.#span === undefined ? headers : { ...headers, ...this.#span.headers },
      body,
      provider,
      key,
      abort,
      connectMs,
      onReached,
    })
    pass('request-sent', requestId)
    const { cache } = this.#call
    return cache === undefined ? sent : sent.then((response) => cache.record(response, lowered))
  }

  /** The answer has come: all of it, or its beginning. */
  onResponse(response: Response): void {
    this.#arrival?.onResponse(response)
    this.#span?.note({ 'http.response.status_code': response.status })
  }

  /** Resolves with the other answers that come in this iteration of the loop; undefined while no other is awaited. */
  withOthers(): Promise<void> | undefined {
    return this.#parts.connections.taken > 1 ? this.#parts.scheduler.endOfIteration() : undefined
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
    const verdict = this.#verdict(error, usage)
    this.#span?.end(failureOf(verdict))
    return verdict
  }

  #verdict(error: unknown, usage: Usage | undefined): unknown {
    const ended = this.#endedByCaller()
    // What broke because we have hung up is no answer of the provider.
    if (ended !== undefined && !isRefusal(error)) return this.#abandonmentOf(ended, usage)
    if (error instanceof AttemptFailed)
      return new AttemptFailed(withoutSecrets(error.fault, this.#parts.redact), error.made, error.retry)
    if (error instanceof GatewayError) return error
    if (this.#isTooSlow) return new AttemptTooSlow()
    if (this.#expired) return new AttemptFailed(transportFault('timeout', 'no answer in time'))
    if (this.#call.stopping.aborted) return stopError(this.#call.stopping)
    return error
  }

  /** What the call ends with if its caller's side has ended it, and this request because of that. */
  #endedByCaller(): GatewayError | undefined {
    if (this.#expired || this.#isTooSlow || !this.#controller.signal.aborted) return undefined
    const { stopping } = this.#call
    // A shutdown is not the caller's doing, whatever it aborts.
    if (stopping.aborted) return stopping.reason instanceof GatewayError ? stopError(stopping) : undefined
    return this.#call.signal.aborted ? clientGone() : undefined
  }

  #abandonmentOf(ended: GatewayError, usage: Usage | undefined): AttemptAbandoned {
    const askedAt = this.#askedAt
    const asked = askedAt === undefined ? undefined : { askedMs: performance.now() - askedAt, usage }
    return new AttemptAbandoned(ended, asked)
  }

  /** The answer has begun: from here on the relay watches it, and only calls `end`. */
  settle(): void {
    this.#isSettled = true
    this.#deadline.clear()
    this.#slow?.clear()
    this.#endsWithClient = false
    this.#call.stopping.removeEventListener('abort', this.#abort)
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
        // Also a ping says that the provider is at work.
        if (bytes > 0 && !this.#isSettled) this.extend(this.#patience.firstMs)
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
    this.#span?.end()
    if (!this.#read) this.#abort()
    if (!this.#ended) {
      this.#parts.connections.giveBack(this.#asking)
      this.#deployment?.()
    }
    this.#ended = true
  }
}

/** What a call counts at a deployment, tokens: its prompt by its length, and the most that it asks for. */
function tokensOf({ bodyBytes, request }: Pick<AskingCall, 'bodyBytes' | 'request'>): number {
  const { maxOutputTokens = 0, n } = request.envelope
  return Math.ceil(bodyBytes / bytesPerToken) + maxOutputTokens * n
}

const bytesPerToken = 4

/** What kind of failure it is, for a trace. */
/** Where a provider is, as traces have it. */
function serverOf(baseUrl: string) {
  const { hostname, port, protocol } = new URL(baseUrl)
  const usual = protocol === 'https:' ? 443 : 80
  return { 'server.address': hostname, 'server.port': port === '' ? usual : Number(port) }
}

function failureOf(error: unknown): string {
  if (error instanceof AttemptFailed) return error.fault.kind
  if (error instanceof AttemptAbandoned) return error.error.code
  if (error instanceof GatewayError) return error.code
  return error instanceof UnreachableError ? error.fault.kind : 'broken'
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
  const text = await errorText(readerOf(response), request.scheduler)
  // Following a redirect would send our key to another host; it means a misconfigured base URL.
  if (response.status < 400) throw new AttemptFailed(transportFault('broken', `status ${response.status}`))
  throw new AttemptFailed(outbound.fault(response.status, response.headers, text, target))
}

/** Longer requests are not read again to learn what of them a model refuses. */
const longestLearnt = 2_000_000

/** The same for a chat: what the provider says that its model does not support is learned, and not sent any more. */
export async function refuseChat(
  { refusals }: Pick<UpstreamParts, 'refusals'>,
  response: Response,
  prepared: Prepared,
  request: UpstreamRequest,
  candidate: Candidate,
): Promise<never> {
  try {
    return await refuseFailure(response, prepared, request)
  } catch (error) {
    const { body } = prepared.lowered
    if (!(error instanceof AttemptFailed) || body.length > longestLearnt) throw error
    const sent = parseJson(body)
    const isNew = refusals.learn(upstreamModel(candidate), error.fault, sent)
    throw isNew ? new AttemptFailed(error.fault, undefined, 'without-refused') : error
  }
}

// Reads the body of a provider's answer within bounds, and parses it.

/** Objects, arrays and items of an answer; the log probabilities of a long one are many. */
const mostValues = 2_000_000
/** Bodies announced as at most this size are read in one go. */
const smallBodyBytes = 65_536

/**
 * The JSON of an answer. Rejects with AttemptFailed if it is not JSON or is nested too deeply: the attempt failed like
 * any other and is not charged. `most` bounds the number of objects, arrays and items. Long integers are exact inside of
 * objects with an `opaque` name.
 */
export async function parsedAnswer(
  response: Response,
  text: string,
  scheduler: Scheduler,
  most = mostValues,
  opaque = opaqueInAnswers,
): Promise<unknown> {
  // The runtime's own parser is the fastest, but takes the whole text in one step.
  const isOneStep = text.length <= charactersAtOnce()
  refuseShape(isOneStep ? shapeFault(text, most) : await scheduler.runSteps(shapeFaultSteps(text, most)))
  try {
    if (text.length <= unscheduledCharacters) return parseOpaque(text, opaque)
    return await (isOneStep
      ? scheduler.run(() => parseOpaque(text, opaque))
      : scheduler.runSteps(parseSteps(text, opaque)))
  } catch {
    throw notJson(response, text)
  }
}

function refuseShape(fault: string | undefined): void {
  if (fault !== undefined) throw new AttemptFailed(transportFault('too-large', `the answer ${fault}`))
}

function notJson(response: Response, text: string): AttemptFailed {
  const type = response.headers.get('content-type') ?? 'no content type'
  const what = text.trim() === '' ? 'an empty body' : `a body that is not JSON (${type.slice(0, 60)})`
  return new AttemptFailed(transportFault('broken', `the provider answered ${what}`))
}

/** What is put off with each part of a body. */
interface Deadline {
  extend(ms: number): void
}

const noDeadline: Deadline = { extend: () => undefined }

/** Reads at most `maxBytes` of a body as text, to protect the memory. Each part of it may take `gapMs`. */
export function boundedText(
  response: Response,
  maxBytes: number,
  deadline = noDeadline,
  gapMs = 0,
  scheduler = new Scheduler(),
): Promise<string> {
  deadline.extend(gapMs)
  if (announcedBytes(response.headers) <= Math.min(maxBytes, smallBodyBytes)) return response.text()
  return textInParts(response, maxBytes, deadline, gapMs, scheduler)
}

/** NaN if unknown: the length of a compressed body says nothing about its text, which can be a million times as long. */
function announcedBytes(headers: Headers): number {
  return headers.has('content-encoding') ? Number.NaN : Number(headers.get('content-length') ?? Number.NaN)
}

async function textInParts(
  response: Response,
  maxBytes: number,
  deadline: Deadline,
  gapMs: number,
  scheduler: Scheduler,
): Promise<string> {
  const reader = readerOf(response)
  const chunks: Uint8Array[] = []
  let size = 0
  for (;;) {
    const { done, value } = await reader.readMany()
    deadline.extend(gapMs)
    for (const bytes of value ?? []) {
      chunks.push(bytes)
      size += bytes.length
    }
    if (size > maxBytes) {
      await reader.cancel()
      const fault: Fault = transportFault('too-large', `the answer is larger than ${maxBytes} bytes`)
      throw new AttemptFailed(fault)
    }
    if (done) {
      return scheduler.runSteps(decodeSteps(chunks))
    }
  }
}

function readerOf(response: Response): BodyReader {
  const { body } = response
  if (!body) return { readMany: () => ({ done: true }), cancel: () => Promise.resolve() }
  return body.getReader() as unknown as BodyReader
}

/** A protocol's reading of an answer. Throws AttemptFailed if the answer cannot be read, like a broken stream. */
export function readWhole<Read>(read: () => Read): Read {
  try {
    return read()
  } catch (error) {
    throw new AttemptFailed(transportFault('broken', `the answer could not be read: ${String(error)}`))
  }
}

// Limits concurrent requests to providers: more are refused, not queued.

/** Who asks, and whether over a connection: the simulator is asked without one. */
interface Asking {
  readonly account: string
  readonly transport: 'http' | 'builtin'
}

export class ConnectionLimit {
  readonly #most: number
  readonly #open = new Shares()
  #simulated = 0

  constructor(most: number) {
    this.#most = most
  }

  /**
   * Counts a request, which must be given back once. Throws `overloaded` if all connections are in use, and
   * `rate_limit_exceeded` if the account has as many as are left for all others.
   */
  take({ account, transport }: Asking): void {
    if (transport === 'builtin') {
      this.#simulated += 1
      return
    }
    if (this.#open.isFull(this.#most)) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    if (this.#open.isShareUsed(this.#most, account)) {
      const message = `The account has ${plural(this.#open.of(account), 'request')} to providers open, its share of those that can be.`
      throw new GatewayError('rate_limit_exceeded', { message, retryAfterMs: 1_000 })
    }
    this.#open.take(account)
  }

  giveBack({ account, transport }: Asking): void {
    if (transport === 'builtin') this.#simulated -= 1
    else this.#open.giveBack(account)
  }

  /** Requests that wait for an answer, simulated ones included. */
  get taken(): number {
    return this.#open.taken + this.#simulated
  }
}

// The deadlines of a call at one provider: the gateway's, overridden by the provider's configuration.

/** The limits for a provider: its own where configured, otherwise the gateway's. */
export function deadlinesOf(limits: ChatLimits, { timeouts }: ConfiguredProvider): ChatLimits {
  const { connect_ms, first_byte_ms, first_byte_reasoning_ms, gap_ms, reasoning_gap_ms, total_ms } = timeouts
  const { first_token_ms } = timeouts
  // Most providers have none of their own; copying the limits for each call would only be garbage.
  if (
    (connect_ms ?? first_byte_ms ?? first_byte_reasoning_ms ?? gap_ms ?? reasoning_gap_ms ?? total_ms) ===
      undefined &&
    first_token_ms === undefined
  )
    return limits
  return {
    ...limits,
    connectMs: connect_ms ?? limits.connectMs,
    firstByteMs: first_byte_ms ?? limits.firstByteMs,
    firstByteReasoningMs: first_byte_reasoning_ms ?? limits.firstByteReasoningMs,
    firstTokenMs: first_token_ms ?? limits.firstTokenMs,
    gapMs: gap_ms ?? limits.gapMs,
    gapReasoningMs: reasoning_gap_ms ?? limits.gapReasoningMs,
    totalMs: total_ms ?? limits.totalMs,
  }
}

/**
 * The deadlines of a call at a candidate. Silence is no failure where a model may think: one that reasons, one that is
 * asked to, and one of a local server, which reads a long prompt for minutes.
 */
export function patienceFor(
  limits: ChatLimits,
  call: Pick<IncomingCall, 'request'>,
  candidate: Candidate,
): ChatLimits {
  const deadlines = deadlinesOf(limits, candidate.provider)
  if (!mayThink(call, candidate)) return deadlines
  return {
    ...deadlines,
    firstByteMs: Math.max(deadlines.firstByteMs, deadlines.firstByteReasoningMs),
    gapMs: Math.max(deadlines.gapMs, deadlines.gapReasoningMs),
  }
}

function mayThink(
  { request }: Pick<IncomingCall, 'request'>,
  { model, provider }: Pick<Candidate, 'model' | 'provider'>,
): boolean {
  return model.reasoning || provider.local || asksToThink(request.body)
}

/** How fast a model reads a long prompt, bytes a millisecond: slow ones some 5,000 tokens a second. */
const readBytesPerMs = 20

/**
 * How long a candidate may take to its first content where another one waits, milliseconds. Nothing where it may think
 * or search, whose silence is no failure however many wait; a long prompt has time to be read. `limits` are those of the
 * candidate.
 */
export function contentMsFor(
  limits: Pick<ChatLimits, 'firstTokenMs'>,
  call: Pick<IncomingCall, 'request' | 'bodyBytes'>,
  candidate: Pick<Candidate, 'model' | 'provider'>,
): { readonly contentMs: number } | undefined {
  if (mayThink(call, candidate) || call.request.envelope.searches !== undefined) return undefined
  return { contentMs: limits.firstTokenMs + Math.round(call.bodyBytes / readBytesPerMs) }
}

/** Whether a body of any protocol asks for reasoning, and not for none. */
function asksToThink({
  reasoning,
  reasoning_effort: effort,
  thinking,
  think,
  generationConfig,
}: JsonObject): boolean {
  const isAsked = (value: Json | undefined) => value !== undefined && value !== null && value !== false
  const within = (value: Json | undefined, name: string) => (isObject(value) ? value[name] : undefined)
  if (isAsked(effort) && effort !== 'none') return true
  if (isAsked(reasoning) && within(reasoning, 'effort') !== 'none' && within(reasoning, 'enabled') !== false)
    return true
  if (isAsked(thinking) && within(thinking, 'type') !== 'disabled') return true
  const config = within(generationConfig, 'thinkingConfig')
  return isAsked(think) || (isAsked(config) && within(config, 'thinkingBudget') !== 0)
}
