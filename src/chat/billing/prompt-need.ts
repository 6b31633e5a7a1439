// What a call needs, by the size of its prompt.

import type { Awaitable } from '../../awaitable.ts'
import type { Pico } from '../../credits/money.ts'
import type { PaidCall } from '../call.ts'
import { countingFor, measurePrompt, type SharedCounting, tokenBound } from '../counting/prompt-size.ts'
import type { ChatLimits } from '../limits.ts'
import type { Candidate } from '../routing/candidates.ts'
import { littleCharacters } from '../streaming/turns.ts'
import { type Need, needOf, quickNeed, withReserve } from './need.ts'

interface NeedParts extends SharedCounting {
  readonly limits: ChatLimits
}

/** Counts the prompt only if its quick upper bound exceeds what the caller has or wants to spend. */
export function needFor(
  parts: NeedParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Awaitable<Need> {
  if (call.bodyBytes > littleCharacters) return needInTurn(parts, call, candidates, free)
  return quickNeedOf(parts, call, candidates, free) ?? countedNeed(parts, call, candidates)
}

async function needInTurn(
  parts: NeedParts,
  call: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Promise<Need> {
  const quick = await parts.turns.run(() => quickNeedOf(parts, call, candidates, free))
  return quick ?? countedNeed(parts, call, candidates)
}

function quickNeedOf(
  { limits: { holdOutputTokens } }: NeedParts,
  { request: { envelope, promptParts }, bodyBytes }: PaidCall,
  candidates: readonly Candidate[],
  free: Pico,
): Need | undefined {
  const { bound, isUnsized } = measurePrompt(promptParts, bodyBytes)
  const need = quickNeed(envelope, candidates, bound, holdOutputTokens, free)
  return need && withReserve(need, envelope, candidates, isUnsized)
}

async function countedNeed(
  parts: NeedParts,
  call: PaidCall,
  candidates: readonly Candidate[],
): Promise<Need> {
  const { envelope, promptParts } = call.request
  const bound = await tokenBound(countingFor(parts, call.caller.account.id), promptParts, call.bodyBytes)
  const need = needOf(envelope, candidates, bound, parts.limits.holdOutputTokens)
  return withReserve(need, envelope, candidates, measurePrompt(promptParts, call.bodyBytes).isUnsized)
}
