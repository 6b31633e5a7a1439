// The one internal stream event, and what a whole answer is once its events are collected.

import type { GatewayCall, GatewayRun } from './gateway-tools.ts'
import type { Json, JsonObject, ReasoningDetail, TurnMessage } from './request.ts'
import type { Usage } from './usage.ts'

/**
 * What a provider's answer is made of, in order. Exactly one terminal event (`finish` or `error`) ends every
 * stream. `choice` counts from 0; `call` numbers the tool calls of a choice from 0 without gaps.
 */
export type ChatEvent =
  | { readonly kind: 'message-start'; readonly id: string | undefined; readonly model: string | undefined }
  | {
      readonly kind: 'text-delta' | 'refusal-delta'
      readonly choice: number
      readonly text: string
      readonly message?: TurnMessage
    }
  | { readonly kind: 'reasoning-delta'; readonly choice: number; readonly detail: ReasoningDetail }
  | {
      readonly kind: 'tool-call-start'
      readonly choice: number
      readonly call: number
      readonly id: string
      readonly name: string
      readonly thoughtSignature: string | undefined
    }
  | {
      readonly kind: 'tool-call-delta'
      readonly choice: number
      readonly call: number
      readonly arguments: string
    }
  | { readonly kind: 'annotation'; readonly choice: number; readonly annotation: Annotation }
  | {
      readonly kind: 'logprobs'
      readonly choice: number
      readonly content: readonly Json[]
      readonly refusal: readonly Json[]
    }
  | { readonly kind: 'audio-delta'; readonly choice: number; readonly audio: AudioDelta }
  | { readonly kind: 'image'; readonly choice: number; readonly mediaType: string; readonly data: string }
  /** A tool of the gateway begins to run, and has run. */
  | { readonly kind: 'gateway-call'; readonly choice: number; readonly call: GatewayCall }
  | { readonly kind: 'gateway-run'; readonly choice: number; readonly run: GatewayRun }
  /** The provider begins a search of its own; the item of it follows under the same `search`, unless the answer breaks off. */
  | {
      readonly kind: 'search-start'
      readonly choice: number
      readonly search: string
      /** Where the provider says it before it searches. */
      readonly query?: string
    }
  /** Something else that a tool has to say, of the gateway or the provider: an item of the Responses protocol without its id. */
  | {
      readonly kind: 'gateway-item'
      readonly choice: number
      readonly item: JsonObject
      readonly search?: string
    }
  /** Cumulative: the last one holds. May come before or after the finish reason. */
  | { readonly kind: 'usage'; readonly usage: Usage }
  | {
      readonly kind: 'choice-finish'
      readonly choice: number
      readonly reason: FinishReason
      readonly native: string
      /** What the provider says of it, in its own sentence. */
      readonly explanation?: string
      /** What else the provider says at the end, for a client that speaks its protocol. */
      readonly nativeFields?: NativeFields
      /** Which of the request's stop sequences ended it, where the provider says so. */
      readonly stopSequence?: string
      /** The provider goes on when it is sent back what it has said. */
      readonly paused?: true
      /** The provider refused the prompt and made nothing. */
      readonly blockedPrompt?: BlockedPrompt
    }
  | { readonly kind: 'finish' }
  | { readonly kind: 'error'; readonly fault: Fault }

/**
 * `other`: the provider ended the answer in a way that is none of these. It did not finish well, and clients are told
 * the provider's own word.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter' | 'other'

/** The provider's own word beside a finish reason that does not say how the answer ended; nothing beside the others. */
export function nativeReason(reason: string, native: string | undefined): { native_finish_reason?: string } {
  return reason === 'other' && native ? { native_finish_reason: native } : {}
}

/** Fields of an answer that only its provider's protocol has: of the choice, of what was counted, and about the prompt. */
export interface NativeFields {
  readonly choice: JsonObject
  readonly usage: JsonObject
  readonly prompt: JsonObject
}

/** A prompt that a filter of the provider refused, with the provider's words where it gave any. */
export interface BlockedPrompt {
  readonly message?: string
}

/** A source for a stretch of the text; offsets count UTF-16 code units of the choice's whole text. */
export interface Annotation {
  readonly kind: 'url-citation'
  readonly url: string
  readonly title: string
  readonly start: number
  readonly end: number
}

export interface AudioDelta {
  readonly id?: string
  readonly data?: string
  readonly transcript?: string
  readonly expiresAt?: number
}

/** Why a provider did not answer, or stopped answering. `message` is the provider's own text: mask it on 5xx. */
export interface Fault {
  readonly kind: FaultKind
  readonly message: string
  readonly param: string | undefined
  /** The provider's own error code or type, where it gave one. */
  readonly providerCode: string | undefined
  /** undefined if there was no HTTP answer. */
  readonly status: number | undefined
  /** How long the provider asks us to wait. */
  readonly retryAfterMs: number | undefined
}

