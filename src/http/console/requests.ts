// Usage and the request log of an account in the console.

import { z } from 'zod'
import { sessionFault, wholeAccount } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import type { LiveCall } from '../../chat/call.ts'
import { dayMs } from '../../credits/calendar.ts'
import { formatUsd, larger, parseUsd } from '../../credits/money.ts'
import { type ErrorCode, errorTable, GatewayError } from '../../errors/errors.ts'
import type { LoggedRequest, RequestQuery } from '../../observe/call-log.ts'
import type { Log } from '../../observe/log.ts'
import { csvLine, csvLines } from '../../text/text.ts'
import { pageLimit, queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import {
  accountUsage,
  accountUsageCsv,
  csvResponse,
  cursorText,
  placeOf,
  requestObject,
  requestWhole,
  tagFilter,
} from '../v1/usage.ts'
import type { LiveCallView, Page, RefusalView, RequestDetailView, RequestRowView } from './answers.ts'
import { type ConsoleRoute, iso, ownRoute } from './route.ts'

export const requestRoutes: readonly ConsoleRoute[] = [
  ownRoute('GET usage', { summary: 'What its calls came to, by day' }, ({ parts, account, request }) =>
    accountUsage(parts, wholeAccount(account.id), request),
  ),
  ownRoute('GET usage.csv', { summary: 'The same as a file' }, ({ parts, account, request }) =>
    accountUsageCsv(parts, wholeAccount(account.id), request),
  ),
  ownRoute('GET requests', { summary: 'Its calls, the newest first' }, ({ parts, account, request }) =>
    requestPage(parts, { ...queryOf(requestParameters, request), account: account.id }, request.signal),
  ),
  ownRoute(
    'GET requests.csv',
    { summary: 'The same as a file, all of it' },
    ({ parts, account, request }) => {
      const asked = { ...queryOf(fileParameters, request), account: account.id }
      return requestFile(requestColumns, (page) => requestPage(parts, { ...asked, ...page }, request.signal))
    },
  ),
  ownRoute(
    'GET requests/:id',
    { summary: 'One call, with its receipt or why it was refused' },
    async ({ parts, account, params }) => ({
      data: await requestDetail(parts, params['id'] ?? '', account.id),
    }),
  ),
]

const text = z.string().max(200, 'It has at most 200 characters.')
export const time = z
  .string()
  .regex(/^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/, 'It takes a time such as 2027-01-31T08:00:00Z.')
  .transform((written) => Date.parse(written))
  .pipe(z.number('There is no such time.'))

/** A time, or the end of a day. */
export const lastMoment = z
  .string()
  .regex(
    /^\d{4}-\d\d-\d\d(T[\d:.]+(Z|[+-]\d\d:\d\d))?$/,
    'It takes a day, or a time such as 2027-01-31T08:00:00Z.',
  )
  .transform((written) => Date.parse(written) + (written.includes('T') ? 0 : dayMs))
  .pipe(z.number('There is no such time.'))

export const requestParameters = z.strictObject({
  cursor: z
    .string()
    .transform((written) => placeOf(written))
    .refine((place) => place !== undefined, 'It takes the next_cursor of the page before.')
    .optional(),
  limit: pageLimit,
  model: text.optional().describe('As it was asked for, or a part of the name between stars: `*mini*`.'),
  key: text.optional(),
  code: text.optional(),
  channel: z.enum(['api', 'app'], 'It takes api or app.').optional(),
  provider: text.optional().describe('Who was asked last.'),
  outcome: z
    .enum(['served', 'failed', 'refused', 'unserved'], 'It takes served, failed, refused or unserved.')
    .optional()
    .describe(
      '`refused`: nobody was asked, and the fault was not the gateway’s. `failed`: any other call with an error. `unserved`: both.',
    ),
  tag: tagFilter.optional().describe('Only calls with this tag: `feature=chat`.'),
  from: time.optional(),
  until: time.optional(),
  to: lastMoment.optional().describe('In place of `until`: a time, or a UTC day, which is included.'),
})

const fileParameters = requestParameters.omit({ cursor: true, limit: true })

type Asked = z.infer<typeof requestParameters> & {
  readonly id?: string | undefined
  readonly account?: string | undefined
}

/** A page of calls. It ends with its client. */
export async function requestPage(
  { requests, accounts }: HttpParts,
  { cursor, to, until = to, ...filter }: Asked,
  signal: AbortSignal,
): Promise<Page<RequestRowView>> {
  const query = { ...filter, until, ...(cursor === undefined ? {} : { after: cursor }) } as RequestQuery
  const { rows, next } = await requests.page(query, signal)
  return {
    data: await Promise.all(
      rows.map(async (row) => ({ ...requestObject(row), ...(await originOf(accounts, row)) })),
    ),
    has_more: next !== null,
    next_cursor: next === null ? null : cursorText(next),
  }
}

const rowsOfPiece = 200

/** Of a file of calls. */
export const requestColumns: readonly string[] = [
  'ended_at',
  'id',
  'key',
  'key_name',
  'channel',
  'model',
  'provider',
  'status',
  'code',
  'ending',
  'prompt_tokens',
  'completion_tokens',
  'cost',
  'attempts',
  'first_byte_ms',
  'total_ms',
  'tags',
]

/** All pages as a file: it is made as fast as the client reads it. `pageOf` ends with the client. */
export function requestFile(
  columns: readonly string[],
  pageOf: (place: Pick<Asked, 'cursor' | 'limit'>) => Promise<Page<RequestRowView>>,
): Response {
  const encoder = new TextEncoder()
  let cursor: Asked['cursor']
  const body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(csvLine(columns))),
      async pull(controller) {
        const page = await pageOf({ cursor, limit: rowsOfPiece })
        const cells = page.data.map(({ stream: _, detail: __, ...row }) => ({
          ...row,
          tags: tagsCell(row.tags),
        }))
        controller.enqueue(encoder.encode(csvLines(columns, cells)))
        if (page.next_cursor === null) controller.close()
        else cursor = placeOf(page.next_cursor)
      },
    },
    { highWaterMark: 0 },
  )
  return csvResponse(body, 'requests.csv')
}

