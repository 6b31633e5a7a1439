// What lowering a request to a provider's protocol shares: its result, its warnings, and the provider's own search.

import type { WebSearchDeclaration } from '../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  MediaSource,
  Message,
  Reasoning,
  ReasoningDetail,
  ToolMessage,
} from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'
import { isObject, parseToolJson } from './lenient.ts'

/** Something in the request that is not honoured, reported to the client. */
export interface Warning {
  readonly param: string
  readonly message: string
}

/** What most requests have. */
export const noWarnings: readonly Warning[] = []

/** A request in the provider's protocol. `path` is appended to the provider's base URL. */
export interface LoweredRequest {
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: JsonObject
  readonly warnings: readonly Warning[]
  /** Tools renamed because the client's names are not allowed there: wire name to client name. */
  readonly toolNames?: Readonly<Record<string, string>>
}

/** How many messages of a long conversation are lowered between two pauses. */
export const messagesInStep = 256

/** The warnings of both; no copy where one has none, as most have. */
export function joinWarnings(a: readonly Warning[], b: readonly Warning[]): readonly Warning[] {
  if (b.length === 0) return a
  return a.length === 0 ? b : [...a, ...b]
}

/** Throws GatewayError `unsupported_parameter` for the first, where the client wants nothing dropped. */
export function refuseDropped([dropped]: readonly Warning[], isStrict: boolean): void {
  if (dropped && isStrict) throw new GatewayError('unsupported_parameter', { ...dropped })
}

/** The warnings as answers of every protocol have them; no field without any. */
export function wireWarnings(warnings: readonly Warning[]): JsonObject {
  return warnings.length === 0 ? {} : { warnings: warnings.map(({ param, message }) => ({ param, message })) }
}

// Shared by protocols with fewer features than ours: refusing, dropping, choosing tools.

/** Reports to the client, once, what is not honoured. */
export type Warn = (param: string, message: string) => void

export function warnInto(warnings: Warning[]): Warn {
  return (param, message) => warnings.push({ param, message })
}

/** Warns of a participant's name if the protocol has no field for it. `param` is the message's path. */
export function warnOfName(message: Message, param: string, warn: Warn): void {
  if ('name' in message && message.name !== undefined) {
    warn(`${param}.name`, 'Names of speakers are not passed on.')
  }
}

/** Warns of documents that the answer shall cite: only answers that pass unread can, as citations have an address here. */
export function warnOfCitations({ messages }: ChatRequest, warn: Warn): void {
  const areAsked = messages.some(({ content }) =>
    content.some((part) => part.kind === 'file' && part.cited === true),
  )
  if (areAsked) warn('citations', 'Documents cannot be cited in this answer; dropped.')
}

/** Throws GatewayError `unsupported_parameter` for the first of these that has an effect. */
export function refuse(asked: Readonly<Record<string, boolean>>): void {
  const param = Object.entries(asked).find(([, is]) => is)?.[0]
  if (param !== undefined) throw new GatewayError('unsupported_parameter', { param })
}

/** Throws GatewayError `unsupported_parameter` for several answers, and for log probabilities. */
export function refuseChoicesAndLogprobs({ sampling }: ChatRequest): void {
  const { n = 1, logprobs, topLogprobs = 0 } = sampling
  refuse({ n: n > 1, logprobs: logprobs === true, top_logprobs: topLogprobs > 0 })
}

/** Throws GatewayError `unsupported_parameter` for a part that the protocol does not support. */
export function refusePart(part: ContentPart, param: string, takes: string): never {
  const what = part.kind === 'file' && part.source.kind !== 'base64' ? 'file by reference' : part.kind
  refuseContent(`${takes} here, not ${what}`, param)
}

/** Throws GatewayError `unsupported_parameter` for content that the provider does not take; `takes` says what it does. */
export function refuseContent(takes: string, param: string): never {
  throw new GatewayError('unsupported_parameter', {
    message: `This model's provider takes ${takes}.`,
    param,
  })
}

/** Throws GatewayError `unsupported_parameter` for a medium that no provider of a name can be given. */
export function refuseMedium(provider: string, what: string, param: string): never {
  const message = `The provider ${provider} cannot be given ${what}.`
  throw new GatewayError('unsupported_parameter', { message, param, provider })
}

