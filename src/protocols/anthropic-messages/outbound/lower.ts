// Translates a chat request to Anthropic's Messages API.

import type {
  AssistantMessage,
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  MediaSource,
  Message,
  ReasoningDetail,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import type { Steps } from '../../../json/json.ts'
import {
  answeredCallId,
  type BlockWriter,
  endTurns,
  missingResult,
  type Pending,
  stopsWithText,
  type Turn,
  turnsOf,
  turnToContinue,
  unansweredIds,
} from '../../claude/content-blocks.ts'
import {
  answerTool,
  compactionId,
  type ModelTraits,
  reasoningFormat,
  type Thinking,
  thinkingOf,
  traitsOf,
} from '../../claude/models.ts'
import {
  answerToolFor,
  argumentsSchema,
  begunWork,
  closedSchema,
  isWork,
  rootObjectOf,
  searchTools,
  ToolIds,
  warnOfDescribed,
  workBlocks,
} from '../../claude/tools.ts'
import { entryOf, isObject, nonEmpty, parseToolJson } from '../../lenient.ts'
import {
  isBlank,
  type LoweredRequest,
  outputBoundOf,
  refuseChoicesAndLogprobs,
  refuseContent,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfCitations,
  warnOfUnknown,
  withoutUndefined,
  wordsOfFile,
} from '../../lowering.ts'
import type { Target } from '../../protocol.ts'
import { type AnthropicQuirks, defaultQuirks } from './quirks.ts'

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, logprobs and media that Claude
 * does not accept, `invalid_request` for a conversation that the API would refuse. `warnings` name what was dropped or
 * changed.
 */
export function* lower(request: ChatRequest, target: Target<AnthropicQuirks>): Steps<LoweredRequest> {
  const { rest } = request
  refuseChoicesAndLogprobs(request)
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const traits = traitsOf(target.model, target.reasoning, quirks.traits)

  warnOfCitations(request, warn)
  const carried = { compaction: 'context_management' in rest, searches: request.webSearch !== undefined }
  const { system, turns } = yield* conversationOf(request.messages, carried, traits, warn)
  yield
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
  const { maxOutputTokens: asked, reasoning } = request
  if (asked !== undefined) return outputBoundOf(request, target, warn) ?? asked
  if (target.maxOutputTokens !== undefined) return target.maxOutputTokens
  const sent = (reasoning?.maxTokens ?? 0) + quirks.defaultMaxTokens
  warn('max_tokens', `The provider demands a limit and none is known: ${sent} is sent.`)
  return sent
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
  const stops = stopsWithText(sampling.stop, warn)
  return {
    ...distribution(request, traits, thinking, warn),
    ...(stops.length === 0 ? {} : { stop_sequences: stops }),
  }
}

function warnOfForeign(values: Readonly<Record<string, unknown>>, warn: Warn): void {
  warnOfUnknown(values, (param) => warn(param, "This model's provider does not know it."))
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
  const answer = format === undefined ? answerToolFor(request.responseFormat) : undefined
  const offered = offeredTools(request)
  const declared = [
    ...offered.map((tool) => toolOf(tool, traits, warn)),
    ...providerTools(request.rest.tools),
    ...searchTools(request),
    ...(answer === undefined
      ? []
      : [{ name: answer.name, description: answer.description, input_schema: answer.schema }]),
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

// Arranges a conversation for the API: one system prompt, alternating user and assistant turns, a result for every
// call.

interface Conversation {
  readonly system: Json | undefined
  readonly turns: readonly Turn[]
}

/**
 * The messages as turns. Throws GatewayError `invalid_request` for a result without its call, and
 * `unsupported_parameter` for parts Claude cannot take. `compaction`: whether compaction blocks may go back;
 * `searches`: whether what Anthropic's search has found may.
 */
function* conversationOf(
  messages: readonly Message[],
  { compaction, searches }: Pick<AssistantContext, 'compaction' | 'searches'>,
  { prefill }: Pick<ModelTraits, 'prefill'>,
  warn: Warn,
): Steps<Conversation> {
  const writer: BlockWriter = {
    system: textBlocksOf,
    user: (said, pending) => userContent(said, pending, warn),
    assistant: (message, ids, param) => assistantContent(message, ids, { param, compaction, searches, warn }),
  }
  const ids = new ToolIds(messages, Number.POSITIVE_INFINITY)
  const { system, turns } = yield* turnsOf(messages, ids, writer, warn)
  const last = messages.at(-1)
  const paused = last?.role === 'assistant' && last.paused === true
  endTurns(turns, prefill || paused ? 'continues' : 'must-be-asked', (text) => ({ type: 'text', text }), warn)
  return { system: systemOf(system), turns }
}

/** A plain string like the client's, unless a cache mark must stay with its block. */
function systemOf(blocks: readonly JsonObject[]): Json | undefined {
  if (blocks.length === 0) return undefined
  if (blocks.some((block) => 'cache_control' in block)) return [...blocks]
  return blocks.map((block) => block.text).join('\n')
}

// ---- user -------------------------------------------------------------------------------------------------

/** All results first, one per call, then the user's text. */
function userContent(
  said: readonly { message: Message; param: string }[],
  pending: Pending,
  warn: Warn,
): JsonObject[] {
  const results = new Map<string, JsonObject>()
  const words: JsonObject[] = []
  for (const { message, param } of said) {
    if (message.role !== 'tool') {
      words.push(...blocksOf(message.content, `${param}.content`))
      continue
    }
    const id = answeredCallId(message, pending, param)
    results.set(id, resultBlock(message, id, results.get(id), `${param}.content`))
  }
  for (const id of unansweredIds(pending, results, warn)) {
    results.set(id, { type: 'tool_result', tool_use_id: id, content: missingResult, is_error: true })
  }
  return [...results.values(), ...words]
}

/** A result. A second one for the same call is merged into the first, because the API takes only one. */
function resultBlock(
  message: ToolMessage,
  id: string,
  before: JsonObject | undefined,
  param: string,
): JsonObject {
  const mark = message.content.findLast((part) => 'cache' in part && part.cache !== undefined)
  const content = blocksOf(message.content, param).map(unmarkBlock)
  const all = Array.isArray(before?.content) ? before.content : []
  // Appended in place: copying the list for every result of a call would be quadratic.
  for (const block of content) all.push(block)
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(all.length === 0 ? {} : { content: all }),
    ...(message.isError || before?.is_error === true ? { is_error: true } : {}),
    // Only blocks of the message itself can carry a cache mark, so one inside the result is moved to its block.
    ...(mark !== undefined && 'cache' in mark ? cacheControl(mark.cache) : {}),
  }
}

function unmarkBlock(block: JsonObject): JsonObject {
  if (!('cache_control' in block)) return block
  const copy = { ...block }
  delete copy.cache_control
  return copy
}

// ---- assistant --------------------------------------------------------------------------------------------

interface AssistantContext {
  readonly param: string
  readonly compaction: boolean
  readonly searches: boolean
  readonly warn: Warn
}

/** Reasoning first, as the API requires for a turn with calls, then the text, then the calls. */
function assistantContent(message: AssistantMessage, ids: Pending, context: AssistantContext): JsonObject[] {
  const { param, warn } = context
  const media = message.content.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (media !== undefined) refuseContent(`no ${media.kind} in assistant messages`, `${param}.content`)
  const said = [
    ...blocksOf(message.content, `${param}.content`),
    ...message.toolCalls.map((call) => ({
      type: 'tool_use',
      id: ids.get(call.id)!,
      name: call.name,
      input: inputOf(call.arguments, `${param}.tool_calls`, warn),
      ...cacheControl(call.cache),
    })),
  ]
  if (message.reasoning.length === 0) return said
  const thought = reasoningBlocks(
    message.reasoning.filter((detail) => !isWork(detail)),
    context,
  )
  // The API accepts them only together with the tool; without it, the text based on them stays.
  const work = context.searches ? workBlocks(message.reasoning) : []
  // A paused turn continues from its last block, which may be a search without a result.
  if (message.paused) return [...thought, ...work, ...said, ...begunWork(message.reasoning)]
  if (said.length > 0) thought.push(...work)
  if (said.length > 0 || thought.length === 0) return [...thought, ...said]
  // The API refuses a turn that ends in thinking.
  warn(param, 'The message has nothing but reasoning and is left out.')
  return []
}

function reasoningBlocks(details: readonly ReasoningDetail[], context: AssistantContext): JsonObject[] {
  const ordered = details.toSorted((a, b) => a.index - b.index)
  const blocks = ordered.map((detail) => reasoningBlock(detail, context.compaction))
  if (blocks.includes(undefined)) {
    context.warn(
      `${context.param}.reasoning_details`,
      'Reasoning that this provider did not sign cannot go back to it and is left out.',
    )
  }
  return blocks.filter((block) => block !== undefined)
}

/** The original block of a detail, byte for byte; undefined for details of other protocols. */
function reasoningBlock(detail: ReasoningDetail, compaction: boolean): JsonObject | undefined {
  if (detail.format !== reasoningFormat) return undefined
  if (detail.type === 'reasoning.text' && detail.signature) {
    return { type: 'thinking', thinking: detail.text ?? '', signature: detail.signature }
  }
  if (detail.type === 'reasoning.encrypted' && detail.data) {
    return { type: 'redacted_thinking', data: detail.data }
  }
  if (detail.type === 'reasoning.summary' && detail.id === compactionId && compaction) {
    return { type: 'compaction', content: detail.summary ?? '' }
  }
  return undefined
}

function inputOf(text: string, param: string, warn: Warn): JsonObject {
  if (isBlank(text)) return {}
  const input = parseToolJson(text)
  if (isObject(input)) return input
  // The API only takes objects, and the model should see what it wrote.
  warn(param, 'The arguments of a call are not a JSON object; the model is shown their text.')
  return { invalid_arguments: text }
}

/** Whether the API would refuse thinking: the assistant turn to continue does not begin with its original thinking. */
export function lostItsThinking(turns: readonly Turn[]): boolean {
  const turn = turnToContinue(turns, ({ type }) => type === 'tool_use')
  if (turn === undefined) return false
  const first = turn.content.find((block) => block.type !== 'compaction')?.type
  return first !== 'thinking' && first !== 'redacted_thinking'
}

// Translates parts of a message to content blocks.

/** A cache mark on the wire; five minutes is the protocol's default and left out. */
function cacheControl(mark: CacheMark | undefined): JsonObject {
  if (mark === undefined) return {}
  return { cache_control: mark.ttl === '1h' ? { type: 'ephemeral', ttl: '1h' } : { type: 'ephemeral' } }
}

type Part<K extends ContentPart['kind']> = Extract<ContentPart, { kind: K }>

/**
 * The blocks of these parts, in order. Blank text is dropped because the API refuses it. `param` names the message in
 * errors. Throws GatewayError `unsupported_parameter` for media that Claude does not accept.
 */
function blocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text, ...cacheControl(part.cache) }]
      case 'refusal':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text }]
      case 'image':
        return [imageBlock(part, param)]
      case 'file':
        return [fileBlock(part, param)]
      case 'audio':
      case 'video':
        return refuseContent(`no ${part.kind}`, param)
      default:
        return part satisfies never
    }
  })
}

