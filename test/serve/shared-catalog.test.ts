// The catalog that gateways share is checked as a file is, beside calls.

import { expect, test } from 'bun:test'
import { bundledCatalog } from '../../src/catalog/bundled/bundled.ts'
import { catalogFileShared, parseCatalogFile } from '../../src/serve/gateway/catalog.ts'

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