/** A medium as a URL, with its bytes in it where they are inline; undefined for a file uploaded to a provider. */
export function urlOf(source: MediaSource): string | undefined {
  if (source.kind === 'provider-file') return undefined
  return source.kind === 'url' ? source.url : `data:${source.mediaType};base64,${source.data}`
}

/** Warns of each of these parameters that has an effect. */
export function warnOfUnknown(values: Readonly<Record<string, unknown>>, warn: Warn): void {
  for (const param in values) {
    if (!asksNothing(param, values[param])) warn(param, 'The provider has no such parameter; dropped.')
  }
}

/** Values without effect, which clients send by default: dropping them needs no warning. */
const neutral: Readonly<Record<string, (value: unknown) => boolean>> = {
  top_k: (value) => value === 0,
  min_p: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  presence_penalty: (value) => value === 0,
  repetition_penalty: (value) => value === 1,
  logit_bias: isEmpty,
  metadata: isEmpty,
  parallel_tool_calls: (value) => value === true,
  service_tier: (value) => value === 'auto' || value === 'default',
  store: (value) => value === false,
  modalities: (value) => Array.isArray(value) && value.every((each) => each === 'text'),
}

/** Whether a parameter, by its name in chat completions, is absent or has a value without effect. */
export function asksNothing(param: string, value: unknown): boolean {
  return value === undefined || (Object.hasOwn(neutral, param) && neutral[param]!(value))
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

/** Labels without an equivalent at most providers, by the client's names; a service tier that is asked for is none. */
export function unknownLabels({ labels }: ChatRequest, askedTier?: string): Record<string, unknown> {
  return {
    user: labels.user,
    safety_identifier: labels.safetyIdentifier,
    prompt_cache_key: labels.promptCacheKey,
    service_tier: askedTier === undefined ? labels.serviceTier : undefined,
    verbosity: labels.verbosity,
    store: labels.store,
    metadata: labels.metadata,
  }
}

/** The output token limit to send: the client's, or the model's maximum if lower, because APIs refuse more. */
export function outputBoundOf(
  { maxOutputTokens: asked }: ChatRequest,
  { maxOutputTokens: most }: { readonly maxOutputTokens: number | undefined },
  warn: Warn,
): number | undefined {
  if (asked === undefined || most === undefined || asked <= most) return asked
  warn('max_tokens', `The model writes at most ${most} tokens.`)
  return most
}

export function withoutUndefined(fields: Readonly<Record<string, Json | undefined>>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, Json] => entry[1] !== undefined),
  )
}

/** The fields of the client's body that are passed on; every other one is warned of. */
export function passedOn(rest: JsonObject, known: ReadonlySet<string>, warn: Warn): JsonObject {
  const passed: JsonObject = {}
  const dropped: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(rest)) (known.has(name) ? passed : dropped)[name] = value
  warnOfUnknown(dropped, warn)
  return passed
}

export interface ToolOffer {
  readonly tools: readonly FunctionTool[]
  readonly choice: 'auto' | 'none' | 'required'
  /** The one tool that must be called. */
  readonly only: string | undefined
}

/** The tools that may be called, and the choice. Throws GatewayError `invalid_request` for an unknown tool. */
export function toolOffer(request: ChatRequest): ToolOffer {
  const { toolChoice: choice, tools } = request
  switch (choice?.kind) {
    case undefined:
    case 'auto':
      return { tools, choice: 'auto', only: undefined }
    case 'none':
      return { tools, choice: 'none', only: undefined }
    case 'required':
      return { tools, choice: 'required', only: undefined }
    case 'function':
      functionsNamed(tools, [choice.name])
      return { tools, choice: 'required', only: choice.name }
    case 'allowed':
      return {
        tools: functionsNamed(tools, choice.names),
        choice: choice.mode,
        only: choice.mode === 'required' && choice.names.length === 1 ? choice.names[0] : undefined,
      }
    default:
      return choice satisfies never
  }
}

/** For a protocol without named choice: only the chosen tool is offered. */
export function allowedFunctions({ tools, only }: ToolOffer): readonly FunctionTool[] {
  return only === undefined ? tools : functionsNamed(tools, [only])
}

