// The start-up banner of `weir serve`: where it listens, which providers can answer, and on the first run the key.

import { ownerEmail } from '../accounts/account.ts'
import { isLoopback } from '../config/accounts.ts'
import type { Config } from '../config/config.ts'
import { providers as rows } from '../providers/registry.ts'
import { plural } from '../text/text.ts'
import { commit, version } from '../version.ts'
import { answering, type Live } from './gateway/catalog.ts'

type ProviderStanding =
  /** Answers inside this process. */
  | 'builtin'
  | 'key'
  | 'no-key'
  /** A server without a key, on this machine or named by the operator, and whether it answered. */
  | 'found'
  | 'not-found'
  | 'disabled'

interface ProviderFact {
  readonly id: string
  readonly standing: ProviderStanding
  /** For a local server: the number of its models. */
  readonly models?: number
}

/** The owner account's key, known on the first run only. */
export interface OwnerKey {
  readonly account: string
  readonly email: string
  readonly key: string
  readonly creditUsd: string
  /** A short-lived, single-use sign-in link for the console. */
  readonly signIn: string
}

export interface StartFacts {
  readonly version: string
  /** Null where it runs from its source. */
  readonly commit: string | null
  /** `127.0.0.1:8787`, with the actual port. */
  readonly listen: string
  /** `http://127.0.0.1:8787/v1` */
  readonly baseUrl: string
  /** Addresses of the console and the documentation. */
  readonly console: string
  readonly docs: string
  readonly dataDir: string
  /** Where everything is kept, if it is not in the data directory. */
  readonly database: string | undefined
  readonly configFile: string | undefined
  readonly providers: readonly ProviderFact[]
  /** How many models can be called now. */
  readonly available: number
  /** The chat models of local servers. */
  readonly local: readonly string[]
  readonly catalog: { readonly date: string; readonly models: number }
  /** A model for the first try that needs no provider key: of a local server if there is one. */
  readonly tryModel: string
  readonly owner: OwnerKey | undefined
  /** The file that has the owner's key, where it is not to be printed. */
  readonly ownerFile: string | undefined
}

/** The address for clients: a wildcard host becomes loopback, an IPv6 host gets brackets. */
export function baseUrlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${listenAddress(reachable, port)}/v1`
}

/** Where clients find the gateway: what the operator says, else where it listens. */
export function publicUrlOf({ server }: Config, port: number): string {
  return server.public_url ?? baseUrlOf(server.host, port).replace(/\/v1$/, '')
}

/** Host and port in one. */
export function listenAddress(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/**
 * The console's address for a browser on this machine. A name, because passkeys do not work at an IP address, unless
 * the name does not lead to this host.
 */
export function consoleOrigin(host: string, port: number): string {
  const local = isLoopback(host) || host === '0.0.0.0' || host === '::'
  return local ? `http://localhost:${port}` : new URL(baseUrlOf(host, port)).origin
}

/** The banner as text: what works now and how to call it, where things are, and what could be added. Pure. */
export function renderBanner(facts: StartFacts): string {
  const works = rowsOf([
    ['base URL', facts.baseUrl],
    ['key', facts.owner?.key ?? keyElsewhere(facts)],
    ['models', `${facts.available} can be called now: ${able(facts)}`],
    ['local', localModels(facts.local)],
  ])
  const places = rowsOf([
    ['listening on', facts.listen],
    ['console', facts.console],
    ['sign in', facts.owner?.signIn],
    ['docs', facts.docs],
    ['database', facts.database],
    ['data', facts.dataDir],
    ['configuration', facts.configFile ?? 'no weir.yaml: defaults and environment'],
    ['catalog', `${plural(facts.catalog.models, 'model')}, prices of ${facts.catalog.date}`],
    ['not reachable', namesWith(facts, ['not-found'])],
    ['disabled', namesWith(facts, ['disabled'])],
    ['add more', additions(facts)],
  ])
  return [
    `weir ${facts.version}${facts.commit === null ? '' : ` (${facts.commit.slice(0, 8)})`} is ready`,
    '',
    ...works,
    '',
    ...(facts.owner ? [firstRunLine(facts.owner), ''] : []),
    `  ${curlLine(facts)}`,
    '',
    ...places,
  ].join('\n')
}

function keyElsewhere({ ownerFile }: StartFacts): string {
  return ownerFile === undefined
    ? `yours; weir keys create --account ${ownerEmail} makes another`
    : `of ${ownerEmail}, with its sign-in link: in ${ownerFile}, which its user alone can read`
}

function firstRunLine({ email, creditUsd }: OwnerKey): string {
  return `  First run: the account ${email} was created with ${creditUsd} USD of credit, and its key is shown this once. Try it:`
}

function rowsOf(rows: readonly (readonly [string, string | undefined])[]): string[] {
  return rows.flatMap(([name, value]) =>
    value === undefined ? [] : [`  ${name.padEnd(14)} ${wrapText(value)}`],
  )
}

/** Providers that can answer: the operator's first, the simulator last. */
function able(facts: StartFacts): string {
  const names = [namesWith(facts, ['key', 'found']), namesWith(facts, ['builtin'])]
  return names.filter((each) => each !== undefined).join(', ')
}

