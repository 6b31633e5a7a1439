// Serves a call that declares gateway tools: like ../complete.ts, with as many rounds as the tools need.

import { type ChatEvent, collect, eventsOf } from '../../conversation/event.ts'
import type { DeclaredTools } from '../../conversation/gateway-tools.ts'
import type { ContentEvent } from '../../conversation/progress.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Warning } from '../../protocols/lowering.ts'
import { CallTools } from '../../tools/run-tool.ts'
import type { Hold } from '../billing/hold.ts'
import { type IncomingCall, type Outcome, stopNote, type StoppedBy, unservedOutcome } from '../call.ts'
import { type ChatParts, paidCall, type Payable } from '../paid-call.ts'
import type { Candidate } from '../routing/candidates.ts'
import { DispatchFailed } from '../routing/dispatch.ts'
import { clientGone, stopError } from '../routing/fault-error.ts'
import { guardedAnswer, guardedEvents } from '../streaming/guarded-stream.ts'
import { answerHeaders, jsonResponse, streamResponse } from '../streaming/respond.ts'
import { AnswerSink } from '../streaming/translate.ts'
import { contextOf } from '../upstream/upstream-request.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { type LoopParts, mostCallsOf, ToolLoop } from './loop.ts'
import { ToolConversation } from './conversation.ts'
import { JoinedStream } from './joined-stream.ts'

/** Serves a call as `complete` does; `declared` are its gateway tools. */
export async function completeWithTools(
  parts: ChatParts,
  call: IncomingCall,
  declared: DeclaredTools,
  payable: Payable,
  warnings: readonly Warning[],
): Promise<Response> {
  if (call.request.envelope.n > 1) {
    const message = 'Tools of the gateway work for one answer: leave n out.'
    throw new GatewayError('unsupported_parameter', { message, param: 'n' })
  }
  const life = new CallLife(parts, call)
  try {
    const asked = call.request.toChatRequest()
    const tools = await life.open(
      declared,
      asked.tools.map(({ name }) => name),
    )
    const [leftOut] = tools.warnings
    if (leftOut && call.request.envelope.strict) throw new GatewayError('unsupported_parameter', leftOut)
    const conversation = new ToolConversation(asked, tools, declared)
    if (call.guard !== undefined) await conversation.guardOffered(call.guard)
    const { maxCalls, note } = mostCallsOf(declared, parts.limits.toolCalls)
    if (maxCalls === 0 && !conversation.hasFunctions) conversation.freedom = 'none'
    const first = conversation.round(call, asked.maxOutputTokens)
    return await paidCall(parts, first, payable, async (hold) => {
      const { candidates } = payable
      const all = [...warnings, ...tools.warnings, ...note]
      const loop = { parts, call, hold, tools, conversation, candidates, maxCalls, signal: life.signal }
      const answer = new ToolAnswer({ ...loop, warnings: all, approved: declared.approved }, first, life)
      try {
        return await (call.request.envelope.stream ? answer.stream() : answer.whole())
      } catch (error) {
        // Its client may have a response by now.
        life.end()
        throw refusalOf(call, error)
      }
    })
  } catch (error) {
    life.end()
    throw refusalOf(call, error)
  }
}

/** What a call is refused with, given what its work rejected with: that its signal aborted is no fault of the gateway. */
function refusalOf(call: IncomingCall, error: unknown): unknown {
  const stopped = call.stopping.aborted ? stopError(call.stopping) : undefined
  const known = error instanceof DispatchFailed ? error.error : error
  // The error that the call has been ended with, and no other, is the one that is noted.
  if (stopped) return known instanceof GatewayError && known.code === stopped.code ? error : stopped
  if (!call.signal.aborted || error instanceof GatewayError || error instanceof DispatchFailed) return error
  return clientGone()
}

/** What a call keeps open besides its providers, for as long as it runs. */
class CallLife {
  readonly #controller = new AbortController()
  readonly #parts: ChatParts
  readonly #call: IncomingCall
  readonly #end = () => this.end()
  #tools: CallTools | undefined

