// What a long answer of the simulated provider takes while its client reads slowly.

import { expect, test } from 'bun:test'
import { heapStats } from 'bun:jsc'
import { simulate } from '../../src/providers/simulator/simulator.ts'

const body = JSON.stringify({
  model: 'long',
  stream: true,
  max_tokens: 131_072,
  messages: [{ role: 'user', content: 'Go on.' }],
})

function stringsAlive(): number {
  Bun.gc(true)
  return heapStats().objectTypeCounts['string'] ?? 0
}

test('words that have not been read yet are not there yet', async () => {
  const before = stringsAlive()
  const readers = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const url = 'http://sim/v1/chat/completions'
      const { body: stream } = await simulate(new Request(url, { method: 'POST', body }))
      const reader = stream!.getReader()
      await reader.read()
      return reader
    }),
  )
  // Ten answers of 131,072 words each.
  expect(stringsAlive() - before).toBeLessThan(50_000)
  for (const reader of readers) await reader.cancel()
})

test('of many vectors others have their turn in between', async () => {
  const request = {
    model: 'embed',
    input: Array.from({ length: 128 }, (_, at) => `text ${at}`),
    dimensions: 1_024,
  }
  let turns = 0
  let over = false
  const count = () => {
    turns += 1
    if (!over) setImmediate(count)
  }
  setImmediate(count)
  const url = 'http://sim/v1/embeddings'
  const answer = await simulate(new Request(url, { method: 'POST', body: JSON.stringify(request) }))
  const { data } = (await answer.json()) as { data: { index: number; embedding: number[] }[] }
  over = true
  expect(data.map(({ index, embedding }) => [index, embedding.length])).toEqual(
    request.input.map((_, at) => [at, 1_024]),
  )
  expect(turns).toBeGreaterThan(20)
})
