// Converts JSON Schema to the OpenAPI subset of older Gemini models, which refuse a request for a single unknown
// keyword. Unsupported keywords are dropped with a warning.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { numberOf } from '../../json/json.ts'
import { isObject } from '../lenient.ts'

export interface Subset {
  readonly schema: JsonObject
  /** Keywords whose meaning was lost, each once. */
  readonly dropped: readonly string[]
}

/** Limit of schemas per conversion: references can double at every level. */
const maxSchemas = 4000
/** Limit for all conversions of a request. */
const maxSchemasInAll = 40_000

/** What is left for the conversions of a request. */
export interface SubsetBudget {
  schemas: number
}

export function subsetBudget(): SubsetBudget {
  return { schemas: maxSchemasInAll }
}
/** How often a reference may be nested in itself before it becomes a plain object. */
const maxRecursion = 2

/** Kept unchanged; every other keyword is translated below, or dropped with or without a warning. */
const kept = [
  'title',
  'description',
  'default',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'minProperties',
  'maxProperties',
  'pattern',
  'minimum',
  'maximum',
  'propertyOrdering',
] as const

const translated: readonly string[] = [
  ...kept,
  'type',
  'nullable',
  'format',
  'enum',
  'const',
  'properties',
  'required',
  'items',
  'prefixItems',
  'anyOf',
  'oneOf',
  'allOf',
  'exclusiveMinimum',
  'exclusiveMaximum',
  '$ref',
]

/** Without effect on validity, or (`additionalProperties`) implied by how the subset is used. */
const silent: readonly string[] = [
  '$schema',
  '$id',
  '$anchor',
  '$comment',
  '$defs',
  'definitions',
  'additionalProperties',
  'examples',
  'example',
  'readOnly',
  'writeOnly',
  'deprecated',
]

const formats: readonly string[] = ['enum', 'date-time', 'float', 'double', 'int32', 'int64']

interface Walk {
  readonly root: JsonObject
  readonly dropped: Set<string>
  left: number
}

/** The schema in the subset. Never throws: references that cannot be resolved become plain objects, with a warning. */
export function toSubset(schema: JsonObject, budget: SubsetBudget = subsetBudget()): Subset {
  const most = Math.min(maxSchemas, budget.schemas)
  const walk: Walk = { root: schema, dropped: new Set(), left: most }
  const converted = convert(schema, walk, [])
  budget.schemas -= most - Math.max(0, walk.left)
  return { schema: converted, dropped: [...walk.dropped].toSorted() }
}

function convert(value: Json | undefined, walk: Walk, refs: readonly string[]): JsonObject {
  if (!isObject(value)) return { type: 'string' }
  if (walk.left <= 0) return drop(walk, 'nesting')
  walk.left -= weightOf(value)
  const pointer = value['$ref']
  if (typeof pointer === 'string') return convertRef(value, pointer, walk, refs)
  const schema = mergeAllOf(value, walk, refs)
  for (const keyword of Object.keys(schema)) {
    if (!translated.includes(keyword) && !silent.includes(keyword)) walk.dropped.add(keyword)
  }
  const result: JsonObject = {}
  for (const keyword of kept) if (schema[keyword] !== undefined) result[keyword] = schema[keyword]
  Object.assign(result, typeOf(schema, walk, refs), boundsOf(schema))
  if (typeof schema['format'] === 'string' && formats.includes(schema['format']))
    result['format'] = schema['format']
  else if (schema['format'] !== undefined) walk.dropped.add('format')
  Object.assign(result, valuesOf(schema, result, walk))
  if (result['type'] === 'object') Object.assign(result, membersOf(schema, walk, refs))
  if (result['type'] === 'array') result['items'] = itemsOf(schema, walk, refs)
  return result
}

