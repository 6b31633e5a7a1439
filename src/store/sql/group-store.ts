// Groups and their members. What calls ask of them is cached with the accounts (account-store.ts).

import {
  type Changed,
  deepestGroup,
  type Group,
  type GroupQuery,
  type GroupSettings,
  type GroupStanding,
  type GroupStore,
  type Level,
  type Member,
  type MemberQuery,
} from '../../accounts/group.ts'
import type { Awaitable } from '../../async/async.ts'
import { GatewayError } from '../../errors/errors.ts'
import type { Row } from '../schema.ts'
import { isSet, sql, type Tables, type Value, type Work } from './work.ts'

/** Rows that are looked at before calls go on: about 3 ms. */
const groupsPerStep = 1_000

export class SqlGroups implements GroupStore {
  readonly #tables: Tables
  readonly #onChanged: () => void

  /** `onChanged` is called when a standing may have changed. */
  constructor(tables: Tables, onChanged: () => void) {
    this.#tables = tables
    this.#onChanged = onChanged
  }

  async insertGroup(group: Group): Promise<void> {
    await this.#tables.together(function* () {
      yield* requirePlace(group, 1)
      yield* groups.insert.run(group.id, group.createdAt, ...valuesOf(group))
    })
  }

  changeGroup(id: string, changes: Partial<GroupSettings>): Promise<Changed<Group> | undefined> {
    return this.#write(() =>
      this.#tables.together(function* () {
        const row = yield* groups.byId.first(id)
        if (row?.deleted_at !== null) return undefined
        const before = groupOf(row)
        const after: Group = { ...before, ...changes }
        const tree = yield* groups.height.first(id)
        yield* requirePlace(after, Number(tree?.height ?? 1n))
        yield* groups.change.run(...valuesOf(after), id)
        return { before, after }
      }),
    )
  }

  deleteGroup(id: string, at: number): Promise<void> {
    return this.#write(() =>
      this.#tables.together(function* () {
        if (yield* groups.below.first(id))
          throw new GatewayError('invalid_request', {
            message: 'Other groups stand in this group: move or delete them first.',
          })
        yield* members.removeAll.run(id)
        yield* groups.delete.run(at, id)
      }),
    )
  }

  findGroup(id: string): Awaitable<Group | undefined> {
    return this.#tables.do(function* () {
      const row = yield* groups.byId.first(id)
      return row?.deleted_at === null ? groupOf(row) : undefined
    })
  }

  groupName(id: string): Awaitable<string | undefined> {
    return this.#tables.do(function* () {
      return (yield* groups.byId.first(id))?.name
    })
  }

  /** In short steps, so that a long list does not hold calls up. */
  async pageGroups({ limit, after, q, parent }: GroupQuery) {
    let from = await this.#placeOf(after)
    const found: Group[] = []
    for (;;) {
      const place: bigint = from
      const rows = await this.#tables.do(() => groups.after.all(place, groupsPerStep))
      for (const row of rows) {
        from = row.place
        const isNamed = q === undefined || row.name.toLowerCase().includes(q) || row.id.includes(q)
        const isThere = row.deleted_at === null && (parent === undefined || row.parent === parent)
        if (!isNamed || !isThere) continue
        if (found.length === limit) return { groups: found, next: found.at(-1)!.id }
        found.push(groupOf(row))
      }
      if (rows.length < groupsPerStep) return { groups: found, next: null }
      await Bun.sleep(0)
    }
  }

  async #placeOf(after: string | undefined): Promise<bigint> {
    if (after === undefined) return 0n
    const row = await this.#tables.do(() => groups.placeOf.first(after))
    if (row) return row.place
    const message = 'cursor takes the next_cursor of the page before.'
    throw new GatewayError('invalid_request', { message, param: 'cursor' })
  }

  hasCredit(id: string): Awaitable<boolean> {
    return this.#tables.do(function* () {
      return (yield* groups.lotOf.first(id)) !== undefined
    })
  }

  onCredited(id: string): Promise<void> {
    return this.#write(() =>
      this.#tables.do(function* () {
        yield* groups.touch.run(id)
      }),
    )
  }

  insertMember({ group, account, role, budget, joinedAt }: Member): Promise<boolean> {
    return this.#write(() =>
      this.#tables.do(function* () {
        return (yield* members.insert.run(account, role, budget, joinedAt, group)) === 1
      }),
    )
  }

  changeMember(
    group: string,
    account: string,
    changes: Partial<Pick<Member, 'role' | 'budget'>>,
  ): Promise<Changed<Member> | undefined> {
    return this.#write(() =>
      this.#tables.together(function* () {
        const row = yield* members.find.first(group, account)
        if (row === undefined) return undefined
        const before = memberOf(row)
        const after: Member = { ...before, ...changes }
        yield* members.change.run(after.role, after.budget, group, account)
        return { before, after }
      }),
    )
  }

  removeMember(group: string, account: string): Promise<boolean> {
    return this.#write(() =>
      this.#tables.do(function* () {
        return (yield* members.remove.run(group, account)) === 1
      }),
    )
  }

  findMember(group: string, account: string): Awaitable<Member | undefined> {
    return this.#tables.do(function* () {
      const row = yield* members.find.first(group, account)
      return row && memberOf(row)
    })
  }

  pageMembers({ group, limit, after = '' }: MemberQuery) {
    return this.#tables.do(function* () {
      const rows = yield* members.page.all(group, after, limit + 1)
      const found = rows.slice(0, limit).map(memberOf)
      return { members: found, next: rows.length > limit ? found.at(-1)!.account : null }
    })
  }

  membershipsOf(account: string) {
    return this.#tables.do(function* () {
      const rows = yield* members.ofAccount.all(account)
      return rows.map((row) => ({ ...memberOf(row), name: row.name }))
    })
  }

  /** A write that has failed may have been carried out all the same, where its connection was lost. */
  async #write<T>(write: () => Awaitable<T>): Promise<T> {
    try {
      return await write()
    } finally {
      this.#onChanged()
    }
  }
}

