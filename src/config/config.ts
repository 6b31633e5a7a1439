// Every setting: this is the entrance.

import { existsSync, readFileSync } from 'node:fs'
import { providers } from '../providers/registry.ts'
import { type ConfigInputs, type LoadedConfig, loadFrom } from './load.ts'

export { newcomerAllowances, signInWays, signUpPolicy } from './accounts.ts'
export { type ConfigFault, type Origin, printedOrigin } from './read/draft.ts'
export {
  byId,
  changeable,
  changeTree,
  fixed,
  isChangeable,
  isKeepable,
  isSecretLeaf,
  type KeptSettings,
  leavesOf,
} from './read/kept.ts'
export type { Environment } from './read/environment.ts'
import type { ConfigFault } from './read/draft.ts'
import type { KeptSettings } from './read/kept.ts'

export { renderFaults } from './check.ts'
export { type ConfigInputs, type LoadedConfig, serviceFile } from './load.ts'
export { reasonOf } from './read/environment.ts'
export type { Config } from './schema.ts'
export { environmentName, type Setting, settingAt, settings } from './settings.ts'
export { serverAt, storePlace } from './schema.ts'
export { renderSettings, secretsOf, type ShownSetting, shownSettings, showValue } from './load.ts'

/** The text of a file; undefined if there is none. Throws if it exists but cannot be read. */
export function readTextFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch (thrown) {
    const code = thrown instanceof Error && 'code' in thrown ? thrown.code : undefined
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw thrown
  }
}

/**
 * The configuration: flags over environment over weir.yaml over kept settings over defaults, with the origin of every value, or all
 * faults at once. Pure but for `readFile` and `exists`. `providers` are the rows of the registry unless a test says
 * otherwise, and `exists` asks the file system.
 */
export function loadConfig(
  inputs: Omit<ConfigInputs, 'providers' | 'exists'> & Partial<Pick<ConfigInputs, 'providers' | 'exists'>>,
): LoadedConfig {
  return loadFrom({
    providers,
    exists: existsSync,
    packaged: process.execPath === '/usr/bin/weir',
    ...inputs,
  })
}

type LoadedWhole = LoadedConfig & { readonly kind: 'loaded' }

/** A configuration that is read again, and what of it is in force. */
export interface RereadConfig {
  /** What is in force. */
  readonly inForce: () => LoadedWhole
  /** The revision of the kept settings in force; 0 before any. */
  readonly revision: () => number
  /**
   * Reads it with these kept settings: `files` as they are now, or as they were read for what is in force. `accept` is to
   * be called when it is in force.
   */
  readonly read: (
    kept: KeptSettings,
    files: 'now' | 'as_before',
  ) =>
    | { readonly kind: 'loaded'; readonly loaded: LoadedWhole; readonly accept: () => void }
    | { readonly kind: 'faulty'; readonly faults: readonly ConfigFault[] }
}

/** Reads again what `first` was read from: the same flags and environment. */
export function rereadConfig(
  first: LoadedWhole,
  inputs: Pick<ConfigInputs, 'flags' | 'env' | 'cwd'>,
): RereadConfig {
  let last = first
  let revision = 0
  return {
    inForce: () => last,
    revision: () => revision,
    read(kept, files) {
      const readFile = (path: string) => (last.files.has(path) ? last.files.get(path) : readTextFile(path))
      const loaded = loadConfig({
        ...inputs,
        kept,
        readFile: files === 'now' ? readTextFile : readFile,
      })
      if (loaded.kind === 'faulty') return { kind: 'faulty', faults: loaded.faults }
      const accept = () => {
        last = loaded
        revision = kept.revision
      }
      return { kind: 'loaded', loaded, accept }
    },
  }
}
