// Arranges a conversation for Converse: separate system prompt, alternating user and assistant turns, a result for
// every call.

import type {
  AssistantMessage,
  ChatRequest,
  ContentPart,
  JsonObject,
  Message,
  ReasoningDetail,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { traitsOf } from '../claude/models.ts'
import { reasoningFormat, continuation } from '../claude/names.ts'
import { ToolIds } from '../claude/tool-ids.ts'
import { argumentsObject, refusePart, type Warn, warnOfForeignReasoning, warnOfName } from '../lowering.ts'
import type { WireNames } from '../wire-names.ts'
import { blocksOf, cachePoint } from './content.ts'
import { DocumentNames, longestName } from './names.ts'
import { isClaude } from './schema.ts'

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: JsonObject[]
}

export interface Conversation {
  readonly system: readonly JsonObject[]
  readonly turns: readonly Turn[]
}

/** Unanswered calls of the last assistant turn: client id to wire id. */
type Pending = ReadonlyMap<string, string>

interface Context {
  readonly names: WireNames
  readonly documents: DocumentNames
  readonly model: string
  readonly warn: Warn
}

/**
 * The messages as turns. Throws GatewayError `invalid_request` for a result without its call, and
 * `unsupported_parameter` for parts that Bedrock cannot take.
 */
export function conversationOf(
  request: ChatRequest,
  names: WireNames,
  model: string,
  warn: Warn,
): Conversation {
  const context: Context = { names, documents: new DocumentNames(), model, warn }
  const ids = new ToolIds(request.messages, longestName)
  const system: JsonObject[] = []
  const turns: Turn[] = []
  let pending: Pending = new Map()
  let said: { message: Message; param: string }[] = []

  const closeUserTurn = () => {
    append(turns, 'user', userContent(said, pending, context))
    said = []
    pending = new Map()
  }
  for (const [index, message] of request.messages.entries()) {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    if (message.role === 'system' || message.role === 'developer') {
      system.push(...systemBlocks(message.content, `${param}.content`, context))
    } else if (message.role === 'assistant') {
      closeUserTurn()
      pending = ids.rename(message.toolCalls, `${param}.tool_calls`)
      append(turns, 'assistant', assistantContent(message, pending, param, context))
    } else said.push({ message, param })
  }
  closeUserTurn()
  return finishConversation(system, turns, model, warn)
}

function finishConversation(system: JsonObject[], turns: Turn[], model: string, warn: Warn): Conversation {
  if (turns.length === 0) {
    if (system.length === 0) {
      throw new GatewayError('invalid_request', { message: 'No message has any content.', param: 'messages' })
    }
    warn('messages', 'A system message alone is sent as the user: the provider demands a user message.')
    return { system: [], turns: [{ role: 'user', content: system }] }
  }
  if (turns[0]!.role === 'assistant') {
    warn(
      'messages',
      `The provider demands that the user speaks first: "${opening}" is put before the greeting.`,
    )
    turns.unshift({ role: 'user', content: [{ text: opening }] })
  }
  if (turns.at(-1)!.role === 'assistant' && isClaude(model) && !traitsOf(model, false, {}).prefill) {
    warn(
      'messages',
      `This model does not go on with its own message: the user says "${continuation}" after it.`,
    )
    turns.push({ role: 'user', content: [{ text: continuation }] })
  }
  return { system, turns: turns.map(withoutTrailingSpace) }
}

/** The user message inserted before an assistant that speaks first. Blank text would be refused. */
const opening = '.'

function append(turns: Turn[], role: Turn['role'], content: JsonObject[]): void {
  if (content.length === 0) return
  const last = turns.at(-1)
  if (last?.role === role) last.content.push(...content)
  else turns.push({ role, content })
}

/** A prefilled answer may not end in white space. */
function withoutTrailingSpace(turn: Turn, index: number, all: readonly Turn[]): Turn {
  const end = turn.content.at(-1)
  if (turn.role !== 'assistant' || index < all.length - 1 || typeof end?.text !== 'string') return turn
  return { ...turn, content: [...turn.content.slice(0, -1), { text: end.text.trimEnd() }] }
}

function systemBlocks(parts: readonly ContentPart[], param: string, context: Context): JsonObject[] {
  const other = parts.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  return other === undefined
    ? blocksOf(parts, param, context.documents)
    : refusePart(other, param, 'only text')
}

// ---- user -------------------------------------------------------------------------------------------------

