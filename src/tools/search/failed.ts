// A failed tool call: the model gets the reason, nobody is charged.

import type { ToolResult } from '../../conversation/gateway-tools.ts'

export function failedResult(code: string, message: string): ToolResult {
  return { text: `Error: ${message}`, failure: { code, message }, cost: 0n, searches: 0 }
}
