// Support cases of operators: whether calls are one request that was charged twice, and why calls with a key are refused.

import { z } from 'zod'
import { type Account, type ApiKey, keyFault, windowEnd, windowStart } from '../../accounts/account.ts'
import { budgetsOf, type GroupStanding } from '../../accounts/group.ts'
import { completionTokens, promptTokens } from '../../conversation/usage.ts'
import { freeIn, remainingIn } from '../../credits/wallet.ts'
import type { CallRecord, KeyedCall } from '../../credits/ledger/ledger.ts'
import { receiptOf } from '../../credits/ledger/receipt.ts'
import { formatUsd, larger } from '../../credits/money.ts'
import { fundingOf } from '../../credits/pool.ts'
import { type ErrorCode, errorTable, GatewayError } from '../../errors/errors.ts'
import type { LoggedRequest } from '../../observe/call-log.ts'
import { requestIdOf } from '../../protocols/openai-responses/inbound/inbound.ts'
import { detailOfRow, operatorRow, time } from '../console/requests.ts'
import { type AdminRoute, adminRoute, iso, isoOrNull } from '../console/route.ts'
import { accountNamed } from './accounts.ts'
import { queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import type { RequestDetailView } from '../console/answers.ts'
import type { DuplicatesView, KeyCheckView, KeyChecksView } from './answers.ts'

/** Calls further apart, from one start to the next, are not taken for one request. */
const retriedWithinMs = 10 * 60_000
/** How far around a time calls are looked at. */
export const aroundMs = 15 * 60_000
const mostLooked = 200
const mostSets = 10
const mostOfSet = 6
const mostIds = 5
const refusalsOfMs = 7 * 86_400_000

const duplicateParameters = z.strictObject({
  ids: z
    .string()
    .max(1_100)
    .transform((text) => [...new Set(text.split(',').map((id) => id.trim()))].filter((id) => id !== ''))
    .refine((ids) => ids.length <= mostIds, `It takes at most ${mostIds} ids.`)
    .optional()
    .describe(
      'Ids of calls, with commas between them: several are compared, one is looked up with those like it.',
    ),
  account: z.string().max(200).optional().describe('In place of ids: the id of an account, or its address.'),
  at: time.optional().describe('Of an account: about when. Without it its last calls are looked at.'),
})

export const supportRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET duplicates',
    {
      id: 'findDuplicates',
      summary: 'Find calls that may be one request, and what each was charged',
      description:
        'Of the calls named by `ids`, or of those of an account: the same key, model and number of prompt tokens, begun within ten minutes of each other. Where both were sent with an Idempotency-Key, it is known whether their bodies were the same.',
      query: duplicateParameters,
    },
    async ({ parts, request }) => {
      const { ids, account, at } = queryOf(duplicateParameters, request)
      if (ids !== undefined && ids.length > 0) return duplicatesOf(parts, ids, request.signal)
      if (account === undefined)
        throw new GatewayError('invalid_request', { message: 'It takes ids or an account.', param: 'ids' })
      const whose = await parts.accounts.findAccount(account)
      if (!whose) throw new GatewayError('not_found')
      return duplicatesIn(parts, whose, at, request.signal)
    },
  ),
  adminRoute(
    'GET accounts/:account/keys/:id/checks',
    {
      id: 'checkAccountKey',
      summary: 'Find out whether calls with a key are refused now, why, and which were of late',
    },
    async ({ parts, params }) => {
      const account = await accountNamed({ parts, params })
      const key = await parts.accounts.findKey(params['id'] ?? '')
      if (key?.account !== account.id) throw new GatewayError('not_found')
      return { data: await checksOf(parts, account, key) }
    },
  ),
]

// Calls that may be one request.

/** Milliseconds since 1970. */
function startOf({ at, totalMs }: Pick<LoggedRequest, 'at' | 'totalMs'>): number {
  return at - totalMs
}

/** What has to be the same of a request that was sent again. */
function likenessOf({ key, model, promptTokens }: LoggedRequest): string {
  return JSON.stringify([key, model, promptTokens])
}

/**
 * The rows that may be one request, of two or more, each set by start; the newest set first. Rows without a cost may be
 * among them: a first attempt that failed says why there was a second.
 */
export function alikeSets(rows: readonly LoggedRequest[]): readonly (readonly LoggedRequest[])[] {
  const sets: LoggedRequest[][] = []
  const open = new Map<string, LoggedRequest[]>()
  for (const row of rows.toSorted((a, b) => startOf(a) - startOf(b))) {
    const likeness = likenessOf(row)
    const set = open.get(likeness)
    if (set !== undefined && startOf(row) - startOf(set.at(-1)!) <= retriedWithinMs) set.push(row)
    else {
      const begun = [row]
      open.set(likeness, begun)
      sets.push(begun)
    }
  }
  return sets.filter((set) => set.length > 1).toReversed()
}

