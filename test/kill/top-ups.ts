// Kills the real server between the proof of a payment and its credit, between the credit and the answer, and at any
// moment, again and again, while payers pay; then compares its books with the processor's, and what the webhook of the
// account was told with both.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { creditOfPart, parseRate } from '../../src/credits/money.ts'
import { paymentFailpoints } from '../../src/credits/ledger/failpoint.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { type Delivery, FakeRazorpay, type FakePayment } from '../support/fake-razorpay.ts'
import { type RunningWeir, startWeir } from '../support/run-weir.ts'
import { Listener } from './listener.ts'
import { tempDir } from '../support/tmp.ts'

interface TopUpKills {
  readonly kills: number
  readonly payers: number
  readonly seed: number
}

export interface TopUpKillReport {
  readonly kills: number
  /** Of those, at each point: a server that never came to its point is no kill there. */
  readonly reached: Readonly<Record<string, number>>
  readonly paid: number
  readonly refunds: number
  /** Messages that the webhook has got, and of those how many more than once. */
  readonly told: number
  readonly toldAgain: number
  /** Everything that must not be. */
  readonly broken: readonly string[]
}

const points = Object.keys(paymentFailpoints) as (keyof typeof paymentFailpoints)[]
/** How long a server may take to come to its failpoint. */
const reachMs = 5_000
const rate = parseRate('89.015')!

export async function killWhilePaying({ kills, payers, seed }: TopUpKills): Promise<TopUpKillReport> {
  const random = seeded(seed)
  const home = tempDir('weir-kill-payments-')
  const razorpay = new FakeRazorpay()
  const listener = new Listener()
  const config = `local_servers: { discover: false }
ledger: { sweep_ms: 100 }
secrets: { master_key: master-key-0123456789-abcdefghijklm }
egress: { allow_hosts: ["${listener.address}"] }
webhooks: { every_ms: 50, timeout_ms: 200 }
payments: { fx: { inr_per_usd: "89.015" }, razorpay: ${razorpay.settings} }
`
  const start = (failpoint?: string) =>
    startWeir({ config, dataDir: home.path, env: failpoint ? { WEIR_TEST_FAILPOINT: failpoint } : {} })
  const reached: Record<string, number> = {}
  const broken: string[] = []
  let weir = await start()
  const { token, account } = await payerOf(weir)
  const webhook = await listeningTo(weir, listener)
  const market = new Market(razorpay, random, token, () => weir)
  try {
    const lanes = Array.from({ length: payers }, () => market.run())
    for (let kill = 0; kill < kills; kill++) {
      const point = kill % 3 === 2 ? undefined : points[(kill - Math.floor(kill / 3)) % points.length]
      await weir.kill()
      await weir.stop()
      weir = await start(point === undefined ? undefined : `${point}:${1 + random.below(3)}`)
      market.resume()
      await (point === undefined
        ? Bun.sleep(20 + random.below(200))
        : Promise.race([weir.exited, Bun.sleep(reachMs)]))
      if (point !== undefined && weir.output().includes(`failpoint ${point}`))
        reached[point] = (reached[point] ?? 0) + 1
      market.pause()
    }
    await weir.kill()
    await weir.stop()
    weir = await start()
    market.resume()
    // On a busy machine a server may be killed before anybody has paid.
    await market.paidMoreThan(kills)
    market.close()
    await Promise.all(lanes)
    // Whatever was on disk and not finished when the last of them died.
    await Bun.sleep(500)
    await deliveriesOver(home.path)
    broken.push(...(await wrongOnPage(weir, account, webhook)))
    const audit = await weir.command('ledger', 'audit', '--json')
    if (audit.code !== 0) broken.push(`the audit says: ${audit.stdout}`)
    await weir.stop()
    broken.push(...market.broken, ...judged(home.path, account, market))
    broken.push(...listener.broken, ...wrongTold(home.path, listener))
    const told = [...listener.told.values()]
    const refunds = market.payments.filter(({ refunded }) => refunded > 0).length
    return {
      kills,
      reached,
      paid: market.payments.length,
      refunds,
      told: told.length,
      toldAgain: told.filter(({ times }) => times > 1).length,
      broken,
    }
  } finally {
    market.close()
    await weir.kill()
    await weir.stop()
    await razorpay.stop()
    await listener.stop()
    home.remove()
  }
}