export type FaultKind =
  /** The request is wrong and will be wrong everywhere. */
  | 'invalid-request'
  | 'context-length'
  | 'content-filter'
  /** The model wrote a tool call or document that the provider itself rejects: another try costs as much again. */
  | 'unusable-output'
  /** The provider does not know the model. */
  | 'not-found'
  /** Our key at the provider is bad: never the caller's fault. */
  | 'credentials'
  /** Our account at the provider has run out (402, usage limit). */
  | 'quota'
  | 'rate-limited'
  | 'overloaded'
  /** 5xx, or an answer that is not the protocol (HTML, invalid JSON, an empty body). */
  | 'broken'
  /** An answer larger than we read: it would be as large again, and may be billed again. */
  | 'too-large'
  /** The connection could not be made, or broke before the answer ended. */
  | 'cut'
  | 'timeout'

export interface ChatResult {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly choices: readonly Choice[]
  /** What the provider counted; undefined where it counted nothing. */
  readonly usage: Usage | undefined
  readonly fault: Fault | undefined
  /** The same in its order; absent where it is nothing but a text. */
  readonly events?: readonly ChatEvent[]
}

export interface Choice {
  readonly index: number
  /** null when the answer has no text. */
  readonly text: string | null
  readonly refusal: string | null
  readonly reasoning: readonly ReasoningDetail[]
  readonly toolCalls: readonly CollectedCall[]
  readonly annotations: readonly Annotation[]
  readonly logprobs: { content: Json[]; refusal: Json[] } | null
  readonly audio: AudioDelta | null
  readonly images: readonly { mediaType: string; data: string }[]
  /** undefined when the stream broke off before this choice ended. */
  readonly finish: FinishReason | undefined
  readonly nativeFinish: string | undefined
  readonly explanation?: string
  readonly nativeFields?: NativeFields
  readonly stopSequence?: string
  readonly paused?: true
  readonly blockedPrompt?: BlockedPrompt
  /** What tools of the gateway did, and said; absent where none was there. */
  readonly runs?: readonly GatewayRun[]
  readonly items?: readonly JsonObject[]
}

export interface CollectedCall {
  readonly id: string
  readonly name: string
  readonly arguments: string
  readonly thoughtSignature: string | undefined
}

interface Draft {
  text: string | null
  refusal: string | null
  reasoning: Map<number, ReasoningDetail>
  calls: Map<number, { id: string; name: string; arguments: string; thoughtSignature: string | undefined }>
  annotations: Annotation[]
  logprobs: { content: Json[]; refusal: Json[] } | null
  audio: AudioDelta | null
  images: { mediaType: string; data: string }[]
  finish: FinishReason | undefined
  nativeFinish: string | undefined
  explanation?: string
  nativeFields?: NativeFields
  stopSequence?: string
  paused?: true
  blockedPrompt?: BlockedPrompt
  runs?: GatewayRun[]
  items?: JsonObject[]
}

/** Joins the events of one answer into the whole it describes. Takes any iterable; reads it once, to the end. */
export function collect(events: Iterable<ChatEvent>): ChatResult {
  let id: string | undefined
  let model: string | undefined
  let usage: Usage | undefined
  let fault: Fault | undefined
  const drafts = new Map<number, Draft>()
  const draftOf = (choice: number): Draft => {
    const known = drafts.get(choice)
    if (known) return known
    const fresh = emptyDraft()
    drafts.set(choice, fresh)
    return fresh
  }

  for (const event of events) {
    switch (event.kind) {
      case 'message-start':
        id = event.id ?? id
        model = event.model ?? model
        break
      case 'usage':
        usage = event.usage
        break
      case 'error':
        fault = event.fault
        break
      case 'finish':
        break
      default:
        add(draftOf(event.choice), event)
    }
  }

  const choices = inOrder(drafts).map(([index, draft]) => choiceOf(index, draft))
  return { id, model, choices, usage, fault }
}

function choiceOf(index: number, { calls, reasoning, ...rest }: Draft): Choice {
  return {
    ...rest,
    index,
    reasoning: [...reasoning.values()].toSorted((a, b) => a.index - b.index),
    toolCalls: inOrder(calls).map(([, call]) => ({
      ...call,
      arguments: call.arguments === '' ? '{}' : call.arguments,
    })),
  }
}

function inOrder<Value>(numbered: ReadonlyMap<number, Value>): readonly (readonly [number, Value])[] {
  return [...numbered].toSorted(([a], [b]) => a - b)
}

function emptyDraft(): Draft {
  return {
    text: null,
    refusal: null,
    reasoning: new Map(),
    calls: new Map(),
    annotations: [],
    logprobs: null,
    audio: null,
    images: [],
    finish: undefined,
    nativeFinish: undefined,
  }
}

type ChoiceEvent = Extract<ChatEvent, { choice: number }>

