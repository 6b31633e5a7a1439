// A client's content blocks as parts of messages.

import type {
  CacheMark,
  ContentPart,
  JsonObject,
  MediaSource,
  Message,
  ReasoningDetail,
  ToolCall,
  ToolMessage,
} from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors.ts'
import { isObject } from '../../json.ts'
import { detailOfThinking } from '../../claude/carried-reasoning.ts'
import { isGatewayBlock, isSearchBlock, readGatewayCall, readGatewayResult } from './gateway-blocks.ts'
import { checkedContent, type ClientBlock, type ClientContent } from './schema.ts'
import { compactionId, reasoningFormat } from '../../claude/names.ts'
import { detailOfWork } from '../../claude/server-tools.ts'

/** The cache mark of a `cache_control` object; five minutes by default. */
export function readMark(mark: ClientBlock['cache_control']): CacheMark | undefined {
  return mark == null ? undefined : { ttl: mark.ttl ?? '5m' }
}

/** Content as parts: text, images, documents, search results. Throws `invalid_request` naming a block it cannot read. */
export function readParts(content: ClientContent, param: string): ContentPart[] {
  if (typeof content === 'string') return [{ kind: 'text', text: content, cache: undefined }]
  return content.flatMap((block, index) => partsOf(block, `${param}.${index}`))
}

/** A user's message: each tool result becomes a message of its own, before the user's text. */
export function readUser(content: ClientContent, param: string): Message[] {
  if (typeof content === 'string') return [{ role: 'user', content: readParts(content, param) }]
  const results: Message[] = []
  const said: ContentPart[] = []
  content.forEach((block, index) => {
    const at = `${param}.${index}`
    if (block.type === 'tool_result') results.push(readResult(block, at))
    else said.push(...partsOf(block, at))
  })
  return said.length === 0 ? results : [...results, { role: 'user', content: said }]
}

function readResult(block: ClientBlock, param: string): Message {
  const given = block['content']
  const parts =
    given == null
      ? []
      : readParts(checkedContent(given, `${param}.content`), `${param}.content`).filter(
          (part) => part.kind !== 'refusal',
        )
  const cache = readMark(block.cache_control)
  return {
    role: 'tool',
    toolCallId: text(block, 'tool_use_id', param),
    content: cache === undefined ? parts : markedAtTheEnd(parts, cache),
    isError: block['is_error'] === true,
  }
}

/** Puts a result's cache mark on its last part, where readers of parts expect it. */
function markedAtTheEnd(parts: readonly ContentPart[], cache: CacheMark): ContentPart[] {
  const last = parts.at(-1)
  if (last === undefined || !('cache' in last)) return [...parts, { kind: 'text', text: '', cache }]
  return [...parts.slice(0, -1), { ...last, cache }]
}

interface Turn {
  readonly content: ContentPart[]
  readonly reasoning: ReasoningDetail[]
  readonly toolCalls: ToolCall[]
  /** Ids of its calls that the gateway ran. */
  readonly ran: Set<string>
  /** Their results. */
  readonly results: ToolMessage[]
}

/** Content of an assistant's message, and its path in the body. */
export interface PlacedContent {
  readonly content: ClientContent
  readonly param: string
}

/**
 * An assistant's turn, in the rounds that it was made in. The API takes consecutive messages of the assistant for one
 * turn, whose calls are answered together. What Anthropic's own tools did in it (`server_tool_use` and results) has no
 * place in another provider's conversation and is left out, but for what its search found, which goes back to
 * Anthropic; the text they led to stays. What the gateway's tools did is of use where such tools are declared:
 * providers refuse calls of others.
 */
export function readAssistant(contents: readonly PlacedContent[], runs: 'read' | 'left-out'): Message[] {
  const blocks = contents.flatMap(blocksOf)
  const turns: Turn[] = []
  const begin = (): Turn => {
    const turn: Turn = { content: [], reasoning: [], toolCalls: [], ran: new Set(), results: [] }
    turns.push(turn)
    return turn
  }
  let turn = begin()
  for (const { block, at } of blocks) {
    if (isGatewayBlock(block)) {
      if (runs === 'read' && !isSearchBlock(block)) readRun(block as JsonObject, turn)
      continue
    }
    // Text after a tool's result belongs to the next round.
    if (turn.results.length > 0 && block.type !== 'tool_use') turn = begin()
    readAssistantBlock(block, at, turn)
  }
  return turns.flatMap(({ content: parts, reasoning, results, toolCalls: called }) => {
    // There may be no result if the answer was cut off.
    const answered = new Set(results.map(({ toolCallId }) => toolCallId))
    const toolCalls = called.filter(({ id, origin }) => origin === undefined || answered.has(id))
    // Providers refuse a message of nothing, which is what may be left of one.
    if (blocks.length > 0 && parts.length + reasoning.length + toolCalls.length === 0) return []
    return [{ role: 'assistant', content: parts, reasoning, toolCalls } as const, ...results]
  })
}

function blocksOf({ content, param }: PlacedContent): { block: ClientBlock; at: string }[] {
  const blocks = typeof content === 'string' ? [{ type: 'text', text: content } as ClientBlock] : content
  return blocks.map((block, index) => ({ block, at: `${param}.${index}` }))
}

