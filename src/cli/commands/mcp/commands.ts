// The commands of MCP: names, options and help.

import type { Command } from 'commander'
import { ready, readyForClient } from '../../action.ts'
import type { Io } from '../../context.ts'

/** Adds `weir mcp`. */
export function mcpCommands(weir: Command, io: Io): void {
  const group = weir
    .command('mcp')
    .description('MCP servers that an account registers, and the gateway as one')
  const serve = group
    .command('serve')
    .description('speak MCP on standard input and output, for desktop programs; a gateway must be running')
    .option('--key <key>', 'the API key (or WEIR_API_KEY)')
    .option(
      '--url <address>',
      'the base URL of the gateway (WEIR_URL, else that of your own ~/.config/weir/weir.yaml, else this machine)',
    )
  readyForClient(serve, io, async (...given) => (await import('./serve.ts')).serveMcp(...given))
  servers(group, io)
}

function servers(group: Command, io: Io): void {
  const account = ['--account <account>', 'id or e-mail address'] as const
  const add = group
    .command('add')
    .description(
      'register an MCP server under a name, or change it; needs secrets.master_key where it is sent secrets',
    )
    .argument('<name>', 'how calls name it')
    .argument('<url>', 'such as https://mcp.example.com/mcp')
    .requiredOption(...account)
    .option('--token <token>', 'what it is sent as Authorization: Bearer; - reads standard input')
    .option('--header <header...>', 'more that it is sent: "Name: value"')
    .option('--client-id <id>', 'the OAuth client that is registered at its authorisation server')
    .option('--client-secret <secret>', 'of that client; - reads standard input')
  ready(add, io, async (...given) => (await import('./servers.ts')).addServer(...given))
  const list = group
    .command('list')
    .description('list the MCP servers of an account')
    .requiredOption(...account)
  ready(list, io, async (...given) => (await import('./servers.ts')).listServers(...given))
  const test = group
    .command('test')
    .description('connect to a registered MCP server and list its tools')
    .argument('<name>', 'its name')
    .requiredOption(...account)
  ready(test, io, async (...given) => (await import('./servers.ts')).testServer(...given))
  const remove = group
    .command('remove')
    .description('forget an MCP server and its secrets')
    .argument('<name>', 'its name')
    .requiredOption(...account)
  ready(remove, io, async (...given) => (await import('./servers.ts')).removeServer(...given))
}
