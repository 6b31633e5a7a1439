// What a shared conversation shows of a stored response: what was asked and answered, and nothing that stands around it.

import { expect, test } from 'bun:test'
import { sharedTurn } from '../../../src/http/console/conversations.ts'

test('a shared turn is the question, the names of files, the answer and its sources', () => {
  const turn = sharedTurn({
    model: 'sim/echo',
    input: [
      { type: 'message', role: 'developer', content: 'Be secret.' },
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'notes.txt:\n\nThe contents.' },
          { type: 'input_image', image_url: 'data:image/png;base64,AAAA' },
          { type: 'input_file', filename: 'report.pdf', file_data: 'data:application/pdf;base64,AAAA' },
          { type: 'input_text', text: 'What is this?' },
        ],
      },
    ],
    answer: {
      id: 'resp_1',
      instructions: 'Be secret.',
      user: 'anna@example.org',
      metadata: { feature: 'secret' },
      usage: { cost_details: { total: '1' } },
      output: [
        { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'Secret thoughts.' }] },
        { type: 'mcp_call', id: 'mcp_1', name: 'read', arguments: '{"secret":1}', output: 'secret' },
        {
          type: 'message',
          id: 'msg_1',
          role: 'assistant',
          content: [
            {
              type: 'output_text',
              text: 'A river.',
              annotations: [
                { type: 'url_citation', url: 'https://rivers.example/', title: 'Rivers' },
                { type: 'url_citation', url: 'javascript:alert(1)', title: 'No' },
                { type: 'file_citation', file_id: 'file_secret' },
              ],
            },
          ],
        },
        {
          type: 'message',
          id: 'msg_2',
          role: 'assistant',
          content: [{ type: 'refusal', refusal: 'No more.' }],
        },
      ],
    },
  })
  expect(turn).toEqual({
    question: 'What is this?',
    files: ['notes.txt', 'image', 'report.pdf'],
    model: 'sim/echo',
    answer: 'A river.\n\nNo more.',
    sources: [{ url: 'https://rivers.example/', title: 'Rivers' }],
  })
})

test('what goes on without a question has none', () => {
  expect(sharedTurn({ model: 'm', input: [{ type: 'mcp_approval_response' }], answer: {} })).toEqual({
    question: '',
    files: [],
    model: 'm',
    answer: '',
    sources: [],
  })
})
