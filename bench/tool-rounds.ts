// What the tool loop costs: the time it adds to a round beyond that of the provider and the tool, and to a call without
// tools. `bun bench/tool-rounds.ts [--calls 200]`. Gateway, provider and client share this process and its machine; all
// are measured in turns, so that whatever else the machine does strikes all.

import { parseArgs } from 'node:util'
import { simBackend } from '../src/tools/search/backends/sim.ts'
import { searchTool } from '../src/tools/search/search-tool.ts'
import { serveWeir } from '../test/support/serve-weir.ts'

/** Milliseconds that a round may take beyond the provider's time and the tool's. */
const target = 1
const searches = 4

const { values: flags } = parseArgs({ options: { calls: { type: 'string', default: '200' } } })
const calls = Number(flags.calls)

const query = 'How high is Mount Everest?'

/** A model that searches as often as the prompt says, and answers at once. */
const provider = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  async fetch(request) {
    const { messages } = (await request.json()) as { messages: { role: string; content: string }[] }
    const wanted = Number(/searches: (\d)/.exec(messages[0]!.content)?.[1])
    const done = messages.filter(({ role }) => role === 'tool').length
    const call = { name: 'web_search', arguments: JSON.stringify({ query }) }
    const isDone = done >= wanted
    const message = isDone
      ? { role: 'assistant', content: 'High.' }
      : {
          role: 'assistant',
          content: null,
          tool_calls: [{ id: `c${done}`, type: 'function', function: call }],
        }
    return Response.json({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message, finish_reason: isDone ? 'stop' : 'tool_calls' }],
      usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
    })
  },
})
const url = `http://127.0.0.1:${provider.port}/v1`
const weir = await serveWeir({
  config: `
search: { backend: sim }
local_servers: { discover: false }
log: { level: error }
providers: { lab: { protocol: openai-chat, base_url: ${url}, api_key: k } }
models: [{ id: lab/m, price: { input: "1", output: "2" }, max_output_tokens: 4096 }]`,
})

async function ask(base: string, body: object): Promise<void> {
  const response = await fetch(`${base}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${weir.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'lab/m', ...body }),
  })
  if (!response.ok) throw new Error(await response.text())
  await response.arrayBuffer()
}

const said = (count: number) => [{ role: 'user', content: `searches: ${count}` }]
const tools = [{ type: 'web_search' }]
const tool = searchTool({
  backend: simBackend(Date.now),
  request: {
    kind: 'web-search',
    param: 'tools[0]',
    engine: 'auto',
    contextSize: 'medium',
    location: undefined,
    allowedDomains: [],
    blockedDomains: [],
    maxUses: undefined,
    rest: {},
  },
  recency: undefined,
  maxResults: 5,
  allows: () => true,
  onFault: () => undefined,
})

const ways = {
  provider: () => ask(url, { messages: said(0) }),
  tool: () =>
    tool.run(JSON.stringify({ query }), {
      signal: new AbortController().signal,
      deadlineAt: performance.now() + 30_000,
    }),
  plain: () => ask(weir.baseUrl, { messages: said(0) }),
  declared: () => ask(weir.baseUrl, { messages: said(0), tools }),
  rounds: () => ask(weir.baseUrl, { messages: said(searches), tools }),
} satisfies Record<string, () => Promise<unknown>>

const times = Object.fromEntries(Object.keys(ways).map((way) => [way, [] as number[]]))
for (let turn = 0; turn < calls + 20; turn++) {
  for (const [way, run] of Object.entries(ways)) {
    const from = performance.now()
    await run()
    // The first turns warm everything up.
    if (turn >= 20) times[way]!.push(performance.now() - from)
  }
}
await weir.stop()
await provider.stop(true)

const median = (way: keyof typeof ways) => times[way]!.toSorted((a, b) => a - b)[Math.floor(calls / 2)]!
const perRound = (median('rounds') - median('declared')) / searches
const added = perRound - median('provider') - median('tool')
const row = (what: string, ms: number) =>
  process.stdout.write(`${what.padEnd(58)}${ms.toFixed(2).padStart(8)} ms\n`)
row('the provider alone', median('provider'))
row('the tool alone', median('tool'))
row('a call without tools', median('plain'))
row('a call that declares a tool and calls none', median('declared'))
row(`a call of ${searches} searches`, median('rounds'))
row('a round and its search, in it', perRound)
row(`what the loop adds to a round (${target} ms at most)`, added)
process.exitCode = added > target ? 1 : 0
