// Starts the gateway as its users do, in a process and a data directory of its own, and takes it down again.

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { unhandled } from '../../src/serve/listen.ts'
import { type CommandResult, runInside } from './run-inside.ts'
import { tempDir } from './tmp.ts'

const root = resolve(import.meta.dir, '../..')
const binary = resolve(root, 'dist/weir')

/** The command that runs Weir: the executable when it has been built, else its source. */
export const weirCommand: readonly string[] = existsSync(binary)
  ? [binary]
  : [process.execPath, resolve(root, 'src/main.ts')]

export interface WeirOptions {
  /** Text of `weir.yaml`. */
  readonly config?: string
  /** An existing data directory, which then stays; a fresh one is made and removed otherwise. */
  readonly dataDir?: string
  readonly env?: Readonly<Record<string, string>>
  /** More arguments of `serve`. */
  readonly args?: readonly string[]
  /** Another program than the one built here. */
  readonly command?: readonly string[]
  /** Runs the whole command, as `taskset -c 0` does. */
  readonly prefix?: readonly string[]
}

/** A gateway that is served, wherever it runs. */
export interface ServedWeir {
  /** `http://127.0.0.1:<port>/v1`. */
  readonly baseUrl: string
  /** `http://127.0.0.1:<port>`. */
  readonly origin: string
  readonly port: number
  readonly dataDir: string
  /** The key that the first run printed; empty when the data directory was not new. */
  readonly key: string
  /** All it has printed so far, on both streams. */
  output(): string
  /** Runs another subcommand on the same data directory and configuration, beside the server, in this process. */
  command(...args: string[]): Promise<CommandResult>
  /** Asks it to stop, waits, and gives its exit code. A process gets SIGTERM, and is killed after ten seconds. */
  stop(): Promise<number>
  [Symbol.asyncDispose](): Promise<void>
}

export interface RunningWeir extends ServedWeir {
  readonly pid: number
  /** From the start of the process to its first answer, in milliseconds. */
  readonly startMs: number
  /** SIGKILL: what a power cut looks like. Resolves when the process is gone. */
  kill(): Promise<void>
  /** Resolves when the process is gone, whoever ended it, and all it has printed is there. */
  readonly exited: Promise<void>
}

const startTimeoutMs = 20_000
const stopTimeoutMs = 10_000

/** Starts `weir serve` and waits until it answers. Throws with all it printed when it does not. */
export async function startWeir(options: WeirOptions = {}): Promise<RunningWeir> {
  const home = tempDir('weir-run-')
  const dataDir = options.dataDir ?? home.join('data')
  const config = home.join('weir.yaml')
  mkdirSync(dataDir, { recursive: true })
  const isNew = readdirSync(dataDir).length === 0
  writeFileSync(config, options.config ?? '')
  const port = await freePort()
  const shared = ['--data-dir', dataDir, '--config', config]
  const env = environment(home.path, options.env)

  const started = performance.now()
  const child = Bun.spawn(
    [
      ...(options.prefix ?? []),
      ...(options.command ?? weirCommand),
      'serve',
      '--host',
      '127.0.0.1',
      '--port',
      String(port),
      ...shared,
      ...(options.args ?? []),
    ],
    { cwd: home.path, env, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' },
  )
  const printed = { text: '' }
  const gathered = [gather(child.stdout, printed), gather(child.stderr, printed)]
  const exited = Promise.all([child.exited, ...gathered]).then(() => undefined)

  const kill = async () => {
    child.kill('SIGKILL')
    await exited
  }
  const stop = async () => {
    child.kill('SIGTERM')
    const timer = setTimeout(() => child.kill('SIGKILL'), stopTimeoutMs)
    const code = await child.exited
    clearTimeout(timer)
    home.remove()
    await Promise.all(gathered)
    if (printed.text.includes(unhandled)) throw new Error(`a fault of the gateway's own:\n${printed.text}`)
    return code
  }

  const origin = `http://127.0.0.1:${port}`
  let startMs = 0
  try {
    await answering(origin, child)
    startMs = performance.now() - started
    if (isNew) await until(() => keyIn(printed.text) !== undefined, child)
  } catch (cause) {
    await kill()
    home.remove()
    throw new Error(`weir did not start:\n${printed.text}`, { cause })
  }
  return {
    baseUrl: `${origin}/v1`,
    origin,
    port,
    pid: child.pid,
    dataDir,
    startMs,
    key: keyIn(printed.text) ?? '',
    output: () => printed.text,
    command: (...args) => {
      const all = [...args, ...shared]
      // One that is to die at a failpoint takes its process with it.
      return 'WEIR_TEST_FAILPOINT' in env
        ? runWeir(all, { cwd: home.path, env })
        : runInside(all, home.path, env)
    },
    stop,
    kill,
    exited,
    [Symbol.asyncDispose]: async () => {
      await stop()
    },
  }
}

/** Runs one subcommand to its end. */
export async function runWeir(
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<CommandResult> {
  const cwd = options.cwd ?? root
  const child = Bun.spawn([...weirCommand, ...args], {
    cwd,
    env: options.env ?? environment(cwd),
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { code, stdout, stderr }
}

/** No provider key and no setting of the person who runs the tests reaches the gateway. */
function environment(home: string, extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  return {
    PATH: process.env['PATH'] ?? '',
    HOME: home,
    // Were the tests killed, the gateway would live on without this.
    BUN_OPTIONS: '--no-orphans',
    // It would take a fifth of a second of each start.
    WEIR_SERVER_WARM_UP: 'false',
    ...extra,
  }
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return port
}

async function gather(stream: ReadableStream<Uint8Array>, into: { text: string }): Promise<void> {
  const decoder = new TextDecoder()
  for await (const bytes of stream) into.text += decoder.decode(bytes, { stream: true })
}

function keyIn(text: string): string | undefined {
  return /\bsk-weir-(?:live|test)-[A-Za-z0-9-]+/.exec(text)?.[0]
}

async function answering(origin: string, child: Bun.Subprocess): Promise<void> {
  await until(
    () =>
      fetch(`${origin}/healthz`).then(
        async (response) => {
          await response.arrayBuffer()
          return response.ok
        },
        () => false,
      ),
    child,
  )
}

/** Waits for something outside this process to be so; gives up when the child exits or the time is over. */
async function until(holds: () => boolean | Promise<boolean>, child: Bun.Subprocess): Promise<void> {
  const deadline = performance.now() + startTimeoutMs
  while (!(await holds())) {
    const end = child.exitCode ?? child.signalCode
    if (end !== null) throw new Error(`it exited with ${end}`)
    if (performance.now() > deadline) throw new Error('it did not answer in time')
    await Bun.sleep(1)
  }
}
