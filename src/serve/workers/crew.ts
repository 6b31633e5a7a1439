// The workers of a gateway, in the ledger's process: started, asked, replaced when one dies, and ended in good order.

import { GatewayError } from '../../errors.ts'
import type { Environment } from '../../config/read/environment.ts'
import type { Config } from '../../config.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { Log } from '../../observe/log.ts'
import type { Store } from '../../store/store.ts'
import type { Shared } from '../gateway/gateway.ts'
import type { WorkerViews } from '../gateway/gateway-parts.ts'
import { deskOf, type WorkerDesk } from './answers.ts'
import { mergedHealth } from './merge.ts'
import { spawnWorker, type WorkerProcess } from './process.ts'
import { shareOf } from './share.ts'

export interface CrewParts {
  readonly config: Config
  readonly log: Log
  readonly env: Environment
  /** Milliseconds since 1970. */
  readonly clock: () => number
  readonly store: Store
  readonly shared: Shared
  /** Where they listen. */
  readonly port: number
  /** The socket on which this process answers what they do not serve. */
  readonly forwardTo: string
}

/** A worker that lives shorter than this has a fault of its own: its successor waits, milliseconds. */
const shortLifeMs = 5_000
const pauseMs = 1_000
/** How long after the time for their calls is over workers may take to end before they are killed. */
const endMs = 8_000
/** How long a worker may take to say what it sees: pages wait for it. */
const answerMs = 1_000

export class Crew {
  /** By their name in holds. */
  readonly #living = new Map<string, WorkerProcess>()
  #servers: readonly LocalServer[] = []
  #stopping = false
  readonly #keeping: Promise<void>[] = []

  /** Whether a worker of that name in holds is alive, or its end has not been seen to. */
  lives(owner: string): boolean {
    return this.#living.has(owner)
  }

  /** Accounts, keys or sessions have changed. */
  forget(): void {
    for (const { link } of this.#living.values()) link.tell('forget')
  }

  serversAre(servers: readonly LocalServer[]): void {
    this.#servers = servers
    for (const { link } of this.#living.values()) link.tell('serversAre', servers)
  }

  /** What all of them see. Never rejects: a worker that does not answer is left out. */
  readonly views: WorkerViews = {
    callsOf: async (account) => {
      const calls = await this.#askAll((worker) => worker.link.ask('callsOf', account))
      return calls.flat().toSorted((a, b) => a.startedAt - b.startedAt)
    },
    healthOf: async ({ id }, account) => {
      const seen = await this.#askAll((worker) => worker.link.ask('healthOf', id, account))
      return mergedHealth(seen.filter((health) => health !== undefined))
    },
  }

  /**
   * Starts so many workers. Rejects, and none is left, when one of them says why it cannot serve, or none does. One that
   * dies meanwhile is replaced like any other.
   */
  async start(parts: CrewParts, servers: readonly LocalServer[], count: number): Promise<void> {
    this.#servers = servers
    const begun = Array.from({ length: count }, () => {
      const began = Promise.withResolvers<Beginning>()
      this.#keeping.push(this.#keep(parts, count, began.resolve))
      return began.promise
    })
    const beginnings = await Promise.all(begun)
    const refused = beginnings.find((each) => each instanceof Error)
    if (refused === undefined && beginnings.includes('serves')) return
    await this.stop(0)
    throw refused ?? new Error('every worker died while it started: the log may say why')
  }

  /** Lets them finish what they have, at most for `withinMs`; resolves when they have ended and nothing of them is open. */
  async stop(withinMs: number): Promise<void> {
    this.#stopping = true
    for (const { link } of this.#living.values()) link.tell('drain')
    const late = setTimeout(() => {
      for (const worker of this.#living.values()) worker.kill()
    }, withinMs + endMs)
    await Promise.all(this.#keeping)
    clearTimeout(late)
  }

  /** Sees to one place among the workers, whoever has it, until the crew stops. `began` hears how its first began. */
  async #keep(parts: CrewParts, count: number, began: (how: Beginning) => void): Promise<void> {
    while (!this.#stopping) {
      const startedAt = performance.now()
      await this.#live(parts, count, began)
      if (!this.#stopping && performance.now() - startedAt < shortLifeMs) await Bun.sleep(pauseMs)
    }
  }

  /** One life of a worker, from its start until nothing of it is open. Never rejects. */
  async #live(parts: CrewParts, count: number, began: (how: Beginning) => void): Promise<void> {
    const { config, log, env, store, shared, port, forwardTo } = parts
    const owner = `gateway_${Bun.randomUUIDv7().replaceAll('-', '')}`
    const holdDurable = (number: number) => this.#living.get(owner)?.link.tell('holdDurable', number)
    const desk = deskOf({ store, shared, holdDurable })
    const failed = (what: string, error: unknown) =>
      log.error('a message of a worker failed', { what, error })
    let worker: WorkerProcess
    try {
      worker = await spawnWorker({ env, handlers: desk.handlers, failed })
    } catch (error) {
      log.error('a worker could not be started', { error })
      return began(asError(error))
    }
    // Before its first hold: whoever is not among the living is recovered.
    this.#living.set(owner, worker)
    try {
      const servers = this.#servers
      await worker.link.ask('start', { config: shareOf(config, count), owner, port, forwardTo, servers })
      // What has changed while it started was said to nobody.
      if (servers !== this.#servers) worker.link.tell('serversAre', this.#servers)
      if (this.#stopping) worker.link.tell('drain')
      log.info('a worker serves', { pid: worker.pid })
      began('serves')
    } catch (error) {
      worker.kill()
      const died = error instanceof GatewayError
      if (!died) log.error('a worker cannot serve', { pid: worker.pid, error })
      began(died ? 'died' : asError(error))
    }
    const how = await worker.ended
    await this.#bury(parts, owner, desk, { pid: worker.pid, how })
  }

  /** Ends what a worker has left open: its calls, its Idempotency-Keys, its share of the limits. */
  async #bury(
    { store, log, clock }: CrewParts,
    owner: string,
    desk: WorkerDesk,
    facts: { readonly pid: number; readonly how: string },
  ): Promise<void> {
    this.#living.delete(owner)
    try {
      const calls = await store.ledger.recover(clock())
      await desk.abandon()
      if (this.#stopping && calls === 0) log.info('a worker has ended', facts)
      else log.warn('a worker has ended; the calls that it left open were ended', { ...facts, calls })
    } catch (error) {
      await desk.abandon()
      log.error('the calls of a worker could not be ended yet; the next sweep tries again', {
        ...facts,
        error,
      })
    }
  }

  async #askAll<T>(ask: (worker: WorkerProcess) => Promise<T>): Promise<T[]> {
    const late = Bun.sleep(answerMs).then(() => Promise.reject(new Error('no answer in time')))
    const answers = [...this.#living.values()].map((worker) => Promise.race([ask(worker), late]))
    const settled = await Promise.allSettled(answers)
    late.catch(() => undefined)
    return settled.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  }
}

/** How a worker began: an error says why it cannot serve. */
type Beginning = 'serves' | 'died' | Error

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}
