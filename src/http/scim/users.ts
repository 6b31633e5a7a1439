// Accounts as users of SCIM: opened, changed, suspended and deleted by a directory.

import type { Account } from '../../accounts/account.ts'
import { accountAddress, isAddress } from '../../accounts/identity/mail.ts'
import type { Provisioned } from '../../accounts/identity/identity-store.ts'
import { GatewayError } from '../../errors/errors.ts'
import { deleteAccount, openAccount, suspendOrResume } from '../admin/acts.ts'
import { iso, type OperatorActing, recordAct } from '../console/route.ts'
import type { HttpParts } from '../parts.ts'
import {
  apply,
  isObject,
  readFilter,
  type readOperations,
  type Resource,
  ScimFault,
  valueOf,
} from './patch.ts'
import { enterpriseSchema, userSchema } from './schemas.ts'

export type ScimActing = OperatorActing<HttpParts>

/** Of the attributes that Weir does not know itself, JSON, bytes. */
const mostAttributes = 16_384

const own = ['schemas', 'id', 'username', 'externalid', 'active', 'groups', 'meta', 'password']

interface WantedUser {
  readonly userName: string
  readonly address: string
  readonly externalId: string | null
  /** undefined where nothing is said of it. */
  readonly active: boolean | undefined
  readonly attributes: Resource
}

/** What a resource says of a user. Throws ScimFault. */
function userIn(resource: Resource): WantedUser {
  const userName = valueOf(resource, 'userName')
  if (typeof userName !== 'string' || userName.trim() === '' || userName.length > 256)
    throw new ScimFault(400, 'userName is missing.', 'invalidValue')
  const address = [userName, ...addressesIn(resource)].find((text) => isAddress(text.trim()))
  if (address === undefined)
    throw new ScimFault(400, 'Neither userName nor one of emails is an e-mail address.', 'invalidValue')
  const attributes = Object.fromEntries(
    Object.entries(resource).filter(([name]) => !own.includes(name.toLowerCase())),
  )
  if (JSON.stringify(attributes).length > mostAttributes)
    throw new ScimFault(400, `The attributes are more than ${mostAttributes} bytes.`, 'tooMany')
  return {
    userName: userName.trim(),
    address: accountAddress(address),
    externalId: externalIdIn(resource),
    active: activeIn(resource),
    attributes,
  }
}

function activeIn(resource: Resource): boolean | undefined {
  const active = valueOf(resource, 'active')
  return active === undefined || active === null ? undefined : booleanIn(active)
}

export function externalIdIn(resource: Resource): string | null {
  const externalId = valueOf(resource, 'externalId')
  if (externalId === undefined || externalId === null || externalId === '') return null
  if (typeof externalId === 'string' && externalId.length <= 256) return externalId
  throw new ScimFault(400, 'externalId must be a text of at most 256 characters.', 'invalidValue')
}

/** The addresses of `emails`, the primary one first. */
function addressesIn(resource: Resource): string[] {
  const emails = valueOf(resource, 'emails')
  if (!Array.isArray(emails)) return []
  const listed = (emails as unknown[]).filter(isObject)
  const first = listed.filter((each) => booleanIn(valueOf(each, 'primary') ?? false))
  return [...first, ...listed]
    .map((each) => valueOf(each, 'value'))
    .filter((text) => typeof text === 'string')
}

/** Entra writes them as text: "False". */
function booleanIn(value: unknown): boolean {
  if (typeof value === 'boolean') return value
  const text = String(value).toLowerCase()
  if (text === 'true' || text === 'false') return text === 'true'
  throw new ScimFault(400, 'It must be true or false.', 'invalidValue')
}

/** The account of an id. Throws ScimFault 404, also for one that has been deleted. */
export async function accountOf({ accounts }: Pick<HttpParts, 'accounts'>, id: string): Promise<Account> {
  const account = await accounts.findAccount(id)
  if (account?.id !== id || account.email === `${id}@deleted.invalid`)
    throw new ScimFault(404, `There is no user ${id}.`)
  return account
}

export function createUser(acting: ScimActing, resource: Resource): Promise<Account> {
  const wanted = userIn(resource)
  // A directory that has waited too long asks again, maybe another gateway: it makes one user.
  const name = `user ${wanted.userName.toLowerCase()}`
  return acting.parts.provisioning.changeAlone(name, () => createWanted(acting, wanted))
}

async function createWanted(acting: ScimActing, wanted: WantedUser): Promise<Account> {
  const { parts } = acting
  if ((await namedUser(parts, wanted.userName)) || (await parts.accounts.findAccount(wanted.address)))
    throw takenFault()
  const { id } = await openAccount(acting, { email: wanted.address })
  await parts.provisioning.put(rowOf(id, wanted, parts.now()))
  const account = await accountOf(parts, id)
  if (wanted.active === false) await suspendOrResume(acting, account, 'suspend')
  return accountOf(parts, id)
}

function takenFault(): ScimFault {
  return new ScimFault(409, 'A user with this userName or address is there already.', 'uniqueness')
}

function rowOf(
  id: string,
  { userName, address, externalId, attributes }: WantedUser,
  now: number,
): Provisioned {
  const name = userName.toLowerCase()
  return {
    id,
    kind: 'user',
    userName: name === address ? null : name,
    externalId,
    attributes: { ...attributes, ...(name === address ? {} : { userName }) },
    changedAt: now,
  }
}

