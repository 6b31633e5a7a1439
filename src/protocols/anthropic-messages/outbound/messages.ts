// Arranges a conversation for the API: one system prompt, alternating user and assistant turns, a result for every
// call.

import type {
  AssistantMessage,
  ContentPart,
  Json,
  JsonObject,
  MediaSource,
  Message,
  ReasoningDetail,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { compactionId, continuation, type ModelTraits, reasoningFormat } from '../../claude/models.ts'
import { begunWork, isWork, ToolIds, workBlocks } from '../../claude/tools.ts'
import { isObject, parseToolJson } from '../../lenient.ts'
import { isBlank, type Warn, warnOfName } from '../../lowering.ts'
import { cacheControl } from './schema.ts'

export interface Turn {
  readonly role: 'user' | 'assistant'
  readonly content: JsonObject[]
}

interface Conversation {
  readonly system: Json | undefined
  readonly turns: readonly Turn[]
}

/** Unanswered calls of the last assistant turn: client id to wire id. */
type Pending = ReadonlyMap<string, string>

/**
 * The messages as turns. Throws GatewayError `invalid_request` for a result without its call, and
 * `unsupported_parameter` for parts Claude cannot take. `compaction`: whether compaction blocks may go back;
 * `searches`: whether what Anthropic's search has found may.
 */
export function conversationOf(
  messages: readonly Message[],
  { compaction, searches }: Pick<AssistantContext, 'compaction' | 'searches'>,
  { prefill }: Pick<ModelTraits, 'prefill'>,
  warn: Warn,
): Conversation {
  const ids = new ToolIds(messages, Number.POSITIVE_INFINITY)
  const system: JsonObject[] = []
  const turns: Turn[] = []
  let pending: Pending = new Map()
  let said: { message: Message; param: string }[] = []

  const closeUserTurn = () => {
    const content = userContent(said, pending, warn)
    if (content.length > 0) append(turns, 'user', content)
    said = []
    pending = new Map()
  }
  messages.forEach((message, index) => {
    const param = `messages[${index}]`
    warnOfName(message, param, warn)
    switch (message.role) {
      case 'system':
      case 'developer':
        system.push(...textBlocksOf(message.content, `${param}.content`))
        return
      case 'user':
      case 'tool':
        said.push({ message, param })
        return
      case 'assistant': {
        closeUserTurn()
        pending = ids.rename(message.toolCalls, `${param}.tool_calls`)
        const content = assistantContent(message, pending, { param, compaction, searches, warn })
        if (content.length > 0) append(turns, 'assistant', content)
        return
      }
      default:
        message satisfies never
    }
  })
  closeUserTurn()
  const last = messages.at(-1)
  const paused = last?.role === 'assistant' && last.paused === true
  return finishConversation(system, turns, prefill || paused, warn)
}

function append(turns: Turn[], role: Turn['role'], content: JsonObject[]): void {
  const last = turns.at(-1)
  if (last?.role === role) last.content.push(...content)
  else turns.push({ role, content })
}

function finishConversation(system: JsonObject[], turns: Turn[], prefill: boolean, warn: Warn): Conversation {
  if (turns.length === 0) {
    if (system.length === 0) {
      throw new GatewayError('invalid_request', { message: 'No message has any content.', param: 'messages' })
    }
    warn('messages', 'A system message alone is sent as the user: the provider demands a user message.')
    return { system: undefined, turns: [{ role: 'user', content: system }] }
  }
  const last = turns.at(-1)!
  if (last.role === 'assistant' && !prefill) {
    warn(
      'messages',
      `This model does not go on with its own message: the user says "${continuation}" after it.`,
    )
    return {
      system: systemOf(system),
      turns: [...turns, { role: 'user', content: [{ type: 'text', text: continuation }] }],
    }
  }
  const end = last.content.at(-1)!
  // The API refuses a prefilled answer that ends in white space.
  if (last.role === 'assistant' && typeof end.text === 'string') {
    last.content[last.content.length - 1] = { ...end, text: end.text.trimEnd() }
  }
  return { system: systemOf(system), turns }
}

/** A plain string like the client's, unless a cache mark must stay with its block. */
function systemOf(blocks: readonly JsonObject[]): Json | undefined {
  if (blocks.length === 0) return undefined
  if (blocks.some((block) => 'cache_control' in block)) return [...blocks]
  return blocks.map((block) => block.text).join('\n')
}

// ---- user -------------------------------------------------------------------------------------------------

/** All results first, one per call, then the user's text. */
function userContent(
  said: readonly { message: Message; param: string }[],
  pending: Pending,
  warn: Warn,
): JsonObject[] {
  const results = new Map<string, JsonObject>()
  const words: JsonObject[] = []
  for (const { message, param } of said) {
    if (message.role !== 'tool') {
      words.push(...blocksOf(message.content, `${param}.content`))
      continue
    }
    const id = pending.get(message.toolCallId)
    if (id === undefined) {
      throw new GatewayError('invalid_request', {
        message: `No tool call with the id ${JSON.stringify(message.toolCallId)} precedes this result.`,
        param: `${param}.tool_call_id`,
      })
    }
    results.set(id, resultBlock(message, id, results.get(id), `${param}.content`))
  }
  for (const [given, id] of pending) {
    if (results.has(id)) continue
    warn('messages', `The tool call ${JSON.stringify(given)} has no result; the model is told so.`)
    results.set(id, {
      type: 'tool_result',
      tool_use_id: id,
      content: 'This call was not answered.',
      is_error: true,
    })
  }
  return [...results.values(), ...words]
}

/** A result. A second one for the same call is merged into the first, because the API takes only one. */
function resultBlock(
  message: ToolMessage,
  id: string,
  before: JsonObject | undefined,
  param: string,
): JsonObject {
  const mark = message.content.findLast((part) => 'cache' in part && part.cache !== undefined)
  const content = blocksOf(message.content, param).map(unmarkBlock)
  const all = Array.isArray(before?.content) ? before.content : []
  // Appended in place: copying the list for every result of a call would be quadratic.
  for (const block of content) all.push(block)
  return {
    type: 'tool_result',
    tool_use_id: id,
    ...(all.length === 0 ? {} : { content: all }),
    ...(message.isError || before?.is_error === true ? { is_error: true } : {}),
    // Only blocks of the message itself can carry a cache mark, so one inside the result is moved to its block.
    ...(mark !== undefined && 'cache' in mark ? cacheControl(mark.cache) : {}),
  }
}

function unmarkBlock(block: JsonObject): JsonObject {
  const copy = { ...block }
  delete copy.cache_control
  return copy
}

// ---- assistant --------------------------------------------------------------------------------------------

interface AssistantContext {
  readonly param: string
  readonly compaction: boolean
  readonly searches: boolean
  readonly warn: Warn
}

/** Reasoning first, as the API requires for a turn with calls, then the text, then the calls. */
function assistantContent(message: AssistantMessage, ids: Pending, context: AssistantContext): JsonObject[] {
  const { param, warn } = context
  const media = message.content.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (media !== undefined) {
    throw new GatewayError('unsupported_parameter', {
      message: `This model's provider takes no ${media.kind} in assistant messages.`,
      param: `${param}.content`,
    })
  }
  const said = [
    ...blocksOf(message.content, `${param}.content`),
    ...message.toolCalls.map((call) => ({
      type: 'tool_use',
      id: ids.get(call.id)!,
      name: call.name,
      input: inputOf(call.arguments, `${param}.tool_calls`, warn),
      ...cacheControl(call.cache),
    })),
  ]
  const thought = reasoningBlocks(
    message.reasoning.filter((detail) => !isWork(detail)),
    context,
  )
  // The API accepts them only together with the tool; without it, the text based on them stays.
  const work = context.searches ? workBlocks(message.reasoning) : []
  // A paused turn continues from its last block, which may be a search without a result.
  if (message.paused) return [...thought, ...work, ...said, ...begunWork(message.reasoning)]
  if (said.length > 0) thought.push(...work)
  if (said.length > 0 || thought.length === 0) return [...thought, ...said]
  // The API refuses a turn that ends in thinking.
  warn(param, 'The message has nothing but reasoning and is left out.')
  return []
}

function reasoningBlocks(details: readonly ReasoningDetail[], context: AssistantContext): JsonObject[] {
  const ordered = details.toSorted((a, b) => a.index - b.index)
  const blocks = ordered.map((detail) => reasoningBlock(detail, context.compaction))
  if (blocks.includes(undefined)) {
    context.warn(
      `${context.param}.reasoning_details`,
      'Reasoning that this provider did not sign cannot go back to it and is left out.',
    )
  }
  return blocks.filter((block) => block !== undefined)
}

/** The original block of a detail, byte for byte; undefined for details of other protocols. */
function reasoningBlock(detail: ReasoningDetail, compaction: boolean): JsonObject | undefined {
  if (detail.format !== reasoningFormat) return undefined
  if (detail.type === 'reasoning.text' && detail.signature) {
    return { type: 'thinking', thinking: detail.text ?? '', signature: detail.signature }
  }
  if (detail.type === 'reasoning.encrypted' && detail.data) {
    return { type: 'redacted_thinking', data: detail.data }
  }
  if (detail.type === 'reasoning.summary' && detail.id === compactionId && compaction) {
    return { type: 'compaction', content: detail.summary ?? '' }
  }
  return undefined
}

function inputOf(text: string, param: string, warn: Warn): JsonObject {
  if (isBlank(text)) return {}
  const input = parseToolJson(text)
  if (isObject(input)) return input
  // The API only takes objects, and the model should see what it wrote.
  warn(param, 'The arguments of a call are not a JSON object; the model is shown their text.')
  return { invalid_arguments: text }
}

/**
 * Whether the API would refuse thinking: the assistant turn to continue (the last one, if it has calls or is
 * prefilled) does not begin with its original thinking.
 */
export function lostItsThinking(turns: readonly Turn[]): boolean {
  const at = turns.findLastIndex((turn) => turn.role === 'assistant')
  const turn = turns[at]
  if (turn === undefined) return false
  const continued = at === turns.length - 1 || turn.content.some((block) => block.type === 'tool_use')
  const first = turn.content.find((block) => block.type !== 'compaction')?.type
  return continued && first !== 'thinking' && first !== 'redacted_thinking'
}

// Translates parts of a message to content blocks.

type Part<K extends ContentPart['kind']> = Extract<ContentPart, { kind: K }>

/**
 * The blocks of these parts, in order. Blank text is dropped because the API refuses it. `param` names the message in
 * errors. Throws GatewayError `unsupported_parameter` for media that Claude does not accept.
 */
function blocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  return parts.flatMap((part): JsonObject[] => {
    switch (part.kind) {
      case 'text':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text, ...cacheControl(part.cache) }]
      case 'refusal':
        return isBlank(part.text) ? [] : [{ type: 'text', text: part.text }]
      case 'image':
        return [imageBlock(part, param)]
      case 'file':
        return [fileBlock(part, param)]
      case 'audio':
      case 'video':
        throw new GatewayError('unsupported_parameter', {
          message: `This model's provider takes no ${part.kind}.`,
          param,
        })
      default:
        return part satisfies never
    }
  })
}

