// Translates a chat request to Gemini's generateContent.

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  MediaSource,
  Message,
  Reasoning,
  Sampling,
  ToolCall,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import type { Steps } from '../../../json/json.ts'
import { rootObjectOf } from '../../claude/tools.ts'
import { entryOf, isObject, parseToolJson, present, withMissing } from '../../lenient.ts'
import {
  ableTo,
  argumentsObject,
  type LoweredRequest,
  messagesInStep,
  outputBoundOf,
  type OwnSearch,
  textTypeOf,
  unable,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfName,
  warnOfUnknown,
} from '../../lowering.ts'
import type { Target } from '../../protocol.ts'
import { type GoogleFields, googleFieldsOf, googleToolsOf, unreadGoogleFields } from '../../request/fields.ts'
import { type SubsetBudget, subsetBudget, toSubset } from '../schema-subset.ts'
import {
  type Carried,
  carriedBy,
  isMinted,
  signatureFormat,
  signaturesOfCalls,
  skippedSignature,
} from '../wire-words.ts'
import { type GeminiQuirks, type ThinkingLevel, type Traits, traitsFor, traitsOf } from './quirks.ts'

export function* lower(asked: ChatRequest, target: Target<GeminiQuirks>): Steps<LoweredRequest> {
  const warnings: Warning[] = []
  const traits = traitsFor(target)
  const { quirks, rememberedSignature } = target
  const warn = warnInto(warnings)
  const request = { ...asked, maxOutputTokens: outputBoundOf(asked, target, warn) }
  const { systemInstruction, contents } = yield* turnsOf(withFormatInWords(request, traits), {
    traits,
    quirks,
    rememberedSignature,
    warn,
  })
  const google = googleFieldsOf(request) ?? {}
  const config = {
    ...generationConfigOf(request, traits, target.reasoning, warn),
    ...present<JsonObject>({
      mediaResolution: google.mediaResolution,
      thinkingConfig: google.thinkingConfig as JsonObject | undefined,
    }),
  }
  const body: JsonObject = {
    contents,
    ...(systemInstruction === undefined ? {} : { systemInstruction }),
    ...toolsOf(request, google, traits, warn),
    ...present<JsonObject>({
      safetySettings: google.safetySettings as Json | undefined,
      labels: google.labels,
      serviceTier: target.serviceTier,
    }),
    ...(Object.keys(config).length === 0 ? {} : { generationConfig: config }),
  }
  warnOfIgnored(request, target, warn)
  const { googleMembers } = request
  const method = request.stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  const model = encodeURIComponent(target.model.replace(/^models\//, ''))
  const path = `${quirks.modelsPath}/${model}:${method}`
  return {
    path,
    headers: {},
    body: googleMembers === undefined ? body : withMissing(body, googleMembers.body),
    warnings,
  }
}

/** The messages, with the answer format as a last instruction if it cannot be set otherwise. */
function withFormatInWords(request: ChatRequest, traits: Traits): readonly Message[] {
  const text = formatInWords(request, traits)
  if (text === undefined) return request.messages
  return [...request.messages, { role: 'system', content: [{ kind: 'text', text, cache: undefined }] }]
}

// ---- tools --------------------------------------------------------------------------------------------------

/** The functions, and what Google runs itself. */
function toolsOf(request: ChatRequest, google: GoogleFields, traits: Traits, warn: Warn): JsonObject {
  const own = request.toolChoice?.kind === 'none' ? [] : googleToolsOf(google)
  const { tools = [], toolConfig } = declaredTools(request, google, traits, warn)
  const all = [...tools, ...own]
  return present<JsonObject>({ tools: all.length === 0 ? undefined : all, toolConfig })
}

interface DeclaredTools {
  readonly tools?: readonly JsonObject[]
  readonly toolConfig?: JsonObject
}

function declaredTools(
  request: ChatRequest,
  { callingMode }: GoogleFields,
  traits: Traits,
  warn: Warn,
): DeclaredTools {
  const choice = request.toolChoice
  // Gemini restricts names only if it forces a call; if the model may choose, the others are not declared.
  const declared =
    choice?.kind === 'allowed' && choice.mode === 'auto'
      ? request.tools.filter((tool) => choice.names.includes(tool.name))
      : request.tools
  // A format together with functions is refused even if none may be called.
  const formatted = request.responseFormat !== undefined && request.responseFormat.kind !== 'text'
  const withheld = formatted && choice?.kind === 'none' && !traits.formatsBesideTools
  // Nothing else keeps Gemini from searching.
  if (request.webSearch !== undefined)
    return choice?.kind === 'none' ? {} : { tools: [{ googleSearch: request.googleMembers?.search ?? {} }] }
  if (declared.length === 0 || withheld) return {}
  if (declared.some((tool) => tool.strict === true)) {
    warn('tools.strict', 'The provider does not enforce schemas of tools; dropped.')
  }
  const budget = subsetBudget()
  const functionDeclarations = declared.map((tool) => ({
    name: tool.name,
    ...declarationOf(tool, traits, budget, warn),
    ...request.googleMembers?.functions[tool.name],
  }))
  const mode = callingModeOf(request, callingMode)
  return {
    tools: [{ functionDeclarations }],
    ...(mode === undefined ? {} : { toolConfig: { functionCallingConfig: mode } }),
  }
}

/** A function's description and parameters. */
function declarationOf(tool: FunctionTool, traits: Traits, budget: SubsetBudget, warn: Warn): JsonObject {
  const declaration: JsonObject = tool.description === undefined ? {} : { description: tool.description }
  if (tool.parameters === undefined || Object.keys(tool.parameters).length === 0) return declaration
  if (traits.schema === 'json-schema') return { ...declaration, parametersJsonSchema: tool.parameters }
  // Gemini requires an object without alternatives at the root.
  const root = rootObjectOf(tool.parameters)
  const { schema, dropped } = toSubset(root.schema, budget)
  const lost = root.merged ? [...dropped, 'alternatives at the root'] : dropped
  // The subset has no object without members.
  if (isObject(schema['properties']) && Object.keys(schema['properties']).length === 0) return declaration
  warnOfSchema(`tools.${tool.name}.parameters`, lost, warn)
  return { ...declaration, parameters: schema }
}

/** `asked`: what only clients of Google's protocol ask for. */
function callingModeOf(request: ChatRequest, asked: GoogleFields['callingMode']): JsonObject | undefined {
  const choice = request.toolChoice
  if (asked != null && (choice === undefined || choice.kind === 'auto')) return { mode: asked }
  switch (choice?.kind) {
    case undefined:
    case 'auto':
      return undefined
    case 'none':
      return { mode: 'NONE' }
    case 'required':
      return { mode: 'ANY' }
    case 'function':
      return { mode: 'ANY', allowedFunctionNames: [choice.name] }
    case 'allowed':
      if (asked != null && choice.mode === 'auto')
        return { mode: asked, allowedFunctionNames: [...choice.names] }
      return choice.mode === 'required' ? { mode: 'ANY', allowedFunctionNames: [...choice.names] } : undefined
  }
}

// ---- what the provider has no word for ------------------------------------------------------------------------

/** Fields of the client's body that are used here. */
const readFromRest: readonly string[] = ['modalities', 'audio']

function warnOfIgnored(request: ChatRequest, { serviceTier }: Pick<Target, 'serviceTier'>, warn: Warn): void {
  const { sampling, rest } = request
  const unread = Object.entries({ ...rest, ...unreadGoogleFields(request) }).filter(
    ([name]) => !readFromRest.includes(name),
  )
  warnOfUnknown(
    {
      min_p: sampling.minP,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
      // Gemini always may call several functions at once.
      parallel_tool_calls: request.tools.length > 0 ? request.parallelToolCalls : undefined,
      ...unknownLabels(request, serviceTier),
      ...Object.fromEntries(unread),
    },
    warn,
  )
}

// Sampling, limits, formats and thinking as Gemini's generationConfig.

/** The most stop sequences Gemini takes. */
const maxStopSequences = 5

/** The generationConfig of a request; `warn` reports what Gemini has no setting for. */
function generationConfigOf(request: ChatRequest, traits: Traits, reasons: boolean, warn: Warn): JsonObject {
  const { sampling } = request
  return present<JsonObject>({
    temperature: sampling.temperature,
    topP: sampling.topP,
    topK: sampling.topK,
    seed: sampling.seed,
    stopSequences: stopSequencesOf(sampling.stop, warn),
    maxOutputTokens: request.maxOutputTokens,
    candidateCount: sampling.n === undefined || sampling.n === 1 ? undefined : sampling.n,
    presencePenalty: sampling.presencePenalty,
    frequencyPenalty: sampling.frequencyPenalty,
    responseLogprobs: wantsLogprobs(sampling) ? true : undefined,
    logprobs: wantsLogprobs(sampling) ? sampling.topLogprobs : undefined,
    thinkingConfig: thinkingOf(request, traits, reasons, warn),
    responseModalities: modalitiesOf(request.rest['modalities']),
    speechConfig: speechOf(request.rest['audio'], warn),
    ...formatOf(request, traits, warn),
  })
}

/** Alternatives to each token imply the tokens themselves. */
function wantsLogprobs({ logprobs, topLogprobs }: Sampling): boolean {
  return logprobs ?? (topLogprobs ?? 0) > 0
}

function stopSequencesOf(stop: readonly string[] | undefined, warn: Warn): string[] | undefined {
  const fit = stop?.filter((each) => each !== '') ?? []
  if (fit.length < (stop?.length ?? 0)) {
    warn('stop', 'An empty stop sequence stops nothing; left out.')
  }
  if (fit.length === 0) return undefined
  if (fit.length > maxStopSequences)
    warn('stop', `The provider takes ${maxStopSequences} stop sequences; the others were dropped.`)
  return fit.slice(0, maxStopSequences)
}

function formatOf(request: ChatRequest, traits: Traits, warn: Warn): JsonObject {
  const format = request.responseFormat
  if (format === undefined || format.kind === 'text') return {}
  if (!traits.formatsBesideTools && offersTools(request)) {
    warn('response_format', 'The model has tools, so it cannot be held to this format; it is told of it.')
    return {}
  }
  // A schema that says nothing is JSON mode.
  if (format.kind === 'json-object' || Object.keys(format.schema).length === 0) {
    return { responseMimeType: 'application/json' }
  }
  if (traits.schema === 'json-schema') {
    return { responseMimeType: 'application/json', responseJsonSchema: format.schema }
  }
  const { schema, dropped } = toSubset(format.schema)
  warnOfSchema('response_format', dropped, warn)
  return { responseMimeType: 'application/json', responseSchema: schema }
}

/** Whether the model may call any tool. */
function offersTools({ tools, toolChoice }: ChatRequest): boolean {
  return tools.length > 0 && toolChoice?.kind !== 'none'
}

/** An instruction for a format that the model cannot be held to; undefined if it can be, or none was requested. */
function formatInWords(request: ChatRequest, traits: Traits): string | undefined {
  const format = request.responseFormat
  if (traits.formatsBesideTools || !offersTools(request)) return undefined
  if (format === undefined || format.kind === 'text') return undefined
  const answer = 'Unless you call a function, answer with JSON and nothing else, without a code fence'
  if (format.kind === 'json-object') return `${answer}.`
  return `${answer}. It must fit this JSON Schema:\n${JSON.stringify(format.schema)}`
}

/** Warns of keywords that an older model's schema does not support. */
function warnOfSchema(param: string, dropped: readonly string[], warn: Warn): void {
  if (dropped.length > 0) warn(param, `The model's schema has no ${dropped.join(', ')}; dropped.`)
}

// ---- thinking -----------------------------------------------------------------------------------------------

type Effort = NonNullable<Reasoning['effort']>

/** Thinking tokens per effort, as Google's own chat-completions endpoint sets them for 2.5. */
const budgets: Readonly<Record<Effort, number>> = {
  none: 0,
  minimal: 1024,
  low: 1024,
  medium: 8192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
}

const levels: Readonly<Record<Effort, ThinkingLevel>> = {
  none: 'minimal',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

const levelOrder: readonly ThinkingLevel[] = ['minimal', 'low', 'medium', 'high']

function thinkingOf(
  { reasoning, maxOutputTokens }: ChatRequest,
  traits: Traits,
  reasons: boolean,
  warn: Warn,
): JsonObject | undefined {
  if (reasoning === undefined) return undefined
  const effort = reasoning.enabled === false ? 'none' : reasoning.effort
  const off = effort === 'none' || reasoning.maxTokens === 0
  if (traits.thinking === 'none' || !reasons) {
    if (!off) warn('reasoning', 'The model does not reason; dropped.')
    return undefined
  }
  const includeThoughts = !off && reasoning.exclude !== true
  return {
    ...(includeThoughts ? { includeThoughts } : {}),
    ...(traits.thinking === 'level' && reasoning.maxTokens === undefined
      ? levelOf(effort, traits, warn)
      : budgetOf(reasoning.maxTokens ?? budgetFor(effort, maxOutputTokens), traits, warn)),
  }
}

function levelOf(effort: Effort | undefined, traits: Traits, warn: Warn): JsonObject {
  if (effort === undefined) return {}
  const wanted = levelOrder.indexOf(levels[effort])
  // The next level up, so that nobody gets less reasoning than requested.
  const level = levelOrder.find((each, rank) => rank >= wanted && traits.levels.includes(each)) ?? 'high'
  if (effort === 'none') warn('reasoning', `The model cannot stop reasoning; its level is ${level}.`)
  return { thinkingLevel: level }
}

/** Thinking tokens for an effort. On/off leaves them to the model, but some small ones do not think by default. */
function budgetFor(effort: Effort | undefined, maxOutputTokens: number | undefined): number | undefined {
  if (effort === undefined) return undefined
  if (effort === 'none' || maxOutputTokens === undefined) return budgets[effort]
  // Thoughts count as output: a fifth is kept for the answer, which could be empty otherwise.
  return Math.min(budgets[effort], Math.max(1, Math.floor(maxOutputTokens * 0.8)))
}

function budgetOf(wanted: number | undefined, traits: Traits, warn: Warn): JsonObject {
  if (wanted === undefined) return { thinkingBudget: -1 }
  const { least, most, stops } = traits.budget
  const budget = wanted === 0 && stops ? 0 : Math.min(Math.max(wanted, least), most)
  if (wanted === 0 && budget > 0)
    warn('reasoning', `The model cannot stop reasoning; its budget is ${budget} tokens.`)
  return { thinkingBudget: budget }
}

// ---- what the answer is made of -----------------------------------------------------------------------------

/** `modalities: ["text", "image"]`: the kinds of output that the client wants. */
function modalitiesOf(value: Json | undefined): string[] | undefined {
  if (!Array.isArray(value)) return undefined
  const named = value.filter((each) => typeof each === 'string').map((each) => each.toUpperCase())
  return named.length === 0 ? undefined : named
}

/** `audio: {voice}`: the voice of a spoken answer. The format is fixed: Gemini returns 24 kHz PCM. */
function speechOf(value: Json | undefined, warn: Warn): JsonObject | undefined {
  if (!isObject(value)) return undefined
  const { voice, format } = value
  if (format !== undefined && format !== 'pcm16') {
    warn('audio.format', 'The provider speaks pcm16 and nothing else.')
  }
  if (typeof voice !== 'string') return undefined
  return { voiceConfig: { prebuiltVoiceConfig: { voiceName: voice } } }
}

// Arranges a conversation for Gemini. Roles are user and model; function results are returned by name, in one user
// turn right after the calls and in their order; signatures are returned with their parts.

interface TurnContext {
  readonly traits: Traits
  readonly quirks: GeminiQuirks
  readonly rememberedSignature: Target['rememberedSignature']
  readonly warn: Warn
}

interface Turns {
  readonly systemInstruction: JsonObject | undefined
  readonly contents: JsonObject[]
}

interface Turn {
  readonly role: 'user' | 'model'
  readonly parts: JsonObject[]
}

/** All messages as turns. Throws `invalid_request` for a tool result without a call, and for an empty conversation. */
function* turnsOf(messages: readonly Message[], context: TurnContext): Steps<Turns> {
  const system: JsonObject[] = []
  const turns: Turn[] = []
  /** The calls of the assistant message before. */
  let open: ReadonlySet<string> = new Set()
  for (const [index, message] of messages.entries()) {
    if (index % messagesInStep === messagesInStep - 1) yield
    const param = `messages[${index}]`
    warnOfName(message, param, context.warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        system.push(...contentParts(message.content, context, param))
        break
      case 'user':
        addTurn(turns, { role: 'user', parts: contentParts(message.content, context, param) })
        break
      case 'assistant':
        addTurn(turns, { role: 'model', parts: modelParts(message, context, param) })
        for (const turn of resultTurns(message, index, messages, context)) addTurn(turns, turn)
        open = new Set(message.toolCalls.map(({ id }) => id))
        break
      case 'tool':
        if (!open.has(message.toolCallId)) throw orphan(message, index)
        break
      default:
        return message satisfies never
    }
  }
  if (turns.length === 0) {
    if (system.length === 0) {
      throw new GatewayError('invalid_request', { message: 'No message has any content.', param: 'messages' })
    }
    // Gemini answers a turn; instructions alone are none.
    return { systemInstruction: undefined, contents: [{ role: 'user', parts: system }] }
  }
  return {
    systemInstruction: system.length === 0 ? undefined : { parts: system },
    contents: turns.map(({ role, parts }) => ({ role, parts })),
  }
}

function addTurn(turns: Turn[], turn: Turn): void {
  if (turn.parts.length === 0) return
  const last = turns.at(-1)
  // A call must directly follow a user's turn, so consecutive model messages are merged.
  if (turn.role === 'model' && last?.role === 'model') last.parts.push(...turn.parts)
  else turns.push(turn)
}

/** Empty text is dropped: without a signature it is refused. */
function contentParts(content: readonly ContentPart[], context: TurnContext, param: string): JsonObject[] {
  return content.flatMap((part): JsonObject[] => {
    if (part.kind !== 'text' && part.kind !== 'refusal') {
      return [mediaPart(part, context.quirks.readsUrls, param)]
    }
    return part.text === '' ? [] : [{ text: part.text }]
  })
}

// ---- what the model said ------------------------------------------------------------------------------------

function modelParts(message: AssistantMessage, context: TurnContext, param: string): JsonObject[] {
  const { text, media } = textAndMedia(message.content, context, param)
  const calls = callParts(message, context, param)
  const parts: JsonObject[] = []
  let textDone = 0
  let callsDone = 0
  const sayUntil = (end: number) => {
    if (end > textDone) parts.push({ text: text.slice(textDone, end) })
    textDone = Math.max(textDone, end)
  }
  const callUntil = (end: number) => {
    parts.push(...calls.slice(callsDone, end))
    callsDone = Math.max(callsDone, Math.min(end, calls.length))
  }
  for (const item of carriedIn(message)) {
    // The client may have trimmed the text: offsets beyond it move to its end, so that no signature is lost.
    const start = Math.min(item.start, text.length)
    const end = Math.min(item.end, text.length)
    sayUntil(start)
    callUntil(item.calls)
    if (item.kind === 'part') parts.push(item.part)
    else if (item.kind === 'text') {
      parts.push({ text: text.slice(Math.max(start, textDone), end), thoughtSignature: item.signature })
      textDone = Math.max(textDone, end)
    } else {
      const image = media[item.image]
      if (image !== undefined) media[item.image] = { ...image, thoughtSignature: item.signature }
    }
  }
  sayUntil(text.length)
  parts.push(...media)
  callUntil(calls.length)
  return parts
}

/** The whole text of a message, and its media as parts. */
function textAndMedia(content: readonly ContentPart[], { quirks }: TurnContext, param: string) {
  let text = ''
  const media: JsonObject[] = []
  for (const part of content)
    if (part.kind === 'text' || part.kind === 'refusal') text += part.text
    else media.push(mediaPart(part, quirks.readsUrls, param))
  return { text, media }
}

/** In Gemini's order. Summaries of thoughts are left out: only their signatures matter. */
function carriedIn(message: AssistantMessage): Carried[] {
  return message.reasoning
    .filter((detail) => detail.format === signatureFormat)
    .toSorted((a, b) => a.index - b.index)
    .map(carriedBy)
    .filter((item) => item !== undefined)
}

function callParts(message: AssistantMessage, context: TurnContext, param: string): JsonObject[] {
  const signatures = signaturesOfCalls(message.reasoning)
  return message.toolCalls.map((call, position) => {
    const signature =
      call.thoughtSignature ??
      signatures.get(call.id) ??
      context.rememberedSignature(call) ??
      // Only the first of parallel calls has one; without it Gemini 3 refuses the whole request.
      (position === 0 && context.traits.signaturesRequired ? skippedSignature : undefined)
    return {
      functionCall: {
        ...idOf(call, context),
        name: call.name,
        args: argumentsObject(
          call.arguments,
          `${param}.tool_calls[${position}].function.arguments`,
          context.warn,
        ),
      },
      ...(signature === undefined ? {} : { thoughtSignature: signature }),
    }
  })
}

function idOf(call: ToolCall, context: TurnContext): JsonObject {
  return context.traits.sendsCallIds && !isMinted(call.id) ? { id: call.id } : {}
}

// ---- what the functions answered ----------------------------------------------------------------------------

/** The indexes of the results before the model's next turn, by call; of two for one call the first. */
function resultsAfter(index: number, messages: readonly Message[]): ReadonlyMap<string, number> {
  const results = new Map<string, number>()
  for (let at = index + 1; at < messages.length; at++) {
    const message = messages[at]!
    if (message.role === 'assistant') break
    if (message.role === 'tool' && !results.has(message.toolCallId)) results.set(message.toolCallId, at)
  }
  return results
}

function resultTurns(
  message: AssistantMessage,
  index: number,
  messages: readonly Message[],
  context: TurnContext,
): Turn[] {
  // At the end of the conversation the calls cannot have been answered yet.
  if (message.toolCalls.length === 0 || index === messages.length - 1) return []
  const results = resultsAfter(index, messages)
  const turn: Turn = { role: 'user', parts: [] }
  const media: Turn = { role: 'user', parts: [] }
  for (const call of message.toolCalls) {
    const at = results.get(call.id)
    const result = at === undefined ? undefined : (messages[at] as ToolMessage)
    const [part, beside] = resultPart(call, result, context, `messages[${at ?? index}]`)
    turn.parts.push(part)
    media.parts.push(...beside)
  }
  return [turn, media]
}

/** The functionResponse of a call, and media that the model can only take beside it. */
function resultPart(
  call: ToolCall,
  result: ToolMessage | undefined,
  context: TurnContext,
  param: string,
): [JsonObject, JsonObject[]] {
  const parts = contentParts(result?.content ?? [], context, param)
  const text = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : [])).join('\n')
  const media = parts.filter((part) => part['text'] === undefined)
  const inside = context.traits.mediaInResults ? media : []
  const functionResponse = {
    ...idOf(call, context),
    name: call.name,
    response: responseOf(text, result),
    ...(inside.length === 0 ? {} : { parts: inside }),
  }
  return [{ functionResponse }, context.traits.mediaInResults ? [] : media]
}

/**
 * A member that Gemini reads as a reference to another part of the message, or as a schema: such a result would fail
 * this turn and every later one.
 */
const readsAsReference = /"(?:\$[^"]*|ref)":/

