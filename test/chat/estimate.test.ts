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

async function estimate(body: object): Promise<Record<string, string>> {
  const response = await fetch(`${lab.weir.baseUrl}/estimate`, {
    method: 'POST',
    headers: { authorization: `Bearer ${lab.weir.key}`, 'content-type': 'application/json' },
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
