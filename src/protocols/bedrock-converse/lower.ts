// Translates a chat request to Bedrock's Converse API.

import type {
  AssistantMessage,
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
} from '../../conversation/request.ts'
import type { Steps } from '../../json/json.ts'
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
} from '../claude/content-blocks.ts'
import { answerTool, reasoningFormat, thinkingOf, traitsOf } from '../claude/models.ts'
import { answerToolFor, argumentsSchema, closedSchema, ToolIds, warnOfDescribed } from '../claude/tools.ts'
import { entryOf, isObject } from '../lenient.ts'
import {
  allowedFunctions,
  argumentsObject,
  isBlank,
  isReasoningOff,
  type LoweredRequest,
  outputBoundOf,
  passedOn,
  refuseChoicesAndLogprobs,
  refusePart,
  textTypeOf,
  threeEfforts,
  type ToolOffer,
  toolOffer,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfForeignReasoning,
  warnOfUnknown,
} from '../lowering.ts'
import { FreeNames } from '../names.ts'
import type { Target } from '../protocol.ts'

export interface BedrockQuirks {
  /** `max_tokens` for a model with a thinking budget if neither the client nor the catalog knows one. */
  readonly defaultMaxTokens: number
  /** The guardrail of every request (`guardrailConfig`); clients cannot set one. */
  readonly guardrailConfig: JsonObject | undefined
}

export const defaultQuirks: BedrockQuirks = { defaultMaxTokens: 16_384, guardrailConfig: undefined }

/** Several rules apply only to Claude among Bedrock's models. */
export function isClaude(model: string): boolean {
  return /claude/i.test(model)
}

/**
 * Bedrock's own fields, passed on unchanged. `serviceTier` and `performanceConfig` have prices of their own, and
 * guardrails are billed and the operator's decision.
 */
const ownFields = new Set([
  'additionalModelRequestFields',
  'additionalModelResponseFieldPaths',
  'outputConfig',
  'promptVariables',
  'requestMetadata',
  'thinking',
])

/** Of Claude's own answer: Converse says that a stop sequence ended it, but not which. */
const stopSequencePath = '/stop_sequence'

/** Model-specific fields beside Converse's: sampling and thinking, but no other output limit. */
const modelFields = new Set([
  'anthropic_beta',
  'inferenceConfig',
  'k',
  'output_config',
  'p',
  'reasoningConfig',
  'reasoning_config',
  'reasoning_effort',
  'thinking',
  'topK',
  'top_k',
])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, logprobs and media that
 * Bedrock cannot take, `invalid_request` for a conversation it would refuse. What is dropped is named in `warnings`.
 */
