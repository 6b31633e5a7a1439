// Shared by the protocols whose messages are made of content blocks: Claude's, and Bedrock's, which wraps them alike.

import { z } from 'zod'
import type {
  AssistantMessage,
  ContentPart,
  JsonObject,
  Message,
  ReasoningDetail,
  ToolMessage,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Steps } from '../../json/json.ts'
import { isJson, parseJson, type Spoken } from '../lenient.ts'
import { isBlank, messagesInStep, type Warn, warnOfName } from '../lowering.ts'
import { answerTool, compactionId, continuation, reasoningFormat } from './models.ts'
import type { ToolIds } from './tools.ts'
import type { Annotation, ChatEvent, FinishReason } from '../../conversation/event.ts'
import { EventParser } from '../event-parser.ts'
import { callIdOf, mintedId } from '../names.ts'

// The conversation as both take it: turns of user and assistant by turns, a result for every call.

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: JsonObject[]
}

/** Unanswered calls of the last assistant turn: client id to wire id. */
export type Pending = ReadonlyMap<string, string>

/** A message with its path in errors and warnings. */
interface PlacedMessage {
  readonly message: Message
  readonly param: string
}

/** How a protocol writes the blocks of each role. */
export interface BlockWriter {
  system(parts: readonly ContentPart[], param: string): JsonObject[]
  /** What the user said, and the results of the calls before it. */
  user(said: readonly PlacedMessage[], pending: Pending): JsonObject[]
  assistant(message: AssistantMessage, ids: Pending, param: string): JsonObject[]
}

/**
 * The messages as turns, and the blocks of the system prompt. A system prompt alone becomes the user's. Throws
 * GatewayError `invalid_request` for a conversation without content.
 */
export function* turnsOf(
  messages: readonly Message[],
  ids: ToolIds,
  writer: BlockWriter,
  warn: Warn,
): Steps<{ system: JsonObject[]; turns: Turn[] }> {
  const system: JsonObject[] = []
  const turns: Turn[] = []
  let pending: Pending = new Map()
  let said: PlacedMessage[] = []
  const add = (role: Turn['role'], content: JsonObject[]) => {
    if (content.length === 0) return
    const last = turns.at(-1)
    if (last?.role === role) last.content.push(...content)
    else turns.push({ role, content })
  }
  const endUserTurn = () => {
    add('user', writer.user(said, pending))
    said = []
    pending = new Map()
  }
  for (const [index, message] of messages.entries()) {
    if (index % messagesInStep === messagesInStep - 1) yield
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    if (message.role === 'system' || message.role === 'developer') {
      system.push(...writer.system(message.content, `${param}.content`))
    } else if (message.role === 'assistant') {
      endUserTurn()
      pending = ids.rename(message.toolCalls, `${param}.tool_calls`)
      add('assistant', writer.assistant(message, pending, param))
    } else said.push({ message, param })
  }
  endUserTurn()
  if (turns.length > 0) return { system, turns }
  if (system.length === 0) {
    throw new GatewayError('invalid_request', { message: 'No message has any content.', param: 'messages' })
  }
  warn('messages', 'A system message alone is sent as the user: the provider demands a user message.')
  return { system: [], turns: [{ role: 'user', content: system }] }
}

/**
 * Ends the conversation as the API demands: an answer to be continued has no white space at its end, and a model that
 * continues none is asked to by the user. `textBlock`: how the protocol writes a text.
 */
export function endTurns(
  turns: Turn[],
  continues: 'continues' | 'must-be-asked',
  textBlock: (text: string) => JsonObject,
  warn: Warn,
): void {
  const last = turns.at(-1)!
  if (last.role !== 'assistant') return
  if (continues === 'must-be-asked') {
    warn(
      'messages',
      `This model does not go on with its own message: the user says "${continuation}" after it.`,
    )
    turns.push({ role: 'user', content: [textBlock(continuation)] })
    return
  }
  const end = last.content.at(-1)!
  if (typeof end.text === 'string')
    last.content[last.content.length - 1] = { ...end, text: end.text.trimEnd() }
}

/** The wire id of the call that a result is for. Throws GatewayError `invalid_request` if there is none. */
export function answeredCallId({ toolCallId }: ToolMessage, pending: Pending, param: string): string {
  const id = pending.get(toolCallId)
  if (id !== undefined) return id
  throw new GatewayError('invalid_request', {
    message: `No tool call with the id ${JSON.stringify(toolCallId)} precedes this result.`,
    param: `${param}.tool_call_id`,
  })
}

/** What the model reads in place of a result that is missing. */
export const missingResult = 'This call was not answered.'

