// A response as events: the stream parser, a pure state machine over typed events, and the same for a whole body.

import type { ChatEvent, Fault } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import { fault } from '../faults.ts'
import { FrameTemplate } from '../frame-template.ts'
import { isObject, nonEmpty, parseJson } from '../json.ts'
import {
  callsAreWhole,
  type CallsState,
  completeCalls,
  hasNamelessCall,
  noCalls,
} from '../openai-chat/upstream-calls.ts'
import { faultInside } from '../openai-chat/upstream-fault.ts'
import { finishReasonOf } from '../openai-chat/upstream-finish.ts'
import type { StreamParser } from '../protocol.ts'
import type { Frame } from '../sse.ts'
import type { ResponsesQuirks } from './quirks.ts'
import { faultOfError } from './upstream-fault.ts'
import { choice, emptyOutput, type OutputState, OutputStep } from './upstream-items.ts'
import { templateAfter, withText } from './upstream-text.ts'
import { usageOf } from './upstream-usage.ts'

export interface StreamState {
  readonly over: boolean
  readonly started: boolean
  readonly output: OutputState
  /** What the last event was but for its text, where it was a delta of that. */
  readonly like: FrameTemplate
}

type Step = readonly [StreamState, readonly ChatEvent[]]

/**
 * The parser of one provider's streams. What an event is, its data says: `event:` may be missing, or come after.
 * A stream is over at `response.completed`, `.incomplete` or `.failed`, at an error, or at the end of the body.
 */
export function streamParser(quirks: ResponsesQuirks): StreamParser<StreamState> {
  return {
    initial: fresh,
    step: (state, frame) => step(state, frame, quirks),
    end: (state) => (state.over ? [] : [cut()]),
  }
}

/** A whole response as events. */
export function wholeEvents(body: unknown, quirks: ResponsesQuirks): readonly ChatEvent[] {
  const failure = wholeFailure(body)
  if (failure) return [...usageEvents(isObject(body) ? body : {}, 0, quirks), errorEvent(failure)]
  const response = body as JsonObject
  const [state, events] = start(fresh(), response)
  return [...events, ...conclude(state, response, quirks)]
}

/** Why a body is not an answer; undefined when it is one. */
function wholeFailure(body: unknown): Fault | undefined {
  if (!isObject(body)) return fault('broken', 'The answer of the provider is not a response.')
  if (isObject(body.error) && body.object === 'response') return faultOfError(body.error)
  if (faultInside(body)) return faultOfError(body)
  if (!Array.isArray(body.output)) return fault('broken', 'The answer of the provider has no output.')
  return undefined
}

function fresh(): StreamState {
  return { over: false, started: false, output: emptyOutput(crypto.randomUUID()), like: FrameTemplate.none }
}

// ---- events -----------------------------------------------------------------------------------------------

/** What each event that brings output does. Events of other types are passed over: there are new ones every season. */
const deltas: Readonly<Record<string, (output: OutputStep, event: JsonObject) => void>> = {
  'response.output_item.added': (output, event) => output.itemAdded(event),
  'response.output_item.done': (output, event) => output.itemDone(event),
  'response.output_text.delta': (output, event) => output.textDelta(event),
  'response.output_text.done': (output, event) => output.textDone(event),
  'response.output_text.annotation.added': (output, event) => output.annotationAdded(event),
  'response.refusal.delta': (output, event) => output.refusalDelta(event),
  'response.refusal.done': (output, event) => output.refusalDone(event),
  'response.content_part.done': (output, event) => output.partDone(event),
  'response.reasoning_summary_text.delta': (output, event) => output.summary(event),
  'response.reasoning_summary_text.done': (output, event) => output.summary(event),
  'response.reasoning_summary_part.done': (output, event) => output.summary(event),
  'response.reasoning_text.delta': (output, event) => output.reasoningText(event),
  'response.reasoning_text.done': (output, event) => output.reasoningText(event),
  'response.function_call_arguments.delta': (output, event) => output.argumentsDelta(event),
  'response.function_call_arguments.done': (output, event) => output.argumentsDone(event),
}

function step(state: StreamState, frame: Frame, quirks: ResponsesQuirks): Step {
  const data = frame.data.trim()
  if (state.over || data === '') return [state, []]
  const alike = frame.event === 'error' ? undefined : state.like.read(data)
  if (alike !== undefined) {
    const output = withText(state.output, alike.text)
    return [
      { ...state, output, like: state.like.served() },
      [{ kind: 'text-delta', choice, text: alike.text }],
    ]
  }
  // OpenRouter closes with it, after the terminal event; in its place it is no end.
  if (data === '[DONE]') return over(state, [cut()])
  const event = parseJson(data)
  if (!isObject(event)) {
    const failure =
      frame.event === 'error'
        ? faultOfError(data)
        : fault('broken', 'The provider sent an event that is not JSON.')
    return over(state, [errorEvent(failure)])
  }
  const type = typeof event.type === 'string' ? event.type : frame.event
  if (type === 'error' || frame.event === 'error' || (type === undefined && faultInside(event))) {
    return over(state, [errorEvent(faultOfError(event))])
  }
  if (type === undefined) return [state, []]
  const [next, events] = take(state, type, event, quirks)
  // What changes nothing, like a type nobody here knows, does not come between two deltas.
  return next === state
    ? [state, events]
    : [{ ...next, like: templateAfter(state.like, data, event) }, events]
}

