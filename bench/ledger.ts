// What the ledger costs: processor time of a hold and its settle by group size, bytes of a call, time of an audit, and
// how long an admission and the audit of a day take in a file that has grown. `bun bench/ledger.ts [--quick] [--calls 10000000]`; pin it
// to a core (`taskset -c 0`) for figures that can be compared.

import { statSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { noUsage } from '../src/conversation/usage.ts'
import { dayMs, startOfDay } from '../src/credits/calendar.ts'
import type { HoldCommand, SettleCommand } from '../src/credits/ledger/ledger.ts'
import { usd } from '../src/credits/money.ts'
import { openStore, type Store } from '../src/store/open.ts'
import { tempDir } from '../test/support/tmp.ts'
import { bareSyncsUs } from './disk.ts'

/** The figures to reach: µs of processor time, calls a second on one core, milliseconds, bytes. */
const targets = {
  groupedCpuUs: 25,
  settlesPerSecond: 40_000,
  /** A lone hold and settle against two bare syncs of a page each. */
  loneRatio: 3,
  bytesPerCall: 1_500,
  auditMsPerCall: 0.02,
  /** How much slower an admission may be in a grown file than in an empty one. */
  grownRatio: 1.5,
  /** How much dearer the audit of a day may be in the largest file than in the smallest, the day being as busy. */
  dayRatio: 2,
}

const { values: flags } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, calls: { type: 'string', default: '1000000' } },
})
const groupSizes = [1, 8, 32, 64]
const pairsPerRound = flags.quick ? 10_000 : 30_000
/** Pairs until the compiler has done its work. */
const warmUp = flags.quick ? 10_000 : 20_000
const lonePairs = flags.quick ? 200 : 1_000
const rounds = flags.quick ? 1 : 3
const grownTo = (flags.quick ? [10_000] : [100_000, 1_000_000, 10_000_000]).filter(
  (calls) => calls <= Number(flags.calls),
)
const probes = flags.quick ? 200 : 1_000
/** In the file that counts as empty. */
const warmedCalls = 1_000
/** The grown file spreads its calls over days of so many, as evenly as a clock that each call moves on can. */
const callsPerDay = 10_000
const firstDay = Date.UTC(2020, 0, 1)
const lapses = Date.UTC(2100, 0, 1)
const dayAudits = 5

const hold: Omit<HoldCommand, 'call' | 'account'> = {
  key: 'key_0123456789ab',
  funding: ['purchased'],
  want: usd('0.01'),
  most: usd('0.2'),
  least: usd('0.0001'),
  keyLimit: null,
  inGroup: null,
  model: 'bench/model-of-a-usual-name',
  priceVersion: 'pv_0123456789ab',
  owner: 'bench',
  leaseUntil: Date.now() + 86_400_000,
}

const settle: Omit<SettleCommand, 'call'> = {
  owner: 'bench',
  cost: 180_000_000n,
  most: null,
  usage: { ...noUsage, input: 20, output: 80 },
  lines: [
    { item: 'input', quantity: 20, rate: 1_000_000n, amount: 20_000_000n },
    { item: 'output', quantity: 80, rate: 2_000_000n, amount: 160_000_000n },
  ],
  estimated: false,
  ending: 'finished',
  served: {
    provider: 'bench',
    upstreamModel: 'model-of-a-usual-name',
    upstreamId: null,
    priceVersion: 'pv_0123456789ab',
    stream: true,
    attempts: [
      {
        provider: 'bench',
        outcome: 'served',
        code: null,
        upstreamId: null,
        ms: 900,
        status: null,
        reason: null,
      },
    ],
    firstByteMs: 300,
    totalMs: 900,
    finishReason: 'stop',
  },
}

interface Bench {
  readonly store: Store
  readonly account: string
}

const newId = () => `req_${Bun.randomUUIDv7().replaceAll('-', '')}`

/** Providers' ids come in no order; that is what makes the index of them dear. */
const upstreamId = () => `chatcmpl-${crypto.randomUUID()}`

async function open(dataDir: string, clock: () => number): Promise<Bench> {
  const store = await openStore(dataDir, { clock, serveAs: 'bench' })
  const account = (await store.accounts.createAccount('bench@example.org')).id
  // Longer than the twelve months of a usual top-up: the grown file covers a thousand days.
  const grant = { account, pool: 'purchased', expiresAt: lapses, from: 'grant' } as const
  await store.ledger.grant({ ...grant, source: 'bench', amount: usd(1_000_000) })
  return { store, account }
}

