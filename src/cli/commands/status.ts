// `weir status`: one screen about an installation. `weir` alone: the same where a server runs, else what to do next.

import { existsSync } from 'node:fs'
import { z } from 'zod'
import { storePlace } from '../../config/config.ts'
import { startOfDay } from '../../credits/calendar.ts'
import { formatUsd } from '../../credits/money.ts'
import { noticeOfServer, runningServer } from '../../serve/running-server.ts'
import { plural } from '../../text/text.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import { version, versionText } from '../../version.ts'
import { CommandFailure, type Context, isoTime, print } from '../context.ts'
import { isOnThisMachine } from '../gateway-address.ts'
import { serverIn, withOperatorKey, withStore } from '../with-store.ts'

/** How long the server may take for each answer. */
const patienceMs = 3_000
/** Of an answer about every provider. */
const mostAnswerBytes = 4 * 1024 * 1024

interface ServerStatus {
  readonly running: boolean
  readonly pid: number | null
  /** How many processes serve; where there are several, `pid` is their parent. */
  readonly processes: number | null
  readonly base_url: string | null
  readonly version: string | null
  readonly commit: string | null
  readonly ready: boolean
  /** Why nothing is known of a server that has the data directory open; null if there is nothing to say. */
  readonly problem: string | null
}

interface ProviderStatus {
  readonly id: string
  readonly state: string
  readonly success_rate: number | null
  readonly p50_latency_ms: number | null
  readonly last_error: string | null
}

interface BooksStatus {
  readonly accounts: number
  readonly pools: readonly { readonly type: string; readonly credit: string; readonly held: string }[]
  readonly debt: string
  readonly today: {
    readonly calls: number
    readonly errors: number
    readonly cost: string
    readonly charged: string
  }
  /** The audit of what was booked since midnight UTC. */
  readonly audit: {
    readonly ok: boolean
    readonly journal_entries: number
    readonly broken: readonly string[]
  }
}

interface GatewayStatus {
  readonly name: string
  readonly version: string
  readonly seen_at: string
  readonly silent: boolean
  readonly leads: boolean
  /** The same text at gateways with the same models and prices. */
  readonly sells: string
}

interface LogExportStatus {
  readonly rows_waiting: number
  readonly sent_at: string | null
  readonly error: string | null
}

interface Status {
  readonly ok: boolean
  readonly server: ServerStatus
  readonly data_dir: string
  /** The PostgreSQL that everything is kept on; null where it is SQLite in the data directory. */
  readonly database: string | null
  /** All that serve the database; null where there can be only one. */
  readonly gateways: readonly GatewayStatus[] | null
  readonly config_file: string | null
  /** Empty where no server runs: only the process that calls them knows how they are. */
  readonly providers: readonly ProviderStatus[]
  /** Null where there is no database yet. */
  readonly ledger: BooksStatus | null
  /** What operators were told of and is not over; null where there is no database yet. */
  readonly alarms: readonly string[] | null
  /** How far the request log was sent elsewhere; null where it is not. */
  readonly log_export: LogExportStatus | null
}

/** Prints it. Fails (exit code 1) unless a server runs, is ready, and today's bookings hold. */
export async function status(context: Context): Promise<void> {
  const found = await statusOf(context)
  print(context, { json: found, text: renderStatus(found) })
  const problem = problemOf(found)
  if (problem !== undefined) throw new CommandFailure(problem)
}

/** `weir` without a command. */
export async function welcome(context: Context): Promise<void> {
  if (runningServer(context.config.data_dir) !== undefined) return status(context)
  const { json, text } = nextSteps(context)
  print(context, { json, text })
}

function nextSteps({ config, loaded }: Context) {
  const { data_dir: dataDir } = config
  const hasFile = loaded.file !== undefined
  const hasData = existsSync(dataDir)
  const steps = [
    hasFile
      ? ['weir doctor', 'see what could keep it from working']
      : ['weir init', 'write weir.yaml, with the providers found here (or start without one)'],
    ['weir serve', hasData ? `start it again on ${dataDir}` : 'start it; the first start prints an API key'],
    ['weir chat sim/echo "Hello."', 'ask it, in another terminal, with WEIR_API_KEY set to that key'],
  ] as const
  const lines = steps.map(([command, why], at) => `  ${at + 1}. ${command.padEnd(28)}  ${why}`)
  const text = [
    `weir ${versionText}: one API in front of every model provider, every call charged exactly, once.`,
    `No server runs on ${dataDir}${hasFile ? ` (${loaded.file})` : ''}. Next:`,
    '',
    ...lines,
    '',
    'weir guide prints the guide, weir --help lists every command.',
  ].join('\n')
  return { json: { running: false, version, next: steps.map(([command]) => command) }, text }
}

