// Cohere's chat API, version 2, and its embeddings, spoken to a provider.

import type { Annotation, ChatEvent, Fault, FaultKind, FinishReason } from '../../conversation/event.ts'
import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  Json,
  JsonObject,
  Message,
} from '../../conversation/request.ts'
import { count, counter, disjoint, type Usage } from '../../conversation/usage.ts'
import {
  type EmbeddingAnswer,
  type EmbeddingOutbound,
  notVectors,
  type Outbound,
  type Target,
  textsOf,
  vectorOf,
} from '../protocol.ts'
import { EventParser } from '../event-parser.ts'
import { errorEvent, fault, foreignFault, kindOfStatus, retryAfterMs } from '../faults.ts'
import type { Frame } from '../framing/sse.ts'
import {
  anything,
  CollectedText,
  entryOf,
  isObject,
  list,
  nonEmpty,
  number,
  object,
  parseJson,
  stringIn,
  text,
  type ValueRead,
} from '../lenient.ts'
import {
  allowedFunctions,
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
  type ToolOffer,
  toolOffer,
  unknownLabels,
  urlOf,
  type Warn,
  type Warning,
  warnInto,
  warnOfForeignReasoning,
  warnOfName,
  warnOfUnknown,
  withoutUndefined,
  wordsOfFile,
} from '../lowering.ts'
import { callIdOf, mintedId } from '../names.ts'
import { withinLimits } from '../names.ts'

/** How a host of this protocol differs from Cohere's own. */
export interface CohereQuirks {
  /** Appended to the base URL. */
  readonly path: string
  /** Models that think, beside those the catalog marks: a regular expression for the name. */
  readonly thinkers: string
  /** Thinking tokens by effort; other efforts are unlimited, Cohere's default. */
  readonly budgets: Readonly<Record<string, number>>
}

export const defaultQuirks: CohereQuirks = {
  path: '/chat',
  thinkers: 'reasoning|command-a-plus',
  // Our choice: Cohere has on, off and a number of tokens, but no efforts.
  budgets: { minimal: 512, low: 2048, medium: 8192 },
}

// ---- the request -----------------------------------------------------------------------------------------

/** Cohere's own fields, passed on unchanged. */
const ownFields = new Set(['documents', 'citation_options', 'safety_mode', 'strict_tools', 'priority'])

/**
 * The request for this target. Throws GatewayError: `unsupported_parameter` for n > 1, top_logprobs and media that
 * Cohere does not accept, `invalid_request` for a choice of an unknown tool. `warnings` name what was dropped.
 */
function lower(request: ChatRequest, target: Target<CohereQuirks>): LoweredRequest {
  const { sampling } = request
  refuse({ n: (sampling.n ?? 1) > 1, top_logprobs: (sampling.topLogprobs ?? 0) > 0 })
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  const quirks = { ...defaultQuirks, ...target.quirks }
  const { messages, documents } = conversationOf(request.messages, warn)
  const own = passedOn(request.rest, ownFields, warn)
  const given = Array.isArray(own.documents) ? own.documents : []
  const body: JsonObject = {
    ...own,
    model: target.model,
    messages,
    ...(documents.length === 0 ? {} : { documents: [...given, ...documents] }),
    ...toolsOf(request, toolOffer(request), warn),
    ...(request.maxOutputTokens === undefined ? {} : { max_tokens: request.maxOutputTokens }),
    ...samplingOf(request, warn),
    ...thinkingOf(request, target, quirks, warn),
    ...formatOf(request, warn),
    stream: request.stream,
  }
  warnOfUnknown(unknownLabels(request), warn)
  return { path: quirks.path, headers: {}, body, warnings }
}

function toolsOf(request: ChatRequest, offer: ToolOffer, warn: Warn): JsonObject {
  const { choice } = offer
  const tools = allowedFunctions(offer)
  if (tools.length === 0) return {}
  if (request.parallelToolCalls === false) {
    warn('parallel_tool_calls', 'This model may always call several tools at once; dropped.')
  }
  const strict = tools.some((tool) => tool.strict === true)
  return {
    tools: tools.map(functionTool),
    ...(strict && !('strict_tools' in request.rest) ? { strict_tools: true } : {}),
    // Cohere cannot be told which tool to call, so only that one is declared.
    ...(choice === 'auto' ? {} : { tool_choice: choice === 'none' ? 'NONE' : 'REQUIRED' }),
  }
}

