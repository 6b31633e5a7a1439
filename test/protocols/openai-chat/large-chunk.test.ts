// A chunk of megabytes is passed on as several, which say the same.

import { expect, test } from 'bun:test'
import { atOnce } from '../../../src/json/json.ts'
import { framesOf } from '../../../src/protocols/openai-chat/passthrough/passthrough.ts'

const long = '😀 the weir '.repeat(100_000)
const framed = (chunk: unknown) => ({ event: undefined, data: JSON.stringify(chunk) })
const head = { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm' }

interface Chunk {
  id: string
  usage?: unknown
  choices: { index: number; delta: Record<string, string>; finish_reason?: string | null; own?: number }[]
}
const chunksOf = (chunk: unknown) =>
  atOnce(framesOf(framed(chunk))).map(({ data }) => JSON.parse(data) as Chunk)

test.each(['content', 'reasoning_content', 'reasoning'])('its %s comes in pieces', (field) => {
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }
  const choice = { index: 1, delta: { role: 'assistant', [field]: long }, finish_reason: 'stop', own: 7 }
  const chunks = chunksOf({ ...head, choices: [choice], system: 'x', usage })
  expect(chunks.length).toBeGreaterThan(10)
  expect(chunks.map(({ choices }) => choices[0]!.delta[field] ?? '').join('')).toBe(long)
  expect(chunks.every(({ id, choices }) => id === 'c' && choices[0]!.index === 1)).toBe(true)
  expect(chunks[0]).toMatchObject({ system: 'x', choices: [{ own: 7, delta: { role: 'assistant' } }] })
  // The end, and the count of all of it, come last.
  expect(chunks.filter(({ choices, usage }) => choices[0]!.finish_reason != null || usage != null)).toEqual([
    { ...head, choices: [{ index: 1, delta: {}, finish_reason: 'stop' }], usage },
  ])
})

test.each([
  framed({ ...head, choices: [{ index: 0, delta: { content: 'short' } }] }),
  framed({ ...head, choices: [{ index: 0, delta: { images: [long] } }] }),
  framed({ ...head, choices: [], own: long }),
  { event: undefined, data: `{"choices":[{"delta":{"content":"${long}` },
  { event: 'error', data: long },
])('everything else stays as it is (case %#)', (frame) => {
  expect(atOnce(framesOf(frame))).toEqual([frame])
})
