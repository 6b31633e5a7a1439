// The tools of one call: opened from its declarations, closed when it ends.

import type { DeclaredTools, ToolDeclaration } from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'
import { GatewayError } from '../errors.ts'
import { offered, type OfferedTool } from './names.ts'
import type { ToolCaller, ToolSource, ToolSources } from './tool.ts'

export class CallTools {
  readonly tools: readonly OfferedTool[]
  /** Items that the answer begins with. */
  readonly items: readonly JsonObject[]
  /** For the client: which declarations are left out. */
  readonly warnings: readonly { readonly param: string; readonly message: string }[]
  readonly #sources: readonly ToolSource[]
  readonly #byName: ReadonlyMap<string, OfferedTool>

  private constructor(
    sources: readonly ToolSource[],
    tools: readonly OfferedTool[],
    items: readonly JsonObject[],
    warnings: CallTools['warnings'],
  ) {
    this.#sources = sources
    this.tools = tools
    this.items = items
    this.warnings = warnings
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]))
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
      const tools = offered(
        opened.flatMap((each) => each.tools),
        taken,
      )
      return new CallTools(
        open,
        tools,
        opened.flatMap(({ items }) => items),
        warnings,
      )
    } catch (error) {
      await closeAll(open)
      throw error
    }
  }

  /** The tool offered under this name; undefined for a function of the client. */
  named(name: string): OfferedTool | undefined {
    return this.#byName.get(name)
  }

  /** Never rejects. */
  close(): Promise<void> {
    return closeAll(this.#sources)
  }
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
