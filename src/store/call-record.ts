// A call as stored in the database and read by receipts and recovery.

import { noUsage, tokenBuckets, type Usage } from '../conversation/usage.ts'
import type { Attempt, CallRecord, Ending, Served } from '../credits/ledger/ledger.ts'
import type { CostLine } from '../credits/price.ts'
import { pools, type Pool } from '../credits/pool.ts'
import type { Checkpoint, OpenCall, Pin } from '../credits/wallet.ts'
import type { Row } from './schema.ts'

/** The parts of a receipt that are neither sums nor keys, stored in one JSON column. */
export interface ReceiptFacts {
  readonly usage: Usage
  readonly lines: readonly CostLine[]
  readonly served: Served | null
  readonly overLimit: boolean
}

/**
 * The receipt of a row with this price version. What the row's columns say is left out, and so are empty buckets: most
 * calls use three of ten.
 */
export function receiptText(
  facts: ReceiptFacts | null,
  attempts: readonly Attempt[],
  priceVersion: string,
): string | null {
  // A call that served nothing only has attempts.
  if (facts === null) return attempts.length === 0 ? null : JSON.stringify({ attempts })
  const { usage, lines, served, overLimit } = facts
  const stored: Writable<StoredReceipt> = {
    usage: usageFacts(usage),
    lines: lines.map(lineFacts),
    served: served && servedFacts(served, priceVersion),
  }
  if (overLimit) stored.overLimit = true
  return JSON.stringify(stored)
}

/** Nearly always the first attempt is the only one: of that, two numbers say what the rest does not. */
function servedFacts(served: Served, priceVersion: string): StoredServed {
  const { provider, upstreamModel, stream, attempts, firstByteMs, totalMs, finishReason } = served
  const stored: Writable<StoredServed> = {
    provider,
    upstreamModel,
    stream,
    firstByteMs,
    totalMs,
    finishReason,
  }
  if (served.priceVersion !== priceVersion) stored.priceVersion = served.priceVersion
  if (served.unpriced !== undefined && served.unpriced.length > 0) stored.unpriced = served.unpriced
  const only = attempts[0]
  if (attempts.length === 1 && only && isPlain(only, provider)) stored.attempt = [only.ms, only.status]
  else stored.attempts = attempts
  return stored
}

function isPlain({ provider, outcome, code, upstreamId, reason }: Attempt, server: string): boolean {
  return (
    provider === server && outcome === 'served' && code === null && upstreamId === null && reason === null
  )
}

function lineFacts({ item, quantity, rate, amount, round }: CostLine): StoredLine {
  const facts = [item, quantity, String(rate), String(amount)] as const
  return round === undefined ? facts : [...facts, round]
}

export function checkpointText({ usage, cost }: Checkpoint): string {
  return JSON.stringify({ usage: usageFacts(usage), cost: String(cost) })
}

function usageFacts(usage: Usage): Partial<Usage> {
  const facts: { -readonly [Name in keyof Usage]?: Usage[Name] } = {}
  for (const bucket of tokenBuckets) if (usage[bucket] !== 0) facts[bucket] = usage[bucket]
  if (usage.toolCalls !== noUsage.toolCalls) facts.toolCalls = usage.toolCalls
  if (usage.reportedCost !== undefined) facts.reportedCost = usage.reportedCost
  if (usage.billed !== undefined) facts.billed = usage.billed
  if (usage.serviceTier !== undefined) facts.serviceTier = usage.serviceTier
  if (usage.searchContext !== undefined) facts.searchContext = usage.searchContext
  return facts
}

function usageOf(facts: Partial<Usage>): Usage {
  return { ...noUsage, ...facts }
}

/** A JSON array of `lot amount` pairs, so that an audit can sum the pins in SQL. */
export function pinsText(pins: readonly Pin[]): string {
  let text = ''
  for (const pin of pins) text += `${text === '' ? '' : ','}["${pin.lot}",${pin.amount}]`
  return `[${text}]`
}

// The amounts are JSON numbers beyond 2^53, which JSON.parse would round.
const pinPattern = /\["([^"]+)",(\d+)\]/g

export function pinsOf(text: string): Pin[] {
  return Array.from(text.matchAll(pinPattern), (match) => ({ lot: match[1]!, amount: BigInt(match[2]!) }))
}

