// The chat completions API for clients: checks bodies, writes answers.

import type { z } from 'zod'
import type { Json, JsonObject } from '../../../conversation/request.ts'
import { serviceTierOf, type Usage } from '../../../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../../../errors/errors.ts'
import {
  addresses,
  chosenName,
  customsOf,
  functionsOf,
  maxOutputTokens,
  readGatewayTools,
  readRequest,
} from './read.ts'
import { isObject } from '../../lenient.ts'
import { type PromptParts, promptParts } from '../../request/prompt-parts.ts'
import {
  fateOf,
  gatewayEnvelope,
  isGatewayTool,
  toolRefused,
  withModel,
  withoutOnline,
} from '../../request/gateway-tools.ts'
import {
  bodyObject,
  invalidParam,
  invalidRequest,
  isPlainField,
  isPlainMessage,
  misfitIn,
  safeParsed,
  unsupportedParam,
} from '../../request/fields.ts'
import { doneFrame, type Frame, keepaliveComment } from '../../framing/sse.ts'
import type {
  AnswerContext,
  Bill,
  Envelope,
  Inbound,
  InboundRequest,
  StreamEncoder,
  Texts,
} from '../../protocol.ts'
import {
  chatCompletionRequest,
  type ChatCompletionRequest,
  chatMessage,
  longestName,
  mostTools,
  tool,
} from './schema.ts'
import {
  type ChatEvent,
  type ChatResult,
  type Choice,
  type FinishReason,
  nativeReason,
} from '../../../conversation/event.ts'
import { TextEvent } from '../../framing/text-template.ts'
import { callItem, InputStream } from '../../openai/client-tools.ts'
import {
  callsState,
  messageRuns,
  readableReasoning,
  wireAnnotation,
  wireAudio,
  wireDetail,
  wireImage,
  wireLogprobs,
  wireSignature,
} from '../../openai/messages.ts'
import { wireWarnings } from '../../lowering.ts'
import { finishReasonOf, wireUsage } from '../../openai/usage.ts'

export const inbound: Inbound = {
  id: 'openai-chat',
  // A comment: clients take every event with data for a chunk.
  keepalive: keepaliveComment,
  addresses,
  parse,
  whole: wholeAnswer,
  encoder: (context) => new ChunkEncoder(context),
  error: (error) => error,
}

export function promptOf(body: JsonObject): PromptParts {
  return promptParts(body, promptFields)
}

const promptFields = { conversation: 'messages', declared: ['tools', 'functions', 'response_format'] }

function parse(sent: unknown): InboundRequest {
  const body = withModel(bodyObject(sent))
  refuseOtherEndpoints(body)
  refuseUnservedTools(body)
  checkFields(body)
  // The client's own object is used, not zod's copy: the schema transforms nothing.
  const request = withoutPrototypeKey(body) as ChatCompletionRequest
  refuseContradictions(request)
  const gatewayTools = readGatewayTools(request)
  const runs = gatewayTools === undefined ? 'left-out' : 'read'
  return {
    envelope: readEnvelope(request),
    body: request as JsonObject,
    promptParts: promptOf(request as JsonObject),
    toChatRequest: () => readRequest(request, runs),
    gatewayTools,
  }
}

/** What the schema says of each field. */
const fields = new Map<string, z.ZodType>(Object.entries(chatCompletionRequest.shape))
const required = [...fields].filter(([, field]) => field.type !== 'optional').map(([name]) => name)

/** A request has few of sixty fields: checking all of them would take most of the time of reading a call. */
function checkFields(body: JsonObject): void {
  for (const name of required) checkField(name, body[name])
  for (const name in body) if (!required.includes(name)) checkField(name, body[name])
}

function checkField(name: string, value: Json | undefined): void {
  if (isPlainField(name, value)) return
  if (name === 'messages' && Array.isArray(value) && value.length > 0) return checkMessages(value)
  if (name === 'tools' && Array.isArray(value) && value.length <= mostTools) {
    const others = value.filter((item) => !isPlainTool(item))
    // The whole list says which of them is at fault.
    if (misfitIn(tool, others) < 0) return
  }
  const field = fields.get(name)
  const error = field && safeParsed(field, value).error
  if (error) throw invalidRequest(error, [name])
}

/** Agents send thousands of calls and results, nearly all of the plain shape: the schema is asked about the others. */
function checkMessages(messages: readonly Json[]): void {
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]
    if (isPlainMessage(message) || isPlainCalls(message) || isPlainResult(message)) continue
    if (misfitIn(chatMessage, [message]) < 0) continue
    const { error } = safeParsed(chatMessage, message)
    if (error) throw invalidRequest(error, ['messages', at])
  }
}

