// The conversation of a call whose tools the gateway runs: the client's messages and every round since.

import {
  type BlockedPrompt,
  type CollectedCall,
  type FinishReason,
  joinReasoning,
} from '../../conversation/event.ts'
import { type DeclaredTools, type GatewayChoice, webTools } from '../../conversation/gateway-tools.ts'
import type { ContentEvent } from '../../conversation/delivered.ts'
import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  FunctionTool,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
  ToolCall,
  ToolChoice,
  ToolMessage,
  TurnMessage,
} from '../../conversation/request.ts'
import type { CallGuard } from '../../guards/guards.ts'
import { isObject, parseJson } from '../../protocols/lenient.ts'
import { joinedPrompt, promptParts } from '../../protocols/request/prompt-parts.ts'
import type { CallTools, OfferedTool } from '../../tools/tool.ts'
import type { IncomingCall } from '../call.ts'

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
  #offered: readonly FunctionTool[]
  readonly #said: Message[] = []
  /** All messages that are not the client's own. */
  readonly #added = new Set<Message>()
  freedom: Freedom = 'asked'

  constructor(asked: ChatRequest, tools: CallTools, declared: Pick<DeclaredTools, 'choice'>) {
    this.#tools = tools
    this.#choice = declared.choice
    this.#offered = tools.tools.map(functionOf)
    this.#asked = { ...asked, messages: asked.messages.map((message) => this.#rename(message)) }
  }

  /** What servers say of their tools is shown to the model as the guards leave it. Rejects as `check` does. */
  async guardOffered(guard: CallGuard): Promise<void> {
    this.#offered = (await guard.check('request', this.#offered)).value
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
    const names = this.#toolsInDemand()
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
  #toolsInDemand(): readonly string[] {
    const selectors = this.#choice?.tools ?? []
    const allows = ({ tool: { origin } }: OfferedTool) =>
      selectors.some((selector) => {
        if (selector.kind !== 'mcp')
          return origin.kind !== 'mcp' && webTools[origin.kind].declared === selector.kind
        if (origin.kind !== 'mcp' || origin.serverLabel !== selector.serverLabel) return false
        return selector.tool === undefined || selector.tool === origin.tool
      })
    return this.#tools.tools.filter(allows).map(({ name }) => name)
  }

  /** A message whose gateway tool calls have the names that the tools are offered under now, and can be sent. */
  #rename(message: Message): Message {
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

// Merges the events of one round into an answer of several: takes out gateway tool calls and continues the numbering
// of the earlier rounds.

/** The size of the answer so far, for numbering the next event of each kind. */
export interface AnswerSoFar {
  /** UTF-16 units. */
  text: number
  reasoning: number
  /** Calls of the client's functions. */
  calls: number
  /** Calls of the gateway's tools. */
  runs: number
}

export interface CalledTool extends CollectedCall {
  readonly offered: OfferedTool
}

interface Draft extends CollectedCall {
  arguments: string
  /** undefined for a call of the client's function. */
  readonly offered: OfferedTool | undefined
  /** Its index in the answer, if the client sees it. */
  readonly number: number
}

export class RoundEvents {
  readonly #tools: Pick<CallTools, 'toolNamed'>
  readonly #answer: AnswerSoFar
  readonly #forward: (event: ContentEvent) => void
  readonly #before: Readonly<AnswerSoFar>
  readonly #calls = new Map<number, Draft>()
  readonly #reasoning = new Map<number, ReasoningDetail>()
  #text = ''
  /** The texts of the messages that it is of. */
  readonly #said: { text: string; message: TurnMessage | undefined }[] = []
  #reason: FinishReason | undefined
  #native = ''
  #stopSequence: string | undefined
  #paused = false
  #blockedPrompt: BlockedPrompt | undefined

  /** `answer` advances with every event passed to `forward`. */
  constructor(
    tools: Pick<CallTools, 'toolNamed'>,
    answer: AnswerSoFar,
    forward: (event: ContentEvent) => void,
  ) {
    this.#tools = tools
    this.#answer = answer
    this.#forward = forward
    this.#before = { ...answer }
  }