/** The most stop sequences Cohere takes. */
const maxStops = 5

function samplingOf({ sampling }: ChatRequest, warn: Warn): JsonObject {
  const { temperature, stop, logprobs } = sampling
  warnOfUnknown(
    {
      min_p: sampling.minP,
      repetition_penalty: sampling.repetitionPenalty,
      logit_bias: sampling.logitBias,
    },
    warn,
  )
  if ((stop?.length ?? 0) > maxStops)
    warn('stop', `The provider takes ${maxStops} stop sequences; the rest is left out.`)
  const within = (param: string, value: number | undefined, least: number, most: number) => {
    if (value === undefined || (value >= least && value <= most)) return value
    const sent = Math.min(Math.max(value, least), most)
    warn(param, `The provider takes ${least} to ${most}; ${sent} is sent.`)
    return sent
  }
  return withoutUndefined({
    temperature: within('temperature', temperature, 0, 1),
    p: within('top_p', sampling.topP, 0.01, 0.99),
    k: sampling.topK,
    seed: sampling.seed,
    frequency_penalty: within('frequency_penalty', sampling.frequencyPenalty, 0, 1),
    presence_penalty: within('presence_penalty', sampling.presencePenalty, 0, 1),
    stop_sequences: stop === undefined || stop.length === 0 ? undefined : stop.slice(0, maxStops),
    logprobs: logprobs === true ? true : undefined,
  })
}

function thinkingOf(
  { reasoning }: ChatRequest,
  target: Target<CohereQuirks>,
  quirks: CohereQuirks,
  warn: Warn,
): JsonObject {
  if (reasoning === undefined) return {}
  const off = isReasoningOff(reasoning)
  const thinks = target.reasoning || new RegExp(quirks.thinkers, 'i').test(target.model)
  if (!thinks) {
    if (!off) warn('reasoning', 'This model does not think.')
    return {}
  }
  if (reasoning.exclude === true) warn('reasoning.exclude', 'This provider always shows its thinking.')
  if (off) return { thinking: { type: 'disabled' } }
  const budget = reasoning.maxTokens ?? quirks.budgets[reasoning.effort ?? '']
  return { thinking: { type: 'enabled', ...(budget === undefined ? {} : { token_budget: budget }) } }
}

function formatOf({ responseFormat: format }: ChatRequest, warn: Warn): JsonObject {
  if (format === undefined || format.kind === 'text') return {}
  if (format.kind === 'json-object') return { response_format: { type: 'json_object' } }
  if (format.description !== undefined) {
    warn('response_format.json_schema.description', 'The provider has no place for it; dropped.')
  }
  return { response_format: { type: 'json_object', json_schema: format.schema } }
}

// Translates a conversation for Cohere: text before calls is a plan, text files are documents.

interface Conversation {
  readonly messages: JsonObject[]
  /** The users' text files, sent beside the messages. */
  readonly documents: readonly JsonObject[]
}

/** The messages to send. Throws `unsupported_parameter` for parts that Cohere does not accept. */
function conversationOf(messages: readonly Message[], warn: Warn): Conversation {
  const documents: JsonObject[] = []
  const wire = messages.flatMap((message, index): JsonObject[] => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        return [{ role: 'system', content: linesOf(message.content, `${param}.content`) }]
      case 'user':
        return [{ role: 'user', content: userContent(message.content, `${param}.content`, documents) }]
      case 'assistant':
        return assistantOf(message, param, warn)
      case 'tool':
        return [
          {
            role: 'tool',
            tool_call_id: message.toolCallId,
            content: linesOf(resultContent(message), `${param}.content`),
          },
        ]
      default:
        return message satisfies never
    }
  })
  return { messages: wire, documents }
}

