// `weir groups create|list|show|set|delete|add|remove|grant|adjust|statement`

import * as acts from '../../http/admin/groups.ts'
import {
  budgetWindows,
  type Group,
  groupRoles,
  type GroupSettings,
  isTimezone,
  type Member,
} from '../../accounts/group.ts'
import { requireProven } from '../../accounts/identity/identities.ts'
import { formatUsd, largestBalance, parseUsd, type Pico } from '../../credits/money.ts'
import type { GroupView, MemberView } from '../../http/console/answers.ts'
import type { GroupStatementView } from '../../http/payments/answers.ts'
import { groupStatementOf } from '../../http/payments/statements.ts'
import type { Store } from '../../store/store.ts'
import { CommandFailure, type Context, type Invocation, print, table, usageFault } from '../context.ts'
import { amountOfUsd, endOfGrant, monthOf, oneOf } from '../values.ts'
import { accountOf, actingOn, findGroup, unlessConflict, withGroup, withStore } from '../with-store.ts'
import { provingOf } from './accounts.ts'
import { adjustPool, balanceView, renderBalance } from './credits.ts'
import { listOf, modelList } from './keys.ts'

export async function createGroup(context: Context, invocation: Invocation): Promise<void> {
  const settings = settingsOf(invocation)
  const view = await withStore(context, async (store) =>
    acts.createGroup(actingOn(context, store, store), {
      ...settings,
      ...(await parentOf(store, invocation)),
      name: invocation.option('name') ?? '',
    }),
  )
  print(context, { json: view, text: `made the group ${view.name} (${view.id})` })
}

export async function listGroups(context: Context): Promise<void> {
  const views = await withStore(context, async (store) => {
    const found: GroupView[] = []
    for (let after: string | undefined; ;) {
      const { groups, next } = await store.groups.pageGroups({ limit: 200, after })
      found.push(...(await acts.groupViews(partsOf(context, store), groups)))
      if (next === null) return found
      after = next
    }
  })
  print(context, { json: views, text: renderGroups(views) })
}

export async function showGroup(context: Context, invocation: Invocation): Promise<void> {
  const { view, above, members, credits } = await withGroup(context, invocation, async (store, group) => {
    const parts = partsOf(context, store)
    const view = await acts.groupView(parts, group)
    return {
      view,
      above: await acts.groupsAbove(store.groups, group),
      members: await membersOf(context, store, group),
      credits: view.has_credit ? await balanceView(store.ledger, group.id, context.io.clock()) : undefined,
    }
  })
  const paid = credits === undefined ? 'no credit of its own: its members pay' : renderBalance(credits)
  print(context, {
    json: { ...view, above, credits: credits ?? null, members },
    text: [renderGroups([view]), paid, renderMembers(members)].join('\n\n'),
  })
}

/** Changes what the options name; what they do not name stays. */
export async function setGroup(context: Context, invocation: Invocation): Promise<void> {
  const name = invocation.option('name')
  const settings = { ...settingsOf(invocation), ...(name === undefined ? {} : { name }) }
  const view = await withGroup(context, invocation, async (store, group) => {
    const changes = { ...settings, ...(await parentOf(store, invocation)) }
    return acts.changeGroup(actingOn(context, store, store), group, changes)
  })
  print(context, { json: view, text: renderGroups([view]) })
}

export async function deleteGroup(context: Context, invocation: Invocation): Promise<void> {
  const { id, name } = await withGroup(context, invocation, async (store, group) => {
    await acts.deleteGroup(actingOn(context, store, store), group.id)
    return group
  })
  print(context, { json: { id, deleted: true }, text: `deleted the group ${name} (${id})` })
}

/** Adds a member, or changes the role and the budget of one. */
export async function addMember(context: Context, invocation: Invocation): Promise<void> {
  const [role, budget] = [invocation.option('role'), invocation.option('budgetUsd')]
  const changes: Partial<Pick<Member, 'role' | 'budget'>> = {
    ...(role === undefined ? {} : { role: oneOf('--role', role, groupRoles) }),
    ...(budget === undefined ? {} : { budget: budgetOf('--budget-usd', budget) }),
  }
  const { view, group } = await withGroup(context, invocation, async (store, group) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    await requireProven(provingOf(context, store), account)
    return { group, view: await acts.addMember(actingOn(context, store, store), group, account, changes) }
  })
  print(context, {
    json: view,
    text: `${view.email} is ${view.role} of ${group.name}\n${renderMembers([view])}`,
  })
}

