// Responses in the background: made behind their client's back, followed from any point, cancelled, charged once.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { expectAudited, postAs, receiptOf } from '../../support/call-gateway.ts'
import { type RunningWeir, startWeir } from '../../support/run-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const words = ['The ', 'river ', 'runs ', 'to ', 'the ', 'sea.']
let provider: Provider
let lab: Lab
let openai: OpenAI

const models = {
  providers: (url: string) => ({ paced: url }),
  models: { 'paced/m': ['paced/m'] },
}

beforeAll(async () => {
  provider = startPacedProvider(words)
  lab = await startLab({
    providers: models.providers(provider.url),
    models: models.models,
    settings: { limits: { background_per_account: 3 } },
  })
  openai = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})

afterAll(async () => {
  await lab?.weir.stop()
  provider?.stop()
})

const body = { model: 'paced/m', input: 'Where does it run?', background: true } as const
const rested = () => until(lab.held, (held) => held === '0')
/** The response once it has ended: a reader of its events is told of that last. */
async function ended(id: string) {
  await (await follow(lab.weir, id)).text()
  return openai.responses.retrieve(id)
}
/** What a request that fails is answered with. */
const statusOf = (asked: PromiseLike<unknown>) =>
  asked.then(
    () => 200,
    (error: { status: number }) => error.status,
  )
const requestOf = (id: string) => id.replace('resp_', 'req_')

interface Event {
  readonly type: string
  readonly sequence_number: number
  readonly response?: { readonly status: string; readonly output: readonly unknown[] }
}

async function eventsOf(response: Response): Promise<Event[]> {
  const text = await response.text()
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data]) => JSON.parse(data!) as Event)
}
const follow = (weir: { baseUrl: string; key: string }, id: string, after?: number, key = weir.key) =>
  fetch(
    `${weir.baseUrl}/responses/${id}?stream=true${after === undefined ? '' : `&starting_after=${after}`}`,
    { headers: { authorization: `Bearer ${key}` } },
  )

