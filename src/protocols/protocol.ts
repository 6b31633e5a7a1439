// The two interfaces every wire protocol implements: inbound (clients speak it to us), outbound (we speak it to providers).

import type { Progress } from '../conversation/delivered.ts'
import type { ChatEvent, ChatResult, Fault } from '../conversation/event.ts'
import type { DeclaredTools, WebSearchDeclaration } from '../conversation/gateway-tools.ts'
import type { ChatRequest, JsonObject, ToolCall } from '../conversation/request.ts'
import type { Usage } from '../conversation/usage.ts'
import { GatewayError, type RenderedError } from '../errors/errors.ts'
import type { DoneOrSteps, Steps } from '../json/json.ts'
import { fault } from './faults.ts'
import type { Frame } from './framing/sse.ts'
import type { LoweredRequest, OwnSearch, Warning } from './lowering.ts'
import type { ClientFields } from './request/fields.ts'
import type { Parts, PromptParts } from './request/prompt-parts.ts'

/** What providers are spoken to in. */
export const protocolIds = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere',
  'ollama',
] as const

export type ProtocolId = (typeof protocolIds)[number]

/** What clients may speak to us: some of it no provider is spoken to in. */
export type ClientProtocolId = ProtocolId | 'openai-completions'

// ---- outbound ---------------------------------------------------------------------------------------------

/** Where one request goes, as far as the protocol needs to know. Quirks are the provider row's data. */
export interface Target<Quirks = unknown> {
  /** The model's name at the provider. */
  readonly model: string
  readonly provider: string
  readonly quirks: Quirks
  /** The most output tokens the model can make; undefined where the catalog does not know. */
  readonly maxOutputTokens: number | undefined
  /** Whether the catalog says that the model reasons. */
  readonly reasoning: boolean
  /**
   * The efforts that the model takes, from clients' words to the provider's; empty where it takes none, absent where the
   * catalog does not know.
   */
  readonly efforts?: Readonly<Record<string, string>> | undefined
  /** For reading the answer: it is to be a document, of which no piece may be lost. */
  readonly document?: true
  /** The service tier to ask for; every other one is left out, as its price is not known. */
  readonly serviceTier?: string | undefined
  /** The thought signature that this provider gave a tool call of the account's, whose client dropped it. */
  readonly rememberedSignature: (call: Pick<ToolCall, 'id' | 'name'>) => string | undefined
  /**
   * For reading the answer: the client speaks this protocol too. It is told what no other has words for, and knows those
   * for an answer that the model spoiled: such an answer is handed on as it is, and is a failure for all others.
   */
  readonly clientSpeaksIt?: boolean
  /** For reading the answer: the `toolNames` of the request that was lowered. */
  readonly toolNames?: Readonly<Record<string, string>>
}

/**
 * Reads one streamed answer, and keeps what it has to remember of it. Over a whole stream (every `push`, then one
 * `end`) it yields exactly one terminal event and nothing after it; `end` on a stream that has not finished yields an
 * `error` of kind `cut`. `end` changes nothing: it says what it would mean if the body ended here.
 */
export interface StreamParser {
  push(frame: Frame): readonly ChatEvent[]
  end(): readonly ChatEvent[]
  /**
   * Takes the server-sent events of `received` from `at` on, where an event begins, as far as they differ only in their
   * text from one that was pushed. Undefined if the next event has to be decoded and pushed.
   */
  texts?(received: string, at: number): Texts | undefined
}

/** Consecutive pieces of one choice's text: each is a `text-delta`. */
export interface Texts {
  readonly choice: number
  /** Each as JSON.stringify writes it, without the quotes; never empty. */
  readonly texts: readonly string[]
  /** The text itself. */
  readonly content: string
  /** What the provider has counted up to and with the last of them, if it counts each. */
  readonly usage?: Usage | undefined
  /** The position after the last event in what was received. */
  readonly end: number
}

