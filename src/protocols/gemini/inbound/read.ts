// Converts a Gemini request to the body of a chat completion, which is then read like any other.

import type { GoogleMembers, Json, JsonObject, ReasoningDetail } from '../../../conversation/request.ts'
import { carriedSignature, detailOfThinking, isCarried, thinkingText } from '../../claude/content-blocks.ts'
import { isObject, present } from '../../lenient.ts'
import type { Warning } from '../../lowering.ts'
import { camel, invalidParam, unsupportedParam } from '../../request/fields.ts'
import { gatewayPlaces } from '../../request/gateway-tools.ts'
import { parts, seal, unseal, wordsAt } from '../../request/prompt-parts.ts'
import { carry, mintCallId, opaqueParts, signatureFormat } from '../wire-words.ts'
import {
  type TurnContent,
  type ClientPart,
  gatewayFields,
  type GenerateContentRequest,
  knownFields,
  passedFields,
} from './schema.ts'

type Config = NonNullable<GenerateContentRequest['generationConfig']>
type Tools = NonNullable<GenerateContentRequest['tools']>

interface ChatBody {
  readonly body: JsonObject
  /** Where each chat message is in the client's body: `contents[2]`. */
  readonly params: readonly string[]
  /** Where the client declares a web search. */
  readonly searchParam: string | undefined
  /** What only Google is sent; undefined for nothing. */
  readonly members: GoogleMembers | undefined
  /** Dropped parameters, independent of the provider. */
  readonly warnings: readonly Warning[]
}

/** Throws `invalid_request` or `unsupported_parameter` with the client's name of the field. */
export function chatBody(request: GenerateContentRequest, model: string, stream: boolean): ChatBody {
  const { systemInstruction, contents, generationConfig, tools, toolConfig, cachedContent } = request
  if (cachedContent != null)
    throw unsupportedParam('cachedContent', 'a cache that one provider keeps is not there at the others.')
  const system = systemInstruction == null ? undefined : systemMessage(systemInstruction)
  const turns = messagesOf(contents)
  const messages = [...(system === undefined ? [] : [system]), ...turns.map(({ message }) => message)]
  const search = searchOf(tools ?? [])
  const mode = toolConfig?.functionCallingConfig?.mode?.toUpperCase()
  // Without functions a model may search all the same: the mode is theirs alone.
  const functions = search !== undefined && mode === 'NONE' ? [] : functionsOf(tools ?? [])
  const declared = [...functions, ...(search === undefined ? [] : [search.tool])]
  const body = present<JsonObject>({
    model,
    messages,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    ...(declared.length === 0 ? {} : { tools: declared }),
    tool_choice:
      functions.length === 0 ? undefined : toolChoiceOf(toolConfig, functions, search !== undefined),
    ...configOf(generationConfig ?? {}),
    service_tier: tierOf(request.serviceTier),
    extra_body: googleOf(request),
    ...Object.fromEntries(gatewayFields.map((field) => [field, request[field] as Json | undefined])),
  })
  const params = turns.map(({ param }) => param)
  return {
    body,
    params: system === undefined ? params : ['systemInstruction', ...params],
    searchParam: search?.param,
    members: membersOf(request),
    warnings: [...droppedOf(request), ...(search?.warnings ?? [])],
  }
}

/** What no field of chat completions says: see `google-fields.ts`. */
function googleOf(request: GenerateContentRequest): JsonObject | undefined {
  const { safetySettings, labels, generationConfig, toolConfig, tools } = request
  const mode = toolConfig?.functionCallingConfig?.mode?.toUpperCase()
  const own = (tools ?? []).flatMap((tool) =>
    Object.entries(tool).flatMap(([kind, settings]) =>
      servedKinds.has(kind) || settings == null ? [] : [{ [kind]: settings as Json }],
    ),
  )
  const google = present<JsonObject>({
    safetySettings: safetySettings as Json | undefined,
    labels,
    mediaResolution: generationConfig?.mediaResolution,
    callingMode: mode === 'VALIDATED' ? mode : undefined,
    tools: own.length === 0 ? undefined : own,
  })
  return Object.keys(google).length === 0 ? undefined : { google }
}

