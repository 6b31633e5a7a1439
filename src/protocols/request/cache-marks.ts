// Marks of what a provider is to keep in its cache of prompts: those of clients, and those set for clients that have none.

import { z } from 'zod'
import type {
  CacheMark,
  ChatRequest,
  ContentPart,
  FunctionTool,
  JsonObject,
  Message,
} from '../../conversation/request.ts'

/** `cache_control` as Anthropic's API has it, and all others after it. */
export const cacheControl = z
  .looseObject({ type: z.literal('ephemeral'), ttl: z.enum(['5m', '1h']).nullish() })
  .nullish()

export type WireCacheControl = z.infer<typeof cacheControl>

/** The mark of a `cache_control`; five minutes by default. */
export function readMark(
  mark: { readonly ttl?: '5m' | '1h' | null | undefined } | null | undefined,
): CacheMark | undefined {
  return mark == null ? undefined : { ttl: mark.ttl ?? '5m' }
}

/** OpenAI's mark: it has no lifetime of its own, which is the whole request's (`prompt_cache_options`). */
export const cacheBreakpoint = z.looseObject({ mode: z.string() }).nullish()

/** The mark of a part, in whosever words; one of each is Anthropic's with OpenAI's beside it. */
export function readPartMark(part: {
  readonly cache_control?: WireCacheControl
  readonly prompt_cache_breakpoint?: z.infer<typeof cacheBreakpoint>
}): CacheMark | undefined {
  const { cache_control: mark, prompt_cache_breakpoint: breakpoint } = part
  if (breakpoint == null) return readMark(mark)
  return { ttl: mark?.ttl ?? '5m', breakpoint: breakpoint as JsonObject }
}

/** The parts with the last one marked that can carry a mark. */
export function markLast(parts: readonly ContentPart[], mark: CacheMark): ContentPart[] {
  const last = parts.findLastIndex((part) => 'cache' in part)
  return parts.map((part, at) => (at === last && 'cache' in part ? { ...part, cache: mark } : part))
}

/** Turns at the end of a conversation that are marked: the last one for the next call, the one before it to be found by this. */
const markedTurns = 2
const usual: CacheMark = { ttl: '5m' }

/**
 * The request with the tools, the instructions and the last two turns of the user marked: four marks, as many as Claude
 * takes. A request with a mark of its client's own is left as it is.
 */
export function withCacheMarks(request: ChatRequest): ChatRequest {
  const { tools, messages } = request
  if (request.rest['cache_control'] !== undefined || tools.some(isMarked)) return request
  if (messages.some(hasMark)) return request
  const marked = new Set<number>()
  const instructions = messages.findLastIndex(isInstruction)
  if (instructions >= 0) marked.add(instructions)
  let turns = 0
  // Results and words after one answer are one turn.
  for (let at = messages.length - 1; at >= 0 && turns < markedTurns; at--) {
    const isEnd = at === messages.length - 1 || messages[at + 1]!.role === 'assistant'
    const { role } = messages[at]!
    if (!isEnd || (role !== 'user' && role !== 'tool')) continue
    marked.add(at)
    turns += 1
  }
  return {
    ...request,
    tools: tools.map((tool, at) => (at === tools.length - 1 ? { ...tool, cache: usual } : tool)),
    messages: messages.map((message, at): Message => {
      if (!marked.has(at)) return message
      return { ...message, content: markLast(message.content, usual) }
    }),
  }
}

function hasMark(message: Message): boolean {
  if (message.content.some(isMarked)) return true
  return message.role === 'assistant' && message.toolCalls.some(({ cache }) => cache !== undefined)
}

function isMarked(marked: ContentPart | FunctionTool): boolean {
  return 'cache' in marked && marked.cache !== undefined
}

function isInstruction({ role }: Message): boolean {
  return role === 'system' || role === 'developer'
}
