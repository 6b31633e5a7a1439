// Pairs of a hold and its settle a second, on SQLite and on PostgreSQL in turns: over many accounts and one, one process
// and two. `bun bench/scale.ts [--seconds 3] [--rounds 3] [--accounts 2000] [--lanes 256] [--only many]`. The server is that of
// the tests, without syncs to a disk, and SQLite's file is in memory as well: figures are for ratios inside one run.

import { existsSync, readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { SQL } from 'bun'
import { noUsage } from '../src/conversation/usage.ts'
import type { HoldCommand, LedgerStore, LedgerUpkeep } from '../src/credits/ledger/ledger.ts'
import { usd } from '../src/credits/money.ts'
import { defaultGroupLimits } from '../src/store/commits/durability.ts'
import { openStore } from '../src/store/open.ts'
import { PostgresLedger } from '../src/store/postgres/ledger.ts'
import { freshDatabase } from '../test/support/postgres.ts'
import { tempDir } from '../test/support/tmp.ts'

const { values: flags } = parseArgs({
  options: {
    seconds: { type: 'string', default: '3' },
    rounds: { type: 'string', default: '3' },
    accounts: { type: 'string', default: '2000' },
    lanes: { type: 'string', default: '256' },
    only: { type: 'string', default: '' },
    /** What a process of the bench does, as JSON. */
    job: { type: 'string' },
  },
})
const accounts = Number(flags.accounts)
const seconds = Number(flags.seconds)
const warmUpMs = 1_500

/** One process: what it keeps its ledger in, and what it spends from. */
interface Job {
  /** A data directory, or the address of a server. */
  readonly at: string
  readonly owner: string
  /** The first account and the one after the last. */
  readonly from: number
  readonly to: number
  readonly lanes: number
}

interface Outcome {
  readonly pairs: number
  readonly holdP50Ms: number
  readonly gatewayUs: number
  readonly databaseUs: number
}

const isPostgres = ({ at }: Job) => at.startsWith('postgres:')

interface Opened {
  readonly ledger: Omit<LedgerStore, 'auditDay'> & LedgerUpkeep
  close(): Promise<void>
}

async function open({ at, owner }: Pick<Job, 'at' | 'owner'>): Promise<Opened> {
  if (!at.startsWith('postgres:')) return openStore(at, { clock: Date.now, serveAs: owner })
  const ledger = await PostgresLedger.open({
    server: at,
    owner,
    time: { clock: Date.now, backMs: 60_000, stepped: () => undefined },
    limits: { ...defaultGroupLimits, max: 256, decideMs: 15 },
    deadlineMs: 5_000,
    isDead: () => false,
    isRunning: () => true,
  })
  return { ledger, close: () => ledger.close() }
}

const served = {
  provider: 'bench',
  upstreamModel: 'model',
  priceVersion: 'pv_0',
  stream: true,
  attempts: [
    {
      provider: 'bench',
      outcome: 'served' as const,
      code: null,
      upstreamId: null,
      ms: 900,
      status: 200,
      reason: null,
    },
  ],
  firstByteMs: 300,
  totalMs: 900,
  finishReason: 'stop',
}
const lines = [
  { item: 'input' as const, quantity: 20, rate: 1_000_000n, amount: 20_000_000n },
  { item: 'output' as const, quantity: 80, rate: 2_000_000n, amount: 160_000_000n },
]

async function work(job: Job): Promise<Outcome> {
  const { ledger, close } = await open(job)
  const times: number[] = []
  let pairs = 0
  const lane = async (until: number) => {
    while (performance.now() < until) {
      const account = `acct_${job.from + Math.floor(Math.random() * (job.to - job.from))}`
      const call = `req_${Bun.randomUUIDv7().replaceAll('-', '')}`
      const hold: HoldCommand = {
        call,
        account,
        key: `key of ${account}`,
        funding: ['purchased'],
        want: usd('0.01'),
        most: usd('0.01'),
        least: usd('0.0001'),
        keyLimit: null,
        inGroup: null,
        model: 'bench/model',
        priceVersion: 'pv_0',
        owner: job.owner,
        leaseUntil: Date.now() + 86_400_000,
      }
      const since = performance.now()
      const { kind } = await ledger.hold(hold)
      times.push(performance.now() - since)
      if (kind !== 'held') throw new Error('the credit of the bench is spent')
      await ledger.settle({
        call,
        owner: job.owner,
        cost: 180_000_000n,
        most: null,
        usage: { ...noUsage, input: 20, output: 80 },
        lines,
        estimated: false,
        ending: 'finished',
        served: { ...served, upstreamId: `chatcmpl-${crypto.randomUUID()}` },
      })
      pairs++
    }
  }
  const run = (ms: number) =>
    Promise.all(Array.from({ length: job.lanes }, () => lane(performance.now() + ms)))
  await run(warmUpMs)
  times.length = pairs = 0
  const database = isPostgres(job) ? await timeOfServer(job.at) : () => 0
  const cpu = process.cpuUsage()
  const since = performance.now()
  await run(seconds * 1000)
  const took = (performance.now() - since) / 1000
  const { user, system } = process.cpuUsage(cpu)
  const outcome = {
    pairs: pairs / took,
    holdP50Ms: times.toSorted((a, b) => a - b)[times.length >> 1]!,
    gatewayUs: (user + system) / pairs,
    databaseUs: database() / pairs,
  }
  await close()
  return outcome
}

/** Processor time of this database's backends from now on, microseconds. Linux. */
async function timeOfServer(url: string): Promise<() => number> {
  const admin = new SQL({ url, max: 1 })
  const rows: { pid: number }[] = await admin.unsafe(
    'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
  )
  await admin.close()
  const before = rows.map(({ pid }) => ticksOf(pid))
  // Another process of the bench may have ended, and its backends with it.
  const since = (pid: number, n: number) => Math.max(0, ticksOf(pid) - before[n]!)
  return () => rows.reduce((sum, { pid }, n) => sum + since(pid, n), 0) * 10_000
}

function ticksOf(pid: number): number {
  const path = `/proc/${pid}/stat`
  if (!existsSync(path)) return 0
  const stat = readFileSync(path, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

async function measure(jobs: readonly Job[]): Promise<Outcome> {
  const all = await Promise.all(
    jobs.map(async (job) => {
      const args = [
        process.execPath,
        import.meta.path,
        '--seconds',
        flags.seconds,
        '--job',
        JSON.stringify(job),
      ]
      const child = Bun.spawn(args, { stdout: 'pipe', stderr: 'inherit' })
      return JSON.parse(await new Response(child.stdout).text()) as Outcome
    }),
  )
  const mean = (of: (outcome: Outcome) => number) => all.reduce((sum, each) => sum + of(each), 0) / all.length
  return {
    pairs: all.reduce((sum, each) => sum + each.pairs, 0),
    holdP50Ms: mean(({ holdP50Ms }) => holdP50Ms),
    gatewayUs: mean(({ gatewayUs }) => gatewayUs),
    // The backends of both are counted by each.
    databaseUs: mean(({ databaseUs }) => databaseUs) / all.length,
  }
}

async function main(): Promise<void> {
  using folder = tempDir('weir-scale-')
  const sqlite = folder.join('data')
  const postgres = await freshDatabase('scale')
  for (const at of [sqlite, postgres]) {
    const { ledger, close } = await open({ at, owner: 'fill' })
    const grant = (n: number) =>
      ledger.grant({
        source: `fill ${n}`,
        account: `acct_${n}`,
        pool: 'purchased',
        amount: usd(100_000),
        expiresAt: 'never',
        from: 'grant',
      })
    for (let n = 0; n < accounts; n += 500)
      await Promise.all(Array.from({ length: Math.min(500, accounts - n) }, (_, k) => grant(n + k)))
    await close()
  }
  let owners = 0
  const lanes = Number(flags.lanes)
  const job = (at: string, part: Partial<Job> = {}): Job => ({
    at,
    owner: `bench ${owners++}`,
    from: 0,
    to: accounts,
    lanes,
    ...part,
  })
  const half = { lanes: lanes / 2 }
  const cases: readonly (readonly [name: string, of: string, jobs: () => readonly Job[]])[] = [
    ['many: SQLite', 'many', () => [job(sqlite)]],
    ['many: PostgreSQL', 'many', () => [job(postgres)]],
    [
      'many: PostgreSQL, two at home',
      'many',
      () => [job(postgres, { ...half, to: accounts / 2 }), job(postgres, { ...half, from: accounts / 2 })],
    ],
    ['many: PostgreSQL, two without a home', 'many', () => [job(postgres, half), job(postgres, half)]],
    ['hot: SQLite', 'hot', () => [job(sqlite, { to: 1 })]],
    ['hot: PostgreSQL', 'hot', () => [job(postgres, { to: 1 })]],
    ['alone: SQLite', 'alone', () => [job(sqlite, { lanes: 1 })]],
    ['alone: PostgreSQL', 'alone', () => [job(postgres, { lanes: 1 })]],
  ]
  for (let round = 1; round <= Number(flags.rounds); round++) {
    console.log(`round ${round}, load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]}`)
    const ofSqlite = new Map<string, number>()
    for (const [name, of, jobs] of cases) {
      if (!name.includes(flags.only)) continue
      const { pairs, holdP50Ms, gatewayUs, databaseUs } = await measure(jobs())
      if (!ofSqlite.has(of)) ofSqlite.set(of, pairs)
      const ratio = (pairs / ofSqlite.get(of)!).toFixed(2)
      const figures = `${Math.round(pairs)} pairs/s (${ratio})  hold p50 ${holdP50Ms.toFixed(1)} ms`
      console.log(
        `  ${name.padEnd(38)} ${figures}  ${gatewayUs.toFixed(0)} + ${databaseUs.toFixed(0)} µs a pair`,
      )
    }
  }
}

if (flags.job === undefined) await main()
else console.log(JSON.stringify(await work(JSON.parse(flags.job) as Job)))
process.exit(0)
