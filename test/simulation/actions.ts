// What happens in a history: the commands that clients, payments and operators send, and what befalls the processes.

import { noUsage } from '../../src/conversation/usage.ts'
import { allowanceGrant, welcomeGrant } from '../../src/credits/calendar.ts'
import type {
  GroupCall,
  HoldAmounts,
  HoldCommand,
  LedgerStore,
  LedgerUpkeep,
} from '../../src/credits/ledger/ledger.ts'
import type { Command } from '../../src/credits/decide.ts'
import { fundingOf, pools } from '../../src/credits/pool.ts'
import { day, grantOf, holdOf, minute, settleOf } from '../credits/support.ts'
import { expectedBudgets, SimulatedGroups } from './groups.ts'
import { holdOf as heldBy, type Carried } from './oracle.ts'
import { issueOf, type SimulatedProcess } from './process.ts'
import { show, type Simulation } from './simulation.ts'

const accounts = ['anna', 'berta', 'carla']
/** A group that pays for its members. */
const groupWallet = 'grp_a'
const fundings = [fundingOf('app', true), fundingOf('app', false)]
/** Far beyond what a signed 64-bit integer holds. */
const absurd = 10n ** 25n
const largestLot = 10n ** 18n

/** How often each thing happens, in proportion. */
const happenings = {
  run: 300,
  hold: 90,
  settle: 75,
  release: 20,
  checkpoint: 25,
  extend: 25,
  grant: 30,
  allowance: 12,
  refund: 12,
  adjust: 10,
  line: 4,
  rotate: 6,
  group: 12,
  look: 20,
  again: 45,
  sweep: 20,
  time: 40,
  crash: 10,
  doom: 14,
  lock: 8,
  full: 5,
  powerCut: 1,
} as const satisfies Readonly<Record<CommandName, number> & Record<string, number>>

/** Every command there is: lots expire by the sweep alone. */
type CommandName = Exclude<Command['kind'], 'expire'> | 'allowance' | 'line'

export class Actions {
  readonly #world: Simulation
  readonly #history: Carried[] = []
  readonly #groups: SimulatedGroups
  #calls = 0
  #ids = 0
  /** Steps until a full disk has room again. */
  #fullFor = new Map<SimulatedProcess, number>()
  /** The keys of each account; of one limit, as each replaces another. */
  readonly #keys = new Map(accounts.map((account) => [account, [`key-${account}`]]))

