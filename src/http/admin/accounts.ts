// Accounts for operators: search, create, grant credit, suspend, make sign-in links; and their keys, MCP servers and
// webhooks.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import type { Awaitable } from '../../async/async.ts'
import { requireAddress } from '../../accounts/identity/address.ts'
import { invitedAccount } from '../../accounts/identity/identities.ts'
import { lifeFault } from '../../credits/calendar.ts'
import { formatCreditLine, parseCreditLine } from '../../credits/balance.ts'
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
  recordAct,
  requirePerson,
} from '../console/route.ts'
import { webhookActs } from '../console/webhooks.ts'
import { amountOf, futureTime, invalid, inviteBody, requestId } from '../console/bodies.ts'
import { pageLimit, queryOf } from '../intake/query.ts'
import type { HttpParts } from '../parts.ts'
import type { AccountView, GrantView, LinkView } from './answers.ts'

const role = z.enum(['user', 'operator'])
const nothing = z.strictObject({})

const listParameters = z.strictObject({
  q: z.string().max(256).optional().describe('Only accounts whose address or id holds this text.'),
  cursor: z.string().max(256).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})

const creditLineBody = z.strictObject({
  /** US dollars, `unlimited`, or null for no credit line. */
  credit_line: z.string().max(32).nullable(),
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
      description: 'In the order they were opened. Deleted accounts are not among them.',
      query: listParameters,
    },
    async ({ parts, request }) => {
      const { q, cursor, limit } = queryOf(listParameters, request)
      const { accounts, next } = await parts.accounts.pageAccounts({
        q: q?.toLowerCase(),
        after: cursor,
        limit,
      })
      return { data: accounts.map(accountView), has_more: next !== null, next_cursor: next }
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
    async (asked) => {
      const { parts, body } = asked
      if (body.role === 'operator') requirePerson(asked)
      const account = await parts.accounts.createAccount(requireAddress(body.email), {
        role: body.role ?? 'user',
      })
      await recordAct(asked, 'account.create', account.id, null, accountView(account))
      await parts.freeCredit.ensure(account)
      return accountView(account)
    },
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
      const { parts } = asked
      const credits = await creditView(parts, account.id)
      return { data: { ...accountView(account), credits, access: await accessOf(parts, account) } }
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
    grantCredit,
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
      const before = formatCreditLine((await parts.ledger.balance(account.id)).creditLine)
      await parts.ledger.setCreditLine(account.id, most)
      const after = { credit_line: formatCreditLine(most) }
      await recordAct(asked, 'account.credit_line', account.id, { credit_line: before }, after)
      return { data: { ...accountView(account), credits: await creditView(parts, account.id) } }
    },
  ),
  changing('suspend', 'suspendAccount', 'Refuse the calls of an account; its credit stays', (parts, id) =>
    parts.identityStore.suspend(id),
  ),
  changing('resume', 'resumeAccount', 'Serve the calls of a suspended account again', (parts, id) =>
    parts.accounts.resume(id),
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
    async (asked) => {
      const { parts, body } = asked
      requirePerson(asked)
      const before = await accountNamed(asked)
      const promoted =
        body.role === 'operator' && (await parts.identityStore.setRole(before.id, body.role, parts.now()))
      if (body.role === 'user') await parts.identityStore.demote(before.id, parts.now())
      await recordAct(asked, 'account.role', before.id, { role: before.role }, { role: body.role })
      const account = await accountNamed(asked)
      const link = promoted ? linkView(await parts.identities.linkFor('link', account)) : null
      return { ...accountView(account), link, access: await accessOf(parts, account) }
    },
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
      errors: ['elevation_required'],
      body: nothing,
    },
    async (asked) => {
      const account = await accountNamed(asked)
      if (account.role === 'operator') requirePerson(asked)
      await recordAct(asked, 'account.link', account.id, null, null)
      return linkView(await asked.parts.identities.linkFor('link', account))
    },
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
      await parts.accounts.revokeSession(session.id, parts.now())
      await recordAct(asked, 'session.end', account.id, { session: session.id }, null)
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
      errors: ['elevation_required'],
      body: inviteBody,
    },
    async (asked) => {
      const { parts, body } = asked
      if (body.role === 'operator') requirePerson(asked)
      const invited = { email: body.email, role: body.role ?? 'user' }
      const account = await invitedAccount(parts.accounts, invited.email, invited.role)
      await recordAct(asked, 'account.invite', account.id, null, { ...invited, email: account.email })
      return linkView(await parts.identities.linkFor('invitation', account))
    },
  ),
]

