// Converts Google's schema language (types in capitals, `nullable`) to JSON Schema.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'

/** Limits that Google writes as strings because they are 64-bit numbers. */
const bounds = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])

/** The JSON Schema of a Google schema; JSON Schema is returned unchanged. */
export function jsonSchemaOf(schema: unknown): JsonObject {
  if (!isObject(schema)) return {}
  const made: JsonObject = {}
  for (const [key, value] of Object.entries(schema)) {
    const field = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    const converted = memberOf(field, value)
    if (converted !== undefined) made[field] = converted
  }
  return schema['nullable'] === true ? orNull(made) : made
}

function memberOf(field: string, value: Json): Json | undefined {
  switch (field) {
    case 'nullable':
    case 'propertyOrdering':
      return undefined
    case 'type':
      return typeof value === 'string' ? typeOf(value) : value
    case 'properties':
      return isObject(value)
        ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, jsonSchemaOf(inner)]))
        : value
    case 'items':
      return jsonSchemaOf(value)
    case 'additionalProperties':
      return isObject(value) ? jsonSchemaOf(value) : value
    case 'anyOf':
    case 'prefixItems':
      return Array.isArray(value) ? value.map(jsonSchemaOf) : value
    default:
      return bounds.has(field) && typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value
  }
}

function typeOf(type: string): string | undefined {
  return type === 'TYPE_UNSPECIFIED' ? undefined : type.toLowerCase()
}

function orNull(schema: JsonObject): JsonObject {
  const { type } = schema
  if (typeof type === 'string') return { ...schema, type: [type, 'null'] }
  return { anyOf: [schema, { type: 'null' }] }
}
