// Responses over a WebSocket: the events of the stream as frames, one settle a response, and nothing held afterwards.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { ResponsesWS } from 'openai/resources/responses/ws'
import { type Lab, startLab, until } from '../../chat/lab.ts'
import { type Provider, startPacedProvider } from '../../chat/paced-provider.ts'
import { expectAudited, postAs, receiptOf } from '../../support/call-gateway.ts'

interface Frame {
  readonly type: string
  readonly status?: number
  readonly stream_id?: string
  readonly error?: { readonly code: string; readonly param?: string | null; readonly message: string }
  readonly response?: {
    readonly id: string
    readonly status: string
    readonly output: readonly { readonly content?: readonly { readonly text: string }[] }[]
    readonly usage: { readonly cost: number } | null
  }
}

/** A client with nothing between it and the frames. */
class Client {
  readonly frames: Frame[] = []
  readonly socket: WebSocket
  readonly opened: Promise<boolean>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>

  constructor(url: string, headers: Readonly<Record<string, string>>) {
    this.socket = new WebSocket(url, { headers } as never)
    this.socket.addEventListener('message', ({ data }) => this.frames.push(JSON.parse(String(data)) as Frame))
    this.opened = new Promise((resolve) => {
      this.socket.addEventListener('open', () => resolve(true))
      this.socket.addEventListener('close', () => resolve(false))
    })
    this.closed = new Promise((resolve) =>
      this.socket.addEventListener('close', ({ code, reason }) => resolve({ code, reason })),
    )
  }

  /** Sends a request and gives the frame that ends it. */
  async ask(body: object, lane?: string): Promise<Frame> {
    const before = this.frames.length
    this.socket.send(JSON.stringify({ type: 'response.create', ...body, ...(lane && { stream_id: lane }) }))
    const ended = () =>
      this.frames.slice(before).find((frame) => ends.has(frame.type) && frame.stream_id === lane)
    return (await until(ended, (frame) => frame !== undefined))!
  }
}

const ends = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error'])

let provider: Provider
let lab: Lab
let openai: OpenAI
const words = ['The ', 'river ', 'runs ', 'to ', 'the ', 'sea.']

beforeAll(async () => {
  provider = startPacedProvider(words)
  lab = await startLab({
    providers: { paced: provider.url },
    models: { 'paced/m': ['paced/m'] },
    settings: { limits: { sockets_per_account: 6 }, server: { max_body_bytes: 100_000 } },
  })
  openai = new OpenAI({ apiKey: lab.weir.key, baseURL: lab.weir.baseUrl, maxRetries: 0 })
})

afterAll(async () => {
  await lab?.weir.stop()
  provider?.stop()
})

const url = () => `${lab.weir.baseUrl.replace('http', 'ws')}/responses`
async function connect(key = lab.weir.key): Promise<Client> {
  const client = new Client(url(), { authorization: `Bearer ${key}` })
  expect(await client.opened).toBe(true)
  return client
}
async function leave(client: Client): Promise<void> {
  client.socket.close()
  await client.closed
}
const rested = () => until(lab.held, (held) => held === '0')
const tokensOf = (receipt: Awaited<ReturnType<typeof receiptOf>>) => Number(receipt?.usage?.['prompt_tokens'])
const requestOf = (frame: Frame) => frame.response!.id.replace('resp_', 'req_')

test('the official client reads the events of a response, and a second one that continues it', async () => {
  const socket = new ResponsesWS(openai)
  const completed = async (send: object) => {
    socket.send({ type: 'response.create', ...send } as never)
    let text = ''
    for await (const event of socket.stream()) {
      if (event.type === 'error') throw event.error
      if (event.type !== 'message') continue
      const { message } = event
      if (message.type === 'response.output_text.delta') text += message.delta
      if (message.type === 'response.completed') return { response: message.response, text }
    }
    throw new Error('the socket has closed')
  }
  const first = await completed({ model: 'sim/echo', input: 'Hello, river.' })
  expect(first.text).toContain('Hello, river.')
  const second = await completed({
    model: 'sim/echo',
    input: 'And on?',
    previous_response_id: first.response.id,
  })
  expect(second.response.previous_response_id).toBe(first.response.id)
  socket.close()
  for (const { response } of [first, second]) {
    const receipt = await receiptOf(lab.weir, response.id.replace('resp_', 'req_'))
    expect(receipt!.total).toBe(
      String((response.usage as unknown as { cost_details: { total: string } }).cost_details.total),
    )
  }
})

