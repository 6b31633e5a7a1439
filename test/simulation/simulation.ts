// One history of the ledger, told by a seed: three processes on one file, clients that repeat themselves, crashes at
// any write, locks, full disks and a clock that jumps. After every commit the file is compared with the oracle.

import type { CountedBudget, GrantResult, SettleResult } from '../../src/credits/ledger/ledger.ts'
import { minute, noon } from '../credits/support.ts'
import type { Head } from '../../src/store/sqlite/database/sqlite.ts'
import { Actions } from './actions.ts'
import { ProcessDied } from './faulty-database.ts'
import { type Booked, History } from './history.ts'
import { Oracle, type Answer } from './oracle.ts'
import { replayed, SimulatedProcess, Spill, type Entry, type Issue, type World } from './process.ts'
import { seeded, type Random } from './random.ts'
import { Scheduler } from './scheduler.ts'
import type { Stage } from './stage.ts'

export interface Report {
  readonly seed: number
  /** What broke first; null when nothing did. */
  readonly broken: string | null
  readonly commits: number
  readonly commands: number
  readonly crashes: number
  readonly ownSyncs: number
}

/**
 * Plays one seed. Nothing of it outlives the call; everything in it happens synchronously. `tell` is told the story.
 */
export function simulate(stage: Stage, seed: number, steps: number, tell?: (line: string) => void): Report {
  stage.clear()
  return new Simulation(stage, seed, tell).play(steps)
}

class Broken extends Error {}

export class Simulation implements World {
  readonly stage: Stage
  readonly random: Random
  oracle = new Oracle()
  readonly scheduler = new Scheduler()
  readonly processes: (SimulatedProcess | null)[] = [null, null, null]
  readonly #seed: number
  readonly #tell: ((line: string) => void) | undefined
  readonly #spill = new Spill()
  readonly #history = new History()
  bookedTime = 0
  /** Less than two of the hours that the clock may jump back by. */
  readonly clockBackMs = 90 * minute
  #clock = noon
  #lockHolder: SimulatedProcess | null = null
  #living = new Set<string>()
  readonly #everBorn = new Set<string>()
  #commits = 0
  #commands = 0
  #crashes = 0
  #ownSyncs = 0
  /** A sync takes no time that a process could measure: it may wait for one. */
  readonly #quickDisk: boolean
  #broken: string | null = null

  constructor(stage: Stage, seed: number, tell?: (line: string) => void) {
    this.#tell = tell
    this.stage = stage
    this.#seed = seed
    this.random = seeded(seed)
    this.#quickDisk = seed % 2 === 1
  }

  play(steps: number): Report {
    try {
      this.scheduler.within(() => this.#play(steps))
    } catch (error) {
      this.#broken ??= error instanceof Broken ? error.message : String((error as Error).stack)
    } finally {
      for (const process of this.processes) process?.database.die()
    }
    return {
      seed: this.#seed,
      broken: this.#broken,
      commits: this.#commits,
      commands: this.#commands,
      crashes: this.#crashes,
      ownSyncs: this.#ownSyncs,
    }
  }

  #play(steps: number): void {
    const actions = new Actions(this)
    for (let step = 0; step < steps && this.#broken === null; step++) {
      actions.step()
      this.#bury()
      if (step % 128 === 127) this.#audit()
    }
    if (this.#broken === null) this.#comeToRest()
    if (this.#broken !== null) throw new Broken(this.#broken)
  }

  /** No more faults: everything that was accepted gets done, every call ends, and the books are proven. */
  #comeToRest(): void {
    for (const process of this.processes) {
      if (!process) continue
      Object.assign(process.database.faults, { busy: 0, full: null, dieAtWrite: null, dieAfterCommit: false })
    }
    this.#runAll()
    // Twice: what a successor finds in the spill file may renew a lease.
    for (let round = 0; round < 2; round++) {
      const leases = [...this.oracle.calls.values()].map((call) => call.leaseUntil)
      this.#clock = Math.max(this.#clock, ...leases)
      this.sweep(this.living(), 'recover')
      this.#runAll()
    }
    this.sweep(this.living(), 'expire')
    this.#runAll()
    const open = [...this.oracle.calls.values()].find((call) => call.state === 'open')
    if (open) this.fail(`the call ${open.id} is open for ever`)
    for (const { process, what, ended } of this.#waiting) {
      if (!ended && !process.dead) this.fail(`nobody has answered ${what()}`)
    }
    this.stage.picture.compareAll(this.oracle, (why) => this.fail(why))
    for (const [tx, hash] of this.#anchors) {
      if (this.stage.picture.hashOf(tx) !== hash)
        this.fail(`transaction ${tx} was anchored, and is not in the journal`)
    }
    this.#audit()
  }

  #runAll(): void {
    for (let turns = 0; !this.scheduler.idle; turns++) {
      this.scheduler.runOne(this.random)
      this.#bury()
      if (turns > 10_000) return this.fail('the processes never come to rest')
    }
  }

