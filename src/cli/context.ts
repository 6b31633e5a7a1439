// Every command: how commander calls it, its output, its configuration, and how it fails.

import { lchownSync, lstatSync, readdirSync, statSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { Command } from 'commander'
import type { Config, ConfigInputs, Environment, LoadedConfig } from '../config/config.ts'

/** Exit codes are a contract with scripts. */
export const exitCodes = { ok: 0, failed: 1, usage: 2, badConfiguration: 78 } as const
type ExitCode = (typeof exitCodes)[keyof typeof exitCodes]

/** The process; tests have their own. */
export interface Io {
  /** Standard output, for results. */
  out(text: string): void
  /** Standard error, for messages to people. */
  err(text: string): void
  readonly cwd: string
  /** Whether standard output is a terminal. */
  readonly terminal?: boolean
  /** Milliseconds since 1970. */
  clock(): number
  environment(): Promise<Environment>
  /** All of standard input as text. */
  input(): Promise<string>
  /** Asks the person at the terminal for a line; undefined where there is none. `secret` answers are not shown. */
  readonly ask?: ((question: string, shows: 'shown' | 'secret') => Promise<string>) | undefined
}

export interface Context {
  readonly io: Io
  readonly config: Config
  readonly loaded: LoadedConfig & { readonly kind: 'loaded' }
  readonly env: Environment
  /** Whether the user named the configuration file; otherwise it is the one that lies in the working directory. */
  readonly namedFile: boolean
  /** Machine output was requested: standard output has only JSON. */
  readonly json: boolean
}

/** The options and arguments of a command as typed. */
export interface Invocation {
  readonly args: readonly string[]
  option(name: string): string | undefined
  flag(name: string): boolean
  /** An option that may be given more than once. */
  options(name: string): readonly string[]
}

/** Ends a command with a message on standard error and an exit code. */
export class CommandFailure extends Error {
  readonly exitCode: ExitCode

  constructor(message: string, exitCode: ExitCode = exitCodes.failed) {
    super(message)
    this.name = 'CommandFailure'
    this.exitCode = exitCode
  }
}

/** A wrong argument, as opposed to a command that failed. */
export function usageFault(message: string): CommandFailure {
  return new CommandFailure(message, exitCodes.usage)
}

/** Loads the configuration for a command. Throws CommandFailure 78 with every fault in its message. */
export async function contextFor(io: Io, invocation: Invocation): Promise<Context> {
  const { loadConfig, readTextFile, renderFaults, serviceFile } = await import('../config/config.ts')
  const env = await io.environment()
  const loaded = loadConfig({ flags: configFlags(invocation), env, cwd: io.cwd, readFile: readTextFile })
  if (loaded.kind === 'faulty') {
    throw new CommandFailure(`bad configuration:\n${renderFaults(loaded.faults)}`, exitCodes.badConfiguration)
  }
  const namedFile =
    invocation.option('config') !== undefined ||
    isAbsolutePath(env['WEIR_CONFIG']) ||
    loaded.file === serviceFile
  return { io, config: loaded.config, loaded, env, namedFile, json: invocation.flag('json') }
}

function isAbsolutePath(path: string | undefined): boolean {
  return path !== undefined && (path.startsWith('~') || isAbsolute(path))
}

/**
 * What root has made in a data directory of somebody else becomes theirs: the service could not open it. Nothing that its
 * owner could have put there in the place of another file is touched.
 */
export function leaveFilesToOwner(dataDir: string): void {
  if (process.getuid?.() !== 0) return
  try {
    const { uid, gid } = statSync(dataDir)
    if (uid === 0) return
    for (const name of readdirSync(dataDir)) {
      const path = join(dataDir, name)
      const found = lstatSync(path)
      if (found.isFile() && found.uid === 0 && found.nlink === 1) lchownSync(path, uid, gid)
    }
  } catch {
    // There is no such folder, or a file is gone again.
  }
}

/** The options that are settings. */
export function configFlags(invocation: Invocation): ConfigInputs['flags'] {
  return {
    config: invocation.option('config'),
    data_dir: invocation.option('dataDir'),
    'server.host': invocation.option('host'),
    'server.port': invocation.option('port'),
    'server.processes': invocation.option('processes'),
  }
}

/** Prints a result: JSON for machines, text for people. */
export function print(context: Pick<Context, 'io' | 'json'>, result: { json: unknown; text: string }): void {
  context.io.out(context.json ? jsonLine(result.json) : `${visible(result.text)}\n`)
}

/** A value as one line of JSON. */
export function jsonLine(value: unknown): string {
  return `${visibleJson(JSON.stringify(value))}\n`
}

/** Rows as aligned columns under their headings. */
export function table(headings: readonly string[], given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(visibleInLine))
  const widths = headings.map((heading, at) =>
    Math.max(heading.length, ...rows.map((row) => row[at]?.length ?? 0)),
  )
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('  ')
      .trimEnd()
  return [line(headings), ...rows.map(line)].join('\n')
}

