// One attempt at one offer: lower the request, send it, and read the answer as far as failing over is possible.

import { Delivered } from '../../conversation/delivered.ts'
import { collect } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { pass } from '../../credits/failpoint.ts'
import { GatewayError } from '../../errors.ts'
import type { AnswerContext, Outbound, Target, Warning } from '../../protocols/protocol.ts'
import { send } from '../../providers/upstream.ts'
import type { Booking } from '../billing/booking.ts'
import { disconnectPolicy } from '../streaming/disconnect.ts'
import { deadlinesOf } from './deadlines.ts'
import { boundedText, parsedAnswer, readerOf, readWhole } from './answer-body.ts'
import { AttemptFailed } from '../routing/dispatch.ts'
import { shuttingDown, transportFault, withoutSecrets } from '../routing/fault-error.ts'
import { frameDecoder } from '../../protocols/framing/decoder.ts'
import type { ChatLimits, Gateway, IncomingCall, PaidCall } from '../gateway.ts'
import { loweredFor, type Lowered } from './lower.ts'
import { PassthroughChannel } from '../streaming/passthrough.ts'
import type { Candidate } from '../routing/candidates.ts'
import { quirksFor } from './quirks.ts'
import type { OpenStream, Outcome, Settlement } from '../streaming/relay.ts'
import type { StreamChannel } from '../streaming/channel.ts'
import { stopNote } from '../streaming/channel.ts'
import { type Head, looksLikeStream, readHead } from '../streaming/head.ts'
import { TranslateChannel } from '../streaming/translate.ts'
import { stepsOf, type Turns } from '../streaming/turns.ts'
import type { Deadline } from '../streaming/watchdog.ts'

export interface OpenedStream extends OpenStream {
  readonly kind: 'stream'
  /** What the client is told will not be honoured, by the gateway and by this provider. */
  readonly warnings: readonly Warning[]
}

export interface WholeAnswer {
  readonly kind: 'whole'
  readonly warnings: readonly Warning[]
  readonly outcome: Outcome
  /** The client's body, once the charge is known. */
  readonly body: (settlement: Settlement) => JsonObject
}

/** How much of an error body is read: providers' errors are short, a web page is not worth more. */
const errorBodyBytes = 65_536
/** How long it may take: the status says enough. */
const errorBodyMs = 5_000

/**
 * Opens a stream and reads it up to its first content. Rejects with AttemptFailed or UnreachableError while another
 * offer can still take over, with GatewayError when the request itself is at fault.
 */
export async function openStream(
  gateway: Gateway,
  call: IncomingCall,
  booking: Booking,
  candidate: Candidate,
  told: readonly Warning[],
): Promise<OpenedStream> {
  const prepared = await prepare(gateway, call, booking, candidate, told)
  const limits = deadlinesOf(gateway.limits, candidate.provider)
  const patience = prepared.target.reasoning ? limits.firstByteReasoningMs : limits.firstByteMs
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const attempt = new Attempt(gateway, call, { firstMs: patience, totalMs: limits.totalMs }, policy)
  try {
    const response = await attempt.send(candidate, prepared.lowered, limits.connectMs)
    if (!response.ok) await refuseFailure(response, prepared, attempt)
    const channel = channelFor(gateway, call, candidate, prepared)
    const opened = isJson(response)
      ? await wholeAsStream(response, channel, prepared, limits, attempt, gateway.turns)
      : await readHead(
          readerOf(response),
          channel,
          (body) => prepared.outbound.whole(body, prepared.target),
          gateway.turns,
        )
    if (opened.ended) attempt.read()
    const { fault, started } = channel.progress
    if (fault !== undefined && !started) throw new AttemptFailed(fault)
    attempt.settle()
    pass('answer-begun', call.requestId)
    const end = { read: () => attempt.read(), abort: () => attempt.end() }
    return { kind: 'stream', channel, ...opened, warnings: prepared.warnings, ...end }
  } catch (error) {
    const verdict = attempt.verdict(error)
    attempt.end()
    throw verdict
  }
}