  now(): number {
    return this.#clock
  }

  tell(line: () => string): void {
    this.#tell?.(`${this.#clock - noon} ${line()}`)
  }

  moveClock(ms: number): void {
    this.#clock += ms
  }

  fail(why: string): void {
    this.#broken ??= why
  }

  /** A running process, started now if need be. */
  living(): SimulatedProcess {
    const at = this.random.below(this.processes.length)
    return (this.processes[at] ??= this.#start(at))
  }

  #start(at: number): SimulatedProcess {
    const owner = `p${at}.${this.#everBorn.size}`
    const process = new SimulatedProcess(this, owner, this.stage.connections[at]!)
    this.#living.add(owner)
    this.#everBorn.add(owner)
    this.scheduler.as(owner, () => this.#claim(process))
    return process
  }

  /** The lock of succession: the operating system drops it with its process. */
  #claim(process: SimulatedProcess): void {
    if (this.#lockHolder !== null) return
    this.#lockHolder = process
    this.tell(() => `${process.owner} succeeds, with ${this.#spill.records.length} spilled`)
    try {
      process.succeed(this.#spill)
    } catch (error) {
      if (!(error instanceof ProcessDied)) throw error
    }
  }

  isDead(owner: string, asker: SimulatedProcess): boolean {
    return this.#lockHolder === asker && !this.#living.has(owner)
  }

  readonly #anchors = new Map<number, string>()

  anchored({ tx, hash }: Head): void {
    this.#anchors.set(tx, hash.toHex())
  }

  crash(process: SimulatedProcess): void {
    process.database.die()
    this.#bury()
  }

  sync(): Promise<void> {
    const covered = this.#history.length
    const image = this.stage.logBytes()
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    // Its process may die meanwhile; then nobody has seen the end of it.
    const fails = this.random.oneIn(200)
    setTimeout(
      () => {
        if (fails) return reject(new Error('EIO'))
        this.#synced(covered, image)
        resolve()
      },
      this.random.below(this.#quickDisk ? 1 : 4),
    )
    return promise
  }

  syncFails(): boolean {
    return this.random.oneIn(200)
  }

  /** The disk has the log up to there, and so much of what was committed. */
  #synced(covered: number, logBytes: number): void {
    this.stage.synced(logBytes)
    this.#history.synced(covered)
  }

  lost(process: SimulatedProcess): void {
    this.tell(() => `${process.owner} has lost its disk`)
    process.database.die()
  }

  /** Every process dies, and the file is as the last sync has left it. */
  cutPower(): void {
    this.tell(() => 'the power is cut')
    for (const process of this.processes) process?.database.die()
    this.#bury()
    this.stage.cutPower()
    this.#lastToCommit = null
    this.oracle = this.#history.cut()
    this.bookedTime = this.#history.time
    this.stage.picture.compareAll(this.oracle, (why) => this.fail(`after a power cut ${why}`))
  }

  /** What the command line does, in a process of its own, when it replaces a key. */
  rotate(account: string, key: string, successor: string): void {
    this.stage.rotate(account, key, successor)
    this.#lastToCommit = null
    this.#book(null, (oracle) => oracle.rotated(key, successor))
    this.#synced(this.#history.length, this.stage.logBytes())
  }

  /** Nobody else has written since: what it remembers is what the file says. */
  #lastToCommit: SimulatedProcess | null = null

  /** The process that has written last says what is spent and held of a budget: as the oracle has it. */
  look(): void {
    const calls = [...this.oracle.calls.values()].filter(({ inGroup }) => inGroup?.budgets.length)
    if (calls.length > 0) this.#lookAt(this.random.pick(this.random.pick(calls).inGroup!.budgets))
  }

  #lookAt(budget: CountedBudget): void {
    const process = this.#lastToCommit
    if (process === null || process.dead) return
    this.scheduler.as(process.owner, () => {
      try {
        const [seen] = process.ledger.budgetSpend([budget])
        const expected = this.oracle.budgetSpend(budget)
        if (!Bun.deepEquals(seen, expected))
          this.fail(`${process.owner} sees ${show(seen)} of ${budget.scope}, not ${show(expected)}`)
      } catch (error) {
        // The file is locked, or the process dies.
        if (!(error instanceof ProcessDied) && (error as { code?: string }).code !== 'store_unavailable')
          throw error
      }
    })
  }

  /** Happens to the oracle now, and to every later one that the disk has it for. */
  #book<T>(
    entry: Entry | null,
    happen: (oracle: Oracle) => T,
  ): { readonly booked: Booked; readonly answer: T } {
    const booked: Booked = { entry, time: 0, happenTo: (oracle) => void happen(oracle) }
    this.#history.add(booked)
    return { booked, answer: happen(this.oracle) }
  }

