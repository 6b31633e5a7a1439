// The statements of every account and month after a history, against the journal as it is read here, line by line: they
// open where the month before has closed, hold every line of their month, and end at what lots, debts and calls say.

import type { Database, Statement } from 'bun:sqlite'
import type {
  MonthlySums,
  StatementBalance,
  StatementEntry,
  StatementReader,
} from '../../src/credits/ledger/monthly.ts'
import { show } from './simulation.ts'
import type { System } from './system.ts'

interface Line {
  readonly tx: number
  readonly at: number
  readonly kind: string
  readonly account: string
  readonly pool: string
  readonly lot: string | null
  readonly amount: bigint
}

interface Compared {
  readonly months: number
  /** What does not add up first; null when everything does. */
  readonly broken: string | null
}

/** Less than a page of a statement, so that pages are put together. */
const pageSize = 3

export class StatementCheck {
  readonly #reader: StatementReader
  readonly #sums: System['MonthlySums']
  readonly #sql: ReturnType<typeof statements>

  constructor(database: Database, { SqlStatements, SqliteTables, bookingsOfSqlite, MonthlySums }: System) {
    this.#reader = new SqlStatements(new SqliteTables(database), bookingsOfSqlite)
    this.#sums = MonthlySums
    this.#sql = statements(database)
  }

  async compare(): Promise<Compared> {
    const lines = this.#sql.lines.all().map(lineOf)
    const accounts = new Set(lines.map(({ account }) => account))
    let months = 0
    for (const account of accounts) {
      const own = lines.filter((line) => line.account === account)
      for (const [from, to] of monthsAround(own)) {
        months++
        const broken = await this.#wrongIn(account, own, from, to)
        if (broken !== null)
          return {
            months,
            broken: `the statement of ${account} for ${new Date(from).toISOString()} ${broken}`,
          }
      }
    }
    return { months, broken: null }
  }

  async #wrongIn(account: string, lines: readonly Line[], from: number, to: number): Promise<string | null> {
    const sums = new this.#sums()
    const entries: StatementEntry[] = []
    const { opening, closing } = await this.#reader.span(account, { from, to }, (entry) => {
      sums.add(entry)
      entries.push(entry)
    })
    const before = standingAfter(lines.filter(({ at }) => at < from))
    if (!Bun.deepEquals(opening, before)) return `opens with ${show(opening)}, not ${show(before)}`
    const until = standingAfter(lines.filter(({ at }) => at < to))
    if (!Bun.deepEquals(closing, until)) return `closes with ${show(closing)}, not ${show(until)}`
    if (to > lines.at(-1)!.at) {
      const now = this.#standingNow(account)
      if (!Bun.deepEquals(closing, now)) return `ends with ${show(closing)}, not ${show(now)}`
    }
    const during = lines.filter(({ at }) => at >= from && at < to).map(({ account: _, ...line }) => line)
    if (!Bun.deepEquals(linesIn(entries), during)) return 'has other lines than the journal'
    if (!Bun.deepEquals(await this.#paged(account, from, to), entries)) return 'has other lines in its file'
    if (!Bun.deepEquals(sums.days, movementsOf(during))) return `has the sums ${show(sums.days)}`
    const added = await this.#reader.sums({ account, from, to })
    const again = new this.#sums()
    for (const sum of added.sums) again.add(sum)
    if (!Bun.deepEquals(again.days, sums.days)) return `is added up to ${show(again.days)}`
    if (!Bun.deepEquals([added.opening, added.closing], [opening, closing]))
      return 'is added up from another balance'
    return addedUp(sums, opening, closing) ?? this.#wrongReceipt(entries)
  }

  /** What the tables of lots and wallets say, which are not the journal's. */
  #standingNow(account: string): StatementBalance {
    const credit = this.#sql.remaining.all(account).reduce((sum, { amount }) => sum + amount, 0n)
    const owed = this.#sql.debts.all(account).reduce((sum, { amount }) => sum + amount, 0n)
    return { credit, owed }
  }

  async #paged(account: string, from: number, to: number): Promise<StatementEntry[]> {
    const entries: StatementEntry[] = []
    let before: number | null = await this.#reader.firstSince(account, to)
    while (before !== null) {
      const page = await this.#reader.page(account, pageSize, before, from)
      entries.push(...page.entries)
      before = page.next
    }
    return entries
  }

  /** Every charge is that of one call, whole; every grant is its lot. */
  #wrongReceipt(entries: readonly StatementEntry[]): string | null {
    const charges = new Map<string, bigint>()
    for (const { kind, call, lot, amount, source } of entries) {
      if (kind === 'settle') {
        if (call === null) return 'has a charge without a call'
        charges.set(call, (charges.get(call) ?? 0n) - amount)
      }
      if (kind !== 'grant' || lot === null) continue
      const granted = this.#sql.grant.get(lot)
      if (granted?.amount !== amount || granted.source !== source)
        return `has ${amount} granted by ${source}, not ${granted?.amount} by ${granted?.source}`
    }
    for (const [call, charged] of charges) {
      const receipt = this.#sql.charged.get(call)?.amount
      if (receipt !== charged) return `has ${charged} charged for ${call}, whose receipt says ${receipt}`
    }
    return null
  }
}