export interface Outbound<Quirks = unknown> {
  readonly id: ProtocolId
  readonly framing: 'sse' | 'ndjson' | 'aws-event-stream'
  /** The framing of one host, where hosts differ in it. */
  framingFor?(target: Target<Quirks>): Outbound['framing']
  /** Where a provider that no row describes takes its key. */
  readonly auth: ProtocolAuth
  /** The quirks a row may set, all at their defaults. */
  readonly defaultQuirks: Quirks
  /** Whether a medium given by URL must be fetched and inlined before `lower`: the protocol takes bytes only. */
  readonly inlinesUrls: boolean
  /** Which addresses go to `lower` as they are although `inlinesUrls`: the provider reads them itself. None by default. */
  readsUrl?(url: string, target: Target<Quirks>): boolean
  /**
   * The provider's request for ours. Throws GatewayError `unsupported_parameter` for what must not be dropped
   * (n > 1, logprobs, a kind of part the protocol cannot carry); what may be dropped is named in `warnings`.
   */
  lower(request: ChatRequest, target: Target<Quirks>): LoweredRequest
  /** The same in steps, for long conversations, where `lower` may take milliseconds. */
  lowerSteps?(request: ChatRequest, target: Target<Quirks>): Steps<LoweredRequest>
  /**
   * The lowest output token limit that such a provider takes: `lower` raises one below it, so it is what has to be held
   * for. None where the protocol has none.
   */
  leastOutputTokens?(quirks: Partial<Quirks>): number
  /** Whether a request for no output at all is served: it writes the prompt to the provider's cache. */
  readonly warmsCache?: true
  /** `lower` takes what only Google's own protocol has words for (`request/google-fields.ts`). */
  readonly readsGoogleFields?: true
  /** The results of tools may hold nothing but text. */
  readonly textResults?: true
  /**
   * Whether the provider can search the web for this request itself, as `search` wishes; undefined where it has no
   * search. Then `lower` may be given the request with `webSearch`.
   */
  ownSearch?(
    search: WebSearchDeclaration,
    request: ChatRequest,
    target: Pick<Target<Quirks>, 'model' | 'quirks'>,
  ): OwnSearch | undefined
  /**
   * How the model goes on with a last message that is marked as `prefill`; undefined where it begins a new answer, or
   * refuses the request.
   */
  prefill?(target: Pick<Target<Quirks>, 'model' | 'quirks' | 'reasoning'>): Prefill | undefined
  /** A whole JSON answer (already parsed) as events, exactly one of them terminal. Never throws. */
  whole(body: unknown, target: Target<Quirks>): readonly ChatEvent[]
  /** What `collect` makes of those events, for answers that need none of them to be read; undefined for all others. */
  plainWhole?(body: unknown, target: Target<Quirks>): ChatResult | undefined
  /** `choices`: how many answers were asked for; one if it is not given. */
  parser(target: Target<Quirks>, choices?: number): StreamParser
  /** What an answer with an error status means. `body` is raw text and may be HTML or empty. Never throws. */
  fault(status: number, headers: Headers, body: string, target: Target<Quirks>): Fault
  /**
   * The parameters of chat completions, by their names there, that this model of the provider is not sent, so that the
   * catalog does not promise them.
   */
  ignores(target: Pick<Target<Quirks>, 'model' | 'quirks' | 'reasoning'>): readonly string[]
  /** How providers that speak this protocol embed; undefined where the protocol has no embeddings. */
  readonly embeddings: EmbeddingOutbound | undefined
  /** For clients that speak this protocol themselves; without it they are translated for as all others. */
  readonly passthrough?: Passthrough<Quirks>
}

/** What the answer to a prefill holds: what follows it alone, or the prefill once more in front of it. */
export type Prefill = 'rest' | 'repeated'

export type ProtocolAuth =
  | { readonly kind: 'bearer' }
  | { readonly kind: 'header'; readonly header: string }
  | { readonly kind: 'aws'; readonly service: string }