function add(draft: Draft, event: ChoiceEvent): void {
  switch (event.kind) {
    case 'text-delta':
      draft.text = (draft.text ?? '') + event.text
      return
    case 'refusal-delta':
      draft.refusal = (draft.refusal ?? '') + event.text
      return
    case 'reasoning-delta':
      draft.reasoning.set(
        event.detail.index,
        joinReasoning(draft.reasoning.get(event.detail.index), event.detail),
      )
      return
    case 'tool-call-start':
      draft.calls.set(event.call, {
        id: event.id,
        name: event.name,
        arguments: '',
        thoughtSignature: event.thoughtSignature,
      })
      return
    case 'tool-call-delta': {
      const call = draft.calls.get(event.call)
      if (call) call.arguments += event.arguments
      return
    }
    case 'annotation':
      draft.annotations.push(event.annotation)
      return
    case 'logprobs': {
      draft.logprobs ??= { content: [], refusal: [] }
      // One by one: of a long answer there are more than a call can have arguments.
      for (const logprob of event.content) draft.logprobs.content.push(logprob)
      for (const logprob of event.refusal) draft.logprobs.refusal.push(logprob)
      return
    }
    case 'audio-delta':
      draft.audio = {
        ...draft.audio,
        ...event.audio,
        data: (draft.audio?.data ?? '') + (event.audio.data ?? ''),
        transcript: (draft.audio?.transcript ?? '') + (event.audio.transcript ?? ''),
      }
      return
    case 'image':
      draft.images.push({ mediaType: event.mediaType, data: event.data })
      return
    case 'gateway-call':
    case 'search-start':
      return
    case 'gateway-run':
      ;(draft.runs ??= []).push(event.run)
      return
    case 'gateway-item':
      ;(draft.items ??= []).push(event.item)
      return
    case 'choice-finish':
      draft.finish = event.reason
      draft.nativeFinish = event.native
      if (event.explanation !== undefined) draft.explanation = event.explanation
      if (event.nativeFields !== undefined) draft.nativeFields = event.nativeFields
      if (event.stopSequence !== undefined) draft.stopSequence = event.stopSequence
      if (event.paused) draft.paused = true
      if (event.blockedPrompt !== undefined) draft.blockedPrompt = event.blockedPrompt
      return
    default:
      return event satisfies never
  }
}

/** Joins a reasoning delta to what came before it under the same index. */
export function joinReasoning(before: ReasoningDetail | undefined, delta: ReasoningDetail): ReasoningDetail {
  if (!before) return delta
  const joinText = (a: string | null | undefined, b: string | null | undefined) =>
    a == null && b == null ? undefined : (a ?? '') + (b ?? '')
  const text = joinText(before.text, delta.text)
  const summary = joinText(before.summary, delta.summary)
  const data = joinText(before.data, delta.data)
  const signature = delta.signature ?? before.signature
  const id = delta.id ?? before.id
  return {
    type: before.type,
    format: before.format ?? delta.format,
    index: before.index,
    ...(id == null ? {} : { id }),
    ...(text === undefined ? {} : { text }),
    ...(summary === undefined ? {} : { summary }),
    ...(signature == null ? {} : { signature }),
    ...(data === undefined ? {} : { data }),
  }
}

// Turns a whole answer into the events of an equivalent stream.

/** The events of one choice; the order of its parts is not known any more. */
export function eventsOf(answer: Choice): ChatEvent[] {
  const { index: choice } = answer
  return [
    ...answer.reasoning.map((detail): ChatEvent => ({ kind: 'reasoning-delta', choice, detail })),
    ...(answer.items ?? []).map((item): ChatEvent => ({ kind: 'gateway-item', choice, item })),
    ...(answer.text === null ? [] : [{ kind: 'text-delta', choice, text: answer.text } as const]),
    ...answer.annotations.map((annotation): ChatEvent => ({ kind: 'annotation', choice, annotation })),
    ...(answer.logprobs === null ? [] : [{ kind: 'logprobs', choice, ...answer.logprobs } as const]),
    ...(answer.refusal === null ? [] : [{ kind: 'refusal-delta', choice, text: answer.refusal } as const]),
    ...answer.toolCalls.flatMap(({ arguments: json, ...call }, at): ChatEvent[] => [
      { kind: 'tool-call-start', choice, call: at, ...call },
      { kind: 'tool-call-delta', choice, call: at, arguments: json },
    ]),
    ...answer.images.map((image): ChatEvent => ({ kind: 'image', choice, ...image })),
    ...(answer.finish === undefined
      ? []
      : [
          {
            kind: 'choice-finish',
            choice,
            reason: answer.finish,
            native: answer.nativeFinish ?? '',
            ...(answer.explanation !== undefined && { explanation: answer.explanation }),
            ...(answer.nativeFields !== undefined && { nativeFields: answer.nativeFields }),
            ...(answer.stopSequence !== undefined && { stopSequence: answer.stopSequence }),
            ...(answer.paused && { paused: answer.paused }),
            ...(answer.blockedPrompt !== undefined && { blockedPrompt: answer.blockedPrompt }),
          } as const,
        ]),
  ]
}
