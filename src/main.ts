// The command line of the executable. It exports nothing and loads no more than the command needs.

import { leaveDotenv, raiseFetchLimit } from './serve/relaunch.ts'
import { readEnvironment } from './config/read/environment.ts'

// Before anything else is loaded: a process that replaces itself must not have begun to work.
leaveDotenv(readEnvironment(), process.cwd())
if (process.argv.slice(2).includes('serve')) raiseFetchLimit(readEnvironment())

const { runCli } = await import('./cli/program.ts')

// A reader that has seen enough (`weir models | head`) is no failure.
process.stdout.on('error', (error: Error & { code?: string }) => {
  if (error.code === 'EPIPE') process.exit(0)
  process.stderr.write(`weir: standard output cannot be written: ${error.message}\n`, () => process.exit(1))
})

// A closed terminal must not end calls either: the log just goes unread.
process.stderr.on('error', () => undefined)

process.exitCode = await runCli(process.argv.slice(2), {
  out: (text) => void process.stdout.write(text),
  err: (text) => void process.stderr.write(text),
  cwd: process.cwd(),
  terminal: process.stdout.isTTY === true,
  clock: Date.now,
  environment: () => Promise.resolve(readEnvironment()),
  input: () => Bun.stdin.text(),
  ask:
    process.stdin.isTTY && process.stderr.isTTY
      ? async (question, shows) => (await import('./cli/terminal.ts')).askTerminal(question, shows)
      : undefined,
})
