// Translates a chat request to OpenAI's Responses protocol.

import type { Annotation } from '../../../conversation/event.ts'
import type {
  AssistantMessage,
  CallForm,
  ChatRequest,
  ContentPart,
  Json,
  JsonObject,
  ReasoningDetail,
  ReasoningFormat,
  ResponseFormat,
  ToolCall,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject } from '../../lenient.ts'
import {
  type LoweredRequest,
  refuseMedium,
  resultContent,
  textLinesIn,
  urlOf,
  type Warning,
  warnInto,
  warnOfName,
} from '../../lowering.ts'
import { freeName, FreeNames } from '../../names.ts'
import { callItem, forOtherProtocols } from '../../openai/client-tools.ts'
import {
  type LoweredFields,
  lowerReasoning as lowerSharedReasoning,
  lowerRest as lowerSharedRest,
  lowerSampling as lowerSharedSampling,
  type ParameterTarget,
  reasoningContext,
  refuseUnsupported as refuseShared,
  wireSchema,
  withRootObjects,
} from '../../openai/parameters.ts'
import type { Target } from '../../protocol.ts'
import { type ResponsesQuirks, unknownFields } from './quirks.ts'
import { lowerTools } from './tools.ts'

export function lower(asked: ChatRequest, provider: Target<ResponsesQuirks>): LoweredRequest {
  const { quirks } = provider
  const target = { ...provider, reasoning: provider.reasoning || quirks.alwaysReasons }
  const known = quirks.clientTools === 'all' ? asked : forOtherProtocols(asked).request
  const { request, warnings: loosened } = withRootObjects(known)
  refuseUnsupported(request, target)
  const conversation = lowerInput(request, { quirks, provider: target.provider })
  const tooling = lowerTools(request, quirks)
  const sampling = lowerSampling(request, target)
  const bound = lowerBound(request, target)
  const reasoning = lowerReasoning(request, target)
  const { [reasoningContext]: context, ...others } = request.rest
  const showsContext = quirks.clientTools === 'all'
  const rest = lowerRest(showsContext ? others : request.rest, target)
  return {
    path: '/responses',
    headers: {},
    body: {
      ...rest.fields,
      ...sampling.fields,
      ...(showsContext ? inContext(reasoning.fields, context) : reasoning.fields),
      ...lowerText(request, target),
      ...tooling.fields,
      ...lowerInclude(request, target),
      ...quirks.bodyExtras,
      ...bound.fields,
      model: target.model,
      input: conversation.input,
      store: false,
      stream: request.stream,
    },
    warnings: [
      ...conversation.warnings,
      ...sampling.warnings,
      ...bound.warnings,
      ...reasoning.warnings,
      ...rest.warnings,
      ...loosened,
    ],
    ...(tooling.toolNames && { toolNames: tooling.toolNames }),
  }
}

// The conversation as input items: messages, calls, their outputs and reasoning.

interface InputContext {
  readonly quirks: ResponsesQuirks
  readonly provider: string
}

/**
 * All input items, in order, and warnings for what was left out. Throws GatewayError `unsupported_parameter` for a
 * part that the provider does not accept.
 */
function lowerInput(
  { messages, nativeItems = [] }: ChatRequest,
  context: InputContext,
): { readonly input: JsonObject[]; readonly warnings: readonly Warning[] } {
  const input: JsonObject[] = []
  const warnings: Warning[] = []
  const ids = new CallIds()
  // If results can only hold text, images and files of a run of results follow it in a user message.
  let beside: JsonObject[] = []
  const native = context.quirks.clientTools === 'all' ? nativeItems : []
  const itemsAt = (at: number) => native.filter((each) => each.at === at).map(({ item }) => item)
  for (const [at, message] of messages.entries()) {
    if (native.length > 0) input.push(...itemsAt(at))
    if (message.role !== 'tool' && beside.length > 0) {
      input.push({ role: 'user', content: beside })
      beside = []
    }
    warnOfName(message, `messages[${at}]`, warnInto(warnings))
    switch (message.role) {
      case 'assistant':
        for (const item of lowerAssistant(message, at, ids, context, warnings)) input.push(item)
        break
      case 'tool': {
        const media = message.content.filter((part) => part.kind !== 'text' && part.kind !== 'refusal')
        const apart = media.length > 0 && !context.quirks.toolResultMedia
        input.push(lowerResult(message, apart, at, ids, context))
        if (apart) beside.push(...media.map((part) => inputPart(part, at, context)))
        break
      }
      default: {
        const role = message.role === 'developer' && !context.quirks.developerRole ? 'system' : message.role
        const own = message.role === 'user' && context.quirks.clientTools === 'all' ? message.item : undefined
        input.push(own ?? { role, content: lowerContent(message.content, at, context) })
      }
    }
  }
  if (beside.length > 0) input.push({ role: 'user', content: beside })
  input.push(...itemsAt(messages.length))
  return { input, warnings }
}