/** What chat completions have no place for, and Google is sent as it came. */
function membersOf(request: GenerateContentRequest): GoogleMembers | undefined {
  const { generationConfig, toolConfig, tools = [] } = request
  const calling = pickedFrom(toolConfig?.functionCallingConfig, passedFields.functionCallingConfig)
  const body = nonEmpty({
    ...pickedFrom(request, passedFields.body),
    generationConfig: nonEmpty({
      ...pickedFrom(generationConfig, passedFields.generationConfig),
      speechConfig: manyVoicesIn(generationConfig?.speechConfig),
    }),
    toolConfig: nonEmpty({
      ...pickedFrom(toolConfig, passedFields.toolConfig),
      functionCallingConfig: nonEmpty(calling),
    }),
  })
  const declared = (tools ?? []).flatMap(({ functionDeclarations }) => functionDeclarations ?? [])
  const functions = nonEmpty(
    Object.fromEntries(
      declared.map((each) => [each.name, nonEmpty(pickedFrom(each, passedFields.function))]),
    ),
  )
  const searching = (tools ?? []).find(({ googleSearch }) => googleSearch != null)?.googleSearch
  const search = nonEmpty(pickedFrom(searching, passedFields.googleSearch))
  if (body === undefined && functions === undefined && search === undefined) return undefined
  return {
    body: body ?? {},
    functions: (functions ?? {}) as GoogleMembers['functions'],
    search: search ?? {},
  }
}

/** A voice by its name is read as every protocol's; whatever else is set, such as a voice for each speaker, is Google's. */
function manyVoicesIn(speech: Config['speechConfig']): Json | undefined {
  const { voiceConfig, ...more } = (speech ?? {}) as JsonObject
  const isNamed = voiceConfig === undefined || voiceOf({ voiceConfig }) !== undefined
  return speech == null || (isNamed && Object.keys(more).length === 0) ? undefined : (speech as JsonObject)
}

function pickedFrom(from: object | null | undefined, names: readonly string[]): JsonObject {
  const fields = (from ?? {}) as JsonObject
  return Object.fromEntries(
    names.flatMap((name): [string, Json][] => (fields[name] == null ? [] : [[name, fields[name]]])),
  )
}

/** Its members that are there; undefined if none is. */
function nonEmpty(fields: Readonly<Record<string, Json | undefined>>): JsonObject | undefined {
  const there = present<JsonObject>(fields)
  return Object.keys(there).length === 0 ? undefined : there
}

/** Google's standard tier is what chat completions call the default. */
function tierOf(tier: unknown): string | undefined {
  if (typeof tier !== 'string') return undefined
  const word = tier.toLowerCase().replace(/^service_tier_/, '')
  return word === 'standard' ? 'default' : word === 'unspecified' ? undefined : word
}

/** Fields that no provider gets: dropped with a warning. */
function droppedOf(request: GenerateContentRequest): Warning[] {
  const { generationConfig, toolConfig } = request
  const fields = [
    ...unreadIn(request, knownFields.body, '', passedFields.body),
    ...(request.serviceTier != null && typeof request.serviceTier !== 'string' ? ['serviceTier'] : []),
    ...unreadIn(
      generationConfig ?? {},
      knownFields.generationConfig,
      'generationConfig.',
      passedFields.generationConfig,
    ),
    ...unreadIn(toolConfig ?? {}, knownFields.toolConfig, 'toolConfig.', passedFields.toolConfig),
  ]
  return fields.map((param) => droppedWarning(param, 'Unknown field'))
}

function droppedWarning(param: string, why: string): Warning {
  return { param, message: `${why}; dropped.` }
}

