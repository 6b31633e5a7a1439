// Shared by parsers of answers made of content blocks: Claude's, and those that Bedrock wraps alike.

import { z } from 'zod'
import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import type { JsonObject, ReasoningDetail } from '../../conversation/request.ts'
import { parseJson } from '../lenient.ts'
import { callIdOf, mintedId } from '../names.ts'
import { compactionId, reasoningFormat } from './models.ts'

/** The part of a parser's state that these rules need. */
export interface BlockState<Block extends { readonly kind: string }> {
  /** Blocks that have started but not stopped, by the provider's index. */
  readonly open: Readonly<Record<number, Block>>
  /** What ids of calls are made from: the answer's own id, where it has one. */
  readonly seed: string
  /** The ids of the calls so far. All states of an answer share it: a copy for each call would cost their square. */
  readonly callIds: Set<string>
  /** UTF-16 length of the text so far: citations count per block, annotations per answer. */
  readonly textLength: number
  /** How many tool calls have started. */
  readonly calls: number
  /** Whether the arguments of a call are not JSON, because the token limit cut it. */
  readonly brokenCall: boolean
  /** Whether the tool that carries a structured answer has been called: a second answer behind it would be no JSON. */
  readonly answered: boolean
}

/** The state of an answer before its first block. */
export function noBlocks(): BlockState<never> {
  return {
    open: {},
    seed: crypto.randomUUID(),
    callIds: new Set(),
    textLength: 0,
    calls: 0,
    brokenCall: false,
    answered: false,
  }
}

/** The id of the call that begins: the provider's, where it gave one of its own. */
export function nextCallId(
  { seed, callIds, calls }: Pick<BlockState<never>, 'seed' | 'callIds' | 'calls'>,
  given: string,
): string {
  return callIdOf(given, callIds, () => mintedId(seed, calls))
}

export function withOpen<State extends BlockState<{ readonly kind: string }>>(
  state: State,
  index: number,
  block: State['open'][number],
): State {
  return { ...state, open: { ...state.open, [index]: block } }
}

/** Adds text; an empty piece is no event. */
export function addText<State extends { readonly textLength: number }>(
  state: State,
  text: string,
): readonly [State, readonly ChatEvent[]] {
  if (text === '') return [state, []]
  return [{ ...state, textLength: state.textLength + text.length }, [{ kind: 'text-delta', choice: 0, text }]]
}

export function finishReasonOf(
  reason: FinishReason,
  { open, calls, brokenCall }: BlockState<{ readonly kind: string }>,
): FinishReason {
  if (calls === 0 || reason === 'content_filter') return reason
  // A client that ran a call with truncated arguments would fail; reporting the limit explains why.
  const cut = brokenCall || Object.values(open).some((block) => block.kind === 'call')
  return reason === 'length' && cut ? reason : 'tool_calls'
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