export function* lower(request: ChatRequest, target: Target<BedrockQuirks>): Steps<LoweredRequest> {
  refuseChoicesAndLogprobs(request)
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const family = familyOf(target.model)
  const { system, turns } = yield* conversationOf(request, target.model, warn)
  yield
  const tooling = toolingOf(request, turns, target.model, family, warn)
  const thinking = thinkingFields(request, target, quirks, family, turns, tooling.forced, warn)
  const {
    additionalModelRequestFields: given,
    additionalModelResponseFieldPaths: paths,
    thinking: _read,
    ...own
  } = passedOn(request.rest, ownFields, warn)
  const sampled = samplingOf(request, family, target.model, thinking.on, warn)
  const extra = { ...thinking.fields, ...sampled.extra, ...modelFieldsOf(given, warn) }
  const maxTokens = outputBoundOf(request, target, warn) ?? thinking.maxTokens
  const inference = { ...(maxTokens === undefined ? {} : { maxTokens }), ...sampled.inference }
  const namesStop = isClaude(target.model) && 'stopSequences' in inference
  const answerFields = [...(Array.isArray(paths) ? paths : []), ...(namesStop ? [stopSequencePath] : [])]
  const marks = family.caches
    ? turns
    : turns.map((turn) => ({ ...turn, content: withoutMarks(turn.content) }))
  const body: JsonObject = {
    messages: marks.map(({ role, content }) => ({ role, content })),
    ...(system.length === 0 ? {} : { system: family.caches ? [...system] : withoutMarks(system) }),
    ...(Object.keys(inference).length === 0 ? {} : { inferenceConfig: inference }),
    ...(tooling.config === undefined ? {} : { toolConfig: tooling.config }),
    ...(Object.keys(extra).length === 0 ? {} : { additionalModelRequestFields: extra }),
    ...(answerFields.length === 0 ? {} : { additionalModelResponseFieldPaths: [...new Set(answerFields)] }),
    ...(tooling.output === undefined ? {} : { outputConfig: tooling.output }),
    ...own,
    ...(target.serviceTier === undefined ? {} : { serviceTier: { type: target.serviceTier } }),
    ...(quirks.guardrailConfig === undefined ? {} : { guardrailConfig: quirks.guardrailConfig }),
  }
  warnOfUnknown(unknownLabels(request, target.serviceTier), warn)
  const method = request.stream ? 'converse-stream' : 'converse'
  // A colon and the slashes of an ARN must be escaped, or the signature is for another path.
  const path = `/model/${encodeURIComponent(target.model)}/${method}`
  return { path, headers: {}, body, warnings }
}

/** The client's model-specific fields; those that might lift a limit or cost more are dropped with a warning. */
function modelFieldsOf(given: Json | undefined, warn: Warn): JsonObject {
  if (!isObject(given)) return {}
  const fields: JsonObject = {}
  for (const [name, value] of Object.entries(given)) {
    const param = `additionalModelRequestFields.${name}`
    if (!modelFields.has(name)) warn(param, 'It could change the price or the length of the answer; dropped.')
    else if (name === 'inferenceConfig') Object.assign(fields, novaConfig(value, param, warn))
    else fields[name] = value
  }
  return fields
}

/** Nova's own sampling; its bound is Converse's. */
function novaConfig(value: Json, param: string, warn: Warn): JsonObject {
  const { topK, ...others }: JsonObject = isObject(value) ? value : {}
  for (const name of Object.keys(others)) warn(`${param}.${name}`, 'Only topK may stand here; dropped.')
  return topK === undefined ? {} : { inferenceConfig: { topK } }
}

function withoutMarks(blocks: readonly JsonObject[]): JsonObject[] {
  return blocks.filter((block) => !('cachePoint' in block))
}

interface ThinkingFields {
  readonly fields: JsonObject
  /** The max_tokens that a thinking budget requires, if the client set none. */
  readonly maxTokens: number | undefined
  readonly on: boolean
}

function thinkingFields(
  request: ChatRequest,
  target: Target<BedrockQuirks>,
  quirks: BedrockQuirks,
  family: Family,
  turns: readonly Turn[],
  forced: boolean,
  warn: Warn,
): ThinkingFields {
  const { reasoning } = request
  if (isClaude(target.model)) {
    const most = target.maxOutputTokens ?? quirks.defaultMaxTokens
    const maxTokens = Math.min(
      request.maxOutputTokens ?? most,
      target.maxOutputTokens ?? Number.POSITIVE_INFINITY,
    )
    const { field, effort, on } = thinkingOf({
      reasoning,
      native: request.rest.thinking,
      traits: traitsOf(target.model, target.reasoning, {}),
      maxTokens,
      forced,
      lost: lostItsThinking(turns),
      warn,
    })
    const bounded = isObject(field) && 'budget_tokens' in field
    return {
      fields: {
        ...(field === undefined ? {} : { thinking: field }),
        ...(effort === undefined ? {} : { output_config: { effort } }),
      },
      maxTokens: bounded ? maxTokens : undefined,
      on,
    }
  }
  const nothing: ThinkingFields = { fields: {}, maxTokens: undefined, on: false }
  if (reasoning === undefined) return nothing
  const off = isReasoningOff(reasoning)
  if (family.effort === undefined) {
    if (!off) warn('reasoning', 'How hard this model thinks cannot be set.')
    return nothing
  }
  if (!off && reasoning.maxTokens !== undefined) {
    warn('reasoning.max_tokens', 'This model takes no budget; it decides by itself how much to think.')
  }
  return { ...nothing, fields: family.effort(off ? 'none' : reasoning.effort) ?? {} }
}