function userContent(
  parts: readonly ContentPart[],
  param: string,
  documents: JsonObject[],
): string | JsonObject[] {
  const [only] = parts
  if (parts.length === 1 && only?.kind === 'text') return only.text
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
      case 'refusal':
        return [{ type: 'text', text: part.text }]
      case 'image':
        return [imageOf(part, param)]
      case 'file':
        documents.push(documentOf(part, documents.length, param))
        return []
      default:
        return refusePart(part, param, 'text, images and text files')
    }
  })
}

function imageOf(part: Extract<ContentPart, { kind: 'image' }>, param: string): JsonObject {
  const { source, detail } = part
  const url = urlOf(source) ?? refusePart(part, param, 'images by address or inline')
  const known = detail === 'auto' || detail === 'low' || detail === 'high'
  return { type: 'image_url', image_url: { url, ...(known ? { detail } : {}) } }
}

function documentOf(part: Extract<ContentPart, { kind: 'file' }>, number: number, param: string): JsonObject {
  const { filename } = part
  const text = wordsOfFile(part) ?? refusePart(part, param, 'text, images and inline text files')
  return { id: `doc:${number}`, data: { ...(filename === undefined ? {} : { title: filename }), text } }
}

/** Thinking is returned unchanged; text before calls is what Cohere calls their plan. */
function assistantOf(message: AssistantMessage, param: string, warn: Warn): JsonObject[] {
  const text = textOf(message.content, `${param}.content`)
  const thinking = plainReasoning(message.reasoning)
  warnOfForeignReasoning(message.reasoning, isPlain, param, warn)
  const thought: JsonObject[] = thinking === '' ? [] : [{ type: 'thinking', thinking }]
  if (message.toolCalls.length > 0) {
    return [
      {
        role: 'assistant',
        ...(thought.length === 0 ? {} : { content: thought }),
        ...(text === '' ? {} : { tool_plan: text }),
        tool_calls: message.toolCalls.map(({ id, name, arguments: json }) => ({
          id,
          type: 'function',
          function: { name, arguments: json },
        })),
      },
    ]
  }
  if (text === '' && thought.length === 0) {
    warn(param, 'The message is empty and is left out.')
    return []
  }
  return [{ role: 'assistant', content: thought.length === 0 ? text : [...thought, { type: 'text', text }] }]
}

// ---- the answer on the wire ------------------------------------------------------------------------------

const units = object({ input_tokens: number, output_tokens: number, reasoning_tokens: number })
const usage = object({ billed_units: units, tokens: units, cached_tokens: number })
type CohereUsage = ValueRead<typeof usage>

const endFields = { finish_reason: text, usage, error: text, error_type: text }
const readEnd = object(endFields)
type WireEnd = ValueRead<typeof readEnd>

const readAnswer = object({
  id: text,
  message: object({
    tool_plan: text,
    tool_calls: list((value) => (callOf(value) === undefined ? undefined : value)),
    citations: list(anything),
  }),
  logprobs: list(anything),
  ...endFields,
})

/** The blocks of an answer, which may be a text alone. */
function blocksIn(content: unknown): readonly JsonObject[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return Array.isArray(content) && content.every(isObject) ? content : []
}

/** Its offsets count characters of its block, as Cohere counts them. */
const readCitation = object({
  start: number,
  end: number,
  text,
  sources: list(anything),
  content_index: number,
})

/** A part of the answer with log probabilities for each token. */
const readLogprob = object({ text, logprobs: list(number) })

// The frequent stream events are read by hand, as leniently.

/** The `delta.message` of a stream event, if any. */
function messageIn({ delta }: JsonObject): JsonObject | undefined {
  return isObject(delta) && isObject(delta.message) ? delta.message : undefined
}

/** Which block or call an event is about. */
function indexOf({ index }: JsonObject): number {
  return typeof index === 'number' && Number.isFinite(index) ? index : 0
}

/** A tool call from its first event; missing fields are empty. */
interface CallStart {
  readonly id: string
  readonly name: string
  readonly arguments: string
}

