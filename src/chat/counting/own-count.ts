// What the gateway counts itself because the provider did not.

import type { Awaitable } from '../../awaitable.ts'
import type { Delivered, DeliveredTokens } from '../../conversation/delivered.ts'
import { completionTokens, noUsage, promptTokens, type Usage } from '../../conversation/usage.ts'
import { type Counter, deliveredTokensIn } from './exact-count.ts'
import type { PaidCall } from '../call.ts'
import { type CountingParts, promptCount, promptGuess } from './prompt-size.ts'

/** Token counts for the sides of a call that the provider did not count; nothing for the others. */
export interface OwnCount {
  readonly prompt: number
  /** The output: the provider's last count plus our count of what came after it. */
  readonly output: DeliveredTokens
}

const nothing: OwnCount = { prompt: 0, output: { output: 0, reasoning: 0 } }

/** The sides of a call that have to be counted here. */
type UncountedSides = Readonly<Record<'prompt' | 'output', boolean>>

const countedByProvider: UncountedSides = { prompt: false, output: false }

type Sized = Pick<PaidCall, 'request' | 'bodyBytes'>

/** What is known of an answer when it is charged. */
export interface Answered {
  /** The provider's count. */
  readonly usage: Usage | undefined
  /** The answer ended properly, so the provider's count is final. */
  readonly complete: boolean
  readonly delivered: Delivered
  /** The count had something that the provider cannot have meant, and `usage` is without it. */
  readonly doubted?: boolean
}

/**
 * Which sides we have to count: those that a final count leaves out. Without a final count: the output, and the prompt
 * unless it was counted early.
 */
export function uncountedSides({ usage, complete }: Pick<Answered, 'usage' | 'complete'>): UncountedSides {
  if (!complete || usage === undefined) return { prompt: promptTokens(usage ?? noUsage) === 0, output: true }
  const { uncounted } = usage
  if (uncounted === undefined) return countedByProvider
  return { prompt: uncounted.includes('prompt'), output: uncounted.includes('completion') }
}

/** Counts with the vocabulary, in the worker, for a charge; at once if there is nothing to count. Never rejects. */
export function exactCount(parts: CountingParts, call: Sized, answered: Answered): Awaitable<OwnCount> {
  const sides = uncountedSides(answered)
  if (!sides.prompt && !sides.output) return nothing
  return exactSides(parts, call, answered, sides)
}

async function exactSides(
  parts: CountingParts,
  call: Sized,
  answered: Answered,
  sides: UncountedSides,
): Promise<OwnCount> {
  const [prompt, output] = await Promise.all([
    sides.prompt ? promptCount(parts, call.request.promptParts) : nothing.prompt,
    sides.output ? exactOutput(parts.counter, answered) : nothing.output,
  ])
  return { prompt, output }
}

/** Counts by the length of the prompt and the running estimate of the output, while the stream runs. */
export function roughCount(call: Sized, answered: Answered): OwnCount {
  const sides = uncountedSides(answered)
  return {
    prompt: sides.prompt ? promptGuess(call.request.promptParts, call.bodyBytes) : nothing.prompt,
    output: sides.output ? roughOutput(answered) : nothing.output,
  }
}

async function exactOutput(counter: Counter, answered: Answered): Promise<DeliveredTokens> {
  const since = sinceOf(answered)
  return whole(answered, await deliveredTokensIn(counter, answered.delivered.samples(since)))
}

/** The output of a running stream by the running estimate. */
export function roughOutput(answered: Pick<Answered, 'usage' | 'delivered'>): DeliveredTokens {
  return whole(answered, answered.delivered.running(sinceOf(answered)))
}

function sinceOf({ usage }: Pick<Answered, 'usage'>): 'start' | 'count' {
  return usage !== undefined && completionTokens(usage) > 0 ? 'count' : 'start'
}

function whole(answered: Pick<Answered, 'usage' | 'delivered'>, since: DeliveredTokens): DeliveredTokens {
  const { delivered } = answered
  const tokens = sinceOf(answered) === 'count' ? delivered.withCounted(since) : since
  const reasoning = Math.round(tokens.reasoning)
  // Output that cannot be read as text was served too.
  const least = delivered.any && reasoning === 0 ? 1 : 0
  return { output: Math.max(Math.round(tokens.output), least), reasoning }
}
