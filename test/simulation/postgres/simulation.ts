// One history of several processes on one PostgreSQL, played by its seed: connections are cut with what was sent still under
// way, processes die, stand still and wake up, the server freezes, refuses, and is followed by another one, with all that it
// had acknowledged or without. Calls have groups that operators change, keys with limits, and clocks that go on by days. What
// a process says is held against the rows, and so is what is there in the end.

import type { GroupLimits } from '../../../src/store/commits/durability.ts'
import type { GroupCall, KeyLimit } from '../../../src/credits/ledger/ledger.ts'
import type { Value } from '../../../src/store/sql/work.ts'
import { day, extensionOf, grantOf, holdOf, minute, settleOf } from '../../credits/support.ts'
import { expectedBudgets, SimulatedGroups } from '../groups.ts'
import { type Random, seeded } from '../random.ts'
import { Scheduler } from '../scheduler.ts'
import { CallLimits, grownIn, type Limited, type Usage } from './limits.ts'
import { Network } from './network.ts'
import { type BudgetRow, type Group, nameOf, type Row, type Rows, SimulatedServer } from './server.ts'
import type { System } from './system.ts'

// Groups are as large as they become: the real limit is one of real time.
const limits: GroupLimits = { max: 8, waitMs: 2, decideMs: 1e9, queue: 256, loneSyncMs: 1, soonMs: 2 }
const processes = 3
const deadlineMs = 5_000
/** Longer than a process counts as alive without a sign of life, and than its peers wait before they say so. */
const settledMs = 60_000
const accounts = ['rich', 'poor', 'new'] as const
/** Whose keys are in groups; the first of them is also the account with which a group pays for others. */
const people = ['rich', 'poor'] as const
const least = 1_000n
const growth = 400n
const charge = 700n
const hour = 60 * minute
/** Longer than any history: leases do not run out, and no credit expires. */
const farMs = 400 * day
/** Clocks are changed soon after, in one of the zones of the groups, or never. */
const beginnings = ['2026-11-21T12', '2026-10-29T09', '2026-10-31T20', '2026-04-23T15', '2026-09-25T22'].map(
  (date) => Date.parse(`${date}:00:00Z`),
)

export interface Report {
  readonly seed: number
  /** What is wrong; null when nothing is. */
  readonly broken: string | null
  readonly commands: number
  readonly groups: number
  /** Groups whose connection was cut or that were refused as stale, processes that ended, calls that others ended. */
  readonly cuts: number
  readonly ended: number
  readonly recovered: number
  readonly historiesLost: number
  /** Holds that were refused, for want of credit or by a limit. */
  readonly refused: number
}

/** What happens, and how often beside all else. */
const asks = { hold: 40, settle: 30, extend: 5, checkpoint: 4, grant: 4, sweep: 10 }
const others = { operator: 5, time: 3 }
const blows = { cut: 5, cutAll: 2, freeze: 1, crash: 1, stop: 3, goOn: 4, wait: 2 }
const takeovers = { failOver: 1, keep: 1, loseHistory: 1 }
const stepsByWeight = { ...asks, ...others, ...blows, ...takeovers }

const none: Group['parts'] = new Map()

class Broken extends Error {}

type Ledger = Awaited<ReturnType<System['PostgresLedger']['open']>>

class SimulatedProcess {
  readonly owner: string
  ledger: Ledger | undefined
  readonly running = new Set<string>()
  /** Its calls that are held, and of which nothing else was asked yet. */
  readonly held: string[] = []
  /** Settles that it was asked for, whatever it has answered: it owes them for as long as it lives. */
  readonly owed = new Map<string, 'settle' | 'release'>()
  /** How it said that it has to end. */
  lost: string | undefined
  isStopped = false
  /** The last group of its chain of which it had an answer. */
  acknowledged = { chain: 0, batch: 0 }
  answered: { readonly chain: number; readonly batch: number } | undefined
  inTransaction = false

  constructor(owner: string) {
    this.owner = owner
  }
}

/** A hold that waits for its answer, with the least that its account and its limits had free meanwhile. */
interface Asked {
  readonly account: string
  readonly limited: Limited
  free: number
}

