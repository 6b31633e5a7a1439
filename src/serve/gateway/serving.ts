// What serves models, put together.

import { LRUCache } from 'lru-cache'
import { KeyUse } from '../../accounts/key-leaks.ts'
import { TokenCounter } from '../../chat/counting/token-counter.ts'
import { Callers, type ChatLimits, type InFlight } from '../../chat/call.ts'
import { type AnswersByProvider, figuresOf, Health } from '../../chat/routing/health.ts'
import { DeploymentUse } from '../../chat/routing/deployments.ts'
import { RetryBudget } from '../../chat/routing/dispatch.ts'
import { Buffered, Watchdog } from '../../chat/streaming/relay.ts'
import { Scheduler } from '../../scheduler/scheduler.ts'
import { Arrivals } from '../../chat/upstream/arrivals.ts'
import { ConnectionLimit } from '../../chat/upstream/upstream-request.ts'
import { media } from '../../chat/upstream/lower.ts'
import { Thoughts } from '../../chat/upstream/thoughts.ts'
import { type Config, secretsOf } from '../../config/config.ts'
import { formatUsd } from '../../credits/money.ts'
import { FreeReads, type Limiter, type RequestLimits } from '../../http/intake/paid/limits.ts'
import { LargeBodies } from '../../http/intake/read-body.ts'
import { KeptBytes } from '../../http/intake/paid/idempotency.ts'
import type { ServingParts } from '../../http/parts.ts'
import { OpenSockets, type SocketEvents, type SocketLimits } from '../../http/intake/sockets.ts'
import {
  AtEndOfTurn,
  callEnded,
  CallLog,
  type EndedCall,
  type OnCallEnded,
  type RequestLogRow,
} from '../../observe/call-log.ts'
import { Memory } from '../../observe/memory.ts'
import { secretFilter } from '../../observe/log.ts'
import type { Traces } from '../../observe/traces.ts'
import { AnswerCache } from '../../chat/upstream/answer-cache.ts'
import { LearnedRefusals } from '../../chat/upstream/refusals.ts'
import { outbounds } from '../../protocols/registry.ts'
import { Upstream } from '../../providers/upstream.ts'
import { BackgroundResponses } from '../../responses/background.ts'
import { ParsedResponses } from '../../responses/keep.ts'
import { Prefixes } from '../../json/scan.ts'
import type { ToolSources } from '../../tools/tool.ts'
import { baseUrlOf } from '../banner.ts'
import { steadyClock } from '../../async/async.ts'
import type { GatewayProcess } from './process.ts'
import { siteOf } from './identity.ts'
import { answering, liveCatalog, perConfig } from './catalog.ts'
import { guardsOf } from './guards.ts'
import { toolSourcesOf } from './tools.ts'

/**
 * How long a connection may be idle after a slow answer: the longest that the runtime takes, since the end of the answer
 * may still be on its way to a slow client.
 */
const longestIdleSeconds = 255

/** Sessions whose member of a route is remembered: those beyond are free to move. */
const rememberedSessions = 20_000

/** Where calls are noted when they have ended. */
export interface EndedCalls {
  append(row: RequestLogRow): void
  /** A call that was refused before it began; `model` is empty if it does not exist. */
  appendRefused(row: RequestLogRow, model: string): void
  /** A request that never became a call. */
  appendTurnedAway(row: RequestLogRow): void
  /** Every refusal, of those that leave no row too. */
  countRefusal(code: string): void
  /** How late a timer of this process was, milliseconds. */
  countLoopDelay(ms: number): void
}

export interface ServingSource extends GatewayProcess {
  readonly ended: EndedCalls
  readonly inFlight: InFlight
  readonly limiter: Limiter
  /** To be told from which networks keys are used. */
  readonly onKeyUsed: (key: string, network: string) => void
  readonly mcp: ToolSources['mcp']
  readonly freeCredit: ServingParts['freeCredit']
  readonly monthlyCredit: ServingParts['monthlyCredit']
  readonly openedByPlans: ServingParts['chat']['openedByPlans']
}

/** What serves models, and how it ends. */
export interface Serving {
  readonly parts: ServingParts
  /** The memory of this process; to be watched by whoever owns the process. */
  readonly memory: Memory
  /** To be called when keys, sessions or accounts may have changed: ends the calls of those that have ended. */
  accountsChanged(): void
  /** `announce`: /readyz says no, and calls are still taken. `refuse`: none is taken any more, and running ones continue. */
  drain(stage?: 'announce' | 'refuse'): void
  /** Ends running calls with an error; each is settled. */
  cutOff(): void
  /** Stops background work; called once nothing is in flight. */
  close(): void
}