function addedUp(sums: MonthlySums, opening: StatementBalance, closing: StatementBalance): string | null {
  for (const movements of [sums.days, sums.kinds]) {
    const credit = movements.reduce((sum, movement) => sum + movement.credit, opening.credit)
    const owed = movements.reduce((sum, movement) => sum + movement.owed, opening.owed)
    if (credit !== closing.credit || owed !== closing.owed) return `adds up to ${credit} and ${owed} owed`
  }
  return null
}

function movementsOf(lines: readonly Omit<Line, 'account'>[]): MonthlySums['days'] {
  const nameOf = ({ at, kind, pool }: Omit<Line, 'account'>) =>
    [new Date(at).toISOString().slice(0, 10), kind, pool].join(' ')
  return [...new Set(lines.map(nameOf))].toSorted().map((name) => {
    const own = lines.filter((line) => nameOf(line) === name)
    const [day, kind, pool] = name.split(' ') as [string, StatementEntry['kind'], StatementEntry['pool']]
    return { day, kind, pool, ...standingAfter(own), entries: own.length }
  })
}

/** The months of the lines, with one before and one after them. */
function monthsAround(lines: readonly Line[]): [from: number, to: number][] {
  const starts: number[] = []
  const last = new Date(lines.at(-1)!.at)
  const end = Date.UTC(last.getUTCFullYear(), last.getUTCMonth() + 2)
  const first = new Date(lines[0]!.at)
  for (let month = first.getUTCMonth() - 1; (starts.at(-1) ?? 0) < end; month++)
    starts.push(Date.UTC(first.getUTCFullYear(), month))
  return starts.slice(1).map((to, index) => [starts[index]!, to])
}

/** Credit is what lines with a lot add up to; debt, what those without one do. */
function standingAfter(lines: readonly Pick<Line, 'lot' | 'amount'>[]): StatementBalance {
  let [credit, owed] = [0n, 0n]
  for (const { lot, amount } of lines) {
    if (lot === null) owed -= amount
    else credit += amount
  }
  return { credit, owed }
}

function linesIn(entries: readonly StatementEntry[]): Omit<Line, 'account'>[] {
  return entries
    .toReversed()
    .map(({ tx, at, kind, pool, lot, amount }) => ({ tx, at, kind, pool, lot, amount }))
}

type LineRow = Omit<Line, 'tx' | 'at' | 'pool'> & { readonly tx: bigint; readonly at: bigint }

function lineOf({ tx, at, account: wallet, ...row }: LineRow): Line {
  const [, account = '', pool = ''] = wallet.split(':')
  return { ...row, tx: Number(tx), at: Number(at), account, pool }
}

function statements(database: Database) {
  const amounts = (sql: string): Statement<{ amount: bigint }, [string]> => database.prepare(sql)
  return {
    lines: database.prepare<LineRow, []>(
      `SELECT tx, at, kind, account, lot, amount FROM journal WHERE account GLOB 'wallet:*' ORDER BY tx, leg`,
    ),
    remaining: amounts('SELECT remaining AS amount FROM lot WHERE account = ?'),
    debts: amounts('SELECT debt AS amount FROM wallet WHERE account = ?'),
    charged: amounts('SELECT charged AS amount FROM call WHERE id = ?'),
    grant: database.prepare<{ amount: bigint; source: string }, [string]>(
      'SELECT granted AS amount, source FROM lot WHERE id = ?',
    ),
  }
}
