// Merges the events of one round into an answer of several: takes out gateway tool calls and continues the numbering
// of the earlier rounds.

import {
  type BlockedPrompt,
  type CollectedCall,
  type FinishReason,
  joinReasoning,
} from '../../conversation/event.ts'
import type { ContentEvent } from '../../conversation/progress.ts'
import type {
  AssistantMessage,
  ContentPart,
  ReasoningDetail,
  ToolCall,
  TurnMessage,
} from '../../conversation/request.ts'
import { isObject, parseJson } from '../../protocols/json.ts'
import type { CallTools } from '../../tools/call-tools.ts'
import type { OfferedTool } from '../../tools/names.ts'

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
export function asObject(json: string): string {
  return isObject(parseJson(json)) ? json : JSON.stringify({ invalid_arguments: json })
}