/** For a client and a provider of the same protocol: unknown fields reach the client. */
export interface Passthrough<Quirks = unknown> {
  /**
   * The client's own body as the provider's request; undefined where it has to be translated, and the answer with it:
   * because of what it holds, or because the provider ignores one of its fields (`ignored`). Absent where every request
   * is translated and every answer passes. `searches` is how many searches of the provider's own the body may ask for.
   */
  request?(
    body: JsonObject,
    target: Target<Quirks>,
    ignored: readonly string[],
    searches: number | undefined,
  ): LoweredRequest | undefined
  /** A streamed answer on its way to the client. `choices`: how many were asked for. */
  stream(
    context: AnswerContext,
    bounds: { readonly choices: number; readonly maxEventBytes: number },
    target: Target<Quirks>,
  ): PassthroughStream
  /** A whole answer for the client. */
  whole(
    answer: JsonObject,
    usage: Usage,
    bill: Bill,
    context: AnswerContext,
    target: Target<Quirks>,
  ): JsonObject
}

/** Turns a provider's streamed bytes into the client's. What ends the answer waits for `finish`. */
export interface PassthroughStream {
  readonly progress: Progress
  /** Bytes of the provider's body, cut anywhere. Returns what the client gets for them. */
  push(bytes: Uint8Array): DoneOrSteps<readonly Uint8Array[]>
  /** The provider's body has ended; afterwards `progress` says `finished` or holds a fault. */
  end(): readonly Uint8Array[]
  /**
   * The last bytes, after the charge is durable. `stopped`: the fields that say why the gateway ended the answer;
   * undefined where the provider did.
   */
  finish(usage: Usage, bill: Bill, stopped: JsonObject | undefined): readonly Uint8Array[]
  /** The last bytes of an answer that failed after its first byte. */
  fail(error: RenderedError): readonly Uint8Array[]
}

// ---- inbound ----------------------------------------------------------------------------------------------

/** What the gateway itself reads of a client's request, whatever its protocol. */
export interface Envelope {
  readonly model: string
  /** Further models to try, in order, when the first cannot be reached. */
  readonly fallbacks: readonly string[]
  readonly stream: boolean
  /** Whether the client asked for the usage at the end of the stream. */
  readonly includeUsage: boolean
  readonly maxOutputTokens: number | undefined
  readonly n: number
  readonly routing: Routing
  /** The most this call may cost, US dollars as a decimal string. */
  readonly maxCost: string | undefined
  /** How old an answer to the same request may be that is given again, milliseconds; absent for none. */
  readonly cacheMs?: number
  readonly sessionId: string | undefined
  /** Refuse what cannot be honoured instead of dropping it with a warning. */
  readonly strict: boolean
  readonly onDisconnect: 'cancel' | 'finish' | undefined
  /** The service tier that is asked for, where it is not the standard one: `flex`, `priority`. */
  readonly serviceTier?: string | undefined
  /** The client shows no thoughts: they go to it in a form that it only sends back. */
  readonly sealsThoughts?: true
  /** The client's tools whose argument is a text, where its protocol tells their calls apart by nothing but the name. */
  readonly customTools?: ReadonlySet<string>
  /** The most searches that the provider itself may run and bill for the call; absent where it runs none. */
  readonly searches?: number
}

/** `provider{…}` of the request: which offers may serve it. Prices are USD per million tokens, decimal strings. */
export interface Routing {
  readonly order: readonly string[]
  readonly only: readonly string[]
  readonly ignore: readonly string[]
  readonly allowFallbacks: boolean
  /** `request` in US dollars for one request, whatever its tokens. */
  readonly maxPrice: Readonly<Record<'input' | 'output' | 'request', string | undefined>>
  /** What a provider must promise of what it is sent; undefined for nothing. */
  readonly dataPolicy: 'no_training' | 'zero_retention' | undefined
  /** The order of a model's offers; undefined for the catalog's. */
  readonly sort: 'price' | 'latency' | undefined
  /** What follows when a content filter has refused the prompt: another model, or the end. */
  readonly afterFilter: 'end' | 'fallback'
  /** Whether another candidate goes on with a stream that has broken off. */
  readonly continues: boolean
}

/** An address in a client's request, and the field that holds it. */
export interface RequestAddress {
  readonly url: string
  readonly param: string
}

