// Claude's tools: ids of calls that its APIs accept, and the search that Anthropic runs itself.

import type { WebSearchDeclaration } from '../../conversation/gateway-tools.ts'
import type {
  ChatRequest,
  Json,
  JsonObject,
  Message,
  ReasoningDetail,
  ToolCall,
} from '../../conversation/request.ts'
import { GatewayError } from '../../errors/errors.ts'
import { isObject, nonEmpty, parseJson } from '../lenient.ts'
import { freeName, FreeNames } from '../names.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable } from '../lowering.ts'

const allowed = /^[a-zA-Z0-9_-]+$/

/**
 * Gives every call of a conversation a unique id. A valid id is kept on its first use; others (Kimi's `functions.x:0`,
 * or Bedrock Mantle's `call_0`, repeated in each turn) are replaced.
 */
export class ToolIds {
  readonly #longest: number
  readonly #taken: Set<string>
  readonly #used = new Set<string>()
  readonly #names = new FreeNames()

  /** `longest`: the maximum length of an id. */
  constructor(messages: readonly Message[], longest: number) {
    this.#longest = longest
    const ids = messages.flatMap((message) =>
      message.role === 'assistant' ? message.toolCalls.map((call) => call.id) : [],
    )
    this.#taken = new Set(ids.filter((id) => this.#fits(id)))
  }

  /** The ids of a turn's calls: client id to wire id. Throws if two calls share one. */
  rename(calls: readonly ToolCall[], param: string): Map<string, string> {
    if (calls.length > 1 && new Set(calls.map((call) => call.id)).size < calls.length) {
      throw new GatewayError('invalid_request', {
        message: 'Two tool calls of one message have the same id.',
        param,
      })
    }
    const fresh = new Map<string, string>()
    for (const { id } of calls) fresh.set(id, this.#fresh(id))
    return fresh
  }

  #fresh(id: string): string {
    const fresh = this.#fits(id) && !this.#used.has(id) ? id : this.#mint(id)
    this.#taken.add(fresh)
    this.#used.add(fresh)
    return fresh
  }

  #fits(id: string): boolean {
    return allowed.test(id) && id.length <= this.#longest
  }

  #mint(id: string): string {
    const stem = id.replace(/[^a-zA-Z0-9_-]/g, '_') || 'call'
    return freeName(this.#names, stem, this.#longest, (name) => this.#taken.has(name))
  }
}

// Carries what Anthropic's own search did in a turn through clients of every protocol, as opaque reasoning: the
// results are encrypted, and Claude can only cite them in later turns if they come back unchanged.

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

// The web search that Anthropic runs itself:
// https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool

const name = 'web_search'
/** Later versions run code as well. */
const toolType = 'web_search_20250305'

export function ownSearch(
  search: WebSearchDeclaration,
  { tools }: ChatRequest,
  { quirks }: { readonly quirks: { readonly webSearch?: boolean } },
): OwnSearch | undefined {
  if (quirks.webSearch !== true) return undefined
  if (tools.some((tool) => tool.name === name)) return unable(`cannot stand beside a function named ${name}`)
  const wishes = ['allowed_domains', 'blocked_domains', 'paths', 'user_location', 'max_uses'] as const
  const own = ableTo(search, 'search', wishes)
  // https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons: `pause_turn`
  return own.kind === 'able' ? { ...own, pauses: true } : own
}

/** The tool, if the request wants a search. */
export function searchTools({ webSearch }: ChatRequest): readonly JsonObject[] {
  if (webSearch === undefined) return []
  const { allowedDomains, blockedDomains, maxUses } = webSearch
  return [
    {
      type: toolType,
      name,
      ...(maxUses === undefined ? {} : { max_uses: maxUses }),
      ...(allowedDomains.length > 0 ? { allowed_domains: allowedDomains.map(bareDomain) } : {}),
      ...(blockedDomains.length > 0 ? { blocked_domains: blockedDomains.map(bareDomain) } : {}),
      ...approximateLocation(webSearch),
    },
  ]
}

/** Fields of the tool without a price of their own. */
const toolFields = ['name', 'allowed_domains', 'blocked_domains', 'user_location', 'cache_control']

/**
 * A client's own body with its search, of any version, replaced by the version whose price is known, limited to
 * `searches`; undefined if the body has a search that may not run at Anthropic, or lacks one that should.
 */
export function withBoundedSearch(body: JsonObject, searches: number | undefined): JsonObject | undefined {
  const tools = Array.isArray(body.tools) ? body.tools : []
  const isSearch = (tool: Json): tool is JsonObject =>
    isObject(tool) && nonEmpty(tool.type)?.startsWith('web_search_') === true
  if (tools.some(isSearch) !== (searches !== undefined)) return undefined
  if (searches === undefined) return body
  const boundUses = (tool: JsonObject): JsonObject => ({
    ...Object.fromEntries(toolFields.flatMap((field) => (tool[field] == null ? [] : [[field, tool[field]]]))),
    type: toolType,
    max_uses: typeof tool.max_uses === 'number' ? Math.min(tool.max_uses, searches) : searches,
  })
  return { ...body, tools: tools.map((tool) => (isSearch(tool) ? boundUses(tool) : tool)) }
}
