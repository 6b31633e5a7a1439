// One life of a worker's process, as the ledger's process sees it.

import type { Environment } from '../../config/read/environment.ts'
import { ownCommand } from '../relaunch.ts'
import { connectLink } from './link/connect.ts'
import type { Link } from './link/link.ts'
import type { WorkerAnswers, WorkerHears } from './protocol.ts'

export interface SpawnParts {
  readonly env: Environment
  /** What the worker may ask for. */
  readonly handlers: object
  readonly failed: (what: string, error: unknown) => void
}

export interface WorkerProcess {
  readonly pid: number
  readonly link: Link<WorkerAnswers, WorkerHears>
  /** Resolves when the process has ended, and what it had sent is carried out; with how it ended. */
  readonly ended: Promise<string>
  kill(): void
}

const settleMs = 1_000

/** Starts a worker, which then waits for its `start`. */
export async function spawnWorker({ env, handlers, failed }: SpawnParts): Promise<WorkerProcess> {
  const child = Bun.spawn([...ownCommand(), 'worker'], {
    // Were this process to hang or be killed, the worker would not live on.
    env: { ...env, BUN_OPTIONS: [env['BUN_OPTIONS'], '--no-orphans'].filter(Boolean).join(' ') },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const closed = Promise.withResolvers<void>()
  const link = await connectLink<WorkerAnswers, WorkerHears>({
    fd: child.stdio[3]!,
    handlers,
    failed,
    closed: closed.resolve,
  })
  // A link that broke while the process lives is its end: it could charge nothing any more.
  void closed.promise.then(() => child.kill('SIGKILL'))
  const ended = Promise.all([child.exited, closed.promise]).then(async () => {
    // Something of it may wait for strangers, such as the server of a token: its calls do not wait for that.
    await Promise.race([link.settled(), Bun.sleep(settleMs)])
    return String(child.signalCode ?? `exit code ${child.exitCode}`)
  })
  return { pid: child.pid, link, ended, kill: () => child.kill('SIGKILL') }
}