interface LookedCall {
  readonly row: LoggedRequest
  readonly record: CallRecord | undefined
  readonly keyed: KeyedCall | undefined
}

type DuplicateSet = DuplicatesView['data'][number]

/**
 * What is to be said of calls that are put beside each other. `sent_again`: one body, charged more than once.
 * `look_alike`: so it seems, and nobody knows the bodies.
 */
export function verdictOf(calls: readonly LookedCall[]): Pick<DuplicateSet, 'verdict' | 'differ'> {
  const [first] = calls
  const others = calls.slice(1)
  if (first === undefined || others.length === 0) return { verdict: 'one_call', differ: [] }
  const differ: DuplicateSet['differ'][number][] = []
  if (others.some(({ row }) => row.account !== first.row.account)) differ.push('account')
  if (others.some(({ row }) => row.key !== first.row.key)) differ.push('key')
  if (others.some(({ row }) => row.model !== first.row.model)) differ.push('model')
  if (others.some(({ row }) => row.promptTokens !== first.row.promptTokens)) differ.push('prompt_tokens')
  const bodies = calls.map(({ keyed }) => keyed && Buffer.from(keyed.bodyHash).toString('hex'))
  const known = bodies.filter((body) => body !== undefined)
  if (new Set(known).size > 1) differ.push('body')
  const charged = calls.filter(({ record }) => (record?.charged ?? 0n) > 0n).length
  if (charged === 0) return { verdict: 'not_charged', differ }
  if (charged === 1) return { verdict: 'charged_once', differ }
  if (differ.length > 0) return { verdict: 'different', differ }
  return { verdict: known.length === calls.length ? 'sent_again' : 'look_alike', differ }
}

type DuplicateParts = Pick<HttpParts, 'accounts' | 'finder' | 'idempotency' | 'ledger' | 'requests'>

async function duplicatesOf(
  parts: DuplicateParts,
  ids: readonly string[],
  signal: AbortSignal,
): Promise<DuplicatesView> {
  const found = new Map<string, LoggedRequest>()
  const missing: string[] = []
  for (const id of ids) {
    const row = await callNamed(parts, id)
    if (row) found.set(row.requestId, row)
    else missing.push(id)
  }
  const rows = [...found.values()]
  const [only] = rows
  if (only === undefined) return { data: [], looked: 0, missing }
  const isAlone = ids.length === 1
  const set = isAlone ? await alikeOf(parts, only, signal) : rows
  const sorted = set.toSorted((a, b) => startOf(a) - startOf(b))
  return {
    data: isAlone && sorted.length === 1 ? [] : [await setOf(parts, sorted)],
    looked: rows.length,
    missing,
  }
}

/**
 * By its id, that of its response, or its provider's. The ledger knows calls that the request log holds no more, but for
 * how they were answered.
 */
export async function callNamed(
  { requests, finder, ledger }: Pick<DuplicateParts, 'requests' | 'finder' | 'ledger'>,
  id: string,
): Promise<LoggedRequest | undefined> {
  const row = await requests.find(requestIdOf(id) ?? id)
  if (row) return row
  const found = (await finder.find(id, 1)).find(({ kind }) => kind === 'request')
  if (!found) return undefined
  const record = found.account === null ? undefined : await ledger.call(found.account.id, found.id)
  return (await requests.find(found.id)) ?? (record && rowOf(record))
}

/** What the ledger knows of a call, as a row of the log. */
function rowOf(record: CallRecord): LoggedRequest {
  const { released, served, attempts, usage } = record
  const code = released !== null && released in errorTable ? (released as ErrorCode) : null
  return {
    requestId: record.call,
    at: record.endedAt ?? record.openedAt,
    seq: 0,
    account: record.inGroup?.person ?? record.account,
    key: record.key,
    model: record.model,
    provider: served?.provider ?? attempts.at(-1)?.provider ?? null,
    stream: served?.stream ?? false,
    status: code === null ? 200 : errorTable[code].status,
    code,
    ending: record.ending,
    promptTokens: usage === null ? 0 : promptTokens(usage),
    completionTokens: usage === null ? 0 : completionTokens(usage),
    cost: record.cost,
    attempts: attempts.length,
    firstByteMs: served?.firstByteMs ?? null,
    totalMs: served?.totalMs ?? 0,
    detail: null,
    contents: null,
    tags: JSON.stringify(record.tags),
  }
}

