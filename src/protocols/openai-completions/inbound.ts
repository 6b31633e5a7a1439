// Legacy text completions for clients (OpenAI's POST /v1/completions): the prompt becomes a chat message, and only the
// answer's text is returned.

import { z } from 'zod'
import {
  type ChatEvent,
  type ChatResult,
  type Choice,
  type FinishReason,
  nativeReason,
} from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../errors/errors.ts'
import { doneFrame, type Frame } from '../framing/sse.ts'
import { inbound as chat } from '../openai-chat/inbound/inbound.ts'
import { chatCompletion, chatCompletionRequest } from '../openai-chat/inbound/schema.ts'
import { wireWarnings } from '../lowering.ts'
import { finishReasonOf, wireUsage } from '../openai/usage.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest, StreamEncoder } from '../protocol.ts'
import { bodyObject, invalidParam, unsupportedParam } from '../request/fields.ts'

/** Fields of chat completions that a text completion does not have. */
export const chatOnly = [
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'web_search_options',
  'functions',
  'function_call',
  'response_format',
  'modalities',
  'audio',
  'prediction',
  'logprobs',
  'top_logprobs',
] as const

// The wire schemas of legacy text completions (OpenAI's POST /v1/completions): chat completions with a prompt.

/** Removes `chatOnly` from the schema of a chat request. */
const chatOnlyKeys = Object.fromEntries(chatOnly.map((field) => [field, true])) as Record<
  (typeof chatOnly)[number],
  true
>

export const textCompletionRequest = chatCompletionRequest.omit(chatOnlyKeys).extend({
  prompt: z.union([z.string(), z.array(z.string()).length(1)]),
  suffix: z.string().nullish(),
  echo: z.boolean().nullish(),
  best_of: z.int().min(1).nullish(),
  logprobs: z.int().min(0).nullish(),
})

const choice = z.looseObject({
  index: z.int().min(0),
  text: z.string(),
  logprobs: z.null(),
  finish_reason: z.enum(['stop', 'length', 'content_filter', 'other', 'error']).nullable(),
  native_finish_reason: z.string().optional().describe('With `other`: the provider’s own word.'),
})

/** A whole answer, and each chunk of a stream. */
export const textCompletion = z.looseObject({
  id: z.string(),
  object: z.literal('text_completion'),
  created: z.int(),
  model: z.string(),
  choices: z.array(choice),
  usage: chatCompletion.shape.usage.nullish(),
})

// Reading and encoding.

export const inbound: Inbound = {
  id: 'openai-completions',
  addresses: {
    ...chat.addresses,
    fields: { ...chat.addresses.fields, prompt: 'words', suffix: 'words' },
  },
  keepalive: chat.keepalive,
  parse,
  whole,
  encoder: (context) => new CompletionEncoder(context),
  error: chat.error,
}

/** Throws `invalid_request` or `unsupported_parameter` with `param`; shared fields are checked like a chat's. */
function parse(body: unknown): InboundRequest {
  const sent = bodyObject(body)
  const text = promptOf(sent)
  for (const field of chatOnly) {
    if (field !== 'logprobs' && sent[field] != null)
      throw unsupportedParam(field, 'text completions have no such field; use POST /v1/chat/completions.')
  }
  refuseUnserved(sent)
  const { prompt: _prompt, suffix: _suffix, echo: _echo, best_of: _best, logprobs: _log, ...shared } = sent
  return chat.parse({ ...shared, messages: [{ role: 'user', content: text }] })
}

function promptOf(body: JsonObject): string {
  const { prompt } = body
  if (Object.hasOwn(body, 'messages') && prompt == null) {
    throw new GatewayError('wrong_endpoint', {
      message: 'A body with `messages` belongs to POST /v1/chat/completions; text completions take `prompt`.',
      param: 'messages',
    })
  }
  const only = Array.isArray(prompt) && prompt.length === 1 ? prompt[0] : prompt
  if (typeof only === 'string') return only
  if (!Array.isArray(only)) throw invalidParam('prompt', 'must be a text.')
  throw unsupportedParam(
    'prompt',
    'send one text at a time; lists of texts and of token numbers are not served.',
  )
}

/** Throws for what a chat model cannot do with a prompt. */
function refuseUnserved({ suffix, echo, best_of, logprobs, n }: JsonObject): void {
  if (suffix != null && suffix !== '')
    throw unsupportedParam('suffix', 'chat models do not fill in the middle of a text.')
  if (echo === true) throw unsupportedParam('echo', 'the prompt is not repeated in the answer.')
  if (best_of != null && best_of !== (n ?? 1))
    throw unsupportedParam('best_of', 'ask for several answers with `n`; each one is returned, and paid for.')
  if (logprobs != null) throw unsupportedParam('logprobs', 'use POST /v1/chat/completions.')
}

function whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject {
  return {
    ...completionHead(context),
    choices: result.choices.map(wireChoice),
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

function wireChoice({ index, text, refusal, finish, nativeFinish }: Choice): JsonObject {
  if (finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  return endingOf(index, `${text ?? ''}${refusal ?? ''}`, finish, nativeFinish)
}

// Writes one streamed answer as text_completion chunks.

/** The beginning of a whole answer and every chunk. */
function completionHead({ id, created, model }: AnswerContext): JsonObject {
  return { id, object: 'text_completion', created, model }
}

/** Sends text and refusals; reasoning, calls and annotations have no field in a text completion. */
export class CompletionEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  /** How each choice ended; undefined until it has. */
  readonly #choices = new Map<number, { reason: FinishReason; native: string } | undefined>([[0, undefined]])

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
    if (event.kind === 'choice-finish') this.#choices.set(event.choice, event)
    return []
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const frames = [...this.#choices]
      .toSorted(([a], [b]) => a - b)
      .map(([index, end]) => this.#chunk([endingOf(index, '', end?.reason ?? 'stop', end?.native)]))
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

function endingOf(index: number, text: string, end: FinishReason, native: string | undefined): JsonObject {
  const reason = finishReasonOf(end, 'none')
  return { ...choiceOf(index, text, reason), ...nativeReason(reason, native) }
}

function choiceOf(index: number, text: string, finish_reason: FinishReason | null): JsonObject {
  return { index, text, logprobs: null, finish_reason }
}

function frameOf(value: object): Frame {
  return { event: undefined, data: JSON.stringify(value) }
}
