// What the rows of the ledger say, whatever the database: a call, as receipts and recovery read it; the hash chain of the
// journal; what a correction has done.

import { tagsOf } from '../conversation/request.ts'
import { completionTokens, noUsage, promptTokens, tokenBuckets, type Usage } from '../conversation/usage.ts'
import type {
  AdjustCommand,
  Attempt,
  CallRecord,
  Ending,
  GrantCommand,
  GroupCall,
  RefundCommand,
  Served,
} from '../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../credits/money.ts'
import { type Pool, pools } from '../credits/pool.ts'
import type { CostLine } from '../credits/price.ts'
import type { CallChange, Checkpoint, OpenCall, Pin } from '../credits/wallet.ts'
import { GatewayError } from '../errors/errors.ts'
import type { CallEnd, GroupWrites, ReceiptFacts } from './ledger-core.ts'
import type { Row } from './schema.ts'

/**
 * The receipt of a row with this price version. What the row's columns say is left out, and so are empty buckets: most
 * calls use three of ten.
 */
export function receiptText(
  facts: ReceiptFacts | null,
  attempts: readonly Attempt[],
  open: Pick<OpenCall, 'model' | 'priceVersion'>,
): string | null {
  // A call that served nothing only has attempts.
  if (facts === null) return attempts.length === 0 ? null : JSON.stringify({ attempts })
  const { usage, lines, served, overLimit } = facts
  const stored: Writable<StoredReceipt> = {
    usage: usageFacts(usage),
    lines: lines.map(lineFacts),
    served: served && servedFacts(served, open),
  }
  if (overLimit) stored.overLimit = true
  return JSON.stringify(stored)
}

