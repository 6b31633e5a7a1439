// Settings of the gateway that operators have changed by the API or in the console: every change is a revision, its
// secrets encrypted with the operator's master key.

import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'
import type { Sealer } from './account.ts'
import type { Act } from './identity/identity-store.ts'

export interface SettingsRow {
  /** Counts from 1. */
  readonly revision: number
  readonly at: number
  /** Who made it: the id of an account, or `cli:` and a user of the system. */
  readonly operator: string
  /** The revision that taking it back leads to; 0 for no settings at all. */
  readonly before: number
  /** The settings as JSON; null stands for each secret. */
  readonly settings: string
  /** The secrets by the path of their setting, encrypted; null without any. */
  readonly sealed: Uint8Array | null
}

export interface SettingsStore {
  /** Of the latest change; 0 before the first. */
  revision(): Awaitable<number>
  latest(): Awaitable<SettingsRow | undefined>
  find(revision: number): Awaitable<SettingsRow | undefined>
  /**
   * Adds the next revision with its entry in the log of acts, and forgets all but the newest `most`. False if that
   * revision is there: somebody else was first.
   */
  append(row: SettingsRow, act: Act, most: number): Awaitable<boolean>
}

type Tree = Readonly<Record<string, unknown>>

/** Secrets that were found in settings, or are to be put back: by the path of their setting. */
export type SettingSecrets = readonly { readonly path: readonly string[]; readonly value: unknown }[]

export interface OpenedSettings {
  readonly revision: number
  readonly tree: Tree
  /** The paths of secrets that cannot be read any more: the master key has changed. They are not in the tree. */
  readonly unreadable: readonly (readonly string[])[]
  /** When they were changed, by whom, and the revision that undoing leads to; undefined before the first change. */
  readonly row: SettingsRow | undefined
}

/** Revisions that are kept, to be taken back. */
const mostRevisions = 100
/** The most that all settings may measure as JSON, characters. */
const mostCharacters = 1_000_000
const context = 'console_settings'

export class ConsoleSettings {
  readonly #store: SettingsStore
  readonly #sealer: Sealer | undefined
  /** Takes the secrets out of a tree. */
  readonly #secretsIn: (tree: Tree) => SettingSecrets

  /** Without a sealer only settings without secrets can be kept. */
  constructor(store: SettingsStore, sealer: Sealer | undefined, secretsIn: (tree: Tree) => SettingSecrets) {
    this.#store = store
    this.#sealer = sealer
    this.#secretsIn = secretsIn
  }

  get takesSecrets(): boolean {
    return this.#sealer !== undefined
  }

  /** Of the latest change, without what it is. */
  async revision(): Promise<number> {
    return this.#store.revision()
  }

  async latest(): Promise<OpenedSettings> {
    return this.#open(await this.#store.latest())
  }

  /** Whatever was in force before the latest change. Throws `not_found` if there is nothing to take back. */
  async previous(): Promise<OpenedSettings> {
    const latest = await this.#store.latest()
    if (latest === undefined)
      throw new GatewayError('not_found', { message: 'Nothing was changed here yet.' })
    if (latest.before === 0) {
      if (latest.settings === '{}')
        throw new GatewayError('not_found', { message: 'All changes were taken back.' })
      return this.#open(undefined)
    }
    const row = await this.#store.find(latest.before)
    if (row === undefined)
      throw new GatewayError('not_found', { message: 'What was there before is not kept any more.' })
    return this.#open(row)
  }

  /**
   * Keeps settings as the revision after `present`. Throws `configuration_changed` if somebody else was first,
   * `unsupported_parameter` for secrets without a master key, `invalid_request` for too many.
   */
  async keep(present: OpenedSettings, tree: Tree, act: Act): Promise<number> {
    return this.#append(present, { before: present.revision, ...this.#seal(tree) }, act)
  }

  /** Keeps once more what `previous` gave, as the revision after `present`. Throws `configuration_changed`. */
  async restore(present: OpenedSettings, { row }: OpenedSettings, act: Act): Promise<number> {
    const { before = 0, settings = '{}', sealed = null } = row ?? {}
    return this.#append(present, { before, settings, sealed }, act)
  }

  async #append(
    { revision }: OpenedSettings,
    row: Pick<SettingsRow, 'before' | 'settings' | 'sealed'>,
    act: Act,
  ): Promise<number> {
    const next = { revision: revision + 1, at: act.at, operator: act.operator, ...row }
    if (await this.#store.append(next, act, mostRevisions)) return next.revision
    throw new GatewayError('configuration_changed')
  }

  #seal(tree: Tree): Pick<SettingsRow, 'settings' | 'sealed'> {
    const secrets = this.#secretsIn(tree)
    const settings = JSON.stringify(secrets.reduce((at, { path }) => withValue(at, path, null), tree))
    const texts = JSON.stringify(secrets)
    if (settings.length + texts.length > mostCharacters)
      throw new GatewayError('invalid_request', {
        message: `The settings kept here measure at most ${mostCharacters} characters: write weir.yaml instead.`,
      })
    if (secrets.length === 0) return { settings, sealed: null }
    if (this.#sealer) return { settings, sealed: this.#sealer.seal(texts, context) }
    throw new GatewayError('unsupported_parameter', {
      message:
        'Keys of providers are kept encrypted, and this gateway has no key for that: set secrets.master_key in ' +
        'weir.yaml or WEIR_SECRETS_MASTER_KEY, and restart it.',
      param: 'settings',
    })
  }

  #open(row: SettingsRow | undefined): OpenedSettings {
    if (row === undefined) return { revision: 0, tree: {}, unreadable: [], row }
    const tree = JSON.parse(row.settings) as Tree
    const text = row.sealed === null ? '[]' : this.#sealer?.open(row.sealed, context)
    const { revision } = row
    if (text === undefined) {
      const paths = pathsOfNulls(tree)
      return { revision, tree: paths.reduce(without, tree), unreadable: paths, row }
    }
    const secrets = JSON.parse(text) as SettingSecrets
    return {
      revision,
      tree: secrets.reduce((at, { path, value }) => withValue(at, path, value), tree),
      unreadable: [],
      row,
    }
  }
}

/** A tree with another value at a path that it has. */
function withValue(tree: Tree, [key, ...rest]: readonly string[], value: unknown): Tree {
  if (key === undefined) return tree
  return { ...tree, [key]: rest.length === 0 ? value : withValue((tree[key] ?? {}) as Tree, rest, value) }
}

function without(tree: Tree, [key, ...rest]: readonly string[]): Tree {
  if (key === undefined) return tree
  const { [key]: inner, ...others } = tree
  if (rest.length === 0) return others
  const left = without((inner ?? {}) as Tree, rest)
  return Object.keys(left).length === 0 ? others : { ...others, [key]: left }
}

/** Secrets are the only nulls among kept settings. */
function pathsOfNulls(value: unknown, path: readonly string[] = []): (readonly string[])[] {
  if (value === null) return [path]
  if (typeof value !== 'object' || Array.isArray(value)) return []
  return Object.entries(value).flatMap(([key, inner]) => pathsOfNulls(inner, [...path, key]))
}
