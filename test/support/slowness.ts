// How much slower than at its best the machine is at the moment, by a process that does the same work again and again.

export async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of stream) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

/** A process beside that answers line by line. */
export function startChild(script: string, args: readonly unknown[] = []) {
  const command = [process.execPath, script, ...args.map(String)]
  const child = Bun.spawn(command, { stdin: 'pipe', stdout: 'pipe', stderr: 'inherit' })
  return { child, lines: linesOf(child.stdout) }
}

export function startControl() {
  const { child, lines } = startChild(`${import.meta.dir}/slowness-child.ts`)
  return {
    /** How much slower than at its best the machine has been since the last time. */
    async slowness(): Promise<number> {
      await child.stdin.write('\n')
      return Number((await lines.next()).value)
    },
    stop: () => void child.stdin.end(),
  }
}
