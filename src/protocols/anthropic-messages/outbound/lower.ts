// Translates a chat request to Anthropic's Messages API.

import type { ChatRequest, FunctionTool, Json, JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import type { Turn } from '../../claude/content-blocks.ts'
import { answerTool, type ModelTraits, type Thinking, thinkingOf, traitsOf } from '../../claude/models.ts'
import { argumentsSchema, closedSchema, rootObjectOf, warnOfDescribed } from '../../claude/tool-schemas.ts'
import { searchTools } from '../../claude/tools.ts'
import { entryOf, isObject, nonEmpty } from '../../lenient.ts'
import {
  asksNothing,
  isBlank,
  type LoweredRequest,
  outputBoundOf,
  refuse,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfCitations,
  withoutUndefined,
} from '../../lowering.ts'
import type { Target } from '../../protocol.ts'
import { conversationOf, lostItsThinking } from './messages.ts'
import { type AnthropicQuirks, defaultQuirks } from './quirks.ts'
import { cacheControl } from './schema.ts'

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, logprobs and media that Claude
 * does not accept, `invalid_request` for a conversation that the API would refuse. `warnings` name what was dropped or
 * changed.
 */
export function lower(request: ChatRequest, target: Target<AnthropicQuirks>): LoweredRequest {
  const { rest, sampling } = request
  refuse({
    n: (sampling.n ?? 1) > 1,
    logprobs: sampling.logprobs === true,
    top_logprobs: (sampling.topLogprobs ?? 0) > 0,
  })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const traits = traitsOf(target.model, target.reasoning, quirks.traits)

  warnOfCitations(request, warn)
  const carried = { compaction: 'context_management' in rest, searches: request.webSearch !== undefined }
  const { system, turns } = conversationOf(request.messages, carried, traits, warn)
  const tooling = toolingOf(request, turns, traits, warn)
  const maxTokens = maxTokensOf(request, target, quirks, warn)
  const thinking = thinkingOf({
    reasoning: request.reasoning,
    native: rest.thinking,
    traits,
    maxTokens,
    forced: tooling.forced,
    lost: lostItsThinking(turns),
    warn,
  })
  const path = request.stream ? quirks.streamPath : quirks.path
  const modelInPath = path.includes('{model}')
  const body: JsonObject = {
    ...passedOn(rest, warn),
    ...(modelInPath ? {} : { model: target.model }),
    ...(quirks.versionIn === 'body' ? { anthropic_version: quirks.version } : {}),
    max_tokens: maxTokens,
    ...(system === undefined ? {} : { system }),
    messages: turns.map(({ role, content }) => ({ role, content })),
    ...(tooling.tools.length === 0 ? {} : { tools: [...tooling.tools] }),
    ...(tooling.choice === undefined ? {} : { tool_choice: tooling.choice }),
    ...(thinking.field === undefined ? {} : { thinking: thinking.field }),
    ...outputConfig(rest.output_config, tooling.format, thinking.effort),
    ...samplingOf(request, traits, thinking, warn),
    ...labelsOf(request, rest, warn),
    ...(request.stream && quirks.streamIn === 'body' ? { stream: true } : {}),
  }
  return {
    path: path.replaceAll('{model}', encodeURIComponent(target.model)),
    headers: headersOf(quirks, rest, turns),
    body,
    warnings,
  }
}

/** The protocol requires max_tokens: the client's, else the model's maximum, else one every model supports. */
function maxTokensOf(
  request: ChatRequest,
  target: Target<AnthropicQuirks>,
  quirks: AnthropicQuirks,
  warn: Warn,
): number {
  const asked = request.maxOutputTokens
  const most = target.maxOutputTokens
  if (asked === undefined) {
    if (most !== undefined) return most
    const budget = request.reasoning?.maxTokens ?? 0
    warn(
      'max_tokens',
      `The provider demands a limit and none is known: ${budget + quirks.defaultMaxTokens} is sent.`,
    )
    return budget + quirks.defaultMaxTokens
  }
  return outputBoundOf(request, target, warn) ?? asked
}

// ---- sampling and labels ----------------------------------------------------------------------------------

function samplingOf(request: ChatRequest, traits: ModelTraits, thinking: Thinking, warn: Warn): JsonObject {
  const { sampling } = request
  const unknown = {
    seed: sampling.seed,
    frequency_penalty: sampling.frequencyPenalty,
    presence_penalty: sampling.presencePenalty,
    repetition_penalty: sampling.repetitionPenalty,
    logit_bias: sampling.logitBias,
    min_p: sampling.minP,
  }
  warnOfForeign(unknown, warn)
  return { ...distribution(request, traits, thinking, warn), ...stopsOf(request, warn) }
}

function warnOfForeign(values: Readonly<Record<string, unknown>>, warn: Warn): void {
  for (const [param, value] of Object.entries(values)) {
    if (!asksNothing(param, value)) warn(param, "This model's provider does not know it.")
  }
}

function distribution(request: ChatRequest, traits: ModelTraits, thinking: Thinking, warn: Warn): JsonObject {
  const { temperature, topP, topK } = request.sampling
  const clamped = temperature === undefined ? undefined : Math.min(Math.max(temperature, 0), 1)
  const asked: Record<string, number | undefined> = { temperature: clamped, top_p: topP, top_k: topK }
  const drop = (param: string, message: string) => {
    if (asked[param] !== undefined) warn(param, message)
    asked[param] = undefined
  }
  if (traits.sampling === 'neither') {
    for (const param of Object.keys(asked)) drop(param, 'This model takes no sampling parameters.')
  } else if (thinking.on) {
    const message = 'The model cannot be given this while it thinks.'
    if (clamped !== 1) drop('temperature', message)
    if (topP !== undefined && topP < 0.95) drop('top_p', message)
    drop('top_k', message)
  }
  if (traits.sampling === 'one' && asked.temperature !== undefined) {
    drop('top_p', 'This model takes temperature or top_p, not both.')
  }
  if (asked.temperature !== undefined && clamped !== temperature) {
    warn('temperature', `The provider takes 0 to 1; ${clamped} is sent.`)
  }
  return withoutUndefined(asked)
}

function stopsOf(request: ChatRequest, warn: Warn): JsonObject {
  const stops = request.sampling.stop ?? []
  const fit = stops.filter((stop) => !isBlank(stop))
  if (fit.length < stops.length)
    warn('stop', 'The provider refuses stop sequences of white space; they are left out.')
  return fit.length === 0 ? {} : { stop_sequences: fit }
}

/** OpenAI's service tiers in Anthropic's words. */
const serviceTiers: Readonly<Record<string, string>> = {
  auto: 'auto',
  default: 'standard_only',
  standard_only: 'standard_only',
}

function labelsOf(request: ChatRequest, rest: JsonObject, warn: Warn): JsonObject {
  const { user, safetyIdentifier, serviceTier } = request.labels
  const { prompt_cache_key, verbosity, store, metadata } = unknownLabels(request)
  warnOfForeign({ prompt_cache_key, verbosity, store, metadata }, warn)
  const tier = serviceTier === undefined ? undefined : entryOf(serviceTiers, serviceTier)
  if (serviceTier !== undefined && tier === undefined) warn('service_tier', 'The provider has no such tier.')
  const userId = user ?? safetyIdentifier
  return {
    ...(userId === undefined || 'metadata' in rest ? {} : { metadata: { user_id: userId } }),
    ...(tier === undefined ? {} : { service_tier: tier }),
  }
}

// ---- Anthropic's own fields -------------------------------------------------------------------------------

/** Fields of the client that are read elsewhere in this file, or by the gateway. */
const readFields = new Set(['thinking', 'output_config', 'tools', 'betas'])

function passedOn(rest: JsonObject, warn: Warn): JsonObject {
  const passed: JsonObject = {}
  for (const [field, value] of Object.entries(rest)) {
    if (passedFields.has(field)) passed[field] = value
    else if (isPricedApart(field, value)) warn(field, 'The prices here are those without it; dropped.')
    else if (!readFields.has(field) && !isTiered(field)) warnOfForeign({ [field]: value }, warn)
  }
  return passed
}

function outputConfig(
  native: Json | undefined,
  format: JsonObject | undefined,
  effort: string | undefined,
): JsonObject {
  const own = isObject(native) ? native : {}
  const config: JsonObject = {
    ...(format === undefined ? {} : { format }),
    ...(effort === undefined ? {} : { effort }),
    ...own,
  }
  return Object.keys(config).length === 0 ? {} : { output_config: config }
}

function headersOf(
  quirks: AnthropicQuirks,
  rest: JsonObject,
  turns: readonly Turn[],
): Record<string, string> {
  const files = usesFiles(turns) ? ['files-api-2025-04-14'] : []
  const asked = quirks.takesBetas ? rest.betas : undefined
  return {
    ...(quirks.versionIn === 'header' ? { 'anthropic-version': quirks.version } : {}),
    ...betaHeader([...quirks.betas, ...files], asked),
  }
}

/** Whether a block, or one inside a tool result, refers to a file uploaded to the provider. */
function usesFiles(turns: readonly Turn[]): boolean {
  const isFile = (block: Json): boolean =>
    isObject(block) &&
    ((isObject(block.source) && block.source.type === 'file') ||
      (Array.isArray(block.content) && block.content.some(isFile)))
  return turns.some((turn) => turn.content.some(isFile))
}

// An allow-list of client fields that may be sent to Claude unchanged. An unknown field may have a price of its own,
// like a faster mode, another region, or Anthropic's own tools.

/** Fields without an equivalent elsewhere that do not affect the price. */
const passedFields: ReadonlySet<string> = new Set([
  'cache_control',
  'context_management',
  'diagnostics',
  'metadata',
  'user_profile_id',
])

/** Fields whose other values cost more than the catalog's price, with the values that do not. */
const standardValues: Readonly<Record<string, readonly Json[]>> = {
  // With skills a container runs code, billed by the hour.
  container: [],
  fallbacks: [],
  inference_geo: ['global', 'not_available'],
  mcp_servers: [],
  service_tier: ['auto', 'standard_only'],
  speed: ['standard'],
}

/** The fields of every Messages request. */
const protocolFields: ReadonlySet<string> = new Set([
  'betas',
  'max_tokens',
  'messages',
  'model',
  'output_config',
  'output_format',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])

/** Whether a field asks for something with a price of its own, which we could not charge. */
function isPricedApart(field: string, value: Json | undefined): boolean {
  if (!Object.hasOwn(standardValues, field)) return false
  const nothing = value == null || (Array.isArray(value) && value.length === 0)
  return !nothing && !standardValues[field]!.includes(value)
}

/** Whether the price depends on the field's value; the standard value needs no warning. */
function isTiered(field: string): boolean {
  return Object.hasOwn(standardValues, field)
}

/** How Anthropic treats a field of the client's body: known, separately priced, or unknown. */
export function kindOfField(field: string, value: Json | undefined): 'known' | 'priced' | 'unknown' {
  if (isPricedApart(field, value)) return 'priced'
  return isTiered(field) || protocolFields.has(field) || passedFields.has(field) ? 'known' : 'unknown'
}

// Anthropic's beta features, requested by a header.

/** Valid feature names. A line break or an illegal character would make the request impossible to send. */
const name = /^[\w.:-]{1,128}$/
/** More than clients use; providers refuse headers of more than a few kilobytes. */
const mostFeatures = 48

/** The header for these features and those in the client's `betas`. */
export function betaHeader(features: readonly string[], asked: Json | undefined): Record<string, string> {
  const clients = Array.isArray(asked)
    ? asked.filter((beta) => typeof beta === 'string' && name.test(beta))
    : []
  const betas = [...new Set([...features, ...clients])].slice(0, mostFeatures)
  return betas.length === 0 ? {} : { 'anthropic-beta': betas.join(',') }
}

// The older text completion protocol, which Claude 2 and Claude Instant still use at Amazon.

/**
 * The equivalent events for a whole completion or a part of a streamed one; undefined for anything else. Only Amazon's
 * streams count tokens, in the metrics of their last part.
 */
export function eventsOfCompletion(value: unknown): readonly JsonObject[] | undefined {
  if (!isObject(value) || typeof value['completion'] !== 'string') return undefined
  const { completion, stop_reason } = value
  const text = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: completion } }
  if (typeof stop_reason !== 'string') return [text]
  const metrics = value['amazon-bedrock-invocationMetrics']
  const usage = isObject(metrics)
    ? { input_tokens: metrics['inputTokenCount'] ?? null, output_tokens: metrics['outputTokenCount'] ?? null }
    : null
  return [text, { type: 'message_delta', delta: { stop_reason }, usage }, { type: 'message_stop' }]
}

