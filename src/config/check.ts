// Rules that involve several settings. They check the draft, before it is validated, so that their faults are reported
// together with all others.

import { loopFrom } from '../catalog/route.ts'
import { nearest } from '../text/text.ts'
import { isLoopback } from './accounts.ts'
import { processorKeys } from './payments.ts'
import { type Draft, isTree, type ConfigFault, type Path, printedOrigin, printPath } from './read/draft.ts'
import type { KnownProvider } from './read/environment.ts'
import { storeFault } from './schema.ts'
import { settingAt, keysAt, replacedSettings, settings } from './settings.ts'
import type { z } from 'zod'

/** Notes every combination of settings that cannot work. */
export function checkTogether(draft: Draft, known: readonly KnownProvider[]): void {
  checkPublicUrl(draft)
  checkStore(draft)
  checkProviders(draft, known)
  checkModels(draft)
  checkSearch(draft)
  checkProcesses(draft)
  checkAccounts(draft)
  checkLogExport(draft)
  checkAlarms(draft)
  checkPayments(draft)
  const lease = numberAt(draft, ['ledger', 'lease_ms'])
  const checkpoint = numberAt(draft, ['stream', 'checkpoint_ms'])
  // A lease is renewed by checkpoints: shorter than a few of them, recovery would end calls that are alive.
  if (lease < 3 * checkpoint) {
    draft.fault(
      ['ledger', 'lease_ms'],
      `must be at least three times stream.checkpoint_ms (${3 * checkpoint})`,
    )
  }
}

