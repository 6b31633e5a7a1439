// Usage and the request log of an account in the console.

import { z } from 'zod'
import { wholeAccount } from '../../../accounts/caller.ts'
import type { LoggedRequest, RequestQuery } from '../../../observe/request-log.ts'
import { GatewayError } from '../../../errors.ts'
import { pageLimit, queryOf } from '../../intake/query.ts'
import type { HttpParts } from '../../parts.ts'
import { cursorText, placeOf, requestObject, requestWhole } from '../../v1/account/request-views.ts'
import { accountUsage, accountUsageCsv } from '../../v1/account/usage.ts'
import { refusalOf } from './refusal.ts'
import { type ConsoleRoute, ownRoute } from '../route.ts'

export const requestRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    { method: 'GET', path: 'usage', summary: 'What its calls came to, by day' },
    ({ parts, account, request }) => accountUsage(parts, wholeAccount(account.id), request),
  ),
  ownRoute(
    { method: 'GET', path: 'usage.csv', summary: 'The same as a file' },
    ({ parts, account, request }) => accountUsageCsv(parts, wholeAccount(account.id), request),
  ),
  ownRoute(
    { method: 'GET', path: 'requests', summary: 'Its calls, the newest first' },
    ({ parts, account, request }) =>
      requestPage(parts, { ...queryOf(requestParameters, request), account: account.id }, request.signal),
  ),
  ownRoute(
    { method: 'GET', path: 'requests/:id', summary: 'One call, with its receipt or why it was refused' },
    async ({ parts, account, params }) => ({
      data: await requestDetail(parts, params['id'] ?? '', account.id),
    }),
  ),
]

const text = z.string().max(200, 'It has at most 200 characters.')
const time = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/, 'It takes a time such as 2027-01-31T08:00:00Z.')
  .transform((written) => Date.parse(written))
  .pipe(z.number('There is no such time.'))

export const requestParameters = z.strictObject({
  cursor: z
    .string()
    .transform((written) => placeOf(written))
    .refine((place) => place !== undefined, 'It takes the next_cursor of the page before.')
    .optional(),
  limit: pageLimit,
  model: text.optional(),
  key: text.optional(),
  code: text.optional(),
  channel: z.enum(['api', 'app'], 'It takes api or app.').optional(),
  from: time.optional(),
  until: time.optional(),
})

type Asked = z.infer<typeof requestParameters> & { readonly account?: string | undefined }

/** A page of calls. It ends with its client. */
export async function requestPage(
  { requests, accounts }: Pick<HttpParts, 'requests' | 'accounts'>,
  { cursor, ...filter }: Asked,
  signal: AbortSignal,
) {
  const query = { ...filter, ...(cursor === undefined ? {} : { after: cursor }) } as RequestQuery
  const { rows, next } = await requests.page(query, signal)
  return {
    data: await Promise.all(
      rows.map(async (row) => ({ ...requestObject(row), ...(await originOf(accounts, row)) })),
    ),
    has_more: next !== null,
    next_cursor: next === null ? null : cursorText(next),
  }
}

/** One call of an account, or of any account if none is given. Throws `not_found`, also for another account's call. */
export async function requestDetail(
  { requests, ledger, accounts }: Pick<HttpParts, 'requests' | 'ledger' | 'accounts'>,
  id: string,
  account?: string,
) {
  const row = await requests.find(id, account)
  if (!row) throw new GatewayError('not_found')
  const whole = await requestWhole(row, ledger)
  const refusal = whole.receipt === null ? refusalOf(row.code, whole.detail) : null
  return { ...whole, ...(await originOf(accounts, row)), refusal }
}

/** Whose refused credential is not known has called the API. */
function channelOf({ key, account }: LoggedRequest): 'api' | 'app' {
  return key === null && account !== '' ? 'app' : 'api'
}

async function originOf(accounts: Pick<HttpParts['accounts'], 'findKey'>, row: LoggedRequest) {
  const key = row.key === null ? undefined : await accounts.findKey(row.key)
  const mode = key?.mode ?? 'live'
  return { channel: channelOf(row), key_name: key?.name ?? null, mode }
}
