// Filters and PATCH of SCIM (RFC 7644, 3.4.2.2 and 3.5.2), as far as directories use them: what is equal, joined by `and`;
// operations on attributes, on what is inside them, and on elements of lists.

/** A refusal in SCIM's words. */
export class ScimFault extends Error {
  readonly status: number
  readonly scimType: string | undefined

  constructor(status: number, detail: string, scimType?: string) {
    super(detail)
    this.name = 'ScimFault'
    this.status = status
    this.scimType = scimType
  }
}

export type Resource = Record<string, unknown>

interface Condition {
  /** In small letters, without a schema before it: `username`, `emails.value`. */
  readonly attribute: string
  readonly value: unknown
}

const condition =
  /^\s*([\w.:$-]+(?:\[[^\]]*\])?(?:\.[\w$-]+)?)\s+eq\s+("(?:[^"\\]|\\.)*"|true|false|null|-?\d+)\s*/i

/** The conditions that must all hold. Throws ScimFault `invalidFilter` for anything but `eq` and `and`. */
export function readFilter(text: string): Condition[] {
  const found: Condition[] = []
  let rest = text.trim().replace(/^\((.*)\)$/, '$1')
  for (;;) {
    const [whole, attribute, value] = condition.exec(rest) ?? []
    if (whole === undefined)
      throw new ScimFault(400, 'A filter is made of `attribute eq value`, joined by `and`.', 'invalidFilter')
    // `emails[type eq "work"].value` asks for the address, of whatever type it is.
    const plain = attribute!.replace(/\[[^\]]*\]/, '')
    found.push({ attribute: nameIn(plain).toLowerCase(), value: jsonOf(value!) })
    rest = rest.slice(whole.length)
    if (rest === '') return found
    const and = /^and\s+/i.exec(rest)
    if (and === null)
      throw new ScimFault(400, 'The conditions of a filter are joined by `and`.', 'invalidFilter')
    rest = rest.slice(and[0].length)
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(/^(true|false|null)$/i.test(text) ? text.toLowerCase() : text)
  } catch {
    throw new ScimFault(
      400,
      'The value of a filter is a text in quotes, a number, true or false.',
      'invalidFilter',
    )
  }
}

/** The name of an attribute of the core schemas, without the schema. */
function nameIn(path: string): string {
  return path.replace(/^urn:ietf:params:scim:schemas:core:2\.0:(?:User|Group):/i, '')
}

// Operations.

export interface PatchOperation {
  readonly op: 'add' | 'replace' | 'remove'
  readonly path: string | undefined
  readonly value: unknown
}

const mostOperations = 1_000

/** The operations of a PatchOp. Their names may be written with a capital, as Entra does. */
export function readOperations(body: Resource): PatchOperation[] {
  const listed = valueOf(body, 'operations')
  if (!Array.isArray(listed) || listed.length === 0 || listed.length > mostOperations)
    throw new ScimFault(400, `Operations must be a list of 1 to ${mostOperations}.`, 'invalidSyntax')
  return listed.map((each: unknown): PatchOperation => {
    if (!isObject(each)) throw new ScimFault(400, 'An operation is an object.', 'invalidSyntax')
    const op = String(valueOf(each, 'op')).toLowerCase()
    if (op !== 'add' && op !== 'replace' && op !== 'remove')
      throw new ScimFault(400, 'op must be add, replace or remove.', 'invalidSyntax')
    const path = valueOf(each, 'path')
    if (path !== undefined && path !== null && typeof path !== 'string')
      throw new ScimFault(400, 'path must be a text.', 'invalidPath')
    return { op, path: path ?? undefined, value: valueOf(each, 'value') }
  })
}

export interface AttributePath {
  /** The schema of an extension; undefined for the core. */
  readonly schema: string | undefined
  readonly attribute: string
  /** Which elements of a list. */
  readonly filter: { readonly attribute: string; readonly value: unknown } | undefined
  readonly sub: string | undefined
}

const pathForm = /^(?:(urn:.+):)?([\w$-]+)(?:\[(.+)\])?(?:\.([\w$-]+))?$/

/** Of a path, characters: the longest of the schemas have about a hundred. */
const longestPath = 512

/** Throws ScimFault `invalidPath`. */
export function readPath(text: string): AttributePath {
  if (text.length > longestPath)
    throw new ScimFault(400, `A path has at most ${longestPath} characters.`, 'invalidPath')
  const path = nameIn(text.trim())
  // An extension as a whole.
  if (/^urn:.+:\d\.\d:\w+$/.test(path))
    return { schema: undefined, attribute: path, filter: undefined, sub: undefined }
  const [whole, schema, attribute, filter, sub] = pathForm.exec(path) ?? []
  if (whole === undefined) throw new ScimFault(400, `${text} is no path of an attribute.`, 'invalidPath')
  const [first] = filter === undefined ? [] : readFilter(filter)
  return { schema, attribute: attribute!, filter: first, sub }
}