/** The call in a value, if it contains one. */
function callOf(value: unknown): CallStart | undefined {
  if (!isObject(value) || !isObject(value.function)) return undefined
  const { name, arguments: given } = value.function
  const json = isObject(given) ? JSON.stringify(given) : stringIn(given)
  return { id: stringIn(value.id), name: stringIn(name), arguments: json }
}

// ---- parsing the answer ----------------------------------------------------------------------------------

/** A whole answer as the events that the same answer would have streamed. */
function parseWhole(body: unknown): readonly ChatEvent[] {
  const answer = readAnswer(body)
  const message = answer?.message
  if (message === undefined)
    return [errorEvent(faultInside(body) ?? fault('broken', 'the answer is not one of this protocol'))]
  const { id, logprobs } = answer!
  const about = (type: string, index: number, said: object) => ({ type, index, delta: { message: said } })
  return new CohereParser().readAll([
    { type: 'message-start', id },
    about('tool-plan-delta', 0, { tool_plan: message.tool_plan ?? '' }),
    ...blocksIn(message.content).map((content, index) => about('content-start', index, { content })),
    ...(logprobs ?? []).map((item) => ({ ...about('content-delta', 0, { content: {} }), logprobs: item })),
    ...(message.tool_calls ?? []).map((call, index) => about('tool-call-start', index, { tool_calls: call })),
    ...(message.citations ?? []).map((citations) => about('citation-start', 0, { citations })),
    { type: 'message-end', delta: answer },
  ])
}

/** A stream without `message-end` ends in an error of kind `cut`. */
class CohereParser extends EventParser<unknown> {
  /** What ids of calls are made from: the answer's own id, where it has one. */
  #seed: string = crypto.randomUUID()
  readonly #callIds = new Set<string>()
  readonly #text = new CollectedText()
  /** Where each block begins in the text, by index. */
  readonly #bases: Record<number, number> = {}
  /** Kept until the end: the text that a citation quotes may still be on its way. */
  readonly #citations: Cited[] = []
  /** The block index of each reasoning piece so far, in order. */
  readonly #thoughts: number[] = []
  /** The provider's index of each call, in order, and its arguments so far. */
  readonly #calls: { readonly index: number; json: string }[] = []

  constructor() {
    super({ lastEvent: 'message-end', beforeText: '"content":{"text":"' })
  }

  protected override keepText(text: string): void {
    super.keepText(text)
    this.#text.add(text)
  }

  protected override readFrame({ data }: Frame): void {
    if (data !== '' && data !== '[DONE]') this.read(parseJson(data))
  }

  protected override read(event: unknown): void {
    const type = isObject(event) ? event.type : undefined
    if (!isObject(event) || typeof type !== 'string' || type === 'error')
      return this.finish(errorEvent(faultInside(event) ?? fault('broken', 'a stream event has no type')))
    if (!this.#readEvent(type, event)) this.fail(`${type} cannot be read`)
  }

  /** Whether the event can be read. Those of other types are ignored. */
  #readEvent(type: string, event: JsonObject): boolean {
    const index = indexOf(event)
    const message = messageIn(event)
    switch (type) {
      case 'message-start': {
        const id = text(event.id)
        this.#seed = id || this.#seed
        this.emit({ kind: 'message-start', id, model: undefined })
        return true
      }
      case 'tool-plan-delta':
        this.addText(stringIn(message?.tool_plan))
        return message !== undefined
      case 'content-start':
      case 'content-delta': {
        const content = message?.content
        if (!isObject(content)) return false
        this.addsOnlyText = type === 'content-delta'
        // The words of a plan stand before the first block: citations count per block.
        if (type === 'content-start') this.#bases[index] = this.textLength
        this.#addContent(index, content)
        if (type === 'content-delta' && event.logprobs !== undefined) this.#addLogprobs(event.logprobs)
        return true
      }
      case 'citation-start': {
        if (message !== undefined) this.#addCitation(message.citations)
        return message !== undefined
      }
      case 'tool-call-start': {
        const started = callOf(message?.tool_calls)
        if (started) this.#startCall(index, started)
        return started !== undefined
      }
      case 'tool-call-delta': {
        const calls = message?.tool_calls
        const called = isObject(calls) ? calls.function : undefined
        if (!isObject(called)) return false
        this.#addArguments(index, stringIn(called.arguments))
        return true
      }
      case 'message-end': {
        const ended = readEnd(event.delta)
        if (ended) this.#end(ended)
        return ended !== undefined
      }
      default:
        return true
    }
  }

