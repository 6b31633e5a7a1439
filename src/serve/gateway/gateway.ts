// The gateway without its process: it provides `fetch` and does not listen; store and clock are parameters.

import { KeyLeaks, KeyUse } from '../../accounts/key-leaks.ts'
import { InFlight, Callers, type ChatLimits } from '../../chat/call.ts'
import { shownSettings, type Config, secretsOf } from '../../config/config.ts'
import { formatUsd } from '../../credits/money.ts'
import type { HttpParts, ServingParts } from '../../http/parts.ts'
import { crossOrigin } from '../../http/intake/caller.ts'
import { Limiter, FreeReads, type RequestLimits } from '../../http/intake/paid/limits.ts'
import { RunningCalls } from '../../http/mcp/running-calls.ts'
import { createRoutes } from '../../http/routes.ts'
import {
  CallMetrics,
  AtEndOfTurn,
  callEnded,
  CallLog,
  type EndedCall,
  type OnCallEnded,
  type RequestLogRow,
} from '../../observe/call-log.ts'
import { type Log, secretFilter } from '../../observe/log.ts'
import { auditNote } from '../../notify/alarms.ts'
import { keyFrozen } from '../../notify/webhook.ts'
import { catalogFileState, keepComparing, perConfig, answering, liveCatalog } from './catalog.ts'
import { repeat, steadyClock } from '../../async/async.ts'
import type { Gateways } from '../../store/store.ts'
import type { GatewayProcess } from './process.ts'
import { identityParts, mailerOf, siteOf } from './identity.ts'
import { mcpOf, toolSourcesOf } from './tools.ts'
import { paymentParts, sweepable, type Sweepable } from './payments.ts'
import { Configuration } from './configuration.ts'
import { Alarms, alarmSender, keepLooking, totalsOfAll } from './alarms.ts'
import { keepExporting, logExportOf } from './log-export.ts'
import { keepNotifying, type Notifications, notificationsOf } from './webhooks.ts'
import { LRUCache } from 'lru-cache'
import { TokenCounter } from '../../chat/counting/token-counter.ts'
import { type AnswersByProvider, DeploymentUse, figuresOf, Health } from '../../chat/routing/health.ts'
import { RetryBudget } from '../../chat/routing/dispatch.ts'
import { Buffered, Watchdog } from '../../chat/streaming/relay.ts'
import { Scheduler } from '../../scheduler/scheduler.ts'
import { Arrivals } from '../../chat/upstream/arrivals.ts'
import { ConnectionLimit } from '../../chat/upstream/upstream-request.ts'
import { LearnedRefusals, media } from '../../chat/upstream/lower.ts'
import { Thoughts } from '../../chat/upstream/thoughts.ts'
import { LargeBodies } from '../../http/intake/read-body.ts'
import { KeptBytes } from '../../http/intake/paid/idempotency.ts'
import { OpenSockets, type SocketEvents, type SocketLimits } from '../../http/intake/sockets.ts'
import { Memory } from '../../observe/memory.ts'
import type { Traces } from '../../observe/traces.ts'
import { AnswerCache } from '../../chat/upstream/answer-cache.ts'
import { outbounds } from '../../protocols/registry.ts'
import { Upstream } from '../../providers/upstream.ts'
import { BackgroundResponses } from '../../responses/background.ts'
import { ParsedResponses } from '../../responses/keep.ts'
import { Prefixes } from '../../json/scan.ts'
import type { ToolSources } from '../../tools/tool.ts'
import { publicUrlOf } from '../banner.ts'
import { randomBytes } from 'node:crypto'
import { readExpression } from '../../guards/expression.ts'
import { type GuardEvent, guardEvents, type GuardSet, type Hook } from '../../guards/guards.ts'
import { type Mask, type MaskShape, shapes } from '../../guards/masks.ts'
import { parseSteps } from '../../json/json.ts'
import { signatureHeaders } from '../../payments/processor.ts'
import { fetchBounded } from '../../transport/bounded-body.ts'

