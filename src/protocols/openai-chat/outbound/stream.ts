// Parses chat completions: streams, and whole bodies.

import type { ChatEvent, Fault } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import { fault } from '../../faults.ts'
import { isObject, nonEmpty, parseJson } from '../../json.ts'
import { mintedId } from '../../free-names.ts'
import type { StreamParser } from '../../protocol.ts'
import type { Frame } from '../../framing/sse.ts'
import { stateParser } from '../../state-parser.ts'
import type { OpenAIChatQuirks } from './quirks.ts'
import { type ChoiceState, emptyChoice, endChoice, takeChoice, takeWholeChoice } from './choice.ts'
import { faultInside, faultOfErrorEvent } from '../../openai/fault.ts'
import { searchItem, type Source, sourcesIn } from './sources.ts'
import { tierIn, usageIn } from '../../openai/upstream-usage.ts'

interface StreamState {
  readonly over: boolean
  readonly started: boolean
  /** Generated call ids are derived from this: the answer's id, or a random text. */
  readonly seed: string
  readonly choices: ReadonlyMap<number, ChoiceState>
  readonly sources: readonly Source[]
  /** The service tier that the answer has named last. */
  readonly tier: string | undefined
}

type Step = readonly [StreamState, readonly ChatEvent[]]

/**
 * The parser of a provider's streams. A stream ends at `[DONE]`, an error, or the end of the body; it is complete only
 * if every choice has a finish reason, and without `[DONE]` if as many have begun as were asked for.
 */
export function streamParser(quirks: OpenAIChatQuirks, choices: number): StreamParser {
  return stateParser(
    fresh(),
    (state, frame) => step(state, frame, quirks),
    (state) => (state.over ? [] : conclude(state, quirks, choices)),
    { opening: '"content":"', after: (state) => state },
  )
}

/** A whole body as events. Complete JSON has ended, so a missing finish reason is a plain stop. */
export function wholeEvents(body: unknown, quirks: OpenAIChatQuirks): readonly ChatEvent[] {
  const reported = faultInside(body)
  if (reported) return [errorEvent(reported)]
  if (!isObject(body) || !Array.isArray(body.choices) || body.choices.length === 0) {
    return [errorEvent(fault('broken', 'The answer of the provider has no choices.'))]
  }
  // OpenRouter reports what interrupted an answer beside its text so far.
  const broken = body.choices.find((choice) => isObject(choice) && isObject(choice.error))
  if (broken) return [...usageEvents(body, quirks), errorEvent(faultInside(broken)!)]
  let state: StreamState = { ...fresh(), sources: sourcesIn(body) ?? [] }
  const [opened, events] = start(state, body)
  state = opened
  const out = [...events, ...(quirks.numberedCitations ? searchOf(state.sources) : [])]
  const choices = new Map<number, ChoiceState>()
  for (const [position, entry] of body.choices.entries()) {
    if (!isObject(entry)) continue
    const choice = choiceIndex(entry, position)
    const [taken, made] = takeWholeChoice(entry, contextOf(state, choice, quirks))
    choices.set(choice, { ...taken, finish: taken.finish ?? 'stop' })
    out.push(...made)
  }
  out.push(...usageEvents(body, quirks))
  return [...out, ...conclude({ ...state, choices }, quirks, 1)]
}

function fresh(): StreamState {
  return {
    over: false,
    started: false,
    seed: crypto.randomUUID(),
    choices: new Map(),
    sources: [],
    tier: undefined,
  }
}

function step(state: StreamState, frame: Frame, quirks: OpenAIChatQuirks): Step {
  const data = frame.data.trim()
  if (state.over || data === '') return [state, []]
  if (data === '[DONE]') return [{ ...state, over: true }, conclude(state, quirks, 1)]
  const chunk = parseJson(data)
  if (frame.event === 'error') return failWith(state, faultOfErrorEvent(chunk ?? data), [])
  if (!isObject(chunk))
    return failWith(state, fault('broken', 'The provider sent a chunk that is not JSON.'), [])

  const reported = faultInside(chunk)
  // What the provider counted before its error is billed all the same.
  if (reported) return failWith(state, reported, usageEvents(chunk, quirks, state.tier))
  return take(state, chunk, quirks)
}

