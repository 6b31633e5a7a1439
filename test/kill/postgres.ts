// The long run on PostgreSQL: `bun test/kill/postgres.ts [--seconds 60] [--seed 1] [--gateways 3] [--accounts 20] [--lanes 12]
// [--replication none|synchronous|asynchronous] [--events kill,cut,freeze-backend,freeze-server,failover]`.
//
// Gateways serve one database, each through a proxy. Every second or so something befalls one of them: `kill` (with -9, and a
// new one begins), `cut` (its connections are cut: half of them after a statement was sent, whose answer is swallowed). Once
// in the middle, where asked for: `freeze-backend` (the process of the server that writes for one of them is stopped for 7 s),
// `freeze-server` (all of them, for 3 s), `failover` (the server is killed with all its processes, and the replica takes over).
// What was acknowledged is held against the database at the end: exit 1 where anything is lost, doubled or overspent, where
// the audit finds anything, or where after a promotion any gateway stands still for more than a second.
//
// The control: `--replication asynchronous --events failover`. The replica hears nothing for a moment before the server dies, so
// settles that were acknowledged are gone. It is exit 1 where none is lost, or where a gateway that has lost any goes on.

import { parseArgs } from 'node:util'
import { usd } from '../../src/credits/money.ts'
import { openOnPostgres } from '../../src/store/postgres/open.ts'
import { grantOf } from '../credits/support.ts'
import { seeded } from '../simulation/random.ts'
import { type Cluster, promote, type Replication, startClusters, using } from './clusters.ts'
import { Gateway, tallyOf } from './gateway.ts'

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    gateways: { type: 'string', default: '3' },
    accounts: { type: 'string', default: '20' },
    lanes: { type: 'string', default: '12' },
    pause: { type: 'string', default: '10' },
    replication: { type: 'string', default: 'none' },
    events: { type: 'string', default: 'kill,cut' },
  },
})
const events = new Set(values.events.split(','))
const replication = values.replication as Replication
const isControl = replication === 'asynchronous'
const random = seeded(Number(values.seed))
const load = {
  accounts: Number(values.accounts),
  lanes: Number(values.lanes),
  pauseMs: Number(values.pause),
}
const say = (line: string) => void process.stdout.write(`${line}\n`)
const faults: string[] = []
/** Longer than a gateway waits for an answer. */
const frozenBackendMs = 7_000
const frozenServerMs = 3_000
/** How long the replica of the control hears nothing before the server dies. */
const behindMs = 1_500
const mostPauseMs = 1_000
/** Two gateways in turn may have died that led: their signs of life run out, then their calls are ended. */
const recoveryMs = 45_000

const { primary, replica, link } = await startClusters(replication)
let serving: Cluster = primary
const all: Gateway[] = []
const living: Gateway[] = []
const counts = { killed: 0, cuts: 0, swallowed: 0 }

async function start(at: number): Promise<void> {
  const gateway = new Gateway(primary.url, `gateway${all.length}`, load)
  gateway.proxy.redirect(serving.port)
  all.push(gateway)
  living[at] = gateway
  await gateway.ready
}

async function grantAll(): Promise<void> {
  const { ledger, close } = await openOnPostgres(primary.url, { clock: Date.now, owner: 'granter' })
  // The last account is poor: what it has is spent soon, and not a picodollar more.
  for (let n = 0; n < load.accounts; n++) {
    const amount = n === load.accounts - 1 ? 100_000n : usd(1)
    await ledger.grant(grantOf(`g${n}`, amount, { account: `account ${n}` }))
  }
  await close()
}

async function killOne(): Promise<void> {
  const at = random.below(living.length)
  const gateway = living[at]!
  gateway.kill('SIGKILL')
  await gateway.ended()
  counts.killed++
  await start(at)
}

async function cutOne(): Promise<void> {
  const { proxy } = living[random.below(living.length)]!
  if (random.oneIn(2)) {
    proxy.cut()
    counts.cuts++
    return
  }
  const before = proxy.withheld
  proxy.carriage = 'lose-answers'
  const deadline = performance.now() + 500
  while (proxy.withheld === before && performance.now() < deadline) await Bun.sleep(1)
  proxy.cut()
  proxy.carriage = 'pass'
  counts.cuts++
  counts.swallowed++
}

/** The server's process that writes the groups of one gateway. */
async function freezeBackend(): Promise<void> {
  const found = await using(serving.url, (admin): Promise<{ pid: bigint }[]> =>
    admin.unsafe(
      `SELECT pid::bigint FROM pg_stat_activity WHERE query LIKE 'WITH told AS%' ORDER BY pid LIMIT 1`,
    ),
  )
  const pid = Number(found[0]!.pid)
  process.kill(pid, 'SIGSTOP')
  await Bun.sleep(frozenBackendMs)
  process.kill(pid, 'SIGCONT')
  say(`the server's process of one writer stood still for ${frozenBackendMs} ms`)
}