function unreadIn(
  fields: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>,
  path: string,
  passed: readonly string[],
): string[] {
  return Object.keys(fields)
    .filter((field) => fields[field] != null && !known.has(field) && !passed.includes(field))
    .map((field) => path + field)
}

// ---- tools ------------------------------------------------------------------------------------------------

const servedKinds = new Set(['functionDeclarations', 'googleSearch', 'googleSearchRetrieval'])

interface Search {
  readonly tool: JsonObject
  readonly param: string
  readonly warnings: readonly Warning[]
}

/** Google's search as the web search of a chat completion: the provider's own where it has one, else the gateway's. */
function searchOf(tools: Tools): Search | undefined {
  const index = tools.findIndex((tool) => tool.googleSearch != null || tool.googleSearchRetrieval != null)
  const { googleSearch } = tools[index] ?? {}
  if (index < 0) return undefined
  const param = `tools[${index}].${googleSearch == null ? 'googleSearchRetrieval' : 'googleSearch'}`
  const unread = unreadIn(
    googleSearch ?? {},
    knownFields.googleSearch,
    `${param}.`,
    passedFields.googleSearch,
  )
  return {
    tool: present<JsonObject>({ type: 'web_search', blocked_domains: googleSearch?.excludeDomains }),
    param,
    warnings: unread.map((field) => droppedWarning(field, 'Only Google itself knows this field')),
  }
}

function functionsOf(tools: Tools): JsonObject[] {
  return tools.flatMap((tool) => {
    return (tool.functionDeclarations ?? []).map(
      ({ name, description, parameters, parametersJsonSchema }): JsonObject => {
        const schema = parametersJsonSchema ?? (parameters == null ? undefined : jsonSchemaOf(parameters))
        return {
          type: 'function',
          function: present<JsonObject>({ name, description, parameters: schema as JsonObject | undefined }),
        }
      },
    )
  })
}

/** `ANY` asks for a call of a function: a search beside them does not do. */
function toolChoiceOf(
  config: GenerateContentRequest['toolConfig'],
  functions: readonly JsonObject[],
  searches: boolean,
): Json | undefined {
  const { mode: given, allowedFunctionNames } = config?.functionCallingConfig ?? {}
  const mode = given?.toUpperCase()
  if (mode === 'NONE') return 'none'
  const allowed = allowedFunctionNames ?? []
  if (mode === 'VALIDATED' && allowed.length > 0 && !searches)
    return { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: allowed.map(choiceOf) } }
  if (mode !== 'ANY') return undefined
  if (allowed.length === 0 && !searches) return 'required'
  const names = allowed.length === 0 ? functions.map(nameOf) : allowed
  const tools = names.map(choiceOf)
  return tools.length === 1
    ? tools[0]!
    : { type: 'allowed_tools', allowed_tools: { mode: 'required', tools } }
}

function choiceOf(name: Json): JsonObject {
  return { type: 'function', function: { name } }
}

function nameOf({ function: definition }: JsonObject): Json {
  return isObject(definition) ? (definition['name'] ?? '') : ''
}

// ---- how to answer ----------------------------------------------------------------------------------------

function configOf(config: Config): JsonObject {
  return present<JsonObject>({
    temperature: config.temperature,
    top_p: config.topP,
    top_k: config.topK,
    seed: config.seed,
    stop: config.stopSequences,
    max_completion_tokens: config.maxOutputTokens,
    n: config.candidateCount,
    presence_penalty: config.presencePenalty,
    frequency_penalty: config.frequencyPenalty,
    logprobs: config.responseLogprobs,
    top_logprobs: config.responseLogprobs === true ? config.logprobs : undefined,
    response_format: formatOf(config),
    reasoning: reasoningOf(config.thinkingConfig),
    modalities: config.responseModalities?.map((modality) => modality.toLowerCase()),
    audio: voiceOf(config.speechConfig),
  })
}

