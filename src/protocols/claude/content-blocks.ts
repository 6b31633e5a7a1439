// Shared by parsers of answers made of content blocks: Claude's, and those that Bedrock wraps alike.

import type { ChatEvent, FinishReason } from '../../conversation/event.ts'
import { callIdOf, mintedId } from '../free-names.ts'

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
