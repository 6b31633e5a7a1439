// An allow-list of client fields that may be sent to Claude unchanged. An unknown field may have a price of its own,
// like a faster mode, another region, or Anthropic's own tools.

import type { Json } from '../../../conversation/request.ts'

/** Fields without an equivalent elsewhere that do not affect the price. */
export const passedFields: ReadonlySet<string> = new Set([
  'cache_control',
  'context_management',
  'diagnostics',
  'metadata',
  'user_profile_id',
])

/** Fields whose other values cost more than the catalog's price, with the values that do not. */
const standardValues: Readonly<Record<string, readonly Json[]>> = {
  // With skills a container runs code, billed by the hour.
  container: [],
  fallbacks: [],
  inference_geo: ['global', 'not_available'],
  mcp_servers: [],
  service_tier: ['auto', 'standard_only'],
  speed: ['standard'],
}

/** The fields of every Messages request. */
const protocolFields: ReadonlySet<string> = new Set([
  'betas',
  'max_tokens',
  'messages',
  'model',
  'output_config',
  'output_format',
  'stop_sequences',
  'stream',
  'system',
  'temperature',
  'thinking',
  'tool_choice',
  'tools',
  'top_k',
  'top_p',
])

/** Whether a field asks for something with a price of its own, which we could not charge. */
export function isPricedApart(field: string, value: Json | undefined): boolean {
  if (!Object.hasOwn(standardValues, field)) return false
  const nothing = value == null || (Array.isArray(value) && value.length === 0)
  return !nothing && !standardValues[field]!.includes(value)
}

/** Whether the price depends on the field's value; the standard value needs no warning. */
export function isTiered(field: string): boolean {
  return Object.hasOwn(standardValues, field)
}

/** How Anthropic treats a field of the client's body: known, separately priced, or unknown. */
export function kindOfField(field: string, value: Json | undefined): 'known' | 'priced' | 'unknown' {
  if (isPricedApart(field, value)) return 'priced'
  return isTiered(field) || protocolFields.has(field) || passedFields.has(field) ? 'known' : 'unknown'
}
