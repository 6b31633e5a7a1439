// The commands of MCP: names, options and help.

import type { Command } from 'commander'
import { ready } from '../../action.ts'
import type { Io } from '../../context.ts'

/** Adds `weir mcp`. */
export function mcpCommands(weir: Command, io: Io): void {
  const group = weir.command('mcp').description('the gateway as an MCP server')
  const serve = group
    .command('serve')
    .description('speak MCP on standard input and output, for desktop programs; a gateway must be running')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (that of the data directory, else the configured address)',
    )
  ready(serve, io, async (...given) => (await import('./serve.ts')).serveMcp(...given))
}
