// The price before the call: in order, never below what the call then costs, and nothing is called for it.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startMockProvider, type MockProvider } from '../support/mock-provider.ts'
import { type Lab, startLab } from './lab.ts'

let mock: MockProvider
let lab: Lab

beforeAll(async () => {
  mock = await startMockProvider()
  lab = await startLab({ providers: { mock: mock.url }, models: { 'mock/m': ['mock/m'] } })
})

afterAll(async () => {
  await lab?.weir.stop()
  await mock?.stop()
})

async function estimate(body: object, key = lab.weir.key): Promise<Record<string, string>> {
  const response = await fetch(`${lab.weir.baseUrl}/estimate`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'mock/m',
      messages: [{ role: 'user', content: 'Where does it run?' }],
      ...body,
    }),
  })
  return (await response.json()) as Record<string, string>
}

test('is low ≤ expected ≤ maximum, the maximum bounds the real charge, and nobody is called', async () => {
  const told = await estimate({ max_tokens: 50 })
  expect(mock.bill).toHaveLength(0)
  expect(Number(told['low'])).toBeLessThanOrEqual(Number(told['expected']))
  expect(Number(told['expected'])).toBeLessThanOrEqual(Number(told['maximum']))
  await lab.ask('mock/m', { max_tokens: 50 })
  expect(await lab.used()).toBeGreaterThan(0)
  expect(await lab.used()).toBeLessThanOrEqual(Number(told['maximum']))
  expect(told['pool']).toBe('purchased')
  expect(told['refusal']).toBeUndefined()
})

test('max_cost caps it', async () => {
  expect(Number((await estimate({ max_cost: '0.0005' }))['maximum'])).toBe(0.0005)
})

test('bounds a document whose size nobody knows by the context of the model', async () => {
  const pdf = { type: 'file', file: { file_url: 'https://example.com/report.pdf' } }
  const told = await estimate({ max_tokens: 5, messages: [{ role: 'user', content: [pdf] }] })
  // 200,000 tokens are the usual context, at one dollar per million.
  expect(Number(told['maximum'])).toBeWithin(0.19, 0.21)
  expect(Number(told['expected'])).toBeLessThan(0.001)
  expect(told['refusal']).toBeUndefined()
})

test('what the model reads is counted, and what stands around it is not', async () => {
  const plain = await estimate({ max_tokens: 5 })
  const dressed = await estimate({ max_tokens: 5, user: 'someone with a long name', metadata: { a: 'b' } })
  // "Where does it run?" is five tokens, in the six of a chat's frame.
  expect(plain['prompt_tokens']).toMatchObject({ expected: 11 })
  expect(dressed['prompt_tokens']).toMatchObject({ expected: 11 })
  expect([dressed['low'], dressed['expected']]).toEqual([plain['low'], plain['expected']])
})

test('low and expected are at the rates of the receipt, not at the dearest of the model', async () => {
  const { low, expected } = await estimate({ model: 'sim/premium', max_tokens: 5 })
  const { pricing } = (await (await fetch(`${lab.weir.baseUrl}/models/sim/premium`)).json()) as {
    pricing: Record<'prompt' | 'completion' | 'input_cache_write', string>
  }
  expect(Number(pricing.input_cache_write)).toBeGreaterThan(Number(pricing.prompt))
  expect(Number(low)).toBeCloseTo(11 * Number(pricing.prompt) + Number(pricing.completion), 12)
  expect(Number(expected)).toBeCloseTo(11 * Number(pricing.prompt) + 5 * Number(pricing.completion), 12)
})

test('a key that has spent its limit is told so, as the call would be', async () => {
  const limit = ['--account', 'owner@localhost', '--limit-usd', '0.000001', '--limit-window', 'day', '--json']
  const { stdout } = await lab.weir.command('keys', 'create', ...limit)
  const { key } = JSON.parse(stdout) as { key: string }
  const told = await estimate({ max_tokens: 5 }, key)
  expect(told).toMatchObject({ refusal: 'key_limit_exceeded', affordable_output_tokens: 0 })
  const response = await fetch(`${lab.weir.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'mock/m', messages: [{ role: 'user', content: 'Where does it run?' }] }),
  })
  expect(await response.json()).toMatchObject({ error: { code: told['refusal'] } })
})
