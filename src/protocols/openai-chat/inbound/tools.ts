// The tools of a chat completions request, and the tool choice.

import type { DeclaredTools, GatewayChoice, ToolDeclaration } from '../../../conversation/gateway-tools.ts'
import type { FunctionTool, JsonObject, ToolChoice } from '../../../conversation/request.ts'
import {
  declarationOf,
  declaredTools,
  isOnline,
  searchDeclaration,
  selectorOf,
} from '../../request/gateway-declarations.ts'
import type { PlacedItem } from '../../request/approvals.ts'
import { readMark } from './read-content.ts'
import type {
  ChatCompletionRequest,
  FunctionTool as WireFunction,
  NamedFunction,
  WireMessage,
} from './schema.ts'

export function functionsOf(body: Pick<ChatCompletionRequest, 'tools'>): readonly WireFunction[] {
  return (body.tools ?? []).filter((tool): tool is WireFunction => tool.type === 'function')
}

export function readTools(body: ChatCompletionRequest): FunctionTool[] {
  if (body.tools == null && body.functions == null) return []
  const legacy = (body.functions ?? []).map((definition) => ({
    function: definition,
    cache_control: undefined,
  }))
  return [...functionsOf(body), ...legacy].map(({ function: definition, cache_control }) => ({
    name: definition.name,
    description: definition.description ?? undefined,
    parameters: definition.parameters == null ? undefined : (definition.parameters as JsonObject),
    strict: 'strict' in definition && typeof definition.strict === 'boolean' ? definition.strict : undefined,
    cache: readMark(cache_control),
  }))
}

export function readToolChoice(body: ChatCompletionRequest): ToolChoice | undefined {
  const choice = body.tool_choice ?? body.function_call
  if (choice == null) return undefined
  if (typeof choice === 'string') return { kind: choice }
  if ('allowed_tools' in choice && choice.type === 'allowed_tools') {
    const { mode, tools } = choice['allowed_tools'] as AllowedTools
    const named = tools.filter((tool): tool is NamedFunction => tool.type === 'function')
    // If only gateway tools are allowed, they are listed separately.
    if (named.length === 0) return undefined
    return { kind: 'allowed', mode, names: named.map((tool) => tool.function.name) }
  }
  if (choice.type === 'function') return { kind: 'function', name: (choice as NamedFunction).function.name }
  if ('type' in choice) return undefined
  return { kind: 'function', name: (choice as { name: string }).name }
}

interface AllowedTools {
  readonly mode: 'auto' | 'required'
  readonly tools: readonly { readonly type: string }[]
}

// ---- tools of the gateway ---------------------------------------------------------------------------------

/** The declared gateway tools; undefined if there are none. */
export function readGatewayTools(body: ChatCompletionRequest): DeclaredTools | undefined {
  const history = placedRuns(body)
  const isAsked = isOnline(body.model)
  if (body.tools == null && body.web_search_options == null && !isAsked && history.length === 0)
    return undefined
  const declarations = (body.tools ?? []).flatMap((tool, at): ToolDeclaration[] => {
    if (tool.type === 'function') return []
    const declaration = declarationOf(tool as unknown as JsonObject, `tools[${at}]`)
    return declaration === undefined ? [] : [declaration]
  })
  const searches = () => declarations.some(({ kind }) => kind === 'web-search')
  if (body.web_search_options != null && !searches())
    declarations.push(searchDeclaration(body.web_search_options as JsonObject, 'web_search_options'))
  if (isAsked && !searches()) declarations.push(searchDeclaration({}, 'model'))
  return declaredTools(declarations, {
    maxCalls: body.max_tool_calls ?? undefined,
    choice: gatewayChoice(body.tool_choice),
    history,
  })
}

const noRuns: readonly PlacedItem[] = []

/** The gateway tools' items in the history, each list after a mark of its message; none where no message has any. */
export function placedRuns({ messages }: Pick<ChatCompletionRequest, 'messages'>): readonly PlacedItem[] {
  if (!messages.some(hasRuns)) return noRuns
  return messages.flatMap((message, at) => {
    if (message.role !== 'assistant') return []
    const entries = (message.mcp_calls ?? []).map((item, index) => ({
      item: item as JsonObject,
      param: `messages[${at}].mcp_calls[${index}]`,
    }))
    return [{ item: { type: 'message', role: 'assistant' }, param: `messages[${at}]` }, ...entries]
  })
}

function hasRuns(message: WireMessage): boolean {
  return message.role === 'assistant' && message.mcp_calls != null && message.mcp_calls.length > 0
}

function gatewayChoice(choice: ChatCompletionRequest['tool_choice']): GatewayChoice | undefined {
  if (choice == null || typeof choice === 'string' || choice.type === 'function') return undefined
  if (choice.type === 'allowed_tools') {
    const { mode, tools } = choice['allowed_tools'] as AllowedTools
    const selectors = tools.flatMap((tool) => selectorOf({ ...tool }) ?? [])
    return selectors.length === 0 ? undefined : { mode, tools: selectors }
  }
  const only = selectorOf({ ...choice })
  return only && { mode: 'required', tools: [only] }
}
