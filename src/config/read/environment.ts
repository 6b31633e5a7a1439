// Settings from the environment: derived names, everyday names, `*_FILE`, and the key names providers' users know.

import { resolve } from 'node:path'
import { parse } from 'yaml'
import type { Provider } from '../../providers/provider.ts'
import { nearest } from '../../text/nearest.ts'
import { environmentName, replacedSettings, type Setting, type SettingKind, settings } from '../settings.ts'
import { type Draft, isTree, type Path } from './draft.ts'
import { type ReadFile, readSecretFile, secretProblem } from './secrets.ts'

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
