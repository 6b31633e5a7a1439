// Calls a command's action from commander, with the loaded configuration and the command line's options.

import { Command } from 'commander'
import { type Context, contextFor, type Invocation, type Io } from './context.ts'

export type Action = (context: Context, invocation: Invocation) => Promise<void>

/** Gives a command an action that gets the loaded configuration. */
export function ready(command: Command, io: Io, action: Action): void {
  command.action(async (...given: unknown[]) => {
    const invocation = invocationOf(given)
    await runAction(await contextFor(io, invocation), invocation, action)
  })
}

/** The same for an action that calls a gateway: its configuration is the user's, and not that of the working directory. */
export function readyForClient(command: Command, io: Io, action: Action): void {
  command.action(async (...given: unknown[]) => {
    const { clientContextFor } = await import('./gateway-address.ts')
    const invocation = invocationOf(given)
    await runAction(await clientContextFor(io, invocation), invocation, action)
  })
}

async function runAction(context: Context, invocation: Invocation, action: Action): Promise<void> {
  for (const { name, problem } of context.loaded.warnings) context.io.err(`warning: ${name} ${problem}\n`)
  await action(context, invocation)
}

/** Commander passes the arguments, then the options, then the command. */
export function invocationOf(given: readonly unknown[]): Invocation {
  const command = given.at(-1)
  const options: Record<string, unknown> = command instanceof Command ? command.optsWithGlobals() : {}
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