/** `height`: of the tree that stands below the parent then. Within a transaction. */
function* requirePlace({ id, parent }: Group, height: number): Work<void> {
  if (parent === null) return
  const above = (yield* groups.above.all(parent)).map((row) => row.id)
  if (above.length === 0) throw invalidParent('There is no such group.')
  if (above.includes(id))
    throw invalidParent('A group cannot stand in itself, or in a group that stands in it.')
  if (above.length + height > deepestGroup)
    throw invalidParent(`Groups stand in one another at most ${deepestGroup} deep.`)
}

/** One read: the way up from the group, what bounds the person at each of its levels, and which of them pays. */
export function* standingIn(group: string, person: string): Work<GroupStanding | undefined> {
  const rows = yield* groups.standing.all(group, person)
  const [own] = rows
  if (own === undefined || own.role === null || rows.some((row) => row.deleted_at !== null)) return undefined
  const levels = rows.map((row): Level => {
    const { id, name, budget, window, timezone, allowedModels, tags, memberBudget } = groupOf(row)
    const personBudget = row.own_budget ?? memberBudget
    return { id, name, budget, window, timezone, allowedModels, tags, personBudget }
  })
  const payer = rows.find((row) => isSet(row.pays))?.id ?? null
  return { group, person, payer, levels }
}

function invalidParent(message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param: 'parent' })
}

function valuesOf(group: Group): readonly Value[] {
  return [
    group.name,
    group.parent,
    group.budget,
    group.window,
    group.timezone,
    group.memberBudget,
    group.allowedModels === null ? null : JSON.stringify(group.allowedModels),
    group.tags === null ? null : JSON.stringify(group.tags),
    JSON.stringify(group.warnAt),
  ]
}

function groupOf(row: Row<'accountGroup'>): Group {
  return {
    id: row.id,
    name: row.name,
    parent: row.parent,
    budget: row.budget,
    window: row.window,
    timezone: row.timezone,
    memberBudget: row.member_budget,
    allowedModels: row.allowed_models === null ? null : (JSON.parse(row.allowed_models) as string[]),
    tags: row.tags === null ? null : (JSON.parse(row.tags) as Record<string, string>),
    warnAt: JSON.parse(row.warn_at) as number[],
    createdAt: Number(row.created_at),
  }
}

function memberOf(row: Row<'groupMember'>): Member {
  const { group_id: group, account, role, budget, joined_at } = row
  return { group, account, role, budget, joinedAt: Number(joined_at) }
}

