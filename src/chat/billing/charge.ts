// What a call is charged when it ends: by the provider's count if there is one, otherwise by our own count of what was
// delivered.

import { completionTokens, noUsage, promptTokens, type Usage } from '../../conversation/usage.ts'
import type { Attempt, SettleResult } from '../../credits/ledger/ledger.ts'
import { formatUsd, parseUsd, type Pico, smaller } from '../../credits/money.ts'
import { type Cost, type CostLine, costOf, type Price } from '../../credits/price.ts'
import type { GatewayError } from '../../errors/errors.ts'
import type { Log, LogFields } from '../../observe/log.ts'
import type { EndedCall } from '../../observe/call-log.ts'
import type { Bill } from '../../protocols/protocol.ts'
import type { Provider } from '../../providers/provider.ts'
import { contentsOf, type PaidCall } from '../call.ts'
import { type Answered, type OwnCount, uncountedSides } from '../counting/token-counter.ts'
import type { Candidate } from '../routing/candidates.ts'

export interface Charge {
  readonly usage: Usage
  readonly cost: Cost
  /** Counted by us, not by the provider. */
  readonly estimated: boolean
}

/**
 * The charge of a call that served something. A count of zero is taken as zero. If the answer was cut, every count
 * that arrived is used, and only the rest is estimated: the prompt if nobody counted it, and the output after the last
 * count. An answer that was cut before it named its service tier is taken as served at the one that was `asked` for.
 */
export function chargeOf(
  answered: Pick<Answered, 'usage' | 'complete' | 'doubted'>,
  own: OwnCount,
  price: Price,
  costFrom: Provider['costFrom'],
  asked?: string,
): Charge {
  const { usage, complete, doubted = false } = answered
  const sides = uncountedSides(answered)
  const reported =
    complete && usage !== undefined && costFrom === 'reported' && reportedCostOf(usage) !== undefined
  if (usage !== undefined && !sides.prompt && !sides.output)
    return { usage, cost: costAtRates(usage, price, costFrom), estimated: doubted && !reported }
  const { billed, uncounted: _uncounted, ...counted } = usage ?? noUsage
  // Nothing was delivered, so there is nothing to count or to estimate.
  const made = own.output.output + own.output.reasoning > 0
  const estimated = !reported && (doubted || sides.prompt || (sides.output && (made || !complete)))
  const charged: Usage = {
    ...counted,
    ...(usage === undefined && asked !== undefined ? { serviceTier: asked } : {}),
    ...(billed === undefined || sides.prompt || sides.output ? {} : { billed }),
    ...(sides.prompt ? { input: own.prompt } : {}),
    ...(sides.output ? own.output : {}),
  }
  return {
    usage: charged,
    cost: estimated ? costOf(charged, price) : costAtRates(charged, price, costFrom),
    estimated,
  }
}

/**
 * The count of an answer whose client has disconnected, including searches that its provider had begun: it bills them
 * although nobody reads the results.
 */
export function withOpenSearches(usage: Usage | undefined, searches: number): Usage | undefined {
  if (searches === 0) return usage
  const counted = usage ?? { ...noUsage, uncounted: ['prompt', 'completion'] as const }
  const before = counted.toolCalls['web_search'] ?? 0
  return { ...counted, toolCalls: { ...counted.toolCalls, web_search: before + searches } }
}

export const noCharge: Charge = {
  usage: noUsage,
  cost: { lines: [], total: 0n, unpriced: [] },
  estimated: false,
}

/**
 * The charge for what a candidate served, given the picodollars held for it. With searches that had begun and not ended
 * it is an estimate.
 */
export function chargeFor(
  { offer, provider, serviceTier }: Candidate,
  answered: Answered,
  own: OwnCount,
  held: Pico,
  openSearches = 0,
): Charge {
  const charge = chargeOf(answered, own, offer.price, provider.costFrom, serviceTier)
  const limited = charge.estimated ? atMost(charge, held) : charge
  return openSearches === 0 ? limited : { ...limited, estimated: true }
}

