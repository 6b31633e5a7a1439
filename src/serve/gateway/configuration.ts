// The configuration of a gateway that runs: read again from its files, and changed by the API or in the console. What can
// change at once does, the rest is named. Nothing changes if it has a fault; calls in flight keep what they began with.

import { ConsoleSettings, type OpenedSettings, type SettingsStore } from '../../accounts/console-settings.ts'
import { sealer } from '../../accounts/account.ts'
import {
  byId,
  changeable,
  changeTree,
  type Config,
  type ConfigFault,
  environmentName,
  fixed,
  isChangeable,
  isKeepable,
  isSecretLeaf,
  leavesOf,
  type LoadedConfig,
  type Origin,
  printedOrigin,
  type RereadConfig,
  renderFaults,
  secretsOf,
  settingAt,
  shownSettings,
  showValue,
} from '../../config/config.ts'
import { NearIds } from '../../catalog/catalog.ts'
import { suggestion } from '../../catalog/row.ts'
import { completionTokens, promptTokens } from '../../conversation/usage.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import type {
  ConfigChange,
  ConfigReload,
  KeptConfigurationView,
  SettingsTestView,
} from '../../http/admin/settings-answers.ts'
import type { ConfigurationService, HttpParts, WantedSettings, WantedTest } from '../../http/parts.ts'
import type { ProcessLog } from '../../observe/log.ts'
import { providers as registry } from '../../providers/registry.ts'
import type { Store } from '../../store/store.ts'
import { followCatalog, type Live, liveOf, replaceLive, unsoldModels } from './catalog.ts'
import { type TestedCall, testModel, testProvider } from './provider-test.ts'

interface ConfigurationParts {
  readonly live: Live
  readonly reread: RereadConfig
  readonly kept: ConsoleSettings
  readonly store: Pick<Store, 'catalogs'>
  readonly log: ProcessLog
  readonly clock: () => number
  readonly siblings?: HttpParts['siblings']
}

/** The settings that are kept in a store, their secrets sealed by the master key of the configuration. */
export function consoleSettingsOf(
  store: SettingsStore,
  { secrets }: Pick<Config, 'secrets'>,
): ConsoleSettings {
  const { master_key: keys } = secrets
  return new ConsoleSettings(store, keys.length === 0 ? undefined : sealer(keys), (tree) =>
    leavesOf(tree).filter(({ path }) => isSecretLeaf(path)),
  )
}

/** Kept settings cannot be joined with the file and the environment. The message has every fault. */
export class ConfigurationFaulty extends Error {}

/**
 * The configuration to start with: what was read, with what is kept. Throws ConfigurationFaulty where they do not fit
 * together; then the file, or `weir config undo`, mends it.
 */
export async function configAtStart(
  reread: RereadConfig,
  kept: ConsoleSettings,
  log: ProcessLog,
): Promise<Config> {
  const opened = await kept.latest()
  if (opened.row === undefined) return reread.inForce().config
  for (const path of opened.unreadable)
    log.warn('a key that is kept cannot be read: secrets.master_key has changed. Enter it again', {
      setting: path.join('.'),
    })
  const read = reread.read(opened, 'as_before')
  if (read.kind === 'faulty') {
    throw new ConfigurationFaulty(
      `bad configuration, with what was changed in the console (weir config undo takes the last change back):\n` +
        renderFaults(read.faults),
    )
  }
  read.accept()
  log.hide(secretsOf(read.loaded.config))
  return read.loaded.config
}

/** Everything that is read again or changed goes through here, one after the other. */
export class Configuration implements ConfigurationService {
  readonly #parts: ConfigurationParts
  #turn: Promise<unknown> = Promise.resolve()
  readonly #tests: TestLimit
  /** The latest change of somebody else that was looked at, whether or not it could be taken up. */
  #seen = 0

  constructor(parts: ConfigurationParts) {
    this.#parts = parts
    this.#tests = new TestLimit(parts.clock)
  }

  async reload(dryRun: boolean): Promise<ConfigReload> {
    const done = await this.readAgain(dryRun)
    if (!dryRun) await this.#parts.siblings?.reload()
    return done
  }