/** As the header has them. */
function tagsCell(tags: Readonly<Record<string, string>>): string {
  return Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(',')
}

/** One call of an account. Throws `not_found`, also for another account's call. */
async function requestDetail(
  { requests, ledger, accounts }: Pick<HttpParts, 'requests' | 'ledger' | 'accounts'>,
  id: string,
  account: string,
): Promise<RequestDetailView> {
  const row = await requests.find(id, account)
  if (!row) throw new GatewayError('not_found')
  return detailOfRow({ ledger, accounts }, row)
}

/** The call of a row, with its receipt or why it was refused. */
export async function detailOfRow(
  { ledger, accounts }: Pick<HttpParts, 'ledger' | 'accounts'>,
  row: LoggedRequest,
): Promise<RequestDetailView> {
  const whole = await requestWhole(row, ledger)
  const refusal = whole.receipt === null ? refusalOf(row.code, whole.detail) : null
  return { ...whole, ...(await originOf(accounts, row)), refusal }
}

/** Whose refused credential is not known has called the API. */
function channelOf({ key, account }: LoggedRequest): 'api' | 'app' {
  return key === null && account !== '' ? 'app' : 'api'
}

/** A call as operators see it: whose it was, and by what it came. */
export async function operatorRow(accounts: HttpParts['accounts'], row: LoggedRequest) {
  return {
    ...requestObject(row),
    ...(await originOf(accounts, row)),
    account_email: (row.account === '' ? undefined : await accounts.findAccount(row.account))?.email ?? null,
  }
}

async function originOf(accounts: HttpParts['accounts'], row: LoggedRequest) {
  const key = row.key === null ? undefined : await accounts.findKey(row.key)
  const mode = key?.mode ?? 'live'
  const account = row.account === '' ? null : row.account
  return { account, channel: channelOf(row), key_name: key?.name ?? null, mode }
}

// Explains a refusal: the admission rules in order, the one that applied, its figures, and what would change it.

interface Rule {
  readonly id: string
  readonly codes: readonly ErrorCode[]
  /** What it checks, as a sentence. */
  readonly asks: string
  readonly act: RefusalView['act']['kind']
}