/** Gemini requires an object: the function's JSON result, otherwise its text under a key for success or failure. */
function responseOf(text: string, result: ToolMessage | undefined): Json {
  // A call without a result would be refused.
  if (result === undefined) return { error: 'No result was given for this call.' }
  if (result.isError) return { error: text }
  const output = parseToolJson(text)
  return isObject(output) && !readsAsReference.test(JSON.stringify(output)) ? output : { result: text }
}

function orphan(message: ToolMessage, index: number): GatewayError {
  return new GatewayError('invalid_request', {
    message: `The tool result ${message.toolCallId} answers no tool call of the assistant message before it.`,
    param: `messages[${index}].tool_call_id`,
  })
}

// Images, audio, video and files for Gemini: inline bytes, or an address that Google can reach.

type Media = Extract<ContentPart, { kind: 'image' | 'audio' | 'file' | 'video' }>

/** Where the Files API stores uploads; `files/<id>` is short for an address below it. */
const filesApi = 'https://generativelanguage.googleapis.com/v1beta/'

/** Whether Google reads this address itself: Cloud Storage, Files API, YouTube; with `any` (Vertex) every http. */
export function readsUrl(url: string, reads: GeminiQuirks['readsUrls']): boolean {
  if (url.startsWith('gs://') || url.startsWith(`${filesApi}files/`)) return true
  if (/^https:\/\/(?:(?:www|m)\.)?(?:youtube\.com\/watch\?|youtu\.be\/)/.test(url)) return true
  return reads === 'any' && /^https?:\/\//.test(url)
}

