// A response as events: the stream parser, over typed events, and the same for a whole body.

import type { ChatEvent, Fault } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { fault } from '../../faults.ts'
import { entryOf, isObject, nonEmpty, parseJson } from '../../json.ts'
import {
  callsAreWhole,
  type CallsState,
  completeCalls,
  hasNamelessCall,
  noCalls,
} from '../../openai/calls.ts'
import { faultInside } from '../../openai/fault.ts'
import { finishReasonOf } from '../../openai/finish.ts'
import type { StreamParser } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import type { ResponsesQuirks } from './quirks.ts'
import { faultOfError } from './fault.ts'
import { choice, Output } from './items.ts'
import { usageOf } from './usage.ts'

/**
 * The parser of one provider's streams. The type of an event comes from its data: `event:` may be missing or late.
 * A stream ends at `response.completed`, `.incomplete` or `.failed`, at an error, or at the end of the body.
 */
export function streamParser(quirks: ResponsesQuirks): StreamParser {
  return new ResponseParser(quirks)
}

export function wholeEvents(body: unknown, quirks: ResponsesQuirks): readonly ChatEvent[] {
  const failure = wholeFailure(body)
  if (failure) return [...usageEvents(isObject(body) ? body : {}, 0, quirks), errorEvent(failure)]
  return new ResponseParser(quirks).whole(body as JsonObject)
}

/** Why a body is not an answer; undefined when it is one. */
function wholeFailure(body: unknown): Fault | undefined {
  if (!isObject(body)) return fault('broken', 'The answer of the provider is not a response.')
  if (isObject(body.error) && body.object === 'response') return faultOfError(body.error)
  if (faultInside(body)) return faultOfError(body)
  if (!Array.isArray(body.output)) return fault('broken', 'The answer of the provider has no output.')
  return undefined
}

// ---- events -----------------------------------------------------------------------------------------------

/** How each event with output is read. Unknown events are ignored: new ones are added often. */
const deltas: Readonly<Record<string, (output: Output, event: JsonObject) => void>> = {
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

class ResponseParser implements StreamParser {
  readonly #quirks: ResponsesQuirks
  readonly #output: Output
  #over = false
  #started = false

  constructor(quirks: ResponsesQuirks) {
    this.#quirks = quirks
    this.#output = new Output(quirks)
  }

  push(frame: Frame): readonly ChatEvent[] {
    const data = frame.data.trim()
    if (this.#over || data === '') return []
    // OpenRouter sends it after the terminal event; without a terminal event the stream is incomplete.
    if (data === '[DONE]') return this.#ending([cut()])
    const event = parseJson(data)
    if (!isObject(event)) {
      const failure =
        frame.event === 'error'
          ? faultOfError(data)
          : fault('broken', 'The provider sent an event that is not JSON.')
      return this.#ending([errorEvent(failure)])
    }
    const type = typeof event.type === 'string' ? event.type : frame.event
    if (type === 'error' || frame.event === 'error' || (type === undefined && faultInside(event))) {
      return this.#ending([errorEvent(faultOfError(event))])
    }
    return type === undefined ? [] : this.#take(type, event)
  }

  end(): readonly ChatEvent[] {
    return this.#over ? [] : [cut()]
  }

  whole(response: JsonObject): readonly ChatEvent[] {
    return [...this.#start(response), ...this.#conclude(response)]
  }

  #take(type: string, event: JsonObject): readonly ChatEvent[] {
    switch (type) {
      case 'response.created':
      case 'response.queued':
      case 'response.in_progress':
        return this.#start(isObject(event.response) ? event.response : {})
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
      case 'response.cancelled': {
        const response: JsonObject = isObject(event.response) ? event.response : {}
        // The status in the response may be missing or still the previous one; then the event's type decides.
        const stands = response.status === 'in_progress' || response.status === 'queued'
        const status = stands ? undefined : response.status
        return this.#ending(this.whole({ ...response, status: status ?? type.slice('response.'.length) }))
      }
      default:
        entryOf(deltas, type)?.(this.#output, event)
        return this.#output.events()
    }
  }

  #start(response: JsonObject): readonly ChatEvent[] {
    if (this.#started) return []
    this.#started = true
    const id = nonEmpty(response.id)
    this.#output.begin(id)
    return [{ kind: 'message-start', id, model: nonEmpty(response.model) }]
  }

  #ending(events: readonly ChatEvent[]): readonly ChatEvent[] {
    this.#over = true
    return events
  }

  /** What has not been sent of a finished response, then the one terminal event. */
  #conclude(response: JsonObject): readonly ChatEvent[] {
    const output = this.#output
    output.output(response.output)
    const events = output.events()
    const usage = usageEvents(response, output.searches, this.#quirks)
    const failure = failureOf(response)
    // The provider charges for what it counted before it failed.
    if (failure) return [...events, ...usage, errorEvent(failure)]
    const calls: CallsState = { ...noCalls, calls: output.calls }
    if (hasNamelessCall(calls)) {
      const nameless = fault('broken', 'The provider sent a tool call without a name.')
      return [...events, ...usage, errorEvent(nameless)]
    }
    const { reason, native } = endingOf(response)
    const made = calls.calls.length === 0 ? 'none' : callsAreWhole(calls) ? 'whole' : 'partial'
    return [
      ...events,
      ...completeCalls(calls, choice),
      { kind: 'choice-finish', choice, reason: finishReasonOf(reason, made), native },
      ...usage,
      { kind: 'finish' },
    ]
  }
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

/** Why a response ended, as a finish reason of chat completions and in the provider's own word. */
function endingOf(response: JsonObject): { readonly reason: string; readonly native: string } {
  const details = isObject(response.incomplete_details) ? response.incomplete_details : undefined
  const reason = nonEmpty(details?.reason)
  if (response.status !== 'incomplete' && reason === undefined) {
    return { reason: 'stop', native: nonEmpty(response.status) ?? 'completed' }
  }
  // An answer that is incomplete for an unknown reason must not look complete.
  return { reason: reason === 'content_filter' ? reason : 'length', native: reason ?? 'incomplete' }
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
