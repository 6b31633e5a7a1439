// A whole answer as one chat.completion object.

import type { ChatResult, Choice } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors.ts'
import type { AnswerContext, Bill } from '../../protocol.ts'
import {
  callsState,
  readableReasoning,
  wireAnnotation,
  wireAudio,
  wireDetail,
  wireImage,
  wireLogprobs,
  wireSignature,
  wireWarnings,
} from '../../openai/message-fields.ts'
import { messageRuns } from '../../openai/gateway-runs.ts'
import { finishReasonOf } from '../../openai/finish.ts'
import { wireUsage } from '../../openai/usage.ts'

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
    choices: result.choices.map(wireChoice),
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

function wireChoice(choice: Choice): JsonObject {
  if (choice.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  return {
    index: choice.index,
    message: wireMessage(choice),
    logprobs: choice.logprobs === null ? null : wireLogprobs(choice.logprobs),
    finish_reason: finishReasonOf(choice.finish, callsState(choice.toolCalls.map((call) => call.arguments))),
  }
}

function wireMessage(choice: Choice): JsonObject {
  const reasoning = choice.reasoning.map(readableReasoning).join('')
  return {
    role: 'assistant',
    content: choice.text === '' && choice.toolCalls.length > 0 ? null : choice.text,
    refusal: choice.refusal,
    annotations: choice.annotations.map(wireAnnotation),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(choice.reasoning.length === 0 ? {} : { reasoning_details: choice.reasoning.map(wireDetail) }),
    ...(choice.toolCalls.length === 0 ? {} : { tool_calls: choice.toolCalls.map(wireCall) }),
    ...(choice.audio === null ? {} : { audio: wireAudio(choice.audio) }),
    ...(choice.images.length === 0 ? {} : { images: choice.images.map(wireImage) }),
    ...messageRuns(choice.runs, choice.items),
  }
}

function wireCall(call: Choice['toolCalls'][number]): JsonObject {
  return {
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments === '' ? '{}' : call.arguments },
    ...wireSignature(call.thoughtSignature),
  }
}
