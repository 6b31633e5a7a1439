// The tools of one call: opened from its declarations, closed when it ends.

import type { DeclaredTools, ToolDeclaration, ToolOrigin } from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'
import { GatewayError } from '../errors.ts'
import { offerTools, type OfferedTool } from './names.ts'
import type { GatewayTool, ToolCaller, ToolSource, ToolSources } from './tool.ts'

export class CallTools {
  readonly tools: readonly OfferedTool[]
  /** Items that the answer begins with. */
  readonly items: readonly JsonObject[]
  /** For the client: which declarations are left out. */
  readonly warnings: readonly { readonly param: string; readonly message: string }[]
  readonly #sources: readonly ToolSource[]
  readonly #byName: ReadonlyMap<string, OfferedTool>
  readonly #byOrigin: ReadonlyMap<string, OfferedTool>
  readonly #missing: (name: string) => OfferedTool | undefined

  private constructor(
    sources: readonly ToolSource[],
    tools: readonly OfferedTool[],
    items: readonly JsonObject[],
    warnings: CallTools['warnings'],
    missing: (name: string) => OfferedTool | undefined,
  ) {
    this.#missing = missing
    this.#sources = sources
    this.tools = tools
    this.items = items
    this.warnings = warnings
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]))
    this.#byOrigin = new Map(tools.map((offer) => [keyOf(offer.tool.origin), offer]))
  }

  /**
   * Opens the declared tools; `taken` are the names of the client's own functions. Rejects with GatewayError for a
   * declaration that cannot be served; nothing stays open then.
   */
  static async open(
    sources: ToolSources,
    declared: DeclaredTools,
    caller: ToolCaller,
    taken: Iterable<string>,
  ): Promise<CallTools> {
    const open: ToolSource[] = []
    const warnings: { param: string; message: string }[] = []
    try {
      for (const declaration of declared.declarations) {
        const source = sourceOrWarning(sources, declaration, declared, caller)
        if ('open' in source) open.push(source)
        else warnings.push(source)
      }
      const opened = await Promise.all(open.map((source) => source.open()))
      const own = new Set(taken)
      const tools = offerTools(
        opened.flatMap((each) => each.tools),
        own,
      )
      return new CallTools(
        open,
        tools,
        opened.flatMap(({ items }) => items),
        warnings,
        (name) => (own.has(name) ? undefined : missingTool(name, declared.declarations)),
      )
    } catch (error) {
      await closeAll(open)
      throw error
    }
  }

  /** The tool offered under this name; undefined for a function of the client. */
  toolNamed(name: string): OfferedTool | undefined {
    return this.#byName.get(name) ?? this.#missing(name)
  }

  /** The tool that ran a call of the history, under whatever name it had then. */
  ofOrigin(origin: ToolOrigin): OfferedTool | undefined {
    return this.#byOrigin.get(keyOf(origin))
  }

  /** Never rejects. */
  close(): Promise<void> {
    return closeAll(this.#sources)
  }
}

function keyOf(origin: ToolOrigin): string {
  return origin.kind === 'mcp' ? `mcp ${origin.serverLabel} ${origin.tool}` : origin.kind
}

/**
 * A tool by the name it had in an earlier turn, and that its server does not offer now, or cannot: the client, which
 * has declared no such function, could do nothing with a call of it.
 */
function missingTool(name: string, declarations: readonly ToolDeclaration[]): OfferedTool | undefined {
  const server = declarations.find((each) => each.kind === 'mcp' && name.startsWith(`${each.serverLabel}__`))
  if (server?.kind !== 'mcp') return undefined
  const { serverLabel } = server
  const message = `The server ${JSON.stringify(serverLabel)} offers no such tool now.`
  const tool: GatewayTool = {
    preferredName: name,
    description: '',
    parameters: { type: 'object' },
    origin: { kind: 'mcp', serverLabel, tool: name.slice(serverLabel.length + 2) },
    mostCost: 0n,
    run: () =>
      Promise.resolve({
        text: message,
        failure: { code: 'tool_not_found', message },
        cost: 0n,
        searches: 0,
      }),
  }
  return { name, tool }
}

/** A field that clients send with every request must not fail requests that cannot be served it. */
function sourceOrWarning(
  sources: ToolSources,
  declaration: ToolDeclaration,
  declared: DeclaredTools,
  caller: ToolCaller,
): ToolSource | { readonly param: string; readonly message: string } {
  try {
    return sourceOf(sources, declaration, declared, caller)
  } catch (error) {
    const isOptional = declaration.kind === 'web-search' && declaration.optional === true
    if (!isOptional || !(error instanceof GatewayError)) throw error
    return { param: declaration.param, message: `It was left out: ${error.message}` }
  }
}

function sourceOf(
  sources: ToolSources,
  declaration: ToolDeclaration,
  declared: DeclaredTools,
  caller: ToolCaller,
): ToolSource {
  switch (declaration.kind) {
    case 'web-search':
      return sources.webSearch(declaration, declared, caller)
    case 'mcp':
      return sources.mcp(declaration, declared, caller)
    default:
      return declaration satisfies never
  }
}

async function closeAll(sources: readonly ToolSource[]): Promise<void> {
  await Promise.all(sources.map((source) => source.close()))
}
