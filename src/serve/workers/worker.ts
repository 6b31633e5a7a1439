// The worker process: it serves models, and sends requests to the ledger's process for everything that exists once.

import { InFlight } from '../../chat/in-flight.ts'
import type { AnswersByProvider, ProviderHealth } from '../../chat/routing/health.ts'
import { type Config, secretsOf } from '../../config/config.ts'
import { readEnvironment } from '../../config/read/environment.ts'
import { armFailpoint, parseFailpoint } from '../../credits/ledger/failpoint.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { brokenOff, closedWhenIdle, tooLarge } from '../../http/intake/read-body.ts'
import { crossOrigin } from '../../http/intake/caller.ts'
import { createServingRoutes } from '../../http/routes.ts'
import { createLog, type ProcessLog, standardErrorSink } from '../../observe/log.ts'
import { watchLoop } from '../../observe/memory.ts'
import { openTraces } from '../../observe/traces.ts'
import { version } from '../../version.ts'
import { direct } from '../../transport/bounded-body.ts'
import { liveOf, perConfig, replaceLive } from '../gateway/catalog.ts'
import { steadyClock } from '../../async/async.ts'
import type { GatewayProcess } from '../gateway/process.ts'
import type { GatewayCore } from '../gateway/gateway.ts'
import { requestLimits, servingOf } from '../gateway/serving.ts'
import { mcpOfWorker } from '../gateway/tools.ts'
import {
  endSoon,
  idleSeconds,
  listen,
  listenFault,
  outliveRejections,
  type Server,
  stopServing,
} from '../listen.ts'
import { connectLink, type Link } from './link.ts'
import type {
  LedgerNotifications,
  LedgerRequests,
  WorkerNotifications,
  WorkerRequests,
  WorkerStart,
} from './protocol.ts'
import { type Remote, remoteOf } from './remote-store.ts'

/** The descriptor of the socket to the ledger's process, inherited from it. */
const linkFd = 3

type LedgerLink = Link<LedgerRequests, LedgerNotifications>

/**
 * Serves until it is stopped, and exits at once if the ledger's process dies: without it nothing can be charged.
 * `clock` gives milliseconds since 1970.
 */
export async function runWorker(clock: () => number): Promise<void> {
  let starting: Promise<RunningWorker> | undefined
  let running: RunningWorker | undefined
  let stopping = false
  let log: ProcessLog | undefined
  const ended = Promise.withResolvers<void>()
  const stop = async () => {
    if (stopping) return
    stopping = true
    // If the start failed there is nothing to stop.
    const started = await starting?.catch(() => undefined)
    await started?.stop()
    link.end()
  }
  const handlers: WorkerRequests & WorkerNotifications = {
    async start(start) {
      const { config } = start
      log = createLog(config.log, { sink: standardErrorSink(), clock, secrets: secretsOf(config) })
      outliveRejections(log)
      starting = startWorker(start, link, log, clock)
      running = await starting
    },
    reconfigure(config) {
      log?.hide(secretsOf(config))
      running?.reconfigure(config)
    },
    callsOf: async (account) => running?.gateway.inFlight.callsOf(account) ?? [],
    lastHour: () => running?.gateway.lastHour() ?? {},
    healthOf: async (provider, account) => running?.gateway.healthOf(provider, account),
    holdDurable: (number) => running?.remote.holdDurable(number),
    accountsChanged() {
      running?.remote.accountsChanged()
      running?.gateway.accountsChanged()
    },
    offerRecovered: (offer) => running?.gateway.offerRecovered(offer),
    setLocalServers: (servers) => running?.setLocalServers(servers),
    drain: () => void stop(),
  }
  const link: LedgerLink = await connectLink(
    linkFd,
    { handlers, onFailure: (what, error) => log?.error('a message of the ledger failed', { what, error }) },
    () => (stopping ? ended.resolve() : process.exit(1)),
  )
  // A terminal sends these signals to all processes of the gateway; the ledger's process handles them.
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  process.on('SIGTERM', () => void stop())
  await ended.promise
  endSoon()
}

interface RunningWorker {
  readonly gateway: WorkerGateway
  readonly remote: Remote
  setLocalServers(servers: WorkerStart['servers']): void
  reconfigure(config: Config): void
  stop(): Promise<void>
}

