// A worker process, from the ledger's process.

import { existsSync } from 'node:fs'
import { settledWithin } from '../../awaitable.ts'
import type { Environment } from '../../config/read/environment.ts'
import { ownCommand } from '../relaunch.ts'
import { connectLink } from './link/connect.ts'
import type { Link } from './link/link.ts'
import type { WorkerRequests, WorkerNotifications } from './protocol.ts'

export interface SpawnParts {
  readonly env: Environment
  /** Handlers for the worker's requests. */
  readonly handlers: object
  readonly failed: (what: string, error: unknown) => void
}

export interface WorkerProcess {
  readonly pid: number
  readonly link: Link<WorkerRequests, WorkerNotifications>
  /** Resolves with the exit code or signal when the process has exited and its last messages have been handled. */
  readonly ended: Promise<string>
  kill(): void
}

const settleMs = 1_000

/** Starts a worker process, which then waits for `start`. */
export async function spawnWorker({ env, handlers, failed }: SpawnParts): Promise<WorkerProcess> {
  const [program, ...before] = ownCommand()
  const child = Bun.spawn([runningProgram() ?? program, ...before, 'worker'], {
    // With `--no-orphans` the worker exits if this process is killed.
    env: { ...env, BUN_OPTIONS: [env['BUN_OPTIONS'], '--no-orphans'].filter(Boolean).join(' ') },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const closed = Promise.withResolvers<void>()
  const link = await connectLink<WorkerRequests, WorkerNotifications>({
    fd: child.stdio[3]!,
    handlers,
    failed,
    closed: closed.resolve,
  })
  // Without the link the worker could not charge anything, so it is killed.
  void closed.promise.then(() => child.kill('SIGKILL'))
  const ended = Promise.all([child.exited, closed.promise]).then(async () => {
    // A handler may be waiting for another server, such as that of a token. Clean-up does not wait for it.
    await settledWithin(settleMs, link.whenSettled())
    return String(child.signalCode ?? `exit code ${child.exitCode}`)
  })
  return { pid: child.pid, link, ended, kill: () => child.kill('SIGKILL') }
}

/**
 * This program as it runs: its file may have been replaced by that of another version, whose workers would speak and
 * charge differently. Undefined where the system does not show it.
 */
function runningProgram(): string | undefined {
  const running = `/proc/${process.pid}/exe`
  return existsSync(running) ? running : undefined
}
