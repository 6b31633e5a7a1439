// Translates a chat request to Cohere's chat API, version 2.

import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  JsonObject,
  Message,
} from '../../conversation/request.ts'
import {
  allowedFunctions,
  functionTool,
  isPlain,
  linesOf,
  type LoweredRequest,
  passedOn,
  plainReasoning,
  refuse,
  refusePart,
  textOf,
  type ToolOffer,
  toolOffer,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfForeignReasoning,
  warnOfName,
  warnOfUnknown,
  withoutUndefined,
} from '../lowering.ts'
import type { Target } from '../protocol.ts'
import { type CohereQuirks, defaultQuirks } from './schema.ts'

/** Cohere's own fields, passed on unchanged. */
const ownFields = new Set(['documents', 'citation_options', 'safety_mode', 'strict_tools', 'priority'])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, top_logprobs and media that
 * Cohere does not accept, `invalid_request` for a choice of an unknown tool. `warnings` name what was dropped.
 */
export function lower(request: ChatRequest, target: Target<CohereQuirks>): LoweredRequest {
  const { sampling } = request
  refuse({ n: (sampling.n ?? 1) > 1, top_logprobs: (sampling.topLogprobs ?? 0) > 0 })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const { messages, documents } = conversationOf(request.messages, warn)
  const own = passedOn(request.rest, ownFields, warn)
  const given = Array.isArray(own.documents) ? own.documents : []
  const body: JsonObject = {
    ...own,
    model: target.model,
    messages,
    ...(documents.length === 0 ? {} : { documents: [...given, ...documents] }),
    ...toolsOf(request, toolOffer(request), warn),
    ...(request.maxOutputTokens === undefined ? {} : { max_tokens: request.maxOutputTokens }),
    ...samplingOf(request, warn),
    ...thinkingOf(request, target, quirks, warn),
    ...formatOf(request, warn),
    stream: request.stream,
  }
  warnOfUnknown(unknownLabels(request), warn)
  return { path: quirks.path, headers: {}, body, warnings }
}

function toolsOf(request: ChatRequest, offer: ToolOffer, warn: Warn): JsonObject {
  const { choice } = offer
  const tools = allowedFunctions(offer)
  if (tools.length === 0) return {}
  if (request.parallelToolCalls === false) {
    warn('parallel_tool_calls', 'This model may always call several tools at once; dropped.')
  }
  const strict = tools.some((tool) => tool.strict === true)
  return {
    tools: tools.map(functionTool),
    ...(strict && !('strict_tools' in request.rest) ? { strict_tools: true } : {}),
    // Cohere cannot be told which tool to call, so only that one is declared.
    ...(choice === 'auto' ? {} : { tool_choice: choice === 'none' ? 'NONE' : 'REQUIRED' }),
  }
}

/** The most stop sequences Cohere takes. */
const maxStops = 5

function samplingOf({ sampling }: ChatRequest, warn: Warn): JsonObject {
  const { temperature, stop, logprobs } = sampling
  warnOfUnknown(
    {
      min_p: sampling.minP,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
    },
    warn,
  )
  if ((stop?.length ?? 0) > maxStops)
    warn('stop', `The provider takes ${maxStops} stop sequences; the rest is left out.`)
  const within = (param: string, value: number | undefined, least: number, most: number) => {
    if (value === undefined || (value >= least && value <= most)) return value
    const sent = Math.min(Math.max(value, least), most)
    warn(param, `The provider takes ${least} to ${most}; ${sent} is sent.`)
    return sent
  }
  return withoutUndefined({
    temperature: within('temperature', temperature, 0, 1),
    p: within('top_p', sampling.topP, 0.01, 0.99),
    k: sampling.topK,
    seed: sampling.seed,
    frequency_penalty: within('frequency_penalty', sampling.frequencyPenalty, 0, 1),
    presence_penalty: within('presence_penalty', sampling.presencePenalty, 0, 1),
    stop_sequences: stop === undefined || stop.length === 0 ? undefined : stop.slice(0, maxStops),
    logprobs: logprobs === true ? true : undefined,
  })
}

