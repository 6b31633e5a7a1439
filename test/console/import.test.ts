// Exports of other programs become conversations of the chat: what was said is taken, on the branch that was shown last;
// a file that is none is refused, and loses nothing.

import { expect, test } from 'bun:test'
import { exportOf, readExport, turnsOf } from '../../src/console/chat/exports.tsx'
import { importedTurns, newAnswer, requestFor } from '../../src/console/chat/thread.ts'

const node = (parent: string | null, role: string, text: string, more: object = {}) => ({
  parent,
  message: { author: { role }, recipient: 'all', content: { content_type: 'text', parts: [text] }, ...more },
})

const chatGpt = [
  {
    title: 'Rivers',
    current_node: 'd',
    mapping: {
      root: { parent: null, message: null },
      s: node('root', 'system', 'Be nice.'),
      a: node('s', 'user', 'Which is the longest river?'),
      old: node('a', 'assistant', 'Another branch.'),
      x: node('a', 'assistant', '{"query":"river"}', { recipient: 'browser' }),
      y: node('x', 'tool', 'Pages.'),
      b: node('y', 'assistant', 'The Nile.', { metadata: { model_slug: 'gpt-4o' } }),
      c: {
        parent: 'b',
        message: {
          author: { role: 'user' },
          content: {
            content_type: 'multimodal_text',
            parts: [{ content_type: 'image_asset_pointer' }, 'And this?'],
          },
        },
      },
      d: node('c', 'assistant', 'A lake.'),
    },
  },
  { title: 'Nothing', mapping: { a: node('a', 'user', '') } },
]

const claude = [
  {
    name: '',
    chat_messages: [
      {
        sender: 'human',
        text: 'ignored',
        content: [{ type: 'text', text: 'Sum it up.' }],
        attachments: [{ file_name: 'notes.txt', extracted_content: 'The notes.' }],
      },
      { sender: 'assistant', text: 'Done.', content: [] },
    ],
  },
]

const openWebUi = [
  {
    title: 'Local',
    chat: {
      history: {
        currentId: '3',
        messages: {
          '1': { parentId: null, role: 'user', content: 'Hello' },
          '2': { parentId: '1', role: 'assistant', content: 'First try', model: 'llama3' },
          '3': { parentId: '1', role: 'assistant', content: 'Hi', model: 'llama3' },
        },
      },
      messages: [],
    },
  },
]

test.each([
  [
    'ChatGPT',
    chatGpt,
    1,
    [
      {
        title: 'Rivers',
        turns: [
          { question: 'Which is the longest river?', answer: 'The Nile.', model: 'gpt-4o' },
          { question: '[image]\n\nAnd this?', answer: 'A lake.', model: null },
        ],
      },
    ],
  ],
  [
    'Claude',
    claude,
    0,
    [
      {
        title: 'Imported',
        turns: [{ question: 'notes.txt:\n\nThe notes.\n\nSum it up.', answer: 'Done.', model: null }],
      },
    ],
  ],
  [
    'Open WebUI',
    openWebUi,
    0,
    [{ title: 'Local', turns: [{ question: 'Hello', answer: 'Hi', model: 'llama3' }] }],
  ],
])('an export of %s is read', (from, json, empty, conversations) => {
  expect(readExport(JSON.stringify(json))).toEqual({ from, conversations, empty })
})

test('our own export is read as it was written', () => {
  const turns = [{ question: 'One?', answer: 'Two.', model: 'sim/echo' }]
  expect(readExport(exportOf('Numbers', turns))).toEqual({
    from: 'Weir',
    conversations: [{ title: 'Numbers', turns }],
    empty: 0,
  })
})

test.each([
  '',
  'PK\u0003\u0004',
  '{"a":',
  '[]',
  '42',
  'null',
  '{"chat_messages":"no"}',
  '[{"mapping":null}]',
])('%p is refused in words', (text) => {
  expect(() => readExport(text)).toThrow(/not JSON|no export/)
})

test.each([
  [
    'a circle of parents',
    [{ mapping: { a: node('b', 'user', 'Hi'), b: node('a', 'assistant', 'Ho') }, current_node: 'a' }],
  ],
  [
    'fields of other types',
    [{ mapping: { a: { message: 7, parent: {} }, __proto__: 1 }, title: {}, current_node: 9 }],
  ],
  ['messages of other types', [{ chat_messages: [null, 7, { sender: 'human', text: {}, content: 'x' }] }]],
  ['half a character', [{ chat_messages: [{ sender: 'human', text: 'a\ud800b' }], name: '\udfff' }]],
])('%s breaks nothing', (_, json) => {
  for (const { title, turns } of readExport(JSON.stringify(json)).conversations) {
    expect(title.isWellFormed()).toBe(true)
    for (const { question, answer } of turns) expect((question + answer).isWellFormed()).toBe(true)
  }
})

test('several messages of one side are one, and an answer may come first', () => {
  const said = (role: 'user' | 'assistant', text: string) => ({
    role,
    text,
    model: role === 'user' ? null : 'm',
  })
  const turns = turnsOf([
    said('assistant', 'Hello'),
    said('user', 'a'),
    said('user', 'b'),
    said('assistant', 'c'),
    said('assistant', 'd'),
  ])
  expect(turns).toEqual([
    { question: '', answer: 'Hello', model: 'm' },
    { question: 'a\n\nb', answer: 'c\n\nd', model: 'm' },
  ])
  const next = { key: 'q', text: 'Next', attachments: [], approvals: [], answer: newAnswer('m') }
  const { previous, input } = requestFor([...importedTurns(turns), next])
  expect([previous, input.map((item) => (item as { role: string }).role)]).toEqual([
    null,
    ['assistant', 'user', 'assistant', 'user'],
  ])
})