function checkPublicUrl(draft: Draft): void {
  const url = draft.get(['server', 'public_url'])
  const added = typeof url === 'string' && /\/(v1|console)\/*$/.exec(URL.parse(url)?.pathname ?? '')?.[0]
  if (added) draft.warn('server.public_url', `ends in ${added}, which is added to it: leave it out`)
}

function checkProcesses(draft: Draft): void {
  const processes = draft.get(['server', 'processes'])
  if (!(Number(processes) > 1) || draft.get(['store', 'url']) !== undefined) return
  draft.fault(
    ['server', 'processes'],
    'must be 1 without store.url, as one process alone writes a database of SQLite: leave it at 1, or move to ' +
      'PostgreSQL (weir ledger move)',
  )
}

function checkStore(draft: Draft): void {
  const store = draft.get(['store'])
  if (!isTree(store)) return
  const fault = storeFault(store)
  if (fault) draft.fault(['store', fault.name], fault.problem)
}

function checkProviders(draft: Draft, known: readonly KnownProvider[]): void {
  const providers = draft.get(['providers'])
  const ids = known.map(({ id }) => id)
  for (const [id, settings] of isTree(providers) ? Object.entries(providers) : []) {
    if (!isTree(settings)) continue
    for (const [at, each] of (Array.isArray(settings['deployments'])
      ? settings['deployments']
      : []
    ).entries())
      if (isTree(each) && typeof each['base_url'] === 'string' && isOwnAddress(draft, each['base_url']))
        draft.fault(
          ['providers', id, 'deployments', at, 'base_url'],
          'is the address of this gateway: it would call itself',
        )
    if (typeof settings['base_url'] === 'string' && isOwnAddress(draft, settings['base_url'])) {
      draft.fault(['providers', id, 'base_url'], 'is the address of this gateway: it would call itself')
    }
    const operation = operationIn(settings['base_url'])
    if (operation !== undefined) {
      draft.warn(
        `providers.${id}.base_url`,
        `ends in ${operation}, which is added to it: give the address up to and including the version, such as https://host/v1`,
      )
    }
    const row = known.find((provider) => provider.id === id)
    const needed = row ? (row.baseUrl === '' ? ['base_url'] : []) : ['protocol', 'base_url']
    const missing = needed.filter(
      (key) => settings[key] === undefined && !isInEach(settings['deployments'], key),
    )
    // A key that lies in the environment for other programs is no sign that the provider is wanted here.
    const found = row && draft.valueOrigin(['providers', id, 'api_key']).kind === 'environment'
    if (missing.length === 0 || (found && Object.keys(settings).length === 1)) continue
    const reason = row ? 'has no address of its own' : 'is not a known provider'
    draft.fault(
      ['providers', id],
      `${reason}, so it needs ${missing.join(' and ')}`,
      row ? undefined : nearest(id, ids),
    )
  }
}

/** What the protocols append to a base URL; an address that has it already is called at …/messages/messages. */
function operationIn(address: unknown): string | undefined {
  if (typeof address !== 'string') return undefined
  const path = URL.parse(address)?.pathname ?? ''
  return /\/(chat\/completions|completions|responses|messages|embeddings|models|chat|api\/chat)\/*$/.exec(
    path,
  )?.[0]
}

function checkModels(draft: Draft): void {
  const models = draft.get(['models'])
  const first = new Map<unknown, number>()
  for (const [at, model] of (Array.isArray(models) ? models : []).entries()) {
    const id = isTree(model) ? model['id'] : undefined
    const before = first.get(id)
    if (typeof id !== 'string') continue
    if (before === undefined) first.set(id, at)
    else
      draft.warn(
        `models[${at}].id`,
        `${id} is declared twice: it overrides models[${before}], field by field`,
      )
  }
  checkRoutes(draft)
}

/** A route that leads back to itself comes to no model. An alias is a way of its own. */
function checkRoutes(draft: Draft): void {
  const models = draft.get(['models'])
  const aliases = draft.get(['aliases'])
  const ways = new Map<string, readonly string[]>()
  for (const [name, id] of isTree(aliases) ? Object.entries(aliases) : [])
    if (typeof id === 'string') ways.set(name, [id])
  const routes = (Array.isArray(models) ? models : []).flatMap((model, at) => {
    const route = isTree(model) ? model['route'] : undefined
    const to = isTree(route) ? route['to'] : undefined
    if (!isTree(model) || typeof model['id'] !== 'string' || !Array.isArray(to)) return []
    const members = to.map((member) => (isTree(member) ? member['model'] : member))
    ways.set(
      model['id'],
      members.filter((member) => typeof member === 'string'),
    )
    return [{ id: model['id'], at }]
  })
  const waysFrom = (id: string) => ways.get(id) ?? []
  for (const { id, at } of routes) {
    const loop = loopFrom(id, waysFrom)
    if (loop) draft.fault(['models', String(at), 'route', 'to'], `leads back to itself: ${loop.join(' → ')}`)
  }
  for (const name of isTree(aliases) ? Object.keys(aliases) : []) {
    const loop = loopFrom(name, waysFrom)
    if (loop && !routes.some(({ id }) => loop.includes(id)))
      draft.fault(['aliases', name], `leads back to itself: ${loop.join(' → ')}`)
  }
}

/** Whether each deployment of a provider says it. */
function isInEach(deployments: unknown, key: string): boolean {
  if (!Array.isArray(deployments) || deployments.length === 0) return false
  return deployments.every((each) => isTree(each) && each[key] !== undefined)
}

function checkSearch(draft: Draft): void {
  const backend = draft.get(['search', 'backend'])
  if (backend === 'searxng' && draft.get(['search', 'base_url']) === undefined) {
    draft.fault(['search', 'base_url'], 'is missing: searxng has no public address')
  }
  if (needsKey.has(String(backend)) && draft.get(['search', 'api_key']) === undefined) {
    draft.fault(['search', 'api_key'], `is missing: ${String(backend)} needs one`)
  }
}

function checkLogExport(draft: Draft): void {
  const path = ['log', 'export', 's3']
  const has = (name: string) => draft.get([...path, name]) !== undefined
  const names = ['endpoint', 'bucket', 'access_key', 'secret_key']
  if (!names.some(has)) return
  for (const name of names) if (!has(name)) draft.fault([...path, name], 'is missing: log.export.s3 needs it')
  if (draft.get(['log', 'export', 'webhook', 'url']) !== undefined)
    draft.fault(['log', 'export', 'webhook', 'url'], 'is one too many: log.export.s3 takes the rows')
}

function checkAlarms(draft: Draft): void {
  const mail = draft.get(['alarms', 'mail'])
  if (Array.isArray(mail) && mail.length > 0 && draft.get(['mail', 'smtp_url']) === undefined)
    draft.fault(['alarms', 'mail'], 'needs a mail server: mail.smtp_url')
}

function checkAccounts(draft: Draft): void {
  const text = (...path: string[]): string | undefined => {
    const value = draft.get(path)
    return typeof value === 'string' && value !== '' ? value : undefined
  }
  const reachable = !isLoopback(text('server', 'host') ?? '127.0.0.1') || text('server', 'public_url')
  const issuer = text('accounts', 'oidc', 'issuer')
  const proves = text('mail', 'smtp_url') ?? issuer
  const free = text('accounts', 'unverified') === 'allow'
  if (text('accounts', 'sign_up') === 'open' && reachable && !proves && !free) {
    draft.fault(
      ['accounts', 'sign_up'],
      'is open, and nothing proves an address: set mail.smtp_url or accounts.oidc, or say accounts.unverified: allow, ' +
        'which gives free credit to whoever asks',
    )
  }
  if (issuer !== undefined && !text('accounts', 'oidc', 'client_id'))
    draft.fault(['accounts', 'oidc', 'client_id'], 'is missing: the issuer knows this gateway by it')
  const { protocol, hostname } = URL.parse(issuer ?? '') ?? {}
  if (protocol === 'http:' && !isLoopback(hostname ?? ''))
    draft.fault(['accounts', 'oidc', 'issuer'], 'must begin with https://, but for one on this machine')
  const ways = draft.get(['accounts', 'sign_in'])
  if (Array.isArray(ways) && ways.length === 1 && ways[0] === 'oidc' && issuer === undefined)
    draft.fault(['accounts', 'sign_in'], 'is oidc alone, and there is no issuer: set accounts.oidc.issuer')
  if (text('mail', 'smtp_url') && !text('mail', 'from'))
    draft.fault(['mail', 'from'], 'is missing: mails need a sender')
}

function checkPayments(draft: Draft): void {
  const at = (...path: string[]) => draft.get(['payments', ...path])
  const keys = Object.entries(processorKeys)
  for (const [processor, [id, ...rest]] of keys) {
    const hasId = at(processor, id) !== undefined
    for (const secret of rest) {
      if (hasId === (at(processor, secret) !== undefined)) continue
      draft.fault(
        ['payments', processor, hasId ? secret : id],
        'is missing: an API key is an id and a secret',
      )
    }
    if (!hasId && at(processor, 'webhook_secret') !== undefined)
      draft.fault(['payments', processor, id], 'is missing: messages are checked against the API')
    warnWithoutMessages(draft, processor, id)
  }
  if (
    keys.some(([processor, [id]]) => at(processor, id) !== undefined) &&
    at('fx', 'inr_per_usd') === undefined &&
    !hasMembers(at('currencies'))
  )
    draft.fault(['payments', 'fx', 'inr_per_usd'], 'is missing: a top-up in rupees needs a rate')
  const apple = (name: string) => draft.get(['subscriptions', 'apple', name])
  if ((apple('bundle_id') === undefined) !== (apple('root_sha256') === undefined)) {
    const missing = apple('bundle_id') === undefined ? 'bundle_id' : 'root_sha256'
    draft.fault(
      ['subscriptions', 'apple', missing],
      'is missing: a notification is of an app, and has a root behind it',
    )
  }
  if (Number(at('min_inr') ?? 0) > Number(at('max_inr') ?? Infinity))
    draft.fault(['payments', 'max_inr'], 'is below payments.min_inr')
}

function hasMembers(value: unknown): boolean {
  return isTree(value) && Object.keys(value).length > 0
}

/** Top-ups are asked about; what happens to a payment later is known from messages alone. Test modes move no credit. */
function warnWithoutMessages(draft: Draft, processor: string, keyName: string): void {
  const key = draft.get(['payments', processor, keyName])
  const hasSecret = draft.get(['payments', processor, 'webhook_secret']) !== undefined
  if (hasSecret || typeof key !== 'string' || /^[a-z]+_test_/.test(key)) return
  draft.warn(
    `payments.${processor}.webhook_secret`,
    'is missing: no messages are taken, so refunds and disputes take no credit back',
  )
}

const needsKey: ReadonlySet<string> = new Set(['tavily', 'brave', 'exa'])

const thisMachine = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\]|0\.0\.0\.0|\[::\])$/