/**
 * The part for a medium. `param` names the message in errors: an address that was not inlined and that Google does not
 * read is `unsupported_parameter`.
 */
function mediaPart(media: Media, reads: GeminiQuirks['readsUrls'], param: string): JsonObject {
  const part =
    media.kind === 'audio'
      ? inline(audioType(media.format), media.data)
      : sourcePart(media.source, media.kind, reads, param)
  return media.google === undefined ? part : withOwnMembers(part, media.google)
}

/** What the client told Google of a medium. Whatever else it wrote there is not sent: it might have a price. */
function withOwnMembers(part: JsonObject, own: JsonObject): JsonObject {
  const { videoMetadata, mediaResolution, mimeType, displayName } = own
  return {
    ...Object.fromEntries(
      Object.entries(part).map(([kind, source]) => [
        kind,
        {
          ...(source as JsonObject),
          ...present<JsonObject>({ mimeType: kind === 'fileData' ? mimeType : undefined, displayName }),
        },
      ]),
    ),
    ...present<JsonObject>({ videoMetadata, mediaResolution }),
  }
}

function sourcePart(
  source: MediaSource,
  kind: 'image' | 'file' | 'video',
  reads: GeminiQuirks['readsUrls'],
  param: string,
): JsonObject {
  switch (source.kind) {
    case 'base64': {
      const textType = textTypeOf(source)
      const isOther = textType !== undefined && !textType.startsWith('text/')
      return inline(isOther ? 'text/plain' : source.mediaType, source.data)
    }
    case 'provider-file':
      return fileData(source.id.startsWith('files/') ? filesApi + source.id : source.id, undefined)
    case 'url':
      if (readsUrl(source.url, reads)) return fileData(source.url, typeOfAddress(source.url, kind))
      throw new GatewayError('unsupported_parameter', {
        message: `The provider cannot read the ${kind} at this address; send it inline as base64.`,
        param,
      })
    default:
      return source satisfies never
  }
}

