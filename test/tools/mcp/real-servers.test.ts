// Servers that others have written, driven through Weir by the official clients: by Streamable HTTP, by the older
// transport, and behind a bridge; on responses, chat completions and messages.

import { beforeAll, expect, test } from 'bun:test'
import { resolve } from 'node:path'
import { inOwnNetwork } from '../../support/own-network.ts'

interface Responded {
  readonly types: readonly string[]
  readonly outputs: readonly string[]
  readonly text: string
}

interface Results {
  readonly approval: Record<'asked' | 'stored' | 'stateless', unknown>
  readonly everything: Responded
  readonly image: Responded
  readonly imageSeen: boolean
  readonly streamed: { readonly called: number; readonly last: string; readonly text: string }
  readonly older: Responded
  readonly memory: readonly { readonly content: string; readonly outputs: readonly string[] }[]
  readonly filesystem: readonly (readonly {
    readonly type: string
    readonly is_error?: boolean
    readonly content?: unknown
  }[])[]
  readonly sessionsLeft: number
}

let results: Results
beforeAll(async () => {
  const child = Bun.spawn(
    [...inOwnNetwork([process.execPath, resolve(import.meta.dir, 'real-servers-child.ts')])],
    { stdout: 'pipe', stderr: 'pipe' },
  )
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  if ((await child.exited) !== 0) throw new Error(err)
  results = JSON.parse(out) as Results
}, 60_000)

test('server-everything: calls at once, values, progress, and a call that is refused', () => {
  const { types, outputs, text } = results.everything
  expect(types).toEqual(['mcp_list_tools', ...Array<string>(5).fill('mcp_call'), 'message'])
  expect(outputs).toEqual([
    'Echo: hello',
    'The sum of 2 and 3 is 5.',
    '{"temperature":36,"conditions":"Light rain / drizzle","humidity":82}',
    'Long running operation completed. Duration: 0.2 seconds, Steps: 2.',
    expect.stringMatching(/^failed: .*expected number, received string/),
  ])
  expect(text).toContain('Echo: hello')
})

test('server-everything: an image is shown to the model', () => {
  expect(results.image.text).toContain('<image_url>')
  expect(results.imageSeen).toBe(true)
})

test('server-everything: a stream of two calls', () => {
  const { called, last, text } = results.streamed
  expect([called, last]).toEqual([2, 'response.completed'])
  expect(text).toContain('Echo: one')
  expect(text).toContain('Echo: two')
})

test('server-everything: by HTTP with SSE', () => {
  expect(results.older.outputs).toEqual(['Echo: by events'])
})

test('approval, stored and sent back by the client', () => {
  const ran = [['mcp_call', 'message'], ['Echo: approved']]
  expect(results.approval).toEqual({
    asked: ['mcp_list_tools', 'mcp_approval_request'],
    stored: ran,
    stateless: ran,
  })
})

test('server-memory: what one call writes, another reads', () => {
  const [written, found] = results.memory
  expect(written!.outputs[0]).toContain('gateway')
  expect(found!.content).toContain('"name": "Weir"')
})

test('server-filesystem: files of its folder, and no other', () => {
  const [listed, read, refused] = results.filesystem.map((blocks) => {
    expect(blocks.map(({ type }) => type)).toEqual(['mcp_tool_use', 'mcp_tool_result', 'text'])
    return blocks[1]!
  })
  expect(JSON.stringify(listed!.content)).toContain('note.txt')
  expect(JSON.stringify(read!.content)).toContain('the note in the folder')
  expect([refused!.is_error, JSON.stringify(refused!.content)]).toEqual([
    true,
    expect.stringContaining('Access denied'),
  ])
})

test('no session is left open', () => {
  expect(results.sessionsLeft).toBe(0)
})
