// An answer of several messages reads the same while it arrives and when the chat is opened again.

import { expect, test } from 'bun:test'
import { after, keptTurn, newAnswer, type StreamEvent } from '../../src/console/chat/thread.ts'

test('messages of one answer are paragraphs of their own', () => {
  const said = (text: string) => ({ type: 'message', content: [{ type: 'output_text', text }] })
  const texts = ['I look at the gauge.', 'It is high.']
  const events = texts.flatMap((text): StreamEvent[] => [
    { type: 'response.output_item.added', item: { type: 'message', content: [] } },
    { type: 'response.output_text.delta', delta: text },
    { type: 'response.output_item.done', item: said(text) },
  ])
  const live = events.reduce(after, newAnswer('sim/echo'))
  const output = texts.map(said)
  const response = { id: 'resp_1', model: 'sim/echo', status: 'completed', output, error: null }
  expect(live.text).toBe('I look at the gauge.\n\nIt is high.')
  expect(keptTurn(response, []).answer.text).toBe(live.text)
})