async function statusOf(context: Context): Promise<Status> {
  const { config, loaded } = context
  const server = await serverStatus(config.data_dir)
  const { hasStoreIn } = await import('../../store/open.ts')
  const has = await hasStoreIn(storePlace(config), context.io.clock)
  const ledger = has ? await booksOf(context) : null
  const providers =
    has && server.base_url !== null && server.problem === null
      ? await providersOf(context, server.base_url)
      : []
  const { s3, webhook } = config.log.export
  const isSent = s3.endpoint !== undefined || webhook.url !== undefined
  const log_export = has && isSent ? await logExportOf(context) : null
  const alarms = has ? await alarmsOf(context) : null
  const files = {
    data_dir: config.data_dir,
    database: serverIn(context) ?? null,
    gateways: has ? await gatewaysOf(context) : null,
    config_file: loaded.file ?? null,
  }
  const found = { server, ...files, providers, ledger, alarms, log_export }
  return { ok: problemOf({ ...found, ok: true }) === undefined, ...found }
}

const healthAnswer = z.object({ version: z.string(), commit: z.string().nullable() })

/** What the server of a data directory says of itself. */
async function serverStatus(dataDir: string): Promise<ServerStatus> {
  const notice = noticeOfServer(dataDir)
  const unknown = { pid: null, processes: null, base_url: null, version: null, commit: null }
  const stopped = { running: false, ...unknown, ready: false }
  if (notice === undefined) return { ...stopped, problem: null }
  const { base_url: url, pid, processes } = notice
  const known = { ...stopped, running: true, pid, processes, base_url: url }
  // The address is from a file of the folder, and a server listens on this machine.
  if (!isOnThisMachine(url)) return { ...known, problem: `${url} is not on this machine, and was not asked` }
  const { origin } = new URL(url)
  try {
    const health = healthAnswer.parse(await (await ask(`${origin}/healthz`)).json())
    const ready = await ask(`${origin}/readyz`)
    await ready.body?.cancel()
    return { ...known, ...health, ready: ready.ok, problem: null }
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    return { ...known, problem: `${url} does not answer as this version does: ${reason}` }
  }
}

function ask(address: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
  const signal = AbortSignal.timeout(patienceMs)
  return fetchBounded(address, { headers, redirect: 'manual', signal }, mostAnswerBytes)
}

const providersAnswer = z.object({
  data: z.array(
    z.object({
      id: z.string(),
      state: z.string(),
      success_rate: z.number().nullable(),
      p50_latency_ms: z.number().nullable(),
      last_error: z.object({ code: z.string(), reason: z.string() }).nullable(),
    }),
  ),
})

function providersOf(context: Context, url: string): Promise<readonly ProviderStatus[]> {
  return withOperatorKey(context, 'weir status', async (key) => {
    const response = await ask(`${new URL(url).origin}/admin/v1/providers`, {
      authorization: `Bearer ${key}`,
    })
    if (!response.ok) throw new CommandFailure(`/admin/v1/providers answers ${response.status}`)
    return providersAnswer.parse(await response.json()).data.map(({ last_error, ...provider }) => ({
      ...provider,
      last_error: last_error === null ? null : `${last_error.code}: ${last_error.reason}`,
    }))
  })
}

function booksOf(context: Context): Promise<BooksStatus> {
  const day = startOfDay(context.io.clock())
  return withStore(context, async (store) => {
    const date = new Date(day).toISOString().slice(0, 10)
    const { usageQuery } = await import('../../http/v1/usage.ts')
    const { totals } = await store.usage.report(
      usageQuery({ by: 'day', from: date, to: date }, context.io.clock()),
      1,
    )
    const pools = await store.reports.poolTotals()
    const audit = await store.ledger.auditDay(day)
    return {
      accounts: (await store.accounts.countAccounts()).accounts,
      pools: pools.map(({ pool, credit, held }) => ({
        type: pool,
        credit: formatUsd(credit),
        held: formatUsd(held),
      })),
      debt: formatUsd(pools.reduce((sum, { owed }) => sum + owed, 0n)),
      today: {
        calls: totals.calls,
        errors: totals.errors,
        cost: formatUsd(totals.cost),
        charged: formatUsd(totals.charged),
      },
      audit: {
        ok: audit.ok,
        journal_entries: audit.journalEntries,
        broken: audit.checks.filter(({ ok }) => !ok).map(({ name }) => name),
      },
    }
  })
}

function gatewaysOf(context: Context): Promise<readonly GatewayStatus[] | null> {
  if (serverIn(context) === undefined) return Promise.resolve(null)
  return withStore(context, async ({ gateways }) => {
    const found = await gateways!.list()
    return found.map(({ name, version: runs, seenAt, isSilent, leads, sells }) => ({
      name,
      version: runs,
      seen_at: new Date(seenAt).toISOString(),
      silent: isSilent,
      leads,
      sells,
    }))
  })
}

async function alarmsOf(context: Context): Promise<readonly string[]> {
  const { episodesIn } = await import('../../serve/gateway/alarms.ts')
  const episodes = await withStore(context, ({ upkeep }) => episodesIn(upkeep))
  return episodes.filter(({ endedAt }) => endedAt === null).map(({ text }) => text)
}

