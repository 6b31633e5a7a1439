// Settings from the environment: derived names, everyday names, `*_FILE`, and the key names providers' users know.

import { resolve } from 'node:path'
import { parse } from 'yaml'
import type { Provider } from '../../providers/provider.ts'
import { nearest } from '../../text/text.ts'
import { environmentName, replacedSettings, type Setting, type SettingKind, settings } from '../settings.ts'
import { type Draft, isTree, type Path } from './draft.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** What the loader must know of a provider: its id, its address if any, the variables its users keep its key in. */
export type KnownProvider = Pick<Provider, 'id' | 'auth' | 'baseUrl' | 'regional'>

/** Names that begin like settings but are read elsewhere: the configuration file itself, key and address of `weir chat`. */
const otherNames = new Set(['WEIR_CONFIG', 'WEIR_API_KEY', 'WEIR_URL'])

/** Kubernetes sets these for a service called `weir`; they are not settings. */
const serviceLink = /^WEIR_(SERVICE_|PORT_\d)/

/** Overlays every `WEIR_…` variable. An empty variable counts as unset. */
export function readVariables(
  draft: Draft,
  env: Environment,
  providers: readonly KnownProvider[],
  read: ReadFile,
): void {
  const ids = providerIds(draft, providers)
  const given = new Map<string, { name: string; value: string }>()
  for (const [name, value] of Object.entries(env).toSorted()) {
    if (!name.startsWith('WEIR_') || !value || otherNames.has(name) || serviceLink.test(name)) continue
    // The same cluster sets WEIR_PORT=tcp://10.0.0.1:8787.
    if (name === 'WEIR_PORT' && value.includes('://')) continue
    const direct = settingNamed(name, ids)
    const fromFile = direct ? undefined : secretNamed(name, ids)
    const found = direct ?? fromFile
    if (!found) {
      const old = Object.keys(replacedSettings).find((path) => environmentName(path.split('.')) === name)
      if (old !== undefined) {
        draft.faultOf({ kind: 'environment', name }, old.split('.'), `unknown key: ${replacedSettings[old]}`)
        continue
      }
      const close = nearest(name, variableNames(ids))
      draft.warn(name, `is not a setting and is ignored${close ? `; did you mean ${close}?` : ''}`)
      continue
    }
    const { path, setting } = found
    const before = given.get(path.join('.'))
    if (before && before.value !== value)
      draft.fault(path, `is set by ${before.name} and by ${name}: keep one of them`)
    given.set(path.join('.'), { name, value })
    const text = fromFile ? readSecretFile(draft, path, value, read) : value
    if (text === undefined) continue
    draft.set(path, coerceText(setting.kind, text), { kind: 'environment', name })
  }
}

/** Gives each regional provider that has a key and no address the address of the region that the environment names. */
export function readRegions(draft: Draft, env: Environment, providers: readonly KnownProvider[]): void {
  for (const { id, regional } of providers) {
    const name = regional?.env.find((each) => env[each])
    const region = name === undefined ? undefined : env[name]
    if (!regional || name === undefined || region === undefined || !/^[a-z0-9-]{1,40}$/.test(region)) continue
    const path = ['providers', id, 'base_url']
    if (draft.get(path) !== undefined || draft.get(['providers', id, 'api_key']) === undefined) continue
    draft.set(path, regional.template.replace('{region}', region), { kind: 'environment', name })
  }
}

/** Sets the key of each known provider that has none yet from its usual variable, such as `OPENAI_API_KEY`. */
export function readProviderKeys(
  draft: Draft,
  env: Environment,
  providers: readonly KnownProvider[],
  read: ReadFile,
): void {
  for (const { id, auth } of providers) {
    if (auth.kind === 'none' || draft.get(['providers', id, 'api_key']) !== undefined) continue
    const path = ['providers', id, 'api_key']
    for (const { source, text } of keySources(auth, env)) {
      const key = text(draft, path, read)
      if (!key) continue
      // These variables are shared with other programs, so a bad one is no reason not to start.
      const problem = secretProblem(key.trim())
      if (problem) draft.warn(source, `${problem}; it is not used, ${id} has no key`)
      else draft.set(path, key.trim(), { kind: 'environment', name: source })
      break
    }
  }
}

interface KeySource {
  /** The variable to name. */
  readonly source: string
  readonly text: (draft: Draft, path: Path, read: ReadFile) => string | undefined
}

/** The variables that a provider's key may be in, in order; those that are not set are left out. */
function keySources(auth: Exclude<KnownProvider['auth'], { kind: 'none' }>, env: Environment): KeySource[] {
  const inFile = (source: string): KeySource => ({
    source,
    text: (draft, path, read) => readSecretFile(draft, path, env[source]!, read),
  })
  const named = auth.env.flatMap((name): KeySource[] => [
    ...(env[name] ? [{ source: name, text: () => env[name] }] : []),
    ...(env[`${name}_FILE`] ? [inFile(`${name}_FILE`)] : []),
  ])
  if (auth.kind === 'google') return [...named, ...auth.files.filter((name) => env[name]).map(inFile)]
  if (auth.kind !== 'aws' || !auth.parts.every((name) => env[name])) return named
  const parts = [...auth.parts, ...auth.optional].flatMap((name) => env[name]?.trim() || [])
  return [...named, { source: auth.parts[0]!, text: () => parts.join(':') }]
}

