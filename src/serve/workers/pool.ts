// The worker processes of a gateway: starts them, replaces one that dies, and stops them.

import { settledWithin } from '../../awaitable.ts'
import type { CatalogFile } from '../../catalog/row.ts'
import { GatewayError } from '../../errors.ts'
import type { Environment } from '../../config/read/environment.ts'
import type { Config } from '../../config.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'
import type { Shared } from '../gateway/gateway.ts'
import type { WorkerViews } from '../gateway/gateway-parts.ts'
import { ledgerHandlers, type LedgerHandlers } from './handlers.ts'
import { mergedHealth } from './merged-health.ts'
import { spawnWorker, type WorkerProcess } from './process.ts'
import { workerConfig } from './worker-config.ts'

export interface WorkerPoolParts {
  readonly config: Config
  readonly log: Log
  readonly env: Environment
  /** Milliseconds since 1970. */
  readonly clock: () => number
  readonly store: Store
  readonly shared: Shared
  readonly catalog: CatalogFile
  /** The port that the workers listen on. */
  readonly port: number
  /** The socket on which this process takes requests that workers forward. */
  readonly forwardTo: string
}

/** After a life shorter than this, milliseconds, the next worker starts only after a pause. */
const shortLifeMs = 5_000
const pauseMs = 1_000
/** How long workers may take to exit after the time for their calls is over, before they are killed. */
const endMs = 8_000
/** How long a worker may take to answer `views`, for which console pages wait. */
const answerMs = 1_000

export class WorkerPool {
  /** By their owner name in holds. */
  readonly #alive = new Map<string, WorkerProcess>()
  #servers: readonly LocalServer[] = []
  #stopping = false
  readonly #running: Promise<void>[] = []
  /** One for each worker and change of which it has not heard yet. */
  readonly #hearing = new Set<Promise<void>>()

  /** Whether the worker with this owner name in holds is alive; also true until its clean-up has begun. */
  isAlive(owner: string): boolean {
    return this.#alive.has(owner)
  }