/** A client's validated request: the envelope is read, the conversation is translated on demand. */
export interface InboundRequest {
  readonly envelope: Envelope
  /** The client's body with every field it sent. */
  readonly body: JsonObject
  /** Dropped parameters, independent of the provider; none if absent. */
  readonly warnings?: readonly Warning[]
  /** The addresses in it that a provider may fetch, checked by name; none where this is absent. */
  readonly addresses?: readonly RequestAddress[]
  /** What the client calls the fields of its request; as in chat completions where this is absent. */
  readonly fields?: ClientFields
  /** The body as a prompt, to be measured. */
  readonly promptParts: PromptParts
  /** Declared gateway tools, if any. */
  readonly gatewayTools?: DeclaredTools
  /** It holds what only the gateway can read, such as calls of its own tools: no provider is sent the body as it is. */
  readonly translated?: boolean
  /**
   * Whether a field of the chat request, such as `messages[3].content`, is one that the gateway itself has added: its
   * client is neither warned of it nor refused for it.
   */
  readonly isAdded?: (param: string) => boolean
  toChatRequest(): ChatRequest
}

/** The figures an answer carries beside what the provider said. Amounts are decimal strings in US dollars. */
export interface Bill {
  readonly cost: string
  readonly lines: {
    readonly input: string
    readonly cache_read: string
    readonly cache_write: string
    readonly output: string
    readonly reasoning: string
    readonly tools: string
  }
}

/** What stays the same over all frames of one answer. */
export interface AnswerContext {
  readonly id: string
  /** The id the client asked for, or the fallback's that answered. */
  readonly model: string
  /** Seconds since 1970. */
  readonly created: number
  readonly includeUsage: boolean
  /** See `Envelope`. */
  readonly sealsThoughts?: true
  readonly customTools?: ReadonlySet<string>
  readonly warnings: readonly Warning[]
  /** Fields we add to the answer, already in wire shape (`mode: "test"`, `metadata`). */
  readonly extra: JsonObject
}

/**
 * Writes one streamed answer in the client's protocol. Call `start` once, `event` for each event that is not
 * terminal and not `usage`, then exactly one of `finish` and `fail`. Stateful: one per answer.
 */
export interface StreamEncoder {
  /** `counted`: what the provider has counted by then, if it counts the prompt first. */
  start(counted?: Usage): readonly Frame[]
  event(event: ChatEvent): readonly Frame[]
  /**
   * The events of several pieces of text as they are sent: what `event` gives for each, or one event of all. Undefined
   * if they have to be encoded one by one.
   */
  texts?(pieces: Texts): string | undefined
  /** After the charge is durable: what is left open is closed, the usage is written, the stream ends. */
  finish(usage: Usage, bill: Bill): readonly Frame[]
  /** The stream ends with an error the client library will throw, never with an invented finish. */
  fail(error: RenderedError): readonly Frame[]
  /** The client disconnected: has what was delivered stored, where answers are. Nothing is sent. */
  cancel?(usage: Usage, bill: Bill): void
}

export interface Inbound {
  readonly id: ClientProtocolId
  /** An event that says nothing, written between two others of a stream that has been silent for a while. */
  readonly keepalive: Uint8Array
  /** Where in a body an address may stand. */
  readonly addresses: Parts
  /** Its clients know answers that pause, and ask for the rest themselves. */
  readonly pauses?: true
  /** Takes parsed JSON. Throws GatewayError `invalid_request` with `param` for what the protocol forbids. */
  parse(body: unknown): InboundRequest
  /** A whole answer in the client's protocol. */
  whole(result: ChatResult, usage: Usage, bill: Bill, context: AnswerContext): JsonObject
  encoder(context: AnswerContext): StreamEncoder
  /**
   * Resolves when what is kept of the answer is on its way to the store, in front of whatever is queued afterwards: the
   * charge waits for it. Absent where nothing is kept.
   */
  whenKept?(): Promise<void> | undefined
  /** Called when credit is held for a call, before its provider is asked. */
  readonly whenHeld?: (() => void) | undefined
  /** An error as the body of an answer. */
  error(error: RenderedError): object
  /**
   * The request for a provider that speaks another protocol, where this one has fields that no other can be sent: they
   * are left out, and named where they asked for something.
   */
  forOtherProtocols?(request: ChatRequest): {
    readonly request: ChatRequest
    readonly warnings: readonly Warning[]
  }
}