export function servingOf(source: ServingSource): Serving {
  const { config, store, live, log, clock, owner, inFlight, limiter } = source
  const stopping = new AbortController()
  // What the machine has is shared out among its processes, as connections of clients are.
  const share = (limit: number) => Math.ceil(limit / config.server.processes)
  let isLeaving = false
  let draining = false
  const callers = new Callers({ accounts: store.accounts, now: clock, stopping: stopping.signal, log })
  const counter = new TokenCounter()
  const memory = new Memory()
  const catalog = liveCatalog(live)
  const ofConfig = perConfig(live, (now) => ({
    limits: limitsOf(now),
    toolSources: toolSourcesOf(now, { open: source.mcp }, clock, log),
  }))
  const secrets = new Set<string>()
  const redact = perConfig(live, (now) => {
    // Calls in flight may still be refused in words that quote a key of before.
    for (const secret of secretsOf(now)) secrets.add(secret)
    return secretFilter([...secrets])
  })
  const publicUrl = () => publicUrlOf(config, source.server()?.port ?? config.server.port)
  const calls = new CallLog({
    log,
    usd: formatUsd,
    keep: (row) => source.ended.append(row),
    // Days are kept without end, and anybody can invent model names.
    keepTurnedAway: (row) => source.ended.appendTurnedAway(row),
    countRefusal: (code) => source.ended.countRefusal(code),
    keepRefused: (row) => source.ended.appendRefused(row, catalog.find(row.model) ? row.model : ''),
  })
  const listeners = [
    calls.onEnded.bind(calls),
    ({ key, promptTokens, completionTokens }: EndedCall) =>
      limiter.spentTokens(key, promptTokens + completionTokens),
  ]
  const ended = new AtEndOfTurn(callEnded(listeners, log))
  const scheduler = new Scheduler()
  const guards = perConfig(live, (now) => guardsOf(now, scheduler, clock))
  const largeBodies = new LargeBodies()
  const keyUse = new KeyUse(source.onKeyUsed)
  const sockets = new OpenSockets(
    socketLimits(config),
    (request, data) =>
      // The type of the runtime's server does not say what its sockets hold.
      (source.server() as Pick<Bun.Server<SocketEvents>, 'upgrade'> | undefined)?.upgrade(request, {
        data,
      }) ?? false,
  )
  const health = new Health(steadyClock(clock))
  const parts: ServingParts = {
    chat: {
      catalog,
      get providers() {
        return live.providers
      },
      outbounds,
      ledger: store.ledger,
      openedByPlans: source.openedByPlans,
      signatures: store.signatures,
      refusals: new LearnedRefusals(),
      thoughts: new Thoughts(),
      traces: source.traces,
      onCallEnded: endingTraces(source.traces, ended.callEnded),
      keepsContents: config.log.prompts,
      log,
      watchdog: new Watchdog(),
      scheduler,
      largeBodies,
      memory,
      counter,
      buffered: new Buffered(share(config.stream.total_buffer_bytes)),
      get guards() {
        return guards()
      },
      get limits() {
        return ofConfig().limits
      },
      get toolSources() {
        return ofConfig().toolSources
      },
      owner,
      now: clock,
      redact: (text) => redact()(text),
      media: media({ allowHosts: config.egress.allow_hosts, limits: mediaLimits(config) }),
      inFlight,
      health,
      routeSessions: new LRUCache<string, string>({ max: rememberedSessions }),
      answerCache: new AnswerCache(share(config.cache.max_bytes), clock),
      retryBudget: new RetryBudget(steadyClock(clock)),
      upstream: new Upstream(),
      arrivals: new Arrivals(share(config.limits.arrived_bytes)),
      connections: new ConnectionLimit(share(config.limits.max_connections_upstream)),
      deployments: new DeploymentUse(steadyClock(clock)),
      publicUrl,
    },
    sockets,
    background: new BackgroundResponses(store.background, {
      perAccount: config.limits.background_per_account,
      eventBytes: config.responses.stored_bytes,
      retentionMs: config.responses.retention_ms,
    }),
    accounts: store.accounts,
    identityStore: store.identities,
    ledger: store.ledger,
    idempotency: store.idempotency,
    responses: store.responses,
    parsedResponses: new ParsedResponses(store.responses, scheduler),
    responseLimits: {
      retentionMs: config.responses.retention_ms,
      storedBytes: config.responses.stored_bytes,
      accountBytes: config.responses.account_bytes,
    },
    idempotencyLimits: {
      keepMs: config.idempotency.keep_ms,
      answerBytes: config.idempotency.answer_bytes,
    },
    keptBytes: new KeptBytes({
      accountBytes: config.idempotency.account_bytes,
      keepMs: config.idempotency.keep_ms,
    }),
    site: siteOf(config, source.server),
    freeCredit: source.freeCredit,
    monthlyCredit: source.monthlyCredit,
    catalog,
    answering: () => answering(live),
    lastHour: rememberAnswers(() => health.lastHour(), steadyClock(clock)),
    freeReads: new FreeReads(config.rate_limits.free_bytes_per_minute, steadyClock(clock)),
    limiter,
    callers,
    get keyUse() {
      return live.config.keys.freeze_after_networks === 0 ? undefined : keyUse
    },
    itemConversations: store.itemConversations,
    calls,
    body: {
      maxBodyBytes: config.server.max_body_bytes,
      maxHeaderBytes: config.server.max_header_bytes,
      maxDepth: config.limits.json_depth,
    },
    scheduler,
    largeBodies,
    prefixes: new Prefixes(),
    log,
    now: clock,
    ready: () => !draining,
    leaving: () => isLeaving,
    publicUrl,
    addressRules: {
      allowHosts: config.egress.allow_hosts,
      providerFiles: config.egress.provider_files,
    },
    keepOpen: (request) => source.server()?.timeout(request, 0),
    closeWhenIdle: (request) => source.server()?.timeout(request, longestIdleSeconds),
  }
  return {
    parts,
    memory,
    accountsChanged: () => callers.onChanged(),
    drain: (stage = 'refuse') => {
      isLeaving = true
      if (stage === 'announce') return
      draining = true
      sockets.drain()
    },
    cutOff: () => stopping.abort(),
    close: () => {
      counter.stop()
      ended.flush()
    },
  }
}