interface Match {
  readonly path: readonly string[]
  readonly setting: Setting
}

function settingNamed(name: string, ids: readonly string[]): Match | undefined {
  const fixed = settings().find((setting) => setting.env === name || setting.aliases.includes(name))
  if (fixed) return { path: fixed.path, setting: fixed }
  if (!name.startsWith('WEIR_PROVIDERS_')) return undefined
  for (const setting of providerSettings()) {
    const id = ids.find((known) => environmentName(withId(setting, known)) === name)
    if (id) return { path: withId(setting, id), setting }
  }
  return undeclaredProvider(name)
}

/** `WEIR_PROVIDERS_LAB_BASE_URL` may declare a provider that nothing else names. */
function undeclaredProvider(name: string): Match | undefined {
  const matches = providerSettings().filter((setting) => name.endsWith(environmentTail(setting)))
  const setting = matches.toSorted((a, b) => b.env.length - a.env.length)[0]
  if (!setting) return undefined
  const id = name
    .slice('WEIR_PROVIDERS_'.length, -environmentTail(setting).length)
    .toLowerCase()
    .replaceAll('_', '-')
  return id ? { path: withId(setting, id), setting } : undefined
}

function secretNamed(name: string, ids: readonly string[]): Match | undefined {
  if (!name.endsWith('_FILE')) return undefined
  const match = settingNamed(name.slice(0, -'_FILE'.length), ids)
  return match?.setting.secret ? match : undefined
}

function variableNames(ids: readonly string[]): string[] {
  const fixed = settings().filter((setting) => !setting.path.includes('*'))
  return [
    ...fixed.flatMap((setting) => [setting.env, ...setting.aliases]),
    ...providerSettings().flatMap((setting) => ids.map((id) => environmentName(withId(setting, id)))),
    ...otherNames,
  ]
}

function providerSettings(): Setting[] {
  return settings().filter((setting) => setting.path[1] === '*')
}

function withId(setting: Setting, id: string): string[] {
  return setting.path.map((part) => (part === '*' ? id : part))
}

function environmentTail(setting: Setting): string {
  return environmentName(['', ...setting.path.slice(2)]).slice('WEIR_'.length)
}

function providerIds(draft: Draft, providers: readonly KnownProvider[]): string[] {
  const written: Path = ['providers']
  const declared = draft.get(written)
  return [...new Set([...providers.map(({ id }) => id), ...(isTree(declared) ? Object.keys(declared) : [])])]
}

// The process's environment, in a file of its own: it is needed before anything else is loaded.

/** The only place that reads the process environment; everything else is passed it. */
export function readEnvironment(): Readonly<Record<string, string | undefined>> {
  return process.env
}

// Text from the environment, the command line or a `${NAME}` as the value of a setting.

const truths: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  on: true,
  '1': true,
  false: false,
  no: false,
  off: false,
  '0': false,
}

/** Parses `text`; what cannot be parsed stays text, for the schema to report. */
export function coerceText(kind: SettingKind, text: string): unknown {
  switch (kind) {
    case 'text':
      return text
    case 'integer':
      return /^-?\d{1,15}$/.test(text.trim()) ? Number(text) : text
    case 'boolean':
      return truths[text.trim().toLowerCase()] ?? text
    case 'list':
    case 'keys':
      return text.trim().startsWith('[')
        ? structure(text)
        : text
            .split(',')
            .map((item) => item.trim())
            .filter(Boolean)
    case 'structure':
      return structure(text)
  }
}

function structure(text: string): unknown {
  try {
    return parse(text)
  } catch {
    return text
  }
}

// Paths as people write them: relative ones, and those that begin with ~, which only a shell would expand.

/** What written paths are relative to. */
interface Places {
  readonly cwd: string
  readonly env: Environment
}

/**
 * The absolute path that was written: `~` and `~/…` are in the home directory, anything else is relative to the working
 * directory. Throws an Error for `~name`, and for `~` if the environment names no home directory.
 */
export function writtenPath(written: string, { cwd, env }: Places): string {
  if (!written.startsWith('~')) return resolve(cwd, written)
  const [, name = '', rest = ''] = /^~([^/\\]*)[/\\]?(.*)$/s.exec(written) ?? []
  if (name !== '') {
    throw new Error(
      `~${name} is not expanded: write the whole path, or ./~${name} for a file of that name in the working directory`,
    )
  }
  const home = env['HOME'] || env['USERPROFILE']
  if (!home) throw new Error('the path begins with ~ and HOME is not set: write the whole path')
  return resolve(cwd, home, rest)
}

