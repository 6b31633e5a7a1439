// Loads one checked configuration from flags, environment, weir.yaml and defaults, or reports all faults at once.

import { basename, dirname, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import { checkTogether, noteIssues } from './check.ts'
import {
  type ConfigFault,
  type ConfigWarning,
  Draft,
  isTree,
  type Origin,
  type Path,
  printedOrigin,
  printPath,
  takeOldNames,
} from './read/draft.ts'
import {
  coerceText,
  type Environment,
  type KnownProvider,
  maskSecret,
  type ReadFile,
  readProviderKeys,
  readRegions,
  readVariables,
  reasonOf,
  resolveSecrets,
  writtenPath,
} from './read/environment.ts'
import { checkKept, type KeptSettings, readKept, withIdsOfKept } from './read/kept.ts'
import { type Config, configSchema } from './schema.ts'
import { environmentName, type Setting, settingAt, settings } from './settings.ts'

export interface ConfigInputs {
  /** By the path of the setting, as typed; `config` names the file. Undefined where the flag was not given. */
  readonly flags: Readonly<Record<string, string | undefined>>
  readonly env: Environment
  /** What relative paths are relative to, wherever they are written. */
  readonly cwd: string
  readonly readFile: ReadFile
  readonly exists: (path: string) => boolean
  /** Whether a package of the system put the program where it is. */
  readonly packaged?: boolean
  readonly providers: readonly KnownProvider[]
  /** What operators have changed by the API or in the console. */
  readonly kept?: KeptSettings | undefined
}

export type LoadedConfig =
  | {
      readonly kind: 'loaded'
      readonly config: Config
      readonly origins: Origins
      readonly warnings: readonly ConfigWarning[]
      /** The absolute path of the configuration file; undefined without one. */
      readonly file: string | undefined
      /** The texts that were read, by path; undefined for a file that was not there. */
      readonly files: ReadonlyMap<string, string | undefined>
    }
  | {
      readonly kind: 'faulty'
      readonly faults: readonly ConfigFault[]
      readonly warnings: readonly ConfigWarning[]
    }

/** Tells where the value of a setting came from. */
export type Origins = (path: Path) => Origin

/**
 * Loads the configuration: flags over environment over file over what is kept over defaults. Pure but for `readFile` and
 * `exists`.
 * Every fault of every source is in the answer, not only the first.
 */
export function loadFrom(given: ConfigInputs): LoadedConfig {
  const files = new Map<string, string | undefined>()
  const draft = new Draft()
  const service = serviceOf(draft, given)
  const inputs = { ...given, ...service, readFile: readAndNote(given.readFile, files) }
  const { flags, env, providers, kept } = inputs
  const file = readConfigFile(draft, inputs)
  if (service && draft.get(['data_dir']) === undefined) draft.tree['data_dir'] = serviceData
  takeOldNames(draft)
  const readFile: ReadFile = (path) => inputs.readFile(writtenPath(path, inputs))
  readVariables(draft, env, providers, readFile)
  readFlags(draft, flags)
  if (kept !== undefined) readKept(draft, kept)
  readProviderKeys(draft, env, providers, readFile)
  readRegions(draft, env, providers)
  resolveSecrets(draft, readFile)
  expandDataDir(draft, inputs)
  checkTogether(draft, providers)
  if (kept !== undefined) checkKept(draft)
  // Compiling the schema takes longer than checking one configuration with it.
  const parsed = configSchema.safeParse(draft.tree, { jitless: true })
  if (!parsed.success) noteIssues(draft, parsed.error.issues)
  if (!parsed.success || draft.faults.length > 0) {
    return {
      kind: 'faulty',
      faults: withIdsOfKept(draft, withoutRepeats(draft.faults)),
      warnings: draft.warnings,
    }
  }
  const { ca } = parsed.data.store
  return {
    kind: 'loaded',
    config: {
      ...parsed.data,
      data_dir: resolve(inputs.cwd, parsed.data.data_dir),
      store: { ...parsed.data.store, ...(ca === undefined ? {} : { ca: resolve(inputs.cwd, ca) }) },
    },
    origins: (path) => draft.valueOrigin(path),
    warnings: draft.warnings,
    file,
    files,
  }
}

/** A reader that notes the texts it has read. */
function readAndNote(readFile: ReadFile, files: Map<string, string | undefined>): ReadFile {
  return (path) => {
    const text = readFile(path)
    files.set(path, text)
    return text
  }
}

/** Where the service of a package has its configuration, its variables, and its data unless that says otherwise. */
export const serviceFile = '/etc/weir/weir.yaml'
const serviceVariables = '/etc/weir/weir.env'
const serviceData = '/var/lib/weir'

/**
 * The folder and the variables of the service of this machine, where a command is about it: nothing names another
 * configuration or database, none lies in the working directory, and the service has one. A file that is not for this
 * user's eyes is passed over, with a warning.
 */
function serviceOf(
  draft: Draft,
  { flags, env, cwd, readFile, exists, packaged }: ConfigInputs,
): Pick<ConfigInputs, 'cwd' | 'env'> | undefined {
  if (!packaged || flags['config'] || flags['data_dir'] || env['WEIR_CONFIG'] || env['WEIR_DATA_DIR'])
    return undefined
  if ([usualFile, mistakenFile, 'weir-data'].some((name) => exists(resolve(cwd, name)))) return undefined
  const read = (path: string) => {
    try {
      return readFile(path)
    } catch (thrown) {
      draft.warn(path, `is not read: ${reasonOf(thrown)}`)
      return undefined
    }
  }
  if (read(serviceFile) === undefined) return undefined
  return { cwd: dirname(serviceFile), env: { ...parseEnv(read(serviceVariables) ?? ''), ...env } }
}

const usualFile = 'weir.yaml'
const mistakenFile = 'weir.yml'

/** Reads the file that the flag or the environment names, or weir.yaml where there is one. */
function readConfigFile(draft: Draft, inputs: ConfigInputs): string | undefined {
  const { flags, env, readFile } = inputs
  const named = flags['config'] || env['WEIR_CONFIG'] || undefined
  const fault = (problem: string) =>
    draft.faults.push({ path: named ?? usualFile, problem, nearest: undefined, origin: undefined })
  try {
    const file = writtenPath(named ?? usualFile, inputs)
    const text = readFile(file)
    if (text !== undefined) {
      readYaml(draft, basename(file), text, env)
      return file
    }
    if (named !== undefined) fault('does not exist')
    else if (inputs.exists(writtenPath(mistakenFile, inputs)))
      draft.warn(mistakenFile, `is not read: name it ${usualFile}, or give it with --config`)
  } catch (thrown) {
    fault(`cannot be read: ${reasonOf(thrown)}`)
  }
  return undefined
}

/** Expands a data directory that begins with `~`. */
function expandDataDir(draft: Draft, inputs: ConfigInputs): void {
  const written = draft.get(['data_dir'])
  if (typeof written !== 'string' || !written.startsWith('~')) return
  try {
    const path = writtenPath(written, inputs)
    // Earlier versions made a folder named ~. With a new, empty directory all accounts would seem to be gone.
    const earlier = resolve(inputs.cwd, written)
    if (inputs.exists(earlier) && !inputs.exists(path)) {
      draft.fault(
        ['data_dir'],
        `${written} is ${path} now, and ${earlier} has the data: move it there, or write ./${written}`,
      )
    }
    draft.tree['data_dir'] = path
  } catch (thrown) {
    draft.fault(['data_dir'], reasonOf(thrown))
  }
}

function readFlags(draft: Draft, flags: Readonly<Record<string, string | undefined>>): void {
  for (const [name, text] of Object.entries(flags)) {
    const path = name.split('.')
    const setting = settingAt(path)
    if (text === undefined || !setting) continue
    draft.set(path, coerceText(setting.kind, text), {
      kind: 'flag',
      name: `--${path.at(-1)!.replaceAll('_', '-')}`,
    })
  }
}

/** A placeholder in a list is found where it is written and again by the schema's rules: once is enough. */
function withoutRepeats(faults: readonly ConfigFault[]): ConfigFault[] {
  return [...new Map(faults.map((fault) => [`${fault.path}\0${fault.problem}`, fault])).values()]
}

// weir.yaml: parsed with line numbers, `${NAME}` filled in from the environment.

type Variables = Readonly<Record<string, string | undefined>>

interface Reference {
  readonly written: string
  readonly name: string
  readonly fallback: string | undefined
}

// `$${NAME}` stands for the text `${NAME}` itself.
const reference = /(\$?)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}\n]*))?\}/g
const token = /\u{E000}(\d+)\u{E001}/gu

