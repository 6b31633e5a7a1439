// `weir connect [client]`: prints the configuration of a client for this gateway, or writes it.

import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import {
  type ClientText,
  type ConnectedClient,
  connectedClients,
  mergedFile,
  UnmergeableFile,
} from '../../connect/clients.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { gatewayUrl } from '../gateway-address.ts'

/** Without a key, texts contain the environment variable for it. */
const keyVariable = '$WEIR_API_KEY'

/** Lists the clients, or prints a client's configuration; with --write its configuration files are written. */
export async function connect(context: Context, invocation: Invocation): Promise<void> {
  const clients = connectedClients(originOf(context, invocation))
  const [id] = invocation.args
  if (id === undefined) {
    if (invocation.flag('write')) throw usageFault('--write needs the name of a client')
    const rows = clients.map((client) => [client.id, client.name, client.about])
    const json = clients.map(({ id: named, name, about }) => ({ id: named, name, about }))
    print(context, { json, text: table(['CLIENT', 'NAME', ''], rows) })
    return
  }
  const client = clients.find((known) => known.id === id)
  if (!client) {
    const known = clients.map((one) => one.id).join(', ')
    throw usageFault(`there is no client ${JSON.stringify(id)}: ${known}`)
  }
  if (invocation.flag('write')) writeFor(context, invocation, client)
  else printFor(context, invocation, client)
}

/** The address that clients are given: `--url`, WEIR_URL, the configured one, else where the server listens. */
function originOf(context: Context, invocation: Invocation): string {
  const { public_url: publicUrl } = context.config.server
  const isGiven = invocation.option('url') !== undefined || Boolean(context.env['WEIR_URL'])
  return publicUrl !== undefined && !isGiven
    ? publicUrl
    : gatewayUrl(context, invocation).replace(/\/v1$/, '')
}

function printFor(
  context: Context,
  invocation: Invocation,
  { id, name, about, files }: ConnectedClient,
): void {
  const key = keyOf(context, invocation) ?? keyVariable
  const model = modelOf(invocation)
  const filled = files.map((file) => ({ ...file, text: withValues(file, key, model) }))
  const text = [about, ...filled.map((file) => [file.path ?? '', file.text].filter(Boolean).join('\n\n'))]
  print(context, { json: { id, name, about, files: filled }, text: text.join('\n\n') })
}

function writeFor(context: Context, invocation: Invocation, { id, files }: ConnectedClient): void {
  const named = files.filter(({ path }) => path !== null)
  if (named.length === 0)
    throw new CommandFailure(`${id} has no file of its own: run or paste what weir connect ${id} prints`)
  const key = keyOf(context, invocation)
  if (key === undefined && named.some(({ text }) => text.includes('{{key}}')))
    throw usageFault('its file holds the key: give one with --key or in WEIR_API_KEY (weir keys create)')
  const home = context.env['HOME'] || homeOfUser()
  const model = modelOf(invocation)
  const written = named.map((file) => {
    const path = join(home, file.path!.replace(/^~\//, ''))
    return { path, backup: writeMerged(path, file, withValues(file, key ?? '', model)) }
  })
  const rest = files.filter(({ path }) => path === null).map((file) => withValues(file, keyVariable, model))
  const lines = written.map(({ path, backup }) =>
    backup === null ? `wrote ${path}` : `changed ${path} (as it was: ${backup})`,
  )
  print(context, {
    json: { id, files: written },
    text: [...lines, ...(rest.length === 0 ? [] : ['then:', ...rest])].join('\n'),
  })
}

/** Throws a usage fault for a user who has none, as in a container. */
function homeOfUser(): string {
  try {
    return homedir()
  } catch {
    throw usageFault('this user has no home directory to write into: set HOME')
  }
}

/** Writes a file atomically, readable only for its owner. Returns the path of a copy of the old file; null if new. */
function writeMerged(path: string, { language, keeps }: ClientText, addition: string): string | null {
  if (language !== 'json' && language !== 'toml' && language !== 'yaml')
    throw new Error(`${path} has no language that can be merged`)
  const isNew = !existsSync(path)
  const backup = `${path}.before-weir`
  const text = isNew ? `${addition}\n` : mergedOrRefused(path, language, addition, keeps)
  mkdirSync(dirname(path), { recursive: true })
  // The first copy is from before Weir, so later runs keep it.
  if (!isNew && !existsSync(backup)) {
    copyFileSync(path, backup)
    chmodSync(backup, 0o600)
  }
  // A link stays one: people keep such files elsewhere.
  const place = isNew ? path : realpathSync(path)
  writeFileSync(`${place}.new`, text, { mode: 0o600 })
  renameSync(`${place}.new`, place)
  return isNew ? null : backup
}

function mergedOrRefused(
  path: string,
  language: 'json' | 'toml' | 'yaml',
  addition: string,
  keeps?: readonly string[],
): string {
  try {
    return mergedFile(language, readFileSync(path, 'utf8'), addition, keeps)
  } catch (thrown) {
    if (!(thrown instanceof UnmergeableFile)) throw thrown
    throw new CommandFailure(`${path} stays as it is: ${thrown.message}. Add this by hand:\n\n${addition}`)
  }
}

function withValues({ text }: ClientText, key: string, model: string): string {
  return text.replaceAll('{{key}}', key).replaceAll('{{model}}', model)
}

function keyOf(context: Context, invocation: Invocation): string | undefined {
  const key = invocation.option('key') || context.env['WEIR_API_KEY'] || undefined
  if (key === undefined || /^[\w.-]+$/.test(key)) return key
  throw usageFault('--key takes a key as weir keys create prints it')
}

function modelOf(invocation: Invocation): string {
  const model = invocation.option('model') ?? 'sim/echo'
  if (/^[^\s"'\\/{}]+\/[^\s"'\\{}]+$/.test(model)) return model
  throw usageFault(`--model takes an id such as openai/gpt-5, not ${JSON.stringify(model)}`)
}
