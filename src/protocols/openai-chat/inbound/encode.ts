// Writes one streamed answer as chat.completion.chunk frames.

import {
  type ChatEvent,
  type ChatResult,
  type Choice,
  type FinishReason,
  nativeReason,
} from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../../errors/errors.ts'
import { doneFrame, type Frame } from '../../framing/sse.ts'
import { TextEvent } from '../../framing/text-template.ts'
import { callItem, InputStream } from '../../openai/client-tools.ts'
import {
  callsState,
  messageRuns,
  readableReasoning,
  wireAnnotation,
  wireAudio,
  wireDetail,
  wireImage,
  wireLogprobs,
  wireSignature,
  wireWarnings,
} from '../../openai/messages.ts'
import { finishReasonOf, wireUsage } from '../../openai/usage.ts'
import type { AnswerContext, Bill, StreamEncoder, Texts } from '../../protocol.ts'

/** The last frames of a complete stream: the usage, if requested, and `[DONE]`. */
export function closingFrames(
  context: AnswerContext,
  usage: Usage,
  bill: Bill,
  more: JsonObject = {},
  counters?: JsonObject,
): Frame[] {
  if (!context.includeUsage) return [doneFrame]
  const chunk = {
    ...chunkHead(context),
    choices: [],
    usage: wireUsage(usage, bill, counters),
    ...more,
    ...context.extra,
  }
  return [{ event: undefined, data: JSON.stringify(chunk) }, doneFrame]
}

/**
 * The frames that end a stream that failed after its first byte: each choice ends with the reason `error`, then the
 * error stands alone. Client libraries throw on it; in a chunk with choices the AI SDK's schema takes it for one more
 * chunk, and the stream looks finished.
 */
export function failingFrames(
  context: AnswerContext,
  error: RenderedError,
  choices: readonly number[],
): Frame[] {
  const chunk = {
    ...chunkHead(context),
    choices: choices.map((index) => ({ index, delta: {}, logprobs: null, finish_reason: 'error' })),
    ...(context.includeUsage ? { usage: null } : {}),
  }
  const alone = { error: error.error }
  return [
    { event: undefined, data: JSON.stringify(chunk) },
    { event: undefined, data: JSON.stringify(alone) },
    doneFrame,
  ]
}

/** The beginning of every chunk of an answer; it never changes between chunks. */
export function chunkHead(context: AnswerContext): JsonObject {
  return {
    id: context.id,
    object: 'chat.completion.chunk',
    created: context.created,
    model: context.model,
  }
}

interface OpenChoice {
  finish: FinishReason | undefined
  native: string | undefined
  readonly beforeText: string
  /** The event of a text; built when there are several. */
  textEvent: TextEvent | undefined
  /** The arguments of each tool call sent so far. */
  readonly calls: Map<number, string>
  /** What custom tools are given so far. */
  readonly inputs: Map<number, InputStream>
}

