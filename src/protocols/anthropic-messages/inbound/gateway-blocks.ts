// Calls of the gateway's tools as blocks of the Messages API, shaped like those of Anthropic's own tools so that its
// clients display them; and back.

import type { GatewayCall, GatewayRun, ToolOrigin } from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, Message, ToolCall } from '../../../conversation/request.ts'
import { isObject, parseJson } from '../../json.ts'

/** Distinguishes our blocks from Anthropic's, which only Anthropic can read. */
const idPrefix = 'srvtoolu_weir_'

function idOf({ id }: GatewayCall): string {
  return idPrefix + id.replace(/[^a-zA-Z0-9_]/g, '_')
}

const serverTools = { 'web-search': 'web_search', 'open-page': 'web_fetch' } as const

/** The block of a call, without its input. */
export function callBlock(call: GatewayCall): JsonObject {
  const { origin } = call
  return origin.kind === 'mcp'
    ? { type: 'mcp_tool_use', id: idOf(call), name: origin.tool, server_name: origin.serverLabel, input: {} }
    : { type: 'server_tool_use', id: idOf(call), name: serverTools[origin.kind], input: {} }
}

/** The result block. The model's own text is included, encoded like Anthropic's encrypted pages. */
export function resultBlock({ call, result }: GatewayRun): JsonObject {
  const tool_use_id = idOf(call)
  const failed = result.failure !== undefined
  const sealed = Buffer.from(result.text, 'utf8').toString('base64')
  switch (call.origin.kind) {
    case 'mcp':
      return {
        type: 'mcp_tool_result',
        tool_use_id,
        is_error: failed,
        content: [{ type: 'text', text: result.output ?? result.text }],
      }
    case 'open-page':
      return {
        type: 'web_fetch_tool_result',
        tool_use_id,
        content: failed
          ? { type: 'web_fetch_tool_result_error', error_code: errorCode(result.failure!.code) }
          : {
              type: 'web_fetch_result',
              url: urlOf(call.arguments),
              content: {
                type: 'document',
                source: { type: 'text', media_type: 'text/plain', data: result.text },
                title: result.sources?.[0]?.title ?? null,
              },
              retrieved_at: null,
            },
      }
    case 'web-search':
      return {
        type: 'web_search_tool_result',
        tool_use_id,
        content: failed
          ? { type: 'web_search_tool_result_error', error_code: errorCode(result.failure!.code) }
          : (result.sources ?? []).map((source, at): JsonObject => ({
              type: 'web_search_result',
              url: source.url,
              title: source.title,
              page_age: source.publishedAt ?? null,
              // The first source carries all of it: the sources belong to one text.
              encrypted_content: at === 0 ? sealed : '',
            })),
      }
    default:
      return call.origin satisfies never
  }
}

// ---- searches of the provider -------------------------------------------------------------------------------

/** For a search that another provider ran itself: of no use to any model in a later turn. */
const searchPrefix = `${idPrefix}search_`

/** The block id of the `number`th provider search in the answer. */
export function searchBlockId(answer: string, number: number): string {
  return `${searchPrefix}${answer.replace(/[^a-zA-Z0-9_]/g, '_')}_${number}`
}

/** The block of a provider's search, without its input. */
export function searchBlock(id: string): JsonObject {
  return { type: 'server_tool_use', id, name: 'web_search', input: {} }
}

/** What it looked for, as JSON text. */
export function searchInput({ action }: JsonObject): string {
  const { query, url } = isObject(action) ? action : {}
  return JSON.stringify(typeof url === 'string' ? { url } : { query: typeof query === 'string' ? query : '' })
}

