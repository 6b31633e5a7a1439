// Kills the real server in the middle of its work, again and again, at random instants and at every named failpoint, and
// compares its ledger with the provider's bill.

import { Database } from 'bun:sqlite'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { seeded, type Random } from '../simulation/random.ts'
import { startWeir, type RunningWeir } from '../support/run-weir.ts'
import { tempDir } from '../support/tmp.ts'
import { configOf, startBillingProvider } from './billing-provider.ts'
import { judge, type CallRow, type Death, type Findings } from './findings.ts'
import { Load, type Noted } from './load.ts'
import { startToolServers } from './tool-servers.ts'
import { everyFailpoint, passingOf, trials } from './trials.ts'

export interface KillOptions {
  /** Two of three are at a failpoint, each in its turn, the third at any moment. */
  readonly kills: number
  readonly lanes: number
  readonly seed: number
  /** The longest time between two kills at random instants. */
  readonly pauseMs: number
  /** A third of the clients ask over sockets, a third in the background. */
  readonly responses?: boolean
  readonly tell?: (line: string) => void
}

/** The kills of one cause. */
export interface CauseReport {
  readonly cause: Death['cause']
  readonly kills: number
  /** Calls that were in flight. */
  readonly cutCalls: number
  readonly cutStreams: number
  /** Words that a stream had delivered and was not charged for: of all that were cut in the mean, and the most. */
  readonly meanUnchargedWords: number
  readonly mostUnchargedWords: number
  /** The most it may be short of in the mean: a checkpoint, and a second one where that waited for its commit. */
  readonly allowedWords: number
  readonly broken: number
}

export interface KillReport extends Omit<CauseReport, 'cause' | 'broken'> {
  readonly calls: number
  readonly acknowledged: number
  /** Searches that cut streams had used, and were charged. */
  readonly searches: Findings['searches']
  /** Calls of the MCP server. */
  readonly gauged: number
  /** Answers that a client had for asking again. */
  readonly replayed: number
  /** The longest time from a restart until no call of the killed process was open. */
  readonly slowestRecoveryMs: number
  readonly causes: readonly CauseReport[]
  /** Everything that must not be; empty when all promises were kept. */
  readonly broken: readonly string[]
}

/** A checkpoint every so many tokens, or milliseconds. */
const checkpoint = { tokens: 20, ms: 100 }
const recoveryMs = 5_000
/** How long a server under load may take to come to its failpoint. */
const reachMs = 10_000
const openCalls = 'SELECT count(*) AS open FROM open_call WHERE opened_at < ?'

export async function killAgainAndAgain(options: KillOptions): Promise<KillReport> {
  const random = seeded(options.seed)
  const home = tempDir('weir-kill-')
  const provider = startBillingProvider()
  const stream = `stream: { checkpoint_tokens: ${checkpoint.tokens}, checkpoint_ms: ${checkpoint.ms} }`
  const tools = startToolServers()
  const config = configOf(provider, stream + tools.config)
  const start = (failpoint?: string) =>
    startWeir({
      config,
      dataDir: home.path,
      env: failpoint ? { WEIR_TEST_FAILPOINT: failpoint } : {},
    })
  const plans = plansOf(options, random)
  const deaths: Death[] = []
  const late: string[] = []
  let weir = await start(plans[0]!.serving)
  const { key } = weir
  const target = () => ({ baseUrl: weir.baseUrl, key, declare: tools.declare })
  const kinds = options.responses ? (['chat', 'socket', 'background'] as const) : undefined
  const load = new Load(options.lanes, random, target, kinds)
  let slowestRecoveryMs = 0
  try {
    load.run()
    for (const [number, plan] of plans.entries()) {
      let output = await death(weir, plan)
      const killedAt = Date.now()
      await weir.stop()
      if (plan.starting) output = await deathAtStart(start(plan.starting))
      deaths.push({ cause: plan.cause, victim: victimOf(plan.cause, output) })
      weir = await start(plans[number + 1]?.serving)
      load.resume()
      const tookMs = await recovered(home.path, killedAt)
      slowestRecoveryMs = Math.max(slowestRecoveryMs, tookMs)
      if (tookMs > recoveryMs) late.push(`kill ${number}: calls are still open after ${recoveryMs} ms`)
      if ((number + 1) % 50 === 0) options.tell?.(`${number + 1} kills, ${load.seen.length} calls`)
    }
    await load.finish()
    await Bun.sleep(200)
    const audit = await weir.command('ledger', 'audit', '--json')
    if (audit.code !== 0) late.push(`the audit says: ${audit.stdout}${audit.stderr}`)
    await weir.stop()
    const findings = judge({ seen: load.seen, rows: rowsOf(home.path), provider, tools, deaths })
    return { ...reportOf(load.seen, deaths, findings, late), slowestRecoveryMs, gauged: tools.gauged() }
  } finally {
    load.stop()
    await weir.kill()
    await weir.stop()
    provider.stop()
    tools.stop()
    home.remove()
  }
}

/** How one process is to die: what `test.failpoint` says while it serves, and what it says to its successor. */
interface DeathPlan {
  readonly cause: Death['cause']
  readonly afterMs: number
  readonly serving: string | undefined
  readonly starting: string | undefined
}

