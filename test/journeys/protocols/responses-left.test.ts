// A client disconnects in the middle of a streamed response: what it received, and pays for, can be retrieved.

import { afterAll, beforeAll, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { eventually, expectAudited, receiptOf } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'

let weir: RunningWeir
let client: OpenAI

beforeAll(async () => {
  weir = await startWeir()
  client = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
}, 30_000)
afterAll(() => weir?.stop())

/** Reads some text of a slow answer and disconnects. */
async function leftInTheMiddle(store?: boolean) {
  const request = { model: 'sim/slow', input: 'Go on.', ...(store === undefined ? {} : { store }) }
  const stream = await client.responses.create({ ...request, stream: true })
  let id = ''
  let text = ''
  for await (const event of stream) {
    if (event.type === 'response.created') id = event.response.id
    if (event.type === 'response.output_text.delta') text += event.delta
    if (text.length > 12) break
  }
  await eventually(
    () => receiptOf(weir, id),
    (receipt) => receipt?.state === 'settled',
  )
  return { id, text }
}

test('a response whose client disconnected is stored as cancelled, with what it cost, and can be continued', async () => {
  const { id, text } = await leftInTheMiddle()
  const stored = await client.responses.retrieve(id)
  expect(stored.status).toBe('cancelled')
  expect(stored.output_text).toStartWith(text)
  expect(stored.usage).toMatchObject({ cost_details: { total: (await receiptOf(weir, id))!.charged } })
  const next = await client.responses.create({ model: 'sim/echo', input: 'And?', previous_response_id: id })
  expect(next.output_text).toBe('And?')
  await expectAudited(weir)
})

test('a response that is not to be stored is not, when its client disconnects', async () => {
  const { id } = await leftInTheMiddle(false)
  const found = await client.responses.retrieve(id).then(
    () => 'found',
    (error: unknown) => error,
  )
  expect(found).toMatchObject({ status: 404 })
})
