// The headers of every answer.

import { expect, test } from 'bun:test'
import { answerHeaders } from '../../../src/chat/streaming/respond.ts'
import { candidateOf, modelOf } from '../support.ts'

test.each([
  ['lab/qwen3:8b', 'lab/qwen3:8b'],
  ['lab/50%', 'lab/50%'],
  ['lab/модель', 'lab/%D0%BC%D0%BE%D0%B4%D0%B5%D0%BB%D1%8C'],
  ['lab/é', 'lab/%C3%A9'],
])('name the model %s in characters that a header may have', (id, named) => {
  const candidate = { ...candidateOf('lab'), model: modelOf(id) }
  const { headers } = new Response('', { headers: answerHeaders({ requestId: 'req_1' }, candidate, [], []) })
  expect(headers.get('x-weir-model')).toBe(named)
})
