// `weir usage`: number and cost of calls, by UTC day.

import { GatewayError } from '../../../errors.ts'
import { parseQuery } from '../../../http/intake/query.ts'
import {
  adminUsageParameters,
  usageQuery,
  type UsageView,
  usageView,
} from '../../../http/v1/account/usage.ts'
import { type Context, type Invocation, print, table, usageFault } from '../../context.ts'
import { accountOf, withStore } from '../../with-store.ts'

const options = ['from', 'to', 'by', 'key', 'model'] as const

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
  try {
    return usageQuery(parseQuery(adminUsageParameters, named), context.io.clock())
  } catch (error) {
    if (error instanceof GatewayError) throw usageFault(`--${error.message}`)
    throw error
  }
}

function usageText({ data, totals, rest, by }: UsageView): string {
  if (data.length === 0) return 'no calls'
  const headings = [
    'DAY',
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
