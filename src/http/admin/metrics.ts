// GET /metrics: the figures of the gateway for Prometheus, with a management key. They are the operator's business, and
// the port that serves them is often everybody's.

import type { ProviderHealth } from '../../chat/routing/health.ts'
import { type Episode, notes, type UpkeepNote } from '../../notify/alarms.ts'
import { familiesText, joinFigures, type MetricFamily, type StoreFigures } from '../../observe/call-log.ts'
import { version } from '../../version.ts'
import type { HttpParts } from '../parts.ts'
import { operatorOf } from '../console/api.ts'

const startedAt = Date.now() - performance.now()

/** The figures as text. Throws and rejects as the admin API does for whoever has no management key. */
export async function metrics(parts: HttpParts, request: Request): Promise<Response> {
  await operatorOf(parts, request)
  const { siblings, upkeep, gateways } = parts
  const own = await ownFigures(parts)
  const others = await siblings?.figures()
  const counted =
    siblings === undefined || others === undefined
      ? own
      : joinFigures([{ process: siblings.process, text: own }, ...others])
  const families: MetricFamily[] = [
    ...(gateways ? gatewayFamilies(await gateways.list()) : []),
    ...databaseFamilies(await parts.figures()),
    ...upkeepFamilies({
      whole: await upkeep.findNote(notes.audit),
      day: await upkeep.findNote(notes.auditOfDay),
      backup: await upkeep.findNote(notes.backup),
    }),
    alarmFamily(await upkeep.findNote(notes.alarms)),
    ...exportedFamilies(await parts.logExport()),
  ]
  return new Response(`${counted}${familiesText(families)}`, {
    headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' },
  })
}

/** What this process counts of itself, as text. */
export async function ownFigures(parts: HttpParts): Promise<string> {
  const { ledger, chat, warming, leaving, sockets, gateways } = parts
  const writable = await ledger.writable()
  const figures = await parts.figures()
  const health = await Promise.all(
    Array.from(chat.providers.values(), async (provider) => ({
      id: provider.id,
      // Of nobody in particular: what is broken for one account alone is not broken.
      health: await parts.healthOf(provider, ''),
    })),
  )
  const families: MetricFamily[] = [
    {
      name: 'weir_build_info',
      help: 'The version that runs.',
      type: 'gauge',
      samples: [{ labels: { version, ...(gateways && { gateway: gateways.name }) }, value: 1 }],
    },
    gauge('weir_calls_in_flight', 'Calls that run now.', chat.inFlight.size),
    gauge('weir_sockets_open', 'WebSockets that are open now.', sockets.size),
    gauge('weir_ready', 'Whether /readyz says ready.', writable && !warming() && !leaving() ? 1 : 0),
    gauge('weir_store_writable', 'Whether the database can be written.', writable ? 1 : 0),
    ...healthFamilies(health),
    gauge('weir_commands_waiting', 'Commands of the ledger that wait for a commit.', figures.commandsWaiting),
    counter('weir_request_log_dropped_total', 'Rows that the request log has lost.', figures.rowsDropped),
    {
      name: 'weir_webhook_attempts_total',
      help: 'Attempts to deliver messages to webhooks, by outcome: delivered, failed (tried again), given_up.',
      type: 'counter',
      samples: Object.entries(parts.deliveries()).map(([outcome, value]) => ({ labels: { outcome }, value })),
    },
    ...exportFamilies(await parts.logExport()),
    gauge(
      'process_start_time_seconds',
      'When the process has started, seconds since 1970.',
      Math.round(startedAt / 1000),
    ),
    gauge('process_resident_memory_bytes', 'The memory of the process.', process.memoryUsage.rss()),
  ]
  return parts.metrics.text(families, figures)
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'gauge', samples: [{ value }] }
}

/** The same at every gateway. */
function gatewayFamilies(
  all: Awaited<ReturnType<NonNullable<HttpParts['gateways']>['list']>>,
): MetricFamily[] {
  const states = ['alive', 'silent'] as const
  return [
    {
      name: 'weir_gateways',
      help: 'The gateways of the database, by state: alive, or silent and soon taken for dead. The same at each of them.',
      type: 'gauge',
      samples: states.map((state) => ({
        labels: { state },
        value: all.filter(({ isSilent }) => isSilent === (state === 'silent')).length,
      })),
    },
    {
      name: 'weir_catalogs',
      help: 'How many different lists of models and prices they have: more than one is a fault, but for the time of an upgrade.',
      type: 'gauge',
      samples: [{ value: new Set(all.map(({ sells }) => sells).filter((sells) => sells !== '')).size }],
    },
    {
      name: 'weir_gateway_leads',
      help: 'Which of them does what is done once. The same at each of them.',
      type: 'gauge',
      samples: all.map(({ name, leads }) => ({ labels: { gateway: name }, value: leads ? 1 : 0 })),
    },
  ]
}

