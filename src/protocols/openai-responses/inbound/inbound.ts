// The Responses protocol for clients. Answers repeat the request and may be stored, so each request has its own
// inbound.

import { type ChatResult, eventsOf } from '../../../conversation/event.ts'
import type { JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { entryOf } from '../../lenient.ts'
import type { AnswerContext, Bill, Inbound, InboundRequest } from '../../protocol.ts'
import { type PromptParts, promptParts } from '../../request/prompt-parts.ts'
import { keepaliveComment } from '../../framing/sse.ts'
import {
  addresses,
  chatRequest,
  checkedRequest,
  completeItems,
  withoutRepeats,
  droppedOf,
  envelopeOf,
  fieldsOf,
  readGatewayTools,
  type Recalled,
  refuseContradictions,
} from './read.ts'
import { type AnswerHooks, type ResponseSettings, inputItemId, ResponseEncoder } from './encode.ts'
import { clientTools, clientToolTypes, forOtherProtocols } from '../../openai/client-tools.ts'
import { placedRuns } from './items.ts'
import { type InputItem, kindOf, type ResponsesRequest } from './schema.ts'
import { placedTools } from './tools.ts'

/** The prompt of a request, including the conversation that it continues. */
export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = { conversation: 'input', instructions: 'instructions', declared: ['tools', 'text'] }

export interface ResponsesCall {
  readonly inbound: Inbound
  readonly request: InboundRequest
  /** The items of the request itself, completed. */
  readonly items: readonly InputItem[]
}

/**
 * A checked request, with its stored items, as a call. `hooks` are called with its answer. Throws GatewayError
 * `invalid_request` for contradictions, and `unsupported_parameter` if the request is strict.
 */
export function responsesCall(
  request: ResponsesRequest,
  recalled: Recalled,
  hooks: AnswerHooks,
): ResponsesCall {
  const history = recalled.history as readonly InputItem[]
  const items = withoutRepeats(completeItems(request, recalled), history)
  refuseContradictions(request, history, items)
  const all = [...history, ...items]
  const placed = placedTools(request, all, history.length)
  const warnings = droppedOf(request, placed)
  const encrypted = request.include?.includes('reasoning.encrypted_content') === true
  const gatewayTools = readGatewayTools(request, placed, placedRuns(all, history.length))
  // In the background, or in a conversation: that is between the gateway and its client.
  const { background: _background, conversation: _conversation, ...asked } = request as unknown as JsonObject
  const body: JsonObject = { ...asked, input: all as unknown as JsonObject[] }
  const settings: ResponseSettings = { request, placed, encrypted, hooks }
  return {
    items,
    inbound: {
      id: 'openai-responses',
      keepalive: keepaliveComment,
      addresses,
      error: (error) => error,
      whenKept: hooks.kept,
      whenHeld: hooks.held,
      parse: (body) => responsesCall(checkedRequest(body), recalled, hooks).request,
      whole: (result, usage, bill, context) => wholeResponse(settings, result, usage, bill, context),
      encoder: (context) => new ResponseEncoder(settings, context),
      forOtherProtocols,
    },
    request: {
      envelope: envelopeOf(request),
      body,
      promptParts: promptOf(body),
      warnings,
      fields: fieldsOf(request, all, history.length),
      toChatRequest: () => chatRequest(request, all, history.length),
      gatewayTools,
    },
  }
}

/** Throws `upstream_error` for an answer that never ended: its status is unknown. */
function wholeResponse(
  settings: ResponseSettings,
  result: ChatResult,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
): JsonObject {
  const choice = result.choices[0]
  if (choice?.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  const encoder = new ResponseEncoder(settings, context, 'whole')
  for (const event of result.events ?? eventsOf(choice)) encoder.event(event)
  return encoder.conclude(usage, bill)
}

const idPrefixes: Readonly<Record<string, string>> = {
  message: 'msg',
  function_call: 'fc',
  function_call_output: 'fco',
  reasoning: 'rs',
  ...Object.fromEntries(clientToolTypes.map((type) => [clientTools[type].call, clientTools[type].idPrefix])),
  ...Object.fromEntries(
    clientToolTypes.map((type) => [clientTools[type].result, `${clientTools[type].idPrefix}o`]),
  ),
  image_generation_call: 'ig',
  web_search_call: 'ws',
  mcp_list_tools: 'mcpl',
  mcp_call: 'mcp',
  mcp_approval_request: 'mcpr',
  mcp_approval_response: 'mcpa',
}

/** The items of a request as they are stored and listed: with type, id, and content as parts. */
export function listedItems(items: readonly InputItem[], requestId: string): JsonObject[] {
  return items.map((item, at): JsonObject => {
    const kind = kindOf(item)
    const id =
      typeof item['id'] === 'string'
        ? item['id']
        : inputItemId(entryOf(idPrefixes, kind) ?? 'item', requestId, at)
    const { content, role } = item as { content?: unknown; role?: unknown }
    const parts: JsonObject =
      kind === 'message' && typeof content === 'string'
        ? { content: [textPart(content, role === 'assistant')] }
        : {}
    return { status: 'completed', ...(item as unknown as JsonObject), ...parts, type: kind, id }
  })
}

function textPart(text: string, said: boolean): JsonObject {
  return said ? { type: 'output_text', text, annotations: [], logprobs: [] } : { type: 'input_text', text }
}