/** A call of any account. Throws `not_found`. */
export async function detailOfCall(
  parts: Pick<HttpParts, 'accounts' | 'finder' | 'ledger' | 'requests'>,
  id: string,
): Promise<RequestDetailView> {
  const row = await callNamed(parts, id)
  if (!row) throw new GatewayError('not_found')
  return detailOfRow(parts, row)
}

/** The call with those that may be the same request. */
async function alikeOf(
  { requests }: Pick<DuplicateParts, 'requests'>,
  row: LoggedRequest,
  signal: AbortSignal,
): Promise<readonly LoggedRequest[]> {
  if (row.account === '') return [row]
  const { rows } = await requests.page(
    {
      account: row.account,
      ...(row.key === null ? { channel: 'app' as const } : { key: row.key }),
      model: row.model,
      from: startOf(row) - retriedWithinMs,
      until: row.at + retriedWithinMs,
      limit: mostLooked,
    },
    signal,
  )
  return alikeSets(rows).find((set) => set.some(({ requestId }) => requestId === row.requestId)) ?? [row]
}

async function duplicatesIn(
  parts: DuplicateParts,
  { id: account }: Account,
  at: number | undefined,
  signal: AbortSignal,
): Promise<DuplicatesView> {
  const when = at === undefined ? {} : { from: at - aroundMs, until: at + aroundMs }
  const { rows } = await parts.requests.page({ account, ...when, limit: mostLooked }, signal)
  const costly = alikeSets(rows).filter((set) => set.filter(({ cost }) => cost > 0n).length > 1)
  const sets: DuplicateSet[] = []
  for (const set of costly) {
    if (sets.length === mostSets) break
    const looked = await setOf(parts, set)
    if (looked.verdict === 'sent_again' || looked.verdict === 'look_alike') sets.push(looked)
  }
  return { data: sets, looked: rows.length, missing: [] }
}

/** `rows` by start. Of very many the first are looked at. */
async function setOf(parts: DuplicateParts, rows: readonly LoggedRequest[]): Promise<DuplicateSet> {
  const shown = rows.slice(0, mostOfSet)
  const claims = await parts.idempotency.claimsOf(shown.map(({ requestId }) => requestId))
  const calls = await Promise.all(
    shown.map(async (row) => ({
      row,
      record: await parts.ledger.call(row.account, row.requestId),
      keyed: claims.find(({ call }) => call === row.requestId),
    })),
  )
  return {
    ...verdictOf(calls),
    count: rows.length,
    calls: await Promise.all(
      calls.map(async ({ row, record, keyed }) => {
        const receipt = record && receiptOf(record)
        return {
          ...(await operatorRow(parts.accounts, row)),
          started_at: iso(startOf(row)),
          charged: receipt?.charged ?? '0',
          on_credit: receipt?.on_credit ?? '0',
          paid_by: receipt?.paid_by ?? null,
          drawn: (receipt?.drawn ?? []).map(({ pool, lot, amount }) => ({ pool, lot, amount })),
          idempotency_key: keyed?.key ?? null,
        }
      }),
    ),
  }
}

// Why calls with a key are refused.

type CheckParts = Pick<
  HttpParts,
  'accounts' | 'acts' | 'groups' | 'ledger' | 'monthlyCredit' | 'now' | 'requests'
>

async function checksOf(parts: CheckParts, account: Account, key: ApiKey): Promise<KeyChecksView> {
  const now = parts.now()
  if (!account.suspended) await parts.monthlyCredit.ensure(account)
  const standing =
    key.group === null ? null : ((await parts.accounts.findStanding(key.group, account.id)) ?? null)
  const checks = [
    await keyCheck(parts, key, now),
    check('account', account.suspended ? 'account_suspended' : null),
    ...(await groupChecks(parts, key, standing, now)),
    ...(key.mode === 'test' ? [] : await creditChecks(parts, account, standing, now)),
    ...(await limitChecks(parts, key, now)),
    ...modelChecks(key, standing),
    ...(key.networks === null ? [] : [check('networks', null, { names: key.networks })]),
  ]
  return { checks, refusals: await refusalsOf(parts, key, now) }
}

type CheckFigures = Partial<Omit<KeyCheckView, 'id' | 'code' | 'remedy'>>

function check(id: KeyCheckView['id'], code: ErrorCode | null, figures: CheckFigures = {}): KeyCheckView {
  return {
    id,
    code,
    remedy: code === null ? null : errorTable[code].remedy,
    name: null,
    by: null,
    at: null,
    limit: null,
    spent: null,
    reserved: null,
    names: null,
    ...figures,
  }
}

