// Groups of Weir as those of SCIM: a directory makes them, and says who is in them. Budgets, credit and roles are Weir's.

import type { Account } from '../../accounts/account.ts'
import type { Group } from '../../accounts/group.ts'
import { GatewayError } from '../../errors/errors.ts'
import { addMember, changeGroup, createGroup, deleteGroup, removeMember } from '../admin/groups.ts'
import { iso } from '../console/route.ts'
import type { HttpParts } from '../parts.ts'
import {
  identityOf,
  isObject,
  type PatchOperation,
  readFilter,
  readPath,
  type Resource,
  ScimFault,
  valueOf,
} from './patch.ts'
import { groupSchema } from './schemas.ts'
import { accountOf, externalIdIn, type ScimActing, scimBase } from './users.ts'

/** Of a group that is written or shown at once. */
const mostMembers = 20_000

/** Throws ScimFault 404. */
export async function groupOf({ groups }: Pick<HttpParts, 'groups'>, id: string): Promise<Group> {
  const group = await groups.findGroup(id)
  if (group === undefined) throw new ScimFault(404, `There is no group ${id}.`)
  return group
}

function displayNameIn(resource: Resource): string {
  const name = valueOf(resource, 'displayName')
  const text = typeof name === 'string' ? name.trim() : ''
  if (text !== '' && text.length <= 100 && !/\p{Cc}/u.test(text)) return text
  throw new ScimFault(400, 'displayName must be a text of 1 to 100 characters.', 'invalidValue')
}

/** The ids of accounts in a list of members. */
function memberIds(value: unknown): string[] {
  const listed = [value ?? []].flat() as unknown[]
  if (listed.length > mostMembers)
    throw new ScimFault(400, `A group has at most ${mostMembers} members here.`, 'tooMany')
  return listed.map((each) => {
    const id = identityOf(each)
    if (typeof id === 'string' && id !== '') return id
    throw new ScimFault(400, 'A member is named by its id, as `value`.', 'invalidValue')
  })
}

interface WantedGroup {
  readonly name: string
  readonly externalId: string | null
  readonly members: readonly string[]
}

export async function createScimGroup(acting: ScimActing, resource: Resource): Promise<Group> {
  const name = displayNameIn(resource)
  const externalId = externalIdIn(resource)
  const members = memberIds(valueOf(resource, 'members'))
  const create = () => createWanted(acting, { name, externalId, members })
  if (externalId === null) return create()
  // A directory that has waited too long asks again, maybe another gateway: it makes one group.
  return acting.parts.provisioning.changeAlone(`group ${externalId}`, create)
}

async function createWanted(acting: ScimActing, { name, externalId, members }: WantedGroup): Promise<Group> {
  const { parts } = acting
  if (externalId !== null && (await parts.provisioning.byExternalId(externalId, 'group')))
    throw new ScimFault(409, 'A group with this externalId is there already.', 'uniqueness')
  // Before anything is made: a member that is not there makes no half of a group.
  await inSteps(members, (id) => requireAccount(parts, id))
  const { id } = await createGroup(acting, { name })
  await putRow(acting, id, externalId)
  const group = await groupOf(parts, id)
  await addAll(acting, group, members)
  return group
}

async function putRow({ parts }: ScimActing, id: string, externalId: string | null): Promise<void> {
  await parts.provisioning.put({
    id,
    kind: 'group',
    userName: null,
    externalId,
    attributes: {},
    changedAt: parts.now(),
  })
}

async function requireAccount(parts: HttpParts, id: string) {
  try {
    return await accountOf(parts, id)
  } catch (error) {
    if (!(error instanceof ScimFault)) throw error
    throw new ScimFault(
      400,
      `The member ${id} is no user: groups in groups are made in Weir.`,
      'invalidValue',
    )
  }
}

async function addAll(acting: ScimActing, group: Group, ids: readonly string[]): Promise<void> {
  const { parts } = acting
  const accounts: Account[] = []
  await inSteps(new Set(ids), async (id) => accounts.push(await requireAccount(parts, id)))
  await inSteps(accounts, async (account) => {
    if (await parts.groups.findMember(group.id, account.id)) return
    await parts.identities.vouchFor(account)
    await addMember(acting, group, account, {})
  })
}

async function removeAll(acting: ScimActing, group: Group, ids: Iterable<string>): Promise<void> {
  await inSteps(ids, async (id) => {
    if (await acting.parts.groups.findMember(group.id, id)) await removeMember(acting, group, id)
  })
}

/** Members that are looked at before calls go on: a few milliseconds. */
const membersPerStep = 20

async function inSteps<Item>(items: Iterable<Item>, act: (item: Item) => Promise<unknown>): Promise<void> {
  let done = 0
  for (const item of items) {
    await act(item)
    if (++done % membersPerStep === 0) await Bun.sleep(0)
  }
}

/** Who was a member and is not among these leaves; whoever stays keeps role and budget. */
async function setMembers(acting: ScimActing, group: Group, ids: readonly string[]): Promise<void> {
  const wanted = new Set(ids)
  // Those that come first: nobody leaves for a list with a fault.
  await addAll(acting, group, ids)
  const there = await membersOf(acting.parts, group)
  await removeAll(
    acting,
    group,
    there.filter((id) => !wanted.has(id)),
  )
}

async function membersOf({ groups }: Pick<HttpParts, 'groups'>, { id }: Group): Promise<string[]> {
  const found: string[] = []
  for (let after: string | undefined; found.length < mostMembers;) {
    const { members, next } = await groups.pageMembers({ group: id, limit: 1_000, after })
    found.push(...members.map(({ account }) => account))
    if (next === null) break
    after = next
    await Bun.sleep(0)
  }
  return found
}

