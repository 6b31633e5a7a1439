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
import {
  answeredCallId,
  type BlockWriter,
  endTurns,
  missingResult,
  type Pending,
  type Turn,
  turnsOf,
  turnToContinue,
  unansweredIds,
} from '../../claude/content-blocks.ts'
import { compactionId, type ModelTraits, reasoningFormat } from '../../claude/models.ts'
import { begunWork, isWork, ToolIds, workBlocks } from '../../claude/tools.ts'
import { isObject, parseToolJson } from '../../lenient.ts'
import { isBlank, type Warn } from '../../lowering.ts'
import { cacheControl } from './schema.ts'

interface Conversation {
  readonly system: Json | undefined
  readonly turns: readonly Turn[]
}

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
  const writer: BlockWriter = {
    system: textBlocksOf,
    user: (said, pending) => userContent(said, pending, warn),
    assistant: (message, ids, param) => assistantContent(message, ids, { param, compaction, searches, warn }),
  }
  const ids = new ToolIds(messages, Number.POSITIVE_INFINITY)
  const { system, turns } = turnsOf(messages, ids, writer, warn)
  const last = messages.at(-1)
  const paused = last?.role === 'assistant' && last.paused === true
  endTurns(turns, prefill || paused ? 'continues' : 'must-be-asked', (text) => ({ type: 'text', text }), warn)
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
    const id = answeredCallId(message, pending, param)
    results.set(id, resultBlock(message, id, results.get(id), `${param}.content`))
  }
  for (const id of unansweredIds(pending, results, warn)) {
    results.set(id, { type: 'tool_result', tool_use_id: id, content: missingResult, is_error: true })
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

/** Whether the API would refuse thinking: the assistant turn to continue does not begin with its original thinking. */
export function lostItsThinking(turns: readonly Turn[]): boolean {
  const turn = turnToContinue(turns, ({ type }) => type === 'tool_use')
  if (turn === undefined) return false
  const first = turn.content.find((block) => block.type !== 'compaction')?.type
  return first !== 'thinking' && first !== 'redacted_thinking'
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