/** Encodes one answer. Finish chunks wait for `finish`: the stream is then complete and the charge durable. */
export class ChunkEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  /** The JSON before a choice's index and after its finish reason. */
  readonly #before: string
  readonly #after: string
  readonly #afterText: string
  readonly #choices = new Map<number, OpenChoice>()

  constructor(context: AnswerContext) {
    this.#context = context
    this.#before = `${JSON.stringify(chunkHead(context)).slice(0, -1)},"choices":[{"index":`
    this.#after = context.includeUsage ? '}],"usage":null' : '}]'
    this.#afterText = ['},"logprobs":null,"finish_reason":null', this.#after, '}'].join('')
  }

  start(): readonly Frame[] {
    this.#openChoice(0)
    return [this.#chunk(0, '{"role":"assistant","content":""}', 'null', null, this.#firstChunkFields())]
  }

  event(event: ChatEvent): readonly Frame[] {
    switch (event.kind) {
      case 'message-start':
      case 'usage':
      case 'finish':
      case 'error':
        return []
      default:
        return this.#choiceEvent(event)
    }
  }

  texts({ choice, texts }: Texts): string | undefined {
    const known = this.#choices.get(choice)
    if (known === undefined) return undefined
    known.textEvent ??= new TextEvent(`data: ${known.beforeText}"`, `"${this.#afterText}\n\n`)
    return known.textEvent.write(texts)
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const frames: Frame[] = []
    for (const [index, choice] of [...this.#choices].toSorted(([a], [b]) => a - b)) {
      for (const [call, stream] of choice.inputs) {
        const rest = stream.end()
        if (rest !== '') frames.push(this.#delta(index, inputDelta(call, rest)))
      }
      for (const [call, json] of choice.calls) {
        if (json === '' && !choice.inputs.has(call))
          frames.push(this.#delta(index, argumentsDelta(call, '{}')))
      }
      // `finish` gives each choice a reason; one without text or calls has merely stopped.
      const reason = finishReasonOf(choice.finish ?? 'stop', callsState([...choice.calls.values()]))
      frames.push(
        this.#chunk(
          index,
          '{}',
          'null',
          reason,
          '',
          reason === 'other' ? nativeReason(reason, choice.native) : undefined,
        ),
      )
    }
    frames.push(...closingFrames(this.#context, usage, bill))
    return frames
  }

  fail(error: RenderedError): readonly Frame[] {
    return failingFrames(
      this.#context,
      error,
      [...this.#choices.keys()].toSorted((a, b) => a - b),
    )
  }

  #choiceEvent(event: Extract<ChatEvent, { choice: number }>): readonly Frame[] {
    const known = this.#choices.get(event.choice)
    if (known) return this.#content(event, known)
    const fresh = this.#openChoice(event.choice)
    return [this.#chunk(event.choice, '{"role":"assistant","content":""}'), ...this.#content(event, fresh)]
  }

  #openChoice(index: number): OpenChoice {
    // Flattened: a rope string would be copied piece by piece into every chunk.
    const beforeText = [this.#before, index, ',"delta":{"content":'].join('')
    const choice: OpenChoice = {
      finish: undefined,
      native: undefined,
      beforeText,
      textEvent: undefined,
      calls: new Map(),
      inputs: new Map(),
    }
    this.#choices.set(index, choice)
    return choice
  }

  #content(event: Extract<ChatEvent, { choice: number }>, choice: OpenChoice): readonly Frame[] {
    const { choice: index } = event
    switch (event.kind) {
      case 'text-delta':
        return event.text === '' ? [] : [this.#text(choice, event.text)]
      case 'refusal-delta':
        return event.text === '' ? [] : [this.#delta(index, { refusal: event.text })]
      case 'reasoning-delta': {
        const readable = readableReasoning(event.detail)
        return [
          this.#delta(index, {
            ...(readable === '' ? {} : { reasoning_content: readable }),
            reasoning_details: [wireDetail(event.detail)],
          }),
        ]
      }
      case 'tool-call-start': {
        choice.calls.set(event.call, '')
        const { id, name } = event
        if (this.#context.customTools?.has(name) === true) {
          choice.inputs.set(event.call, new InputStream())
          const custom = { index: event.call, id, type: 'custom', custom: { name, input: '' } }
          return [
            this.#delta(index, { tool_calls: [{ ...custom, ...wireSignature(event.thoughtSignature) }] }),
          ]
        }
        const call = {
          index: event.call,
          id,
          type: 'function',
          function: { name, arguments: '' },
          ...wireSignature(event.thoughtSignature),
        }
        return [this.#delta(index, { tool_calls: [call] })]
      }
      case 'tool-call-delta':
        if (event.arguments === '') return []
        choice.calls.set(event.call, (choice.calls.get(event.call) ?? '') + event.arguments)
        if (choice.inputs.has(event.call)) {
          const input = choice.inputs.get(event.call)!.take(event.arguments)
          return input === '' ? [] : [this.#delta(index, inputDelta(event.call, input))]
        }
        return [this.#delta(index, argumentsDelta(event.call, event.arguments))]
      case 'annotation':
        return [this.#delta(index, { annotations: [wireAnnotation(event.annotation)] })]
      case 'logprobs':
        return [this.#chunk(index, '{"content":""}', JSON.stringify(wireLogprobs(event)))]
      case 'audio-delta':
        return [this.#delta(index, { audio: wireAudio(event.audio) })]
      case 'image':
        return [this.#delta(index, { images: [wireImage(event)] })]
      case 'gateway-call':
      case 'search-start':
        // Its result is sent in one piece.
        return []
      case 'gateway-run':
        return [this.#delta(index, messageRuns([event.run]))]
      case 'gateway-item':
        return [this.#delta(index, messageRuns([], [event.item]))]
      case 'choice-finish':
        choice.finish = event.reason
        choice.native = event.native
        return []
      default:
        return event satisfies never
    }
  }

  /** The chunk of a text: one for nearly every token, so everything else is prepared. */
  #text({ beforeText }: OpenChoice, text: string): Frame {
    return { event: undefined, data: beforeText + JSON.stringify(text) + this.#afterText }
  }

  #delta(index: number, delta: JsonObject): Frame {
    return this.#chunk(index, JSON.stringify(delta))
  }

  #chunk(
    index: number,
    delta: string,
    logprobs = 'null',
    finish: FinishReason | null = null,
    more = '',
    choiceFields: JsonObject = {},
  ): Frame {
    const reason = finish === null ? 'null' : `"${finish}"`
    const fields = Object.entries(choiceFields).map(([name, value]) => `,"${name}":${JSON.stringify(value)}`)
    const choice = `${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${reason}${fields.join('')}`
    return { event: undefined, data: `${this.#before}${choice}${this.#after}${more}}` }
  }

  /** Our own fields are on the first chunk and the one with the usage; on each they would only cost bytes. */
  #firstChunkFields(): string {
    const { extra } = this.#context
    return Object.keys(extra).length === 0 ? '' : `,${JSON.stringify(extra).slice(1, -1)}`
  }
}

export function argumentsDelta(index: number, json: string): JsonObject {
  return { tool_calls: [{ index, function: { arguments: json } }] }
}

function inputDelta(index: number, input: string): JsonObject {
  return { tool_calls: [{ index, custom: { input } }] }
}

// A whole answer as one chat.completion object.

/**
 * A complete answer. Required keys are present even if null. Throws `upstream_error` for a choice that never ended: no
 * finish reason is invented.
 */
export function wholeAnswer(
  result: ChatResult,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
): JsonObject {
  return {
    id: context.id,
    object: 'chat.completion',
    created: context.created,
    model: context.model,
    choices: result.choices.map((choice) => wireChoice(choice, context)),
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

function wireChoice(choice: Choice, context: AnswerContext): JsonObject {
  if (choice.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  const reason = finishReasonOf(choice.finish, callsState(choice.toolCalls.map((call) => call.arguments)))
  return {
    index: choice.index,
    message: wireMessage(choice, context),
    logprobs: choice.logprobs === null ? null : wireLogprobs(choice.logprobs),
    finish_reason: reason,
    ...(reason === 'other' && nativeReason(reason, choice.nativeFinish)),
  }
}

function wireMessage(choice: Choice, { customTools }: AnswerContext): JsonObject {
  const reasoning = choice.reasoning.map(readableReasoning).join('')
  return {
    role: 'assistant',
    content: choice.text === '' && choice.toolCalls.length > 0 ? null : choice.text,
    refusal: choice.refusal,
    annotations: choice.annotations.map(wireAnnotation),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(choice.reasoning.length === 0 ? {} : { reasoning_details: choice.reasoning.map(wireDetail) }),
    ...(choice.toolCalls.length === 0
      ? {}
      : { tool_calls: choice.toolCalls.map((call) => wireCall(call, customTools)) }),
    ...(choice.audio === null ? {} : { audio: wireAudio(choice.audio) }),
    ...(choice.images.length === 0 ? {} : { images: choice.images.map(wireImage) }),
    ...messageRuns(choice.runs, choice.items),
  }
}

function wireCall(
  call: Choice['toolCalls'][number],
  customTools: ReadonlySet<string> | undefined,
): JsonObject {
  if (customTools?.has(call.name) === true) {
    const { type: _, ...custom } = callItem({ kind: 'custom', name: call.name }, call.arguments)
    return { id: call.id, type: 'custom', custom, ...wireSignature(call.thoughtSignature) }
  }
  return {
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments === '' ? '{}' : call.arguments },
    ...wireSignature(call.thoughtSignature),
  }
}