export async function replaceScimGroup(acting: ScimActing, group: Group, resource: Resource): Promise<Group> {
  const name = displayNameIn(resource)
  const members = memberIds(valueOf(resource, 'members'))
  await setMembers(acting, group, members)
  if (name !== group.name) await changeGroup(acting, group, { name })
  await putRow(acting, group.id, externalIdIn(resource))
  return groupOf(acting.parts, group.id)
}

/** Members are added and removed one by one, however many there are. */
export async function patchGroup(
  acting: ScimActing,
  group: Group,
  operations: readonly PatchOperation[],
): Promise<Group> {
  let now = group
  for (const { op, path, value } of operations) {
    if (path === undefined) {
      if (op === 'remove') throw new ScimFault(400, 'remove needs a path.', 'noTarget')
      if (!isObject(value)) throw new ScimFault(400, 'Without a path the value is an object.', 'invalidValue')
      for (const [name, each] of Object.entries(value)) now = await patchOne(acting, now, op, name, each)
    } else now = await patchOne(acting, now, op, path, value)
  }
  return now
}

async function patchOne(
  acting: ScimActing,
  group: Group,
  op: PatchOperation['op'],
  path: string,
  value: unknown,
): Promise<Group> {
  const { attribute, filter } = readPath(path)
  switch (attribute.toLowerCase()) {
    case 'members':
      if (filter !== undefined) {
        if (op !== 'remove' || filter.attribute !== 'value')
          throw new ScimFault(
            400,
            'Members are named by `members[value eq "id"]` to remove them.',
            'invalidPath',
          )
        await removeAll(acting, group, [String(filter.value)])
      } else if (op === 'add') await addAll(acting, group, memberIds(value))
      else if (op === 'replace') await setMembers(acting, group, memberIds(value))
      else if (value === undefined || value === null) await setMembers(acting, group, [])
      else await removeAll(acting, group, memberIds(value))
      return group
    case 'displayname': {
      if (op === 'remove') throw new ScimFault(400, 'A group has a displayName.', 'mutability')
      const name = displayNameIn({ displayName: value })
      if (name !== group.name) await changeGroup(acting, group, { name })
      return groupOf(acting.parts, group.id)
    }
    case 'externalid':
      await putRow(acting, group.id, op === 'remove' ? null : externalIdIn({ externalId: value }))
      return group
    case 'id':
    case 'schemas':
    case 'meta':
      // Okta sends the id along.
      return group
    default:
      throw new ScimFault(400, `A group has no attribute ${attribute}.`, 'invalidPath')
  }
}

export async function deleteScimGroup(acting: ScimActing, { id }: Group): Promise<void> {
  try {
    await deleteGroup(acting, id)
  } catch (error) {
    if (error instanceof GatewayError && error.code === 'invalid_request')
      throw new ScimFault(409, error.message)
    throw error
  }
  await acting.parts.provisioning.remove(id)
}

export async function filterGroups(parts: HttpParts, filter: string): Promise<Group[]> {
  let found: Group[] | undefined
  for (const { attribute, value } of readFilter(filter)) {
    const text = String(value)
    if (attribute === 'members' || attribute === 'members.value') {
      const memberships = await parts.groups.membershipsOf(text)
      const ids = new Set(memberships.map(({ group }) => group))
      found = found?.filter(({ id }) => ids.has(id)) ?? (await byIds(parts, [...ids]))
      continue
    }
    const ids = await idsBy(parts, attribute, text)
    found = found?.filter(({ id }) => ids.includes(id)) ?? (await byIds(parts, ids))
  }
  return found ?? []
}

async function idsBy(parts: HttpParts, attribute: string, text: string): Promise<string[]> {
  if (attribute === 'id') return [text]
  if (attribute === 'externalid') {
    const id = await parts.provisioning.byExternalId(text, 'group')
    return id === undefined ? [] : [id]
  }
  if (attribute !== 'displayname')
    throw new ScimFault(400, 'Groups are found by displayName, externalId, id or members.', 'invalidFilter')
  const named: string[] = []
  for (let after: string | undefined; ;) {
    const { groups, next } = await parts.groups.pageGroups({ limit: 1_000, q: text.toLowerCase(), after })
    named.push(...groups.filter(({ name }) => name.toLowerCase() === text.toLowerCase()).map(({ id }) => id))
    if (next === null) return named
    after = next
  }
}

async function byIds(parts: HttpParts, ids: readonly string[]): Promise<Group[]> {
  const found = await Promise.all(ids.map((id) => parts.groups.findGroup(id)))
  return found.filter((group) => group !== undefined)
}

/** The group as a resource; without its members where they are not asked for. */
export async function groupResource(parts: HttpParts, group: Group, withMembers: boolean): Promise<Resource> {
  const row = await parts.provisioning.find(group.id)
  const base = scimBase(parts)
  const members = withMembers ? await membersOf(parts, group) : []
  return {
    schemas: [groupSchema],
    id: group.id,
    ...(row?.externalId == null ? {} : { externalId: row.externalId }),
    displayName: group.name,
    ...(withMembers && {
      members: members.map((id) => ({ value: id, $ref: `${base}/Users/${id}` })),
    }),
    meta: {
      resourceType: 'Group',
      created: iso(group.createdAt),
      lastModified: iso(row?.changedAt ?? group.createdAt),
      location: `${base}/Groups/${group.id}`,
    },
  }
}
