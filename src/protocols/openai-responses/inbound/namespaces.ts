// Functions in a namespace, which Codex uses for the tools of its MCP servers. Other protocols only have names: models
// are offered `namespace__name`, and the client gets the call as it declared it.

import { createHash } from 'node:crypto'
import { FreeNames } from '../../free-names.ts'
import type { FunctionToolItem, ResponsesRequest } from './schema.ts'

export interface ClientFunction {
  readonly name: string
  readonly namespace: string | undefined
}

/** The usual limit for function names. */
const longestName = 64

/** Every function of a request by its unique name for the model. */
export function offeredFunctions(
  request: Pick<ResponsesRequest, 'tools'>,
): ReadonlyMap<string, ClientFunction & { readonly tool: FunctionToolItem }> {
  const tools = request.tools ?? []
  const offered = new Map<string, ClientFunction & { readonly tool: FunctionToolItem }>()
  const names = new FreeNames()
  const plain = tools.filter((tool): tool is FunctionToolItem => tool.type === 'function')
  for (const tool of plain) offered.set(tool.name, { name: tool.name, namespace: undefined, tool })
  for (const { namespace, tool } of tools.flatMap(namespaceTool)) {
    const wanted = offeredName(tool.name, namespace)
    const isTaken = (offeredAs: string) => offered.has(offeredAs)
    const nameOf = (copy: number) => shortenName(`${wanted}_${copy}`)
    const free = isTaken(wanted) ? names.of(wanted, nameOf, isTaken) : wanted
    offered.set(free, { name: tool.name, namespace, tool: { ...tool, name: free } })
  }
  return offered
}

/** The name that the model sees for a function in a namespace, unless another function has it. */
export function offeredName(name: string, namespace: string | null | undefined): string {
  if (namespace == null || namespace === '') return name
  return shortenName(namespace.endsWith('__') ? `${namespace}${name}` : `${namespace}__${name}`)
}

/** The functions of a namespace; empty for any other tool. */
export function namespaceTool(tool: {
  readonly type: string
}): { readonly namespace: string; readonly tool: FunctionToolItem; readonly at: number }[] {
  return membersOf(tool).flatMap(({ member, at }) =>
    member.type === 'function' && namespaceOf(tool) !== ''
      ? [{ namespace: namespaceOf(tool), tool: member as FunctionToolItem, at }]
      : [],
  )
}

/** The indexes of tools in a namespace that are not functions. */
export function unservedMembers(tool: {
  readonly type: string
}): { readonly type: string; readonly at: number }[] {
  return membersOf(tool).flatMap(({ member: { type }, at }) => (type === 'function' ? [] : [{ type, at }]))
}

function membersOf(tool: { readonly type: string; readonly tools?: unknown }) {
  const members = tool.type === 'namespace' && Array.isArray(tool.tools) ? tool.tools : []
  return members.map((member: { readonly type: string }, at) => ({ member, at }))
}

function namespaceOf(tool: { readonly type: string; readonly name?: unknown }): string {
  return typeof tool.name === 'string' ? tool.name : ''
}

/** Shortens long names so that different ones stay different. */
function shortenName(name: string): string {
  if (name.length <= longestName) return name
  const mark = createHash('sha256').update(name).digest('hex').slice(0, 8)
  return `${name.slice(0, longestName - mark.length - 1)}_${mark}`
}
