// Passes a client's request in Anthropic's protocol on to Anthropic unchanged.

import type { Json, JsonObject } from '../../../conversation/request.ts'
import { isObject, nonEmpty } from '../../json.ts'
import type { LoweredRequest, Target, Warning } from '../../protocol.ts'
import { isCarried } from '../../claude/carried-reasoning.ts'
import { gatewayFields } from '../inbound/schema.ts'
import { betaHeader } from '../outbound/betas.ts'
import { kindOfField } from '../outbound/own-fields.ts'
import type { AnthropicQuirks } from '../outbound/quirks.ts'
import { lostItsThinking, type Turn } from '../outbound/turns.ts'

/**
 * Whether the client's own body can be sent: it contains no address that the provider cannot read and no turn of
 * another provider, and does not ask Claude to continue thinking in a turn whose thoughts are missing.
 */
export function mayForward(body: JsonObject): boolean {
  if (!Array.isArray(body.messages)) return false
  // The API refuses it; translated, the request is sent without thinking and with a warning.
  if (isObject(body.thinking) && body.thinking.type === 'enabled' && lostItsThinking(turnsIn(body.messages)))
    return false
  return body.messages.every(
    (message) => !isObject(message) || !Array.isArray(message.content) || message.content.every(mayGoOn),
  )
}

/** The turns as the API sees them: consecutive messages of one role are merged. */
function turnsIn(messages: readonly Json[]): Turn[] {
  const turns: Turn[] = []
  for (const message of messages.filter(isObject)) {
    const { role, content } = message
    const blocks = Array.isArray(content) ? content.filter(isObject) : [{ type: 'text' }]
    const last = turns.at(-1)
    if (last && last.role === role) last.content.push(...blocks)
    else turns.push({ role: role === 'assistant' ? 'assistant' : 'user', content: blocks })
  }
  return turns
}

/** Tool call ids that Anthropic accepts; it refuses some of other providers. */
const wireId = /^[a-zA-Z0-9_-]+$/

function mayGoOn(block: Json): boolean {
  if (!isObject(block)) return true
  const { source, content, signature, citations } = block
  if (typeof signature === 'string' && isCarried(signature)) return false
  // What another provider, or the gateway, has found: Anthropic's own citations have an index.
  if (Array.isArray(citations) && citations.some((one) => isObject(one) && one.encrypted_index === ''))
    return false
  if (block.type === 'tool_use' && !wireId.test(nonEmpty(block.id) ?? '')) return false
  if (isObject(source)) {
    if (source.type === 'url' && !/^https:/i.test(nonEmpty(source.url) ?? '')) return false
    if (Array.isArray(source.content) && !source.content.every(mayGoOn)) return false
  }
  return !Array.isArray(content) || content.every(mayGoOn)
}

/**
 * The client's body for Anthropic, with the model's name there. The gateway's own fields are removed, and so are those
 * with a price of their own and unknown ones, each with a warning.
 */
export function forwardedRequest(
  { betas, ...sent }: JsonObject,
  { model, quirks }: Target<AnthropicQuirks>,
): LoweredRequest {
  const body: JsonObject = {}
  const warnings: Warning[] = []
  for (const [field, value] of Object.entries(sent)) {
    if (gatewayFields.includes(field)) continue
    const kind = kindOfField(field, value)
    if (kind === 'known') body[field] = value
    else if (value !== null) warnings.push({ param: field, message: unsent[kind] })
  }
  return {
    path: quirks.path,
    headers: { 'anthropic-version': quirks.version, ...betaHeader([...quirks.betas], betas) },
    body: { ...body, model },
    warnings,
  }
}

const unsent = {
  priced: 'The prices here are those without it; dropped.',
  unknown: 'It is not known to be free of charge; dropped.',
} as const
