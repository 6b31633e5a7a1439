// Records acts at the command line. Whoever can run it on the data directory is an operator, identified by the system's
// user name.

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

/** A container may run as a user id without a name. */
function systemUser(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}
