// `weir doctor`: looks for problems, and changes nothing.

import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { isLoopback } from '../../config/accounts.ts'
import { type Config, storePlace } from '../../config/config.ts'
import type { Unpaid } from '../../credits/ledger/monthly.ts'
import { formatUsd } from '../../credits/money.ts'
import type { Provider } from '../../providers/provider.ts'
import { providers as registry } from '../../providers/registry.ts'
import { type CatalogFile, suggestion } from '../../catalog/row.ts'
import { catalogInUse, discovers } from '../../serve/gateway/catalog.ts'
import {
  keyNames,
  type TestedCall,
  testProvider,
  type TestProblem,
} from '../../serve/gateway/provider-test.ts'
import { webSearchOf } from '../../serve/gateway/tools.ts'
import type { ServerFacts } from '../../store/postgres/server.ts'
import type { DatabaseServer, RetentionFacts } from '../../store/store.ts'
import { plural } from '../../text/text.ts'
import { SearchFault } from '../../tools/search/backends.ts'
import { PageReader, UnreadablePage } from '../../tools/search/page/page-reader.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import { CommandFailure, type Context, type Invocation, print, usageFault } from '../context.ts'
import { folderSays, isUsersChoice } from '../gateway-address.ts'
import { catalogFileIn, withStore } from '../with-store.ts'
import { NearIds } from '../../catalog/catalog.ts'

type Check = (context: Context) => Promise<readonly Finding[]>

/** Runs every check; fails if one finds something bad. */
export async function doctor(context: Context, invocation: Invocation): Promise<void> {
  if (invocation.option('provider') !== undefined) return probe(context, invocation)
  const checks: readonly Check[] = [
    configuration,
    dataDirectory,
    database,
    providers,
    catalog,
    searchFindings,
    pageFindings,
  ]
  const findings: Finding[] = []
  for (const check of checks) findings.push(...(await check(context)))
  const bad = findings.filter(({ state }) => state === 'bad')
  print(context, { json: { ok: bad.length === 0, findings: findings.map(viewOf) }, text: linesOf(findings) })
  if (bad.length > 0)
    throw new CommandFailure(bad.map(({ check, detail }) => `${check}: ${detail}`).join('\n'))
}

const viewOf = ({ check, state, detail }: Finding) => ({ check, state, detail })

/** What is wrong comes first, and what merely is not there takes a line together. */
function linesOf(findings: readonly Finding[]): string {
  const urgency = ['bad', 'warn', 'ok', 'info']
  const absent = (kind: Finding['absent']) => findings.filter((finding) => finding.absent === kind)
  const names = (found: readonly Finding[]) =>
    found.map(({ check }) => check.replace(/^provider /, '')).join(', ')
  const together: Finding[] = []
  const [keys, servers] = [absent('key'), absent('server')]
  if (keys.length > 0) {
    const detail = `${names(keys)} (weir doctor --provider NAME says in which variable it belongs)`
    together.push({ check: 'no key', state: 'info', detail })
  }
  if (servers.length > 0) together.push({ check: 'no local server', state: 'info', detail: names(servers) })
  return [...findings.filter((finding) => finding.absent === undefined), ...together]
    .toSorted((a, b) => urgency.indexOf(a.state) - urgency.indexOf(b.state))
    .map(({ check, state, detail }) => `${state.padEnd(4)}  ${check.padEnd(22)}  ${detail}`)
    .join('\n')
}

/** A bad configuration has ended the command before this point. */
async function configuration({ loaded }: Context): Promise<readonly Finding[]> {
  const warnings = loaded.warnings.map(({ name, problem }): Finding => ({
    check: 'configuration',
    state: 'warn',
    detail: `${name} ${problem}`,
  }))
  const detail = loaded.file ?? 'no file: defaults and environment'
  return [{ check: 'configuration', state: 'ok', detail }, ...warnings]
}

async function dataDirectory({ config }: Context): Promise<readonly Finding[]> {
  const { data_dir } = config
  const check = 'data directory'
  let existing = data_dir
  while (!existsSync(existing) && dirname(existing) !== existing) existing = dirname(existing)
  if (!statSync(existing).isDirectory())
    return [{ check, state: 'bad', detail: `${existing} is not a folder` }]
  try {
    accessSync(existing, constants.W_OK | constants.X_OK)
  } catch {
    return [{ check, state: 'bad', detail: `${existing} cannot be written` }]
  }
  const made = existing === data_dir ? '' : ' (made at the first run)'
  return [{ check, state: 'ok', detail: `${data_dir}${made}` }]
}

