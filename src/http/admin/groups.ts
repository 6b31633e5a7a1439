// Groups for operators: who is in them, what they may spend and have spent, and the credit of their own.

import { z } from 'zod'
import type { Account } from '../../accounts/account.ts'
import {
  type Group,
  type GroupSettings,
  budgetWindows,
  groupRoles,
  isTimezone,
  type Member,
  newGroupId,
  scopeOf,
  windowAt,
} from '../../accounts/group.ts'
import type { GrantResult } from '../../credits/ledger/ledger.ts'
import { formatUsd, largestBalance, parseUsd, type Pico } from '../../credits/money.ts'
import { GatewayError } from '../../errors/errors.ts'
import { amountOf, endOfGrant, grantFields, invalid, modelNames, shortName } from '../console/bodies.ts'
import { creditView } from '../console/credits.ts'
import {
  type AdminAsked,
  type AdminRoute,
  adminRoute,
  type ConsoleRoute,
  iso,
  isoOrNull,
  type OperatorActing,
  ownRoute,
  recordAct,
  type SignedInAsked,
} from '../console/route.ts'
import { pageLimit, queryOf } from '../intake/read-body.ts'
import type { HttpParts } from '../parts.ts'
import { grantCredit } from './acts.ts'
import type { AdministeredGroupView, GroupDetailView, GroupView, MemberView } from '../console/answers.ts'

const budget = z
  .string()
  .regex(/^\d{1,7}(\.\d{1,12})?$/, 'must be US dollars such as "50" or "0.50"')
  .nullable()
const word = z
  .string()
  .regex(/^[\w.-]{1,64}$/, 'must be 1 to 64 letters, digits, dots, dashes and underscores')

const fields = {
  name: shortName,
  parent: z.string().max(64).nullable().describe('The group that it stands in.'),
  budget_usd: budget.describe(
    'What the group, and all groups in it, may spend in a window; null for no limit.',
  ),
  budget_window: z
    .enum(budgetWindows)
    .describe('When the budgets begin anew, in its time zone; weeks begin on Monday. `none`: never.'),
  member_budget_usd: budget.describe('What each member may spend in a window; null for no limit.'),
  models: modelNames.describe('The models that its keys may use; null for all.'),
  tags: z
    .record(word, z.string().max(256))
    .refine((tags) => Object.keys(tags).length <= 16, 'must be at most 16 tags')
    .nullable(),
  timezone: z
    .string()
    .max(64)
    .refine(isTimezone, 'must be the name of a time zone, such as Asia/Kolkata')
    .describe('Of the IANA database.'),
  warn_at: z
    .array(z.number().gt(0).max(1))
    .max(10)
    .refine((shares) => shares.every((share, at) => at === 0 || share > shares[at - 1]!), 'must rise')
    .describe('Shares of the budget, such as 0.8.'),
}
const { name, ...changeable } = fields
const createBody = z.strictObject({ name, ...z.strictObject(changeable).partial().shape })
const changeBody = z.strictObject(fields).partial()
const listParameters = z.strictObject({
  q: z.string().max(256).optional().describe('Only groups whose name or id holds this text.'),
  parent: z.string().max(64).optional().describe('Only groups that stand in this one.'),
  cursor: z.string().max(256).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})
const memberParameters = z.strictObject({
  cursor: z.string().max(256).optional().describe('The `next_cursor` of the page before.'),
  limit: pageLimit,
})
const memberFields = {
  role: z.enum(groupRoles),
  budget_usd: budget.describe("In place of the group's `member_budget_usd`; null for that."),
}
const addBody = z.strictObject({
  account: z.string().max(256).describe('The id of an account, or its address.'),
  ...z.strictObject(memberFields).partial().shape,
})
const changeMemberBody = z.strictObject(memberFields).partial()
const grantBody = z.strictObject({
  ...grantFields,
  expires_at: grantFields.expires_at.describe(
    'A time, or `never`; without it the credit lasts twelve months.',
  ),
})