// ---- the assistant's turns --------------------------------------------------------------------------------

function lowerAssistant(
  message: AssistantMessage,
  at: number,
  ids: CallIds,
  context: InputContext,
  warnings: Warning[],
): JsonObject[] {
  if (message.content.some((part) => part.kind !== 'text' && part.kind !== 'refusal')) {
    warnings.push({
      param: `messages[${at}].content`,
      message: 'What the assistant said in other forms than text was left out: the provider takes none back.',
    })
  }
  const calls = message.toolCalls.map((call) => lowerCall(call, ids, context))
  const carried = carriedItems(message.reasoning, context.quirks.reasoningFormat)
  const placed = interleaveItems(inTurn(saidIn(message.content, context.quirks), calls), carried.items)
  if (!carried.complete || placed.lost) {
    warnings.push({
      param: `messages[${at}].reasoning_details`,
      message: `Reasoning that ${context.provider} did not make, or cannot read alone, was left out.`,
    })
  }
  return placed.items
}

/** A call under its name for the provider; one of another kind, or in a namespace, as the client knows it. */
function lowerCall(call: ToolCall, ids: CallIds, { quirks }: InputContext): JsonObject {
  const { form } = call
  const id = ids.openCall(call.id, form)
  if (form === undefined || quirks.clientTools === 'functions')
    return { type: 'function_call', call_id: id, name: call.name, arguments: call.arguments }
  const named = form.namespace === undefined && form.kind === 'custom' ? { ...form, name: call.name } : form
  const { type, ...fields } = callItem(named, call.arguments)
  // The one kind of call whose item needs an id of its own.
  const own: JsonObject = form.kind === 'local_shell' ? { id: `lsh_${id}` } : {}
  const status: JsonObject = form.kind === 'function' || form.kind === 'custom' ? {} : { status: 'completed' }
  return { type: type!, ...own, call_id: id, ...fields, ...status }
}

interface SaidItem {
  readonly item: JsonObject
  /** How many messages and calls of the turn come before it. */
  readonly at: number
}

/** The messages of a turn. */
function saidIn(parts: readonly ContentPart[], { phases }: ResponsesQuirks): readonly SaidItem[] {
  const said: SaidItem[] = []
  let content: JsonObject[] = []
  for (const part of parts) {
    const wire = outputPart(part)
    if (wire === undefined) continue
    const { at, phase } = ('message' in part ? part.message : undefined) ?? { at: 0 }
    if (said.at(-1)?.at !== at) {
      content = []
      const named: JsonObject = phases && phase !== undefined ? { phase } : {}
      said.push({ item: { role: 'assistant', ...named, content }, at })
    }
    content.push(wire)
  }
  return said
}

/** The messages and calls of a turn in their order. */
function inTurn(said: readonly SaidItem[], calls: readonly JsonObject[]): readonly JsonObject[] {
  const items: JsonObject[] = []
  let called = 0
  for (const { item, at } of said) {
    while (items.length < at && called < calls.length) items.push(calls[called++]!)
    items.push(item)
  }
  return [...items, ...calls.slice(called)]
}