  #addContent(index: number, content: JsonObject): void {
    this.addText(stringIn(content.text))
    const thinking = stringIn(content.thinking)
    if (thinking === '') return
    if (!this.#thoughts.includes(index)) this.#thoughts.push(index)
    const at = this.#thoughts.indexOf(index)
    const detail = { type: 'reasoning.text', format: null, index: at, text: thinking } as const
    this.emit({ kind: 'reasoning-delta', choice: 0, detail })
  }

  /** A stretch may be of several tokens: their probabilities multiply, so the logarithms add up. */
  #addLogprobs(item: unknown): void {
    const { text: token = '', logprobs = [] } = readLogprob(item) ?? {}
    if (logprobs.length === 0) return
    const entry: Json = {
      token,
      logprob: logprobs.reduce((sum, each) => sum + each, 0),
      bytes: [...Buffer.from(token)],
      top_logprobs: [],
    }
    this.emit({ kind: 'logprobs', choice: 0, content: [entry], refusal: [] })
  }

  #addCitation(citation: unknown): void {
    const block = readCitation(citation)?.content_index
    // Without a block index it is the text block, of which there is only one.
    const lastBase = Object.values(this.#bases).at(-1) ?? 0
    const base = block === undefined ? lastBase : (this.#bases[block] ?? lastBase)
    this.#citations.push({ citation, base })
  }

  #startCall(index: number, started: CallStart): void {
    const { name } = started
    if (name === '') return this.fail('a tool call has no name')
    const call = this.#calls.length
    const id = callIdOf(started.id, this.#callIds, () => mintedId(this.#seed, call))
    this.#calls.push({ index, json: '' })
    this.emit({ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined })
    this.#addArguments(index, started.arguments)
  }

  /** Held back while it may become `null`, which is how calls without arguments may be written. */
  #addArguments(index: number, text: string): void {
    const at = this.#calls.findLastIndex((call) => call.index === index)
    const call = this.#calls[at]
    if (call === undefined || text === '') return
    const before = call.json
    call.json += text
    if (mayBeNull(call.json)) return
    const held = mayBeNull(before) ? before : ''
    this.emit({ kind: 'tool-call-delta', choice: 0, call: at, arguments: held + text })
  }

  #end({ finish_reason: native, usage: counted, error, error_type: type }: WireEnd): void {
    if (native === undefined) return this.fail('the answer ended without a finish reason')
    const usage = usageOf(counted)
    if (native === 'ERROR' || native === 'TIMEOUT') {
      if (usage !== undefined) this.emit({ kind: 'usage', usage })
      return this.finish(errorEvent(faultOfFinish(native, error, type)))
    }
    const reason = entryOf(reasons, native) ?? 'other'
    // Calls must be answered whatever the reason; only the token limit, or an end we do not know, can have cut one off.
    const isWhole = ({ json }: { json: string }) => mayBeNull(json) || isObject(parseJson(json))
    const mustAnswer =
      this.#calls.length > 0 && ((reason !== 'length' && reason !== 'other') || this.#calls.every(isWhole))
    for (const [call, { json }] of this.#calls.entries())
      if (mayBeNull(json)) this.emit({ kind: 'tool-call-delta', choice: 0, call, arguments: '{}' })
    const text = this.#text.toString()
    for (const annotation of this.#citations.flatMap((cited) => annotationsOf(cited, text)))
      this.emit({ kind: 'annotation', choice: 0, annotation })
    if (usage !== undefined) this.emit({ kind: 'usage', usage })
    this.emit({
      kind: 'choice-finish',
      choice: 0,
      reason: mustAnswer ? 'tool_calls' : reason === 'tool_calls' ? 'stop' : reason,
      native,
    })
    this.finish()
  }
}