/** Carries an operation out on a resource, which it changes. */
export function apply(resource: Resource, { op, path, value }: PatchOperation): void {
  if (path !== undefined) return applyAt(resource, readPath(path), op, value)
  if (op === 'remove') throw new ScimFault(400, 'remove needs a path.', 'noTarget')
  if (!isObject(value)) throw new ScimFault(400, 'Without a path the value is an object.', 'invalidValue')
  for (const [name, each] of Object.entries(value)) {
    // An extension as a whole; its name has dots.
    if (/^urn:/i.test(name) && isObject(each)) {
      for (const [inner, of] of Object.entries(each))
        applyAt(resource, { schema: name, attribute: inner, filter: undefined, sub: undefined }, op, of)
    } else applyAt(resource, readPath(name), op, each)
  }
}

function applyAt(
  resource: Resource,
  { schema, attribute, filter, sub }: AttributePath,
  op: PatchOperation['op'],
  value: unknown,
): void {
  for (const each of [schema, attribute, sub])
    if (each !== undefined && /^(__proto__|constructor|prototype)$/.test(each))
      throw new ScimFault(400, `There is no attribute ${each}.`, 'invalidPath')
  const within = schema === undefined ? resource : objectAt(resource, schema)
  const name = keyOf(within, attribute)
  if (filter !== undefined) return applyToElements(within, name, { filter, sub }, op, value)
  if (sub !== undefined) {
    if (op !== 'remove') objectAt(within, name)[sub] = value
    else if (isObject(within[name])) delete within[name][keyOf(within[name], sub)]
    return
  }
  const before = within[name]
  if (op === 'remove') {
    if (Array.isArray(before) && Array.isArray(value)) within[name] = without(before, value)
    else delete within[name]
  } else if (op === 'add' && Array.isArray(before))
    within[name] = [...before, ...missing(before, [value].flat())]
  else if (isObject(before) && isObject(value)) within[name] = { ...before, ...value }
  else within[name] = value
}

function applyToElements(
  within: Resource,
  name: string,
  { filter, sub }: Required<Pick<AttributePath, 'filter' | 'sub'>>,
  op: PatchOperation['op'],
  value: unknown,
): void {
  const list = Array.isArray(within[name]) ? (within[name] as unknown[]) : []
  const { attribute, value: wanted } = filter!
  const isMeant = (element: unknown) => isObject(element) && isSame(valueOf(element, attribute), wanted)
  if (op === 'remove') {
    within[name] = sub === undefined ? list.filter((element) => !isMeant(element)) : list
    if (sub !== undefined)
      for (const element of list)
        if (isMeant(element)) delete (element as Resource)[keyOf(element as Resource, sub)]
    return
  }
  const changes = sub === undefined ? value : { [sub]: value }
  if (!isObject(changes)) throw new ScimFault(400, 'An element of a list is an object.', 'invalidValue')
  const met = list.filter(isMeant) as Resource[]
  for (const element of met) Object.assign(element, changes)
  // Entra sets the work address of somebody who has none by its path.
  within[name] = met.length > 0 ? list : [...list, { [attribute]: wanted, ...changes }]
}

function missing(before: readonly unknown[], added: readonly unknown[]): unknown[] {
  return added.filter((each) => !before.some((one) => isSame(identityOf(one), identityOf(each))))
}

function without(before: readonly unknown[], taken: readonly unknown[]): unknown[] {
  return before.filter((one) => !taken.some((each) => isSame(identityOf(one), identityOf(each))))
}

/** What an element of a list is known by. */
export function identityOf(element: unknown): unknown {
  return isObject(element) ? (valueOf(element, 'value') ?? JSON.stringify(element)) : element
}

function isSame(one: unknown, other: unknown): boolean {
  if (typeof one === 'string' && typeof other === 'string') return one.toLowerCase() === other.toLowerCase()
  return one === other
}

export function isObject(value: unknown): value is Resource {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function objectAt(resource: Resource, name: string): Resource {
  const key = keyOf(resource, name)
  if (!isObject(resource[key])) resource[key] = {}
  return resource[key] as Resource
}

/** The name of an attribute as the resource has it: attributes are known in whatever case. */
function keyOf(resource: Resource, name: string): string {
  if (Object.hasOwn(resource, name)) return name
  const small = name.toLowerCase()
  return Object.keys(resource).find((key) => key.toLowerCase() === small) ?? name
}

/** The value of an attribute, whatever case its name is in; undefined for none. */
export function valueOf(resource: Resource, name: string): unknown {
  const key = keyOf(resource, name)
  return Object.hasOwn(resource, key) ? resource[key] : undefined
}