// Embeddings: the common types, and the interface of a provider's protocol.

/** One input: a text, or its tokens. */
export type EmbeddingInput = string | readonly number[]

export interface EmbeddingRequest {
  /** Never empty. */
  readonly inputs: readonly EmbeddingInput[]
  /** The length of the vectors; undefined for the model's default. */
  readonly dimensions: number | undefined
  readonly user: string | undefined
  /** Other fields of the client's body. */
  readonly rest: JsonObject
}

/** The target of a request. Quirks are the provider row's data. */
interface EmbeddingTarget {
  /** The model's name at the provider. */
  readonly model: string
  readonly quirks: EmbeddingQuirks
}

/** Embedding quirks of a provider's row. */
export interface EmbeddingQuirks {
  /** The path of a chat-completions server, after its base URL. */
  readonly path: string
  /** Where Gemini's models are found under the base URL. */
  readonly modelsPath: string
  /** What the provider calls `dimensions`. */
  readonly dimensionsField: string
  /** Whether it accepts tokens instead of text. */
  readonly tokens: boolean
  /** Whether it takes `user`. */
  readonly user: boolean
  /** The encoding of the vectors: base64 is a third as long, but not every server supports it. */
  readonly format: 'base64' | 'float'
}

export const defaultEmbeddingQuirks: EmbeddingQuirks = {
  path: '/embeddings',
  modelsPath: '/models',
  dimensionsField: 'dimensions',
  tokens: true,
  user: true,
  format: 'float',
}

export type EmbeddingAnswer =
  | {
      readonly kind: 'vectors'
      /** In the order of the inputs. */
      readonly vectors: readonly (readonly number[])[]
      /** The provider's count, if any. */
      readonly usage: Usage | undefined
      /** The provider's id of the answer, where it gives one. */
      readonly id: string | undefined
    }
  | { readonly kind: 'fault'; readonly fault: Fault }

/** The embeddings side of a wire protocol. */
export interface EmbeddingOutbound {
  /** Throws GatewayError `unsupported_parameter` for inputs that the provider cannot read. */
  lower(request: EmbeddingRequest, target: EmbeddingTarget): LoweredRequest
  /** Reads a whole parsed answer. Anything unexpected is a fault of kind `broken`. Never throws. */
  read(body: unknown): EmbeddingAnswer
}

// Shared by the embeddings of all protocols: reads inputs as texts, and vectors from untrusted JSON.

/** The inputs for a provider that only takes texts. Throws `unsupported_parameter` for tokens. */
export function textsOf(inputs: readonly EmbeddingInput[]): readonly string[] {
  return inputs.map((input) => {
    if (typeof input === 'string') return input
    throw new GatewayError('unsupported_parameter', {
      message: "This model's provider embeds texts, not arrays of tokens: each model has tokens of its own.",
      param: 'input',
    })
  })
}

/** A vector as JSON numbers or as base64 of little-endian 32-bit floats; undefined when it is neither. */
export function vectorOf(value: unknown): readonly number[] | undefined {
  if (typeof value === 'string') return fromBase64(value)
  if (!Array.isArray(value) || value.length === 0) return undefined
  return value.every((number): number is number => typeof number === 'number') ? value : undefined
}

/** A vector as base64 of little-endian 32-bit floats, which is how every machine that this runs on holds them. */
export function toBase64(vector: readonly number[]): string {
  return Buffer.from(new Float32Array(vector).buffer).toString('base64')
}

function fromBase64(text: string): readonly number[] | undefined {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  if (bytes.length === 0 || bytes.length % 4 !== 0) return undefined
  const numbers = Array.from(new Float32Array(bytes.buffer))
  return numbers.every(Number.isFinite) ? numbers : undefined
}

/** The fault of an answer that is not what the protocol says. */
export function notVectors(): EmbeddingAnswer {
  return { kind: 'fault', fault: fault('broken', 'the answer holds no vectors') }
}