interface Ids {
  readonly call: string
  readonly upstreamId: string
}

/** Ids for as many calls; making one on the way counts `begun`. */
function* idsOf(calls: number, begun = () => undefined as void): Generator<Ids, void> {
  for (let n = 0; n < calls; n++) {
    begun()
    yield { call: newId(), upstreamId: upstreamId() }
  }
}

async function onePair({ store, account }: Bench, { call, upstreamId: id }: Ids): Promise<void> {
  const { kind } = await store.ledger.hold({ ...hold, call, account })
  if (kind !== 'held') throw new Error('a hold was refused')
  await store.ledger.settle({ ...settle, call, served: { ...settle.served, upstreamId: id } })
}

/** Runs a pair for each of the ids, `together` at a time. */
async function runPairs(bench: Bench, ids: Iterable<Ids>, together: number): Promise<void> {
  const left = ids[Symbol.iterator]()
  const lane = async () => {
    for (let next = left.next(); !next.done; next = left.next()) await onePair(bench, next.value)
  }
  await Promise.all(Array.from({ length: together }, lane))
}

interface Cost {
  readonly wallUs: number
  readonly cpuUs: number
}

/** The cheapest of the rounds: what else the machine does only ever adds. */
async function costOf(bench: Bench, together: number): Promise<Cost> {
  const pairs = together === 1 ? lonePairs : pairsPerRound
  let best: Cost = { wallUs: Infinity, cpuUs: Infinity }
  for (let round = 0; round < rounds; round++) {
    // Random ids are no work of the ledger's.
    const ids = [...idsOf(pairs)]
    const startedCpu = process.cpuUsage()
    const started = performance.now()
    await runPairs(bench, ids, together)
    const wallUs = ((performance.now() - started) * 1000) / pairs
    const { user, system } = process.cpuUsage(startedCpu)
    const cpuUs = (user + system) / pairs
    best = { wallUs: Math.min(best.wallUs, wallUs), cpuUs: Math.min(best.cpuUs, cpuUs) }
  }
  return best
}

/** Median and 99th percentile of single holds, in milliseconds. */
async function admissionMs({
  store,
  account,
}: Bench): Promise<{ readonly p50: number; readonly p99: number }> {
  const times: number[] = []
  for (let n = 0; n < probes; n++) {
    const call = newId()
    const started = performance.now()
    await store.ledger.hold({ ...hold, call, account })
    times.push(performance.now() - started)
    await store.ledger.release({ call, owner: 'bench', reason: 'bench', attempts: [] })
  }
  times.sort((a, b) => a - b)
  return { p50: times[Math.floor(probes * 0.5)]!, p99: times[Math.floor(probes * 0.99)]! }
}

let failed = false

function report(what: string, figure: number, unit: string, bound: number, atLeast?: 'at least'): void {
  const met = atLeast ? figure >= bound : figure <= bound
  if (!met) failed = true
  const text = figure >= 1000 ? Math.round(figure).toLocaleString('en') : figure.toPrecision(3)
  const rule = `${atLeast ?? 'at most'} ${bound.toLocaleString('en')}`
  console.log(`${met ? 'pass' : 'FAIL'}  ${what.padEnd(52)} ${text.padStart(9)} ${unit.padEnd(8)} (${rule})`)
}

async function measureGroups(dataDir: string, syncsUs: number): Promise<void> {
  const bench = await open(dataDir, Date.now)
  await runPairs(bench, idsOf(warmUp), 32)
  const costs = new Map<number, Cost>()
  for (const together of groupSizes) {
    const cost = await costOf(bench, together)
    costs.set(together, cost)
    const { wallUs, cpuUs } = cost
    console.log(
      `      ${together} at once: ${cpuUs.toFixed(1)} µs of processor, ${wallUs.toFixed(1)} µs a call`,
    )
  }
  await bench.store.close()
  console.log(`      two bare syncs: ${syncsUs.toFixed(1)} µs`)
  report('hold + settle, 32 at once', costs.get(32)!.cpuUs, 'µs cpu', targets.groupedCpuUs)
  report('hold + settle, 64 at once', costs.get(64)!.cpuUs, 'µs cpu', targets.groupedCpuUs)
  report('settles on one core', 1e6 / costs.get(64)!.cpuUs, '/s', targets.settlesPerSecond, 'at least')
  report('hold + settle alone, of two bare syncs', costs.get(1)!.wallUs / syncsUs, '×', targets.loneRatio)
}

