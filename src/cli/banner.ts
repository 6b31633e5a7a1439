// What `weir serve` says when it is up: where it listens, who can answer, and on the first run the key to begin with.

/** How a provider stands at start. */
export type ProviderStanding =
  /** Answers inside this process. */
  | 'builtin'
  | 'key'
  | 'no-key'
  /** A server that needs no key, on this machine or named by the operator; found or not when it was asked. */
  | 'found'
  | 'not-found'
  | 'disabled'

export interface ProviderFact {
  readonly id: string
  readonly standing: ProviderStanding
  /** For a server found on this machine: how many models it lists. */
  readonly models?: number
}

/** The key of the owner account, known on the first run only. */
export interface OwnerKey {
  readonly account: string
  readonly email: string
  readonly key: string
  readonly creditUsd: string
}

export interface StartFacts {
  readonly version: string
  /** `127.0.0.1:8787`, with the port that was really taken. */
  readonly listen: string
  /** `http://127.0.0.1:8787/v1` */
  readonly baseUrl: string
  /** Addresses of the console and the documentation; undefined where there is none. */
  readonly console: string | undefined
  readonly docs: string | undefined
  readonly dataDir: string
  readonly configFile: string | undefined
  readonly providers: readonly ProviderFact[]
  readonly catalog: { readonly date: string; readonly models: number }
  /** A model that answers without any key, for the first try. */
  readonly tryModel: string
  readonly owner: OwnerKey | undefined
}

/** The address clients use: a wildcard host is reached by loopback, an IPv6 host stands in brackets. */
export function baseUrlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}/v1`
}

/** The banner as text, without a line break at its end. Pure: the same facts give the same text. */
export function renderBanner(facts: StartFacts): string {
  const rows: [string, string | undefined][] = [
    ['listening on', facts.listen],
    ['base URL', facts.baseUrl],
    ['console', facts.console],
    ['docs', facts.docs],
    ['data', facts.dataDir],
    ['configuration', facts.configFile ?? 'no weir.yaml: defaults and environment'],
    ['providers', providersWith(facts, ['key'], 'with a key') ?? 'none with a key yet'],
    ['', providersWith(facts, ['no-key'], 'without a key')],
    ['', providersWith(facts, ['builtin', 'found'], 'ready without one')],
    ['', providersWith(facts, ['not-found'], 'not reachable')],
    ['', providersWith(facts, ['disabled'], 'disabled')],
    ['catalog', `${facts.catalog.models} models, prices of ${facts.catalog.date}`],
  ]
  const lines = rows.flatMap(([name, value]) =>
    value === undefined ? [] : [`  ${name.padEnd(14)} ${value}`],
  )
  const text = [`weir ${facts.version}`, ...lines].join('\n')
  return facts.owner ? `${text}\n\n${renderOwner(facts, facts.owner)}` : text
}

function providersWith(
  facts: StartFacts,
  standings: readonly ProviderStanding[],
  words: string,
): string | undefined {
  const found = facts.providers.filter(({ standing }) => standings.includes(standing))
  if (found.length === 0) return undefined
  const names = found.map(({ id, models }) => (models === undefined ? id : `${id} (${models} models)`))
  return wrapped(`${words}: ${names.join(', ')}`)
}

const margin = `  ${' '.repeat(15)}`
const lineWidth = 100

/** Breaks a long list at its commas, so that a terminal does not break it at its names. */
function wrapped(text: string): string {
  const lines = ['']
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!
    if (line !== '' && line.length + word.length > lineWidth - margin.length) lines.push(word)
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`
  }
  return lines.join(`\n${margin}`)
}

function renderOwner(facts: StartFacts, owner: OwnerKey): string {
  return [
    `First run: the account ${owner.email} was created with ${owner.creditUsd} USD of credit. Its API key, shown this once:`,
    '',
    `  ${owner.key}`,
    '',
    'Try it:',
    '',
    `  ${curlLine(facts, owner.key)}`,
  ].join('\n')
}

/** One line for a POSIX shell that works as it is printed. */
function curlLine(facts: StartFacts, key: string): string {
  const body = JSON.stringify({
    model: facts.tryModel,
    messages: [{ role: 'user', content: 'Hello, river.' }],
  })
  const headers = `-H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json'`
  return `curl ${facts.baseUrl}/chat/completions ${headers} -d '${body}'`
}

/** The facts as JSON, for `weir serve --json`. */
export function startFactsJson(facts: StartFacts) {
  return {
    version: facts.version,
    listen: facts.listen,
    base_url: facts.baseUrl,
    console: facts.console ?? null,
    docs: facts.docs ?? null,
    data_dir: facts.dataDir,
    config_file: facts.configFile ?? null,
    providers: facts.providers.map(({ id, standing, models }) => ({ id, standing, models: models ?? null })),
    catalog: facts.catalog,
    owner: facts.owner
      ? {
          id: facts.owner.account,
          email: facts.owner.email,
          key: facts.owner.key,
          credit_usd: facts.owner.creditUsd,
        }
      : null,
  }
}
