// Builds the client's HTTP response: the headers of every answer, and the body, whole or streaming.

import { type ChatEvent, collect, eventsOf, type Fault } from '../../conversation/event.ts'
import type { ContentEvent } from '../../conversation/delivered.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { Attempt, RouteNote } from '../../credits/ledger/ledger.ts'
import { asGatewayError, type RenderedError, renderError } from '../../errors/errors.ts'
import { AnswerGuard } from '../../guards/guards.ts'
import { type DoneOrSteps, isLong, stepCharacters, stringifySteps } from '../../json/json.ts'
import type { Log } from '../../observe/log.ts'
import type { Memory } from '../../observe/memory.ts'
import { bytesOf } from '../../protocols/framing/sse.ts'
import type { Warning } from '../../protocols/lowering.ts'
import type { Bill } from '../../protocols/protocol.ts'
import type { Scheduler } from '../../scheduler/scheduler.ts'
import type { BillingParts, Hold } from '../billing/hold.ts'
import { StreamWatch } from '../billing/stream-watch.ts'
import {
  type ChatLimits,
  type FinalFigures,
  type IncomingCall,
  type Outcome,
  type PaidCall,
  stopNote,
  type StoppedBy,
} from '../call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { codeOf } from '../routing/fault-error.ts'
import type { Health } from '../routing/health.ts'
import { routeNote } from '../routing/route.ts'
import { boundQuery, triedFields } from '../routing/search.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { contextOf, patienceFor, type UpstreamParts } from '../upstream/upstream-request.ts'
import {
  AnswerRefused,
  type Buffered,
  disconnectPolicy,
  type OpenStream,
  type Read,
  relay,
  type Watchdog,
} from './relay.ts'
import type { AnswerSink } from './translate.ts'

export interface StreamingParts {
  readonly watchdog: Watchdog
  readonly scheduler: Scheduler
  /** The memory of this process. */
  readonly memory: Pick<Memory, 'makeRoom'>
  /** Unread bytes of all streams. */
  readonly buffered: Buffered
  readonly limits: ChatLimits
  /** Removes this process's secrets from a provider's text, which may quote the key it was sent. */
  readonly redact: (text: string) => string
  readonly health: Health
  readonly log: Log
  /** The gateway's address as clients know it, without a trailing slash. */
  readonly publicUrl: () => string
}

export function answerHeaders(
  { requestId, route }: Pick<PaidCall, 'requestId' | 'route'>,
  served: Candidate,
  warnings: readonly Warning[],
  attempts: readonly Attempt[],
): Record<string, string> {
  const headers: Record<string, string> = {
    'x-request-id': requestId,
    'x-weir-provider': served.provider.id,
    'x-weir-model':
      modelText(served.model.id) + (route ? routeText(routeNote(route, served.model, attempts)) : ''),
  }
  if (warnings.length > 0)
    headers['x-weir-warnings'] = headerText(
      warnings.map(({ param, message }) => `${param}: ${message}`).join('; '),
    )
  return headers
}

/** How a virtual model came to the model, as parameters of a header (RFC 9651). */
function routeText({ id, reason, passedOver }: RouteNote): string {
  const passed = passedOver.map(({ model, reason: why }) => `${modelText(model)} ${why}`).join(', ')
  const quoted = passed === '' ? '' : `; passed_over="${passed.replace(/["\\]/g, '')}"`
  return `; route="${modelText(id)}"; reason=${reason}${quoted}`
}

/** A model id as a header value: the names of local models may have characters that no header can, which are escaped. */
function modelText(id: string): string {
  return id.replace(/[^\x21-\x7e]+/g, encodeURIComponent)
}

/** Header values must be visible ASCII: any other character of a warning becomes a question mark. */
function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?').slice(0, 1_000)
}

