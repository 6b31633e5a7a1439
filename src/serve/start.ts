// Starts the gateway: opens the store, listens, finds local servers, and stops.

import { type Config, type RereadConfig, storePlace } from '../config/config.ts'
import type { Environment } from '../config/read/environment.ts'
import { formatUsd } from '../credits/money.ts'
import { armFailpoint, parseFailpoint, pass } from '../credits/ledger/failpoint.ts'
import { startSweep } from '../credits/ledger/sweep.ts'
import type { Log, ProcessLog } from '../observe/log.ts'
import { watchLoop } from '../observe/memory.ts'
import { openTraces } from '../observe/traces.ts'
import { endInterrupted } from '../responses/background.ts'
import { openStoreIn } from '../store/place.ts'
import type { Store } from '../store/store.ts'
import { type StartFacts, startFacts } from './banner.ts'
import { firstRun } from './first-run.ts'
import { Discovery, type Live, liveAtStart, liveOf, unsoldModels, watchServers } from './gateway/catalog.ts'
import { configAtStart, consoleSettingsOf } from './gateway/configuration.ts'
import type { ListeningServer } from './gateway/process.ts'
import { createGateway, type Gateway } from './gateway/gateway.ts'
import { sweepPayments } from './gateway/payments.ts'
import { type Front, serveAlone } from './listen.ts'
import { version } from '../version.ts'
import { workerCount } from './relaunch.ts'
import { announceServer, withdrawServer } from './running-server.ts'

interface RunningGateway {
  readonly facts: Omit<StartFacts, 'dataDir' | 'configFile' | 'ownerFile'>
  /** Reads the configuration again. Rejects with GatewayError and its faults; then the one in force stays. */
  reloadConfig(): Promise<unknown>
  /** Finishes the calls in flight (at most `timeouts.shutdown_ms`), then closes the database. */
  stop(): Promise<void>
}

/**
 * Opens the store, serves, and resolves with the facts for the banner. `reread` has the configuration, and reads it
 * again; `env` is for workers. Rejects with ConfigurationFaulty where what is kept of it does not fit.
 */
