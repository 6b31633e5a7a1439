// The worker processes of a gateway: starts them, replaces one that dies, and stops them.

import { chmodSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { settledWithin } from '../../async/async.ts'
import type { CatalogFile } from '../../catalog/row.ts'
import { addCounts, type AnswersByProvider, type ProviderHealth } from '../../chat/routing/health.ts'
import type { Config } from '../../config/config.ts'
import type { Environment } from '../../config/read/environment.ts'
import type { ClaimedCall } from '../../credits/ledger/idempotency.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Log } from '../../observe/log.ts'
import type { LocalServer } from '../../providers/local-servers.ts'
import type { Store } from '../../store/store.ts'
import type { WorkerViews } from '../gateway/process.ts'
import type { Gateway, Shared } from '../gateway/gateway.ts'
import { type Front, listen, listenFault, listenOnSocket, stopServing } from '../listen.ts'
import { ownCommand } from '../relaunch.ts'
import { connectLink, type Link } from './link.ts'
import type { LedgerNotifications, LedgerRequests, WorkerNotifications, WorkerRequests } from './protocol.ts'
import { clientAddressHeader, workerConfig } from './worker.ts'

/** What this process does for its workers. */
interface WorkerService {
  readonly config: Config
  readonly log: Log
  readonly env: Environment
  /** Milliseconds since 1970. */
  readonly clock: () => number
  readonly store: Store
  readonly gateway: Gateway
  readonly catalog: CatalogFile
}

/** The same for workers that run. */
interface RunningService extends WorkerService {
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
  /** In force; undefined where it is still that of the start. */
  #config: Config | undefined
  #count = 1
  #stopping = false
  readonly #running: Promise<void>[] = []
  /** Notices of changed accounts that workers have not confirmed yet. */
  readonly #unconfirmed = new Set<Promise<void>>()

  /** Whether the worker with this owner name in holds is alive; also true until its clean-up has begun. */
  isAlive(owner: string): boolean {
    return this.#alive.has(owner)
  }

  /** To be called when accounts, keys or sessions may have changed. */
  accountsChanged(): void {
    for (const { link } of this.#alive.values()) {
      // A worker that has died refuses everything.
      const confirmed = link.request('accountsChanged').catch(() => undefined)
      this.#unconfirmed.add(confirmed)
      void confirmed.then(() => this.#unconfirmed.delete(confirmed))
    }
  }

  setLocalServers(servers: readonly LocalServer[]): void {
    this.#servers = servers
    for (const { link } of this.#alive.values()) link.notify('setLocalServers', servers)
  }

  /** Workers that start from now on have it, too. */
  async #reconfigure(config: Config): Promise<void> {
    this.#config = config
    await this.#askAll((worker) => worker.link.request('reconfigure', workerConfig(config, this.#count)))
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
    lastHour: async () => mergedAnswers(await this.#askAll((worker) => worker.link.request('lastHour'))),
    // After this time a worker has forgotten by itself what it had cached.
    everyoneHeard: () => settledWithin(answerMs, Promise.all(this.#unconfirmed)),
    offerRecovered: (offer) => {
      for (const { link } of this.#alive.values()) link.notify('offerRecovered', offer)
    },
    reconfigure: (config) => this.#reconfigure(config),
  }

  /**
   * Starts `count` workers. If one of them reports why it cannot serve, or all die, it stops the others and rejects. A
   * worker that dies meanwhile is replaced.
   */
  async start(service: RunningService, servers: readonly LocalServer[], count: number): Promise<void> {
    this.#servers = servers
    this.#count = count
    const starts = Array.from({ length: count }, () => {
      const started = Promise.withResolvers<StartResult>()
      this.#running.push(this.#keepRunning(service, count, started.resolve))
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
    service: RunningService,
    count: number,
    started: (how: StartResult) => void,
  ): Promise<void> {
    while (!this.#stopping) {
      const startedAt = performance.now()
      await this.#run(service, count, started)
      if (!this.#stopping && performance.now() - startedAt < shortLifeMs) await Bun.sleep(pauseMs)
    }
  }

  /** Runs one worker process until it has exited and is cleaned up. Never rejects. */
  async #run(service: RunningService, count: number, started: (how: StartResult) => void): Promise<void> {
    const { log, env, store, gateway, port, forwardTo, catalog } = service
    const owner = `gateway_${Bun.randomUUIDv7().replaceAll('-', '')}`
    const holdDurable = (number: number) => this.#alive.get(owner)?.link.notify('holdDurable', number)
    const ledger = ledgerHandlers(store, gateway.shared, holdDurable)
    const onFailure = (what: string, error: unknown) =>
      log.error('a message of a worker failed', { what, error })
    let worker: WorkerProcess
    try {
      worker = await spawnWorker(env, ledger.handlers, onFailure)
    } catch (error) {
      log.error('a worker could not be started', { error })
      return started(asError(error))
    }
    // Before its first hold: the holds of owners that are not alive are recovered.
    this.#alive.set(owner, worker)
    try {
      const servers = this.#servers
      const config = this.#config ?? service.config
      await worker.link.request('start', {
        config: workerConfig(config, count),
        owner,
        port,
        forwardTo,
        servers,
        catalog,
      })
      // Changes while it started were not sent to it.
      if (this.#config !== undefined && config !== this.#config)
        await worker.link.request('reconfigure', workerConfig(this.#config, count))
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
    await this.#cleanUp(service, owner, ledger, { pid: worker.pid, how })
  }

  /** Ends what a worker left open: its calls, its Idempotency-Keys, its requests in the rate limits. */
  async #cleanUp(
    { store, log, clock }: RunningService,
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

// A worker process, from the ledger's process.

interface WorkerProcess {
  readonly pid: number
  readonly link: Link<WorkerRequests, WorkerNotifications>
  /** Resolves with the exit code or signal when the process has exited and its last messages have been handled. */
  readonly ended: Promise<string>
  kill(): void
}

const settleMs = 1_000

/** Starts a worker process, which then waits for `start`. `handlers` answer its requests. */
async function spawnWorker(
  env: Environment,
  handlers: LedgerRequests & LedgerNotifications,
  onFailure: (what: string, error: unknown) => void,
): Promise<WorkerProcess> {
  const [program, ...before] = ownCommand()
  const child = Bun.spawn([runningProgram() ?? program, ...before, 'worker'], {
    // With `--no-orphans` the worker exits if this process is killed.
    env: { ...env, BUN_OPTIONS: [env['BUN_OPTIONS'], '--no-orphans'].filter(Boolean).join(' ') },
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const closed = Promise.withResolvers<void>()
  const link = await connectLink<WorkerRequests, WorkerNotifications>(
    child.stdio[3]!,
    { handlers, onFailure },
    closed.resolve,
  )
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

// Merges the health reports of several processes about one provider.

type Trouble = ProviderHealth['troubles'][number]

const worst: Readonly<Record<ProviderHealth['state'], number>> = { healthy: 0, degraded: 1, unavailable: 2 }
const standings: Readonly<Record<Trouble['standing'], number>> = { healthy: 0, cooling: 1, open: 2 }

/**
 * The worst state of all, each trouble as reported by the process with the worst of it, and all answers together. They
 * are complete since the latest start: what a process had counted ends with it.
 */
export function mergedHealth(seen: readonly ProviderHealth[]): ProviderHealth {
  const states = seen.map(({ state }) => state).toSorted((a, b) => worst[b] - worst[a])
  const coolUntil = Math.max(0, ...seen.map((each) => each.coolUntil ?? 0))
  const errors = seen.flatMap(({ lastError }) => (lastError === null ? [] : [lastError]))
  return {
    state: states[0] ?? 'healthy',
    hour: addCounts(seen.map(({ hour }) => hour)),
    day: addCounts(seen.map(({ day }) => day)),
    countedSince: Math.max(0, ...seen.map(({ countedSince }) => countedSince)),
    coolUntil: coolUntil === 0 ? null : coolUntil,
    troubles: mergedTroubles(seen.flatMap(({ troubles }) => troubles)),
    lastError: errors.toSorted((a, b) => b.at - a.at)[0] ?? null,
  }
}

/** The answers of all processes, by provider. */
function mergedAnswers(seen: readonly AnswersByProvider[]): AnswersByProvider {
  const byProvider = Map.groupBy(
    seen.flatMap((each) => Object.entries(each)),
    ([id]) => id,
  )
  return Object.fromEntries(
    [...byProvider].map(([id, same]) => [id, addCounts(same.map(([, count]) => count))]),
  )
}

function mergedTroubles(troubles: readonly Trouble[]): Trouble[] {
  const named = Map.groupBy(troubles, ({ key, upstream }) => `${key}\n${upstream ?? ''}`)
  return [...named.values()].map((same) => {
    const [most] = same.toSorted(
      (a, b) => standings[b.standing] - standings[a.standing] || b.failures - a.failures,
    )
    return { ...most!, failures: same.reduce((sum, { failures }) => sum + failures, 0) }
  })
}

// The requests of one worker, handled in the ledger's process, and the clean-up when the worker has died.

export interface LedgerHandlers {
  readonly handlers: LedgerRequests & LedgerNotifications
  /** Ends what a dead worker left open: rate limits, Idempotency-Keys. To be called after its calls were recovered. */
  cleanUp(): Promise<void>
}

/** The handlers for one worker. `holdDurable` tells it that the hold is durable which it asked for by this number. */
export function ledgerHandlers(
  store: Pick<Store, 'accounts' | 'identities' | 'idempotency' | 'ledger' | 'responses' | 'signatures'>,
  shared: Shared,
  holdDurable: (number: number) => void,
): LedgerHandlers {
  const { accounts, identities, idempotency, ledger, responses, signatures } = store
  const { limiter, ended } = shared
  /** The worker's requests in flight. */
  const entered = new Set<string>()
  /** The Idempotency-Keys that its calls have claimed, by call. */
  const claims = new Map<string, ClaimedCall>()
  let isGone = false
  const releaseClaims = async () => {
    const left = [...claims.values()]
    claims.clear()
    await Promise.allSettled(left.map((claim) => idempotency.finish(claim)))
  }
  return {
    handlers: {
      findKey: (id) => accounts.findKey(id),
      findAccount: (idOrEmail) => accounts.findAccount(idOrEmail),
      findSession: (id) => accounts.findSession(id),
      findStanding: (group, account) => accounts.findStanding(group, account),
      touchSession: (...given) => identities.touchSession(...given),

      async startHold(command, haste, number) {
        const { result, durable } = await ledger.startHold(command, haste)
        void durable.then(() => holdDurable(number))
        return result
      },
      extend: (command) => ledger.extend(command),
      checkpoint: (command) => ledger.checkpoint(command),
      settle: (command) => ledger.settle(command),
      release: (command) => ledger.release(command),
      balance: (account) => ledger.balance(account),
      keySpend: (key, windowStart) => ledger.keySpend(key, windowStart),
      budgetSpend: (budgets) => ledger.budgetSpend(budgets),
      recordPrice: (version, model, price) => ledger.recordPrice(version, model, price),

      async claim(command) {
        const claim = await idempotency.claim(command)
        if (claim.kind === 'fresh') {
          const { account, key, call } = command
          claims.set(call, { account, key, call })
          // The worker died meanwhile and will not make the call.
          if (isGone) await releaseClaims()
        }
        return claim
      },
      keepAnswer: (claim, answer) => idempotency.keep(claim, answer),
      async finish(claim) {
        claims.delete(claim.call)
        await idempotency.finish(claim)
      },

      keepResponse: (command) => responses.keep(command),
      findResponse: (viewer, id) => responses.find(viewer, id),
      sizeOfResponse: (viewer, id) => responses.sizeOf(viewer, id),
      conversation: (viewer, id, maxBytes) => responses.conversation(viewer, id, maxBytes),
      storedBytes: async (account) => (await responses.storedBytes(account)).bytes(),
      recallSignature: async (key) => signatures.recall(key),
      rememberSignature: (key, signature) => signatures.remember(key, signature),

      freeCredit: (account) => shared.freeCredit.ensure(account),
      monthlyCredit: (account) => shared.monthlyCredit.ensure(account),
      enter(caller, requestId, kind) {
        limiter.enter(caller, requestId, kind)
        entered.add(requestId)
      },
      requestEnded(requestId) {
        if (entered.delete(requestId)) limiter.leave(requestId)
      },
      limitHeaders: (caller) => limiter.headers(caller),
      lastHour: () => shared.lastHour(),
      claimProbe: (offer) => shared.probes.claim(offer),
      offerRecovered: (offer) => shared.probes.onRecovered(offer),
      keyUsed: (key, network) => shared.leaks.onUsed(key, network),
      spentTokens: (key, tokens) => limiter.spentTokens(key, tokens),
      async mcpServer(account, name) {
        const { url, headers, refused } = await shared.mcp.registered(account, name)
        const token = headers.get('authorization')?.replace(/^Bearer /, '')
        return { url, headers: [...headers], token: refused && token }
      },
      mcpRefused: (...given) => shared.mcp.noteRefusal(...given),
      callEnded: (row) => ended.append(row),
      turnedAway: (row) => ended.appendTurnedAway(row),
      callRefused: (row, model) => ended.appendRefused(row, model),
      addCounts(refusals, loopDelays) {
        for (const [code, times] of Object.entries(refusals)) ended.countRefusal(code, times)
        for (const ms of loopDelays) ended.countLoopDelay(ms)
      },
    },
    async cleanUp() {
      isGone = true
      for (const requestId of entered) limiter.leave(requestId)
      entered.clear()
      await releaseClaims()
    },
  }
}

// Workers take the requests of clients. This process answers what they forward, and keeps the ledger.

/** The maximum path length of a Unix socket in bytes, without the terminating zero. */
const longestPath = 107

/**
 * Rejects with an error that says why the address cannot be listened on; then no process is left running. `onListening`
 * is called with the listening server, before the first worker sends requests.
 */
export async function serveWithWorkers(
  service: WorkerService,
  workers: WorkerPool,
  count: number,
  onListening: (front: Front['listening']) => void,
): Promise<Front> {
  const { config, gateway } = service
  const port = await freePort(config)
  const socket = socketIn(config.data_dir)
  const server = listenOnSocket(gateway, socket)
  // Whoever can write to the socket can claim any client address.
  chmodSync(socket, 0o600)
  const listening: Front['listening'] = {
    port,
    timeout: (request, seconds) => server.timeout(request, seconds),
    requestIP: (request) => ({
      address: request.headers.get(clientAddressHeader) ?? '',
      port: 0,
      family: 'IPv4',
    }),
    // Workers have the sockets of clients.
    upgrade: () => false,
  }
  onListening(listening)
  const close = async () => {
    await server.stop(true)
    rmSync(socket, { force: true })
  }
  try {
    await workers.start({ ...service, port, forwardTo: socket }, [], count)
  } catch (error) {
    await close()
    throw error
  }
  return {
    listening,
    async stop() {
      gateway.drain()
      await workers.stop(config.timeouts.shutdown_ms)
      await stopServing(service, server)
      rmSync(socket, { force: true })
    },
    async close() {
      await workers.stop(0)
      await close()
    },
  }
}

/** The configured port, or a free one. Throws like `serveAlone` if it is in use. */
async function freePort(config: Config): Promise<number> {
  try {
    // Not shared: workers listen with SO_REUSEPORT and would share the port with another gateway.
    const probe = listen(config, { fetch: () => new Response() }, { port: config.server.port, shared: false })
    const port = probe.port!
    await probe.stop(true)
    return port
  } catch (cause) {
    throw listenFault(config.server, cause)
  }
}

function socketIn(dataDir: string): string {
  const path = join(dataDir, 'serve.sock')
  if (Buffer.byteLength(path) > longestPath)
    throw new Error(`${path} is too long for a socket, which workers need: choose a shorter data directory`)
  // A killed process leaves its socket behind. The lock on the data directory is ours, so nobody uses it.
  rmSync(path, { force: true })
  return path
}
