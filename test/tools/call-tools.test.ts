// The tools of one call: what is offered to the model, and that nothing stays open.

import { describe, expect, test } from 'bun:test'
import type { DeclaredTools } from '../../src/conversation/gateway-tools.ts'
import { GatewayError } from '../../src/errors/errors.ts'
import {
  CallTools,
  type GatewayTool,
  offerTools,
  type ToolSource,
  type ToolSources,
} from '../../src/tools/tool.ts'

function toolOf(preferredName: string): GatewayTool {
  return {
    preferredName,
    description: '',
    parameters: { type: 'object' },
    origin: { kind: 'mcp', serverLabel: 'a', tool: preferredName },
    mostCost: 0n,
    run: async () => ({ text: 'ran', cost: 0n, searches: 0 }),
  }
}

describe('names offered to a model', () => {
  test.each([
    [['look'], [], ['look']],
    [['look', 'look', 'look'], [], ['look', 'look_2', 'look_3']],
    [['look'], ['look', 'look_2'], ['look_3']],
    [['files/read', 'files.read'], [], ['files_read', 'files_read_2']],
    [['4ever', '', 'lösch'], [], ['tool_4ever', 'tool_', 'l_sch']],
    [['x'.repeat(80), 'x'.repeat(90)], [], ['x'.repeat(64), `${'x'.repeat(62)}_2`]],
  ])('%p beside the functions %p are %p', (preferred, taken, names) => {
    expect(offerTools(preferred.map(toolOf), taken).map(({ name }) => name)).toEqual(names)
  })
})

const caller = {
  account: 'anna',
  mode: 'live',
  requestId: 'req_1',
  signal: new AbortController().signal,
  deadlineAt: 0,
} as const

const declared: DeclaredTools = {
  declarations: ['a', 'b'].map((serverLabel, at) => ({
    kind: 'mcp',
    param: `tools[${at}]`,
    serverLabel,
    declaration: {},
  })),
  maxCalls: undefined,
  approved: [],
  history: [],
}

/** Sources whose `b` opens with the given promise. */
function sourcesWith(b: () => ReturnType<ToolSource['open']>) {
  const closed: string[] = []
  const opened = async () => ({ tools: [toolOf('look')], items: [{ type: 'mcp_list_tools' }] })
  const mcp: ToolSources['mcp'] = ({ serverLabel }) => ({
    open: serverLabel === 'b' ? b : opened,
    close: async () => void closed.push(serverLabel),
  })
  return { closed, sources: { mcp, 'web-search': mcp as never } satisfies ToolSources }
}

test('tools of several servers are told apart, beside the functions of the client', async () => {
  const { closed, sources } = sourcesWith(async () => ({ tools: [toolOf('look')], items: [] }))
  const tools = await CallTools.open(sources, declared, caller, ['look'])
  expect(tools.tools.map(({ name }) => name)).toEqual(['look_2', 'look_3'])
  expect(tools.toolNamed('look')).toBeUndefined()
  expect(tools.toolNamed('look_3')).toBe(tools.tools[1])
  expect(tools.items).toEqual([{ type: 'mcp_list_tools' }])
  await tools.close()
  expect(closed).toEqual(['a', 'b'])
})

test('a tool that its server does not offer now fails, and is no function of the client', async () => {
  const { sources } = sourcesWith(async () => ({ tools: [], items: [] }))
  const tools = await CallTools.open(sources, declared, caller, ['b__own'])
  const { tool } = tools.toolNamed('b__look')!
  expect(tool.origin).toEqual({ kind: 'mcp', serverLabel: 'b', tool: 'look' })
  expect(await tool.run('{}', {} as never)).toMatchObject({
    text: 'The server "b" offers no such tool now.',
    failure: { code: 'tool_not_found' },
  })
  expect([tools.toolNamed('b__own'), tools.toolNamed('c__look'), tools.toolNamed('look_9')]).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})

test('where one declaration cannot be served, what has been opened is closed', async () => {
  const { closed, sources } = sourcesWith(() => Promise.reject(new GatewayError('invalid_request')))
  const failed: unknown = await CallTools.open(sources, declared, caller, []).catch((error: unknown) => error)
  expect(failed).toMatchObject({ code: 'invalid_request' })
  expect(closed).toEqual(['a', 'b'])
})