/** Text blocks for parts that must all be text (system messages). Throws for any other part. */
function textBlocksOf(parts: readonly ContentPart[], param: string): JsonObject[] {
  const other = parts.find((part) => part.kind !== 'text' && part.kind !== 'refusal')
  if (other !== undefined) {
    throw new GatewayError('unsupported_parameter', {
      message: `This model's provider takes only text here, not ${other.kind}.`,
      param,
    })
  }
  return blocksOf(parts, param)
}

const imageTypes: ReadonlySet<string> = new Set(['image/jpeg', 'image/png', 'image/gif', 'image/webp'])

function imageBlock({ source, cache }: Part<'image' | 'file'>, param: string): JsonObject {
  const stated = mediaTypeOf(source)
  // Some clients send the file extension as the type.
  const mediaType = stated === 'image/jpg' ? 'image/jpeg' : stated
  if (mediaType !== undefined && !imageTypes.has(mediaType)) {
    throw new GatewayError('unsupported_parameter', {
      message: `This model's provider takes JPEG, PNG, GIF and WebP images, not ${mediaType}.`,
      param,
    })
  }
  const wire = sourceOf(source)
  return {
    type: 'image',
    source: mediaType === undefined ? wire : { ...wire, media_type: mediaType },
    ...cacheControl(cache),
  }
}

