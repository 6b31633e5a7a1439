// What the tool loop costs: the time it adds to a round beyond that of the provider and the tool, and to a call without
// tools. `bun bench/tool-rounds.ts [--calls 200]`. Gateway, provider and client share this process and its machine; all
// are measured in turns, so that whatever else the machine does strikes all. Beside the clock stands the processor time
// of the process: on a busy machine the clock measures what others do as well, and the minimum of many tells more.

import { parseArgs } from 'node:util'
import { simBackend } from '../src/tools/search/open.ts'
import { searchTool } from '../src/tools/search/search-tool.ts'
import { webSearch } from '../test/support/conversation.ts'
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
  request: webSearch,
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

type Way = keyof typeof ways

/** Milliseconds of each turn. */
interface Figures {
  readonly clock: number[]
  readonly cpu: number[]
}

const figures = Object.fromEntries(
  Object.keys(ways).map((way): [string, Figures] => [way, { clock: [], cpu: [] }]),
) as Record<Way, Figures>
for (let turn = 0; turn < calls + 20; turn++) {
  for (const way of Object.keys(ways) as Way[]) {
    const cpuFrom = process.cpuUsage()
    const from = performance.now()
    await ways[way]()
    const took = performance.now() - from
    const { user, system } = process.cpuUsage(cpuFrom)
    // The first turns warm everything up.
    if (turn < 20) continue
    figures[way].clock.push(took)
    figures[way].cpu.push((user + system) / 1_000)
  }
}
await weir.stop()
await provider.stop(true)

const statistics = {
  'clock, median': (way: Way) => middleOf(figures[way].clock),
  'clock, least': (way: Way) => Math.min(...figures[way].clock),
  'cpu, median': (way: Way) => middleOf(figures[way].cpu),
  'cpu, least': (way: Way) => Math.min(...figures[way].cpu),
}

function middleOf(times: readonly number[]): number {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!
}

const kinds = Object.values(statistics)
const row = (what: string, figureOf: (of: (way: Way) => number) => number) =>
  process.stdout.write(
    `${what.padEnd(50)}${kinds.map((of) => figureOf(of).toFixed(2).padStart(15)).join('')}\n`,
  )
const roundOf = (of: (way: Way) => number) => (of('rounds') - of('declared')) / searches
const addedOf = (of: (way: Way) => number) => roundOf(of) - of('provider') - of('tool')
process.stdout.write(
  `${'milliseconds'.padEnd(50)}${Object.keys(statistics)
    .map((kind) => kind.padStart(15))
    .join('')}\n`,
)
row('the provider alone', (of) => of('provider'))
row('the tool alone', (of) => of('tool'))
row('a call without tools', (of) => of('plain'))
row('a call that declares a tool and calls none', (of) => of('declared'))
row(`a call of ${searches} searches`, (of) => of('rounds'))
row('a round and its search, in it', roundOf)
row(`what the loop adds to a round (${target} at most)`, addedOf)
process.exitCode = addedOf(statistics['cpu, median']) > target ? 1 : 0
