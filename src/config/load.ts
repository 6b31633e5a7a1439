// Loads one checked configuration from flags, environment, weir.yaml and defaults, or reports all faults at once.

import { basename, dirname, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { checkTogether, noteIssues } from './check.ts'
import {
  type ConfigFault,
  type ConfigWarning,
  Draft,
  type Origin,
  type Path,
  takeOldNames,
} from './read/draft.ts'
import {
  coerceText,
  type Environment,
  type KnownProvider,
  readProviderKeys,
  readRegions,
  readVariables,
  writtenPath,
} from './read/environment.ts'
import { checkKept, type KeptSettings, readKept, withIdsOfKept } from './read/kept.ts'
import { type Config, configSchema } from './schema.ts'
import { type ReadFile, reasonOf, resolveSecrets } from './read/secrets.ts'
import { settingAt } from './settings.ts'
import { readYaml } from './read/yaml-file.ts'

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