export const groupRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET groups',
    {
      id: 'listGroups',
      summary: 'List groups with what they have spent',
      description: 'In the order they were made.',
      query: listParameters,
    },
    async ({ parts, request }) => {
      const { q, parent, cursor, limit } = queryOf(listParameters, request)
      const { groups, next } = await parts.groups.pageGroups({
        q: q?.toLowerCase(),
        parent,
        after: cursor,
        limit,
      })
      return { data: await groupViews(parts, groups), has_more: next !== null, next_cursor: next }
    },
  ),
  adminRoute(
    'POST groups',
    {
      id: 'createGroup',
      summary: 'Make a group: a team, a project, a customer',
      description:
        'What its keys spend is held within its budgets and those of every group that it stands in, the tightest first, exactly: calls at the same time never pass them together. Without a budget it is counted all the same.',
      status: 201,
      body: createBody,
    },
    async (asked) => createGroup(asked, settingsOf(asked.body)),
  ),
  adminRoute(
    'GET groups/:group',
    { id: 'getGroup', summary: 'Get a group with its credit, and the groups that it stands in' },
    async (asked) => ({ data: await groupDetail(asked.parts, await groupNamed(asked)) }),
  ),
  adminRoute(
    'PATCH groups/:group',
    {
      id: 'changeGroup',
      summary: 'Change a group',
      description:
        'Calls in flight stay on the budgets that they were held on. A window that is changed, or its time zone, begins to count with the change.',
      // It lets keys of others spend more.
      elevated: true,
      body: changeBody,
    },
    async (asked) => changeGroup(asked, await groupNamed(asked), settingsOf(asked.body)),
  ),
  adminRoute(
    'DELETE groups/:group',
    {
      id: 'deleteGroup',
      summary: 'Delete a group: its keys end, and its members leave it',
      description:
        'Refused while other groups stand in it. Its receipts stay, and what is left of its credit.',
    },
    async (asked) => {
      const { id } = await groupNamed(asked)
      await deleteGroup(asked, id)
      return { id, deleted: true }
    },
  ),
  adminRoute(
    'GET groups/:group/members',
    {
      id: 'listMembers',
      summary: 'List the members of a group with what they have spent in it',
      query: memberParameters,
    },
    async (asked) => memberPage(asked, await groupNamed(asked)),
  ),
  adminRoute(
    'POST groups/:group/members',
    {
      id: 'addMember',
      summary: 'Add an account to a group',
      description:
        'A member makes keys in the group. Repeating it changes the role and the budget that it names.',
      status: 201,
      // Its keys spend the credit of the group.
      elevated: true,
      body: addBody,
    },
    async (asked) => {
      const group = await groupNamed(asked)
      const account = await asked.parts.accounts.findAccount(asked.body.account)
      if (!account) throw invalid('There is no such account.', 'account')
      await asked.parts.identities.requireProven(account)
      return addMember(asked, group, account, memberChanges(asked.body))
    },
  ),
  adminRoute(
    'PATCH groups/:group/members/:account',
    {
      id: 'changeMember',
      summary: 'Change the role or the budget of a member',
      // As for the group.
      elevated: true,
      body: changeMemberBody,
    },
    async (asked) => {
      const group = await groupNamed(asked)
      return changeMember(asked, group, await memberNamed(asked, group), memberChanges(asked.body))
    },
  ),
  adminRoute(
    'DELETE groups/:group/members/:account',
    {
      id: 'removeMember',
      summary: 'Remove an account from a group: its keys of the group end, at once',
      description:
        'Its running calls with them are ended, and charged for what they delivered to the budgets they were held on. A key works again when its account is added again.',
    },
    async (asked) => {
      const group = await groupNamed(asked)
      const { account } = await memberNamed(asked, group)
      await removeMember(asked, group, account)
      return { account, removed: true }
    },
  ),
  adminRoute(
    'POST groups/:group/grants',
    {
      id: 'grantToGroup',
      summary: 'Grant purchased credit to a group',
      description:
        'From the first grant on the group pays for its keys, and for those of groups in it that have no credit of their own; what it lacks its members do not pay. With an `id` of yours the same grant can be sent again: it is booked once.',
      elevated: true,
      body: grantBody,
    },
    async (asked) => {
      const { parts, body } = asked
      const group = await groupNamed(asked)
      const amount = amountOf('usd', body.usd)
      const { id, note = null } = body
      const expiresAt = endOfGrant(body.expires_at, parts.now())
      const { lot, granted } = await grantToGroup(asked, group, { id, amount, expiresAt, note })
      const credits = await creditView(parts, group.id)
      return { lot, granted, pool: 'purchased', usd: formatUsd(amount), credits }
    },
  ),
]