// Earlier versions of SQLite could lose data if a checkpoint and a write of two connections coincided.
const oldestSqlite = '3.51.3'

async function database(context: Context): Promise<readonly Finding[]> {
  const { server } = storePlace(context.config)
  return server === undefined ? databaseInFile(context) : databaseOnServer(context, server)
}

/** The server of PostgreSQL, and what is kept on it. */
async function databaseOnServer(context: Context, server: DatabaseServer): Promise<readonly Finding[]> {
  const { factsOf, planFaultsOf, requireUsable } = await import('../../store/postgres/server.ts')
  try {
    const facts = await factsOf(server, context.io.clock)
    requireUsable(server, facts)
    const faults = facts.hasTables ? await planFaultsOf(server) : []
    const findings = serverFindings(facts, faults, isLoopback(new URL(server.url).hostname))
    if (!facts.hasTables)
      return [
        ...findings,
        { check: 'database', state: 'info', detail: 'no tables yet: the first run makes them' },
      ]
    return [...findings, ...(await storeFindings(context, () => sizeOf(facts.size)))]
  } catch (thrown) {
    return [{ check: 'postgresql', state: 'bad', detail: messageOf(thrown) }]
  }
}

const standbyTexts: Readonly<Record<ServerFacts['standby'], readonly [Finding['state'], string]>> = {
  synchronous: ['ok', 'each commit waits for a second server'],
  named: [
    'warn',
    'synchronous_standby_names names servers, and none of them is synchronous now: commits may hang',
  ],
  none: [
    'warn',
    'none, or an asynchronous one: what was acknowledged is lost with the server. synchronous_standby_names names one',
  ],
  unknown: [
    'info',
    'cannot be checked here: the service keeps its copies itself, or the user lacks pg_monitor',
  ],
}

/** The most that clocks may differ, milliseconds. */
const clocksApartMs = 1_000

function serverFindings(
  facts: ServerFacts,
  planFaults: readonly string[],
  isHere: boolean,
): readonly Finding[] {
  const { version, encrypted, losing, clockAheadMs } = facts
  const [standby, standbyText] = standbyTexts[facts.standby]
  const apart = Math.abs(clockAheadMs) > clocksApartMs
  const finding = (check: string, isWell: boolean, well: string, otherwise: string): Finding => ({
    check,
    state: isWell ? 'ok' : 'warn',
    detail: isWell ? well : otherwise,
  })
  return [
    finding(
      'postgresql',
      encrypted || isHere,
      `${version}, ${encrypted ? 'with TLS' : 'without TLS on this machine'}`,
      `${version}, without TLS: whoever is on the way reads and changes what is sent`,
    ),
    finding(
      'durability',
      losing.length === 0,
      'fsync, full_page_writes and synchronous_commit are on',
      `${losing.join(', ')}: a crash of the server loses what was acknowledged`,
    ),
    { check: 'standby', state: standby, detail: standbyText },
    finding(
      'clock of the database',
      !apart,
      `within ${clocksApartMs / 1000} s of this machine's`,
      `${Math.abs(clockAheadMs)} ms ${clockAheadMs > 0 ? 'ahead of' : 'behind'} this machine's: set both by NTP`,
    ),
    finding(
      'plans',
      planFaults.length === 0,
      'every index is whole, every text in the order of bytes, no large table is read whole',
      planFaults.join('; '),
    ),
  ]
}

async function databaseInFile(context: Context): Promise<readonly Finding[]> {
  const version = process.versions['sqlite'] ?? 'unknown'
  const sound = Bun.semver.order(version, oldestSqlite) >= 0
  const sqlite: Finding = {
    check: 'sqlite',
    state: sound ? 'ok' : 'bad',
    detail: sound ? version : `${version} is older than ${oldestSqlite}`,
  }
  const { hasStore } = await import('../../store/open.ts')
  try {
    if (!hasStore(context.config.data_dir)) {
      return [sqlite, { check: 'database', state: 'info', detail: 'none yet: it is made at the first run' }]
    }
    return [sqlite, ...(await storeFindings(context, sizeOfFile))]
  } catch (thrown) {
    return [sqlite, { check: 'database', state: 'bad', detail: messageOf(thrown) }]
  }
}

