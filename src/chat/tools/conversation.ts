// The conversation of a call whose tools the gateway runs: the client's messages and every round since.

import type { DeclaredTools, GatewayChoice } from '../../conversation/gateway-tools.ts'
import type {
  AssistantMessage,
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ToolChoice,
  ToolMessage,
} from '../../conversation/request.ts'
import { joinedPrompt, promptParts } from '../../protocols/request/prompt-parts.ts'
import type { CallTools } from '../../tools/call-tools.ts'
import type { OfferedTool } from '../../tools/names.ts'
import type { IncomingCall } from '../call.ts'
import { asObject } from './round-events.ts'

/** How free the model is to call tools in a round. */
type Freedom =
  /** As the client asks. */
  | 'asked'
  /** A forced choice has been made. */
  | 'free'
  /** No more calls: the model must answer. */
  | 'none'

export class ToolConversation {
  #asked: ChatRequest
  readonly #tools: CallTools
  readonly #choice: GatewayChoice | undefined
  readonly #offered: readonly FunctionTool[]
  readonly #said: Message[] = []
  /** All messages that are not the client's own. */
  readonly #added = new Set<Message>()
  freedom: Freedom = 'asked'

  constructor(asked: ChatRequest, tools: CallTools, declared: Pick<DeclaredTools, 'choice'>) {
    this.#tools = tools
    this.#choice = declared.choice
    this.#offered = tools.tools.map(functionOf)
    this.#asked = { ...asked, messages: asked.messages.map((message) => this.#renamed(message)) }
  }

  /** Whether the client has functions of its own, which the model may always call. */
  get hasFunctions(): boolean {
    return this.#asked.tools.length > 0
  }

  /** Whether the client lets the model call tools at all: some providers cannot be told that it does not. */
  get allowsCalls(): boolean {
    return this.#asked.toolChoice?.kind !== 'none'
  }

  /** Adds the model's message of a round and the results of its calls. */
  add(turn: AssistantMessage, results: readonly ToolMessage[]): void {
    this.#said.push(turn, ...results)
    for (const message of [turn, ...results]) this.#added.add(message)
  }

  /** Adds the results of calls in the client's messages, each to the last message that has its call. */
  addResults(results: readonly ToolMessage[]): void {
    const { messages } = this.#asked
    const turns = new Map<string, number>()
    for (const [at, message] of messages.entries())
      if (message.role === 'assistant') for (const { id } of message.toolCalls) turns.set(id, at)
    const byTurn = Map.groupBy(results, ({ toolCallId }) => turns.get(toolCallId))
    const all: Message[] = []
    let next = 0
    for (const [at, added] of [...byTurn].toSorted(([a = 0], [b = 0]) => a - b)) {
      let after = (at ?? -1) + 1
      while (messages[after]?.role === 'tool') after += 1
      for (; next < after; next++) all.push(messages[next]!)
      for (const result of added) all.push(result)
    }
    this.#asked = { ...this.#asked, messages: [...all, ...messages.slice(next)] }
    for (const result of results) this.#added.add(result)
  }

