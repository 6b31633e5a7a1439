// What others have written (clients, providers) must not command the terminal of whoever reads it.

import { describe, expect, test } from 'bun:test'
import { tempDir } from '../support/tmp.ts'
import { eventually, post } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'
import { run } from './run.ts'

/** Sets the title of a window, colours the text (in both forms of the sequence), and begins a line of its own. */
const hostile = '\u001b]0;mine\u0007x/\u001b[31m\u009b31m\u007f\nreq_0'
const shown = '\\u001b]0;mine\\u0007x/\\u001b[31m\\u009b31m\\u007f\\u000areq_0'
// oxlint-disable-next-line no-control-regex -- what must not be there
const controls = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/

test('the request log shows the name of a model, and its control characters as text', async () => {
  await using weir = await serveWeir()
  const refused = await post(weir, { model: hostile, messages: [{ role: 'user', content: 'Hello' }] })
  expect(refused.status).toBe(400)
  const list = await eventually(
    () => weir.command('requests', 'list'),
    ({ stdout }) => stdout.includes('req_'),
  )
  expect(list.stdout).toContain(shown)
  expect(list.stdout).not.toMatch(controls)
  expect(list.stdout.trim().split('\n')).toHaveLength(2)
  const asJson = await weir.command('requests', 'list', '--json')
  expect(asJson.stdout).not.toMatch(controls)
  expect(JSON.parse(asJson.stdout)).toMatchObject({ data: [{ model: hostile }] })
})

describe('weir chat', () => {
  const chunk = { choices: [{ delta: { content: `a\t${hostile}` }, finish_reason: 'stop' }] }
  const machine = { cwd: tempDir('weir-terminal-').path, env: { WEIR_API_KEY: 'sk-weir-test-x' } }

  test.each([
    [true, 'a\t\\u001b]0;mine\\u0007x/\\u001b[31m\\u009b31m\\u007f\nreq_0\n'],
    [false, `a\t${hostile}\n`],
  ])('with a terminal %p prints an answer as %j', async (terminal, printed) => {
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => new Response(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`),
    })
    const url = `http://127.0.0.1:${server.port}/v1`
    const ran = await run({ ...machine, terminal }, 'chat', 'sim/echo', 'Hello', '--url', url)
    expect(ran).toMatchObject({ code: 0, out: printed })
  })

  test('shows the words of an error without its controls', async () => {
    using server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: () => Response.json({ error: { message: hostile, code: null } }, { status: 400 }),
    })
    const url = `http://127.0.0.1:${server.port}/v1`
    const ran = await run(machine, 'chat', 'sim/echo', 'Hello', '--url', url)
    expect(ran.code).toBe(1)
    expect(ran.err).toContain('\\u001b[31m')
    expect(ran.err).not.toMatch(controls)
  })
})
