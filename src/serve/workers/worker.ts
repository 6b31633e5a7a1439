// The worker process: it serves models, and sends requests to the ledger's process for everything that exists once.

import { InFlight } from '../../chat/in-flight.ts'
import { secretsOf } from '../../config.ts'
import { armFailpoint, parseFailpoint } from '../../credits/ledger/failpoint.ts'
import { createLog, type Log, standardErrorSink } from '../../observe/log.ts'
import { liveOf } from '../gateway/live.ts'
import { requestLimits } from '../gateway/serving.ts'
import { steadyClock } from '../gateway/steady-clock.ts'
import { endSoon } from '../end-soon.ts'
import { listen, type Server } from '../listen.ts'
import { listenFault } from '../listen-fault.ts'
import { stopServing } from '../stop.ts'
import { outliveRejections } from '../unhandled.ts'
import { connectLink } from './link/connect.ts'
import type { Link } from './link/link.ts'
import type {
  LedgerRequests,
  LedgerNotifications,
  WorkerRequests,
  WorkerNotifications,
  WorkerStart,
} from './protocol.ts'
import { type Remote, remoteOf } from './remote-store.ts'
import { createWorkerGateway, type WorkerGateway } from './worker-gateway.ts'

/** The descriptor of the socket to the ledger's process, inherited from it. */
const linkFd = 3

type LedgerLink = Link<LedgerRequests, LedgerNotifications>

/**
 * Serves until it is stopped, and exits at once if the ledger's process dies: without it nothing can be charged.
 * `clock` gives milliseconds since 1970.
 */
export async function runWorker(clock: () => number): Promise<void> {
  let starting: Promise<Working> | undefined
  let working: Working | undefined
  let stopping = false
  let log: Log | undefined
  const ended = Promise.withResolvers<void>()
  const stop = async () => {
    if (stopping) return
    stopping = true
    // If the start failed there is nothing to stop.
    const running = await starting?.catch(() => undefined)
    await running?.stop()
    link.end()
  }
  const handlers: WorkerRequests & WorkerNotifications = {
    async start(start) {
      const { config } = start
      log = createLog(config.log, { sink: standardErrorSink(), clock, secrets: secretsOf(config) })
      outliveRejections(log)
      starting = startWorking(start, link, log, clock)
      working = await starting
    },
    callsOf: async (account) => working?.servant.inFlight.callsOf(account) ?? [],
    healthOf: async (provider, account) => working?.servant.healthOf(provider, account),
    holdDurable: (number) => working?.remote.holdDurable(number),
    accountsChanged() {
      working?.remote.accountsChanged()
      working?.servant.accountsChanged()
    },
    offerRecovered: (offer) => working?.servant.offerRecovered(offer),
    setLocalServers: (servers) => working?.setLocalServers(servers),
    drain: () => void stop(),
  }
  const link: LedgerLink = await connectLink({
    fd: linkFd,
    handlers,
    failed: (what, error) => log?.error('a message of the ledger failed', { what, error }),
    closed: () => (stopping ? ended.resolve() : process.exit(1)),
  })
  // A terminal sends these signals to all processes of the gateway; the ledger's process handles them.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.on('SIGTERM', () => void stop())
  await ended.promise
  endSoon()
}

interface Working {
  readonly servant: WorkerGateway
  readonly remote: Remote
  setLocalServers(servers: WorkerStart['servers']): void
  stop(): Promise<void>
}

/** Rejects with an error that says why the address cannot be listened on. */
async function startWorking(
  { config, owner, port, forwardTo, servers, catalog }: WorkerStart,
  link: LedgerLink,
  log: Log,
  clock: () => number,
): Promise<Working> {
  const failpoint = parseFailpoint(config.test.failpoint ?? '')
  if (failpoint) armFailpoint(failpoint)
  const live = liveOf(config, servers, catalog)
  const inFlight = new InFlight(clock, (requestId) => link.notify('requestEnded', requestId))
  const limits = requestLimits(config)
  const remote = remoteOf(link, { inFlight, limits, clock: steadyClock(clock) })
  let listening: Server | undefined
  const server = () => listening
  const servant = createWorkerGateway({
    config,
    live,
    log,
    clock,
    owner,
    server,
    remote,
    inFlight,
    forwardTo,
  })
  try {
    listening = listen(config, servant, { port, shared: true })
  } catch (cause) {
    throw listenFault({ host: config.server.host, port }, cause)
  }
  Bun.gc(true)
  const leaveMemory = servant.memory.watch()
  const serving = { config, log, server: listening, gateway: servant, store: { close: async () => {} } }
  return {
    servant,
    remote,
    setLocalServers: (now) => void Object.assign(live, liveOf(config, now, catalog)),
    stop() {
      leaveMemory()
      return stopServing(serving)
    },
  }
}
