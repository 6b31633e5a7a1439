// Tools that are not served: the same error for clients of all three protocols.

import { describe, expect, test } from 'bun:test'
import type { JsonObject } from '../../src/conversation/request.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import { shownTool } from '../../src/protocols/request/gateway-tools.ts'
import { asks, type Client, lowered, routeTo } from '../chat/routes.ts'

/** Clients of text completions and of Google's API have tools of other shapes, or none. */
type ToolClient = Exclude<Client, 'completions' | 'gemini'>

const lab = routeTo('lab', 'm', false)

async function answerTo(client: Client, more: JsonObject) {
  try {
    const { warnings } = await lowered(asks(client, more), lab)
    return { warned: warnings.map(({ param }) => param) }
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    return { code: error.code, param: error.details.param, message: error.message }
  }
}

const functions: Readonly<Record<ToolClient, JsonObject>> = {
  chat: { type: 'function', function: { name: 'f' } },
  responses: { type: 'function', name: 'f' },
  messages: { name: 'f', input_schema: { type: 'object' } },
}
const clients: readonly ToolClient[] = ['chat', 'responses', 'messages']
const place: Readonly<Record<ToolClient, string>> = {
  chat: 'tools[1].type',
  responses: 'tools[1].type',
  messages: 'tools.1.type',
}

describe.each([
  'web_fetch_20250910',
  'file_search',
  'code_interpreter',
  'code_execution_20250825',
  'image_generation',
  'custom_grammar',
  'computer_use_preview',
  'web_searches',
  'a_type_of_tomorrow',
])('a tool of type %s', (type) => {
  test.each(clients)('is refused by name for a client of %s', async (client) => {
    expect(await answerTo(client, { tools: [functions[client], { type, name: 'x' }] })).toEqual({
      code: 'unsupported_parameter',
      param: place[client],
      message: `'${place[client]}' cannot be honoured: tools of type "${type}" are not served here.`,
    })
  })
})

describe('tools of MCP servers', () => {
  const server = { type: 'mcp', server_label: 'a', server_url: 'https://a.example/mcp' }
  const toolset = { type: 'mcp_toolset', mcp_server_name: 'a' }

  test.each<[ToolClient, JsonObject]>([
    ['chat', toolset],
    ['responses', toolset],
    ['messages', server],
  ])('in the words of another protocol are refused for a client of %s', async (client, tool) => {
    expect(await answerTo(client, { tools: [functions[client], tool] })).toMatchObject({
      code: 'unsupported_parameter',
      param: place[client],
    })
  })

  test('a toolset needs its server', async () => {
    expect(await answerTo('messages', { tools: [toolset] })).toMatchObject({
      code: 'invalid_request',
      param: 'tools.0.mcp_server_name',
    })
  })
})

describe('a tool that Anthropic defines and its clients run', () => {
  const tools = [{ type: 'bash_20250124', name: 'bash' }]

  test('goes to Claude', async () => {
    const { body } = await lowered(
      asks('messages', { tools }),
      routeTo('anthropic', 'claude-sonnet-4-5', true),
    )
    expect(body).toMatchObject({ tools })
  })

  test('is refused for the models of others', async () => {
    expect(await answerTo('messages', { tools })).toMatchObject({
      code: 'unsupported_parameter',
      param: 'tools',
    })
  })
})

describe('what Codex sends with every request', () => {
  const sent: JsonObject[] = [
    { type: 'namespace', name: 'agents', tools: [] },
    { type: 'web_search', external_web_access: false },
  ]

  test('declares a search that it can do without', () => {
    const { gatewayTools } = asks('responses', { tools: sent }).request
    expect(gatewayTools?.declarations).toMatchObject([
      { kind: 'web-search', param: 'tools[1]', optional: true },
    ])
  })

  test('loses nothing, even where nothing may be', async () => {
    const tools = [functions.responses, ...sent]
    expect(await answerTo('responses', { tools, strict: true })).toEqual({ warned: [] })
  })
})

describe('a choice of tools that are not served', () => {
  test.each<[JsonObject, string]>([
    [{ tool_choice: { type: 'web_search_preview' } }, 'tool_choice.type'],
    [{ tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'mcp' }] } }, 'tool_choice'],
    [{ tools: [{ type: 'namespace' }], tool_choice: 'required' }, 'tool_choice'],
  ])('%j', async (more, param) => {
    const answer = await answerTo('responses', { tools: [functions.responses], ...more })
    expect(answer).toMatchObject({ code: 'unsupported_parameter', param })
  })
})

test.each([
  ['https://mcp.example/key-of-anna/mcp', 'https://mcp.example/redacted'],
  ['no address', 'https://redacted.invalid'],
])('the address of an MCP server is shown without its path, and stays a URI: %s', (url, shown) => {
  const tool = {
    type: 'mcp',
    server_label: 'a',
    server_url: url,
    authorization: 'secret',
    headers: { x: 'secret' },
  }
  expect(shownTool(tool)).toEqual({
    type: 'mcp',
    server_label: 'a',
    server_url: shown,
    headers: { x: '<redacted>' },
  })
})
