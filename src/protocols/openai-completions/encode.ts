// Writes one streamed answer as text_completion chunks.

import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors.ts'
import { doneFrame, type Frame } from '../framing/sse.ts'
import { finishReasonOf } from '../openai/finish.ts'
import { wireUsage } from '../openai/usage.ts'
import type { AnswerContext, Bill, StreamEncoder } from '../protocol.ts'

/** The beginning of a whole answer and every chunk. */
export function completionHead({ id, created, model }: AnswerContext): JsonObject {
  return { id, object: 'text_completion', created, model }
}

/** Sends text and refusals; reasoning, calls and annotations have no field in a text completion. */
export class CompletionEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  /** The finish reason of each choice; undefined until it has one. */
  readonly #choices = new Map<number, FinishReason | undefined>([[0, undefined]])

  constructor(context: AnswerContext) {
    this.#context = context
  }

  start(): readonly Frame[] {
    return []
  }

  event(event: ChatEvent): readonly Frame[] {
    if (event.kind === 'text-delta' || event.kind === 'refusal-delta') {
      if (!this.#choices.has(event.choice)) this.#choices.set(event.choice, undefined)
      return event.text === '' ? [] : [this.#chunk([choiceOf(event.choice, event.text, null)])]
    }
    if (event.kind === 'choice-finish') this.#choices.set(event.choice, event.reason)
    return []
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const frames = [...this.#choices]
      .toSorted(([a], [b]) => a - b)
      .map(([index, reason]) => this.#chunk([choiceOf(index, '', finishReasonOf(reason ?? 'stop', 'none'))]))
    const { includeUsage, extra } = this.#context
    if (includeUsage) frames.push(this.#chunk([], { usage: wireUsage(usage, bill), ...extra }))
    return [...frames, doneFrame]
  }

  fail(error: RenderedError): readonly Frame[] {
    return [frameOf({ error: error.error }), doneFrame]
  }

  #chunk(choices: JsonObject[], more: JsonObject = {}): Frame {
    const usage = this.#context.includeUsage ? { usage: null } : {}
    return frameOf({ ...completionHead(this.#context), choices, ...usage, ...more })
  }
}

function choiceOf(index: number, text: string, finish_reason: FinishReason | null): JsonObject {
  return { index, text, logprobs: null, finish_reason }
}

function frameOf(value: object): Frame {
  return { event: undefined, data: JSON.stringify(value) }
}
