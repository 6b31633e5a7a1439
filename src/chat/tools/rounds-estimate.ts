// Estimates a call with gateway tools over all of its rounds. No server is asked, so what the tools of an MCP server
// add to the first prompt is unknown.

import { noUsage } from '../../conversation/usage.ts'
import type { DeclaredTools } from '../../conversation/gateway-tools.ts'
import { larger, type Pico } from '../../credits/money.ts'
import { ceilingOf, costOf, type Price } from '../../credits/price.ts'
import { CallTools } from '../../tools/call-tools.ts'
import { longestText } from '../../tools/run-tool.ts'
import type { IncomingCall } from '../call.ts'
import type { ChatParts } from '../parts.ts'
import { mostCallsOf } from './bounds.ts'
import { ToolConversation } from './conversation.ts'

/** Tokens of a tool call, and of the usual results of a search. */
const usualCallTokens = 50
const usualResultTokens = 2_000

type EstimatedCall = Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>

export interface Rounds<Call extends EstimatedCall> {
  /** The call with the gateway's tools included in its prompt. */
  readonly call: Call
  /** Rounds of a typical answer, and the maximum. */
  readonly expected: number
  readonly maximum: number
  /** The most that one call of a tool costs, picodollars. */
  readonly fee: Pico
}

/** Rejects with GatewayError, like the call itself, if its search is not supported here. */
export async function roundsOf<Call extends EstimatedCall>(
  parts: Pick<ChatParts, 'toolSources' | 'limits'>,
  call: Call,
  declared: DeclaredTools,
): Promise<Rounds<Call>> {
  const asked = call.request.toChatRequest()
  const declarations = declared.declarations.filter(({ kind }) => kind === 'web-search')
  const caller = {
    account: call.caller.account.id,
    mode: call.caller.mode,
    requestId: 'estimate',
    signal: new AbortController().signal,
    deadlineAt: performance.now() + parts.limits.toolMs,
  }
  const taken = asked.tools.map(({ name }) => name)
  const tools = await CallTools.open(parts.toolSources, { ...declared, declarations }, caller, taken)
  await tools.close()
  const allowed = mostCallsOf(declared, parts.limits.toolCalls).maxCalls
  const maxCalls = asked.toolChoice?.kind === 'none' ? 0 : allowed
  const first = new ToolConversation(asked, tools, declared).round(call, asked.maxOutputTokens)
  return {
    call: first,
    expected: 1 + Math.min(1, maxCalls),
    // A model that calls once more is refused and then answers.
    maximum: maxCalls === 0 ? 1 : maxCalls + 2,
    fee: tools.tools.reduce<Pico>((most, { tool }) => larger(most, tool.mostCost), 0n),
  }
}

export interface FirstRound {
  /** Tokens of its prompt, counted and at most. */
  readonly prompt: number
  readonly mostPrompt: number
  /** Tokens that the answer may have. */
  readonly output: number
  /** Whether `output` limits all rounds together, as a client's own limit does. */
  readonly bounded: boolean
  /** The longest prompt of the model, tokens. */
  readonly contextLength: number | undefined
  /** The most searches of the provider's own, by name. */
  readonly toolCalls: Readonly<Record<string, number>>
}

/** What a typical answer costs beyond one round: a tool call, and its result in the next prompt. */
export function usualCost(
  { expected, fee }: Omit<Rounds<never>, 'call'>,
  { prompt }: FirstRound,
  price: Price,
): Pico {
  if (expected === 1) return 0n
  const input = prompt + usualCallTokens + usualResultTokens
  return fee + costOf({ ...noUsage, input, output: usualCallTokens }, price).total
}

/** The most that all rounds cost, with results of the greatest length. */
export function mostCost(
  { maximum, fee }: Omit<Rounds<never>, 'call'>,
  first: FirstRound,
  price: Price,
): Pico {
  const { mostPrompt, output, bounded, toolCalls, contextLength = Number.MAX_SAFE_INTEGER } = first
  let most = fee * BigInt(Math.max(0, maximum - 2))
  for (let round = 1; round <= maximum; round++) {
    const said = bounded ? output : output * (round - 1)
    const read = round === 1 ? 0 : longestText * (round - 1) + said
    const promptTokens = Math.max(mostPrompt, Math.min(contextLength, mostPrompt + read))
    const outputTokens = bounded && round < maximum ? 0 : output
    most += ceilingOf({ promptTokens, outputTokens, toolCalls }, price)
  }
  return most
}