/** Nearly always the first attempt is the only one: of that, two numbers say what the rest does not. */
function servedFacts(
  served: Served,
  { model, priceVersion }: Pick<OpenCall, 'model' | 'priceVersion'>,
): StoredServed {
  const { provider, upstreamModel, stream, attempts, firstByteMs, totalMs, finishReason } = served
  const stored: Writable<StoredServed> = {
    provider,
    upstreamModel,
    stream,
    firstByteMs,
    totalMs,
    finishReason,
  }
  if (served.model !== undefined && served.model !== model) stored.model = served.model
  if (served.priceVersion !== priceVersion) stored.priceVersion = served.priceVersion
  if (served.unpriced !== undefined && served.unpriced.length > 0) stored.unpriced = served.unpriced
  if (served.route !== undefined) stored.route = served.route
  if (served.guards !== undefined) stored.guards = served.guards
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

function checkpointText({ usage, cost }: Checkpoint): string {
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

/** As `open_call.in_group` says it. A limit is a text: JSON.parse would round it. */
interface StoredGroupCall {
  readonly group: string
  readonly person: string
  readonly budgets: readonly (readonly [
    scope: string,
    windowStart: number,
    windowEnd: number | null,
    limit: string | null,
  ])[]
}

function groupText(inGroup: GroupCall | null): string | null {
  if (inGroup === null) return null
  const { group, person } = inGroup
  const budgets = inGroup.budgets.map(
    ({ scope, windowStart, windowEnd, limit }) =>
      [scope, windowStart, windowEnd, limit === null ? null : String(limit)] as const,
  )
  return JSON.stringify({ group, person, budgets } satisfies StoredGroupCall)
}

/** The call of a group that the column says; null for a call in none. */
export function groupCallIn(text: string | null): GroupCall | null {
  if (text === null) return null
  const { group, person, budgets } = JSON.parse(text) as StoredGroupCall
  return {
    group,
    person,
    budgets: budgets.map(([scope, windowStart, windowEnd, limit]) => ({
      scope,
      limit: limit === null ? null : BigInt(limit),
      windowStart,
      windowEnd,
    })),
  }
}

/** What of an open call goes into each column of its row. */
export function cellsOfOpen(account: string, open: OpenCall) {
  return {
    id: open.call,
    account,
    key: open.key,
    hold: open.hold,
    pins: pinsText(open.pins),
    funding: open.funding.join(','),
    model: open.model,
    price_version: open.priceVersion,
    key_limit: open.keyLimit?.limit ?? null,
    key_window: open.keyLimit?.windowStart ?? null,
    owner: open.owner,
    lease_until: open.leaseUntil,
    opened_at: open.openedAt,
    progress: progressText(open),
    tags: open.tags,
    in_group: groupText(open.inGroup),
  }
}

/** The last checkpoint of a call, as its column says it. */
export function progressText({ checkpoint }: OpenCall): string | null {
  return checkpoint === null ? null : checkpointText(checkpoint)
}

/** The same of an ended call. */
export function cellsOfEnded(
  account: string,
  { open, state, cost, charged, absorbed }: Extract<CallChange, { kind: 'ended' }>,
  end: CallEnd,
) {
  return {
    id: open.call,
    account,
    key: open.key,
    state,
    hold: open.hold,
    funding: open.funding.join(','),
    model: open.model,
    price_version: open.priceVersion,
    owner: open.owner,
    opened_at: open.openedAt,
    ended_at: end.at,
    ending: end.ending,
    cost,
    charged,
    absorbed,
    estimated: end.receipt?.estimated ? 1 : 0,
    upstream_id: end.receipt?.served?.upstreamId ?? null,
    receipt: receiptText(end.receipt, end.attempts, open),
    in_group: groupText(open.inGroup),
    settle_tx: end.tx,
    tags: open.tags,
  }
}

/** The same of the attempts of a call that gave no answer. */
export function cellsOfFailures(call: string, attempts: readonly Attempt[]) {
  return attempts.flatMap(({ outcome, provider, upstreamId: upstream_id, code }, n) => {
    if (outcome === 'served') return []
    const state = provider === 'unreconciled' ? 'unreconciled' : 'failed'
    return [{ call, n, provider, upstream_id, state, code, est_cost: 0 }]
  })
}

export function openCallOf(row: Row<'openCall'>): OpenCall {
  return {
    call: row.id,
    key: row.key,
    keyLimit:
      row.key_limit === null ? null : { limit: row.key_limit, windowStart: Number(row.key_window ?? 0n) },
    inGroup: groupCallIn(row.in_group),
    funding: row.funding.split(',').filter(isPool),
    hold: row.hold,
    pins: pinsOf(row.pins),
    owner: row.owner,
    leaseUntil: Number(row.lease_until),
    checkpoint: checkpointOf(row.progress),
    model: row.model,
    tags: row.tags,
    priceVersion: row.price_version,
    openedAt: Number(row.opened_at),
  }
}

function isPool(name: string): name is Pool {
  return (pools as readonly string[]).includes(name)
}

/** What a call has delivered, as its row says. */
export function checkpointOf(text: string | null): Checkpoint | null {
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
    inGroup: groupCallIn(row.in_group),
    model: row.model,
    tags: tagsOf(row.tags),
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

// What calls add to the usage of their days.

/** What one call, or several of one key and model, adds to a day. */
export interface UsageAdded {
  readonly account: string
  /** Milliseconds since 1970. */
  readonly at: number
  readonly key: string | null
  readonly model: string
  readonly calls: number
  /** Calls that were refused, got no answer, or were broken off by the provider. */
  readonly errors: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cost: bigint
  readonly charged: bigint
  /** As `tagsText` writes them; null without any. */
  readonly tags: string | null
  /** The group of the key; null for a call in none. */
  readonly group: string | null
  /** Who answered, or was asked last; empty if no provider was. */
  readonly provider: string
  /** Calls that were answered, and how long they took together, milliseconds. */
  readonly timed: number
  readonly ms: number
}

/** What the end of a call adds, to the days of the person who made it. */
export function usageAddedBy(
  account: string,
  { open, state, cost, charged }: Extract<CallChange, { kind: 'ended' }>,
  end: CallEnd,
): UsageAdded {
  const usage = end.receipt?.usage ?? noUsage
  const isLeft = end.ending === 'client-gone' || end.ending === 'client_gone'
  const failed = state === 'voided' ? !isLeft : end.ending === 'provider-cut'
  return {
    account: open.inGroup?.person ?? account,
    at: end.at,
    key: open.key,
    model: end.receipt?.served?.model ?? open.model,
    calls: 1,
    errors: failed ? 1 : 0,
    inputTokens: promptTokens(usage),
    outputTokens: completionTokens(usage),
    cost,
    charged,
    tags: open.tags,
    group: open.inGroup?.group ?? null,
    provider: providerOf(end),
    timed: state === 'settled' ? 1 : 0,
    ms: state === 'settled' ? Math.max(0, end.at - open.openedAt) : 0,
  }
}

/** Who answered a call, or was asked last; empty if nobody was. */
function providerOf({ receipt, attempts }: CallEnd): string {
  const last = receipt?.served?.provider ?? attempts.at(-1)?.provider ?? ''
  return last === 'unreconciled' ? '' : last
}

/** The column with what a day has cost, in the row of its month. */
export function costColumnOf(at: number): string {
  return `cost_${new Date(at).getUTCDate()}`
}

/** Stands for a day among those of its month. */
export function bitOfDay(at: number): number {
  return 2 ** (new Date(at).getUTCDate() - 1)
}

// The hash chain of the journal: every line carries the hash of the one before.

/** The hash before the first line. */
export const genesis = new Uint8Array(32)

export type HashedFields = Pick<Row<'journal'>, 'kind' | 'account' | 'lot' | 'amount'> & {
  readonly tx: bigint | number
  readonly leg: bigint | number
  readonly at: bigint | number
}

/**
 * SHA-256 over the hash before, in hex, and a JSON array of the fields as strings: no two different lines look the
 * same to it, and anybody can compute it again with a shell.
 */
export function hashOf(previous: Uint8Array, row: HashedFields): Uint8Array<ArrayBuffer> {
  const hash = new Uint8Array(32)
  Bun.SHA256.hash(previous.toHex() + fieldsText(row), hash)
  return hash
}

/** What JSON.stringify makes of the fields as strings, at a third of its time where nothing has to be escaped. */
function fieldsText({ tx, leg, kind, account, lot, amount, at }: HashedFields): string {
  if (!isPlainText(kind) || !isPlainText(account) || !(lot === null || isPlainText(lot)))
    return JSON.stringify([`${tx}`, `${leg}`, kind, account, lot, `${amount}`, `${at}`])
  const lotText = lot === null ? 'null' : `"${lot}"`
  return `["${tx}","${leg}","${kind}","${account}",${lotText},"${amount}","${at}"]`
}

const plainText = /^[ !#-[\]-~]*$/

function isPlainText(text: string): boolean {
  return plainText.test(text)
}

// Refunds and adjustments: each once for its id, with the answer that was given.

/** What a correction did, in picodollars. */
interface Corrected {
  readonly taken: Pico
  readonly debt: Pico
}

type CorrectionRow = Row<'correction', 'account' | 'kind' | 'lot' | 'taken' | 'debt'>

/** What the refund with this id has done before. Throws `idempotency_conflict` when the row is another one's. */
function doneBy(
  { account, lot, amount }: RefundCommand,
  done: CorrectionRow | null | undefined,
): Corrected | undefined {
  if (!done) return undefined
  // Older rows do not name the lot.
  const sameLot = done.lot === null || done.lot === lot
  if (done.kind === 'refund' && done.account === account && sameLot && done.taken + done.debt === amount)
    return done
  throw conflictWith(done)
}

/** Whether the adjustment with this id was made before. Throws `idempotency_conflict` when the row is another one's. */
function isDone({ account, amount }: AdjustCommand, done: CorrectionRow | null | undefined): boolean {
  if (!done) return false
  // Older rows have no amount.
  const sameAmount = done.taken === 0n || done.taken === -amount
  if (done.kind === 'adjust' && done.account === account && sameAmount) return true
  throw conflictWith(done)
}

function conflictWith({ kind, account, taken, debt }: CorrectionRow): GatewayError {
  const what =
    kind === 'refund'
      ? `refunded ${formatUsd(taken + debt)} USD`
      : `adjusted credit by ${formatUsd(-taken)} USD`
  return new GatewayError('idempotency_conflict', {
    message: `This id has ${what} for the account ${account} before.`,
  })
}

/** Where a database has its corrections. */
interface CorrectionTable {
  find(id: string): CorrectionRow | null | undefined
  /** What all refunds of this lot have taken back, less what has failed. */
  refundedOf(lot: string): Pico
  insert(row: CorrectionRow & { readonly id: string }, at: number): void
  logAct(act: ActCells): void
}

/** What of an operator's act goes into each column of its row. */
export interface ActCells {
  readonly at: number
  readonly operator: string
  readonly what: string
  readonly subject: string
  readonly after: string
}

export function correctionsIn(table: CorrectionTable): GroupWrites['corrections'] {
  return {
    findRefund: (command) => doneBy(command, table.find(command.id)),
    hasAdjusted: (command) => isDone(command, table.find(command.id)),
    refundedOf: (lot) => table.refundedOf(lot),
    noteRefund: ({ id, account, lot }, { taken, debt }, at) =>
      table.insert({ id, account, kind: 'refund', taken, debt, lot }, at),
    noteAdjustment: ({ id, account, pool, amount, refundOf, operator }, at) => {
      table.insert({ id, account, kind: 'adjust', taken: -amount, debt: 0n, lot: refundOf ?? null }, at)
      // An act that was logged by itself could be missing: the audit takes an adjustment without one for forged.
      if (operator === undefined) return
      const after = JSON.stringify({ id, pool, usd: formatUsd(amount) })
      table.logAct({ at, operator, what: 'credits.adjust', subject: account, after })
    },
  }
}

/** The act of the operator who has granted this lot; undefined where none has. */
export function actOfGrant(
  { account, pool, amount, source, operator }: GrantCommand,
  lot: string,
  at: number,
): ActCells | undefined {
  if (!operator) return undefined
  const after = JSON.stringify({ pool, usd: formatUsd(amount), lot, source, note: operator.note })
  return { at, operator: operator.id, what: 'credits.grant', subject: account, after }
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
