// Translates a chat request to chat completions, in the dialect of the provider's row.

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ResponseFormat,
  ToolCall,
  ToolMessage,
} from '../../../conversation/request.ts'
import {
  ableTo,
  bareDomain,
  fileAsText,
  joinWarnings,
  type LoweredRequest,
  type OwnSearch,
  refuseMedium,
  resultContent,
  textLinesIn,
  urlOf,
  type Warning,
  warnInto,
  warnOfName,
} from '../../lowering.ts'
import { isObject } from '../../lenient.ts'
import { callItem } from '../../openai/client-tools.ts'
import {
  type LoweredFields,
  lowerReasoning,
  lowerRest,
  lowerSampling,
  nothingLowered,
  parametersOf,
  refuseUnsupported,
  shownTools,
  wireSchema,
  withRootObjects,
} from '../../openai/parameters.ts'
import type { Outbound, Prefill, Target } from '../../protocol.ts'
import { defaultQuirks, ignoredFields, type OpenAIChatQuirks } from './quirks.ts'
import { embeddings } from '../../embeddings/openai.ts'
import { nineLetters, withinLimits } from '../../names.ts'
import { passthrough } from '../passthrough/passthrough.ts'
import { plainWhole, streamParser, wholeEvents } from './parse.ts'
import { faultOf } from '../../openai/usage.ts'

export function lower(asked: ChatRequest, target: Target<OpenAIChatQuirks>): LoweredRequest {
  const { quirks } = target
  const { request, warnings: loosened } = withRootObjects(asked)
  refuseUnsupported(request, target)
  const sampling = lowerSampling(request, target)
  const reasoning = lowerReasoning(request, target)
  const format = lowerResponseFormat(request.responseFormat, target)
  const rest = lowerRest(request.rest, target)
  const messages = lowerMessages(withInstruction(request.messages, format.instruction), target)
  const body: JsonObject = {}
  Object.assign(body, rest.fields, sampling.fields, reasoning.fields)
  Object.assign(body, lowerTools(request, quirks), searchFields(request, quirks), format.fields)
  Object.assign(body, quirks.bodyExtras)
  // Fields that the hold depends on, or that the gateway needs to read the answer: the client's values do not count.
  body.model = target.model
  body.messages = messages
  if (request.maxOutputTokens !== undefined) body[quirks.maxTokensField] = request.maxOutputTokens
  body.stream = request.stream
  if (quirks.prefill === 'template' && isPrefilled(request)) {
    body.continue_final_message = true
    body.add_generation_prompt = false
  }
  // Usage is always requested: without it a stream could only be charged by estimate.
  if (request.stream && quirks.streamOptions) body.stream_options = { include_usage: true }
  const dropped = joinWarnings(
    joinWarnings(sampling.warnings, reasoning.warnings),
    joinWarnings(joinWarnings(format.warnings, rest.warnings), loosened),
  )
  return {
    path: '/chat/completions',
    headers: noHeaders,
    body,
    warnings: quirks.messageNames ? dropped : joinWarnings(dropped, lostNames(request.messages)),
  }
}

const noHeaders: Readonly<Record<string, string>> = {}

function isPrefilled({ messages }: ChatRequest): boolean {
  const last = messages.at(-1)
  return last?.role === 'assistant' && last.prefill === true
}

/** How the model goes on with an answer that is begun for it. One that reasons would think anew, or not at all. */
export function prefillOf({
  quirks,
  reasoning,
}: Pick<Target<OpenAIChatQuirks>, 'quirks' | 'reasoning'>): Prefill | undefined {
  if (reasoning || quirks.prefill === 'none') return undefined
  return quirks.prefill === 'prefix' ? 'repeated' : 'rest'
}

function lostNames(messages: readonly Message[]): readonly Warning[] {
  const warnings: Warning[] = []
  for (const [at, message] of messages.entries()) warnOfName(message, `messages[${at}]`, warnInto(warnings))
  return warnings
}

/** The messages with another instruction after the leading system messages. */
function withInstruction(messages: readonly Message[], instruction: string | undefined): readonly Message[] {
  if (instruction === undefined) return messages
  const firstTurn = messages.findIndex((message) => message.role !== 'system' && message.role !== 'developer')
  const at = firstTurn < 0 ? messages.length : firstTurn
  const added: Message = { role: 'system', content: [{ kind: 'text', text: instruction, cache: undefined }] }
  return [...messages.slice(0, at), added, ...messages.slice(at)]
}

