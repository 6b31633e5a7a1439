// Reports for operators: everybody's calls and usage, providers, the catalog, operators' acts, the ledger audit.

import { z } from 'zod'
import type { AuditReport, DayAudit } from '../../credits/ledger/ledger.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { type AdminRoute, adminRoute, iso } from '../console/route.ts'
import { requestDetail, requestPage, requestParameters } from '../console/requests.ts'
import { whileOpen } from '../intake/read-body.ts'
import { pageLimit, queryOf } from '../intake/query.ts'
import type { HttpParts } from '../parts.ts'
import { describeProviders } from '../service/providers.ts'
import { adminUsageParameters, usageAnswer, usageFile, usageQuery } from '../v1/usage.ts'
import type { ActView, AuditView, CatalogView, OverviewView, ConfigurationView } from './answers.ts'

const text = z.string().max(200)
const logParameters = requestParameters.extend({ account: text.optional() })
const actParameters = z.strictObject({
  cursor: z
    .string()
    .regex(/^\d{1,15}$/, 'It takes the next_cursor of the page before.')
    .transform(Number)
    .optional(),
  limit: pageLimit,
})

export const insightRoutes: readonly AdminRoute[] = [
  adminRoute(
    {
      method: 'GET',
      path: 'overview',
      id: 'getOverview',
      summary: 'Get how the installation is: accounts, calls, debts, the ledger’s head',
    },
    ({ parts }) => overview(parts),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'requests',
      id: 'listAllRequests',
      summary: 'List the calls of all accounts',
      description: 'The newest first. In a very long log a page may be short, or empty, before the last.',
      query: logParameters,
    },
    ({ parts, request }) => requestPage(parts, queryOf(logParameters, request), request.signal),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'requests/:id',
      id: 'getAnyRequest',
      summary: 'Get one call with its receipt, or why it was refused',
    },
    async ({ parts, params }) => ({ data: await requestDetail(parts, params['id'] ?? '') }),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'usage',
      id: 'getAllUsage',
      summary: 'Get what the calls of all accounts came to, by day',
      query: adminUsageParameters,
    },
    ({ parts, request }) => usageAnswer(parts, queryOf(adminUsageParameters, request), request),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'usage.csv',
      id: 'getAllUsageCsv',
      summary: 'Get the same as CSV',
      query: adminUsageParameters,
    },
    ({ parts, request }) => usageFile(parts, queryOf(adminUsageParameters, request), request),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'providers',
      id: 'listAllProviders',
      summary: 'List the providers, and how each has been doing',
    },
    ({ parts, operator }) => describeProviders(parts, { account: operator }),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'catalog',
      id: 'getCatalogState',
      summary: 'Get the date of the catalog, its sources, what was changed of it, and what is not sold',
    },
    async ({ parts: { catalog, catalogFile, answering } }): Promise<CatalogView> => ({
      date: catalog.date,
      models: catalog.count(),
      callable: catalog.count(answering()),
      ...(await catalogFile()),
      unpriced: [...catalog.unpriced],
    }),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'settings',
      id: 'getSettings',
      summary: 'Get every setting, its value and where it came from',
      description: 'Secrets are masked. Some can be changed while the gateway runs: see `/admin/v1/config`.',
    },
    ({ parts }): Promise<ConfigurationView> | ConfigurationView => parts.settings(),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'acts',
      id: 'listActs',
      summary: 'List what operators did, the newest first',
      query: actParameters,
    },
    async ({ parts, request }) => {
      const { cursor, limit } = queryOf(actParameters, request)
      const acts = await parts.acts.page(limit, cursor)
      const next = acts.length === limit ? acts.at(-1)!.seq : null
      const data = acts.map(({ seq, at, ...act }): ActView => ({ id: seq, at: iso(at), ...act }))
      return { data, has_more: next !== null, next_cursor: next === null ? null : String(next) }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'audit',
      id: 'auditLedger',
      summary: 'Replay the ledger and check every invariant',
      description:
        'Runs beside the calls, in a thread of its own. It takes a second for each 100,000 calls or so; who asks while one runs gets its result. With `day` only what was booked on that UTC day is checked.',
      body: z.strictObject({ day: z.iso.date().optional() }),
    },
    async ({ parts, request, body }) => {
      const day = body.day === undefined ? undefined : Date.parse(body.day)
      if (day !== undefined && day > parts.now())
        throw new GatewayError('invalid_request', { message: 'day has not begun.', param: 'day' })
      return { data: auditView(await whileOpen(parts, request, () => parts.audit(day))) }
    },
  ),
]

function auditView(report: AuditReport | DayAudit): AuditView {
  const day = 'notChecked' in report ? report : undefined
  return {
    ok: report.ok,
    journal_entries: report.journalEntries,
    head_hash: 'headHash' in report ? report.headHash : (report.journal?.headHash ?? null),
    checks: report.checks,
    ...(day ? { calls: day.calls, not_checked: day.notChecked } : {}),
    ...('replaced' in report ? { replaced: report.replaced } : {}),
  }
}

async function overview(parts: HttpParts): Promise<OverviewView> {
  const { accounts, ledger, chat, catalog, answering, usage, now } = parts
  const counted = await accounts.countAccounts()
  const today = usageQuery({ by: 'day', from: isoDay(now()), to: isoDay(now()) }, now())
  const { totals } = await usage.report(today, 1)
  return {
    ...counted,
    calls_in_flight: chat.inFlight.size,
    today: {
      calls: totals.calls,
      errors: totals.errors,
      cost: formatUsd(totals.cost),
      charged: formatUsd(totals.charged),
    },
    catalog: { date: catalog.date, models: catalog.count(), callable: catalog.count(answering()) },
    providers: chat.providers.size,
    store: (await ledger.writable()) ? 'writable' : 'unavailable',
  }
}

function isoDay(at: number): string {
  return new Date(at).toISOString().slice(0, 10)
}
