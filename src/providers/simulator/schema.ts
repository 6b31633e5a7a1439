// An instance of a JSON Schema, for the simulated provider's tool arguments and structured answers.

import type { Json, JsonObject } from '../../conversation/request.ts'
import { sampleOf } from './pattern.ts'

/** Below the first depth only required properties are filled, below the second none: schemas may be recursive. */
const optionalDepth = 5
const deepest = 24
/** The limit for items and characters, whatever the schema requires. */
const mostItems = 64
const mostCharacters = 4096
/** The limit for values of one instance: nested items would otherwise multiply. */
const mostValues = 2_000
/**
 * The limit for the characters of one instance, and for the members and characters of the schema that are read for it:
 * a long name, constant or pattern may be used for every value.
 */
const mostWork = 131_072

/**
 * A value that the schema allows, the same for the same schema. Takes a schema from any client: keywords it
 * does not know are ignored, and references are resolved inside the schema only. `name` colours the strings.
 */
export function instanceOf(schema: Json | undefined, name = 'value'): Json {
  return fill(schema, {
    root: schema ?? true,
    budget: { values: mostValues, work: mostWork },
    depth: 0,
    name,
    item: 0,
  })
}

/** What is left for the whole instance. */
interface Budget {
  values: number
  work: number
}

interface Place {
  readonly root: Json
  readonly budget: Budget
  readonly depth: number
  readonly name: string
  /** Position in an array, so that the items of a set differ. */
  readonly item: number
}

function fill(given: Json | undefined, place: Place): Json {
  place.budget.values -= 1
  if (isSpent(place)) return null
  if (!isObject(given) || place.depth > deepest) return sampleText({}, place)
  const schema = flatten(given, place)
  if (schema['const'] !== undefined) return spendOn(schema['const'], place)
  const choices = schema['enum']
  if (Array.isArray(choices) && choices.length > 0)
    return spendOn(choices[place.item % choices.length]!, place)
  return makers[typeOf(schema)](schema, place)
}

function isSpent({ budget }: Place): boolean {
  return budget.values < 0 || budget.work < 0
}

function spend({ budget }: Place, work: number): void {
  budget.work -= work
}

/** The value, if the instance has room for it. */
function spendOn(value: Json, place: Place): Json {
  spend(place, typeof value === 'string' ? value.length : JSON.stringify(value).length)
  return isSpent(place) ? null : value
}

type TypeName = 'object' | 'array' | 'string' | 'number' | 'integer' | 'boolean' | 'null'

const makers: Readonly<Record<TypeName, (schema: JsonObject, place: Place) => Json>> = {
  object: fillObject,
  array: fillArray,
  string: sampleText,
  number: (schema, place) => sampleNumber(schema, place, schema['multipleOf']),
  integer: (schema, place) => sampleNumber(schema, place, schema['multipleOf'] ?? 1),
  boolean: (_, place) => place.item % 2 === 0,
  null: () => null,
}

/** The schema with its reference followed, its branches taken and its `allOf` joined. */
function flatten(given: JsonObject, place: Place): JsonObject {
  let schema = given
  // Each round takes one keyword away; a chain of references longer than this is a circle.
  for (let round = 0; round < 32; round++) {
    if (isSpent(place)) return {}
    const { $ref: ref, allOf, anyOf, oneOf, ...rest } = schema
    spend(place, membersOf(schema))
    if (typeof ref === 'string') {
      spend(place, ref.length)
      schema = merge(rest, resolve(ref, place.root), { allOf, anyOf, oneOf })
    } else if (Array.isArray(allOf) && allOf.length > 0) {
      place.budget.values -= allOf.length
      schema = merge(rest, ...allOf, { anyOf, oneOf })
    } else if (Array.isArray(anyOf) && anyOf.length > 0) {
      schema = merge(rest, branch(anyOf, place), { oneOf })
    } else if (Array.isArray(oneOf) && oneOf.length > 0) {
      schema = merge(rest, branch(oneOf, place))
    } else {
      return rest
    }
  }
  return {}
}

/** How many members merging the schema copies. */
function membersOf(schema: JsonObject): number {
  const { properties, required } = schema
  return (
    Object.keys(schema).length +
    (isObject(properties) ? Object.keys(properties).length : 0) +
    (Array.isArray(required) ? required.length : 0)
  )
}

/** The first branch that is not null; at depth the last, which in recursive types usually ends the recursion. */
function branch(branches: readonly Json[], place: Place): Json {
  spend(place, branches.length)
  if (place.depth > optionalDepth) {
    return branches.find((each) => isObject(each) && each['type'] === 'null') ?? branches.at(-1)!
  }
  return branches.find((each) => !isObject(each) || each['type'] !== 'null') ?? branches[0]!
}

function merge(...schemas: (Json | Record<string, Json | undefined>)[]): JsonObject {
  const merged: JsonObject = {}
  for (const schema of schemas) {
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) continue
    for (const [key, value] of Object.entries(schema)) {
      if (value === undefined || key === '__proto__') continue
      const before = merged[key]
      if (key === 'properties' && isObject(before) && isObject(value)) merged[key] = { ...before, ...value }
      else if (key === 'required' && Array.isArray(before) && Array.isArray(value))
        merged[key] = [...before, ...value]
      else merged[key] = value
    }
  }
  return merged
}

function resolve(ref: string, root: Json): Json {
  if (!ref.startsWith('#')) return true
  let at: Json | undefined = root
  for (const step of ref.slice(1).split('/').filter(Boolean)) {
    const key = unescapeStep(step)
    if (Array.isArray(at)) at = at[Number(key)]
    else if (isObject(at) && Object.hasOwn(at, key)) at = at[key]
    else return true
  }
  return at ?? true
}

