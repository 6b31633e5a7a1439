// What a call would cost, without making it.

import { type Caller, mayUse, payerOf } from '../accounts/account.ts'
import type { Model, Offer } from '../catalog/row.ts'
import type { DeclaredTools } from '../conversation/gateway-tools.ts'
import { noUsage } from '../conversation/usage.ts'
import { freeIn, remainingIn } from '../credits/wallet.ts'
import { formatUsd, larger, type Pico, smaller } from '../credits/money.ts'
import { affordableOutput, ceilingOf, costOf, type Price } from '../credits/price.ts'
import { asGatewayError, type ErrorCode, GatewayError } from '../errors/errors.ts'
import type { PromptParts } from '../protocols/request/prompt-parts.ts'
import { leastOutputTokens } from '../providers/provider.ts'
import { CallTools, longestText } from '../tools/tool.ts'
import {
  admit,
  isVirtual,
  refusalError,
  routingFor,
  sizedRouting,
  testModel,
  wrongEndpoint,
} from './admission.ts'
import { fundingFor, needOf, type SpendingRoom, spendingRoom, withReserve } from './billing/need.ts'
import type { IncomingCall } from './call.ts'
import { countingFor, measurePrompt, promptCount, tokenBound } from './counting/token-counter.ts'
import type { ChatParts } from './paid-call.ts'
import { candidatesFor, heldPriceOf } from './routing/candidates.ts'
import { chooseMembers } from './routing/route.ts'
import { withOwnSearch } from './routing/search.ts'
import { ToolConversation } from './tools/conversation.ts'
import { mostCallsOf } from './tools/loop.ts'

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
  const models = estimatedModels(parts, call)
  const [model] = models as [Model]
  const { n } = call.request.envelope
  const asked = routingFor(caller, call.request.envelope.routing)
  const routing = await sizedRouting(parts, call, models, asked)
  const able = candidatesFor(models, parts.providers, routing, '', n)
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
  const price = heldPriceOf(candidates[0]!)
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
  const balance = await parts.ledger.balance(payerOf(caller))
  const free = freeIn(balance, funding, now)
  const room = await spendingRoom(parts.ledger, caller, now)
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

