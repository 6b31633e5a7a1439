// The fields of a Messages request that the gateway reads; all others are kept. The schema of a whole request is built
// when it is first needed: plain requests are checked without it, and a start would spend time and memory on it.

import { z } from 'zod'
import {
  type GatewayCall,
  type GatewayRun,
  type WebToolKind,
  webToolKinds,
  webTools,
} from '../../../conversation/gateway-tools.ts'
import type { Json, JsonObject, Message, ToolCall } from '../../../conversation/request.ts'
import { GatewayError } from '../../../errors/errors.ts'
import { isObject, objectsIn, parseJson, parseToolJson, stringIn } from '../../lenient.ts'
import { type FieldSchemas, fitsByFields, safeParsed } from '../../request/fields.ts'
import { gatewayShape as sharedShape } from '../../request/gateway-tools.ts'

/** The request field for message threads, which are not supported. */
export const threadField = 'thread'

const cacheMark = z.looseObject({ type: z.string(), ttl: z.enum(['5m', '1h']).nullish() }).nullish()

const block = z.looseObject({ type: z.string().min(1), cache_control: cacheMark })
const content = z.union([z.string(), z.array(block)])

/** `custom` tools have a schema; all others are Anthropic's own, identified by type. */
const tool = () =>
  z.looseObject({
    type: z.string().nullish(),
    name: z.string().min(1).nullish(),
    description: z.string().nullish(),
    input_schema: z.record(z.string(), z.unknown()).nullish(),
    strict: z.boolean().nullish(),
    cache_control: cacheMark,
  })

const thinking = () =>
  z.looseObject({
    type: z.string(),
    budget_tokens: z.int().min(0).optional(),
    display: z.string().nullish(),
  })

/** Our additions to the protocol: provider routing and the cost limit. Its clients ask for no usage. */
const { usage: _usage, ...gatewayShape } = sharedShape
export const gatewayFields: readonly string[] = Object.keys(gatewayShape)

const outputFormat = () =>
  z.looseObject({ type: z.string(), schema: z.record(z.string(), z.unknown()).optional() })

const turn = z.lazy(() => z.looseObject({ role: z.enum(['user', 'assistant', 'system']), content }))
const declaredTool = z.lazy(tool)
const most = { messages: 100_000, tools: 10_000 } as const

export const messagesRequest = z.lazy(() =>
  z.looseObject({
    model: z.string().min(1).max(512),
    // 0: the prompt is written to the provider's cache, and nothing is generated.
    max_tokens: z.int().min(0),
    messages: z.array(turn).min(1).max(most.messages),
    system: content.nullish(),
    tools: z.array(declaredTool).max(most.tools).nullish(),
    tool_choice: z
      .looseObject({
        type: z.enum(['auto', 'any', 'tool', 'none']),
        name: z.string().optional(),
        disable_parallel_tool_use: z.boolean().nullish(),
      })
      .refine(({ type, name }) => type !== 'tool' || Boolean(name), {
        path: ['name'],
        message: 'The name of the tool is missing, which type "tool" needs.',
      })
      .nullish(),
    thinking: thinking().nullish(),
    output_config: z
      .looseObject({ effort: z.string().nullish(), format: outputFormat().nullish() })
      .nullish(),
    // Its name while it was a beta feature.
    output_format: outputFormat().nullish(),
    stop_sequences: z.array(z.string()).nullish(),
    stream: z.boolean().nullish(),
    temperature: z.number().nullish(),
    top_p: z.number().nullish(),
    top_k: z.int().nullish(),
    metadata: z.looseObject({ user_id: z.string().nullish() }).nullish(),
    service_tier: z.string().nullish(),
    ...gatewayShape,
  }),
)

/** For token counting: the same body, but max_tokens is optional. */
export const countTokensRequest = z.lazy(() => messagesRequest.unwrap().partial({ max_tokens: true }))

export type MessagesRequest = z.infer<typeof messagesRequest>
type CountTokensRequest = z.infer<typeof countTokensRequest>
export type ClientBlock = z.infer<typeof block>
export type BlockContent = z.infer<typeof content>

/** Checks a body. Throws GatewayError `invalid_request` with the path of the first invalid field. */
export function checkRequest(body: unknown): MessagesRequest {
  refuseThread(body)
  // The schema transforms nothing, so the client's own object is used: what it shares with an earlier one is known by it.
  if (isObject(body) && fitsByFields(body, schemas)) return body as MessagesRequest
  return checkedBy(messagesRequest, body)
}

const schemas: FieldSchemas = {
  required: ['model', 'max_tokens', 'messages'],
  get fields() {
    return (shape ??= messagesRequest.unwrap().shape)
  },
  lists: {
    messages: { item: turn, least: 1, most: most.messages },
    tools: { item: declaredTool, least: 0, most: most.tools },
  },
}
let shape: FieldSchemas['fields'] | undefined

