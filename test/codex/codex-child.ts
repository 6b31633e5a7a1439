// Runs Codex against a gateway, in a network where nothing else can be reached, and checks what it sent and got. The
// arguments are the program and a folder to work in.

import { deepStrictEqual, match } from 'node:assert'
import { appendFileSync, mkdirSync, readFileSync } from 'node:fs'
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

const codexDoes = (prompt: string, ...options: string[]) =>
  codexAt({ home, key: weir.key }, [...options, prompt])

/** What Codex did with one prompt, in order; what it says of itself is left out. */
async function codexAt(
  { home: at, key, cwd = folder }: { home: string; key: string; cwd?: string },
  words: readonly string[],
): Promise<readonly Item[]> {
  const child = Bun.spawn([codex, 'exec', '--skip-git-repo-check', '--json', ...words], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: at, WEIR_API_KEY: key },
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

// ---- OpenAI's current models ------------------------------------------------------------------------------
// Codex knows them by name: to gpt-5.5 it offers a custom tool for patches, to gpt-5.6-sol code that calls its tools.

const patch = '*** Begin Patch\n*** Add File: made.txt\n+made by Codex\n*** End Patch\n'
const models = {
  'openai/gpt-5.5': {
    patch: ['apply_patch', patch],
    command: ['exec_command', { cmd: 'echo run by Codex' }],
  },
  'openai/gpt-5.6-sol': {
    patch: ['exec', `text(await tools.apply_patch(${JSON.stringify(patch)}))`],
    command: ['exec', `text((await tools.exec_command({ cmd: 'echo run by Codex' })).output)`],
  },
} as const

for (const protocol of ['openai-responses', 'openai-chat'] as const) {
  const known = startObedientProvider()
  const at = join(folder, protocol)
  mkdirSync(join(at, '.codex'), { recursive: true })
  const served = await serveWeir({
    config: `
local_servers: { discover: false }
providers: { openai: { base_url: '${known.url}', api_key: key, quirks: { dialects: ${protocol !== 'openai-chat'} } } }
`,
    env: { HOME: at },
  })
  for (const [model, told] of Object.entries(models)) {
    const cwd = join(at, model)
    mkdirSync(cwd, { recursive: true })
    const run = (...words: string[]) => codexAt({ home: at, key: served.key, cwd }, words)
    await served.command('connect', 'codex', '--model', model, '--key', served.key, '--write')
    const name = `${model} of ${protocol}`

    await check(`${name}: a file is patched`, async () => {
      await run('-s', 'workspace-write', JSON.stringify({ call: [told.patch] }))
      deepStrictEqual(readFileSync(join(cwd, 'made.txt'), 'utf8'), 'made by Codex\n')
    })

    await check(`${name}: a command runs, and a second turn follows`, async () => {
      const items = await run(JSON.stringify({ call: [told.command] }))
      match(items.at(-1)!.text, /run by Codex/)
      const again = await run('resume', '--last', 'And now?')
      match(again.at(-1)!.text, /^Given: And now\?$/)
      const history =
        protocol === 'openai-chat' ? known.requests.at(-1)!.messages : known.responses.at(-1)!.input
      match(JSON.stringify(history), /echo run by Codex/)
      match(JSON.stringify(history.slice(2)), /Given: .*run by Codex/)
    })
  }
  await check(
    `${protocol}: a command runs over a WebSocket, and what it gave continues the answer by its id`,
    async () => {
      const cwd = join(at, 'socket')
      mkdirSync(cwd, { recursive: true })
      const { command } = models['openai/gpt-5.5']
      const items = await codexAt({ home: at, key: served.key, cwd }, [
        '-c',
        'model_providers.weir.supports_websockets=true',
        '-m',
        'openai/gpt-5.5',
        JSON.stringify({ call: [command] }),
      ])
      deepStrictEqual(typesOf(items), ['command_execution', 'agent_message'])
      match(items.at(-1)!.text, /run by Codex/)
    },
  )

  await check(`${protocol} alone was spoken to`, async () => {
    const [completions, responses] = [known.requests.length, known.responses.length]
    deepStrictEqual(
      [completions > 0, responses > 0],
      [protocol === 'openai-chat', protocol !== 'openai-chat'],
    )
    const { stdout } = await served.command('ledger', 'audit', '--json')
    deepStrictEqual((JSON.parse(stdout) as { ok: boolean }).ok, true)
  })
  await Promise.all([known.stop(), served.stop()])
}

await Promise.all([provider.stop(), weir.stop()])
process.stdout.write(failed === 0 ? 'Codex works through Weir\n' : `${failed} checks failed\n`)
process.exit(failed === 0 ? 0 : 1)

function typesOf(items: readonly Item[]): string[] {
  return items.map(({ type }) => type)
}