/** Makes the account what the resource says. */
export async function replaceUser(
  acting: ScimActing,
  account: Account,
  resource: Resource,
): Promise<Account> {
  const { parts } = acting
  const wanted = userIn(resource)
  const { id } = account
  const other = await namedUser(parts, wanted.userName)
  if (other !== undefined && other.id !== id) throw takenFault()
  await parts.identities.vouchFor(account)
  if (wanted.address !== account.email) await changeAddress(acting, account, wanted.address)
  // Whoever an operator has suspended is not let in again by a directory that says nothing of it.
  if (wanted.active !== undefined && wanted.active === account.suspended)
    await suspendOrResume(acting, account, wanted.active ? 'resume' : 'suspend')
  await parts.provisioning.put(rowOf(id, wanted, parts.now()))
  return accountOf(parts, id)
}

/** Whoever has an operator's address sets the password: a directory does not move it. */
async function changeAddress(acting: ScimActing, account: Account, address: string): Promise<void> {
  const { id, email, role } = account
  if (role === 'operator')
    throw new ScimFault(403, 'The address of an operator is not changed by provisioning.', 'mutability')
  // By the address it has: whoever asks meanwhile, by either, asks for what has been granted.
  await acting.parts.monthlyCredit.ensure(account)
  try {
    await acting.parts.identityStore.changeAddress(id, address)
  } catch (error) {
    throw error instanceof GatewayError && error.code === 'invalid_request' ? takenFault() : error
  }
  await recordAct(acting, 'account.address', id, { email }, { email: address })
}

export async function patchUser(
  acting: ScimActing,
  account: Account,
  operations: ReturnType<typeof readOperations>,
): Promise<Account> {
  const row = await acting.parts.provisioning.find(account.id)
  const { email: userName, suspended } = account
  const externalId = row?.externalId ?? null
  const resource: Resource = {
    userName,
    ...structuredClone(row?.attributes ?? {}),
    externalId,
    active: !suspended,
  }
  for (const operation of operations) apply(resource, operation)
  return replaceUser(acting, account, resource)
}

export async function deleteUser(acting: ScimActing, account: Account): Promise<void> {
  await deleteAccount(acting, account)
}

async function namedUser(parts: HttpParts, userName: string): Promise<Account | undefined> {
  const name = userName.trim().toLowerCase()
  const id = await parts.provisioning.byUserName(name)
  const found =
    id === undefined ? await parts.accounts.findAccount(name) : await parts.accounts.findAccount(id)
  return found?.email === name || found?.id === id ? found : undefined
}

/** The users that a filter names: at most one is equal to what a directory asks for. */
export async function filterUsers(parts: HttpParts, filter: string): Promise<Account[]> {
  const [first, ...rest] = readFilter(filter)
  const found = await usersBy(parts, first!)
  const all = await Promise.all(
    found.map(async (account) => ({ account, isMeant: await matchesAll(parts, account, rest) })),
  )
  return all.filter(({ isMeant }) => isMeant).map(({ account }) => account)
}

type Condition = ReturnType<typeof readFilter>[number]

async function usersBy(parts: HttpParts, { attribute, value }: Condition): Promise<Account[]> {
  const text = String(value)
  const ids: Readonly<Record<string, () => Promise<string | undefined>>> = {
    username: async () => (await namedUser(parts, text))?.id,
    externalid: async () => parts.provisioning.byExternalId(text, 'user'),
    id: async () => text,
    'emails.value': async () => (await parts.accounts.findAccount(accountAddress(text)))?.id,
    emails: async () => (await parts.accounts.findAccount(accountAddress(text)))?.id,
  }
  if (!Object.hasOwn(ids, attribute))
    throw new ScimFault(400, 'Users are found by userName, externalId, id or emails.value.', 'invalidFilter')
  const id = await ids[attribute]!()
  if (id === undefined) return []
  try {
    return [await accountOf(parts, id)]
  } catch (error) {
    if (error instanceof ScimFault) return []
    throw error
  }
}

async function matchesAll(
  parts: HttpParts,
  account: Account,
  conditions: readonly Condition[],
): Promise<boolean> {
  for (const each of conditions) {
    if (each.attribute === 'active') {
      if (booleanIn(each.value) === account.suspended) return false
    } else if (!(await usersBy(parts, each)).some(({ id }) => id === account.id)) return false
  }
  return true
}

/** The account as a resource. */
export async function userResource(parts: HttpParts, account: Account): Promise<Resource> {
  const { id, email, suspended, createdAt } = account
  const row = await parts.provisioning.find(id)
  const { userName = email, ...attributes } = row?.attributes ?? {}
  const memberships = await parts.groups.membershipsOf(id)
  const base = scimBase(parts)
  return {
    schemas: [userSchema, ...(enterpriseSchema in attributes ? [enterpriseSchema] : [])],
    id,
    ...(row?.externalId == null ? {} : { externalId: row.externalId }),
    userName,
    active: !suspended,
    emails: [{ value: email, type: 'work', primary: true }],
    ...attributes,
    groups: memberships.map(({ group, name }) => ({
      value: group,
      display: name,
      $ref: `${base}/Groups/${group}`,
    })),
    meta: {
      resourceType: 'User',
      created: iso(createdAt),
      lastModified: iso(row?.changedAt ?? createdAt),
      location: `${base}/Users/${id}`,
    },
  }
}

export function scimBase({ publicUrl }: Pick<HttpParts, 'publicUrl'>): string {
  return `${publicUrl()}/scim/v2`
}
