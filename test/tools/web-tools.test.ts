// The gateway's own tools are rows of webTools in conversation/gateway-tools.ts. Names, fees, the items of OpenAI's
// protocols, the choice of them and how calls come back in the history follow from them. The compiler names the blocks
// of the Messages API; for a declaration of its own also how clients write it (protocols/request/gateway-tools.ts), with
// its documentation, and who opens it (serve/gateway/tools.ts).

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, newAnswer } from '../../src/console/chat/thread.ts'
import { webToolKinds, webTools } from '../../src/conversation/gateway-tools.ts'
import { actionOf, readRun } from '../../src/protocols/openai/messages.ts'

const valuesOf = (field: 'name' | 'action') => webToolKinds.map((kind) => webTools[kind][field])

test('no two tools share a name or an action, by which calls of the history are recognised', () => {
  expect(new Set(valuesOf('name')).size).toBe(webToolKinds.length)
  expect(new Set(valuesOf('action')).size).toBe(webToolKinds.length)
})

test.each(webToolKinds)('a call of %p comes back from an item of OpenAI as it was made', (kind) => {
  const { name, argument } = webTools[kind]
  const json = JSON.stringify({ [argument]: 'weirs' })
  const item = { type: 'web_search_call', action: actionOf({ kind }, json, undefined), output: 'Found.' }
  expect(readRun(item, 'call_1')?.call).toMatchObject({ name, arguments: json, origin: { kind } })
})

test.each(webToolKinds)('the guide explains %p', (kind) => {
  const page = readFileSync(join(import.meta.dir, '../../src/guide/tools.md'), 'utf8')
  expect(page).toContain(webTools[kind].name)
})

test.each(webToolKinds)('the console shows a call of %p with what it is about', (kind) => {
  const { action, argument } = webTools[kind]
  const item = {
    id: 'ws_1',
    type: 'web_search_call',
    status: 'completed',
    action: actionOf({ kind }, JSON.stringify({ [argument]: 'weirs' }), undefined),
  }
  const { tools } = after(newAnswer('m'), { type: 'response.output_item.done', item })
  const shown = action === 'search' ? 'web_search_call' : action
  expect(tools).toMatchObject([{ kind: shown, label: 'weirs' }])
})
