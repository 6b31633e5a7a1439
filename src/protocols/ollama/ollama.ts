// Ollama's own chat protocol, spoken to a provider. Its chat-completions endpoint has no context size parameter and
// silently truncates long conversations; this one takes the context size.

import type { ChatEvent, Fault, FaultKind, FinishReason } from '../../conversation/event.ts'
import type { ChatRequest, ContentPart, Json, JsonObject, Message } from '../../conversation/request.ts'
import { counter, disjoint } from '../../conversation/usage.ts'
import { errorEvent, fault, foreignFault, kindOfStatus, retryAfterMs } from '../faults.ts'
import type { Frame } from '../framing/sse.ts'
import {
  anything,
  entryOf,
  flag,
  isObject,
  list,
  nonEmpty,
  number,
  object,
  parseAnswer,
  parseJson,
  text,
  type ValueRead,
} from '../lenient.ts'
import {
  allowedFunctions,
  argumentsObject,
  fileAsText,
  functionTool,
  isPlain,
  isReasoningOff,
  linesOf,
  type LoweredRequest,
  passedOn,
  plainReasoning,
  refuse,
  refusePart,
  resultContent,
  textOf,
  threeEfforts,
  toolOffer,
  unknownLabels,
  type Warn,
  type Warning,
  warnInto,
  warnOfForeignReasoning,
  warnOfName,
  warnOfUnknown,
  withoutUndefined,
} from '../lowering.ts'
import { callIdOf, withinLimits } from '../names.ts'
import { embeddings } from '../embeddings/openai.ts'
import type { Outbound, Target } from '../protocol.ts'
import { EventParser } from '../event-parser.ts'

/** Settings for an Ollama server. */
export interface OllamaQuirks {
  /** Options of every request, overriding the client's: mainly `num_ctx`. */
  readonly options: JsonObject
  /** Models that take an effort for `think`, a regular expression for their names; others only take on and off. */
  readonly levels: string
  /**
   * Whether Ollama may cut a conversation that does not fit into its context. It does so in silence, so it may not
   * unless the operator says so, or the client where the operator says nothing; versions that do not know the field cut
   * all the same.
   */
  readonly truncate: boolean | undefined
}

export const defaultQuirks: OllamaQuirks = { options: {}, levels: 'gpt-oss', truncate: undefined }

// ---- the answer on the wire ------------------------------------------------------------------------------

const readCall = object({ id: text, function: object({ name: text, arguments: anything }) })
type WireCall = ValueRead<typeof readCall>

/** A line of a stream, or a whole answer. A list with a call that has no name, or a probability without token, is none. */
const readLine = object({
  model: text,
  message: object({
    content: text,
    thinking: text,
    tool_calls: list((value) => {
      const call = readCall(value)
      return call?.function?.name === undefined ? undefined : call
    }),
  }),
  logprobs: list((entry) => (isObject(entry) && typeof entry.token === 'string' ? entry : undefined)),
  done: flag,
  done_reason: text,
  prompt_eval_count: number,
  eval_count: number,
})
type WireLine = ValueRead<typeof readLine>

// Translates a chat request to Ollama's own chat API.

/** Ollama's own fields, passed on unchanged; `options` is merged with the options set here. */
const ownFields = new Set(['keep_alive', 'options', 'truncate', 'shift', 'think'])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1 and media that Ollama does not
 * accept, `invalid_request` for a choice of an unknown tool. `warnings` name what was dropped.
 */
function lower(request: ChatRequest, target: Target<OllamaQuirks>): LoweredRequest {
  const { sampling } = request
  refuse({ n: (sampling.n ?? 1) > 1 })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const { options: own, ...rest } = passedOn(request.rest, ownFields, warn)
  const options = {
    ...clientOptions(own, warn),
    ...optionsOf(request, warn),
    ...quirks.options,
    ...boundOf(request),
  }
  const body: JsonObject = {
    model: target.model,
    messages: messagesOf(request.messages, warn),
    ...toolsOf(request, warn),
    ...formatOf(request),
    ...(Object.keys(options).length === 0 ? {} : { options }),
    ...thinkOf(request, target, quirks, warn),
    ...(sampling.logprobs === true ? { logprobs: true } : {}),
    ...(sampling.topLogprobs === undefined ? {} : { top_logprobs: sampling.topLogprobs }),
    ...rest,
    truncate: quirks.truncate ?? rest.truncate ?? false,
    stream: request.stream,
  }
  warnOfUnknown({ ...unknownLabels(request), logit_bias: sampling.logitBias }, warn)
  return { path: '/api/chat', headers: {}, body, warnings }
}

// ---- messages ---------------------------------------------------------------------------------------------

