// Prepares a Messages request for providers of other protocols: drops what only Anthropic supports, with warnings.

import type {
  ChatRequest,
  ContentPart,
  Json,
  JsonObject,
  Labels,
  Message,
  Reasoning,
} from '../../../conversation/request.ts'
import { isObject } from '../../json.ts'
import { warnInto, warnOfCitations, type Warn } from '../../lowering.ts'
import { noWarnings, type Warning } from '../../lowered-request.ts'
import { fateOf, toolRefused } from '../../request/served-tools.ts'
import { effortIn } from './read.ts'

/** Fields that are redundant, or do not affect the answer. */
const droppedSilently: ReadonlySet<string> = new Set([
  'betas',
  'cache_control',
  'diagnostics',
  'thinking',
  'user_profile_id',
])

/** The longest user name that every provider accepts. */
const longestUser = 64

/**
 * Removes all of `rest`: other providers refuse unknown fields or interpret them differently. Throws GatewayError
 * `unsupported_parameter` for a tool that only Anthropic's models have.
 */
export function forOtherProtocols(request: ChatRequest): {
  request: ChatRequest
  warnings: readonly Warning[]
} {
  const labels = shortenLabels(request.labels)
  const describes = request.messages.some(({ content }) => content.some(isDescribed))
  if (labels === request.labels && isEmpty(request.rest) && !describes)
    return { request, warnings: noWarnings }
  const warnings: Warning[] = []
  const warn = warnInto(warnings)
  warnOfCitations(request, warn)
  const { tools, output_config: config, ...others } = request.rest
  for (const field of Object.keys(others)) {
    if (!droppedSilently.has(field)) warn(field, 'Only Anthropic knows it; dropped.')
  }
  dropTools(tools, warn)
  return {
    request: {
      ...request,
      messages: describes ? request.messages.map(withDescriptions) : request.messages,
      reasoning: request.reasoning ?? effortOf(config, warn),
      labels,
      rest: {},
    },
    warnings,
  }
}

/** Whether a part is a document with what only Anthropic's have: a title, a context, citations. */
function isDescribed(part: ContentPart): part is Extract<ContentPart, { kind: 'file' }> {
  return part.kind === 'file' && (part.filename ?? part.context ?? part.cited) !== undefined
}

/** The title and the context of a document are text before it, as the model would read them at Anthropic. */
function withDescriptions<Kind extends Message>(message: Kind): Kind {
  if (!message.content.some(isDescribed)) return message
  const content = message.content.flatMap((part): ContentPart[] => {
    if (!isDescribed(part)) return [part]
    const { context, cited: _, ...file } = part
    const said = [file.filename, context].filter((each) => each !== undefined).join('\n')
    return said === '' ? [file] : [{ kind: 'text', text: said, cache: undefined }, file]
  })
  return { ...message, content }
}

function isEmpty(fields: JsonObject): boolean {
  for (const _ in fields) return false
  return true
}

/** Drops tools without a client's schema, which other models do not know. */
function dropTools(tools: Json | undefined, warn: Warn): void {
  for (const tool of Array.isArray(tools) ? tools.filter(isObject) : []) {
    if (fateOf('messages-elsewhere', tool) === 'refused') throw toolRefused(String(tool.type), 'tools')
    warn('tools', `A tool of type ${JSON.stringify(tool.type)} was left out: only Anthropic has it.`)
  }
}

/** The effort of a client that did not enable thinking: other models may think all the same. */
function effortOf(config: Json | undefined, warn: Warn): Reasoning | undefined {
  const { effort, ...others }: JsonObject = isObject(config) ? config : {}
  for (const field of Object.keys(others)) warn(`output_config.${field}`, 'Only Anthropic knows it; dropped.')
  const known = effortIn(effort)
  return known === undefined ? undefined : { effort: known }
}

/** A name that is too long for others is replaced by its digest, which still distinguishes users. */
function shortenLabels(labels: Labels): Labels {
  const { user } = labels
  if (user === undefined || user.length <= longestUser) return labels
  return { ...labels, user: new Bun.CryptoHasher('sha256').update(user).digest('hex') }
}