/** Text blocks for parts that must all be text (system messages). Throws for any other part. */
function textBlocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  const other = parts.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (other !== undefined) refuseContent(`only text here, not ${other.kind}`, param)
  return blocksOf(parts, param)
}

const imageTypes: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

function imageBlock({ source, cache }: Part<'image' | 'file'>, param: string): JsonObject {
  const stated = mediaTypeOf(source)
  // Some clients send the file extension as the type.
  const mediaType = stated === 'image/jpg' ? 'image/jpeg' : stated
  if (mediaType !== undefined && !imageTypes.has(mediaType))
    refuseContent(`JPEG, PNG, GIF and WebP images, not ${mediaType}`, param)
  const wire = sourceOf(source)
  return {
    type: 'image',
    source: mediaType === undefined ? wire : { ...wire, media_type: mediaType },
    ...cacheControl(cache),
  }
}

/** The media type in lower case and without parameters; undefined for an address. */
function mediaTypeOf(source: MediaSource): string | undefined {
  return source.kind === 'base64' ? source.mediaType.split(';')[0]!.trim().toLowerCase() : undefined
}

function fileBlock(part: Part<'file'>, param: string): JsonObject {
  const { source } = part
  const mediaType = mediaTypeOf(source)
  if (mediaType?.startsWith('image/')) return imageBlock(part, param)
  return {
    type: 'document',
    source: documentSource(part, mediaType, param),
    ...(part.filename === undefined ? {} : { title: part.filename }),
    ...(part.context === undefined ? {} : { context: part.context }),
    ...cacheControl(part.cache),
  }
}

function documentSource(part: Part<'file'>, mediaType: string | undefined, param: string): JsonObject {
  const { source } = part
  if (source.kind !== 'base64' || mediaType === 'application/pdf') return sourceOf(source)
  const words = wordsOfFile(part)
  // The document block only has plain text.
  if (words !== undefined) return { type: 'text', media_type: 'text/plain', data: words }
  return refuseContent(`PDF, text and image files, not ${source.mediaType}`, param)
}

function sourceOf(source: MediaSource): JsonObject {
  switch (source.kind) {
    case 'url':
      return { type: 'url', url: source.url }
    case 'base64':
      return { type: 'base64', media_type: source.mediaType, data: source.data }
    case 'provider-file':
      return { type: 'file', file_id: source.id }
    default:
      return source satisfies never
  }
}
