// `bun run scale`: makes a database of two million calls and a hundred thousand keys, serves it, and measures what
// reports, lists and the retention cost, and how long calls wait meanwhile. `--data-dir` keeps the database, and takes
// one that is there; `--calls` and `--keys` make it smaller.

import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { fill, type Filled, fullScale } from './fill.ts'

/** The figures to reach: milliseconds, rows a second. */
const targets = {
  fillMs: 120_000,
  reportMs: 1_000,
  callMs: 100,
  pageMs: 1_000,
  answerMs: 300,
  deletedPerSecond: 2_000,
}

const { values: flags } = parseArgs({
  options: {
    'data-dir': { type: 'string' },
    calls: { type: 'string', default: String(fullScale.calls) },
    keys: { type: 'string', default: String(fullScale.keys) },
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

async function read(url: string, token: string): Promise<{ ms: number; text: string; bytes: number }> {
  const began = performance.now()
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
  const text = await answer.text()
  if (answer.status !== 200) throw new Error(`${url} was answered ${answer.status} ${text.slice(0, 200)}`)
  return { ms: performance.now() - began, text, bytes: text.length }
}

async function measureReports(): Promise<void> {
  await using weir = await startWeir({ dataDir })
  await weir.command('accounts', 'invite', '--email', 'operator@example.org', '--role', 'operator')
  const made = await weir.command(
    'keys',
    'create',
    '--management',
    '--account',
    'operator@example.org',
    '--json',
  )
  const management = (JSON.parse(made.stdout) as { key: string }).key
  const calls = callsOn(weir.baseUrl)
  await Bun.sleep(2_000)
  const quiet = calls.taken()
  console.log(`      calls alone: p50 ${quiet.p50.toFixed(1)} ms, longest ${quiet.longest.toFixed(1)} ms`)
  const during = async (what: string, work: () => Promise<void>) => {
    calls.taken()
    await work()
    const { longest, p50 } = calls.taken()
    console.log(`      p50 of calls ${p50.toFixed(1)} ms`)
    report(`the longest call during ${what}, ms`, longest, targets.callMs)
  }
  const admin = `${weir.origin}/admin/v1`
  for (const by of ['day', 'model', 'channel', 'account', 'key', 'tag:team', 'user'])
    await during(`usage?by=${by}`, async () =>
      report(
        `usage?by=${by} of 30 days, ms`,
        (await read(`${admin}/usage?by=${by}`, management)).ms,
        targets.reportMs,
      ),
    )
  await during('four at once', async () => {
    const four = await Promise.all(
      [1, 2, 3, 4].map((n) => read(`${admin}/usage?by=key&limit=${n * 10}`, management)),
    )
    console.log(`      four of them at once: ${four.map(({ ms }) => Math.round(ms)).join(', ')} ms`)
  })
  await during('a customer’s CSV', async () => {
    const { ms, bytes } = await read(`${weir.baseUrl}/usage.csv?by=key`, filled.customerKeyText)
    console.log(`      a customer’s usage.csv?by=key: ${Math.round(ms)} ms, ${bytes} bytes`)
  })
  await during('the CSV of everybody', async () => {
    const { ms, bytes } = await read(`${admin}/usage.csv?by=key`, management)
    console.log(`      usage.csv?by=key of everybody: ${Math.round(ms)} ms, ${bytes} bytes`)
  })
  const lists: readonly (readonly [string, string, string])[] = [
    ['a rare key', `${admin}/requests?key=${filled.rareKey}&limit=200`, management],
    ['a customer’s other key', `${weir.baseUrl}/requests?key=scale000000017`, filled.customerKeyText],
    ['a model that there is not', `${admin}/requests?model=sim/none`, management],
    ['a code that there is not', `${admin}/requests?code=upstream_timeout`, management],
    [
      'a customer’s model that there is not',
      `${weir.baseUrl}/requests?model=sim/none`,
      filled.customerKeyText,
    ],
    [
      'a key, a model and a code',
      `${admin}/requests?key=${filled.rareKey}&model=sim/none&code=overloaded`,
      management,
    ],
    [
      'an account and a code',
      `${admin}/requests?account=${filled.rareAccount}&code=rate_limit_exceeded`,
      management,
    ],
    ['the app of an account', `${admin}/requests?account=${filled.rareAccount}&channel=app`, management],
    [
      'a day of a month ago',
      `${admin}/requests?until=${new Date(Date.now() - 25 * 86_400_000).toISOString()}`,
      management,
    ],
  ]
  for (const [what, url, token] of lists)
    await during(`requests of ${what}`, async () => {
      let pages = 0
      let found = 0
      const began = performance.now()
      for (let cursor: string | null = ''; cursor !== null && pages < 20; pages++) {
        const { text } = await read(cursor === '' ? url : `${url}&cursor=${cursor}`, token)
        const page = JSON.parse(text) as { data: readonly unknown[]; next_cursor: string | null }
        found += page.data.length
        cursor = page.data.length > 0 ? null : page.next_cursor
      }
      console.log(`      ${found} requests in ${pages} pages`)
      report(`requests of ${what}, ms`, performance.now() - began, targets.pageMs)
    })
  // What an operator asks while somebody waits at the telephone.
  const request = `req_${(1_000_000).toString(16).padStart(32, '0')}`
  for (const query of [
    'requests',
    'requests?outcome=served',
    'requests?outcome=failed',
    'requests?outcome=refused',
    'requests?code=rate_limit_exceeded',
    'requests?provider=rare',
    'requests?provider=none',
    'requests?model=*odel-3*',
    'requests?model=*none*',
    'requests?tag=team=t3',
    'requests?tag=user=u40000',
    `requests?account=${filled.customer}&outcome=refused`,
    `requests?account=${filled.rareAccount}&model=*none*`,
    `requests?key=${filled.rareKey}&outcome=failed`,
    `requests?id=${request}`,
    'requests?provider=rare&model=sim/model-1&outcome=served',
    'requests?outcome=failed&account=nobody',
    'search?q=scale1999',
    'search?q=0042',
    `search?q=${request}`,
    'search?q=up_1234567',
    'search?q=nothing-at-all',
  ])
    await during(query, async () => {
      const times: number[] = []
      for (let n = 0; n < 5; n++) times.push((await read(`${admin}/${query}`, management)).ms)
      report(`${query}, the slowest of five, ms`, Math.max(...times), targets.answerMs)
    })
  await calls.stop()
}

async function measureRetention(): Promise<void> {
  await using weir = await startWeir({
    dataDir,
    config: 'retention:\n  requests: 2419200000\nledger:\n  sweep_ms: 1000\n',
  })
  const calls = callsOn(weir.baseUrl)
  const left = async () => {
    const { stdout } = await weir.command('doctor', '--json')
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

await measureReports()
await measureRetention()
process.exitCode = failed ? 1 : 0
