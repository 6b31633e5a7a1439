// The tools of a request, and which of them may be called.

import type { FunctionTool, JsonObject, ToolChoice } from '../../../conversation/request.ts'
import { type FunctionToolItem, type ResponsesRequest } from './schema.ts'

export function functionsOf(request: ResponsesRequest): readonly FunctionToolItem[] {
  return (request.tools ?? []).filter((tool): tool is FunctionToolItem => tool.type === 'function')
}

export function readTool(tool: FunctionToolItem): FunctionTool {
  return {
    name: tool.name,
    description: tool.description ?? undefined,
    parameters: tool.parameters == null ? undefined : (tool.parameters as JsonObject),
    strict: tool.strict ?? undefined,
    // The protocol makes a strict one of a function that says nothing, where its schema allows it.
    ...(tool.strict == null ? { strictByDefault: true } : {}),
    cache: undefined,
  }
}

/** undefined also for a choice of tools that are not served. */
export function readToolChoice(request: ResponsesRequest): ToolChoice | undefined {
  const choice = request.tool_choice
  if (choice == null) return undefined
  const names = functionsOf(request).map((tool) => tool.name)
  if (choice === 'required') return names.length === 0 ? undefined : { kind: choice }
  if (typeof choice === 'string') return { kind: choice }
  if (choice.type === 'function') return { kind: 'function', name: choice['name'] as string }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as { mode: 'auto' | 'required'; tools: { type: string; name?: string }[] }
  const allowed = tools.flatMap(({ type, name }) => (type === 'function' && name ? [name] : []))
  const served = allowed.filter((name) => names.includes(name))
  return served.length === 0 ? undefined : { kind: 'allowed', mode, names: served }
}