// Builds the messages for a provider of chat completions, in the dialect of its row.

/** `reasoning`: the model may require its earlier reasoning. */
type MessageContext = Pick<
  Target<OpenAIChatQuirks>,
  'quirks' | 'provider' | 'reasoning' | 'rememberedSignature'
>

/** All messages, in order. Throws GatewayError `unsupported_parameter` for a part that the provider does not accept. */
function lowerMessages(messages: readonly Message[], context: MessageContext): JsonObject[] {
  const lowered: JsonObject[] = []
  // A tool message only has text; other parts of results follow as a user message.
  let beside: Json[] | undefined
  for (const message of messages) {
    if (message.role !== 'tool' && beside !== undefined) {
      lowered.push({ role: 'user', content: beside })
      beside = undefined
    }
    if (message.role === 'assistant') lowered.push(lowerAssistant(message, context))
    else if (message.role === 'tool') {
      lowered.push(lowerToolResult(message))
      const media = mediaOf(message, context)
      if (media.length > 0) (beside ??= []).push(...media)
    } else {
      const role = message.role === 'developer' && !context.quirks.developerRole ? 'system' : message.role
      lowered.push(
        withName({ role, content: lowerContent(message.content, context) }, message, context.quirks),
      )
    }
  }
  if (beside !== undefined) lowered.push({ role: 'user', content: beside })
  return context.quirks.alternatingRoles ? alternating(lowered) : lowered
}

function lowerAssistant(message: AssistantMessage, context: MessageContext): JsonObject {
  const content = lowerContent(message.content, context)
  const calls = message.toolCalls.map((call): JsonObject => {
    const signature = context.quirks.thoughtSignatures
      ? (call.thoughtSignature ?? context.rememberedSignature(call))
      : undefined
    return {
      id: call.id,
      ...lowerCall(call, context.quirks),
      ...markOf(call.cache, context.quirks),
      ...(signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } }),
    }
  })
  const lowered: JsonObject = {
    role: 'assistant',
    // null means "only calls"; several providers refuse an empty text part.
    content: content === '' && calls.length > 0 ? null : content,
    ...reasoningEcho(message, content, context),
  }
  if (calls.length > 0) lowered.tool_calls = calls
  const { prefill } = context.quirks
  if (message.prefill && (prefill === 'prefix' || prefill === 'partial')) lowered[prefill] = true
  return withName(lowered, message, context.quirks)
}

function lowerCall({ name, arguments: json, form }: ToolCall, quirks: OpenAIChatQuirks): JsonObject {
  if (form?.kind !== 'custom' || !quirks.customTools)
    return { type: 'function', function: { name, arguments: json } }
  return { type: 'custom', custom: { name, input: callItem(form, json).input! } }
}

/** Earlier reasoning under the provider's name for it; anything it cannot read is left out. */
function reasoningEcho(
  message: AssistantMessage,
  content: string | Json[],
  context: MessageContext,
): JsonObject {
  const { reasoningEcho: echo, echoRequired } = context.quirks
  const text = message.reasoning.map((detail) => detail.text ?? '').join('')
  switch (echo) {
    case 'none':
      return {}
    case 'reasoning_details':
      return message.reasoning.length === 0
        ? {}
        : { reasoning_details: message.reasoning.map((detail) => ({ ...detail }) as JsonObject) }
    case 'thinking-parts': {
      if (text === '') return {}
      const said = typeof content === 'string' ? (content === '' ? [] : [textPart(content)]) : content
      return { content: [{ type: 'thinking', thinking: [textPart(text)] }, ...said] }
    }
    case 'reasoning_content':
    case 'reasoning':
      if (text !== '') return { [echo]: text }
      return echoRequired && context.reasoning && message.toolCalls.length > 0 ? { [echo]: '' } : {}
  }
}

function lowerToolResult(message: ToolMessage): JsonObject {
  const content = textLinesIn(resultContent(message))
  return { role: 'tool', tool_call_id: message.toolCallId, content }
}

function mediaOf(message: ToolMessage, context: MessageContext): Json[] {
  return message.content
    .filter((part) => part.kind !== 'text' && part.kind !== 'refusal')
    .map((part) => lowerPart(part, context))
}

function withName(
  lowered: JsonObject,
  { name }: { readonly name?: string },
  quirks: OpenAIChatQuirks,
): JsonObject {
  if (quirks.messageNames && name !== undefined) lowered.name = name
  return lowered
}

// ---- parts ------------------------------------------------------------------------------------------------