describe('one socket', () => {
  test('gives the events that POST streams, in the same order', async () => {
    const body = { model: 'sim/echo', input: 'Hello, river.' }
    const streamed = await postAs(`${lab.weir.baseUrl}/responses`, lab.weir.key, { ...body, stream: true })
    const named = [...(await streamed.text()).matchAll(/^event: (.*)$/gm)].map(([, name]) => name)
    const client = await connect()
    await client.ask(body)
    expect(client.frames.map(({ type }) => type)).toEqual(named as string[])
    await leave(client)
  })

  test('continues what is not stored by its id, and counts what it reads again', async () => {
    const client = await connect()
    const first = await client.ask({ model: 'sim/echo', input: 'One.', store: false })
    const second = await client.ask({
      model: 'sim/echo',
      input: 'Two.',
      store: false,
      previous_response_id: first.response!.id,
    })
    const [one, two] = await Promise.all(
      [first, second].map((frame) => receiptOf(lab.weir, requestOf(frame))),
    )
    expect(tokensOf(two)).toBeGreaterThan(tokensOf(one))
    // Elsewhere nobody knows it.
    const other = await connect()
    const lost = await other.ask({
      model: 'sim/echo',
      input: 'Three.',
      previous_response_id: second.response!.id,
    })
    expect(lost).toMatchObject({ type: 'error', status: 400, error: { code: 'previous_response_not_found' } })
    await Promise.all([client, other].map(leave))
  })

  test('warms up without a charge, and goes on from there', async () => {
    const client = await connect()
    const before = await lab.used()
    const warm = await client.ask({
      model: 'sim/echo',
      input: 'Once upon a time.',
      generate: false,
      store: false,
    })
    expect(warm.response).toMatchObject({ status: 'completed', output: [] })
    expect(await lab.used()).toBe(before)
    const next = await client.ask({
      model: 'sim/echo',
      input: 'Go on.',
      store: false,
      previous_response_id: warm.response!.id,
    })
    const receipt = await receiptOf(lab.weir, requestOf(next))
    const alone = await client.ask({ model: 'sim/echo', input: 'Go on.', store: false })
    const aloneReceipt = await receiptOf(lab.weir, requestOf(alone))
    expect(tokensOf(receipt)).toBeGreaterThan(tokensOf(aloneReceipt))
    expect(await client.ask({ model: 'sim/none', input: 'x', generate: false })).toMatchObject({
      error: { code: 'model_not_found' },
    })
    await leave(client)
  })

  test.each<[string, object, number, string, string | undefined]>([
    ['another type', { type: 'response.steer' }, 400, 'invalid_request', 'type'],
    ['an unknown model', { model: 'sim/none', input: 'x' }, 404, 'model_not_found', undefined],
    ['a field of the wrong type', { model: 'sim/echo', input: 7 }, 400, 'invalid_request', 'input'],
    [
      'background',
      { model: 'sim/echo', input: 'x', background: true },
      400,
      'unsupported_parameter',
      'background',
    ],
    [
      'an unkept rule',
      { model: 'sim/echo', input: 'x', provider: { zdrr: true } },
      400,
      'unsupported_parameter',
      'provider.zdrr',
    ],
  ])('refuses %s in a frame, and serves the next', async (_, body, status, code, param) => {
    const client = await connect()
    const refused = await client.ask(body)
    expect(refused).toMatchObject({ type: 'error', status, error: { code, ...(param && { param }) } })
    expect((await client.ask({ model: 'sim/echo', input: 'x' })).type).toBe('response.completed')
    await leave(client)
  })

  test('answers garbage and bytes with an error, and stays open', async () => {
    const client = await connect()
    client.socket.send('{"type":')
    client.socket.send(new Uint8Array([1, 2, 3]))
    await until(() => client.frames.length === 2)
    expect(client.frames.map(({ type, status }) => [type, status])).toEqual([
      ['error', 400],
      ['error', 400],
    ])
    expect((await client.ask({ model: 'sim/echo', input: 'x' })).type).toBe('response.completed')
    await leave(client)
  })

  test('is closed by a frame above the limit of a body', async () => {
    const client = await connect()
    client.socket.send(
      JSON.stringify({ type: 'response.create', model: 'sim/echo', input: 'x'.repeat(100_001) }),
    )
    expect((await client.closed).code).toBe(1009)
  })

  test('has a response of each lane under way, and no second of one', async () => {
    const client = await connect()
    const body = { model: 'paced/m', input: 'Where?' }
    const [a, b] = [client.ask(body, 'a'), client.ask(body, 'b')]
    const again = await client.ask(body, 'a')
    expect(again).toMatchObject({ type: 'error', error: { param: 'stream_id' } })
    expect((await b).type).toBe('response.completed')
    await a
    await until(() => client.frames.filter(({ type }) => type === 'response.completed').length === 2)
    await leave(client)
  })

  test.each([1, 3, 5, 8])(
    'left after %p frames ends the work of the provider, and holds nothing',
    async (frames) => {
      const client = await connect()
      const call = provider.calls.length
      client.socket.send(JSON.stringify({ type: 'response.create', model: 'paced/m', input: 'Where?' }))
      await until(() => client.frames.length >= frames)
      Reflect.get(client.socket, 'terminate').call(client.socket)
      await until(() => provider.calls[call]!.ending !== 'open', 2_000)
      await rested()
    },
  )
})