/** A tool in the form of chat completions, which several protocols use, without strictness. */
export function functionTool({ name, description, parameters }: FunctionTool): JsonObject {
  return {
    type: 'function',
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: parameters ?? { type: 'object', properties: {} },
    },
  }
}

function functionsNamed(tools: readonly FunctionTool[], names: readonly string[]): readonly FunctionTool[] {
  const found = tools.filter((tool) => names.includes(tool.name))
  if (found.length > 0) return found
  throw new GatewayError('invalid_request', {
    message: 'tool_choice names no tool of this request.',
    param: 'tool_choice',
  })
}

/** A text that says by itself that the call has failed. */
const saysItFailed = /^\W*(error|exception|the call failed|failed)\b/i

/**
 * The content of a result for a protocol that cannot say that its call has failed: a result that does not say so itself is
 * told as an error, or the model would take it for what it asked for.
 */
export function resultContent({ content, isError }: ToolMessage): readonly ContentPart[] {
  if (!isError) return content
  const at = content.findIndex((part) => part.kind === 'text' && part.text !== '')
  const first = content[at]
  if (first?.kind !== 'text')
    return [{ kind: 'text', text: 'Error: the call failed.', cache: undefined }, ...content]
  return saysItFailed.test(first.text)
    ? content
    : content.with(at, { ...first, text: `Error: ${first.text}` })
}

/** Whether a text is blank: some APIs refuse such blocks. */
export function isBlank(text: string): boolean {
  return text.trim() === ''
}

/** The arguments of a call as an object, for protocols that do not take JSON text. */
export function argumentsObject(text: string, param: string, warn: Warn): JsonObject {
  const parsed = parseToolJson(isBlank(text) ? '{}' : text)
  if (parsed === null) return {}
  if (isObject(parsed)) return parsed
  // The protocol only takes objects, and the model should see what it wrote.
  warn(param, 'The arguments of a call are not a JSON object; the model is shown their text.')
  return { invalid_arguments: text }
}

/** Whether a request wants no reasoning. */
export function isReasoningOff({ effort, enabled, maxTokens }: Reasoning): boolean {
  return effort === 'none' || enabled === false || maxTokens === 0
}

/** Maps efforts to the three that most models know. */
export const threeEfforts: Readonly<Record<string, string>> = {
  minimal: 'low',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
}

/** Whether reasoning is unsigned plain text, which any provider that takes reasoning back accepts. */
export function isPlain({ format }: ReasoningDetail): boolean {
  return format === null || format === 'unknown'
}

/** The text of all plain reasoning, in order. */
export function plainReasoning(details: readonly ReasoningDetail[]): string {
  return details
    .toSorted((a, b) => a.index - b.index)
    .filter(isPlain)
    .map((detail) => detail.text ?? detail.summary ?? '')
    .join('')
}

/** Warns if reasoning in the history is dropped because another provider produced it. */
export function warnOfForeignReasoning(
  details: readonly ReasoningDetail[],
  kept: (detail: ReasoningDetail) => boolean,
  param: string,
  warn: Warn,
): void {
  if (details.every(kept)) return
  warn(
    `${param}.reasoning_details`,
    'Reasoning that this provider did not make cannot go back to it and is left out.',
  )
}

/** Types of files that are text, beside all that begin with `text/`. */
const textTypes =
  /^(text\/.+|application\/(([\w.-]+\+)?(json|xml)|(x-)?(yaml|javascript|ecmascript|typescript|toml|sh|python|ndjson|sql)|jsonl))$/

/** The type of a file without its parameters; undefined where it is not inline text. */
export function textTypeOf(source: MediaSource): string | undefined {
  if (source.kind !== 'base64') return undefined
  const type = source.mediaType.split(';')[0]!.trim().toLowerCase()
  return textTypes.test(type) ? type : undefined
}

/** The words of an inline text file; undefined for any other part, and where its bytes are no text. */
export function wordsOfFile(part: ContentPart): string | undefined {
  if (part.kind !== 'file' || part.source.kind !== 'base64' || textTypeOf(part.source) === undefined)
    return undefined
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(part.source.data, 'base64'))
  } catch {
    return undefined
  }
}