class Simulation {
  readonly scheduler = new Scheduler()
  readonly random: Random
  readonly #system: System
  readonly #server: SimulatedServer
  readonly #network: Network
  readonly #tell: ((line: string) => void) | undefined
  readonly #living: SimulatedProcess[] = []
  readonly #asked = new Set<Asked>()
  readonly #granted = new Map<string, readonly [account: string, amount: bigint, expiresAt: number]>()
  /** What was acknowledged: it is there, or the history is lost. */
  readonly #heldCalls = new Map<string, SimulatedProcess>()
  readonly #settledCalls = new Set<string>()
  readonly #acknowledgedGrants = new Set<string>()
  /** Each version of an account, and the transaction that has it. */
  readonly #versions = new Map<string, string>()
  readonly #acknowledgedBatches = new Map<number, number>()
  readonly #groups: SimulatedGroups
  readonly #limits = new CallLimits()
  readonly #keyLimits = new Map<string, (now: number) => KeyLimit>()
  /** When it begins, and how far the clocks of the processes have gone on while nothing else did, milliseconds. */
  readonly #begin: number
  #ahead = 0
  #kept: Rows | undefined
  #isHistoryLost = false
  #count = 0
  #names = 0
  readonly #counts = { commands: 0, groups: 0, cuts: 0, ended: 0, recovered: 0, historiesLost: 0, refused: 0 }
  #broken: string | undefined

