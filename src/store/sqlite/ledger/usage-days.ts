// Usage per day and month. A call's figures are written in the transaction that ends it, so they always agree with the ledger.

import type { Database, Statement } from 'bun:sqlite'
import { groupTag, tagsOf } from '../../../conversation/tags.ts'
import { startOfDay, startOfMonth } from '../../../credits/calendar.ts'
import { bitOfDay, type UsageAdded } from '../../ledger-rows.ts'
import { isOutage, whenNeeded } from '../database/sqlite.ts'

/** How many refused additions are kept for another try; the rest are only logged. */
const mostKept = 1_000
/** How long until the next try, milliseconds. */
const patienceMs = 60_000

/** A row of an account's day, of a tag of it, or of the whole installation's day. */
type Table = 'usage_day' | 'usage_month' | 'usage_total' | 'usage_provider' | OfTag
type OfTag = 'usage_tag' | 'usage_tag_total'

/** What calls with one tag add to a day. */
type UsageOfTag = UsageAdded & { readonly tag: string; readonly value: string }

interface Refused {
  readonly table: Table
  readonly added: UsageAdded | UsageOfTag
  readonly error: unknown
}

/**
 * Adds usage within a transaction of the caller, to the days of the account and to those of the whole installation.
 * What the database refuses must not undo the charge in the same transaction: it is passed to `refused` for the log,
 * and tried again with a later commit.
 */
export class UsageDays {
  readonly #upserts: Readonly<Record<Exclude<Table, OfTag>, Statement>>
  readonly #ofTag: () => Readonly<Record<OfTag, Statement>>
  readonly #onRefused: (added: UsageAdded, error: unknown) => void
  readonly #retryMs: number
  #added: Writable<UsageAdded>[] = []
  #ofTags: Writable<UsageOfTag>[] = []
  /** In the transaction under way: what was refused for the first time, and what is in at last. */
  #refused: Refused[] = []
  #done = new Set<Refused>()
  /** Refused earlier. */
  #kept: Refused[] = []
  #triedAt = Number.NEGATIVE_INFINITY