  /** The same in this process alone. */
  readAgain(dryRun: boolean): Promise<ConfigReload> {
    return this.#inTurn(async () => {
      const { reread, kept, log } = this.#parts
      const read = reread.read(await kept.latest(), 'now')
      if (read.kind === 'faulty') {
        const faults = renderFaults(read.faults)
        const message = `The configuration has faults, and the one in force stays:\n${faults}`
        throw new GatewayError('invalid_request', { message, metadata: { faults: faults.split('\n') } })
      }
      const changes = changesBetween(reread.inForce().config, read.loaded.config)
      if (dryRun) return { applied: false, changes }
      if (changes.length === 0) {
        log.info('the configuration was read again: nothing has changed')
        return { applied: false, changes }
      }
      this.#swap(this.#next(read.loaded.config), read.accept)
      log.info('the configuration was read again', {
        changed: changes.filter(({ restart }) => !restart).map(({ setting }) => setting),
        at_the_next_start: changes.filter(({ restart }) => restart).map(({ setting }) => setting),
      })
      return { applied: true, changes }
    })
  }

  follow(): Promise<boolean> {
    return this.#inTurn(async () => {
      const { reread, kept, log, live, store } = this.#parts
      if (store.catalogs && (await followCatalog(live, store.catalogs))) {
        const { file } = live
        log.info('another catalog was imported', { date: file.date, models: file.models.length })
      }
      // Twice a second: nothing is read or decrypted where nothing has changed.
      const revision = await kept.revision()
      if (revision === reread.revision() || revision === this.#seen) return false
      const opened = await kept.latest()
      this.#seen = opened.revision
      const read = reread.read(opened, 'as_before')
      if (read.kind === 'faulty') throw faulty(read.faults)
      const changes = changesBetween(reread.inForce().config, read.loaded.config)
      this.#swap(this.#next(read.loaded.config), read.accept)
      const facts = { revision: opened.revision, changed: namesOf(changes) }
      log.info('the configuration was changed elsewhere', facts)
      return true
    })
  }

  async show(): Promise<KeptConfigurationView> {
    const { live, reread, kept } = this.#parts
    const opened = await kept.latest()
    const { row } = opened
    return {
      revision: opened.revision,
      can_undo: row !== undefined && (row.before > 0 || row.settings !== '{}'),
      takes_keys: kept.takesSecrets,
      unreadable: opened.unreadable.map((path) => path.join('.')),
      ...viewOf(reread.inForce(), live),
      changed: row === undefined ? null : { at: new Date(row.at).toISOString(), operator: row.operator },
    }
  }

  preview(wanted: WantedSettings) {
    return this.#inTurn(async () => {
      const { opened, changes, warnings } = await this.#candidate(wanted)
      return { revision: opened.revision, changes, warnings }
    })
  }

  async test({ provider, model, proposed }: WantedTest): Promise<SettingsTestView> {
    const { live, log, clock } = this.#parts
    const tested = proposed === undefined ? live : (await this.#candidate(proposed)).made
    const subject = { config: tested.config, catalog: tested.catalog, file: tested.file, clock }
    if (provider !== undefined) requireProvider(tested.config, provider)
    else if (model !== undefined) tested.catalog.resolve(model)
    else throw new GatewayError('invalid_request', { message: 'Name a provider or a model.' })
    return this.#tests.run(async () => {
      // What is only proposed must not get into the log either.
      log.hide(secretsOf(tested.config))
      const { calls, leftOut } = await (provider === undefined
        ? testModel(subject, model!)
        : testProvider(subject, provider, model))
      const views = calls.map(testedCallView)
      return { ok: views.every(({ problem }) => problem === null), left_out: leftOut, calls: views }
    })
  }

  change(wanted: WantedSettings, operator: string) {
    return this.#inTurn(async () => {
      const candidate = await this.#candidate(wanted)
      const { opened, tree, changes, warnings } = candidate
      if (Bun.deepEquals(opened.tree, tree)) return { revision: opened.revision, changes, warnings }
      const act = actOf('config.change', opened.revision + 1, changes)
      const revision = await this.#parts.kept.keep(opened, tree, {
        ...act,
        operator,
        at: this.#parts.clock(),
      })
      this.#swap(candidate.made, candidate.accept)
      this.#parts.log.info('the configuration was changed', { revision, changed: namesOf(changes) })
      return { revision, changes, warnings }
    })
  }

  undo(expected: number | undefined, operator: string) {
    return this.#inTurn(async () => {
      const { reread, kept, log, clock } = this.#parts
      const present = await kept.latest()
      requireRevision(present, expected)
      const previous = await kept.previous()
      const read = reread.read({ revision: present.revision + 1, tree: previous.tree }, 'as_before')
      if (read.kind === 'faulty') throw faulty(read.faults)
      const changes = changesBetween(reread.inForce().config, read.loaded.config)
      const act = actOf('config.undo', present.revision + 1, changes)
      const made = this.#next(read.loaded.config)
      const revision = await kept.restore(present, previous, { ...act, operator, at: clock() })
      this.#swap(made, read.accept)
      log.info('a change of the configuration was taken back', { revision, changed: namesOf(changes) })
      return { revision, changes, warnings: [] }
    })
  }

  /** Checks a change against everything else: throws `configuration_changed`, or `invalid_request` with all faults. */
  async #candidate({ revision, settings }: WantedSettings) {
    const { reread, kept } = this.#parts
    const opened = await kept.latest()
    requireRevision(opened, revision)
    const present = reread.inForce()
    const { tree, faults } = changeTree(opened.tree, settings)
    const touched = leavesOf(byId(settings))
    const all = [
      ...faults,
      ...touched.flatMap(({ path, value }) => {
        const by = value === null ? undefined : setElsewhere(present, path)
        return by === undefined
          ? []
          : [{ path: path.join('.'), problem: `is set by ${by}, which wins: change it there` }]
      }),
      ...opened.unreadable
        .filter((path) => !touched.some((leaf) => leaf.path.every((part, at) => path[at] === part)))
        .map((path) => ({
          path: path.join('.'),
          problem:
            'cannot be read any more, as secrets.master_key has changed: enter it again, or take it out',
        })),
    ]
    const read = reread.read({ revision: opened.revision + 1, tree }, 'as_before')
    if (read.kind === 'faulty') throw faulty([...all, ...read.faults])
    if (all.length > 0) throw faulty(all)
    const changes = changesBetween(present.config, read.loaded.config)
    const made = this.#next(read.loaded.config)
    const known = new Set(present.warnings.map(({ name, problem }) => `${name} ${problem}`))
    const warnings = [...read.loaded.warnings, ...unsoldModels(read.loaded.config, made.catalog)]
      .filter(({ name, problem }) => !known.has(`${name} ${problem}`))
      .map(({ name, problem }) => ({ setting: name, problem }))
    return { opened, tree, changes, warnings, made, accept: read.accept }
  }

  /** What is in force with this configuration: of the rest, what needs a restart keeps its value. */
  #next(read: Config): Live {
    const { live } = this.#parts
    return liveOf(asStarted(live.config, read), live.servers, live.file)
  }

  #swap(made: Live, accept: () => void): void {
    const { live, log } = this.#parts
    log.hide(secretsOf(made.config))
    // Local servers may have come or gone since.
    replaceLive(live, made.servers === live.servers ? made : liveOf(made.config, live.servers, live.file))
    accept()
  }

  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(act)
    this.#turn = result.catch(() => undefined)
    return result
  }
}

