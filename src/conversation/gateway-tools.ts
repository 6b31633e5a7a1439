// Tools that the gateway itself runs for a model: what a request declares of them, and what becomes of their calls.

// What JSON can say.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
export type JsonObject = { [key: string]: Json }

interface WebTool {
  /** What a model is offered. */
  readonly name: string
  /** What a client is shown, as in `web_search_call.action`. */
  readonly action: string
  /** The argument that the action names. */
  readonly argument: string
  /** The declaration that offers it. */
  readonly declared: OwnDeclaration['kind']
}

/** The gateway's own tools. */
export const webTools = {
  'web-search': { name: 'web_search', action: 'search', argument: 'query', declared: 'web-search' },
  'open-page': { name: 'open_page', action: 'open_page', argument: 'url', declared: 'web-search' },
} as const satisfies Readonly<Record<string, WebTool>>

export type WebToolKind = keyof typeof webTools
export const webToolKinds = Object.keys(webTools) as readonly WebToolKind[]
export type WebToolOrigin = { readonly [Kind in WebToolKind]: { readonly kind: Kind } }[WebToolKind]

/** What runs a call: shown to the client with the call, and what tells two tools of the same name apart. */
export type ToolOrigin =
  WebToolOrigin | { readonly kind: 'mcp'; readonly serverLabel: string; readonly tool: string }

/** `web_search` of a request, by whatever name the client's protocol has for it. */
export interface WebSearchDeclaration {
  readonly kind: 'web-search'
  /** The field of the client's body that declares it, for errors. */
  readonly param: string
  /** `auto`: the provider's own search where it has one, else the backend; or `native`, or a backend by its name. */
  readonly engine: string
  readonly contextSize: 'low' | 'medium' | 'high'
  readonly location: SearchLocation | undefined
  /** Domains, their subdomains included; empty allows every domain. */
  readonly allowedDomains: readonly string[]
  readonly blockedDomains: readonly string[]
  /** The field of the client's body that holds them; absent where it is the declaration itself. */
  readonly domainsParam?: string
  /** The most searches of one request; undefined where the client sets no bound of its own. */
  readonly maxUses: number | undefined
  /** Fields of the declaration that are not named here, as the client wrote them. */
  readonly rest: JsonObject
  /**
   * Clients send some with every request, wanted or not: one that cannot be served is left out then, with a warning, and
   * one that can searches without opening pages.
   */
  readonly optional?: boolean
}

export interface SearchLocation {
  readonly city?: string
  readonly region?: string
  /** Two letters, ISO 3166-1. */
  readonly country?: string
  /** IANA name. */
  readonly timezone?: string
}

/** An MCP server as the client declared it; `declaration` is checked when it is opened. */
export interface McpDeclaration {
  readonly kind: 'mcp'
  readonly param: string
  readonly serverLabel: string
  readonly declaration: JsonObject
  /** What the client's protocol calls fields of the declaration, where it has other names for them. */
  readonly names?: Readonly<Record<string, string>>
}

/** What declares tools that the gateway has itself. How clients write each: protocols/request/gateway-tools.ts. */
type OwnDeclaration = WebSearchDeclaration

export type ToolDeclaration = OwnDeclaration | McpDeclaration

/** What of a request is for tools of the gateway. */
export interface DeclaredTools {
  readonly declarations: readonly ToolDeclaration[]
  /** The most calls of gateway tools; undefined for the operator's default. */
  readonly maxCalls: number | undefined
  /** Calls of the history that the caller has approved: they run before the model is asked again. */
  readonly approved: readonly ApprovedCall[]
  /** Which of them the client lets the model call first; absent where it says nothing of them. */
  readonly choice?: GatewayChoice
  /** Items of the history that only the tool's own source can read (`mcp_list_tools`), as the client sent them. */
  readonly history: readonly JsonObject[]
}

/** A `tool_choice` that names tools of the gateway. */
export interface GatewayChoice {
  readonly mode: 'auto' | 'required'
  readonly tools: readonly ToolSelector[]
}

export type ToolSelector =
  | { readonly kind: OwnDeclaration['kind'] }
  /** `tool` is absent for all tools of the server. */
  | { readonly kind: 'mcp'; readonly serverLabel: string; readonly tool?: string }

/** The answer to an approval request. Its call is in the messages, under the request's id, without a result. */
export interface ApprovedCall {
  readonly requestId: string
  readonly serverLabel: string
  readonly tool: string
  /** JSON text. */
  readonly arguments: string
}

/** A call of one of the gateway's tools, as the model made it. */
export interface GatewayCall {
  readonly id: string
  readonly origin: ToolOrigin
  /** The name that the tool was offered under. */
  readonly name: string
  /** JSON text as the model wrote it. */
  readonly arguments: string
  /** The request that the caller has approved it by. */
  readonly approvalRequestId?: string
}

/** A call with what it came to. */
export interface GatewayRun {
  readonly call: GatewayCall
  readonly result: ToolResult
  /** Its position in the answer: UTF-16 units of text and details of reasoning before it. */
  readonly after: { readonly text: number; readonly reasoning: number }
  /** Which round of the answer it belongs to, from 1; 0 for a call of an earlier answer that was approved since. */
  readonly round: number
}

/** Where a search found something, for citations. */
export interface Source {
  readonly url: string
  readonly title: string
  readonly snippet?: string
  /** ISO 8601. */
  readonly publishedAt?: string
}

/** What a call of a tool came to. One that failed has cost nothing and still has a text for the model. */
export interface ToolResult {
  /** What the model is given; never empty. */
  readonly text: string
  /** What the client is shown, where it is not the same. */
  readonly output?: string
  readonly images?: readonly ToolImage[]
  readonly failure?: ToolFailure
  /** Picodollars; 0 for a call that failed. */
  readonly cost: bigint
  /** Web searches that were executed; 0 for a call that failed. */
  readonly searches: number
  readonly sources?: readonly Source[]
  /** What the tool did, in the words of `web_search_call.action`. */
  readonly action?: JsonObject
  /** Structured content, for the item of the call. */
  readonly structured?: Json
}

export interface ToolImage {
  readonly mediaType: string
  /** Base64. */
  readonly data: string
}

interface ToolFailure {
  /** snake_case. */
  readonly code: string
  readonly message: string
}

// The ids of requests for approval. Each names the tool as it was listed, and the call that asked.

/**
 * The id under which a call of the tool with this fingerprint is asked about, `number` in its answer. Providers get it
 * as the id of the tool call, which may have 64 characters.
 */
export function approvalId(fingerprint: string, requestId: string, number: number): string {
  const call = Buffer.from(requestId.replace(/^req_/, ''), 'hex').toString('base64url')
  return `${approvalPrefix(fingerprint)}${call}_${number}`
}

/** What the ids of all approvals of a tool begin with. */
export function approvalPrefix(fingerprint: string): string {
  return `mcpr_${fingerprint}`
}

/** The call in whose answer this approval was asked for; undefined for an id that does not say it. */
export function requestOfApproval(id: string): string | undefined {
  const [, call] = /^mcpr_[0-9a-f]{32}([\w-]{22})_\d+$/.exec(id) ?? []
  return call === undefined ? undefined : `req_${Buffer.from(call, 'base64url').toString('hex')}`
}