/** Reasoning goes directly before the item it led to: the provider refuses reasoning without such an item. */
function interleaveItems(
  items: readonly JsonObject[],
  carried: readonly CarriedItem[],
): { readonly items: JsonObject[]; readonly lost: boolean } {
  const result: JsonObject[] = []
  let next = 0
  let lost = false
  for (const { item, before, mayEndTurn } of carried) {
    if (items.length === 0 && !mayEndTurn) {
      lost = true
      continue
    }
    const place = mayEndTurn ? before : Math.min(before, items.length - 1)
    while (next < Math.min(place, items.length)) result.push(items[next++]!)
    result.push(item)
  }
  return { items: [...result, ...items.slice(next)], lost }
}

function outputPart(part: ContentPart): JsonObject | undefined {
  if (part.kind === 'refusal') return { type: 'refusal', refusal: part.text }
  return part.kind === 'text' && part.text !== '' ? { type: 'output_text', text: part.text } : undefined
}

// ---- tool results -----------------------------------------------------------------------------------------

function lowerResult(
  message: ToolMessage,
  apart: boolean,
  at: number,
  ids: CallIds,
  context: InputContext,
): JsonObject {
  const all = resultContent(message)
  const content = apart ? all.filter((part) => part.kind === 'text' || part.kind === 'refusal') : all
  const id = ids.answerCall(message.toolCallId)
  const own = context.quirks.clientTools === 'all' ? (message.item ?? ids.resultItem(message)) : undefined
  // Under this id OpenAI's local shell looks for its call.
  const ownIds: JsonObject = own?.type === 'local_shell_call_output' ? { id, call_id: id } : { call_id: id }
  const isWhole = own !== undefined && own.type !== 'custom_tool_call_output'
  return isWhole
    ? { ...own, ...ownIds }
    : {
        type: own?.type ?? 'function_call_output',
        call_id: id,
        output: lowerOutput(content, at, context),
      }
}

function lowerOutput(
  parts: readonly ContentPart[],
  at: number,
  context: InputContext,
): string | JsonObject[] {
  if (parts.some((part) => part.kind !== 'text' && part.kind !== 'refusal')) {
    return parts.map((part) => {
      if (part.kind === 'audio')
        return refuseMedium(context.provider, 'audio in a tool result', `messages[${at}].content`)
      return inputPart(part, at, context)
    })
  }
  return textLinesIn(parts)
}

const longestCallId = 64

/**
 * Makes call ids unique within the input: some providers number them anew in each answer (`call_0`), and a result
 * could belong to either of two calls with the same id. A result belongs to the latest call with its id.
 */
class CallIds {
  readonly #written = new Map<string, string>()
  readonly #taken = new Set<string>()
  readonly #names = new FreeNames()
  /** The ids of calls of custom tools. */
  readonly #custom = new Set<string>()

  openCall(id: string, form?: CallForm): string {
    if (form?.kind === 'custom') this.#custom.add(id)
    else this.#custom.delete(id)
    const isTaken = (written: string) => this.#taken.has(written)
    const written = isTaken(id) ? freeName(this.#names, id, longestCallId, isTaken) : id
    this.#taken.add(written)
    this.#written.set(id, written)
    return written
  }

  /** What a result is, of a client whose protocol does not say. */
  resultItem({ toolCallId }: ToolMessage): JsonObject | undefined {
    return this.#custom.has(toolCallId) ? { type: 'custom_tool_call_output' } : undefined
  }

  answerCall(id: string): string {
    return this.#written.get(id) ?? id
  }
}

// ---- parts ------------------------------------------------------------------------------------------------

/** Plain text stays a string, which every server accepts; anything else becomes parts. */
function lowerContent(
  parts: readonly ContentPart[],
  at: number,
  context: InputContext,
): string | JsonObject[] {
  const spoken = parts.filter((part) => part.kind !== 'text' || part.text !== '')
  const [only] = spoken
  if (only === undefined) return ''
  if (spoken.length === 1 && only.kind === 'text' && only.cache?.breakpoint === undefined) return only.text
  return spoken.map((part) => inputPart(part, at, context))
}

function inputPart(part: ContentPart, at: number, context: InputContext): JsonObject {
  const breakpoint = 'cache' in part ? part.cache?.breakpoint : undefined
  const written = unmarkedPart(part, at, context)
  return breakpoint === undefined ? written : { ...written, prompt_cache_breakpoint: breakpoint }
}

function unmarkedPart(part: ContentPart, at: number, context: InputContext): JsonObject {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return { type: 'input_text', text: part.text }
    case 'image':
      return {
        type: 'input_image',
        ...(part.source.kind === 'provider-file'
          ? { file_id: part.source.id }
          : { image_url: urlOf(part.source)! }),
        ...(part.detail === undefined ? {} : { detail: part.detail }),
      }
    case 'audio':
      return { type: 'input_audio', input_audio: { data: part.data, format: part.format } }
    case 'file':
      return filePart(part)
    case 'video':
      return refuseMedium(context.provider, 'a video', `messages[${at}].content`)
  }
}

