// What hostile providers and clients send holds nobody else up: a short slice of `bun run hostile`, which says which of
// them it was.

import { expect, test } from 'bun:test'
import { besiege, findingsOf } from './hostile.ts'

/** Each was good for seconds of a loop that answered nobody. */
const chosen = [
  'stream: deep-event',
  'stream: deep-objects',
  'stream: tiny-events',
  'stream: tiny-odd-events',
  'stream: tiny-calls',
  'stream: many-calls',
  'stream: blank-lines',
  'stream: long-event',
  'whole answer: long-whole',
  'whole answer: calls-whole',
  'whole answer: logprobs-whole',
  'whole answer to a stream: logprobs-whole',
  'prompts: 2,048 texts to be embedded',
  'prompts: 5,000 calls of one id for claude',
]

test('no hostile stream, answer or body holds the loop, or a steady stream, up (item 23)', async () => {
  const rows: string[] = []
  const report = await besiege({
    seconds: 1,
    scale: 0.5,
    streams: 20,
    chosen: (name) => chosen.includes(name),
    rounds: 'all',
    say: (row) => rows.push(row),
  })
  const findings = findingsOf(report)
  expect(findings.length > 0 ? [...findings, ...rows] : []).toEqual([])
  expect(report.events).toBeGreaterThan(100)
  expect(report.probes).toBeGreaterThan(20)
}, 180_000)
