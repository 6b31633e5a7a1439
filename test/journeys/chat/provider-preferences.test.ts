// What a request says of its provider is honoured or refused, on every protocol: nothing vanishes with status 200.

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { postAs } from '../../support/call-gateway.ts'
import type { ServedWeir } from '../../support/run-weir.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import {
  completion,
  plain,
  type ScriptedProvider,
  someUsage,
  startScriptedProvider,
} from '../../support/scripted-provider.ts'

let providers: Readonly<Record<'dear' | 'cheap' | 'private', ScriptedProvider>>
let weir: ServedWeir

beforeAll(async () => {
  const start = (words: string) =>
    startScriptedProvider({
      m: async (wire) => {
        await wire.write(plain(200, 'application/json', completion(words, someUsage)))
        wire.end()
      },
    })
  providers = { dear: await start('dear'), cheap: await start('cheap'), private: await start('private') }
  const offers = { dear: '3', cheap: '1', private: '2' }
  weir = await serveWeir({
    config: JSON.stringify({
      local_servers: { discover: false },
      providers: Object.fromEntries(
        Object.entries(providers).map(([id, { url }]) => [
          id,
          {
            protocol: 'openai-chat',
            base_url: url,
            api_key: 'k',
            ...(id === 'private' && { data_policy: 'zero_retention' }),
          },
        ]),
      ),
      models: [
        {
          id: 'lab/m',
          max_output_tokens: 4096,
          offers: Object.entries(offers).map(([provider, rate]) => ({
            provider,
            upstream: 'm',
            price: { input: rate, output: rate },
          })),
        },
      ],
    }),
  })
})

afterAll(async () => {
  await weir?.stop()
  await Promise.all(Object.values(providers ?? {}).map((each) => each.stop()))
})

const messages = [{ role: 'user', content: 'Hello' }]
const contents = [{ role: 'user', parts: [{ text: 'Hello' }] }]

const doors: readonly [string, object][] = [
  ['/v1/chat/completions', { model: 'lab/m', messages }],
  ['/v1/completions', { model: 'lab/m', prompt: 'Hello' }],
  ['/v1/responses', { model: 'lab/m', input: 'Hello' }],
  ['/v1/messages', { model: 'lab/m', messages, max_tokens: 10 }],
  ['/v1beta/models/lab/m:generateContent', { contents }],
  ['/v1/embeddings', { model: 'sim/embed', input: 'Hello' }],
  ['/v1/estimate', { model: 'lab/m', messages }],
]

const send = async (path: string, body: object) => {
  const response = await postAs(weir.origin + path, weir.key, body)
  return { status: response.status, text: await response.text() }
}

describe.each(doors)('%s', (path, body) => {
  test.each<[string, object, string]>([
    ['an unknown member', { zdrr: true }, 'provider.zdrr'],
    ['a preference that is not kept', { preferred_max_latency: 2 }, 'provider.preferred_max_latency'],
    ['a property that is not known', { quantizations: ['fp8'] }, 'provider.quantizations'],
    ['a price that is not known', { max_price: { audio: '1' } }, 'provider.max_price.audio'],
    ['an order that is not measured', { sort: 'throughput' }, 'provider.sort'],
    ['a partition', { sort: { by: 'price', partition: 'none' } }, 'provider.sort.partition'],
    ['two limits under two names', { max_price: { input: '1', prompt: '2' } }, 'provider.max_price.prompt'],
  ])('refuses %s', async (_, provider, param) => {
    const { status, text } = await send(path, { ...body, provider })
    expect([status, text.includes(`'${param}'`) || text.includes(`"${param}"`)]).toEqual([400, true])
  })

  test('lets members be that ask for nothing', async () => {
    const provider = {
      zdr: false,
      data_collection: 'allow',
      quantizations: [],
      sort: null,
      enforce_distillable_text: false,
      max_price: { prompt: 100, completion: '100', request: 0 },
    }
    expect((await send(path, { ...body, provider })).status).toBe(200)
  })
})

describe('of several providers', () => {
  test.each<[string, object, string]>([
    ['the first of the catalog serves', {}, 'dear'],
    ['the cheapest, sorted by price', { sort: 'price' }, 'cheap'],
    ['the cheapest, in the long form', { sort: { by: 'price' } }, 'cheap'],
    ['one below the limit, in the words of OpenRouter', { max_price: { prompt: 2.5 } }, 'cheap'],
    ['one that keeps nothing', { zdr: true }, 'private'],
    ['one that learns nothing', { data_collection: 'deny' }, 'private'],
  ])('%s', async (_, provider, served) => {
    // Alone first: the catalog's order decides between those that are left.
    const { text } = await send('/v1/chat/completions', { model: 'lab/m', messages, provider })
    expect(text).toContain(`"${served}"`)
  })

  test('none that keeps nothing is an error that names the rule', async () => {
    const provider = { zdr: true, ignore: ['private'] }
    const { status, text } = await send('/v1/chat/completions', { model: 'lab/m', messages, provider })
    expect(status).toBe(400)
    expect(text).toContain('leaves no provider')
  })

  test('the fastest, sorted by latency, once each has been asked', async () => {
    const provider = { sort: 'latency' }
    for (const only of ['dear', 'cheap', 'private'])
      await send('/v1/chat/completions', { model: 'lab/m', messages, provider: { only: [only] } })
    const { status } = await send('/v1/chat/completions', { model: 'lab/m', messages, provider })
    expect(status).toBe(200)
  })
})