/** Checks a body for token counting. Throws like `checked`. */
export function checkedForCount(body: unknown): CountTokensRequest {
  refuseThread(body)
  return checkedBy(countTokensRequest, body)
}

/** Checks the content of a block, such as a tool's result; `param` is its path. Throws like `checked`. */
export function checkedContent(value: unknown, param: string): BlockContent {
  return isPlainContent(value) ? value : checkedBy(content, value, [param])
}

/** Whether it is a text, or blocks without marks: agents send thousands of them, so the schema is asked about the others. */
function isPlainContent(value: unknown): value is BlockContent {
  if (typeof value === 'string') return true
  if (!Array.isArray(value)) return false
  return value.every(
    (each) =>
      isObject(each) && typeof each.type === 'string' && each.type !== '' && each.cache_control === undefined,
  )
}

function checkedBy<Checked>(
  schema: z.ZodType<Checked>,
  body: unknown,
  place: readonly string[] = [],
): Checked {
  const parsed = safeParsed(schema, body)
  if (parsed.success) return parsed.data
  const issue = deepest(parsed.error.issues[0]!)
  const param = [...place, ...issue.path.map(String)].join('.')
  throw new GatewayError('invalid_request', {
    // Anthropic's messages begin with the path, which its clients show.
    message: param === '' ? issue.message : `${param}: ${issue.message}`,
    ...(param === '' ? {} : { param }),
    cause: parsed.error,
  })
}

function refuseThread(body: unknown): void {
  if (typeof body !== 'object' || body === null || !('thread' in body) || body.thread == null) return
  throw new GatewayError('invalid_request', {
    message: 'thread: Message threads are not served; send the whole conversation in messages.',
    param: threadField,
  })
}

/** Of a union's branches the one that failed last is most likely the intended one. */
function deepest(issue: z.core.$ZodIssue): { path: readonly PropertyKey[]; message: string } {
  if (issue.code !== 'invalid_union') return issue
  const inner = issue.errors.flatMap((issues) => issues.slice(0, 1)).map(deepest)
  const furthest = inner.reduce((a, b) => (b.path.length > a.path.length ? b : a), {
    path: [],
    message: issue.message,
  })
  return { path: [...issue.path, ...furthest.path], message: furthest.message }
}

// The wire schemas of answers in the Messages API. The API documentation is generated from them, and a test checks
// real answers against them.

const count = z.int().min(0)
const usd = z.string().describe('US dollars, an exact decimal string.')

const counters = z.object({
  input_tokens: count.describe('Tokens of the prompt, without those of its cache.'),
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  cache_creation: z.object({ ephemeral_5m_input_tokens: count, ephemeral_1h_input_tokens: count }).nullable(),
  output_tokens: count.describe('Tokens of the answer, thinking included.'),
  output_tokens_details: z.object({ thinking_tokens: count }),
  server_tool_use: z.object({ web_fetch_requests: count, web_search_requests: count }),
  service_tier: z.string(),
  inference_geo: z.string().nullable(),
  speed: z.string().nullable(),
})

const usage = counters.extend({
  cost: z.number().describe('What the call cost, US dollars.'),
  cost_details: z.record(z.string(), usd).describe('Its parts, which add up to `total`.'),
})

const answerBlock = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text'), text: z.string(), citations: z.array(z.looseObject({})).optional() }),
  z.object({
    type: z.literal('thinking'),
    thinking: z.string(),
    signature: z
      .string()
      .describe('Send it back unchanged: the provider takes its thoughts back with it only.'),
  }),
  z.object({ type: z.literal('redacted_thinking'), data: z.string() }),
  z.object({ type: z.literal('compaction'), content: z.string().nullable() }),
  z.object({ type: z.literal('tool_use'), id: z.string(), name: z.string(), input: z.looseObject({}) }),
  z.object({
    type: z.literal('server_tool_use').describe('A web search, or a page that was opened.'),
    id: z.string(),
    name: z.string(),
    input: z.looseObject({}),
  }),
  z.looseObject({
    type: z.literal('mcp_tool_use').describe('A tool of an MCP server.'),
    id: z.string(),
    name: z.string(),
    server_name: z.string(),
    input: z.looseObject({}),
  }),
  ...(['web_search_tool_result', 'web_fetch_tool_result', 'mcp_tool_result'] as const).map((type) =>
    z.looseObject({ type: z.literal(type), tool_use_id: z.string() }),
  ),
])

const stopReason = z
  .string()
  .describe(
    '`end_turn`, `max_tokens`, `stop_sequence`, `tool_use`, `refusal` … `other`: the provider ended the answer in a ' +
      'way of its own, which `native_finish_reason` names.',
  )

/** What the gateway adds to an answer. */
const additions = {
  warnings: z
    .array(z.object({ param: z.string(), message: z.string() }))
    .optional()
    .describe('What was asked for and could not be honoured.'),
  mode: z.literal('test').optional(),
  metadata: z
    .looseObject({
      stopped_by: z.enum(['max_cost', 'credits', 'max_tokens', 'max_tool_calls']).optional(),
      continued_by: z
        .array(z.string())
        .optional()
        .describe('The models that went on when the stream broke off, in order.'),
    })
    .optional()
    .describe('What cut the answer short, where it was neither its end nor its `max_tokens`.'),
}