function counter(name: string, help: string, value: number): MetricFamily {
  return { name, help, type: 'counter', samples: [{ value }] }
}

const states: Readonly<Record<ProviderHealth['state'], number>> = { healthy: 0, degraded: 1, unavailable: 2 }

function healthFamilies(
  all: readonly { readonly id: string; readonly health: ProviderHealth }[],
): MetricFamily[] {
  return [
    {
      name: 'weir_provider_state',
      help: 'How a provider is: 0 healthy, 1 degraded, 2 unavailable.',
      type: 'gauge',
      samples: all.map(({ id, health }) => ({ labels: { provider: id }, value: states[health.state] })),
    },
    {
      name: 'weir_provider_troubles',
      help: 'Models and keys of a provider that are not asked now, by state: open (the breaker), cooling.',
      type: 'gauge',
      samples: all.flatMap(({ id, health }) =>
        (['open', 'cooling'] as const).map((state) => ({
          labels: { provider: id, state },
          value: health.troubles.filter(({ standing }) => standing === state).length,
        })),
      ),
    },
  ]
}

/** What the database tells every process alike. */
function databaseFamilies(figures: StoreFigures): MetricFamily[] {
  return [
    gauge(
      'weir_credit_held_usd',
      'Credit that calls in flight hold, US dollars, of the whole database.',
      figures.heldUsd,
    ),
    gauge('weir_open_calls', 'Calls that hold credit, of the whole database.', figures.openCalls),
    gauge(
      'weir_webhooks_waiting',
      'Messages to webhooks that wait to be sent, or sent again; 100,000 stands for any more.',
      figures.webhooksWaiting,
    ),
    gauge('weir_database_bytes', 'The size of the database.', figures.databaseBytes),
    gauge('weir_database_log_bytes', 'The size of its write-ahead log.', figures.logBytes),
    gauge('weir_disk_bytes', 'The size of the disk that the database is on.', figures.diskBytes),
    gauge('weir_disk_free_bytes', 'What is free of that disk.', figures.diskFreeBytes),
  ]
}

/** Kinds without an alarm have no sample. */
function alarmFamily(note: UpkeepNote | undefined): MetricFamily {
  const episodes = (note?.value['episodes'] ?? []) as readonly Episode[]
  const open = Map.groupBy(
    episodes.filter(({ endedAt }) => endedAt === null),
    ({ alarm }) => alarm,
  )
  return {
    name: 'weir_alarms_open',
    help: 'Alarms that operators were told of and that are not over, by kind.',
    type: 'gauge',
    samples: [...open].map(([alarm, { length }]) => ({ labels: { alarm }, value: length })),
  }
}

type LogExportState = Awaited<ReturnType<HttpParts['logExport']>>

/** How this process has sent the request log. */
function exportFamilies(state: LogExportState): MetricFamily[] {
  if (state === undefined) return []
  return [
    counter('weir_log_export_rows_total', 'Rows of the request log that were taken elsewhere.', state.rows),
    counter('weir_log_export_failures_total', 'Tries to send them that failed.', state.failures),
  ]
}

/** How far it was sent, whoever did. */
function exportedFamilies(state: LogExportState): MetricFamily[] {
  if (state === undefined) return []
  const { waiting, sentAt } = state
  return [
    gauge('weir_log_export_waiting', 'Rows of the request log that wait to be sent elsewhere.', waiting),
    {
      name: 'weir_log_export_timestamp_seconds',
      help: 'When the last of them were taken, seconds since 1970.',
      type: 'gauge',
      samples: sentAt === null ? [] : [{ value: Math.round(sentAt / 1000) }],
    },
  ]
}

/** Times of what never happened are left out: its age would be that of 1970. */
function upkeepFamilies({
  whole,
  day,
  backup,
}: Readonly<Record<'whole' | 'day' | 'backup', UpkeepNote | undefined>>): MetricFamily[] {
  const audits = [
    ['whole', whole],
    ['day', day],
  ] as const
  const auditSamples = (value: (note: UpkeepNote) => number) =>
    audits.flatMap(([of, note]) => (note === undefined ? [] : [{ labels: { of }, value: value(note) }]))
  return [
    {
      name: 'weir_audit_timestamp_seconds',
      help: 'When the ledger was audited last, as a whole or a day of it, seconds since 1970.',
      type: 'gauge',
      samples: auditSamples(({ at }) => Math.round(at / 1000)),
    },
    {
      name: 'weir_audit_clean',
      help: 'Whether that audit found everything in order.',
      type: 'gauge',
      samples: auditSamples(({ value }) => (value['ok'] === true ? 1 : 0)),
    },
    {
      name: 'weir_backup_timestamp_seconds',
      help: 'When weir backup wrote the last copy, seconds since 1970.',
      type: 'gauge',
      samples: backup === undefined ? [] : [{ value: Math.round(backup.at / 1000) }],
    },
  ]
}
