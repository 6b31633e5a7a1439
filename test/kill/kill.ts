// Kills the real server in the middle of its work, again and again, and compares its ledger with the provider's bill.

import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { parseUsd } from '../../src/credits/money.ts'
import { seeded, type Random } from '../simulation/random.ts'
import { startWeir, type RunningWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import {
  billOf,
  configOf,
  startBillingProvider,
  type BillingProvider,
  type Plan,
} from './billing-provider.ts'
import { callOnce, type Seen } from './client.ts'

export interface KillOptions {
  readonly kills: number
  readonly lanes: number
  readonly seed: number
  /** The longest time between two kills. */
  readonly pauseMs: number
  readonly tell?: (line: string) => void
}

export interface KillReport {
  readonly kills: number
  readonly calls: number
  readonly acknowledged: number
  readonly killedStreams: number
  /** The longest time from a restart until no call of the killed process was open. */
  readonly slowestRecoveryMs: number
  /** Words that a killed stream had delivered and was not charged for: of all of them in the mean, and the most. */
  readonly meanUnchargedWords: number
  readonly mostUnchargedWords: number
  /** Everything that must not be; empty when all promises were kept. */
  readonly broken: readonly string[]
}

/** A checkpoint every so many tokens, or milliseconds. */
export const checkpoint = { tokens: 20, ms: 100 }
const recoveryMs = 5_000
const openCalls = 'SELECT count(*) AS open FROM open_call WHERE opened_at < ?'

interface CallRow {
  readonly id: string
  readonly state: string
  readonly charged: bigint | null
  readonly hold: bigint
  readonly ending: string | null
  readonly upstream_id: string | null
  /** Output tokens of its receipt. */
  readonly words: bigint | null
}

export async function killAgainAndAgain(options: KillOptions): Promise<KillReport> {
  const random = seeded(options.seed)
  const home = tempDir('weir-kill-')
  const provider = startBillingProvider()
  const stream = `stream: { checkpoint_tokens: ${checkpoint.tokens}, checkpoint_ms: ${checkpoint.ms} }`
  const start = () => startWeir({ config: configOf(provider, stream), dataDir: home.path })
  const broken: string[] = []
  let weir = await start()
  const { key } = weir
  const load = new Load(options.lanes, random, () => ({ baseUrl: weir.baseUrl, key }))
  let slowestRecoveryMs = 0
  try {
    load.run()
    for (let kill = 1; kill <= options.kills; kill++) {
      await Bun.sleep(60 + random.below(options.pauseMs))
      await weir.kill()
      const killedAt = Date.now()
      await weir.stop()
      weir = await start()
      load.resume()
      const tookMs = await recovered(home.path, killedAt)
      slowestRecoveryMs = Math.max(slowestRecoveryMs, tookMs)
      if (tookMs > recoveryMs) broken.push(`kill ${kill}: calls are still open after ${recoveryMs} ms`)
      if (kill % 50 === 0) options.tell?.(`${kill} kills, ${load.seen.length} calls`)
    }
    await load.finish()
    await Bun.sleep(200)
    const audit = await weir.command('ledger', 'audit', '--json')
    if (audit.code !== 0) broken.push(`the audit says: ${audit.stdout}${audit.stderr}`)
    await weir.stop()
    const rows = rowsOf(home.path)
    const streams = compare(load.seen, rows, provider, broken)
    const acknowledged = load.seen.filter(({ ending }) => ending === 'complete').length
    const calls = load.seen.length
    const { kills } = options
    return { kills, calls, acknowledged, ...streams, slowestRecoveryMs, broken }
  } finally {
    load.stop()
    await stopped(weir)
    provider.stop()
    home.remove()
  }
}

async function stopped(weir: RunningWeir): Promise<void> {
  await weir.kill()
  await weir.stop()
}

/** Milliseconds until no call of the killed process is open any more. */
async function recovered(dataDir: string, killedAt: number): Promise<number> {
  const started = performance.now()
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true })
  try {
    database.run('PRAGMA busy_timeout = 1000')
    const open = database.prepare<{ open: number }, [number]>(openCalls)
    while (open.get(killedAt)!.open > 0 && performance.now() - started <= recoveryMs) await Bun.sleep(10)
    return performance.now() - started
  } finally {
    database.close()
  }
}

function rowsOf(dataDir: string): Map<string, CallRow> {
  const database = new Database(join(dataDir, 'weir.db'), { readonly: true, safeIntegers: true })
  const rows = database
    .query<CallRow, []>(
      `SELECT id, state, charged, hold, ending, upstream_id, json_extract(receipt, '$.usage.output') AS words FROM call
       UNION ALL SELECT id, 'open', NULL, hold, NULL, NULL, NULL FROM open_call`,
    )
    .all()
  database.close()
  return new Map(rows.map((row) => [row.id, row]))
}

