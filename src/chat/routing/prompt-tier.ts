// The size of a prompt where a limit of price depends on it: some prices rise with the length of the prompt.

import type { Awaitable } from '../../awaitable.ts'
import type { Model } from '../../catalog/model.ts'
import type { Routing } from '../../protocols/protocol.ts'
import {
  countingFor,
  type CountingParts,
  promptBound,
  promptCount,
  type SharedCounting,
} from '../counting/prompt-size.ts'
import type { PaidCall } from '../call.ts'
import type { SizedRouting } from './candidates.ts'

/** Counts the prompt, as exactly as possible without the provider, if it may be long enough for a tier of a price. */
export function sizedRouting(
  parts: SharedCounting,
  { caller, request, bodyBytes }: Pick<PaidCall, 'caller' | 'request' | 'bodyBytes'>,
  models: readonly Model[],
  routing: Routing,
): Awaitable<SizedRouting> {
  const { input, output } = routing.maxPrice
  if (input === undefined && output === undefined) return routing
  const tiers = models.flatMap(({ offers }) => offers.flatMap(({ price }) => price.tiers))
  if (tiers.length === 0) return routing
  const most = promptBound(request.promptParts, bodyBytes)
  if (tiers.every(({ abovePromptTokens }) => most <= abovePromptTokens)) return routing
  return countPrompt(countingFor(parts, caller.account.id), request.promptParts, routing)
}

async function countPrompt(
  parts: CountingParts,
  prompt: Parameters<typeof promptCount>[1],
  routing: Routing,
): Promise<SizedRouting> {
  return { ...routing, promptTokens: await promptCount(parts, prompt) }
}
