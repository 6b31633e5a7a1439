// `bun run scale`: makes a database of two million calls, a hundred thousand keys and twenty thousand accounts, serves it,
// and measures what every page of operators and customers, files and the retention cost, and how long calls wait
// meanwhile. `--data-dir` keeps the database, and takes one that is there; `--calls` and `--keys` make it smaller.
// `--store postgres` moves it to a PostgreSQL of its own first, and `--url` takes one that it was moved to before.
// `--pages` measures only those whose address has this text.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { serverAt } from '../../src/config/schema.ts'
import { moveToPostgres } from '../../src/store/move.ts'
import { beginServer, initServer, onDisk } from '../support/postgres.ts'
import { type RunningWeir, runWeir, startWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { fill, type Filled, fullScale } from './fill.ts'
import { asCustomer, asOperator } from './pages.ts'

/** The figures to reach: milliseconds, rows a second. */
const targets = {
  fillMs: 120_000,
  callMs: 100,
  answerMs: 300,
  deletedPerSecond: 2_000,
}

const { values: flags } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    calls: { type: 'string', default: String(fullScale.calls) },
    keys: { type: 'string', default: String(fullScale.keys) },
    store: { type: 'string', default: 'sqlite' },
    url: { type: 'string' },
    pages: { type: 'string', default: '' },
  },
})

let failed = false

function report(what: string, figure: number, bound: number, atLeast?: 'at least'): void {
  const met = atLeast ? figure >= bound : figure <= bound
  if (!met) failed = true
  const rule = `${atLeast ?? 'at most'} ${bound.toLocaleString('en')}`
  console.log(
    `${met ? 'pass' : 'FAIL'}  ${what.padEnd(66)} ${Math.round(figure).toLocaleString('en')} (${rule})`,
  )
}

async function filledDir(dataDir: string): Promise<Filled> {
  const note = join(dataDir, 'scale.json')
  if (existsSync(note)) return JSON.parse(readFileSync(note, 'utf8')) as Filled
  const began = performance.now()
  const scale = { ...fullScale, calls: Number(flags.calls), keys: Number(flags.keys) }
  const filled = await fill(dataDir, scale)
  report('the database is made, ms', performance.now() - began, targets.fillMs)
  writeFileSync(note, JSON.stringify(filled))
  return filled
}

using home = tempDir('weir-scale-')
const dataDir = flags['data-dir'] ?? home.join('data')
const filled = await filledDir(dataDir)

/** Paid calls, one after another, until it is disposed; the longest is how long anybody had to wait. */
function callsOn(baseUrl: string) {
  const body = JSON.stringify({
    model: 'sim/echo',
    messages: [{ role: 'user', content: 'hello' }],
    max_tokens: 5,
  })
  const headers = { authorization: `Bearer ${filled.customerKeyText}`, 'content-type': 'application/json' }
  let times: number[] = []
  const over = new AbortController()
  const lane = async () => {
    while (!over.signal.aborted) {
      const began = performance.now()
      const answer = await fetch(`${baseUrl}/chat/completions`, { method: 'POST', body, headers })
      await answer.arrayBuffer()
      if (answer.status !== 200) throw new Error(`a call was answered ${answer.status}`)
      times.push(performance.now() - began)
      await Bun.sleep(5)
    }
  }
  const running = lane()
  return {
    /** Of the calls since the last time that this was asked. */
    taken() {
      const sorted = times.toSorted((a, b) => a - b)
      times = []
      return {
        longest: sorted.at(-1) ?? 0,
        p50: sorted[Math.floor(sorted.length / 2)] ?? 0,
        calls: sorted.length,
      }
    },
    async stop() {
      over.abort()
      await running
    },
  }
}

/** What is sent with a request. */
type Credentials = Readonly<Record<string, string>>

async function read(url: string, headers: Credentials): Promise<{ ms: number; bytes: number }> {
  const began = performance.now()
  const answer = await fetch(url, { headers })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`${url} was answered ${answer.status} ${text.slice(0, 200)}`)
  return { ms: performance.now() - began, bytes: text.length }
}

/** Milliseconds of processor time that the server has had, and the database where that is another process. Linux. */
function processorMs(pids: readonly number[]): number {
  const ticks = pids.flatMap((pid) => {
    const [, fields = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
    const [user, system] = fields.split(' ').slice(11, 13).map(Number)
    return [user!, system!]
  })
  return ticks.reduce((sum, one) => sum + one, 0) * 10
}

/** A process and those that it has started. */
function withChildren(pid: number): number[] {
  return [
    pid,
    ...readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number),
  ].filter((each) => each > 0)
}

/** A management key. */
async function operatorOf(weir: RunningWeir): Promise<Credentials> {
  const email = 'operator@example.org'
  await weir.command('accounts', 'invite', '--email', email, '--role', 'operator')
  const made = await weir.command('keys', 'create', '--management', '--account', email, '--json')
  return { authorization: `Bearer ${(JSON.parse(made.stdout) as { key: string }).key}` }
}

/** A session in the console. */
async function customerOf(weir: RunningWeir): Promise<Credentials> {
  const linked = await weir.command('accounts', 'link', '--account', filled.customer, '--json')
  const { url } = JSON.parse(linked.stdout) as { url: string }
  const entered = await fetch(`${weir.origin}/console/api/link`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: `http://localhost:${weir.port}` },
    body: JSON.stringify({ token: new URL(url).hash.slice(1) }),
  })
  const cookie = entered.headers.get('set-cookie')?.split(';')[0]
  if (cookie === undefined) throw new Error(`the customer was not let in: ${await entered.text()}`)
  return { cookie }
}

