// Two real gateways on one PostgreSQL under load, by hand:
// `bun test/kill/served-run.ts --old <executable> [--seconds 8]`: a rolling upgrade. Both begin with another, older program; one
//   after the other is stopped, as a balancer sees it, and replaced by this one, which changes the tables.
// `bun test/kill/served-run.ts --pooler [--seconds 8]`: everything through PgBouncer in transaction mode (the package pgbouncer),
//   with `store.prepare: false`; one of them is killed in the middle.
// What clients were told that calls cost is held against the ledger. Exit 1 where that differs, where the audit finds
// anything, or where a client got anything but an answer, or 503 from a gateway that stops.

import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { formatUsd, usd } from '../../src/credits/money.ts'
import { freePort, type RunningWeir, startWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { using } from './clusters.ts'
import { beginServer, initServer } from '../support/postgres.ts'

const { values } = parseArgs({
  options: {
    old: { type: 'string' },
    pooler: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '8' },
    lanes: { type: 'string', default: '8' },
  },
})
const say = (line: string) => void process.stdout.write(`${line}\n`)
const faults: string[] = []
const phaseMs = (Number(values.seconds) * 1_000) / 4
const { old } = values
if (old === undefined && !values.pooler) throw new Error('say --old <executable> or --pooler')

const { folder, bin } = await initServer()
const server = await beginServer(folder, bin, {})
server.ended.catch(() => undefined)
await using(`${server.url}/postgres`, (admin) => admin.unsafe('CREATE DATABASE weir'))
const direct = `${server.url}/weir`

const home = tempDir('weir-served-')
/** The address that gateways get. */
const url = values.pooler ? await startPooler() : direct
const shared = {
  store: { url, ...(values.pooler && { prepare: false }) },
  local_servers: { discover: false },
}

async function startPooler(): Promise<string> {
  if (!Bun.which('pgbouncer')) {
    say('left out: there is no pgbouncer')
    process.exit(0)
  }
  say(Bun.spawnSync(['pgbouncer', '--version']).stdout.toString().split('\n')[0]!)
  // Settings of a session do not survive there.
  await using(direct, (admin) => admin.unsafe('ALTER ROLE weir SET enable_seqscan = off'))
  const port = await freePort()
  const file = `${folder}/pgbouncer.ini`
  const ini = [
    '[databases]',
    `weir = host=127.0.0.1 port=${server.port}`,
    '[pgbouncer]',
    `listen_port = ${port}`,
    'listen_addr = 127.0.0.1',
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    'default_pool_size = 12',
    'ignore_startup_parameters = extra_float_digits',
  ]
  // The user of the server alone, which also is the pooler's.
  ini[1] += ' user=weir'
  writeFileSync(file, ini.join('\n'))
  const isRoot = process.getuid?.() === 0
  const pooler = spawn('pgbouncer', [...(isRoot ? ['-u', 'nobody'] : []), file], { stdio: 'ignore' })
  process.on('exit', () => pooler.kill('SIGKILL'))
  await Bun.sleep(500)
  return `postgres://weir@127.0.0.1:${port}/weir`
}

/** An older program knows fewer settings. */
function start(name: string, command?: string): Promise<RunningWeir> {
  const dataDir = home.join(name)
  // A key is printed by the first alone: nobody waits for another one where the folder has something.
  if (name !== 'one') {
    mkdirSync(dataDir, { recursive: true })
    writeFileSync(`${dataDir}/served`, '')
  }
  if (command !== undefined) return startWeir({ config: JSON.stringify(shared), dataDir, command: [command] })
  return startWeir({ config: JSON.stringify({ ...shared, timeouts: { leave_ms: 500 } }), dataDir })
}

/** Those that a balancer leads to, in turns. */
const serving: RunningWeir[] = []
const stopping = new Set<RunningWeir>()
const first = await start('one', old)
const { key } = first
serving.push(first, await start('two', old))
say(`two gateways serve${old === undefined ? '' : ', of the older program'}`)

const statuses = new Map<string, number>()
let told = 0n
let answers = 0
const over = new AbortController()
/** Of a gateway that stops or was killed: not connected, or cut. What such a call cost nobody was told. */
let cut = 0

