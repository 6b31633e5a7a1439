// The gateway without its process: it provides `fetch` and does not listen; store and clock are parameters.

import { KeyLeaks } from '../../accounts/key-leaks.ts'
import { InFlight } from '../../chat/call.ts'
import { shownSettings } from '../../config/config.ts'
import { formatUsd } from '../../credits/money.ts'
import type { HttpParts } from '../../http/parts.ts'
import { crossOrigin } from '../../http/intake/caller.ts'
import { Limiter } from '../../http/intake/paid/limits.ts'
import { RunningCalls } from '../../http/mcp/running-calls.ts'
import { createRoutes } from '../../http/routes.ts'
import { CallMetrics } from '../../observe/call-log.ts'
import type { Log } from '../../observe/log.ts'
import { auditNote } from '../../notify/upkeep.ts'
import { keyFrozen } from '../../notify/webhook.ts'
import { catalogFileState, keepComparing, perConfig } from './catalog.ts'
import { repeat } from '../../async/async.ts'
import type { Gateways } from '../../store/store.ts'
import type { GatewayProcess } from './process.ts'
import { identityParts, mailerOf } from './identity.ts'
import { mcpOf } from './tools.ts'
import { openedByPlansOf, paymentParts, sweepable, type Sweepable } from './payments.ts'
import { type EndedCalls, requestLimits, type Serving, servingOf } from './serving.ts'
import { Configuration } from './configuration.ts'
import { Alarms, alarmSender, keepLooking, totalsOfAll } from './alarms.ts'
import { keepExporting, logExportOf } from './log-export.ts'
import { keepNotifying, type Notifications, notificationsOf } from './webhooks.ts'

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
    openedByPlans: openedByPlansOf(parts),
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
    ...paymentParts(parts, () => `${identity.site.url()}/console`),
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