export function openCallOf(row: Row<'openCall'>): OpenCall {
  return {
    call: row.id,
    key: row.key,
    keyLimit:
      row.key_limit === null ? null : { limit: row.key_limit, windowStart: Number(row.key_window ?? 0n) },
    funding: row.funding.split(',').filter(isPool),
    hold: row.hold,
    pins: pinsOf(row.pins),
    owner: row.owner,
    leaseUntil: Number(row.lease_until),
    checkpoint: checkpointOf(row.progress),
    model: row.model,
    priceVersion: row.price_version,
    openedAt: Number(row.opened_at),
  }
}

function isPool(name: string): name is Pool {
  return (pools as readonly string[]).includes(name)
}

function checkpointOf(text: string | null): Checkpoint | null {
  if (text === null) return null
  const facts = JSON.parse(text) as { usage: Partial<Usage>; cost: string }
  return { usage: usageOf(facts.usage), cost: BigInt(facts.cost) }
}

export function openRecordOf(row: Row<'openCall'>): CallRecord {
  return {
    ...factsOf(row),
    state: 'open',
    endedAt: null,
    cost: 0n,
    charged: 0n,
    absorbed: 0n,
    estimated: false,
    usage: null,
    lines: [],
    ending: null,
    released: null,
    served: null,
    overLimit: false,
    attempts: [],
    drawn: [],
  }
}

export function endedRecordOf(row: Row<'call'>, drawn: CallRecord['drawn']): CallRecord {
  const stored = row.receipt === null ? null : (JSON.parse(row.receipt) as StoredReceipt | StoredAttempts)
  const facts = stored !== null && 'usage' in stored ? stored : null
  const served = facts?.served ? servedOf(facts.served, row) : null
  return {
    ...factsOf(row),
    state: row.state,
    endedAt: Number(row.ended_at),
    cost: row.cost,
    charged: row.charged,
    absorbed: row.absorbed,
    estimated: row.estimated === 1n,
    usage: facts ? usageOf(facts.usage) : null,
    lines: facts
      ? facts.lines.map(([item, quantity, rate, amount, round]) => ({
          item,
          quantity,
          rate: BigInt(rate),
          amount: BigInt(amount),
          ...(round === undefined ? {} : { round }),
        }))
      : [],
    ending: row.state === 'settled' ? (row.ending as Ending) : null,
    released: row.state === 'voided' ? row.ending : null,
    served,
    overLimit: facts?.overLimit === true,
    attempts: attemptsOf(
      stored !== null && 'attempts' in stored ? stored.attempts : (served?.attempts ?? []),
    ),
    drawn,
  }
}

/** Calls of earlier versions have everything in `served`, whatever the columns say. */
function servedOf(stored: StoredServed, row: Row<'call'>): Served {
  const { attempt, attempts, ...facts } = stored
  return {
    ...facts,
    upstreamId: stored.upstreamId ?? row.upstream_id,
    priceVersion: stored.priceVersion ?? row.price_version,
    attempts: attempt ? [plainAttempt(stored.provider, ...attempt)] : (attempts ?? []),
  }
}

function plainAttempt(provider: string, ms: number, status: number | null): Attempt {
  return { provider, outcome: 'served', code: null, upstreamId: null, ms, status, reason: null }
}

/** Calls of earlier versions have attempts without status and reason. */
function attemptsOf(attempts: readonly Attempt[]): readonly Attempt[] {
  return attempts.map((attempt) => ({
    ...attempt,
    status: attempt.status ?? null,
    reason: attempt.reason ?? null,
  }))
}

function factsOf(row: Row<'openCall'> | Row<'call'>) {
  return {
    call: row.id,
    account: row.account,
    key: row.key,
    model: row.model,
    priceVersion: row.price_version,
    hold: row.hold,
    openedAt: Number(row.opened_at),
  }
}

interface StoredAttempts {
  readonly attempts: readonly Attempt[]
}

type StoredLine = readonly [CostLine['item'], number, string, string, number?]

interface StoredReceipt {
  readonly usage: Partial<Usage>
  readonly lines: readonly StoredLine[]
  readonly served: StoredServed | null
  readonly overLimit?: true
}

/** `attempt`: milliseconds and status of the one attempt that served, in place of `attempts`. */
type StoredServed = Omit<Served, 'upstreamId' | 'priceVersion' | 'attempts'> &
  Partial<Pick<Served, 'upstreamId' | 'priceVersion' | 'attempts'>> & {
    readonly attempt?: readonly [ms: number, status: number | null]
  }

type Writable<T> = { -readonly [Name in keyof T]: T[Name] }