function formatOf({ responseMimeType, responseSchema, responseJsonSchema }: Config): JsonObject | undefined {
  const type = responseMimeType ?? 'text/plain'
  if (type === 'text/plain') return undefined
  if (type !== 'application/json')
    throw unsupportedParam('generationConfig.responseMimeType', 'send application/json or text/plain.')
  const schema = responseJsonSchema ?? (responseSchema == null ? undefined : jsonSchemaOf(responseSchema))
  if (schema === undefined) return { type: 'json_object' }
  return { type: 'json_schema', json_schema: { name: 'answer', schema: schema as JsonObject } }
}

const levels = new Set(['minimal', 'low', 'medium', 'high'])

/** A budget of 0 turns thinking off, -1 is the model's default; thoughts are only returned if requested. */
function reasoningOf(thinking: Config['thinkingConfig']): JsonObject | undefined {
  if (thinking == null) return undefined
  const { includeThoughts, thinkingBudget, thinkingLevel } = thinking
  if (thinkingBudget === 0) return { enabled: false }
  const level = thinkingLevel?.toLowerCase()
  if (level !== undefined && level !== 'thinking_level_unspecified' && !levels.has(level)) {
    const param = 'generationConfig.thinkingConfig.thinkingLevel'
    throw invalidParam(param, `it is one of ${[...levels].join(', ')}.`)
  }
  return present<JsonObject>({
    enabled: true,
    max_tokens: thinkingBudget != null && thinkingBudget > 0 ? thinkingBudget : undefined,
    effort: level !== undefined && levels.has(level) ? level : undefined,
    exclude: includeThoughts === true ? undefined : true,
  })
}

function voiceOf(speech: Config['speechConfig']): JsonObject | undefined {
  const voice = (
    speech as { voiceConfig?: { prebuiltVoiceConfig?: { voiceName?: unknown } } } | null | undefined
  )?.voiceConfig?.prebuiltVoiceConfig?.voiceName
  return typeof voice === 'string' ? { voice, format: 'pcm16' } : undefined
}

// Translates Gemini turns to chat messages, and matches function results with their calls.

/** A call in the history. */
interface OpenCall {
  readonly id: string
  readonly name: string
  /** Whether the id is ours, because the client sent none. */
  readonly isMinted: boolean
}

/** The calls without a result so far, oldest first, under their ids and their names. */
class OpenCalls {
  readonly #byId = new Map<string, OpenCall[]>()
  readonly #byName = new Map<string, OpenCall[]>()
  /** Those that came without an id, by name. */
  readonly #unnumbered = new Map<string, OpenCall[]>()
  readonly #taken = new Set<OpenCall>()