function samplingOf(
  { sampling }: ChatRequest,
  family: Family,
  model: string,
  thinks: boolean,
  warn: Warn,
): { readonly inference: JsonObject; readonly extra: JsonObject } {
  warnOfUnknown(
    {
      seed: sampling.seed,
      min_p: sampling.minP,
      frequency_penalty: sampling.frequencyPenalty,
      presence_penalty: sampling.presencePenalty,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
    },
    warn,
  )
  const allowed = isClaude(model) ? traitsOf(model, false, {}).sampling : 'both'
  const keep = (param: string, value: number | undefined, forbidden: boolean): number | undefined => {
    if (value === undefined || !forbidden) return value
    warn(param, 'This model cannot be given this here.')
    return undefined
  }
  const none = allowed === 'neither'
  const asked = sampling.temperature
  const clamped = asked === undefined ? undefined : Math.min(Math.max(asked, 0), 1)
  if (clamped !== asked) warn('temperature', `The provider takes 0 to 1; ${clamped} is sent.`)
  const temperature = keep('temperature', clamped, none || (thinks && clamped !== 1))
  const topP = keep(
    'top_p',
    sampling.topP,
    none || (thinks && (sampling.topP ?? 1) < 0.95) || (allowed === 'one' && temperature !== undefined),
  )
  const topK = keep('top_k', sampling.topK, none || thinks || family.topK === undefined)
  const stops = stopsWithText(sampling.stop, warn)
  return {
    inference: {
      ...(temperature === undefined ? {} : { temperature }),
      ...(topP === undefined ? {} : { topP }),
      ...(stops.length === 0 ? {} : { stopSequences: stops }),
    },
    extra: topK === undefined ? {} : (family.topK?.(topK) ?? {}),
  }
}

// Arranges a conversation for Converse: separate system prompt, alternating user and assistant turns, a result for
// every call.

interface Context {
  readonly documents: DocumentNames
  readonly model: string
  readonly warn: Warn
}

/**
 * The messages as turns. Throws GatewayError `invalid_request` for a result without its call, and
 * `unsupported_parameter` for parts that Bedrock cannot take.
 */
function* conversationOf(request: ChatRequest, model: string, warn: Warn): ReturnType<typeof turnsOf> {
  const context: Context = { documents: new DocumentNames(), model, warn }
  const writer: BlockWriter = {
    system: (parts, param) => systemBlocks(parts, param, context),
    user: (said, pending) => userContent(said, pending, context),
    assistant: (message, ids, param) => assistantContent(message, ids, param, context),
  }
  const ids = new ToolIds(request.messages, longestName)
  const { system, turns } = yield* turnsOf(request.messages, ids, writer, warn)
  if (turns[0]!.role === 'assistant') {
    warn(
      'messages',
      `The provider demands that the user speaks first: "${opening}" is put before the greeting.`,
    )
    turns.unshift({ role: 'user', content: [{ text: opening }] })
  }
  const asked = isClaude(model) && !traitsOf(model, false, {}).prefill
  endTurns(turns, asked ? 'must-be-asked' : 'continues', (text) => ({ text }), warn)
  return { system, turns }
}

/** The user message inserted before an assistant that speaks first. Blank text would be refused. */
const opening = '.'

function systemBlocks(parts: readonly ContentPart[], param: string, context: Context): JsonObject[] {
  const other = parts.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  return other === undefined
    ? blocksOf(parts, param, context.documents)
    : refusePart(other, param, 'only text')
}

