// Parses one choice of an answer: its deltas or its whole message, and its state between them.

import type { Annotation, AudioDelta, ChatEvent } from '../../../conversation/event.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { fault } from '../../faults.ts'
import { isObject } from '../../json.ts'
import type { OpenAIChatQuirks } from './quirks.ts'
import {
  type CallsState,
  callsAreWhole,
  completeCalls,
  hasNamelessCall,
  noCalls,
  takeCall,
} from '../../openai/calls.ts'
import { failureOf, finishReasonOf, isReason } from '../../openai/finish.ts'
import { plainReasoningDetail, type ReasoningKeys, reasoningOf, reasoningPartText } from './reasoning.ts'
import { citationsOf, type Source } from './sources.ts'
import { beforeThinking, endThinking, splitThinking, type ThinkState } from './think.ts'

/** The state of a choice between two chunks. */
export interface ChoiceState {
  /** The text so far, kept only if citations are located in it. */
  readonly text: string
  readonly thinking: ThinkState
  readonly reasoningKeys: ReasoningKeys
  readonly calls: CallsState
  /** The provider's finish reason. Sent at the end: some providers still send content, or the reason again. */
  readonly finish: string | undefined
}

export const emptyChoice: ChoiceState = {
  text: '',
  thinking: beforeThinking,
  reasoningKeys: [],
  calls: noCalls,
  finish: undefined,
}

export interface ChoiceContext {
  readonly choice: number
  readonly quirks: OpenAIChatQuirks
  readonly mintId: (call: number) => string
}

/** Reads an entry of `choices`: a streamed one has `delta`, a whole one `message`. */
export function takeChoice(
  before: ChoiceState,
  entry: JsonObject,
  context: ChoiceContext,
): readonly [ChoiceState, readonly ChatEvent[]] {
  const taking = new Taking(before, context)
  // Perplexity sends the whole message so far beside each delta; a message only counts if there was no delta.
  const message = before === emptyChoice && isObject(entry.message) ? entry.message : {}
  const delta = isObject(entry.delta) ? entry.delta : message
  taking.reasoning(delta)
  taking.content(delta.content)
  taking.refusal(delta.refusal)
  taking.audio(delta.audio)
  taking.images(delta.images)
  taking.annotations(delta.annotations)
  taking.calls(delta)
  taking.logprobs(entry.logprobs)
  if (isReason(entry.finish_reason)) taking.finish(entry.finish_reason)
  return [taking.state, taking.events]
}

/** The same for a whole message: only `message` counts, even if there is a `delta`. */
export function takeWholeChoice(
  entry: JsonObject,
  context: ChoiceContext,
): readonly [ChoiceState, readonly ChatEvent[]] {
  const message = isObject(entry.message) ? numberCalls(entry.message) : null
  const [state, events] = takeChoice(emptyChoice, { ...entry, delta: null, message }, context)
  // An empty text is an answer; only null means that there is none.
  const said = message?.content === '' && state.calls.calls.length === 0
  return said
    ? [state, [{ kind: 'text-delta', choice: context.choice, text: '' }, ...events]]
    : [state, events]
}

/** In a whole message each entry is a call of its own, whatever its id and `index`, which belongs to deltas. */
function numberCalls(message: JsonObject): JsonObject {
  const { tool_calls: calls } = message
  if (!Array.isArray(calls)) return message
  return {
    ...message,
    tool_calls: calls.map((call, index) => (isObject(call) ? { ...call, index } : call)),
  }
}

/**
 * The last events of a choice: held-back text, citations, empty arguments, the reason. An `error` event instead if the
 * reason is a failure or a call has no name.
 */
export function endChoice(
  state: ChoiceState,
  finish: string,
  sources: readonly Source[],
  context: ChoiceContext,
): readonly ChatEvent[] {
  const { choice } = context
  const failure = failureOf(finish)
  if (failure) return [{ kind: 'error', fault: fault(failure, `The provider stopped: ${finish}.`) }]
  if (hasNamelessCall(state.calls)) {
    return [{ kind: 'error', fault: fault('broken', 'The provider sent a tool call without a name.') }]
  }
  const taking = new Taking(state, context)
  taking.heldThinking()
  const made = state.calls.calls.length
  const whole = callsAreWhole(state.calls)
  const reason = finishReasonOf(finish, made === 0 ? 'none' : whole ? 'whole' : 'partial')
  return [
    ...taking.events,
    ...citationsOf(taking.state.text, sources).map((annotation) => annotationEvent(choice, annotation)),
    ...completeCalls(state.calls, choice),
    { kind: 'choice-finish', choice, reason, native: finish },
  ]
}

/** Collects the events of one step over a choice, and its next state. */
class Taking {
  state: ChoiceState
  readonly events: ChatEvent[] = []
  readonly #context: ChoiceContext
  readonly #choice: number

  constructor(before: ChoiceState, context: ChoiceContext) {
    this.state = before
    this.#context = context
    this.#choice = context.choice
  }

  reasoning(delta: JsonObject): void {
    this.#details(reasoningOf(delta, this.state.reasoningKeys))
  }

  content(content: Json | undefined): void {
    if (typeof content === 'string') return this.#text(content)
    if (!Array.isArray(content)) return
    for (const part of content) {
      if (typeof part === 'string') this.#text(part)
      else if (isObject(part)) this.#part(part)
    }
  }

