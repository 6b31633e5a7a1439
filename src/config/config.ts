// Every setting: this is the entrance.

import { existsSync, readFileSync } from 'node:fs'
import { providers } from '../providers/registry.ts'
import { type ConfigInputs, type LoadedConfig, loadFrom } from './load.ts'

export { signUpPolicy } from './accounts.ts'
export { printedOrigin } from './read/draft.ts'
export type { Environment } from './read/environment.ts'
import { renderFaults } from './check/faults.ts'
import { type ShownSetting, shownSettings } from './show.ts'
import type { Config } from './schema.ts'

export { renderFaults } from './check/faults.ts'
export type { ConfigInputs, LoadedConfig } from './load.ts'
export { reasonOf } from './read/secrets.ts'
export type { Config } from './schema.ts'
export { type Setting, settingAt, settings } from './settings.ts'
export { renderSettings, secretsOf, type ShownSetting, shownSettings } from './show.ts'

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
 * The configuration: flags over environment over weir.yaml over defaults, with the origin of every value, or all
 * faults at once. Pure but for `readFile` and `exists`. `providers` are the rows of the registry unless a test says
 * otherwise, and `exists` asks the file system.
 */
export function loadConfig(
  inputs: Omit<ConfigInputs, 'providers' | 'exists'> & Partial<Pick<ConfigInputs, 'providers' | 'exists'>>,
): LoadedConfig {
  return loadFrom({ providers, exists: existsSync, ...inputs })
}

/** A configuration that is read again: what it says for display, and what it says now. */
export interface RereadConfig {
  /** Of what is in force. */
  readonly settings: () => { readonly file: string | null; readonly settings: ShownSetting[] }
  readonly source: () =>
    | {
        readonly kind: 'loaded'
        readonly config: Config
        readonly settings: readonly ShownSetting[]
        /** To be called when it is in force: it is what is shown from then on. */
        readonly accept: () => void
      }
    | { readonly kind: 'faulty'; readonly faults: string }
}

/** Reads again what `first` was read from: the same flags and environment, and the file as it is then. */
export function rereadConfig(
  first: LoadedConfig & { kind: 'loaded' },
  inputs: Pick<ConfigInputs, 'flags' | 'env' | 'cwd'>,
): RereadConfig {
  let last = first
  return {
    settings: () => ({ file: last.file ?? null, settings: shownSettings(last) }),
    source() {
      const read = loadConfig({ ...inputs, readFile: readTextFile })
      if (read.kind === 'faulty') return { kind: 'faulty', faults: renderFaults(read.faults) }
      const accept = () => void (last = read)
      return { kind: 'loaded', config: read.config, settings: shownSettings(read), accept }
    },
  }
}
