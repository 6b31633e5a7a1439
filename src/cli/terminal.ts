// A question to the person at the terminal.

import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'

/** Prints the question on standard error and reads a line. Of a `secret` answer nothing is shown. */
export async function askTerminal(question: string, shows: 'shown' | 'secret'): Promise<string> {
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
