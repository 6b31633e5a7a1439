// `weir service print`: a systemd unit that runs the gateway as a service, with only the rights that it needs.

import { resolve } from 'node:path'
import type { Command } from 'commander'
import { z } from 'zod'
import {
  loadConfig,
  printedOrigin,
  readTextFile,
  renderFaults,
  renderSettings,
  type Setting,
  settingAt,
  settings,
  shownSettings,
} from '../../config/config.ts'
import { NearIds } from '../../catalog/catalog.ts'
import { catalogInUse, unsoldModels } from '../../serve/gateway/catalog.ts'
import { runningServer } from '../../serve/running-server.ts'
import type { BackupReport } from '../../store/backup.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'
import { commit, version as number, versionText } from '../../version.ts'
import {
  CommandFailure,
  configFlags,
  type Context,
  exitCodes,
  type Invocation,
  type Io,
  jsonLine,
  print,
  usageFault,
} from '../context.ts'
import { commandLineOperator, serverIn, withOperatorKey, withStore } from '../with-store.ts'

/** Prints a unit for this executable or the one given with --exec. Nothing is installed. */
export function printService(context: Context, invocation: Invocation): void {
  const executable = invocation.option('exec') ?? ownExecutable()
  if (!executable.startsWith('/')) throw usageFault('--exec takes the full path of the executable')
  const user = invocation.option('user') ?? 'weir'
  const config = invocation.option('config') === undefined ? undefined : context.loaded.file
  const dataDir = invocation.option('dataDir') === undefined ? undefined : context.config.data_dir
  const { port } = context.config.server
  const { leave_ms: leaveMs, shutdown_ms: shutdownMs } = context.config.timeouts
  const shutdownSeconds = Math.ceil((leaveMs + shutdownMs) / 1000)
  context.io.out(
    unitOf({
      executable,
      user,
      config,
      dataDir,
      lowPort: port > 0 && port < 1024,
      shutdownSeconds,
    }),
  )
  context.io.err(installHelp(user, dataDir))
}

/** The running executable. Throws a usage fault if run from source. */
function ownExecutable(): string {
  // The main module of an executable is a file inside it.
  if (!Bun.main.startsWith('/$bunfs/')) {
    throw usageFault('name the executable with --exec /usr/local/bin/weir: this one runs from its source')
  }
  return process.execPath
}

interface Unit {
  readonly executable: string
  readonly user: string
  /** Undefined for /etc/weir/weir.yaml, which need not exist. */
  readonly config: string | undefined
  /** Undefined for /var/lib/weir, which systemd makes. */
  readonly dataDir: string | undefined
  /** Whether only privileged programs may listen on the port. */
  readonly lowPort: boolean
  /** How long the calls in flight may take to end, seconds. */
  readonly shutdownSeconds: number
}

export function unitOf({ executable, user, config, dataDir, lowPort, shutdownSeconds }: Unit): string {
  const named = config === undefined ? '' : ` --config ${quoteWord(config)}`
  const data =
    dataDir === undefined
      ? 'StateDirectory=weir\nStateDirectoryMode=0700'
      : `ReadWritePaths=${quotedPath(dataDir)}`
  const capability = lowPort ? 'CAP_NET_BIND_SERVICE' : ''
  return `[Unit]
Description=Weir, a gateway for language models
After=network-online.target
Wants=network-online.target

[Service]
User=${user}
ConfigurationDirectory=weir
WorkingDirectory=/etc/weir
${data}
ExecStart=${quoteWord(executable)} serve${named} --data-dir ${quoteWord(dataDir ?? '/var/lib/weir')}
# Provider keys, a NAME=value in each line; may be absent.
EnvironmentFile=-/etc/weir/weir.env
Restart=on-failure
RestartSec=1
# Calls in flight are finished first.
TimeoutStopSec=${shutdownSeconds + 10}
LimitNOFILE=65536

NoNewPrivileges=yes
CapabilityBoundingSet=${capability}
AmbientCapabilities=${capability}
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077
# MemoryDenyWriteExecute stays off: the JavaScript engine compiles at run time.

[Install]
WantedBy=multi-user.target
`
}

/** An argument of ExecStart, in which systemd replaces $ as well. */
function quoteWord(word: string): string {
  return quotedPath(word.replace(/\$/g, '$$$$'))
}

