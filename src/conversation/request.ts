// A chat request in the words every protocol shares: inbounds make it, outbounds lower it.

import type { JsonObject, ToolOrigin, WebSearchDeclaration } from './gateway-tools.ts'

export type { Json, JsonObject } from './gateway-tools.ts'

export interface ChatRequest {
  readonly messages: readonly Message[]
  readonly tools: readonly FunctionTool[]
  readonly toolChoice: ToolChoice | undefined
  readonly parallelToolCalls: boolean | undefined
  /** The most tokens the answer may have, reasoning included; undefined where the client set no bound. */
  readonly maxOutputTokens: number | undefined
  readonly sampling: Sampling
  readonly reasoning: Reasoning | undefined
  readonly responseFormat: ResponseFormat | undefined
  readonly stream: boolean
  /** The web search that the provider is to run itself; only for providers whose outbound says that they can. */
  readonly webSearch?: WebSearchDeclaration
  /** Names the caller's end user or conversation to the provider (`user`, `safety_identifier`, `prompt_cache_key`, `service_tier`, `metadata`, `store`, `verbosity`). */
  readonly labels: Labels
  /** Tools that only providers of the Responses protocol are sent, because they run them at no price of their own. */
  readonly nativeTools?: readonly JsonObject[]
  /** What only providers of the Responses protocol are sent, in order. */
  readonly nativeItems?: readonly NativeItem[]
  /** What a client of Gemini's API wrote that only Google's own models are sent. */
  readonly googleMembers?: GoogleMembers
  /** Fields of the client's body that this type has no word for, by their name in the client's protocol. */
  readonly rest: JsonObject
}

/** Members that change neither the price nor the length of an answer, in Google's words. */
export interface GoogleMembers {
  /** The part of the body that holds them. */
  readonly body: JsonObject
  /** Of declarations of functions, by the function's name. */
  readonly functions: Readonly<Record<string, JsonObject>>
  /** Of the tool `googleSearch`. */
  readonly search: JsonObject
}

export interface Sampling {
  readonly temperature?: number
  readonly topP?: number
  readonly topK?: number
  readonly minP?: number
  readonly frequencyPenalty?: number
  readonly presencePenalty?: number
  readonly repetitionPenalty?: number
  /** Beyond 2^53 as it is written. */
  readonly seed?: number | { readonly rawJSON: string }
  readonly stop?: readonly string[]
  readonly logitBias?: Readonly<Record<string, number>>
  readonly logprobs?: boolean
  readonly topLogprobs?: number
  /** How many answers; 1 unless the client asks for more. */
  readonly n?: number
}

export interface Labels {
  readonly user?: string
  readonly safetyIdentifier?: string
  readonly promptCacheKey?: string
  readonly serviceTier?: string
  readonly metadata?: Readonly<Record<string, string>>
  readonly store?: boolean
  readonly verbosity?: string
}

/** How hard the model may think: a named effort, or a budget in tokens, or a plain switch. */
export interface Reasoning {
  readonly effort?: 'none' | 'minimal' | 'low' | 'medium' | 'high' | 'xhigh' | 'max'
  /** Tokens the model may spend on reasoning. */
  readonly maxTokens?: number
  readonly enabled?: boolean
  /** Think, but do not send the reasoning back. */
  readonly exclude?: boolean
  /** How much of a summary to send back, where the client does not leave that to the provider. */
  readonly summary?: 'concise' | 'detailed'
}

export type ResponseFormat =
  | { readonly kind: 'text' }
  | { readonly kind: 'json-object' }
  | {
      readonly kind: 'json-schema'
      readonly name: string
      readonly description: string | undefined
      readonly schema: JsonObject
      readonly strict: boolean | undefined
    }

export interface FunctionTool {
  readonly name: string
  readonly description: string | undefined
  /** JSON Schema of the arguments; undefined for a function that takes none. */
  readonly parameters: JsonObject | undefined
  readonly strict: boolean | undefined
  /** The client left `strict` to a protocol in which a function is strict by default where it can be. */
  readonly strictByDefault?: boolean
  readonly cache: CacheMark | undefined
  /** How the client declared it, where it is no plain function: a provider that knows such tools is sent this. */
  readonly form?: ToolForm
}

