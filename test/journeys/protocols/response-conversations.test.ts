// Conversations of the Responses protocol, with OpenAI's own client: their items, and the responses that are made in them.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { expectAudited, postAs, receiptOf } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

let weir: ServedWeir
let openai: OpenAI

beforeAll(async () => {
  weir = await serveWeir()
  openai = new OpenAI({ apiKey: weir.key, baseURL: weir.baseUrl, maxRetries: 0 })
})

afterAll(() => weir?.stop())

const said = (content: string) => ({ type: 'message', role: 'user', content }) as const
/** What a request that fails is answered with. */
const statusOf = (asked: PromiseLike<unknown>) =>
  asked.then(
    () => 200,
    (error: { status: number }) => error.status,
  )
async function itemsOf(id: string): Promise<{ id: string; text: string; role: string }[]> {
  const found: { id: string; text: string; role: string }[] = []
  for await (const item of openai.conversations.items.list(id, { order: 'asc', limit: 3 })) {
    if (item.type !== 'message') continue
    const [part] = item.content
    found.push({ id: item.id, role: item.role, text: part !== undefined && 'text' in part ? part.text : '' })
  }
  return found
}
const tokensOf = async (id: string) =>
  Number((await receiptOf(weir, id.replace('resp_', 'req_')))!.usage?.['prompt_tokens'])

describe('a conversation', () => {
  test('is made with items, changed, read page by page, and deleted', async () => {
    const made = await openai.conversations.create({
      items: [said('One.'), said('Two.')],
      metadata: { topic: 'rivers' },
    })
    expect(made).toMatchObject({ object: 'conversation', metadata: { topic: 'rivers' } })
    await openai.conversations.items.create(made.id, { items: [said('Three.'), said('Four.')] })
    const items = await itemsOf(made.id)
    expect(items.map(({ text }) => text)).toEqual(['One.', 'Two.', 'Three.', 'Four.'])
    const one = await openai.conversations.items.retrieve(items[1]!.id, { conversation_id: made.id })
    expect(one).toMatchObject({ type: 'message', role: 'user' })
    await openai.conversations.items.delete(items[1]!.id, { conversation_id: made.id })
    expect((await itemsOf(made.id)).map(({ text }) => text)).toEqual(['One.', 'Three.', 'Four.'])
    const changed = await openai.conversations.update(made.id, { metadata: { topic: 'lakes' } })
    expect((await openai.conversations.retrieve(made.id)).metadata).toEqual(changed.metadata)
    expect(await openai.conversations.delete(made.id)).toMatchObject({ deleted: true })
    expect(await statusOf(openai.conversations.retrieve(made.id))).toBe(404)
    expect(await statusOf(openai.conversations.items.list(made.id))).toBe(404)
  })

  test.each([false, true])('goes on with every response that names it (stream: %p)', async (stream) => {
    const { id } = await openai.conversations.create({ items: [said('My name is Anna.')] })
    const ask = async (input: string, conversation: string | { id: string }) => {
      const body = { model: 'sim/echo', input, conversation }
      if (!stream) return openai.responses.create(body)
      for await (const event of await openai.responses.create({ ...body, stream: true }))
        if (event.type === 'response.completed') return event.response
      throw new Error('the stream has no end')
    }
    const first = await ask('Hello, river.', id)
    expect(first.conversation).toEqual({ id })
    const second = await ask('And on?', { id })
    expect(await tokensOf(second.id)).toBeGreaterThan(await tokensOf(first.id))
    expect((await itemsOf(id)).map(({ role }) => role)).toEqual([
      'user',
      'user',
      'assistant',
      'user',
      'assistant',
    ])
    expect((await itemsOf(id)).map(({ text }) => text).slice(0, 2)).toEqual([
      'My name is Anna.',
      'Hello, river.',
    ])
    // Only what belongs to it: a response without it changes nothing.
    await openai.responses.create({ model: 'sim/echo', input: 'Elsewhere.' })
    expect(await itemsOf(id)).toHaveLength(5)
  })

  test('is counted with a request that names it', async () => {
    const { id } = await openai.conversations.create({ items: [said('water '.repeat(100))] })
    const count = async (more: object) => {
      const asked = { model: 'sim/echo', input: 'Hello.', ...more }
      return (await openai.responses.inputTokens.count(asked)).input_tokens
    }
    expect(await count({ conversation: id })).toBeGreaterThan((await count({})) + 90)
  })

  test('is gone on with in the background as well', async () => {
    const { id } = await openai.conversations.create({})
    const queued = await openai.responses.create({
      model: 'sim/echo',
      input: 'Hello.',
      conversation: id,
      background: true,
    })
    await fetch(`${weir.baseUrl}/responses/${queued.id}?stream=true`, {
      headers: { authorization: `Bearer ${weir.key}` },
    }).then((response) => response.text())
    expect((await itemsOf(id)).map(({ role }) => role)).toEqual(['user', 'assistant'])
  })

  test('is not changed by a response that fails', async () => {
    const { id } = await openai.conversations.create({ items: [said('One.')] })
    expect(await statusOf(openai.responses.create({ model: 'sim/none', input: 'x', conversation: id }))).toBe(
      404,
    )
    expect(await itemsOf(id)).toHaveLength(1)
  })

  test.each<[string, object, number, string]>([
    [
      'beside a response that it continues',
      { previous_response_id: `resp_${'0'.repeat(32)}` },
      400,
      'previous_response_id',
    ],
    ['without a store', { store: false }, 400, 'store'],
    ['that there is not', { conversation: 'conv_none' }, 404, 'conversation'],
    ['that is no id', { conversation: 7 }, 400, 'conversation'],
  ])('%s is refused', async (_, more, status, param) => {
    const { id } = await openai.conversations.create({})
    const body = { model: 'sim/echo', input: 'x', conversation: id, ...more }
    const response = await postAs(`${weir.baseUrl}/responses`, weir.key, body)
    const { error } = (await response.json()) as { error: { param: string } }
    expect([response.status, error.param]).toEqual([status, param])
  })

  test.each<[string, string, object, number]>([
    [
      'more items than at once',
      '/conversations',
      { items: Array.from({ length: 21 }, () => said('x')) },
      400,
    ],
    ['an item of an unknown type', '/conversations', { items: [{ type: 'riddle' }] }, 400],
    ['an unknown field', '/conversations', { itmes: [] }, 400],
    ['no items', '/conversations/conv_none/items', { items: [] }, 404],
  ])('with %s is refused', async (_, path, body, status) => {
    expect((await postAs(weir.baseUrl + path, weir.key, body)).status).toBe(status)
  })

  test('is nothing to another account', async () => {
    const { id } = await openai.conversations.create({ items: [said('One.')] })
    await weir.command('accounts', 'create', '--email', 'other@example.org')
    const made = await weir.command('keys', 'create', '--account', 'other@example.org', '--json')
    const other = new OpenAI({
      apiKey: (JSON.parse(made.stdout) as { key: string }).key,
      baseURL: weir.baseUrl,
      maxRetries: 0,
    })
    const tries = [
      other.conversations.retrieve(id),
      other.conversations.items.list(id),
      other.conversations.items.create(id, { items: [said('Two.')] }),
      other.conversations.update(id, { metadata: {} }),
      other.conversations.delete(id),
    ]
    for (const tried of tries) expect(await statusOf(tried)).toBe(404)
    expect(await itemsOf(id)).toHaveLength(1)
  })
})

test('all of it is in a ledger that proves itself', () => expectAudited(weir))