/** All results first, one per call, then the user's text. */
function userContent(
  said: readonly { message: Message; param: string }[],
  pending: Pending,
  { documents, warn }: Context,
): JsonObject[] {
  const results = new Map<string, { content: JsonObject[]; failed: boolean; mark: JsonObject[] }>()
  const words: JsonObject[] = []
  for (const { message, param } of said) {
    if (message.role !== 'tool') {
      words.push(...blocksOf(message.content, `${param}.content`, documents))
      continue
    }
    if (!pending.has(message.toolCallId)) {
      throw new GatewayError('invalid_request', {
        message: `No tool call with the id ${JSON.stringify(message.toolCallId)} precedes this result.`,
        param: `${param}.tool_call_id`,
      })
    }
    const blocks = blocksOf(message.content, `${param}.content`, documents)
    const known = results.get(message.toolCallId)
    const content = known?.content ?? []
    // Appended in place: copying the list for every result of a call would be quadratic.
    for (const block of blocks) if (!('cachePoint' in block)) content.push(block)
    results.set(message.toolCallId, {
      content,
      failed: message.isError || known?.failed === true,
      // Only blocks of the message itself can carry a cache mark, so one inside the result is moved to its block.
      mark: blocks.filter((block) => 'cachePoint' in block).slice(-1),
    })
  }
  for (const id of pending.keys()) {
    if (results.has(id)) continue
    warn('messages', `The tool call ${JSON.stringify(id)} has no result; the model is told so.`)
    results.set(id, { content: [{ text: 'This call was not answered.' }], failed: true, mark: [] })
  }
  const blocks = [...results].flatMap(([id, { content, failed, mark }]): JsonObject[] => [
    {
      toolResult: {
        toolUseId: pending.get(id)!,
        // Blank text is refused here too.
        content: content.length === 0 ? [{ text: '(no output)' }] : content,
        ...(failed ? { status: 'error' } : {}),
      },
    },
    ...mark,
  ])
  return [...blocks, ...words]
}

// ---- assistant --------------------------------------------------------------------------------------------

/** Reasoning first, as the API requires for a turn with calls, then the text, then the calls. */
function assistantContent(
  message: AssistantMessage,
  ids: Pending,
  param: string,
  context: Context,
): JsonObject[] {
  const { names, documents, warn } = context
  const media = message.content.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (media !== undefined) return refusePart(media, `${param}.content`, 'only text in assistant messages')
  const said = [
    ...blocksOf(message.content, `${param}.content`, documents),
    ...message.toolCalls.flatMap((call) => [
      {
        toolUse: {
          toolUseId: ids.get(call.id)!,
          name: names.of(call.name),
          input: argumentsObject(call.arguments, `${param}.tool_calls`, warn),
        },
      },
      ...cachePoint(call.cache),
    ]),
  ]
  const thought = reasoningBlocks(message.reasoning, param, context)
  if (said.length > 0 || thought.length === 0) return [...thought, ...said]
  warn(param, 'The message has nothing but reasoning and is left out.')
  return []
}

/** Claude's thinking is returned as signed. Other models accept and need none. */
function reasoningBlocks(
  details: readonly ReasoningDetail[],
  param: string,
  { model, warn }: Context,
): JsonObject[] {
  if (!isClaude(model)) return []
  const blocks = details.toSorted((a, b) => a.index - b.index).flatMap(reasoningBlock)
  warnOfForeignReasoning(details, (detail) => reasoningBlock(detail).length > 0, param, warn)
  return blocks
}

function reasoningBlock({ type, format, text, signature, data }: ReasoningDetail): JsonObject[] {
  if (format !== reasoningFormat) return []
  if (type === 'reasoning.text' && signature) {
    return [{ reasoningContent: { reasoningText: { text: text ?? '', signature } } }]
  }
  if (type === 'reasoning.encrypted' && data) {
    return [{ reasoningContent: { redactedContent: Buffer.from(data, 'utf8').toString('base64') } }]
  }
  return []
}

/**
 * Whether Claude would refuse thinking: the assistant turn to continue (the last one, if it has calls or is prefilled)
 * does not begin with its original thinking.
 */
export function lostItsThinking(turns: readonly Turn[]): boolean {
  const at = turns.findLastIndex((turn) => turn.role === 'assistant')
  const turn = turns[at]
  if (turn === undefined) return false
  const continued = at === turns.length - 1 || turn.content.some((block) => 'toolUse' in block)
  return continued && !('reasoningContent' in (turn.content[0] ?? {}))
}

/** Whether any turn contains a tool call or result, which requires tool declarations. */
export function toolsCalled(turns: readonly Turn[]): readonly string[] {
  const names = turns.flatMap((turn) =>
    turn.content.flatMap(({ toolUse }) =>
      typeof toolUse === 'object' && toolUse !== null && 'name' in toolUse ? [String(toolUse.name)] : [],
    ),
  )
  return [...new Set(names)]
}