  add(call: OpenCall): void {
    const places = [
      call.isMinted ? ([this.#unnumbered, call.name] as const) : ([this.#byId, call.id] as const),
      [this.#byName, call.name] as const,
    ]
    for (const [calls, key] of places) {
      const same = calls.get(key)
      if (same) same.push(call)
      else calls.set(key, [call])
    }
  }

  /** The oldest with this id, or of this name if one of the two has no id. */
  take(id: string | null | undefined, name: string): OpenCall | undefined {
    const calls =
      (id == null ? this.#byName.get(name) : (this.#byId.get(id) ?? this.#unnumbered.get(name))) ?? []
    while (calls.length > 0 && this.#taken.has(calls[0]!)) calls.shift()
    const call = calls.shift()
    if (call) this.#taken.add(call)
    return call
  }
}

/** All turns as chat messages, each with its turn. Throws `invalid_request` naming what cannot be read. */
export function messagesOf(contents: readonly TurnContent[]): { message: JsonObject; param: string }[] {
  const open = new OpenCalls()
  return turnsOf(contents).flatMap((turn) => {
    const messages = turn.role === 'model' ? [modelMessage(turn, open)] : userMessages(turn, open)
    return messages.map((message) => ({ message, param: `contents[${turn.index}]` }))
  })
}

interface PlacedPart {
  readonly part: ClientPart
  /** Where it is in the client's body: `contents[2].parts[0]`. */
  readonly param: string
}

interface Turn {
  readonly role: TurnContent['role']
  /** Of its first content. */
  readonly index: number
  readonly parts: PlacedPart[]
}

/**
 * The contents as turns. Google's clients keep a streamed answer as one content for each of its chunks; these are one
 * turn of the model: its calls are answered together, and its thoughts belong to them.
 */
function turnsOf(contents: readonly TurnContent[]): Turn[] {
  const turns: Turn[] = []
  for (const [index, { role, parts }] of contents.entries()) {
    const placed = (parts ?? []).map((part, at) => ({ part, param: `contents[${index}].parts[${at}]` }))
    const last = turns.at(-1)
    if (role === 'model' && last?.role === 'model') last.parts.push(...placed)
    else turns.push({ role, index, parts: placed })
  }
  return turns
}

/** The texts of a system instruction. */
function systemMessage(content: TurnContent): JsonObject | undefined {
  const text = (content.parts ?? []).map((part) => part.text ?? '').join('\n')
  return text === '' ? undefined : { role: 'system', content: text }
}

// ---- what the user said -----------------------------------------------------------------------------------

/** Results first, each as a message of its own, then the text beside them. */
function userMessages({ parts }: Turn, open: OpenCalls): JsonObject[] {
  const results: JsonObject[] = []
  const said: JsonObject[] = []
  for (const placed of parts) {
    if (placed.part.functionResponse != null) results.push(resultMessage(placed, open))
    else said.push(contentPart(placed))
  }
  return said.length === 0 ? results : [...results, { role: 'user', content: said }]
}

function resultMessage({ part, param }: PlacedPart, open: OpenCalls): JsonObject {
  const { id, name, response, parts } = part.functionResponse!
  const call = open.take(id, name)
  if (call === undefined)
    throw invalidParam(`${param}.functionResponse`, 'no function call before it has that name.')
  const media = (parts ?? []).map((each, at) =>
    contentPart({ part: each, param: `${param}.functionResponse.parts[${at}]` }),
  )
  const text = { type: 'text', text: resultText((response ?? {}) as JsonObject) }
  return {
    role: 'tool',
    tool_call_id: call.id,
    content: media.length === 0 ? text.text : [text, ...media],
    ...(isObjectOfOne(response, 'error') ? { is_error: true } : {}),
  }
}

/** Google's convention: `output` (`result` in its client libraries) is the function's result, `error` its failure. */
function resultText(response: JsonObject): string {
  for (const key of ['output', 'result', 'error']) {
    const value = response[key]
    if (typeof value === 'string' && isObjectOfOne(response, key)) return value
  }
  return JSON.stringify(response)
}

function isObjectOfOne(value: unknown, key: string): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).join() === key
}

function contentPart({ part, param }: PlacedPart): JsonObject {
  if (part.text != null) return { type: 'text', text: part.text }
  if (part.inlineData != null) return { ...mediaPart(part.inlineData), ...ownMembers(part, part.inlineData) }
  if (part.fileData != null) return { ...filePart(part.fileData), ...ownMembers(part, part.fileData) }
  throw invalidParam(param, 'a part of this kind cannot be read here.')
}

/** What only Google reads of a medium, where its compatible endpoint would have it. */
function ownMembers(part: ClientPart, medium: { readonly mimeType?: string | null | undefined }): JsonObject {
  const google = present<JsonObject>({
    ...pickedFrom(part, passedFields.part),
    ...pickedFrom(medium, passedFields.blob),
    mimeType: part.fileData == null ? undefined : medium.mimeType,
  })
  return Object.keys(google).length === 0 ? {} : { extra_content: { google } }
}

function mediaPart({ mimeType, data }: { mimeType: string; data: string }): JsonObject {
  const url = `data:${mimeType};base64,${data}`
  if (mimeType.startsWith('image/')) return { type: 'image_url', image_url: { url } }
  if (mimeType.startsWith('video/')) return { type: 'video_url', video_url: { url } }
  if (!mimeType.startsWith('audio/')) return { type: 'file', file: { file_data: url } }
  const format = mimeType.slice('audio/'.length).split(';', 1)[0]!
  return { type: 'input_audio', input_audio: { data, format: format === 'mpeg' ? 'mp3' : format } }
}

/** A file by its address, or one uploaded to Google. */
function filePart({
  mimeType,
  fileUri,
}: {
  mimeType?: string | null | undefined
  fileUri: string
}): JsonObject {
  const type = mimeType ?? ''
  const isKept = !/^https?:/i.test(fileUri) || /\/v\d\w*\/files\/[^/]+$/.test(fileUri)
  if (isKept) return { type: 'file', file: { file_id: fileUri } }
  if (type.startsWith('image/')) return { type: 'image_url', image_url: { url: fileUri } }
  const isVideo =
    type.startsWith('video/') || /^https:\/\/((www|m)\.)?(youtube\.com|youtu\.be)\//.test(fileUri)
  if (isVideo) return { type: 'video_url', video_url: { url: fileUri } }
  return { type: 'file', file: { file_url: fileUri } }
}

// ---- what the model said ----------------------------------------------------------------------------------

function modelMessage({ index: turn, parts }: Turn, open: OpenCalls): JsonObject {
  let text = ''
  const calls: JsonObject[] = []
  const reasoning: ReasoningDetail[] = []
  /** Of other providers, on the calls that it led to. */
  const sealed: ReasoningDetail[] = []
  const images: JsonObject[] = []
  /** The last part, if it was a thought without a signature. */
  let unsigned: string | undefined
  for (const { part, param } of parts) {
    const signature = part.thoughtSignature ?? undefined
    const begun = unsigned
    unsigned = undefined
    const here = { start: text.length, end: text.length, calls: calls.length }
    if (part.functionCall != null) {
      const given = part.functionCall.id ?? undefined
      const id = given ?? mintCallId('history', turn, calls.length)
      open.add({ id, name: part.functionCall.name, isMinted: given === undefined })
      const thoughts = thoughtsOfCall(signature)
      if (thoughts !== undefined) sealed.push(...thoughts)
      calls.push({
        id,
        type: 'function',
        function: { name: part.functionCall.name, arguments: JSON.stringify(part.functionCall.args ?? {}) },
        ...(signature === undefined || thoughts !== undefined
          ? {}
          : { extra_content: { google: { thought_signature: signature } } }),
      })
    } else if (part.thought === true) {
      // What was streamed in pieces has its signature on the last. Google forbids to join a part that it has signed.
      const joined = begun !== undefined && !isGoogles(signature)
      const said = (joined ? begun : '') + (part.text ?? '')
      if (joined) reasoning.pop()
      reasoning.push(detailOfThought(said, signature, reasoning.length))
      if (signature === undefined) unsigned = said
    } else if (part.inlineData != null) {
      if (!part.inlineData.mimeType.startsWith('image/'))
        throw unsupportedParam(
          `${param}.inlineData`,
          'of an earlier answer only text and images are taken back.',
        )
      if (signature !== undefined)
        reasoning.push(carry(reasoning.length, { ...here, kind: 'image', image: images.length, signature }))
      images.push(mediaPart(part.inlineData))
    } else if (opaqueParts.some((kind) => part[kind] !== undefined)) {
      reasoning.push(carry(reasoning.length, { ...here, kind: 'part', part: part as JsonObject }))
    } else {
      text += part.text ?? ''
      if (signature !== undefined) {
        const place = { ...here, end: text.length }
        reasoning.push(carriedText(reasoning.length, place, signature))
      }
    }
  }
  const details = sealed.length === 0 ? reasoning : [...sealed, ...reasoning.filter(isSignedByGoogle)]
  return {
    role: 'assistant',
    content: text === '' ? null : text,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(details.length === 0 ? {} : { reasoning_details: details as unknown as Json }),
    ...(images.length === 0 ? {} : { images }),
  }
}

/** Reasoning that is not in the signature of a call as well. */
function isSignedByGoogle(detail: ReasoningDetail): boolean {
  return !isForeign(detail) && (detail.signature ?? detail.data) !== undefined
}

/** A signature on plain text: Google's own, or another provider's reasoning without text. */
function carriedText(
  index: number,
  place: { start: number; end: number; calls: number },
  signature: string,
): ReasoningDetail {
  const detail = detailOfThought('', signature, index)
  const own = detail.format === signatureFormat && detail.type === 'reasoning.text'
  return own ? carry(index, { ...place, kind: 'text', signature }) : detail
}

// Where addresses may be in the body of a Gemini request.

const fileData = parts({ mimeType: 'words', displayName: 'words', fileUri: 'reference' })

const part = parts({
  ...wordsAt('text thought thoughtSignature inlineData functionCall executableCode codeExecutionResult'),
  ...wordsAt('videoMetadata mediaResolution'),
  fileData,
  functionResponse: parts({
    ...wordsAt('id name response willContinue scheduling'),
    parts: parts({ inlineData: 'words', fileData }),
  }),
})

const content = parts({ role: 'words', parts: part })

export const addresses = parts({
  ...gatewayPlaces,
  model: 'words',
  contents: content,
  systemInstruction: content,
  ...wordsAt('tools toolConfig generationConfig safetySettings labels serviceTier'),
  // Refused.
  cachedContent: 'words',
})

// Google accepts field names in camel case and snake case, and a list of one without its brackets. This converts bodies
// to camel case and lists.

/** How the API's objects are nested. Schemas, arguments and results are the client's and stay unchanged. */
interface Shape {
  readonly [field: string]: Shape
}

const blob: Shape = {}
const camelCasePart: Shape = {
  inlineData: blob,
  fileData: {},
  functionCall: {},
  functionResponse: { parts: { inlineData: blob, fileData: {} } },
  videoMetadata: {},
}
const camelCaseContent: Shape = { parts: camelCasePart }
const request: Shape = {
  contents: camelCaseContent,
  systemInstruction: camelCaseContent,
  tools: { functionDeclarations: {}, googleSearch: {} },
  toolConfig: { functionCallingConfig: {} },
  generationConfig: { thinkingConfig: {}, speechConfig: { voiceConfig: { prebuiltVoiceConfig: {} } } },
}

const embedding: Shape = { content: camelCaseContent, requests: { content: camelCaseContent } }

/** Google's own example of a system instruction writes each of the first two as one object. */
const lists = new Set(['contents', 'parts', 'tools', 'functionDeclarations'])

/** The gateway's fields keep their names in snake case. */
const kept = new Set(['max_cost', 'session_id', 'on_disconnect'])

/** The body with the API's field names in camel case, also inside lists, and its lists as lists. */
export function camelCased(body: JsonObject): JsonObject {
  return renameKeys(body, request) as JsonObject
}

/** The same for a request for embeddings. */
export function camelCasedEmbedding(body: JsonObject): JsonObject {
  return renameKeys(body, embedding) as JsonObject
}

function renameKeys(value: Json, shape: Shape): Json {
  if (Array.isArray(value)) return value.map((each) => renameKeys(each, shape))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, Json] => {
      const field = kept.has(name) ? name : camel(name)
      const inner = Object.hasOwn(shape, field) ? shape[field] : undefined
      if (inner === undefined) return [field, member]
      return [field, renameKeys(lists.has(field) && isObject(member) ? [member] : member, inner)]
    }),
  )
}

