// Parses Ollama's answers: a state machine over lines; a whole answer is a stream of one line.

import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import type { Json } from '../../conversation/request.ts'
import { counter, disjoint } from '../../conversation/usage.ts'
import { fault } from '../faults.ts'
import { entryOf, isObject, parseAnswer } from '../json.ts'
import type { StreamParser } from '../protocol.ts'
import { stateParser } from '../state-parser.ts'
import { faultIn } from './fault.ts'
import { readLine, type WireCall, type WireLine } from './schema.ts'

interface OllamaState {
  readonly ended: boolean
  readonly started: boolean
  /** Calls without an id get one derived from this; different for every answer. */
  readonly answer: string
  /** The ids of the calls so far, in order. Mutated while the stream runs. */
  readonly calls: Set<string>
}

type Step = readonly [OllamaState, readonly ChatEvent[]]

/** Parses the stream of one answer. A stream without its `done` line ends in an error of kind `cut`. */
export function streamParser(): StreamParser {
  return stateParser(
    initial(),
    (state, frame) => (state.ended ? [state, []] : stepValue(state, parseAnswer(frame.data))),
    (state) =>
      state.ended ? [] : [{ kind: 'error', fault: fault('cut', 'the stream ended before its last line') }],
  )
}

export function parseWhole(body: unknown): readonly ChatEvent[] {
  const [state, events] = stepValue(initial(), body)
  if (state.ended) return events
  return [...events, { kind: 'error', fault: fault('broken', 'the answer is not done') }]
}

function initial(): OllamaState {
  const answer = crypto.randomUUID().replaceAll('-', '').slice(0, 16)
  return { ended: false, started: false, answer, calls: new Set() }
}

function stepValue(state: OllamaState, value: unknown): Step {
  const failure = faultIn(value)
  if (failure !== undefined) return [{ ...state, ended: true }, [{ kind: 'error', fault: failure }]]
  const line = readLine(value)
  if (line === undefined || (!line.message && line.done !== true)) {
    const error = fault('broken', 'a line of the answer is not one of this protocol')
    return [{ ...state, ended: true }, [{ kind: 'error', fault: error }]]
  }
  return stepLine(state, line)
}

function stepLine(before: OllamaState, line: WireLine): Step {
  const { message } = line
  const events: ChatEvent[] = before.started
    ? []
    : [{ kind: 'message-start', id: undefined, model: line.model ?? undefined }]
  if (message?.thinking) {
    const detail = { type: 'reasoning.text', format: null, index: 0, text: message.thinking } as const
    events.push({ kind: 'reasoning-delta', choice: 0, detail })
  }
  if (message?.content) events.push({ kind: 'text-delta', choice: 0, text: message.content })
  if (line.logprobs && line.logprobs.length > 0) {
    events.push({ kind: 'logprobs', choice: 0, content: line.logprobs.map(logprobOf), refusal: [] })
  }
  for (const call of message?.tool_calls ?? []) {
    const id = idOf(call, before)
    events.push(...callEvents(call, before.calls.size, id))
    before.calls.add(id)
  }
  const state = before.started ? before : { ...before, started: true }
  return line.done === true ? finish(state, line, events) : [state, events]
}

/** Calls are not split, and their arguments are an object; older versions give them no id. */
function callEvents(call: WireCall, number: number, id: string): ChatEvent[] {
  const given = call.function.arguments
  const json = isObject(given)
    ? JSON.stringify(given)
    : typeof given === 'string' && given !== ''
      ? given
      : '{}'
  return [
    {
      kind: 'tool-call-start',
      choice: 0,
      call: number,
      id,
      name: call.function.name,
      thoughtSignature: undefined,
    },
    { kind: 'tool-call-delta', choice: 0, call: number, arguments: json },
  ]
}

function idOf(call: WireCall, { answer, calls }: OllamaState): string {
  return call.id && !calls.has(call.id) ? call.id : `call_${answer}_${calls.size}`
}

function logprobOf(entry: Readonly<Record<string, unknown>>): Json {
  const { token, logprob, bytes, top_logprobs } = entry as { [key: string]: Json }
  return {
    token: token ?? '',
    logprob: logprob ?? 0,
    bytes: bytes ?? null,
    top_logprobs: top_logprobs ?? [],
  }
}

const reasons: Readonly<Record<string, FinishReason>> = { stop: 'stop', length: 'length' }

function finish(state: OllamaState, line: WireLine, events: readonly ChatEvent[]): Step {
  const native = line.done_reason ?? 'stop'
  // Ollama also says `stop` after calls. They are not split, so they are complete even at the token limit.
  const reason = state.calls.size > 0 ? 'tool_calls' : (entryOf(reasons, native) ?? 'stop')
  const counted = line.eval_count != null || line.prompt_eval_count != null
  const usage = disjoint({ prompt: counter(line.prompt_eval_count), completion: counter(line.eval_count) })
  return [
    { ...state, ended: true },
    [
      ...events,
      ...(counted ? [{ kind: 'usage', usage } as const] : []),
      { kind: 'choice-finish', choice: 0, reason, native },
      { kind: 'finish' },
    ],
  ]
}