/** `sizeAt` gives the size of the database for people, by its path. */
async function storeFindings(
  context: Context,
  sizeAt: (path: string) => string,
): Promise<readonly Finding[]> {
  const since = context.io.clock() - unpaidDays * 86_400_000
  const { writable, accounts, path, kept, unpaid } = await withStore(context, async (store) => ({
    writable: await store.ledger.writable(),
    accounts: (await store.accounts.listAccounts()).length,
    path: store.path,
    kept: await store.retention.facts(),
    unpaid: await store.reports.unpaid(since),
  }))
  const state = writable ? 'ok' : 'bad'
  const detail = writable ? `${plural(accounts, 'account')}, ${sizeAt(path)}` : 'cannot be written'
  return [{ check: 'database', state, detail }, ...retention(context, kept), ...unpaid.map(unpaidFinding)]
}

/** The retention of records, and the age of the oldest. */
function retention({ config }: Context, { requests }: RetentionFacts): readonly Finding[] {
  const held =
    requests === null
      ? 'none yet'
      : `about ${requests.about} since ${new Date(requests.since).toISOString().slice(0, 10)}`
  return [
    {
      check: 'request log',
      state: 'info',
      detail: `${held}; kept for ${inWords(config.retention.requests)} (retention.requests)`,
    },
    {
      check: 'thought signatures',
      state: 'info',
      detail: `kept for ${inWords(config.retention.signatures)} (retention.signatures)`,
    },
    {
      check: 'payment messages',
      state: 'info',
      detail: `kept for ${inWords(config.retention.payment_events)} (retention.payment_events)`,
    },
  ]
}

function inWords(ms: number): string {
  const [unit, name] = ms >= 86_400_000 ? [86_400_000, 'day'] : [1_000, 'second']
  return plural(Math.round((ms / unit) * 10) / 10, name)
}

/** The database file and its write-ahead log. */
function sizeOfFile(path: string): string {
  const bytes = (file: string) => (existsSync(file) ? statSync(file).size : 0)
  const log = bytes(`${path}-wal`)
  return `${sizeOf(bytes(path))}${log === 0 ? '' : ` (and ${sizeOf(log)} of write-ahead log)`}`
}