/** Asks for a whole answer and reads it. Rejects as `openStream` does. */
export async function fetchWhole(
  gateway: Gateway,
  call: IncomingCall,
  booking: Booking,
  candidate: Candidate,
  told: readonly Warning[],
): Promise<WholeAnswer> {
  const prepared = await prepare(gateway, call, booking, candidate, told)
  const limits = deadlinesOf(gateway.limits, candidate.provider)
  // A whole answer's first byte comes when its last token is made, so it gets the patience of a reasoning model.
  const policy = disconnectPolicy(call, candidate.provider.onDisconnect)
  const patience = { firstMs: limits.firstByteReasoningMs, totalMs: limits.totalMs }
  const attempt = new Attempt(gateway, call, patience, policy)
  try {
    const response = await attempt.send(candidate, prepared.lowered, limits.connectMs)
    if (!response.ok) await refuseFailure(response, prepared, attempt)
    const text = await boundedText(
      response,
      limits.answerBytes,
      () => attempt.extend(limits.gapMs),
      gateway.turns,
    )
    attempt.read()
    pass('answer-read', call.requestId)
    const { turns } = gateway
    const parsed = await turns.run(() => parsedAnswer(response, text))
    return await turns.run(() => wholeAnswer(gateway, call, candidate, prepared, parsed))
  } catch (error) {
    throw attempt.verdict(error)
  } finally {
    attempt.end()
  }
}

interface Prepared {
  readonly outbound: Outbound
  readonly target: Target
  readonly lowered: Lowered
  readonly warnings: readonly Warning[]
}

async function prepare(
  gateway: Gateway,
  call: IncomingCall,
  booking: Booking,
  candidate: Candidate,
  told: readonly Warning[],
): Promise<Prepared> {
  const { provider, model, offer } = candidate
  const outbound = gateway.outbounds[provider.protocol]
  if (!outbound)
    throw new GatewayError('no_provider_available', {
      lasting: true,
      metadata: { protocol: provider.protocol },
    })
  const target: Target = {
    model: offer.upstream,
    provider: provider.id,
    quirks: quirksFor(outbound, provider),
    maxOutputTokens: model.maxOutputTokens,
    reasoning: model.reasoning,
    efforts: offer.efforts,
    rememberedSignature: (id) => gateway.signatures.recall(id),
  }
  const lowered = await loweredFor(gateway, call, candidate, outbound, target, booking.outputBound(candidate))
  const [dropped] = lowered.warnings
  if (dropped && call.request.envelope.strict) {
    throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
  }
  // Of another candidate other things may be true: its warnings are its own.
  const answered = lowered.toolNames ? { ...target, toolNames: lowered.toolNames } : target
  return { outbound, target: answered, lowered, warnings: [...told, ...lowered.warnings] }
}

type SentRequest = Pick<Lowered, 'path' | 'headers' | 'body'>

/** How long an attempt may take, milliseconds. */
export interface Patience {
  /** From its start to the provider's first byte. */
  readonly firstMs: number
  /** From the call's arrival to the answer's end. */
  readonly totalMs: number
}

/** One attempt's hold on a provider, and what ends it: a deadline, the client's leaving, a shutdown, its own end. */
export class Attempt {
  readonly #controller = new AbortController()
  readonly #gone: AbortSignal
  readonly #stopping: AbortSignal
  readonly #deadline: Deadline
  /** The end of the whole call on the clock of performance.now(): no extension goes beyond it. */
  readonly #endsAt: number
  readonly #giveBack: () => void
  readonly #redact: Gateway['redact']
  readonly #log: Gateway['log']
  readonly #turns: Turns
  readonly #requestId: string
  readonly #abort = () => this.#controller.abort()
  #expired = false
  #read = false

