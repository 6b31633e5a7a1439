// Compaction: a long conversation becomes what its people said and a summary of the rest, in an item that the client sends
// back unread (platform.openai.com/docs/api-reference/responses/compact). The model of the request writes the summary,
// whatever its provider speaks, so that any other can go on with it.

import { z } from 'zod'
import type { JsonObject, Message } from '../../../conversation/request.ts'
import { isObject, parseJson } from '../../lenient.ts'
import type { Inbound } from '../../protocol.ts'
import { type InputItem, kindOf, responseObject, type ResponsesRequest } from './schema.ts'

/** Marks what we made: what a provider has encrypted is for that provider alone. */
const prefix = 'weir.'

const carriedSchema = z.object({ summary: z.string() })

const request = `Write down what is needed to go on with this conversation without having read it: what was asked for, what was \
decided and why, what has been done and what came of it, with all names, paths, figures and identifiers that still \
matter, and what remains to be done. Leave out what is settled and of no further use. Write nothing else, and call no tool.`

/** What a `compaction_trigger` asks of a model: its provider is sent the trigger itself where it compacts. */
export const compactionAsked: Message = {
  role: 'user',
  content: [{ kind: 'text', text: request, cache: undefined }],
  item: { type: 'compaction_trigger' },
}

/** Whether a request asks for the compaction of its conversation instead of an answer to it. */
export function asksForCompaction({ input }: Pick<ResponsesRequest, 'input'>): boolean {
  const last = Array.isArray(input) ? input.at(-1) : undefined
  return last !== undefined && kindOf(last) === 'compaction_trigger'
}

/** Of these a summary has no use, or the request for it has its own. */
const replaced: ReadonlySet<string> = new Set([
  'stream',
  'store',
  'background',
  'include',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'max_tool_calls',
  'text',
])

/** The request for a response that is the summary. */
export function summaryRequest(asked: JsonObject): JsonObject {
  const kept = Object.fromEntries(Object.entries(asked).filter(([name]) => !replaced.has(name)))
  const { input } = asked
  const said = typeof input === 'string' ? [{ role: 'user', content: input }] : (input ?? [])
  // What is no list is refused by its own name.
  const items = Array.isArray(said) ? [...said, { role: 'user', content: request }] : said
  return { ...kept, input: items, store: false, stream: false }
}

/**
 * Answers with the compacted conversation instead of the summary alone. `items` are those that the summary was asked
 * with. Where no whole summary was written, the output is the conversation as it was, so that nothing is lost.
 */
export function asCompaction(responses: Inbound, items: readonly JsonObject[]): Inbound {
  return {
    ...responses,
    whole: (...answer) => compactionOf(responses.whole(...answer), items.slice(0, -1)),
  }
}

function compactionOf(response: JsonObject, items: readonly JsonObject[]): JsonObject {
  const { id, created_at, status, incomplete_details, model, usage, warnings } = response
  const summary = textOf(response)
  const isWhole = status === 'completed' && summary.trim() !== ''
  const output = isWhole
    ? [
        ...items.filter(isSaid).map(message),
        { id: String(id).replace(/^resp_/, 'cmp_'), ...compactionOfSummary(summary) },
      ]
    : [...items]
  return {
    id: id!,
    object: 'response.compaction',
    created_at: created_at!,
    model: model!,
    status: isWhole ? 'completed' : 'incomplete',
    incomplete_details: incomplete_details!,
    output,
    usage: usage!,
    ...(warnings === undefined ? {} : { warnings }),
  }
}

function textOf({ output }: JsonObject): string {
  const parts = (output as JsonObject[]).flatMap(({ type, content }) =>
    type === 'message' ? (content as JsonObject[]) : [],
  )
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('')
}

/** What the people and the developer said is kept word by word. */
function isSaid(item: JsonObject): boolean {
  return kindOf(item as unknown as InputItem) === 'message' && item['role'] !== 'assistant'
}

function message({ role, content }: JsonObject): JsonObject {
  return { type: 'message', role: role!, content: content! }
}

/** A summary as an item, without its id. */
export function compactionOfSummary(summary: string): JsonObject {
  const carried = Buffer.from(JSON.stringify({ summary })).toString('base64url')
  return { type: 'compaction', encrypted_content: prefix + carried }
}

/** The summary in a `compaction` item of ours; undefined for one of a provider. */
export function summaryIn(encrypted: string): string | undefined {
  if (!encrypted.startsWith(prefix)) return undefined
  const carried = parseJson(Buffer.from(encrypted.slice(prefix.length), 'base64url').toString('utf8'))
  return isObject(carried) ? carriedSchema.safeParse(carried).data?.summary : undefined
}

export const compactionObject = responseObject
  .pick({ id: true, created_at: true, model: true, incomplete_details: true, usage: true, warnings: true })
  .extend({
    object: z.literal('response.compaction'),
    status: z.enum(['completed', 'incomplete']),
    output: z
      .array(z.looseObject({ type: z.string() }))
      .describe('To be sent as the input of the next request, in place of all before it.'),
  })