describe('a response in the background', () => {
  test('is queued at once, made without its client, asked for, and charged once', async () => {
    const queued = await openai.responses.create(body)
    expect(queued).toMatchObject({ status: 'queued', background: true, output: [] })
    const response = await ended(queued.id)
    expect(response).toMatchObject({ status: 'completed', background: true, model: 'paced/m' })
    expect(response.output_text).toBe(words.join(''))
    const { cost_details } = response.usage as unknown as { cost_details: { total: string } }
    expect((await receiptOf(lab.weir, requestOf(queued.id)))!.total).toBe(cost_details.total)
    await rested()
    // It can be continued like any other.
    const next = await openai.responses.create({
      model: 'sim/echo',
      input: 'And on?',
      previous_response_id: queued.id,
    })
    expect(next.status).toBe('completed')
  })

  test('is followed while it is made, and from any event on, by whoever asks', async () => {
    const { id } = await openai.responses.create(body)
    const all = await eventsOf(await follow(lab.weir, id))
    expect(all.map(({ sequence_number }) => sequence_number)).toEqual(all.map((_, at) => at))
    expect(all.at(-1)!.type).toBe('response.completed')
    for (const after of [0, 3, all.length - 2, all.length - 1])
      expect(await eventsOf(await follow(lab.weir, id, after))).toEqual(all.slice(after + 1))
  })

  test('is a stream for a client that asks for one, and goes on when it leaves', async () => {
    const stream = await openai.responses.create({ ...body, stream: true })
    let id = ''
    let last = -1
    for await (const event of stream) {
      if (event.type === 'response.created') id = event.response.id
      last = event.sequence_number
      if (last === 4) break
    }
    const rest = await openai.responses.retrieve(id, { stream: true, starting_after: last })
    const seen: string[] = []
    for await (const event of rest) {
      expect(event.sequence_number).toBe((last += 1))
      seen.push(event.type)
    }
    expect(seen.at(-1)).toBe('response.completed')
    expect((await ended(id)).output_text).toBe(words.join(''))
  })

  test.each([0, 3])(
    'is cancelled after %p events: the provider’s work ends, and no more is charged',
    async (events) => {
      const call = provider.calls.length
      const { id } = await openai.responses.create(body)
      if (events > 0) {
        const reader = (await follow(lab.weir, id)).body!.getReader()
        for (let read = 0; read < events; read++) await reader.read()
        await reader.cancel()
      }
      const cancelled = await openai.responses.cancel(id)
      expect(cancelled.status).toBe('cancelled')
      await rested()
      if (provider.calls[call] !== undefined)
        await until(() => provider.calls[call]!.ending !== 'open', 2_000)
      expect((await openai.responses.retrieve(id)).status).toBe('cancelled')
      const again = await openai.responses.cancel(id)
      expect(again.status).toBe('cancelled')
    },
  )

  test('that has ended is not changed by a cancel; one of the foreground cannot be cancelled', async () => {
    const { id } = await openai.responses.create(body)
    await ended(id)
    expect((await openai.responses.cancel(id)).status).toBe('completed')
    const plain = await openai.responses.create({ model: 'sim/echo', input: 'x' })
    expect(await statusOf(openai.responses.cancel(plain.id))).toBe(400)
    expect(await statusOf(openai.responses.cancel(`resp_${'0'.repeat(32)}`))).toBe(404)
  })

  test('is refused at once where it would be in the foreground, and leaves nothing', async () => {
    for (const [more, status] of [
      [{ model: 'sim/none' }, 404],
      [{ store: false }, 400],
      [{ max_cost: '0.000001' }, 400],
      [{ input: 7 }, 400],
    ] as const) {
      const response = await postAs(`${lab.weir.baseUrl}/responses`, lab.weir.key, { ...body, ...more })
      const { error } = (await response.json()) as { error: object }
      expect([more, response.status, error]).toEqual([more, status, expect.any(Object)])
    }
    await rested()
  })

  const keyed = (key: string, more: object = {}) =>
    postAs(
      `${lab.weir.baseUrl}/responses`,
      lab.weir.key,
      { ...body, ...more },
      { headers: { 'idempotency-key': key } },
    )
  const idOf = async (answer: Response) => ((await answer.json()) as { id: string }).id

  test('is one for one Idempotency-Key, and another request with it is refused', async () => {
    const [first, second] = [await keyed('one'), await keyed('one')]
    expect(first.headers.get('idempotency-replayed')).toBeNull()
    expect(second.headers.get('idempotency-replayed')).toBe('true')
    const ids = [await idOf(first), await idOf(second)]
    expect(ids[0]).toBe(ids[1]!)
    const streamed = await keyed('two', { stream: true })
    const again = await keyed('two', { stream: true })
    expect(again.headers.get('idempotency-replayed')).toBe('true')
    expect(await eventsOf(again)).toEqual(await eventsOf(streamed))
    expect((await keyed('one', { input: 'Another?' })).status).toBe(409)
    expect((await keyed('no key')).status).toBe(400)
    await ended(ids[0]!)
  })

  test('of one account too many is refused, but not one that is asked for again', async () => {
    const made = await Promise.all(['a', 'b', 'c'].map(async (key) => idOf(await keyed(key))))
    expect((await keyed('d')).status).toBe(429)
    expect(await idOf(await keyed('a'))).toBe(made[0]!)
    await Promise.all(made.map((id) => ended(id)))
    await ended(await idOf(await keyed('d')))
  })

  test('is nothing to another account, and gone when it is deleted', async () => {
    const other = await lab.weir.command('accounts', 'create', '--email', 'other@example.org')
    expect(other.code).toBe(0)
    const made = await lab.weir.command('keys', 'create', '--account', 'other@example.org', '--json')
    const { key } = JSON.parse(made.stdout) as { key: string }
    const { id } = await openai.responses.create(body)
    expect((await follow(lab.weir, id, undefined, key)).status).toBe(404)
    await openai.responses.delete(id)
    expect(await statusOf(openai.responses.retrieve(id))).toBe(404)
    expect((await follow(lab.weir, id)).status).toBe(404)
    await rested()
  })
})

test('a gateway that dies leaves a response that has failed, with the events so far; nothing stays held', async () => {
  const home = tempDir('weir-background-')
  const config = JSON.stringify({
    local_servers: { discover: false },
    providers: { paced: { protocol: 'openai-chat', api_key: 'k', base_url: provider.url } },
    models: [{ id: 'paced/m', price: { input: '1', output: '2' }, max_output_tokens: 4096 }],
  })
  const start = () => startWeir({ config, dataDir: home.join('data') })
  let weir: RunningWeir = await start()
  const { key } = weir
  const sent = await postAs(`${weir.baseUrl}/responses`, key, { ...body, input: 'slow' })
  const { id } = (await sent.json()) as { id: string }
  const reader = (await follow(weir, id)).body!.getReader()
  let read = ''
  while ((read.match(/^data: /gm)?.length ?? 0) < 4)
    read += new TextDecoder().decode((await reader.read()).value)
  await weir.kill()
  weir = await start()
  try {
    const headers = { authorization: `Bearer ${key}` }
    const shown = (await (await fetch(`${weir.baseUrl}/responses/${id}`, { headers })).json()) as object
    expect(shown).toMatchObject({ id, status: 'failed', error: { code: 'server_error' } })
    const events = await eventsOf(await follow(weir, id, undefined, key))
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at))
    expect(events.at(-1)!.type).toBe('response.failed')
    const { data } = (await (await fetch(`${weir.origin}/v1/credits`, { headers })).json()) as {
      data: { held: string }
    }
    expect(data.held).toBe('0')
    await expectAudited(weir)
  } finally {
    await weir.stop()
    home.remove()
  }
})

test('all of it is in a ledger that proves itself', () => expectAudited(lab.weir))