export interface Gateway extends Pick<Serving, 'memory' | 'accountsChanged' | 'drain' | 'cutOff' | 'close'> {
  fetch(request: Request): Response | Promise<Response>
  /** The calls of this process. */
  readonly inFlight: InFlight
  /** The gateway's address as clients know it, without a trailing slash. */
  readonly publicUrl: () => string
  /** Its address in a browser, without a trailing slash. */
  readonly consoleOrigin: () => string
  readonly configuration: Configuration
  /** Its sweep asks about unreported payments. */
  readonly payments: Sweepable
  readonly ended: EndedCalls
  /** What this process counts of itself, in the text format of Prometheus. */
  readonly ownFigures: () => Promise<string>
  /** Starts sending webhook messages and the request log, watching accounts with webhooks, and looking for alarms. */
  notify(): { stop(): void }
}

/** Puts a gateway together. */
export function createGateway(parts: GatewayProcess): Gateway {
  const { config, store, log, clock, live } = parts
  const notifications = notificationsOf(config, store, clock)
  const inFlight = new InFlight()
  const leads = () => store.leads()
  const metrics = new CallMetrics(formatUsd)
  const logExport = logExportOf(parts)
  const identity = identityParts(parts)
  const payments = paymentParts(parts, () => `${identity.site.url()}/console`)
  const mcp = mcpOf(config, store, clock)
  const leaks = new KeyLeaks({
    accounts: store.accounts,
    managementKeys: store.managementKeys,
    acts: store.acts,
    onFrozen: (key, cause, at) => store.webhooks.emit(keyFrozen(key, cause, at)),
    mailer: mailerOf(live),
    consoleUrl: () => `${identity.site.url()}/console`,
    mostNetworks: () => live.config.keys.freeze_after_networks,
    sightings: store.limits,
    log,
    now: clock,
  })
  const limiter = new Limiter(perConfig(live, requestLimits), inFlight, clock, store.limits)
  const ended = endedCalls(store.requestLog, notifications, metrics)
  const serving = servingOf({
    ...parts,
    ended,
    inFlight,
    limiter,
    mcp: mcp.open,
    freeCredit: identity.freeCredit,
    monthlyCredit: identity.monthlyCredit,
    onKeyUsed: (key, network) => leaks.onUsed(key, network),
    openedByPlans: (account) => payments.plans.modelsOf(account),
  })
  store.whenAccountsChange(serving.accountsChanged)
  const configuration = new Configuration(parts)
  const http: HttpParts = {
    ...serving.parts,
    ...identity,
    leaks,
    ...recordParts(parts, serving),
    configuration,
    metrics,
    siblings: parts.siblings,
    ...payments,
    webhooks: notifications.webhooks,
    testWebhook: notifications.testWebhook,
    thresholds: notifications.thresholds,
    deliveries: notifications.deliveries,
    logExport: () => logExport.state(),
    mcpServers: mcp.servers,
    probeMcp: mcp.probe,
    mcpAuthorization: mcp.authorization,
    mcpCalls: new RunningCalls(store.limits && { sightings: store.limits, now: clock, log }),
  }
  const totals = store.recentCalls
    ? totalsOfAll(store.recentCalls, clock)
    : () => ({ costUsd: metrics.costUsd(), refusals: metrics.refusals() })
  const alarmParts = {
    settings: () => live.config.alarms,
    store,
    providers: () => http.chat.providers.values(),
    healthOf: http.healthOf,
    audit: http.audit,
    logExport: http.logExport,
    totals,
    spenders: () => notifications.watch.takeSpenders(),
    send: alarmSender({
      settings: () => live.config.alarms,
      mailer: mailerOf(live),
      gateway: http.publicUrl,
      now: clock,
    }),
    log,
    now: clock,
  } satisfies ConstructorParameters<typeof Alarms>[0]
  // `fetch` is a getter that compiles the routes on each access.
  const { fetch } = createRoutes(http)
  return {
    fetch: crossOrigin(config.server.cors_origins, fetch),
    publicUrl: http.publicUrl,
    consoleOrigin: http.site.url,
    configuration,
    ownFigures: async () => (await import('../../http/admin/metrics.ts')).ownFigures(http),
    inFlight,
    payments: sweepable(http),
    ended,
    notify: () => {
      const times = { everyMs: config.webhooks.every_ms, watchMs: config.webhooks.watch_ms }
      const running = [
        keepNotifying(notifications, times, { leads, log }),
        keepExporting(logExport, leads),
        keepLooking(() => new Alarms(alarmParts), leads),
        keepSharing(limiter, store.limits, log),
        ...(store.gateways ? [keepComparing(live, store.gateways, log)] : []),
        keepFollowing(configuration, log),
      ]
      return { stop: () => running.forEach((each) => each.stop()) }
    },
    memory: serving.memory,
    accountsChanged: serving.accountsChanged,
    drain: serving.drain,
    cutOff: serving.cutOff,
    close: serving.close,
  }
}

