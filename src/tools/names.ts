// Names under which tools of the gateway are offered to a model.

import type { GatewayTool } from './tool.ts'

export interface OfferedTool {
  /** Unique among all tools of the request. */
  readonly name: string
  readonly tool: GatewayTool
}

/** What every provider allows in the name of a function; the longest of all. */
const longestName = 64

/**
 * Gives each tool a unique name among the gateway's and the client's (`taken`). Servers may use any name, so names are
 * cut to what providers allow.
 */
export function offerTools(tools: readonly GatewayTool[], taken: Iterable<string>): readonly OfferedTool[] {
  const used = new Set(taken)
  return tools.map((tool) => {
    const name = unusedName(allowedName(tool.preferredName), used)
    used.add(name)
    return { name, tool }
  })
}

function allowedName(name: string): string {
  const allowed = name.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, longestName)
  // Some providers want a letter first.
  return /^[a-zA-Z_]/.test(allowed) ? allowed : `tool_${allowed}`.slice(0, longestName)
}

function unusedName(name: string, used: ReadonlySet<string>): string {
  if (!used.has(name)) return name
  for (let number = 2; ; number++) {
    const suffix = `_${number}`
    const candidate = name.slice(0, longestName - suffix.length) + suffix
    if (!used.has(candidate)) return candidate
  }
}
