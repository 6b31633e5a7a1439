// Schemas of the Responses protocol for clients. The OpenAPI page is generated from them, so they have no transforms.
// Unknown fields, items and tools are accepted: what is not supported is named in the answer's warnings.

import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { CallForm, FunctionTool, JsonObject, ToolForm } from '../../../conversation/request.ts'
import { isObject, nonEmpty } from '../../lenient.ts'
import { FreeNames } from '../../names.ts'
import { clientTools, type ClientToolType, isClientToolType } from '../../openai/client-tools.ts'
import { reasoningEffort } from '../../openai/parameters.ts'
import { costDetailsSchema } from '../../openai/usage.ts'
import { gatewayShape } from '../../request/gateway-tools.ts'
import { cacheBreakpoint, cacheControl, readMark } from '../../request/prompt-parts.ts'

const text = z.string()
const flag = z.boolean()
const shortName = z.string().min(1).max(256)
const json = z.looseObject({})
const countFrom = (least: number) => z.int().min(least)

/** Any other type. It ends the check, so that a union reports the faults of the type that the client meant. */
function otherThan(names: readonly string[], error: string) {
  return text.min(1).refine((type) => !names.includes(type), { error, abort: true })
}

// ---- tools ------------------------------------------------------------------------------------------------

const functionTool = z.looseObject({
  type: z.literal('function'),
  name: shortName,
  description: text.nullish(),
  parameters: json.nullish(),
  strict: flag.nullish(),
  cache_control: cacheControl,
})

/** A tool whose argument is a text, which may have to follow a grammar. */
const customTool = z.looseObject({
  type: z.literal('custom'),
  name: shortName,
  description: text.nullish(),
  format: z
    .union([
      z.looseObject({ type: z.literal('text') }),
      z.looseObject({ type: z.literal('grammar'), syntax: z.enum(['lark', 'regex']), definition: text }),
    ])
    .nullish(),
})

/** Tools of a namespace are served as others are. */
const namespaceTool = z.looseObject({
  type: z.literal('namespace'),
  name: text.max(512).nullish(),
  description: text.nullish(),
  tools: z
    .array(
      z.union([
        functionTool,
        customTool,
        z.looseObject({ type: otherThan(['function', 'custom'], 'is not a function') }),
      ]),
    )
    .max(1024)
    .nullish(),
})

const ofOtherType = z.union([
  customTool,
  z.looseObject({
    type: z.literal('tool_search'),
    execution: z.enum(['client', 'server']).nullish(),
    description: text.nullish(),
    parameters: json.nullish(),
  }),
  z.looseObject({ type: z.literal('shell'), environment: z.looseObject({ type: text }).nullish() }),
  z.looseObject({
    type: otherThan(['function', 'namespace', 'custom', 'tool_search', 'shell'], 'is not a function'),
  }),
])

// ---- input ------------------------------------------------------------------------------------------------

/** What a part may carry to be cached with all before it. */
const marks = { cache_control: cacheControl, prompt_cache_breakpoint: cacheBreakpoint }

const part = z.discriminatedUnion('type', [
  z.looseObject({ type: z.enum(['input_text', 'output_text', 'text']), text, ...marks }),
  z.looseObject({ type: z.literal('refusal'), refusal: text }),
  z
    .looseObject({
      type: z.literal('input_image'),
      image_url: text.min(1).nullish(),
      file_id: text.min(1).nullish(),
      detail: z.enum(['auto', 'low', 'high', 'original']).nullish(),
      ...marks,
    })
    .refine((image) => image.image_url != null || image.file_id != null, {
      error: 'needs image_url or file_id',
    }),
  z
    .looseObject({
      type: z.literal('input_file'),
      file_data: text.min(1).nullish(),
      file_id: text.min(1).nullish(),
      file_url: text.min(1).nullish(),
      filename: text.nullish(),
      ...marks,
    })
    .refine((file) => file.file_data != null || file.file_id != null || file.file_url != null, {
      error: 'needs one of file_data, file_id and file_url',
    }),
  z.looseObject({
    type: z.literal('input_audio'),
    input_audio: z.looseObject({ data: text.min(1), format: text.min(1) }),
  }),
])