/** Builds the result block from the search as an item of the Responses protocol. */
export function searchResultBlock(id: string, { action, status }: JsonObject): JsonObject {
  const sources = isObject(action) && Array.isArray(action['sources']) ? action['sources'] : []
  return {
    type: 'web_search_tool_result',
    tool_use_id: id,
    content:
      status === 'failed'
        ? { type: 'web_search_tool_result_error', error_code: 'unavailable' }
        : sources.filter(isObject).flatMap(({ url, title }): JsonObject[] => {
            if (typeof url !== 'string') return []
            const named = typeof title === 'string' && title !== '' ? title : url
            return [{ type: 'web_search_result', url, title: named, page_age: null, encrypted_content: '' }]
          }),
  }
}

const errorCodes: Readonly<Record<string, string>> = {
  max_tool_calls: 'max_uses_exceeded',
  max_uses_exceeded: 'max_uses_exceeded',
  invalid_arguments: 'invalid_tool_input',
}

function errorCode(code: string): string {
  return errorCodes[code] ?? 'unavailable'
}

function urlOf(json: string): string {
  const args = parseJson(json)
  return isObject(args) && typeof args['url'] === 'string' ? args['url'] : ''
}

// ---- history ------------------------------------------------------------------------------------------------

/** Whether a block is a call of a gateway tool, or its result. */
export function isGatewayBlock(block: { readonly [field: string]: unknown }): boolean {
  const id =
    block['type'] === 'server_tool_use' || block['type'] === 'mcp_tool_use'
      ? block['id']
      : block['tool_use_id']
  return typeof id === 'string' && id.startsWith(idPrefix)
}

/** Whether a block belongs to a search that another provider ran itself. */
export function isSearchBlock(block: { readonly [field: string]: unknown }): boolean {
  const id = block['id'] ?? block['tool_use_id']
  return typeof id === 'string' && id.startsWith(searchPrefix)
}

export function readGatewayCall(block: JsonObject): ToolCall | undefined {
  const { type, id, name, input, server_name: serverLabel } = block
  const tool = textIn(name)
  const origin: ToolOrigin | undefined =
    type === 'mcp_tool_use'
      ? { kind: 'mcp', serverLabel: textIn(serverLabel), tool }
      : tool === 'web_search'
        ? { kind: 'web-search' }
        : tool === 'web_fetch'
          ? { kind: 'open-page' }
          : undefined
  if (origin === undefined) return undefined
  const called = origin.kind === 'open-page' ? 'open_page' : tool
  return {
    id: textIn(id),
    name: called,
    arguments: JSON.stringify(input ?? {}),
    thoughtSignature: undefined,
    origin,
  }
}

/** The result of a call of the history. */
export function readGatewayResult(block: JsonObject): Extract<Message, { role: 'tool' }> {
  const { content } = block
  const isError = block['is_error'] === true || (isObject(content) && 'error_code' in content)
  const text = isError ? errorText(content) : resultText(content)
  return {
    role: 'tool',
    toolCallId: textIn(block['tool_use_id']),
    content: [{ kind: 'text', text: text === '' ? 'The result has not been kept.' : text, cache: undefined }],
    isError,
  }
}

function errorText(content: Json | undefined): string {
  const code = isObject(content) ? content['error_code'] : undefined
  return typeof code === 'string' ? `The call failed: ${code}` : resultText(content) || 'The call failed.'
}

function resultText(content: Json | undefined): string {
  if (typeof content === 'string') return content
  if (isObject(content)) {
    const document = isObject(content['content']) ? content['content'] : {}
    const source = isObject(document['source']) ? document['source'] : {}
    return typeof source['data'] === 'string' ? source['data'] : ''
  }
  if (!Array.isArray(content)) return ''
  return content
    .filter(isObject)
    .map(({ type, text, title, url, encrypted_content: sealed }) => {
      if (type === 'text') return textIn(text)
      if (typeof sealed === 'string' && sealed !== '') return Buffer.from(sealed, 'base64').toString('utf8')
      return sealed === '' ? '' : `${textIn(title)}\n${textIn(url)}`
    })
    .filter((each) => each !== '')
    .join('\n')
}

/** A client's text; empty for anything else, which may have no text at all (`{"toString":null}`). */
function textIn(value: Json | undefined): string {
  return typeof value === 'string' ? value : ''
}