function convertRef(schema: JsonObject, pointer: string, walk: Walk, refs: readonly string[]): JsonObject {
  if (refs.filter((ref) => ref === pointer).length >= maxRecursion) return drop(walk, '$ref')
  const target = resolve(walk.root, pointer)
  if (target === undefined) return drop(walk, '$ref')
  // Keywords beside a reference add to it: usually a description of this use.
  const { $ref: _, ...beside } = schema
  return convert({ ...target, ...beside }, walk, [...refs, pointer])
}

function resolve(root: JsonObject, pointer: string): JsonObject | undefined {
  if (pointer === '#') return root
  if (!pointer.startsWith('#/')) return undefined
  let at: Json | undefined = root
  for (const step of pointer.slice(2).split('/')) {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(at)) at = at[Number(key)]
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined
  }
  return isObject(at) ? at : undefined
}

/** As how many schemas one counts: one, or more if it has many members or long texts, which references repeat. */
function weightOf(schema: JsonObject): number {
  let members = 0
  let characters = 0
  for (const keyword in schema) {
    const value = schema[keyword]!
    members += 1
    if (typeof value === 'string') characters += value.length
    else if (Array.isArray(value)) members += value.length
    else if (isObject(value)) members += Object.keys(value).length
  }
  return 1 + Math.floor(members / 50) + Math.floor(characters / 1000)
}

/** The subset has no `allOf`: its members are merged. */
function mergeAllOf(schema: JsonObject, walk: Walk, refs: readonly string[]): JsonObject {
  const members = schema['allOf']
  if (!Array.isArray(members)) return schema
  const { allOf: _, ...own } = schema
  const merged = new Merged()
  for (const member of [...members, own]) {
    if (!isObject(member)) continue
    if (walk.left <= 0) {
      walk.dropped.add('nesting')
      break
    }
    const pointer = member['$ref']
    const recursive = typeof pointer === 'string' && refs.includes(pointer)
    const target = typeof pointer === 'string' && !recursive ? resolve(walk.root, pointer) : member
    if (target === undefined || recursive) {
      walk.left -= 1
      walk.dropped.add('$ref')
      continue
    }
    walk.left -= weightOf(target)
    merged.lay(target)
  }
  const whole = merged.schema
  // A member may itself be merged; the limit of schemas bounds the depth.
  return Array.isArray(whole['allOf']) && walk.left > 0 ? mergeAllOf(whole, walk, refs) : whole
}

/** Schemas laid over one another: a later keyword replaces an earlier one, but members and what is required add up. */
class Merged {
  readonly #keywords = new Map<string, Json>()
  readonly #properties = new Map<string, Json>()
  readonly #required = new Set<Json>()

  lay(schema: JsonObject): void {
    for (const [keyword, value] of Object.entries(schema)) {
      this.#keywords.set(keyword, value)
      if (keyword === 'properties' && isObject(value))
        for (const [name, member] of Object.entries(value)) this.#properties.set(name, member)
      else if (keyword === 'required' && Array.isArray(value))
        for (const name of value) this.#required.add(name)
    }
  }