const content = z.union([text, z.array(part)])
const itemId = { id: text.nullish() }
/** Calls, and what answers them. */
const called = { ...itemId, call_id: text.min(1) }
/** With what a model is told of a result. */
const answered = { ...called, output: content, cache_control: cacheControl }

const knownItem = z.discriminatedUnion('type', [
  z.looseObject({
    // Optional for messages.
    type: z.literal('message').nullish(),
    ...itemId,
    role: z.enum(['user', 'assistant', 'system', 'developer']),
    content,
    phase: text.nullish(),
    cache_control: cacheControl,
  }),
  z.looseObject({
    type: z.literal('function_call'),
    ...called,
    name: shortName,
    namespace: text.nullish(),
    arguments: text,
    extra_content: z
      .looseObject({ google: z.looseObject({ thought_signature: text.nullish() }).nullish() })
      .nullish(),
  }),
  z.looseObject({ type: z.literal('function_call_output'), ...answered }),
  z.looseObject({
    type: z.literal('reasoning'),
    ...itemId,
    summary: z.array(z.looseObject({ text })).nullish(),
    content: z.array(z.looseObject({ text })).nullish(),
    encrypted_content: text.nullish(),
  }),
  z.looseObject({ type: z.literal('image_generation_call'), ...itemId, result: text.nullish() }),
  z.looseObject({
    type: z.literal('web_search_call'),
    ...itemId,
    action: json.nullish(),
    status: text.nullish(),
  }),
  z.looseObject({ type: z.literal('mcp_list_tools'), ...itemId, server_label: text, tools: z.array(json) }),
  z.looseObject({ type: z.literal('mcp_call'), ...itemId, server_label: text, name: text, arguments: text }),
  z.looseObject({
    type: z.literal('mcp_approval_request'),
    id: text.min(1),
    server_label: text,
    name: text,
    arguments: text,
  }),
  z.looseObject({
    type: z.literal('mcp_approval_response'),
    ...itemId,
    approval_request_id: text.min(1),
    approve: flag,
    reason: text.nullish(),
  }),
  z.looseObject({ type: z.literal('item_reference'), id: text.min(1) }),
  z.looseObject({
    type: z.literal('custom_tool_call'),
    ...called,
    name: shortName,
    namespace: text.nullish(),
    input: text,
  }),
  z.looseObject({ type: z.literal('custom_tool_call_output'), ...answered }),
  z.looseObject({ type: z.literal('local_shell_call'), ...called, action: json }),
  z
    .looseObject({
      type: z.literal('local_shell_call_output'),
      ...itemId,
      call_id: text.min(1).nullish(),
      output: text,
    })
    .refine((item) => item.call_id != null || item.id != null, { error: 'needs call_id or id' }),
  z.looseObject({ type: z.literal('shell_call'), ...called, action: json }),
  z.looseObject({ type: z.literal('shell_call_output'), ...called, output: z.union([text, z.array(json)]) }),
  z.looseObject({ type: z.literal('apply_patch_call'), ...called, operation: json }),
  z.looseObject({
    type: z.literal('apply_patch_call_output'),
    ...called,
    status: text.nullish(),
    output: text.nullish(),
  }),
  z.looseObject({
    type: z.literal('tool_search_call'),
    ...itemId,
    call_id: text.nullish(),
    execution: text.nullish(),
    arguments: z.union([text, json]),
  }),
  z.looseObject({
    type: z.literal('tool_search_output'),
    ...itemId,
    call_id: text.nullish(),
    execution: text.nullish(),
    tools: z.array(json).max(1024),
  }),
  z.looseObject({
    type: z.literal('additional_tools'),
    ...itemId,
    tools: z.array(z.union([functionTool, namespaceTool, ofOtherType])).max(1024),
  }),
  z.looseObject({
    type: z.literal('agent_message'),
    ...itemId,
    author: text.nullish(),
    recipient: text.nullish(),
    content: z.array(
      z.discriminatedUnion('type', [
        z.looseObject({ type: z.literal('input_text'), text }),
        z.looseObject({ type: z.literal('encrypted_content'), encrypted_content: text }),
      ]),
    ),
  }),
  z.looseObject({ type: z.literal('compaction_trigger'), ...itemId }),
  z.looseObject({ type: z.literal('compaction'), ...itemId, encrypted_content: text }),
])

