// Drives servers of the MCP project through Weir with the official clients, in a network of its own: the servers listen
// on every address. Prints what came of it as one line of JSON.

import { mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { startObedientProvider } from '../../support/obedient-provider.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { bridgeTo } from '../../support/stdio-bridge.ts'
import { tempDir } from '../../support/tmp.ts'

const modules = resolve(import.meta.dir, '../../../node_modules/@modelcontextprotocol')
const program = (name: string) => [process.execPath, `${modules}/${name}/dist/index.js`]

using home = tempDir('weir-mcp-')
const folder = home.join('files')
mkdirSync(folder)
writeFileSync(home.join('files', 'note.txt'), 'the note in the folder')

const everything = Bun.spawn([...program('server-everything'), 'streamableHttp'], {
  env: { PATH: process.env['PATH'] ?? '', PORT: '3901' },
  stdout: 'ignore',
  stderr: 'ignore',
})
const older = Bun.spawn([...program('server-everything'), 'sse'], {
  env: { PATH: process.env['PATH'] ?? '', PORT: '3902' },
  stdout: 'ignore',
  stderr: 'ignore',
})
const memory = bridgeTo(program('server-memory'), { MEMORY_FILE_PATH: home.join('memory.json') })
const filesystem = bridgeTo([...program('server-filesystem'), folder])
const provider = startObedientProvider()

async function listens(port: number): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    try {
      await fetch(`http://127.0.0.1:${port}/`)
      return
    } catch {
      await Bun.sleep(100)
    }
  }
  throw new Error(`nobody listens at ${port}`)
}
await Promise.all([listens(3901), listens(3902)])

const weir = await serveWeir({
  config: `
local_servers: { discover: false }
egress: { allow_hosts: ['127.0.0.1'] }
providers: { obedient: { protocol: openai-chat, base_url: '${provider.url}', api_key: key } }
models: [{ id: obedient/m, price: free, input_modalities: [text, image], context_length: 100000, max_output_tokens: 1000 }]
`,
})
const openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
const anthropic = new Anthropic({ apiKey: weir.key, baseURL: weir.origin, maxRetries: 0 })

type Calls = [tool: string, args: unknown][]
const told = (...call: Calls) => JSON.stringify({ call })
const server = (url: string, more: object = {}) => ({
  type: 'mcp',
  server_label: 'srv',
  server_url: url,
  require_approval: 'never',
  ...more,
})
const http = 'http://127.0.0.1:3901/mcp'

/** A response: what its items are, and the outputs of its calls. */
async function respond(url: string, calls: Calls, more: object = {}, declaration: object = {}) {
  const answer = (await openai.responses.create({
    model: 'obedient/m',
    input: told(...calls),
    tools: [server(url, declaration)],
    ...more,
  } as never)) as OpenAI.Responses.Response
  const ran = answer.output.filter((item) => item.type === 'mcp_call')
  return {
    id: answer.id,
    output: answer.output,
    types: answer.output.map(({ type }) => type),
    outputs: ran.map(({ output, error }) => output ?? `failed: ${error}`),
    text: answer.output_text,
  }
}

async function streamed(url: string, calls: Calls) {
  const stream = await openai.responses.create({
    model: 'obedient/m',
    input: told(...calls),
    tools: [server(url)],
    stream: true,
  } as never)
  const types: string[] = []
  let text = ''
  for await (const event of stream as unknown as AsyncIterable<OpenAI.Responses.ResponseStreamEvent>) {
    types.push(event.type)
    if (event.type === 'response.output_text.delta') text += event.delta
  }
  return {
    called: types.filter((type) => type === 'response.mcp_call.completed').length,
    last: types.at(-1),
    text,
  }
}

async function chat(url: string, calls: Calls) {
  const { choices } = await openai.chat.completions.create({
    model: 'obedient/m',
    messages: [{ role: 'user', content: told(...calls) }],
    tools: [server(url)],
  } as never)
  const message = choices[0]!.message as unknown as {
    content: string
    mcp_calls: { type: string; output?: string }[]
  }
  return {
    content: message.content,
    outputs: message.mcp_calls.filter(({ type }) => type === 'mcp_call').map(({ output }) => output),
  }
}

async function message(url: string, calls: Calls) {
  const { content } = (await anthropic.beta.messages.create({
    model: 'obedient/m',
    max_tokens: 1000,
    messages: [{ role: 'user', content: told(...calls) }],
    mcp_servers: [{ type: 'url', name: 'srv', url }],
    betas: ['mcp-client-2025-04-04'],
  } as never)) as unknown as Anthropic.Beta.BetaMessage
  return content.map((block) =>
    block.type === 'mcp_tool_result'
      ? { type: block.type, is_error: block.is_error, content: block.content }
      : { type: block.type, ...('text' in block ? { text: block.text } : {}) },
  )
}

const approval = await (async () => {
  const asks = { require_approval: 'always' }
  const first = await respond(http, [['echo', { message: 'approved' }]], {}, asks)
  const request = first.output.find((item) => item.type === 'mcp_approval_request')!
  const approve = [{ type: 'mcp_approval_response', approval_request_id: request.id, approve: true }]
  const stored = await respond(http, [], { input: approve, previous_response_id: first.id }, asks)
  const history = [{ role: 'user', content: told(['echo', { message: 'approved' }]) }, ...first.output]
  const stateless = await respond(http, [], { input: [...history, ...approve], store: false }, asks)
  return {
    asked: first.types,
    stored: [stored.types, stored.outputs],
    stateless: [stateless.types, stateless.outputs],
  }
})()

/** Sessions are ended once their answers are out. */
async function sessionsLeft(): Promise<number> {
  const left = () => memory.open() + filesystem.open()
  for (let tries = 0; tries < 50 && left() > 0; tries++) await Bun.sleep(20)
  return left()
}

const results = {
  approval,
  everything: await respond(http, [
    ['echo', { message: 'hello' }],
    ['get-sum', { a: 2, b: 3 }],
    ['get-structured-content', { location: 'Chicago' }],
    ['trigger-long-running-operation', { duration: 0.2, steps: 2 }],
    ['get-sum', { a: 'two' }],
  ]),
  image: await respond(http, [['get-tiny-image', {}]]),
  imageSeen: JSON.stringify(provider.requests.at(-1)).includes('data:image/png;base64,'),
  streamed: await streamed(http, [
    ['echo', { message: 'one' }],
    ['echo', { message: 'two' }],
  ]),
  older: await respond('http://127.0.0.1:3902/sse', [['echo', { message: 'by events' }]]),
  memory: [
    await chat(memory.url, [
      ['create_entities', { entities: [{ name: 'Weir', entityType: 'gateway', observations: ['counts'] }] }],
    ]),
    await chat(memory.url, [['search_nodes', { query: 'gateway' }]]),
  ],
  filesystem: [
    await message(filesystem.url, [['list_directory', { path: folder }]]),
    await message(filesystem.url, [['read_text_file', { path: `${folder}/note.txt` }]]),
    await message(filesystem.url, [['read_text_file', { path: '/etc/passwd' }]]),
  ],
  sessionsLeft: await sessionsLeft(),
}
process.stdout.write(`${JSON.stringify(results)}\n`)

everything.kill()
older.kill()
await Promise.all([memory.stop(), filesystem.stop(), provider.stop(), weir.stop()])
process.exit(0)
