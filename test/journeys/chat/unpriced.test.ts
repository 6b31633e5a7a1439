// Sound that the catalog has no rate for is refused before a provider is asked.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type Lab, startLab } from '../../chat/lab.ts'
import { type MockProvider, startMockProvider } from '../../support/mock-provider.ts'

const price = { input: '1', output: '2' }
let provider: MockProvider
let lab: Lab

beforeAll(async () => {
  provider = await startMockProvider()
  lab = await startLab({
    providers: { chat: provider.url },
    models: {
      'chat/m': { price },
      'chat/heard': { price: { ...price, audio: '8' } },
      'chat/speaker': { price, output_modalities: ['text', 'audio'] },
    },
  })
})
afterAll(async () => {
  await lab?.weir.stop()
  await provider?.stop()
})

const messages = [
  { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] },
]

test('sound is refused by a model that has no rate for it: no provider is asked, nothing is charged', async () => {
  const [used, asked] = [await lab.used(), provider.bill.length]
  const answer = await lab.ask('chat/m', { messages })
  expect(answer.status).toBe(400)
  expect(JSON.parse(answer.text)).toMatchObject({
    error: { code: 'unsupported_parameter', param: 'messages[0].content[0]' },
  })
  expect([await lab.used(), await lab.held(), provider.bill.length]).toEqual([used, '0', asked])
})

test('sound is refused in an answer too, of a model that is said to speak', async () => {
  const answer = await lab.ask('chat/speaker', {
    modalities: ['text', 'audio'],
    audio: { voice: 'v', format: 'wav' },
  })
  expect([answer.status, JSON.parse(answer.text)]).toMatchObject([400, { error: { param: 'modalities' } }])
})

test('sound goes to a model that has one', async () => {
  expect((await lab.ask('chat/heard', { messages })).status).toBe(200)
})
