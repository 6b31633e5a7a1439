// `weir init`: writes a first weir.yaml. It asks at a terminal, takes flags elsewhere, and never overwrites.

import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import {
  type Config,
  type Environment,
  loadConfig,
  readTextFile,
  reasonOf,
  renderFaults,
  serviceFile,
} from '../../config/config.ts'
import { NearIds } from '../../catalog/catalog.ts'
import { suggestion } from '../../catalog/row.ts'
import { plural } from '../../text/text.ts'
import { providerById, providers } from '../../providers/registry.ts'
import type { Provider } from '../../providers/provider.ts'
import { Discovery } from '../../serve/gateway/catalog.ts'
import { CommandFailure, exitCodes, type Invocation, type Io, print, usageFault } from '../context.ts'

/** A provider that will answer, and why. */
type Found =
  | { readonly kind: 'environment'; readonly id: string; readonly variable: string }
  | { readonly kind: 'server'; readonly id: string; readonly address: string; readonly models: number }
  | { readonly kind: 'key'; readonly id: string; readonly file: string; readonly key: string }

interface Choices {
  readonly host: string
  readonly port: string
  readonly publicUrl: string | undefined
}

/** Keys that are typed in; whoever has more writes the file by hand. */
const mostKeys = 20

/**
 * Writes the file, after its configuration has been checked. Throws CommandFailure where it exists (exit code 1), and 78
 * with every fault where the environment and the answers make no configuration.
 */
export async function init(io: Io, invocation: Invocation): Promise<void> {
  const env = await io.environment()
  const file = resolve(io.cwd, invocation.option('config') ?? (env['WEIR_CONFIG'] || 'weir.yaml'))
  const isPrinted = invocation.flag('print')
  if (!isPrinted && existsSync(file))
    throw new CommandFailure(`${file} exists, and stays as it is (weir config check reads it)`)
  const ask = invocation.flag('yes') || isPrinted ? undefined : io.ask
  const { config } = checkedConfig(io, env, invocation, '')
  const found = [...keysIn(env), ...(await serversOf(config))]
  for (const one of found) io.err(`found ${lineOf(one)}\n`)
  if (found.length === 0) io.err('found no key of a provider in the environment, and no model server here\n')

  const choices = await choicesOf(invocation, ask)
  const typed = ask === undefined ? [] : await typedKeys(io, ask, dirname(file), found)
  const text = fileText(choices, [...found, ...typed])
  // The keys are not on the disk yet, and the check reads them.
  const { warnings } = checkedConfig(
    io,
    env,
    invocation,
    text,
    new Map(typed.map((one) => [one.file, one.key])),
  )
  for (const { name, problem } of warnings) io.err(`warning: ${name} ${problem}\n`)
  if (isPrinted) return io.out(text)
  write(file, text, typed)
  if (file === serviceFile) showKeysToService(typed.map((one) => one.file))
  const view = [...found, ...typed].map(({ kind, id }) => ({ id, found: kind }))
  print(
    { io, json: invocation.flag('json') },
    {
      json: { file, providers: view },
      text: [
        `wrote ${file}`,
        ...typed.map((one) => `wrote ${one.file} (the key of ${one.id}, for your eyes only)`),
        file === serviceFile ? 'next: systemctl enable --now weir' : 'next: weir serve',
      ].join('\n'),
    },
  )
}

/** All files or none: a configuration that names a key which is not there would not start. */
function write(file: string, text: string, typed: readonly (Found & { kind: 'key' })[]): void {
  const written: string[] = []
  const create = (path: string, content: string, mode: number) => {
    writeFileSync(path, content, { flag: 'wx', mode })
    written.push(path)
  }
  try {
    mkdirSync(dirname(file), { recursive: true })
    if (typed.length > 0) {
      mkdirSync(keyFolder(dirname(file)), { recursive: true, mode: 0o700 })
      chmodSync(keyFolder(dirname(file)), 0o700)
    }
    for (const one of typed) create(one.file, `${one.key}\n`, 0o600)
    create(file, text, 0o644)
  } catch (cause) {
    for (const path of written) rmSync(path, { force: true })
    throw new CommandFailure(`nothing was written: ${reasonOf(cause)}`)
  }
}

/** The service runs as a user of its own, whose group may read the keys. A package makes that user. */
function showKeysToService(keys: readonly string[]): void {
  const group = /^weir:[^:]*:\d+:(\d+):/m.exec(readTextFile('/etc/passwd') ?? '')?.[1]
  if (keys.length === 0 || group === undefined) return
  const folder = dirname(keys[0]!)
  for (const path of [folder, ...keys]) chownSync(path, 0, Number(group))
  chmodSync(folder, 0o750)
  for (const key of keys) chmodSync(key, 0o640)
}

function checkedConfig(
  io: Io,
  env: Environment,
  invocation: Invocation,
  text: string,
  keys: ReadonlyMap<string, string> = new Map(),
) {
  const name = '/weir.yaml to be written'
  const loaded = loadConfig({
    flags: { config: name, data_dir: invocation.option('dataDir') },
    env,
    cwd: io.cwd,
    readFile: (path) => (path === name ? text : (keys.get(path) ?? readTextFile(path))),
  })
  if (loaded.kind === 'loaded') return loaded
  throw new CommandFailure(
    `nothing was written, for it would not be a configuration:\n${renderFaults(loaded.faults)}`,
    exitCodes.badConfiguration,
  )
}

