// An answer whose events the guards look at before they are encoded.

import { type ChatEvent, collect, eventsOf } from '../../conversation/event.ts'
import type { ContentEvent } from '../../conversation/progress.ts'
import type { Usage } from '../../conversation/usage.ts'
import { asGatewayError, type RenderedError } from '../../errors/errors.ts'
import { AnswerGuard } from '../../guards/answer.ts'
import type { DoneOrSteps } from '../../json/json.ts'
import type { Bill } from '../../protocols/protocol.ts'
import type { Hold } from '../billing/hold.ts'
import { type IncomingCall, type Outcome, stopNote, type StoppedBy } from '../call.ts'
import type { WholeAnswer } from '../upstream/fetch.ts'
import { contextOf, type UpstreamParts } from '../upstream/upstream-request.ts'
import type { Candidate } from '../routing/candidates.ts'
import { AnswerRefused, type OpenStream, type Read } from './relay.ts'
import type { AnswerSink } from './translate.ts'

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