function take(before: StreamState, chunk: JsonObject, quirks: OpenAIChatQuirks): Step {
  const [started, startEvents] = start(before, chunk)
  const sources = quirks.numberedCitations ? sourcesIn(chunk) : undefined
  const events: ChatEvent[] = [...startEvents]
  if (sources !== undefined && before.sources.length === 0) events.push(...searchOf(sources))
  let { choices } = started
  // `choices` may be empty (usage, prompt filter) or missing.
  const entries = Array.isArray(chunk.choices) ? chunk.choices : []
  for (let position = 0; position < entries.length; position++) {
    const entry = entries[position]
    if (!isObject(entry)) continue
    const choice = choiceIndex(entry, position)
    const known = choices.get(choice)
    const [next, made] = takeChoice(known ?? emptyChoice, entry, contextOf(started, choice, quirks))
    if (next !== known) choices = new Map(choices).set(choice, next)
    events.push(...made)
  }
  const tier = tierIn(chunk) ?? before.tier
  const usage = usageIn(chunk, quirks, tier)
  if (usage !== undefined) events.push({ kind: 'usage', usage })
  if (choices === started.choices && sources === undefined && tier === before.tier) return [started, events]
  return [{ ...started, choices, sources: sources ?? started.sources, tier }, events]
}

/** The search that found these sources. Its query is not known. */
function searchOf(sources: readonly Source[] = []): readonly ChatEvent[] {
  return sources.length === 0 ? [] : [{ kind: 'gateway-item', choice: 0, item: searchItem(sources) }]
}

/** Azure opens with a chunk that has neither id nor choices: the message starts with the first chunk that has one. */
function start(state: StreamState, chunk: JsonObject): Step {
  if (state.started) return [state, []]
  const id = nonEmpty(chunk.id)
  const empty = !Array.isArray(chunk.choices) || chunk.choices.length === 0
  if (id === undefined && empty) return [state, []]
  return [
    { ...state, started: true, seed: id ?? state.seed },
    [{ kind: 'message-start', id, model: nonEmpty(chunk.model) }],
  ]
}

/** The end of an answer of at least so many choices: each one's last events, then the one terminal event. */
function conclude(state: StreamState, quirks: OpenAIChatQuirks, least: number): readonly ChatEvent[] {
  const choices = [...state.choices.entries()].toSorted(([a], [b]) => a - b)
  const finishes = choices.map(([, choice]) => choice.finish)
  if (choices.length === 0)
    return [errorEvent(fault('cut', 'The stream of the provider ended without an answer.'))]
  if (finishes.includes(undefined) || choices.length < least) {
    return [errorEvent(fault('cut', 'The stream of the provider broke off before its answer was finished.'))]
  }
  const events: ChatEvent[] = []
  for (const [index, choice] of choices) {
    const sources = quirks.numberedCitations ? state.sources : []
    for (const event of endChoice(choice, choice.finish!, sources, contextOf(state, index, quirks))) {
      events.push(event)
      if (event.kind === 'error') return events
    }
  }
  return [...events, { kind: 'finish' }]
}

function failWith(state: StreamState, fault: Fault, before: readonly ChatEvent[]): Step {
  return [{ ...state, over: true }, [...before, errorEvent(fault)]]
}

function errorEvent(fault: Fault): ChatEvent {
  return { kind: 'error', fault }
}

function usageEvents(chunk: JsonObject, quirks: OpenAIChatQuirks, tier?: string): readonly ChatEvent[] {
  const usage = usageIn(chunk, quirks, tier)
  return usage === undefined ? [] : [{ kind: 'usage', usage }]
}

function contextOf(state: StreamState, choice: number, quirks: OpenAIChatQuirks) {
  return { choice, quirks, mintId: (call: number) => mintedId(state.seed, choice, call) }
}

function choiceIndex(entry: JsonObject, position: number): number {
  return typeof entry.index === 'number' && entry.index >= 0 ? entry.index : position
}
