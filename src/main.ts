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
  ask: process.stdin.isTTY && process.stderr.isTTY ? askTerminal : undefined,
})

/** Prints the question on standard error and reads a line. Of a `secret` answer nothing is shown. */
async function askTerminal(question: string, shows: 'shown' | 'secret'): Promise<string> {
  const [{ createInterface }, { Writable }] = await Promise.all([
    import('node:readline/promises'),
    import('node:stream'),
  ])
  process.stderr.write(question)
  const output =
    shows === 'shown'
      ? process.stderr
      : new Writable({ write: (_chunk, _encoding, done: () => void) => done() })
  const lines = createInterface({ input: process.stdin, output, terminal: true })
  const abort = new AbortController()
  // The end of the input is an empty answer, as Enter is.
  lines.once('close', () => abort.abort())
  try {
    return await lines.question('', { signal: abort.signal })
  } catch (thrown) {
    if (abort.signal.aborted) return ''
    throw thrown
  } finally {
    lines.close()
    if (shows === 'secret') process.stderr.write('\n')
  }
}