export const ownGroupRoutes: readonly ConsoleRoute[] = [
  ownRoute(
    'GET groups',
    { summary: 'The groups that the account is a member of' },
    async ({ parts, account }) => {
      const memberships = await parts.groups.membershipsOf(account.id)
      const found = await Promise.all(memberships.map(({ group }) => parts.groups.findGroup(group)))
      const groups = found.filter((group) => group !== undefined)
      const views = await groupViews(parts, groups)
      const data = views.map(async (view, at) => {
        const member = memberships.find(({ group }) => group === view.id)!
        const [own] = await memberViews(parts, groups[at]!, [member])
        return {
          id: view.id,
          name: view.name,
          role: member.role,
          budget_usd: view.budget_usd,
          group_spent_usd: view.spent_usd,
          limit_usd: own!.limit_usd,
          spent_usd: own!.spent_usd,
          resets_at: view.resets_at,
          has_credit: view.has_credit,
        }
      })
      return { data: await Promise.all(data) }
    },
  ),
  ownRoute(
    'GET groups/:group',
    { summary: 'A group that the account administers, as its admin or as that of a group that it stands in' },
    async (asked): Promise<{ readonly data: AdministeredGroupView }> => {
      const { parts } = asked
      const { group, from } = await administeredGroup(asked)
      const view = await groupDetail(parts, group)
      const { groups } = await parts.groups.pageGroups({ parent: group.id, limit: mostBelow })
      const end = view.above.findIndex(({ id }) => id === from)
      return {
        data: {
          ...view,
          above: view.above.slice(0, end + 1),
          below: groups.map(({ id, name: called }) => ({ id, name: called })),
        },
      }
    },
  ),
  ownRoute(
    'GET groups/:group/members',
    { summary: 'The members of a group that the account administers' },
    async (asked) => memberPage(asked, (await administeredGroup(asked)).group),
  ),
  ownRoute(
    'POST groups/:group/members',
    {
      summary: 'Add an account to a group that the account administers, or change its role and budget there',
      status: 201,
      errors: ['rate_limit_exceeded'],
      elevated: true,
      body: addBody,
    },
    async (asked) => {
      const { parts, account, body } = asked
      const { group } = await administeredGroup(asked)
      const found = await parts.identities.accountToAdd(account, body.account)
      requireOther(asked, found.id)
      return addMember(byAdmin(asked), group, found, memberChanges(body))
    },
  ),
  ownRoute(
    'PATCH groups/:group/members/:account',
    { summary: 'Change the role or the budget of a member', elevated: true, body: changeMemberBody },
    async (asked) => {
      const { group } = await administeredGroup(asked)
      const member = await memberNamed(asked, group)
      requireOther(asked, member.account)
      return changeMember(byAdmin(asked), group, member, memberChanges(asked.body))
    },
  ),
  ownRoute(
    'DELETE groups/:group/members/:account',
    {
      summary:
        'Remove an account from a group that the account administers: its keys of the group end, at once',
    },
    async (asked) => {
      const { group } = await administeredGroup(asked)
      const member = await memberNamed(asked, group)
      requireOther(asked, member.account)
      await removeMember(byAdmin(asked), group, member.account)
      return { account: member.account, removed: true }
    },
  ),
]

