// The price that an operator sets is the price that is charged, whatever the imported catalog says.

import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const dir = tempDir('weir-price-overrides-')
afterAll(() => dir.remove())

/** As `weir catalog import` stores it: each model has an offer with a price of its own, and no other. */
const imported = (ids: readonly string[]) => ({
  date: '2026-11-01',
  sources: [],
  unpriced: [],
  models: ids.map((id) => ({
    id,
    offers: [{ provider: 'sim', upstream: 'echo', price: { input: '1', output: '2' } }],
    source: 'import',
    date: '2026-11-01',
  })),
})

const config = `models:
  - { id: sim/dearer, price: { input: '10', output: '20' } }
  - { id: sim/free, price: free }
  - { id: sim/renamed, name: Another name }
  # Models of a local server are free only where there is no price.
  - { id: ollama/renamed, name: Another name }
`

test('a call is estimated, held, charged and listed at the price of weir.yaml, not at that of the imported offer', async () => {
  const ids = ['sim/imported', 'sim/dearer', 'sim/free', 'sim/renamed', 'ollama/renamed']
  writeFileSync(dir.join('catalog.json'), JSON.stringify(imported(ids)))
  await using weir = await serveWeir({ config, dataDir: dir.path })
  const created = await weir.command('keys', 'create', '--account', 'owner@localhost', '--json')
  const { key } = JSON.parse(created.stdout) as { key: string }
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const post = async (path: string, body: object) => {
    const response = await fetch(`${weir.baseUrl}/${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    return { id: response.headers.get('x-request-id'), json: (await response.json()) as Json }
  }
  const get = async (path: string) =>
    (await (await fetch(`${weir.baseUrl}/${path}`, { headers })).json()) as Json

  const charged = []
  for (const model of ids) {
    const body = { model, messages: [{ role: 'user', content: 'Hello, river.' }], max_tokens: 50 }
    const estimate = (await post('estimate', body)).json
    const { id, json } = await post('chat/completions', body)
    const receipt = await get(`generation?id=${id}`)
    const listed = await get(`models/${model}`)
    const { prompt_tokens: input, completion_tokens: output, cost } = json['usage'] as Record<string, number>
    charged.push({
      model,
      tokens: [input, output],
      cost,
      receipt: Object(receipt['data'])['charged'],
      listed: Object(listed['pricing'])['completion'],
      covered: Number(estimate['maximum']) >= (cost ?? 0),
    })
  }
  const each = { tokens: [7, 2], covered: true }
  expect(charged).toEqual([
    // 7 × 1 + 2 × 2 and 7 × 10 + 2 × 20 millionths of a dollar
    { model: 'sim/imported', cost: 0.000011, receipt: '0.000011', listed: '0.000002', ...each },
    { model: 'sim/dearer', cost: 0.00011, receipt: '0.00011', listed: '0.00002', ...each },
    { model: 'sim/free', cost: 0, receipt: '0', listed: '0', ...each },
    { model: 'sim/renamed', cost: 0.000011, receipt: '0.000011', listed: '0.000002', ...each },
    { model: 'ollama/renamed', cost: 0.000011, receipt: '0.000011', listed: '0.000002', ...each },
  ])
  // 100 USD less three calls at 11 millionths and one at 110.
  const { available } = JSON.parse(
    (await weir.command('credits', 'show', '--account', 'owner@localhost', '--json')).stdout,
  ) as Json
  expect(available).toBe('99.999857')
})

type Json = Readonly<Record<string, unknown>>