export const message = z.object({
  id: z.string().describe('The request id of the call: GET /v1/generation finds its receipt by it.'),
  type: z.literal('message'),
  role: z.literal('assistant'),
  model: z.string(),
  content: z.array(answerBlock),
  stop_reason: stopReason.nullable(),
  stop_sequence: z.string().nullable(),
  native_finish_reason: z.string().optional().describe('With `other`: the provider’s own word.'),
  usage,
  ...additions,
})

const wireError = z.object({
  type: z.string().describe("Anthropic's word for the kind of error."),
  message: z.string(),
  code: z.string().describe('One of the codes of GET /v1/errors.'),
  details: z.object({
    error_code: z
      .string()
      .describe('The same code; for a message thread Anthropic’s own, `thread_unsupported_request`.'),
    unsupported: z.array(z.string()).optional(),
  }),
  param: z.string().nullable().describe('The field of the request that is at fault.'),
  metadata: z.looseObject({}),
})

export const messagesError = z.object({
  type: z.literal('error'),
  error: wireError,
  request_id: z.string().nullable(),
})

const delta = z.discriminatedUnion('type', [
  z.object({ type: z.literal('text_delta'), text: z.string() }),
  z.object({ type: z.literal('thinking_delta'), thinking: z.string() }),
  z.object({ type: z.literal('signature_delta'), signature: z.string() }),
  z.object({ type: z.literal('input_json_delta'), partial_json: z.string() }),
  z.object({ type: z.literal('citations_delta'), citation: z.looseObject({}) }),
  z.object({ type: z.literal('compaction_delta'), content: z.string().nullable() }),
])

export const messageEvent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('message_start'), message: message.extend({ usage: counters }) }),
  z.object({ type: z.literal('content_block_start'), index: count, content_block: answerBlock }),
  z.object({ type: z.literal('content_block_delta'), index: count, delta }),
  z.object({ type: z.literal('content_block_stop'), index: count }),
  z.object({
    type: z.literal('message_delta'),
    delta: z.object({
      stop_reason: stopReason,
      stop_sequence: z.string().nullable(),
      native_finish_reason: z.string().optional(),
    }),
    usage,
    ...additions,
  }),
  z.object({ type: z.literal('message_stop') }),
  z.object({ type: z.literal('ping') }),
  messagesError,
])

export const tokenCount = z.object({ input_tokens: count })

// Calls of the gateway's tools as blocks of the Messages API, shaped like those of Anthropic's own tools so that its
// clients display them; and back.

/** Distinguishes our blocks from Anthropic's, which only Anthropic can read. */
const idPrefix = 'srvtoolu_weir_'

function idOf({ id }: GatewayCall): string {
  return idPrefix + id.replace(/[^a-zA-Z0-9_]/g, '_')
}

const serverTools: Readonly<Record<WebToolKind, string>> = {
  'web-search': 'web_search',
  'open-page': 'web_fetch',
}

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
  const sources = objectsIn(isObject(action) ? action['sources'] : undefined)
  return {
    type: 'web_search_tool_result',
    tool_use_id: id,
    content:
      status === 'failed'
        ? { type: 'web_search_tool_result_error', error_code: 'unavailable' }
        : sources.flatMap(({ url, title }): JsonObject[] => {
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
  const tool = stringIn(name)
  const call = { id: stringIn(id), arguments: JSON.stringify(input ?? {}), thoughtSignature: undefined }
  if (type === 'mcp_tool_use')
    return { ...call, name: tool, origin: { kind: 'mcp', serverLabel: stringIn(serverLabel), tool } }
  const kind = webToolKinds.find((each) => serverTools[each] === tool)
  return kind && { ...call, name: webTools[kind].name, origin: { kind } }
}

/** The result of a call of the history. */
export function readGatewayResult(block: JsonObject): Extract<Message, { role: 'tool' }> {
  const { content } = block
  const isError = block['is_error'] === true || (isObject(content) && 'error_code' in content)
  const text = isError ? errorText(content) : resultText(content)
  return {
    role: 'tool',
    toolCallId: stringIn(block['tool_use_id']),
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
      if (type === 'text') return stringIn(text)
      if (typeof sealed === 'string' && sealed !== '') return Buffer.from(sealed, 'base64').toString('utf8')
      return sealed === '' ? '' : `${stringIn(title)}\n${stringIn(url)}`
    })
    .filter((each) => each !== '')
    .join('\n')
}

/** The arguments of a call as an object; if they are not one (cut by the token limit, or no JSON), as text. */
export function inputOf(text: string): JsonObject {
  const input = parseToolJson(text)
  return isObject(input) ? input : { invalid_arguments: text }
}
