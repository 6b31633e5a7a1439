// Accounts for operators: search, create, grant credit, suspend, make sign-in links; and their keys, MCP servers and
// webhooks.

import { z } from 'zod'
import { type Account, type AccountEntry, accountSorts, accountStates } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import { lifeFault } from '../../credits/calendar.ts'
import { parseCreditLine } from '../../credits/wallet.ts'
import { formatUsd } from '../../credits/money.ts'
import { pools } from '../../credits/pool.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { AccessView } from '../console/answers.ts'
import { creditView } from '../console/credits.ts'
import { keyActs } from '../console/keys.ts'
import { mcpServerActs } from '../console/mcp-servers.ts'
import {
  type AccountRoute,
  type AdminAsked,
  type AdminRoute,
  adminRoute,
  iso,
  isoOrNull,
} from '../console/route.ts'
import { webhookActs } from '../console/webhooks.ts'
import { amountOf, futureTime, invalid, inviteBody, requestId } from '../console/bodies.ts'
import { pageLimit, queryOf } from '../intake/query.ts'
import { whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import {
  accountView,
  deleteAccount,
  endSession,
  grantCredit,
  inviteAccount,
  openAccount,
  setCreditLine,
  setMonthlyCredit,
  setRole,
  signInLink,
  suspendOrResume,
} from './acts.ts'
import { invitePeople, listBody, rowsOf } from './invitations.ts'
import type { AccountDetailView, AccountEntryView, GrantView } from './answers.ts'

const role = z.enum(['user', 'operator'])
const nothing = z.strictObject({})

const listParameters = z.strictObject({
  q: z.string().max(256).optional().describe('Only accounts whose address or id holds this text.'),
  state: z.enum(accountStates).optional(),
  sort: z
    .enum(accountSorts)
    .default('opened')
    .describe(
      'By when they were opened, by address, by purchased credit, by what they spent this month, or by their last call.',
    ),
  order: z.enum(['asc', 'desc']).default('asc'),
  cursor: z.string().max(256).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})

const creditLineBody = z.strictObject({
  /** US dollars, `unlimited`, or null for no credit line. */
  credit_line: z.string().max(32).nullable(),
})

const monthlyCreditBody = z.strictObject({
  monthly_credit_usd: z
    .string()
    .regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be US dollars such as "5" or "0.50"')
    .nullable()
    .describe('Null for nothing.'),
})

const grantBody = z.strictObject({
  pool: z.enum(pools),
  usd: z.string().regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be US dollars such as "5" or "0.50"'),
  id: requestId.describe('An id of yours for the grant: the same one never grants twice.'),
  expires_at: z
    .union([z.literal('never'), z.iso.datetime({ offset: true })])
    .optional()
    .describe(
      'A time, or `never`. Without it purchased credit lasts twelve months, daily credit until midnight UTC and welcome ' +
        'credit for ever; daily credit may not last longer, and subscription credit needs the end of its period.',
    ),
  note: z.string().max(500).optional(),
})

export const accountRoutes: readonly AdminRoute[] = [
  adminRoute(
    {
      method: 'GET',
      path: 'accounts',
      id: 'listAccounts',
      summary: 'List accounts',
      description:
        'In the order they were opened, or sorted otherwise; a `next_cursor` is of one order. Deleted accounts are not among them.',
      query: listParameters,
    },
    async ({ parts, request }) => {
      const { q, cursor, ...asked } = queryOf(listParameters, request)
      const page = await whileOpen(parts, request, () =>
        parts.directory.page(
          { ...asked, q: q?.toLowerCase(), after: cursor, now: parts.now() },
          request.signal,
        ),
      )
      return { data: page.accounts.map(entryView), has_more: page.next !== null, next_cursor: page.next }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts',
      id: 'createAccount',
      summary: 'Open an account',
      description:
        'Whoever opens it vouches for its address. It has no password: its owner gets in by a link. With a management key it is of a user, not of an operator.',
      status: 201,
      elevated: true,
      errors: ['elevation_required'],
      body: inviteBody,
    },
    (asked) => openAccount(asked, asked.body),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'accounts/:account',
      id: 'getAccount',
      summary: 'Get an account with its credit',
    },
    async (asked) => {
      const account = await accountNamed(asked)
      return { data: await detailOf(asked.parts, account) }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/grant',
      id: 'grantCredit',
      summary: 'Grant credit',
      description:
        'With an `id` of yours the same grant can be sent again: it is booked once, and the answer says `granted: false` from the second time on. Another amount, pool, expiry or account under that id is 409 `idempotency_conflict`, which says what was granted. The note of the first stays.',
      elevated: true,
      body: grantBody,
    },
    grant,
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/credit-line',
      id: 'setCreditLine',
      summary: 'Say how much an account may owe',
      description:
        'Calls are admitted against it when there is no purchased credit left; what is owed is paid by the next credit.',
      elevated: true,
      body: creditLineBody,
    },
    async (asked) => {
      const { parts, body } = asked
      const account = await accountNamed(asked)
      const most = parseCreditLine(body.credit_line ?? 'none')
      if (most === undefined)
        throw invalid(
          'credit_line takes US dollars such as "500", at most 1000000, or "unlimited".',
          'credit_line',
        )
      await setCreditLine(asked, account, most)
      return { data: { ...accountView(account), credits: await creditView(parts, account.id) } }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/monthly-credit',
      id: 'setMonthlyCredit',
      summary: 'Say what an account has each month',
      description:
        'Purchased credit that ends with its month in UTC. This month has it at once, unless it had some before: then the new amount holds from the next month on.',
      elevated: true,
      body: monthlyCreditBody,
    },
    async (asked) => {
      const { parts, body } = asked
      const account = await accountNamed(asked)
      const text = body.monthly_credit_usd
      await setMonthlyCredit(asked, account, text === null ? 0n : amountOf('monthly_credit_usd', text))
      return { data: await detailOf(parts, await accountNamed(asked)) }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/suspend',
      id: 'suspendAccount',
      summary: 'Refuse the calls of an account; its credit stays',
      body: nothing,
    },
    async (asked) => suspendOrResume(asked, await accountNamed(asked), 'suspend'),
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/resume',
      id: 'resumeAccount',
      summary: 'Serve the calls of a suspended account again',
      // Keys and sessions of the account let their holders in again.
      elevated: true,
      body: nothing,
    },
    async (asked) => suspendOrResume(asked, await accountNamed(asked), 'resume'),
  ),
  adminRoute(
    {
      method: 'DELETE',
      path: 'accounts/:account',
      id: 'deleteAccount',
      summary: 'Delete an account and what it said; its charges stay in the books',
      description:
        'Its keys, sessions and running calls end at once, and what is left of its credit is lost. Nothing brings it back. With a management key: accounts of users, not of operators.',
      elevated: true,
      errors: ['elevation_required'],
    },
    async (asked) => {
      const account = await accountNamed(asked)
      await deleteAccount(asked, account)
      return { id: account.id, deleted: true }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/role',
      id: 'setRole',
      summary: 'Make an account an operator, or a user again',
      description:
        'Who becomes an operator signs in anew, by the `link` of the answer: password, passkeys, linked identities, sessions and links of the account before are void, because somebody else may have made them. Its management keys of earlier end too. Its API keys, webhooks, MCP servers and conversations stay: `access` counts them. Whoever becomes a user loses the management keys. Not with a management key, not even to make an operator a user again: it could sign in to the account then.',
      elevated: true,
      errors: ['elevation_required'],
      body: z.strictObject({ role }),
    },
    async (asked) => setRole(asked, await accountNamed(asked), asked.body.role),
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'accounts/:account/link',
      id: 'createSignInLink',
      summary: 'Make a link that signs in to an account, once, within 15 minutes',
      description:
        'Any older link of the account is void. With a management key: for accounts of users, not of operators.',
      status: 201,
      elevated: true,
      errors: ['elevation_required', 'sign_in_closed'],
      body: nothing,
    },
    async (asked) => signInLink(asked, await accountNamed(asked)),
  ),
  adminRoute(
    {
      method: 'GET',
      path: 'accounts/:account/sessions',
      id: 'listSessions',
      summary: 'List the open sessions of an account',
    },
    async (asked) => {
      const { id } = await accountNamed(asked)
      const sessions = await asked.parts.identityStore.openSessions(id, asked.parts.now())
      return {
        data: sessions.map((session) => ({
          id: session.id,
          created_at: iso(session.createdAt),
          seen_at: isoOrNull(session.seenAt),
          expires_at: iso(session.expiresAt),
          user_agent: session.userAgent,
        })),
      }
    },
  ),
  adminRoute(
    {
      method: 'DELETE',
      path: 'accounts/:account/sessions/:session',
      id: 'endSession',
      summary: 'End a session, at once',
    },
    async (asked) => {
      const { parts, params } = asked
      const account = await accountNamed(asked)
      const session = await parts.accounts.findSession(params['session'] ?? '')
      if (session?.account !== account.id) throw new GatewayError('not_found')
      await endSession(asked, session)
      return { id: session.id, ended: true }
    },
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'invitations',
      id: 'invite',
      summary: 'Open an account for an address and make the link that signs in to it for the first time',
      description: 'With a management key: for users, not for operators.',
      status: 201,
      elevated: true,
      errors: ['elevation_required', 'sign_in_closed'],
      body: inviteBody,
    },
    (asked) => inviteAccount(asked, asked.body),
  ),
  adminRoute(
    {
      method: 'POST',
      path: 'invitations/list',
      id: 'inviteList',
      summary: 'Open accounts for the people of a list, with a group and an allowance',
      description:
        'What is wrong with the list is said with all its lines, and then nobody is invited. Sent again, it adds what is missing and changes what it says otherwise. For users, not for operators; at most 1,000 people.',
      elevated: true,
      body: listBody,
    },
    async (asked) => ({ data: await invitePeople(asked, rowsOf(asked.body)) }),
  ),
]

