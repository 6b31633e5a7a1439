// One call of a tool, run within its bounds: whatever the tool does, there is a result for the model.

import type { ToolResult } from '../conversation/gateway-tools.ts'
import type { GatewayTool } from './tool.ts'

export interface RunBounds {
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
