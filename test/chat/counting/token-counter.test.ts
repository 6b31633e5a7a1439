// Tokens are counted by a worker, and by this thread where there is none: a call that is to be charged is always counted.

import { afterAll, afterEach, expect, test } from 'bun:test'
import { Worker } from 'node:worker_threads'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { TokenCounter } from '../../../src/chat/counting/token-counter.ts'

const texts = ['Where does the river run?', 'नदी कहाँ बहती है?', '']
const tokens = texts.reduce((sum, text) => sum + countTokens(text), 0)
/** Loading the vocabulary takes 0.7 s on an idle machine, and up to 4 s on one with four busy loops. */
const vocabularyMs = 30_000
const counters: TokenCounter[] = []
const counterOf = (...given: ConstructorParameters<typeof TokenCounter>) => {
  const counter = new TokenCounter(...given)
  counters.push(counter)
  return counter
}
afterEach(() => {
  for (const counter of counters.splice(0)) counter.stop()
})
/** Of all tests that do not ask how a worker comes and goes: to load the vocabulary is most of their time. */
const counter = new TokenCounter()
afterAll(() => counter.stop())

test(
  'other work goes on while the vocabulary is loaded',
  async () => {
    let turns = 0
    const timer = setInterval(() => turns++, 1)
    await counter.of('a').count(texts)
    clearInterval(timer)
    // Loaded in this thread it would be one turn or two.
    expect(turns).toBeGreaterThan(10)
  },
  vocabularyMs,
)

test(
  'the worker counts what this thread would count, each for who asked',
  async () => {
    const asked = [texts, ['one'], [], ['one two three']]
    expect(await Promise.all(asked.map((each) => counter.of('a').count(each)))).toEqual([tokens, 1, 0, 3])
  },
  vocabularyMs,
)

test(
  'text that reads like a control token of the vocabulary is counted as text',
  async () => {
    const control = ['What does <|endoftext|> mean?', '<|im_start|>system<|im_end|>']
    expect(await counter.of('a').count(control)).toBeGreaterThan(10)
    // Nor does it take the worker away.
    expect(await counter.of('a').count(texts)).toBe(tokens)
  },
  vocabularyMs,
)

test(
  'a worker that was ended is followed by another',
  async () => {
    expect(await counter.of('a').count(texts)).toBe(tokens)
    counter.stop()
    expect(await counter.of('a').count(texts)).toBe(tokens)
  },
  vocabularyMs,
)

test.each([
  [
    'cannot be started',
    () => {
      throw new Error('no threads')
    },
  ],
  ['fails as it starts', () => new Worker('throw new Error("broken")', { eval: true })],
] as const)('where a worker %s this thread counts', async (_, start) => {
  const counter = counterOf(start)
  expect(await Promise.all([counter.of('a').count(texts), counter.of('a').count(['one'])])).toEqual([
    tokens,
    1,
  ])
  expect(await counter.of('a').count(['one two three'])).toBe(3)
})

test(
  'accounts take turns: the many prompts of one delay no charge of another',
  async () => {
    const long = Array.from({ length: 128 }, (_, at) => `${at} ${'where the river runs '.repeat(24)}`)
    const order: string[] = []
    const ask = async (account: string, each: readonly string[]) => {
      await counter.of(account).count(each)
      order.push(account)
    }
    const greedy = Array.from({ length: 40 }, () => ask('greedy', long))
    await Promise.all([...greedy, ask('other', ['one'])])
    expect(order.indexOf('other')).toBeLessThan(6)
  },
  vocabularyMs,
)
