// One setting takes the simulator's models out of the lists, and one gives them away; test keys work either way.

import { expect, test } from 'bun:test'
import { keyFor, postAs, receiptOf } from '../support/call-gateway.ts'
import { serveWeir } from '../support/serve-weir.ts'

const call = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hello, river.' }] })

test('given away, it costs nothing, and is listed so', async () => {
  await using weir = await serveWeir({ config: 'providers: { sim: { price: free } }' })
  const answer = await postAs(`${weir.baseUrl}/chat/completions`, weir.key, call('sim/echo'))
  expect(((await answer.json()) as { usage: { cost: number } }).usage.cost).toBe(0)
  expect((await receiptOf(weir, answer.headers.get('x-request-id')!))?.charged).toBe('0')
  const shown = await fetch(`${weir.baseUrl}/models/sim/premium`)
  expect(await shown.json()).toMatchObject({ pricing: { prompt: '0', completion: '0' } })
})

test('hidden, it is neither listed nor called, but by test keys', async () => {
  await using weir = await serveWeir({ config: 'catalog: { hide: [sim/*] }' })
  const { key } = await keyFor(weir, 'owner@localhost', '--test')
  const status = async (of: string, model: string) =>
    (await postAs(`${weir.baseUrl}/chat/completions`, of, call(model))).status
  expect([await status(weir.key, 'sim/echo'), await status(key, 'openai/gpt-5')]).toEqual([404, 200])
  const { data } = (await (await fetch(`${weir.baseUrl}/models`)).json()) as { data: { id: string }[] }
  expect(data.filter(({ id }) => id.startsWith('sim/') && id !== 'sim/search:free')).toEqual([])
})
