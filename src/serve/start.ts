// Ties the knot: configuration and store become a gateway that serves, discovers local servers, drains and stops.

import type { Catalog } from '../catalog/catalog.ts'
import { Buffered } from '../chat/streaming/buffered.ts'
import type { ChatLimits } from '../chat/limits.ts'
import type { ChatParts } from '../chat/parts.ts'
import { Health } from '../chat/routing/health.ts'
import { InFlight } from '../chat/in-flight.ts'
import { media } from '../chat/upstream/inline-media.ts'
import { RetryBudget } from '../chat/routing/retry-budget.ts'
import { ConnectionLimit } from '../chat/upstream/connection-limit.ts'
import { Turns } from '../chat/streaming/turns.ts'
import { Watchdog } from '../chat/streaming/watchdog.ts'
import { baseUrlOf, type StartFacts } from './banner.ts'
import { firstRun } from './first-run.ts'
import { listenFault } from './listen-fault.ts'
import { announceServer, withdrawServer } from './running-server.ts'
import { answering, Discovery, type Live, liveOf, watchServers } from './live.ts'
import { startFacts } from './start-facts.ts'
import { unsoldModels } from './unsold.ts'
import { type Config, secretsOf } from '../config.ts'
import { Limiter, type RequestLimits } from '../http/intake/limits.ts'
import { Allowances } from '../credits/allowance.ts'
import { armFailpoint, parseFailpoint, pass } from '../credits/failpoint.ts'
import { formatUsd } from '../credits/money.ts'
import { startSweep } from '../credits/sweep.ts'
import { crossOrigin } from '../http/intake/cors.ts'
import { createRoutes } from '../http/routes.ts'
import type { Service } from '../http/service.ts'
import { callEnded } from '../observe/call-ended.ts'
import { CallLog } from '../observe/call-log.ts'
import type { Log } from '../observe/log.ts'
import { keepMemorySmall } from '../observe/memory.ts'
import { secretFilter } from '../observe/secret-filter.ts'
import { outbounds } from '../protocols/registry.ts'
import { linkErrorsTo } from '../errors.ts'
import { openStore, type Store } from '../store/open.ts'

export interface RunningGateway {
  readonly facts: Omit<StartFacts, 'dataDir' | 'configFile'>
  /** Finishes the calls in flight (at most `timeouts.shutdown_ms`), then closes the database. */
  stop(): Promise<void>
}

/** Whether new calls are taken, and whether those in flight are waited for. */
interface RunState {
  draining: boolean
  readonly stopping: AbortController
}

/** Opens the store, serves, and resolves when everything the banner tells is known. */
export async function startGateway(config: Config, log: Log): Promise<RunningGateway> {
  const owner = `gateway_${Bun.randomUUIDv7().replaceAll('-', '')}`
  const store = await openStore(config.data_dir, {
    retention: { requestsMs: config.retention.requests, signaturesMs: config.retention.signatures },
    clock: Date.now,
    serveAs: owner,
    group: groupLimits(config),
    clockBackMs: config.ledger.clock_back_ms,
    notice: (message, facts) => log.warn(message, facts),
    anchored: (head) => log.info('head of the ledger', head),
  })
  const failpoint = parseFailpoint(config.test.failpoint ?? '')
  if (failpoint) armFailpoint(failpoint)
  const recovered = await store.ledger.recover(Date.now())
  if (recovered > 0) {
    pass('recovery-committed', 'of an earlier process')
    log.warn('calls that an earlier process left open were ended', { calls: recovered })
  }

  const live: Live = liveOf(config, [])
  for (const { name, problem } of unsoldModels(config, live.catalog))
    log.warn('configuration', { name, problem })
  const state: RunState = { draining: false, stopping: new AbortController() }
  const service = serviceOf(config, store, live, log, owner, state)
  const server = await listenOrClose(config, service, store)
  linkErrorsTo(service.publicUrl())
  try {
    // Only after the port is ours: a key that was made and never shown would be lost.
    const ownerKey = await firstRun(store, config.bootstrap.credit_usd, Date.now())
    const discovery = new Discovery(config, server.port ?? config.server.port)
    const servers = await discovery.scan()
    // Parsing the catalog again for nothing would double what it takes of the memory.
    if (servers.length > 0) Object.assign(live, liveOf(config, servers))
    const watch = watchServers(live, discovery, config, (change, { id, baseUrl, models }) =>
      log.info(`a local server was ${change}`, { provider: id, url: baseUrl, models: models.length }),
    )
    // Starting leaves garbage behind that nobody would collect before the first burst of calls.
    Bun.gc(true)
    const leaveMemory = keepMemorySmall()
    const sweep = startSweep({
      ledger: store.ledger,
      forgetful: [store.idempotency, store.responses, store.retention, store.identities],
      anchor: () => store.anchor(),
      clock: Date.now,
      everyMs: config.ledger.sweep_ms,
      failed: (error) => log.warn('a sweep of the ledger failed; the next tries again', { error }),
    })
    const facts = startFacts(config, server.port ?? config.server.port, live, ownerKey)
    announce(config, log, facts.baseUrl)
    return {
      facts,
      stop: () => {
        withdrawServer(config.data_dir)
        watch.stop()
        sweep.stop()
        leaveMemory()
        return stop(config, log, server, service, store, state)
      },
    }
  } catch (error) {
    // A start that failed must end: it would go on serving, and nobody has seen its banner or its key.
    await server.stop(true)
    await store.close()
    throw error
  }
}