export async function removeMember(context: Context, invocation: Invocation): Promise<void> {
  const { account, group } = await withGroup(context, invocation, async (store, group) => {
    const account = await accountOf(store, invocation.option('account') ?? '')
    await acts.removeMember(actingOn(context, store, store), group, account.id)
    return { account, group }
  })
  const json = { account: account.id, group: group.id, removed: true }
  print(context, { json, text: `${account.email} is no member of ${group.name} any more` })
}

/** Grants purchased credit. The same --id never grants twice. */
export async function grantToGroup(context: Context, invocation: Invocation): Promise<void> {
  const now = context.io.clock()
  const amount = amountOfUsd('--usd', invocation.option('usd') ?? '')
  const id = invocation.option('id')
  if (id === '') throw usageFault('--id must not be empty')
  const expiresAt = endOfGrant(invocation, now)
  const wanted = { id, amount, expiresAt, note: invocation.option('note') ?? null }
  const { group, result, balance } = await withGroup(context, invocation, async (store, group) => {
    const granted = acts.grantToGroup(actingOn(context, store, store), group, wanted)
    const result = await unlessConflict('nothing granted', granted)
    return { group, result, balance: await balanceView(store.ledger, group.id, now) }
  })
  const what = result.granted
    ? `granted ${formatUsd(amount)} USD to ${group.name}`
    : `nothing granted to ${group.name}: this id was used before`
  print(context, {
    json: {
      group: group.id,
      lot: result.lot,
      granted: result.granted,
      pool: 'purchased',
      usd: formatUsd(amount),
      credits: balance,
    },
    text: `${what}\n${renderBalance(balance)}`,
  })
}

/** Adds credit to a group's own, or removes free credit with a negative amount, once for its id. */
export async function adjustGroup(context: Context, invocation: Invocation): Promise<void> {
  const { group, adjusted, usd, balance } = await withGroup(context, invocation, async (store, group) => {
    if (!(await store.groups.hasCredit(group.id)))
      throw new CommandFailure(`${group.name} has no credit of its own (weir groups grant)`)
    return { group, ...(await adjustPool(context, invocation, store, group.id, 'purchased')) }
  })
  print(context, {
    json: { group: group.id, adjusted, usd, credits: balance },
    text: `${adjusted ? `adjusted by ${usd} USD` : 'nothing adjusted: this id was used before'}\n${renderBalance(balance)}`,
  })
}

// What the options say.

function settingsOf(invocation: Invocation): Partial<GroupSettings> {
  const option = <T>(name: string, read: (text: string) => T) => {
    const text = invocation.option(name)
    return text === undefined ? undefined : read(text)
  }
  const found = {
    budget: option('budgetUsd', (text) => budgetOf('--budget-usd', text)),
    window: option('budgetWindow', (text) => oneOf('--budget-window', text, budgetWindows)),
    memberBudget: option('memberBudgetUsd', (text) => budgetOf('--member-budget-usd', text)),
    timezone: option('timezone', zoneOf),
    allowedModels: option('models', (text) => (text === 'none' ? null : modelList('--models', text))),
    tags: option('tags', (text) => (text === 'none' ? null : tagsOf(text))),
    warnAt: option('warnAt', sharesOf),
  }
  const named = Object.entries(found).filter(([, value]) => value !== undefined)
  return Object.fromEntries(named) as Partial<GroupSettings>
}

async function parentOf(store: Store, invocation: Invocation): Promise<Partial<Pick<Group, 'parent'>>> {
  const text = invocation.option('parent')
  if (text === undefined) return {}
  return { parent: text === 'none' ? null : (await findGroup(store, text)).id }
}

function budgetOf(flag: string, text: string): Pico | null {
  if (text === 'none') return null
  const amount = parseUsd(text)
  if (amount !== undefined && amount >= 0n && amount <= largestBalance) return amount
  throw usageFault(
    `${flag} takes US dollars such as 50, at most ${formatUsd(largestBalance)}, or none, not ${JSON.stringify(text)}`,
  )
}

function zoneOf(text: string): string {
  if (isTimezone(text)) return text
  throw usageFault(`--timezone takes a name such as Asia/Kolkata, not ${JSON.stringify(text)}`)
}