/** In the order of evaluation: the first that applies refuses. */
export const admissionRules: readonly Rule[] = [
  {
    id: 'request',
    codes: [
      'invalid_request',
      'payload_too_large',
      'unsupported_media_type',
      'unsupported_parameter',
      'url_not_allowed',
      'idempotency_conflict',
      'idempotency_in_progress',
      'idempotency_answer_lost',
      'previous_response_not_found',
    ],
    asks: 'Is the request well formed?',
    act: 'change_request',
  },
  {
    id: 'rate',
    codes: ['rate_limit_exceeded', 'overloaded'],
    asks: 'Are the key, the account and the gateway within their limits of requests?',
    act: 'wait',
  },
  {
    id: 'model',
    codes: ['invalid_model_id', 'model_not_found', 'model_retired', 'wrong_endpoint'],
    asks: 'Is the model sold here, at this endpoint?',
    act: 'other_model',
  },
  {
    id: 'plan',
    codes: ['plan_required'],
    asks: 'Is the model open, or does the account have purchased credit (in the app: or a subscription)?',
    act: 'top_up',
  },
  {
    id: 'purchased',
    codes: ['purchased_credits_required'],
    asks: 'Does the account have purchased credit, which is all that API keys spend?',
    act: 'top_up',
  },
  {
    id: 'account',
    codes: ['account_suspended'],
    asks: 'Is the account in good standing?',
    act: 'none',
  },
  {
    id: 'key_models',
    codes: ['model_not_allowed'],
    asks: 'May the key use this model?',
    act: 'allow_model',
  },
  {
    id: 'provider',
    codes: ['model_unavailable', 'no_provider_available', 'context_length_exceeded'],
    asks: 'Is there a provider that can take the call?',
    act: 'other_model',
  },
  {
    id: 'key_limit',
    codes: ['key_limit_exceeded'],
    asks: 'Does what is left of the key’s own limit cover the call?',
    act: 'raise_key_limit',
  },
  {
    id: 'budget',
    codes: ['budget_exceeded'],
    asks: 'Do the budgets of the key’s group cover the call?',
    act: 'raise_budget',
  },
  {
    id: 'credit',
    codes: ['insufficient_credits'],
    asks: 'Does the credit that may pay for the call cover its prompt and a token of its answer?',
    act: 'top_up',
  },
  {
    id: 'held',
    codes: ['credits_reserved'],
    asks: 'Is that credit free, and not held by calls that still run?',
    act: 'wait',
  },
]

/** The rules that were evaluated, with their results. Null for a call that no admission rule refused. */
function refusalOf(
  code: string | null,
  detail: Readonly<Record<string, unknown>> | null,
): RefusalView | null {
  const fired = admissionRules.findIndex(({ codes }) => codes.some((known) => known === code))
  const rule = admissionRules[fired]
  const known = rule?.codes.find((name) => name === code)
  if (!rule || !known) return null
  const figures = figuresOf(detail ?? {})
  return {
    rule: rule.id,
    code: known,
    rules: admissionRules.map(({ id, codes, asks }, at) => ({
      id,
      code: at === fired ? known : codes[0]!,
      asks,
      outcome: at < fired ? 'passed' : at === fired ? 'fired' : 'not_reached',
    })),
    figures,
    act: actOf(rule, known, figures),
  }
}

function figuresOf(detail: Readonly<Record<string, unknown>>): RefusalView['figures'] {
  const pools = Array.isArray(detail['pools']) ? (detail['pools'] as unknown[]) : undefined
  const figures: Record<string, unknown> = {
    needed: detail['estimate'],
    available: detail['available'],
    held: detail['held'],
    key_limit_left: detail['key_limit_left'],
    budget_left: detail['budget_left'],
    resets_at: detail['resets_at'],
    pools,
  }
  return Object.fromEntries(Object.entries(figures).filter(([, value]) => value !== undefined))
}

function actOf({ act }: Rule, code: ErrorCode, figures: RefusalView['figures']): RefusalView['act'] {
  const text = errorTable[code].remedy
  return { kind: act, amount: act === 'top_up' ? missing(figures) : null, text }
}

/** What the account lacks for this call; null if unknown. */
function missing({ needed, available }: Readonly<Record<string, unknown>>): string | null {
  const [need, have] = [needed, available].map((text) =>
    typeof text === 'string' ? parseUsd(text) : undefined,
  )
  return need === undefined || have === undefined ? null : formatUsd(larger(need - have, 0n))
}