/** A moment as ISO text; null stays null. */
export function isoTime(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString()
}

// Text of others, made harmless for a terminal, which obeys control characters.

/** The C0 controls without tabs and line breaks (also those of CSV), DEL and the C1 controls. */
// oxlint-disable-next-line no-control-regex -- these are what must not pass
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]|\r(?!\n)/g
/** What JSON.stringify leaves of them. */
const controlsInJson = /[\u007f-\u009f]/g

/** The text with its control characters written as `\u001b`; tabs and line breaks stay. */
export function visible(text: string): string {
  return text.replace(controls, escapeControl)
}

/** The same within one line: tabs and line breaks are escaped, too. */
export function visibleInLine(text: string): string {
  return visible(text).replace(/[\t\r\n]/g, escapeControl)
}

/** JSON text of the same value without any control character. */
function visibleJson(json: string): string {
  return json.replace(controlsInJson, escapeControl)
}

function escapeControl(control: string): string {
  return `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`
}

// A command as commander has it: its name and description, and the action that is loaded when it is called.

/** Adds a command to a group of them. */
export function command(group: Command, name: string, description: string): Command {
  return group.command(name).description(description)
}

type Action = (context: Context, invocation: Invocation) => Promise<void> | void

/** The names of those exports of a file that are actions. */
type ActionName<File> = keyof { [Name in keyof File as File[Name] extends Action ? Name : never]: unknown }

/**
 * The actions of a file of commands, by name, as commander calls them: with the loaded configuration and the options of
 * the command line. The file is loaded when one of them is called.
 */
export function actionsOf<File>(io: Io, load: () => Promise<File>, contextOf = contextFor) {
  return (name: ActionName<File> & keyof File) =>
    async (...given: unknown[]) => {
      const invocation = invocationOf(given)
      const context = await contextOf(io, invocation)
      const action = (await load())[name] as Action
      for (const warning of context.loaded.warnings)
        context.io.err(`warning: ${warning.name} ${warning.problem}\n`)
      try {
        await action(context, invocation)
      } finally {
        leaveFilesToOwner(context.config.data_dir)
      }
    }
}

/** Commander passes the arguments, then the options, then the command. */
export function invocationOf(given: readonly unknown[]): Invocation {
  const called = given.at(-1)
  const options: Record<string, unknown> = called instanceof Command ? called.optsWithGlobals() : {}
  return {
    args: given
      .slice(0, -2)
      .flatMap((arg) => (Array.isArray(arg) ? arg.map(String) : typeof arg === 'string' ? [arg] : [])),
    option(name) {
      const value = options[name]
      return typeof value === 'string' ? value : undefined
    },
    flag: (name) => options[name] === true,
    options: (name) => [options[name] ?? []].flat().map(String),
  }
}
