// Accounts for operators: search, create, grant credit, suspend, make sign-in links; and their keys, MCP servers and
// webhooks.

import { z } from 'zod'
import { type Account, type AccountEntry, accountSorts, accountStates } from '../../accounts/account.ts'
import { findGroupCalled, type Group, type GroupRole, groupRoles } from '../../accounts/group.ts'
import { accountAddress, isAddress } from '../../accounts/identity/mail.ts'
import type { Awaitable } from '../../async/async.ts'
import { lifeFault } from '../../credits/calendar.ts'
import { formatUsd, largestLot, parseUsd, type Pico } from '../../credits/money.ts'
import { pools } from '../../credits/pool.ts'
import { parseCreditLine } from '../../credits/wallet.ts'
import { GatewayError } from '../../errors/errors.ts'
import { parseCsv } from '../../text/text.ts'
import type { AccessView } from '../console/answers.ts'
import { amountOf, endOfGrant, grantFields, invalid, inviteBody, usdAmount } from '../console/bodies.ts'
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
  type OperatorActing,
} from '../console/route.ts'
import { webhookActs } from '../console/webhooks.ts'
import { pageLimit, queryOf, whileOpen } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import {
  type AccountActing,
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
import type { AccountDetailView, AccountEntryView, GrantView, InvitedView } from './answers.ts'
import { addMember, type GroupActing } from './groups.ts'

// People of a list, by the API, the console and `weir accounts invite --file`: each with an account, a group and an
// allowance.

/** What each column of the heading may be called. */
const headings = {
  address: ['address', 'email', 'e-mail', 'mail'],
  name: ['name'],
  group: ['group', 'team'],
  role: ['role'],
  allowance: ['allowance', 'allowance_usd', 'monthly_usd'],
} as const
type Column = keyof typeof headings

const mostPeople = 10_000
/** Of a request, which waits until they are there. */
const mostPeopleOfRequest = 1_000
/** Faults that a refusal names. */
const mostFaults = 100

const listBody = z.strictObject({
  csv: z
    .string()
    .max(200_000)
    .optional()
    .describe(
      'The list as `weir accounts invite --file` takes it: a heading with `address`, and `name`, `group`, `role`, `allowance` where wanted; or no heading, and these in this order.',
    ),
  people: z
    .array(
      z.strictObject({
        email: z.string().max(320),
        name: z.string().max(200).optional(),
        group: z.string().max(200).optional().describe('Its id or name.'),
        role: z.enum(groupRoles).optional().describe('In the group; `member` for who is new there.'),
        monthly_credit_usd: z
          .string()
          .max(30)
          .optional()
          .describe('Credit of each month; without it what new accounts get, and what others have.'),
      }),
    )
    .min(1)
    .max(mostPeopleOfRequest)
    .optional()
    .describe('The same without a file. Takes one of the two.'),
})

export interface PersonRow {
  /** In the file, or in the list, counted from 1. */
  readonly line: number
  readonly cells: Readonly<Record<Column, string>>
}

interface Person {
  readonly address: string
  readonly name: string
  readonly group: Group | undefined
  /** In the group; undefined for whichever it has, or that of a member. */
  readonly role: GroupRole | undefined
  /** Of each month; undefined for what new accounts get, and for what others have. */
  readonly allowance: Pico | undefined
  readonly known: Account | undefined
}

/** Whoever invites, and whether a link lets anybody in who is no operator. */
export type InvitingActing = OperatorActing<AccountActing['parts'] & GroupActing['parts']>

/** The rows of a list. Throws `invalid_request` for a text that is none; `name` is what the message calls it. */
export function readList(text: string, name: string): PersonRow[] {
  let rows: ReturnType<typeof parseCsv>
  try {
    rows = parseCsv(text)
  } catch (error) {
    throw invalid(`${name} cannot be read: ${(error as Error).message}`)
  }
  // A list that begins with an address has no heading: its columns are in the order of `headings`.
  const hasHeading = !(rows[0]?.cells[0] ?? '').includes('@')
  const heading = hasHeading ? rows[0] : undefined
  const rest = hasHeading ? rows.slice(1) : rows
  const columns = hasHeading
    ? (heading?.cells ?? []).map((cell) => cell.toLowerCase())
    : Object.keys(headings)
  const names = Object.entries(headings) as [Column, readonly string[]][]
  const unknown = columns.filter((cell) => !names.some(([, spellings]) => spellings.includes(cell)))
  const place = (spellings: readonly string[]) => columns.findIndex((cell) => spellings.includes(cell))
  if (unknown.length > 0 || place(headings.address) < 0)
    throw invalid(
      `${name}, line ${heading?.line ?? 1}: the heading names address, and name, group, role, allowance where wanted` +
        (unknown.length > 0 ? `, not ${unknown.map((cell) => JSON.stringify(cell)).join(', ')}` : ''),
    )
  if (rest.length > mostPeople) throw invalid(`${name} has more than ${mostPeople} people`)
  return rest.map(({ line, cells }) => ({
    line,
    cells: Object.fromEntries(
      names.map(([column, spellings]) => [column, cells[place(spellings)] ?? '']),
    ) as Record<Column, string>,
  }))
}

/** The rows that a request has, in either form. Throws `invalid_request`. */
function rowsOf({ csv, people }: z.infer<typeof listBody>): PersonRow[] {
  if ((csv === undefined) === (people === undefined)) throw invalid('It takes csv or people.', 'people')
  if (people !== undefined)
    return people.map(
      ({ email, name = '', group = '', role = '', monthly_credit_usd: allowance = '' }, at) => ({
        line: at + 1,
        cells: { address: email.trim(), name, group, role, allowance },
      }),
    )
  const rows = readList(csv!, 'the list')
  if (rows.length > mostPeopleOfRequest)
    throw invalid(`One request invites at most ${mostPeopleOfRequest} people.`, 'csv')
  return rows
}

/**
 * Opens accounts for the people of a list. All that is wrong with it is said at once, with its lines, and then nothing is
 * done. Done again, it adds what is missing and changes what the list says otherwise. Throws `invalid_request`.
 */
export async function invitePeople(
  acting: InvitingActing,
  rows: readonly PersonRow[],
): Promise<InvitedView[]> {
  const people = await peopleIn(acting, rows)
  const invited: InvitedView[] = []
  for (const person of people) invited.push(await invitePerson(acting, person))
  return invited
}

async function peopleIn(
  { parts: { accounts, groups } }: InvitingActing,
  rows: readonly PersonRow[],
): Promise<Person[]> {
  const faults: string[] = []
  const people: Person[] = []
  const lines = new Map<string, number>()
  const known = new Map<string, Group | string>()
  const groupCalled = async (name: string) => {
    const found = known.get(name) ?? (await findGroupCalled(groups, name))
    known.set(name, found)
    return found
  }
  for (const { line, cells } of rows) {
    const fault = (message: string) => faults.push(`line ${line}: ${message}`)
    const address = accountAddress(cells.address)
    const before = lines.get(address)
    lines.set(address, before ?? line)
    if (!isAddress(address)) fault(`${JSON.stringify(cells.address)} is no e-mail address`)
    else if (before !== undefined) fault(`${address} stands in line ${before} already`)
    const account = await accounts.findAccount(address)
    if (account?.suspended) fault(`the account of ${address} is suspended (weir accounts resume)`)
    const group = cells.group === '' ? undefined : await groupCalled(cells.group)
    if (typeof group === 'string') fault(group)
    const role = groupRoles.find((each) => each === cells.role.toLowerCase())
    if (cells.role !== '' && role === undefined)
      fault(`the role in a group is admin or member, not ${JSON.stringify(cells.role)}`)
    if (cells.role !== '' && cells.group === '') fault('a role needs a group')
    const allowance = cells.allowance === '' ? undefined : parseUsd(cells.allowance.replace(/^\$/, ''))
    if (cells.allowance !== '' && !(allowance !== undefined && allowance >= 0n && allowance <= largestLot))
      fault(`the allowance is US dollars of each month, such as 20, not ${JSON.stringify(cells.allowance)}`)
    if (typeof group !== 'string')
      people.push({ address, name: cells.name, group, role, allowance, known: account })
  }
  if (rows.length === 0) faults.push('it names nobody')
  if (faults.length === 0) return people
  const shown = faults.slice(0, mostFaults).map((fault) => `  ${fault}`)
  if (faults.length > mostFaults) shown.push(`  and ${faults.length - mostFaults} more`)
  throw new GatewayError('invalid_request', { message: `nobody was invited:\n${shown.join('\n')}` })
}

async function invitePerson(acting: InvitingActing, person: Person): Promise<InvitedView> {
  const { accounts, groups } = acting.parts
  const { address, name, group, role, allowance, known } = person
  const link = await openFor(acting, person)
  const account = known ?? (await accounts.findAccount(address))!
  if (group !== undefined) {
    const member = await groups.findMember(group.id, account.id)
    if (member === undefined || (role !== undefined && member.role !== role))
      await addMember(acting, group, account, role === undefined ? {} : { role })
  }
  if (allowance !== undefined && account.monthlyCredit !== allowance)
    await setMonthlyCredit(acting, account, allowance)
  const state = known === undefined ? 'opened' : 'there'
  const { url = null, expires_at = null } = link ?? {}
  return { address, name, account: account.id, state, url, expires_at }
}

/** Opens the account, with all that is the person's in one write but its role, and makes a link where one is wanted. */
async function openFor(acting: InvitingActing, { address, group, allowance, known }: Person) {
  const { identities, identityStore, now } = acting.parts
  const opensByLink = hasLinks(identities)
  if (known === undefined) {
    const allowances = {
      ...(allowance === undefined ? {} : { monthlyCredit: allowance }),
      ...(group === undefined ? {} : { group: group.id }),
    }
    if (opensByLink) return inviteAccount(acting, { email: address, allowances })
    await openAccount(acting, { email: address, allowances })
    return undefined
  }
  if (known.verifiedAt !== null || known.role === 'operator') return undefined
  await identities.vouchFor(known)
  if (!opensByLink) return undefined
  const { links } = await identityStore.accessOf(known.id, now())
  return links > 0 ? undefined : inviteAccount(acting, { email: address })
}

/** Whether a link lets in somebody who is no operator: not where people sign in elsewhere alone. */
function hasLinks(identities: Pick<InvitingActing['parts']['identities'], 'requireLinks'>): boolean {
  try {
    identities.requireLinks({ role: 'user' })
    return true
  } catch {
    return false
  }
}

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
  monthly_credit_usd: usdAmount.nullable().describe('Null for nothing.'),
})