function plansOf({ kills, lanes, pauseMs }: KillOptions, random: Random): DeathPlan[] {
  return Array.from({ length: kills }, (_, number) => {
    const afterMs = 60 + random.below(pauseMs)
    const unarmed = { afterMs, serving: undefined, starting: undefined }
    if (number % 3 === 2) return { ...unarmed, cause: 'any moment' }
    const turn = number - Math.floor(number / 3)
    const cause = everyFailpoint[turn % everyFailpoint.length]!
    const failpoint = `${cause}:${passingOf(cause, (most) => random.below(most), lanes)}`
    if (!trials[cause].atStart) return { ...unarmed, cause, serving: failpoint }
    // Its successor must have calls to recover: every lane has one open.
    return { ...unarmed, cause, serving: `hold-decided:${lanes}`, starting: failpoint }
  })
}

/** Waits for the death of a server that serves, and gives what it has printed. */
async function death(weir: RunningWeir, { serving, afterMs }: DeathPlan): Promise<string> {
  if (serving === undefined) await Bun.sleep(afterMs)
  else await reached(weir, serving)
  await weir.kill()
  return weir.output()
}

/** Of a process that is gone, as of one that nobody has waited for. */
function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return 'State:\tZ'
  }
}

async function deathAtStart(starting: Promise<RunningWeir>): Promise<string> {
  try {
    const alive = await starting
    await alive.kill()
    await alive.stop()
    return alive.output()
  } catch (error) {
    return String(error)
  }
}

/** Resolves when it has died at the armed failpoint, or after a time: with whether one has. */
async function reached(weir: RunningWeir, serving: string): Promise<boolean> {
  const deadline = performance.now() + reachMs
  const line = `failpoint ${serving.split(':')[0]!} `
  const isReached = () => weir.output().includes(line)
  while (isAlive(weir) && !isReached() && performance.now() < deadline) await Bun.sleep(5)
  return isReached()
}

function isAlive({ pid }: RunningWeir): boolean {
  return !/^State:\s+Z/m.test(statusOf(pid))
}

function victimOf(cause: Death['cause'], output: string): string | undefined {
  return new RegExp(`^failpoint ${cause} (.+)$`, 'm').exec(output)?.[1]
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
      `SELECT id, state, charged, hold, ending, upstream_id, json_extract(receipt, '$.usage.output') AS words,
         json_extract(receipt, '$.usage.toolCalls.web_search') AS searches FROM call
       UNION ALL SELECT id, 'open', NULL, hold, NULL, NULL, NULL, NULL FROM open_call`,
    )
    .all()
  database.close()
  return new Map(rows.map((row) => [row.id, row]))
}

function reportOf(
  seen: readonly Noted[],
  deaths: readonly Death[],
  findings: Findings,
  late: readonly string[],
): Omit<KillReport, 'slowestRecoveryMs' | 'gauged'> {
  const causes = (['any moment', ...everyFailpoint] as const).map((cause): CauseReport => {
    const among = (process: number) => deaths[process]?.cause === cause
    const broken = findings.broken.filter(({ process }) => among(process)).length
    return { cause, ...figuresOf(seen, deaths, findings, among), broken }
  })
  return {
    ...figuresOf(seen, deaths, findings, () => true),
    calls: seen.length,
    acknowledged: seen.filter(({ ending }) => ending === 'complete').length,
    searches: findings.searches,
    replayed: seen.filter(({ replayed }) => replayed).length,
    causes,
    broken: [...late, ...findings.broken.map(({ what }) => what)],
  }
}

function figuresOf(
  seen: readonly Noted[],
  deaths: readonly Death[],
  { cutStreams }: Findings,
  among: (process: number) => boolean,
): Omit<CauseReport, 'cause' | 'broken'> {
  const cut = cutStreams.filter(({ process }) => among(process))
  const measured = cut.filter((stream) => stream.uncharged !== undefined)
  const uncharged = measured.map((stream) => stream.uncharged!)
  return {
    kills: deaths.filter((_, process) => among(process)).length,
    cutCalls: seen.filter(({ ending, process }) => ending === 'broken' && among(process)).length,
    cutStreams: cut.length,
    meanUnchargedWords: meanOf(uncharged),
    mostUnchargedWords: Math.max(0, ...uncharged),
    allowedWords: meanOf(measured.map(({ process }) => allowedFor(deaths[process]!))),
  }
}

function meanOf(figures: readonly number[]): number {
  return figures.reduce((sum, figure) => sum + figure, 0) / Math.max(1, figures.length)
}

function allowedFor({ cause }: Death): number {
  if (cause === 'any moment' || trials[cause].atStart) return checkpoint.tokens
  const { fate } = trials[cause]
  return fate === 'unknown' || fate === 'recovered' ? 2 * checkpoint.tokens : checkpoint.tokens
}

/** Text for people: a row for each cause. */
export function tableOf({ causes }: KillReport): string {
  const row = (...cells: readonly (string | number)[]) =>
    cells.map((cell, at) => (at === 0 ? String(cell).padEnd(22) : String(cell).padStart(13))).join('')
  return [
    row('killed at', 'kills', 'calls cut', 'streams cut', 'words short', 'allowed', 'findings'),
    ...causes.map(({ cause, kills, cutCalls, cutStreams, meanUnchargedWords, allowedWords, broken }) =>
      row(cause, kills, cutCalls, cutStreams, meanUnchargedWords.toFixed(1), allowedWords.toFixed(1), broken),
    ),
  ].join('\n')
}
