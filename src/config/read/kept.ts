// Settings that operators have changed by the API or in the console: a layer above the defaults. Whatever the file, the
// environment or a flag says wins; a key in a variable that providers share with other programs does not.

import { settingAt, settings } from '../settings.ts'
import {
  type ConfigFault,
  type Draft,
  isTree,
  type Origin,
  type Path,
  printPath,
  type Tree,
} from './draft.ts'
import { placeholderProblem } from './environment.ts'

/** Settings that are kept, as in weir.yaml, but models by their id. */
export interface KeptSettings {
  /** Counts the changes; 0 before the first. */
  readonly revision: number
  readonly tree: Readonly<Tree>
}

const console: Origin = { kind: 'console' }

// Which settings change while the gateway runs.

/** Sections and settings that calls read anew each time: those in flight go on with what they began with. */
export const changeable: readonly string[] = [
  'providers',
  'models',
  'aliases',
  'catalog',
  'premium',
  'search',
  'mail',
  'log.export',
  'alarms',
  'hooks',
  'masks',
  'timeouts',
  'stream',
  'rate_limits',
  'keys',
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
export const fixed: ReadonlySet<string> = new Set([
  'timeouts.leave_ms',
  'timeouts.shutdown_ms',
  'stream.total_buffer_bytes',
  'rate_limits.free_bytes_per_minute',
])

export function isChangeable(setting: string): boolean {
  if (fixed.has(setting)) return false
  return changeable.some((name) => setting === name || setting.startsWith(`${name}.`))
}

/**
 * Whether a setting may be kept. A mail server, a search backend, who takes the request log or alarms, a hook and a provider's deployments
 * are named where their secrets are: in the file.
 */
export function isKeepable(setting: string): boolean {
  return (
    isChangeable(setting) &&
    !/^((search|mail|log\.export|alarms|hooks)(\.|$)|providers\.[^.]+\.deployments$)/.test(setting)
  )
}

// A tree of settings, leaf by leaf.

/** Whether what is at a path is changed as a whole. */
function isWhole(path: Path, value: unknown): boolean {
  if (!isTree(value)) return true
  const [section] = path
  if (section === 'models' || section === 'aliases') return path.length === 2
  return section === 'providers' && (path[2] === 'headers' || path[2] === 'quirks')
}

export interface Leaf {
  readonly path: readonly string[]
  readonly value: unknown
}

/** The settings of a tree, each with its path; a null in it is one. */
export function leavesOf(value: unknown, path: readonly string[] = []): Leaf[] {
  if (path.length > 0 && isWhole(path, value)) return [{ path, value }]
  return Object.entries(value as Tree).flatMap(([key, inner]) => leavesOf(inner, [...path, key]))
}

export function isSecretLeaf(path: readonly string[]): boolean {
  return settingAt(path)?.secret === true
}

// The layer.

/** Adds what is kept wherever nothing else is set. */
export function readKept(draft: Draft, { tree }: KeptSettings): void {
  const { models, ...rest } = tree
  for (const { path, value } of leavesOf(rest)) {
    const refused = leafFault(path)
    if (refused !== undefined) {
      draft.faultOf(console, path, refused)
      continue
    }
    if (draft.get(path) !== undefined) continue
    const problem = isSecretLeaf(path) ? secretFault(value) : undefined
    if (problem === undefined) draft.set(path, value, console)
    else draft.faultOf(console, path, problem)
  }
  if (models !== undefined) readModels(draft, models)
}

function leafFault(path: readonly string[]): string | undefined {
  const isSection = settings().some(
    ({ path: known }) =>
      known.length > path.length && path.every((part, at) => known[at] === '*' || known[at] === part),
  )
  if (isSection) return 'must be a mapping'
  if (isKeepable(path.join('.'))) return undefined
  return settingAt(path) ? 'is set in weir.yaml or the environment alone' : 'unknown key'
}

function readModels(draft: Draft, models: unknown): void {
  if (!isTree(models)) return draft.faultOf(console, ['models'], 'must be a mapping')
  const listed = draft.get(['models'])
  if (listed === undefined) draft.set(['models'], [], console)
  const list = draft.get(['models'])
  if (!Array.isArray(list)) return
  const written = new Set(list.flatMap((entry) => (isTree(entry) ? [entry['id']] : [])))
  for (const [id, entry] of Object.entries(models)) {
    if (written.has(id)) continue
    draft.mark(['models', list.length], console)
    list.push(isTree(entry) ? { ...entry, id } : entry)
  }
}

/** A kept secret is text and nothing else: who may change settings must not read files of this machine by it. */
function secretFault(value: unknown): string | undefined {
  for (const text of typeof value === 'string' ? [value] : Object.values(value ?? {})) {
    if (typeof text !== 'string') continue
    if (/^file:|\$\{/.test(text)) return 'is taken as it is here: files and variables are named in weir.yaml'
    if (text.startsWith('****')) return 'is how a key is shown, not the key: leave it out'
    const problem = placeholderProblem(text)
    if (problem !== undefined) return problem
  }
  return undefined
}

/**
 * A provider's key goes to the address that it was given for: whoever may change settings must not have the keys of the
 * file, or of the environment, sent elsewhere.
 */
export function checkKept(draft: Draft): void {
  const providers = draft.get(['providers'])
  for (const id of isTree(providers) ? Object.keys(providers) : []) {
    const at = ['providers', id, 'base_url']
    if (draft.valueOrigin(at).kind !== 'console') continue
    for (const secret of ['api_key', 'headers', 'deployments']) {
      const { kind } = draft.valueOrigin(['providers', id, secret])
      if (kind !== 'console' && kind !== 'default')
        draft.fault(
          at,
          `its ${secret} is not set here, and would be sent to this address: set both in one place`,
        )
    }
  }
}

/** Faults of kept models name them by id, as whoever changes them does. */
export function withIdsOfKept(draft: Draft, faults: readonly ConfigFault[]): ConfigFault[] {
  return faults.map((fault) => {
    const [, at, rest = ''] = /^models[.[](\d+)\]?(.*)$/s.exec(fault.path) ?? []
    if (at === undefined || draft.valueOrigin(['models', Number(at)]).kind !== 'console') return fault
    const entry = draft.get(['models', Number(at)])
    const id = isTree(entry) ? String(entry['id']) : at
    return { ...fault, path: `${printPath(['models', id])}${rest}`, origin: console }
  })
}

// Changes.

type ChangeFault = Pick<ConfigFault, 'path' | 'problem'>

interface ChangedTree {
  readonly tree: Tree
  readonly faults: readonly ChangeFault[]
}

/**
 * The tree after a change: settings as in weir.yaml, of which null takes one back. Models are a mapping by id, or a list
 * as in the file. In a list of keys `{ keep: 1 }` stands for the first one of before.
 */
export function changeTree(before: Readonly<Tree>, change: Readonly<Tree>): ChangedTree {
  const faults: ChangeFault[] = []
  const merge = (path: readonly string[], old: unknown, wanted: unknown): unknown => {
    if (wanted === null) return undefined
    if (path[2] === 'api_key' && Array.isArray(wanted)) {
      const present = typeof old === 'string' ? [old] : Array.isArray(old) ? old : []
      return wanted.flatMap((item: unknown) => {
        if (!isTree(item)) return [item]
        const kept: unknown = present[Number(item['keep']) - 1]
        if (kept !== undefined) return [kept]
        faults.push({
          path: path.join('.'),
          problem: `there is no key ${JSON.stringify(item['keep'])} to keep`,
        })
        return []
      })
    }
    if (path.length > 0 && isWhole(path, wanted)) return wanted
    const merged: Tree = isTree(old) ? { ...old } : {}
    for (const [key, inner] of Object.entries(wanted as Tree)) {
      if (key === '__proto__') {
        faults.push({ path: [...path, key].join('.'), problem: 'unknown key' })
        continue
      }
      const next = merge([...path, key], merged[key], inner)
      if (next === undefined) delete merged[key]
      else merged[key] = next
    }
    return path.length > 0 && Object.keys(merged).length === 0 ? undefined : merged
  }
  const tree = merge([], before, byId(change)) as Tree
  return { tree, faults: [...faults, ...keysSentElsewhere(before, tree, change)] }
}

/** A key that was entered for one address is entered again for another: whoever changes settings may not know it. */
function keysSentElsewhere(before: Tree, after: Tree, change: Tree): ChangeFault[] {
  const providersIn = (tree: Tree) => (isTree(tree['providers']) ? tree['providers'] : {})
  const [old, wanted] = [providersIn(before), providersIn(change)]
  return Object.entries(providersIn(after)).flatMap(([id, settings]) => {
    const [was, asked] = [old[id], wanted[id]]
    if (!isTree(settings) || !isTree(was) || settings['base_url'] === was['base_url']) return []
    const isKept = ['api_key', 'headers'].some(
      (secret) =>
        was[secret] !== undefined &&
        settings[secret] !== undefined &&
        (!isTree(asked) || asked[secret] === undefined || JSON.stringify(asked[secret]).includes('"keep":')),
    )
    if (!isKept) return []
    const problem = 'is another address, and the key was entered for the one before: enter it again'
    return [{ path: `providers.${id}.base_url`, problem }]
  })
}

/** The same change with its models by id. */
export function byId(change: Readonly<Tree>): Readonly<Tree> {
  const { models } = change
  if (!Array.isArray(models)) return change
  const entries = models.map((entry: unknown, at) =>
    isTree(entry) ? ([String(entry['id'] ?? at), entry] as const) : ([String(at), entry] as const),
  )
  return { ...change, models: Object.fromEntries(entries) }
}