// What is here.

function keysIn(env: Environment): readonly Found[] {
  return providers.flatMap((provider): Found[] => {
    const variable = variablesOf(provider).find((name) => Boolean(env[name]))
    return variable === undefined ? [] : [{ kind: 'environment', id: provider.id, variable }]
  })
}

function variablesOf({ auth }: Provider): readonly string[] {
  return auth.kind === 'none' ? [] : auth.env
}

async function serversOf(config: Config): Promise<readonly Found[]> {
  const servers = await new Discovery(() => config, config.server.port).scan()
  return servers
    .filter(({ models }) => models.length > 0)
    .map(({ id, baseUrl, models }): Found => ({
      kind: 'server',
      id,
      address: baseUrl,
      models: models.length,
    }))
}

function lineOf(found: Found): string {
  switch (found.kind) {
    case 'environment':
      return `${found.id}: its key is in ${found.variable}`
    case 'server':
      return `${found.id}: it answers at ${found.address}, with ${plural(found.models, 'model')}`
    case 'key':
      return `${found.id}: its key is in ${found.file}`
  }
}

// What is asked.

type Ask = NonNullable<Io['ask']>

async function choicesOf(invocation: Invocation, ask: Ask | undefined): Promise<Choices> {
  const answer = async (option: string, question: string, fallback: string): Promise<string> => {
    const given = invocation.option(option)
    if (given !== undefined || ask === undefined) return given ?? fallback
    return (await ask(question, 'shown')).trim() || fallback
  }
  const host = await answer(
    'host',
    'Listen on which address? 127.0.0.1 is this machine alone, 0.0.0.0 every network [127.0.0.1]: ',
    '127.0.0.1',
  )
  const port = await answer('port', 'On which port? [8787]: ', '8787')
  if (!/^\d{1,5}$/.test(port))
    throw usageFault(`a port is a number such as 8787, not ${JSON.stringify(port)}`)
  const publicUrl = await answer(
    'publicUrl',
    'Which address do clients use, if a TLS proxy stands in front? [none]: ',
    '',
  )
  return { host, port, publicUrl: publicUrl || undefined }
}

/** Keys that the user types: each goes into a file of its own, which the configuration names. */
async function typedKeys(
  io: Io,
  ask: Ask,
  folder: string,
  found: readonly Found[],
): Promise<readonly (Found & { kind: 'key' })[]> {
  const keyed = providers.filter((provider) => variablesOf(provider).length > 0).map(({ id }) => id)
  const typed: (Found & { kind: 'key' })[] = []
  while (typed.length < mostKeys) {
    const id = (await ask('Add the key of which provider, such as openai? [none]: ', 'shown')).trim()
    if (id === '') break
    const isKnown = keyed.includes(id)
    if (!isKnown || [...found, ...typed].some((one) => one.id === id)) {
      const known = isKnown ? `${id} has a key already.` : `There is no provider ${JSON.stringify(id)}.`
      io.err(`${known}${isKnown ? '' : suggestion(new NearIds(keyed).nearest(id))}\n`)
      continue
    }
    const name = providerById(id)?.name ?? id
    const key = (await ask(`The key of ${name} (it is not shown): `, 'secret')).trim()
    if (key === '') continue
    typed.push({ kind: 'key', id, file: join(keyFolder(folder), `${id}.key`), key })
  }
  return typed
}

function keyFolder(folder: string): string {
  return join(folder, 'weir-keys')
}

// The file.

function fileText({ host, port, publicUrl }: Choices, found: readonly Found[]): string {
  const keys = found.filter((one): one is Found & { kind: 'key' } => one.kind === 'key')
  const others = found.filter(({ kind }) => kind !== 'key')
  const here = others.map((one) => `# Found without an entry here: ${lineOf(one)}.`)
  const entries = keys.flatMap(({ id, file }) => [`  ${id}:`, `    api_key: ${yamlText(`file:${file}`)}`])
  return `# Weir's configuration, written by weir init. weir config explain NAME tells what a setting means, weir config check
# reads this file, and weir config reload puts changes into force without a restart. All settings: weir guide settings.

server:
  host: ${yamlText(host)} # 0.0.0.0 listens on every address of this machine
  port: ${port}
${publicUrl === undefined ? '  # public_url: https://models.example.org # the address that clients use, behind a TLS proxy' : `  public_url: ${yamlText(publicUrl)} # the address that clients use`}

# Providers. A key in the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY and so on) is used without an entry, and so is a
# server such as Ollama on this machine. weir doctor names every provider without a key.
${here.length === 0 ? '' : `${here.join('\n')}\n`}${entries.length === 0 ? '# providers:\n#   openai:\n#     api_key: file:/run/secrets/openai # or the key itself' : `providers:\n${entries.join('\n')}`}

# A name of your own in front of several models; the second is asked where the first fails.
# models:
#   - id: fast
#     route: { to: [openai/gpt-5-mini, anthropic/claude-haiku-4-5], pick: order }
`
}

/** A text as YAML reads it back; quoted only where it must be. */
function yamlText(text: string): string {
  const isPlain = /^[A-Za-z\d/][\w./:@-]*$/.test(text) && !/:$|^\d+(\.\d*)?$/.test(text)
  return isPlain ? text : JSON.stringify(text)
}