/** How often gateways tell one another what was taken of the rates, milliseconds. */
const shareEveryMs = 250

/** Shares the rates with other gateways, where there are any. While they cannot be told, each counts by itself. */
function keepSharing(
  limiter: Limiter,
  limits: GatewayProcess['store']['limits'],
  log: Log,
): { stop(): void } {
  if (limits === undefined) return { stop: () => undefined }
  let isTold = true
  const share = async () => {
    await limiter.exchange(limits)
    isTold = true
  }
  return repeat(shareEveryMs, share, (error) => {
    if (isTold) log.warn('rates could not be shared with other gateways; it is tried again', { error })
    isTold = false
  })
}

/** How soon a gateway takes up what was changed of the configuration elsewhere, milliseconds. */
const followEveryMs = 500

function keepFollowing(configuration: HttpParts['configuration'], log: Log): { stop(): void } {
  let isFailing = false
  const follow = async () => {
    await configuration.follow()
    isFailing = false
  }
  return repeat(followEveryMs, follow, (error) => {
    // Twice a second, for as long as the database is away, the log would say the same.
    if (!isFailing)
      log.warn('what was changed of the configuration elsewhere is not in force here', { error })
    isFailing = true
  })
}

/** Writes rows of the request log, counts them, and shows them to the watch of accounts. */
function endedCalls(
  rows: GatewayProcess['store']['requestLog'],
  { watch }: Pick<Notifications, 'watch'>,
  metrics: CallMetrics,
): EndedCalls {
  return {
    append(row) {
      watch.callEnded(row)
      rows.append(row)
      metrics.count(row)
    },
    appendRefused(row, model) {
      watch.callEnded(row)
      rows.appendRefused(row, model)
      metrics.count(row, model)
    },
    appendTurnedAway: (row) => rows.append(row),
    countRefusal: (code) => metrics.countRefusal(code),
    countLoopDelay: (ms) => metrics.countLoopDelay(ms),
  }
}

/** The calls of an account: those here as they are now, and those at other gateways as the ledger knows them. */
function callsOfAll(inFlight: InFlight, gateways: Gateways | undefined): HttpParts['callsOf'] {
  if (gateways === undefined) return (account) => inFlight.callsOf(account)
  return async (account) => {
    const elsewhere = (await gateways.callsElsewhere(account)).map((call) => ({
      ...call,
      account,
      phase: call.outputTokens === null ? ('waiting' as const) : ('streaming' as const),
      // Calls of the app have no key.
      channel: call.key === null ? ('app' as const) : ('api' as const),
      conversation: null,
      firstByteMs: null,
    }))
    return [...inFlight.callsOf(account), ...elsewhere].toSorted((a, b) => a.startedAt - b.startedAt)
  }
}