async function keyCheck({ acts }: Pick<CheckParts, 'acts'>, key: ApiKey, now: number): Promise<KeyCheckView> {
  const code = keyFault(key, now)?.code ?? null
  if (code === 'api_key_revoked') {
    const revocations = await acts.page(100, undefined, { what: 'key.revoke', subject: key.account })
    const isOfOperator = revocations.some(({ before }) => isAbout(before, key.id))
    return check('key', code, { by: isOfOperator ? 'operator' : 'owner', at: isoOrNull(key.revokedAt) })
  }
  if (code === 'api_key_paused')
    return check('key', code, { by: key.paused?.by ?? null, at: isoOrNull(key.paused?.at ?? null) })
  return check('key', code, { at: isoOrNull(key.expiresAt) })
}

function isAbout(state: unknown, key: string): boolean {
  return typeof state === 'object' && state !== null && 'key' in state && state.key === key
}

async function groupChecks(
  { ledger, groups }: Pick<CheckParts, 'ledger' | 'groups'>,
  { group }: ApiKey,
  standing: GroupStanding | null,
  now: number,
): Promise<readonly KeyCheckView[]> {
  if (group === null) return []
  if (standing === null) {
    const name = (await groups.groupName(group)) ?? group
    return [check('group', 'api_key_revoked', { name })]
  }
  const budgets = budgetsOf(standing, now)
  const spends = await ledger.budgetSpend(budgets)
  return budgets.flatMap(({ scope, limit, windowEnd: end }, at) => {
    if (limit === null) return []
    const [id, person] = scope.split('/')
    const { spent, held } = spends[at]!
    return [
      check(
        person === undefined ? 'budget' : 'member_budget',
        spent + held >= limit ? 'budget_exceeded' : null,
        {
          name: standing.levels.find((level) => level.id === id)!.name,
          limit: formatUsd(limit),
          spent: formatUsd(spent),
          reserved: formatUsd(held),
          at: isoOrNull(end),
        },
      ),
    ]
  })
}

async function creditChecks(
  { ledger }: Pick<CheckParts, 'ledger'>,
  account: Account,
  standing: GroupStanding | null,
  now: number,
): Promise<readonly KeyCheckView[]> {
  const payer = standing?.payer ?? account.id
  const balance = await ledger.balance(payer)
  const remaining = remainingIn(balance, 'purchased', now)
  const free = freeIn(balance, fundingOf('api', true), now)
  const code = remaining <= 0n ? 'purchased_credits_required' : free <= 0n ? 'credits_reserved' : null
  const level = standing?.levels.find(({ id }) => id === payer)
  return [
    check('credit', code, {
      name: level?.name ?? null,
      limit: formatUsd(larger(0n, remaining)),
      reserved: formatUsd(larger(0n, remaining - free)),
    }),
  ]
}

async function limitChecks(
  { ledger }: Pick<CheckParts, 'ledger'>,
  { id, spendLimit, limitWindow }: ApiKey,
  now: number,
): Promise<readonly KeyCheckView[]> {
  if (spendLimit === null) return []
  const { spent, held } = await ledger.keySpend(id, windowStart(limitWindow, now))
  const code = spent + held >= spendLimit ? 'key_limit_exceeded' : null
  const figures = { limit: formatUsd(spendLimit), spent: formatUsd(spent), reserved: formatUsd(held) }
  return [check('limit', code, { ...figures, at: isoOrNull(windowEnd(limitWindow, now)) })]
}

/** Of the key, and of each group on the way up, whose lists hold as well. */
function modelChecks({ allowedModels }: ApiKey, standing: GroupStanding | null): readonly KeyCheckView[] {
  const lists = [
    { name: null, models: allowedModels },
    ...(standing?.levels ?? []).map(({ name, allowedModels: models }) => ({ name, models })),
  ]
  return lists.flatMap(({ name, models }) =>
    models === null ? [] : [check('models', null, { name, names: models })],
  )
}

/** Those of the last week by code, the latest code first; of very many the latest are counted. */
async function refusalsOf(
  { requests }: Pick<CheckParts, 'requests'>,
  { id }: ApiKey,
  now: number,
): Promise<KeyChecksView['refusals']> {
  const { rows } = await requests.page({
    key: id,
    outcome: 'unserved',
    from: now - refusalsOfMs,
    limit: mostLooked,
  })
  const codes = new Map<string, LoggedRequest[]>()
  for (const row of rows) codes.set(row.code!, [...(codes.get(row.code!) ?? []), row])
  return [...codes].map(([code, [last, ...more]]) => ({
    code,
    calls: more.length + 1,
    status: last!.status,
    last_at: iso(last!.at),
    last_id: last!.requestId,
    model: last!.model === '' ? null : last!.model,
  }))
}