// Converts Google's schema language (types in capitals, `nullable`) to JSON Schema.

/** Limits that Google writes as strings because they are 64-bit numbers. */
const bounds = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])

/** The JSON Schema of a Google schema; JSON Schema is returned unchanged. */
function jsonSchemaOf(schema: unknown): JsonObject {
  if (!isObject(schema)) return {}
  const made: JsonObject = {}
  for (const [key, value] of Object.entries(schema)) {
    const field = camel(key)
    const converted = memberOf(field, value)
    if (converted !== undefined) made[field] = converted
  }
  return schema['nullable'] === true ? orNull(made) : made
}

function memberOf(field: string, value: Json): Json | undefined {
  switch (field) {
    case 'nullable':
    case 'propertyOrdering':
      return undefined
    case 'type':
      return typeof value === 'string' ? typeOf(value) : value
    case 'properties':
      return isObject(value)
        ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, jsonSchemaOf(inner)]))
        : value
    case 'items':
      return jsonSchemaOf(value)
    case 'additionalProperties':
      return isObject(value) ? jsonSchemaOf(value) : value
    case 'anyOf':
    case 'prefixItems':
      return Array.isArray(value) ? value.map(jsonSchemaOf) : value
    default:
      return bounds.has(field) && typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  }
}

function typeOf(type: string): string | undefined {
  return type === 'TYPE_UNSPECIFIED' ? undefined : type.toLowerCase()
}

