// `weir requests list|show|tail`: the request log, for operators.

import { z } from 'zod'
import { GatewayError } from '../../errors/errors.ts'
import { callNamed } from '../../http/admin/support.ts'
import { detailOfRow, operatorRow, requestParameters } from '../../http/console/requests.ts'
import { parseQuery } from '../../http/intake/read-body.ts'
import {
  adminUsageParameters,
  cursorText,
  placeOf,
  requestList,
  requestObject,
  usageQuery,
  type UsageView,
  usageView,
} from '../../http/v1/usage.ts'
import type { LoggedRequest, RequestPage, RequestPlace, RequestQuery } from '../../observe/call-log.ts'
import {
  CommandFailure,
  type Context,
  type Invocation,
  jsonLine,
  print,
  table,
  usageFault,
  visibleInLine,
} from '../context.ts'
import { momentOf } from '../values.ts'
import type { Store } from '../../store/store.ts'
import { accountOf, withStore } from '../with-store.ts'

const ofOperators = requestParameters.pick({ provider: true, outcome: true, tag: true })
const defaultRows = 50
const mostRows = 1_000

/** A page of the log, newest first. */
export async function listRequests(context: Context, invocation: Invocation): Promise<void> {
  const { page, data } = await withStore(context, async (store) => {
    const page = await filledPage(store, await filterOf(store, invocation), limitOf(invocation))
    return { page, data: await Promise.all(page.rows.map((row) => operatorRow(store.accounts, row))) }
  })
  const more = page.next === null ? '' : `\nmore: --cursor ${cursorText(page.next)}`
  print(context, { json: { ...requestList(page), data }, text: `${rowsText(page.rows)}${more}` })
}

/** One call with its receipt. */
export async function showRequest(context: Context, invocation: Invocation): Promise<void> {
  const [id = ''] = invocation.args
  const found = await withStore(context, async (store) => {
    const row = await callNamed(store, id)
    return row && { ...(await operatorRow(store.accounts, row)), ...(await detailOfRow(store, row)) }
  })
  if (!found) throw new CommandFailure(`there is no call ${JSON.stringify(id)}`)
  print(context, { json: found, text: Bun.YAML.stringify(found, null, 2) })
}

/** How often the log is read. */
const tailEveryMs = 500

/** Calls as they end, one line each, until interrupted. */
export async function tailRequests(context: Context, invocation: Invocation): Promise<void> {
  const ended = new AbortController()
  process.once('SIGINT', () => ended.abort())
  process.once('SIGTERM', () => ended.abort())
  await withStore(context, async (store) => {
    const filter = await filterOf(store, invocation)
    let last = (await store.requests.page({ limit: 1 })).rows[0]
    while (!ended.signal.aborted) {
      const fresh = await rowsSince(store, filter, last)
      for (const row of fresh)
        context.io.out(
          context.json
            ? jsonLine(await operatorRow(store.accounts, row))
            : `${lineOf(row).map(visibleInLine).join('  ')}\n`,
        )
      last = fresh.at(-1) ?? last
      await Bun.sleep(tailEveryMs)
    }
  })
}

/** A call that was written after another ended at most so long before it. */
const outOfOrderMs = 60_000

type Filter = Omit<RequestQuery, 'limit'>

/** A page reads a limited number of rows, to spare servers; a command reads on until it has found enough. */
async function filledPage({ requests }: Store, filter: Filter, limit: number): Promise<RequestPage> {
  const rows: LoggedRequest[] = []
  let after = filter.after
  for (;;) {
    const page = await requests.page({ ...filter, limit: limit - rows.length, ...(after ? { after } : {}) })
    rows.push(...page.rows)
    if (page.next === null || rows.length >= limit) return { rows, next: page.next }
    after = page.next
  }
}

/** Oldest first. Calls are numbered in the order of writing; their times may be equal or slightly out of order. */
async function rowsSince(
  { requests }: Store,
  filter: Filter,
  last: RequestPlace | undefined,
): Promise<LoggedRequest[]> {
  const known = last?.seq ?? 0
  const rows: LoggedRequest[] = []
  // Whatever the filter, nothing older is looked at.
  const from = last === undefined ? filter.from : Math.max(filter.from ?? 0, last.at - outOfOrderMs)
  const fresh: Filter = { ...filter, ...(from === undefined ? {} : { from }) }
  let after: RequestPlace | null = null
  do {
    const page: RequestPage = await requests.page({ ...fresh, limit: mostRows, ...(after ? { after } : {}) })
    rows.push(...page.rows.filter(({ seq }) => seq > known))
    after = page.next
  } while (after !== null && after.seq > known)
  return rows.toSorted((a, b) => a.seq - b.seq)
}

