// Gemini's API for clients (generateContent, streamGenerateContent), such as Google's libraries and tools.

import type { ChatResult } from '../../../conversation/event.ts'
import type { DeclaredTools } from '../../../conversation/gateway-tools.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject } from '../../lenient.ts'
import { inbound as chat } from '../../openai-chat/inbound/inbound.ts'
import { type ClientFields, errorFor, invalidRequest, safeParsed } from '../../request/fields.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest } from '../../protocol.ts'
import { addresses, camelCased, chatBody } from './read.ts'
import {
  answerHead,
  candidateOf,
  GeminiEncoder,
  groundingOf,
  logprobsOf,
  partsOf,
  promptFeedbackOf,
  usageMetadata,
  wireError,
  wireFinish,
} from './encode.ts'
import { generateContentRequest } from './schema.ts'

/** A chunk without text: Google's Python client takes a comment for broken JSON, and ends the answer. */
const keepalive = new TextEncoder().encode(
  `data: ${JSON.stringify({ candidates: [candidateOf(0, [{ text: '' }])] })}\n\n`,
)

export const inbound: Inbound = {
  id: 'gemini',
  keepalive,
  addresses,
  parse: (body) => parseRequest(body, isObject(body) && body['stream'] === true),
  whole,
  encoder: (context) => new GeminiEncoder(context),
  error: wireError,
}

/** The provider of models that clients name without one. */
const home = 'gemini'

/** The catalog id of the model in a path: `gemini-2.5-flash`, `models/gemini-2.5-flash` or `anthropic/claude-…`. */
export function modelId(name: string): string {
  const plain = name.replace(/^models\//, '')
  return plain.includes('/') ? plain : `${home}/${plain}`
}

/** The body with the model from its path, with the API's field names. */
export function withModel(body: JsonObject, model: string, stream: boolean): JsonObject {
  return { ...camelCased(body), model: modelId(model), stream }
}

/** Takes the result of `withModel`. Throws `invalid_request` and `unsupported_parameter` with `param`. */
function parseRequest(body: unknown, stream: boolean): InboundRequest {
  if (!isObject(body)) {
    throw new GatewayError('invalid_request', { message: 'The body must be a JSON object.' })
  }
  const { data, error } = safeParsed(generateContentRequest, body)
  if (error) throw invalidRequest(error)
  const made = chatBody(data, String(body['model'] ?? ''), stream)
  const fields: ClientFields = { messages: () => made.params, names, membersDiffer: true }
  const request = attempt(() => chat.parse(made.body), fields)
  const [dropped] = made.warnings
  if (dropped && request.envelope.strict) {
    throw new GatewayError('unsupported_parameter', { message: dropped.message, param: dropped.param })
  }
  const { gatewayTools } = request
  return {
    ...request,
    envelope: {
      ...request.envelope,
      ...(data.generationConfig?.thinkingConfig?.includeThoughts === true ? {} : { sealsThoughts: true }),
    },
    fields,
    ...(gatewayTools === undefined ? {} : { gatewayTools: declaredAt(gatewayTools, made.searchParam) }),
    warnings: [...(request.warnings ?? []), ...made.warnings],
    toChatRequest: () => attempt(() => request.toChatRequest(), fields),
  }
}

/** The same tools, declared where the client declares its search. */
function declaredAt(tools: DeclaredTools, param: string | undefined): DeclaredTools {
  if (param === undefined) return tools
  return { ...tools, declarations: tools.declarations.map((each) => ({ ...each, param })) }
}

/** Its errors name the client's own fields. */
function attempt<T>(act: () => T, fields: ClientFields): T {
  try {
    return act()
  } catch (thrown) {
    throw errorFor(thrown, fields)
  }
}

/** What clients of this protocol call the parameters of a chat completion. */
const names: Readonly<Record<string, string>> = {
  max_completion_tokens: 'generationConfig.maxOutputTokens',
  max_tokens: 'generationConfig.maxOutputTokens',
  temperature: 'generationConfig.temperature',
  top_p: 'generationConfig.topP',
  top_k: 'generationConfig.topK',
  seed: 'generationConfig.seed',
  stop: 'generationConfig.stopSequences',
  n: 'generationConfig.candidateCount',
  presence_penalty: 'generationConfig.presencePenalty',
  frequency_penalty: 'generationConfig.frequencyPenalty',
  logprobs: 'generationConfig.responseLogprobs',
  top_logprobs: 'generationConfig.logprobs',
  response_format: 'generationConfig.responseSchema',
  reasoning: 'generationConfig.thinkingConfig',
  modalities: 'generationConfig.responseModalities',
  audio: 'generationConfig.speechConfig',
  tool_choice: 'toolConfig.functionCallingConfig',
}

/** A whole answer. Throws `upstream_error` for one that never ended: no finish reason is invented. */
function whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject {
  const candidates = result.choices.map((choice) => {
    if (choice.finish === undefined) {
      throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
    }
    const text = `${choice.text ?? ''}${choice.refusal ?? ''}`
    return {
      ...candidateOf(choice.index, partsOf(choice, context)),
      finishReason: wireFinish(choice.finish, choice.nativeFinish),
      ...groundingOf(
        { annotations: choice.annotations, runs: choice.runs ?? [], items: choice.items ?? [] },
        text,
      ),
      ...logprobsOf(choice.logprobs?.content ?? []),
    }
  })
  const { warnings } = context
  const [first] = result.choices
  const blocked = first?.blockedPrompt
  return {
    ...(blocked === undefined ? { candidates } : promptFeedbackOf(blocked, first?.nativeFinish)),
    usageMetadata: usageMetadata(usage, bill),
    ...answerHead(context),
    ...(warnings.length === 0 ? {} : { warnings: warnings.map((warning) => ({ ...warning })) }),
    ...context.extra,
  }
}
