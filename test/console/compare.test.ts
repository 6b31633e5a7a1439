// Two models get one question: two answers, each charged once and shown with its cost, each a conversation of its own.

import { expect, test } from 'bun:test'
import { comparedModels } from '../../src/console/chat/model-picker.tsx'
import type { ModelView } from '../../src/http/console/answers.ts'

test.each([
  [
    ['b', 'c'],
    ['b', 'c'],
  ],
  [
    ['b', 'b'],
    ['b', 'b'],
  ],
  [['b'], ['b', 'a']],
  [
    ['gone', 'c'],
    ['a', 'c'],
  ],
  [
    ['b', 'closed'],
    ['b', 'a'],
  ],
])('of %p are compared %p', (ids, models) => {
  const model = (id: string, app: string | null = null) =>
    ({ id, kind: 'chat', callable: { app } }) as ModelView
  const { a, b } = comparedModels([model('a'), model('b'), model('c'), model('closed', 'no_provider')], ids)
  expect([a?.id, b?.id]).toEqual(models)
})
