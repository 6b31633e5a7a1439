// People of a list, by the API, the console and `weir accounts invite --file`: each with an account, a group and an
// allowance.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import { findGroupCalled, type Group, type GroupRole, groupRoles } from '../../accounts/group.ts'
import { accountAddress, isAddress } from '../../accounts/identity/address.ts'
import { largestLot, parseUsd, type Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { parseCsv } from '../../text/csv.ts'
import { invalid } from '../console/bodies.ts'
import type { OperatorActing } from '../console/route.ts'
import { type AccountActing, inviteAccount, openAccount, setMonthlyCredit } from './acts.ts'
import type { InvitedView } from './answers.ts'
import { addMember, type GroupActing } from './groups.ts'

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

export const listBody = z.strictObject({
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
export function rowsOf({ csv, people }: z.infer<typeof listBody>): PersonRow[] {
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
  if (!opensByLink || known.verifiedAt !== null || known.role === 'operator') return undefined
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