/** Calls of functions, and what was said before them. */
function isPlainCalls(message: unknown): boolean {
  if (!isObject(message) || message['role'] !== 'assistant' || !hasOnly(message, callsKeys)) return false
  const { content, tool_calls: calls } = message
  if (content != null && typeof content !== 'string') return false
  return Array.isArray(calls) && calls.every(isPlainCall)
}

function isPlainCall(call: unknown): boolean {
  if (!isObject(call) || !hasOnly(call, callKeys) || !isNonEmpty(call['id'])) return false
  const { type, function: called } = call
  if (type != null && type !== 'function') return false
  if (!isObject(called) || typeof called['arguments'] !== 'string') return false
  return isNonEmpty(called['name']) && called['name'].length <= longestName
}

/** A function as every client declares it. */
function isPlainTool(declared: unknown): boolean {
  if (!isObject(declared) || declared['type'] !== 'function' || !hasOnly(declared, toolKeys)) return false
  const { function: defined } = declared
  if (!isObject(defined) || !hasOnly(defined, functionKeys)) return false
  const { name, description, parameters, strict } = defined
  if (!isNonEmpty(name) || name.length > longestName) return false
  if (description != null && typeof description !== 'string') return false
  if (parameters != null && !isObject(parameters)) return false
  return strict == null || typeof strict === 'boolean'
}

/** The text that a function gave. */
function isPlainResult(message: unknown): boolean {
  if (!isObject(message) || message['role'] !== 'tool' || !hasOnly(message, resultKeys)) return false
  return typeof message['content'] === 'string' && isNonEmpty(message['tool_call_id'])
}

const callsKeys: ReadonlySet<string> = new Set(['role', 'content', 'tool_calls'])
const callKeys: ReadonlySet<string> = new Set(['id', 'type', 'function'])
const resultKeys: ReadonlySet<string> = new Set(['role', 'content', 'tool_call_id'])
const toolKeys: ReadonlySet<string> = new Set(['type', 'function'])
const functionKeys: ReadonlySet<string> = new Set(['name', 'description', 'parameters', 'strict'])

function hasOnly(fields: object, names: ReadonlySet<string>): boolean {
  for (const name in fields) if (!names.has(name)) return false
  return true
}

