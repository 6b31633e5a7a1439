// What a call would cost, without making it.

import { noUsage } from '../conversation/usage.ts'
import { asGatewayError, type ErrorCode, GatewayError } from '../errors.ts'
import { freeIn, remainingIn } from '../credits/balance.ts'
import { formatUsd, smaller, type Pico } from '../credits/money.ts'
import { affordableOutput, ceilingOf, costOf } from '../credits/price.ts'
import { admit } from './admission.ts'
import { fundingFor } from './billing/flash-class.ts'
import { leastOutputTokens } from '../providers/provider.ts'
import type { ChatParts } from './parts.ts'
import type { IncomingCall } from './call.ts'
import { type KeyRoom, keyRoom } from './billing/key-limit.ts'
import { candidatesFor } from './routing/candidates.ts'
import { withOwnSearch } from './routing/own-search.ts'
import { needOf, withReserve } from './billing/need.ts'
import { countingFor, measurePrompt, promptCount, tokenBound } from './counting/prompt-size.ts'
import { mostCost, roundsOf, usualCost } from './tools/rounds-estimate.ts'
import { sizedRouting } from './routing/prompt-tier.ts'
import { routingFor, testModel } from './routing/test-mode.ts'

/** A typical answer's output tokens, used if the client sets no maximum. */
const typicalOutputTokens = 500

export interface Estimate {
  readonly model: string
  readonly prompt_tokens: { readonly expected: number; readonly maximum: number }
  /** How often the model is asked, for a call with gateway tools. */
  readonly rounds?: { readonly expected: number; readonly maximum: number }
  /** Decimal strings in US dollars: for one output token, a typical answer, and the most the request allows. */
  readonly low: string
  readonly expected: string
  readonly maximum: string
  readonly affordable_output_tokens: number
  readonly pool: string
  /** The error code that the call would be refused with. */
  readonly refusal?: string
}

/**
 * Estimates a request without sending it. Throws for an unknown model and for a malformed request; a refusal for lack
 * of credit is part of the answer.
 */
export async function estimate(
  parts: ChatParts,
  call: Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>,
): Promise<Estimate> {
  const { caller } = call
  const listed = parts.catalog.resolve(call.request.envelope.model)
  const model = caller.mode === 'test' ? testModel(listed) : listed
  const { n } = call.request.envelope
  const asked = routingFor(caller, call.request.envelope.routing)
  const routing = await sizedRouting(parts, call, [model], asked)
  const able = candidatesFor([model], parts.providers, routing, '', n)
  const { call: searching, candidates } = withOwnSearch(parts.outbounds, call, able)
  const { gatewayTools } = searching.request
  const rounds = gatewayTools && (await roundsOf(parts, searching, gatewayTools))
  const { request, bodyBytes } = rounds?.call ?? searching
  const counting = countingFor(parts, caller.account.id)
  const most = Math.min(await tokenBound(counting, request.promptParts, bodyBytes), bodyBytes + 10_000)
  const counted = Math.min(await promptCount(counting, request.promptParts), most)
  const bounded = needOf(request.envelope, candidates, most, parts.limits.holdOutputTokens)
  const { isUnsized } = measurePrompt(request.promptParts, bodyBytes)
  const need = withReserve(bounded, request.envelope, candidates, isUnsized)
  const { price } = candidates[0]!.offer
  const outputTokens = Math.max(
    request.envelope.maxOutputTokens ?? model.maxOutputTokens ?? parts.limits.holdOutputTokens,
    leastOutputTokens(candidates[0]!.provider),
  )
  // Like the receipt, but nothing cached and plain text rates. Only the maximum is a bound.
  const costWith = (output: number, searches: number) => {
    const toolCalls: Record<string, number> = searches === 0 ? {} : { web_search: searches }
    return costOf({ ...noUsage, input: counted, output: output * n, toolCalls }, price).total
  }
  const { toolCalls } = need.bound
  const oneRound = ceilingOf({ promptTokens: most, outputTokens: outputTokens * n, toolCalls }, price)
  // Most answers of a model that may search use one search.
  const usual = Math.min(1, toolCalls['web_search'] ?? 0)
  const first = {
    prompt: counted,
    mostPrompt: most,
    output: outputTokens,
    bounded: request.envelope.maxOutputTokens !== undefined,
    contextLength: model.contextLength,
    toolCalls,
  }
  const within = (amount: Pico) => (need.maxCost === undefined ? amount : smaller(amount, need.maxCost))
  const answer = costWith(Math.min(outputTokens, typicalOutputTokens), usual)
  const expected = rounds === undefined ? answer : answer + usualCost(rounds, first, price)
  const ceiling = rounds === undefined ? oneRound : mostCost(rounds, first, price)
  const funding = await fundingFor(parts, call, candidates)
  const now = parts.now()
  const balance = await parts.ledger.balance(caller.account.id)
  const free = freeIn(balance, funding, now)
  const room = await keyRoom(parts.ledger, caller.key, now)
  const left = funding.reduce((sum, pool) => sum + remainingIn(balance, pool, now), 0n)
  const refused = (await refusalOf(parts, call)) ?? shortage(need.least, free, left, room)
  return {
    model: model.id,
    prompt_tokens: { expected: counted, maximum: isUnsized ? (model.contextLength ?? most) : most },
    ...(rounds === undefined ? {} : { rounds: { expected: rounds.expected, maximum: rounds.maximum } }),
    low: formatUsd(within(costWith(1, 0))),
    expected: formatUsd(within(expected)),
    maximum: formatUsd(within(ceiling + need.reserve)),
    affordable_output_tokens: Math.max(
      0,
      affordableOutput(smaller(free, room?.free ?? free), { ...need.bound, promptTokens: counted }, price),
    ),
    pool: funding.find((pool) => freeIn(balance, [pool], now) > 0n) ?? funding[0]!,
    ...(refused === undefined ? {} : { refusal: refused }),
  }
}

async function refusalOf(
  parts: ChatParts,
  call: Pick<IncomingCall, 'caller' | 'request'>,
): Promise<string | undefined> {
  try {
    await admit(parts, call, 'chat')
    return undefined
  } catch (thrown) {
    const error = asGatewayError(thrown)
    if (error instanceof GatewayError && (error.status === 402 || error.status === 403)) return error.code
    throw error
  }
}

/** The code of the refusal if `least` picodollars cannot be held, in the ledger's order; undefined if they can. */
function shortage(least: Pico, free: Pico, left: Pico, room: KeyRoom | undefined): ErrorCode | undefined {
  if (room !== undefined && room.freeLater < least) return 'key_limit_exceeded'
  if (left < least) return 'insufficient_credits'
  return smaller(free, room?.free ?? free) < least ? 'credits_reserved' : undefined
}
