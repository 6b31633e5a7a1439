// PostgreSQL as the protocol of several writers sees it: what each statement of the ledger does to the rows, one after the
// other, with the locks of transactions. Which guards a statement has is read from its text. All else is the ledger's own.

import { SQL } from 'bun'
import type { Value } from '../../../src/store/sql/work.ts'

type Cell = string | number | null
export type Row = Readonly<Record<string, Cell>>

export interface ChainRow {
  readonly id: number
  readonly owner: string
  readonly epoch: number
  readonly batch: number
  readonly tx: number
  readonly head: string
  readonly at: number
  readonly heartbeatUntil: number
}

/** What is spent and held of a budget in one window. */
export interface BudgetRow {
  readonly scope: string
  readonly window: number
  readonly version: number
  readonly spent: number
  readonly held: number
}

export function nameOf({ scope, window }: Pick<BudgetRow, 'scope' | 'window'>): string {
  return `${window} ${scope}`
}

/** All that is in the tables. Rows are replaced, never changed: a copy of the maps is a copy of the database. */
export class Rows {
  chains = new Map<number, ChainRow>()
  heads = new Map<string, { readonly version: number; readonly at: number }>()
  lots = new Map<string, Row>()
  open = new Map<string, Row>()
  calls = new Map<string, Row>()
  journal: Row[] = []
  /** By `nameOf`. */
  budgets = new Map<string, BudgetRow>()
  /** What keys have spent: by key, by day. */
  keyDays = new Map<string, ReadonlyMap<number, number>>()
  leader: { readonly owner: string; readonly until: number } | undefined

  copy(): Rows {
    const copy = new Rows()
    copy.chains = new Map(this.chains)
    copy.heads = new Map(this.heads)
    copy.lots = new Map(this.lots)
    copy.open = new Map(this.open)
    copy.calls = new Map(this.calls)
    copy.journal = [...this.journal]
    copy.budgets = new Map(this.budgets)
    copy.keyDays = new Map(this.keyDays)
    copy.leader = this.leader
    return copy
  }

  chainOf(owner: string): ChainRow | undefined {
    return [...this.chains.values()].find((chain) => chain.owner === owner)
  }

  /** What an account may still spend. */
  freeOf(account: string): number {
    let free = 0
    for (const lot of this.lots.values())
      if (lot['account'] === account) free += Number(lot['remaining']) - Number(lot['pinned'])
    return free
  }
}

/** One connection as the server has it. */
export class Session {
  /** What a transaction has written, and carries out when it is committed. */
  transaction: { readonly effects: (() => void)[]; failed: boolean } | undefined
  readonly locks = new Set<string>()
}

/** A group that is being written. */
export interface Group {
  readonly before: ChainRow
  readonly after: ChainRow
  readonly told: readonly { readonly account: string; readonly version: number; readonly next: number }[]
  /** With the figures that are written. */
  readonly toldBudgets: readonly BudgetRow[]
  readonly parts: ReadonlyMap<string, readonly Row[]>
}

/** The statement waits for the lock of another session. */
export const blocked = Symbol('blocked')

export type Answer = readonly Readonly<Record<string, unknown>>[]

export function serverError(state: string): Error {
  return new SQL.PostgresError(`simulated ${state}`, {
    code: 'ERR_POSTGRES_SERVER_ERROR',
    errno: state,
  } as never)
}

/** Numbers of the statement text, as in `id = $1 AND epoch = $2`, with what they compare. */
function guardsIn(text: string, pattern: RegExp): readonly (readonly [column: string, parameter: number])[] {
  const found = pattern.exec(text)?.[1]
  if (found === undefined) throw new Error(`a statement without ${pattern}`)
  return found.split(' AND ').map((each) => {
    const [column, parameter] = each.split(' = $')
    return [column!.trim(), Number(parameter)]
  })
}

const overPrefix = 'over:'

/** The look of a group at its chain: what it compares, and whether it refuses one that is over. */
const ownChain =
  /mine AS MATERIALIZED \(\s*SELECT id FROM chain WHERE (.*?)( AND NOT starts_with\(owner, 'over:'\))? FOR UPDATE\)/

export class SimulatedServer {
  rows = new Rows()
  readonly #sessions = new Set<Session>()
  readonly #now: () => number
  readonly #written: (group: Group, before: Rows) => void
  #nextChain = 1