function isNonEmpty(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** JSON may contain `__proto__`; assigning fields one by one must not change a prototype. */
function withoutPrototypeKey(body: JsonObject): JsonObject {
  if (!Object.hasOwn(body, '__proto__')) return body
  return Object.fromEntries(Object.entries(body).filter(([field]) => field !== '__proto__'))
}

const elsewhere: Readonly<Record<string, string>> = {
  input:
    'A body with `input` belongs to POST /v1/responses (or /v1/embeddings); chat completions take `messages`.',
  prompt: 'A body with `prompt` belongs to POST /v1/completions; chat completions take `messages`.',
  contents: 'A body with `contents` is of another API; chat completions take `messages`.',
}

function refuseOtherEndpoints(body: JsonObject): void {
  if (Object.hasOwn(body, 'messages')) return
  for (const [field, message] of Object.entries(elsewhere)) {
    if (Object.hasOwn(body, field)) throw new GatewayError('wrong_endpoint', { message, param: field })
  }
}

/** Reports tools other than functions before the schema would call them invalid. */
function refuseUnservedTools(body: JsonObject): void {
  if (Array.isArray(body['tools'])) {
    for (const [i, tool] of body['tools'].entries()) {
      if (isObject(tool) && tool['type'] !== 'function' && fateOf('openai-chat', tool) === 'refused')
        throw toolRefused(String(tool['type']), `tools[${i}].type`)
    }
  }
}

/** Contradictions between fields: results without a call, choices of unknown tools. */
function refuseContradictions(request: ChatCompletionRequest): void {
  let calls: Set<string> | undefined
  const { messages } = request
  for (let i = 0; i < messages.length; i++) {
    const message = messages[i]!
    if (message.role === 'assistant') {
      // The audio of an earlier answer only exists at its provider, and we may ask another.
      if (message['audio'] != null)
        throw unsupportedParam(`messages[${i}].audio`, 'send its transcript as content.')
      if (message.tool_calls == null) continue
      calls ??= new Set()
      for (const call of message.tool_calls) calls.add(call.id)
    } else if (message.role === 'tool' && calls?.has(message.tool_call_id) !== true) {
      throw invalidParam(`messages[${i}].tool_call_id`, 'no tool call before this message has that id.')
    }
  }
  const choice = request.tool_choice
  if (choice == null || choice === 'auto' || choice === 'none') return
  const names = new Set([
    ...[...functionsOf(request), ...legacyTools(request)].map((tool) => tool.function.name),
    ...customsOf(request).map((tool) => tool.custom.name),
  ])
  if (choice === 'required') {
    if (names.size === 0 && readGatewayTools(request) === undefined)
      throw invalidParam('tool_choice', "'required' needs tools to choose from.")
  } else if (choice.type === 'function' || choice.type === 'custom') {
    if (!names.has(chosenName(choice) ?? ''))
      throw invalidParam(`tool_choice.${choice.type}.name`, 'no tool has that name.')
  } else if (choice.type !== 'allowed_tools' && !(isGatewayTool(choice.type) && readGatewayTools(request))) {
    throw toolRefused(choice.type, 'tool_choice.type')
  }
}

function legacyTools(request: ChatCompletionRequest): { function: { name: string } }[] {
  return (request.functions ?? []).map((definition) => ({ function: definition }))
}

const none: readonly string[] = []

function readEnvelope(request: ChatCompletionRequest): Envelope {
  const customs = customsOf(request)
  return {
    ...gatewayEnvelope(request),
    ...(customs.length === 0 ? {} : { customTools: new Set(customs.map(({ custom }) => custom.name)) }),
    model: withoutOnline(request.model),
    fallbacks: request.models == null ? none : request.models.map(withoutOnline),
    stream: request.stream === true,
    includeUsage: request.stream_options?.include_usage === true || request.usage?.include === true,
    maxOutputTokens: maxOutputTokens(request),
    n: request.n ?? 1,
    serviceTier: serviceTierOf(request.service_tier),
  }
}

// Writes one streamed answer as chat.completion.chunk frames.

/** The last frames of a complete stream: the usage, if requested, and `[DONE]`. */
export function closingFrames(
  context: AnswerContext,
  usage: Usage,
  bill: Bill,
  more: JsonObject = {},
  counters?: JsonObject,
): Frame[] {
  if (!context.includeUsage) return [doneFrame]
  const chunk = {
    ...chunkHead(context),
    choices: [],
    usage: wireUsage(usage, bill, counters),
    ...more,
    ...context.extra,
  }
  return [{ event: undefined, data: JSON.stringify(chunk) }, doneFrame]
}

/**
 * The frames that end a stream that failed after its first byte: each choice ends with the reason `error`, then the
 * error stands alone. Client libraries throw on it; in a chunk with choices the AI SDK's schema takes it for one more
 * chunk, and the stream looks finished.
 */
export function failingFrames(
  context: AnswerContext,
  error: RenderedError,
  choices: Iterable<number>,
): Frame[] {
  const ordered = [...choices].toSorted((a, b) => a - b)
  const chunk = {
    ...chunkHead(context),
    choices: ordered.map((index) => ({ index, delta: {}, logprobs: null, finish_reason: 'error' })),
    ...(context.includeUsage ? { usage: null } : {}),
  }
  const alone = { error: error.error }
  return [
    { event: undefined, data: JSON.stringify(chunk) },
    { event: undefined, data: JSON.stringify(alone) },
    doneFrame,
  ]
}

/** The beginning of every chunk of an answer; it never changes between chunks. */
export function chunkHead(context: AnswerContext): JsonObject {
  return {
    id: context.id,
    object: 'chat.completion.chunk',
    created: context.created,
    model: context.model,
  }
}

interface OpenChoice {
  finish: FinishReason | undefined
  native: string | undefined
  readonly beforeText: string
  /** The event of a text; built when there are several. */
  textEvent: TextEvent | undefined
  /** The arguments of each tool call sent so far. */
  readonly calls: Map<number, string>
  /** What custom tools are given so far. */
  readonly inputs: Map<number, InputStream>
}

/** Encodes one answer. Finish chunks wait for `finish`: the stream is then complete and the charge durable. */
export class ChunkEncoder implements StreamEncoder {
  readonly #context: AnswerContext
  /** The JSON before a choice's index and after its finish reason. */
  readonly #before: string
  readonly #after: string
  readonly #afterText: string
  readonly #choices = new Map<number, OpenChoice>()

  constructor(context: AnswerContext) {
    this.#context = context
    this.#before = `${JSON.stringify(chunkHead(context)).slice(0, -1)},"choices":[{"index":`
    this.#after = context.includeUsage ? '}],"usage":null' : '}]'
    this.#afterText = ['},"logprobs":null,"finish_reason":null', this.#after, '}'].join('')
  }

  start(): readonly Frame[] {
    this.#openChoice(0)
    return [this.#chunk(0, '{"role":"assistant","content":""}', 'null', null, this.#firstChunkFields())]
  }

  event(event: ChatEvent): readonly Frame[] {
    switch (event.kind) {
      case 'message-start':
      case 'usage':
      case 'finish':
      case 'error':
        return []
      default:
        return this.#choiceEvent(event)
    }
  }

  texts({ choice, texts }: Texts): string | undefined {
    const known = this.#choices.get(choice)
    if (known === undefined) return undefined
    known.textEvent ??= new TextEvent(`data: ${known.beforeText}"`, `"${this.#afterText}\n\n`)
    return known.textEvent.write(texts)
  }

  finish(usage: Usage, bill: Bill): readonly Frame[] {
    const frames: Frame[] = []
    for (const [index, choice] of [...this.#choices].toSorted(([a], [b]) => a - b)) {
      for (const [call, stream] of choice.inputs) {
        const rest = stream.end()
        if (rest !== '') frames.push(this.#delta(index, inputDelta(call, rest)))
      }
      for (const [call, json] of choice.calls) {
        if (json === '' && !choice.inputs.has(call))
          frames.push(this.#delta(index, argumentsDelta(call, '{}')))
      }
      // `finish` gives each choice a reason; one without text or calls has merely stopped.
      const reason = finishReasonOf(choice.finish ?? 'stop', callsState([...choice.calls.values()]))
      const native = reason === 'other' ? nativeReason(reason, choice.native) : undefined
      frames.push(this.#chunk(index, '{}', 'null', reason, '', native))
    }
    frames.push(...closingFrames(this.#context, usage, bill))
    return frames
  }

  fail(error: RenderedError): readonly Frame[] {
    return failingFrames(this.#context, error, this.#choices.keys())
  }

  #choiceEvent(event: Extract<ChatEvent, { choice: number }>): readonly Frame[] {
    const known = this.#choices.get(event.choice)
    if (known) return this.#content(event, known)
    const fresh = this.#openChoice(event.choice)
    return [this.#chunk(event.choice, '{"role":"assistant","content":""}'), ...this.#content(event, fresh)]
  }

  #openChoice(index: number): OpenChoice {
    // Flattened: a rope string would be copied piece by piece into every chunk.
    const beforeText = [this.#before, index, ',"delta":{"content":'].join('')
    const choice: OpenChoice = {
      finish: undefined,
      native: undefined,
      beforeText,
      textEvent: undefined,
      calls: new Map(),
      inputs: new Map(),
    }
    this.#choices.set(index, choice)
    return choice
  }

  #content(event: Extract<ChatEvent, { choice: number }>, choice: OpenChoice): readonly Frame[] {
    const { choice: index } = event
    switch (event.kind) {
      case 'text-delta':
        return event.text === '' ? [] : [this.#text(choice, event.text)]
      case 'refusal-delta':
        return event.text === '' ? [] : [this.#delta(index, { refusal: event.text })]
      case 'reasoning-delta': {
        const readable = readableReasoning(event.detail)
        return [
          this.#delta(index, {
            ...(readable === '' ? {} : { reasoning_content: readable }),
            reasoning_details: [wireDetail(event.detail)],
          }),
        ]
      }
      case 'tool-call-start': {
        const { call, id, name } = event
        choice.calls.set(call, '')
        const isCustom = this.#context.customTools?.has(name) === true
        if (isCustom) choice.inputs.set(call, new InputStream())
        const tool: JsonObject = isCustom
          ? { type: 'custom', custom: { name, input: '' } }
          : { type: 'function', function: { name, arguments: '' } }
        const begun = { index: call, id, ...tool, ...wireSignature(event.thoughtSignature) }
        return [this.#delta(index, { tool_calls: [begun] })]
      }
      case 'tool-call-delta':
        if (event.arguments === '') return []
        choice.calls.set(event.call, (choice.calls.get(event.call) ?? '') + event.arguments)
        if (choice.inputs.has(event.call)) {
          const input = choice.inputs.get(event.call)!.take(event.arguments)
          return input === '' ? [] : [this.#delta(index, inputDelta(event.call, input))]
        }
        return [this.#delta(index, argumentsDelta(event.call, event.arguments))]
      case 'annotation':
        return [this.#delta(index, { annotations: [wireAnnotation(event.annotation)] })]
      case 'logprobs':
        return [this.#chunk(index, '{"content":""}', JSON.stringify(wireLogprobs(event)))]
      case 'audio-delta':
        return [this.#delta(index, { audio: wireAudio(event.audio) })]
      case 'image':
        return [this.#delta(index, { images: [wireImage(event)] })]
      case 'gateway-call':
      case 'search-start':
        // Its result is sent in one piece.
        return []
      case 'gateway-run':
        return [this.#delta(index, messageRuns([event.run]))]
      case 'gateway-item':
        return [this.#delta(index, messageRuns([], [event.item]))]
      case 'choice-finish':
        choice.finish = event.reason
        choice.native = event.native
        return []
      default:
        return event satisfies never
    }
  }

  /** The chunk of a text: one for nearly every token, so everything else is prepared. */
  #text({ beforeText }: OpenChoice, text: string): Frame {
    return { event: undefined, data: beforeText + JSON.stringify(text) + this.#afterText }
  }

  #delta(index: number, delta: JsonObject): Frame {
    return this.#chunk(index, JSON.stringify(delta))
  }

  #chunk(
    index: number,
    delta: string,
    logprobs = 'null',
    finish: FinishReason | null = null,
    more = '',
    choiceFields: JsonObject = {},
  ): Frame {
    const reason = finish === null ? 'null' : `"${finish}"`
    const fields = Object.entries(choiceFields).map(([name, value]) => `,"${name}":${JSON.stringify(value)}`)
    const choice = `${index},"delta":${delta},"logprobs":${logprobs},"finish_reason":${reason}${fields.join('')}`
    return { event: undefined, data: `${this.#before}${choice}${this.#after}${more}}` }
  }

  /** Our own fields are on the first chunk and the one with the usage; on each they would only cost bytes. */
  #firstChunkFields(): string {
    const { extra } = this.#context
    return Object.keys(extra).length === 0 ? '' : `,${JSON.stringify(extra).slice(1, -1)}`
  }
}

export function argumentsDelta(index: number, json: string): JsonObject {
  return { tool_calls: [{ index, function: { arguments: json } }] }
}

function inputDelta(index: number, input: string): JsonObject {
  return { tool_calls: [{ index, custom: { input } }] }
}

// A whole answer as one chat.completion object.

/**
 * A complete answer. Required keys are present even if null. Throws `upstream_error` for a choice that never ended: no
 * finish reason is invented.
 */
export function wholeAnswer(
  result: ChatResult,
  usage: Usage,
  bill: Bill,
  context: AnswerContext,
): JsonObject {
  return {
    id: context.id,
    object: 'chat.completion',
    created: context.created,
    model: context.model,
    choices: result.choices.map((choice) => wireChoice(choice, context)),
    usage: wireUsage(usage, bill),
    ...wireWarnings(context.warnings),
    ...context.extra,
  }
}

function wireChoice(choice: Choice, context: AnswerContext): JsonObject {
  if (choice.finish === undefined) {
    throw new GatewayError('upstream_error', { message: 'The answer ended without a finish reason.' })
  }
  const reason = finishReasonOf(choice.finish, callsState(choice.toolCalls.map((call) => call.arguments)))
  return {
    index: choice.index,
    message: wireMessage(choice, context),
    logprobs: choice.logprobs === null ? null : wireLogprobs(choice.logprobs),
    finish_reason: reason,
    ...(reason === 'other' && nativeReason(reason, choice.nativeFinish)),
  }
}

function wireMessage(choice: Choice, { customTools }: AnswerContext): JsonObject {
  const reasoning = choice.reasoning.map(readableReasoning).join('')
  return {
    role: 'assistant',
    content: choice.text === '' && choice.toolCalls.length > 0 ? null : choice.text,
    refusal: choice.refusal,
    annotations: choice.annotations.map(wireAnnotation),
    ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    ...(choice.reasoning.length === 0 ? {} : { reasoning_details: choice.reasoning.map(wireDetail) }),
    ...(choice.toolCalls.length === 0
      ? {}
      : { tool_calls: choice.toolCalls.map((call) => wireCall(call, customTools)) }),
    ...(choice.audio === null ? {} : { audio: wireAudio(choice.audio) }),
    ...(choice.images.length === 0 ? {} : { images: choice.images.map(wireImage) }),
    ...messageRuns(choice.runs, choice.items),
  }
}

function wireCall(
  call: Choice['toolCalls'][number],
  customTools: ReadonlySet<string> | undefined,
): JsonObject {
  if (customTools?.has(call.name) === true) {
    const { type: _, ...custom } = callItem({ kind: 'custom', name: call.name }, call.arguments)
    return { id: call.id, type: 'custom', custom, ...wireSignature(call.thoughtSignature) }
  }
  return {
    id: call.id,
    type: 'function',
    function: { name: call.name, arguments: call.arguments === '' ? '{}' : call.arguments },
    ...wireSignature(call.thoughtSignature),
  }
}