function inline(mediaType: string, data: string): JsonObject {
  // Some clients send the file extension as the type.
  return { inlineData: { mimeType: mediaType === 'image/jpg' ? 'image/jpeg' : mediaType, data } }
}

function fileData(fileUri: string, mimeType: string | undefined): JsonObject {
  return { fileData: { ...(mimeType === undefined ? {} : { mimeType }), fileUri } }
}

const typesByEnding: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  gif: 'image/gif',
  pdf: 'application/pdf',
  txt: 'text/plain',
  html: 'text/html',
  csv: 'text/csv',
  mp4: 'video/mp4',
  mov: 'video/mov',
  webm: 'video/webm',
  mpeg: 'video/mpeg',
  mp3: 'audio/mp3',
  wav: 'audio/wav',
}

/** The type by an address's extension. A video without one is on YouTube: Google expects `video/mp4`. */
function typeOfAddress(url: string, kind: 'image' | 'file' | 'video'): string | undefined {
  const ending = /\.([a-z0-9]{2,5})(?:[?#]|$)/i.exec(url)?.[1]?.toLowerCase() ?? ''
  return typesByEnding[ending] ?? (kind === 'video' ? 'video/mp4' : undefined)
}

const audioTypes: Readonly<Record<string, string>> = { m4a: 'audio/mp4', pcm16: 'audio/L16;rate=24000' }

function audioType(format: string): string {
  return entryOf(audioTypes, format) ?? `audio/${format}`
}

// Grounding with Google Search: https://ai.google.dev/gemini-api/docs/google-search

export function ownSearch(
  search: WebSearchDeclaration,
  request: ChatRequest,
  { model, quirks }: { readonly model: string; readonly quirks: GeminiQuirks },
): OwnSearch | undefined {
  if (!quirks.webSearch) return undefined
  const { formatsBesideTools, searchBilledPer } = traitsOf(model, quirks)
  const formatted = request.responseFormat !== undefined && request.responseFormat.kind !== 'text'
  if (formatted && !formatsBesideTools) return unable('cannot stand beside a format of the answer')
  const own = ableTo(search, searchBilledPer === 'prompt' ? 'request' : 'search', [])
  // "Tool use with function calling is unsupported": a 400.
  return own.kind === 'able' ? { ...own, alone: true } : own
}