const grantBody = z.strictObject({
  pool: z.enum(pools),
  ...grantFields,
  expires_at: grantFields.expires_at.describe(
    'A time, or `never`. Without it purchased credit lasts twelve months, daily credit until midnight UTC and welcome ' +
      'credit for ever; daily credit may not last longer, and subscription credit needs the end of its period.',
  ),
})

export const accountRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET accounts',
    {
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
    'POST accounts',
    {
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
    'GET accounts/:account',
    { id: 'getAccount', summary: 'Get an account with its credit' },
    async (asked) => {
      const account = await accountNamed(asked)
      return { data: await detailOf(asked.parts, account) }
    },
  ),
  adminRoute(
    'POST accounts/:account/grant',
    {
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
    'POST accounts/:account/credit-line',
    {
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
    'POST accounts/:account/monthly-credit',
    {
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
    'POST accounts/:account/suspend',
    { id: 'suspendAccount', summary: 'Refuse the calls of an account; its credit stays', body: nothing },
    async (asked) => suspendOrResume(asked, await accountNamed(asked), 'suspend'),
  ),
  adminRoute(
    'POST accounts/:account/resume',
    {
      id: 'resumeAccount',
      summary: 'Serve the calls of a suspended account again',
      // Keys and sessions of the account let their holders in again.
      elevated: true,
      body: nothing,
    },
    async (asked) => suspendOrResume(asked, await accountNamed(asked), 'resume'),
  ),
  adminRoute(
    'DELETE accounts/:account',
    {
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
    'POST accounts/:account/role',
    {
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
    'POST accounts/:account/link',
    {
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
    'GET accounts/:account/sessions',
    { id: 'listSessions', summary: 'List the open sessions of an account' },
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
    'DELETE accounts/:account/sessions/:session',
    { id: 'endSession', summary: 'End a session, at once' },
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
    'POST invitations',
    {
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
    'POST invitations/list',
    {
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
  const at = endOfGrant(text, now)
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
  return routes.map(({ method, path, handle, operators, ...spec }) =>
    adminRoute<unknown>(`${method} accounts/:account/${path}`, { ...spec, ...operators }, async (asked) =>
      handle({ ...asked, account: await accountNamed(asked) }),
    ),
  )
}

export const accountKeyRoutes = ofOperators(keyActs)
export const accountMcpServerRoutes = ofOperators(mcpServerActs)
export const accountWebhookRoutes = ofOperators(webhookActs)