function isOwnAddress(draft: Draft, address: string): boolean {
  const url = URL.parse(address)
  if (!url) return false
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  if (port !== numberAt(draft, ['server', 'port'])) return false
  const host = draft.get(['server', 'host'])
  return thisMachine.test(url.hostname) || url.hostname === host
}

/** A number as it will be: the draft's, else the default. */
function numberAt(draft: Draft, path: readonly string[]): number {
  return Number(draft.get(path) ?? settingAt(path)?.fallback)
}

// Words the schema's faults for an operator, and prints them.

type Issue = z.core.$ZodIssue

/** Notes every issue of a parse as a fault; each unknown key is one. */
export function noteIssues(draft: Draft, issues: readonly Issue[], above: Path = []): void {
  for (const issue of issues) {
    const path = [...above, ...issue.path.filter((part) => typeof part !== 'symbol')]
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) {
        const instead = replacedSettings[printPath([...path, key])]
        if (instead === undefined) draft.fault([...path, key], 'unknown key', nearestKey(path, key))
        else draft.fault([...path, key], `unknown key: ${instead}`)
      }
      continue
    }
    const meant = issue.code === 'invalid_union' ? branchMeant(issue) : undefined
    if (meant) noteIssues(draft, meant, path)
    else draft.fault(path, problemOf(issue, draft.get(path), isSecret(path)))
  }
}