// Tools, tool choice and structured output, which on older models is emulated by a tool.

interface Tooling {
  readonly tools: readonly JsonObject[]
  readonly choice: JsonObject | undefined
  /** `output_config.format`, where the model knows it. */
  readonly format: JsonObject | undefined
  /** Whether the model must call a tool. */
  readonly forced: boolean
}

/** The tools and choice to send. Throws `invalid_request` if the choice names an unknown tool. */
function toolingOf(request: ChatRequest, turns: readonly Turn[], traits: ModelTraits, warn: Warn): Tooling {
  const format = formatOf(request, traits, warn)
  const answer = format === undefined ? answerToolOf(request) : undefined
  const offered = offeredTools(request)
  const declared = [
    ...offered.map((tool) => toolOf(tool, traits, warn)),
    ...providerTools(request.rest.tools),
    ...searchTools(request),
    ...(answer === undefined ? [] : [answer]),
  ]
  if (declared.length === 0) return { ...historyTools(turns), format, forced: false }

  const wanted = choiceOf(request, declared, answer !== undefined)
  const forced = wanted?.type === 'any' || wanted?.type === 'tool'
  if (forced && traits.thinkingOff === 'never') {
    warn('tool_choice', 'This model always thinks and cannot be made to call a tool; it decides by itself.')
    return { tools: declared, choice: parallel(request, { type: 'auto' }), format, forced: false }
  }
  return { tools: declared, choice: parallel(request, wanted), format, forced }
}

