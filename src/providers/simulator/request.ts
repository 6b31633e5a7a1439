// Reads and validates chat requests for the simulated provider.

import { z } from 'zod'
import type { Json, JsonObject } from '../../conversation/request.ts'
import { simulatedEfforts } from '../rows/local.ts'

/** A refusal with the error format and codes of this protocol. */
export class Refusal extends Error {
  readonly param: string | null
  readonly code: string

  constructor(message: string, param: string | null, code: string) {
    super(message)
    this.name = 'Refusal'
    this.param = param
    this.code = code
  }
}

const part = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('refusal'), refusal: z.string() }),
  z.looseObject({
    type: z.literal('image_url'),
    image_url: z.looseObject({ url: z.string().min(1), detail: z.string().optional() }),
  }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: z.string(), format: z.string() }),
  }),
  z.looseObject({ type: z.literal('file'), file: z.looseObject({ file_data: z.string().optional() }) }),
])

const content = z.union([z.string(), z.array(part)])

const toolCall = z.looseObject({
  id: z.string().min(1),
  type: z.literal('function'),
  function: z.looseObject({ name: z.string().min(1), arguments: z.string() }),
})

const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.literal('system'), content }),
  z.looseObject({ role: z.literal('developer'), content }),
  z.looseObject({ role: z.literal('user'), content }),
  z.looseObject({
    role: z.literal('assistant'),
    content: content.nullish(),
    tool_calls: z.array(toolCall).min(1).optional(),
  }),
  z.looseObject({ role: z.literal('tool'), content, tool_call_id: z.string().min(1) }),
  z.looseObject({ role: z.literal('function'), content: content.nullable(), name: z.string() }),
])

const json = z.custom<JsonObject>(
  (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
)

const tool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({
    name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
    parameters: json.nullish(),
  }),
})

const namedTool = z.looseObject({
  type: z.literal('function'),
  function: z.looseObject({ name: z.string() }),
})

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  namedTool,
  z.looseObject({
    type: z.literal('allowed_tools'),
    allowed_tools: z.looseObject({ mode: z.enum(['auto', 'required']), tools: z.array(namedTool).min(1) }),
  }),
])

const responseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    json_schema: z.looseObject({ name: z.string().min(1), schema: json.optional() }),
  }),
])

const tokenLimit = z.int().min(1).nullish()

const chatBody = z.looseObject({
  model: z.string().min(1),
  messages: z.array(message).min(1),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
  max_tokens: tokenLimit,
  max_completion_tokens: tokenLimit,
  n: z.int().min(1).max(128).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: z.int().min(0).nullish(),
  min_p: z.number().min(0).max(1).nullish(),
  seed: z.number().nullish(),
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().min(0).max(20).nullish(),
  tools: z.array(tool).max(128).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  response_format: responseFormat.nullish(),
  reasoning_effort: z.enum(simulatedEfforts).nullish(),
  prompt_cache_key: z.string().nullish(),
  modalities: z.array(z.enum(['text'])).nullish(),
  // How `slow` paces itself; no provider has this field, so it never leaves this process.
  sim: z
    .looseObject({
      delay_ms: z.int().min(0).max(60_000).optional(),
      frames: z.int().min(1).max(10_000).optional(),
    })
    .nullish(),
})

export const simulatorReads: readonly string[] = Object.keys(chatBody.shape)

type Body = z.infer<typeof chatBody>
type Message = z.infer<typeof message>
export type Effort = NonNullable<Body['reasoning_effort']>

export interface SimulatedTool {
  readonly name: string
  readonly parameters: Json | undefined
}

/** A chat request as the simulator sees it: validated, counted, its tool choice worked out. */
export interface SimRequest {
  readonly model: string
  readonly stream: boolean
  readonly includeUsage: boolean
  readonly maxTokens: number | undefined
  readonly n: number
  readonly stop: readonly string[]
  readonly logprobs: boolean
  /** Whether the most likely alternatives to each token are requested; there is one, the token itself. */
  readonly alternatives: boolean
  /** Text of the last user message; otherwise of the last message. */
  readonly prompt: string
  /** The tools that may be called now, and whether one must be. Empty with `tool_choice: "none"`. */
  readonly tools: readonly SimulatedTool[]
  readonly toolsForced: boolean
  readonly parallelCalls: boolean
  /** The tool results at the end of the conversation, by the tool's name. */
  readonly results: readonly { readonly name: string; readonly text: string }[]
  readonly format: 'text' | 'json'
  /** Schema of a structured answer; undefined for any JSON object. */
  readonly schema: Json | undefined
  /** Undefined if the request leaves it to the model. */
  readonly effort: Effort | undefined
  readonly promptTokens: number
  readonly audioTokens: number
  readonly cachedTokens: number
  readonly pace: { readonly delayMs: number; readonly frames: number }
}