async function freezeServer(): Promise<void> {
  serving.signal('SIGSTOP')
  await Bun.sleep(frozenServerMs)
  serving.signal('SIGCONT')
  for (const gateway of living) gateway.watch()
  await Bun.sleep(3_000)
  judgePauses('the server stood still')
}

async function failOverNow(): Promise<void> {
  if (!replica) throw new Error('a failover needs --replication')
  if (isControl) {
    // What the server says is acknowledged, and does not arrive at its replica.
    link!.carriage = 'lose-answers'
    await Bun.sleep(behindMs)
  }
  const began = performance.now()
  primary.signal('SIGKILL')
  link!.cut()
  await promote(replica)
  say(`failover: the replica took writes after ${Math.round(performance.now() - began)} ms`)
  serving = replica
  for (const gateway of living) {
    gateway.watch()
    gateway.proxy.redirect(replica.port)
    gateway.proxy.cut()
  }
  if (isControl) return
  await Bun.sleep(5_000)
  judgePauses('the promotion')
}

function judgePauses(what: string): void {
  for (const gateway of living) {
    const pauseMs = Math.max(gateway.longestMs, performance.now() - gateway.lastAt)
    say(`after ${what}: ${gateway.owner} stood still for at most ${Math.round(pauseMs)} ms`)
    if (pauseMs > mostPauseMs) faults.push(`${gateway.owner} stood still for ${pauseMs} ms after ${what}`)
  }
}

await grantAll()
await Promise.all(Array.from({ length: Number(values.gateways) }, (_, at) => start(at)))
const until = performance.now() + Number(values.seconds) * 1_000
const once = [
  ['freeze-backend', freezeBackend],
  ['freeze-server', freezeServer],
  ['failover', failOverNow],
] as const
const pending = once.filter(([name]) => events.has(name))
const often = [
  ...(events.has('kill') ? [killOne] : []),
  ...(events.has('cut') ? [cutOne, cutOne, cutOne] : []),
]
const eachMs = (Number(values.seconds) * 1_000) / (pending.length + 1)
let nextOnce = performance.now() + eachMs
while (performance.now() < until) {
  if (pending.length > 0 && performance.now() > nextOnce) {
    await pending.shift()![1]()
    nextOnce += eachMs
  } else if (often.length > 0) await random.pick(often)()
  await Bun.sleep(200 + random.below(600))
}
for (const [, act] of pending) await act()

/** Of the control: those that have ended by themselves, when they have had time to. */
const endedAlone = new Set<Gateway>()
if (isControl) {
  await Promise.all(
    living.map((gateway) =>
      Promise.race([gateway.ended().then(() => endedAlone.add(gateway)), Bun.sleep(10_000)]),
    ),
  )
}
// All stop; what they have left open is ended by the last one.
for (const gateway of living) gateway.kill('SIGKILL')
await Promise.all(living.map((gateway) => gateway.ended()))
const { ledger, close } = await openOnPostgres(serving.url, {
  clock: Date.now,
  owner: 'last',
  peers: { graceMs: 0 },
})
await using(serving.url, async (admin) => {
  const deadline = performance.now() + recoveryMs
  const open = async () =>
    Number(((await admin.unsafe('SELECT count(*) AS n FROM open_call')) as { n: bigint }[])[0]!.n)
  while ((await open()) > 0 && performance.now() < deadline) {
    await ledger.recover(Date.now()).catch(() => 0)
    await Bun.sleep(500)
  }
  const tally = await tallyOf(all, admin)
  const answers = new Map<string, number>()
  for (const gateway of all)
    for (const [answer, n] of gateway.answers) answers.set(answer, (answers.get(answer) ?? 0) + n)
  say(JSON.stringify({ ...tally, ...counts, answers: Object.fromEntries(answers) }))
  for (const name of ['lostHolds', 'lostSettles', 'doubled', 'overspent', 'wrong', 'open'] as const) {
    if (isControl && name.startsWith('lost')) continue
    if (tally[name] > 0) faults.push(`${name}: ${tally[name]}`)
  }
  if (!isControl) return
  if (tally.lostSettles === 0) faults.push('the control has lost nothing')
  for (const gateway of all) {
    const { lostHolds, lostSettles } = await tallyOf([gateway], admin)
    say(
      `${gateway.owner} has lost ${lostHolds} holds and ${lostSettles} settles: ${gateway.lost ?? 'goes on'}`,
    )
    if (lostHolds + lostSettles > 0 && !(endedAlone.has(gateway) && gateway.lost === 'HistoryLost'))
      faults.push(`${gateway.owner} goes on with a history that is lost`)
  }
})
for (const { name, ok, detail } of (await ledger.audit()).checks)
  if (!ok) faults.push(`audit: ${name}: ${detail}`)
await close()
for (const fault of faults) say(fault)
say(faults.length === 0 ? 'nothing broken' : 'broken')
process.exit(faults.length === 0 ? 0 : 1)
