// The gateway as an MCP server, asked by the official client: over HTTP, and over standard input and output.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { creditsOf, eventually, restingCredits } from '../../support/call-gateway.ts'
import { type ServedWeir, weirCommand } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
beforeAll(async () => {
  weir = await serveWeir({ config: 'search: { backend: sim }' })
}, 30_000)
afterAll(() => weir.stop())

type Era = 'legacy' | 'auto'

async function connected(key = weir.key, mode: Era = 'auto'): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${weir.origin}/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${key}` } },
    }),
  )
  return client
}

function textOf(result: Awaited<ReturnType<Client['callTool']>>): string {
  const [first] = result.content
  return first?.type === 'text' ? first.text : ''
}

function post(body: unknown, given: Record<string, string> = {}): Promise<Response> {
  const headers = new Headers({
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    authorization: `Bearer ${weir.key}`,
    ...given,
  })
  if (given.authorization === '') headers.delete('authorization')
  return fetch(`${weir.origin}/mcp`, {
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
}

/** What calls hold, once it is more than this. */
async function heldAbove(amount: string): Promise<string> {
  const { held } = await eventually(
    () => creditsOf(weir),
    ({ held }) => Number(held) > Number(amount),
  )
  return held
}

const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }

describe('/mcp', () => {
  test.each<Era>(['legacy', 'auto'])('lists its tools to clients of either era (%s)', async (mode) => {
    const client = await connected(weir.key, mode)
    const { tools } = await client.listTools()
    // An empty schema, which some clients refuse.
    expect(JSON.stringify(tools)).not.toMatch(/"(additionalProperties|items)":\{\}/)
    expect(tools.map(({ name }) => name)).toEqual([
      'chat',
      'list_models',
      'estimate',
      'credits',
      'web_search',
    ])
    for (const { inputSchema, description } of tools) {
      expect(inputSchema.type).toBe('object')
      expect(description).not.toBe('')
    }
    await client.close()
  })

  test('a chat is charged as any other call, and its receipt is found', async () => {
    const client = await connected()
    const answer = await client.callTool({
      name: 'chat',
      arguments: { model: 'sim/echo', system: 'Be short.', prompt: 'Hello there' },
    })
    expect(textOf(answer)).toContain('Hello there')
    const { id, cost } = answer.structuredContent as { id: string; cost: string }
    const receipt = (await (
      await fetch(`${weir.baseUrl}/generation?id=${id}`, { headers: { authorization: `Bearer ${weir.key}` } })
    ).json()) as { data: { model: string; total: string } }
    expect(receipt.data.model).toBe('sim/echo')
    expect(receipt.data.total).toBe(cost)
    await client.close()
  })

  test('list_models and credits need no arguments', async () => {
    const client = await connected()
    const listed = await client.callTool({ name: 'list_models', arguments: {} })
    const { models } = listed.structuredContent as { models: { id: string }[] }
    expect(models.map(({ id }) => id)).toContain('sim/echo')
    expect(textOf(listed)).toContain('sim/echo')
    const few = await client.callTool({ name: 'list_models', arguments: { available: false, limit: 3 } })
    expect((few.structuredContent as { models: unknown[]; more: number }).models).toHaveLength(3)

    const credits = await client.callTool({ name: 'credits', arguments: {} })
    expect(credits.structuredContent).toMatchObject({ currency: 'USD', total_purchased: '100' })
    await client.close()
  })

  test('an estimate charges nothing', async () => {
    const client = await connected()
    const before = await client.callTool({ name: 'credits' })
    const priced = await client.callTool({
      name: 'estimate',
      arguments: { model: 'sim/echo', prompt: 'Hello', max_tokens: 10 },
    })
    expect(priced.structuredContent).toMatchObject({ model: 'sim/echo' })
    expect(await client.callTool({ name: 'credits' })).toEqual(before)
    await client.close()
  })

  test('a search gives its sources, and costs what the search costs: that of the offline index, nothing', async () => {
    const client = await connected()
    const found = await client.callTool({
      name: 'web_search',
      arguments: { query: 'How high is Mount Everest?' },
    })
    const page = 'https://atlas.example.org/mount-everest'
    expect(found.structuredContent).toMatchObject({ sources: expect.arrayContaining([page]), cost: '0' })
    expect(textOf(found)).toContain(page)
    const none = await client.callTool({
      name: 'web_search',
      arguments: { query: 'x', allowed_domains: ['not a domain'] },
    })
    expect([none.isError, textOf(none)]).toEqual([true, expect.stringMatching(/\(invalid_request\)$/)])
    await client.close()
  })

  test('a key for certain models may search, and use no other model', async () => {
    const limits = ['--models', 'openai/*', '--json']
    const made = await weir.command('keys', 'create', '--account', 'owner@localhost', ...limits)
    const { key } = JSON.parse(made.stdout) as { key: string }
    const client = await connected(key)
    const found = await client.callTool({ name: 'web_search', arguments: { query: 'How high is Everest?' } })
    expect([found.isError, textOf(found)]).toEqual([undefined, expect.stringContaining('https://')])
    const refused = await client.callTool({ name: 'chat', arguments: { model: 'sim/echo', prompt: 'x' } })
    expect([refused.isError, textOf(refused)]).toEqual([
      true,
      expect.stringMatching(/\(model_not_allowed\)$/),
    ])
    await client.close()
  })

  test.each<[string, object, RegExp]>([
    ['a model that is not there', { model: 'sim/none', prompt: 'x' }, /\(model_not_found\)$/],
    ['neither prompt nor messages', { model: 'sim/echo' }, /either a prompt or messages/],
    [
      'both',
      { model: 'sim/echo', prompt: 'x', messages: [{ role: 'user', content: 'x' }] },
      /either a prompt or/,
    ],
    ['messages that are none', { model: 'sim/echo', messages: [{ role: 'nobody' }] }, /\(invalid_request\)$/],
  ])('%s is a result that says so', async (_, args, message) => {
    const client = await connected()
    const answer = await client.callTool({ name: 'chat', arguments: { ...args } })
    expect([answer.isError, textOf(answer)]).toEqual([true, expect.stringMatching(message)])
    await client.close()
  })

  test('without a key, or with a wrong one, it is 401', async () => {
    const codes: unknown[] = []
    for (const authorization of ['', 'Bearer sk-live-nobody', 'Bearer nonsense']) {
      const response = await post(list, { authorization })
      const { error } = (await response.json()) as { error: { code: string } }
      codes.push([response.status, error.code, response.headers.get('www-authenticate')])
    }
    expect(codes).toEqual([
      [401, 'missing_api_key', 'Bearer realm="weir"'],
      [401, 'invalid_api_key', 'Bearer realm="weir"'],
      [401, 'invalid_api_key', 'Bearer realm="weir"'],
    ])
  })

  test.each<Era>(['legacy', 'auto'])(
    'a cancelled chat is ended and settled, and no other (%s)',
    async (mode) => {
      const [client, other] = await Promise.all([connected(weir.key, mode), connected(weir.key, mode)])
      const gone = new AbortController()
      const hanging = client.callTool(
        { name: 'chat', arguments: { model: 'sim/hang', prompt: 'Say nothing.' } },
        { signal: gone.signal },
      )
      const first = await heldAbove('0')
      // Both clients give their calls the same ids.
      const slow = other.callTool({ name: 'chat', arguments: { model: 'sim/slow', prompt: 'Hello' } })
      await heldAbove(first)
      gone.abort()
      await expect(hanging).rejects.toThrow()
      expect(textOf(await slow)).toStartWith('slow')
      expect((await restingCredits(weir)).held).toBe('0')
      await Promise.all([client.close(), other.close()])
    },
  )

  test('S8 a page of another origin is refused, and other methods are', async () => {
    expect((await post(list, { origin: 'https://evil.example' })).status).toBe(403)
    expect((await post(list, { origin: 'null' })).status).toBe(403)
    const get = await fetch(`${weir.origin}/mcp`, { headers: { authorization: `Bearer ${weir.key}` } })
    expect([get.status, get.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('S20 what is no message of the protocol is refused, and nothing breaks', async () => {
    for (const body of ['', '{', '[]', 'null', '"x"', '['.repeat(100_000)]) {
      expect((await post(body)).status).toBe(400)
    }
    for (const body of [{}, { jsonrpc: '1.0' }, { jsonrpc: '2.0', id: {}, method: 7 }]) {
      expect((await post(body)).status).toBeLessThan(500)
    }
    const unknown = await post({ ...list, method: 'tools/none' })
    expect(await unknown.text()).toContain('-32601')
  })
})

test('weir mcp serve speaks the same by standard input and output', async () => {
  const [command = '', ...args] = weirCommand
  const transport = new StdioClientTransport({
    command,
    args: [...args, 'mcp', 'serve', '--url', weir.baseUrl],
    env: { WEIR_API_KEY: weir.key, PATH: '/usr/bin:/bin', HOME: weir.dataDir },
    cwd: weir.dataDir,
    stderr: 'pipe',
  })
  const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode: 'legacy' } })
  await client.connect(transport)
  const { tools } = await client.listTools()
  expect(tools).toHaveLength(5)
  const answer = await client.callTool({
    name: 'chat',
    arguments: { model: 'sim/echo', prompt: 'Hello you' },
  })
  expect(textOf(answer)).toContain('Hello you')
  const refused = await client.callTool({ name: 'chat', arguments: { model: 'sim/none', prompt: 'x' } })
  expect(refused.isError).toBe(true)
  await client.close()
}, 30_000)
