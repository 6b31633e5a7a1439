// What operators do with accounts and management keys, by a route or by a command: done, logged, and shown as the routes
// answer it. What they do with the keys, servers and webhooks of an account is beside its routes in ../console.

import { z } from 'zod'
import {
  type Account,
  lifeState,
  type NewcomerAllowances,
  type Role,
  type Session,
} from '../../accounts/account.ts'
import { type Identities, invitedAccount } from '../../accounts/identity/identities.ts'
import { requireAddress } from '../../accounts/identity/mail.ts'
import {
  issueManagementKey,
  issueManagementKeyOnce,
  type ManagementKey,
  requestedKeyId,
  type WantedManagementKey,
} from '../../accounts/key-leaks.ts'
import type { GrantCommand, GrantResult } from '../../credits/ledger/ledger.ts'
import { formatUsd, type Pico } from '../../credits/money.ts'
import { formatCreditLine } from '../../credits/wallet.ts'
import { grantMonthly } from '../../credits/calendar.ts'
import { GatewayError } from '../../errors/errors.ts'
import {
  futureTime,
  invalid,
  networkNames,
  requestId,
  requireNetworks,
  shortName,
  time,
} from '../console/bodies.ts'
import {
  type AdminRoute,
  adminRoute,
  type ConsoleRoute,
  iso,
  isoOrNull,
  type OperatorActing,
  operatorRoute,
  recordAct,
  requirePerson,
} from '../console/route.ts'
import type { HttpParts } from '../parts.ts'
import type { AccountView, LinkView, ManagementKeyView, NewManagementKeyView, RoleView } from './answers.ts'

interface AccountParts extends Pick<HttpParts, 'accounts' | 'identityStore' | 'freeCredit' | 'newcomers'> {
  readonly ledger: Pick<HttpParts['ledger'], 'balance' | 'hasMonthly' | 'setCreditLine' | 'grant' | 'now'>
  readonly identities: Pick<Identities, 'linkFor' | 'requireLinks' | 'vouchFor'>
}

export type AccountActing = OperatorActing<AccountParts>

// Accounts.

interface WantedAccount {
  readonly email: string
  readonly role?: Role | undefined
  /** In place of what the settings give to new accounts. */
  readonly allowances?: Partial<NewcomerAllowances>
}

/** Opens an account whose address the operator vouches for. Throws `invalid_request` if it is taken or no address. */
export async function openAccount(
  acting: AccountActing,
  { email, role = 'user', allowances: own }: WantedAccount,
): Promise<AccountView> {
  if (role === 'operator') requirePerson(acting)
  const { accounts, freeCredit, newcomers } = acting.parts
  const allowances = { ...newcomers, ...own }
  const account = await accounts.createAccount(requireAddress(email), { role, allowances })
  await recordAct(acting, 'account.create', account.id, null, accountView(account))
  await freeCredit.ensure(account)
  return accountView(account)
}

/** Opens an account whose owner gets in by the link alone: nobody else stays in one that is there already. */
export async function inviteAccount(
  acting: AccountActing,
  { email, role = 'user', allowances: own }: WantedAccount,
): Promise<LinkView> {
  if (role === 'operator') requirePerson(acting)
  const { accounts, identities, newcomers } = acting.parts
  identities.requireLinks({ role })
  const account = await invitedAccount(accounts, email, role, { ...newcomers, ...own })
  await identities.vouchFor(account)
  await recordAct(acting, 'account.invite', account.id, null, { email: account.email, role })
  return linkView(await identities.linkFor('invitation', account))
}

/** A link that signs in to the account, once; older ones become invalid. */
export async function signInLink(acting: AccountActing, account: Account): Promise<LinkView> {
  if (account.role === 'operator') requirePerson(acting)
  acting.parts.identities.requireLinks(account)
  await recordAct(acting, 'account.link', account.id, null, null)
  return linkView(await acting.parts.identities.linkFor('link', account))
}

/** Refuses the calls of an account, or serves them again; its credit stays. Repeating it changes nothing. */
export async function suspendOrResume(
  acting: AccountActing,
  { id, suspended }: Account,
  verb: 'suspend' | 'resume',
): Promise<AccountView> {
  const { accounts, identityStore } = acting.parts
  if (id === acting.operator.id) throw invalid('Operators do not suspend themselves.')
  const change = {
    // A command may suspend the last operator: another command makes one.
    suspend: () => (acting.by === 'command' ? accounts : identityStore).suspend(id),
    resume: () => accounts.resume(id),
  }
  if (!(await change[verb]())) throw accountDeleted()
  const after = await accountNow(acting, id)
  await recordAct(acting, `account.${verb}`, id, { suspended }, { suspended: after.suspended })
  return accountView(after)
}

