// Carries what Anthropic's own search did in a turn through clients of every protocol, as opaque reasoning: the
// results are encrypted, and Claude can only cite them in later turns if they come back unchanged.

import type { Json, JsonObject, ReasoningDetail } from '../../conversation/request.ts'
import { isObject, nonEmpty, parseJson } from '../json.ts'

/** A format of its own: code that returns Claude's thoughts must not mistake these for one. */
const format = 'anthropic-claude-tools-v1'

/** The detail of a block, with its `index` in the turn's reasoning; undefined for other blocks. */
export function detailOfWork(block: JsonObject, index: number): ReasoningDetail | undefined {
  const work = workOf(block)
  return work && { type: 'reasoning.encrypted', format, index, data: JSON.stringify(work) }
}

/** The original blocks of these details, each use with its result; incomplete pairs are left out. */
export function workBlocks(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  const blocks = blocksOf(details)
  const uses = new Set(blocks.map((block) => block.id))
  const results = resultsIn(blocks)
  return blocks.filter((block) => (isUse(block) ? results.has(block.id) : uses.has(block.tool_use_id)))
}

/** Uses without a result yet: Anthropic runs them when a paused turn is sent back. */
export function begunWork(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  const blocks = blocksOf(details)
  const results = resultsIn(blocks)
  return blocks.filter((block) => isUse(block) && !results.has(block.id))
}

function isUse({ type }: JsonObject): boolean {
  return type === 'server_tool_use'
}

function resultsIn(blocks: readonly JsonObject[]): ReadonlySet<Json | undefined> {
  return new Set(blocks.map((block) => block.tool_use_id))
}

function blocksOf(details: readonly ReasoningDetail[]): readonly JsonObject[] {
  return details
    .toSorted((a, b) => a.index - b.index)
    .flatMap((detail) => {
      const parsed = isWork(detail) ? parseJson(detail.data ?? '') : undefined
      const block = isObject(parsed) ? workOf(parsed) : undefined
      return block ? [block] : []
    })
}

/** Whether a detail is a step of an Anthropic tool rather than reasoning. */
export function isWork(detail: Pick<ReasoningDetail, 'format'>): boolean {
  return detail.format === format
}

/** A search for clients of other protocols: an item of the Responses protocol without its id. */
export function searchItem(query: string, content: unknown): JsonObject {
  const results = Array.isArray(content) ? content.filter(isObject) : []
  const sources = results.flatMap(({ url }) => (typeof url === 'string' ? [{ type: 'url', url }] : []))
  // A failure is an object instead of the list.
  const status = Array.isArray(content) ? 'completed' : 'failed'
  return { type: 'web_search_call', status, action: { type: 'search', query, sources } }
}

/** Only these fields are returned, because the data comes from a client. */
function workOf(block: JsonObject): JsonObject | undefined {
  const { type, id, name, input, tool_use_id, content } = block
  if (type === 'server_tool_use' && name === 'web_search' && nonEmpty(id) !== undefined)
    return { type, id: id!, name, input: isObject(input) ? input : {} }
  if (type === 'web_search_tool_result' && nonEmpty(tool_use_id) !== undefined && content !== undefined)
    return { type, tool_use_id: tool_use_id!, content }
  return undefined
}
