// The tools of one call: opened from its declarations, and closed when it ends.

import type { DeclaredTools, ToolDeclaration } from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'
import { offered, type OfferedTool } from './names.ts'
import type { ToolCaller, ToolSource, ToolSources } from './tool.ts'

export class CallTools {
  readonly tools: readonly OfferedTool[]
  /** Items that the answer begins with. */
  readonly items: readonly JsonObject[]
  readonly #sources: readonly ToolSource[]
  readonly #byName: ReadonlyMap<string, OfferedTool>

  private constructor(
    sources: readonly ToolSource[],
    tools: readonly OfferedTool[],
    items: readonly JsonObject[],
  ) {
    this.#sources = sources
    this.tools = tools
    this.items = items
    this.#byName = new Map(tools.map((tool) => [tool.name, tool]))
  }

  /**
   * Opens what a call declares; `taken` are the names of the client's own functions. Rejects with GatewayError for a
   * declaration that cannot be served; nothing stays open then.
   */
  static async open(
    sources: ToolSources,
    declared: DeclaredTools,
    caller: ToolCaller,
    taken: Iterable<string>,
  ): Promise<CallTools> {
    const open: ToolSource[] = []
    try {
      for (const declaration of declared.declarations)
        open.push(sourceOf(sources, declaration, declared, caller))
      const opened = await Promise.all(open.map((source) => source.open()))
      const tools = offered(
        opened.flatMap((each) => each.tools),
        taken,
      )
      return new CallTools(
        open,
        tools,
        opened.flatMap(({ items }) => items),
      )
    } catch (error) {
      await closeAll(open)
      throw error
    }
  }

  /** The tool that was offered under this name; undefined for a function of the client's. */
  named(name: string): OfferedTool | undefined {
    return this.#byName.get(name)
  }

  /** Never rejects. */
  close(): Promise<void> {
    return closeAll(this.#sources)
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