// ---- tools ------------------------------------------------------------------------------------------------

/** All tools, or those that the choice allows. */
function offeredTools(request: ChatRequest): readonly FunctionTool[] {
  const choice = request.toolChoice
  if (choice?.kind !== 'allowed') return request.tools
  const allowed = request.tools.filter((tool) => choice.names.includes(tool.name))
  if (allowed.length === 0) {
    throw new GatewayError('invalid_request', {
      message: 'tool_choice allows no tool of this request.',
      param: 'tool_choice',
    })
  }
  return allowed
}

function toolOf(tool: FunctionTool, traits: ModelTraits, warn: Warn): JsonObject {
  const strict = tool.strict === true ? strictSchema(tool, traits, warn) : undefined
  return {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    input_schema: strict ?? argumentsSchema(tool, warn),
    ...(strict === undefined ? {} : { strict: true }),
    ...cacheControl(tool.cache),
  }
}

/** The argument schema of a strict tool, if the model supports strict tools and this schema. */
function strictSchema(tool: FunctionTool, traits: ModelTraits, warn: Warn): JsonObject | undefined {
  const { schema, merged } = rootObjectOf(tool.parameters)
  const asked = tool.parameters === undefined ? { ...schema, additionalProperties: false } : schema
  const closed = traits.schema === 'native' && !merged ? closedSchema(asked) : undefined
  if (closed === undefined) {
    warn('tools', `This model cannot be held to the schema of ${tool.name}: it is not strict.`)
    return undefined
  }
  warnOfDescribed(closed, 'tools', warn)
  return closed.schema
}