async function callOnce(n: number): Promise<void> {
  const gateway = serving[n % serving.length]!
  const isStopping = () => stopping.has(gateway)
  try {
    const response = await fetch(`${gateway.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      keepalive: false,
      body: JSON.stringify({
        model: 'sim/echo',
        stream: n % 2 === 0,
        ...(n % 2 === 0 && { stream_options: { include_usage: true } }),
        messages: [{ role: 'user', content: `The river ${n} runs to the sea, and so does every other.` }],
      }),
    })
    const text = await response.text()
    const status = String(response.status)
    statuses.set(status, (statuses.get(status) ?? 0) + 1)
    if (response.status === 503 && isStopping()) return
    if (response.status !== 200) {
      faults.push(`${status}: ${text.slice(0, 200)}`)
      return
    }
    const cost = /"cost":"?([\d.e-]+)"?/.exec(text)?.[1]
    if (cost === undefined) throw new Error(`no cost in ${text.slice(-200)}`)
    told += usd(Number(cost).toFixed(12))
    answers++
  } catch (error) {
    if (isStopping()) cut++
    else faults.push(String(error))
    await Bun.sleep(20)
  }
}

let count = 0
async function lane(): Promise<void> {
  while (!over.signal.aborted) await callOnce(count++)
}
const lanes = Array.from({ length: Number(values.lanes) }, lane)

/** As a balancer does: it leads nobody there when the gateway has said that it stops. */
async function replace(at: number, name: string): Promise<void> {
  const before = serving[at]!
  stopping.add(before)
  const stopped = before.stop()
  await Bun.sleep(300)
  serving.splice(at, 1)
  const code = await stopped
  if (code !== 0) faults.push(`${name} stopped with ${code}:\n${before.output().slice(-2_000)}`)
  serving.splice(at, 0, await start(name))
  say(`${name} serves again, ${answers} answers so far`)
}

await Bun.sleep(phaseMs)
if (old === undefined) {
  const victim = serving.pop()!
  stopping.add(victim)
  await victim.kill()
  say(`one is killed, ${answers} answers so far`)
  await Bun.sleep(phaseMs)
  serving.push(await start('three'))
} else {
  await replace(0, 'one')
  await Bun.sleep(phaseMs)
  await replace(1, 'two')
}
await Bun.sleep(phaseMs)
over.abort()
await Promise.all(lanes)

// What a killed gateway has left is ended when its signs of life have run out.
const openCalls = () => using(direct, (admin): Promise<unknown[]> => admin.unsafe('SELECT 1 FROM open_call'))
const deadline = performance.now() + 60_000
while ((await openCalls()).length > 0 && performance.now() < deadline) await Bun.sleep(200)
const [sums] = await using(direct, (admin): Promise<{ finished: bigint; n: bigint; recovered: bigint }[]> =>
  admin.unsafe(`SELECT coalesce(sum(charged) FILTER (WHERE ending <> 'recovered'), 0)::bigint AS finished,
    count(*) FILTER (WHERE ending <> 'recovered') AS n, count(*) FILTER (WHERE ending = 'recovered') AS recovered FROM call`),
)
const { finished, n, recovered } = sums!
say(
  JSON.stringify({
    answers,
    cut,
    statuses: Object.fromEntries(statuses),
    told: formatUsd(told),
    charged: formatUsd(finished),
    calls: Number(n),
    recovered: Number(recovered),
  }),
)
// A call whose answer was cut may have been charged: its client was told nothing.
const beyond = Number(n) - answers
if (beyond < 0 || beyond > cut) faults.push(`${answers} answers, ${cut} cut, and ${n} calls in the ledger`)
if (beyond === 0 && told !== finished)
  faults.push(`clients were told ${formatUsd(told)}, charged are ${formatUsd(finished)}`)
const audit = await serving[0]!.command('ledger', 'audit', '--json')
if (audit.code !== 0) faults.push(`audit: ${audit.stdout}${audit.stderr}`)
for (const weir of serving) await weir.stop()
home.remove()
for (const fault of faults.slice(0, 20)) say(fault)
say(faults.length === 0 ? 'nothing broken' : `broken: ${faults.length}`)
process.exit(faults.length === 0 ? 0 : 1)