/** Rejects with an error that says why the address cannot be listened on. */
async function startWorker(
  { config, owner, port, forwardTo, servers, catalog }: WorkerStart,
  link: LedgerLink,
  log: ProcessLog,
  clock: () => number,
): Promise<RunningWorker> {
  const failpoint = parseFailpoint(config.test.failpoint ?? '')
  if (failpoint) armFailpoint(failpoint)
  const live = liveOf(config, servers, catalog)
  const traces = await openTraces(readEnvironment(), { version, log, usd: formatUsd })
  const inFlight = new InFlight(clock, (requestId) => link.notify('requestEnded', requestId))
  const limits = perConfig(live, requestLimits)
  const remote = remoteOf(link, inFlight, limits, steadyClock(clock))
  let listening: Server | undefined
  const server = () => listening
  const gateway = createWorkerGateway({
    config,
    live,
    log,
    clock,
    owner,
    server,
    remote,
    inFlight,
    forwardTo,
    traces,
  })
  try {
    listening = listen(config, gateway, { port, shared: true })
  } catch (cause) {
    throw listenFault({ host: config.server.host, port }, cause)
  }
  Bun.gc(true)
  const leaveMemory = gateway.memory.watch()
  const leaveLoop = watchLoop(remote.store.ended.countLoopDelay)
  const stops = listening
  return {
    gateway,
    remote,
    setLocalServers: (now) => replaceLive(live, liveOf(live.config, now, catalog)),
    reconfigure: (now) => replaceLive(live, liveOf(now, live.servers, catalog)),
    async stop() {
      leaveMemory()
      leaveLoop()
      await stopServing({ config, log, gateway, store: { close: async () => {} } }, stops)
      remote.sendCounts()
      await traces?.close()
    },
  }
}

// The gateway in a worker: it serves models itself and forwards everything else to the ledger's process.

/** A process beside the ledger's. */
interface ServingProcess extends GatewayProcess {
  readonly remote: Remote
  readonly inFlight: InFlight
  /** The socket of the ledger's process for forwarded requests. */
  readonly forwardTo: string
}

interface WorkerGateway extends GatewayCore {
  readonly inFlight: InFlight
  /** The health of a provider for an account's calls in this process; undefined if the provider is unknown. */
  healthOf(provider: string, account: string): ProviderHealth | undefined
  /** What providers have answered this process in the last hour. */
  lastHour(): AnswersByProvider
  /** An offer with an open breaker has answered another process. */
  offerRecovered(offer: string): void
}

function createWorkerGateway(given: ServingProcess): WorkerGateway {
  const { config, remote, inFlight, live, server } = given
  const { store, limiter, probes, freeCredit, monthlyCredit, onKeyUsed } = remote
  const mcp = mcpOfWorker(config, remote.mcpServer)
  const { parts, memory, accountsChanged, drain, cutOff, close } = servingOf({
    ...given,
    store,
    limiter,
    probes,
    freeCredit,
    onKeyUsed,
    monthlyCredit,
    mcp,
    lastHour: remote.lastHour,
    background: undefined,
    itemConversations: undefined,
  })
  const forwarding = {
    socket: given.forwardTo,
    peerOf: (request: Request) => server()?.requestIP(request)?.address ?? '',
    allowIdle: (request: Request, seconds: number) => server()?.timeout(request, seconds),
    idleSeconds: idleSeconds(config),
    maxBodyBytes: config.server.max_body_bytes,
  }
  const { fetch } = createServingRoutes(parts, (request) => forward(forwarding, request))
  return {
    fetch: crossOrigin(config.server.cors_origins, fetch),
    inFlight,
    healthOf(id, account) {
      const provider = live.providers.get(id)
      return provider && parts.chat.health.report(provider, account)
    },
    lastHour: () => parts.chat.health.lastHour(),
    offerRecovered: (offer) => parts.chat.health.onRecovered(offer),
    memory,
    accountsChanged,
    drain,
    cutOff,
    close,
  }
}

// The configuration of one worker: its share of the gateway's limits.

const leastBufferBytes = 1024 ** 2
const leastArrivedBytes = 65_536

/**
 * The configuration of one of `workers` processes. Memory, connections and the limits of deployments are divided evenly,
 * as connections of clients are. Limits that the ledger's process counts (rates, requests in flight, credit) stay as they are.
 */