/** The same charge, limited to `limit` picodollars: an estimate never exceeds the hold. */
export function atMost(charge: Charge, limit: Pico): Charge {
  if (charge.cost.total <= limit) return charge
  let left = limit
  const lines: CostLine[] = []
  for (const line of charge.cost.lines) {
    const quantity =
      line.rate === 0n ? BigInt(line.quantity) : smaller(BigInt(line.quantity), left / line.rate)
    if (quantity === 0n) continue
    lines.push({ ...line, quantity: Number(quantity), amount: quantity * line.rate })
    left -= quantity * line.rate
  }
  const total = lines.reduce((sum, line) => sum + line.amount, 0n)
  return { ...charge, cost: { ...charge.cost, lines, total } }
}

function costAtRates(usage: Usage, price: Price, costFrom: Provider['costFrom']): Cost {
  const amount = costFrom === 'reported' ? reportedCostOf(usage) : undefined
  if (amount === undefined) return costOf(usage, price)
  return { lines: [{ item: 'reported', quantity: 1, rate: amount, amount }], total: amount, unpriced: [] }
}

function reportedCostOf({ reportedCost }: Usage): Pico | undefined {
  const amount = reportedCost === undefined ? undefined : parseUsd(reportedCost)
  return amount === undefined || amount < 0n ? undefined : amount
}

// The amounts of a charge as the answer shows them.

const groups: Readonly<Record<string, keyof Bill['lines']>> = {
  input: 'input',
  inputAudio: 'input',
  inputImage: 'input',
  cacheRead: 'cache_read',
  cacheReadAudio: 'cache_read',
  cacheWrite5m: 'cache_write',
  cacheWrite1h: 'cache_write',
  output: 'output',
  outputAudio: 'output',
  outputImage: 'output',
  // Some providers report one price for the whole call: it is shown as output.
  reported: 'output',
  reasoning: 'reasoning',
}

/**
 * The amounts of an answer: decimal strings in US dollars that add up to the total exactly. The caller is charged at
 * most `most` picodollars; anything above that is left out of the last parts, so that the answer shows what is
 * charged.
 */
export function billOf(cost: Cost, most: Pico = cost.total): Bill {
  const sums = { input: 0n, cache_read: 0n, cache_write: 0n, output: 0n, reasoning: 0n, tools: 0n }
  let left = smaller(cost.total, most)
  const total = left
  for (const line of cost.lines) {
    const amount = smaller(line.amount, left)
    sums[groups[line.item] ?? 'tools'] += amount
    left -= amount
  }
  return {
    cost: formatUsd(total),
    lines: {
      input: formatUsd(sums.input),
      cache_read: formatUsd(sums.cache_read),
      cache_write: formatUsd(sums.cache_write),
      output: formatUsd(sums.output),
      reasoning: formatUsd(sums.reasoning),
      tools: formatUsd(sums.tools),
    },
  }
}

// Warns the operator when the provider's bill may differ from the charge.

type Call = Pick<PaidCall, 'requestId'>

function servedBy({ requestId }: Call, { provider, model }: Candidate): LogFields {
  return { request_id: requestId, provider: provider.id, model: model.id }
}

/** The provider's bill may exceed the charge because a rate is missing: names the rate to add. */
export function warnOfUnpriced(log: Log, call: Call, candidate: Candidate, { cost }: Charge): void {
  if (cost.unpriced.length === 0) return
  log.warn('charged at the standard rate: the catalog has no rate for what was served', {
    ...servedBy(call, candidate),
    unpriced: cost.unpriced.join(', '),
  })
}

/** Logs what the provider bills but the caller does not pay, or pays beyond the limit of its key. */
export function warnOfUnpaid(log: Log, call: Call, candidate: Candidate, result: SettleResult): void {
  if (result.kind !== 'settled' || (result.absorbed === 0n && !result.overLimit)) return
  log.warn('a provider billed more than was held for the call', {
    ...servedBy(call, candidate),
    absorbed_usd: formatUsd(result.absorbed),
    over_limit: result.overLimit,
  })
}

/** The provider has counted an answer as it cannot have been, or reports a cost that cannot be. */
export function warnOfUncounted(
  log: Log,
  call: Call,
  candidate: Candidate,
  usage: Usage | undefined,
  credible: Usage | undefined,
): void {
  if (usage === undefined || credible === undefined) return
  if (usage.reportedCost !== undefined && credible.reportedCost === undefined)
    log.warn('a provider reports a cost that its model cannot come to: the catalog price is charged', {
      ...servedBy(call, candidate),
      reported_usd: usage.reportedCost,
    })
  const doubted = doubtedIn(usage, credible)
  if (doubted.length === 0) return
  log.warn('a provider has not counted a call as it can have been: it is estimated', {
    ...servedBy(call, candidate),
    uncounted: doubted.join(', '),
    prompt_tokens: promptTokens(usage),
    completion_tokens: completionTokens(usage),
    ...usage.toolCalls,
  })
}

