// Gemini's Interactions for clients (ai.google.dev, "Interactions API"). An interaction is a response in Google's words:
// its request is read as one of the Responses protocol, and its answer is written from one, so that both share what is
// stored and continued.

import { z } from 'zod'
import type { ChatEvent } from '../../conversation/event.ts'
import type { Json, JsonObject } from '../../conversation/request.ts'
import type { Usage } from '../../conversation/usage.ts'
import type { RenderedError } from '../../errors/errors.ts'
import type { Frame } from '../framing/sse.ts'
import { entryOf, isObject, objectsIn, parseJson, parseToolJson, present } from '../lenient.ts'
import type { AnswerContext, Bill, Inbound, StreamEncoder } from '../protocol.ts'
import { invalidParam, invalidRequest, safeParsed, seed, unsupportedParam } from '../request/fields.ts'
import { gatewayShape } from '../request/gateway-tools.ts'

// ---- the request --------------------------------------------------------------------------------------------

const text = z.string()
const json = z.looseObject({})
const flag = z.boolean()

const content = z.looseObject({ type: text })
const step = z.looseObject({ type: text })

const generationConfig = z.looseObject({
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  seed: seed.nullish(),
  stop_sequences: z.array(text).nullish(),
  max_output_tokens: z.int().min(1).nullish(),
  thinking_level: z.enum(['minimal', 'low', 'medium', 'high']).nullish(),
  thinking_summaries: text.nullish(),
  tool_choice: z.union([text, json]).nullish(),
})

export const createInteractionRequest = z.looseObject({
  model: text.min(1).describe('A name without a provider is Gemini’s.'),
  input: z
    .union([text, content, z.array(step)])
    .describe(
      'A text, contents (`text`, `image`, `audio`, `document`, `video`), or steps of a conversation.',
    ),
  previous_interaction_id: text.nullish(),
  system_instruction: text.nullish(),
  generation_config: generationConfig.nullish(),
  tools: z.array(z.looseObject({ type: text })).nullish(),
  response_format: z.union([json, z.array(json)]).nullish(),
  response_mime_type: text.nullish(),
  response_modalities: z.array(text).nullish(),
  safety_settings: z.array(z.looseObject({ threshold: text })).nullish(),
  service_tier: text.nullish(),
  labels: z.record(text, text).nullish(),
  store: flag.nullish(),
  stream: flag.nullish(),
  ...gatewayShape,
})

type InteractionRequest = z.infer<typeof createInteractionRequest>

/** Fields of Google's that would be lost here, and are refused. */
const refused = [
  'agent',
  'agent_config',
  'background',
  'cached_content',
  'continuation_token',
  'environment',
  'webhook_config',
] as const

/** Fields of the gateway's own, which mean the same here. */
const ours = Object.keys(gatewayShape)

/**
 * An interaction's body as one of the Responses protocol. Throws `invalid_request`, and `unsupported_parameter` for what
 * would be lost, naming the client's field.
 */
export function responsesBody(body: JsonObject): JsonObject {
  for (const field of refused)
    if (body[field] != null && body[field] !== false)
      throw unsupportedParam(field, 'it is not served here; send the request without it.')
  const { data, error } = safeParsed(createInteractionRequest, body)
  if (error) throw invalidRequest(error)
  if (data.safety_settings?.some(({ threshold }) => !/^(block_none|off|.*unspecified)$/i.test(threshold)))
    throw unsupportedParam(
      'safety_settings',
      'settings that block something are served by generateContent alone.',
    )
  if (data.response_modalities?.some((modality) => modality.toLowerCase() !== 'text'))
    throw unsupportedParam('response_modalities', 'an interaction answers with text here.')
  const config = data.generation_config ?? {}
  const known: ReadonlySet<string> = new Set(Object.keys(createInteractionRequest.shape))
  const others = Object.entries(body).filter(([name]) => !known.has(name))
  return present<JsonObject>({
    // Named by the reader of responses, as any unknown field is.
    ...Object.fromEntries(others),
    ...Object.fromEntries(ours.map((field) => [field, body[field]])),
    model: modelOf(data.model),
    input: itemsOf(data.input),
    instructions: data.system_instruction,
    previous_response_id:
      data.previous_interaction_id == null ? undefined : responseIdOf(data.previous_interaction_id),
    store: data.store,
    stream: data.stream,
    metadata: data.labels,
    service_tier: data.service_tier === 'standard' ? 'default' : data.service_tier,
    // A client that keeps the conversation itself sends the signatures of thoughts back.
    include: ['reasoning.encrypted_content'],
    max_output_tokens: config.max_output_tokens,
    temperature: config.temperature,
    top_p: config.top_p,
    seed: config.seed as Json | undefined,
    stop: config.stop_sequences,
    reasoning: reasoningOf(config),
    tools: data.tools == null ? undefined : (data.tools as unknown as TypedObject[]).map(toolOf),
    tool_choice: toolChoiceOf(config.tool_choice as Json | undefined),
    text: formatOf(data),
  })
}

