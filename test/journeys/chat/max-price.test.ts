// A limit of price is compared with what the request would pay: some prices rise with the length of the prompt.

import { afterAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { postAs } from '../../support/call-gateway.ts'
import { serveWeir } from '../../support/serve-weir.ts'
import { tempDir } from '../../support/tmp.ts'

const dir = tempDir('weir-max-price-')
afterAll(() => dir.remove())

const price = { input: '1', output: '2', tiers: [{ above_prompt_tokens: 1_000, input: '4', output: '8' }] }
const catalog = {
  date: '2026-11-01',
  sources: [],
  unpriced: [],
  models: [
    {
      id: 'sim/tiered',
      offers: [{ provider: 'sim', upstream: 'echo', price }],
      source: 'import',
      date: '2026-11-01',
    },
  ],
}

test('provider.max_price refuses a long prompt whose tier is dearer, and serves a short one', async () => {
  writeFileSync(dir.join('catalog.json'), JSON.stringify(catalog))
  await using weir = await serveWeir({ dataDir: dir.path })
  const created = await weir.command('keys', 'create', '--account', 'owner@localhost', '--json')
  const { key } = JSON.parse(created.stdout) as { key: string }
  const send = async (path: string, words: number, input: string) => {
    const response = await postAs(`${weir.baseUrl}/${path}`, key, {
      model: 'sim/tiered',
      messages: [{ role: 'user', content: 'water '.repeat(words) }],
      max_tokens: 5,
      provider: { max_price: { input } },
    })
    const { error } = (await response.json()) as { error?: { param?: string } }
    return [response.status, error?.param]
  }
  const refused = [400, 'provider.max_price']
  for (const path of ['chat/completions', 'estimate']) {
    expect(await send(path, 10, '1')).toEqual([200, undefined])
    // In bytes it could be above the tier, but not in tokens.
    expect(await send(path, 800, '1')).toEqual([200, undefined])
    expect(await send(path, 1_100, '1')).toEqual(refused)
    expect(await send(path, 1_100, '4')).toEqual([200, undefined])
  }
})