  constructor(world: Simulation) {
    this.#world = world
    this.#groups = new SimulatedGroups(world.random, {
      people: ['anna', 'berta'],
      mostOfGroup: 160,
      mostOfPerson: 120,
    })
  }

  step(): void {
    const { random } = this.#world
    for (const [process, left] of this.#fullFor) {
      if (left > 0) this.#fullFor.set(process, left - 1)
      else {
        process.database.faults.full = null
        this.#fullFor.delete(process)
      }
    }
    const what = random.weighted(happenings)
    if (what !== 'run') this.#world.tell(() => what)
    switch (what) {
      case 'run':
        return this.#world.scheduler.runOne(random)
      case 'again':
        return this.#history.length > 0 ? this.#send(random.pick(this.#history)) : undefined
      case 'time':
        return this.#world.moveClock(this.#interval())
      case 'sweep':
        return this.#world.sweep(this.#world.living(), random.pick(['recover', 'expire']))
      case 'rotate':
        return this.#rotate()
      case 'group':
        return this.#groups.act()
      case 'look':
        return this.#world.look()
      case 'crash':
        return this.#world.crash(this.#world.living())
      case 'powerCut':
        return this.#world.cutPower()
      case 'doom':
        return this.#doom(this.#world.living())
      case 'lock':
        this.#world.living().database.faults.busy = random.oneIn(4) ? 500 : 1 + random.below(3)
        return
      case 'full': {
        const process = this.#world.living()
        process.database.faults.full = { undoes: random.oneIn(2) }
        this.#fullFor.set(process, random.below(40))
        return
      }
      default:
        return this.#command(what)
    }
  }

  /** Mostly moments; now and then an hour forth or back, a day, or to the first moment of a month. */
  #interval(): number {
    const { random } = this.#world
    const hour = 60 * minute
    const now = new Date(this.#world.now())
    const nextMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) - now.getTime()
    const moments = [1, 1, 1, 50, 1000, 1000, minute, minute, 20 * minute]
    return random.pick([...moments, hour, -hour, day, nextMonth])
  }

  /** Death comes at a write of the next transactions, or between a commit and its answers. */
  #doom(process: SimulatedProcess): void {
    const { random } = this.#world
    if (random.oneIn(2)) process.database.faults.dieAfterCommit = true
    else process.database.faults.dieAtWrite = random.below(12)
  }

  #command(what: CommandName): void {
    const command = this.#make(what)
    if (!command) return
    this.#history.push(command)
    this.#send(command)
  }

  #send(carried: Carried): void {
    const process = this.#world.living()
    if (process.dead) return
    const issue = issueOf(carried)
    const { ledger } = process
    const early = carried.kind === 'hold' && this.#world.random.oneIn(2)
    const haste = this.#world.random.oneIn(2) ? 'soon' : 'at-once'
    const send = async () => {
      const { result, durable } = await ledger.startHold(carried.command as HoldCommand, haste)
      this.#world.decided(issue, process, result)
      if (result.kind === 'held') await durable
      return result
    }
    this.#world.ask(process, issue, () => show(carried), early ? send : () => sent(ledger, carried))
  }

  #make(what: CommandName): Carried | null {
    const { random } = this.#world
    const account = random.pick(accounts)
    const now = this.#world.now()
    switch (what) {
      case 'hold':
        return this.#hold(account)
      case 'settle': {
        const { call, owner, held } = this.#someCall()
        const cost = random.pick([
          0n,
          held,
          this.#amount(),
          this.#amount(),
          held + this.#amount(),
          held / 2n,
          absurd,
        ])
        const command = settleOf(call, random.oneIn(8) ? cost : cost === absurd ? held : cost, {
          owner,
          estimated: random.oneIn(4),
          most: random.oneIn(3) ? random.pick([held, this.#amount()]) : null,
          lines: [],
        })
        return { kind: 'settle', command }
      }
      case 'release': {
        const { call, owner } = this.#someCall()
        return { kind: 'release', command: { call, owner, reason: 'upstream_error', attempts: [] } }
      }
      case 'checkpoint': {
        const { call, owner, held } = this.#someCall()
        const usage = { ...noUsage, output: 1 + random.below(9) }
        const cost = random.pick([0n, held, this.#amount()])
        return { kind: 'checkpoint', command: { call, owner, usage, cost, leaseUntil: this.#lease() } }
      }
      case 'extend': {
        const { call, owner } = this.#someCall()
        return { kind: 'extend', command: { call, owner, ...this.#amounts() } }
      }
      case 'grant':
        return this.#grant(account)
      case 'allowance':
        return {
          kind: 'grant',
          command: random.oneIn(4) ? welcomeGrant(account, 50n) : allowanceGrant(account, now, 20n),
        }
      case 'refund': {
        const lots = this.#world.oracle.lots
        if (lots.length === 0) return null
        const before = this.#history.flatMap(({ kind, command }) => (kind === 'refund' ? [command] : []))
        if (before.length > 0 && random.oneIn(8))
          return { kind: 'refund', command: { ...random.pick(before), amount: this.#amount() } }
        // Mostly of the newest: a payment is taken back before it is spent, and then once more.
        const lot = random.oneIn(2) ? lots.at(-1)! : random.pick(lots)
        const amount = random.oneIn(2) ? lot.granted : this.#amount()
        const owner = random.oneIn(10) ? account : lot.account
        return {
          kind: 'refund',
          command: { id: this.#correctionId(), account: owner, lot: lot.id, amount },
        }
      }
      case 'line': {
        // One account never has a line: for it the rules stay as they are.
        const most = random.pick([0n, this.#amount(), 2n * this.#amount(), largestLot])
        return account === accounts[0] ? null : { kind: 'line', command: { account, most } }
      }
      case 'adjust': {
        const amount = random.oneIn(2) ? this.#amount() : -this.#amount()
        return {
          kind: 'adjust',
          command: {
            id: this.#correctionId(),
            account,
            pool: random.pick(pools),
            amount,
            operator: 'cli:otto',
          },
        }
      }
    }
  }

  #hold(account: string): Carried {
    const { random } = this.#world
    const now = this.#world.now()
    const app = random.oneIn(2)
    const key = app ? null : random.pick(this.#keys.get(account)!)
    const windowStart = random.oneIn(2) ? 0 : now - (now % day)
    const keyLimit = key !== null && random.oneIn(2) ? { limit: this.#amount() * 3n, windowStart } : null
    const inGroup = key === null || random.oneIn(4) ? null : this.#groupCall(account)
    const command = holdOf(`call-${random.oneIn(12) ? this.#calls : ++this.#calls}`, {
      account: inGroup !== null && random.oneIn(2) ? groupWallet : account,
      key,
      keyLimit,
      inGroup,
      funding: key === null ? random.pick(fundings) : ['purchased'],
      ...this.#amounts(),
      owner: this.#world.living().owner,
      leaseUntil: this.#lease(),
    })
    return { kind: 'hold', command }
  }

  /** With a key of the group that its person is a member of now; the budgets are the gateway's to find. */
  #groupCall(person: string): GroupCall | null {
    const standing = this.#groups.standingOf(person)
    if (standing === undefined) return null
    const now = this.#world.now()
    const budgets = this.#world.stage.system.budgetsOf(standing, now)
    const expected = expectedBudgets(standing, now)
    if (!Bun.deepEquals(budgets, expected))
      this.#world.fail(`${person} spends from ${show(budgets)}, not ${show(expected)}`)
    return { group: standing.group, person, budgets }
  }

  #grant(person: string): Carried {
    const { random } = this.#world
    const account = random.oneIn(4) ? groupWallet : person
    const pool = random.pick(['purchased', 'purchased', 'purchased', 'subscription', 'daily'] as const)
    const lives = [minute, 30 * minute, day, 2 * day]
    const expiresAt = pool === 'purchased' && random.oneIn(2) ? null : this.#world.now() + random.pick(lives)
    const huge = random.pick([largestLot, largestLot + 1n, absurd, 0n])
    const amount = random.oneIn(25) ? huge : 2n * this.#amount()
    // A payment's message comes again, sometimes with another amount or for another account.
    const source = `payment:test:${random.oneIn(6) ? random.below(this.#ids + 1) : this.#id()}`
    const from = 'cash:test'
    // What was paid in another currency is rarely a whole number of picodollars.
    const rounding = random.oneIn(3) ? 1n : 0n
    const more = { account, pool, expiresAt, from, rounding }
    return { kind: 'grant', command: grantOf(source, amount, more) }
  }

  /** A call that is open, with its owner; now and then one that is not, or a stranger. */
  #someCall(): { call: string; owner: string; held: bigint } {
    const { random, oracle } = this.#world
    const open = [...oracle.calls.values()].filter((call) => call.state === 'open')
    if (open.length === 0 || random.oneIn(10)) {
      const call = `call-${random.below(this.#calls + 2)}`
      return { call, owner: oracle.calls.get(call)?.owner ?? 'nobody', held: 5n }
    }
    const call = random.pick(open)
    const owner = random.oneIn(12) ? this.#world.living().owner : call.owner
    return { call: call.id, owner, held: heldBy(call) }
  }

  /** Often a call may cost far more than it needs, so that it takes its share. */
  #amounts(): HoldAmounts {
    const { random } = this.#world
    const least = random.oneIn(3) ? 0n : this.#amount()
    const want = least + (random.oneIn(4) ? 0n : this.#amount())
    return { least, want, most: random.oneIn(2) ? want : want + this.#amount() * 10n }
  }

  #lease(): number {
    return this.#world.now() + this.#world.random.pick([30_000, 10 * minute, 45 * minute])
  }

  #amount(): bigint {
    return BigInt(this.#world.random.below(40))
  }

  /** Of a refund or an adjustment; now and then one that has been used for another. */
  #correctionId(): string {
    const { random } = this.#world
    return `correction-${random.oneIn(6) ? random.below(this.#ids + 1) : this.#id()}`
  }

  /** An operator's command mints a successor of one of an account's keys. */
  #rotate(): void {
    const { random } = this.#world
    const account = random.pick(accounts)
    const keys = this.#keys.get(account)!
    const key = random.pick(keys)
    const successor = `key-${account}-${this.#id()}`
    this.#world.rotate(account, key, successor)
    keys.push(successor)
  }

  #id(): number {
    return ++this.#ids
  }
}

function sent(ledger: LedgerStore & LedgerUpkeep, { kind, command }: Carried): Promise<unknown> {
  switch (kind) {
    case 'hold':
      return ledger.hold(command)
    case 'extend':
      return ledger.extend(command)
    case 'checkpoint':
      return ledger.checkpoint(command)
    case 'settle':
      return ledger.settle(command)
    case 'release':
      return ledger.release(command)
    case 'grant':
      return ledger.grant(command)
    case 'refund':
      return ledger.refund(command)
    case 'adjust':
      return ledger.adjust(command)
    case 'line':
      return ledger.setCreditLine(command.account, command.most)
    case 'recover':
    case 'expire':
      throw new Error('a sweep finds its own work')
  }
}
