// Anthropic's Messages API for clients: checks and reads bodies, encodes answers.

import { type ChatEvent, type ChatResult, eventsOf } from '../../../conversation/event.ts'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import type { Usage } from '../../../conversation/usage.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { addresses, fieldsOf, forOtherProtocols, readGatewayTools, readRequest } from './read.ts'
import { promptParts, type PromptParts } from '../../request/prompt-parts.ts'
import type { AnswerContext, Bill, Envelope, Inbound, InboundRequest } from '../../protocol.ts'
import { EventEncoder, inputOf, isGatewayBlock, stopOf, wireError, wireUsage } from './encode.ts'
import { fateOf, readRouting, toolRefused, withoutOnline } from '../../request/gateway-tools.ts'
import { checkRequest, type MessagesRequest } from './schema.ts'

export const inbound: Inbound = {
  id: 'anthropic-messages',
  keepalive: new TextEncoder().encode('event: ping\ndata: {"type": "ping"}\n\n'),
  addresses,
  pauses: true,
  parse,
  whole,
  encoder: (context) => new EventEncoder(context),
  error: wireError,
  forOtherProtocols,
}

/** The provider of models that clients name without one. */
const home = 'anthropic'

/** The catalog id of the model a client names: `claude-sonnet-4-5` is Anthropic's. */
export function modelId(name: string): string {
  const model = withoutOnline(name)
  return model.includes('/') ? model : `${home}/${model}`
}

function parse(body: unknown): InboundRequest {
  const request = checkRequest(body)
  refuseProviderRun(request)
  const gatewayTools = readGatewayTools(request)
  return {
    envelope: envelopeOf(request),
    body: body as JsonObject,
    promptParts: promptOf(body as JsonObject),
    fields: fieldsOf(request),
    toChatRequest: () => readRequest(request),
    gatewayTools,
    translated: holdsRuns(request),
  }
}

/** The prompt of a body, also of one whose tokens are only counted. */
export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = {
  conversation: 'messages',
  instructions: 'system',
  declared: ['tools', 'output_config', 'output_format'],
}

/** Throws `unsupported_parameter` for a tool that Anthropic itself would run: its cost cannot be known in advance. */
function refuseProviderRun({ tools }: MessagesRequest): void {
  for (const [index, { type }] of (tools ?? []).entries()) {
    if (fateOf('anthropic-messages', { type }) === 'refused') throw toolRefused(type!, `tools.${index}.type`)
  }
}

/** Whether the history contains blocks of the gateway's tools, which Anthropic refuses because they are ours. */
function holdsRuns({ messages }: MessagesRequest): boolean {
  return messages.some(
    ({ role, content }) =>
      role === 'assistant' && typeof content !== 'string' && content.some(isGatewayBlock),
  )
}

function envelopeOf(request: MessagesRequest): Envelope {
  const { provider } = request
  return {
    model: modelId(request.model),
    fallbacks: (request.models ?? []).map(modelId),
    stream: request.stream === true,
    // The protocol always ends with the usage.
    includeUsage: true,
    maxOutputTokens: request.max_tokens,
    n: 1,
    routing: readRouting(provider),
    maxCost: request.max_cost ?? undefined,
    ...(request.cache != null && { cacheMs: request.cache.ttl * 1000 }),
    sessionId: request.session_id ?? undefined,
    strict: request.strict === true || provider?.require_parameters === true,
    onDisconnect: request.on_disconnect ?? undefined,
  }
}

/** A whole answer. Throws `upstream_error` for one that never ended: no stop reason is invented. */
function whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject {
  const choice = result.choices[0]
  if (choice?.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a stop reason.' })
  }
  return {
    id: context.id,
    type: 'message',
    role: 'assistant',
    model: context.model,
    content: blocksOf(result.events ?? eventsOf({ ...choice, index: 0 }), context),
    ...stopOf(choice.finish, choice.nativeFinish),
    stop_sequence: choice.stopSequence ?? null,
    usage: wireUsage(usage, bill),
    ...(context.warnings.length === 0
      ? {}
      : { warnings: context.warnings.map((warning) => ({ ...warning })) }),
    ...context.extra,
  }
}

/** The blocks of an answer, as its stream would have them. */
function blocksOf(events: readonly ChatEvent[], context: AnswerContext): Json[] {
  const encoder = new EventEncoder(context)
  const wire = [...events.flatMap((event) => encoder.wireEvents(event)), ...encoder.close()]
  const blocks: JsonObject[] = []
  for (const { type, content_block: block, delta } of wire) {
    if (type === 'content_block_start') blocks.push({ ...(block as JsonObject) })
    else if (type === 'content_block_delta') addDelta(delta as JsonObject, blocks.at(-1)!)
  }
  return blocks.map((block) => {
    const { partial_json: json, ...whole } = block
    return typeof json === 'string' ? { ...whole, input: inputOf(json) } : whole
  })
}

function addDelta({ type: _, ...fields }: JsonObject, block: JsonObject): void {
  for (const [field, value] of Object.entries(fields)) {
    if (field === 'citation')
      block['citations'] = [...((block['citations'] as Json[] | undefined) ?? []), value]
    else block[field] = typeof value === 'string' ? String(block[field] ?? '') + value : value
  }
}