/** Reads a chat body. Throws Refusal for an invalid one, with the field in `param`. */
export function readRequest(text: string): SimRequest {
  const body = validateBody(text)
  checkToolTurns(body.messages)
  const choice = toolChoiceOf(body)
  const prompt = promptCount(body)
  const limits = [body.max_completion_tokens, body.max_tokens].filter((each) => typeof each === 'number')
  const schema =
    body.response_format?.type === 'json_schema' ? body.response_format.json_schema.schema : undefined
  return {
    model: body.model,
    stream: body.stream ?? false,
    includeUsage: body.stream_options?.include_usage ?? false,
    maxTokens: limits.length === 0 ? undefined : Math.min(...limits),
    n: body.n ?? 1,
    stop: [body.stop ?? []].flat().filter((each) => each !== ''),
    // A request for alternatives to each token implies a request for the tokens.
    logprobs: body.logprobs ?? (body.top_logprobs ?? 0) > 0,
    alternatives: (body.top_logprobs ?? 0) > 0,
    prompt: promptText(body.messages),
    tools: choice.tools,
    toolsForced: choice.forced,
    parallelCalls: body.parallel_tool_calls ?? true,
    results: closingResults(body.messages),
    format: body.response_format && body.response_format.type !== 'text' ? 'json' : 'text',
    schema,
    effort: body.reasoning_effort ?? undefined,
    promptTokens: prompt.tokens,
    audioTokens: prompt.audio,
    // With a cache key, half of the prompt counts as cached. Nothing is stored.
    cachedTokens: body.prompt_cache_key ? Math.floor((prompt.tokens - prompt.audio) / 2) : 0,
    pace: { delayMs: body.sim?.delay_ms ?? 50, frames: body.sim?.frames ?? 20 },
  }
}

function validateBody(text: string): Body {
  let raw: unknown
  try {
    raw = JSON.parse(text)
  } catch {
    throw new Refusal('The body is not valid JSON.', null, 'invalid_json')
  }
  const read = chatBody.safeParse(raw)
  if (read.success) return read.data
  const issue = read.error.issues[0]!
  const param = issue.path.reduce<string>(
    (path, step) =>
      typeof step === 'number' ? `${path}[${step}]` : path === '' ? String(step) : `${path}.${String(step)}`,
    '',
  )
  const missing = issue.code === 'invalid_type' && issue.message.endsWith('undefined')
  const message = missing
    ? `The parameter '${param}' is missing.`
    : `Invalid value for '${param}': ${issue.message.replace(/^Invalid input: /, '')}.`
  throw new Refusal(
    message,
    param === '' ? null : param,
    missing ? 'missing_required_parameter' : 'invalid_value',
  )
}

/** Each result must answer a call of the assistant turn before it, and each call must have its result. */
function checkToolTurns(messages: readonly Message[]): void {
  let open = new Set<string>()
  for (const [at, each] of messages.entries()) {
    if (each.role === 'tool') {
      if (!open.delete(each.tool_call_id)) {
        throw new Refusal(
          `The tool message answers '${each.tool_call_id}', which no call before it has as its id.`,
          `messages[${at}].tool_call_id`,
          'invalid_value',
        )
      }
      continue
    }
    if (open.size > 0) throw unansweredRefusal(open, at)
    open = new Set(each.role === 'assistant' ? each.tool_calls?.map((call) => call.id) : [])
  }
  if (open.size > 0) throw unansweredRefusal(open, messages.length)
}

function unansweredRefusal(open: ReadonlySet<string>, at: number): Refusal {
  const ids = [...open].join(', ')
  return new Refusal(
    `Tool calls without a result: ${ids}.`,
    `messages[${at - 1}].tool_calls`,
    'invalid_value',
  )
}

function toolChoiceOf(body: Body): { tools: readonly SimulatedTool[]; forced: boolean } {
  const tools = (body.tools ?? []).map((each) => ({
    name: each.function.name,
    parameters: each.function.parameters ?? undefined,
  }))
  const choice = body.tool_choice ?? 'auto'
  if (choice === 'none') return { tools: [], forced: false }
  if (choice === 'auto') return { tools, forced: false }
  if (tools.length === 0)
    throw new Refusal('tool_choice needs tools to choose from.', 'tool_choice', 'invalid_value')
  if (choice === 'required') return { tools, forced: true }
  const named = choice.type === 'function' ? [choice] : choice.allowed_tools.tools
  const names = named.map((each) => each.function.name)
  const unknown = names.find((name) => !tools.some((each) => each.name === name))
  if (unknown !== undefined) {
    throw new Refusal(
      `tool_choice names '${unknown}', which is not among the tools.`,
      'tool_choice',
      'invalid_value',
    )
  }
  const forced = choice.type === 'function' || choice.allowed_tools.mode === 'required'
  return { tools: tools.filter((each) => names.includes(each.name)), forced }
}