function namesWith(facts: StartFacts, standings: readonly ProviderStanding[]): string | undefined {
  const found = facts.providers.filter(({ standing }) => standings.includes(standing))
  if (found.length === 0) return undefined
  return found.map(({ id, models }) => (models ? `${id} (${models})` : id)).join(', ')
}

/** How many models of local servers are named. */
const localNamed = 3

function localModels(ids: readonly string[]): string | undefined {
  if (ids.length === 0) return undefined
  const more = ids.length - localNamed
  return `${ids.slice(0, localNamed).join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** The providers most people have a key for, named in one line for all others. */
const known = ['openai', 'anthropic', 'gemini']

function additions({ providers }: StartFacts): string | undefined {
  const without = providers.filter(({ standing }) => standing === 'no-key').map(({ id }) => id)
  if (without.length === 0) return undefined
  const named = [
    ...known.filter((id) => without.includes(id)),
    ...without.filter((id) => !known.includes(id)),
  ]
  const more = named.length - known.length
  const rest = more > 0 ? ` and ${more} more` : ''
  return `keys of ${named.slice(0, known.length).join(', ')}${rest}: weir doctor names them`
}

const margin = `  ${' '.repeat(15)}`
const lineWidth = 100

/** Breaks a long list at its commas, so that a terminal does not break it inside names. */
function wrapText(text: string): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + word.length > lineWidth - margin.length) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join(`\n${margin}`)
}

/** One line for a POSIX shell: with the key on the first run, later with a variable. */
function curlLine({ baseUrl, owner, tryModel }: StartFacts): string {
  const body = JSON.stringify({
    model: tryModel,
    messages: [{ role: 'user', content: 'Hello, river.' }],
  })
  const bearer = owner ? `'Authorization: Bearer ${owner.key}'` : '"Authorization: Bearer $WEIR_API_KEY"'
  const headers = `-H ${bearer} -H 'Content-Type: application/json'`
  return `curl ${baseUrl}/chat/completions ${headers} -d '${body}'`
}

/** The facts as JSON, for `weir serve --json`. */
export function startFactsJson(facts: StartFacts) {
  return {
    version: facts.version,
    commit: facts.commit,
    listen: facts.listen,
    base_url: facts.baseUrl,
    console: facts.console,
    docs: facts.docs,
    data_dir: facts.dataDir,
    config_file: facts.configFile ?? null,
    providers: facts.providers.map(({ id, standing, models }) => ({ id, standing, models: models ?? null })),
    available: facts.available,
    local: facts.local,
    try: facts.tryModel,
    catalog: facts.catalog,
    owner: facts.owner
      ? {
          id: facts.owner.account,
          email: facts.owner.email,
          key: facts.owner.key,
          credit_usd: facts.owner.creditUsd,
          sign_in: facts.owner.signIn,
        }
      : null,
    owner_file: facts.ownerFile ?? null,
  }
}

// The facts for the start-up banner, from the configuration and the local servers that were found.

/** The facts of a start; `port` is the actual port. */
export function startFacts(
  config: Config,
  port: number,
  live: Live,
  owner: OwnerKey | undefined,
): Omit<StartFacts, 'dataDir' | 'database' | 'configFile' | 'ownerFile'> {
  const baseUrl = baseUrlOf(config.server.host, port)
  const local = localChats(live)
  return {
    version,
    commit,
    listen: listenAddress(config.server.host, port),
    baseUrl,
    console: `${config.server.public_url ?? consoleOrigin(config.server.host, port)}/console`,
    docs: baseUrl.replace(/\/v1$/, '/docs'),
    providers: providerFacts(config, live),
    available: live.catalog.count(answering(live)),
    local,
    catalog: { date: live.catalog.date, models: live.catalog.count() },
    tryModel: local[0] ?? 'sim/echo',
    owner,
  }
}

/** Chat models of the local servers that were found. */
function localChats({ catalog, servers }: Live): string[] {
  return servers
    .filter(({ models }) => models.length > 0)
    .flatMap(({ id }) => catalog.list({ provider: id }))
    .filter(({ outputModalities }) => outputModalities.includes('text'))
    .map(({ id }) => id)
}

function providerFacts(config: Config, { providers, servers }: Live): ProviderFact[] {
  const found = new Map(servers.map((server) => [server.id, server.models.length]))
  const ids = [...new Set([...providers.keys(), ...rows.filter(needsKey).map(({ id }) => id)])]
  return ids.map((id): ProviderFact => {
    const provider = providers.get(id)
    const models = found.get(id)
    if (config.providers[id]?.disabled) return { id, standing: 'disabled' }
    if (provider?.transport === 'builtin') return { id, standing: 'builtin' }
    if (models !== undefined) return { id, standing: models > 0 ? 'found' : 'not-found', models }
    if (provider?.keys[0] === undefined && provider !== undefined) return { id, standing: 'found' }
    return { id, standing: provider ? 'key' : 'no-key' }
  })
}

function needsKey(row: (typeof rows)[number]): boolean {
  return row.auth.kind !== 'none' && !row.local
}