/** A text file as a text, for providers that take no files; undefined for any other part. */
export function fileAsText(part: ContentPart): string | undefined {
  const words = wordsOfFile(part)
  if (words === undefined || part.kind !== 'file') return undefined
  return part.filename === undefined ? words : `${part.filename}:\n\n${words}`
}

/** What a model said, whose parts continue each other. They must all be text: throws for any other part. */
export function textOf(parts: readonly ContentPart[], param: string): string {
  return textsOf(parts, param).join('')
}

/** Instructions, or the result of a tool, whose parts stand beside each other. They must all be text, too. */
export function linesOf(parts: readonly ContentPart[], param: string): string {
  return textsOf(parts, param)
    .filter((text) => text !== '')
    .join('\n')
}

/** The lines of the parts that are text; all others are left out. */
export function textLinesIn(parts: readonly ContentPart[]): string {
  return parts
    .map((part) => (part.kind === 'text' || part.kind === 'refusal' ? part.text : ''))
    .filter((text) => text !== '')
    .join('\n')
}

function textsOf(parts: readonly ContentPart[], param: string): string[] {
  return parts.map((part) =>
    part.kind === 'text' || part.kind === 'refusal'
      ? part.text
      : (fileAsText(part) ?? refusePart(part, param, 'only text')),
  )
}

// Web searches that providers run themselves: what a request may ask for, and what each provider takes.

/** Whether a provider's own search can serve a request. */
export type OwnSearch =
  /** `billed`: each search has a fee, or the request has one, whatever it searches. */
  | {
      readonly kind: 'able'
      readonly billed: 'search' | 'request'
      /** A turn of many searches pauses, and goes on when it is sent back. */
      readonly pauses?: true
      /** It takes no functions beside it, not the gateway's either. */
      readonly alone?: true
    }
  /** `why` completes "The provider's own search …", for people. */
  | { readonly kind: 'unable'; readonly why: string }

/** What must be honoured or refused; how much of the pages is read is a hint. */
type Wish =
  'allowed_domains' | 'blocked_domains' | 'paths' | 'both lists' | 'user_location' | 'recency' | 'max_uses'

const has: Readonly<Record<Wish, (search: WebSearchDeclaration) => boolean>> = {
  allowed_domains: ({ allowedDomains }) => allowedDomains.length > 0,
  blocked_domains: ({ blockedDomains }) => blockedDomains.length > 0,
  'both lists': ({ allowedDomains, blockedDomains }) =>
    allowedDomains.length > 0 && blockedDomains.length > 0,
  paths: ({ allowedDomains, blockedDomains }) =>
    [...allowedDomains, ...blockedDomains].some((domain) => /[/*]/.test(bareDomain(domain))),
  user_location: ({ location }) => location !== undefined,
  recency: ({ rest }) => rest['recency'] != null,
  max_uses: ({ maxUses }) => maxUses !== undefined,
}

const inWords: Readonly<Record<Wish, string>> = {
  allowed_domains: 'cannot be kept to allowed domains',
  blocked_domains: 'cannot be kept from blocked domains',
  'both lists': 'takes allowed or blocked domains, not both',
  paths: 'takes domains, not paths',
  user_location: 'cannot be told where the user is',
  recency: 'cannot be kept to recent pages',
  max_uses: 'cannot be bounded',
}

/** Able where a search that honours these wishes, and no others, is all the request asks for. */
export function ableTo(
  search: WebSearchDeclaration,
  billed: 'search' | 'request',
  honoured: readonly Wish[],
): OwnSearch {
  const all = Object.keys(has) as Wish[]
  const missed = all.find((wish) => !honoured.includes(wish) && has[wish](search))
  return missed === undefined ? { kind: 'able', billed } : { kind: 'unable', why: inWords[missed] }
}

export function unable(why: string): OwnSearch {
  return { kind: 'unable', why }
}

/** `user_location` as OpenAI and Anthropic write it; no field where the request names no place. */
export function approximateLocation({ location }: WebSearchDeclaration): JsonObject {
  return location === undefined ? {} : { user_location: { type: 'approximate', ...location } }
}

/** A domain without a scheme, `*.` and a slash at its end: as providers want them. */
export function bareDomain(domain: string): string {
  return domain
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/^\*\./, '')
    .replace(/\/$/, '')
}
