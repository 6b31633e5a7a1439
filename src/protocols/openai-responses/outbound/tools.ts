// The tools of a request for a provider of the Responses protocol: functions, what its clients run beside them, and the
// provider's own search.

import type { WebSearchDeclaration } from '../../../conversation/gateway-tools.ts'
import type {
  CallForm,
  ChatRequest,
  FunctionTool,
  Json,
  JsonObject,
  ToolForm,
} from '../../../conversation/request.ts'
import { ableTo, approximateLocation, bareDomain, type OwnSearch, unable } from '../../lowering.ts'
import { parametersOf, shownTools } from '../../openai/parameters.ts'
import type { ResponsesQuirks } from './quirks.ts'

interface LoweredTools {
  readonly fields: JsonObject
  /** What calls of tools in namespaces, and of those without a name, are called by: see `calledName` of parse.ts. */
  readonly toolNames?: Readonly<Record<string, string>>
}

/** The tools that the provider is sent, and the choice among them. */
export function lowerTools(request: ChatRequest, quirks: ResponsesQuirks): LoweredTools {
  const shown = shownTools(request, quirks)
  const native = quirks.clientTools === 'all'
  const toolNames: Record<string, string> = {}
  if (native) for (const { form, name } of request.tools) if (form) toolNames[calledName(form, name)] = name
  const all = native ? lowerForms(shown) : shown.map(lowerTool)
  const tools = [...all, ...(native ? (request.nativeTools ?? []) : []), ...searchTools(request, quirks)]
  const named = Object.entries(toolNames).some(([called, name]) => called !== name) ? { toolNames } : {}
  if (tools.length === 0 && !shown.some(({ form }) => form?.inItem)) return { fields: {}, ...named }
  const choice = lowerToolChoice(request, quirks)
  return {
    fields: {
      ...(tools.length === 0 ? {} : { tools }),
      ...(choice === undefined ? {} : { tool_choice: choice }),
      ...searchBound(request, quirks),
    },
    ...named,
  }
}

/** Tools as the client declared them, those of a namespace together; none that an item of the conversation declares. */
function lowerForms(tools: readonly FunctionTool[]): JsonObject[] {
  const lowered: JsonObject[] = []
  const namespaces = new Map<string, Json[]>()
  for (const tool of tools) {
    const { form } = tool
    if (form?.inItem) continue
    const own = form === undefined ? lowerTool(tool) : lowerForm(tool, form)
    if (form?.namespace === undefined) {
      lowered.push(own)
      continue
    }
    const members = namespaces.get(form.namespace)
    if (members !== undefined) members.push(own)
    else {
      const list = [own]
      namespaces.set(form.namespace, list)
      const description = form.namespaceDescription ?? ''
      lowered.push({ type: 'namespace', name: form.namespace, description, tools: list })
    }
  }
  return lowered
}

function lowerForm(tool: FunctionTool, form: ToolForm): JsonObject {
  const name = form.namespace === undefined ? tool.name : form.name
  // Its schema may have been mended.
  if (form.kind === 'function') {
    const deferred: JsonObject = form.tool['defer_loading'] === true ? { defer_loading: true } : {}
    return { ...lowerTool(tool), name, ...deferred }
  }
  return form.kind === 'custom' ? { ...form.tool, name } : form.tool
}

function lowerTool(tool: FunctionTool): JsonObject {
  return {
    type: 'function',
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    parameters: parametersOf(tool),
    // Here a function is strict by default; in chat completions it is not.
    ...(tool.strictByDefault === true ? {} : { strict: tool.strict ?? false }),
  }
}

function lowerToolChoice({ toolChoice, tools }: ChatRequest, quirks: ResponsesQuirks): Json | undefined {
  switch (toolChoice?.kind) {
    case undefined:
      return undefined
    case 'auto':
    case 'none':
    case 'required':
      return toolChoice.kind
    case 'function':
      return chosenTool(toolChoice.name, tools, quirks)
    case 'allowed': {
      if (!quirks.allowedTools) return toolChoice.mode
      const allowed = toolChoice.names.map((name) => chosenTool(name, tools, quirks))
      return { type: 'allowed_tools', mode: toolChoice.mode, tools: allowed }
    }
  }
}

function chosenTool(
  name: string,
  tools: readonly FunctionTool[],
  { clientTools }: ResponsesQuirks,
): JsonObject {
  const form = clientTools === 'all' ? tools.find((tool) => tool.name === name)?.form : undefined
  if (form === undefined) return { type: 'function', name }
  const { kind, namespace } = form
  if (kind !== 'function' && kind !== 'custom') return { type: kind }
  return { type: kind, ...(namespace === undefined ? { name } : { name: form.name, namespace }) }
}

/** What the parser calls a tool, by what a call's item says of it; `name` is the tool's own for the provider. */
export function calledName({ kind, name: own, namespace }: CallForm, name: string): string {
  if (kind !== 'function' && kind !== 'custom') return kind
  if (namespace === undefined) return name
  return `${namespace}${namespace.endsWith('__') ? '' : '__'}${own}`
}

// The `web_search` tool that OpenAI and xAI run themselves.

/** xAI's limit for a list of domains. */
const xaiDomains = 5

export function ownSearch(
  search: WebSearchDeclaration,
  { reasoning }: ChatRequest,
  { quirks }: { readonly quirks: ResponsesQuirks },
): OwnSearch | undefined {
  switch (quirks.webSearch) {
    case 'none':
      return undefined
    case 'openai':
      // https://developers.openai.com/api/docs/guides/tools-web-search: "not supported with minimal reasoning".
      if (reasoning?.effort === 'minimal') return unable('is not there for models that reason minimally')
      return ableTo(search, 'search', ['allowed_domains', 'user_location', 'max_uses'])
    case 'xai':
      // https://docs.x.ai/docs/guides/tools/search-tools
      if (Math.max(search.allowedDomains.length, search.blockedDomains.length) > xaiDomains)
        return unable(`takes at most ${xaiDomains} domains`)
      return ableTo(search, 'search', ['allowed_domains', 'blocked_domains'])
  }
}

function searchTools({ webSearch }: ChatRequest, quirks: ResponsesQuirks): readonly JsonObject[] {
  if (webSearch === undefined || quirks.webSearch === 'none') return []
  const [allowed, blocked] = [webSearch.allowedDomains, webSearch.blockedDomains].map((list) =>
    list.map(bareDomain),
  )
  const filters: JsonObject = {
    ...(allowed!.length > 0 ? { allowed_domains: allowed! } : {}),
    ...(blocked!.length > 0 ? { excluded_domains: blocked! } : {}),
  }
  const filtered: JsonObject = Object.keys(filters).length > 0 ? { filters } : {}
  if (quirks.webSearch === 'xai') return [{ type: 'web_search', ...filtered }]
  const { contextSize, optional } = webSearch
  // Codex declares the tool like this with every request: cached pages only.
  const stored: JsonObject = optional === true ? { external_web_access: false } : {}
  return [
    {
      type: 'web_search',
      search_context_size: contextSize,
      ...approximateLocation(webSearch),
      ...filtered,
      ...stored,
    },
  ]
}

/** OpenAI's limit is for all calls of its own tools together; search is the only one that we offer. */
function searchBound({ webSearch }: ChatRequest, quirks: ResponsesQuirks): JsonObject {
  return quirks.webSearch === 'openai' && webSearch?.maxUses !== undefined
    ? { max_tool_calls: webSearch.maxUses }
    : {}
}