  constructor(parts: ChatParts, call: IncomingCall) {
    this.#parts = parts
    this.#call = call
    call.stopping.addEventListener('abort', this.#end, { once: true })
    call.signal.addEventListener('abort', this.#end, { once: true })
    if (call.stopping.aborted || call.signal.aborted) this.end()
  }

  /** Aborts when the call is over or its client has disconnected. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }

  async open(declared: DeclaredTools, taken: readonly string[]): Promise<CallTools> {
    const { caller, requestId, arrivedAt } = this.#call
    const { toolMs, totalMs } = this.#parts.limits
    const deadlineAt = Math.min(performance.now() + toolMs, arrivedAt + totalMs)
    const of = { account: caller.account.id, mode: caller.mode, requestId, signal: this.signal, deadlineAt }
    this.#tools = await CallTools.open(this.#parts.toolSources, declared, of, taken)
    if (this.signal.aborted) await this.#tools.close()
    return this.#tools
  }

  end(): void {
    this.#call.stopping.removeEventListener('abort', this.#end)
    this.#call.signal.removeEventListener('abort', this.#end)
    if (this.#controller.signal.aborted) return
    this.#controller.abort()
    void this.#tools?.close()
  }
}

interface AnswerParts extends Omit<LoopParts, 'emit'> {
  readonly approved: DeclaredTools['approved']
}

class ToolAnswer {
  readonly #loop: AnswerParts
  readonly #first: IncomingCall
  readonly #life: CallLife

  constructor(loop: AnswerParts, first: IncomingCall, life: CallLife) {
    this.#loop = loop
    this.#first = first
    this.#life = life
  }

  async stream(): Promise<Response> {
    const { parts, call, hold, tools, approved } = this.#loop
    // Nothing is encoded until the first round is answered: only then is the provider known. Calls that the client has
    // approved run before it, and are shown while they do.
    let write = (event: ContentEvent) => void early.push(event)
    const early: ContentEvent[] = []
    const loop = new ToolLoop({ ...this.#loop, emit: (event) => write(event) }, this.#first)
    for (const item of tools.items) write({ kind: 'gateway-item', choice: 0, item })
    const first = approved.length > 0 ? undefined : streamOf(await loop.play())
    const { candidate, warnings } = first ?? {
      candidate: hold.candidate,
      warnings: [...this.#loop.warnings, ...hold.warningsFor(hold.candidate)],
    }
    const context = contextOf(parts, call, candidate, warnings)
    const encoded = new AnswerSink(call.inbound.encoder(context), context.extra)
    const { sink, guard } = guardedAnswer(call, encoded)
    for (const event of early) sink.event(event)
    write = (event) => {
      sink.event(event)
      joined.wake()
    }
    const { signal } = this.#life
    const head = await parts.scheduler.runDivisible(() => sink.takeWritten())
    const onFailed = (round: DispatchFailed) => hold.unansweredError(round)
    const joined = new JoinedStream(
      { loop, sink, signal, failed: onFailed, approved, abort: () => this.#life.end() },
      first?.answer,
      head,
    )
    const headers = answerHeaders(call, candidate, warnings, hold.attempts)
    return streamResponse(parts, call, hold, guard(joined), headers)
  }

  async whole(): Promise<Response> {
    const { parts, call, hold, tools } = this.#loop
    const events: ContentEvent[] = tools.items.map((item) => ({ kind: 'gateway-item', choice: 0, item }))
    const loop = new ToolLoop({ ...this.#loop, emit: (event) => void events.push(event) }, this.#first)
    try {
      refuseUnaffordable(await loop.runApproved(this.#loop.approved))
      const { answer, candidate, outcome } = await playAll(loop)
      const shown = await guardedEvents(call, hold, events, outcome)
      const answered = wholeAnswer(parts, call, candidate, shown, { ...answer, outcome })
      const headers = answerHeaders(call, candidate, answer.warnings, hold.attempts)
      return await jsonResponse(parts, call, hold, answered, headers)
    } catch (error) {
      throw (await owe(call, hold, error)) ?? refusalOf(call, error)
    } finally {
      this.#life.end()
    }
  }
}

/**
 * A whole answer failed after some of its rounds. Those are charged if the client disconnected, its access was ended or
 * the request is at fault: neither a page that overflows the context nor a key that its owner revokes may buy free
 * searches. If a provider failed they cost nothing, like every answer that is not delivered. Returns the error that a
 * call which was charged has ended with.
 */
async function owe(call: IncomingCall, hold: Hold, thrown: unknown): Promise<GatewayError | undefined> {
  const failed = thrown instanceof DispatchFailed ? thrown : undefined
  if (failed?.abandoned !== undefined) {
    await hold.fail(failed)
    return failed.error
  }
  if (!hold.owes) return undefined
  const outcome = owedOutcome(call, failed)
  if (outcome === undefined) return undefined
  if (failed !== undefined) hold.recordAttempts(failed.attempts)
  await hold.settle(outcome, () => undefined)
  return outcome.error
}

function owedOutcome(call: IncomingCall, failed: DispatchFailed | undefined): Outcome | undefined {
  const { stopping } = call
  if (stopping.reason instanceof GatewayError)
    return unservedOutcome('stopped', undefined, stopError(stopping))
  if (call.signal.aborted) return unservedOutcome('client-gone', undefined, clientGone())
  const isOfRequest = failed !== undefined && faultsOfRequests.has(failed.error.status)
  return isOfRequest ? unservedOutcome('stopped', undefined, failed.error) : undefined
}

const faultsOfRequests: ReadonlySet<number> = new Set([400, 413, 422])

/** A round that is streamed. */
function streamOf({ answer, candidate }: Awaited<ReturnType<ToolLoop['play']>>) {
  if (answer.kind !== 'stream') throw new Error('a stream was asked for')
  return { answer, candidate, warnings: answer.warnings }
}

/** After approved calls have run there must be credit left for an answer. */
function refuseUnaffordable(stoppedBy: StoppedBy | undefined): void {
  if (stoppedBy === undefined) return
  const message = 'What is left after the approved tools have run does not pay for an answer.'
  throw new GatewayError('insufficient_credits', { message })
}

interface Played {
  readonly answer: WholeAnswer
  readonly candidate: Candidate
  readonly outcome: Outcome
}

/** Plays rounds until the answer is complete. */
async function playAll(loop: ToolLoop): Promise<Played> {
  for (;;) {
    const { answer, candidate } = await loop.play()
    if (answer.kind !== 'whole') throw new Error('a whole answer was asked for')
    loop.take(answer.result.events ?? answer.result.choices.flatMap((choice) => eventsOf(choice)))
    const { outcome } = answer
    const calls = await loop.endRound(() => outcome)
    const next = calls === 'final' ? ({ kind: 'final' } as const) : await loop.follow(calls)
    if (next.kind === 'final') return { answer, candidate, outcome }
    if (next.kind === 'stopped') return { answer, candidate, outcome: unservedOutcome('stopped', next.by) }
  }
}

function wholeAnswer(
  parts: ChatParts,
  call: IncomingCall,
  candidate: Candidate,
  events: readonly ChatEvent[],
  { outcome, warnings }: Pick<WholeAnswer, 'outcome' | 'warnings'>,
): Pick<WholeAnswer, 'outcome' | 'body'> {
  return {
    outcome,
    body: ({ usage, bill, stoppedBy }) => {
      const context = contextOf(parts, call, candidate, warnings)
      Object.assign(context.extra, stopNote(stoppedBy))
      const all: ChatEvent[] = [...events]
      if (stoppedBy !== undefined && outcome.ending === 'stopped')
        all.push({ kind: 'choice-finish', choice: 0, reason: 'length', native: stoppedBy })
      return call.inbound.whole({ ...collect(all), events: all }, usage, bill, context)
    },
  }
}