/** A size in the unit in which it is not 0.0: `40 kB`, `1.2 MB`. */
function sizeOf(bytes: number): string {
  if (bytes < 1_000) return plural(bytes, 'byte')
  if (bytes < 1_000_000) return `${Math.round(bytes / 1_000)} kB`
  return bytes < 1_000_000_000 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(1)} GB`
}

/** The period in which absorbed costs are searched. */
const unpaidDays = 30

function unpaidFinding({ provider, absorbedCalls, absorbed, overLimitCalls }: Unpaid): Finding {
  const amounts = [
    ...(absorbedCalls > 0
      ? [`${formatUsd(absorbed)} USD of ${plural(absorbedCalls, 'call')} are borne by the operator`]
      : []),
    ...(overLimitCalls > 0
      ? [
          `${plural(overLimitCalls, 'call')} took ${overLimitCalls === 1 ? 'its' : 'their'} key beyond its limit`,
        ]
      : []),
  ]
  const detail = `billed more than was held for it in the last ${unpaidDays} days: ${amounts.join('; ')}`
  return { check: `provider ${provider}`, state: 'warn', detail }
}

async function providers(context: Context): Promise<readonly Finding[]> {
  const { config } = context
  const rows = new Map<string, Provider | undefined>(registry.map((row) => [row.id, row]))
  for (const id of Object.keys(config.providers)) if (!rows.has(id)) rows.set(id, undefined)
  const findings = await Promise.all([...rows].map(([id, row]) => providerFinding(context, id, row)))
  const usable = findings.filter(({ state, check }) => state === 'ok' && check !== 'provider sim')
  if (usable.length > 0) return findings
  const detail = 'no provider can be used but the simulator: set a key such as OPENAI_API_KEY'
  return [...findings, { check: 'providers', state: 'warn', detail }]
}

async function providerFinding(context: Context, id: string, row: Provider | undefined): Promise<Finding> {
  const { config } = context
  const check = `provider ${id}`
  const settings = config.providers[id]
  const deployments = settings?.deployments ?? []
  const address = deployments[0]?.base_url ?? settings?.base_url ?? row?.baseUrl ?? ''
  if (settings?.disabled) return { check, state: 'info', detail: 'disabled' }
  if (row?.transport === 'builtin') return { check, state: 'ok', detail: 'answers inside the gateway' }
  const wantsKey = row !== undefined && row.auth.kind !== 'none'
  if (wantsKey && !settings?.api_key.length && deployments.every(({ api_key }) => api_key.length === 0))
    return { check, state: 'info', detail: `no key (${keyNames(row)})`, absent: 'key' }
  if (address === '')
    return { check, state: 'warn', detail: `a key, but no address: set providers.${id}.base_url` }
  if (wantsKey) return { check, state: 'ok', detail: `a key, ${address}` }
  const place = deployments[0]?.base_url === undefined ? 'base_url' : 'deployments'
  const isSet = place === 'deployments' || settings?.base_url !== undefined
  if (isSet && !isUsersChoice(context, ['providers', id, place], address))
    return { check, state: 'info', detail: `not asked: ${address} ${folderSays}` }
  if (!(row?.local && !discovers(config))) return reachability(config, check, address, settings !== undefined)
  return { check, state: 'info', detail: 'not looked for: local_servers.discover is off' }
}

/** Probes a local server. One that the operator configured should answer; others may be absent. */
async function reachability(
  config: Config,
  check: string,
  address: string,
  named: boolean,
): Promise<Finding> {
  try {
    const signal = AbortSignal.timeout(config.local_servers.timeout_ms)
    const response = await fetchBounded(`${address}/models`, { signal, redirect: 'manual' }, Infinity)
    await response.body?.cancel()
    return { check, state: 'ok', detail: `answers at ${address}` }
  } catch {
    const detail = `nothing answers at ${address}`
    return named ? { check, state: 'warn', detail } : { check, state: 'info', detail, absent: 'server' }
  }
}

const oldPricesDays = 90

async function catalog(context: Context): Promise<readonly Finding[]> {
  try {
    return catalogFindings(context, await catalogFileIn(context))
  } catch (thrown) {
    // An imported catalog that is damaged or cannot be read: the server does not start with it either.
    return [{ check: 'catalog', state: 'bad', detail: messageOf(thrown) }]
  }
}

function catalogFindings({ config, io }: Context, file: CatalogFile): readonly Finding[] {
  const known = catalogInUse(config, io.clock, [], file)
  const sold = known.list()
  const ageDays = Math.floor((io.clock() - Date.parse(known.date)) / 86_400_000)
  const detail = `${plural(sold.length, 'model')}, prices of ${known.date}`
  const prices: Finding =
    ageDays > oldPricesDays
      ? { check: 'catalog', state: 'warn', detail: `${detail}, ${plural(ageDays, 'day')} old` }
      : { check: 'catalog', state: 'ok', detail }
  // Only models of providers with a key: thousands of others would hide these.
  const ours = known.unpriced.filter(({ id }) => config.providers[id.slice(0, id.indexOf('/'))] !== undefined)
  const unsold = ours.map(({ id, reason }): Finding => ({
    check: 'not sold',
    state: 'warn',
    detail: `${id}: ${reason}`,
  }))
  return [prices, ...unsold]
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}

// The web search in `weir doctor`: a test query shows whether the backend answers, and at which price.

const check = 'web search'

/** Whether pages can be opened: the reader runs in a worker thread, whose code must be in the executable. */
async function pageFindings({ config }: Context): Promise<readonly Finding[]> {
  const reader = new PageReader(config.search.page_read_ms)
  const named = { check: 'open_page' }
  if (!config.search.open_pages)
    return [{ ...named, state: 'info', detail: 'switched off (search.open_pages)' }]
  const began = performance.now()
  try {
    await reader.extract('<p>words</p>', 'https://example.org/', new AbortController().signal)
    return [
      { ...named, state: 'ok', detail: `reads pages, ready in ${Math.round(performance.now() - began)} ms` },
    ]
  } catch (error) {
    if (!(error instanceof UnreadablePage)) throw error
    return [{ ...named, state: 'bad', detail: error.message }]
  } finally {
    reader.stop()
  }
}

/** Calls the configured backend once, which costs as much as a search. */
async function searchFindings(context: Context): Promise<readonly Finding[]> {
  const { config, io } = context
  const { base_url: address } = config.search
  if (address !== undefined && !isUsersChoice(context, ['search', 'base_url'], address))
    return [{ check, state: 'info', detail: `not asked: ${address} ${folderSays}` }]
  const { backend } = webSearchOf(config, io.clock)
  if (!backend) {
    const detail =
      'no backend (search.backend): only models whose provider searches itself can search; test keys use the offline index'
    return [{ check, state: 'info', detail }]
  }
  const began = performance.now()
  try {
    const query = { text: 'speed of light', allowedDomains: [], blockedDomains: [] }
    const hints = { recency: undefined, location: undefined, contextSize: 'low' } as const
    const { results, cost } = await backend.search(
      { ...query, ...hints, count: 1 },
      new AbortController().signal,
    )
    const ms = Math.round(performance.now() - began)
    const price = `${formatUsd(cost ?? backend.price)} USD a search`
    if (results.length > 0)
      return [{ check, state: 'ok', detail: `${backend.id} answered in ${ms} ms, ${price}` }]
    return [{ check, state: 'warn', detail: `${backend.id} answers, and found nothing for "${query.text}"` }]
  } catch (error) {
    if (!(error instanceof SearchFault)) throw error
    return [{ check, state: 'bad', detail: `${error.message} ${error.detail}` }]
  }
}

// The findings of `weir doctor` and its probes, one line each.

/** `bad` makes the command fail; `warn` needs attention; `info` is a fact. */
export interface Finding {
  readonly check: string
  readonly state: 'ok' | 'info' | 'warn' | 'bad'
  readonly detail: string
  /** What a provider that nobody has set up lacks. */
  readonly absent?: 'key' | 'server'
}

// `weir doctor --provider P`: makes one cheap call to a provider, charged to no account, and explains what is wrong.

interface Verdict extends Finding {
  readonly problem?: TestProblem
  /** The model that was called, by its name at the provider. */
  readonly model?: string
  readonly ms?: number
  /** What the provider bills, if that is known. */
  readonly cost_usd?: string
}

/** Calls the provider once with each of its keys. Fails with the reason if a call is not answered. */
async function probe(context: Context, invocation: Invocation): Promise<void> {
  const verdicts = await verdictsOf(context, invocation.option('provider') ?? '')
  const bad = verdicts.filter(({ state }) => state === 'bad')
  const text = verdicts.map(({ check, state, detail }) => `${state.padEnd(4)}  ${check}  ${detail}`)
  print(context, { json: { ok: bad.length === 0, findings: verdicts }, text: text.join('\n') })
  if (bad.length > 0)
    throw new CommandFailure(bad.map(({ check, detail }) => `${check}: ${detail}`).join('\n'))
}

async function verdictsOf(context: Context, id: string): Promise<readonly Verdict[]> {
  const { config, io } = context
  const settings = config.providers[id]
  if (!settings && registry.every((provider) => provider.id !== id)) {
    const known = new NearIds([...registry.map((one) => one.id), ...Object.keys(config.providers)])
    throw usageFault(`there is no provider ${JSON.stringify(id)}.${suggestion(known.nearest(id))}`)
  }
  const addresses = [
    ['base_url', settings?.base_url] as const,
    ...(settings?.deployments ?? []).map((deployment) => ['deployments', deployment.base_url] as const),
  ]
  for (const [place, address] of addresses)
    if (address !== undefined && !isUsersChoice(context, ['providers', id, place], address))
      throw usageFault(`its key would be sent to ${address}, which ${folderSays}`)
  const file = await catalogFileIn(context)
  const subject = { config, catalog: catalogInUse(config, io.clock, [], file), file, clock: io.clock }
  const { calls } = await testProvider(subject, id)
  return calls.map((call) => verdictOf(call, calls.length > 1))
}

function verdictOf({ provider, upstream, key, ms, outcome }: TestedCall, isOneOfSeveral: boolean): Verdict {
  const check = `provider ${provider}${isOneOfSeveral ? ` key ${key}` : ''}`
  const facts = { check, ...(upstream === undefined ? {} : { model: upstream, ms: ms! }) }
  if (outcome.kind === 'bad')
    return { ...facts, state: 'bad', detail: outcome.detail, problem: outcome.problem }
  const cost = outcome.cost === undefined ? undefined : formatUsd(outcome.cost)
  const bill = cost === undefined ? '' : `, for ${cost} USD`
  return {
    ...facts,
    state: 'ok',
    detail: `${upstream} answered in ${ms} ms${bill}`,
    ...(cost === undefined ? {} : { cost_usd: cost }),
  }
}