export function workerConfig(config: Config, workers: number): Config {
  const { limits, providers, stream } = config
  const share = (limit: number | undefined) =>
    limit === undefined ? undefined : Math.max(1, Math.floor(limit / workers))
  return {
    ...config,
    providers: Object.fromEntries(
      Object.entries(providers).map(([id, provider]) => [
        id,
        {
          ...provider,
          deployments: provider.deployments.map((deployment) => ({
            ...deployment,
            requests_per_minute: share(deployment.requests_per_minute),
            tokens_per_minute: share(deployment.tokens_per_minute),
            max_in_flight: share(deployment.max_in_flight),
          })),
        },
      ]),
    ),
    limits: {
      ...limits,
      max_connections_upstream: Math.ceil(limits.max_connections_upstream / workers),
      arrived_bytes: Math.max(leastArrivedBytes, Math.floor(limits.arrived_bytes / workers)),
    },
    stream: {
      ...stream,
      total_buffer_bytes: Math.max(leastBufferBytes, Math.floor(stream.total_buffer_bytes / workers)),
    },
  }
}

// Forwards requests for what a worker does not serve to the ledger's process.

/** The client's address in forwarded requests. It can be trusted: only workers reach the socket. */
export const clientAddressHeader = 'x-weir-client'

interface Forwarding {
  /** The socket of the ledger's process. */
  readonly socket: string
  /** The address of the connected client. */
  readonly peerOf: (request: Request) => string
  /** Sets how long the connection of a request may be idle from now on, seconds; 0 for no limit. */
  readonly allowIdle: (request: Request, seconds: number) => void
  /** The limit of other connections. */
  readonly idleSeconds: number
  readonly maxBodyBytes: number
}

/** Headers of the connection, not of the request. */
const ofConnection = ['connection', 'keep-alive', 'transfer-encoding', 'te', 'upgrade']

/**
 * The answer of the ledger's process. Rejects with `payload_too_large` and `invalid_request` for a body that cannot be
 * read, and with `store_unavailable` if that process cannot be reached.
 */
export async function forward(parts: Forwarding, request: Request): Promise<Response> {
  const { method, url, signal } = request
  const headers = new Headers(request.headers)
  for (const name of ofConnection) headers.delete(name)
  headers.set(clientAddressHeader, parts.peerOf(request))
  const { maxBodyBytes } = parts
  if (Number(headers.get('content-length') ?? 0) > maxBodyBytes) throw tooLarge({ maxBodyBytes })
  let answer: Response | undefined
  // While its body arrives a connection may be idle no longer than any. Then the ledger's process has its own limits.
  const onArrival = () => {
    if (answer === undefined) parts.allowIdle(request, 0)
  }
  const { body, fault } = passedOn(request, maxBodyBytes, onArrival)
  if (!body) onArrival()
  try {
    const options = {
      unix: parts.socket,
      decompress: false,
      redirect: 'manual',
      timeout: false,
      ...direct,
    } as const
    // Without a Host header, which some load balancers leave out, the URL is only a path.
    const address = URL.canParse(url) ? url : `http://localhost${url}`
    answer = await fetch(address, { method, headers, body, signal, ...options })
  } catch (cause) {
    throw fault() ?? new GatewayError('store_unavailable', { retryAfterMs: 1000, cause })
  }
  const { status, statusText } = answer
  const passed = new Headers(answer.headers)
  for (const name of ofConnection) passed.delete(name)
  const closeWhenIdle = () => parts.allowIdle(request, parts.idleSeconds)
  return closedWhenIdle(
    { closeWhenIdle },
    request,
    new Response(answer.body, { status, statusText, headers: passed }),
  )
}

/**
 * The body as it arrives: who sends it is not known yet, and read ahead the bodies of many would fill the memory. Calls
 * `arrived` at its end. `fault` is why it ended early, once it has.
 */
function passedOn({ body, signal }: Request, maxBodyBytes: number, arrived: () => void) {
  let size = 0
  let refused: GatewayError | undefined
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      size += chunk.length
      if (size <= maxBodyBytes) return controller.enqueue(chunk)
      refused = tooLarge({ maxBodyBytes })
      controller.error(refused)
    },
    flush: arrived,
  })
  return {
    body: body && body.pipeThrough(counted),
    fault: () => refused ?? (signal.aborted ? brokenOff() : undefined),
  }
}