export async function startGateway(
  reread: RereadConfig,
  log: ProcessLog,
  env: Environment = {},
): Promise<RunningGateway> {
  const { config: read } = reread.inForce()
  const count = workerCount(read)
  const workers = count === 1 ? undefined : new (await import('./workers/pool.ts')).WorkerPool()
  const owner = `gateway_${Bun.randomUUIDv7().replaceAll('-', '')}`
  let inFlight: Gateway['inFlight'] | undefined
  const store = await openStoreIn(storePlace(read), {
    retention: {
      requestsMs: read.retention.requests,
      signaturesMs: read.retention.signatures,
      paymentEventsMs: read.retention.payment_events,
    },
    clock: Date.now,
    serveAs: owner,
    group: groupLimits(read),
    clockBackMs: read.ledger.clock_back_ms,
    notice: (message, facts) => log.warn(message, facts),
    anchored: (head) => log.info('head of the ledger', head),
    lost: (error) => {
      const message =
        read.store.url === undefined
          ? 'the disk has failed to keep what was committed; the gateway ends'
          : 'the database has lost what was committed, or another gateway has taken this one for dead; the gateway ends'
      log.error(message, { error })
      process.exit(1)
    },
    lives: (name) => workers?.isAlive(name) ?? false,
    isRunning: (call) => inFlight?.has(call) ?? false,
  })
  const kept = consoleSettingsOf(store.settings, read)
  let config: Config
  try {
    config = await configAtStart(reread, kept, log)
  } catch (error) {
    await store.close()
    throw error
  }
  if (workers) store.whenAccountsChange(() => workers.accountsChanged())
  const failpoint = parseFailpoint(config.test.failpoint ?? '')
  if (failpoint) armFailpoint(failpoint)
  const recovered = await store.ledger.recover(Date.now())
  if (recovered > 0) {
    pass('recovery-committed', 'of an earlier process')
    log.warn('calls that an earlier process left open were ended', { calls: recovered })
  }

  await endInterrupted(store.background)
  const live: Live = await liveAtStart(config, store.catalogs)
  for (const { name, problem } of unsoldModels(config, live.catalog))
    log.warn('configuration', { name, problem })
  const traces = await openTraces(env, { version, log, usd: formatUsd })
  let listening: ListeningServer | undefined
  const gateway = createGateway({
    // Workers handle CORS themselves.
    config: workers ? { ...config, server: { ...config.server, cors_origins: [] } } : config,
    reread,
    kept,
    store,
    live,
    log,
    owner,
    clock: Date.now,
    server: () => listening,
    traces,
    workers: workers?.views,
  })
  inFlight = gateway.inFlight
  let front: Front
  try {
    const served = { config, log, store, gateway }
    const onListening = (server: ListeningServer) => void (listening = server)
    front = workers
      ? await (
          await import('./workers/pool.ts')
        ).serveWithWorkers(
          { ...served, env, clock: Date.now, catalog: live.file },
          workers,
          count,
          onListening,
        )
      : serveAlone(served)
  } catch (error) {
    await store.close()
    throw error
  }
  listening = front.listening
  const port = listening.port ?? config.server.port
  try {
    // Only after the port is ours: if the start failed later, the key would never be shown.
    const ownerKey = await firstRun(
      store,
      {
        creditUsd: config.bootstrap.credit_usd,
        welcomeCapUsd: config.credits.welcome_daily_cap_usd,
        consoleUrl: `${gateway.consoleOrigin()}/console`,
      },
      Date.now(),
    )
    // Clients that have waited for the port are answered before other servers are asked.
    await new Promise((resolve) => setImmediate(resolve))
    const discovery = new Discovery(() => live.config, port)
    const servers = await discovery.scan()
    if (servers.length > 0) Object.assign(live, liveOf(live.config, servers, live.file))
    workers?.setLocalServers(servers)
    const watch = watchServers(live, discovery, config, (change, { id, baseUrl, models }) => {
      log.info(`a local server was ${change}`, { provider: id, url: baseUrl, models: models.length })
      workers?.setLocalServers(live.servers)
    })
    const leaveMemory = gateway.memory.watch()
    const leaveLoop = watchLoop(gateway.shared.ended.countLoopDelay)
    const sweep = startSweep({
      ledger: store.ledger,
      forgetful: [
        store.idempotency,
        store.responses,
        store.background,
        { sweep: () => endInterrupted(store.background) },
        store.itemConversations,
        store.deletedContents,
        store.retention,
        store.identities,
        ...(store.limits ? [store.limits] : []),
      ],
      leads: () => store.leads(),
      anchor: () => store.anchor(),
      clock: Date.now,
      everyMs: config.ledger.sweep_ms,
      onFailure: (error) => log.warn('a sweep of the ledger failed; the next tries again', { error }),
    })
    const refreshing = setInterval(() => refreshAccounts(store), accountsEveryMs)
    const payments = sweepPayments(gateway.payments, config.ledger.sweep_ms, (error) =>
      log.warn('a sweep of the payments failed; the next tries again', { error }),
    )
    const notifying = gateway.notify()
    const database = read.store.url === undefined ? undefined : store.path
    const facts = { ...startFacts(config, port, live, ownerKey), database }
    announce(config, log, facts.baseUrl)
    return {
      facts,
      reloadConfig: () => gateway.configuration.reload(false),
      stop: async () => {
        withdraw(config, log)
        watch.stop()
        sweep.stop()
        clearInterval(refreshing)
        payments.stop()
        notifying.stop()
        leaveMemory()
        leaveLoop()
        await front.stop()
        await traces?.close()
      },
    }
  } catch (error) {
    // A failed start must not serve: nobody has seen its banner or key.
    await front.close()
    await store.close()
    throw error
  }
}

/** How often a server looks for what commands have changed of accounts and keys, milliseconds. */
const accountsEveryMs = 50

/** A database that cannot be read refuses calls by itself, and its next reader tries again. */
function refreshAccounts(store: Store): void {
  try {
    store.refreshAccounts()
  } catch {}
}

/** If it fails, commands use the configured address; the start goes on. */
function announce({ data_dir }: Config, log: Log, baseUrl: string): void {
  try {
    announceServer(data_dir, baseUrl)
  } catch (error) {
    log.warn('commands will not find this server by its data directory', { error })
  }
}

/** If it fails, what stays behind names a server that is not alive, which commands find out. */
function withdraw({ data_dir }: Config, log: Log): void {
  try {
    withdrawServer(data_dir)
  } catch (error) {
    log.warn('the file with the address of this server could not be removed', { error })
  }
}

/** How long commands of a group may be decided where nothing is locked meanwhile, milliseconds. */
const decideMs = 15

function groupLimits({ ledger, store }: Config) {
  const { group_max: max, group_wait_ms: waitMs, queue_max: queue } = ledger
  // SQLite is locked while commands are decided, so that is as long as a group may take in all.
  return { max, waitMs, decideMs: store.url === undefined ? waitMs : decideMs, queue }
}
