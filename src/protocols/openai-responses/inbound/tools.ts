// The tools of a request, and which of them may be called.

import type { DeclaredTools, GatewayChoice, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type { FunctionTool, JsonObject, ToolChoice } from '../../../conversation/request.ts'
import {
  declarationOf,
  declaredTools,
  isOnline,
  searchDeclaration,
  selectorOf,
} from '../../request/gateway-declarations.ts'
import { offeredFunctions, offeredName } from './namespaces.ts'
import type { PlacedItem } from '../../request/approvals.ts'
import { type FunctionToolItem, type ResponsesRequest } from './schema.ts'

/** All functions, under the names that models are offered. */
export function functionsOf(request: ResponsesRequest): readonly FunctionToolItem[] {
  const plain = (request.tools ?? []).filter((tool): tool is FunctionToolItem => tool.type === 'function')
  const inNamespaces = [...offeredFunctions(request).values()].filter(
    ({ namespace }) => namespace !== undefined,
  )
  return [...plain, ...inNamespaces.map(({ tool }) => tool)]
}

export function readTool(tool: FunctionToolItem): FunctionTool {
  return {
    name: tool.name,
    description: tool.description ?? undefined,
    parameters: tool.parameters == null ? undefined : (tool.parameters as JsonObject),
    strict: tool.strict ?? undefined,
    // By default, a function is strict in this protocol if its schema allows it.
    ...(tool.strict == null ? { strictByDefault: true } : {}),
    cache: undefined,
  }
}

/** Declared gateway tools and their earlier calls in the conversation; undefined if none are declared. */
export function readGatewayTools(
  request: ResponsesRequest,
  history: readonly PlacedItem[] = [],
): DeclaredTools | undefined {
  const isAsked = isOnline(request.model)
  if (request.tools == null && !isAsked && history.length === 0) return undefined
  const declarations = (request.tools ?? []).flatMap((tool, at): ToolDeclaration[] => {
    const declaration = declarationOf(tool as unknown as JsonObject, `tools[${at}]`)
    return declaration === undefined ? [] : [declaration]
  })
  const searches = declarations.some(({ kind }) => kind === 'web-search')
  if (isAsked && !searches) declarations.push(searchDeclaration({}, 'model'))
  return declaredTools(declarations, {
    maxCalls: request.max_tool_calls ?? undefined,
    choice: gatewayChoice(request),
    history,
  })
}

/** The tool choice among gateway tools, if the request makes one. */
export function gatewayChoice({ tool_choice: choice }: ResponsesRequest): GatewayChoice | undefined {
  if (choice == null || typeof choice === 'string') return undefined
  const only = selectorOf(choice)
  if (only) return { mode: 'required', tools: [only] }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as unknown as { mode: 'auto' | 'required'; tools: JsonObject[] }
  const selectors = tools.flatMap((tool) => selectorOf(tool) ?? [])
  return selectors.length === 0 ? undefined : { mode, tools: selectors }
}

/** Undefined also for a choice of tools that are not functions. */
export function readToolChoice(request: ResponsesRequest): ToolChoice | undefined {
  const choice = request.tool_choice
  if (choice == null) return undefined
  const names = functionsOf(request).map((tool) => tool.name)
  if (choice === 'required') {
    const some = names.length > 0 || readGatewayTools(request) !== undefined
    return some ? { kind: choice } : undefined
  }
  if (typeof choice === 'string') return { kind: choice }
  if (choice.type === 'function') return { kind: 'function', name: chosenName(choice) }
  if (choice.type !== 'allowed_tools') return undefined
  const { mode, tools } = choice as { mode: 'auto' | 'required'; tools: JsonObject[] }
  const allowed = tools.flatMap((tool) =>
    tool['type'] === 'function' && tool['name'] ? [chosenName(tool)] : [],
  )
  const served = allowed.filter((name) => names.includes(name))
  return served.length === 0 ? undefined : { kind: 'allowed', mode, names: served }
}

/** The chosen function, by its name for the model. */
export function chosenName(choice: object): string {
  const { name, namespace } = choice as { name: string; namespace?: string | null }
  return offeredName(name, namespace)
}