/** The most tests in a minute, and at one time: each is a few real calls on the operator's bill. */
const testsPerMinute = 30
const testsAtOnce = 4

class TestLimit {
  readonly #clock: () => number
  #begun: readonly number[] = []
  #running = 0

  constructor(clock: () => number) {
    this.#clock = clock
  }

  /** Runs a test. Rejects with `rate_limit_exceeded` where there have been too many. */
  async run<T>(test: () => Promise<T>): Promise<T> {
    const now = this.#clock()
    this.#begun = this.#begun.filter((at) => at > now - 60_000 && at <= now)
    const [first] = this.#begun
    if (this.#begun.length >= testsPerMinute)
      throw tooManyTests(`${testsPerMinute} tests in a minute`, first! + 60_000 - now)
    if (this.#running >= testsAtOnce) throw tooManyTests(`${testsAtOnce} tests at one time`, 1_000)
    this.#begun = [...this.#begun, now]
    this.#running++
    try {
      return await test()
    } finally {
      this.#running--
    }
  }
}

function tooManyTests(most: string, retryAfterMs: number): GatewayError {
  const message = `There are at most ${most}: each is a real call that the provider bills.`
  return new GatewayError('rate_limit_exceeded', { message, retryAfterMs })
}

/** Throws `not_found` for a provider that neither the program nor the configuration knows. */
function requireProvider({ providers }: Config, id: string): void {
  if (Object.hasOwn(providers, id) || registry.some((row) => row.id === id)) return
  const near = new NearIds([...registry.map((row) => row.id), ...Object.keys(providers)])
  const message = `There is no provider ${JSON.stringify(id)}.${suggestion(near.nearest(id))}`
  throw new GatewayError('not_found', { message, param: 'provider' })
}

function testedCallView({
  outcome,
  model,
  upstream,
  key,
  region,
  ms,
  provider,
}: TestedCall): SettingsTestView['calls'][number] {
  const isAnswered = outcome.kind === 'answered'
  const usage = isAnswered ? outcome.usage : undefined
  const cost = isAnswered ? outcome.cost : undefined
  return {
    provider,
    model: model ?? null,
    upstream: upstream ?? null,
    key: key ?? null,
    region: region ?? null,
    latency_ms: ms ?? null,
    text: isAnswered ? outcome.text : null,
    tokens: usage === undefined ? null : { prompt: promptTokens(usage), completion: completionTokens(usage) },
    cost_usd: cost === undefined ? null : formatUsd(cost),
    problem: isAnswered ? null : outcome.problem,
    error: isAnswered ? null : outcome.detail,
  }
}

function requireRevision(opened: OpenedSettings, expected: number | undefined): void {
  if (expected === undefined || expected === opened.revision) return
  throw new GatewayError('configuration_changed', { metadata: { revision: opened.revision } })
}

function faulty(faults: readonly Pick<ConfigFault, 'path' | 'problem'>[]): GatewayError {
  const lines = faults.map((fault) => {
    const meant =
      'nearest' in fault && fault.nearest !== undefined ? `; did you mean ${String(fault.nearest)}?` : ''
    return { setting: fault.path, problem: `${fault.problem}${meant}` }
  })
  const listed = lines.map(({ setting, problem }) => `${setting}: ${problem}`).join('\n')
  return new GatewayError('invalid_request', {
    message: `Nothing was changed:\n${listed}`,
    param: 'settings',
    metadata: { faults: lines },
  })
}

/** Where a setting is said that cannot be changed here; undefined if it can. */
function setElsewhere({ config, origins }: LoadedConfig & { kind: 'loaded' }, path: readonly string[]) {
  const [section, id] = path
  const at = section === 'models' ? config.models.findIndex((entry) => entry.id === id) : -1
  const origin = origins(section === 'models' ? ['models', at] : path)
  if (origin.kind === 'default' || origin.kind === 'console') return undefined
  // A variable that providers share with other programs is overruled by what is written on purpose.
  if (origin.kind === 'environment' && origin.name !== environmentName(path) && path[0] === 'providers')
    return origin.name.startsWith('WEIR_') ? origin.name : undefined
  return printedOrigin(origin)
}

function actOf(what: string, revision: number, changes: readonly ConfigChange[]) {
  const states = (of: 'from' | 'to') =>
    Object.fromEntries(changes.map((change) => [change.setting, change[of]]))
  return { what, subject: `revision ${revision}`, before: states('from'), after: states('to') }
}

function namesOf(changes: readonly ConfigChange[]): string[] {
  return changes.map(({ setting }) => setting)
}

/** What is in force of a configuration where a process runs that was started with `started`. */
export function asStarted(started: Config, read: Config): Config {
  let next = started
  for (const name of changeable) next = withSection(next, read, name.split('.'))
  for (const name of fixed) next = withSection(next, started, name.split('.'))
  return next
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

// What differs between two configurations.

function changesBetween(before: Config, after: Config): ConfigChange[] {
  const [old, now] = [settingsIn(before), settingsIn(after)]
  return [...new Set([...old.keys(), ...now.keys()])].flatMap((setting) => {
    const [from, to] = [old.get(setting), now.get(setting)]
    if (Bun.deepEquals(from?.value, to?.value) || (saysNothing(from?.value) && saysNothing(to?.value)))
      return []
    return [{ setting, from: from?.shown ?? null, to: to?.shown ?? null, restart: !isChangeable(setting) }]
  })
}

/** A setting that was not there and one with nothing in it are the same to whoever reads what changes. */
function saysNothing(value: unknown): boolean {
  if (value === undefined || value === null || value === false) return true
  return typeof value === 'object' && Object.keys(value).length === 0
}

/** Every setting by its name: models by their id, aliases by theirs. Secrets are masked in what is shown. */
function settingsIn(config: Config): Map<string, { readonly value: unknown; readonly shown: unknown }> {
  const found = new Map<string, { readonly value: unknown; readonly shown: unknown }>()
  const { models, aliases, ...rest } = config
  for (const entry of models) {
    const name = `models.${entry.id}`
    // A second entry overrides the first, field by field.
    const value = { ...(found.get(name)?.value as object | undefined), ...entry }
    found.set(name, { value, shown: value })
  }
  for (const [name, value] of Object.entries(aliases)) found.set(`aliases.${name}`, { value, shown: value })
  const walk = (value: unknown, path: readonly string[]) => {
    const setting = path.length === 0 ? undefined : settingAt(path)
    if (setting === undefined && typeof value === 'object' && value !== null && !Array.isArray(value)) {
      for (const [key, inner] of Object.entries(value)) walk(inner, [...path, key])
      return
    }
    // A value that is not a setting of its own may hold a secret.
    const shown = value === undefined || setting === undefined ? null : showValue(setting, value)
    found.set(path.join('.'), { value, shown })
  }
  walk(rest, [])
  return found
}

// The settings in force as operators see them.

type Shown = Pick<KeptConfigurationView, 'file' | 'settings' | 'providers' | 'models' | 'aliases'>

function viewOf(loaded: LoadedConfig & { kind: 'loaded' }, live: Live): Shown {
  const { config, origins, file } = loaded
  const general = shownSettings(loaded).filter(
    ({ path }) => isKeepable(path) && !/^(providers|models|aliases)/.test(path),
  )
  const ids = [...new Set([...registry.map(({ id }) => id), ...Object.keys(config.providers)])]
  return {
    file: file ?? null,
    settings: general.map(({ path, value }) => ({
      setting: path,
      value,
      ...sourceOf(origins(path.split('.'))),
    })),
    providers: ids.map((id) => providerView(loaded, live, id)),
    models: config.models.map((entry, at) => ({
      id: entry.id,
      entry,
      ...sourceOf(origins(['models', at])),
    })),
    aliases: Object.entries(config.aliases).map(([name, to]) => ({
      name,
      to,
      ...sourceOf(origins(['aliases', name])),
    })),
  }
}

function providerView(
  { config, origins }: LoadedConfig & { kind: 'loaded' },
  live: Live,
  id: string,
): Shown['providers'][number] {
  const row = registry.find((provider) => provider.id === id)
  const settings = config.providers[id]
  const set = leavesOf({ [id]: settings ?? {} }, ['providers']).flatMap(({ path, value }) => {
    const setting = settingAt(path)
    const origin = origins(path)
    if (setting === undefined || origin.kind === 'default') return []
    return [{ setting: path.slice(2).join('.'), value: showValue(setting, value), ...sourceOf(origin) }]
  })
  const usable = live.providers.get(id)
  return {
    id,
    name: settings?.name ?? row?.name ?? id,
    known: row !== undefined,
    local: row?.local ?? false,
    protocol: settings?.protocol ?? row?.protocol ?? 'openai-chat',
    base_url: settings?.base_url ?? row?.baseUrl ?? '',
    state:
      settings?.disabled === true
        ? 'disabled'
        : usable !== undefined
          ? 'in_service'
          : (settings?.base_url ?? row?.baseUrl ?? '') === ''
            ? 'no_address'
            : row?.local === true
              ? 'not_found'
              : 'no_key',
    settings: set,
  }
}

function sourceOf(origin: Origin) {
  return { source: origin.kind, origin: printedOrigin(origin) }
}