function promptText(messages: readonly Message[]): string {
  const asked = messages.findLast((each) => each.role === 'user') ?? messages.at(-1)!
  return contentText(asked.content)
}

function contentText(given: z.infer<typeof content> | null | undefined): string {
  if (typeof given === 'string') return given
  const texts = (given ?? []).map((each) =>
    'text' in each ? each.text : 'refusal' in each ? each.refusal : '',
  )
  return texts.filter((each) => each !== '').join(' ')
}

function closingResults(messages: readonly Message[]): { name: string; text: string }[] {
  const results: { name: string; text: string }[] = []
  for (let at = messages.length - 1; at >= 0; at--) {
    const each = messages[at]!
    if (each.role !== 'tool') {
      const calls = each.role === 'assistant' ? (each.tool_calls ?? []) : []
      return results.toReversed().map(({ name: id, text }) => ({
        name: calls.find((call) => call.id === id)?.function.name ?? id,
        text,
      }))
    }
    results.push({ name: each.tool_call_id, text: contentText(each.content) })
  }
  return results
}

/** All tokens of the prompt, and how many of them are audio. */
function promptCount(body: Body): { tokens: number; audio: number } {
  let tokens = body.tools && body.tools.length > 0 ? textTokens(JSON.stringify(body.tools)) : 0
  if (body.response_format) tokens += textTokens(JSON.stringify(body.response_format))
  let audio = 0
  for (const each of body.messages) {
    tokens += messageTokens(contentText(each.content))
    if (each.role === 'assistant' && each.tool_calls) tokens += textTokens(JSON.stringify(each.tool_calls))
    if (!Array.isArray(each.content)) continue
    for (const piece of each.content) {
      if (piece.type === 'image_url') tokens += imageTokensOf(piece.image_url.detail)
      else if (piece.type === 'file') tokens += mediaTokens(piece.file.file_data ?? '')
      else if (piece.type === 'input_audio') audio += mediaTokens(piece.input_audio.data)
    }
  }
  return { tokens: tokens + audio, audio }
}

// Token counts of the simulated provider: a prompt's by its bytes, an answer's by its streamed pieces.

/** Tokens of a message beside its text, for role and separators. */
const perMessage = 3
const bytesPerToken = 4

/** Tokens of an image, by the `detail` the client asked for. */
const imageTokens: Readonly<Record<string, number>> = { low: 85, auto: 255, high: 765, original: 1105 }

/** Tokens of a text that is read: a quarter of its UTF-8 bytes, rounded up. */
export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text, 'utf8') / bytesPerToken)
}

function messageTokens(text: string): number {
  return textTokens(text) + perMessage
}

function imageTokensOf(detail: string | undefined): number {
  return imageTokens[detail ?? 'auto'] ?? imageTokens['auto']!
}

/** Tokens of inline media in base64: one for each 64 decoded bytes. */
function mediaTokens(base64: string): number {
  return Math.ceil((base64.length * 3) / 4 / 64)
}

/**
 * A text in the pieces that are streamed, each of which counts as one token. They are made when they are read: a
 * hundred thousand strings for each of a thousand slow clients would fill the memory.
 */
export class Pieces implements Iterable<string> {
  /** All of them joined. */
  readonly text: string
  readonly length: number
  readonly #pattern: RegExp

  /** The first `most` matches of the pattern, which leaves nothing out between them. */
  constructor(text: string, pattern: RegExp, most: number) {
    this.#pattern = pattern
    const next = new RegExp(pattern)
    let [length, end] = [0, 0]
    while (length < most && next.test(text)) {
      length++
      end = next.lastIndex
    }
    this.text = end === text.length ? text : text.slice(0, end)
    this.length = length
  }

  *[Symbol.iterator](): Generator<string, void> {
    const next = new RegExp(this.#pattern)
    for (let from = 0; next.test(this.text); from = next.lastIndex)
      yield this.text.slice(from, next.lastIndex)
  }
}

/** At most `most` words with the white space before them, cut after 16 characters. */
export function wordPieces(text: string, most: number): Pieces {
  return new Pieces(text, /\s*\S{1,16}|\s+/gu, most)
}

/** JSON text in pieces of 12 characters, as providers cut arguments anywhere. */
export function jsonPieces(json: string): Pieces {
  return new Pieces(json, /[^]{1,12}/gu, Number.POSITIVE_INFINITY)
}