/** Only short texts are checked: trimming a long one on every delta would be quadratic. */
function mayBeNull(text: string): boolean {
  return text.length < 16 && 'null'.startsWith(text.trim())
}

const reasons: Readonly<Record<string, FinishReason>> = {
  COMPLETE: 'stop',
  STOP_SEQUENCE: 'stop',
  MAX_TOKENS: 'length',
  TOOL_CALL: 'tool_calls',
}

// Cohere's counters: `tokens` is what the model processed, `billed_units` what is charged.

/**
 * The counts of an answer, if any. Cached tokens are inside the input, reasoning inside the output. Cohere adds a
 * prompt of its own and does not charge for it (11 of 506 tokens in one recording), so the billed units are kept
 * separately.
 */
function usageOf(wire: CohereUsage | undefined): Usage | undefined {
  const counted = wire?.tokens ?? wire?.billed_units
  if (!wire || !counted) return undefined
  const usage = disjoint({
    prompt: counter(counted.input_tokens),
    completion: counter(counted.output_tokens),
    cacheRead: count(wire.cached_tokens),
    reasoning: count(counted.reasoning_tokens),
  })
  if (!wire.billed_units) return usage
  return {
    ...usage,
    billed: { input: count(wire.billed_units.input_tokens), output: count(wire.billed_units.output_tokens) },
  }
}

// Cohere's citations as annotations of the joined text.

/** A citation and its text block. */
interface Cited {
  readonly citation: unknown
  /** Where its block begins in the joined text, UTF-16 units. */
  readonly base: number
}

/** One annotation per source with an address; documents have no field on the wire. `text` is the joined text. */
function annotationsOf({ citation: sent, base }: Cited, text: string): Annotation[] {
  const { start: from, end: to, text: quoted = '', sources = [] } = readCitation(sent) ?? {}
  if (from === undefined || to === undefined) return []
  const [start, end] = stretchOf(text, base, { start: from, end: to, text: quoted })
  return sources.flatMap((source): Annotation[] => {
    const found = addressOf(source)
    return found === undefined ? [] : [{ kind: 'url-citation', ...found, start, end }]
  })
}

/**
 * The stretch in UTF-16 code units. Offsets count characters, and which kind shows only where a text has characters
 * beyond the basic plane: the reading under which the quoted text stands there is the right one.
 */
function stretchOf(
  text: string,
  base: number,
  citation: { start: number; end: number; text: string },
): readonly [number, number] {
  const plain = [base + citation.start, base + citation.end] as const
  if (text.slice(...plain) === citation.text) return plain
  const characters = Array.from(text.slice(base))
  const unitsBefore = (at: number) => base + characters.slice(0, at).join('').length
  const counted = [unitsBefore(citation.start), unitsBefore(citation.end)] as const
  if (text.slice(...counted) === citation.text) return counted
  return [Math.min(plain[0], text.length), Math.min(plain[1], text.length)]
}

function addressOf(source: unknown): { url: string; title: string } | undefined {
  if (!isObject(source)) return undefined
  const said = [source.document, source.tool_output].find(isObject) ?? {}
  const url = [said.url, said.link, said.id, source.id]
    .map(nonEmpty)
    .find((each) => /^https?:\/\//.test(each ?? ''))
  return url === undefined ? undefined : { url, title: nonEmpty(said.title) ?? url }
}

// Classifies Cohere's errors: `{id, message, error_type?}` on error statuses, and answers that finish with ERROR.

/**
 * Recorded: TOO_MANY_TOKENS, INVALID_TOOL_GENERATION. The others are documented. Trial keys are limited per minute,
 * which passes, and per month.
 */
const kindOfWords: readonly (readonly [RegExp, FaultKind])[] = [
  [/too[ _]many[ _]tokens|context (length|window)/i, 'context-length'],
  [/(per|\/) ?minute/i, 'rate-limited'],
  [/month|billing|out of credit/i, 'quota'],
  [/blocked|unsafe|content (policy|filter)/i, 'content-filter'],
]

/** Statuses that Cohere documents beside the usual ones: 498 blocked input, 499 cancelled request. */
const ownStatuses: Readonly<Record<number, FaultKind>> = { 498: 'content-filter', 499: 'cut' }

/** An answer with an error status. */
function faultOf(status: number, headers: Headers, body: string): Fault {
  const answer = parseJson(body)
  const wait = retryAfterMs(headers)
  if (!isObject(answer)) return foreignFault(status, body, wait)
  const message = nonEmpty(answer.message) ?? nonEmpty(answer.error) ?? 'an error without a message'
  const type = nonEmpty(answer.error_type)
  const byStatus = kindOfStatus(status, ownStatuses)
  const speaks = byStatus === 'invalid-request' || byStatus === 'rate-limited'
  const byWords = speaks ? kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1] : undefined
  return fault(byWords ?? byStatus, message, { status, providerCode: type, retryAfterMs: wait })
}

