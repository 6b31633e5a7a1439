// Records acts at the command line. Whoever can run it on the data directory is an operator, identified by the system's
// user name.

import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import type { Context } from './context.ts'
import type { CommandStore } from './with-store.ts'

/** Records an act on `subject`, with the state before and after. */
export async function recordAct(
  { io }: Pick<Context, 'io'>,
  { acts }: Pick<CommandStore, 'acts'>,
  what: string,
  subject: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  await acts.record({ at: io.clock(), operator: commandLineOperator(), what, subject, before, after })
}

/** Whoever runs the command, as the log of acts names them. */
export function commandLineOperator(): string {
  return `cli:${systemUser()}`
}

/**
 * Bun's `userInfo` gives what the variable USER says, which anybody sets, and cron, services and containers leave out. A
 * container may run as a user id without a name.
 */
function systemUser(): string {
  const id = process.getuid?.()
  const name = (id === undefined ? undefined : nameOf(id)) ?? userInfo().username
  return name === '' || name === 'unknown' ? String(id ?? 'unknown') : name
}

/** The name of a user in this machine's own list; users of a directory service are not in it. */
function nameOf(id: number): string | undefined {
  try {
    const users = readFileSync('/etc/passwd', 'utf8').split('\n')
    return users.map((line) => line.split(':')).find(([, , userId]) => userId === String(id))?.[0]
  } catch {
    return undefined
  }
}
