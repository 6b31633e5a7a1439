// Groups and their members on SQLite. What calls ask of them is cached with the accounts (account-store.ts).

import type { Database, Statement } from 'bun:sqlite'
import {
  deepestGroup,
  type Group,
  type GroupQuery,
  type GroupStore,
  type Level,
  type Member,
  type MemberQuery,
  type GroupStanding,
} from '../../../accounts/group.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { inTransaction, orUnavailable, whenNeeded } from '../database/sqlite.ts'
import type { Row } from '../../schema.ts'

/** Rows that are looked at before calls go on: about 3 ms. */
const groupsPerStep = 1_000

export class SqliteGroups implements GroupStore {
  readonly #database: Database
  readonly #sql: () => ReturnType<typeof statements>
  readonly #onChanged: () => void

  /** `onChanged` is called when a standing may have changed. */
  constructor(database: Database, onChanged: () => void) {
    this.#database = database
    this.#sql = whenNeeded(() => statements(database))
    this.#onChanged = onChanged
  }

  insertGroup(group: Group): void {
    inTransaction(this.#database, () => {
      this.#requirePlace(group, 1)
      this.#sql().insertGroup.run(group.id, group.createdAt, ...valuesOf(group))
    })
  }

  changeGroup(group: Group): void {
    inTransaction(this.#database, () => {
      const { height } = this.#sql().height.get(group.id)!
      this.#requirePlace(group, Number(height))
      this.#sql().changeGroup.run(...valuesOf(group), group.id)
    })
    this.#onChanged()
  }

  /** `height`: of the tree that stands below the parent then. Within a transaction. */
  #requirePlace({ id, parent }: Group, height: number): void {
    if (parent === null) return
    const above = this.#sql()
      .above.all(parent)
      .map((row) => row.id)
    if (above.length === 0) throw invalidParent('There is no such group.')
    if (above.includes(id))
      throw invalidParent('A group cannot stand in itself, or in a group that stands in it.')
    if (above.length + height > deepestGroup)
      throw invalidParent(`Groups stand in one another at most ${deepestGroup} deep.`)
  }

  deleteGroup(id: string, at: number): void {
    inTransaction(this.#database, () => {
      if (this.#sql().below.get(id))
        throw new GatewayError('invalid_request', {
          message: 'Other groups stand in this group: move or delete them first.',
        })
      this.#sql().dropMembers.run(id)
      this.#sql().deleteGroup.run(at, id)
    })
    this.#onChanged()
  }

  findGroup(id: string): Group | undefined {
    const row = orUnavailable(() => this.#sql().group.get(id))
    return row?.deleted_at === null ? groupOf(row) : undefined
  }

  groupName(id: string): string | undefined {
    return orUnavailable(() => this.#sql().group.get(id))?.name
  }

  /** In short steps, so that a long list does not hold calls up. */
  async pageGroups({ limit, after, q, parent }: GroupQuery) {
    let from = this.#placeOf(after)
    const groups: Group[] = []
    for (;;) {
      const rows = orUnavailable(() => this.#sql().groupsFrom.all(from, groupsPerStep))
      for (const row of rows) {
        from = row.place
        const isNamed = q === undefined || row.name.toLowerCase().includes(q) || row.id.includes(q)
        const isThere = row.deleted_at === null && (parent === undefined || row.parent === parent)
        if (!isNamed || !isThere) continue
        if (groups.length === limit) return { groups, next: groups.at(-1)!.id }
        groups.push(groupOf(row))
      }
      if (rows.length < groupsPerStep) return { groups, next: null }
      await Bun.sleep(0)
    }
  }

  #placeOf(after: string | undefined): bigint {
    if (after === undefined) return 0n
    const row = orUnavailable(() => this.#sql().placeOf.get(after))
    if (row) return row.place
    const message = 'cursor takes the next_cursor of the page before.'
    throw new GatewayError('invalid_request', { message, param: 'cursor' })
  }

  hasCredit(id: string): boolean {
    return orUnavailable(() => this.#sql().credited.get(id)) !== null
  }

  onCredited(): void {
    this.#onChanged()
  }

  insertMember({ group, account, role, budget, joinedAt }: Member): boolean {
    const { changes } = orUnavailable(() =>
      this.#sql().insertMember.run(group, account, role, budget, joinedAt),
    )
    this.#onChanged()
    return Number(changes) === 1
  }

  changeMember({ group, account, role, budget }: Member): void {
    orUnavailable(() => this.#sql().changeMember.run(role, budget, group, account))
    this.#onChanged()
  }

  removeMember(group: string, account: string): boolean {
    const { changes } = orUnavailable(() => this.#sql().removeMember.run(group, account))
    this.#onChanged()
    return Number(changes) === 1
  }

  findMember(group: string, account: string): Member | undefined {
    const row = orUnavailable(() => this.#sql().member.get(group, account))
    return row ? memberOf(row) : undefined
  }

  pageMembers({ group, limit, after = '' }: MemberQuery) {
    const rows = orUnavailable(() => this.#sql().members.all(group, after, limit + 1))
    const members = rows.slice(0, limit).map(memberOf)
    return { members, next: rows.length > limit ? members.at(-1)!.account : null }
  }

  membershipsOf(account: string) {
    const rows = orUnavailable(() => this.#sql().memberships.all(account))
    return rows.map((row) => ({ ...memberOf(row), name: row.name }))
  }

  /** One read: the way up from the group, what bounds the person at each of its levels, and which of them pays. */
  readStanding(group: string, person: string): GroupStanding | undefined {
    const rows = this.#sql().standing.all(group, person)
    const [own] = rows
    if (own === undefined || own.role === null || rows.some((row) => row.deleted_at !== null))
      return undefined
    const levels = rows.map((row): Level => {
      const { id, name, budget, window, timezone, allowedModels, tags, memberBudget } = groupOf(row)
      const personBudget = row.own_budget ?? memberBudget
      return { id, name, budget, window, timezone, allowedModels, tags, personBudget }
    })
    const payer = rows.find((row) => row.pays === 1n)?.id ?? null
    return { group, person, payer, levels }
  }
}

function invalidParent(message: string): GatewayError {
  return new GatewayError('invalid_request', { message, param: 'parent' })
}

function valuesOf(group: Group) {
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
  SELECT ?1, 0 UNION ALL SELECT parent, up + 1 FROM way JOIN account_group USING (id)
  WHERE parent IS NOT NULL AND up < ${deepestGroup})`

function statements(database: Database) {
  const columns = 'name, parent, budget, window, timezone, member_budget, allowed_models, tags, warn_at'
  return {
    insertGroup: database.prepare(
      `INSERT INTO account_group (id, created_at, ${columns}) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
    ) as Statement,
    changeGroup: database.prepare(
      `UPDATE account_group SET (${columns}) = (?,?,?,?,?,?,?,?,?) WHERE id = ?`,
    ) as Statement,
    deleteGroup: database.prepare('UPDATE account_group SET deleted_at = ? WHERE id = ?') as Statement,
    above: database.prepare<{ id: string }, [string]>(
      `${upwards} SELECT id FROM way JOIN account_group USING (id) WHERE deleted_at IS NULL ORDER BY up`,
    ),
    height: database.prepare<{ height: bigint }, [string]>(
      `WITH RECURSIVE tree (id, height) AS (
         SELECT ?1, 1 UNION ALL SELECT account_group.id, height + 1 FROM tree
         JOIN account_group ON account_group.parent = tree.id
         WHERE account_group.deleted_at IS NULL AND height <= ${deepestGroup})
       SELECT max(height) AS height FROM tree`,
    ),
    below: database.prepare<{ id: string }, [string]>(
      'SELECT id FROM account_group WHERE parent = ? AND deleted_at IS NULL LIMIT 1',
    ),
    group: database.prepare<Row<'accountGroup'>, [string]>('SELECT * FROM account_group WHERE id = ?'),
    placeOf: database.prepare<{ place: bigint }, [string]>(
      'SELECT rowid AS place FROM account_group WHERE id = ?',
    ),
    groupsFrom: database.prepare<Row<'accountGroup'> & { readonly place: bigint }, [bigint, number]>(
      'SELECT rowid AS place, * FROM account_group WHERE rowid > ? ORDER BY rowid LIMIT ?',
    ),
    credited: database.prepare<{ one: bigint }, [string]>(
      'SELECT 1 AS one FROM lot WHERE account = ? LIMIT 1',
    ),
    insertMember: database.prepare(
      `INSERT INTO group_member (group_id, account, role, budget, joined_at) VALUES (?,?,?,?,?)
       ON CONFLICT DO NOTHING`,
    ) as Statement,
    changeMember: database.prepare(
      'UPDATE group_member SET role = ?, budget = ? WHERE group_id = ? AND account = ?',
    ) as Statement,
    removeMember: database.prepare(
      'DELETE FROM group_member WHERE group_id = ? AND account = ?',
    ) as Statement,
    dropMembers: database.prepare('DELETE FROM group_member WHERE group_id = ?') as Statement,
    member: database.prepare<Row<'groupMember'>, [string, string]>(
      'SELECT * FROM group_member WHERE group_id = ? AND account = ?',
    ),
    members: database.prepare<Row<'groupMember'>, [string, string, number]>(
      'SELECT * FROM group_member WHERE group_id = ? AND account > ? ORDER BY account LIMIT ?',
    ),
    memberships: database.prepare<Row<'groupMember'> & { readonly name: string }, [string]>(
      `SELECT group_member.*, name FROM group_member JOIN account_group ON account_group.id = group_id
       WHERE account = ? ORDER BY name, group_id`,
    ),
    standing: database.prepare<StandingRow, [string, string]>(
      `${upwards} SELECT account_group.*, role, group_member.budget AS own_budget,
         EXISTS (SELECT 1 FROM lot WHERE lot.account = way.id) AS pays
       FROM way JOIN account_group USING (id)
       LEFT JOIN group_member ON group_member.group_id = way.id AND group_member.account = ?2
       ORDER BY up`,
    ),
  }
}
