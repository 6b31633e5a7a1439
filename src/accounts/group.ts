// Groups of accounts (teams, projects, customers): their members, their budgets, and the windows that these count in.

import { randomBytes } from 'node:crypto'
import type { Awaitable } from '../async/async.ts'
import { GatewayError } from '../errors/errors.ts'

/** In the time zone of its group; weeks begin on Monday. A budget of the window `none` never begins anew. */
export type BudgetWindow = 'day' | 'week' | 'month' | 'none'
export const budgetWindows = ['day', 'week', 'month', 'none'] as const satisfies readonly BudgetWindow[]

export type GroupRole = 'admin' | 'member'
export const groupRoles = ['admin', 'member'] as const satisfies readonly GroupRole[]

/** Everything of a group that can be changed. Amounts in picodollars. */
export interface GroupSettings {
  readonly name: string
  /** The group that it stands in; null for an outermost one. */
  readonly parent: string | null
  /** What the group and all groups in it may spend in a window; null without a limit. */
  readonly budget: bigint | null
  readonly window: BudgetWindow
  /** An IANA name. */
  readonly timezone: string
  /** What each member may spend in a window, in the group and in those below it; null without a limit. */
  readonly memberBudget: bigint | null
  /** Model ids, `provider/*` patterns or `*`; null allows every model. */
  readonly allowedModels: readonly string[] | null
  readonly tags: Readonly<Record<string, string>> | null
  /** Shares of the budget, above 0 and at most 1, in rising order. */
  readonly warnAt: readonly number[]
}

export interface Group extends GroupSettings {
  readonly id: string
  readonly createdAt: number
}

export interface Member {
  readonly group: string
  readonly account: string
  readonly role: GroupRole
  /** In place of the group's `memberBudget`; null for that. */
  readonly budget: bigint | null
  readonly joinedAt: number
}

/** No group stands deeper than this; an outermost one has depth 1. */
export const deepestGroup = 8

export function newGroupId(): string {
  return `grp_${randomBytes(9).toString('hex')}`
}

/** One group on the way up, as it bounds one person. */
export interface Level extends Pick<
  Group,
  'id' | 'name' | 'budget' | 'window' | 'timezone' | 'allowedModels' | 'tags'
> {
  /** What this person may spend in it and below; null without a limit. */
  readonly personBudget: bigint | null
}

/** A member of a group, as a key of that group calls: everything that bounds it, and who pays. */
export interface GroupStanding {
  readonly group: string
  readonly person: string
  /** The group on the way up, this one first, that has credit of its own; null where the person pays. */
  readonly payer: string | null
  /** The group itself, and each that the one before stands in. */
  readonly levels: readonly Level[]
}

/** Structurally the ledger's `Budget`, which this room does not import. */
interface WindowedBudget {
  readonly scope: string
  readonly limit: bigint | null
  readonly windowStart: number
  readonly windowEnd: number | null
}

/** What is counted as a group's budget, or as that of one of its members. */
export function scopeOf(group: string, person?: string): string {
  return person === undefined ? group : `${group}/${person}`
}

/**
 * Every budget that a call at `now` (milliseconds since 1970) is counted in: at each level the person's own, then the
 * group's. One without a limit is counted too.
 */
export function budgetsOf({ person, levels }: Pick<GroupStanding, 'person' | 'levels'>, now: number) {
  const budgets: WindowedBudget[] = []
  for (const { id, budget, personBudget, window, timezone } of levels) {
    const { start: windowStart, end: windowEnd } = windowAt(window, timezone, now)
    budgets.push({ scope: scopeOf(id, person), limit: personBudget, windowStart, windowEnd })
    budgets.push({ scope: scopeOf(id), limit: budget, windowStart, windowEnd })
  }
  return budgets
}

// Windows of local time. Clock changes move the moments at which a day begins, and may leave out or repeat a midnight.

export interface WindowBounds {
  /** Milliseconds since 1970; 0 and null for the window `none`. */
  readonly start: number
  readonly end: number | null
}

const always: WindowBounds = { start: 0, end: null }
const dayMs = 86_400_000
/** No zone is further from UTC than this, with room for a change of the clock. */
const farthestMs = 16 * 3_600_000

const known = new Map<string, WindowBounds>()
const mostKnown = 1_000

/** The window of a time zone that contains `now`. Throws `RangeError` for an unknown zone. */
export function windowAt(window: BudgetWindow, timezone: string, now: number): WindowBounds {
  if (window === 'none') return always
  const name = `${window} ${timezone}`
  const last = known.get(name)
  if (last !== undefined && last.start <= now && now < last.end!) return last
  const bounds = boundsAt(window, timezone, now)
  if (known.size >= mostKnown) known.clear()
  known.set(name, bounds)
  return bounds
}

function boundsAt(window: Exclude<BudgetWindow, 'none'>, timezone: string, now: number): WindowBounds {
  let first = firstDay(window, localOf(timezone, now))
  let start = beginningOf(timezone, first)
  let end = beginningOf(timezone, nextWindow(window, first))
  // Where the clock goes back over midnight, the day before is shown again in a day that has begun.
  while (now >= end) {
    first = nextWindow(window, first)
    start = end
    end = beginningOf(timezone, nextWindow(window, first))
  }
  return { start, end }
}

/** The midnight at which the window of a moment begins; dates and times of a clock are written as if they were UTC. */
function firstDay(window: Exclude<BudgetWindow, 'none'>, local: number): number {
  const date = new Date(local)
  date.setUTCHours(0, 0, 0, 0)
  if (window === 'week') date.setUTCDate(date.getUTCDate() - ((date.getUTCDay() + 6) % 7))
  if (window === 'month') date.setUTCDate(1)
  return date.getTime()
}