async function grantCredit(asked: AdminAsked<z.infer<typeof grantBody>>): Promise<GrantView> {
  const { parts, body } = asked
  const account = await accountNamed(asked)
  const amount = amountOf('usd', body.usd)
  const expiresAt = expiryOf(body, parts.now())
  const source = `operator:${body.id ?? crypto.randomUUID()}`
  const { pool, note = null } = body
  const operator = { id: asked.operator.id, note }
  const grant = { source, account: account.id, pool, amount, expiresAt, from: 'grant', operator }
  const result = await parts.ledger.grant(grant)
  const credits = await creditView(parts, account.id)
  return { lot: result.lot, granted: result.granted, pool, usd: formatUsd(amount), credits }
}

function expiryOf({ pool, expires_at: text }: z.infer<typeof grantBody>, now: number) {
  const until = text === undefined || text === 'never' ? null : futureTime('expires_at', text, now)
  const at = text === 'never' ? ('never' as const) : until
  const fault = lifeFault(pool, at, now)
  if (fault !== undefined) throw invalid(fault, 'expires_at')
  return at
}

function changing(
  verb: 'suspend' | 'resume',
  id: string,
  summary: string,
  change: (parts: HttpParts, account: string) => Awaitable<boolean>,
): AdminRoute {
  return adminRoute(
    {
      method: 'POST',
      path: `accounts/:account/${verb}`,
      id,
      summary,
      // Keys and sessions of the account let their holders in again.
      ...(verb === 'resume' && { elevated: true }),
      body: nothing,
    },
    async (asked) => {
      const before = await accountNamed(asked)
      if (before.id === asked.operator.id) throw invalid('Operators do not suspend themselves.')
      if (!(await change(asked.parts, before.id))) throw new GatewayError('not_found')
      const after = await accountNamed(asked)
      const states = [before, after].map(({ suspended }) => ({ suspended }))
      await recordAct(asked, `account.${verb}`, before.id, states[0], states[1])
      return accountView(after)
    },
  )
}

/** What lets somebody into an account or acts for it: after a change of its role, what is left. */
function accessOf({ identityStore, now }: HttpParts, { id }: Account): Awaitable<AccessView> {
  return identityStore.accessOf(id, now())
}

function linkView({ url, expiresAt }: { readonly url: string; readonly expiresAt: number }): LinkView {
  return { url, expires_at: iso(expiresAt) }
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

export function accountView(account: Account): AccountView {
  return {
    id: account.id,
    email: account.email,
    role: account.role,
    created_at: iso(account.createdAt),
    suspended: account.suspended,
    email_verified: account.verifiedAt !== null,
  }
}

// What the owner of an account does with it in the console, for operators and any account; each change is recorded.

/** What is recorded of a change. Nothing secret. */
interface Recorded {
  readonly before?: (asked: AdminAsked<unknown>, account: Account) => Promise<object | null>
  readonly after: (asked: AdminAsked<unknown>, answer: object) => unknown
}

function ofOperators(routes: readonly AccountRoute[], { before, after }: Recorded): readonly AdminRoute[] {
  return routes.map(({ handle, operators: { act, ...operation }, ...spec }) =>
    adminRoute<unknown>({ ...spec, ...operation, path: `accounts/:account/${spec.path}` }, async (asked) => {
      const { parts, request, params, body } = asked
      const account = await accountNamed(asked)
      const was = (await before?.(asked, account)) ?? null
      const answer = await handle({ parts, request, params, body, account })
      if (act !== undefined) await recordAct(asked, act, account.id, was, after(asked, answer))
      return answer
    }),
  )
}

export const accountKeyRoutes = ofOperators(keyActs, {
  before: async ({ parts, params }, account) => {
    const key = params['id'] === undefined ? undefined : await parts.accounts.findKey(params['id'])
    return key?.account === account.id ? { key: key.id, name: key.name } : null
  },
  after: ({ body }) => body ?? null,
})

export const accountMcpServerRoutes = ofOperators(mcpServerActs, {
  // Of the request only the name and the address are not secret; the answer holds nothing else.
  after: (_asked, answer) => answer,
})

export const accountWebhookRoutes = ofOperators(webhookActs, {
  // The answer to adding one holds the secret, the request does not.
  after: ({ body, params }) => body ?? { id: params['id'] },
})