/** What of a count is not charged as it was reported. */
function doubtedIn(usage: Usage, credible: Usage): readonly string[] {
  const doubted: string[] = [...(credible.uncounted ?? [])]
  if (usage.toolCalls !== credible.toolCalls) doubted.push(...Object.keys(usage.toolCalls))
  if (usage.billed !== credible.billed) doubted.push('billed')
  return doubted
}

// An ended call, as the log line and the request log show it.

interface CallEnding {
  /** Milliseconds since 1970. */
  readonly at: number
  readonly charge: Charge
  readonly ending: string | null
  readonly status: number
  readonly code: string | null
  readonly error: GatewayError | undefined
  readonly attempts: readonly Attempt[]
  readonly firstByteMs: number | null
}

export function endedCall(
  call: Omit<PaidCall, 'bodyBytes' | 'signal' | 'stopping'>,
  ended: CallEnding,
): EndedCall {
  const { caller, request, requestId, arrivedAt } = call
  const { charge, attempts, error } = ended
  return {
    requestId,
    at: ended.at,
    account: caller.account.id,
    key: caller.key?.id ?? null,
    lastFour: caller.key?.lastFour ?? null,
    model: request.envelope.model,
    provider: attempts.at(-1)?.provider ?? null,
    stream: request.envelope.stream,
    status: ended.status,
    code: ended.code,
    ending: ended.ending,
    promptTokens: promptTokens(charge.usage),
    completionTokens: completionTokens(charge.usage),
    cost: charge.cost.total,
    attempts: attempts.length,
    firstByteMs: ended.firstByteMs,
    totalMs: Math.round(performance.now() - arrivedAt),
    detail: error === undefined ? null : detailOf(error),
    contents: contentsOf(call),
    tags: call.tags ?? null,
    tried: outcomesOf(attempts, error),
  }
}

/** Undefined where all attempts were answers of the last one's provider. */
function outcomesOf(attempts: readonly Attempt[], error: GatewayError | undefined): EndedCall['tried'] {
  const last = attempts.at(-1)
  // The provider broke an answer off that it had begun.
  const isBroken = error?.details.source === 'provider' && last?.outcome === 'served'
  const isPlain = attempts.every(({ provider, code, reason }) => {
    return provider === last?.provider && code === null && reason === null
  })
  if (isPlain && !isBroken) return undefined
  return attempts.map((attempt) => ({
    provider: attempt.provider,
    outcome:
      isBroken && attempt === last
        ? error.code
        : (attempt.code ?? (attempt.reason === null ? attempt.outcome : 'cached')),
  }))
}

/** A call that was refused before credit was held for it. */
export function refusedCall(
  call: Omit<PaidCall, 'bodyBytes' | 'signal' | 'stopping'>,
  error: GatewayError,
  at: number,
  figures: Readonly<Record<string, unknown>> = {},
): EndedCall {
  const { status, code } = error
  const nothing = { charge: noCharge, ending: null, attempts: [], firstByteMs: null }
  const group = call.caller.standing?.group ?? null
  return {
    ...endedCall(call, { ...nothing, at, status, code, error }),
    detail: detailOf(error, figures),
    group,
  }
}

const longestMessage = 300
const longestDetail = 2_000

/**
 * The details of an error beside its code, as JSON: the amounts of a refusal, the field at fault. Messages about a bad
 * body are left out, because they may quote it. Attempts are on the receipt.
 */
export function detailOf(
  { code, message, details }: GatewayError,
  figures: Readonly<Record<string, unknown>> = {},
): string {
  const { attempts: _, ...metadata } = details.metadata ?? {}
  const said =
    code === 'invalid_request' && details.source !== 'provider'
      ? {}
      : { message: message.slice(0, longestMessage) }
  const param = details.param === undefined ? {} : { param: details.param.slice(0, longestMessage) }
  const whole = JSON.stringify({ ...said, ...param, ...metadata, ...figures })
  return whole.length <= longestDetail ? whole : JSON.stringify({ ...said, ...param })
}