function nextWindow(window: Exclude<BudgetWindow, 'none'>, first: number): number {
  if (window === 'day') return first + dayMs
  if (window === 'week') return first + 7 * dayMs
  const date = new Date(first)
  return date.setUTCMonth(date.getUTCMonth() + 1)
}

/** The first moment at which the clocks of a zone show this midnight or, where it is left out, a later time. */
function beginningOf(timezone: string, midnight: number): number {
  let before = midnight - farthestMs
  let from = midnight + farthestMs
  while (from - before > 1) {
    const middle = Math.floor((before + from) / 2)
    if (localOf(timezone, middle) >= midnight) from = middle
    else before = middle
  }
  return from
}

const clocks = new Map<string, Intl.DateTimeFormat>()

/** What the clocks of a zone show, written as if it were UTC. */
function localOf(timezone: string, at: number): number {
  let clock = clocks.get(timezone)
  if (clock === undefined) {
    if (clocks.size >= mostKnown) clocks.clear()
    clocks.set(timezone, (clock = clockOf(timezone)))
  }
  const shown: Partial<Record<Intl.DateTimeFormatPartTypes, number>> = {}
  for (const { type, value } of clock.formatToParts(at)) shown[type] = Number(value)
  const { year, month, day, hour, minute, second } = shown
  return Date.UTC(year!, month! - 1, day!, hour!, minute!, second!) + (((at % 1_000) + 1_000) % 1_000)
}

function clockOf(timezone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  })
}

/** A name of the IANA database, such as `Europe/Berlin` or `UTC`. */
export function isTimezone(name: string): boolean {
  if (!/^[A-Za-z][\w+-]*(\/[\w+-]+)*$/.test(name)) return false
  try {
    clockOf(name)
    return true
  } catch {
    return false
  }
}

// Where groups are kept.

export interface GroupQuery {
  readonly limit: number
  /** Only groups made after the one with this id. */
  readonly after?: string | undefined
  /** Only groups whose name or id contains this text, in lower case. */
  readonly q?: string | undefined
  /** Only groups that stand in this one. */
  readonly parent?: string | undefined
}

export interface MemberQuery {
  readonly group: string
  readonly limit: number
  /** Only members whose account has a greater id. */
  readonly after?: string | undefined
}

/** A row as it was found, and as it was written, in one transaction. */
export interface Changed<Row> {
  readonly before: Row
  readonly after: Row
}

/** Changes are effective at once here, after `heardWithinMs` in every other process. Deleted groups are not found. */
export interface GroupStore {
  /** Throws GatewayError `invalid_request` for a parent that does not exist or stands too deep. */
  insertGroup(group: Group): Awaitable<void>
  /**
   * Changes what is named and nothing else, whoever changes the rest meanwhile. Undefined if there is no such group. Throws
   * GatewayError `invalid_request` for such a parent, and for one that would stand in the group itself.
   */
  changeGroup(id: string, changes: Partial<GroupSettings>): Awaitable<Changed<Group> | undefined>
  /** Its members leave it. Throws GatewayError `invalid_request` while other groups stand in it. */
  deleteGroup(id: string, at: number): Awaitable<void>
  findGroup(id: string): Awaitable<Group | undefined>
  /** Deleted groups too, for receipts. */
  groupName(id: string): Awaitable<string | undefined>
  /** In order of creation. Throws GatewayError `invalid_request` for an unknown `after`. */
  pageGroups(query: GroupQuery): Promise<{ readonly groups: readonly Group[]; readonly next: string | null }>
  /** Whether the group has ever been granted credit, with which it pays. */
  hasCredit(id: string): Awaitable<boolean>
  /** The group now has credit of its own: the callers that were looked up before do not know. */
  onCredited(id: string): Awaitable<void>
  /** False if the account is a member already, or if there is no such group. */
  insertMember(member: Member): Awaitable<boolean>
  /** As for a group. Undefined if the account is no member. */
  changeMember(
    group: string,
    account: string,
    changes: Partial<Pick<Member, 'role' | 'budget'>>,
  ): Awaitable<Changed<Member> | undefined>
  /** False if the account is no member. */
  removeMember(group: string, account: string): Awaitable<boolean>
  findMember(group: string, account: string): Awaitable<Member | undefined>
  pageMembers(
    query: MemberQuery,
  ): Awaitable<{ readonly members: readonly Member[]; readonly next: string | null }>
  /** The memberships of an account. */
  membershipsOf(account: string): Awaitable<readonly (Member & { readonly name: string })[]>
}

/** The error of a key whose group is gone, or has its person as a member no more. */
export function leftGroup({ id, account }: { readonly id: string; readonly account: string }): GatewayError {
  return new GatewayError('api_key_revoked', {
    message: 'This key was made in a group that its owner is no member of any more.',
    credential: { account, key: id },
  })
}

/** A group by its id, or the only one with a name; or what is wrong with that. Rejects with `store_unavailable`. */
export async function findGroupCalled(
  groups: Pick<GroupStore, 'findGroup' | 'pageGroups'>,
  idOrName: string,
): Promise<Group | string> {
  const byId = await groups.findGroup(idOrName)
  if (byId) return byId
  const named: Group[] = []
  for (let after: string | undefined; ;) {
    const page = await groups.pageGroups({ limit: 1_000, q: idOrName.toLowerCase(), after })
    named.push(...page.groups.filter(({ name }) => name === idOrName))
    if (page.next === null) break
    after = page.next
  }
  const [only, another] = named
  if (another) return `several groups are called ${JSON.stringify(idOrName)}: take an id`
  return only ?? `there is no group ${JSON.stringify(idOrName)} (weir groups list)`
}