/** Reads the text of a configuration file into the draft; every fault is noted with its line. */
export function readYaml(draft: Draft, file: string, text: string, env: Variables): void {
  // References become inert tokens before YAML sees them: `{ api_key: ${KEY} }` is not YAML otherwise, and a value
  // with a colon or a quote in it must not be read as more than a value.
  const references: Reference[] = []
  const inert = text.replace(
    reference,
    (written, escape: string, name: string, fallback: string | undefined) => {
      if (escape) return written.slice(1)
      references.push({ written, name, fallback })
      return `\u{E000}${references.length - 1}\u{E001}`
    },
  )
  const lines = new LineCounter()
  const document = parseDocument(inert, { lineCounter: lines, merge: true, prettyErrors: false })
  if (document.errors.length > 0) {
    for (const error of document.errors) {
      const line = lines.linePos(error.pos[0]).line
      draft.faults.push({
        path: file,
        problem: `is not YAML: ${error.message}`,
        nearest: undefined,
        origin: { kind: 'file', file, line },
      })
    }
    return
  }
  const root: unknown = document.toJS()
  if (root === null || root === undefined) return
  if (!isTree(root)) {
    draft.faults.push({
      path: file,
      problem: 'must be a mapping of settings',
      nearest: undefined,
      origin: undefined,
    })
    return
  }
  markLines(draft, file, lines, document.contents, [])
  Object.assign(draft.tree, expandedTree({ draft, env, references }, root, []))
}

