// Converts a Gemini request to the body of a chat completion, which is then read like any other.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject } from '../../json.ts'
import { unsupportedParam } from '../../request/invalid-param.ts'
import type { Warning } from '../../protocol.ts'
import { messagesOf, systemMessage } from './contents.ts'
import { gatewayFields, type GenerateContentRequest, knownFields } from './schema.ts'
import { jsonSchemaOf } from './schema-of-types.ts'

type Config = NonNullable<GenerateContentRequest['generationConfig']>
type Tools = NonNullable<GenerateContentRequest['tools']>

export interface ChatBody {
  readonly body: JsonObject
  /** Where each chat message is in the client's body: `contents[2]`. */
  readonly params: readonly string[]
  /** Where the client declares a web search. */
  readonly searchParam: string | undefined
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
  const body = withoutUndefined({
    model,
    messages,
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
    ...(declared.length === 0 ? {} : { tools: declared }),
    tool_choice:
      functions.length === 0 ? undefined : toolChoiceOf(toolConfig, functions, search !== undefined),
    ...configOf(generationConfig ?? {}),
    ...Object.fromEntries(gatewayFields.map((field) => [field, request[field] as Json | undefined])),
  })
  const params = turns.map(({ param }) => param)
  return {
    body,
    params: system === undefined ? params : ['systemInstruction', ...params],
    searchParam: search?.param,
    warnings: [...droppedOf(request), ...(search?.warnings ?? [])],
  }
}

/** Google's own fields that affect how it answers. */
const googleOnly: ReadonlySet<string> = new Set([
  'safetySettings',
  'labels',
  'generationConfig.mediaResolution',
])

/** Fields that no provider gets: dropped with a warning. */
function droppedOf(request: GenerateContentRequest): Warning[] {
  const { generationConfig, toolConfig } = request
  const fields = [
    ...unreadIn(request, knownFields.body, ''),
    ...unreadIn(generationConfig ?? {}, knownFields.generationConfig, 'generationConfig.'),
    ...unreadIn(toolConfig ?? {}, knownFields.toolConfig, 'toolConfig.'),
  ]
  return fields.map((param) =>
    droppedWarning(param, googleOnly.has(param) ? 'Only Google itself knows this field' : 'Unknown field'),
  )
}

function droppedWarning(param: string, why: string): Warning {
  return { param, message: `${why}; dropped.` }
}

function unreadIn(
  fields: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string>,
  path: string,
): string[] {
  const isUnread = (field: string) => !known.has(field) || googleOnly.has(path + field)
  return Object.keys(fields)
    .filter((field) => fields[field] != null && isUnread(field))
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
  const unread = unreadIn(googleSearch ?? {}, knownFields.googleSearch, `${param}.`)
  return {
    tool: withoutUndefined({ type: 'web_search', blocked_domains: googleSearch?.excludeDomains }),
    param,
    warnings: unread.map((field) => droppedWarning(field, 'Only Google itself knows this field')),
  }
}

function functionsOf(tools: Tools): JsonObject[] {
  return tools.flatMap((tool, index) => {
    const other = Object.keys(tool).find((kind) => !servedKinds.has(kind) && tool[kind] != null)
    if (other !== undefined)
      throw unsupportedParam(
        `tools[${index}].${other}`,
        'of the tools that Google runs, its search alone is served.',
      )
    return (tool.functionDeclarations ?? []).map(
      ({ name, description, parameters, parametersJsonSchema }): JsonObject => {
        const schema = parametersJsonSchema ?? (parameters == null ? undefined : jsonSchemaOf(parameters))
        return {
          type: 'function',
          function: withoutUndefined({ name, description, parameters: schema as JsonObject | undefined }),
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
  return withoutUndefined({
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
    throw new GatewayError('invalid_request', {
      message: `Invalid value for 'generationConfig.thinkingConfig.thinkingLevel': it is one of ${[...levels].join(', ')}.`,
      param: 'generationConfig.thinkingConfig.thinkingLevel',
    })
  }
  return withoutUndefined({
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

function withoutUndefined(
  fields: Record<string, Json | undefined | null | readonly string[] | readonly JsonObject[]>,
): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter(
      (entry): entry is [string, Json] => entry[1] !== undefined && entry[1] !== null,
    ),
  )
}