async function filterOf(store: Store, invocation: Invocation): Promise<Filter> {
  const { option } = invocation
  const [account, key, model, code] = ['account', 'key', 'model', 'code'].map((name) => option(name))
  const named = { provider: option('provider'), outcome: option('outcome'), tag: option('tag') }
  const given = Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined))
  const { provider, outcome, tag } = parametersIn(() => parseQuery(ofOperators, given))
  const [since, until, cursor] = [option('since'), option('until'), option('cursor')]
  const after = cursor === undefined ? undefined : placeOf(cursor)
  if (cursor !== undefined && !after) throw usageFault('--cursor takes what the page before has printed')
  return {
    ...(account === undefined ? {} : { account: (await accountOf(store, account)).id }),
    ...(key === undefined ? {} : { key }),
    ...(model === undefined ? {} : { model }),
    ...(code === undefined ? {} : { code }),
    ...(provider === undefined ? {} : { provider }),
    ...(outcome === undefined ? {} : { outcome }),
    ...(tag === undefined ? {} : { tag }),
    ...(since === undefined ? {} : { from: momentOf('--since', since) }),
    ...(until === undefined ? {} : { until: momentOf('--until', until) }),
    ...(after ? { after } : {}),
  }
}

function limitOf(invocation: Invocation): number {
  const written = invocation.option('limit')
  if (written === undefined) return defaultRows
  const limit = z.coerce.number().int().min(1).max(mostRows).safeParse(written)
  if (!limit.success) throw usageFault(`--limit takes a whole number from 1 to ${mostRows}`)
  return limit.data
}

function rowsText(rows: readonly LoggedRequest[]): string {
  if (rows.length === 0) return 'no calls'
  const headings = ['ENDED', 'REQUEST', 'KEY', 'MODEL', 'PROVIDER', 'STATUS', 'CODE', 'TOKENS', 'USD', 'MS']
  return table(headings, rows.map(lineOf))
}

function lineOf(row: LoggedRequest): string[] {
  const seen = requestObject(row)
  return [
    seen.ended_at,
    seen.id,
    seen.key ?? (row.account === '' ? '–' : 'app'),
    seen.model ?? '–',
    seen.provider ?? '–',
    String(seen.status),
    seen.code ?? seen.ending ?? '–',
    `${seen.prompt_tokens}+${seen.completion_tokens}`,
    seen.cost,
    String(seen.total_ms),
  ]
}

// `weir usage`: number and cost of calls, by UTC day.

const options = ['from', 'to', 'by', 'per', 'tag', 'key', 'model'] as const

/** Prints the days as a table, JSON or CSV. */
export async function showUsage(context: Context, invocation: Invocation): Promise<void> {
  const asked = parametersOf(context, invocation)
  await withStore(context, async (store) => {
    const account = invocation.option('account')
    const query = account === undefined ? asked : { ...asked, account: (await accountOf(store, account)).id }
    if (invocation.flag('csv')) {
      for await (const piece of store.usage.csv(query)) context.io.out(piece)
      return
    }
    const view = await usageView(store.usage, query)
    print(context, { json: view, text: usageText(view) })
  })
}

function parametersOf(context: Context, invocation: Invocation) {
  if (invocation.flag('csv') && context.json) throw usageFault('--csv or --json, not both')
  const given = options.map((name) => [name, invocation.option(name)] as const)
  const named = Object.fromEntries(given.filter(([, value]) => value !== undefined))
  return parametersIn(() => usageQuery(parseQuery(adminUsageParameters, named), context.io.clock()))
}

/** What the API refuses by the name of a parameter is a fault of the option of that name. */
function parametersIn<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (error instanceof GatewayError) throw usageFault(`--${error.message}`)
    throw error
  }
}

function usageText({ data, totals, rest, by, per }: UsageView): string {
  if (data.length === 0) return 'no calls'
  const headings = [
    per.toUpperCase(),
    ...(by === 'day' ? [] : [by.toUpperCase()]),
    'CALLS',
    'ERRORS',
    'INPUT',
    'OUTPUT',
    'USD',
  ]
  const rows = data.map((row) => [
    row.day,
    ...(by === 'day' ? [] : [row.label === null ? row.group : `${row.group} (${row.label})`]),
    ...cells(row),
  ])
  const others = (rest?.data ?? []).map((row) => [row.day, `${rest!.groups} more`, ...cells(row)])
  return table(headings, [...rows, ...others, ['total', ...(by === 'day' ? [] : ['']), ...cells(totals)]])
}

function cells(sum: UsageView['totals']): string[] {
  return [sum.calls, sum.errors, sum.input_tokens, sum.output_tokens, sum.cost].map(String)
}
