// Inference servers come and go beside a running gateway: their models are listed while they run, can be called by
// accounts without any credit, and are gone when the server is.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  accountWith,
  eventually,
  expectAudited,
  expectPrinted,
  post,
  receiptOf,
  postAs,
} from '../../support/call-gateway.ts'
import { freePort, type ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'

interface Listed {
  readonly id: string
  readonly context_length: number | null
  readonly architecture: { readonly output_modalities: readonly string[] }
}

let weir: ServedWeir
let key: string
let port: number
let server: ReturnType<typeof startOllama> | undefined

const models = ['llama3.2:latest', 'nomic-embed-text:latest']

function startOllama(onPort: number) {
  return Bun.serve({
    hostname: '127.0.0.1',
    port: onPort,
    routes: {
      '/api/tags': () => Response.json({ models: models.map((name) => ({ name, digest: name })) }),
      '/api/show': async (request) => {
        const { model } = (await request.json()) as { model: string }
        const embeds = model.startsWith('nomic')
        return Response.json({
          model_info: { 'llama.context_length': embeds ? 2_048 : 131_072 },
          capabilities: embeds ? ['embedding'] : ['completion'],
        })
      },
      '/api/chat': async (request) => {
        const { model } = (await request.json()) as { model: string }
        return Response.json({
          model,
          created_at: '2026-01-01T00:00:00Z',
          message: { role: 'assistant', content: `by ${model}` },
          done: true,
          done_reason: 'stop',
          prompt_eval_count: 3,
          eval_count: 2,
        })
      },
      '/v1/embeddings': () =>
        Response.json({
          object: 'list',
          data: [{ object: 'embedding', index: 0, embedding: [0.6, 0.8] }],
          usage: { prompt_tokens: 2, total_tokens: 2 },
        }),
    },
  })
}

async function available(): Promise<readonly Listed[]> {
  const response = await fetch(`${weir.baseUrl}/models?available=true`)
  return ((await response.json()) as { data: readonly Listed[] }).data
}
const ours = async () => (await available()).filter(({ id }) => id.startsWith('ollama/'))
const call = (model: string) => post(weir, { model, messages: [{ role: 'user', content: 'Hello' }] }, { key })

beforeAll(async () => {
  port = await freePort()
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false, every_ms: 100 },
      providers: { ollama: { base_url: `http://127.0.0.1:${port}` } },
      models: [
        { id: 'ollama/mine', upstream: 'llama3.2:latest', context_length: 4_096 },
        { id: 'openai/gpt-priced-by-nobody' },
      ],
    }),
  })
  key = (await accountWith(weir, 'poor@example.org', {})).key
}, 30_000)
afterAll(async () => {
  await server?.stop(true)
  await weir?.stop()
})

describe.serial('an inference server', () => {
  test('that does not run offers nothing', async () => {
    expect(await ours()).toEqual([])
    expect((await available()).map(({ id }) => id)).toContain('sim/echo')
    expect((await available()).every(({ id }) => id.startsWith('sim/'))).toBe(true)
  })

  test('that starts later is found, with what it says of its models', async () => {
    server = startOllama(port)
    const found = await eventually(ours, (list) => list.length === 3)
    expect(
      found.map(({ id, context_length, architecture }) => [
        id,
        context_length,
        architecture.output_modalities,
      ]),
    ).toEqual([
      ['ollama/llama3.2:latest', 131_072, ['text']],
      ['ollama/mine', 4_096, ['text']],
      ['ollama/nomic-embed-text:latest', 2_048, ['embeddings']],
    ])
    await expectPrinted(weir, 'a local server was found')
    const listed = JSON.parse((await weir.command('models', '--available', '--json')).stdout) as Listed[]
    expect(listed.filter(({ id }) => id.startsWith('ollama/')).map(({ id }) => id)).toEqual(
      found.map(({ id }) => id),
    )
  })

  test.each([
    ['ollama/llama3.2:latest', 'by llama3.2:latest'],
    ['ollama/mine', 'by llama3.2:latest'],
  ])('answers %s to an account without credit, and the receipt is of nothing', async (model, content) => {
    const answer = await call(model)
    expect(answer).toMatchObject({ status: 200, content })
    const requestId = answer.requestId
    expect(await receiptOf(weir, requestId, key)).toMatchObject({
      total: '0',
      charged: '0',
      absorbed: '0',
      drawn: [],
    })
  })

  test('embeds for it too', async () => {
    const response = await postAs(`${weir.baseUrl}/embeddings`, key, {
      model: 'ollama/nomic-embed-text:latest',
      input: 'Hello',
    })
    expect(await response.json()).toMatchObject({ data: [{ embedding: [0.6, 0.8] }] })
  })

  test('does not open what has a price', async () => {
    expect(await call('sim/echo')).toMatchObject({ status: 402 })
  })

  test('that has gone leaves the list', async () => {
    await server?.stop(true)
    expect(await eventually(ours, (list) => list.length === 0)).toEqual([])
    await expectPrinted(weir, 'a local server was lost')
  })

  test('leaves a sound ledger', () => expectAudited(weir))
})

describe('GET /v1/models', () => {
  test('is compressed for clients that take gzip, and only for them', async () => {
    const ask = (encoding: string) =>
      fetch(`${weir.baseUrl}/models`, { headers: { 'accept-encoding': encoding }, decompress: false })
    const [plain, zipped] = await Promise.all([ask('identity'), ask('gzip, br')])
    expect([plain.headers.get('content-encoding'), zipped.headers.get('content-encoding')]).toEqual([
      null,
      'gzip',
    ])
    expect(zipped.headers.get('vary')).toContain('accept-encoding')
    const [whole, small] = await Promise.all([plain.bytes(), zipped.bytes()])
    expect(Bun.gunzipSync(small)).toEqual(whole)
    expect(small.length).toBeLessThan(whole.length / 15)
    const again = await fetch(`${weir.baseUrl}/models`, {
      headers: { 'if-none-match': zipped.headers.get('etag') ?? '' },
    })
    expect(again.status).toBe(304)
  })

  test('names what is available: true or false', async () => {
    const ask = (value: string) => fetch(`${weir.baseUrl}/models?available=${value}`)
    const count = async (value: string) =>
      ((await (await ask(value)).json()) as { data: unknown[] }).data.length
    expect(await count('false')).toBeGreaterThan(1_000)
    expect(await count('true')).toBeLessThan(30)
    const neither = await ask('perhaps')
    expect(neither.status).toBe(400)
    expect(await neither.json()).toMatchObject({ error: { param: 'available' } })
  })
})