type StandingRow = Row<'accountGroup'> & {
  readonly role: string | null
  readonly own_budget: bigint | null
  readonly pays: bigint
}

/** The group of the first parameter, and each that the one before stands in, numbered from it. */
const upwards = `WITH RECURSIVE way (id, up) AS (
  SELECT id, 0 FROM account_group WHERE id = ?1
  UNION ALL SELECT parent, up + 1 FROM way JOIN account_group USING (id)
  WHERE parent IS NOT NULL AND up < ${deepestGroup})`

const columns = 'name, parent, budget, "window", timezone, member_budget, allowed_models, tags, warn_at'

const groups = {
  insert: sql(`INSERT INTO account_group (id, created_at, ${columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?)`),
  change: sql(`UPDATE account_group SET (${columns}) = (?,?,?,?,?,?,?,?,?) WHERE id = ?`),
  delete: sql('UPDATE account_group SET deleted_at = ? WHERE id = ?'),
  // Other processes hear of changed groups, and not of what was granted.
  touch: sql('UPDATE account_group SET name = name WHERE id = ?'),
  above: sql<{ readonly id: string }>(
    `${upwards} SELECT id FROM way JOIN account_group USING (id) WHERE deleted_at IS NULL ORDER BY up`,
  ),
  height: sql<{ readonly height: bigint | null }>(
    `WITH RECURSIVE tree (id, height) AS (
       SELECT id, 1 FROM account_group WHERE id = ?1
       UNION ALL SELECT account_group.id, height + 1 FROM tree JOIN account_group ON account_group.parent = tree.id
       WHERE account_group.deleted_at IS NULL AND height <= ${deepestGroup})
     SELECT CAST(max(height) AS bigint) AS height FROM tree`,
  ),
  below: sql<{ readonly id: string }>(
    'SELECT id FROM account_group WHERE parent = ? AND deleted_at IS NULL LIMIT 1',
  ),
  byId: sql<Row<'accountGroup'>>('SELECT * FROM account_group WHERE id = ?'),
  placeOf: sql<{ readonly place: bigint }>('SELECT rowid AS place FROM account_group WHERE id = ?'),
  after: sql<Row<'accountGroup'> & { readonly place: bigint }>(
    'SELECT rowid AS place, * FROM account_group WHERE rowid > ? ORDER BY rowid LIMIT ?',
  ),
  lotOf: sql<{ readonly id: string }>('SELECT id FROM lot WHERE account = ? LIMIT 1'),
  standing: sql<StandingRow>(
    `${upwards} SELECT account_group.*, role, group_member.budget AS own_budget,
       CAST(CASE WHEN EXISTS (SELECT 1 FROM lot WHERE lot.account = way.id) THEN 1 ELSE 0 END AS bigint) AS pays
     FROM way JOIN account_group USING (id)
     LEFT JOIN group_member ON group_member.group_id = way.id AND group_member.account = ?2
     ORDER BY up`,
  ),
}

const members = {
  insert: sql(
    `INSERT INTO group_member (group_id, account, role, budget, joined_at)
     SELECT id, CAST(? AS text), CAST(? AS text), CAST(? AS bigint), CAST(? AS bigint) FROM account_group
     WHERE id = ? AND deleted_at IS NULL
     ON CONFLICT (group_id, account) DO NOTHING`,
  ),
  change: sql('UPDATE group_member SET role = ?, budget = ? WHERE group_id = ? AND account = ?'),
  remove: sql('DELETE FROM group_member WHERE group_id = ? AND account = ?'),
  removeAll: sql('DELETE FROM group_member WHERE group_id = ?'),
  find: sql<Row<'groupMember'>>('SELECT * FROM group_member WHERE group_id = ? AND account = ?'),
  page: sql<Row<'groupMember'>>(
    'SELECT * FROM group_member WHERE group_id = ? AND account > ? ORDER BY account LIMIT ?',
  ),
  ofAccount: sql<Row<'groupMember'> & { readonly name: string }>(
    `SELECT group_member.*, name FROM group_member JOIN account_group ON account_group.id = group_id
     WHERE account = ? ORDER BY name, group_id`,
  ),
}