/**
 * Deletes an account, every way into it, and what it asked and was answered; its charges stay. Throws `invalid_request`
 * for the last operator, and for the operator's own account, which is deleted in the settings.
 */
export async function deleteAccount(acting: AccountActing, { id, role }: Account): Promise<void> {
  if (role === 'operator') requirePerson(acting)
  if (id === acting.operator.id) throw invalid('Operators delete their own account in the settings.')
  await acting.parts.identityStore.deleteAccount(id, acting.parts.now())
  await recordAct(acting, 'account.delete', id, { role }, null)
}

/** Makes an account an operator or a user. Throws `invalid_request` for the last operator, but not to a command. */
export async function setRole(acting: AccountActing, before: Account, role: Role): Promise<RoleView> {
  requirePerson(acting)
  const { identityStore, identities, now } = acting.parts
  const { id } = before
  let isChanged = false
  if (role === 'operator' || acting.by === 'command') isChanged = await identityStore.setRole(id, role, now())
  else await identityStore.demote(id, now())
  await recordAct(acting, 'account.role', id, { role: before.role }, { role })
  const account = await accountNow(acting, id)
  const link = isChanged && role === 'operator' ? await identities.linkFor('link', account) : null
  const access = await identityStore.accessOf(id, now())
  return { ...accountView(account), link: link && linkView(link), access }
}

async function accountNow({ parts }: AccountActing, id: string): Promise<Account> {
  const account = await parts.accounts.findAccount(id)
  if (account === undefined) throw accountDeleted()
  return account
}

function accountDeleted(): GatewayError {
  return new GatewayError('not_found', { message: 'The account has been deleted.' })
}

/** Ends a session at once. Repeating it succeeds and changes nothing. */
export async function endSession(
  acting: OperatorActing<Pick<HttpParts, 'accounts'>>,
  { id, account, revokedAt }: Session,
): Promise<void> {
  if (revokedAt !== null) return
  await acting.parts.accounts.revokeSession(id, acting.parts.now())
  await recordAct(acting, 'session.end', account, { session: id }, null)
}

// Credit.

/** Sets how much an account may owe, and answers it as text; null for nothing. */
export async function setCreditLine(
  acting: OperatorActing<{ readonly ledger: AccountParts['ledger'] }>,
  { id }: Account,
  most: Pico,
): Promise<string | null> {
  const { ledger } = acting.parts
  const before = formatCreditLine((await ledger.balance(id)).creditLine)
  await ledger.setCreditLine(id, most)
  const after = formatCreditLine(most)
  await recordAct(acting, 'account.credit_line', id, { credit_line: before }, { credit_line: after })
  return after
}

/**
 * Sets what an account has each month, and grants it for this month if nothing was granted for it before. What was
 * stays: a new amount holds from the next month on.
 */
export async function setMonthlyCredit(
  acting: OperatorActing<Pick<AccountParts, 'accounts' | 'ledger'>>,
  { id, email, suspended, monthlyCredit: before }: Account,
  amount: Pico,
): Promise<void> {
  const { accounts, ledger } = acting.parts
  await accounts.setMonthlyCredit(id, amount)
  const rowOf = (credit: Pico) => ({ monthly_credit_usd: formatUsd(credit) })
  await recordAct(acting, 'account.monthly_credit', id, rowOf(before), rowOf(amount))
  if (!suspended) await grantMonthly(ledger, { id, email, monthlyCredit: amount })
}

interface WantedGrant extends Pick<GrantCommand, 'pool' | 'amount' | 'expiresAt'> {
  /** What the operator calls the grant: the same one never grants twice. */
  readonly id: string | undefined
  readonly note: string | null
}

/** Grants credit; the ledger logs the act itself. Throws `idempotency_conflict` and `invalid_request`. */
export function grantCredit(
  { parts, operator }: OperatorActing<{ readonly ledger: Pick<AccountParts['ledger'], 'grant'> }>,
  account: Pick<Account, 'id'>,
  { id = crypto.randomUUID(), note, ...wanted }: WantedGrant,
): Promise<GrantResult> {
  const by = { id: operator.id, note }
  const source = `operator:${id}`
  return parts.ledger.grant({ source, account: account.id, from: 'grant', operator: by, ...wanted })
}