/** The types that those have. */
const known = [...knownItem._zod.propValues['type']!].filter((type) => typeof type === 'string')

/** Items of other types are refused by name: they may hold calls or results. */
const otherItem = z.looseObject({
  type: otherThan(known, 'is not an item of this type'),
})

export const inputItem = z.union([knownItem, otherItem])
export const declaredTool = z.union([functionTool, namespaceTool, ofOtherType])
export const mostTools = 1024

// ---- choices and formats ----------------------------------------------------------------------------------

const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  z.looseObject({ type: z.enum(['function', 'custom']), name: shortName, namespace: text.nullish() }),
  z.looseObject({
    type: z.literal('allowed_tools'),
    mode: z.enum(['auto', 'required']),
    tools: z.array(z.looseObject({ type: text, name: text.nullish(), namespace: text.nullish() })).min(1),
  }),
  z.looseObject({ type: otherThan(['function', 'custom', 'allowed_tools'], 'is not a choice of this type') }),
])

const textFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({
    type: z.literal('json_schema'),
    name: shortName,
    description: text.nullish(),
    schema: json,
    strict: flag.nullish(),
  }),
])

const reasoningShape = {
  effort: reasoningEffort.nullish(),
  summary: z.enum(['auto', 'concise', 'detailed', 'none']).nullish(),
  generate_summary: z.enum(['auto', 'concise', 'detailed']).nullish(),
  max_tokens: countFrom(0).nullish(),
}

const textShape = { format: textFormat.nullish(), verbosity: text.nullish() }

/** The members of a request's settings that are read. */
export const readMembers = {
  reasoning: new Set(Object.keys(reasoningShape)),
  text: new Set(Object.keys(textShape)),
} as const

// ---- the request ------------------------------------------------------------------------------------------

export const responsesRequest = z.looseObject({
  model: text.min(1).max(512),
  input: z.union([text, z.array(inputItem)]).nullish(),
  instructions: text.nullish(),
  previous_response_id: text.min(1).nullish(),
  store: flag.nullish(),
  stream: flag.nullish(),
  include: z.array(text).nullish(),
  max_output_tokens: countFrom(1).nullish(),
  temperature: z.number().min(0).max(2).nullish(),
  top_p: z.number().min(0).max(1).nullish(),
  top_k: countFrom(0).nullish(),
  presence_penalty: z.number().min(-2).max(2).nullish(),
  frequency_penalty: z.number().min(-2).max(2).nullish(),
  top_logprobs: countFrom(0).max(20).nullish(),
  tools: z.array(declaredTool).max(mostTools).nullish(),
  tool_choice: toolChoice.nullish(),
  parallel_tool_calls: flag.nullish(),
  reasoning: z.looseObject(reasoningShape).nullish(),
  text: z.looseObject(textShape).nullish(),
  truncation: z.enum(['auto', 'disabled']).nullish(),
  background: flag.nullish(),
  conversation: z.union([text, z.looseObject({ id: text })]).nullish(),
  metadata: z.record(z.string(), z.string()).nullish(),
  service_tier: text.nullish(),
  safety_identifier: text.nullish(),
  prompt_cache_key: text.nullish(),
  prompt_cache_retention: text.nullish(),
  prompt_cache_options: json.nullish(),
  user: text.nullish(),
  ...gatewayShape,
})

