// Changes the configuration of a gateway that runs: what can change at once does, the rest is named.

import { type Config, type RereadConfig, secretsOf, type ShownSetting } from '../../config/config.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { ConfigReload } from '../../http/parts.ts'
import type { ProcessLog } from '../../observe/log.ts'
import { type Live, liveOf } from './catalog.ts'

/** Sections and settings that calls read anew each time: those in flight go on with what they began with. */
const changeable: readonly string[] = [
  'providers',
  'models',
  'aliases',
  'catalog',
  'premium',
  'search',
  'mail',
  'timeouts',
  'stream',
  'rate_limits',
  'limits.attempts',
  'limits.tool_calls',
  'limits.requests_in_flight',
  'limits.requests_in_flight_per_account',
  'limits.upstream_body_bytes',
  'limits.upstream_stream_bytes',
  'limits.sse_event_bytes',
  'ledger.hold_default_output_tokens',
]
/** Of these sections, what is read at the start alone. */
const fixed: ReadonlySet<string> = new Set([
  'timeouts.shutdown_ms',
  'stream.total_buffer_bytes',
  'rate_limits.free_bytes_per_minute',
])

interface ReloadParts {
  readonly live: Live
  readonly source?: RereadConfig['source'] | undefined
  readonly log: ProcessLog
  /** Present where several processes serve, each with a configuration of its own. */
  readonly workers?: unknown
}

/**
 * Reads the configuration again. Nothing changes if it has a fault, which is thrown as `invalid_request` with all of
 * them, or if `dryRun`. Otherwise what can change does at once; a setting that needs a restart keeps its value.
 */
export function reloadConfig({ live, source, log, workers }: ReloadParts, dryRun: boolean): ConfigReload {
  if (source === undefined || workers !== undefined) {
    const message =
      'Several processes serve (server.workers), and each has read the configuration: restart the gateway.'
    throw new GatewayError('invalid_request', { message })
  }
  const read = source()
  if (read.kind === 'faulty') {
    const message = `The configuration has faults, and the one in force stays:\n${read.faults}`
    throw new GatewayError('invalid_request', { message, metadata: { faults: read.faults.split('\n') } })
  }
  const before = live.config
  const changes = changesBetween(before, read.config, read.settings)
  if (dryRun) return { applied: false, changes }
  if (changes.length === 0) {
    log.info('the configuration was read again: nothing has changed')
    return { applied: false, changes }
  }
  let next: Config = before
  for (const name of changeable) next = withSection(next, read.config, name.split('.'))
  for (const name of fixed) next = withSection(next, before, name.split('.'))
  const made = liveOf(next, live.servers, live.file)
  log.hide(secretsOf(next))
  Object.assign(live, made)
  read.accept()
  log.info('the configuration was read again', {
    changed: changes.filter(({ restart }) => !restart).map(({ setting }) => setting),
    at_the_next_start: changes.filter(({ restart }) => restart).map(({ setting }) => setting),
  })
  return { applied: true, changes }
}

/** The configuration with one section, or one setting of it, of another. */
function withSection(config: Config, from: Config, [name, inner]: readonly string[]): Config {
  const key = name as keyof Config
  if (inner === undefined) return { ...config, [key]: from[key] }
  return {
    ...config,
    [key]: { ...(config[key] as object), [inner]: Reflect.get(from[key] as object, inner) },
  }
}

function changesBetween(
  before: Config,
  after: Config,
  shown: readonly ShownSetting[],
): ConfigReload['changes'] {
  const settings = new Map(shown.map((setting) => [setting.path, setting]))
  return pathsOf(before, after).flatMap((path) => {
    const [old, now] = [valueAt(before, path), valueAt(after, path)]
    if (Bun.deepEquals(old, now)) return []
    const setting = path.join('.')
    const isNamed = settings.get(setting)
    // A value that is not shown as a setting of its own may hold a secret.
    return [{ setting, to: isNamed === undefined ? null : isNamed.value, restart: !isChangeable(setting) }]
  })
}

function isChangeable(setting: string): boolean {
  if (fixed.has(setting)) return false
  return changeable.some((name) => setting === name || setting.startsWith(`${name}.`))
}

/** The settings of both, two levels deep, and those of each provider. */
function pathsOf(before: Config, after: Config): readonly (readonly string[])[] {
  const keysIn = (path: readonly string[]) => [
    ...new Set([before, after].flatMap((config) => keysOf(valueAt(config, path)))),
  ]
  const below = (path: readonly string[], levels: number): readonly (readonly string[])[] => {
    const keys = levels === 0 ? [] : keysIn(path)
    return keys.length === 0 ? [path] : keys.flatMap((key) => below([...path, key], levels - 1))
  }
  return keysIn([]).flatMap((key) => below([key], key === 'models' || key === 'aliases' ? 0 : 2))
}

function keysOf(value: unknown): readonly string[] {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.keys(value) : []
}

function valueAt(config: Config, path: readonly string[]): unknown {
  let at: unknown = config
  for (const part of path) at = typeof at === 'object' && at !== null ? Reflect.get(at, part) : undefined
  return at
}
