// A tool that the gateway itself runs within a call, whatever model asks for it, and where such tools come from.

import type {
  ApprovedCall,
  DeclaredTools,
  ToolDeclaration,
  ToolOrigin,
  ToolResult,
} from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'

export interface GatewayTool {
  /** The name to offer to the model; the loop makes it unique among all tools of the request. */
  readonly preferredName: string
  readonly description: string
  /** JSON Schema of the arguments. */
  readonly parameters: JsonObject
  readonly origin: ToolOrigin
  /** The most a call may cost, picodollars: held before it runs; a result that costs more is charged at this. */
  readonly mostCost: bigint
  /** Whether the caller must approve a call before it runs. `approval` is given when the call has been approved once. */
  needsApproval?(argumentsText: string, approval?: ApprovedCall): boolean
  /** The id of the request for approval of a call, where the tool must know it again. */
  approvalId?(argumentsText: string): string
  /**
   * Runs a call. `argumentsText` is what the model wrote: it may be no JSON. A fault of the tool is a result with
   * `failure`; rejects only when `context.signal` aborts.
   */
  run(argumentsText: string, context: ToolContext): Promise<ToolResult>
}

export interface ToolContext {
  /** Aborts when the call's own deadline has passed, when the client disconnects and when the gateway stops. */
  readonly signal: AbortSignal
  /** When the call's deadline passes, on the clock of performance.now(). */
  readonly deadlineAt: number
  readonly progress?: (progress: ToolProgress) => void
}

interface ToolProgress {
  readonly message?: string
  readonly done?: number
  readonly total?: number
}

/** The tools of one declaration. Opened for one call and closed when that ends, however it ends. */
export interface ToolSource {
  /**
   * What the model is to be offered. Rejects with GatewayError for a declaration that is wrong or cannot be served
   * here; a server that does not answer is an item with an error, and offers nothing.
   */
  open(): Promise<OpenedTools>
  /** Also while `open` still runs. Never rejects. */
  close(): Promise<void>
}

export interface OpenedTools {
  readonly tools: readonly GatewayTool[]
  /** Items that the answer begins with, in the wire shape of the Responses protocol without `id` (`mcp_list_tools`). */
  readonly items: readonly JsonObject[]
}

export interface ToolCaller {
  /** The account's id. */
  readonly account: string
  readonly mode: 'live' | 'test'
  readonly requestId: string
  /** Aborts when the call ends before its answer does. */
  readonly signal: AbortSignal
  /** When opening must be done, on the clock of performance.now(). */
  readonly deadlineAt: number
}

export type Opener<Declaration> = (
  declaration: Declaration,
  declared: DeclaredTools,
  caller: ToolCaller,
) => ToolSource

/** Who serves which kind of declaration. Throws GatewayError for what this gateway cannot serve at all. */
export type ToolSources = {
  readonly [Declaration in ToolDeclaration as Declaration['kind']]: Opener<Declaration>
}

// Names under which tools of the gateway are offered to a model.

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
