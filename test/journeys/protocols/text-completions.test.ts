// Programs that know only the legacy POST /v1/completions, with the official client.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI, { APIError } from 'openai'
import { postAs, receiptOf } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let client: OpenAI

beforeAll(async () => {
  weir = await serveWeir()
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)
afterAll(() => weir?.stop())

describe('a text completion', () => {
  test.each([['Hello, river.'], [['Hello, river.']]])(
    'answers %p and is charged as a chat is',
    async (prompt) => {
      const answer = await client.completions.create({ model: 'sim/echo', prompt })
      expect(answer).toMatchObject({
        object: 'text_completion',
        model: 'sim/echo',
        choices: [{ index: 0, text: 'Hello, river.', logprobs: null, finish_reason: 'stop' }],
        usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9, cost: 0.0000075 },
      })
      expect(await receiptOf(weir, answer.id)).toMatchObject({ total: '0.0000075' })
    },
  )

  test('takes an address for words', async () => {
    const prompt = 'http://127.0.0.1:9/'
    const answer = await client.completions.create({ model: 'sim/echo', prompt })
    expect(answer.choices[0]!.text).toBe(prompt)
  })

  test('streams its text, then why it ended, then its usage', async () => {
    const stream = await client.completions.create({
      model: 'sim/echo',
      prompt: 'Where to, river?',
      stream: true,
      stream_options: { include_usage: true },
    })
    const chunks = []
    for await (const chunk of stream) chunks.push(chunk)
    expect(chunks.map(({ choices }) => choices[0]?.text ?? '').join('')).toBe('Where to, river?')
    const reasons = chunks.flatMap(({ choices }) => choices.map((choice) => choice.finish_reason))
    expect(reasons.filter((reason) => reason !== null)).toEqual(['stop'])
    expect(chunks.at(-1)).toMatchObject({
      choices: [],
      usage: { prompt_tokens: 7, cost_details: { cache_read: '0' } },
    })
    expect(new Set(chunks.map(({ id }) => id)).size).toBe(1)
  })

  test('stops at max_tokens and says so', async () => {
    const answer = await client.completions.create({ model: 'sim/long', prompt: 'Tell all.', max_tokens: 5 })
    expect(answer).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 5 } })
  })

  test('keeps what a model thinks to itself', async () => {
    const answer = await client.completions.create({ model: 'sim/reason', prompt: 'Think.' })
    const details = (answer.usage as { completion_tokens_details?: { reasoning_tokens: number } } | undefined)
      ?.completion_tokens_details
    expect(details?.reasoning_tokens).toBeGreaterThan(0)
    expect(Object.keys(answer.choices[0]!).toSorted()).toEqual(['finish_reason', 'index', 'logprobs', 'text'])
  })

  test('a stream that the provider cuts is an error to the client, after the text that came', async () => {
    const stream = await client.completions.create({ model: 'sim/cut', prompt: 'Go on.', stream: true })
    let text = ''
    const thrown = await (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.text ?? ''
      return undefined
    })().catch((error: unknown) => error)
    expect(text).not.toBe('')
    expect(thrown).toBeInstanceOf(APIError)
  })

  test.each([
    ['prompt', { prompt: ['one', 'two'] }, 'unsupported_parameter'],
    ['prompt', { prompt: [[1, 2, 3]] }, 'unsupported_parameter'],
    ['prompt', {}, 'invalid_request'],
    ['messages', { messages: [{ role: 'user', content: 'Hi' }] }, 'wrong_endpoint'],
    ['suffix', { prompt: 'a', suffix: 'b' }, 'unsupported_parameter'],
    ['echo', { prompt: 'a', echo: true }, 'unsupported_parameter'],
    ['best_of', { prompt: 'a', best_of: 3 }, 'unsupported_parameter'],
    ['logprobs', { prompt: 'a', logprobs: 2 }, 'unsupported_parameter'],
    ['tools', { prompt: 'a', tools: [] }, 'unsupported_parameter'],
    ['temperature', { prompt: 'a', temperature: 'hot' }, 'invalid_request'],
  ])('names %s in the refusal of %p', async (param, body, code) => {
    const response = await postAs(`${weir.baseUrl}/completions`, weir.key, { model: 'sim/echo', ...body })
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { code, param } })
  })
})
