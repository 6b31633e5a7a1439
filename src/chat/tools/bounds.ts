// How often gateway tools may be called per request.

import type { DeclaredTools } from '../../conversation/gateway-tools.ts'
import type { Warning } from '../../protocols/protocol.ts'

/** The highest limit of gateway tool calls that a request may set. */
const mostCalls = 30

/** The limit of calls of a request, and what its client is told about it; `usual` if it sets none. */
export function mostCallsOf(
  { maxCalls }: Pick<DeclaredTools, 'maxCalls'>,
  usual: number,
): { readonly maxCalls: number; readonly note: readonly Warning[] } {
  if (maxCalls === undefined) return { maxCalls: usual, note: [] }
  if (maxCalls <= mostCalls) return { maxCalls, note: [] }
  const message = `At most ${mostCalls} calls of tools are run for one request.`
  return { maxCalls: mostCalls, note: [{ param: 'max_tool_calls', message }] }
}
