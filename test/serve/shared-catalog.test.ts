// The catalog that gateways share is checked as a file is, beside calls.

import { expect, test } from 'bun:test'
import { loadConfig } from '../../src/config/config.ts'
import { bundledCatalog } from '../../src/catalog/bundled/bundled.ts'
import { until } from '../chat/lab.ts'
import {
  catalogFileShared,
  keepComparing,
  liveOf,
  parseCatalogFile,
  saleMark,
} from '../../src/serve/gateway/catalog.ts'

test('it is the bundled one without a file, else what the file says, and its faults name their places', async () => {
  const bundled = bundledCatalog()
  expect(await catalogFileShared({ revision: 0, file: null })).toEqual(bundled)
  const text = JSON.stringify(bundled)
  expect(await catalogFileShared({ revision: 1, file: text })).toEqual(parseCatalogFile('catalog.json', text))
  const models = bundled.models.map((row, at) => (at === 123 ? { ...row, id: 7 } : row))
  const faulty = (file: string) => catalogFileShared({ revision: 2, file })
  await expect(faulty(JSON.stringify({ ...bundled, models }))).rejects.toThrow('models.123.id')
  await expect(faulty('{"date":"2026-01-01"}')).rejects.toThrow('models:')
  await expect(faulty('{')).rejects.toThrow('is not JSON')
})

/** What is in force with this configuration. */
function liveWith(yaml: string) {
  const loaded = loadConfig({ flags: { config: 'weir.yaml' }, env: {}, cwd: '/', readFile: () => yaml })
  if (loaded.kind === 'faulty') throw new Error('the configuration is faulty')
  return liveOf(loaded.config, [], bundledCatalog())
}

const dearer = 'models: [{ id: sim/echo, price: { input: "9", output: "9" } }]'

test('gateways that sell the same have one mark, whatever else differs, and another price is another one', () => {
  const mark = (yaml: string) => saleMark(liveWith(yaml))
  expect(mark('server: { port: 9000 }')).toBe(mark('log: { level: debug }'))
  const marks = [
    '',
    dearer,
    'providers: { sim: { price: free } }',
    'aliases: { mine: sim/echo }',
    'catalog: { hide: ["sim/*"] }',
  ]
  expect(new Set(marks.map(mark)).size).toBe(marks.length)
})

test('the log says once that gateways differ, when it stays so, and once that they do not any more', async () => {
  const live = liveWith('')
  const [own, said]: [string[], string[]] = [[], []]
  let others = 'another'
  let looks = 0
  const alive = { version: '', seenAt: 0, isSilent: false, leads: false }
  const silent = { ...alive, name: 'gone', isSilent: true, sells: 'else' }
  const log = { warn: (text: string) => void said.push(text), info: (text: string) => void said.push(text) }
  const comparing = keepComparing(
    live,
    {
      tell: (sells) => Promise.resolve(void own.push(sells)),
      list: () => {
        looks++
        const all = [own[0]!, others].map((sells, n) => ({ ...alive, name: String(n), sells }))
        return Promise.resolve([...all, silent])
      },
    },
    log,
    1,
  )
  await until(() => looks > 4)
  others = own[0]!
  await until(() => said.length > 1)
  comparing.stop()
  expect(own).toEqual([saleMark(live)])
  expect(said).toEqual([
    'gateways have different models or prices: their settings or versions differ',
    'gateways have the same models and prices again',
  ])
})