/** Groups that are shown of those that stand in one. */
const mostBelow = 200

/**
 * The group of the path, and the outermost group by which the account administers it. Throws `not_found` for an account
 * that is no admin of it, nor of a group that it stands in.
 */
async function administeredGroup(
  asked: SignedInAsked<unknown>,
): Promise<{ readonly group: Group; readonly from: string }> {
  const { parts, account } = asked
  const group = await groupNamed(asked)
  const memberships = await parts.groups.membershipsOf(account.id)
  const ofAdmin = new Set(memberships.filter(({ role }) => role === 'admin').map((member) => member.group))
  let from: string | undefined
  for (let level: Group | undefined = group; level !== undefined;) {
    if (ofAdmin.has(level.id)) from = level.id
    level = level.parent === null ? undefined : await parts.groups.findGroup(level.parent)
  }
  if (from === undefined) throw new GatewayError('not_found')
  return { group, from }
}

/** What admins do stands in the audit log under their account. */
function byAdmin({ parts, account }: SignedInAsked<unknown>): GroupActing {
  return { parts, operator: account, by: 'session' }
}

/** Throws `invalid_request` for the admin itself: its own budget and role others set. */
function requireOther({ account }: SignedInAsked<unknown>, member: string): void {
  if (member !== account.id) return
  throw invalid('Another admin of the group, or an operator, changes your own membership.', 'account')
}

async function memberPage({ parts, request }: Pick<AdminAsked<unknown>, 'parts' | 'request'>, group: Group) {
  const { cursor, limit } = queryOf(memberParameters, request)
  const { members, next } = await parts.groups.pageMembers({ group: group.id, after: cursor, limit })
  return { data: await memberViews(parts, group, members), has_more: next !== null, next_cursor: next }
}

/** The group of the path. Throws `not_found`. */
async function groupNamed({ parts, params }: Pick<AdminAsked<unknown>, 'parts' | 'params'>): Promise<Group> {
  const group = await parts.groups.findGroup(params['group'] ?? '')
  if (!group) throw new GatewayError('not_found')
  return group
}

async function memberNamed(
  { parts, params }: Pick<AdminAsked<unknown>, 'parts' | 'params'>,
  { id }: Group,
): Promise<Member> {
  const member = await parts.groups.findMember(id, params['account'] ?? '')
  if (!member) throw new GatewayError('not_found')
  return member
}

/** The settings that a body names, and no others. Throws `invalid_request`. */
function settingsOf(body: z.infer<typeof changeBody>): Partial<GroupSettings> {
  const { budget_usd, budget_window, member_budget_usd, models, warn_at, tags, ...same } = body
  const { name: called, parent, timezone } = same
  return {
    ...(called === undefined ? {} : { name: called }),
    ...(parent === undefined ? {} : { parent }),
    ...(timezone === undefined ? {} : { timezone }),
    ...(budget_usd === undefined ? {} : { budget: budgetOf('budget_usd', budget_usd) }),
    ...(budget_window === undefined ? {} : { window: budget_window }),
    ...(member_budget_usd === undefined
      ? {}
      : { memberBudget: budgetOf('member_budget_usd', member_budget_usd) }),
    ...(models === undefined ? {} : { allowedModels: models }),
    ...(tags === undefined ? {} : { tags }),
    ...(warn_at === undefined ? {} : { warnAt: warn_at }),
  }
}

type MemberChanges = Partial<Pick<Member, 'role' | 'budget'>>

function memberChanges({ role, budget_usd }: Partial<z.infer<typeof addBody>>): MemberChanges {
  return {
    ...(role === undefined ? {} : { role }),
    ...(budget_usd === undefined ? {} : { budget: budgetOf('budget_usd', budget_usd) }),
  }
}