function filePart(part: Extract<ContentPart, { kind: 'file' }>): JsonObject {
  const { source } = part
  switch (source.kind) {
    case 'provider-file':
      return { type: 'input_file', file_id: source.id }
    case 'url':
      return { type: 'input_file', file_url: source.url }
    case 'base64':
      // OpenAI refuses file data without a name.
      return { type: 'input_file', filename: part.filename ?? 'file', file_data: urlOf(source)! }
  }
}

// The parameters of a request. Those that OpenAI's protocols share are lowered in ../../openai.

type ResponsesTarget = Target<ResponsesQuirks>

/** Throws GatewayError `unsupported_parameter` for parameters that would change the format of the answer. */
function refuseUnsupported(request: ChatRequest, target: ResponsesTarget): void {
  refuseShared(request, parameterTarget(target))
  const { modalities } = request.rest
  if (Array.isArray(modalities) && modalities.some((modality) => modality !== 'text')) {
    throw new GatewayError('unsupported_parameter', {
      message: `The model ${target.model} at ${target.provider} answers in text alone.`,
      param: 'modalities',
      provider: target.provider,
    })
  }
}

/** The target, with the quirks for the names of parameters. */
function parameterTarget(target: ResponsesTarget): ParameterTarget {
  const { refusedWhileReasoning, efforts, drops, passes, logprobs } = target.quirks
  return {
    ...target,
    quirks: {
      refusedWhileReasoning,
      efforts,
      passes,
      effortFields: ['reasoning_effort'],
      seedField: 'seed',
      drops: [...unknownFields, ...drops],
      refuses: logprobs ? ['n'] : ['n', 'logprobs'],
    },
  }
}

function lowerSampling(request: ChatRequest, target: ResponsesTarget): LoweredFields {
  const { logprobs: _logprobs, topLogprobs, n: _n, ...sampling } = request.sampling
  const lowered = lowerSharedSampling({ ...request, sampling }, parameterTarget(target))
  const { verbosity: _verbosity, ...fields } = lowered.fields
  return {
    fields: {
      ...fields,
      ...(topLogprobs !== undefined && wantsLogprobs(request) ? { top_logprobs: topLogprobs } : {}),
    },
    warnings: lowered.warnings,
  }
}

function lowerBound({ maxOutputTokens: tokens }: ChatRequest, target: ResponsesTarget): LoweredFields {
  if (tokens === undefined) return { fields: {}, warnings: [] }
  const { leastOutputTokens: least } = target.quirks
  if (tokens >= least) return { fields: { max_output_tokens: tokens }, warnings: [] }
  const message = `${target.provider} takes no bound below ${least} tokens: ${least} was sent instead of ${tokens}.`
  return { fields: { max_output_tokens: least }, warnings: [{ param: 'max_tokens', message }] }
}

/**
 * The `include` field. Models that do not reason refuse a request for reasoning, so it is only made if the catalog or
 * the client says that this one does.
 */
function lowerInclude(request: ChatRequest, target: ResponsesTarget): JsonObject {
  const include = [
    ...(target.quirks.encryptedReasoning && reasons(request, target) ? ['reasoning.encrypted_content'] : []),
    ...(wantsLogprobs(request) ? ['message.output_text.logprobs'] : []),
  ]
  return include.length === 0 ? {} : { include }
}