/** Without it commands ask at the configured address, which is not worth a start that fails. */
function announce({ data_dir }: Config, log: Log, baseUrl: string): void {
  try {
    announceServer(data_dir, baseUrl)
  } catch (error) {
    log.warn('commands will not find this server by its data directory', { error })
  }
}

type Server = ReturnType<typeof Bun.serve>

function listen(config: Config, service: Service & { server?: Server }): Server {
  // `fetch` is a getter that compiles the routes whenever it is read.
  const fetch = crossOrigin(config.server.cors_origins, createRoutes(service).fetch)
  const server = Bun.serve({
    hostname: config.server.host,
    port: config.server.port,
    // Two gateways on one port would share it, and the database, without a word.
    reusePort: false,
    development: false,
    idleTimeout: Math.round(config.server.idle_timeout_ms / 1000),
    // The routes count what they read and refuse in the contract's shape; Bun would answer without a body.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    fetch: (request) => fetch(request),
  })
  service.server = server
  return server
}

/** A port that is taken ends the start; the database is closed before the error goes on. */
async function listenOrClose(
  config: Config,
  service: Service & { server?: Server },
  store: Store,
): Promise<Server> {
  try {
    return listen(config, service)
  } catch (cause) {
    await store.close()
    throw listenFault(config.server, cause)
  }
}

function serviceOf(
  config: Config,
  store: Store,
  live: Live,
  log: Log,
  owner: string,
  state: Readonly<RunState>,
): Service & { server?: Server } {
  const catalog = liveCatalog(live)
  const inFlight = new InFlight()
  const limiter = new Limiter(requestLimits(config), inFlight, Date.now)
  const calls = new CallLog({
    log,
    usd: formatUsd,
    keep: (row) => store.requestLog.append(row),
    // Days are kept for ever, and anybody can make up names of models.
    keepRefused: (row) => store.requestLog.appendRefused(row, catalog.find(row.model) ? row.model : ''),
  })
  const turns = new Turns()
  const gateway: ChatParts = {
    catalog,
    get providers() {
      return live.providers
    },
    outbounds,
    ledger: store.ledger,
    signatures: store.signatures,
    onCallEnded: callEnded(
      [
        (call, failure) => calls.ended(call, failure),
        ({ key, promptTokens, completionTokens }) =>
          limiter.spentTokens(key, promptTokens + completionTokens),
      ],
      log,
    ),
    keepsContents: config.log.prompts,
    log,
    watchdog: new Watchdog(),
    turns,
    buffered: new Buffered(config.stream.total_buffer_bytes),
    limits: limitsOf(config),
    owner,
    now: Date.now,
    redact: secretFilter(secretsOf(config)),
    media: media({ allowHosts: config.egress.allow_hosts, limits: mediaLimits(config) }),
    inFlight,
    health: new Health(Date.now),
    retryBudget: new RetryBudget(Date.now),
    upstream: new ConnectionLimit(config.limits.max_connections_upstream),
    stopping: state.stopping.signal,
  }
  const service: Service & { server?: Server } = {
    gateway,
    accounts: store.accounts,
    ledger: store.ledger,
    idempotency: store.idempotency,
    responses: store.responses,
    responseLimits: {
      retentionMs: config.responses.retention,
      storedBytes: config.responses.stored_bytes,
      accountBytes: config.responses.account_bytes,
    },
    idempotencyLimits: {
      keepMs: config.idempotency.keep_ms,
      answerBytes: config.idempotency.answer_bytes,
    },
    allowances: new Allowances(store.ledger, () => store.ledger.now()),
    catalog,
    answering: () => answering(live),
    limiter,
    calls,
    requests: store.requests,
    usage: store.usage,
    body: {
      maxBodyBytes: config.server.max_body_bytes,
      maxHeaderBytes: config.server.max_header_bytes,
      maxDepth: config.limits.json_depth,
    },
    turns,
    log,
    now: Date.now,
    ready: () => !state.draining,
    publicUrl: () => publicUrlOf(config, service.server?.port ?? config.server.port),
    reachableHosts: config.egress.allow_hosts,
    keepOpen: (request) => service.server?.timeout(request, 0),
  }
  return service
}

