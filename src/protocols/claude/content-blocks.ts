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
import { parseJson } from '../lenient.ts'
import { isBlank, messagesInStep, type Warn, warnOfName } from '../lowering.ts'
import { compactionId, continuation, reasoningFormat } from './models.ts'
import type { ToolIds } from './tools.ts'

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
