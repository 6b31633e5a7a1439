// Fields that would make a call dearer than its price here, or than anybody can tell before.

import type { Json, JsonObject } from '../../conversation/request.ts'

/** Each with the values that change no price. */
const fields: Readonly<Record<string, readonly Json[]>> = {
  fallbacks: [],
  inference_geo: ['global', 'not_available'],
  mcp_servers: [],
  service_tier: ['auto', 'standard_only'],
  speed: ['standard'],
}

export function isPricedApart(field: string): boolean {
  return Object.hasOwn(fields, field)
}

/** Those of a body that ask for something dearer. */
export function pricedApart(body: JsonObject): readonly string[] {
  return Object.keys(fields).filter((field) => {
    const value = body[field]
    const nothing = value == null || (Array.isArray(value) && value.length === 0)
    return !nothing && !fields[field]!.includes(value)
  })
}