/** Where clients find the gateway: what the operator says, else where it listens. */
function publicUrlOf({ server }: Config, port: number): string {
  return server.public_url ?? baseUrlOf(server.host, port).replace(/\/v1$/, '')
}

function requestLimits({ limits, rate_limits }: Config): RequestLimits {
  return {
    inFlight: limits.requests_in_flight,
    inFlightPerAccount: limits.requests_in_flight_per_account,
    keyRequestsPerMinute: rate_limits.key_requests_per_minute,
    keyTokensPerMinute: rate_limits.key_tokens_per_minute,
    accountRequestsPerMinute: rate_limits.account_requests_per_minute,
  }
}

function limitsOf({ timeouts, stream, ledger, limits }: Config): ChatLimits {
  return {
    connectMs: timeouts.connect_ms,
    firstByteMs: timeouts.first_byte_ms,
    firstByteReasoningMs: timeouts.first_byte_reasoning_ms,
    gapMs: timeouts.gap_ms,
    totalMs: timeouts.total_ms,
    clientStallMs: timeouts.client_stall_ms,
    drainMs: timeouts.drain_ms,
    keepaliveMs: stream.keepalive_ms,
    bufferBytes: stream.buffer_bytes,
    checkpointMs: stream.checkpoint_ms,
    checkpointTokens: stream.checkpoint_tokens,
    holdOutputTokens: ledger.hold_default_output_tokens,
    leaseMs: ledger.lease_ms,
    answerBytes: limits.upstream_body_bytes,
    eventBytes: limits.sse_event_bytes,
    attempts: limits.attempts,
  }
}

function liveCatalog(live: Live): Catalog {
  return {
    get date() {
      return live.catalog.date
    },
    get unpriced() {
      return live.catalog.unpriced
    },
    resolve: (id) => live.catalog.resolve(id),
    find: (id) => live.catalog.find(id),
    list: (filter) => live.catalog.list(filter),
    count: (servedBy) => live.catalog.count(servedBy),
  }
}

/**
 * Readiness goes first; the calls in flight end by themselves, or at the deadline with an error and a settled charge;
 * then the connections and the store are closed.
 */
async function stop(
  config: Config,
  log: Log,
  server: Server,
  service: Service,
  store: Store,
  state: RunState,
): Promise<void> {
  state.draining = true
  const { inFlight } = service.gateway
  if (!(await within(config.timeouts.shutdown_ms, () => inFlight.size === 0))) {
    log.warn('calls in flight are cut off: the time to finish them is over', { calls: inFlight.size })
    state.stopping.abort()
    if (!(await within(settleMs, () => inFlight.size === 0)))
      log.warn('stopping with calls in flight: recovery settles them', { calls: inFlight.size })
  }
  // A last answer may still be on its way to its client; connections without a request have nothing to wait for.
  await within(settleMs, () => server.pendingRequests === 0)
  await server.stop(true)
  await store.close()
}

/** How long the last answers of a gateway that stops may take to be settled, and then to be sent. */
const settleMs = 2_000

/** Waits until something holds; false when it does not within the time. */
async function within(ms: number, holds: () => boolean): Promise<boolean> {
  const deadline = performance.now() + ms
  while (!holds()) {
    if (performance.now() >= deadline) return false
    await Bun.sleep(10)
  }
  return true
}

function mediaLimits({ egress }: Config) {
  return {
    fileBytes: egress.file_bytes,
    requestBytes: egress.request_bytes,
    timeoutMs: egress.timeout_ms,
  }
}

function groupLimits({ ledger }: Config) {
  return { max: ledger.group_max, waitMs: ledger.group_wait_ms, queue: ledger.queue_max }
}