// ---- user -------------------------------------------------------------------------------------------------

/** All results first, one per call, then the user's text. */
function userContent(
  said: readonly { message: Message; param: string }[],
  pending: Pending,
  { documents, warn }: Context,
): JsonObject[] {
  const results = new Map<string, { content: JsonObject[]; failed: boolean; mark: JsonObject[] }>()
  const words: JsonObject[] = []
  for (const { message, param } of said) {
    if (message.role !== 'tool') {
      words.push(...blocksOf(message.content, `${param}.content`, documents))
      continue
    }
    const id = answeredCallId(message, pending, param)
    const blocks = blocksOf(message.content, `${param}.content`, documents)
    const known = results.get(id)
    const content = known?.content ?? []
    // Appended in place: copying the list for every result of a call would be quadratic.
    for (const block of blocks) if (!('cachePoint' in block)) content.push(block)
    results.set(id, {
      content,
      failed: message.isError || known?.failed === true,
      // Only blocks of the message itself can carry a cache mark, so one inside the result is moved to its block.
      mark: blocks.filter((block) => 'cachePoint' in block).slice(-1),
    })
  }
  for (const id of unansweredIds(pending, results, warn)) {
    results.set(id, { content: [{ text: missingResult }], failed: true, mark: [] })
  }
  const blocks = [...results].flatMap(([id, { content, failed, mark }]): JsonObject[] => [
    {
      toolResult: {
        toolUseId: id,
        // Blank text is refused here too.
        content: content.length === 0 ? [{ text: '(no output)' }] : content,
        ...(failed ? { status: 'error' } : {}),
      },
    },
    ...mark,
  ])
  return [...blocks, ...words]
}

// ---- assistant --------------------------------------------------------------------------------------------

/** Reasoning first, as the API requires for a turn with calls, then the text, then the calls. */
function assistantContent(
  message: AssistantMessage,
  ids: Pending,
  param: string,
  context: Context,
): JsonObject[] {
  const { documents, warn } = context
  const media = message.content.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (media !== undefined) return refusePart(media, `${param}.content`, 'only text in assistant messages')
  const said = [
    ...blocksOf(message.content, `${param}.content`, documents),
    ...message.toolCalls.flatMap((call) => [
      {
        toolUse: {
          toolUseId: ids.get(call.id)!,
          name: call.name,
          input: argumentsObject(call.arguments, `${param}.tool_calls`, warn),
        },
      },
      ...cachePoint(call.cache),
    ]),
  ]
  const thought = reasoningBlocks(message.reasoning, param, context)
  if (said.length > 0 || thought.length === 0) return [...thought, ...said]
  warn(param, 'The message has nothing but reasoning and is left out.')
  return []
}

/** Claude's thinking is returned as signed. Other models accept and need none. */
function reasoningBlocks(
  details: readonly ReasoningDetail[],
  param: string,
  { model, warn }: Context,
): JsonObject[] {
  if (!isClaude(model)) return []
  const blocks = details.toSorted((a, b) => a.index - b.index).flatMap(reasoningBlock)
  warnOfForeignReasoning(details, (detail) => reasoningBlock(detail).length > 0, param, warn)
  return blocks
}

function reasoningBlock({ type, format, text, signature, data }: ReasoningDetail): JsonObject[] {
  if (format !== reasoningFormat) return []
  if (type === 'reasoning.text' && signature) {
    return [{ reasoningContent: { reasoningText: { text: text ?? '', signature } } }]
  }
  if (type === 'reasoning.encrypted' && data) {
    return [{ reasoningContent: { redactedContent: Buffer.from(data, 'utf8').toString('base64') } }]
  }
  return []
}

