// Groups as they are kept: the tree, its members, and how a call of one of them stands.

import { describe, expect, test } from 'bun:test'
import { budgetsOf, deepestGroup, type Group, type Member } from '../../../src/accounts/group.ts'
import { usd } from '../../../src/credits/money.ts'
import { openStore, type Store } from '../../../src/store/open.ts'
import { grantOf, holdOf, minute, noon, settleOf } from '../../credits/support.ts'
import { describeOnBoth } from '../../support/both-databases.ts'
import { tempDir } from '../../support/tmp.ts'

function groupOf(id: string, more: Partial<Group> = {}): Group {
  return {
    id,
    name: id.slice(4),
    parent: null,
    budget: null,
    window: 'month',
    timezone: 'UTC',
    memberBudget: null,
    allowedModels: null,
    tags: null,
    warnAt: [],
    createdAt: noon,
    ...more,
  }
}

const memberOf = (group: string, account: string, more: Partial<Member> = {}): Member => ({
  group,
  account,
  role: 'member',
  budget: null,
  joinedAt: noon,
  ...more,
})

const refused = (param: string) =>
  expect.objectContaining({ code: 'invalid_request', details: expect.objectContaining({ param }) })

async function thrownBy(act: () => unknown): Promise<unknown> {
  try {
    await act()
  } catch (thrown) {
    return thrown
  }
  return undefined
}