/** Plain text stays a string, which every server accepts; anything else becomes parts. */
function lowerContent(parts: readonly ContentPart[], context: MessageContext): string | Json[] {
  const [only] = parts
  if (only === undefined) return ''
  const text = parts.length === 1 ? plainTextOf(only, context.quirks) : undefined
  return text ?? contentOf(parts, context)
}

function contentOf(parts: readonly ContentPart[], context: MessageContext): string | Json[] {
  const spoken = parts.filter((part) => part.kind !== 'text' || part.text !== '')
  if (spoken.length === 0) return ''
  const texts = spoken.map((part) => plainTextOf(part, context.quirks))
  if ((texts.length === 1 || !context.quirks.textParts) && !texts.includes(undefined)) return texts.join('\n')
  return spoken.map((part) => lowerPart(part, context))
}

/** The text of a part without other properties. */
function plainTextOf(part: ContentPart, quirks: OpenAIChatQuirks): string | undefined {
  if (part.kind === 'refusal') return quirks.refusalParts ? undefined : part.text
  if (part.kind === 'file')
    return part.cache === undefined || !isMarkSent(part.cache, quirks) ? fileAsText(part) : undefined
  if (part.kind !== 'text') return undefined
  return part.cache === undefined || !isMarkSent(part.cache, quirks) ? part.text : undefined
}

function lowerPart(part: ContentPart, context: MessageContext): JsonObject {
  switch (part.kind) {
    case 'text':
      return { ...textPart(part.text), ...markOf(part.cache, context.quirks) }
    case 'refusal':
      return context.quirks.refusalParts ? { type: 'refusal', refusal: part.text } : textPart(part.text)
    case 'image':
      return {
        type: 'image_url',
        image_url: {
          url: urlOf(part.source) ?? refuse(context, 'an image by file id'),
          ...(part.detail === undefined ? {} : { detail: part.detail }),
        },
        ...markOf(part.cache, context.quirks),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: part.data, format: part.format } }
    case 'video':
      return {
        type: 'video_url',
        video_url: { url: urlOf(part.source) ?? refuse(context, 'a video by file id') },
      }
    case 'file':
      return { ...lowerFile(part, context), ...markOf(part.cache, context.quirks) }
  }
}

function lowerFile(part: Extract<ContentPart, { kind: 'file' }>, context: MessageContext): JsonObject {
  // Every model reads text; most servers refuse files of other types than PDF.
  const text = fileAsText(part)
  if (text !== undefined) return textPart(text)
  const { source } = part
  const named = part.filename === undefined ? {} : { filename: part.filename }
  switch (context.quirks.fileParts) {
    case 'none':
      return refuse(context, 'files')
    case 'file':
    case 'file-or-url': {
      if (source.kind === 'provider-file') return { type: 'file', file: { file_id: source.id } }
      if (source.kind === 'url' && context.quirks.fileParts === 'file')
        return refuse(context, 'a file by URL')
      // OpenAI refuses file data without a name.
      return { type: 'file', file: { filename: 'file', ...named, file_data: urlOf(source)! } }
    }
    case 'document_url':
      return { type: 'document_url', document_url: urlOf(source) ?? refuse(context, 'a file by id') }
    case 'file_url': {
      // Perplexity requires bare base64 instead of a data URL.
      const url = source.kind === 'base64' ? source.data : (urlOf(source) ?? refuse(context, 'a file by id'))
      return {
        type: 'file_url',
        file_url: { url },
        ...(part.filename === undefined ? {} : { file_name: part.filename }),
      }
    }
  }
}

function refuse({ provider }: MessageContext, what: string): never {
  return refuseMedium(provider, what, 'messages')
}

function textPart(text: string): JsonObject {
  return { type: 'text', text }
}

/** Whether the provider has a word for the mark. Where a prompt is cached by itself, Anthropic's says nothing. */
function isMarkSent({ breakpoint }: CacheMark, quirks: OpenAIChatQuirks): boolean {
  return quirks.cacheControl || (quirks.cacheBreakpoints && breakpoint !== undefined)
}

/** A cache mark, if the provider supports it. Five minutes is the default and left out. */
function markOf(mark: CacheMark | undefined, quirks: OpenAIChatQuirks): JsonObject {
  if (mark === undefined || !isMarkSent(mark, quirks)) return {}
  if (!quirks.cacheControl) return { prompt_cache_breakpoint: mark.breakpoint! }
  return { cache_control: { type: 'ephemeral', ...(mark.ttl === '5m' ? {} : { ttl: mark.ttl }) } }
}