function unescapeStep(step: string): string {
  const plain = step.replaceAll('~1', '/').replaceAll('~0', '~')
  try {
    return decodeURIComponent(plain)
  } catch {
    return plain
  }
}

function typeOf(schema: JsonObject): TypeName {
  const type = schema['type']
  const named = Array.isArray(type) ? (type.find((each) => each !== 'null') ?? type[0]) : type
  if (typeof named === 'string' && Object.hasOwn(makers, named)) return named as TypeName
  if (schema['properties'] !== undefined || schema['required'] !== undefined) return 'object'
  if (schema['items'] !== undefined || schema['prefixItems'] !== undefined) return 'array'
  if (schema['minimum'] !== undefined || schema['maximum'] !== undefined) return 'number'
  return 'string'
}

function fillObject(schema: JsonObject, place: Place): Json {
  const properties = isObject(schema['properties']) ? schema['properties'] : {}
  const required = new Set(Array.isArray(schema['required']) ? schema['required'] : [])
  const filled: [string, Json][] = []
  for (const [key, property] of Object.entries(properties)) {
    if (isSpent(place)) break
    if (place.depth >= optionalDepth && !required.has(key)) continue
    spend(place, key.length)
    filled.push([key, fill(property, { ...place, depth: place.depth + 1, name: key })])
  }
  const more = isObject(schema['additionalProperties']) ? schema['additionalProperties'] : true
  for (const key of required) {
    if (isSpent(place)) break
    if (typeof key !== 'string' || Object.hasOwn(properties, key)) continue
    spend(place, key.length)
    filled.push([key, fill(more, { ...place, depth: place.depth + 1, name: key })])
  }
  const wanted = Math.min(numberAt(schema, 'minProperties') ?? 0, mostItems)
  for (let extra = 1; filled.length < wanted; extra++) {
    const key = `key_${extra}`
    filled.push([key, fill(more, { ...place, depth: place.depth + 1, name: key })])
  }
  return Object.fromEntries(filled)
}

function fillArray(schema: JsonObject, place: Place): Json {
  const leading = Array.isArray(schema['prefixItems']) ? schema['prefixItems'] : []
  const least = numberAt(schema, 'minItems') ?? Math.max(leading.length, place.depth >= optionalDepth ? 0 : 1)
  const length = Math.min(least, numberAt(schema, 'maxItems') ?? least, mostItems)
  return Array.from({ length }, (_, item) =>
    fill(leading[item] ?? schema['items'], { ...place, depth: place.depth + 1, item }),
  )
}

const formats: Readonly<Record<string, string>> = {
  date: '2026-01-01',
  time: '12:00:00Z',
  'date-time': '2026-01-01T12:00:00Z',
  duration: 'PT1H',
  email: 'sample@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/',
  url: 'https://example.com/',
  uuid: '123e4567-e89b-42d3-a456-426614174000',
}

function sampleText(schema: JsonObject, place: Place): Json {
  const format = schema['format']
  if (typeof format === 'string' && Object.hasOwn(formats, format)) return formats[format]!
  const pattern = typeof schema['pattern'] === 'string' ? schema['pattern'] : ''
  spend(place, pattern.length)
  const matching = pattern === '' || isSpent(place) ? undefined : sampleOf(pattern)
  if (matching !== undefined) return spendOn(matching, place)
  const text = place.item === 0 ? `sample ${place.name}` : `sample ${place.name} ${place.item + 1}`
  const least = Math.min(numberAt(schema, 'minLength') ?? 0, mostCharacters)
  return spendOn(
    text.padEnd(least, '.').slice(0, numberAt(schema, 'maxLength') ?? text.length + least),
    place,
  )
}

/** The smallest allowed number from 1 up, or the largest allowed one if that is less than 1. */
function sampleNumber(schema: JsonObject, place: Place, multipleOf: Json | undefined): Json {
  const step = typeof multipleOf === 'number' && multipleOf > 0 ? multipleOf : undefined
  const gap = step ?? 0.5
  const low = lowest(schema, gap)
  const high = highest(schema, gap)
  const wanted = Math.min(Math.max(1 + place.item, low ?? -Infinity), high ?? Infinity)
  if (step === undefined) return wanted
  const up = Math.ceil(wanted / step) * step
  return high !== undefined && up > high ? Math.floor(high / step) * step : up
}

function lowest(schema: JsonObject, gap: number): number | undefined {
  const exclusive = numberAt(schema, 'exclusiveMinimum')
  const inclusive = numberAt(schema, 'minimum')
  if (exclusive === undefined) return inclusive
  return Math.max(
    inside(exclusive, numberAt(schema, 'exclusiveMaximum') ?? numberAt(schema, 'maximum'), gap),
    inclusive ?? -Infinity,
  )
}

function highest(schema: JsonObject, gap: number): number | undefined {
  const exclusive = numberAt(schema, 'exclusiveMaximum')
  const inclusive = numberAt(schema, 'maximum')
  if (exclusive === undefined) return inclusive
  return Math.min(
    inside(exclusive, numberAt(schema, 'exclusiveMinimum') ?? numberAt(schema, 'minimum'), -gap),
    inclusive ?? Infinity,
  )
}

/** A number next to an exclusive bound: a step away, or halfway to the other bound if that is nearer. */
function inside(bound: number, other: number | undefined, gap: number): number {
  if (other === undefined || Math.abs(other - bound) > Math.abs(gap)) return bound + gap
  return (bound + other) / 2
}

function numberAt(schema: JsonObject, key: string): number | undefined {
  const value = schema[key]
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