  /**
   * The call with the request of the next round. `maxOutputTokens` is what the earlier rounds left of the limit,
   * `searchesLeft` the same for the provider's own searches; undefined without one.
   */
  round<Call extends Pick<IncomingCall, 'request' | 'bodyBytes'>>(
    call: Call,
    maxOutputTokens: number | undefined,
    searchesLeft?: number,
  ): Call {
    // Of a search that may still be needed to read on what the ones before have found, no provider can be asked for none.
    const searches = searchesLeft === undefined ? undefined : Math.max(1, searchesLeft)
    const { webSearch } = this.#asked
    const request: ChatRequest = {
      ...this.#asked,
      messages: [...this.#asked.messages, ...this.#said],
      tools: [...this.#asked.tools, ...this.#offered],
      toolChoice: this.#toolChoice(),
      maxOutputTokens,
      ...(webSearch && searches !== undefined && { webSearch: { ...webSearch, maxUses: searches } }),
    }
    const ownChoice = this.freedom === 'asked'
    const isAdded = (param: string) => {
      if (param === 'tool_choice') return !ownChoice
      const message = /^messages\[(\d+)\]/.exec(param)
      return message !== null && this.#added.has(request.messages[Number(message[1])]!)
    }
    const added: JsonObject = {
      messages: this.#said.map(wireMessage),
      tools: this.#offered as unknown as Json[],
    }
    return {
      ...call,
      bodyBytes: call.bodyBytes + JSON.stringify(added).length,
      request: {
        ...call.request,
        envelope: { ...call.request.envelope, maxOutputTokens, ...(searches !== undefined && { searches }) },
        promptParts: joinedPrompt(
          call.request.promptParts,
          promptParts(added, { conversation: 'messages', declared: ['tools'] }),
        ),
        translated: true,
        isAdded,
        toChatRequest: () => request,
      },
    }
  }

  #toolChoice(): ToolChoice | undefined {
    const { toolChoice } = this.#asked
    if (this.freedom === 'none' || toolChoice?.kind === 'none') return { kind: 'none' }
    const names = this.#chosen()
    const own = toolChoice?.kind === 'allowed' ? toolChoice.names : []
    const mode = this.freedom === 'free' ? 'auto' : (this.#choice?.mode ?? 'auto')
    if (names.length > 0) {
      const all = [...own, ...names]
      const [only] = all
      return mode === 'required' && all.length === 1
        ? { kind: 'function', name: only! }
        : { kind: 'allowed', mode, names: all }
    }
    if (own.length === 0 && this.#choosesMissing()) return { kind: 'none' }
    if (this.freedom === 'asked') return toolChoice
    return toolChoice?.kind === 'allowed' ? { ...toolChoice, mode: 'auto' } : undefined
  }

  /** Whether it names tools that are not there, as where their server fails: no others are free to call then. */
  #choosesMissing(): boolean {
    // A search may be the provider's own.
    const isOfServers = this.#choice?.tools.every(({ kind }) => kind === 'mcp') === true
    return isOfServers && this.#asked.tools.length + this.#offered.length > 0
  }

  /** The names of the gateway tools that the client's tool choice allows. */
  #chosen(): readonly string[] {
    const selectors = this.#choice?.tools ?? []
    const allows = ({ tool: { origin } }: OfferedTool) =>
      selectors.some((selector) => {
        if (selector.kind === 'web-search') return origin.kind !== 'mcp'
        if (origin.kind !== 'mcp' || origin.serverLabel !== selector.serverLabel) return false
        return selector.tool === undefined || selector.tool === origin.tool
      })
    return this.#tools.tools.filter(allows).map(({ name }) => name)
  }

  /** A message whose gateway tool calls have the names that the tools are offered under now, and can be sent. */
  #renamed(message: Message): Message {
    if (message.role !== 'assistant' || message.toolCalls.every(({ origin }) => origin === undefined))
      return message
    const toolCalls = message.toolCalls.map((call) => {
      if (call.origin === undefined) return call
      const { name } = this.#tools.ofOrigin(call.origin) ?? call
      return { ...call, name, arguments: asObject(call.arguments) }
    })
    return { ...message, toolCalls }
  }
}

function functionOf({ name, tool }: OfferedTool): FunctionTool {
  const { description, parameters } = tool
  return { name, description, parameters, strict: undefined, cache: undefined }
}

/** A message in a shape whose tokens can be counted. */
function wireMessage(message: Message): JsonObject {
  const content = message.content.map((part): JsonObject => {
    if (part.kind === 'text' || part.kind === 'refusal') return { type: 'text', text: part.text }
    return part.kind === 'image' ? { type: 'image_url' } : { type: part.kind }
  })
  const calls =
    message.role === 'assistant'
      ? message.toolCalls.map(({ name, arguments: json }): JsonObject => ({ name, arguments: json }))
      : []
  const reasoning =
    message.role === 'assistant' ? message.reasoning.map((detail) => detail.text ?? detail.summary ?? '') : []
  return { role: message.role, content, calls, reasoning }
}