/** Kinds of tools that a client runs itself. To providers that know functions alone, each is one. */
export type ClientToolKind = 'function' | 'custom' | 'local_shell' | 'shell' | 'apply_patch' | 'tool_search'

/** A tool as OpenAI's Responses protocol has it; for kinds without a name of their own, `name` is the kind. */
export interface CallForm {
  readonly kind: ClientToolKind
  readonly name: string
  readonly namespace?: string
}

export interface ToolForm extends CallForm {
  /** The declaration, in the words of the Responses protocol. */
  readonly tool: JsonObject
  /** Of its namespace. */
  readonly namespaceDescription?: string
  /** An item of the conversation declares it. */
  readonly inItem?: true
}

/** An item of the Responses protocol that no message stands for: only providers of that protocol are sent it. */
export interface NativeItem {
  /** The number of messages before it. */
  readonly at: number
  readonly item: JsonObject
  /** Its path in the client's body. */
  readonly param: string
  /** Why a request with it is refused by all other providers; without it, they lose nothing. */
  readonly refusedElsewhere?: string
}

export type ToolChoice =
  | { readonly kind: 'auto' }
  | { readonly kind: 'none' }
  | { readonly kind: 'required' }
  | { readonly kind: 'function'; readonly name: string }
  | { readonly kind: 'allowed'; readonly mode: 'auto' | 'required'; readonly names: readonly string[] }

/** "Cache the prompt up to here": Anthropic's `cache_control` or OpenAI's breakpoint, kept where the client put it. */
export interface CacheMark {
  readonly ttl: '5m' | '1h'
  /** OpenAI's `prompt_cache_breakpoint`, where the client spoke its language. */
  readonly breakpoint?: JsonObject
}

export type Message =
  | {
      readonly role: 'system' | 'developer'
      readonly content: readonly ContentPart[]
      readonly name?: string
    }
  | {
      readonly role: 'user'
      readonly content: readonly ContentPart[]
      readonly name?: string
      /** The item of the Responses protocol that it is, where it is no plain message. */
      readonly item?: JsonObject
    }
  | AssistantMessage
  | ToolMessage

export interface AssistantMessage {
  readonly role: 'assistant'
  readonly content: readonly ContentPart[]
  /** Ordered, opaque: goes back to the provider that made it, unchanged. */
  readonly reasoning: readonly ReasoningDetail[]
  readonly toolCalls: readonly ToolCall[]
  readonly name?: string
  /** The provider has paused in it, and goes on where it comes back as the last message. */
  readonly paused?: true
  /** The model is to go on with it: it is the beginning of its answer. Always the last message. */
  readonly prefill?: true
}

export interface ToolMessage {
  readonly role: 'tool'
  readonly toolCallId: string
  readonly content: readonly ContentPart[]
  readonly isError: boolean
  /** The item of the Responses protocol that it is, without its `call_id`, where it answers no plain function. */
  readonly item?: JsonObject
}

export interface ToolCall {
  readonly id: string
  readonly name: string
  /** JSON text as the model wrote it; `{}` for a call without arguments, never empty. */
  readonly arguments: string
  /** Gemini's thought signature of this call, where there is one. */
  readonly thoughtSignature: string | undefined
  /** The gateway ran it: the tool may be offered under another name now. */
  readonly origin?: ToolOrigin
  /** What it called, where that is no plain function. */
  readonly form?: CallForm
  /** Anthropic's clients may mark a call of the history as the end of the cached prompt. */
  readonly cache?: CacheMark
}

/**
 * Which message of the assistant's turn a text belongs to: a turn of the Responses protocol may have several. Absent
 * for the first one where nothing precedes it and it has no phase.
 */
export interface TurnMessage {
  /** How many messages and calls of the turn come before it. */
  readonly at: number
  /** `commentary` or `final_answer`: OpenAI's models answer worse where it does not come back to them. */
  readonly phase?: string
}