  /** `written` is told of each group before its rows are there. */
  constructor(now: () => number, written: (group: Group, before: Rows) => void) {
    this.#now = now
    this.#written = written
  }

  connect(): Session {
    const session = new Session()
    this.#sessions.add(session)
    return session
  }

  /** Whatever it had not committed is undone. */
  disconnect(session: Session): void {
    this.#sessions.delete(session)
    this.#endTransaction(session)
  }

  #endTransaction(session: Session): void {
    session.transaction = undefined
    session.locks.clear()
  }

  #isLocked(name: string, session: Session): boolean {
    return [...this.#sessions].some((other) => other !== session && other.locks.has(name))
  }

  /** Carries a statement out, or gives `blocked`. Throws what the server would refuse it with. */
  execute(session: Session, text: string, values: readonly Value[]): Answer | typeof blocked {
    if (session.transaction?.failed && text !== 'COMMIT' && text !== 'ROLLBACK') throw serverError('25P02')
    try {
      return this.#execute(session, text, values)
    } catch (error) {
      this.fail(session)
      throw error
    }
  }

  /** A statement of its transaction was refused. */
  fail(session: Session): void {
    if (session.transaction) session.transaction.failed = true
  }

  #execute(session: Session, text: string, values: readonly Value[]): Answer | typeof blocked {
    if (text === 'BEGIN') {
      session.transaction = { effects: [], failed: false }
      return []
    }
    if (text === 'COMMIT' || text === 'ROLLBACK') {
      const { effects, failed } = session.transaction ?? { effects: [], failed: false }
      this.#endTransaction(session)
      if (text === 'COMMIT' && !failed) for (const effect of effects) effect()
      return []
    }
    if (text.startsWith('WITH told AS')) return this.#group(session, text, values)
    if (text.includes('FOR UPDATE OF head')) return this.#lockWallets(session, values)
    if (text.includes('FOR UPDATE OF b')) return this.#lockBudgets(session, values)
    if (text.includes('AS allowance')) return this.#wallets(values)
    if (text.includes('lot.source = sources.name')) return this.#sources(values)
    if (text.startsWith('INSERT INTO wallet_head')) return this.#addHeads(values)
    if (text.startsWith('INSERT INTO budget_spend')) return this.#addBudgets(values)
    if (text.startsWith('SELECT asked.scope')) return this.#budgets(values)
    if (text.includes('AS relative FROM asked')) return this.#keys(values)
    if (text.includes('beaten AS')) return this.#beat(session, values)
    if (text.startsWith('INSERT INTO chain')) return this.#beginChain(values)
    if (text.startsWith('UPDATE chain') || text.startsWith('SELECT owner'))
      return this.#chains(session, text, values)
    if (text.startsWith('SELECT coalesce(max(at), 0) AS at FROM chain'))
      return [{ at: BigInt(Math.max(0, ...[...this.rows.chains.values()].map(({ at }) => at))) }]
    if (text.startsWith('SELECT batch FROM chain')) {
      const chain = this.rows.chains.get(Number(values[0]))
      return chain ? [{ batch: BigInt(chain.batch) }] : []
    }
    if (text.startsWith('SELECT asked.owner')) {
      const owners = JSON.parse(String(values[0])) as string[]
      return owners.filter((owner) => !this.rows.chainOf(owner)).map((owner) => ({ owner }))
    }
    if (text.startsWith('SELECT id, account, owner, lease_until FROM open_call')) {
      return [...this.rows.open.values()].map(({ id, account, owner, lease_until }) => {
        return { id, account, owner, lease_until: BigInt(lease_until!) }
      })
    }
    if (text.startsWith('DELETE FROM leader')) {
      if (this.rows.leader?.owner === values[0]) this.rows.leader = undefined
      return []
    }
    throw new Error(`the simulated server does not know this statement: ${text}`)
  }

  #beginChain([owner, head]: readonly Value[]): Answer {
    const known = this.rows.chainOf(String(owner))
    const at = Math.max(0, ...[...this.rows.chains.values()].map((chain) => chain.at))
    const fresh = { owner: String(owner), epoch: 1, batch: 0, tx: 0, head: String(head), at }
    const chain = known
      ? { ...known, epoch: known.epoch + 1 }
      : { ...fresh, id: this.#nextChain++, heartbeatUntil: this.#now() + 10_000 }
    this.rows.chains.set(chain.id, chain)
    return [{ id: BigInt(chain.id), epoch: BigInt(chain.epoch) }]
  }

  /** Fences a chain by its id or its owner, or those without a sign of life; or reads it where the text only reads. */
  #chains(session: Session, text: string, values: readonly Value[]): Answer | typeof blocked {
    const isByLife = text.includes('heartbeat_until <')
    const found = [...this.rows.chains.values()].filter((chain) => {
      if (!isByLife)
        return text.includes('WHERE id = $1') ? chain.id === Number(values[0]) : chain.owner === values[0]
      return (
        chain.heartbeatUntil < this.#now() && chain.owner !== values[0] && !chain.owner.startsWith(overPrefix)
      )
    })
    const changed: ChainRow[] = []
    for (const chain of found) {
      if (text.startsWith('SELECT')) {
        changed.push(chain)
        continue
      }
      if (this.#isLocked(`chain ${chain.id}`, session)) return blocked
      const owner = text.includes('|| owner') ? overPrefix + chain.owner : chain.owner
      changed.push({ ...chain, epoch: chain.epoch + 1, owner })
    }
    for (const chain of changed) this.rows.chains.set(chain.id, chain)
    return changed.map(({ owner, epoch, batch, head }) => {
      return { owner, epoch: BigInt(epoch), batch: BigInt(batch), head: Buffer.from(head, 'hex') }
    })
  }

  #beat(session: Session, [owner, lifeMs]: readonly Value[]): Answer | typeof blocked {
    const now = this.#now()
    const before = this.rows.chainOf(String(owner))
    if (!before) return [{ lives: false, leads: false, unbroken: false }]
    if (this.#isLocked(`chain ${before.id}`, session)) return blocked
    const until = now + Number(lifeMs)
    this.rows.chains.set(before.id, { ...before, heartbeatUntil: until })
    const { leader } = this.rows
    const leads = !leader || leader.owner === owner || leader.until < now
    if (leads) this.rows.leader = { owner: String(owner), until }
    return [{ lives: true, leads, unbroken: before.heartbeatUntil >= now }]
  }

  #addHeads([accounts]: readonly Value[]): Answer {
    for (const account of JSON.parse(String(accounts)) as string[])
      if (!this.rows.heads.has(account)) this.rows.heads.set(account, { version: 0, at: 0 })
    return []
  }

  #addBudgets([budgets]: readonly Value[]): Answer {
    for (const { scope, window } of JSON.parse(String(budgets)) as BudgetRow[]) {
      const row = { scope, window, version: 0, spent: 0, held: 0 }
      if (!this.rows.budgets.has(nameOf(row))) this.rows.budgets.set(nameOf(row), row)
    }
    return []
  }

  #budgets([asked]: readonly Value[]): Answer {
    return (JSON.parse(String(asked)) as BudgetRow[]).map(({ scope, window }) => {
      const row = this.rows.budgets.get(nameOf({ scope, window }))
      const cell = (value: number | undefined) => (value === undefined ? null : BigInt(value))
      return {
        scope,
        window: BigInt(window),
        spent: cell(row?.spent),
        held: cell(row?.held),
        version: cell(row?.version),
      }
    })
  }

  /** No key here was rotated: each is a line of its own. */
  #keys([keys]: readonly Value[]): Answer {
    return (JSON.parse(String(keys)) as string[]).map((key) => {
      const days = this.rows.keyDays.get(key)
      const texts = [...(days ?? [])].map(([day, spent]) => [String(day), String(spent)])
      let held = 0
      for (const call of this.rows.open.values()) if (call['key'] === key) held += Number(call['hold'])
      return { key, relative: key, days: days ? JSON.stringify(texts) : null, held: BigInt(held) }
    })
  }

  #accountsOf([accounts, calls]: readonly Value[]): readonly string[] {
    const ofCalls = (JSON.parse(String(calls)) as string[]).flatMap((call) => {
      const open = this.rows.open.get(call)
      if (!open) return []
      const inGroup = open['in_group']
      const owner = inGroup == null ? [] : [(JSON.parse(String(inGroup)) as { person: string }).person]
      return [String(open['account']), ...owner]
    })
    return [...new Set([...(JSON.parse(String(accounts)) as string[]), ...ofCalls])]
  }

  #lockWallets(session: Session, values: readonly Value[]): Answer | typeof blocked {
    const accounts = this.#accountsOf(values).filter((account) => this.rows.heads.has(account))
    const names = accounts.map((account) => `head ${account}`)
    if (names.some((name) => this.#isLocked(name, session))) return blocked
    for (const name of names) session.locks.add(name)
    return accounts.map((account) => ({ account }))
  }

  #lockBudgets(session: Session, [budgets, calls]: readonly Value[]): Answer | typeof blocked {
    const names = new Set((JSON.parse(String(budgets)) as BudgetRow[]).map(nameOf))
    for (const call of JSON.parse(String(calls)) as string[]) {
      const inGroup = this.rows.open.get(call)?.['in_group']
      if (inGroup == null) continue
      const stored = JSON.parse(String(inGroup)) as { readonly budgets: readonly [string, number][] }
      for (const [scope, window] of stored.budgets) names.add(nameOf({ scope, window }))
    }
    const locks = [...names].filter((name) => this.rows.budgets.has(name)).map((name) => `budget ${name}`)
    if (locks.some((name) => this.#isLocked(name, session))) return blocked
    for (const name of locks) session.locks.add(name)
    return []
  }

  #wallets(values: readonly Value[]): Answer {
    return this.#accountsOf(values).map((account) => {
      const head = this.rows.heads.get(account)
      const of = (row: Row) => row['account'] === account
      const lots = [...this.rows.lots.values()].filter((lot) => of(lot) && lot['live'] === 1)
      const calls = [...this.rows.open.values()].filter(of)
      return {
        account,
        version: head ? BigInt(head.version) : null,
        at: head ? BigInt(head.at) : null,
        debt: 0n,
        line: null,
        allowance: null,
        lots: listOf(lots, lotColumns),
        calls: listOf(calls, callColumns),
      }
    })
  }

  #sources([sources]: readonly Value[]): Answer {
    const asked = new Set(JSON.parse(String(sources)) as string[])
    return [...this.rows.lots.values()]
      .filter(({ source }) => asked.has(String(source)))
      .map((lot) => ({
        ...lot,
        granted: BigInt(lot['granted']!),
        granted_at: BigInt(lot['granted_at']!),
        expires_at: null,
      }))
  }

  #group(session: Session, text: string, values: readonly Value[]): Answer | typeof blocked {
    const told = JSON.parse(String(values[3])) as Group['told']
    const toldBudgets = (JSON.parse(String(values[4])) as Group['toldBudgets']).map((row) => ({
      ...row,
      spent: Number(row.spent),
      held: Number(row.held),
    }))
    const fresh = JSON.parse(String(values[8])) as string[]
    const guards = guardsIn(text, ownChain)
    const isClosedToIt = ownChain.exec(text)![2] !== undefined
    const mine = [...this.rows.chains.values()].find(
      (chain) =>
        guards.every(
          ([column, parameter]) => String(chain[column as keyof ChainRow]) === String(values[parameter - 1]),
        ) && !(isClosedToIt && chain.owner.startsWith(overPrefix)),
    )
    const needed = [
      ...told.map(({ account }) => `head ${account}`),
      ...toldBudgets.map((budget) => `budget ${nameOf(budget)}`),
      ...(mine ? [`chain ${mine.id}`] : []),
    ]
    if (needed.some((name) => this.#isLocked(name, session))) return blocked
    if (session.transaction) for (const name of needed) session.locks.add(name)
    const isGuarded = text.includes('head.version = told.version')
    const current = told.filter(({ account, version }) => {
      const head = this.rows.heads.get(account)
      return head && (!isGuarded || head.version === version)
    })
    const areBudgetsGuarded = text.includes('b.version = told.version')
    const currentBudgets = toldBudgets.filter((budget) => {
      const row = this.rows.budgets.get(nameOf(budget))
      return row && (!areBudgetsGuarded || row.version === budget.version)
    })
    const used = fresh.filter((id) => this.rows.calls.has(id) || this.rows.open.has(id))
    const areCurrent = current.length === told.length && currentBudgets.length === toldBudgets.length
    const yes = areCurrent && mine !== undefined && used.length === 0
    if (mine && yes) {
      const after = { ...mine, batch: mine.batch + 1, tx: Number(values[5]), head: String(values[6]) }
      const at = Number(values[7])
      const group = {
        before: mine,
        after: { ...after, at: Math.max(mine.at, at) },
        told,
        toldBudgets,
        parts: partsIn(text, values),
      }
      this.#requireUnique(group)
      const effect = () => this.#write(group, at)
      if (session.transaction) session.transaction.effects.push(effect)
      else effect()
    }
    const locked = current.length > 0 ? JSON.stringify(current.map(({ account }) => account)) : null
    return [
      {
        yes,
        mine: mine !== undefined,
        locked,
        budgets: currentBudgets.length > 0 ? JSON.stringify(currentBudgets.map(nameOf)) : null,
        used: used.length > 0 ? JSON.stringify(used) : null,
      },
    ]
  }

  #requireUnique({ parts }: Group): void {
    const sources = new Set([...this.rows.lots.values()].map(({ source }) => source))
    for (const { source } of parts.get('newLots') ?? []) if (sources.has(source!)) throw serverError('23505')
    for (const { id } of parts.get('ended') ?? [])
      if (this.rows.calls.has(String(id))) throw serverError('23505')
    for (const name of ['closed', 'kept'])
      for (const { id } of parts.get(name) ?? [])
        if (!this.rows.open.has(String(id))) throw serverError('22012')
  }

  #write(group: Group, at: number): void {
    const { rows } = this
    this.#written(group, rows)
    const of = (name: string) => group.parts.get(name) ?? []
    for (const { account, next } of group.told)
      rows.heads.set(account, { version: next, at: Math.max(rows.heads.get(account)!.at, at) })
    for (const budget of group.toldBudgets)
      rows.budgets.set(nameOf(budget), { ...budget, version: budget.version + 1 })
    for (const { key, day, spent } of of('keyDays')) {
      const days = new Map(rows.keyDays.get(String(key)))
      days.set(Number(day), (days.get(Number(day)) ?? 0) + Number(spent))
      rows.keyDays.set(String(key), days)
    }
    for (const lot of of('newLots')) rows.lots.set(String(lot['id']), lot)
    for (const lot of of('lots'))
      rows.lots.set(String(lot['id']), { ...rows.lots.get(String(lot['id'])), ...lot })
    for (const call of of('opening')) rows.open.set(String(call['id']), call)
    for (const call of of('kept'))
      rows.open.set(String(call['id']), { ...rows.open.get(String(call['id'])), ...call })
    for (const { id } of of('closed')) rows.open.delete(String(id))
    for (const call of of('ended')) rows.calls.set(String(call['id']), call)
    rows.journal.push(...of('journal'))
    rows.chains.set(group.after.id, { ...rows.chains.get(group.after.id)!, ...positionOf(group.after) })
  }

  /** Another server takes over, with these rows. What nobody has committed is gone. */
  takeOver(rows: Rows): void {
    for (const session of this.#sessions) this.#endTransaction(session)
    this.rows = rows
  }
}

function positionOf({ batch, tx, head, at }: ChainRow) {
  return { batch, tx, head, at }
}

function partsIn(text: string, values: readonly Value[]): ReadonlyMap<string, readonly Row[]> {
  const parts = new Map<string, readonly Row[]>()
  for (const [, name, parameter] of text.matchAll(
    /w_(\w+) AS \(.*?json_to_recordset\(\$(\d+)::text::json\)/gs,
  ))
    parts.set(name!, JSON.parse(String(values[Number(parameter) - 1])) as Row[])
  return parts
}

const lotColumns = 'id pool granted remaining pinned expired refunded granted_at expires_at'.split(' ')
const callColumns =
  'id key hold pins funding model price_version key_limit key_window owner lease_until opened_at progress tags in_group'.split(
    ' ',
  )

function listOf(rows: readonly Row[], columns: readonly string[]): string | null {
  if (rows.length === 0) return null
  const texts = rows.map((row) => columns.map((column) => (row[column] == null ? null : String(row[column]))))
  return JSON.stringify(texts)
}
