// Acts at the command line: anybody who can run it on the data directory is an operator, identified by the system's
// user name.

import { userInfo } from 'node:os'
import type { Context } from './context.ts'
import type { CommandStore } from './with-store.ts'

/** Records what was done to `subject`, and its state before and after. */
export async function recordAct(
  { io }: Pick<Context, 'io'>,
  { acts }: Pick<CommandStore, 'acts'>,
  what: string,
  subject: string,
  before: unknown,
  after: unknown,
): Promise<void> {
  await acts.record({ at: io.clock(), operator: `cli:${systemUser()}`, what, subject, before, after })
}

/** A container may run as a user id that has no name. */
function systemUser(): string {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? 'unknown')
  }
}