/** Types of tools that Anthropic runs or defines: most have a date in their name. */
const providerToolType = /_\d{8}$|^mcp_toolset$|^tool_search_tool_/

/** Tools that Anthropic runs or defines, as the client sent them. */
function providerTools(rest: Json | undefined): JsonObject[] {
  if (!Array.isArray(rest)) return []
  return rest.filter(isObject).filter((tool) => providerToolType.test(nonEmpty(tool.type) ?? ''))
}

/** The API requires declarations for all tools called in the history, even if none may be called now. */
function historyTools(turns: readonly Turn[]): Pick<Tooling, 'tools' | 'choice'> {
  const calls = turns.flatMap((turn) => turn.content.filter((block) => block.type === 'tool_use'))
  const names = [...new Set(calls.map((block) => block.name))]
  if (names.length === 0) return { tools: [], choice: undefined }
  return {
    tools: names.map((name) => ({ name: name!, input_schema: { type: 'object', properties: {} } })),
    choice: { type: 'none' },
  }
}

// ---- choice -----------------------------------------------------------------------------------------------

function choiceOf(
  request: ChatRequest,
  declared: readonly JsonObject[],
  answers: boolean,
): JsonObject | undefined {
  const choice = request.toolChoice
  switch (choice?.kind) {
    case 'function':
      if (!declared.some((tool) => tool.name === choice.name)) {
        throw new GatewayError('invalid_request', {
          message: `tool_choice names ${JSON.stringify(choice.name)}, which is not among the tools.`,
          param: 'tool_choice',
        })
      }
      return { type: 'tool', name: choice.name }
    case 'required':
      return { type: 'any' }
    case 'allowed':
      return choice.mode === 'required' || answers ? { type: 'any' } : { type: 'auto' }
    case 'none':
      return answers ? theAnswer : { type: 'none' }
    case 'auto':
    case undefined:
      if (answers) return declared.length === 1 ? theAnswer : { type: 'any' }
      return choice === undefined ? undefined : { type: 'auto' }
    default:
      return choice satisfies never
  }
}