export type ResponsesRequest = z.infer<typeof responsesRequest>
export type InputPart = z.infer<typeof part>
export type InputItem = z.infer<typeof inputItem>
export type KnownItem = z.infer<typeof knownItem>
type FunctionToolItem = z.infer<typeof functionTool>

export function kindOf(item: InputItem): string {
  return item.type ?? 'message'
}

/** Whether an item has a known type. */
export function isKnown(item: InputItem): boolean {
  return known.includes(kindOf(item))
}

/** Whether an item is a call of a gateway tool. */
export function isRun(item: InputItem): boolean {
  return /^web_search_call$|^mcp_/.test(kindOf(item))
}

// ---- what clients receive ---------------------------------------------------------------------------------

const tokens = z.int().min(0)
const outputItem = z.looseObject({ type: text, id: text, status: text.optional() })

export const responseObject = z.looseObject({
  id: text,
  object: z.literal('response'),
  created_at: z.int(),
  completed_at: z.int().nullable(),
  status: z.enum(['in_progress', 'completed', 'incomplete', 'failed', 'cancelled']),
  error: z.object({ code: text, message: text }).nullable(),
  incomplete_details: z
    .object({
      reason: z.enum(['max_output_tokens', 'content_filter', 'other']),
      native_finish_reason: text.optional().describe('With `other`: the provider’s own word.'),
    })
    .nullable(),
  instructions: text.nullable(),
  model: text,
  tools: z.array(json),
  tool_choice: z.union([text, json]),
  parallel_tool_calls: flag,
  output: z.array(outputItem),
  usage: z
    .looseObject({
      input_tokens: tokens,
      input_tokens_details: z.looseObject({ cached_tokens: tokens, cache_write_tokens: tokens }),
      output_tokens: tokens,
      output_tokens_details: z.looseObject({ reasoning_tokens: tokens }),
      total_tokens: tokens,
      /** US dollars. */
      cost: z.number(),
      cost_details: costDetailsSchema('input', 'output'),
    })
    .nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  temperature: z.number().nullable(),
  top_p: z.number().nullable(),
  presence_penalty: z.number().nullable(),
  frequency_penalty: z.number().nullable(),
  top_logprobs: tokens.nullable(),
  reasoning: json.nullable(),
  text: json,
  truncation: text,
  max_output_tokens: tokens.nullable(),
  max_tool_calls: tokens.nullable(),
  previous_response_id: text.nullable(),
  store: flag,
  background: flag,
  service_tier: text.nullable(),
  safety_identifier: text.nullable(),
  prompt_cache_key: text.nullable(),
  warnings: z.array(z.object({ param: text, message: text })).optional(),
})

/** An event of a stream. */
export const responseEvent = z.looseObject({
  type: text,
  sequence_number: tokens,
  response: responseObject.optional(),
})

export const inputTokenCount = z.object({
  object: z.literal('response.input_tokens'),
  input_tokens: tokens,
})

export const deletedResponse = z.object({
  id: text,
  object: z.literal('response'),
  deleted: z.literal(true),
})

export const responseItemList = z.object({
  object: z.literal('list'),
  data: z.array(z.looseObject({ type: text, id: text })),
  first_id: text.nullable(),
  last_id: text.nullable(),
  has_more: flag,
})

/** The conversation that a response belongs to; undefined for none. */
export function conversationIdOf({
  conversation,
}: Pick<ResponsesRequest, 'conversation'>): string | undefined {
  if (typeof conversation === 'string') return conversation
  return conversation?.id
}

// The tools that a client of the Responses protocol runs itself: declared in `tools`, in items of the conversation
// (`additional_tools`), found by its search, alone or in namespaces. Models are offered each as a function.

/** A tool, and where the client declared it. */
export interface PlacedTool {
  readonly tool: JsonObject & { readonly type: string }
  readonly param: string
  /** The item of the conversation that declares it; undefined for one in `tools`. */
  readonly item?: InputItem
}