function markLines(draft: Draft, file: string, lines: LineCounter, node: Node | null, path: Path): void {
  if (isMap(node)) {
    for (const { key, value } of node.items) {
      if (!isScalar(key)) continue
      const here = [...path, String(key.value)]
      draft.mark(here, { kind: 'file', file, line: key.range ? lines.linePos(key.range[0]).line : undefined })
      if (isMap(value) || isSeq(value)) markLines(draft, file, lines, value, here)
    }
  } else if (isSeq(node)) {
    node.items.forEach((item, at) => {
      if (!isMap(item) && !isSeq(item) && !isScalar(item) && !isAlias(item)) return
      const here = [...path, at]
      draft.mark(here, {
        kind: 'file',
        file,
        line: item.range ? lines.linePos(item.range[0]).line : undefined,
      })
      markLines(draft, file, lines, item, here)
    })
  }
}

interface Expansion {
  readonly draft: Draft
  readonly env: Variables
  readonly references: readonly Reference[]
}

/** A value whose variable is not set: the setting counts as absent. */
const absent = Symbol('absent')

function expandedTree(expansion: Expansion, tree: object, path: Path): Record<string, unknown> {
  const result: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(tree)) {
    if (key === '__proto__') {
      expansion.draft.fault([...path, key], 'unknown key')
      continue
    }
    const filled = expandValue(expansion, value, [...path, key])
    if (filled !== absent) result[key] = filled
  }
  return result
}

function expandValue(expansion: Expansion, value: unknown, path: Path): unknown {
  if (typeof value === 'string') return expandedText(expansion, value, path)
  if (Array.isArray(value)) {
    return value
      .map((item, at) => expandValue(expansion, item, [...path, at]))
      .filter((item) => item !== absent)
  }
  // An empty section (`providers:` with everything commented out) is a section without settings.
  if (value === null) return absent
  return isTree(value) ? expandedTree(expansion, value, path) : value
}

