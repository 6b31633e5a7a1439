// What the commands of a group write besides wallets, gathered as rows of the group's statement.

import type { Pico } from '../../credits/money.ts'
import type { TransactionKind } from '../../credits/ledger/ledger.ts'
import type { CallChange, Leg, OpenCall } from '../../credits/wallet.ts'
import type { CallEnd, GroupWrites } from '../ledger-core.ts'
import {
  actOfGrant,
  cellsOfEnded,
  cellsOfFailures,
  cellsOfOpen,
  correctionsIn,
  hashOf,
  pinsText,
  progressText,
  usageAddedBy,
} from '../ledger-rows.ts'
import { type Chain, GroupRows, type Told } from './group.ts'
import type { KnownWallets } from './wallets.ts'
import { UsageRows } from './request-log.ts'

/** A price that is written once, with the first group after it was noted. */
interface Price {
  readonly version: string
  readonly model: string
  readonly price: string
}

/** Made anew for each group. */
function emptyDraft() {
  return {
    rows: new GroupRows(),
    opening: new Map<string, { readonly account: string; open: OpenCall }>(),
    kept: new Map<string, OpenCall>(),
    endedIds: new Set<string>(),
    /** Ids that must not have been used: also of calls that have ended in this very group. */
    fresh: [] as string[],
    usage: new UsageRows(),
    spentOnLines: new Map<string, Pico>(),
  }
}

export interface Drafted {
  readonly rows: GroupRows
  /** Whether there is nothing to be written. */
  readonly isEmpty: boolean
  readonly told: Told
  /** The end of the chain after this group. */
  readonly next: Pick<Chain, 'tx' | 'head'>
  readonly fresh: readonly string[]
}

export class GroupDraft implements GroupWrites {
  readonly #wallets: KnownWallets
  readonly #clock: () => number
  #group = emptyDraft()
  #chain!: Chain
  #tx = 0
  #head: Uint8Array = new Uint8Array()
  /** Ids that the database has refused: known while the group is decided again. */
  readonly #used = new Set<string>()
  readonly #knownPrices = new Set<string>()
  #prices: Price[] = []

  /** `clock`: milliseconds since 1970, for the date of prices. */
  constructor(wallets: KnownWallets, clock: () => number) {
    this.#wallets = wallets
    this.#clock = clock
  }

  /** Forgets what was drafted, and goes on from the end of this chain. */
  begin(chain: Chain): void {
    this.#group = emptyDraft()
    this.#chain = chain
    this.#tx = chain.tx
    this.#head = chain.head
  }

  /** The whole group, with what its commands have changed in wallets. */
  finish(): Drafted {
    const { rows, opening, kept, usage, spentOnLines, fresh } = this.#group
    const told = this.#wallets.write(rows)
    for (const { account, open } of opening.values()) rows.add('opening', cellsOfOpen(account, open))
    for (const open of kept.values()) {
      const { call: id, hold, leaseUntil: lease_until } = open
      rows.add('kept', { id, hold, pins: pinsText(open.pins), lease_until, progress: progressText(open) })
    }
    usage.addTo(rows)
    for (const [account, amount] of spentOnLines) rows.add('spentOnLines', { account, amount })
    for (const price of this.#prices) rows.add('prices', { ...price, recorded_at: this.#clock() })
    const isEmpty = rows.isEmpty && told.wallets.length === 0
    return { rows, isEmpty, told, next: { tx: this.#tx, head: this.#head }, fresh }
  }

  onCommitted(): void {
    this.#prices = []
    this.#used.clear()
  }

  refuseCalls(ids: readonly string[]): void {
    for (const id of ids) this.#used.add(id)
  }

  notePrice(version: string, model: string, price: string): void {
    if (this.#knownPrices.has(version)) return
    this.#knownPrices.add(version)
    this.#prices.push({ version, model, price })
  }

  readonly calls: GroupWrites['calls'] = {
    open: (account, open) => {
      const { opening, endedIds, fresh } = this.#group
      const id = open.call
      if (opening.has(id) || endedIds.has(id) || this.#used.has(id)) return false
      opening.set(id, { account, open })
      fresh.push(id)
      return true
    },
    keep: (open) => {
      const opening = this.#group.opening.get(open.call)
      if (opening) opening.open = open
      else this.#group.kept.set(open.call, open)
    },
    end: (account, ended, end) => this.#end(account, ended, end),
  }

  #end(account: string, ended: Extract<CallChange, { kind: 'ended' }>, end: CallEnd): void {
    const { rows, opening, kept, endedIds, usage } = this.#group
    const { open } = ended
    // A call that was opened in this very group never becomes a row of `open_call`.
    if (!opening.delete(open.call)) {
      kept.delete(open.call)
      rows.add('closed', { id: open.call })
    }
    endedIds.add(open.call)
    const settle_chain = end.tx === null ? null : this.#chain.id
    rows.add('ended', { ...cellsOfEnded(account, ended, end), settle_chain })
    usage.add(usageAddedBy(account, ended, end), this.#chain.id)
    for (const failure of cellsOfFailures(open.call, end.attempts)) rows.add('attempts', failure)
  }

  readonly journal: GroupWrites['journal'] = {
    append: (kind, legs, at) => this.#append(kind, legs, at),
  }

  #append(kind: TransactionKind, legs: readonly Leg[], at: number): number {
    let total = 0n
    for (const leg of legs) total += leg.amount
    if (total !== 0n) throw new Error(`the legs of a ${kind} do not sum to zero`)
    const tx = (this.#tx += 1)
    for (const [leg, { account, lot, amount }] of legs.entries()) {
      const hash = hashOf(this.#head, { tx, leg, kind, account, lot, amount, at })
      const owner = accountOfWallet(account)
      const version = owner === null ? null : this.#wallets.nextVersionOf(owner)
      const line = { chain: this.#chain.id, version, tx, leg, kind, account, lot, amount, at }
      this.#group.rows.add('journal', { ...line, prev_hash: hex(this.#head), hash: hex(hash) })
      this.#head = hash
    }
    return tx
  }

  readonly lines: GroupWrites['lines'] = {
    put: (account, most, at) => this.#group.rows.add('lines', { account, most, at }),
    onSpent: (account, amount) => {
      const { spentOnLines } = this.#group
      spentOnLines.set(account, (spentOnLines.get(account) ?? 0n) + amount)
    },
  }

  readonly sources: GroupWrites['sources'] = {
    priorGrant: (source) => this.#wallets.priorGrant(source),
    logGrant: (command, lot, at) => {
      const act = actOfGrant(command, lot, at)
      if (act) this.#group.rows.add('acts', { ...act })
    },
  }

  readonly corrections: GroupWrites['corrections'] = correctionsIn({
    find: (id) => this.#wallets.correction(id),
    refundedOf: (lot) => this.#wallets.refundedOf(lot),
    insert: (row, at) => {
      this.#group.rows.add('corrections', { ...row, at })
      this.#wallets.noteCorrection(row)
    },
    logAct: (act) => this.#group.rows.add('acts', { ...act }),
  })
}

/** Of `wallet:<account>:<pool>`; null for any other account of the journal. */
function accountOfWallet(name: string): string | null {
  return name.startsWith('wallet:') ? name.slice('wallet:'.length, name.lastIndexOf(':')) : null
}

function hex(bytes: Uint8Array): string {
  return String.raw`\x` + bytes.toHex()
}