const tag = /^([\w.-]{1,64})=(.{0,256})$/
const mostTags = 16

function tagsOf(text: string): Record<string, string> {
  const pairs = listOf(text).map((pair) => tag.exec(pair))
  if (pairs.length > 0 && pairs.length <= mostTags && pairs.every((pair) => pair !== null))
    return Object.fromEntries(pairs.map(([, name, value]) => [name!, value!]))
  throw usageFault(`--tags takes up to ${mostTags} pairs such as team=search, not ${JSON.stringify(text)}`)
}

function sharesOf(text: string): number[] {
  const shares = text === 'none' ? [] : listOf(text).map(Number)
  const rise = shares.every((share, at) => share > (shares[at - 1] ?? 0) && share <= 1)
  if (rise && shares.length <= 10) return shares
  throw usageFault(`--warn-at takes rising shares such as 0.8,0.95, or none, not ${JSON.stringify(text)}`)
}

// How they are shown.

function partsOf(context: Context, { groups, accounts, ledger }: Store) {
  return { groups, accounts, ledger, now: context.io.clock }
}

async function membersOf(context: Context, store: Store, group: Group): Promise<MemberView[]> {
  const found: MemberView[] = []
  for (let after: string | undefined; ;) {
    const { members, next } = await store.groups.pageMembers({ group: group.id, limit: 200, after })
    found.push(...(await acts.memberViews(partsOf(context, store), group, members)))
    if (next === null) return found
    after = next
  }
}

function renderGroups(views: readonly GroupView[]): string {
  if (views.length === 0) return 'no groups'
  const rows = views.map((view) => [
    view.id,
    view.name,
    view.parent ?? '',
    view.budget_usd ?? 'none',
    view.budget_window === 'none' ? 'in all' : `a ${view.budget_window}`,
    view.spent_usd,
    view.reserved_usd,
    view.resets_at ?? 'never',
    view.has_credit ? 'its own' : '',
  ])
  return table(
    ['GROUP', 'NAME', 'STANDS IN', 'BUDGET USD', 'WINDOW', 'SPENT', 'RESERVED', 'RESETS', 'CREDIT'],
    rows,
  )
}

function renderMembers(members: readonly MemberView[]): string {
  if (members.length === 0) return 'no members'
  const rows = members.map(({ email, role, limit_usd, spent_usd, reserved_usd }) => [
    email,
    role,
    limit_usd ?? 'none',
    spent_usd,
    reserved_usd,
  ])
  return table(['MEMBER', 'ROLE', 'BUDGET USD', 'SPENT', 'RESERVED'], rows)
}

/** What a group has spent in a month, by person, key and model, and what came of its own credit. */
export async function groupStatement(context: Context, invocation: Invocation): Promise<void> {
  const month = monthOf(invocation, context.io.clock())
  const view = await withGroup(context, invocation, (store, group) => {
    const { statements, ledger, usage, groups, payments: paymentStore } = store
    const parts = { statements, ledger, usage, groups, paymentStore, now: context.io.clock }
    return groupStatementOf(parts, group, month)
  })
  print(context, { json: view, text: renderStatement(view) })
}

function renderStatement({ name, group, month, spent, credit, ...parts }: GroupStatementView): string {
  const tableOf = (heading: string, rows: GroupStatementView['people']) =>
    table(
      [heading, 'CALLS', 'COST USD', 'CHARGED USD'],
      rows.map(({ id, label, calls, cost_usd: cost, charged_usd: charged }) => [
        id === null ? 'others' : label === null ? id || 'the app' : `${label} (${id})`,
        String(calls),
        cost,
        charged,
      ]),
    )
  const own =
    credit === null
      ? 'no credit of its own: its members pay'
      : [
          `opening ${credit.opening.balance}`,
          ...credit.totals.map(({ kind, balance }) => `${kind} ${balance}`),
          `closing ${credit.closing.balance}`,
        ].join(', ')
  return [
    `${name} (${group}), ${month}, US dollars: ${spent.calls} calls, cost ${spent.cost_usd}, charged ${spent.charged_usd}`,
    `credit: ${own}`,
    tableOf('PERSON', parts.people),
    tableOf('KEY', parts.keys),
    tableOf('MODEL', parts.models),
  ].join('\n\n')
}