function readRun(block: JsonObject, { toolCalls, ran, results }: Turn): void {
  if (typeof block['tool_use_id'] === 'string') {
    if (ran.has(block['tool_use_id'])) results.push(readGatewayResult(block))
    return
  }
  const call = readGatewayCall(block)
  if (!call) return
  toolCalls.push(call)
  ran.add(call.id)
}

function readAssistantBlock(block: ClientBlock, at: string, { content, reasoning, toolCalls }: Turn): void {
  switch (block.type) {
    case 'thinking':
      reasoning.push(
        detailOfThinking(text(block, 'thinking', at), text(block, 'signature', at), reasoning.length),
      )
      return
    case 'redacted_thinking':
      reasoning.push({
        type: 'reasoning.encrypted',
        format: reasoningFormat,
        index: reasoning.length,
        data: text(block, 'data', at),
      })
      return
    case 'compaction':
      if (typeof block['content'] !== 'string') return
      reasoning.push({
        type: 'reasoning.summary',
        format: reasoningFormat,
        index: reasoning.length,
        id: compactionId,
        summary: block['content'],
      })
      return
    case 'tool_use':
      toolCalls.push(readCall(block, at))
      return
    case 'text':
      content.push(readPart(block, at))
      return
    default: {
      const found = detailOfWork(block as JsonObject, reasoning.length)
      if (found) reasoning.push(found)
      else if (!isProviderWork(block.type)) content.push(readPart(block, at))
    }
  }
}

function isProviderWork(type: string): boolean {
  return type === 'server_tool_use' || type === 'mcp_tool_use' || type.endsWith('_tool_result')
}

function readCall(block: ClientBlock, param: string): ToolCall {
  const cache = readMark(block.cache_control)
  return {
    id: text(block, 'id', param),
    name: text(block, 'name', param),
    arguments: JSON.stringify(block['input'] ?? {}),
    thoughtSignature: undefined,
    ...(cache === undefined ? {} : { cache }),
  }
}

/** A block, with the images of a document behind it: other protocols have documents of text alone. */
function partsOf(block: ClientBlock, param: string): ContentPart[] {
  const part = readPart(block, param)
  const source = block.type === 'document' && isObject(block['source']) ? block['source'] : {}
  if (source.type !== 'content' || !Array.isArray(source.content)) return [part]
  const within = `${param}.source.content`
  const blocks = checkedContent(source.content, within) as readonly ClientBlock[]
  const images = blocks.flatMap((each, at) =>
    each.type === 'image' ? [readPart(each, `${within}.${at}`)] : [],
  )
  return images.length > 0 && textsIn(source.content) === '' ? images : [part, ...images]
}

function readPart(block: ClientBlock, param: string): ContentPart {
  const cache = readMark(block.cache_control)
  switch (block.type) {
    case 'text':
      return { kind: 'text', text: text(block, 'text', param), cache }
    case 'image':
      return { kind: 'image', source: readSource(block, param), detail: undefined, cache }
    case 'document': {
      const { title, context, citations } = block as JsonObject
      return {
        kind: 'file',
        source: readSource(block, param),
        filename: typeof title === 'string' ? title : undefined,
        ...(typeof context === 'string' && context !== '' ? { context } : {}),
        ...(isObject(citations) && citations['enabled'] === true ? { cited: true } : {}),
        cache,
      }
    }
    case 'search_result':
      return { kind: 'text', text: searchResultText(block), cache }
    case 'tool_reference':
      // The result of a client's own search for tools. Other providers are shown all of them at once.
      return { kind: 'text', text: text(block, 'tool_name', param), cache }
    default:
      throw new GatewayError('invalid_request', {
        message: `${param}.type: a block of type ${JSON.stringify(block.type)} cannot be read here`,
        param: `${param}.type`,
      })
  }
}

function readSource(block: ClientBlock, param: string): MediaSource {
  const source = isObject(block['source']) ? block['source'] : undefined
  const at = `${param}.source`
  switch (source?.['type']) {
    case 'base64':
      return { kind: 'base64', mediaType: text(source, 'media_type', at), data: text(source, 'data', at) }
    case 'url':
      return { kind: 'url', url: text(source, 'url', at) }
    case 'file':
      return { kind: 'provider-file', id: text(source, 'file_id', at) }
    case 'text':
      return { kind: 'base64', mediaType: 'text/plain', data: base64(text(source, 'data', at)) }
    case 'content':
      return { kind: 'base64', mediaType: 'text/plain', data: base64(textsIn(source['content'])) }
    default:
      throw new GatewayError('invalid_request', { message: `${at}: the source cannot be read`, param: at })
  }
}

/** A found page as text: its address, then its content. */
function searchResultText(block: ClientBlock): string {
  const head = [block['title'], block['source']].filter((value) => typeof value === 'string')
  return [...head, textsIn(block['content'])].join('\n')
}

function textsIn(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((block) => (isObject(block) ? block['text'] : undefined))
    .filter((value) => typeof value === 'string')
    .join('\n')
}

function base64(words: string): string {
  return Buffer.from(words, 'utf8').toString('base64')
}

function text(of: Record<string, unknown>, field: string, param: string): string {
  const value = of[field]
  if (typeof value === 'string') return value
  throw new GatewayError('invalid_request', {
    message: `${param}.${field}: Input should be a valid string`,
    param: `${param}.${field}`,
  })
}
