// `weir accounts invite --file`: people of a list, each with an account, a group and an allowance.

import { readFileSync } from 'node:fs'
import type { Account } from '../../accounts/account.ts'
import { type Group, type GroupRole, groupRoles } from '../../accounts/group.ts'
import { accountAddress, isAddress } from '../../accounts/identity/address.ts'
import { signInWays } from '../../config/config.ts'
import { largestLot, parseUsd, type Pico } from '../../credits/money.ts'
import * as acts from '../../http/admin/acts.ts'
import { addMember } from '../../http/admin/groups.ts'
import type { Store } from '../../store/store.ts'
import { csvLine, parseCsv, plural } from '../../text/csv.ts'
import { CommandFailure, type Context, type Invocation, print } from '../context.ts'
import { actingOn, findGroup, withStore } from '../with-store.ts'
import { acting } from './accounts.ts'

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

interface Invited {
  readonly address: string
  readonly name: string
  readonly account: string
  /** `opened`: now; `there`: it had an account. */
  readonly state: 'opened' | 'there'
  /** Null for whoever has been in the account, or has a link that still works, and where links let nobody in. */
  readonly url: string | null
  readonly expires_at: string | null
}

/**
 * Opens accounts for the people of a list. All that is wrong with it is said at once, with its lines, and then nothing is
 * done. Done again, it adds what is missing and changes what the list says otherwise.
 */
export async function inviteList(context: Context, invocation: Invocation): Promise<void> {
  const file = invocation.option('file') ?? ''
  const rows = readRows(file)
  const invited = await withStore(context, async (store) => {
    const people = await peopleIn(store, rows)
    const done: Invited[] = []
    for (const person of people) done.push(await invitePerson(context, store, person))
    return done
  })
  const opened = invited.filter(({ state }) => state === 'opened').length
  if (!context.json)
    context.io.err(
      `${plural(invited.length, 'person', 'people')}, ${opened} of them new. A link works once.\n`,
    )
  const lines = invited.map(({ address, name, url, expires_at: ends }) => csvLine([address, name, url, ends]))
  const text = [csvLine(['address', 'name', 'link', 'expires']), ...lines].join('')
  print(context, { json: invited, text: text.trimEnd().replaceAll('\r', '') })
}

interface Row {
  readonly line: number
  readonly cells: Readonly<Record<Column, string>>
}

/** Throws CommandFailure for a file that is no list of people. */
function readRows(file: string): Row[] {
  let rows: ReturnType<typeof parseCsv>
  try {
    rows = parseCsv(readFileSync(file, 'utf8'))
  } catch (error) {
    throw new CommandFailure(`${file} cannot be read: ${(error as Error).message}`)
  }
  const [heading, ...rest] = rows
  const columns = (heading?.cells ?? []).map((cell) => cell.toLowerCase())
  const names = Object.entries(headings) as [Column, readonly string[]][]
  const unknown = columns.filter((cell) => !names.some(([, spellings]) => spellings.includes(cell)))
  const place = (spellings: readonly string[]) => columns.findIndex((cell) => spellings.includes(cell))
  if (unknown.length > 0 || place(headings.address) < 0)
    throw new CommandFailure(
      `${file}, line ${heading?.line ?? 1}: the heading names address, and name, group, role, allowance where wanted` +
        (unknown.length > 0 ? `, not ${unknown.map((cell) => JSON.stringify(cell)).join(', ')}` : ''),
    )
  if (rest.length > mostPeople) throw new CommandFailure(`${file} has more than ${mostPeople} people`)
  return rest.map(({ line, cells }) => ({
    line,
    cells: Object.fromEntries(
      names.map(([column, spellings]) => [column, cells[place(spellings)] ?? '']),
    ) as Record<Column, string>,
  }))
}

/** Throws CommandFailure with everything that is wrong. */
async function peopleIn(store: Store, rows: readonly Row[]): Promise<Person[]> {
  const faults: string[] = []
  const people: Person[] = []
  const lines = new Map<string, number>()
  const groups = new Map<string, Group | CommandFailure>()
  const groupCalled = async (name: string) => {
    const found =
      groups.get(name) ??
      (await findGroup(store, name).catch((error: unknown) => {
        if (error instanceof CommandFailure) return error
        throw error
      }))
    groups.set(name, found)
    return found
  }
  for (const { line, cells } of rows) {
    const fault = (message: string) => faults.push(`line ${line}: ${message}`)
    const address = accountAddress(cells.address)
    const before = lines.get(address)
    lines.set(address, before ?? line)
    if (!isAddress(address)) fault(`${JSON.stringify(cells.address)} is no e-mail address`)
    else if (before !== undefined) fault(`${address} stands in line ${before} already`)
    const known = await store.accounts.findAccount(address)
    if (known?.suspended) fault(`the account of ${address} is suspended (weir accounts resume)`)
    const group = cells.group === '' ? undefined : await groupCalled(cells.group)
    if (group instanceof CommandFailure) fault(group.message)
    const role = groupRoles.find((each) => each === cells.role.toLowerCase())
    if (cells.role !== '' && role === undefined)
      fault(`the role in a group is admin or member, not ${JSON.stringify(cells.role)}`)
    if (cells.role !== '' && cells.group === '') fault('a role needs a group')
    const allowance = cells.allowance === '' ? undefined : parseUsd(cells.allowance.replace(/^\$/, ''))
    if (cells.allowance !== '' && !(allowance !== undefined && allowance >= 0n && allowance <= largestLot))
      fault(`the allowance is US dollars of each month, such as 20, not ${JSON.stringify(cells.allowance)}`)
    if (group instanceof CommandFailure) continue
    people.push({ address, name: cells.name, group, role, allowance, known })
  }
  if (rows.length === 0) faults.push('it names nobody')
  if (faults.length === 0) return people
  throw new CommandFailure(`nobody was invited:\n${faults.map((fault) => `  ${fault}`).join('\n')}`)
}

async function invitePerson(context: Context, store: Store, person: Person): Promise<Invited> {
  const { address, name, group, role, allowance, known } = person
  const link = await openFor(context, store, person)
  const account = known ?? (await store.accounts.findAccount(address))!
  if (group !== undefined) {
    const member = await store.groups.findMember(group.id, account.id)
    if (member === undefined || (role !== undefined && member.role !== role))
      await addMember(actingOn(context, store, store), group, account, role === undefined ? {} : { role })
  }
  if (allowance !== undefined && account.monthlyCredit !== allowance)
    await acts.setMonthlyCredit(acting(context, store), account, allowance)
  const state = known === undefined ? 'opened' : 'there'
  const { url = null, expires_at = null } = link ?? {}
  return { address, name, account: account.id, state, url, expires_at }
}

/** Opens the account, with all that is the person's in one write but its role, and makes a link where one is wanted. */
async function openFor(context: Context, store: Store, { address, group, allowance, known }: Person) {
  const by = acting(context, store)
  const ways = signInWays(context.config)
  const opensByLink = ways.passwords || ways.passkeys
  if (known === undefined) {
    const allowances = {
      ...(allowance === undefined ? {} : { monthlyCredit: allowance }),
      ...(group === undefined ? {} : { group: group.id }),
    }
    if (opensByLink) return acts.inviteAccount(by, { email: address, allowances })
    await acts.openAccount(by, { email: address, allowances })
    return undefined
  }
  if (!opensByLink || known.verifiedAt !== null || known.role === 'operator') return undefined
  const { links } = await store.identities.accessOf(known.id, context.io.clock())
  return links > 0 ? undefined : acts.inviteAccount(by, { email: address })
}
