// The messages of a processor in every order: one way is told by a seed. What the gateway has booked in the end must be
// what the processor's own books say, to the picodollar.

import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openReader } from '../../src/store/sqlite/database/sqlite.ts'
import { exchange, parseRate } from '../../src/credits/money.ts'
import type { TopUp } from '../../src/payments/top-up.ts'
import { Payments } from '../../src/payments/payments.ts'
import { Razorpay } from '../../src/payments/processors/razorpay.ts'
import { openStore, type Store } from '../../src/store/open.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { holdOf, noon, settleOf } from '../credits/support.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { receiptGaps, statementFaults } from './statements.ts'
import { inRupees, plansOver } from './top-up.ts'
import { type Delivery, FakeRazorpay, type FakePayment } from '../support/fake-razorpay.ts'

export interface ShuffleReport {
  readonly ways: number
  readonly messages: number
  /** Messages that were refused for their signature, as they had to be. */
  readonly forged: number
  readonly credited: number
  /** What must not be, with the seed that shows it. */
  readonly broken: readonly string[]
}

const rate = parseRate('89.015')!
const inPaise = (amount: number) => exchange({ amount: BigInt(amount), currency: 'INR', rate })
const minute = 60_000

export async function shuffled({
  from,
  ways,
}: {
  readonly from: number
  readonly ways: number
}): Promise<ShuffleReport> {
  // Memory where there is a file system of it: what a disk does is not the question here.
  const home = mkdtempSync(join(existsSync('/dev/shm') ? '/dev/shm' : tmpdir(), 'weir-shuffle-'))
  let cash = 0n
  const fake = new FakeRazorpay()
  const clock = { now: noon }
  const store = await openStore(home, {
    clock: () => clock.now,
    serveAs: 'shuffle',
    clockBackMs: 10 * minute,
  })
  const report = { ways: 0, messages: 0, forged: 0, credited: 0, broken: [] as string[] }
  try {
    for (let seed = from; seed < from + ways && report.broken.length < 5; seed++) {
      const way = new Way(seed, store, fake, clock)
      await way.play().catch((error: unknown) => way.broken.push(String((error as Error).stack)))
      report.ways++
      report.messages += way.messages
      report.forged += way.forged
      report.credited += way.credited
      cash += way.cash
      report.broken.push(...way.broken.map((what) => `seed ${seed}: ${what}`))
    }
    report.broken.push(...receiptGaps(store))
    if (cashIn(store.path) !== -cash)
      report.broken.push(`${cashIn(store.path)} came from the cash, not ${-cash}`)
    const audit = await store.ledger.audit()
    for (const { name, ok, detail } of audit.checks) if (!ok) report.broken.push(`audit: ${name}: ${detail}`)
    return report
  } finally {
    await store.close()
    await fake.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

interface Sale {
  readonly topUp: TopUp
  /** undefined where nobody has paid, or a lie was told of it. */
  readonly payment: FakePayment | undefined
  /** Of the payment, what was taken back in the end, paise. */
  taken: number
}

class Way {
  readonly broken: string[] = []
  messages = 0
  forged = 0
  credited = 0
  /** What its payments came to, with what rounding took. */
  cash = 0n
  readonly #random: Random
  readonly #account: string
  readonly #store: Store
  readonly #fake: FakeRazorpay
  readonly #clock: { now: number }
  readonly #processor: Razorpay
  readonly #payments: Payments
  #spent = 0n
  #calls = 0

  constructor(seed: number, store: Store, fake: FakeRazorpay, clock: { now: number }) {
    this.#random = seeded(seed)
    this.#account = `acct-${seed}`
    this.#store = store
    this.#fake = fake
    this.#clock = clock
    const settings = {
      keyId: fake.keyId,
      keySecret: fake.keySecret,
      webhookSecrets: [fake.webhookSecret, 'the one before'],
      baseUrl: fake.baseUrl,
    }
    const call = (url: string, init: RequestInit) => fake.answer(new Request(url, init))
    this.#processor = new Razorpay(settings, call, () => clock.now)
    this.#payments = new Payments({
      store: store.payments,
      ledger: store.ledger,
      plans: plansOver(store, () => clock.now),
      processors: [this.#processor],
      currencies: inRupees(),
      unpaidPerHour: 20,
      isUsable: () => true,
      now: () => clock.now,
      alarm: () => undefined,
    })
  }

  async play(): Promise<void> {
    const sales: Sale[] = []
    // Each in months of its own: a statement reads the journal back to the beginning of its month.
    this.#nextMonth()
    const afterTx = headOf(this.#store.path)
    for (let number = 1 + this.#random.below(3); number > 0; number--) sales.push(await this.#sell())
    const deliveries = this.#shuffle(sales.flatMap((sale) => this.#messagesOf(sale)))
    for (const delivery of deliveries) {
      await this.#deliver(delivery)
      await this.#meanwhile(sales)
    }
    // What waited for its payment is told again, as a processor does; nothing of it may count twice.
    for (const delivery of this.#shuffle(deliveries)) await this.#deliver(delivery)
    for (const { topUp } of sales) await this.#payments.settleTopUp(topUp.id)
    await this.#payments.sweep(this.#clock.now)
    await this.#judge(sales)
    const books = { store: this.#store, account: this.#account, afterTx, now: this.#store.ledger.now() }
    this.broken.push(...(await statementFaults(books)))
  }

  #nextMonth(): void {
    const now = new Date(this.#clock.now)
    this.#clock.now = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)
  }

  async #sell(): Promise<Sale> {
    const amount = BigInt(10_000 + this.#random.below(1_000_000))
    const wanted = {
      account: this.#account,
      amount,
      currency: 'INR',
      processor: undefined,
      idempotencyKey: null,
    }
    const topUp = await this.#payments.open(wanted, () => ({
      origin: 'http://localhost',
      page: 'http://localhost/',
    }))
    if (this.#random.oneIn(6)) return { topUp, payment: undefined, taken: 0 }
    return { topUp, payment: this.#fake.pay(topUp.reference!, this.#clock.now), taken: 0 }
  }

  /** All that its processor has to say of a sale, some of it more than once, some of it forged. */
  #messagesOf(sale: Sale): Delivery[] {
    const { topUp, payment } = sale
    const fake = this.#fake
    const random = this.#random
    const link = { id: topUp.reference, reference_id: topUp.id, status: 'expired' }
    const expired = fake.signed('payment_link.expired', { payment_link: { entity: link } })
    if (!payment) {
      // Somebody else's idea of what was paid.
      const lie = { ...fake.links.get(topUp.reference!)!, status: 'paid' as const }
      const made = {
        id: `pay_lie${topUp.id}`,
        link: lie,
        amount: 1,
        currency: 'INR',
        createdAt: 1,
        refunded: 0,
      }
      const forged = { ...fake.paid({ ...made, amount: lie.amount }), headers: fake.signed('x', {}).headers }
      return random.pick([
        [expired],
        [fake.paid(made)],
        [fake.paid({ ...made, currency: 'USD' })],
        [forged, expired],
      ])
    }
    const paid = ['payment_link.paid', 'payment.captured', 'order.paid'].map((event) =>
      fake.paid(payment, event),
    )
    const said = [random.pick(paid), ...paid.filter(() => random.oneIn(2))]
    if (random.oneIn(5)) said.push(expired)
    if (random.oneIn(3))
      said.push({ body: paid[0]!.body.replace(/"amount":\d+/g, '"amount":1'), headers: paid[0]!.headers })
    let left = payment.amount
    for (let refunds = random.below(4); refunds > 0 && left > 0; refunds--) {
      const part = random.oneIn(4) ? left : 1 + random.below(left)
      const id = `rfnd_${topUp.id}_${refunds}`
      said.push(fake.refunded(payment, part, id), fake.refunded(payment, part, undefined, 'refund.created'))
      if (random.oneIn(3)) said.push(fake.refunded(payment, part, id, 'refund.failed'))
      else left -= part
    }
    if (random.oneIn(3) && left > 0) {
      const part = random.oneIn(2) ? left : 1 + random.below(left)
      const id = `disp_${topUp.id}`
      const end = random.oneIn(2) ? 'won' : 'lost'
      if (end === 'lost') left -= part
      said.push(fake.disputed(payment, 'created', id, part), fake.disputed(payment, end, id, part))
    }
    sale.taken = payment.amount - left
    return said.flatMap((delivery) => (random.oneIn(3) ? [delivery, delivery] : [delivery]))
  }

  async #deliver({ body, headers }: Delivery): Promise<void> {
    this.messages++
    const raw = Buffer.from(body)
    try {
      const event = await this.#processor.verify!(raw, new Headers(headers))
      await this.#payments.take('razorpay', event, raw)
    } catch (error) {
      if (!(error instanceof GatewayError) || error.code !== 'bad_signature') throw error
      this.forged++
    }
  }

  /** Time goes on, mostly; somebody looks at a page, a sweep comes by, credit is spent. */
  async #meanwhile(sales: readonly Sale[]): Promise<void> {
    const random = this.#random
    this.#clock.now += random.pick([0, 1, 1000, 11_000, minute, -1000])
    if (random.oneIn(60)) this.#nextMonth()
    if (random.oneIn(5)) await this.#payments.look(this.#account, random.pick(sales).topUp.id)
    if (random.oneIn(12)) await this.#payments.sweep(this.#clock.now)
    if (random.oneIn(4)) await this.#spend(BigInt(1 + random.below(2_000_000)) * 1_000_000n)
  }

  async #spend(cost: bigint): Promise<void> {
    const call = `${this.#account}-${++this.#calls}`
    const held = await this.#store.ledger.hold(
      holdOf(call, { account: this.#account, key: null, want: cost, least: cost }),
    )
    if (held.kind === 'refused') return
    const settled = await this.#store.ledger.settle(settleOf(call, cost))
    if (settled.kind === 'settled') this.#spent += settled.charged
  }

  async #judge(sales: readonly Sale[]): Promise<void> {
    const due = sales.map(({ payment, taken }) => {
      if (!payment) return 0n
      return inPaise(payment.amount).credit - inPaise(taken).credit
    })
    const { lots, debt } = await this.#store.ledger.balance(this.#account)
    const has = lots.reduce((sum, lot) => sum + lot.remaining, 0n) - debt
    const expected = due.reduce((sum, credit) => sum + credit, 0n) - this.#spent
    if (has !== expected) this.broken.push(`the account has ${has}, not ${expected}`)
    for (const { topUp, payment, taken } of sales) {
      const row = await this.#payments.look(this.#account, topUp.id)
      const state = !payment
        ? ['open', 'expired']
        : [taken === 0 ? 'credited' : taken === payment.amount ? 'refunded' : 'refunded_part']
      if (!state.includes(row.state))
        this.broken.push(`${topUp.id} is ${row.state}, not ${state.join(' or ')}`)
      if (Number(row.refunded) !== taken)
        this.broken.push(`${topUp.id} has ${row.refunded} refunded, not ${taken}`)
      if (payment) this.credited++
    }
    for (const { payment } of sales) {
      if (!payment) continue
      const { credit, rounding } = inPaise(payment.amount)
      this.cash += credit + rounding
    }
  }

  #shuffle<T>(items: readonly T[]): T[] {
    const left = [...items]
    const order: T[] = []
    while (left.length > 0) order.push(...left.splice(this.#random.below(left.length), 1))
    return order
  }
}

function headOf(path: string): number {
  const database = openReader(path)
  try {
    const head = database.prepare<{ tx: bigint | null }, []>('SELECT max(tx) AS tx FROM journal').get()
    return Number(head?.tx ?? 0n)
  } finally {
    database.close()
  }
}

/** What the journal has taken from Razorpay's cash. */
function cashIn(path: string): bigint {
  const database = openReader(path)
  try {
    const rows = database
      .prepare<{ amount: bigint }, []>(`SELECT amount FROM journal WHERE account = 'cash:razorpay'`)
      .all()
    return rows.reduce((sum, { amount }) => sum + amount, 0n)
  } finally {
    database.close()
  }
}
