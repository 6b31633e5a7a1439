// A command as commander has it: its name and description, and the action that is loaded when it is called.

import { Command } from 'commander'
import { type Context, contextFor, type Invocation, type Io, leaveFilesToOwner } from './context.ts'

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

/** The same for commands that call a gateway: their configuration is the user's, and not that of the working directory. */
export function clientActionsOf<File>(io: Io, load: () => Promise<File>) {
  return actionsOf(io, load, async (...asked) =>
    (await import('./gateway-address.ts')).clientContextFor(...asked),
  )
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