export type ContentPart =
  | {
      readonly kind: 'text'
      readonly text: string
      readonly cache: CacheMark | undefined
      readonly message?: TurnMessage
    }
  | { readonly kind: 'refusal'; readonly text: string; readonly message?: TurnMessage }
  | {
      readonly kind: 'image'
      readonly source: MediaSource
      readonly detail: 'auto' | 'low' | 'high' | 'original' | undefined
      readonly cache: CacheMark | undefined
      /** What only Google's models are told of a medium: how to sample a video, at which resolution to look. */
      readonly google?: JsonObject
    }
  | { readonly kind: 'audio'; readonly format: string; readonly data: string; readonly google?: JsonObject }
  | {
      readonly kind: 'file'
      readonly source: MediaSource
      readonly filename: string | undefined
      /** What the client says of it beside its name. */
      readonly context?: string
      /** The answer shall cite it. */
      readonly cited?: true
      readonly cache: CacheMark | undefined
      readonly google?: JsonObject
    }
  | { readonly kind: 'video'; readonly source: MediaSource; readonly google?: JsonObject }

export type MediaSource =
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'base64'; readonly mediaType: string; readonly data: string }
  /** A file the client has put at the provider before. */
  | { readonly kind: 'provider-file'; readonly id: string }

/**
 * One piece of reasoning, in the shape that clients of OpenRouter already parse and send back.
 * Deltas of a stream with the same `index` belong together: `text`, `summary` and `data` are joined,
 * the last `signature` holds.
 */
export interface ReasoningDetail {
  /** Kinds that are new to us travel as well: only their maker need know them. */
  readonly type: 'reasoning.text' | 'reasoning.summary' | 'reasoning.encrypted' | (string & {})
  readonly format: ReasoningFormat | null
  readonly index: number
  readonly id?: string | null
  readonly text?: string | null
  readonly summary?: string
  readonly signature?: string | null
  readonly data?: string
}

export type ReasoningFormat =
  | 'anthropic-claude-v1'
  | 'google-gemini-v1'
  | 'openai-responses-v1'
  | 'xai-responses-v1'
  | 'unknown'
  | (string & {})

// Tags: what a client says a call is for, such as a team, a feature or the person it is made for. They stand on the
// receipt and divide the usage; no provider sees them.

/** Values by name, in the order in which they were given. */
export type Tags = Readonly<Record<string, string>>

/** The bounds of OpenAI's `metadata`: what a client may send there fits here. */
export const mostTags = 16
const longestName = 64
const longestValue = 512

/** The name of the tag that says for whom a call is made. */
export const userTag = 'user'

/** Stands for the group of a call's key where usage is divided by tags: no tag can be called so. */
export const groupTag = ':group'

const namePattern = /^[A-Za-z0-9][A-Za-z0-9_.:@/-]*$/
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const control = /[\u0000-\u001f\u007f-\u009f]/

export const noTags: Tags = {}

/** Why these cannot be the name and the value of a tag; undefined where they can. */
export function faultOfTag(name: string, value: string): string | undefined {
  if (name.length > longestName) return `the name of a tag has at most ${longestName} characters`
  if (!namePattern.test(name))
    return 'the name of a tag has letters, digits and _ . : @ / - and begins with a letter or a digit'
  if (value === '' || value.length > longestValue)
    return `the value of a tag has 1 to ${longestValue} characters`
  if (control.test(value) || !value.isWellFormed()) return 'the value of a tag has no control characters'
  return undefined
}

/** Tags as they are stored, and as they travel with a call: a JSON object of texts. */
export function tagsText(tags: Tags): string {
  return JSON.stringify(tags)
}

/** The tags in such a text; none in `null`. */
export function tagsOf(text: string | null): Tags {
  return text === null ? noTags : (JSON.parse(text) as Tags)
}

/**
 * Reads the header `x-weir-tags`: `team=search,feature=chat`, values percent-encoded where they have a comma, a percent
 * sign or anything beyond ASCII. Returns the tags, or in words what is wrong with it.
 */
export function readTagsHeader(written: string): Tags | string {
  const tags: Record<string, string> = Object.create(null) as Record<string, string>
  let count = 0
  for (const pair of written.split(',')) {
    const text = pair.trim()
    if (text === '') continue
    const at = text.indexOf('=')
    if (at < 0) return 'a tag is written name=value'
    if (++count > mostTags) return `a call has at most ${mostTags} tags`
    const name = text.slice(0, at).trimEnd()
    const value = decode(text.slice(at + 1).trimStart())
    if (value === undefined) return 'a value is percent-encoded UTF-8: a percent sign itself is %25'
    const fault = faultOfTag(name, value)
    if (fault !== undefined) return fault
    if (name in tags) return `the tag ${name} is there twice`
    tags[name] = value
  }
  return { ...tags }
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