  constructor(
    database: Database,
    refused: (added: UsageAdded, error: unknown) => void = () => undefined,
    retryMs = patienceMs,
  ) {
    this.#onRefused = refused
    this.#retryMs = retryMs
    const sums = `ON CONFLICT DO UPDATE SET calls = calls + ?1, errors = errors + ?2, input_tokens = input_tokens + ?3,
       output_tokens = output_tokens + ?4, cost = cost + ?5, charged = charged + ?6, timed = timed + ?7, ms = ms + ?8`
    const figures = 'calls, errors, input_tokens, output_tokens, cost, charged, timed, ms'
    const given = '?1,?2,?3,?4,?5,?6,?7,?8'
    this.#upserts = {
      usage_day: database.prepare(
        `INSERT INTO usage_day (${figures}, day, key, model, account) VALUES (${given},?9,?10,?11,?12) ${sums}`,
      ),
      usage_month: database.prepare(
        `INSERT INTO usage_month (${figures}, month, days, key, account) VALUES (${given},?9,?10,?11,?12)
         ${sums}, days = days | ?10`,
      ),
      usage_total: database.prepare(
        `INSERT INTO usage_total (${figures}, day, channel, model) VALUES (${given},?9,?10,?11) ${sums}`,
      ),
      usage_provider: database.prepare(
        `INSERT INTO usage_provider (${figures}, day, channel, model, provider) VALUES (${given},?9,?10,?11,?12) ${sums}`,
      ),
    }
    this.#ofTag = whenNeeded(() => ({
      usage_tag: database.prepare(
        `INSERT INTO usage_tag (${figures}, day, key, model, tag, value, account)
         VALUES (${given},?9,?10,?11,?12,?13,?14) ${sums}`,
      ),
      usage_tag_total: database.prepare(
        `INSERT INTO usage_tag_total (${figures}, day, channel, model, tag, value)
         VALUES (${given},?9,?10,?11,?12,?13) ${sums}`,
      ),
    }))
  }

  /** The object is kept, and what comes next for the same row is added to it. */
  add(added: UsageAdded): void {
    if (added.tags !== null)
      for (const [tag, value] of Object.entries(tagsOf(added.tags)))
        this.#ofTags.push({ ...added, tag, value })
    if (added.group !== null) this.#ofTags.push({ ...added, tag: groupTag, value: added.group })
    const last = this.#added.at(-1)
    if (last !== undefined && isSameRow(last, added)) addTo(last, added)
    else this.#added.push(added)
  }

  /** May run several times in one transaction. */
  write(): void {
    const written: UsageAdded[] = []
    for (const added of this.#added.length > 1 ? together(this.#added, rowOfDay) : this.#added)
      if (this.#tryAdd('usage_day', added)) written.push(added)
    this.#added = []
    if (this.#ofTags.length > 0) {
      for (const added of together(this.#ofTags, rowOfTag)) {
        this.#tryAdd('usage_tag', added)
        this.#tryAdd('usage_tag_total', added)
      }
      this.#ofTags = []
    }
    if (this.#kept.length > 0 && performance.now() - this.#triedAt >= this.#retryMs) this.#retry(written)
    for (const added of copiesOf(written, rowOfMonth)) this.#tryAdd('usage_month', added)
    for (const added of copiesOf(written, rowOfTotal)) this.#tryAdd('usage_total', added)
    for (const added of copiesOf(written, rowOfProvider))
      if (added.provider !== '') this.#tryAdd('usage_provider', added)
  }

  onCommitted(): void {
    if (this.#done.size > 0) this.#kept = this.#kept.filter((kept) => !this.#done.has(kept))
    this.#done = new Set()
    for (const refused of this.#refused.splice(0)) {
      if (this.#kept.length === 0) this.#triedAt = performance.now()
      if (this.#kept.length < mostKept) this.#kept.push(refused)
      this.#onRefused(refused.added, refused.error)
    }
  }

  /** Forgets what has not been written: those who added it will do so again. */
  forget(): void {
    this.#added = []
    this.#ofTags = []
    this.#refused = []
    this.#done = new Set()
  }

  #retry(written: UsageAdded[]): void {
    this.#triedAt = performance.now()
    for (const kept of this.#kept) {
      if (this.#refusal(kept.table, kept.added) !== undefined) continue
      this.#done.add(kept)
      if (kept.table === 'usage_day') written.push(kept.added)
    }
  }

  /** Whether it is in. */
  #tryAdd(table: Table, added: UsageAdded | UsageOfTag): boolean {
    const error = this.#refusal(table, added)
    if (error !== undefined) this.#refused.push({ table, added, error })
    return error === undefined
  }

  /** Why the database refuses it; undefined where it is in. Throws when the database cannot be written at all. */
  #refusal(table: Table, added: UsageAdded | UsageOfTag): unknown {
    const { account, at, key, model, calls, errors, cost, charged, provider, timed, ms } = added
    const [input, output] = [Math.round(added.inputTokens), Math.round(added.outputTokens)]
    const day = startOfDay(at)
    const channel = key === null ? 'app' : 'api'
    const figures = [calls, errors, input, output, cost, charged, timed, Math.round(ms)] as const
    try {
      if ('tag' in added) {
        const { tag, value } = added
        const { usage_tag, usage_tag_total } = this.#ofTag()
        if (table === 'usage_tag') usage_tag.run(...figures, day, key ?? '', model, tag, value, account)
        else usage_tag_total.run(...figures, day, channel, model, tag, value)
        return undefined
      }
      const { usage_day, usage_month, usage_total, usage_provider } = this.#upserts
      if (table === 'usage_day') usage_day.run(...figures, day, key ?? '', model, account)
      else if (table === 'usage_total') usage_total.run(...figures, day, channel, model)
      else if (table === 'usage_provider') usage_provider.run(...figures, day, channel, model, provider)
      else usage_month.run(...figures, startOfMonth(at), bitOfDay(at), key ?? '', account)
      return undefined
    } catch (thrown) {
      if (isOutage(thrown)) throw thrown
      return thrown
    }
  }
}

/** What several calls add to one row, added up: calls that end together are often of one key and model. */
function together<Added extends UsageAdded>(
  added: readonly Writable<Added>[],
  rowOf: (added: Added) => string,
): Iterable<Added> {
  const rows = new Map<string, Writable<Added>>()
  for (const one of added) {
    const name = rowOf(one)
    const row = rows.get(name)
    if (row === undefined) rows.set(name, one)
    else addTo(row, one)
  }
  return rows.values()
}

/** What one table takes of them, apart from what the others do. */
function copiesOf(
  written: readonly UsageAdded[],
  rowOf: (added: UsageAdded) => string,
): Iterable<UsageAdded> {
  return written.length > 1 ? together(written.map(copyOf), rowOf) : written
}

// Of one row of `usage_day`, and of one provider.
function rowOfDay({ account, at, key, model, provider }: UsageAdded): string {
  return `${account} ${startOfDay(at)} ${key ?? ''} ${provider} ${model}`
}

/** With the day: a row of the month has a bit for each. */
function rowOfMonth({ account, at, key }: UsageAdded): string {
  return `${account} ${startOfDay(at)} ${key ?? ''}`
}

function rowOfTag(added: UsageOfTag): string {
  return JSON.stringify([rowOfDay(added), added.tag, added.value])
}

function rowOfTotal({ at, key, model }: UsageAdded): string {
  return `${startOfDay(at)} ${key === null ? 'app' : 'api'} ${model}`
}

function rowOfProvider(added: UsageAdded): string {
  return `${added.provider} ${rowOfTotal(added)}`
}

function copyOf(added: UsageAdded): Writable<UsageAdded> {
  return { ...added }
}

function isSameRow(one: UsageAdded, other: UsageAdded): boolean {
  return (
    one.key === other.key &&
    one.model === other.model &&
    one.account === other.account &&
    one.provider === other.provider &&
    startOfDay(one.at) === startOfDay(other.at)
  )
}

function addTo(row: Writable<UsageAdded>, one: UsageAdded): void {
  row.calls += one.calls
  row.errors += one.errors
  row.inputTokens += one.inputTokens
  row.outputTokens += one.outputTokens
  row.cost += one.cost
  row.charged += one.charged
  row.timed += one.timed
  row.ms += one.ms
}

type Writable<T> = { -readonly [Field in keyof T]: T[Field] }