// Secrets in the configuration: `file:/path` is read, placeholders are refused, what is shown is masked.

/** The text of a file, undefined if there is none; throws if it cannot be read. */
export type ReadFile = (path: string) => string | undefined

/** The text of a secret's file without the line break editors leave at its end; undefined when it is of no use. */
export function readSecretFile(draft: Draft, path: Path, file: string, read: ReadFile): string | undefined {
  try {
    const text = read(file)?.trim()
    if (text) return text
    draft.fault(
      path,
      text === undefined
        ? `names the file ${file}, which does not exist`
        : `names the file ${file}, which is empty`,
    )
  } catch (thrown) {
    draft.fault(path, `names the file ${file}, which cannot be read: ${reasonOf(thrown)}`)
  }
  return undefined
}

/** Replaces `file:/path` by the file's text in every secret, and notes the secrets that cannot be real. */
export function resolveSecrets(draft: Draft, read: ReadFile): void {
  const providers = draft.get(['providers'])
  for (const id of isTree(providers) ? Object.keys(providers) : []) {
    resolveKeys(draft, ['providers', id, 'api_key'], read)
    const deployments = draft.get(['providers', id, 'deployments'])
    for (const at of Array.isArray(deployments) ? deployments.keys() : [])
      resolveKeys(draft, ['providers', id, 'deployments', at, 'api_key'], read)
    const headers = draft.get(['providers', id, 'headers'])
    for (const [name, value] of isTree(headers) ? Object.entries(headers) : []) {
      if (typeof value === 'string') replace(draft, ['providers', id, 'headers', name], value, read)
    }
  }
  const hooks = draft.get(['hooks'])
  for (const at of Array.isArray(hooks) ? hooks.keys() : []) {
    const path = ['hooks', at, 'secret']
    const written = draft.get(path)
    if (typeof written === 'string') replace(draft, path, written, read)
  }
  for (const { path, secret } of settings()) {
    if (!secret || path.includes('*')) continue
    const written = draft.get(path)
    if (typeof written === 'string') replace(draft, path, written, read)
    if (Array.isArray(written)) for (const at of written.keys()) replaceItem(draft, path, written, at, read)
  }
}

/** A key, or a list of keys. */
function resolveKeys(draft: Draft, path: Path, read: ReadFile): void {
  const keys = draft.get(path)
  if (typeof keys === 'string') replace(draft, path, keys, read)
  if (Array.isArray(keys)) for (const at of keys.keys()) replaceItem(draft, path, keys, at, read)
}

function replace(draft: Draft, path: Path, written: string, read: ReadFile): void {
  const text = fetchSecret(draft, path, written, read)
  const parent = draft.get(path.slice(0, -1))
  if (isTree(parent)) parent[path.at(-1)!] = text
}

function replaceItem(draft: Draft, path: Path, keys: unknown[], at: number, read: ReadFile): void {
  const written: unknown = keys[at]
  if (typeof written === 'string') keys[at] = fetchSecret(draft, [...path, at], written, read)
}

/** The secret itself. One that is of no use stays as it was written: its fault has been noted. */
function fetchSecret(draft: Draft, path: Path, written: string, read: ReadFile): string {
  const text = written.startsWith('file:')
    ? readSecretFile(draft, path, written.slice('file:'.length), read)
    : written
  if (text === undefined) return written
  // A header may hold spaces, and so may the secret of an OAuth client (RFC 6749, appendix A.2).
  const mayHoldSpaces = path[2] === 'headers' || path[2] === 'client_secret'
  const problem = mayHoldSpaces ? placeholderProblem(text) : secretProblem(text)
  if (problem) draft.fault(path, problem)
  return text
}

/** What is wrong with a key, without quoting it; undefined if nothing is. */
export function secretProblem(text: string): string | undefined {
  // The key of a service account is a JSON document, with the spaces and line breaks of one.
  if (!text.startsWith('{') && /[\s\p{Cc}]/u.test(text))
    return 'holds a space or a line break, which no key does'
  return placeholderProblem(text)
}

const placeholder =
  /^(change[-_ ]?(me|this|it)|replace[-_ ]?(me|this|it)|(your|insert)[-_ ].*|(sk-)?your[a-z_-]*key.*|placeholder|todo|(sk-)?[x*.…]{3,})$/i

export function placeholderProblem(text: string): string | undefined {
  const unfilled =
    placeholder.test(text) || text.includes('...') || text.includes('…') || /^<[^>]*>$/.test(text)
  return unfilled ? 'is a placeholder, not a secret: put the real one in, or leave it out' : undefined
}

/** A secret as it may be shown: its last four characters when it is long enough to spare them. */
export function maskSecret(secret: string): string {
  return secret.length >= 20 ? `****${secret.slice(-4)}` : '****'
}

/** The operating system's reason, without the path that the caller has named already. */
export function reasonOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return String(thrown)
  return 'code' in thrown && typeof thrown.code === 'string' ? thrown.code : thrown.message
}