  get schema(): JsonObject {
    const { properties, required, ...others } = Object.fromEntries(this.#keywords) as JsonObject
    return {
      ...others,
      ...(properties === undefined
        ? {}
        : { properties: isObject(properties) ? Object.fromEntries(this.#properties) : properties }),
      ...(required === undefined
        ? {}
        : { required: Array.isArray(required) ? [...this.#required] : required }),
    }
  }
}

function typeOf(schema: JsonObject, walk: Walk, refs: readonly string[]): JsonObject {
  const named = schema['type']
  const types = (Array.isArray(named) ? named : [named])
    .filter((type) => typeof type === 'string')
    .map((type) => type.toLowerCase())
  const alternatives = ['anyOf', 'oneOf'].flatMap((key) => {
    const list = schema[key]
    return Array.isArray(list) ? list : []
  })
  const isNull = (each: Json) => isObject(each) && each['type'] === 'null'
  const nullable: JsonObject =
    types.includes('null') || schema['nullable'] === true || alternatives.some(isNull)
      ? { nullable: true }
      : {}
  const real = types.filter((type) => type !== 'null')
  if (real.length > 1) {
    const { anyOf: _, oneOf: __, description: ___, title: ____, ...rest } = schema
    return { anyOf: real.map((type) => convert({ ...rest, type }, walk, refs)), ...nullable }
  }
  const choices = alternatives.filter((each) => !isNull(each))
  if (choices.length > 0 && (real.length > 0 || schema['properties'] !== undefined)) {
    // The alternatives only narrow a type beside them, and the subset supports one or the other.
    walk.dropped.add('anyOf')
    return { type: real[0] ?? 'object', ...nullable }
  }
  if (choices.length === 1) return { ...convert(choices[0], walk, refs), ...nullable }
  if (choices.length > 1) return { anyOf: choices.map((each) => convert(each, walk, refs)), ...nullable }
  return { type: real[0] ?? impliedType(schema), ...nullable }
}

function impliedType(schema: JsonObject): string {
  if (schema['properties'] !== undefined) return 'object'
  if (schema['items'] !== undefined || schema['prefixItems'] !== undefined) return 'array'
  const values = Array.isArray(schema['enum']) ? schema['enum'] : [schema['const']]
  if (values.some((value) => numberOf(value) !== undefined)) return 'number'
  if (values.some((value) => typeof value === 'boolean')) return 'boolean'
  return 'string'
}

/** Exclusive limits as inclusive ones: exact for integers, approximate for other numbers. */
function boundsOf(schema: JsonObject): JsonObject {
  const step = schema['type'] === 'integer' ? 1 : 0
  const above = numberOf(schema['exclusiveMinimum'])
  const below = numberOf(schema['exclusiveMaximum'])
  const result: JsonObject = {}
  if (above !== undefined) {
    result['minimum'] = Math.max(above + step, numberOf(schema['minimum']) ?? Number.NEGATIVE_INFINITY)
  }
  if (below !== undefined) {
    result['maximum'] = Math.min(below - step, numberOf(schema['maximum']) ?? Number.POSITIVE_INFINITY)
  }
  return result
}

/** Enumerations are for strings only; a constant is an enumeration of one. */
function valuesOf(schema: JsonObject, result: JsonObject, walk: Walk): JsonObject {
  const values = schema['const'] !== undefined ? [schema['const']] : schema['enum']
  if (!Array.isArray(values)) return {}
  const strings = values.filter((value) => typeof value === 'string' && value !== '')
  if (result['type'] === 'string' && strings.length > 0) {
    return { enum: strings, ...(values.includes(null) ? { nullable: true } : {}) }
  }
  walk.dropped.add(schema['const'] !== undefined ? 'const' : 'enum')
  return {}
}

function membersOf(schema: JsonObject, walk: Walk, refs: readonly string[]): JsonObject {
  const members = schema['properties']
  if (!isObject(members)) return {}
  const properties = Object.fromEntries(
    Object.entries(members).map(([name, member]) => [name, convert(member, walk, refs)]),
  )
  const required = schema['required']
  const known = Array.isArray(required)
    ? required.filter((name) => typeof name === 'string' && Object.hasOwn(properties, name))
    : []
  // A required name without a property fails the request.
  return { properties, ...(known.length === 0 ? {} : { required: known }) }
}

function itemsOf(schema: JsonObject, walk: Walk, refs: readonly string[]): JsonObject {
  const places = schema['prefixItems']
  if (!Array.isArray(places) || places.length === 0) return convert(schema['items'], walk, refs)
  // A tuple becomes a list whose items may match any position.
  walk.dropped.add('prefixItems')
  return places.length === 1
    ? convert(places[0], walk, refs)
    : { anyOf: places.map((place) => convert(place, walk, refs)) }
}

function drop(walk: Walk, keyword: string): JsonObject {
  walk.dropped.add(keyword)
  return { type: 'object' }
}