// ---- dialects ---------------------------------------------------------------------------------------------

/** Merges consecutive turns of a role, and makes later system messages the user's, where roles must alternate. */
function alternating(messages: readonly JsonObject[]): JsonObject[] {
  const turns: JsonObject[][] = []
  let begun = false
  for (const message of messages) {
    begun ||= message.role !== 'system'
    const turn = begun && message.role === 'system' ? { ...message, role: 'user' } : message
    const last = turns.at(-1)
    if (last === undefined || last[0]!.role !== turn.role || turn.role === 'tool') turns.push([turn])
    else last.push(turn)
  }
  return turns.map(joinMessages)
}

/** Joined at once: merging one by one would be quadratic. */
function joinMessages(turn: readonly JsonObject[]): JsonObject {
  const [first] = turn
  if (turn.length === 1) return first!
  const contents = turn.map(({ content }) => content)
  const firstParts = contents.findIndex((content) => typeof content !== 'string')
  const textsBefore = firstParts < 0 ? contents : contents.slice(0, firstParts)
  const text = textsBefore.filter((each) => each !== '').join('\n\n')
  const content =
    firstParts < 0 ? text : [...partsOf(text), ...contents.slice(firstParts).flatMap((each) => partsOf(each))]
  const calls = turn.flatMap(({ tool_calls: list }) => (Array.isArray(list) ? list : []))
  const fields: JsonObject = {}
  for (const message of turn) Object.assign(fields, message)
  return { ...fields, content, ...(calls.length === 0 ? {} : { tool_calls: calls }) }
}

function partsOf(content: Json | undefined): Json[] {
  if (Array.isArray(content)) return content
  return typeof content === 'string' && content !== '' ? [textPart(content)] : []
}

// Tools and answer format, in the dialect of a provider's row.

type ChatTarget = Target<OpenAIChatQuirks>

const noFields: JsonObject = {}

function lowerTools(request: ChatRequest, quirks: OpenAIChatQuirks): JsonObject {
  const tools = shownTools(request, quirks)
  return tools.length === 0 ? noFields : toolFields(tools, lowerToolChoice(request, quirks), quirks)
}

function toolFields(
  tools: readonly FunctionTool[],
  choice: Json | undefined,
  quirks: OpenAIChatQuirks,
): JsonObject {
  const lowered = tools.map((tool) => lowerTool(tool, quirks))
  return choice === undefined ? { tools: lowered } : { tools: lowered, tool_choice: choice }
}

function lowerTool(tool: FunctionTool, quirks: OpenAIChatQuirks): JsonObject {
  if (isCustom(tool, quirks)) return lowerCustom(tool)
  const { name, description, strict, cache } = tool
  // An agent declares dozens with each call, and to spread what is mostly absent takes several times as long.
  const defined: JsonObject = { name }
  if (description !== undefined) defined.description = description
  defined.parameters = parametersOf(tool)
  if (strict !== undefined) defined.strict = strict
  const lowered: JsonObject = { type: 'function', function: defined }
  return cache === undefined ? lowered : { ...lowered, ...markOf(cache, quirks) }
}

function isCustom({ form }: FunctionTool, { customTools }: OpenAIChatQuirks): boolean {
  return customTools && form?.kind === 'custom'
}

function lowerCustom({ name, form }: FunctionTool): JsonObject {
  const { description, format } = form!.tool
  const wire: JsonObject =
    isObject(format) && format.type === 'grammar'
      ? { format: { type: 'grammar', grammar: { syntax: format.syntax!, definition: format.definition! } } }
      : {}
  return { type: 'custom', custom: { name, ...(description == null ? {} : { description }), ...wire } }
}

function lowerToolChoice(request: ChatRequest, quirks: OpenAIChatQuirks): Json | undefined {
  const choice = request.toolChoice
  switch (choice?.kind) {
    case undefined:
      return undefined
    case 'auto':
    case 'none':
      return choice.kind
    case 'required':
      return quirks.requiredToolChoice
    case 'function':
      return chosenTool(choice.name, request, quirks)
    case 'allowed': {
      if (!quirks.allowedTools) return choice.mode === 'required' ? quirks.requiredToolChoice : 'auto'
      const tools = choice.names.map((name) => chosenTool(name, request, quirks))
      return { type: 'allowed_tools', allowed_tools: { mode: choice.mode, tools } }
    }
  }
}

