// Converts tool argument schemas for Claude and older Geminis: an object at the root, without alternatives.

import type { FunctionTool, Json, JsonObject } from '../../conversation/request.ts'
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

/** Accepts any object if the client gave no object schema. */
export function rootObjectOf(parameters: JsonObject | undefined): RootObject {
  if (parameters === undefined) return { schema: { type: 'object', properties: {} }, merged: false }
  const { anyOf, oneOf, allOf } = parameters
  const merged = [anyOf, oneOf, allOf].some(Array.isArray)
  const schema = merged ? flattened(parameters, parameters, maxDepth) : parameters
  return { schema: { ...schema, type: 'object' }, merged }
}

/** The schema without alternatives: all of their members; required is what every alternative requires. */
function flattened(schema: JsonObject, root: JsonObject, depth: number): JsonObject {
  const { anyOf, oneOf, allOf, ...own } = schema
  const flat = (list: Json | undefined): JsonObject[] =>
    Array.isArray(list) ? list.filter(isObject).map((each) => followed(each, root, depth)) : []
  const parts = flat(allOf)
  const choices = [...flat(anyOf), ...flat(oneOf)]
  const properties: Record<string, Json> = {}
  for (const each of [...choices, ...parts, own]) {
    if (isObject(each['properties'])) lay(properties, each['properties'])
  }
  const always = [own, ...parts].flatMap(requiredBy)
  const required = [...new Set([...always, ...sharedBy(choices.map(requiredBy))])]
  return {
    ...own,
    properties,
    ...(required.length === 0 ? {} : { required }),
  }
}

function followed(schema: JsonObject, root: JsonObject, depth: number): JsonObject {
  if (depth <= 0) return {}
  const pointer = schema['$ref']
  const target = typeof pointer === 'string' ? targetOf(root, pointer) : schema
  if (!isObject(target)) return {}
  return typeof target['$ref'] === 'string'
    ? followed(target, root, depth - 1)
    : flattened(target, root, depth - 1)
}

/** Merges the members of an alternative; a member of several may match any of them. */
function lay(properties: Record<string, Json>, more: JsonObject): void {
  for (const [name, schema] of Object.entries(more)) {
    const known = Object.hasOwn(properties, name) ? properties[name]! : undefined
    const same = known === undefined || JSON.stringify(known) === JSON.stringify(schema)
    const value = same ? schema : { anyOf: [...(alternativesIn(known) ?? [known]), schema] }
    Object.defineProperty(properties, name, { value, enumerable: true, configurable: true, writable: true })
  }
}

function alternativesIn(schema: Json): readonly Json[] | undefined {
  if (!isObject(schema) || Object.keys(schema).length > 1) return undefined
  return Array.isArray(schema['anyOf']) ? schema['anyOf'] : undefined
}

function requiredBy({ required }: JsonObject): string[] {
  return Array.isArray(required) ? required.filter((name) => typeof name === 'string') : []
}

function sharedBy(lists: readonly (readonly string[])[]): readonly string[] {
  const [first = [], ...others] = lists
  return first.filter((name) => others.every((list) => list.includes(name)))
}

/** A tool's argument schema; warns of alternatives at the root that Claude cannot be shown. */
export function argumentsSchema({ name, parameters }: FunctionTool, warn: Warn): JsonObject {
  const { schema, merged } = rootObjectOf(parameters)
  if (merged) warn('tools', `The alternatives in the schema of ${name} are shown to the model as one object.`)
  return schema
}
