// The messages of a seller of subscriptions in every order, at once and again, while the gateway that takes them is
// killed between any two of its steps: one way is told by a seed. In the end each period has what was paid for it, and
// nothing where the money went back.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Pico, usd } from '../../../src/credits/money.ts'
import {
  type Product,
  type SubscriptionMessage,
  Subscriptions,
  type SubscriptionState,
} from '../../../src/payments/subscriptions.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { openReader } from '../../../src/store/sqlite/database/sqlite.ts'
import { day, holdOf, noon, settleOf } from '../../credits/support.ts'
import { seeded, type Random } from '../../simulation/random.ts'

export interface SubscriptionReport {
  readonly ways: number
  readonly messages: number
  readonly kills: number
  /** Periods whose money went back in the end, and those that were paid for. */
  readonly refunded: number
  readonly paid: number
  /** What must not be, with the seed that shows it. */
  readonly broken: readonly string[]
}

const products: ReadonlyMap<string, Product> = new Map([
  ['premium_month', { credit: usd(5), months: 1 }],
  ['pro_month', { credit: usd(20), months: 1 }],
])
const mostKills = 6

export async function subscriptionWays({
  from,
  ways,
}: {
  readonly from: number
  readonly ways: number
}): Promise<SubscriptionReport> {
  const home = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'weir-subscriptions-'))
  const store = await openStore(home, { clock: () => noon, serveAs: 'subscriptions' })
  const report = { ways: 0, messages: 0, kills: 0, refunded: 0, paid: 0, broken: [] as string[] }
  try {
    for (let seed = from; seed < from + ways && report.broken.length < 5; seed++) {
      const way = new Way(seed, store)
      await way.play().catch((error: unknown) => way.broken.push(String((error as Error).stack)))
      report.ways++
      for (const count of ['messages', 'kills', 'refunded', 'paid'] as const) report[count] += way[count]
      report.broken.push(...way.broken.map((what) => `seed ${seed}: ${what}`))
    }
    const audit = await store.ledger.audit()
    for (const { name, ok, detail } of audit.checks) if (!ok) report.broken.push(`audit: ${name}: ${detail}`)
    return report
  } finally {
    await store.close()
    rmSync(home, { recursive: true, force: true })
  }
}

/** What is thrown where the process would have been no more. */
class Killed extends Error {}

/** The steps of one process until it is killed, before one of them or after it. */
class Life {
  #left: number
  readonly #after: boolean
  #over = false

  constructor(left: number, after: boolean) {
    this.#left = left
    this.#after = after
  }

  get over(): boolean {
    return this.#over
  }

  /** The same object, none of whose methods does anything any more when the process is dead. */
  of<T extends object>(target: T): T {
    return new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name, target)
        if (typeof value !== 'function') return value
        return (...given: unknown[]) => this.#step(() => Reflect.apply(value, target, given) as unknown)
      },
    })
  }

  #step(act: () => unknown): unknown {
    if (--this.#left === 0 && !this.#after) this.#over = true
    this.#requireAlive()
    const done = act()
    if (this.#left === 0) this.#over = true
    if (!(done instanceof Promise)) {
      this.#requireAlive()
      return done
    }
    return done.then((value: unknown) => {
      this.#requireAlive()
      return value
    })
  }

  #requireAlive(): void {
    if (this.#over) throw new Killed()
  }
}

interface Sale {
  readonly message: Omit<SubscriptionMessage, 'state'>
  readonly states: readonly SubscriptionState[]
  readonly credit: Pico
}

class Way {
  readonly broken: string[] = []
  messages = 0
  kills = 0
  refunded = 0
  paid = 0
  readonly #random: Random
  readonly #account: string
  readonly #store: Store
  readonly #told: string[] = []
  #life: Life
  #subscriptions: Subscriptions
  #calls = 0

  constructor(seed: number, store: Store) {
    this.#random = seeded(seed)
    this.#account = `acct-${seed}`
    this.#store = store
    this.#life = new Life(0, false)
    this.#subscriptions = this.#begun()
  }