/** A whole answer, sent once its charge is durable. */
export async function jsonResponse(
  { scheduler }: Pick<StreamingParts, 'scheduler'>,
  { keeper, inbound }: Pick<PaidCall, 'keeper'> & Partial<Pick<IncomingCall, 'inbound'>>,
  hold: Hold,
  answer: Pick<WholeAnswer, 'outcome' | 'body'>,
  headers: Record<string, string>,
): Promise<Response> {
  const allHeaders = { 'content-type': 'application/json;charset=utf-8', ...headers }
  const kept = inbound?.whenKept
  const isKept = kept !== undefined || keeper !== undefined
  let pieces: readonly string[] = []
  await hold.settle(answer.outcome, async (figures) => {
    pieces = await scheduler.runDivisible(() => writtenAnswer(answer, figures))
    if (isKept) await keptAnswer(pieces, allHeaders, keeper, kept)
  })
  return new Response(bodyOf(pieces, scheduler), { headers: allHeaders })
}

/** The JSON of an answer, in pieces; in steps if it is long. */
function writtenAnswer(
  answer: Pick<WholeAnswer, 'body'>,
  figures: FinalFigures,
): DoneOrSteps<readonly string[]> {
  const body = answer.body(figures)
  return isLong(body) ? stringifySteps(body) : [JSON.stringify(body)]
}

/** Has an answer kept, by its protocol and for a client that asks again: the charge is queued behind it. */
async function keptAnswer(
  pieces: readonly string[],
  headers: Readonly<Record<string, string>>,
  keeper: PaidCall['keeper'],
  kept: IncomingCall['inbound']['whenKept'],
): Promise<void> {
  await kept?.()
  if (keeper === undefined) return
  keeper.begin(headers)
  for (const piece of pieces) keeper.add(Buffer.from(piece))
  keeper.keep()
}

/** Larger bodies are encoded piece by piece while they are sent. */
const wholeCharacters = 1024 ** 2

function bodyOf(
  pieces: readonly string[],
  scheduler: Pick<Scheduler, 'run'>,
): string | ReadableStream<Uint8Array> {
  if (pieces.length === 1) return pieces[0]!
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  if (length <= wholeCharacters) return pieces.join('')
  const utf8 = new TextEncoder()
  let next = 0
  return new ReadableStream<Uint8Array>({
    // A fast connection would otherwise have all of it encoded at once.
    pull: (controller) =>
      scheduler.run(() => {
        let text = ''
        while (next < pieces.length && text.length < stepCharacters) text += pieces[next++]
        controller.enqueue(utf8.encode(text))
        if (next === pieces.length) controller.close()
      }, 'started'),
  })
}

/** Of every stream of events: nothing on the way may hold it back. */
export const streamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
}

/**
 * The response of a stream: `served`, if it comes before a client would get a sign of life; otherwise one that begins with
 * such signs, since balancers cut connections that say nothing while a model thinks. It goes on with what is served, or
 * ends with the error in the client's protocol. Nothing is sent before `durable`. Rejects as `served` does, if it comes
 * in time.
 */
export async function responseInTime(
  {
    limits,
    watchdog,
    now,
    publicUrl,
  }: Pick<StreamingParts, 'limits' | 'watchdog' | 'publicUrl'> & Pick<BillingParts, 'now'>,
  call: IncomingCall,
  asked: Candidate,
  durable: Promise<void>,
  served: Promise<Response>,
): Promise<Response> {
  /** Resolves with undefined if `served` does not come in time. */
  const inTime = async (): Promise<Response | undefined> => {
    const { promise, resolve } = Promise.withResolvers<undefined>()
    const deadline = watchdog.arm(limits.keepaliveMs, () => resolve(undefined))
    try {
      return await Promise.race([served, promise])
    } finally {
      deadline.clear()
    }
  }
  const quick = await inTime()
  if (quick !== undefined) return quick
  await durable
  const { inbound, requestId } = call
  let reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  let isFirst = true
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          if (reader === undefined) {
            const response = isFirst ? undefined : await inTime()
            isFirst = false
            if (response === undefined) return controller.enqueue(inbound.keepalive)
            reader = response.body!.getReader()
          }
          const { done, value } = await reader.read()
          if (done) controller.close()
          else controller.enqueue(value)
        } catch (error) {
          // The answer has begun, and says itself how it ends.
          if (reader !== undefined) return controller.error(error)
          const rendered = renderError(asGatewayError(error), requestId, publicUrl())
          const encoder = inbound.encoder(contextOf({ now }, call, asked, []))
          for (const bytes of bytesOf(encoder.fail(rendered))) controller.enqueue(bytes)
          controller.close()
        }
      },
      cancel: (reason) => reader?.cancel(reason) ?? leave(served),
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { headers: { ...streamHeaders, 'x-request-id': requestId } })
}