/** The items that declare tools beside `tools`. */
const declaring = new Set(['additional_tools', 'tool_search_output'])

/** All tools of a request; `items` are its whole input, `offset` of which are from earlier responses. */
export function placedTools(
  { tools }: Pick<ResponsesRequest, 'tools'>,
  items: readonly InputItem[],
  offset: number,
): readonly PlacedTool[] {
  const placed = (tools ?? []).map((tool, at): PlacedTool => ({ tool: toolOf(tool), param: `tools[${at}]` }))
  for (const [at, item] of items.entries()) {
    if (!declaring.has(kindOf(item))) continue
    const found = item['tools']
    const param = at < offset ? 'previous_response_id' : `input[${at - offset}]`
    for (const [index, tool] of (Array.isArray(found) ? found : []).entries())
      if (isObject(tool)) placed.push({ tool: toolOf(tool), param: `${param}.tools[${index}]`, item })
  }
  return placed
}

function toolOf(tool: object): PlacedTool['tool'] {
  const { type } = tool as { type?: unknown }
  // Tools that a search has found are written by the client's own code; a function needs no type there.
  return { ...(tool as JsonObject), type: typeof type === 'string' ? type : 'function' }
}

/** A tool of the client's by its unique name for the model. */
export interface OfferedClientTool extends CallForm {
  readonly offered: FunctionTool
}

/** Every tool that the client runs, by the name that the model sees. What an item declares again is one tool. */
export function offeredTools(placed: readonly PlacedTool[]): ReadonlyMap<string, OfferedClientTool> {
  const offered = new Map<string, OfferedClientTool>()
  const names = new FreeNames()
  const known = new Map<string, string>()
  const members = placed.flatMap(membersOf)
  // Names without a namespace come first: none of them may be taken by a longer one.
  for (const member of [...members.filter(isPlain), ...members.filter((each) => !isPlain(each))]) {
    const { kind, name, namespace } = member
    const key = keyOf(member)
    const wanted = offeredName(name, namespace)
    const isTaken = (each: string) => offered.has(each)
    const nameOf = (copy: number) => shortenName(`${wanted}_${copy}`)
    const again = member.inItem === true || (kind === 'function' && namespace === undefined)
    const same = again ? known.get(key) : undefined
    const free = same ?? (isTaken(wanted) ? names.of(wanted, nameOf, isTaken) : wanted)
    known.set(key, free)
    offered.set(free, offeredTool(member, free))
  }
  return offered
}

/** The name that the model sees for a declared tool; undefined for one that is not declared. */
export type NameOf = (tool: {
  readonly kind: CallForm['kind']
  readonly name: string
  readonly namespace: string | undefined
}) => string | undefined

export function namesOf(offered: ReadonlyMap<string, OfferedClientTool>): NameOf {
  const names = new Map(Array.from(offered, ([name, tool]) => [keyOf(tool), name]))
  return (tool) => names.get(keyOf(tool))
}

function keyOf({ kind, name, namespace }: Parameters<NameOf>[0] | CallForm): string {
  return [kind, namespace ?? '', name].join('\n')
}

interface Member extends CallForm {
  readonly tool: JsonObject
  readonly namespaceDescription?: string
  readonly inItem?: true
}

function isPlain({ namespace }: Member): boolean {
  return namespace === undefined
}

/** What a declared tool offers: itself, or what is in its namespace; nothing if the gateway runs it. */
function membersOf({ tool, item }: PlacedTool): Member[] {
  const where = item === undefined ? {} : ({ inItem: true } as const)
  if (tool.type !== 'namespace') return memberOf(tool, where)
  const namespace = nonEmpty(tool.name)
  const description = nonEmpty(tool.description)
  const within = {
    ...where,
    ...(namespace === undefined ? {} : { namespace }),
    ...(description === undefined ? {} : { namespaceDescription: description }),
  }
  return toolsIn(tool).flatMap((each) => memberOf(toolOf(each), within))
}