function take(state: StreamState, type: string, event: JsonObject, quirks: ResponsesQuirks): Step {
  switch (type) {
    case 'response.created':
    case 'response.queued':
    case 'response.in_progress':
      return start(state, isObject(event.response) ? event.response : {})
    case 'response.completed':
    case 'response.incomplete':
    case 'response.failed':
    case 'response.cancelled': {
      const response: JsonObject = isObject(event.response) ? event.response : {}
      // Its last word names the status even where the response beside it does not, or still the one before.
      const stands = response.status === 'in_progress' || response.status === 'queued'
      const status = stands ? undefined : response.status
      const told: JsonObject = { ...response, status: status ?? type.slice('response.'.length) }
      const [started, events] = start(state, response)
      return over(started, [...events, ...conclude(started, told, quirks)])
    }
    default: {
      const delta = deltas[type]
      if (!delta) return [state, []]
      const output = new OutputStep(state.output, quirks)
      delta(output, event)
      return [{ ...state, output: output.state }, output.events]
    }
  }
}

function start(state: StreamState, response: JsonObject): Step {
  if (state.started) return [state, []]
  const id = nonEmpty(response.id)
  const output = { ...state.output, seed: id ?? state.output.seed }
  const events: ChatEvent[] = [{ kind: 'message-start', id, model: nonEmpty(response.model) }]
  return [{ ...state, started: true, output }, events]
}

function over(state: StreamState, events: readonly ChatEvent[]): Step {
  return [{ ...state, over: true }, events]
}

// ---- the end ----------------------------------------------------------------------------------------------

/** What a finished response still owes, then the one terminal event. */
function conclude(state: StreamState, response: JsonObject, quirks: ResponsesQuirks): readonly ChatEvent[] {
  const output = new OutputStep(state.output, quirks)
  output.output(response.output)
  const usage = usageEvents(response, output.state.searches, quirks)
  const failure = failureOf(response)
  // What the provider counted up to its failure is owed all the same.
  if (failure) return [...output.events, ...usage, errorEvent(failure)]
  const calls: CallsState = { ...noCalls, calls: [...output.state.calls.byPosition.values()] }
  if (hasNamelessCall(calls)) {
    return [
      ...output.events,
      ...usage,
      errorEvent(fault('broken', 'The provider sent a tool call without a name.')),
    ]
  }
  const { told, native } = endingOf(response)
  const made = calls.calls.length === 0 ? 'none' : callsAreWhole(calls) ? 'whole' : 'partial'
  return [
    ...output.events,
    ...completeCalls(calls, choice),
    { kind: 'choice-finish', choice, reason: finishReasonOf(told, made), native },
    ...usage,
    { kind: 'finish' },
  ]
}

function failureOf(response: JsonObject): Fault | undefined {
  switch (response.status) {
    case 'failed':
      return faultOfError(isObject(response.error) ? response.error : response)
    case 'cancelled':
    case 'queued':
    case 'in_progress':
      return fault('broken', `The provider gave back a response that is ${response.status}.`)
    default:
      return isObject(response.error) ? faultOfError(response.error) : undefined
  }
}

/** Why a response ended, in the words of the sibling protocol, and in the provider's own. */
function endingOf(response: JsonObject): { readonly told: string; readonly native: string } {
  const details = isObject(response.incomplete_details) ? response.incomplete_details : undefined
  const reason = nonEmpty(details?.reason)
  if (response.status !== 'incomplete' && reason === undefined) {
    return { told: 'stop', native: nonEmpty(response.status) ?? 'completed' }
  }
  // An answer that is not whole for a reason nobody here knows must not look finished.
  return { told: reason === 'content_filter' ? reason : 'length', native: reason ?? 'incomplete' }
}

function usageEvents(response: JsonObject, searches: number, quirks: ResponsesQuirks): readonly ChatEvent[] {
  const usage = usageOf(response, searches, quirks)
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

function cut(): ChatEvent {
  return errorEvent(fault('cut', 'The stream of the provider broke off before its response was finished.'))
}

function errorEvent(fault: Fault): ChatEvent {
  return { kind: 'error', fault }
}
