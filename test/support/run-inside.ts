// Commands, run without a process of their own: to start one takes longer than what most of them do.

import { runCli } from '../../src/cli/program.ts'

export interface CommandResult {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs one subcommand to its end, in this process. */
export async function runInside(
  args: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<CommandResult> {
  const ran = { stdout: '', stderr: '' }
  const code = await runCli(args, {
    out: (text) => void (ran.stdout += text),
    err: (text) => void (ran.stderr += text),
    cwd,
    clock: Date.now,
    environment: () => Promise.resolve(env),
    input: () => Promise.resolve(''),
  })
  return { code, ...ran }
}