function memberOf(tool: PlacedTool['tool'], within: Partial<Member>): Member[] {
  const kind = tool.type
  if (kind !== 'function' && !isClientToolType(kind)) return []
  // A search that the provider runs is not called; what it would find is offered at once where there is none.
  if (kind === 'tool_search' && tool.execution !== 'client') return []
  const name = kind === 'function' || kind === 'custom' ? (nonEmpty(tool.name) ?? '') : kind
  return name === '' ? [] : [{ ...within, kind, name, tool }]
}

/** The tools of a namespace; empty for any other tool. */
export function toolsIn(tool: JsonObject): readonly JsonObject[] {
  return tool.type === 'namespace' && Array.isArray(tool.tools) ? tool.tools.filter(isObject) : []
}

function offeredTool({ kind, name, tool, ...within }: Member, free: string): OfferedClientTool {
  const form: ToolForm = { kind, name, ...within, tool: sentTool(kind, tool) }
  const { namespace, inItem } = within
  const named: CallForm = { kind, name, ...(namespace === undefined ? {} : { namespace }) }
  if (kind === 'function') {
    const isPlainFunction = namespace === undefined && inItem === undefined && tool['defer_loading'] !== true
    const offered = functionOf(tool as unknown as FunctionToolItem, free)
    return { ...named, offered: isPlainFunction ? offered : { ...offered, form } }
  }
  const { description, parameters } = clientTools[kind].offer(tool)
  const offered: FunctionTool = {
    name: free,
    description,
    parameters,
    strict: undefined,
    cache: undefined,
    form,
  }
  return { ...named, offered }
}

function functionOf(tool: FunctionToolItem, name: string): FunctionTool {
  return {
    name,
    description: tool.description ?? undefined,
    parameters: tool.parameters == null ? undefined : (tool.parameters as JsonObject),
    strict: tool.strict ?? undefined,
    // By default, a function is strict in this protocol if its schema allows it.
    ...(tool.strict == null ? { strictByDefault: true } : {}),
    cache: readMark(tool.cache_control),
  }
}

/** What providers of the protocol are sent of a tool. Others of its fields may have a price, such as a container. */
const sentFields: Readonly<Record<ClientToolType | 'function', readonly string[]>> = {
  function: ['name', 'description', 'parameters', 'strict', 'defer_loading'],
  custom: ['name', 'description', 'format', 'defer_loading'],
  local_shell: [],
  shell: ['environment'],
  apply_patch: [],
  tool_search: ['execution', 'description', 'parameters'],
}

function sentTool(kind: ClientToolType | 'function', tool: JsonObject): JsonObject {
  const sent: JsonObject = { type: kind }
  for (const field of sentFields[kind]) if (tool[field] !== undefined) sent[field] = tool[field]
  return sent
}

/** The declaration as providers of the protocol are sent it; undefined for a tool that the gateway runs. */
export function nativeTool(tool: JsonObject): JsonObject | undefined {
  const { type, name, description } = tool
  if (type === 'namespace') {
    const tools = toolsIn(tool).flatMap((each) => nativeTool(each) ?? [])
    return { type, name: name ?? '', description: description ?? '', tools } satisfies JsonObject
  }
  const kind = type ?? 'function'
  return kind === 'function' || isClientToolType(kind) ? sentTool(kind, tool) : undefined
}

/** The usual limit for function names. */
const longestName = 64

/** The name that the model sees for a function in a namespace, unless another function has it. */
export function offeredName(name: string, namespace: string | null | undefined): string {
  if (namespace == null || namespace === '') return name
  return shortenName(namespace.endsWith('__') ? `${namespace}${name}` : `${namespace}__${name}`)
}

/** Shortens long names so that different ones stay different. */
function shortenName(name: string): string {
  if (name.length <= longestName) return name
  const mark = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${name.slice(0, longestName - mark.length - 1)}_${mark}`
}