function reasons({ reasoning }: ChatRequest, target: ResponsesTarget): boolean {
  if (doesNotReason(target)) return false
  if (target.reasoning || reasoning === undefined) return target.reasoning
  return (
    reasoning.enabled === true || reasoning.maxTokens !== undefined || (reasoning.effort ?? 'none') !== 'none'
  )
}

/** Whether the catalog says that the model does not reason. Of a model it does not know, the client may know more. */
function doesNotReason({ reasoning, efforts }: ResponsesTarget): boolean {
  return !reasoning && efforts !== undefined && Object.keys(efforts).length === 0
}

function wantsLogprobs({ sampling }: ChatRequest): boolean {
  return sampling.logprobs ?? sampling.topLogprobs !== undefined
}

/**
 * The effort, and whether reasoning is shown. A summary is requested only if the client asks to see the reasoning:
 * OpenAI refuses the whole request if the organisation has not verified its identity.
 */
function lowerReasoning(request: ChatRequest, target: ResponsesTarget): LoweredFields {
  const { reasoning } = request
  if (reasoning === undefined) return { fields: {}, warnings: [] }
  const { fields, warnings } = lowerSharedReasoning(request, parameterTarget(target))
  const shown =
    target.quirks.summaries &&
    !doesNotReason(target) &&
    (reasoning.enabled === true || reasoning.exclude === false)
  const wanted: JsonObject = {
    ...(fields.reasoning_effort === undefined ? {} : { effort: fields.reasoning_effort }),
    ...(shown && reasoning.exclude !== true ? { summary: reasoning.summary ?? 'auto' } : {}),
  }
  return {
    fields: Object.keys(wanted).length === 0 ? {} : { reasoning: wanted },
    // A summary that was not requested cannot be prevented, but is not shown.
    warnings: warnings.filter(({ param }) => !target.quirks.summaries || param !== 'reasoning.exclude'),
  }
}

function inContext(fields: JsonObject, context: Json | undefined): JsonObject {
  if (context === undefined) return fields
  return { ...fields, reasoning: { ...(fields.reasoning as JsonObject | undefined), context } }
}

/** The format of the text and its verbosity. */
function lowerText(request: ChatRequest, target: ResponsesTarget): JsonObject {
  const { verbosity } = request.labels
  const text: JsonObject = {
    ...formatOf(request.responseFormat),
    ...(verbosity === undefined || target.quirks.drops.includes('verbosity') ? {} : { verbosity }),
  }
  return Object.keys(text).length === 0 ? {} : { text }
}

function formatOf(format: ResponseFormat | undefined): JsonObject {
  switch (format?.kind) {
    case undefined:
    case 'text':
      return {}
    case 'json-object':
      return { format: { type: 'json_object' } }
    case 'json-schema':
      return { format: { type: 'json_schema', ...wireSchema(format) } }
  }
}

// ---- everything else --------------------------------------------------------------------------------------

/** Fields of chat completions that providers of this protocol refuse as unknown. */
const chatOnly = ['audio', 'modalities', 'prediction'] as const

/** Unknown fields of the client, passed on or dropped: see `lowerRest` of openai/parameters.ts. */
function lowerRest(rest: JsonObject, target: ResponsesTarget): LoweredFields {
  const shared = parameterTarget(target)
  const drops = [...shared.quirks.drops, ...chatOnly]
  return lowerSharedRest(rest, { ...shared, quirks: { ...shared.quirks, drops } })
}

// Reasoning items of the protocol, and the reasoning details that clients send back with the next turn.

/** A part of a reasoning item as a detail, without its index in the answer. */
export type DetailPart = Omit<ReasoningDetail, 'index'>

export function summaryPart(format: ReasoningFormat, id: string | undefined, summary: string): DetailPart {
  return { type: 'reasoning.summary', format, ...idField(id), summary }
}

export function textPart(format: ReasoningFormat, id: string | undefined, text: string): DetailPart {
  return { type: 'reasoning.text', format, ...idField(id), text }
}

export function encryptedPart(format: ReasoningFormat, id: string | undefined, data: string): DetailPart {
  return { type: 'reasoning.encrypted', format, ...idField(id), data }
}