/** The error in place of an answer with status 200; undefined if there is none. */
function faultInside(body: unknown): Fault | undefined {
  if (!isObject(body)) return undefined
  const message = nonEmpty(body.message) ?? nonEmpty(body.error)
  if (message === undefined) return undefined
  const type = nonEmpty(body.error_type)
  const kind = kindOfWords.find(([words]) => words.test(`${type} ${message}`))?.[1]
  return fault(kind ?? 'broken', message, { providerCode: type })
}

/** An answer that finished with ERROR or TIMEOUT: none of it may be taken as complete. */
function faultOfFinish(reason: string, message: string | undefined, type: string | undefined): Fault {
  const kind = reason === 'TIMEOUT' ? 'timeout' : 'broken'
  return fault(kind, message ?? `the answer finished with ${reason}`, { providerCode: type ?? reason })
}

// ---- embeddings: POST …/embed ------------------------------------------------------------------------------

/** Cohere's own parameters, passed on unchanged. */
const embeddingFields: ReadonlySet<string> = new Set(['input_type', 'truncate', 'max_tokens', 'priority'])

const embeddings: EmbeddingOutbound = {
  lower({ inputs, dimensions, user, rest }, { model }) {
    const warnings: Warning[] = []
    const warn = warnInto(warnings)
    warnOfUnknown({ user }, warn)
    return {
      path: '/embed',
      headers: {},
      body: {
        // Cohere requires the purpose of the vectors, which OpenAI's API has no field for.
        input_type: 'search_document',
        ...passedOn(rest, embeddingFields, warn),
        model,
        texts: [...textsOf(inputs)],
        embedding_types: ['float'],
        ...(dimensions === undefined ? {} : { output_dimension: dimensions }),
      },
      warnings,
    }
  },
  read: readEmbeddings,
}

function readEmbeddings(body: unknown): EmbeddingAnswer {
  const made = isObject(body) ? body['embeddings'] : undefined
  // Older versions return the bare list unless a type is requested.
  const list = isObject(made) ? made['float'] : made
  if (!isObject(body) || !Array.isArray(list)) return notVectors()
  const vectors = list.map(vectorOf).filter((vector) => vector !== undefined)
  const meta = isObject(body['meta']) ? body['meta'] : {}
  const units = isObject(meta['billed_units']) ? meta['billed_units'] : undefined
  const usage =
    units === undefined
      ? undefined
      : disjoint({
          prompt: count(units['input_tokens']) + count(units['image_tokens']),
          completion: 0,
          inputImage: count(units['image_tokens']),
        })
  return { kind: 'vectors', vectors, usage, id: nonEmpty(body['id']) }
}

export const outbound: Outbound<CohereQuirks> = withinLimits<CohereQuirks>({
  id: 'cohere',
  framing: 'sse',
  auth: { kind: 'bearer' },
  defaultQuirks,
  inlinesUrls: false,
  textResults: true,
  lower,
  whole: parseWhole,
  parser: () => new CohereParser(),
  fault: faultOf,
  ignores: () => [],
  embeddings,
})