/** The media type in lower case and without parameters; undefined for an address. */
function mediaTypeOf(source: MediaSource): string | undefined {
  return source.kind === 'base64' ? source.mediaType.split(';')[0]!.trim().toLowerCase() : undefined
}

function fileBlock(part: Part<'file'>, param: string): JsonObject {
  const { source } = part
  const mediaType = mediaTypeOf(source)
  if (mediaType?.startsWith('image/')) return imageBlock(part, param)
  return {
    type: 'document',
    source: documentSource(source, mediaType, param),
    ...(part.filename === undefined ? {} : { title: part.filename }),
    ...(part.context === undefined ? {} : { context: part.context }),
    ...cacheControl(part.cache),
  }
}

function documentSource(source: MediaSource, mediaType: string | undefined, param: string): JsonObject {
  if (source.kind !== 'base64' || mediaType === 'application/pdf') return sourceOf(source)
  if (mediaType?.startsWith('text/') || mediaType === 'application/json') {
    // The document block only has plain text.
    return {
      type: 'text',
      media_type: 'text/plain',
      data: Buffer.from(source.data, 'base64').toString('utf8'),
    }
  }
  throw new GatewayError('unsupported_parameter', {
    message: `This model's provider takes PDF, text and image files, not ${source.mediaType}.`,
    param,
  })
}

function sourceOf(source: MediaSource): JsonObject {
  switch (source.kind) {
    case 'url':
      return { type: 'url', url: source.url }
    case 'base64':
      return { type: 'base64', media_type: source.mediaType, data: source.data }
    case 'provider-file':
      return { type: 'file', file_id: source.id }
    default:
      return source satisfies never
  }
}