describe('who may open one', () => {
  test('nobody without a key, and nobody one too many', async () => {
    const refused = new Client(url(), { authorization: 'Bearer wrong' })
    expect(await refused.opened).toBe(false)
    const open: Client[] = []
    for (let count = 0; count < 6; count++) open.push(await connect())
    const tooMany = new Client(url(), { authorization: `Bearer ${lab.weir.key}` })
    expect(await tooMany.opened).toBe(false)
    await Promise.all(open.map(leave))
    await leave(await connect())
  })

  test('a plain GET is told to post', async () => {
    const response = await fetch(`${lab.weir.baseUrl}/responses`)
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST'])
  })

  test('a key that is revoked closes its idle socket within a second, and a busy one', async () => {
    const made = await lab.weir.command('keys', 'create', '--account', 'owner@localhost', '--json')
    const { key, id } = JSON.parse(made.stdout) as { key: string; id: string }
    const [idle, busy] = [await connect(key), await connect(key)]
    busy.socket.send(JSON.stringify({ type: 'response.create', model: 'paced/m', input: 'Where?' }))
    await until(() => busy.frames.length > 0)
    const began = performance.now()
    await lab.weir.command('keys', 'revoke', id)
    const revoked = performance.now()
    const ended = await Promise.all([idle.closed, busy.closed])
    expect(ended.map(({ code }) => code)).toEqual([1008, 1008])
    expect(performance.now() - revoked).toBeLessThan(1_000 + (revoked - began))
    await rested()
  })
})

test('where sockets are switched off the handshake is answered by 426', async () => {
  await using off = (
    await startLab({ providers: {}, models: {}, settings: { server: { websocket: false } } })
  ).weir
  const response = await fetch(`${off.baseUrl}/responses`, {
    headers: {
      authorization: `Bearer ${off.key}`,
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    },
  })
  expect([response.status, await response.json()]).toMatchObject([
    426,
    { error: { code: 'websocket_disabled' } },
  ])
})

test('a stop waits for the response under way, and closes what is idle', async () => {
  const other = await startLab({ providers: { paced: provider.url }, models: { 'paced/m': ['paced/m'] } })
  const at = `${other.weir.baseUrl.replace('http', 'ws')}/responses`
  const headers = { authorization: `Bearer ${other.weir.key}` }
  const [idle, busy] = [new Client(at, headers), new Client(at, headers)]
  expect([await idle.opened, await busy.opened]).toEqual([true, true])
  busy.socket.send(JSON.stringify({ type: 'response.create', model: 'paced/m', input: 'Where?' }))
  await until(() => busy.frames.length > 0)
  const stopped = other.weir.stop()
  expect((await idle.closed).code).toBe(1001)
  expect((await busy.closed).code).toBe(1001)
  expect(busy.frames.at(-1)!.type).toBe('response.completed')
  expect(await stopped).toBe(0)
})

test('all of it is in a ledger that proves itself', async () => {
  await rested()
  await expectAudited(lab.weir)
})
