// Encodes a streamed answer as chunks of streamGenerateContent, each shaped like a whole answer.

import {
  type Annotation,
  type BlockedPrompt,
  type ChatEvent,
  type FinishReason,
  joinReasoning,
} from '../../../conversation/event.ts'
import type { GatewayRun } from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import type { RenderedError } from '../../../errors.ts'
import type { AnswerContext, Bill, StreamEncoder, Texts } from '../../protocol.ts'
import { encodeFrame, type Frame } from '../../framing/sse.ts'
import { thinkingText } from '../../claude/carried-reasoning.ts'
import { isForeign } from './thoughts.ts'
import {
  audioPart,
  calledParts,
  groundingOf,
  logprobsOf,
  promptFeedbackOf,
  reasoningPart,
  usageMetadata,
  wireError,
  wireFinish,
} from './answer.ts'

interface OpenCall {
  readonly id: string
  readonly name: string
  readonly signature: string | undefined
  json: string
}

interface OpenCandidate {
  text: string
  /** Reasoning that may go on; its signature is sent when it does not. */
  thought: ReasoningDetail | undefined
  /** Reasoning of other providers than Google, as far as it is complete. */
  readonly foreign: ReasoningDetail[]
  readonly calls: OpenCall[]
  readonly annotations: Annotation[]
  readonly runs: GatewayRun[]
  readonly items: JsonObject[]
  readonly logprobs: Json[]
  finish:
    | { readonly reason: FinishReason; readonly native: string; readonly blockedPrompt?: BlockedPrompt }
    | undefined
}

