// The tools that a client of the Responses protocol runs itself: declared in `tools`, in items of the conversation
// (`additional_tools`), found by its search, alone or in namespaces. Models are offered each as a function.

import { createHash } from 'node:crypto'
import type { CallForm, FunctionTool, JsonObject, ToolForm } from '../../../conversation/request.ts'
import { readMark } from '../../request/prompt-parts.ts'
import { isObject, nonEmpty } from '../../lenient.ts'
import { FreeNames } from '../../names.ts'
import { clientTools, type ClientToolType, isClientToolType } from '../../openai/client-tools.ts'
import { type FunctionToolItem, type InputItem, kindOf, type ResponsesRequest } from './schema.ts'

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