/** The model, or the members of a virtual one in the order in which they would be asked. */
function estimatedModels(parts: ChatParts, call: Pick<IncomingCall, 'caller' | 'request'>): readonly Model[] {
  const listed = parts.catalog.resolve(call.request.envelope.model)
  const models = isVirtual(listed) ? chooseMembers(parts, listed, call).members : [listed]
  return call.caller.mode === 'test' ? models.map(testModel) : models
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
function shortage(
  least: Pico,
  free: Pico,
  left: Pico,
  room: SpendingRoom | undefined,
): ErrorCode | undefined {
  if (room !== undefined && room.freeLater < least) return room.refusal
  if (left < least) return 'insufficient_credits'
  return smaller(free, room?.free ?? free) < least ? 'credits_reserved' : undefined
}

// Estimates a call with gateway tools over all of its rounds. No server is asked, so what the tools of an MCP server
// add to the first prompt is unknown.

/** Tokens of a tool call, and of the usual results of a search. */
const usualCallTokens = 50
const usualResultTokens = 2_000

type EstimatedCall = Pick<IncomingCall, 'caller' | 'request' | 'bodyBytes'>

interface Rounds<Call extends EstimatedCall> {
  /** The call with the gateway's tools included in its prompt. */
  readonly call: Call
  /** Rounds of a typical answer, and the maximum. */
  readonly expected: number
  readonly maximum: number
  /** The most that one call of a tool costs, picodollars. */
  readonly fee: Pico
}

/** Rejects with GatewayError, like the call itself, if its search is not supported here. */
async function roundsOf<Call extends EstimatedCall>(
  parts: Pick<ChatParts, 'toolSources' | 'limits'>,
  call: Call,
  declared: DeclaredTools,
): Promise<Rounds<Call>> {
  const asked = call.request.toChatRequest()
  // No server is asked for an estimate.
  const declarations = declared.declarations.filter(({ kind }) => kind !== 'mcp')
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

interface FirstRound {
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
function usualCost(
  { expected, fee }: Omit<Rounds<never>, 'call'>,
  { prompt }: FirstRound,
  price: Price,
): Pico {
  if (expected === 1) return 0n
  const input = prompt + usualCallTokens + usualResultTokens
  return fee + costOf({ ...noUsage, input, output: usualCallTokens }, price).total
}

/** The most that all rounds cost, with results of the greatest length. */
function mostCost({ maximum, fee }: Omit<Rounds<never>, 'call'>, first: FirstRound, price: Price): Pico {
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

// Counts the tokens of a prompt without sending it anywhere.

/**
 * The tokens of a prompt for a model, as exactly as possible without its provider. Needs no credit. Rejects if the
 * model is unknown, is not a chat model, or is not allowed for this caller.
 */
export async function countTokens(
  parts: Pick<ChatParts, 'catalog' | 'counter' | 'scheduler'>,
  caller: Caller,
  model: string,
  prompt: PromptParts,
): Promise<number> {
  const found = parts.catalog.resolve(model)
  if (wrongEndpoint(found, 'chat')) throw refusalError('wrong_endpoint', found, 'chat')
  if (caller.account.suspended) throw refusalError('account_suspended', found, 'chat')
  const names = [found.id, ...(found.route?.members ?? []).map(({ id }) => id)]
  if (!names.some((name) => mayUse(caller, name))) throw refusalError('model_not_allowed', found, 'chat')
  return promptCount(countingFor(parts, caller.account.id), prompt)
}

// What would happen to a call of a model now, and why.

export interface RouteExplanation {
  /** As it was asked for, but for another name of it. */
  readonly model: string
  /** What decides which member is first; null for a model that is no route. */
  readonly reason: string | null
  /** In the order in which they would be asked. */
  readonly candidates: readonly {
    readonly model: string
    readonly provider: string
    readonly upstream_model: string
    /** `open`: its breaker is, and it is probed once a second. */
    readonly standing: 'healthy' | 'cooling' | 'open'
    /** Until the first content, of late; null where it was not asked yet. Milliseconds. */
    readonly latency_ms: number | null
    /** Of the first offer, US dollars a token. */
    readonly prompt: string
    readonly completion: string
  }[]
  readonly passed_over: readonly { readonly model: string; readonly reason: string }[]
  /** The code that the call would be refused with. */
  readonly refusal?: string
}

/**
 * Says who would be asked for a chat with this model now, without asking. `request`: a request for it, without a session.
 * Rejects with what the call itself would be refused with, unless that is a matter of credit or rights.
 */
export async function explainRoute(
  parts: ChatParts,
  call: Pick<IncomingCall, 'caller' | 'request'>,
): Promise<RouteExplanation> {
  const { caller, request } = call
  const listed = parts.catalog.resolve(request.envelope.model)
  const refusal = await refusalOf(parts, call)
  if (refusal !== undefined)
    return { model: listed.id, reason: null, candidates: [], passed_over: [], refusal }
  const { models, route } = await admit(parts, call, 'chat')
  const able = candidatesFor(models, parts.providers, routingFor(caller, request.envelope.routing), '', 1)
  // An account need not know how many keys a provider has: the best one stands for all.
  const offers = new Map<Offer, RouteExplanation['candidates'][number]>()
  for (const candidate of able) {
    const { model, offer, provider } = candidate
    const standing = parts.health.standing(candidate, caller.account.id)
    const known = offers.get(offer)
    if (known !== undefined && standings.indexOf(known.standing) <= standings.indexOf(standing)) continue
    const latency = parts.health.latencyMs(offer)
    const { input, output } = offer.price.rates
    offers.set(offer, {
      model: model.id,
      provider: provider.id,
      upstream_model: offer.upstream,
      standing,
      latency_ms: latency === undefined ? null : Math.round(latency),
      prompt: formatUsd(input),
      completion: formatUsd(output),
    })
  }
  const isWell = ({ standing }: RouteExplanation['candidates'][number]) => standing === 'healthy'
  const all = [...offers.values()]
  return {
    model: listed.id,
    reason: route?.reason ?? null,
    candidates: [...all.filter(isWell), ...all.filter((each) => !isWell(each))],
    passed_over: route?.refused ?? [],
  }
}

/** The best first. */
const standings: readonly string[] = ['healthy', 'cooling', 'open']