/** The wire ids of the calls without a result, each with a warning. */
export function unansweredIds(
  pending: Pending,
  answered: { has(id: string): boolean },
  warn: Warn,
): string[] {
  const unanswered: string[] = []
  for (const [given, id] of pending) {
    if (answered.has(id)) continue
    warn('messages', `The tool call ${JSON.stringify(given)} has no result; the model is told so.`)
    unanswered.push(id)
  }
  return unanswered
}

/** The stop sequences that the API accepts: it refuses those of white space. */
export function stopsWithText(stops: readonly string[] = [], warn: Warn): string[] {
  const kept = stops.filter((stop) => !isBlank(stop))
  if (kept.length < stops.length)
    warn('stop', 'The provider refuses stop sequences of white space; they are left out.')
  return kept
}

/** The assistant turn that the model is to continue: the last one, if it has calls or is prefilled. */
export function turnToContinue(
  turns: readonly Turn[],
  isCall: (block: JsonObject) => boolean,
): Turn | undefined {
  const at = turns.findLastIndex((turn) => turn.role === 'assistant')
  return at === turns.length - 1 || turns[at]?.content.some(isCall) ? turns[at] : undefined
}

// Carries reasoning of any provider inside Anthropic's thinking blocks; what the protocol has no field for goes into
// the signature.

/**
 * Marks signatures that we generated. Clients return signatures unread, so another provider's detail comes back
 * complete and is never sent to Anthropic as its own.
 */
const prefix = 'weir.'

const carriedSchema = z.object({
  type: z.enum(['reasoning.text', 'reasoning.summary', 'reasoning.encrypted']),
  format: z.string().nullable(),
  id: z.string().optional(),
  signature: z.string().optional(),
  data: z.string().optional(),
  /** Of a client that was not shown the text. */
  text: z.string().optional(),
})

/** The readable part of a detail. */
export function thinkingText(detail: ReasoningDetail): string {
  return detail.text ?? detail.summary ?? ''
}

export function blockOfDetail(detail: ReasoningDetail): JsonObject {
  if (detail.format === reasoningFormat && detail.type === 'reasoning.encrypted') {
    return { type: 'redacted_thinking', data: detail.data ?? '' }
  }
  if (detail.type === 'reasoning.summary' && detail.id === compactionId) {
    return { type: 'compaction', content: detail.summary ?? '' }
  }
  return { type: 'thinking', thinking: thinkingText(detail), signature: signatureOf(detail) }
}

/** The signature to send: Anthropic's own, or ours containing another provider's detail. */
export function signatureOf(detail: ReasoningDetail): string {
  return detail.format === reasoningFormat ? (detail.signature ?? '') : carriedSignature(detail)
}

/** Our own signature, containing all of a detail except its readable text; `hidden` is text that it contains as well. */
export function carriedSignature(detail: ReasoningDetail, hidden?: string): string {
  const { type, format, id, signature, data } = detail
  const carried = {
    type,
    format,
    ...(id == null ? {} : { id }),
    ...(signature == null ? {} : { signature }),
    ...(data === undefined ? {} : { data }),
    ...(hidden === undefined ? {} : { text: hidden }),
  }
  return prefix + Buffer.from(JSON.stringify(carried)).toString('base64url')
}

/** Whether we generated the signature: Anthropic would refuse it. */
export function isCarried(signature: string): boolean {
  return signature.startsWith(prefix)
}

/** The detail of a client's `thinking` block; `index` is its position in the turn's reasoning. */
export function detailOfThinking(thinking: string, signature: string, index: number): ReasoningDetail {
  const carried = isCarried(signature) ? carriedIn(signature.slice(prefix.length)) : undefined
  if (carried === undefined) {
    return { type: 'reasoning.text', format: reasoningFormat, index, text: thinking, signature }
  }
  const { text: hidden, ...rest } = carried
  const said = hidden ?? thinking
  const readable = carried.type === 'reasoning.summary' ? { summary: said } : { text: said }
  return { ...rest, index, ...(carried.type === 'reasoning.encrypted' ? {} : readable) }
}

function carriedIn(encoded: string): z.infer<typeof carriedSchema> | undefined {
  return carriedSchema.safeParse(parseJson(Buffer.from(encoded, 'base64url').toString('utf8'))).data
}

// Parses answers that are made of content blocks: Claude's, and those of Bedrock, whose blocks are alike.

/** A block that has started but not stopped. */
type OpenBlock =
  | OpenText
  | { readonly kind: 'reasoning'; readonly index: number }
  | { readonly kind: 'call'; readonly call: number; json: string; readonly input: unknown }
  /** A call of the tool that carries a structured answer: its arguments become the text. */
  | { readonly kind: 'answer'; json: string; readonly input: unknown }
  /** A call of the provider's own search, to be returned with the next turn. */
  | { readonly kind: 'search'; readonly id: string; json: string; readonly input: unknown }
  /** A call of another tool of the provider, which the client must not answer. */
  | { readonly kind: 'foreign' }

