// The MCP client of Weir as the conformance suite wants it: connects to the server of the last argument, and does what
// the scenario is about.

import { McpConnection } from '../../../src/tools/mcp/connection.ts'

const url = process.argv.at(-1)!
const egress = { allowHosts: ['localhost', '127.0.0.1'], answerBytes: 1_000_000 }
const signal = AbortSignal.timeout(20_000)

const connection = await McpConnection.open({ url, headers: new Headers() }, egress, signal)
for (const tool of await connection.listTools(signal)) {
  const { name, inputSchema } = tool as { name: string; inputSchema: Record<string, unknown> }
  await connection.callTool({ name, inputSchema }, name === 'add_numbers' ? { a: 2, b: 3 } : {}, { signal })
}
await connection.close()
process.exit(0)