function messagesOf(messages: readonly Message[], warn: Warn): JsonObject[] {
  // Ollama identifies results by tool name, which a client's result does not contain.
  const names = new Map<string, string>()
  return messages.map((message, index): JsonObject => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        return { role: 'system', content: linesOf(message.content, `${param}.content`) }
      case 'user':
        return userMessage(message.content, `${param}.content`)
      case 'assistant': {
        for (const call of message.toolCalls) names.set(call.id, call.name)
        const thinking = plainReasoning(message.reasoning)
        warnOfForeignReasoning(message.reasoning, isPlain, param, warn)
        return {
          role: 'assistant',
          content: textOf(message.content, `${param}.content`),
          ...(thinking === '' ? {} : { thinking }),
          ...(message.toolCalls.length === 0
            ? {}
            : {
                tool_calls: message.toolCalls.map(({ id, name, arguments: json }) => ({
                  id,
                  function: { name, arguments: argumentsObject(json, `${param}.tool_calls`, warn) },
                })),
              }),
        }
      }
      case 'tool': {
        const name = names.get(message.toolCallId)
        return {
          role: 'tool',
          content: linesOf(resultContent(message), `${param}.content`),
          ...(name === undefined ? {} : { tool_name: name }),
          tool_call_id: message.toolCallId,
        }
      }
      default:
        return message satisfies never
    }
  })
}

/** All text joined, with the images as bare base64. */
function userMessage(parts: readonly ContentPart[], param: string): JsonObject {
  const words: string[] = []
  const images: string[] = []
  for (const part of parts) {
    const text = part.kind === 'text' || part.kind === 'refusal' ? part.text : fileAsText(part)
    if (text === undefined) images.push(imageData(part, param))
    else words.push(text)
  }
  return { role: 'user', content: words.join('\n'), ...(images.length === 0 ? {} : { images }) }
}

function imageData(part: ContentPart, param: string): string {
  const carries = part.kind === 'image' || part.kind === 'file'
  if (!carries || part.source.kind !== 'base64') return refusePart(part, param, 'text and images')
  if (part.kind === 'file' && !part.source.mediaType.startsWith('image/')) {
    return refusePart(part, param, 'text and images')
  }
  return part.source.data
}

// ---- tools, format, options -------------------------------------------------------------------------------

function toolsOf(request: ChatRequest, warn: Warn): JsonObject {
  const offer = toolOffer(request)
  const { choice } = offer
  const tools = allowedFunctions(offer)
  // `none` means offering no tools; Ollama cannot force a call.
  if (tools.length === 0 || choice === 'none') return {}
  if (choice === 'required')
    warn('tool_choice', 'The provider cannot make a model call a tool; it decides by itself.')
  if (request.parallelToolCalls === false) {
    warn('parallel_tool_calls', 'This model may always call several tools at once; dropped.')
  }
  if (tools.some((tool) => tool.strict === true)) {
    warn('tools.strict', 'The provider does not enforce schemas of tools; dropped.')
  }
  return { tools: tools.map(functionTool) }
}

function formatOf({ responseFormat: format }: ChatRequest): JsonObject {
  if (format === undefined || format.kind === 'text') return {}
  return { format: format.kind === 'json-object' ? 'json' : format.schema }
}

/** The client's own options, except for the token limit: the hold is based on `max_tokens`. */
function clientOptions(own: Json | undefined, warn: Warn): JsonObject {
  const { num_predict: bound, ...options }: JsonObject = isObject(own) ? own : {}
  if (bound !== undefined) warn('options.num_predict', 'The answer is bounded by max_tokens; dropped.')
  return options
}

function boundOf({ maxOutputTokens }: ChatRequest): JsonObject {
  return maxOutputTokens === undefined ? {} : { num_predict: maxOutputTokens }
}

function optionsOf({ sampling }: ChatRequest, warn: Warn): JsonObject {
  const { temperature, topP, topK, minP, seed, stop } = sampling
  if (sampling.topLogprobs !== undefined && sampling.logprobs !== true) {
    warn('top_logprobs', 'Without logprobs it has no effect.')
  }
  return withoutUndefined({
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    seed,
    stop: stop === undefined || stop.length === 0 ? undefined : [...stop],
    repeat_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
  })
}

function thinkOf(
  { reasoning }: ChatRequest,
  target: Target<OllamaQuirks>,
  quirks: OllamaQuirks,
  warn: Warn,
): JsonObject {
  if (reasoning === undefined) return {}
  if (reasoning.maxTokens !== undefined && reasoning.maxTokens > 0) {
    warn('reasoning.max_tokens', 'The provider cannot bound thinking by tokens; dropped.')
  }
  if (reasoning.exclude === true) warn('reasoning.exclude', 'The provider always shows what a model thinks.')
  if (isReasoningOff(reasoning)) {
    return { think: false }
  }
  const leveled = new RegExp(quirks.levels, 'i').test(target.model)
  return { think: leveled ? (threeEfforts[reasoning.effort ?? ''] ?? true) : true }
}

// Parses Ollama's answers, line by line; a whole answer is a stream of one line.

function parseWhole(body: unknown): readonly ChatEvent[] {
  return new OllamaParser().readAll([body])
}

/** A stream without its `done` line ends in an error of kind `cut`. */
class OllamaParser extends EventParser<unknown> {
  /** Calls without an id get one derived from this; different for every answer. */
  readonly #answer = crypto.randomUUID().replaceAll('-', '').slice(0, 16)
  /** The ids of the calls so far. */
  readonly #calls = new Set<string>()
  #hasStarted = false