async function payerOf(weir: RunningWeir): Promise<{ readonly token: string; readonly account: string }> {
  const made = await weir.command('accounts', 'create', '--email', 'payer@example.org', '--json')
  const session = await weir.command('accounts', 'session', '--account', 'payer@example.org', '--json')
  const { id } = JSON.parse(made.stdout) as { id: string }
  const { token } = JSON.parse(session.stdout) as { token: string }
  return { token, account: id }
}

/** Has the account's top-ups told to the listener. Gives the id of the webhook. */
async function listeningTo(weir: RunningWeir, listener: Listener): Promise<string> {
  const given = ['--account', 'payer@example.org', '--event', 'top_up.credited', '--json']
  const added = await weir.command('webhooks', 'add', `http://${listener.address}/`, ...given)
  const { id, secret } = JSON.parse(added.stdout) as { id: string; secret: string }
  listener.secret = secret
  return id
}

/** Waits until no message waits. */
async function deliveriesOver(dataDir: string): Promise<void> {
  using database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  const waiting = database.prepare<{ many: number }, []>(
    `SELECT count(*) AS many FROM webhook_delivery WHERE state = 'waiting'`,
  )
  for (let polls = 0; waiting.get()!.many > 0 && polls < 200; polls++) await Bun.sleep(50)
}

/** The page of the webhook shows each message delivered, with the attempt that was. */
async function wrongOnPage(weir: RunningWeir, account: string, webhook: string): Promise<string[]> {
  const made = await weir.command('keys', 'create', '--management', '--account', 'owner@localhost', '--json')
  const { key } = JSON.parse(made.stdout) as { key: string }
  const response = await fetch(`${weir.origin}/admin/v1/accounts/${account}/webhooks/${webhook}/deliveries`, {
    headers: { authorization: `Bearer ${key}` },
  })
  const { data } = (await response.json()) as {
    data: { id: string; state: string; attempts: { status: number | null }[] }[]
  }
  if (data.length === 0) return ['the page of the webhook shows no message']
  return data
    .filter(({ state, attempts }) => state !== 'delivered' || attempts.at(-1)?.status !== 204)
    .map((delivery) => `the page of the webhook shows ${JSON.stringify(delivery)}`)
}

/** Each top-up that was credited was told of, always under one id. */
function wrongTold(dataDir: string, { told }: Listener): string[] {
  using database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  const credited = database
    .prepare<{ id: string }, []>('SELECT id FROM top_up WHERE credited_at IS NOT NULL')
    .all()
  const untold = credited.filter(({ id }) => !told.has(id)).map(({ id }) => `${id} was never told of`)
  const twice = [...told].filter(([, { ids }]) => ids.size !== 1)
  const early = [...told.keys()].filter((id) => !credited.some((other) => other.id === id))
  return [
    ...untold,
    ...twice.map(([id, { ids }]) => `${id} was told of as ${[...ids].join(' and ')}`),
    ...early.map((id) => `${id} was told of, and is not credited`),
  ]
}

/** Payers who try again until they are answered, and a processor that repeats what was not taken. */
class Market {
  readonly payments: FakePayment[] = []
  readonly broken: string[] = []
  readonly #razorpay: FakeRazorpay
  readonly #random: Random
  readonly #token: string
  readonly #weir: () => RunningWeir
  #open = true
  #running: Promise<void> | undefined
  #resume: () => void = () => undefined
  #onPaid: () => void = () => undefined
  #numbers = 0

  constructor(razorpay: FakeRazorpay, random: Random, token: string, weir: () => RunningWeir) {
    this.#razorpay = razorpay
    this.#random = random
    this.#token = token
    this.#weir = weir
  }

  close(): void {
    this.#open = false
  }