async function measurePages(weir: RunningWeir, database: number | undefined): Promise<void> {
  const operator = await operatorOf(weir)
  const customer = await customerOf(weir)
  const calls = callsOn(weir.baseUrl)
  await Bun.sleep(1_000)
  calls.taken()
  const began = processorMs(pidsOf(weir, database))
  await Bun.sleep(3_000)
  const quiet = calls.taken()
  const ofCall = (processorMs(pidsOf(weir, database)) - began) / quiet.calls
  console.log(
    `      calls alone: p50 ${quiet.p50.toFixed(1)} ms, longest ${quiet.longest.toFixed(1)} ms, processor ${ofCall.toFixed(2)} ms`,
  )
  let longest = 0
  const pages = [
    ...asOperator(filled, Date.now()).map((path) => ({ path: `/admin/v1/${path}`, as: operator })),
    ...asCustomer(filled, Date.now()).map((path) => ({ path: `/console/api/${path}`, as: customer })),
  ].filter(({ path }) => path.includes(flags.pages))
  for (const { path, as } of pages) {
    calls.taken()
    const times: number[] = []
    const before = processorMs(pidsOf(weir, database))
    for (let n = 0; n < 5; n++) times.push((await read(`${weir.origin}${path}`, as)).ms)
    const { longest: waited, calls: made } = calls.taken()
    const processor = (processorMs(pidsOf(weir, database)) - before - made * ofCall) / times.length
    longest = Math.max(longest, waited)
    console.log(
      `      first ${Math.round(times[0]!)} ms, slowest ${Math.round(Math.max(...times))} ms, processor without the calls about ` +
        `${Math.round(Math.max(0, processor))} ms; the longest of ${made} calls meanwhile ${Math.round(waited)} ms`,
    )
    report(path, times.toSorted((a, b) => a - b)[2]!, targets.answerMs)
  }
  report('the longest call during all pages, ms', longest, targets.callMs)
  const files = flags.pages === '' ? ['usage.csv?by=key', 'requests.csv?outcome=failed'] : []
  for (const path of files) {
    calls.taken()
    const { ms, bytes } = await read(`${weir.origin}/admin/v1/${path}`, operator)
    console.log(`      ${path} of everybody: ${Math.round(ms)} ms, ${bytes} bytes`)
    report(`the longest call during ${path}, ms`, calls.taken().longest, targets.callMs)
  }
  await calls.stop()
}

function pidsOf({ pid }: RunningWeir, database: number | undefined): number[] {
  return [pid, ...(database === undefined ? [] : withChildren(database))]
}

async function measureOnPostgres(): Promise<void> {
  const { url, pid } = flags.url === undefined ? await movedServer() : { url: flags.url, pid: undefined }
  // A directory that is not new: the first account is there already.
  writeFileSync(home.join('weir.txt'), 'the ledger is on a server')
  await using weir = await startWeir({ dataDir: home.path, config: `store:\n  url: ${url}\n` })
  await measurePages(weir, pid)
}

/** A PostgreSQL with everything. */
async function movedServer(): Promise<{ readonly url: string; readonly pid: number }> {
  const { folder, bin } = await initServer(onDisk())
  const { url: server } = await beginServer(folder, bin, { shared_buffers: '512MB', max_wal_size: '8GB' })
  const url = `${server}/postgres`
  const began = performance.now()
  const { rows } = await moveToPostgres(dataDir, serverAt(url, undefined), { clock: Date.now })
  const seconds = (performance.now() - began) / 1000
  console.log(
    `      moved ${rows} rows in ${Math.round(seconds)} s, both proofs with it: ${Math.round(rows / seconds)} a second`,
  )
  const pid = Number(readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0])
  return { url, pid }
}

async function measureRetention(): Promise<void> {
  await using weir = await startWeir({
    dataDir,
    config: 'retention:\n  requests: 2419200000\nledger:\n  sweep_ms: 1000\n',
  })
  const calls = callsOn(weir.baseUrl)
  const left = async () => {
    // In a process of its own: in this one it would hold up the calls that are timed.
    const { stdout } = await runWeir(['doctor', '--json', '--data-dir', dataDir])
    return Number(/about (\d+)/.exec(stdout.replaceAll(',', ''))?.[1])
  }
  await Bun.sleep(2_000)
  calls.taken()
  const [began, before] = [performance.now(), await left()]
  await Bun.sleep(15_000)
  const { longest, p50 } = calls.taken()
  const deleted = before - (await left())
  console.log(`      p50 of calls ${p50.toFixed(1)} ms`)
  report('the longest call during retention, ms', longest, targets.callMs)
  report(
    'rows that retention deletes a second',
    deleted / ((performance.now() - began) / 1000),
    targets.deletedPerSecond,
    'at least',
  )
  await calls.stop()
}

if (flags.store === 'postgres' || flags.url !== undefined) await measureOnPostgres()
else {
  {
    await using weir = await startWeir({ dataDir })
    await measurePages(weir, undefined)
  }
  if (flags.pages === '') await measureRetention()
}
process.exitCode = failed ? 1 : 0