/** The catalog id of a model: a name without a provider is Gemini's. */
function modelOf(name: string): string {
  const plain = name.replace(/^models\//, '')
  return plain.includes('/') ? plain : `gemini/${plain}`
}

function reasoningOf(config: NonNullable<InteractionRequest['generation_config']>): JsonObject | undefined {
  const { thinking_level: effort, thinking_summaries: summaries } = config
  const reasoning = present<JsonObject>({ effort, summary: summaries === 'auto' ? 'auto' : undefined })
  return Object.keys(reasoning).length === 0 ? undefined : reasoning
}

/** What Google tells apart by its type. */
type TypedObject = JsonObject & { type: string }

function toolOf(tool: TypedObject, at: number): JsonObject {
  switch (tool.type) {
    case 'function': {
      const { name = '', description, parameters } = tool
      return present<JsonObject>({ type: 'function', name, description, parameters, strict: false })
    }
    case 'google_search':
      return { type: 'web_search' }
    case 'mcp_server': {
      const { name, url, headers, allowed_tools } = tool
      const allowed = objectsIn(allowed_tools).flatMap(({ tools }) => (Array.isArray(tools) ? tools : []))
      return present<JsonObject>({
        type: 'mcp',
        server_label: name ?? `server_${at}`,
        server_url: url,
        headers,
        allowed_tools: allowed.length === 0 ? undefined : allowed,
        require_approval: 'never',
      })
    }
    default:
      throw unsupportedParam(`tools[${at}]`, `'${tool.type}' is run by Google alone, and is not served here.`)
  }
}

function toolChoiceOf(choice: Json | undefined): Json | undefined {
  const { mode, tools } = isObject(choice) && isObject(choice['allowed_tools']) ? choice['allowed_tools'] : {}
  const word = (typeof choice === 'string' ? choice : typeof mode === 'string' ? mode : 'auto').toLowerCase()
  if (word === 'none') return 'none'
  const isForced = word === 'any'
  if (!Array.isArray(tools) || tools.length === 0) return isForced ? 'required' : undefined
  return {
    type: 'allowed_tools',
    mode: isForced ? 'required' : 'auto',
    tools: tools.map((name) => ({ type: 'function', name })),
  }
}

function formatOf({ response_format, response_mime_type }: InteractionRequest): JsonObject | undefined {
  const formats = Array.isArray(response_format)
    ? response_format
    : response_format == null
      ? []
      : [response_format]
  const [format] = formats
  if (formats.length > 1) throw unsupportedParam('response_format', 'one format is served.')
  const { type = 'text', mime_type = response_mime_type, schema } = (format ?? {}) as JsonObject
  // What has no type of Google's is a schema itself.
  if (format !== undefined && type !== 'text') return schemaFormat(format as JsonObject)
  if (mime_type != null && mime_type !== 'application/json' && mime_type !== 'text/plain')
    throw unsupportedParam('response_format.mime_type', 'send application/json or text/plain.')
  if (isObject(schema)) return schemaFormat(schema)
  return mime_type === 'application/json' ? { format: { type: 'json_object' } } : undefined
}

function schemaFormat(schema: JsonObject): JsonObject {
  if (['audio', 'image', 'video'].includes(String(schema['type'])))
    throw unsupportedParam('response_format', 'an interaction answers with text here.')
  return { format: { type: 'json_schema', name: 'answer', schema } }
}

// ---- the conversation ---------------------------------------------------------------------------------------

const contentTypes: ReadonlySet<string> = new Set(['text', 'image', 'audio', 'document', 'video'])

/** Contents alone are what the user says; steps are a conversation. */
function itemsOf(input: InteractionRequest['input']): Json {
  if (typeof input === 'string') return input
  const list = (Array.isArray(input) ? input : [input]) as TypedObject[]
  if (list.length > 0 && list.every(({ type }) => contentTypes.has(type)))
    return [{ type: 'message', role: 'user', content: list.map((part, at) => partOf(part, `input[${at}]`)) }]
  return list.map((each, at) => itemOf(each, `input[${at}]`))
}

function itemOf(given: TypedObject, param: string): JsonObject {
  const contents = objectsIn(given['content'])
  switch (given.type) {
    case 'user_input':
      return {
        type: 'message',
        role: 'user',
        content: contents.map((part, at) => partOf(part, `${param}.content[${at}]`)),
      }
    case 'model_output':
      return {
        type: 'message',
        role: 'assistant',
        content: contents.map((part, at) => {
          if (part['type'] !== 'text')
            throw unsupportedParam(`${param}.content[${at}]`, 'of an earlier answer its text is taken back.')
          return { type: 'output_text', text: part['text'] ?? '', annotations: [] }
        }),
      }
    case 'thought': {
      const summaries = objectsIn(given['summary'])
      return present<JsonObject>({
        type: 'reasoning',
        summary: summaries.map((part) => ({ type: 'summary_text', text: part['text'] ?? '' })),
        encrypted_content: given['signature'],
      })
    }
    case 'function_call':
      return {
        type: 'function_call',
        call_id: given['id'] ?? '',
        name: given['name'] ?? '',
        arguments: JSON.stringify(given['arguments'] ?? {}),
      }
    case 'function_result':
      return { type: 'function_call_output', call_id: given['call_id'] ?? '', output: resultOf(given, param) }
    default:
      throw unsupportedParam(param, `a step of the type '${given.type}' is not taken back.`)
  }
}

/** An error is told in words, as the Responses protocol has no field for it. */
function resultOf({ result, is_error }: JsonObject, param: string): Json {
  const failed = is_error === true ? 'The function failed: ' : ''
  if (typeof result === 'string') return failed + result
  const isContent = (each: Json) => isObject(each) && contentTypes.has(String(each['type']))
  if (!Array.isArray(result) || !result.every(isContent)) return failed + JSON.stringify(result ?? null)
  const parts = result.filter(isObject).map((part, at) => partOf(part, `${param}.result[${at}]`))
  return failed === '' ? parts : [{ type: 'input_text', text: failed }, ...parts]
}

function partOf(part: JsonObject, param: string): JsonObject {
  const { type, text: said, data, uri, mime_type: mime } = part
  if (type === 'text') return { type: 'input_text', text: said ?? '' }
  const isInline = typeof data === 'string'
  if (!isInline && typeof uri !== 'string') throw invalidParam(param, 'it has neither data nor uri.')
  const media = typeof mime === 'string' ? mime : undefined
  const address = isInline ? `data:${media ?? defaultTypes[String(type)]};base64,${data}` : String(uri)
  switch (type) {
    case 'image':
      return { type: 'input_image', image_url: address }
    case 'document':
      return isInline
        ? { type: 'input_file', filename: 'document', file_data: address }
        : { type: 'input_file', file_url: address }
    case 'audio':
      if (!isInline) throw unsupportedParam(param, 'audio is taken as data.')
      return { type: 'input_audio', input_audio: { data, format: (media ?? 'audio/wav').split('/')[1]! } }
    default:
      throw unsupportedParam(param, 'video is served by generateContent alone.')
  }
}

const defaultTypes: Readonly<Record<string, string>> = { image: 'image/png', document: 'application/pdf' }

// ---- the answer ---------------------------------------------------------------------------------------------

/** Ids of interactions and of the responses that they are. */
export function responseIdOf(interaction: string): string {
  return interaction.replace(/^int_/, 'resp_')
}

function interactionIdOf(response: Json | undefined): string {
  return String(response).replace(/^resp_/, 'int_')
}

const usage = z.looseObject({
  total_input_tokens: z.int(),
  total_cached_tokens: z.int(),
  total_output_tokens: z.int(),
  total_thought_tokens: z.int(),
  total_tokens: z.int(),
  cost: z.number(),
})

export const interactionObject = z.looseObject({
  id: text,
  object: z.literal('interaction'),
  status: z.enum(['in_progress', 'completed', 'requires_action', 'incomplete', 'failed', 'cancelled']),
  model: text,
  created: text,
  updated: text,
  steps: z.array(step),
  usage: usage.optional(),
})

export const interactionEvent = z.looseObject({
  event_type: z.enum([
    'interaction.created',
    'interaction.status_update',
    'interaction.completed',
    'step.start',
    'step.delta',
    'step.stop',
    'error',
  ]),
})

export const interactionError = z.looseObject({ error: z.looseObject({ code: text, message: text }) })

/** An error as the clients of interactions read it. */
export function wireError({ error }: RenderedError): JsonObject {
  const { code, message, param, metadata } = error
  return { error: { code, message, ...(param === null ? {} : { param }), metadata: metadata as JsonObject } }
}

/** A whole response as an interaction. */
export function interactionOf(response: JsonObject): JsonObject {
  const output = objectsIn(response['output'])
  const { previous_response_id: previous, error, warnings, mode } = response
  return present<JsonObject>({
    ...headOf(response),
    steps: output.flatMap(stepsOf),
    errors: isObject(error) ? [{ code: error['code'] ?? '', message: error['message'] ?? '' }] : undefined,
    previous_interaction_id: typeof previous === 'string' ? interactionIdOf(previous) : undefined,
    warnings,
    mode,
  })
}

function headOf(response: JsonObject): JsonObject {
  const { id, model, created_at: created, completed_at: completed } = response
  const at = (seconds: Json | undefined) => new Date(Number(seconds ?? created ?? 0) * 1000).toISOString()
  return present<JsonObject>({
    id: interactionIdOf(id),
    object: 'interaction',
    status: statusOf(response),
    model,
    created: at(created),
    updated: at(completed),
    usage: isObject(response['usage']) ? usageOf(response['usage']) : undefined,
  })
}

function statusOf({ status, output }: JsonObject): Json {
  const calls =
    Array.isArray(output) && output.some((item) => isObject(item) && item['type'] === 'function_call')
  return status === 'completed' && calls ? 'requires_action' : (status ?? 'completed')
}

function usageOf(counted: JsonObject): JsonObject {
  const number = (value: Json | undefined) => (typeof value === 'number' ? value : 0)
  const within = (name: string, field: string) => {
    const details = counted[name]
    return isObject(details) ? number(details[field]) : 0
  }
  const thoughts = within('output_tokens_details', 'reasoning_tokens')
  return present<JsonObject>({
    total_input_tokens: number(counted['input_tokens']),
    total_cached_tokens: within('input_tokens_details', 'cached_tokens'),
    total_output_tokens: number(counted['output_tokens']) - thoughts,
    total_thought_tokens: thoughts,
    total_tokens: number(counted['total_tokens']),
    cost: counted['cost'],
    cost_details: counted['cost_details'],
  })
}

/** The steps of an item. */
function stepsOf(item: JsonObject): JsonObject[] {
  switch (item['type']) {
    case 'message':
      return [{ type: 'model_output', content: textsOf(item['content']) }]
    case 'reasoning': {
      const parts = [...objectsIn(item['summary']), ...objectsIn(item['content'])]
      const summary = parts.map((part) => ({ type: 'text', text: part['text'] ?? '' }))
      return [present<JsonObject>({ type: 'thought', summary, signature: item['encrypted_content'] })]
    }
    case 'function_call': {
      const given = parseToolJson(String(item['arguments'] ?? '{}'))
      return [
        {
          ...callOf(item),
          arguments: isObject(given) ? given : { invalid_arguments: item['arguments'] ?? '' },
        },
      ]
    }
    case 'web_search_call': {
      const action = isObject(item['action']) ? item['action'] : {}
      const queries = Array.isArray(action['queries']) ? action['queries'] : [action['query'] ?? '']
      const id = item['id'] ?? ''
      return [
        { type: 'google_search_call', id, arguments: { queries } },
        { type: 'google_search_result', call_id: id, result: [] },
      ]
    }
    case 'mcp_call': {
      const { id = '', name = '', server_label: server_name = '', arguments: given, output, error } = item
      const read = parseToolJson(String(given ?? '{}'))
      return [
        { type: 'mcp_server_tool_call', id, name, server_name, arguments: isObject(read) ? read : {} },
        {
          type: 'mcp_server_tool_result',
          call_id: id,
          name,
          server_name,
          result: (output ?? error ?? '') as Json,
        },
      ]
    }
    case 'image_generation_call':
      return [
        {
          type: 'model_output',
          content: [{ type: 'image', mime_type: 'image/png', data: item['result'] ?? '' }],
        },
      ]
    default:
      return []
  }
}

function callOf({ call_id: id = '', name = '' }: JsonObject): JsonObject {
  return { type: 'function_call', id, name }
}

function textsOf(parts: Json | undefined): JsonObject[] {
  return objectsIn(parts).map((part): JsonObject => {
    const cited = objectsIn(part['annotations']).map(citationOf)
    return {
      type: 'text',
      text: part['text'] ?? part['refusal'] ?? '',
      ...(cited.length === 0 ? {} : { annotations: cited }),
    }
  })
}

/** Google counts bytes, the response characters: the source is told, and not its place. */
function citationOf({ url, title }: JsonObject): JsonObject {
  return present<JsonObject>({ type: 'url_citation', url, title })
}

// ---- the stream ---------------------------------------------------------------------------------------------

const endOfStream: Frame = { event: 'done', data: '[DONE]' }

function frameOf(event: JsonObject): Frame {
  return { event: String(event['event_type']), data: JSON.stringify(event) }
}

function startOf(index: number, step: JsonObject): JsonObject {
  return { event_type: 'step.start', index, step }
}

function changeOf(index: number, delta: JsonObject): JsonObject {
  return { event_type: 'step.delta', index, delta }
}

function stopOf(index: number): JsonObject {
  return { event_type: 'step.stop', index }
}

/** What items with a stream of their own begin as. */
const begunSteps: Readonly<Record<string, JsonObject>> = {
  message: { type: 'model_output' },
  reasoning: { type: 'thought' },
}

/** Turns the events of a response into those of an interaction. */
class InteractionEvents {
  /** The step of each output item that has begun. */
  readonly #steps = new Map<Json | undefined, number>()
  #count = 0

  of(event: JsonObject): JsonObject[] {
    const { type, response, output_index: place, item, delta } = event
    const whole = isObject(response) ? response : {}
    const index = this.#steps.get(place)
    const change = (made: JsonObject): JsonObject[] => (index === undefined ? [] : [changeOf(index, made)])
    switch (type) {
      case 'response.created':
        return [{ event_type: 'interaction.created', interaction: headOf(whole) }]
      case 'response.in_progress':
        return [
          {
            event_type: 'interaction.status_update',
            interaction_id: interactionIdOf(whole['id']),
            status: 'in_progress',
          },
        ]
      case 'response.output_item.added':
        return isObject(item) ? this.#begin(place, item) : []
      case 'response.output_item.done':
        return isObject(item) ? this.#end(place, item) : []
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return change({ type: 'text', text: delta ?? '' })
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return change({ type: 'thought_summary', content: { type: 'text', text: delta ?? '' } })
      case 'response.function_call_arguments.delta':
        return change({ type: 'arguments_delta', arguments: delta ?? '' })
      case 'response.output_text.annotation.added': {
        const { annotation } = event
        return isObject(annotation)
          ? change({ type: 'text_annotation_delta', annotations: [citationOf(annotation)] })
          : []
      }
      case 'error':
        return [
          { event_type: 'error', error: { code: event['code'] ?? '', message: event['message'] ?? '' } },
        ]
      case 'response.completed':
      case 'response.incomplete':
      case 'response.failed':
        return [{ event_type: 'interaction.completed', interaction: headOf(whole) }]
      default:
        return []
    }
  }

  /** Items that come whole are steps at their end. */
  #begin(place: Json | undefined, item: JsonObject): JsonObject[] {
    const calls: JsonObject = { ...callOf(item), arguments: {} }
    const begun = item['type'] === 'function_call' ? calls : entryOf(begunSteps, String(item['type']))
    if (begun === undefined) return []
    this.#steps.set(place, this.#count)
    return [startOf(this.#count++, begun)]
  }

  #end(place: Json | undefined, item: JsonObject): JsonObject[] {
    const index = this.#steps.get(place)
    if (index === undefined)
      return stepsOf(item).flatMap((whole): JsonObject[] => {
        const at = this.#count++
        return [startOf(at, whole), stopOf(at)]
      })
    const { encrypted_content: signature } = item
    const signed =
      typeof signature === 'string' ? [changeOf(index, { type: 'thought_signature', signature })] : []
    return [...signed, stopOf(index)]
  }
}

/** Writes the stream of an interaction from that of its response. */
class InteractionEncoder implements StreamEncoder {
  readonly #inner: StreamEncoder
  readonly #events = new InteractionEvents()

  constructor(inner: StreamEncoder) {
    this.#inner = inner
  }

  start(): readonly Frame[] {
    return this.#translate(this.#inner.start())
  }

  event(event: ChatEvent): readonly Frame[] {
    return this.#translate(this.#inner.event(event))
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    return [...this.#translate(this.#inner.finish(usage, bill)), endOfStream]
  }

  fail(error: RenderedError): readonly Frame[] {
    return [...this.#translate(this.#inner.fail(error)), endOfStream]
  }

  cancel(usage: Usage, bill: Bill): void {
    this.#inner.cancel?.(usage, bill)
  }

  #translate(frames: readonly Frame[]): readonly Frame[] {
    return frames.flatMap((frame) => {
      const event = parseJson(frame.data)
      return isObject(event) ? this.#events.of(event).map(frameOf) : []
    })
  }
}

/** The frames of a stored interaction: what its stream would have said, each text in one piece. */
export function framesOf(response: JsonObject): readonly Frame[] {
  const interaction = interactionOf(response)
  const { steps, ...head } = interaction
  const events: JsonObject[] = [
    { event_type: 'interaction.created', interaction: { ...head, status: 'in_progress' } },
    ...objectsIn(steps).flatMap((whole, index): JsonObject[] => [
      ...eventsOfStep(whole, index),
      stopOf(index),
    ]),
    { event_type: 'interaction.completed', interaction: head },
  ]
  return [...events.map(frameOf), endOfStream]
}

function eventsOfStep(whole: JsonObject, index: number): JsonObject[] {
  const start = (begun: JsonObject) => startOf(index, begun)
  const change = (delta: JsonObject) => changeOf(index, delta)
  switch (whole['type']) {
    case 'model_output':
      return [start({ type: 'model_output' }), ...objectsIn(whole['content']).map(change)]
    case 'thought':
      return [
        start({ type: 'thought' }),
        ...objectsIn(whole['summary']).map((part) => change({ type: 'thought_summary', content: part })),
        ...(whole['signature'] === undefined
          ? []
          : [change({ type: 'thought_signature', signature: whole['signature'] })]),
      ]
    case 'function_call':
      return [
        start({ ...whole, arguments: {} }),
        change({ type: 'arguments_delta', arguments: JSON.stringify(whole['arguments'] ?? {}) }),
      ]
    default:
      return [start(whole)]
  }
}

/** The inbound of a response, for a client of interactions. */
export function asInteraction(responses: Inbound): Inbound {
  return {
    ...responses,
    error: wireError,
    whole: (result, counted, bill, context: AnswerContext) =>
      interactionOf(responses.whole(result, counted, bill, context)),
    encoder: (context) => new InteractionEncoder(responses.encoder(context)),
  }
}