function chosenTool(name: string, { tools }: ChatRequest, quirks: OpenAIChatQuirks): JsonObject {
  return tools.some((tool) => tool.name === name && isCustom(tool, quirks))
    ? { type: 'custom', custom: { name } }
    : { type: 'function', function: { name } }
}

// ---- response format --------------------------------------------------------------------------------------

type LoweredFormat = LoweredFields & { readonly instruction: string | undefined }

const anyFormat: LoweredFormat = { ...nothingLowered, instruction: undefined }

/** The response format, and the instruction that replaces a schema if the provider supports none. */
function lowerResponseFormat(format: ResponseFormat | undefined, target: ChatTarget): LoweredFormat {
  switch (format?.kind) {
    case undefined:
    case 'text':
      return anyFormat
    case 'json-object':
      return { ...anyFormat, fields: { response_format: { type: 'json_object' } } }
    case 'json-schema': {
      if (target.quirks.jsonSchema) {
        const response_format = { type: 'json_schema', json_schema: wireSchema(format) }
        return { ...anyFormat, fields: { response_format } }
      }
      const message = `${target.provider} takes no JSON schema: it was written into the prompt and binds less.`
      return {
        fields: { response_format: { type: 'json_object' } },
        warnings: [{ param: 'response_format', message }],
        instruction: `Answer with a single JSON object that conforms to this JSON Schema: ${JSON.stringify(format.schema)}`,
      }
    }
  }
}

// Models that search by themselves on every request: OpenAI's for chat completions, and Perplexity's.

const perplexityDomains = 20

export function ownSearch(
  search: WebSearchDeclaration,
  _request: ChatRequest,
  { model, quirks }: { readonly model: string; readonly quirks: OpenAIChatQuirks },
): OwnSearch | undefined {
  switch (quirks.webSearch) {
    case 'none':
      return undefined
    case 'openai':
      // https://developers.openai.com/api/docs/guides/tools-web-search: gpt-4o-search-preview, gpt-5-search-api.
      return /-search-(preview|api)/.test(model) ? ableTo(search, 'request', ['user_location']) : undefined
    case 'perplexity': {
      // https://docs.perplexity.ai/api-reference/chat-completions-post
      const few = search.allowedDomains.length + search.blockedDomains.length <= perplexityDomains
      const domains = few ? (['allowed_domains', 'blocked_domains'] as const) : []
      return ableTo(search, 'request', [...domains, 'paths', 'user_location', 'recency'])
    }
  }
}

/** The search settings; empty for a model that does not search or takes none. */
function searchFields({ webSearch }: ChatRequest, { webSearch: whose }: OpenAIChatQuirks): JsonObject {
  if (webSearch === undefined || whose === 'none') return noFields
  const { location, contextSize, allowedDomains, blockedDomains, rest } = webSearch
  if (whose === 'openai') {
    const place: JsonObject =
      location === undefined ? {} : { user_location: { type: 'approximate', approximate: { ...location } } }
    return { web_search_options: { search_context_size: contextSize, ...place } }
  }
  const { timezone: _, ...place } = location ?? {}
  const domains = [
    ...allowedDomains.map(bareDomain),
    ...blockedDomains.map((domain) => `-${bareDomain(domain)}`),
  ]
  return {
    web_search_options: {
      search_context_size: contextSize,
      ...(Object.keys(place).length > 0 ? { user_location: place } : {}),
    },
    ...(domains.length > 0 ? { search_domain_filter: domains } : {}),
    ...(typeof rest['recency'] === 'string' ? { search_recency_filter: rest['recency'] } : {}),
  }
}

// Chat completions, spoken to a provider. What its dialect is, its row says: see quirks.ts.

export const outbound: Outbound<OpenAIChatQuirks> = withinLimits<OpenAIChatQuirks>(
  {
    id: 'openai-chat',
    framing: 'sse',
    auth: { kind: 'bearer' },
    defaultQuirks,
    inlinesUrls: false,
    lower,
    ownSearch,
    prefill: prefillOf,
    whole: (body, target) => wholeEvents(body, target.quirks),
    plainWhole: (body, target) => plainWhole(body, target.quirks),
    parser: (target, choices = 1) => streamParser(target, choices),
    fault: (status, headers, body) => faultOf(status, headers, body),
    ignores: ({ quirks, reasoning }) => ignoredFields(quirks, reasoning),
    embeddings,
    passthrough,
  },
  ({ quirks }, usual) => (quirks.toolCallIds === 'nine' ? { ...usual, calls: nineLetters } : usual),
)