// Management keys.

type ManagementKeyActing = OperatorActing<Pick<HttpParts, 'managementKeys'>>

/** Makes a key that acts for an operator, for `request` once. Throws `idempotency_conflict`. */
export async function createManagementKey(
  acting: ManagementKeyActing,
  wanted: WantedManagementKey,
  request?: string,
): Promise<NewManagementKeyView> {
  const { managementKeys, now } = acting.parts
  const issued =
    request === undefined
      ? await issueManagementKey(managementKeys, wanted, now())
      : await issueManagementKeyOnce(managementKeys, wanted, now(), request)
  if (!issued) {
    const before = (await managementKeys.find(requestedKeyId(wanted.account, request!)))!
    throw new GatewayError('idempotency_conflict', {
      message: `This request has made the management key ${JSON.stringify(before.name)} before. It was shown in that answer alone: if that was lost, revoke the key and make another.`,
      param: 'id',
      metadata: { key: before.id },
    })
  }
  const view = managementKeyView(issued.key, now())
  await recordAct(acting, 'management_key.create', wanted.account, null, view)
  return { ...view, key: issued.text }
}

/** Revokes a management key at once. Repeating it succeeds and changes nothing. */
export async function revokeManagementKey(
  acting: ManagementKeyActing,
  { id, name, account, revokedAt }: ManagementKey,
): Promise<ManagementKeyView> {
  const { managementKeys, now } = acting.parts
  if (revokedAt === null) {
    await managementKeys.revoke(id, now())
    await recordAct(acting, 'management_key.revoke', account, { key: id, name }, null)
  }
  return managementKeyView((await managementKeys.find(id))!, now())
}

// How they are shown.

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

function linkView({ url, expiresAt }: { readonly url: string; readonly expiresAt: number }): LinkView {
  return { url, expires_at: iso(expiresAt) }
}

export function managementKeyView(key: ManagementKey, now: number): ManagementKeyView {
  return {
    id: key.id,
    account: key.account,
    name: key.name,
    state: lifeState(key, now),
    last4: key.lastFour,
    created_at: iso(key.createdAt),
    expires_at: isoOrNull(key.expiresAt),
    revoked_at: isoOrNull(key.revokedAt),
    networks: key.networks,
    scope: key.scope,
  }
}

// Management keys for the admin API. Operators can list and revoke them. Creating one requires a recent proof of
// identity in the console, or the command line, so that a stolen key cannot create another; see `requirePerson`.

const createBody = z.strictObject({
  name: shortName,
  id: requestId.describe(
    'An id of yours for the request: the same one again makes no second key, and is refused.',
  ),
  expires_at: time.nullable().optional(),
  networks: networkNames.nullable().optional(),
  scope: z
    .enum(['admin', 'scim'])
    .optional()
    .describe('`scim` for provisioning alone (`/scim/v2`); `admin` if left out.'),
})

export const managementKeyRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET management-keys',
    {
      id: 'listManagementKeys',
      summary: 'List the keys of the admin API',
      description: 'Of all operators. Without their text: that is shown once, when a key is made.',
    },
    async ({ parts }) => {
      const keys = await parts.managementKeys.list()
      return { data: keys.map((key) => managementKeyView(key, parts.now())) }
    },
  ),
  adminRoute(
    'DELETE management-keys/:key',
    { id: 'revokeManagementKey', summary: 'Revoke a key of the admin API, at once' },
    async (asked) => {
      const key = await asked.parts.managementKeys.find(asked.params['key'] ?? '')
      if (!key) throw new GatewayError('not_found')
      return revokeManagementKey(asked, key)
    },
  ),
]

/** In the console only. */
export const newManagementKeyRoute: ConsoleRoute = operatorRoute(
  'POST admin/management-keys',
  {
    summary: 'Make a key of the admin API; it is shown this once',
    status: 201,
    elevated: true,
    errors: ['idempotency_conflict'],
    body: createBody,
  },
  async ({ parts, account, body }) => {
    const { name, expires_at: expires, networks = null, scope = 'admin', id } = body
    const expiresAt = expires == null ? null : futureTime('expires_at', expires, parts.now())
    if (networks !== null) requireNetworks(networks)
    const wanted = { account: account.id, name, expiresAt, networks, scope }
    return createManagementKey({ parts, operator: account, by: 'session' }, wanted, id)
  },
)