/** Picodollars from 0 to the largest balance. Throws `invalid_request`. */
function budgetOf(param: string, text: string | null): Pico | null {
  if (text === null) return null
  const amount = parseUsd(text)
  if (amount !== undefined && amount >= 0n && amount <= largestBalance) return amount
  throw invalid(`${param} takes US dollars such as "50", at most ${formatUsd(largestBalance)}.`, param)
}

// What operators do with groups, by a route or by a command: done, and logged.

type GroupParts = Pick<HttpParts, 'groups' | 'accounts'> & {
  readonly ledger: Pick<HttpParts['ledger'], 'budgetSpend' | 'grant'>
}
export type GroupActing = OperatorActing<GroupParts>

const plain: Omit<GroupSettings, 'name'> = {
  parent: null,
  budget: null,
  window: 'month',
  timezone: 'UTC',
  memberBudget: null,
  allowedModels: null,
  tags: null,
  warnAt: [],
}

/** Throws `invalid_request` for a parent that there is not, or that stands too deep. */
export async function createGroup(acting: GroupActing, wanted: Partial<GroupSettings>): Promise<GroupView> {
  const { groups, now } = acting.parts
  const group: Group = { ...plain, name: '', ...wanted, id: newGroupId(), createdAt: now() }
  await groups.insertGroup(group)
  await recordAct(acting, 'group.create', group.id, null, groupRow(group))
  return groupView(acting.parts, group)
}

/** Throws `invalid_request` for a parent that stands in the group itself, and `not_found` for a group that is gone. */
export async function changeGroup(
  acting: GroupActing,
  { id }: Pick<Group, 'id'>,
  changes: Partial<GroupSettings>,
): Promise<GroupView> {
  const changed = await acting.parts.groups.changeGroup(id, changes)
  if (!changed) throw new GatewayError('not_found')
  const { before, after } = changed
  await recordAct(acting, 'group.change', id, groupRow(before), groupRow(after))
  return groupView(acting.parts, after)
}

/** Throws `invalid_request` while other groups stand in it. */
export async function deleteGroup(acting: GroupActing, id: string): Promise<void> {
  const { groups, now } = acting.parts
  await groups.deleteGroup(id, now())
  await recordAct(acting, 'group.delete', id, null, null)
}

/** Adds a member, or changes the one that is there. Throws `not_found` for a group that is gone. */
export async function addMember(
  acting: GroupActing,
  group: Group,
  { id: account }: Account,
  wanted: MemberChanges,
): Promise<MemberView> {
  const { groups, now } = acting.parts
  const member: Member = {
    group: group.id,
    account,
    role: 'member',
    budget: null,
    joinedAt: now(),
    ...wanted,
  }
  if (!(await groups.insertMember(member))) return changeMember(acting, group, member, wanted)
  await recordAct(acting, 'group.add_member', group.id, null, memberRow(member))
  return memberView(acting.parts, group, member)
}

/** Throws `not_found` for who is no member any more. */
export async function changeMember(
  acting: GroupActing,
  group: Group,
  { account }: Pick<Member, 'account'>,
  changes: MemberChanges,
): Promise<MemberView> {
  const changed = await acting.parts.groups.changeMember(group.id, account, changes)
  if (!changed) throw new GatewayError('not_found')
  const { before, after } = changed
  await recordAct(acting, 'group.change_member', group.id, memberRow(before), memberRow(after))
  return memberView(acting.parts, group, after)
}

export async function removeMember(acting: GroupActing, { id }: Group, account: string): Promise<void> {
  if (!(await acting.parts.groups.removeMember(id, account))) throw new GatewayError('not_found')
  await recordAct(acting, 'group.remove_member', id, { account }, null)
}

interface WantedGrant {
  readonly id: string | undefined
  readonly amount: Pico
  readonly expiresAt: number | 'never' | null
  readonly note: string | null
}