interface Taken {
  readonly wallMs: number
  readonly cpuMs: number
}

async function timed<T>(run: () => T | Promise<T>): Promise<Taken & { readonly value: T }> {
  const startedCpu = process.cpuUsage()
  const started = performance.now()
  const value = await run()
  const { user, system } = process.cpuUsage(startedCpu)
  return { value, wallMs: performance.now() - started, cpuMs: (user + system) / 1000 }
}

/** The cheapest of some audits of a day. */
async function dayAuditOf({ store }: Bench, day: number): Promise<Taken> {
  let best: Taken = { wallMs: Infinity, cpuMs: Infinity }
  for (let n = 0; n < dayAudits; n++) {
    const { value: audit, wallMs, cpuMs } = await timed(() => store.ledger.auditDay(day))
    best = { wallMs: Math.min(best.wallMs, wallMs), cpuMs: Math.min(best.cpuMs, cpuMs) }
    if (!audit.ok) throw new Error('the audit of a day found something')
    // Calls that cross midnight together, and the probes of admission in a day that has begun, are a few more or less.
    if (Math.abs(audit.calls / callsPerDay - 1) > 0.25) throw new Error(`the day has ${audit.calls} calls`)
  }
  return best
}

/** Of the last day that is over and of one in the middle: the dearer. */
async function dayAudit(bench: Bench, now: number): Promise<Taken> {
  const last = startOfDay(now) - dayMs
  const a = await dayAuditOf(bench, startOfDay((firstDay + last) / 2))
  const b = await dayAuditOf(bench, last)
  return a.cpuMs > b.cpuMs ? a : b
}

async function measureGrowth(dataDir: string): Promise<void> {
  let calls = 0
  const clock = () => firstDay + Math.floor((calls * dayMs) / callsPerDay)
  const bench = await open(dataDir, clock)
  const grow = (to: number) =>
    runPairs(
      bench,
      idsOf(to - calls, () => void calls++),
      64,
    )
  await grow(warmedCalls)
  const empty = await admissionMs(bench)
  console.log(`      admission, empty: p50 ${empty.p50.toFixed(3)} ms, p99 ${empty.p99.toFixed(3)} ms`)
  const dayTimes: number[] = []
  for (const size of grownTo) {
    await grow(size)
    const name = `${size.toLocaleString('en')} calls`
    const { p50, p99 } = await admissionMs(bench)
    const bytes = statSync(bench.store.path).size / size
    const day = await dayAudit(bench, clock())
    dayTimes.push(day.cpuMs)
    const { value: audit, wallMs, cpuMs } = await timed(() => bench.store.ledger.audit())
    if (!audit.ok) throw new Error('the audit found something')
    const both = (taken: Taken, of: number, unit: string) =>
      `${(taken.cpuMs / of).toFixed(2)} ${unit} of processor, ${(taken.wallMs / of).toFixed(2)} ${unit}`
    console.log(`      ${name}: admission p50 ${p50.toFixed(3)} ms, p99 ${p99.toFixed(3)} ms`)
    console.log(`      ${name}: audit of a day of ${callsPerDay.toLocaleString('en')} ${both(day, 1, 'ms')}`)
    console.log(
      `      ${name}: audit of ${audit.journalEntries} entries ${both({ cpuMs, wallMs }, 1000, 's')}`,
    )
    report(`admission with ${name}, of an empty file's`, p50 / empty.p50, '×', targets.grownRatio)
    report(`the file with ${name}`, bytes, 'B/call', targets.bytesPerCall)
    report(`the audit with ${name}`, wallMs / size, 'ms/call', targets.auditMsPerCall)
    report(`the audit of a day with ${name}, of the first`, day.cpuMs / dayTimes[0]!, '×', targets.dayRatio)
  }
  console.log(`      most memory: ${Math.round(process.resourceUsage().maxRSS / 1024)} MB`)
  await bench.store.close()
}

using data = tempDir('weir-bench-ledger-')
await measureGroups(data.join('groups'), bareSyncsUs(data.join('syncs'), lonePairs))
await measureGrowth(data.join('growth'))
process.exitCode = failed ? 1 : 0