  /** To be called when accounts, keys or sessions may have changed. */
  accountsChanged(): void {
    for (const { link } of this.#alive.values()) {
      // A worker that has died refuses everything.
      const heard = link.request('accountsChanged').catch(() => undefined)
      this.#hearing.add(heard)
      void heard.then(() => this.#hearing.delete(heard))
    }
  }

  setLocalServers(servers: readonly LocalServer[]): void {
    this.#servers = servers
    for (const { link } of this.#alive.values()) link.notify('setLocalServers', servers)
  }

  /** The state of all workers, merged. Never rejects: a worker that does not answer is left out. */
  readonly views: WorkerViews = {
    callsOf: async (account) => {
      const calls = await this.#askAll((worker) => worker.link.request('callsOf', account))
      return calls.flat().toSorted((a, b) => a.startedAt - b.startedAt)
    },
    healthOf: async ({ id }, account) => {
      const seen = await this.#askAll((worker) => worker.link.request('healthOf', id, account))
      return mergedHealth(seen.filter((health) => health !== undefined))
    },
    // After this time a worker has forgotten by itself what it had cached.
    everyoneHeard: () => settledWithin(answerMs, Promise.all(this.#hearing)),
    offerRecovered: (offer) => {
      for (const { link } of this.#alive.values()) link.notify('offerRecovered', offer)
    },
  }

  /**
   * Starts `count` workers. If one of them reports why it cannot serve, or all die, it stops the others and rejects. A
   * worker that dies meanwhile is replaced.
   */
  async start(parts: WorkerPoolParts, servers: readonly LocalServer[], count: number): Promise<void> {
    this.#servers = servers
    const starts = Array.from({ length: count }, () => {
      const started = Promise.withResolvers<StartResult>()
      this.#running.push(this.#keepRunning(parts, count, started.resolve))
      return started.promise
    })
    const results = await Promise.all(starts)
    const refused = results.find((each) => each instanceof Error)
    if (refused === undefined && results.includes('serving')) return
    await this.stop(0)
    throw refused ?? new Error('every worker died while it started: the log may say why')
  }

  /** Lets workers finish their calls for at most `withinMs`; resolves when all have exited and are cleaned up. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping = true
    for (const { link } of this.#alive.values()) link.notify('drain')
    const late = setTimeout(() => {
      for (const worker of this.#alive.values()) worker.kill()
    }, withinMs + endMs)
    await Promise.all(this.#running)
    clearTimeout(late)
  }

  /** Keeps one worker running until the pool stops. `started` is called with the result of each start. */
  async #keepRunning(
    parts: WorkerPoolParts,
    count: number,
    started: (how: StartResult) => void,
  ): Promise<void> {
    while (!this.#stopping) {
      const startedAt = performance.now()
      await this.#run(parts, count, started)
      if (!this.#stopping && performance.now() - startedAt < shortLifeMs) await Bun.sleep(pauseMs)
    }
  }

  /** Runs one worker process until it has exited and is cleaned up. Never rejects. */
  async #run(parts: WorkerPoolParts, count: number, started: (how: StartResult) => void): Promise<void> {
    const { config, log, env, store, shared, port, forwardTo, catalog } = parts
    const owner = `gateway_${Bun.randomUUIDv7().replaceAll('-', '')}`
    const holdDurable = (number: number) => this.#alive.get(owner)?.link.notify('holdDurable', number)
    const ledger = ledgerHandlers({ store, shared, holdDurable })
    const onFailure = (what: string, error: unknown) =>
      log.error('a message of a worker failed', { what, error })
    let worker: WorkerProcess
    try {
      worker = await spawnWorker({ env, handlers: ledger.handlers, failed: onFailure })
    } catch (error) {
      log.error('a worker could not be started', { error })
      return started(asError(error))
    }
    // Before its first hold: the holds of owners that are not alive are recovered.
    this.#alive.set(owner, worker)
    try {
      const servers = this.#servers
      await worker.link.request('start', {
        config: workerConfig(config, count),
        owner,
        port,
        forwardTo,
        servers,
        catalog,
      })
      // Changes while it started were not sent to it.
      if (servers !== this.#servers) worker.link.notify('setLocalServers', this.#servers)
      if (this.#stopping) worker.link.notify('drain')
      log.info('a worker serves', { pid: worker.pid })
      started('serving')
    } catch (error) {
      worker.kill()
      const died = error instanceof GatewayError
      if (!died) log.error('a worker cannot serve', { pid: worker.pid, error })
      started(died ? 'died' : asError(error))
    }
    const how = await worker.ended
    await this.#cleanUp(parts, owner, ledger, { pid: worker.pid, how })
  }

  /** Ends what a worker left open: its calls, its Idempotency-Keys, its requests in the rate limits. */
  async #cleanUp(
    { store, log, clock }: WorkerPoolParts,
    owner: string,
    ledger: LedgerHandlers,
    facts: { readonly pid: number; readonly how: string },
  ): Promise<void> {
    this.#alive.delete(owner)
    try {
      const calls = await store.ledger.recover(clock())
      await ledger.cleanUp()
      if (this.#stopping && calls === 0) log.info('a worker has ended', facts)
      else log.warn('a worker has ended; the calls that it left open were ended', { ...facts, calls })
    } catch (error) {
      await ledger.cleanUp()
      log.error('the calls of a worker could not be ended yet; the next sweep tries again', {
        ...facts,
        error,
      })
    }
  }

  async #askAll<T>(ask: (worker: WorkerProcess) => Promise<T>): Promise<T[]> {
    const answers: T[] = []
    const asked = [...this.#alive.values()].map((worker) =>
      ask(worker).then((answer) => answers.push(answer)),
    )
    await settledWithin(answerMs, Promise.allSettled(asked))
    return answers.slice()
  }
}

/** The result of a worker's start: an error says why it cannot serve. */
type StartResult = 'serving' | 'died' | Error

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
