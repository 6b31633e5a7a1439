// Faults planted in a copy of the ledger, each one that somebody has shipped or could: the simulation must find them.

import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

export interface Mutant {
  /** What is wrong with the ledger now. */
  readonly name: string
  /** The first history that finds it where others come before: played ahead of them. */
  readonly seed?: number
  /** Texts of the source, each found exactly once, and what stands there instead. */
  readonly patches: readonly (readonly [file: string, find: string, replace: string])[]
}

const decide = 'src/credits/decide.ts'
const balance = 'src/credits/wallet.ts'
const wallet = 'src/credits/wallet.ts'
const store = 'src/store/sqlite/ledger/ledger-store.ts'
const wallets = 'src/store/sqlite/ledger/wallets.ts'
const journal = 'src/store/sqlite/ledger/wallets.ts'
const core = 'src/store/ledger-core.ts'
const rows = 'src/store/ledger-rows.ts'
const groups = 'src/accounts/group.ts'
const queue = 'src/store/commits/commit-queue.ts'
const transactions = 'src/store/sqlite/ledger/wallets.ts'
const durability = 'src/store/commits/durability.ts'
const statements = 'src/store/sql/statements.ts'
const bookings = 'src/store/sqlite/audit/bookings.ts'
const monthly = 'src/credits/ledger/monthly.ts'