/** Not in parallel: two calls would be two texts, one after the other. */
const theAnswer: JsonObject = { type: 'tool', name: answerTool, disable_parallel_tool_use: true }

/** `parallel_tool_calls: false` is a property of the choice, which is created if necessary. */
function parallel(request: ChatRequest, choice: JsonObject | undefined): JsonObject | undefined {
  if (request.parallelToolCalls !== false || choice?.type === 'none') return choice
  return { ...(choice ?? { type: 'auto' }), disable_parallel_tool_use: true }
}

// ---- the answer's shape -----------------------------------------------------------------------------------

function formatOf(request: ChatRequest, traits: ModelTraits, warn: Warn): JsonObject | undefined {
  const format = request.responseFormat
  if (format?.kind !== 'json-schema' || traits.schema !== 'native') return undefined
  const closed = closedSchema(format.schema)
  if (closed === undefined) return undefined
  warnOfDescribed(closed, 'response_format', warn)
  return { type: 'json_schema', schema: closed.schema }
}

/** The tool that carries the answer, for a schema that the model does not support natively. */
function answerToolOf(request: ChatRequest): JsonObject | undefined {
  const format = request.responseFormat
  if (format === undefined || format.kind === 'text') return undefined
  const asked = format.kind === 'json-schema' ? format : undefined
  const description = 'Gives the final answer to the user. The arguments are the answer.'
  return {
    name: answerTool,
    description: asked?.description === undefined ? description : `${description} ${asked.description}`,
    // Without a schema (JSON mode) any object is accepted.
    input_schema: { ...(asked?.schema ?? { additionalProperties: true }), type: 'object' },
  }
}