  take(event: ContentEvent): void {
    // Several answers and gateway tools cannot be requested together.
    if (event.choice !== 0) return
    switch (event.kind) {
      case 'text-delta':
        this.#text += event.text
        this.#say(event)
        this.#answer.text += event.text.length
        return this.#forward(event)
      case 'reasoning-delta':
        return this.#takeReasoning(event)
      case 'tool-call-start':
        return this.#beginCall(event)
      case 'tool-call-delta': {
        const call = this.#calls.get(event.call)
        if (!call) return
        call.arguments += event.arguments
        if (!call.offered) this.#forward({ ...event, call: call.number })
        return
      }
      case 'annotation': {
        const { start, end } = event.annotation
        const moved = { start: start + this.#before.text, end: end + this.#before.text }
        return this.#forward({ ...event, annotation: { ...event.annotation, ...moved } })
      }
      case 'choice-finish':
        this.#reason = event.reason
        this.#native = event.native
        this.#stopSequence = event.stopSequence
        this.#paused = event.paused === true
        this.#blockedPrompt = event.blockedPrompt
        return
      default:
        this.#forward(event)
    }
  }

  /** Why the model stopped, and the provider's own term for it. */
  get reason(): FinishReason | undefined {
    return this.#reason
  }

  get native(): string {
    return this.#native
  }

  get stopSequence(): string | undefined {
    return this.#stopSequence
  }

  /** Whether the provider continues when its message is sent back; not if it calls tools and waits for results. */
  get paused(): boolean {
    return this.#paused && this.#calls.size === 0
  }

  /** The prompt was refused; undefined in a later round, whose prompt has parts of the answer. */
  get blockedPrompt(): BlockedPrompt | undefined {
    const { text, reasoning, runs } = this.#before
    return text + reasoning + runs === 0 ? this.#blockedPrompt : undefined
  }

  get text(): string {
    return this.#text
  }

  /** The length of the answer's text before this round, UTF-16 units. */
  get textBefore(): number {
    return this.#before.text
  }

  get gatewayCalls(): readonly CalledTool[] {
    return [...this.#calls.values()].flatMap(({ offered, ...call }) =>
      offered === undefined ? [] : [{ ...call, arguments: argumentsOf(call), offered }],
    )
  }

  get callsClient(): boolean {
    return [...this.#calls.values()].some(({ offered }) => offered === undefined)
  }

  /** The model's message, for the next round. */
  message(): AssistantMessage {
    const content = this.#said.map(({ text, message }): ContentPart => ({
      kind: 'text',
      text,
      cache: undefined,
      ...(message && { message }),
    }))
    const toolCalls = [...this.#calls.values()].map((call): ToolCall => ({
      id: call.id,
      name: call.name,
      arguments: call.offered ? asObject(argumentsOf(call)) : argumentsOf(call),
      thoughtSignature: call.thoughtSignature,
    }))
    const reasoning = [...this.#reasoning.values()]
    return { role: 'assistant', content, reasoning, toolCalls, ...(this.paused && { paused: true }) }
  }

  #say({ text, message }: Extract<ContentEvent, { kind: 'text-delta' | 'refusal-delta' }>): void {
    const last = this.#said.at(-1)
    if (last && last.message?.at === message?.at) {
      last.text += text
      // Its phase may be known only after its text.
      last.message = message
    } else if (text !== '') this.#said.push({ text, message })
  }

  #takeReasoning(event: Extract<ContentEvent, { kind: 'reasoning-delta' }>): void {
    const { detail } = event
    this.#reasoning.set(detail.index, joinReasoning(this.#reasoning.get(detail.index), detail))
    const index = this.#before.reasoning + detail.index
    this.#answer.reasoning = Math.max(this.#answer.reasoning, index + 1)
    this.#forward({ ...event, detail: { ...detail, index } })
  }

  #beginCall(event: Extract<ContentEvent, { kind: 'tool-call-start' }>): void {
    const { id, name, thoughtSignature } = event
    const offered = this.#tools.toolNamed(name)
    const number = offered ? -1 : this.#answer.calls++
    this.#calls.set(event.call, { id, name, thoughtSignature, arguments: '', offered, number })
    if (!offered) this.#forward({ ...event, call: number })
  }
}

/** A call without arguments gets an empty object. */
function argumentsOf({ arguments: json }: { readonly arguments: string }): string {
  return json.trim() === '' ? '{}' : json
}

/** The arguments of a call that the gateway has run, for the next request: servers that parse them refuse any other. */
function asObject(json: string): string {
  return isObject(parseJson(json)) ? json : JSON.stringify({ invalid_arguments: json })
}