describeOnBoth('groups', (open) => {
  describe('the tree of groups', () => {
    test('has no loops, however they are asked for', async () => {
      const { groups } = await open(() => noon)
      for (const [id, parent] of [
        ['grp_a', null],
        ['grp_b', 'grp_a'],
        ['grp_c', 'grp_b'],
      ] as const)
        await groups.insertGroup(groupOf(id, { parent }))
      for (const parent of ['grp_a', 'grp_b', 'grp_c'])
        expect(await thrownBy(() => groups.changeGroup('grp_a', { parent }))).toEqual(refused('parent'))
      await groups.changeGroup('grp_c', { parent: null })
      await groups.changeGroup('grp_a', { parent: 'grp_c' })
      expect(await thrownBy(() => groups.changeGroup('grp_c', { parent: 'grp_b' }))).toEqual(
        refused('parent'),
      )
      expect((await groups.findGroup('grp_a'))?.parent).toBe('grp_c')
    })

    test('has no loops when all of it moves at once', async () => {
      const { groups } = await open(() => noon)
      const ids = ['grp_a', 'grp_b', 'grp_c', 'grp_d']
      for (const id of ids) await groups.insertGroup(groupOf(id))
      const moved = await Promise.all(
        ids.map((id, n) => thrownBy(() => groups.changeGroup(id, { parent: ids[(n + 1) % 4]! }))),
      )
      const refusals = moved.filter((each) => each !== undefined)
      expect(refusals).toEqual([refused('parent')])
      const parents = await Promise.all(ids.map(async (id) => (await groups.findGroup(id))?.parent))
      expect(parents.filter((parent) => parent === null)).toHaveLength(1)
    })

    test('is no deeper than it may be, below a group that is moved too', async () => {
      const { groups } = await open(() => noon)
      for (let depth = 1; depth <= deepestGroup; depth++)
        await groups.insertGroup(groupOf(`grp_${depth}`, { parent: depth === 1 ? null : `grp_${depth - 1}` }))
      expect(
        await thrownBy(() => groups.insertGroup(groupOf('grp_x', { parent: `grp_${deepestGroup}` }))),
      ).toEqual(refused('parent'))
      await groups.insertGroup(groupOf('grp_root'))
      expect(await thrownBy(() => groups.changeGroup('grp_1', { parent: 'grp_root' }))).toEqual(
        refused('parent'),
      )
      await groups.changeGroup('grp_2', { parent: 'grp_root' })
    })

    test('loses a group when nothing stands in it any more, and with it its members', async () => {
      const { groups, accounts } = await open(() => noon)
      const { id } = await accounts.createAccount('anna@example.org')
      await groups.insertGroup(groupOf('grp_a'))
      await groups.insertGroup(groupOf('grp_b', { parent: 'grp_a' }))
      await groups.insertMember(memberOf('grp_b', id))
      expect(await thrownBy(() => groups.deleteGroup('grp_a', noon))).toMatchObject({
        code: 'invalid_request',
      })
      await groups.deleteGroup('grp_b', noon)
      await groups.deleteGroup('grp_a', noon)
      expect(await groups.findGroup('grp_b')).toBeUndefined()
      expect(await groups.groupName('grp_b')).toBe('b')
      expect(await groups.membershipsOf(id)).toEqual([])
      expect(await accounts.findStanding('grp_b', id)).toBeUndefined()
      expect(await thrownBy(() => groups.insertGroup(groupOf('grp_c', { parent: 'grp_a' })))).toEqual(
        refused('parent'),
      )
    })
  })

  test('who changes one thing of a group or a member undoes no change of another', async () => {
    const { groups, accounts } = await open(() => noon)
    const { id } = await accounts.createAccount('anna@example.org')
    await groups.insertGroup(groupOf('grp_lab', { budget: usd(100) }))
    await groups.insertMember(memberOf('grp_lab', id))
    // All of them have read both before: a directory that renames it, and operators.
    await Promise.all([
      groups.changeGroup('grp_lab', { budget: usd(5) }),
      groups.changeGroup('grp_lab', { name: 'Lab' }),
      groups.changeMember('grp_lab', id, { budget: usd(1) }),
      groups.changeMember('grp_lab', id, { role: 'admin' }),
    ])
    expect(await groups.findGroup('grp_lab')).toMatchObject({ name: 'Lab', budget: usd(5) })
    expect(await groups.findMember('grp_lab', id)).toMatchObject({ role: 'admin', budget: usd(1) })
  })

  test('a group that is gone is not changed, and nobody joins it', async () => {
    const { groups, accounts } = await open(() => noon)
    const { id } = await accounts.createAccount('anna@example.org')
    await groups.insertGroup(groupOf('grp_lab'))
    await groups.deleteGroup('grp_lab', noon)
    expect(await groups.changeGroup('grp_lab', { name: 'Lab' })).toBeUndefined()
    expect(await groups.insertMember(memberOf('grp_lab', id))).toBe(false)
    expect(await groups.changeMember('grp_lab', id, { role: 'admin' })).toBeUndefined()
    expect(await groups.membershipsOf(id)).toEqual([])
  })

  describe('how a member stands', () => {
    test('with every budget on the way up, its own in place of what each member has', async () => {
      const { groups, accounts } = await open(() => noon)
      const { id } = await accounts.createAccount('anna@example.org')
      await groups.insertGroup(groupOf('grp_firm', { budget: usd(9), memberBudget: usd(5) }))
      await groups.insertGroup(
        groupOf('grp_lab', { parent: 'grp_firm', window: 'none', memberBudget: usd(3) }),
      )
      expect(await accounts.findStanding('grp_lab', id)).toBeUndefined()
      await groups.insertMember(memberOf('grp_lab', id, { budget: usd(2) }))
      const budgets = budgetsOf((await accounts.findStanding('grp_lab', id))!, noon)
      expect(budgets.map(({ scope, limit }) => [scope, limit])).toEqual([
        [`grp_lab/${id}`, usd(2)],
        ['grp_lab', null],
        [`grp_firm/${id}`, usd(5)],
        ['grp_firm', usd(9)],
      ])
      // In the group above alone nobody stands who is a member of the one below.
      expect(await accounts.findStanding('grp_firm', id)).toBeUndefined()
      await groups.changeMember('grp_lab', id, { budget: null })
      expect(budgetsOf((await accounts.findStanding('grp_lab', id))!, noon)[0]?.limit).toBe(usd(3))
      await groups.removeMember('grp_lab', id)
      expect(await accounts.findStanding('grp_lab', id)).toBeUndefined()
    })

    test('the nearest group pays that was ever granted credit, whatever is left of that', async () => {
      const { groups, accounts, ledger } = await open(() => noon)
      const { id } = await accounts.createAccount('anna@example.org')
      await groups.insertGroup(groupOf('grp_firm'))
      await groups.insertGroup(groupOf('grp_lab', { parent: 'grp_firm' }))
      await groups.insertMember(memberOf('grp_lab', id))
      const payer = async () => (await accounts.findStanding('grp_lab', id))?.payer
      expect(await payer()).toBeNull()
      for (const group of ['grp_firm', 'grp_lab']) {
        await ledger.grant(grantOf(`of ${group}`, usd(1), { account: group, expiresAt: noon + minute }))
        await groups.onCredited(group)
        expect(await payer()).toBe(group)
      }
    })

    test('is nobody else’s, whatever the group is called by who asks', async () => {
      const { groups, accounts } = await open(() => noon)
      const { id: anna } = await accounts.createAccount('anna@example.org')
      const { id: berta } = await accounts.createAccount('berta@example.org')
      await groups.insertGroup(groupOf('grp_lab'))
      await groups.insertMember(memberOf('grp_lab', anna))
      for (const name of [`grp_lab ${anna}`, `${anna} grp_lab`, ' grp_lab', 'grp_lab '])
        expect(await accounts.findStanding(name, berta)).toBeUndefined()
      expect(await accounts.findStanding('grp_lab', anna)).toMatchObject({ group: 'grp_lab', person: anna })
    })

    test('as another process has changed it, within a second', async () => {
      const here = await open(() => noon)
      const { id } = await here.accounts.createAccount('anna@example.org')
      await here.groups.insertGroup(groupOf('grp_lab', { budget: usd(1) }))
      await here.groups.insertMember(memberOf('grp_lab', id))
      const limit = async (store: Pick<Store, 'accounts'>) =>
        (await store.accounts.findStanding('grp_lab', id))?.levels[0]?.budget
      const there = await here.beside()
      const heard = { times: 0 }
      there.whenAccountsChange(() => (heard.times += 1))
      expect(await limit(there)).toBe(usd(1))
      await here.groups.changeGroup('grp_lab', { budget: usd(2) })
      heard.times = 0
      const deadline = performance.now() + 1_000
      while (heard.times === 0 && performance.now() < deadline) {
        await Bun.sleep(5)
        there.refreshAccounts()
      }
      expect(heard.times).toBe(1)
      expect(await limit(there)).toBe(usd(2))
    })
  })

  test('a call is charged to the budgets it was held on, in their windows, once, though its person has left', async () => {
    let now = noon
    const { groups, accounts, ledger } = await open(() => now)
    const { id: person } = await accounts.createAccount('anna@example.org')
    await ledger.grant(grantOf('credit', usd(9), { account: person }))
    for (const group of ['grp_old', 'grp_new'])
      await groups.insertGroup(groupOf(group, { budget: usd(3), window: 'day' }))
    const stand = async (group: string) => {
      await groups.insertMember(memberOf(group, person))
      const standing = (await accounts.findStanding(group, person))!
      return { group, person, budgets: budgetsOf(standing, now) }
    }
    const inOld = await stand('grp_old')
    await ledger.hold(holdOf('c1', { account: person, inGroup: inOld, want: usd(2), least: usd(2) }))
    await groups.removeMember('grp_old', person)
    now += 13 * 60 * minute
    const inNew = await stand('grp_new')
    await ledger.hold(holdOf('c2', { account: person, inGroup: inNew, want: usd(1), least: usd(1) }))
    await ledger.settle(settleOf('c1', usd('1.5')))
    await ledger.settle(settleOf('c1', usd('1.5')))
    expect(
      await ledger.budgetSpend([...inOld.budgets, ...inNew.budgets].filter(({ limit }) => limit !== null)),
    ).toEqual([
      { spent: usd('1.5'), held: 0n },
      { spent: 0n, held: usd(1) },
    ])
    expect(
      await ledger.budgetSpend([{ scope: 'grp_old', windowStart: inNew.budgets[0]!.windowStart }]),
    ).toEqual([{ spent: 0n, held: 0n }])
    expect((await ledger.audit()).checks.filter(({ ok }) => !ok)).toEqual([])
  })

  test('a receipt is that of whoever pays and of whoever has made the call', async () => {
    const { ledger } = await open(() => noon)
    await ledger.grant(grantOf('credit', usd(9), { account: 'grp_lab' }))
    const inGroup = { group: 'grp_lab', person: 'anna', budgets: [] }
    await ledger.hold(holdOf('c1', { account: 'grp_lab', inGroup }))
    const owners = async () =>
      Promise.all(['anna', 'grp_lab', 'berta'].map(async (who) => (await ledger.call(who, 'c1'))?.inGroup))
    expect(await owners()).toEqual([inGroup, inGroup, undefined])
    await ledger.settle(settleOf('c1', usd(1)))
    expect(await owners()).toEqual([inGroup, inGroup, undefined])
  })
})

test('a deleted account is a member no more', async () => {
  using dir = tempDir('weir-groups-')
  const store = await openStore(dir.path, { clock: () => noon })
  try {
    const { groups, accounts, identities } = store
    const { id } = await accounts.createAccount('anna@example.org')
    await groups.insertGroup(groupOf('grp_lab'))
    await groups.insertMember(memberOf('grp_lab', id))
    await identities.deleteAccount(id, noon)
    expect(await accounts.findStanding('grp_lab', id)).toBeUndefined()
    expect((await groups.pageMembers({ group: 'grp_lab', limit: 9 })).members).toEqual([])
  } finally {
    await store.close()
  }
})
