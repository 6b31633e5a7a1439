// The model of a chat is picked by typing and arrow keys, and the composer has the focus before and after.

import { expect, test } from 'bun:test'
import { groupModels } from '../../src/console/chat/model-picker.tsx'
import type { ModelView } from '../../src/http/console/answers.ts'

function model(id: string, app: ModelView['callable']['app'] = null, kind = 'chat'): ModelView {
  return { id, name: id.toUpperCase(), kind, callable: { app } } as unknown as ModelView
}

const all = [
  model('a/opus', 'no_provider'),
  model('b/haiku'),
  model('c/opus'),
  model('d/opus', 'plan_required'),
  model('e/embed', 'not_chat', 'embedding'),
]

test.each([
  ['', [], [], [['rest', 'b/haiku', 'c/opus', 'd/opus', 'a/opus']]],
  [
    '',
    ['c/opus', 'gone/model'],
    ['c/opus', 'b/haiku'],
    [
      ['favourites', 'c/opus'],
      ['recent', 'b/haiku'],
      ['rest', 'd/opus', 'a/opus'],
    ],
  ],
  [
    'OPUS',
    ['a/opus'],
    ['b/haiku'],
    [
      ['favourites', 'a/opus'],
      ['rest', 'c/opus', 'd/opus'],
    ],
  ],
  ['opus c/', [], [], [['rest', 'c/opus']]],
  ['embed', ['e/embed'], [], []],
] as const)('%p with favourites %p and recent %p is %p', (typed, favourites, recent, groups) => {
  const found = groupModels(all, typed, favourites, recent)
  expect(found.map(({ heading, models }) => [heading, ...models.map(({ id }) => id)])).toEqual(
    groups as never,
  )
})