  constructor() {
    super({ lastEvent: 'its last line' })
  }

  protected override readFrame({ data }: Frame): void {
    this.read(parseAnswer(data))
  }

  protected override read(value: unknown): void {
    const failure = faultIn(value)
    if (failure !== undefined) return this.finish(errorEvent(failure))
    const line = readLine(value)
    const hasNoMessage = line?.message === undefined
    const isMisread = hasNoMessage && isObject(value) && value.message != null
    if (line === undefined || isMisread || (hasNoMessage && line.done !== true))
      return this.fail('a line of the answer is not one of this protocol')
    const { message } = line
    if (!this.#hasStarted) this.emit({ kind: 'message-start', id: undefined, model: line.model })
    this.#hasStarted = true
    if (message?.thinking) {
      const detail = { type: 'reasoning.text', format: null, index: 0, text: message.thinking } as const
      this.emit({ kind: 'reasoning-delta', choice: 0, detail })
    }
    this.addText(message?.content ?? '')
    if (line.logprobs && line.logprobs.length > 0)
      this.emit({ kind: 'logprobs', choice: 0, content: line.logprobs.map(logprobOf), refusal: [] })
    for (const called of message?.tool_calls ?? []) this.#addCall(called)
    if (line.done === true) this.#end(line)
  }

  /** Calls are not split, and their arguments are an object; older versions give them no id. */
  #addCall({ id: given, function: called }: WireCall): void {
    const { name = '', arguments: args } = called ?? {}
    const call = this.#calls.size
    const id = callIdOf(given, this.#calls, () => `call_${this.#answer}_${call}`)
    const json = isObject(args) ? JSON.stringify(args) : (nonEmpty(args) ?? '{}')
    this.emit({ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined })
    this.emit({ kind: 'tool-call-delta', choice: 0, call, arguments: json })
  }

  #end(line: WireLine): void {
    const native = line.done_reason ?? 'stop'
    // Ollama also says `stop` after calls. They are not split, so they are complete even at the token limit.
    const reason = this.#calls.size > 0 ? 'tool_calls' : (entryOf(reasons, native) ?? 'other')
    const usage = disjoint({ prompt: counter(line.prompt_eval_count), completion: counter(line.eval_count) })
    if (line.eval_count !== undefined || line.prompt_eval_count !== undefined)
      this.emit({ kind: 'usage', usage })
    this.emit({ kind: 'choice-finish', choice: 0, reason, native })
    this.finish()
  }
}

function logprobOf({ token, logprob, bytes, top_logprobs }: JsonObject): Json {
  return {
    token: token ?? '',
    logprob: logprob ?? 0,
    bytes: bytes ?? null,
    top_logprobs: top_logprobs ?? [],
  }
}

const reasons: Readonly<Record<string, FinishReason>> = { stop: 'stop', length: 'length' }

// Classifies Ollama's errors: `{"error": "message"}` on error statuses and as a line of a started stream.

/** Errors can only be told apart by message. The missing model is recorded, the others are from the server's source. */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [/not found|try pulling it/i, 'not-found'],
  [/context (length|window|size)|input length|prompt is too long|exceeds? .*context/i, 'context-length'],
  [/server busy|maximum pending requests|overloaded/i, 'overloaded'],
  [/usage limit|quota|upgrade/i, 'quota'],
  [/does not support|invalid/i, 'invalid-request'],
]

/** An answer with an error status. */
function faultOf(status: number, headers: Headers, body: string): Fault {
  const wait = retryAfterMs(headers)
  const message = messageIn(parseJson(body))
  if (message === undefined) return foreignFault(status, body, wait)
  const byStatus = kindOfStatus(status)
  // A 5xx with the server's own fault is not the request's, whatever its message contains.
  const speaks = ['invalid-request', 'rate-limited', 'broken'].includes(byStatus)
  const byWords = speaks ? kindOfMessage(message) : undefined
  const kind = byStatus === 'broken' && byWords === 'invalid-request' ? 'broken' : (byWords ?? byStatus)
  return fault(kind, message, { status, retryAfterMs: wait })
}

/** The fault in a line of a stream, if any. */
function faultIn(line: unknown): Fault | undefined {
  const message = messageIn(line)
  return message === undefined ? undefined : fault(kindOfMessage(message) ?? 'broken', message)
}

function kindOfMessage(message: string): FaultKind | undefined {
  return kindOfWords.find(([words]) => words.test(message))?.[1]
}

/** Ollama sends a string; services in front of it send an object. */
function messageIn(body: unknown): string | undefined {
  if (!isObject(body) || body.error == null) return undefined
  const { error } = body
  return (
    nonEmpty(error) ?? (isObject(error) ? nonEmpty(error.message) : undefined) ?? 'an error without words'
  )
}

// The protocol.

export const outbound: Outbound<OllamaQuirks> = withinLimits<OllamaQuirks>({
  id: 'ollama',
  framing: 'ndjson',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: true,
  textResults: true,
  lower,
  whole: parseWhole,
  parser: () => new OllamaParser(),
  fault: faultOf,
  ignores: () => [],
  // Ollama servers also serve OpenAI's embeddings, at that path.
  embeddings,
})