/** Whether Claude would refuse thinking: the assistant turn to continue does not begin with its original thinking. */
function lostItsThinking(turns: readonly Turn[]): boolean {
  const turn = turnToContinue(turns, (block) => 'toolUse' in block)
  return turn !== undefined && !('reasoningContent' in (turn.content[0] ?? {}))
}

/** Whether any turn contains a tool call or result, which requires tool declarations. */
function toolsCalled(turns: readonly Turn[]): readonly string[] {
  const names = turns.flatMap((turn) =>
    turn.content.flatMap(({ toolUse }) =>
      typeof toolUse === 'object' && toolUse !== null && 'name' in toolUse ? [String(toolUse.name)] : [],
    ),
  )
  return [...new Set(names)]
}

// Translates parts of a message to content blocks. Media are bytes, never addresses.

const imageFormats: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/gif': 'gif',
  'image/webp': 'webp',
}

const documentFormats: Readonly<Record<string, string>> = {
  'application/pdf': 'pdf',
  'text/csv': 'csv',
  'application/msword': 'doc',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'text/html': 'html',
  'text/plain': 'txt',
  'application/json': 'txt',
  'text/markdown': 'md',
}

const videoFormats: Readonly<Record<string, string>> = {
  'video/mp4': 'mp4',
  'video/quicktime': 'mov',
  'video/x-matroska': 'mkv',
  'video/webm': 'webm',
  'video/x-flv': 'flv',
  'video/mpeg': 'mpeg',
  'video/x-ms-wmv': 'wmv',
  'video/3gpp': 'three_gp',
}

const takes = 'text, images, documents and video'

/**
 * The blocks of these parts, in order, each cache mark in a block after its own. Blank text is dropped because the API
 * refuses it. Throws GatewayError `unsupported_parameter` for media that Bedrock does not accept.
 */
function blocksOf(parts: readonly ContentPart[], param: string, names: DocumentNames): JsonObject[] {
  const blocks = parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
        return isBlank(part.text) ? [] : [{ text: part.text }, ...cachePoint(part.cache)]
      case 'refusal':
        return isBlank(part.text) ? [] : [{ text: part.text }]
      case 'image':
      case 'file':
        return [mediaBlock(part, param, names), ...cachePoint(part.cache)]
      case 'video':
        return [mediaBlock(part, param, names)]
      default:
        return refusePart(part, param, takes)
    }
  })
  // A message with a document but without text is refused.
  const withoutText = blocks.some((block) => 'document' in block) && !blocks.some((block) => 'text' in block)
  return withoutText ? [{ text: 'See the document.' }, ...blocks] : blocks
}

function cachePoint(mark: CacheMark | undefined): JsonObject[] {
  if (mark === undefined) return []
  return [{ cachePoint: { type: 'default', ...(mark.ttl === '1h' ? { ttl: '1h' } : {}) } }]
}

function mediaBlock(
  part: Extract<ContentPart, { kind: 'image' | 'file' | 'video' }>,
  param: string,
  names: DocumentNames,
): JsonObject {
  if (part.source.kind !== 'base64') return refusePart(part, param, takes)
  const { data: bytes } = part.source
  const mediaType = part.source.mediaType.split(';')[0]!.trim().toLowerCase()
  const image = entryOf(imageFormats, mediaType)
  if (image !== undefined) return { image: { format: image, source: { bytes } } }
  const video = entryOf(videoFormats, mediaType)
  if (video !== undefined) return { video: { format: video, source: { bytes } } }
  const document = entryOf(documentFormats, mediaType) ?? (textTypeOf(part.source) && 'txt')
  if (document === undefined || part.kind === 'image') {
    return refusePart(part, param, `${takes} of the usual types (not ${mediaType})`)
  }
  const name = names.next(part.kind === 'file' ? part.filename : undefined)
  return { document: { format: document, name, source: { bytes } } }
}

// Tools, tool choice and structured output, which some models emulate by a tool.