/** Nobody reads an answer that has not begun; the signal of the call tells whoever is still asked. */
async function leave(served: Promise<Response>): Promise<void> {
  const response = await served.catch(() => undefined)
  await response?.body?.cancel()
}

export function streamResponse(
  parts: StreamingParts & BillingParts,
  call: IncomingCall,
  hold: Hold,
  answer: OpenStream,
  headers: Record<string, string>,
): Response {
  const { provider } = hold.candidate
  const allHeaders = { ...streamHeaders, ...headers }
  call.keeper?.begin(allHeaders)
  const watch = new StreamWatch(parts, call, hold)
  const body = relay(answer, {
    requestId: call.requestId,
    account: call.caller.account.id,
    publicUrl: parts.publicUrl(),
    provider: provider.id,
    attempts: () => hold.attempts,
    keepalive: call.inbound.keepalive,
    limits: patienceFor(parts.limits, call, hold.candidate),
    watchdog: parts.watchdog,
    scheduler: parts.scheduler,
    memory: parts.memory,
    buffered: parts.buffered,
    elapsedMs: performance.now() - call.arrivedAt,
    disconnect: call.signal,
    stopping: call.stopping,
    redact: parts.redact,
    get onDisconnect() {
      return disconnectPolicy(call, hold.candidate.provider.onDisconnect)
    },
    settle: (outcome, make) => {
      if (outcome.fault) noteBreak(parts, call, hold, outcome.fault)
      return hold.settle(outcome, make)
    },
    keeper: call.keeper,
    kept: call.inbound.whenKept,
    onProgress: (progress) => watch.look(progress),
  })
  return new Response(body, { headers: allHeaders })
}

/** A started answer failed: it counts against the offer, and the reason is logged. */
export function noteBreak(
  parts: Pick<StreamingParts, 'health' | 'log'>,
  call: PaidCall,
  { candidate }: Pick<Hold, 'candidate'>,
  fault: Fault,
): void {
  parts.health.onBroken(candidate, fault, call.caller.account.id)
  parts.log.warn('an answer broke off', {
    request_id: call.requestId,
    ...triedFields(candidate),
    code: codeOf(fault),
    status: fault.status ?? null,
    reason: boundQuery(fault.message),
    ...(fault.providerCode === undefined ? {} : { provider_code: fault.providerCode.slice(0, 100) }),
    ms: Math.round(performance.now() - call.arrivedAt),
  })
}

// An answer whose events the guards look at before they are encoded.

/** Encodes the events of an answer for its client. */
export type EventSink = Pick<AnswerSink, 'event' | 'takeWritten' | 'finish' | 'fail' | 'cancel'>

/** The sink of a call's answer, and the stream as its client is to read it. */
export interface GuardedAnswer {
  readonly sink: EventSink
  readonly guard: (open: OpenStream) => OpenStream
}

/** With the guards of the call between the answer and `sink`, where it has any for its answer. */
export function guardedAnswer(call: IncomingCall, sink: AnswerSink): GuardedAnswer {
  const guard = answerGuardOf(call)
  if (guard === undefined) return { sink, guard: (open) => open }
  const guarded = new GuardedSink(sink, guard)
  return { sink: guarded, guard: (open) => guardedStream(open, guarded) }
}

function answerGuardOf({ guard, request }: IncomingCall): AnswerGuard | undefined {
  if (guard === undefined || !guard.has('response')) return undefined
  const format = request.toChatRequest().responseFormat?.kind ?? 'text'
  return new AnswerGuard(guard, format !== 'text')
}