/** Lists of models with the same figures are built once. */
const figuresForMs = 30_000

/** The figures of `lastHour`, computed at most every half minute; the same object while they do not change. */
function rememberAnswers(lastHour: () => AnswersByProvider, clock: () => number): ServingParts['lastHour'] {
  let known: ReturnType<ServingParts['lastHour']> = {}
  let until = 0
  return () => {
    if (clock() < until) return known
    until = clock() + figuresForMs
    const now = Object.fromEntries(
      Object.entries(lastHour()).flatMap(([id, count]) => {
        const { successRate, p50Ms } = figuresOf(count)
        return successRate === null ? [] : [[id, { successRate, p50Ms }] as const]
      }),
    )
    if (!Bun.deepEquals(known, now)) known = now
    return known
  }
}

/** The end of a call ends its trace as well, before the call is forgotten. */
function endingTraces(traces: Traces | undefined, onEnded: OnCallEnded): OnCallEnded {
  if (traces === undefined) return onEnded
  return (call, failure) => {
    traces.onCallEnded(call)
    onEnded(call, failure)
  }
}

function socketLimits({ server, limits, timeouts }: Config): SocketLimits {
  return {
    enabled: server.websocket,
    perAccount: limits.sockets_per_account,
    lifetimeMs: timeouts.socket_ms,
  }
}

/** Where clients find the gateway: what the operator says, else where it listens. */
export function publicUrlOf({ server }: Config, port: number): string {
  return server.public_url ?? baseUrlOf(server.host, port).replace(/\/v1$/, '')
}

export function requestLimits({ limits, rate_limits }: Config): RequestLimits {
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
    firstTokenMs: timeouts.first_token_ms,
    toolMs: timeouts.tool_ms,
    gapMs: timeouts.gap_ms,
    gapReasoningMs: timeouts.reasoning_gap_ms,
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
    streamBytes: limits.upstream_stream_bytes,
    eventBytes: limits.sse_event_bytes,
    attempts: limits.attempts,
    toolCalls: limits.tool_calls,
  }
}

function mediaLimits({ egress }: Config) {
  return {
    fileBytes: egress.file_bytes,
    requestBytes: egress.request_bytes,
    timeoutMs: egress.timeout_ms,
  }
}