/** Audits, and notes what they found. */
function notingAudits(
  audit: HttpParts['audit'],
  { store, clock, log }: Pick<GatewayProcess, 'store' | 'clock' | 'log'>,
): HttpParts['audit'] {
  return async (day) => {
    const report = await audit(day)
    try {
      await store.upkeep.keepNote(auditNote(report, clock(), day))
    } catch (error) {
      log.warn('an audit could not be noted', { error })
    }
    return report
  }
}

/** What the routes read, in addition to what serving needs. */
function recordParts(source: GatewayProcess, { parts: { chat } }: Serving) {
  const { live, store, reread, clock } = source
  const { inFlight, health } = chat
  return {
    accounts: store.accounts,
    ledger: store.ledger,
    responses: store.responses,
    eraseContents: (account: string) => store.deletedContents.erase(account, clock()),
    conversations: store.conversations,
    prompts: store.prompts,
    shareLinks: () => live.config.accounts.share_links,
    catalogFile: () => catalogFileState(live.config, store.catalogs),
    settings: () => {
      const loaded = reread.inForce()
      return { file: loaded.file ?? null, settings: shownSettings(loaded) }
    },
    requests: store.requests,
    usage: store.usage,
    finder: store.finder,
    directory: store.directory,
    statements: store.statements,
    managementKeys: store.managementKeys,
    groups: store.groups,
    audit: notingAudits((day) => store.auditBeside(day), source),
    figures: () => store.figures(),
    upkeep: store.upkeep,
    callsOf: callsOfAll(inFlight, store.gateways),
    callsRunning: async () => (store.gateways ? (await store.figures()).openCalls : inFlight.size),
    gateways: store.gateways && { name: source.owner, list: () => store.gateways!.list() },
    healthOf: health.report.bind(health),
  } satisfies Partial<HttpParts>
}

// What serves models, put together.

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

interface ServingSource extends GatewayProcess {
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
interface Serving {
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

function servingOf(source: ServingSource): Serving {
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
    warming: source.warming,
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

// Masks and hooks from configuration, and how hooks are asked.

/** What an answer may measure beside the texts that it was asked about, bytes. */
const answerBytes = 65_536

/** The guards of a configuration; undefined where it has none. */
function guardsOf(
  { hooks, masks }: Pick<Config, 'hooks' | 'masks'>,
  scheduler: Pick<Scheduler, 'stringify' | 'runDivisible'>,
  now: () => number,
): GuardSet | undefined {
  if (hooks.length === 0 && masks.length === 0) return undefined
  const masksOn = (event: GuardEvent) => masks.filter(({ on }) => on.includes(event)).map(maskOf)
  const [request, response] = guardEvents.map(masksOn) as [Mask[], Mask[]]
  return { masks: { request, response }, hooks: hooks.map((hook) => hookOf(hook, scheduler, now)) }
}

function maskOf({ find, expression, with: replacement = `[${find}]` }: Config['masks'][number]): Mask {
  if (expression !== undefined) return { name: find, find: readExpression(expression), replacement }
  const shape = shapes.find((each) => each === find) as MaskShape
  return { name: find, find: shape, replacement }
}

function hookOf(
  { url, on, fail, secret, timeout_ms: timeoutMs }: Config['hooks'][number],
  scheduler: Pick<Scheduler, 'stringify' | 'runDivisible'>,
  now: () => number,
): Hook {
  const ask = async (question: object): Promise<unknown> => {
    const body = await scheduler.stringify(question)
    const id = `msg_${randomBytes(12).toString('hex')}`
    const response = await fetchBounded(
      url,
      {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'user-agent': 'Weir',
          ...signatureHeaders(secret, id, now(), body),
        },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(timeoutMs),
      },
      2 * Buffer.byteLength(body) + answerBytes,
    )
    const text = await response.text()
    if (response.status !== 200) throw new Error(`the hook answered ${response.status}`)
    return scheduler.runDivisible(() => parseSteps(text))
  }
  return { name: new URL(url).host, on, fail, ask }
}