/** Grants purchased credit, with which the group pays from now on. Throws `idempotency_conflict`. */
export async function grantToGroup(
  acting: GroupActing,
  { id }: Group,
  wanted: WantedGrant,
): Promise<GrantResult> {
  const granted = await grantCredit(acting, { id }, { pool: 'purchased', ...wanted })
  await acting.parts.groups.onCredited(id)
  return granted
}

// How they are shown.

type Showing = Pick<GroupParts, 'groups'> & {
  readonly ledger: Pick<HttpParts['ledger'], 'budgetSpend'>
  readonly now: () => number
}

export async function groupView(parts: Showing, group: Group): Promise<GroupView> {
  return (await groupViews(parts, [group]))[0]!
}

export async function groupViews(parts: Showing, groups: readonly Group[]): Promise<GroupView[]> {
  const windows = groups.map(({ window, timezone }) => windowAt(window, timezone, parts.now()))
  const counted = groups.map(({ id }, at) => ({ scope: scopeOf(id), windowStart: windows[at]!.start }))
  const spends = await parts.ledger.budgetSpend(counted)
  return Promise.all(
    groups.map(async (group, at) => ({
      ...groupRow(group),
      spent_usd: formatUsd(spends[at]!.spent),
      reserved_usd: formatUsd(spends[at]!.held),
      window_start: windows[at]!.end === null ? null : iso(windows[at]!.start),
      resets_at: isoOrNull(windows[at]!.end),
      has_credit: await parts.groups.hasCredit(group.id),
    })),
  )
}

/** The groups that a group is in, the nearest first. */
export async function groupsAbove(
  groups: Pick<HttpParts['groups'], 'findGroup'>,
  group: Group,
): Promise<{ id: string; name: string }[]> {
  const above: { id: string; name: string }[] = []
  for (let { parent } = group; parent !== null;) {
    const next = await groups.findGroup(parent)
    if (!next) break
    above.push({ id: next.id, name: next.name })
    parent = next.parent
  }
  return above
}

async function groupDetail(parts: HttpParts, group: Group): Promise<GroupDetailView> {
  const above = await groupsAbove(parts.groups, group)
  const view = await groupView(parts, group)
  return { ...view, above, credits: view.has_credit ? await creditView(parts, group.id) : null }
}

function groupRow(group: Group) {
  return {
    id: group.id,
    name: group.name,
    parent: group.parent,
    budget_usd: usdOrNull(group.budget),
    budget_window: group.window,
    member_budget_usd: usdOrNull(group.memberBudget),
    models: group.allowedModels,
    tags: group.tags,
    timezone: group.timezone,
    warn_at: group.warnAt,
    created_at: iso(group.createdAt),
  }
}

function memberRow({ account, role, budget: own, joinedAt }: Member) {
  return { account, role, budget_usd: usdOrNull(own), joined_at: iso(joinedAt) }
}

async function memberView(parts: GroupParts & Showing, group: Group, member: Member): Promise<MemberView> {
  return (await memberViews(parts, group, [member]))[0]!
}

export async function memberViews(
  parts: Pick<GroupParts, 'accounts'> & Showing,
  { id, window, timezone, memberBudget }: Group,
  members: readonly Member[],
): Promise<MemberView[]> {
  const { start, end } = windowAt(window, timezone, parts.now())
  const counted = members.map(({ account }) => ({ scope: scopeOf(id, account), windowStart: start }))
  const spends = await parts.ledger.budgetSpend(counted)
  return Promise.all(
    members.map(async (member, at) => ({
      ...memberRow(member),
      email: (await parts.accounts.findAccount(member.account))?.email ?? '',
      limit_usd: usdOrNull(member.budget ?? memberBudget),
      spent_usd: formatUsd(spends[at]!.spent),
      reserved_usd: formatUsd(spends[at]!.held),
      resets_at: isoOrNull(end),
    })),
  )
}

function usdOrNull(amount: Pico | null): string | null {
  return amount === null ? null : formatUsd(amount)
}
