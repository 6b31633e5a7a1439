// Converts tool argument schemas for Claude and older Geminis: an object at the root, without alternatives.

import type { FunctionTool, Json, JsonObject } from '../../conversation/request.ts'
import { GatewayError } from '../../errors.ts'
import { isObject } from '../json.ts'
import type { Warn } from '../lowering.ts'
import { targetOf } from './closed-schema.ts'

export interface RootObject {
  readonly schema: JsonObject
  /** Whether alternatives were merged: the model then does not see which members exclude each other. */
  readonly merged: boolean
}

/** The deepest nesting of alternatives, or of references to references. */
const maxDepth = 5
/** The limit of what is read for one schema, in characters and names: a reference repeats what it refers to. */
const mostWork = 4_000_000

interface Walk {
  readonly root: JsonObject
  work: number
  /** What a reference leads to, by the reference and the depth: read each time, nested references would multiply. */
  readonly read: Map<string, JsonObject>
}

/** Accepts any object if the client gave no object schema. Throws GatewayError `invalid_request` for one beyond reason. */
export function rootObjectOf(parameters: JsonObject | undefined): RootObject {
  if (parameters === undefined) return { schema: { type: 'object', properties: {} }, merged: false }
  const { anyOf, oneOf, allOf } = parameters
  const merged = [anyOf, oneOf, allOf].some(Array.isArray)
  const walk: Walk = { root: parameters, work: mostWork, read: new Map() }
  const schema = merged ? flattenSchema(parameters, walk, maxDepth) : parameters
  return { schema: { ...schema, type: 'object' }, merged }
}

function spend(walk: Walk, work: number): void {
  walk.work -= work
  if (walk.work >= 0) return
  const message = 'The schema of a tool has alternatives that repeat each other more often than can be read.'
  throw new GatewayError('invalid_request', { message, param: 'tools' })
}

/** The schema without alternatives: all of their members; required is what every alternative requires. */
function flattenSchema(schema: JsonObject, walk: Walk, depth: number): JsonObject {
  const { anyOf, oneOf, allOf, ...own } = schema
  const flat = (list: Json | undefined): JsonObject[] =>
    Array.isArray(list) ? distinct(list.filter(isObject)).map((each) => followRef(each, walk, depth)) : []
  const parts = flat(allOf)
  const choices = [...flat(anyOf), ...flat(oneOf)]
  const members = new Members(walk)
  for (const each of [...choices, ...parts, own]) if (isObject(each.properties)) members.lay(each.properties)
  const requiredOf = (each: JsonObject) => requiredBy(each, walk)
  const always = [own, ...parts].flatMap(requiredOf)
  const required = [...new Set([...always, ...sharedBy(choices.map(requiredOf))])]
  return {
    ...own,
    properties: members.properties,
    ...(required.length === 0 ? {} : { required }),
  }
}

/** Without the references that are there twice. */
function distinct(schemas: readonly JsonObject[]): readonly JsonObject[] {
  const pointers = new Set<Json>()
  return schemas.filter(({ $ref: pointer }) => {
    if (typeof pointer !== 'string') return true
    const isNew = !pointers.has(pointer)
    pointers.add(pointer)
    return isNew
  })
}

function followRef(schema: JsonObject, walk: Walk, depth: number): JsonObject {
  if (depth <= 0) return {}
  const { $ref: pointer } = schema
  if (typeof pointer !== 'string') return flattenSchema(schema, walk, depth - 1)
  const place = `${depth} ${pointer}`
  const known = walk.read.get(place)
  if (known !== undefined) return known
  spend(walk, pointer.length)
  const target = targetOf(walk.root, pointer)
  const found = isObject(target) ? behind(target, walk, depth - 1) : {}
  walk.read.set(place, found)
  return found
}

function behind(target: JsonObject, walk: Walk, depth: number): JsonObject {
  return typeof target['$ref'] === 'string'
    ? followRef(target, walk, depth)
    : flattenSchema(target, walk, depth)
}

/** The members of all alternatives by their names; a member of several may match any of them. */
class Members {
  readonly #walk: Walk
  readonly #members = new Map<string, { readonly texts: Set<string>; readonly schemas: Json[] }>()

  constructor(walk: Walk) {
    this.#walk = walk
  }

  lay(properties: JsonObject): void {
    for (const [name, schema] of Object.entries(properties)) {
      const text = JSON.stringify(schema)
      spend(this.#walk, name.length + text.length)
      const known = this.#members.get(name)
      if (known === undefined) this.#members.set(name, { texts: new Set([text]), schemas: [schema] })
      else if (!known.texts.has(text)) {
        known.texts.add(text)
        known.schemas.push(schema)
      }
    }
  }

  get properties(): JsonObject {
    // Own properties even for `__proto__`.
    return Object.fromEntries(Array.from(this.#members, ([name, { schemas }]) => [name, oneOfThem(schemas)]))
  }
}

function oneOfThem(schemas: readonly Json[]): Json {
  const [only, ...others] = schemas
  return others.length === 0
    ? only!
    : { anyOf: schemas.flatMap((schema) => alternativesIn(schema) ?? [schema]) }
}

function alternativesIn(schema: Json): readonly Json[] | undefined {
  if (!isObject(schema) || Object.keys(schema).length > 1) return undefined
  return Array.isArray(schema['anyOf']) ? schema['anyOf'] : undefined
}

function requiredBy({ required }: JsonObject, walk: Walk): string[] {
  const names = Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
  spend(walk, names.length)
  return names
}

function sharedBy(lists: readonly (readonly string[])[]): readonly string[] {
  const [first = [], ...others] = lists
  const sets = others.map((list) => new Set(list))
  return first.filter((name) => sets.every((names) => names.has(name)))
}

/** A tool's argument schema; warns of alternatives at the root that Claude cannot be shown. */
export function argumentsSchema({ name, parameters }: FunctionTool, warn: Warn): JsonObject {
  const { schema, merged } = rootObjectOf(parameters)
  if (merged) warn('tools', `The alternatives in the schema of ${name} are shown to the model as one object.`)
  return schema
}