function expandedText({ draft, env, references }: Expansion, text: string, path: Path): unknown {
  if (!text.includes('\u{E000}')) return text
  const unset: string[] = []
  const filled = text.replace(token, (_, index: string) => {
    const { name, fallback } = references[Number(index)]!
    const value = env[name] || fallback
    if (value === undefined) unset.push(name)
    return value ?? ''
  })
  if (unset.length === 0) {
    const setting = settingAt(path.map(String))
    // A list of keys can be written as one here: what fills in a key is that key, commas and all.
    return setting && setting.kind !== 'keys' ? coerceText(setting.kind, filled) : filled
  }
  if (text.replace(token, '') !== '') {
    draft.fault(path, `names the environment variable ${unset.join(', ')}, which is not set`)
  } else {
    draft.warn(
      printPath(path),
      `names the environment variable ${unset.join(', ')}, which is not set: taken as not given`,
    )
    draft.unmark(path)
  }
  return absent
}

// The configuration as people and scripts read it: every setting, its value with secrets masked, its origin.

export interface ShownSetting {
  readonly path: string
  /** A secret is masked; null where a setting without a default is not set. */
  readonly value: unknown
  readonly origin: string
  readonly env: string
}

/** Every setting of a loaded configuration in the order of the schema, then the settings of each provider. */
export function shownSettings(loaded: LoadedConfig & { kind: 'loaded' }): ShownSetting[] {
  const [ofProviders, general] = [
    settings().filter(isOfProvider),
    settings().filter((setting) => !isOfProvider(setting)),
  ]
  const providers = Object.keys(loaded.config.providers).flatMap((id) =>
    ofProviders
      .map((setting) =>
        showSetting(
          loaded,
          setting,
          setting.path.map((part) => (part === '*' ? id : part)),
        ),
      )
      .filter(({ origin }) => origin !== 'default'),
  )
  return [...general.map((setting) => showSetting(loaded, setting, setting.path)), ...providers]
}

function isOfProvider(setting: Setting): boolean {
  return setting.path[1] === '*'
}

function showSetting(
  { config, origins }: LoadedConfig & { kind: 'loaded' },
  setting: Setting,
  path: readonly string[],
) {
  const value = valueAt(config, path)
  return {
    path: printPath(path),
    value: value === undefined ? null : showValue(setting, value),
    origin: printedOrigin(origins(path)),
    env: environmentName(path),
  }
}

/** The shown settings as aligned lines for a terminal. */
export function renderSettings(shown: readonly ShownSetting[]): string {
  const rows = shown.map(
    ({ path, value, origin }) => [path, value === null ? '-' : printedValue(value), origin] as const,
  )
  const width = (column: 0 | 1) => Math.min(48, Math.max(...rows.map((row) => row[column].length)))
  const [first, second] = [width(0), width(1)]
  return rows
    .map(([path, value, origin]) => `${path.padEnd(first)}  ${value.padEnd(second)}  ${origin}`)
    .join('\n')
}

/** Every secret of the configuration as plain text, for the log to recognise. */
export function secretsOf(config: Config): string[] {
  const ofProviders = Object.values(config.providers).flatMap(({ api_key, deployments, headers }) => [
    ...api_key,
    ...deployments.flatMap((deployment) => deployment.api_key),
    ...Object.values(headers),
  ])
  const others = settings().flatMap((setting) =>
    setting.secret && !isOfProvider(setting) ? textsIn(valueAt(config, setting.path)) : [],
  )
  const ofHooks = config.hooks.map((hook) => hook.secret)
  const inAddresses = [config.mail.smtp_url, config.store.url].map((address) => passwordIn(address ?? ''))
  return [...ofProviders, ...ofHooks, ...others, ...inAddresses]
}

function textsIn(value: unknown): string[] {
  return [value].flat().filter((text) => typeof text === 'string')
}

/** The password in an address, as servers are sent it; empty without one. */
function passwordIn(address: string): string {
  const written = URL.parse(address)?.password ?? ''
  try {
    return decodeURIComponent(written)
  } catch {
    return written
  }
}

function valueAt(config: Config, path: readonly string[]): unknown {
  let at: unknown = config
  for (const part of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, part) : undefined
  return at
}

/** The value of a setting as it may be shown: a secret is masked. */
export function showValue({ secret }: Pick<Setting, 'secret'>, value: unknown): unknown {
  return secret ? hideSecret(value) : value
}

function hideSecret(value: unknown): unknown {
  if (typeof value === 'string') return maskSecret(value)
  if (Array.isArray(value)) return value.map(hideSecret)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, hideSecret(inner)]))
  }
  return value
}

function printedValue(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
