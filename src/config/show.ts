// The configuration as people and scripts read it: every setting, its value with secrets masked, its origin.

import { printedOrigin, printPath } from './read/draft.ts'
import type { LoadedConfig } from './load.ts'
import type { Config } from './schema.ts'
import { maskSecret } from './read/secrets.ts'
import { environmentName, type Setting, settings } from './settings.ts'

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