export const mutants: readonly Mutant[] = [
  {
    name: 'anybody ends and extends a call, not its owner alone',
    seed: 1,
    patches: [
      [decide, 'return open?.owner === owner ? open : undefined', 'return owner === null ? undefined : open'],
    ],
  },
  {
    name: 'a release forgets to unpin',
    seed: 2,
    patches: [
      [
        decide,
        `    lot: pin.lot,
    remaining: 0n,
    pinned: -pin.amount,`,
        `    lot: pin.lot,
    remaining: 0n,
    pinned: 0n,`,
      ],
    ],
  },
  {
    name: "a caller's own bound is not kept",
    patches: [[decide, 'smaller(cost, settle.most ?? cost)', 'cost']],
  },
  {
    name: 'a charge beyond a limit of its call is not marked',
    seed: 48,
    patches: [
      [decide, 'spent + held - open.hold + charged > limit', 'spent + held - open.hold + charged < 0n'],
    ],
  },
  {
    name: 'an expired lot is spent',
    seed: 1,
    patches: [
      [
        wallet,
        'return isExpired(lot, now) ? 0n : lot.remaining - lot.pinned',
        'return now < 0 ? 0n : lot.remaining - lot.pinned',
      ],
      [
        balance,
        'if (lot.pool !== pool || isExpired(lot, now)) continue',
        'if (lot.pool !== pool || now < 0) continue',
      ],
    ],
  },
  {
    name: 'the lot that lives longest is spent first',
    seed: 9,
    patches: [[wallet, 'expiry !== 0) return expiry', 'expiry !== 0) return -expiry']],
  },
  {
    name: 'of lots that expire together the newest is spent first',
    seed: 43,
    patches: [[wallet, 'return a.grantedAt - b.grantedAt', 'return b.grantedAt - a.grantedAt']],
  },
  {
    name: 'the pools are spent in the wrong order',
    seed: 1,
    patches: [[decide, 'for (const pool of funding) {', 'for (const pool of funding.toReversed()) {']],
  },
  {
    name: 'a settle is carried out twice',
    seed: 3,
    patches: [
      [
        wallet,
        "if (change.call?.kind === 'ended') target.calls.take(change.call.open.call)",
        "if (change.call?.kind === 'ended') target.debt += 0n",
      ],
      [
        'src/store/sqlite/ledger/calls.ts',
        "requireOne(this.#sql.close.run(call, owner).changes, 'call')",
        'this.#sql.close.run(call, owner)',
      ],
    ],
  },
  {
    name: 'a grant does not ask whether its source has granted before',
    seed: 1,
    patches: [[core, 'const prior = this.#writes.sources.priorGrant(source)', 'const prior = null']],
  },
  {
    name: 'the same source with another amount is answered in silence',
    seed: 44,
    patches: [[decide, 'prior.amount === grant.amount ||', 'prior.amount > 0n ||']],
  },
  {
    name: 'the id of a refund is taken for another refund',
    seed: 1,
    patches: [[rows, 'done.taken + done.debt === amount', 'amount >= 0n']],
  },
  {
    name: 'the id of a correction is taken for another correction',
    seed: 141,
    patches: [[rows, '|| done.taken === -amount', '|| done.taken !== amount']],
  },
  {
    name: 'a key that replaces another begins a limit of its own',
    seed: 2,
    patches: [[wallets, 'spending.relatives ??= this.#sql', 'spending.relatives ??= [] ?? this.#sql']],
  },
  {
    name: 'a hold does not see what other calls have pinned',
    patches: [
      [balance, 'lessDebt(credit, pool, remaining - pinned)', 'lessDebt(credit, pool, remaining + 0n)'],
    ],
  },
  {
    name: 'a cost above the hold is charged although others have pinned the credit',
    seed: 4,
    patches: [
      [
        wallet,
        'return isExpired(lot, now) ? 0n : lot.remaining - lot.pinned',
        'return isExpired(lot, now) ? 0n : lot.remaining',
      ],
    ],
  },
  {
    name: 'an estimate is charged beyond the hold',
    patches: [[decide, 'if (due > 0n && !settle.estimated) {', 'if (due > 0n) {']],
  },
  {
    name: 'a cost of zero is taken for a missing one',
    seed: 2,
    patches: [
      [
        decide,
        'const cost = smaller(settle.cost, largestLot)',
        'const cost = smaller(settle.cost || open.hold, largestLot)',
      ],
    ],
  },
  {
    name: 'a hold ignores its limits',
    patches: [
      [decide, 'spent.freeLater < least)', 'spent.freeLater < -least)'],
      [decide, 'reserved.free < least)', 'reserved.free < -least)'],
      [decide, 'free = smaller(free, room.free)', 'free = smaller(free, free)'],
    ],
  },
  {
    name: 'an extension ignores its limits',
    seed: 6,
    patches: [[decide, 'const rooms = roomsOf(open, spends)', 'const rooms = noRooms']],
  },
  {
    name: 'a limit that calls in flight only reserve refuses for good',
    seed: 2,
    patches: [
      [decide, "const spent = tightest(rooms, 'freeLater')", "const spent = tightest(rooms, 'free')"],
      [decide, 'spent.freeLater < least)', 'spent.free < least)'],
    ],
  },
  {
    name: 'what a call is told it may spend is not reserved',
    seed: 1,
    patches: [
      [
        decide,
        'takeFrom(wallet, hold, [], amount, now)',
        'takeFrom(wallet, hold, [], smaller(amount, larger(hold.want, least)), now)',
      ],
    ],
  },
  {
    name: 'what a hold grows by is not reserved',
    patches: [
      [
        decide,
        'hold: open.hold + more, pins: mergePins(open.pins, pins)',
        'hold: open.hold + more, pins: open.pins',
      ],
    ],
  },
  {
    name: 'what a hold grew by is given back twice',
    patches: [
      [decide, 'pins: mergePins(open.pins, pins) }', 'pins: [...mergePins(open.pins, pins), ...pins] }'],
    ],
  },
  {
    name: 'every call may take its share of all credit, whatever others hold',
    seed: 9,
    patches: [[decide, 'larger(free - held, 0n) / fairPart', 'larger(free + held, 0n) / fairPart']],
  },
  {
    name: 'a share is not kept within the limits of a call',
    seed: 9,
    patches: [[decide, 'fair = smaller(fair, fairShare(room))', 'fair = smaller(fair, fair)']],
  },
  {
    name: 'a call leaves what is too little for another like it',
    seed: 3,
    patches: [[decide, 'free - amount < needed ? highest : amount', 'amount']],
  },
  {
    name: 'what calls of other processes hold of the limit of a key is not counted',
    seed: 2,
    patches: [
      [wallets, 'SELECT hold FROM open_call WHERE key = ?', 'SELECT hold FROM open_call WHERE key = ? AND 0'],
    ],
  },
  {
    name: 'what calls of other processes hold of the credit is not counted',
    patches: [[wallets, '    pinned: row.pinned,', '    pinned: 0n,']],
  },
  {
    name: 'the end of a call stays in what its key holds',
    seed: 38,
    patches: [[core, 'this.#wallets.keyHolds(open.key, -open.hold)', 'this.#wallets.loadKey(open.key)']],
  },
  {
    name: 'of a nested group only its own budget is kept',
    patches: [[groups, 'timezone } of levels) {', 'timezone } of levels.slice(0, 1)) {']],
  },
  {
    name: 'a budget is what is spent of it, without what is reserved',
    seed: 9,
    patches: [
      [
        decide,
        'free: larger(freeLater - held, 0n), freeLater, budget }',
        'free: budget === null ? larger(freeLater - held, 0n) : freeLater, freeLater, budget }',
      ],
    ],
  },
  {
    name: 'the windows of a group are those of UTC',
    patches: [[groups, 'timeZone: timezone,', "timeZone: timezone && 'UTC',"]],
  },
  {
    name: 'a day is as long as any other, whatever the clock does',
    seed: 1,
    patches: [
      [
        groups,
        'let end = beginningOf(timezone, nextWindow(window, first))',
        'let end = start + nextWindow(window, first) - first',
      ],
    ],
  },
  {
    name: 'a member who is moved in flight is counted twice',
    seed: 68,
    patches: [
      [
        core,
        'this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)',
        `{
      this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)
      for (const id of entry.wallet.calls.keys()) {
        const now = entry.wallet.calls.get(id)?.inGroup
        if (now?.person !== open.inGroup.person || now.group === open.inGroup.group) continue
        this.#wallets.chargeBudgets(now, 0n, charged)
        break
      }
    }`,
      ],
    ],
  },
  {
    name: 'a call across midnight is charged to the new day of a budget',
    seed: 52,
    patches: [
      [
        core,
        'this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)',
        `{
      this.#wallets.chargeBudgets(open.inGroup, -open.hold, 0n)
      const budgets = open.inGroup.budgets.map((each) =>
        each.windowEnd !== null && each.windowEnd <= now ? { ...each, windowStart: each.windowEnd } : each)
      this.#wallets.chargeBudgets({ ...open.inGroup, budgets }, 0n, charged)
    }`,
      ],
    ],
  },
  {
    name: 'the end of a call stays in what its budgets hold',
    seed: 7,
    patches: [
      [
        core,
        'this.#wallets.chargeBudgets(open.inGroup, -open.hold, charged)',
        'this.#wallets.chargeBudgets(open.inGroup, 0n, charged)',
      ],
    ],
  },
  {
    name: 'what a hold grows by is not reserved of its budgets',
    seed: 2,
    patches: [
      [
        core,
        'this.#wallets.chargeBudgets(open.inGroup, open.hold - before.hold, 0n)',
        'this.#wallets.chargeBudgets(open.inGroup, 0n, 0n)',
      ],
    ],
  },
  {
    name: 'what calls of other processes hold of a budget is not counted',
    seed: 2,
    patches: [
      [wallets, 'open_call WHERE in_group IS NOT NULL', 'open_call WHERE in_group IS NOT NULL AND 0'],
    ],
  },
  {
    name: 'what other processes have spent of a budget is not read again',
    seed: 2,
    patches: [[wallets, 'this.#keys, this.#budgets]) map.clear()', 'this.#keys]) map.clear()']],
  },
  {
    name: 'what is spent of a budget is forgotten at a restart',
    seed: 3,
    patches: [[wallets, 'this.#dirty.budgets.add(spending)', 'this.#dirty.budgets.delete(spending)']],
  },
  {
    name: 'a clock that goes back earns another allowance',
    seed: 60,
    patches: [
      [decide, 'expiresAt <= wallet.lastAllowance.expiresAt', 'expiresAt === wallet.lastAllowance.expiresAt'],
    ],
  },
  {
    name: 'a top-up does not repay the debt',
    seed: 3,
    patches: [[decide, '  checkpoint: true,', '  checkpoint: true, grant: true,']],
  },
  {
    name: 'a released hold is free beside a debt',
    seed: 6,
    patches: [[decide, '  checkpoint: true,', '  checkpoint: true, release: true,']],
  },
  {
    name: 'what a settle gives back is free beside a debt',
    seed: 6,
    patches: [[decide, '  checkpoint: true,', '  checkpoint: true, settle: true,']],
  },
  {
    name: 'a refund leaves the free credit of other payments beside its debt',
    seed: 84,
    patches: [[decide, '  checkpoint: true,', '  checkpoint: true, refund: true,']],
  },
  {
    name: 'credit that was never paid for repays a debt',
    seed: 6,
    patches: [
      [
        'src/credits/decide.ts',
        "if (lot.pool !== 'purchased') continue",
        "if (lot.pool === 'daily') continue",
      ],
    ],
  },
  {
    name: 'a payment is refunded again under another id',
    seed: 16,
    patches: [[decide, 'if (refunded + refund.amount > lot.granted)', 'if (refund.amount > lot.granted)']],
  },
  {
    name: 'a refund takes what calls have pinned',
    seed: 13,
    patches: [
      [decide, 'smaller(refund.amount, lot.remaining - lot.pinned)', 'smaller(refund.amount, lot.remaining)'],
    ],
  },
  {
    name: 'a refund takes again what an earlier one of the same transaction has taken',
    seed: 16,
    patches: [
      [wallets, 'const dirty = this.#dirty.lots.get(id)', 'const dirty = this.#dirty.lots.get(`${id}?`)'],
    ],
  },
  {
    name: 'expiry takes what calls have pinned',
    seed: 17,
    patches: [[decide, 'const gone = lot.remaining - lot.pinned', 'const gone = lot.remaining']],
  },
  {
    name: 'the hash chain skips the lines of a transaction',
    patches: [[journal, '      head.hash = hash\n    }', '      if (leg === 0) head.hash = hash\n    }']],
  },
  {
    name: 'the end of the hash chain is not read again after another process has written',
    seed: 1,
    patches: [[store, '  journal.forget()\n  time.forget()\n}', '  time.forget()\n}']],
  },
  {
    name: 'the time that another process has booked at is not read',
    seed: 8,
    patches: [[store, '  journal.forget()\n  time.forget()\n}', '  journal.forget()\n}']],
  },
  {
    name: 'the time of the ledger follows a clock that goes back',
    patches: [[core, 'if (clock >= this.#latest) {', 'if (clock >= 0) {']],
  },
  {
    name: 'credit is admitted however far the clock is behind',
    patches: [[core, 'if (!this.tooFarBehind) return now', 'if (now > 0) return now']],
  },
  {
    name: 'a restart forgets when the last call ended',
    seed: 197,
    patches: [[store, 'SELECT ended_at FROM call', 'SELECT 0 FROM call']],
  },
  {
    name: 'the end of the journal is anchored before it is durable',
    seed: 97,
    patches: [[transactions, 'await log.sync()\n    durable()', 'durable()\n    await log.sync()']],
  },
  {
    name: 'a lone command is answered without a sync',
    patches: [[queue, 'this.#transactions.commitDurably!(work)', 'this.#transactions.commit([], work)']],
  },
  {
    name: 'an answer is given before its sync',
    patches: [
      [
        durability,
        "else this.#join('at-once').answers.push(answer)",
        "else { this.#join('at-once'); answer() }",
      ],
    ],
  },
  {
    name: 'a sync answers what was committed while it ran',
    seed: 4,
    patches: [
      [
        durability,
        '    answer(batch)\n    if',
        '    answer(batch)\n    for (const each of this.#next?.answers.splice(0) ?? []) each()\n    if',
      ],
    ],
  },
  {
    name: 'a hold that has to be durable soon is durable at once',
    patches: [
      [durability, 'if (!this.#sync) return already', "if (!this.#sync || haste === 'soon') return already"],
    ],
  },
  {
    name: 'a hold is durable when it is decided',
    patches: [[durability, 'if (!this.#sync) return already', 'if (this.#sync) return already']],
  },
  {
    name: 'a sync that has failed is taken for a success',
    seed: 18,
    patches: [
      [durability, 'this.lose(error)\n      return new Promise(() => undefined)', 'this.#events.failed'],
    ],
  },
  {
    name: 'the wallets in memory are trusted although another process has written',
    patches: [
      [
        wallets,
        'if (version === this.#dataVersion) return false',
        'if (this.#dataVersion !== undefined) return false',
      ],
    ],
  },
  {
    name: 'an answer is given before its commit',
    patches: [
      [
        transactions,
        'this.#hooks.finish()\n      this.#commit.run()',
        'this.#hooks.finish()\n      early?.()\n      this.#commit.run()',
      ],
      [
        transactions,
        'commit<T>(_needs: readonly NeededRows[], run: () => T): T {',
        'commit<T>(_needs: readonly NeededRows[], run: () => T, early?: () => void): T {',
      ],
      [
        queue,
        'this.#transactions.commit(needs, work)',
        'this.#transactions.commit(needs, work, () => { for (const entry of group) if (entry.outcome) deliver(entry) })',
      ],
    ],
  },
  {
    name: 'a settle is dropped when the disk is full',
    patches: [
      [
        queue,
        'this.#queue = this.#queue.filter((entry) => entry.record !== undefined)',
        'this.#queue = this.#queue.filter((entry) => entry.record === null)',
      ],
    ],
  },
  {
    name: 'recovery ends the calls of living processes',
    seed: 2,
    patches: [
      [
        core,
        'isDead(owner) || (leaseUntil <= now && !isRunning(call, owner))',
        'isDead(owner) || (leaseUntil <= now + 600_000 && !isRunning(call, owner))',
      ],
    ],
  },
  {
    name: 'a loan stands without a debt beside it',
    seed: 6,
    patches: [[decide, 'debt: loan ? loan.lot.granted : 0n', 'debt: 0n']],
  },
  {
    name: 'every call has the whole credit line for itself',
    seed: 7,
    patches: [
      [
        balance,
        `  const worth = amount + creditLine
  return worth > debt ? worth - debt : 0n`,
        '  return (amount > debt ? amount - debt : 0n) + creditLine',
      ],
      [decide, 'if (lent > wallet.creditLine - wallet.debt)', 'if (lent < 0n)'],
    ],
  },
  {
    name: 'what was bought repays a loan that a call has left over',
    seed: 34,
    patches: [
      [
        'src/credits/decide.ts',
        'Number(isLoan(b)) - Number(isLoan(a))',
        'Number(isLoan(a)) - Number(isLoan(b))',
      ],
    ],
  },
  {
    name: 'a process goes on with a credit line that was taken away',
    seed: 31,
    patches: [[core, 'this.#wallets.setLine(this.#wallets.of(account), most)', 'this.#wallets.of(account)']],
  },
  {
    name: 'the month of a statement begins after its first moment',
    seed: 3,
    patches: [[statements, 'found.at < from) low', 'found.at <= from) low']],
  },
  {
    name: 'a statement closes with what came after its month',
    patches: [
      [
        statements,
        'const closing = less(now, later)\n  return',
        'const closing = less(now, nothing)\n  return',
      ],
    ],
  },
  {
    name: 'a statement takes debt for credit',
    seed: 3,
    patches: [[monthly, 'return lot === null ?', "return lot === '' ?"]],
  },
  {
    name: 'the file of a statement loses lines between two of its pages',
    seed: 1,
    patches: [[statements, 'slice(0, rest), next: last }', 'slice(0, rest), next: last - 1 }']],
  },
  {
    name: 'the days of a statement mix kinds of entries',
    patches: [[monthly, 'const key = `${day} ${kind} ${pool}`', 'const key = `${day} ${pool}`']],
  },
  {
    name: 'a statement shows a charge with another call',
    patches: [
      [bookings, `charges: 'call.settle_tx = journal.tx'`, `charges: 'call.settle_tx <= journal.tx'`],
    ],
  },
  {
    name: 'recovery forgets what was delivered',
    seed: 9,
    patches: [[core, 'if (open.checkpoint === null) {', 'if (open.checkpoint !== undefined) {']],
  },
]