interface Tooling {
  /** `toolConfig`; undefined where nothing is to be declared. */
  readonly config: JsonObject | undefined
  /** `outputConfig`, if the model takes an answer schema as a parameter. */
  readonly output: JsonObject | undefined
  /** Whether the model must call a tool. */
  readonly forced: boolean
}

function toolingOf(
  request: ChatRequest,
  turns: readonly Turn[],
  model: string,
  { caches, forces }: Family,
  warn: Warn,
): Tooling {
  const offer = toolOffer(request)
  const output = structuredFormat(request, model, warn)
  const answer = output === undefined ? answerToolFor(request.responseFormat) : undefined
  const called = toolsCalled(turns)
  if (request.parallelToolCalls === false && request.tools.length > 0) {
    warn('parallel_tool_calls', 'The provider may always call several tools at once; dropped.')
  }
  if (request.tools.some((tool) => tool.strict === true)) {
    warn('tools.strict', 'The provider does not enforce schemas of tools; dropped.')
  }
  // There is no `none`: tools are left out, unless calls in the history require their declarations.
  const withheld = offer.choice === 'none' && called.length === 0
  // A model that cannot be forced to call this tool gets no other.
  const declared = withheld ? [] : forces === 'any' ? allowedFunctions(offer) : offer.tools
  if (offer.choice === 'none' && !withheld && offer.tools.length > 0) {
    warn(
      'tool_choice',
      'The history calls tools, so the provider must be shown them; the model might call one.',
    )
  }
  const known = new Set(declared.map((tool) => tool.name))
  const specs = [
    ...declared.flatMap((tool) => [specOf(tool, model, warn), ...(caches ? cachePoint(tool.cache) : [])]),
    ...called
      .filter((name) => !known.has(name))
      .map((name) => toolSpec({ name, description: undefined, schema: { type: 'object', properties: {} } })),
    ...(answer === undefined ? [] : [toolSpec(answer)]),
  ]
  if (specs.length === 0) return { config: undefined, output, forced: false }
  const wanted = choiceOf(offer, declared.length, answer !== undefined)
  const choice = forcedChoice(wanted, forces)
  if (wanted !== undefined && choice === undefined) {
    const param = answer === undefined ? 'tool_choice' : 'response_format'
    warn(param, 'This model cannot be made to call a tool; it decides by itself.')
  }
  return {
    config: { tools: specs, ...(choice === undefined ? {} : { toolChoice: choice }) },
    output,
    forced: choice !== undefined,
  }
}

function specOf(tool: FunctionTool, model: string, warn: Warn): JsonObject {
  const { name, description, parameters } = tool
  const schema = isClaude(model)
    ? argumentsSchema(tool, warn)
    : { type: 'object', ...(parameters ?? { properties: {} }) }
  return toolSpec({ name, description, schema })
}

function toolSpec({ name, description, schema }: DeclaredTool): JsonObject {
  return {
    toolSpec: {
      name,
      // An empty description is refused.
      ...(description === undefined || isBlank(description) ? {} : { description }),
      inputSchema: { json: schema },
    },
  }
}

interface DeclaredTool {
  readonly name: string
  readonly description: string | undefined
  readonly schema: JsonObject
}

/** undefined lets the model choose, which is Bedrock's default. */
function choiceOf({ choice, only }: ToolOffer, declared: number, answers: boolean): JsonObject | undefined {
  if (answers) return declared === 0 || choice === 'none' ? { tool: { name: answerTool } } : { any: {} }
  if (choice !== 'required' || declared === 0) return undefined
  return only === undefined ? { any: {} } : { tool: { name: only } }
}

/** The choice in the model's terms; undefined if it has none. */
function forcedChoice(choice: JsonObject | undefined, forces: Family['forces']): JsonObject | undefined {
  if (choice === undefined || forces === 'nothing') return undefined
  return forces === 'any' ? { any: {} } : choice
}