/** What is wrong with a value of the right type. */
const ofValue: ReadonlySet<string> = new Set(['custom', 'too_small', 'too_big'])

/**
 * The issues of the form that a value was most likely meant to have: the one that was understood the furthest, or whose
 * type it has.
 */
function branchMeant(issue: Issue & { code: 'invalid_union' }): Issue[] | undefined {
  const depth = (issues: Issue[]) =>
    Math.max(...issues.map(({ code, path }) => path.length + (code === 'unrecognized_keys' ? 1 : 0)))
  const deepest = issue.errors.toSorted((a, b) => depth(b) - depth(a))[0]
  if (deepest && depth(deepest) > 0) return deepest
  return issue.errors.find((issues) => issues.every(({ code }) => ofValue.has(code)))
}

/** A suggestion from the keys allowed there; otherwise from settings that end so (`port` means `server.port`). */
function nearestKey(path: Path, key: string): string | undefined {
  const beside = nearest(key, keysAt(path.map(String)))
  if (beside) return printPath([...path, beside])
  const ends = settings().filter((setting) => !setting.path.includes('*') && setting.path.length > 1)
  return ends.find((setting) => setting.path.at(-1) === key)?.path.join('.')
}

function problemOf(issue: Issue, value: unknown, secret: boolean): string {
  switch (issue.code) {
    case 'invalid_type':
      // A message of the schema's own says more than the type that was expected.
      if (!isGeneral(issue)) return `${absent(value)}${issue.message}${got(value, secret)}`
      return `${absent(value)}must be ${nouns[issue.expected] ?? issue.expected}${got(value, secret)}`
    case 'too_small':
      return `must be at least ${issue.minimum}${units[issue.origin] ?? ''}${got(value, secret)}`
    case 'too_big':
      return `must be at most ${issue.maximum}${units[issue.origin] ?? ''}${got(value, secret)}`
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}${got(value, secret)}`
    case 'invalid_union':
      return `${isGeneral(issue) ? 'is not of an allowed form' : issue.message}${got(value, secret)}`
    case 'invalid_key':
      return issue.issues[0]?.message ?? 'is not an allowed name'
    case 'invalid_format':
    case 'custom':
      return `${issue.message}${got(value, secret)}`
    default:
      return issue.message
  }
}

/** Whether a message is not of the schema, but the library's own. */
function isGeneral({ message }: Issue): boolean {
  return message.startsWith('Invalid input')
}

const nouns: Readonly<Record<string, string>> = {
  string: 'text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  object: 'a mapping',
  record: 'a mapping',
  array: 'a list',
}

const units: Readonly<Record<string, string>> = { string: ' characters', array: ' items' }

function absent(value: unknown): string {
  return value === undefined ? 'is missing; ' : ''
}

function got(value: unknown, secret: boolean): string {
  if (secret || value === undefined) return ''
  const text = withoutCredentials(JSON.stringify(value) ?? String(value))
  return `, not ${text.length > 60 ? `${text.slice(0, 57)}…` : text}`
}

/** Masks the user part and the query values of URLs: people write passwords there. */
function withoutCredentials(text: string): string {
  return text
    .replace(/"([a-z][a-z0-9+.-]*:\/\/)?[^"]*@/gi, '"$1****@')
    .replace(/([?&;][^=&#"]{1,64}=)[^&#"]+/g, '$1****')
    .replace(/#[^"]+/g, '#****')
}

/** Also a value where the section of a secret belongs: a key that was written beside its name. */
function isSecret(path: Path): boolean {
  return settings().some(
    ({ secret, path: known }) =>
      secret &&
      path.length > 0 &&
      known.every((part, at) => at >= path.length || part === '*' || part === String(path[at])),
  )
}

/** One line for each fault: where it is written, the setting, what is wrong, what was probably meant. */
export function renderFaults(faults: readonly ConfigFault[]): string {
  return faults
    .toSorted((a, b) => lineOf(a) - lineOf(b))
    .map(({ path, problem, nearest: meant, origin }) => {
      const place = origin && origin.kind !== 'default' ? `${printedOrigin(origin)}: ` : ''
      return `  ${place}${path}: ${problem}${meant ? `; did you mean ${meant}?` : ''}`
    })
    .join('\n')
}

/** In the order of the file; what is not in it comes first. */
function lineOf({ origin }: ConfigFault): number {
  return origin?.kind === 'file' ? (origin.line ?? 0) : 0
}
