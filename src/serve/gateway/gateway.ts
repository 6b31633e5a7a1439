// The gateway without a process: provides `fetch`, does not listen, opens nothing, and takes its clock as a parameter.

import { Buffered } from '../../chat/streaming/buffered.ts'
import type { ChatLimits } from '../../chat/limits.ts'
import type { ChatParts } from '../../chat/parts.ts'
import { TokenCounter } from '../../chat/counting/token-counter.ts'
import { Health } from '../../chat/routing/health.ts'
import { InFlight } from '../../chat/in-flight.ts'
import { media } from '../../chat/upstream/inline-media.ts'
import { RetryBudget } from '../../chat/routing/retry-budget.ts'
import { Arrivals } from '../../chat/upstream/arrivals.ts'
import { ConnectionLimit } from '../../chat/upstream/connection-limit.ts'
import { ParsedResponses } from '../../responses/parsed-responses.ts'
import { Turns } from '../../chat/streaming/turns.ts'
import { Watchdog } from '../../chat/streaming/watchdog.ts'
import { baseUrlOf } from '../banner.ts'
import { catalogFileState } from './catalog-file-state.ts'
import { identityParts } from './identity.ts'
import { mcpOf } from './mcp.ts'
import type { GatewayParts } from './gateway-parts.ts'
import { answering, liveCatalog } from './live.ts'
import { toolSourcesOf } from './tool-sources.ts'
import { type Config, secretsOf } from '../../config.ts'
import { Limiter, type RequestLimits } from '../../http/intake/paid/limits.ts'
import { formatUsd } from '../../credits/money.ts'
import { crossOrigin } from '../../http/intake/cors.ts'
import { RunningCalls } from '../../http/mcp/running-calls.ts'
import { createRoutes } from '../../http/routes.ts'
import type { HttpParts } from '../../http/parts.ts'
import { callEnded } from '../../observe/call-ended.ts'
import { CallLog } from '../../observe/call-log.ts'
import { Memory } from '../../observe/memory.ts'
import { secretFilter } from '../../observe/secret-filter.ts'
import { Upstream } from '../../providers/upstream.ts'
import { outbounds } from '../../protocols/registry.ts'
import { auditing } from '../../store/audit-beside.ts'
import { keepNotifying, type Notifications, notificationsOf } from './webhooks.ts'
import { paymentParts, sweepable, type Sweepable } from './payments.ts'

export interface Gateway {
  fetch(request: Request): Response | Promise<Response>
  /** The gateway's address as clients know it, without a trailing slash. */
  readonly publicUrl: () => string
  /** Its address in a browser, without a trailing slash. */
  readonly consoleOrigin: () => string
  readonly inFlight: Pick<InFlight, 'size'>
  /** The memory of this process; to be watched by whoever owns the process. */
  readonly memory: Memory
  /** Its sweep asks about unreported payments. */
  readonly payments: Sweepable
  /** Starts sending webhook messages and watching accounts with webhooks. */
  notify(): { stop(): void }
  /** Stops accepting calls; running ones continue. */
  drain(): void
  /** Ends running calls with an error; each is settled. */
  cutOff(): void
  /** Stops background work; called once nothing is in flight. */
  close(): void
}

/** Puts a gateway together. */
export function createGateway(parts: GatewayParts): Gateway {
  const stopping = new AbortController()
  let draining = false
  const counter = new TokenCounter()
  const memory = new Memory()
  const notifications = notificationsOf(parts.config, parts.store, parts.clock)
  const http = httpParts({ ...parts, notifications, memory }, counter, stopping.signal, () => draining)
  // `fetch` is a getter that compiles the routes on each access.
  const { fetch } = createRoutes(http)
  const { config, log } = parts
  return {
    fetch: crossOrigin(parts.config.server.cors_origins, fetch),
    publicUrl: http.publicUrl,
    consoleOrigin: http.site.url,
    inFlight: http.chat.inFlight,
    memory,
    payments: sweepable(http),
    notify: () =>
      keepNotifying(
        notifications,
        { everyMs: config.webhooks.every_ms, watchMs: config.webhooks.watch_ms },
        log,
      ),
    drain: () => {
      draining = true
    },
    cutOff: () => stopping.abort(),
    close: () => counter.stop(),
  }
}

function httpParts(
  parts: GatewayParts & { readonly notifications: Notifications; readonly memory: Memory },
  counter: TokenCounter,
  stopping: AbortSignal,
  draining: () => boolean,
): HttpParts {
  const { config, store, live, log, clock, owner, notifications, memory } = parts
  const catalog = liveCatalog(live)
  const publicUrl = () => publicUrlOf(config, parts.server()?.port ?? config.server.port)
  const inFlight = new InFlight()
  const limiter = new Limiter(requestLimits(config), inFlight, clock)
  const calls = new CallLog({
    log,
    usd: formatUsd,
    keep: (row) => {
      notifications.watch.callEnded(row)
      store.requestLog.append(row)
    },
    // Days are kept without end, and anybody can invent model names.
    keepRefused: (row) => {
      notifications.watch.callEnded(row)
      store.requestLog.appendRefused(row, catalog.find(row.model) ? row.model : '')
    },
  })
  const turns = new Turns()
  const mcp = mcpOf(config, store, clock)
  const chat: ChatParts = {
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
    memory,
    counter,
    buffered: new Buffered(config.stream.total_buffer_bytes),
    limits: limitsOf(config),
    toolSources: toolSourcesOf(config, mcp, clock, log),
    owner,
    now: clock,
    redact: secretFilter(secretsOf(config)),
    media: media({ allowHosts: config.egress.allow_hosts, limits: mediaLimits(config) }),
    inFlight,
    health: new Health(clock),
    retryBudget: new RetryBudget(clock),
    upstream: new Upstream(),
    arrivals: new Arrivals(config.limits.arrived_bytes),
    connections: new ConnectionLimit(config.limits.max_connections_upstream),
    stopping,
    publicUrl,
  }
  return {
    chat,
    accounts: store.accounts,
    ledger: store.ledger,
    idempotency: store.idempotency,
    responses: store.responses,
    parsedResponses: new ParsedResponses(store.responses, turns),
    conversations: store.conversations,
    responseLimits: {
      retentionMs: config.responses.retention_ms,
      storedBytes: config.responses.stored_bytes,
      accountBytes: config.responses.account_bytes,
    },
    idempotencyLimits: {
      keepMs: config.idempotency.keep_ms,
      answerBytes: config.idempotency.answer_bytes,
    },
    ...identityParts(parts),
    catalog,
    catalogFile: () => catalogFileState(config),
    settings: parts.settings,
    answering: () => answering(live),
    limiter,
    calls,
    requests: store.requests,
    usage: store.usage,
    statements: store.statements,
    ...paymentParts(parts),
    webhooks: notifications.webhooks,
    testWebhook: notifications.testWebhook,
    thresholds: notifications.thresholds,
    managementKeys: store.managementKeys,
    mcpServers: mcp.servers,
    mcpCalls: new RunningCalls(),
    probeMcp: mcp.probe,
    mcpAuthorization: mcp.authorization,
    audit: auditing(store.path),
    body: {
      maxBodyBytes: config.server.max_body_bytes,
      maxHeaderBytes: config.server.max_header_bytes,
      maxDepth: config.limits.json_depth,
    },
    turns,
    log,
    now: clock,
    ready: () => !draining(),
    publicUrl,
    reachableHosts: config.egress.allow_hosts,
    keepOpen: (request) => parts.server()?.timeout(request, 0),
  }
}

/** The address for clients: the configured one, otherwise where it listens. */
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
    toolMs: timeouts.tool_ms,
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