// Streams the account's running calls as events, checked twice a second, without contents.

const lookEveryMs = 500
const keepaliveMs = 15_000
/** Limit of streams per account; each is checked every half second. */
const mostStreams = 10
/** Calls per event; the newest if there are more. */
const mostCalls = 100
/** Then the browser reconnects, which checks its session again. */
const longestMs = 10 * 60_000

export const liveRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET live',
    { summary: 'Its calls in flight, as events whenever they change' },
    ({ parts, account, request, session }) => {
      const headers = {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      }
      // The answer to HEAD would not come before the end of the events.
      if (request.method === 'HEAD') return new Response(null, { headers })
      const { inFlight } = parts.chat
      const endWatch = inFlight.watch(account.id, mostStreams)
      if (!endWatch)
        throw new GatewayError('rate_limit_exceeded', {
          message: `An account watches its calls in at most ${mostStreams} places at once.`,
          retryAfterMs: 5_000,
        })
      parts.keepOpen(request)
      const isOver = async () => {
        const now = await parts.accounts.findSession(session.id)
        const owner = await parts.accounts.findAccount(account.id)
        return (
          !parts.ready() || !now || sessionFault(now, parts.now()) !== undefined || owner?.suspended !== false
        )
      }
      const onEnd = () => {
        endWatch()
        parts.closeWhenIdle(request)
      }
      const events = liveEvents({
        callsNow: () => parts.callsOf(account.id),
        isOver,
        ended: onEnd,
        signal: request.signal,
        log: parts.log,
      })
      return new Response(events, { headers })
    },
  ),
]

export interface LiveWatch {
  readonly callsNow: () => Awaitable<readonly Readonly<LiveCall>[]>
  readonly isOver: () => Promise<boolean>
  readonly ended: () => void
  readonly signal: AbortSignal
  readonly log: Pick<Log, 'warn'>
}

/**
 * Ends when `isOver`, when the reader disconnects, after ten minutes, and when the calls cannot be looked up, which the
 * log says: the browser connects again.
 */
export function liveEvents({ callsNow, isOver, ended, signal, log }: LiveWatch): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let timer: ReturnType<typeof setInterval> | undefined
  let last = ''
  let seen: readonly LiveCallView[] = []
  const began = performance.now()
  let saidAt = began
  const end = () => {
    if (timer === undefined) return
    clearInterval(timer)
    timer = undefined
    ended()
  }
  return new ReadableStream({
    start(controller) {
      const close = () => {
        if (timer === undefined) return
        end()
        controller.close()
      }
      const say = (text: string) => {
        // A slow reader misses events; each event is complete.
        if ((controller.desiredSize ?? 0) <= 0) return false
        controller.enqueue(encoder.encode(text))
        saidAt = performance.now()
        return true
      }
      const look = async () => {
        const over = await isOver().catch(() => true)
        const now = await callsNow()
        if (timer === undefined) return
        if (over || performance.now() - began > longestMs) return close()
        const calls = now.slice(-mostCalls).map(callView)
        const here = new Set(calls.map(({ id }) => id))
        const settled = seen
          .filter(({ id, phase }) => phase !== 'settled' && !here.has(id))
          .map((call) => ({ ...call, phase: 'settled' as const }))
        const data = JSON.stringify({ calls: [...settled, ...calls] })
        if (data !== last && say(`event: calls\ndata: ${data}\n\n`)) {
          last = data
          seen = calls
        } else if (performance.now() - saidAt > keepaliveMs) say(': still here\n\n')
      }
      const lookOrClose = () =>
        void look().catch((error: unknown) => {
          if (timer !== undefined) log.warn('the calls in flight could not be looked up', { error })
          close()
        })
      timer = setInterval(lookOrClose, lookEveryMs)
      signal.addEventListener('abort', close, { once: true })
      lookOrClose()
    },
    cancel: end,
  })
}

function callView(call: Readonly<LiveCall>): LiveCallView {
  return {
    id: call.id,
    model: call.model,
    key: call.key,
    channel: call.channel,
    phase: call.phase,
    started_at: iso(call.startedAt),
    first_byte_ms: call.firstByteMs,
    output_tokens: call.outputTokens,
    hold: formatUsd(call.hold),
  }
}