async function logExportOf(context: Context): Promise<LogExportStatus> {
  const { exportState } = await import('../../serve/gateway/log-export.ts')
  return withStore(context, async ({ requests, upkeep }) => {
    const { waiting, sentAt, error } = await exportState(requests, upkeep)
    return { rows_waiting: waiting, sent_at: sentAt === null ? null : isoTime(sentAt), error }
  })
}

/** What a monitor should be told; undefined if all is well. */
function problemOf({ server, ledger, data_dir: dataDir }: Status): string | undefined {
  if (ledger !== null && !ledger.audit.ok)
    return `the ledger does not hold: ${ledger.audit.broken[0] ?? 'weir ledger audit tells more'}`
  if (!server.running) return `no server runs on ${dataDir} (weir serve)`
  if (server.problem !== null) return server.problem
  return server.ready ? undefined : 'the server is not ready: it drains, or its database cannot be written'
}

function renderStatus({
  server,
  data_dir: dataDir,
  database,
  gateways,
  config_file: file,
  providers,
  ledger,
  alarms,
  log_export: sent,
}: Status): string {
  const built = server.commit === null ? '' : ` (${server.commit.slice(0, 8)})`
  const state = server.problem !== null ? 'does not answer' : server.ready ? 'ready' : 'not ready'
  const head = server.running
    ? `weir ${server.version ?? '?'}${built} runs at ${server.base_url}, ${processesOf(server)}: ${state}`
    : `weir ${versionText}: no server runs here`
  const rows: [string, string][] = [
    ...(database === null ? [] : [['database', database] satisfies [string, string]]),
    ['data', dataDir],
    ['configuration', file ?? 'no weir.yaml: defaults and environment'],
  ]
  if (ledger === null) rows.push(['ledger', 'no database yet: weir serve makes one'])
  else {
    const credit = ledger.pools
      .filter(({ credit }) => credit !== '0')
      .map(({ type, credit }) => `${type} ${credit}`)
    const held = ledger.pools.filter(({ held }) => held !== '0').map(({ type, held }) => `${type} ${held}`)
    rows.push(
      ['accounts', plural(ledger.accounts, 'account')],
      ['credit, USD', credit.join(', ') || 'none'],
      ['held, USD', held.join(', ') || 'none'],
      ['owed, USD', ledger.debt],
      [
        'today (UTC)',
        `${plural(ledger.today.calls, 'call')}, ${plural(ledger.today.errors, 'error')}, cost ${ledger.today.cost} USD, charged ${ledger.today.charged} USD`,
      ],
      [
        'audit of today',
        ledger.audit.ok
          ? `holds: ${plural(ledger.audit.journal_entries, 'journal entry', 'journal entries')}`
          : `DOES NOT HOLD: ${ledger.audit.broken.join('; ')}`,
      ],
    )
  }
  for (const [at, gateway] of (gateways ?? []).entries())
    rows.push([at === 0 ? 'gateways' : '', gatewayLine(gateway)])
  if (new Set((gateways ?? []).map(({ sells }) => sells).filter((sells) => sells !== '')).size > 1)
    rows.push(['', 'they have DIFFERENT models or prices: their settings or versions differ'])
  for (const [at, text] of (alarms ?? []).entries()) rows.push([at === 0 ? 'ALARMS' : '', text])
  if (sent !== null) {
    const last = sent.sent_at === null ? 'nothing sent yet' : `last sent ${sent.sent_at}`
    const fault = sent.error === null ? '' : `, FAILS: ${sent.error}`
    rows.push(['log export', `${plural(sent.rows_waiting, 'row')} waiting, ${last}${fault}`])
  }
  for (const [at, provider] of providers.entries())
    rows.push([at === 0 ? 'providers' : '', providerLine(provider)])
  return [head, ...rows.map(([name, value]) => `  ${name.padEnd(14)} ${value}`.trimEnd())].join('\n')
}

function gatewayLine({ name, version: runs, seen_at: seen, silent, leads }: GatewayStatus): string {
  const state = silent ? `SILENT since ${seen}` : `alive at ${seen}`
  return `${name}: weir ${runs || '?'}, ${state}${leads ? ', leads' : ''}`
}

function processesOf({ pid, processes }: ServerStatus): string {
  return processes === null || processes === 1 ? `process ${pid}` : `process ${pid} and its ${processes}`
}

function providerLine({
  id,
  state,
  success_rate: rate,
  p50_latency_ms: p50,
  last_error: last,
}: ProviderStatus): string {
  const facts = [
    ...(rate === null ? ['no calls yet'] : [`${Math.round(rate * 100)} % answered`]),
    ...(p50 === null ? [] : [`median ${Math.round(p50)} ms`]),
    ...(last === null ? [] : [`last error ${last}`]),
  ]
  return `${id}: ${state}, ${facts.join(', ')}`
}