/** A path, with % escaped, which is special in systemd. */
function quotedPath(path: string): string {
  const escaped = path.replace(/%/g, '%%').replace(/(["\\])/g, '\\$1')
  return /[\s"'\\;]/.test(path) ? `"${escaped}"` : escaped
}

function installHelp(user: string, dataDir: string | undefined): string {
  const ownDirectory =
    dataDir === undefined ? '' : `# install -d -m 700 -o ${user} '${dataDir.replaceAll("'", "'\\''")}'\n`
  return `
# useradd --system --no-create-home ${user}
${ownDirectory}# weir service print > /etc/systemd/system/weir.service
# systemctl daemon-reload && systemctl enable --now weir
# cat '${(dataDir ?? '/var/lib/weir').replaceAll("'", "'\\''")}/first-key.txt'        the owner's API key, of the first start
`
}

// `weir backup FILE` and `weir restore FILE`

/** Writes the database to a new file, also while a server runs. Fails if the audit of the copy's ledger fails. */
export async function backUpTo(context: Context, invocation: Invocation): Promise<void> {
  const server = serverIn(context)
  if (server !== undefined)
    throw new CommandFailure(
      `everything is kept on ${server}, which has its own ways. One copy: pg_dump --format=custom --file=FILE ${server}. To any ` +
        'moment: continuous archiving (point-in-time recovery). weir ledger audit proves a copy that was put back',
    )
  const { backUp, noteBackup } = await import('../../store/backup.ts')
  const { dataDir, file } = placesOf(context, invocation)
  const report = backUp(dataDir, file)
  noteBackup(dataDir, report, context.io.clock())
  print(context, { json: viewOf(report), text: `backed up ${dataDir} to ${file}\n${lineOf(report)}` })
  if (report.broken !== null) {
    throw new CommandFailure(`the backup was written, but the ledger does not hold: ${report.broken}`)
  }
}

/** Restores a backup into the data directory after checking it. */
export async function restoreFrom(context: Context, invocation: Invocation): Promise<void> {
  const server = serverIn(context)
  if (server !== undefined)
    throw new CommandFailure(
      `everything is kept on ${server}. Stop every gateway, put the copy into a new database (createdb, then pg_restore ` +
        '--dbname=URL FILE), name it in store.url, and prove it with weir ledger audit',
    )
  const { restore } = await import('../../store/backup.ts')
  const { dataDir, file } = placesOf(context, invocation)
  const existing = invocation.flag('force') ? 'replace' : 'keep'
  const report = restore(file, dataDir, { existing, now: context.io.clock() })
  const aside = report.movedAside === null ? '' : `\nwhat was there before is ${report.movedAside}`
  print(context, {
    json: { ...viewOf(report), moved_aside: report.movedAside },
    text: `restored ${file} to ${dataDir}\n${lineOf(report)}${aside}`,
  })
}

function placesOf({ config, io }: Context, invocation: Invocation): { dataDir: string; file: string } {
  return { dataDir: resolve(io.cwd, config.data_dir), file: resolve(io.cwd, invocation.args[0] ?? '') }
}

function viewOf({ file, bytes, schema, journalEntries, headHash, broken }: BackupReport) {
  return { file, bytes, schema, journal_entries: journalEntries, head_hash: headHash, ok: broken === null }
}

function lineOf({ bytes, schema, journalEntries, headHash }: BackupReport): string {
  return `${journalEntries} journal entries, head ${headHash}, schema ${schema}, ${bytes} bytes`
}

// `weir version`

/** Prints the version of Weir; as JSON also those of the runtime inside it and of the database that it writes. */
export async function version(io: Io, invocation: Invocation): Promise<void> {
  const { schemaVersion } = await import('../../store/sqlite/database/sqlite.ts')
  print(
    { io, json: invocation.flag('json') },
    {
      json: { version: number, commit, schema: schemaVersion, bun: Bun.version },
      text: `weir ${versionText}`,
    },
  )
}

// `weir completions bash|zsh|fish`: a script that completes commands and options, made from the definition of the
// command line.

/** A command for completion: its path, and what may follow it. */
interface Completable {
  /** The words after `weir`, such as `keys create`; empty for `weir`. */
  readonly path: string
  /** Names of subcommands, and every option in its long form. */
  readonly words: readonly string[]
}

const shells = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof shells)[number]

/** The script for a shell's start-up file. Throws CommandFailure (usage) for an unknown shell. */
export function completionScript(shell: string, weir: Command): string {
  const known = shells.find((name): name is Shell => name === shell)
  if (known === undefined) throw usageFault(`completions are written for ${shells.join(', ')}, not ${shell}`)
  const commands = completable(weir)
  return known === 'fish' ? fishScript(commands) : bashScript(commands, known)
}

function completable(command: Command, path: readonly string[] = []): readonly Completable[] {
  const options = command.createHelp()
  const words = [
    ...options.visibleCommands(command).map((child) => child.name()),
    ...[...options.visibleOptions(command), ...options.visibleGlobalOptions(command)].flatMap(
      ({ long }) => long ?? [],
    ),
  ]
  return [
    { path: path.join(' '), words: [...new Set(words)] },
    ...command.commands.flatMap((child) => completable(child, [...path, child.name()])),
  ]
}

/** The longest known path among the typed words decides; zsh runs the same script with its bash emulation. */
function bashScript(commands: readonly Completable[], shell: 'bash' | 'zsh'): string {
  const cases = commands.map(({ path, words }) => `    '${path}') words='${words.join(' ')}' ;;`)
  const known = commands.flatMap(({ path }) => (path === '' ? [] : [`'${path}'`]))
  return [
    ...(shell === 'zsh' ? ['autoload -U +X bashcompinit && bashcompinit'] : []),
    '_weir() {',
    '  local path="" word words',
    '  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
    '    case "${path:+$path }$word" in',
    `      ${known.join('|')}) path="\${path:+$path }$word" ;;`,
    '    esac',
    '  done',
    '  case "$path" in',
    ...cases,
    '  esac',
    '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _weir weir',
    '',
  ].join('\n')
}

function fishScript(commands: readonly Completable[]): string {
  const lines = commands.flatMap(({ path, words }) => {
    const children = words.filter((word) => !word.startsWith('--'))
    const seen = path === '' ? [] : path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`)
    // A group's commands are offered until one of them has been typed.
    const open = children.length > 0 ? [`not __fish_seen_subcommand_from ${children.join(' ')}`] : []
    const condition = [...seen, ...open].join('; and ')
    const when = condition === '' ? '' : ` -n '${condition}'`
    return words.map((word) =>
      word.startsWith('--')
        ? `complete -c weir${when} -l ${word.slice(2)}`
        : `complete -c weir -f${when} -a ${word}`,
    )
  })
  return `${lines.join('\n')}\n`
}

// `weir config check|show`

/** Checks the configuration. Faults are the result here, so with --json they are on standard output, too. */
export async function checkConfig(io: Io, invocation: Invocation): Promise<void> {
  const json = invocation.flag('json')
  const env = await io.environment()
  const loaded = loadConfig({ flags: configFlags(invocation), env, cwd: io.cwd, readFile: readTextFile })
  const unsold =
    loaded.kind === 'loaded' ? unsoldModels(loaded.config, catalogInUse(loaded.config, io.clock)) : []
  const warnings = [...loaded.warnings, ...unsold].map(({ name, problem }) => ({ name, problem }))
  if (!json) for (const { name, problem } of warnings) io.err(`warning: ${name} ${problem}\n`)
  if (loaded.kind === 'loaded') {
    const text = `the configuration is good (${loaded.file ?? 'no file, defaults and environment only'})`
    print({ io, json }, { json: { ok: true, file: loaded.file ?? null, faults: [], warnings }, text })
    return
  }
  if (json) {
    const faults = loaded.faults.map(({ path, problem, nearest, origin }) => ({
      path,
      problem,
      nearest: nearest ?? null,
      origin: origin ? printedOrigin(origin) : null,
    }))
    print({ io, json }, { json: { ok: false, file: null, faults, warnings }, text: '' })
  }
  throw new CommandFailure(`bad configuration:\n${renderFaults(loaded.faults)}`, exitCodes.badConfiguration)
}

/** Every setting with its value and source; secrets are masked. */
export async function showConfig(context: Context): Promise<void> {
  const shown = shownSettings(context.loaded)
  const file = context.loaded.file ?? null
  print(context, { json: { file, settings: shown }, text: renderSettings(shown) })
}

/** The settings of this name, or whose names have it as a part: what they mean, and their values here. Throws a usage fault. */
export async function explainSetting(context: Context, invocation: Invocation): Promise<void> {
  const key = invocation.args[0] ?? ''
  const nameOf = (setting: Setting) => setting.path.join('.')
  // A provider's id may stand where the list has a star.
  const exact = settingAt(key.split('.'))
  const found = exact === undefined ? settings().filter((one) => nameOf(one).includes(key)) : [exact]
  if (found.length === 0) {
    const near = new NearIds(settings().map(nameOf)).nearest(key)
    const hint = near.length === 0 ? '' : `; did you mean ${near.join(' or ')}?`
    throw usageFault(`there is no setting ${key}${hint}`)
  }
  const shown = new Map(shownSettings(context.loaded).map((one) => [one.path, one]))
  const explained = found.map((setting) => {
    const name = exact === undefined ? nameOf(setting) : key
    const here = shown.get(name)
    return {
      key: name,
      meaning: setting.description,
      default: setting.fallback ?? null,
      env: here?.env ?? setting.env,
      value: here?.value ?? null,
      origin: here?.origin ?? null,
    }
  })
  const text = explained.map(
    (one) =>
      `${one.key}\n  ${one.meaning}\n  default: ${one.default === null ? '-' : JSON.stringify(one.default)}\n` +
      `  environment: ${one.env}${one.origin === null ? '' : `\n  here: ${JSON.stringify(one.value)} (${one.origin})`}`,
  )
  print(context, { json: explained, text: text.join('\n\n') })
}

/** Lists the pages of the guide, or prints one as Markdown. Throws a usage fault for a page that there is not. */
export async function printGuide(io: Io, invocation: Invocation): Promise<void> {
  const { guideFiles, guidePage, guideParts } = await import('../../guide/pages.ts')
  const [name] = invocation.args
  const [, file] = Object.entries(guideFiles).find(([of]) => of === name || of.startsWith(`${name}.`)) ?? []
  if (file !== undefined) return io.out(file.text)
  const page = name === undefined ? undefined : guidePage(name)
  if (name !== undefined && page === undefined) {
    throw usageFault(`there is no page ${name}: weir guide lists them`)
  }
  if (invocation.flag('json')) {
    const list = guideParts.map((part) => ({
      ...part,
      pages: part.pages.map((one) => ({ name: one.name, title: one.title })),
    }))
    return io.out(jsonLine(page ?? list))
  }
  if (page !== undefined) return io.out(page.text)
  const width = Math.max(...guideParts.flatMap(({ pages }) => pages.map((one) => one.name.length)))
  for (const { title, about, pages } of guideParts) {
    io.out(`${title}: ${about}\n`)
    for (const one of pages) io.out(`  ${one.name.padEnd(width)}  ${one.title}\n`)
    io.out('\n')
  }
  io.out(`Files: ${Object.keys(guideFiles).join(', ')}\n\n`)
  io.out('weir guide PAGE prints one. The same is at /docs of a running gateway.\n')
}

/**
 * Has the running server read its configuration again. Throws CommandFailure if none runs, and 78 with all faults; then
 * the configuration in force stays.
 */
export async function reloadConfig(context: Context, invocation: Invocation): Promise<void> {
  const { data_dir } = context.config
  if (runningServer(data_dir) === undefined)
    throw new CommandFailure(`no server runs on ${data_dir}: the next start reads the configuration`)
  const { applied = false, changes } = await askServer(context, 'reload', {
    dry_run: invocation.flag('dryRun'),
  })
  const head = changes.length === 0 ? 'nothing has changed' : applied ? 'in force now:' : 'would change:'
  print(context, { json: { applied, changes }, text: [head, ...linesOf(changes)].join('\n') })
}

/**
 * Takes back the latest change that was made by the API or in the console: by the running server, which has it in force
 * at once, else in the database, where the next start finds it. Throws GatewayError, or CommandFailure of the server's
 * words, where there is nothing to take back.
 */
export async function undoConfig(context: Context): Promise<void> {
  if (runningServer(context.config.data_dir) !== undefined) {
    const { revision = 0, changes } = await askServer(context, 'undo', {})
    const head = `revision ${revision}, in force now:`
    return print(context, { json: { revision, changes }, text: [head, ...linesOf(changes)].join('\n') })
  }
  const { consoleSettingsOf } = await import('../../serve/gateway/configuration.ts')
  await withStore(context, async (store) => {
    const kept = consoleSettingsOf(store.settings, context.config)
    const [present, previous] = [await kept.latest(), await kept.previous()]
    const revision = await kept.restore(present, previous, {
      at: context.io.clock(),
      operator: commandLineOperator(),
      what: 'config.undo',
      subject: `revision ${present.revision + 1}`,
      before: null,
      after: null,
    })
    const text = `revision ${revision}, in force at the next start`
    print(context, { json: { revision, changes: [] }, text })
  })
}

/** Has the running server do something with its configuration. Throws CommandFailure, 78 for one with faults. */
async function askServer(context: Context, what: 'reload' | 'undo', body: object) {
  const origin = new URL(runningServer(context.config.data_dir) ?? '').origin
  const { status, json } = await withOperatorKey(context, `weir config ${what}`, async (key) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const address = `${origin}/admin/v1/config/${what}`
    const asked = { method: 'POST', headers, body: JSON.stringify(body) }
    const response = await fetchBounded(address, asked, mostAnswerBytes)
    return { status: response.status, json: configAnswer.parse(await response.json()) }
  })
  const { error, ...answer } = json
  if (error === undefined) return answer
  throw new CommandFailure(error.message, status === 400 ? exitCodes.badConfiguration : exitCodes.failed)
}

function linesOf(changes: z.infer<typeof configAnswer>['changes']): string[] {
  return changes.map(({ setting, restart }) => `${setting}${restart ? '  (at the next start)' : ''}`)
}

/** Of an answer that names every setting. */
const mostAnswerBytes = 16 * 1024 * 1024

const configAnswer = z.object({
  applied: z.boolean().optional(),
  revision: z.number().optional(),
  changes: z
    .array(z.object({ setting: z.string(), from: z.unknown(), to: z.unknown(), restart: z.boolean() }))
    .default([]),
  error: z.object({ message: z.string() }).optional(),
})