  refusal(refusal: Json | undefined): void {
    if (typeof refusal === 'string' && refusal !== '') {
      this.events.push({ kind: 'refusal-delta', choice: this.#choice, text: refusal })
    }
  }

  audio(audio: Json | undefined): void {
    if (!isObject(audio)) return
    const delta: AudioDelta = {
      ...(typeof audio.id === 'string' ? { id: audio.id } : {}),
      ...(typeof audio.data === 'string' ? { data: audio.data } : {}),
      ...(typeof audio.transcript === 'string' ? { transcript: audio.transcript } : {}),
      ...(typeof audio.expires_at === 'number' ? { expiresAt: audio.expires_at } : {}),
    }
    if (Object.keys(delta).length > 0)
      this.events.push({ kind: 'audio-delta', choice: this.#choice, audio: delta })
  }

  images(images: Json | undefined): void {
    for (const image of Array.isArray(images) ? images : []) if (isObject(image)) this.#image(image)
  }

  annotations(annotations: Json | undefined): void {
    for (const raw of Array.isArray(annotations) ? annotations : []) {
      const annotation = isObject(raw) ? urlCitation(raw) : undefined
      if (annotation) this.events.push(annotationEvent(this.#choice, annotation))
    }
  }

  calls(delta: JsonObject): void {
    const entries = Array.isArray(delta.tool_calls) ? delta.tool_calls.filter(isObject) : []
    // The legacy single call; its own index keeps its deltas together.
    if (isObject(delta.function_call)) entries.push({ index: -1, function: delta.function_call })
    // Google's compatible endpoint may sign the message instead of the call: the first call gets the signature.
    if (entries[0] && isObject(delta.extra_content) && entries[0].extra_content === undefined) {
      entries[0] = { ...entries[0], extra_content: delta.extra_content }
    }
    for (const entry of entries) {
      const [calls, events] = takeCall(this.state.calls, entry, this.#context)
      this.state = { ...this.state, calls }
      this.events.push(...events)
    }
  }

  logprobs(logprobs: Json | undefined): void {
    if (!isObject(logprobs)) return
    const content = Array.isArray(logprobs.content) ? logprobs.content : []
    const refusal = Array.isArray(logprobs.refusal) ? logprobs.refusal : []
    if (content.length + refusal.length === 0) return
    this.events.push({ kind: 'logprobs', choice: this.#choice, content, refusal })
  }

  finish(reason: string): void {
    this.state = { ...this.state, finish: reason }
  }

  heldThinking(): void {
    if (!this.#context.quirks.thinkTags) return
    const { reasoning, text } = endThinking(this.state.thinking)
    this.#plainReasoning(reasoning)
    this.#visible(text)
  }

  #part(part: JsonObject): void {
    if (part.type === 'thinking' || part.type === 'reasoning')
      return this.#plainReasoning(reasoningPartText(part))
    if (part.type === 'image_url') return this.#image(part)
    if (typeof part.text === 'string') this.#text(part.text)
  }

  #text(text: string): void {
    if (!this.#context.quirks.thinkTags) return this.#visible(text)
    const [thinking, split] = splitThinking(this.state.thinking, text)
    if (thinking !== this.state.thinking) this.state = { ...this.state, thinking }
    this.#plainReasoning(split.reasoning)
    this.#visible(split.text)
  }

  #visible(text: string): void {
    if (text === '') return
    if (this.#context.quirks.numberedCitations) this.state = { ...this.state, text: this.state.text + text }
    this.events.push({ kind: 'text-delta', choice: this.#choice, text })
  }

  #plainReasoning(text: string): void {
    if (text !== '') this.#details(plainReasoningDetail(text, this.state.reasoningKeys))
  }

  #details([reasoningKeys, details]: readonly [ReasoningKeys, readonly ReasoningDetail[]]): void {
    if (details.length === 0) return
    if (reasoningKeys !== this.state.reasoningKeys) this.state = { ...this.state, reasoningKeys }
    for (const detail of details) this.events.push({ kind: 'reasoning-delta', choice: this.#choice, detail })
  }

  /** Images are data URLs; any other address is sent as text rather than lost. */
  #image(part: JsonObject): void {
    const url = isObject(part.image_url) ? part.image_url.url : part.image_url
    if (typeof url !== 'string') return
    const data = /^data:([^;,]+);base64,(.*)$/s.exec(url)
    if (!data) return this.#visible(`![](${url})`)
    this.events.push({ kind: 'image', choice: this.#choice, mediaType: data[1]!, data: data[2]! })
  }
}

function urlCitation(raw: JsonObject): Annotation | undefined {
  const cited = isObject(raw.url_citation) ? raw.url_citation : undefined
  if (raw.type !== 'url_citation' || typeof cited?.url !== 'string') return undefined
  return {
    kind: 'url-citation',
    url: cited.url,
    title: typeof cited.title === 'string' ? cited.title : '',
    start: typeof cited.start_index === 'number' ? cited.start_index : 0,
    end: typeof cited.end_index === 'number' ? cited.end_index : 0,
  }
}

function annotationEvent(choice: number, annotation: Annotation): ChatEvent {
  return { kind: 'annotation', choice, annotation }
}