  /** Throws `overloaded` when the gateway has no connection left for it. */
  constructor(
    { watchdog, stopping, upstream, turns, redact, log }: Gateway,
    call: Pick<PaidCall, 'signal' | 'requestId' | 'arrivedAt'>,
    { firstMs, totalMs }: Patience,
    policy: 'cancel' | 'drain' | 'free',
  ) {
    const giveBack = upstream.take()
    if (!giveBack) throw new GatewayError('overloaded', { retryAfterMs: 1_000 })
    this.#giveBack = giveBack
    this.#turns = turns
    this.#gone = call.signal
    this.#requestId = call.requestId
    this.#redact = redact
    this.#log = log
    this.#stopping = stopping
    this.#endsAt = call.arrivedAt + totalMs
    this.#deadline = watchdog.arm(this.#within(firstMs), () => {
      this.#expired = true
      this.#abort()
    })
    // An answer that is to be drained is awaited although its client has disconnected.
    if (policy !== 'drain') this.#gone.addEventListener('abort', this.#abort, { once: true })
    stopping.addEventListener('abort', this.#abort, { once: true })
    if (stopping.aborted || (this.#gone.aborted && policy !== 'drain')) this.#abort()
  }

  async send(candidate: Candidate, lowered: SentRequest, connectMs: number): Promise<Response> {
    const { provider, key } = candidate
    // The simulator gives the same request the same id, unless it is told that it is another call: a receipt is
    // found by it.
    const named: Record<string, string> =
      provider.transport === 'builtin' ? { 'x-client-request-id': this.#requestId } : {}
    const headers = { ...lowered.headers, ...named }
    this.#log.debug('a provider is asked', {
      request_id: this.#requestId,
      provider: provider.id,
      url: provider.baseUrl + lowered.path,
      bytes: lowered.body.length,
    })
    return this.#turns.run(() => {
      const sent = send({ ...lowered, headers, provider, key, abort: this.#controller, connectMs })
      pass('request-sent', this.#requestId)
      return sent
    }, 'new')
  }

  /** Gives the provider `ms` more from now, but never more than the whole call may take. */
  extend(ms: number): void {
    this.#deadline.extend(this.#within(ms))
  }

  #within(ms: number): number {
    return Math.min(ms, this.#endsAt - performance.now())
  }

  /** What an exception of this attempt means. */
  verdict(error: unknown): unknown {
    if (error instanceof AttemptFailed) return new AttemptFailed(withoutSecrets(error.fault, this.#redact))
    if (error instanceof GatewayError) return error
    if (this.#expired) return new AttemptFailed(transportFault('timeout', 'no answer in time'))
    if (this.#stopping.aborted) return shuttingDown()
    if (this.#gone.aborted && this.#controller.signal.aborted) {
      return new AttemptFailed(transportFault('cut', 'the client left'))
    }
    return error
  }

  /** The answer has begun: from here on the relay watches over it, and only calls `end`. */
  settle(): void {
    this.#deadline.clear()
    this.#gone.removeEventListener('abort', this.#abort)
    this.#stopping.removeEventListener('abort', this.#abort)
  }

  /** The provider's body has been read to its end. */
  read(): void {
    this.#read = true
  }

  /** Ends the provider's work, where it has not ended by itself: to abort what is over would only make an exception. */
  end(): void {
    this.settle()
    if (!this.#read) this.#abort()
    this.#giveBack()
  }
}

/** Rejects with AttemptFailed for what an answer with any status but 2xx says. */
export async function refuseFailure(
  response: Response,
  { outbound, target }: Pick<Prepared, 'outbound' | 'target'>,
  attempt: Attempt,
): Promise<never> {
  attempt.extend(errorBodyMs)
  const text = await boundedText(response, errorBodyBytes).catch(() => '')
  // A redirect would carry our key to another host; it is a misconfigured base URL.
  if (response.status < 400) throw new AttemptFailed(transportFault('broken', `status ${response.status}`))
  throw new AttemptFailed(outbound.fault(response.status, response.headers, text, target))
}

function isJson(response: Response): boolean {
  return /^application\/json\b/i.test(response.headers.get('content-type') ?? '')
}

function channelFor(
  gateway: Gateway,
  call: IncomingCall,
  candidate: Candidate,
  { outbound, target, lowered, warnings }: Prepared,
): StreamChannel {
  const context = contextOf(gateway, call, candidate, warnings)
  if (lowered.passthrough && outbound.passthrough) {
    const bounds = { choices: call.request.envelope.n, maxEventBytes: gateway.limits.eventBytes }
    const stream = outbound.passthrough.stream(context, bounds, target)
    return new PassthroughChannel(stream, context, (of) => call.inbound.encoder(of))
  }
  return new TranslateChannel({
    decoder: frameDecoder(outbound.framingFor?.(target) ?? outbound.framing, gateway.limits.eventBytes),
    parser: outbound.parser(target),
    encoder: call.inbound.encoder(context),
    extra: context.extra,
    onSignature: (id, signature) => gateway.signatures.remember(id, signature),
  })
}

function contextOf(
  gateway: Gateway,
  call: IncomingCall,
  { model }: Candidate,
  warnings: readonly Warning[],
): AnswerContext {
  return {
    id: call.requestId,
    model: model.id,
    created: Math.floor(gateway.now() / 1000),
    includeUsage: call.request.envelope.includeUsage,
    warnings,
    extra: call.caller.mode === 'test' ? { mode: 'test' } : {},
  }
}

/** A provider that answers a streamed request with plain JSON: its answer becomes a stream of one piece. */
async function wholeAsStream(
  response: Response,
  channel: StreamChannel,
  { outbound, target }: Prepared,
  { answerBytes, gapMs }: ChatLimits,
  attempt: Attempt,
  turns: Turns,
): Promise<Head> {
  const text = await boundedText(response, answerBytes, () => attempt.extend(gapMs), turns)
  const reader = { readMany: () => ({ done: true }), cancel: () => Promise.resolve() }
  if (looksLikeStream(text)) {
    const head: Uint8Array[] = []
    for (const piece of stepsOf(Buffer.from(text))) {
      const made = turns.run(() => channel.push(piece))
      head.push(...(made instanceof Promise ? await made : made))
    }
    return { reader, head: [...head, ...channel.end()], ended: true }
  }
  const parsed = await turns.run(() => parsedAnswer(response, text))
  const events = await turns.run(() => readWhole(() => outbound.whole(parsed, target)))
  return { reader, head: [...(await turns.run(() => channel.take(events)))], ended: true }
}

function wholeAnswer(
  gateway: Gateway,
  call: IncomingCall,
  candidate: Candidate,
  { outbound, target, lowered, warnings }: Prepared,
  parsed: unknown,
): WholeAnswer {
  const result = readWhole(
    () => outbound.plainWhole?.(parsed, target) ?? collect(outbound.whole(parsed, target)),
  )
  if (result.fault) throw new AttemptFailed(result.fault)
  for (const { id, thoughtSignature } of result.choices.flatMap((choice) => choice.toolCalls)) {
    if (thoughtSignature !== undefined) gateway.signatures.remember(id, thoughtSignature)
  }
  const context = contextOf(gateway, call, candidate, warnings)
  const delivered = new Delivered()
  for (const choice of result.choices) delivered.addChoice(choice)
  return {
    kind: 'whole',
    warnings,
    outcome: {
      ending: 'finished',
      fault: undefined,
      usage: result.usage,
      delivered,
      finishReason: result.choices[0]?.finish,
      upstreamId: result.id,
      stoppedBy: undefined,
    },
    body: ({ usage, bill, stoppedBy }) => {
      Object.assign(context.extra, stopNote(stoppedBy))
      return lowered.passthrough && outbound.passthrough
        ? outbound.passthrough.whole(parsed as JsonObject, usage, bill, context, target)
        : call.inbound.whole(result, usage, bill, context)
    },
  }
}
