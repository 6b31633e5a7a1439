// Starts the gateway: opens the store, listens, finds local servers, and stops.

import { type Config, type RereadConfig, storePlace } from '../config/config.ts'
import type { Environment } from '../config/read/environment.ts'
import { formatUsd } from '../credits/money.ts'
import { armFailpoint, parseFailpoint, pass } from '../credits/ledger/failpoint.ts'
import { startSweep } from '../credits/ledger/sweep.ts'
import type { ProcessLog } from '../observe/log.ts'
import { watchLoop } from '../observe/memory.ts'
import { openTraces } from '../observe/traces.ts'
import { endInterrupted } from '../responses/background.ts'
import { openStoreIn } from '../store/open.ts'
import type { Store } from '../store/store.ts'
import { type StartFacts, startFacts } from './banner.ts'
import { firstRun } from './first-run.ts'
import { Discovery, type Live, liveAtStart, liveOf, unsoldModels, watchServers } from './gateway/catalog.ts'
import { asStarted, configAtStart, consoleSettingsOf } from './gateway/configuration.ts'
import type { Siblings } from '../http/parts.ts'
import { createGateway, type Gateway } from './gateway/gateway.ts'
import { sweepPayments } from './gateway/payments.ts'
import { listen, type Server, stopServing } from './listen.ts'
import { version } from '../version.ts'
import { announceServer, withdrawServer } from './running-server.ts'

export interface RunningGateway {
  readonly facts: Omit<StartFacts, 'dataDir' | 'configFile' | 'ownerFile'>
  /** Reads the configuration again. Rejects with GatewayError and its faults; then the one in force stays. */
  reloadConfig(): Promise<unknown>
  /** Says that it is not ready, for `timeouts.leave_ms`; finishes the calls in flight (at most `timeouts.shutdown_ms`); then closes the database. */
  stop(): Promise<void>
  /** Resolves with the reason if it cannot serve any more. */
  readonly failed?: Promise<Error>
}

/** One of several processes on a port, as its parent has started it. */
export interface ServingPlace {
  /** The configuration of the parent: what needs a restart is that of all, whatever the file says by now. */
  readonly started: Config
  readonly siblings: Siblings
  /** The name in holds of the process in whose place this one is; it has ended. */
  readonly succeeds: string | undefined
}

/** A gateway of this process, for those beside it. */
interface StartedGateway extends RunningGateway, Pick<Gateway, 'ownFigures'> {
  /** Its name in holds. */
  readonly owner: string
}

/**
 * Opens the store, serves, and resolves with the facts for the banner. `reread` has the configuration, and reads it
 * again; `env` is for traces; `place` is left out where this process is the only one. Rejects with ConfigurationFaulty
 * where what is kept of the configuration does not fit.
 */
export async function startGateway(
  reread: RereadConfig,
  log: ProcessLog,
  env: Environment = {},
  place?: ServingPlace,
): Promise<StartedGateway> {
  const inPlace = (config: Config) => (place === undefined ? config : asStarted(place.started, config))
  const read = inPlace(reread.inForce().config)
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
    beside: place && {
      number: place.siblings.process,
      processes: read.server.processes,
      succeeds: place.succeeds,
    },
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
    isRunning: (call) => inFlight?.has(call) ?? false,
  })
  const kept = consoleSettingsOf(store.settings, read)
  let config: Config
  try {
    config = inPlace(await configAtStart(reread, kept, log))
  } catch (error) {
    await store.close()
    throw error
  }
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
  let listening: Server | undefined
  let isWarming = config.server.warm_up
  const gateway = createGateway({
    config,
    reread,
    kept,
    store,
    live,
    log,
    owner,
    clock: Date.now,
    server: () => listening,
    warming: () => isWarming,
    traces,
    siblings: place?.siblings,
  })
  inFlight = gateway.inFlight
  const calls = inFlight
  const warmUpOnce = async () => {
    if (!isWarming) return
    const { warmUp } = await import('./warm-up.ts')
    const answered = await warmUp({ forMs: warmUpMs, isInterrupted: () => calls.size > 0, log })
    log.debug('warmed up', { calls: answered })
    isWarming = false
  }
  // The others of a port take its calls; a single gateway keeps nobody waiting.
  if (place !== undefined) await warmUpOnce()
  let server: Server
  try {
    server = listen(config, gateway, place === undefined ? 'own' : 'shared')
  } catch (error) {
    await store.close()
    throw error
  }
  listening = server
  const port = server.port ?? config.server.port
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
    const watch = watchServers(live, discovery, config, (change, { id, baseUrl, models }) => {
      log.info(`a local server was ${change}`, { provider: id, url: baseUrl, models: models.length })
    })
    const leaveMemory = gateway.memory.watch()
    const leaveLoop = watchLoop(gateway.ended.countLoopDelay)
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
    if (place === undefined) announceServer(config, log, facts.baseUrl)
    await warmUpOnce()
    return {
      facts,
      reloadConfig: () => gateway.configuration.readAgain(false),
      ownFigures: gateway.ownFigures,
      owner,
      stop: async () => {
        if (place === undefined) withdrawServer(config, log)
        void store.resign?.()
        gateway.drain('announce')
        await Bun.sleep(config.timeouts.leave_ms)
        watch.stop()
        sweep.stop()
        clearInterval(refreshing)
        payments.stop()
        notifying.stop()
        leaveMemory()
        leaveLoop()
        await stopServing({ config, log, store, gateway }, server)
        await traces?.close()
      },
    }
  } catch (error) {
    // A failed start must not serve: nobody has seen its banner or key.
    await server.stop(true)
    await store.close()
    throw error
  }
}

/** How long a gateway that starts makes calls of its own at most, milliseconds. */
const warmUpMs = 200

/** How often a server looks for what commands have changed of accounts and keys, milliseconds. */
const accountsEveryMs = 50

/** A database that cannot be read refuses calls by itself, and its next reader tries again. */
function refreshAccounts(store: Store): void {
  try {
    store.refreshAccounts()
  } catch {}
}

/** How long commands of a group may be decided where nothing is locked meanwhile, milliseconds. */
const decideMs = 15

function groupLimits({ ledger, store }: Config) {
  const { group_max: max, group_wait_ms: waitMs, queue_max: queue } = ledger
  // SQLite is locked while commands are decided, so that is as long as a group may take in all.
  return { max, waitMs, decideMs: store.url === undefined ? waitMs : decideMs, queue }
}