/** Whether the fault is in how statements of a month are made, which shows in nothing else. */
export function isOfStatements({ patches }: Mutant): boolean {
  return patches.every(([file]) => file === statements || file === bookings || file === monthly)
}

const root = resolve(import.meta.dir, '../..')

/** A copy of the ledger's source, for one fault after another without harm to the real one. */
export class LedgerCopy {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'weir-mutant-')))
  readonly #changed = new Set<string>()

  constructor() {
    for (const part of [
      'src/credits',
      'src/store',
      'src/conversation',
      'src/accounts',
      'src/observe',
      'src/payments',
      'src/async',
      'src/errors',
      'src/text',
      'drizzle',
    ])
      cpSync(join(root, part), join(this.root, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(this.root, 'node_modules'))
  }

  /** Plants a fault in place of the one before it. What is imported from here afterwards is read anew, and has it. */
  plant(mutant: Mutant): void {
    for (const file of this.#changed) copyFileSync(join(root, file), join(this.root, file))
    this.#changed.clear()
    for (const [file] of mutant.patches) this.#changed.add(file)
    patch(this.root, mutant)
    for (const module of Object.keys(require.cache))
      if (module.startsWith(this.root)) delete require.cache[module]
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}

/** Plants a fault in a copy of the source. */
export function patch(copy: string, mutant: Mutant): void {
  for (const [file, find, replace] of mutant.patches) {
    const path = join(copy, file)
    const parts = readFileSync(path, 'utf8').split(find)
    if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places like: ${find}`)
    writeFileSync(path, parts.join(replace))
  }
}