interface OpenText {
  readonly kind: 'text'
  /** Where it begins in the answer's text: citations count per block, annotations per answer. */
  readonly start: number
  readonly citations: unknown[]
}

type Finish = Extract<ChatEvent, { kind: 'choice-finish' }>

export abstract class BlockParser<WireEvent> extends EventParser<WireEvent> {
  /** By the provider's index. */
  protected readonly open = new Map<number, OpenBlock>()
  /** What ids of calls are made from: the answer's own id, where it has one. */
  protected seed: string = crypto.randomUUID()
  /** The index of the next reasoning detail. */
  protected nextReasoning = 0
  readonly #callIds = new Set<string>()
  /** Whether the arguments of a call are not JSON, because the token limit cut it. */
  #hasBrokenCall = false
  #hasAnswered = false

  /** What has come: a piece of a thought is as little to be lost as one of a call, since its signature is of all. */
  protected get spoken(): Spoken {
    const isOpen = ({ kind }: OpenBlock) => kind !== 'text'
    if (this.#callIds.size > 0 || this.#hasAnswered || this.open.values().some(isOpen)) return 'calls'
    return this.textLength > 0 ? 'words' : 'nothing'
  }

  /** Begins a text block, unless one is open at this index. */
  protected openText(index: number, citations: readonly unknown[] = []): OpenText {
    const open = this.open.get(index)
    if (open?.kind === 'text') return open
    const text: OpenText = { kind: 'text', start: this.textLength, citations: [...citations] }
    this.open.set(index, text)
    return text
  }

  /** Begins a block of reasoning. Returns the index of its detail. */
  protected openReasoning(index: number): number {
    const at = this.nextReasoning++
    this.open.set(index, { kind: 'reasoning', index: at })
    return at
  }

  protected addReasoning(detail: ReasoningDetail): void {
    this.emit({ kind: 'reasoning-delta', choice: 0, detail })
  }

  /** Begins a call. `given`: the provider's id of it, where it gave one. */
  protected openCall(index: number, given: string, name: string, input: unknown): void {
    if (name === answerTool) {
      // A second answer behind the first would be no JSON.
      this.open.set(index, this.#hasAnswered ? { kind: 'foreign' } : { kind: 'answer', json: '', input })
      this.#hasAnswered = true
      return
    }
    if (name === '') return this.fail('a tool call has no name')
    const call = this.#callIds.size
    const id = callIdOf(given, this.#callIds, () => mintedId(this.seed, call))
    this.open.set(index, { kind: 'call', call, json: '', input })
    this.emit({ kind: 'tool-call-start', choice: 0, call, id, name, thoughtSignature: undefined })
  }

  /** Adds a piece of a call's arguments. */
  protected addInput(index: number, piece: string): void {
    const open = this.open.get(index)
    if (piece === '' || open === undefined || !('json' in open)) return
    open.json += piece
    if (open.kind === 'answer') this.addText(piece)
    else if (open.kind === 'call') this.#addArguments(open.call, piece)
  }

  /** Ends a block. Returns it; undefined if none was open. */
  protected close(index: number): OpenBlock | undefined {
    const open = this.open.get(index)
    this.open.delete(index)
    if (open?.kind === 'call') {
      if (open.json === '') this.#addArguments(open.call, inputText(open.input))
      else if (!isJson(open.json)) this.#hasBrokenCall = true
    } else if (open?.kind === 'answer' && open.json === '') this.addText(inputText(open.input))
    return open
  }

  protected annotate(annotations: readonly Annotation[]): void {
    for (const annotation of annotations) this.emit({ kind: 'annotation', choice: 0, annotation })
  }

  /** Ends the answer. `native`: the provider's word for the reason. */
  protected finishWith(reason: FinishReason, native: string, more: Partial<Finish>): void {
    this.emit({ kind: 'choice-finish', choice: 0, reason: this.#reasonFor(reason), native, ...more })
    this.finish()
  }

  /** Calls must be answered whatever the reason; only the token limit, or an end we do not know, can have cut one off. */
  #reasonFor(reason: FinishReason): FinishReason {
    if (this.#callIds.size === 0 || reason === 'content_filter') return reason
    // A client that ran a call with truncated arguments would fail; reporting the limit explains why.
    const isCut = this.#hasBrokenCall || this.open.values().some(({ kind }) => kind === 'call')
    return (reason === 'length' || reason === 'other') && isCut ? reason : 'tool_calls'
  }

  #addArguments(call: number, json: string): void {
    this.emit({ kind: 'tool-call-delta', choice: 0, call, arguments: json })
  }
}

/** The input of a call whose arguments did not come in pieces. */
function inputText(input: unknown): string {
  return typeof input === 'object' && input !== null ? JSON.stringify(input) : '{}'
}
