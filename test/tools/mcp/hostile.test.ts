// Servers that do what no server may: each has a clear and bounded end, and nothing of a caller's goes where the caller
// has not sent it.

import { describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import { GatewayError } from '../../../src/errors/errors.ts'
import type { DialInit } from '../../../src/egress/egress.ts'
import type { JsonObject } from '../../../src/conversation/request.ts'
import { anySchema, mcpServer, text } from '../../support/mcp-server.ts'
import { opened, run, sourceOf } from './open-source.ts'
import { processorMs } from '../../support/processor-time.ts'

const echo = { name: 'echo', inputSchema: anySchema }
const never = () => new Promise<never>(() => undefined)

/** What opening a source is refused with. */
async function refusal(
  declaration: JsonObject,
  options?: Parameters<typeof sourceOf>[1],
): Promise<GatewayError> {
  try {
    await sourceOf(declaration, options).open()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('it was opened')
}

/** The error of the item that lists a server's tools. */
async function listError(declaration: JsonObject, options?: Parameters<typeof sourceOf>[1]) {
  await using source = await opened(declaration, options)
  expect(source.tools).toEqual([])
  return source.items[0]!.error
}

function events(...data: string[]): Response {
  return new Response(data.map((each) => `data: ${each}\n\n`).join(''), {
    headers: { 'content-type': 'text/event-stream' },
  })
}

/** Sends a piece again and again until it is no longer read. */
function endless(piece: string, type: string): Response {
  const bytes = new TextEncoder().encode(piece)
  const body = new ReadableStream({
    async pull(controller) {
      await Bun.sleep(1)
      controller.enqueue(bytes)
    },
  })
  return new Response(body, { headers: { 'content-type': type } })
}

describe('a server whose list of tools cannot be had offers none, and the item says why', () => {
  test('it hangs at the first word', async () => {
    using server = mcpServer({ handle: never })
    expect(await listError({ server_url: server.url }, { openMs: 100 })).toMatch(/did not answer in time/)
  })

  test('it hangs when asked for its tools', async () => {
    using server = mcpServer({ handle: ({ method }) => (method === 'tools/list' ? never() : undefined) })
    expect(await listError({ server_url: server.url }, { openMs: 300 })).toMatch(/did not answer in time/)
  })

  test('its token takes so long that the caller has gone: nothing is begun, and no rejection ends the process', async () => {
    using server = mcpServer({ tools: [echo] })
    const gone = new AbortController()
    const source = sourceOf(
      { server_label: 'srv' },
      {
        signal: gone.signal,
        registered: async () => {
          gone.abort(new Error('the client left'))
          return { url: server.url, headers: new Headers() }
        },
      },
    )
    expect(await source.open().catch((error: Error) => error.message)).toBe('the client left')
    await source.close()
    // The runner fails a test that leaves one.
    await Bun.sleep(5)
    expect(server.connections()).toBe(0)
  })

  test('nobody listens there', async () => {
    expect(await listError({ server_url: 'http://127.0.0.1:1/mcp' })).toMatch(/the host does not answer/)
  })

  test('it answers in HTML', async () => {
    using server = mcpServer({
      handle: () => new Response('<h1>Hello</h1>', { headers: { 'content-type': 'text/html' } }),
    })
    expect(await listError({ server_url: server.url })).toMatch(
      /^The tools could not be listed: the server did not/,
    )
  })

  test.each([401, 403, 500, 503])('it answers with status %d', async (status) => {
    using server = mcpServer({ handle: () => new Response('no', { status }) })
    expect(await listError({ server_url: server.url })).toBe(
      `The tools could not be listed: the server answered HTTP ${status}.`,
    )
  })

  test('its list has no end', async () => {
    let page = 0
    using endlessList = mcpServer({
      handle: ({ method }) =>
        method === 'tools/list' ? { tools: [echo], nextCursor: String(page++) } : undefined,
    })
    expect(await listError({ server_url: endlessList.url })).toMatch(/needs more than 500 requests/)
    using circle = mcpServer({
      handle: ({ method }) => (method === 'tools/list' ? { tools: [], nextCursor: 'a' } : undefined),
    })
    expect(await listError({ server_url: circle.url })).toMatch(/never ends/)
  })

  test('it speaks of a version that nobody knows', async () => {
    using server = mcpServer({
      handle: ({ method }) =>
        method === 'initialize'
          ? { protocolVersion: '1999-01-01', capabilities: {}, serverInfo: { name: 's', version: '1' } }
          : undefined,
    })
    expect(await listError({ server_url: server.url })).toMatch(/version is not supported/)
  })
})

describe('S31 what a server lists is cut to what can be offered', () => {
  const many = Array.from({ length: 10_000 }, (_, number) => ({ name: `tool${number}` }))

  test('10,000 tools are too many, unless the caller names a few of them', async () => {
    using server = mcpServer({ tools: many })
    expect(await listError({ server_url: server.url }, { answerBytes: 10_000_000 })).toBe(
      'The server lists 10000 tools, and at most 128 can be offered: name those you need in allowed_tools.',
    )
    await using some = await opened(
      { server_url: server.url, allowed_tools: ['tool7', 'tool9999'] },
      { answerBytes: 10_000_000 },
    )
    expect(some.tools.map(({ preferredName }) => preferredName)).toEqual(['srv__tool7', 'srv__tool9999'])
  })

  test('tools with broken schemas, without names and twice there are left out, and the rest is offered', async () => {
    let deep: unknown = { type: 'object' }
    for (let level = 0; level < 50; level++) deep = { type: 'object', properties: { a: deep } }
    using server = mcpServer({
      tools: [
        echo,
        echo,
        { name: '' },
        { name: 'n'.repeat(300) },
        { name: 'text', inputSchema: 'nothing' },
        { name: 'array', inputSchema: { type: 'array' } },
        { name: 'type', inputSchema: { type: 'object', properties: { a: { type: 'banana' } } } },
        { name: 'required', inputSchema: { type: 'object', required: 'a' } },
        { name: 'properties', inputSchema: { type: 'object', properties: [] } },
        { name: 'deep', inputSchema: deep },
        { name: 'large', inputSchema: { type: 'object', description: 'x'.repeat(70_000) } },
        { name: '__proto__' },
        { name: 'constructor' },
      ],
    })
    await using source = await opened({ server_url: server.url })
    expect(source.tools.map(({ preferredName }) => preferredName)).toEqual([
      'srv__echo',
      'srv____proto__',
      'srv__constructor',
    ])
    expect(source.items[0]!.error).toBe(
      'Tools that cannot be offered were left out: echo is there twice; one has no name; ' +
        'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn… has a name of 300 characters; ' +
        'text has an invalid input schema (it is no object); array has an invalid input schema (its type is not object); ' +
        'and 5 more.',
    )
    expect((await run(source.tool('__proto__'))).output).toBe('called __proto__')
  })
})

describe('a call of a tool that goes wrong is a failure with a text for the model', () => {
  test('S21 a result of 50 MB', async () => {
    using server = mcpServer({ tools: [echo], call: () => text('x'.repeat(50_000_000)) })
    await using source = await opened({ server_url: server.url })
    const { failure, text: said } = await run(source.tool('echo'))
    expect(failure).toEqual({
      code: 'mcp_server_failed',
      message: 'The tool could not be run: the server sent an answer of more than 1000000 bytes.',
    })
    expect(said).toBe(failure!.message)
    // The next call has a connection of its own.
    expect((await run(source.tool('echo'))).failure?.code).toBe('mcp_server_failed')
  })

  test('S21 a small answer that unpacks to 100 MB', async () => {
    const bomb = gzipSync(Buffer.alloc(100_000_000, 'x'))
    using server = mcpServer({
      tools: [echo],
      call: () =>
        new Response(bomb, { headers: { 'content-encoding': 'gzip', 'content-type': 'application/json' } }),
    })
    await using source = await opened({ server_url: server.url })
    expect((await run(source.tool('echo'))).failure?.message).toMatch(/more than 1000000 bytes/)
  })

  test.each([
    ['events that say nothing', ': on and on\n\n'],
    ['one line', 'x'.repeat(10_000)],
    ['progress', `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n`.repeat(100)],
  ])('a stream of %s without end', async (_, piece) => {
    using server = mcpServer({ tools: [echo], call: () => endless(piece, 'text/event-stream') })
    await using source = await opened({ server_url: server.url }, { answerBytes: 100_000 })
    const ended = await run(source.tool('echo'), {}, 700).then(
      ({ failure }) => failure?.message,
      (error: Error) => error.name,
    )
    expect(ended).toMatch(/more than 100000 bytes|TimeoutError/)
  })

  test('a server that hangs is left at the deadline', async () => {
    using server = mcpServer({ tools: [echo], call: never })
    await using source = await opened({ server_url: server.url })
    const began = performance.now()
    expect(await run(source.tool('echo'), {}, 100).catch((error: Error) => error.name)).toBe('TimeoutError')
    expect(performance.now() - began).toBeLessThan(1_000)
  })

  const deep = `{"jsonrpc":"2.0","id":2,"result":${'['.repeat(400_000)}${']'.repeat(400_000)}}`
  test.each([
    ['JSON', () => new Response(deep, { headers: { 'content-type': 'application/json' } })],
    ['an event', () => events(deep)],
  ])('a hundred thousand arrays in each other, as %s, are not parsed', async (_, answer) => {
    using server = mcpServer({ tools: [echo], call: answer })
    await using source = await opened({ server_url: server.url })
    expect((await run(source.tool('echo'))).failure?.message).toMatch(/nests deeper than/)
  })

  test('an answer that is none', async () => {
    using server = mcpServer({ tools: [echo], call: () => ({ content: 'no list' }) })
    await using source = await opened({ server_url: server.url })
    expect((await run(source.tool('echo'))).failure?.code).toBe('mcp_server_failed')
  })

  test('an error of JSON-RPC is repeated on one line, and no more of it than needed', async () => {
    using server = mcpServer({
      tools: [echo],
      call: () => ({ error: { code: -32000, message: `a\u001b[31m\nb${'c'.repeat(10_000)}` } }),
    })
    await using source = await opened({ server_url: server.url })
    const { message } = (await run(source.tool('echo'))).failure!
    expect(message).toMatch(/^The tool could not be run: the server reports: a \[31m bc+…\.$/)
    expect(message.length).toBeLessThan(400)
  })

  test('a server that asks for the input of a user, or for a model, is told that there is none', async () => {
    using server = mcpServer({
      tools: [echo],
      call: (_, __, { id }) =>
        events(
          '{"jsonrpc":"2.0","id":"s1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}}',
          '{"jsonrpc":"2.0","id":"e1","method":"elicitation/create","params":{"message":"key?","requestedSchema":{"type":"object","properties":{}}}}',
          JSON.stringify({ jsonrpc: '2.0', id, result: text('went on') }),
        ),
    })
    await using source = await opened({ server_url: server.url })
    expect((await run(source.tool('echo'))).output).toBe('went on')
  })

  test('catastrophic addresses take no time', async () => {
    const uri = `demo://${'{+a*}'.repeat(20_000)}${'%'.repeat(50_000)}`
    using server = mcpServer({
      tools: [echo],
      call: () => ({ content: [{ type: 'resource_link', uri, name: '('.repeat(50_000) }] }),
    })
    await using source = await opened({ server_url: server.url })
    const before = processorMs()
    expect((await run(source.tool('echo'))).output!.length).toBeLessThan(1_000)
    expect(processorMs() - before).toBeLessThan(500)
  })
})

describe('S2 S3 S4 S7 what a declaration may not name', () => {
  test.each([
    'http://127.0.0.1:PORT/mcp',
    'http://2130706433:PORT/',
    'http://[::ffff:7f00:1]:PORT/',
    'http://localhost:PORT/',
    'http://good@127.0.0.1:PORT/',
    'http://169.254.169.254/latest/meta-data/',
    'http://100.64.0.1/',
    'file:///etc/passwd',
    'data:application/json,{}',
    'gopher://127.0.0.1:PORT/',
    'npx:@modelcontextprotocol/server-everything',
  ])('S3 S4 %s is refused with 400 before anybody is asked', async (url) => {
    using server = mcpServer()
    const port = server.host.split(':')[1]!
    const error = await refusal({ server_url: url.replace('PORT', port) }, { allowHosts: [] })
    expect([error.code, error.details.param]).toEqual(['url_not_allowed', 'tools.0.server_url'])
    expect(server.connections()).toBe(0)
  })

  test.each<[string, JsonObject]>([
    ['tools.0.command', { command: 'npx', server_url: 'https://example.com' }],
    ['tools.0.args', { args: ['-y'] }],
    ['tools.0.transport', { transport: 'stdio', server_url: 'https://example.com' }],
    ['tools.0.transport', { transport: { toString: null }, server_url: 'https://example.com' }],
    ['tools.0.connector_id', { connector_id: 'connector_gmail' }],
    ['tools.0.server_url', { authorization: 'token' }],
    [
      'tools.0.authorization',
      { server_url: 'https://a.example', authorization: 'a', headers: { Authorization: 'b' } },
    ],
    ['tools.0.headers.Host', { server_url: 'https://a.example', headers: { Host: 'b.example' } }],
    [
      'tools.0.headers.Mcp-Session-Id',
      { server_url: 'https://a.example', headers: { 'Mcp-Session-Id': 'x' } },
    ],
    ['tools.0.headers.x-a', { server_url: 'https://a.example', headers: { 'x-a': 'a\r\nx-b: secret' } }],
    ['tools.0.require_approval', { server_url: 'https://a.example', require_approval: 'sometimes' }],
    ['tools.0.allowed_tools', { server_url: 'https://a.example', allowed_tools: 7 }],
  ])('S7 %s is refused with 400', async (param, declaration) => {
    const refused = (() => {
      try {
        sourceOf(declaration)
      } catch (error) {
        return error
      }
      return undefined
    })()
    expect(refused).toBeInstanceOf(GatewayError)
    const error = refused as GatewayError
    expect([error.status, error.details.param]).toEqual([400, param])
    expect(error.message).not.toContain('secret')
  })

  test('S5 a name that resolves to a private address is refused, also when it does so only later', async () => {
    using server = mcpServer({ tools: [echo] })
    const dialled: string[] = []
    const fetcher = (url: string, init: DialInit) => {
      dialled.push(new URL(url).hostname)
      return fetch(server.url, {
        method: init.method,
        headers: init.headers,
        signal: init.signal,
        ...(init.body === undefined ? {} : { body: init.body }),
      })
    }
    const declaration = { server_url: 'http://rebind.example/mcp' }
    const egress = { allowHosts: [], answerBytes: 100_000, fetcher }
    const mixed = { ...egress, resolve: () => Promise.resolve(['93.184.216.34', '127.0.0.1']) }
    expect((await refusal(declaration, { egress: mixed })).code).toBe('url_not_allowed')

    let asked = 0
    const rebinding = {
      ...egress,
      resolve: () => Promise.resolve([++asked <= 4 ? '93.184.216.34' : '169.254.169.254']),
    }
    await using source = await opened(declaration, { egress: rebinding })
    const { failure } = await run(source.tool('echo'))
    expect(failure?.message).toMatch(/does not have a public address/)
    expect(new Set(dialled)).toEqual(new Set(['93.184.216.34']))
    expect(server.count('tools/call')).toBe(0)
  })
})

describe('S31 S32 what belongs to a caller goes to the server that the caller named, and nowhere else', () => {
  const secret = 'token-of-the-caller'

  test('it is sent to that server with every request', async () => {
    using server = mcpServer({ tools: [echo] })
    await using source = await opened({
      server_url: server.url,
      authorization: secret,
      headers: { 'x-team': 'a' },
    })
    await run(source.tool('echo'))
    for (const { headers } of server.requests) {
      expect([headers.get('authorization'), headers.get('x-team')]).toEqual([`Bearer ${secret}`, 'a'])
    }
    expect(JSON.stringify(source.items)).not.toContain(secret)
  })

  test.each([301, 302, 307, 308])('a redirect (%d) to another host is not followed', async (status) => {
    using other = mcpServer({ tools: [echo] })
    using server = mcpServer({
      http: () => new Response(null, { status, headers: { location: other.url } }),
    })
    await listError({ server_url: server.url, authorization: secret, headers: { 'x-api-key': secret } })
    expect(other.connections()).toBe(0)
  })

  test('a redirect to a metadata address is not followed', async () => {
    using server = mcpServer({
      http: () => new Response(null, { status: 307, headers: { location: 'http://169.254.169.254/' } }),
    })
    expect(await listError({ server_url: server.url })).toMatch(/^The tools could not be listed: /)
  })

  test('an old server cannot have the messages sent to another host', async () => {
    using other = mcpServer()
    using server = mcpServer({
      http: (request) =>
        request.method === 'POST'
          ? new Response(null, { status: 405 })
          : new Response(`event: endpoint\ndata: ${other.url}\n\n`, {
              headers: { 'content-type': 'text/event-stream' },
            }),
    })
    await listError({ server_url: server.url, authorization: secret }, { openMs: 2_000 })
    expect(other.connections()).toBe(0)
  })

  test('S32 a server that asks for a token gets none, and no address that it names is asked', async () => {
    using metadata = mcpServer()
    using server = mcpServer({
      handle: () =>
        new Response('who are you', {
          status: 401,
          headers: { 'www-authenticate': `Bearer resource_metadata="${metadata.url}"` },
        }),
    })
    expect(await listError({ server_url: server.url })).toMatch(/HTTP 401/)
    expect(metadata.connections()).toBe(0)
    for (const { headers } of server.requests) expect(headers.has('authorization')).toBe(false)
  })
})

test('S15 200 accounts with 5 calls at once each: nobody is given what is meant for another', async () => {
  using server = mcpServer({
    tools: [echo],
    call: async (_, { nonce }) => {
      await Bun.sleep(Math.random() * 20)
      return text(String(nonce))
    },
  })
  const accounts = Array.from({ length: 200 }, (_, number) => `account${number}`)
  let foreign = 0
  let answered = 0
  await Promise.all(
    accounts.map(async (account) => {
      await using source = await opened(
        { server_url: server.url, authorization: account },
        { account, openMs: 30_000 },
      )
      const nonces = Array.from({ length: 5 }, (_, number) => `${account}-${number}`)
      await Promise.all(
        nonces.map(async (nonce) => {
          const { output } = await run(source.tool('echo'), { nonce }, 30_000)
          answered++
          if (output !== nonce) foreign++
        }),
      )
    }),
  )
  expect([answered, foreign]).toEqual([1_000, 0])
  for (const { method, params, headers } of server.requests) {
    if (method !== 'tools/call') continue
    const nonce = String((params.arguments as { nonce: string }).nonce)
    expect(headers.get('authorization')).toBe(`Bearer ${nonce.split('-')[0]}`)
  }
}, 30_000)