  constructor(system: System, seed: number, tell?: (line: string) => void) {
    this.#system = system
    this.#tell = tell
    this.random = seeded(seed)
    const { scheduler, random } = this
    this.#begin = random.pick(beginnings)
    for (const person of people) this.#limitKey(person)
    this.#groups = new SimulatedGroups(random, { people, mostOfGroup: 14_000, mostOfPerson: 10_000 })
    this.#server = new SimulatedServer(
      () => this.#begin + scheduler.now,
      (group, rows) => this.#onGroup(group, rows),
    )
    this.#network = new Network({ scheduler, random, system, tell: (line) => this.tell(line) }, this.#server)
  }

  /** On the clocks of the processes, milliseconds since 1970. */
  #now(): number {
    return this.#begin + this.#ahead + this.scheduler.now
  }

  tell(line: () => string): void {
    this.#tell?.(`${this.scheduler.now} ${line()}`)
  }

  fail(why: string): void {
    this.#broken ??= why
    this.tell(() => `BROKEN: ${why}`)
  }

  play(seed: number, steps: number): Report {
    try {
      this.scheduler.within(() => this.#play(steps))
    } catch (error) {
      if (!(error instanceof Broken))
        this.fail(error instanceof Error ? (error.stack ?? String(error)) : String(error))
    }
    return { seed, broken: this.#broken ?? null, ...this.#counts }
  }

  #play(steps: number): void {
    this.#network.troubleEvery = this.random.pick([0, 0, 30, 100])
    for (let n = 0; n < processes; n++) this.#start(n)
    this.#run(60)
    this.#ask(this.#living[0]!, 'grant', () => this.#grant(this.#living[0]!, 'first', 'rich', 10_000_000n))
    this.#ask(this.#living[0]!, 'grant', () => this.#grant(this.#living[0]!, 'second', 'poor', 3_500n))
    this.#run(40)
    for (let step = 0; step < steps; step++) {
      this.#step()
      this.#run(this.random.below(10))
      this.#replaceEnded()
    }
    this.#finish()
  }

  /** Plays so many tasks, whosever they are. */
  #run(tasks: number): void {
    for (let n = 0; n < tasks; n++) {
      this.scheduler.runOne(this.random)
      if (this.#broken !== undefined) throw new Broken(this.#broken)
    }
  }

  #runFor(ms: number): void {
    const until = this.scheduler.now + ms
    // Time passes though nobody has anything to do.
    this.scheduler.later('', ms, () => undefined)
    while (this.scheduler.now < until) this.#run(1)
  }

  #start(at: number): void {
    const process = new SimulatedProcess(`gateway${this.#names++}`)
    this.#living[at] = process
    const { owner } = process
    const connect = this.#network.connectionOf(owner, (text, values, answer) =>
      this.#onAnswer(process, text, values, answer),
    )
    const lost = (error: unknown) => {
      if (process.lost !== undefined) return
      process.lost = (error as Error).constructor.name
      this.tell(() => `${owner} has to end: ${String(error)}`)
    }
    const server = 'postgres://simulated'
    const isRunning = (call: string) => process.running.has(call)
    const peers = new this.#system.Peers({ server, owner, serves: true, isRunning, lost, connect })
    const opened = () =>
      this.#system.PostgresLedger.open({
        server,
        owner,
        time: { clock: () => this.#now(), backMs: 60_000, stepped: () => undefined },
        limits,
        deadlineMs,
        isDead: peers.isDead,
        isRunning: peers.isRunning,
        lookFor: peers.lookFor,
        onBegun: () => peers.open(),
        lost,
        connect,
      })
    this.scheduler.as(owner, () => {
      opened().then(
        (ledger) => (process.ledger = ledger),
        // It does not start, and its supervisor tries again.
        () => (process.lost ??= 'not started'),
      )
    })
  }

  /** A process that had to end does so; one begins in its place. */
  #replaceEnded(): void {
    for (const [at, process] of this.#living.entries()) {
      if (process.lost === undefined || process.isStopped) continue
      if (process.lost === 'Fenced' && this.#server.rows.chainOf(process.owner) && !this.#isHistoryLost)
        this.fail(`${process.owner} was told that it is dead, and nobody has taken its chain`)
      if (process.lost === 'HistoryLost' && !this.#isHistoryLost)
        this.fail(`${process.owner} has lost a history that is there`)
      this.#crash(at)
    }
  }

  #crash(at: number): void {
    const { owner } = this.#living[at]!
    this.tell(() => `${owner} dies`)
    this.#counts.ended++
    this.#network.cut(owner, true)
    this.scheduler.drop(owner)
    this.#start(at)
  }

  #step(): void {
    const at = this.random.below(this.#living.length)
    const process = this.#living[at]!
    const step = this.random.weighted(stepsByWeight)
    switch (step) {
      case 'hold':
        return this.#ask(process, 'hold', () => this.#hold(process))
      case 'settle':
        return this.#ask(process, 'end', () => this.#end(process))
      case 'checkpoint':
        return this.#ask(process, 'checkpoint', () => this.#checkpoint(process))
      case 'grant':
        return this.#ask(process, 'grant', () => this.#grantAny(process))
      case 'extend':
        return this.#ask(process, 'extend', () => this.#extend(process))
      case 'sweep':
        return this.#ask(process, 'sweep', () => this.#sweep(process))
      case 'operator':
        return this.random.oneIn(5) ? this.#limitKey(this.random.pick(people)) : this.#groups.act()
      case 'time':
        this.#ahead += this.random.pick([hour, 7 * hour, day, 3 * day, 11 * day])
        return this.tell(() => `it is ${new Date(this.#now()).toISOString()}`)
      case 'cut':
      case 'cutAll':
        this.tell(() => `${process.owner} is cut`)
        this.#counts.cuts++
        return this.#network.cut(process.owner, step === 'cutAll')
      case 'freeze':
        this.#network.frozenUntil = this.scheduler.now + this.random.below(8_000)
        return this.tell(() => `the server freezes until ${this.#network.frozenUntil}`)
      case 'crash':
        return this.#crash(at)
      case 'stop':
        process.isStopped = true
        this.tell(() => `${process.owner} stands still`)
        return this.scheduler.stop(process.owner)
      case 'goOn':
        for (const each of this.#living) this.#wake(each)
        return
      case 'wait':
        return this.#runFor(this.random.pick([500, 4_000, 15_000]))
      case 'failOver':
        this.tell(() => 'another server takes over')
        this.#network.loseServer(false)
        return this.#server.takeOver(this.#server.rows)
      case 'keep':
        this.#kept ??= this.#server.rows.copy()
        return
      case 'loseHistory':
        return this.#loseHistory()
    }
  }

  #wake(process: SimulatedProcess): void {
    process.isStopped = false
    this.scheduler.goOn(process.owner)
  }

  /** A server takes over that does not have it all, once in a history, and in a few of them. */
  #loseHistory(): void {
    if (!this.#kept || this.#isHistoryLost || !this.random.oneIn(2)) return
    const isPooled = this.random.oneIn(2)
    this.tell(() => `a server takes over that has not got it all${isPooled ? ', behind a pooler' : ''}`)
    this.#isHistoryLost = true
    this.#counts.historiesLost++
    this.#network.loseServer(isPooled)
    this.#server.takeOver(this.#kept)
  }

  /** Asks a process that serves for something. */
  #ask(process: SimulatedProcess, _what: string, ask: () => Promise<void> | undefined): void {
    if (!process.ledger || process.lost !== undefined || process.isStopped) return
    this.#counts.commands++
    this.scheduler.as(process.owner, () => {
      ask()?.catch((error: unknown) =>
        this.fail(error instanceof Error ? (error.stack ?? '') : String(error)),
      )
    })
  }

  /** A call without a group, or with a key of one: the person pays, or the group. */
  #limitsOf(account: string): Limited & { readonly account: string; readonly inGroup: GroupCall | null } {
    const { random } = this
    const free = { account, budgets: [], key: null, keyLimit: null, inGroup: null }
    if (random.oneIn(4)) return free
    const person = random.pick(people)
    const standing = this.#groups.standingOf(person)
    const now = this.#now()
    const key = `key of ${person}`
    const keyLimit = this.#keyLimits.get(key)?.(now) ?? null
    if (standing === undefined) return { ...free, account: person, key, keyLimit }
    const payer = random.oneIn(2) ? people[0] : person
    // Without them nothing but the key ties calls together that different accounts pay for.
    const levels = random.oneIn(3) ? [] : standing.levels
    const budgets = this.#system.budgetsOf({ person, levels }, now)
    const expected = expectedBudgets({ ...standing, levels }, now)
    const inGroup = { group: standing.group, person, budgets }
    return { account: payer, budgets: expected, key, keyLimit, inGroup }
  }

  /** An operator limits a key, for ever or for each day, or lets it spend what it likes. */
  #limitKey(person: string): void {
    const limit = BigInt(this.random.below(9_000))
    const isOfDays = this.random.oneIn(2)
    const key = `key of ${person}`
    if (this.random.oneIn(4)) this.#keyLimits.delete(key)
    else this.#keyLimits.set(key, (now) => ({ limit, windowStart: isOfDays ? now - (now % day) : 0 }))
  }

  #freeOf({ account, limited }: Omit<Asked, 'free'>): number {
    const { rows } = this.#server
    const left = this.#limits.usageIn(rows, 'before', none).leftOf(limited)
    return Math.min(rows.freeOf(account), ...left.values())
  }

  async #hold(process: SimulatedProcess, of: string = this.random.pick(['rich', 'rich', 'poor', 'new'])) {
    const call = `call${this.#count++}`
    const { owner } = process
    const limited = this.#limitsOf(of)
    const { account, key, keyLimit, inGroup } = limited
    this.#limits.note(call, limited)
    const asked: Asked = { account, limited, free: this.#freeOf({ account, limited }) }
    this.#asked.add(asked)
    process.running.add(call)
    try {
      const leaseUntil = this.#now() + farMs
      const amounts = { want: least, least, most: least }
      const held = await process.ledger!.hold(
        holdOf(call, { owner, account, key, keyLimit, inGroup, leaseUntil, ...amounts }),
      )
      this.tell(() => `${owner} says of ${call}: ${held.kind}`)
      if (held.kind === 'held') {
        process.held.push(call)
        this.#heldCalls.set(call, process)
        this.#requireThere(call)
      } else {
        process.running.delete(call)
        this.#counts.refused++
        const free = Math.min(asked.free, this.#freeOf(asked))
        if (free >= least && !this.#isHistoryLost)
          this.fail(`${call} was refused, and ${account} had ${free} free all the time`)
      }
    } catch (error) {
      // Nobody runs it: whatever became of it is ended when its lease is over.
      process.running.delete(call)
      this.#requireOutage(error, call)
    } finally {
      this.#asked.delete(asked)
    }
  }

  async #extend(process: SimulatedProcess) {
    const [call] = process.held
    if (call === undefined) return
    try {
      await process.ledger!.extend(extensionOf(call, growth, { owner: process.owner }))
    } catch (error) {
      this.#requireOutage(error, `an extension of ${call}`)
    }
  }

  #requireThere(call: string): void {
    const { open, calls } = this.#server.rows
    if (!open.has(call) && !calls.has(call) && !this.#isHistoryLost)
      this.fail(`the acknowledged ${call} is not there`)
  }

  #requireOutage(error: unknown, what: string): void {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    if (code !== 'store_unavailable' && code !== 'overloaded' && !this.#isHistoryLost)
      this.fail(`${what} was answered with ${code}: ${String((error as Error).cause ?? '')}`)
  }

  #end(process: SimulatedProcess): Promise<void> | undefined {
    const call = process.held.shift()
    if (call === undefined) return undefined
    const kind = this.random.oneIn(6) ? 'release' : 'settle'
    process.owed.set(call, kind)
    return this.#endCall(process, call, kind)
  }

  async #endCall(process: SimulatedProcess, call: string, kind: 'settle' | 'release') {
    const { owner } = process
    try {
      const settled = await (kind === 'settle'
        ? process.ledger!.settle(settleOf(call, charge, { owner }))
        : process.ledger!.release({ call, owner, reason: 'unreachable', attempts: [] }))
      this.tell(() => `${owner} says of the ${kind} of ${call}: ${settled.kind}`)
      if (this.#isHistoryLost) return
      const row = this.#server.rows.calls.get(call)
      if (settled.kind === 'settled') {
        this.#settledCalls.add(call)
        const right = kind === 'settle' ? `finished ${charge}` : 'unreachable 0'
        if (`${row?.['ending']} ${row?.['charged']}` !== right)
          this.fail(`the settle of ${call} is not there`)
      } else if (row?.['ending'] !== 'recovered')
        this.fail(`${call} is said to have ended, and nobody has ended it`)
    } catch (error) {
      this.#requireOutage(error, `the end of ${call}`)
    } finally {
      process.running.delete(call)
    }
  }

  async #checkpoint(process: SimulatedProcess) {
    const [call] = process.held
    if (call === undefined) return
    const { usage } = settleOf(call, 0n)
    const leaseUntil = this.#now() + farMs
    try {
      await process.ledger!.checkpoint({ call, owner: process.owner, usage, cost: 300n, leaseUntil })
    } catch (error) {
      this.#requireOutage(error, `a checkpoint of ${call}`)
    }
  }

  /** Two may grant under one source at once: one of them does. */
  #grantAny(process: SimulatedProcess) {
    const known = this.random.pick(['first', ...this.#granted.keys()])
    return this.#granted.has(known) && this.random.oneIn(3)
      ? this.#grant(process, known, ...this.#granted.get(known)!)
      : this.#grant(process, `source${this.#count++}`, this.random.pick(accounts), 2_000n)
  }

  // Lots that expire together would be spent by the order of their ids, which are no seed's.
  async #grant(
    process: SimulatedProcess,
    name: string,
    account: string,
    amount: bigint,
    expiresAt = this.#begin + farMs + this.#count++,
  ) {
    this.#granted.set(name, [account, amount, expiresAt])
    try {
      const { lot } = await process.ledger!.grant(grantOf(name, amount, { account, expiresAt }))
      this.#acknowledgedGrants.add(name)
      const row = [...this.#server.rows.lots.values()].find(({ source: its }) => its === name)
      if (row?.['id'] !== lot && !this.#isHistoryLost)
        this.fail(`the grant ${name} gave ${lot}, which is not there`)
    } catch (error) {
      this.#requireOutage(error, `the grant ${name}`)
    }
  }

  async #sweep(process: SimulatedProcess) {
    try {
      await process.ledger!.recover(this.#now())
    } catch (error) {
      this.#requireOutage(error, 'a sweep')
    }
  }

  /** Its answer has come: what it says of the chain is what the process knows from now on. */
  #onAnswer(process: SimulatedProcess, text: string, values: readonly Value[], answer: unknown): void {
    if (text === 'BEGIN') process.inTransaction = true
    else if (text === 'ROLLBACK' || text.includes('WHERE id = $1 RETURNING')) process.inTransaction = false
    else if (text === 'COMMIT') {
      process.inTransaction = false
      this.#acknowledge(process)
    } else if (text.startsWith('WITH told AS')) {
      const [row] = answer as readonly { readonly yes: boolean }[]
      process.answered = row?.yes ? { chain: Number(values[0]), batch: Number(values[2]) + 1 } : undefined
      // One in a transaction counts when that is committed, which is answered after it.
      if (!process.inTransaction) this.#acknowledge(process)
    }
  }

  #acknowledge(process: SimulatedProcess): void {
    const { answered } = process
    process.answered = undefined
    if (!answered) return
    process.acknowledged = answered
    this.#acknowledgedBatches.set(answered.chain, answered.batch)
  }

  /** A group is about to be written: whatever its guards have let through, these must hold. */
  #onGroup(group: Group, rows: Rows): void {
    const { before, after, told, parts } = group
    this.#counts.groups++
    if (before.owner.startsWith('over:')) this.fail(`${before.owner} was taken, and has written`)
    const acknowledged = this.#acknowledgedBatches.get(after.id) ?? 0
    if (after.batch <= acknowledged)
      this.fail(`chain ${after.id} wrote group ${after.batch}, and had an answer to ${acknowledged}`)
    this.#requireOrder(before.tx, before.head, parts)
    for (const { account, version, next } of told) {
      const head = rows.heads.get(account)
      if (head?.version !== version)
        this.fail(`${account} is at ${head?.version}, and a group knew ${version}`)
      if (next <= version) this.fail(`a group leaves ${account} at its version ${version}`)
    }
    for (const { id, ending } of parts.get('ended') ?? []) {
      if (rows.calls.has(String(id))) this.fail(`${id} ends twice`)
      if (ending !== 'recovered') continue
      this.#counts.recovered++
      const owner = String(rows.open.get(String(id))?.['owner'])
      if (rows.chainOf(owner) && !this.#isHistoryLost)
        this.fail(`${id} was ended for ${owner}, whose chain nobody has taken`)
    }
    // Within a group all that it opens may have been there before anything that it ends.
    const amid = this.#limits.usageIn(rows, 'amid', parts)
    const setAside = [...(parts.get('opening') ?? []), ...grownIn(rows.open, parts)]
    for (const asked of this.#asked) {
      const opened = setAside.filter(({ account }) => account === asked.account)
      const held = opened.reduce(
        (sum, { id, hold }) => sum + Number(hold) - Number(rows.open.get(String(id))?.['hold'] ?? 0),
        0,
      )
      const left = amid.leftOf(asked.limited).values()
      asked.free = Math.min(asked.free, rows.freeOf(asked.account) - held, ...left)
    }
    if (!this.#isHistoryLost) this.#requireLimits(group, rows, setAside)
  }

  /** What is set aside is within every limit of its call, and budgets say what their calls have spent and hold. */
  #requireLimits({ toldBudgets, parts }: Group, rows: Rows, setAside: readonly Row[]): void {
    const usage = this.#limits.usageIn(rows, 'after', parts)
    for (const budget of toldBudgets) {
      const name = nameOf(budget)
      const known = rows.budgets.get(name)?.version
      if (known !== budget.version) this.fail(`${name} is at ${known}, and a group knew ${budget.version}`)
      this.#requireBudget(name, budget, usage)
    }
    // Limits may be changed while a group comes together: what is there fits the widest that any of it was asked with.
    const widest = new Map<string, number>()
    for (const call of setAside)
      for (const [name, left] of usage.leftOf(this.#limits.of(call)))
        widest.set(name, Math.max(left, widest.get(name) ?? -Infinity))
    for (const [name, left] of widest) if (left < 0) this.fail(`${name} is passed by ${-left}`)
  }

  #requireBudget(name: string, { spent, held }: Pick<BudgetRow, 'spent' | 'held'>, usage: Usage): void {
    const right = usage.budgets.get(name) ?? { spent: 0, held: 0 }
    if (spent !== right.spent || held !== right.held)
      this.fail(`${name} has ${spent} spent and ${held} held, and its calls ${right.spent} and ${right.held}`)
  }

  /** Of the lines of a group: they go on from the end of their chain, and each account has an order over all chains. */
  #requireOrder(lastTx: number, lastHash: string, parts: Group['parts']): void {
    let [tx, hash] = [lastTx, lastHash]
    for (const line of parts.get('journal') ?? []) {
      const of = Number(line['tx'])
      if (of !== tx && of !== tx + 1) this.fail(`a line of transaction ${of} follows ${tx}`)
      if (line['prev_hash'] !== String.raw`\x` + hash)
        this.fail(`transaction ${of} does not follow the chain's end`)
      tx = of
      hash = String(line['hash']).slice(2)
      if (line['version'] === null || this.#isHistoryLost) continue
      const account = String(line['account']).split(':')[1]
      const place = `${account} ${line['version']}`
      const name = `${line['chain']}.${of}`
      const other = this.#versions.get(place)
      if (other !== undefined && other !== name) this.fail(`${place} is that of ${other} and of ${name}`)
      this.#versions.set(place, name)
    }
  }

  /** All is well again; after a while every process serves, or has ended because it had to. */
  #finish(): void {
    this.#network.troubleEvery = 0
    for (const process of this.#living) this.#wake(process)
    this.#runFor(settledMs)
    this.#replaceEnded()
    this.#runFor(settledMs)
    for (const process of this.#living) this.#ask(process, 'sweep', () => this.#sweep(process))
    this.#runFor(settledMs / 2)
    for (const process of this.#living) {
      const { owner, acknowledged, lost } = process
      if (lost !== undefined || !process.ledger) {
        if (!this.#isHistoryLost) this.fail(`${owner} does not serve: ${lost}`)
        continue
      }
      const { size } = this.#acknowledgedGrants
      this.#ask(process, 'grant', () => this.#grant(process, `last ${owner}`, 'rich', least))
      this.#runFor(settledMs / 2)
      const behind = (this.#server.rows.chains.get(acknowledged.chain)?.batch ?? 0) < acknowledged.batch
      if (behind && process.lost === undefined)
        this.fail(`${owner} goes on, and what it had answers to is lost`)
      if (
        !behind &&
        process.lost === undefined &&
        this.#acknowledgedGrants.size === size &&
        !this.#isHistoryLost
      )
        this.fail(`${owner} does not come back`)
      for (const [call, kind] of process.owed) {
        if (this.#isHistoryLost || process.lost !== undefined) break
        const ending = this.#server.rows.calls.get(call)?.['ending']
        if (ending !== (kind === 'settle' ? 'finished' : 'unreachable'))
          this.fail(`${owner} lives, and its ${kind} of ${call} is not there: ${ending}`)
      }
    }
    const living = new Set(this.#living.map(({ owner }) => owner))
    for (const { id, owner } of this.#server.rows.open.values())
      if (!living.has(String(owner)) && !this.#isHistoryLost) this.fail(`${id} of ${owner} is still open`)
    if (!this.#isHistoryLost) {
      this.#requireWhole(this.#server.rows)
      this.#requireCounted(this.#server.rows)
    }
    if (this.#broken !== undefined) throw new Broken(this.#broken)
  }

  #requireCounted(rows: Rows): void {
    const usage = this.#limits.usageIn(rows, 'before', none)
    for (const [name, budget] of rows.budgets) this.#requireBudget(name, budget, usage)
    for (const name of usage.budgets.keys())
      if (!rows.budgets.has(name)) this.fail(`${name} has calls, and is not there`)
    for (const person of people) {
      const key = `key of ${person}`
      const [days, right] = [rows.keyDays.get(key), usage.daysOf(key)]
      if (!Bun.deepEquals(days, right)) this.fail(`the days of ${key} are not those of its calls`)
    }
  }

  #requireWhole({ lots, open, calls, journal }: Rows): void {
    for (const call of this.#heldCalls.keys()) this.#requireThere(call)
    for (const call of this.#settledCalls) if (!calls.has(call)) this.fail(`the settle of ${call} is gone`)
    const sources = new Set([...lots.values()].map(({ source }) => source))
    for (const source of this.#acknowledgedGrants)
      if (!sources.has(source)) this.fail(`the grant ${source} is gone`)
    const booked = new Map<string, number>()
    for (const { lot, amount } of journal)
      if (lot !== null) booked.set(String(lot), (booked.get(String(lot)) ?? 0) + Number(amount))
    const pinned = new Map<string, number>()
    for (const call of open.values())
      for (const [lot, amount] of JSON.parse(String(call['pins'])) as [string, string][])
        pinned.set(lot, (pinned.get(lot) ?? 0) + Number(amount))
    for (const lot of lots.values()) {
      const id = String(lot['id'])
      if (booked.get(id) !== lot['remaining'])
        this.fail(`${id} has ${lot['remaining']}, and ${booked.get(id)} is booked`)
      if ((pinned.get(id) ?? 0) !== lot['pinned'])
        this.fail(`${id} has ${lot['pinned']} pinned, not ${pinned.get(id)}`)
      if (Number(lot['remaining']) < Number(lot['pinned'])) this.fail(`${id} is overdrawn`)
    }
    for (const call of open.keys()) if (calls.has(call)) this.fail(`${call} has ended, and is open`)
  }
}

/** Plays one history; the same seed plays the same. */
export function simulate(system: System, seed: number, steps: number, tell?: (line: string) => void): Report {
  return new Simulation(system, seed, tell).play(seed, steps)
}