/** An account in a list of operators. */
export function entryView({ balance, spent, usedAt, ...account }: AccountEntry): AccountEntryView {
  return {
    ...accountView(account),
    balance_usd: formatUsd(balance),
    spent_usd: formatUsd(spent),
    last_call_at: isoOrNull(usedAt),
  }
}

async function grant(asked: AdminAsked<z.infer<typeof grantBody>>): Promise<GrantView> {
  const { parts, body } = asked
  const account = await accountNamed(asked)
  const amount = amountOf('usd', body.usd)
  const expiresAt = expiryOf(body, parts.now())
  const { id, pool, note = null } = body
  const { lot, granted } = await grantCredit(asked, account, { id, pool, amount, expiresAt, note })
  return { lot, granted, pool, usd: formatUsd(amount), credits: await creditView(parts, account.id) }
}

function expiryOf({ pool, expires_at: text }: z.infer<typeof grantBody>, now: number) {
  const until = text === undefined || text === 'never' ? null : futureTime('expires_at', text, now)
  const at = text === 'never' ? ('never' as const) : until
  const fault = lifeFault(pool, at, now)
  if (fault !== undefined) throw invalid(fault, 'expires_at')
  return at
}

async function detailOf(parts: HttpParts, account: Account): Promise<AccountDetailView> {
  const { monthlyCredit, suspended } = account
  // What a call would get first is there when somebody looks.
  if (!suspended) await parts.monthlyCredit.ensure(account)
  return {
    ...accountView(account),
    monthly_credit_usd: monthlyCredit === 0n ? null : formatUsd(monthlyCredit),
    credits: await creditView(parts, account.id),
    access: await accessOf(parts, account),
  }
}

/** What lets somebody into an account or acts for it: after a change of its role, what is left. */
function accessOf({ identityStore, now }: HttpParts, { id }: Account): Awaitable<AccessView> {
  return identityStore.accessOf(id, now())
}

/** The account of the path. Throws `not_found`. */
export async function accountNamed({
  parts,
  params,
}: Pick<AdminAsked<unknown>, 'parts' | 'params'>): Promise<Account> {
  const id = params['account'] ?? ''
  const account = await parts.accounts.findAccount(id)
  if (account?.id !== id) throw new GatewayError('not_found')
  return account
}

// What the owner of an account does with it in the console, for operators and any account.

function ofOperators(routes: readonly AccountRoute[]): readonly AdminRoute[] {
  return routes.map(({ handle, operators, ...spec }) =>
    adminRoute<unknown>({ ...spec, ...operators, path: `accounts/:account/${spec.path}` }, async (asked) =>
      handle({ ...asked, account: await accountNamed(asked) }),
    ),
  )
}

export const accountKeyRoutes = ofOperators(keyActs)
export const accountMcpServerRoutes = ofOperators(mcpServerActs)
export const accountWebhookRoutes = ofOperators(webhookActs)
