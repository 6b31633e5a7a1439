// An allow-list of client fields that may be sent to Claude unchanged. An unknown field may have a price of its own,
// like a faster mode, another region, or Anthropic's own tools.

import type { Json } from '../../../conversation/request.ts'

/** Fields that no other protocol has and that change no price; a client that sends them means them. */
export const passedFields: ReadonlySet<string> = new Set([
  'cache_control',
  'context_management',
  'diagnostics',
  'metadata',
  'user_profile_id',
])

/** Fields whose other values cost more than the catalog says, each with the values that do not. */
const standardValues: Readonly<Record<string, readonly Json[]>> = {
  // With skills a container runs code, and each of its hours is billed.
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

/** Whether the field is one whose price depends on its value; the standard value needs no word. */
export function isTiered(field: string): boolean {
  return Object.hasOwn(standardValues, field)
}

/** What a field of the client's own body may be to Anthropic: known, of another price, or unknown here. */
export function kindOfField(field: string, value: Json | undefined): 'known' | 'priced' | 'unknown' {
  if (isPricedApart(field, value)) return 'priced'
  return isTiered(field) || protocolFields.has(field) || passedFields.has(field) ? 'known' : 'unknown'
}