function structuredFormat(
  { responseFormat: format }: ChatRequest,
  model: string,
  warn: Warn,
): JsonObject | undefined {
  if (format?.kind !== 'json-schema') return undefined
  if (isClaude(model) && traitsOf(model, false, {}).schema !== 'native') return undefined
  // Bedrock's requirements on schemas are the same for every model with native structured output.
  const closed = closedSchema(format.schema)
  if (closed === undefined) return undefined
  warnOfDescribed(closed, 'response_format', warn)
  const { name, description } = format
  return {
    textFormat: {
      type: 'json_schema',
      structure: {
        jsonSchema: {
          name,
          schema: JSON.stringify(closed.schema),
          ...(description === undefined ? {} : { description }),
        },
      },
    },
  }
}

// Names of documents that Bedrock would refuse.

/** The longest name or id Bedrock takes. */
const longestName = 64

/** Names of documents, each of its own: letters, digits, single spaces, hyphens, brackets. */
class DocumentNames {
  readonly #taken = new Set<string>()
  readonly #names = new FreeNames()

  next(filename: string | undefined): string {
    const stem =
      (filename ?? '')
        .replace(/\.[A-Za-z0-9]{1,5}$/, '')
        .replace(/[^a-zA-Z0-9\s()[\]-]/g, ' ')
        .replace(/\s+/g, ' ')
        .trim()
        .slice(0, 180) || 'document'
    const isTaken = (name: string) => this.#taken.has(name)
    const name = isTaken(stem) ? this.#names.of(stem, (copy) => `${stem} (${copy})`, isTaken) : stem
    this.#taken.add(name)
    return name
  }
}

// A table of what model families on Bedrock accept beyond the common parameters.

interface Family {
  /** How `top_k` is sent, where it can be. */
  readonly topK: ((k: number) => JsonObject) | undefined
  /** How an effort is sent, if it can be (`undefined` is the model's default); `none` turns thinking off. */
  readonly effort: ((effort: string | undefined) => JsonObject | undefined) | undefined
  /** Whether cache marks are understood. */
  readonly caches: boolean
  /** What the model can be forced to call: a named tool, any tool, or neither. */
  readonly forces: 'named' | 'any' | 'nothing'
}

const wordFor = (effort: string | undefined) => threeEfforts[effort ?? 'medium'] ?? 'medium'

// For unknown models the API's documentation applies.
const others: Family = { topK: undefined, effort: undefined, caches: false, forces: 'named' }

const nova: Family = { ...others, topK: (topK) => ({ inferenceConfig: { topK } }), caches: true }

/** The first row whose pattern matches the model's id. Claude's thinking has rules of its own. */
const families: readonly (readonly [RegExp, Family])[] = [
  [/claude/i, { ...others, topK: (top_k) => ({ top_k }), caches: true }],
  [
    /nova-2/i,
    {
      ...nova,
      effort: (effort): JsonObject => {
        if (effort === 'none') return { reasoningConfig: { type: 'disabled' } }
        return { reasoningConfig: { type: 'enabled', maxReasoningEffort: wordFor(effort) } }
      },
    },
  ],
  [/nova/i, nova],
  [
    /gpt-oss/i,
    { ...others, effort: (effort) => ({ reasoning_effort: wordFor(effort === 'none' ? 'low' : effort) }) },
  ],
  [
    /qwen/i,
    {
      ...others,
      effort: (effort) => (effort === 'none' ? undefined : { reasoning_config: wordFor(effort) }),
    },
  ],
  [/mistral|pixtral|magistral|devstral/i, { ...others, topK: (top_k) => ({ top_k }), forces: 'any' }],
  // "This model doesn't support the toolConfig.toolChoice.any field", says the API.
  [/llama|titan|cohere/i, { ...others, forces: 'nothing' }],
]

export function familyOf(model: string): Family {
  return families.find(([pattern]) => pattern.test(model))?.[1] ?? others
}