function thinkingOf(
  { reasoning }: ChatRequest,
  target: Target<CohereQuirks>,
  quirks: CohereQuirks,
  warn: Warn,
): JsonObject {
  if (reasoning === undefined) return {}
  const off = reasoning.effort === 'none' || reasoning.enabled === false || reasoning.maxTokens === 0
  const thinks = target.reasoning || new RegExp(quirks.thinkers, 'i').test(target.model)
  if (!thinks) {
    if (!off) warn('reasoning', 'This model does not think.')
    return {}
  }
  if (reasoning.exclude === true) warn('reasoning.exclude', 'This provider always shows its thinking.')
  if (off) return { thinking: { type: 'disabled' } }
  const budget = reasoning.maxTokens ?? quirks.budgets[reasoning.effort ?? '']
  return { thinking: { type: 'enabled', ...(budget === undefined ? {} : { token_budget: budget }) } }
}

function formatOf({ responseFormat: format }: ChatRequest, warn: Warn): JsonObject {
  if (format === undefined || format.kind === 'text') return {}
  if (format.kind === 'json-object') return { response_format: { type: 'json_object' } }
  if (format.description !== undefined) {
    warn('response_format.json_schema.description', 'The provider has no place for it; dropped.')
  }
  return { response_format: { type: 'json_object', json_schema: format.schema } }
}

// Translates a conversation for Cohere: text before calls is a plan, text files are documents.

interface Conversation {
  readonly messages: JsonObject[]
  /** The users' text files, sent beside the messages. */
  readonly documents: readonly JsonObject[]
}

/** The messages to send. Throws `unsupported_parameter` for parts that Cohere does not accept. */
function conversationOf(messages: readonly Message[], warn: Warn): Conversation {
  const documents: JsonObject[] = []
  const wire = messages.flatMap((message, index): JsonObject[] => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        return [{ role: 'system', content: linesOf(message.content, `${param}.content`) }]
      case 'user':
        return [{ role: 'user', content: userContent(message.content, `${param}.content`, documents) }]
      case 'assistant':
        return assistantOf(message, param, warn)
      case 'tool':
        return [
          {
            role: 'tool',
            tool_call_id: message.toolCallId,
            content: linesOf(message.content, `${param}.content`),
          },
        ]
      default:
        return message satisfies never
    }
  })
  return { messages: wire, documents }
}

function userContent(
  parts: readonly ContentPart[],
  param: string,
  documents: JsonObject[],
): string | JsonObject[] {
  const [only] = parts
  if (parts.length === 1 && only?.kind === 'text') return only.text
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
      case 'refusal':
        return [{ type: 'text', text: part.text }]
      case 'image':
        return [imageOf(part, param)]
      case 'file':
        documents.push(documentOf(part, documents.length, param))
        return []
      default:
        return refusePart(part, param, 'text, images and text files')
    }
  })
}

function imageOf(part: Extract<ContentPart, { kind: 'image' }>, param: string): JsonObject {
  const { source, detail } = part
  if (source.kind === 'provider-file') return refusePart(part, param, 'images by address or inline')
  const url = source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.data}`
  const known = detail === 'auto' || detail === 'low' || detail === 'high'
  return { type: 'image_url', image_url: { url, ...(known ? { detail } : {}) } }
}

function documentOf(part: Extract<ContentPart, { kind: 'file' }>, number: number, param: string): JsonObject {
  const { source, filename } = part
  if (source.kind !== 'base64' || !/^text\/|^application\/(json|xml)\b/.test(source.mediaType)) {
    return refusePart(part, param, 'text, images and inline text files')
  }
  const text = Buffer.from(source.data, 'base64').toString('utf8')
  return { id: `doc:${number}`, data: { ...(filename === undefined ? {} : { title: filename }), text } }
}

/** Thinking is returned unchanged; text before calls is what Cohere calls their plan. */
function assistantOf(message: AssistantMessage, param: string, warn: Warn): JsonObject[] {
  const text = textOf(message.content, `${param}.content`)
  const thinking = plainReasoning(message.reasoning)
  warnOfForeignReasoning(message.reasoning, isPlain, param, warn)
  const thought: JsonObject[] = thinking === '' ? [] : [{ type: 'thinking', thinking }]
  if (message.toolCalls.length > 0) {
    return [
      {
        role: 'assistant',
        ...(thought.length === 0 ? {} : { content: thought }),
        ...(text === '' ? {} : { tool_plan: text }),
        tool_calls: message.toolCalls.map(({ id, name, arguments: json }) => ({
          id,
          type: 'function',
          function: { name, arguments: json },
        })),
      },
    ]
  }
  if (text === '' && thought.length === 0) {
    warn(param, 'The message is empty and is left out.')
    return []
  }
  return [{ role: 'assistant', content: thought.length === 0 ? text : [...thought, { type: 'text', text }] }]
}