function orNull(schema: JsonObject): JsonObject {
  const { type } = schema
  if (typeof type === 'string') return { ...schema, type: [type, 'null'] }
  return { anyOf: [schema, { type: 'null' }] }
}

// Carries reasoning of any provider in Gemini's thought signatures, which clients return unread.

/** Whether a detail was not made by Google's models. */
export function isForeign({ format }: ReasoningDetail): boolean {
  return format !== signatureFormat
}

/** Google's own signature, or another provider's detail in one of ours; as base64, since clients decode the field. */
export function thoughtSignatureOf(detail: ReasoningDetail): string | undefined {
  if (detail.format === signatureFormat && detail.type === 'reasoning.text')
    return detail.signature ?? undefined
  const isPlain = detail.type === 'reasoning.text' && detail.format === null && !detail.signature
  return isPlain ? undefined : Buffer.from(carriedSignature(detail)).toString('base64')
}

/** A detail with its text as a part that shows nothing. */
export function sealedPart(detail: ReasoningDetail): JsonObject {
  const signature = carriedSignature(detail, thinkingText(detail))
  return { text: '', thoughtSignature: Buffer.from(signature).toString('base64') }
}

/**
 * Other providers' reasoning as the signature of the function call that it led to: there Google has its own. Clients
 * that drop thoughts from their history, as Gemini CLI does, send the signatures of calls back. The texts are in it.
 */
export function thoughtsOnCall(details: readonly ReasoningDetail[]): string {
  return Buffer.from(seal(details)).toString('base64')
}

/** What `thoughtsOnCall` put into the signature of a call; undefined for Google's own. */
function thoughtsOfCall(signature: string | undefined): ReasoningDetail[] | undefined {
  return signature === undefined ? undefined : unseal(Buffer.from(signature, 'base64').toString('utf8'))
}

/** Whether a signature is Google's own. */
function isGoogles(signature: string | undefined): boolean {
  return signature !== undefined && !isCarried(Buffer.from(signature, 'base64').toString('utf8'))
}

/** The detail of a thought in the client's history; `index` is its position in the turn's reasoning. */
function detailOfThought(text: string, signature: string | undefined, index: number): ReasoningDetail {
  const carried = signature === undefined ? undefined : Buffer.from(signature, 'base64').toString('utf8')
  if (carried !== undefined && isCarried(carried)) return detailOfThinking(text, carried, index)
  return {
    type: 'reasoning.text',
    format: signatureFormat,
    index,
    text,
    ...(signature === undefined ? {} : { signature }),
  }
}
