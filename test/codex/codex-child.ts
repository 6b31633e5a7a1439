// Runs Codex against a gateway, in a network where nothing else can be reached, and checks what it sent and got. The
// arguments are the program and a folder to work in.

import { deepStrictEqual, match } from 'node:assert'
import { appendFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { mcpServer, text } from '../support/mcp-server.ts'
import { startObedientProvider } from '../support/obedient-provider.ts'
import { serveWeir } from '../support/serve-weir.ts'

const [codex = '', folder = ''] = process.argv.slice(2)
const home = join(folder, 'home')
const longestMs = 60_000
mkdirSync(join(home, '.codex'), { recursive: true })

/** An event of `codex exec --json`. */
interface Event {
  readonly type: string
  readonly item?: Item
}

interface Item extends Readonly<Record<string, unknown>> {
  readonly type: string
  readonly text: string
}

const message = { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] }
using server = mcpServer({
  tools: [{ name: 'echo', description: 'says it again', inputSchema: message }],
  call: (_, args) => text(`echo: ${String(args.message)}`),
})
const provider = startObedientProvider()
const weir = await serveWeir({
  config: `
local_servers: { discover: false }
search: { backend: sim }
providers: { obedient: { protocol: openai-chat, base_url: '${provider.url}', api_key: key } }
models: [{ id: obedient/m, price: free, context_length: 100000, max_output_tokens: 10000 }]
`,
  env: { HOME: home },
})

// As its users do it, and its MCP servers by hand.
const written = await weir.command('connect', 'codex', '--model', 'obedient/m', '--key', weir.key, '--write')
if (written.code !== 0) throw new Error(written.stderr)
const settings = join(home, '.codex', 'config.toml')
appendFileSync(
  settings,
  `
[mcp_servers.own]
url = "${server.url}"
default_tools_approval_mode = "approve"
[mcp_servers.weir]
url = "${weir.origin}/mcp"
bearer_token_env_var = "WEIR_API_KEY"
default_tools_approval_mode = "approve"
`,
)

/** What Codex did with one prompt, in order; what it says of itself is left out. */
async function codexDoes(prompt: string, ...options: string[]): Promise<readonly Item[]> {
  const child = Bun.spawn([codex, 'exec', '--skip-git-repo-check', '--json', ...options, prompt], {
    cwd: folder,
    env: { PATH: process.env['PATH'] ?? '', HOME: home, WEIR_API_KEY: weir.key },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: longestMs,
  })
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const code = await child.exited
  if (code !== 0) throw new Error(`codex ended with ${code}:\n${out}${err}`)
  const events = out.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Event] : []))
  return events.flatMap(({ type, item }) =>
    type === 'item.completed' && item && item.type !== 'error' ? [item] : [],
  )
}

const calling = (tool: string, args: object) => JSON.stringify({ call: [[tool, args]] })

let failed = 0
async function check(what: string, run: () => Promise<void>): Promise<void> {
  try {
    await run()
    process.stdout.write(`ok      ${what}\n`)
  } catch (error) {
    failed++
    process.stdout.write(`FAILED  ${what}: ${error instanceof Error ? error.message : String(error)}\n`)
  }
}

await check('an answer is streamed', async () => {
  const items = await codexDoes('Hello, Weir')
  deepStrictEqual(typesOf(items), ['agent_message'])
  match(items.at(-1)!.text, /Hello, Weir$/)
})

await check('the model calls a tool of an MCP server of Codex, and has its result', async () => {
  const items = await codexDoes(calling('own__echo', { message: 'from Codex' }))
  deepStrictEqual(typesOf(items), ['mcp_tool_call', 'agent_message'])
  const [{ server: at, tool, status }] = items as [Item]
  deepStrictEqual({ at, tool, status }, { at: 'own', tool: 'echo', status: 'completed' })
  match(items.at(-1)!.text, /echo: from Codex$/)
})

await check('Weir is an MCP server of Codex', async () => {
  const items = await codexDoes(calling('weir__list_models', {}))
  deepStrictEqual(typesOf(items), ['mcp_tool_call', 'agent_message'])
  match(items.at(-1)!.text, /obedient\/m/)
})

await check('a command runs in its sandbox, and the model has its output', async () => {
  const items = await codexDoes(calling('exec_command', { cmd: 'echo run by Codex' }))
  deepStrictEqual(typesOf(items), ['command_execution', 'agent_message'])
  match(items.at(-1)!.text, /run by Codex/)
})

await check('Weir searches the web for it, and names its sources', async () => {
  const searched = await codexDoes(
    calling('web_search', { query: 'weir credits' }),
    '-c',
    'web_search="live"',
  )
  deepStrictEqual(typesOf(searched), ['web_search', 'agent_message'])
  match(searched.at(-1)!.text, /https:\/\/docs\.example\.net\/weir\/credits/)
})

await check('the books are right', async () => {
  const { stdout } = await weir.command('ledger', 'audit', '--json')
  deepStrictEqual((JSON.parse(stdout) as { ok: boolean }).ok, true)
})

await Promise.all([provider.stop(), weir.stop()])
process.stdout.write(failed === 0 ? 'Codex works through Weir\n' : `${failed} checks failed\n`)
process.exit(failed === 0 ? 0 : 1)

function typesOf(items: readonly Item[]): string[] {
  return items.map(({ type }) => type)
}
