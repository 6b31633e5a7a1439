// The gateway's own tools are rows of webTools in conversation/gateway-tools.ts. Names, fees, the items of OpenAI's
// protocols and how calls come back in the history follow from them; the compiler names the blocks of the Messages API.

import { expect, test } from 'bun:test'
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
