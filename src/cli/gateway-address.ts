// The gateway that a command calls, and the key for it. Whoever works in the folder of somebody else must not send a key
// or a prompt where its weir.yaml says: the address comes from what the user has named, wherever the command runs.

import { existsSync } from 'node:fs'
import { isAbsolute, join, resolve } from 'node:path'
import { networkInterfaces } from 'node:os'
import { isLoopback } from '../transport/bounded-body.ts'
import { baseUrlOf } from '../serve/banner.ts'
import { runningServer } from '../serve/running-server.ts'
import { type Context, contextFor, type Invocation, type Io, usageFault } from './context.ts'

export interface GatewayAddress {
  /** The base URL, without a slash at its end. */
  readonly base: string
  readonly key: string
}

/**
 * The address by `gatewayUrl`, and the key from `--key` or WEIR_API_KEY. Throws a usage fault if there is no key or no
 * address.
 */
export function gatewayAddress(context: Context, invocation: Invocation): GatewayAddress {
  const key = invocation.option('key') || context.env['WEIR_API_KEY']
  if (!key) throw usageFault('give an API key with --key or in WEIR_API_KEY (weir keys create)')
  return { base: gatewayUrl(context, invocation), key }
}

/**
 * The base URL, without a slash at its end: `--url`, WEIR_URL, else what the configuration of `clientContextFor` says:
 * the server that runs on its data directory, its public address, or where it listens. Throws a usage fault.
 */
export function gatewayUrl({ config, env }: Context, invocation: Invocation): string {
  const { public_url: publicUrl, host, port } = config.server
  const given = invocation.option('url')
  if (given !== undefined) return checkedUrl('--url', given)
  if (env['WEIR_URL']) return checkedUrl('WEIR_URL', env['WEIR_URL'])
  const found = runningServer(config.data_dir)
  if (found !== undefined || publicUrl === undefined) return found ?? baseUrlOf(host, port)
  return `${publicUrl.replace(/\/+$/, '')}/v1`
}

/** An address that somebody typed, as a base URL. `127.0.0.1:8787/v1` alone would be read as a scheme and a path. */
export function checkedUrl(name: string, url: string): string {
  if (!/^https?:\/\//i.test(url) || !URL.canParse(url))
    throw usageFault(`${name} takes an address such as http://127.0.0.1:8787/v1, not ${JSON.stringify(url)}`)
  const bare = url.replace(/\/+$/, '')
  return new URL(bare).pathname === '/' && !bare.includes('?') ? `${bare}/v1` : bare
}

/**
 * The configuration of a command that calls a gateway: flags, environment and the user's own file, as if it was run in
 * the user's folder of configuration ($XDG_CONFIG_HOME/weir, else ~/.config/weir). The working directory decides only
 * what the command line names with `--config` and `--data-dir`.
 */
export async function clientContextFor(io: Io, invocation: Invocation): Promise<Context> {
  // Its relative paths are relative to where it was named.
  if (invocation.option('config') !== undefined) return contextFor(io, invocation)
  const env = await io.environment()
  const dataDir = invocation.option('dataDir')
  const named = dataDir === undefined || dataDir.startsWith('~') ? dataDir : resolve(io.cwd, dataDir)
  const context = await contextFor(
    { ...io, cwd: ownFolder(env), environment: () => Promise.resolve(withoutRelativePaths(env)) },
    { ...invocation, option: (name) => (name === 'dataDir' ? named : invocation.option(name)) },
  )
  return { ...context, io }
}

/** The user's folder of configuration; without a home directory one that cannot be. */
function ownFolder(env: Context['env']): string {
  const { XDG_CONFIG_HOME: configured, HOME, USERPROFILE } = env
  if (configured && isAbsolute(configured)) return join(configured, 'weir')
  const home = HOME || USERPROFILE
  return home && isAbsolute(home) ? join(home, '.config', 'weir') : nowhere
}

const nowhere = resolve('/', 'dev', 'null', 'weir')

/** A variable with a relative path means another file in each folder. */
function withoutRelativePaths(env: Context['env']): Context['env'] {
  const isPath = (name: string) => /^WEIR_(CONFIG|DATA_DIR)$|_FILE$/.test(name)
  return Object.fromEntries(
    Object.entries(env).filter(
      ([name, value]) => !value || !isPath(name) || value.startsWith('~') || isAbsolute(value),
    ),
  )
}

/** What to say when nothing answers and the folder may hold the address; empty where it does not. */
export function folderHint({ cwd }: Io): string {
  const holds = ['weir.yaml', 'weir-data'].some((name) => existsSync(join(cwd, name)))
  return holds
    ? ' (the weir.yaml and weir-data of this folder count only if --config or --data-dir names them)'
    : ''
}

/** Whether an address is on this machine, by any of its own addresses. */
export function isOnThisMachine(url: string): boolean {
  const host = URL.parse(url)?.hostname.replace(/^\[|\]$/g, '')
  const own = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? [])
  return isLoopback(url) || (host !== undefined && own.includes(host))
}

/**
 * Whether a configured address may be asked: not if it is from the weir.yaml that merely lies in the working directory,
 * unless it is one of this machine. Settings of addresses have no default, and what YAML merges has no origin: so all that
 * is neither from a flag nor from the environment is from the file.
 */
export function isUsersChoice({ loaded, namedFile }: Context, path: readonly string[], url: string): boolean {
  const { kind } = loaded.origins(path)
  const isFromFile = loaded.file !== undefined && kind !== 'flag' && kind !== 'environment'
  return namedFile || !isFromFile || isOnThisMachine(url)
}

/** Why an address was left alone. */
export const folderSays =
  'is from the weir.yaml of this folder, which counts if it is named: --config weir.yaml'