/** Function calls are not split in this protocol, so they are sent at the end, with complete arguments. */
export class GeminiEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  readonly #candidates = new Map<number, OpenCandidate>()

  constructor(context: AnswerContext) {
    this.#context = context
    this.#candidate(0)
  }

  start(): readonly Frame[] {
    return []
  }

  event(event: ChatEvent): readonly Frame[] {
    if (!('choice' in event)) return []
    const candidate = this.#candidate(event.choice)
    switch (event.kind) {
      case 'text-delta':
      case 'refusal-delta':
        candidate.text += event.text
        return event.text === '' ? [] : this.#said(event.choice, [{ text: event.text }])
      case 'reasoning-delta':
        if (this.#context.sealsThoughts === true && isForeign(event.detail)) {
          keep(candidate, event.detail)
          return []
        }
        return this.#chunkOf(event.choice, thoughtParts(candidate, event.detail))
      case 'tool-call-start':
        candidate.calls[event.call] = {
          id: event.id,
          name: event.name,
          signature: event.thoughtSignature,
          json: '',
        }
        return []
      case 'tool-call-delta': {
        const call = candidate.calls[event.call]
        if (call) call.json += event.arguments
        return []
      }
      case 'image':
        return this.#said(event.choice, [{ inlineData: { mimeType: event.mediaType, data: event.data } }])
      case 'audio-delta': {
        const { data } = event.audio
        return data === undefined ? [] : this.#said(event.choice, [audioPart(data)])
      }
      case 'annotation':
        candidate.annotations.push(event.annotation)
        return []
      case 'logprobs':
        candidate.logprobs.push(...event.content)
        return []
      case 'gateway-run':
        candidate.runs.push(event.run)
        return []
      case 'gateway-item':
        candidate.items.push(event.item)
        return []
      case 'gateway-call':
      case 'search-start':
        // A search shows at the end, with what it has found.
        return []
      case 'choice-finish':
        candidate.finish = event
        return []
      default:
        return event satisfies never
    }
  }

  /** What has come together goes on in one chunk: clients of this protocol keep a content for each, and send it back. */
  texts({ choice, content }: Texts): string {
    this.#candidate(choice).text += content
    return this.#said(choice, [{ text: content }])
      .map(encodeFrame)
      .join('')
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const end = { usageMetadata: usageMetadata(usage, bill), ...this.#context.extra }
    const blocked = this.#candidate(0).finish
    if (blocked?.blockedPrompt !== undefined) {
      const feedback = promptFeedbackOf(blocked.blockedPrompt, blocked.native)
      return [frameOf({ ...feedback, ...answerHead(this.#context), ...end })]
    }
    const candidates = [...this.#candidates]
      .toSorted(([a], [b]) => a - b)
      .map(([index, candidate]) => ({
        ...candidateOf(index, lastParts(candidate, this.#context)),
        finishReason: wireFinish(candidate.finish?.reason ?? 'stop', candidate.finish?.native),
        ...groundingOf(candidate, candidate.text),
        ...logprobsOf(candidate.logprobs),
      }))
    return [this.#chunk(candidates, end)]
  }

  fail(error: RenderedError): readonly Frame[] {
    return [frameOf(wireError(error))]
  }

  #candidate(index: number): OpenCandidate {
    const known = this.#candidates.get(index)
    if (known) return known
    const fresh: OpenCandidate = {
      text: '',
      thought: undefined,
      foreign: [],
      calls: [],
      annotations: [],
      runs: [],
      items: [],
      logprobs: [],
      finish: undefined,
    }
    this.#candidates.set(index, fresh)
    return fresh
  }

  /** Parts that come after the reasoning so far. */
  #said(index: number, parts: JsonObject[]): Frame[] {
    return this.#chunkOf(index, [...closedThought(this.#candidate(index)), ...parts])
  }

  #chunkOf(index: number, parts: JsonObject[]): Frame[] {
    return parts.length === 0 ? [] : [this.#chunk([candidateOf(index, parts)])]
  }

  #chunk(candidates: JsonObject[], more: JsonObject = {}): Frame {
    return frameOf({ candidates, ...answerHead(this.#context), ...more })
  }
}

function frameOf(chunk: JsonObject): Frame {
  return { event: undefined, data: JSON.stringify(chunk) }
}

/**
 * Google's client drops the whole turn from its chat, with the question, if a chunk has no part: an empty text is one.
 * What a filter has stopped is dropped as it is at Google.
 */
function lastParts(candidate: OpenCandidate, { sealsThoughts }: AnswerContext): JsonObject[] {
  const { calls, finish, foreign } = candidate
  const parts = [...closedThought(candidate), ...calledParts(calls, foreign, sealsThoughts)]
  return parts.length === 0 && finish?.reason !== 'content_filter' ? [{ text: '' }] : parts
}

/** Keeps a piece of reasoning for the end of the answer. */
function keep({ foreign }: OpenCandidate, detail: ReasoningDetail): void {
  const last = foreign.at(-1)
  if (last?.index === detail.index) foreign[foreign.length - 1] = joinReasoning(last, detail)
  else foreign.push(detail)
}

/**
 * A piece of reasoning as it is streamed: the text at once, and what carries the rest of it behind its last piece. A
 * client returns each chunk by itself, and only the whole is of use to the provider that made it.
 */
function thoughtParts(candidate: OpenCandidate, detail: ReasoningDetail): JsonObject[] {
  if (!isForeign(detail)) return [...closedThought(candidate), ...reasoningPart(detail)]
  const isMore = candidate.thought?.index === detail.index
  const closed = isMore ? [] : closedThought(candidate)
  candidate.thought = isMore ? joinReasoning(candidate.thought, detail) : detail
  const text = thinkingText(detail)
  return text === '' ? closed : [...closed, { text, thought: true }]
}

/** The end of the reasoning so far: a part that carries all of it but the text, if there is anything. */
function closedThought(candidate: OpenCandidate): JsonObject[] {
  const { thought } = candidate
  candidate.thought = undefined
  if (thought === undefined) return []
  candidate.foreign.push(thought)
  return reasoningPart({ ...thought, text: '' })
}

/** The fields common to chunks and whole answers. */
export function answerHead({ id, model }: AnswerContext): JsonObject {
  return { modelVersion: model, responseId: id }
}

export function candidateOf(index: number, parts: JsonObject[]): JsonObject {
  return { index, content: { role: 'model', parts } }
}