  async paidMoreThan(count: number): Promise<void> {
    while (this.payments.length <= count) await new Promise<void>((resolve) => (this.#onPaid = resolve))
  }

  /** Nobody knocks at a door that is shut. */
  pause(): void {
    this.#running ??= new Promise((resolve) => (this.#resume = resolve))
  }

  resume(): void {
    this.#running = undefined
    this.#resume()
  }

  async run(): Promise<void> {
    while (this.#open) await this.#sale(`sale-${++this.#numbers}`)
  }

  async #sale(key: string): Promise<void> {
    const body = JSON.stringify({ amount: String(100 + this.#random.below(900)), currency: 'INR' })
    const headers = {
      authorization: `Bearer ${this.#token}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    }
    const response = await this.#insist('/app/v1/top-ups', { method: 'POST', headers, body }, 201)
    const { id } = (await response.json()) as { id: string }
    const link = [...this.#razorpay.links.values()].find(({ reference }) => reference === id)
    if (!link) return void this.broken.push(`${id} has no page`)
    const payment = this.#razorpay.pay(link.id)
    this.payments.push(payment)
    this.#onPaid()
    const random = this.#random
    const messages = [this.#razorpay.paid(payment)]
    if (random.oneIn(2)) messages.push(this.#razorpay.paid(payment, 'order.paid'))
    if (random.oneIn(2)) {
      const part = random.oneIn(2) ? payment.amount : 1 + random.below(payment.amount)
      messages.splice(random.below(2), 0, this.#razorpay.refunded(payment, part))
      payment.refunded += part
    }
    if (random.oneIn(3))
      await this.#insist(`/hooks/razorpay/callback?${this.#razorpay.returned(payment)}`, {}, 303)
    await Promise.all(messages.map((message) => this.#deliver(message)))
  }

  async #deliver({ body, headers }: Delivery): Promise<void> {
    await this.#insist('/hooks/razorpay', { method: 'POST', headers, body }, 200)
  }

  /** Asks until it is answered as it should be; a server that is dead, or dying, is asked again. */
  async #insist(path: string, init: RequestInit, expected: number): Promise<Response> {
    for (;;) {
      await this.#running
      try {
        const response = await fetch(this.#weir().origin + path, { ...init, redirect: 'manual' })
        if (response.status === expected) return response
        if (response.status !== 503 && response.status !== 502)
          this.broken.push(`${path} was answered ${response.status}: ${await response.text()}`)
      } catch {
        // It was killed.
      }
      await Bun.sleep(20)
    }
  }
}

/** What the database says, held against what was paid and given back. */
function judged(dataDir: string, account: string, { payments }: Market): string[] {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true, safeIntegers: true })
  const broken: string[] = []
  try {
    const find = database.prepare<{ state: string; refunded: bigint; lot: string | null }, [string]>(
      'SELECT state, refunded, lot FROM top_up WHERE payment_id = ?',
    )
    const lots = database.prepare<{ source: string; granted: bigint }, []>(
      `SELECT source, granted FROM lot WHERE source GLOB 'payment:*'`,
    )
    let due = 0n
    for (const { id, amount, refunded } of payments) {
      due += creditOfPart({ currency: 'INR', rate }, BigInt(refunded), BigInt(amount - refunded))
      const row = find.get(id)
      const state = refunded === 0 ? 'credited' : refunded === amount ? 'refunded' : 'refunded_part'
      if (row?.state !== state) broken.push(`${id} is ${row?.state}, not ${state}`)
      if (Number(row?.refunded ?? 0n) !== refunded)
        broken.push(`${id} has ${row?.refunded} refunded, not ${refunded}`)
    }
    const granted = lots.all()
    if (granted.length !== payments.length)
      broken.push(`${granted.length} lots for ${payments.length} payments`)
    const wallet = database
      .prepare<{ has: bigint }, [string]>(
        `SELECT posted - debt AS has FROM wallet WHERE account = ? AND pool = 'purchased'`,
      )
      .get(account)
    if ((wallet?.has ?? 0n) !== due) broken.push(`the account has ${wallet?.has}, not ${due}`)
    return broken
  } finally {
    database.close()
  }
}