function idField(id: string | undefined): { id?: string } {
  return id === undefined ? {} : { id }
}

/** An item rebuilt from details. */
interface CarriedItem {
  readonly item: JsonObject
  /** The number of items before it in its answer that are not reasoning, as far as is known. */
  readonly before: number
  /** A compaction may end a turn; reasoning without the item it led to is refused. */
  readonly mayEndTurn: boolean
}

/**
 * The items of a turn, rebuilt from its details, in order, and whether none had to be left out. Left out are details
 * of another provider, and summaries alone, which are refused without the reasoning that they summarise.
 *
 * The index of a detail also counts messages and calls before it in its answer, so gaps between the indices show where
 * those were. If a client numbers the details anew, all reasoning comes first.
 */
function carriedItems(
  details: readonly ReasoningDetail[],
  format: ReasoningFormat,
): { readonly items: readonly CarriedItem[]; readonly complete: boolean } {
  const items: CarriedItem[] = []
  let complete = true
  let group: ReasoningDetail[] = []
  let before = 0
  const close = () => {
    const item = group.length === 0 ? undefined : itemOf(group)
    if (item) items.push({ item, before, mayEndTurn: item.type === 'compaction' })
    else if (group.length > 0) complete = false
    group = []
  }
  for (const [position, detail] of details.entries()) {
    if (detail.format !== format) {
      close()
      complete = false
      continue
    }
    // xAI gives several items of one answer the same id; the encrypted part is the last of each.
    const last = group.at(-1)
    if (last && (last.id !== detail.id || last.type === 'reasoning.encrypted')) close()
    if (group.length === 0) before = Math.max(0, detail.index - position)
    group.push(detail)
  }
  close()
  return { items, complete }
}

/** The id says that an item is a compaction: a detail has no field for the type of its item. */
const compactionId = /^cmp_/

function itemOf(group: readonly ReasoningDetail[]): JsonObject | undefined {
  const id = group[0]?.id
  const encrypted = group.find((detail) => detail.type === 'reasoning.encrypted')?.data
  const named: JsonObject = id == null ? {} : { id }
  if (id != null && compactionId.test(id)) {
    return encrypted === undefined
      ? undefined
      : { type: 'compaction', ...named, encrypted_content: encrypted }
  }
  const summary = group
    .filter((detail) => detail.type === 'reasoning.summary')
    .map((detail): JsonObject => ({ type: 'summary_text', text: detail.summary ?? '' }))
  const content = group
    .filter((detail) => detail.type === 'reasoning.text')
    .map((detail): JsonObject => ({ type: 'reasoning_text', text: detail.text ?? '' }))
  if (encrypted === undefined && content.length === 0) return undefined
  return {
    type: 'reasoning',
    ...named,
    summary,
    ...(content.length === 0 ? {} : { content }),
    ...(encrypted === undefined ? {} : { encrypted_content: encrypted }),
  }
}

// The parts of an item, as they are in events.

/** The complete text in a `done` event, as a field or in a part. */
export function wholeTextOf(event: JsonObject): Json | undefined {
  return isObject(event.part) ? event.part.text : event.text
}

/** The part of its item that an event is about, by the given field. */
export function partIndex(event: JsonObject, field: string): number {
  const at = event[field]
  return typeof at === 'number' ? at : 0
}

/** The key of a part: its kind, the position of its item and its index in the item. */
export function keyOf(kind: string, position: number, at: number): string {
  return `${kind}/${position}/${at}`
}

/** xAI's sources have no offsets in the text. */
export function urlCitation(raw: JsonObject, partStart: number): Annotation | undefined {
  if (raw.type !== 'url_citation' || typeof raw.url !== 'string') return undefined
  const placed = typeof raw.start_index === 'number' && typeof raw.end_index === 'number'
  return {
    kind: 'url-citation',
    url: raw.url,
    title: typeof raw.title === 'string' ? raw.title : '',
    start: placed ? partStart + (raw.start_index as number) : 0,
    end: placed ? partStart + (raw.end_index as number) : 0,
  }
}