/** Holds the client's notes, the ledger's rows and the provider's bill against each other. */
function compare(
  seen: readonly Seen[],
  rows: ReadonlyMap<string, CallRow>,
  provider: BillingProvider,
  broken: string[],
): Pick<KillReport, 'killedStreams' | 'meanUnchargedWords' | 'mostUnchargedWords'> {
  let killedStreams = 0
  const uncharged: number[] = []
  for (const call of seen) {
    const row = rows.get(call.id)
    if (call.ending === 'refused') broken.push(`${call.plan.nonce} was refused: ${call.status} ${call.text}`)
    if (call.ending === 'complete') {
      const due = billOf(call.plan, call.plan.words)
      if (row?.state !== 'settled') broken.push(`the acknowledged call ${call.id} is ${row?.state ?? 'lost'}`)
      else if (row.charged !== due) broken.push(`${call.id} was charged ${row.charged}, the bill is ${due}`)
      if (parseUsd(call.cost ?? '') !== row?.charged) broken.push(`${call.id} was shown ${call.cost} USD`)
    }
    if (call.ending !== 'broken' || !call.plan.stream || call.words <= 0) continue
    killedStreams++
    if (!row || row.state === 'open') broken.push(`the killed stream ${call.id} is ${row?.state ?? 'lost'}`)
    else if ((row.charged ?? 0n) > row.hold) broken.push(`${call.id} was charged beyond its hold`)
    else {
      const words = Number(row.words ?? 0n)
      if (words > call.plan.words * 1.1 + 1)
        broken.push(`${call.id} was charged ${words} words of ${call.plan.words}`)
      // A burst is read, passed on and checkpointed in one go; where words take their time the checkpoints do show.
      if (call.plan.gapMs > 0) uncharged.push(Math.max(0, call.words - words))
    }
  }
  const charged = new Map<string, string>()
  for (const row of rows.values()) {
    if (row.state === 'open') broken.push(`the call ${row.id} is open for ever`)
    if (row.upstream_id === null) continue
    const other = charged.get(row.upstream_id)
    if (other) broken.push(`${row.upstream_id} was charged twice: ${other} and ${row.id}`)
    charged.set(row.upstream_id, row.id)
    const booked = provider.bill.get(row.upstream_id)
    if (!booked) broken.push(`${row.id} was charged for ${row.upstream_id}, which never was`)
    else if (row.ending === 'finished' && row.charged !== billOf(booked.plan, booked.words))
      broken.push(`${row.id} was charged ${row.charged} for ${booked.words} words`)
  }
  const sum = uncharged.reduce((total, words) => total + words, 0)
  return {
    killedStreams,
    meanUnchargedWords: sum / Math.max(1, uncharged.length),
    mostUnchargedWords: Math.max(0, ...uncharged),
  }
}

const text = 'Tell me where the river runs, and do not leave out the weir. '.repeat(6)
/** Clients that call without a pause, each until the server under them is gone, and on when it is back. */
class Load {
  readonly seen: Seen[] = []
  readonly #lanes: number
  readonly #random: Random
  readonly #target: () => { baseUrl: string; key: string }
  #working: Promise<void>[] = []
  #stopped = false
  #gate = Promise.withResolvers<void>()
  #number = 0

  constructor(lanes: number, random: Random, target: () => { baseUrl: string; key: string }) {
    this.#lanes = lanes
    this.#random = random
    this.#target = target
  }

  run(): void {
    this.#working = Array.from({ length: this.#lanes }, () => this.#lane())
  }

  /** The server is back. */
  resume(): void {
    this.#gate.resolve()
    this.#gate = Promise.withResolvers()
  }

  async finish(): Promise<void> {
    this.#stopped = true
    this.#gate.resolve()
    await Promise.all(this.#working)
  }

  stop(): void {
    this.#stopped = true
    this.#gate.resolve()
  }

  async #lane(): Promise<void> {
    while (!this.#stopped) {
      const gate = this.#gate.promise
      const seen = await callOnce(this.#target(), this.#plan(), text)
      this.seen.push(seen)
      if (seen.ending === 'broken') await gate
    }
  }

  #plan(): Plan {
    const stream = !this.#random.oneIn(3)
    return {
      nonce: String(this.#number++),
      stream,
      words: 1 + this.#random.below(stream ? 80 : 20),
      gapMs: this.#random.pick([0, 1, 4]),
      prompt: 100 + this.#random.below(50),
      usage: this.#random.pick(['plain', 'plain', 'cached', 'reasoning', 'zero']),
      tool: this.#random.oneIn(6),
    }
  }
}