  /** Takes the dead out of the world: their tasks, their lock, and what they had not synced. */
  #bury(): void {
    for (const [at, process] of this.processes.entries()) {
      if (!process?.dead) continue
      this.processes[at] = null
      this.#living.delete(process.owner)
      this.scheduler.drop(process.owner)
      if (this.#lockHolder === process) {
        this.#lockHolder = null
        this.#spill.crash()
      }
      this.#crashes++
      this.tell(() => `${process.owner} is dead`)
    }
  }

  readonly #waiting: { process: SimulatedProcess; what: () => string; ended: boolean }[] = []

  /** Asks a process for something, and holds it to its answer: what it says must be durable, and true. */
  ask(process: SimulatedProcess, issue: Issue, what: () => string, call: () => Promise<unknown>): void {
    this.#commands++
    this.tell(() => `${process.owner} is asked for ${what()}`)
    const waiting = { process, what, ended: false }
    this.#waiting.push(waiting)
    const answered = (check: () => void) => {
      waiting.ended = true
      if (!process.dead) check()
    }
    this.scheduler.as(process.owner, () => {
      process.asking = issue
      const promise = call()
      process.asking = null
      promise.then(
        (value) => answered(() => this.#acknowledged(issue, { value }, what)),
        (error: unknown) => answered(() => this.#refused(issue, error, what)),
      )
    })
  }

  #acknowledged(issue: Issue, answer: Answer, what: () => string): void {
    const carried = issue.carried(undefined)
    if (carried === null) return
    const call = carried.kind === 'extend' ? this.oracle.calls.get(carried.command.call) : undefined
    const [budget] = call?.inGroup?.budgets ?? []
    if (budget) this.#lookAt(budget)
    // A hold that is refused leaves nothing to be durable.
    const made = isRefusal(answer) ? issue.committed : issue.durable
    if (made === null) this.fail(`${what()} was acknowledged before it was durable`)
    else if (!Bun.deepEquals(made, answer)) this.fail(`${what()} was answered ${show(answer)}`)
  }

  #refused(issue: Issue, error: unknown, what: () => string): void {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error)
    // An infrastructure fault is a 503 and nothing else, and only then may nothing have happened.
    if (code === 'store_unavailable' || code === 'overloaded') {
      const command = issue.carried(undefined)
      const kept = command && ['settle', 'release', 'checkpoint'].includes(command.kind)
      const booked = issue.committed && !('error' in issue.committed)
      if (!kept && booked) this.fail(`${what()} was refused as ${code}, and carried out`)
      return
    }
    if (code === 'internal_error') this.fail(`${what()}: ${String((error as Error).cause ?? error)}`)
    else if (!Bun.deepEquals(issue.committed, { error: code })) this.fail(`${what()} was refused as ${code}`)
  }

  /** A sweep finds its own work; what it did is read from the file, within its transaction. */
  sweep(process: SimulatedProcess, kind: 'recover' | 'expire'): void {
    const now = this.#clock
    this.scheduler.as(process.owner, () => this.#claim(process))
    if (process.dead) return
    const issue: Issue = {
      committed: null,
      durable: null,
      carried: (value) => {
        // It died on a write whose failure the ledger passes over: what it does now reaches no file.
        if (process.dead) return null
        if (kind === 'expire') {
          const account = typeof value === 'bigint' && value > 0n ? process.lastExpired() : null
          return account === null ? null : { kind, command: { account } }
        }
        if (value !== true) return null
        const open = process.openCalls()
        const ended = new Set(process.uncommitted.filter((entry) => this.#hasEnded(entry)).map(callOf))
        const call = [...this.oracle.calls.values()].find(
          ({ id, state }) => state === 'open' && !open.has(id) && !ended.has(id),
        )
        if (call) return { kind, command: { call: call.id, now, dead: this.isDead(call.owner, process) } }
        this.fail('a call was recovered that was not open')
        return null
      },
    }
    this.ask(
      process,
      issue,
      () => kind,
      () => process.ledger[kind](now),
    )
  }

  /** Whether a command of a transaction that is not booked yet has ended its call. */
  #hasEnded({ carried, answer }: Entry): boolean {
    if (carried.kind === 'recover') return true
    if (carried.kind !== 'settle' && carried.kind !== 'release') return false
    // A replayed end has no answer to tell by: it ends the call when it comes from the call's owner.
    const { call, owner } = carried.command
    if (answer === replayed) return this.oracle.calls.get(call)?.owner === owner
    return 'value' in answer && (answer.value as SettleResult).kind === 'settled'
  }

  committed(process: SimulatedProcess, entries: readonly Entry[], durably: boolean): void {
    this.#commits++
    this.#lastToCommit = process
    const touched = new Set<string>()
    for (const entry of entries) {
      const { issue, carried, answer, now, clock } = entry
      issue.committed = answer
      this.tell(() => `${process.owner} commits ${show(carried)} → ${show(answer)}`)
      const tooFarBehind = now - clock > this.clockBackMs
      const lot = this.#newLot(carried, answer)
      const { booked, answer: expected } = this.#book(entry, (oracle) =>
        oracle.carryOut(carried, { now, tooFarBehind }, lot),
      )
      if (leavesTime(carried, expected) || this.oracle.lent) {
        booked.time = now
        this.bookedTime = Math.max(this.bookedTime, now)
      }
      if (answer !== replayed && !Bun.deepEquals(answer, expected)) {
        this.fail(`${show(carried)} gave ${show(answer)}, not ${show(expected)}`)
      }
      const { command } = carried
      if ('account' in command) touched.add(command.account)
      else touched.add(this.oracle.calls.get(command.call)?.account ?? '')
    }
    for (const account of touched) this.stage.picture.compare(this.oracle, account, (why) => this.fail(why))
    if (!durably) return
    this.#ownSyncs++
    this.#synced(this.#history.length, this.stage.logBytes())
  }

  /** A hold is decided, and on its way to the disk: a provider is asked from now on. */
  decided(issue: Issue, process: SimulatedProcess, value: unknown): void {
    if (process.dead || Bun.deepEquals(issue.committed, { value })) return
    this.fail('a hold was decided that was not committed')
  }

  /** The id the ledger gave to the lot it made: the one thing the oracle cannot know. */
  #newLot({ kind, command }: Entry['carried'], answer: Answer): string {
    if (kind === 'adjust') return this.stage.picture.lotOf(`adjust:${command.id}`)
    const value = 'value' in answer ? answer.value : null
    return kind === 'grant' && value ? (value as GrantResult).lot : ''
  }

  #audit(): void {
    const broken = this.stage.audit().checks.find((check) => !check.ok)
    if (broken) this.fail(`audit: ${broken.name}: ${broken.detail}`)
  }
}

/** Whether a command that was carried out so has left its time in the file. */
function leavesTime({ kind }: Entry['carried'], answer: Answer): boolean {
  if (kind === 'extend' || kind === 'checkpoint' || !('value' in answer)) return false
  const { value } = answer as { value: Record<string, unknown> | boolean | bigint }
  if (typeof value !== 'object') return Boolean(value)
  if ('kind' in value) return value['kind'] !== 'refused' && value['kind'] !== 'already-ended'
  return (value['granted'] ?? value['refunded'] ?? value['adjusted']) === true
}

function isRefusal(answer: Answer): boolean {
  return 'value' in answer && (answer.value as { readonly kind?: string } | undefined)?.kind === 'refused'
}

function callOf({ carried: { command } }: Entry): string {
  return 'call' in command ? command.call : ''
}

export function show(value: unknown): string {
  return (
    JSON.stringify(value, (_key, item: unknown) => (typeof item === 'bigint' ? `${item}` : item)) ?? 'nothing'
  )
}
