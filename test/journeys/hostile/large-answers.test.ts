// Providers and MCP servers whose answers are small on the wire, or one by one, and huge together: what the gateway's
// process takes for them, and how often it asks for them.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib'
import { post, restingCredits, postAs } from '../../support/call-gateway.ts'
import { mcpServer } from '../../support/mcp-server.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import {
  chunk,
  event,
  manners,
  plain,
  type Script,
  type ScriptedProvider,
  startScriptedProvider,
  streamHead,
} from '../../support/scripted-provider.ts'

const unpackedBytes = 400_000_000
const mostMegabytes = 200

const raw = Buffer.alloc(unpackedBytes, 0x20)
const bombs: Readonly<Record<string, Buffer>> = {
  br: brotliCompressSync(raw, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  gzip: gzipSync(raw),
  zstd: zstdCompressSync(raw),
}
const types = { whole: 'application/json', stream: 'text/event-stream', error: 'application/json' } as const

let provider: ScriptedProvider
let weir: RunningWeir

beforeAll(async () => {
  const scripts = Object.entries(bombs).flatMap(([encoding, bomb]) =>
    Object.entries(types).map(([kind, type]) => {
      const status = kind === 'error' ? 500 : 200
      const answer = plain(status, type, bomb, { 'content-encoding': encoding })
      return [
        `${encoding}-${kind}`,
        (wire: { write(bytes: string | Uint8Array): unknown; end(): void }) => {
          void wire.write(answer)
          wire.end()
        },
      ] as const
    }),
  )
  const endless: Script = async (wire) => {
    await wire.write(streamHead)
    await wire.write(chunk(manners.start + manners.words))
    // Events that hold no word: neither a count of tokens nor the size of one event ends them.
    const wordless = chunk(event({ choices: [], padding: 'x'.repeat(100_000) }))
    while (await wire.write(wordless)) continue
  }
  provider = await startScriptedProvider({ ...Object.fromEntries(scripts), endless })
  const models = [...scripts, ['endless']].map(
    ([name]) => `  - { id: lab/${name}, price: { input: "1", output: "2" } }`,
  )
  weir = await startWeir({
    config: `
local_servers: { discover: false }
limits: { upstream_stream_bytes: 30000000 }
egress: { allow_hosts: ["127.0.0.1"] }
providers:
  lab: { protocol: openai-chat, base_url: "${provider.url}", api_key: any }
models:
${models.join('\n')}
`,
  })
}, 60_000)

afterAll(async () => {
  await weir?.stop()
  await provider?.stop()
})

/** How much more memory the process takes at its highest while `work` runs, megabytes. */
async function peakOf(work: () => Promise<unknown>): Promise<number> {
  const field = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${weir.pid}/status`, 'utf8'))![1])
  const before = field('VmRSS')
  await work()
  return (field('VmHWM') - before) / 1_000
}

const ask = (model: string, stream: boolean, more: object = {}) =>
  post(weir, { model, stream, messages: [{ role: 'user', content: 'Where does it run?' }], ...more })

describe.each(Object.keys(bombs))('a provider that answers 400 MB in %s', (encoding) => {
  test.each(['whole', 'stream'])('is read within the limit and asked once (%s)', async (kind) => {
    const before = provider.arrivals.length
    const peak = await peakOf(async () => {
      const answer = await ask(`lab/${encoding}-${kind}`, kind === 'stream')
      expect({ status: answer.status, code: answer.error?.code }).toEqual({
        status: 502,
        code: 'upstream_error',
      })
    })
    expect(provider.arrivals.length - before).toBe(1)
    expect(peak).toBeLessThan(mostMegabytes)
    expect(await restingCredits(weir)).toMatchObject({ held: '0', total_used: '0' })
  })

  test('and calls it an error, whose beginning is all that is read', async () => {
    const peak = await peakOf(() => ask(`lab/${encoding}-error`, false))
    expect(peak).toBeLessThan(mostMegabytes)
  })
})

test('a stream of small events is ended when they are too much together, and what was delivered is charged', async () => {
  const before = Number((await restingCredits(weir)).total_used)
  const answer = await ask('lab/endless', true)
  expect(answer.content).toBe('The river runs.')
  expect(answer.error?.code).toBe('upstream_error')
  const { held, total_used: used } = await restingCredits(weir)
  expect(held).toBe('0')
  expect(Number(used)).toBeGreaterThan(before)
})

describe('MCP servers', () => {
  /** A call that names a server so many times, and how much memory it takes. */
  async function declared(url: string, times: number) {
    const tools = Array.from({ length: times }, (_, at) => ({
      type: 'mcp',
      server_label: `srv${at}`,
      server_url: `${url}?${at}`,
      require_approval: 'never',
    }))
    let answer: { output?: { type: string; error?: string; tools?: [] }[] } = {}
    const peak = await peakOf(async () => {
      const response = await postAs(`${weir.baseUrl}/responses`, weir.key, {
        model: 'sim/echo',
        input: 'hello',
        tools,
      })
      answer = (await response.json()) as typeof answer
    })
    return { output: answer.output, peak }
  }

  /** A page of nine megabytes: below the limit of one answer. */
  const page = Array.from({ length: 140 }, (_, at) => ({
    name: `tool-${at}`,
    inputSchema: { type: 'object', properties: {}, title: 'x'.repeat(65_000) },
  }))

  test('that list their tools in pages without end are read for one answer’s worth, one by one and together', async () => {
    let pages = 0
    using server = mcpServer({
      handle: ({ method }) => {
        if (method !== 'tools/list') return undefined
        pages++
        const named = page.map(({ name, ...tool }) => ({ name: `${name}-${pages}`, ...tool }))
        return { tools: named, nextCursor: `${pages}` }
      },
    })
    const { output, peak } = await declared(server.url, 16)
    expect(peak).toBeLessThan(mostMegabytes)
    const lists = output!.filter(({ type }) => type === 'mcp_list_tools')
    expect(lists).toHaveLength(16)
    for (const { error, tools: listed } of lists) {
      expect(error).toMatch(/more than (10485760 bytes|one call may read)/)
      expect(listed).toEqual([])
    }
    // Two pages of each at most, and no more of all together than one call may read.
    expect(pages).toBeLessThanOrEqual(32)
  })

  test('whose lists are as large as they may be take some copies of what one call may read', async () => {
    using server = mcpServer({
      handle: ({ method }) => (method === 'tools/list' ? { tools: page.slice(0, 128) } : undefined),
    })
    const { output, peak } = await declared(server.url, 3)
    // The simulator, as most models, takes fewer tools than that.
    expect(output).toBeUndefined()
    expect(peak).toBeLessThan(1.5 * mostMegabytes)
  })
})
