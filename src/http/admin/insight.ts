// Reports for operators: everybody's calls and usage, providers, the catalog, operators' acts, the ledger audit.

import { z } from 'zod'
import type { Group } from '../../accounts/group.ts'
import type { AuditReport, DayAudit } from '../../credits/ledger/ledger.ts'
import { formatUsd } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { type AdminRoute, adminRoute, iso } from '../console/route.ts'
import {
  lastMoment,
  requestColumns,
  requestFile,
  requestPage,
  requestParameters,
  time,
} from '../console/requests.ts'
import { pageLimit, queryOf, whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { describeProviders } from '../v1/models.ts'
import { adminUsageParameters, usageAnswer, usageFile, usageQuery } from '../v1/usage.ts'
import { requestIdOf } from '../../protocols/openai-responses/inbound/inbound.ts'
import type { Found } from '../../observe/search.ts'
import type { Page } from '../docs/operation.ts'
import { detailOfCall } from './support.ts'
import type {
  ActView,
  AuditView,
  CatalogView,
  OperatorRequestView,
  OverviewView,
  SearchView,
} from './answers.ts'

const text = z.string().max(200)
const logParameters = requestParameters.extend({
  id: text.optional().describe('The request id of a call, or the id of its response.'),
  account: text.optional().describe('The id of the account, or its address.'),
})
const operatorColumns = requestColumns.toSpliced(2, 0, 'account', 'account_email')
const fileParameters = logParameters.omit({ cursor: true, limit: true })
const searchParameters = z.strictObject({
  q: z.string().trim().min(1, 'It takes a text.').max(300, 'It has at most 300 characters.'),
})
const actParameters = z.strictObject({
  cursor: z
    .string()
    .regex(/^\d{1,15}$/, 'It takes the next_cursor of the page before.')
    .transform(Number)
    .optional(),
  limit: pageLimit,
  operator: text
    .optional()
    .describe('Who: the id of an account, its address, or `cli:` and a user of the system.'),
  what: text.optional().describe('What was done, such as `key.revoke`, or the beginning of it: `key`.'),
  subject: text.optional().describe('Of what: an id, or the address of an account.'),
  from: time.optional(),
  to: lastMoment.optional().describe('A time, or a UTC day, which is included.'),
})

export const insightRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET overview',
    { id: 'getOverview', summary: 'Get how the installation is: accounts, calls, debts, the ledger’s head' },
    ({ parts }) => overview(parts),
  ),
  adminRoute(
    'GET requests',
    {
      id: 'listAllRequests',
      summary: 'List the calls of all accounts',
      description: 'The newest first. In a very long log a page may be short, or empty, before the last.',
      query: logParameters,
    },
    ({ parts, request }) => allRequests(parts, queryOf(logParameters, request), request.signal),
  ),
  adminRoute(
    'GET requests.csv',
    { id: 'listAllRequestsCsv', summary: 'Get the same as CSV, all of it', query: fileParameters },
    ({ parts, request }) => {
      const asked = queryOf(fileParameters, request)
      return requestFile(operatorColumns, (page) => allRequests(parts, { ...asked, ...page }, request.signal))
    },
  ),
  adminRoute(
    'GET search',
    {
      id: 'search',
      summary: 'Find an account, a key, a call, a payment, a voucher or a group',
      description:
        'By the beginning of an address; by the id of any of them; by the last four letters of a key; by the id that a provider or a payment processor gave; by the code of a voucher; a group by a part of its name. Several ids, with blanks or commas between them, are looked up each. What a row is about is at its `href`.',
      query: searchParameters,
    },
    async ({ parts, request }): Promise<SearchView> => {
      const { q } = queryOf(searchParameters, request)
      const [found, { groups }] = await Promise.all([
        findAll(parts, q),
        parts.groups.pageGroups({ limit: mostFound, q: q.toLowerCase() }),
      ])
      return { data: [...found, ...groups.map(foundGroup)].map(foundView) }
    },
  ),
  adminRoute(
    'GET requests/:id',
    { id: 'getAnyRequest', summary: 'Get one call with its receipt, or why it was refused' },
    async ({ parts, params }) => ({
      data: await withAddress(parts, await detailOfCall(parts, params['id'] ?? '')),
    }),
  ),
  adminRoute(
    'GET usage',
    {
      id: 'getAllUsage',
      summary: 'Get what the calls of all accounts came to, by day',
      query: adminUsageParameters,
    },
    ({ parts, request }) => usageAnswer(parts, queryOf(adminUsageParameters, request), request),
  ),
  adminRoute(
    'GET usage.csv',
    { id: 'getAllUsageCsv', summary: 'Get the same as CSV', query: adminUsageParameters },
    ({ parts, request }) => usageFile(parts, queryOf(adminUsageParameters, request), request),
  ),
  adminRoute(
    'GET providers',
    { id: 'listAllProviders', summary: 'List the providers, and how each has been doing' },
    ({ parts, operator }) => describeProviders(parts, { account: operator }),
  ),
  adminRoute(
    'GET catalog',
    {
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
    'GET settings',
    {
      id: 'getSettings',
      summary: 'Get every setting, its value and where it came from',
      description: 'Secrets are masked. Some can be changed while the gateway runs: see `/admin/v1/config`.',
    },
    ({ parts }) => parts.settings(),
  ),
  adminRoute(
    'GET acts',
    { id: 'listActs', summary: 'List what operators did, the newest first', query: actParameters },
    async ({ parts, request }) => {
      const { cursor, limit, operator, subject, to: until, ...asked } = queryOf(actParameters, request)
      const [by, of] = [await idOf(parts, operator), await idOf(parts, subject)]
      const acts = await parts.acts.page(limit, cursor, { ...asked, until, operator: by, subject: of })
      const next = acts.length === limit ? acts.at(-1)!.seq : null
      const data = await Promise.all(
        acts.map(async ({ seq, at, ...act }): Promise<ActView> => ({
          id: seq,
          at: iso(at),
          ...act,
          operator_email: await addressOf(parts, act.operator),
          subject_email: await addressOf(parts, act.subject),
        })),
      )
      return { data, has_more: next !== null, next_cursor: next === null ? null : String(next) }
    },
  ),
  adminRoute(
    'POST audit',
    {
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

/** What is asked for by an address is looked up by its account’s id. */
export async function idOf({ accounts }: HttpParts, text: string | undefined): Promise<string | undefined> {
  return text?.includes('@') ? ((await accounts.findAccount(text))?.id ?? text) : text
}

/** The address of an account; null for anything else. */
async function addressOf({ accounts }: HttpParts, id: string): Promise<string | null> {
  return id.startsWith('acct_') ? ((await accounts.findAccount(id))?.email ?? null) : null
}

/** Of each kind. */
const mostFound = 10
const mostIds = 5

/** What is called that; if nothing is, what each of several ids is the id of. */
async function findAll({ finder }: Pick<HttpParts, 'finder'>, q: string): Promise<readonly Found[]> {
  const found = await finder.find(q, mostFound)
  const ids = q.split(/[\s,;]+/).filter((word) => word !== '')
  if (found.length > 0 || ids.length < 2 || ids.length > mostIds) return found
  const each = new Map<string, Found>()
  for (const id of ids)
    for (const one of await finder.find(id, mostFound)) each.set(`${one.kind} ${one.id}`, one)
  return [...each.values()]
}

/** Where the console shows what was found; the admin API has each by its id. */
function foundView({ kind, id, title, account, at, state }: Found): SearchView['data'][number] {
  return { kind, id, title, account, at: iso(at), state, href: hrefOf(kind, id, account?.id ?? '') }
}

function foundGroup({ id, name, createdAt }: Group): Found {
  return { kind: 'group', id, title: name, account: null, at: createdAt, state: 'active' }
}

/** Below the pages of operators. `id` and `account` are as an address has them. */
const places: Readonly<Record<Found['kind'], (id: string, account: string) => string>> = {
  account: (id) => `accounts/${id}`,
  key: (id, account) => `accounts/${account}?key=${id}`,
  management_key: () => 'keys',
  request: (id) => `requests/${id}`,
  payment: (id) => `payments/${id}`,
  voucher: (id) => `payments/vouchers?id=${id}`,
  group: (id) => `groups/${id}`,
}

function hrefOf(kind: Found['kind'], id: string, account: string): string {
  return `/console/operator/${places[kind](encodeURIComponent(id), encodeURIComponent(account))}`
}

type Asked = z.infer<typeof logParameters>

/** A page of everybody's calls, each with its account. */
async function allRequests(
  parts: HttpParts,
  { id, account, ...asked }: Asked,
  signal: AbortSignal,
): Promise<Page<OperatorRequestView>> {
  const named = id === undefined ? {} : { id: requestIdOf(id) ?? id }
  const whose = await idOf(parts, account)
  const page = await requestPage(parts, { ...asked, ...named, account: whose }, signal)
  return { ...page, data: await Promise.all(page.data.map((row) => withAddress(parts, row))) }
}

async function withAddress<Row extends { readonly account: string | null }>(
  { accounts }: HttpParts,
  row: Row,
): Promise<Row & { readonly account_email: string | null }> {
  const account = row.account === null ? undefined : await accounts.findAccount(row.account)
  return { ...row, account_email: account?.email ?? null }
}

function auditView(report: AuditReport | DayAudit): AuditView {
  const day = 'notChecked' in report ? report : undefined
  // Of many chains none has the head.
  const [span, other] = day?.journal ?? []
  return {
    ok: report.ok,
    journal_entries: report.journalEntries,
    head_hash: 'headHash' in report ? report.headHash : other || !span ? null : span.headHash,
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
    calls_in_flight: await parts.callsRunning(),
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