  async play(): Promise<void> {
    const sales = Array.from({ length: 1 + this.#random.below(2) }, (_, number) => this.#sold(number))
    const waiting: SubscriptionMessage[] = sales.flatMap(({ message, states }) =>
      states.map((state) => ({ ...message, state })),
    )
    while (waiting.length > 0) {
      const several = this.#random.oneIn(3) ? 2 : 1
      const told = Array.from({ length: several }, () => this.#takenFrom(waiting)).filter((one) => !!one)
      await Promise.all(told.map((message) => this.#tell(message, waiting)))
      if (this.#random.oneIn(3)) await this.#spend()
    }
    for (const sale of sales) this.#judge(sale)
  }

  #sold(number: number): Sale {
    const random = this.#random
    const product = random.pick([...products.keys()])
    const maybe = (state: SubscriptionState, n: number) => (random.oneIn(n) ? [state] : [])
    const refunded = maybe('refunded', 2)
    const states = [
      ...(random.oneIn(6) ? [] : ['active' as const]),
      ...maybe('grace', 3),
      ...maybe('ended', 4),
      ...refunded,
      ...(refunded.length > 0 ? maybe('refund_reversed', 3) : []),
    ]
    const period = {
      from: new Date(noon - day).toISOString(),
      to: new Date(noon + (5 + random.below(20)) * day).toISOString(),
    }
    return {
      message: {
        subscription: `${this.#account}.${number}`,
        source: 'play',
        account: this.#account,
        product,
        period,
        test: false,
      },
      states: states.flatMap((state) => (random.oneIn(3) ? [state, state] : [state])),
      credit: products.get(product)!.credit,
    }
  }

  #takenFrom(waiting: SubscriptionMessage[]): SubscriptionMessage | undefined {
    return waiting.length === 0 ? undefined : waiting.splice(this.#random.below(waiting.length), 1)[0]
  }

  /** A seller tells again, later, what was not answered. */
  async #tell(message: SubscriptionMessage, waiting: SubscriptionMessage[]): Promise<void> {
    this.messages++
    this.#told.push(message.state)
    try {
      await this.#subscriptions.take(message)
    } catch (error) {
      if (!(error instanceof Killed)) throw error
      this.#told.push('killed')
      waiting.push(message)
      if (this.#life.over) this.#subscriptions = this.#begun()
    }
  }

  #begun(): Subscriptions {
    if (this.#life.over) this.kills++
    const random = this.#random
    const steps = this.kills < mostKills && random.oneIn(2) ? 1 + random.below(20) : Infinity
    this.#life = new Life(steps, random.oneIn(2))
    const { subscriptions, ledger } = this.#store
    return new Subscriptions({
      store: this.#life.of(subscriptions),
      ledger: this.#life.of(ledger),
      accountOf: (account) => account,
      products,
      graceMs: 16 * day,
      now: () => noon,
    })
  }

  async #spend(): Promise<void> {
    const cost = BigInt(1 + this.#random.below(3_000_000)) * 1_000_000n
    const call = `${this.#account}-${++this.#calls}`
    const wanted = {
      account: this.#account,
      key: null,
      funding: ['subscription'],
      want: cost,
      least: cost,
    } as const
    const held = await this.#store.ledger.hold(holdOf(call, wanted))
    if (held.kind === 'held') await this.#store.ledger.settle(settleOf(call, cost))
  }

  #judge({ message: { subscription }, states, credit }: Sale): void {
    const { remaining, consumed } = this.#creditOf(subscription)
    const story = `${subscription} (${this.#told.join(', ')})`
    if (states.includes('refunded') && !states.includes('refund_reversed')) {
      this.refunded++
      if (remaining !== 0n) this.broken.push(`${story} was refunded and has ${remaining}`)
      return
    }
    const due = states.some((state) => state !== 'ended') ? credit : 0n
    if (due > 0n) this.paid++
    if (remaining + consumed !== due) this.broken.push(`${story} has ${remaining} + ${consumed}, not ${due}`)
  }

  /** Of all lots of a subscription, with those of grace periods and of credit that was returned. */
  #creditOf(subscription: string): { readonly remaining: Pico; readonly consumed: Pico } {
    const database = openReader(this.#store.path)
    try {
      const lots = database
        .prepare<{ remaining: bigint; consumed: bigint }, [string, string]>(
          `SELECT remaining, granted - remaining - expired - refunded AS consumed FROM lot
           WHERE account = ? AND instr(source, ?) > 0`,
        )
        .all(this.#account, `:${subscription}:`)
      const sum = (of: 'remaining' | 'consumed') => lots.reduce((total, lot) => total + lot[of], 0n)
      return { remaining: sum('remaining'), consumed: sum('consumed') }
    } finally {
      database.close()
    }
  }
}
