// Legacy text completions for clients: the prompt becomes a chat message, and only the answer's text is returned.

import type { ChatResult, Choice } from '../../conversation/event.ts'
import type { JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import { GatewayError } from '../../errors.ts'
import { isObject } from '../json.ts'
import { inbound as chat } from '../openai-chat/inbound/inbound.ts'
import { invalidParam, unsupportedParam } from '../request/invalid-param.ts'
import { wireWarnings } from '../openai/message-fields.ts'
import { finishReasonOf } from '../openai/finish.ts'
import { wireUsage } from '../openai/usage.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest } from '../protocol.ts'
import { completionHead, CompletionEncoder } from './encode.ts'
import { chatOnly } from './chat-only.ts'

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
function parse(sent: unknown): InboundRequest {
  if (!isObject(sent)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
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

function wireChoice({ index, text, refusal, finish }: Choice): JsonObject {
  if (finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  const finish_reason = finishReasonOf(finish, 'none')
  return { index, text: `${text ?? ''}${refusal ?? ''}`, logprobs: null, finish_reason }
}
