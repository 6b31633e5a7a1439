// A tool that the gateway itself runs within a call, whatever model asks for it, and where such tools come from.

import type {
  ApprovedCall,
  DeclaredTools,
  ToolDeclaration,
  ToolOrigin,
  ToolResult,
} from '../conversation/gateway-tools.ts'
import type { JsonObject } from '../conversation/request.ts'
import { GatewayError } from '../errors/errors.ts'

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

// One call of a tool, run within its bounds: whatever the tool does, there is a result for the model.

interface RunBounds {
  /** Aborts when nobody waits for the result any more. */
  readonly signal: AbortSignal
  /** Milliseconds. */
  readonly timeoutMs: number
}

/** The most a model is given of one result, characters. */
export const longestText = 200_000

/**
 * Runs a call and resolves with its result, or with a failure and its reason. Rejects only when `signal` aborts.
 * `fault` is called for an exception in the tool, which is a bug.
 */
export async function runTool(
  tool: GatewayTool,
  argumentsText: string,
  { signal, timeoutMs }: RunBounds,
  fault: (error: unknown) => void,
): Promise<ToolResult> {
  signal.throwIfAborted()
  const ending = new AbortController()
  const { promise: ended, resolve: end } = Promise.withResolvers<'late' | 'gone'>()
  const timer = setTimeout(() => end('late'), timeoutMs)
  const leave = () => end('gone')
  signal.addEventListener('abort', leave, { once: true })
  try {
    const context = { signal: ending.signal, deadlineAt: performance.now() + timeoutMs }
    const ran = tool.run(argumentsText, context).then(
      (result) => checkResult(result, tool),
      (error: unknown) => {
        if (!ending.signal.aborted) fault(error)
        return failedResult('tool_error', 'The tool could not be run.')
      },
    )
    // A tool that ignores the abort is abandoned.
    const first = await Promise.race([ran, ended])
    if (typeof first !== 'string') return first
    ending.abort()
    signal.throwIfAborted()
    return failedResult('tool_timeout', `The tool has not answered within ${Math.round(timeoutMs)} ms.`)
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', leave)
  }
}

/** The result of a failed call: the model gets the reason, nothing is charged. */
export function failedResult(code: string, message: string): ToolResult {
  return { text: `The call failed: ${message}`, failure: { code, message }, cost: 0n, searches: 0 }
}

function checkResult(result: ToolResult, { mostCost }: GatewayTool): ToolResult {
  const text = result.text === '' ? 'The tool has returned nothing.' : cut(result.text)
  if (result.failure) return { ...result, text, cost: 0n, searches: 0 }
  return { ...result, text, cost: result.cost > mostCost ? mostCost : result.cost }
}

function cut(text: string): string {
  if (text.length <= longestText) return text
  return `${text.slice(0, longestText)}\n[The rest of the result, ${text.length - longestText} characters, was left out.]`
}

// The tools of one call: opened from its declarations, closed when it ends.

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
    // The compiler does not see that a declaration and its opener are of one kind.
    const open = sources[declaration.kind] as Opener<ToolDeclaration>
    return open(declaration, declared, caller)
  } catch (error) {
    const isOptional = declaration.kind === 'web-search' && declaration.optional === true
    if (!isOptional || !(error instanceof GatewayError)) throw error
    return { param: declaration.param, message: `It was left out: ${error.message}` }
  }
}

async function closeAll(sources: readonly ToolSource[]): Promise<void> {
  await Promise.all(sources.map((source) => source.close()))
}