class GuardedSink implements EventSink {
  readonly #sink: AnswerSink
  readonly #guard: AnswerGuard
  readonly #emit = (event: ContentEvent) => this.#sink.event(event)
  #isRefused = false

  constructor(sink: AnswerSink, guard: AnswerGuard) {
    this.#sink = sink
    this.#guard = guard
  }

  event(event: ContentEvent): void {
    if (!this.#isRefused) this.#guard.take(event)
  }

  get isWaiting(): boolean {
    return this.#guard.isWaiting && !this.#isRefused
  }

  /** Has everything written that may go on, or at the `end` all there is. Rejects with AnswerRefused. */
  async release(which: 'so-far' | 'end'): Promise<void> {
    try {
      await (which === 'end' ? this.#guard.end(this.#emit) : this.#guard.release(this.#emit))
    } catch (error) {
      this.#isRefused = true
      throw new AnswerRefused(asGatewayError(error))
    }
  }

  takeWritten(): DoneOrSteps<readonly Uint8Array[]> {
    return this.#sink.takeWritten()
  }

  finish(usage: Usage, bill: Bill, stoppedBy: StoppedBy | undefined): void {
    this.#sink.finish(usage, bill, stoppedBy)
  }

  fail(error: RenderedError): void {
    this.#sink.fail(error)
  }

  cancel(usage: Usage, bill: Bill): void {
    this.#sink.cancel(usage, bill)
  }
}

/** Nothing from a provider: makes the relay look at what was written meanwhile. */
const nothingRead: Read = { done: false, value: [new Uint8Array(0)] }

/** The stream of a sink: what has been read is looked at before more is. */
function guardedStream(open: OpenStream, sink: GuardedSink): OpenStream {
  let isOver = open.ended
  const readMany = async (): Promise<Read> => {
    if (sink.isWaiting) {
      await sink.release('so-far')
      return nothingRead
    }
    if (isOver) return { done: true }
    const read = await open.reader.readMany()
    if (!read.done) return read
    // The end of a body may have added something.
    isOver = true
    return nothingRead
  }
  return {
    channel: open.channel,
    // Whoever reads reports it.
    reader: { readMany, onRead: () => undefined, cancel: () => open.reader.cancel() },
    head: open.head,
    ended: false,
    pausing: () => open.pausing(),
    read: () => open.read(),
    abort: () => open.abort(),
    rounds: open.rounds,
    onSilence: open.onSilence && (() => open.onSilence!()),
    closing: () => sink.release('end'),
  }
}

/**
 * The events of a whole answer as the guards leave them. A refused one is charged, since its provider has made it: then
 * the hold is settled, and this rejects with the error.
 */
export async function guardedEvents(
  call: IncomingCall,
  hold: Hold,
  events: readonly ChatEvent[],
  outcome: Outcome,
): Promise<readonly ChatEvent[]> {
  const guard = answerGuardOf(call)
  if (guard === undefined) return events
  const made: ChatEvent[] = []
  try {
    for (const event of events) if ('choice' in event) guard.take(event)
    await guard.end((event) => void made.push(event))
    return made
  } catch (thrown) {
    const error = asGatewayError(thrown)
    await hold.settle({ ...outcome, error }, () => undefined)
    throw error
  }
}

/** A whole answer as the guards leave it. Rejects as `guardedEvents` does. */
export async function guardedWhole(
  parts: Pick<UpstreamParts, 'now'>,
  call: IncomingCall,
  hold: Hold,
  candidate: Candidate,
  { result, outcome, warnings }: WholeAnswer,
): Promise<Pick<WholeAnswer, 'outcome' | 'body'>> {
  const asMade = result.events ?? result.choices.flatMap((choice) => eventsOf(choice))
  const events = await guardedEvents(call, hold, asMade, outcome)
  const context = contextOf(parts, call, candidate, warnings)
  const { id, model, usage: counted } = result
  return {
    outcome,
    body: ({ usage, bill, stoppedBy }) => {
      Object.assign(context.extra, stopNote(stoppedBy))
      const answer = { ...collect(events), id, model, usage: counted, events }
      return call.inbound.whole(answer, usage, bill, context)
    },
  }
}
